"""Answers to the exercises of lesson 12, right and wrong."""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _FORGETS, _Derf, _Logits

logits = functools.partial(instead, _Logits)

# ----------------------------------------------------------------------------------------------- 12.3 derf


class OtherNames(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.s = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.0))
        self.gamma, self.beta = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )

    def forward(self, x):
        return self.gamma * torch.erf(self.a * x + self.s) + self.beta


# ----------------------------------------------------------------------------------------------- 12.4 clinic


class LengthOne(nn.Module):
    """Unit length, and a learned number in front."""

    def __init__(self, head_size):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(head_size**0.5))

    def forward(self, q, k):
        return self.g * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


ANSWERS = {
    "forgets": {
        "right": {
            "the solution": _FORGETS,
            "commas, capital letters, another order": _FORGETS
            | {"LayerNorm": "F, e, c, b, a", "GroupNorm": "e c"},
            "lists and a tuple": {norm: list(letters) for norm, letters in _FORGETS.items()}
            | {"BatchNorm": ("d",)},
        },
        "wrong": {
            "nothing typed": (
                dict.fromkeys(_FORGETS, "") | {"LayerNorm": "abcef"},
                "No letter is typed",
            ),
            "another letter": (_FORGETS | {"RMSNorm": "bcefg"}, "Right so far: LayerNorm"),
        },
    },
    "centered_layer": {
        "right": {
            "tensors": {
                "weight": torch.tensor([[2, 2], [-2, -1], [1, 0], [-1, -1]]),
                "bias": torch.tensor([-1, 1, -2, 2]),
            }
        }
    },
    "derf": {
        "right": {
            "the solution": _Derf,
            "in one line": instead(
                _Derf,
                "return torch.addcmul(self.bias, self.weight, torch.erf(self.alpha * x + self.shift))",
            ),
        },
        "wrong": {
            "other names": (OtherNames, "its parameters"),
            "without super": (instead(_Derf, "super()"), "super().__init__() must come first"),
        },
    },
    "nanochat": {
        "right": {
            "two decimals": {
                "calls": 50,
                "learned": 0,
                "sees shift": True,
                "query": 128,
                "attention": 11.31,
            }
        }
    },
    "qk_logits_module": {
        "right": {
            "the solution": _Logits,
            "LayerNorm with bias": logits(
                "self.norm_q, self.norm_k = nn.LayerNorm(head_size), nn.LayerNorm(head_size)"
            ),
            "RMSNorm": logits(
                "self.norm_q, self.norm_k = nn.RMSNorm(head_size), nn.RMSNorm(head_size)"
            ),
            "one RMSNorm for both": logits(
                "self.norm_q = self.norm_k = nn.RMSNorm(head_size, eps=1e-6)"
            ),
            "length 1 and a number": LengthOne,
        },
        "wrong": {
            "a plain list": (
                logits(
                    "self.norm_q, self.norm_k = [nn.LayerNorm(head_size)], [nn.LayerNorm(head_size)]\n"
                    "q_hat, k_hat = self.norm_q[0](q), self.norm_k[0](k)"
                ),
                "plain list",
            ),
            "normalized and clamped": (
                logits("return (q_hat @ k_hat.mT / q.shape[-1] ** 0.5).clamp(-1, 1)"),
                "has not the largest score",
            ),
            "clamped": (
                logits("return (q @ k.mT / 8**0.5).clamp(-2.8, 2.8)"),
                "scores when queries",
            ),
            "the queries detached": (logits("q_hat = self.norm_q(q.detach())"), "q"),
            "divided by sqrt(8)": (logits("return q_hat @ k_hat.mT / 8**0.5"), "if d is 40"),
        },
    },
}

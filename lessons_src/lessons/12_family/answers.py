"""Answers to the exercises of lesson 12, right and wrong."""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _FORGETS, _Logits, _PointWise

logits = functools.partial(instead, _Logits)

# ------------------------------------------------------------------------------------------ 12.3 pointwise


class OtherNames(nn.Module):
    def __init__(self, width, curve, slope):
        super().__init__()
        self.curve = curve
        self.a, self.s = nn.Parameter(torch.tensor(slope)), nn.Parameter(torch.tensor(0.0))
        self.gamma, self.beta = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )

    def forward(self, x):
        return self.gamma * self.curve(self.a * x + self.s) + self.beta


class Measured(nn.Module):
    """The curve's slope, measured on a small number; everything in one line."""

    def __init__(self, width, curve, slope):
        super().__init__()
        small = torch.tensor(1e-3)
        self.curve, self.shift = curve, nn.Parameter(torch.zeros(()))
        self.alpha = nn.Parameter(slope * 2 * small / (curve(small) - curve(-small)))
        self.weight, self.bias = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )

    def forward(self, x):
        return torch.addcmul(self.bias, self.weight, self.curve(self.alpha * x + self.shift))


class ByAutograd(nn.Module):
    """The curve's slope by backward()."""

    def __init__(self, width, curve, slope):
        super().__init__()
        zero = torch.zeros(1, requires_grad=True)
        curve(zero).sum().backward()
        self.curve = curve
        self.weight, self.bias = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )
        self.alpha = nn.Parameter(torch.tensor(slope / zero.grad.item()))
        self.shift = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        return self.curve(x * self.alpha + self.shift) * self.weight + self.bias


# ----------------------------------------------------------------------------------------------- 12.4 clinic


class LengthOne(nn.Module):
    """Unit length, and a learned number in front."""

    def __init__(self, head_size, bound):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(float(bound)))

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
                dict.fromkeys(_FORGETS, "") | {"LayerNorm": "abcef", "InstanceNorm": "cde"},
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
    "pointwise": {
        "right": {
            "the solution": _PointWise,
            "measured, in one line": Measured,
            "by backward": ByAutograd,
            "by torch.func": instead(
                _PointWise, "own = torch.func.grad(curve)(torch.tensor(0.0))"
            ),
        },
        "wrong": {
            "other names": (OtherNames, "its parameters"),
            "without super": (
                instead(_PointWise, "super()"),
                "super().__init__() must come first",
            ),
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
                logits("return (q_hat @ k_hat.mT * self.factor).clamp(-1, 1)"),
                "has not the largest score",
            ),
            "the queries detached": (logits("q_hat = self.norm_q(q.detach())"), "q"),
            "for d = 8 alone": (logits("self.factor = bound / 8"), "if d is 40"),
        },
    },
}

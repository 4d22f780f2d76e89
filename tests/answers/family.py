"""Answers to the exercises of lesson 12, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import layer_norm
from lessonkit.check.lessons.family import _NANOCHAT, _centered, _group, _Logits

# ---------------------------------------------------------------------------------------------- 12.1 group_norm


def affine(y, weight, bias):
    shape = (1, -1) + (1,) * (y.dim() - 2)
    y = y if weight is None else y * weight.view(shape)
    return y if bias is None else y + bias.view(shape)


def in_rows(x, num_groups, weight=None, bias=None, eps=1e-5):
    rows = x.unflatten(1, (num_groups, -1)).flatten(2)
    return affine(layer_norm(rows, rows.shape[-1], eps=eps).reshape(x.shape), weight, bias)


def group_by_group(x, num_groups, weight=None, bias=None, eps=1e-5):
    parts = []
    for part in x.chunk(num_groups, dim=1):
        var, mean = torch.var_mean(part, tuple(range(1, part.dim())), correction=0, keepdim=True)
        parts.append((part - mean) / (var + eps).sqrt())
    return affine(torch.cat(parts, dim=1), weight, bias)


def channels_last(x, num_groups, weight=None, bias=None, eps=1e-5):
    parts = x.unflatten(1, (num_groups, x.shape[1] // num_groups))
    y = F.layer_norm(parts, parts.shape[2:], eps=eps).flatten(1, 2).movedim(1, -1)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).movedim(-1, 1)


def gain_inside(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = x.unflatten(1, (num_groups, -1)).flatten(2)
    return layer_norm(groups, groups.shape[-1], weight, bias, eps).reshape(x.shape)


def truth_of_a_tensor(x, num_groups, weight=None, bias=None, eps=1e-5):
    y = in_rows(x, num_groups, eps=eps)
    return y * weight if weight else y


# ----------------------------------------------------------------------------------------------- 12.2 centered


def by_projection(weight, bias):
    P = torch.eye(len(bias), dtype=weight.dtype, device=weight.device) - 1 / len(bias)
    return P @ weight, P @ bias


def transposed(weight, bias):
    return (weight.T - weight.T.mean(1, keepdim=True)).T, bias - bias.sum() / len(bias)


def in_place(weight, bias):
    weight -= weight.mean(0)
    bias -= bias.mean()
    return weight, bias


# ------------------------------------------------------------------------------------------------- 12.4 clinic


class Made(_Logits):
    """The solution, with other layers."""

    def __init__(self, head_size):
        nn.Module.__init__(self)
        self.make(head_size)


class WithBias(Made):
    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d), nn.LayerNorm(d)


class WithRMSNorm(Made):
    def make(self, d):
        self.norm_q, self.norm_k = nn.RMSNorm(d), nn.RMSNorm(d)


class SharedGain(Made):
    def make(self, d):
        self.norm_q = self.norm_k = nn.RMSNorm(d, eps=1e-6)


class LengthOne(nn.Module):
    """Unit length, and a learned number in front."""

    def __init__(self, head_size):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(head_size**0.5))

    def forward(self, q, k):
        return self.g * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


class PlainList(Made):
    def make(self, d):
        self.norms = [nn.LayerNorm(d), nn.LayerNorm(d)]

    def forward(self, q, k):
        return self.norms[0](q) @ self.norms[1](k).mT / q.shape[-1] ** 0.5


def scored(forward):
    """Right layers, and another forward."""
    return type("QKLogits", (_Logits,), {"forward": forward})


ANSWERS = {
    "group_norm": {
        "right": {"the solution": _group, "in rows": in_rows, "group by group": group_by_group, "last": channels_last},
        "wrong": {
            "the library": (
                lambda x, num_groups, weight=None, bias=None, eps=1e-5: F.group_norm(x, num_groups, weight, bias, eps),
                "PyTorch's own group_norm",
            ),
            "truth of a tensor": (truth_of_a_tensor, "ambiguous"),
            "gain given to layer_norm": (gain_inside, "does not fit the rows"),
            "a class": (nn.GroupNorm, "takes your function"),
        },
    },
    "centered": {
        "right": {
            "the solution": _centered,
            "by projection": by_projection,
            "transposed": transposed,
            "without gradients": lambda w, b: (w.detach() - w.detach().mean(0), b.detach() - b.detach().mean()),
            "as Parameters": lambda w, b: (nn.Parameter(w - w.mean(0)), nn.Parameter(b - b.mean())),
            "as a list": lambda w, b: [w - w.mean(0), b - b.mean()],
        },
        "wrong": {
            "weight only": (lambda w, b: w - w.mean(0), "new weight and new bias"),
            "in place": (in_place, "changed its input"),
            "rows without keepdim": (lambda w, b: (w - w.mean(1), b - b.mean()), "On a layer of 3 inputs"),
        },
        # A trained layer is rewritten, once: no gradient is asked for.
        "generic_exceptions": ("cut off from the gradient", "through NumPy", "a gradient that is off"),
    },
    "nanochat": {
        "right": {
            "the solution": _NANOCHAT,
            "two decimals, small letters": _NANOCHAT | {"attention": 11.31, "kind": "rmsnorm", "place": "pre-ln"},
        },
        "wrong": {
            "a word of another kind": (_NANOCHAT | {"place": "before"}, "one of the words"),
            "no bool": (_NANOCHAT | {"sees shift": "yes"}, "True and False"),
            "one missing": ({k: v for k, v in _NANOCHAT.items() if k != "query"}, "missing"),
            "a list": (list(_NANOCHAT.values()), "dictionary"),
        },
    },
    "qk_logits_module": {
        "right": {
            "the solution": _Logits,
            "LayerNorm with bias": WithBias,
            "RMSNorm": WithRMSNorm,
            "one RMSNorm for both": SharedGain,
            "length 1 and a number": LengthOne,
        },
        "wrong": {
            "a plain list": (PlainList, "plain list"),
            "one of two used": (scored(lambda self, q, k: self.norm_q(q) @ self.norm_q(k).mT / 8**0.5), "norm_k"),
            "normalized and clamped": (
                scored(lambda self, q, k: _Logits.forward(self, q, k).clamp(-1, 1)),
                "has not the largest",
            ),
            "clamped": (scored(lambda self, q, k: (q @ k.mT / 8**0.5).clamp(-2.8, 2.8)), "30 times as large"),
            "the queries detached": (scored(lambda self, q, k: _Logits.forward(self, q.detach(), k)), "q"),
            "divided by 1.5 sqrt(d)": (
                scored(lambda self, q, k: _Logits.forward(self, q, k) / 1.5),
                "a query's logit with itself",
            ),
            # Henry et al. (2020) without their number: bounded by 1, and the weights of two keys by e^2
            "length 1 and the number 1": (
                type("LengthOne", (LengthOne,), {"__init__": lambda self, d: LengthOne.__init__(self, 1)}),
                "a query's logit with itself",
            ),
            "an object": (_Logits(8), "takes your class"),
        },
        # Any norm that makes the bound true is right, with an eps of its own: values are not compared.
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
    },
}

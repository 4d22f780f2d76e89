"""Answers to the exercises of lesson 12, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons.family import _FORGETS, _LAYER, _NANOCHAT, _Derf, _Logits

# ----------------------------------------------------------------------------------------------- 12.3 derf


class Derf(_Derf):
    """The solution, with a forward of its own."""

    def __init_subclass__(cls, forward=None):
        if forward:
            cls.forward = forward


class InOneLine(Derf, forward=lambda s, x: torch.addcmul(s.bias, s.weight, torch.erf(s.alpha * x + s.shift))):
    pass


class ByTheSpecialModule(Derf, forward=lambda s, x: s.weight * torch.special.erf(x * s.alpha + s.shift) + s.bias):
    pass


class OtherNames(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.s = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.0))
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.gamma * torch.erf(self.a * x + self.s) + self.beta


class WithoutSuper(Derf):
    def __init__(self, width):
        self.alpha = nn.Parameter(torch.tensor(0.5))


# ----------------------------------------------------------------------------------------------- 12.4 clinic


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


class SoftmaxOfRMSNorm(WithRMSNorm):
    def forward(self, q, k):
        return super().forward(q, k).softmax(-1)


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


class MadeAnew(WithRMSNorm):
    def forward(self, q, k):
        self.make(q.shape[-1])
        return super().forward(q, k)


class InPlace(_Logits):
    def forward(self, q, k):
        q /= 2
        return super().forward(q, k)


def scored(forward):
    """Right layers, and another forward."""
    return type("QKLogits", (_Logits,), {"forward": forward})


ANSWERS = {
    "forgets": {
        "right": {
            "the solution": _FORGETS,
            "commas, capital letters, another order": _FORGETS | {"LayerNorm": "F, e, c, b, a", "GroupNorm": "e c"},
            "lists and a tuple": {norm: list(letters) for norm, letters in _FORGETS.items()} | {"BatchNorm": ("d",)},
        },
        "wrong": {
            "nothing typed": (dict.fromkeys(_FORGETS, "") | {"LayerNorm": "abcef"}, "No letter is typed"),
            "another letter": (_FORGETS | {"RMSNorm": "bcefg"}, "Right so far: LayerNorm"),
            "one missing": ({"LayerNorm": "abcef"}, "takes a dictionary with the keys"),
            "a string": ("abcef", "takes a dictionary"),
            "a number": (_FORGETS | {"BatchNorm": 4}, "BatchNorm"),
            "all the same": (dict.fromkeys(_FORGETS, "abcef"), "subtracts no mean"),
        },
    },
    "centered_layer": {
        "right": {
            "the solution": _LAYER,
            "lists of floats": {"weight": [[2.0, 2.0], [-2, -1], [1, 0], [-1, -1]], "bias": [-1.0, 1, -2, 2]},
            "tensors": {key: torch.tensor(value) for key, value in _LAYER.items()},
        },
        "wrong": {
            "turned round": (
                {"weight": [[2, -2, 1, -1], [2, -1, 0, -1]], "bias": [-1, 1, -2, 2]},
                "Right so far: bias",
            ),
            "one missing": ({"weight": _LAYER["weight"]}, "missing"),
            "a list": (list(_LAYER.values()), "dictionary"),
            "dots": (_LAYER | {"bias": ...}, "Right so far: weight"),
        },
    },
    "derf": {
        "right": {"the solution": _Derf, "in one line": InOneLine, "the special module": ByTheSpecialModule},
        "wrong": {
            "other names": (OtherNames, "its parameters"),
            "without super": (WithoutSuper, "super().__init__() must come first"),
            "an object": (_Derf(4), "takes your class"),
        },
    },
    "nanochat": {
        "right": {"the solution": _NANOCHAT, "two decimals": _NANOCHAT | {"attention": 11.31}},
        "wrong": {
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
            "softmax of RMSNorm": (SoftmaxOfRMSNorm, "the softmax is applied already"),
            "made anew": (MadeAnew, "makes new ones at each call"),
            "zeros for later words": (scored(lambda self, q, k: _Logits.forward(self, q, k).tril()), "masked here"),
            "one of two used": (
                scored(lambda self, q, k: self.norm_q(q) @ self.norm_q(k).mT / q.shape[-1] ** 0.5),
                "one of the two norms is not used",
            ),
            "normalized and clamped": (
                scored(lambda self, q, k: _Logits.forward(self, q, k).clamp(-1, 1)),
                "has not the largest score",
            ),
            "clamped": (scored(lambda self, q, k: (q @ k.mT / 8**0.5).clamp(-2.8, 2.8)), "30 times as large"),
            "the queries detached": (scored(lambda self, q, k: _Logits.forward(self, q.detach(), k)), "q"),
            "an object": (_Logits(8), "takes your class"),
            "in place": (InPlace, "changed"),
            "divided by sqrt(8)": (
                scored(lambda self, q, k: self.norm_q(q) @ self.norm_k(k).mT / 8**0.5),
                "if d is 16",
            ),
        },
        # Any norm that makes the bound true is right, with an eps of its own: values are not compared.
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
    },
}

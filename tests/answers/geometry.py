"""Answers to the exercises of lesson 8, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons.geometry import _RMSNorm, _tokens
from lessonkit.check.misconceptions import instead

# --- 8.1 two_moves
MOVES = dict(projected=[7, 1, -1, -7], length=10, x_hat=[1.4, 0.2, -0.2, -1.4], with_eps=1, twin=[17, 5, 1, -11])


# --- 8.2 rms_norm_module
class AllInFloat64(_RMSNorm):
    def forward(self, x):
        eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if self.eps is None else self.eps
        wide = x.double()
        y = wide / (wide.square().mean(self.axes(x), keepdim=True) + eps).sqrt()
        weight = 1 if self.weight is None else self.weight.double()
        return (y * weight).to(x.dtype)


class InOneCall(_RMSNorm):
    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


# the mean square of the first call is kept, as running statistics would be
Keeping = instead(_RMSNorm, "square = self.__dict__.setdefault('kept', (wide * wide).mean(axes, keepdim=True))")


class RoundsBeforeTheGain(_RMSNorm):
    """As published models do, and with axes of its own."""

    def forward(self, x):
        dims = [-1 - i for i in range(len(self.normalized_shape))]
        wide = x if x.dtype == torch.float64 else x.float()
        eps = self.eps if self.eps is not None else torch.finfo(wide.dtype).eps
        wide = wide * torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + eps)
        x_hat = wide.to(x.dtype)
        return (x_hat if self.weight is None else x_hat * self.weight).to(x.dtype)


# --- 8.3 same_run
RUNS = dict(rate=50, decay=0.0002)


# --- 8.4 mended_tokens
def by_hand(x, weight, bias):
    tokens = x[:, :, None] * weight + bias
    tokens = tokens - tokens.mean(-1, keepdim=True)
    return tokens / (tokens.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def with_rms_norm(x, weight, bias):
    tokens = torch.einsum("bk,ke->bke", x, weight) + bias
    return F.rms_norm(tokens - tokens.mean(-1, keepdim=True), weight.shape[-1:])


def squashed(x, weight, bias):
    return F.layer_norm(torch.tanh(x[..., None] / 3) * weight + bias, bias.shape[-1:])


ANSWERS = {
    "two_moves": {
        "right": {
            "lists": MOVES,
            "fractions": MOVES | {"x_hat": (7 / 5, 1 / 5, -1 / 5, -7 / 5), "length": 100**0.5},
            "float32": {name: torch.tensor(value) for name, value in MOVES.items()},
        },
        "wrong": {
            "up to x_hat": (
                MOVES | {"x_hat": ..., "with_eps": ..., "twin": ...},
                "x_hat: put your answer in the place of the three dots. Right so far: projected, length.",
            ),
            "a list of three": (MOVES | {"projected": [7, 1, -1]}, "projected"),
            "of no known cause": (
                MOVES | {"twin": [1, 2, 3, 4]},
                "is not right. Right so far: projected, length, x_hat",
            ),
            "no twin": (
                {name: MOVES[name] for name in ("projected", "length", "x_hat", "with_eps")},
                "'twin': missing",
            ),
            "a row alone": ([7, 1, -1, -7], "takes a dictionary"),
        },
    },
    "rms_norm_module": {
        "right": {
            "four lines": _RMSNorm,
            "all in float64": AllInFloat64,
            "rounded before the gain": RoundsBeforeTheGain,
        },
        "wrong": {
            "the library": (nn.RMSNorm, "PyTorch's own rms_norm"),
            "F.rms_norm": (InOneCall, "PyTorch's own rms_norm"),
            "clipped to 15": (instead(_RMSNorm, "x_hat = (wide / rms).clamp(-15, 15)"), "outlier"),
            "statistics kept": (Keeping, "other rows of the same shape"),
            "nothing returned": (instead(_RMSNorm, "return None"), "return"),
        },
    },
    "same_run": {
        "right": {
            "numbers": RUNS,
            "as they are computed": dict(rate=100 * 0.5, decay=0.02 / 100),
            "as text": dict(rate="50", decay="1/5000"),
        },
        "wrong": {
            "the rate alone": (RUNS | {"decay": ...}, "Right so far: rate."),
            "both swapped": (dict(rate=0.0002, decay=50), "rate: 0.0002 is not right."),
            "words": (RUNS | {"rate": "c**2 * rate"}, "The answer is a number."),
            "two numbers": ((50, 0.0002), "takes a dictionary"),
        },
    },
    "mended_tokens": {
        # other tokens are right, too, as long as they are normalized and stay apart
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
        "right": {
            "normalized once the bias is in": _tokens,
            "by hand": by_hand,
            "centered, then RMSNorm": with_rms_norm,
            "squashed first": squashed,
        },
        "wrong": {
            "no norm": (lambda x, w, b: x.unsqueeze(-1) * w + b, "not normalized"),
            "divided by the size": (lambda x, w, b: _tokens(x / x.abs(), w, b), "Only the sign"),
            "noise": (lambda x, w, b: _tokens(0 * x + torch.randn_like(x), w, b), "alone"),
            "weight and bias of the norm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), "after the norm"),
            "nothing": (lambda x, w, b: None, "return"),
        },
    },
}

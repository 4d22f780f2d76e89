"""Answers to the exercises of lesson 8, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _RMSNorm, _tokens

# --- 8.1 two_moves
MOVES = dict(
    projected=[7, 1, -1, -7],
    length=10,
    x_hat=[1.4, 0.2, -0.2, -1.4],
    with_eps=1,
    twin=[17, 5, 1, -11],
)


# --- 8.2 rms_norm_module
class InOneCall(_RMSNorm):
    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


# the mean square of the first call is kept, as running statistics would be
Keeping = instead(
    _RMSNorm,
    "square = self.__dict__.setdefault('kept', (wide * wide).mean(axes, keepdim=True))",
)


class KeepingEps(_RMSNorm):
    def forward(self, x):
        if self.eps is None:
            self.eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
        return super().forward(x)


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
# --- 8.4 mended_tokens
def with_rms_norm(x, weight, bias):
    tokens = torch.einsum("bk,ke->bke", x, weight) + bias
    return F.rms_norm(tokens - tokens.mean(-1, keepdim=True), weight.shape[-1:])


def squashed(x, weight, bias):
    return F.layer_norm(torch.tanh(x[..., None] / 3) * weight + bias, bias.shape[-1:])


def constant_statistics(x, weight, bias):
    tokens = x.unsqueeze(-1) * weight + bias
    var, mean = torch.var_mean(tokens.detach(), -1, correction=0, keepdim=True)
    return (tokens - mean) * torch.rsqrt(var + 1e-5)


ANSWERS = {
    "two_moves": {
        "right": {
            "lists": MOVES,
            "float32": {name: torch.tensor(value) for name, value in MOVES.items()},
        },
        "wrong": {
            "a list of three": (MOVES | {"projected": [7, 1, -1]}, "projected"),
            "a row alone": ([7, 1, -1, -7], "takes a dictionary"),
        },
    },
    "rms_norm_module": {
        "right": {
            "four lines": _RMSNorm,
            "all in float64": instead(
                _RMSNorm,
                "wide = x.double()\n"
                "eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if self.eps is None else self.eps",
            ),
            "rounded before the gain": RoundsBeforeTheGain,
        },
        "wrong": {
            "the library": (nn.RMSNorm, "PyTorch's own rms_norm"),
            "F.rms_norm": (InOneCall, "PyTorch's own rms_norm"),
            "clipped to 15": (
                instead(_RMSNorm, "x_hat = (wide / rms).clamp(-15, 15)"),
                "outlier",
            ),
            "statistics kept": (Keeping, "kept from an earlier call"),
            "eps kept": (KeepingEps, "put into self.eps"),
        },
    },
    "same_run": {"right": {"numbers": dict(rate=50, decay=0.0002)}},
    "mended_tokens": {
        # other tokens are right, too, as long as they are normalized and stay apart
        "generic_exceptions": ("half the digits", "a little too large", "a little too high"),
        "right": {
            "normalized once the bias is in": _tokens,
            "centered, then RMSNorm": with_rms_norm,
            "squashed first": squashed,
        },
        "wrong": {
            "no norm": (lambda x, w, b: x.unsqueeze(-1) * w + b, "not normalized"),
            "divided by the size": (
                lambda x, w, b: _tokens(x / x.abs(), w, b),
                "Only the sign",
            ),
            "noise": (lambda x, w, b: _tokens(0 * x + torch.randn_like(x), w, b), "alone"),
            "x moved": (lambda x, w, b: _tokens(x.add_(1), w, b), "changed its input"),
            "constant statistics": (constant_statistics, "constants for the gradient"),
            "weight and bias of the norm": (
                lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
                "after the norm",
            ),
        },
    },
}

"""Answers to the exercises of lesson 8, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _RMSNorm, _tokens

# --- 8.1 two_moves
MOVES = dict(x_hat=[1.4, 0.2, -0.2, -1.4], with_eps=1, twin=[17, 5, 1, -11])


# --- 8.2 rms_norm_module
# the mean square of the first call is kept, as running statistics would be
Keeping = instead(
    _RMSNorm,
    "y = wide / torch.sqrt(self.__dict__.setdefault('kept', (wide * wide).mean(axes, keepdim=True)) + eps)",
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


# --- 8.4 mended_tokens
def with_rms_norm(x, weight, bias):
    tokens = torch.einsum("bk,ke->bke", x, weight) + bias
    return F.rms_norm(tokens - tokens.mean(-1, keepdim=True), weight.shape[-1:])


def squashed(x, weight, bias):
    return F.layer_norm(torch.tanh(x[..., None] / 3) * weight + bias, bias.shape[-1:])


ANSWERS = {
    "two_moves": {
        "right": {
            "lists": MOVES,
            "float32": {name: torch.tensor(value) for name, value in MOVES.items()},
        },
        "wrong": {"a list of three": (MOVES | {"twin": [17, 5, 1]}, "twin")},
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
            "statistics kept": (Keeping, "kept from an earlier call"),
            "eps kept": (KeepingEps, "put into self.eps"),
            "a rounded root": (
                instead(
                    _RMSNorm,
                    "y = wide * torch.rsqrt((wide * wide).mean(axes, keepdim=True) + eps).to(x.dtype)",
                ),
                "the rms of each row",
            ),
        },
    },
    "same_run": {"right": {"numbers": dict(rate=8, decay=0.00125)}},
    "mended_tokens": {
        # other tokens are right, too, as long as they are normalized and stay apart
        "right": {
            "normalized once the bias is in": _tokens,
            "centered, then RMSNorm": with_rms_norm,
            "squashed first": squashed,
        },
        "wrong": {
            "a sine": (lambda x, w, b: _tokens(torch.sin(x), w, b), "turns back"),
            "a square": (lambda x, w, b: _tokens((x - 0.3) ** 2, w, b), "turns back"),
            "noise": (lambda x, w, b: _tokens(0 * x + torch.randn_like(x), w, b), "alone"),
            "five numbers": (instead(_tokens, "return F.layer_norm(row, (5,))"), "E = 7"),
            "24 samples": (
                lambda x, w, b: torch.cat([_tokens(x, w, b)[:24], 0 * _tokens(x, w, b)[24:]]),
                "all samples",
            ),
        },
    },
}

"""Answers to the exercises of lesson 8, right and wrong."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons.geometry import _layer_norm, _project_and_scale, _RMSNorm, _same_run, _tokens
from lessonkit.check.misconceptions import instead


# --- 8.1 project_and_scale
def along_the_ones(x, eps=1e-5):
    one = torch.ones_like(x) / x.shape[-1] ** 0.5
    p = x - (x * one).sum(-1, keepdim=True) * one
    return p / torch.sqrt(p.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps)


def with_norm(x, eps=1e-5):
    p = x - x.mean(-1, keepdim=True)
    D = x.shape[-1]
    length = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
    return D**0.5 * p / torch.hypot(length, torch.full_like(length, (D * eps) ** 0.5))


def keeping_length():
    """Keeps the length for each shape of x: right on the first call with a shape."""
    kept = {}

    def project_and_scale(x, eps=1e-5):
        p = x - x.mean(-1, keepdim=True)
        length = kept.setdefault((x.shape, eps), torch.sqrt((p * p).sum(-1, keepdim=True) + x.shape[-1] * eps))
        return x.shape[-1] ** 0.5 * p / length

    return project_and_scale


def in_place(x, eps=1e-5):
    x -= x.mean(-1, keepdim=True)
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


# --- 8.2 rms_norm_module
class ByBranches(_RMSNorm):
    def forward(self, x):
        axes, dtype, eps = self.axes(x), x.dtype, self.eps
        if dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        if eps is None:
            eps = 2.0**-52 if x.dtype == torch.float64 else 2.0**-23
        D = math.prod(self.normalized_shape)
        y = D**0.5 * x / torch.sqrt((x * x).sum(axes, keepdim=True) + D * eps)
        if self.weight is not None:
            y = y * self.weight
        return y.to(dtype)


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


class AsInLlama(_RMSNorm):
    """Rounds before the gain multiplies, and has another default."""

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + (self.eps or 1e-6))
        return self.weight * wide.to(x.dtype)


# the mean square of the first call is kept, as running statistics would be
Keeping = instead(_RMSNorm, "square = self.__dict__.setdefault('kept', (wide * wide).mean(axes, keepdim=True))")


class WithItsOwnAxes(_RMSNorm):
    """As assistants write it: the axes are counted anew, and nothing is refused."""

    def forward(self, x):
        dims = [-1 - i for i in range(len(self.normalized_shape))]
        wide = x if x.dtype == torch.float64 else x.float()
        eps = self.eps if self.eps is not None else torch.finfo(wide.dtype).eps
        wide = wide * torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + eps)
        return (wide if self.weight is None else wide * self.weight).to(x.dtype)


# --- 8.3 same_run
def by_products(rule, c, lr, decay):
    new = lr * c * c if rule == "SGD" else lr * c
    return new, decay / (c * c) if rule == "Adam" else lr * decay / new


# --- 8.4 mended_tokens
def normalized_later(x, weight, bias):
    return F.layer_norm(x.unsqueeze(-1) * weight + bias, (weight.shape[-1],))


def residual(x, weight, bias):
    x = x.unsqueeze(-1)
    return (x + F.layer_norm(x, (1,))) * weight + bias


def with_a_constant_axis(x, weight, bias):
    wide = torch.stack([x, torch.ones_like(x), -torch.ones_like(x)], -1)
    return F.layer_norm(wide, (3,))[..., :1] * weight + bias


ANSWERS = {
    "project_and_scale": {
        "right": {
            "a matrix": _project_and_scale,
            "minus the part along the ones": along_the_ones,
            "vector_norm and hypot": with_norm,
        },
        "wrong": {
            "the library": (_layer_norm, "PyTorch's own layer_norm"),
            "group_norm with one group": (
                lambda x, eps=1e-5: F.group_norm(x.reshape(-1, x.shape[-1]), 1, eps=eps).view(x.shape),
                "PyTorch's own group_norm",
            ),
            "instance_norm, rows as channels": (
                lambda x, eps=1e-5: F.instance_norm(x.reshape(1, -1, x.shape[-1]), eps=eps).view(x.shape),
                "PyTorch's own instance_norm",
            ),
            "clipped to 15 deviations": (lambda x, eps=1e-5: _project_and_scale(x, eps).clamp(-15, 15), "outlier"),
            "the length kept from the first call": (keeping_length(), "On x"),
            "P on the CPU": (
                instead(
                    _project_and_scale,
                    "ones = torch.ones(D, D, dtype=x.dtype)\nP = torch.eye(D, dtype=x.dtype) - ones / D",
                ),
                "device",
            ),
            "in place": (in_place, "changed its input"),
        },
    },
    "rms_norm_module": {
        "right": {
            "four lines": _RMSNorm,
            "by branches, with the length": ByBranches,
            "all in float64": AllInFloat64,
            "axes of its own": WithItsOwnAxes,
        },
        "wrong": {
            "the library": (nn.RMSNorm, "PyTorch's own rms_norm"),
            "F.rms_norm": (InOneCall, "PyTorch's own rms_norm"),
            "LayerNorm": (nn.LayerNorm, "On float64 rows"),
            "as in Llama": (AsInLlama, "On float64 rows"),
            "clipped to 15": (instead(_RMSNorm, "x_hat = (wide / rms).clamp(-15, 15)"), "outlier"),
            "statistics kept": (Keeping, "other rows of the same shape"),
            "nothing returned": (instead(_RMSNorm, "return None"), "return"),
            "an object": (nn.RMSNorm(4), "takes your class"),
        },
    },
    "same_run": {
        "right": {
            "powers": _same_run,
            "the product stays": by_products,
            "a list of tensors of one": lambda rule, c, lr, decay: [
                torch.tensor(v, dtype=torch.float64) for v in _same_run(rule, c, lr, decay)
            ],
        },
        "wrong": {
            "words": (lambda rule, c, lr, decay: ("c**2 * lr", "decay / c**2"), "learning rate"),
            "a dictionary": (lambda rule, c, lr, decay: {"lr": c**2 * lr, "decay": decay / c**2}, "expected"),
            "only AdamW is wrong": (
                lambda rule, *rest: _same_run("Adam" if rule == "AdamW" else rule, *rest),
                "Right so far: SGD, Adam.",
            ),
        },
    },
    "mended_tokens": {
        # other tokens are right, too, as long as they stay apart
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
        "right": {
            "without a norm": _tokens,
            "normalized once the bias is in": normalized_later,
            "squashed": lambda x, weight, bias: torch.tanh(x[..., None]) * weight + bias,
            "a residual path around the norm": residual,
            "normalized with two constants": with_a_constant_axis,
        },
        "wrong": {
            "divided by the size": (lambda x, w, b: _tokens(x / x.abs(), w, b), "Only the sign"),
            "with its negative": (
                lambda x, w, b: F.layer_norm(torch.stack([x, -x], -1), (2,))[..., :1] * w + b,
                "LayerNorm of two",
            ),
            "noise": (lambda x, w, b: _tokens(0 * x + torch.randn_like(x), w, b), "alone"),
            "nothing": (lambda x, w, b: None, "return"),
        },
    },
}

"""Answers to the exercises of lesson 8, right and wrong."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# ---------------------------------------------------------------------------------------- 8.1 project_and_scale


def with_a_matrix(x, eps=1e-5):
    D = x.shape[-1]
    P = torch.eye(D, dtype=x.dtype, device=x.device) - torch.ones(D, D, dtype=x.dtype, device=x.device) / D
    p = x @ P
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


def with_einsum(x, eps=1e-5):
    D = x.shape[-1]
    P = torch.eye(D).to(x) - 1.0 / D
    p = torch.einsum("ij,...j->...i", P, x)
    return p * math.sqrt(D) * (torch.einsum("...i,...i->...", p, p).unsqueeze(-1) + D * eps) ** -0.5


def along_the_ones(x, eps=1e-5):
    one = torch.ones_like(x) / x.shape[-1] ** 0.5
    p = x - (x * one).sum(-1, keepdim=True) * one
    return p / torch.sqrt(p.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps)


def with_norm(x, eps=1e-5):
    p = x - x.mean(-1, keepdim=True)
    D = x.shape[-1]
    length = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
    return D**0.5 * p / torch.hypot(length, torch.full_like(length, (D * eps) ** 0.5))


def a_cpu_matrix(x, eps=1e-5):
    D = x.shape[-1]
    p = x @ (torch.eye(D, dtype=x.dtype) - 1 / D)
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


def with_std(x, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps)


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


# ------------------------------------------------------------------------------------------ 8.2 rms_norm_module


class Module(nn.Module):
    """What the exercise gives; `forward` calls `compute`."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        if not sizes or min(sizes) < 0:
            raise RuntimeError("normalized_shape")
        self.normalized_shape, self.eps, self.elementwise_affine = sizes, eps, elementwise_affine
        weight = nn.Parameter(torch.ones(sizes, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def forward(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError("shape")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        return self.compute(x, axes)


class InFourLines(Module):
    def compute(self, x, axes):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide * torch.rsqrt(wide.pow(2).mean(axes, keepdim=True) + eps)
        return (y if self.weight is None else y * self.weight).to(x.dtype)


class ByBranches(Module):
    def compute(self, x, axes):
        dtype = x.dtype
        if dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        eps = self.eps
        if eps is None:
            eps = 2.0**-52 if x.dtype == torch.float64 else 2.0**-23
        D = math.prod(self.normalized_shape)
        y = D**0.5 * x / torch.sqrt((x * x).sum(axes, keepdim=True) + D * eps)
        if self.weight is not None:
            y = y * self.weight
        return y.to(dtype)


class AllInFloat64(Module):
    def compute(self, x, axes):
        eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if self.eps is None else self.eps
        wide = x.double()
        y = wide / (wide.square().mean(axes, keepdim=True) + eps).sqrt()
        weight = 1 if self.weight is None else self.weight.double()
        return (y * weight).to(x.dtype)


class Clipped(InFourLines):
    def compute(self, x, axes):
        gain = 1 if self.weight is None else self.weight
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        return ((wide * torch.rsqrt(wide.pow(2).mean(axes, keepdim=True) + eps)).clamp(-3, 3) * gain).to(x.dtype)


class Keeping(Module):
    """Keeps the mean square of the first call, as running statistics would."""

    def compute(self, x, axes):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        self.kept = getattr(self, "kept", wide.pow(2).mean(axes, keepdim=True))
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide * torch.rsqrt(self.kept + eps)
        return (y if self.weight is None else y * self.weight).to(x.dtype)


class InOneCall(Module):
    def compute(self, x, axes):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class AsInLlama(Module):
    """Rounds before the gain multiplies, and has another default."""

    def compute(self, x, axes):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + (self.eps or 1e-6))
        return self.weight * wide.to(x.dtype)


class NoReturn(Module):
    def compute(self, x, axes):
        x / torch.sqrt((x * x).mean(axes, keepdim=True))


# ------------------------------------------------------------------------------------------------- 8.3 same_run


def by_powers(rule, c, lr, decay):
    up, down = {"SGD": (2, -2), "Adam": (1, -2), "AdamW": (1, -1)}[rule]
    return lr * c**up, decay * c**down


def by_branches(rule, c, lr, decay):
    if rule == "SGD":
        return c**2 * lr, decay / c**2
    if rule == "Adam":
        return c * lr, decay / c**2
    return c * lr, decay / c


def by_products(rule, c, lr, decay):
    new = lr * c * c if rule == "SGD" else lr * c
    return new, decay / (c * c) if rule == "Adam" else lr * decay / new


# --------------------------------------------------------------------------------------------- 8.4 mended_tokens


def linear(x, weight, bias):
    return x.unsqueeze(-1) * weight + bias


def normalized_later(x, weight, bias):
    return F.layer_norm(x.unsqueeze(-1) * weight + bias, (weight.shape[-1],))


def rms_later(x, weight, bias):
    return F.rms_norm(torch.einsum("bk,ke->bke", x, weight) + bias, weight.shape[-1:])


def squashed(x, weight, bias):
    return torch.tanh(x[..., None]) * weight + bias


def residual(x, weight, bias):
    x = x.unsqueeze(-1)
    return (x + F.layer_norm(x, (1,))) * weight + bias


def with_a_constant_axis(x, weight, bias):
    wide = torch.stack([x, torch.ones_like(x), -torch.ones_like(x)], -1)
    return F.layer_norm(wide, (3,))[..., :1] * weight + bias


def over_all_tokens(x, weight, bias):
    y = x.unsqueeze(-1) * weight + bias
    return F.layer_norm(y, y.shape[1:])


BANK = {
    "project_and_scale": {
        "right": {
            "a matrix of ones": with_a_matrix,
            "einsum": with_einsum,
            "minus the part along the ones": along_the_ones,
            "vector_norm and hypot": with_norm,
        },
        "wrong": {
            "the library": (lambda x, eps=1e-5: F.layer_norm(x, (x.shape[-1],), eps=eps), "PyTorch's own layer_norm"),
            "eps written into the library's": (lambda x, eps=1e-5: F.layer_norm(x, (x.shape[-1],)), "argument eps"),
            "mean and deviation, eps outside": (with_std, "under the root"),
            "mean and deviation, unbiased": (
                lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps),
                "D - 1",
            ),
            "clipped to three deviations": (lambda x, eps=1e-5: with_a_matrix(x, eps).clamp(-3, 3), "one of them 30"),
            "the length kept from the first call": (keeping_length(), "four more rows"),
            "P on the CPU": (a_cpu_matrix, "device"),
            "in place": (in_place, "changed its input"),
        },
    },
    "rms_norm_module": {
        "right": {
            "four lines": InFourLines,
            "by branches, with the length": ByBranches,
            "all in float64": AllInFloat64,
        },
        "wrong": {
            "the library": (nn.RMSNorm, "PyTorch's own rms_norm"),
            "F.rms_norm": (InOneCall, "PyTorch's own rms_norm"),
            "LayerNorm": (nn.LayerNorm, "On float64 rows"),
            "as in Llama": (AsInLlama, "On float64 rows"),
            "clipped to three": (Clipped, "one of them 30"),
            "statistics kept": (Keeping, "other rows of the same shape"),
            "nothing returned": (NoReturn, "return"),
            "an object": (nn.RMSNorm(4), "takes your class"),
        },
    },
    "same_run": {
        "right": {
            "powers": by_powers,
            "branches": by_branches,
            "the product stays": by_products,
            "a list of tensors of one": lambda rule, c, lr, decay: [
                torch.tensor(v, dtype=torch.float64) for v in by_powers(rule, c, lr, decay)
            ],
        },
        "wrong": {
            "the rate alone": (lambda rule, c, lr, decay: c**2 * lr, "expected"),
            "words": (lambda rule, c, lr, decay: ("c**2 * lr", "decay / c**2"), "learning rate"),
            "a dictionary": (lambda rule, c, lr, decay: {"lr": c**2 * lr, "decay": decay / c**2}, "expected"),
            "only AdamW is wrong": (
                lambda rule, c, lr, decay: (
                    by_powers("Adam", c, lr, decay) if rule == "AdamW" else by_powers(rule, c, lr, decay)
                ),
                "Right so far: SGD, Adam.",
            ),
        },
    },
    "mended_tokens": {
        # other tokens are right, too, as long as they stay apart
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
        "right": {
            "without a norm": linear,
            "normalized once the bias is in": normalized_later,
            "RMSNorm once the bias is in": rms_later,
            "squashed": squashed,
            "the norm beside a residual path": residual,
            "normalized beside two constants": with_a_constant_axis,
        },
        "wrong": {
            "divided by the size": (lambda x, w, b: linear(x / x.abs(), w, b), "x / |x|"),
            "beside its negative": (
                lambda x, w, b: F.layer_norm(torch.stack([x, -x], -1), (2,))[..., :1] * w + b,
                "LayerNorm of two",
            ),
            "over all tokens of a sample": (over_all_tokens, "features 0 and 2"),
            "noise": (lambda x, w, b: linear(0 * x + torch.randn_like(x), w, b), "alone"),
            "no features": (lambda x, w, b: x @ w + b, "RuntimeError"),
            "detached": (lambda x, w, b: linear(x.detach(), w, b), "what the gradient reaches"),
            "nothing": (lambda x, w, b: None, "return"),
        },
    },
}

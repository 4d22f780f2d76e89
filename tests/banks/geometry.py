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


def the_library(x, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def with_norm(x, eps=1e-5):
    p = x - x.mean(-1, keepdim=True)
    D = x.shape[-1]
    length = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
    return D**0.5 * p / torch.hypot(length, torch.full_like(length, (D * eps) ** 0.5))


def moves(
    matrix=lambda D: torch.eye(D) - 1 / D,
    below=lambda p, D, eps: ((p * p).sum(-1, keepdim=True) + D * eps).sqrt(),
    above=lambda D: D**0.5,
):
    """The four lines with one thing changed."""

    def project_and_scale(x, eps=1e-5):
        D = x.shape[-1]
        P = matrix(D).to(torch.float64).to(x) if x.dtype != torch.float64 else matrix_in_float64(matrix, D, x)
        p = x @ P
        return above(D) * p / below(p, D, eps)

    return project_and_scale


def matrix_in_float64(matrix, D, x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return matrix(D).to(x)
    finally:
        torch.set_default_dtype(before)


def float32_matrix(x, eps=1e-5):
    D = x.shape[-1]
    p = x @ (torch.eye(D) - 1 / D)
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


def float32_then_converted(x, eps=1e-5):
    D = x.shape[-1]
    p = x @ (torch.eye(D) - 1 / D).to(x)
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


def a_cpu_matrix(x, eps=1e-5):
    D = x.shape[-1]
    p = x @ (torch.eye(D, dtype=x.dtype) - 1 / D)
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


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


class FromTheLibrary(nn.RMSNorm):
    pass


def wrong(
    root=lambda s, eps: (s + eps).sqrt(),
    square=lambda x, axes: (x * x).mean(axes, keepdim=True),
    centre=lambda x, axes: x,
    axes_of=lambda x, axes: axes,
    widen=lambda x: x.to(torch.promote_types(x.dtype, torch.float32)),
    eps_of=lambda layer, x, wide: torch.finfo(wide.dtype).eps if layer.eps is None else layer.eps,
    gain=lambda layer, y: y if layer.weight is None else y * layer.weight,
    back=lambda y, x: y.to(x.dtype),
):
    """A class whose forward differs in one part."""

    class RMSNorm(Module):
        def compute(self, x, axes):
            wide = widen(x)
            over = axes_of(x, axes)
            c = centre(wide, over)
            return back(gain(self, c / root(square(c, over), eps_of(self, x, wide))), x)

    return RMSNorm


class AsInLlama(Module):
    """Rounds before the gain multiplies, and has another default."""

    def compute(self, x, axes):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + (self.eps or 1e-6))
        return self.weight * wide.to(x.dtype)


class GainFirst(Module):
    def compute(self, x, axes):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide if self.weight is None else wide * self.weight
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        return (wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)).to(x.dtype)


class NoReturn(Module):
    def compute(self, x, axes):
        x / torch.sqrt((x * x).mean(axes, keepdim=True))


def default(value):
    return wrong(eps_of=lambda layer, x, wide: value if layer.eps is None else layer.eps)


INVARIANT = {"a": True, "b": False, "c": False, "d": True, "e": False, "f": True}
TOKENS = {"patient": 1, "rms": 2, "after": 2}

# --------------------------------------------------------------------------------------------- 8.6 mended_tokens


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


def feature(rule):
    return lambda x, weight, bias: rule(x.unsqueeze(-1)) * weight + bias


def over_features(x, weight, bias):
    x = F.layer_norm(x, (x.shape[-1],))
    return x.unsqueeze(-1) * weight + bias


def over_the_batch(x, weight, bias):
    x = (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)
    return x.unsqueeze(-1) * weight + bias


def over_all_tokens(x, weight, bias):
    y = x.unsqueeze(-1) * weight + bias
    return F.layer_norm(y, y.shape[1:])


BANK = {
    "project_and_scale": {
        "right": {
            "a matrix of ones": with_a_matrix,
            "einsum": with_einsum,
            "minus the part along the ones": along_the_ones,
            "the library": the_library,
            "vector_norm and hypot": with_norm,
        },
        "wrong": {
            "eps not times D": (moves(below=lambda p, D, eps: ((p * p).sum(-1, keepdim=True) + eps).sqrt()), "D * eps"),
            "eps over D": (
                moves(below=lambda p, D, eps: ((p * p).sum(-1, keepdim=True) + eps / D).sqrt()),
                "divided by D",
            ),
            "eps added to the length": (
                moves(below=lambda p, D, eps: p.norm(dim=-1, keepdim=True) + eps),
                "under the root",
            ),
            "D eps added to the length": (
                moves(below=lambda p, D, eps: p.norm(dim=-1, keepdim=True) + D * eps),
                "under the root",
            ),
            "no eps": (moves(below=lambda p, D, eps: p.norm(dim=-1, keepdim=True)), "no eps"),
            "F.normalize": (
                lambda x, eps=1e-5: x.shape[-1] ** 0.5 * F.normalize(x - x.mean(-1, keepdim=True), dim=-1),
                "F.normalize",
            ),
            "F.normalize with eps": (
                lambda x, eps=1e-5: x.shape[-1] ** 0.5 * F.normalize(x - x.mean(-1, keepdim=True), dim=-1, eps=eps),
                "F.normalize",
            ),
            "radius 1": (moves(above=lambda D: 1), "radius 1"),
            "radius 1, eps alone": (
                moves(above=lambda D: 1, below=lambda p, D, eps: ((p * p).sum(-1, keepdim=True) + eps).sqrt()),
                "radius 1, and eps",
            ),
            "radius D": (moves(above=lambda D: D), "radius D"),
            "radius sqrt(D - 1)": (moves(above=lambda D: (D - 1) ** 0.5), "sqrt(D - 1)"),
            "no root": (moves(below=lambda p, D, eps: (p * p).sum(-1, keepdim=True) + D * eps), "root is missing"),
            "not projected": (moves(matrix=torch.eye), "RMSNorm"),
            "the length of x": (
                lambda x, eps=1e-5: (
                    x.shape[-1] ** 0.5
                    * (x - x.mean(-1, keepdim=True))
                    / torch.sqrt((x * x).sum(-1, keepdim=True) + x.shape[-1] * eps)
                ),
                "length of x",
            ),
            "all ones, not over D": (moves(matrix=lambda D: torch.eye(D) - 1), "must be 1/D"),
            "only the diagonal": (moves(matrix=lambda D: torch.eye(D) - torch.eye(D) / D), "only the diagonal"),
            "plus": (moves(matrix=lambda D: torch.eye(D) + 1 / D), "sign"),
            "turned round": (moves(matrix=lambda D: 1 / D - torch.eye(D)), "turned round"),
            "onto the ones": (moves(matrix=lambda D: torch.ones(D, D) / D), "projection onto 1"),
            "only projected": (lambda x, eps=1e-5: x - x.mean(-1, keepdim=True), "only projected"),
            "one length for all rows": (
                moves(below=lambda p, D, eps: ((p * p).sum() + D * eps).sqrt()),
                "one length for all",
            ),
            "P @ x": (
                lambda x, eps=1e-5: (
                    x.shape[-1] ** 0.5
                    * (p := (torch.eye(x.shape[-1], dtype=x.dtype, device=x.device) - 1 / x.shape[-1]) @ x)
                    / torch.sqrt((p * p).sum(-1, keepdim=True) + x.shape[-1] * eps)
                ),
                "wrong side",
            ),
            "x scaled by the length of P x": (
                lambda x, eps=1e-5: x / torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps),
                "x itself is scaled",
            ),
            "mean of the squares, D eps": (
                moves(above=lambda D: 1, below=lambda p, D, eps: ((p * p).mean(-1, keepdim=True) + D * eps).sqrt()),
                "it is the variance",
            ),
            "absolute values": (
                moves(below=lambda p, D, eps: p.abs().sum(-1, keepdim=True) + D * eps),
                "another length",
            ),
            "sqrt(D) in float32": (moves(above=lambda D: torch.sqrt(torch.tensor(float(D)))), "without a dtype"),
            "without keepdim": (moves(below=lambda p, D, eps: ((p * p).sum(-1) + D * eps).sqrt()), "keepdim"),
            "eps written in": (lambda x, eps=1e-5: the_library(x), "argument eps"),
            "P in float32": (float32_matrix, "float32"),
            "P in float32, converted": (float32_then_converted, "in float32"),
            "P on the CPU": (a_cpu_matrix, "device"),
            "in place": (in_place, "changed its input"),
            "the length detached": (
                moves(below=lambda p, D, eps: ((p * p).detach().sum(-1, keepdim=True) + D * eps).sqrt()),
                "cut off",
            ),
            "D of the first axis": (
                lambda x, eps=1e-5: x @ (torch.eye(x.shape[0]) - 1 / x.shape[0]).to(x),
                "x.shape[-1]",
            ),
            "unbiased": (
                lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps),
                "D - 1",
            ),
        },
    },
    "rms_norm_module": {
        "right": {
            "four lines": InFourLines,
            "by branches, with the length": ByBranches,
            "all in float64": AllInFloat64,
            "the library": FromTheLibrary,
        },
        "wrong": {
            "centered": (wrong(centre=lambda x, axes: x - x.mean(axes, keepdim=True)), "mean is subtracted"),
            "variance": (wrong(square=lambda x, axes: x.var(axes, correction=0, keepdim=True)), "variance stands"),
            "unbiased variance": (wrong(square=lambda x, axes: x.var(axes, keepdim=True)), "deviation is divided by"),
            "eps outside": (wrong(root=lambda s, eps: s.sqrt() + eps), "under the root"),
            "sum": (wrong(square=lambda x, axes: (x * x).sum(axes, keepdim=True)), "Take their mean"),
            "no root": (wrong(root=lambda s, eps: s + eps), "root is missing"),
            "square of the mean": (wrong(square=lambda x, axes: x.mean(axes, keepdim=True) ** 2), "square of the mean"),
            "multiplied": (wrong(root=lambda s, eps: (s + eps).rsqrt()), "do not multiply"),
            "no eps": (wrong(root=lambda s, eps: s.sqrt()), "eps is not used"),
            "all in float64, with its eps": (wrong(widen=lambda x: x.double()), "computed in float64"),
            "length": (
                wrong(root=lambda s, eps: s.sqrt() + eps, square=lambda x, axes: (x * x).sum(axes, keepdim=True)),
                "length of the row",
            ),
            "absolute values": (
                wrong(root=lambda s, eps: s + eps, square=lambda x, axes: x.abs().mean(axes, keepdim=True)),
                "absolute values",
            ),
            "eps as a lower limit": (wrong(root=lambda s, eps: s.clamp(min=eps).sqrt()), "lower limit"),
            "sum over the last size": (
                wrong(square=lambda x, axes: (x * x).sum(axes, keepdim=True) / x.shape[-1]),
                "last size alone",
            ),
            "gain first": (GainFirst, "before it is normalized"),
            "gain added": (
                wrong(gain=lambda layer, y: y if layer.weight is None else y + layer.weight),
                "gain is added",
            ),
            "gain divided by": (
                wrong(gain=lambda layer, y: y if layer.weight is None else y / layer.weight),
                "divided by",
            ),
            "1e-6 written in": (wrong(eps_of=lambda layer, x, wide: 1e-6), "written into the formula"),
            "last axis only": (wrong(axes_of=lambda x, axes: -1), "only the last axis"),
            "all but the first": (wrong(axes_of=lambda x, axes: tuple(range(1, x.dim()))), "every axis but the first"),
            "all axes": (wrong(axes_of=lambda x, axes: tuple(range(x.dim()))), "all axes"),
            "without keepdim": (wrong(square=lambda x, axes: (x * x).mean(axes)), "keepdim"),
            "gain not used": (wrong(gain=lambda layer, y: y), "gain is not used"),
            "1 + weight": (
                wrong(gain=lambda layer, y: y if layer.weight is None else y * (1 + layer.weight)),
                "1 + weight",
            ),
            "gain always used": (wrong(gain=lambda layer, y: y * layer.weight), "None without elementwise_affine"),
            "eps None not handled": (wrong(eps_of=lambda layer, x, wide: layer.eps), "None unless"),
            "default 1e-5": (default(1e-5), "1e-05"),
            "default 1e-6": (default(1e-6), "1e-06"),
            "default 1e-8": (default(1e-8), "1e-08"),
            "default 0": (default(0.0), "with eps=None you use 0"),
            "always float32's": (default(torch.finfo(torch.float32).eps), "always use float32"),
            "eps of x's type": (
                wrong(eps_of=lambda layer, x, wide: torch.finfo(x.dtype).eps if layer.eps is None else layer.eps),
                "type of x",
            ),
            "eps or": (
                wrong(eps_of=lambda layer, x, wide: layer.eps or torch.finfo(wide.dtype).eps),
                "eps = 0 is taken",
            ),
            "eps ignored": (wrong(eps_of=lambda layer, x, wide: torch.finfo(wide.dtype).eps), "is ignored"),
            "not widened": (wrong(widen=lambda x: x), "not widened"),
            "stays float32": (wrong(back=lambda y, x: y), "y.to(x.dtype)"),
            "float64 narrowed": (wrong(widen=lambda x: x.float()), "narrowed"),
            "detached": (wrong(square=lambda x, axes: (x * x).detach().mean(axes, keepdim=True)), "cut off"),
            "as in Llama": (AsInLlama, "On float64 rows"),
            "nothing returned": (NoReturn, "return"),
            "an object": (FromTheLibrary(4), "takes your class"),
            "LayerNorm": (nn.LayerNorm, "On float64 rows"),
        },
    },
    "rms_invariant": {
        "right": {"bools": INVARIANT},
        "wrong": {
            "a": (INVARIANT | {"a": False}, "common positive factor"),
            "b: as LayerNorm": (INVARIANT | {"b": True}, "does not subtract a mean"),
            "c": (INVARIANT | {"c": True}, "one entry of a"),
            "d": (INVARIANT | {"d": False}, "common positive factor"),
            "e": (INVARIANT | {"e": True}, "Only BatchNorm"),
            "f": (INVARIANT | {"f": False}, "each case by itself"),
            "words": (INVARIANT | {"a": "yes"}, "True or False"),
            "numbers": ({key: int(value) for key, value in INVARIANT.items()}, "True or False"),
            "one missing": ({k: v for k, v in INVARIANT.items() if k != "f"}, "missing"),
            "a list": (list(INVARIANT.values()), "dictionary"),
        },
    },
    "effective_learning_rate": {
        "right": {
            "sum of squares": lambda weight, lr: lr / (weight * weight).sum(),
            "norm squared": lambda weight, lr: lr / weight.norm() ** 2,
            "matrix_norm, a number": lambda weight, lr: lr / torch.linalg.matrix_norm(weight).item() ** 2,
            "step by step": lambda weight, lr: (lr / weight.norm()) / weight.norm(),
            "trace": lambda weight, lr: lr / torch.trace(weight @ weight.T),
            "a NumPy number": lambda weight, lr: lr / (weight.numpy() ** 2).sum(),
            "a tensor of one number": lambda weight, lr: (lr / weight.norm() ** 2).reshape(1),
        },
        "wrong": {
            "once": (lambda weight, lr: lr / weight.norm(), "one factor"),
            "times": (lambda weight, lr: lr * weight.norm() ** 2, "other way round"),
            "mean": (lambda weight, lr: lr / weight.pow(2).mean(), "mean of the squares"),
            "sum of entries": (lambda weight, lr: lr / weight.sum() ** 2, "sum of the entries"),
            "absolute values": (lambda weight, lr: lr / weight.abs().sum() ** 2, "absolute values"),
            "spectral norm": (
                lambda weight, lr: lr / torch.linalg.matrix_norm(weight, 2) ** 2,
                "largest singular value",
            ),
            "fourth power": (lambda weight, lr: lr / weight.norm() ** 4, "fourth power"),
            "rows": (lambda weight, lr: lr / weight.norm(dim=1) ** 2, "each row"),
            "columns": (lambda weight, lr: lr / weight.norm(dim=0) ** 2, "each column"),
            "entries": (lambda weight, lr: lr / weight**2, "each entry"),
            "third power": (lambda weight, lr: lr / weight.norm() ** 3, "third power"),
            "root of the length": (lambda weight, lr: lr / weight.norm() ** 0.5, "root of |W|"),
            "one plus": (lambda weight, lr: lr / (1 + weight.norm() ** 2), "There is no 1"),
            "variance": (lambda weight, lr: lr / weight.var(), "variance of the entries"),
            "minus": (lambda weight, lr: -lr / weight.norm() ** 2, "is positive"),
            "lr unchanged": (lambda weight, lr: lr, "lr itself"),
            "lr forgotten": (lambda weight, lr: 1 / weight.norm() ** 2, "lr is not used"),
            "the lesson's number": (lambda weight, lr: 0.5, "example"),
            "nothing": (lambda weight, lr: None, "return"),
        },
    },
    "different_tokens": {
        "right": {"numbers": TOKENS},
        "wrong": {
            "patient: sign": (TOKENS | {"patient": 2}, "also in sign"),
            "patient: all": (TOKENS | {"patient": 1000}, "minus its own mean"),
            "patient: none": (TOKENS | {"patient": 0}, "equal to the bias"),
            "rms: one": (TOKENS | {"rms": 1}, "subtracts nothing"),
            "rms: all": (TOKENS | {"rms": 1000}, "whatever the size"),
            "after: one": (TOKENS | {"after": 1}, "another token"),
            "after: all": (TOKENS | {"after": 1000}, "common factor"),
            "after: entries": (TOKENS | {"after": 5}, "not their entries"),
            "one missing": ({"patient": 1, "rms": 2}, "missing"),
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
            "unchanged": (feature(lambda x: F.layer_norm(x, (1,))), "minus its own mean"),
            "larger eps": (feature(lambda x: F.layer_norm(x, (1,), eps=1.0)), "whatever eps is"),
            "RMSNorm": (feature(lambda x: F.rms_norm(x, (1,))), "x / |x|"),
            "divided by the size": (feature(lambda x: x / x.abs()), "x / |x|"),
            "normalized before the bias": (
                lambda x, w, b: F.layer_norm(x.unsqueeze(-1) * w, (w.shape[-1],)) + b,
                "LN(a w) = LN(w)",
            ),
            "RMSNorm before the bias": (
                lambda x, w, b: F.rms_norm(x.unsqueeze(-1) * w, (w.shape[-1],)) + b,
                "LN(a w) = LN(w)",
            ),
            "beside its negative": (
                lambda x, w, b: F.layer_norm(torch.stack([x, -x], -1), (2,))[..., :1] * w + b,
                "LayerNorm of two",
            ),
            "over the features": (over_features, "depends on all of them"),
            "over the batch": (over_the_batch, "batch"),
            "over all tokens of a sample": (over_all_tokens, "features 0 and 2"),
            "absolute": (feature(torch.abs), "sign is lost"),
            "squared": (feature(torch.square), "sign is lost"),
            "ReLU": (feature(torch.relu), "cut off"),
            "without the bias": (lambda x, w, b: x.unsqueeze(-1) * w, "bias is not used"),
            "without the weight": (lambda x, w, b: x.unsqueeze(-1) + b, "weight is not used"),
            "noise": (
                lambda x, w, b: (F.layer_norm(x.unsqueeze(-1), (1,)) + torch.randn_like(x).unsqueeze(-1)) * w + b,
                "alone",
            ),
            "no features": (lambda x, w, b: x @ w + b, "RuntimeError"),
            "detached": (lambda x, w, b: linear(x.detach(), w, b), "what the gradient reaches"),
            "nothing": (lambda x, w, b: None, "return"),
        },
    },
}

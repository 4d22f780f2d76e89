"""Checks of lesson 12: RMSNorm told from its relatives, GroupNorm, twins, centered writers, choosing, QK-norm mended."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import (
    Mistake,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    in_float64,
    in_stages,
    refusing,
    values,
)

# ------------------------------------------------------------------------------------------------------- rms_norm


def _rms(x, weight, eps=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def _divided(below, center=False):
    """Return an rms_norm that divides by below(x, eps); center: whether the mean is subtracted above the line."""

    def answer(x, weight, eps=1e-5):
        above = x - x.mean(-1, keepdim=True) if center else x
        return above / below(x, eps) * weight

    return answer


def _square(x):
    return (x * x).mean(-1, keepdim=True)


def _beside(other, part=lambda y, D: y[..., :D], eps_of=lambda eps: eps, correction=0):
    """Return an rms_norm that normalizes x beside other(x) with a LayerNorm and takes a part of it."""

    def answer(x, weight, eps=1e-5):
        both = torch.cat([x, other(x)], dim=-1)
        var, mean = torch.var_mean(both, -1, correction=correction, keepdim=True)
        return part((both - mean) / torch.sqrt(var + eps_of(eps)), x.shape[-1]) * weight

    return answer


_RMS_PROBES = [
    call("rows with mean 3", 3 + 2 * draw(1, 2, 3, 5), draw(2, 5), names=("x", "weight")),
    call("rows with mean 0", (z := draw(3, 4, 6)) - z.mean(-1, keepdim=True), draw(4, 6), names=("x", "weight")),
    call("rows of size 0.001", 1e-3 * draw(5, 3, 4) + 1e-3, draw(6, 4), names=("x", "weight")),
    call("short rows and eps = 0.25", 0.05 * (1 + draw(7, 4, 4)), draw(8, 4), 0.25, names=("x", "weight", "eps")),
    call("eps = 0", 1e-6 * draw(9, 2, 3, 7), draw(10, 7), eps=0.0, names=("x", "weight")),
    call("rows of equal numbers", torch.full((2, 4), 3.0, dtype=torch.float64), draw(11, 4), names=("x", "weight")),
    call("one row", 1 + draw(12, 6), draw(13, 6), names=("x", "weight")),
    # sums of 16 numbers of order 1 in float32, multiplied by gains of order 1
    call(
        "float32 rows",
        1 + draw(14, 3, 16, dtype=torch.float32),
        draw(15, 16, dtype=torch.float32),
        tolerance=5e-6,
        names=("x", "weight"),
    ),
]

_NO_BIAS = "that is LayerNorm without a bias: the mean is subtracted. RMSNorm leaves it in. "

_RMS_MISTAKES = [
    Mistake(
        _NO_BIAS + "A row and its negative, side by side, have mean 0.",
        lambda x, weight, eps=1e-5: F.layer_norm(x, (x.shape[-1],), weight, None, eps),
    ),
    Mistake(
        _NO_BIAS + "And eps is not handed on.", lambda x, weight, eps=1e-5: F.layer_norm(x, (x.shape[-1],), weight)
    ),
    Mistake(
        "the variance stands under the root, and x above it is not centered: neither LayerNorm nor RMSNorm. Take the "
        "mean of the squares.",
        _divided(lambda x, eps: torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps)),
    ),
    Mistake(
        "the mean is subtracted above the line. RMSNorm subtracts nothing.",
        _divided(lambda x, eps: torch.sqrt(_square(x) + eps), center=True),
    ),
    Mistake(
        "x is divided by its deviation. RMSNorm takes the root of the mean of the squares.",
        _divided(lambda x, eps: torch.sqrt(x.var(-1, keepdim=True) + eps)),
    ),
    Mistake(
        "eps is added to the root mean square. Add it to the mean square, under the root.",
        _divided(lambda x, eps: torch.sqrt(_square(x)) + eps),
    ),
    Mistake(
        "the sum of the squares stands under the root, so that rows get length 1: ScaleNorm with g = 1. Take their mean.",
        _divided(lambda x, eps: torch.sqrt((x * x).sum(-1, keepdim=True) + eps)),
    ),
    *[
        Mistake(
            "x is divided by its length, sqrt(D) times too much. RMSNorm takes the root of the MEAN of the squares.", f
        )
        for f in (
            _divided(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps),
            _divided(lambda x, eps: x.norm(dim=-1, keepdim=True)),
            _divided(lambda x, eps: x.norm(dim=-1, keepdim=True).clamp(min=eps)),
        )
    ],
    Mistake(
        "that is ScaleNorm with g = sqrt(D): there, eps is the smallest length allowed. Here it is added to the mean square.",
        _divided(lambda x, eps: x.norm(dim=-1, keepdim=True).clamp(min=eps) / x.shape[-1] ** 0.5),
    ),
    Mistake("the root is missing: divide by sqrt(mean square + eps).", _divided(lambda x, eps: _square(x) + eps)),
    Mistake(
        "that is the square of the mean. Square first, then take the mean.",
        _divided(lambda x, eps: torch.sqrt(x.mean(-1, keepdim=True) ** 2 + eps)),
    ),
    Mistake("eps is not used.", _divided(lambda x, eps: torch.sqrt(_square(x)))),
    *[
        Mistake(
            f"eps is {value:g} whatever is asked for. Use the argument.",
            _divided(lambda x, eps, v=value: torch.sqrt(_square(x) + v)),
        )
        for value in (1e-5, 1e-6, 1e-8, 1e-12)
    ],
    Mistake(
        "eps is that of nn.RMSNorm's default, the machine epsilon of the type. Hand the argument eps on.",
        lambda x, weight, eps=1e-5: F.rms_norm(x, (x.shape[-1],), weight),
    ),
    Mistake("the gain is not used.", lambda x, weight, eps=1e-5: _rms(x, 1.0, eps)),
    Mistake(
        "the gain multiplies before the row is normalized. Normalize first.",
        lambda x, weight, eps=1e-5: _rms(x * weight, 1.0, eps),
    ),
    Mistake("the gain is used as 1 + weight.", lambda x, weight, eps=1e-5: _rms(x, 1 + weight, eps)),
    Mistake("the gain is added. Multiply by it.", lambda x, weight, eps=1e-5: _rms(x, 1.0, eps) + weight),
    Mistake(
        "one size for all rows together: each row has its own, over the last axis with keepdim=True.",
        _divided(lambda x, eps: torch.sqrt((x * x).mean() + eps)),
    ),
    Mistake(
        "the row stands beside zeros: their mean is not 0, and the mean square is halved. Take -x for the second half.",
        _beside(torch.zeros_like),
    ),
    Mistake(
        "all 2 D numbers are returned. Keep the first D.",
        lambda x, weight, eps=1e-5: _beside(lambda x: -x, lambda y, D: y)(x, torch.cat([weight, weight]), eps),
    ),
    Mistake(
        "the second half is kept, which is the negative. Keep the first: [..., :D].",
        _beside(lambda x: -x, lambda y, D: y[..., D:]),
    ),
    Mistake(
        "the variance of [x, -x] is divided by 2 D - 1. F.layer_norm divides by 2 D.",
        _beside(lambda x: -x, correction=1),
    ),
    Mistake(
        "x and -x stand one below the other, so that each row is still normalized by itself. Put them side by side: dim=-1.",
        lambda x, weight, eps=1e-5: F.layer_norm(torch.cat([x, -x]), x.shape[-1:], eps=eps)[: len(x)] * weight,
    ),
    Mistake("the gain is used twice.", lambda x, weight, eps=1e-5: _rms(x, weight * weight, eps)),
    Mistake(
        "eps is added to the sum of the squares. Take the mean first, then add eps.",
        _divided(lambda x, eps: torch.sqrt(((x * x).sum(-1, keepdim=True) + eps) / x.shape[-1])),
    ),
    Mistake(
        "the sum of the squares is divided by D - 1. Their mean divides by D.",
        _divided(lambda x, eps: torch.sqrt((x * x).sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps)),
    ),
    Mistake(
        "x is divided by the mean of its absolute values. RMSNorm takes the root of the mean of the squares.",
        _divided(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps),
    ),
    Mistake(
        "eps is the smallest mean square allowed. Here it is added to the mean square.",
        _divided(lambda x, eps: torch.sqrt(_square(x).clamp(min=eps))),
    ),
    Mistake(
        "eps is multiplied by 2. The mean square of [x, -x] is that of x, so eps stays as it is.",
        _divided(lambda x, eps: torch.sqrt(_square(x) + 2 * eps)),
    ),
    Mistake(
        "the values are right, but the mean square is cut off from the gradient.",
        _divided(lambda x, eps: torch.sqrt(_square(x.detach()) + eps)),
    ),
]


def rms_norm(answer):
    """Check a function x (..., D), weight (D,), eps=1e-5 -> RMSNorm with a gain (lesson 12)."""
    examine(
        answer,
        "rms_norm",
        _RMS_PROBES,
        in_float64(_rms),
        _RMS_MISTAKES,
        tried="means of 3 and 0, small rows, three values of eps, equal numbers, gradients",
    )


# ----------------------------------------------------------------------------------------------------- group_norm


class _Group(nn.Module):
    """A right GroupNorm whose parts the mistakes below override."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError("groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        kind = dict(device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(torch.ones(num_channels, **kind)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_channels, **kind)) if affine and bias else None)

    def wide(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def cut(self, x):
        return x.unflatten(1, (self.num_groups, -1))  # (B, G, C/G, ...)

    def over(self, parts):
        return tuple(range(2, parts.dim()))

    def normalized(self, parts, axes):
        c = parts - parts.mean(axes, keepdim=True)
        return c / torch.sqrt((c * c).mean(axes, keepdim=True) + self.eps)

    def joined(self, parts, x):
        return parts.flatten(1, 2)

    def beside(self, p, x):
        return p.view((-1,) + (1,) * (x.dim() - 2))

    def gain(self, y, x):
        y = y if self.weight is None else y * self.beside(self.weight, x)
        return y if self.bias is None else y + self.beside(self.bias, x)

    def back(self, y, x):
        return y.to(x.dtype)

    def forward(self, x):
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise RuntimeError("shape")
        if x.numel() == self.num_groups:
            raise ValueError("one number for each group")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        parts = self.cut(self.wide(x))
        y = self.joined(self.normalized(parts, self.over(parts)), x)
        return self.back(self.gain(y, x), x)


def _variant(**parts):
    return type("GroupNorm", (_Group,), parts)


class _GroupReference(_Group):
    """Computed in float64."""

    def wide(self, x):
        return x.double()


def _grouped(label, x, groups, channels, tolerance=1e-9, parameters=None, **options):
    shown = {"num_groups": groups, "num_channels": channels, **options}
    return call_layer(label, lambda cls: cls(groups, channels, **options), x, shown, tolerance, parameters)


def _unlike(seed, *shape, dtype=torch.float64):
    """Numbers whose channels, axis 1, differ in level and size."""
    scale = torch.arange(1.0, shape[1] + 1, dtype=torch.float64).view((-1,) + (1,) * (len(shape) - 2))
    return (draw(seed, *shape) * scale + scale**2).to(dtype)


def _layer_of(cls):
    layer, bare, gain = cls(2, 6), cls(2, 6, affine=False), cls(2, 6, bias=False)
    return {
        "the names in its state_dict": sorted(layer.state_dict()),
        "the shapes of its parameters": sorted(tuple(p.shape) for p in layer.parameters()),
        "the parameters without affine": sorted(bare.state_dict()),
        "the parameters with bias=False": sorted(gain.state_dict()),
    }


_GROUP_VALUES = [
    _grouped("a (2, 6, 5) tensor and 2 groups", _unlike(31, 2, 6, 5), 2, 6),
    _grouped("a (2, 6, 4, 3) tensor and 3 groups", _unlike(32, 2, 6, 4, 3), 3, 6),
    _grouped("a (4, 6) matrix and 2 groups", _unlike(33, 4, 6), 2, 6),
    _grouped("a (2, 6, 6) tensor, as long as it has channels", _unlike(34, 2, 6, 6), 2, 6),
    _grouped("a (2, 6, 5) tensor of small numbers and eps = 0.01", 0.01 * _unlike(35, 2, 6, 5), 3, 6, eps=0.01),
]
_GROUP_OPTIONS = [
    _grouped("a (2, 6, 5) tensor without affine", _unlike(36, 2, 6, 5), 2, 6, affine=False),
    _grouped("a (2, 6, 5) tensor with bias=False", _unlike(37, 2, 6, 5), 2, 6, bias=False),
    _grouped("a (2, 6, 5) tensor with one group", _unlike(38, 2, 6, 5), 1, 6),
    _grouped("a (2, 6, 5) tensor with six groups", _unlike(39, 2, 6, 5), 6, 6),
    _grouped("a transposed tensor", _unlike(40, 2, 6, 5, 4).transpose(2, 3), 2, 6),
    _grouped("a (2, 6, 2, 3, 2) tensor", _unlike(41, 2, 6, 2, 3, 2), 2, 6),
]
_GROUP_TYPES = [
    # half a unit in the last place of float16 (bfloat16) is 2**-11 (2**-8) of the largest value; four times that
    _grouped("float16 numbers of size 300", (300 * draw(42, 2, 6, 5)).half(), 2, 6, tolerance=2**-9),
    _grouped(
        "bfloat16 numbers with a float32 layer",
        draw(43, 2, 6, 5, dtype=torch.bfloat16),
        2,
        6,
        tolerance=2**-6,
        parameters=torch.float32,
    ),
    # float32 at an offset of 1000: E[x^2] - E[x]^2 loses 1e6 * 2**-24 of the variance, two passes some units
    _grouped("float32 numbers around 1000", 1000 + draw(44, 2, 6, 50, dtype=torch.float32), 2, 6, tolerance=2e-3),
]
_GROUP_REST = [
    Probe("a new GroupNorm(2, 6)", _layer_of),
    _grouped("an empty batch", torch.zeros(0, 6, 5, dtype=torch.float64), 2, 6),
    Probe("GroupNorm(2, 6) and x of shape (2, 4, 5)", refusing(lambda cls: cls(2, 6)(torch.ones(2, 4, 5)))),
    Probe("GroupNorm(4, 6)", refusing(lambda cls: cls(4, 6))),
]


def _space_apart(self, parts):
    return (2,)  # the channels of a group at each position


_APART = "each position gets a mean of its own. A group is its channels at ALL positions: reduce the space too."
_SHAPE = "the gain (C,) meets the last axis of x, not the channels. Give it the shape (C, 1, ...): beside axis 1."


class _Interleaved(_Group):
    def cut(self, x):
        return x.unflatten(1, (-1, self.num_groups)).transpose(1, 2)

    def joined(self, parts, x):
        return parts.transpose(1, 2).flatten(1, 2)


class _TurnedRound(_Group):
    """G and C/G swapped: as many groups as a group should have channels."""

    def cut(self, x):
        return x.unflatten(1, (self.num_channels // self.num_groups, -1))


class _LastAxis(_Group):
    def beside(self, p, x):
        return p


class _ShuffledBack(_Group):
    def cut(self, x):
        return x.transpose(0, 1).reshape(x.shape[0], self.num_groups, -1)

    def joined(self, parts, x):
        return parts.reshape(x.shape)


class _BiasTimesGain(_Group):
    def gain(self, y, x):
        y = y if self.bias is None else y + self.beside(self.bias, x)
        return y if self.weight is None else y * self.beside(self.weight, x)


class _BatchInRows(_Group):
    def cut(self, x):
        return x.reshape(1, self.num_groups, -1)

    def joined(self, parts, x):
        return parts.reshape(x.shape)


class _ThreeAxes(_Group):
    def beside(self, p, x):
        return p[:, None, None]


class _Images(_Group):
    def beside(self, p, x):
        return p.view(1, -1, 1, 1)


class _Series(_Group):
    def beside(self, p, x):
        return p.view(-1, 1)


class _AffineFirst(_Group):
    def forward(self, x):
        parts = self.cut(self.gain(self.wide(x), x))
        return self.back(self.joined(self.normalized(parts, self.over(parts)), x), x)


def _naive(self, parts, axes):
    mean = parts.mean(axes, keepdim=True)
    return (parts - mean) / torch.sqrt((parts * parts).mean(axes, keepdim=True) - mean * mean + self.eps)


def _divide(below, center=True):
    def normalized(self, parts, axes):
        mean = parts.mean(axes, keepdim=True)
        return (parts - mean if center else parts) / below(parts, axes, self.eps)

    return _variant(normalized=normalized)


_GROUP_MISTAKES = [
    Mistake(
        "channels g, g + G, g + 2 G … form a group. Groups are NEIGHBORING channels: unflatten(1, (G, -1)), G first.",
        _Interleaved,
    ),
    Mistake("the two numbers of the cut are swapped: G groups of C/G channels, unflatten(1, (G, -1)).", _TurnedRound),
    Mistake(_APART, _variant(over=_space_apart)),
    Mistake(_APART, _variant(over=lambda self, parts: tuple(range(2, min(parts.dim(), 3))))),
    Mistake(
        "each channel gets a mean of its own: that is InstanceNorm. Reduce the channels of the group too.",
        _variant(over=lambda self, parts: tuple(range(3, parts.dim())) or (2,)),
    ),
    Mistake(
        "the batch is reduced as well: a sample then depends on the others. Keep B and the groups.",
        _variant(over=lambda self, parts: (0, *range(2, parts.dim()))),
    ),
    Mistake(
        "all channels share one mean: that is one group. Cut axis 1 into num_groups parts first.",
        _variant(over=lambda self, parts: tuple(range(1, parts.dim()))),
    ),
    Mistake("only the last axis is reduced.", _variant(over=lambda self, parts: (-1,))),
    Mistake(_SHAPE, _LastAxis),
    Mistake("the shape of the gain fits images only. For any number of axes: (-1,) + (1,) * (x.dim() - 2).", _Images),
    Mistake(
        "the shape of the gain fits images only. For any number of axes: (-1,) + (1,) * (x.dim() - 2).", _ThreeAxes
    ),
    Mistake("the bias is multiplied by the gain. Multiply first, then add.", _BiasTimesGain),
    Mistake(
        "the rows are cut across the samples: each sample has G rows of its own. Cut axis 1 only: unflatten(1, (G, -1)).",
        _BatchInRows,
    ),
    Mistake("the shape of the gain fits series only. For any number of axes: (-1,) + (1,) * (x.dim() - 2).", _Series),
    Mistake(
        "reshape cuts numbers as they lie in memory, and batch and channels have been swapped before. Cut axis 1 only.",
        _ShuffledBack,
    ),
    Mistake(
        "the variance is divided by n - 1. GroupNorm divides by n: correction=0.",
        _divide(lambda p, a, e: torch.sqrt(p.var(a, keepdim=True) + e)),
    ),
    Mistake(
        "eps is added to the deviation. Add it to the variance, under the root.",
        _divide(lambda p, a, e: p.std(a, correction=0, keepdim=True) + e),
    ),
    Mistake(
        "eps is added to the deviation, and the variance is divided by n - 1. Divide by n, and add eps under the root.",
        _divide(lambda p, a, e: p.std(a, keepdim=True) + e),
    ),
    Mistake("the root is missing.", _divide(lambda p, a, e: p.var(a, correction=0, keepdim=True) + e)),
    Mistake(
        "the mean is not subtracted.",
        _divide(lambda p, a, e: torch.sqrt(p.var(a, correction=0, keepdim=True) + e), center=False),
    ),
    Mistake(
        "the mean is not subtracted, and the mean square stands under the root: an RMSNorm of groups.",
        _divide(lambda p, a, e: torch.sqrt((p * p).mean(a, keepdim=True) + e), center=False),
    ),
    Mistake(
        "eps is not handed on: layer_norm(..., eps=self.eps).",
        _divide(lambda p, a, e: torch.sqrt(p.var(a, correction=0, keepdim=True) + 1e-5)),
    ),
    Mistake("eps is not used.", _divide(lambda p, a, e: torch.sqrt(p.var(a, correction=0, keepdim=True)))),
    Mistake("gain and bias are not used.", _variant(gain=lambda self, y, x: y)),
    Mistake(
        "the gain is not used.",
        _variant(gain=lambda self, y, x: y if self.bias is None else y + self.beside(self.bias, x)),
    ),
    Mistake(
        "the bias is not used.",
        _variant(gain=lambda self, y, x: y if self.weight is None else y * self.beside(self.weight, x)),
    ),
    Mistake("gain and bias act before the group is normalized. Normalize first.", _AffineFirst),
    Mistake(
        "the groups are not put together again: the result must have the shape of x.",
        _variant(joined=lambda self, parts, x: parts, gain=lambda self, y, x: y),
    ),
    Mistake(
        "the groups are not put together again: the result must have the shape of x.",
        _variant(joined=lambda self, parts, x: parts.flatten(2), gain=lambda self, y, x: y),
    ),
    Mistake(
        "the values are right, but the statistics are cut off from the gradient.",
        _variant(
            normalized=lambda self, p, a: (
                (p - p.detach().mean(a, keepdim=True))
                / torch.sqrt(p.detach().var(a, correction=0, keepdim=True) + self.eps)
            )
        ),
    ),
    Mistake(
        "the values are right, but the parameters are used through .data or .detach(), so they get no gradient.",
        _variant(beside=lambda self, p, x: _Group.beside(self, p.detach(), x)),
    ),
]

_GROUP_ABSENT = [
    Mistake(
        "self.weight is None without affine: use it only if there is one, and so with self.bias.",
        _variant(gain=lambda self, y, x: y * self.beside(self.weight, x) + self.beside(self.bias, x)),
    ),
    Mistake(
        "self.bias is None with bias=False: ask for it by itself.",
        _variant(
            gain=lambda self, y, x: (
                y if self.weight is None else y * self.beside(self.weight, x) + self.beside(self.bias, x)
            )
        ),
    ),
    Mistake(
        "with bias=False there is a gain, and it is not used: ask for weight and bias each by itself.",
        _variant(gain=lambda self, y, x: y if self.weight is None or self.bias is None else _Group.gain(self, y, x)),
    ),
    Mistake(
        "view() needs numbers that lie in order. Use unflatten, flatten or reshape.",
        _variant(cut=lambda self, x: x.view(x.shape[0], self.num_groups, -1, *x.shape[2:])),
    ),
] + _GROUP_MISTAKES

_GROUP_NARROW = [
    Mistake(
        "x itself is normalized, not wide: squares over 65,504 overflow in float16.", _variant(wide=lambda self, x: x)
    ),
    Mistake(
        "E[x^2] - E[x]^2 loses its digits where the mean is large beside the spread. Subtract the mean first.",
        _variant(normalized=_naive),
    ),
]

_GROUP_EMPTY = [
    Mistake(
        "reshape(B, G, -1) cannot tell what -1 is when the batch is empty. Use unflatten(1, (G, -1)).flatten(2).",
        _variant(
            cut=lambda self, x: x.reshape(x.shape[0], self.num_groups, -1),
            joined=lambda self, parts, x: parts.reshape(x.shape),
        ),
    )
]


def group_norm(answer):
    """Check a class with the constructor of nn.GroupNorm (lesson 12)."""
    stages = [
        (_GROUP_VALUES, _GROUP_MISTAKES),
        (_GROUP_OPTIONS, _GROUP_ABSENT),
        (_GROUP_TYPES, _GROUP_NARROW),
        (_GROUP_REST, _GROUP_EMPTY),
    ]
    in_stages(
        answer,
        "group_norm",
        stages,
        _GroupReference,
        "{answer.__name__} does what it should (2 to 5 axes, 1 to C groups, options, half precision, gradients, "
        "an empty batch)",
    )


# -------------------------------------------------------------------------------------------------- same_function


def same_function(answer):
    """Check which pairs of norms are the same function, as a dictionary of bools (lesson 12)."""
    values(
        answer,
        "same_function",
        {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True},
        [
            (
                "a",
                False,
                "Both take one mean and one variance over all C x H x W numbers of a sample. (Only their gains differ in shape.)",
            ),
            ("b", True, "One group pools the channels of ALL pixels. Per pixel there are H x W means for each sample."),
            (
                "c",
                False,
                "With C groups a group is one channel at all positions: the set that InstanceNorm reduces over.",
            ),
            (
                "d",
                False,
                "BatchNorm reduces a channel over the batch and all positions. If the batch is one sample, nothing but its positions is left.",
            ),
            ("e", True, "One group pools the channels of ALL time steps. LayerNorm(C) takes each step by itself."),
            (
                "f",
                False,
                "LayerNorm subtracts the mean, which is 0 here, and then its variance is the mean of the squares.",
            ),
        ],
    )


# ------------------------------------------------------------------------------------------------------- centered


def _centered(weight, bias):
    return weight - weight.mean(0), bias - bias.mean()


def _written(label, D, H, seed, dtype=torch.float64, tolerance=1e-9, level=0.0):
    return call(
        label,
        level + draw(seed, D, H, dtype=dtype),
        level + draw(seed + 1, D, dtype=dtype),
        returns=("new weight", "new bias"),
        names=("weight", "bias"),
        tolerance=tolerance,
        gradient=False,
    )


_WRITER_PROBES = [
    _written("a layer of 3 inputs and 5 outputs", 5, 3, 51),
    _written("a layer of 6 inputs and 4 outputs", 4, 6, 53, level=1.0),
    _written("a square layer", 4, 4, 55, level=0.5),
    _written("a float32 layer", 6, 8, 57, dtype=torch.float32, tolerance=2e-6),
]

_COLUMNS = (
    "PyTorch keeps weight as (outputs, inputs): the mean over the outputs is the mean of each column, weight.mean(0)."
)
_CENTERED = [
    Mistake(
        f"each row of the weight is centered. {_COLUMNS}",
        lambda weight, bias: (weight - weight.mean(1, keepdim=True), bias - bias.mean()),
    ),
    Mistake(
        f"each row of the weight is centered, and the bias is not. {_COLUMNS}",
        lambda weight, bias: (weight - weight.mean(1, keepdim=True), bias),
    ),
    Mistake(
        "one number is subtracted from the whole weight. Each column (each input) needs its own: weight.mean(0).",
        lambda weight, bias: (weight - weight.mean(), bias - bias.mean()),
    ),
    Mistake(
        "the bias is as it was. It is written to the stream as well: subtract its mean.",
        lambda weight, bias: (weight - weight.mean(0), bias),
    ),
    Mistake(
        "the weight is as it was. Its part of the output has a mean, too.",
        lambda weight, bias: (weight, bias - bias.mean()),
    ),
    Mistake("nothing has changed.", lambda weight, bias: (weight, bias)),
    Mistake("the means are added. Subtract them.", lambda weight, bias: (weight + weight.mean(0), bias + bias.mean())),
    Mistake("the bias becomes 0. Only its mean has to go.", lambda weight, bias: (weight - weight.mean(0), 0 * bias)),
    Mistake(
        "the columns are divided by their deviation, too. Only the mean has to go.",
        lambda weight, bias: ((weight - weight.mean(0)) / weight.std(0), (bias - bias.mean()) / bias.std()),
    ),
    Mistake(
        "the columns are normalized. Only their mean has to go: the size belongs to the function.",
        lambda weight, bias: (F.layer_norm(weight.T, weight.shape[:1]).T, F.layer_norm(bias, bias.shape)),
    ),
    Mistake(
        "the sums are subtracted. Take the means, which are the sums over D.",
        lambda weight, bias: (weight - weight.sum(0), bias - bias.sum()),
    ),
    Mistake(
        "the means are returned, not what is left when they are subtracted.",
        lambda weight, bias: (weight.mean(0), bias.mean()),
    ),
    Mistake("the pair is turned round: weight first.", lambda weight, bias: _centered(weight, bias)[::-1]),
    Mistake(
        "the mean of bias and columns is taken together. Each column has its own, and so has the bias.",
        lambda weight, bias: (
            weight - torch.cat([weight, bias[:, None]], 1).mean(),
            bias - torch.cat([weight, bias[:, None]], 1).mean(),
        ),
    ),
    Mistake(
        "the sums are divided by the number of inputs. The mean is over the D outputs.",
        lambda weight, bias: (weight - weight.sum(0) / weight.shape[1], bias - bias.mean()),
    ),
    Mistake(
        "the medians are subtracted. Subtract the means.",
        lambda weight, bias: (weight - weight.median(0).values, bias - bias.median()),
    ),
    Mistake(
        "rows and columns are centered. The columns alone have to be: a row belongs to one output.",
        lambda weight, bias: (
            weight - weight.mean(0) - weight.mean(1, keepdim=True) + weight.mean(),
            bias - bias.mean(),
        ),
    ),
    Mistake(
        "the means are divided out. Subtract them.", lambda weight, bias: (weight / weight.mean(0), bias / bias.mean())
    ),
    Mistake(
        "the bias is centered with the mean of the weight.",
        lambda weight, bias: (weight - weight.mean(0), bias - weight.mean()),
    ),
]


def centered(answer):
    """Check a function weight (D, H), bias (D,) -> both, centered over the outputs (lesson 12)."""
    examine(
        answer,
        "centered",
        _WRITER_PROBES,
        in_float64(_centered),
        _CENTERED,
        tried="wide, narrow and square layers, float64 and float32",
    )


# -------------------------------------------------------------------------------------------------------- choices


def choices(answer):
    """Check which norm fits each of six cases, as a dictionary of names (lesson 12)."""
    names = ("BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm", "QK-norm")
    why = {
        ("a", "BatchNorm"): "Its statistics come from both images: what one gives depends on the other.",
        (
            "a",
            "InstanceNorm",
        ): "It forgets the level and the size of each channel: how strong one is beside the next is gone.",
        (
            "a",
            "LayerNorm",
        ): "Per pixel it forgets how strong a place is; over C, H and W its gains tie the net to one image size.",
        ("a", "RMSNorm"): "Per pixel it forgets how strong a place is beside another.",
        (
            "b",
            "GroupNorm",
        ): "It forgets level and size of a group together. The strength of a channel within its group stays.",
        ("b", "BatchNorm"): "It forgets what all photos share. The contrast of one photo stays.",
        ("b", "LayerNorm"): "It forgets level and size of the whole, or of each pixel, but not of each channel.",
        ("c", "LayerNorm"): "It has the means that are to go.",
        ("c", "QK-norm"): "That bounds the logits: another function.",
        ("d", "RMSNorm"): "The exact conversion of 12.4 is for Pre-LN. A checkpoint keeps its own norm, and its eps.",
        ("d", "QK-norm"): "That would change the function of a trained net.",
        (
            "e",
            "RMSNorm",
        ): "On the stream it changes nothing about queries and keys, which come out of a linear layer behind it.",
        ("e", "LayerNorm"): "On the stream there is one already. The logits come out of a linear layer behind it.",
        ("f", "GroupNorm"): "It computes statistics at inference as well.",
        ("f", "LayerNorm"): "It computes statistics at inference as well: its factor is another one for each input.",
        ("f", "RMSNorm"): "It computes statistics at inference as well: its factor is another one for each input.",
        ("f", "InstanceNorm"): "By default it computes statistics at inference as well, and it forgets contrast.",
    }
    default = {
        "a": "What must not depend on the other image, and what must not be forgotten?",
        "b": "Which norm takes each channel of each photo by itself?",
        "c": "12.4 turns one net into another with the same function.",
        "d": "The weights were trained with one norm and one eps.",
        "e": "What grows, and which norm stands just there?",
        "f": "Which norm is a fixed factor and shift at inference, and can be folded into the convolution before it?",
    }
    right = {"a": "GroupNorm", "b": "InstanceNorm", "c": "RMSNorm", "d": "LayerNorm", "e": "QK-norm", "f": "BatchNorm"}
    causes = [(key, name, why.get((key, name), default[key])) for key in right for name in names if name != right[key]]
    values(answer, "choices", right, causes)


# ----------------------------------------------------------------------------------------------- qk_logits_module


class _Logits(nn.Module):
    """A right QKLogits whose parts the mistakes below override."""

    def __init__(self, head_size):
        super().__init__()
        self.make(head_size)

    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)

    def normalized(self, q, k):
        return self.norm_q(q), self.norm_k(k)

    def product(self, q, k):
        return q @ k.mT / q.shape[-1] ** 0.5

    def forward(self, q, k):
        return self.product(*self.normalized(q, k))


def _logits_variant(**parts):
    return type("QKLogits", (_Logits,), parts)


_QUERIES = draw(61, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([1.0, 3.0, 30.0]).view(3, 1, 1)  # (B, H, T, d)
_KEYS = draw(62, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([30.0, 1.0, 3.0]).view(3, 1, 1)


def _shape_of_logits(cls):
    layer, seen = cls(8), {}
    for B, H, T in ((2, 3, 5), (1, 2, 4), (3, 1, 7)):
        out = layer(draw(63, B, H, T, 8, dtype=torch.float32), draw(64, B, H, T, 8, dtype=torch.float32))
        seen[f"the shape for (B, H, T) = ({B}, {H}, {T})"] = tuple(out.shape) if isinstance(out, torch.Tensor) else out
    return seen


def _steady(label, change, look):
    """Return a Probe: whether what `look` takes of the logits stays when `change` has been at the queries and keys."""

    def run(cls):
        layer = cls(8)
        q, k = _QUERIES.clone(), _KEYS.clone()
        before = look(layer(q.clone(), k.clone())).detach()
        change(q), change(k)
        after = look(layer(q, k)).detach()
        return {
            "the logits that should stay": "stay" if torch.allclose(after, before, rtol=1e-3, atol=1e-3) else "change"
        }

    return Probe(label, run)


def _other_sample(t):
    t[1] = 5 - 2 * t[1]


def _later_step(t):
    t[:, :, 4] = 5 - 2 * t[:, :, 4]


def _other_head(t):
    t[:, 2] *= 7


def _larger(t):
    t *= 30


def _bound(cls):
    layer = cls(8)
    own = layer(_QUERIES, _QUERIES).detach().diagonal(dim1=-2, dim2=-1)  # (B, H, T) each query with itself as a key
    logits = layer(_QUERIES, _KEYS).detach()
    return {
        "the logits": "finite" if logits.isfinite().all() else "nan or inf among them",
        "a logit beyond sqrt(d) in size": bool(logits.abs().max() > 8**0.5 + 1e-3 or own.abs().max() > 8**0.5 + 1e-3),
    }


def _likes_itself(cls):
    layer = cls(8)
    logits = layer(_QUERIES, _QUERIES).detach()  # (B, H, T, T) each query is among the keys
    best, worst = ((found == torch.arange(5)).all() for found in (logits.argmax(-1), logits.argmin(-1)))
    said = "has the largest logit" if best else "has the smallest logit" if worst else "has not the largest logit"
    return {"the key that equals the query": said}


def _trained(cls):
    layer = cls(8)
    layer(_QUERIES, _KEYS)
    count = sum(p.numel() for p in layer.parameters())
    if not count:
        return {"parameters that an optimizer gets": "none"}
    if count > 200:
        return {"parameters that an optimizer gets": "more than 200, for heads of 8 numbers"}
    layer.zero_grad()
    (layer(_QUERIES, _KEYS) * draw(65, 2, 3, 5, 5, dtype=torch.float32)).sum().backward()
    without = [name for name, p in layer.named_parameters() if p.grad is None]
    return {"parameters that an optimizer gets": "some", "those without a gradient": ", ".join(without) or "none"}


def _same_again(cls):
    layer = cls(8)
    for parameter in layer.parameters():
        nn.init.constant_(parameter, 0.5)
    first = layer(_QUERIES, _KEYS).detach()
    for parameter in layer.parameters():
        nn.init.constant_(parameter, 1.5)
    second = layer(_QUERIES, _KEYS).detach()
    same = first.shape == second.shape and torch.allclose(first, second, rtol=1e-4)
    return {"the logits, once the parameters are others": "the same" if same else "others"}


_LOGIT_PROBES = [
    Probe("queries and keys of three sizes", _shape_of_logits),
    _steady("another sample 1, looking at sample 0", _other_sample, lambda y: y[0]),
    _steady("another step 4, looking at steps 0 to 3", _later_step, lambda y: y[:, :, :4, :4]),
    _steady("head 2 seven times as large, looking at heads 0 and 1", _other_head, lambda y: y[:, :2]),
    Probe("a new module", _bound),
    _steady("queries and keys 30 times as large", _larger, lambda y: y),
    Probe("keys that are the queries", _likes_itself),
    Probe("a new module after one call", _trained),
    Probe("a module with other parameters", _same_again),
]

_ONCE = "the norm is still made in forward, at each call: its gain is never trained. Make it in __init__, and keep it in self."
_WHOLE = "the statistics are taken over more than the d numbers of one query: normalized_shape is head_size alone."


def _unmended(self, q, k):
    return nn.LayerNorm(q.size())(q), nn.LayerNorm(k.size())(k)


def _over(first):
    def normalized(self, q, k):
        return tuple(
            F.layer_norm(t, t.shape[first:]) * w for t, w in ((q, self.norm_q.weight), (k, self.norm_k.weight))
        )

    return normalized


_LOGIT_MISTAKES = [
    Mistake(
        "nothing is mended: one mean for the whole tensor, and a new layer at each call.",
        _logits_variant(normalized=_unmended, make=lambda self, d: None),
    ),
    Mistake(_WHOLE + " " + _ONCE, _logits_variant(normalized=_unmended)),
    *[Mistake(_WHOLE, _logits_variant(normalized=_over(first))) for first in (0, 1, 2)],
    Mistake(
        "the norm is still made in forward, at each call, or it has no gain (elementwise_affine=False, F.layer_norm), or it "
        "stands in a plain list: an optimizer gets nothing to train. Make it in __init__, with a gain, and keep it in self.",
        _logits_variant(
            normalized=lambda self, q, k: (nn.LayerNorm(8)(q), nn.LayerNorm(8)(k)), make=lambda self, d: None
        ),
    ),
    Mistake("the norms are made but not used.", _logits_variant(normalized=lambda self, q, k: (q, k))),
    Mistake(
        "only the queries are normalized. Large keys make large logits just as well.",
        _logits_variant(normalized=lambda self, q, k: (self.norm_q(q), k)),
    ),
    Mistake(
        "only the keys are normalized. Large queries make large logits just as well.",
        _logits_variant(normalized=lambda self, q, k: (q, self.norm_k(k))),
    ),
    Mistake(
        "the norm acts on the logits. They are bounded then, but each row loses its level and its size: another function. "
        "Normalize q and k.",
        _logits_variant(make=lambda self, d: None, forward=lambda self, q, k: F.layer_norm(q @ k.mT, q.shape[-2:-1])),
    ),
    Mistake("without the division by sqrt(d) the bound is d.", _logits_variant(product=lambda self, q, k: q @ k.mT)),
    Mistake(
        "the keys are not transposed: k.mT has shape (B, H, d, T).",
        _logits_variant(product=lambda self, q, k: q @ k / 8**0.5),
    ),
    Mistake("the sign is turned round.", _logits_variant(product=lambda self, q, k: -(q @ k.mT) / 8**0.5)),
    Mistake(
        "the softmax is applied already. Return the logits.",
        _logits_variant(forward=lambda self, q, k: _Logits.forward(self, q, k).softmax(-1)),
    ),
]


def qk_logits_module(answer):
    """Check a class head_size -> module (q, k) -> bounded logits, with any norm that does it (lesson 12)."""
    examine(
        answer,
        "qk_logits_module",
        _LOGIT_PROBES,
        _Logits,
        _LOGIT_MISTAKES,
        kind="class",
        tried="other samples, later steps, other heads, size, the bound, trained gains",
    )

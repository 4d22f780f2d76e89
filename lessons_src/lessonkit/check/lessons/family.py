"""Checks of lesson 12: RMSNorm told from its relatives, GroupNorm, twins, centered writers, choosing, QK-norm mended."""

import re

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Probe, call, call_layer, draw, examine, in_float64, in_stages, known, refusing, values
from lessonkit.check.mistakes import edited

# ------------------------------------------------------------------------------------------------------- rms_norm


def _rms(x, weight, eps=1e-5):
    square = (x * x).mean(-1, keepdim=True)
    return x / torch.sqrt(square + eps) * weight


def _beside(x, weight, eps=1e-5):
    D = x.shape[-1]
    both = torch.cat([x, -x], dim=-1)
    return F.layer_norm(both, (2 * D,), eps=eps)[..., :D] * weight


def _rows(label, x, seed, *args, **options):
    weight = draw(seed, x.shape[-1], dtype=x.dtype)
    return call(label, x, weight, *args, names=("x", "weight", "eps"), **options)


def _with_outlier(seed, *shape):
    """Small numbers and one of 30 in the last row, which is beyond three deviations."""
    x = draw(seed, *shape)
    x.view(-1)[-2] = 30
    return x


_RMS_PROBES = [
    _rows("rows with mean 3", 3 + 2 * draw(1, 2, 3, 5), 2),
    _rows("rows with mean 0", (z := draw(3, 4, 6)) - z.mean(-1, keepdim=True), 4),
    _rows("rows of size 0.001", 1e-3 * draw(5, 3, 4) + 1e-3, 6),
    _rows("short rows and eps = 0.25", 0.05 * (1 + draw(7, 4, 4)), 8, 0.25),
    _rows("eps = 0", 1e-6 * draw(9, 2, 3, 7), 10, eps=0.0),
    _rows("rows of equal numbers", torch.full((2, 4), 3.0, dtype=torch.float64), 11),
    _rows("one row", 1 + draw(12, 6), 13),
    # sums of 16 numbers of order 1 in float32, multiplied by gains of order 1
    _rows("float32 rows", 1 + draw(14, 3, 16, dtype=torch.float32), 15, tolerance=5e-6),
    _rows("wide rows, one with an entry of 30", _with_outlier(16, 2, 256), 17),
    _rows("rows around 1000", 1000 + draw(18, 3, 8), 19),
    _rows("other rows of a shape that came before", 5 * draw(20, 2, 3, 5), 21),
]

_NORMED = "x / torch.sqrt(square + eps) * weight"
_SQUARE, _ROOT = "(x * x).mean(-1, keepdim=True)", "torch.sqrt(square + eps)"
_LENGTH = "x.norm(dim=-1, keepdim=True)"
_NO_BIAS = "that is LayerNorm without a bias: the mean is subtracted. RMSNorm leaves it in."
_TOO_LONG = "x is divided by its length, sqrt(D) times too much. RMSNorm takes the root of the MEAN of the squares."

_RMS_MISTAKES = known(
    _rms,
    {
        f"{_NORMED} -> F.layer_norm(x, (x.shape[-1],), weight, None, eps)": f"{_NO_BIAS} A row and its negative, side by side, have mean 0.",
        f"{_NORMED} -> F.layer_norm(x, (x.shape[-1],), weight)": f"{_NO_BIAS} And eps is not handed on.",
        f"{_SQUARE} -> x.var(-1, correction=0, keepdim=True)": "the variance stands under the root, and x above it is not centered: neither LayerNorm nor RMSNorm. Take the mean of the squares.",
        "return x / -> return (x - x.mean(-1, keepdim=True)) /": "the mean is subtracted above the line. RMSNorm subtracts nothing.",
        f"{_SQUARE} -> x.var(-1, keepdim=True)": "x is divided by its deviation. RMSNorm takes the root of the mean of the squares.",
        f"{_ROOT} -> (torch.sqrt(square) + eps)": "eps is added to the root mean square. Add it to the mean square, under the root.",
        f"{_ROOT} -> torch.sqrt(torch.sqrt(square) + eps)": "the root is taken twice. Add eps to the mean square, and take one root of the sum.",
        "(x * x).mean -> (x * x).sum": "the sum of the squares stands under the root, so that rows get length 1: ScaleNorm with g = 1. Take their mean.",
        f"{_ROOT} -> ({_LENGTH} + eps)": _TOO_LONG,
        f"{_ROOT} -> {_LENGTH}": _TOO_LONG,
        f"{_ROOT} -> {_LENGTH}.clamp(min=eps)": _TOO_LONG,
        f"{_ROOT} -> ({_LENGTH}.clamp(min=eps) / x.shape[-1] ** 0.5)": "that is ScaleNorm with g = sqrt(D): there, eps is the smallest length allowed. Here it is added to the mean square.",
        "torch.sqrt -> ": "the root is missing: divide by sqrt(mean square + eps).",
        f"{_ROOT} -> (square + eps) ** 2": "the square stands in the place of the root: divide by sqrt(mean square + eps).",
        "torch.sqrt -> torch.rsqrt": "rsqrt is 1 / sqrt already: multiply by it, or divide by sqrt.",
        f"{_SQUARE} -> x.mean(-1, keepdim=True) ** 2": "that is the square of the mean. Square first, then take the mean.",
        "square + eps -> square": "eps is not used.",
        **{
            f"square + eps -> square + {eps!r}": f"eps is {eps:g} whatever is asked for. Use the argument."
            for eps in (1e-5, 1e-6, 1e-8, 1e-12)
        },
        "square + eps -> square + (eps or 1e-5)": "eps = 0 counts as no eps: `eps or ...` takes 0 for False. Use eps as it is.",
        f"{_NORMED} -> F.rms_norm(x, (x.shape[-1],), weight)": "eps is that of nn.RMSNorm's default, the machine epsilon of the type. Hand the argument eps on.",
        " * weight -> ": "the gain is not used.",
        " * weight ->  ; square = -> x = x * weight; square =": "the gain multiplies before the row is normalized. Normalize first.",
        "* weight -> * (1 + weight)": "the gain is used as 1 + weight.",
        "* weight -> + weight": "the gain is added. Multiply by it.",
        "(-1, keepdim=True) -> ()": "one size for all rows together: each row has its own, over the last axis with keepdim=True.",
        "(-1, keepdim=True) -> (0)": "the squares are averaged over the first axis. Each row has its own mean, over the last axis: -1.",
        "* weight -> * weight * weight": "the gain is used twice.",
        "(x * x).mean -> (x * x).sum ; square + eps -> (square + eps) / x.shape[-1]": "eps is added to the sum of the squares. Take the mean first, then add eps.",
        f"{_SQUARE} -> (x * x).sum(-1, keepdim=True) / (x.shape[-1] - 1)": "the sum of the squares is divided by D - 1. Their mean divides by D.",
        f"{_ROOT} -> (x.abs().mean(-1, keepdim=True) + eps)": "x is divided by the mean of its absolute values. RMSNorm takes the root of the mean of the squares.",
        "square + eps -> square.clamp(min=eps)": "eps is the smallest mean square allowed. Here it is added to the mean square.",
        "square + eps -> square + 2 * eps": "eps is multiplied by 2. The mean square of [x, -x] is that of x, so eps stays as it is.",
        "(x * x) -> (x.detach() * x.detach())": "the values are right, but the mean square is cut off from the gradient.",
    },
) + known(
    _beside,
    {
        "-x] -> 0 * x]": "the row stands beside zeros: their mean is not 0, and the mean square is halved. Take -x for the second half.",
        "[..., :D] * weight ->  * torch.cat([weight, weight])": "all 2 D numbers are returned. Keep the first D.",
        "[..., :D] -> [..., D:]": "the second half is kept, which is the negative. Keep the first: [..., :D].",
        "F.layer_norm(both, (2 * D,), eps=eps) -> (both / torch.sqrt(both.var(-1, keepdim=True) + eps))": "the variance of [x, -x] is divided by 2 D - 1. F.layer_norm divides by 2 D.",
        ", dim=-1 ->  ; (2 * D,) -> (D,) ; [..., :D] -> [: len(x)]": "x and -x stand one below the other, so that each row is still normalized by itself. Put them side by side: dim=-1.",
    },
)


def rms_norm(answer):
    """Check a function x (..., D), weight (D,), eps=1e-5 -> RMSNorm with a gain (lesson 12)."""
    tried = "means of 0, 3 and 1000, small and wide rows, three values of eps, equal numbers, gradients"
    examine(answer, "rms_norm", _RMS_PROBES, in_float64(_rms), _RMS_MISTAKES, tried, by_hand=("rms_norm",))


# ----------------------------------------------------------------------------------------------------- group_norm


class _Group(nn.Module):
    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError("groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        kind = dict(device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(torch.ones(num_channels, **kind)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_channels, **kind)) if affine and bias else None)

    def forward(self, x):
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise RuntimeError("shape")
        if x.numel() == self.num_groups:
            raise ValueError("one number for each group")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        beside = (-1,) + (1,) * (x.dim() - 2)
        groups = wide.unflatten(1, (self.num_groups, -1))  # (B, G, C/G, ...)
        axes = tuple(range(2, groups.dim()))
        mean = groups.mean(axes, keepdim=True)
        var = groups.var(axes, correction=0, keepdim=True)
        y = ((groups - mean) / torch.sqrt(var + self.eps)).flatten(1, 2)
        y = y if self.weight is None else y * self.weight.view(beside)
        y = y if self.bias is None else y + self.bias.view(beside)
        return y.to(x.dtype)


_WIDE = "x.to(torch.promote_types(x.dtype, torch.float32))"
_GroupReference = edited(_Group, f"{_WIDE} -> x.double()")


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
        "the numbers in its parameters": {name: sorted(set(p.tolist())) for name, p in layer.named_parameters()},
        "the dtypes with dtype=torch.float64": {str(p.dtype) for p in cls(2, 6, dtype=torch.float64).parameters()},
        "the parameters without affine": sorted(bare.state_dict()),
        "the parameters with bias=False": sorted(gain.state_dict()),
    }


_GROUP_VALUES = [
    _grouped("a (2, 6, 5) tensor and 2 groups", _unlike(31, 2, 6, 5), 2, 6),
    _grouped("a (2, 6, 4, 3) tensor and 3 groups", _unlike(32, 2, 6, 4, 3), 3, 6),
    _grouped("a (4, 6) matrix and 2 groups", _unlike(33, 4, 6), 2, 6),
    _grouped("a (2, 6, 6) tensor, as long as it has channels", _unlike(34, 2, 6, 6), 2, 6),
    _grouped("a (2, 6, 40) tensor with an entry of 30", _with_outlier(45, 2, 6, 40), 2, 6),
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
    Probe(
        "GroupNorm(2, 6, affine=False) and x of shape (2, 4, 5)",
        refusing(lambda cls: cls(2, 6, affine=False)(torch.ones(2, 4, 5))),
    ),
]


_CUT, _AXES = "wide.unflatten(1, (self.num_groups, -1))", "tuple(range(2, groups.dim()))"
_VAR = "var(axes, correction=0, keepdim=True)"
_BELOW = "torch.sqrt(var + self.eps)"
_GAIN = "y = y if self.weight is None else y * self.weight.view(beside)"
_BIAS = "y = y if self.bias is None else y + self.bias.view(beside)"
_NEITHER = f"{_GAIN} -> pass ; {_BIAS} -> pass"
_BESIDE = "(-1,) + (1,) * (x.dim() - 2)"
_FITS_IMAGES = f"the shape of the gain fits images only. For any number of axes: {_BESIDE}."
_APART = "the groups are not put together again: the result must have the shape of x."
_DETACHED = "the values are right, but the statistics are cut off from the gradient."

_GROUP_MISTAKES = known(
    _Group,
    {
        f"{_CUT} -> wide.unflatten(1, (-1, self.num_groups)).transpose(1, 2) ; .flatten(1, 2) -> .transpose(1, 2).flatten(1, 2)": "channels g, g + G, g + 2 G … form a group. Groups are NEIGHBORING channels: unflatten(1, (G, -1)), G first.",
        "(self.num_groups, -1) -> (-1, self.num_groups)": "the two numbers of the cut are swapped: G groups of C/G channels, unflatten(1, (G, -1)).",
        f"{_AXES} -> (2,)": "each position gets a mean of its own. A group is its channels at ALL positions: reduce the space too.",
        f"{_AXES} -> tuple(range(3, groups.dim())) or (2,)": "each channel gets a mean of its own: that is InstanceNorm. Reduce the channels of the group too.",
        f"{_AXES} -> (0, *range(2, groups.dim()))": "the batch is reduced as well: a sample then depends on the others. Keep B and the groups.",
        "range(2, -> range(1,": "all channels share one mean: that is one group. Cut axis 1 into num_groups parts first.",
        f"{_AXES} -> (-1,)": "only the last axis is reduced.",
        ".view(beside) -> ": "the gain (C,) meets the last axis of x, not the channels. Give it the shape (C, 1, ...): beside axis 1.",
        f"{_BESIDE} -> (1, -1, 1, 1)": _FITS_IMAGES,
        f"{_BESIDE} -> (-1, 1, 1)": _FITS_IMAGES,
        f"{_GAIN} -> pass ; return y -> {_GAIN}; return y": "the bias is multiplied by the gain. Multiply first, then add.",
        f"{_CUT} -> wide.reshape(1, self.num_groups, -1) ; .flatten(1, 2) -> .reshape(x.shape)": "the rows are cut across the samples: each sample has G rows of its own. Cut axis 1 only: unflatten(1, (G, -1)).",
        f"{_BESIDE} -> (-1, 1)": f"the shape of the gain fits series only. For any number of axes: {_BESIDE}.",
        f"{_CUT} -> wide.transpose(0, 1).reshape(len(x), self.num_groups, -1) ; .flatten(1, 2) -> .reshape(x.shape)": "reshape cuts numbers as they lie in memory, and batch and channels have been swapped before. Cut axis 1 only.",
        ", correction=0 -> ": "the variance is divided by n - 1. GroupNorm divides by n: correction=0.",
        f"{_BELOW} -> (torch.sqrt(var) + self.eps)": "eps is added to the deviation. Add it to the variance, under the root.",
        f", correction=0 ->  ; {_BELOW} -> (torch.sqrt(var) + self.eps)": "eps is added to the deviation, and the variance is divided by n - 1. Divide by n, and add eps under the root.",
        f"{_BELOW} -> torch.sqrt(torch.sqrt(var) + self.eps)": "the root is taken twice. Add eps to the variance, and take one root of the sum.",
        "torch.sqrt -> ": "the root is missing.",
        "torch.sqrt -> torch.rsqrt": "rsqrt is 1 / sqrt already: multiply by it, or divide by sqrt.",
        "(groups - mean) -> groups": "the mean is not subtracted.",
        f"(groups - mean) -> groups ; groups.{_VAR} -> groups.square().mean(axes, keepdim=True)": "the mean is not subtracted, and the mean square stands under the root: an RMSNorm of groups.",
        "var + self.eps -> var + 1e-5": "eps is not handed on: layer_norm(..., eps=self.eps).",
        "var + self.eps -> var": "eps is not used.",
        _NEITHER: "gain and bias are not used.",
        f"{_GAIN} -> pass": "the gain is not used.",
        f"{_BIAS} -> pass": "the bias is not used.",
        f"{_NEITHER} ; groups = wide -> y = wide; {_GAIN}; {_BIAS}; groups = y": "gain and bias act before the group is normalized. Normalize first.",
        f"{_NEITHER} ; .flatten(1, 2) -> ": _APART,
        f"{_NEITHER} ; .flatten(1, 2) -> .flatten(2)": _APART,
        "groups - mean -> groups - mean.detach() ; var + -> var.detach() +": _DETACHED,
        "var + -> var.detach() +": _DETACHED,
        ".view(beside) -> .detach().view(beside)": "the values are right, but the parameters are used through .data or .detach(), so they get no gradient.",
    },
)

_GROUP_ABSENT = (
    known(
        _Group,
        {
            "y if self.weight is None else  ->  ; y if self.bias is None else  -> ": "self.weight is None without affine: use it only if there is one, and so with self.bias.",
            "self.bias is None -> self.weight is None": "self.bias is None with bias=False: ask for it by itself.",
            "self.weight is None -> self.weight is None or self.bias is None": "with bias=False there is a gain, and it is not used: ask for weight and bias each by itself.",
            f"{_CUT} -> wide.view(len(x), self.num_groups, -1) ; .flatten(1, 2) -> .view(x.shape)": "view() needs numbers that lie in order. Use unflatten, flatten or reshape.",
        },
    )
    + _GROUP_MISTAKES
)

_GROUP_NARROW = known(
    _Group,
    {
        f"wide = {_WIDE} -> wide = x ; groups.{_VAR} -> (groups - mean).square().mean(axes, keepdim=True)": "x itself is normalized, not wide: squares over 65,504 overflow in float16.",
        f"groups.{_VAR} -> (groups * groups).mean(axes, keepdim=True) - mean * mean": "E[x^2] - E[x]^2 loses its digits where the mean is large beside the spread. Subtract the mean first.",
    },
)

_GROUP_EMPTY = known(
    _Group,
    {
        f"{_CUT} -> wide.reshape(len(x), self.num_groups, -1) ; .flatten(1, 2) -> .reshape(x.shape)": "reshape(B, G, -1) cannot tell what -1 is when the batch is empty. Use unflatten(1, (G, -1)).flatten(2).",
        "if x.dim() < 2 or x.shape[1] != self.num_channels -> if False": "other channel counts are let in, as by PyTorch's own GroupNorm. Keep the lines that refuse them, and write the steps yourself.",
    },
)


def group_norm(answer):
    """Check a class with the constructor of nn.GroupNorm (lesson 12)."""
    stages = [
        (_GROUP_VALUES, _GROUP_MISTAKES),
        (_GROUP_OPTIONS, _GROUP_ABSENT),
        (_GROUP_TYPES, _GROUP_NARROW),
        (_GROUP_REST, _GROUP_EMPTY),
    ]
    tried = "2 to 5 axes, 1 to C groups, options, half precision, gradients, an empty batch"
    right = f"{{answer.__name__}} does what it should ({tried})"
    in_stages(answer, "group_norm", stages, _GroupReference, right, by_hand=("group_norm",))


# -------------------------------------------------------------------------------------------------- same_function


def same_function(answer):
    """Check which pairs of norms are the same function, as a dictionary of bools (lesson 12)."""
    right = {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True}
    why = {
        "a": "Both take one mean and one variance over all C x H x W numbers of a sample. (Only their gains differ in shape.)",
        "b": "One group pools the channels of ALL pixels. Per pixel there are H x W means for each sample.",
        "c": "With C groups a group is one channel at all positions: the set that InstanceNorm reduces over.",
        "d": "BatchNorm reduces a channel over the batch and all positions. If the batch is one sample, nothing but its positions is left.",
        "e": "One group pools the channels of ALL time steps. LayerNorm(C) takes each step by itself.",
        "f": "LayerNorm subtracts the mean, which is 0 here, and then its variance is the mean of the squares.",
    }
    values(answer, "same_function", right, [(key, not right[key], said) for key, said in why.items()])


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

_W, _B = "weight - weight.mean(0)", "bias - bias.mean()"
_COLUMNS = (
    "PyTorch keeps weight as (outputs, inputs): the mean over the outputs is the mean of each column, weight.mean(0)."
)

_CENTERED = known(
    _centered,
    {
        "weight.mean(0) -> weight.mean(1, keepdim=True)": f"each row of the weight is centered. {_COLUMNS}",
        f"weight.mean(0) -> weight.mean(1, keepdim=True) ; {_B} -> bias": f"each row of the weight is centered, and the bias is not. {_COLUMNS}",
        "weight.mean(0) -> weight.mean()": "one number is subtracted from the whole weight. Each column (each input) needs its own: weight.mean(0).",
        f"{_B} -> bias": "the bias is as it was. It is written to the stream as well: subtract its mean.",
        f"{_W} -> weight": "the weight is as it was. Its part of the output has a mean, too.",
        f"{_W} -> weight ; {_B} -> bias": "nothing has changed.",
        "weight - -> weight + ; bias - -> bias +": "the means are added. Subtract them.",
        f"{_B} -> 0 * bias": "the bias becomes 0. Only its mean has to go.",
        f"{_W} -> ({_W}) / weight.std(0) ; {_B} -> ({_B}) / bias.std()": "the columns are divided by their deviation, too. Only the mean has to go.",
        f"{_W} -> F.layer_norm(weight.T, weight.shape[:1]).T ; {_B} -> F.layer_norm(bias, bias.shape)": "the columns are normalized. Only their mean has to go: the size belongs to the function.",
        ".mean -> .sum": "the sums are subtracted. Take the means, which are the sums over D.",
        "weight - ->  ; bias - -> ": "the means are returned, not what is left when they are subtracted.",
        f"{_W}, {_B} -> {_B}, {_W}": "the pair is turned round: weight first.",
        "weight.mean(0) -> torch.cat([weight, bias[:, None]], 1).mean() ; bias.mean() -> torch.cat([weight, bias[:, None]], 1).mean()": "the mean of bias and columns is taken together. Each column has its own, and so has the bias.",
        "weight.mean(0) -> weight.sum(0) / weight.shape[1]": "the sums are divided by the number of inputs. The mean is over the D outputs.",
        "weight.mean(0) -> weight.median(0).values ; bias.mean() -> bias.median()": "the medians are subtracted. Subtract the means.",
        "weight.mean(0) -> weight.mean(0) - weight.mean(1, keepdim=True) + weight.mean()": "rows and columns are centered. The columns alone have to be: a row belongs to one output.",
        "weight - -> weight / ; bias - -> bias /": "the means are divided out. Subtract them.",
        "bias.mean() -> weight.mean()": "the bias is centered with the mean of the weight.",
    },
)


def centered(answer):
    """Check a function weight (D, H), bias (D,) -> both, centered over the outputs (lesson 12)."""
    tried = "wide, narrow and square layers, float64 and float32"
    examine(answer, "centered", _WRITER_PROBES, in_float64(_centered), _CENTERED, tried)


# -------------------------------------------------------------------------------------------------------- choices


def _letters(word):
    """A norm's name however it is spelt: "Group normalization" and "group-norm" are "groupnorm"."""
    return re.sub("[^a-z]|ali[sz]ation", "", word.lower())


def choices(answer):
    """Check which norm fits each of six cases, as a dictionary of names (lesson 12)."""
    names = ("BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm", "QK-norm")
    anew = "It computes statistics at inference as well: its factor is another one for each input."
    why = {
        "a BatchNorm": "Its statistics come from both images: what one gives depends on the other.",
        "a InstanceNorm": "It forgets the level and the size of each channel: how strong one is beside the next is gone.",
        "a LayerNorm": "Per pixel it forgets how strong a place is; over C, H and W its gains tie the net to one image size.",
        "a RMSNorm": "Per pixel it forgets how strong a place is beside another.",
        "b GroupNorm": "It forgets level and size of a group together. The strength of a channel within its group stays.",
        "b BatchNorm": "It forgets what all photos share. The contrast of one photo stays.",
        "b LayerNorm": "It forgets level and size of the whole, or of each pixel, but not of each channel.",
        "c LayerNorm": "It has the means that are to go.",
        "c QK-norm": "That bounds the logits: another function.",
        "d RMSNorm": "The exact conversion of 12.4 is for Pre-LN. A checkpoint keeps its own norm, and its eps.",
        "d QK-norm": "That would change the function of a trained net.",
        "e RMSNorm": "On the stream it changes nothing about queries and keys, which come out of a linear layer behind it.",
        "e LayerNorm": "On the stream there is one already. The logits come out of a linear layer behind it.",
        "f GroupNorm": "It computes statistics at inference as well.",
        "f LayerNorm": anew,
        "f RMSNorm": anew,
        "f InstanceNorm": "By default it computes statistics at inference as well, and it forgets contrast.",
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
    causes = [
        (key, name, why.get(f"{key} {name}", default[key])) for key in right for name in names if name != right[key]
    ]
    if isinstance(answer, dict):
        spelt = {_letters(name): name for name in names}
        answer = {k: spelt.get(_letters(said), said) if isinstance(said, str) else said for k, said in answer.items()}
    values(answer, "choices", right, causes)


# ----------------------------------------------------------------------------------------------- qk_logits_module


class _Logits(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.norm_q = nn.LayerNorm(head_size, bias=False)
        self.norm_k = nn.LayerNorm(head_size, bias=False)

    def forward(self, q, k):
        return self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5


_QUERIES = draw(61, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([1.0, 3.0, 30.0]).view(3, 1, 1)  # (B, H, T, d)
_KEYS = draw(62, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([30.0, 1.0, 3.0]).view(3, 1, 1)


def _shape_of_logits(cls):
    layer, seen = cls(8), {}
    for B, H, T in ((2, 3, 5), (1, 2, 4), (3, 1, 7)):
        out = layer(draw(63, B, H, T, 8, dtype=torch.float32), draw(64, B, H, T, 8, dtype=torch.float32))
        seen[f"the shape for (B, H, T) = ({B}, {H}, {T})"] = tuple(out.shape) if isinstance(out, torch.Tensor) else out
    return seen | {"the dtype of the logits": str(getattr(out, "dtype", None))}


def _steady(label, change, look):
    """Return a Probe: whether what `look` takes of the logits stays when `change` has been at the queries and keys."""

    def run(cls):
        layer = cls(8)
        q, k = _QUERIES.clone(), _KEYS.clone()
        before = look(layer(q.clone(), k.clone())).detach()
        change(q, k)
        after = look(layer(q, k)).detach()
        stay = torch.allclose(after, before, rtol=1e-3, atol=1e-3)
        return {"the logits that should stay": "stay" if stay else "change"}

    return Probe(label, run)


def _both(change):
    return lambda q, k: (change(q), change(k))


def _bound(cls):
    layer = cls(8)
    logits = torch.stack([layer(_QUERIES, _KEYS), layer(_QUERIES, _QUERIES)]).detach()  # each query as a key, too
    return {
        "the logits": "finite" if logits.isfinite().all() else "nan or inf among them",
        "a logit beyond sqrt(d) in size": bool(logits.abs().max() > 8**0.5 + 1e-3),
    }


def _likes_itself(cls):
    layer = cls(8)
    logits = layer(_QUERIES, _QUERIES).detach()  # (B, H, T, T) each query is among the keys
    best, worst = ((found == torch.arange(5)).all() for found in (logits.argmax(-1), logits.argmin(-1)))
    said = "has the largest logit" if best else "has the smallest logit" if worst else "has not the largest logit"
    own = logits.diagonal(dim1=-2, dim2=-1)
    # eps is 1e-5 or less, beside variances of about 1
    return {"the key that equals the query": said, "a query's logit with itself, if d is 8": own.mean().item()}


def _trained(cls):
    layer = cls(8)
    layer(_QUERIES, _KEYS)
    count = sum(p.numel() for p in layer.parameters())
    if not 0 < count <= 200:
        return {"parameters that an optimizer gets": "more than 200, for heads of 8 numbers" if count else "none"}
    leaves = dict(layer.named_parameters()) | {
        "q": _QUERIES.clone().requires_grad_(),
        "k": _KEYS.clone().requires_grad_(),
    }
    loss = (layer(leaves["q"], leaves["k"]) * draw(65, 2, 3, 5, 5, dtype=torch.float32)).sum()
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    without = [name for name, gradient in zip(leaves, found, strict=True) if gradient is None]
    return {"parameters that an optimizer gets": "some", "those without a gradient": ", ".join(without) or "none"}


def _same_again(cls):
    layer, logits = cls(8), []
    for value in (0.5, 1.5):
        for parameter in layer.parameters():
            nn.init.constant_(parameter, value)
        logits.append(layer(_QUERIES, _KEYS).detach())
    same = torch.allclose(*logits, rtol=1e-4)
    return {"the logits, once the parameters are others": "the same" if same else "others"}


_LOGIT_PROBES = [
    Probe("queries and keys of three sizes", _shape_of_logits),
    _steady("another sample 1, looking at sample 0", _both(lambda t: t[1].mul_(-2).add_(5)), lambda y: y[0]),
    _steady(
        "another step 4, looking at steps 0 to 3",
        _both(lambda t: t[:, :, 4].mul_(-2).add_(5)),
        lambda y: y[:, :, :4, :4],
    ),
    _steady(
        "head 2 seven times as large, looking at heads 0 and 1", _both(lambda t: t[:, 2].mul_(7)), lambda y: y[:, :2]
    ),
    _steady("another key 4, looking at keys 0 to 3", lambda q, k: k[:, :, 4].mul_(-2).add_(5), lambda y: y[..., :4]),
    Probe("a new module", _bound),
    _steady("queries and keys 30 times as large", _both(lambda t: t.mul_(30)), lambda y: y),
    Probe("keys that are the queries", _likes_itself, tolerance=1e-3),
    Probe("a new module after one call", _trained),
    Probe("a module with other parameters", _same_again),
]

_MADE_Q, _MADE_K = (f"self.norm_{t} = nn.LayerNorm(head_size, bias=False)" for t in "qk")
_UNMADE = f"{_MADE_Q} -> pass ; {_MADE_K} -> pass"
_WHOLE_NORMS = "self.norm_q(q) -> nn.LayerNorm(q.size())(q) ; self.norm_k(k) -> nn.LayerNorm(k.size())(k)"
_PRODUCT = "self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5"
_ONCE = "the norm is still made in forward, at each call: its gain is never trained. Make it in __init__, and keep it in self."
_WHOLE = "the statistics are taken over more than the d numbers of one query: normalized_shape is head_size alone."
_UNTRAINED = "the norm is still made in forward, at each call, or it has no gain (elementwise_affine=False, F.layer_norm), or it stands in a plain list: an optimizer gets nothing to train. Make it in __init__, with a gain, and keep it in self."
_LARGE_KEYS = "only the queries are normalized. Large keys make large logits just as well."
_LARGE_QUERIES = "only the keys are normalized. Large queries make large logits just as well."

_LOGIT_MISTAKES = known(
    _Logits,
    {
        f"{_UNMADE} ; {_WHOLE_NORMS}": "nothing is mended: one mean for the whole tensor, and a new layer at each call.",
        _WHOLE_NORMS: f"{_WHOLE} {_ONCE}",
        **{
            f"self.norm_q(q) -> (F.layer_norm(q, q.shape[{n}:]) * self.norm_q.weight) ; self.norm_k(k) -> (F.layer_norm(k, k.shape[{n}:]) * self.norm_k.weight)": _WHOLE
            for n in (0, 1, 2)
        },
        f"{_UNMADE} ; self.norm_q(q) -> nn.LayerNorm(8)(q) ; self.norm_k(k) -> nn.LayerNorm(8)(k)": _UNTRAINED,
        "self.norm_q(q) -> q ; self.norm_k(k) -> k": "the norms are made but not used.",
        "self.norm_k(k) -> k": _LARGE_KEYS,
        f"{_MADE_K} -> pass ; self.norm_k(k) -> k": _LARGE_KEYS,
        "self.norm_q(q) -> q": _LARGE_QUERIES,
        f"{_MADE_Q} -> pass ; self.norm_q(q) -> q": _LARGE_QUERIES,
        f"{_UNMADE} ; {_PRODUCT} -> F.layer_norm(q @ k.mT, q.shape[-2:-1])": "the norm acts on the logits. They are bounded then, but each row loses its level and its size: another function. Normalize q and k.",
        " / q.shape[-1] ** 0.5 -> ": "without the division by sqrt(d) the bound is d.",
        " ** 0.5 -> ": "the product is divided by d. Divide by its root, sqrt(d).",
        f"{_PRODUCT} -> self.norm_k(k) @ self.norm_q(q).mT / q.shape[-1] ** 0.5": "queries and keys have changed places: row i belongs to query i. Write q @ k.mT.",
        ".mT -> ": "the keys are not transposed: k.mT has shape (B, H, d, T).",
        "return self -> return -self": "the sign is turned round.",
        f"{_PRODUCT} -> ({_PRODUCT}).softmax(-1)": "the softmax is applied already. Return the logits.",
    },
)


def qk_logits_module(answer):
    """Check a class head_size -> module (q, k) -> bounded logits, with any norm that does it (lesson 12)."""
    tried = "other samples, later steps, other heads, size, the bound, trained gains"
    examine(answer, "qk_logits_module", _LOGIT_PROBES, _Logits, _LOGIT_MISTAKES, tried, kind="class")

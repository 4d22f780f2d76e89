"""Answers to the exercises of lesson 12, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import layer_norm as own_layer_norm

# ---------------------------------------------------------------------------------------------- 12.1 rms_norm


def beside_its_negative(x, weight, eps=1e-5):
    D = x.shape[-1]
    beside = torch.cat([x, -x], dim=-1)
    return F.layer_norm(beside, (2 * D,), eps=eps)[..., :D] * weight


def by_the_formula(x, weight, eps=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def the_library(x, weight, eps=1e-5):
    return F.rms_norm(x, weight.shape, weight, eps)


def by_length(x, weight, eps=1e-5):
    D = x.shape[-1]
    return D**0.5 * x * ((x**2).sum(-1, keepdim=True) + D * eps).rsqrt() * weight


def stacked(x, weight, eps=1e-5):
    both = torch.stack([x, -x])
    y = F.layer_norm(both.movedim(0, -2), (2, x.shape[-1]), eps=eps)
    return y[..., 0, :] * weight


def weighed_inside(x, weight, eps=1e-5):
    D = x.shape[-1]
    return F.layer_norm(torch.cat([x, -x], -1), (2 * D,), torch.cat([weight, weight]), None, eps)[..., :D]


def from_both_halves(x, weight, eps=1e-5):
    D = x.shape[-1]
    y = F.layer_norm(torch.cat([x, -x], -1), (2 * D,), eps=eps)
    return (y[..., :D] - y[..., D:]) / 2 * weight


def divided(below):
    return lambda x, weight, eps=1e-5: x / below(x, eps) * weight


def square(x):
    return x.pow(2).mean(-1, keepdim=True)


def through(other, keep=lambda y, D: y[..., :D], **options):
    def rms_norm(x, weight, eps=1e-5):
        D = x.shape[-1]
        return keep(F.layer_norm(torch.cat([x, other(x)], -1), (2 * D,), **({"eps": eps} | options)), D) * weight

    return rms_norm


def as_scale_norm(x, weight, eps=1e-5):
    return x.shape[-1] ** 0.5 * x / x.norm(dim=-1, keepdim=True).clamp(min=eps) * weight


def along_the_batch(x, weight, eps=1e-5):
    return F.layer_norm(torch.cat([x, -x]), x.shape[-1:], eps=eps)[: len(x)] * weight


# -------------------------------------------------------------------------------------------- 12.2 group_norm


class Module(nn.Module):
    """What the exercise gives; `forward` calls `compute`."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        one, zero = (torch.full((num_channels,), float(k), device=device, dtype=dtype) for k in (1, 0))
        self.register_parameter("weight", nn.Parameter(one) if affine else None)
        self.register_parameter("bias", nn.Parameter(zero) if affine and bias else None)

    def forward(self, x):
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise RuntimeError("shape")
        if x.numel() == self.num_groups:
            raise ValueError("one number for each group")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.compute(x, wide).to(x.dtype)

    def affine_of(self, y):
        shape = (1, -1) + (1,) * (y.dim() - 2)
        if self.weight is not None:
            y = y * self.weight.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y


class AsInTheLesson(Module):
    def compute(self, x, wide):
        groups = wide.unflatten(1, (self.num_groups, -1)).flatten(2)
        y = own_layer_norm(groups, groups.shape[-1], eps=self.eps).reshape(x.shape)
        beside = (-1,) + (1,) * (x.dim() - 2)
        y = y if self.weight is None else y * self.weight.view(beside)
        return y if self.bias is None else y + self.bias.view(beside)


class GroupByGroup(Module):
    def compute(self, x, wide):
        parts = []
        for part in wide.chunk(self.num_groups, dim=1):
            axes = tuple(range(1, part.dim()))
            var, mean = torch.var_mean(part, axes, correction=0, keepdim=True)
            parts.append((part - mean) / (var + self.eps).sqrt())
        return self.affine_of(torch.cat(parts, dim=1))


class ChannelsLast(Module):
    def compute(self, x, wide):
        parts = wide.unflatten(1, (self.num_groups, self.num_channels // self.num_groups))
        y = F.layer_norm(parts, parts.shape[2:], eps=self.eps).flatten(1, 2).movedim(1, -1)
        y = y if self.weight is None else y * self.weight
        y = y if self.bias is None else y + self.bias
        return y.movedim(-1, 1)


class FromTheLibrary(nn.GroupNorm):
    pass


def wrong(
    cut=lambda layer, t: t.unflatten(1, (layer.num_groups, -1)),
    over=lambda t: tuple(range(2, t.dim())),
    below=None,
    join=lambda layer, t, x: t.flatten(1, 2),
    affine=lambda layer, y: layer.affine_of(y),
    center=True,
    widen=True,
):
    """A class whose computation differs in one part."""

    class GroupNorm(Module):
        def compute(self, x, wide):
            parts = cut(self, wide if widen else x)
            axes = over(parts)
            mean = parts.mean(axes, keepdim=True)
            c = parts - mean if center else parts
            size = (
                below(parts, axes, self.eps)
                if below
                else ((parts - mean).square().mean(axes, keepdim=True) + self.eps).sqrt()
            )
            return affine(self, join(self, c / size, x))

    return GroupNorm


class Interleaved(Module):
    def compute(self, x, wide):
        parts = wide.unflatten(1, (-1, self.num_groups))
        axes = (1, *range(3, parts.dim()))
        var, mean = torch.var_mean(parts, axes, correction=0, keepdim=True)
        return self.affine_of(((parts - mean) / (var + self.eps).sqrt()).flatten(1, 2))


class GainFirst(Module):
    def compute(self, x, wide):
        groups = self.affine_of(wide).unflatten(1, (self.num_groups, -1)).flatten(2)
        return own_layer_norm(groups, groups.shape[-1], eps=self.eps).reshape(x.shape)


class Viewed(Module):
    def compute(self, x, wide):
        groups = wide.view(x.shape[0], self.num_groups, -1)
        return self.affine_of(F.layer_norm(groups, groups.shape[-1:], eps=self.eps).view(x.shape))


class EmptyFails(Module):
    def compute(self, x, wide):
        groups = wide.reshape(x.shape[0], self.num_groups, -1)
        return self.affine_of(F.layer_norm(groups, groups.shape[-1:], eps=self.eps).reshape(x.shape))


class NoReturn(Module):
    def compute(self, x, wide):
        return None

    def forward(self, x):
        self.compute(x, x)


class BiasTimesGain(Module):
    def compute(self, x, wide):
        y, shape = F.group_norm(wide, self.num_groups, eps=self.eps), (-1,) + (1,) * (x.dim() - 2)
        y = y if self.bias is None else y + self.bias.view(shape)
        return y if self.weight is None else y * self.weight.view(shape)


class GainOnlyWithBias(Module):
    def compute(self, x, wide):
        if self.weight is not None and self.bias is not None:
            return F.group_norm(wide, self.num_groups, self.weight, self.bias, self.eps)
        return F.group_norm(wide, self.num_groups, eps=self.eps)


class AcrossSamples(Module):
    def compute(self, x, wide):
        groups = wide.reshape(self.num_groups, -1)
        return self.affine_of(own_layer_norm(groups, groups.shape[-1], eps=self.eps).reshape(x.shape))


class GainInside(Module):
    def compute(self, x, wide):
        groups = wide.unflatten(1, (self.num_groups, -1)).flatten(2)
        return own_layer_norm(groups, groups.shape[-1], self.weight, self.bias, self.eps).reshape(x.shape)


class ChunksOfG(Module):
    def compute(self, x, wide):
        parts = [F.layer_norm(part, part.shape[1:], eps=self.eps) for part in wide.split(self.num_groups, 1)]
        return self.affine_of(torch.cat(parts, 1))


def shaped(shape):
    return wrong(
        affine=lambda layer, y: y if layer.weight is None else y * layer.weight.view(shape) + layer.bias.view(shape)
    )


shaped_by_none = wrong(
    affine=lambda layer, y: y if layer.weight is None else y * layer.weight[:, None, None] + layer.bias[:, None, None]
)


SAME = {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True}
CHOICES = {"a": "GroupNorm", "b": "InstanceNorm", "c": "RMSNorm", "d": "LayerNorm", "e": "QK-norm", "f": "BatchNorm"}

# ----------------------------------------------------------------------------------------------- 12.4 centered


def in_one_line(weight, bias):
    return weight - weight.mean(0), bias - bias.mean()


def with_keepdim(weight, bias):
    return weight - weight.mean(dim=0, keepdim=True), bias - bias.mean(dim=0, keepdim=True)


def by_projection(weight, bias):
    D = len(bias)
    P = torch.eye(D, dtype=weight.dtype, device=weight.device) - 1 / D
    return P @ weight, P @ bias


def transposed(weight, bias):
    return (weight.T - weight.T.mean(1, keepdim=True)).T, bias - bias.sum() / len(bias)


def in_place(weight, bias):
    weight -= weight.mean(0)
    bias -= bias.mean()
    return weight, bias


# ------------------------------------------------------------------------------------------------- 12.6 clinic


class Logits(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.make(head_size)

    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)

    def forward(self, q, k):
        return self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5


class WithBias(Logits):
    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d), nn.LayerNorm(d)


class WithRMSNorm(Logits):
    def make(self, d):
        self.norm_q, self.norm_k = nn.RMSNorm(d), nn.RMSNorm(d)


class SharedGain(Logits):
    def make(self, d):
        self.norm_q = self.norm_k = nn.RMSNorm(d, eps=1e-6)


class LengthOne(nn.Module):
    """Unit length, and a learned number in front."""

    def __init__(self, head_size):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(head_size**0.5))

    def forward(self, q, k):
        return self.g * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


def mended(**parts):
    return type("QKLogits", (Logits,), parts)


def at_each_call(shape):
    def forward(self, q, k):
        return nn.LayerNorm(shape(q))(q) @ nn.LayerNorm(shape(k))(k).mT / q.shape[-1] ** 0.5

    return mended(make=lambda self, d: None, forward=forward)


def over_last(n):
    def forward(self, q, k):
        q, k = F.layer_norm(q, q.shape[-n:]), F.layer_norm(k, k.shape[-n:])
        return (q * self.norm_q.weight) @ (k * self.norm_k.weight).mT / q.shape[-1] ** 0.5

    return mended(forward=forward)


BANK = {
    "rms_norm": {
        "right": {
            "beside its negative": beside_its_negative,
            "by the formula": by_the_formula,
            "the library": the_library,
            "by length": by_length,
            "stacked": stacked,
            "weighed inside": weighed_inside,
            "from both halves": from_both_halves,
        },
        "wrong": {
            "LayerNorm without bias": (
                lambda x, w, eps=1e-5: F.layer_norm(x, w.shape, w, None, eps),
                "LayerNorm without a bias",
            ),
            "LayerNorm, eps lost": (lambda x, w, eps=1e-5: F.layer_norm(x, w.shape, w), "eps is not handed on"),
            "centered above": (
                lambda x, w, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(square(x) + eps) * w,
                "subtracted above the line",
            ),
            "variance": (
                divided(lambda x, eps: torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps)),
                "neither LayerNorm",
            ),
            "deviation, unbiased": (divided(lambda x, eps: torch.sqrt(x.var(-1, keepdim=True) + eps)), "its deviation"),
            "eps outside": (divided(lambda x, eps: square(x).sqrt() + eps), "under the root"),
            "sum": (divided(lambda x, eps: torch.sqrt(x.pow(2).sum(-1, keepdim=True) + eps)), "Take their mean"),
            "length": (divided(lambda x, eps: x.norm(dim=-1, keepdim=True)), "its length"),
            "length plus eps": (divided(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps), "its length"),
            "ScaleNorm": (as_scale_norm, "ScaleNorm"),
            "no root": (divided(lambda x, eps: square(x) + eps), "root is missing"),
            "square of the mean": (
                divided(lambda x, eps: torch.sqrt(x.mean(-1, keepdim=True) ** 2 + eps)),
                "square of the mean",
            ),
            "no eps": (divided(lambda x, eps: square(x).sqrt()), "eps is not used"),
            "eps fixed": (divided(lambda x, eps: torch.sqrt(square(x) + 1e-5)), "whatever is asked for"),
            "Llama's eps": (divided(lambda x, eps: torch.sqrt(square(x) + 1e-6)), "1e-06"),
            "default of nn.RMSNorm": (lambda x, w, eps=1e-5: F.rms_norm(x, w.shape, w), "machine epsilon"),
            "no gain": (lambda x, w, eps=1e-5: the_library(x, torch.ones_like(w), eps), "gain is not used"),
            "gain first": (lambda x, w, eps=1e-5: the_library(x * w, torch.ones_like(w), eps), "Normalize first"),
            "1 + gain": (lambda x, w, eps=1e-5: the_library(x, 1 + w, eps), "1 + weight"),
            "gain added": (lambda x, w, eps=1e-5: the_library(x, torch.ones_like(w), eps) + w, "Multiply by it"),
            "one size for all": (divided(lambda x, eps: torch.sqrt(x.pow(2).mean() + eps)), "each row has its own"),
            "without keepdim": (divided(lambda x, eps: torch.sqrt(x.pow(2).mean(-1) + eps)), "rows with mean 3"),
            "beside itself": (through(lambda x: x), "LayerNorm"),
            "beside zeros": (through(torch.zeros_like), "zeros"),
            "second half": (through(lambda x: -x, lambda y, D: y[..., D:]), "second half"),
            "both halves": (
                lambda x, w, eps=1e-5: through(lambda x: -x, lambda y, D: y)(x, torch.cat([w, w]), eps),
                "first D",
            ),
            "negative, eps lost": (through(lambda x: -x, eps=1e-5), "whatever is asked for"),
            "along the batch": (along_the_batch, "one below the other"),
            "gain twice": (lambda x, w, eps=1e-5: through(lambda x: -x)(x, w * w, eps), "used twice"),
            "eps in the sum": (
                divided(lambda x, eps: ((x.pow(2).sum(-1, keepdim=True) + eps) / x.shape[-1]).sqrt()),
                "mean first",
            ),
            "D - 1": (
                divided(lambda x, eps: (x.pow(2).sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps).sqrt()),
                "D - 1",
            ),
            "mean absolute value": (divided(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps), "absolute values"),
            "eps a floor": (divided(lambda x, eps: square(x).clamp(min=eps).sqrt()), "smallest mean square"),
            "twice eps": (lambda x, w, eps=1e-5: beside_its_negative(x, w, 2 * eps), "multiplied by 2"),
            "gain of D numbers for 2 D": (
                lambda x, w, eps=1e-5: F.layer_norm(torch.cat([x, -x], -1), (2 * x.shape[-1],), w, None, eps)[
                    ..., : x.shape[-1]
                ],
                "Expected weight",
            ),
            "detached": (divided(lambda x, eps: torch.sqrt(square(x.detach()) + eps)), "cut off"),
            "nothing": (lambda x, w, eps=1e-5: None, "return"),
        },
    },
    "group_norm": {
        "right": {
            "as in the lesson": AsInTheLesson,
            "group by group": GroupByGroup,
            "channels last for the gain": ChannelsLast,
            "the library": FromTheLibrary,
        },
        "wrong": {
            "interleaved": (Interleaved, "NEIGHBORING"),
            "G and C/G swapped": (
                wrong(cut=lambda layer, t: t.unflatten(1, (layer.num_channels // layer.num_groups, -1))),
                "swapped",
            ),
            "each position by itself": (wrong(over=lambda t: 2), "at ALL positions"),
            "InstanceNorm": (wrong(over=lambda t: tuple(range(3, t.dim())) or (2,)), "InstanceNorm"),
            "over the batch": (wrong(over=lambda t: (0, *range(2, t.dim()))), "batch is reduced"),
            "one group": (wrong(over=lambda t: tuple(range(1, t.dim()))), "one group"),
            "last axis": (wrong(over=lambda t: -1), "only the last axis"),
            "gain at the last axis": (
                wrong(affine=lambda layer, y: y * layer.weight + layer.bias),
                "meets the last axis",
            ),
            "gain for images": (shaped((1, -1, 1, 1)), "images only"),
            "gain for series": (shaped((-1, 1)), "series only"),
            "unbiased": (wrong(below=lambda t, a, e: torch.sqrt(t.var(a, keepdim=True) + e)), "correction=0"),
            "eps outside": (wrong(below=lambda t, a, e: t.std(a, correction=0, keepdim=True) + e), "under the root"),
            "no root": (wrong(below=lambda t, a, e: t.var(a, correction=0, keepdim=True) + e), "root is missing"),
            "not centered": (wrong(center=False), "mean is not subtracted"),
            "RMS of groups": (
                wrong(center=False, below=lambda t, a, e: torch.sqrt(t.square().mean(a, keepdim=True) + e)),
                "RMSNorm of groups",
            ),
            "eps not handed on": (
                wrong(below=lambda t, a, e: torch.sqrt(t.var(a, correction=0, keepdim=True) + 1e-5)),
                "not handed on",
            ),
            "no eps": (wrong(below=lambda t, a, e: t.std(a, correction=0, keepdim=True)), "eps is not used"),
            "no affine": (wrong(affine=lambda layer, y: y), "gain and bias are not used"),
            "no gain": (
                wrong(
                    affine=lambda layer, y: y if layer.bias is None else y + layer.bias.view(-1, *[1] * (y.dim() - 2))
                ),
                "gain is not used",
            ),
            "no bias": (
                wrong(
                    affine=lambda layer, y: (
                        y if layer.weight is None else y * layer.weight.view(-1, *[1] * (y.dim() - 2))
                    )
                ),
                "bias is not used",
            ),
            "gain first": (GainFirst, "before the group is normalized"),
            "bias times gain": (BiasTimesGain, "multiplied by the gain"),
            "gain only with a bias": (GainOnlyWithBias, "each by itself"),
            "rows across samples": (AcrossSamples, "across the samples"),
            "gain for three axes": (shaped_by_none, "images only"),
            "unbiased, eps outside": (wrong(below=lambda t, a, e: t.std(a, keepdim=True) + e), "divided by n - 1"),
            "truth of a tensor": (wrong(affine=lambda layer, y: y * layer.weight if layer.weight else y), "ambiguous"),
            "gain given to layer_norm": (GainInside, "Expected weight"),
            "chunks of G channels": (ChunksOfG, "swapped"),
            "not put together": (
                wrong(join=lambda layer, t, x: t.flatten(2), affine=lambda layer, y: y),
                "put together",
            ),
            "weight always": (
                wrong(
                    affine=lambda layer, y: (
                        y * layer.weight.view(-1, *[1] * (y.dim() - 2)) + layer.bias.view(-1, *[1] * (y.dim() - 2))
                    )
                ),
                "None without affine",
            ),
            "bias whenever weight": (
                wrong(
                    affine=lambda layer, y: (
                        y
                        if layer.weight is None
                        else y * layer.weight.view(-1, *[1] * (y.dim() - 2)) + layer.bias.view(-1, *[1] * (y.dim() - 2))
                    )
                ),
                "ask for it by itself",
            ),
            "view": (Viewed, "On a transposed tensor"),
            "x in place of wide": (wrong(widen=False), "not wide"),
            "one pass": (
                wrong(
                    below=lambda t, a, e: torch.sqrt(
                        t.square().mean(a, keepdim=True) - t.mean(a, keepdim=True) ** 2 + e
                    )
                ),
                "loses its digits",
            ),
            "an empty batch fails": (EmptyFails, "empty batch"),
            "detached": (
                wrong(below=lambda t, a, e: torch.sqrt(t.detach().var(a, correction=0, keepdim=True) + e)),
                "gradient of x",
            ),
            "parameters through .data": (
                wrong(
                    affine=lambda layer, y: (
                        y
                        if layer.weight is None
                        else y * layer.weight.data.view(-1, *[1] * (y.dim() - 2))
                        + (0 if layer.bias is None else layer.bias.data.view(-1, *[1] * (y.dim() - 2)))
                    )
                ),
                "get no gradient",
            ),
            "nothing": (NoReturn, "return"),
            "an object": (FromTheLibrary(2, 4), "takes your class"),
            "BatchNorm": (nn.BatchNorm1d, "tensor"),
        },
    },
    "same_function": {
        "right": {"bools": SAME},
        "wrong": {
            "a": (SAME | {"a": False}, "all C x H x W"),
            "b: as the manual suggests": (SAME | {"b": True}, "ALL pixels"),
            "c": (SAME | {"c": False}, "one channel at all positions"),
            "d": (SAME | {"d": False}, "batch is one sample"),
            "e: as the manual suggests": (SAME | {"e": True}, "ALL time steps"),
            "f": (SAME | {"f": False}, "mean of the squares"),
            "words": (SAME | {"a": "yes"}, "True and False"),
            "numbers": ({key: int(value) for key, value in SAME.items()}, "True and False"),
            "one missing": ({k: v for k, v in SAME.items() if k != "f"}, "missing"),
            "a list": (list(SAME.values()), "dictionary"),
        },
    },
    "centered": {
        "right": {
            "in one line": in_one_line,
            "with keepdim": with_keepdim,
            "by projection": by_projection,
            "transposed": transposed,
            "without gradients": lambda w, b: (w.detach() - w.detach().mean(0), b.detach() - b.detach().mean()),
            "as Parameters": lambda w, b: (nn.Parameter(w - w.mean(0)), nn.Parameter(b - b.mean())),
            "as a list": lambda w, b: [w - w.mean(0), b - b.mean()],
        },
        "wrong": {
            "rows": (lambda w, b: (w - w.mean(1, keepdim=True), b - b.mean()), "(outputs, inputs)"),
            "rows, no bias": (lambda w, b: (w - w.mean(-1, keepdim=True), b), "each row of the weight"),
            "one mean": (lambda w, b: (w - w.mean(), b - b.mean()), "one number"),
            "bias as it was": (lambda w, b: (w - w.mean(0), b), "written to the stream"),
            "weight as it was": (lambda w, b: (w, b - b.mean()), "weight is as it was"),
            "nothing done": (lambda w, b: (w, b), "nothing has changed"),
            "added": (lambda w, b: (w + w.mean(0), b + b.mean()), "Subtract them"),
            "bias zero": (lambda w, b: (w - w.mean(0), torch.zeros_like(b)), "bias becomes 0"),
            "normalized": (
                lambda w, b: (F.layer_norm(w.T, w.shape[:1]).T, F.layer_norm(b, b.shape)),
                "Only their mean",
            ),
            "standardized": (lambda w, b: ((w - w.mean(0)) / w.std(0), (b - b.mean()) / b.std()), "deviation"),
            "sums": (lambda w, b: (w - w.sum(0), b - b.sum()), "sums are subtracted"),
            "means": (lambda w, b: (w.mean(0), b.mean()), "what is left"),
            "turned round": (lambda w, b: in_one_line(w, b)[::-1], "weight first"),
            "over the inputs": (lambda w, b: (w - w.sum(0) / w.shape[1], b - b.mean()), "number of inputs"),
            "medians": (lambda w, b: (w - w.median(0).values, b - b.median()), "medians"),
            "rows, too": (
                lambda w, b: (w - w.mean(0) - w.mean(1, keepdim=True) + w.mean(), b - b.mean()),
                "columns alone",
            ),
            "divided": (lambda w, b: (w / w.mean(0), b / b.mean()), "divided out"),
            "weight only": (lambda w, b: w - w.mean(0), "new weight and new bias"),
            "in place": (in_place, "changed its input"),
            "rows without keepdim": (lambda w, b: (w - w.mean(1), b - b.mean()), "On a layer of 3 inputs"),
            "nothing": (lambda w, b: None, "return"),
        },
    },
    "choices": {
        "right": {"names": CHOICES, "in small letters": {key: name.lower() for key, name in CHOICES.items()}},
        "wrong": {
            "a: BatchNorm": (CHOICES | {"a": "BatchNorm"}, "depends on the other"),
            "a: InstanceNorm": (CHOICES | {"a": "InstanceNorm"}, "beside the next"),
            "a: LayerNorm": (CHOICES | {"a": "LayerNorm"}, "one image size"),
            "a: RMSNorm": (CHOICES | {"a": "RMSNorm"}, "how strong a place"),
            "b: GroupNorm": (CHOICES | {"b": "GroupNorm"}, "within its group"),
            "b: BatchNorm": (CHOICES | {"b": "BatchNorm"}, "one photo stays"),
            "b: LayerNorm": (CHOICES | {"b": "LayerNorm"}, "not of each channel"),
            "c: LayerNorm": (CHOICES | {"c": "LayerNorm"}, "that are to go"),
            "d: RMSNorm": (CHOICES | {"d": "RMSNorm"}, "for Pre-LN"),
            "d: BatchNorm": (CHOICES | {"d": "BatchNorm"}, "one eps"),
            "e: LayerNorm": (CHOICES | {"e": "LayerNorm"}, "one already"),
            "e: RMSNorm": (CHOICES | {"e": "RMSNorm"}, "linear layer behind it"),
            "f: GroupNorm": (CHOICES | {"f": "GroupNorm"}, "at inference as well"),
            "f: LayerNorm": (CHOICES | {"f": "LayerNorm"}, "each input"),
            "one missing": ({k: v for k, v in CHOICES.items() if k != "f"}, "missing"),
        },
    },
    "qk_logits_module": {
        "right": {
            "LayerNorm without bias": Logits,
            "LayerNorm with bias": WithBias,
            "RMSNorm": WithRMSNorm,
            "one RMSNorm for both": SharedGain,
            "length 1 and a number": LengthOne,
        },
        "wrong": {
            "unchanged": (at_each_call(lambda q: q.size()), "nothing is mended"),
            "made at each call": (at_each_call(lambda q: q.shape[-1]), "made in forward"),
            "over the whole tensor": (over_last(4), "head_size alone"),
            "over heads and steps": (over_last(3), "head_size alone"),
            "over steps": (over_last(2), "head_size alone"),
            "not used": (mended(forward=lambda self, q, k: q @ k.mT / q.shape[-1] ** 0.5), "made but not used"),
            "queries alone": (
                mended(forward=lambda self, q, k: self.norm_q(q) @ k.mT / q.shape[-1] ** 0.5),
                "only the queries",
            ),
            "keys alone": (
                mended(forward=lambda self, q, k: q @ self.norm_k(k).mT / q.shape[-1] ** 0.5),
                "only the keys",
            ),
            "no sqrt(d)": (mended(forward=lambda self, q, k: self.norm_q(q) @ self.norm_k(k).mT), "the bound is d"),
            "no gain": (
                mended(
                    make=lambda self, d: None,
                    forward=lambda self, q, k: (
                        F.layer_norm(q, q.shape[-1:]) @ F.layer_norm(k, k.shape[-1:]).mT / 8**0.5
                    ),
                ),
                "it has no gain",
            ),
            "the logits normalized": (
                mended(make=lambda self, d: None, forward=lambda self, q, k: F.layer_norm(q @ k.mT, q.shape[-2:-1])),
                "acts on the logits",
            ),
            "not transposed": (mended(forward=lambda self, q, k: self.norm_q(q) @ self.norm_k(k)), "transposed"),
            "turned round": (mended(forward=lambda self, q, k: -Logits.forward(self, q, k)), "sign"),
            "a plain list": (
                mended(
                    make=lambda self, d: setattr(self, "norms", [nn.LayerNorm(d), nn.LayerNorm(d)]),
                    forward=lambda self, q, k: self.norms[0](q) @ self.norms[1](k).mT / q.shape[-1] ** 0.5,
                ),
                "plain list",
            ),
            "one of two used": (
                mended(forward=lambda self, q, k: self.norm_q(q) @ self.norm_q(k).mT / 8**0.5),
                "norm_k",
            ),
            "normalized and clamped": (
                mended(forward=lambda self, q, k: Logits.forward(self, q, k).clamp(-1, 1)),
                "has not the largest",
            ),
            "softmax": (mended(forward=lambda self, q, k: Logits.forward(self, q, k).softmax(-1)), "softmax"),
            "clamped": (
                mended(forward=lambda self, q, k: (q @ k.mT / 8**0.5).clamp(-(8**0.5), 8**0.5)),
                "30 times as large",
            ),
            "nothing": (mended(forward=lambda self, q, k: None), "None"),
            "an object": (Logits(8), "takes your class"),
        },
    },
}

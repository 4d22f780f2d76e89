"""Answers to the exercises of lesson 4: what people write, right and wrong.

The layers of the five public tutorials that the course answers are here too, in our own words and by their titles:
"Layer Normalization in Pytorch (With Examples)", "Layer Normalization" (notes by Rico), "How is layer normalization
implemented in PyTorch?", labml.ai's annotated LayerNorm, "Lecture 20: Layer Normalization".
"""

import re
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNorm, layer_norm
from fromscratch.affine_and_module import _check_inputs, _sizes

# ---- Functions -------------------------------------------------------------------------------------------------------


def short_centered_squares(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(axes, keepdim=True)
    c = x - mean
    var = (c * c).mean(axes, keepdim=True)
    return c / torch.sqrt(var + eps) * weight + bias


def short_var_mean(x, normalized_shape, weight, bias, eps=1e-5):
    dims = [-1 - i for i in range(len(normalized_shape))]
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(var + eps), weight)


def short_flattened(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.flatten(-len(normalized_shape))
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows / (rows.square().mean(-1, keepdim=True) + eps) ** 0.5
    return rows.reshape(x.shape) * weight + bias


def once(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    axes = tuple(range(-len(sizes), 0))
    x = x.contiguous()
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    var, mean = torch.var_mean(z, axes, correction=0, keepdim=True)
    y = (z - mean) * (var + eps) ** -0.5
    if weight is not None:
        y = weight * y
    if bias is not None:
        y = bias + y
    return y.to(x.dtype)


def flattened(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    rows = x.contiguous().flatten(-len(sizes)).to(torch.promote_types(x.dtype, torch.float32))
    rows = rows - rows.mean(-1, keepdim=True)
    y = (rows / (rows.square().mean(-1, keepdim=True) + eps).sqrt()).reshape(x.shape)
    y = y if weight is None else weight * y
    return (y if bias is None else bias + y).to(x.dtype)


def changed(x_hat):
    """Return the course's layer_norm with something done to x_hat."""
    return lambda x, shape, weight, bias, eps=1e-5: x_hat(layer_norm(x, shape, eps=eps)) * weight + bias


def notes_by_rico(x, normalized_shape, weight=None, bias=None):
    return layer_norm(x, normalized_shape, weight, bias, eps=1e-8)


def article(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Axis 1, and eps beside the deviation."""
    return weight * (x - x.mean(1, keepdim=True)) / (x.std(1, correction=0, keepdim=True) + eps) + bias


def annotated_by_labml(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    assert normalized_shape == x.shape[-len(normalized_shape) :]
    axes = [-(i + 1) for i in range(len(normalized_shape))]
    mean = x.mean(axes, keepdim=True)
    y = (x - mean) / torch.sqrt((x**2).mean(axes, keepdim=True) - mean**2 + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def lecture_20(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """The last axis, whatever the shape."""
    return weight * (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps) + bias


def annotated_transformer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def axes_by_size(x, normalized_shape, weight, bias, eps=1e-5):
    axes = [i for i, size in enumerate(x.shape) if size in normalized_shape]
    c = x - x.mean(axes, keepdim=True)
    return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps) * weight + bias


def in_place(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    x -= x.mean(axes, keepdim=True)
    return x / torch.sqrt((x * x).mean(axes, keepdim=True) + eps) * weight + bias


def kept_by_shape():
    """The mean of the first tensor of a shape serves for all that follow."""
    means = {}

    def answer(x, normalized_shape, weight, bias, eps=1e-5):
        axes = tuple(range(-len(normalized_shape), 0))
        c = x - means.setdefault(x.shape, x.mean(axes, keepdim=True))
        return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps) * weight + bias

    return answer


def branching(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """A branch on values, which vmap cannot take."""
    y = layer_norm(x, normalized_shape, weight, bias, eps)
    return y if y.numel() == 0 or y.isfinite().all().item() else y.nan_to_num()


def looks_at_the_gain_only(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    sizes = _sizes(normalized_shape)
    return once(x, sizes, weight, None if bias is None else bias.expand(sizes), eps)


def by_group_norm(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.flatten(-len(normalized_shape)).flatten(0, -2)
    return F.group_norm(rows, 1, eps=eps).reshape(x.shape) * weight + bias


ANY_WRONG = {  # of both functions
    "the article": (article, "two at once: axis 1"),
    "Lecture 20": (lecture_20, "only the last axis"),
    "Annotated Transformer": (annotated_transformer, "three at once"),
    "the report: PyTorch's, as printed there": (lambda x, **options: F.layer_norm(x), "it raised TypeError"),
    "axes looked up by size": (axes_by_size, "(4, 3, 4)"),
    "clipped": (changed(lambda y: y.clamp(-3, 3)), "an entry of 30"),
    "x_hat in float32": (changed(lambda y: y.float().to(y.dtype)), "In: x"),
    "in place": (in_place, "changed its input"),
    "a module": (nn.LayerNorm, "not a class"),
}


# ---- Classes ---------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if elementwise_affine:
            self.weight = nn.Parameter(torch.ones(self.normalized_shape, device=device, dtype=dtype))
            if bias:
                self.bias = nn.Parameter(torch.zeros(self.normalized_shape, device=device, dtype=dtype))

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class LikePyTorch(nn.Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            empty = torch.empty(self.normalized_shape, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(empty.fill_(name == "weight")) if wanted else None)

    def extra_repr(self):
        return "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}".format(**self.__dict__)

    def forward(self, input):
        return flattened(input, self.normalized_shape, self.weight, self.bias, self.eps)


class NotesByRico(nn.Module):
    """eps 1e-8, no int, and parameters that stay when there should be none."""

    def __init__(self, normalized_shape, elementwise_affine=True):
        super().__init__()
        self.affine, self.axes = elementwise_affine, tuple(range(-len(normalized_shape), 0))
        self.weight, self.bias = nn.Parameter(torch.ones(normalized_shape)), nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        c = x - x.mean(self.axes, keepdim=True)
        y = c / torch.sqrt((c * c).mean(self.axes, keepdim=True) + 1e-8)
        return self.weight * y + self.bias if self.affine else y


class AnnotatedByLabml(nn.Module):
    def __init__(self, normalized_shape, *, eps=1e-5, elementwise_affine=True):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = normalized_shape, eps, elementwise_affine
        if elementwise_affine:
            self.gain = nn.Parameter(torch.ones(normalized_shape))
            self.bias = nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        y = annotated_by_labml(x, self.normalized_shape, eps=self.eps)
        return self.gain * y + self.bias if self.elementwise_affine else y


class Lecture20(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(emb_dim)), nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        return lecture_20(x, None, self.scale, self.shift)


class ReportWithExamples(Plain):
    """PyTorch's layer inside, and __call__ in place of forward."""

    forward = nn.Module.forward
    __call__ = Plain.forward


class NoSuper(Plain):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        self.weight = nn.Parameter(torch.ones(normalized_shape))


class Around(nn.Module):
    """PyTorch's layer inside: its parameters get longer names."""

    def __init__(self, *args, **options):
        super().__init__()
        self.norm = nn.LayerNorm(*args, **options)

    def forward(self, x):
        return self.norm(x)


class SmallGain(Plain):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        if self.weight is not None:
            nn.init.constant_(self.weight, 0.02)


class KeptByShape(Plain):
    """The first output of a shape serves for all that follow."""

    def forward(self, x):
        self.outputs = getattr(self, "outputs", {})
        return self.outputs.setdefault(x.shape, super().forward(x))


# ---- Checkpoints -----------------------------------------------------------------------------------------------------

NEW_NAMES = {"gain": "weight", "offset": "bias"}


def by_pieces(state):
    def rename(name):
        *place, last = name.split(".")
        return ".".join([*place, NEW_NAMES.get(last, last)])

    return {rename(name): tensor + 1 if name.split(".")[-1] == "gain" else tensor for name, tensor in state.items()}


def by_expression(state):
    new = OrderedDict()
    for name, tensor in state.items():
        if re.search(r"(^|\.)gain$", name):
            tensor = torch.ones_like(tensor) + tensor
        new[re.sub(r"(?:(?<=\.)|^)(gain|offset)$", lambda found: NEW_NAMES[found[1]], name)] = tensor
    return new


def by_popping(state):
    new = dict(state)
    for name in state:
        if name == "gain" or name.endswith(".gain"):
            new[name[: -len("gain")] + "weight"] = new.pop(name) + 1.0
        elif name == "offset" or name.endswith(".offset"):
            new[name[: -len("offset")] + "bias"] = new.pop(name)
    return new


def as_at_the_beginning(state):
    """The lesson's first renaming."""
    return {name.replace("gain", "weight").replace("offset", "bias"): tensor for name, tensor in state.items()}


def popped_from_state(state):
    return by_pieces({name: state.pop(name) for name in list(state)})


COUNTS = {
    "LayerNorm([C, H, W]): means": 2,
    "LayerNorm([C, H, W]): parameters": 120,
    "LayerNorm per pixel: means": 40,
    "LayerNorm per pixel: parameters": 6,
    "GroupNorm(1, C): means": 2,
    "GroupNorm(1, C): parameters": 6,
}


BANK = {
    "short_layer_norm": {
        "right": {
            "centered squares": short_centered_squares,
            "var_mean, addcmul": short_var_mean,
            "flattened": short_flattened,
        },
        "wrong": ANY_WRONG
        | {
            "F.layer_norm": (lambda *args, **options: F.layer_norm(*args, **options), "PyTorch's own layer_norm"),
            "group_norm": (by_group_norm, "PyTorch's own group_norm"),
            "a mean kept by shape": (kept_by_shape(), "On a (2, 3, 4, 5) tensor"),
            "no eps argument": (lambda x, n, w, b: short_centered_squares(x, n, w, b), "it raised TypeError"),
        },
    },
    "layer_norm": {
        "right": {"the course's": layer_norm, "centered once, var_mean": once, "flattened": flattened},
        "right_for": ("short_layer_norm",),
        "wrong": ANY_WRONG
        | {
            "notes by Rico": (notes_by_rico, "fixed at 1e-8"),
            "labml, annotated": (annotated_by_labml, "cancels"),
            "F.layer_norm": (
                lambda x, n, *args, **options: F.layer_norm(x, _sizes(n), *args, **options),
                "PyTorch's own layer_norm",
            ),
            "native_layer_norm": (
                lambda x, n, weight=None, bias=None, eps=1e-5: torch.native_layer_norm(x, _sizes(n), weight, bias, eps)[
                    0
                ],
                "PyTorch's own layer_norm",
            ),
            "a mean kept by shape": (kept_by_shape(), "On a (2, 3, 4, 5) tensor"),
            "a bias of any shape": (looks_at_the_gain_only, "a bias of shape (1,)"),
            "a branch on values": (branching, "vmap"),
        },
    },
    "layer_norm_module": {
        "right": {"the course's": LayerNorm, "None, then parameters": Plain, "PyTorch's way": LikePyTorch},
        "wrong": {
            "nn.LayerNorm": (nn.LayerNorm, "inherits from it"),
            "no super().__init__()": (NoSuper, "Module.__init__()"),
            "notes by Rico": (NotesByRico, "an int is not understood"),
            "labml, annotated": (AnnotatedByLabml, "gain"),
            "Lecture 20": (Lecture20, "scale"),
            "the report: __call__": (ReportWithExamples, "__call__ is overridden"),
            "PyTorch's layer inside": (Around, "norm.weight"),
            "gain starts at 0.02": (SmallGain, "expected [1, 1, 1, 1]"),
            "an output kept by shape": (KeptByShape, "the output on the second"),
            "the function instead": (layer_norm, "takes your class itself"),
            "an instance": (Plain(4), "takes your class itself"),
        },
    },
    "image_counts": {
        "right": {"all six": COUNTS, "in words": {key: f"{value}" for key, value in COUNTS.items()}},
        "wrong": {
            "one missing": ({key: COUNTS[key] for key in list(COUNTS)[1:]}, "missing"),
            "a misspelt key": (COUNTS | {"GroupNorm: means": 2}, "The keys are"),
            "a list": (list(COUNTS.values()), "takes a dictionary"),
            "off by one": (COUNTS | {"GroupNorm(1, C): means": 5}, "Right so far: LayerNorm([C, H, W]): means"),
        },
    },
    "translated": {
        "right": {"by pieces": by_pieces, "a regular expression": by_expression, "popping": by_popping},
        "wrong": {
            "the lesson's first renaming": (as_at_the_beginning, "OldNorm multiplies by 1 + gain"),
            "state emptied": (popped_from_state, "the names in state after the call"),
            "pairs": (lambda state: list(by_pieces(state).items()), "it returned a list"),
            "whole numbers get the 1": (
                lambda state: {n: t + 1 if t.dtype == torch.int64 else t for n, t in by_pieces(state).items()},
                "block.steps",
            ),
            "a layer": (nn.LayerNorm(4), "On the checkpoint of a small net"),
        },
    },
}

"""Answers to the exercises of lesson 4: what people write, right and wrong."""

import re
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNorm, layer_norm, normalize_over
from fromscratch.affine_and_module import _check_inputs, _sizes
from lessonkit.check.declare import instead

from .checks import _in_steps as centered_once
from .checks import _over_in_steps as centered_over
from .checks import _translated as by_rpartition


# ---- Functions
def flattened(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Rows of one axis, and ones and zeros in place of None."""
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    z = x.contiguous().to(torch.promote_types(x.dtype, torch.float32))
    rows = z.flatten(-len(sizes))
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows / (rows.square().mean(-1, keepdim=True) + eps) ** 0.5
    weight = z.new_ones(sizes) if weight is None else weight
    bias = z.new_zeros(sizes) if bias is None else bias
    return (rows.reshape(x.shape) * weight + bias).to(x.dtype)


def flat_over(x, sizes, eps=1e-5):
    rows = x.flatten(-len(sizes))
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
    return rows.reshape(x.shape)


def over_by_size(x, sizes, eps=1e-5):
    axes = [i for i, size in enumerate(x.shape) if size in sizes]
    c = x - x.mean(axes, keepdim=True)
    return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps)


def axes_by_size(x, normalized_shape, weight, bias, eps=1e-5):
    axes = [i for i, size in enumerate(x.shape) if size in normalized_shape]
    c = x - x.mean(axes, keepdim=True)
    return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps) * weight + bias


# ---- Classes
class LikePyTorch(LayerNorm):
    """The argument is called input, as nn.LayerNorm calls it, and the rows are flattened."""

    def forward(self, input):
        return flattened(input, self.normalized_shape, self.weight, self.bias, self.eps)


class KeptByShape(LayerNorm):
    """The first output of a shape serves for all that follow."""

    def forward(self, x):
        self.outputs = getattr(self, "outputs", {})
        return self.outputs.setdefault(x.shape, super().forward(x))


# ---- Checkpoints
def by_expression(state):
    new = OrderedDict()
    for name, tensor in state.items():
        if re.search(r"(^|\.)gain$", name):
            tensor = torch.ones_like(tensor) + tensor
        new_name = {"gain": "weight", "offset": "bias"}
        new[re.sub(r"(?:(?<=\.)|^)(gain|offset)$", lambda match: new_name[match[1]], name)] = (
            tensor
        )
    return new


ANSWERS = {
    "folded": {"right": {"lists": {"o": [2, 12], "b": 2}}},
    "normalize_over": {
        "right": {
            "the course's": normalize_over,
            "centered once": centered_over,
            "flattened": flat_over,
        },
        "wrong": {
            "axes looked up by size": (over_by_size, "(4, 3, 4)"),
            "F.layer_norm": (
                lambda x, sizes, eps=1e-5: F.layer_norm(x, sizes, eps=eps),
                "PyTorch's own layer_norm",
            ),
            "a smallest eps": (
                instead(centered_over, "deviation = torch.sqrt(var + max(eps, 1e-12))"),
                "eps=0",
            ),
        },
    },
    "layer_norm": {
        "right": {
            "the course's": layer_norm,
            "centered once": centered_once,
            "ones and zeros for None": flattened,
        },
        "wrong": {
            "axes looked up by size": (axes_by_size, "(4, 3, 4)"),
            "F.layer_norm": (
                lambda x, n, *a, **kw: F.layer_norm(x, _sizes(n), *a, **kw),
                "PyTorch's own layer_norm",
            ),
            "nan made 0": (
                instead(centered_once, "return y.to(x.dtype).nan_to_num()"),
                "nan in it",
            ),
            "a smallest eps": (
                instead(centered_once, "deviation = torch.sqrt(var + max(eps, 1e-12))"),
                "eps=0",
            ),
            "a branch on values": (
                instead(
                    centered_once,
                    "return y.to(x.dtype) if y.numel() == 0 or y.isfinite().all().item() else y.to(x.dtype)",
                ),
                "vmap",
            ),
            "in place onto rows that are not mapped": (
                instead(centered_once, "y = x_hat if weight is None else x_hat.mul_(weight)"),
                "two weights mapped",
            ),
        },
    },
    "layer_norm_module": {
        "right": {"the course's": LayerNorm, "PyTorch's way": LikePyTorch},
        "wrong": {
            "nn.LayerNorm": (nn.LayerNorm, "PyTorch's own layer_norm"),
            "F.layer_norm": (
                instead(
                    LayerNorm,
                    "def forward(self, x): return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
                ),
                "PyTorch's own layer_norm",
            ),
            "x in float32, whose error tells more than a cause": (
                instead(
                    LayerNorm,
                    "def forward(self, x):\n"
                    "    return layer_norm(x.float(), self.normalized_shape, self.weight, self.bias, self.eps)",
                ),
                "and the sizes (3, 4): it raised RuntimeError: mixed dtype",
            ),
            "no super().__init__()": (instead(LayerNorm, "super()"), "Module.__init__()"),
            "gain starts at 0.02": (
                instead(LayerNorm, "nn.init.constant_(parameter, 0.02)"),
                "expected [1, 1, 1, 1]",
            ),
            "no gain to learn in eval()": (
                instead(
                    LayerNorm,
                    "def forward(self, x):\n"
                    "    weight = self.weight if self.training or self.weight is None else self.weight.detach()\n"
                    "    return layer_norm(x, self.normalized_shape, weight, self.bias, self.eps)",
                ),
                "the gradients of its parameters in eval()",
            ),
            "an output kept by shape": (KeptByShape, "kept from an earlier call"),
        },
    },
    "translated": {
        "right": {"by rpartition": by_rpartition, "a regular expression": by_expression},
        "wrong": {
            "state emptied": (
                lambda state: by_rpartition({n: state.pop(n) for n in list(state)}),
                "after the call",
            ),
            "pairs": (lambda state: list(by_rpartition(state).items()), "it returned a list"),
            "whole numbers get the 1": (
                lambda state: {
                    n: t + 1 if t.dtype == torch.int64 else t
                    for n, t in by_rpartition(state).items()
                },
                "block.steps",
            ),
        },
    },
}

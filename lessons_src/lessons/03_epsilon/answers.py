"""Answers to the exercises of lesson 3."""

import math
from operator import attrgetter

import torch
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _half, _normalize


def row_by_row(x, eps=1e-5):
    rows = [
        (row - row.mean()) / (row.var(correction=0) + eps).sqrt()
        for row in x.reshape(-1, x.shape[-1])
    ]
    return torch.stack(rows).reshape(x.shape)


def a_cpu_constant(x, eps=1e-5):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * (var + torch.full((1,), eps, dtype=x.dtype)) ** -0.5


def all_but_the_first(x, eps=1e-8):
    axes = tuple(range(1, x.dim())) or -1
    var, mean = torch.var_mean(x.float(), axes, correction=0, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps)).to(x.dtype)


BREAKING = {"nan": [7, 7, 7, 7], "inf": [1e-5, 2e-5, 3e-5, 4e-5], "zeros": [0, 500, 1000, 1500]}


ANSWERS = {
    "normalize": {
        "right": {
            "mean and variance": _normalize,
            "row by row": row_by_row,
            "a power, and a tensor on the CPU": a_cpu_constant,
        },
        "wrong": {
            "the library, below its names": (
                lambda x, eps=1e-5: attrgetter("ops.aten.native_layer_norm.default")(torch)(
                    x, x.shape[-1:], None, None, eps
                )[0],
                "PyTorch's own layer_norm",
            ),
            "nan made 0": (
                instead(_normalize, "return ((x - mean) / torch.sqrt(var + eps)).nan_to_num()"),
                "nan in it",
            ),
            "a smallest eps": (
                instead(_normalize, "return (x - mean) / torch.sqrt(var + max(eps, 1e-20))"),
                "eps = 0",
            ),
        },
    },
    "eps_on_paper": {"right": {"numbers": {"variance": 0.25, "eps": 32}}},
    "breaking_rows": {
        "right": {
            "tensors": {
                key: torch.tensor(row, dtype=torch.float32) for key, row in BREAKING.items()
            },
            "float16, longer": {
                "nan": torch.zeros(6, dtype=torch.float16),
                "inf": torch.tensor([0, 0, 0, 0, 1e-4], dtype=torch.float16),
                "zeros": torch.tensor([[-300, 300, -300, 300]], dtype=torch.float16),
            },
        },
        "wrong": {
            "nan in the row": (BREAKING | {"nan": [math.nan] * 4}, "holds inf or nan before"),
            "too short": (BREAKING | {"nan": [1, 1, 1]}, "at least four numbers"),
            "dots": (BREAKING | {"inf": ...}, "three dots"),
            "nan and inf mixed": (
                BREAKING | {"nan": [0, 0, 0, 1e-4, -1e-4]},
                "What if all numbers are equal",
            ),
            "equal once they are rounded": (
                BREAKING | {"inf": [1, 1.0001, 1.0002, 1.0001]},
                "at least in float16",
            ),
            "one nan by inf over inf": (
                BREAKING | {"nan": [65504, -65504, -65504, -65504]},
                "x - mean itself is inf",
            ),
            "one right so far": (
                BREAKING | {"nan": [1, 2, 3, 4], "inf": [1, 2, 3, 4]},
                "Right so far: zeros",
            ),
            "squares beyond float16, and a variance that fits": (
                BREAKING | {"zeros": [300, -300, 0, 0]},
                "larger than float16 can hold",
            ),
            "a list": (list(BREAKING.values()), "dictionary"),
        },
    },
    "normalize_half": {
        "right": {
            "float32 inside": _half,
            "float64 inside": lambda x, eps=1e-8: a_cpu_constant(x.double(), eps).to(x.dtype),
            "the library": lambda x, eps=1e-8: F.layer_norm(x, x.shape[-1:], eps=eps),
        },
        "wrong": {
            "rounded before the division": (
                instead(_half, "return (wide - mean).to(x.dtype) / deviation.to(x.dtype)"),
                "inf",
            ),
            "constants in bfloat16": (
                instead(
                    _half,
                    "var = wide.var(-1, correction=0, keepdim=True)\n"
                    "deviation = (var.detach() if x.dtype == torch.bfloat16 else var).add(eps).sqrt()",
                ),
                "On bfloat16 rows: gradient of x",
            ),
            "0/0 for one number": (
                instead(_half, "var = wide.var(-1, keepdim=True) * (1 - 1 / x.shape[-1])"),
                "one number",
            ),
            "a smallest eps": (
                instead(_half, "deviation = torch.sqrt(var + max(eps, 1e-20))"),
                "sigma = 1e-12",
            ),
            "all axes but the first": (all_but_the_first, "front axes = 2"),
        },
    },
}

"""Answers to the exercises of lesson 3."""

import torch
from torch.nn import functional as F

from lessonkit.check.lessons.epsilon import _half, _merge, _normalize, _read_eps
from lessonkit.check.misconceptions import instead


def row_by_row(x, eps=1e-5):
    rows = [(row - row.mean()) / (row.var(correction=0) + eps).sqrt() for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


def a_cpu_constant(x, eps=1e-5):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * (var + torch.full((1,), eps, dtype=x.dtype)) ** -0.5


def kept_by_shape(x, eps=1e-5, kept={}):  # noqa: B006
    mean, var = kept.setdefault(x.shape, (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)))
    return (x - mean) / torch.sqrt(var + eps)


def small_row(scale=1e-6):
    return scale * torch.tensor([[-2.0, -1.0, 0.0, 1.0, 5.0]], dtype=torch.float64)


def found(rule, row=None):
    """An answer that feeds a row and computes rule(variance in, variance out)."""

    def find_eps(layer):
        x = small_row() if row is None else row
        return rule(x.var(-1, correction=0), layer(x).var(-1, correction=0)).item()

    return find_eps


def from_one_entry(layer):
    row = torch.tensor([-3e-7, -1e-7, 1e-7, 3e-7])
    return float((row[3] / layer(row)[3]) ** 2 - row.var(correction=0))


def from_the_slope(layer):
    slopes = torch.autograd.functional.jacobian(layer, torch.zeros(3, dtype=torch.float64))
    return torch.linalg.matrix_norm(slopes, 2) ** -2


def guesses(layer):
    row = small_row(1e-2)
    tried = [1e-3, 1e-5, 1e-6, 1e-12]
    return min(tried, key=lambda eps: (F.layer_norm(row, (5,), eps=eps) - layer(row)).abs().max())


def from_the_new_mean(n, mean_a, var_a, m, mean_b, var_b):
    mean = (n * mean_a + m * mean_b) / (n + m)
    squares = n * (var_a + (mean_a - mean) ** 2) + m * (var_b + (mean_b - mean).square())
    return mean, squares / (n + m)


def in_float64_inside(n, mean_a, var_a, m, mean_b, var_b):
    return from_the_new_mean(n, mean_a.double(), var_a.double(), m, mean_b.double(), var_b.double())


def rounded_back(n, mean_a, *others):
    return [t.to(mean_a.dtype) for t in in_float64_inside(n, mean_a, *others)]


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
            "the library": (lambda x, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps), "write its steps yourself"),
            "the library, below its names": (
                lambda x, eps=1e-5: torch.ops.aten.native_layer_norm.default(x, x.shape[-1:], None, None, eps)[0],
                "PyTorch's own layer_norm",
            ),
            "no default": (lambda x, eps: _normalize(x, eps), "raised TypeError"),
            "a clamp at 10": (lambda x, eps=1e-5: _normalize(x, eps).clamp(-10, 10), "values = outlier"),
            "statistics kept by shape": (kept_by_shape, "expected"),
            "in place": (instead(_normalize, "return x.sub_(mean) / deviation"), "changed its input"),
            "returns the statistics too": (lambda x, eps=1e-5: (_normalize(x, eps), x.mean(-1)), "tuple"),
            "always float32": (lambda x, eps=1e-5: _normalize(x.float(), eps), "dtype"),
            "flattens by view": (
                lambda x, eps=1e-5: _normalize(x.view(-1, x.shape[-1]), eps).view(x.shape),
                "view size",
            ),
        },
    },
    "find_eps": {
        "right": {
            "from variances": _read_eps,
            "from one entry, float32": from_one_entry,
            "from the slope at zero": from_the_slope,
            "negligible variance": found(lambda v, out: v / out, small_row(1e-9)),
        },
        "wrong": {  # no misconceptions: causes depend on the row that is fed
            "rounded to one digit": (lambda layer: float(f"{_read_eps(layer):.0e}"), "Is it rounded"),
            "an ordinary row in float32": (found(lambda v, out: v / out - v, torch.tensor([0.0, 1, 2, 3])), "float32"),
            "an ordinary row": (found(lambda v, out: v / out - v, small_row(1e3)), "times eps"),
            "a constant row": (found(lambda v, out: v / out - v, 0 * small_row() + 2), "constant"),
            "forgets v": (found(lambda v, out: v / out, small_row(1e-3)), "subtract"),
            "the root of eps": (found(lambda v, out: (v / out - v) ** 0.5), "root"),
            "1/sqrt(eps)": (found(lambda v, out: (v / out - v) ** -0.5), "slope"),
            "deviations, not variances": (found(lambda v, out: v**0.5 / out**0.5 - v**0.5), "root"),
            "upside down": (found(lambda v, out: out / v - v), "upside down"),
            "the output's variance": (found(lambda v, out: out), "variance of the output"),
            "the input's variance": (found(lambda v, out: v), "variance of the row that you fed"),
            "the sign": (found(lambda v, out: v - v / out), "sign"),
            "always PyTorch's": (lambda layer: 1e-5, "same number"),
            "the unbiased variance of the row": (found(lambda v, out: v * 5 / 4 / out - v * 5 / 4), "biased variance"),
            "v times what is missing": (found(lambda v, out: v * (1 - out), small_row(1e-3)), "Compare it"),
            "text": (lambda layer: "1e-5", "expected 0.001"),
            "a row": (lambda layer: layer(small_row()), "a tensor of shape (1, 5), expected 0.001"),
            "a list of four guesses": (guesses, "On a layer with eps = 0.000137"),
            "nothing": (lambda layer: None, "return"),
            "reads an attribute": (lambda layer: layer.eps, "AttributeError"),
        },
        "generic_exceptions": ["a little too large"],  # by 0.03 %: the docstring allows one percent
    },
    "merge": {
        "right": {
            "from the distance": _merge,
            "from the new mean": from_the_new_mean,
            "float64 inside, rounded back": rounded_back,
        },
        "wrong": {
            "float64 comes out": (in_float64_inside, "dtype"),
            "a dictionary": (lambda *parts: dict(zip(("mean", "var"), _merge(*parts), strict=True)), "dict"),
            "the count as well": (
                lambda *parts: (parts[0] + parts[3], *_merge(*parts)),
                "expected the mean and the var",
            ),
            "counts are rounded": (instead(_merge, "mean = mean_a + delta * (m // (n + m))"), "expected"),
            "two mistakes": (instead(_merge, "mean = mean_a + delta / 2\nbetween = 0"), "middle"),
            "one part right": (instead(_merge, "between = delta**3 * n * m / (n + m) ** 2"), "Right so far: the mean"),
            "the distance is detached": (
                instead(_merge, "between = (delta.detach() ** 2) * n * m / (n + m) ** 2"),
                "the gradient does not",
            ),
        },
    },
    "breaking_rows": {
        "right": {
            "lists": BREAKING,
            "tensors": {key: torch.tensor(row, dtype=torch.float32) for key, row in BREAKING.items()},
            "float16, longer": {
                "nan": torch.zeros(6, dtype=torch.float16),
                "inf": torch.tensor([0, 0, 0, 0, 1e-4], dtype=torch.float16),
                "zeros": torch.tensor([[-300, 300, -300, 300]], dtype=torch.float16),
            },
        },
        "wrong": {
            "too short": (BREAKING | {"nan": [1, 1, 1]}, "at least four numbers"),
            "no float16 number": (BREAKING | {"zeros": [0, 1e5, 2e5, 3e5]}, "65,504"),
            "a number": (BREAKING | {"inf": 1e-5}, "at least four numbers"),
            "words": (BREAKING | {"inf": "inf"}, "at least four numbers"),
            "dots": (BREAKING | {"inf": ...}, "three dots"),
            "nan and inf mixed": (BREAKING | {"nan": [0, 0, 0, 1e-4, -1e-4]}, "What if all numbers are equal"),
            "equal once they are rounded": (BREAKING | {"inf": [1, 1.0001, 1.0002, 1.0001]}, "at least in float16"),
            "one nan by inf over inf": (BREAKING | {"nan": [65504, -65504, -65504, -65504]}, "x - mean itself is inf"),
            "one right so far": (BREAKING | {"nan": [1, 2, 3, 4], "inf": [1, 2, 3, 4]}, "Right so far: zeros"),
            "a list": (list(BREAKING.values()), "dictionary"),
            "one missing": ({"nan": [0] * 4, "inf": [1e-5] * 4}, "Its keys are"),
        },
    },
    "normalize_half": {
        "right": {
            "float32 inside": _half,
            "float64 inside": lambda x, eps=1e-8: a_cpu_constant(x.double(), eps).to(x.dtype),
            "the library": lambda x, eps=1e-8: F.layer_norm(x, x.shape[-1:], eps=eps),
        },
        "wrong": {
            "stays float32": (lambda x, eps=1e-8: _normalize(x.float(), eps), "dtype"),
            ".half() at the end": (lambda x, eps=1e-8: _half(x, eps).half(), "dtype"),
            "a dtype that is asked too late": (instead(_half, "x = x.float()\nwide = x"), "x = x.float() stands"),
            "all axes but the first": (all_but_the_first, "front axes = 2"),
        },
    },
}

"""Answers to the exercises of lesson 3."""

import math

import torch
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------------- 3.1 normalize


def by_hand(x, eps=1e-5):
    D = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / D
    var = ((x - mean) ** 2).sum(-1, keepdim=True) / D
    return (x - mean) / torch.sqrt(var + eps)


def with_rsqrt(x, eps=1e-5):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(var + eps)


def row_by_row(x, eps=1e-5):
    rows = [(row - row.mean()) / (row.var(correction=0) + eps).sqrt() for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


def as_a_norm(x, eps=1e-5):
    centered = x - x.mean(-1, keepdim=True)
    D = x.shape[-1]
    return math.sqrt(D) * centered / torch.sqrt(centered.square().sum(-1, keepdim=True) + D * eps)


def a_cpu_constant(x, eps=1e-5):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * (var + torch.full((1,), eps, dtype=x.dtype)) ** -0.5


def in_place(x, eps=1e-5):
    x -= x.mean(-1, keepdim=True)
    x /= torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps)
    return x


def kept_by_shape(x, eps=1e-5, kept={}):  # noqa: B006
    mean, var = kept.setdefault(x.shape, (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)))
    return (x - mean) / torch.sqrt(var + eps)


# -------------------------------------------------------------------------------------------------- 3.2 find_eps


def small_row(scale=1e-6):
    return scale * torch.tensor([[-2.0, -1.0, 0.0, 1.0, 5.0]], dtype=torch.float64)


def found(rule, row=None):
    """An answer that feeds a row and computes rule(variance in, variance out)."""

    def find_eps(layer):
        x = small_row() if row is None else row
        return rule(x.var(-1, correction=0), layer(x).var(-1, correction=0)).item()

    return find_eps


def from_variances(layer):
    row = small_row()
    v = row.var(correction=0)
    return (v / layer(row).var(correction=0) - v).item()


def from_one_entry(layer):
    row = torch.tensor([-3e-7, -1e-7, 1e-7, 3e-7])
    return float((row[3] / layer(row)[3]) ** 2 - row.var(correction=0))


def from_the_slope(layer):
    zeros = torch.zeros(3, dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(layer, zeros)
    return torch.linalg.matrix_norm(slopes, 2) ** -2


def from_a_random_row(layer):
    row = 1e-7 * torch.randn(2, 64, dtype=torch.float64)
    ratio = ((row - row.mean(-1, keepdim=True)) / layer(row)).square().mean()
    return ratio.item() - row.var(-1, correction=0).mean().item()


def guesses(layer):
    row = small_row(1e-2)
    tried = [1e-3, 1e-5, 1e-6, 1e-12]
    return min(tried, key=lambda eps: (F.layer_norm(row, (5,), eps=eps) - layer(row)).abs().max())


# ------------------------------------------------------------------------------------------------------ 3.3 merge


def from_the_distance(n, mean_a, var_a, m, mean_b, var_b):
    share = m / (n + m)
    delta = mean_b - mean_a
    return mean_a + share * delta, (1 - share) * var_a + share * var_b + share * (1 - share) * delta**2


def from_the_new_mean(n, mean_a, var_a, m, mean_b, var_b):
    mean = (n * mean_a + m * mean_b) / (n + m)
    squares = n * (var_a + (mean_a - mean) ** 2) + m * (var_b + (mean_b - mean).square())
    return mean, squares / (n + m)


def with_sums_of_squares(n, mean_a, var_a, m, mean_b, var_b):
    """Chan, Golub & LeVeque: sums of squared distances, and one division at the end."""
    delta = mean_b - mean_a
    m2 = n * var_a + m * var_b + delta * delta * (n * m / (n + m))
    return mean_a + delta * (m / (n + m)), m2 / (n + m)


def in_float64_inside(n, mean_a, var_a, m, mean_b, var_b):
    mean_a, var_a, mean_b, var_b = (t.double() for t in (mean_a, var_a, mean_b, var_b))
    mean = (n * mean_a + m * mean_b) / (n + m)
    squares = (n * (var_a + mean_a**2) + m * (var_b + mean_b**2)) / (n + m)
    return mean, squares - mean**2


def rounded_back(n, mean_a, var_a, m, mean_b, var_b):
    return tuple(t.to(mean_a.dtype) for t in in_float64_inside(n, mean_a, var_a, m, mean_b, var_b))


def two_points(n, mean_a, var_a, m, mean_b, var_b):
    """Variance within the parts plus variance between them: each number replaced by the mean of its part."""
    means = torch.stack([mean_a] * n + [mean_b] * m)
    moved = means - mean_a
    between = (moved - moved.mean(0)).square().mean(0)
    return mean_a + moved.mean(0), (n * var_a + m * var_b) / (n + m) + between


def by_deviations(n, mean_a, var_a, m, mean_b, var_b):
    mean, _ = from_the_distance(n, mean_a, var_a, m, mean_b, var_b)
    return mean, ((n * var_a.sqrt() + m * var_b.sqrt()) / (n + m)) ** 2


# -------------------------------------------------------------------------------------------- 3.5 normalize_half


def in_float32(x, eps=1e-8):
    return by_hand(x.float(), eps).to(x.dtype)


def promoted(x, eps=1e-8):
    return with_rsqrt(x.to(torch.promote_types(x.dtype, torch.float32)), eps).to(x.dtype)


def only_half_is_widened(x, eps=1e-8):
    return in_float32(x, eps) if x.dtype in (torch.float16, torch.bfloat16) else by_hand(x, eps)


BREAKING = {"nan": [7, 7, 7, 7], "inf": [1e-5, 2e-5, 3e-5, 4e-5], "zeros": [0, 500, 1000, 1500]}


BANK = {
    "normalize": {
        "right": {
            "by hand": by_hand,
            "rsqrt and var_mean": with_rsqrt,
            "row by row": row_by_row,
            "by the norm of the centered row": as_a_norm,
            "a power, and a tensor on the CPU": a_cpu_constant,
        },
        "wrong": {
            "the library": (lambda x, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps), "write its steps yourself"),
            "no default": (lambda x, eps: by_hand(x, eps), "raised TypeError"),
            "a clamp at 10": (lambda x, eps=1e-5: by_hand(x, eps).clamp(-10, 10), "one large entry"),
            "statistics kept by shape": (kept_by_shape, "a shape that came before"),
            "in place": (in_place, "changed its input"),
            "returns the statistics too": (lambda x, eps=1e-5: (by_hand(x, eps), x.mean(-1)), "tuple"),
            "always float32": (lambda x, eps=1e-5: by_hand(x.float(), eps), "dtype"),
        },
    },
    "find_eps": {
        "right": {
            "from variances": from_variances,
            "from one entry, float32": from_one_entry,
            "from the slope at zero": from_the_slope,
            "from a random row": from_a_random_row,
            "negligible variance": found(lambda v, out: v / out, small_row(1e-9)),
        },
        "wrong": {  # no known mistakes: causes depend on the row that is fed
            "an ordinary row in float32": (found(lambda v, out: v / out - v, torch.tensor([0.0, 1, 2, 3])), "float32"),
            "an ordinary row": (found(lambda v, out: v / out - v, small_row(1e3)), "times eps"),
            "a constant row": (
                found(lambda v, out: v / out - v, torch.full((1, 4), 2.0, dtype=torch.float64)),
                "constant",
            ),
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
            "a list of four guesses": (guesses, "On a layer with"),
            "nothing": (lambda layer: None, "return"),
            "reads an attribute": (lambda layer: layer.eps, "AttributeError"),
        },
        "generic_exceptions": ["a little too large"],  # by 0.03 %: the docstring allows one percent
    },
    "merge": {
        "right": {
            "from the distance": from_the_distance,
            "from the new mean": from_the_new_mean,
            "sums of squares": with_sums_of_squares,
            "float64 inside, rounded back": rounded_back,
            "within and between": two_points,
        },
        "wrong": {
            "float64 comes out": (in_float64_inside, "dtype"),
            "deviations are averaged": (by_deviations, "the variance"),
            "a dictionary": (lambda *parts: dict(zip(("mean", "var"), from_the_distance(*parts), strict=True)), "dict"),
            "the count as well": (lambda *parts: (parts[0] + parts[3], *from_the_distance(*parts)), "tuple of 3"),
            "counts are rounded": (
                lambda n, mean_a, var_a, m, mean_b, var_b: (mean_a + (mean_b - mean_a) * (m // (n + m)), var_a),
                "expected",
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
            "float32 inside": in_float32,
            "float64 inside": lambda x, eps=1e-8: with_rsqrt(x.double(), eps).to(x.dtype),
            "promoted": promoted,
            "the library": lambda x, eps=1e-8: F.layer_norm(x, x.shape[-1:], eps=eps),
            "only half is widened": only_half_is_widened,
        },
        "wrong": {
            "stays float32": (lambda x, eps=1e-8: by_hand(x.float(), eps), "dtype"),
            ".half() at the end": (lambda x, eps=1e-8: by_hand(x.float(), eps).half(), "dtype"),
        },
    },
}

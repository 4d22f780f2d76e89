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


# -------------------------------------------------------------------------------------------------- 3.3 find_eps


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


# ------------------------------------------------------------------------------------------- 3.4 stable_variance


def two_passes(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered.square().mean(-1, keepdim=True)


def one_pass(x):
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def shifted(x):
    return one_pass(x - x[..., :1])


def corrected(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered.square().mean(-1, keepdim=True) - centered.mean(-1, keepdim=True).square()


def welford(x):
    mean, m2 = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean
        mean = mean + delta / n
        m2 = m2 + delta * (entry - mean)
    return m2 / x.shape[-1]


def pairs(x):
    """The mean squared difference of all pairs, halved."""
    return (x.unsqueeze(-1) - x.unsqueeze(-2)).square().mean((-2, -1)).unsqueeze(-1) / 2


def merged_halves(x):
    a, b = x.tensor_split(2, -1)
    n, m = a.shape[-1], b.shape[-1]
    if n == 0 or m == 0:
        return two_passes(x)
    delta = b.mean(-1, keepdim=True) - a.mean(-1, keepdim=True)
    return (n * two_passes(a) + m * two_passes(b)) / (n + m) + delta**2 * n * m / (n + m) ** 2


# -------------------------------------------------------------------------------------------- 3.6 normalize_half


def in_float32(x, eps=1e-8):
    return by_hand(x.float(), eps).to(x.dtype)


def promoted(x, eps=1e-8):
    return with_rsqrt(x.to(torch.promote_types(x.dtype, torch.float32)), eps).to(x.dtype)


def only_half_is_widened(x, eps=1e-8):
    return in_float32(x, eps) if x.dtype in (torch.float16, torch.bfloat16) else by_hand(x, eps)


NUMBERS = {"a": 0.5, "b": 0.9, "c": 0.0, "d": 100.0, "e": 4.0}
DIAGNOSIS = {"zeros": "eps", "tiny": "underflow", "large": "overflow"}


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
    "eps_numbers": {
        "right": {
            "numbers": NUMBERS,
            "whole numbers": {"a": 0.5, "b": 0.9, "c": 0, "d": 100, "e": 4},
            "formulas": {"a": 1e-5 / 2e-5, "b": 9e-5 / (9e-5 + 1e-5), "c": 0.0, "d": 1e-4**-0.5, "e": math.sqrt(16)},
            "text": {"a": "1/2", "b": "0.9", "c": "0", "d": "100", "e": "4"},
        },
        "wrong": {
            "c: 1e-3": (NUMBERS | {"c": 1e-3}, "Not nearly 0"),
            "c: nan": (NUMBERS | {"c": float("nan")}, "not right"),
            "d: a word": (NUMBERS | {"d": "infinite"}, "a number"),
            "e: no bound": (NUMBERS | {"e": float("inf")}, "not right"),
            "e missing": ({k: v for k, v in NUMBERS.items() if k != "e"}, "missing"),
            "a list": (list(NUMBERS.values()), "dictionary"),
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
            "a well-spread row in float32": (
                found(lambda v, out: v / out - v, torch.tensor([0.0, 1, 2, 3])),
                "float32",
            ),
            "a well-spread row": (found(lambda v, out: v / out - v, small_row(1e3)), "times eps"),
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
    "stable_variance": {
        "right": {
            "shifted": shifted,
            "two passes": two_passes,
            "shifted by a detached entry": lambda x: one_pass(x - x[..., -1:].detach()),
            "two passes, corrected": corrected,
            "Welford": welford,
            "one pass in float64": lambda x: one_pass(x.double()).to(x.dtype),
            "all pairs": pairs,
            "two halves merged": merged_halves,
            "shifted by a rounded mean": lambda x: one_pass(x - x.mean(-1, keepdim=True).detach().round()),
        },
        "wrong": {
            "the library": (lambda x: x.var(-1, correction=0, keepdim=True), "write its steps yourself"),
            "the library's pair": (
                lambda x: torch.var_mean(x, -1, correction=0, keepdim=True)[0],
                "write its steps yourself",
            ),
            "float64 comes out": (lambda x: two_passes(x.double()), "dtype"),
            "the pair": (lambda x: (x.mean(-1, keepdim=True), two_passes(x)), "tuple"),
        },
    },
    "half_diagnosis": {
        "right": {"words": DIAGNOSIS, "shouted": {k: v.upper() for k, v in DIAGNOSIS.items()}},
        "wrong": {
            "another word": (DIAGNOSIS | {"large": "nan"}, "one of the words 'eps', 'overflow', 'underflow'"),
            "a list": (list(DIAGNOSIS.values()), "dictionary"),
            "one missing": ({"zeros": "eps", "tiny": "underflow"}, "missing"),
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

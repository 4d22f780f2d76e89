"""Answers to the exercises of lesson 3, right and wrong."""

import math

import torch
from torch.nn import functional as F


def moments(x, correction=0):
    return x.mean(-1, keepdim=True), x.var(-1, correction=correction, keepdim=True)


# ------------------------------------------------------------------------------------------------- 3.1 normalize


def by_hand(x, eps=1e-5):
    D = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / D
    var = ((x - mean) ** 2).sum(-1, keepdim=True) / D
    return (x - mean) / torch.sqrt(var + eps)


def with_rsqrt(x, eps=1e-5):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(var + eps)


def with_layer_norm(x, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def row_by_row(x, eps=1e-5):
    rows = [(row - row.mean()) / (row.var(correction=0) + eps).sqrt() for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


def as_a_norm(x, eps=1e-5):
    centered = x - x.mean(-1, keepdim=True)
    D = x.shape[-1]
    return math.sqrt(D) * centered / torch.sqrt(centered.square().sum(-1, keepdim=True) + D * eps)


def to_a_power(x, eps=1e-5):
    mean, var = moments(x)
    return (x - mean) * (var + eps) ** -0.5


def one_pass(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    var = (x**2).mean(-1, keepdim=True) - mean**2
    return (x - mean) / torch.sqrt(var + eps)


def scaled(rule, correction=0):
    """(x - mean) divided by rule(variance, eps)."""

    def normalize(x, eps=1e-5):
        mean, var = moments(x, correction)
        return (x - mean) / rule(var, eps)

    return normalize


def normalize_in_place(x, eps=1e-5):
    x -= x.mean(-1, keepdim=True)
    x /= torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps)
    return x


def without_keepdim(x, eps=1e-5):
    return (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + eps)


def along(axis):
    def normalize(x, eps=1e-5):
        at = min(axis, x.dim() - 1) if isinstance(axis, int) else axis
        return (x - x.mean(at, keepdim=True)) / torch.sqrt(x.var(at, correction=0, keepdim=True) + eps)

    return normalize


def other_default(eps_default):
    def normalize(x, eps=eps_default):
        return by_hand(x, eps)

    return normalize


def detached(x, eps=1e-5):
    mean, var = moments(x)
    return (x - mean.detach()) / torch.sqrt(var.detach() + eps)


def through_numpy(x, eps=1e-5):
    a = x.detach().numpy()
    out = (a - a.mean(-1, keepdims=True)) / (a.var(-1, keepdims=True) + eps) ** 0.5
    return torch.from_numpy(out)


def a_cpu_constant(x, eps=1e-5):
    mean, var = moments(x)
    return (x - mean) / torch.sqrt(var + torch.full((1,), eps, dtype=x.dtype))


# -------------------------------------------------------------------------------------------------- 3.3 find_eps


def small_row(scale=1e-6, dtype=torch.float64):
    return scale * torch.tensor([[-2.0, -1.0, 0.0, 1.0, 5.0]], dtype=dtype)


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
    return ((row - row.mean(-1, keepdim=True)) / layer(row)).square().mean().item() - row.var(
        -1, correction=0
    ).mean().item()


def found(rule, row=None):
    """An answer that feeds a row and computes rule(variance in, variance out)."""

    def find_eps(layer):
        x = small_row() if row is None else row
        return rule(x.var(-1, correction=0), layer(x).var(-1, correction=0)).item()

    return find_eps


right_rule = lambda v, out: v / out - v


def reads_off_float32(layer):
    row = torch.tensor([0.0, 1.0, 2.0, 3.0])
    v = row.var(correction=0)
    return (v / layer(row).var(correction=0) - v).item()


def guesses(layer):
    row = small_row(1e-2)
    tried = [1e-3, 1e-5, 1e-6, 1e-12]
    return min(tried, key=lambda eps: (F.layer_norm(row, (5,), eps=eps) - layer(row)).abs().max())


# ------------------------------------------------------------------------------------------- 3.4 stable_variance


def two_passes(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered.square().mean(-1, keepdim=True)


def shifted(x):
    shift = x - x[..., :1]
    return shift.square().mean(-1, keepdim=True) - shift.mean(-1, keepdim=True) ** 2


def shifted_by_a_detached_entry(x):
    shift = x - x[..., -1:].detach()
    return shift.pow(2).mean(-1, keepdim=True) - shift.mean(-1, keepdim=True).pow(2)


def corrected(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered.square().mean(-1, keepdim=True) - centered.mean(-1, keepdim=True).square()


def welford(x, use_new_mean=True, divide=True):
    mean, m2 = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean
        mean = mean + delta / n
        m2 = m2 + delta * ((entry - mean) if use_new_mean else delta)
    return m2 / x.shape[-1] if divide else m2


def in_doubles(x):
    wide = x.double()
    return ((wide * wide).mean(-1, keepdim=True) - wide.mean(-1, keepdim=True) ** 2).to(x.dtype)


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


def one_pass_variance(x):
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def shifted_by_the_whole_mean(x):
    return one_pass_variance(x - x.mean())


def shifted_by_half(x):
    centered = x - x[..., :1]
    return centered.square().mean(-1, keepdim=True)


def whole_mean(x):
    return (x - x.mean()).square().mean(-1, keepdim=True)


# -------------------------------------------------------------------------------------------- 3.6 normalize_half


def broken(x, eps=1e-8):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)


def in_float32(x, eps=1e-8):
    return by_hand(x.float(), eps).to(x.dtype)


def in_float64(x, eps=1e-8):
    return with_rsqrt(x.double(), eps).to(x.dtype)


def promoted(x, eps=1e-8):
    return with_rsqrt(x.to(torch.promote_types(x.dtype, torch.float32)), eps).to(x.dtype)


def the_library(x, eps=1e-8):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def only_half_is_widened(x, eps=1e-8):
    return in_float32(x, eps) if x.dtype in (torch.float16, torch.bfloat16) else by_hand(x, eps)


def stays_wide(x, eps=1e-8):
    return by_hand(x.float(), eps)


def larger_eps(x, eps=1e-8):
    return broken(x, max(eps, 1e-5))


def own_eps(x, eps=1e-8):
    return broken(x, 1e-5)


def smallest_half(x, eps=1e-8):
    return broken(x, max(eps, 2**-24))


def nan_to_zero(x, eps=1e-8):
    return broken(x, eps).nan_to_num(0.0, 0.0, 0.0)


def variance_rounded_again(x, eps=1e-8):
    wide = x.float()
    var = wide.var(-1, correction=0, keepdim=True).to(x.dtype)
    return ((wide - wide.mean(-1, keepdim=True)) / torch.sqrt(var.float() + eps)).to(x.dtype)


def sum_rounded_again(x, eps=1e-8):
    wide = x.float()
    inside = (wide.var(-1, correction=0, keepdim=True) + eps).to(x.dtype)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(inside)


def centered_in_half(x, eps=1e-8):
    var = x.float().var(-1, correction=0, keepdim=True)
    return ((x - x.mean(-1, keepdim=True)) / torch.sqrt(var + eps)).to(x.dtype)


def centered_then_widened(x, eps=1e-8):
    centered = (x - x.mean(-1, keepdim=True)).float()
    return (centered / torch.sqrt(centered.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def widened_at_the_end(x, eps=1e-8):
    return broken(x, eps).float().to(x.dtype)


def in_bfloat16(x, eps=1e-8):
    return broken(x.to(torch.bfloat16), eps).to(x.dtype)


def one_pass_in_float32(x, eps=1e-8):
    return one_pass(x.float(), eps).to(x.dtype)


def unbiased_in_float32(x, eps=1e-8):
    return scaled(lambda var, e: torch.sqrt(var + e), 1)(x.float(), eps).to(x.dtype)


def outside_in_float32(x, eps=1e-8):
    return scaled(lambda var, e: var.sqrt() + e)(x.float(), eps).to(x.dtype)


def library_default(x, eps=1e-8):
    return F.layer_norm(x, (x.shape[-1],))


def eps_ignored(x, eps=1e-8):
    return in_float32(x, 1e-8)


NUMBERS = {"a": 0.5, "b": 0.9, "c": 0.0, "d": 100.0, "e": 4.0}
DIAGNOSIS = {"zeros": "eps", "tiny": "underflow", "large": "overflow"}


BANK = {
    "normalize": {
        "right": {
            "by hand": by_hand,
            "rsqrt and var_mean": with_rsqrt,
            "the library": with_layer_norm,
            "row by row": row_by_row,
            "by the norm of the centered row": as_a_norm,
            "a power": to_a_power,
        },
        "wrong": {
            "root of the unbiased variance, plus eps": (
                scaled(lambda var, e: var.sqrt() + e, 1),
                "D - 1, and eps is added to the deviation",
            ),
            "std, plus eps, unbiased": (
                lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps),
                "D - 1, and eps is added to the deviation",
            ),
            "std, plus eps": (
                lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps),
                "added to the deviation",
            ),
            "root of the variance, plus eps": (scaled(lambda var, e: var.sqrt() + e), "added to the deviation"),
            "unbiased": (scaled(lambda var, e: torch.sqrt(var + e), 1), "divided by D - 1"),
            "no eps": (scaled(lambda var, e: var.sqrt()), "0/0"),
            "no eps, unbiased": (scaled(lambda var, e: var.sqrt(), 1), "0/0"),
            "eps squared": (scaled(lambda var, e: torch.sqrt(var + e * e)), "eps squared"),
            "not the root": (scaled(lambda var, e: var + e), "root is missing"),
            "multiplied": (lambda x, eps=1e-5: (x - moments(x)[0]) * torch.sqrt(moments(x)[1] + eps), "divide"),
            "clamped deviation": (scaled(lambda var, e: var.sqrt().clamp(min=e)), "smallest deviation"),
            "clamped variance": (scaled(lambda var, e: var.clamp(min=e).sqrt()), "smallest variance"),
            "eps ignored": (lambda x, eps=1e-5: by_hand(x, 1e-5), "argument eps"),
            "default 1e-8": (other_default(1e-8), "default"),
            "default 1e-6": (other_default(1e-6), "default"),
            "default 1e-3": (other_default(1e-3), "default"),
            "no default": (lambda x, eps: by_hand(x, eps), "raised TypeError"),
            "first axis": (along(0), "first axis"),
            "axis 1": (along(1), "axis 1"),
            "the whole tensor": (along(None), "whole tensor"),
            "not centered": (lambda x, eps=1e-5: x / torch.sqrt(moments(x)[1] + eps), "mean is not subtracted"),
            "RMSNorm": (
                lambda x, eps=1e-5: x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps),
                "mean is not subtracted",
            ),
            "only centered": (lambda x, eps=1e-5: x - x.mean(-1, keepdim=True), "not divided"),
            "mean of squares": (
                lambda x, eps=1e-5: (
                    (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)
                ),
                "mean of the squares",
            ),
            "one pass": (one_pass, "loses"),
            "nan to num": (lambda x, eps=1e-5: by_hand(x, 0.0).nan_to_num(), "nan_to_num"),
            "brackets forgotten": (lambda x, eps=1e-5: x - moments(x)[0] / torch.sqrt(moments(x)[1] + eps), "brackets"),
            "eps in the numerator": (
                lambda x, eps=1e-5: (x - moments(x)[0] + eps) / torch.sqrt(moments(x)[1] + eps),
                "numerator",
            ),
            "a clamp at 3": (lambda x, eps=1e-5: by_hand(x, eps).clamp(-3, 3), "one large entry"),
            "mean - x": (lambda x, eps=1e-5: -by_hand(x, eps), "sign"),
            "sum of squares": (
                lambda x, eps=1e-5: (
                    (x - moments(x)[0]) / ((x - moments(x)[0]).pow(2).sum(-1, keepdim=True) + eps).sqrt()
                ),
                "divide by D",
            ),
            "F.normalize": (lambda x, eps=1e-5: F.normalize(x - moments(x)[0], dim=-1, eps=eps), "divide by D"),
            "the root of eps": (scaled(lambda var, eps: var.sqrt() + eps**0.5), "root of eps"),
            "eps twice": (scaled(lambda var, eps: (var + eps).sqrt() + eps), "twice"),
            "the deviation under the root": (
                scaled(lambda var, eps: (var.sqrt() + eps).sqrt()),
                "stands the deviation",
            ),
            "swapped": (lambda x, eps=1e-5: (x - moments(x)[1]) / (moments(x)[0] + eps).sqrt(), "swapped"),
            "all but the batch": (along(None), "axis -1"),
            "F.layer_norm over x.shape[1:]": (
                lambda x, eps=1e-5: F.layer_norm(x, x.shape[1:] if x.dim() > 1 else x.shape, eps=eps),
                "mixes the tokens",
            ),
            "F.layer_norm without eps": (lambda x, eps=1e-5: F.layer_norm(x, x.shape[-1:]), "argument eps"),
            "without keepdim": (without_keepdim, "keepdim"),
            "in place": (normalize_in_place, "changed its input"),
            "statistics detached": (detached, "cut off"),
            "through NumPy": (through_numpy, "gradient"),
            "a CPU constant": (a_cpu_constant, "device"),
            "returns the statistics too": (lambda x, eps=1e-5: (by_hand(x, eps), x.mean(-1)), "tuple"),
            "always float32": (lambda x, eps=1e-5: by_hand(x.float(), eps), "dtype"),
        },
    },
    "eps_numbers": {
        "right": {
            "numbers": NUMBERS,
            "whole numbers": {"a": 0.5, "b": 0.9, "c": 0, "d": 100, "e": 4},
            "formulas": {
                "a": 1e-5 / 2e-5,
                "b": 9e-5 / (9e-5 + 1e-5),
                "c": 0.0,
                "d": 1 / math.sqrt(1e-4),
                "e": math.sqrt(16),
            },
        },
        "wrong": {
            "a: one": (NUMBERS | {"a": 1.0}, "v + eps"),
            "a: the deviation": (NUMBERS | {"a": 0.7071}, "Asked is the variance"),
            "b: one": (NUMBERS | {"b": 1.0}, "v + eps"),
            "b: the deviation": (NUMBERS | {"b": 0.9487}, "Asked is the variance"),
            "b: a tenth": (NUMBERS | {"b": 0.1}, "eps / (v + eps)"),
            "c: one": (NUMBERS | {"c": 1.0}, "nothing to divide"),
            "c: nan": (NUMBERS | {"c": float("nan")}, "not right"),
            "d: without the root": (NUMBERS | {"d": 1e4}, "root"),
            "d: the default": (NUMBERS | {"d": 316.23}, "1e-4"),
            "b: upside down": (NUMBERS | {"b": 1.1111}, "Upside down"),
            "d: 1/eps for 1e-5": (NUMBERS | {"d": 1e5}, "another eps"),
            "d: a root too many": (NUMBERS | {"d": 10}, "One root too many"),
            "e: the root of D": (NUMBERS | {"e": math.sqrt(17)}, "D - 1"),
            "e: D - 1": (NUMBERS | {"e": 16.0}, "root"),
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
            "a smaller row": found(right_rule, small_row(1e-9)),
            "negligible variance": found(lambda v, out: v / out, small_row(1e-9)),
        },
        "wrong": {
            "a well-spread row in float32": (reads_off_float32, "float32"),
            "a well-spread row": (found(right_rule, small_row(1e3)), "times eps"),
            "a constant row": (found(right_rule, torch.full((1, 4), 2.0, dtype=torch.float64)), "constant"),
            "forgets v": (found(lambda v, out: v / out, small_row(1e-3)), "subtract"),
            "the root of eps": (found(lambda v, out: (v / out - v) ** 0.5), "root"),
            "1/sqrt(eps)": (found(lambda v, out: (v / out - v) ** -0.5), "slope"),
            "deviations, not variances": (found(lambda v, out: v**0.5 / out**0.5 - v**0.5), "root"),
            "upside down": (found(lambda v, out: out / v - v), "upside down"),
            "the output's variance": (found(lambda v, out: out), "variance of the output"),
            "the input's variance": (found(lambda v, out: v), "variance of the row that you fed"),
            "the sign": (found(lambda v, out: v - v / out), "sign"),
            "always PyTorch's": (lambda layer: 1e-5, "same number"),
            "the unbiased variance of the row": (
                lambda layer: found(lambda v, out: v * 4 / 3 / out - v * 4 / 3, small_row(1e-8))(layer),
                "biased variance",
            ),
            "the logarithm": (lambda layer: math.log10(from_variances(layer)), "Variance in"),
            "v times what is missing": (found(lambda v, out: v * (1 - out), small_row(1e-3)), "Compare it"),
            "text": (lambda layer: "1e-5", "one number"),
            "one number a row": (lambda layer: layer(torch.randn(3, 4).double()).var(-1), "one number"),
            "a list of four guesses": (guesses, "On a layer with"),
            "nothing": (lambda layer: None, "return"),
            "a row": (lambda layer: small_row(), "one number"),
            "not called": (lambda layer: layer, "one number"),
            "reads an attribute": (lambda layer: layer.eps, "AttributeError"),
        },
    },
    "stable_variance": {
        "right": {
            "shifted": shifted,
            "two passes": two_passes,
            "shifted by a detached entry": shifted_by_a_detached_entry,
            "two passes, corrected": corrected,
            "Welford": welford,
            "one pass in float64": in_doubles,
            "all pairs": pairs,
            "two halves merged": merged_halves,
            "shifted by a rounded mean": lambda x: one_pass_variance(x - x.mean(-1, keepdim=True).detach().round()),
            "shifted by the smallest": lambda x: one_pass_variance(x - x.amin(-1, keepdim=True)),
            "a norm": lambda x: (x - x.mean(-1, keepdim=True)).square().sum(-1, keepdim=True) / x.shape[-1],
            "the library": lambda x: x.var(-1, correction=0, keepdim=True),
        },
        "wrong": {
            "one pass": (one_pass_variance, "E[x^2] - E[x]^2"),
            "one pass, clamped": (lambda x: one_pass_variance(x).clamp(min=0), "clamp"),
            "one pass, absolute": (lambda x: one_pass_variance(x).abs(), "clamp"),
            "shifted by one mean for all rows": (shifted_by_the_whole_mean, "every row"),
            "two passes, one mean for all rows": (whole_mean, "every row"),
            "shift, but no second term": (shifted_by_half, "second term"),
            "unbiased": (lambda x: x.var(-1, keepdim=True), "D - 1"),
            "Welford, the old mean twice": (lambda x: welford(x, use_new_mean=False), "new mean"),
            "Welford, not divided": (lambda x: welford(x, divide=False), "Divide it by D"),
            "the deviation": (lambda x: two_passes(x).sqrt(), "root"),
            "mean of squares": (lambda x: x.square().mean(-1, keepdim=True), "mean of the squares"),
            "mean distance": (lambda x: (x - x.mean(-1, keepdim=True)).abs().mean(-1, keepdim=True), "not squared"),
            "without keepdim": (lambda x: x.var(-1, correction=0), "keepdim"),
            "first axis": (lambda x: x.var(0, correction=0, keepdim=True), "first axis"),
            "float64 comes out": (lambda x: two_passes(x.double()), "dtype"),
            "in float64, rounded too early": (lambda x: in_doubles(x).half().to(x.dtype), "expected"),
            "the pair": (lambda x: (x.mean(-1, keepdim=True), two_passes(x)), "tuple"),
            "detached": (lambda x: two_passes(x.detach()), "gradient"),
            "sums": (
                lambda x: ((x * x).sum(-1, keepdim=True) - x.sum(-1, keepdim=True) ** 2 / x.shape[-1]) / x.shape[-1],
                "nearly equal",
            ),
            "float64 too late": (
                lambda x: ((x**2).mean(-1, keepdim=True).double() - x.mean(-1, keepdim=True).double() ** 2).to(x.dtype),
                "rounded before",
            ),
            "a fixed shift": (lambda x: one_pass_variance(x - 10_000), "fixed number"),
            "the first row": (lambda x: one_pass_variance(x - x[:1]), "x[..., :1]"),
            "the very first entry": (lambda x: one_pass_variance(x - x.flatten()[0]), "x[..., :1]"),
            "x[..., 0]": (lambda x: one_pass_variance(x - x[..., 0]), "lost the last axis"),
            "second term of x": (
                lambda x: (x - x[..., :1]).square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square(),
                "shifted row, not of x",
            ),
            "second term not squared": (
                lambda x: (lambda s: s.square().mean(-1, keepdim=True) - s.mean(-1, keepdim=True))(x - x[..., :1]),
                "not squared",
            ),
            "second term added": (
                lambda x: (lambda s: s.square().mean(-1, keepdim=True) + s.mean(-1, keepdim=True) ** 2)(x - x[..., :1]),
                "not added",
            ),
            "divided by the largest": (
                lambda x: (lambda k: one_pass_variance(x / k) * k**2)(x.abs().amax(-1, keepdim=True)),
                "Subtract instead",
            ),
            "one factor centered": (
                lambda x: ((x - x.mean(-1, keepdim=True)) * x).mean(-1, keepdim=True),
                "one factor only",
            ),
            "with eps": (lambda x: two_passes(x) + 1e-5, "no place"),
        },
    },
    "half_diagnosis": {
        "right": {"words": DIAGNOSIS, "shouted": {k: v.upper() for k, v in DIAGNOSIS.items()}},
        "wrong": {
            "zeros: underflow": (DIAGNOSIS | {"zeros": "underflow"}, "is 0 in every format"),
            "zeros: overflow": (DIAGNOSIS | {"zeros": "overflow"}, "Nothing is large"),
            "tiny: eps": (DIAGNOSIS | {"tiny": "eps"}, "4.7e-9"),
            "tiny: overflow": (DIAGNOSIS | {"tiny": "overflow"}, "what it was divided by"),
            "large: eps": (DIAGNOSIS | {"large": "eps"}, "never matters"),
            "large: underflow": (DIAGNOSIS | {"large": "underflow"}, "327,680"),
            "another word": (DIAGNOSIS | {"large": "nan"}, "not right"),
            "a list": (list(DIAGNOSIS.values()), "dictionary"),
            "one missing": ({"zeros": "eps", "tiny": "underflow"}, "missing"),
        },
    },
    "normalize_half": {
        "right": {
            "float32 inside": in_float32,
            "float64 inside": in_float64,
            "promoted": promoted,
            "the library": the_library,
            "only half is widened": only_half_is_widened,
        },
        "wrong": {
            "as it was": (broken, "rounded back"),
            "eps at least 1e-5": (larger_eps, "belongs to the weights"),
            "eps replaced by 1e-5": (own_eps, "belongs to the weights"),
            "eps at least 2^-24": (smallest_half, "belongs to the weights"),
            "nan to zero": (nan_to_zero, "hides"),
            "stays float32": (stays_wide, "dtype"),
            "the variance rounded back": (variance_rounded_again, "rounded back"),
            "variance plus eps rounded back": (sum_rounded_again, "rounded back"),
            "centered in half": (centered_in_half, "mean"),
            "centered in half, then widened": (centered_then_widened, "mean"),
            "widened at the end": (widened_at_the_end, "rounded back"),
            "in bfloat16": (in_bfloat16, "bfloat16"),
            "one pass": (one_pass_in_float32, "E[x^2]"),
            "unbiased": (unbiased_in_float32, "D - 1"),
            "eps outside": (outside_in_float32, "deviation"),
            "the library's default": (library_default, "1e-5"),
            "two roundings too many": (
                lambda x, eps=1e-8: (
                    (x.float() - x.float().mean(-1, keepdim=True)).to(x.dtype)
                    / (two_passes(x.float()) + eps).sqrt().to(x.dtype)
                ),
                "and the root too",
            ),
            "divided by the largest": (
                lambda x, eps=1e-8: broken(x / x.abs().amax(-1, keepdim=True), eps),
                "scaled before eps",
            ),
            "only eps is float32": (
                lambda x, eps=1e-8: (
                    (x - x.mean(-1, keepdim=True)) / torch.sqrt(two_passes(x) + torch.tensor([eps]))
                ).to(x.dtype),
                "eps is float32 now",
            ),
            "eps outside, unbiased": (
                lambda x, eps=1e-8: (
                    lambda w: ((w - w.mean(-1, keepdim=True)) / (w.std(-1, keepdim=True) + eps)).to(x.dtype)
                )(x.float()),
                "correction=0",
            ),
            ".half() at the end": (lambda x, eps=1e-8: by_hand(x.float(), eps).half(), "dtype"),
            "eps ignored": (eps_ignored, "argument eps"),
            "nothing": (lambda x, eps=1e-8: None, "return"),
        },
    },
}

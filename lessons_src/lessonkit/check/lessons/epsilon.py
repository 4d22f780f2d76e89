"""Checks of lesson 3: eps under the root, reading eps off a layer, merging statistics, half precision."""

import dataclasses
import math

import torch
from torch.nn import functional as F  # noqa: F401  known mistakes read it

from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.core import Mistake, NotYet, Probe, accept, call, draw, in_float64, known, observe, reject
from lessonkit.check.mistakes import announce
from lessonkit.check.verdicts import refuse_dots
from lessonkit.check.wording import row_of


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def _counting(*offsets):
    """float32 rows of 0, 1, 2, 3 plus an offset: exact, like their means and centered squares, not like E[x^2]."""
    return _rows(*([k, k + 1, k + 2, k + 3] for k in offsets), dtype=torch.float32)


def _with_outliers(seed, dtype):
    """Two wide rows with one entry of 30 or -30, which comes out beyond 10: no clamp survives."""
    x = draw(seed, 2, 256)
    x[0, 3], x[1, 200] = 30, -30
    return x.to(dtype)


def _normalize(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)


_PROBES = [
    call("rows with sigma = 0.001", 1e-3 * draw(32, 2, 3, 5)),  # first: here eps shows in the message
    call("rows of random numbers", 1 + 2 * draw(31, 3, 6)),
    call("a row with sigma = 1e-5", 1e-5 * draw(33, 7)),
    call("a constant row", _rows([3.0] * 8, [1, 2, 3, 4, 5, 6, 7, 8])),  # exact in binary: x - mean is 0
    call("eps = 0.25", draw(34, 4, 3), 0.25, names=("x", "eps")),
    call("eps = 1e-12 on rows with sigma = 1e-4", 1e-4 * draw(35, 2, 5), eps=1e-12),
    call("eps = 0 on rows with sigma = 0.001, of a shape that came before", 1e-3 * draw(37, 2, 3, 5), eps=0.0),
    call("wide rows with one large entry", _with_outliers(38, torch.float64)),
    call("float32 rows", draw(36, 3, 16, dtype=torch.float32), tolerance=1e-5),
    # E[x^2] - E[x]^2 is 2.0 and 0.0 here, not 1.25. PyTorch's own gradient at such offsets is right to about 1e-4.
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_ADDED = "eps is added to the deviation. Add it to the variance, under the root: a row with sigma = 0.001 comes out 3.3 times too large."
_ADDED_UNBIASED = (
    "eps is added to the deviation, and the variance is divided by D - 1: eps under the root, correction=0."
)
_NO_EPS = "eps is not used, and 0/0 is nan. Add it to the variance, under the root."
_NO_EPS_UNBIASED = _NO_EPS + " And the variance is divided by D - 1: correction=0."
_NO_MEAN = "the mean is not subtracted."
_SUM = "the squared distances are summed. The variance is their mean: divide by D."
_STD = "the deviation is under the root. The variance belongs there: std is its root already."

_MISTAKES = known(
    _normalize,
    {
        "torch.sqrt(var + eps) -> (var.sqrt() + eps)": _ADDED,
        "torch.sqrt(var + eps) -> (var.sqrt() + eps) ; correction=0 -> correction=1": _ADDED_UNBIASED,
        "correction=0 -> correction=1": "the variance is divided by D - 1. Say correction=0, or take mean_and_var of lesson 2.",
        "var + eps -> var": _NO_EPS,
        "var + eps -> var ; correction=0 -> correction=1": _NO_EPS_UNBIASED,
        "var + eps -> var + eps * eps": "that is eps squared: the variance is sigma squared already, and eps is added to it as it is.",
        "torch.sqrt(var + eps) -> (var + eps)": "the root is missing: divide by the root of (variance + eps).",
        "torch.sqrt(var + eps) -> (var + eps) ** 2": "that is the square in place of the root: torch.sqrt(variance + eps), or ** 0.5.",
        "torch.sqrt -> torch.rsqrt": "that multiplies by the root of (variance + eps). Divide by it: torch.sqrt below the line, or times torch.rsqrt.",
        "torch.sqrt(var + eps) -> var.sqrt().clamp(min=eps)": "eps is used as the smallest deviation allowed. Add it to the variance, under the root.",
        "var + eps -> var.clamp(min=eps)": "eps is used as the smallest variance allowed. Add it to the variance, under the root.",
        "var + eps -> var + 1e-5": "the number 1e-5 is written into the formula. Use the argument eps.",
        "var + eps -> var**2 + eps": "the variance is squared once more: it is sigma squared already. Add eps to it as it is.",
        "var + eps -> var + (eps or 1e-5)": "an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. Use the argument as it is.",
        **{
            f"eps=1e-5 -> eps={default:g}": f"the default of eps is {default:g}. Leave it as it was given, eps=1e-5."
            for default in (1e-3, 1e-6, 1e-8, 1e-12, 0.0)
        },
        "-1 -> 0": "you reduce the first axis, across the samples. LayerNorm reduces the last one, -1.",
        "-1 -> min(1, x.dim() - 1)": "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.",
        "-1 -> max(-2, -x.dim())": "you reduce axis -2, across the tokens. Every token has a mean and a variance of its own: axis -1.",
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> correction=0": "one mean for the whole tensor. Every row needs its own: reduce axis -1.",
        "var + eps -> x.var() + eps": "one variance for the whole tensor, divided by its size - 1. Every row needs its own: axis -1, correction=0.",
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> ": "one mean for the whole tensor, and one variance, divided by its size - 1. Every row needs its own: axis -1, correction=0.",
        "-1, -> tuple(range(1, x.dim())) or -1,": "all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence: reduce axis -1 only.",
        "x - mean -> x": _NO_MEAN,
        "x - mean -> x ; var + eps -> x.square().mean(-1, keepdim=True) + eps": _NO_MEAN,
        "x - mean -> mean - x": "the sign is turned: x - mean, not mean - x.",
        "var + eps -> (x - mean).square().sum(-1, keepdim=True) + eps": _SUM,
        "(x - mean) / torch.sqrt(var + eps) -> F.normalize(x - mean, dim=-1, eps=eps)": _SUM,
        "torch.sqrt(var + eps) -> (var.sqrt() + eps**0.5)": "the root of eps is added to the deviation. Add eps itself to the variance, and take the root of the sum.",
        "(x - mean) / torch.sqrt(var + eps) -> torch.where(var < eps, 0 * x, (x - mean) / torch.sqrt(var))": "rows with a variance below eps become zeros, and the others are left without eps. Add eps to the variance, under the root.",
        "torch.sqrt(var + eps) -> (torch.sqrt(var + eps) + eps)": "eps is added twice. Once is enough: to the variance, under the root.",
        "var + eps -> var.sqrt() + eps": _STD,
        "mean = -> swapped = ; var = -> mean = ; var + eps -> swapped + eps": "mean and var are swapped: mean_and_var returns the mean first.",
        "x - mean -> x - mean + eps ; var + eps -> var": "eps is added to the numerator. Add it to the variance, under the root.",
        " / torch.sqrt(var + eps) -> ": "the row is centered, but not divided by the root of (variance + eps).",
        "var + eps -> x.square().mean(-1, keepdim=True) + eps": "the mean of the squares is under the root. The variance is the mean of the squared distances from the mean.",
        "var + eps -> (x * x).mean(-1, keepdim=True) - mean * mean + eps": "E[x^2] - E[x]^2 loses all digits when the mean is far larger than sigma (section 3.6). Subtract the mean, then square.",
        "(x - mean) / torch.sqrt(var + eps) -> ((x - mean) / torch.sqrt(var)).nan_to_num()": "nan_to_num hides 0/0 and leaves the other rows without eps. Add eps to the variance, under the root.",
        "(x - mean) -> x - mean": "brackets are missing: (x - mean) / ..., not x - mean / ....",
        "torch.sqrt(var + eps) -> torch.sqrt(var) + eps": "brackets are missing, and eps is added to the quotient. Add it to the variance, under the root.",
        "x - mean -> x - mean + eps": "eps is added to the numerator as well. It belongs to the variance, under the root, only.",
        ", keepdim=True -> ": "the reduced axis is gone, so that x - mean cannot line up. Say keepdim=True in both.",
        "mean) / -> mean.detach()) / ; var + eps -> var.detach() + eps": "the values are right, but mean and variance are cut off from the gradient: leave .detach() and no_grad() away.",
        "mean) / -> mean.detach()) /": "the values are right, but the mean is cut off from the gradient: leave .detach() away.",
        "var + eps -> var.detach() + eps": "the values are right, but the variance is cut off from the gradient: leave .detach() away.",
    },
)


def normalize(answer):
    """Check a function x (..., D), eps=1e-5 -> (x - mean) / sqrt(var + eps) over the last axis (lesson 3)."""
    tried = "standard deviations from 2 to 0, four values of eps, large entries, offsets, gradients"
    examine(answer, "normalize", _PROBES, in_float64(_normalize), _MISTAKES, tried, by_hand=("layer_norm",))


# ---- find_eps

_LAYERS = [1e-3, 1e-5, 4e-6, 1e-8, 1e-12]


def _read_eps(layer):
    row = 1e-8 * _rows([-3, -1, 1, 3])
    v = row.var(correction=0)
    return (v / layer(row).var(correction=0) - v).item()


def _try(answer, eps):
    """Return (what answer says of a layer with this eps, the rows that it fed the layer)."""
    fed = []

    def layer(x):
        fed.append(x.detach())
        return F.layer_norm(x, x.shape[-1:], eps=eps)

    found = answer(layer)
    return found.item() if hasattr(found, "item") and math.prod(found.shape) == 1 else found, fed


# What goes wrong depends on the row that the answer feeds, so that causes are looked up after the fact, by _why.
_EPS_PROBES = [  # one percent is what the docstring allows
    Probe(f"a layer with eps = {eps:g}", lambda answer, eps=eps: {"the result": _try(answer, eps)[0]}, {}, 0.01 * eps)
    for eps in _LAYERS
]


def find_eps(answer):
    """Check a function layer -> its eps, where layer maps (..., D) to (x - mean) / sqrt(var + eps) (lesson 3)."""
    try:
        examine(answer, "find_eps", _EPS_PROBES, _read_eps, tried="eps from 1e-3 to 1e-12")
    except NotYet as wrong:
        said, _, cause = str(wrong).removeprefix("Not yet. ").partition("\n")
        reject(said, cause or _why(answer))


def _why(answer):
    """Say in plain words why find_eps failed, from what was fed and what came back; None if it is no number."""
    for eps in _LAYERS:
        watch = Probe("", lambda answer, eps=eps: dict(zip(("found", "fed"), _try(answer, eps), strict=True)))
        seen = observe(watch, answer)
        found = seen.get("found")
        if type(found) not in (int, float):
            return None
        if not seen["fed"]:
            return "The same number comes out for every layer: feed the layer a row and look at what it makes of it."
        if not abs(found / eps - 1) <= 0.01:  # not: nan is wrong as well
            break
    row = seen["fed"][-1]
    v = row.double().var(-1, correction=0).mean().item()
    if v == 0 and not math.isfinite(found):
        return "You fed a constant row: it comes out as zeros for every eps. Feed a row whose numbers differ a little."
    for value, why in [
        (math.sqrt(eps), "That is the root of eps. Compare variances, not deviations."),
        (1 / math.sqrt(eps), "That is the slope 1/sqrt(eps). Turn it upside down and square it."),
        (1 / eps, "That is upside down: variance in / variance out = v + eps."),
        (-eps, "The sign is wrong: variance in / variance out = v + eps, so subtract v from it."),
        (v / (v + eps), "That is the variance of the output, v / (v + eps). Solve it for eps."),
        (v, "That is the variance of the row that you fed. Compare it with that of the output."),
        (v + eps, "That is v + eps: subtract the variance v of the row that you fed."),
    ]:
        if abs(found - value) <= 0.01 * abs(value):
            return why
    if v > 1e4 * eps:
        kind, digits = str(row.dtype).removeprefix("torch."), {torch.float32: 7, torch.float64: 16}.get(row.dtype, 3)
        return f"The variance of your row is {v:.2g}, {v / eps:.0e} times eps, and {kind} holds {digits} digits: eps is lost in it. Feed a row of far smaller numbers."
    return "Variance in / variance out = v + eps, with the biased variance v of the row that you fed."


def _merge(n, mean_a, var_a, m, mean_b, var_b):
    delta = mean_b - mean_a
    mean = mean_a + delta * m / (n + m)
    var = (n * var_a + m * var_b) / (n + m) + delta**2 * n * m / (n + m) ** 2
    return mean, var


def _parts(label, seed, n, m, shape=(2, 3), offset=0.0, dtype=torch.float64, tolerance=1e-9):
    """A probe of two parts of n and m numbers around offset; a part of one number has the variance 0."""
    mean_a, mean_b, *var = (draw(seed + i, *shape) for i in range(4))
    var_a, var_b = (v.square() if count > 1 else torch.zeros(shape) for v, count in zip(var, (n, m), strict=True))
    a, b = ((offset + mean_a, var_a), (offset + 2 * mean_b, var_b))
    parts = n, *(t.to(dtype) for t in a), m, *(t.to(dtype) for t in b)
    names = ("n", "mean_a", "var_a", "m", "mean_b", "var_b")
    return call(label, *parts, names=names, returns=("the mean", "the variance"), tolerance=tolerance)


_MERGE_PROBES = [
    _parts("parts of 3 and 5 numbers", 61, 3, 5),
    _parts("parts of 4 and 4 numbers, of a shape that came before", 62, 4, 4),
    _parts("a part of 6 numbers and a single number", 63, 6, 1, shape=(4, 1)),
    _parts("two single numbers", 64, 1, 1, shape=()),
    _parts("float32 parts of 7 and 2 numbers", 65, 7, 2, dtype=torch.float32, tolerance=1e-5),
    # E[x^2] - E[x]^2 is off by 8 here. A distance from the rounded mean costs 3e-7.
    _parts("float32 parts with means of 10000", 66, 64, 704, (5, 1), 1e4, torch.float32, tolerance=1e-5),
]

_DELTA, _MEAN = "delta * m / (n + m)", "mean_a + delta * m / (n + m)"
_BETWEEN = "delta**2 * n * m / (n + m) ** 2"
_WITHIN = "(n * var_a + m * var_b) / (n + m)"
_APART = "the means differ, and their distance is part of the variance: two single numbers, 0 and 2, have variance 1."
_SIZES = "the variances get equal weights. The larger part weighs more: n and m out of n + m."
_SMALLER = "a divisor of the unbiased variance: n - 1, m - 1 or n + m - 1. All variances here are biased, so that n, m and n + m are the counts."
_FROM_THE_MEAN = "the squared distances from the mean of the whole need weights: n out of n + m for (mean_a - mean)**2, m out of n + m for (mean_b - mean)**2."
_SQUARE = "the distance of the means is not squared."
_LOST = "that is E[x^2] - E[x]^2, the difference of two numbers near 1e8, which float32 holds to 8. Take the distance of the means, then square."
_MEAN_MISTAKES = known(
    _merge,
    {
        f"{_DELTA} -> delta / 2": "the middle of the two means is right for parts of one size only. The larger part weighs more: n and m out of n + m.",
        f"{_DELTA} -> delta * n / (n + m)": "the weights of the means are swapped: the mean moves from mean_a by the share m / (n + m) of the distance.",
        "delta = mean_b - mean_a -> delta = mean_a - mean_b": "the distance has the wrong sign: from mean_a it goes towards mean_b.",
        f"{_MEAN} -> mean_a + mean_b": "the means are added. The mean of the whole lies between them: the weights are n and m out of n + m.",
        f"{_MEAN} -> n * mean_a + m * mean_b": "that is the sum of all numbers. Divide it by n + m.",
        f"{_MEAN} -> (n * mean_a + m * mean_b) / 2": "the sum of all numbers is divided by 2. There are n + m of them.",
        "return mean, var -> return var, mean": "mean and variance are in the wrong order: return the mean first.",
    },
)
_VAR_MISTAKES = known(  # the mean is right by then
    _merge,
    {
        f"{_WITHIN} + {_BETWEEN} -> {wrong}": cause
        for wrong, cause in {
            _WITHIN: _APART,
            "(var_a + var_b) / 2": _APART + " And the larger part weighs more.",
            "var_a + var_b": _APART + " And the variances are averaged, not added: n and m out of n + m.",
            f"(m * var_a + n * var_b) / (n + m) + {_BETWEEN}": "the weights of the variances are swapped: var_a belongs to n numbers, var_b to m.",
            "(m * var_a + n * var_b) / (n + m)": _APART + " And the weights are swapped: var_a belongs to n numbers.",
            f"(var_a + var_b) / 2 + {_BETWEEN}": _SIZES,
            f"(var_a + var_b) + {_BETWEEN}": "the variances are added. They are averaged: n and m out of n + m.",
            "(var_a + var_b) / 2 + delta**2 / 4": "that is right for parts of one size only, where n * m / (n + m) ** 2 is 1/4. The larger part weighs more.",
            "(var_a + var_b + (mean_a - mean) ** 2 + (mean_b - mean) ** 2) / 2": "both parts get equal weights. The larger part weighs more: n and m out of n + m.",
            f"{_WITHIN} + delta**2 * n * m / (n + m)": "the distance enters with n * m / (n + m) into the *sum* of the squares. In the variance it is divided by n + m once more.",
            "n * var_a + m * var_b + delta**2 * n * m / (n + m)": "that is the sum of the squared distances. Divide it by n + m.",
            "(n * var_a + m * var_b + delta**2 * n * m / (n + m)) / (n + m - 1)": "the variance is divided by n + m - 1. The biased one divides by n + m.",
            f"((n - 1) * var_a + (m - 1) * var_b) / (n + m) + {_BETWEEN}": "the given variances are biased: their sums of squares are n * var_a and m * var_b.",
            "((n - 1) * var_a + (m - 1) * var_b + delta**2 * n * m / (n + m)) / (n + m - 1)": _SMALLER,
            **{
                f"{sums} / {divisor}": f"{_APART} And here is {_SMALLER}"
                for sums in ("(n * var_a + m * var_b)", "((n - 1) * var_a + (m - 1) * var_b)")
                for divisor in ("(n + m - 1)", "(n + m - 2)", "max(n + m - 2, 1)")
            },
            f"{_WITHIN} + delta * n * m / (n + m) ** 2": _SQUARE,
            f"{_WITHIN} + delta.abs() * n * m / (n + m) ** 2": _SQUARE,
            "(n * (var_a + (mean_a - mean)) + m * (var_b + (mean_b - mean))) / (n + m)": _SQUARE,
            "(n * (var_a + (mean_a - mean) ** 2) + m * var_b) / (n + m)": "only the first part gets the squared distance of its mean. The second has one as well.",
            "(n**2 * var_a + m**2 * var_b) / (n + m) ** 2": "that is the rule for the variance of a weighted mean. Here all n + m numbers are put together: the weights are not squared.",
            f"{_WITHIN} - {_BETWEEN}": "the distance of the means makes the variance larger: add its part.",
            f"{_WITHIN} + delta**2 / 4": "a quarter of the squared distance is right for parts of one size only: n * m / (n + m) ** 2 is 1/4 there.",
            f"{_WITHIN} + delta**2": "the squared distance of the means counts in part only. The parts are nearer to the mean of the whole than to each other.",
            f"{_WITHIN} + delta**2 / (n + m)": "the squared distance counts by n * m / (n + m) ** 2: the factor n * m is missing, and a square below the line.",
            f"{_WITHIN} + delta**2 * m / (n + m)": "the squared distance counts by the product of both shares, n / (n + m) times m / (n + m).",
            f"{_WITHIN} + ((mean_a - mean) ** 2 + (mean_b - mean) ** 2) / 2": _FROM_THE_MEAN,
            f"{_WITHIN} + (mean_a - mean) ** 2 + (mean_b - mean) ** 2": _FROM_THE_MEAN,
            f"{_WITHIN} + (m * (mean_a - mean) ** 2 + n * (mean_b - mean) ** 2) / (n + m)": _FROM_THE_MEAN,
            "(n * (var_a + mean_a**2) + m * (var_b + mean_b**2)) / (n + m) - mean**2": _LOST,
            "(n * var_a.sqrt() + m * var_b.sqrt()) / (n + m)": "deviations are averaged. Average the variances, and add the part of the means' distance.",
            "((n * var_a.sqrt() + m * var_b.sqrt()) / (n + m)) ** 2": "the average of the deviations is squared. Average the variances, and add the part of the means' distance.",
            "delta**2 * n * m / (n + m) ** 2": "the variances within the parts are left out: add their average.",
            f"({_WITHIN} + {_BETWEEN}).sqrt()": "that is the deviation. Leave the root away.",
            f"{_WITHIN} + {_BETWEEN} + 1e-5": "eps has no place in the variance itself. Leave it away.",
            f"{_WITHIN} + delta.detach() ** 2 * n * m / (n + m) ** 2": "the values are right, but the distance is cut off from the gradient: leave .detach() away.",
        }.items()
    },
)


def _means_of(probe):
    """The probe without what it sees of the variance: only whether there is one."""

    def run(answer):
        seen = probe.run(answer).items()
        return {k: None if k == "the variance" else v for k, v in seen if not k.startswith("gradient of")}

    return dataclasses.replace(probe, run=run)


_MERGE_STAGES = [
    ([_means_of(probe) for probe in _MERGE_PROBES], _MEAN_MISTAKES, "the mean"),
    (_MERGE_PROBES, _VAR_MISTAKES, "the variance"),
]


def merge(answer):
    """Check a function n, mean_a, var_a, m, mean_b, var_b -> (mean, var) of both parts of a row (lesson 3)."""
    tried = "parts of one size and of different sizes, single numbers, means of 10000 in float32, gradients"
    right = f"merge does what it should on {len(_MERGE_PROBES)} inputs ({tried})"
    in_stages(answer, "merge", _MERGE_STAGES, in_float64(_merge), right, kind="function")


_COMPLAINTS = {
    "nan": lambda row, out: bool(out.isnan().all()),
    "inf": lambda row, out: bool(out.isinf().any()),
    "zeros": lambda row, out: bool((out == 0).all() and (row != row[0]).any()),
}
_BROKEN = {"nan": [0, 0, 0, 0], "inf": [1e-5, 2e-5, 3e-5, 4e-5], "zeros": [0, 500, 1000, 1500]}
_ORDINARY = {
    "nan": "nan is 0/0. The variance must be 0, and x - mean as well: which rows have that?",
    "inf": "inf is a number divided by 0. The variance must become 0 though the numbers differ: its square root is below 1e-4.",
    "zeros": "Numbers divided by inf are 0. The variance must be larger than float16 can hold, 65,504: its root is above 256.",
}
_ALL_EQUAL = "The numbers of the row are equal, at least in float16: x - mean is 0, and 0/0 is nan. They must differ."
_OTHER = {
    "nan": "The variance is 0 indeed, but x - mean is not, and that divided by 0 is inf. What if all numbers are equal?",
    "inf": "The variance has become inf, which makes zeros. For inf it must become 0.",
    "zeros": "The variance has become 0, which makes inf. For zeros it must become inf.",
}
_TOO_LARGE = "x - mean itself is inf here, and inf/inf is nan. Take numbers below 10,000."


def breaking_rows(answer):
    """Check three rows that break a LayerNorm of float16 with eps = 1e-8: to nan, to inf, to zeros (lesson 3)."""
    wrong = [(key, [0, 100, 200, 300], _ORDINARY[key]) for key in _COMPLAINTS]
    wrong += [("nan", _BROKEN["inf"], _OTHER["nan"]), ("inf", _BROKEN["zeros"], _OTHER["inf"])]
    wrong += [("zeros", _BROKEN["inf"], _OTHER["zeros"]), ("zeros", _EDGE.tolist()[0], _TOO_LARGE)]
    wrong += [("inf", [1e-5] * 4, _ALL_EQUAL), ("zeros", [500] * 4, _ALL_EQUAL)]
    announce(Mistake(why, _BROKEN | {key: row}) for key, row, why in wrong)
    refuse_dots(answer, "breaking_rows")
    if not isinstance(answer, dict) or set(answer) != set(_COMPLAINTS):
        reject("check.breaking_rows takes a dictionary with three rows. Its keys are 'nan', 'inf' and 'zeros'.")
    good = [key for key, complaint in _COMPLAINTS.items() if _breaks(key, answer[key])]
    so_far = f" Right so far: {', '.join(good)}." if good else ""
    for key in _COMPLAINTS:
        if key not in good:
            said, why = _why_not(key, answer[key])
            reject(f"{key}: {said}{so_far}", why)
    accept("Right: three rows of float16, three complaints, each as you meant it.")


def _row(given):
    """The row as a float16 tensor, or None if it is not at least four finite numbers."""
    try:
        row = torch.as_tensor(given).detach().to(torch.float16).squeeze()
    except (TypeError, ValueError, RuntimeError):
        return None
    return row if row.dim() == 1 and len(row) >= 4 and row.isfinite().all() else None


def _breaks(key, given):
    row = _row(given)
    return row is not None and _COMPLAINTS[key](row, _normalize(row, 1e-8))


def _why_not(key, given):
    """Return (what became of a row that does not break as it should, why)."""
    row = _row(given)
    if given is ...:
        return "put your row in the place of the three dots.", None
    if row is None:
        return "that is no row of float16.", "Give a list of at least four numbers, none beyond 65,504."
    out = _normalize(row, 1e-8)
    said = f"the patient makes {row_of(out)} of your row."
    equal = bool((row == row[0]).all())
    if key != "nan" and equal:
        return said, _ALL_EQUAL
    if (row - row.mean()).isinf().any():
        return said, _TOO_LARGE
    other = any(complaint(row, out) for complaint in _COMPLAINTS.values())
    return said, _OTHER[key] if other and (key != "nan" or out.isinf().any()) else _ORDINARY[key]


def _half(x, eps=1e-8):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    var = wide.var(-1, correction=0, keepdim=True)
    return ((wide - mean) / torch.sqrt(var + eps)).to(x.dtype)


_HALF, _BRAIN = torch.float16, torch.bfloat16
_QUARTERS = [50 + 0.25 * i for i in (0, 1, 2, 3, 4, 5, 6, 8)]  # exact in bfloat16, their mean 50.90625 is not
_EDGE = _rows([65504, -65504, -65504, -65504], dtype=_HALF)
_TINY = 2**-15 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF)

_HALF_PROBES = [
    # 2e-3 is one step of float16 at 2. Tiny rows first: there a larger eps shows in the values.
    call("float16 rows with sigma = 7e-5", _TINY, tolerance=2e-3),
    call("a float16 row of zeros", _rows([0.0] * 8, dtype=_HALF), tolerance=2e-3),
    call("float16 rows with sigma = 600", 256 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF), tolerance=2e-3),
    # x - mean reaches 98,256 here, more than float16 can hold, and the result is 1.73 at most.
    call("a float16 row of 65504 and three times -65504", _EDGE, tolerance=2e-3, gradient=False),
    call("float16 rows with sigma = 1", draw(51, 3, 8, dtype=_HALF), tolerance=2e-3),
    call("wide float16 rows with one large entry", _with_outliers(54, _HALF), tolerance=2e-3),
    # 1e-2: a step of bfloat16 is 1.6e-2 at 2
    call("a bfloat16 row of zeros", _rows([0.0] * 8, dtype=_BRAIN), tolerance=1e-2),
    # F.layer_norm is a right answer, but on this row its gradient is off by 3 % (the mean it saves is bfloat16): values only.
    call("a bfloat16 row around 50", _rows(_QUARTERS, dtype=_BRAIN), tolerance=1e-2, gradient=False),
    call("a float16 row of zeros with BERT's eps = 1e-12", _rows([0.0] * 8, dtype=_HALF), eps=1e-12, gradient=False),
    call("float16 rows with eps = 0.25", draw(52, 3, 8, dtype=_HALF), 0.25, names=("x", "eps"), tolerance=2e-3),
    call("float16 rows with sigma = 7e-5 with eps = 0", _TINY, eps=0.0, tolerance=2e-3, gradient=False),
    call("float32 rows with sigma = 0.001", 1e-3 * draw(53, 3, 8, dtype=torch.float32), tolerance=1e-5),
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_STILL = "part of the arithmetic is still in x's dtype, or rounded back to it before the root: there eps becomes 0. Convert x first, and back in the last step only."
_TRAVELS = "a larger eps stops the nan and changes the function: eps belongs to the weights. Keep it, and compute in float32, where 1e-8 is not 0."
_SCALED = "the row is scaled before eps is added, so that eps weighs another share: the function has changed. Convert x to float32 instead."
_EPS_ONLY = "eps is float32 now, but the variance is still taken in x's dtype. Convert x first."
_HIDES = "nan_to_num hides the nan; rows of small or of large numbers are still wrong. Compute in float32."
_ROUNDED = "the variance is computed in float32 and rounded back to x's dtype before the root. Stay in float32 up to the last step."
_ROUNDED_MEAN = "the mean is still rounded in x's dtype: around 50 bfloat16 moves in steps of 0.25. Convert x first."
_OUTSIDE = "eps is added to the deviation. Add it to the variance, under the root."

_IN_HALF = "x.float() -> x"
_LARGER = "1e-5 (eps+1e-5) max(eps,1e-5) max(eps,1e-6) max(eps,2**-24) max(eps,torch.finfo(x.dtype).tiny) max(eps,torch.finfo(x.dtype).eps)"
_SQUARED = "wide.var(-1, correction=0, keepdim=True) -> (wide - mean).square().mean(-1, keepdim=True)"
_HALF_MEAN = "(wide - mean) -> (x - x.mean(-1, keepdim=True))"
_HALF_MISTAKES = known(
    _half,
    {
        _IN_HALF: _STILL,
        f"{_IN_HALF} ; {_SQUARED}": _STILL,
        **{f"{_IN_HALF} ; var + eps -> var + {larger}": _TRAVELS for larger in _LARGER.split()},
        "var + eps -> var + max(eps, 1e-5)": _TRAVELS,
        "var + eps -> var + 1e-5": "the arithmetic is right now, but eps is replaced by 1e-5. Pass the argument eps on: it belongs to the weights.",
        "var + eps -> var + (eps or 1e-8)": "an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. Use the argument as it is.",
        "x.float() -> x / x.abs().amax(-1, keepdim=True)": _SCALED,
        "x.float() -> x.float() / x.float().abs().amax()": _SCALED,
        "x.float() -> x / x.abs().amax()": _SCALED,
        "x.float() -> x * 1024": _SCALED,
        "x.float() -> x * 1000": _SCALED,
        f"{_IN_HALF} ; var + eps -> var + torch.tensor([eps])": _EPS_ONLY,
        f"{_IN_HALF} ; {_SQUARED} ; var + eps -> var + torch.tensor([eps])": _EPS_ONLY,
        "torch.sqrt(var + eps) -> (wide.std(-1, keepdim=True) + eps)": _ADDED_UNBIASED,
        "(wide - mean) -> (wide - mean).to(x.dtype) ; torch.sqrt(var + eps) -> torch.sqrt(var + eps).to(x.dtype)": "x - mean is rounded back to x's dtype, and the root too. Stay in float32 up to the last step.",
        "var + eps -> var": "eps is not used: in float32 a row of zeros is still 0/0. Add it to the variance, under the root.",
        "var + eps -> var.clamp(min=eps)": "eps is used as the smallest variance allowed. Add it to the variance, under the root.",
        f"{_IN_HALF} ; var + eps -> var.float() + eps ; (wide - mean) -> (wide.float() - mean.float())": _EPS_ONLY,
        "torch.sqrt(var + eps) -> (var + eps)": "the root is missing: divide by the root of (variance + eps).",
        ", keepdim=True -> ": "the reduced axis is gone, so that x - mean cannot line up. Say keepdim=True in both.",
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> correction=0": "one mean for the whole tensor. Every row needs its own: reduce axis -1.",
        "var + eps -> var + 1e-8": "the number 1e-8 is written into the formula. Use the argument eps.",
        "eps=1e-8 -> eps=1e-5": "the default of eps has become 1e-5. Leave it at 1e-8, with which the weights were trained.",
        f"{_IN_HALF} ; .to(x.dtype) -> .nan_to_num()": _HIDES,
        f"{_IN_HALF} ; .to(x.dtype) -> .nan_to_num(0.0, 0.0, 0.0)": _HIDES,
        "var + eps -> var.to(x.dtype).float() + eps": _ROUNDED,
        _HALF_MEAN: _ROUNDED_MEAN,
        "x.float() -> (x - x.mean(-1, keepdim=True)).float() ; (wide - mean) -> wide ; wide.var(-1, correction=0, keepdim=True) -> wide.square().mean(-1, keepdim=True)": _ROUNDED_MEAN,
        "x.float() -> x.to(torch.bfloat16)": "bfloat16 does not overflow here, but it has only 3 digits. Compute in float32.",
        "wide.var(-1, correction=0, keepdim=True) -> wide.square().mean(-1, keepdim=True) - mean**2": "E[x^2] - E[x]^2 loses digits in float32 as well. Subtract the mean, then square.",
        "correction=0 -> correction=1": "the variance is divided by D - 1. Say correction=0.",
        "torch.sqrt(var + eps) -> (var.sqrt() + eps)": _OUTSIDE,
        "var + eps -> var.detach() + eps": "the values are right, but the variance is cut off from the gradient: leave .detach() away.",
    },
)
_HALF_REFERENCE = in_float64(lambda x, eps=1e-8: _normalize(x, eps))  # _half itself would leave float64


def normalize_half(answer):
    """Check a LayerNorm for float16, bfloat16 and float32 rows that computes in at least float32 (lesson 3)."""
    tried = "float16, bfloat16 and float32, sigma from 0 to 600, large entries, four values of eps, gradients"
    examine(answer, "normalize_half", _HALF_PROBES, _HALF_REFERENCE, _HALF_MISTAKES, tried)

"""Checks of lesson 3: eps under the root, reading eps off a layer, merging statistics, half precision."""

import dataclasses
import math

import torch
from torch.nn import functional as F

from lessonkit.check.comparing import examine
from lessonkit.check.contract import F32, Contract
from lessonkit.check.misconceptions import Misconception, announce, misconceptions
from lessonkit.check.probing import Probe, call, draw, in_float64
from lessonkit.check.verdicts import accept, refuse_dots, reject
from lessonkit.check.wording import row_of


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def _counting(*offsets):
    """float32 rows of 0, 1, 2, 3 plus an offset: exact, like their means and centered squares, not like E[x^2]."""
    return _rows(*([k, k + 1, k + 2, k + 3] for k in offsets), dtype=torch.float32)


# ---- normalize
def _normalize(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    deviation = torch.sqrt(var + eps)
    return (x - mean) / deviation


_EPSILONS = ({}, {"eps": 0.25}, {"eps": 1e-12}, {"eps": 0.0})
_CONTRACT = Contract({"x": "... D"}, options=_EPSILONS)

_PROBES = [
    call("rows with sigma = 0.001", 1e-3 * draw(32, 2, 3, 5)),  # first: here eps shows in the message
    # exact in binary: x - mean is 0. The last row has sigma = 2e-6, less than the default of eps.
    call("a constant row", _rows([3.0] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [i * 2**-20 for i in range(8)])),
    call("eps = 0.25", draw(34, 4, 3), 0.25, names=("x", "eps")),
    call("eps = 0 on rows with sigma = 0.001", 1e-3 * draw(37, 2, 3, 5), eps=0.0),
    # E[x^2] - E[x]^2 is 2.0 and 0.0 here, not 1.25. PyTorch's own gradient at such offsets is right to about 1e-4.
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_FIXED = "an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. | Use the argument as it is."

_MISTAKES = misconceptions(
    _normalize,
    f"""
    # eps is added to the deviation: a row with sigma = 0.001 comes out 3.3 times too large. | Add it to the variance, under the root.
    deviation = torch.sqrt(var) + eps

    # eps is added to the deviation, and the variance is divided by D - 1. | eps under the root, and correction=0.
    deviation = x.std(-1, keepdim=True) + eps

    # the variance is divided by D - 1. | Say correction=0, or take mean_and_var of lesson 2.
    var = x.var(-1, keepdim=True)

    # eps is not used, and 0/0 is nan. (Added to x, it is taken away again with the mean.) | Add it to the variance, under the root.
    deviation = torch.sqrt(var)
    # or
    mean, var = (x + eps).mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    return (x + eps - mean) / torch.sqrt(var)

    # nan_to_num hides 0/0, and the other rows are left without eps. | Add eps to the variance, under the root.
    return ((x - mean) / torch.sqrt(var)).nan_to_num()

    # that is eps squared. The variance is a square already, eps is not the root of something. | Add eps as it is.
    deviation = torch.sqrt(var + eps**2)

    # the root is missing: the row is divided by its variance plus eps.
    deviation = var + eps

    # you multiply by the root of (variance + eps). | Divide by it, or multiply by torch.rsqrt.
    return (x - mean) * deviation

    # eps is used as the smallest value allowed, so that most rows do not feel it. | Add it to the variance, under the root.
    deviation = torch.sqrt(var.clamp(min=eps))
    # or
    deviation = torch.sqrt(var).clamp(min=eps)

    # the number 1e-5 is written into the formula. | Use the argument eps.
    deviation = torch.sqrt(var + 1e-5)

    # {_FIXED}
    deviation = torch.sqrt(var + (eps or 1e-5))

    # the default of eps has changed. | Leave it as it was, eps=1e-5.
    def _normalize(x, eps=1e-6): ...
    # or
    def _normalize(x, eps=1e-8): ...

    # the root of eps is added to the deviation. That is no root of the sum. | torch.sqrt(var + eps).
    deviation = torch.sqrt(var) + eps**0.5

    # the deviation is under the root. It is a root already. | The variance belongs there.
    deviation = torch.sqrt(x.std(-1, correction=0, keepdim=True) + eps)

    # the mean of the squares is under the root. The variance is that of the distances from the mean.
    deviation = torch.sqrt(x.square().mean(-1, keepdim=True) + eps)

    # the squared distances are summed. The variance is their mean.
    deviation = torch.sqrt((x - mean).square().sum(-1, keepdim=True) + eps)

    # you reduce the first axis, across the samples. | LayerNorm reduces the last one, -1.
    mean, var = x.mean(0, keepdim=True), x.var(0, correction=0, keepdim=True)

    # you reduce axis 1. That is the last axis of a matrix only. | -1 is the last axis of every tensor.
    mean, var = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)

    # one mean for the whole tensor. Every row needs its own. | Reduce axis -1.
    mean, var = x.mean(), x.var(correction=0)
    # or
    mean, var = x.mean(), x.var()

    # all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence. | Reduce axis -1 only.
    axes = tuple(range(1, x.dim()))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)

    # the mean is not subtracted.
    return x / deviation

    # the row is centered, but not divided by anything.
    return x - mean

    # mean and var are swapped. | mean_and_var returns the mean first.
    var, mean = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)

    # brackets are missing: without them / comes before -, and only the mean is divided.
    return x - mean / deviation

    # brackets are missing: eps is added to the quotient, not to the variance.
    return (x - mean) / torch.sqrt(var) + eps

    # E[x^2] - E[x]^2 loses all digits when the mean is far larger than sigma (section 3.6). | Subtract the mean, then square.
    var = (x * x).mean(-1, keepdim=True) - mean * mean

    # the reduced axis is gone, so that x - mean cannot line up. | Say keepdim=True in both.
    mean, var = x.mean(-1), x.var(-1, correction=0)

    # the values are right, but mean and variance are cut off from the gradient. | Leave .detach() and no_grad() away.
    mean, var = x.mean(-1, keepdim=True).detach(), x.var(-1, correction=0, keepdim=True).detach()
    """,
)


def normalize(answer):
    """Check a function x (..., D), eps=1e-5 -> (x - mean) / sqrt(var + eps) over the last axis (lesson 3)."""
    how = {"contract": _CONTRACT, "by_hand": ("layer_norm", "group_norm", "instance_norm", "batch_norm")}
    tried = "standard deviations from 2 to 0, four values of eps, large entries, offsets, one to five axes, gradients"
    examine(answer, "normalize", _PROBES, in_float64(_normalize), _MISTAKES, tried, **how)


# ---- find_eps
def _read_eps(layer):
    row = 1e-8 * _rows([-3, -1, 1, 3])
    v = row.var(correction=0)
    return (v / layer(row).var(correction=0) - v).item()


def _reading(eps):
    """Return a Probe: what an answer finds for a layer with this eps, and the rows that it fed the layer."""

    def run(answer):
        rows = []

        def layer(x):
            rows.append(x.detach().clone())
            return F.layer_norm(x, x.shape[-1:], eps=eps)

        result = answer(layer)
        number = hasattr(result, "item") and math.prod(result.shape) == 1
        return {"the result": result.item() if number else result, "_fed": rows}

    # one percent is what the docstring allows
    return Probe(f"a layer with eps = {eps:g}", run, {}, 0.01 * eps, why=lambda seen: _why(seen, eps))


_BIASED = "Variance in / variance out = v + eps, with the biased variance v of the row that you fed."


def _why(seen, eps):
    """Say in plain words why an eps is wrong, from what was fed and what came back; None if it is no number."""
    result = seen.get("the result")
    if type(result) not in (int, float):
        return None
    if not seen["_fed"]:
        return "The same number comes out for every layer: feed the layer a row and look at what it makes of it."
    row = seen["_fed"][-1]
    D, v = row.shape[-1], row.double().var(-1, correction=0).mean().item()
    if v == 0 and not math.isfinite(result):
        return "You fed a constant row: it comes out as zeros for every eps. Feed a row whose numbers differ a little."
    for value, why in [
        (math.sqrt(eps), "That is the root of eps. Compare variances, not deviations."),
        (1 / math.sqrt(eps), "That is the slope 1/sqrt(eps). Turn it upside down and square it."),
        (1 / eps, "That is upside down: variance in / variance out = v + eps."),
        (-eps, "The sign is wrong: variance in / variance out = v + eps, so subtract v from it."),
        (v / (v + eps), "That is the variance of the output, v / (v + eps). Solve it for eps."),
        (v, "That is the variance of the row that you fed. Compare it with that of the output."),
        (v + eps, "That is v + eps: subtract the variance v of the row that you fed."),
        (eps * D / max(D - 1, 1), _BIASED),
    ]:
        if abs(result - value) <= 0.01 * abs(value):
            return why
    if v > 1e4 * eps:
        kind, digits = str(row.dtype).removeprefix("torch."), {torch.float32: 7, torch.float64: 16}.get(row.dtype, 3)
        return f"The variance of your row is {v:.2g}, {v / eps:.0e} times eps, and {kind} holds {digits} digits: eps is lost in it. Feed a row of far smaller numbers."
    if abs(result - eps) < 0.5 * eps:
        return "That is near, and one percent is allowed. Is it rounded, or taken from a list of usual values?"
    return _BIASED


_EPS_PROBES = [_reading(eps) for eps in (1e-3, 1e-5, 1.37e-4, 4.6e-6, 1e-8, 1e-12)]


def find_eps(answer):
    """Check a function layer -> its eps, where layer maps (..., D) to (x - mean) / sqrt(var + eps) (lesson 3)."""
    examine(answer, "find_eps", _EPS_PROBES, _read_eps, tried="eps from 1e-3 to 1e-12")


# ---- merge
def _merge(n, mean_a, var_a, m, mean_b, var_b):
    delta = mean_b - mean_a
    mean = mean_a + delta * m / (n + m)
    within = (n * var_a + m * var_b) / (n + m)
    between = delta**2 * n * m / (n + m) ** 2
    var = within + between
    return mean, var


_PAIR = ("the mean", "the variance")


def _of_parts(answer, sizes, n, m):
    return lambda mean_a, var_a, mean_b, var_b: answer(n, mean_a, var_a, m, mean_b, var_b)


_PARTS = Contract(
    dict.fromkeys(("mean_a", "var_a", "mean_b", "var_b"), "..."),
    returns=_PAIR,
    use=_of_parts,
    options=(
        {"n": 3, "m": 5},
        {"n": 4, "m": 4},
        {"n": 64, "m": 704},
        {"n": 100_000, "m": 2},
        {"n": 100_000, "m": 100_000},
    ),
    valid=dict.fromkeys(("var_a", "var_b"), torch.square),
    values=("ordinary", "offset", "small", "outlier", "constant"),
)


def _parts(label, seed, n, m, shape=(2, 3), offset=0.0, dtype=torch.float64, tolerance=1e-9):
    """A probe of two parts of n and m numbers around offset; a part of one number has the variance 0."""
    mean_a, mean_b, *var = (draw(seed + i, *shape) for i in range(4))
    var_a, var_b = (v.square() if count > 1 else torch.zeros(shape) for v, count in zip(var, (n, m), strict=True))
    a, b = ((offset + mean_a, var_a), (offset + 2 * mean_b, var_b))
    parts = n, *(t.to(dtype) for t in a), m, *(t.to(dtype) for t in b)
    names = ("n", "mean_a", "var_a", "m", "mean_b", "var_b")
    return call(label, *parts, names=names, returns=_PAIR, tolerance=tolerance)


_MERGE_PROBES = [
    _parts("parts of 3 and 5 numbers", 61, 3, 5),
    _parts("parts of 4 and 4 numbers", 62, 4, 4),
    _parts("two single numbers", 64, 1, 1, shape=()),
    # E[x^2] - E[x]^2 is off by 8 in float32, by 1e-4 in float64. A distance from the rounded mean costs 3e-7 and 2e-10.
    _parts("float32 parts with means of 10000", 66, 64, 704, (5, 1), 1e4, torch.float32, tolerance=1e-5),
    _parts("float64 parts with means of 1000000", 67, 64, 704, (5, 1), 1e6),
]

_APART = "the means differ, and their distance is part of the variance: two single numbers, 0 and 2, have variance 1."
_LARGER = "the larger part weighs more: n and m out of n + m."

_MERGE_MISTAKES = misconceptions(
    _merge,
    f"""
    # the middle of the two means is right for parts of one size only. | The larger part weighs more: n and m out of n + m.
    mean = mean_a + delta / 2

    # the weights of the means are swapped. | The mean moves from mean_a by the share m / (n + m) of the distance.
    mean = mean_a + delta * n / (n + m)

    # the distance has the wrong sign: from mean_a it goes towards mean_b.
    mean = mean_a - delta * m / (n + m)

    # that is the sum of all numbers. | Divide it by n + m.
    mean = n * mean_a + m * mean_b

    # brackets are missing: only the second part is divided by n + m.
    mean = n * mean_a + m * mean_b / (n + m)

    # mean and variance are in the wrong order. | Return the mean first.
    return var, mean

    # {_APART}
    var = within

    # {_APART} And {_LARGER}
    var = (var_a + var_b) / 2

    # {_APART} And the variances are averaged, not added.
    var = var_a + var_b

    # the variances get equal weights, although {_LARGER}
    within = (var_a + var_b) / 2

    # a quarter of the squared distance is right for parts of one size only, where n * m / (n + m) ** 2 is 1/4.
    between = delta**2 / 4

    # the squared distance counts in part only: the parts are nearer to the mean of the whole than to each other.
    between = delta**2

    # the distance enters with n * m / (n + m) into the *sum* of the squares. | In the variance it is divided by n + m once more.
    between = delta**2 * n * m / (n + m)

    # that is the sum of the squared distances. | Divide it by n + m.
    var = n * var_a + m * var_b + delta**2 * n * m / (n + m)

    # a divisor of the unbiased variance: n - 1, m - 1 or n + m - 1. All variances here are biased, so that n, m and n + m are the counts.
    var = (n * var_a + m * var_b + delta**2 * n * m / (n + m)) / (n + m - 1)
    # or
    within = ((n - 1) * var_a + (m - 1) * var_b) / (n + m)
    # or
    var = ((n - 1) * var_a + (m - 1) * var_b + delta**2 * n * m / (n + m)) / (n + m - 1)
    # or
    var = ((n - 1) * var_a + (m - 1) * var_b) / max(n + m - 2, 1)

    # the distance of the means is not squared.
    between = delta * n * m / (n + m) ** 2
    # or
    between = delta.abs() * n * m / (n + m) ** 2
    # or
    between = (n * (mean_a - mean) + m * (mean_b - mean)) / (n + m)

    # the squared distances from the mean of the whole need weights, too. | n out of n + m for (mean_a - mean)**2, m out of n + m for (mean_b - mean)**2.
    between = ((mean_a - mean) ** 2 + (mean_b - mean) ** 2) / 2
    # or
    between = (mean_a - mean) ** 2 + (mean_b - mean) ** 2

    # that is E[x^2] - E[x]^2: the difference of two numbers near 1e8, which float32 holds to 8, and float64 loses half its digits. | Take the distance of the means, then square.
    var = (n * (var_a + mean_a**2) + m * (var_b + mean_b**2)) / (n + m) - mean**2
    # or
    wide = [t.double() for t in (mean_a, var_a, mean_b, var_b)]
    mean = (n * wide[0] + m * wide[2]) / (n + m)
    var = (n * (wide[1] + wide[0] ** 2) + m * (wide[3] + wide[2] ** 2)) / (n + m) - mean**2
    return mean.to(mean_a.dtype), var.to(mean_a.dtype)
    """,
)


def _means_of(probe):
    """The probe without what it sees of the variance: only whether there is one."""

    def run(answer):
        seen = probe.run(answer).items()
        return {k: None if k == "the variance" else v for k, v in seen if not k.startswith("gradient of")}

    return dataclasses.replace(probe, run=run)


def merge(answer):
    """Check a function n, mean_a, var_a, m, mean_b, var_b -> (mean, var) of both parts of a row (lesson 3)."""
    tried = "parts of one size and of different sizes, single numbers, means far from 0, gradients"
    stages = [([_means_of(probe) for probe in _MERGE_PROBES], "the mean"), (_MERGE_PROBES, "the variance")]
    right = f"merge does what it should on {len(_MERGE_PROBES)} inputs ({tried})"
    examine(answer, "merge", stages, in_float64(_merge), _MERGE_MISTAKES, contract=_PARTS, right=right)


# ---- breaking_rows
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
_EDGE = [65504, -65504, -65504, -65504]


def breaking_rows(answer):
    """Check three rows that break a LayerNorm of float16 with eps = 1e-8: to nan, to inf, to zeros (lesson 3)."""
    wrong = [(key, [0, 100, 200, 300], _ORDINARY[key]) for key in _COMPLAINTS]
    wrong += [("nan", _BROKEN["inf"], _OTHER["nan"]), ("inf", _BROKEN["zeros"], _OTHER["inf"])]
    wrong += [("zeros", _BROKEN["inf"], _OTHER["zeros"]), ("zeros", _EDGE, _TOO_LARGE)]
    wrong += [("inf", [1e-5] * 4, _ALL_EQUAL), ("zeros", [500] * 4, _ALL_EQUAL)]
    announce(Misconception(why, _BROKEN | {key: row}) for key, row, why in wrong)
    refuse_dots(answer, "breaking_rows")
    if not isinstance(answer, dict) or set(answer) != set(_COMPLAINTS):
        reject("check.breaking_rows takes a dictionary with three rows. Its keys are 'nan', 'inf' and 'zeros'.")
    good = [key for key, complaint in _COMPLAINTS.items() if _breaks(key, answer[key])]
    so_far = f" Right so far: {', '.join(good)}." if good else ""
    for key in _COMPLAINTS:
        if key not in good:
            what, why = _why_not(key, answer[key])
            reject(f"{key}: {what}{so_far}", why)
    accept("Right: three rows of float16, three complaints, each as you meant it.")


def _row(entry):
    """The row as a float16 tensor, or None if it is not at least four finite numbers."""
    try:
        row = torch.as_tensor(entry).detach().to(torch.float16).squeeze()
    except (TypeError, ValueError, RuntimeError):
        return None
    return row if row.dim() == 1 and len(row) >= 4 and row.isfinite().all() else None


def _breaks(key, entry):
    row = _row(entry)
    return row is not None and _COMPLAINTS[key](row, _normalize(row, 1e-8))


def _why_not(key, entry):
    """Return (what became of a row that does not break as it should, why)."""
    row = _row(entry)
    if entry is ...:
        return "put your row in the place of the three dots.", None
    if row is None:
        return "that is no row of float16.", "Give a list of at least four numbers, none beyond 65,504."
    out = _normalize(row, 1e-8)
    what = f"the patient makes {row_of(out)} of your row."
    equal = bool((row == row[0]).all())
    if key != "nan" and equal:
        return what, _ALL_EQUAL
    if (row - row.mean()).isinf().any():
        return what, _TOO_LARGE
    other = any(complaint(row, out) for complaint in _COMPLAINTS.values())
    return what, _OTHER[key] if other and (key != "nan" or out.isinf().any()) else _ORDINARY[key]


# ---- normalize_half
def _half(x, eps=1e-8):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    centered = wide - mean
    var = wide.var(-1, correction=0, keepdim=True)
    deviation = torch.sqrt(var + eps)
    return (centered / deviation).to(x.dtype)


_HALF, _BRAIN = torch.float16, torch.bfloat16
_HALF_CONTRACT = Contract(
    {"x": "... D"},
    options=_EPSILONS[:3],
    types=(F32,),
    half=True,
    # F.layer_norm is a right answer, and leaves a rounding times 1 / sqrt(eps) of a row of equal numbers
    sizes={"D": (7, 2, 17, 1100)},
    values=("ordinary", "offset", "small", "outlier", "large"),
)
_QUARTERS = [50 + 0.25 * i for i in (0, 1, 2, 3, 4, 5, 6, 8)]  # exact in bfloat16, their mean 50.90625 is not
_TINY = 2**-15 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF)

_HALF_PROBES = [
    # 2e-3 is one step of float16 at 2. Tiny rows first: there a larger eps shows in the values.
    call("float16 rows with sigma = 7e-5", _TINY, tolerance=2e-3),
    call("a float16 row of zeros", _rows([0.0] * 8, dtype=_HALF), tolerance=2e-3),
    call("float16 rows with sigma = 600", 256 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF), tolerance=2e-3),
    # x - mean reaches 98,256 here, more than float16 can hold, and the result is 1.73 at most.
    call("a float16 row of 65504 and three times -65504", _rows(_EDGE, dtype=_HALF), tolerance=2e-3, gradient=False),
    # F.layer_norm is a right answer, but on this row its gradient is off by 3 % (the mean it saves is bfloat16): values only.
    # 1e-2: a step of bfloat16 is 1.6e-2 at 2
    call("a bfloat16 row around 50", _rows(_QUARTERS, dtype=_BRAIN), tolerance=1e-2, gradient=False),
    call("float16 rows with eps = 0.25", draw(52, 3, 8, dtype=_HALF), 0.25, names=("x", "eps"), tolerance=2e-3),
    call("float16 rows with sigma = 7e-5 with eps = 0", _TINY, eps=0.0, tolerance=2e-3, gradient=False),
    call("float32 rows with sigma = 0.001", 1e-3 * draw(53, 3, 8, dtype=torch.float32), tolerance=1e-5),
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_HALF_MISTAKES = misconceptions(
    _half,
    f"""
    # part of the arithmetic is still in x's dtype, or rounded back to it before the root: there eps becomes 0. | Convert x first, and back in the last step only.
    wide = x
    # or
    wide = x
    var = (wide - mean).square().mean(-1, keepdim=True)

    # a larger eps stops the nan and changes the function: eps belongs to the weights. | Keep it, and compute in float32, where 1e-8 is not 0.
    wide = x
    deviation = torch.sqrt(var + 1e-5)
    # or
    wide = x
    deviation = torch.sqrt(var + max(eps, 1e-5))
    # or
    wide = x
    deviation = torch.sqrt(var + max(eps, torch.finfo(x.dtype).tiny))
    # or
    wide = x
    deviation = torch.sqrt(var + max(eps, torch.finfo(x.dtype).eps))

    # the arithmetic is right, but eps is replaced by 1e-5: it belongs to the weights. | Pass the argument eps on.
    deviation = torch.sqrt(var + 1e-5)
    # or
    deviation = torch.sqrt(var + max(eps, 1e-5))

    # {_FIXED}
    deviation = torch.sqrt(var + (eps or 1e-8))

    # the number 1e-8 is written into the formula. | Use the argument eps.
    deviation = torch.sqrt(var + 1e-8)

    # the default of eps has become 1e-5. | Leave it at 1e-8, with which the weights were trained.
    def _half(x, eps=1e-5): ...

    # the row is scaled before eps is added, so that eps weighs another share: the function has changed. | Convert x to float32 instead.
    wide = x.float() / x.float().abs().amax()
    # or
    wide = x / x.abs().amax(-1, keepdim=True)
    # or
    wide = x * 1024

    # eps is float32 now, but the variance is still taken in x's dtype. | Convert x first.
    wide = x
    centered = x.float() - mean.float()
    deviation = torch.sqrt(var.float() + eps)
    # or
    wide = x
    deviation = torch.sqrt(var + torch.tensor([eps]))

    # nan_to_num hides the nan; rows of small or of large numbers are still wrong. | Compute in float32.
    wide = x
    return (centered / deviation).nan_to_num()
    # or
    wide = x
    return (centered / deviation).nan_to_num(0.0, 0.0, 0.0)

    # the variance is computed in float32 and rounded back to x's dtype before the root. | Stay in float32 up to the last step.
    deviation = torch.sqrt(var.to(x.dtype).float() + eps)

    # x - mean and the root are rounded back to x's dtype before the division. | Stay in float32 up to the last step.
    return centered.to(x.dtype) / deviation.to(x.dtype)

    # the mean is still rounded in x's dtype: around 50 bfloat16 moves in steps of 0.25. | Convert x first.
    centered = x - x.mean(-1, keepdim=True)
    # or
    wide = (x - x.mean(-1, keepdim=True)).float()
    centered = wide
    var = wide.square().mean(-1, keepdim=True)

    # the result stays float32. Where x = x.float() stands, x.dtype is float32 from there on, and .to(x.dtype) does nothing. | Give the wide row another name.
    return centered / deviation

    # eps is not used: in float32 a row of zeros is still 0/0. | Add it to the variance, under the root.
    deviation = torch.sqrt(var)

    # eps is used as the smallest variance allowed. | Add it to the variance, under the root.
    deviation = torch.sqrt(var.clamp(min=eps))

    # eps is added to the deviation. | Add it to the variance, under the root.
    deviation = torch.sqrt(var) + eps

    # the variance is divided by D - 1. | Say correction=0.
    var = wide.var(-1, keepdim=True)

    # E[x^2] - E[x]^2 loses digits in float32 as well. | Subtract the mean first, then square.
    var = wide.square().mean(-1, keepdim=True) - mean**2
    """,
)
_HALF_REFERENCE = in_float64(lambda x, eps=1e-8: _normalize(x, eps))  # _half itself would leave float64


def normalize_half(answer):
    """Check a LayerNorm for float16, bfloat16 and float32 rows that computes in at least float32 (lesson 3)."""
    tried = "float16, bfloat16 and float32, sigma from 0 to 600, large entries, four values of eps, gradients"
    examine(answer, "normalize_half", _HALF_PROBES, _HALF_REFERENCE, _HALF_MISTAKES, tried, contract=_HALF_CONTRACT)

"""Checks of lesson 3: eps under the root, reading eps off a layer, a variance that survives an offset, half precision."""

import math

import torch
from torch.nn import functional as F  # noqa: F401  known mistakes read it

from lessonkit.check.core import NotYet, Probe, call, draw, examine, in_float64, known, observe, reject, values


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


# ------------------------------------------------------------------------------------------------------ normalize


def _normalize(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)


_PROBES = [
    call("rows of spread 0.001", 1e-3 * draw(32, 2, 3, 5)),  # first: here eps shows in the message
    call("rows of random numbers", 1 + 2 * draw(31, 3, 6)),
    call("a row of spread 1e-5", 1e-5 * draw(33, 7)),
    call("a row without spread", _rows([3.0] * 8, [1, 2, 3, 4, 5, 6, 7, 8])),  # exact in binary: x - mean is 0
    call("eps = 0.25", draw(34, 4, 3), 0.25, names=("x", "eps")),
    call("eps = 1e-12 on rows of spread 1e-4", 1e-4 * draw(35, 2, 5), eps=1e-12),
    call("eps = 0 on rows of spread 0.001, of a shape that came before", 1e-3 * draw(37, 2, 3, 5), eps=0.0),
    call("wide rows with one large entry", _with_outliers(38, torch.float64)),
    call("float32 rows", draw(36, 3, 16, dtype=torch.float32), tolerance=1e-5),
    # E[x^2] - E[x]^2 is 2.0 and 0.0 here, not 1.25. PyTorch's own gradient at such offsets is right to about 1e-4.
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_ADDED = "eps is added to the deviation. Add it to the variance, under the root: a row of spread 0.001 comes out 3.3 times too large."
_ADDED_UNBIASED = (
    "the variance is divided by D - 1, and eps is added to the deviation: correction=0, and eps under the root."
)
_NO_EPS = "eps is not used, and 0/0 is nan. Add it to the variance, under the root."
_NO_EPS_UNBIASED = _NO_EPS + " And the variance is divided by D - 1: correction=0."
_NO_MEAN = "the mean is not subtracted."
_SUM = "the squared distances are summed. The variance is their mean: divide by D."
_STD = "under the root stands the deviation. The variance belongs there: std is its root already."

_MISTAKES = known(
    _normalize,
    {
        "torch.sqrt(var + eps) -> (var.sqrt() + eps)": _ADDED,
        "torch.sqrt(var + eps) -> (x.std(-1, correction=0, keepdim=True) + eps)": _ADDED,
        "torch.sqrt(var + eps) -> (var.sqrt() + eps) ; correction=0 -> correction=1": _ADDED_UNBIASED,
        "torch.sqrt(var + eps) -> (x.std(-1, keepdim=True) + eps)": _ADDED_UNBIASED,
        "correction=0 -> correction=1": "the variance is divided by D - 1. Say correction=0, or take mean_and_var of lesson 2.",
        "var + eps -> var": _NO_EPS,
        "torch.sqrt(var + eps) -> x.std(-1, correction=0, keepdim=True)": _NO_EPS,
        "var + eps -> var ; correction=0 -> correction=1": _NO_EPS_UNBIASED,
        "torch.sqrt(var + eps) -> x.std(-1, keepdim=True)": _NO_EPS_UNBIASED,
        "var + eps -> var + eps * eps": "that is eps squared: the variance is sigma squared already, and eps is added to it as it is.",
        "torch.sqrt(var + eps) -> (var + eps)": "the root is missing: divide by the root of (variance + eps).",
        "torch.sqrt(var + eps) -> (var + eps) ** 2": "the square stands where the root should: torch.sqrt(variance + eps), or ** 0.5.",
        "torch.sqrt -> torch.rsqrt": "that multiplies by the root of (variance + eps). Divide by it: torch.sqrt below the line, or times torch.rsqrt.",
        "torch.sqrt(var + eps) -> var.sqrt().clamp(min=eps)": "eps is used as the smallest deviation allowed. Add it to the variance, under the root.",
        "var + eps -> var.clamp(min=eps)": "eps is used as the smallest variance allowed. Add it to the variance, under the root.",
        "var + eps -> var + 1e-5": "the number 1e-5 is written into the formula. Use the argument eps.",
        "var + eps -> var + (eps or 1e-5)": "an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. Use the argument as it is.",
        **{
            f"eps=1e-5 -> eps={default:g}": f"the default of eps is {default:g}. Leave it as it was given, eps=1e-5."
            for default in (1e-3, 1e-6, 1e-8, 1e-12, 0.0)
        },
        "-1 -> 0": "you reduce the first axis, across the samples. LayerNorm reduces the last one, -1.",
        "-1 -> min(1, x.dim() - 1)": "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.",
        "-1 -> max(-2, -x.dim())": "you reduce axis -2, across the tokens. Every token has a mean and a variance of its own: axis -1.",
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> correction=0": "one mean for the whole tensor. Every row needs its own: reduce axis -1.",
        "-1, -> tuple(range(1, x.dim())) or -1,": "all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence: reduce axis -1 only.",
        "x - mean -> x": _NO_MEAN,
        "x - mean -> x ; var + eps -> x.square().mean(-1, keepdim=True) + eps": _NO_MEAN,
        "x - mean -> mean - x": "the sign is turned: x - mean, not mean - x.",
        "var + eps -> (x - mean).square().sum(-1, keepdim=True) + eps": _SUM,
        "(x - mean) / torch.sqrt(var + eps) -> F.normalize(x - mean, dim=-1, eps=eps)": _SUM,
        "torch.sqrt(var + eps) -> (var.sqrt() + eps**0.5)": "the root of eps is added to the deviation. Add eps itself to the variance, and take the root of the sum.",
        "torch.sqrt(var + eps) -> (torch.sqrt(var + eps) + eps)": "eps is added twice. Once is enough: to the variance, under the root.",
        "var + eps -> var.sqrt() + eps": _STD,
        "var + eps -> x.std(-1, correction=0, keepdim=True) + eps": _STD,
        "mean = -> swapped = ; var = -> mean = ; var + eps -> swapped + eps": "mean and var are swapped: mean_and_var returns the mean first.",
        "x - mean -> x - mean + eps ; var + eps -> var": "eps is added to the numerator. Add it to the variance, under the root.",
        " / torch.sqrt(var + eps) -> ": "the row is centered, but not divided by the root of (variance + eps).",
        "var + eps -> x.square().mean(-1, keepdim=True) + eps": "under the root stands the mean of the squares. The variance is the mean of the squared distances from the mean.",
        "var + eps -> (x * x).mean(-1, keepdim=True) - mean * mean + eps": "E[x^2] - E[x]^2 loses all digits when the mean is large beside the spread (section 3.6). Subtract the mean, then square.",
        "(x - mean) / torch.sqrt(var + eps) -> ((x - mean) / torch.sqrt(var)).nan_to_num()": "nan_to_num hides 0/0 and leaves the other rows without eps. Add eps to the variance, under the root.",
        "(x - mean) -> x - mean": "brackets are missing: (x - mean) / ..., not x - mean / ....",
        "x - mean -> x - mean + eps": "eps is added to the numerator as well. It belongs to the variance, under the root, only.",
        ", keepdim=True -> ": "the reduced axis is gone, so that x - mean cannot line up. Say keepdim=True in both.",
        "mean) / -> mean.detach()) / ; var + eps -> var.detach() + eps": "the values are right, but mean and variance are cut off from the gradient: leave .detach() and no_grad() away.",
        "mean) / -> mean.detach()) /": "the values are right, but the mean is cut off from the gradient: leave .detach() away.",
        "var + eps -> var.detach() + eps": "the values are right, but the variance is cut off from the gradient: leave .detach() away.",
    },
)


def normalize(answer):
    """Check a function x (..., D), eps=1e-5 -> (x - mean) / sqrt(var + eps) over the last axis (lesson 3)."""
    tried = "spreads from 2 to 0, four values of eps, large entries, offsets, gradients"
    examine(answer, "normalize", _PROBES, in_float64(_normalize), _MISTAKES, tried, by_hand=("layer_norm",))


# ---------------------------------------------------------------------------------------------------- eps_numbers


def eps_numbers(answer):
    """Check what eps does to variance, gradient and largest value, as a dictionary of five numbers (lesson 3)."""
    expected = {"a": 0.5, "b": 0.9, "c": 0, "d": 100.0, "e": 4.0}  # c, an int, has no tolerance: it is 0
    not_one = "The variance of the output is v / (v + eps): 1 only if eps is negligible beside v."
    deviation = "That is the deviation of the output. Asked is the variance, its square."
    upside_down = "Upside down: v / (v + eps)."
    other_eps = "That is the bound for eps = 1e-5. Here eps is 1e-4."
    root_of_d = "The squares sum to at most D, but the other entries need a share of it: D - 1 under the root."
    causes = [
        ("a", 1.0, not_one),
        ("b", 1.0, not_one),
        ("a", 0.7071, deviation),
        ("b", 0.9487, deviation),
        ("a", 2.0, upside_down),
        ("b", 10 / 9, upside_down),
        ("b", 0.1, "That is eps / (v + eps), the share that is lost."),
        ("c", 1.0, "A constant row minus its mean is zero: there is nothing to divide."),
        ("c", 0.5, "v = 0: put it into v / (v + eps)."),
        ("c", 1e-5, "Not nearly 0, but 0: x - mean is 0 in a constant row, and eps stands below the line only."),
        ("d", 1e4, "The root is missing: 1 / sqrt(v + eps)."),
        *[("d", bound, other_eps) for bound in (316.23, 316.2, 316.0, 320.0)],
        ("d", 1e5, "That is 1 / 1e-5: another eps, and the root is missing."),
        ("d", 10.0, "One root too many: 1 / sqrt(eps), and the root of 1e-4 is 1e-2."),
        ("d", 0.01, "Upside down: 1 / sqrt(v + eps)."),
        ("e", math.sqrt(17), root_of_d),
        ("e", 4.1, root_of_d),
        ("e", 16.0, "The root is missing: the square of the entry is at most D - 1."),
        ("e", 17.0, "The squares of all D entries sum to D. One entry alone, and its root?"),
    ]
    values(answer, "eps_numbers", expected, causes, tolerance=6e-3)  # two digits of the smallest, 0.5, are 5e-3


# ------------------------------------------------------------------------------------------------------- find_eps

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
        return "You fed a constant row: it comes out as zeros for every eps. Feed a row with a little spread."
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
        return f"The variance of your row is {v:.2g}, {v / eps:.0e} times eps, and {kind} holds {digits} digits: eps drowns in it. Feed a row with far less spread."
    return "Variance in / variance out = v + eps, with the biased variance v of the row that you fed."


# ------------------------------------------------------------------------------------------------ stable_variance


def _shifted(x):
    shifted = x - x[..., :1]
    mean = shifted.mean(-1, keepdim=True)
    var = shifted.square().mean(-1, keepdim=True) - mean**2
    return var


def _two_passes(x):
    centered = x - x.mean(-1, keepdim=True)
    var = (centered * centered).mean(-1, keepdim=True)
    return var


def _welford(x):
    mean, m2 = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean
        mean = mean + delta / n
        m2 = m2 + delta * (entry - mean)
    return m2 / x.shape[-1]


_OFFSETS = torch.tensor([1e4, -3e3, 2.0, 0.0], dtype=torch.float64).unsqueeze(-1)

_VARIANCE_PROBES = [
    call("rows of random numbers", 3 * draw(41, 2, 3, 5) - 1),
    call("rows with different offsets", _OFFSETS / 100 + draw(42, 4, 6)),
    # E[x^2] - E[x]^2 gives 1.25, 2.0, 0.0; Welford's gradient is off by 1e-5.
    call("the rows 0, 1, 2, 3 plus 0, 4096, 8192", _counting(0, 4096, 8192), tolerance=1e-4),
    call("a float32 row without spread, offset 10000", _rows([10000] * 8, dtype=torch.float32), tolerance=1e-6),
    # Welford's chain, the least exact of the right ways, is off by 1e-3 of the variance here; E[x^2] - E[x]^2 by 10.
    call("float32 rows of spread 1 with offsets up to 10000", (_OFFSETS + draw(43, 4, 96)).float(), tolerance=5e-3),
    # 2e-6 is 2 % of the variance, 1e-4.
    call("float32 rows of spread 0.01 around 100", (100 + 0.01 * draw(44, 5, 32)).float(), tolerance=2e-6),
]

_HIDDEN = "a clamp (or abs) hides that E[x^2] - E[x]^2 has lost its digits; it does not bring them back. Make the numbers small before you square."
_NO_SECOND = (
    "the second term is missing: after a shift by an entry the mean is not 0, and its square must be subtracted."
)
_CANCELS = "E[x^2] - E[x]^2 is the difference of two numbers near 1e8, which float32 holds to 8. Make the numbers small before you square."
_TOO_LATE = "the squares are rounded before they become float64. Convert x first, and back in the last step."
_ONE_ENTRY = "one entry is subtracted from several rows, and every row has its own offset: x[..., :1] is the first entry of each."
_NOT_DIVIDED = "that is the sum of the squared distances. Divide it by D."
_NO_AXIS = "the reduced axis is gone. Say keepdim=True: the result is (..., 1)."

_VARIANCE_MISTAKES = [
    *known(
        _shifted,
        {
            " - x[..., :1] -> ": _CANCELS,
            **{
                f" - x[..., :1] ->  ; return var -> return var.{hidden}": _HIDDEN
                for hidden in ("clamp(min=0)", "abs()", "relu()")
            },
            "x[..., :1] -> x.mean()": "one offset is subtracted from all rows, and every row has its own: reduce axis -1 only.",
            " - mean**2 -> ": _NO_SECOND,
            " - mean**2 ->  ; x[..., :1] -> x[..., -1:]": _NO_SECOND,
            "x[..., :1] -> 1e4": "a fixed number is subtracted, and other rows have other offsets. Subtract something of the row itself.",
            "x[..., :1] -> x[:1]": _ONE_ENTRY,
            "x[..., :1] -> x[0]": _ONE_ENTRY,
            "x[..., :1] -> x.flatten()[0]": _ONE_ENTRY,
            "x[..., :1] -> x[..., 0]": "x[..., 0] has lost the last axis and does not broadcast. x[..., :1] keeps it.",
            "mean**2 -> x.mean(-1, keepdim=True) ** 2": "the second term is the square of the mean of the shifted row, not of x.",
            "mean**2 -> mean": "the second term is not squared.",
            "- mean**2 -> + mean**2": "the second term is subtracted, not added.",
            "x - x[..., :1] -> x / x.abs().amax(-1, keepdim=True) ; return var -> return var * x.abs().amax(-1, keepdim=True) ** 2": "dividing a row makes the mean smaller, and the spread with it. Subtract instead.",
            "x - x[..., :1] -> x ; keepdim=True) -> keepdim=True).double() ; return var -> return var.to(x.dtype)": _TOO_LATE,
            "x - x[..., :1] -> x ; shifted.mean -> shifted.double().mean ; shifted.square() -> shifted.square().double() ; return var -> return var.to(x.dtype)": _TOO_LATE,
            "x - x[..., :1] -> x ; return var -> return var.squeeze(-1)": _NO_AXIS,
        },
    ),
    *known(
        _two_passes,
        {
            "return var -> return var.squeeze(-1)": _NO_AXIS,
            "x.mean(-1, keepdim=True) -> x.mean()": "one mean is subtracted from all rows, and every row has its own: reduce axis -1 only.",
            "return var -> return x.var(-1, keepdim=True)": "divided by D - 1. The biased variance divides by D (correction=0).",
            "var = (centered * centered).mean(-1, keepdim=True) -> var = (x * x).sum(-1, keepdim=True) / x.shape[-1] - (x.sum(-1, keepdim=True) / x.shape[-1]) ** 2": _CANCELS,
            "var = (centered * centered).mean(-1, keepdim=True) -> var = ((x * x).sum(-1, keepdim=True) - x.sum(-1, keepdim=True) ** 2 / x.shape[-1]) / x.shape[-1]": _CANCELS,
            "centered * centered -> centered * x": "the mean takes one factor only: (x - mean) * x. It meets the rounding error of the mean with the whole offset. Square x - mean.",
            "return var -> return var + 1e-5": "eps has no place in the variance itself. Leave it away.",
            "(centered * centered).mean -> (centered * centered).sum": _NOT_DIVIDED,
            "return var -> return var.sqrt()": "that is the deviation. Leave the root away.",
            "centered * centered -> x * x": "that is the mean of the squares. Subtract something near the mean before you square.",
            "(centered * centered) -> centered.abs()": "that is the mean distance, not squared.",
            "-1 -> 0": "you reduce the first axis, across the rows. Every row has its own variance: axis -1.",
        },
    ),
    *known(
        _welford,
        {
            "delta * (entry - mean) -> delta * delta": "Welford's product is (entry - old mean) times (entry - new mean).",
            "m2 / x.shape[-1] -> m2": _NOT_DIVIDED,
        },
    ),
]


def stable_variance(answer):
    """Check a function x (..., D) -> biased variance (..., 1) that survives an offset of 1e4 in float32 (lesson 3)."""
    tried = "float32 rows with offsets to 10000, rows without spread, gradients"
    own = ("var", "var_mean", "std", "std_mean")
    examine(
        answer, "stable_variance", _VARIANCE_PROBES, in_float64(_two_passes), _VARIANCE_MISTAKES, tried, by_hand=own
    )


# ------------------------------------------------------------------------------------------------- half precision


def half_diagnosis(answer):
    """Check which rounding breaks each of three float16 rows: eps, underflow or overflow (lesson 3)."""
    always_0 = "The variance of a row of zeros is 0 in every format. What should have stood beside it?"
    not_0 = "eps is lost here too, but even without it this row has a variance, 4.7e-9. What does float16 make of it?"
    causes = [
        ("zeros", "underflow", always_0),
        ("zeros", "overflow", "Nothing is large in a row of zeros."),
        ("tiny", "eps", not_0),
        ("tiny", "overflow", "inf came out. Ask what it was divided by."),
        ("large", "eps", "With a variance this large eps never matters."),
        ("large", "underflow", "Zeros came out. Its variance is 327,680: does float16 go so far?"),
    ]
    values(answer, "half_diagnosis", {"zeros": "eps", "tiny": "underflow", "large": "overflow"}, causes)


def _half(x, eps=1e-8):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    var = wide.var(-1, correction=0, keepdim=True)
    return ((wide - mean) / torch.sqrt(var + eps)).to(x.dtype)


_HALF, _BRAIN = torch.float16, torch.bfloat16
_QUARTERS = [50 + 0.25 * i for i in (0, 1, 2, 3, 4, 5, 6, 8)]  # exact in bfloat16, their mean 50.90625 is not
_TINY = 2**-15 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF)

_HALF_PROBES = [
    # 2e-3 is one step of float16 at 2. Tiny rows first: there a larger eps shows in the values.
    call("float16 rows of spread 7e-5", _TINY, tolerance=2e-3),
    call("a float16 row of zeros", _rows([0.0] * 8, dtype=_HALF), tolerance=2e-3),
    call("float16 rows of spread 600", 256 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF), tolerance=2e-3),
    # x - mean reaches 98,256 here, more than float16 can hold, and the result is 1.73 at most.
    call(
        "a float16 row of 65504 and three times -65504",
        _rows([65504, -65504, -65504, -65504], dtype=_HALF),
        tolerance=2e-3,
        gradient=False,
    ),
    call("float16 rows of spread 1", draw(51, 3, 8, dtype=_HALF), tolerance=2e-3),
    call("wide float16 rows with one large entry", _with_outliers(54, _HALF), tolerance=2e-3),
    # 1e-2: a step of bfloat16 is 1.6e-2 at 2
    call("a bfloat16 row of zeros", _rows([0.0] * 8, dtype=_BRAIN), tolerance=1e-2),
    # F.layer_norm is a right answer, but on this row its gradient is off by 3 % (the mean it saves is bfloat16): values only.
    call("a bfloat16 row around 50", _rows(_QUARTERS, dtype=_BRAIN), tolerance=1e-2, gradient=False),
    call("a float16 row of zeros with BERT's eps = 1e-12", _rows([0.0] * 8, dtype=_HALF), eps=1e-12, gradient=False),
    call("float16 rows with eps = 0.25", draw(52, 3, 8, dtype=_HALF), 0.25, names=("x", "eps"), tolerance=2e-3),
    call("float16 rows of spread 7e-5 with eps = 0", _TINY, eps=0.0, tolerance=2e-3, gradient=False),
    call("float32 rows of spread 0.001", 1e-3 * draw(53, 3, 8, dtype=torch.float32), tolerance=1e-5),
    call("float32 rows with offset 4096 and 8192", _counting(4096, 8192), tolerance=1e-3),
]

_STILL = "part of the arithmetic is still in x's dtype, or rounded back to it before the root: there eps becomes 0. Convert x first, and back in the last step only."
_TRAVELS = "a larger eps stops the nan and changes the function: eps belongs to the weights. Keep it, and compute in float32, where 1e-8 is not 0."
_SCALED = "the row is scaled before eps is added, so that eps weighs another share: the function has changed. Convert x to float32 instead."
_EPS_ONLY = "eps is float32 now, but the variance is still taken in x's dtype. Convert x first."
_HIDES = "nan_to_num hides the nan; rows with little or much spread are still wrong. Compute in float32."
_ROUNDED = "the variance is computed in float32 and rounded back to x's dtype before the root. Stay in float32 up to the last step."
_MEAN = (
    "the mean is still taken (and rounded) in x's dtype: around 50 bfloat16 moves in steps of 0.25. Convert x first."
)
_OUTSIDE = "eps is added to the deviation. Add it to the variance, under the root."

_IN_HALF = "x.float() -> x"
_SQUARED = "wide.var(-1, correction=0, keepdim=True) -> (wide - mean).square().mean(-1, keepdim=True)"
_HALF_MEAN = "(wide - mean) -> (x - x.mean(-1, keepdim=True))"
_HALF_MISTAKES = known(
    _half,
    {
        _IN_HALF: _STILL,
        f"{_IN_HALF} ; {_SQUARED}": _STILL,
        **{
            f"{_IN_HALF} ; var + eps -> var + {larger}": _TRAVELS
            for larger in (
                "max(eps, 1e-5)",
                "1e-5",
                "(eps + 1e-5)",
                "max(eps, 1e-6)",
                "max(eps, 2**-24)",
                "max(eps, torch.finfo(x.dtype).eps)",
                "max(eps, torch.finfo(x.dtype).tiny)",
            )
        },
        "var + eps -> var + max(eps, 1e-5)": _TRAVELS,
        "var + eps -> var + 1e-5": "the arithmetic is mended, but eps is replaced by 1e-5. Pass the argument eps on: it belongs to the weights.",
        "var + eps -> var + (eps or 1e-8)": "an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. Use the argument as it is.",
        "x.float() -> x / x.abs().amax(-1, keepdim=True)": _SCALED,
        "x.float() -> x * 1024": _SCALED,
        "x.float() -> x * 1000": _SCALED,
        f"{_IN_HALF} ; var + eps -> var + torch.tensor([eps])": _EPS_ONLY,
        f"{_IN_HALF} ; {_SQUARED} ; var + eps -> var + torch.tensor([eps])": _EPS_ONLY,
        "torch.sqrt(var + eps) -> (wide.std(-1, keepdim=True) + eps)": "eps is added to the deviation, and the variance is divided by D - 1: eps under the root, correction=0.",
        "(wide - mean) -> (wide - mean).to(x.dtype) ; torch.sqrt(var + eps) -> torch.sqrt(var + eps).to(x.dtype)": "x - mean is rounded back to x's dtype, and the root too. Stay in float32 up to the last step.",
        "var + eps -> var + 1e-8": "the number 1e-8 is written into the formula. Use the argument eps.",
        "eps=1e-8 -> eps=1e-5": "the default of eps has become 1e-5. Leave it at 1e-8, with which the weights were trained.",
        f"{_IN_HALF} ; .to(x.dtype) -> .nan_to_num()": _HIDES,
        f"{_IN_HALF} ; .to(x.dtype) -> .nan_to_num(0.0, 0.0, 0.0)": _HIDES,
        "var + eps -> var.to(x.dtype).float() + eps": _ROUNDED,
        _HALF_MEAN: _MEAN,
        "x.float() -> (x - x.mean(-1, keepdim=True)).float() ; (wide - mean) -> wide ; wide.var(-1, correction=0, keepdim=True) -> wide.square().mean(-1, keepdim=True)": _MEAN,
        "x.float() -> x.to(torch.bfloat16)": "bfloat16 does not overflow here, but it has only 3 digits. Compute in float32.",
        "wide.var(-1, correction=0, keepdim=True) -> wide.square().mean(-1, keepdim=True) - mean**2": "E[x^2] - E[x]^2 loses digits in float32 as well. Subtract the mean, then square.",
        "correction=0 -> correction=1": "the variance is divided by D - 1. Say correction=0.",
        "torch.sqrt(var + eps) -> (var.sqrt() + eps)": _OUTSIDE,
        "torch.sqrt(var + eps) -> (wide.std(-1, correction=0, keepdim=True) + eps)": _OUTSIDE,
        "var + eps -> var.detach() + eps": "the values are right, but the variance is cut off from the gradient: leave .detach() away.",
    },
)
_HALF_REFERENCE = in_float64(lambda x, eps=1e-8: _normalize(x, eps))  # _half itself would leave float64


def normalize_half(answer):
    """Check a LayerNorm for float16, bfloat16 and float32 rows that computes in at least float32 (lesson 3)."""
    tried = "float16, bfloat16 and float32, spreads from 0 to 600, large entries, four values of eps, gradients"
    examine(answer, "normalize_half", _HALF_PROBES, _HALF_REFERENCE, _HALF_MISTAKES, tried)

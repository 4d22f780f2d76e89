"""Checks of lesson 3: eps under the root, reading eps off a layer, a variance that survives an offset, half precision."""

import math

import torch
from torch.nn import functional as F

from lessonkit.check.core import (
    Mistake,
    NotYet,
    Probe,
    call,
    draw,
    examine,
    in_float64,
    observe,
    raised,
    reject,
    values,
)


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def _moments(x, axis=-1, correction=0):
    return x.mean(axis, keepdim=True), x.var(axis, correction=correction, keepdim=True)


def _centered(x):
    return x - x.mean(-1, keepdim=True)


def _over(rule, axis=-1, correction=0, eps_default=1e-5):
    """(x - mean) / rule(variance, eps), with the statistics of one axis."""

    def normalize(x, eps=eps_default):
        at = min(axis, x.dim() - 1) if axis is not None else None
        mean, var = _moments(x, at, correction)
        return (x - mean) / rule(var, eps)

    return normalize


def _under_the_root(var, eps):
    return torch.sqrt(var + eps)


_normalize = _over(_under_the_root)

# ------------------------------------------------------------------------------------------------------ normalize

_PROBES = [
    call("rows of spread 0.001", 1e-3 * draw(32, 2, 3, 5)),  # first: here eps shows in the message
    call("rows of random numbers", 1 + 2 * draw(31, 3, 6)),
    call("a row of spread 1e-5", 1e-5 * draw(33, 7)),
    call("a row without spread", _rows([3.0] * 8, [1, 2, 3, 4, 5, 6, 7, 8])),  # exact in binary: x - mean is 0
    call("eps = 0.25", draw(34, 4, 3), 0.25, names=("x", "eps")),
    call("eps = 1e-12 on rows of spread 1e-4", 1e-4 * draw(35, 2, 5), eps=1e-12),
    call(
        "a row with one large entry", torch.eye(32, dtype=torch.float64)[:2]
    ),  # comes out at sqrt(31): no clamp survives
    call("float32 rows", draw(36, 3, 16, dtype=torch.float32), tolerance=1e-5),
    # Exact in float32, and so are its mean and centered squares; the difference of squares is 2.0 and 0.0, not 1.25.
    # PyTorch's own gradient at such offsets is right to about 1e-4.
    call(
        "float32 rows with offset 4096 and 8192",
        _rows([4096, 4097, 4098, 4099], [8192, 8193, 8194, 8195], dtype=torch.float32),
        tolerance=1e-3,
    ),
]


def _one_pass(x):
    mean = x.mean(-1, keepdim=True)
    return (x * x).mean(-1, keepdim=True) - mean * mean


def _detached(x, eps=1e-5):
    mean, var = _moments(x)
    return (x - mean.detach()) / torch.sqrt(var.detach() + eps)


def _without_keepdim(x, eps=1e-5):
    return (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + eps)


_ADDED = (
    "eps is added to the deviation. Add it to the variance, under the root: a row of spread 0.001 comes out "
    "3.3 times too large."
)
_NO_EPS = "eps is not used, and 0/0 is nan. Add it to the variance, under the root."

_MISTAKES = [
    Mistake(_ADDED, _over(lambda var, eps: var.sqrt() + eps)),
    Mistake(_ADDED, lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps)),
    *[
        Mistake(
            "the variance is divided by D - 1, and eps is added to the deviation: correction=0, and eps under the root.",
            f,
        )
        for f in (
            _over(lambda var, eps: var.sqrt() + eps, correction=1),
            lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps),
        )
    ],
    Mistake(
        "the variance is divided by D - 1. Say correction=0, or take mean_and_var of lesson 2.",
        _over(_under_the_root, correction=1),
    ),
    *[
        Mistake(_NO_EPS, f)
        for f in (
            _over(lambda var, eps: var.sqrt()),
            lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / x.std(-1, correction=0, keepdim=True),
        )
    ],
    *[
        Mistake(_NO_EPS + " And the variance is divided by D - 1: correction=0.", f)
        for f in (
            _over(lambda var, eps: var.sqrt(), correction=1),
            lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        )
    ],
    Mistake(
        "that is eps squared: the variance is sigma squared already, and eps is added to it as it is.",
        _over(lambda var, eps: torch.sqrt(var + eps * eps)),
    ),
    Mistake("the root is missing: divide by the root of (variance + eps).", _over(lambda var, eps: var + eps)),
    Mistake(
        "divide by the root of (variance + eps), do not multiply.",
        lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) * torch.sqrt(_moments(x)[1] + eps),
    ),
    Mistake(
        "eps is used as the smallest deviation allowed. Add it to the variance, under the root.",
        _over(lambda var, eps: var.sqrt().clamp(min=eps)),
    ),
    Mistake(
        "eps is used as the smallest variance allowed. Add it to the variance, under the root.",
        _over(lambda var, eps: var.clamp(min=eps).sqrt()),
    ),
    Mistake(
        "the number 1e-5 is written into the formula. Use the argument eps.", lambda x, eps=1e-5: _normalize(x, 1e-5)
    ),
    *[
        Mistake(
            f"the default of eps is {default:g}. Leave it as it was given, eps=1e-5.",
            _over(_under_the_root, eps_default=default),
        )
        for default in (1e-3, 1e-6, 1e-8, 1e-12, 0.0)
    ],
    Mistake(
        "you reduce the first axis, across the samples. LayerNorm reduces the last one, -1.", _over(_under_the_root, 0)
    ),
    Mistake(
        "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.",
        _over(_under_the_root, 1),
    ),
    Mistake(
        "one mean for the whole tensor. Every row needs its own: reduce axis -1.",
        lambda x, eps=1e-5: (x - x.mean()) / torch.sqrt(x.var(correction=0) + eps),
    ),
    *[
        Mistake("the mean is not subtracted.", f)
        for f in (
            lambda x, eps=1e-5: x / torch.sqrt(_moments(x)[1] + eps),
            lambda x, eps=1e-5: x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps),
        )
    ],
    Mistake(
        "the sign is turned: x - mean, not mean - x.",
        lambda x, eps=1e-5: (_moments(x)[0] - x) / torch.sqrt(_moments(x)[1] + eps),
    ),
    *[
        Mistake("the squared distances are summed. The variance is their mean: divide by D.", f)
        for f in (
            lambda x, eps=1e-5: _centered(x) / torch.sqrt(_centered(x).square().sum(-1, keepdim=True) + eps),
            lambda x, eps=1e-5: F.normalize(_centered(x), dim=-1, eps=eps),
        )
    ],
    Mistake(
        "the root of eps is added to the deviation. Add eps itself to the variance, and take the root of the sum.",
        _over(lambda var, eps: var.sqrt() + eps**0.5),
    ),
    Mistake(
        "eps is added twice. Once is enough: to the variance, under the root.",
        _over(lambda var, eps: torch.sqrt(var + eps) + eps),
    ),
    *[
        Mistake("under the root stands the deviation. The variance belongs there: std is its root already.", f)
        for f in (
            _over(lambda var, eps: torch.sqrt(var.sqrt() + eps)),
            lambda x, eps=1e-5: _centered(x) / torch.sqrt(x.std(-1, correction=0, keepdim=True) + eps),
        )
    ],
    Mistake(
        "mean and var are swapped: mean_and_var returns the mean first.",
        lambda x, eps=1e-5: (x - _moments(x)[1]) / torch.sqrt(_moments(x)[0] + eps),
    ),
    Mistake(
        "eps is added to the numerator. Add it to the variance, under the root.",
        lambda x, eps=1e-5: (_centered(x) + eps) / _moments(x)[1].sqrt(),
    ),
    Mistake(
        "all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence: reduce axis -1 only.",
        lambda x, eps=1e-5: F.layer_norm(x, x.shape[1:] or x.shape, eps=eps),
    ),
    Mistake(
        "the row is centered, but not divided by the root of (variance + eps).",
        lambda x, eps=1e-5: x - x.mean(-1, keepdim=True),
    ),
    Mistake(
        "under the root stands the mean of the squares. The variance is the mean of the squared distances from the mean.",
        lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.square().mean(-1, keepdim=True) + eps),
    ),
    Mistake(
        "E[x^2] - E[x]^2 loses all digits when the mean is large beside the spread (section 3.6). Subtract the mean, then square.",
        lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(_one_pass(x) + eps),
    ),
    Mistake(
        "nan_to_num hides 0/0 and leaves the other rows without eps. Add eps to the variance, under the root.",
        lambda x, eps=1e-5: _normalize(x, 0.0).nan_to_num(),
    ),
    Mistake(
        "brackets are missing: (x - mean) / ..., not x - mean / ....",
        lambda x, eps=1e-5: x - _moments(x)[0] / torch.sqrt(_moments(x)[1] + eps),
    ),
    Mistake(
        "eps is added to the numerator as well. It belongs to the variance, under the root, only.",
        lambda x, eps=1e-5: (x - _moments(x)[0] + eps) / torch.sqrt(_moments(x)[1] + eps),
    ),
    Mistake("the reduced axis is gone, so that x - mean cannot line up. Say keepdim=True in both.", _without_keepdim),
    Mistake(
        "the values are right, but mean and variance are cut off from the gradient: leave .detach() and no_grad() away.",
        _detached,
    ),
]


def normalize(answer):
    """Check a function x (..., D), eps=1e-5 -> (x - mean) / sqrt(var + eps) over the last axis (lesson 3)."""
    examine(
        answer,
        "normalize",
        _PROBES,
        in_float64(_normalize),
        _MISTAKES,
        tried="spreads from 2 to 0, three values of eps, offsets, gradients",
    )


# ---------------------------------------------------------------------------------------------------- eps_numbers


def eps_numbers(answer):
    """Check what eps does to variance, gradient and largest value, as a dictionary of five numbers (lesson 3)."""
    expected = {"a": 0.5, "b": 0.9, "c": 0.0, "d": 100.0, "e": 4.0}
    not_one = "The variance of the output is v / (v + eps): 1 only if eps is negligible beside v."
    deviation = "That is the deviation of the output. Asked is the variance, its square."
    other_eps = "That is the bound for eps = 1e-5. Here eps is 1e-4."
    root_of_d = "The squares sum to at most D, but the other entries need a share of it: D - 1 under the root."
    values(
        answer,
        "eps_numbers",
        expected,
        [
            ("a", 1.0, not_one),
            ("b", 1.0, not_one),
            ("a", 0.7071, deviation),
            ("b", 0.9487, deviation),
            ("a", 2.0, "Upside down: v / (v + eps)."),
            ("b", 0.1, "That is eps / (v + eps), the share that is lost."),
            ("c", 1.0, "A constant row minus its mean is zero: there is nothing to divide."),
            ("c", 0.5, "v = 0: put it into v / (v + eps)."),
            ("d", 1e4, "The root is missing: 1 / sqrt(v + eps)."),
            ("d", 316.23, other_eps),
            ("d", 316.2, other_eps),
            ("d", 316.0, other_eps),
            ("d", 320.0, other_eps),
            ("b", 10 / 9, "Upside down: v / (v + eps)."),
            ("d", 1e5, "That is 1 / 1e-5: another eps, and the root is missing."),
            ("d", 10.0, "One root too many: 1 / sqrt(eps), and the root of 1e-4 is 1e-2."),
            ("d", 0.01, "Upside down: 1 / sqrt(v + eps)."),
            ("e", math.sqrt(17), root_of_d),
            ("e", 4.1, root_of_d),
            ("e", 16.0, "The root is missing: the square of the entry is at most D - 1."),
            ("e", 17.0, "The squares of all D entries sum to D. One entry alone, and its root?"),
        ],
        tolerance=6e-3,
    )


# ------------------------------------------------------------------------------------------------------- find_eps

_LAYERS = [1e-3, 1e-5, 4e-6, 1e-8, 1e-12]
_FOUND = "your answer divided by the true eps"


def _layer(eps, fed=None):
    """A LayerNorm without gain and bias; it notes what it is fed."""

    def layer(x):
        if fed is not None:
            fed.append(x.detach())
        return F.layer_norm(x, x.shape[-1:], eps=eps)

    return layer


def _read_eps(layer):
    row = 1e-8 * _rows([-3, -1, 1, 3])
    v = row.var(correction=0)
    return v / layer(row).var(correction=0) - v


def _find(answer, eps, fed=None):
    """Return the float that answer finds, or what it did instead."""
    try:
        found = answer(_layer(eps, fed))
    except Exception as error:
        return raised(error)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        found = found.item()
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else found


def find_eps(answer):
    """Check a function layer -> its eps, where layer maps (..., D) to (x - mean) / sqrt(var + eps) (lesson 3)."""

    def probe(eps):
        def run(answer):
            found = _find(answer, eps)
            return {_FOUND: torch.tensor(found / eps, dtype=torch.float64) if isinstance(found, float) else found}

        return Probe(f"a layer with eps = {eps:g}", run, tolerance=0.01)  # one percent: enough to tell any two apart

    if callable(answer):
        first = observe(probe(_LAYERS[0]), answer)[_FOUND]
        if (
            isinstance(first, torch.Tensor)
            and first.numel() != 1
            or not isinstance(first, torch.Tensor)
            and not hasattr(first, "kind")
        ):
            what = "nothing (None)" if first is None else f"a {type(first).__name__}"
            reject(
                f"find_eps returned {what}, expected one number, the eps of the layer.",
                "Is the return missing at the end?" if first is None else None,
            )
    try:
        examine(answer, "find_eps", [probe(eps) for eps in _LAYERS], _read_eps, tried="eps from 1e-3 to 1e-12")
    except NotYet as wrong:
        said, _, cause = str(wrong).removeprefix("Not yet. ").partition("\n")
        reject(said.rstrip(), _why(answer) or cause)


def _why(answer):
    """Say in plain words why find_eps failed, from what was fed and what came back."""
    found = []
    for eps in _LAYERS:
        fed = []
        seen = observe(Probe("", lambda a, eps=eps, fed=fed: {"found": _find(a, eps, fed)}), answer)["found"]
        if not isinstance(seen, float):
            return None
        if not fed:
            return (
                "The same number comes out for every layer: feed the layer a row and look at what it makes of it."
                if len(set(found + [seen])) == 1
                else None
            )
        found.append(seen)
        if abs(seen / eps - 1) <= 0.01:
            continue
        return _why_one(seen, eps, fed[-1])
    return None


def _why_one(found, eps, row):
    v = row.double().var(-1, correction=0).mean().item()
    out = v / (v + eps)
    near = lambda value: abs(found - value) <= 0.01 * abs(value)  # noqa: E731
    if v == 0 and not math.isfinite(found):
        return "You fed a constant row: it comes out as zeros for every eps. Feed a row with a little spread."
    for value, why in [
        (math.sqrt(eps), "That is the root of eps. Compare variances, not deviations."),
        (1 / math.sqrt(eps), "That is the slope 1/sqrt(eps). Turn it upside down and square it."),
        (1 / eps, "That is upside down: variance in / variance out = v + eps."),
        (-eps, "The sign is wrong: variance in / variance out = v + eps, so subtract v from it."),
        (out, "That is the variance of the output, v / (v + eps). Solve it for eps."),
        (v, "That is the variance of the row that you fed. Compare it with that of the output."),
    ]:
        if near(value):
            return why
    if v > 1e-3 * eps and near(v + eps):
        return "That is v + eps: subtract the variance v of the row that you fed."
    if v > 1e4 * eps:
        digits = 7 if row.dtype == torch.float32 else 16 if row.dtype == torch.float64 else 3
        return (
            f"The variance of your row is {v:.2g}, {v / eps:.0e} times eps, and {str(row.dtype).removeprefix('torch.')} "
            f"holds {digits} digits: eps drowns in it. Feed a row with far less spread."
        )
    return "Variance in / variance out = v + eps, with the biased variance v of the row that you fed."


# ------------------------------------------------------------------------------------------------ stable_variance


def _two_passes(x):
    centered = x - x.mean(-1, keepdim=True)
    return (centered * centered).mean(-1, keepdim=True)


def _welford(x, same_mean=False, divide=True):
    mean, m2 = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean
        mean = mean + delta / n
        m2 = m2 + delta * (delta if same_mean else entry - mean)
    return m2 / x.shape[-1] if divide else m2


_OFFSETS = torch.tensor([1e4, -3e3, 2.0, 0.0], dtype=torch.float64).unsqueeze(-1)

_VARIANCE_PROBES = [
    call("rows of random numbers", 3 * draw(41, 2, 3, 5) - 1),
    call("rows with different offsets", _OFFSETS / 100 + draw(42, 4, 6)),
    # Exact in float32, like their mean and centered squares; E[x^2] - E[x]^2 gives 1.25, 2.0, 0.0.
    call(
        "the rows 0, 1, 2, 3 plus 0, 4096, 8192",
        _rows([0, 1, 2, 3], [4096, 4097, 4098, 4099], [8192, 8193, 8194, 8195], dtype=torch.float32),
        tolerance=1e-4,
    ),  # Welford's gradient is off by 1e-5
    call("a float32 row without spread, offset 10000", _rows([10000] * 8, dtype=torch.float32), tolerance=1e-6),
    # Welford's chain, the least exact of the right ways, is off by 1e-3 of the variance here; E[x^2] - E[x]^2 by 10.
    call("float32 rows of spread 1 with offsets up to 10000", (_OFFSETS + draw(43, 4, 96)).float(), tolerance=5e-3),
    call(
        "float32 rows of spread 0.01 around 100", (100 + 0.01 * draw(44, 5, 32)).float(), tolerance=2e-6
    ),  # 2 % of 1e-4
]

_VARIANCE_MISTAKES = [
    Mistake(
        "E[x^2] - E[x]^2 is the difference of two numbers near 1e8, which float32 holds to 8. Make the numbers small before you square.",
        _one_pass,
    ),
    *[
        Mistake(
            "a clamp (or abs) hides that E[x^2] - E[x]^2 has lost its digits; it does not bring them back. Make the numbers small before you square.",
            f,
        )
        for f in (lambda x: _one_pass(x).clamp(min=0), lambda x: _one_pass(x).abs(), lambda x: _one_pass(x).relu())
    ],
    Mistake(
        "one offset is subtracted from all rows, and every row has its own: reduce axis -1 only.",
        lambda x: _one_pass(x - x.mean()),
    ),
    Mistake(
        "one mean is subtracted from all rows, and every row has its own: reduce axis -1 only.",
        lambda x: (x - x.mean()).square().mean(-1, keepdim=True),
    ),
    *[
        Mistake(
            "the second term is missing: after a shift by an entry the mean is not 0, and its square must be subtracted.",
            f,
        )
        for f in (
            lambda x: (x - x[..., :1]).square().mean(-1, keepdim=True),
            lambda x: (x - x[..., -1:]).square().mean(-1, keepdim=True),
        )
    ],
    Mistake("divided by D - 1. The biased variance divides by D (correction=0).", lambda x: x.var(-1, keepdim=True)),
    *[
        Mistake(
            "E[x^2] - E[x]^2 is the difference of two large numbers that are nearly equal. Make the numbers small before you square.",
            f,
        )
        for f in (
            lambda x: (x * x).sum(-1, keepdim=True) / x.shape[-1] - (x.sum(-1, keepdim=True) / x.shape[-1]) ** 2,
            lambda x: ((x * x).sum(-1, keepdim=True) - x.sum(-1, keepdim=True) ** 2 / x.shape[-1]) / x.shape[-1],
        )
    ],
    *[
        Mistake("the squares are rounded before they become float64. Convert x first, and back in the last step.", f)
        for f in (
            lambda x: ((x * x).mean(-1, keepdim=True).double() - x.mean(-1, keepdim=True).double() ** 2).to(x.dtype),
            lambda x: ((x * x).double().mean(-1, keepdim=True) - x.double().mean(-1, keepdim=True) ** 2).to(x.dtype),
        )
    ],
    *[
        Mistake(
            "a fixed number is subtracted, and other rows have other offsets. Subtract something of the row itself.", f
        )
        for f in (lambda x: _one_pass(x - 1e4), lambda x: _one_pass(x - 10000))
    ],
    *[
        Mistake(
            "one entry is subtracted from several rows, and every row has its own offset: x[..., :1] is the first entry of each.",
            f,
        )
        for f in (
            lambda x: _one_pass(x - x[:1]),
            lambda x: _one_pass(x - x[0]),
            lambda x: _one_pass(x - x.flatten()[0]),
        )
    ],
    Mistake(
        "x[..., 0] has lost the last axis and does not broadcast. x[..., :1] keeps it.",
        lambda x: _one_pass(x - x[..., 0]),
    ),
    Mistake(
        "the second term is the square of the mean of the shifted row, not of x.",
        lambda x: (x - x[..., :1]).square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2,
    ),
    Mistake(
        "the second term is not squared.",
        lambda x: (x - x[..., :1]).square().mean(-1, keepdim=True) - (x - x[..., :1]).mean(-1, keepdim=True),
    ),
    Mistake(
        "the second term is subtracted, not added.",
        lambda x: (x - x[..., :1]).square().mean(-1, keepdim=True) + (x - x[..., :1]).mean(-1, keepdim=True) ** 2,
    ),
    Mistake(
        "dividing a row makes the mean smaller, and the spread with it. Subtract instead.",
        lambda x: _one_pass(x / x.abs().amax(-1, keepdim=True)) * x.abs().amax(-1, keepdim=True) ** 2,
    ),
    Mistake(
        "the mean takes one factor only: (x - mean) * x. It meets the rounding error of the mean with the whole offset. Square x - mean.",
        lambda x: ((x - x.mean(-1, keepdim=True)) * x).mean(-1, keepdim=True),
    ),
    Mistake("eps has no place in the variance itself. Leave it away.", lambda x: _two_passes(x) + 1e-5),
    Mistake("Welford's product is (entry - old mean) times (entry - new mean).", lambda x: _welford(x, same_mean=True)),
    *[
        Mistake("that is the sum of the squared distances. Divide it by D.", f)
        for f in (
            lambda x: _welford(x, divide=False),
            lambda x: (x - x.mean(-1, keepdim=True)).square().sum(-1, keepdim=True),
        )
    ],
    Mistake("that is the deviation. Leave the root away.", lambda x: _two_passes(x).sqrt()),
    Mistake(
        "that is the mean of the squares. Subtract something near the mean before you square.",
        lambda x: x.square().mean(-1, keepdim=True),
    ),
    Mistake(
        "that is the mean distance, not squared.", lambda x: (x - x.mean(-1, keepdim=True)).abs().mean(-1, keepdim=True)
    ),
    *[
        Mistake("the reduced axis is gone. Say keepdim=True: the result is (..., 1).", f)
        for f in (lambda x: _two_passes(x).squeeze(-1), lambda x: _one_pass(x).squeeze(-1))
    ],
    Mistake(
        "you reduce the first axis, across the rows. Every row has its own variance: axis -1.",
        lambda x: x.var(0, correction=0, keepdim=True),
    ),
]


def stable_variance(answer):
    """Check a function x (..., D) -> biased variance (..., 1) that survives an offset of 1e4 in float32 (lesson 3)."""
    examine(
        answer,
        "stable_variance",
        _VARIANCE_PROBES,
        in_float64(_two_passes),
        _VARIANCE_MISTAKES,
        tried="float32 rows with offsets to 10000, rows without spread, gradients",
    )


# ------------------------------------------------------------------------------------------------- half precision


def half_diagnosis(answer):
    """Check which rounding breaks each of three float16 rows: eps, underflow or overflow (lesson 3)."""
    values(
        answer,
        "half_diagnosis",
        {"zeros": "eps", "tiny": "underflow", "large": "overflow"},
        [
            (
                "zeros",
                "underflow",
                "The variance of a row of zeros is 0 in every format. What should have stood beside it?",
            ),
            ("zeros", "overflow", "Nothing is large in a row of zeros."),
            (
                "tiny",
                "eps",
                "eps is lost here too, but even without it this row has a variance, 4.7e-9. What does float16 make of it?",
            ),
            ("tiny", "overflow", "inf came out. Ask what it was divided by."),
            ("large", "eps", "With a variance this large eps never matters."),
            ("large", "underflow", "Zeros came out. Its variance is 327,680: does float16 go so far?"),
        ],
    )


_HALF, _BRAIN = torch.float16, torch.bfloat16
_QUARTERS = [50 + 0.25 * i for i in (0, 1, 2, 3, 4, 5, 6, 8)]  # exact in bfloat16, their mean 50.90625 is not

_HALF_PROBES = [
    # 2e-3 is one step of float16 at 2. Tiny rows first: there a larger eps shows in the values.
    call("float16 rows of spread 7e-5", 2**-15 * _rows([-3, -1, 1, 3], [5, 0, -4, -1], dtype=_HALF), tolerance=2e-3),
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
    call(
        "a bfloat16 row of zeros", _rows([0.0] * 8, dtype=_BRAIN), tolerance=1e-2
    ),  # 1e-2: a step of bfloat16 is 1.6e-2 at 2
    # F.layer_norm is a right answer, but on this row its gradient is off by 3 % (the mean it saves is bfloat16): values only.
    call("a bfloat16 row around 50", _rows(_QUARTERS, dtype=_BRAIN), tolerance=1e-2, gradient=False),
    call("a float16 row of zeros with BERT's eps = 1e-12", _rows([0.0] * 8, dtype=_HALF), eps=1e-12, gradient=False),
    call("float16 rows with eps = 0.25", draw(52, 3, 8, dtype=_HALF), 0.25, names=("x", "eps"), tolerance=2e-3),
    call("float32 rows of spread 0.001", 1e-3 * draw(53, 3, 8, dtype=torch.float32), tolerance=1e-5),
    call(
        "float32 rows with offset 4096",
        _rows([4096, 4097, 4098, 4099], [4096, 4099, 4100, 4105], dtype=torch.float32),
        tolerance=1e-3,
    ),
]

_broken = _over(_under_the_root, eps_default=1e-8)


def _wide(function, kind=torch.float32):
    """function computed in another dtype: x goes in as kind, the result comes back in x's dtype."""

    def normalize_half(x, eps=1e-8):
        return function(x.to(kind), eps).to(x.dtype)

    return normalize_half


def _variance_rounded(x, eps=1e-8):
    wide = x.float()
    var = _moments(wide)[1].to(x.dtype)
    return ((wide - _moments(wide)[0]) / torch.sqrt(var.float() + eps)).to(x.dtype)


def _variance_rounded_and_kept(x, eps=1e-8):
    var = _moments(x.float())[1].to(x.dtype)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(var + eps)


def _sum_rounded(x, eps=1e-8):
    inside = (_moments(x.float())[1] + eps).to(x.dtype)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(inside)


def _root_in_float32(x, eps=1e-8):
    return ((x - x.mean(-1, keepdim=True)) / torch.sqrt(_moments(x.float())[1] + eps)).to(x.dtype)


def _centered_in_half(x, eps=1e-8):
    centered = (x - x.mean(-1, keepdim=True)).float()
    return (centered / torch.sqrt(centered.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


_TRAVELS = (
    "a larger eps stops the nan and changes the function: eps belongs to the weights. Keep it, and compute in float32, "
    "where 1e-8 is not 0."
)
_ROUNDED = (
    "the variance is computed in float32 and rounded back to x's dtype before the root. Stay in float32 up to the "
    "last step."
)
_STILL = (
    "part of the arithmetic is still in x's dtype, or rounded back to it before the root: there eps becomes 0. Convert x "
    "first, and back in the last step only."
)
_MEAN = (
    "the mean is still taken (and rounded) in x's dtype: around 50 bfloat16 moves in steps of 0.25. Convert x first."
)

_HALF_MISTAKES = [
    *[
        Mistake(_STILL, f)
        for f in (_broken, lambda x, eps=1e-8: (x - x.mean(-1, keepdim=True)) / torch.sqrt(_two_passes(x) + eps))
    ],
    *[
        Mistake(_TRAVELS, f)
        for f in (
            lambda x, eps=1e-8: _broken(x, max(eps, 1e-5)),
            lambda x, eps=1e-8: _broken(x, 1e-5),
            lambda x, eps=1e-8: _broken(x, eps + 1e-5),
            lambda x, eps=1e-8: _broken(x, max(eps, 1e-6)),
            lambda x, eps=1e-8: _broken(x, max(eps, 2**-24)),
            lambda x, eps=1e-8: _broken(x, max(eps, torch.finfo(x.dtype).eps)),
            lambda x, eps=1e-8: _broken(x, max(eps, torch.finfo(x.dtype).tiny)),
            lambda x, eps=1e-8: _wide(_broken)(x, max(eps, 1e-5)),
        )
    ],
    Mistake(
        "the arithmetic is mended, but eps is replaced by 1e-5. Pass the argument eps on: it belongs to the weights.",
        lambda x, eps=1e-8: _wide(_broken)(x, 1e-5),
    ),
    *[
        Mistake(
            "the row is scaled before eps is added, so that eps weighs another share: the function has changed. Convert x to float32 "
            "instead.",
            f,
        )
        for f in (
            lambda x, eps=1e-8: _broken(x / x.abs().amax(-1, keepdim=True), eps),
            lambda x, eps=1e-8: _broken(x * 1024, eps),
            lambda x, eps=1e-8: _broken(x * 1000, eps),
        )
    ],
    Mistake(
        "eps is float32 now, but the variance is still taken in x's dtype. Convert x first.",
        lambda x, eps=1e-8: (
            (x - x.mean(-1, keepdim=True)) / torch.sqrt(_two_passes(x) + torch.tensor(eps).reshape(1))
        ).to(x.dtype),
    ),
    Mistake(
        "eps is added to the deviation, and the variance is divided by D - 1: eps under the root, correction=0.",
        _wide(lambda x, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)),
    ),
    Mistake(
        "x - mean is rounded back to x's dtype, and the root too. Stay in float32 up to the last step.",
        lambda x, eps=1e-8: _centered(x.float()).to(x.dtype) / torch.sqrt(_two_passes(x.float()) + eps).to(x.dtype),
    ),
    Mistake(
        "the number 1e-8 is written into the formula. Use the argument eps.",
        lambda x, eps=1e-8: _wide(_broken)(x, 1e-8),
    ),
    Mistake(
        "the default of eps has become 1e-5. Leave it at 1e-8, with which the weights were trained.",
        lambda x, eps=1e-5: _wide(_broken)(x, eps),
    ),
    *[
        Mistake("nan_to_num hides the nan; rows with little or much spread are still wrong. Compute in float32.", f)
        for f in (
            lambda x, eps=1e-8: _broken(x, eps).nan_to_num(),
            lambda x, eps=1e-8: _broken(x, eps).nan_to_num(0.0, 0.0, 0.0),
        )
    ],
    *[Mistake(_ROUNDED, f) for f in (_variance_rounded, _variance_rounded_and_kept, _sum_rounded)],
    *[Mistake(_MEAN, f) for f in (_root_in_float32, _centered_in_half)],
    Mistake("bfloat16 does not overflow here, but it has only 3 digits. Compute in float32.", _wide(_broken, _BRAIN)),
    Mistake(
        "E[x^2] - E[x]^2 loses digits in float32 as well. Subtract the mean, then square.",
        _wide(lambda x, eps: (x - x.mean(-1, keepdim=True)) / torch.sqrt(_one_pass(x) + eps)),
    ),
    Mistake("the variance is divided by D - 1. Say correction=0.", _wide(_over(_under_the_root, correction=1))),
    *[
        Mistake("eps is added to the deviation. Add it to the variance, under the root.", _wide(f))
        for f in (
            _over(lambda var, eps: var.sqrt() + eps),
            lambda x, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps),
        )
    ],
]


def normalize_half(answer):
    """Check a LayerNorm for float16, bfloat16 and float32 rows that computes in at least float32 (lesson 3)."""
    examine(
        answer,
        "normalize_half",
        _HALF_PROBES,
        in_float64(_broken),
        _HALF_MISTAKES,
        tried="float16, bfloat16 and float32, spreads from 0 to 600, three values of eps, gradients",
    )

"""Checks of lesson 5: softmax, what changes it, temperature, its Jacobian, a pooling layer and its empty sentence."""

import dataclasses
import math

import torch
from torch.nn import functional as F

from lessonkit.check.core import call, draw, examine, in_float64, known, values

INF = math.inf


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def _softmax(x):
    largest = x.amax(-1, keepdim=True)
    e = torch.exp(x - largest)
    return e / e.sum(-1, keepdim=True)


_NARROW, _HALF = torch.float32, torch.float16

_SOFTMAX_PROBES = [
    # 1e-12: float64 rounds at 1e-16, logarithms of rows around 900 cost three digits more
    call("the row 1, 2, 3", torch.tensor([1.0, 2, 3], dtype=torch.float64), tolerance=1e-12),
    call("a matrix", 2 * draw(1, 3, 5), tolerance=1e-12),
    call("a square matrix", 2 * draw(2, 4, 4), tolerance=1e-12),
    call("a batch of sequences", 2 * draw(3, 2, 3, 4), tolerance=1e-12),
    call("two rows far apart", _rows([0, 1, 2], [-900, -899, -897.5]), tolerance=1e-12),
    call("the float32 row 0, 50, 100", _rows([0, 50, 100], dtype=_NARROW), tolerance=1e-6),
    # float32 numbers around 200 lie 1.5e-5 apart: so coarse is a logarithm of the sum
    call("two float32 rows 200 apart", _rows([0, 1, 2], [-200, -199, -197.5], dtype=_NARROW), tolerance=2e-5),
    call("a float32 row with one large entry", _rows([0, -1, 0.5, 1, 200], dtype=_NARROW), tolerance=1e-6),
    call("float32 rows around 200", 200 + draw(4, 3, 4, dtype=_NARROW), tolerance=2e-5),
    # float16 numbers around 40 lie 0.03 apart: a logarithm of the sum is off by up to 0.016, its exponential by 1.6 %
    call("float16 rows around 40", 40 + draw(5, 3, 4, dtype=_HALF), tolerance=2e-2),
    call("a row with a masked entry, -inf", _rows([0.5, -INF, 1, 2.5]), tolerance=1e-12),
    # A share of 1 without rounding, in every way of writing it: here any eps in the sum shows.
    call("rows of one entry", draw(6, 3, 1), tolerance=0.0, gradient=False),
]

_OVERFLOW = "exp overflows: in float32 e^89 is already inf, and inf/inf is nan (far below 0 it is 0/0). Subtract the row's largest entry first."
_KEEP_SUM = "the sum has lost its axis and meets the wrong rows. Say keepdim=True in the sum."
_BATCH = "you reduce the first axis, across the samples. Maximum and sum are over the last axis, -1."
_AXIS_1 = "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor."
_ONE_SUM = "one sum for the whole tensor. Every row has its own: sum over axis -1, keepdim=True."
_EXP = "exp is missing: softmax divides e^x by the sum of e^x."
_SHARES = "the exponentials do not sum to 1 yet. Divide by their sum, over axis -1."
_DIVIDED = "the row is divided by its largest entry: that changes the result. Subtract it."
_SIGN = "the sign is turned: x - max, not max - x."
_LAYERNORM = "that is LayerNorm. Softmax takes exponentials and divides by their sum."
_NORMALIZED = "the row is normalized before the exponentials. That forgets the scale of x, which softmax needs."
_CLAMP = "clamp hides the overflow: entries beyond the limit become equal. Subtract the row's largest entry."
_HIDES = "nan_to_num hides the nan; the row is still wrong. Subtract the row's largest entry."
_EPS_ABOVE = "an eps is added to the exponentials. Leave it away: none of them needs protection, and a masked entry gets the share 0."
_EPS = "an eps in the sum. There is nothing to protect: once the largest is subtracted, the sum is at least 1."

_NAIVE = "x - largest -> x"
_SUM = "e.sum(-1, keepdim=True)"
_RETURN = f"return e / {_SUM}"
_SOFTMAX_MISTAKES = known(
    _softmax,
    {
        _NAIVE: _OVERFLOW,
        "x - largest -> x - 10.0": _OVERFLOW,
        f"{_NAIVE} ; {_SUM} -> e.sum(-1)": _KEEP_SUM,
        f"{_NAIVE} ; {_SUM} -> e.sum()": _ONE_SUM,
        **{f"{_NAIVE} ; -1 -> {axis}": why for axis, why in {"0": _BATCH, "min(1, x.dim() - 1)": _AXIS_1}.items()},
        f"{_SUM} -> e.sum(-1)": _KEEP_SUM,
        ", keepdim=True -> ": _KEEP_SUM,
        "x.amax(-1, keepdim=True) -> x.amax(-1)": "the maximum has lost its axis and meets the wrong rows. Say keepdim=True in the maximum.",
        "-1 -> 0": _BATCH,
        "e.sum(-1 -> e.sum(0": _BATCH,
        "-1 -> min(1, x.dim() - 1)": _AXIS_1,
        "-1 -> 1": _AXIS_1,  # raises on a single row
        "e.sum(-1 -> e.sum(1": _AXIS_1,
        "x.amax -> x.max": "x.max(-1, ...) returns a pair, the entries and their places. Take its .values, or x.amax.",
        "-1 -> (0 if x.dim() in (1, 3) else 1)": "dim is left out, so F.softmax picks the axis itself: 0 if a tensor has three axes. Say dim=-1.",
        f"x - largest -> x.double() ; {_RETURN} -> return (e / {_SUM}).to(x.dtype)": "exp overflows in float64 too, only later: above 709, and far below 0 the row is 0/0. Subtract the row's largest entry first.",
        "x.amax -> x.abs().amax": "the largest absolute value is subtracted. In a row far below 0 that makes it worse: 0/0. Subtract the largest entry.",
        "torch.exp(x - largest) -> torch.exp(x) - torch.exp(x).amax(-1, keepdim=True)": "the largest is subtracted after exp, which changes the shares and comes too late. Subtract it from x.",
        "return e / -> return x.exp() / ": "the largest entry is subtracted below the line only. Use the same e^(x - max) above it.",
        "torch.exp(x - largest) -> (torch.exp(x) - largest)": "the largest entry is subtracted from e^x. Subtract it from x, before exp.",
        f"{_RETURN} -> return x.exp() / x.exp().sum(-1, keepdim=True) * largest": "the largest entry multiplies the shares. Subtract it from x, before exp.",
        "e.sum -> x.sum": "the sum below is over x. It must be over the exponentials.",
        f"{_SUM} -> (1 + {_SUM})": "there is a 1 too many below the line: softmax divides by the sum of the exponentials alone.",
        "e.sum -> e.mean": "the exponentials are divided by their mean. The shares must sum to 1, not to D: divide by the sum.",
        "e.sum(-1 -> e.norm(dim=-1": "the exponentials are divided by their length (the root of the sum of squares). Divide by their sum.",
        f"{_RETURN} -> return F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype)": "that is argmax: 1 for the largest, 0 for the others. Softmax gives every entry its share.",
        f"{_SUM} -> e.sum()": _ONE_SUM,
        f"{_SUM} -> e.sum() ; x.amax(-1, keepdim=True) -> x.max()": _ONE_SUM,
        "x.amax(-1, keepdim=True) -> x.max()": "the largest entry of the whole tensor is subtracted. A row far below it becomes 0/0: subtract the largest of its own row.",
        "x.amax(-1 -> x.amax(0": "the largest of each column is subtracted. That shifts the entries of one row differently: axis -1.",
        "x.amax -> x.mean": "the mean is subtracted. That is a shift too, but the largest entry can still be far above it: e^160 is inf.",
        "x.amax -> x.amin": "the smallest entry is subtracted, which leaves only exponents above 0: they overflow. Subtract the largest.",
        "e.sum -> x.exp().sum": "the largest entry is subtracted above the line only. Use the same e^(x - max) in the sum.",
        f"{_RETURN} -> return F.log_softmax(x, -1)": "that is the logarithm of softmax. Return its exponential.",
        "torch.exp(x - largest) -> x": _EXP,
        "torch.exp(x - largest) -> x - largest": _EXP,
        f"{_RETURN} -> return e": _SHARES,
        f"{_RETURN} -> return e ; {_NAIVE}": _SHARES,
        "x - largest -> x / largest": _DIVIDED,
        "torch.exp(x - largest) -> F.softmax(x / largest, -1)": _DIVIDED,
        "x - largest -> largest - x": _SIGN,
        "torch.exp(x - largest) -> F.softmax(-x, -1)": _SIGN,
        "torch.exp(x - largest) -> 2 ** (x - largest)": "powers of base 2. Softmax takes powers of e: torch.exp.",
        "x - largest -> (x - largest) / x.shape[-1] ** 0.5": "x is divided by sqrt(D) first. Attention does that to its scores; it is a temperature, no part of softmax.",
        f"{_RETURN} -> return torch.sigmoid(x)": "sigmoid looks at one entry at a time. Softmax compares the entries of a row.",
        f"{_RETURN} -> return F.layer_norm(x, x.shape[-1:])": _LAYERNORM,
        f"{_RETURN} -> return F.layer_norm(x, x.shape[-1:], eps=0.0)": _LAYERNORM,
        "torch.exp(x - largest) -> F.softmax(F.layer_norm(x, x.shape[-1:]), -1)": _NORMALIZED,
        **{
            f"torch.exp(x - largest) -> F.softmax((x - x.mean(-1, keepdim=True)) / x.std(-1, {k}keepdim=True), -1)": _NORMALIZED
            for k in ("", "correction=0, ")
        },
        **{f"x - largest -> x.clamp(-{n}, {n})": _CLAMP for n in (50, 80, 88, 100)},
        **{f"x - largest -> x.clamp(max={n})": _CLAMP for n in (50, 80, 88)},
        **{f"{_NAIVE} ; {_RETURN} -> return (e / {_SUM}).nan_to_num({n})": _HIDES for n in (0.0, 1.0)},
        **{f"{_SUM} -> ({_SUM} + 1e-{digits})": _EPS for digits in range(4, 16)},
        **{f"torch.exp(x - largest) -> torch.exp(x - largest) + 1e-{n}": _EPS_ABOVE for n in (5, 6, 8, 9, 10, 12)},
        f"{_SUM} -> {_SUM}.detach()": "the sum is cut from the gradient. Only the subtracted maximum may be detached, because it changes nothing.",
    },
)


def softmax(answer):
    """Check a function x (..., D) -> softmax over the last axis that never overflows (lesson 5)."""
    tried = "1 to 3 axes, three dtypes, entries from -900 to 200, a mask, gradients"
    own = ("softmax", "log_softmax", "softmin")
    examine(answer, "softmax", _SOFTMAX_PROBES, in_float64(_softmax), _SOFTMAX_MISTAKES, tried, by_hand=own)


def shift_and_scale(answer):
    """Check eight predictions: what a change of x does to softmax and to LayerNorm (lesson 5)."""
    expected = {
        "softmax(x + 3)": "same",
        "softmax(2 * x)": "changed",
        "softmax(-x)": "changed",
        "LN(x + 3)": "same",
        "LN(2 * x)": "same",
        "LN(-x)": "negated",
        "softmax(LN(2 * x))": "same",
        "LN(softmax(2 * x))": "changed",
    }
    power = "Doubling x squares every e^x: the shares e^x / sum are powers of what they were, and the largest grows."
    mean = "The mean moves by 3 with the row; x - mean stays."
    scale = "x - mean doubles, and the deviation doubles too."
    sign = "x - mean turns its sign; the deviation is never negative, so it stays. The output is -LN(x)."
    first = "LN comes first and takes the factor away. Softmax sees the same row as before."
    later = "softmax has turned the factor into other shares before LN sees it. With three or more entries they are no multiple of the old ones, not even shifted."
    causes = [
        ("softmax(x + 3)", "changed", "Every exponential gets the factor e^3, and so does their sum."),
        ("softmax(2 * x)", "same", power),
        ("softmax(-x)", "same", "The largest entry of x is the smallest of -x: their shares trade places."),
        *[(f"softmax({x})", "negated", "Softmax is never negative.") for x in ("x + 3", "2 * x", "-x")],
        ("LN(x + 3)", "changed", mean),
        ("LN(x + 3)", "negated", mean),
        ("LN(2 * x)", "changed", scale),
        ("LN(2 * x)", "negated", scale),
        ("LN(-x)", "same", sign),
        ("LN(-x)", "changed", "That is true, but it can be said better: only the sign of each entry turns."),
        ("softmax(LN(2 * x))", "changed", first),
        ("softmax(LN(2 * x))", "negated", first),
        ("LN(softmax(2 * x))", "same", later),
        ("LN(softmax(2 * x))", "negated", later),
    ]
    values(answer, "shift_and_scale", expected, causes)


def _temperature(gap, odds):
    return gap / math.log(odds)


def _number(probe):
    """The probe, for which a NumPy number or a tensor of one is a plain number."""

    def run(answer):
        seen = probe.run(answer)
        return {what: v.item() if getattr(v, "shape", None) == () else v for what, v in seen.items()}

    return dataclasses.replace(probe, run=run)


_TEMPERATURE_PROBES = [  # 1e-6: a logarithm in float32 is a right answer
    _number(call(f"gap = {gap}, odds = {odds}", gap, odds, names=("gap", "odds"), tolerance=1e-6))
    for gap, odds in ((2.0, 9.0), (1.0, 10.0), (0.5, 3.0), (6.0, 1.5), (1.0, 1000.0))
]

_NATURAL = "softmax is built on e: take the natural logarithm, math.log(odds)."
_RATIO = "odds is the ratio of the two shares itself: take its logarithm, not that of odds + 1 or odds - 1."
_TEMPERATURE_MISTAKES = known(
    _temperature,
    {
        "gap / math.log(odds) -> math.log(odds) / gap": "that is the factor 1/T, which multiplies x. The temperature divides x.",
        "math.log(odds) -> odds": "the logarithm is missing. e^(gap/T) = odds: what is gap/T?",
        "gap / -> gap *": "e^(gap/T) = odds, so gap/T is the logarithm of odds: T divides the gap by it.",
        "math.log -> math.log10": _NATURAL,
        "math.log -> math.log2": _NATURAL,
        "gap / -> gap -": "that is a difference. T divides the gap: gap/T = log(odds).",
        "log(odds) -> log(odds / (1 + odds))": "odds / (1 + odds) is the probability of the larger of two entries. The ratio of the two is odds itself.",
        "gap / -> math.log(gap) /": "no logarithm of the gap: the exponents x/T differ by the gap itself, divided by T.",
        "gap / math.log(odds) -> odds / gap": "upside down, and the logarithm is missing. e^(gap/T) = odds: what is gap/T?",
        "gap / math.log(odds) -> math.log(odds) - gap": "that is a difference. T divides the gap: gap/T = log(odds).",
        "gap / math.log(odds) -> math.exp(gap) / odds": "e^gap is the odds at T = 1. T is inside the exponent: e^(gap/T) = odds.",
        **{
            f"gap / -> {n} * gap /": "there is a factor too many. Only gap/T = log(odds) is to be solved."
            for n in (2, 0.5)
        },
        "math.log -> math.exp": "odds are e to the power of gap/T. To get back to the exponent, take the logarithm of odds, not e^odds.",
        "gap / -> 1 /": "the gap is missing: twice the gap needs twice the temperature.",
        "gap / math -> math": "that is gap/T, the logarithm of odds. Solve for T.",
        "gap / math.log(odds) -> odds / math.log(gap)": "gap and odds have changed places.",
        "log(odds) -> log(odds + 1)": _RATIO,
        "log(odds) -> log(odds - 1)": _RATIO,
        "math.log(odds) -> (odds - 1)": "odds - 1 is no exponent. e^(gap/T) = odds: which function undoes e^?",
        "gap / math.log(odds) -> math.exp(gap / odds)": "that is the odds at T = odds. Here the odds are given: solve e^(gap/T) = odds for T.",
        "gap / -> -gap /": "the sign is turned: a negative temperature would prefer the smaller entry.",
    },
)


def temperature_for(answer):
    """Check a function (gap, odds) -> temperature T at which the larger of two entries gets odds times the share."""
    tried = "gaps from 0.5 to 6, odds from 1.5 to 1000"
    examine(answer, "temperature_for", _TEMPERATURE_PROBES, _temperature, _TEMPERATURE_MISTAKES, tried)


def _jacobian(p):
    products = p[..., :, None] * p[..., None, :]
    return torch.diag_embed(p) - products


def _shares(label, p, tolerance=1e-9):
    """The gradient of the Jacobian itself is not asked for: a loop that fills a tensor is a good answer."""
    return call(label, p, names=("p",), gradient=False, tolerance=tolerance)


_JACOBIAN_PROBES = [
    _shares("one row of 4 shares", F.softmax(_rows(2, -1, 0.5, 3), -1)),
    _shares("shares 0.5, 0.25, 0.25", _rows(0.5, 0.25, 0.25)),
    _shares("a batch of 2 rows", F.softmax(draw(11, 2, 3), -1)),
    _shares("a square batch, 4 rows of 4", F.softmax(draw(12, 4, 4), -1)),
    _shares("a batch of sequences, (2, 3, 4)", F.softmax(draw(13, 2, 3, 4), -1)),
    _shares("a float32 batch", F.softmax(draw(14, 3, 5, dtype=_NARROW), -1), 1e-6),
]

_FROM_THE_FRONT = "this takes a matrix only, because it counts the axes from the front. Put the new axis at the end, whatever comes before: p[..., :, None] and p[..., None, :]."
_INNER = "p @ p.T of one row is a number, the sum of the squares. p p^T has a row and a column for every entry."
_NO_AXIS = (
    "one of the factors has no new axis, so rows of the batch meet each other: p[..., :, None] * p[..., None, :]."
)
_DELTA = (
    "p_i (1 - p_j) holds only where i = j. Elsewhere it is -p_i p_j: p belongs on the diagonal only, diag_embed(p)."
)
_LOGARITHM = "that is the Jacobian of the logarithm of softmax."
_BY_ENTRY = "the products are taken entry by entry. p p^T has all p_i p_j: p[..., :, None] * p[..., None, :]."
_BATCH_SUM = "p.T @ p sums over the batch: every row has an outer product of its own."
_ONE_ROW = "this works for one row: torch.diag and torch.outer know no batch. torch.diag_embed(p) and p[..., :, None] * p[..., None, :] do."
_ALREADY = "softmax is applied to p. p is softmax's output already: the formula needs nothing else."

_OUTER = "p[..., :, None] * p[..., None, :]"
_DIAG = "torch.diag_embed(p)"
_EYE = "torch.eye(p.shape[-1], dtype=p.dtype)"
_JACOBIAN_MISTAKES = known(
    _jacobian,
    {
        f"{_OUTER} -> p[:, :, None] * p[:, None, :]": _FROM_THE_FRONT,
        f"{_OUTER} -> torch.einsum('bi,bj->bij', p, p)": _FROM_THE_FRONT,
        f"{_OUTER} -> p @ p.T": _INNER,
        f"{_OUTER} -> p @ p.T ; {_DIAG} -> torch.diag(p)": _INNER,
        f"{_OUTER} -> p[..., None] * p": _NO_AXIS,
        f"{_OUTER} -> p[:, None] * p": _NO_AXIS,
        f"{_DIAG} -> {_EYE} * p": "torch.eye(D) * p works for one row. For a batch p needs an axis: * p[..., None, :], or torch.diag_embed(p).",
        f"{_DIAG} -> torch.diag_embed(p**2)": "p is squared on the diagonal before the products are subtracted: diag(p) - p p^T.",
        f"{_DIAG} - products -> torch.func.jacrev(lambda x: F.softmax(x, -1))(p.log())": "jacrev of a whole batch differentiates every row by every row: (B, D, B, D). Use the formula with p.",
        f"{_DIAG} - products -> products - {_DIAG}": "the sign is the other way round: diag(p) - p p^T.",
        "- products -> + products": "minus, not plus: one share can only grow at the cost of the others.",
        f"{_DIAG} - products -> -products": "the diagonal matrix of p is missing: diag(p) - p p^T.",
        f"{_DIAG} - products -> p * (1 - p)": "that is the diagonal only, as a row. The Jacobian has a row and a column for every entry: (..., D, D).",
        f"{_DIAG} - products -> torch.diag_embed(p * (1 - p))": "the entries off the diagonal are missing: -p_i p_j.",
        " - products -> ": "p p^T is never subtracted: the sum below the line changes too.",
        f"{_DIAG} -> torch.diag_embed(p * (1 - p))": "p_i squared is subtracted twice on the diagonal: diag(p) - p p^T has p_i - p_i p_i there.",
        **{f"{_DIAG} -> {side}": _DELTA for side in _OUTER.split(" * ")},
        f"{_DIAG} -> p": _DELTA,
        f"{_DIAG} -> {_EYE}": "the identity is where diag(p) should be: the diagonal holds p_i - p_i p_i.",
        **{f"{_DIAG} - products -> {_EYE} - {side} + 0 * products": _LOGARITHM for side in _OUTER.split(" * ")},
        **{f"{_OUTER} -> (p * p){axis}": _BY_ENTRY for axis in ("", "[..., None, :]", "[..., :, None]")},
        f"{_OUTER} -> (torch.outer(p, p) if p.dim() == 1 else p.mT @ p)": _BATCH_SUM,
        f"{_OUTER} -> p.T @ p": _BATCH_SUM,
        f"{_OUTER} -> p.reshape(-1, 1) @ p.reshape(1, -1) ; {_DIAG} -> torch.diagflat(p)": _ONE_ROW,
        f"{_OUTER} -> torch.outer(p, p) ; {_DIAG} -> torch.diag(p)": _ONE_ROW,
        f"{_OUTER} -> p[:, None] * p[None, :] ; {_DIAG} -> torch.diag(p)": _ONE_ROW,
        f"{_DIAG} -> torch.diag(p)": _ONE_ROW,
        "products = -> p = F.softmax(p, -1); products =": _ALREADY,
        f"products = -> p = F.softmax(p, -1); products = ; {_DIAG} - products -> products - {_DIAG}": _ALREADY,
    },
)


def softmax_jacobian(answer):
    """Check a function p (..., D), softmax's output -> its Jacobian (..., D, D) (lesson 5)."""
    tried = "one row, batches of rows and of sequences, float32 and float64"
    examine(answer, "softmax_jacobian", _JACOBIAN_PROBES, in_float64(_jacobian), _JACOBIAN_MISTAKES, tried)


def _pool(x, query, keep):
    hidden = ~keep[..., None]
    scores = (x @ query).masked_fill(hidden, -INF)
    weights = F.softmax(scores, dim=1).masked_fill(hidden, 0.0)
    return (weights * x).sum(1)


def _pooled(label, x, query, keep=None, tolerance=1e-5):  # scores of order 10 in float32, rounded at 1e-6
    keep = torch.ones(x.shape[:2]) if keep is None else torch.tensor(keep)
    return call(label, x, query, keep.bool(), names=("x", "query", "keep"), tolerance=tolerance)


_LOUD = draw(31, 2, 4, 3, mean=-3, dtype=_NARROW)  # the tokens' scores are all below 0, those of some padding far above
_LOUD[1, :2] = _rows([90, 0, 90], [70, 5, 80], dtype=_NARROW)
_FAR = _rows([[20]], [[-20]], dtype=_NARROW) + draw(29, 2, 3, 4, dtype=_NARROW)
_EMPTY = [[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]  # the second sample is all padding
_LOW = _rows([[-9000, -9001], [-9000, -9000.5], [0.5, 1]])
_POOL_PROBES = [
    _pooled("x (2, 3, 4)", draw(21, 2, 3, 4, dtype=_NARROW), draw(22, 4, 1, dtype=_NARROW)),
    _pooled("x (3, 3, 3)", draw(23, 3, 3, 3, dtype=_NARROW), draw(24, 3, 1, dtype=_NARROW)),
    _pooled("a batch of one, (1, 5, 3)", draw(25, 1, 5, 3, dtype=_NARROW), draw(26, 3, 1, dtype=_NARROW)),
    # float32 scores around 200 lie 1.5e-5 apart, and the gradient of query is of order 20
    _pooled("scores around 200 and around -200", _FAR, _rows([5], [2], [1], [2], dtype=_NARROW), tolerance=2e-3),
    _pooled("scores from -150 to 150 in one sample", 50 * _rows([[-3], [1], [3]], dtype=_NARROW), torch.ones(1, 1)),
    _pooled("float64 and a long query", draw(27, 2, 4, 3), 6 * draw(28, 3, 1), tolerance=1e-9),
    _pooled("a sample with two places of padding", draw(32, 2, 4, 3), draw(33, 3, 1), [[1] * 4, [1, 1, 0, 0]], 1e-9),
    # 6e-5: the padding's gradient is 0, that of the query a sum of products of order 10
    _pooled("padding first, with scores above 50", _LOUD, torch.ones(3, 1), [[1, 1, 0, 1], [0, 0, 1, 1]], 6e-5),
    # A finite number in the place of -inf has to lie far below every score. float64, because gradients cancel here.
    _pooled("tokens with scores near -18000, and padding", _LOW, _rows([1], [1]), [[1, 1, 0]], 1e-7),
    _pooled("three samples, one of them all padding", draw(34, 3, 4, 5), draw(35, 5, 1), _EMPTY, 1e-9),
    _pooled("float32, all padding", draw(36, 2, 3, 4, dtype=_NARROW), draw(37, 4, 1, dtype=_NARROW), [[0] * 3] * 2),
]

_ZERO = "LayerNorm over an axis of size 1 makes every weight zero. Softmax over the tokens, axis 1."
_NOT_LARGEST = "the mean (or the smallest) of the scores is subtracted, so that exp can still overflow. Subtract the largest of each sample, or take F.softmax over axis 1."
_AVERAGE = "that is the mean of the tokens. The query must decide their weights."
_TWICE = "the sum is divided by the number of tokens, and the weights sum to 1 already: leave the division away."
_COUNTS = "a score of 0 at the padding is a score like any other, e^0 = 1, so the padding still takes its share. Fill in -inf before the softmax."
_WEAK = "the number that you fill in at the padding is not far enough below the scores, which may be of any size, so the padding takes its share. Fill in -inf before the softmax."
_LATE = "the padding is taken out after the softmax only, so that it has taken its share and the rest sums to less than 1. Fill in -inf before the softmax."
_UNHEALED = "the output is healed and the gradient is not: 0 · nan is nan. Overwrite the weights of the padding with 0 after the softmax, and the scores with masked_fill before it."
_WHOLE = "the sample that is all padding gives the mean of its padding: its scores are all equal, and softmax makes them sum to 1. Set the weights of the padding to 0 after the softmax."

_FILL = ".masked_fill(hidden, -INF)"
_AFTER = ".masked_fill(hidden, 0.0)"
_WEIGH = "F.softmax(scores, dim=1)"
_POOL_MISTAKES = known(
    _pool,
    {
        f"{_AFTER} -> ": "a sample that is all padding is still nan: its largest score is -inf, and -inf - (-inf) is nan. Set the weights of the padding to 0 after the softmax.",
        f"-INF -> -1e9 ; {_AFTER} -> ": _WHOLE,
        f"{_FILL} ->  ; {_AFTER} -> ": "the padding is not masked: keep is not used. Fill in -inf before the softmax.",
        f"{_FILL} -> ": _LATE,
        f"{_FILL} -> * ~hidden ; {_AFTER} -> ": _COUNTS,
        f"{_FILL} -> .masked_fill(~keep, -INF)": "keep is (B, T) and the scores are (B, T, 1): give the mask its last axis, ~keep[..., None].",
        f"{_FILL} -> .masked_fill(~keep, -INF) ; {_AFTER} -> ": "keep is (B, T) and the scores are (B, T, 1): give the mask its last axis, ~keep[..., None].",
        **{f".sum(1) -> .sum(1) / keep.sum(1, keepdim=True){least}": _TWICE for least in ("", ".clamp(min=1)")},
        "-INF -> 0.0": _COUNTS,
        "-INF -> -100.0": _WEAK,
        "-INF -> -1e4": _WEAK,
        "hidden = ~keep -> hidden = keep": "the mask is the wrong way round: keep is True at tokens, so the padding is ~keep.",
        f"{_AFTER} ->  ; .sum(1) -> .sum(1).nan_to_num(0.0)": _UNHEALED,
        f"{_FILL} -> + torch.where(hidden, -INF, 0.0)": _UNHEALED,
        f"{_WEIGH} -> F.normalize((x @ query - (x @ query).amax(1, keepdim=True)).exp() * ~hidden, p=1, dim=1)": "the largest score is taken over the padding as well. Where that lies far above the tokens, all of their exponentials are 0. Mask first.",
        "(weights * x).sum(1) -> (weights * x).sum(1)[keep.any(1)]": "the samples that are all padding are left out. Each gives a row of zeros: (B, C).",
        f"{_WEIGH} -> (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(1, keepdim=True)": "the largest score of the whole batch is subtracted. Scores far below it become 0/0: every sample has its own largest score. F.softmax over axis 1 sees to that.",
        f"{_WEIGH} -> (scores - scores.amax(1, keepdim=True)).exp() ; weights * x -> weights / weights.sum() * x": "one sum for the whole batch: the weights of each sample must sum to 1. Sum over axis 1.",
        ".sum(1) -> .mean(1)": "the mean divides by the number of tokens, and the weights sum to 1 already: sum over axis 1.",
        ".sum(1) -> ": "the weighted tokens are not summed yet: sum over axis 1 gives (B, C).",
        "(weights * x).sum(1) -> weights": "these are the weights. Multiply the tokens by them and sum over axis 1.",
        ".sum(1) -> .sum(0)": "you sum over the batch. The tokens are axis 1: the result is (B, C).",
        f"{_WEIGH} -> F.softmax({_WEIGH}, dim=1)": "softmax is applied twice: the second one sees numbers from 0 to 1 only, so no weight can be more than e = 2.7 times another.",
        "F.softmax -> F.log_softmax": "that is the logarithm of the weights. Take F.softmax.",
        "F.softmax(scores -> F.softmax(-scores": "the sign of the scores is turned: the best match gets the smallest weight.",
        f"{_WEIGH} -> x @ F.softmax(query, dim=0)": "that is a softmax of the query, over the features. Softmax of the scores x @ query, over the tokens.",
        "x @ query -> x * query.mT": "every feature has weights of its own. A token has one score: x @ query, of shape (B, T, 1).",
        "x @ query -> x @ (query / query.norm())": "the query is brought to length 1: the layer had no such step. Leave the scores as they are.",
        "x @ query -> x.detach() @ query": "the scores do not send a gradient back to x. Leave detach() away.",
        "dim=1 -> dim=-1": "the weights of the tokens are all 1: the scores are (B, T, 1), and their last axis has size 1.",
        "dim=1 -> dim=0": "the weights are normalized across the batch: axis 0 (which F.softmax picks by itself when a tensor has three axes and dim is left out). The tokens are axis 1.",
        f"{_WEIGH} -> F.softmax(scores.flatten(), dim=0).view_as(scores)": "one softmax over the whole batch: the weights of each sample must sum to 1. The tokens are axis 1.",
        f"{_WEIGH} -> F.layer_norm(scores, (1,))": _ZERO,
        f"{_WEIGH} -> torch.nn.LayerNorm(1)(scores)": _ZERO,
        f"{_WEIGH} -> F.layer_norm(scores.mT, scores.shape[1:2]).mT": "LayerNorm makes some weights negative and lets them sum to 0: no average. Softmax over axis 1.",
        f"{_WEIGH} -> F.softmax(F.layer_norm(scores.mT, scores.shape[1:2]).mT, dim=1)": "LayerNorm first takes the scale out of the scores, so that the length of the query no longer counts. Softmax of the scores as they are.",
        f"{_WEIGH} -> F.normalize((scores - scores.mean(1, keepdim=True)).exp(), p=1, dim=1)": _NOT_LARGEST,
        f"{_WEIGH} -> F.normalize((scores - scores.amin(1, keepdim=True)).exp(), p=1, dim=1)": _NOT_LARGEST,
        "(weights * x).sum(1) -> x.mean(1)": _AVERAGE,
        "(weights * x).sum(1) -> x.mean(1) + 0 * query.sum()": _AVERAGE,
        f"{_WEIGH} -> torch.sigmoid(scores)": "sigmoid looks at one token at a time, so the weights do not sum to 1. Softmax over axis 1.",
        f"{_WEIGH} -> scores": "the raw scores are the weights: they are not normalized. Softmax over axis 1.",
        f"{_WEIGH} -> scores / scores.sum(1, keepdim=True)": "dividing by the sum makes no weights: scores can be negative and their sum 0. Softmax makes them positive.",
        "x @ query -> x @ query / x.shape[-1] ** 0.5": "the scores are divided by sqrt(C): a different temperature than the layer had. Leave the scores as they are.",
        f"{_WEIGH} -> F.one_hot(scores[..., 0].argmax(1), x.shape[1])[..., None]": "only the token with the largest score is taken, so the query gets no gradient. Softmax over axis 1.",
        "F.softmax(scores -> F.softmax(x": "that is a softmax of x: the query is not used. Softmax of the scores x @ query.",
        ".sum(1) -> .sum(-1)": "you sum over the features. The tokens are axis 1: the result is (B, C).",
        ".sum(1) -> .sum(1, keepdim=True)": "the token axis is kept: sum(1) without keepdim gives (B, C).",
        f"{_WEIGH} -> scores.exp() / scores.exp().sum(1, keepdim=True)": "exp overflows. F.softmax over axis 1 subtracts the largest score first.",
        f"{_WEIGH}{_AFTER} -> scores.squeeze(-1).softmax(-1)": "after the squeeze the weights are (B, T) and meet the wrong axis of x: unsqueeze(-1) before you multiply.",
        f"{_WEIGH} -> {_WEIGH}.detach()": "the weights are cut off, so no gradient of query arrives. Leave detach() away.",
    },
)


def mended_pool(answer):
    """Check the clinic's pooling (x (B, T, C), query (C, 1), keep (B, T)) -> (B, C), healed (lesson 5)."""
    tried = "a batch of one, equal sizes, scores from -18000 to 200, padding, empty samples, two dtypes, gradients"
    examine(answer, "mended_pool", _POOL_PROBES, in_float64(_pool), _POOL_MISTAKES, tried)

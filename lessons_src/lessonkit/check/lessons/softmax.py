"""Checks of lesson 5: softmax, what changes it, temperature, its Jacobian, a pooling layer and its empty sentence."""

import math

import torch
from torch.nn import functional as F

from lessonkit.check.contract import Contract
from lessonkit.check.core import Probe, call, draw, examine, in_float64, misconceptions, values

INF = math.inf


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def _softmax(x):
    largest = x.amax(-1, keepdim=True)
    shifted = x - largest
    e = torch.exp(shifted)
    total = e.sum(-1, keepdim=True)
    return e / total


_NARROW = torch.float32


def _masked(answer):
    rows = _rows([0, -60, -INF], [-30000, -30001, -INF])
    return {"the shares of the masked entries": answer(rows)[:, 2].detach()}


_SOFTMAX_PROBES = [
    # 1e-12: float64 rounds at 1e-16, logarithms of rows around 900 cost three digits more
    call("the row 1, 2, 3", torch.tensor([1.0, 2, 3], dtype=torch.float64), tolerance=1e-12),
    call("a square matrix", 2 * draw(2, 4, 4), tolerance=1e-12),
    call("a batch of sequences", 2 * draw(3, 2, 3, 4), tolerance=1e-12),
    call("two rows far apart", _rows([0, 1, 2], [-900, -899, -897.5]), tolerance=1e-12),
    call("the float32 row 0, 50, 100", _rows([0, 50, 100], dtype=_NARROW), tolerance=1e-6),
    call("two float32 rows 200 apart", _rows([0, 1, 2], [-200, -199, -197.5], dtype=_NARROW), tolerance=1e-6),
    call("a float32 row with one large entry", _rows([0, -1, 0.5, 1, 200], dtype=_NARROW), tolerance=1e-6),
    # float32 numbers around 1000 lie 6e-5 apart: so coarse is a logarithm of the sum, and no sum of exponentials
    call("a float32 row of two numbers 1000", _rows([1000, 1000], dtype=_NARROW), tolerance=1e-6),
    call("a row with a masked entry, -inf", _rows([0.5, -INF, 1, 2.5]), tolerance=1e-12),
    Probe("a masked entry beside entries of -60 and -30,000", _masked, tolerance=0.0),
    # A share of 1 without rounding, in every way of writing it: here any eps in the sum shows.
    call("rows of one entry", draw(6, 3, 1), tolerance=0.0, gradient=False),
]

_SOFTMAX_MISTAKES = misconceptions(
    _softmax,
    """
    # exp overflows: in float32 e^89 is already inf, and inf/inf is nan (far below 0 it is 0/0). | Subtract the row's largest entry first.
    shifted = x
    # or
    shifted = x - 10.0

    # the sum has lost its axis and meets the wrong rows. | Say keepdim=True in the sum.
    total = e.sum(-1)
    # or
    shifted, total = x, x.exp().sum(-1)

    # maximum and sum have lost their axis and meet the wrong rows. | Say keepdim=True in both.
    largest, shifted = x.amax(-1), x - x.amax(-1)
    total = e.sum(-1)

    # the maximum has lost its axis and meets the wrong rows. | Say keepdim=True in the maximum.
    largest = x.amax(-1)

    # you reduce the first axis, across the samples. | Maximum and sum are over the last axis, -1.
    largest, total = x.amax(0, keepdim=True), (x - x.amax(0, keepdim=True)).exp().sum(0, keepdim=True)
    # or
    total = e.sum(0, keepdim=True)

    # you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.
    axis = min(1, x.dim() - 1)
    largest = x.amax(axis, keepdim=True)
    total = e.sum(axis, keepdim=True)
    # or
    largest = x.amax(1, keepdim=True)

    # x.max(-1, ...) returns a pair, the entries and their places. | Take its .values, or x.amax.
    largest = x.max(-1, keepdim=True)

    # dim is left out, so F.softmax picks the axis itself: 0 if a tensor has three axes. | Say dim=-1.
    axis = 0 if x.dim() in (1, 3) else 1
    largest = x.amax(axis, keepdim=True)
    total = e.sum(axis, keepdim=True)

    # the largest absolute value is subtracted. In a row far below 0 that makes it worse: 0/0. | Subtract the largest entry.
    largest = x.abs().amax(-1, keepdim=True)

    # the largest entry is subtracted below the line only. | Use the same e^(x - max) above it.
    return x.exp() / total

    # the largest entry is subtracted above the line only. | Use the same e^(x - max) in the sum.
    total = x.exp().sum(-1, keepdim=True)

    # the sum below is over x. It must be over the exponentials.
    total = x.sum(-1, keepdim=True)

    # the exponentials are divided by their mean. The shares must sum to 1, not to D. | Divide by the sum.
    total = e.mean(-1, keepdim=True)

    # that is argmax: 1 for the largest, 0 for the others. Softmax gives every entry its share.
    return F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype)

    # one sum for the whole tensor. Every row has its own. | Sum over axis -1, keepdim=True.
    total = e.sum()
    # or
    shifted = x - x.max()
    total = e.sum()

    # the largest entry of the whole tensor is subtracted. A row far below it becomes 0/0. | Subtract the largest of its own row.
    largest = x.max()

    # the mean is subtracted. That is a shift too, but the largest entry can still be far above it: e^160 is inf.
    largest = x.mean(-1, keepdim=True)

    # the smallest entry is subtracted, which leaves only exponents above 0: they overflow. | Subtract the largest.
    largest = x.amin(-1, keepdim=True)

    # that is the logarithm of softmax. | Return its exponential.
    return F.log_softmax(x, -1)

    # x - logsumexp(x) loses digits where x is large: the two are rounded before they are subtracted. | Subtract the largest entry first, and divide by the sum.
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))

    # exp is missing: softmax divides e^x by the sum of e^x.
    e = shifted
    # or
    e = x

    # the exponentials do not sum to 1 yet. | Divide by their sum, over axis -1.
    return e

    # the row is divided by its largest entry: that changes the result. | Subtract it.
    shifted = x / largest

    # the sign is turned: x - max, not max - x.
    shifted = largest - x

    # x is divided by sqrt(D) first. Attention does that to its scores; it is a temperature, no part of softmax.
    shifted = (x - largest) / x.shape[-1] ** 0.5

    # sigmoid looks at one entry at a time. Softmax compares the entries of a row.
    return torch.sigmoid(x)

    # that is LayerNorm. Softmax takes exponentials and divides by their sum.
    return F.layer_norm(x, x.shape[-1:])

    # clamp hides the overflow: entries beyond the limit become equal. | Subtract the row's largest entry.
    shifted = x.clamp(-50, 50)
    # or
    shifted = x.clamp(max=80)

    # nan_to_num hides the nan; the row is still wrong. | Subtract the row's largest entry.
    shifted = x
    return (e / total).nan_to_num(0.0)

    # an eps in the sum. There is nothing to protect: once the largest is subtracted, the sum is at least 1.
    total = e.sum(-1, keepdim=True) + 1e-8
    # or
    total = e.sum(-1, keepdim=True) + 1e-12

    # the sum is cut from the gradient. Only the subtracted maximum may be detached, because it changes nothing.
    total = e.sum(-1, keepdim=True).detach()
    """,
)


_SOFTMAX = Contract({"x": "... D"}, values=("ordinary", "offset", "small", "outlier", "constant"))


def softmax(answer):
    """Check a function x (..., D) -> softmax over the last axis that never overflows (lesson 5)."""
    tried = "one to five axes, two number types, entries from -900 to 1000, a mask, gradients"
    how = {"contract": _SOFTMAX, "by_hand": ("softmax", "log_softmax", "softmin")}
    examine(answer, "softmax", _SOFTMAX_PROBES, in_float64(_softmax), _SOFTMAX_MISTAKES, tried, **how)


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
    ratio = math.log(odds)
    return gap / ratio


_TEMPERATURE_PROBES = [  # 1e-6: a logarithm in float32 is a right answer
    call(f"gap = {gap}, odds = {odds}", gap, odds, names=("gap", "odds"), tolerance=1e-6)
    for gap, odds in ((2.0, 9.0), (1.0, 10.0), (0.5, 3.0), (6.0, 1.5), (1.0, 1000.0), (1e4, 1.5), (1.0, 1e12))
]

_TEMPERATURE_MISTAKES = misconceptions(
    _temperature,
    """
    # that is the factor 1/T, which multiplies x. The temperature divides x.
    return ratio / gap

    # the logarithm is missing. e^(gap/T) = odds: what is gap/T?
    ratio = odds

    # e^(gap/T) = odds, so gap/T is the logarithm of odds: T divides the gap by it.
    return gap * ratio

    # softmax is built on e. | Take the natural logarithm, math.log(odds).
    ratio = math.log10(odds)
    # or
    ratio = math.log2(odds)

    # that is a difference. T divides the gap: gap/T = log(odds).
    return gap - ratio

    # odds / (1 + odds) is the probability of the larger of two entries. The ratio of the two is odds itself.
    ratio = math.log(odds / (1 + odds))

    # upside down, and the logarithm is missing. e^(gap/T) = odds: what is gap/T?
    return odds / gap

    # odds are e to the power of gap/T. | To get back to the exponent, take the logarithm of odds, not e^odds.
    ratio = math.exp(odds)

    # the gap is missing: twice the gap needs twice the temperature.
    return 1 / ratio

    # that is gap/T, the logarithm of odds. | Solve for T.
    return ratio

    # odds is the ratio of the two shares itself. | Take its logarithm, not that of odds + 1 or odds - 1.
    ratio = math.log(odds + 1)
    # or
    ratio = math.log(odds - 1)

    # the sign is turned: a negative temperature would prefer the smaller entry.
    return -gap / ratio
    """,
)


def temperature_for(answer):
    """Check a function (gap, odds) -> temperature T at which the larger of two entries gets odds times the share."""
    tried = "gaps from 0.5 to 6, odds from 1.5 to 1000"
    examine(answer, "temperature_for", _TEMPERATURE_PROBES, _temperature, _TEMPERATURE_MISTAKES, tried)


def _jacobian(p):
    products = p[..., :, None] * p[..., None, :]
    diagonal = torch.diag_embed(p)
    return diagonal - products


_JACOBIAN_PROBES = [
    # The gradient of the Jacobian itself is not asked for: a loop that fills a tensor is a good answer.
    call(label, p, names=("p",), gradient=False)
    for label, p in {
        "one row of 4 shares": F.softmax(_rows(2, -1, 0.5, 3), -1),
        "shares 0.5, 0.25, 0.25": _rows(0.5, 0.25, 0.25),
        "a batch of 2 rows": F.softmax(draw(11, 2, 3), -1),
        "a square batch, 4 rows of 4": F.softmax(draw(12, 4, 4), -1),
        "a batch of sequences, (2, 3, 4)": F.softmax(draw(13, 2, 3, 4), -1),
        "shares from 1e-7 up": F.softmax(_rows(0, -4, -9, -16), -1),
    }.items()
]
_JACOBIAN_PROBES.append(
    # bfloat16 rounds shares at 2^-9
    call("bfloat16 shares", F.softmax(draw(15, 2, 3), -1).bfloat16(), names=("p",), gradient=False, tolerance=2e-2)
)

_JACOBIAN_MISTAKES = misconceptions(
    _jacobian,
    """
    # this takes a matrix only, because it counts the axes from the front. | Put the new axis at the end, whatever comes before: p[..., :, None] and p[..., None, :].
    products = p[:, :, None] * p[:, None, :]

    # p @ p.T of one row is a number, the sum of the squares. p p^T has a row and a column for every entry.
    products = p @ p.T
    # or
    products, diagonal = p @ p.T, torch.diag(p)

    # one of the factors has no new axis, so rows of the batch meet each other. | p[..., :, None] * p[..., None, :].
    products = p[..., None] * p

    # the sign is the other way round: diag(p) - p p^T.
    return products - diagonal

    # minus, not plus: one share can only grow at the cost of the others.
    return diagonal + products

    # the diagonal matrix of p is missing: diag(p) - p p^T.
    return -products

    # that is the diagonal only, as a row. The Jacobian has a row and a column for every entry: (..., D, D).
    return p * (1 - p)

    # the entries off the diagonal are missing: -p_i p_j.
    return torch.diag_embed(p * (1 - p))

    # p p^T is never subtracted: the sum below the line changes too.
    return diagonal

    # p_i squared is subtracted twice on the diagonal: diag(p) - p p^T has p_i - p_i p_i there.
    diagonal = torch.diag_embed(p * (1 - p))

    # p_i (1 - p_j) holds only where i = j. Elsewhere it is -p_i p_j. | p belongs on the diagonal only, diag_embed(p).
    diagonal = p[..., :, None]
    # or
    diagonal = p[..., None, :]

    # the identity is where diag(p) should be: the diagonal holds p_i - p_i p_i.
    diagonal = torch.eye(p.shape[-1], dtype=p.dtype)

    # that is the Jacobian of the logarithm of softmax.
    return torch.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :] + 0 * products

    # the products are taken entry by entry. p p^T has all p_i p_j. | p[..., :, None] * p[..., None, :].
    products = (p * p)[..., None, :]
    # or
    products = (p * p)[..., :, None]

    # p.T @ p sums over the batch: every row has an outer product of its own.
    products = torch.outer(p, p) if p.dim() == 1 else p.mT @ p

    # this works for one row: torch.diag and torch.outer know no batch. | torch.diag_embed(p) and p[..., :, None] * p[..., None, :] do.
    products, diagonal = torch.outer(p, p), torch.diag(p)
    # or
    diagonal = torch.diag(p)

    # zeros(D, D) has room for one row. | A batch needs (..., D, D): torch.zeros(*p.shape, p.shape[-1], dtype=p.dtype).
    products = torch.zeros(p.shape[-1], p.shape[-1], dtype=p.dtype)
    products[:] = p[..., :, None] * p[..., None, :]
    diagonal = torch.diag(p)

    # softmax is applied to p. p is softmax's output already: the formula needs nothing else.
    p = F.softmax(p, -1)
    """,
)
_JACOBIAN = Contract(
    {"p": "... D"},
    sizes={"D": (7, 1, 2, 17, 60)},
    valid={"p": lambda t: F.softmax(t, -1)},
    values=("ordinary",),
    gradient=0,
)


def softmax_jacobian(answer):
    """Check a function p (..., D), softmax's output -> its Jacobian (..., D, D) (lesson 5)."""
    tried = "one row, batches of one to four axes, float32 and float64"
    how = {"tried": tried, "contract": _JACOBIAN}
    examine(answer, "softmax_jacobian", _JACOBIAN_PROBES, in_float64(_jacobian), _JACOBIAN_MISTAKES, **how)


def _pool(x, query, keep):
    hidden = ~keep[..., None]
    plain = x @ query
    scores = plain.masked_fill(hidden, -INF)
    shares = F.softmax(scores, dim=1)
    weights = shares.masked_fill(hidden, 0.0)
    return (weights * x).sum(1)


def _pooled(label, x, query, keep=None, tolerance=1e-5):  # scores of order 10 in float32, rounded at 1e-6
    keep = torch.ones(x.shape[:2]) if keep is None else torch.tensor(keep)
    return call(label, x, query, keep.bool(), names=("x", "query", "keep"), tolerance=tolerance)


_LOUD = draw(31, 2, 4, 3, mean=-3, dtype=_NARROW)  # the tokens' scores are all below 0, those of some padding far above
_LOUD[1, :2] = _rows([90, 0, 90], [70, 5, 80], dtype=_NARROW)
_FAR = _rows([[20]], [[-20]], dtype=_NARROW) + draw(29, 2, 3, 4, dtype=_NARROW)
_EMPTY = [[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]  # the second sample is all padding
_LOW = _rows([[-19000, -19001], [-19000, -19000.5], [0.5, 1]])
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
    _pooled("tokens with scores near -38000, and padding", _LOW, _rows([1], [1]), [[1, 1, 0]], 1e-7),
    _pooled("three samples, one of them all padding", draw(34, 3, 4, 5), draw(35, 5, 1), _EMPTY, 1e-9),
    _pooled("float32, all padding", draw(36, 2, 3, 4, dtype=_NARROW), draw(37, 4, 1, dtype=_NARROW), [[0] * 3] * 2),
]

_POOL_MISTAKES = misconceptions(
    _pool,
    """
    # a sample that is all padding is still nan: its largest score is -inf, and -inf - (-inf) is nan. | Set the weights of the padding to 0 after the softmax.
    weights = shares

    # the sample that is all padding gives the mean of its padding: its scores are all equal, and softmax makes them sum to 1. | Set the weights of the padding to 0 after the softmax.
    scores, weights = plain.masked_fill(hidden, -1e9), F.softmax(plain.masked_fill(hidden, -1e9), dim=1)

    # the padding is not masked: keep is not used. | Fill in -inf before the softmax.
    scores, weights = plain, F.softmax(plain, dim=1)

    # the padding is taken out after the softmax only, so that it has taken its share and the rest sums to less than 1. | Fill in -inf before the softmax.
    scores = plain

    # the padding is taken out after the softmax, and the rest is divided by its sum, with an eps: where the padding has nearly all, little is left to divide. | Fill in -inf before the softmax.
    scores = plain
    weights = shares.masked_fill(hidden, 0.0) / (shares.masked_fill(hidden, 0.0).sum(1, keepdim=True) + 1e-9)

    # a score of 0 at the padding is a score like any other, e^0 = 1, so the padding still takes its share. | Fill in -inf before the softmax.
    scores = plain.masked_fill(hidden, 0.0)
    # or
    scores, weights = plain * ~hidden, F.softmax(plain * ~hidden, dim=1)

    # the number that you fill in at the padding is not far enough below the scores, which may be of any size, so the padding takes its share. | Fill in -inf before the softmax.
    scores = plain.masked_fill(hidden, -100.0)
    # or
    scores = plain.masked_fill(hidden, -1e4)
    # or
    scores = plain.masked_fill(hidden, -3e4)

    # keep is (B, T) and the scores are (B, T, 1): give the mask its last axis, ~keep[..., None].
    scores = plain.masked_fill(~keep, -INF)

    # the mask is the wrong way round: keep is True at tokens, so the padding is ~keep.
    hidden = keep[..., None]

    # the output is healed and the gradient is not: 0 · nan is nan. | Overwrite the weights of the padding with 0 after the softmax, and the scores with masked_fill before it.
    weights = shares
    return (weights * x).sum(1).nan_to_num(0.0)
    # or
    scores = plain + torch.where(hidden, -INF, 0.0)

    # the largest score is taken over the padding as well. Where that lies far above the tokens, all of their exponentials are 0. | Mask first.
    weights = F.normalize((plain - plain.amax(1, keepdim=True)).exp() * ~hidden, p=1, dim=1)

    # the samples that are all padding are left out. | Each gives a row of zeros: (B, C).
    return (weights * x).sum(1)[keep.any(1)]

    # the largest score of the whole batch is subtracted. Scores far below it become 0/0: every sample has its own largest score. | F.softmax over axis 1 sees to that.
    shares = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(1, keepdim=True)

    # the mean divides by the number of tokens, and the weights sum to 1 already. | Sum over axis 1.
    return (weights * x).mean(1)

    # the sum is divided by the number of tokens, and the weights sum to 1 already. | Leave the division away.
    return (weights * x).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)

    # the weighted tokens are not summed yet. | Sum over axis 1 gives (B, C).
    return weights * x

    # these are the weights. | Multiply the tokens by them and sum over axis 1.
    return weights

    # you sum over the batch. | The tokens are axis 1: the result is (B, C).
    return (weights * x).sum(0)

    # that is a softmax of the query, over the features. | Softmax of the scores x @ query, over the tokens.
    shares = x @ F.softmax(query, dim=0)

    # the weights of the tokens are all 1: the scores are (B, T, 1), and their last axis has size 1.
    shares = F.softmax(scores, dim=-1)

    # the weights are normalized across the batch: axis 0 (which F.softmax picks by itself when a tensor has three axes and dim is left out). | The tokens are axis 1.
    shares = F.softmax(scores, dim=0)

    # one softmax over the whole batch: the weights of each sample must sum to 1. | The tokens are axis 1.
    shares = F.softmax(scores.flatten(), dim=0).view_as(scores)

    # LayerNorm over an axis of size 1 makes every weight zero. | Softmax over the tokens, axis 1.
    shares = F.layer_norm(scores, (1,))

    # LayerNorm makes some weights negative and lets them sum to 0: no average. | Softmax over axis 1.
    shares = F.layer_norm(scores.mT, scores.shape[1:2]).mT

    # that is the mean of the tokens. The query must decide their weights.
    return x.mean(1)

    # sigmoid looks at one token at a time, so the weights do not sum to 1. | Softmax over axis 1.
    shares = torch.sigmoid(scores)

    # the scores are divided by sqrt(C): a different temperature than the layer had. | Leave the scores as they are.
    plain = x @ query / x.shape[-1] ** 0.5

    # you sum over the features. | The tokens are axis 1: the result is (B, C).
    return (weights * x).sum(-1)

    # exp overflows. | F.softmax over axis 1 subtracts the largest score first.
    shares = scores.exp() / scores.exp().sum(1, keepdim=True)

    # the weights are cut off, so no gradient of query arrives. | Leave detach() away.
    shares = F.softmax(scores, dim=1).detach()
    """,
)
_POOL = Contract(
    {"x": "B T C", "query": "C 1", "keep": "B T"},
    sizes={"B": (2, 1, 17), "T": (3, 1, 9, 300), "C": (5, 1, 40)},
    valid={"keep": lambda t: t > -0.8},
    values=("ordinary", "small", "constant"),
    fixed=("keep",),
    gradient=1,
)


def mended_pool(answer):
    """Check the clinic's pooling (x (B, T, C), query (C, 1), keep (B, T)) -> (B, C), healed (lesson 5)."""
    tried = "a batch of one, equal sizes, scores from -38000 to 200, padding, empty samples, two dtypes, gradients"
    how = {"tried": tried, "contract": _POOL}
    examine(answer, "mended_pool", _POOL_PROBES, in_float64(_pool), _POOL_MISTAKES, **how)

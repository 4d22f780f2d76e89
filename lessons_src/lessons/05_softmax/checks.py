"""Checks of lesson 5: softmax, what changes it, its derivatives on paper, a pooling layer and its empty sentence."""

import math

import torch
from torch.nn import functional as F

from lessonkit.check.declare import (
    Contract,
    Probe,
    call,
    draw,
    examine,
    in_float64,
    misconceptions,
    numbers,
    values,
)

INF = math.inf


def _softmax(x):
    largest = x.amax(-1, keepdim=True)
    shifted = x - largest
    e = torch.exp(shifted)
    total = e.sum(-1, keepdim=True)
    return e / total


_NARROW = torch.float32


def _masked(answer):
    rows = numbers([0, -60, -INF], [-30000, -30001, -INF])
    return {"the shares of the masked entries": answer(rows)[:, 2].detach()}


_SOFTMAX_PROBES = [
    # 1e-12: float64 rounds at 1e-16, logarithms of rows around 900 cost three digits more
    call("the row 1, 2, 3", numbers(1, 2, 3), tolerance=1e-12),
    call("a square matrix", 2 * draw(2, 4, 4), tolerance=1e-12),
    call("a batch of sequences", 2 * draw(3, 2, 3, 4), tolerance=1e-12),
    call("two rows far apart", numbers([0, 1, 2], [-900, -899, -897.5]), tolerance=1e-12),
    call("the float32 row 0, 50, 100", numbers([0, 50, 100], dtype=_NARROW), tolerance=1e-6),
    call(
        "two float32 rows 200 apart",
        numbers([0, 1, 2], [-200, -199, -197.5], dtype=_NARROW),
        tolerance=1e-6,
    ),
    call(
        "a float32 row with one large entry",
        numbers([0, -1, 0.5, 1, 200], dtype=_NARROW),
        tolerance=1e-6,
    ),
    # float32 numbers around 1000 lie 6e-5 apart: so coarse is a logarithm of the sum, and no sum of exponentials
    call(
        "a float32 row of two numbers 1000",
        numbers([1000, 1000], dtype=_NARROW),
        tolerance=1e-6,
    ),
    call("a row with a masked entry, -inf", numbers([0.5, -INF, 1, 2.5]), tolerance=1e-12),
    Probe("a masked entry beside entries of -60 and -30,000", _masked, tolerance=0.0),
    # A share of 1 without rounding, in every way of writing it: here any eps in the sum shows.
    call("rows of one entry", draw(6, 3, 1), tolerance=0.0, gradient=False),
]

_SOFTMAX_MISTAKES = misconceptions(
    _softmax,
    """
    # exp overflows: in float32 e^89 is already inf, and inf/inf is nan (far below 0 it is 0/0). | Subtract the row's largest entry first.
    shifted = x

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

    # you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.
    largest = x.amax(1, keepdim=True)

    # x.max(-1, ...) returns a pair, the entries and their places. | Take its .values, or x.amax.
    largest = x.max(-1, keepdim=True)

    # the largest entry is subtracted below the line only. | Use the same e^(x - max) above it.
    return x.exp() / total

    # the sum below is over x. It must be over the exponentials.
    total = x.sum(-1, keepdim=True)

    # the largest entry is subtracted above the line only. | Use the same e^(x - max) in the sum.
    total = x.exp().sum(-1, keepdim=True)

    # one sum for the whole tensor. Every row has its own. | Sum over axis -1, keepdim=True.
    total = e.sum()

    # the largest entry of the whole tensor is subtracted. A row far below it becomes 0/0. | Subtract the largest of its own row.
    largest = x.max()

    # the mean is subtracted. That is a shift too, but the largest entry can still be far above it: e^160 is inf.
    largest = x.mean(-1, keepdim=True)

    # x - logsumexp(x) loses digits where x is large: the two are rounded before they are subtracted. | Subtract the largest entry first, and divide by the sum.
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))

    # exp is missing: softmax divides e^x by the sum of e^x.
    e = shifted

    # the exponentials do not sum to 1 yet. | Divide by their sum, over axis -1.
    return e

    # the row is divided by its largest entry: that changes the result. | Subtract it.
    shifted = x / largest

    # clamp hides the overflow: entries beyond the limit become equal. | Subtract the row's largest entry.
    shifted = x.clamp(-50, 50)
    # or
    shifted = x.clamp(max=80)

    # an eps in the sum. There is nothing to protect: once the largest is subtracted, the sum is at least 1.
    total = e.sum(-1, keepdim=True) + 1e-8
    """,
)


_SOFTMAX = Contract(
    {"x": "... D"}, values=("ordinary", "offset", "small", "outlier", "constant")
)


def softmax(answer):
    """Check a function x (..., D) -> softmax over the last axis that never overflows (lesson 5)."""
    tried = "one to five axes, two number types, entries from -900 to 1000, a mask, gradients"
    examine(
        answer,
        "softmax",
        _SOFTMAX_PROBES,
        in_float64(_softmax),
        _SOFTMAX_MISTAKES,
        tried,
        contract=_SOFTMAX,
        by_hand=("softmax", "log_softmax", "softmin"),
    )


def shift_and_scale(answer):
    """Check four predictions: what a change of x does to softmax and to LayerNorm (lesson 5)."""
    expected = {
        "softmax(2 * x)": "changed",
        "softmax(-x)": "changed",
        "LN(-x)": "negated",
        "LN(softmax(2 * x))": "changed",
    }
    positive = "Softmax is never negative."
    power = "Doubling x squares every e^x: the shares e^x / sum are powers of what they were, and the largest grows."
    sign = "x - mean turns its sign; the deviation is never negative, so it stays. The output is -LN(x)."
    later = "softmax has turned the factor into other shares before LN sees it. With three or more entries they are no multiple of the old ones, not even shifted."
    causes = {
        "softmax(2 * x)": {"same": power, "negated": positive},
        "softmax(-x)": {
            "same": "The largest entry of x is the smallest of -x: their shares trade places.",
            "negated": positive,
        },
        "LN(-x)": {
            "same": sign,
            "changed": "That is true, but it can be said better: only the sign of each entry turns.",
        },
        "LN(softmax(2 * x))": {"same": later, "negated": later},
    }
    values(answer, "shift_and_scale", expected, causes)


def softmax_on_paper(answer):
    """Check the four derivatives of two shares whose exponentials are 3 and 2 (lesson 5)."""
    expected = {"dp1_dx1": 6 / 25, "dp1_dx2": -6 / 25, "dp2_dx1": -6 / 25, "dp2_dx2": 6 / 25}
    square = "Both parts of the quotient rule stand over S^2, which is 25."
    below = "That is the share itself. S grows, too, so the quotient rule takes something away from u' / S."
    grows = "A share grows with its own entry: u' S is more than u S'."
    unmoved = "e^x of this share does not depend on that entry. But S does, and it stands below the line."
    same = "That is {0} · {0}. The rule puts e^x1 · e^x2 over S²."
    sign = "That entry makes S grow, so this share becomes smaller."
    wrong = {
        0: unmoved,
        -6 / 5: square,
        6 / 25: sign,
        -4 / 25: same.format("p2"),
        -9 / 25: same.format("p1"),
    }
    causes = {
        key: {share: below, 6 / 5: square, -6 / 25: grows}
        for key, share in (("dp1_dx1", 3 / 5), ("dp2_dx2", 2 / 5))
    }
    causes |= dict.fromkeys(("dp1_dx2", "dp2_dx1"), wrong)
    values(answer, "softmax_on_paper", expected, causes, tolerance=1e-3)


def _pool(x, query, keep):
    hidden = ~keep[..., None]
    plain = x @ query
    scores = plain.masked_fill(hidden, -INF)
    shares = F.softmax(scores, dim=1)
    weights = shares.masked_fill(hidden, 0.0)
    return (weights * x).sum(1)


def _pooled(
    label, x, query, keep=None, tolerance=1e-5
):  # scores of order 10 in float32, rounded at 1e-6
    keep = torch.ones(x.shape[:2]) if keep is None else torch.tensor(keep)
    return call(label, x, query, keep.bool(), names=("x", "query", "keep"), tolerance=tolerance)


def _only_padding(answer):
    """Zeros that no longer depend on x and query are right, too, so both are added 0 times. 0 · nan is nan."""
    x, query = (
        draw(seed, *shape, dtype=_NARROW).requires_grad_()
        for seed, shape in ((36, (2, 3, 4)), (37, (4, 1)))
    )
    result = answer(x, query, torch.zeros(2, 3, dtype=torch.bool))
    dx, dq = torch.autograd.grad(result.sum() + 0 * x.sum() + 0 * query.sum(), (x, query))
    return {"the result": result.detach(), "the gradient of x": dx, "the gradient of query": dq}


_LOUD = draw(
    31, 2, 4, 3, mean=-3, dtype=_NARROW
)  # the tokens' scores are all below 0, those of some padding far above
_LOUD[1, :2] = numbers([90, 0, 90], [70, 5, 80], dtype=_NARROW)
_FAR = numbers([[20]], [[-20]], dtype=_NARROW) + draw(29, 2, 3, 4, dtype=_NARROW)
_EMPTY = [[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]  # the second sample is all padding
_LOW = numbers([[-19000, -19001], [-19000, -19000.5], [0.5, 1]])
_POOL_PROBES = [
    _pooled("x (2, 3, 4)", draw(21, 2, 3, 4, dtype=_NARROW), draw(22, 4, 1, dtype=_NARROW)),
    _pooled("x (3, 3, 3)", draw(23, 3, 3, 3, dtype=_NARROW), draw(24, 3, 1, dtype=_NARROW)),
    _pooled(
        "a batch of one, (1, 5, 3)",
        draw(25, 1, 5, 3, dtype=_NARROW),
        draw(26, 3, 1, dtype=_NARROW),
    ),
    # float32 scores around 200 lie 1.5e-5 apart, and the gradient of query is of order 20
    _pooled(
        "scores around 200 and around -200",
        _FAR,
        numbers([5], [2], [1], [2], dtype=_NARROW),
        tolerance=2e-3,
    ),
    _pooled(
        "scores from -150 to 150 in one sample",
        50 * numbers([[-3], [1], [3]], dtype=_NARROW),
        torch.ones(1, 1),
    ),
    _pooled("float64 and a long query", draw(27, 2, 4, 3), 6 * draw(28, 3, 1), tolerance=1e-9),
    _pooled(
        "a sample with two places of padding",
        draw(32, 2, 4, 3),
        draw(33, 3, 1),
        [[1] * 4, [1, 1, 0, 0]],
        1e-9,
    ),
    # 6e-5: the padding's gradient is 0, that of the query a sum of products of order 10
    _pooled(
        "padding first, with scores above 50",
        _LOUD,
        torch.ones(3, 1),
        [[1, 1, 0, 1], [0, 0, 1, 1]],
        6e-5,
    ),
    # A finite number in the place of -inf has to lie far below every score. float64, because gradients cancel here.
    _pooled(
        "tokens with scores near -38000, and padding",
        _LOW,
        numbers([1], [1]),
        [[1, 1, 0]],
        1e-7,
    ),
    _pooled(
        "three samples, one of them all padding",
        draw(34, 3, 4, 5),
        draw(35, 5, 1),
        _EMPTY,
        1e-9,
    ),
    Probe("a batch of nothing but padding", _only_padding, tolerance=0.0),
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
    scores = plain.masked_fill(hidden, 0.0)
    weights = shares

    # the number that you fill in at the padding is not far enough below the scores, which may be large, so the padding takes its share. | Fill in -inf before the softmax.
    scores = plain.masked_fill(hidden, -100.0)
    # or
    scores = plain.masked_fill(hidden, -1e4)

    # keep is (B, T) and the scores are (B, T, 1): give the mask its last axis, ~keep[..., None].
    scores = plain.masked_fill(~keep, -INF)

    # the mask is the wrong way round: keep is True at tokens, so the padding is ~keep.
    hidden = keep[..., None]
    # or
    scores = plain.masked_fill(~hidden, -INF)
    # or
    weights = shares.masked_fill(~hidden, 0.0)

    # the output is healed and the gradient is not: 0 · nan is nan. | Overwrite the weights of the padding with 0 after the softmax, and the scores with masked_fill before it.
    weights = shares
    return (weights * x).sum(1).nan_to_num(0.0)
    # or
    scores = plain + torch.zeros_like(plain).masked_fill(hidden, -INF)

    # the weights of the tokens are all 1: the scores are (B, T, 1), and their last axis has size 1.
    shares = F.softmax(scores, dim=-1)

    # the weights are normalized across the batch: axis 0 (which F.softmax picks by itself when a tensor has three axes and dim is left out). | The tokens are axis 1.
    shares = F.softmax(scores, dim=0)

    # the weighted tokens are not summed yet. | Sum over axis 1 gives (B, C).
    return weights * x

    # the scores are divided by sqrt(C): a different temperature than the layer had. | Leave the scores as they are.
    plain = x @ query / x.shape[-1] ** 0.5

    # exp overflows. | F.softmax over axis 1 subtracts the largest score first.
    shares = scores.exp() / scores.exp().sum(1, keepdim=True)
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
    examine(
        answer,
        "mended_pool",
        _POOL_PROBES,
        in_float64(_pool),
        _POOL_MISTAKES,
        tried,
        contract=_POOL,
    )

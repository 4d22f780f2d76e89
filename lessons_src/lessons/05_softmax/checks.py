"""Checks of lesson 5."""

import math

import torch
from torch.nn import functional as F

from fromscratch.softmax import safe_softmax as _safe_softmax
from lessonkit.check.declare import Probe, draw, exercise, numbers, quiz

INF = math.inf


def _softmax(x):
    largest = x.amax(-1, keepdim=True)
    shifted = x - largest
    e = torch.exp(shifted)
    total = e.sum(-1, keepdim=True)
    return e / total


safe_softmax = exercise(
    _safe_softmax,
    [
        # 1e-12: an eps in the sum shows
        ("the row 1, 2, 3", numbers(1, 2, 3), {"tolerance": 1e-12}),
        ("a square matrix", 2 * draw(2, 4, 4)),
        # float32 numbers around 200 lie 1.5e-5 apart: so coarse is a logarithm of the sum, and no sum of exponentials
        (
            "two float32 rows 200 apart",
            numbers([0, 1, 2], [-200, -199, -197.5], dtype=torch.float32),
            {"tolerance": 1e-6},
        ),
        (
            "float32 rows with large entries",  # e^90 is inf, and no more so less the mean, or the place
            numbers([0, -1, 0.5, 1, 200], [0, -1, 0.5, 1, 90], dtype=torch.float32),
            {"tolerance": 1e-6},
        ),
        # a finite number in the place of -inf has to lie far below every entry
        ("two rows with a masked entry, -inf", numbers([0, -60, -INF], [-3e5, -300001, -INF])),
    ],
    [
        Probe(
            "the row 0, -60",
            lambda answer: {"1e26 times the second share": 1e26 * answer(numbers(0, -60))[1]},
        ),
        Probe(
            "the row 0, -60, -inf",
            lambda answer: {
                "1e40 times the third share": 1e40 * answer(numbers(0, -60, -INF))[2]
            },
        ),
    ],
    takes={"x": "... D"},
    values=("ordinary", "offset", "small", "outlier", "constant"),
    by_hand=("softmax", "log_softmax", "softmin"),
    tried="one to five axes, two number types, entries from -300,000 to 10,000, a mask, gradients",
    wrong={
        _softmax: """
    # exp overflows: in float32 e^89 is already inf, and inf/inf is nan (far below 0 it is 0/0). | Subtract the row's largest entry first.
    shifted = x

    # the sum has lost its axis and meets the wrong rows. | Say keepdim=True in the sum.
    total = e.sum(-1)

    # the maximum has lost its axis and meets the wrong rows. | Say keepdim=True in the maximum.
    largest = x.amax(-1)

    # x.max(-1, ...) returns a pair, the entries first and their places second. | Take the first of the two, .values, or x.amax.
    largest = x.max(-1, keepdim=True)
    # or
    largest = x.argmax(-1, keepdim=True)

    # the largest entry is subtracted on one side of the line only. | Use the same e^(x - max) above and below it.
    return x.exp() / total
    # or
    total = x.exp().sum(-1, keepdim=True)

    # the sum below is over x. It must be over the exponentials.
    total = x.sum(-1, keepdim=True)

    # one sum for the whole tensor. Every row has its own. | Sum over axis -1, keepdim=True.
    total = e.sum()

    # the largest entry of the whole tensor is subtracted. A row far below it becomes 0/0. | Subtract the largest of its own row.
    largest = x.max()

    # the largest of the absolute values is subtracted. A row far below 0 is then moved further down, to 0/0. | Subtract the largest entry.
    largest = x.abs().amax(-1, keepdim=True)

    # the mean is subtracted. That is a shift too, but the largest entry can still be far above it: e^160 is inf.
    largest = x.mean(-1, keepdim=True)

    # x - logsumexp(x) loses digits where x is large: the two are rounded before they are subtracted. | Subtract the largest entry first, and divide by the sum.
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))

    # exp is missing: softmax divides e^x by the sum of e^x.
    e = shifted

    # the exponentials do not sum to 1 yet. | Divide by their sum, over axis -1.
    return e

    # that is the logarithm of the shares.
    return shifted - torch.log(total)

    # the row is divided by its largest entry: that changes the result. | Subtract it.
    shifted = x / largest

    # clamp makes all entries beyond its limit equal, and without a limit below, a row far below 0 is still 0/0. | Subtract the row's largest entry.
    shifted = x.clamp(-50, 50)
    # or
    shifted = x.clamp(max=80)

    # an eps in the sum. There is nothing to protect: once the largest is subtracted, the sum is at least 1.
    total = e.sum(-1, keepdim=True) + 1e-8

    # there is a limit below, and an entry under it gets a share that is too large. Without a limit the smallest shares round to 0 by themselves.
    shifted = (x - largest).clamp(min=-80)
    """
    },
)

_POSITIVE = "Softmax is never negative."
_SIGN = "x - mean turns its sign; the deviation is never negative, so it stays. The output is -LN(x)."
_LATER = "softmax has turned the factor into other shares before LN sees it. With three or more entries they are no multiple of the old ones, not even shifted."
_PLACES = "The largest entry of x is the smallest of -x: their shares trade places."
_BETTER = "That is true, but it can be said better: only the sign of each entry turns."
shift_and_scale = quiz(
    {
        "softmax(-x)": ("changed", {"same": _PLACES, "negated": _POSITIVE}),
        "LN(-x)": ("negated", {"same": _SIGN, "changed": _BETTER}),
        "LN(softmax(2 * x))": ("changed", dict.fromkeys(("same", "negated"), _LATER)),
    }
)

_SQUARE = "Both parts of the quotient rule stand over S^2, which is 25."
_BELOW = "That is the share itself. S grows, too, so the quotient rule takes something away from u' / S."
_TAKEN = "That is what is taken away from the share."
_STILL = "That is what the growth of S takes away. e^x of this share grows as well."
_SAME = "That is {0} · {0}. The rule puts e^x1 · e^x2 over S²."


_OWN = (6 / 25, {3 / 5: _BELOW, 6 / 5: _SQUARE, 6: _SQUARE, -9 / 25: _STILL, 9 / 25: _TAKEN})
_OTHER = (
    -6 / 25,
    {
        0: "e^x of this share does not depend on that entry. But S does, and it stands below the line.",
        -6 / 5: _SQUARE,
        -6: _SQUARE,
        6 / 25: "That entry makes S grow, so this share becomes smaller.",
        -4 / 25: _SAME.format("p2"),
        -9 / 25: _SAME.format("p1"),
    },
)
softmax_on_paper = quiz(dp1_dx1=_OWN, dp1_dx2=_OTHER, tolerance=1e-3)


def _pool(x, query, keep):
    hidden = ~keep[..., None]
    plain = x @ query
    scores = plain.masked_fill(hidden, -INF)
    shares = F.softmax(scores, dim=1)
    weights = shares.masked_fill(hidden, 0.0)
    return (weights * x).sum(1)


_EMPTY = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
# the last sentence tells a number at the padding from padding that is taken out later: there it lies beside the tokens
_FAR = numbers(
    [[-19000, -19001], [-19000, -19000.5], [0.5, 1]],
    [[400, 401], [400, 399], [-200, 300]],
    [[-19000, -19001], [-19000, -19000.5], [-19000, -19002]],
)
mended_pool = exercise(
    _pool,
    ("x (2, 3, 4)", draw(21, 2, 3, 4), draw(22, 4, 1), torch.ones(2, 3).bool()),
    # the padding need not stand at the end
    (
        "two samples, padding first",
        draw(23, 2, 4, 3),
        draw(24, 3, 1),
        torch.tensor([[0, 0, 1, 1], [1, 1, 0, 1]]).bool(),
    ),
    ("three samples, one of them all padding", draw(34, 3, 4, 5), draw(35, 5, 1), _EMPTY),
    # A finite number in the place of -inf has to lie far below every score. 1e-7, because gradients cancel here.
    (
        "tokens with scores near -38000 and 800, and padding",
        _FAR,
        numbers([1], [1]),
        torch.tensor([[True, True, False]] * 3),
        {"tolerance": 1e-7},
    ),
    (
        "a sentence whose scores are -1e10 and less, and padding",
        numbers([[-1, 0], [-2, 0], [3, 1]]),
        numbers([1e10], [0]),
        torch.tensor([[True, True, False]]),
        {"gradient": False},
    ),
    takes={"x": "B T C", "query": "C 1", "keep": "B T"},
    sizes={"B": (2, 1, 17), "T": (3, 1, 9, 300), "C": (5, 1, 40)},
    valid={"keep": lambda t: t > -0.8},
    values=("ordinary", "small", "constant"),
    fixed=("keep",),
    gradient=1,
    tried="a batch of one, equal sizes, scores from -1e10 to 800, padding, empty samples, two dtypes, gradients",
    wrong="""
    # exp of the scores as they are overflows above, and is 0 far below. | Subtract the largest score of a sentence's tokens first, or take softmax.
    shares = plain.exp().masked_fill(hidden, 0.0)
    weights = shares / shares.sum(1, keepdim=True).clamp(min=1e-30)

    # a sample that is all padding is still nan: its largest score is -inf, and -inf - (-inf) is nan, also times 0. | Overwrite the weights of the padding with 0 after the softmax, by masked_fill.
    weights = shares

    # the sample that is all padding gives the mean of its padding: softmax makes any scores sum to 1. | Set the weights of the padding to 0 after the softmax.
    scores, weights = plain.masked_fill(hidden, -1e9), F.softmax(plain.masked_fill(hidden, -1e9), dim=1)

    # the padding is not masked: keep is not used. | Fill in -inf before the softmax.
    scores, weights = plain, F.softmax(plain, dim=1)

    # the padding is taken out after the softmax only, when it has taken its share. What is left may be next to nothing, divided by its sum or not. | Fill in -inf before the softmax.
    scores = plain
    # or
    scores = plain
    weights = shares.masked_fill(hidden, 0.0) / (shares.masked_fill(hidden, 0.0).sum(1, keepdim=True) + 1e-9)
    # or
    shares = F.softmax(plain, dim=1)
    weights = shares.masked_fill(hidden, 0.0) / shares.masked_fill(hidden, 0.0).sum(1, keepdim=True).clamp(min=1e-9)

    # the number that you fill in at the padding, 0 perhaps, is not far below all scores, so the padding takes its share. | Fill in -inf before the softmax.
    scores = plain.masked_fill(hidden, 0.0)
    # or
    scores = plain.masked_fill(hidden, -1e4)

    # keep is (B, T) and the scores are (B, T, 1): give the mask its last axis, ~keep[..., None].
    scores = plain.masked_fill(~keep, -INF)

    # the mask is the wrong way round: keep is True at tokens, so the padding is ~keep.
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

    # the weights are normalized across the batch: axis 0, which F.softmax takes where dim is left out. | The tokens are axis 1.
    shares = F.softmax(scores, dim=0)

    # the scores are divided by sqrt(C): a different temperature than the layer had. | Leave the scores as they are.
    plain = x @ query / x.shape[-1] ** 0.5

    # exp overflows. | F.softmax over axis 1 subtracts the largest score first.
    shares = scores.exp() / scores.exp().sum(1, keepdim=True)
    """,
)

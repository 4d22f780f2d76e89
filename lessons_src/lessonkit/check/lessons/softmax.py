"""Checks of lesson 5: softmax, what changes it, temperature, its Jacobian, a pooling layer that never learns."""

import dataclasses
import math

import torch
from torch.nn import functional as F

from lessonkit.check.core import Mistake, call, choice, draw, examine, in_float64, values

INF = math.inf


def _rows(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


# ---- softmax ---------------------------------------------------------------------------------------------------------

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
]


def _stable(dim=-1, reference=None, total=None):
    """A softmax: exp(x - reference(x)) over total(e); dim is also the axis of what is not given."""

    def softmax(x):
        axis = min(dim, x.dim() - 1)
        e = torch.exp(x - (reference(x) if reference else x.amax(axis, keepdim=True)))
        return e / (total(e) if total else e.sum(axis, keepdim=True))

    return softmax


def _zero(x):
    return torch.zeros((), dtype=x.dtype)


def _naive(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def _axis_one(x):
    e = torch.exp(x - x.amax(1, keepdim=True))  # raises on a single row
    return e / e.sum(1, keepdim=True)


def _no_dim(x):
    return F.softmax(x, 0 if x.dim() in (1, 3) else 1)  # what F.softmax does without dim


def _after(x):
    e = x.exp() - x.exp().amax(-1, keepdim=True)
    return e / e.sum(-1, keepdim=True)


def _standardized(correction):
    return lambda x: F.softmax((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=correction), -1)


def _below(eps):
    return _stable(total=lambda e: e.sum(-1, keepdim=True) + eps)


def _plain_share(x):
    return x / x.sum(-1, keepdim=True)


_OVERFLOW = (
    "exp overflows: in float32 e^89 is already inf, and inf/inf is nan (far below 0 it is 0/0). Subtract the row's "
    "largest entry first."
)
_KEEP_SUM = "the sum has lost its axis and meets the wrong rows. Say keepdim=True in the sum."
_KEEP_MAX = "the maximum has lost its axis and meets the wrong rows. Say keepdim=True in the maximum."
_BATCH = "you reduce the first axis, across the samples. Maximum and sum are over the last axis, -1."
_AXIS_1 = "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor."
_ONE_SUM = "one sum for the whole tensor. Every row has its own: sum over axis -1, keepdim=True."
_EXP = "exp is missing: softmax divides e^x by the sum of e^x."

_SOFTMAX_MISTAKES = [
    *[Mistake(_OVERFLOW, _stable(reference=f)) for f in (_zero, lambda x: 10.0)],
    *[Mistake(_KEEP_SUM, _stable(reference=f, total=lambda e: e.sum(-1))) for f in (None, _zero, lambda x: x.amax(-1))],
    Mistake(_KEEP_MAX, _stable(reference=lambda x: x.amax(-1))),
    *[
        Mistake(_BATCH, f)
        for f in (_stable(0), _stable(0, reference=_zero), _stable(total=lambda e: e.sum(0, keepdim=True)))
    ],
    *[Mistake(_AXIS_1, f) for f in (_stable(1), _stable(1, reference=_zero), _axis_one)],
    Mistake("dim is left out, so F.softmax picks the axis itself: 0 if a tensor has three axes. Say dim=-1.", _no_dim),
    Mistake(
        "exp overflows in float64 too, only later: above 709, and far below 0 the row is 0/0. Subtract the row's largest "
        "entry first.",
        lambda x: _naive(x.double()).to(x.dtype),
    ),
    Mistake(
        "the largest absolute value is subtracted. In a row far below 0 that makes it worse: 0/0. Subtract the largest "
        "entry.",
        _stable(reference=lambda x: x.abs().amax(-1, keepdim=True)),
    ),
    Mistake(
        "the largest is subtracted after exp, which changes the shares and comes too late. Subtract it from x.", _after
    ),
    Mistake(
        "the sum below is over x. It must be over the exponentials.",
        lambda x: torch.exp(x - x.amax(-1, keepdim=True)) / x.sum(-1, keepdim=True),
    ),
    Mistake(
        "there is a 1 too many below the line: softmax divides by the sum of the exponentials alone.",
        _stable(total=lambda e: 1 + e.sum(-1, keepdim=True)),
    ),
    Mistake(
        "the exponentials are divided by their mean. The shares must sum to 1, not to D: divide by the sum.",
        _stable(total=lambda e: e.mean(-1, keepdim=True)),
    ),
    Mistake(
        "the exponentials are divided by their length (the root of the sum of squares). Divide by their sum.",
        _stable(total=lambda e: e.norm(dim=-1, keepdim=True)),
    ),
    Mistake(
        "that is argmax: 1 for the largest, 0 for the others. Softmax gives every entry its share.",
        lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype),
    ),
    *[Mistake(_ONE_SUM, _stable(reference=f, total=lambda e: e.sum())) for f in (None, _zero, lambda x: x.max())],
    Mistake(
        "the largest entry of the whole tensor is subtracted. A row far below it becomes 0/0: subtract the largest of "
        "its own row.",
        _stable(reference=lambda x: x.max()),
    ),
    Mistake(
        "the largest of each column is subtracted. That shifts the entries of one row differently: axis -1.",
        _stable(reference=lambda x: x.amax(0, keepdim=True)),
    ),
    Mistake(
        "the mean is subtracted. That is a shift too, but the largest entry can still be far above it: e^160 is inf.",
        _stable(reference=lambda x: x.mean(-1, keepdim=True)),
    ),
    Mistake(
        "the smallest entry is subtracted, which leaves only exponents above 0: they overflow. Subtract the largest.",
        _stable(reference=lambda x: x.amin(-1, keepdim=True)),
    ),
    Mistake(
        "the largest entry is subtracted above the line only. Use the same e^(x - max) in the sum.",
        lambda x: torch.exp(x - x.amax(-1, keepdim=True)) / x.exp().sum(-1, keepdim=True),
    ),
    Mistake("that is the logarithm of softmax. Return its exponential.", lambda x: F.log_softmax(x, -1)),
    *[Mistake(_EXP, f) for f in (_plain_share, lambda x: _plain_share(x - x.amax(-1, keepdim=True)))],
    *[
        Mistake("the exponentials do not sum to 1 yet. Divide by their sum, over axis -1.", f)
        for f in (torch.exp, lambda x: torch.exp(x - x.amax(-1, keepdim=True)))
    ],
    *[
        Mistake("the row is divided by its largest entry: that changes the result. Subtract it.", f)
        for f in (lambda x: _naive(x / x.amax(-1, keepdim=True)), lambda x: F.softmax(x / x.amax(-1, keepdim=True), -1))
    ],
    Mistake("the sign is turned: x - max, not max - x.", lambda x: F.softmax(-x, -1)),
    Mistake("powers of base 2. Softmax takes powers of e: torch.exp.", lambda x: F.softmax(x * math.log(2), -1)),
    Mistake(
        "x is divided by sqrt(D) first. Attention does that to its scores; it is a temperature, no part of softmax.",
        lambda x: F.softmax(x / x.shape[-1] ** 0.5, -1),
    ),
    Mistake("sigmoid looks at one entry at a time. Softmax compares the entries of a row.", torch.sigmoid),
    *[
        Mistake("that is LayerNorm. Softmax takes exponentials and divides by their sum.", f)
        for f in (lambda x: F.layer_norm(x, (x.shape[-1],)), lambda x: F.layer_norm(x, (x.shape[-1],), eps=0.0))
    ],
    *[
        Mistake("the row is normalized before the exponentials. That forgets the scale of x, which softmax needs.", f)
        for f in (lambda x: F.softmax(F.layer_norm(x, (x.shape[-1],)), -1), _standardized(0), _standardized(1))
    ],
    *[
        Mistake(
            "clamp hides the overflow: entries beyond the limit become equal. Subtract the row's largest entry.",
            lambda x, low=low, high=high: _naive(x.clamp(low, high)),
        )
        for low, high in ((-80, 80), (-88, 88), (-50, 50), (-100, 100), (None, 80), (None, 88), (None, 50))
    ],
    *[
        Mistake("nan_to_num hides the nan; the row is still wrong. Subtract the row's largest entry.", f)
        for f in (lambda x: _naive(x).nan_to_num(0.0), lambda x: _naive(x).nan_to_num(1.0))
    ],
    *[
        Mistake(
            "an eps in the sum. There is nothing to protect: once the largest is subtracted, the sum is at least 1.",
            _below(10.0**-digits),
        )
        for digits in range(4, 13)
    ],
    Mistake(
        "the sum is cut from the gradient. Only the subtracted maximum may be detached, because it changes nothing.",
        _stable(total=lambda e: e.sum(-1, keepdim=True).detach()),
    ),
]


def softmax(answer):
    """Check a function x (..., D) -> softmax over the last axis that never overflows (lesson 5)."""
    examine(
        answer,
        "softmax",
        _SOFTMAX_PROBES,
        in_float64(_stable()),
        _SOFTMAX_MISTAKES,
        tried="1 to 3 axes, three dtypes, entries from -900 to 200, a mask, gradients",
    )


# ---- what changes what -----------------------------------------------------------------------------------------------

_SHIFT_AND_SCALE = {
    "softmax(x + 3)": "same",
    "softmax(2 * x)": "changed",
    "softmax(-x)": "changed",
    "LN(x + 3)": "same",
    "LN(2 * x)": "same",
    "LN(-x)": "negated",
    "softmax(LN(2 * x))": "same",
    "LN(softmax(2 * x))": "changed",
}

_E3 = "Every exponential gets the factor e^3, and so does their sum."
_ODDS = "Doubling x squares every e^x: the shares e^x / sum are powers of what they were, and the largest grows."
_EVEN = "The largest entry of x is the smallest of -x: their shares trade places."
_MEAN = "The mean moves by 3 with the row; x - mean stays."
_SCALE = "x - mean doubles, and the deviation doubles too."
_SIGN = "x - mean turns its sign; the deviation is never negative, so it stays. The output is -LN(x)."
_FIRST = "LN comes first and takes the factor away. Softmax sees the same row as before."
_LATER = "softmax has turned the factor into other shares before LN sees it, and they are no multiple of the old ones."

_SHIFT_CAUSES = [
    ("softmax(x + 3)", "changed", _E3),
    ("softmax(x + 3)", "negated", "Softmax is never negative."),
    ("softmax(2 * x)", "same", _ODDS),
    ("softmax(2 * x)", "negated", "Softmax is never negative."),
    ("softmax(-x)", "same", _EVEN),
    ("softmax(-x)", "negated", "Softmax is never negative."),
    ("LN(x + 3)", "changed", _MEAN),
    ("LN(x + 3)", "negated", _MEAN),
    ("LN(2 * x)", "changed", _SCALE),
    ("LN(2 * x)", "negated", _SCALE),
    ("LN(-x)", "same", _SIGN),
    ("LN(-x)", "changed", "That is true, but it can be said better: only the sign of each entry turns."),
    ("softmax(LN(2 * x))", "changed", _FIRST),
    ("softmax(LN(2 * x))", "negated", _FIRST),
    ("LN(softmax(2 * x))", "same", _LATER),
    ("LN(softmax(2 * x))", "negated", _LATER),
]


def shift_and_scale(answer):
    """Check eight predictions: what a change of x does to softmax and to LayerNorm (lesson 5)."""
    values(answer, "shift_and_scale", _SHIFT_AND_SCALE, _SHIFT_CAUSES)


# ---- temperature -----------------------------------------------------------------------------------------------------

_NATURAL = "softmax is built on e: take the natural logarithm, math.log(odds)."


def _number(probe):
    """The probe, for which a NumPy number or a tensor of one is a plain number."""

    def run(answer):
        seen = probe.run(answer)
        return {what: v.item() if getattr(v, "shape", None) == () else v for what, v in seen.items()}

    return dataclasses.replace(probe, run=run)


def temperature_for(answer):
    """Check a function (gap, odds) -> temperature T at which the larger of two entries gets odds times the share."""
    probes = [  # 1e-6: a logarithm in float32 is a right answer
        _number(call(f"gap = {gap}, odds = {odds}", gap, odds, names=("gap", "odds"), tolerance=1e-6))
        for gap, odds in ((2.0, 9.0), (1.0, 10.0), (0.5, 3.0), (6.0, 1.5), (1.0, 1000.0))
    ]
    mistakes = [
        Mistake(
            "that is the factor 1/T, which multiplies x. The temperature divides x.",
            lambda gap, odds: math.log(odds) / gap,
        ),
        Mistake("the logarithm is missing. e^(gap/T) = odds: what is gap/T?", lambda gap, odds: gap / odds),
        Mistake(
            "e^(gap/T) = odds, so gap/T is the logarithm of odds: T divides the gap by it.",
            lambda gap, odds: gap * math.log(odds),
        ),
        *[
            Mistake(_NATURAL, f)
            for f in (
                lambda gap, odds: gap / math.log10(odds),
                lambda gap, odds: gap / math.log2(odds),
                lambda gap, odds: math.log10(odds) / gap,
                lambda gap, odds: math.log2(odds) / gap,
            )
        ],
        Mistake(
            "that is a difference. T divides x, so it stands below the gap: gap/T = log(odds).",
            lambda gap, odds: gap - math.log(odds),
        ),
        Mistake(
            "odds / (1 + odds) is the probability of the larger of two entries. The ratio of the two is odds itself.",
            lambda gap, odds: gap / math.log(odds / (1 + odds)),
        ),
        Mistake(
            "no logarithm of the gap: the exponents x/T differ by the gap itself, divided by T.",
            lambda gap, odds: math.log(gap) / math.log(odds),
        ),
        Mistake(
            "odds are e to the power of gap/T. To get back to the exponent, take the logarithm of odds, not e^odds.",
            lambda gap, odds: gap / math.exp(odds),
        ),
        Mistake("the gap is missing: twice the gap needs twice the temperature.", lambda gap, odds: 1 / math.log(odds)),
        Mistake("that is gap/T, the logarithm of odds. Solve for T.", lambda gap, odds: math.log(odds)),
        Mistake("gap and odds have changed places.", lambda gap, odds: odds / math.log(gap)),
        *[
            Mistake(
                "odds is the ratio of the two shares itself: take its logarithm, not that of odds + 1 or odds - 1.", f
            )
            for f in (lambda gap, odds: gap / math.log(odds + 1), lambda gap, odds: gap / math.log(odds - 1))
        ],
        Mistake(
            "odds - 1 is no exponent. e^(gap/T) = odds: which function undoes e^?", lambda gap, odds: gap / (odds - 1)
        ),
        Mistake(
            "that is the odds at T = odds. Here the odds are given: solve e^(gap/T) = odds for T.",
            lambda gap, odds: math.exp(gap / odds),
        ),
        Mistake(
            "the sign is turned: a negative temperature would prefer the smaller entry.",
            lambda gap, odds: -gap / math.log(odds),
        ),
    ]
    examine(
        answer,
        "temperature_for",
        probes,
        lambda gap, odds: gap / math.log(odds),
        mistakes,
        tried="gaps from 0.5 to 6, odds from 1.5 to 1000",
    )


# ---- the Jacobian ----------------------------------------------------------------------------------------------------

_SHARES = F.softmax(torch.tensor([2.0, -1, 0.5, 3], dtype=torch.float64), -1)

# The gradient of the Jacobian itself is not asked for: a loop that fills a tensor is a good answer.
_JACOBIAN_PROBES = [
    call("one row of 4 shares", _SHARES, names=("p",), gradient=False),
    call("shares 0.5, 0.25, 0.25", torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64), names=("p",), gradient=False),
    call("a batch of 2 rows", F.softmax(draw(11, 2, 3), -1), names=("p",), gradient=False),
    call("a square batch, 4 rows of 4", F.softmax(draw(12, 4, 4), -1), names=("p",), gradient=False),
    call("a batch of sequences, (2, 3, 4)", F.softmax(draw(13, 2, 3, 4), -1), names=("p",), gradient=False),
    call("a float32 batch", F.softmax(draw(14, 3, 5, dtype=_NARROW), -1), names=("p",), gradient=False, tolerance=1e-6),
]


def _outer(p):
    return p[..., :, None] * p[..., None, :]


def _eye(p):
    return torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)


def _jacobian(p):
    return torch.diag_embed(p) - _outer(p)


def _batch_summed(p):
    return torch.diag_embed(p) - (torch.outer(p, p) if p.dim() == 1 else p.transpose(-2, -1) @ p)


_BY_ENTRY = (
    "the products are taken entry by entry. p p^T has p_i p_j in row i and column j: p[..., :, None] * p[..., None, :]."
)
_ALREADY = "softmax is applied to p. p is softmax's output already: the formula needs nothing else."
_ONE_ROW = (
    "this works for one row: torch.diag and torch.outer know no batch. torch.diag_embed(p) and "
    "p[..., :, None] * p[..., None, :] do."
)

_FROM_THE_FRONT = (
    "this takes a matrix only, because it counts the axes from the front. Put the new axis at the end, whatever "
    "comes before: p[..., :, None] and p[..., None, :]."
)
_INNER = "p @ p.T of one row is a number, the sum of the squares. p p^T has a row and a column for every entry."


def _flattened(p):
    s = p.reshape(-1, 1)
    return torch.diagflat(s) - s @ s.T


_JACOBIAN_MISTAKES = [
    *[
        Mistake(_FROM_THE_FRONT, f)
        for f in (
            lambda p: torch.diag_embed(p) - p[:, :, None] * p[:, None, :],
            lambda p: torch.diag_embed(p) - torch.einsum("bi,bj->bij", p, p),
        )
    ],
    *[Mistake(_INNER, f) for f in (lambda p: torch.diag(p) - p @ p.T, lambda p: torch.diag_embed(p) - p @ p.T)],
    *[
        Mistake(
            "one of the two factors has no new axis, so rows of the batch meet each other: p[..., :, None] * p[..., None, :].",
            f,
        )
        for f in (lambda p: torch.diag_embed(p) - p[..., None] * p, lambda p: torch.diag_embed(p) - p[:, None] * p)
    ],
    Mistake(
        "torch.eye(D) * p works for one row. For a batch p needs an axis: * p[..., None, :], or torch.diag_embed(p).",
        lambda p: _eye(p) * p - _outer(p),
    ),
    Mistake(
        "p is squared on the diagonal before the products are subtracted: diag(p) - p p^T.",
        lambda p: torch.diag_embed(p**2) - _outer(p),
    ),
    Mistake(
        "jacrev of a whole batch differentiates every row by every row: (B, D, B, D). Use the formula with p.",
        lambda p: torch.func.jacrev(lambda x: F.softmax(x, -1))(p.log()),
    ),
    Mistake("the sign is the other way round: diag(p) - p p^T.", lambda p: _outer(p) - torch.diag_embed(p)),
    Mistake(
        "minus, not plus: one share can only grow at the cost of the others.", lambda p: torch.diag_embed(p) + _outer(p)
    ),
    Mistake("the diagonal matrix of p is missing: diag(p) - p p^T.", lambda p: -_outer(p)),
    Mistake("the entries off the diagonal are missing: -p_i p_j.", lambda p: torch.diag_embed(p * (1 - p))),
    Mistake("p p^T is never subtracted: the sum below the line changes too.", torch.diag_embed),
    Mistake(
        "p_i squared is subtracted twice on the diagonal: diag(p) - p p^T has p_i - p_i p_i there.",
        lambda p: torch.diag_embed(p * (1 - p)) - _outer(p),
    ),
    *[
        Mistake(
            "p_i (1 - p_j) holds only where i = j. Elsewhere it is -p_i p_j: p stands on the diagonal only, diag_embed(p).",
            f,
        )
        for f in (
            lambda p: p[..., :, None] * (1 - p[..., None, :]),
            lambda p: p[..., None, :] * (1 - p[..., :, None]),
            lambda p: p - _outer(p),
        )
    ],
    Mistake(
        "the identity stands where diag(p) should: the diagonal holds p_i - p_i p_i.", lambda p: _eye(p) - _outer(p)
    ),
    *[
        Mistake("that is the Jacobian of the logarithm of softmax.", f)
        for f in (
            lambda p: _eye(p) - p[..., None, :].expand(*p.shape, p.shape[-1]),
            lambda p: _eye(p) - p[..., :, None].expand(*p.shape, p.shape[-1]),
        )
    ],
    *[
        Mistake(_BY_ENTRY, f)
        for f in (
            lambda p: torch.diag_embed(p) - (p * p)[..., None, :],
            lambda p: torch.diag_embed(p) - (p * p)[..., :, None],
            lambda p: torch.diag_embed(p) - p * p,
        )
    ],
    *[
        Mistake("p.T @ p sums over the batch: every row has an outer product of its own.", f)
        for f in (_batch_summed, lambda p: torch.diag_embed(p) - p.T @ p)
    ],
    *[
        Mistake(_ONE_ROW, f)
        for f in (
            _flattened,
            lambda p: torch.diag(p) - torch.outer(p, p),
            lambda p: torch.diag(p) - p[:, None] * p[None, :],
            lambda p: torch.diag(p) - _outer(p),
        )
    ],
    *[
        Mistake(_ALREADY, f)
        for f in (
            lambda p: _jacobian(F.softmax(p, -1)),
            lambda p: _outer(F.softmax(p, -1)) - torch.diag_embed(F.softmax(p, -1)),
        )
    ],
]


def softmax_jacobian(answer):
    """Check a function p (..., D), softmax's output -> its Jacobian (..., D, D) (lesson 5)."""
    examine(
        answer,
        "softmax_jacobian",
        _JACOBIAN_PROBES,
        in_float64(_jacobian),
        _JACOBIAN_MISTAKES,
        tried="one row, batches of rows and of sequences, float32 and float64",
    )


# ---- the clinic ------------------------------------------------------------------------------------------------------


def pool_diagnosis(answer):
    """Check the diagnosis of the pooling layer whose query never learns (lesson 5)."""
    choice(
        answer,
        "pool_diagnosis",
        {
            "axis": None,
            "saturation": "Saturated scores leave one weight at 1 and the others at 0, so the output would be one of the "
            "tokens. It is their sum, for scores of any size.",
            "detached": "Then the query would have no gradient at all (None). It has one: the query is connected, and the "
            "gradient is 0.",
            "shift": "Softmax ignores what is added to all scores alike. These scores differ from token to token.",
            "scale": "softmax sees the scale of the scores: a longer query should make the weights sharper.",
        },
    )


def _pool(x, query):
    return (F.softmax(x @ query, dim=1) * x).sum(1)


def _pool_with(weigh, total=lambda y: y.sum(1)):
    return lambda x, query: total(weigh(x @ query) * x)


def _pooled(label, x, query, tolerance=1e-5):  # scores of order 10 in float32, rounded at 1e-6
    return call(label, x, query, names=("x", "query"), tolerance=tolerance)


_POOL_PROBES = [
    _pooled("x (2, 3, 4)", draw(21, 2, 3, 4, dtype=_NARROW), draw(22, 4, 1, dtype=_NARROW)),
    _pooled("x (3, 3, 3)", draw(23, 3, 3, 3, dtype=_NARROW), draw(24, 3, 1, dtype=_NARROW)),
    _pooled("a batch of one, (1, 5, 3)", draw(25, 1, 5, 3, dtype=_NARROW), draw(26, 3, 1, dtype=_NARROW)),
    # float32 scores around 200 lie 1.5e-5 apart, and the gradient of query is of order 20
    _pooled(
        "scores around 200 and around -200",
        _rows([[20]], [[-20]], dtype=_NARROW) + draw(29, 2, 3, 4, dtype=_NARROW),
        _rows([5], [2], [1], [2], dtype=_NARROW),
        2e-3,
    ),
    _pooled("float64 and a long query", draw(27, 2, 4, 3), 6 * draw(28, 3, 1), 1e-9),
]


def _over_time(scores):
    return F.layer_norm(scores.squeeze(-1), (scores.shape[1],)).unsqueeze(-1)


_ACROSS = (
    "the weights are normalized across the batch: axis 0 (which F.softmax picks by itself when a tensor has three axes "
    "and dim is left out). The tokens are axis 1."
)
_AVERAGE = "that is the mean of the tokens. The query must decide their weights."


def _exponentials(scores, largest, total):
    e = (scores - largest(scores)).exp()
    return e / total(e)


_POOL_MISTAKES = [
    Mistake(
        "the largest score of the whole batch is subtracted. Scores far below it become 0/0: every sample has its own "
        "largest score. F.softmax over axis 1 sees to that.",
        _pool_with(lambda s: _exponentials(s, lambda s: s.max(), lambda e: e.sum(1, keepdim=True))),
    ),
    *[
        Mistake(
            "one sum for the whole batch: the weights of each sample must sum to 1. Sum over axis 1.",
            _pool_with(lambda s, f=f: _exponentials(s, f, lambda e: e.sum())),
        )
        for f in (lambda s: s.amax(1, keepdim=True), lambda s: s.max())
    ],
    Mistake(
        "the mean divides by the number of tokens, and the weights sum to 1 already: sum over axis 1.",
        lambda x, query: (F.softmax(x @ query, 1) * x).mean(1),
    ),
    Mistake(
        "the weighted tokens are not summed yet: sum over axis 1 gives (B, C).",
        lambda x, query: F.softmax(x @ query, 1) * x,
    ),
    Mistake(
        "these are the weights. Multiply the tokens by them and sum over axis 1.",
        lambda x, query: F.softmax(x @ query, 1),
    ),
    Mistake(
        "you sum over the batch. The tokens are axis 1: the result is (B, C).",
        lambda x, query: (F.softmax(x @ query, 1) * x).sum(0),
    ),
    Mistake(
        "softmax is applied twice: the second one makes the weights nearly equal.",
        _pool_with(lambda s: F.softmax(F.softmax(s, 1), 1)),
    ),
    Mistake("that is the logarithm of the weights. Take F.softmax.", _pool_with(lambda s: F.log_softmax(s, 1))),
    Mistake(
        "the sign of the scores is turned: the best match gets the smallest weight.",
        _pool_with(lambda s: F.softmax(-s, 1)),
    ),
    Mistake(
        "that is a softmax of the query, over the features. Softmax of the scores x @ query, over the tokens.",
        lambda x, query: (x @ F.softmax(query, 0) * x).sum(1),
    ),
    Mistake(
        "every feature has weights of its own. A token has one score: x @ query, of shape (B, T, 1).",
        lambda x, query: (F.softmax(x * query.mT, 1) * x).sum(1),
    ),
    Mistake(
        "the query is brought to length 1: the layer had no such step. Mend the axis only.",
        lambda x, query: (F.softmax(x @ (query / query.norm()), 1) * x).sum(1),
    ),
    Mistake(
        "the scores do not send a gradient back to x. Leave detach() away.",
        lambda x, query: (F.softmax(x.detach() @ query, 1) * x).sum(1),
    ),
    Mistake(
        "the weights are still all 1: the scores are (B, T, 1), and their last axis has size 1.",
        _pool_with(lambda s: F.softmax(s, -1)),
    ),
    Mistake(_ACROSS, _pool_with(lambda s: F.softmax(s, 0))),
    Mistake(
        "one softmax over the whole batch: the weights of each sample must sum to 1. The tokens are axis 1.",
        _pool_with(lambda s: F.softmax(s.flatten(), 0).view_as(s)),
    ),
    *[
        Mistake("LayerNorm over an axis of size 1 is always zero. Softmax over the tokens, axis 1.", _pool_with(f))
        for f in (torch.nn.LayerNorm(1), lambda s: F.layer_norm(s, (1,)), lambda s: s - s.mean(-1, keepdim=True))
    ],
    *[
        Mistake(
            "LayerNorm makes half of the weights negative and lets them sum to 0: no average. Softmax over axis 1.",
            _pool_with(f),
        )
        for f in (_over_time, lambda s: F.softmax(_over_time(s), 1))
    ],
    *[
        Mistake(_AVERAGE, f)
        for f in (
            lambda x, query: x.mean(1),
            lambda x, query: x.mean(1) + 0 * query.sum(),
            _pool_with(lambda s: F.softmax(s, -1) / s.shape[1]),
        )
    ],
    Mistake(
        "sigmoid looks at one token at a time, so the weights do not sum to 1. Softmax over axis 1.",
        _pool_with(torch.sigmoid),
    ),
    Mistake("the raw scores are the weights: they are not normalized. Softmax over axis 1.", _pool_with(lambda s: s)),
    Mistake(
        "dividing by the sum makes no weights: scores can be negative and their sum 0. Softmax makes them positive.",
        _pool_with(lambda s: s / s.sum(1, keepdim=True)),
    ),
    Mistake(
        "the scores are divided by sqrt(C): another temperature than the layer had. Mend the axis only.",
        lambda x, query: (F.softmax(x @ query / x.shape[-1] ** 0.5, 1) * x).sum(1),
    ),
    Mistake(
        "only the token with the largest score is taken, so the query gets no gradient. Softmax over axis 1.",
        lambda x, query: x[torch.arange(len(x)), (x @ query)[..., 0].argmax(1)],
    ),
    Mistake(
        "that is a softmax of x: the query is not used. Softmax of the scores x @ query.",
        lambda x, query: (F.softmax(x, 1) * x).sum(1),
    ),
    Mistake(
        "you sum over the features. The tokens are axis 1: the result is (B, C).",
        lambda x, query: (F.softmax(x @ query, 1) * x).sum(-1),
    ),
    Mistake(
        "the token axis is kept: sum(1) without keepdim gives (B, C).",
        lambda x, query: (F.softmax(x @ query, 1) * x).sum(1, keepdim=True),
    ),
    Mistake(
        "exp overflows. F.softmax over axis 1 subtracts the largest score first.",
        lambda x, query: ((x @ query).exp() / (x @ query).exp().sum(1, keepdim=True) * x).sum(1),
    ),
    Mistake(
        "after the squeeze the weights are (B, T) and meet the wrong axis of x: unsqueeze(-1) before you multiply.",
        lambda x, query: ((x @ query).squeeze(-1).softmax(-1) * x).sum(1),
    ),
    Mistake(
        "the weights are cut off, so no gradient of query arrives. Leave detach() away.",
        _pool_with(lambda s: F.softmax(s, 1).detach()),
    ),
]


def mended_pool(answer):
    """Check the clinic's pooling (x (B, T, C), query (C, 1)) -> (B, C), mended (lesson 5)."""
    examine(
        answer,
        "mended_pool",
        _POOL_PROBES,
        in_float64(_pool),
        _POOL_MISTAKES,
        tried="a batch of one, equal sizes, scores from -200 to 200, two dtypes, gradients of x and query",
    )

"""Checks of lesson 7: the backward pass in steps and in one formula, inputs that tell wrong gradients from the right
one, an autograd.Function that can be differentiated twice.

The gradients of a backward function are compared as total derivatives: mean and rstd are computed from x on the tape.
Formulas that agree for every x agree in them too, however they treat a mean that is not the mean of x.
"""

from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.mistakes import Mistake, announce, edited, known
from lessonkit.check.observations import Raised
from lessonkit.check.probing import Probe, call, draw, gradients, in_float64, raised
from lessonkit.check.verdicts import accept, refuse_dots, reject
from lessonkit.check.wording import kind_of

_AUTOGRAD = ("grad", "backward")  # torch.autograd.grad and tensor.backward, where the formula is to be written


def _stats(x, eps):
    mean = x.mean(-1, keepdim=True)
    return mean, torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)


# Line by line
def _in_steps(dy, x, weight, eps=1e-5):
    D = x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    var = (centered * centered).mean(-1, keepdim=True)
    rstd = (var + eps) ** -0.5
    dx_hat = dy * weight
    drstd = (dx_hat * centered).sum(-1, keepdim=True)
    dvar = -0.5 * rstd**3 * drstd
    dcentered = dx_hat * rstd + 2 / D * centered * dvar
    dmean = -dcentered.sum(-1, keepdim=True)
    dx = dcentered + dmean / D
    return dx_hat, drstd, dvar, dcentered, dmean, dx


_STEPS = ("dx_hat", "drstd", "dvar", "dcentered", "dmean", "dx")

_POWER = "the power. The derivative of u ** -0.5 is -0.5 * u ** -1.5, and that is -0.5 * rstd**3."
_USE_DX_HAT = "dy arrives at y, not at x_hat: use dx_hat, which has the gain in it."
_NEXT_LINE = "one line too far: 2 * centered / D is the derivative of the variance, and belongs to the next line."
_ONE_AXIS = "the line of drstd or of dmean: its sum over the row has lost its axis. Write .sum(-1, keepdim=True)."


def _over_the_row(old, after, returned):
    """Return the edits that sum old over something else than its row, and return before the line of `after`."""
    wrong = ("", ".sum()", ".sum(-1)", ".sum(0)", ".sum(1)", ".sum(0, keepdim=True)", ".sum(1, keepdim=True)")
    stop = f"    {after} = ->     return {returned}; {after} ="
    cause = "each row has one number: sum over the last axis, with keepdim=True."
    return {f"{old}.sum(-1, keepdim=True) -> {old}{new} ; {stop}": cause for new in wrong}


_LINES = {
    "dx_hat": {
        "dy * weight -> dy": "the gain is missing. y = weight * x_hat + bias, so what reaches x_hat is dy times weight.",
        "dy * weight -> dy / weight": "dy is divided by the gain. The derivative of weight * x_hat is weight.",
        "dy * weight -> dy * weight * rstd": "rstd comes in later: it is on the way from x_hat to centered.",
        "centered).sum(-1, keepdim=True) -> centered).sum(-1)": _ONE_AXIS,
    },
    "drstd": {
        "(dx_hat * centered) -> (dx_hat * centered * rstd)": "x_hat = centered * rstd, so the factor is centered, not x_hat.",
        "(dx_hat * centered) -> (dx_hat * x)": "the factor is x - mean, not x.",
        "(dx_hat * centered).sum -> (dx_hat * centered).mean": "one rstd serves the whole row: its parts are summed, not averaged.",
        "(dx_hat * centered) -> (dy * centered)": _USE_DX_HAT,
        "(dx_hat * centered) -> dx_hat": "centered is missing: x_hat = centered * rstd, and its derivative by rstd is centered.",
        "(dx_hat * centered) -> (dx_hat * rstd)": "x_hat = centered * rstd: the derivative by rstd is the other factor, centered.",
    }
    | _over_the_row("(dx_hat * centered)", "dvar", "dx_hat, drstd, None, None, None, None"),
    "dvar": {
        "-0.5 * rstd -> 0.5 * rstd": "the sign. A larger variance makes rstd smaller: -0.5 * rstd**3.",
        **{f"rstd**3 -> rstd{power}": _POWER for power in ("", "**2", "**-3", "**-1.5")},
        "rstd**3 -> rstd**1.5": "the power. u ** -1.5 is rstd**3, for rstd is u ** -0.5 already.",
        "-0.5 * rstd -> -1.5 * rstd": "the factor is the old power, -0.5. (The new one, -1.5, is in rstd**3.)",
        "-0.5 * rstd -> -rstd": "the factor 0.5 of the power rule is missing.",
        "-0.5 * rstd -> rstd": "the factor -0.5 of the power rule is missing.",
        "rstd**3 -> var**-1.5": "eps is missing: the power rule acts on var + eps. rstd**3 has it inside.",
        "rstd**3 -> (rstd + eps)**3": "eps is added once more: rstd has it inside.",
        "rstd**3 * drstd -> rstd**3": "the gradient that arrives, drstd, is missing.",
        "rstd**3 * drstd -> rstd**3 * dx_hat": "what arrives at rstd is drstd, not dx_hat.",
        "rstd**3 * drstd -> rstd**3 * drstd / D": _NEXT_LINE,
        "rstd**3 * drstd -> rstd**3 * drstd * 2 * centered / D": _NEXT_LINE,
        "rstd**3 * drstd -> rstd**3 * drstd * centered": _NEXT_LINE,
    },
    "dcentered": {
        " + 2 / D * centered * dvar -> ": "centered is used twice, in x_hat and in var. The part through var is missing.",
        "dx_hat * rstd + 2 -> 2": "centered is used twice, in x_hat and in var. The part through x_hat is missing (was it overwritten?).",
        "rstd + 2 -> rstd * 2": "the two parts are multiplied. What is used twice collects twice: add them.",
        "2 / D -> 1 / D": "the 2 of the square is missing.",
        "2 / D -> 2": "var is a mean, so each entry gets 1 / D of its gradient.",
        "2 / D -> 2 * D": "var is a mean, so each entry gets 1 / D of its gradient: divide by D.",
        "2 / D -> 2 / (D - 1)": "var divides by D, not by D - 1.",
        "2 / D * centered -> 2 / D * centered * rstd": "the square's derivative is 2 * centered, not 2 * x_hat.",
        "2 / D * centered -> 1 / D * centered**2": "the square's derivative is 2 * centered, not the square.",
        "rstd + 2 -> rstd - 2": "both parts are added: the minus stands in dvar already.",
        "dx_hat * rstd -> dy * rstd": _USE_DX_HAT,
        "dx_hat * rstd -> dx_hat": "x_hat = centered * rstd, so dx_hat is multiplied by rstd.",
        "dx_hat * rstd -> dx_hat * drstd": "x_hat = centered * rstd, so dx_hat is multiplied by rstd, not by drstd.",
        "centered * dvar -> centered": "dvar is missing in the part through var: the gradient that arrives multiplies the derivative.",
        "centered * dvar -> centered * drstd": "what arrives at var is dvar, not drstd.",
        "2 / D * centered -> 2 / D * x": "the square is that of centered, not of x.",
        "2 / D * centered -> 2 / D": "centered is missing in the part through var: the square's derivative is 2 * centered.",
        "dx_hat * rstd -> dx_hat * rstd / D": "only the part through var is divided by D: the brackets close too late.",
    },
    "dmean": {
        "-dcentered -> -dx_hat": "what arrives at centered is dcentered, not dx_hat.",
        "-dcentered -> dcentered": "the sign. The mean is subtracted: centered = x - mean.",
        "-dcentered.sum -> -dcentered.mean": "one mean serves the whole row: its parts are summed. (The 1 / D comes in the next line, from mean to x.)",
    }
    | _over_the_row("-dcentered", "dx", "dx_hat, drstd, dvar, dcentered, dmean, None"),
    "dx": {
        " + dmean / D -> ": "x is used twice, in centered and in the mean. The part through the mean is missing.",
        "dmean / D -> dmean": "the mean takes 1 / D of each entry, so each entry gets 1 / D of its gradient.",
        "dcentered + dmean / D -> (dcentered + dmean) / D": "only the part through the mean is divided by D: the bracket is too large.",
        "dx = dcentered -> dx = dx_hat": "x = mean + centered: its first part is dcentered, not dx_hat.",
        "dmean / D -> dmean / (D - 1)": "the mean divides by D, not by D - 1.",
        "dmean / D -> dmean * D": "the mean takes 1 / D of each entry: divide by D.",
        "dcentered + dmean -> dcentered - dmean": "the part through the mean is added: its minus stands in dmean already.",
        "dcentered + dmean -> dcentered * dmean": "the two parts are multiplied. What is used twice collects twice: add them.",
        "dcentered + dmean / D -> dmean / D": "x is used twice, in centered and in the mean. The part through centered is missing (was it overwritten?).",
    },
}
for number, name in enumerate(_STEPS):
    returned = ", ".join([*_STEPS[:number], *["None"] * (6 - number)])
    _LINES[name][f"    {name} = ->     return {returned}; {name} ="] = (
        "it is still None. Write it, and run the check again."
    )


def _first(answer, count):
    """Return answer cut to its first count outputs."""

    def part(*args):
        out = answer(*args)
        if not isinstance(out, (tuple, list)):
            return out
        return out[0] if count == 1 else out[:count]

    return part


def _complete(probe, names):
    """Return a Probe of whether as many outputs come back as there are names, whatever they are worth."""

    def run(answer):
        seen = {what: value for what, value in probe.run(answer).items() if not what.endswith("after the call")}
        whole = set(names) <= seen.keys() or isinstance(seen.get(names[0]), Raised)
        return dict.fromkeys(names, "returned") if whole else seen

    return replace(probe, run=run)


def _steps_probes(count):
    """Return probes of the first count lines."""

    def probe(label, seed, *shape, eps=(1e-5,), dtype=torch.float64, scale=2.0, mean=0.0, **more):
        given = draw(seed, *shape), draw(seed + 1, *shape, scale=scale, mean=mean), draw(seed + 2, shape[-1])
        names, given = ("dy", "x", "weight", "eps"), [item.to(dtype) for item in given]
        whole = call(label, *given, *eps, names=names, returns=_STEPS[:count], **more)
        return replace(whole, run=lambda answer: whole.run(_first(answer, count)))

    return [
        probe("3 rows of 5", 11, 3, 5, mean=3.0),
        probe("a (2, 3, 4) tensor", 14, 2, 3, 4, mean=-1.0),
        probe("eps=0.5", 17, 2, 6, eps=(0.5,)),
        probe("4 rows of 4", 20, 4, 4),
        probe("rows of spread 0.01, without eps", 26, 2, 6, eps=(), scale=0.01),
        # sums of 7 products, and rstd cubed, in 24 bits
        probe("float32 rows", 23, 3, 7, dtype=torch.float32, tolerance=1e-4, gradient=False),
    ]


_STEP_STAGES = []
for count, name in enumerate(_STEPS, 1):
    causes = {edit: why if why is _ONE_AXIS else f"the line of {name}: {why}" for edit, why in _LINES[name].items()}
    _STEP_STAGES.append((_steps_probes(count), known(_in_steps, causes), name))


def backward_in_steps(answer):
    """Check a function (dy, x, weight, eps) -> (dx_hat, drstd, dvar, dcentered, dmean, dx) (lesson 7)."""
    stages = [([_complete(_STEP_STAGES[-1][0][0], _STEPS)], []), *_STEP_STAGES]  # the first wrong line is named
    right = "all six lines of backward_in_steps (2 and 3 axes, small rows, a large eps, a square, float32)"
    in_stages(answer, "backward_in_steps", stages, in_float64(_in_steps), right, "function", by_hand=_AUTOGRAD)


# The closed form
def _backward(dy, x, mean, rstd, weight):
    rows = tuple(range(dy.dim() - 1))
    x_hat = (x - mean) * rstd
    h = dy * weight
    mean_h = h.mean(-1, keepdim=True)
    along = (h * x_hat).mean(-1, keepdim=True)
    dx = rstd * (h - mean_h - x_hat * along)
    dweight = (dy * x_hat).sum(rows)
    dbias = dy.sum(rows)
    return dx, dweight, dbias


_TERMS = {  # what is the same in dx of the closed form and of the clinic
    " - mean_h -> ": "the mean term is missing: a part that all entries of h share must be taken off. Look: your dx does not sum to 0 in a row.",
    " - x_hat * along -> ": "the variance term is missing: take off x_hat * mean(h * x_hat), the part of h along x_hat.",
    "h = dy * weight -> h = dy": "the gain is missing in dx: h = dy * weight takes the place of dy, in all three terms.",
    "h = dy * weight -> h = dy ; (h - mean_h -> (dy * weight - mean_h": "the gain is in the first term only. h = dy * weight takes the place of dy in all three.",
    "(h - mean_h -> (dy - mean_h": "the gain is missing in the first term: h = dy * weight takes the place of dy in all three.",
    "= h.mean -> = dy.mean": "the gain is missing inside the mean term: mean(h), not mean(dy).",
    "= h.mean(-1, keepdim=True) -> = weight * dy.mean(-1, keepdim=True)": "the gain is taken out of the mean term: mean(h) = mean(dy * weight), for the gain differs along the row.",
    "(h * x_hat) -> (dy * x_hat)": "the gain is missing inside the variance term: mean(h * x_hat), not mean(dy * x_hat).",
    "(h * x_hat) -> (h * weight * x_hat)": "the gain is there twice in the variance term: h has it already.",
    "dy * weight -> dy / weight": "dy is divided by the gain. The derivative of weight * x_hat is weight.",
    ".mean(-1 -> .sum(-1": "sums where means belong: each term is divided by D.",
    "(h - mean_h - x_hat * along) -> (h - (mean_h + x_hat * along) / dy.shape[-1])": "both terms are divided by D twice. A mean has its 1 / D inside, a sum has none.",
    "(h * x_hat).mean -> h.mean": "x_hat is missing inside the variance term: mean(h * x_hat), not mean(h).",
    "- x_hat * along -> - along": "the second x_hat of the variance term is missing: mean(h * x_hat), then times x_hat.",
    "rstd * (h -> (h": "the factor rstd in front is missing.",
    "rstd * (h - mean_h - x_hat * along) -> rstd * h - mean_h - x_hat * along": "rstd stands in front of the first term only: it multiplies all three.",
    "- mean_h - x_hat -> + mean_h + x_hat": "the terms are added. Both are taken off.",
    "- x_hat -> + x_hat": "the variance term is added. It is taken off.",
    "- mean_h -> + mean_h": "the mean term is added. It is taken off.",
    "mean(-1, -> mean(0,": "the means run over the rows (axis 0), as in BatchNorm. LayerNorm's run over the features, axis -1.",
    "mean(-1, -> mean(1,": "the means run over axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.",
    "= h.mean(-1, keepdim=True) -> = h.mean()": "mean(h) runs over the whole tensor. Each row has its own: axis -1, keepdim=True.",
    "mean(-1, keepdim=True) -> mean()": "the means run over the whole tensor. Each row has its own: axis -1, keepdim=True.",
} | {
    f"{mean}, keepdim=True) -> {mean})": "a mean (or sum) over the row has lost its axis: say keepdim=True in both."
    for mean in ("mean(-1", "= h.mean(-1", "x_hat).mean(-1")
}

_DX = known(
    _backward,
    _TERMS
    | {
        " - mean_h - x_hat * along -> ": "mean and rstd are treated as constants: both subtracted terms are missing.",
        "h = dy * weight -> h = dy ; dx = rstd -> dx = weight * rstd": "the gain is applied last, as in BatchNorm. Here it differs along the row: it belongs into h, before the means.",
        "dx = rstd -> dx = weight * rstd": "the gain is used twice, in h and again at the end.",
        "along) -> along * x.shape[-1] / (x.shape[-1] - 1))": "the variance term divides by D - 1. This variance is biased: it divides by D, and so does its gradient.",
        "mean_h - x_hat * along) -> (mean_h + x_hat * along) * x.shape[-1] / (x.shape[-1] - 1))": "both terms divide by D - 1. They are means: divide by D.",
        "= h.mean -> = h.sum": "the mean term is a sum: divide it by D.",
        "(h * x_hat).mean -> (h * x_hat).sum": "the variance term is a sum: divide it by D.",
        ".mean(-1 -> .sum(-1 ; dx = rstd -> dx = rstd / x.shape[-1]": "everything is divided by D. Only the two sums are.",
        "(h * x_hat) -> (h * weight * x_hat) ; - x_hat -> - weight * x_hat": "y stands where x_hat belongs: the variance term has no gain in x_hat.",
        "(h * x_hat) -> (h * (x - mean))": "the variance term holds x - mean where x_hat belongs: a factor rstd is missing (at rstd = 1 nobody sees it).",
        "(h * x_hat) -> (h * (x - mean)) ; - x_hat -> - (x - mean)": "the variance term holds x - mean where x_hat belongs, twice.",
        "(h * x_hat) -> (h * x) ; - x_hat -> - x": "the variance term holds x where x_hat belongs, twice.",
        "- x_hat -> - x": "the variance term holds x where x_hat belongs.",
        "(x - mean) -> x": "x_hat = x * rstd: the mean is not subtracted.",
        "(x - mean) * rstd -> (x - mean) / rstd": "x_hat is x - mean divided by rstd. rstd is 1 / sqrt(var + eps) already: multiply by it.",
        "(h * x_hat).mean(-1, keepdim=True) -> h * x_hat": "the mean over the row is missing in the variance term: x_hat * mean(h * x_hat), one number a row.",
        "dx = rstd -> dx = rstd**2": "rstd is squared in front. Once is enough: x_hat has its own rstd inside.",
        "- x_hat -> - 2 * x_hat": "the variance term is doubled. The 2 of the square and the 1/2 of the root cancel.",
        "- x_hat -> - 0.5 * x_hat": "the variance term is halved. The 2 of the square and the 1/2 of the root cancel.",
        "dx = rstd -> dx = -rstd": "the sign of the whole dx is turned around.",
        "- x_hat -> - rstd**2 * x_hat": "rstd is cubed in the variance term: two of the three are in x_hat already.",
        "- x_hat -> - rstd * x_hat": "rstd is there twice in the variance term: before the bracket and inside it.",
        "- mean_h -> - rstd * mean_h": "rstd is there twice in the mean term: before the bracket and inside it.",
        "dx = rstd * -> dx = 1 / rstd *": "dx is divided by rstd. It is 1 / sqrt(var + eps), so multiply by it.",
        "rows = -> rstd = 1 / rstd; rows =": "rstd is treated as the deviation: it is 1 / sqrt(var + eps), so multiply by it.",
        "rows = -> rstd = torch.rsqrt(rstd + 1e-5); rows =": "rstd is treated as the variance. It is 1 / sqrt(var + eps) already: multiply by it.",
        "rows = -> rstd = _stats(x, 1e-5)[1]; rows =": "the statistics are computed anew with eps = 1e-5. The given rstd knows which eps the forward pass had.",
        "rows = -> rstd = _stats(x, 0.0)[1]; rows =": "the statistics are computed anew without eps. The given rstd knows which eps the forward pass had.",
        "rows = -> rstd = 1 / x.std(-1, keepdim=True); rows =": "the statistics are computed anew, with the unbiased variance. Use the given rstd.",
        "return dx, dweight, dbias -> return dweight, dbias, dx": "the first output is dweight: return (dx, dweight, dbias).",
        "return dx -> return dx.sum(rows)": "dx is summed over the rows. Each row of x has a gradient of its own; only weight and bias serve all rows.",
        "return dx -> return h": "the first output is h, the gradient at x_hat. The way from x_hat to x is missing.",
        "* rstd\n -> * rstd.detach()\n ; dx = rstd -> dx = rstd.detach()": "rstd is detached. The result must be differentiable once more, so it may not be cut from x.",
    },
)

_SUMS = {
    "": "is not summed over the rows. One parameter serves every row: its gradient is (D,).",
    **dict.fromkeys((".mean(rows)", ".mean(0)"), "is a mean over the rows. Every row adds its part to the loss: sum."),
    ".sum(0)": "is summed over the first axis only. Sum over all axes but the last.",
    ".sum((0, 1))": "is summed over axes 0 and 1, whatever comes in. Sum over all axes but the last.",
    ".sum(-1)": "is summed over the features. Each feature has its own parameter: keep the last axis.",
    ".sum()": "is a single number. Each feature has its own parameter: keep the last axis.",
    ".sum(-1, keepdim=True)": "is summed over the features. Each feature has its own parameter: sum over all other axes.",
    ".sum(rows, keepdim=True)": "keeps the summed axes, with size 1. It has the shape of its parameter, (D,).",
    ".flatten(0, -2)[-1]": "comes from the last row alone. Add the rows up (+=) instead of overwriting.",
}


def _summed(old, name):
    return {f"{old}.sum(rows) -> {old}{new}": f"{name} {cause}" for new, cause in _SUMS.items()}


_DWEIGHT = known(
    _backward,
    _summed("(dy * x_hat)", "dweight")
    | {
        "(dy * x_hat) -> x_hat": "dweight lacks dy: the gradient that arrives multiplies everything.",
        "(dy * x_hat) -> (h * x_hat)": "dweight uses h. The weight multiplies x_hat, and dy arrives there: sum dy * x_hat.",
        "(dy * x_hat) -> (dx * x_hat)": "dweight uses dx. The weight multiplies x_hat, and dy arrives there: sum dy * x_hat.",
        "(dy * x_hat) -> (dy * x)": "dweight uses x, not x_hat. The weight multiplies x_hat.",
        "(dy * x_hat) -> (dy * (x - mean))": "dweight uses x - mean, not x_hat: a factor rstd is missing.",
        "(dy * x_hat) -> dy": "dweight is the sum of dy, and that is dbias. Are they swapped, or is x_hat missing?",
    },
)
_H_IN_DBIAS = {"dbias = dy -> dbias = h": "dbias uses h. The bias is added after the gain: what arrives there is dy."}
_DBIAS = known(_backward, _summed("dbias = dy", "dbias") | _H_IN_DBIAS)

_RETURNS = ("dx", "dweight", "dbias")


def _backward_probes(count):
    """Return probes of the first count outputs: values, and in float64 the total derivative of their weighted sum."""
    returns, names = _RETURNS[:count], ("dy", "x", "mean", "rstd", "weight")

    def probe(label, seed, *shape, scale=1.0, mean=0.0, eps=1e-5, dtype=torch.float64, tolerance=1e-9, x=None):
        dy, weight = draw(seed, *shape, dtype=dtype), draw(seed + 1, shape[-1], mean=0.5, dtype=dtype)
        x = draw(seed + 2, *shape, scale=scale, mean=mean, dtype=dtype) if x is None else x
        given = dy, x, *_stats(x, eps), weight
        plain = call(label, *given, names=names, returns=returns, gradient=False, tolerance=tolerance)
        total = call(label, dy, x, weight, names=("dy", "x", "weight"), returns=returns, tolerance=tolerance)

        def run(answer):
            cut = _first(answer, count)
            seen = plain.run(cut)
            if dtype == torch.float64 and all(isinstance(seen.get(name), torch.Tensor) for name in returns):
                on_tape = total.run(lambda dy, x, weight: cut(dy, x, *_stats(x, eps), weight))
                seen |= {what: value for what, value in on_tape.items() if what.startswith("gradient of")}
            return seen

        return replace(plain, run=run, shown={"dy": dy, "x": x, "weight": weight})

    outlier = draw(113, 2, 256)
    outlier[:, 0] = 30.0  # normalized it lies far outside of -3 to 3
    return [
        probe("3 rows of 5", 31, 3, 5, scale=3, mean=2),
        probe("a (2, 3, 4) tensor", 41, 2, 3, 4, mean=-1),
        probe("4 rows of 4", 51, 4, 4, scale=2),
        probe("rows of spread 0.01", 61, 3, 6, scale=0.01),
        probe("a forward pass with eps=0.1", 71, 2, 7, scale=0.3, eps=0.1),
        probe("two constant rows", 81, 2, 4, x=torch.tensor([[0.0] * 4, [2.5] * 4], dtype=torch.float64)),
        probe("3 other rows of 5", 101, 3, 5, scale=2, mean=-1),
        probe("rows of 256 with an outlier", 111, 2, 256, x=outlier),
        probe("rows around 1000", 121, 3, 8, mean=1000.0),
        probe("a (2, 3, 2, 5) tensor", 131, 2, 3, 2, 5),
        # float32: the sums have 24 bits; the expanded form a * h + b * x + c of PyTorch's kernel loses a few of them
        probe("float32 rows around 100", 91, 4, 32, mean=100.0, dtype=torch.float32, tolerance=1e-4),
    ]


_BACKWARD_STAGES = [
    (_backward_probes(count), mistakes, name)
    for count, (name, mistakes) in enumerate(zip(_RETURNS, (_DX, _DWEIGHT, _DBIAS), strict=True), 1)
]


def layer_norm_backward(answer):
    """Check a function (dy, x, mean, rstd, weight) -> (dx, dweight, dbias) over the last axis (lesson 7)."""
    stages = [([_complete(_BACKWARD_STAGES[2][0][0], _RETURNS)], []), *_BACKWARD_STAGES]
    tried = "2 to 4 axes, small spread, an outlier, an offset, two eps, constant rows, float32, second derivatives"
    right = f"layer_norm_backward does what it should on 11 inputs ({tried})"
    refused = ("layer_norm", "layer_norm_backward", *_AUTOGRAD)
    in_stages(answer, "layer_norm_backward", stages, in_float64(_backward), right, "function", by_hand=refused)


# Inputs that tell gradients apart
_UNIT = "the standard deviations of your rows are (nearly) 1, so that {}. Take rows of another scale."
_NOTHING = "{} is (nearly) 0 in your rows, with h = dy * weight: there is nothing to miss."
_EQUAL = "your gains are (nearly) equal, and one number for the whole row may be before the means as well as in them."
_WRONGS = {  # {a change of the right formula: (how the message calls the formula, why an input may not show it)}
    " - mean_h -> ": ("without the mean term", _NOTHING.format("mean(h)")),
    " - x_hat * along -> ": ("without the variance term", _NOTHING.format("mean(h * x_hat)")),
    "h = dy * weight -> h = dy": ("without the gain", "your gains are (nearly) 1, so that dy * weight is dy."),
    "h = dy * weight -> h = dy ; dx = rstd -> dx = weight * rstd": ("with the gain in front of the means", _EQUAL),
    "(h * x_hat) -> (h * (x - mean))": ("with x - mean for x_hat in one place", _UNIT.format("x - mean is x_hat")),
    "dx = rstd * -> dx = ": ("without the factor rstd", _UNIT.format("rstd is 1")),
}
_FORMULAS = [(edited(_backward, edits), *words) for edits, words in _WRONGS.items()]
_NARROW = "in wide rows one missing term is a small part of dx (about 1 / sqrt(D)). Take fewer features."


def _hiding():
    """Return inputs under which one of the wrong formulas passes, with the cause."""
    x, dy, weight = 3 * draw(211, 4, 5), draw(212, 4, 5), draw(213, 5)
    unit, ones, h = torch.nn.functional.layer_norm(x, (5,)), torch.ones(5, dtype=torch.float64), draw(214, 4, 5)
    wide = dict(x=3 * draw(215, 1, 900), weight=draw(216, 900), dy=draw(217, 1, 900))
    inputs = {
        0: dict(x=x, weight=ones, dy=2 * unit),  # the loss (y**2).sum() on a new layer
        1: dict(x=x, weight=ones, dy=torch.ones_like(x)),  # y.sum() on a new layer
        2: dict(x=x, weight=ones, dy=dy),
        3: dict(x=x, weight=5 * ones, dy=dy),
        4: dict(x=unit, weight=weight, dy=h),
    }
    return [*(Mistake(_FORMULAS[i][2], given) for i, given in inputs.items()), Mistake(_NARROW, wide)]


def revealing(answer):
    """Check inputs dict(x, weight, dy) under which six wrong gradients differ from the right one (lesson 7)."""
    announce(_hiding())
    refuse_dots(answer, "revealing")
    names = ("x", "weight", "dy")
    if not isinstance(answer, dict) or set(answer) != set(names):
        reject(f"check.revealing takes dict(x=..., weight=..., dy=...), not {kind_of(answer)}.")
    for name, item in answer.items():
        if not isinstance(item, torch.Tensor) or not item.is_floating_point():
            found = "three dots" if item is ... else kind_of(item)
            reject(f"{name} is {found}, expected a float32 or float64 tensor (of numbers like 1.0, not 1).")
        if not item.isfinite().all():
            reject(f"{name} holds nan or inf.")
    x, weight, dy = (answer[name].detach().double() for name in names)
    if x.dim() != 2 or dy.shape != x.shape or weight.shape != x.shape[-1:]:
        found = ", ".join(f"{name} {tuple(answer[name].shape)}" for name in names)
        reject(f"The shapes are {found}, expected x and dy (B, D) and weight (D,).")
    if not 3 <= x.shape[1] or not 1 <= x.numel() <= 1000:
        reject(f"x is {tuple(x.shape)}, expected at least three features and at most 1000 numbers.")
    given = dy, x, *_stats(x, 1e-5), weight
    right, missed, why = _backward(*given)[0], [], None
    for wrong, what, cause in _FORMULAS:
        gap, least = (wrong(*given)[0] - right).norm(), 1e-6 * (given[3] * dy * weight).norm()
        if gap < 0.1 * right.norm() or gap <= least:  # `least`: rounding alone, where the right dx is 0 as well
            missed.append(what)
            hidden = gap > 1e-3 * right.norm() and x.shape[1] > 50
            why = why or f"Probable cause: {_NARROW if hidden else cause}"
    if missed:
        caught = f"{len(_FORMULAS) - len(missed)} of {len(_FORMULAS)}"
        reject(f"{caught} wrong formulas give themselves away, not the one {missed[0]}.", why)
    accept(f"Right: all {len(_FORMULAS)} wrong formulas give themselves away.")


# The autograd.Function
class _Function(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, eps):
        mean, rstd = _stats(x, eps)
        return (x - mean) * rstd * weight + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        x = x - x.mean(-1, keepdim=True)
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, correction=0, keepdim=True)
        rstd = torch.rsqrt(var + ctx.eps)
        dx, dweight, dbias = _backward(dy, x, mean, rstd, weight)
        return dx, dweight, dbias, None


_CONSTANTS = "mean and rstd are constants for the second derivative: they were saved in the forward pass, or detached. Compute them anew from the saved x, in backward."
_ONCE = "    @torch.autograd.function.once_differentiable\n    def backward"

_FUNCTION = known(
    _Function,
    {
        # The given lines center x on the tape, so that there only rstd is lost. Without that line the mean is lost, too.
        "mean, rstd, weight) -> mean, rstd.detach(), weight)": _CONSTANTS,
        "x = x - x.mean -> x.mean ; mean, rstd, weight) -> mean.detach(), rstd.detach(), weight)": _CONSTANTS,
        "x = x - x.mean -> x.mean ; mean, rstd, weight) -> mean.detach(), rstd, weight)": _CONSTANTS,
        "ctx.save_for_backward(x, -> mean, ctx.rstd = _stats(x, ctx.eps); ctx.save_for_backward((x - mean) * ctx.rstd, ; x, mean, rstd, weight) -> x, 0.0, 1.0, weight) ; return dx -> return dx * ctx.rstd": "x_hat is saved instead of x: one more tensor of x's size, and no way back to x for the second derivative.",
        "= _backward( -> = torch.no_grad()(_backward)(": "backward runs without a tape (no_grad or detach), so there is no second derivative.",
        f"    def backward -> {_ONCE}": "once_differentiable makes the second derivative an error. That is honest; here backward can do better.",
        "dbias, None -> dbias": "backward returns three gradients, and forward took four inputs. For eps, which needs none, return None.",
        "return dx, dweight, dbias, None -> return dx": "backward returns one value (dx alone, or a list). It returns four, one for each input: dx, dweight, dbias, None.",
        "return dx, dweight, dbias, None -> return (dx, dweight, dbias), None": "the three gradients are still in one tuple. A star takes them out: return *gradients, None.",
        "dbias, None -> dbias, 0.0": "backward returns a gradient for eps. It is no tensor and needs none: return None in its place.",
        "torch.rsqrt -> torch.sqrt": "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got sqrt(var + eps).",
        "x, mean, rstd, weight) -> x, mean, var, weight)": "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got the variance.",
        "torch.rsqrt(var + ctx.eps) -> var + ctx.eps": "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got var + eps.",
        "torch.rsqrt(var + ctx.eps) -> 1 / (var + ctx.eps)": "the root is missing: rstd = 1 / sqrt(var + eps).",
        "torch.rsqrt(var + ctx.eps) -> torch.rsqrt(var.sqrt() + ctx.eps)": "the root is taken twice. rstd = 1 / sqrt(var + eps), one root, of the variance.",
        "torch.rsqrt(var + ctx.eps) -> 1 / (var.sqrt() + ctx.eps)": "eps stands outside the root. rstd = 1 / sqrt(var + eps).",
        "torch.rsqrt(var + ctx.eps) -> torch.rsqrt(var) + ctx.eps": "eps is added after the root. rstd = 1 / sqrt(var + eps).",
        "correction=0, -> ": "the variance is unbiased (D - 1). The forward pass divides by D, and so must backward, as mean_and_var does.",
        " mean = x.mean(-1, ->  mean = x.mean(-2, ; x.var(-1, -> x.var(-2,": "the statistics run over the rows (or tokens), axis -2. Those of the forward pass run over the features, axis -1.",
        "x, mean, rstd, weight) -> x, rstd, mean, weight)": "mean and rstd are swapped: layer_norm_backward(dy, x, mean, rstd, weight).",
        "(dy, x, mean -> (x, dy, mean": "dy and x are swapped: layer_norm_backward(dy, x, mean, rstd, weight).",
        "return dx, dweight, dbias -> return dx, dbias, dweight": "dweight and dbias are swapped. The gradients come in the order of forward's inputs: x, weight, bias, eps.",
        "return dx, -> return None,": "x gets no gradient: backward returns None in its place.",
        "return dx, dweight, dbias -> return dx, None, None": "weight and bias get no gradient: backward returns None in their place.",
        "return dx, dweight, -> return dx, None,": "weight gets no gradient: backward returns None in its place.",
        "dbias, None -> None, None": "bias gets no gradient: backward returns None in its place.",
        "(x, weight)\n -> (x, weight, (x - _stats(x, ctx.eps)[0]) * _stats(x, ctx.eps)[1])\n ; x, weight = -> x, weight, x_hat =": "x_hat is saved as well: one more tensor of x's size. It can be computed anew from x.",
        "var + ctx.eps -> var + 1e-5": "backward uses eps = 1e-5 instead of ctx.eps.",
        "var + ctx.eps -> var": "backward leaves eps out: rsqrt(var + ctx.eps).",
    },
)


def _inputs(seed, *shape, scale=1.0, mean=0.0, dtype=torch.float64):
    x = draw(seed, *shape, scale=scale, mean=mean, dtype=dtype)
    return x, draw(seed + 1, shape[-1], mean=0.5, dtype=dtype), draw(seed + 2, shape[-1], dtype=dtype)


def _error(error):
    """What an error says, where its type alone does not tell two mistakes apart."""
    found = raised(error)
    telling = ("incorrect number of gradients", "once_differentiable", "require grad", "different than None")
    return next((words + found.text.partition(words)[2] for words in telling if words in found.text), found)


def _applied(label, seed, *shape, eps=1e-5, tolerance=1e-9, dtype=torch.float64, only_x=False, **more):
    """Return a Probe of an autograd.Function: y and the gradients of sum(y * random)."""
    given = _inputs(seed, *shape, dtype=dtype, **more)
    weights = draw(seed + 3, *shape, dtype=dtype)

    def run(answer):
        leaves = [item.clone().requires_grad_(i == 0 or not only_x) for i, item in enumerate(given)]
        try:
            y = answer.apply(*leaves, eps)
        except Exception as error:
            return {"y": raised(error)}
        if not isinstance(y, torch.Tensor):
            return {"y": y}
        wanted = dict(zip(("x", "weight", "bias"), leaves[:1] if only_x else leaves, strict=False))
        dy = weights.clone()
        seen = {"dy after the call": dy, "y": y.detach()}
        try:
            return seen | gradients(y, wanted, dy)
        except Exception as error:
            return seen | {"gradient of x": _error(error)}

    return Probe(label, run, {"x": given[0], "weight": given[1], "eps": eps}, tolerance)


def _twice(label, seed, *shape):
    """Return a Probe of the second derivative: gradients of sum(dx * random) + sum(dweight * random)."""
    given = _inputs(seed, *shape)
    dy, v, u = draw(seed + 3, *shape), draw(seed + 4, *shape), draw(seed + 5, shape[-1])

    def run(answer):
        x, weight, bias, arrives = (item.clone().requires_grad_() for item in (*given, dy))
        try:
            y = answer.apply(x, weight, bias, 1e-5)
            dx, dweight = torch.autograd.grad(y, (x, weight), arrives, create_graph=True)
            loss = (dx * v).sum() + (dweight * u).sum()
            found = gradients(loss, {"x": x, "weight": weight, "dy": arrives})
        except Exception as error:
            return {"gradient of the gradient in x": _error(error)}
        return {what.replace("of", "of the gradient in"): value for what, value in found.items()}

    return Probe(label, run, {"x": given[0], "weight": given[1]})


def _kept(label, seed, *shape):
    """Return a Probe of the memory: how many tensors of x's size are kept for the backward pass, besides x."""
    given = _inputs(seed, *shape)

    def run(answer):
        x, weight, bias = (item.clone().requires_grad_() for item in given)
        kept = {}

        def pack(item):
            kept[item.untyped_storage().data_ptr()] = item
            return item

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda item: item):
            y = answer.apply(x, weight, bias, 1e-5)
        if isinstance(y, torch.Tensor) and y.grad_fn is not None:
            for item in tree_leaves(getattr(y.grad_fn, "__dict__", {})):  # what was put on ctx by hand
                if isinstance(item, torch.Tensor):
                    pack(item)
        kept.pop(x.untyped_storage().data_ptr(), None)
        large = sum(item.numel() >= x.numel() for item in kept.values())
        return {"the number of tensors of x's size that are kept besides x": large}

    return Probe(label, run, {})


_APPLIED = [
    _applied("3 rows of 5", 101, 3, 5, scale=2, mean=1),
    _applied("a (2, 3, 4) tensor with eps=0.1", 111, 2, 3, 4, scale=0.5, eps=0.1),
    _applied("rows of spread 0.003", 121, 2, 6, scale=0.003),
    _applied("weight and bias that need no gradient", 131, 2, 5, only_x=True),
    # float32: x_hat, a sum over 33 features, and rstd up to 4, in 24 bits
    _applied("float32 rows", 141, 4, 33, dtype=torch.float32, tolerance=1e-5),
    _twice("2 rows of 5, differentiated twice", 151, 2, 5),
    _kept("a (7, 11) input", 161, 7, 11),
]


def layer_norm_function(answer):
    """Check an autograd.Function with apply(x, weight, bias, eps) -> y over the last axis (lesson 7)."""
    if isinstance(answer, type) and not issubclass(answer, torch.autograd.Function):
        cure = f"Write class {answer.__name__}(torch.autograd.Function)."
        reject("check.layer_norm_function takes a torch.autograd.Function.", cure)
    tried = "values, gradients, second derivatives, what is kept"
    examine(answer, "layer_norm_function", _APPLIED, _Function, _FUNCTION, tried, "class")


# The clinic
def _mended(dy, x_hat, rstd, weight):
    h = dy * weight
    mean_h = h.mean(-1, keepdim=True)
    along = (h * x_hat).mean(-1, keepdim=True)
    return rstd * (h - mean_h - x_hat * along)


_MENDED = known(
    _mended,
    {
        "h = dy * weight -> h = dy ; return rstd -> return weight * rstd": "that is the patient. Its gain stands after the means; look at which axis the gain varies along.",
        "return rstd -> return weight * rstd": "the gain is there twice: before the means and, still, after them.",
        "return rstd * (h -> return weight * rstd * (dy": "the gain still stands in front. In the sums it is right; put it into the first term as well, and take it off there.",
        "return rstd -> return dy.shape[-1] * rstd": "a factor D is left over: D * h and the two sums are divided by D together.",
        "h = dy * weight -> h = dy ; return rstd -> return weight.mean() * rstd": "the gain's mean is no cure: each feature has its own gain, and it belongs into h.",
        "h = dy * weight -> h, x_hat = dy * weight, x_hat * weight": "the gain is in x_hat too. It belongs into h only.",
        "h = dy * weight -> h, x_hat = dy * weight, x_hat * rstd": "x_hat is multiplied by rstd. It has that factor already: use it as it is given.",
        ".mean(-1 -> .sum(-1 ; return rstd -> return rstd / dy.shape[-1]": "h is divided by D like the sums: a factor D belongs before it.",
    }
    | _TERMS,
)


def _clinic(label, seed, *shape, dtype=torch.float64, **more):
    x = draw(seed, *shape)
    mean, rstd = _stats(x, 1e-5)
    given = draw(seed + 1, *shape), (x - mean) * rstd, rstd, draw(seed + 2, shape[-1], mean=0.5)
    names, given = ("dy", "x_hat", "rstd", "weight"), [item.to(dtype) for item in given]
    return call(label, *given, names=names, returns=("dx",), **more)


_CLINIC = [
    _clinic("3 rows of 5", 171, 3, 5),
    _clinic("a (2, 3, 4) tensor", 181, 2, 3, 4),
    _clinic("4 rows of 4", 191, 4, 4),
    _clinic("float32 rows of 64", 201, 2, 64, dtype=torch.float32, tolerance=1e-5),  # means of 64, 24 bits
]


def mended_gradient(answer):
    """Check a function (dy, x_hat, rstd, weight) -> dx, the mended patient of the clinic (lesson 7)."""
    examine(answer, "mended_gradient", _CLINIC, in_float64(_mended), _MENDED, "2 and 3 axes, random gains, float32")

"""Checks of lesson 7: the backward pass in steps, its closed form, an autograd.Function that can be differentiated twice.

The gradients of a backward function are compared as total derivatives: mean and rstd are computed from x on the tape.
Formulas that agree for every x agree in them too, however they treat a mean that is not the mean of x.
"""

from dataclasses import replace
from types import SimpleNamespace

import torch

from lessonkit.check.core import (
    Mistake,
    Probe,
    call,
    draw,
    examine,
    in_float64,
    observe,
    problem,
    raised,
    reject,
    values,
)


def _m(item):
    return item.mean(-1, keepdim=True)


def _s(item):
    return item.sum(-1, keepdim=True)


def _rows(item):
    """The sum over all axes but the last."""
    return item.reshape(-1, item.shape[-1]).sum(0)


def _stats(x, eps):
    mean = _m(x)
    return mean, torch.rsqrt(_m((x - mean) ** 2) + eps)


# ---- dweight and dbias -----------------------------------------------------------------------------------------------


def gain_and_bias_gradients(answer):
    """Check a function dy, x_hat (..., D) -> (dweight, dbias), both (D,) (lesson 7)."""
    names, returns = ("dy", "x_hat"), ("dweight", "dbias")
    probes = [
        call("3 rows of 5", draw(1, 3, 5), draw(2, 3, 5), names=names, returns=returns),
        call("2 sentences of 3 tokens of 4 channels", draw(3, 2, 3, 4), draw(4, 2, 3, 4), names=names, returns=returns),
        call("4 rows of 4", draw(5, 4, 4), draw(6, 4, 4), names=names, returns=returns),
        call("a batch of one row", draw(7, 1, 6), draw(8, 1, 6), names=names, returns=returns),
        call(
            "float32 rows", draw(9, 5, 7).float(), draw(10, 5, 7).float(), names=names, returns=returns, tolerance=1e-5
        ),  # a sum of 5 products rounded to 24 bits
    ]

    def both(change):
        return lambda dy, x_hat: (change(dy * x_hat), change(dy))

    mistakes = [
        Mistake(
            "you take the mean over the rows. Every row adds its part to the loss, so the parts are summed.",
            both(lambda t: t.reshape(-1, t.shape[-1]).mean(0)),
        ),
        Mistake(
            "the sum over the rows is missing. One weight served all rows: its gradient has its shape, (D,).",
            both(lambda t: t),
        ),
        Mistake(
            "you sum over the features. Each feature has its own weight: sum over all axes but the last.",
            both(lambda t: t.sum(-1)),
        ),
        Mistake(
            "only the first axis is summed. All axes but the last are: with (B, T, D) these are two.",
            both(lambda t: t.sum(0)),
        ),
        Mistake(
            "axes 0 and 1 are summed whatever comes in. All axes but the last are: for a matrix that is axis 0 alone.",
            both(lambda t: t.sum((0, 1))),
        ),
        Mistake(
            "everything is summed into one number. Each feature has its own weight: keep the last axis.",
            both(lambda t: t.sum()),
        ),
        Mistake(
            "the summed axes are still there with size 1. The gradient has the shape of the weight, (D,).",
            both(lambda t: t.sum(tuple(range(t.dim() - 1)), keepdim=True)),
        ),
        Mistake("dweight and dbias are swapped: return dweight first.", lambda dy, x: (_rows(dy), _rows(dy * x))),
        Mistake(
            "dweight lacks x_hat. The weight multiplies x_hat, so that is its derivative.",
            lambda dy, x: (_rows(dy), _rows(dy)),
        ),
        Mistake(
            "dweight lacks dy: the gradient that arrives multiplies everything.", lambda dy, x: (_rows(x), _rows(dy))
        ),
        Mistake(
            "dbias is a mean over the rows. Every row adds its part to the loss: sum.",
            lambda dy, x: (_rows(dy * x), dy.reshape(-1, dy.shape[-1]).mean(0)),
        ),
        Mistake(
            "x_hat is multiplied in twice: dweight is the sum of dy * x_hat.",
            lambda dy, x: (_rows(dy * x * x), _rows(dy)),
        ),
        Mistake(
            "dbias carries x_hat. The bias is only added: its derivative is 1.",
            lambda dy, x: (_rows(dy * x), _rows(dy * x)),
        ),
        Mistake(
            "the sums are multiplied. Multiply first, then sum: dy * x_hat differs from row to row.",
            lambda dy, x: (_rows(dy) * _rows(x), _rows(dy)),
        ),
        Mistake(
            "only the last row counts. Add the rows up (+=) instead of overwriting.",
            both(lambda t: t.reshape(-1, t.shape[-1])[-1]),
        ),
        Mistake("only the first row counts. Sum over all of them.", both(lambda t: t.reshape(-1, t.shape[-1])[0])),
    ]
    examine(
        answer,
        "gain_and_bias_gradients",
        probes,
        in_float64(lambda dy, x: (_rows(dy * x), _rows(dy))),
        mistakes,
        tried="2 and 3 axes, a square, one row, float32",
    )


# ---- Line by line ----------------------------------------------------------------------------------------------------

_STEPS = ("d_x_hat", "d_rstd", "d_var", "d_centered", "d_mean", "d_x")


def _in_steps(**changed):
    """Return backward_in_steps with some lines replaced: name -> function of a namespace of all that is known so far."""
    lines = {
        "d_x_hat": lambda s: s.dy * s.weight,
        "d_rstd": lambda s: _s(s.d_x_hat * s.centered),
        "d_var": lambda s: -0.5 * s.rstd**3 * s.d_rstd,
        "d_centered": lambda s: s.d_x_hat * s.rstd + 2 / s.D * s.centered * s.d_var,
        "d_mean": lambda s: -_s(s.d_centered),
        "d_x": lambda s: s.d_centered + s.d_mean / s.D,
    } | changed

    def answer(dy, x, weight, eps=1e-5):
        mean = _m(x)
        s = SimpleNamespace(dy=dy, x=x, weight=weight, eps=eps, D=x.shape[-1], mean=mean, centered=x - mean)
        s.var = _m(s.centered * s.centered)
        s.rstd = torch.rsqrt(s.var + eps)
        s.x_hat = s.centered * s.rstd
        for name in _STEPS:
            setattr(s, name, lines[name](s))
        return tuple(getattr(s, name) for name in _STEPS)

    return answer


_LINES = [  # (line, cause, formula)
    (
        "d_x_hat",
        "the gain is missing. y = weight * x_hat + bias, so what reaches x_hat is dy times weight.",
        lambda s: s.dy,
    ),
    ("d_x_hat", "dy is divided by the gain. The derivative of weight * x_hat is weight.", lambda s: s.dy / s.weight),
    ("d_x_hat", "the gain multiplies x_hat there, and dy is missing.", lambda s: s.weight * s.x_hat),
    ("d_rstd", "x_hat = centered * rstd, so the factor is centered, not x_hat.", lambda s: _s(s.d_x_hat * s.x_hat)),
    ("d_rstd", "the factor is x - mean, not x.", lambda s: _s(s.d_x_hat * s.x)),
    (
        "d_rstd",
        "one rstd serves the whole row: its parts are summed, not averaged.",
        lambda s: _m(s.d_x_hat * s.centered),
    ),
    (
        "d_rstd",
        "one rstd serves the whole row. Sum the parts over the last axis, with keepdim=True.",
        lambda s: s.d_x_hat * s.centered,
    ),
    (
        "d_rstd",
        "dy arrives at y, not at x_hat: use d_x_hat, which has the gain in it.",
        lambda s: _s(s.dy * s.centered),
    ),
    (
        "d_rstd",
        "x_hat = centered * rstd, so the factor is centered. (And dy arrives at y: use d_x_hat.)",
        lambda s: _s(s.dy * s.x_hat),
    ),
    (
        "d_rstd",
        "x_hat = centered * rstd: the derivative by rstd is the other factor, centered.",
        lambda s: _s(s.d_x_hat * s.rstd),
    ),
    (
        "d_rstd",
        "you sum over the rows (axis 0). Each row has an rstd of its own: sum over the last axis, with keepdim=True.",
        lambda s: (s.d_x_hat * s.centered).sum(0, keepdim=True),
    ),
    (
        "d_rstd",
        "everything is summed into one number. Each row has an rstd of its own: sum over the last axis, keepdim=True.",
        lambda s: (s.d_x_hat * s.centered).sum(),
    ),
    (
        "d_rstd",
        "the sign: x_hat grows with rstd where centered is positive. No minus here.",
        lambda s: -_s(s.d_x_hat * s.centered),
    ),
    ("d_var", "the sign. A larger variance makes rstd smaller: -0.5 * rstd**3.", lambda s: 0.5 * s.rstd**3 * s.d_rstd),
    (
        "d_var",
        "the power. The derivative of u ** -0.5 is -0.5 * u ** -1.5, and that is -0.5 * rstd**3.",
        lambda s: -0.5 * s.rstd * s.d_rstd,
    ),
    (
        "d_var",
        "the power. The derivative of u ** -0.5 is -0.5 * u ** -1.5, and that is -0.5 * rstd**3.",
        lambda s: -0.5 * s.rstd**2 * s.d_rstd,
    ),
    (
        "d_var",
        "the power. The derivative of u ** -0.5 is -0.5 * u ** -1.5, and that is -0.5 * rstd**3.",
        lambda s: -0.5 * s.rstd**-3 * s.d_rstd,
    ),
    (
        "d_var",
        "the power. u ** -1.5 is rstd**3, for rstd is u ** -0.5 already.",
        lambda s: -0.5 * s.rstd**1.5 * s.d_rstd,
    ),
    (
        "d_var",
        "the factor is the old power, -0.5. (The new one, -1.5, is in rstd**3.)",
        lambda s: -1.5 * s.rstd**3 * s.d_rstd,
    ),
    ("d_var", "the factor 0.5 of the power rule is missing.", lambda s: -(s.rstd**3) * s.d_rstd),
    (
        "d_var",
        "eps is missing: the power rule acts on var + eps. rstd**3 has it inside.",
        lambda s: -0.5 * s.var**-1.5 * s.d_rstd,
    ),
    ("d_var", "the gradient that arrives, d_rstd, is missing.", lambda s: -0.5 * s.rstd**3),
    (
        "d_centered",
        "centered is used twice, in x_hat and in var. The part through var is missing.",
        lambda s: s.d_x_hat * s.rstd,
    ),
    (
        "d_centered",
        "centered is used twice, in x_hat and in var. The part through x_hat is missing (was it overwritten?).",
        lambda s: 2 / s.D * s.centered * s.d_var,
    ),
    ("d_centered", "the 2 of the square is missing.", lambda s: s.d_x_hat * s.rstd + s.centered * s.d_var / s.D),
    (
        "d_centered",
        "var is a mean, so each entry gets 1 / D of its gradient.",
        lambda s: s.d_x_hat * s.rstd + 2 * s.centered * s.d_var,
    ),
    (
        "d_centered",
        "var divides by D, not by D - 1.",
        lambda s: s.d_x_hat * s.rstd + 2 / (s.D - 1) * s.centered * s.d_var,
    ),
    (
        "d_centered",
        "the square's derivative is 2 * centered, not 2 * x_hat.",
        lambda s: s.d_x_hat * s.rstd + 2 / s.D * s.x_hat * s.d_var,
    ),
    (
        "d_centered",
        "both parts are added: the minus stands in d_var already.",
        lambda s: s.d_x_hat * s.rstd - 2 / s.D * s.centered * s.d_var,
    ),
    (
        "d_centered",
        "dy arrives at y, not at x_hat: use d_x_hat, which has the gain in it.",
        lambda s: s.dy * s.rstd + 2 / s.D * s.centered * s.d_var,
    ),
    (
        "d_centered",
        "x_hat = centered * rstd, so d_x_hat is multiplied by rstd.",
        lambda s: s.d_x_hat + 2 / s.D * s.centered * s.d_var,
    ),
    (
        "d_centered",
        "d_var is missing in the part through var: the gradient that arrives multiplies the derivative.",
        lambda s: s.d_x_hat * s.rstd + 2 / s.D * s.centered,
    ),
    ("d_centered", "the square is that of centered, not of x.", lambda s: s.d_x_hat * s.rstd + 2 / s.D * s.x * s.d_var),
    (
        "d_centered",
        "only the part through var is divided by D: the brackets close too late.",
        lambda s: (s.d_x_hat * s.rstd + 2 * s.centered * s.d_var) / s.D,
    ),
    ("d_mean", "what arrives at centered is d_centered, not d_x_hat.", lambda s: -_s(s.d_x_hat)),
    (
        "d_mean",
        "you sum over the rows (axis 0). Each row has a mean of its own: sum over the last axis, with keepdim=True.",
        lambda s: -s.d_centered.sum(0, keepdim=True),
    ),
    (
        "d_mean",
        "you sum over the rows (axis 0). Each row has a mean of its own: sum over the last axis, with keepdim=True.",
        lambda s: -s.d_centered.sum(0),
    ),
    ("d_mean", "the sign. The mean is subtracted: centered = x - mean.", lambda s: _s(s.d_centered)),
    (
        "d_mean",
        "one mean serves the whole row: its parts are summed. (The 1 / D comes in the next line, from mean to x.)",
        lambda s: -_m(s.d_centered),
    ),
    (
        "d_mean",
        "one mean serves the whole row. Sum the parts over the last axis, with keepdim=True.",
        lambda s: -s.d_centered,
    ),
    (
        "d_x",
        "x is used twice, in centered and in the mean. The part through the mean is missing.",
        lambda s: s.d_centered,
    ),
    (
        "d_x",
        "the mean takes 1 / D of each entry, so each entry gets 1 / D of its gradient.",
        lambda s: s.d_centered + s.d_mean,
    ),
    ("d_x", "x = mean + centered: its first part is d_centered, not d_x_hat.", lambda s: s.d_x_hat + s.d_mean / s.D),
    ("d_x", "the mean divides by D, not by D - 1.", lambda s: s.d_centered + s.d_mean / (s.D - 1)),
    ("d_x", "the mean takes 1 / D of each entry: divide by D.", lambda s: s.d_centered + s.d_mean * s.D),
    (
        "d_x",
        "the part through the mean is added: its minus stands in d_mean already.",
        lambda s: s.d_centered - s.d_mean / s.D,
    ),
    (
        "d_x",
        "x is used twice, in centered and in the mean. The part through centered is missing (was it overwritten?).",
        lambda s: s.d_mean / s.D + 0 * s.x,
    ),
]


def _steps_probe(count, label, seed, *shape, eps=1e-5, dtype=torch.float64, mean=0.0, **more):
    """Return a Probe of the first count lines."""
    given = draw(seed, *shape), draw(seed + 1, *shape, scale=2, mean=mean), draw(seed + 2, shape[-1])
    return call(
        label,
        *(item.to(dtype) for item in given),
        eps,
        names=("dy", "x", "weight", "eps"),
        returns=_STEPS[:count],
        **more,
    )


def _steps_probes(count):
    return [
        _steps_probe(count, "3 rows of 5", 11, 3, 5, mean=3.0),
        _steps_probe(count, "a (2, 3, 4) tensor", 14, 2, 3, 4, mean=-1.0),
        _steps_probe(count, "eps=0.5", 17, 2, 6, eps=0.5),
        _steps_probe(count, "4 rows of 4", 20, 4, 4),
        # sums of 7 products, and rstd cubed, in 24 bits
        _steps_probe(count, "float32 rows", 23, 3, 7, dtype=torch.float32, tolerance=1e-4, gradient=False),
    ]


def _first(answer, count):
    """Return answer cut to its first count outputs."""

    def part(*args):
        out = tuple(answer(*args))[:count]
        return out if count > 1 else out[0]

    return part


_STEP_PROBES = {count: _steps_probes(count) for count in range(1, len(_STEPS) + 1)}
_STEP_RIGHT = {count: in_float64(_first(_in_steps(), count)) for count in _STEP_PROBES}
_STEP_MISTAKES = {
    count: [
        Mistake(f"the line of {line}: {cause}", _first(_in_steps(**{line: change}), count))
        for line, cause, change in _LINES
        if line == _STEPS[count - 1]
    ]
    for count in _STEP_PROBES
}


def backward_in_steps(answer):
    """Check a function (dy, x, weight, eps) -> (d_x_hat, d_rstd, d_var, d_centered, d_mean, d_x) (lesson 7)."""
    whole = len(_STEPS)
    seen = observe(_STEP_PROBES[whole][0], answer)
    if all(name in seen for name in _STEPS):  # line by line: the first wrong one is named, whatever follows it
        count = _first_wrong(answer, _STEP_RIGHT[whole], _STEP_PROBES[whole], _STEPS)
        if count and seen[_STEPS[count - 1]] is None:
            right = f"{', '.join(_STEPS[: count - 1])}: right so far. " if count > 1 else ""
            reject(f"{right}{_STEPS[count - 1]} is still None.", "Write its line, and run the check again.")
        if count:
            examine(
                _first(answer, count),
                "backward_in_steps",
                _STEP_PROBES[count],
                _STEP_RIGHT[count],
                _STEP_MISTAKES[count],
            )
    examine(
        answer,
        "backward_in_steps",
        _STEP_PROBES[whole],
        _STEP_RIGHT[whole],
        tried="six lines on 2 and 3 axes, a large eps, a square, float32",
    )


def _first_wrong(answer, reference, probes, names):
    """Return how many outputs, in the order of names, must be looked at to see a wrong one on some probe; 0: all right."""
    runs = [(observe(probe, answer), observe(probe, reference), probe) for probe in probes]
    for count, name in enumerate(names, 1):
        for seen, right, probe in runs:
            shared = [key for key in right if key == name or key.endswith("after the call")]
            if any(key not in seen for key in shared):
                return count
            if problem({key: seen[key] for key in shared}, {key: right[key] for key in shared}, probe):
                return count
    return 0


# ---- The closed form -------------------------------------------------------------------------------------------------

_NAMES = ("dy", "x", "mean", "rstd", "weight")
_RETURNS = ("dx", "dweight", "dbias")


def _total(returns, label, seed, *shape, scale=1.0, mean=0.0, eps=1e-5, dtype=torch.float64, tolerance=1e-9, x=None):
    """Return a Probe of a backward function: its values, and in float64 the total derivative of their weighted sum."""
    dy, weight = draw(seed, *shape, dtype=dtype), draw(seed + 1, shape[-1], mean=0.5, dtype=dtype)
    x = draw(seed + 2, *shape, scale=scale, mean=mean, dtype=dtype) if x is None else x
    plain = call(
        label, dy, x, *_stats(x, eps), weight, names=_NAMES, returns=returns, gradient=False, tolerance=tolerance
    )

    def run(answer):
        seen = plain.run(answer)
        if dtype == torch.float64 and all(isinstance(seen.get(name), torch.Tensor) for name in returns):
            leaves = {"dy": dy.clone(), "x": x.clone(), "weight": weight.clone()}
            for leaf in leaves.values():
                leaf.requires_grad_()
            seen |= _second(answer, leaves, eps, seed)
        return seen

    return replace(plain, run=run, shown={"dy": dy, "x": x, "weight": weight})


def _second(answer, leaves, eps, seed):
    dy, x, weight = (leaf * 1 for leaf in leaves.values())  # no leaves: an answer that works in place is told so before
    try:
        out = answer(dy, x, *_stats(x, eps), weight)
        out = [out] if isinstance(out, torch.Tensor) else out
        if not all(item.requires_grad for item in out):
            return {f"gradient of {name}": "no gradient" for name in leaves}
        loss = sum((item * draw(seed + 3 + i, *item.shape)).sum() for i, item in enumerate(out))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    except Exception as error:
        return {"gradient of dy": raised(error)}
    return {f"gradient of {name}": "no gradient" if g is None else g for name, g in zip(leaves, found, strict=True)}


def _backward(**changed):
    """Return layer_norm_backward with an output replaced: name -> function of a namespace with x_hat and h in it."""
    parts = {
        "dx": lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat)),
        "dweight": lambda s: _rows(s.dy * s.x_hat),
        "dbias": lambda s: _rows(s.dy),
    } | changed

    def answer(dy, x, mean, rstd, weight):
        s = SimpleNamespace(dy=dy, x=x, mean=mean, rstd=rstd, weight=weight, x_hat=(x - mean) * rstd, h=dy * weight)
        s.D = x.shape[-1]
        return tuple(parts[name](s) for name in _RETURNS)

    return answer


def _both(change):
    return _backward(dweight=lambda s: change(s.dy * s.x_hat), dbias=lambda s: change(s.dy))


def _given(**changed):
    """Return the right backward, called with another mean or rstd."""

    def answer(dy, x, mean, rstd, weight):
        new = {name: change(x, mean, rstd) for name, change in changed.items()}
        return _backward()(dy, x, new.get("mean", mean), new.get("rstd", rstd), weight)

    return answer


_NO_MEAN = (
    "the mean term is missing: a part that all entries of h share must be taken off. "
    "Look: your dx does not sum to 0 in a row."
)
_NO_VARIANCE = "the variance term is missing: take off x_hat * mean(h * x_hat), the part of h along x_hat."

_DX = [
    Mistake(_NO_MEAN, _backward(dx=lambda s: s.rstd * (s.h - s.x_hat * _m(s.h * s.x_hat)))),
    Mistake(_NO_VARIANCE, _backward(dx=lambda s: s.rstd * (s.h - _m(s.h)))),
    Mistake(
        "mean and rstd are treated as constants: both subtracted terms are missing.",
        _backward(dx=lambda s: s.rstd * s.h),
    ),
    Mistake(
        "the gain is missing in dx: h = dy * weight takes the place of dy, in all three terms.",
        _backward(dx=lambda s: s.rstd * (s.dy - _m(s.dy) - s.x_hat * _m(s.dy * s.x_hat))),
    ),
    Mistake(
        "the gain is applied last, as in BatchNorm. Here it differs along the row: it belongs into h, before the means.",
        _backward(dx=lambda s: s.weight * s.rstd * (s.dy - _m(s.dy) - s.x_hat * _m(s.dy * s.x_hat))),
    ),
    Mistake(
        "the gain is used twice, in h and again at the end.",
        _backward(dx=lambda s: s.weight * s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the gain is in the first term only. h = dy * weight takes the place of dy in all three.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.dy) - s.x_hat * _m(s.dy * s.x_hat))),
    ),
    Mistake(
        "the gain is missing inside the variance term: mean(h * x_hat), not mean(dy * x_hat).",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.dy * s.x_hat))),
    ),
    Mistake(
        "the gain is missing inside the mean term: mean(h), not mean(dy).",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.dy) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the variance term divides by D - 1. This variance is biased: it divides by D, and so does its gradient.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * _s(s.h * s.x_hat) / (s.D - 1))),
    ),
    Mistake(
        "both terms divide by D - 1. They are means: divide by D.",
        _backward(dx=lambda s: s.rstd * (s.h - _s(s.h) / (s.D - 1) - s.x_hat * _s(s.h * s.x_hat) / (s.D - 1))),
    ),
    Mistake(
        "sums where means belong: each term is divided by D.",
        _backward(dx=lambda s: s.rstd * (s.h - _s(s.h) - s.x_hat * _s(s.h * s.x_hat))),
    ),
    Mistake(
        "the mean term is a sum: divide it by D.",
        _backward(dx=lambda s: s.rstd * (s.h - _s(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the variance term is a sum: divide it by D.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * _s(s.h * s.x_hat))),
    ),
    Mistake(
        "everything is divided by D. Only the two sums are.",
        _backward(dx=lambda s: s.rstd / s.D * (s.h - _s(s.h) - s.x_hat * _s(s.h * s.x_hat))),
    ),
    Mistake(
        "y stands where x_hat belongs: the variance term has no gain in x_hat.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.weight * s.x_hat * _m(s.h * s.weight * s.x_hat))),
    ),
    Mistake(
        "the variance term holds x - mean where x_hat belongs: a factor rstd is missing (at rstd = 1 nobody sees it).",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.h * (s.x - s.mean)))),
    ),
    Mistake(
        "the variance term holds x - mean where x_hat belongs, twice.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - (s.x - s.mean) * _m(s.h * (s.x - s.mean)))),
    ),
    Mistake(
        "the variance term holds x where x_hat belongs.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x * _m(s.h * s.x))),
    ),
    Mistake("x_hat = x * rstd: the mean is not subtracted.", _given(mean=lambda x, mean, rstd: 0 * mean)),
    Mistake(
        "the second x_hat of the variance term is missing: mean(h * x_hat), then times x_hat.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the mean over the row is missing in the variance term: x_hat * mean(h * x_hat), one number a row.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - s.x_hat * (s.h * s.x_hat))),
    ),
    Mistake(
        "the factor rstd in front is missing.", _backward(dx=lambda s: s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat))
    ),
    Mistake(
        "rstd is squared in front. Once is enough: x_hat has its own rstd inside.",
        _backward(dx=lambda s: s.rstd**2 * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "rstd is cubed in front. That power belongs to the derivative by the variance alone.",
        _backward(dx=lambda s: s.rstd**3 * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the variance term is doubled. The 2 of the square and the 1/2 of the root cancel.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - 2 * s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the variance term is halved. The 2 of the square and the 1/2 of the root cancel.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) - 0.5 * s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the sign of the whole dx is turned around.",
        _backward(dx=lambda s: -s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the gain is taken out of the mean term: mean(h) = mean(dy * weight), for the gain differs along the row.",
        _backward(dx=lambda s: s.rstd * (s.h - s.weight * _m(s.dy) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "rstd stands in front of the first term only: it multiplies all three.",
        _backward(dx=lambda s: s.rstd * s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat)),
    ),
    Mistake(
        "rstd is cubed in the variance term: two of the three are in x_hat already.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h)) - s.rstd**3 * s.x_hat * _m(s.h * s.x_hat)),
    ),
    Mistake(
        "the terms are added. Both are taken off.",
        _backward(dx=lambda s: s.rstd * (s.h + _m(s.h) + s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the variance term is added. It is taken off.",
        _backward(dx=lambda s: s.rstd * (s.h - _m(s.h) + s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "the mean term is added. It is taken off.",
        _backward(dx=lambda s: s.rstd * (s.h + _m(s.h) - s.x_hat * _m(s.h * s.x_hat))),
    ),
    Mistake(
        "rstd is taken for the deviation: it is 1 / sqrt(var + eps), so multiply by it.",
        _given(rstd=lambda x, mean, rstd: 1 / rstd),
    ),
    Mistake(
        "rstd is taken for the variance. It is 1 / sqrt(var + eps) already: multiply by it.",
        _given(rstd=lambda x, mean, rstd: torch.rsqrt(rstd + 1e-5)),
    ),
    Mistake(
        "rstd is taken for the variance. It is 1 / sqrt(var + eps) already: multiply by it.",
        _given(rstd=lambda x, mean, rstd: torch.rsqrt(rstd)),
    ),
    Mistake(
        "the statistics are computed anew with eps = 1e-5. The given rstd knows which eps the forward pass had.",
        _given(rstd=lambda x, mean, rstd: _stats(x, 1e-5)[1]),
    ),
    Mistake(
        "the statistics are computed anew without eps. The given rstd knows which eps the forward pass had.",
        _given(rstd=lambda x, mean, rstd: _stats(x, 0.0)[1]),
    ),
    Mistake(
        "the statistics are computed anew, with the unbiased variance. Use the given rstd.",
        _given(rstd=lambda x, mean, rstd: 1 / x.std(-1, keepdim=True)),
    ),
    Mistake("the first output is dweight: return (dx, dweight, dbias).", _backward(dx=lambda s: _rows(s.dy * s.x_hat))),
    Mistake(
        "the means run over the rows (axis 0), as in BatchNorm. LayerNorm's run over the features, axis -1.",
        _backward(
            dx=lambda s: s.rstd * (s.h - s.h.mean(0, keepdim=True) - s.x_hat * (s.h * s.x_hat).mean(0, keepdim=True))
        ),
    ),
    Mistake(
        "the means run over axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor.",
        _backward(
            dx=lambda s: s.rstd * (s.h - s.h.mean(1, keepdim=True) - s.x_hat * (s.h * s.x_hat).mean(1, keepdim=True))
        ),
    ),
    Mistake(
        "the means run over the whole tensor. Each row has its own: axis -1, keepdim=True.",
        _backward(dx=lambda s: s.rstd * (s.h - s.h.mean() - s.x_hat * (s.h * s.x_hat).mean())),
    ),
    Mistake(
        "the means have lost their axis: say keepdim=True in both.",
        _backward(dx=lambda s: s.rstd * (s.h - s.h.mean(-1) - s.x_hat * (s.h * s.x_hat).mean(-1))),
    ),
    Mistake(
        "dx is summed over the rows. Each row of x has a gradient of its own; only weight and bias serve all rows.",
        _backward(dx=lambda s: _rows(s.rstd * (s.h - _m(s.h) - s.x_hat * _m(s.h * s.x_hat)))),
    ),
    Mistake(
        "the first output is h, the gradient at x_hat. The way from x_hat to x is missing.", _backward(dx=lambda s: s.h)
    ),
]

_PARAMETERS = [
    Mistake(
        "dweight and dbias are not summed over the rows. Weight and bias serve every row: their gradients are (D,).",
        _both(lambda t: t),
    ),
    Mistake(
        "dweight and dbias are means over the rows. Every row adds its part to the loss: sum.",
        _both(lambda t: t.reshape(-1, t.shape[-1]).mean(0)),
    ),
    Mistake(
        "dweight and dbias are summed over the first axis only. Sum over all axes but the last.",
        _both(lambda t: t.sum(0)),
    ),
    Mistake(
        "axes 0 and 1 are summed whatever comes in. Sum over all axes but the last.", _both(lambda t: t.sum((0, 1)))
    ),
    Mistake(
        "dweight and dbias are summed over the features. Each feature has its own weight: keep the last axis.",
        _both(lambda t: t.sum(-1)),
    ),
    Mistake(
        "dweight and dbias are single numbers. Each feature has its own weight: keep the last axis.",
        _both(lambda t: t.sum()),
    ),
    Mistake(
        "the summed axes are still there with size 1. dweight and dbias have the shape of weight, (D,).",
        _both(lambda t: t.sum(tuple(range(t.dim() - 1)), keepdim=True)),
    ),
    Mistake(
        "dweight and dbias come from the last row alone. Add the rows up (+=) instead of overwriting.",
        _both(lambda t: t.reshape(-1, t.shape[-1])[-1]),
    ),
    Mistake("dweight is not summed over the rows: (D,), like weight.", _backward(dweight=lambda s: s.dy * s.x_hat)),
    Mistake(
        "dweight is summed over the first axis only. Sum over all axes but the last.",
        _backward(dweight=lambda s: (s.dy * s.x_hat).sum(0)),
    ),
    Mistake(
        "dweight and dbias use h. What arrives at weight and bias is dy: h is on its way to x_hat.",
        _backward(dweight=lambda s: _rows(s.h * s.x_hat), dbias=lambda s: _rows(s.h)),
    ),
    Mistake(
        "dweight lacks dy: the gradient that arrives multiplies everything.",
        _backward(dweight=lambda s: _rows(s.x_hat)),
    ),
    Mistake(
        "dweight uses h. The weight multiplies x_hat, and dy arrives there: sum dy * x_hat.",
        _backward(dweight=lambda s: _rows(s.h * s.x_hat)),
    ),
    Mistake("dweight uses x, not x_hat. The weight multiplies x_hat.", _backward(dweight=lambda s: _rows(s.dy * s.x))),
    Mistake(
        "dweight uses x - mean, not x_hat: a factor rstd is missing.",
        _backward(dweight=lambda s: _rows(s.dy * (s.x - s.mean))),
    ),
    Mistake("dweight lacks x_hat: it is dbias.", _backward(dweight=lambda s: _rows(s.dy))),
    Mistake(
        "dbias uses h. The bias is added after the gain: what arrives there is dy.",
        _backward(dbias=lambda s: _rows(s.h)),
    ),
    Mistake("dbias is not summed over the rows: (D,), like bias.", _backward(dbias=lambda s: s.dy)),
    Mistake(
        "dweight and dbias are swapped: return (dx, dweight, dbias).",
        _backward(dweight=lambda s: _rows(s.dy), dbias=lambda s: _rows(s.dy * s.x_hat)),
    ),
]


def _backward_probes(returns):
    return [
        _total(returns, "3 rows of 5", 31, 3, 5, scale=3, mean=2),
        _total(returns, "a (2, 3, 4) tensor", 41, 2, 3, 4, mean=-1),
        _total(returns, "4 rows of 4", 51, 4, 4, scale=2),
        _total(returns, "rows of spread 0.01", 61, 3, 6, scale=0.01),
        _total(returns, "a forward pass with eps=0.1", 71, 2, 7, scale=0.3, eps=0.1),
        _total(returns, "two constant rows", 81, 2, 4, x=torch.tensor([[0.0] * 4, [2.5] * 4], dtype=torch.float64)),
        # float32: the sums have 24 bits; the expanded form a * h + b * x + c of PyTorch's kernel loses a few of them
        _total(returns, "float32 rows around 100", 91, 4, 32, mean=100.0, dtype=torch.float32, tolerance=1e-4),
    ]


_PROBES, _DX_PROBES = _backward_probes(_RETURNS), _backward_probes(("dx",))
_RIGHT, _RIGHT_DX = in_float64(_backward()), in_float64(_first(_backward(), 1))
_DX_ALONE = [Mistake(mistake.cause, _first(mistake.answer, 1)) for mistake in _DX]


def layer_norm_backward(answer):
    """Check a function (dy, x, mean, rstd, weight) -> (dx, dweight, dbias) over the last axis (lesson 7)."""
    # dx first, so that its mistake is named whatever dweight and dbias are
    if all(name in observe(_PROBES[0], answer) for name in _RETURNS) and _first_wrong(answer, _RIGHT, _PROBES, ("dx",)):
        examine(_first(answer, 1), "layer_norm_backward", _DX_PROBES, _RIGHT_DX, _DX_ALONE)
    examine(
        answer,
        "layer_norm_backward",
        _PROBES,
        _RIGHT,
        _PARAMETERS,
        tried="2 and 3 axes, small spread, another eps, constant rows, float32, second derivatives",
    )


# ---- What a loss sees ------------------------------------------------------------------------------------------------

_SEES = {
    "y.sum(), mean term missing": True,
    "y.sum(), variance term missing": False,
    "(y**2).sum(), mean term missing": False,
    "(y**2).sum(), variance term missing": True,
    "(y * random).sum(), mean term missing": True,
    "(y * random).sum(), variance term missing": True,
    "(y * random).sum(), gain forgotten": False,
}


def blind_losses(answer):
    """Check which loss sees which wrong gradient, at gain 1 and bias 0 (lesson 7)."""
    why = {
        "y.sum(), mean term missing": "Here h = 1 everywhere. The right dx is 0; without the mean term h stays, and is not 0.",
        "y.sum(), variance term missing": "Here h = 1 everywhere, and mean(h * x_hat) = mean(x_hat) = 0: there is nothing to miss.",
        "(y**2).sum(), mean term missing": "Here h = 2 * x_hat, and mean(h) = 0: there is nothing to miss.",
        "(y**2).sum(), variance term missing": "Here h = 2 * x_hat. The right dx is (nearly) 0; without the variance term h stays.",
        "(y * random).sum(), mean term missing": "A random h has a mean, so the missing term shows.",
        "(y * random).sum(), variance term missing": "A random h has a part along x_hat, so the missing term shows.",
        "(y * random).sum(), gain forgotten": "The gain is 1 in all these tests: dy * weight is dy.",
    }
    values(answer, "blind_losses", _SEES, [(key, not right, why[key]) for key, right in _SEES.items()])


# ---- The autograd.Function -------------------------------------------------------------------------------------------

_IN = ("x", "weight", "bias")


def _inputs(seed, *shape, scale=1.0, mean=0.0, dtype=torch.float64):
    return (
        draw(seed, *shape, scale=scale, mean=mean, dtype=dtype),
        draw(seed + 1, shape[-1], mean=0.5, dtype=dtype),
        draw(seed + 2, shape[-1], dtype=dtype),
    )


def _error(error):
    """What an error says, where its type alone does not tell two mistakes apart."""
    found = raised(error)
    if "incorrect number of gradients" in found.text:
        return f"the wrong number of gradients {found.text[found.text.find('(') :]}"
    if "once_differentiable" in found.text:
        return "refused by @once_differentiable"
    if "does not require grad" in found.text:
        return "no gradient"
    if "a gradient different than None" in found.text:
        return "a gradient for an input that is no tensor"
    return found


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
        wanted, dy = leaves[:1] if only_x else leaves, weights.clone()
        try:
            found = torch.autograd.grad(y, wanted, dy, allow_unused=True)
        except Exception as error:
            return {"dy after the call": dy, "y": y.detach(), "gradient of x": _error(error)}
        found = ["no gradient" if item is None else item for item in found]
        return {"dy after the call": dy, "y": y.detach()} | {
            f"gradient of {n}": g for n, g in zip(_IN, found, strict=False)
        }

    return Probe(label, run, {"x": given[0], "weight": given[1], "eps": eps}, tolerance)


def _twice(label, seed, *shape):
    """Return a Probe of the second derivative: gradients of sum(dx * random) + sum(dweight * random)."""
    given = _inputs(seed, *shape)
    dy, v, u = draw(seed + 3, *shape), draw(seed + 4, *shape), draw(seed + 5, shape[-1])

    def run(answer):
        leaves = [item.clone().requires_grad_() for item in given]
        arrives = dy.clone().requires_grad_()
        try:
            y = answer.apply(*leaves, 1e-5)
            dx, dweight = torch.autograd.grad(y, leaves[:2], arrives, create_graph=True)
            loss = (dx * v).sum() + (dweight * u).sum()
            found = torch.autograd.grad(loss, [leaves[0], leaves[1], arrives], allow_unused=True)
        except Exception as error:
            return {"gradient of the gradient in x": _error(error)}
        found = ["no gradient" if item is None else item for item in found]
        return dict(zip([f"gradient of the gradient in {n}" for n in ("x", "weight", "dy")], found, strict=True))

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
            for value in getattr(y.grad_fn, "__dict__", {}).values():  # what was put on ctx by hand
                for item in value if isinstance(value, (tuple, list)) else [value]:
                    if isinstance(item, torch.Tensor):
                        kept[item.untyped_storage().data_ptr()] = item
        kept.pop(x.untyped_storage().data_ptr(), None)
        return {
            "the number of tensors of x's size that are kept besides x": sum(
                item.numel() >= x.numel() for item in kept.values()
            )
        }

    return Probe(label, run, {})


def _function(
    keep=("x", "weight"), stats="anew", result=None, eps_in_backward=None, forward=None, wrap=None, hands=None
):
    """Return an autograd.Function; the arguments are one thing each that can be wrong with it.

    keep: what is saved. stats: "anew" (from x, on the tape), "constant" (those of the forward pass), "x_hat" (it too).
    result: (dx, dweight, dbias) -> what backward returns. eps_in_backward: used instead of the given one.
    forward: (x, weight, bias, eps) -> y. wrap: decorator of backward.
    hands: (dy, x, mean, var, eps, weight) -> the five arguments of layer_norm_backward.
    """

    class Answer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias, eps):
            mean, rstd = _stats(x, eps)
            x_hat = (x - mean) * rstd
            known = {"x": x, "weight": weight, "mean": mean, "rstd": rstd, "x_hat": x_hat}
            ctx.save_for_backward(*(known[name] for name in dict.fromkeys([*keep, "mean", "rstd"])))
            ctx.eps = eps if eps_in_backward is None else eps_in_backward
            return forward(x, weight, bias, eps) if forward else x_hat * weight + bias

        def backward(ctx, dy):
            known = dict(zip(dict.fromkeys([*keep, "mean", "rstd"]), ctx.saved_tensors, strict=True))
            x, weight, mean, rstd = known["x"], known["weight"], known["mean"], known["rstd"]
            if stats != "constant":
                mean, rstd = _stats(x, ctx.eps)
            if stats == "x_hat":
                x, mean, rstd = known["x_hat"], 0.0, known["rstd"]
                grads = _backward(dx=lambda s: _backward()(dy, x, 0.0, 1.0, weight)[0] * rstd)(dy, x, 0.0, 1.0, weight)
                return *grads, None
            given = (dy, x, mean, rstd, weight)
            if hands:
                given = hands(dy, x, mean, _m((x - mean) ** 2), ctx.eps, weight)
            grads = _backward()(*given)
            return (*grads, None) if result is None else result(*grads)

        backward = staticmethod(wrap(backward) if wrap else backward)

    return Answer


def _no_grad(backward):
    def silent(ctx, dy):
        with torch.no_grad():
            return backward(ctx, dy)

    return silent


_FUNCTION = [
    Mistake(
        "mean and rstd are constants for the second derivative: they were saved in the forward pass, or detached. "
        "Compute them anew from the saved x, in backward.",
        _function(stats="constant"),
    ),
    Mistake(
        "x_hat is saved instead of x: one more tensor of x's size, and no way back to x for the second derivative.",
        _function(keep=("weight", "x_hat", "x"), stats="x_hat"),
    ),
    Mistake(
        "backward runs without a tape (no_grad or detach), so there is no second derivative.", _function(wrap=_no_grad)
    ),
    Mistake(
        "once_differentiable makes the second derivative an error. That is honest; here backward can do better.",
        _function(wrap=torch.autograd.function.once_differentiable),
    ),
    Mistake(
        "backward returns three gradients, and forward took four inputs. For eps, which needs none, return None.",
        _function(result=lambda dx, dw, db: (dx, dw, db)),
    ),
    Mistake(
        "backward returns one value (dx alone, or a list). It returns four, one for each input: dx, dweight, dbias, None.",
        _function(result=lambda dx, dw, db: dx),
    ),
    Mistake(
        "the three gradients are still in one tuple. A star takes them out: return *gradients, None.",
        _function(result=lambda dx, dw, db: ((dx, dw, db), None)),
    ),
    Mistake(
        "backward returns a gradient for eps. It is no tensor and needs none: return None in its place.",
        _function(result=lambda dx, dw, db: (dx, dw, db, 0.0)),
    ),
    Mistake(
        "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got sqrt(var + eps).",
        _function(hands=lambda dy, x, mean, var, eps, w: (dy, x, mean, torch.sqrt(var + eps), w)),
    ),
    Mistake(
        "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got the variance.",
        _function(hands=lambda dy, x, mean, var, eps, w: (dy, x, mean, var, w)),
    ),
    Mistake(
        "layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got var + eps.",
        _function(hands=lambda dy, x, mean, var, eps, w: (dy, x, mean, var + eps, w)),
    ),
    Mistake(
        "eps stands outside the root. rstd = 1 / sqrt(var + eps).",
        _function(hands=lambda dy, x, mean, var, eps, w: (dy, x, mean, 1 / (var.sqrt() + eps), w)),
    ),
    Mistake(
        "the variance is unbiased (D - 1). The forward pass divides by D, and so must backward: mean_and_var(x).",
        _function(
            hands=lambda dy, x, mean, var, eps, w: (
                dy,
                x,
                mean,
                torch.rsqrt(var * x.shape[-1] / (x.shape[-1] - 1) + eps),
                w,
            )
        ),
    ),
    Mistake(
        "mean and rstd are swapped: layer_norm_backward(dy, x, mean, rstd, weight).",
        _function(hands=lambda dy, x, mean, var, eps, w: (dy, x, torch.rsqrt(var + eps), mean, w)),
    ),
    Mistake(
        "dy and x are swapped: layer_norm_backward(dy, x, mean, rstd, weight).",
        _function(hands=lambda dy, x, mean, var, eps, w: (x, dy, mean, torch.rsqrt(var + eps), w)),
    ),
    Mistake(
        "dweight and dbias are swapped. The gradients come in the order of forward's inputs: x, weight, bias, eps.",
        _function(result=lambda dx, dw, db: (dx, db, dw, None)),
    ),
    Mistake(
        "x gets no gradient: backward returns None in its place.",
        _function(result=lambda dx, dw, db: (None, dw, db, None)),
    ),
    Mistake(
        "weight and bias get no gradient: backward returns None in their place.",
        _function(result=lambda dx, dw, db: (dx, None, None, None)),
    ),
    Mistake(
        "x_hat is saved as well: one more tensor of x's size. It can be computed anew from x.",
        _function(keep=("x", "weight", "x_hat")),
    ),
    Mistake("backward uses eps = 1e-5 instead of ctx.eps.", _function(eps_in_backward=1e-5)),
    Mistake("backward leaves eps out: rsqrt(var + ctx.eps).", _function(eps_in_backward=0.0)),
]


def layer_norm_function(answer):
    """Check an autograd.Function with apply(x, weight, bias, eps) -> y over the last axis (lesson 7)."""
    if isinstance(answer, type) and not issubclass(answer, torch.autograd.Function):
        reject(
            "check.layer_norm_function takes a torch.autograd.Function.",
            f"Write class {answer.__name__}(torch.autograd.Function).",
        )
    probes = [
        _applied("3 rows of 5", 101, 3, 5, scale=2, mean=1),
        _applied("a (2, 3, 4) tensor with eps=0.1", 111, 2, 3, 4, scale=0.5, eps=0.1),
        _applied("rows of spread 0.003", 121, 2, 6, scale=0.003),
        _applied("weight and bias that need no gradient", 131, 2, 5, only_x=True),
        # float32: x_hat, a sum over 33 features, and rstd up to 4, in 24 bits
        _applied("float32 rows", 141, 4, 33, dtype=torch.float32, tolerance=1e-5),
        _twice("2 rows of 5, differentiated twice", 151, 2, 5),
        _kept("a (7, 11) input", 161, 7, 11),
    ]
    examine(
        answer,
        "layer_norm_function",
        probes,
        _function(),
        _FUNCTION,
        kind="class",
        tried="values, gradients, second derivatives, what is kept",
    )


# ---- The clinic ------------------------------------------------------------------------------------------------------


def mended_gradient(answer):
    """Check a function (dy, x_hat, rstd, weight) -> dx, the mended patient of the clinic (lesson 7)."""

    def probe(label, seed, *shape, dtype=torch.float64, **more):
        x = draw(seed, *shape)
        mean, rstd = _stats(x, 1e-5)
        given = draw(seed + 1, *shape), (x - mean) * rstd, rstd, draw(seed + 2, shape[-1], mean=0.5)
        return call(
            label, *(item.to(dtype) for item in given), names=("dy", "x_hat", "rstd", "weight"), returns=("dx",), **more
        )

    def dx(h=lambda s: s.dy * s.weight, after=lambda s: 1.0, first=None, second=None, third=None):
        def answer(dy, x_hat, rstd, weight):
            s = SimpleNamespace(dy=dy, x_hat=x_hat, rstd=rstd, weight=weight)
            a, b, c = ((term or h)(s) for term in (first, second, third))
            return after(s) * rstd * (a - _m(b) - x_hat * _m(c * x_hat))

        return answer

    plain = lambda s: s.dy  # noqa: E731
    mistakes = [
        Mistake(
            "that is the patient. Its gain stands after the means; look at which axis the gain varies along.",
            dx(h=plain, after=lambda s: s.weight),
        ),
        Mistake("the gain is gone. It belongs into h = dy * weight.", dx(h=plain)),
        Mistake("the gain is there twice: before the means and, still, behind them.", dx(after=lambda s: s.weight)),
        Mistake(
            "the gain is in the first term only: h takes the place of dy in all three.", dx(second=plain, third=plain)
        ),
        Mistake("the gain is missing in the first term: h takes the place of dy in all three.", dx(first=plain)),
        Mistake(
            "the gain still stands in front. In the sums it is right; put it into the first term as well, and take it off there.",
            dx(first=plain, after=lambda s: s.weight),
        ),
        Mistake(
            "a factor D is left over: D * h and the two sums are divided by D together.",
            dx(after=lambda s: s.dy.shape[-1]),
        ),
        Mistake("the gain is missing in the mean term: mean(h).", dx(second=plain)),
        Mistake("the gain is missing in the variance term: mean(h * x_hat).", dx(third=plain)),
        Mistake(
            "the gain's mean is no cure: each feature has its own gain, and it belongs into h.",
            dx(h=plain, after=lambda s: _m(s.weight)),
        ),
        Mistake("the gain is divided by. dy times weight reaches x_hat.", dx(h=lambda s: s.dy / s.weight)),
        Mistake(
            "the gain is in x_hat too. It belongs into h only.",
            lambda dy, x_hat, rstd, weight: dx()(dy, x_hat * weight, rstd, weight),
        ),
        Mistake(_NO_MEAN, dx(second=lambda s: 0 * s.dy)),
        Mistake(_NO_VARIANCE, dx(third=lambda s: 0 * s.dy)),
        Mistake("rstd is missing.", lambda dy, x_hat, rstd, weight: dx()(dy, x_hat, rstd, weight) / rstd),
    ]
    probes = [
        probe("3 rows of 5", 171, 3, 5),
        probe("a (2, 3, 4) tensor", 181, 2, 3, 4),
        probe("4 rows of 4", 191, 4, 4),
    ]
    probes.append(probe("float32 rows of 64", 201, 2, 64, dtype=torch.float32, tolerance=1e-5))  # means of 64, 24 bits
    examine(answer, "mended_gradient", probes, in_float64(dx()), mistakes, tried="2 and 3 axes, random gains")

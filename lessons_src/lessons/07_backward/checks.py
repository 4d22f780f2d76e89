"""Checks of lesson 7.

The gradients of a backward function are compared as total derivatives: mean and rstd are computed from x on the tape.
Formulas that agree for every x agree in them too, however they treat a mean that is not the mean of x.
"""

import functools
from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from fromscratch.backward import LayerNormFunction as _LayerNormFunction
from lessonkit.check.declare import Probe, Raised, call, derives, draw, exercise, quiz

_EPSILONS = ({"eps": 1e-5}, {"eps": 0.5})


def _stats(x, eps):
    mean = x.mean(-1, keepdim=True)
    return mean, torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)


# ---- On paper
_ALONE = "This comes from {} alone. A second arrow leaves {}: the one to {}."
gradients_on_paper = quiz(
    dvar=(
        1,
        {
            2: "Is there a ½ in front, and is the exponent -3/2? It goes down by 1, and 4 to the power of -3/2 is 1/8.",
            4: "The exponent goes down by 1, from -1/2 to -3/2. You have kept it.",
            -0.0625: "This is the derivative at the arrow. Multiply it by what arrives at rstd.",
            1.22: "eps is missing: v + eps is 4, and v alone is 3.5.",
        },
    ),
    dcentered=(
        (-1, 3, 2, 0),
        {
            (0, 3.5, 2, -1.5): _ALONE.format("x_hat", "centered", "var"),
            (-1, -0.5, 0, 1.5): _ALONE.format("var", "centered", "x_hat"),
            (
                -2,
                -1,
                0,
                3,
            ): "This is dvar times centered alone. The arrow to var says centered · 2/4, and x_hat has an arrow too.",
            (
                -2,
                2.5,
                2,
                1.5,
            ): "The arrow to var says centered · 2/4. You have multiplied by centered alone.",
            (
                -4,
                1.5,
                2,
                4.5,
            ): "The arrow to var says centered · 2/4. The fourth is missing: var is a mean.",
            (
                -1,
                6.5,
                4,
                -1.5,
            ): "The arrow to x_hat says rstd, which is ½. That factor is missing.",
        },
    ),
    dmean=(
        -4,
        {
            -1: "This is a mean. Four arrows leave the box of the mean, so what comes back is added.",
            (
                1,
                -3,
                -2,
                0,
            ): "These four come back along four arrows. They are added in the box that the arrows left.",
        },
    ),
    dx=(
        (-2, 2, 1, -1),
        {
            (
                -5,
                -1,
                -2,
                -4,
            ): "The arrow from x to the mean says ¼: each entry gets a fourth of dmean.",
            (0, 4, 3, 1): "The two arrows are added. The minus stands in dmean already.",
        },
    ),
    tolerance=0.01,
)


# ---- The closed form
def _backward(dy, x, mean, rstd, weight):
    x_hat = (x - mean) * rstd
    h = dy * weight
    mean_h = h.mean(-1, keepdim=True)
    along = (h * x_hat).mean(-1, keepdim=True)
    dx = rstd * (h - mean_h - x_hat * along)
    dweight = (dy * x_hat).sum_to_size(weight.shape)
    dbias = dy.sum_to_size(weight.shape)
    return dx, dweight, dbias


_RETURNS = ("dx", "dweight", "dbias")


def _whole(seen):
    """Return whether as many outputs came back as there should, whatever they are worth."""
    other = {what: value for what, value in seen.items() if what.startswith("(")}
    return other or dict.fromkeys(_RETURNS, "returned")


def _up_to(i, probes):
    """Return a stage: what the probes see of output i and of those before it, whatever comes behind."""
    later = _RETURNS[i + 1 :]
    reads = lambda seen: {what: value for what, value in seen.items() if what not in later}  # noqa: E731
    return [replace(probe, reads=reads) for probe in probes], _RETURNS[i]


def _terms(dy, x, weight, seen):
    """Say what sum of a formula's parts a wrong dx is; "" where it is none, or the rows are too few to tell."""
    (mean, rstd), m = _stats(x, 1e-5), lambda rows: rows.mean(-1, keepdim=True)
    x_hat, h = (x - mean) * rstd, dy * weight
    bare = {"h": h, "mean(h)": m(h), "x_hat mean(h x_hat)": x_hat * m(h * x_hat)}
    also = {"mean(dy)": m(dy), "x_hat mean(dy x_hat)": x_hat * m(dy * x_hat)}
    in_front = bare | also | {"dy": dy, "mean(h x_hat)": m(h * x_hat)}
    in_front["x_hat mean(h)"] = x_hat * m(h)
    in_front |= {f"weight {name}": weight * part for name, part in also.items()}
    in_front["rstd x_hat mean(h x_hat)"] = rstd * bare["x_hat mean(h x_hat)"]
    parts = bare | {f"rstd {name}": rstd * part for name, part in in_front.items()}
    dx = seen.get("dx")
    if not torch.is_tensor(dx) or dx.shape != x.shape or len(parts) > x.numel() / 2:
        return ""
    columns = torch.stack([part.expand(x.shape).flatten() for part in parts.values()], 1)
    factors = torch.linalg.lstsq(columns, dx.nan_to_num().flatten()[:, None]).solution.flatten()
    if not torch.allclose(columns @ factors, dx.flatten(), atol=1e-9):
        return ""
    told = [
        f"{'-' if factor < 0 else '+'} {'' if abs(abs(factor) - 1) < 1e-6 else f'{abs(factor):.3g} '}{name}"
        for factor, name in zip(factors.tolist(), parts, strict=True)
        if abs(factor) > 1e-6
    ]
    right = {
        "rstd h": ("straight", 1),
        "rstd mean(h)": ("through the mean", -1),
        "rstd x_hat mean(h x_hat)": ("through the variance", -1),
    }
    given = dict(zip(parts, factors.tolist(), strict=True))
    fits = [path for part, (path, factor) in right.items() if abs(given[part] - factor) < 1e-6]
    if len(fits) == len(right):  # what is wrong is not dx
        return ""
    what = ", ".join(fits) or "none of the three paths"
    return f"Your dx is {' '.join(told).removeprefix('+ ') or 0}, with h = dy * weight. Right in it: {what}."


def _from_statistics(label, seed, *shape, scale=1.0, mean=0.0):
    dy, x, weight = (
        draw(seed, *shape),
        draw(seed + 2, *shape, scale=scale, mean=mean),
        draw(seed + 1, shape[-1]),
    )
    names = ("dy", "x", "mean", "rstd", "weight")
    terms = functools.partial(_terms, dy, x, weight)
    probe = call(
        label, dy, x, *_stats(x, 1e-5), weight, names=names, returns=_RETURNS, gradient=False
    )
    return replace(probe, shown={"dy": dy, "x": x, "weight": weight}, why=terms)


_ROWS = [
    _from_statistics("6 rows of 5", 31, 6, 5, scale=3, mean=2),
    _from_statistics("a (2, 3, 4) tensor", 41, 2, 3, 4, mean=-1),
]
layer_norm_backward = exercise(
    _backward,
    [replace(_ROWS[0], reads=_whole)],
    *(_up_to(i, _ROWS) for i in range(3)),
    [_from_statistics("one row of 5", 61, 5, scale=3)],
    takes={"dy": "... D", "x": "... D", "weight": "D"},
    returns=_RETURNS,
    use=lambda answer, sizes, eps: lambda dy, x, weight: answer(dy, x, *_stats(x, eps), weight),
    options=_EPSILONS,
    sizes={
        "D": (7, 1, 3, 17, 1100)
    },  # not 2: there nothing but eps and the rounding is left of a gradient
    gradient=1,
    # torch.autograd.grad and tensor.backward as well, where the formula is to be written
    by_hand=("layer_norm", "layer_norm_backward", "grad", "backward"),
    says="layer_norm_backward does what it should (1 to 5 axes, small spread, an outlier, an offset, two eps, constant rows, float32, second derivatives)",
    wrong="""
    # dx is still 0. | Write the line of the straight path, and run the check again.
    dx = torch.zeros_like(h)

    # dx is the straight path, and that part is right. The two others are still 0. | Take the next path, and run the check again.
    dx = rstd * h

    # the straight path and the one through the mean are right. What comes through the variance is still 0.
    dx = rstd * (h - mean_h)

    # what comes through the mean has the wrong sign: dx/dmean is -1. The two others are right.
    dx = rstd * (h + mean_h - x_hat * along)

    # what comes through the variance has the wrong sign: rstd falls where var grows. The two others are right.
    dx = rstd * (h - mean_h + x_hat * along)

    # what comes through the mean is a sum. Each entry gets a D-th of it. The two others are right.
    dx = rstd * (h - h.sum(-1, keepdim=True) - x_hat * along)

    # what comes through the variance is D times too large: var is a mean, so its arrow says 2 c / D. The two others are right.
    dx = rstd * (h - mean_h - x_hat * (h * x_hat).sum(-1, keepdim=True))

    # what comes through the variance is twice too large: the derivative of rstd has a 1/2 in front. The two others are right.
    dx = rstd * (h - mean_h - 2 * x_hat * along)

    # dweight is still None. | Write its line, and run the check again.
    return dx, None, dbias

    # the means run over the rows (axis 0), as in BatchNorm. | LayerNorm's run over the features, axis -1.
    mean_h, along = h.mean(0, keepdim=True), (h * x_hat).mean(0, keepdim=True)

    # the means are taken over all rows at once. Each row has its own. | mean(-1, keepdim=True) takes one for each row.
    mean_h, along = h.mean(), (h * x_hat).mean()

    # what comes through the mean is missing. Look: your dx does not sum to 0 in a row.
    dx = rstd * (h - x_hat * along)

    # x stands where x_hat or x - mean belongs.
    dx = rstd * (h - mean_h - x * along)

    # dweight is not summed over the rows. One parameter serves every row. | Its gradient has the shape (D,).
    dweight = dy * x_hat

    # dweight is a mean over the rows. Every row adds its part to the loss. | Sum.
    dweight = (dy * x_hat).mean(0)
    # or
    dweight, dbias = (dy * x_hat).mean(0), dy.mean(0)

    # dweight is summed over the first axis only. | Sum over all axes but the last.
    dweight = (dy * x_hat).sum(0)

    # dweight is summed over the features. Each feature has its own parameter. | Keep the last axis, sum over the others.
    dweight = (dy * x_hat).sum(-1)

    # dweight uses h. The weight multiplies x_hat, and what arrives there is dy.
    dweight = (h * x_hat).sum_to_size(weight.shape)

    # dweight uses x or x - mean. The weight multiplies x_hat.
    dweight = (dy * x).sum_to_size(weight.shape)
    # or
    dweight = (dy * (x - mean)).sum_to_size(weight.shape)

    # in a single row there is no axis to sum over, and a sum over an empty tuple of axes sums everything. | sum_to_size(weight.shape) sums over the right axes.
    dweight = (dy * x_hat).sum(tuple(range(dy.dim() - 1)))
    """,
)


# ---- The autograd.Function
def _inputs(seed, *shape):
    """Return x, weight and bias."""
    return draw(seed, *shape), draw(seed + 1, shape[-1], mean=0.5), draw(seed + 2, shape[-1])


def _telling(value):
    """An error by what it says, where its type alone does not tell two mistakes apart; any other value as it is."""
    text = value.text if isinstance(value, Raised) else ""
    telling = (
        "incorrect number of gradients",
        "require grad",
        "invalid gradient",
        "must match the",
    )
    said = next((words + text.partition(words)[2] for words in telling if words in text), "")
    return replace(value, kind=said, text="") if said else value


def _applied(label, *tensors, eps=1e-5):
    """Return a Probe of an autograd.Function on x, weight and bias: y and its gradients.

    With a fourth tensor, dy, it is differentiated twice: what it makes of dy, and the gradients of that.
    """
    names = ("x", "weight", "bias", "dy")[: len(tensors)]
    returns = ("dx", "dweight") if "dy" in names else ("y",)
    probe = call(label, *tensors, names=names, returns=returns)

    def run(cls):
        def applied(x, weight, bias, *dy):
            y = cls.apply(x, weight, bias, eps)
            return torch.autograd.grad(y, (x, weight), dy, create_graph=True) if dy else y

        seen = {what: _telling(value) for what, value in probe.run(applied).items()}
        words = "gradient of the gradient in" if "dy" in names else "gradient of"
        return {what.replace("gradient of", words): value for what, value in seen.items()}

    return replace(probe, run=run, shown=probe.shown | {"eps": eps})


def _kept(cls):
    """Observe the memory: how many tensors of x's size are kept for the backward pass, besides x."""
    x, weight, bias = (item.requires_grad_() for item in _inputs(161, 7, 11))
    kept = {}

    def pack(item):
        kept[item.untyped_storage().data_ptr()] = item
        return item

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda item: item):
        y = cls.apply(x, weight, bias, 1e-5)
    by_hand = getattr(getattr(y, "grad_fn", None), "__dict__", {})  # what was put on ctx
    for item in tree_leaves(by_hand):
        if isinstance(item, torch.Tensor):
            pack(item)
    kept.pop(x.untyped_storage().data_ptr(), None)
    large = sum(item.numel() >= x.numel() for item in kept.values())
    return {"the number of tensors of x's size that are kept besides x": large}


layer_norm_function = exercise(
    _LayerNormFunction,
    [
        Probe(
            "the class itself",
            lambda cls: {
                "whether it derives from torch.autograd.Function": derives(
                    cls, torch.autograd.Function
                )
            },
            why="Write class LayerNormFunction(torch.autograd.Function).",
        )
    ],
    [
        _applied("3 rows of 5", *_inputs(101, 3, 5)),
        _applied("a (2, 3, 4) tensor with eps=0.1", *_inputs(111, 2, 3, 4), eps=0.1),
    ],
    [
        _applied("2 rows of 5, differentiated twice", *_inputs(151, 2, 5), draw(154, 2, 5)),
        Probe("a (7, 11) input", _kept),
    ],
    takes={"x": "... D", "weight": "D", "bias": "D"},
    use=lambda cls, sizes, eps: lambda x, weight, bias: cls.apply(x, weight, bias, eps),
    options=_EPSILONS,
    # a hand-written backward loses digits far from 0
    values=("ordinary", "small", "outlier", "constant", "large"),
    tried="values, gradients, second derivatives, 1 to 5 axes, float32, what is kept",
    wrong="""
    # mean and rstd are constants for the second derivative: they were saved in the forward pass, or detached. | Compute them anew from the saved x, in backward.
    return *layer_norm_backward(dy, x, mean, rstd.detach(), weight), None
    # or
    x = x - x.mean(-1, keepdim=True).detach()
    return *layer_norm_backward(dy, x, mean.detach(), rstd.detach(), weight), None

    # backward returns three gradients, and forward took four inputs. | For eps, which needs none, return None.
    return layer_norm_backward(dy, x, mean, rstd, weight)

    # the bias gets no gradient: backward returns None for it. | Return dbias in its place.
    return *layer_norm_backward(dy, x, mean, rstd, weight)[:2], None, None

    # backward returns one value (dx alone, or a list), or nothing: is its `return` missing? It returns one for each input of forward. | dx, dweight, dbias, None.
    return layer_norm_backward(dy, x, mean, rstd, weight)[0]
    # or
    return None

    # the three gradients are still in one tuple. | A star takes them out: return *gradients, None.
    return layer_norm_backward(dy, x, mean, rstd, weight), None

    # layer_norm_backward takes rstd, 1 / sqrt(var + eps), and got something else: a root, a variance, or eps outside the root.
    rstd = torch.sqrt(var + ctx.eps)
    # or
    rstd = var
    # or
    rstd = var + ctx.eps
    # or
    rstd = 1 / (var + ctx.eps)
    # or
    rstd = 1 / (var.sqrt() + ctx.eps)
    # or
    rstd = torch.rsqrt(var) + ctx.eps
    # or
    rstd = var + ctx.eps**-0.5

    # the variance is unbiased (D - 1). | The forward pass divides by D, and so must backward, as mean_and_var does.
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)

    # dx, dweight and dbias are out of order. | The order is that of forward's inputs: dx, dweight, dbias, None.
    return *[layer_norm_backward(dy, x, mean, rstd, weight)[i] for i in (0, 2, 1)], None
    # or
    return *[layer_norm_backward(dy, x, mean, rstd, weight)[i] for i in (1, 0, 2)], None

    # autograd.grad differentiates what it has seen recorded, and in a backward pass nothing is: x is centered there. | Write the formula: layer_norm_backward.
    return *torch.autograd.grad(layer_norm(x, x.shape[-1:], weight, None, ctx.eps), (x, weight), dy), dy, None
    # or
    return *torch.autograd.grad(torch.enable_grad()(layer_norm)(x, x.shape[-1:], weight, None, ctx.eps), (x, weight), dy), dy, None

    # the reduced axis is gone from mean and var. | Say keepdim=True in both.
    mean, var = x.mean(-1), x.var(-1, correction=0)

    # mean and var are swapped: torch.var_mean gives the variance first, mean_and_var the mean.
    var, mean = mean_and_var(x)

    # mean and rstd are swapped. | layer_norm_backward(dy, x, mean, rstd, weight).
    return *layer_norm_backward(dy, x, rstd, mean, weight), None

    # dy and x are swapped. | layer_norm_backward(dy, x, mean, rstd, weight).
    return *layer_norm_backward(x, dy, mean, rstd, weight), None

    # backward leaves ctx.eps out, or uses 1e-5 instead. | rsqrt(var + ctx.eps).
    rstd = torch.rsqrt(var + 1e-5)
    # or
    rstd = torch.rsqrt(var)
    """,
)

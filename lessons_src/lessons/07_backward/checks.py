"""Checks of lesson 7: the backward pass on paper and in one formula, inputs that tell wrong gradients from the right one,
an autograd.Function that can be differentiated twice.

The gradients of a backward function are compared as total derivatives: mean and rstd are computed from x on the tape.
Formulas that agree for every x agree in them too, however they treat a mean that is not the mean of x.
"""

from dataclasses import replace

import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from lessonkit.check.declare import (
    Contract,
    Misconception,
    Probe,
    Raised,
    accept,
    announce,
    call,
    derives,
    draw,
    examine,
    gradients,
    in_float64,
    instead,
    kind_of,
    misconceptions,
    raised,
    refuse_dots,
    reject,
    values,
)

_AUTOGRAD = (
    "grad",
    "backward",
)  # torch.autograd.grad and tensor.backward, where the formula is to be written
_EPSILONS = ({"eps": 1e-5}, {"eps": 0.5})
_SIZES = {
    "D": (7, 1, 3, 17, 1100)
}  # not 2: there nothing but eps and the rounding is left of a gradient


def _stats(x, eps):
    mean = x.mean(-1, keepdim=True)
    return mean, torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)


def _complete(probe, names):
    """Return a Probe of whether as many outputs come back as there are names, whatever they are worth."""

    def run(answer):
        seen = {
            what: value
            for what, value in probe.run(answer).items()
            if not what.endswith("after the call")
        }
        whole = set(names) <= seen.keys() or isinstance(seen.get(names[0]), Raised)
        return dict.fromkeys(names, "returned") if whole else seen

    return replace(probe, run=run)


def _in_turn(probes, names):
    """Return a stage for each output: what the probes see of it and of those before it, whatever comes behind."""

    def part(probe, later):
        return replace(
            probe,
            run=lambda answer: {k: v for k, v in probe.run(answer).items() if k not in later},
        )

    stages = [
        ([part(probe, names[i:]) for probe in probes], name) for i, name in enumerate(names, 1)
    ]
    return [[_complete(probes[0], names)], *stages]


# ---- On paper
_ON_PAPER = dict(dvar=1, dcentered=(-1, 3, 2, 0), dmean=-4, dx=(-2, 2, 1, -1))
_SLIPS = {
    "dvar": {
        -1: "The sign. A larger variance makes rstd smaller.",
        2: "Is there a ½ in front, and is the exponent -3/2? It goes down by 1, and 4 to the power of -3/2 is 1/8.",
        4: "The exponent goes down by 1, from -1/2 to -3/2. You have kept it.",
        -0.0625: "This is the derivative at the arrow. Multiply it by what arrives at rstd.",
        1.22: "eps is missing: v + eps is 4, and v alone is 3.5.",
    },
    "dcentered": {
        (
            0,
            3.5,
            2,
            -1.5,
        ): "This comes from x_hat alone. A second arrow leaves centered: the one to var.",
        (
            -1,
            -0.5,
            0,
            1.5,
        ): "This comes from var alone. A second arrow leaves centered: the one to x_hat.",
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
        (-1, 6.5, 4, -1.5): "The arrow to x_hat says rstd, which is ½. That factor is missing.",
    },
    "dmean": {
        4: "The sign: the mean is subtracted, so its arrow says -1.",
        -1: "This is a mean. Four arrows leave the box of the mean, so what comes back is added.",
        (
            1,
            -3,
            -2,
            0,
        ): "These four come back along four arrows. They are added in the box that the arrows left.",
    },
    "dx": {
        (
            -1,
            3,
            2,
            0,
        ): "This comes from centered alone. A second arrow leaves x: the one to the mean.",
        (
            -5,
            -1,
            -2,
            -4,
        ): "The arrow from x to the mean says ¼: each entry gets a fourth of dmean.",
        (0, 4, 3, 1): "The two arrows are added. The minus stands in dmean already.",
    },
}


def gradients_on_paper(answer):
    """Check dict(dvar, dcentered, dmean, dx), the gradients of the lesson's row of four (lesson 7)."""
    values(answer, "gradients_on_paper", _ON_PAPER, _SLIPS, tolerance=0.01)


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


_GRADIENTS = misconceptions(
    _backward,
    """
    # dx is still None. | Write its line, and run the check again.
    return None, None, dbias

    # dweight is still None. | Write its line, and run the check again.
    return dx, None, dbias

    # the mean term is missing: a part that all entries of h share must be taken off. Look: your dx does not sum to 0 in a row.
    dx = rstd * (h - x_hat * along)

    # the variance term is missing, or is 0 because mean(x_hat) is a factor of it: the part of h along x_hat must be taken off. | x_hat * mean(h * x_hat).
    dx = rstd * (h - mean_h)

    # the gain is missing in dx. | h = dy * weight takes the place of dy, in all three terms.
    h = dy

    # the gain is missing in a mean. | h = dy * weight takes the place of dy, in all three terms.
    mean_h, along = dy.mean(-1, keepdim=True), (dy * x_hat).mean(-1, keepdim=True)
    # or
    mean_h = dy.mean(-1, keepdim=True)
    # or
    along = (dy * x_hat).mean(-1, keepdim=True)

    # the gain is taken out of a mean, and it differs along the row. | mean(h), with h = dy * weight.
    mean_h = weight * dy.mean(-1, keepdim=True)

    # sums stand where means belong. | Divide each term by D.
    mean_h, along = h.sum(-1, keepdim=True), (h * x_hat).sum(-1, keepdim=True)
    # or
    along = (h * x_hat).sum(-1, keepdim=True)

    # x_hat is missing inside the mean of the variance term. | mean(h * x_hat), not mean(h).
    along = h.mean(-1, keepdim=True)

    # x_hat stands in the variance term twice: inside the mean and once more as a factor. The second is missing.
    dx = rstd * (h - mean_h - along)

    # the factor rstd in front is missing.
    dx = h - mean_h - x_hat * along

    # rstd stands in front of the first term only. It multiplies all three. | Brackets.
    dx = rstd * h - mean_h - x_hat * along

    # a term is added. Both are taken off.
    dx = rstd * (h + mean_h + x_hat * along)
    # or
    dx = rstd * (h - mean_h + x_hat * along)

    # the means run over the rows (axis 0), as in BatchNorm. | LayerNorm's run over the features, axis -1.
    mean_h, along = h.mean(0, keepdim=True), (h * x_hat).mean(0, keepdim=True)

    # the means are taken over all rows at once. Each row has its own. | mean(-1, keepdim=True) takes one for each row.
    mean_h, along = h.mean(), (h * x_hat).mean()

    # a mean over the row has lost its axis. | Say keepdim=True in both.
    mean_h, along = h.mean(-1), (h * x_hat).mean(-1)
    # or
    mean_h = h.mean(-1)
    # or
    along = (h * x_hat).mean(-1)

    # mean and rstd are treated as constants: both subtracted terms are missing.
    dx = rstd * h

    # the gain is applied last, as in BatchNorm. Here it differs along the row. | It belongs into h, before the means.
    h = dy
    dx = weight * rstd * (h - mean_h - x_hat * along)

    # the variance term lacks a factor rstd (at rstd = 1 nobody sees it): x - mean stands where x_hat belongs, or a bracket ends before the term.
    along = (h * (x - mean)).mean(-1, keepdim=True)

    # x stands where x_hat or x - mean belongs.
    dx = rstd * (h - mean_h - x * along)

    # the variance term is doubled. The 2 of the square and the 1/2 of the root cancel.
    dx = rstd * (h - mean_h - 2 * x_hat * along)

    # rstd is there once more in the variance term. x_hat has it inside. | r * (h - mean(h) - x_hat * mean(h * x_hat)) has one r, in front.
    dx = rstd * (h - mean_h - rstd * x_hat * along)

    # dweight is not summed over the rows. One parameter serves every row. | Its gradient has the shape (D,).
    dweight = dy * x_hat

    # dweight is a mean over the rows. Every row adds its part to the loss. | Sum.
    dweight = (dy * x_hat).mean(0)

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

    # where x is a single row, there is no axis to sum over, and a sum over an empty tuple of axes sums everything. | sum_to_size(weight.shape) sums over the axes that weight does not have.
    dweight = (dy * x_hat).sum(tuple(range(dy.dim() - 1)))
    """,
)

_RETURNS = ("dx", "dweight", "dbias")


def _from_statistics(label, seed, *shape, scale=1.0, mean=0.0, eps=1e-5):
    dy, x, weight = (
        draw(seed, *shape),
        draw(seed + 2, *shape, scale=scale, mean=mean),
        draw(seed + 1, shape[-1]),
    )
    names = ("dy", "x", "mean", "rstd", "weight")
    probe = call(
        label, dy, x, *_stats(x, eps), weight, names=names, returns=_RETURNS, gradient=False
    )
    return replace(probe, shown={"dy": dy, "x": x, "weight": weight})


_BACKWARD_PROBES = [
    _from_statistics("3 rows of 5", 31, 3, 5, scale=3, mean=2),
    _from_statistics("a (2, 3, 4) tensor", 41, 2, 3, 4, mean=-1),
    _from_statistics("4 rows of 4", 51, 4, 4, scale=2),
    _from_statistics("a forward pass with eps=0.1", 71, 2, 7, scale=0.3, eps=0.1),
]
_ONE_ROW = _from_statistics("one row of 5", 61, 5, scale=3)


def _on_the_tape(answer, sizes, eps):
    return lambda dy, x, weight: answer(dy, x, *_stats(x, eps), weight)


_BACKWARD_CONTRACT = Contract(
    {"dy": "... D", "x": "... D", "weight": "D"},
    _RETURNS,
    _on_the_tape,
    options=_EPSILONS,
    sizes=_SIZES,
    gradient=1,
)


def layer_norm_backward(answer):
    """Check a function (dy, x, mean, rstd, weight) -> (dx, dweight, dbias) over the last axis (lesson 7)."""
    stages = [*_in_turn(_BACKWARD_PROBES, _RETURNS), [_ONE_ROW]]
    tried = "1 to 5 axes, small spread, an outlier, an offset, two eps, constant rows, float32, second derivatives"
    right = f"layer_norm_backward does what it should ({tried})"
    refused = ("layer_norm", "layer_norm_backward", *_AUTOGRAD)
    examine(
        answer,
        "layer_norm_backward",
        stages,
        in_float64(_backward),
        _GRADIENTS,
        contract=_BACKWARD_CONTRACT,
        by_hand=refused,
        right=right,
    )


# ---- Inputs that tell gradients apart
_UNIT = "the standard deviations of your rows are (nearly) 1, so that {}. Take rows of another scale."
_NOTHING = "{} is (nearly) 0 in your rows, with h = dy * weight: there is nothing to miss."
_EQUAL = "your gains are (nearly) equal, and one number for the whole row may be before the means as well as in them."
_WRONGS = [  # lines of a wrong formula, how the message calls it, why an input may not show it
    ("dx = rstd * (h - x_hat * along)", "without the mean term", _NOTHING.format("mean(h)")),
    (
        "dx = rstd * (h - mean_h)",
        "without the variance term",
        _NOTHING.format("mean(h * x_hat)"),
    ),
    ("h = dy", "without the gain", "your gains are (nearly) 1, so that dy * weight is dy."),
    (
        "h = dy\ndx = weight * rstd * (h - mean_h - x_hat * along)",
        "with the gain in front of the means",
        _EQUAL,
    ),
    (
        "along = (h * (x - mean)).mean(-1, keepdim=True)",
        "with x - mean for x_hat in one place",
        _UNIT.format("x - mean is x_hat"),
    ),
    ("dx = h - mean_h - x_hat * along", "without the factor rstd", _UNIT.format("rstd is 1")),
]
_FORMULAS = [(instead(_backward, lines), *words) for lines, *words in _WRONGS]
_NARROW = "in wide rows one missing term is a small part of dx (about 1 / sqrt(D)). Take fewer features."
_OFF = 0.2  # how far off a formula must be: normal numbers pass a tenth by luck, in 4 of 10 draws of (4, 8)


def _hiding():
    """Return inputs under which one of the wrong formulas passes, with the cause."""
    x, dy, weight = 3 * draw(211, 4, 5), draw(212, 4, 5), draw(213, 5)
    unit, ones, h = F.layer_norm(x, (5,)), torch.ones(5, dtype=torch.float64), draw(214, 4, 5)
    wide = dict(x=3 * draw(215, 1, 900), weight=draw(216, 900), dy=draw(217, 1, 900))
    inputs = {
        0: dict(x=x, weight=ones, dy=2 * unit),  # the loss (y**2).sum() on a new layer
        1: dict(x=x, weight=ones, dy=torch.ones_like(x)),  # y.sum() on a new layer
        2: dict(x=x, weight=ones, dy=dy),
        3: dict(x=x, weight=5 * ones, dy=dy),
        4: dict(x=unit, weight=weight, dy=h),
    }
    hiding = [Misconception(_FORMULAS[i][2], tensors) for i, tensors in inputs.items()]
    return [*hiding, Misconception(_NARROW, wide)]


def revealing(answer):
    """Check inputs dict(x, weight, dy) under which six wrong gradients differ from the right one (lesson 7)."""
    announce(_hiding())
    refuse_dots(answer, "revealing")
    names = ("x", "weight", "dy")
    if not isinstance(answer, dict) or set(answer) != set(names):
        seen = (
            f"the keys {', '.join(map(str, answer))}"
            if isinstance(answer, dict)
            else kind_of(answer)
        )
        reject(f"check.revealing takes dict(x=..., weight=..., dy=...), not {seen}.")
    for name, item in answer.items():
        if not isinstance(item, torch.Tensor) or not item.is_floating_point():
            kind = "three dots" if item is ... else kind_of(item)
            reject(
                f"{name} is {kind}, expected a float32 or float64 tensor (of numbers like 1.0, not 1)."
            )
        if not (item.abs() <= 1e6).all():
            reject(f"{name} holds nan, inf or a number beyond a million.")
    x, weight, dy = (answer[name].detach().double() for name in names)
    if x.dim() != 2 or dy.shape != x.shape or weight.shape != x.shape[-1:]:
        shapes = ", ".join(f"{name} {tuple(answer[name].shape)}" for name in names)
        reject(f"The shapes are {shapes}, expected x and dy (B, D) and weight (D,).")
    if not 3 <= x.shape[1] or not 1 <= x.numel() <= 1000:
        reject(
            f"x is {tuple(x.shape)}, expected at least three features and at most 1000 numbers."
        )
    call_of = dy, x, *_stats(x, 1e-5), weight
    right, missed, why, least_off = _backward(*call_of)[0], [], None, float("inf")
    for wrong, what, cause in _FORMULAS:
        gap, least = (
            (wrong(*call_of)[0] - right).norm(),
            1e-6 * (call_of[3] * dy * weight).norm(),
        )
        if (
            gap < _OFF * right.norm() or gap <= least
        ):  # `least`: rounding alone, where the right dx is 0 as well
            missed.append(what)
            hidden = gap > 1e-3 * right.norm() and 1 / x.shape[1] < _OFF**2
            why = why or f"Probable cause: {_NARROW if hidden else cause}"
        least_off = min(least_off, (gap / right.norm()).item())
    if missed:
        caught = f"{len(_FORMULAS) - len(missed)} of {len(_FORMULAS)}"
        reject(f"{caught} wrong formulas are clearly off, not the one {missed[0]}.", why)
    accept(
        f"Right: all {len(_FORMULAS)} wrong formulas are clearly off. The closest misses dx by {least_off:.0%}."
    )


# ---- The autograd.Function
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


_FUNCTION = misconceptions(
    _Function,
    """
    # mean and rstd are constants for the second derivative: they were saved in the forward pass, or detached. | Compute them anew from the saved x, in backward.
    dx, dweight, dbias = _backward(dy, x, mean, rstd.detach(), weight)
    # or
    x = x - x.mean(-1, keepdim=True).detach()
    dx, dweight, dbias = _backward(dy, x, mean.detach(), rstd.detach(), weight)

    # backward runs without a tape (no_grad or detach), so there is no second derivative.
    dx, dweight, dbias = torch.no_grad()(_backward)(dy, x, mean, rstd, weight)

    # backward returns three gradients, and forward took four inputs. | For eps, which needs none, return None.
    return dx, dweight, dbias

    # backward returns one value (dx alone, or a list), or nothing: is its `return` missing? It returns one for each input of forward. | dx, dweight, dbias, None.
    return dx
    # or
    return None

    # the three gradients are still in one tuple. | A star takes them out: return *gradients, None.
    return (dx, dweight, dbias), None

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
    var = x.var(-1, keepdim=True)

    # mean and rstd are swapped. | layer_norm_backward(dy, x, mean, rstd, weight).
    dx, dweight, dbias = _backward(dy, x, rstd, mean, weight)

    # dy and x are swapped. | layer_norm_backward(dy, x, mean, rstd, weight).
    dx, dweight, dbias = _backward(x, dy, mean, rstd, weight)

    # backward uses eps = 1e-5 instead of ctx.eps.
    rstd = torch.rsqrt(var + 1e-5)

    # backward leaves eps out. | rsqrt(var + ctx.eps).
    rstd = torch.rsqrt(var)
    """,
)


def _inputs(seed, *shape, scale=1.0, mean=0.0):
    x = draw(seed, *shape, scale=scale, mean=mean)
    return x, draw(seed + 1, shape[-1], mean=0.5), draw(seed + 2, shape[-1])


def _error(error):
    """What an error says, where its type alone does not tell two mistakes apart."""
    seen = raised(error)
    telling = ("incorrect number of gradients", "require grad")
    return next(
        (words + seen.text.partition(words)[2] for words in telling if words in seen.text), seen
    )


def _applied(label, seed, *shape, eps=1e-5, needs=(True, True, True), **more):
    """Return a Probe of an autograd.Function: y and the gradients of sum(y * random)."""
    tensors, weights = _inputs(seed, *shape, **more), draw(seed + 3, *shape)

    def run(answer):
        leaves = [
            item.clone().requires_grad_(need) for item, need in zip(tensors, needs, strict=True)
        ]
        try:
            y = answer.apply(*leaves, eps)
        except Exception as error:
            return {"y": raised(error)}
        if not isinstance(y, torch.Tensor):
            return {"y": y}
        wanted = {
            n: leaf
            for n, leaf in zip(("x", "weight", "bias"), leaves, strict=True)
            if leaf.requires_grad
        }
        dy = weights.clone()
        seen = {"dy after the call": dy, "y": y.detach()}
        try:
            return seen | gradients(y, wanted, dy)
        except Exception as error:
            return seen | {"gradient of x": _error(error)}

    return Probe(label, run, {"x": tensors[0], "weight": tensors[1], "eps": eps})


def _twice(label, seed, *shape):
    """Return a Probe of the second derivative: gradients of sum(dx * random) + sum(dweight * random)."""
    tensors = _inputs(seed, *shape)
    dy, v, u = draw(seed + 3, *shape), draw(seed + 4, *shape), draw(seed + 5, shape[-1])

    def run(answer):
        x, weight, bias, arrives = (item.clone().requires_grad_() for item in (*tensors, dy))
        try:
            y = answer.apply(x, weight, bias, 1e-5)
            dx, dweight = torch.autograd.grad(y, (x, weight), arrives, create_graph=True)
            loss = (dx * v).sum() + (dweight * u).sum()
            second = gradients(loss, {"x": x, "weight": weight, "dy": arrives})
        except Exception as error:
            return {"gradient of the gradient in x": _error(error)}
        return {
            what.replace("of", "of the gradient in"): value for what, value in second.items()
        }

    return Probe(label, run, {"x": tensors[0], "weight": tensors[1]})


def _kept(label, seed, *shape):
    """Return a Probe of the memory: how many tensors of x's size are kept for the backward pass, besides x."""
    tensors = _inputs(seed, *shape)

    def run(answer):
        x, weight, bias = (item.clone().requires_grad_() for item in tensors)
        kept = {}

        def pack(item):
            kept[item.untyped_storage().data_ptr()] = item
            return item

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda item: item):
            y = answer.apply(x, weight, bias, 1e-5)
        if isinstance(y, torch.Tensor) and y.grad_fn is not None:
            for item in tree_leaves(
                getattr(y.grad_fn, "__dict__", {})
            ):  # what was put on ctx by hand
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
    _applied(
        "x that needs no gradient, as in a net's first layer",
        131,
        2,
        5,
        needs=(False, True, True),
    ),
    _twice("2 rows of 5, differentiated twice", 151, 2, 5),
    _kept("a (7, 11) input", 161, 7, 11),
]
_FUNCTION_CONTRACT = Contract(
    {"x": "... D", "weight": "D", "bias": "D"},
    use=lambda cls, sizes, eps: lambda x, weight, bias: cls.apply(x, weight, bias, eps),
    options=_EPSILONS,
    values=(
        "ordinary",
        "small",
        "outlier",
        "constant",
        "large",
    ),  # a hand-written backward loses digits far from 0
)


def layer_norm_function(answer):
    """Check an autograd.Function with apply(x, weight, bias, eps) -> y over the last axis (lesson 7)."""
    if derives(answer, torch.autograd.Function) is False:
        cure = f"Write class {answer.__name__}(torch.autograd.Function)."
        reject("check.layer_norm_function takes a torch.autograd.Function.", cure)
    tried = "values, gradients, second derivatives, 1 to 5 axes, float32, what is kept"
    examine(
        answer,
        "layer_norm_function",
        _APPLIED,
        _Function,
        _FUNCTION,
        tried,
        contract=_FUNCTION_CONTRACT,
    )

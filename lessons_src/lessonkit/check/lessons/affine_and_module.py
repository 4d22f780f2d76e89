"""Checks of lesson 4: LayerNorm over any trailing shape, the module, image layouts, a broken layer.

The probes of layer_norm and of the module stand in stages (formula, arguments, number types, refusals, transforms): a
mistake is recognized by what it does in its own stage, whatever the rest of the answer does.
"""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import (
    Mistake,
    Probe,
    call,
    draw,
    examine,
    filled,
    gradients,
    in_float64,
    in_stages,
    raised,
    refusing,
    values,
)

NAMES = ("x", "normalized_shape", "weight", "bias", "eps")


# ---- The function ----------------------------------------------------------------------------------------------------


def _sizes(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


def _axes(shape):
    return tuple(range(-len(shape), 0))


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, _sizes(normalized_shape), weight, bias, eps)


def _affine(y, weight, bias):
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _variant(axes=None, variance=None, divide=None, eps=None, subtracted=1, affine=_affine):
    """Return a layer_norm with one step changed.

    axes: (x, shape) -> axes to reduce. variance: (x, c, axes) -> variance. divide: (c, variance, eps) -> x_hat.
    eps: used instead of the argument. subtracted: how often the mean is. affine: (x_hat, weight, bias) -> y.
    """

    def answer(x, normalized_shape, weight=None, bias=None, eps_given=1e-5, **keyword):
        used = keyword.get("eps", eps_given) if eps is None else eps
        shape = _sizes(normalized_shape)
        over = axes(x, shape) if axes else _axes(shape)
        c = x - subtracted * x.mean(over, keepdim=True) if subtracted else x
        v = variance(x, c, over) if variance else (c * c).mean(over, keepdim=True)
        return affine(divide(c, v, used) if divide else c / torch.sqrt(v + used), weight, bias)

    return answer


def _unbiased(x, c, axes):
    return c.var(axes, keepdim=True)


def _outside(c, v, eps):
    return c / (torch.sqrt(v) + eps)


_FORMULA = [
    Mistake(
        "the variance divides by D - 1. LayerNorm divides by D: x.var(axes, correction=0), or (c * c).mean(axes).",
        _variant(variance=_unbiased),
    ),
    Mistake(
        "eps is added to the deviation. It belongs to the variance, under the root: torch.sqrt(var + eps).",
        _variant(divide=_outside),
    ),
    Mistake(
        "two at once: the variance divides by D - 1, and eps is added to the deviation instead of the variance.",
        _variant(variance=_unbiased, divide=_outside),
    ),
    Mistake(
        "two at once: torch.var without correction=0, and only the last axis, whatever normalized_shape is.",
        _variant(axes=lambda x, s: -1, variance=_unbiased),
    ),
    Mistake(
        "three at once: only the last axis, the variance divides by D - 1, and eps is added to the deviation.",
        _variant(axes=lambda x, s: -1, variance=_unbiased, divide=_outside),
    ),
    Mistake("eps is fixed at 1e-8. It is an argument, and its default is 1e-5.", _variant(eps=1e-8)),
    Mistake("eps is fixed at 1e-6. It is an argument, and its default is 1e-5.", _variant(eps=1e-6)),
    Mistake("eps is fixed at 1e-5: use the argument eps.", _variant(eps=1e-5)),
    Mistake("there is no eps under the root.", _variant(eps=0.0)),
    Mistake(
        "eps is added behind the division. It belongs to the variance, under the root: torch.sqrt(var + eps).",
        _variant(divide=lambda c, v, eps: c / torch.sqrt(v) + eps),
    ),
    Mistake(
        "eps is squared. It is added to the variance as it is: torch.sqrt(var + eps).",
        _variant(divide=lambda c, v, eps: c / torch.sqrt(v + eps**2)),
    ),
    Mistake(
        "eps is a floor under the variance. It is added to every variance: torch.sqrt(var + eps).",
        _variant(divide=lambda c, v, eps: c / torch.sqrt(v.clamp(min=eps))),
    ),
    Mistake(
        "the squares are summed. The variance is their mean.",
        _variant(variance=lambda x, c, a: (c * c).sum(a, keepdim=True)),
    ),
    Mistake(
        "the squares of x are averaged. The variance is the mean of the squares of x - mean.",
        _variant(variance=lambda x, c, a: (x * x).mean(a, keepdim=True)),
    ),
    Mistake(
        "your answer multiplies by the deviation. Divide by it.",
        _variant(divide=lambda c, v, eps: c * torch.sqrt(v + eps)),
    ),
    Mistake(
        "your answer divides by the variance. Divide by its root, the deviation.",
        _variant(divide=lambda c, v, eps: c / (v + eps)),
    ),
    Mistake(
        "normalized_shape holds sizes, not axis numbers. The axes are tuple(range(-len(normalized_shape), 0)).",
        _variant(axes=lambda x, s: s),
    ),
    Mistake(
        "one axis is normalized, number -len(normalized_shape). From there to the last, all are: tuple(range(-k, 0)).",
        _variant(axes=lambda x, s: -len(s)),
    ),
    Mistake(
        "range(-k, -1) ends before the last axis. Write range(-k, 0).",
        _variant(axes=lambda x, s: tuple(range(-len(s), -1))),
    ),
    Mistake(
        "the axes in front are normalized. The last len(normalized_shape) axes are: tuple(range(-k, 0)).",
        _variant(axes=lambda x, s: tuple(range(x.dim() - len(s)))),
    ),
    Mistake(
        "the mean is taken over all of the axes, the variance over the last alone. Both take the same axes.",
        _variant(variance=lambda x, c, a: (c * c).mean(-1, keepdim=True)),
    ),
    Mistake(
        "only the last axis is normalized. The last len(normalized_shape) axes are: tuple(range(-k, 0)).",
        _variant(axes=lambda x, s: -1),
    ),
    Mistake(
        "the axes come from x (all but the first) instead of normalized_shape.",
        _variant(axes=lambda x, s: tuple(range(1, x.dim()))),
    ),
    Mistake(
        "the axes come from x (x.shape[2:]) instead of normalized_shape.",
        _variant(axes=lambda x, s: tuple(range(min(2, x.dim() - 1), x.dim()))),
    ),
    Mistake(
        "axis 1 is normalized, whatever normalized_shape is. LayerNorm takes the last axes.",
        _variant(axes=lambda x, s: 1),
    ),
    Mistake(
        "two at once: axis 1 is normalized whatever normalized_shape is, and eps is added to the deviation.",
        _variant(axes=lambda x, s: 1, divide=_outside),
    ),
    Mistake(
        "the batch axis is normalized. LayerNorm takes the last axes of each sample and never mixes samples.",
        _variant(axes=lambda x, s: 0),
    ),
    Mistake(
        "every axis is normalized at once, the batch included: mean() needs its axes and keepdim=True.",
        _variant(axes=lambda x, s: tuple(range(x.dim()))),
    ),
    Mistake(
        "the first len(normalized_shape) axes are normalized. Count from the end: tuple(range(-k, 0)).",
        _variant(axes=lambda x, s: tuple(range(len(s)))),
    ),
    Mistake(
        "the mean of x is subtracted twice. The second time, subtract the mean of what is left: c - c.mean(...).",
        _variant(subtracted=2),
    ),
    Mistake(
        "the mean is not subtracted from x before dividing.",
        _variant(variance=lambda x, c, a: x.var(a, correction=0, keepdim=True), subtracted=0),
    ),
    Mistake(
        "the mean is never subtracted: this is RMSNorm, which divides by the root of the mean square.",
        _variant(subtracted=0),
    ),
    Mistake(
        "the bias is added before the gain multiplies. It comes last: x_hat * weight + bias.",
        _variant(affine=lambda y, w, b: (y + b) * w),
    ),
    Mistake("weight and bias are swapped.", _variant(affine=lambda y, w, b: y * b + w)),
    Mistake(
        "weight is added and bias multiplies. It is the other way round: x_hat * weight + bias.",
        _variant(affine=lambda y, w, b: (y + w) * b),
    ),
    Mistake("weight and bias are not used.", _variant(affine=lambda y, w, b: y)),
    Mistake("the bias is not added.", _variant(affine=lambda y, w, b: y * w)),
    Mistake(
        "the gain is used as 1 + weight. PyTorch multiplies by weight itself.",
        _variant(affine=lambda y, w, b: y * (1 + w) + b),
    ),
    Mistake(
        "weight and bias enter as one number each. Every normalized element has its own: multiply elementwise.",
        _variant(affine=lambda y, w, b: y * w.flatten()[0] + b.flatten()[0]),
    ),
    Mistake(
        "float64 is narrowed to float32. torch.promote_types(x.dtype, torch.float32) keeps the wider of the two.",
        lambda x, *a, **k: _variant()(x.float(), *a, **k).to(x.dtype),
    ),
]


def _rows(label, shape, size, seed, eps=(), scale=1.0, mean=0.0, dtype=torch.float64, params=None, **options):
    """Return a Probe: a call with random x, weight and bias. params: their dtype. eps: () or (eps,)."""
    x = draw(seed, *shape, scale=scale, mean=mean, dtype=dtype)
    weight, bias = (draw(seed + i, *_sizes(size), dtype=params or dtype) for i in (1, 2))
    return call(label, x, size, weight, bias, *eps, names=NAMES, **options)


_FORMULA_PROBES = [  # small spread first: there every misplaced eps is far off, not in the sixth digit
    _rows("rows of spread 0.001", (3, 6), (6,), 13, scale=1e-3),
    _rows("3 rows of 5", (3, 5), (5,), 1, scale=2, mean=3),
    # a batch as large as a row: axes that are looked up by their size are found twice
    _rows("a (4, 3, 4) tensor with normalized_shape=(4,)", (4, 3, 4), (4,), 4, mean=1),
    _rows("a (2, 3, 4) tensor with normalized_shape=(3, 4)", (2, 3, 4), (3, 4), 7, mean=1),
    _rows("a (2, 3, 4, 5) tensor with normalized_shape=(3, 4, 5)", (2, 3, 4, 5), (3, 4, 5), 10, mean=1),
    _rows("eps=0.1", (3, 6), (6,), 16, eps=(0.1,)),
    _rows("a constant row", (2, 4), (4,), 18, scale=0, mean=2.5),
    # 2e-6 of the largest value is some 16 units of float32: more than rounding, less than any other formula's error
    _rows("float32 rows", (4, 7), (7,), 60, dtype=torch.float32, tolerance=2e-6, gradient=False),
]


_NO_ARGUMENT = [
    Mistake(
        "eps is fixed at 1e-8. It is an argument, and its default is 1e-5.",
        lambda x, normalized_shape, weight=None, bias=None: _variant(eps=1e-8)(x, normalized_shape, weight, bias),
    )
]


def short_layer_norm(answer):
    """Check a function (x, normalized_shape, weight, bias, eps=1e-5) -> y; normalized_shape is a tuple."""
    examine(
        answer,
        "short_layer_norm",
        _FORMULA_PROBES,
        in_float64(_layer_norm),
        _FORMULA + _NO_ARGUMENT,
        tried="1, 2 and 3 normalized axes, small spread, another eps, gradients",
    )


def _refusal(label, shown, *args):
    """Return a Probe: whether calling the answer with args raises an error that is no assert."""

    def call_answer(answer):
        answer(*(item.clone() if isinstance(item, torch.Tensor) else item for item in args))

    return Probe(label, refusing(call_answer), shown)


def _vmapped(answer):
    """Map the answer over the second axis of a (2, 3, 4) tensor."""
    x, weight, bias = draw(41, 2, 3, 4), draw(42, 4), draw(43, 4)
    one = lambda rows: answer(rows, (4,), weight, bias)  # noqa: E731
    y = torch.func.vmap(one, in_dims=1, out_dims=1, randomness="different")(x)  # an answer may draw numbers
    return {"the result": y}


def _twice_differentiated(answer):
    x, weight = (t.requires_grad_() for t in (draw(44, 3, 5), draw(45, 5)))
    y = answer(x, (5,), weight, draw(46, 5))
    first = torch.autograd.grad((y * draw(47, 3, 5)).sum(), x, create_graph=True)[0]
    try:
        second = torch.autograd.grad((first * draw(48, 3, 5)).sum(), [x, weight])
    except RuntimeError as error:
        return {"gradient of the gradient": raised(error)}
    return dict(zip(("gradient of the gradient", "gradient of the gradient in weight"), second, strict=True))


def _works_for(*kinds):
    """Return a layer_norm that is right for the given types of normalized_shape and fails like plain code on others."""

    def answer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        if type(normalized_shape) not in kinds:
            len(normalized_shape)  # TypeError for an int
            assert normalized_shape == x.shape[-len(normalized_shape) :]  # false for a list
        return _layer_norm(x, normalized_shape, weight, bias, eps)

    return answer


def _both_or_none(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None or bias is None:
        return _layer_norm(x, normalized_shape, eps=eps)
    return _layer_norm(x, normalized_shape, weight, bias, eps)


def _weight_decides(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = _layer_norm(x, normalized_shape, eps=eps)
    return y if weight is None else _affine(y, weight, bias)


def _bias_needs_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = _layer_norm(x, normalized_shape, eps=eps)
    return y if weight is None else y * weight + bias


def _always_affine(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _layer_norm(x, normalized_shape, eps=eps) * weight + bias


def _viewed(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = _sizes(normalized_shape)
    rows = x.view(*x.shape[: x.dim() - len(shape)], -1)
    c = rows - rows.mean(-1, keepdim=True)
    return _affine((c / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)).view(x.shape), weight, bias)


_INT = "an int is not understood as normalized_shape. Turn it into a tuple first: 4 becomes (4,)."

_ARGUMENTS = [
    Mistake(_INT, _works_for(tuple, list, torch.Size)),
    Mistake(
        "a list is not understood as normalized_shape: no list equals a torch.Size. Use tuple(normalized_shape).",
        _works_for(int, tuple, torch.Size),
    ),
    Mistake(
        "only tuples are understood as normalized_shape. Make 4, [3, 4] and (3, 4) into tuples first.",
        _works_for(tuple, torch.Size),
    ),
    Mistake("without a weight the bias is left out as well. Each of the two may be None on its own.", _weight_decides),
    Mistake(
        "where one of weight and bias is None, the other is left out too. Each may be None on its own.", _both_or_none
    ),
    Mistake(
        "where weight is None the bias is lost, and where only bias is None its sum fails. Test each on its own.",
        _bias_needs_weight,
    ),
    Mistake("weight=None or bias=None is not handled: multiply and add only what is not None.", _always_affine),
    Mistake(
        "view() needs memory in one piece, and x may be transposed. Use reshape(), or reduce over several axes.",
        _viewed,
    ),
]

_SHAPE_PROBES = [
    _rows("normalized_shape=4, an int", (2, 3, 4), 4, 21, mean=1),
    _rows("normalized_shape=[3, 4], a list", (2, 3, 4), [3, 4], 24, mean=1),
    _rows("normalized_shape=torch.Size([4])", (2, 3, 4), torch.Size([4]), 24, mean=1),
]

_NONE_PROBES = [
    call("no weight and no bias", draw(27, 3, 5, mean=1), (5,), names=NAMES),
    call("a weight and no bias", draw(28, 3, 5, mean=1), (5,), draw(29, 5), names=NAMES),
    call("a bias and no weight", draw(30, 3, 5, mean=1), (5,), None, draw(31, 5), names=NAMES),
    call("eps given by its name", draw(28, 3, 5, mean=1), (5,), weight=draw(29, 5), eps=0.1, names=NAMES),
]

_MEMORY_PROBES = [
    call(
        "a transposed tensor",
        draw(32, 4, 3, 2, mean=1).transpose(0, 2),
        (3, 4),
        draw(33, 3, 4),
        draw(34, 3, 4),
        names=NAMES,
    ),
    _rows("an empty batch", (0, 4), (4,), 34),
]


def _one_pass(x, c, axes):
    return (x * x).mean(axes, keepdim=True) - x.mean(axes, keepdim=True) ** 2


def _widened(answer, back=True):
    """Return answer computed in at least float32, back in x's dtype or not."""

    def wide(x, *args, **kwargs):
        y = answer(x.to(torch.promote_types(x.dtype, torch.float32)), *args, **kwargs)
        return y.to(x.dtype) if back else y

    return wide


def _narrow_first(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Centered in x's dtype, and only then converted."""
    over = _axes(_sizes(normalized_shape))
    c = (x - x.mean(over, keepdim=True)).to(torch.promote_types(x.dtype, torch.float32))
    return _affine(c / torch.sqrt((c * c).mean(over, keepdim=True) + eps), weight, bias).to(x.dtype)


def _rounded_twice(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """x_hat goes back to x's dtype before gain and bias."""
    x_hat = _widened(_variant())(x, normalized_shape, eps=eps)
    return _affine(x_hat, *(None if p is None else p.to(x.dtype) for p in (weight, bias)))


_NUMBERS = [
    Mistake(
        "the variance is computed as E[x²] - E[x]², which cancels when the mean is large. Subtract the mean first.",
        _widened(_variant(variance=_one_pass)),
    ),
    Mistake(
        "half precision is not widened: squares over 65,504 overflow in float16. Compute in float32, and go back "
        "to x's dtype at the end.",
        _variant(),
    ),
    Mistake(
        "the result stays float32: a float32 gain times a bfloat16 x_hat is float32, too. Give the result x's dtype "
        "at the end: y.to(x.dtype).",
        _widened(_variant(), back=False),
    ),
    Mistake(
        "x is centered in half precision. Convert x first, and compute everything behind it in float32.", _narrow_first
    ),
    Mistake(
        "x_hat goes back to x's dtype before gain and bias, so it is rounded more than once. Convert at the end.",
        _rounded_twice,
    ),
]


def _cancelling():
    """Return x, its size, weight and bias: one bfloat16 row whose x_hat * weight is of order 50, and y of order 1."""
    x, weight = draw(63, 1, 6, mean=20, dtype=torch.bfloat16), draw(64, 6, scale=50)
    bias = draw(65, 6) - F.layer_norm(x.double(), (6,), weight)[0]
    return x, (6,), weight.float(), bias.float()


_NUMBER_PROBES = [
    # Half a unit in the last place of float16 (bfloat16) is 2**-11 (2**-8) of the largest value; twice that is allowed.
    _rows(
        "float16 rows of spread 300", (3, 6), (6,), 51, scale=300, dtype=torch.float16, tolerance=2**-10, gradient=False
    ),
    _rows(
        "bfloat16 rows with a float32 gain",
        (3, 6),
        (6,),
        54,
        mean=20,
        dtype=torch.bfloat16,
        params=torch.float32,
        tolerance=2**-7,
        gradient=False,
    ),
    call(
        "a bfloat16 row whose gain and bias nearly cancel", *_cancelling(), tolerance=2**-7, gradient=False, names=NAMES
    ),
    # The spacing of float32 at 10,000 is 0.001: PyTorch's own result is 0.002 off here, one pass is off by more than 1.
    _rows("float32 rows with mean 10,000", (4, 64), (64,), 57, mean=1e4, dtype=torch.float32, tolerance=0.05),
]


def _asserting(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = _sizes(normalized_shape)
    assert shape == tuple(x.shape[-len(shape) :])
    assert weight is None or weight.shape == shape
    assert x.is_floating_point()
    return _layer_norm(x, shape, weight, bias, eps)


def _shape_asserted(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = _sizes(normalized_shape)
    assert shape == tuple(x.shape[-len(shape) :])
    return _widened(_variant())(x, shape, weight, bias, eps)


_REFUSALS = [
    Mistake(
        "assert is not a check of arguments: under python -O it is gone. Raise an error that says what was expected.",
        _asserting,
    ),
    Mistake(
        "the shape is only asserted, and under python -O not even that; weight and dtype are not looked at. Raise "
        "errors that say what was expected.",
        _shape_asserted,
    ),
    Mistake(
        "nothing is refused. A normalized_shape that does not fit must raise an error: silently it normalizes the "
        "wrong numbers.",
        _widened(_variant()),
    ),
]

_REFUSAL_PROBES = [
    _refusal("x of shape (2, 3, 4) with normalized_shape=(5,)", {"x": torch.zeros(2, 3, 4)}, draw(1, 2, 3, 4), (5,)),
    _refusal("x of shape (2, 4) with normalized_shape=(1,)", {"x": torch.zeros(2, 4)}, draw(1, 2, 4), (1,)),
    _refusal(
        "normalized_shape=(4,) with a weight of shape (1,)",
        {"x": torch.zeros(2, 4), "weight": torch.zeros(1)},
        draw(1, 2, 4),
        (4,),
        draw(2, 1),
    ),
    _refusal("whole numbers (int64)", {"x": torch.zeros(2, 4).long()}, torch.arange(8).view(2, 4), (4,)),
]


class _SavedStatistics(torch.autograd.Function):
    """Right in the first derivative; the saved x_hat and rstd count as constants in the second."""

    @staticmethod
    def forward(ctx, x, axes, eps):
        c = x - x.mean(axes, keepdim=True)
        rstd = 1 / torch.sqrt((c * c).mean(axes, keepdim=True) + eps)
        ctx.axes, ctx.saved = axes, (c * rstd, rstd)
        return c * rstd

    @staticmethod
    def backward(ctx, dy):
        x_hat, rstd = ctx.saved
        mean = lambda t: t.mean(ctx.axes, keepdim=True)  # noqa: E731
        return rstd * (dy - mean(dy) - x_hat * mean(dy * x_hat)), None, None


def _constant_in_second(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = _sizes(normalized_shape)
    return _affine(_SavedStatistics.apply(x, _axes(shape), eps), weight, bias)


_TRANSFORMS = [
    Mistake(
        "the autograd.Function saves statistics of x as constants, so its second derivative is wrong. Plain tensor "
        "operations differentiate as often as you like.",
        _widened(_constant_in_second),
    )
]

_TRANSFORM_PROBES = [
    Probe("the gradient differentiated once more", _twice_differentiated),
    Probe("a (2, 3, 4) tensor mapped by torch.func.vmap over its axis 1", _vmapped),
]


def layer_norm(answer):
    """Check a function (x, normalized_shape, weight=None, bias=None, eps=1e-5) -> y against F.layer_norm.

    Stages: the formula; the arguments; the number types; what must be refused; second derivative and vmap.
    """
    stages = [
        (_FORMULA_PROBES, _FORMULA + _NO_ARGUMENT),
        (_SHAPE_PROBES, _ARGUMENTS),
        (_NONE_PROBES, _ARGUMENTS),
        *(([probe], _ARGUMENTS) for probe in _MEMORY_PROBES),
        *(([probe], _NUMBERS) for probe in _NUMBER_PROBES),
        (_TRANSFORM_PROBES, _TRANSFORMS),
        (_REFUSAL_PROBES, _REFUSALS),
    ]
    in_stages(
        answer,
        "layer_norm",
        stages,
        in_float64(_layer_norm),
        kind="function",
        right="layer_norm does what it should on {count} inputs (shapes, options, four number types, "
        "second derivative, vmap, bad arguments)",
    )


# ---- The module ------------------------------------------------------------------------------------------------------


def _shapes(layer):
    return {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}


def _has(layer, *names):
    """Return {"layer.NAME": what stands there}, None and tensors in words."""
    found = {name: getattr(layer, name, "nothing of that name") for name in names}
    return {
        f"layer.{name}": "a tensor" if isinstance(item, torch.Tensor) else "None" if item is None else item
        for name, item in found.items()
    }


def _parameters(*args, what, **options):
    """Return a Probe: names and shapes of the parameters of LayerNorm(*args, **options)."""

    def run(cls):
        layer = cls(*args, **options)
        seen = {"its parameters": _shapes(layer), "the keys of its state_dict": list(layer.state_dict())}
        return seen | _has(layer, "weight", "bias")

    return Probe(what, run)


def _start(cls):
    layer = cls((3, 4))
    seen = {name: p.detach().clone() for name, p in layer.named_parameters()}
    seen |= {f"{name}.requires_grad": p.requires_grad for name, p in layer.named_parameters()}
    return seen | {"the running statistics and other buffers": [name for name, _ in layer.named_buffers()]}


def _separate(cls):
    """Two layers of one class must not share their numbers."""
    one, other = cls(5), cls(5)
    filled(one, 71)
    return {
        f"{name} of a second layer after the first was trained": p.detach().clone()
        for name, p in other.named_parameters()
    }


def _computed(label, shape, size, tolerance=1e-9, dtype=torch.float64, scale=1.0, mean=0.5, seed=72, **options):
    """Return a Probe: output and gradients of a layer with random parameters on a random tensor."""

    x = draw(seed, *shape, scale=scale, mean=mean, dtype=dtype)

    def run(cls):
        layer = filled(cls(size, **options).to(dtype), 71)
        given = x.clone().requires_grad_()
        y = layer(given)
        seen = {"the output": y}
        if isinstance(y, torch.Tensor) and y.requires_grad and dtype == torch.float64:
            seen |= gradients((y * draw(73, *y.shape)).sum(), {"x": given, **dict(layer.named_parameters())})
        return seen

    return Probe(label, run, {"x": x}, tolerance)


def _after_training(cls):
    """Ten steps of SGD that should move both parameters."""
    layer, x, dy = cls(5).double(), draw(74, 4, 5), draw(75, 4, 5)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        (layer(x) * dy).sum().backward()
        optimizer.step()
    return {"the output": layer(x).detach()}


def _modes(cls):
    layer = cls(5).double()
    for seed in (76, 77):
        layer.train()(draw(seed, 8, 5, mean=3))
    return {"the output in eval()": layer.eval()(draw(78, 3, 5)).detach()}


def _off(cls):
    layer = cls((3, 4), elementwise_affine=False)
    seen = {"its parameters": _shapes(layer)}
    return seen | _has(layer, "weight", "bias")


def _slot(cls):
    layer = cls((4,), elementwise_affine=False)
    try:
        layer.weight = torch.ones(4)
    except TypeError:
        return {"layer.weight = torch.ones(4)": "refused: not a Parameter"}
    return {"layer.weight = torch.ones(4)": "accepted, a tensor that no optimizer sees"}


def _without_bias(cls):
    layer = cls(4, bias=False)
    return {"its parameters": _shapes(layer)} | _has(layer, "bias")


def _no_affine_no_bias(cls):
    return {"its parameters": _shapes(cls(4, elementwise_affine=False, bias=True))}


def _positional(cls):
    layer = cls([3, 4], 0.1, True, False)
    return _has(layer, "eps", "normalized_shape", "elementwise_affine") | {"its parameters": _shapes(layer)}


def _described(cls):
    text = repr(cls((3, 4), eps=0.1, bias=False))
    return {f"{part!r} in repr(layer)": part in text for part in ("(3, 4)", "0.1")}


def _hooked(cls):
    layer, calls = cls((4,)), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    layer(torch.zeros(2, 4))
    return {"calls of a forward hook when the layer is called once": len(calls)}


def _from_torch(cls):
    theirs = filled(nn.LayerNorm((3, 4)), 71)
    mine = cls((3, 4))
    mine.load_state_dict(theirs.state_dict())
    return {"the output with PyTorch's parameters": mine(draw(80, 2, 3, 4, dtype=torch.float32)).detach()}


def _to_torch(cls):
    theirs = nn.LayerNorm((3, 4))
    theirs.load_state_dict(filled(cls((3, 4)), 71).state_dict())
    return {"PyTorch's output with your parameters": theirs(draw(80, 2, 3, 4, dtype=torch.float32)).detach()}


def _bare_to_torch(cls):
    theirs = nn.LayerNorm((3, 4), elementwise_affine=False)
    theirs.load_state_dict(cls((3, 4), elementwise_affine=False).state_dict())
    return {"keys of the state_dict": list(theirs.state_dict())}


def _placed(cls):
    layer = cls(4, dtype=torch.float64, device="meta")
    return {f"{name}.dtype and .device": (str(p.dtype), str(p.device)) for name, p in layer.named_parameters()}


def _moved(cls):
    layer = cls(4).to("meta")
    return {"the device of the output": str(layer(torch.zeros(2, 4, device="meta")).device)}


class _Reference(nn.LayerNorm):
    """PyTorch's layer, computed in float64."""

    def forward(self, x):
        return in_float64(F.layer_norm)(x, self.normalized_shape, self.weight, self.bias, self.eps)


class _Module(nn.Module):
    """A right LayerNorm whose parts the mistakes below override."""

    NAMES = "weight", "bias"

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = self.sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        gain, offset = self.make(device, dtype)
        self.register(self.NAMES[0], gain if elementwise_affine else None)
        self.register(self.NAMES[1], offset if elementwise_affine and bias else None)

    def sizes(self, normalized_shape):
        return _sizes(normalized_shape)

    def make(self, device, dtype):
        kind = {"device": device, "dtype": dtype}
        return torch.ones(self.normalized_shape, **kind), torch.zeros(self.normalized_shape, **kind)

    def register(self, name, value):
        self.register_parameter(name, None if value is None else nn.Parameter(value))

    def function(self, x, weight, bias):
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)

    def forward(self, x):
        return self.function(x, getattr(self, self.NAMES[0]), getattr(self, self.NAMES[1]))

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


def _renamed(*names):
    return type("Renamed", (_Module,), {"NAMES": names})


def _changed(**parts):
    """Return a module with some of its methods replaced."""
    return type("Changed", (_Module,), parts)


def _function(answer):
    """Return a module that calls answer(x, normalized_shape, weight, bias, eps)."""
    return _changed(function=lambda self, x, weight, bias: answer(x, self.normalized_shape, weight, bias, self.eps))


def _in_a_module(mistakes):
    """Return mistakes of a function as mistakes of the module that calls it."""
    return [Mistake(mistake.cause, _function(mistake.answer)) for mistake in mistakes]


def _all_registered(self, name, value):
    """affine=False only skips the multiplication: the parameters are there all the same."""
    self.register_parameter(
        name,
        nn.Parameter(
            torch.ones(self.normalized_shape) if name == self.NAMES[0] else torch.zeros(self.normalized_shape)
        ),
    )


def _skip_unless_affine(self, x):
    return self.function(x, *(getattr(self, name) for name in self.NAMES) if self.elementwise_affine else (None, None))


def _made(gain=torch.ones, offset=torch.zeros, shape=lambda shape: shape, use=("device", "dtype")):
    """Return a `make` with other initial values, another shape, or without device or dtype."""

    def make(self, device, dtype):
        kind = {name: value for name, value in (("device", device), ("dtype", dtype)) if name in use}
        return gain(shape(self.normalized_shape), **kind), offset(shape(self.normalized_shape), **kind)

    return make


def _registered(wrap):
    """Return a `register` that gives wrap(value) to the module's ordinary attributes, None included."""
    return lambda self, name, value: setattr(self, name, value if value is None else wrap(value))


def _tensor_or_registered(self, name, value):
    self.register_parameter(name, None) if value is None else setattr(self, name, value)


def _only_if_wanted(self, name, value):
    if value is not None:
        self.register_parameter(name, nn.Parameter(value))


def _untrained(self, name, value):
    self.register_parameter(name, None if value is None else nn.Parameter(value, requires_grad=False))


def _always_a_bias(self, name, value):
    value = torch.zeros(self.normalized_shape) if value is None else value
    self.register_parameter(name, nn.Parameter(value) if self.elementwise_affine else None)


def _bias_whatever_affine_is(self, name, value):
    if value is None and name == "bias" and not self.elementwise_affine:
        value = torch.zeros(self.normalized_shape)
    self.register_parameter(name, None if value is None else nn.Parameter(value))


def _of_any_shape(self, x, weight, bias):
    return _affine(F.layer_norm(x, self.normalized_shape, eps=self.eps), weight, bias)


def _called_instead(self, x):
    return _Module.forward(self, x)


def _running(self, x, weight, bias):
    """The habit of BatchNorm: keep an average of the statistics, use it in eval()."""
    axes = _axes(self.normalized_shape)
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    if self.training:
        self.kept = mean.mean().detach(), var.mean().detach()
    elif hasattr(self, "kept"):
        mean, var = self.kept
    return _affine((x - mean) / torch.sqrt(var + self.eps), weight, bias)


class _Shared(_Module):
    """Parameters made once, in the body of the class."""

    kept: dict = {}

    def register(self, name, value):
        key = name, self.normalized_shape
        if value is not None and key not in self.kept:
            self.kept[key] = nn.Parameter(value)
        self.register_parameter(name, None if value is None else self.kept[key])


class _Asserting(_Module):
    def sizes(self, normalized_shape):
        len(normalized_shape)
        return normalized_shape

    def function(self, x, weight, bias):
        assert self.normalized_shape == x.shape[-len(self.normalized_shape) :]
        return super().function(x, weight, bias)


_ORDINARY = (
    'self.weight = None is an ordinary attribute. self.register_parameter("weight", None) keeps the place for a '
    "Parameter and refuses anything else."
)

_ABSENT = (
    "without parameters there is no self.weight at all. Register None, so that the name is there: "
    'self.register_parameter("weight", None).'
)

_NO_SHAPE = "without parameters self.weight is None and has no shape. Use self.normalized_shape."


def _by_weight(self, x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias, self.eps)


_STRUCTURE = [
    *(
        Mistake(
            f"the parameters are called {' and '.join(names)}. PyTorch calls them weight and bias; with other names no "
            "checkpoint can be exchanged.",
            _renamed(*names),
        )
        for names in (("gain", "bias"), ("scale", "shift"), ("gamma", "beta"))
    ),
    Mistake(
        "weight and bias are plain tensors, so no optimizer, no .to() and no state_dict sees them. "
        "Wrap each in nn.Parameter.",
        _changed(register=_registered(lambda value: value)),
    ),
    Mistake(
        "weight and bias are buffers, which no optimizer trains. Wrap each in nn.Parameter.",
        _changed(register=lambda self, name, value: self.register_buffer(name, value)),
    ),
    Mistake(
        "the parameters are one number each. Each normalized element has its own: their shape is normalized_shape.",
        _changed(make=_made(shape=lambda shape: (1,)), function=_of_any_shape),
    ),
    Mistake(
        "the parameters have the last size only. Their shape is the whole normalized_shape.",
        _changed(make=_made(shape=lambda shape: shape[-1:]), function=_of_any_shape),
    ),
    Mistake(_INT, _Asserting),
    Mistake(_INT, _changed(sizes=lambda self, n: tuple(n))),
]

_STRUCTURE_PROBES = [
    _parameters((3, 4), what="LayerNorm((3, 4))"),
    _parameters(5, what="LayerNorm(5)"),
    _parameters([2, 3, 4], what="LayerNorm([2, 3, 4])"),
]

_START = [
    Mistake(
        "the gain starts at 0, so the layer gives 0 whatever comes in. A gain starts at 1, a bias at 0.",
        _changed(make=_made(gain=torch.zeros)),
    ),
    Mistake("the bias starts at 1. A gain starts at 1, a bias at 0.", _changed(make=_made(offset=torch.ones))),
    Mistake("the parameters have requires_grad=False, so they are never trained.", _changed(register=_untrained)),
    Mistake("all layers share one pair of parameters. Make them in __init__, not in the body of the class.", _Shared),
]

_START_PROBES = [Probe("a new LayerNorm((3, 4))", _start), Probe("two layers LayerNorm(5)", _separate)]

_OPTIONS = [
    Mistake(
        "elementwise_affine=False must leave no parameters: weight and bias are registered all the same, and only "
        'not used. Register None: self.register_parameter("weight", None).',
        _changed(register=_all_registered, forward=_skip_unless_affine),
    ),
    Mistake(_ORDINARY, _changed(register=_registered(nn.Parameter))),
    Mistake(_ABSENT, _changed(register=_only_if_wanted)),
    Mistake(_ABSENT, _changed(register=_only_if_wanted, extra_repr=lambda self: f"bias={self.bias is not None}")),
    Mistake(
        "nn.Parameter(None) is a Parameter, an empty one. Register None itself.",
        _changed(register=lambda self, name, value: self.register_parameter(name, nn.Parameter(value))),
    ),
    Mistake("bias=False is ignored: the layer still has a bias.", _changed(register=_always_a_bias)),
    Mistake(
        "bias decides alone whether there is a bias. Without elementwise_affine there is none.",
        _changed(register=_bias_whatever_affine_is),
    ),
]

_OPTION_PROBES = [
    Probe("LayerNorm((3, 4), elementwise_affine=False)", _off),
    Probe("LayerNorm(4, bias=False)", _without_bias),
    Probe("LayerNorm(4, elementwise_affine=False, bias=True)", _no_affine_no_bias),
    Probe("LayerNorm(4, elementwise_affine=False)", _slot),
    Probe("LayerNorm([3, 4], 0.1, True, False)", _positional),
    Probe("print(LayerNorm((3, 4), eps=0.1, bias=False))", _described),
]

_VALUES = [
    Mistake(
        "eps is not handed on in forward: write self.eps there.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, w, b)),
    ),
    Mistake(
        "weight and bias are not used in forward: hand self.weight and self.bias on.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, eps=eps)),
    ),
    Mistake(
        "weight, bias and eps are not used in forward: hand all three on, self.weight, self.bias, self.eps.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape)),
    ),
    Mistake(
        "the bias is not used in forward: hand self.bias on.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, w, eps=eps)),
    ),
    Mistake(
        "weight and bias are swapped where they are handed on.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, b, w, eps)),
    ),
    Mistake(
        "forward multiplies and adds although weight or bias is None. Hand both on to layer_norm, which leaves out "
        "what is None.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, eps=eps) * w + b),
    ),
    Mistake(
        "the parameters are used through .data or .detach(), so they get no gradient.",
        _function(lambda x, shape, w, b, eps: F.layer_norm(x, shape, w.data, b if b is None else b.data, eps)),
    ),
    Mistake(_NO_SHAPE, _changed(function=_by_weight)),
    Mistake(
        "statistics of training are kept and used in eval(), as BatchNorm does. LayerNorm always uses its input's.",
        _changed(function=_running),
    ),
] + _in_a_module(_FORMULA)

_PRECISION = _in_a_module(_NUMBERS)

_VALUE_PROBES = [
    _computed("a (4, 5) tensor", (4, 5), 5),
    _computed("a (2, 3, 4, 5) tensor with LayerNorm((4, 5))", (2, 3, 4, 5), (4, 5)),
    _computed("a (2, 3, 4) tensor with LayerNorm(4, eps=0.1)", (2, 3, 4), 4, eps=0.1),
    _computed("a (2, 3, 4) tensor with LayerNorm(4, bias=False)", (2, 3, 4), 4, bias=False),
    _computed("rows of spread 0.001", (3, 6), 6, scale=1e-3),
    _computed(
        "a (2, 3, 4) tensor with LayerNorm((3, 4), elementwise_affine=False)",
        (2, 3, 4),
        (3, 4),
        elementwise_affine=False,
    ),
    Probe("a layer in eval() after two batches in train()", _modes),
    Probe("a layer after ten steps of SGD", _after_training),
]

_PRECISION_PROBES = [
    # PyTorch's own float32 result is 0.002 off here; one pass is off by more than 1
    _computed("float32 rows with mean 10,000", (4, 64), 64, tolerance=0.05, dtype=torch.float32, mean=1e4),
    _computed("float16 rows of spread 300", (3, 6), 6, tolerance=2**-9, dtype=torch.float16, scale=300),
]

_CALLED = (
    "__call__ is overridden, so hooks, profilers and tracing are skipped. Define forward, and nn.Module's __call__ "
    "calls it."
)

_EXCHANGE = [
    Mistake(
        "device and dtype are ignored. Hand them on where the parameters are made: torch.empty(shape, "
        "device=device, dtype=dtype).",
        _changed(make=_made(use=())),
    ),
    Mistake("dtype is ignored. Hand it on where the parameters are made.", _changed(make=_made(use=("device",)))),
    Mistake("device is ignored. Hand it on where the parameters are made.", _changed(make=_made(use=("dtype",)))),
    Mistake(_CALLED, _changed(__call__=_called_instead)),
]

_EXCHANGE_PROBES = [
    Probe("a state_dict of nn.LayerNorm((3, 4)) loaded into your layer", _from_torch, tolerance=1e-5),
    Probe("your layer's state_dict loaded into nn.LayerNorm((3, 4))", _to_torch, tolerance=1e-5),
    Probe("your layer's state_dict without parameters loaded into PyTorch's", _bare_to_torch),
    Probe('LayerNorm(4, dtype=torch.float64, device="meta")', _placed),
    Probe('a layer moved to another device, LayerNorm(4).to("meta")', _moved),
    Probe("a layer with a forward hook", _hooked),
]


def layer_norm_module(answer):
    """Check a class with PyTorch's constructor against nn.LayerNorm.

    Stages: names and shapes; initial values; options; values and gradients; exchange with PyTorch, dtype, hooks.
    """
    stages = [
        (_STRUCTURE_PROBES, _STRUCTURE),
        (_START_PROBES, _START),
        (_OPTION_PROBES, _OPTIONS),
        (_VALUE_PROBES, _VALUES),
        *(([probe], _PRECISION) for probe in _PRECISION_PROBES),
        (_EXCHANGE_PROBES, _EXCHANGE),
    ]
    in_stages(
        answer,
        "layer_norm_module",
        stages,
        _Reference,
        "layer_norm_module does what it should on {count} inputs (parameters, options, values, gradients, "
        "state_dict both ways, hooks, eval())",
    )


# ---- Image layouts and the clinic ------------------------------------------------------------------------------------


_IMAGE_COUNTS = {
    "LayerNorm([C, H, W]): means": 2,
    "LayerNorm([C, H, W]): parameters": 120,
    "LayerNorm per pixel: means": 40,
    "LayerNorm per pixel: parameters": 6,
    "GroupNorm(1, C): means": 2,
    "GroupNorm(1, C): parameters": 6,
}

_ALL = "One mean for all C x H x W numbers of an image: as many means as images."
_PIXEL = "Each pixel of each image gets its own mean, over the C channels: B x H x W of them."
_EACH = "Weight and bias have the shape of normalized_shape, (C, H, W): twice C x H x W numbers."
_CHANNEL = "One gain and one bias a channel: twice C numbers."

_IMAGE_CAUSES = [
    ("LayerNorm([C, H, W]): means", 1, "The batch is never normalized over: two images, two means."),
    ("LayerNorm([C, H, W]): means", 6, "That is one for each channel of each image: InstanceNorm. " + _ALL),
    ("LayerNorm([C, H, W]): means", 40, "That is one for each pixel. " + _ALL),
    ("LayerNorm([C, H, W]): parameters", 60, "That is the gain alone. " + _EACH),
    ("LayerNorm([C, H, W]): parameters", 6, "That is one pair a channel, as GroupNorm and BatchNorm have it. " + _EACH),
    ("LayerNorm([C, H, W]): parameters", 2, "A gain and a bias, but not one number each. " + _EACH),
    ("LayerNorm([C, H, W]): parameters", 240, "Parameters have no batch axis. " + _EACH),
    ("LayerNorm per pixel: means", 20, "That is one image. " + _PIXEL),
    ("LayerNorm per pixel: means", 2, "That is one for each image. " + _PIXEL),
    ("LayerNorm per pixel: means", 6, "That is one for each channel of each image: InstanceNorm. " + _PIXEL),
    ("LayerNorm per pixel: parameters", 3, "That is the gain alone. " + _CHANNEL),
    ("LayerNorm per pixel: parameters", 120, "All pixels share one nn.LayerNorm(C). " + _CHANNEL),
    ("LayerNorm per pixel: parameters", 2, "A gain and a bias, but not one number each. " + _CHANNEL),
    ("GroupNorm(1, C): means", 1, "The batch is never normalized over: two images, two means."),
    ("LayerNorm per pixel: parameters", 40, "Each pixel has its own mean, and all share the parameters. " + _CHANNEL),
    ("GroupNorm(1, C): means", 3, "One group, not one for each channel. " + _ALL),
    ("GroupNorm(1, C): means", 6, "That would be three groups of one channel. With one group: " + _ALL),
    ("GroupNorm(1, C): means", 40, "GroupNorm pools over the pixels too. " + _ALL),
    ("GroupNorm(1, C): parameters", 3, "That is the gain alone. " + _CHANNEL),
    ("GroupNorm(1, C): parameters", 2, "One group is one pair of statistics, not one pair of parameters. " + _CHANNEL),
    ("GroupNorm(1, C): parameters", 120, "That is LayerNorm([C, H, W]). " + _CHANNEL),
]


def image_counts(answer):
    """Check a dict: how many means and how many parameters three layers have for x of shape (2, 3, 4, 5)."""
    values(answer, "image_counts", _IMAGE_COUNTS, _IMAGE_CAUSES)


def _half_mended(names, bare, eps, argument):
    """Return the clinic's layer with some of its three faults mended; argument: whether it takes eps at all."""
    parts = {"NAMES": ("weight", "bias") if names else ("gain", "offset")}
    if not bare:
        parts |= {"register": _all_registered, "forward": _skip_unless_affine}
    if not eps:
        parts["function"] = lambda self, x, w, b: F.layer_norm(x, self.normalized_shape, w, b, 1e-8)
    if not argument:
        parts["__init__"] = lambda self, normalized_shape, elementwise_affine=True: _Module.__init__(
            self, normalized_shape, elementwise_affine=elementwise_affine
        )
    return type("HalfMended", (_Module,), parts)


def _with_defaults(**defaults):
    """Return the mended layer with other default values."""
    wanted = {"eps": 1e-5, "elementwise_affine": True} | defaults
    return _changed(__init__=lambda self, size, **given: _Module.__init__(self, size, **wanted | given))


_FAULTS = {
    "names": "the parameters are not called weight and bias",
    "bare": "with elementwise_affine=False the parameters are registered all the same",
    "eps": "eps is fixed at 1e-8 instead of being an argument with the default 1e-5",
}

_CLINIC = (
    [
        Mistake(
            f"still to mend: {'; '.join(_FAULTS[fault] for fault in left)}.",
            _half_mended(**{fault: fault not in left for fault in _FAULTS}, argument=argument),
        )
        for count in (3, 2, 1)
        for left in itertools.combinations(_FAULTS, count)
        for argument in ([True, False] if "eps" in left else [True])
    ]
    + [
        Mistake(
            "elementwise_affine is False unless it is asked for. PyTorch's default is True.",
            _with_defaults(elementwise_affine=False),
        ),
        Mistake("the default of eps is not PyTorch's, which is 1e-5.", _with_defaults(eps=1e-6)),
        Mistake("the default of eps is not PyTorch's, which is 1e-5.", _with_defaults(eps=1e-8)),
        *_START,
        Mistake(_CALLED, _changed(__call__=_called_instead)),
        Mistake(_ORDINARY, _changed(register=_registered(nn.Parameter))),
        Mistake(_ABSENT, _changed(register=_only_if_wanted)),
        Mistake(_ABSENT, _changed(register=_only_if_wanted, forward=_skip_unless_affine)),
    ]
    + [
        Mistake(
            "weight and bias are plain tensors now, so no optimizer, no .to() and no state_dict sees them. "
            "Wrap each in nn.Parameter.",
            _changed(register=register, **parts),
        )
        for register in (_registered(lambda value: value), _tensor_or_registered)
        for parts in ({}, {"function": _of_any_shape})
    ]
    + _VALUES
)

_CLINIC_PROBES = [
    _parameters((3, 4), what="MendedNorm((3, 4))"),
    Probe("MendedNorm((3, 4), elementwise_affine=False)", _off),
    Probe("MendedNorm(4, elementwise_affine=False)", _slot),
    Probe("a new MendedNorm((3, 4))", _start),
    _computed("rows of spread 0.001", (3, 6), (6,), scale=1e-3),
    _computed("a (2, 3, 4) tensor and eps=0.1", (2, 3, 4), (3, 4), eps=0.1),
    _computed(
        "a (2, 3, 4) tensor with MendedNorm((3, 4), elementwise_affine=False)",
        (2, 3, 4),
        (3, 4),
        elementwise_affine=False,
    ),
    Probe("a layer with a forward hook", _hooked),
    Probe("a state_dict of nn.LayerNorm((3, 4)) loaded into your layer", _from_torch, tolerance=1e-5),
    Probe("your layer's state_dict loaded into nn.LayerNorm((3, 4))", _to_torch, tolerance=1e-5),
]


def mended_norm(answer):
    """Check the clinic's class (normalized_shape, eps=1e-5, elementwise_affine=True), mended."""
    examine(
        answer,
        "mended_norm",
        _CLINIC_PROBES,
        _Reference,
        _CLINIC,
        kind="class",
        tried="parameters with and without the affine part, eps, state_dict both ways",
    )

"""Checks of lesson 4: folding on paper, LayerNorm over any trailing shape, the module, an old checkpoint."""

import dataclasses
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.affine_and_module import (
    _check_inputs,
    _sizes,
)  # given to the learner: errors are of one kind
from lessonkit.check.declare import (
    Contract,
    Probe,
    call,
    call_layer,
    device_after_moving,
    draw,
    examine,
    filled,
    in_float64,
    misconceptions,
    numbers,
    of_a_layer,
    refusing,
    values,
)

NAMES = ("x", "normalized_shape", "weight", "bias", "eps")
BY_HAND = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm")


# ---- The function
def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    axes = tuple(range(-len(sizes), 0))
    x = x.contiguous()
    z = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = z.mean(axes, keepdim=True)
    c = z - mean
    var = (c * c).mean(axes, keepdim=True)
    deviation = torch.sqrt(var + eps)
    x_hat = c / deviation
    y = x_hat if weight is None else x_hat * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _reference(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    return in_float64(F.layer_norm)(x, sizes, weight, bias, eps)


_reference.plain = F.layer_norm  # for the sweep, which chooses the number type itself
_FORMULA = misconceptions(
    _layer_norm,
    """
    # the variance divides by D - 1. LayerNorm divides by D. | Write x.var(axes, correction=0), or (c * c).mean(axes).
    var = c.var(axes, keepdim=True)

    # eps is added to the deviation. It belongs to the variance, under the root. | torch.sqrt(var + eps).
    deviation = torch.sqrt(var) + eps

    # two slips in one line: std divides by D - 1, and eps belongs under the root. | torch.sqrt(var + eps), where var divides by D.
    deviation = c.std(axes, keepdim=True) + eps

    # brackets are missing: eps is added to the quotient, not to the variance.
    x_hat = c / torch.sqrt(var) + eps

    # `eps or 1e-5` is 1e-5 where eps is 0. | Use eps as it comes.
    deviation = torch.sqrt(var + (eps or 1e-5))

    # there is no eps under the root.
    deviation = torch.sqrt(var)

    # the squares are summed. The variance is their mean.
    var = (c * c).sum(axes, keepdim=True)

    # your answer multiplies by the deviation. | Divide by torch.sqrt, or multiply by torch.rsqrt.
    x_hat = c * deviation

    # your answer divides by the variance. | Divide by its root, the deviation.
    deviation = var + eps

    # normalized_shape holds sizes, not axis numbers. | The axes are tuple(range(-len(normalized_shape), 0)).
    axes = sizes

    # one axis is normalized, number -len(normalized_shape). | From there to the last, all are: tuple(range(-k, 0)).
    axes = -len(sizes)

    # range(-k, -1) ends before the last axis. | Write range(-k, 0).
    axes = tuple(range(-len(sizes), -1))

    # only the last axis is normalized. | The last len(normalized_shape) axes are: tuple(range(-k, 0)).
    axes = -1

    # the axes come from x (all but the first) instead of normalized_shape. | Count len(normalized_shape) from the end.
    axes = tuple(range(1, x.dim()))

    # every axis is normalized at once, the batch included. | mean() needs its axes and keepdim=True.
    axes = tuple(range(x.dim()))

    # the first len(normalized_shape) axes are normalized. | Count from the end: tuple(range(-k, 0)).
    axes = tuple(range(len(sizes)))

    # the reduced axes are gone and the rows no longer fit. | keepdim=True is missing: say it in both means.
    mean, c = z.mean(axes), z - z.mean(axes)
    var = (c * c).mean(axes)
    # or
    mean, c = z.mean(axes), z - z.mean(axes)
    # or
    var = (c * c).mean(axes)

    # what is divided is x, with its mean still in it. | Subtract the mean first: (x - mean) / deviation.
    x_hat = z / deviation

    # brackets are missing: without them / comes before -, and only the mean is divided.
    x_hat = z - mean / deviation

    # the mean is never subtracted: this is RMSNorm, which divides by the root of the mean square.
    c = z

    # the bias is added before the gain multiplies. It comes last. | x_hat * weight + bias.
    y = x_hat if weight is None else (x_hat + bias) * weight
    y = y if bias is None else y

    # mean and variance are cut off from the gradient, by .detach(), .item() or torch.no_grad(). The gradient flows through both, too.
    c = z - mean.detach()
    deviation = torch.sqrt(var.detach() + eps)

    # eps is fixed at 1e-5. | Use the argument eps.
    deviation = torch.sqrt(var + 1e-5)

    # weight and bias are swapped.
    y = x_hat if weight is None else x_hat * bias
    y = y if bias is None else y + weight

    # weight and bias are not used.
    y = x_hat
    y = y if bias is None else y

    # the bias is not added.
    y = y if bias is None else y

    # is there an `if weight:`? A tensor of several numbers is neither true nor false. | Ask `weight is None`.
    y = x_hat if not weight else x_hat * weight
    y = y if not bias else y + bias
    """,
)


def _rows(label, shape, size, seed, eps=(), params=None, tolerance=5e-6, gradient=True, **how):
    """Return a Probe: a call with random x, weight and bias. params: their dtype. eps: () or (eps,)."""
    x = draw(seed, *shape, **how)
    weight, bias = (draw(seed + i, *_sizes(size), dtype=params or x.dtype) for i in (1, 2))
    return call(
        label, x, size, weight, bias, *eps, tolerance=tolerance, gradient=gradient, names=NAMES
    )


# Tolerance: 5e-6 of the largest value, 40 units of float32, so that an answer which computes all in float32 is told
# so by _EXACT; any other formula is further off. Rows of small spread come first: there every misplaced eps is far off.
_FORMULA_PROBES = [
    _rows("rows of spread 0.001", (3, 6), (6,), 13, scale=1e-3),
    _rows("3 rows of 5", (3, 5), (5,), 1, scale=2, mean=3),
    # a batch as large as a row: axes that are looked up by their size are found twice
    _rows("a (4, 3, 4) tensor with normalized_shape=(4,)", (4, 3, 4), (4,), 4, mean=1),
    _rows("a (2, 3, 4) tensor with normalized_shape=(3, 4)", (2, 3, 4), (3, 4), 7, mean=1),
    _rows(
        "a (2, 3, 4, 5) tensor with normalized_shape=(3, 4, 5)",
        (2, 3, 4, 5),
        (3, 4, 5),
        10,
        mean=1,
    ),
    _rows(
        "a (2, 3, 4, 5) tensor with normalized_shape=(4, 5)", (2, 3, 4, 5), (4, 5), 80, mean=1
    ),
    _rows(
        "4 rows of 4", (4, 4), (4,), 63, mean=1
    ),  # a mean without its axis fits, on the wrong axis
    _rows(
        "eps=0.1", (3, 6), (6,), 16, eps=(0.1,)
    ),  # the shape of the first probe: what is kept by shape shows
    _rows("eps=0 and rows of spread 0.01", (3, 6), (6,), 19, eps=(0.0,), scale=1e-2),
    _rows("a constant row", (2, 4), (4,), 18, scale=0, mean=2.5),
]

_DIGITS = misconceptions(
    _layer_norm,
    """
    # the variance is computed as E[x²] - E[x]², which cancels when the mean is large. | Subtract the mean first.
    var = (z * z).mean(axes, keepdim=True) - mean * mean

    # float64 is narrowed to float32, by x.float() perhaps. | Only half precision is widened: torch.promote_types(x.dtype, torch.float32) keeps the wider of the two.
    z = x.float()
    """,
)

# 2**60 + 2**31 k + k**2 needs more bits than float64 has: whatever the order of steps, E[x²] - E[x]² is 0. Means and
# centered squares are exact, and in float32 a row is constant. The spacing of float64 is 2e-7 there: tolerance 1e-6.
_LARGE = "float64 rows of 2**30 + 0, 1, 2 and 3", 2**30 + numbers([0, 1, 2, 3], [3, 0, 2, 1])
_EXACT = [
    call(*_LARGE, (4,), draw(70, 4), draw(71, 4), tolerance=1e-6, names=NAMES),
    *(dataclasses.replace(probe, tolerance=1e-9) for probe in _FORMULA_PROBES[1:6]),
]


def _of_rows(answer, sizes, **options):
    return lambda x, weight, bias: answer(x, (sizes["E"], sizes["D"]), weight, bias, **options)


_TAKES, _SIZES = (
    {"x": "... E D", "weight": "E D", "bias": "E D"},
    {"E": (1, 3), "D": (7, 1, 2, 17, 400)},
)
_WHOLE = Contract(
    _TAKES, use=_of_rows, options=({}, {"eps": 0.1}), sizes=_SIZES, half=True, empty=True
)


_ARGUMENTS = misconceptions(
    _layer_norm,
    """
    # without a weight the bias is left out as well. Each of the two may be None on its own.
    y = y if weight is None or bias is None else y + bias

    # where one of weight and bias is None, the other is left out too. Each may be None on its own.
    y = x_hat if weight is None or bias is None else x_hat * weight
    y = y if weight is None or bias is None else y + bias

    # weight=None or bias=None is not handled. | Multiply and add only what is not None.
    y = x_hat * weight
    y = y + bias
    """,
)

_NUMBERS = misconceptions(
    _layer_norm,
    """
    # float16 is not widened: squares over 65,504 overflow in it. | Compute in float32, and go back to x's dtype at the end.
    z = x.float() if x.dtype == torch.bfloat16 else x

    # half precision is rounded on the way: the centered row, or x_hat before gain and bias. | Make x float32 at the start, bfloat16 as well as float16, and go back to x's dtype once, at the end.
    z = x
    # or
    z = x.float() if x.dtype == torch.float16 else x
    # or
    x_hat = (c / deviation).to(x.dtype)
    # or
    z = x
    return y

    # gain and bias are rounded to x's half precision before they are used. | Use them as they come, beside the float32 rows.
    y = x_hat if weight is None else x_hat * weight.to(x.dtype)
    y = y if bias is None else y + bias.to(x.dtype)

    # the result stays float32: a float32 gain times a bfloat16 x_hat is float32, too. | Give the result x's dtype at the end: y.to(x.dtype).
    return y
    """,
)

_SHAPE_PROBES = [
    _rows("normalized_shape=4, an int", (2, 3, 4), 4, 21, mean=1),
    _rows("normalized_shape=[3, 4], a list", (2, 3, 4), [3, 4], 24, mean=1),
    _rows("normalized_shape=torch.Size([4])", (2, 3, 4), torch.Size([4]), 24, mean=1),
]

_NONE_PROBES = [
    call("no weight and no bias", draw(27, 3, 5, mean=1), (5,), names=NAMES),
    call("a weight and no bias", draw(28, 3, 5, mean=1), (5,), draw(29, 5), names=NAMES),
    call("a bias and no weight", draw(30, 3, 5, mean=1), (5,), None, draw(31, 5), names=NAMES),
    call(
        "eps given by its name",
        draw(28, 3, 5, mean=1),
        (5,),
        weight=draw(29, 5),
        eps=0.1,
        names=NAMES,
    ),
]

_TRANSPOSED = (
    draw(32, 4, 3, 2, mean=1).transpose(0, 2),
    (3, 4),
    draw(33, 3, 4),
    draw(34, 3, 4),
)


def _in_plain_order(answer):
    return {
        "result.is_contiguous()": answer(
            _TRANSPOSED[0].clone(), *_TRANSPOSED[1:]
        ).is_contiguous()
    }


_16, _B16 = {"dtype": torch.float16}, {"dtype": torch.bfloat16}
_HALF, _BFLOAT = (
    _16 | {"tolerance": 2**-10, "gradient": False},
    _B16 | {"tolerance": 2**-7, "gradient": False},
)

# c rounds to ±2 in bfloat16, and x_hat to ±1; times the gain that is -bias, so an early rounding leaves 0 everywhere,
# whatever the order of steps. The gain is 64 once it is rounded to bfloat16, and the last two numbers would be 0.
_CANCELLING = "a bfloat16 row whose float32 gain and bias nearly cancel"
_TINY = 3 / 1024
_CANCEL_X = torch.tensor([[_TINY, -_TINY, 4, 4]], dtype=torch.bfloat16)
_CANCEL_PARAMETERS = {
    "weight": torch.full((4,), 64.125),
    "bias": torch.tensor([64.0, 64, -64, -64]),
}

_NUMBER_PROBES = [
    # Half a unit in the last place of float16 (bfloat16) is 2**-11 (2**-8) of the largest value; twice that is allowed.
    call(
        _CANCELLING,
        _CANCEL_X,
        (4,),
        *_CANCEL_PARAMETERS.values(),
        tolerance=2**-7,
        gradient=False,
        names=NAMES,
    ),
    _rows(
        "float16 rows of spread 1,000", (3, 6), (6,), 51, scale=1000, **_HALF
    ),  # every variance is over 65,504
    _rows(
        "float16 rows with mean 2,000 and spread 10",
        (3, 6),
        (6,),
        57,
        mean=2000,
        scale=10,
        **_HALF,
    ),
    _rows(
        "bfloat16 rows with a float32 gain",
        (3, 6),
        (6,),
        54,
        mean=20,
        params=torch.float32,
        **_BFLOAT,
    ),
    # The spacing of float32 at 10,000 is 0.001: centered once, as in PyTorch, the result is up to 0.0006 of the largest
    # value off here; the sum in place of the mean 0.03, one pass more than 1.
    _rows(
        "float32 rows with mean 10,000",
        (4, 64),
        (64,),
        57,
        mean=1e4,
        dtype=torch.float32,
        tolerance=0.01,
    ),
]


def _vmapped(answer):
    """Map the answer over the second axis of a (2, 3, 4) tensor."""
    x, weight, bias = draw(41, 2, 3, 4), draw(42, 4), draw(43, 4)
    of_rows = lambda rows: answer(rows, (4,), weight, bias)  # noqa: E731
    y = torch.func.vmap(of_rows, in_dims=1, out_dims=1, randomness="different")(
        x
    )  # an answer may draw numbers
    return {"the result": y}


def _vmapped_weight(answer):
    """Map the answer over two weights, for one x."""
    x, weights, bias = draw(41, 3, 4), draw(42, 2, 4), draw(43, 4)
    mapped = torch.func.vmap(
        lambda weight: answer(x, (4,), weight, bias), randomness="different"
    )
    return {"the result": mapped(weights)}


_TRANSFORM_PROBES = [
    Probe("a (2, 3, 4) tensor mapped by torch.func.vmap over its axis 1", _vmapped),
    Probe("two weights mapped by torch.func.vmap", _vmapped_weight),
]


def _refusal(label, *args):
    """Return a Probe: whether layer_norm(*args) raises an error that is no assert."""
    shown = {
        name: item
        for name, item in zip(NAMES, args, strict=False)
        if isinstance(item, torch.Tensor)
    }
    fresh = lambda: (item.clone() if isinstance(item, torch.Tensor) else item for item in args)  # noqa: E731
    return Probe(label, refusing(lambda answer: answer(*fresh())), shown)


_REFUSAL_PROBES = [
    _refusal("x of shape (2, 3, 4) with normalized_shape=(5,)", draw(1, 2, 3, 4), (5,)),
    _refusal(
        "normalized_shape=(4,) with a bias of shape (1,)", draw(1, 2, 4), (4,), None, draw(2, 1)
    ),
    _refusal("a float64 x and a float32 weight", draw(1, 2, 4), (4,), draw(2, 4).float()),
]


def layer_norm(answer):
    """Check a function (x, normalized_shape, weight=None, bias=None, eps=1e-5) -> y against F.layer_norm."""
    stages = [
        (_FORMULA_PROBES, "the formula"),
        *(([probe], "float64") for probe in _EXACT),
        (_SHAPE_PROBES, "ints and lists"),
        (_NONE_PROBES, "weight=None and bias=None"),
        ([call("a transposed tensor", *_TRANSPOSED, names=NAMES)], "transposed tensors"),
        *(([probe], "the other number types") for probe in _NUMBER_PROBES),
        *(([probe], "vmap") for probe in _TRANSFORM_PROBES),
        *([probe] for probe in _REFUSAL_PROBES),
        [Probe("a transposed tensor", _in_plain_order)],
    ]
    tried = "shapes, options, four number types, second derivative, vmap, bad arguments"
    examine(
        answer,
        "layer_norm",
        stages,
        _reference,
        _FORMULA + _DIGITS + _ARGUMENTS + _NUMBERS,
        tried,
        contract=_WHOLE,
        by_hand=BY_HAND,
    )


# ---- The module
class _Module(nn.Module):
    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        parts = [
            ("weight", 1.0, elementwise_affine),
            ("bias", 0.0, elementwise_affine and bias),
        ]
        for name, start, wanted in parts:
            value = torch.full(self.normalized_shape, start, device=device, dtype=dtype)
            self.register(name, value, wanted)

    def register(self, name, value, wanted):
        return self.register_parameter(name, nn.Parameter(value) if wanted else None)

    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, bias={self.bias is not None}"


class _Reference(nn.LayerNorm):
    """PyTorch's layer, computed in float64."""

    plain = nn.LayerNorm  # for the sweep, which chooses the number type itself

    def forward(self, x):
        return in_float64(F.layer_norm)(
            x, self.normalized_shape, self.weight, self.bias, self.eps
        )


def _parameters(label, *args, also=(), **options):
    """Return a Probe: names and shapes of the parameters of a layer made with args and options, and attributes."""

    def run(cls):
        layer = cls(*args, **options)
        seen = {
            "its parameters": {name: tuple(p.shape) for name, p in layer.named_parameters()}
        }
        seen |= {"the keys of its state_dict": list(layer.state_dict())}
        for name in ("weight", "bias", *also):
            item = getattr(layer, name, "nothing of that name")
            seen[f"layer.{name}"] = (
                "a tensor"
                if isinstance(item, torch.Tensor)
                else "None"
                if item is None
                else item
            )
        return seen

    return Probe(label, run)


def _start(cls):
    layer = cls((3, 4))
    seen = {name: p.detach().clone() for name, p in layer.named_parameters()}
    seen |= {f"{name}.requires_grad": p.requires_grad for name, p in layer.named_parameters()}
    return seen | {
        "the running statistics and other buffers": [name for name, _ in layer.named_buffers()]
    }


def _separate(cls):
    first, other = cls((5,)), cls((5,))  # they must not share their numbers
    filled(first, 71)
    after = "of a second layer after the first was trained"
    return {f"{name} {after}": p.detach().clone() for name, p in other.named_parameters()}


def _slot(cls):
    layer = cls((4,), elementwise_affine=False)
    try:
        layer.weight = torch.ones(4)
    except TypeError:
        return {"layer.weight = torch.ones(4)": "refused: not a Parameter"}
    return {"layer.weight = torch.ones(4)": "accepted, a tensor that no optimizer sees"}


def _hooked(cls):
    layer, calls = cls((4,)), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    layer(torch.zeros(2, 4))
    return {"calls of a forward hook when the layer is called once": len(calls)}


def _from_torch(cls):
    mine = cls((3, 4))
    mine.load_state_dict(filled(nn.LayerNorm((3, 4)), 71).state_dict())
    return {
        "the output with PyTorch's parameters": mine(
            draw(80, 2, 3, 4, dtype=torch.float32)
        ).detach()
    }


def _to_torch(label, **options):
    """Return a Probe: what PyTorch's layer holds after loading a state_dict; it does not run, see BY_HAND."""

    def run(cls):
        theirs = nn.LayerNorm((3, 4), **options)
        theirs.load_state_dict(filled(cls((3, 4), **options), 71).state_dict())
        return {
            f"PyTorch's {name} with your numbers": tensor
            for name, tensor in theirs.state_dict().items()
        }

    return Probe(label, run)


def _placed(cls):
    layer = cls(4, dtype=torch.float64, device="meta")
    return {
        f"{name}.dtype and .device": (str(p.dtype), str(p.device))
        for name, p in layer.named_parameters()
    }


def _rounded_once(cls):
    layer = cls((4,))
    layer.load_state_dict(_CANCEL_PARAMETERS)
    return {"the output": layer(_CANCEL_X.clone()).detach()}


_BOOKS = misconceptions(
    _Module,
    """
    # __call__ is overridden, so hooks, profilers and tracing are skipped. | Define forward, and nn.Module's __call__ calls it.
    def __call__(self, x):
        return _layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    # elementwise_affine=False must leave no parameters: weight and bias are registered all the same, and only not used. | Register None: self.register_parameter("weight", None).
    def register(self, name, value, wanted):
        return self.register_parameter(name, nn.Parameter(value))

    # self.weight = None is an ordinary attribute. | self.register_parameter("weight", None) keeps the place for a Parameter and refuses anything else.
    def register(self, name, value, wanted):
        return setattr(self, name, nn.Parameter(value) if wanted else None)

    # without parameters there is no self.weight at all. | Register None, so that the name is there: self.register_parameter("weight", None).
    def register(self, name, value, wanted):
        return self.register_parameter(name, nn.Parameter(value)) if wanted else None
    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"

    # the parameters have other names. PyTorch calls them weight and bias; with other names no checkpoint can be exchanged.
    parts = [("gamma", 1.0, elementwise_affine), ("beta", 0.0, elementwise_affine and bias)]
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, self.gamma, self.beta, self.eps)
    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"

    # weight and bias are plain tensors, so no optimizer, no .to() and no state_dict sees them. | Wrap each in nn.Parameter.
    def register(self, name, value, wanted):
        return setattr(self, name, value if wanted else None)

    # a plain tensor is registered, and an optimizer sees nn.Parameters only. | Wrap it: nn.Parameter(torch.empty(...)).
    def register(self, name, value, wanted):
        return self.register_parameter(name, value if wanted else None)

    # self.name is one attribute, called "name". | self.register_parameter(name, parameter) takes the name from the loop.
    def register(self, name, value, wanted):
        return setattr(self, "name", nn.Parameter(value) if wanted else None)

    # nn.Parameter wraps a tensor, and got something else, the sizes perhaps. | nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)).
    value = self.normalized_shape

    # the parameters have the last size only. Their shape is the whole normalized_shape.
    value = torch.full(self.normalized_shape[-1:], start, device=device, dtype=dtype)

    # device and dtype are ignored. | Hand both on where the parameters are made.
    value = torch.full(self.normalized_shape, start)

    # the sizes are read off x, so that the layer does not know what it normalizes, and without parameters takes any x. | Hand on self.normalized_shape.
    def forward(self, x):
        return _layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)

    # eps is not handed on in forward. | Write self.eps there.
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, self.weight, self.bias)

    # weight and bias are not used in forward. | Hand self.weight and self.bias on.
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, None, None, self.eps)

    # weight, bias and eps are not used in forward. | Hand all three on: self.weight, self.bias, self.eps.
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape)

    # weight and bias are swapped where they are handed on.
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, self.bias, self.weight, self.eps)

    # forward hands the wrong things on, or calls your class in place of your function. | layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps), all five in this order.
    def forward(self, x):
        return _layer_norm(x, self.normalized_shape, self.eps, self.weight, self.bias)
    """,
)


def _layer(label, shape, size, how=None, tolerance=5e-6, parameters=None, **options):
    """Return a Probe: output and gradients of a layer with random parameters on a random tensor."""
    x = draw(72, *shape, **({"mean": 0.5} | (how or {})))
    return call_layer(label, lambda cls: cls(size, **options), x, {}, tolerance, parameters)


_VALUE_PROBES = [  # the tolerance is that of _FORMULA_PROBES
    _layer("rows of spread 0.001", (3, 6), (6,), {"scale": 1e-3, "mean": 0}),
    _layer("a (2, 3, 4) tensor and the sizes (3, 4)", (2, 3, 4), (3, 4)),
    _layer("a (2, 3, 4) tensor, the sizes (4,) and eps=0.1", (2, 3, 4), (4,), eps=0.1),
    _layer(
        "a (2, 3, 4) tensor of spread 0.01 and eps=0",
        (2, 3, 4),
        (4,),
        {"scale": 1e-2, "mean": 0},
        eps=0.0,
    ),
    _layer("a square (4, 4) tensor", (4, 4), (4,)),
]
_NONE_IN_MODULE = [
    _layer(
        "a (2, 3, 4) tensor, elementwise_affine=False",
        (2, 3, 4),
        (3, 4),
        elementwise_affine=False,
    ),
    _layer("a (2, 3, 4) tensor, bias=False", (2, 3, 4), 4, bias=False),
]
_REFUSED = Probe(
    "x of shape (2, 3, 5) in LayerNorm((3, 4), elementwise_affine=False)",
    refusing(lambda cls: cls((3, 4), elementwise_affine=False)(draw(81, 2, 3, 5).float())),
)
_PRECISION_PROBES = [  # the tolerances are those of layer_norm; float16 parameters are rounded as well
    Probe(_CANCELLING, _rounded_once, tolerance=2**-7),
    _layer(
        "bfloat16 rows and float32 parameters",
        (3, 6),
        6,
        _B16 | {"mean": 20},
        2**-7,
        torch.float32,
    ),
    _layer(
        "float32 rows with mean 10,000",
        (4, 64),
        64,
        {"dtype": torch.float32, "mean": 1e4},
        0.01,
    ),
]

_EXCHANGE_PROBES = [  # both computed in float32, numbers of order 1
    Probe(
        "a state_dict of nn.LayerNorm((3, 4)) loaded into your layer",
        _from_torch,
        tolerance=1e-5,
    ),
    _to_torch("your layer's state_dict loaded into nn.LayerNorm((3, 4))"),
    _to_torch(
        "your layer's state_dict without parameters loaded into PyTorch's",
        elementwise_affine=False,
    ),
    Probe("a layer with a forward hook", _hooked),
]
_START_PROBES = [
    Probe("a new layer of the sizes (3, 4)", _start),
    Probe("two layers of one size", _separate),
]

_STRUCTURE_PROBES = [_parameters(f"LayerNorm({size})", size) for size in ((3, 4), 5, [2, 3, 4])]
_OPTION_PROBES = [
    _parameters(
        "LayerNorm((3, 4), elementwise_affine=False)", (3, 4), elementwise_affine=False
    ),
    _parameters("LayerNorm(4, bias=False)", 4, bias=False),
    _parameters(
        "LayerNorm(4, elementwise_affine=False, bias=True)",
        4,
        elementwise_affine=False,
        bias=True,
    ),
    Probe("LayerNorm((4,), elementwise_affine=False)", _slot),
    _parameters(
        *("LayerNorm([3, 4], 0.1, True, False)", [3, 4], 0.1, True, False),
        also=("eps", "normalized_shape", "elementwise_affine"),
    ),
    Probe(
        "print(LayerNorm((3, 4), eps=0.1))",
        lambda cls: {
            f"{part!r} in repr(layer)": part in repr(cls((3, 4), eps=0.1))
            for part in ("(3, 4)", "0.1")
        },
    ),
]
_PLACE_PROBES = [
    Probe('LayerNorm(4, dtype=torch.float64, device="meta")', _placed),
    Probe(
        'a layer moved to another device, LayerNorm(4).to("meta")',
        lambda cls: {
            "the device of the output": device_after_moving(cls(4), torch.zeros(2, 4))
        },
    ),
]


def _own_class(cls):
    ready_made = (
        issubclass(cls, nn.LayerNorm) and cls.__module__ != __name__
    )  # _Reference is one, too
    return {
        "the class": "PyTorch's nn.LayerNorm, or derived from it" if ready_made else "your own"
    }


_MODULE_STAGES = [
    [
        Probe(
            "LayerNorm",
            _own_class,
            why="This exercise is there to build it: derive the class from nn.Module.",
        )
    ],
    (_STRUCTURE_PROBES, "names and shapes"),
    (_START_PROBES, "first values"),
    (_OPTION_PROBES, "the options"),
    (_VALUE_PROBES, "values and gradients"),
    (_NONE_IN_MODULE, "None for a parameter"),
    ([_REFUSED], "a shape that does not fit"),
    *(([probe], "the other number types") for probe in _PRECISION_PROBES),
    (_PLACE_PROBES + _EXCHANGE_PROBES, "exchange with PyTorch"),
    (
        of_a_layer(
            lambda cls: cls(5, eps=0.1),
            draw(76, 3, 5, mean=3),
            other=lambda cls: cls(5, eps=0.5),
        ),
        "copies, modes, frozen parameters",
    ),
]
_MODULE_CONTRACT = Contract(
    {"x": "... E D"},
    use=lambda cls, sizes, **options: cls((sizes["E"], sizes["D"]), **options),
    options=({}, {"eps": 0.1}, {"elementwise_affine": False}, {"bias": False}),
    sizes=_SIZES,
    half=True,
)


def layer_norm_module(answer):
    """Check a class with PyTorch's constructor against nn.LayerNorm."""
    tried = "parameters, options, values, gradients, state_dict both ways, hooks, eval()"
    examine(
        answer,
        "layer_norm_module",
        _MODULE_STAGES,
        _Reference,
        _BOOKS,
        tried,
        contract=_MODULE_CONTRACT,
        by_hand=BY_HAND,
    )


# ---- Folding, on paper
_COLUMNS = "Each gain multiplies what its own feature is multiplied by: the gain 2 the first factor, the gain 3 the second."
_FACTORS = (
    "These are the factors of z_1 and z_2. Put 2 x_hat_1 + 1 and 3 x_hat_2 - 1 in their place."
)
_GAINS = "These are the gains. Multiply each with the factor of its z in this output."
_FOLDED = {"o_1": (2, 12), "o_2": (4, -3), "b": (2, 4)}
_FOLDING_SLIPS = {
    "o_1": {
        (1, 4): _FACTORS,
        (2, 3): _GAINS,
        (2, 8): f"Here both factors are multiplied by 2. {_COLUMNS}",
    },
    "o_2": {
        (2, -1): _FACTORS,
        (2, 3): _GAINS,
        (6, -3): f"Here both factors are multiplied by 3. {_COLUMNS}",
        (4, 3): "Look at the sign: z_2 is subtracted in the second output.",
    },
    "b": {
        (
            1,
            -1,
        ): "These are the biases of z_1 and z_2. Each goes through the linear layer first.",
        (10, 4): "z_2 is 3 x_hat_2 - 1: its bias is -1. Look at the sign.",
        (
            5,
            1,
        ): "This is what the linear layer added before. The biases of z_1 and z_2 come through the factors, too.",
        (
            -3,
            3,
        ): "This is what the biases of z_1 and z_2 become. The linear layer adds 5 and 1 as before.",
        **dict.fromkeys(
            ((5, 4), (5, 3), (2, 3), (6, 3)),
            "A factor multiplies the whole z, the number at its end as well. | Put z_1 and z_2 in brackets.",
        ),
        (
            6,
            0,
        ): "The biases 1 and -1 are not added to the outputs as they are: z_1 and z_2 are multiplied first.",
        (2, 2): "z_2 is subtracted in the second output, so its bias -1 adds 1 there.",
    },
}


def folded(answer):
    """Check a dict of pairs of numbers: the linear layer into which gain and bias are folded."""
    values(answer, "folded", _FOLDED, _FOLDING_SLIPS)


# ---- The clinic
def _translated(state):
    new_state = {}
    names = {"gain": "weight", "offset": "bias"}
    for key, tensor in state.items():
        place, dot, last = key.rpartition(".")
        new_gain = 1 + tensor
        new_offset = tensor
        changed = {"gain": new_gain, "offset": new_offset}
        if last in names:
            new_key = place + dot + names[last]
            new_state[new_key] = changed[last]
        else:
            new_state[key] = tensor
    return new_state


_TRANSLATIONS = misconceptions(
    _translated,
    """
    # the gains are as they were stored. OldNorm multiplies by 1 + gain, and nn.LayerNorm by weight: what was stored as 0 must become 1.
    new_gain = tensor

    # the gains are read as the logarithm of the factor. At a gain of 3 the old layer's output is 4 times x_hat: its factor is 1 + gain.
    new_gain = tensor.exp()

    # OldNorm multiplies by 1 + gain, so the weight is 1 + gain, neither gain - 1 nor 1 - gain.
    new_gain = tensor - 1
    # or
    new_gain = 1 - tensor

    # an entry changes its dtype. | Leave it as it is: 1 + tensor keeps it, also in half precision.
    new_gain = 1 + tensor.float()

    # the tensors of state itself are changed, by an operation in place. | Write 1 + tensor.
    new_gain = tensor.add_(1)

    # 1 is added to the offsets, too. They are added to x_hat as they are.
    new_offset = 1 + tensor

    # weight and bias are swapped: the gain becomes the weight, the offset the bias.
    names = {"gain": "bias", "offset": "weight"}

    # what comes before the last part of a name is lost, so all layers share one name.
    place, dot, last = "", "", key.rpartition(".")[2]

    # a dot is put before a name that has none: ".weight" in place of "weight". | Write place + dot.
    place, dot, last = key.rpartition(".")[0], ".", key.rpartition(".")[2]

    # the other entries are lost. The linear layers need theirs: hand them on.
    del new_state[key]

    # a name is changed that only contains the words. | Look at the last part of a name, after its last dot.
    return {k.replace("gain", "weight").replace("offset", "bias"): 1 + t if "gain" in k else t for k, t in state.items()}
    # or
    return {k.replace("gain", "weight").replace("offset", "bias"): 1 + t if k.endswith("gain") else t for k, t in state.items()}

    # replace changes the word wherever it stands in a name, as in "again.gain", and not only at its end. | place + dot + "weight".
    new_key = key.replace(last, names[last])
    # or
    place, dot, last = "", "", next((name for name in names if key.endswith(name)), "")
    new_key = key.replace(last, names[last])

    # a name is changed that only ends in the word: "regain" ends in gain, and its last part is not "gain". | Look at what is behind the last dot.
    place, dot, last = next(((key[: -len(name)], "", name) for name in names if key.endswith(name)), ("", "", key))

    # the layer of its own has names without a dot, gain and offset. They are parts of OldNorm as well.
    place, dot, last = key.rpartition(".") if "." in key else ("", key, "")

    # partition splits at the first dot. The last part of a name is after its last dot. | rpartition.
    place, dot, last = key.partition(".")

    # state itself is filled, and the old names stay in it. | Make a new dictionary.
    new_state, state = state, dict(state)

    # the old names are still there, next to the new ones. | Start from an empty dictionary.
    new_state = dict(state)
    """,
)


def _checkpoint(label, **tensors):
    """Return a Probe: the new dictionary, entry by entry, and state afterwards; tensors: {name: tensor}, __ for dots."""
    state = {name.replace("__", "."): tensor for name, tensor in tensors.items()}

    def run(answer):
        entered = {name: tensor.clone() for name, tensor in state.items()}
        kept = dict(entered)
        new = answer(entered)
        seen = {"the names in state after the call": list(entered)}
        seen |= {
            f"state[{name!r}] after the call": tensor.clone() for name, tensor in kept.items()
        }
        if not isinstance(new, Mapping):
            return seen | {"the result": new}
        seen |= {"the new names, sorted": sorted(map(str, new))}
        return seen | {f"the entry {name!r}": tensor for name, tensor in new.items()}

    return Probe(label, run, {"the names in state": list(state)})


_CHECKPOINT_PROBES = [
    _checkpoint(
        "the checkpoint of a small net",
        **{"0__weight": draw(91, 4, 3), "0__bias": draw(92, 4)},
        **{"1__gain": draw(93, 4), "1__offset": draw(94, 4), "3__weight": draw(95, 2, 4)},
    ),
    _checkpoint(
        "a net with blocks, in float16 and float32, with a counter",
        **{"block__norm__offset": draw(96, 3).half(), "block__norm__gain": draw(97, 3).half()},
        **{"block__steps": torch.tensor(7), "norm__gain": draw(98, 2, 3).float()},
    ),
    _checkpoint("one OldNorm of its own", gain=draw(99, 5), offset=draw(90, 5)),
    _checkpoint(
        "a net in which other names contain the words",
        **{
            "stem__gain_head__weight": draw(89, 2, 3),
            "position_offset": draw(88, 3),
            "again__bias": draw(87, 3),
        },
        **{"offset__gain": draw(86, 3), "regain": draw(85, 3), "again__gain": draw(84, 3)},
    ),
    _checkpoint("an empty checkpoint"),
]


def translated(answer):
    """Check a function state -> a new dict for nn.LayerNorm, from the checkpoint of a net with OldNorm."""
    stages = [_CHECKPOINT_PROBES[:2], *([probe] for probe in _CHECKPOINT_PROBES[2:])]
    tried = "layers in blocks and alone, names that only contain the words, other tensors, dtypes, state left as it is"
    examine(answer, "translated", stages, _translated, _TRANSLATIONS, tried)

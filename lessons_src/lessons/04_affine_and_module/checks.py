"""Checks of lesson 4."""

import math
from collections.abc import Mapping

import torch

from fromscratch.affine_and_module import LayerNorm as _LayerNorm
from fromscratch.affine_and_module import _check_inputs, _sizes
from fromscratch.affine_and_module import layer_norm as _layer_norm
from fromscratch.affine_and_module import normalize_over as _normalize_over
from lessonkit.check.declare import (
    Probe,
    call,
    call_layer,
    draw,
    exercise,
    numbers,
    of_a_layer,
    quiz,
    refusing,
)

_FACTORS = (
    "These are the factors of z_1 and z_2. Put 2 x_hat_1 + 1 and 3 x_hat_2 - 1 in their place."
)
_GAINS = "These are the gains. Multiply each with the factor of its z."
_COLUMNS = "Each gain multiplies what its own feature is multiplied by: the gain 2 the first factor, the gain 3 the second."
_BRACKETS = "A factor multiplies the whole z, the number at its end as well. | Put z_1 and z_2 in brackets."
folded = quiz(
    o=(
        (2, 12),
        {
            (1, 4): _FACTORS,
            (2, 3): _GAINS,
            (2, 8): f"Here both factors are multiplied by 2. {_COLUMNS}",
            (3, 12): f"Here both factors are multiplied by 3. {_COLUMNS}",
        },
    ),
    b=(
        2,
        {
            10: "z_2 is 3 x_hat_2 - 1: its bias is -1. Look at the sign.",
            5: "This is what the linear layer added before. The biases of z_1 and z_2 come through the factors, too. | Put z_1 and z_2 in brackets.",
            -3: "This is what the biases of z_1 and z_2 become. The linear layer adds 5 as before.",
            6: _BRACKETS,
            4: _BRACKETS,
        },
    ),
)


def _in_steps(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    # both are given to the learner: errors are of one kind
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


def _case(label, *inputs, **options):
    """Return a Probe: a call with x, normalized_shape, weight, bias and eps, as many as are given."""
    return call(
        label, *inputs, names=("x", "normalized_shape", "weight", "bias", "eps"), **options
    )


def _rows(label, shape, size, *eps, mean=0, scale=1, dtype=torch.float64, **options):
    """Return a Probe: a call with random x, weight and bias."""
    x = draw(13, *shape, mean=mean, scale=scale, dtype=dtype)
    weight, bias = (draw(seed, *_sizes(size), dtype=dtype) for seed in (14, 15))
    return _case(label, x, size, weight, bias, *eps, **{"tolerance": 5e-6} | options)


def _mapped(label, x, weight, axes):
    """Return a Probe: a call that torch.func.vmap maps over axes of x and of weight; an answer may draw numbers."""

    def run(answer):
        of_one = lambda x, weight: answer(x, (4,), weight, _BIAS.clone())  # noqa: E731
        mapped = torch.func.vmap(of_one, axes, randomness="different")
        return {"the result": mapped(x.clone(), weight.clone())}

    return Probe(label, run)


def _of_rows(answer, sizes, **options):
    return lambda x, weight, bias: answer(x, (sizes["E"], sizes["D"]), weight, bias, **options)


_SIZES = {"E": (1, 3), "D": (7, 1, 2, 17, 400)}
_BY_HAND = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm")
_X, _WEIGHT, _BIAS = draw(28, 3, 4, mean=1), draw(29, 4), draw(31, 4)


# A misconception is told by the first stage that fails, so that of two at once each gets its cause. The tolerance of
# the formula is 5e-6 of the largest value, 40 units of float32: an answer that computes all in float32 is told so by
# the float64 that comes next; any other formula is further off.
def _over_in_steps(x, sizes, eps=1e-5):
    axes = tuple(range(-len(sizes), 0))
    z = x
    mean = z.mean(axes, keepdim=True)
    c = z - mean
    var = (c * c).mean(axes, keepdim=True)
    deviation = torch.sqrt(var + eps)
    x_hat = c / deviation
    return x_hat


def _one_by_one(z, axes, eps):
    """Return z normalized over its axes one after another, as a misconception below does."""
    for axis in axes:
        c = z - z.mean(axis, keepdim=True)
        z = c / torch.sqrt((c * c).mean(axis, keepdim=True) + eps)
    return z


# What goes wrong where rows are normalized, in the lines of _in_steps and of _over_in_steps alike.
_NORMALIZING = """
    # the variance divides by D - 1. LayerNorm divides by D. | Write x.var(axes, correction=0), or (c * c).mean(axes).
    var = c.var(axes, keepdim=True)

    # eps is added to the deviation. It belongs to the variance, under the root. | torch.sqrt(var + eps).
    deviation = torch.sqrt(var) + eps

    # eps is the least that the variance may be. It is added to the variance, also to a large one. | torch.sqrt(var + eps).
    deviation = torch.sqrt(var.clamp(min=eps))

    # brackets are missing: eps is added to the quotient, not to the variance.
    x_hat = c / torch.sqrt(var) + eps

    # `eps or 1e-5` is 1e-5 where eps is 0. | Use eps as it comes.
    deviation = torch.sqrt(var + (eps or 1e-5))

    # the variance is taken over the last axis alone, and the mean over all that are normalized.
    var = (c * c).mean(-1, keepdim=True)

    # the squares are summed. The variance is their mean.
    var = (c * c).sum(axes, keepdim=True)

    # the squares are summed over all axes, and divided by the size of one. Divide by how many numbers are normalized together. | (c * c).mean(axes, keepdim=True).
    var = (c * c).sum(axes, keepdim=True) / z.shape[-1]

    # your answer multiplies by the deviation. | Divide by torch.sqrt, or multiply by torch.rsqrt.
    x_hat = c * deviation

    # your answer divides by the variance. | Divide by its root, the deviation.
    deviation = var + eps

    # SIZES holds sizes, not axis numbers. | The axes are tuple(range(-len(SIZES), 0)).
    axes = sizes

    # the axes are normalized one after another. They are normalized together, with one mean and one variance. | mean() takes a tuple of axes.
    x_hat = _one_by_one(z, axes, eps)

    # one axis is normalized, number -len(SIZES). | From there to the last, all are: tuple(range(-k, 0)).
    axes = -len(sizes)

    # range(-k, -1) ends before the last axis. | Write range(-k, 0).
    axes = tuple(range(-len(sizes), -1))

    # only the last axis is normalized. | The last len(SIZES) axes are: tuple(range(-k, 0)).
    axes = -1

    # the axes come from x (all but the first) instead of SIZES. | Count len(SIZES) from the end.
    axes = tuple(range(1, x.dim()))

    # every axis is normalized at once, the batch included. | mean() needs its axes and keepdim=True.
    axes = tuple(range(x.dim()))

    # the first len(SIZES) axes are normalized. | Count from the end: tuple(range(-k, 0)).
    axes = tuple(range(len(sizes)))

    # what is divided is x, with its mean still in it. | Subtract the mean first: (x - mean) / deviation.
    x_hat = z / deviation

    # brackets are missing: without them / comes before -, and only the mean is divided.
    x_hat = z - mean / deviation

    # the mean is never subtracted: this is RMSNorm, which divides by the root of the mean square.
    c = z
    """


def _slips(sizes):
    """Return these misconceptions; sizes: what the exercise calls the sizes of the normalized axes."""
    return _NORMALIZING.replace("SIZES", sizes)


def _over(label, shape, sizes, *eps, mean=0, scale=1, **options):
    """Return a Probe: a call of normalize_over with random x."""
    x = draw(13, *shape, mean=mean, scale=scale, dtype=torch.float64)
    names = ("x", "sizes", "eps")
    return call(label, x, sizes, *eps, names=names, **{"tolerance": 5e-6} | options)


def _mapped_over(label, x):
    def run(answer):
        of_one = lambda x: answer(x, (4,))  # noqa: E731
        return {"the result": torch.func.vmap(of_one, 1, randomness="different")(x.clone())}

    return Probe(label, run)


normalize_over = exercise(
    _normalize_over,
    (
        [
            _over("rows of spread 0.001", (3, 6), (6,), scale=1e-3),
            _over("a (4, 3, 4) tensor with sizes=(4,)", (4, 3, 4), (4,)),
            _over("a (2, 3, 4) tensor with sizes=(3, 4)", (2, 3, 4), (3, 4), mean=1),
            _over("eps=0.1", (3, 6), (6,), 0.1),
            _over("eps=0 and rows of spread 1e-8", (3, 6), (6,), 0.0, scale=1e-8),
        ],
        "the formula",
    ),
    (
        [
            call(
                "float64 rows of 2**30 + 0, 1, 2 and 3",
                2**30 + numbers([0, 1, 2, 3], [3, 0, 2, 1]),
                (4,),
                names=("x", "sizes"),
                tolerance=1e-6,
            )
        ],
        "rows far from 0",
    ),
    (
        [
            _mapped_over(
                "a (2, 3, 4) tensor mapped by torch.func.vmap over its axis 1",
                draw(41, 2, 3, 4),
            )
        ],
        "vmap",
    ),
    takes={"x": "... E D"},
    use=lambda answer, sizes, **options: (
        lambda x: answer(x, (sizes["E"], sizes["D"]), **options)
    ),
    options=({}, {"eps": 0.1}),
    sizes=_SIZES,
    tried="one axis and several, eps, rows far from 0, second derivative, vmap",
    by_hand=_BY_HAND,
    wrong={
        _over_in_steps: _slips("sizes")
        + """
    # the variance is computed as E[x²] - E[x]², which cancels when the mean is large. | Subtract the mean first.
    var = (z * z).mean(axes, keepdim=True) - mean * mean
    """
    },
)


layer_norm = exercise(
    _layer_norm,
    (
        [
            # rows of small spread come first: there every misplaced eps is far off
            _rows("rows of spread 0.001", (3, 6), (6,), scale=1e-3),
            # a batch as large as a row: axes that are looked up by their size are found twice
            _rows("a (4, 3, 4) tensor with normalized_shape=(4,)", (4, 3, 4), (4,)),
            _rows("a (2, 3, 4) tensor with normalized_shape=(3, 4)", (2, 3, 4), (3, 4), mean=1),
            # the shape of the first: what is kept by shape shows
            _rows("eps=0.1", (3, 6), (6,), 0.1),
            _rows("eps=0 and rows of spread 1e-8", (3, 6), (6,), 0.0, scale=1e-8),
            _case(
                "a row with nan in it",
                numbers(1, 2, math.nan, 4),
                (4,),
                _WEIGHT,
                _BIAS,
                gradient=False,
            ),
        ],
        "the formula",
    ),
    (
        # 2**60 + 2**31 k + k**2 needs more bits than float64 has: whatever the order of steps, E[x²] - E[x]² is 0. Means
        # and centered squares are exact, and in float32 a row is constant. The spacing of float64 is 2e-7 there.
        [
            _case(
                "float64 rows of 2**30 + 0, 1, 2 and 3",
                2**30 + numbers([0, 1, 2, 3], [3, 0, 2, 1]),
                (4,),
                _WEIGHT,
                _BIAS,
                tolerance=1e-6,
            )
        ],
        "float64",
    ),
    (
        [
            _rows("normalized_shape=4, an int", (2, 3, 4), 4),
            _rows("normalized_shape=[3, 4], a list", (2, 3, 4), [3, 4]),
        ],
        "ints and lists",
    ),
    (
        [
            _case("no weight and no bias", _X, (4,)),
            _case("a weight and no bias", _X, (4,), _WEIGHT),
            _case("a bias and no weight", _X, (4,), None, _BIAS),
        ],
        "weight=None and bias=None",
    ),
    (
        # c rounds to ±2 in bfloat16, and x_hat to ±1; times the gain that is -bias, so an early rounding leaves 0
        # everywhere, whatever the order of steps. The gain is 64 once it is rounded to bfloat16, and the last two numbers
        # would be 0. Half a unit in the last place of bfloat16 is 2**-8 of the largest value; twice that is allowed.
        [
            _case(
                "a bfloat16 row whose float32 gain and bias nearly cancel",
                numbers([3 / 1024, -3 / 1024, 4, 4]).bfloat16(),
                (4,),
                torch.full((4,), 64.125),
                torch.tensor([64.0, 64, -64, -64]),
                tolerance=2**-7,
                gradient=False,
            )
        ],
        "the other number types",
    ),
    (
        # every variance is over 65,504; half a unit in the last place of float16 is 2**-11
        [
            _rows(
                "float16 rows of spread 1,000",
                (3, 6),
                (6,),
                scale=1000,
                dtype=torch.float16,
                tolerance=2**-10,
                gradient=False,
            )
        ],
        "the other number types",
    ),
    (
        [
            _mapped(
                "a (2, 3, 4) tensor mapped by torch.func.vmap over its axis 1",
                draw(41, 2, 3, 4),
                _WEIGHT,
                (1, None),
            ),
            _mapped("two weights mapped by torch.func.vmap", _X, draw(42, 2, 4), (None, 0)),
        ],
        "vmap",
    ),
    takes={"x": "... E D", "weight": "E D", "bias": "E D"},
    use=_of_rows,
    options=({}, {"eps": 0.1}),
    sizes=_SIZES,
    half=True,
    empty=True,
    tried="shapes, options, four number types, second derivative, vmap",
    by_hand=_BY_HAND,
    wrong={
        _in_steps: _slips("normalized_shape")
        + """
    # the bias is added before the gain multiplies. It comes last. | x_hat * weight + bias.
    y = x_hat if weight is None else (x_hat + bias) * weight
    y = y if bias is None else y

    # weight and bias are swapped.
    y = x_hat if weight is None else x_hat * bias
    y = y if bias is None else y + weight

    # weight and bias are not used.
    y = x_hat
    y = y if bias is None else y

    # is there an `if weight:`? A tensor of several numbers is neither true nor false. | Ask `weight is None`.
    y = x_hat if not weight else x_hat * weight
    y = y if not bias else y + bias


    # the variance is computed as E[x²] - E[x]², which cancels when the mean is large. | Subtract the mean first.
    var = (z * z).mean(axes, keepdim=True) - mean * mean

    # a tensor is changed in place, by *= or mul_ perhaps. torch.func.vmap allows it only where all that goes in is mapped as well. | Write y = y * weight.
    y = x_hat if weight is None else x_hat.mul_(weight)

    # float64 is narrowed to float32, by x.float() perhaps. | Only half precision is widened: torch.promote_types(x.dtype, torch.float32) keeps the wider of the two.
    z = x.float()


    # where one of weight and bias is None, the other is left out too. Each may be None on its own.
    y = y if weight is None or bias is None else y + bias
    # or
    y = x_hat if weight is None or bias is None else x_hat * weight
    y = y if weight is None or bias is None else y + bias


    # float16 is not widened: squares over 65,504 overflow in it. | Compute in float32, and go back to x's dtype at the end.
    z = x.float() if x.dtype == torch.bfloat16 else x

    # half precision is rounded on the way: the centered row, or x_hat before gain and bias. | Make x float32 at the start, and go back to x's dtype once, at the end.
    z = x

    # the result stays float32. | Behind x = x.float(), x.dtype is float32: give the wide x another name.
    return y

    # gain and bias are rounded to x's half precision before they are used. | Use them as they come, beside the float32 rows.
    y = x_hat if weight is None else x_hat * weight.to(x.dtype)
    y = y if bias is None else y + bias.to(x.dtype)
    """
    },
)


def _parameters(label, *args, **options):
    """Return a Probe: names and shapes of the parameters of a layer made with args and options, and both attributes."""

    def run(cls):
        layer = cls(*args, **options)
        seen = {
            "its parameters": {name: tuple(p.shape) for name, p in layer.named_parameters()}
        }
        seen |= {"the keys of its state_dict": list(layer.state_dict())}
        for name in ("weight", "bias"):
            item = getattr(layer, name, "nothing of that name")
            shown = "a tensor" if torch.is_tensor(item) else "None" if item is None else item
            seen[f"layer.{name}"] = shown
        return seen

    return Probe(label, run)


def _start(cls):
    layer = cls((3, 4))
    seen = {name: p.detach().clone() for name, p in layer.named_parameters()}
    return seen | {
        f"{name}.requires_grad": p.requires_grad for name, p in layer.named_parameters()
    }


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


def _placed(cls):
    layer = cls(4, dtype=torch.float64, device="meta")
    return {
        f"{name}.dtype and .device": (str(p.dtype), str(p.device))
        for name, p in layer.named_parameters()
    }


layer_norm_module = exercise(
    _LayerNorm,
    ([_parameters("LayerNorm((3, 4))", (3, 4))], "names and shapes"),
    ([Probe("a new layer of the sizes (3, 4)", _start)], "first values"),
    (
        [
            _parameters("LayerNorm(4, elementwise_affine=False)", 4, elementwise_affine=False),
            Probe("LayerNorm((4,), elementwise_affine=False)", _slot),
            _parameters("LayerNorm([3, 4], bias=False)", [3, 4], bias=False),
        ],
        "the options",
    ),
    (
        [
            call_layer(
                "a (2, 3, 4) tensor and the sizes (3, 4)",
                lambda cls: cls((3, 4)),
                draw(72, 2, 3, 4),
                {},
            ),
            call_layer(
                "a (2, 3, 4) tensor, the sizes (4,) and eps=0.1",
                lambda cls: cls((4,), eps=0.1),
                draw(72, 2, 3, 4),
                {},
            ),
        ],
        "values and gradients",
    ),
    (
        [
            Probe(
                "x of shape (3, 5) in LayerNorm(4, elementwise_affine=False)",
                refusing(lambda cls: cls(4, elementwise_affine=False)(torch.ones(3, 5))),
            )
        ],
        "a shape that does not fit",
    ),
    (
        [
            call_layer(
                "bfloat16 rows and float32 parameters",
                lambda cls: cls(6),
                draw(72, 3, 6, mean=20).bfloat16(),
                {},
                tolerance=2**-7,  # see layer_norm
                parameters=torch.float32,
            )
        ],
        "the other number types",
    ),
    (
        [
            Probe('LayerNorm(4, dtype=torch.float64, device="meta")', _placed),
            Probe("a layer with a forward hook", _hooked),
        ],
        "exchange with PyTorch",
    ),
    (
        of_a_layer(
            lambda cls: cls(5, eps=0.1),
            draw(76, 3, 5, mean=3),
            other=lambda cls: cls(5, eps=0.5),
        ),
        "copies, modes, frozen parameters",
    ),
    takes={"x": "... E D"},
    use=lambda cls, sizes, **options: cls((sizes["E"], sizes["D"]), **options),
    options=({}, {"eps": 0.1}, {"elementwise_affine": False}, {"bias": False}),
    sizes=_SIZES,
    half=True,
    tried="parameters, options, values, gradients, state_dict, hooks, eval()",
    by_hand=_BY_HAND,
    wrong="""
    # __call__ is overridden, so hooks, profilers and tracing are skipped. | Define forward, and nn.Module's __call__ calls it.
    def __call__(self, x):
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    # elementwise_affine=False must leave no parameters: weight and bias are registered all the same, and only not used. | Register None: self.register_parameter("weight", None).
    parameters = {"weight": True, "bias": True}

    # self.weight = None is an ordinary attribute. | self.register_parameter("weight", None) keeps the place for a Parameter and refuses anything else.
    def register_parameter(self, name, parameter):
        return setattr(self, name, None) if parameter is None else super().register_parameter(name, parameter)

    # weight and bias are plain tensors, so no optimizer, no .to() and no state_dict sees them. | Wrap each in nn.Parameter.
    parameter = torch.full(self.normalized_shape, float(name == "weight"), device=device, dtype=dtype)
    def register_parameter(self, name, parameter):
        return setattr(self, name, parameter)

    # nn.Parameter wraps a tensor, and got something else, the sizes perhaps. | nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)).
    parameter = nn.Parameter(self.normalized_shape)

    # the sizes are read off x, so that the layer, without parameters, takes any x. | Hand on self.normalized_shape.
    def forward(self, x):
        return layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)

    # eps is not handed on in forward. | Write self.eps there.
    def forward(self, x):
        return layer_norm(x, self.normalized_shape, self.weight, self.bias)

    # gain and bias are multiplied and added by hand, and float32 times half precision is float32. | Hand self.weight and self.bias on, and layer_norm rounds once, at the end.
    def forward(self, x):
        z = layer_norm(x, self.normalized_shape, None, None, self.eps)
        y = z if self.weight is None else z * self.weight
        return y if self.bias is None else y + self.bias

    # weight and bias are not used in forward. | Hand self.weight, self.bias and self.eps on.
    def forward(self, x):
        return layer_norm(x, self.normalized_shape, None, None, self.eps)
    # or
    def forward(self, x):
        return layer_norm(x, self.normalized_shape)

    # weight and bias are swapped where they are handed on.
    def forward(self, x):
        return layer_norm(x, self.normalized_shape, self.bias, self.weight, self.eps)

    # forward hands the wrong things on, or calls your class in place of your function. | layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps), all five in this order.
    def forward(self, x):
        return layer_norm(x, self.normalized_shape, self.eps, self.weight, self.bias)
    """,
)


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


def _checkpoint(label, state):
    """Return a Probe: the new dictionary, entry by entry, and state, {name: tensor}, afterwards."""

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


translated = exercise(
    _translated,
    [
        _checkpoint(
            "the checkpoint of a small net",
            {
                "0.weight": draw(91, 4, 3),
                "0.bias": draw(92, 4),
                "1.gain": draw(93, 4),
                "1.offset": draw(94, 4),
                "3.weight": draw(95, 2, 4),
            },
        ),
        _checkpoint(
            "a net with blocks, in float16 and float32, with a counter",
            {
                "block.norm.offset": draw(96, 3).half(),
                "block.norm.gain": draw(97, 3).half(),
                "block.steps": torch.tensor(7),
                "norm.gain": draw(98, 2, 3).float(),
            },
        ),
    ],
    [_checkpoint("one OldNorm of its own", {"gain": draw(99, 5), "offset": draw(90, 5)})],
    [
        _checkpoint(
            "a net in which other names contain the words",
            {
                "stem.gain_head.weight": draw(89, 2, 3),
                "position_offset": draw(88, 3),
                "again.bias": draw(87, 3),
                "offset.gain": draw(86, 3),
                "regain": draw(85, 3),
                "again.gain": draw(84, 3),
            },
        )
    ],
    tried="layers in blocks and alone, names that only contain the words, other tensors, dtypes, state left as it is",
    wrong="""
    # the gains are as they were stored. OldNorm multiplies by 1 + gain, and nn.LayerNorm by weight: what was stored as 0 must become 1.
    new_gain = tensor

    # the gains are read as logarithms. At a gain of 3 the old layer's output is 4 times x_hat: its factor is 1 + gain.
    new_gain = tensor.exp()

    # 1 is added to the offsets, too. They are added to x_hat as they are.
    new_offset = 1 + tensor

    # weight and bias are swapped: the gain becomes the weight, the offset the bias.
    names = {"gain": "bias", "offset": "weight"}

    # a name is changed that only contains the words, or in more places than its end. | Look at the last part of a name, after its last dot.
    new_key = key.replace(last, names[last])
    # or
    place, dot, last = "", "", next((name for name in names if key.endswith(name)), "")
    new_key = key.replace(last, names[last])
    # or
    return {k.replace("gain", "weight").replace("offset", "bias"): 1 + t if "gain" in k else t for k, t in state.items()}
    # or
    return {k.replace("gain", "weight").replace("offset", "bias"): 1 + t if k.endswith("gain") else t for k, t in state.items()}
    # or
    place, dot, last = next(((key[: -len(name)], "", name) for name in names if key.endswith(name)), ("", "", key))

    # the layer of its own has names without a dot, gain and offset. They are parts of OldNorm as well.
    place, dot, last = key.rpartition(".") if "." in key else ("", key, "")

    # partition splits at the first dot. The last part of a name is after its last dot. | rpartition.
    place, dot, last = key.partition(".")

    # state itself is filled, and the old names stay in it. | Make a new dictionary.
    new_state, state = state, dict(state)
    """,
)

"""Checks of lesson 15."""

import functools

import torch
from torch import nn

from fromscratch.in_the_wild import FileTyper as _FileTyper
from lessonkit.check.declare import Probe, draw, exercise, gradients, numbers, outside, quiz


# ---- ask
def _ask(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(150))
    moved = x.clone()
    moved[0, 0, 0] += 1
    places = (layer(moved) != layer(x)).nonzero()
    return tuple(axis for axis in range(3) if places[:, axis].any())


def _layer(axes, shape, seed, scale):
    """A norm over these axes, with a bias and a gain of this shape."""
    gain = scale + 0.1 * scale * draw(seed, *shape, dtype=torch.float32)
    bias = draw(seed + 1, *shape, dtype=torch.float32)

    def layer(x):
        if x.requires_grad:
            raise ValueError(
                "this layer has no gradient. Change a number of x, and see which outputs change."
            )
        x = x.float()
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * gain + bias

    return layer


def _asked(axes, bias, shape, seed, scale=1):
    layer = outside(_layer(axes, bias, seed, scale))

    def run(answer):
        answered = answer(layer, shape)
        axes = answered.tolist() if hasattr(answered, "tolist") else answered
        axes = [axes] if type(axes) is int else axes
        listed = isinstance(axes, (tuple, list, set))
        named = listed and all(isinstance(axis, int) and -3 <= axis < 3 for axis in axes)
        return {"the axes": tuple(sorted(axis % 3 for axis in axes)) if named else answered}

    gains = f" and gains around {scale}" if scale != 1 else ""
    return Probe(f"a norm of shape {shape} with mean over {axes}{gains}", run)


ask = exercise(
    _ask,
    _asked((2,), (1, 7), (3, 5, 7), 151),  # LayerNorm over the features
    # BatchNorm, of the first one's shape: the shape alone tells nothing
    _asked((0, 1), (1, 7), (3, 5, 7), 155),
    # wide: one number moves the others by a 512th of its step
    _asked((1,), (512, 1), (3, 512, 4), 157),
    _asked((1,), (7, 1), (3, 7, 5), 158, scale=1e-4),
    says="ask finds the axes of {count} norms, from LayerNorm to BatchNorm",
    wrong="""
    # no axis comes out. Is y = x a copy (x.clone() is)? Is something added to all numbers, which a norm forgets, or a small step lost in a tolerance? Or is x not changed at all: with a gain and a bias no mean is 0. | Add 1 to a single number of x.clone(), and compare by !=.
    moved = x

    # every axis comes out: all numbers were moved, the places were taken that did NOT change, or an axis was counted because its index is not 0. | Move one number, and see which indices differ where the output changes.
    places = (layer(moved) == layer(x)).nonzero()
    # or
    moved = x + 1
    del moved[0, 0, 0]

    # those are the axes along which the change did not go. The others share the mean.
    return tuple(axis for axis in range(3) if not places[:, axis].any())

    # a whole row or file was moved, and a norm over the features forgets that. | Move a single number.
    moved = torch.cat([x[:1] + 1, x[1:]])
    del moved[0, 0, 0]
    # or
    moved = torch.cat([torch.cat([x[:1, :1] + 1, x[:1, 1:]], 1), x[1:]])
    del moved[0, 0, 0]

    # a whole line along one axis was moved at a time: a norm that shares its mean over two axes does not forget that. | Move a single number.
    return tuple(axis for axis in range(3) if torch.allclose(layer(x + (sum(place for other, place in enumerate(torch.meshgrid(*map(torch.arange, shape), indexing="ij")) if other != axis) == 0)), layer(x), rtol=0, atol=1e-4 * layer(x).std()))

    # only the first axis is given. A norm may share its mean along several.
    return tuple(axis for axis in range(3) if places[:, axis].any())[:1]

    # axis 0 is not looked at. A norm may share its mean across the batch.
    return tuple(axis for axis in range(1, 3) if places[:, axis].any())

    # one of 512 numbers moves the others by about a 512th of its own step. | Ask whether an output has changed at all, by !=.
    places = ((layer(moved) - layer(x)).abs() > 0.01).nonzero()
    """,
)


# ---- file_typer
class _Marked(nn.LayerNorm):
    """A norm that is not F.layer_norm, nor its forward alone: its last axis is turned round."""

    def __call__(self, x):
        return super().__call__(x.flip(-1))


@functools.cache
def _weights(*shapes):
    """Random weights of these shapes, drawn once: there are 784,214 of them."""
    return [draw(170 + i, *shape, dtype=torch.float32) for i, shape in enumerate(shapes)]


def _filled(cls, norm=nn.LayerNorm):
    typer = cls(norm).requires_grad_(False)
    for parameter, drawn in zip(
        typer.parameters(), _weights(*(p.shape for p in typer.parameters())), strict=True
    ):
        parameter.copy_(drawn)
    typer.conv.weight *= 0.004  # small enough for both sides of the GELU after it
    return typer


def _bytes(files, seed=158):
    return torch.randint(257, (files, 2048), generator=torch.Generator().manual_seed(seed))


def _run(tokens, norm=nn.LayerNorm, gradient=False):
    """Return a Probe's run: tokens afterwards, the logits and, if asked for, two gradients of a net of random weights."""

    def run(cls):
        typer, fed = _filled(cls, norm), tokens.clone()
        leaves = {"norm1's gain": typer.norm1.weight, "embed.weight": typer.embed.weight}
        for leaf in leaves.values():
            leaf.requires_grad_(gradient)
        y = typer(fed)
        tensor = isinstance(y, torch.Tensor)
        seen = {"tokens after the call": fed, "the logits": y.detach() if tensor else y}
        if not tensor or not gradient:
            return seen
        return seen | gradients((y * draw(159, *y.shape, dtype=y.dtype)).sum(), leaves)

    return run


_ROUNDED = {"tolerance": 1e-4}  # float32: sums of 1,280 products are off by some 1e-5
file_typer = exercise(
    _FileTyper,
    [
        Probe(
            "a file of random bytes, all weights random",
            _run(_bytes(1), gradient=True),
            **_ROUNDED,
        ),
        Probe(
            "five files and a norm that turns its last axis round",
            _run(_bytes(5), _Marked),
            **_ROUNDED,
        ),
        Probe("no file at all", _run(_bytes(0))),
    ],
    says="{answer.__name__} computes what Magika's net does, with the norms that it is given, on {count} inputs",
    wrong="""
    # norm 1 takes its mean over the features, not over the 512 positions. | Exchange the last two axes, then call self.norm1.
    x = F.layer_norm(x, (256,), eps=1e-6).mT * self.norm1.weight + self.norm1.bias

    # reshape keeps the order of the numbers, so that features and positions are mixed (a patient of lesson 14). | Exchange the axes with x.mT.
    x = self.norm1(x.view(x.mT.shape))

    # the caller's norm is not called, or only its .forward, without hooks. | Call self.norm1(...).
    x = F.layer_norm(x.mT, (512,), self.norm1.weight, self.norm1.bias, 1e-6)

    # norm 2 is left out.
    return self.head(x)

    # norm 1 is called in the place of norm 2, which has a gain and a bias of its own. | Call self.norm2.
    return self.head(self.norm1(x))

    # a step got another shape than it takes: both norms take 512 last, conv takes (B, 256, 512). | Print x.shape after each step.
    x = self.norm1(x)

    # those are shares. The logits are wanted. | Leave the softmax away.
    return self.head(self.norm2(x)).softmax(-1)

    # the second GELU is the exact form. | approximate="tanh".
    x = F.gelu(self.conv(x)).amax(-1)

    # the GELU after the convolution is missing.
    x = torch.amax(self.conv(x), -1)

    # the mean over the places is taken. The file takes the largest value of each channel. | amax(-1).
    x = F.gelu(self.conv(x), approximate="tanh").mean(-1)

    # the largest value is taken before the GELU, which falls before it rises: GELU first.
    x = F.gelu(self.conv(x).amax(-1), approximate="tanh")

    # if you wrote -1 for the 512 positions: with no file, -1 could be any number. | Write 512.
    x = x.reshape(len(tokens), -1, 256)

    # max(-1) returns the largest values and their places. | Take its .values, or call amax(-1).
    x = F.gelu(self.conv(x), approximate="tanh").max(-1)
    """,
)


# ---- a variance in one pass and in two, on paper
_KEPT = "A sum, a mean or a square has kept more than three digits, or was rounded up. The first three digits stay, and zeros take the place of the others."
three_digits = quiz(
    tolerance=0.005,
    one_pass=(
        0,
        {
            3.5: "That is the variance in exact arithmetic. What is the difference of the two numbers that the machine has kept?",
            7.5: _KEPT,  # 10407.5 - 10400
            -4: _KEPT,  # 10400 - 10404
            6: _KEPT,  # 10410 - 10404
            10: _KEPT,  # 10410 - 10400
            100: _KEPT,  # 10500 - 10400
            31200: "That begins with the sum of the squares. The mean is a quarter of it.",
        },
    ),
    two_passes=(
        3.5,
        {
            0: "What is left of the row after the subtraction of 102 is small, so no digit of it is lost.",
            14: "That is the sum of the squares of −2, −1, 0, 3. Divide by 4.",
        },
    ),
)


# ---- port
def _port(x, gain, bias):
    mean = x.mean(1, keepdim=True)
    var = x.var(1, keepdim=True)
    deviation = var.sqrt() + 0.01
    x_hat = (x - mean) / deviation
    scaled = x_hat * (1 + gain)
    return scaled + bias


port = exercise(
    _port,
    ("one column 0 to 5, gain 0", numbers(*range(6))[None, :, None], numbers(0), numbers(0)),
    ("random numbers, three columns", draw(180, 2, 6, 3), draw(181, 3), draw(182, 3)),
    takes={"x": "... 6 C", "gain": "C", "bias": "C"},
    ranks=(1,),
    gradient=1,
    tried="a column by hand, random gains, small variances, gradients",
    wrong="""
    # the squares are divided by 6. The line of v multiplies their sum by 0.2, which is 1/5. | x.var divides by 5 unless told otherwise.
    var = x.var(1, correction=0, keepdim=True)

    # the constant 0.01 is added to the variance. Its line comes after the Sqrt. | Take the root first.
    deviation = (var + 0.01).sqrt()

    # n is multiplied by gain. Its line says g, and g is gain + 1.
    scaled = x_hat * gain

    # the bias is added to the gain. Look at the last two lines.
    return x_hat * (1 + gain + bias)

    # the last axis is normalized, as LayerNorm would. The file says which axis m is a mean over: count from 0.
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True)
    # or
    mean = x.mean(-1, keepdim=True)
    var = 0.2 * (x - mean).square().sum(-1, keepdim=True)

    # the variance is what x is divided by. A Sqrt comes before.
    deviation = var + 0.01
    """,
)


# ---- fold
def _fold(gain, bias, weight, shift):
    scaled = weight * gain
    means = scaled.mean(1, keepdim=True)
    new_weight = scaled - means
    new_shift = shift + weight @ bias
    return new_weight, new_shift


fold = exercise(
    _fold,
    ("a layer from 5 features to 3", draw(170, 5), draw(171, 5), draw(172, 3, 5), draw(173, 3)),
    (
        "a layer from 4 features to 4, a gain of 0",
        numbers(1, 0, -2, 0.5),
        draw(171, 4),
        draw(172, 4, 4),
        draw(173, 4),
    ),
    takes={"gain": "D", "bias": "D", "weight": "K D", "shift": "K"},
    returns=("the weight", "the shift"),
    sizes={"D": (5, 1, 2, 320), "K": (3, 1, 17)},
    tried="square and other layers, random gains, gradients",
    wrong="""
    # the mean is not folded: raw rows x still have theirs. | Subtract from each row of the scaled weight its mean.
    new_weight = scaled

    # zero gains are left out of the mean. All D numbers of x are in it.
    means = scaled.sum(1, keepdim=True) / (gain != 0).sum()

    # the mean of all numbers is subtracted. Each row has a mean of its own. | .mean(1, keepdim=True)
    means = scaled.mean()

    # the gain multiplies the rows of the weight. A feature is a column.
    scaled = weight * gain[:, None]

    # the bias meets the rows of the weight. A feature is a column. | weight @ bias.
    new_shift = shift + weight.T @ bias

    # the weight is centered before the gain is in. | Scale first, then subtract from each row its mean.
    new_weight = (weight - weight.mean(1, keepdim=True)) * gain

    # the new weight meets the bias. The norm adds its bias last, so that the old weight meets it.
    new_shift = shift + new_weight @ bias
    # or
    new_shift = shift + scaled @ bias

    """,
)

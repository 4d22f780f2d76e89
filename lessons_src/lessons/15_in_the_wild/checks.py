"""Checks of lesson 15: asking a norm, a shipped net rebuilt, a variance on paper, a norm ported, folding."""

import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import (
    Contract,
    Probe,
    call,
    draw,
    examine,
    gradients,
    in_float64,
    misconceptions,
    numbers,
    outside,
    raised,
    values,
)


# ---- ask
def _ask(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(150))
    moved = x.clone()
    moved[0, 0, 0] += 1
    places = (layer(moved) != layer(x)).nonzero()
    return tuple(axis for axis in range(3) if places[:, axis].any())


def _layer(axes, bias, seed, of_gain, scale=1):
    """A norm over these axes, with a bias and a gain of these shapes."""
    gain = scale + 0.1 * scale * draw(seed, *of_gain, dtype=torch.float32)
    bias = draw(seed + 1, *bias, dtype=torch.float32)

    def layer(x):
        if x.requires_grad:
            raise ValueError(
                "this layer has no gradient. Change a number of x, and see which outputs change."
            )
        x = x.float()
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * gain + bias

    return layer


def _asked(axes, bias, shape, seed, of_gain=None, scale=1):
    layer = outside(_layer(axes, bias, seed, of_gain or bias, scale))

    def run(answer):
        answered = answer(layer, shape)
        axes = answered.tolist() if hasattr(answered, "tolist") else answered
        axes = [axes] if type(axes) is int else axes
        listed = isinstance(axes, (tuple, list, set))
        named = listed and all(isinstance(axis, int) and -3 <= axis < 3 for axis in axes)
        return {"the axes": tuple(sorted(axis % 3 for axis in axes)) if named else answered}

    gains = f" and gains around {scale}" if scale != 1 else ""
    return Probe(f"a norm of shape {shape} with mean over {axes}{gains}", run)


_ASK_PROBES = [
    _asked((2,), (1, 7), (3, 5, 7), 151),  # LayerNorm over the features
    _asked((1,), (8, 1), (3, 8, 5), 152),  # Magika's first
    _asked((1,), (1, 6), (4, 5, 6), 153, (5, 1)),  # InstanceNorm, with a gain for each position
    _asked((1, 2), (4, 6), (3, 4, 6), 154),  # LayerNorm over positions and features
    _asked(
        (0, 1), (1, 7), (3, 5, 7), 155
    ),  # BatchNorm, of the first one's shape: the shape alone tells nothing
    _asked((2,), (1, 1), (5, 4, 6), 156, (1, 6)),  # one bias for all, a gain for each feature
    _asked(
        (1,), (512, 1), (3, 512, 4), 157
    ),  # wide: one number moves the others by a 512th of its step
    _asked((1,), (7, 1), (3, 7, 5), 158, scale=1e-4),
]
_ASK_MISTAKES = misconceptions(
    _ask,
    """
    # no axis comes out, as if no output had changed: y = x is no copy (x.clone() is), a norm forgets what is added to all of its numbers, and float32 or a tolerance loses a small step. | Add 1 to a single number of a copy, and compare by !=.
    moved = x

    # every axis comes out: all numbers were moved, which a norm forgets but for rounding, the places were taken that did NOT change, or an axis was counted because its index is not 0. | Move a single number, look where the output changes, and which indices differ from place to place there.
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

    # axis 0 is not looked at. A norm may share its mean across the batch.
    return tuple(axis for axis in range(1, 3) if places[:, axis].any())

    # with 512 numbers in a mean, one of them moves the others by about a 512th of its own step. | Ask whether an output has changed at all, by !=.
    places = ((layer(moved) - layer(x)).abs() > 0.01).nonzero()
    """,
)


def ask(answer):
    """Check a function layer, shape -> the axes that share a mean (lesson 15)."""
    right = "ask finds the axes of {count} norms, from LayerNorm to BatchNorm"
    examine(answer, "ask", _ASK_PROBES, _ask, _ASK_MISTAKES, right=right)


# ---- file_typer
class _FileTyper(nn.Module):
    def __init__(self, norm=nn.LayerNorm):
        super().__init__()
        self.embed = nn.Embedding(257, 64)
        self.norm1 = norm(512, eps=1e-6)
        self.conv = nn.Conv1d(256, 512, kernel_size=5)
        self.norm2 = norm(512, eps=1e-6)
        self.head = nn.Linear(512, 214)

    def forward(self, tokens):
        embedded = F.gelu(self.embed(tokens), approximate="tanh")
        rows = embedded.reshape(len(tokens), 512, 256)
        normed = self.norm1(rows.mT)
        read = self.conv(normed)
        active = F.gelu(read, approximate="tanh")
        pooled = active.amax(-1)
        logits = self.head(self.norm2(pooled))
        return logits


class _Marked(
    nn.LayerNorm
):  # a norm that is not F.layer_norm, nor its forward alone: its last axis is turned round
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


def _run(tokens, norm=nn.LayerNorm, gradient=False, dtype=torch.float32):
    def run(cls):
        typer, fed = _filled(cls, norm).to(dtype), tokens.clone()
        built = {"the eps of norm1 and norm2": (typer.norm1.eps, typer.norm2.eps)}
        leaves = (
            {"norm1's gain": typer.norm1.weight, "embed.weight": typer.embed.weight}
            if gradient
            else {}
        )
        for leaf in leaves.values():
            leaf.requires_grad_()
        try:
            y = typer(fed)
        except Exception as error:
            return built | {"the logits": raised(error)}
        seen = built | {
            "tokens after the call": fed,
            "the logits": y.detach() if isinstance(y, torch.Tensor) else y,
        }
        if not leaves or not isinstance(y, torch.Tensor):
            return seen
        return seen | gradients((y * draw(159, *y.shape, dtype=y.dtype)).sum(), leaves)

    return run


def _asked_again(cls):
    """Whether a net answers as before after another file, in eval(), and when it is copied."""
    typer, tokens = _filled(cls), _bytes(1)
    first = typer(tokens).clone()
    typer(_bytes(2, 161))
    again = {
        "after other files": typer(tokens),
        "of a copy": copy.deepcopy(typer)(tokens),
        "in eval()": typer.eval()(tokens),
    }
    return {
        f"the logits {when}": bool(torch.allclose(y, first, atol=1e-4))
        for when, y in again.items()
    }


_ends = torch.full(
    (1, 2048), 256
)  # a file of padding but for its ends, so that first and last positions count
_ends[0, :20], _ends[0, -20:] = _bytes(1)[0, :20], _bytes(1)[0, -20:]
_TYPER_PROBES = [  # float32: sums of 1,280 products are off by some 1e-5
    Probe(
        "a file of random bytes, all weights random",
        _run(_bytes(1), gradient=True),
        tolerance=1e-4,
    ),
    Probe(
        "three files and a norm that turns its last axis round",
        _run(_bytes(3), _Marked),
        tolerance=1e-4,
    ),
    Probe("a file that is padding but for its ends", _run(_ends), tolerance=1e-4),
    Probe("no file at all", _run(_bytes(0))),
]
_TYPER_REST = [
    Probe("a net in float64", _run(_bytes(1), dtype=torch.float64)),
    Probe(
        "a file asked again",
        _asked_again,
        why="Something is kept from call to call, or differs in eval().",
    ),
]
_TYPER_MISTAKES = misconceptions(
    _FileTyper,
    """
    # norm 1 takes its mean over the features. It belongs over the 512 positions. | Exchange the last two axes, then call self.norm1.
    normed = F.layer_norm(rows, (256,), eps=1e-6).mT * self.norm1.weight + self.norm1.bias

    # reshape keeps the order of the numbers, so that features and positions are mixed (a patient of lesson 14). | Exchange the axes with x.mT.
    normed = self.norm1(rows.reshape(len(tokens), 256, 512))

    # the caller's norm is not called: F.layer_norm stands for it, or its .forward, which leaves out hooks. | Call self.norm1(...).
    normed = F.layer_norm(rows.mT, (512,), self.norm1.weight, self.norm1.bias, 1e-6)
    # or
    normed = self.norm1.forward(rows.mT)

    # norm 1 is left out.
    normed = rows.mT

    # norm 2 is left out.
    logits = self.head(pooled)

    # norm 1 is called in the place of norm 2, which has a gain and a bias of its own. | Call self.norm2.
    logits = self.head(self.norm1(pooled))

    # a step got a different shape than it takes: both norms take 512 last, conv takes (B, 256, 512). | Print x.shape after each step, and compare with the table.
    normed = self.norm1(rows)

    # those are shares. The logits are wanted. | Leave the softmax away.
    return logits.softmax(-1)

    # the second GELU is the exact form. The original uses the other one. | approximate="tanh".
    active = F.gelu(read)

    # the GELU after the convolution is missing.
    active = read

    # the largest value is taken before the GELU. GELU falls before it rises, so the order counts: GELU first.
    pooled = F.gelu(read.amax(-1), approximate="tanh")

    # if you wrote -1 for the 512 positions: with no file, -1 could be any number. | Write 512.
    rows = embedded.reshape(len(tokens), -1, 256)

    # max(-1) returns the largest values and their places. | Take its .values, or call amax(-1).
    pooled = active.max(-1)
    """,
)


def file_typer(answer):
    """Check a class FileTyper(norm): Magika's net, tokens (B, 2048) -> logits (B, 214) (lesson 15)."""
    right = "{answer.__name__} computes what Magika's net does, with the norms that it is given, on {count} inputs"
    stages = [_TYPER_PROBES, _TYPER_REST]
    examine(answer, "file_typer", stages, _FileTyper, _TYPER_MISTAKES, right=right)


# ---- a variance in one pass and in two, on paper
def three_digits(answer):
    """Check a dict of four numbers: a variance in one pass and in two, with three digits of each result (lesson 15)."""
    exact = "That has more than three digits. The machine keeps the first three, and puts zeros in the place of the others."
    exact_variance = "That is the variance in exact arithmetic. What is the difference of the two numbers that the machine has kept?"
    causes = {
        "mean_of_squares": {
            10407.5: exact,
            41600: "That is the sum of the squares. Divide by 4.",
        },
        "squared_mean": {10404: exact},
        "one_pass": {3.5: exact_variance},
        "two_passes": {
            0: "What is left of the row after the subtraction of 102 is small, so no digit of it is lost.",
            14: "That is the sum of the squares of −2, −1, 0, 3. Divide by 4.",
            14 / 3: "That divides by 3. The norm's variance divides by 4.",
        },
    }
    right = {"mean_of_squares": 10400, "squared_mean": 10400, "one_pass": 0, "two_passes": 3.5}
    values(answer, "three_digits", right, causes, tolerance=0.005)


# ---- port
def _port(x, gain, bias):
    mean = x.mean(1, keepdim=True)
    var = x.var(1, keepdim=True)
    deviation = var.sqrt() + 0.01
    x_hat = (x - mean) / deviation
    scaled = x_hat * (1 + gain)
    return scaled + bias


_PORTED = Contract(
    {"x": "... 6 C", "gain": "C", "bias": "C"},
    sizes={"C": (4, 1, 6, 320)},
    ranks=(1,),
    gradient=1,
)


def _port_probe(label, *x, gain=(0.0, 0.0, 0.0)):
    columns = torch.stack(
        torch.broadcast_tensors(*(numbers(*column) for column in x)), -1
    )  # (6, C)
    gain = numbers(*gain[: len(x)])
    return call(label, columns[None], gain, 0 * gain, names=tuple(_PORTED.takes))


_COUNT = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
_PORT_PROBES = [
    _port_probe("one column 0 to 5, gain 0", _COUNT),
    call(
        "random numbers, three columns",
        *(draw(180 + i, *size) for i, size in enumerate([(2, 6, 3), (3,), (3,)])),
    ),
    _port_probe(
        "columns with small variances",
        [0.02 * n for n in _COUNT],
        [1 + 0.004 * n for n in _COUNT],
        [-0.001 * n for n in _COUNT],
    ),
]
_PORT_MISTAKES = misconceptions(
    _port,
    """
    # the squares are divided by 6. The line of v multiplies their sum by 0.2, which is 1/5. | x.var and x.std divide by 5 unless told otherwise.
    var = x.var(1, correction=0, keepdim=True)

    # the constant 0.01 is added to the variance. Its line comes after the Sqrt. | Take the root first.
    deviation = (var + 0.01).sqrt()

    # the squares are divided by 6, and 0.01 is added under the root, as in LayerNorm. Read the lines of v and of e.
    deviation = (x.var(1, correction=0, keepdim=True) + 0.01).sqrt()

    # the constant 0.01 is not used. | It is added to the root.
    deviation = var.sqrt()

    # x is multiplied by the gain as it is. Look at the line of g. | 1 is added to the gain.
    scaled = x_hat * gain

    # the gain or the bias is not used.
    scaled = x_hat
    # or
    return scaled

    # the last axis is normalized, as LayerNorm would. The file says which axis m is a mean over: count from 0.
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True)
    # or
    mean = x.mean(-1, keepdim=True)
    var = 0.2 * (x - mean).square().sum(-1, keepdim=True)

    # the mean or the variance has lost an axis, so that it meets the wrong numbers of x. | keepdim=True.
    mean = x.mean(1)

    # the variance is what x is divided by. A Sqrt comes before.
    deviation = var + 0.01
    """,
)


def port(answer):
    """Check a function x, gain, bias -> what the stranger of lesson 15 makes of them (lesson 15)."""
    examine(
        answer,
        "port",
        _PORT_PROBES,
        in_float64(_port),
        _PORT_MISTAKES,
        "columns by hand, random gains, small variances, gradients",
        contract=_PORTED,
    )


# ---- fold
def _fold(gain, bias, weight, shift):
    scaled = weight * gain
    means = scaled.mean(1, keepdim=True)
    new_weight = scaled - means
    new_shift = shift + weight @ bias
    return new_weight, new_shift


_FOLDED = Contract(
    {"gain": "D", "bias": "D", "weight": "K D", "shift": "K"},
    returns=("the weight", "the shift"),
    sizes={"D": (5, 1, 2, 320), "K": (3, 1, 17)},
)


def _fold_probe(label, K, D):
    inputs = [draw(170 + i, *size) for i, size in enumerate([(D,), (D,), (K, D), (K,)])]
    return call(label, *inputs, names=tuple(_FOLDED.takes), returns=_FOLDED.returns)


_FOLD_PROBES = [
    _fold_probe("a layer from 5 features to 3", 3, 5),
    _fold_probe("a layer from 4 features to 4", 4, 4),
]
_FOLD_MISTAKES = misconceptions(
    _fold,
    """
    # the mean of each column is subtracted. The mean of x meets the sum of a row of the weight. | Subtract the mean of each row.
    means = scaled.mean(0)

    # the mean is not folded: raw rows x still have theirs. | Subtract from each row of the scaled weight its mean.
    new_weight = scaled

    # the sum of each row is subtracted. The mean of x has 1/D in it already. | Subtract the row's mean.
    means = scaled.sum(1, keepdim=True)

    # the gain is left out: it multiplies the columns of the weight.
    scaled = weight

    # the mean of all numbers is subtracted. Each row has a mean of its own. | .mean(1, keepdim=True)
    means = scaled.mean()

    # the gain multiplies the rows of the weight. It has a number for each feature, which is a column.
    scaled = weight * gain[:, None]

    # the bias meets the rows of the weight. It has a number for each feature, which is a column. | weight @ bias.
    new_shift = shift + weight.T @ bias

    # the means are a row, (K,), and one is subtracted from each column. They belong to the rows. | keepdim=True makes them (K, 1).
    means = scaled.mean(1)

    # the weight is centered before the gain is in. | Scale first, then subtract from each row its mean.
    new_weight = (weight - weight.mean(1, keepdim=True)) * gain

    # the new weight meets the bias. The norm adds its bias last, so that the old weight meets it.
    new_shift = shift + new_weight @ bias
    # or
    new_shift = shift + scaled @ bias

    # the norm's bias is left out: the linear layer makes weight @ bias of it.
    new_shift = shift

    # the linear layer's own shift is left out.
    new_shift = weight @ bias
    """,
)


def fold(answer):
    """Check a function gain, bias, weight, shift -> (weight, shift) of the linear layer that needs 1/sigma only (lesson 15)."""
    examine(
        answer,
        "fold",
        _FOLD_PROBES,
        in_float64(_fold),
        _FOLD_MISTAKES,
        "square and other layers, random gains, gradients",
        contract=_FOLDED,
    )

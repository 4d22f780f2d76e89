"""Checks of lesson 2."""

import torch
from torch.nn import functional as F

from fromscratch.statistics import mean_and_var as _mean_and_var
from lessonkit.check.declare import draw, exercise, judging, misconceptions, numbers, quiz

mean_and_var = exercise(
    _mean_and_var,
    ("the row 5, 1, -1, 4, 1, 2", numbers(5, 1, -1, 4, 1, 2)),
    ("a batch of sequences", draw(3, 2, 3, 4) - 1),
    # a row of standard deviation 1 around 100: two passes lose nothing, Welford's way 3e-6, one pass 1e4 times 2^-24
    ("float32 rows around 100", (100 + draw(5, 6, 64)).float(), {"tolerance": 1e-5}),
    takes={"x": "... D"},
    returns=("mean", "var"),
    tried="one to five axes, two number types, rows around 100, gradients",
    wrong="""
    # the variance is divided by D - 1 (torch.var's default). | Say correction=0.
    var = x.var(-1, keepdim=True)

    # you reduce axis 1. That is the last axis of a matrix only. | -1 is the last axis of every tensor.
    mean, var = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)

    # keepdim=True is missing in the mean, so its reduced axis is gone. | Say it in both.
    mean = x.mean(-1)

    # keepdim=True is missing in the variance, so its reduced axis is gone. | Say it in both.
    var = x.var(-1, correction=0)

    # one mean for the whole tensor. Every row needs its own. | Reduce axis -1 only.
    mean, var = x.mean(), x.var(correction=0)
    # or
    mean, var = x.mean(), x.var()

    # all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence. | Reduce axis -1 only.
    axes = tuple(range(1, x.dim())) or -1
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)

    # var is the standard deviation, the root of the variance, with D - 1 under it. | x.var(-1, correction=0, keepdim=True).
    var = x.std(-1, keepdim=True)

    # the sums are divided by 6, which is the width of our first word. | Divide by x.shape[-1].
    mean = x.sum(-1, keepdim=True) / 6
    var = ((x - mean) ** 2).sum(-1, keepdim=True) / 6

    # the variance is the mean of the squares of x. | Subtract the mean before you square.
    var = (x * x).mean(-1, keepdim=True)

    # the distances are averaged without being squared, and they sum to 0. | Square each one, then average.
    var = centered.mean(-1, keepdim=True)

    # var is the mean distance, not squared. | Square before you average.
    var = centered.abs().mean(-1, keepdim=True)

    # a small number is added to the variance. That comes in lesson 3; here the variance itself is asked for.
    var = (centered * centered).mean(-1, keepdim=True) + 1e-5

    # E[x^2] - E[x]^2 loses digits when the mean is large compared with the standard deviation. | Subtract the mean first, then square.
    var = (x * x).mean(-1, keepdim=True) - mean * mean
    """,
)

_REDUCED = "That is how many entries share a mean. Asked is how many means come out: multiply the axes left."
_ALL = "That is how many numbers there are, not how many means: cross out the reduced axes."
how_many = quiz(
    a=(
        640,
        {64: _REDUCED, 40960: _ALL, 52: "Multiply the axes that are left, do not add them."},
    ),
    b=(
        32,
        {
            1280: _REDUCED,
            64: "That is the size of the last axis, which is reduced. | Multiply the sizes of the axes left.",
            640: "That is for the last axis alone. Here the 20 positions are averaged together with the features.",
        },
    ),
    c=(
        6272,
        {
            3: _REDUCED,
            784: "That is for one image. There are 8.",
            8: "Each pixel has a mean of its own here, not each image.",
            18816: _ALL,
        },
    ),
    d=(
        24,
        {
            784: _REDUCED,
            3: "A mean per channel over all images is BatchNorm. Here each image has its own: 8 x 3.",
            8: "Only H and W are reduced. The channels are left as well.",
        },
    ),
)


def _layer(x):
    mean = x.mean(-1, keepdim=True)
    deviation = x.std(-1, correction=0, keepdim=True)
    y = (x - mean) / deviation
    return y


def _is_layer_norm(layer):
    g = torch.Generator().manual_seed(2)
    x = 5 + 2 * torch.randn(2, 3, 4, generator=g)
    y, expected = layer(x), F.layer_norm(x, x.shape[-1:])
    return torch.allclose(y, expected, atol=1e-3)


_TIGHT = "Your test allows too little for rounding and epsilon. | Allow 1e-3: atol=1e-3 in torch.allclose."
_OFF = "a right layer that is 9e-5 off"
_FAULTS = {  # {what a test lacks that lets a layer pass: the layers}
    "Has your x three axes, and two samples that differ? And is each number compared by itself?": """
        # takes one mean and one variance of the whole tensor
        mean, deviation = x.mean(), x.std(correction=0)

        # reduces the first axis
        mean, deviation = x.mean(0, keepdim=True), x.std(0, correction=0, keepdim=True)

        # reduces axis 1
        mean, deviation = x.mean(1, keepdim=True), x.std(1, correction=0, keepdim=True)

        # reduces the first axis and the last
        mean, deviation = x.mean((0, -1), keepdim=True), x.std((0, -1), correction=0, keepdim=True)

        # reduces all axes but the first
        axes = tuple(range(1, x.dim())) or -1
        mean, deviation = x.mean(axes, keepdim=True), x.std(axes, correction=0, keepdim=True)

        # lacks keepdim
        mean, deviation = x.mean(-1), x.std(-1, correction=0)
        """,
    "Allow 1e-3 and no more, take few features, and compare each number, with its sign.": """
        # divides by D - 1
        deviation = x.std(-1, keepdim=True)

        # subtracts no mean
        mean = 0

        # only subtracts the mean
        deviation = 1

        # divides by the variance
        deviation = x.var(-1, correction=0, keepdim=True)

        # has the wrong sign
        return -y

        # changes nothing
        return x

        # has a bias of 0.1
        return y + 0.1

        # is 0.005 off
        return y + 0.005

        # gets a single number wrong
        return y + (torch.arange(y.numel()) == y.numel() - 1).reshape(y.shape)
        """,
    "Rows of two features always become -1 and 1. Take three or more.": """
        # cuts its result off at -1 and 1
        return y.clamp(-1, 1)
        """,
}
_WRONG = {
    f"a layer that {layer.cause}": (layer.answer, why)
    for why, text in _FAULTS.items()
    for layer in misconceptions(_layer, text)
}
is_layer_norm = judging(
    _is_layer_norm,
    accepts={
        "F.layer_norm over the last axis": lambda x: F.layer_norm(x, x.shape[-1:]),
        "a right layer without epsilon": _layer,
        _OFF: lambda x: F.layer_norm(x, x.shape[-1:]) + 9e-5,
    },
    refuses={label: layer for label, (layer, _) in _WRONG.items()},
    why={label: why for label, (_, why) in _WRONG.items()}
    | {_OFF: lambda seen: _TIGHT if seen.get("the verdict") is False else ""},
    wrong="""
    # your test allows too little for rounding and epsilon. | Allow 1e-3: atol=1e-3 in torch.allclose.
    return torch.allclose(y, expected)

    # your x has rows that are (nearly) constant, on which epsilon decides. | Take rows whose variance is 1 or more.
    x = torch.ones(2, 3, 4)

    # your x holds whole numbers, of which torch takes no mean. | Write 24.0 in place of 24, or x.float().
    x = torch.arange(24).reshape(2, 3, 4)

    # your test does not look at the values that come out. | Compare them with F.layer_norm's.
    return True

    # a mean of 0 is half of what LayerNorm sets, and other layers do that as well. | Compare the values with F.layer_norm's.
    return bool(y.mean(-1).abs().max() < 1e-3)

    # y.var(-1) divides by D - 1, so your test refuses the right layer and accepts the one that divides by D - 1.
    return bool(y.mean(-1).abs().max() < 1e-3 and (y.var(-1) - 1).abs().max() < 1e-3)

    # your test compares with something other than LayerNorm over the last axis. | F.layer_norm(x, x.shape[-1:]).
    y, expected = layer(x), F.layer_norm(x, x.shape[1:])
    # or
    y, expected = layer(x), F.layer_norm(x, x.shape)

    # your answer has a verdict for each number. | Take them together: .all().
    return (y - expected).abs() < 1e-3

    # your answer is the difference, not a verdict. | Compare it with what you allow: True or False.
    return (y - expected).abs().max()
    """,
)

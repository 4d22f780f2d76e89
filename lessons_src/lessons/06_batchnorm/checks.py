"""Checks of lesson 6."""

import math

import torch
from torch import nn

from fromscratch.batchnorm import _Given
from fromscratch.batchnorm import channel_stats as _channel_stats
from lessonkit.check.declare import (
    Probe,
    call_layer,
    draw,
    exercise,
    filled,
    numbers,
    of_a_layer,
    quiz,
    raised,
)

# 6.1: statistics of channels
channel_stats = exercise(
    _channel_stats,
    ("a matrix (B, C) = (5, 3)", 2 + draw(1, 5, 3) * numbers(1, 3, 10)),
    ("(B, C, T) = (2, 3, 5)", draw(3, 2, 3, 5) * numbers([1], [4], [9]) - 1),
    ("a single channel, (B, C, T) = (3, 1, 4)", draw(6, 3, 1, 4)),
    # float32, standard deviation 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    ("float32 channels around 100", (100 + draw(5, 64, 6)).float(), {"tolerance": 2e-6}),
    ("channels of which one holds nan", numbers([1, 2], [3, math.nan]), {"gradient": False}),
    takes={"x": "B C T"},
    returns=("mean", "var"),
    use=lambda answer, sizes, matrix=False: (lambda x: answer(x[..., 0])) if matrix else answer,
    options=({}, {"matrix": True}),
    sizes={"B": (5, 1, 2, 17), "C": (3, 1, 7), "T": (4, 1, 300)},
    tried="(B, C) and (B, C, T), float32 and float64, gradients",
    wrong="""
    # the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others.
    rows = x

    # each sample gets a mean of its own: axis 0 is kept. | Bring the channels to axis 0 first, with transpose(0, 1).
    rows = x.flatten(1)

    # only the batch is reduced, so every time step has a mean of its own. The C numbers are over B and T.
    rows = x.movedim(0, -1)

    # that is the mean of the samples' own variances: how far their means lie from the channel's is left out. | One mean and one variance over B and T together.
    return mean.squeeze(-1), var.squeeze(-1) if x.dim() == 2 else x.var(-1, correction=0).mean(0)

    # all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.
    rows = x.flatten(0, -2).T

    # the channels themselves are reduced. Axis 1 is the one to keep.
    rows = x.movedim(1, -1)

    # a matrix (B, C) has no axis 2. | Reduce it only where there is one.
    rows = x.movedim(2, 0).movedim(2, 0).flatten(1)

    # axis -1 of a matrix (B, C) is the channels. | Reduce axis 0 and, where there is one, axis 2.
    rows = x.flatten() if x.dim() == 2 else x.transpose(0, 1).flatten(1)

    # one mean for everything. Each channel needs its own.
    rows = x.flatten()

    # only T is reduced: after transpose(0, 1), B and T are still two axes. | Join them, with flatten(1).
    rows = x.transpose(0, 1)

    # squeeze() without an axis drops the channels too if C = 1. | Say squeeze(-1).
    return mean.squeeze(), var.squeeze()

    # the variance is divided by n - 1 (torch.var's default). BatchNorm's forward pass divides by n.
    return mean.squeeze(-1), rows.var(-1)

    # var is the standard deviation. | Leave the root away.
    return mean.squeeze(-1), var.squeeze(-1).sqrt()

    # reshape cuts the numbers into pieces as they lie in memory; it does not move axis 1. | Write transpose(0, 1), then flatten(1).
    rows = x.reshape(x.shape[1], -1)
    # or
    rows = x.reshape(-1, x.shape[1]).T

    # E[x^2] - E[x]^2 loses digits when the mean is far larger than the deviation. | Subtract the mean first.
    return mean.squeeze(-1), (rows * rows).mean(-1) - rows.mean(-1) ** 2
    """,
)

# 6.2: on paper, the batch 5, 7, 8, 9, 11 at m = 3/4
ages_on_paper = quiz(
    running_mean=(
        6,
        {
            8: "That is the batch's own mean. A new layer begins at 0, and a quarter of that stays.",
            2: "m is the weight of the newest batch, and the old value keeps 1 - m. You have them swapped.",
        },
    ),
    running_var=(
        4,
        {
            3.25: "That stores the biased variance 4. The buffer takes in the unbiased one.",
            3.75: "A new layer begins at the variance 1, not at 0, and a quarter of that stays.",
            2: "m is the weight of the newest batch, and the old value keeps 1 - m. You have them swapped.",
            3: "A new layer begins at the variance 1, and the buffer takes in the unbiased variance.",
            5: "That is the newest variance alone. A new layer begins at 1, and a quarter of that stays.",
        },
    ),
    alone=(
        1,
        {
            0: "That is what train() makes of 8 among the five. In eval() the running mean is subtracted.",
            2: "8 less the running mean is right. Divide it by the root of the running variance.",
            1 / 2: "You have divided by the running variance. Divide by its root.",
        },
    ),
    tolerance=1e-9,
)


# 6.3: the layer
def _buffers(layer):
    """Return copies of what an answer holds in its buffers."""
    kept = {
        name: getattr(layer, name).detach().clone() for name in ("running_mean", "running_var")
    }
    return kept | {"num_batches_tracked": int(layer.num_batches_tracked)}


def _recording(layer):
    """Return whether what has flowed into the buffers is part of a graph."""
    graph = layer.running_mean.requires_grad or layer.running_var.requires_grad
    return {"whether a buffer requires a gradient": graph}


class _Layer(_Given):
    def forward(self, x):
        n = self.entries(x)
        own = self.training or self.running_mean is None
        refused = own and n == 1
        if refused:
            raise ValueError("one entry for each channel")
        mean, var = _channel_stats(x) if own else (self.running_mean, self.running_var)
        tracks = self.training and self.running_mean is not None
        if tracks:
            self.update(mean, var, n)
        shape = (1, -1, 1)[: x.dim()]
        centered = x - mean.view(shape)
        deviation = torch.sqrt(var.view(shape) + self.eps)
        y = centered / deviation
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


def _made(cls, **options):
    """Return a layer of 4 channels with random gain and bias, in train()."""
    return filled(cls(4, dtype=torch.float64, **options), 50)


def _used(cls):
    """Return a layer with random running statistics."""
    layer = _made(cls)
    with torch.no_grad():
        layer.running_mean.copy_(3 + draw(71, 4))
        layer.running_var.copy_(0.5 + draw(72, 4) ** 2)
    return layer


_SCALES = numbers(1, 0.001, 20, 3)  # 0.001: where eps sits shows
_MATRIX = 5 * draw(81, 4) + _SCALES * draw(82, 6, 4)  # (B, C)
_SERIES = draw(83, 4)[:, None] + _SCALES[:, None] * draw(84, 3, 4, 5)  # (B, C, T)


@torch.no_grad()
def _run_without_grad(cls):
    return {"the output": _used(cls)(_MATRIX.clone())}


def _trained(*shapes, **options):
    def run(cls):
        layer = _made(cls, **options)
        for seed, shape in enumerate(shapes):
            x = 2 + _SCALES.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape)
            layer(x.requires_grad_())
        return _buffers(layer) | _recording(layer)

    return Probe(f"training on x of shape {', then '.join(map(str, shapes))}", run, options)


def _run_evaluated(cls):
    layer = _used(cls).eval()
    seen = {"the output": layer(_MATRIX.clone())}
    with torch.no_grad():
        seen |= {"the output under no_grad()": layer(_SERIES.clone())}
    return seen | {f"{name} after evaluation": value for name, value in _buffers(layer).items()}


def _run_evaluated_twice(cls):
    layer = _used(cls).eval()
    layer(_MATRIX.clone())
    layer.train()(_MATRIX.flip(1))
    return {"the output": layer.eval()(_MATRIX.clone())}


def _outcome(layer, x):
    try:
        layer(x.clone())
    except Exception as error:
        return raised(error).kind
    return "no error"


def _run_one(cls):
    layer = _used(cls)
    seen = {"one row in train()": _outcome(layer, _MATRIX[:1])}
    seen |= {"one row of one step in train()": _outcome(layer, _SERIES[:1, :, :1])}
    after = _buffers(layer)
    if isinstance(layer, nn.BatchNorm1d):
        after["num_batches_tracked"] = 0  # PyTorch's counts the refused batches
    return seen | {f"{name} after these refusals": value for name, value in after.items()}


def _run_untracked(cls):
    layer = _made(cls, track_running_stats=False)
    seen = {
        "the names in state_dict()": sorted(layer.state_dict()),
        "the output": layer(_MATRIX.clone()),
    }
    layer.eval()
    return seen | {
        "the output in eval()": layer(_MATRIX.clone()),
        "one row in eval()": _outcome(layer, _MATRIX[:1]),
    }


def _evaluating(cls):
    return _used(cls).eval()


batch_norm = exercise(
    _Layer,
    (
        [
            call_layer("a training batch (B, C) = (6, 4)", _made, _MATRIX, {}),
            Probe(
                "a batch in train() under torch.no_grad()", _run_without_grad, {"x": _MATRIX}
            ),
        ],
        "training",
    ),
    ([_trained((6, 4), (3, 4, 5), momentum=None)], "the buffers"),
    ([_trained((1, 4, 2))], "the buffers"),
    (
        [
            Probe("two batches in eval()", _run_evaluated, {"x": _MATRIX}),
            Probe(
                "eval(), a training batch, and eval() again",
                _run_evaluated_twice,
                {"x": _MATRIX},
            ),
        ],
        "evaluation",
    ),
    ([call_layer("a single sample in eval()", _evaluating, _MATRIX[:1], {})], "evaluation"),
    ([Probe("a batch of one", _run_one)], "the rest"),
    ([Probe("track_running_stats=False", _run_untracked)], "the rest"),
    (
        of_a_layer(lambda cls: cls(4), _MATRIX, other=lambda cls: cls(4, 0.5, 0.9), moods=True),
        "the rest",
    ),
    takes={"x": "B C T"},
    use=lambda cls, sizes, **options: cls(sizes["C"], **options),
    options=({}, {"eps": 0.1}, {"affine": False}),
    sizes={"B": (5, 2, 17), "C": (3, 1, 7), "T": (4, 1, 300)},
    values=("ordinary", "offset", "small", "outlier"),
    reference=nn.BatchNorm1d,
    by_hand=("batch_norm",),
    says="{answer.__name__} does what nn.BatchNorm1d does in {count} trials (training, buffers, evaluation, errors)",
    wrong="""
    # the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores the unbiased one.
    deviation = torch.sqrt(var.view(shape) * (n / (n - 1) if own else 1) + self.eps)

    # mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x. | Only the buffers are updated without a gradient.
    centered, deviation = x - mean.detach().view(shape), torch.sqrt(var.detach().view(shape) + self.eps)

    # training uses the running statistics. | In train() a batch is normalized with its own mean and variance, the running ones are for eval().
    mean, var = (self.running_mean, self.running_var) if self.training else _channel_stats(x)

    # the buffers take in the batch first, and then normalize it. In train() a batch is normalized with its own mean and variance.
    centered = x - (mean if self.running_mean is None else self.running_mean).view(shape)
    deviation = torch.sqrt((var if self.running_var is None else self.running_var).view(shape) + self.eps)

    # you ask whether gradients are recorded. Ask self.training: train() under no_grad() is still training, and eval() with gradients is still evaluation.
    own, tracks = (torch.is_grad_enabled(),) * 2

    # the buffers never change. In train() each batch updates them.
    tracks = False

    # mean and var do not fit axis 1 of x. | Bind a number for each channel, (C,), as channel_stats gives them.
    mean, var = x.mean(-1), x.var(-1, correction=0)

    # a single row is refused although each of its channels has several time steps. What must be above 1 is the number of entries per channel, n.
    refused = own and len(x) == 1

    # n / (n - 1) is applied twice: is your var unbiased already, or does update() do it again?
    self.update(mean, var * n / (n - 1), n)

    # n is the number of samples, and update() needs the number of entries a channel has: in a series each sample has T of them.
    self.update(mean, var, len(x))

    # evaluation uses the statistics of the batch. In eval() it normalizes with the running ones.
    own = True

    # evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer. | Ask self.training. (self.train is a method, and always true.)
    own, tracks = True, self.running_mean is not None

    # the buffers are updated in eval(): test data leak into the layer. | Update them only in train().
    tracks = self.running_mean is not None
    # or
    own = self.running_mean is None or self.update(*_channel_stats(x), n) or self.training
    tracks = False

    # a single sample is refused in eval() as well. It needs no neighbors there. | Refuse it only where the batch's own statistics are used.
    refused = n == 1

    # without running statistics, eval() needs the batch as well, and one entry a channel is not enough there either. | Refuse it wherever the batch's own statistics are used.
    refused = self.training and n == 1

    # with one entry for each channel the output is the bias, whatever goes in, and update() divides by n - 1 = 0. | Raise a ValueError in train(), as PyTorch does.
    refused = False

    # without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is nothing to update.
    own = self.training
    # or
    own, tracks = self.training, self.training
    """,
)

"""Checks of lesson 6: BatchNorm step by step, on paper and in code."""

import torch
from torch import nn

from fromscratch.batchnorm import RunningStatistics, _Given  # both constructors
from lessonkit.check.declare import (
    Contract,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    filled,
    in_float64,
    misconceptions,
    numbers,
    of_a_layer,
    raised,
    values,
)

_STATS = ("mean", "var")


# 6.1: statistics of channels
def _channel_stats(x):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean = x.mean(axes)
    var = x.var(axes, correction=0)
    return mean, var


_CHANNEL_PROBES = [
    call("a matrix (B, C) = (5, 3)", 2 + draw(1, 5, 3) * numbers(1, 3, 10), returns=_STATS),
    call("a square matrix", draw(2, 4, 4) * numbers(1, 2, 5, 9) + 1, returns=_STATS),
    call(
        "(B, C, T) = (2, 3, 5)", draw(3, 2, 3, 5) * numbers([1], [4], [9]) - 1, returns=_STATS
    ),
    call(
        "(B, C, T) = (4, 4, 4)",
        draw(4, 4, 4, 4) + torch.arange(4.0).double()[:, None],
        returns=_STATS,
    ),
    call("a single channel, (B, C, T) = (3, 1, 4)", draw(6, 3, 1, 4), returns=_STATS),
    # float32, standard deviation 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    call(
        "float32 channels around 100",
        (100 + draw(5, 64, 6)).float(),
        returns=_STATS,
        tolerance=2e-6,
    ),
]

_CHANNEL_MISTAKES = misconceptions(
    _channel_stats,
    """
    # the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others.
    axes = [x.dim() - 1]

    # each sample gets a mean of its own: axis 0 is kept. | Bring the channels to axis 0 first, with transpose(0, 1).
    axes = list(range(1, x.dim()))

    # only the batch is reduced, so every time step has a mean of its own. The C numbers are over B and T.
    axes = [0]

    # all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.
    axes = list(range(x.dim() - 1))

    # the channels themselves are reduced. Axis 1 is the one to keep.
    axes = [1]

    # a matrix (B, C) has no axis 2. | Reduce it only where there is one.
    axes = [0, 2]

    # axis -1 of a matrix (B, C) is the channels. | Reduce axis 0 and, where there is one, axis 2.
    axes = list({0, x.dim() - 1})

    # one mean for everything. Each channel needs its own.
    axes = list(range(x.dim()))

    # the reduced axes are kept. Wanted is the shape (C,). | Drop keepdim, or squeeze.
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    # or
    rows = x.transpose(0, 1).flatten(1)
    mean, var = rows.mean(1, keepdim=True), rows.var(1, correction=0, keepdim=True)

    # only T is reduced: after transpose(0, 1), B and T are still two axes. | Join them, with flatten(1).
    mean, var = x.transpose(0, 1).mean(-1), x.transpose(0, 1).var(-1, correction=0)

    # squeeze() without an axis drops the channels too if C = 1. | Say squeeze(-1).
    return mean.squeeze(), var.squeeze()

    # the variance is divided by n - 1 (torch.var's default). BatchNorm's forward pass divides by n.
    var = x.var(axes)

    # mean and var are swapped. | Return mean first.
    return var, mean

    # var is the standard deviation. | Leave the root away.
    return mean, var.sqrt()

    # reshape cuts the numbers into pieces as they lie in memory; it does not move axis 1. | Write transpose(0, 1), then flatten(1).
    rows = x.reshape(x.shape[1], -1)
    mean, var = x.reshape(x.shape[1], -1).mean(1), x.reshape(x.shape[1], -1).var(1, correction=0)
    # or
    mean, var = x.reshape(-1, x.shape[1]).mean(0), x.reshape(-1, x.shape[1]).var(0, correction=0)

    # E[x^2] - E[x]^2 loses digits when the mean is far larger than the deviation. | Subtract the mean first.
    var = (x * x).mean(axes) - x.mean(axes) ** 2
    """,
)


def _of_channels(answer, sizes, matrix=False):
    return (lambda x: answer(x[..., 0])) if matrix else answer


_CHANNELS = Contract(
    {"x": "B C T"},
    _STATS,
    _of_channels,
    ({}, {"matrix": True}),
    sizes={"B": (5, 1, 2, 17), "C": (3, 1, 7), "T": (4, 1, 300)},
)


def channel_stats(answer):
    """Check a function x, (B, C) or (B, C, T) -> (mean, var), both (C,), var biased (lesson 6)."""
    tried = "(B, C) and (B, C, T), float32 and float64, gradients"
    examine(
        answer,
        "channel_stats",
        _CHANNEL_PROBES,
        in_float64(_channel_stats),
        _CHANNEL_MISTAKES,
        tried,
        contract=_CHANNELS,
    )


# 6.2: on paper, the batch 5, 7, 8, 9, 11 at m = 3/4
def ages_on_paper(answer):
    """Check three numbers: the buffers after one batch, and what a single 8 becomes in eval() (lesson 6)."""
    causes = {
        "running_mean": {
            8: "That is the batch's own mean. A new layer begins at 0, and a quarter of that stays.",
            2: "m is the weight of the newest batch, and the old value keeps 1 - m. You have them swapped.",
        },
        "running_var": {
            3.25: "That stores the biased variance 4. The buffer takes in the unbiased one.",
            3.75: "A new layer begins at the variance 1, not at 0, and a quarter of that stays.",
            3: "A new layer begins at the variance 1, and the buffer takes in the unbiased variance.",
            5: "That is the newest variance alone. A new layer begins at 1, and a quarter of that stays.",
        },
        "alone": {
            0: "That is what train() makes of 8 among the five. In eval() the running mean is subtracted.",
            2: "8 less the running mean is right. Divide it by the root of the running variance.",
            1 / 2: "You have divided by the running variance. Divide by its root.",
        },
    }
    values(
        answer,
        "ages_on_paper",
        {"running_mean": 6, "running_var": 4, "alone": 1},
        causes,
        tolerance=1e-9,
    )


# 6.3: running statistics
class _Running(RunningStatistics):
    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        recording = torch.no_grad()
        with recording:
            unbiased = var * n / (n - 1)
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * unbiased)


def _stored(layer):
    """Return copies of what an answer holds in its buffers."""
    return {
        "running_mean": layer.running_mean.detach().clone(),
        "running_var": layer.running_var.detach().clone(),
        "num_batches_tracked": int(layer.num_batches_tracked),
    }


def _registered(layer):
    return {
        "the names in state_dict()": sorted(layer.state_dict()),
        "the names of the parameters": sorted(name for name, _ in layer.named_parameters()),
    }


def _run_registered(cls):
    layer = cls(3)
    return _registered(layer) | {
        "the names of the buffers": sorted(name for name, _ in layer.named_buffers())
    }


def _run_new(cls):
    layer, elsewhere, single = (
        cls(3, dtype=torch.float64),
        cls(3, device="meta"),
        cls(3, dtype=torch.float64).float(),
    )
    devices = [str(buffer.device) for buffer in (elsewhere.running_mean, elsewhere.running_var)]
    dtypes = [str(buffer.dtype) for buffer in (single.running_mean, single.running_var)]
    return _stored(layer) | {
        "the devices for device='meta'": devices,
        "the dtypes after .float()": dtypes,
    }


def _updates(label, momentum, training=True):
    def run(cls):
        layer, kept = cls(3, momentum=momentum, dtype=torch.float64).train(training), {}
        for seed, n in ((11, 4), (12, 9), (13, 2)):
            mean, var = 5 + draw(seed, 3), 2 + draw(seed + 20, 3).abs()
            layer.update(mean, var, n)
            kept |= {
                f"mean (n = {n}) after the call": mean,
                f"var (n = {n}) after the call": var,
            }
        names = sorted(name for name, _ in layer.named_buffers())
        return kept | _stored(layer) | {"the names of the buffers after three updates": names}

    return Probe(label, run, {"momentum": momentum})


def _run_loaded(cls):
    """A new one that has loaded the state of one with three batches goes on with the fourth."""
    first, second = (cls(3, momentum=None, dtype=torch.float64) for _ in range(2))
    for seed in (11, 12, 13):
        first.update(draw(seed, 3), draw(seed + 20, 3).abs(), 5)
    second.load_state_dict(first.state_dict())
    second.update(draw(14, 3), draw(34, 3).abs(), 5)
    return _stored(second)


def _recording(layer):
    """Return whether what has flowed into the buffers is part of a graph."""
    return {
        "whether a buffer requires a gradient": layer.running_mean.requires_grad
        or layer.running_var.requires_grad
    }


def _run_graph(cls):
    layer, mean = cls(3, dtype=torch.float64), draw(14, 3).requires_grad_()
    layer.update(mean * 2, mean * mean, 5)
    return _recording(layer)


_RUNNING_MISTAKES = misconceptions(
    _Running,
    """
    # momentum is the other way round. In PyTorch it is the weight of the NEWEST batch; the old value keeps 1 - momentum.
    self.running_mean.copy_(m * self.running_mean + (1 - m) * mean)
    self.running_var.copy_(m * self.running_var + (1 - m) * unbiased)

    # the biased variance goes into the buffer. | PyTorch stores the unbiased one: var * n / (n - 1).
    unbiased = var

    # var * n / n - 1 subtracts 1 at the end. | Write the brackets: var * n / (n - 1).
    unbiased = var * n / n - 1

    # n / (n - 1) is upside down: the unbiased variance is the larger one.
    unbiased = var * (n - 1) / n

    # the sum of squares is var * n, not var. | Divide that by n - 1.
    unbiased = var / (n - 1)

    # the buffers do not change. | Assign to self.running_mean and self.running_var, or use copy_.
    self.running_mean.copy_(self.running_mean)
    self.running_var.copy_(self.running_var)

    # use m, the line above has made it: with momentum=None it is 1 / num_batches_tracked, and self.momentum is no number.
    m = self.momentum

    # the old value keeps its full weight, so that the sum grows without end. | It gets 1 - momentum.
    self.running_mean.copy_(self.running_mean + m * mean)
    self.running_var.copy_(self.running_var + m * unbiased)

    # the buffers are part of the graph: every step keeps all earlier ones alive, and memory grows. | Update them under torch.no_grad().
    recording = torch.enable_grad()
    """,
)

_RUNNING_STAGES = [
    (
        [Probe("a new one for 3 channels", _run_registered, {"num_features": 3})],
        "the names of the buffers",
    ),
    ([Probe("a new one for 3 channels in float64", _run_new)], "what they start with"),
    (
        [
            _updates("three updates from batches of 4, 9 and 2", 0.1),
            _updates(
                "three with another momentum, in eval() (whoever calls update asks for the mode)",
                0.4,
                training=False,
            ),
            _updates("three with momentum 0", 0.0),
        ],
        "update",
    ),
    ([_updates("three updates without momentum", None)], "update"),
    (
        [Probe("a fourth update after load_state_dict(), without momentum", _run_loaded)],
        "update",
    ),
    ([Probe("a mean that has a gradient", _run_graph)], "update"),
]


def running_statistics(answer):
    """Check a class that keeps running_mean, running_var and num_batches_tracked as buffers (lesson 6)."""
    right = "{answer.__name__} keeps its buffers as nn.BatchNorm1d does (four momenta, names, dtypes, no graph)"
    examine(
        answer, "running_statistics", _RUNNING_STAGES, _Running, _RUNNING_MISTAKES, right=right
    )


# 6.4: the layer
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


def _made(cls, *batches, **options):
    """Return a layer of 4 channels with random gain and bias, in train(), after some batches."""
    layer = filled(cls(4, dtype=torch.float64, **options), 50)
    for batch in batches:
        layer(batch.clone())
    return layer


def _used(cls):
    """Return a layer with random running statistics."""
    layer = _made(cls)
    with torch.no_grad():
        (
            layer.running_mean.copy_(3 + draw(71, 4)),
            layer.running_var.copy_(0.5 + draw(72, 4) ** 2),
        )
    return layer


_SCALES = numbers(1, 0.001, 20, 3)  # 0.001: where eps sits shows
_MATRIX = 5 * draw(81, 4) + _SCALES * draw(82, 6, 4)  # (B, C)
_SECOND = draw(85, 4) + _SCALES * draw(86, 6, 4)  # (B, C): the same shape, other numbers
_SERIES = draw(83, 4)[:, None] + _SCALES[:, None] * draw(84, 3, 4, 5)  # (B, C, T)
_OUTLIERS = 1e4 + draw(
    87, 256, 4
)  # (B, C): far from 0, and one entry of each channel far from the others
_OUTLIERS[7] += 30


def _run_without_grad(*looks):
    @torch.no_grad()
    def run(cls):
        layer = _used(cls)
        seen = {"the output": layer(_MATRIX.clone())} | _stored(layer)
        return {what: seen[what] for what in looks}

    return run


_TRAINING_PROBES = [
    call_layer("a training batch (B, C) = (6, 4)", _made, _MATRIX, {}),
    call_layer("a training batch (B, C, T) = (3, 4, 5)", _made, _SERIES, {}),
    # float64 around 1e4: two passes lose nothing, E[x^2] - E[x]^2 loses 1e8 times 2^-53
    call_layer("256 rows around 1e4, the eighth 30 larger", _made, _OUTLIERS, {}),
    call_layer(
        "the second of two training batches", lambda cls: _made(cls, _MATRIX), _SECOND, {}
    ),
    Probe(
        "a batch in train() under torch.no_grad()",
        _run_without_grad("the output"),
        {"x": _MATRIX},
    ),
]


_LAYER_MISTAKES = misconceptions(
    _Layer,
    """
    # the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores the unbiased one.
    deviation = torch.sqrt(var.view(shape) * (n / (n - 1) if own else 1) + self.eps)

    # mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x. | Only the buffers are updated without a gradient.
    centered, deviation = x - mean.detach().view(shape), torch.sqrt(var.detach().view(shape) + self.eps)

    # training uses the running statistics. | In train() a batch is normalized with its own mean and variance, the running ones are for eval().
    mean, var = (self.running_mean, self.running_var) if self.training else _channel_stats(x)
    # or
    own = not self.training

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

    # evaluation uses the statistics of the batch. In eval() it normalizes with the running ones.
    own = True

    # evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer. | Ask self.training. (self.train is a method, and always true.)
    own, tracks = True, self.running_mean is not None

    # the buffers are updated in eval(): test data leak into the layer. | Update them only in train().
    tracks = self.running_mean is not None
    # or
    own = self.running_mean is None or self.update(*_channel_stats(x), n) or self.training
    tracks = False
    # or
    tracks = self.running_mean is not None
    self.update(*_channel_stats(x), n)

    # a single sample is refused in eval() as well. It needs no neighbors there. | Refuse it only where the batch's own statistics are used.
    refused = n == 1

    # with one entry for each channel the output is the bias, whatever goes in, and update() divides by n - 1 = 0. | Raise a ValueError in train(), as PyTorch does.
    refused = False

    # without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is nothing to update.
    own = self.training
    # or
    own, tracks = self.training, self.training
    # or
    tracks = own
    """,
)


def _steps(*shapes, **options):
    def run(cls):
        layer = _made(cls, **options)
        for seed, shape in enumerate(shapes):
            layer(2 + _SCALES.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape))
        return _stored(layer)

    return Probe(f"training on x of shape {', then '.join(map(str, shapes))}", run, options)


def _run_evaluated(cls):
    layer = _used(cls).eval()
    seen = {"the output": layer(_MATRIX.clone())}
    with torch.no_grad():
        seen |= {"the output under no_grad()": layer(_SERIES.clone())}
    return seen | {f"{name} after evaluation": value for name, value in _stored(layer).items()}


def _run_names(cls):
    layer = cls(4)
    seen = _registered(layer) | {
        f"{name} at the start": p.detach() for name, p in layer.named_parameters()
    }
    seen |= {"eps": layer.eps, "momentum": layer.momentum}
    seen["the names of the parameters with affine=False"] = [
        name for name, _ in cls(4, affine=False).named_parameters()
    ]
    return seen | {"running_mean.dtype after .double()": str(layer.double().running_mean.dtype)}


def _run_exchange(cls):
    theirs, back = nn.BatchNorm1d(4, dtype=torch.float64), cls(4, dtype=torch.float64)
    theirs.load_state_dict(_used(cls).state_dict())
    back.load_state_dict(theirs.state_dict())
    stored = {
        f"{name} in nn.BatchNorm1d": item.clone() for name, item in theirs.state_dict().items()
    }
    return stored | {"the output": back.eval()(_MATRIX)}


def _run_graph_kept(cls):
    layer, x = _made(cls), _MATRIX.clone().requires_grad_()
    layer(x), layer(x + 1)
    return _recording(layer)


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
    counted = layer.num_batches_tracked.item() and not isinstance(
        layer, nn.BatchNorm1d
    )  # PyTorch's counts them
    seen["num_batches_tracked after these refusals"] = "has moved" if counted else "as before"
    return seen | {
        f"{name} after these refusals": getattr(layer, name).clone()
        for name in ("running_mean", "running_var")
    }


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


def _run_evaluated_twice(cls):
    layer = _used(cls).eval()
    layer(_MATRIX.clone())
    layer.train()(_SECOND.clone())
    return {"the output": layer.eval()(_MATRIX.clone())}


_BUFFER_PROBES = [
    _steps((6, 4), (2, 4), (5, 4)),
    *(_steps((6, 4), (3, 4), momentum=m) for m in (0.3, None)),
    Probe(
        "a batch in train() under torch.no_grad()",
        _run_without_grad("running_mean", "running_var"),
    ),
]
_EVALUATION_PROBES = [
    call_layer("a batch in eval()", lambda cls: _used(cls).eval(), _MATRIX, {}),
    Probe("two batches in eval()", _run_evaluated),
    Probe("eval(), a training batch, and eval() again", _run_evaluated_twice),
]
_OTHER_PROBES = [
    Probe("x of shape (4,)", lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 4))}),
    Probe(
        "x of shape (3, 4, 2, 2)",
        lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 3, 4, 2, 2))},
    ),
]
_LAYER_STAGES = [
    (_TRAINING_PROBES, "training"),
    (_BUFFER_PROBES, "the buffers"),
    ([_steps((3, 4, 5)), _steps((1, 4, 2))], "the buffers"),
    (_EVALUATION_PROBES, "evaluation"),
    (
        [
            call_layer(
                "a single sample in eval()", lambda cls: _used(cls).eval(), _MATRIX[:1], {}
            )
        ],
        "evaluation",
    ),
    (
        [
            Probe("a new layer", _run_names, {"num_features": 4}),
            Probe("an exchange of state_dict() with nn.BatchNorm1d", _run_exchange),
            Probe("two training batches with gradients", _run_graph_kept),
        ],
        "the rest",
    ),
    ([Probe("a batch of one", _run_one)], "the rest"),
    ([Probe("track_running_stats=False", _run_untracked)], "the rest"),
    (_OTHER_PROBES, "the rest"),
    (
        of_a_layer(lambda cls: cls(4), _MATRIX, other=lambda cls: cls(4, 0.5, 0.9), moods=True),
        "the rest",
    ),
]
_LAYER = Contract(
    {"x": "B C T"},
    use=lambda cls, sizes, **options: cls(sizes["C"], **options),
    options=({}, {"eps": 0.1}, {"affine": False}),
    sizes={"B": (5, 2, 17), "C": (3, 1, 7), "T": (4, 1, 300)},
    values=("ordinary", "offset", "small", "outlier"),
)


def batch_norm(answer):
    """Check a class BatchNorm1d against nn.BatchNorm1d: forward, buffers, evaluation, module (lesson 6)."""
    tried = "training, buffers, evaluation, state_dict, errors"
    right = f"{{answer.__name__}} does what nn.BatchNorm1d does in {{count}} trials ({tried})"
    examine(
        answer,
        "batch_norm",
        _LAYER_STAGES,
        nn.BatchNorm1d,
        _LAYER_MISTAKES,
        contract=_LAYER,
        by_hand=("batch_norm",),
        right=right,
    )

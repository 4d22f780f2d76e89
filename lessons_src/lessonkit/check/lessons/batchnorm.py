"""Checks of lesson 6: BatchNorm step by step, the axes of four norms, BatchNorm on sequences, several devices."""

from dataclasses import replace

import torch
from torch import nn

from lessonkit.check.comparing import examine
from lessonkit.check.contract import Contract, of_a_layer
from lessonkit.check.misconceptions import misconceptions
from lessonkit.check.probing import Probe, call, draw, gradients, in_float64, raised
from lessonkit.check.quizzes import values
from lessonkit.check.verdicts import reject

_STATS = ("mean", "var")


# 6.1: statistics of channels
def _channel_stats(x):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean = x.mean(axes)
    var = x.var(axes, correction=0)
    return mean, var


_CHANNEL_PROBES = [
    call("a matrix (B, C) = (5, 3)", 2 + draw(1, 5, 3) * torch.tensor([1.0, 3, 10]).double(), returns=_STATS),
    call("a square matrix", draw(2, 4, 4) * torch.tensor([1.0, 2, 5, 9]).double() + 1, returns=_STATS),
    call("(B, C, T) = (2, 3, 5)", draw(3, 2, 3, 5) * torch.tensor([[1.0], [4], [9]]).double() - 1, returns=_STATS),
    call("(B, C, T) = (4, 4, 4)", draw(4, 4, 4, 4) + torch.arange(4.0).double()[:, None], returns=_STATS),
    call("a single channel, (B, C, T) = (3, 1, 4)", draw(6, 3, 1, 4), returns=_STATS),
    # float32, standard deviation 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    call("float32 channels around 100", (100 + draw(5, 64, 6)).float(), returns=_STATS, tolerance=2e-6),
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

    # the channels themselves are reduced. Axis 1 is the one to keep.
    axes = [1]

    # all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.
    axes = list(range(x.dim() - 1))

    # axis -1 of a matrix (B, C) is the channels. | Reduce axis 0 and, where there is one, axis 2.
    axes = list({0, x.dim() - 1})

    # a matrix (B, C) has no axis 2. | Reduce it only where there is one.
    axes = [0, 2]

    # one mean for everything. Each channel needs its own.
    axes = list(range(x.dim()))

    # the reduced axes are kept. Wanted is the shape (C,). | Drop keepdim, or squeeze.
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)

    # the mean has the shape (C, 1). Wanted is (C,). | Squeeze the last axis.
    return mean[:, None], var[:, None]

    # mean is right, but var has the shape (C, 1). | Squeeze both.
    return mean, var[:, None]

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

    # only T is reduced: after transpose(0, 1), B and T are still two axes. | Join them, with flatten(1).
    mean, var = x.transpose(0, 1).mean(-1), x.transpose(0, 1).var(-1, correction=0)

    # x.T turns all axes around: (T, C, B), of which only B is reduced. | Write transpose(0, 1), then flatten(1).
    mean, var = x.T.mean(-1), x.T.var(-1, correction=0)

    # the variances of the time steps are averaged. The steps differ in their means as well. | Take the variance over B and T together.
    var = x.var(0, correction=0).view(x.shape[1], -1).mean(-1)

    # the sums are divided by B. A channel of (B, C, T) has B * T entries.
    mean, var = x.mean(axes), x.var(axes, correction=0) * x[:, 0].numel() / len(x)

    # the mean is not subtracted before squaring.
    var = (x * x).mean(axes)

    # E[x^2] - E[x]^2 loses digits when the mean is far larger than the deviation. | Subtract the mean first.
    var = (x * x).mean(axes) - x.mean(axes) ** 2

    # eps is not part of the variance. It comes in when something is divided.
    return mean, var + 1e-5
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
    how = {"tried": tried, "contract": _CHANNELS}
    examine(answer, "channel_stats", _CHANNEL_PROBES, in_float64(_channel_stats), _CHANNEL_MISTAKES, **how)


# 6.2: running statistics
class _Running(nn.Module):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        zeros = torch.zeros(num_features, device=device, dtype=dtype)
        ones = torch.ones(num_features, device=device, dtype=dtype)
        for name, start in (("running_mean", zeros), ("running_var", ones)):
            self.hold(name, start)
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def hold(self, name, start):
        return self.register_buffer(name, start)

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        recording = torch.no_grad()
        with recording:
            unbiased = var * n / (n - 1)
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * unbiased)


def _stored(made):
    """Return copies of what an answer holds in its buffers."""
    return {
        "running_mean": made.running_mean.detach().clone(),
        "running_var": made.running_var.detach().clone(),
        "num_batches_tracked": int(made.num_batches_tracked),
    }


def _registered(made):
    return {
        "the names in state_dict()": sorted(made.state_dict()),
        "the names of the parameters": sorted(name for name, _ in made.named_parameters()),
    }


def _run_registered(cls):
    made = cls(3)
    return _registered(made) | {"the names of the buffers": sorted(name for name, _ in made.named_buffers())}


def _run_new(cls):
    made, elsewhere, single = cls(3, dtype=torch.float64), cls(3, device="meta"), cls(3, dtype=torch.float64).float()
    devices = [str(buffer.device) for buffer in (elsewhere.running_mean, elsewhere.running_var)]
    dtypes = [str(buffer.dtype) for buffer in (single.running_mean, single.running_var)]
    return _stored(made) | {"the devices for device='meta'": devices, "the dtypes after .float()": dtypes}


def _updates(label, momentum):
    def run(cls):
        made, kept = cls(3, momentum=momentum, dtype=torch.float64), {}
        for seed, n in ((11, 4), (12, 9), (13, 2)):
            mean, var = 5 + draw(seed, 3), 2 + draw(seed + 20, 3).abs()
            made.update(mean, var, n)
            kept |= {f"mean (n = {n}) after the call": mean, f"var (n = {n}) after the call": var}
        names = sorted(name for name, _ in made.named_buffers())
        return kept | _stored(made) | {"the names of the buffers after three updates": names}

    return Probe(label, run, {"momentum": momentum})


def _run_loaded(cls):
    """A new one that has loaded the state of one with three batches goes on with the fourth."""
    first, second = (cls(3, momentum=None, dtype=torch.float64) for _ in range(2))
    for seed in (11, 12, 13):
        first.update(draw(seed, 3), draw(seed + 20, 3).abs(), 5)
    second.load_state_dict(first.state_dict())
    second.update(draw(14, 3), draw(34, 3).abs(), 5)
    return _stored(second)


def _recording(made):
    """Return whether what has flowed into the buffers is part of a graph."""
    return {"whether a buffer requires a gradient": made.running_mean.requires_grad or made.running_var.requires_grad}


def _run_graph(cls):
    made, mean = cls(3, dtype=torch.float64), draw(14, 3).requires_grad_()
    made.update(mean * 2, mean * mean, 5)
    return _recording(made)


_HELD = """
    # a plain attribute is not saved, not loaded and not moved with the layer. | Say self.register_buffer("running_mean", ...), and so for all three.
    def hold(self, name, start):
        return setattr(self, name, start)
"""
_UPDATED = """
    # momentum is the other way round. In PyTorch it is the weight of the NEWEST batch; the old value keeps 1 - momentum.
    self.running_mean.copy_(m * self.running_mean + (1 - m) * mean)
    self.running_var.copy_(m * self.running_var + (1 - m) * unbiased)

    # the biased variance goes into the buffer. | PyTorch stores the unbiased one: var * n / (n - 1).
    unbiased = var

    # momentum is the other way round, and the biased variance goes into the buffer.
    unbiased = var
    self.running_mean.copy_(m * self.running_mean + (1 - m) * mean)
    self.running_var.copy_(m * self.running_var + (1 - m) * unbiased)
"""
_GRAPH = """
    # the buffers are part of the graph: every step keeps all earlier ones alive, and memory grows. | Update them under torch.no_grad().
    recording = torch.enable_grad()
"""
_RUNNING_MISTAKES = misconceptions(
    _Running,
    _HELD
    + """
    # the buffers are parameters: an optimizer would get them, frozen or not. | Use register_buffer.
    def hold(self, name, start):
        return setattr(self, name, nn.Parameter(start))
    # or
    def hold(self, name, start):
        return setattr(self, name, nn.Parameter(start, requires_grad=False))

    # persistent=False keeps a buffer out of state_dict(): it would not be saved. | Leave it away.
    def hold(self, name, start):
        return self.register_buffer(name, start, persistent=False)

    # torch takes what has no name as sizes. | Name both: torch.zeros(num_features, device=device, dtype=dtype).
    zeros, ones = torch.zeros(num_features, device, dtype), torch.ones(num_features, device, dtype)

    # a new layer should leave its input alone. | running_mean starts at 0, running_var at 1.
    ones = torch.zeros(num_features, device=device, dtype=dtype)
    # or
    zeros = torch.ones(num_features, device=device, dtype=dtype)

    # both have the shape (C,), a number for each channel. | torch.zeros(num_features, ...).
    zeros, ones = (f((1, num_features), device=device, dtype=dtype) for f in (torch.zeros, torch.ones))
    # or
    zeros, ones = (f((), device=device, dtype=dtype) for f in (torch.zeros, torch.ones))

    # device or dtype is not handed on. | torch.zeros(num_features, device=device, dtype=dtype).
    zeros, ones = torch.zeros(num_features), torch.ones(num_features)
    # or
    zeros, ones = torch.zeros(num_features, device=device), torch.ones(num_features, device=device)
    # or
    zeros, ones = torch.zeros(num_features, dtype=dtype), torch.ones(num_features, dtype=dtype)
"""
    + _UPDATED
    + """
    # the mean has no factor n / (n - 1). Only the variance has a biased and an unbiased form.
    self.running_mean.copy_((1 - m) * self.running_mean + m * mean * n / (n - 1))

    # the old variance is multiplied by n / (n - 1) as well, with every batch once more. Only the newest one gets the factor.
    self.running_var.copy_(((1 - m) * self.running_var + m * var) * n / (n - 1))

    # var * n / n - 1 subtracts 1 at the end. | Write the brackets: var * n / (n - 1).
    unbiased = var * n / n - 1

    # running_var does not change. | It follows the same formula as running_mean, with var * n / (n - 1).
    self.running_var.copy_(self.running_var)

    # mean and var are swapped.
    def update(self, var, mean, n):
        ...

    # n / (n - 1) is upside down: the unbiased variance is the larger one.
    unbiased = var * (n - 1) / n

    # running_var holds a standard deviation. | Average the variances.
    unbiased = (var * n / (n - 1)).sqrt()

    # the buffers do not change. | Assign to self.running_mean and self.running_var, or use copy_.
    self.running_mean.copy_(self.running_mean)
    self.running_var.copy_(self.running_var)

    # the old value keeps its full weight, so that the sum grows without end. | It gets 1 - momentum.
    self.running_mean.copy_(self.running_mean + m * mean)
    self.running_var.copy_(self.running_var + m * unbiased)

    # only the newest batch is left. | The old value keeps the weight 1 - m, and the newest gets m.
    self.running_mean.copy_(mean)
    self.running_var.copy_(unbiased)

    # num_batches_tracked is counted twice for each batch.
    self.num_batches_tracked += 2

    # momentum=0 counts as no momentum: `or` takes 0 for False. | Ask `self.momentum is None`, as the line above does.
    m = self.momentum or 1 / self.num_batches_tracked.item()
    # or
    m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum or 0.1

    # use m, the line above has made it: with momentum=None it is 1 / num_batches_tracked, and self.momentum is no number.
    m = self.momentum
"""
    + _GRAPH,
)

_RUNNING_STAGES = [
    ([Probe("a new one for 3 channels", _run_registered, {"num_features": 3})], "the buffers"),
    ([Probe("a new one for 3 channels in float64", _run_new)], "the buffers"),
    (
        [
            _updates("three updates from batches of 4, 9 and 2", 0.1),
            _updates("three with another momentum", 0.4),
            _updates("three with momentum 0", 0.0),
        ],
        "update",
    ),
    ([_updates("three updates without momentum", None)], "update"),
    ([Probe("a fourth update after load_state_dict(), without momentum", _run_loaded)], "update"),
    ([Probe("a mean that has a gradient", _run_graph)], "update"),
]


def running_statistics(answer):
    """Check a class that keeps running_mean, running_var and num_batches_tracked as buffers (lesson 6)."""
    right = "{answer.__name__} keeps its buffers as nn.BatchNorm1d does (four momenta, names, dtypes, no graph)"
    examine(answer, "running_statistics", _RUNNING_STAGES, _Running, _RUNNING_MISTAKES, kind="class", right=right)


# 6.3: the layer
class _Layer(_Running):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, **kind):
        super().__init__(num_features, momentum, **kind)
        self.num_features, self.eps = num_features, eps
        self.register_parameter("weight", nn.Parameter(torch.ones(num_features, **kind)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_features, **kind)) if affine else None)
        if not track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def forward(self, x):
        if x.dim() not in (2, 3):
            raise ValueError(f"expected 2 or 3 axes, got {x.dim()}")
        n = x.numel() // self.num_features
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


def _with_updates(text):
    """Return misconceptions of what updates the buffers, as mistakes of the layer."""
    update = lambda mistake: {"update": mistake.answer.update}  # noqa: E731
    return [replace(m, answer=type("BatchNorm1d", (_Layer,), update(m))) for m in misconceptions(_Running, text)]


def _made(cls, dtype=torch.float64, C=4, **options):
    """Return a layer of C channels with random gain and bias, in train()."""
    layer = cls(C, dtype=dtype, **options)
    if options.get("affine", True):
        with torch.no_grad():
            layer.weight.copy_(1 + 0.5 * draw(50, C)), layer.bias.copy_(draw(60, C))
    return layer.train()


def _used(cls, dtype=torch.float64, C=4):
    """Return a layer with random running statistics as well."""
    layer = _made(cls, dtype, C)
    with torch.no_grad():
        layer.running_mean.copy_(3 + draw(71, C)), layer.running_var.copy_(0.5 + draw(72, C) ** 2)
    return layer


def _seen(layer, x, answer=None):
    """Return output and gradients of one call of answer, or of layer; random upstream gradients hide no part."""
    x = x.clone().requires_grad_()
    given = x * 1  # in-place changes of a leaf raise
    y = (answer or layer)(given)
    seen = {"x after the call": given.detach(), "the output": y}
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        return seen
    leaves = {"x": x, **{name: p for name, p in (("weight", layer.weight), ("bias", layer.bias)) if p is not None}}
    if not y.requires_grad:
        return seen | {f"gradient of {name}": "no gradient" for name in leaves}
    loss = (y * draw(99, *y.shape).to(y.dtype)).sum()
    try:
        return seen | gradients(loss, leaves)
    except Exception as error:
        return seen | {"gradient of x": raised(error)}


_SCALES = torch.tensor([1.0, 0.001, 20, 3], dtype=torch.float64)  # 0.001: where eps sits shows
_MATRIX = 5 * draw(81, 4) + _SCALES * draw(82, 6, 4)  # (B, C)
_SECOND = draw(85, 4) + _SCALES * draw(86, 6, 4)  # (B, C): the same shape, other numbers
_SERIES = draw(83, 4)[:, None] + _SCALES[:, None] * draw(84, 3, 4, 5)  # (B, C, T)
_OUTLIERS = 1e4 + draw(87, 256, 4)  # (B, C): far from 0, and one entry of each channel far from the others
_OUTLIERS[7] += 30


def _training(label, x, before=None, **options):
    def run(cls):
        layer = _made(cls, **options)
        if before is not None:
            layer(before.clone())
        return _seen(layer, x)

    return Probe(label, run, {"x": x, **options})


def _run_without_grad(*looks):
    @torch.no_grad()
    def run(cls):
        layer = _used(cls)
        seen = {"the output": layer(_MATRIX.clone())} | _stored(layer)
        return {what: seen[what] for what in looks}

    return run


_TRAINING_PROBES = [
    _training("a training batch (B, C) = (6, 4)", _MATRIX),
    _training("a training batch (B, C, T) = (3, 4, 5)", _SERIES),
    _training("a training batch with eps = 0.1", _MATRIX, eps=0.1),
    # float64 around 1e4: two passes lose nothing, E[x^2] - E[x]^2 loses 1e8 times 2^-53
    _training("256 rows around 1e4, the eighth 30 larger", _OUTLIERS),
    _training("the second of two training batches", _SECOND, before=_MATRIX),
    Probe("a batch in train() under torch.no_grad()", _run_without_grad("the output"), {"x": _MATRIX}),
]


_LAYER_MISTAKES = misconceptions(
    _Layer,
    """
    # eps is added to the standard deviation instead of the variance. | sqrt(var + eps).
    deviation = torch.sqrt(var.view(shape)) + self.eps

    # the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores the unbiased one.
    deviation = torch.sqrt(var.view(shape) * (n / (n - 1) if own else 1) + self.eps)

    # eps is added twice: the lines that are given add it to var as well.
    deviation = torch.sqrt(var.view(shape) + 2 * self.eps)

    # var holds the standard deviation, and the last lines take its root once more. | Bind the variance itself.
    deviation = torch.sqrt(var.view(shape).sqrt() + self.eps)

    # mean and var are swapped. | channel_stats returns mean first.
    mean, var = _channel_stats(x)[::-1] if own else (self.running_mean, self.running_var)

    # mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x. | Only the buffers are updated without a gradient.
    centered, deviation = x - mean.detach().view(shape), torch.sqrt(var.detach().view(shape) + self.eps)

    # the gradient does not pass through the mean.
    centered = x - mean.detach().view(shape)

    # the gradient does not pass through the variance.
    deviation = torch.sqrt(var.detach().view(shape) + self.eps)

    # training uses the running statistics. | In train() a batch is normalized with its own mean and variance, the running ones are for eval().
    mean, var = (self.running_mean, self.running_var) if self.training else _channel_stats(x)
    # or
    own = not self.training

    # you ask whether gradients are recorded. Ask self.training: train() under no_grad() is still training, and eval() with gradients is still evaluation.
    own, tracks = (torch.is_grad_enabled(),) * 2

    # for (B, C, T) only the batch is reduced. A channel has one mean over B and T.
    centered, deviation = x - x.mean(0), torch.sqrt(x.var(0, correction=0) + self.eps)

    # for (B, C, T) only T is reduced, so every sample has its own: that is InstanceNorm.
    axis = 0 if x.dim() == 2 else 2
    centered, deviation = x - x.mean(axis, keepdim=True), torch.sqrt(x.var(axis, correction=0, keepdim=True) + self.eps)

    # each sample is normalized by itself, as in LayerNorm. BatchNorm keeps axis 1 and reduces the others.
    axes = tuple(range(1, x.dim()))
    centered, deviation = x - x.mean(axes, keepdim=True), torch.sqrt(x.var(axes, correction=0, keepdim=True) + self.eps)

    # one mean for the whole batch. Each channel needs its own.
    centered, deviation = x - x.mean(), torch.sqrt(x.var(correction=0) + self.eps)

    # mean and var do not fit axis 1 of x. | Bind a number for each channel, (C,), as channel_stats gives them.
    mean, var = x.mean(-1), x.var(-1, correction=0)

    # weight and bias are not applied.
    return y

    # the buffers never change. In train() each batch updates them.
    tracks = False

    # running_mean and running_var never change; the batches are only counted.
    self.update(self.running_mean, self.running_var * (n - 1) / n, n)

    # n / (n - 1) is applied twice: is your var unbiased already, or does update() do it again?
    self.update(mean, var * n / (n - 1), n)

    # the call swaps mean and var: update(mean, var, n).
    self.update(var, mean, n)

    # n is the number of entries of one channel: B * T for (B, C, T), B for (B, C).
    self.update(mean, var, x.numel())
    # or
    self.update(mean, var, len(x))

    # update() is called twice for each batch.
    self.update(mean, var, n) or self.update(mean, var, n)

    # a single row is refused although each of its channels has several time steps. What must be above 1 is the number of entries per channel, n.
    refused = own and len(x) == 1

    # the buffers change only where gradients are recorded. | train() under no_grad() is training, too: ask self.training.
    tracks = self.training and self.running_mean is not None and torch.is_grad_enabled()

    # evaluation uses the statistics of the batch. In eval() it normalizes with the running ones.
    own = True

    # evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer. | Ask self.training. (self.train is a method, and always true.)
    own, tracks = True, self.running_mean is not None
    # or
    own, tracks = (bool(self.train),) * 2

    # the buffers are updated in eval(): test data leak into the layer. | Update them only in train().
    tracks = self.running_mean is not None

    # a single sample is refused in eval() as well. It needs no neighbors there. | Refuse it only where the batch's own statistics are used.
    refused = n == 1

    # with one entry for each channel the output is the bias, whatever goes in, and update() divides by n - 1 = 0. | Raise a ValueError in train(), as PyTorch does.
    refused = False

    # without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is nothing to update.
    own = self.training
    # or
    tracks = self.training

    # without running statistics eval() uses the batch's own as well: refuse a batch of one there, too.
    refused = self.training and n == 1

    # the statistics of an earlier batch of the same shape are used again. | They belong to this batch: ask channel_stats every time.
    known = self.__dict__.setdefault("misconceptions", {})
    mean, var = known.setdefault(x.shape, _channel_stats(x)) if own else (self.running_mean, self.running_var)
    """,
)


def _steps(*shapes, **options):
    def run(cls):
        layer = _made(cls, **options)
        for seed, shape in enumerate(shapes):
            layer(2 + _SCALES.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape))
        return _stored(layer)

    return Probe(f"training on x of shape {', then '.join(map(str, shapes))}", run, options)


def _evaluation(label, x, grad=True):
    def run(cls):
        layer = _used(cls).eval()
        with torch.set_grad_enabled(grad):
            seen = _seen(layer, x) if grad else {"the output": layer(x.clone())}
        return seen | {f"{name} after evaluation": value for name, value in _stored(layer).items()}

    return Probe(label, run, {"x": x})


def _run_names(cls):
    layer = cls(4)
    seen = _registered(layer) | {f"{name} at the start": p.detach() for name, p in layer.named_parameters()}
    seen |= {"eps": layer.eps, "momentum": layer.momentum}
    return seen | {"running_mean.dtype after .double()": str(layer.double().running_mean.dtype)}


def _run_exchange(cls):
    theirs, back = nn.BatchNorm1d(4, dtype=torch.float64), cls(4, dtype=torch.float64)
    theirs.load_state_dict(_used(cls).state_dict())
    back.load_state_dict(theirs.state_dict())
    stored = {f"{name} in nn.BatchNorm1d": item.clone() for name, item in theirs.state_dict().items()}
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
    return seen | {
        f"{name} after these refusals": getattr(layer, name).clone() for name in ("running_mean", "running_var")
    }


def _run_plain(cls):
    layer = _made(cls, affine=False)
    return {"the names of the parameters": [name for name, _ in layer.named_parameters()], **_seen(layer, _MATRIX)}


def _run_untracked(cls):
    layer = _made(cls, track_running_stats=False)
    seen = {"the names in state_dict()": sorted(layer.state_dict()), **_seen(layer, _MATRIX)}
    layer.eval()
    return seen | {"the output in eval()": layer(_MATRIX.clone()), "one row in eval()": _outcome(layer, _MATRIX[:1])}


def _run_evaluated_twice(cls):
    layer = _used(cls).eval()
    layer(_MATRIX.clone())
    layer.train()(_SECOND.clone())
    return {"the output": layer.eval()(_MATRIX.clone())}


_BUFFER_PROBES = [
    _steps((6, 4), (2, 4), (5, 4)),
    *(_steps((6, 4), (3, 4), momentum=m) for m in (0.3, None)),
    Probe("a batch in train() under torch.no_grad()", _run_without_grad("running_mean", "running_var")),
]
_EVALUATION_PROBES = [
    _evaluation("a batch in eval()", _MATRIX),
    _evaluation("a batch (B, C, T) in eval() under no_grad()", _SERIES, grad=False),
    Probe("eval(), a training batch, and eval() again", _run_evaluated_twice),
]
_OTHER_PROBES = [
    Probe("x of shape (4,)", lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 4))}),
    Probe("x of shape (3, 4, 2, 2)", lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 3, 4, 2, 2))}),
    Probe("affine=False", _run_plain),
]
_LAYER_STAGES = [
    (_TRAINING_PROBES, "training"),
    (_BUFFER_PROBES, "the buffers"),
    ([_steps((3, 4, 5)), _steps((1, 4, 2))], "the buffers"),
    (_EVALUATION_PROBES, "evaluation"),
    ([_evaluation("a single sample in eval()", _MATRIX[:1])], "evaluation"),
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
    (of_a_layer(lambda cls: cls(4), _MATRIX, other=lambda cls: cls(4, 0.5, 0.9)), "the rest"),
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
    listed = [*_LAYER_MISTAKES, *_with_updates(_UPDATED + _GRAPH), *misconceptions(_Layer, _PLAIN)]
    how = {"kind": "class", "contract": _LAYER, "by_hand": ("batch_norm",), "right": right}
    examine(answer, "batch_norm", _LAYER_STAGES, nn.BatchNorm1d, listed, **how)


_PLAIN = """
    # the buffers are plain attributes: not saved, not loaded and not moved with the layer. | Say self.register_buffer.
    self.num_features, self.eps = num_features, [eps, vars(self).update(self._buffers), self._buffers.clear()][0]
"""


# 6.4: which axes

AXES = {
    "axes, BatchNorm on (B, C, T)": (0, 2),
    "axes, BatchNorm on (B, C, H, W)": (0, 2, 3),
    "axes, InstanceNorm on (B, C, H, W)": (2, 3),
    "axes, LayerNorm([C, H, W]) on (B, C, H, W)": (1, 2, 3),
    "means, GroupNorm with 2 groups on (8, 6, 5, 4)": 16,
    "buffer numbers, BatchNorm with 6 channels": 13,
}


def reduced_axes(answer):
    """Check the axes and counts of four norms; axes in any order, negative ones allowed (lesson 6)."""
    bn3, bn4, inst, layer, group, buffers = AXES
    rows = [
        (bn3, [(0,)], "Then every time step would have a mean of its own. BatchNorm keeps the channels only."),
        (bn3, [(0, 1)], "That keeps T. BatchNorm keeps the channels, axis 1."),
        (bn3, [(2,)], "That is one mean for each sample and channel: InstanceNorm."),
        (bn3, [(1,)], "Axis 1 is the channels: the axis that BatchNorm keeps."),
        (bn3, [(1, 2)], "That is LayerNorm([C, T]): a mean for each sample."),
        (bn3, [(0, 1, 2)], "Then one mean would be left for everything. BatchNorm keeps the channels."),
        (bn4, [(0, 1, 2, 3)], "Then one mean would be left for everything. BatchNorm keeps the channels."),
        (bn4, [(0,), (0, 1), (0, 2), (0, 3)], "That keeps pixels apart. BatchNorm keeps the channels only, axis 1."),
        (bn4, [(1,)], "Axis 1 is the channels: the axis that BatchNorm keeps."),
        (bn4, [(1, 2, 3)], "That is LayerNorm([C, H, W]): a mean for each image."),
        (bn4, [(2, 3)], "That is one mean for each image and channel: InstanceNorm. BatchNorm pools the images too."),
        (inst, [(0, 2, 3)], "That is BatchNorm. InstanceNorm keeps every sample (the instance) apart as well."),
        (inst, [(1, 2, 3)], "That is LayerNorm([C, H, W]). InstanceNorm keeps the channels apart as well."),
        (inst, [(0,), (1,), (0, 1), (2,), (3,)], "It keeps each sample and each channel, and reduces H and W."),
        (layer, [(1,), (2,), (3,), (1, 2), (2, 3)], "[C, H, W] names three axes: one mean for each image."),
        (layer, [(0,), (0, 2, 3), (0, 1, 2, 3)], "Axis 0 is the batch, the one axis that LayerNorm keeps here."),
        (group, [2], "Each of the 8 samples has its own 2 groups."),
        (group, [12, 320], "2 groups for each of 8 samples: a group pools its channels and all pixels."),
        (group, [8], "That would be one group. With 2, each sample has two means."),
        (group, [24], "Groups OF 2 channels would give that. Here the 6 channels form 2 groups of 3."),
        (group, [48], "That is one for each sample and channel: InstanceNorm. A group pools 3 channels."),
        (group, [3], "That is how many channels a group has. Asked is how many means come out, of all 8 samples."),
        (group, [60], "That is how many entries share a mean. Asked is how many means come out."),
        (buffers, [12], "The two vectors are right. One number more is counted: num_batches_tracked."),
        (buffers, [2, 3, 6, 7, 14], "Running mean and variance have 6 numbers each; the count of batches is one."),
        (buffers, [18], "The count of batches is a single number, not one for each channel."),
        (buffers, [24, 25], "weight and bias are parameters, not buffers."),
        (buffers, [0], "That is LayerNorm. BatchNorm must remember something for evaluation."),
    ]
    causes = [(key, wrong, why) for key, wrongs, why in rows for wrong in wrongs]
    if isinstance(answer, dict):
        answer = {key: _axes(value, key) for key, value in answer.items()}
    values(answer, "reduced_axes", AXES, causes)


def _axes(value, key):
    """Return axes in ascending order, counted from the front; anything else as it is."""
    if not isinstance(AXES.get(key), tuple):
        return value
    value = (value,) if type(value) is int else value
    if not isinstance(value, (tuple, list, set)) or not all(type(axis) is int for axis in value):
        reject(f"{key}: {value!r} is not a tuple of axis numbers like (0, 2).")
    axes = key.rpartition(" on ")[2].count(",") + 1
    if not all(-axes <= axis < axes for axis in value):
        reject(f"{key}: {value!r} names an axis that does not exist: they count from 0 to {axes - 1}.")
    return tuple(sorted({axis % axes for axis in value}))


# 6.5: the clinic
def _regions(x, norm):
    features = x.transpose(1, 2)
    y = norm(features)
    return y.transpose(1, 2)


def _region_probe(label, shape, seed, dtype=torch.float64, training=True, tolerance=1e-9):
    x = (draw(seed, *shape) * (1 + torch.arange(shape[2]).double()) + 3 * draw(seed + 1, shape[2])).to(dtype)
    x = x.transpose(0, 1).contiguous().transpose(0, 1) if seed == 34 else x  # no view(-1, D) of it

    def run(answer):
        norm = _used(nn.BatchNorm1d, dtype, shape[2]).train(training)
        norm.eps = 0.1
        seen = _seen(norm, x, lambda given: answer(given, norm))
        return seen | _stored(norm) | {"norm.training": norm.training}

    return Probe(label, run, {"x": x}, tolerance)


_REGION_PROBES = [
    _region_probe("(B, R, D) = (4, 5, 8)", (4, 5, 8), 34),
    _region_probe("(B, R, D) = (8, 8, 8)", (8, 8, 8), 36),
    # float32 against float32: two orders of summing 6 numbers of order 10
    _region_probe("(B, R, D) = (3, 2, 6) in float32", (3, 2, 6), 38, torch.float32, tolerance=1e-5),
    _region_probe("(B, R, D) = (2, 7, 8) in eval()", (2, 7, 8), 40, training=False),
]

_REGION_MISTAKES = misconceptions(
    _regions,
    """
    # reshape and view regroup the numbers as they lie in memory; they do not move an axis. | Use transpose(1, 2).
    return norm(x.reshape(len(x), x.shape[2], x.shape[1])).reshape(x.shape)

    # the features were moved to axis 1, but not back.
    return y

    # reshape and view regroup the numbers; they do not move an axis back. | Use transpose(1, 2) there as well.
    return y.reshape(x.shape)

    # axis 1 of what norm gets holds the regions, so they are its channels (without an error if R = D). | Put the D features there.
    return norm(x)

    # transpose(0, 1) puts the samples on axis 1. | Put the D features there, with transpose(1, 2).
    return norm(x.transpose(0, 1)).transpose(0, 1)

    # a new layer for regions is what the patient has. | Use the given one, with the D features on axis 1.
    return nn.BatchNorm1d(x.shape[1], dtype=x.dtype)(x)

    # the gain, the bias and the running statistics of norm are not used. Do not normalize with a new layer or a formula. | Call norm.
    y = nn.BatchNorm1d(x.shape[2], dtype=x.dtype)(features)

    # each region gets its own statistics, and the running ones are updated R times. A feature has one mean, over samples and regions.
    return torch.stack([norm(x[:, r]) for r in range(x.shape[1])], 1)

    # each sample gets its own statistics. A feature has one mean, over samples and regions.
    return torch.stack([norm(sample) for sample in x])

    # that is LayerNorm: a mean for each region of each sample. Asked is BatchNorm, with the given layer.
    return nn.functional.layer_norm(x, x.shape[-1:])

    # the regions are averaged away. Every region keeps its own output.
    return norm(x.mean(1))

    # the rows of features are normalized, but not brought back. | .view(x.shape).
    return norm(x.flatten(0, 1))

    # flatten(1) makes one row of R * D numbers of each sample. | flatten(0, 1) keeps the D features apart.
    return norm(x.flatten(1)).view(x.shape)

    # norm is used in another mode than the one it was given to you in. | Call it as it is.
    y = norm.eval()(features)
    # or
    y = norm.train()(features)

    # norm is called twice, so that the running statistics are updated twice.
    y = (norm(features), norm(features))[1]

    # F.batch_norm or a formula knows neither the mode of norm nor its count of batches, and the buffers only if it gets them. | Call norm itself.
    y = nn.functional.batch_norm(features, None, None, norm.weight, norm.bias, training=True, eps=norm.eps)
    # or
    y = nn.functional.batch_norm(features, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.training)
    """,
)


def normalize_regions(answer):
    """Check a function (x, norm) that applies nn.BatchNorm1d(D) to the D features of x (B, R, D) (lesson 6)."""
    tried = "R = D and R ≠ D, train and eval, another eps, the running statistics, gradients"
    examine(answer, "normalize_regions", _REGION_PROBES, _regions, _REGION_MISTAKES, tried)


# 6.6: several devices
def _pool(means, variances, counts):
    share = (counts.to(means.dtype) / counts.sum())[:, None]
    mean = (share * means).sum(0)
    between = (means - mean) ** 2
    var = (share * (variances + between)).sum(0)
    return mean, var


def _pool_probe(label, means, variances, counts):
    names = ("means", "variances", "counts")
    return call(label, means, variances, torch.tensor(counts), names=names, returns=_STATS)


_FAR = torch.tensor([[-2.0], [2]]).double(), torch.tensor([[1.0], [1.1]]).double()
_ALIKE = draw(43, 1, 2).expand(3, 2).clone(), draw(44, 3, 2) ** 2

_POOL_PROBES = [
    _pool_probe("two devices with means -2 and +2", *_FAR, [16, 16]),
    _pool_probe("three devices with 8, 4 and 20 rows", draw(41, 3, 5), draw(42, 3, 5) ** 2, [8, 4, 20]),
    _pool_probe("three devices with the same mean", *_ALIKE, [16, 8, 8]),
    _pool_probe("two devices with 3 and 7 rows", draw(47, 2, 4), draw(48, 2, 4) ** 2, [3, 7]),
    # float64 around 1e6: the law of total variance loses nothing, the mean of squares 1e12 times 2^-53
    _pool_probe("three devices with means around a million", 1e6 + draw(49, 3, 4), draw(50, 3, 4) ** 2, [8, 4, 20]),
]

_POOL_MISTAKES = misconceptions(
    _pool,
    """
    # every device has the same weight. | Weigh each by its share of the rows.
    share = torch.full_like(means[:, :1], 1 / len(counts))

    # only the variances are averaged. The devices also differ in their means. | Add (means - mean)^2 before you average.
    between = 0

    # every device has the same weight, and the devices also differ in their means. | Weigh each by its share of the rows, and add (means - mean)^2 before you average.
    share, between = 1 / len(counts), 0

    # the devices' means have the same weight in mean. | Weigh each by its share of the rows.
    mean = means.mean(0)
    # or
    return means.mean(0), var

    # the part between the devices is not weighed by the rows: it is the sum of share * (means - mean)^2.
    var = (share * variances).sum(0) + means.var(0, correction=0)
    # or
    var = (share * variances).sum(0) + means.var(0)
    # or
    var = (share * variances).sum(0) + between.mean(0)

    # the mean of the squares still holds the square of the mean. | Subtract mean^2.
    between = means**2

    # the mean of the squares less the square of the mean loses its digits where the means are large. | Add (means - mean)^2 to the variances.
    var = (share * (variances + means**2)).sum(0) - mean**2

    # only the distances between the means are counted. The variance inside each device belongs to it as well.
    var = (share * between).sum(0)

    # the variances are divided by n - 1, of each device or of all rows. Asked are biased ones (divided by n).
    return mean, var * counts.sum() / (counts.sum() - 1)

    # var is the standard deviation. | Leave the root away.
    return mean, var.sqrt()

    # the sums are not divided by the number of rows.
    share = counts[:, None]

    # the shares add up to 1 already: .sum(0) is the average, .mean(0) divides by K once more.
    mean, var = (share * means).mean(0), (share * (variances + (means - (share * means).mean(0)) ** 2)).mean(0)

    # axis 0 is kept. Wanted is the shape (C,). | Drop keepdim.
    return mean[None], var[None]

    # counts is (K,) and means (K, C). | Give it an axis, counts[:, None], so that each device is multiplied by its own.
    share = counts.to(means.dtype) / counts.sum()

    # whole numbers divided give float32, in which a share like 3 / 10 is rounded, and @ wants one dtype. | Write (counts / counts.sum()).to(means.dtype) only after counts.to(means.dtype).
    share = (counts / counts.sum())[:, None]
    """,
)
_DEVICES = Contract(
    {"means": "K C", "variances": "K C", "counts": "K"},
    _STATS,
    sizes={"K": (3, 1, 2, 17), "C": (5, 1, 300)},
    valid={"variances": torch.square, "counts": lambda t: (10 * t.abs()).long() + 1},
    fixed=("counts",),
)


def pooled_stats(answer):
    """Check a function (means, variances, counts) -> (mean, var) of all rows together (lesson 6)."""
    how = {"tried": "equal and unequal devices, float32 and float64, gradients", "contract": _DEVICES}
    examine(answer, "pooled_stats", _POOL_PROBES, _pool, _POOL_MISTAKES, **how)

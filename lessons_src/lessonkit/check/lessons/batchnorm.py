"""Checks of lesson 6: BatchNorm step by step, the axes of four norms, BatchNorm on sequences, several devices."""

import torch
from torch import nn

from lessonkit.check.core import (
    Mistake,
    Probe,
    call,
    draw,
    examine,
    gradients,
    in_float64,
    in_stages,
    known,
    raised,
    reject,
    values,
)
from lessonkit.check.mistakes import edited

_STATS = ("mean", "var")

# ------------------------------------------------------------------------------------ 6.1: statistics of channels


def _channel_stats(x):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean, var = x.mean(axes), x.var(axes, correction=0)
    return mean, var


_CHANNEL_PROBES = [
    call("a matrix (B, C) = (5, 3)", 2 + draw(1, 5, 3) * torch.tensor([1.0, 3, 10]).double(), returns=_STATS),
    call("a square matrix", draw(2, 4, 4) * torch.tensor([1.0, 2, 5, 9]).double() + 1, returns=_STATS),
    call("(B, C, T) = (2, 3, 5)", draw(3, 2, 3, 5) * torch.tensor([[1.0], [4], [9]]).double() - 1, returns=_STATS),
    call("(B, C, T) = (4, 4, 4)", draw(4, 4, 4, 4) + torch.arange(4.0).double()[:, None], returns=_STATS),
    # float32, spread 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    call("float32 channels around 100", (100 + draw(5, 64, 6)).float(), returns=_STATS, tolerance=2e-6),
]

_LAST = "if axis != 1 -> if axis == x.dim() - 1"
_BATCH = "if axis != 1 -> if axis == 0"
_UNBIASED = "correction=0 -> correction=1"
_KEPT = "x.mean(axes) -> x.mean(axes, keepdim=True) ; correction=0) -> correction=0, keepdim=True)"
_VAR = "x.var(axes, correction=0)"
_BOTH = f"x.mean(axes), {_VAR}"

_AS_LAYER_NORM = (
    "the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others."
)
_BY_B = "the sums are divided by B. A channel of (B, C, T) has B * T entries."

_CHANNEL_MISTAKES = known(
    _channel_stats,
    {
        _UNBIASED: "the variance is divided by n - 1 (torch.var's default). The forward pass of BatchNorm divides by n.",
        _LAST: _AS_LAYER_NORM,
        f"{_LAST} ; {_KEPT}": _AS_LAYER_NORM,
        f"{_LAST} ; {_UNBIASED}": "the last axis is reduced, as in LayerNorm, and the variance is divided by n - 1. BatchNorm reduces all axes but axis 1, and divides by n.",
        f"{_BATCH} ; {_UNBIASED}": "only the batch is reduced, and the variance is divided by n - 1. The C numbers are over B and T, and the variance is the biased one: correction=0.",
        "if axis != 1 -> if axis == 1": "the channels themselves are reduced. Axis 1 is the one to keep.",
        _BATCH: "only the batch is reduced, so every time step has a mean of its own. The C numbers are over B and T.",
        f"{_BATCH} ; {_KEPT}": "only the batch is reduced, and the axis is kept. Wanted is (C,), over all axes but axis 1.",
        "if axis != 1 -> if axis < x.dim() - 1": "all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.",
        " if axis != 1 -> ": "one mean for everything. Each channel needs its own.",
        _KEPT: "the reduced axes are kept. Wanted is the shape (C,): drop keepdim, or squeeze.",
        "return mean, var -> return mean[:, None], var[:, None]": "the mean has the shape (C, 1). Wanted is (C,): squeeze the last axis.",
        f"{_BOTH} -> x.reshape(x.shape[1], -1).mean(-1), x.reshape(x.shape[1], -1).var(-1, correction=0)": "reshape(C, -1) cuts the numbers into C pieces as they lie in memory; it does not bring axis 1 to the front. Use transpose(0, 1) first.",
        f"{_VAR} -> x.var(0, correction=0).view(x.shape[1], -1).mean(-1)": "the variances of the time steps are averaged. The steps differ in their means as well: take the variance over B and T together.",
        f"{_VAR} -> x.var(axes[-1], correction=0).view(-1, x.shape[1]).mean(0)": "the variances of the samples are averaged. The samples differ in their means as well: take the variance over B and T together.",
        "return mean, var -> return mean, var.sqrt()": "var is the standard deviation. Leave the root away.",
        "return mean, var -> return var, mean": "mean and var are swapped: return mean first.",
        f"{_VAR} -> (x * x).mean(axes) - x.mean(axes) ** 2": "E[x^2] - E[x]^2 loses digits when the mean is large beside the spread. Subtract the mean first.",
        f"{_VAR} -> (x * x).mean(axes)": "the mean is not subtracted before squaring.",
        f"mean, var = {_BOTH} -> m = x.sum(axes, keepdim=True) / len(x); mean, var = m.flatten(), ((x - m) ** 2).sum(axes) / len(x)": _BY_B,
        f"{_VAR} -> {_VAR} * x[0, 0].numel()": _BY_B,
        "return mean, var -> return mean[None], var[None]": "the mean and the variance have the shape (1, C). Wanted is (C,): the reduced axes go away.",
        "return mean, var -> return mean, var[:, None]": "mean is right, but var has the shape (C, 1). Squeeze both.",
        "return mean, var -> return mean, var + 1e-5": "eps is not part of the variance. It comes in when something is divided.",
    },
)


def channel_stats(answer):
    """Check a function x, (B, C) or (B, C, T) -> (mean, var), both (C,), var biased (lesson 6)."""
    tried = "(B, C) and (B, C, T), float32 and float64, gradients"
    examine(answer, "channel_stats", _CHANNEL_PROBES, in_float64(_channel_stats), _CHANNEL_MISTAKES, tried)


# ------------------------------------------------------------------------------------ 6.2: running statistics


class _Running(nn.Module):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))


def _stored(made):
    """Return copies of what an answer holds in its buffers."""
    return {
        "running_mean": made.running_mean.detach().clone(),
        "running_var": made.running_var.detach().clone(),
        "num_batches_tracked": int(made.num_batches_tracked),
    }


def _run_registered(cls):
    made = cls(3)
    two = {"running_mean", "running_var"}
    return {
        "the names in state_dict()": sorted(made.state_dict()),
        "the names of the parameters": sorted(name for name, _ in made.named_parameters()),
        "whether running_mean and running_var are buffers": two <= {name for name, _ in made.named_buffers()},
    }


def _run_new(cls):
    made, elsewhere = cls(3, dtype=torch.float64), cls(3, device="meta")
    devices = [str(buffer.device) for buffer in (elsewhere.running_mean, elsewhere.running_var)]
    return _stored(made) | {"the devices of the two for device='meta'": devices}


def _run_updates(momentum):
    def run(cls):
        made, kept = cls(3, momentum=momentum, dtype=torch.float64), {}
        for seed, n in ((11, 4), (12, 9), (13, 2)):
            mean, var = 5 + draw(seed, 3), 2 + draw(seed + 20, 3).abs()
            made.update(mean, var, n)
            kept |= {f"mean (n = {n}) after the call": mean, f"var (n = {n}) after the call": var}
        return kept | _stored(made)

    return run


def _run_graph(cls):
    made = cls(3, dtype=torch.float64)
    mean = draw(14, 3).requires_grad_()
    made.update(mean * 2, mean * mean, 5)
    recorded = {f"{name}.requires_grad": getattr(made, name).requires_grad for name in ("running_mean", "running_var")}
    return recorded | _stored(made)


def _run_conversion(cls):
    made = cls(3, dtype=torch.float64).float()
    made.update(draw(15, 3).float(), draw(16, 3).float() ** 2, 5)
    dtypes = [str(buffer.dtype) for buffer in (made.running_mean, made.running_var)]
    return {"the dtypes of the two, converted by .float()": dtypes}


_REGISTERED_PROBES = [Probe("a new one for 3 channels", _run_registered, {"num_features": 3})]

_START_PROBES = [Probe("a new one for 3 channels in float64", _run_new)]

_UPDATE_PROBES = [
    Probe("three updates from batches of 4, 9 and 2", _run_updates(0.1), {"momentum": 0.1}),
    Probe("three updates with another momentum", _run_updates(0.4), {"momentum": 0.4}),
    Probe("three updates without momentum", _run_updates(None), {"momentum": None}),
    Probe("a mean that has a gradient", _run_graph),
    Probe("conversion to float32", _run_conversion),
]

_NOT_REGISTERED = 'a plain attribute is not saved, not loaded and not moved with the layer. Say self.register_buffer("running_mean", ...), and so for all three.'
_UNREGISTERED = (
    """register_buffer("running_mean", -> running_mean = ( ; register_buffer("running_var", -> running_var = ("""
)
_UNCOUNTED = 'register_buffer("num_batches_tracked", -> num_batches_tracked = ('

_REGISTERED_MISTAKES = known(
    _Running,
    {
        _UNREGISTERED: _NOT_REGISTERED,
        _UNCOUNTED: _NOT_REGISTERED,
        f"{_UNREGISTERED} ; {_UNCOUNTED}": _NOT_REGISTERED,
        'register_buffer("running_mean", -> running_mean = nn.Parameter( ; register_buffer("running_var", -> running_var = nn.Parameter(': "the buffers are parameters: an optimizer would get them, frozen or not. Use register_buffer.",
        "dtype=dtype)) -> dtype=dtype), persistent=False)": "persistent=False keeps a buffer out of state_dict(): it would not be saved. Leave it away.",
    },
)

_START_MISTAKES = known(
    _Running,
    {
        "torch.ones -> torch.zeros": "running_var starts at 0. A new layer should leave its input alone: start with mean 0 and variance 1.",
        ", dtype=dtype)) -> ))": "dtype is not handed on: torch.zeros(num_features, device=device, dtype=dtype).",
        "features, device=device -> features": "device is not handed on: torch.zeros(num_features, device=device, dtype=dtype).",
        "features, device=device, dtype=dtype -> features": "device and dtype are not handed on: torch.zeros(num_features, device=device, dtype=dtype).",
    },
)

_REVERSED = "(1 - m) * -> m * ; + m * -> + (1 - m) *"
_BIASED = " * n / (n - 1) -> "
_GRAPH = "no_grad() -> enable_grad() ; .copy_( -> = ("
_TWO = "momentum is the other way round, and the variance is stored as it comes: the newest batch has the weight momentum, and its variance is var * n / (n - 1)."
_IN_GRAPH = "the buffers are part of the graph: every step would keep all earlier ones alive. Update them under torch.no_grad()."
_BRACKETS = "var * n / n - 1 subtracts 1 at the end. Write the brackets: var * n / (n - 1)."

_UPDATE_MISTAKES = known(
    _Running,
    {
        _REVERSED: "momentum is the other way round. In PyTorch it is the weight of the NEWEST batch; the old value keeps 1 - momentum.",
        "(1 - m) -> (1 - self.momentum) ; + m * -> + self.momentum *": "use m, the line above has made it: with momentum=None it is 1 / num_batches_tracked, and self.momentum is no number.",
        "m * mean -> m * mean * n / (n - 1)": "the mean has no factor n / (n - 1). Only the variance has a biased and an unbiased form.",
        "n / (n - 1) -> n / n - 1": _BRACKETS,
        "m * var * n / (n - 1) -> m * (var * n / n - 1)": _BRACKETS,
        "self.running_var.copy_( -> (": "running_var does not change. It follows the same formula as running_mean, with var * n / (n - 1).",
        "(self, mean, var, n) -> (self, var, mean, n)": "mean and var are swapped.",
        _BIASED: "the biased variance goes into the buffer. PyTorch stores the unbiased one: var * n / (n - 1).",
        f"{_REVERSED} ; {_BIASED}": _TWO,
        "n / (n - 1) -> (n - 1) / n": "n / (n - 1) is upside down: the unbiased variance is the larger one.",
        _GRAPH: _IN_GRAPH,
        f"{_GRAPH} ; {_REVERSED}": f"{_IN_GRAPH} And momentum is the weight of the newest batch.",
        f"{_GRAPH} ; {_BIASED}": f"{_IN_GRAPH} And the variance is stored unbiased: var * n / (n - 1).",
        f"{_GRAPH} ; {_REVERSED} ; {_BIASED}": f"{_IN_GRAPH} And momentum is the weight of the newest batch, whose variance is stored unbiased: var * n / (n - 1).",
        "var * n / (n - 1) -> (var * n / (n - 1)).sqrt()": "running_var holds a standard deviation. Average the variances.",
        ".copy_( -> .add(": "the buffers do not change. Assign to self.running_mean and self.running_var, or use copy_.",
        "(1 - m) * self -> self": "the old value keeps its full weight, so that the sum grows without end. It gets 1 - momentum.",
        "(1 - m) * self -> 0 * self ; + m * -> +": "only the newest batch is left. The old value keeps the weight 1 - m, and the newest gets m.",
        "tracked += 1 -> tracked += 2": "num_batches_tracked is counted twice: the line above yours has counted already.",
    },
)


def running_statistics(answer):
    """Check a class that keeps running_mean, running_var and num_batches_tracked as buffers (lesson 6)."""
    stages = [
        (_REGISTERED_PROBES, _REGISTERED_MISTAKES, "the buffers"),
        (_START_PROBES, _START_MISTAKES, "the buffers"),
        (_UPDATE_PROBES, _UPDATE_MISTAKES, "update"),
    ]
    right = "{answer.__name__} keeps its buffers as nn.BatchNorm1d does (three momenta, names, dtypes, no graph)"
    in_stages(answer, "running_statistics", stages, _Running, right)


# ------------------------------------------------------------------------------------ 6.3: the layer


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
        if self.training or self.running_mean is None:
            if n == 1:
                raise ValueError("one entry for each channel")
            mean, var = _channel_stats(x)
        else:
            mean, var = self.running_mean, self.running_var
        if self.training and self.running_mean is not None:
            self.update(mean, var, n)
        shape = (1, -1, 1)[: x.dim()]
        y = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


def _updating(edits):
    """Return the layer with an edit of what updates its buffers."""
    return type("BatchNorm1d", (_Layer,), {"update": edited(_Running, edits).update})


def _made(cls, dtype=torch.float64, **options):
    """Return a layer of 4 channels with random gain and bias, in train()."""
    layer = cls(4, dtype=dtype, **options)
    if options.get("affine", True):
        with torch.no_grad():
            layer.weight.copy_(1 + 0.5 * draw(50, 4)), layer.bias.copy_(draw(60, 4))
    return layer.train()


def _used(cls):
    """Return a layer with random running statistics as well."""
    layer = _made(cls)
    with torch.no_grad():
        layer.running_mean.copy_(3 + draw(71, 4)), layer.running_var.copy_(0.5 + draw(72, 4) ** 2)
    return layer


def _seen(layer, x):
    """Return output and gradients of one call; random upstream gradients, so that no part of them can hide."""
    x = x.clone().requires_grad_()
    given = x * 1  # in-place changes of a leaf raise
    y = layer(given)
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


_SPREADS = torch.tensor([1.0, 0.001, 20, 3], dtype=torch.float64)  # 0.001: where eps sits shows
_MATRIX = 5 * draw(81, 4) + _SPREADS * draw(82, 6, 4)  # (B, C)
_SECOND = draw(85, 4) + _SPREADS * draw(86, 6, 4)  # (B, C): the same shape, other numbers
_SERIES = draw(83, 4)[:, None] + _SPREADS[:, None] * draw(84, 3, 4, 5)  # (B, C, T)
_OUTLIERS = 1e4 + draw(87, 256, 4)  # (B, C): far from 0, and one entry of each channel far from the others
_OUTLIERS[7] += 30


def _run_training(x, **options):
    return lambda cls: _seen(_made(cls, **options), x)


def _run_two(cls):
    layer = _made(cls)
    layer(_MATRIX.clone())
    return _seen(layer, _SECOND)


def _run_without_grad(cls):
    layer = _used(cls)
    with torch.no_grad():
        return {"the output": layer(_MATRIX.clone())}


_TRAINING_PROBES = [
    Probe("a training batch (B, C) = (6, 4)", _run_training(_MATRIX), {"x": _MATRIX}),
    Probe("a training batch (B, C, T) = (3, 4, 5)", _run_training(_SERIES), {"x": _SERIES}),
    Probe("a training batch with eps = 0.1", _run_training(_MATRIX, eps=0.1), {"eps": 0.1, "x": _MATRIX}),
    # float64 around 1e4: two passes lose nothing, E[x^2] - E[x]^2 loses 1e8 times 2^-53
    Probe("256 rows around 1e4, the eighth 30 larger", _run_training(_OUTLIERS), {"x": _OUTLIERS}),
    Probe("the second of two training batches", _run_two, {"x": _SECOND}),
    Probe("a batch in train() under torch.no_grad()", _run_without_grad, {"x": _MATRIX}),
]


def _over(axes):
    """Return the edits by which a batch is normalized over other axes, with statistics that broadcast already."""
    stats = f"(x.mean({axes}, keepdim=True), x.var({axes}, correction=0, keepdim=True))"
    return f"_channel_stats(x) -> {stats} ; mean.view(shape) -> mean ; var.view(shape) -> var ; self.update(mean, var, n) -> pass"


_UPDATE = "self.update(mean, var, n)"
_BATCH_STATS = "mean, var = _channel_stats(x)"
_OUTSIDE = "torch.sqrt(var.view(shape) + self.eps) -> (torch.sqrt(var.view(shape)) + self.eps)"
_UNBIASED_FORWARD = f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x)[1] * n / (n - 1)"
_RUNNING = "mean, var = self.running_mean, self.running_var"

_IN_TRAINING = "training uses the running statistics. In train() a batch is normalized with its own mean and variance, the running ones are for eval()."
_OVER_T, _OVER_SAMPLE = _over("0 if x.dim() == 2 else 2"), _over("tuple(range(1, x.dim()))")
_ONLY_B = "for (B, C, T) only the batch is reduced. A channel has one mean over B and T."

_TRAINING_MISTAKES = known(
    _Layer,
    {
        _UNBIASED_FORWARD: "the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores the unbiased one.",
        _OUTSIDE: "eps is added to the deviation instead of the variance: sqrt(var + eps).",
        f"{_OUTSIDE} ; {_UNBIASED_FORWARD}": "eps is outside the root, and the variance is the unbiased one. Forward: biased, and sqrt(var + eps).",
        f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x)[1].sqrt()": "var holds the deviation, and the last lines take its root once more. Bind the variance itself.",
        "torch.sqrt( -> torch.rsqrt(": "rsqrt is 1 / sqrt already: multiply by it, or divide by sqrt.",
        "torch.sqrt(var.view(shape) + self.eps) -> (var.view(shape) + self.eps)": "the root is missing: x - mean is divided by sqrt(var + eps), not by the variance.",
        "mean.view -> mean.detach().view ; var.view -> var.detach().view": "mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x: only the buffers are updated without a gradient.",
        "mean.view -> mean.detach().view": "the gradient does not pass through the mean.",
        "var.view -> var.detach().view": "the gradient does not pass through the variance.",
        f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x * x)[0] - _channel_stats(x)[0] ** 2": "E[x^2] - E[x]^2 loses digits when the mean is large beside the spread. Subtract the mean first.",
        "if self.training or self.running_mean is None: -> if not self.training:": _IN_TRAINING,
        f"{_BATCH_STATS} -> {_RUNNING}": _IN_TRAINING,
        f"{_BATCH_STATS} -> old = self.running_mean.clone(), self.running_var.clone(); {_BATCH_STATS} ; {_UPDATE} -> {_UPDATE}; mean, var = old": _IN_TRAINING,
        f"{_UPDATE} -> {_UPDATE}; {_RUNNING}": "training uses the running statistics, just updated. In train() a batch is normalized with its own mean and variance.",
        "self.training -> torch.is_grad_enabled()": "you ask whether gradients are recorded. Ask self.training: train() under no_grad() is still training, and eval() with gradients is still evaluation.",
        _over("0"): _ONLY_B,
        "_channel_stats(x) -> (x.mean(0), x.var(0, correction=0))": "on (B, C, T) mean and var do not fit. Bind one number for each channel, (C,), over B and T; view(shape) puts it beside axis 1 of x.",
        _OVER_T: "for (B, C, T) only T is reduced, so every sample has its own: that is InstanceNorm.",
        _OVER_SAMPLE: "each sample is normalized by itself, as in LayerNorm. BatchNorm keeps axis 1 and reduces the others.",
        _over("tuple(range(x.dim()))"): "one mean for the whole batch. Each channel needs its own.",
        "if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape) -> ": "weight and bias are not applied.",
    },
)


def _run_steps(*shapes, **options):
    def run(cls):
        layer = _made(cls, **options)
        for seed, shape in enumerate(shapes):
            layer(2 + _SPREADS.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape))
        return _stored(layer)

    return run


_BUFFER_PROBES = [
    Probe("three training batches of 6, 2 and 5 rows", _run_steps((6, 4), (2, 4), (5, 4)), {"momentum": 0.1}),
    Probe("a training batch (B, C, T) = (3, 4, 5)", _run_steps((3, 4, 5))),
    Probe("a training batch (B, C, T) = (1, 4, 2)", _run_steps((1, 4, 2))),
    Probe("two training batches with momentum 0.3", _run_steps((6, 4), (3, 4), momentum=0.3), {"momentum": 0.3}),
    Probe("two training batches with momentum=None", _run_steps((6, 4), (3, 4), momentum=None), {"momentum": None}),
]

_ROUND = "momentum is the other way round"
_OLD_WEIGHT = f"{_ROUND}. In PyTorch it is the weight of the NEWEST batch, 0.1, not of the old value."
_N_IS_BT = "n is not the number of rows alone: a channel of (B, C, T) has n = B * T entries."

_BUFFER_MISTAKES = [
    *known(
        _Layer,
        {
            f"{_UPDATE} -> pass": "the buffers never change. In train() each batch updates them.",
            f"{_UPDATE} -> self.num_batches_tracked += 1": "running_mean and running_var never change; the batches are only counted.",
            f"{_UPDATE} -> self.update(mean, var * (n - 1) / n, n)": "running_var takes in the biased variance. PyTorch stores the unbiased one: var * n / (n - 1).",
            f"{_UPDATE} -> self.update(mean, var * n / (n - 1), n)": "n / (n - 1) is applied twice: is your var unbiased already, or does update() do it again?",
            f"{_UPDATE} -> self.update(mean, var, len(x))": _N_IS_BT,
            "n = x.numel() // self.num_features -> n = len(x)": _N_IS_BT,
            "if n == 1 -> if len(x) == 1": "a single row is refused although each of its channels has several time steps. What must be above 1 is the number of entries per channel, n.",
            f"{_UPDATE} -> {_UPDATE}; self.num_batches_tracked += 1": "num_batches_tracked is counted twice: update() counts already.",
        },
    ),
    Mistake(_OLD_WEIGHT, _updating(_REVERSED)),
    Mistake(f"{_ROUND}, and running_var takes in the biased variance.", _updating(f"{_REVERSED} ; {_BIASED}")),
]


def _run_evaluation(x, grad=True):
    def run(cls):
        layer = _used(cls).eval()
        with torch.set_grad_enabled(grad):
            seen = _seen(layer, x) if grad else {"the output": layer(x.clone())}
        return seen | {f"{name} after evaluation": value for name, value in _stored(layer).items()}

    return run


_EVALUATION_PROBES = [
    Probe("a batch in eval()", _run_evaluation(_MATRIX), {"x": _MATRIX}),
    Probe("a batch (B, C, T) in eval() under no_grad()", _run_evaluation(_SERIES, grad=False)),
    Probe("a single sample in eval()", _run_evaluation(_MATRIX[:1]), {"x": _MATRIX[:1]}),
]

_ALWAYS_BATCH = "if self.training or self.running_mean is None: -> if True:"
_ALWAYS_UPDATE = "if self.training and self.running_mean is not None: -> if self.running_mean is not None:"
_ONE_PASSES = "if n == 1 -> if self.training and n == 1"
_LEAK = "evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer."
_OF_THE_BATCH = "evaluation uses the statistics of the batch. In eval() the running ones stand in for them."

_EVALUATION_MISTAKES = known(
    _Layer,
    {
        _ALWAYS_BATCH: _OF_THE_BATCH,
        f"{_ALWAYS_BATCH} ; {_ONE_PASSES}": _OF_THE_BATCH,
        f"{_ALWAYS_BATCH} ; {_ALWAYS_UPDATE}": _LEAK,
        f"{_ALWAYS_BATCH} ; {_ALWAYS_UPDATE} ; {_ONE_PASSES}": _LEAK,
        f"{_RUNNING} -> mean, var = self.running_mean.clone(), self.running_var.clone(); self.update(*_channel_stats(x), n)": "the buffers are updated in eval(): test data leak into the layer. Update them only in train().",
        _ALWAYS_UPDATE: "the buffers are updated in eval() too, with their own values. Update them only in train().",
        "else:\n -> elif n == 1:\n            raise ValueError('one entry')\n        else:\n": "a single sample is refused in eval() as well. It needs no neighbors there: refuse it only where the batch's own statistics are used.",
    },
)


def _run_names(cls):
    layer = cls(4)
    return {
        "the names in state_dict()": sorted(layer.state_dict()),
        "the names of the parameters": sorted(name for name, _ in layer.named_parameters()),
        **{f"{name} at the start": parameter.detach() for name, parameter in layer.named_parameters()},
        "eps": layer.eps,
        "momentum": layer.momentum,
        "running_mean.dtype after .double()": str(layer.double().running_mean.dtype),
    }


def _run_exchange(cls):
    theirs, back = nn.BatchNorm1d(4, dtype=torch.float64), cls(4, dtype=torch.float64)
    theirs.load_state_dict(_used(cls).state_dict())
    back.load_state_dict(theirs.state_dict())
    stored = {f"{name} in nn.BatchNorm1d": item.clone() for name, item in theirs.state_dict().items()}
    return stored | {"the output": back.eval()(_MATRIX)}


def _run_graph_kept(cls):
    layer, x = _made(cls), _MATRIX.clone().requires_grad_()
    layer(x), layer(x + 1)
    return {f"{name}.requires_grad": getattr(layer, name).requires_grad for name in ("running_mean", "running_var")}


def _outcome(make, x):
    """Return the name of the error that a layer of make raises on x, in words."""
    try:
        make()(x.clone())
    except Exception as error:
        return raised(error).kind.__name__
    return "no error"


def _run_one(cls):
    layer, refusing = _used(cls), lambda: layer
    return {
        "one row in train()": _outcome(refusing, _MATRIX[:1]),
        "one row of one step in train()": _outcome(refusing, _SERIES[:1, :, :1]),
        "running_mean after these refusals": layer.running_mean.clone(),
        "running_var after these refusals": layer.running_var.clone(),
        "one row of five steps in train()": _outcome(lambda: _made(cls), _SERIES[:1]),
        "one row in eval()": _outcome(lambda: _made(cls).eval(), _MATRIX[:1]),
    }


def _run_shapes(cls):
    return {
        "input with 1 axis": _outcome(lambda: _made(cls), draw(1, 4)),
        "input with 4 axes": _outcome(lambda: _made(cls), draw(1, 3, 4, 2, 2)),
    }


def _run_plain(cls):
    layer = _made(cls, affine=False)
    return {"the names of the parameters": [name for name, _ in layer.named_parameters()], **_seen(layer, _MATRIX)}


def _run_untracked(cls):
    layer = _made(cls, track_running_stats=False)
    seen = {"the names in state_dict()": sorted(layer.state_dict()), **_seen(layer, _MATRIX)}
    layer.eval()
    one = {"one row in eval()": _outcome(lambda: layer, _MATRIX[:1])}
    return seen | {"the output in eval()": layer(_MATRIX.clone())} | one


def _run_float32(cls):
    layer = _made(cls, dtype=torch.float32)
    return {"the output": layer(_MATRIX.float()), **_stored(layer)}


_MODULE_PROBES = [
    Probe("a new layer", _run_names, {"num_features": 4}),
    Probe("an exchange of state_dict() with nn.BatchNorm1d", _run_exchange),
    Probe("two training batches with gradients", _run_graph_kept),
    Probe("a batch of one", _run_one),
    Probe("inputs with another number of axes", _run_shapes),
    Probe("affine=False", _run_plain),
    Probe("track_running_stats=False", _run_untracked),
    # float32 against float32: the channel of spread 0.001 around 5 has 1e-7 * 5 / 0.001 = 5e-4 of rounding, over sqrt(eps)
    Probe("float32", _run_float32, tolerance=1e-3),
]


class _PlainAttributes(_Layer):
    def __init__(self, num_features, *args, **kwargs):
        super().__init__(num_features, *args, **kwargs)
        for name in list(self._buffers):
            value = self._buffers.pop(name)
            setattr(self, name, value)


_MEMORY_GROWS = "the buffers are part of the graph: every step keeps all earlier ones alive, and memory grows. Update them under torch.no_grad()."
_UNTRACKED = "without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is nothing to update."
_NONE_IN_EVAL = "if self.training or self.running_mean is None: -> if self.training:"
_NONE_IN_UPDATE = "if self.training and self.running_mean is not None: -> if self.training:"

_MODULE_MISTAKES = [
    Mistake(_NOT_REGISTERED, _PlainAttributes),
    Mistake(_MEMORY_GROWS, _updating(_GRAPH)),
    *known(
        _Layer,
        {
            "if n == 1 -> if False": "one value per channel has no spread: its output is the bias, whatever goes in, and n - 1 is 0. Raise a ValueError in train(), as PyTorch does.",
            "if n == 1 -> if False ; self.update( -> 1 / (n - 1); self.update(": "one value per channel has no unbiased variance, n - 1 is 0. Raise a ValueError that says so, before the division.",
            "if n == 1: -> if n == 1 and self.running_mean is not None: self.update(*_channel_stats(x), n)\n            if n == 1:": "the batch is refused too late: the buffers have taken it in, and hold nan from then on. Raise the error before the update.",
            "if n == 1 -> if self.training and n == 1": "without running statistics eval() uses the batch's own as well: refuse a batch of one there, too.",
            _NONE_IN_EVAL: _UNTRACKED,
            _NONE_IN_UPDATE: _UNTRACKED,
        },
    ),
]


def batch_norm(answer):
    """Check a class BatchNorm1d against nn.BatchNorm1d: forward, buffers, evaluation, module (lesson 6)."""
    stages = [
        (_TRAINING_PROBES, _TRAINING_MISTAKES, "training"),
        (_BUFFER_PROBES, _BUFFER_MISTAKES, "the buffers"),
        (_EVALUATION_PROBES, _EVALUATION_MISTAKES, "evaluation"),
        (_MODULE_PROBES, _MODULE_MISTAKES, "the rest"),
    ]
    tried = "training, buffers, evaluation, state_dict, errors"
    right = f"{{answer.__name__}} does what nn.BatchNorm1d does in {{count}} trials ({tried})"
    in_stages(answer, "batch_norm", stages, nn.BatchNorm1d, right, by_hand=("batch_norm",))


# ------------------------------------------------------------------------------------ 6.4: which axes


def reduced_axes(answer):
    """Check the axes and counts of four norms; axes in any order, negative ones allowed (lesson 6)."""
    expected = {
        "axes, BatchNorm on (B, C, T)": (0, 2),
        "axes, BatchNorm on (B, C, H, W)": (0, 2, 3),
        "axes, InstanceNorm on (B, C, H, W)": (2, 3),
        "axes, LayerNorm([C, H, W]) on (B, C, H, W)": (1, 2, 3),
        "means, GroupNorm with 2 groups on (8, 6, 5, 4)": 16,
        "buffer numbers, BatchNorm with 6 channels": 13,
    }
    bn3, bn4, inst, layer, group, buffers = expected
    causes = [
        (bn3, (0,), "Then every time step would have a mean of its own. BatchNorm keeps the channels only."),
        (bn3, (0, 1), "That keeps T. BatchNorm keeps the channels, axis 1."),
        (bn3, (2,), "That is one mean for each sample and channel: InstanceNorm."),
        (bn3, (1,), "Axis 1 is the channels: the axis that BatchNorm keeps."),
        (bn3, (1, 2), "That is LayerNorm([C, T]): a mean for each sample."),
        (bn3, (0, 1, 2), "Then one mean would be left for everything. BatchNorm keeps the channels."),
        (bn4, (0, 1, 2, 3), "Then one mean would be left for everything. BatchNorm keeps the channels."),
        (bn4, (0, 1), "That keeps the pixels. BatchNorm keeps the channels, axis 1, and reduces all others."),
        (bn4, (0,), "Then every pixel would have a mean of its own. BatchNorm keeps the channels only."),
        (bn4, (1,), "Axis 1 is the channels: the axis that BatchNorm keeps."),
        (bn4, (1, 2, 3), "That is LayerNorm([C, H, W]): a mean for each image."),
        (bn4, (2, 3), "That is one mean for each image and channel: InstanceNorm. BatchNorm pools the images too."),
        (inst, (0, 2, 3), "That is BatchNorm. InstanceNorm keeps every sample (the instance) apart as well."),
        (inst, (1, 2, 3), "That is LayerNorm([C, H, W]). InstanceNorm keeps the channels apart as well."),
        (inst, (1,), "Axis 1 is the channels, which InstanceNorm keeps apart. It reduces the pixels: H and W."),
        (inst, (0,), "Axis 0 is the batch: InstanceNorm keeps every sample (the instance) apart."),
        (inst, (0, 1), "Those are the axes it keeps."),
        (layer, (1,), "That is one mean for each pixel. normalized_shape names three axes: C, H and W."),
        (layer, (0,), "Axis 0 is the batch, which LayerNorm never reduces: it keeps that axis alone."),
        (layer, (0, 2, 3), "That is BatchNorm. LayerNorm never reduces the batch."),
        (layer, (2, 3), "normalized_shape names three axes: C, H and W."),
        (layer, (0, 1, 2, 3), "LayerNorm never reduces the batch."),
        (group, 2, "Each of the 8 samples has its own 2 groups."),
        (group, 12, "2 groups for each of 8 samples: a group pools its channels and all pixels."),
        (group, 8, "That would be one group. With 2, each sample has two means."),
        (group, 24, "Groups OF 2 channels would give that. Here the 6 channels form 2 groups of 3."),
        (group, 48, "That is one for each sample and channel: InstanceNorm. A group pools 3 channels."),
        (group, 320, "The pixels are pooled too: 8 samples times 2 groups."),
        (group, 60, "That is how many entries share a mean. Asked is how many means come out."),
        (buffers, 12, "The two vectors are right. One number more is counted: num_batches_tracked."),
        (buffers, 2, "Two vectors of 6 numbers each, and one number that counts the batches."),
        (buffers, 18, "The count of batches is a single number, not one for each channel."),
        (buffers, 24, "weight and bias are parameters, not buffers."),
        (buffers, 25, "weight and bias are parameters, not buffers."),
        (buffers, 3, "Three buffers, but two of them are vectors of 6 numbers."),
        (buffers, 6, "A running mean and a running variance, each with 6 numbers, and the count of batches."),
        (buffers, 0, "That is LayerNorm. BatchNorm must remember something for evaluation."),
    ]
    if isinstance(answer, dict):
        answer = {key: _axes(value, key, expected) for key, value in answer.items()}
    values(answer, "reduced_axes", expected, causes)


def _axes(value, key, expected):
    """Return axes in ascending order, counted from the front; anything else as it is."""
    if not isinstance(expected.get(key), tuple):
        return value
    value = (value,) if type(value) is int else value
    if not isinstance(value, (tuple, list, set)) or not all(type(axis) is int for axis in value):
        reject(f"{key}: {value!r} is not a tuple of axis numbers like (0, 2).")
    axes = key.rpartition(" on ")[2].count(",") + 1
    if not all(-axes <= axis < axes for axis in value):
        reject(f"{key}: {value!r} names an axis that does not exist: they count from 0 to {axes - 1}.")
    return tuple(sorted({axis % axes for axis in value}))


# ------------------------------------------------------------------------------------ 6.5: the clinic


def _regions(x, norm):
    return norm(x.transpose(1, 2)).transpose(1, 2)


def _norm(features, dtype):
    """Return a BatchNorm1d with random parameters and running statistics."""
    norm = nn.BatchNorm1d(features, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.5 * draw(31, features)), norm.bias.copy_(draw(32, features))
        norm.running_mean.copy_(draw(35, features)), norm.running_var.copy_(0.5 + draw(37, features) ** 2)
    return norm.to(dtype)


def _region_probe(label, shape, seed, dtype=torch.float64, training=True, tolerance=1e-9):
    x = (draw(seed, *shape) * (1 + torch.arange(shape[2]).double()) + 3 * draw(seed + 1, shape[2])).to(dtype)

    def run(answer):
        norm, leaf = _norm(shape[2], dtype).train(training), x.clone().requires_grad_()
        given = leaf.clone()
        y = answer(given, norm)
        seen = {"x after the call": given.detach(), "the result": y}
        if isinstance(y, torch.Tensor) and y.is_floating_point():
            leaves = {"x": leaf, "norm.weight": norm.weight, "norm.bias": norm.bias}
            loss = (y * draw(33, *y.shape).to(y.dtype)).sum()
            seen |= gradients(loss, leaves) if y.requires_grad else {"gradient of x": "no gradient"}
        seen |= {"norm.running_mean": norm.running_mean.clone(), "norm.running_var": norm.running_var.clone()}
        return seen | {"norm.training": norm.training}

    return Probe(label, run, {"x": x}, tolerance)


_REGION_PROBES = [
    _region_probe("(B, R, D) = (4, 5, 8)", (4, 5, 8), 34),
    _region_probe("(B, R, D) = (8, 8, 8)", (8, 8, 8), 36),
    # float32 against float32: two orders of summing 6 numbers of order 10
    _region_probe("(B, R, D) = (3, 2, 6) in float32", (3, 2, 6), 38, torch.float32, tolerance=1e-5),
    _region_probe("(B, R, D) = (2, 7, 8) in eval()", (2, 7, 8), 40, training=False),
]

_THERE = "norm(x.transpose(1, 2))"
_BACK = f"{_THERE}.transpose(1, 2)"
_NEW = "nn.BatchNorm1d(x.shape[1], dtype=x.dtype)"
_NEW_FOR_REGIONS = (
    "a new layer for the regions is what the patient does. Use the given one, and put the D features on axis 1."
)
_NEW_FOR_FEATURES = "a new layer has a gain, a bias and running statistics of its own. Use the given one, norm."

_REGION_MISTAKES = known(
    _regions,
    {
        f"{_BACK} -> norm(x.reshape(len(x), x.shape[2], x.shape[1])).reshape(x.shape)": "reshape and view regroup the numbers as they lie in memory; they do not move an axis. Use transpose(1, 2).",
        f"{_BACK} -> {_THERE}": "the features were moved to axis 1, but not back.",
        f"{_BACK} -> {_THERE}.reshape(x.shape)": "reshape and view regroup the numbers; they do not move an axis back. Use transpose(1, 2) there as well.",
        f"{_BACK} -> norm(x)": "axis 1 of what norm gets holds the regions, so they are taken for the channels (silent if R = D). Put the D features there.",
        "transpose(1, 2) -> transpose(0, 1)": "transpose(0, 1) puts the samples on axis 1. Put the D features there, with transpose(1, 2).",
        f"{_BACK} -> {_NEW}(x)": _NEW_FOR_REGIONS,
        f"{_BACK} -> {_NEW}.train(norm.training)(x)": _NEW_FOR_REGIONS,
        "norm(x.tr -> nn.BatchNorm1d(x.shape[2], dtype=x.dtype)(x.tr": _NEW_FOR_FEATURES,
        "norm(x.tr -> nn.BatchNorm1d(x.shape[2], dtype=x.dtype).train(norm.training)(x.tr": _NEW_FOR_FEATURES,
        f"{_BACK} -> torch.stack([norm(x[:, r]) for r in range(x.shape[1])], 1)": "each region gets its own statistics, and the running ones are updated R times. A feature has one mean, over samples and regions.",
        f"{_BACK} -> torch.stack([norm(sample) for sample in x])": "each sample gets its own statistics. A feature has one mean, over samples and regions.",
        f"{_THERE} -> nn.functional.instance_norm(x.transpose(1, 2), weight=norm.weight, bias=norm.bias)": "that is InstanceNorm: a mean for each feature of each sample. A feature has one mean, over samples and regions.",
        f"{_BACK} -> nn.functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)": "that is LayerNorm: a mean for each region of each sample. Asked is BatchNorm, with the given layer.",
        f"{_BACK} -> norm(x.mean(1))[:, None].expand(x.shape)": "the regions are averaged away. Every region keeps its own output.",
        f"{_BACK} -> norm(x.flatten(0, 1))": "the rows of features are normalized, but not brought back: .view(x.shape).",
        "norm(x -> norm.eval()(x": "norm.eval() changes the layer that you were given. Leave its mode as it is.",
        "norm(x -> norm.train()(x": "norm.train() changes the layer that you were given. Leave its mode as it is.",
        f"{_THERE} -> nn.functional.batch_norm(x.transpose(1, 2), None, None, norm.weight, norm.bias, True, 0.1, norm.eps)": "the running statistics are neither updated nor used. Call norm itself: it does both.",
    },
)


def normalize_regions(answer):
    """Check a function (x, norm) that applies nn.BatchNorm1d(D) to the D features of x (B, R, D) (lesson 6)."""
    tried = "R = D and R ≠ D, train and eval, the running statistics, gradients"
    examine(answer, "normalize_regions", _REGION_PROBES, _regions, _REGION_MISTAKES, tried)


# ------------------------------------------------------------------------------------ 6.6: several devices


def _pool(means, variances, counts):
    share = (counts / counts.sum())[:, None]
    mean = (share * means).sum(0)
    var = (share * (variances + (means - mean) ** 2)).sum(0)
    return mean, var


def _pool_probe(label, means, variances, counts, tolerance=1e-9):
    names = ("means", "variances", "counts")
    return call(label, means, variances, torch.tensor(counts), names=names, returns=_STATS, tolerance=tolerance)


_FAR = torch.tensor([[-2.0], [2]]).double(), torch.tensor([[1.0], [1.1]]).double()
_ALIKE = draw(43, 1, 2).expand(3, 2).clone(), draw(44, 3, 2) ** 2

_POOL_PROBES = [  # shares of 1/16 are exact: whole numbers divided give float32 in torch
    _pool_probe("two devices with means -2 and +2", *_FAR, [16, 16]),
    _pool_probe("three devices with 8, 4 and 20 rows", draw(41, 3, 5), draw(42, 3, 5) ** 2, [8, 4, 20]),
    _pool_probe("three devices with the same mean", *_ALIKE, [16, 8, 8]),
    # sums of three numbers of order 1 in float32, in any order
    _pool_probe("float32", draw(45, 3, 5).float(), draw(46, 3, 5).float() ** 2, [2, 4, 2], tolerance=2e-6),
]

_SHARE = "(counts / counts.sum())[:, None]"
_BETWEEN = "(share * (variances + (means - mean) ** 2)).sum(0)"
_RETURN = "return mean, var"
_EQUAL_IN_MEAN = "the devices' means have the same weight in mean. Weigh each by its share of the rows."
_EQUAL_BETWEEN = "in the spread between the devices every device has the same weight, or it is divided by K - 1. Weigh (means - mean)^2 by the share of the rows."
_SUMS = "the sums are not divided by the number of rows."

_POOL_MISTAKES = known(
    _pool,
    {
        " + (means - mean) ** 2 -> ": "only the variances are averaged. The devices differ in their means, and that is spread as well: add (means - mean)^2 before you average.",
        f"{_SHARE} -> 1 / len(counts)": "every device has the same weight. Weigh each by its share of the rows.",
        f"{_RETURN} -> return means.mean(0), var": _EQUAL_IN_MEAN,
        "mean = (share * means).sum(0) -> mean = means.mean(0)": _EQUAL_IN_MEAN,
        f"{_BETWEEN} -> (share * variances).sum(0) + means.var(0)": _EQUAL_BETWEEN,
        f"{_BETWEEN} -> (share * variances).sum(0) + means.var(0, correction=0)": _EQUAL_BETWEEN,
        "(means - mean) ** 2 -> means ** 2": "the mean of the squares still holds the square of the mean: subtract mean^2.",
        f"{_SHARE} -> 1 / len(counts) ;  + (means - mean) ** 2 -> ": "every device has the same weight, and only the variances are averaged. Weigh by rows, and add (means - mean)^2.",
        "(variances + (means - mean) ** 2) -> (means - mean) ** 2": "only the distances between the means are counted. The spread inside each device belongs to it as well.",
        f"{_RETURN} -> return mean, var * counts.sum() / (counts.sum() - 1)": "the variance is divided by n - 1. Asked is the biased one, as in the forward pass.",
        f"{_RETURN} -> return mean, var.sqrt()": "var is the standard deviation. Leave the root away.",
        f"{_RETURN} -> return mean * counts.sum(), var * counts.sum()": _SUMS,
        f"{_SHARE} -> counts[:, None]": _SUMS,
    },
)


def pooled_stats(answer):
    """Check a function (means, variances, counts) -> (mean, var) of all rows together (lesson 6)."""
    examine(
        answer,
        "pooled_stats",
        _POOL_PROBES,
        _pool,
        _POOL_MISTAKES,
        tried="equal and unequal devices, float32, gradients",
    )

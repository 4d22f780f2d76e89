"""Checks of lesson 6: BatchNorm step by step, the axes of four norms, BatchNorm on sequences, several devices."""

import itertools

import torch
from torch import nn

from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.mistakes import Mistake, edited, known
from lessonkit.check.probing import Probe, call, draw, gradients, in_float64, raised
from lessonkit.check.quizzes import values
from lessonkit.check.verdicts import reject

_STATS = ("mean", "var")


def _together(faults):
    """Return {edits: cause} for every choice of faults, {edits: cause}, so that two slips at once get both causes."""
    choices = [chosen for k in range(len(faults)) for chosen in itertools.combinations(faults.items(), k + 1)]
    return {" ; ".join(edits for edits, _ in c): " And ".join(cause for _, cause in c) for c in choices}


# 6.1: statistics of channels
def _channel_stats(x):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean, var = x.mean(axes), x.var(axes, correction=0)
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

_VAR = "x.var(axes, correction=0)"
_BOTH = f"x.mean(axes), {_VAR}"
_RETURN = "return mean, var"
_REGROUPED = "reshape cuts the numbers into pieces as they lie in memory; it does not move axis 1. Write transpose(0, 1), then flatten(1)."
_BY_B = "the sums are divided by B (or B - 1). A channel of (B, C, T) has B * T entries."
_ONE_PASS = "E[x^2] - E[x]^2 loses digits when the mean is far larger than the deviation. Subtract the mean first."
_ROOT = "var is the standard deviation. Leave the root away."
_SHAPE_OFF = {
    "(axes -> (axes, keepdim=True": "the reduced axes are kept. Wanted is the shape (C,): drop keepdim, or squeeze.",
    "correction=0 -> correction=1": "the variance is divided by n - 1 (torch.var's default). BatchNorm's forward pass divides by n.",
}
_OTHER_AXES = {
    "axis != 1 -> axis == x.dim() - 1": "the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others.",
    "axis != 1 -> axis != 0": "each sample gets a mean of its own: axis 0 is kept. Bring the channels to axis 0 first, with transpose(0, 1).",
    "axis != 1 -> axis == 0": "only the batch is reduced, so every time step has a mean of its own. The C numbers are over B and T.",
    "axis != 1 -> axis == 1": "the channels themselves are reduced. Axis 1 is the one to keep.",
    "axis != 1 -> axis < x.dim() - 1": "all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.",
    "axis != 1 -> axis in (0, x.dim() - 1)": "axis -1 of a matrix (B, C) is the channels. Reduce axis 0 and, where there is one, axis 2.",
    " if axis != 1 -> ": "one mean for everything. Each channel needs its own.",
}

_CHANNEL_ROWS = {
    **{row: why for axes in _OTHER_AXES.items() for row, why in _together(dict([axes]) | _SHAPE_OFF).items()},
    **_together(_SHAPE_OFF | {f"{_RETURN} -> return var, mean": "mean and var are swapped: return mean first."}),
    **_together(_SHAPE_OFF | {f"{_RETURN} -> return mean, var.sqrt()": _ROOT}),
    f"{_RETURN} -> return mean[:, None], var[:, None]": "the mean has the shape (C, 1). Wanted is (C,): squeeze the last axis.",
    f"{_RETURN} -> return mean, var[:, None]": "mean is right, but var has the shape (C, 1). Squeeze both.",
    f"{_RETURN} -> return mean.squeeze(), var.squeeze()": "squeeze() without an axis drops the channels too if C = 1. Say squeeze(-1).",
    f"{_BOTH} -> x.reshape(x.shape[1], -1).mean(1), x.reshape(x.shape[1], -1).var(1, correction=0)": _REGROUPED,
    f"{_BOTH} -> x.reshape(-1, x.shape[1]).mean(0), x.reshape(-1, x.shape[1]).var(0, correction=0)": _REGROUPED,
    f"{_BOTH} -> x.transpose(0, 1).reshape(-1, x.shape[1]).mean(0), x.transpose(0, 1).reshape(-1, x.shape[1]).var(0, correction=0)": _REGROUPED,
    f"{_BOTH} -> x.transpose(0, 1).mean(-1), x.transpose(0, 1).var(-1, correction=0)": "only T is reduced: after transpose(0, 1), B and T are still two axes. Join them, with flatten(1).",
    f"{_BOTH} -> x.mean((0, 2)), x.var((0, 2), correction=0)": "a matrix (B, C) has no axis 2. Reduce it only where there is one.",
    f"{_BOTH} -> x.T.mean(-1), x.T.var(-1, correction=0)": "x.T turns all axes around: (T, C, B), of which only B is reduced. Write transpose(0, 1), then flatten(1).",
    f"{_VAR} -> x.var(0, correction=0).view(x.shape[1], -1).mean(-1)": "the variances of the time steps are averaged. The steps differ in their means as well: take the variance over B and T together.",
    f"{_VAR} -> x.var(axes[-1], correction=0).view(-1, x.shape[1]).mean(0)": "the variances of the samples are averaged. The samples differ in their means as well: take the variance over B and T together.",
    f"{_VAR} -> (x * x).mean(axes) - x.mean(axes) ** 2": _ONE_PASS,
    f"{_VAR} -> (x * x).mean(axes)": "the mean is not subtracted before squaring.",
    f"mean, var = {_BOTH} -> m = x.sum(axes, keepdim=True) / len(x); mean, var = m.flatten(), ((x - m) ** 2).sum(axes) / len(x)": _BY_B,
    f"{_VAR} -> {_VAR} * x[:, 0].numel() / (len(x) - 1)": _BY_B,
    f"{_VAR} -> {_VAR} * x[:, 0].numel()": "the sum of the squares is not divided by the number of entries.",
    f"{_RETURN} -> return mean, var + 1e-5": "eps is not part of the variance. It comes in when something is divided.",
}
_CHANNEL_MISTAKES = known(_channel_stats, _CHANNEL_ROWS)


def channel_stats(answer):
    """Check a function x, (B, C) or (B, C, T) -> (mean, var), both (C,), var biased (lesson 6)."""
    tried = "(B, C) and (B, C, T), float32 and float64, gradients"
    examine(answer, "channel_stats", _CHANNEL_PROBES, in_float64(_channel_stats), _CHANNEL_MISTAKES, tried)


# 6.2: running statistics
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


def _recording(made):
    """Return whether what has flowed into the buffers is part of a graph."""
    return {"whether a buffer requires a gradient": made.running_mean.requires_grad or made.running_var.requires_grad}


def _run_graph(cls):
    made, mean = cls(3, dtype=torch.float64), draw(14, 3).requires_grad_()
    made.update(mean * 2, mean * mean, 5)
    return _recording(made)


_NOT_REGISTERED = 'a plain attribute is not saved, not loaded and not moved with the layer. Say self.register_buffer("running_mean", ...), and so for all three.'
_PARAMETERS = "the buffers are parameters: an optimizer would get them, frozen or not. Use register_buffer."
_NAMES = ("running_mean", "running_var", "num_batches_tracked")
_PLAIN = _together({f'register_buffer("{name}", -> {name} = (': name for name in _NAMES})
_HANDED = "not handed on: torch.zeros(num_features, device=device, dtype=dtype)."
_START = "a new layer should leave its input alone: running_mean starts at 0, running_var at 1."
_SHAPE = "both have the shape (C,), a number for each channel: torch.zeros(num_features, ...)."

_REGISTERED_ROWS = {
    **dict.fromkeys(_PLAIN, _NOT_REGISTERED),
    **{row.replace("= (", "= nn.Parameter("): _PARAMETERS for row in _PLAIN if "num_batches" not in row},
    "dtype=dtype)) -> dtype=dtype), persistent=False)": "persistent=False keeps a buffer out of state_dict(): it would not be saved. Leave it away.",
    "num_features, device=device, dtype=dtype -> num_features, device, dtype": "torch takes what has no name as sizes. Name both: torch.zeros(num_features, device=device, dtype=dtype).",
}

_START_ROWS = {
    "torch.ones -> torch.zeros": _START,
    "torch.zeros -> torch.ones": _START,
    "torch.zeros -> torch.other ; torch.ones -> torch.zeros ; torch.other -> torch.ones": _START,
    "(num_features, device -> ((1, num_features), device": _SHAPE,
    "(num_features, device -> ((), device": _SHAPE,
    ", dtype=dtype)) -> ))": f"dtype is {_HANDED}",
    "features, device=device -> features": f"device is {_HANDED}",
    "features, device=device, dtype=dtype -> features": f"device and dtype are {_HANDED}",
}

_TURNED = "momentum is the other way round. In PyTorch it is the weight of the NEWEST batch; the old value keeps 1 - momentum."
_TURNED_IN = [f"(1 - m) * self.{name} + m -> m * self.{name} + (1 - m)" for name in _NAMES[:2]]
_BIASED = " * n / (n - 1) -> "
_UPDATED_WRONG = {
    " ; ".join(_TURNED_IN): _TURNED,
    _BIASED: "the biased variance goes into the buffer. PyTorch stores the unbiased one: var * n / (n - 1).",
}
_COUNTED = "num_batches_tracked is counted twice for each batch."

_UPDATE_ROWS = {
    **_together(_UPDATED_WRONG),
    **dict.fromkeys(_TURNED_IN, _TURNED),
    "m * mean -> m * mean * n / (n - 1)": "the mean has no factor n / (n - 1). Only the variance has a biased and an unbiased form.",
    "(1 - m) * self.running_var + m * var -> ((1 - m) * self.running_var + m * var)": "the old variance is multiplied by n / (n - 1) as well, with every batch once more. Only the newest one gets the factor.",
    "n / (n - 1) -> n / n - 1": "var * n / n - 1 subtracts 1 at the end. Write the brackets: var * n / (n - 1).",
    "self.running_var.copy_( -> (": "running_var does not change. It follows the same formula as running_mean, with var * n / (n - 1).",
    "(self, mean, var, n) -> (self, var, mean, n)": "mean and var are swapped.",
    "n / (n - 1) -> (n - 1) / n": "n / (n - 1) is upside down: the unbiased variance is the larger one.",
    "var * n / (n - 1) -> (var * n / (n - 1)).sqrt()": "running_var holds a standard deviation. Average the variances.",
    ".copy_( -> .add(": "the buffers do not change. Assign to self.running_mean and self.running_var, or use copy_.",
    "(1 - m) * self -> self": "the old value keeps its full weight, so that the sum grows without end. It gets 1 - momentum.",
    "(1 - m) * self -> 0 * self ; + m * -> +": "only the newest batch is left. The old value keeps the weight 1 - m, and the newest gets m.",
    "with torch.no_grad -> self.num_batches_tracked += 1\n        with torch.no_grad": _COUNTED,
}

_NO_NUMBER = "use m, the line above has made it: with momentum=None it is 1 / num_batches_tracked, and self.momentum is no number."
_ITEM = "1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum -> self.momentum"
_GRAPH = "no_grad() -> enable_grad() ; .copy_( -> = ("
_KEPT_ALIVE = "the buffers are part of the graph: every step keeps all earlier ones alive, and memory grows. Update them under torch.no_grad()."

_NEW_PROBES = [Probe("a new one for 3 channels", _run_registered, {"num_features": 3})]
_UPDATE_PROBES = [
    _updates("three updates from batches of 4, 9 and 2", 0.1),
    _updates("three with another momentum", 0.4),
]
_RUNNING_STAGES = [
    (_NEW_PROBES, known(_Running, _REGISTERED_ROWS), "the buffers"),
    ([Probe("a new one for 3 channels in float64", _run_new)], known(_Running, _START_ROWS), "the buffers"),
    (_UPDATE_PROBES, known(_Running, _UPDATE_ROWS), "update"),
    ([_updates("three updates without momentum", None)], known(_Running, {_ITEM: _NO_NUMBER}), "update"),
    ([Probe("a mean that has a gradient", _run_graph)], known(_Running, {_GRAPH: _KEPT_ALIVE}), "update"),
]


def running_statistics(answer):
    """Check a class that keeps running_mean, running_var and num_batches_tracked as buffers (lesson 6)."""
    right = "{answer.__name__} keeps its buffers as nn.BatchNorm1d does (three momenta, names, dtypes, no graph)"
    in_stages(answer, "running_statistics", _RUNNING_STAGES, _Running, right)


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


@torch.no_grad()
def _run_without_grad(cls):
    return {"the output": _used(cls)(_MATRIX.clone())}


_TRAINING_PROBES = [
    _training("a training batch (B, C) = (6, 4)", _MATRIX),
    _training("a training batch (B, C, T) = (3, 4, 5)", _SERIES),
    _training("a training batch with eps = 0.1", _MATRIX, eps=0.1),
    # float64 around 1e4: two passes lose nothing, E[x^2] - E[x]^2 loses 1e8 times 2^-53
    _training("256 rows around 1e4, the eighth 30 larger", _OUTLIERS),
    _training("the second of two training batches", _SECOND, before=_MATRIX),
    Probe("a batch in train() under torch.no_grad()", _run_without_grad, {"x": _MATRIX}),
]


def _over(axes):
    """Return the edits by which a batch is normalized over other axes, with statistics that broadcast already."""
    stats = f"(x.mean({axes}, keepdim=True), x.var({axes}, correction=0, keepdim=True))"
    return f"_channel_stats(x) -> {stats} ; mean.view(shape) -> mean ; var.view(shape) -> var ; self.update(mean, var, n) -> pass"


_IF_BATCH = "if self.training or self.running_mean is None:"
_UPDATE = "self.update(mean, var, n)"
_BATCH_STATS = "mean, var = _channel_stats(x)"
_RUNNING = "mean, var = self.running_mean, self.running_var"
_WRONG_SCALE = {
    "torch.sqrt(var.view(shape) + self.eps) -> (torch.sqrt(var.view(shape)) + self.eps)": "eps is added to the standard deviation instead of the variance: sqrt(var + eps).",
    f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x)[1] * n / (n - 1)": "the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores the unbiased one.",
}
_IN_TRAINING = "training uses the running statistics. In train() a batch is normalized with its own mean and variance, the running ones are for eval()."
_DO_NOT_FIT = "mean and var do not fit axis 1 of x. Bind a number for each channel, (C,), as channel_stats gives them."
_NORMALIZED_OVER = {
    "0": "for (B, C, T) only the batch is reduced. A channel has one mean over B and T.",
    "0 if x.dim() == 2 else 2": "for (B, C, T) only T is reduced, so every sample has its own: that is InstanceNorm.",
    "tuple(range(1, x.dim()))": "each sample is normalized by itself, as in LayerNorm. BatchNorm keeps axis 1 and reduces the others.",
    "tuple(range(x.dim()))": "one mean for the whole batch. Each channel needs its own.",
}

_TRAINING_ROWS = {
    **_together(_WRONG_SCALE),
    f"{_BATCH_STATS} -> {_BATCH_STATS}; var = var + self.eps": "eps is added twice: the lines that are given add it to var as well.",
    f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x)[1].sqrt()": "var holds the standard deviation, and the last lines take its root once more. Bind the variance itself.",
    f"{_BATCH_STATS} -> var, mean = _channel_stats(x)": "mean and var are swapped: channel_stats returns mean first.",
    "mean.view -> mean.detach().view ; var.view -> var.detach().view": "mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x: only the buffers are updated without a gradient.",
    "mean.view -> mean.detach().view": "the gradient does not pass through the mean.",
    "var.view -> var.detach().view": "the gradient does not pass through the variance.",
    f"{_BATCH_STATS} -> mean, var = _channel_stats(x)[0], _channel_stats(x * x)[0] - _channel_stats(x)[0] ** 2": _ONE_PASS,
    f"{_IF_BATCH} -> if not self.training:": _IN_TRAINING,
    f"{_IF_BATCH} -> if not self.training: ; {_UPDATE} -> pass": _IN_TRAINING,
    f"{_BATCH_STATS} -> old = self.running_mean.clone(), self.running_var.clone(); {_BATCH_STATS} ; {_UPDATE} -> {_UPDATE}; mean, var = old": _IN_TRAINING,
    f"{_UPDATE} -> {_UPDATE}; {_RUNNING}": "training uses the running statistics, just updated. In train() a batch is normalized with its own mean and variance.",
    "self.training -> torch.is_grad_enabled()": "you ask whether gradients are recorded. Ask self.training: train() under no_grad() is still training, and eval() with gradients is still evaluation.",
    **{_over(axes): why for axes, why in _NORMALIZED_OVER.items()},
    **{f"_channel_stats(x) -> (x.mean({d}), x.var({d}, correction=0))": _DO_NOT_FIT for d in (0, -1)},
    "if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape) -> ": "weight and bias are not applied.",
}


def _steps(*shapes, **options):
    def run(cls):
        layer = _made(cls, **options)
        for seed, shape in enumerate(shapes):
            layer(2 + _SCALES.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape))
        return _stored(layer)

    return Probe(f"training on x of shape {', then '.join(map(str, shapes))}", run, options)


_FUNCTIONAL = "nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps)"
_N_IS_BT = "n is the number of entries of one channel: B * T for (B, C, T), B for (B, C)."

_BUFFER_ROWS = {
    f"{_UPDATE} -> pass": "the buffers never change. In train() each batch updates them.",
    f"{_UPDATE} -> self.num_batches_tracked += 1": "running_mean and running_var never change; the batches are only counted.",
    f"{_UPDATE} -> self.update(mean, var * n / (n - 1), n)": "n / (n - 1) is applied twice: is your var unbiased already, or does update() do it again?",
    f"{_UPDATE} -> self.update(var, mean, n)": "the call swaps mean and var: update(mean, var, n).",
    f"{_UPDATE} -> self.update(mean, var, x.numel())": _N_IS_BT,
    f"{_UPDATE} -> {_UPDATE}; self.num_batches_tracked += 1": _COUNTED,
    f"{_UPDATE} -> {_UPDATE}; {_UPDATE}": "update() is called twice for each batch.",
    f"{_UPDATE} -> pass ; shape = -> return {_FUNCTIONAL}; shape =": "F.batch_norm does not count the batches, and leaves nothing to build. Bind mean and var yourself.",
}
_BUFFER_MISTAKES = [
    *known(_Layer, _BUFFER_ROWS),
    *(Mistake(cause, _updating(row)) for row, cause in _together(_UPDATED_WRONG).items()),
]

_SERIES_ROWS = {
    f"{_UPDATE} -> self.update(mean, var, len(x))": _N_IS_BT,
    "n = x.numel() // self.num_features -> n = len(x)": _N_IS_BT,
    "if n == 1 -> if len(x) == 1": "a single row is refused although each of its channels has several time steps. What must be above 1 is the number of entries per channel, n.",
}


def _evaluation(label, x, grad=True):
    def run(cls):
        layer = _used(cls).eval()
        with torch.set_grad_enabled(grad):
            seen = _seen(layer, x) if grad else {"the output": layer(x.clone())}
        return seen | {f"{name} after evaluation": value for name, value in _stored(layer).items()}

    return Probe(label, run, {"x": x})


_ALWAYS_BATCH = f"{_IF_BATCH} -> if True:"
_ALWAYS_UPDATE = "if self.training and self.running_mean is not None: -> if self.running_mean is not None:"
_LEARNS = "the buffers are updated in eval(): test data leak into the layer. Update them only in train()."

_EVALUATION_ROWS = {
    _ALWAYS_BATCH: "evaluation uses the statistics of the batch. In eval() it normalizes with the running ones.",
    f"{_ALWAYS_BATCH} ; {_ALWAYS_UPDATE}": "evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer.",
    f"{_RUNNING} -> mean, var = self.running_mean.clone(), self.running_var.clone(); self.update(*_channel_stats(x), n)": _LEARNS,
    f"{_RUNNING} -> self.update(*_channel_stats(x), n); {_RUNNING}": _LEARNS,
    _ALWAYS_UPDATE: "the buffers are updated in eval() too, with their own values. Update them only in train().",
}

_SINGLE_ROWS = {
    "else:\n -> elif n == 1:\n            raise ValueError('one entry')\n        else:\n": "a single sample is refused in eval() as well. It needs no neighbors there: refuse it only where the batch's own statistics are used."
}


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
    return seen | {f"{name} after these refusals": getattr(layer, name).clone() for name in _NAMES[:2]}


def _run_plain(cls):
    layer = _made(cls, affine=False)
    return {"the names of the parameters": [name for name, _ in layer.named_parameters()], **_seen(layer, _MATRIX)}


def _run_untracked(cls):
    layer = _made(cls, track_running_stats=False)
    seen = {"the names in state_dict()": sorted(layer.state_dict()), **_seen(layer, _MATRIX)}
    layer.eval()
    return seen | {"the output in eval()": layer(_MATRIX.clone()), "one row in eval()": _outcome(layer, _MATRIX[:1])}


def _run_float32(cls):
    layer = _made(cls, dtype=torch.float32)
    return {"the output": layer(_MATRIX.float()), **_stored(layer)}


_FORGOTTEN = "= num_features, eps\n -> = num_features, eps; vars(self).update(self._buffers); self._buffers.clear()\n"
_MODULE_MISTAKES = [*known(_Layer, {_FORGOTTEN: _NOT_REGISTERED}), Mistake(_KEPT_ALIVE, _updating(_GRAPH))]

_ONE_ROWS = {
    "if n == 1 -> if False": "with one entry for each channel the output is the bias, whatever goes in, and update() divides by n - 1 = 0. Raise a ValueError in train(), as PyTorch does.",
    "if n == 1 -> if False ; self.update( -> 1 / (n - 1); self.update(": "one entry for each channel has no unbiased variance, n - 1 is 0. Raise a ValueError that says so, before the division.",
    "if n == 1: -> if n == 1 and self.running_mean is not None: self.update(*_channel_stats(x), n)\n            if n == 1:": "the batch is refused too late: the buffers have taken it in, and hold nan from then on. Raise the error before the update.",
    "if self.training -> if n > 1 and self.training": "in train() a batch of one is normalized with the running statistics. Refuse it there.",
}

_UNTRACKED = "without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is nothing to update."

_UNTRACKED_ROWS = {
    f"{_IF_BATCH} -> if self.training:": _UNTRACKED,
    "if self.training and self.running_mean is not None: -> if self.training:": _UNTRACKED,
    "if n == 1 -> if self.training and n == 1": "without running statistics eval() uses the batch's own as well: refuse a batch of one there, too.",
}

_BUFFER_PROBES = [_steps((6, 4), (2, 4), (5, 4)), *(_steps((6, 4), (3, 4), momentum=m) for m in (0.3, None))]
_EVALUATION_PROBES = [
    _evaluation("a batch in eval()", _MATRIX),
    _evaluation("a batch (B, C, T) in eval() under no_grad()", _SERIES, grad=False),
]
_MODULE_PROBES = [
    Probe("a new layer", _run_names, {"num_features": 4}),
    Probe("an exchange of state_dict() with nn.BatchNorm1d", _run_exchange),
    Probe("two training batches with gradients", _run_graph_kept),
]
_OTHER_PROBES = [
    Probe("x of shape (4,)", lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 4))}),
    Probe("x of shape (3, 4, 2, 2)", lambda cls: {"the outcome": _outcome(_made(cls), draw(1, 3, 4, 2, 2))}),
    Probe("affine=False", _run_plain),
    # float32 against float32: the channel of deviation 0.001 around 5 has 1e-7 * 5 / 0.001 = 5e-4 of rounding
    Probe("float32", _run_float32, tolerance=1e-3),
]

_LAYER_STAGES = [
    (_TRAINING_PROBES, known(_Layer, _TRAINING_ROWS), "training"),
    (_BUFFER_PROBES, _BUFFER_MISTAKES, "the buffers"),
    ([_steps((3, 4, 5)), _steps((1, 4, 2))], known(_Layer, _SERIES_ROWS), "the buffers"),
    (_EVALUATION_PROBES, known(_Layer, _EVALUATION_ROWS), "evaluation"),
    ([_evaluation("a single sample in eval()", _MATRIX[:1])], known(_Layer, _SINGLE_ROWS), "evaluation"),
    (_MODULE_PROBES, _MODULE_MISTAKES, "the rest"),
    ([Probe("a batch of one", _run_one)], known(_Layer, _ONE_ROWS), "the rest"),
    ([Probe("track_running_stats=False", _run_untracked)], known(_Layer, _UNTRACKED_ROWS), "the rest"),
    (_OTHER_PROBES, (), "the rest"),
]


def batch_norm(answer):
    """Check a class BatchNorm1d against nn.BatchNorm1d: forward, buffers, evaluation, module (lesson 6)."""
    tried = "training, buffers, evaluation, state_dict, errors"
    right = f"{{answer.__name__}} does what nn.BatchNorm1d does in {{count}} trials ({tried})"
    in_stages(answer, "batch_norm", _LAYER_STAGES, nn.BatchNorm1d, right, by_hand=("batch_norm",))


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
    return norm(x.transpose(1, 2)).transpose(1, 2)


def _region_probe(label, shape, seed, dtype=torch.float64, training=True, tolerance=1e-9):
    x = (draw(seed, *shape) * (1 + torch.arange(shape[2]).double()) + 3 * draw(seed + 1, shape[2])).to(dtype)

    def run(answer):
        norm = _used(nn.BatchNorm1d, dtype, shape[2]).train(training)
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

_THERE = "norm(x.transpose(1, 2))"
_BACK = f"{_THERE}.transpose(1, 2)"
_FUNCTION = "nn.functional.batch_norm(x.transpose(1, 2)"
_NEW_FOR_REGIONS = "a new layer for regions is what the patient has. Use the given one, with the D features on axis 1."
_NEW_FOR_FEATURES = "the gain, the bias and the running statistics of norm are not used. Do not normalize with a new layer or a formula: call norm."
_MODE = "norm is used in another mode than the one it was given to you in. Call it as it is."
_EACH_REGION = "each region gets its own statistics, and the running ones are updated R times. A feature has one mean, over samples and regions."
_AFFINE = "weight=norm.weight, bias=norm.bias"
_WITH_ITS_OWN, _DTYPE = ("", f", {_AFFINE}"), ", dtype=x.dtype"
_SWITCHED = f"was = norm.training; norm.{{}}(); y = {_THERE}; norm.train(was); return y"
_BUFFERS = "norm.running_mean, norm.running_var"
_INSTANCE_NORM = "that is InstanceNorm: a mean for each feature of each sample. Asked is one, over samples and regions."
_LAYER_NORM = "that is LayerNorm: a mean for each region of each sample. Asked is BatchNorm, with the given layer."
_CALL_NORM = "F.batch_norm or a formula knows neither the mode of norm nor its count of batches, and the buffers only if it gets them. Call norm itself."

_REGION_ROWS = {
    f"{_BACK} -> norm(x.reshape(len(x), x.shape[2], x.shape[1])).reshape(x.shape)": "reshape and view regroup the numbers as they lie in memory; they do not move an axis. Use transpose(1, 2).",
    f"{_BACK} -> {_THERE}": "the features were moved to axis 1, but not back.",
    f"{_BACK} -> {_THERE}.reshape(x.shape)": "reshape and view regroup the numbers; they do not move an axis back. Use transpose(1, 2) there as well.",
    f"{_BACK} -> norm(x)": "axis 1 of what norm gets holds the regions, so they are its channels (without an error if R = D). Put the D features there.",
    "transpose(1, 2) -> transpose(0, 1)": "transpose(0, 1) puts the samples on axis 1. Put the D features there, with transpose(1, 2).",
    **{f"{_BACK} -> nn.BatchNorm1d(x.shape[1]{dtype})(x)": _NEW_FOR_REGIONS for dtype in ("", _DTYPE)},
    **{f"norm(x.tr -> nn.BatchNorm1d(x.shape[2]{dtype})(x.tr": _NEW_FOR_FEATURES for dtype in ("", _DTYPE)},
    **{f"{_BACK} -> torch.stack([norm(x[:, r]) for r in range(x.shape[1])]{at})": _EACH_REGION for at in ("", ", 1")},
    f"{_BACK} -> torch.stack([norm(sample) for sample in x])": "each sample gets its own statistics. A feature has one mean, over samples and regions.",
    **{f"{_THERE} -> nn.functional.instance_norm(x.transpose(1, 2){own})": _INSTANCE_NORM for own in _WITH_ITS_OWN},
    **{f"{_BACK} -> nn.functional.layer_norm(x, x.shape[-1:]{own})": _LAYER_NORM for own in _WITH_ITS_OWN},
    f"{_BACK} -> norm(x.mean(1))": "the regions are averaged away. Every region keeps its own output.",
    f"{_BACK} -> norm(x.flatten(0, 1))": "the rows of features are normalized, but not brought back: .view(x.shape).",
    f"{_BACK} -> norm(x.flatten(1)).view(x.shape)": "flatten(1) makes one row of R * D numbers of each sample. flatten(0, 1) keeps the D features apart.",
    **{f"norm(x -> norm.{mode}()(x": _MODE for mode in ("eval", "train")},
    **{f"return {_THERE} -> {_SWITCHED.format(mode)}": _MODE for mode in ("eval", "train")},
    f"return {_BACK} -> {_THERE}; return {_BACK}": "norm is called twice, so that the running statistics are updated twice.",
    f"{_THERE} -> {_FUNCTION}, None, None, {_AFFINE}, training=True)": _CALL_NORM,
    f"{_THERE} -> {_FUNCTION}, {_BUFFERS}, {_AFFINE}, training=True)": _CALL_NORM,
    f"{_THERE} -> {_FUNCTION}, {_BUFFERS}, {_AFFINE}, training=norm.training)": _CALL_NORM,
}
_REGION_MISTAKES = known(_regions, _REGION_ROWS)


def normalize_regions(answer):
    """Check a function (x, norm) that applies nn.BatchNorm1d(D) to the D features of x (B, R, D) (lesson 6)."""
    tried = "R = D and R ≠ D, train and eval, the running statistics, gradients"
    examine(answer, "normalize_regions", _REGION_PROBES, _regions, _REGION_MISTAKES, tried)


# 6.6: several devices
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
_MEAN, _INSIDE = "(share * means).sum(0)", "(share * variances).sum(0)"
_BETWEEN = "(share * (variances + (means - mean) ** 2)).sum(0)"
_DIVISOR = "the variances are divided by n - 1, of each device or of all rows. Asked are biased ones (divided by n)."
_EQUAL = "every device has the same weight. Weigh each by its share of the rows."
_EQUAL_IN_MEAN = "the devices' means have the same weight in mean. Weigh each by its share of the rows."
_EQUAL_BETWEEN = "the part between the devices is not weighed by the rows: it is the sum of share * (means - mean)^2."
_SUMS = "the sums are not divided by the number of rows."

_AVERAGED = (
    "only the variances are averaged. The devices also differ in their means: add (means - mean)^2 before you average."
)

_POOL_ROWS = {
    **_together({f"{_SHARE} -> 1 / len(counts)": _EQUAL, " + (means - mean) ** 2 -> ": _AVERAGED}),
    f"{_RETURN} -> return means.mean(0), var": _EQUAL_IN_MEAN,
    f"mean = {_MEAN} -> mean = means.mean(0)": _EQUAL_IN_MEAN,
    **{f"{_BETWEEN} -> {_INSIDE} + means.var(0{more})": _EQUAL_BETWEEN for more in ("", ", correction=0")},
    **{f"{_BETWEEN} -> {_INSIDE} + ((means - mean) ** 2).{what}(0)": _EQUAL_BETWEEN for what in ("mean", "sum")},
    f"{_BETWEEN} -> {_INSIDE} + (share * (means - means.mean(0)) ** 2).sum(0)": _EQUAL_BETWEEN,
    f"{_SHARE} -> 1 / len(counts) ; {_BETWEEN} -> variances.mean(0) + means.var(0)": f"{_EQUAL} And var divides by K - 1, where the sum of the weights is wanted.",
    "(means - mean) ** 2 -> means ** 2": "the mean of the squares still holds the square of the mean: subtract mean^2.",
    "(variances + (means - mean) ** 2) -> (means - mean) ** 2": "only the distances between the means are counted. The variance inside each device belongs to it as well.",
    f"{_RETURN} -> return mean, var * counts.sum() / (counts.sum() - 1)": _DIVISOR,
    f"{_BETWEEN} -> ((counts[:, None] - 1) * variances + counts[:, None] * (means - mean) ** 2).sum(0) / (counts.sum() - 1)": _DIVISOR,
    f"{_RETURN} -> return mean, var.sqrt()": _ROOT,
    f"{_RETURN} -> return mean * counts.sum(), var * counts.sum()": _SUMS,
    f"{_SHARE} -> counts[:, None]": _SUMS,
    ".sum(0) -> .mean(0)": "the shares add up to 1 already: .sum(0) is the average, .mean(0) divides by K once more.",
    ".sum(0) -> .sum(0, keepdim=True)": "axis 0 is kept. Wanted is the shape (C,): drop keepdim.",
    "[:, None] -> ": "counts is (K,) and means (K, C): give it an axis, counts[:, None], so that each device is multiplied by its own.",
    f"[:, None] ->  ; {_MEAN} -> share @ means": "@ wants one dtype, and whole numbers divided give float32. Write (counts / counts.sum()).to(means.dtype).",
}
_POOL_MISTAKES = known(_pool, _POOL_ROWS)


def pooled_stats(answer):
    """Check a function (means, variances, counts) -> (mean, var) of all rows together (lesson 6)."""
    tried = "equal and unequal devices, float32, gradients"
    examine(answer, "pooled_stats", _POOL_PROBES, _pool, _POOL_MISTAKES, tried)

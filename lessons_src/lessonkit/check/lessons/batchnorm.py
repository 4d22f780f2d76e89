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
    raised,
    reject,
    values,
)

# ------------------------------------------------------------------------------------ 6.1: statistics of channels


def _others(x):
    """The axes that BatchNorm reduces: all but the channels."""
    return [0, *range(2, x.dim())]


def _channel(axes=_others, correction=0, keepdim=False):
    def stats(x):
        chosen = axes(x) if callable(axes) else axes
        return x.mean(chosen, keepdim=keepdim), x.var(chosen, correction=correction, keepdim=keepdim)

    return stats


def _shuffled(x):
    rows = x.reshape(x.shape[1], -1)
    return rows.mean(-1), rows.var(-1, correction=0)


def _mean_of_variances(x):
    over_batch = x.var(0, correction=0)
    return x.mean(_others(x)), over_batch.mean(-1) if x.dim() == 3 else over_batch


def _mean_of_sample_variances(x):
    return x.mean(_others(x)), x.var(-1, correction=0).mean(0) if x.dim() == 3 else x.var(0, correction=0)


def _divided_by_rows(x):
    mean = x.sum(_others(x)) / len(x)
    from_mean = x - mean.view((1, -1, 1)[: x.dim()])
    return mean, (from_mean**2).sum(_others(x)) / len(x)


_CHANNEL_PROBES = [
    call("a matrix (B, C) = (5, 3)", 2 + draw(1, 5, 3) * torch.tensor([1.0, 3, 10]).double(), returns=("mean", "var")),
    call("a square matrix", draw(2, 4, 4) * torch.tensor([1.0, 2, 5, 9]).double() + 1, returns=("mean", "var")),
    call(
        "(B, C, T) = (2, 3, 5)",
        draw(3, 2, 3, 5) * torch.tensor([[1.0], [4], [9]]).double() - 1,
        returns=("mean", "var"),
    ),
    call("(B, C, T) = (4, 4, 4)", draw(4, 4, 4, 4) + torch.arange(4.0).double()[:, None], returns=("mean", "var")),
    # float32, spread 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    call("float32 channels around 100", (100 + draw(5, 64, 6)).float(), returns=("mean", "var"), tolerance=2e-6),
]

_CHANNEL_MISTAKES = [
    Mistake(
        "the variance is divided by n - 1 (torch.var's default). The forward pass of BatchNorm divides by n.",
        _channel(correction=1),
    ),
    Mistake(
        "the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others.",
        _channel(-1),
    ),
    Mistake(
        "the last axis is reduced, as in LayerNorm. BatchNorm keeps the channels, axis 1, and reduces all others.",
        _channel(-1, keepdim=True),
    ),
    Mistake(
        "the last axis is reduced, as in LayerNorm, and the variance is divided by n - 1. BatchNorm reduces all axes but "
        "axis 1, and divides by n.",
        _channel(-1, correction=1),
    ),
    Mistake(
        "only the batch is reduced, and the variance is divided by n - 1. The C numbers are over B and T, and the "
        "variance is the biased one: correction=0.",
        _channel(0, correction=1),
    ),
    Mistake("the channels themselves are reduced. Axis 1 is the one to keep.", _channel(1)),
    Mistake(
        "only the batch is reduced, so every time step has a mean of its own. The C numbers are over B and T.",
        _channel(0),
    ),
    Mistake(
        "only the batch is reduced, and the axis is kept. Wanted is (C,), over all axes but axis 1.",
        _channel(0, keepdim=True),
    ),
    Mistake(
        "all axes but the last are reduced. That fits (B, T, C); here the channels are axis 1.",
        _channel(lambda x: list(range(x.dim() - 1))),
    ),
    Mistake("one mean for everything. Each channel needs its own.", _channel(lambda x: list(range(x.dim())))),
    Mistake("the reduced axes are kept. Wanted is the shape (C,): drop keepdim, or squeeze.", _channel(keepdim=True)),
    Mistake(
        "the mean has the shape (C, 1). Wanted is (C,): squeeze the last axis.",
        lambda x: tuple(s[:, None] for s in _channel()(x)),
    ),
    Mistake(
        "reshape(C, -1) cuts the numbers into C pieces as they lie in memory; it does not bring axis 1 to the front. "
        "Use transpose(0, 1) first.",
        _shuffled,
    ),
    Mistake(
        "the variances of the time steps are averaged. The steps differ in their means as well: take the variance "
        "over B and T together.",
        _mean_of_variances,
    ),
    Mistake(
        "var is the standard deviation. Leave the root away.", lambda x: (_channel()(x)[0], _channel()(x)[1].sqrt())
    ),
    Mistake("mean and var are swapped: return mean first.", lambda x: _channel()(x)[::-1]),
    Mistake(
        "E[x^2] - E[x]^2 loses digits when the mean is large beside the spread. Subtract the mean first.",
        lambda x: (x.mean(_others(x)), (x * x).mean(_others(x)) - x.mean(_others(x)) ** 2),
    ),
    Mistake("the mean is not subtracted before squaring.", lambda x: (x.mean(_others(x)), (x * x).mean(_others(x)))),
    Mistake("the sums are divided by B. A channel of (B, C, T) has B * T entries.", _divided_by_rows),
    Mistake(
        "the mean and the variance have the shape (1, C). Wanted is (C,): the reduced axes go away.",
        lambda x: tuple(s[None] for s in _channel()(x)),
    ),
    Mistake(
        "mean is right, but var has the shape (C, 1). Squeeze both.",
        lambda x: (_channel()(x)[0], _channel()(x)[1][:, None]),
    ),
    Mistake(
        "the variances of the samples are averaged. The samples differ in their means as well: take the variance "
        "over B and T together.",
        _mean_of_sample_variances,
    ),
    Mistake(
        "eps is not part of the variance. It comes in when something is divided.",
        lambda x: (_channel()(x)[0], _channel()(x)[1] + 1e-5),
    ),
]


def channel_stats(answer):
    """Check a function x, (B, C) or (B, C, T) -> (mean, var), both (C,), var biased (lesson 6)."""
    examine(
        answer,
        "channel_stats",
        _CHANNEL_PROBES,
        in_float64(_channel()),
        _CHANNEL_MISTAKES,
        tried="(B, C) and (B, C, T), float32 and float64, gradients",
    )


# ------------------------------------------------------------------------------------ 6.2: running statistics


def _outcome(attempt):
    """Return what an attempt does, in words."""
    try:
        attempt()
    except Exception as error:
        return f"{raised(error).kind.__name__}"
    return "no error"


def _value(item):
    """Return an observed number or tensor without its graph."""
    return item.detach().clone() if isinstance(item, torch.Tensor) else item


def _buffers(layer):
    return {name: _value(getattr(layer, name, "missing")) for name in ("running_mean", "running_var")}


class _Running(nn.Module):
    """The reference for RunningStatistics; the attributes below are the mistakes."""

    register, grad, reverse, biased, upside, start, deviation, ready = (
        True,
        False,
        False,
        False,
        False,
        1.0,
        False,
        True,
    )
    adds, never, kind = False, False, ("device", "dtype")

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        kind = {key: value for key, value in (("device", device), ("dtype", dtype)) if key in self.kind}
        start = {
            "running_mean": torch.zeros(num_features, **kind),
            "running_var": torch.full((num_features,), self.start, **kind),
            "num_batches_tracked": torch.tensor(0, device=device),
        }
        for name, value in start.items():
            if self.register is True or self.register and name in self.register:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        m, old = (1 - m, m) if self.reverse else (0, 1) if self.never else (m, 1 - m)
        factor = 1 if self.biased else (n - 1) / n if self.upside else n / (n - 1)
        var = (var * factor).sqrt() if self.deviation else var * factor
        new_mean = (1 if self.adds else old) * self.running_mean + m * mean
        new_var = (1 if self.adds else old) * self.running_var + m * var
        if self.grad:
            self.running_mean, self.running_var = new_mean, new_var
        else:
            with torch.no_grad():
                self.running_mean.copy_(new_mean), self.running_var.copy_(new_var)


class _Updated(_Running):
    """An update written as one rule: (running_mean, running_var), m, momentum, mean, var, n -> the two new values."""

    rule = None

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():
            new = self.rule((self.running_mean, self.running_var), m, self.momentum, mean, var, n)
            self.running_mean.copy_(new[0]), self.running_var.copy_(new[1])


def _rule(cause, rule):
    return Mistake(cause, _variant(_Updated, rule=staticmethod(rule)))


def _mix(m, old, new):
    return (1 - m) * old + m * new


def _variant(base, **switches):
    return type(base.__name__, (base,), switches)


def _run_registered(cls):
    made = cls(3)
    return {
        "the names in state_dict()": sorted(made.state_dict()),
        "the names of the parameters": sorted(name for name, _ in made.named_parameters()),
    }


def _run_new(cls):
    made, elsewhere = cls(3, dtype=torch.float64), cls(3, device="meta")
    return {
        **_buffers(made),
        "num_batches_tracked": int(made.num_batches_tracked),
        "running_mean.device for device='meta'": str(elsewhere.running_mean.device),
        "running_var.device for device='meta'": str(elsewhere.running_var.device),
    }


def _run_updates(momentum):
    def run(cls):
        made = cls(3, momentum=momentum, dtype=torch.float64)
        for seed, n in ((11, 4), (12, 9), (13, 2)):
            made.update(5 + draw(seed, 3), 2 + draw(seed + 20, 3).abs(), n)
        return {**_buffers(made), "num_batches_tracked": int(made.num_batches_tracked)}

    return run


def _run_graph(cls):
    made = cls(3, dtype=torch.float64)
    mean = draw(14, 3).requires_grad_()
    made.update(mean * 2, mean * mean, 5)
    return {
        "running_mean.requires_grad": made.running_mean.requires_grad,
        "running_var.requires_grad": made.running_var.requires_grad,
        **_buffers(made),
    }


def _run_conversion(cls):
    made = cls(3, dtype=torch.float64).float()
    made.update(draw(15, 3).float(), draw(16, 3).float() ** 2, 5)
    return {
        "running_mean.dtype of one converted by .float()": str(made.running_mean.dtype),
        "running_var.dtype of one converted by .float()": str(made.running_var.dtype),
    }


def _meta_running(cls):
    made = cls(3, device="meta")
    made.update(torch.empty(3, device="meta"), torch.empty(3, device="meta"), 4)


_REGISTERED_PROBES = [Probe("a new one for 3 channels", _run_registered, {"num_features": 3})]

_START_PROBES = [
    Probe("a new one for 3 channels in float64", _run_new),
    Probe("conversion to float32", _run_conversion),
]

_UPDATE_PROBES = [
    Probe("three updates from batches of 4, 9 and 2", _run_updates(0.1), {"momentum": 0.1}, elsewhere=_meta_running),
    Probe("three updates with another momentum", _run_updates(0.4), {"momentum": 0.4}),
    Probe("three updates without momentum", _run_updates(None), {"momentum": None}),
    Probe("a mean that has a gradient", _run_graph),
]

_NOT_REGISTERED = (
    "a plain attribute is not saved, not loaded and not moved with the layer. "
    'Say self.register_buffer("running_mean", ...), and so for all three.'
)


class _AsParameters(_Running):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device, dtype)
        for name in ("running_mean", "running_var"):
            value = self._buffers.pop(name)
            setattr(self, name, nn.Parameter(value))

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))


_REGISTERED_MISTAKES = [
    Mistake(_NOT_REGISTERED, _variant(_Running, register=False)),
    Mistake(_NOT_REGISTERED, _variant(_Running, register=("num_batches_tracked",))),
    Mistake(
        "the buffers are parameters: an optimizer would get them, frozen or not. Use register_buffer.", _AsParameters
    ),
]

_START_MISTAKES = [
    Mistake(
        "running_var starts at 0. A new layer should leave its input alone: start with mean 0 and variance 1.",
        _variant(_Running, start=0.0),
    ),
    *[
        Mistake(
            f"{what} not handed on: torch.zeros(num_features, device=device, dtype=dtype).",
            _variant(_Running, kind=kind),
        )
        for what, kind in (("dtype is", ("device",)), ("device is", ("dtype",)), ("device and dtype are", ()))
    ],
]

_UPDATE_MISTAKES = [
    Mistake(
        "momentum is the other way round. In PyTorch it is the weight of the NEWEST batch; the old value keeps "
        "1 - momentum.",
        _variant(_Running, reverse=True),
    ),
    _rule(
        "use m, the line above has made it: with momentum=None it is 1 / num_batches_tracked, and self.momentum is no "
        "number.",
        lambda old, m, momentum, mean, var, n: (
            _mix(momentum, old[0], mean),
            _mix(momentum, old[1], var * n / (n - 1)),
        ),
    ),
    _rule(
        "the mean has no factor n / (n - 1). Only the variance has a biased and an unbiased form.",
        lambda old, m, momentum, mean, var, n: (
            _mix(m, old[0], mean * n / (n - 1)),
            _mix(m, old[1], var * n / (n - 1)),
        ),
    ),
    _rule(
        "var * n / n - 1 subtracts 1 at the end. Write the brackets: var * n / (n - 1).",
        lambda old, m, momentum, mean, var, n: (_mix(m, old[0], mean), (1 - m) * old[1] + m * var * n / n - 1),
    ),
    _rule(
        "var * n / n - 1 subtracts 1 at the end. Write the brackets: var * n / (n - 1).",
        lambda old, m, momentum, mean, var, n: (_mix(m, old[0], mean), _mix(m, old[1], var * n / n - 1)),
    ),
    _rule(
        "running_var does not change. It follows the same formula as running_mean, with var * n / (n - 1).",
        lambda old, m, momentum, mean, var, n: (_mix(m, old[0], mean), old[1]),
    ),
    _rule(
        "mean and var are swapped.",
        lambda old, m, momentum, mean, var, n: (_mix(m, old[0], var), _mix(m, old[1], mean * n / (n - 1))),
    ),
    Mistake(
        "the biased variance goes into the buffer. PyTorch stores the unbiased one: var * n / (n - 1).",
        _variant(_Running, biased=True),
    ),
    Mistake(
        "momentum is the other way round, and the variance is stored as it comes: the newest batch has the weight "
        "momentum, and its variance is var * n / (n - 1).",
        _variant(_Running, reverse=True, biased=True),
    ),
    Mistake("n / (n - 1) is upside down: the unbiased variance is the larger one.", _variant(_Running, upside=True)),
    *[
        Mistake(
            f"the buffers are part of the graph: every step would keep all earlier ones alive. Update them under "
            f"torch.no_grad().{more}",
            _variant(_Running, grad=True, **switches),
        )
        for more, switches in (
            ("", {}),
            (" And momentum is the weight of the newest batch.", dict(reverse=True)),
            (" And the variance is stored unbiased: var * n / (n - 1).", dict(biased=True)),
            (
                " And momentum is the weight of the newest batch, whose variance is stored unbiased: var * n / (n - 1).",
                dict(reverse=True, biased=True),
            ),
        )
    ],
    Mistake("running_var holds a standard deviation. Average the variances.", _variant(_Running, deviation=True)),
    Mistake(
        "the buffers do not change. Assign to self.running_mean and self.running_var, or use copy_.",
        _variant(_Running, never=True),
    ),
    Mistake(
        "the old value keeps its full weight, so that the sum grows without end. It gets 1 - momentum.",
        _variant(_Running, adds=True),
    ),
]


def running_statistics(answer):
    """Check a class that keeps running_mean, running_var and num_batches_tracked as buffers (lesson 6)."""
    stages = [
        (_REGISTERED_PROBES, _REGISTERED_MISTAKES),
        (_START_PROBES, _START_MISTAKES),
        (_UPDATE_PROBES, _UPDATE_MISTAKES),
    ]
    in_stages(
        answer,
        "running_statistics",
        stages,
        _Running,
        "{answer.__name__} keeps its buffers as nn.BatchNorm1d does (three momenta, names, dtypes, no graph)",
    )


# ------------------------------------------------------------------------------------ 6.3: the layer


class _Layer(nn.Module):
    """BatchNorm1d written out, with its mistakes as attributes. The reference of the check is nn.BatchNorm1d."""

    axes, correction, outside, detached, switch = staticmethod(_others), 0, False, (), "training"
    after_update, stored, reverse, in_eval, keep_graph, register, refuse = (
        False,
        "unbiased",
        False,
        False,
        False,
        True,
        "entries",
    )
    affine_axis, count, never, counted, untracked = 1, "all", False, False, True
    untracked_raises = TypeError

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__()
        self.eps, self.momentum, self.affine = eps, momentum, affine
        kind = dict(device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(torch.ones(num_features, **kind)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_features, **kind)) if affine else None)
        track = track_running_stats
        keep = self.register_buffer if self.register else lambda name, value: setattr(self, name, value)
        keep("running_mean", torch.zeros(num_features, **kind) if track else None)
        keep("running_var", torch.ones(num_features, **kind) if track else None)
        keep("num_batches_tracked", torch.tensor(0, device=device) if track else None)

    def forward(self, x):
        if x.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {x.dim()}D input)")
        shape = (1, -1, 1)[: x.dim()]
        live = {"training": self.training, "grad": torch.is_grad_enabled(), "batch": True, "running": False}[
            self.switch
        ]
        live = live or self.running_mean is None
        entries = x.numel() // x.shape[1]
        one = {"entries": live and entries == 1, "rows": self.training and len(x) == 1, "always": entries == 1}
        if one.get(self.refuse, False):
            raise ValueError("one value per channel")
        if self.refuse == "zero" and self.training and entries == 1:
            raise ZeroDivisionError("n - 1 is 0")
        if self.running_mean is None and not self.untracked:
            raise self.untracked_raises("running_mean is None")
        if live:
            axes = self.axes(x)
            mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=self.correction, keepdim=True)
            mean = mean.detach() if "mean" in self.detached else mean
            var = var.detach() if "var" in self.detached else var
        else:
            mean, var = self.running_mean.view(shape), self.running_var.view(shape)
        if (self.switch == "grad" and live or self.switch != "grad" and self.training or self.in_eval) and (
            self.running_mean is not None and not self.never
        ):
            self._update(x, live)
            if self.after_update:
                mean, var = self.running_mean.view(shape), self.running_var.view(shape)
        if self.counted and self.training:
            self.num_batches_tracked += 1
        y = (x - mean) / (var.sqrt() + self.eps if self.outside else (var + self.eps).sqrt())
        if self.weight is None or self.affine_axis is None:
            return y
        place = shape if self.affine_axis == 1 else (-1,)
        return y * self.weight.view(place) + self.bias.view(place)

    def _update(self, x, live):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        m, old = (1 - m, m) if self.reverse else (m, 1 - m)
        axes = self.axes(x)
        n = x.shape[0] if self.count == "batch" else x.numel() // x.shape[1]
        mean, var = x.mean(axes), x.var(axes, correction=0)
        if self.stored == "unbiased":
            var = var * n / (n - 1)  # of tensors: infinite or no number for n = 1, and no error
        elif self.stored == "twice":
            var = var * (n / (n - 1)) ** 2
        with torch.set_grad_enabled(self.keep_graph and torch.is_grad_enabled()):
            shape = self.running_mean.shape
            self.running_mean = old * self.running_mean + m * (
                mean.reshape(shape) if mean.numel() == shape[0] else mean
            )
            self.running_var = old * self.running_var + m * (var.reshape(shape) if var.numel() == shape[0] else var)


class _Turned(_Layer):
    """The modes the wrong way round; with own=True the right way, but in eval() the buffers take in themselves."""

    own = False

    def forward(self, x):
        shape, n = (1, -1, 1)[: x.dim()], x.numel() // x.shape[1]
        batch = self.training if self.own else not self.training
        if batch and n == 1:
            raise ValueError("one value per channel")
        mean, var = (
            (x.mean(_others(x)), x.var(_others(x), correction=0)) if batch else (self.running_mean, self.running_var)
        )
        if self.training or self.own:
            self.num_batches_tracked += 1
            m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            with torch.no_grad():
                self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
                self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        y = (x - mean.view(shape)) / (var.view(shape) + self.eps).sqrt()
        return y * self.weight.view(shape) + self.bias.view(shape)


def _made(cls, C, seed=0, dtype=torch.float64, **options):
    """A layer with random gain and bias, in train()."""
    layer = cls(C, dtype=dtype, **options)
    if options.get("affine", True):
        with torch.no_grad():
            layer.weight.copy_(1 + 0.5 * draw(seed + 50, C))
            layer.bias.copy_(draw(seed + 60, C))
    return layer.train()


def _filled(cls, C, **options):
    """A layer with random running statistics as well."""
    layer = _made(cls, C, **options)
    with torch.no_grad():
        layer.running_mean.copy_(3 + draw(71, C))
        layer.running_var.copy_(0.5 + draw(72, C) ** 2)
    return layer


def _seen(layer, x):
    """Output and gradients for one call; random upstream gradients, so that no part of them can hide."""
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
_SERIES = draw(83, 4)[:, None] + _SPREADS[:, None] * draw(84, 3, 4, 5)  # (B, C, T)


def _run_training(x, **options):
    return lambda cls: _seen(_made(cls, 4, **options), x)


def _run_without_grad(cls):
    layer = _filled(cls, 4)
    with torch.no_grad():
        return {"the output": layer(_MATRIX.clone())}


def _meta_layer(cls):
    cls(4, device="meta")(torch.empty(3, 4, device="meta"))


_TRAINING_PROBES = [
    Probe("a training batch (B, C) = (6, 4)", _run_training(_MATRIX), {"x": _MATRIX}, elsewhere=_meta_layer),
    Probe("a training batch (B, C, T) = (3, 4, 5)", _run_training(_SERIES), {"x": _SERIES}),
    Probe("a training batch with eps = 0.1", _run_training(_MATRIX, eps=0.1), {"eps": 0.1, "x": _MATRIX}),
    Probe("a batch in train() under torch.no_grad()", _run_without_grad, {"x": _MATRIX}),
]

_TRAINING_MISTAKES = [
    Mistake(
        "the batch is divided by the unbiased deviation. BatchNorm normalizes with the biased variance, and stores "
        "the unbiased one.",
        _variant(_Layer, correction=1),
    ),
    Mistake("eps is added to the deviation instead of the variance: sqrt(var + eps).", _variant(_Layer, outside=True)),
    Mistake(
        "eps is outside the root, and the variance is the unbiased one. Forward: biased, and sqrt(var + eps).",
        _variant(_Layer, outside=True, correction=1),
    ),
    Mistake(
        "mean and variance are constants for your gradient (torch.no_grad() or detach). They depend on x: only the "
        "buffers are updated without a gradient.",
        _variant(_Layer, detached=("mean", "var")),
    ),
    Mistake("the gradient does not pass through the mean.", _variant(_Layer, detached=("mean",))),
    Mistake("the gradient does not pass through the variance.", _variant(_Layer, detached=("var",))),
    Mistake(
        "the modes are the wrong way round: train() uses the running statistics. There a batch is normalized with its "
        "own mean and variance.",
        _Turned,
    ),
    Mistake(
        "training uses the running statistics. In train() a batch is normalized with its own mean and variance.",
        _variant(_Layer, switch="running"),
    ),
    Mistake(
        "training uses the running statistics, just updated. In train() a batch is normalized with its own mean and "
        "variance.",
        _variant(_Layer, after_update=True),
    ),
    Mistake(
        "training uses the running statistics, just updated. In train() a batch is normalized with its own mean and "
        "variance.",
        _variant(_Layer, after_update=True, keep_graph=True),
    ),
    Mistake(
        "you ask whether gradients are recorded. Ask self.training: train() under no_grad() is still training, and "
        "eval() with gradients is still evaluation.",
        _variant(_Layer, switch="grad"),
    ),
    Mistake(
        "for (B, C, T) only the batch is reduced. A channel has one mean over B and T.",
        _variant(_Layer, axes=staticmethod(lambda x: [0]), never=True),
    ),
    Mistake(
        "for (B, C, T) only T is reduced, so every sample has its own: that is InstanceNorm.",
        _variant(_Layer, axes=staticmethod(lambda x: [0] if x.dim() == 2 else [2]), never=True),
    ),
    Mistake(
        "each sample is normalized by itself, as in LayerNorm. BatchNorm keeps axis 1 and reduces the others.",
        _variant(_Layer, axes=staticmethod(lambda x: list(range(1, x.dim()))), never=True),
    ),
    Mistake(
        "one mean for the whole batch. Each channel needs its own.",
        _variant(_Layer, axes=staticmethod(lambda x: list(range(x.dim()))), never=True),
    ),
    Mistake("weight and bias are not applied.", _variant(_Layer, affine_axis=None)),
]


def _run_steps(*shapes, **options):
    def run(cls):
        layer = _made(cls, 4, **options)
        for seed, shape in enumerate(shapes):
            layer(2 + _SPREADS.view((1, -1, 1)[: len(shape)]) * draw(seed + 90, *shape))
        return {**_buffers(layer), "num_batches_tracked": int(layer.num_batches_tracked)}

    return run


_BUFFER_PROBES = [
    Probe("three training batches of 6, 2 and 5 rows", _run_steps((6, 4), (2, 4), (5, 4)), {"momentum": 0.1}),
    Probe("training batches (B, C, T) = (3, 4, 5) and (1, 4, 2)", _run_steps((3, 4, 5), (1, 4, 2))),
    Probe("two training batches with momentum 0.3", _run_steps((6, 4), (3, 4), momentum=0.3), {"momentum": 0.3}),
    Probe("two training batches with momentum=None", _run_steps((6, 4), (3, 4), momentum=None), {"momentum": None}),
]

_BUFFER_MISTAKES = [
    Mistake("the buffers never change. In train() each batch updates them.", _variant(_Layer, never=True)),
    Mistake(
        "running_mean and running_var never change; the batches are only counted.",
        _variant(_Layer, never=True, counted=True),
    ),
    Mistake(
        "running_var takes in the biased variance. PyTorch stores the unbiased one: var * n / (n - 1).",
        _variant(_Layer, stored="biased"),
    ),
    Mistake(
        "n / (n - 1) is applied twice: is your var unbiased already, or does update() do it again?",
        _variant(_Layer, stored="twice"),
    ),
    Mistake(
        "momentum is the other way round. In PyTorch it is the weight of the NEWEST batch, 0.1, not of the old value.",
        _variant(_Layer, reverse=True),
    ),
    Mistake(
        "momentum is the other way round, and running_var takes in the biased variance.",
        _variant(_Layer, reverse=True, stored="biased"),
    ),
    Mistake(
        "n is not the number of rows alone: a channel of (B, C, T) has n = B * T entries.",
        _variant(_Layer, count="batch"),
    ),
    Mistake(
        "a single row is refused although each of its channels has several time steps. What must be above 1 is the "
        "number of entries per channel, n.",
        _variant(_Layer, refuse="rows"),
    ),
]


def _run_evaluation(x, grad=True):
    def run(cls):
        layer = _filled(cls, 4).eval()
        with torch.set_grad_enabled(grad):
            seen = _seen(layer, x) if grad else {"the output": layer(x.clone())}
        return seen | {f"{name} after evaluation": value for name, value in _buffers(layer).items()}

    return run


_EVALUATION_PROBES = [
    Probe("a batch in eval()", _run_evaluation(_MATRIX), {"x": _MATRIX}),
    Probe("a batch (B, C, T) in eval() under no_grad()", _run_evaluation(_SERIES, grad=False)),
    Probe("a single sample in eval()", _run_evaluation(_MATRIX[:1]), {"x": _MATRIX[:1]}),
]

_EVALUATION_MISTAKES = [
    *[
        Mistake(cause, _variant(_Layer, refuse=refuse, **switches))
        for refuse in ("entries", "nothing")
        for cause, switches in (
            (
                "evaluation uses the statistics of the batch. In eval() the running ones stand in for them.",
                dict(switch="batch"),
            ),
            (
                "evaluation uses the statistics of the batch, and updates the buffers: test data leak into the layer.",
                dict(switch="batch", in_eval=True),
            ),
            (
                "the buffers are updated in eval(): test data leak into the layer. Update them only in train().",
                dict(in_eval=True),
            ),
        )
    ],
    Mistake(
        "the buffers are updated in eval() too, with their own values. Update them only in train().",
        _variant(_Turned, own=True),
    ),
    Mistake(
        "a single sample is refused in eval() as well. It needs no neighbors there: refuse it only where the batch's "
        "own statistics are used.",
        _variant(_Layer, refuse="always"),
    ),
]


def _run_names(cls):
    layer = cls(4)
    return {
        "the names in state_dict()": sorted(layer.state_dict()),
        "the names of the parameters": sorted(name for name, _ in layer.named_parameters()),
        "eps": layer.eps,
        "momentum": layer.momentum,
        "running_mean.dtype after .double()": str(layer.double().running_mean.dtype),
    }


def _run_exchange(cls):
    layer, theirs = _filled(cls, 4), nn.BatchNorm1d(4, dtype=torch.float64).eval()
    theirs.load_state_dict(layer.state_dict())
    back = cls(4, dtype=torch.float64).eval()
    back.load_state_dict(theirs.state_dict())
    return {"the output of nn.BatchNorm1d with your weights": theirs(_MATRIX), "the output": back(_MATRIX)}


def _run_graph_kept(cls):
    layer, x = _made(cls, 4), _MATRIX.clone().requires_grad_()
    layer(x), layer(x + 1)
    return {f"{name}.requires_grad": getattr(layer, name).requires_grad for name in ("running_mean", "running_var")}


def _run_one(cls):
    return {
        "one row in train()": _outcome(lambda: _made(cls, 4)(_MATRIX[:1].clone())),
        "one row of one step in train()": _outcome(lambda: _made(cls, 4)(_SERIES[:1, :, :1].clone())),
        "one row of five steps in train()": _outcome(lambda: _made(cls, 4)(_SERIES[:1].clone())),
        "one row in eval()": _outcome(lambda: _made(cls, 4).eval()(_MATRIX[:1].clone())),
    }


def _run_shapes(cls):
    return {
        "input with 1 axis": _outcome(lambda: _made(cls, 4)(draw(1, 4))),
        "input with 4 axes": _outcome(lambda: _made(cls, 4)(draw(1, 3, 4, 2, 2))),
    }


def _run_plain(cls):
    layer = _made(cls, 4, affine=False)
    return {"the names of the parameters": [name for name, _ in layer.named_parameters()], **_seen(layer, _MATRIX)}


def _run_untracked(cls):
    layer = _made(cls, 4, track_running_stats=False)
    seen = {"the names in state_dict()": sorted(layer.state_dict()), **_seen(layer, _MATRIX)}
    return seen | {"the output in eval()": layer.eval()(_MATRIX.clone())}


def _run_float32(cls):
    layer = _made(cls, 4, dtype=torch.float32)
    return {"the output": layer(_MATRIX.float()), **_buffers(layer)}


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

_MODULE_MISTAKES = [
    Mistake(_NOT_REGISTERED, _variant(_Layer, register=False)),
    Mistake(
        "the buffers are part of the graph: every step keeps all earlier ones alive, and memory grows. Update them "
        "under torch.no_grad().",
        _variant(_Layer, keep_graph=True),
    ),
    Mistake(
        "one value per channel has no spread: its output is the bias, whatever goes in, and n - 1 is 0. "
        "Raise a ValueError in train(), as PyTorch does.",
        _variant(_Layer, refuse="nothing"),
    ),
    Mistake(
        "one value per channel has no unbiased variance, n - 1 is 0. Raise a ValueError that says so, before the "
        "division.",
        _variant(_Layer, refuse="zero"),
    ),
    Mistake(
        "without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is "
        "nothing to update.",
        _variant(_Layer, untracked=False),
    ),
    Mistake(
        "without running statistics (self.running_mean is None) the batch's own are used in both modes, and there is "
        "nothing to update.",
        _variant(_Layer, untracked=False, untracked_raises=AttributeError),
    ),
]


def batch_norm(answer):
    """Check a class BatchNorm1d against nn.BatchNorm1d: forward, buffers, evaluation, module (lesson 6)."""
    stages = [
        (_TRAINING_PROBES, _TRAINING_MISTAKES),
        (_BUFFER_PROBES, _BUFFER_MISTAKES),
        (_EVALUATION_PROBES, _EVALUATION_MISTAKES),
        (_MODULE_PROBES, _MODULE_MISTAKES),
    ]
    in_stages(
        answer,
        "batch_norm",
        stages,
        nn.BatchNorm1d,
        "{answer.__name__} does what nn.BatchNorm1d does in {count} trials (training, buffers, evaluation, "
        "state_dict, errors)",
    )


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


# ------------------------------------------------------------------------------------ 6.6: the clinic


def _norm(features, dtype):
    norm = nn.BatchNorm1d(features, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.5 * draw(31, features)), norm.bias.copy_(draw(32, features))
    return norm.to(dtype)


def _run_regions(shape, seed, dtype=torch.float64, training=True):
    x = (draw(seed, *shape) * (1 + torch.arange(shape[2]).double()) + 3 * draw(seed + 1, shape[2])).to(dtype)

    def run(answer):
        norm, leaf = _norm(shape[2], dtype).train(training), x.clone().requires_grad_()
        given = leaf.clone()
        y = answer(given, norm)
        seen = {"x after the call": given.detach(), "the result": y}
        if isinstance(y, torch.Tensor) and y.is_floating_point():
            loss = (y * draw(33, *y.shape).to(y.dtype)).sum()
            seen |= gradients(loss, {"x": leaf}) if y.requires_grad else {"gradient of x": "no gradient"}
        return seen | {"norm.running_mean": norm.running_mean.clone(), "norm.running_var": norm.running_var.clone()}

    def elsewhere(answer):
        answer(x.to("meta"), nn.BatchNorm1d(shape[2], dtype=dtype, device="meta"))

    half = dtype != torch.float64  # float32 and float32: two orders of summing 12 numbers of order 10
    return Probe(
        f"(B, R, D) = {shape}" + (" in eval()" if not training else " in float32" if half else ""),
        run,
        {"x": x},
        1e-5 if half else 1e-9,
        elsewhere=elsewhere,
    )


_REGION_PROBES = [
    _run_regions((4, 5, 8), 34),
    _run_regions((4, 8, 8), 36),
    _run_regions((3, 2, 6), 38, torch.float32),
    _run_regions((2, 7, 8), 40, training=False),
]


def _flat(x, norm):
    return norm(x.flatten(0, 1)).view(x.shape)


def _each_region(x, norm):
    return torch.stack([norm(x[:, r]) for r in range(x.shape[1])], 1)


def _each_sample(x, norm):
    return torch.stack([norm(sample) for sample in x])


_REGION_MISTAKES = [
    Mistake(
        "reshape and view regroup the numbers as they lie in memory; they do not move an axis. Use transpose(1, 2).",
        lambda x, norm: norm(x.reshape(x.shape[0], x.shape[2], x.shape[1])).reshape(x.shape),
    ),
    Mistake("the features were moved to axis 1, but not back.", lambda x, norm: norm(x.transpose(1, 2))),
    Mistake(
        "reshape and view regroup the numbers; they do not move an axis back. Use transpose(1, 2) there as well.",
        lambda x, norm: norm(x.transpose(1, 2)).reshape(x.shape),
    ),
    Mistake(
        "axis 1 of what norm gets holds the regions, so they are taken for the channels (silent if R = D). Put the D "
        "features there.",
        lambda x, norm: norm(x),
    ),
    *[
        Mistake(
            "a new layer for the regions is what the patient does. Use the given one, and put the D features on axis 1.",
            lambda x, norm, follow=follow: nn.BatchNorm1d(x.shape[1], dtype=x.dtype, device=x.device).train(
                norm.training or not follow
            )(x),
        )
        for follow in (False, True)
    ],
    Mistake(
        "each region gets its own statistics, and the running ones are updated R times. A feature has one mean, "
        "over samples and regions.",
        _each_region,
    ),
    Mistake("each sample gets its own statistics. A feature has one mean, over samples and regions.", _each_sample),
    Mistake(
        "that is LayerNorm: a mean for each region of each sample. Asked is BatchNorm, with the given layer.",
        lambda x, norm: torch.nn.functional.layer_norm(x, (x.shape[-1],), norm.weight, norm.bias, norm.eps),
    ),
    Mistake(
        "the regions are averaged away. Every region keeps its own output.",
        lambda x, norm: norm(x.mean(1))[:, None].expand(x.shape),
    ),
]


def normalize_regions(answer):
    """Check a function (x, norm) that applies nn.BatchNorm1d(D) to the D features of x (B, R, D) (lesson 6)."""
    examine(
        answer,
        "normalize_regions",
        _REGION_PROBES,
        _flat,
        _REGION_MISTAKES,
        tried="R = D and R ≠ D, train and eval, the running statistics, gradients",
    )


# ------------------------------------------------------------------------------------ 6.5: several devices


def _pool(means, variances, counts):
    share = (counts / counts.sum())[:, None]
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean) ** 2)).sum(0)


def _pool_with(mean_share=True, between=True, inner=True, correction=0, root=False):
    def pool(means, variances, counts):
        share = (counts / counts.sum())[:, None]
        plain = torch.full_like(share, 1 / len(counts), dtype=means.dtype)
        mean = ((share if mean_share else plain) * means).sum(0)
        within = (variances if inner else 0 * variances) + ((means - mean) ** 2 if between else 0)
        var = ((share if mean_share else plain) * within).sum(0)
        var = var * counts.sum() / (counts.sum() - correction) if correction else var
        return mean, var.sqrt() if root else var

    return pool


def _plain_between(correction):
    def pool(means, variances, counts):
        within = _pool(means, variances, counts)[1] - _pool(means, 0 * variances, counts)[1]
        return _pool(means, variances, counts)[0], within + means.var(0, correction=correction)

    return pool


_POOL_PROBES = [
    call(
        "two devices with means -2 and +2",
        torch.tensor([[-2.0], [2]]).double(),
        torch.tensor([[1.0], [1.1]]).double(),
        torch.tensor([16, 16]),
        names=("means", "variances", "counts"),
        returns=("mean", "var"),
    ),
    call(
        "three devices with 8, 4 and 20 rows",
        draw(41, 3, 5),
        draw(42, 3, 5) ** 2,
        torch.tensor([8, 4, 20]),
        names=("means", "variances", "counts"),
        returns=("mean", "var"),
    ),
    call(
        "three devices with the same mean",
        draw(43, 1, 2).expand(3, 2).clone(),
        draw(44, 3, 2) ** 2,
        torch.tensor([16, 8, 8]),
        names=("means", "variances", "counts"),
        returns=("mean", "var"),
    ),
]

_POOL_MISTAKES = [
    Mistake(
        "only the variances are averaged. The devices differ in their means, and that is spread as well: add "
        "(means - mean)^2 before you average.",
        _pool_with(between=False),
    ),
    Mistake("every device has the same weight. Weigh each by its share of the rows.", _pool_with(mean_share=False)),
    Mistake(
        "the devices' means have the same weight in mean. Weigh each by its share of the rows.",
        lambda means, variances, counts: (means.mean(0), _pool(means, variances, counts)[1]),
    ),
    *[
        Mistake(
            "in the spread between the devices every device has the same weight, or it is divided by K - 1. Weigh "
            "(means - mean)^2 by the share of the rows.",
            _plain_between(correction),
        )
        for correction in (0, 1)
    ],
    Mistake(
        "the mean of the squares still holds the square of the mean: subtract mean^2.",
        lambda means, variances, counts: (
            _pool(means, variances, counts)[0],
            _pool(means, variances + means**2, counts)[1] - _pool(means, 0 * variances, counts)[1],
        ),
    ),
    Mistake(
        "every device has the same weight, and only the variances are averaged. Weigh by rows, and add "
        "(means - mean)^2.",
        _pool_with(mean_share=False, between=False),
    ),
    Mistake(
        "only the distances between the means are counted. The spread inside each device belongs to it as well.",
        _pool_with(inner=False),
    ),
    Mistake(
        "the variance is divided by n - 1. Asked is the biased one, as in the forward pass.", _pool_with(correction=1)
    ),
    Mistake("var is the standard deviation. Leave the root away.", _pool_with(root=True)),
    Mistake(
        "the sums are not divided by the number of rows.",
        lambda means, variances, counts: (
            (counts[:, None] * means).sum(0),
            (counts[:, None] * (variances + (means - _pool(means, variances, counts)[0]) ** 2)).sum(0),
        ),
    ),
]


def pooled_stats(answer):
    """Check a function (means, variances, counts) -> (mean, var) of all rows together (lesson 6)."""
    examine(answer, "pooled_stats", _POOL_PROBES, _pool, _POOL_MISTAKES, tried="equal and unequal devices, gradients")

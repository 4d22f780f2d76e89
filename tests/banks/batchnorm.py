"""Answers to the exercises of lesson 6."""

import torch
from torch import nn
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------ 6.1 channel_stats


def others(x):
    return [axis for axis in range(x.dim()) if axis != 1]


def right_transposed(x):
    rows = x.transpose(0, 1).flatten(1)
    mean = rows.mean(-1, keepdim=True)
    return mean.squeeze(-1), ((rows - mean) ** 2).mean(-1)


def right_axes(x):
    return x.mean(others(x)), x.var(others(x), correction=0)


def right_two_cases(x):
    if x.dim() == 2:
        return x.mean(0), x.var(0, unbiased=False)
    return x.mean((0, 2)), x.var((0, 2), unbiased=False)


def right_channel_by_channel(x):
    pairs = [torch.var_mean(x[:, c], correction=0) for c in range(x.shape[1])]
    return [torch.stack([mean for _, mean in pairs]), torch.stack([var for var, _ in pairs])]


def channel(axes, correction=0, keepdim=False):
    return lambda x: (x.mean(axes(x), keepdim=keepdim), x.var(axes(x), correction=correction, keepdim=keepdim))


def reshaped(x):
    rows = x.reshape(x.shape[1], -1)
    return rows.mean(1), rows.var(1, correction=0)


def averaged_variances(x):
    mean, var = x.mean(0), x.var(0, correction=0)
    return (mean, var) if x.dim() == 2 else (mean.mean(-1), var.mean(-1))


def one_pass(x):
    return x.mean(others(x)), (x**2).mean(others(x)) - x.mean(others(x)) ** 2


def averaged_over_samples(x):
    return (x.mean(0), x.var(0, correction=0)) if x.dim() == 2 else (x.mean((0, 2)), x.var(-1, correction=0).mean(0))


def divided_by_rows(x):
    mean = x.sum(others(x), keepdim=True) / len(x)
    return mean.flatten(), ((x - mean) ** 2).sum(others(x)) / len(x)


CHANNEL_STATS = {
    "right": {
        "transpose and flatten": right_transposed,
        "all axes but 1": right_axes,
        "two cases": right_two_cases,
        "a loop over channels, a list": right_channel_by_channel,
    },
    "wrong": {
        "unbiased": (channel(others, correction=1), "torch.var's default"),
        "LayerNorm's axis": (channel(lambda x: -1), "as in LayerNorm"),
        "LayerNorm's axis, kept": (channel(lambda x: -1, keepdim=True), "as in LayerNorm"),
        "the channels": (channel(lambda x: 1), "channels themselves"),
        "only the batch": (channel(lambda x: 0), "only the batch"),
        "only the batch, unbiased": (channel(lambda x: 0, correction=1), "only the batch is reduced, and"),
        "LayerNorm's axis, unbiased": (channel(lambda x: -1, correction=1), "as in LayerNorm, and"),
        "only the batch, kept": (channel(lambda x: 0, keepdim=True), "only the batch"),
        "for (B, T, C)": (channel(lambda x: list(range(x.dim() - 1))), "fits (B, T, C)"),
        "the whole tensor": (lambda x: (x.mean(), x.var(correction=0)), "one mean for everything"),
        "kept": (channel(others, keepdim=True), "reduced axes are kept"),
        "(C, 1)": (lambda x: tuple(s.unsqueeze(-1) for s in right_axes(x)), "(C, 1)"),
        "reshape for transpose": (reshaped, "as they lie in memory"),
        "variances averaged over T": (averaged_variances, "variances of the time steps"),
        "deviation": (lambda x: (x.mean(others(x)), x.std(others(x), correction=0)), "Leave the root away"),
        "swapped": (lambda x: torch.var_mean(x, others(x), correction=0), "swapped"),
        "one pass": (one_pass, "loses digits"),
        "not centred": (lambda x: (x.mean(others(x)), (x**2).mean(others(x))), "not subtracted"),
        "sums over B": (divided_by_rows, "has B * T entries"),
        "(1, C)": (lambda x: tuple(s[None] for s in right_axes(x)), "(1, C)"),
        "var is (C, 1)": (lambda x: (right_axes(x)[0], right_axes(x)[1][:, None]), "Squeeze both"),
        "variances averaged over B": (averaged_over_samples, "variances of the samples"),
        "eps added": (lambda x: (right_axes(x)[0], right_axes(x)[1] + 1e-5), "eps is not part"),
        "float32": (lambda x: right_axes(x.float()), "dtype"),
        "stacked": (lambda x: torch.stack(right_axes(x)), "expected mean and var"),
        "detached": (lambda x: tuple(s.detach() for s in right_axes(x)), "gradient"),
        "only for (B, C)": (lambda x: right_axes(x) if x.dim() == 2 else None, "return"),
        "only the mean": (lambda x: x.mean(others(x)), "expected mean and var"),
    },
}


# ------------------------------------------------------------------------------------------ 6.2 RunningStatistics


class RightPlain(nn.Module):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def newest(self):
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum

    def update(self, mean, var, n):
        m = self.newest()
        with torch.no_grad():
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))


class RightRebound(RightPlain):
    """New tensors under the old names; a registered name stays registered."""

    def update(self, mean, var, n):
        m = self.newest()
        self.running_mean = (self.running_mean + m * (mean - self.running_mean)).detach()
        self.running_var = (self.running_var + m * (var * n / (n - 1) - self.running_var)).detach()


class RightInPlace(RightPlain):
    @torch.no_grad()
    def update(self, mean, var, n):
        m = self.newest()
        self.running_mean.mul_(1 - m).add_(m * mean)
        self.running_var.mul_(1 - m).add_(m * (n / (n - 1)) * var)


class RightLoop(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        nn.Module.__init__(self)
        self.momentum = momentum
        for name, start in (("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((num_features,), start, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))


def updates(rule, grad=False):
    """A class that is right but for the rule (old, new, m) -> value; new is the mean or (var, n)."""

    class Wrong(RightPlain):
        def update(self, mean, var, n):
            m = self.newest()
            with torch.set_grad_enabled(grad):
                self.running_mean = rule(self.running_mean, mean, m, None)
                self.running_var = rule(self.running_var, var, m, n)

    return Wrong


class OwnMomentum(RightPlain):
    """Overlooks that m is there already."""

    def update(self, mean, var, n):
        self.newest()
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.copy_((1 - self.momentum) * self.running_var + self.momentum * var * n / (n - 1))


class SwappedArguments(RightPlain):
    def update(self, mean, var, n):
        super().update(var, mean, n)


class MeanUnbiased(RightPlain):
    def update(self, mean, var, n):
        super().update(mean * n / (n - 1), var, n)


class CountedTwice(RightPlain):
    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        super().update(mean, var, n)


class NotPersistent(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device, dtype)
        self.register_buffer("running_var", self._buffers.pop("running_var"), persistent=False)


def unbiased(new, n):
    return new if n is None else new * n / (n - 1)


class NotRegistered(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        nn.Module.__init__(self)
        self.momentum = momentum
        self.running_mean = torch.zeros(num_features, device=device, dtype=dtype)
        self.running_var = torch.ones(num_features, device=device, dtype=dtype)
        self.num_batches_tracked = torch.tensor(0, device=device)


class NotRegisteredAtAll(RightPlain):
    """What the lesson gives registers the counter; the rest is a beginner's."""

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        nn.Module.__init__(self)
        self.momentum = momentum
        self.running_mean = torch.zeros(num_features)
        self.running_var = torch.ones(num_features)
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        m = self.newest()
        self.running_mean = m * self.running_mean + (1 - m) * mean
        self.running_var = m * self.running_var + (1 - m) * var


class Parameters(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        nn.Module.__init__(self)
        self.momentum = momentum
        self.running_mean = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.running_var = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))


class FrozenParameters(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        nn.Module.__init__(self)
        self.momentum = momentum
        kind = dict(device=device, dtype=dtype)
        self.running_mean = nn.Parameter(torch.zeros(num_features, **kind), requires_grad=False)
        self.running_var = nn.Parameter(torch.ones(num_features, **kind), requires_grad=False)
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))


class StartsAtZero(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device, dtype)
        self.running_var.zero_()


class NoCounter(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device, dtype)
        del self.num_batches_tracked
        self.num_batches_tracked = 0


class NoDtype(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device)


class NoDevice(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, None, dtype)


class OtherNames(RightPlain):
    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, momentum, device, dtype)
        self.register_buffer("moving_mean", self._buffers.pop("running_mean"))
        self.register_buffer("moving_var", self._buffers.pop("running_var"))


RUNNING = {
    "right": {
        "copy_": RightPlain,
        "new tensors, detach": RightRebound,
        "in place, decorator": RightInPlace,
        "a loop over names": RightLoop,
    },
    "wrong": {
        "plain attributes": (NotRegistered, "register_buffer"),
        "plain attributes, no dtype, momentum reversed": (NotRegisteredAtAll, "register_buffer"),
        "graph kept, momentum reversed, biased": (
            updates(lambda old, new, m, n: m * old + (1 - m) * new, grad=True),
            "part of the graph",
        ),
        "parameters": (Parameters, "an optimizer would get them"),
        "parameters without a gradient": (FrozenParameters, "frozen or not"),
        "variance starts at 0": (StartsAtZero, "mean 0 and variance 1"),
        "momentum reversed": (updates(lambda old, new, m, n: m * old + (1 - m) * unbiased(new, n)), "NEWEST batch"),
        "biased": (updates(lambda old, new, m, n: (1 - m) * old + m * new), "unbiased one"),
        "momentum reversed and biased": (updates(lambda old, new, m, n: m * old + (1 - m) * new), "stored as it comes"),
        "factor upside down": (
            updates(lambda old, new, m, n: (1 - m) * old + m * (new if n is None else new * (n - 1) / n)),
            "upside down",
        ),
        "graph kept": (updates(lambda old, new, m, n: (1 - m) * old + m * unbiased(new, n), grad=True), "graph"),
        "deviation": (
            updates(lambda old, new, m, n: (1 - m) * old + m * (new if n is None else unbiased(new, n).sqrt())),
            "Average the variances",
        ),
        "a sum": (updates(lambda old, new, m, n: old + m * unbiased(new, n)), "without end"),
        "only the newest": (updates(lambda old, new, m, n: unbiased(new, n)), "running_mean"),
        "never updated": (updates(lambda old, new, m, n: old), "do not change"),
        "self.momentum for m": (OwnMomentum, "use m"),
        "the mean unbiased too": (MeanUnbiased, "mean has no factor"),
        "n / n - 1": (
            updates(lambda old, new, m, n: (1 - m) * old + (m * new if n is None else m * new * n / n - 1)),
            "brackets",
        ),
        "n / n - 1 inside": (
            updates(lambda old, new, m, n: (1 - m) * old + m * (new if n is None else new * n / n - 1)),
            "brackets",
        ),
        "running_var forgotten": (
            updates(lambda old, new, m, n: (1 - m) * old + m * new if n is None else old),
            "running_var does not change",
        ),
        "swapped": (SwappedArguments, "swapped"),
        "counted twice": (CountedTwice, "num_batches_tracked"),
        "not persistent": (NotPersistent, "state_dict()"),
        "the counter is no buffer": (NoCounter, "num_batches_tracked"),
        "other names": (OtherNames, "running_mean"),
        "dtype forgotten": (NoDtype, "dtype is not handed on"),
        "device forgotten": (NoDevice, "device is not handed on"),
        "an instance": (RightPlain(3), "takes your class itself"),
        "a function": (lambda num_features: None, "takes your class itself"),
    },
}


# ------------------------------------------------------------------------------------------ 6.3 BatchNorm1d


class Given(RightPlain):
    """What the exercise gives: the constructor. The answers below write forward."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__(num_features, momentum, device, dtype)
        self.num_features, self.eps = num_features, eps
        kind = dict(device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(torch.ones(num_features, **kind)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_features, **kind)) if affine else None)
        if not track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def shape(self, x):
        if x.dim() not in (2, 3):
            raise ValueError("two or three axes")
        return (1, -1, 1)[: x.dim()]

    def scaled(self, y, shape):
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


def refuse_one(x):
    if x.numel() == x.shape[1]:
        raise ValueError(f"a batch of one: {tuple(x.shape)}")


class RightStepByStep(Given):
    def forward(self, x):
        shape = self.shape(x)
        if self.training or self.running_mean is None:
            refuse_one(x)
            mean, var = right_axes(x)
            if self.training and self.running_mean is not None:
                self.update(mean, var, x.numel() // x.shape[1])
        else:
            mean, var = self.running_mean, self.running_var
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class RightRsqrt(Given):
    def forward(self, x):
        shape, n = self.shape(x), x.numel() // x.shape[1]
        mean, var = self.running_mean, self.running_var
        if self.training or mean is None:
            if n < 2:
                raise ValueError
            mean, var = right_two_cases(x)
        if self.training and self.running_mean is not None:
            self.update(mean.detach(), var.detach(), n)
        y = (x - mean.reshape(shape)) * (var.reshape(shape) + self.eps).rsqrt()
        return self.scaled(y, shape)


class RightTorch(nn.BatchNorm1d):
    """PyTorch's own."""


class RightStandalone(nn.Module):
    """Channels to the end, and no class in between."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__()
        self.eps, self.momentum, self.affine, self.track = eps, momentum, affine, track_running_stats
        new = dict(device=device, dtype=dtype)
        self.weight = nn.Parameter(torch.ones(num_features, **new)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features, **new)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features, **new) if self.track else None)
        self.register_buffer("running_var", torch.ones(num_features, **new) if self.track else None)
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device) if self.track else None)

    def forward(self, x):
        if x.dim() == 3:
            return self.rows(x.transpose(1, 2).flatten(0, 1)).view(len(x), -1, x.shape[1]).transpose(1, 2)
        if x.dim() != 2:
            raise ValueError(f"2 or 3 axes, not {x.dim()}")
        return self.rows(x)

    def rows(self, x):
        if self.training and len(x) == 1:
            raise ValueError("one row")
        if self.training and self.track:
            self.num_batches_tracked.add_(1)
            m = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(0), m)
                self.running_var.lerp_(x.var(0), m)
        if self.training or not self.track:
            mean, var = x.mean(0), x.var(0, correction=0)
        else:
            mean, var = self.running_mean, self.running_var
        x_hat = (x - mean) / (var + self.eps) ** 0.5
        return torch.addcmul(self.bias, x_hat, self.weight) if self.affine else x_hat


def wrong_forward(statistics=right_axes, eps_outside=False, affine=True):
    """Right but for how a training batch is normalized."""

    class BatchNorm1d(Given):
        def forward(self, x):
            shape = self.shape(x)
            if self.training or self.running_mean is None:
                refuse_one(x)
                if self.running_mean is not None:
                    self.update(*right_axes(x), x.numel() // x.shape[1])
                mean, var = statistics(x)
            else:
                mean, var = self.running_mean, self.running_var
            mean = mean.view(shape) if mean.dim() == 1 else mean
            var = var.view(shape) if var.dim() == 1 else var
            y = (x - mean) / (var.sqrt() + self.eps if eps_outside else torch.sqrt(var + self.eps))
            return self.scaled(y, shape) if affine else y

    return BatchNorm1d


def no_grad_stats(x):
    with torch.no_grad():
        return right_axes(x)


class RunningInTraining(Given):
    def forward(self, x):
        shape = self.shape(x)
        if self.training:
            refuse_one(x)
            self.update(*right_axes(x), x.numel() // x.shape[1])
        y = (x - self.running_mean.view(shape)) / torch.sqrt(self.running_var.view(shape) + self.eps)
        return self.scaled(y, shape)


class RunningBeforeUpdate(Given):
    def forward(self, x):
        shape = self.shape(x)
        y = (x - self.running_mean.view(shape)) / torch.sqrt(self.running_var.view(shape) + self.eps)
        if self.training:
            refuse_one(x)
            self.update(*right_axes(x), x.numel() // x.shape[1])
        return self.scaled(y, shape)


class GradSwitch(Given):
    """Whether gradients are recorded decides, as in a public textbook."""

    def forward(self, x):
        shape = self.shape(x)
        if not torch.is_grad_enabled() and self.running_mean is not None:
            mean, var = self.running_mean, self.running_var
        else:
            refuse_one(x)
            mean, var = right_axes(x)
            if self.running_mean is not None:
                self.update(mean, var, x.numel() // x.shape[1])
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class TextbookStandalone(nn.Module):
    """The switch by gradient mode, the biased variance, no counter, plain attributes: all at once."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, dtype=dtype, device=device))
        self.bias = nn.Parameter(torch.zeros(num_features, dtype=dtype, device=device))
        self.running_mean = torch.zeros(num_features, dtype=dtype, device=device)
        self.running_var = torch.ones(num_features, dtype=dtype, device=device)

    def forward(self, x):
        shape = (1, -1, 1)[: x.dim()]
        if not torch.is_grad_enabled():
            mean, var = self.running_mean, self.running_var
        else:
            mean, var = right_axes(x)
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * var
        return (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps) * self.weight.view(
            shape
        ) + self.bias.view(shape)


def wrong_update(rule):
    """Right but for update(self, mean, var, n)."""

    class BatchNorm1d(RightStepByStep):
        def update(self, mean, var, n):
            rule(self, mean, var, n)

    return BatchNorm1d


def assign(self, m, old, mean, var, grad=False):
    with torch.set_grad_enabled(grad):
        self.running_mean = old * self.running_mean + m * mean
        self.running_var = old * self.running_var + m * var


def biased_rule(self, mean, var, n):
    m = self.newest()
    assign(self, m, 1 - m, mean, var)


def reversed_rule(self, mean, var, n):
    m = self.newest()
    assign(self, 1 - m, m, mean, var * n / (n - 1))


def reversed_biased_rule(self, mean, var, n):
    m = self.newest()
    assign(self, 1 - m, m, mean, var)


def graph_rule(self, mean, var, n):
    m = self.newest()
    assign(self, m, 1 - m, mean, var * n / (n - 1), grad=True)


def no_counter_rule(self, mean, var, n):
    if self.momentum is not None:
        assign(self, self.momentum, 1 - self.momentum, mean, var * n / (n - 1))
    else:
        RightPlain.update(self, mean, var, n)


def doubly_unbiased(self, mean, var, n):
    RightPlain.update(self, mean, var * n / (n - 1), n)


class RowsForEntries(RightStepByStep):
    def update(self, mean, var, n):
        super().update(mean, var, self.rows)

    def forward(self, x):
        self.rows = len(x)
        return super().forward(x)


class TurnedRound(Given):
    """The exercise's two decisions, the first the wrong way round."""

    own = False

    def forward(self, x):
        shape, n = self.shape(x), x.numel() // x.shape[1]
        if self.training == self.own:
            refuse_one(x)
            mean, var = right_axes(x)
        else:
            mean, var = self.running_mean, self.running_var
        if self.training or self.own:
            self.update(mean, var, n)
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class OwnUpdate(TurnedRound):
    """Updates in both modes with whatever normalizes."""

    own = True


class RunningWithoutAny(Given):
    """Right but for track_running_stats=False in eval()."""

    def forward(self, x):
        shape, n = self.shape(x), x.numel() // x.shape[1]
        if self.training:
            refuse_one(x)
            mean, var = right_axes(x)
            if self.running_mean is not None:
                self.update(mean, var, n)
        else:
            mean, var = self.running_mean, self.running_var
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class AssertsForOne(RightStepByStep):
    def forward(self, x):
        assert not self.training or x.numel() > x.shape[1]
        return super().forward(x)


class AlwaysBatch(Given):
    def forward(self, x):
        shape = self.shape(x)
        if self.training:
            refuse_one(x)
        mean, var = right_axes(x)
        if self.training and self.running_mean is not None:
            self.update(mean, var, x.numel() // x.shape[1])
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class AlwaysTraining(Given):
    def forward(self, x):
        shape = self.shape(x)
        if self.training:
            refuse_one(x)
        mean, var = right_axes(x)
        if self.running_mean is not None:
            self.update(mean, var, x.numel() // x.shape[1])
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class UpdatedInEval(RightStepByStep):
    def forward(self, x):
        y = super().forward(x)
        if not self.training and self.running_mean is not None:
            self.update(*right_axes(x), x.numel() // x.shape[1])
        return y


class NoErrorForOne(Given):
    def forward(self, x):
        shape = self.shape(x)
        if self.training or self.running_mean is None:
            mean, var = right_axes(x)
            n = x.numel() // x.shape[1]
            if self.training and self.running_mean is not None:
                self.update(mean, var, n if n > 1 else float("nan"))
        else:
            mean, var = self.running_mean, self.running_var
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class DivisionByZero(NoErrorForOne):
    def update(self, mean, var, n):
        super().update(mean, var, n / (1 if n == n else 0))


class ErrorForOneInEval(RightStepByStep):
    def forward(self, x):
        refuse_one(x)
        return super().forward(x)


class ErrorForOneRow(RightStepByStep):
    def forward(self, x):
        if self.training and len(x) == 1:
            raise ValueError("one row")
        return super().forward(x)


class PlainAttributes(RightStepByStep):
    def __init__(self, num_features, *args, **kwargs):
        super().__init__(num_features, *args, **kwargs)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            value = self._buffers.pop(name)
            setattr(self, name, value)


class Untracked(RightStepByStep):
    """Forgets that running_mean may be None."""

    def forward(self, x):
        shape = self.shape(x)
        if self.training:
            refuse_one(x)
            mean, var = right_axes(x)
            self.update(mean, var, x.numel() // x.shape[1])
        else:
            mean, var = self.running_mean, self.running_var
        return self.scaled((x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps), shape)


class FourAxes(RightStepByStep):
    def shape(self, x):
        return [1, -1, 1, 1][: max(2, x.dim())]


class LastAxisBroadcast(Given):
    """(C,) against the last axis: right for (B, C) only."""

    def forward(self, x):
        self.shape(x)
        mean, var = right_axes(x) if self.training else (self.running_mean, self.running_var)
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias


class InPlace(RightStepByStep):
    def forward(self, x):
        x -= 0.5
        return super().forward(x) + 0


class NoReturn(RightStepByStep):
    def forward(self, x):
        super().forward(x)


class NoDeviceLayer(RightStepByStep):
    def __init__(self, num_features, *args, device=None, **kwargs):
        super().__init__(num_features, *args, device=device, **kwargs)
        self.running_mean = torch.zeros(num_features, dtype=self.running_mean.dtype)


BATCH_NORM = {
    "right": {
        "step by step": RightStepByStep,
        "rsqrt, detach": RightRsqrt,
        "channels last, standalone": RightStandalone,
        "nn.BatchNorm1d": RightTorch,
    },
    "wrong": {
        "unbiased in forward": (
            wrong_forward(lambda x: (x.mean(others(x)), x.var(others(x)))),
            "divided by the unbiased deviation",
        ),
        "eps outside": (wrong_forward(eps_outside=True), "sqrt(var + eps)"),
        "eps outside and unbiased": (
            wrong_forward(lambda x: (x.mean(others(x)), x.var(others(x))), eps_outside=True),
            "eps is outside the root, and",
        ),
        "statistics under no_grad": (wrong_forward(no_grad_stats), "constants for your gradient"),
        "variance detached": (
            wrong_forward(lambda x: (right_axes(x)[0], right_axes(x)[1].detach())),
            "not pass through the variance",
        ),
        "mean detached": (
            wrong_forward(lambda x: (right_axes(x)[0].detach(), right_axes(x)[1])),
            "not pass through the mean",
        ),
        "running statistics in training": (RunningInTraining, "just updated"),
        "running statistics, not yet updated": (RunningBeforeUpdate, "training uses the running statistics"),
        "switch by gradient mode": (GradSwitch, "self.training"),
        "only the batch of (B, C, T)": (
            wrong_forward(lambda x: (x.mean(0, keepdim=True), x.var(0, correction=0, keepdim=True))),
            "only the batch is reduced",
        ),
        "InstanceNorm for (B, C, T)": (
            wrong_forward(
                lambda x: (
                    (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)) if x.dim() == 3 else right_axes(x)
                )
            ),
            "InstanceNorm",
        ),
        "LayerNorm": (
            wrong_forward(
                lambda x: (
                    x.mean(list(range(1, x.dim())), keepdim=True),
                    x.var(list(range(1, x.dim())), correction=0, keepdim=True),
                )
            ),
            "as in LayerNorm",
        ),
        "one mean for everything": (
            wrong_forward(lambda x: (x.mean(), x.var(correction=0))),
            "one mean for the whole batch",
        ),
        "no weight and bias": (wrong_forward(affine=False), "not applied"),
        "statistics against the last axis": (LastAxisBroadcast, "(3, 4, 5)"),
        "biased running variance": (wrong_update(biased_rule), "biased variance"),
        "momentum reversed": (wrong_update(reversed_rule), "the other way round"),
        "momentum reversed and biased": (wrong_update(reversed_biased_rule), "the other way round, and"),
        "never updated": (wrong_update(lambda self, mean, var, n: self.newest()), "never change"),
        "never updated nor counted": (wrong_update(lambda *args: None), "never change"),
        "unbiased twice": (wrong_update(doubly_unbiased), "applied twice"),
        "counts rows, not entries": (RowsForEntries, "n = B * T"),
        "not counted": (wrong_update(no_counter_rule), "num_batches_tracked"),
        "batch statistics in eval": (AlwaysBatch, "evaluation uses the statistics of the batch"),
        "eval is training": (AlwaysTraining, "and updates the buffers"),
        "buffers updated in eval": (UpdatedInEval, "updated in eval()"),
        "plain attributes": (PlainAttributes, "register_buffer"),
        "buffers keep the graph": (wrong_update(graph_rule), "part of the graph"),
        "no error for a batch of one": (NoErrorForOne, "Raise a ValueError"),
        "division by zero for a batch of one": (DivisionByZero, "before the division"),
        "an error for one sample in eval": (ErrorForOneInEval, "refused in eval()"),
        "an error for one long row": (ErrorForOneRow, "several time steps"),
        "track_running_stats=False": (Untracked, "in both modes"),
        "track_running_stats=False in eval()": (RunningWithoutAny, "in both modes"),
        "modes turned round": (TurnedRound, "wrong way round"),
        "updated in eval() with themselves": (OwnUpdate, "with their own values"),
        "an assert for a batch of one": (AssertsForOne, "'AssertionError', expected 'ValueError'"),
        "four axes accepted": (FourAxes, "axis"),
        "everything at once": (TextbookStandalone, "under torch.no_grad()"),
        "changes its input": (InPlace, "changed its input"),
        "no return": (NoReturn, "return"),
        "device forgotten": (NoDeviceLayer, "device"),
        "an instance": (RightStepByStep(4), "takes your class itself"),
        "nn.LayerNorm": (nn.LayerNorm, "the output"),
        "blank forward of nn.Module": (Given, "raised"),
    },
}


# ------------------------------------------------------------------------------------------ 6.4 reduced_axes

AXES = {
    "axes, BatchNorm on (B, C, T)": (0, 2),
    "axes, BatchNorm on (B, C, H, W)": (0, 2, 3),
    "axes, InstanceNorm on (B, C, H, W)": (2, 3),
    "axes, LayerNorm([C, H, W]) on (B, C, H, W)": (1, 2, 3),
    "means, GroupNorm with 2 groups on (8, 6, 5, 4)": 16,
    "buffer numbers, BatchNorm with 6 channels": 13,
}


def but(number, value):
    """The right answers but for one."""
    return AXES | {list(AXES)[number]: value}


REDUCED_AXES = {
    "right": {
        "ascending": AXES,
        "lists, negative, any order": but(0, [-1, 0]) | {list(AXES)[2]: [-1, -2], list(AXES)[3]: (3, 1, 2)},
        "sets": but(1, {2, 3, 0}),
    },
    "wrong": {
        "BN keeps time": (but(0, (0,)), "time step"),
        "BN as IN": (but(0, (2,)), "InstanceNorm"),
        "BN reduces the channels": (but(0, 1), "that BatchNorm keeps"),
        "BN as LN": (but(0, (1, 2)), "LayerNorm"),
        "BN, wrong layout": (but(0, (0, 1)), "That keeps T"),
        "BN reduces everything": (but(0, (0, 1, 2)), "one mean would be left"),
        "BN reduces everything on images": (but(1, (0, 1, 2, 3)), "one mean would be left"),
        "BN, (B, C) for images": (but(1, (0, 1)), "keeps the pixels"),
        "IN reduces the channels": (but(2, 1), "keeps apart"),
        "IN reduces the batch": (but(2, 0), "the instance"),
        "GN, groups of 2": (but(4, 24), "Groups OF 2"),
        "three vectors": (but(5, 18), "single number"),
        "parameters counted too": (but(5, 25), "not buffers"),
        "BN keeps pixels": (but(1, (0,)), "pixel"),
        "BN as IN on images": (but(1, (2, 3)), "pools the images"),
        "BN as LN on images": (but(1, (-1, -2, -3)), "LayerNorm([C, H, W])"),
        "IN as BN": (but(2, (0, 2, 3)), "That is BatchNorm"),
        "IN, what is kept": (but(2, (0, 1)), "it keeps"),
        "LN per pixel": (but(3, (1,)), "each pixel"),
        "LN with the batch": (but(3, (0, 1, 2, 3)), "never reduces the batch"),
        "GN for the batch": (but(4, 2), "own 2 groups"),
        "GN as IN": (but(4, 48), "InstanceNorm"),
        "GN, entries": (but(4, 60), "share a mean"),
        "two vectors": (but(5, 12), "num_batches_tracked"),
        "three buffers": (but(5, 3), "vectors of 6"),
        "as LN": (but(5, 0), "remember"),
        "no such axis": (but(0, (0, 3)), "does not exist"),
        "names": (but(0, ("B", "T")), "axis numbers"),
        "a string": (but(0, "B, T"), "axis numbers"),
        "off by one": (but(4, 17), "not right"),
        "a missing key": ({k: v for k, v in AXES.items() if "Group" not in k}, "missing"),
        "a list of answers": (list(AXES.values()), "dictionary"),
    },
}


# ------------------------------------------------------------------------------------------ 6.6 normalize_regions


def right_transpose(x, norm):
    return norm(x.transpose(1, 2)).transpose(1, 2)


def right_flat(x, norm):
    B, R, D = x.shape
    return norm(x.reshape(B * R, D)).reshape(B, R, D)


def right_permute(x, norm):
    return norm(x.permute(0, 2, 1)).permute(0, 2, 1).contiguous()


REGIONS = {
    "right": {
        "transpose": right_transpose,
        "rows of features": right_flat,
        "permute": right_permute,
        "flatten and unflatten": lambda x, norm: norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]),
    },
    "wrong": {
        "view for transpose": (lambda x, norm: norm(x.view(len(x), x.shape[2], -1)).view(x.shape), "as they lie"),
        "not moved back": (lambda x, norm: norm(x.transpose(1, 2)), "not back"),
        "reshaped back": (lambda x, norm: norm(x.transpose(1, 2)).reshape(x.shape), "do not move an axis back"),
        "the patient": (lambda x, norm: norm(x), "taken for the channels"),
        "the patient if it fits": (
            lambda x, norm: norm(x) if x.shape[1] == x.shape[2] else right_transpose(x, norm),
            "(4, 8, 8)",
        ),
        "a new layer for the regions": (
            lambda x, norm: nn.BatchNorm1d(x.shape[1], dtype=x.dtype, device=x.device)(x),
            "Use the given one",
        ),
        "a new layer for the features": (
            lambda x, norm: right_transpose(x, nn.BatchNorm1d(x.shape[2], dtype=x.dtype, device=x.device)),
            "the result",
        ),
        "region by region": (
            lambda x, norm: torch.stack([norm(x[:, r]) for r in range(x.shape[1])], dim=1),
            "own statistics",
        ),
        "sample by sample": (lambda x, norm: torch.stack([norm(sample) for sample in x]), "own statistics"),
        "LayerNorm": (lambda x, norm: F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias), "LayerNorm"),
        "batch and features swapped": (
            lambda x, norm: norm(x.permute(2, 1, 0)).permute(2, 1, 0),
            "taken for the channels",
        ),
        "regions averaged": (lambda x, norm: norm(x.mean(1)).unsqueeze(1).expand_as(x), "averaged away"),
        "always eval": (lambda x, norm: right_transpose(x, norm.eval()), "the result"),
        "axes 0 and 1": (lambda x, norm: norm(x.transpose(0, 1)).transpose(0, 1), "running_mean should contain"),
        "back to another order": (lambda x, norm: norm(x.transpose(1, 2)).permute(2, 0, 1), "shape"),
        "instances": (
            lambda x, norm: F.instance_norm(x.transpose(1, 2), weight=norm.weight, bias=norm.bias).transpose(1, 2),
            "the result",
        ),
        "flat, not back": (lambda x, norm: norm(x.flatten(0, 1)), "shape (20, 8)"),
        "detached": (lambda x, norm: right_transpose(x, norm).detach(), "gradient"),
        "buffers forgotten": (
            lambda x, norm: F.batch_norm(
                x.transpose(1, 2), None, None, norm.weight, norm.bias, True, 0.1, norm.eps
            ).transpose(1, 2),
            "running_mean",
        ),
    },
}


# ------------------------------------------------------------------------------------------ 6.5 pooled_stats


def right_moments(means, variances, counts):
    share = (counts / counts.sum()).unsqueeze(-1)
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean) ** 2)).sum(0)


def right_squares(means, variances, counts):
    share = counts[:, None] / counts.sum()
    mean = (share * means).sum(0)
    square = (share * (variances + means**2)).sum(0)
    return mean, square - mean**2


def right_pairwise(means, variances, counts):
    n, mean, m2 = counts[0], means[0], counts[0] * variances[0]
    for k in range(1, len(counts)):
        delta, total = means[k] - mean, n + counts[k]
        mean = mean + delta * counts[k] / total
        m2 = m2 + counts[k] * variances[k] + delta**2 * n * counts[k] / total
        n = total
    return mean, m2 / n


def weigh(means, variances, counts):
    return (counts / counts.sum())[:, None]


POOLED = {
    "right": {
        "law of total variance": right_moments,
        "mean of squares": right_squares,
        "two at a time": right_pairwise,
    },
    "wrong": {
        "variances averaged": (
            lambda m, v, n: ((weigh(m, v, n) * m).sum(0), (weigh(m, v, n) * v).sum(0)),
            "differ in their means",
        ),
        "equal weights": (lambda m, v, n: (m.mean(0), (v + (m - m.mean(0)) ** 2).mean(0)), "share of the rows"),
        "plain means of both": (lambda m, v, n: (m.mean(0), v.mean(0)), "Weigh by rows"),
        "between only": (
            lambda m, v, n: (right_moments(m, v, n)[0], right_moments(m, 0 * v, n)[1]),
            "inside each device",
        ),
        "unbiased": (
            lambda m, v, n: (right_moments(m, v, n)[0], right_moments(m, v, n)[1] * n.sum() / (n.sum() - 1)),
            "divided by n - 1",
        ),
        "deviation": (lambda m, v, n: (right_moments(m, v, n)[0], right_moments(m, v, n)[1].sqrt()), "root"),
        "sums": (lambda m, v, n: tuple(s * n.sum() for s in right_moments(m, v, n)), "not divided"),
        "not one number per channel": (lambda m, v, n: (m.mean(), v.mean()), "shape"),
        "only the mean": (lambda m, v, n: m.mean(0), "expected mean and var"),
        "mean unweighted": (lambda m, v, n: (m.mean(0), right_moments(m, v, n)[1]), "in mean"),
        "between with torch.var": (
            lambda m, v, n: (right_moments(m, v, n)[0], (weigh(m, v, n) * v).sum(0) + m.var(0)),
            "(means - mean)^2 by the share",
        ),
        "between unweighted": (
            lambda m, v, n: (right_moments(m, v, n)[0], (weigh(m, v, n) * v).sum(0) + m.var(0, correction=0)),
            "(means - mean)^2 by the share",
        ),
        "square of the mean left in": (
            lambda m, v, n: (right_moments(m, v, n)[0], (weigh(m, v, n) * (v + m**2)).sum(0)),
            "subtract mean^2",
        ),
        "first device": (lambda m, v, n: (m[0], v[0]), "mean"),
    },
}

BANK = {
    "channel_stats": CHANNEL_STATS,
    "running_statistics": RUNNING,
    "batch_norm": BATCH_NORM,
    "reduced_axes": REDUCED_AXES,
    "normalize_regions": REGIONS,
    "pooled_stats": POOLED,
}

"""Answers to the exercises of lesson 6."""

import torch
from torch import nn

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


CHANNEL_STATS = {
    "right": {
        "transpose and flatten": right_transposed,
        "all axes but 1": right_axes,
        "two cases": right_two_cases,
        "a loop over channels, a list": right_channel_by_channel,
    },
    "wrong": {
        "float32": (lambda x: right_axes(x.float()), "dtype"),
        "stacked": (lambda x: torch.stack(right_axes(x)), "expected mean and var"),
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


class GivenInPlace(RightPlain):
    """Scales the mean and the variance that the forward pass goes on to use."""

    def update(self, mean, var, n):
        m = self.newest()
        with torch.no_grad():
            self.running_mean.mul_(1 - m).add_(mean.mul_(m))
            self.running_var.mul_(1 - m).add_(var.mul_(m * n / (n - 1)))


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
        "changes what it is given": (GivenInPlace, "changed its input mean"),
        "other names": (OtherNames, "running_mean"),
    },
}


# ------------------------------------------------------------------------------------------ 6.3 BatchNorm1d


class Given(RightPlain):
    """What the exercise gives: the constructor. The answers below write forward."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, **kind):
        super().__init__(num_features, momentum, **kind)
        self.num_features, self.eps = num_features, eps
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


class RightStepByStep(Given):
    def statistics(self, x):
        return right_axes(x)

    def forward(self, x):
        shape = self.shape(x)
        if self.training or self.running_mean is None:
            if x.numel() == x.shape[1]:
                raise ValueError(f"a batch of one: {tuple(x.shape)}")
            mean, var = self.statistics(x)
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


class RightStandalone(nn.Module):
    """Channels to the end, and no class in between."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, **kind):
        super().__init__()
        self.eps, self.momentum, self.affine, self.track = eps, momentum, affine, track_running_stats
        self.weight = nn.Parameter(torch.ones(num_features, **kind)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features, **kind)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features, **kind) if self.track else None)
        self.register_buffer("running_var", torch.ones(num_features, **kind) if self.track else None)
        self.register_buffer("num_batches_tracked", torch.tensor(0) if self.track else None)

    def forward(self, x):
        if x.dim() == 3:
            return self.rows(x.transpose(1, 2).flatten(0, 1)).view(len(x), -1, x.shape[1]).transpose(1, 2)
        if x.dim() != 2:
            raise ValueError(f"2 or 3 axes, not {x.dim()}")
        return self.rows(x)

    def rows(self, x):
        if (self.training or not self.track) and len(x) == 1:
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


class TextbookStandalone(nn.Module):
    """A public textbook's: the switch by gradient mode, biased variance, no counter, plain attributes, all at once."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, **kind):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, **kind))
        self.bias = nn.Parameter(torch.zeros(num_features, **kind))
        self.running_mean = torch.zeros(num_features, **kind)
        self.running_var = torch.ones(num_features, **kind)

    def forward(self, x):
        shape = (1, -1, 1)[: x.dim()]
        if not torch.is_grad_enabled():
            mean, var = self.running_mean, self.running_var
        else:
            mean, var = right_axes(x)
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * var
        x_hat = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return x_hat * self.weight.view(shape) + self.bias.view(shape)


class Clipped(RightStepByStep):
    def scaled(self, y, shape):
        return super().scaled(y.clamp(-3, 3), shape)


class Remembered(RightStepByStep):
    """Keeps the statistics of the first batch of each shape."""

    def statistics(self, x):
        self.known = getattr(self, "known", {})
        return self.known.setdefault(x.shape, right_axes(x))


class AssertsForOne(RightStepByStep):
    def forward(self, x):
        assert not self.training or x.numel() > x.shape[1]
        return super().forward(x)


class FourAxes(RightStepByStep):
    def shape(self, x):
        return [1, -1, 1, 1][: max(2, x.dim())]


BATCH_NORM = {
    "right": {
        "step by step": RightStepByStep,
        "rsqrt, detach": RightRsqrt,
        "channels last, standalone": RightStandalone,
    },
    "wrong": {
        "nn.BatchNorm1d": (nn.BatchNorm1d, "PyTorch's own batch_norm made them"),
        "everything at once": (TextbookStandalone, "under torch.no_grad()"),
        "clipped": (Clipped, "On 256 rows around 1e4"),
        "statistics remembered": (Remembered, "On the second of two training batches"),
        "an assert for a batch of one": (AssertsForOne, "'AssertionError', expected 'ValueError'"),
        "four axes accepted": (FourAxes, "axis"),
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
        "no such axis": (but(0, (0, 3)), "does not exist"),
        "names": (but(0, ("B", "T")), "axis numbers"),
        "a string": (but(0, "B, T"), "axis numbers"),
        "negative axes": (but(1, (-1, -2, -3)), "LayerNorm([C, H, W])"),
        "off by one": (but(4, 17), "not right"),
        "a missing key": ({k: v for k, v in AXES.items() if "Group" not in k}, "missing"),
        "a list of answers": (list(AXES.values()), "dictionary"),
    },
}


# ------------------------------------------------------------------------------------------ 6.5 normalize_regions


def right_transpose(x, norm):
    return norm(x.transpose(1, 2)).transpose(1, 2)


def right_flat(x, norm):
    B, R, D = x.shape
    return norm(x.reshape(B * R, D)).reshape(B, R, D)


REGIONS = {
    "right": {
        "transpose": right_transpose,
        "rows of features": right_flat,
        "permute": lambda x, norm: norm(x.permute(0, 2, 1)).permute(0, 2, 1).contiguous(),
        "flatten and unflatten": lambda x, norm: norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]),
    },
    "wrong": {
        "the patient if it fits": (
            lambda x, norm: norm(x) if x.shape[1] == x.shape[2] else right_transpose(x, norm),
            "(8, 8, 8)",
        ),
        "eval and back": (lambda x, norm: (right_transpose(x, norm.eval()), norm.train())[0], "the result"),
        "back to another order": (lambda x, norm: norm(x.transpose(1, 2)).permute(2, 0, 1), "shape"),
    },
}


# ------------------------------------------------------------------------------------------ 6.6 pooled_stats


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


def right_in_float64(means, variances, counts):
    return tuple(s.to(means.dtype) for s in right_moments(means.double(), variances.double(), counts.double()))


POOLED = {
    "right": {
        "law of total variance": right_moments,
        "mean of squares": right_squares,
        "two at a time": right_pairwise,
        "float64 inside": right_in_float64,
    },
    "wrong": {
        "shares in float64": (lambda m, v, n: right_moments(m, v, n.double()), "dtype torch.float64"),
        "not one number per channel": (lambda m, v, n: (m.mean(), v.mean()), "shape"),
        "only the mean": (lambda m, v, n: m.mean(0), "expected mean and var"),
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

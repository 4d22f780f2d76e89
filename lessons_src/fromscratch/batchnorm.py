"""What lesson 6 builds: BatchNorm1d, RunningStatistics, channel_stats.

Made by coursebuild from lessons_src/lessons/06_batchnorm/lesson.py: edit the lesson, not this file.
"""

from fromscratch import mean_and_var
from torch import nn
import torch


def channel_stats(x):
    """Return the mean and the biased variance of each channel of x.

    Example: for the children the means are 8, 28, 130 and the variances 4, 36, 144.
    x: (B, C) or (B, C, T). Returns (mean, var), both (C,).
    """
    rows = x.transpose(0, 1).flatten(1)  # (C, B) or (C, B * T): one row for each channel
    mean, var = mean_and_var(rows)  # (C, 1)
    return mean.squeeze(-1), var.squeeze(-1)  # (C,)


# The constructor and the buffers of BatchNorm1d


class RunningStatistics(nn.Module):
    """A running mean and a running variance of C channels, as buffers.

    num_features: C. momentum: the weight of the newest batch; None: all weigh the same.
    """

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum, kind = momentum, dict(device=device, dtype=dtype)
        self.register_buffer("running_mean", torch.zeros(num_features, **kind))
        self.register_buffer("running_var", torch.ones(num_features, **kind))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        """Take in a batch of n > 1 entries a channel: its mean and its BIASED variance, (C,).

        mean and var stay as they are, and no gradient is recorded.
        """
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():  # the buffers are no part of the loss
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))


class _Given(RunningStatistics):
    """What is given of BatchNorm1d: its constructor, and how many entries a channel has."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, momentum, device, dtype)
        self.num_features, self.eps = num_features, eps
        make = lambda value: torch.full((num_features,), value, device=device, dtype=dtype)
        for name, value in {"weight": 1.0, "bias": 0.0}.items():
            self.register_parameter(name, nn.Parameter(make(value)) if affine else None)
        if not track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def entries(self, x):
        """Return how many entries each channel of x has; x of another shape is refused."""
        if x.dim() not in (2, 3) or x.shape[1] != self.num_features:
            C = self.num_features
            raise ValueError(f"expected (B, {C}) or (B, {C}, T), got {tuple(x.shape)}")
        return x.numel() // self.num_features


class BatchNorm1d(_Given):
    """Batch Normalization of x, (B, C) or (B, C, T), as nn.BatchNorm1d, built by hand.

    Example: BatchNorm1d(1) in train() makes -1.5, -0.5, 0, 0.5, 1.5 of our five ages.
    The table above says which statistics are used, and when the buffers are updated.
    Where the batch's own are used, n == 1 raises a ValueError, and no buffer changes.
    Gradients pass through the batch's own statistics. x is float32 or float64.
    """

    def forward(self, x):
        n = self.entries(x)  # how many entries each channel has
        # Your part: bind mean and var, both (C,), to what normalizes x.
        # self.training is what train() and eval() set; self.running_mean and self.running_var
        # are None without tracking; self.update(mean, var, n) moves them.
        if self.training or self.running_mean is None:
            if n == 1:
                raise ValueError(
                    f"expected more than one entry per channel, got {tuple(x.shape)}"
                )
            mean, var = channel_stats(x)  # (C,)
        else:
            mean, var = self.running_mean, self.running_var  # (C,)
        if self.training and self.running_mean is not None:
            self.update(mean, var, n)
        shape = (1, -1, 1)[: x.dim()]  # (C,) -> (1, C) or (1, C, 1)
        y = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)

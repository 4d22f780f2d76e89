"""What lesson 6 builds: BatchNorm1d, RunningStatistics, channel_stats.

Made by coursebuild from lessons_src/lessons/06_batchnorm.py: edit the lesson, not this file.
"""

from fromscratch import mean_and_var
from torch import nn
import torch


def channel_stats(x):
    """Return the mean and the biased variance of each channel of x.

    x: (B, C) or (B, C, T), float32 or float64; the channels are axis 1. It stays as it is.
    Returns (mean, var), both of shape (C,) and of x's dtype: over all axes but axis 1, divided
    by the number of entries. Gradients flow through both. A large mean costs var no digits.
    """
    rows = x.transpose(0, 1).flatten(1)  # (C, B) or (C, B * T): one row for each channel
    mean, var = mean_and_var(rows)  # (C, 1)
    return mean.squeeze(-1), var.squeeze(-1)  # (C,)


class RunningStatistics(nn.Module):
    """A running mean and a running variance of C channels, as buffers.

    num_features: C.
    momentum: the weight of the newest batch; None gives all batches the same weight.
    Buffers, saved with the module: running_mean (C,), zeros at first; running_var (C,), ones
    at first; num_batches_tracked, a whole number.
    """

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        # Your part, first half:
        # register running_mean and running_var, with the given device and dtype.
        self.register_buffer(
            "running_mean", torch.zeros(num_features, device=device, dtype=dtype)
        )
        self.register_buffer(
            "running_var", torch.ones(num_features, device=device, dtype=dtype)
        )
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        """Take in a batch: its mean (C,), its BIASED variance (C,), and n > 1.

        n: the entries of each channel. mean and var stay as they are.
        """
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        # Your part, second half:
        # update both buffers with the weight m, without recording gradients.
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
        self.num_features, self.eps, kind = num_features, eps, dict(device=device, dtype=dtype)
        self.register_parameter(
            "weight", nn.Parameter(torch.ones(num_features, **kind)) if affine else None
        )
        self.register_parameter(
            "bias", nn.Parameter(torch.zeros(num_features, **kind)) if affine else None
        )
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

    In train(): the batch's own mean and biased variance (gradients pass through both), and the
    buffers are updated. In eval(): the running statistics, and nothing is updated.
    Where the batch's own are used, a batch with one entry for each channel raises a ValueError,
    and the buffers stay as they were.
    With track_running_stats=False running_mean is None: both modes use the batch's own
    statistics, and there is nothing to update.
    """

    def forward(self, x):
        n = self.entries(x)  # of each channel
        # Your part: bind mean and var, both (C,), to what normalizes x.
        # Call self.update(mean, var, n) where it is due.
        # Before that, raise a ValueError for n == 1 where the batch's own statistics are used.
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

"""Answers to the exercises of lesson 6."""

from torch import nn

from lessonkit.check.declare import instead

from .checks import _channel_stats, _Layer, _Running

ANSWERS = {}


def all_axes_but_1(x):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    return x.mean(axes), x.var(axes, correction=0)


ANSWERS["channel_stats"] = {
    "right": {"the course's own": _channel_stats, "all axes but 1": all_axes_but_1},
    "wrong": {
        "nan in all channels": (
            lambda x: [s + 0 * x.sum() for s in all_axes_but_1(x)],
            "one holds nan",
        )
    },
}


class Rebound(_Running):
    """New tensors under the old names; a registered name stays registered."""

    def update(self, mean, var, n):
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean = (self.running_mean + m * (mean - self.running_mean)).detach()
        self.running_var = (
            self.running_var + m * (var * n / (n - 1) - self.running_var)
        ).detach()


ANSWERS["running_statistics"] = {
    "right": {"copy_": _Running, "new tensors, detach": Rebound},
    "wrong": {
        "nothing in eval()": (
            instead(_Running, "m = self.momentum * self.training"),
            "in eval()",
        )
    },
}


class Rsqrt(_Layer):
    def forward(self, x):
        own = self.training or self.running_mean is None
        if x.dim() not in (2, 3) or own and x[:, 0].numel() < 2:
            raise ValueError
        mean, var = all_axes_but_1(x) if own else (self.running_mean, self.running_var)
        if self.training and self.running_mean is not None:
            self.update(mean.detach(), var.detach(), x[:, 0].numel())
        shape = (1, -1, 1)[: x.dim()]
        y = (x - mean.reshape(shape)) * (var.reshape(shape) + self.eps).rsqrt()
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


BIASED_IN_GRAPH = instead(
    _Running,
    """
self.num_batches_tracked += 0
unbiased = var
recording = torch.enable_grad()
""",
)
# a public textbook's: the switch by gradient mode, biased variance, no counter, buffers in the graph
TEXTBOOK = type(
    "BatchNorm1d",
    (instead(_Layer, "own, tracks = (torch.is_grad_enabled(),) * 2"),),
    {"update": BIASED_IN_GRAPH.update},
)

ANSWERS["batch_norm"] = {
    "right": {"step by step": _Layer, "rsqrt, detach": Rsqrt},
    "wrong": {
        "nn.BatchNorm1d": (nn.BatchNorm1d, "PyTorch's own batch_norm made them"),
        "everything at once": (TEXTBOOK, "Ask self.training: train() under no_grad()"),
        "the refused batch is counted": (
            instead(
                _Layer,
                "refused = own and n == 1 and (self.num_batches_tracked is None or self.num_batches_tracked.add_(1) > 0)",
            ),
            "num_batches_tracked after these refusals",
        ),
        "evaluation's statistics cached": (
            instead(
                _Layer,
                "mean, var = _channel_stats(x) if own else self.__dict__.setdefault('kept', "
                "(self.running_mean.clone(), self.running_var.clone()))",
            ),
            "eval() again",
        ),
    },
}


ANSWERS["ages_on_paper"] = {
    "right": {"numbers": {"running_mean": 6, "running_var": 4, "alone": 1}}
}

"""Answers to the exercises of lesson 6."""

from torch import nn

from lessonkit.check.declare import instead

from .checks import _channel_stats, _Layer

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


# a public textbook's: the switch by gradient mode, biased variance, no counter, buffers in the graph
def biased_in_graph(self, mean, var, n):
    self.running_mean = 0.9 * self.running_mean + 0.1 * mean
    self.running_var = 0.9 * self.running_var + 0.1 * var


TEXTBOOK = type(
    "BatchNorm1d",
    (instead(_Layer, "own, tracks = (torch.is_grad_enabled(),) * 2"),),
    {"update": biased_in_graph},
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

"""Answers to the exercises of lesson 9: right ones written in several ways, wrong ones with the words they must get."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons.cnn import _axes, _shape, _Small, _with_norms


class DoesNotFit(ValueError):
    """A kind of ValueError is a ValueError."""


def right_list(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = [
        math.floor((L + 2 * p - d * (k - 1) - 1) / s + 1)
        for L, k, s, p, d in _axes(size, kernel_size, stride, padding, dilation)
    ]
    if min(shape) < 1:
        raise DoesNotFit(f"{size} and {kernel_size}")
    return tuple(shape)


def right_counting(size, kernel_size, stride=1, padding=0, dilation=1):
    """Counts the places."""
    axes = _axes(size, kernel_size, stride, padding, dilation)
    shape = [len(range(-p, L + p - d * (k - 1), s)) for L, k, s, p, d in axes]
    if 0 in shape:
        raise ValueError("does not fit")
    return torch.Size(shape)


def ask_pytorch_for_two_axes(size, kernel_size, stride=1, padding=0, dilation=1):
    kernel = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,) * 2
    out = F.conv2d(torch.zeros(1, 1, *size), torch.zeros(1, 1, *kernel), None, stride, padding, dilation)
    return tuple(out.shape[2:])


def right_dry_run(net, norm, size):
    """Measures the sizes with an image of zeros, instead of computing them."""
    channels = next(layer for layer in net if isinstance(layer, nn.Conv2d)).in_channels
    x = torch.zeros(1, channels, *size)
    out = nn.Sequential()
    for layer in net:
        out.append(layer)
        with torch.no_grad():
            x = layer(x)
        if isinstance(layer, nn.Conv2d):
            out.append(norm(*x.shape[1:]))
    return out


def right_two_branches(net, norm, size):
    layers = []
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            H, W = size
            layers += [layer, norm(layer.out_channels, H, W)]
        elif isinstance(layer, nn.MaxPool2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            layers += [layer]
        else:
            layers += [layer]
    return nn.Sequential(*layers)


class RightDryRun(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 10, 3)
        x = self.conv1(torch.zeros(1, 3, *size))
        self.norm1, self.norm2 = nn.LayerNorm(x.shape[1:]), nn.LayerNorm(self.conv2(x).shape[1:])
        self.dense = nn.Linear(self.conv2(x).numel(), classes)

    def forward(self, images):
        x = self.norm1(self.conv1(images)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.dense(torch.flatten(x, start_dim=1))


class RightMinusTwo(_Small):
    def __init__(self, size, classes=10):
        nn.Module.__init__(self)
        H, W = size
        self.dense = nn.Linear(10 * (H - 4) * (W - 4), classes)
        self.conv1 = nn.Conv2d(3, 5, kernel_size=3)
        self.norm1 = nn.LayerNorm((5, H - 2, W - 2))
        self.conv2 = nn.Conv2d(5, 10, kernel_size=3)
        self.norm2 = nn.LayerNorm((10, H - 4, W - 4))


class NoSuper(_Small):
    def __init__(self, size, classes=10):
        self.conv1 = nn.Conv2d(3, 5, 3)


class ClassesFixed(_Small):
    def __init__(self, size, classes=10):
        super().__init__(size)


RIGHT = {"run A": "norm over the batch axis", "run B": "sigmoid before cross-entropy", "run C": "eval() forgotten"}

ANSWERS = {
    "conv_output_shape": {
        "right": {"a loop": _shape, "all at once, floor": right_list, "places counted": right_counting},
        "wrong": {
            "asks PyTorch": (ask_pytorch_for_two_axes, "On "),
            "settings left out": (lambda size, kernel_size: _shape(size, kernel_size), "raised"),
            "text": (lambda *a, **k: str(_shape(*a, **k)), "expected (6, 4)"),
            "its result": ((6, 6), "takes your function itself"),
        },
    },
    "with_norms": {
        "right": {"isinstance": _with_norms, "a dry run": right_dry_run, "two branches": right_two_branches},
        "wrong": {
            "only the first convolution": (
                lambda net, norm, size: nn.Sequential(*list(_with_norms(net, norm, size))[:2], *list(net)[1:]),
                "the number of norms",
            )
        },
    },
    "diagnosis": {
        "right": {"right": RIGHT},
        "wrong": {
            "A and C exchanged": (
                RIGHT | {"run A": "eval() forgotten", "run C": "norm over the batch axis"},
                "calling eval() would cure",
            ),
            "other words": (RIGHT | {"run B": "sigmoid"}, "one of the words 'eval() forgotten'"),
            "a run missing": ({"run A": "norm over the batch axis"}, "missing"),
            "a text": ("eval() forgotten", "dictionary"),
        },
    },
    "small_cnn": {
        "right": {"conv_output_shape": _Small, "a dry run": RightDryRun, "minus two": RightMinusTwo},
        "wrong": {
            "no super().__init__()": (NoSuper, "AttributeError"),
            "classes fixed": (ClassesFixed, "dense.weight"),
            "an instance": (_Small((9, 7)), "takes your class itself"),
        },
    },
}

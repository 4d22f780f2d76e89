"""Answers to the exercises of lesson 9: right ones written in several ways, wrong ones with the words they must get."""

import copy

import torch
from torch import nn

from fromscratch import conv_output_shape
from lessonkit.check.lessons.cnn import _ON_PAPER, _SETTINGS, _Small, _with_norms
from lessonkit.check.misconceptions import instead


def right_dry_run(net, norm, size):
    """Measures the sizes with an image of zeros, in a copy, instead of computing them."""
    return dry_run(net, norm, size, copy.deepcopy(net))


def dry_run_of_net(net, norm, size):
    """Measures them in net itself, and moves the running statistics of a BatchNorm."""
    return dry_run(net, norm, size, net)


def dry_run(net, norm, size, measured):
    channels = next(layer for layer in net if isinstance(layer, nn.Conv2d)).in_channels
    x = torch.zeros(1, channels, *size)
    out = nn.Sequential()
    for layer, twin in zip(net, measured, strict=True):
        out.append(layer)
        with torch.no_grad():
            x = twin(x)
        if isinstance(layer, nn.Conv2d):
            out.append(norm(*x.shape[1:]))
    return out


def right_two_branches(net, norm, size):
    layers = []
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            size = conv_output_shape(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            H, W = size
            layers += [layer, norm(layer.out_channels, H, W)]
        elif isinstance(layer, nn.MaxPool2d):
            size = conv_output_shape(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
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


MINUS_TWO = instead(_Small, "first = [n - 2 for n in size]\nsecond = [n - 4 for n in size]")


class ClassesFixed(_Small):
    def __init__(self, size, classes=10):
        super().__init__(size)


RIGHT = {"run A": "norm over the batch axis", "run B": "sigmoid before cross-entropy", "run C": "eval() forgotten"}

ANSWERS = {
    "shrinking": {
        "right": {
            "fractions": _ON_PAPER,
            "decimals and text": dict(weight=0.0023148, unit="2", smaller=216, factor=6.0),
        },
        "wrong": {"left open": (_ON_PAPER | {"weight": ...}, "three dots"), "a list": ([1, 2], "dictionary")},
    },
    "winning": {
        "right": {"a small rate": _SETTINGS, "a larger rate": _SETTINGS | {"rate": 0.015}},
        "wrong": {
            "a tuple": ((0.01, "kaiming", 64, 0), "takes dict("),
            "no seed": (dict(rate=0.01, start="kaiming", batch_size=64), "The keys are"),
            "a start that there is not": (_SETTINGS | {"start": "xavier"}, "start is one of"),
            "a rate of 0": (_SETTINGS | {"rate": 0}, "rate"),
        },
    },
    "with_norms": {
        "right": {"isinstance": _with_norms, "a dry run": right_dry_run, "two branches": right_two_branches},
        "wrong": {
            "only the first convolution": (
                lambda net, norm, size: nn.Sequential(*list(_with_norms(net, norm, size))[:2], *list(net)[1:]),
                "the number of norms",
            ),
            "a norm of its own choice": (
                lambda net, norm, size: right_two_branches(net, lambda *sizes: nn.LayerNorm(sizes), size),
                "nn.LayerNorm is written into your function",
            ),
            "a dry run of net itself": (dry_run_of_net, "running statistics of a BatchNorm"),
        },
    },
    "diagnosis": {
        "right": {"right": RIGHT},
        "wrong": {
            "other words": (RIGHT | {"run B": "sigmoid"}, "one of the words 'eval() forgotten'"),
            "a run missing": ({"run A": "norm over the batch axis"}, "missing"),
        },
    },
    "small_cnn": {
        "right": {"conv_output_shape": _Small, "a dry run": RightDryRun, "minus two": MINUS_TWO},
        "wrong": {
            "classes fixed": (ClassesFixed, "dense.weight"),
            "an instance": (_Small((9, 7)), "takes your class itself"),
        },
    },
}

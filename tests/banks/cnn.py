"""Answers to the exercises of lesson 9: right ones written in several ways, wrong ones with the words they must get."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------ 9.1 conv_output_shape


def axes(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def rows(size, kernel_size, stride, padding, dilation):
    n = len(size)
    return zip(size, *(axes(v, n) for v in (kernel_size, stride, padding, dilation)), strict=True)


def right_loop(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = []
    for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation):
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError("does not fit")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)


def right_list(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = [
        math.floor((L + 2 * p - d * (k - 1) - 1) / s + 1)
        for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation)
    ]
    if min(shape) < 1:
        raise ValueError("does not fit")
    return tuple(shape)


def right_counting(size, kernel_size, stride=1, padding=0, dilation=1):
    """Counts the places."""
    shape = [
        len(range(-p, L + p - d * (k - 1), s)) for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation)
    ]
    if 0 in shape:
        raise ValueError("does not fit")
    return torch.Size(shape)


def ask_pytorch_for_two_axes(size, kernel_size, stride=1, padding=0, dilation=1):
    return tuple(
        F.conv2d(
            torch.zeros(1, 1, *size), torch.zeros(1, 1, *axes(kernel_size, 2)), None, stride, padding, dilation
        ).shape[2:]
    )


# ------------------------------------------------------------------------------------------ 9.2 with_norms


def right_isinstance(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)


def right_dry_run(net, norm, size):
    """Measures the sizes with an image of zeros, instead of computing them."""
    x = torch.zeros(1, next(layer for layer in net if isinstance(layer, nn.Conv2d)).in_channels, *size)
    out = nn.Sequential()
    for layer in net:
        out.append(layer)
        if x.dim() == 4 and not isinstance(layer, nn.Linear):
            with torch.no_grad():
                x = layer(x)
        if isinstance(layer, nn.Conv2d):
            out.append(norm(*x.shape[1:]))
    return out


def right_two_branches(net, norm, size):
    layers = []
    for layer in net.children():
        if isinstance(layer, nn.Conv2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            H, W = size
            layers += [layer, norm(layer.out_channels, H, W)]
        elif isinstance(layer, nn.MaxPool2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding)
            layers += [layer]
        else:
            layers += [layer]
    return nn.Sequential(*layers)


# ------------------------------------------------------------------------------------------ 9.5 SmallCNN


class RightSizes(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        first = right_loop(size, 3)
        second = right_loop(first, 3)
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), nn.LayerNorm([5, *first])
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), nn.LayerNorm([10, *second])
        self.dense = nn.Linear(10 * second[0] * second[1], classes)

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.dense(x.flatten(1))


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


class RightMinusTwo(RightSizes):
    def __init__(self, size, classes=10):
        nn.Module.__init__(self)
        H, W = size
        self.dense = nn.Linear(10 * (H - 4) * (W - 4), classes)
        self.conv1 = nn.Conv2d(3, 5, kernel_size=3)
        self.norm1 = nn.LayerNorm((5, H - 2, W - 2))
        self.conv2 = nn.Conv2d(5, 10, kernel_size=3)
        self.norm2 = nn.LayerNorm((10, H - 4, W - 4))


class NoSuper(RightSizes):
    def __init__(self, size, classes=10):
        self.conv1 = nn.Conv2d(3, 5, 3)


class ClassesFixed(RightSizes):
    def __init__(self, size, classes=10):
        super().__init__(size)


RIGHT = {"run A": "norm over the batch axis", "run B": "sigmoid before cross-entropy", "run C": "eval() forgotten"}

BANK = {
    "conv_output_shape": {
        "right": {"a loop": right_loop, "all at once, floor": right_list, "places counted": right_counting},
        "wrong": {
            "asks PyTorch": (ask_pytorch_for_two_axes, "On "),
            "no return": (lambda *a, **k: None, "return"),
            "settings left out": (lambda size, kernel_size: right_loop(size, kernel_size), "raised"),
            "text": (lambda *a, **k: str(right_loop(*a, **k)), "expected (6, 4)"),
            "its result": ((6, 6), "takes your function itself"),
        },
    },
    "with_norms": {
        "right": {"isinstance": right_isinstance, "a dry run": right_dry_run, "two branches": right_two_branches},
        "wrong": {
            "only the first convolution": (
                lambda net, norm, size: nn.Sequential(*list(right_isinstance(net, norm, size))[:2], *list(net)[1:]),
                "the number of norms",
            ),
            "no return": (lambda net, norm, size: None, "nothing (None)"),
            "raises": (lambda net, norm, size: size + 1, "raised"),
        },
    },
    "kaiming_gap": {
        "right": {"right": "a few points at most", "in capitals": " A few points at most "},
        "wrong": {"a number": (2, "takes one of"), "another text": ("none", "takes one of")},
    },
    "diagnosis": {
        "right": {"right": RIGHT},
        "wrong": {
            "A and C exchanged": (
                RIGHT | {"run A": "eval() forgotten", "run C": "norm over the batch axis"},
                "calling eval() would mend",
            ),
            "other words": (RIGHT | {"run B": "sigmoid"}, "one of the words 'eval() forgotten'"),
            "a run missing": ({"run A": "norm over the batch axis"}, "missing"),
            "a text": ("eval() forgotten", "dictionary"),
        },
    },
    "small_cnn": {
        "right": {"conv_output_shape": RightSizes, "a dry run": RightDryRun, "minus two": RightMinusTwo},
        "wrong": {
            "no super().__init__()": (NoSuper, "AttributeError"),
            "classes fixed": (ClassesFixed, "dense.weight"),
            "an instance": (RightSizes((9, 7)), "takes your class itself"),
        },
    },
}

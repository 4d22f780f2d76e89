"""Answers to the exercises of lesson 9: right ones written in several ways, wrong ones with the words they must get."""

import copy

import torch
from torch import nn

from lessonkit.check.declare import instead

from .checks import _WINNING, _Small, _with_norms


def dry_run(net, norm, size, measured):
    """Measures the sizes with an image of zeros, that goes through net or a copy, instead of computing them."""
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


class RightDryRun(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 10, 3)
        x = self.conv1(torch.zeros(1, 3, *size))
        self.norm1, self.norm2 = (
            nn.LayerNorm(x.shape[1:]),
            nn.LayerNorm(self.conv2(x).shape[1:]),
        )
        self.dense = nn.Linear(self.conv2(x).numel(), classes)

    def forward(self, images):
        x = self.norm1(self.conv1(images)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.dense(torch.flatten(x, start_dim=1))


ANSWERS = {
    "shrinking": {"right": {"decimals and text": dict(after="1", factor=6.0)}},
    "winning": {
        "right": {
            "a small rate": _WINNING,
            "small batches": _WINNING | {"rate": 0.01, "batch_size": 32, "seed": 0},
        },
        "wrong": {
            "a tuple": ((0.01, "kaiming", 64, 0), "takes dict("),
            "no seed": (dict(rate=0.01, start="kaiming", batch_size=64), "seed is missing"),
            "a rate of 0": (_WINNING | {"rate": 0}, "rate"),
        },
    },
    "with_norms": {
        "right": {
            "isinstance": _with_norms,
            "a dry run": lambda net, norm, size: dry_run(net, norm, size, copy.deepcopy(net)),
        },
        "wrong": {
            "few channels": (
                lambda net, norm, size: _with_norms(
                    net, lambda C, H, W: norm(min(C, 16), H, W), size
                ),
                "what norm was given",
            ),
            "only the first convolution": (
                lambda net, norm, size: nn.Sequential(
                    *list(_with_norms(net, norm, size))[:2], *list(net)[1:]
                ),
                "the number of norms",
            ),
            "what children() names": (
                lambda net, norm, size: nn.Sequential(
                    *dict.fromkeys(_with_norms(net, norm, size))
                ),
                "net.children() names it once",
            ),
            "a dry run of net itself": (
                lambda net, norm, size: dry_run(net, norm, size, net),
                "running statistics of a BatchNorm",
            ),
            "a dry run in eval()": (
                lambda net, norm, size: dry_run(net, norm, size, net.eval()),
                "the mode of a module",
            ),
        },
    },
    "diagnosis": {
        "right": {
            "right": {
                "run A": "norm over the batch axis",
                "run B": "sigmoid before cross-entropy",
                "run C": "eval() forgotten",
            }
        }
    },
    "small_cnn": {
        "right": {"conv_output_shape": _Small, "a dry run": RightDryRun},
        "wrong": {
            "classes fixed": (
                instead(_Small, "self.dense = nn.Linear(10 * math.prod(second), 10)"),
                "dense.weight",
            ),
            "the batch fixed": (
                instead(_Small, "logits = self.dense(b.reshape(2, -1))"),
                "the default classes",
            ),
        },
    },
}

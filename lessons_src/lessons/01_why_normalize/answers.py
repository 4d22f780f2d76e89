"""Answers to the exercises of lesson 1."""

import math

import torch
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _CHANGES, _fate, _standardize


def say(left):
    return "dies" if left < 0.01 else "explodes" if left > 100 else "lives"


def fate_in_logarithms(std, width, depth=50):
    power_of_ten = depth * (math.log10(std) + math.log10(width) / 2 - math.log10(2) / 2)
    return "lives" if abs(power_of_ten) <= 2 else "dies" if power_of_ten < 0 else "explodes"


def centered(x):
    return x - x.mean()


def two_loops(x):
    mean = sum(x) / len(x)
    var = sum((value - mean) ** 2 for value in x) / len(x)
    return torch.stack([(value - mean) / var**0.5 for value in x])


PAPER = {"input": 12.5, "before": 25, "after": 12.5, "std": 0.177}
ANSWERS = {
    "two_weights": {
        "right": {"decimals": PAPER},
        "wrong": {
            "63 for 64": (PAPER | {"std": (2 / 63) ** 0.5}, "std: 0.178174 is not right")
        },
    },
    "fate": {
        "right": {
            "the course's": _fate,
            "logarithms": fate_in_logarithms,
            "1.4142, in a tensor": lambda std, width, depth=50: say(
                (torch.tensor(std * width**0.5).double() / 1.4142) ** depth
            ),
        },
        "wrong": {
            "a number": (
                lambda std, width, depth=50: std * (width / 2) ** 0.5,
                "expected 'lives'",
            ),
            "capped": (
                lambda std, width, depth=50: fate_in_logarithms(std, width, min(depth, 100)),
                "3,000 layers",
            ),
            "50 layers for none": (
                lambda std, width, depth=50: _fate(std, width, depth or 50),
                "no layer at all",
            ),
        },
    },
    "standardize": {
        "right": {
            "mean and std": _standardize,
            "deviation first": lambda x: centered(x / x.std(correction=0)),
            "loops": two_loops,
        },
        "wrong": {
            "F.layer_norm": (lambda x: F.layer_norm(x, x.shape), "eps"),
            "F.layer_norm without eps": (
                lambda x: F.layer_norm(x, x.shape, eps=0.0),
                "PyTorch's own layer_norm",
            ),
            "a branch on values": (
                instead(
                    _standardize, "return centered if deviation == 0 else centered / deviation"
                ),
                "torch.vmap",
            ),
            "a small spread is none": (
                instead(_standardize, "return centered / deviation.clamp(min=1e-7)"),
                "spread 1e-12",
            ),
        },
    },
    "unchanged": {
        "right": {"all six": {change: same for change, (same, _) in _CHANGES.items()}}
    },
}

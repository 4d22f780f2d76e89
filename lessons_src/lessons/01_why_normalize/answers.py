"""Answers to the exercises of lesson 1."""

import torch
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _CHANGES, _standardize


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

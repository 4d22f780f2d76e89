"""Answers to the exercises of lesson 2."""

import torch
from torch.nn import functional as F

from .checks import _is_layer_norm, _mean_and_var


def welford(x):
    """One feature at a time: 3e-6 off where float32 rows lie around 100."""
    mean, sum_of_squares = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for n, value in enumerate(x.split(1, -1), 1):
        step = value - mean
        mean = mean + step / n
        sum_of_squares = sum_of_squares + step * (value - mean)
    return mean, sum_of_squares / x.shape[-1]


def shifted_by_one_number(x):
    """One pass, which keeps its digits in rows near the first number only."""
    shift = x.flatten()[0].detach()
    mean = (x - shift).mean(-1, keepdim=True)
    return mean + shift, (x - shift).square().mean(-1, keepdim=True) - mean * mean


RAMP = torch.arange(24.0).reshape(2, 3, 4)


def right_or_raises(layer):
    torch.testing.assert_close(layer(RAMP), F.layer_norm(RAMP, (4,)), atol=1e-3, rtol=0)
    return True


def asserts(layer):
    assert _is_layer_norm(layer)


def same_alone(layer):
    """Whether the first sample's result depends on the others: needed, and not enough."""
    return torch.allclose(layer(RAMP)[:1], layer(RAMP[:1]), atol=1e-3)


ANSWERS = {
    "mean_and_var": {
        "right": {
            "mean and var": _mean_and_var,
            "a list, float64 inside": lambda x: [
                t.to(x.dtype) for t in _mean_and_var(x.double())
            ],
            "Welford": welford,
        },
        "wrong": {
            "one pass, shifted by one number of all rows": (
                shifted_by_one_number,
                "values = offset",
            ),
            "stacked": (lambda x: torch.stack(_mean_and_var(x)), "expected mean and var"),
        },
    },
    "how_many": {"right": {"numbers": {"a": 640, "b": 32, "c": 6272, "d": 24}}},
    "is_layer_norm": {
        "right": {
            "allclose on random rows": _is_layer_norm,
            "in float64": lambda layer: torch.allclose(
                layer(RAMP.double()), F.layer_norm(RAMP.double(), (4,)), atol=1e-3
            ),
            "a tensor as verdict": lambda layer: (
                (layer(RAMP) - F.layer_norm(RAMP, (4,))).abs().max() < 0.002
            ),
            "an error on purpose": right_or_raises,
        },
        "wrong": {
            "asserts, and returns nothing": (asserts, "returned nothing"),
            "a word": (
                lambda layer: "right" if _is_layer_norm(layer) else "wrong",
                "yours is 'right'",
            ),
            "only the batch looked at": (same_alone, "expected False"),
            "0.01 allowed": (
                lambda layer: torch.allclose(layer(RAMP), F.layer_norm(RAMP, (4,)), atol=0.01),
                "Allow 1e-3 and no more",
            ),
            "a mean of squares": (
                lambda layer: F.mse_loss(layer(RAMP), F.layer_norm(RAMP, (4,))) < 1e-3,
                "Allow 1e-3 and no more",
            ),
        },
    },
}

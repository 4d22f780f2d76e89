"""Answers to the exercises of lesson 2."""

import numpy as np
import torch
from torch.nn import functional as F

from lessonkit.check.lessons.statistics import _is_layer_norm, _solution
from lessonkit.check.misconceptions import instead


def right_sums(x):
    D = x.shape[-1]
    mean = x.sum(-1)[..., None] / D
    return mean, (x - mean).square().sum(-1)[..., None] / D


def right_products(x):
    """Sums as products with a tensor of its own: fine on the CPU, and no word in the lesson is about other devices."""
    ones = torch.ones(x.shape[-1], 1, dtype=x.dtype)
    mean = x @ ones / x.shape[-1]
    return mean, (x - mean) ** 2 @ ones / x.shape[-1]


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


def loop_over_rows(x):
    rows = [(sum(row) / len(row), sum((v - sum(row) / len(row)) ** 2 for v in row) / len(row)) for row in x.tolist()]
    return torch.tensor([[m] for m, _ in rows]), torch.tensor([[v] for _, v in rows])


def cut_by_numpy(x):
    a = x.detach().numpy()
    return torch.from_numpy(a.mean(-1, keepdims=True)), torch.from_numpy(np.var(a, axis=-1, keepdims=True))


RAMP = torch.arange(24.0).reshape(2, 3, 4)


def right_whole_numbers(layer):
    difference = (layer(RAMP) - F.layer_norm(RAMP, (4,))).abs().max().item()
    return difference < 0.01


def right_by_hand(layer):
    x = RAMP.double() ** 2
    mean = x.mean(-1, keepdim=True)
    expected = (x - mean) / ((x - mean) ** 2).mean(-1, keepdim=True).sqrt()
    return bool(((layer(x) - expected).abs() < 1e-3).all())


def right_or_raises(layer):
    torch.testing.assert_close(layer(RAMP), F.layer_norm(RAMP, (4,)), atol=1e-3, rtol=0)
    return True


def asserts(layer):
    assert _is_layer_norm(layer)


def same_alone(layer):
    """Whether the first sample's result depends on the others: needed, and not enough."""
    return torch.allclose(layer(RAMP)[:1], layer(RAMP[:1]), atol=1e-3)


def rounded(layer):
    return torch.equal(layer(RAMP).round(), F.layer_norm(RAMP, (4,)).round())


DIVISOR = {"variance": 4.8, "percent": 13.4}
HOW_MANY = {"a": 32, "b": 640, "c": 32, "d": 8, "e": 6272, "f": 24}

ANSWERS = {
    "mean_and_var": {
        "right": {
            "mean and var": _solution,
            "a list, float64 inside": lambda x: [t.to(x.dtype) for t in _solution(x.double())],
            "sums and None": right_sums,
            "Welford": welford,
            "products with ones": right_products,
        },
        "wrong": {
            "one pass, shifted by one number of all rows": (shifted_by_one_number, "values = offset"),
            "stacked": (lambda x: torch.stack(_solution(x)), "expected mean and var"),
            "a dictionary": (lambda x: dict(zip(("mean", "var"), _solution(x), strict=True)), "a dict"),
            "only the mean": (lambda x: x.mean(-1, keepdim=True), "expected mean and var"),
            "a loop for matrices only": (loop_over_rows, "raised"),
            "in place": (instead(_solution, "centered = x.sub_(mean)"), "changed its input"),
            "NumPy": (cut_by_numpy, "gradient"),
            "detached variance": (lambda x: (_solution(x)[0], _solution(x)[1].detach()), "gradient"),
            "always float32": (lambda x: tuple(t.float() for t in _solution(x)), "dtype"),
        },
    },
    "divisor": {
        "right": {
            "decimals": DIVISOR,
            "on paper": {"variance": "24/5", "percent": 100 - 50 * 3**0.5},
            "tensors": {"variance": torch.tensor(4.8), "percent": np.float64(13.397)},
        },
        "wrong": {
            "rounded to whole percent": (DIVISOR | {"percent": 13}, "one decimal"),
            "words": (DIVISOR | {"percent": "13 %"}, "The answer is a number"),
            "a list": (list(DIVISOR.values()), "dictionary"),
        },
    },
    "how_many": {
        "right": {
            "numbers": HOW_MANY,
            "products": {"a": 32, "b": 32 * 20, "c": 32, "d": 8, "e": 8 * 28 * 28, "f": 8 * 3},
            "a number in quotes": HOW_MANY | {"b": "640"},
        },
        "wrong": {
            "off by one": (HOW_MANY | {"e": 6273}, "not right"),
            "e and f swapped": (HOW_MANY | {"e": 24, "f": 6272}, "channels are reduced"),
            "a key is missing": ({k: v for k, v in HOW_MANY.items() if k != "f"}, "missing"),
            "a key too many": (HOW_MANY | {"g": 1}, "The keys are"),
            "a list": (list(HOW_MANY.values()), "dictionary"),
            "a tensor as value": (HOW_MANY | {"b": torch.zeros(3)}, "not right"),
            "a product in quotes": (HOW_MANY | {"b": "32 * 20"}, "The answer is a number"),
        },
    },
    "is_layer_norm": {
        "right": {
            "allclose on random rows": _is_layer_norm,
            "a difference, on whole numbers": right_whole_numbers,
            "by hand, in float64": right_by_hand,
            "a tensor as verdict": lambda layer: (layer(RAMP) - F.layer_norm(RAMP, (4,))).abs().max() < 0.01,
            "an error on purpose": right_or_raises,
        },
        "wrong": {
            "asserts, and returns nothing": (asserts, "returned nothing"),
            "a word": (lambda layer: "right" if _is_layer_norm(layer) else "wrong", "yours is 'right'"),
            "one and zero": (lambda layer: int(_is_layer_norm(layer)), "yours is 1, expected True"),
            "takes the input, too": (lambda layer, x: _is_layer_norm(layer), "TypeError"),
            "only the batch looked at": (same_alone, "expected False"),
            "rounded to whole numbers": (rounded, "divides by D - 1"),
        },
    },
}

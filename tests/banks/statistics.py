"""Answers to the exercises of lesson 2."""

import math
from fractions import Fraction

import numpy as np
import torch


def right_means(x):
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)


def right_var_mean(x):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return mean, var


def right_sums(x):
    D = x.shape[-1]
    mean = x.sum(-1)[..., None] / D
    return mean, (x - mean).square().sum(-1)[..., None] / D


def right_as_a_list(x):
    return [x.mean(dim=x.dim() - 1, keepdim=True), x.var(dim=-1, unbiased=False, keepdim=True)]


def right_products(x):
    """Sums as products with a tensor of its own: fine on the CPU, and no word in the lesson is about other devices."""
    ones = torch.ones(x.shape[-1], 1, dtype=x.dtype)
    mean = x @ ones / x.shape[-1]
    return mean, (x - mean) ** 2 @ ones / x.shape[-1]


def loop_over_rows(x):
    rows = [(sum(row) / len(row), sum((v - sum(row) / len(row)) ** 2 for v in row) / len(row)) for row in x.tolist()]
    return torch.tensor([[m] for m, _ in rows]), torch.tensor([[v] for _, v in rows])


def in_place(x):
    mean = x.mean(-1, keepdim=True)
    x -= mean
    return mean, (x * x).mean(-1, keepdim=True)


def cut_by_numpy(x):
    a = x.detach().numpy()
    return torch.from_numpy(a.mean(-1, keepdims=True)), torch.from_numpy(np.var(a, axis=-1, keepdims=True))


def right_percent(D):
    return 100 * (1 - math.sqrt((D - 1) / D))


def right_measured(D):
    row = torch.arange(float(D))  # float32 is enough
    return 100 * (1 - row.std(correction=0) / row.std()).item()


HOW_MANY = {"a": 32, "b": 640, "c": 32, "d": 8, "e": 6272, "f": 24}

BANK = {
    "mean_and_var": {
        "right": {
            "two means": right_means,
            "torch.var_mean": right_var_mean,
            "float64 inside": lambda x: tuple(t.to(x.dtype) for t in right_means(x.double())),
            "std_mean, squared": lambda x: (x.mean(-1)[..., None], x.std(-1, correction=0, keepdim=True) ** 2),
            "sums and None": right_sums,
            "a list, unbiased=False": right_as_a_list,
            "products with ones": right_products,
        },
        "wrong": {
            "stacked": (lambda x: torch.stack(right_means(x)), "expected mean and var"),
            "a dictionary": (lambda x: dict(zip(("mean", "var"), right_means(x), strict=True)), "a dict"),
            "only the mean": (lambda x: x.mean(-1, keepdim=True), "expected mean and var"),
            "a loop for matrices only": (loop_over_rows, "raised"),
            "in place": (in_place, "changed its input"),
            "NumPy": (cut_by_numpy, "gradient"),
            "detached variance": (lambda x: (right_means(x)[0], right_means(x)[1].detach()), "gradient"),
            "always float32": (lambda x: tuple(t.float() for t in right_means(x)), "dtype"),
        },
    },
    "unbiased_error": {
        "right": {
            "math": right_percent,
            "powers": lambda D: 100 - 100 * (1 - 1 / D) ** 0.5,
            "torch": lambda D: 100 * (1 - torch.tensor((D - 1) / D, dtype=torch.float64).sqrt()).item(),
            "torch in float32": lambda D: 100 * (1 - torch.tensor((D - 1) / D).sqrt()),
            "measured on a row": right_measured,
        },
        "wrong": {
            "whole percent": (lambda D: int(right_percent(D)), "yours is 13"),
            "only for four": (lambda D: 13.397459621556135, "On D = 2"),
            "rounded": (lambda D: round(right_percent(D), 1), "expected 13.3975"),
            "a string": (lambda D: f"{right_percent(D):.1f} %", "%"),
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
    "biased_variance": {
        "right": {
            "fraction": 5 / 6,
            "rounded": 0.8333,
            "tensor": torch.tensor(0.83333),
            "text": "5/6",
            "a Fraction": Fraction(5, 6),
            "one value a row": [0.8333, 0.8333],
            "one value a row, kept": torch.tensor([[5 / 6], [5 / 6]]),
        },
        "wrong": {
            "something else": (0.85, "not right"),
            "two different rows": ([5 / 6, 1.0], "not right"),
            "words": ("five sixths", "The answer is a number"),
        },
    },
}

"""Answers to the exercises of lesson 2."""

import math

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


def loop_over_rows(x):
    rows = [(sum(row) / len(row), sum((v - sum(row) / len(row)) ** 2 for v in row) / len(row)) for row in x.tolist()]
    return torch.tensor([[m] for m, _ in rows]), torch.tensor([[v] for _, v in rows])


def in_place(x):
    mean = x.mean(-1, keepdim=True)
    x -= mean
    return mean, (x * x).mean(-1, keepdim=True)


def own_tensors(x):
    ones = torch.ones(x.shape[-1], 1, dtype=x.dtype)
    mean = x @ ones / x.shape[-1]
    return mean, (x - mean) ** 2 @ ones / x.shape[-1]


def cut_by_numpy(x):
    a = x.detach().numpy()
    return torch.from_numpy(a.mean(-1, keepdims=True)), torch.from_numpy(np.var(a, axis=-1, keepdims=True))


def moments(axis=-1, correction=0, keepdim=True):
    return lambda x: (x.mean(axis, keepdim=keepdim), x.var(axis, correction=correction, keepdim=keepdim))


HOW_MANY = {"a": 32, "b": 640, "c": 32, "d": 8, "e": 6272, "f": 24}


def but(key, value):
    """The right answers but for one."""
    return HOW_MANY | {key: value}


BANK = {
    "mean_and_var": {
        "right": {
            "two means": right_means,
            "torch.var_mean": right_var_mean,
            "float64 inside": lambda x: tuple(t.to(x.dtype) for t in right_means(x.double())),
            "std_mean, squared": lambda x: (x.mean(-1)[..., None], x.std(-1, correction=0, keepdim=True) ** 2),
            "sums and None": right_sums,
            "a list, unbiased=False": right_as_a_list,
        },
        "wrong": {
            "unbiased": (moments(correction=1), "divided by D - 1"),
            "no keepdim": (moments(keepdim=False), "keepdim=True"),
            "no keepdim and unbiased": (moments(keepdim=False, correction=1), "keepdim=True and correction=0"),
            "across the batch": (moments(0), "across the samples"),
            "axis 1": (lambda x: moments(min(1, x.dim() - 1))(x), "axis 1"),
            "the whole tensor": (lambda x: (x.mean(), x.var(correction=0)), "one mean for the whole tensor"),
            "all but the batch": (lambda x: moments(tuple(range(1, x.dim())) or 0)(x), "mixes the tokens"),
            "standard deviation": (
                lambda x: (x.mean(-1, keepdim=True), x.std(-1, correction=0, keepdim=True)),
                "the root",
            ),
            "torch.std": (lambda x: (x.mean(-1, keepdim=True), x.std(-1, keepdim=True)), "no root"),
            "mean of squares": (
                lambda x: (x.mean(-1, keepdim=True), (x**2).mean(-1, keepdim=True)),
                "before you square",
            ),
            "sum of squares": (
                lambda x: (x.mean(-1, keepdim=True), (x - x.mean(-1, keepdim=True)).pow(2).sum(-1, keepdim=True)),
                "take their mean",
            ),
            "mean distance": (
                lambda x: (x.mean(-1, keepdim=True), (x - x.mean(-1, keepdim=True)).abs().mean(-1, keepdim=True)),
                "not squared",
            ),
            "swapped": (lambda x: right_means(x)[::-1], "swapped"),
            "one pass": (
                lambda x: (x.mean(-1, keepdim=True), (x**2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2),
                "loses digits",
            ),
            "median": (lambda x: (x.median(-1, keepdim=True)[0], x.var(-1, correction=0, keepdim=True)), "median"),
            "mean without keepdim": (lambda x: (x.mean(-1), right_means(x)[1]), "missing in the mean"),
            "variance without keepdim": (
                lambda x: (right_means(x)[0], x.var(-1, correction=0)),
                "missing in the variance",
            ),
            "True by position": (lambda x: (x.mean(-1, True), x.var(-1, True)), "unbiased=True, not keepdim"),
            "averaged, then squared": (
                lambda x: (right_means(x)[0], (x - right_means(x)[0]).mean(-1, keepdim=True) ** 2),
                "before they are squared",
            ),
            "divided by the rows": (
                lambda x: (x.sum(-1, keepdim=True) / x.shape[0], right_means(x)[1] * x.shape[-1] / x.shape[0]),
                "number of rows",
            ),
            "only the variance divided by the rows": (
                lambda x: (right_means(x)[0], ((x - right_means(x)[0]) ** 2).sum(-1, keepdim=True) / len(x)),
                "number of rows",
            ),
            "divided by 4": (
                lambda x: (
                    x.sum(-1, keepdim=True) / 4,
                    ((x - x.sum(-1, keepdim=True) / 4) ** 2).sum(-1, keepdim=True) / 4,
                ),
                "by 4 on every input",
            ),
            "unbiased, scaled back": (
                lambda x: (right_means(x)[0], x.var(-1, keepdim=True) * (x.shape[-1] - 1) / x.shape[-1]),
                "one feature",
            ),
            "eps too early": (lambda x: (right_means(x)[0], right_means(x)[1] + 1e-5), "lesson 3"),
            "stacked": (lambda x: torch.stack(right_means(x)), "expected mean and var"),
            "a dictionary": (lambda x: dict(zip(("mean", "var"), right_means(x), strict=True)), "a dict"),
            "only the mean": (lambda x: x.mean(-1, keepdim=True), "expected mean and var"),
            "variance of the flattened batch": (
                lambda x: (x.mean(-1, keepdim=True), x.var(correction=0).expand(x.shape[:-1] + (1,))),
                "var",
            ),
            "a loop for matrices only": (loop_over_rows, "raised"),
            "in place": (in_place, "changed its input"),
            "a CPU tensor inside": (own_tensors, "device"),
            "NumPy": (cut_by_numpy, "gradient"),
            "detached variance": (lambda x: (right_means(x)[0], right_means(x)[1].detach()), "gradient"),
            "always float32": (lambda x: tuple(t.float() for t in right_means(x)), "dtype"),
        },
    },
    "unbiased_error": {
        "right": {
            "math": lambda D: 100 * (1 - math.sqrt((D - 1) / D)),
            "powers": lambda D: 100 - 100 * (1 - 1 / D) ** 0.5,
            "torch": lambda D: 100 * (1 - torch.tensor((D - 1) / D, dtype=torch.float64).sqrt()).item(),
            "torch in float32": lambda D: 100 * (1 - torch.tensor((D - 1) / D).sqrt()),
            "measured in float32": lambda D: (lambda v: 100 * (1 - v.std(correction=0) / v.std()))(
                torch.arange(float(D))
            ).item(),
            "measured on a row": lambda D: (
                100 * (1 - (lambda v: v.std(correction=0) / v.std())(torch.arange(D, dtype=torch.float64))).item()
            ),
        },
        "wrong": {
            "what is left": (lambda D: 100 * math.sqrt((D - 1) / D), "how many percent are left"),
            "a share": (lambda D: 1 - math.sqrt((D - 1) / D), "multiply by 100"),
            "of the variance": (lambda D: 100 * (1 - (D - 1) / D), "error of the variance"),
            "the other way round": (lambda D: 100 * (math.sqrt(D / (D - 1)) - 1), "how much larger"),
            "the factor": (lambda D: ((D - 1) / D) ** 0.5, "the factor itself"),
            "swapped": (lambda D: 100 * (1 - math.sqrt(D / (D - 1))), "swapped"),
            "plus one": (lambda D: 100 * (1 - math.sqrt(D / (D + 1))), "D + 1"),
            "the sign": (lambda D: 100 * (math.sqrt((D - 1) / D) - 1), "sign"),
            "of the variance, the other way round": (lambda D: 100 * (D / (D - 1) - 1), "larger the unbiased variance"),
            "brackets": (lambda D: 100 * (1 - math.sqrt(D - 1) / D), "D - 1 alone"),
            "the root of 1/D": (lambda D: 100 * (1 - 1 / math.sqrt(D)), "root of 1 / D"),
            "rule of thumb": (lambda D: 100 / (2 * D), "rule of thumb"),
            "integer division": (lambda D: 100 * (1 - math.sqrt((D - 1) // D)), "//"),
            "whole percent": (lambda D: int(100 * (1 - math.sqrt((D - 1) / D))), "yours is 13"),
            "only for four": (lambda D: 13.397459621556135, "On D = 2"),
            "rounded": (lambda D: round(100 * (1 - math.sqrt((D - 1) / D)), 1), "expected 13.3975"),
            "nothing": (lambda D: None, "return"),
            "a string": (lambda D: f"{100 * (1 - math.sqrt((D - 1) / D)):.1f} %", "%"),
        },
    },
    "how_many": {
        "right": {
            "numbers": HOW_MANY,
            "products": {"a": 32, "b": 32 * 20, "c": 32, "d": 8, "e": 8 * 28 * 28, "f": 8 * 3},
        },
        "wrong": {
            "entries of a row": (but("a", 64), "share a mean"),
            "all entries": (but("a", 32 * 64), "how many numbers"),
            "per sample": (but("b", 32), "not each sample"),
            "per position": (but("b", 20), "do not share"),
            "tokens kept": (but("c", 640), "last axis alone"),
            "channels kept": (but("d", 24), "Only the batch"),
            "BatchNorm's count": (but("d", 3), "BatchNorm"),
            "one image's pixels": (but("e", 784), "all 8 images"),
            "per channel": (but("f", 3), "each image has its own"),
            "off by one": (but("e", 6273), "not right"),
            "added": (but("b", 52), "do not add"),
            "the middle axis": (but("b", 2048), "middle axis"),
            "one for all images": (but("d", 1), "batch axis is left"),
            "e and f swapped": (HOW_MANY | {"e": 24, "f": 6272}, "channels are reduced"),
            "f is e": (but("f", 6272), "pixels are reduced"),
            "a key is missing": ({k: v for k, v in HOW_MANY.items() if k != "f"}, "missing"),
            "a key too many": (HOW_MANY | {"g": 1}, "unknown"),
            "a list": (list(HOW_MANY.values()), "dictionary"),
            "a tensor as value": (but("b", torch.zeros(3)), "not right"),
            "a string as value": (but("b", "640"), "not right"),
        },
    },
    "biased_variance": {
        "right": {"fraction": 5 / 6, "rounded": 0.8333, "tensor": torch.tensor(0.83333)},
        "wrong": {
            "one": (1.0, "divides by 5"),
            "one, an int": (1, "divides by 5"),
            "upside down": (6 / 5, "smaller of the two"),
            "its root": (math.sqrt(5 / 6), "root"),
            "D of the input": (0.8, "6 units"),
            "a sixth": (1 / 6, "is 5, not 1"),
            "something else": (0.85, "not right"),
            "text": ("5/6", "not right"),
        },
    },
}

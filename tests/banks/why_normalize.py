"""Answers to the exercises of lesson 1."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# find_gain: what people write as a search


def halve(rms_after, low=0.5, high=4.0):
    for _ in range(30):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            high = middle
        else:
            low = middle
    return middle


def halve_on_a_log_scale(rms_after):
    low, high = math.log(0.5), math.log(4.0)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if rms_after(math.exp(middle)) > 1 else (middle, high)
    return math.exp(low)


def try_many(rms_after):
    gains = [0.5 + 0.05 * i for i in range(71)]
    return min(gains, key=lambda gain: abs(rms_after(gain) - 1))


def try_many_tensors(rms_after):
    best = None
    for gain in torch.arange(0.5, 4.0, 0.1):
        if rms_after(gain) <= 1:
            best = gain
    return best


def last_one_below(rms_after):
    best = 0
    for i in range(5, 40):
        if rms_after(i / 10) < 1:
            best = i / 10
    return best


def climb(rms_after):
    gain = 0.5
    while rms_after(gain) < 1:
        gain *= 1.01
    return gain


def climb_in_steps(step):
    def search(rms_after):
        gain = 0.5
        while rms_after(gain) < 1:
            gain += step
        return gain

    return search


def halve_the_gain(rms_after, low=0.5, high=4.0):
    for _ in range(20):
        middle = (low + high) / 2
        if middle > 1:
            high = middle
        else:
            low = middle
    return middle


def one_measurement(rms_after):
    return rms_after(1.0) ** (-1 / 50)  # a net of matrices and ReLU multiplies the signal by gain ** 50


def halve_the_wrong_way(rms_after, low=0.5, high=4.0):
    for _ in range(30):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            low = middle
        else:
            high = middle
    return middle


def halve_too_rarely(rms_after, low=0.5, high=4.0):
    for _ in range(3):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            high = middle
        else:
            low = middle
    return middle


def return_inside_the_loop(rms_after, low=0.5, high=4.0):
    for _ in range(30):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            high = middle
        else:
            low = middle
        return middle


# fate: the rule (std * sqrt(width / 2)) ** depth and its slips


def say(left):
    return "dies" if left < 0.01 else "explodes" if left > 100 else "lives"


def fate(std, width, depth=50):
    return say((std * math.sqrt(width) / math.sqrt(2)) ** depth)


def within(low, high):
    def rule(std, width, depth=50):
        left = (std * width**0.5 / 2**0.5) ** depth
        return "dies" if left < low else "explodes" if left > high else "lives"

    return rule


def fate_layer_by_layer(std, width, depth=50):
    size = 1.0
    for _ in range(depth):
        size *= std * (width / 2) ** 0.5
    if size > 100:
        return "explodes"
    if size < 0.01:
        return "dies"
    return "lives"


def fate_in_logarithms(std, width, depth=50):
    power_of_ten = depth * (math.log10(std) + math.log10(width) / 2 - math.log10(2) / 2)
    return "lives" if abs(power_of_ten) <= 2 else "dies" if power_of_ten < 0 else "explodes"


def fate_from_the_mean_square(std, width, depth=50):
    return say(((std**2 * width / 2) ** depth) ** 0.5)


# standardize


def centered(x):
    return x - x.mean()


def two_loops(x):
    mean = sum(x) / len(x)
    var = sum((value - mean) ** 2 for value in x) / len(x)
    return torch.stack([(value - mean) / var**0.5 for value in x])


def in_place(x):
    x -= x.mean()
    return x / x.square().mean().sqrt()


PROMISES = {
    "with LayerNorm, weights three times as large give the same signal": True,
    "with LayerNorm, an input twice as large gives the same signal": True,
    "the entries of a standardized vector lie between -1 and 1": False,
    "with LayerNorm, two digits keep different directions for 50 layers": False,
    "with BatchNorm, the gradient keeps its size over 50 plain layers": False,
    "in our training runs, weights of the right scale learned better with LayerNorm": False,
}


def but(number, value):
    """The right promises but for one."""
    return PROMISES | {list(PROMISES)[number]: value}


BANK = {
    "fading": {
        "right": {"nothing": "nothing", "in capitals": " Nothing"},
        "wrong": {
            "most": ("most", "the next layer"),
            "a hundredth": ("a hundredth", "13 layers"),
            "a number": (0.7, "takes one of"),
            "another word": ("everything", "takes one of"),
            "blank": (None, "takes one of"),
        },
    },
    "find_gain": {
        "right": {
            "halving": halve,
            "halving logarithms": halve_on_a_log_scale,
            "a list of gains": try_many,
            "tensors": try_many_tensors,
            "the last one below": last_one_below,
            "climbing": climb,
            "one measurement": one_measurement,
        },
        "wrong": {
            "sqrt(2) by heart": (lambda rms_after: 2**0.5, "without measuring"),
            "1.4 by heart": (lambda rms_after: 1.4, "without measuring"),
            "the signal instead of the gain": (lambda rms_after: rms_after(halve(rms_after)), "return the gain"),
            "no root": (lambda rms_after: 1 / rms_after(1.0), "fifty times"),
            "square root": (lambda rms_after: rms_after(1.0) ** -0.5, "fifty times"),
            "root upside down": (lambda rms_after: rms_after(1.0) ** (1 / 50), "the other way round"),
            "halving the wrong way": (halve_the_wrong_way, "wrong half"),
            "halving three times": (halve_too_rarely, "after a few steps"),
            "return inside the loop": (return_inside_the_loop, "first step"),
            "the largest signal": (
                lambda rms_after: max([0.5 + 0.1 * i for i in range(36)], key=rms_after),
                "On layers that keep 71 %",
            ),
            "whole numbers": (lambda rms_after: min([1, 2, 3, 4], key=lambda gain: abs(rms_after(gain) - 1)), "finer"),
            "no search": (lambda rms_after, low=0.5, high=4.0: (low + high) / 2, "first step"),
            "not returned": (lambda rms_after: print(halve(rms_after)), "return"),
            "a pair": (lambda rms_after: (1.3, 1.5), "a tuple of 2"),
            "a whole list": (lambda rms_after: torch.linspace(0.5, 4, 8), "a tensor of shape (8,)"),
            "not a number": (lambda rms_after: math.nan, "leaves 0.01 to 100"),
            "rms_after of nothing": (lambda rms_after: rms_after(), "TypeError"),
            "steps of a half": (climb_in_steps(0.5), "finer"),
            "steps of one": (climb_in_steps(1), "finer"),
            "compares the gain": (halve_the_gain, "not the gain"),
            "rounded to an int": (lambda rms_after: int(halve(rms_after)), "finer"),
            "sum of the limits": (lambda rms_after, low=0.5, high=4.0: low + high, "which leaves"),
            "the smallest signal": (
                lambda rms_after: min([0.5 + 0.1 * i for i in range(36)], key=rms_after),
                "which leaves",
            ),
            "a string": (lambda rms_after: "1.4", "yours is"),
            "a dictionary": (lambda rms_after: {gain: rms_after(gain) for gain in (1.0, 2.0)}, "a dict of 2"),
            "its result": (1.41, "takes your function itself"),
        },
    },
    "fate": {
        "right": {
            "power": fate,
            "layer by layer": fate_layer_by_layer,
            "logarithms": fate_in_logarithms,
            "std by Kaiming's": lambda std, width, depth=50: say((std / (2 / width) ** 0.5) ** depth),
            "1.4142": lambda std, width, depth=50: say((std * width**0.5 / 1.4142) ** depth),
            "mean square, then the root": fate_from_the_mean_square,
        },
        "wrong": {
            "ReLU forgotten": (lambda std, width, depth=50: say((std * width**0.5) ** depth), "ReLU"),
            "no root of the width": (
                lambda std, width, depth=50: say((std * width / 2**0.5) ** depth),
                "root of the width",
            ),
            "divided by the root": (
                lambda std, width, depth=50: say((std / width**0.5 / 2**0.5) ** depth),
                "multiply std",
            ),
            "std as the gain": (lambda std, width, depth=50: say((std / 2**0.5) ** depth), "width is missing"),
            "mean square": (lambda std, width, depth=50: say((std**2 * width / 2) ** depth), "mean square"),
            "halved, not by the root": (
                lambda std, width, depth=50: say((std * width**0.5 / 2) ** depth),
                "halves the mean square",
            ),
            "one layer": (lambda std, width, depth=50: say(std * (width / 2) ** 0.5), "one layer"),
            "times depth": (lambda std, width, depth=50: say(std * (width / 2) ** 0.5 * depth), "times depth"),
            "depth ignored": (lambda std, width, depth=50: say((std * (width / 2) ** 0.5) ** 50), "depth"),
            "width ignored": (lambda std, width, depth=50: say((std * 32**0.5) ** depth), "64"),
            "swapped": (
                lambda std, width, depth=50: {"dies": "explodes", "explodes": "dies"}.get(
                    fate(std, width, depth), "lives"
                ),
                "swapped",
            ),
            "nothing lives": (
                lambda std, width, depth=50: "explodes" if (std * (width / 2) ** 0.5) ** depth > 1 else "dies",
                "factor of 100",
            ),
            "always the same": (lambda std, width, depth=50: "dies", "whatever the weights"),
            "always alive": (lambda std, width, depth=50: "lives", "whatever the weights"),
            "times the root": (
                lambda std, width, depth=50: say((std * width**0.5 * 2**0.5) ** depth),
                "do not multiply",
            ),
            "Kaiming's std upside down": (
                lambda std, width, depth=50: say((std * (2 / width) ** 0.5) ** depth),
                "upside down",
            ),
            "1.4": (lambda std, width, depth=50: say((std * width**0.5 / 1.4) ** depth), "not close enough"),
            "ReLU once": (lambda std, width, depth=50: say((std * width**0.5) ** depth / 2**0.5), "every layer"),
            "no brackets": (lambda std, width, depth=50: say(std * width**0.5 / 2**0.5**depth), "brackets"),
            "brackets in the wrong place": (
                lambda std, width, depth=50: say(std * width**0.5 / (2**0.5) ** depth),
                "brackets",
            ),
            "a layer too many": (
                lambda std, width, depth=50: say((std * (width / 2) ** 0.5) ** (depth + 1)),
                "off by one",
            ),
            "a layer too few": (
                lambda std, width, depth=50: say((std * (width / 2) ** 0.5) ** (depth - 1)),
                "off by one",
            ),
            "limits 0.1 and 10": (within(0.1, 10), "0.01 and 100"),
            "upper limit 10": (within(0.01, 10), "the limits are"),
            "upper limit 1": (within(0.01, 1), "not with 1"),
            "lower limit 1": (within(1, 100), "not with 1"),
            "live, die, explode": (
                lambda std, width, depth=50: {"lives": "live", "dies": "die"}.get(fate(std, width, depth), "explode"),
                "expected 'lives'",
            ),
            "a number": (lambda std, width, depth=50: (std * (width / 2) ** 0.5) ** depth, "expected 'lives'"),
            "nothing": (lambda std, width, depth=50: None, "return"),
            "capitals": (lambda std, width, depth=50: fate(std, width, depth).title(), "expected 'lives'"),
        },
    },
    "standardize": {
        "right": {
            "mean and std": lambda x: (x - x.mean()) / x.std(correction=0),
            "mean of squares": lambda x: centered(x) / centered(x).square().mean().sqrt(),
            "sums": lambda x: centered(x) * (len(x) / centered(x).pow(2).sum()) ** 0.5,
            "deviation first": lambda x: centered(x / x.std(correction=0)),
            "mean of squares less squared mean": lambda x: centered(x) / (x.square().mean() - x.mean() ** 2).sqrt(),
            "last axis": lambda x: (x - x.mean(-1, keepdim=True)) / x.var(-1, unbiased=False, keepdim=True) ** 0.5,
            "loops": two_loops,
            "torch without eps": lambda x: F.layer_norm(x, x.shape, eps=0.0),
        },
        "wrong": {
            "torch.std": (lambda x: (x - x.mean()) / x.std(), "D - 1"),
            "torch.var": (lambda x: (x - x.mean()) / x.var().sqrt(), "D - 1"),
            "variance, not its root": (lambda x: (x - x.mean()) / x.var(correction=0), "root of the variance"),
            "torch.var without a root": (lambda x: (x - x.mean()) / x.var(), "root of the variance"),
            "not centered": (lambda x: x / x.std(correction=0), "mean is still in"),
            "not centered, unbiased": (lambda x: x / x.std(), "mean is still in"),
            "only centered": (centered, "spread is still"),
            "rms of x": (lambda x: (x - x.mean()) / x.square().mean().sqrt(), "after the mean is gone"),
            "only the rms": (lambda x: x / x.square().mean().sqrt(), "mean is still in"),
            "no brackets": (lambda x: x - x.mean() / x.std(correction=0), "brackets"),
            "unit length": (lambda x: centered(x) / centered(x).norm(), "length 1"),
            "F.normalize": (lambda x: F.normalize(x, dim=-1), "length 1"),
            "sum of squares": (lambda x: centered(x) / centered(x).square().sum(), "mean of the squared"),
            "mean distance": (lambda x: centered(x) / centered(x).abs().mean(), "square the distances"),
            "0 to 1": (lambda x: (x - x.min()) / (x.max() - x.min()), "0 to 1"),
            "-1 to 1": (lambda x: centered(x) / centered(x).abs().max(), "largest"),
            "softmax": (lambda x: x.softmax(-1), "softmax"),
            "by the range": (lambda x: centered(x) / (x.max() - x.min()), "range"),
            "by the length of x": (lambda x: centered(x) / x.norm(), "the result is"),
            "times the deviation": (lambda x: centered(x) * x.std(correction=0), "the result is"),
            "always five": (lambda x: centered(x) / (centered(x).square().sum() / 5).sqrt(), "small spread"),
            "clamped": (lambda x: (centered(x) / x.std(correction=0)).clamp(-1, 1), "the result is"),
            "a row of a matrix": (lambda x: (centered(x) / x.std(correction=0)).unsqueeze(0), "shape (1, 5)"),
            "a list": (lambda x: [(value - x.mean()) / x.std(correction=0) for value in x], "a list"),
            "nn.LayerNorm": (lambda x: nn.LayerNorm(len(x))(x), "nn.LayerNorm"),
            "the deviation as a number": (lambda x: centered(x) / x.std(correction=0).item(), "Keep tensors"),
            "both as numbers": (lambda x: (x - x.mean().item()) / x.std(correction=0).item(), "Keep tensors"),
            "eps and torch.var": (lambda x: centered(x) / (x.var() + 1e-5).sqrt(), "D - 1"),
            "median": (lambda x: (x - x.median()) / x.std(correction=0), "median"),
            "eps under the root": (lambda x: centered(x) / (x.var(correction=0) + 1e-5).sqrt(), "eps"),
            "F.layer_norm": (lambda x: F.layer_norm(x, x.shape), "eps"),
            "eps added to sigma": (lambda x: centered(x) / (x.std(correction=0) + 1e-5), "eps"),
            "a smaller eps": (lambda x: centered(x) / (x.std(correction=0) + 1e-8), "eps"),
            "in place": (in_place, "changed its input"),
            "through Python": (
                lambda x: torch.tensor([(v - x.mean().item()) / x.std(correction=0).item() for v in x.tolist()]),
                "dtype",
            ),
            "detached": (lambda x: (x - x.mean()) / x.std(correction=0).detach(), "gradient"),
            "statistics only": (lambda x: (x.mean(), x.std(correction=0)), "a tuple"),
            "not returned": (lambda x: None, "return"),
        },
    },
    "promises": {
        "right": {"all six": PROMISES, "in another order": dict(reversed(PROMISES.items()))},
        "wrong": {
            "scale": (but(0, False), "divides the 3 out"),
            "input": (but(1, False), "first norm"),
            "range": (but(2, True), "0, 0, 0, 0, 10"),
            "directions": (but(3, True), "cosine"),
            "BatchNorm": (but(4, True), "1.2"),
            "better": (but(5, True), "1.6"),
            "words": (but(0, "True"), "not right"),
            "one": (but(3, 0), "not right"),
            "a key is missing": ({k: v for k, v in PROMISES.items() if "twice" not in k}, "missing"),
            "a list": (list(PROMISES.values()), "dictionary"),
        },
    },
}

"""Answers to the exercises of lesson 1."""

import math

import torch
from torch.nn import functional as F

# find_scale: what people write as a search


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
    scales = [0.5 + 0.05 * i for i in range(71)]
    return min(scales, key=lambda scale: abs(rms_after(scale) - 1))


def try_many_tensors(rms_after):
    best = None
    for scale in torch.arange(0.5, 4.0, 0.1):
        if rms_after(scale) <= 1:
            best = scale
    return best


def climb(rms_after):
    scale = 0.5
    while rms_after(scale) < 1:
        scale *= 1.01
    return scale


def one_measurement(rms_after):
    return rms_after(1.0) ** (-1 / 50)  # a net of matrices and ReLU multiplies the signal by scale ** 50


# fate: the rule (std * sqrt(width / 2)) ** depth and its slips


def say(left):
    return "dies" if left < 0.01 else "explodes" if left > 100 else "lives"


def fate(std, width, depth=50):
    return say((std * math.sqrt(width) / math.sqrt(2)) ** depth)


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


UNCHANGED = {
    "the weights of layer 7 only, times 3": True,
    "the weights of all layers, times -1": False,
    "the weights of one unit in each layer, times 3": False,
    "all pixels of the input, plus 1": False,
    "all 64 numbers of each z, plus 5": True,
    "the first digit of the batch, times 100; the other digits at layer 50": True,
}


def but(number, value):
    """The right answers but for one."""
    return UNCHANGED | {list(UNCHANGED)[number]: value}


BANK = {
    "find_scale": {
        "right": {
            "halving": halve,
            "halving logarithms": halve_on_a_log_scale,
            "a list of scales": try_many,
            "tensors": try_many_tensors,
            "climbing": climb,
            "one measurement": one_measurement,
        },
        "wrong": {
            "the largest signal": (
                lambda f: max([0.5 + 0.1 * i for i in range(36)], key=f),
                "yours is 4, which leaves",
            ),
            "the smallest signal": (lambda f: min([0.5 + 0.1 * i for i in range(36)], key=f), "which leaves"),
            "a negative scale": (lambda f: -halve(f), "yours is -1.414, which does not lie between"),
            "sum of the limits": (lambda f, low=0.5, high=4.0: low + high, "which leaves"),
            "not returned": (lambda f: print(halve(f)), "Is the return missing"),
            "a pair": (lambda f: (1.3, 1.5), "yours is a tuple of 2"),
            "a whole list": (lambda f: torch.linspace(0.5, 4, 8), "yours is a tensor of shape (8,)"),
            "a dictionary": (lambda f: {scale: f(scale) for scale in (1.0, 2.0)}, "yours is a dict of 2"),
            "a string": (lambda f: "1.4", "yours is '1.4'"),
            "not a number": (lambda f: math.nan, "leaves 0.01 to 100"),
            "rms_after of nothing": (lambda f: f(), "TypeError"),
            "its result": (1.41, "takes your function itself"),
        },
        "generic_exceptions": ("a little too large",),  # any scale at which the signal survives is right
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
            "capitals": (lambda std, width, depth=50: fate(std, width, depth).title(), "expected 'lives'"),
            "a number": (lambda std, width, depth=50: (std * (width / 2) ** 0.5) ** depth, "expected 'lives'"),
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
        },
        "wrong": {
            "F.layer_norm": (lambda x: F.layer_norm(x, x.shape), "eps"),
            "F.layer_norm without eps": (lambda x: F.layer_norm(x, x.shape, eps=0.0), "PyTorch's own layer_norm"),
            "clamped": (lambda x: (centered(x) / x.std(correction=0)).clamp(-1, 1), "the result is"),
            "clamped to three deviations": (
                lambda x: (centered(x) / x.std(correction=0)).clamp(-3, 3),
                "one of them 30",
            ),
            "by the length of x": (lambda x: centered(x) / x.norm(), "the result is"),
            "always five": (lambda x: centered(x) / (centered(x).square().sum() / 5).sqrt(), "small spread"),
            "a row of a matrix": (lambda x: (centered(x) / x.std(correction=0)).unsqueeze(0), "shape (1, 5)"),
            "a list": (lambda x: [(value - x.mean()) / x.std(correction=0) for value in x], "a list"),
            "both as numbers": (lambda x: (x - x.mean().item()) / x.std(correction=0).item(), "Keep tensors"),
            "through Python": (lambda x: torch.tensor(two_loops(x).tolist()), "dtype"),
            "in place": (in_place, "changed its input"),
            "statistics only": (lambda x: (x.mean(), x.std(correction=0)), "a tuple"),
            "not returned": (lambda x: None, "return"),
        },
    },
    "unchanged": {
        "right": {"all six": UNCHANGED, "in another order": dict(reversed(UNCHANGED.items()))},
        "wrong": {
            "words": (but(0, "True"), "Python's two words True and False"),
            "one": (but(3, 0), "Python's two words True and False"),
            "a key is missing": ({k: v for k, v in UNCHANGED.items() if "pixels" not in k}, "missing"),
            "a list": (list(UNCHANGED.values()), "dictionary"),
        },
    },
}

"""Checks of lesson 2: mean and variance, their axes, biased or not."""

import math

import torch
from torch.nn import functional as F

from lessonkit.check.core import Probe, call, draw, examine, in_float64, known, raised, values


def _solution(x):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return mean, var


_PROBES = [
    call("the row 0, 1, 2, 3", torch.tensor([0.0, 1, 2, 3], dtype=torch.float64), returns=("mean", "var")),
    call("a matrix", 2 + 3 * draw(1, 3, 5), returns=("mean", "var")),
    call("a square matrix", draw(2, 4, 4) * torch.tensor([1.0, 2, 5, 9]).double(), returns=("mean", "var")),
    call("a batch of sequences", draw(3, 2, 3, 4) - 1, returns=("mean", "var")),
    call("rows of one feature", draw(4, 3, 1), returns=("mean", "var")),
    # float32, a row of standard deviation 1 around 100: two passes lose nothing, E[x^2] - E[x]^2 loses 1e4 times 2^-24
    call("float32 rows around 100", (100 + draw(5, 6, 64)).float(), returns=("mean", "var"), tolerance=2e-6),
    call("rows of bfloat16", draw(6, 3, 8, dtype=torch.bfloat16), returns=("mean", "var"), tolerance=2e-2),
]


_VAR, _SUM = "x.var(-1, correction=0, keepdim=True)", "x.mean(-1, keepdim=True) -> x.sum(-1, keepdim=True)"
_SQUARES = "((x - mean) ** 2)"  # the squared distances, by hand
_WHOLE = "one mean for the whole tensor. Every row needs its own: reduce axis -1 only."
_BY_ROWS = "that divides by the first axis, the number of rows. D is the last: x.shape[-1]."
_BY_FOUR = "that divides by 4 on every input. D is x.shape[-1]."
_GONE = "the reduced axis is gone. Say keepdim=True in both, so that x - mean broadcasts."
_MEAN_GONE = "keepdim=True is missing in the mean, so its reduced axis is gone."
_FIRST_AXIS = "you reduce the first axis, across the samples of the batch. LayerNorm reduces the last one, -1."
_AXIS_1 = "you reduce axis 1. That is the last axis of a matrix only; -1 is the last axis of every tensor."
_MISTAKES = known(
    _solution,
    {
        "correction=0,  -> ": "the variance is divided by D - 1 (torch.var's default). Say correction=0.",
        ", keepdim=True -> ": _GONE,
        f", keepdim=True ->  ; {_VAR.replace(', keepdim=True', '')} -> {_SQUARES}.mean(-1)": _GONE,
        ", correction=0 ->  ; , keepdim=True -> ": "the reduced axis is gone, and the variance is divided by D - 1: keepdim=True and correction=0.",
        "-1 -> 0": _FIRST_AXIS,
        "x.mean(-1 -> x.mean(0": "the mean reduces the first axis, across the samples. It is the last one, -1, for both.",
        "x.var(-1 -> x.var(0": "the variance reduces the first axis, across the samples. It is the last one, -1, for both.",
        "-1 -> min(1, x.dim() - 1)": _AXIS_1,
        "-1 -> 1": _AXIS_1,
        "-1 -> -2": "you reduce the last axis but one. -1 is the last axis of every tensor.",
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> correction=0": _WHOLE,
        "-1, keepdim=True ->  ; -1, correction=0, keepdim=True -> ": _WHOLE,
        "-1, -> tuple(range(x.dim())),": _WHOLE,
        f"{_VAR} -> {_SQUARES}.mean()": "one variance for the whole tensor. Every row needs its own: reduce axis -1, and say keepdim=True.",
        "-1 -> tuple(range(1, x.dim())) or -1": "all axes but the first are reduced. For (B, T, C) that mixes the tokens of a sentence: reduce axis -1 only.",
        f"{_VAR} -> {_VAR}.sqrt()": "var is the standard deviation, the root of the variance. Leave the root away.",
        "x.var(-1, correction=0 -> x.std(-1": "var is the unbiased standard deviation: no root, and divide by D, not D - 1.",
        f"{_VAR} -> (x * x).mean(-1, keepdim=True)": "the variance is the mean of the squares. Subtract the mean before you square.",
        f"{_VAR} -> {_SQUARES}.sum(-1, keepdim=True)": "var is the sum of the squared distances. Divide it by D: take their mean.",
        f"{_VAR} -> {_SQUARES}": "var holds the squared distances themselves. Take their mean over axis -1, with keepdim=True.",
        f"{_VAR} -> (x - mean).abs().mean(-1, keepdim=True)": "var is the mean distance, not squared. Square before you average.",
        f"{_VAR} -> (x - mean).mean(-1, keepdim=True)": "the distances are averaged without being squared, and they sum to 0. Square each one, then average.",
        f"{_VAR} -> (x - mean).mean(-1, keepdim=True) ** 2": "the distances are averaged before they are squared, and they sum to 0. Square each one, then average.",
        "return mean, var -> return var, mean": "mean and var are swapped: return mean first.",
        f"{_VAR} -> (x * x).mean(-1, keepdim=True) - mean * mean": "E[x^2] - E[x]^2 loses digits when the mean is large compared with the standard deviation. Subtract the mean first, then square.",
        "x.mean(-1, keepdim=True) -> x.mean(-1)": _MEAN_GONE,
        f"x.mean(-1, keepdim=True) -> x.mean(-1) ; {_VAR} -> {_SQUARES}.mean(-1, keepdim=True)": _MEAN_GONE,
        f"{_VAR} -> ((x - x.mean(-1)) ** 2).mean(-1, keepdim=True)": "keepdim=True is missing in the mean that you subtract, so its reduced axis is gone.",
        "correction=0, keepdim=True -> correction=0": "keepdim=True is missing in the variance, so its reduced axis is gone.",
        "correction=0, keepdim=True -> True": "x.var(-1, True) means unbiased=True, not keepdim. Name them: keepdim=True, correction=0.",
        f"{_SUM} ; {_VAR} -> {_SQUARES}.mean(-1, keepdim=True)": "mean is the sum of the row. Divide it by D: take the mean.",
        "return mean, var -> return (x - mean).mean(-1, keepdim=True), var": "that is the mean of the row after you have subtracted its mean. Return the first mean.",
        **{
            f"{_SUM} / {divisor} ; {_VAR} -> {var} / {divisor}": why
            for divisor, why in {"len(x)": _BY_ROWS, "4": _BY_FOUR}.items()
            for var in (f"{_VAR} * x.shape[-1]", f"{_SQUARES}.sum(-1, keepdim=True)")
        },
        f"{_VAR} -> {_VAR} * x.shape[-1] / len(x)": _BY_ROWS,
        f"{_VAR} -> {_VAR} * x.shape[-1] / 4": _BY_FOUR,
        f"{_VAR} -> x.var(-1, keepdim=True) * (x.shape[-1] - 1) / x.shape[-1]": "torch.var without correction=0 is nan for a row of one feature, and so is any multiple of it. Say correction=0.",
        f"{_VAR} -> {_VAR} + 1e-5": "a small number is added to the variance. That comes in lesson 3; here the variance itself is asked for.",
        "x.mean(-1, keepdim=True) -> x.median(-1, keepdim=True).values": "the median is not the mean.",
    },
)


def mean_and_var(answer):
    """Check a function x (..., D) -> (mean, var), both (..., 1), var biased (lesson 2)."""
    examine(
        answer,
        "mean_and_var",
        _PROBES,
        in_float64(_solution),
        _MISTAKES,
        tried="1 to 3 axes, three dtypes, rows around 100, gradients",
    )


def _percent(D):
    return 100 * (1 - math.sqrt((D - 1) / D))


_ALL = "100 * (1 - math.sqrt((D - 1) / D))"
_ROUNDED = "it is rounded. Return the number as it comes out; how many decimals are shown is a matter of printing."

_ERROR_MISTAKES = known(
    _percent,
    {
        "(1 - math.sqrt((D - 1) / D)) -> math.sqrt((D - 1) / D)": "that is how many percent are left. Too small by 13 percent leaves 87: take it from 100.",
        "100 * ( -> (": "a share, not percent: multiply by 100.",
        f"{_ALL} -> 100 / D": "that is the error of the variance. The row is divided by its root: sqrt((D - 1) / D).",
        "(1 - math.sqrt((D - 1) / D)) -> (math.sqrt(D / (D - 1)) - 1)": "that is how much larger the right row is than the wrong one. Asked is how much too small the wrong one is, measured by the right one.",
        f"{_ALL} -> math.sqrt((D - 1) / D)": "that is the factor itself, not what it takes away: 100 * (1 - factor).",
        "(D - 1) / D -> D / (D - 1)": "D - 1 and D are swapped: the factor is below 1.",
        "100 -> -100": "the sign: a row that is 13 percent too small has the error +13.",
        f"{_ALL} -> 100 / (D - 1)": "that is how much larger the unbiased variance is. The row is divided by its root, and is too small by 1 - sqrt((D - 1) / D).",
        "math.sqrt((D - 1) / D) -> math.sqrt(D - 1) / D": "the root is taken of D - 1 alone. It is the root of the fraction (D - 1) / D.",
        "(D - 1) / D -> 1 / D": "the root of 1 / D is not the factor. It is the root of (D - 1) / D.",
        f"{_ALL} -> 50 / D": "that is a rule of thumb for wide rows. At D = 4 it says 12.5 in place of 13.4.",
        " / D) ->  // D)": "// drops what comes after the point. Divide with /.",
        "(D - 1) / D -> D / (D + 1)": "D + 1 instead of D - 1.",
        **{f"{_ALL} -> round({_ALL}, {decimals})": _ROUNDED for decimals in ("0", "1", "2")},
        "math.sqrt((D - 1) / D) -> ((D - 1) / D) ** 2": "the ratio of the variances is squared. The row is divided by the *root* of its variance: sqrt((D - 1) / D).",
        f"{_ALL} -> 100 * (1 - (D - 1) / D) ** 0.5": "a bracket: the root is of the fraction (D - 1) / D alone, before it is taken from 1.",
        f"{_ALL} -> 100 * (1 - D / (D - 1))": "that compares the variances, and upside down. The row is sqrt((D - 1) / D) times as large.",
        f"{_ALL} -> 100 * (math.sqrt(D) - math.sqrt(D - 1))": "that is the difference of two roots. Percent of the right row: divide it by the larger root.",
    },
)


def unbiased_error(answer):
    """Check a function D -> by how many percent the unbiased variance makes a row too small (lesson 2)."""
    # 1e-4 of the percentage: a ratio that was computed in float32 is right, a result rounded to 13.4 is not.
    probes = [call(f"D = {D}", D, names=("D",), returns=("the result",), tolerance=1e-4) for D in (4, 2, 3, 64, 768)]
    examine(answer, "unbiased_error", probes, _percent, _ERROR_MISTAKES, tried="D = 2, 3, 4, 64, 768")


def how_many(answer):
    """Check the number of means for six shapes and choices of axes (lesson 2)."""
    expected = {"a": 32, "b": 640, "c": 32, "d": 8, "e": 6272, "f": 24}
    reduced = "That is how many entries share a mean. Asked is how many means come out: multiply the axes left."
    all_of_them = "That is how many numbers there are, not how many means: cross out the reduced axes."
    causes = [
        ("a", 64, reduced),
        ("a", 2048, "That is how many numbers there are. Each of the 32 rows gets one mean."),
        ("a", 1, "One mean for the whole batch would mix the samples. Each row has its own."),
        ("b", 32, "Each of the 20 positions of each of the 32 samples has a mean of its own, not each sample."),
        ("b", 20, "The 20 positions of one sample do not share their means with the other 31 samples."),
        ("b", 64, reduced),
        ("b", 40960, all_of_them),
        ("b", 2048, "That is for the middle axis. The last one is the 64: cross it out."),
        ("b", 52, "Multiply the axes that are left, do not add them."),
        ("c", 1280, reduced),
        ("c", 640, "That is for the last axis alone. Here the 20 positions are averaged together with the features."),
        ("c", 64, "That is for the first two axes. The last two are 20 and 64."),
        ("c", 1, "The batch axis is left: each of the 32 samples has a mean."),
        ("d", 2352, reduced),
        ("d", 24, "Only the batch is left over, not the channels: all of (3, 28, 28) share one mean."),
        ("d", 3, "A mean per channel would be BatchNorm. Here every image has one mean of its own."),
        ("d", 1, "The batch axis is left: each of the 8 images has a mean."),
        ("e", 3, reduced),
        ("e", 784, "The pixels of different images do not share a mean: count them for all 8 images."),
        ("e", 8, "Each pixel has a mean of its own here, not each image."),
        ("e", 24, "That is for reducing the pixels. Here the channels are reduced, and the pixels are left."),
        ("e", 18816, all_of_them),
        ("f", 784, reduced),
        ("f", 3, "A mean per channel over all images is BatchNorm. Here each image has its own: 8 x 3."),
        ("f", 8, "Each image has 3 channels, and each channel a mean of its own."),
        ("f", 6272, "That is for reducing the channels. Here the pixels are reduced, and the channels are left."),
    ]
    values(answer, "how_many", expected, causes)


def _standardized(x, axes=-1, correction=0):
    return (x - x.mean(axes, keepdim=True)) / x.std(axes, correction=correction, keepdim=True)


def _all_but_the_first(x):
    return tuple(range(1, x.dim())) or -1


_RIGHT_LAYERS = {
    "F.layer_norm over the last axis": lambda x: F.layer_norm(x, x.shape[-1:]),
    "a right layer without epsilon": _standardized,
    "a right layer that is 9e-5 off": lambda x: F.layer_norm(x, x.shape[-1:]) + 9e-5,
}
_WRONG_LAYERS = {
    "the line that opened the lesson": lambda x: (x - x.mean()) / x.std(),
    "a layer that takes one mean and one variance of the whole tensor": lambda x: (x - x.mean()) / x.std(correction=0),
    "a layer that reduces the first axis": lambda x: _standardized(x, 0),
    "a layer that reduces axis 1": lambda x: _standardized(x, 1),
    "a layer that reduces all axes but the first": lambda x: _standardized(x, _all_but_the_first(x)),
    "a layer without keepdim": lambda x: (x - x.mean(-1)) / x.std(-1, correction=0),
    "a layer that divides by D - 1": lambda x: _standardized(x, correction=1),
    "a layer that subtracts no mean": lambda x: x / x.std(-1, correction=0, keepdim=True),
    "a layer that only subtracts the mean": lambda x: x - x.mean(-1, keepdim=True),
    "a layer that divides by the variance": lambda x: _standardized(x) / x.std(-1, correction=0, keepdim=True),
    "a layer with the wrong sign": lambda x: -F.layer_norm(x, x.shape[-1:]),
    "a layer that changes nothing": lambda x: x,
    "a layer with a bias of 1": lambda x: F.layer_norm(x, x.shape[-1:]) + 1,
    "a layer with a bias of -1": lambda x: F.layer_norm(x, x.shape[-1:]) - 1,
    "a layer that cuts its result off at -1 and 1": lambda x: F.layer_norm(x, x.shape[-1:]).clamp(-1, 1),
}


def _verdict_on(layer, right):
    """Return a Probe's run: what an answer says of a layer. Of a wrong one an error says the same as False."""

    def run(answer):
        try:
            said = answer(layer)
        except Exception as error:
            seen = raised(error)  # lets YourTurn through
            return {"the verdict": seen if right else False}
        kind = str(getattr(said, "dtype", type(said).__name__)).removeprefix("torch.")  # a tensor, array or number
        if kind.startswith("float"):
            return {"the verdict": "a number"}
        if kind == "bool" and getattr(said, "shape", ()) != ():
            return {"the verdict": "one for each number"}
        return {"the verdict": bool(said) if kind == "bool" else said}

    return run


_TESTED = [Probe(label, _verdict_on(layer, True)) for label, layer in _RIGHT_LAYERS.items()]
_TESTED += [Probe(label, _verdict_on(layer, False)) for label, layer in _WRONG_LAYERS.items()]


def _is_layer_norm(layer):
    g = torch.Generator().manual_seed(2)
    x = 5 + 2 * torch.randn(2, 3, 4, generator=g)
    y, expected = layer(x), F.layer_norm(x, x.shape[-1:])
    return torch.allclose(y, expected, atol=1e-3)


_COMPARED = "torch.allclose(y, expected, atol=1e-3)"
_TOO_STRICT = "your test allows too little for rounding and epsilon. Allow 1e-3: atol=1e-3 in torch.allclose."
_SMALL = "your x has rows whose variance is far below 1, where epsilon counts, and your test allows too little for it. Take rows whose variance is 1 or more, and allow 1e-3."
_FLAT = "your x has rows that are (nearly) constant, on which epsilon decides. Take rows whose variance is 1 or more."
_D_UNSEEN = "D - 1 hardly shows on your x: it has many features, or your test allows a larger difference than 0.1."
_ONE_ROW = "your x is a single row, or all its rows are alike, so one mean does for all of it. Take several, and different ones."
_TWO = "values that are cut off do not show: either your rows have two features, which always become -1 and 1, or your test looks at the smallest difference and not at the largest."
_NO_VALUES = "your test does not look at the values that come out. Compare them with F.layer_norm's."
_REFERENCE = "your test compares with something other than LayerNorm over the last axis: F.layer_norm(x, x.shape[-1:])."

_TEST_MISTAKES = known(
    _is_layer_norm,
    {
        f"{_COMPARED} -> not {_COMPARED}": "True and False are swapped: True says that the layer is right.",
        ", atol=1e-3 -> ": _TOO_STRICT,
        "torch.allclose(y, expected, atol=1e-3) -> torch.equal(y, expected)": _TOO_STRICT,
        "2 * torch.randn -> 10 * torch.randn ; , atol=1e-3 -> ": _TOO_STRICT,
        "5 + 2 * torch.randn -> torch.rand ; atol=1e-3 -> atol=1e-4": _SMALL,
        "2 * torch.randn -> 1e-3 * torch.randn": _FLAT,
        "5 + 2 * torch.randn(2, 3, 4, generator=g) -> torch.ones(2, 3, 4)": _FLAT,
        "5 + 2 * torch.randn(2, 3, 4, generator=g) -> torch.zeros(2, 3, 4)": _FLAT,
        "torch.randn(2, 3, 4 -> torch.randn(3, 4": "your x is a matrix. There axis 1 is the last axis, and so are all axes but the first: take three axes.",
        "torch.randn(2, 3, 4 -> torch.randn(2, 1, 4": "the middle axis of your x has size 1, so all axes but the first are the last one: give it two or more.",
        "torch.randn(2, 3, 4 -> torch.randn(4": "your x is a single row, so every choice of axes is the last one. Take three axes.",
        "torch.randn(2, 3, 4 -> torch.randn(1, 1, 4": _ONE_ROW,
        "torch.randn(2, 3, 4 -> torch.randn(1, 4": _ONE_ROW,
        "2, 3, 4 -> 2, 3, 4096": _D_UNSEEN,
        "atol=1e-3 -> atol=0.5": _D_UNSEEN,
        "5 + 2 * torch.randn(2, 3, 4, generator=g) -> torch.arange(4.0).expand(2, 3, 4)": _ONE_ROW,
        "5 + 2 * torch.randn(2, 3, 4, generator=g) -> F.layer_norm(torch.randn(2, 3, 4, generator=g), (4,))": "the rows of your x are normalized already, so a layer may leave its steps out. Give them another mean and variance.",
        f"return {_COMPARED} -> return y.shape == x.shape": _NO_VALUES,
        f"return {_COMPARED} -> return True": _NO_VALUES,
        f"return {_COMPARED} -> return bool(y.mean(-1).abs().max() < 1e-3)": "a mean of 0 is half of what LayerNorm sets, and other layers do that as well. Compare the values with F.layer_norm's.",
        f"return {_COMPARED} -> return bool(y.mean(-1).abs().max() < 1e-3 and (y.var(-1) - 1).abs().max() < 1e-3)": "y.var(-1) divides by D - 1, so your test refuses the right layer and accepts the one that divides by D - 1.",
        f"return {_COMPARED} -> return bool(y.mean(-1).abs().max() < 1e-3 and (y.var(-1, correction=0) - 1).abs().max() < 1e-3)": "a mean of 0 and a variance of 1 are left if all signs change. Compare the values with F.layer_norm's.",
        "x.shape[-1:] -> x.shape[1:]": _REFERENCE,
        "x.shape[-1:] -> x.shape": _REFERENCE,
        "F.layer_norm(x, x.shape[-1:]) -> (x - x.mean()) / x.std()": _REFERENCE,
        "2 * torch.randn(2, 3, 4, generator=g) -> torch.arange(12.0).reshape(2, 3, 2) ** 2": _TWO,
        f"{_COMPARED} -> bool((y - expected).max() < 1e-3)": "a difference below zero is a difference, too: take .abs() before .max().",
        f"{_COMPARED} -> bool((y - expected).abs().min() < 1e-3)": _TWO,
        "y, expected = layer(x), F.layer_norm(x, x.shape[-1:]) -> expected = F.layer_norm(x, x.shape[-1:]) ; return -> try: y = layer(x)\n    except Exception: return True\n    return": "a layer that raises an error counts as wrong. Leave the error alone, or return False for it.",
        f"{_COMPARED} -> ((y - expected).abs() < 1e-3)": "your answer has a verdict for each number. Take them together: .all().",
        f"{_COMPARED} -> (y - expected).abs().max()": "your answer is the difference, not a verdict. Compare it with what you allow: True or False.",
    },
)


def is_layer_norm(answer):
    """Check a function layer -> whether it is LayerNorm over the last axis (lesson 2)."""
    examine(
        answer,
        "is_layer_norm",
        _TESTED,
        _is_layer_norm,
        _TEST_MISTAKES,
        tried=f"{len(_RIGHT_LAYERS)} right layers and {len(_WRONG_LAYERS)} wrong ones",
    )

"""Checks of lesson 1: the weight scale that a signal survives, its fate in a deep net, a standardized vector."""

import math
from numbers import Real

import torch

from lessonkit.check.core import Mistake, Probe, call, draw, examine, in_float64, known, values


def _find_scale(rms_after, low=0.5, high=4.0):
    for _ in range(20):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            high = middle
        else:
            low = middle
    return middle


class _Said(str):
    """Words that a message shows without quotes."""

    __repr__ = str.__str__


def _survival(label, keep):
    """A probe: 50 layers that keep `keep` of a signal at weight scale 1. It counts whether the signal survives."""

    def rms_after(scale):
        return torch.tensor(float(scale) * keep, dtype=torch.float64).pow(50).item()  # inf where a float would raise

    rms_after.__qualname__ = "rms_after"  # as messages call it

    def run(answer):
        scale = answer(rms_after)
        if isinstance(scale, torch.Tensor) and scale.numel() == 1:
            scale = scale.item()
        if not isinstance(scale, Real) or isinstance(scale, bool):
            shape = f"a tensor of shape {tuple(scale.shape)}" if isinstance(scale, torch.Tensor) else repr(scale)
            kind = f"a {type(scale).__name__} of {len(scale)}" if isinstance(scale, (tuple, list, dict)) else shape
            return {"the weight scale": None if scale is None else _Said(kind)}
        left = rms_after(scale)
        if not 0.01 <= left <= 100:
            return {"the weight scale": _Said(f"{scale:.4g}, which leaves {left:.2g}")}
        if not 0.5 <= scale <= 4:
            return {"the weight scale": _Said(f"{scale:.4g}, which does not lie between low = 0.5 and high = 4")}
        return {"the weight scale": _Said("one that leaves 0.01 to 100")}

    return Probe(label, run)


_SURVIVALS = [
    _survival("layers that keep 71 % of the signal at weight scale 1 (ReLU)", 2**-0.5),
    # not 1.0: a search in steps of 0.1 that stops just before 1 would return 0.9, which is too far below
    _survival("layers that keep 97 % of the signal at weight scale 1", 0.97),
    _survival("layers that keep 40 % of the signal at weight scale 1", 0.4),
    # its signal lives from 0.793 to 0.953: between two steps of a quarter
    _survival("layers that keep 115 % of the signal at weight scale 1", 1.15),
]

_BY_HEART = "This weight scale suits a ReLU net, but was found without measuring. Call rms_after(scale) for several scales: the check brings other nets."
_ONE = "it is 1 for every net. Compare rms_after(scale) with 1, not the weight scale; and return the weight scale, not rms_after(scale)."
_FIFTY_TIMES = "the weight scale acts fifty times, once a layer: to correct a factor, take its 50th root."
_ENDS = "your search runs to an end of the range. Where the signal is larger than 1, the weight scale is too large: go on below it; otherwise go on above it."
_WHOLE = "a weight scale is seldom a whole number: return it as it is, without int or round."
_TOO_EARLY = "the search stops after a few steps, too early. Each one halves the range: twenty are plenty."
_TOO_FAR_APART = "the scales that you try lie too far apart. Try finer ones: steps of 0.05."
_MIDDLE = "the middle of low and high is (low + high) / 2: a plus, and brackets."
_BEYOND = (
    "you stop at the first weight scale whose signal is too large already. Stop where rms_after(scale) is close to 1."
)


def _interpolate(rms_after):
    ends = [math.log(rms_after(scale)) for scale in (0.5, 4)]
    return 0.5 - 3.5 * ends[0] / (ends[1] - ends[0])


def _correct(rms_after):
    scale = 1.0
    for _ in range(20):
        scale = scale / rms_after(scale)
    return scale


def _climb(step, limit=1):
    return lambda rms_after: next(0.5 + step * i for i in range(999) if rms_after(0.5 + step * i) >= limit)


def _closest(scales):
    return lambda rms_after: min(scales, key=lambda scale: abs(rms_after(scale) - 1))


_SCALES = known(
    _find_scale,
    {
        **{f"return middle -> return {scale}": _BY_HEART for scale in ("2**0.5", 1.4, 1.41, 1.414)},
        "return middle -> return rms_after(middle)": _ONE,
        "rms_after(middle) > 1 -> middle > 1": _ONE,
        "return middle -> return 1 / rms_after(1.0)": _FIFTY_TIMES,
        "return middle -> return rms_after(1.0) ** -0.5": _FIFTY_TIMES,
        "return middle -> return rms_after(1.0) ** (1 / 50)": "the other way round: where too little is left, the weight scale must be larger than 1.",
        "return middle -> return int(middle)": _WHOLE,
        "return middle -> return round(middle)": _WHOLE,
        "> 1 -> < 1": _ENDS,
        "> 1 -> < 1 ; 20 -> 10": _ENDS,
        "return middle -> return 0.5": _ENDS,
        **{f"20 -> {steps}": _TOO_EARLY for steps in (2, 3, 4)},
        "    return middle ->         return middle": "the search never gets beyond its first step. Is the return inside the loop, or does high never change?",
        "low = middle -> pass": "your search moves only high. Where the signal is 1 or smaller, the middle becomes the new low.",
        "(low + high) / 2 -> (low - high) / 2": _MIDDLE,
        "(low + high) / 2 -> (high - low) / 2": _MIDDLE,
        "(low + high) / 2 -> low + high / 2": _MIDDLE,
        "(low + high) / 2 -> low + high": _MIDDLE,
    },
) + [
    *(Mistake(_TOO_FAR_APART, _closest(scales)) for scales in ((1, 2, 3, 4), (1, 2, 3), [k / 4 for k in range(2, 17)])),
    *(Mistake(_TOO_FAR_APART, _climb(step)) for step in (0.25, 0.5, 1)),
    *(Mistake(_BEYOND, _climb(step, 100)) for step in (0.01, 0.05, 0.1)),
    Mistake(_FIFTY_TIMES, _correct),
    Mistake(
        "the logarithm of rms_after(scale) is straight over log(scale), not over scale: interpolate log(scale).",
        _interpolate,
    ),
]


def find_scale(answer):
    """Check a function rms_after -> weight scale at which the signal lives; graded on what survives (lesson 1)."""
    tried = "layers that keep 71 %, 97 %, 40 % and 115 % of a signal"
    examine(answer, "find_scale", _SURVIVALS, _find_scale, _SCALES, tried=tried)


def _fate(std, width, depth=50):
    scale = std * width**0.5
    left = (scale / 2**0.5) ** depth
    if left < 0.01:
        return "dies"
    return "explodes" if left > 100 else "lives"


def _net(label, *args):
    return call(label, *args, names=("std", "width", "depth"), returns=("the fate",))


_NETS = [
    _net("Kaiming's std at width 200", 0.1, 200),
    _net("the same std at width 50", 0.1, 50),
    _net("the same std at width 800", 0.1, 800),
    _net("Xavier's std at width 64", 0.125, 64),
    _net("a shallow net", 0.1, 50, 5),
    _net("a single layer", 0.1, 50, 1),
    *(_net(f"{depth} layers", 0.1, 800, depth) for depth in (2, 5, 6, 7)),
    _net("a thousand layers", 0.1, 200, 1000),
    *(_net(f"a narrow net with weights of std {std:g}", std, 8) for std in (0.5, 1.2, 2.0, 45.0, 60.0)),
    _net("one layer of large weights", 45.0, 8, 1),
    *(_net(f"a net of width 3 with weights of std {std:g}", std, 3) for std in (3.0, 0.8)),
    # at width 2 a layer's factor is std: what is left after 50 layers is half a percent off a limit
    *(
        _net(f"weights that leave {left} times the rms", left ** (1 / 50), 2)
        for left in (100.5, 99.5, 0.01005, 0.00995)
    ),
]

_BRACKETS = "brackets are missing: a / b ** depth divides by b ** depth only. Write (scale / 2 ** 0.5) ** depth."
_OFF_BY_ONE = "the power is off by one: depth layers give depth factors."
_FACTOR = "within a factor of 100, up or down, a signal lives: compare one layer's factor to the power depth with 0.01 and 100, not with 1."
_ONE_LAYER = "that is one layer's factor. It acts once in each layer: raise it to the power depth, then compare with 0.01 and 100."
_LIMITS = "the limits are 0.01 and 100."
_SAME = "your function says the same whatever the weights are."
_LEFT_OUT = "is the return missing at the end, or is one of the three cases left out?"
_WORDS = 'the three words to return are "dies", "lives" and "explodes", letter by letter.'


def _other_words(change):
    return " ; ".join(f'"{word}" -> "{change(word)}"' for word in ("dies", "lives", "explodes"))


_FATES = known(
    _fate,
    {
        "scale / 2**0.5 -> scale": "ReLU is missing: it halves the mean square, so divide each layer's factor by the root of 2.",
        "width**0.5 -> width": "the weight scale is std times the root of the width, not times the width.",
        "std * width**0.5 -> std / width**0.5": "a sum over more inputs is larger: multiply std by the root of the width, do not divide.",
        "std * width**0.5 -> std": "std is not yet the scale, the width is missing: the weight scale is std times the root of the width.",
        "scale / 2**0.5 -> std": "std is not yet the scale, and ReLU is missing: std times the root of the width, by the root of 2.",
        "scale / 2**0.5 -> scale**2 / 2": "the limits 0.01 and 100 are for the rms, (scale / sqrt(2)) ** depth, not for the mean square.",
        "scale / 2**0.5 -> scale / 2": "ReLU halves the mean square, so the rms loses the root of 2, not 2.",
        "scale / 2**0.5 -> scale * 2**0.5": "ReLU takes away half of the mean square: divide by the root of 2, do not multiply.",
        "scale / 2**0.5 -> std * (2 / width) ** 0.5": "upside down: divide std by Kaiming's sqrt(2 / width), do not multiply.",
        "scale / 2**0.5 -> scale / 1.4": "1.4 is not close enough to the root of 2 where a thousand layers multiply. Write 2 ** 0.5.",
        "(scale / 2**0.5) ** depth -> scale**depth / 2**0.5": "ReLU acts in every layer: divide the weight scale by the root of 2 first, in brackets, then take the power.",
        "(scale / 2**0.5) ** depth -> scale / 2**0.5**depth": _BRACKETS,
        "(scale / 2**0.5) ** depth -> scale / (2**0.5) ** depth": _BRACKETS,
        "** depth -> ** (depth + 1)": _OFF_BY_ONE,
        "** depth -> ** (depth - 1)": _OFF_BY_ONE,
        # at Kaiming's std what is left is 1 but for rounding, so it falls on either side of a limit of 1
        **{
            edits.replace("?", low).replace("!", high): _FACTOR
            for edits in ("< 0.01 -> < 1 ? 1e-9 ; > 100 -> > 1 ! 1e-9", "< 0.01 -> < 1 ? 1e-9", "> 100 -> > 1 ! 1e-9")
            for low, high in ("++", "+-", "-+", "--")
        },
        " ** depth -> ": _ONE_LAYER,
        **{
            f" ** depth ->  ; < 0.01 -> < {low} ; > 100 -> > {high}": _ONE_LAYER  # a fixed range of weight scales
            for low in (0.7, 0.85, 0.95, 0.995)
            for high in ((1.2,) if low == 0.995 else (1.05, 1.2))  # 0.995 to 1.05: as a limit of 1
        },
        "** depth -> * depth": "factors multiply: raise one layer's factor to the power depth, do not take it times depth.",
        "** depth -> ** 50": "depth is not used: a short net is kinder than one of 50 layers.",
        "width**0.5 -> 64**0.5": "the width is always 64 in your function. Use the argument.",
        "** depth -> ** -depth": '"dies" and "explodes" are swapped.',
        "0.01 -> 0.1": _LIMITS,
        "100 -> 10": _LIMITS,
        **{_other_words(lambda _, word=word: word): _SAME for word in ("dies", "lives", "explodes")},
        'return "dies" -> pass ; return "explodes" -> "explodes"': _LEFT_OUT,
        'else "lives" -> else None': _LEFT_OUT,
        **{_other_words(change): _WORDS for change in (str.title, str.upper, lambda word: word[:-1])},
    },
)


def fate(answer):
    """Check a function (std, width, depth=50) -> "dies", "lives" or "explodes" (lesson 1)."""
    examine(answer, "fate", _NETS, _fate, _FATES, tried="narrow and wide, 1 to 1000 layers")


def _standardize(x):
    return (x - x.mean()) / x.std(correction=0)


_VECTORS = [
    # loose, so that an eps passes here and is shown where it can be seen, on the next vector
    call("the vector 0, 0, 0, 0, 10", torch.tensor([0.0, 0, 0, 0, 10], dtype=torch.float64), tolerance=1e-4),
    call("a vector of small spread", draw(2, 6, mean=0.5, scale=1e-3)),
    call("seven numbers around -3", draw(1, 7, mean=-3, scale=2)),
    call("a vector of 50 numbers", draw(3, 50, mean=1).exp()),
    # float32 rounds each of 40 numbers of size 4 by 2e-7; their mean and their spread are off by no more
    call("float32 numbers", draw(4, 40, mean=2, scale=1.5, dtype=torch.float32), tolerance=1e-5),
    call("256 numbers, one of them 30", torch.cat([draw(5, 255), torch.full((1,), 30.0, dtype=torch.float64)])),
    call("seven numbers once more, around 2", draw(6, 7, mean=2)),
]

_ALL = "(x - x.mean()) / x.std(correction=0)"
_BELOW = "x.std(correction=0)"
_EPS = "you add an eps, or F.layer_norm does. It keeps 0/0 away, and moves every value a little. It comes in lesson 3, with the vectors that need it; here leave it out."
_UNBIASED = "you divide by the deviation that torch.std takes by default: D - 1 under the root. Say correction=0."
_CUT = ".item(), which ends the `rms` of section 1.1, or .detach() makes a constant of the deviation or the mean, and the gradient misses it. Keep tensors."
_WITH_EPS = {
    f"{_BELOW} -> {below}": said
    for eps in (1e-5, 1e-6, 1e-8)
    for below, said in {
        f"(x.var(correction=0) + {eps}).sqrt()": _EPS,
        f"(x.std(correction=0) + {eps})": _EPS,
        f"(x.var() + {eps}).sqrt()": f"{_UNBIASED} And {_EPS}",
        f"(x.std() + {eps})": f"{_UNBIASED} And {_EPS}",
    }.items()
}

_STANDARDIZED = known(
    _standardize,
    {
        "correction=0 -> ": _UNBIASED,
        "std(correction=0) -> var(correction=0)": "divide by the standard deviation, the root of the variance.",
        "std(correction=0) -> var()": "divide by the standard deviation, the root of the variance, and take correction=0: D, not D - 1.",
        "(x - x.mean()) -> x": "the mean is still in it: subtract it from x before you divide.",
        "(x - x.mean()) -> x ; correction=0 -> ": "the mean is still in it: subtract it before you divide. And say correction=0.",
        f"{_ALL} -> x / x.square().mean().sqrt()": "the mean is still in it: subtract it, then divide by the rms of what is left.",
        f" / {_BELOW} -> ": "the spread is still what it was: divide by the standard deviation.",
        f"{_BELOW} -> x.square().mean().sqrt()": "the spread is the root of the mean square after the mean is gone, of x - mean, not of x.",
        "(x - x.mean()) -> x - x.mean()": "brackets are missing: (x - mean) / deviation. Division comes before subtraction.",
        "(x - x.mean()) -> x - x.mean() ; correction=0 -> ": "brackets are missing: (x - mean) / deviation. And say correction=0.",
        f"{_BELOW} -> (x - x.mean()).norm()": "this vector has length 1. Its rms should be 1: divide by the root of the mean square, not of the sum.",
        f"{_ALL} -> x / x.norm()": "this vector has length 1, and its mean is not 0. Subtract the mean, divide by the standard deviation.",
        f"{_BELOW} -> (x - x.mean()).square().sum()": "the variance is the mean of the squared distances, not their sum; and you divide by its root.",
        f"{_BELOW} -> (x - x.mean()).abs().mean()": "square the distances, take the mean, then the root. You divide by the mean distance.",
        f"{_ALL} -> (x - x.min()) / (x.max() - x.min())": "you map x to the range 0 to 1. Asked is mean 0 and standard deviation 1.",
        f"{_BELOW} -> (x - x.mean()).abs().max()": "you divide by the largest distance. Divide by the standard deviation.",
        f"{_ALL} -> x.softmax(-1)": "that is softmax, another way to normalize (lesson 5). Subtract the mean, divide by the deviation.",
        "x.mean() -> x.median()": "the median is not the mean.",
        **_WITH_EPS,
        f"{_BELOW} -> (x.var(correction=0) + 1e-12).sqrt()": _EPS,
        f"{_BELOW} -> (x.std(correction=0) + 1e-12)": _EPS,
        f"{_BELOW} -> (x.max() - x.min())": "you divide by the range, largest minus smallest. Divide by the standard deviation.",
        "/ -> *": "you multiply by the deviation: divide by it. (torch.rsqrt is 1 over the root: multiply by that.)",
        f"{_BELOW} -> x.var(correction=0) ** 2": "you square the variance. The deviation is its root: .sqrt(), or ** 0.5.",
        f"{_BELOW} -> x.std(correction=0).sqrt()": "you take the root twice: torch.std is the root of the variance already.",
        f"{_BELOW} -> (x.std(correction=0) + 1e-5).sqrt()": "you take the root twice: torch.std is the root of the variance already. And it needs no eps here.",
        f"{_BELOW} -> x.std(correction=0).detach()": _CUT,
        "x.mean() -> x.mean().detach()": _CUT,
        f"x.mean() -> x.mean().detach() ; {_BELOW} -> x.std(correction=0).detach()": _CUT,
        f"{_ALL} -> torch.nn.LayerNorm(len(x))(x)": "that is nn.LayerNorm: float32 by itself, with an eps. Here write its two steps yourself.",
    },
)


def standardize(answer):
    """Check a function x (D,) -> (x - mean) / biased standard deviation, without eps (lesson 1)."""
    examine(
        answer,
        "standardize",
        _VECTORS,
        in_float64(_standardize),
        _STANDARDIZED,
        tried="seven vectors, two dtypes, gradients; constant vectors, 0/0, wait for lesson 3",
        by_hand=("layer_norm", "batch_norm"),
    )


_UNCHANGED = {
    "the weights of layer 7 only times 3": True,
    "the weights of all layers times -1": False,
    "the weights of one unit in each layer times 3": False,
    "all pixels of the input plus 1": False,
    "all 64 numbers of each z plus 5": True,
    "the first digit times 100: the other digits at layer 50": True,
}
_REASONS = (
    "In layer 7 z, its mean and its deviation are three times as large: the 3 cancels in that layer already.",
    "A negative factor does not cancel: z / sigma changes its sign, and ReLU then keeps the other numbers.",
    "Only one of the 64 numbers of z gets the factor, so the mean and the deviation do not get it: it cannot cancel.",
    "The matrix comes first: the 64 numbers of z get 64 different summands, and the mean takes away only a common one.",
    "A common summand is a summand of the mean too, and goes with it; the deviation never sees it.",
    "Each row has a mean and a deviation of its own, so no digit sees another one.",
)


def unchanged(answer):
    """Check which of six changes a net with `standardize` before each ReLU does not see (lesson 1)."""
    mistakes = [(key, not same, why) for (key, same), why in zip(_UNCHANGED.items(), _REASONS, strict=True)]
    values(answer, "unchanged", _UNCHANGED, mistakes)

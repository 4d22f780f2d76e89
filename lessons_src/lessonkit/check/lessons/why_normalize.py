"""Checks of lesson 1: the fate of a signal in a deep net, the gain that it survives, and a standardized vector."""

from numbers import Real

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, call, choice, examine, in_float64, values


def fading(answer):
    """Check the prediction of how much of a signal is left after 50 layers that keep 71 % each (lesson 1)."""
    choice(
        answer,
        "fading",
        {
            "most": "71 % is left after one layer. Then the next layer takes its share of the rest, and so on, fifty times.",
            "a hundredth": "A hundredth is left after 13 layers already: 0.71 to the power 13 is 0.01. There are 37 more.",
            "nothing": None,
        },
    )


def _halve(wrong_way=False, steps=30):
    def search(rms_after, low=0.5, high=4.0):
        for _ in range(steps):
            middle = (low + high) / 2
            if (rms_after(middle) > 1) is not wrong_way:
                high = middle
            else:
                low = middle
        return middle

    return search


def _survival(label, keep):
    """A probe: 50 layers that keep `keep` of a signal at gain 1. What counts is whether it survives at the gain found."""

    def rms_after(gain):
        return torch.tensor(float(gain) * keep, dtype=torch.float64).pow(50).item()  # inf where a float would raise

    rms_after.__qualname__ = "rms_after"  # as messages call it

    def run(answer):
        gain = answer(rms_after)
        if isinstance(gain, torch.Tensor) and gain.numel() == 1:
            gain = gain.item()
        if not isinstance(gain, Real) or isinstance(gain, bool):
            shape = f"a tensor of shape {tuple(gain.shape)}" if isinstance(gain, torch.Tensor) else repr(gain)
            kind = f"a {type(gain).__name__} of {len(gain)}" if isinstance(gain, (tuple, list, dict)) else shape
            return {"the gain": None if gain is None else kind}
        left = rms_after(gain)
        alive = 0.01 <= left <= 100
        return {"the gain": "one that leaves 0.01 to 100" if alive else f"{gain:.4g}, which leaves {left:.2g}"}

    return Probe(label, run)


def find_gain(answer):
    """Check a function rms_after -> gain at which the signal lives; graded on what survives (lesson 1)."""
    probes = [
        _survival("layers that keep 71 % of the signal at gain 1 (ReLU)", 2**-0.5),
        # not 1.0: a search in steps of 0.1 that stops just before 1 would return 0.9, which is too far below
        _survival("layers that keep 97 % of the signal at gain 1", 0.97),
        _survival("layers that keep 40 % of the signal at gain 1", 0.4),
    ]
    by_heart = (
        "This gain suits a ReLU net, but was found without measuring. Call rms_after(gain) for several gains: the "
        "check brings other nets."
    )
    mistakes = [
        *(Mistake(by_heart, lambda rms_after, gain=gain: gain) for gain in (2**0.5, 1.4, 1.41, 1.414)),
        Mistake(
            "it is 1 for every net. Compare rms_after(gain) with 1, not the gain; and return the gain, not rms_after(gain).",
            lambda f: f(_halve()(f)),
        ),
        Mistake(
            "the gain acts fifty times, once a layer: to correct a factor, take its 50th root.", lambda f: 1 / f(1.0)
        ),
        Mistake(
            "the gain acts fifty times, once a layer: to correct a factor, take its 50th root.",
            lambda f: f(1.0) ** -0.5,
        ),
        Mistake(
            "the other way round: where too little is left, the gain must be larger than 1.",
            lambda f: f(1.0) ** (1 / 50),
        ),
        *(
            Mistake(
                "your search keeps the wrong half. Where the signal is larger than 1, the gain is too large: go on below it.",
                _halve(wrong_way=True, steps=steps),
            )
            for steps in (10, 20, 30, 40, 50, 100)
        ),
        *(
            Mistake(
                "the search stops after a few steps, too early. Each one halves the range: twenty are plenty.",
                _halve(steps=steps),
            )
            for steps in (2, 3, 4)
        ),
        Mistake("the search ends with its first step. Is the return inside the loop?", _halve(steps=1)),
        *(
            Mistake(
                "the gains that you try lie too far apart. Try finer ones: steps of 0.05.",
                lambda f, gains=gains: min(gains, key=lambda gain: abs(f(gain) - 1)),
            )
            for gains in ((1, 2, 3, 4), (1, 2, 3))
        ),
        *(
            Mistake(
                "the gains that you try lie too far apart. Try finer ones: steps of 0.05.",
                lambda f, step=step: next(0.5 + step * i for i in range(99) if f(0.5 + step * i) >= 1),
            )
            for step in (0.5, 1)
        ),
    ]
    examine(answer, "find_gain", probes, _halve(), mistakes, tried="layers that keep 71 %, 97 % and 40 % of a signal")


def _fate(left):
    return "dies" if left < 0.01 else "explodes" if left > 100 else "lives"


def fate(answer):
    """Check a function (std, width, depth=50) -> "dies", "lives" or "explodes" (lesson 1)."""
    names = ("std", "width", "depth")
    probes = [
        call("Kaiming's std at width 200", 0.1, 200, names=names, returns=("the fate",)),
        call("the same std at width 50", 0.1, 50, names=names, returns=("the fate",)),
        call("the same std at width 800", 0.1, 800, names=names, returns=("the fate",)),
        call("Xavier's std at width 64", 0.125, 64, names=names, returns=("the fate",)),
        call("a shallow net", 0.1, 50, 5, names=names, returns=("the fate",)),
        call("a single layer", 0.1, 50, 1, names=names, returns=("the fate",)),
        call("two layers", 0.1, 800, 2, names=names, returns=("the fate",)),
        call("five layers", 0.1, 800, 5, names=names, returns=("the fate",)),
        call("six layers", 0.1, 800, 6, names=names, returns=("the fate",)),
        call("seven layers", 0.1, 800, 7, names=names, returns=("the fate",)),
        call("a thousand layers", 0.1, 200, 1000, names=names, returns=("the fate",)),
        call("a narrow net", 0.5, 8, names=names, returns=("the fate",)),
        call("a narrow net with larger weights", 1.2, 8, names=names, returns=("the fate",)),
        call("a narrow net with large weights", 2.0, 8, names=names, returns=("the fate",)),
        call("a narrow net with huge weights", 45.0, 8, names=names, returns=("the fate",)),
        call("one layer of such weights", 45.0, 8, 1, names=names, returns=("the fate",)),
        call("a narrow net with even larger weights", 60.0, 8, names=names, returns=("the fate",)),
        call("a net of width 3", 3.0, 3, names=names, returns=("the fate",)),
    ]

    def rule(std, width, depth=50):
        return _fate((std * (width / 2) ** 0.5) ** depth)

    def limits(low, high):
        def decide(std, width, depth=50):
            left = (std * (width / 2) ** 0.5) ** depth
            return "dies" if left < low else "explodes" if left > high else "lives"

        return decide

    def slip(left):
        return lambda std, width, depth=50: _fate(left(std, width, depth))

    mistakes = [
        Mistake(
            "ReLU is missing: it halves the mean square, so divide each layer's factor by the root of 2.",
            slip(lambda s, w, d: (s * w**0.5) ** d),
        ),
        Mistake(
            "the gain is std times the root of the width, not times the width.",
            slip(lambda s, w, d: (s * w / 2**0.5) ** d),
        ),
        Mistake(
            "a sum over more inputs is larger: multiply std by the root of the width, do not divide.",
            slip(lambda s, w, d: (s / w**0.5 / 2**0.5) ** d),
        ),
        Mistake(
            "std is not yet the gain, the width is missing: gain = std times the root of the width.",
            slip(lambda s, w, d: (s / 2**0.5) ** d),
        ),
        Mistake(
            "std is not yet the gain, and ReLU is missing: std times the root of the width, by the root of 2.",
            slip(lambda s, w, d: s**d),
        ),
        Mistake(
            "the limits 0.01 and 100 are for the rms, (gain / sqrt(2)) ** depth, not for the mean square.",
            slip(lambda s, w, d: (s * s * w / 2) ** d),
        ),
        Mistake(
            "ReLU halves the mean square, so the rms loses the root of 2, not 2.",
            slip(lambda s, w, d: (s * w**0.5 / 2) ** d),
        ),
        Mistake(
            "ReLU takes away half of the mean square: divide by the root of 2, do not multiply.",
            slip(lambda s, w, d: (s * (2 * w) ** 0.5) ** d),
        ),
        Mistake(
            "upside down: divide std by Kaiming's sqrt(2 / width), do not multiply.",
            slip(lambda s, w, d: (s * (2 / w) ** 0.5) ** d),
        ),
        Mistake(
            "1.4 is not close enough to the root of 2 where a thousand layers multiply. Write 2 ** 0.5.",
            slip(lambda s, w, d: (s * w**0.5 / 1.4) ** d),
        ),
        Mistake(
            "ReLU acts in every layer: divide the gain by the root of 2 first, in brackets, then take the power.",
            slip(lambda s, w, d: (s * w**0.5) ** d / 2**0.5),
        ),
        Mistake(
            "brackets are missing: a / b ** depth divides by b ** depth only. Write (gain / 2 ** 0.5) ** depth.",
            slip(lambda s, w, d: s * w**0.5 / 2**0.5**d),
        ),
        Mistake(
            "brackets are missing: a / b ** depth divides by b ** depth only. Write (gain / 2 ** 0.5) ** depth.",
            slip(lambda s, w, d: s * w**0.5 / (2**0.5) ** d),
        ),
        *(
            Mistake(
                "the power is off by one: depth layers give depth factors.",
                slip(lambda s, w, d, off=off: (s * (w / 2) ** 0.5) ** (d + off)),
            )
            for off in (1, -1)
        ),
        Mistake(
            "that is one layer's factor. It acts once in each layer: raise it to the power depth.",
            slip(lambda s, w, d: s * (w / 2) ** 0.5),
        ),
        Mistake(
            "factors multiply: raise one layer's factor to the power depth, do not take it times depth.",
            slip(lambda s, w, d: s * (w / 2) ** 0.5 * d),
        ),
        Mistake(
            "depth is not used: a short net is kinder than one of 50 layers.",
            slip(lambda s, w, d: (s * (w / 2) ** 0.5) ** 50),
        ),
        Mistake("the width is always 64 in your function. Use the argument.", slip(lambda s, w, d: (s * 32**0.5) ** d)),
        Mistake('"dies" and "explodes" are swapped.', slip(lambda s, w, d: (s * (w / 2) ** 0.5) ** -d)),
        Mistake(
            "within a factor of 100, up or down, a signal lives: compare with 0.01 and with 100, not with 1.",
            lambda std, width, depth=50: "explodes" if (std * (width / 2) ** 0.5) ** depth > 1 else "dies",
        ),
        *(
            Mistake(
                "within a factor of 100, up or down, a signal lives: compare with 0.01 and with 100, not with 1.",
                limits(low, high),
            )
            for slack in (1e-9, -1e-9)
            for low, high in ((1 + slack, 100), (0.01, 1 + slack))
        ),
        *(Mistake("the limits are 0.01 and 100.", limits(low, high)) for low, high in ((0.1, 100), (0.01, 10))),
        *(
            Mistake(
                "your function says the same whatever the weights are.", lambda std, width, depth=50, word=word: word
            )
            for word in ("dies", "lives", "explodes")
        ),
        Mistake(
            "is the return missing at the end, or is one of the three cases left out?",
            lambda std, width, depth=50: None,
        ),
    ]
    examine(answer, "fate", probes, rule, mistakes, tried="narrow and wide, 1 to 1000 layers")


def _vector(seed, D, shift=0.0, spread=1.0, dtype=torch.float64):
    drawn = torch.randn(D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (shift + spread * drawn).to(dtype)


def _centered(x):
    return x - x.mean()


def _standardize(x):
    centered = _centered(x)
    return centered / (centered * centered).mean().sqrt()


def standardize(answer):
    """Check a function x (D,) -> (x - mean) / biased standard deviation, without eps (lesson 1)."""
    probes = [
        # loose, so that an eps passes here and is shown where it can be seen, on the next vector
        call("the vector 0, 0, 0, 0, 10", torch.tensor([0.0, 0, 0, 0, 10], dtype=torch.float64), tolerance=1e-4),
        call("a vector of small spread", _vector(2, 6, shift=0.5, spread=1e-3)),
        call("seven numbers around -3", _vector(1, 7, shift=-3, spread=2)),
        call("a vector of 50 numbers", _vector(3, 50, shift=1).exp()),
        # float32 rounds each of 40 numbers of size 4 by 2e-7; their mean and their spread are off by no more
        call("float32 numbers", _vector(4, 40, shift=2, spread=1.5, dtype=torch.float32), tolerance=1e-5),
    ]
    eps = (
        "you add an eps. It keeps 0/0 away, and moves every value a little. It comes in lesson 3, with the vectors that "
        "need it; here leave it out."
    )
    unbiased = "you divide by the deviation that torch.std takes by default: D - 1 under the root. Say correction=0."
    mistakes = [
        Mistake(unbiased, lambda x: _centered(x) / x.std()),
        Mistake(
            "divide by the standard deviation, the root of the variance.", lambda x: _centered(x) / x.var(correction=0)
        ),
        Mistake(
            "divide by the standard deviation, the root of the variance, and take correction=0: D, not D - 1.",
            lambda x: _centered(x) / x.var(),
        ),
        Mistake("the mean is still in it: subtract it from x before you divide.", lambda x: x / x.std(correction=0)),
        Mistake("the mean is still in it: subtract it before you divide. And say correction=0.", lambda x: x / x.std()),
        Mistake(
            "the mean is still in it: subtract it, then divide by the rms of what is left.",
            lambda x: x / x.square().mean().sqrt(),
        ),
        Mistake("the spread is still what it was: divide by the standard deviation.", _centered),
        Mistake(
            "the spread is the root of the mean square after the mean is gone, of x - mean, not of x.",
            lambda x: _centered(x) / x.square().mean().sqrt(),
        ),
        Mistake(
            "brackets are missing: (x - mean) / deviation. Division comes before subtraction.",
            lambda x: x - x.mean() / x.std(correction=0),
        ),
        Mistake(
            "brackets are missing: (x - mean) / deviation. And say correction=0.", lambda x: x - x.mean() / x.std()
        ),
        Mistake(
            "this vector has length 1. Its rms should be 1: divide by the root of the mean square, not of the sum.",
            lambda x: _centered(x) / _centered(x).norm(),
        ),
        Mistake(
            "this vector has length 1, and its mean is not 0. Subtract the mean, divide by the standard deviation.",
            lambda x: F.normalize(x, dim=-1),
        ),
        Mistake(
            "the variance is the mean of the squared distances, not their sum; and you divide by its root.",
            lambda x: _centered(x) / _centered(x).square().sum(),
        ),
        Mistake(
            "square the distances, take the mean, then the root. You divide by the mean distance.",
            lambda x: _centered(x) / _centered(x).abs().mean(),
        ),
        Mistake(
            "you map x to the range 0 to 1. Asked is mean 0 and standard deviation 1.",
            lambda x: (x - x.min()) / (x.max() - x.min()),
        ),
        Mistake(
            "you divide by the largest distance. Divide by the standard deviation.",
            lambda x: _centered(x) / _centered(x).abs().max(),
        ),
        Mistake(
            "that is softmax, another way to normalize (lesson 5). Subtract the mean, divide by the deviation.",
            lambda x: x.softmax(-1),
        ),
        Mistake("the median is not the mean.", lambda x: (x - x.median()) / x.std(correction=0)),
        *(
            Mistake(eps, lambda x, e=e: _centered(x) / (x.var(correction=0) + e).sqrt())
            for e in (1e-5, 1e-6, 1e-8, 1e-12)
        ),
        *(Mistake(eps, lambda x, e=e: _centered(x) / (x.std(correction=0) + e)) for e in (1e-5, 1e-6, 1e-8, 1e-12)),
        *(Mistake(f"{unbiased} And {eps}", lambda x, e=e: _centered(x) / (x.std() + e)) for e in (1e-5, 1e-6, 1e-8)),
        *(
            Mistake(f"{unbiased} And {eps}", lambda x, e=e: _centered(x) / (x.var() + e).sqrt())
            for e in (1e-5, 1e-6, 1e-8)
        ),
        Mistake(
            "you divide by the range, largest minus smallest. Divide by the standard deviation.",
            lambda x: _centered(x) / (x.max() - x.min()),
        ),
        *(
            Mistake(
                ".item() or .detach() makes a constant of the deviation or the mean, and the gradient misses it. Keep tensors.",
                cut,
            )
            for cut in (
                lambda x: _centered(x) / x.std(correction=0).detach(),
                lambda x: (x - x.mean().detach()) / x.std(correction=0),
                lambda x: (x - x.mean().detach()) / x.std(correction=0).detach(),
            )
        ),
        Mistake(
            "that is nn.LayerNorm: float32 by itself, with an eps. Here write its two steps yourself.",
            lambda x: nn.LayerNorm(len(x))(x),
        ),
    ]
    examine(
        answer,
        "standardize",
        probes,
        in_float64(_standardize),
        mistakes,
        tried="five vectors, two dtypes, gradients; constant vectors, 0/0, wait for lesson 3",
    )


def promises(answer):
    """Check which of six promises a norm keeps (lesson 1)."""
    scale, same, between, directions, batch, better = expected = {
        "with LayerNorm, weights three times as large give the same signal": True,
        "with LayerNorm, an input twice as large gives the same signal": True,
        "the entries of a standardized vector lie between -1 and 1": False,
        "with LayerNorm, two digits keep different directions for 50 layers": False,
        "with BatchNorm, the gradient keeps its size over 50 plain layers": False,
        "in our training runs, weights of the right scale learned better with LayerNorm": False,
    }
    causes = [
        (
            scale,
            False,
            "Each norm divides by the deviation, which is three times as large too, and so divides the 3 out.",
        ),
        (
            same,
            False,
            "The layers have no bias, so twice the input is twice the first z; the first norm divides the 2 out.",
        ),
        (between, True, "0, 0, 0, 0, 10 becomes four times -0.5 and one 2. Only mean and spread are set."),
        (
            directions,
            True,
            "Their cosine was above 0.9: LayerNorm treats every vector by itself and pushes no two of them apart (section 1.7).",
        ),
        (batch, True, "It grew by a factor of about 1.2 a layer, from layer 50 back to layer 1 (section 1.7)."),
        (
            better,
            True,
            "With and without it the nets ended alike there (the figure of 1.6, the last two rows of the table in 1.7).",
        ),
    ]
    values(answer, "promises", expected, causes)

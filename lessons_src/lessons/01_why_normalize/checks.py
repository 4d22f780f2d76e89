"""Checks of lesson 1."""

import math

import torch

from lessonkit.check.declare import Probe, draw, exercise, numbers, quiz

_GROWS = "A sum of 64 products with random signs grows with the root of 64 only. The mixed products cancel in the mean over the four cases, and the squares do not."
two_weights = quiz(
    tolerance=0.001,
    input=(
        12.5,
        {
            25: "That is the sum of 9 and 16. | Divide it by 2.",
            3.5: "Square 3 and 4 first, then take the mean.",
            3.54: "That is the rms. The mean square has no root.",
        },
    ),
    before=(
        25,
        {
            100: "That is the sum of the four squares. | Divide it by 4.",
            7: "That is the sum of the first case. | Square the sums, then take the mean of the four.",
            49: "That is the first case. | Take the mean over all four.",
            0: "That is the mean of the sums. | Square each one first.",
            12.5: "There are four cases: 49, 1, 1, 49. What is their mean?",
        },
    ),
    after=(
        12.5,
        {
            25: "ReLU turns -1 and -7 into 0: two of the four squares are 0 then.",
            24.5: "That is the mean over the cases that pass. The two others count as 0: four cases in all.",
            12.25: "Another case passes ReLU: -1, +1 has the sum 1, with the square 1.",
            6.25: "Half of the squares are left, so half of the mean square before ReLU.",
            2: "That is the mean of 7, 0, 1, 0. | Square them first.",
        },
    ),
    std=(
        math.sqrt(2 / 64),
        {
            1: "That is for two inputs. With 64 the matrix adds 64 squares. | 64 std^2 / 2 must be 1.",
            0.125: "That keeps the mean square through the matrix. Then ReLU halves it. | 64 std^2 / 2 must be 1.",
            128
            ** -0.5: "ReLU takes half of the mean square away, so the weights are larger than 1/8, not smaller.",
            **dict.fromkeys(
                (1.4, 1.41, math.sqrt(2)), "That is the weight scale, std times the root of 64."
            ),
            1 / 64: _GROWS,
            0.18: "Give one more digit.",
        },
    ),
)


def _standardize(x):
    mean = x.mean()
    centered = x - mean
    deviation = centered.square().mean().sqrt()
    return centered / deviation


_ROWS = draw(7, 3, 6)
standardize = exercise(
    _standardize,
    [
        # loose, so that an eps passes here and is shown where it can be seen, on the next vector
        ("the vector 0, 0, 0, 0, 10", numbers(0, 0, 0, 0, 10), {"tolerance": 1e-4}),
        ("a vector of spread 1e-12", draw(2, 6, scale=1e-12)),
        # float32 rounds each of 40 numbers of size 100 by 8e-6: two passes lose no more, E[x^2] - E[x]^2 loses 1e-3
        ("float32 numbers around 100", draw(4, 40, mean=100).float(), {"tolerance": 1e-4}),
    ],
    [
        Probe(
            "rows mapped by torch.vmap, as section 1.6 does",
            lambda answer: {
                "the result": torch.vmap(answer, randomness="different")(_ROWS.clone())
            },
            {"z": _ROWS},
        )
    ],
    takes={"x": "D"},
    sizes={"D": (7, 2, 3, 17, 1100)},
    values=("ordinary", "offset", "small", "outlier"),
    tried="small and large vectors, two number types, gradients; constant vectors, 0/0, wait for lesson 3",
    by_hand=("layer_norm", "batch_norm", "group_norm", "instance_norm"),
    wrong="""
    # you divide by the deviation that torch.std takes by default: D - 1 under the root. | Say correction=0.
    deviation = x.std()

    # divide by the standard deviation, the root of the variance.
    deviation = x.var(correction=0)
    # or
    deviation = x.var()

    # the mean is still in it. | Subtract it from x before you divide.
    return x / deviation

    # the spread is the root of the mean square after the mean is gone, of x - mean, not of x.
    deviation = x.square().mean().sqrt()

    # brackets are missing: division comes before subtraction. | (x - mean) / deviation.
    return x - mean / deviation

    # you map x to the range 0 to 1. Asked is mean 0 and standard deviation 1.
    return (x - x.min()) / (x.max() - x.min())

    # you add an eps, or F.layer_norm does. It moves every value a little. | Leave it out: it comes in lesson 3, with the vectors that need it.
    deviation = (x.var(correction=0) + 1e-5).sqrt()
    # or
    deviation = x.std(correction=0) + 1e-5

    # you multiply by the deviation. | Divide by it. (torch.rsqrt is 1 over the root: multiply by that.)
    return centered * deviation

    # the mean of the squares less the square of the mean loses its digits where the mean is large. | Subtract the mean first, then square.
    deviation = (x.square().mean() - mean.square()).sqrt()
    """,
)

_CHANGES = {
    "the weights of layer 7 only times 3": (
        True,
        "In layer 7 z, its mean and its deviation are three times as large: the 3 cancels in that layer already.",
    ),
    "the weights of all layers times -1": (
        False,
        "A negative factor does not cancel: z / sigma changes its sign, and ReLU then keeps the other numbers.",
    ),
    "the weights of one unit in each layer times 3": (
        False,
        "Only one of the 64 numbers of z gets the factor, so the mean and the deviation do not get it: it cannot cancel.",
    ),
    "all pixels of the input plus 1": (
        False,
        "The matrix comes first: the 64 numbers of z get 64 different summands, and the mean takes away only a common one.",
    ),
    "all 64 numbers of each z plus 5": (
        True,
        "A common summand is a summand of the mean too, and goes with it; the deviation never sees it.",
    ),
    "the first digit times 100: the other digits at layer 50": (
        True,
        "Each row has a mean and a deviation of its own, so no digit sees another one.",
    ),
}
unchanged = quiz({change: (same, {not same: why}) for change, (same, why) in _CHANGES.items()})

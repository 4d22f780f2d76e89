"""Checks of lesson 3."""

import math

import torch

from fromscratch.epsilon import clinic_norm as _clinic_norm
from fromscratch.epsilon import normalize as _normalize
from lessonkit.check.declare import (
    Misconception,
    accept,
    announce,
    draw,
    exercise,
    in_float64,
    numbers,
    quiz,
    refuse_dots,
    reject,
    row_of,
)

# float32 rows of 0, 1, 2, 3 plus an offset: exact, like their means and centered squares, not like E[x^2], and
# E[x^2] - E[x]^2 is 2.0 and 0.0, not 1.25. PyTorch's own gradient at such offsets is right to about 1e-4.
_OFFSETS = (
    "float32 rows with offset 4096 and 8192",
    numbers([4096, 4097, 4098, 4099], [8192, 8193, 8194, 8195]).float(),
    {"tolerance": 1e-3},
)
_NAN = numbers(1, 2, math.nan, 4)
_EPSILONS = ({}, {"eps": 0.25}, {"eps": 1e-12}, {"eps": 0.0})

normalize = exercise(
    _normalize,
    # first: here eps shows in the message
    ("rows with sigma = 0.001", 1e-3 * draw(32, 2, 3, 5)),
    # square: a lost axis raises nothing here, so that not every RuntimeError (NumPy's) looks like one
    ("eps = 0.25", draw(34, 4, 4), 0.25, {"names": ("x", "eps")}),
    ("eps = 0 on rows with sigma = 1e-12", 1e-12 * draw(37, 2, 3, 5), {"eps": 0.0}),
    ("a row with nan in it", _NAN, {"gradient": False}),
    _OFFSETS,
    takes={"x": "... D"},
    options=_EPSILONS,
    tried="standard deviations from 2 to 0, four values of eps, large entries, offsets, one to five axes, gradients",
    by_hand=("layer_norm", "group_norm", "instance_norm", "batch_norm"),
    wrong="""
    # eps is added to the deviation: a row with sigma = 0.001 comes out 3.3 times too large. | Add it to the variance, under the root.
    return (x - mean) / (torch.sqrt(var) + eps)

    # the variance is divided by D - 1. | Say correction=0, or take mean_and_var of lesson 2.
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)

    # eps is felt only where the variance is 0, or next to it. Every row has to feel it. | Add it to the variance, under the root.
    return (x - mean) / torch.sqrt(torch.where(var == 0, var + eps, var))
    # or
    return (x - mean) / torch.sqrt(var).clamp(min=eps)

    # that is eps squared. The variance is a square already, eps is not the root of something. | Add eps as it is.
    return (x - mean) / torch.sqrt(var + eps**2)

    # the root is missing: the row is divided by its variance plus eps.
    return (x - mean) / (var + eps)

    # eps is used as the smallest value allowed, so that most rows do not feel it. | Add it to the variance, under the root.
    return (x - mean) / torch.sqrt(var.clamp(min=eps))

    # the root is taken of eps alone: the root of a sum is not the sum of the roots. | Add eps to the variance, then take the root.
    return (x - mean) / (torch.sqrt(var) + eps**0.5)

    # an eps of 0 is replaced: `eps or …` cannot tell 0 from nothing. | Use the argument as it is.
    return (x - mean) / torch.sqrt(var + (eps or 1e-5))

    # you reduce axis 1. That is the last axis of a matrix only. | -1 is the last axis of every tensor.
    mean, var = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)

    # the mean is not subtracted.
    return x / torch.sqrt(var + eps)

    # mean and var are swapped. | mean_and_var returns the mean first.
    var, mean = mean_and_var(x)

    # brackets are missing: without them / comes before -, and only the mean is divided.
    return x - mean / torch.sqrt(var + eps)

    # brackets are missing: eps is added to the quotient, not to the variance.
    return (x - mean) / torch.sqrt(var) + eps

    # E[x^2] - E[x]^2 loses all digits when the mean is far larger than sigma (section 3.6). | Subtract the mean, then square.
    mean, var = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2
    """,
)

eps_on_paper = quiz(
    tolerance=0.005,  # two decimals
    variance=(
        1 / 4,
        {
            0.5: "Each number is 2/4 of what it is at eps = 0. That is the share of the deviation, the variance is its square.",
            1: "At eps = 0 that is right. At eps = 12 each number is divided by 4 instead of 2. And the variance?",
            3 / 4: "That part eps takes away. Asked is the variance that is left.",
            1 / 3: "That is v/eps. Under the root stands v + eps, 4 + 12.",
        },
    ),
    eps=(
        32,
        {
            6: "By 6 the row is divided: that is the root of 4 + eps.",
            2: "6 is the root of 4 + eps, and not 4 + eps: square it first.",
            36: "The root of 4 + eps is 6, so 36 is 4 + eps.",
            4: "That is the answer for eps added to the deviation, 2 + 4 = 6. It is added to the variance, under the root.",
        },
    ),
)

_COMPLAINTS = {  # {what comes out: (whether it does, a row that makes it, what other rows lack)}
    "nan": (
        lambda row, out: bool(out.isnan().all()),
        [0, 0, 0, 0],
        "nan is 0/0. The variance must be 0, and x - mean as well: which rows have that?",
    ),
    "inf": (
        lambda row, out: bool(out.isinf().any()),
        [1e-5, 2e-5, 3e-5, 4e-5],
        "inf is a number divided by 0. The variance must become 0 though the numbers differ. | Its square root must be below 1.7e-4.",
    ),
    "zeros": (
        lambda row, out: bool((out == 0).all() and (row != row[0]).any()),
        [0, 500, 1000, 1500],
        "Numbers divided by inf are 0. The variance must be larger than float16 can hold. | Its square root must be above 256.",
    ),
}
_ALL_EQUAL = "The numbers of the row are equal, at least in float16: x - mean is 0, and 0/0 is nan. They must differ."
_INF = "The variance is 0 indeed, but x - mean is not, and that divided by 0 is inf. What if all numbers are equal?"
_TOO_LARGE = "x - mean itself is inf here, and inf/inf is nan. Take numbers below 10,000."


def breaking_rows(answer):
    """Judge three rows that break a LayerNorm of float16 with eps = 1e-8: to nan, to inf, to zeros."""
    broken = {key: row for key, (_, row, _) in _COMPLAINTS.items()}
    wrong = [(key, [0, 100, 200, 300], lacks) for key, (_, _, lacks) in _COMPLAINTS.items()]
    wrong += [
        ("nan", broken["inf"], _INF),
        ("inf", [1e-5] * 4, _ALL_EQUAL),
        ("zeros", [500] * 4, _ALL_EQUAL),
        ("zeros", [65504, -65504, -65504, -65504], _TOO_LARGE),
    ]
    announce(Misconception(why, broken | {key: row}) for key, row, why in wrong)
    refuse_dots(answer, "breaking_rows")
    if not isinstance(answer, dict) or set(answer) != set(broken):
        reject(
            "check.breaking_rows takes a dictionary with three rows. Its keys are 'nan', 'inf' and 'zeros'."
        )
    troubles = {key: _trouble(key, answer[key]) for key in broken}
    good = [key for key in broken if not troubles[key]]
    so_far = f" Right so far: {', '.join(good)}." if good else ""
    for key, trouble in troubles.items():
        if trouble:
            reject(f"{key}: {trouble[0]}{so_far}", trouble[1])
    accept("Right: three rows of float16, three complaints, each as you meant it.")


def _trouble(key, entry):
    """Return (what became of a row that does not break as it should, why), None for one that does."""
    if entry is ...:
        return "put your row in the place of the three dots.", None
    try:
        row = torch.as_tensor(entry).detach().to(torch.float16).squeeze()
    except (TypeError, ValueError, RuntimeError):
        row = torch.tensor(0)
    if row.dim() != 1 or len(row) < 4:
        return "that is no row.", "Give a list of at least four numbers."
    if not row.isfinite().all():
        return (
            "your row holds inf or nan before the patient sees it.",
            "Give ordinary numbers, none beyond 65,504, the largest of float16: the patient is to break them.",
        )
    comes_out, _, lacks = _COMPLAINTS[key]
    out = _clinic_norm(row)
    if comes_out(row, out):
        return None
    what = f"the patient makes {row_of(out)} of your row."
    if key != "nan" and (row == row[0]).all():
        return what, _ALL_EQUAL
    if (row - row.mean()).isinf().any():
        return what, _TOO_LARGE
    return what, _INF if key == "nan" and out.isinf().any() else lacks


def _half(x, eps=1e-8):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = wide.mean(-1, keepdim=True)
    centered = wide - mean
    var = wide.var(-1, correction=0, keepdim=True)
    deviation = torch.sqrt(var + eps)
    return (centered / deviation).to(x.dtype)


_HALF = {"tolerance": 2e-3}  # one step of float16 at 2
_TINY = 2**-15 * numbers([-3, -1, 1, 3], [5, 0, -4, -1]).half()
_FAINT = (1e-12 * draw(54, 2, 5)).float()
# exact in bfloat16, their mean 50.90625 is not
_QUARTERS = [50 + 0.25 * i for i in (0, 1, 2, 3, 4, 5, 6, 8)]

normalize_half = exercise(
    _half,
    # tiny rows first: there a larger eps shows in the values
    ("float16 rows with sigma = 7e-5", _TINY, _HALF),
    # x - mean reaches 98,256 here, more than float16 can hold, and the result is 1.73 at most
    (
        "a float16 row of 65504 and three times -65504",
        numbers([65504, -65504, -65504, -65504]).half(),
        _HALF | {"gradient": False},
    ),
    # F.layer_norm is a right answer, but on this row its gradient is off by 3 % (the mean it saves is bfloat16): values
    # only. 1e-2: a step of bfloat16 is 1.6e-2 at 2
    (
        "a bfloat16 row around 50",
        numbers(_QUARTERS).bfloat16(),
        {"tolerance": 1e-2, "gradient": False},
    ),
    _OFFSETS,
    ("bfloat16 rows", draw(53, 3, 8).bfloat16(), {"tolerance": 2e-2}),
    ("float16 rows of one number", numbers([2], [-0.5]).half(), _HALF),
    (
        "float32 rows with sigma = 1e-12",
        _FAINT,
        {"eps": 0.0, "tolerance": 1e-5, "gradient": False},
    ),
    reference=in_float64(_half),
    takes={"x": "... D"},
    options=_EPSILONS,
    types=(torch.float32,),
    half=True,
    # F.layer_norm is a right answer, and leaves a rounding times 1 / sqrt(eps) of a row of equal numbers
    sizes={"D": (7, 2, 17, 1100)},
    values=("ordinary", "offset", "small", "outlier", "large"),
    tried="float16, bfloat16 and float32, sigma from 0 to 600, large entries, four values of eps, gradients",
    wrong="""
    # part of the arithmetic is still in x's dtype, or rounded back to it before the root: there eps, or a small variance, becomes 0. | Convert x first, and back in the last step only.
    wide = x
    # or
    wide = x
    var = (wide - mean).square().mean(-1, keepdim=True)
    # or
    deviation = torch.sqrt(var.to(x.dtype) + eps)
    # or
    wide = x
    centered = x.float() - mean.float()
    deviation = torch.sqrt(var.float() + eps)
    # or
    wide = x
    deviation = torch.sqrt(var.float() + eps)

    # a larger eps stops the nan and changes the function: eps belongs to the weights. | Keep it, and compute in float32, where 1e-8 is not 0.
    wide = x
    deviation = torch.sqrt(var + 1e-5)

    # the arithmetic is right, but eps is replaced by 1e-5: it belongs to the weights. | Pass the argument eps on.
    deviation = torch.sqrt(var + 1e-5)
    # or
    deviation = torch.sqrt(var + max(eps, 1e-5))

    # nan_to_num hides the nan; rows of small or of large numbers are still wrong. | Compute in float32.
    wide = x
    return (centered / deviation).nan_to_num()

    # E[x^2] - E[x]^2 loses all digits when the mean is far larger than sigma (section 3.6). | Subtract the mean, then square.
    var = (wide * wide).mean(-1, keepdim=True) - mean * mean

    # x - mean is taken in half precision, where it may be inf. | Convert x first.
    wide = (x - x.mean(-1, keepdim=True)).to(torch.promote_types(x.dtype, torch.float32))

    # the mean is still rounded in x's dtype: around 50 bfloat16 moves in steps of 0.25. | Convert x first.
    centered = x - x.mean(-1, keepdim=True)
    # or
    mean = x.mean(-1, keepdim=True)

    # the result stays float32: convert back with .to(dtype) of what came in. | Behind x = x.float(), x.dtype is float32: give the wide row another name.
    return centered / deviation
    """,
)

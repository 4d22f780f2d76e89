"""Checks of lesson 13.

The two kernels run as plain Python on arrays that count every access: in which order rows are visited, how often a
number is read and written. A compiled kernel runs compiled as well, in float32 far from zero, where it must keep its
digits. Nothing is timed.
"""

import inspect

import numpy as np
import torch
from numba import float32
from torch.nn import functional as F

from lessonkit.check.declare import Probe, draw, exercise, in_float64, numbers, quiz, refusing

_ONE_EACH = "Each of the seven lines reads one tensor of x's size, the two means as well. Which one did you skip?"
_SMALL = "c * c reads c once, as both factors are the same number. And weight and bias are one row each: they do not count."
_FIVE = "Each line leaves its result in memory, and five are of x's size: c, squares, x_hat, scaled, y."
_TRIPS = "Which tensors of x's size are there? And does one make a second trip, if the row stays in the cache after the first loop?"
_ONCE = "mean, rstd and weight are small next to x, and a row is fetched once, however many loops use it."
_ALONE = "That is one of the two passes. Add up the words of both."
words_moved = quiz(
    tolerance=1e-9,
    read=(7, {6: _ONE_EACH, 8: _SMALL, 9: _SMALL, 12: "That is read and written together."}),
    written=(
        5,
        dict.fromkeys((1, 4), _FIVE)
        | {7: "Two of the lines write the means: one number a row."},
    ),
    forward=(
        2,
        dict.fromkeys((1, 3, 4), _TRIPS)
        | {
            12: "That is the seven lines again. A fused kernel does all of them while the row is in the cache."
        },
    ),
    backward=(
        3,
        {
            2: "dx depends on x as well as on dy. Both are read, dx is written.",
            4: _ONCE,
            5: _ONCE,
        },
    ),
    copies=(
        2.5,
        {
            5: "These are words. A copy moves two of them.",
            6: "That is the seven lines. Both passes of the fused kernel are asked for.",
            1: _ALONE,
            1.5: _ALONE,
        },
    ),
)


# ---- kernels, as plain Python
class _ByNumber(np.lib.mixins.NDArrayOperatorsMixin):
    """What is used one number at a time: anything done to all of it at once is refused."""

    _at_once = "a whole row at once. Take one number at a time: x[r, i]"

    def _refuse(self, *args, **kwargs):
        raise TypeError(self._at_once)

    __getattr__ = __array_ufunc__ = __array_function__ = __array__ = __float__ = _refuse


class _Row(_ByNumber):
    """One row of a _Watched matrix."""

    def __init__(self, matrix, r):
        self.matrix, self.r = matrix, r
        self.shape, self.dtype = matrix.shape[1:], matrix.dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, i):
        return self.matrix[self.r, i]

    def __setitem__(self, i, value):
        self.matrix[self.r, i] = value


class _Float32(np.lib.mixins.NDArrayOperatorsMixin):
    """A float32 number that becomes float64 next to a Python number, as in compiled code; NumPy would keep float32."""

    _numba_type_ = float32  # compiled helpers take it, as standardize does

    def __init__(self, value):
        self.value = np.float32(value)

    def __float__(self):
        return float(self.value)

    def __array_ufunc__(self, ufunc, method, *numbers, out=None):  # out comes from +=
        narrow = [isinstance(item, (_Float32, np.float32)) for item in numbers]
        result = ufunc(
            *((np.float64, np.float32)[f](n) for f, n in zip(narrow, numbers, strict=True))
        )
        return _Float32(result) if isinstance(result, np.float32) else result


class _Watched(_ByNumber):
    """A matrix of which single numbers are read and written; every access is counted, and the rows noted in trail."""

    def __init__(self, name, array, trail):
        self.name, self.array, self.trail = name, array, trail
        self.count = {access: np.zeros(array.shape, int) for access in ("read", "written")}
        self.shape, self.dtype = array.shape, array.dtype
        self._at_once = f"several numbers of {name} at once. Take one at a time: {name}[r, i]"

    def __len__(self):
        return len(self.array)

    def _place(self, at, access):
        single = isinstance(at, tuple) and [isinstance(k, (int, np.integer)) for k in at]
        if single != [True, True]:
            self._refuse()
        if not all(0 <= k < size for k, size in zip(at, self.shape, strict=True)):
            # compiled code would not look
            raise IndexError(
                f"{self.name}[{at[0]}, {at[1]}] lies outside its shape {self.shape}"
            )
        self.count[access][at] += 1
        if self.trail[-1:] != [at[0]]:
            self.trail.append(at[0])
        return at

    def __getitem__(self, at):
        if isinstance(at, (int, np.integer)) and 0 <= at < len(self):
            return _Row(self, at)
        number = self.array[self._place(at, "read")]
        return _Float32(number) if self.dtype == np.float32 else number

    def __setitem__(self, at, value):
        self.array[self._place(at, "written")] = value

    def times(self, access, most):
        """Say how often the number that is accessed most is read or written."""
        often = self.count[access].max() > most
        return "more often" if often else ("never", "once", "", "at most three times")[most]


def _plain(answer):
    """The Python function behind a compiled one."""
    return getattr(answer, "py_func", answer)


def _kernel_probe(label, given, part, watched, compiled=False, why=""):
    """Return a Probe: what a kernel writes, which inputs it changes and, as plain Python, how it gets there.

    given: {name: tensor or number}, in the order of the arguments; the last three are written into.
    part: start and stop. watched: the names of the matrices whose accesses are counted; the last is written.
    compiled: whether a compiled kernel runs compiled as well, after the plain one: that raises where compiled code
        would write outside an array.
    """
    tensors = [name for name, item in given.items() if isinstance(item, torch.Tensor)]
    outputs = tensors[-3:]

    def run(answer):
        seen = {}
        for function in (_plain(answer), answer) if compiled else (_plain(answer),):
            fresh = given | {name: given[name].clone() for name in tensors}
            arrays = fresh | {name: fresh[name].numpy() for name in tensors}
            trail, plain = [], function is _plain(answer)
            counted = {name: _Watched(name, arrays[name], trail) for name in watched if plain}
            function(*(arrays | counted).values(), *part)
            seen |= {f"{name} after the call": fresh[name] for name in tensors[:-3]}
            seen |= {name: fresh[name] for name in outputs}
            if "mean" in outputs and fresh["x"].dtype == torch.float32:  # its last digits count
                seen["mean - x[r, 0]"] = seen.pop("mean") - fresh["x"][:, 0]
            if plain:
                seen |= _accesses(trail, *counted.values())
        return seen

    shown = {name: given[name] for name in ("dy", "x", "eps") if name in given}
    # float32: x - near and rest are exact, what follows is rounded to 24 bits a few times
    tolerance = 1e-5 if given["x"].dtype == torch.float32 else 1e-9
    more = (
        {"why": _REORDERED, "seconds": 30.0} if compiled else {"why": why}
    )  # the first call compiles
    return Probe(label, run, shown, tolerance, **more)


def _accesses(trail, *counted):
    """Say in which order rows were visited, and how often numbers of x and of the matrix that is written."""
    x, out = counted[-2:]
    return {
        "the order of the rows": "one after the other"
        if len(trail) == len(set(trail))
        else "again and again",
        "each number of x is read": x.times("read", 3),
        f"each number of {out.name} is written": out.times("written", 1),
        f"each number of {out.name} is read": out.times("read", 0),
    }


def _threads(answer):
    """Observe whether a kernel asks for several threads."""
    asks = (
        getattr(answer, "targetoptions", {}).get("parallel")
        or "prange" in inspect.unwrap(_plain(answer)).__code__.co_names
    )
    return {"the rows run": "in several threads" if asks else "in one thread"}


_FAR = dict(dtype=torch.float32, mean=1e5)
_REORDERED = (
    "Compiled, the sums of a loop may be reordered, and x - near - rest becomes x - (near + rest), which rounds. "
    "standardize is compiled without that."
)
_IN_ONE_THREAD = Probe(
    "prange or parallel=True",
    _threads,
    why="Several threads add to one sum at once, and some of what they add is lost. start and stop share the rows among them.",
)


# ---- forward
def _forward(label, rows, D, part=None, eps=1e-5, seed=1300, compiled=False, why="", **of_x):
    x = draw(seed, rows, D, **of_x)
    weight, bias = (draw(seed + k, D, dtype=x.dtype) for k in (1, 2))
    before = torch.full((rows,), 99.0, dtype=torch.float64)
    given = dict(x=x, weight=weight, bias=bias, eps=eps)
    given |= dict(y=torch.full_like(x, 99.0), mean=before, rstd=before.to(x.dtype))
    return _kernel_probe(label, given, part or (0, rows), ("x", "y"), compiled, why)


def _forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    D, number = x.shape[1], x.dtype.type
    rows = range(start, stop)
    for r in rows:
        total = number(0)
        for i in range(D):
            total += x[r, i]
        near = number(total / D)
        sum_c = number(0)
        sum_cc = number(0)
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c / D)
        var = sum_cc / D - rest * rest
        mean[r] = np.float64(near) + rest
        scale = 1 / np.sqrt(var + eps)
        rstd[r] = scale
        for i in range(D):
            x_hat = (x[r, i] - near - rest) * scale
            y[r, i] = x_hat * weight[i] + bias[i]


forward_rows = exercise(
    _forward_rows,
    [
        _forward("three rows of 5", 3, 5, mean=2.0),
        _forward("rows 1 and 2 of four rows (start = 1, stop = 3)", 4, 3, part=(1, 3)),
        _forward("rows of spread 0.001, eps = 0", 2, 7, eps=0.0, scale=1e-3),
        _forward("a row of 1,000", 1, 1000, eps=0.5),
        _forward(
            "float32 rows around 10,000,000",
            3,
            17,
            seed=1318,
            dtype=torch.float32,
            mean=1e7,
            scale=4.0,  # whole numbers: c and its sums are exact, near is off by one or more
            why="In other rows rest is next to nothing, and here it counts: look at each line that uses it, or should. Far "
            "from zero float32 has no digits left for what your loops subtract, or for the mean that they keep.",
        ),
        _forward("three more rows of 5", 3, 5, seed=1324),
        _IN_ONE_THREAD,
    ],
    [_forward("float32 rows around 100,000, compiled", 100, 7, compiled=True, **_FAR)],
    tried="parts of the rows, up to 1,000 numbers a row, three eps, float32 far from zero, every access to x and y",
    wrong="""
    # the variance is divided by D - 1. LayerNorm divides by D.
    var = sum_cc / (D - 1) - rest * rest
    # or
    var = (sum_cc - D * rest * rest) / (D - 1)

    # eps is added to the deviation. | It belongs under the root, to the variance.
    scale = 1 / (np.sqrt(var) + eps)

    # eps is missing under the root. | Add it to the variance.
    scale = 1 / np.sqrt(var)

    # rstd is the deviation itself. | It is 1 over it.
    scale = np.sqrt(var + eps)

    # the root is missing: that is 1 over the variance. | Take the root of var + eps.
    scale = 1 / (var + eps)

    # rest * rest is not subtracted: the mean of c * c is the variance only where the mean of c is 0.
    var = sum_cc / D

    # the sum of c * c is not divided by D. | The variance is a mean.
    var = sum_cc - rest * rest

    # rest * rest is subtracted as it is, from sum_cc / D: rest is a mean already.
    var = (sum_cc - rest * rest) / D

    # rest is the sum of c. | It is the mean: divide it by D.
    rest = sum_c

    # that is the one-pass variance, mean(x * x) minus the squared mean, which loses all digits far from zero. | Add up c = x - near and its squares.
    c = x[r, i]
    rest = number(0)
    var = sum_cc / D - near * near

    # the third loop uses the c that the second loop left over, of the last feature. | Compute it anew for each i.
    x_hat = (c - rest) * scale
    # or
    x_hat = c * scale

    # rest is left out when y is written: x - near alone is off by what near lacks.
    x_hat = (x[r, i] - near) * scale

    # mean[r] holds only 24 bits: near alone, or near + rest rounded to float32. | Write np.float64(near) + rest.
    mean[r] = near
    # or
    mean[r] = near + rest

    # near + rest is added up first and then subtracted: that rounds the mean. | Subtract one after the other.
    x_hat = (x[r, i] - (near + rest)) * scale

    # mean[r] or rstd[r] is not written: it still holds the 99 that it held before the call.
    del mean[r]
    # or
    del rstd[r]
    # or
    del rstd[r]
    x_hat = (x[r, i] - near - rest) * rstd[r]

    # weight and bias are taken by the row. They have one number for each feature. | Their index is i.
    y[r, i] = x_hat * weight[r] + bias[r]

    # the gain or the bias is missing in y.
    y[r, i] = x_hat
    # or
    y[r, i] = x_hat * weight[i]
    # or
    y[r, i] = x_hat + bias[i]
    """,
)


# ---- backward
ROWS_A_BLOCK = (
    64  # as in the lesson; a compiled answer has to load where nothing of the lesson is built
)


def _backward(label, rows, D, part=None, before=0.0, compiled=False, **of_x):
    x = draw(1330, rows, D, **of_x)
    dy, weight = draw(1331, rows, D, dtype=x.dtype), draw(1332, D, dtype=x.dtype)
    mean, var = x.double().mean(1), x.double().var(1, correction=0)
    sums = torch.full((-(-rows // ROWS_A_BLOCK), D), before, dtype=x.dtype)
    given = dict(dy=dy, x=x, mean=mean, rstd=torch.rsqrt(var + 0.1).to(x.dtype), weight=weight)
    given |= dict(dx=torch.full_like(x, 99.0), dweight=sums, dbias=sums)
    return _kernel_probe(label, given, part or (0, rows), ("dy", "x", "dx"), compiled)


def _backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D, number = x.shape[1], x.dtype.type
    rows = range(start, stop)
    for r in rows:
        near, scale = number(mean[r]), rstd[r]
        rest = number(mean[r] - near)
        block = r // ROWS_A_BLOCK
        sum_h = number(0)
        sum_hx = number(0)
        for i in range(D):
            x_hat = (x[r, i] - near - rest) * scale
            h = dy[r, i] * weight[i]
            sum_h += h
            sum_hx += h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = sum_h / D, sum_hx / D
        for i in range(D):
            again = (x[r, i] - near - rest) * scale
            now = dy[r, i] * weight[i]
            dx[r, i] = scale * (now - mean_h - again * mean_hx)


backward_rows = exercise(
    _backward_rows,
    [
        _backward("three rows of 5", 3, 5, mean=1.0),
        _backward(
            "rows 4,070 to 4,140 of 4,200 (start = 4070, stop = 4141)",
            4200,
            3,
            (4070, 4141),
            2.0,
        ),
        _IN_ONE_THREAD,
    ],
    [_backward("float32 rows around 100,000, compiled", 3, 200, compiled=True, **_FAR)],
    tried="parts of the rows, several blocks, sums that are not zero, float32 far from zero, every access",
    wrong="""
    # blocks are counted from row 0, not from start: other threads have rows before start. | r // ROWS_A_BLOCK.
    block = (r - start) // ROWS_A_BLOCK

    # all rows add to block 0, and the other blocks receive nothing. | r // ROWS_A_BLOCK.
    block = 0

    # the gain is outside the means: it multiplies dx at the end. | It belongs into them: they are the means of h.
    gain, weight = weight, np.ones_like(weight)
    dx[r, i] = scale * gain[i] * (now - mean_h - again * mean_hx)

    # the gain is missing in dx. | Its bracket begins with h, not with dy.
    now = dy[r, i]

    # the gain is missing in a sum: both means are means of h. | Add h and h * x_hat.
    h = dy[r, i]
    # or
    sum_h += dy[r, i]
    # or
    sum_hx += dy[r, i] * x_hat

    # the mean of h is missing in dx.
    dx[r, i] = scale * (now - again * mean_hx)

    # the last term of dx is missing, x_hat times the mean of h * x_hat, or its x_hat.
    dx[r, i] = scale * (now - mean_h)
    # or
    dx[r, i] = scale * (now - mean_h - mean_hx)

    # a sign: both terms are subtracted in dx.
    dx[r, i] = scale * (now - mean_h + again * mean_hx)

    # the second loop uses the x_hat or the h that the first loop left over, of the last feature. | Compute it anew for each i.
    dx[r, i] = scale * (now - mean_h - x_hat * mean_hx)
    # or
    dx[r, i] = scale * (h - mean_h - again * mean_hx)
    # or
    dx[r, i] = scale * (h - mean_h - x_hat * mean_hx)

    # the sums, or one of them, are not divided by D: the formula has means.
    mean_h, mean_hx = sum_h, sum_hx
    # or
    mean_h, mean_hx = sum_h / D, sum_hx
    # or
    mean_h, mean_hx = sum_h, sum_hx / D

    # rstd is missing in front of dx, or stands before its first term only. | It multiplies the whole bracket.
    dx[r, i] = now - mean_h - again * mean_hx
    # or
    dx[r, i] = scale * now - mean_h - again * mean_hx

    # dx is added to what it held before the call. | Write it: dx[r, i] = ….
    dx[r, i] += scale * (now - mean_h - again * mean_hx)

    # dweight adds up h * x_hat. The gain is not in its own gradient. | It is the sum of dy * x_hat.
    dweight[block, i] += h * x_hat

    # dweight lacks x_hat. | It adds up dy * x_hat.
    dweight[block, i] += dy[r, i]

    # dbias adds up h. | It is the sum of dy.
    dbias[block, i] += h

    # dweight and dbias add up h in the place of dy. The gain is not in these two gradients. | They are the sums of dy * x_hat and of dy.
    dweight[block, i] += h * x_hat
    dbias[block, i] += h

    # the sums of a row overwrite those of the row before. | Add: +=.
    dweight[block, i] = dy[r, i] * x_hat
    dbias[block, i] = dy[r, i]

    # dweight and dbias have a row for each block of 64 rows, not for each row of x. | Write dweight[block, i].
    block = r

    # rest is left out, or lost in near + rest: x - near alone is off by what near lacks.
    rest = number(0)
    # or
    x_hat = (x[r, i] - (near + rest)) * scale
    """,
)


# ---- padded rows
def _mended_statistics(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    there = torch.arange(width) < D
    c = torch.where(there, row - mean, 0)
    var = (c * c).sum(-1, keepdim=True) / D
    return mean, var


mended_statistics = exercise(
    _mended_statistics,
    [
        ("rows of 5 around 3, width 8", draw(1360, 3, 5, mean=3.0), 8),
        ("a row with zeros in it, width 8", numbers([4, 0, 2, 0, 9, 3]), 8),
        (
            "a row with nan in it, width 8",
            numbers([1, torch.nan, 4], [1, 0, 4]),
            8,
            {"gradient": False},
        ),
        # the mean is rounded to a step of 6e-5, its square enters the variance below 1e-8; the rest is 24 bits
        (
            "float32 rows around 1000, width 8",
            draw(1363, 2, 5, mean=1e3).float(),
            8,
            {"tolerance": 1e-5, "gradient": False},
        ),
    ],
    [
        Probe(
            "a row with inf in it, width 8",
            lambda answer: {
                "a finite variance": bool(answer(numbers([1, torch.inf, 4]), 8)[1].isfinite())
            },
        )
    ],
    [
        Probe(
            "a width for which no memory is large enough",
            refusing(lambda answer: answer(draw(1364, 3, 5), 2**60)),
            why="The patient is a kernel that reads width numbers at once, of which D exist. Mend that, with width.",
        )
    ],
    takes={"x": "... D"},
    returns=("mean", "var"),
    use=lambda answer, sizes, padding: lambda x: answer(x, sizes["D"] + padding),
    options=({"padding": 3}, {"padding": 0}, {"padding": 300}),
    reference=in_float64(_mended_statistics),
    tried="offsets, zeros and nan in a row, several widths, one to five axes, float32 far from zero, gradients",
    wrong="""
    # that is the patient: the numbers beyond the end still add their squared distance to the mean.
    c = row - mean

    # the variance is divided by the width. | Only D numbers exist.
    var = (c * c).mean(-1, keepdim=True)

    # the mean is divided by the width. | Only D numbers exist.
    mean = row.mean(-1, keepdim=True)

    # your condition looks at the value: a real 0 in the row is thrown out as well. | Ask for the position.
    there = row != 0

    # the condition is off by one. | Positions 0 to D - 1 exist.
    there = torch.arange(width) <= D
    # or
    there = torch.arange(width) < D - 1

    # nan in a row is skipped. It is a number of the row like every other, and must show. | Add up with sum, not nansum or nanmean.
    row = F.pad(x, (0, width - D), value=torch.nan)
    mean = row.nanmean(-1, keepdim=True)
    c = row - mean
    var = (c * c).nanmean(-1, keepdim=True)

    # what the padding adds is subtracted again. That is right on paper, and far from zero float32 has no digits left for it. | Let the padding add nothing: set c to 0 there.
    var = ((c * c).sum(-1, keepdim=True) - (width - D) * mean * mean) / D

    # E[x^2] - E[x]^2 is right on paper. Far from zero, float32 has no digits left for the difference. | Subtract the mean first, then square.
    var = (row * row).sum(-1, keepdim=True) / D - mean * mean
    """,
)

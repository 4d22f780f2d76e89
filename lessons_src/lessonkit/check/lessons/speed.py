"""Checks of lesson 13: words moved, the loops of a fused forward and backward pass, a padded variance.

The two kernels run as plain Python on arrays that note every access, so that a check sees not only what is computed
but how: in which order rows are visited, how often a number is read and written. A kernel that was compiled runs
compiled as well, in float32 far from zero, where it must keep its digits. Nothing is timed.
"""

import inspect

import numpy as np
import torch
from torch.nn import functional as F

from lessonkit.check.core import Probe, call, draw, examine, in_float64, known, reject, values


def words_moved(answer):
    """Check the words that a fused and a line-by-line LayerNorm move for each entry (lesson 13)."""
    once = "in a fused kernel the row is in the cache after the first loop: x comes from memory once."
    no_words = "the two means write one number for each row, which does not count."
    both = "dx depends on x as well as on dy. Both are read, dx is written."
    forward_too = "that is forward and backward together. Backward alone reads dy and x, and writes dx."
    only = "mean and rstd are one number a row, weight is one row: they do not count. What else of x's size is needed?"
    one_each = "each of the seven lines reads one tensor of x's size, the two means as well. Which one did you skip?"
    small = "c * c reads c once, as both factors are the same number. And weight and bias are one row each: they do not count."
    five = "each line leaves its result in memory, and five are of x's size: c, squares, x_hat, scaled, y."
    whys = {
        "fused forward": {1: "x must be read and y must be written: two trips, one word each.", 3: once, 4: once},
        "fused backward": {2: both, 4: only, 5: forward_too},
        "seven lines, read": {5: one_each, 6: one_each, 8: small, 9: small, 12: "that is read and written together."},
        "seven lines, written": {7: no_words, 6: no_words, 4: five, 1: five},
    }
    expected = {"fused forward": 2, "fused backward": 3, "seven lines, read": 7, "seven lines, written": 5}
    values(answer, "words_moved", expected, [(key, wrong, why) for key in whys for wrong, why in whys[key].items()])


class _ByNumber:
    """What is used one number at a time: anything done to all of it at once is refused."""

    _at_once = "a whole row at once. Take one number at a time: x[r, i]"

    def _refuse(self, *args, **kwargs):
        raise TypeError(self._at_once)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __neg__ = __matmul__ = __float__ = __array__ = _refuse
    __array_ufunc__ = None

    def __getattr__(self, name):
        self._refuse()


class _Row(_ByNumber):
    """One row of a _Watched matrix."""

    def __init__(self, matrix, r):
        self.matrix, self.r = matrix, r
        self.shape, self.dtype, self.size, self.ndim = matrix.shape[1:], matrix.dtype, matrix.shape[1], 1

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return self.matrix[self.r, i]

    def __setitem__(self, i, value):
        self.matrix[self.r, i] = value


class _Watched(_ByNumber):
    """A matrix of which single numbers are read and written; every access is noted in log."""

    def __init__(self, name, array, log):
        self.name, self.array, self.log = name, array, log
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size
        self._at_once = f"several numbers of {name} at once. Take one at a time: {name}[r, i]"

    def __len__(self):
        return len(self.array)

    def _place(self, at):
        if not (isinstance(at, tuple) and len(at) == 2 and all(isinstance(k, (int, np.integer)) for k in at)):
            self._refuse()
        r, i = at
        if not (0 <= r < self.shape[0] and 0 <= i < self.shape[1]):  # compiled code would not look
            raise IndexError(f"{self.name}[{r}, {i}] lies outside its shape {self.shape}")
        return int(r), int(i)

    def __getitem__(self, at):
        if isinstance(at, (int, np.integer)) and 0 <= at < len(self):
            return _Row(self, at)
        place = self._place(at)
        self.log.append((self.name, "read", *place))
        return self.array[place]

    def __setitem__(self, at, value):
        place = self._place(at)
        self.log.append((self.name, "written", *place))
        self.array[place] = value


def _most(log, name, kind):
    """How often the number of a matrix that is accessed most is accessed."""
    places = [entry[2:] for entry in log if entry[:2] == (name, kind)]
    return max((places.count(place) for place in set(places)), default=0)


def _one_trip(log, names):
    """Whether no row of these matrices is visited again once another row was."""
    visited = [entry[2] for entry in log if entry[0] in names]
    changes = [r for k, r in enumerate(visited) if k == 0 or visited[k - 1] != r]
    return "one after the other" if len(changes) == len(set(changes)) else "again and again"


def _times(count, most):
    return ("never", "once", "", "at most three times")[most] if count <= most else "more often"


def _plain(answer):
    """The Python function behind a compiled one."""
    return getattr(answer, "py_func", answer)


def _tensor(array):
    return torch.from_numpy(np.array(array))


def _look(answer, name, example):
    """Refuse what is no function with as many parameters as example has; return the plain function."""
    plain = _plain(answer)
    if not inspect.isfunction(plain):
        return answer  # examine says what is wrong
    try:
        inspect.signature(plain).bind(*range(len(inspect.signature(example).parameters)))
    except TypeError:
        reject(f"{name} must take ({', '.join(inspect.signature(example).parameters)}), in this order.")
    return plain


def _compiled_probe(answer, make):
    """Probes of a compiled answer: rows around 100,000 in float32. make(function) -> {what: value}."""
    if answer is _plain(answer):
        return []
    # plain first: it raises where compiled code would write outside an array. Only a few last roundings are inexact.
    run = lambda function: (make(function), make(answer if function is _plain(answer) else function))[1]  # noqa: E731
    return [Probe("float32 rows around 100,000, compiled", run, {}, tolerance=1e-5)]


def _reordered(x, value, near, rest):
    """What a compiler that may reorder sums makes of value - near - rest; watched arrays are never compiled."""
    return value - (near + rest) if isinstance(x, np.ndarray) else value - near - rest


_REORDERED = {
    "x[r, i] - near - rest -> _reordered(x, x[r, i], near, rest)": "compiled, the sums of this loop may be reordered, and x - near - rest becomes x - (near + rest), which rounds. standardize(x[r, i], near, rest, ...) is compiled without that: call it."
}


def _forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    D, number = x.shape[1], x.dtype.type
    for r in range(start, stop):
        total = number(0)
        for i in range(D):
            total += x[r, i]
        near, sum_c, sum_cc = number(total / D), number(0), number(0)
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c / D)
        mean[r] = np.float64(near) + rest
        rstd[r] = 1 / np.sqrt(sum_cc / D - rest * rest + eps)
        for i in range(D):
            y[r, i] = (x[r, i] - near - rest) * rstd[r] * weight[i] + bias[i]


def _means(mean, x, start, stop, drawn):
    """What was written into mean, less the mean that x was drawn with if it is float32: its last digits count.

    Python rounds near + rest to float32 where Numba does not, so a rounded right mean passes here; the compiled tells.
    """
    exact = x.mean(1, dtype=np.float64)
    rounded = [type(m) is np.float32 and m == np.float32(e) for m, e in zip(mean, exact, strict=True)]
    written = np.where(rounded, exact, mean.astype(np.float64))[start:stop]
    return _tensor(written - (drawn["mean"] if x.dtype == np.float32 else 0))


def _forward_probe(
    label, seed, rows, D, part=None, eps=1e-5, outlier=None, dtype=torch.float64, tolerance=1e-9, **more
):
    start, stop = part or (0, rows)
    x = draw(seed, rows, D, dtype=dtype, **more)
    if outlier:
        x[0, D // 2] = outlier
    weight, bias = (draw(seed + k, D, dtype=dtype) for k in (1, 2))

    def run(answer):
        log, given = [], x.numpy().copy()
        y = np.full((rows, D), 99.0, given.dtype)
        mean, rstd = np.full(rows, 99.0, object), np.full(rows, 99.0, given.dtype)
        watched = _Watched("x", given, log), _Watched("y", y, log)
        answer(watched[0], weight.numpy().copy(), bias.numpy().copy(), eps, watched[1], mean, rstd, start, stop)
        return {
            "x after the call": _tensor(given),
            "y": _tensor(y[start:stop]),
            "rstd": _tensor(rstd[start:stop]),
            "mean" if dtype == torch.float64 else f"mean - {more['mean']:,.0f}": _means(mean, given, start, stop, more),
            "the rows of y before start and from stop on": _tensor(np.concatenate([y[:start], y[stop:]])),
            "the order of the rows": _one_trip(log, ("x", "y")),
            "each number of x is read": _times(_most(log, "x", "read"), 3),
            "each number of y is written": _times(_most(log, "y", "written"), 1),
            "each number of y is read": _times(_most(log, "y", "read"), 0),
        }

    return Probe(label, run, {"x": x[start:stop], "eps": eps}, tolerance)


_FLOAT32 = dict(dtype=torch.float32, tolerance=1e-5)
_FORWARD_PROBES = [
    _forward_probe("three rows of 5", 1300, 3, 5, mean=2.0),
    _forward_probe("rows 1 and 2 of four rows (start = 1, stop = 3)", 1303, 4, 3, part=(1, 3)),
    _forward_probe("rows of spread 0.001", 1306, 2, 6, scale=1e-3),
    _forward_probe("eps = 0.5", 1309, 2, 4, eps=0.5),
    # x - near and rest are exact here, what follows is rounded to 24 bits a few times
    _forward_probe("float32 rows around 100,000", 1312, 3, 7, mean=1e5, **_FLOAT32),
    # whole numbers: c and its sums are exact, and near is off by about 1, so that rest * rest counts
    _forward_probe("float32 rows around 10,000,000", 1318, 3, 7, mean=1e7, scale=4.0, **_FLOAT32),
    _forward_probe("a row of 64 numbers, one of them 30", 1321, 1, 64, outlier=30),
    _forward_probe("three more rows of 5", 1324, 3, 5),
]

_SUM = "total = number(0)\n        for i in range(D):\n            total += x[r, i]"
_Y = "(x[r, i] - near - rest) * rstd[r] * weight[i] + bias[i]"
_UNBIASED = "the variance is divided by D - 1. LayerNorm divides by D."
_HOLDS_99 = "it still holds the 99 that it held before the call."
_ROUNDED = "mean[r] holds only 24 bits: near alone, or near + rest rounded to float32. Write np.float64(near) + rest."

_FORWARD = known(
    _forward_rows,
    {
        "sum_cc / D - rest * rest -> sum_cc / (D - 1) - rest * rest": _UNBIASED,
        "sum_cc / D - rest * rest -> (sum_cc - D * rest * rest) / (D - 1)": _UNBIASED,
        "np.sqrt(sum_cc / D - rest * rest + eps) -> (np.sqrt(sum_cc / D - rest * rest) + eps)": "eps is added to the deviation. It belongs under the root, to the variance.",
        " + eps -> ": "eps is missing under the root.",
        "+ eps -> + 1e-5": "1e-5 is written into the loop. Use the argument eps.",
        " + eps) -> ) + eps": "eps is added to 1 over the deviation. It belongs under the root, to the variance.",
        " - rest * rest -> ": "rest * rest is not subtracted: the mean of c * c is the variance only where the mean of c is 0.",
        "- rest * rest -> + rest * rest": "rest * rest is added. The variance is the mean of c * c minus rest * rest.",
        "- rest * rest -> - rest": "rest itself is subtracted from the mean of c * c. It should be rest * rest.",
        "number(sum_c / D) -> sum_c": "rest is the sum of c. It is the mean: divide it by D.",
        "sum_cc / D -> sum_cc": "the sum of c * c is not divided by D.",
        "range(start, stop) -> range(0)": "nothing is written: y, mean and rstd still hold the 99 that they held before the call.",
        **{f"{what} = -> here =": f"{what} is not written: {_HOLDS_99}" for what in ("y[r, i]", "mean[r]", "rstd[r]")},
        "rstd[r] -> here": f"rstd[r] is not written: {_HOLDS_99}",
        "1 / np.sqrt -> np.sqrt": "rstd is the deviation itself. It is 1 over it.",
        "np.sqrt -> ": "the root is missing: that is 1 over the variance.",
        "c = x[r, i] - near -> c = x[r, i] ; rest = number(sum_c / D) -> rest = number(0) ; - rest * rest -> - near * near": "that is the one-pass variance, mean(x * x) minus the squared mean, which loses all digits far from zero. Add up c = x - near and its squares.",
        "c * c -> abs(c)": "what is added up is |c|. The variance takes the squares.",
        "near - rest) -> near)": "rest is left out when y is written: x - near alone is off by what near lacks.",
        "near - rest) -> near) ; np.float64(near) + rest -> near": "rest is left out when y is written, and in the mean: x - near alone is off by what near lacks.",
        "np.float64(near) + rest -> near": _ROUNDED,
        "np.float64(near) + rest -> np.float64(near)": "rest is left out in the mean: it is near + rest.",
        "np.float64(near) + rest -> np.float64(near) - rest": "rest is subtracted in the mean: it is near + rest.",
        "near - rest) -> near + rest)": "rest is added instead of subtracted: the mean is near + rest.",
        "near - rest) -> (near + rest))": "near + rest is added up first and then subtracted: that rounds the mean. Subtract one after the other.",
        "(x[r, i] - near - rest) -> x[r, i]": "x is not centered in the last loop.",
        "np.float64(near) + rest -> rest": "mean[r] holds rest only: the mean is near + rest.",
        " * weight[i] -> ": "weight is missing in y.",
        " + bias[i] -> ": "bias is missing in y.",
        " * weight[i] + bias[i] -> ": "weight and bias are missing in y.",
        f"{_Y} -> ((x[r, i] - near - rest) * rstd[r] + bias[i]) * weight[i]": "the bias is multiplied by the weight: first times weight, then plus bias.",
        "range(start, stop) -> range(len(x))": "the rows run from 0 to the end. Use range(start, stop).",
        "range(start, stop) -> range(start, stop - 1)": "the last row is left out: range(start, stop) ends before stop by itself.",
        # right numbers, in a loop more over all rows, and with y as a scratch pad
        f"for r in range(start, stop):\n        {_SUM} -> sums = [sum(x[r, i] for i in range(D)) for r in range(start, stop)]\n    for r in range(start, stop):\n        total = sums[r - start]": "each row should be finished while it is in the cache: all loops over i belong inside the loop over r.",
        "c = x[r, i] - near -> c = y[r, i] = x[r, i] - near ; (x[r, i] - near - rest) -> (y[r, i] - rest)": "y serves as a scratch pad, so it is written and read more than it must. Keep single numbers in names, and compute x - near anew.",
    },
)

# plain Python rounds near + rest itself, so only what is compiled shows it
_FORWARD_COMPILED = known(_forward_rows, _REORDERED | {"np.float64(near) + rest -> near + rest": _ROUNDED})


def forward_rows(answer):
    """Check the loops of a fused forward pass, plain or compiled (lesson 13)."""

    def make(function):
        x = draw(1315, 3, 7, mean=1e5, dtype=torch.float32).numpy()
        weight, bias = (draw(seed, 7, dtype=torch.float32).numpy() for seed in (1316, 1317))
        y, mean, rstd = np.empty_like(x), np.empty(3), np.empty(3, np.float32)
        function(x, weight, bias, 1e-5, y, mean, rstd, 0, 3)
        return {"mean - 100,000": _tensor(mean - 1e5), "rstd": _tensor(rstd), "y": _tensor(y)}

    plain, compiled = _look(answer, "forward_rows", _forward_rows), _compiled_probe(answer, make)
    mistakes = _FORWARD + _FORWARD_COMPILED * len(compiled)
    tried = "parts of the rows, small spread, two eps, an outlier, float32 far from zero, every access to x and y"
    examine(plain, "forward_rows", _FORWARD_PROBES + compiled, _forward_rows, mistakes, tried)


ROWS_A_BLOCK = 64  # as in the lesson


def _backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D, number = x.shape[1], x.dtype.type
    for r in range(start, stop):
        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK
        rest = number(mean[r] - near)
        sum_h, sum_hx = number(0), number(0)
        for i in range(D):
            x_hat = (x[r, i] - near - rest) * scale
            h = dy[r, i] * weight[i]
            sum_h += h
            sum_hx += h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = sum_h / D, sum_hx / D
        for i in range(D):
            dx[r, i] = scale * (dy[r, i] * weight[i] - mean_h - (x[r, i] - near - rest) * scale * mean_hx)


def _given(seed, rows, D, dtype=torch.float64, outlier=None, **more):
    """Arrays dy, x, mean, rstd, weight."""
    x = draw(seed, rows, D, dtype=dtype, **more)
    if outlier:
        x[0, D // 2] = outlier
    mean, rstd = x.double().mean(1), torch.rsqrt(x.double().var(1, correction=0) + 0.1).to(dtype)
    dy, weight = draw(seed + 1, rows, D, dtype=dtype), draw(seed + 2, D, dtype=dtype)
    return [t.numpy().copy() for t in (dy, x, mean, rstd, weight)]


def _backward_probe(label, seed, rows, D, part=None, before=0.0, tolerance=1e-9, **more):
    start, stop = part or (0, rows)
    blocks = -(-rows // ROWS_A_BLOCK)

    def run(answer):
        log, (dy, x, mean, rstd, weight) = [], _given(seed, rows, D, **more)
        dx = np.full((rows, D), 99.0, x.dtype)
        dweight, dbias = (np.full((blocks, D), before, x.dtype) for _ in range(2))
        watched = [_Watched(name, t, log) for name, t in (("dy", dy), ("x", x), ("dx", dx))]
        answer(watched[0], watched[1], mean, rstd, weight, watched[2], dweight, dbias, start, stop)
        return {
            "x after the call": _tensor(x),
            "dy after the call": _tensor(dy),
            "dweight": _tensor(dweight),
            "dbias": _tensor(dbias),
            "dx": _tensor(dx[start:stop]),
            "the rows of dx before start and from stop on": _tensor(np.concatenate([dx[:start], dx[stop:]])),
            "the order of the rows": _one_trip(log, ("dy", "x", "dx")),
            "each number of x is read": _times(_most(log, "x", "read"), 3),
            "each number of dx is written": _times(_most(log, "dx", "written"), 1),
            "each number of dx is read": _times(_most(log, "dx", "read"), 0),
        }

    dy, x, *_ = _given(seed, rows, D, **more)
    return Probe(label, run, {"dy": _tensor(dy[start:stop]), "x": _tensor(x[start:stop])}, tolerance)


_BACKWARD_PROBES = [
    _backward_probe("three rows of 5", 1330, 3, 5, mean=1.0),
    _backward_probe("rows 1 and 2 of four rows (start = 1, stop = 3)", 1334, 4, 3, part=(1, 3)),
    _backward_probe("two blocks: rows 62 to 66 of 67", 1338, 67, 3, part=(62, 67)),
    _backward_probe("sums that are 2 already", 1342, 2, 4, before=2.0),
    # a few products and sums of numbers of order 1, rounded to 24 bits
    _backward_probe("float32 rows around 100,000", 1346, 3, 7, mean=1e5, **_FLOAT32),
    _backward_probe("a row of 64 numbers, one of them 30", 1353, 1, 64, outlier=30),
    _backward_probe("three more rows of 5", 1356, 3, 5),
]

_X_HAT = "(x[r, i] - near - rest) * scale"
_ONE_SUM = "only one of the two sums is divided by D."
_BRACKET = "scale * (dy[r, i] * weight[i]"
_ADDED = "            dweight[block, i] += dy[r, i] * x_hat\n            dbias[block, i] += dy[r, i]\n"
_ROWS = "    for r in range(start, stop):\n"
_OWN_LOOPS = f"{_ROWS}        for i in range(D):\n            x_hat = (x[r, i] - mean[r]) * rstd[r]\n"
_LEFT_OVER = "the second loop uses the x_hat or the h that the first loop left over, of the last feature. Compute it anew for each i."

_BACKWARD = known(
    _backward_rows,
    {
        "dy[r, i] * weight[i] -> dy[r, i]": "the gain is missing in h: h is dy times weight.",
        f"h = dy[r, i] * weight[i] -> h = dy[r, i] ; {_BRACKET} -> scale * weight[i] * (dy[r, i]": "the gain is outside the means: it multiplies dx at the end. It belongs into them: h = dy * weight, and the means are those of h.",
        " - mean_h - -> -": "the mean of h is missing in dx.",
        f" - {_X_HAT} * mean_hx -> ": "the last term of dx is missing, x_hat times the mean of h * x_hat.",
        f"{_X_HAT} * mean_hx -> mean_hx": "the last term of dx lacks its x_hat.",
        "- mean_h - -> - mean_h +": "both terms are subtracted in dx: h - mean_h - x_hat * mean_hx.",
        f"{_X_HAT} * mean_hx -> x_hat * mean_hx": _LEFT_OVER,
        f"{_BRACKET} -> scale * (h": _LEFT_OVER,
        f"{_BRACKET} -> scale * (h ; {_X_HAT} * mean_hx -> x_hat * mean_hx": _LEFT_OVER,
        f"{_BRACKET} -> scale * (dy[r, i]": "the gain is missing in dx: its bracket begins with h = dy * weight, not with dy.",
        "sum_hx += h -> sum_hx += dy[r, i]": "the gain is missing in sum_hx, which adds up h * x_hat.",
        "sum_h += h -> sum_h += dy[r, i]": "the gain is missing in sum_h, which adds up h = dy * weight.",
        "dx[r, i] = -> value =": "dx is not written: it still holds the 99 that it held before the call.",
        "dweight[block, i] += -> value =": "nothing is added to dweight. Each row adds dy * x_hat.",
        "dbias[block, i] += -> value =": "nothing is added to dbias. Each row adds dy.",
        "= scale * ( -> = scale * scale * (": "rstd multiplies dx twice.",
        "sum_h / D, sum_hx / D -> sum_h, sum_hx": "the sums are not divided by D: the formula has means.",
        "sum_h / D, sum_hx / D -> sum_h / D, sum_hx": _ONE_SUM,
        "sum_h / D, sum_hx / D -> sum_h, sum_hx / D": _ONE_SUM,
        "= scale * ( -> = (": "rstd is missing in front of dx.",
        f"{_BRACKET} -> (scale * dy[r, i] * weight[i]": "rstd multiplies the first term only. It belongs before the whole bracket.",
        "+= dy[r, i] * x_hat -> += h * x_hat": "dweight adds up h * x_hat. The gain is not in its own gradient: dy * x_hat.",
        "+= dy[r, i] * x_hat -> += dy[r, i]": "dweight lacks x_hat: it adds up dy * x_hat.",
        "dbias[block, i] += dy[r, i] -> dbias[block, i] += h": "dbias adds up h. It is the sum of dy.",
        "dweight[ -> swap[ ; dbias[ -> dweight[ ; swap[ -> dbias[": "dweight and dbias are swapped.",
        "[block, i] += -> [block, i] =": "the sums of a row overwrite those of the row before. Add: dweight[block, i] += …",
        "r // ROWS_A_BLOCK -> 0": "all rows add to block 0. Row r belongs to block r // ROWS_A_BLOCK.",
        "(x[r, i] - near - rest) -> x[r, i]": "x is not centered: x_hat is (x - mean) * rstd.",
        "rest) * scale -> rest)": "x_hat lacks rstd.",
        "rest) * scale -> rest) / scale": "x_hat is divided by rstd. rstd is 1 over the deviation already: multiply.",
        " - near - rest) -> - near)": "rest is left out: x - near alone is off by what near lacks.",
        "range(start, stop) -> range(len(x))": "the rows run from 0 to the end. Use range(start, stop).",
        f"{_ADDED} ->  ; {_ROWS} -> {_OWN_LOOPS}{_ADDED.replace('block', 'r // ROWS_A_BLOCK')}{_ROWS}": "the sums over rows have loops of their own, so that x and dy come from memory a second time. Put them into the first loop over i.",
    },
)

_BACKWARD_COMPILED = known(_backward_rows, _REORDERED)


def backward_rows(answer):
    """Check the loops of a fused backward pass, plain or compiled (lesson 13)."""

    def make(function):
        given = _given(1350, 3, 7, torch.float32, mean=1e5)
        dx, dweight, dbias = np.empty_like(given[0]), *np.zeros((2, 1, 7), np.float32)
        function(*given, dx, dweight, dbias, 0, 3)
        return {"dweight": _tensor(dweight), "dbias": _tensor(dbias), "dx": _tensor(dx)}

    plain, compiled = _look(answer, "backward_rows", _backward_rows), _compiled_probe(answer, make)
    mistakes = _BACKWARD + _BACKWARD_COMPILED * len(compiled)
    tried = "parts of the rows, two blocks, sums that are not zero, an outlier, float32 far from zero, every access"
    examine(plain, "backward_rows", _BACKWARD_PROBES + compiled, _backward_rows, mistakes, tried)


def _mended_statistics(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    c = torch.where(torch.arange(width) < D, row - mean, 0)
    return mean, (c * c).sum(-1, keepdim=True) / D


def _padded(label, x, width, **more):
    return call(label, x, width, names=("x", "width"), returns=("mean", "var"), **more)


_PADDED_PROBES = [
    _padded("rows of 5 around 3, width 8", draw(1360, 3, 5, mean=3.0), 8),
    _padded("rows of 7 around -2, width 16", draw(1361, 2, 3, 7, mean=-2.0), 16),
    _padded("a row with zeros in it, width 8", torch.tensor([[4.0, 0, 2, 0, 9, 3]], dtype=torch.float64), 8),
    _padded("as wide as the row", draw(1362, 2, 4, mean=1.0), 4),
    # the mean is rounded to a step of 6e-5, its square enters the variance below 1e-8; the rest is 24 bits
    _padded("float32 rows around 1000, width 8", draw(1363, 2, 5, mean=1e3).float(), 8, tolerance=1e-5, gradient=False),
]

_MASKED = "torch.where(torch.arange(width) < D, row - mean, 0)"
_PATIENT = f"{_MASKED} -> row - mean"
_VAR = "(c * c).sum(-1, keepdim=True) / D"
_OFF_BY_ONE = "the condition is off by one: positions 0 to D - 1 exist."
_ON_PAPER = "right on paper. But in float32, far from zero, a large number is added and subtracted again, and the digits are gone. Keep it out of the sum instead."

_PADDED = known(
    _mended_statistics,
    {
        f"mean, {_VAR} -> {_VAR}, mean": "mean and variance are swapped: return mean, var.",
        f"{_VAR} -> ({_VAR}).sqrt()": "that is the deviation. The variance is its square.",
        _PATIENT: "that is the patient: the numbers beyond the end still add their squared distance to the mean.",
        f"{_PATIENT} ; / D -> / width": "the sums are divided by the width. Only D numbers exist.",
        f"{_PATIENT} ; {_VAR} -> (c * c).mean(-1, keepdim=True)": "the mean is right, the variance is divided by the width and still holds the numbers beyond the end.",
        f"{_VAR} -> (c * c).mean(-1, keepdim=True)": "the variance is divided by the width. Only D numbers exist.",
        f"{_VAR} -> (c * c).sum(-1, keepdim=True) / (D - 1)": "the variance is divided by D - 1. LayerNorm divides by D.",
        "row.sum(-1, keepdim=True) / D -> row.mean(-1, keepdim=True)": "the mean is divided by the width. Only D numbers exist.",
        "torch.arange(width) < D -> row != 0": "your condition looks at the value: a real 0 in the row is thrown out as well. Ask for the position, torch.arange(width, device=x.device) < D.",
        "< D -> <= D": _OFF_BY_ONE,
        "< D -> < D - 1": _OFF_BY_ONE,
        "< D -> >= D": "the condition is turned round: it keeps what lies beyond the end.",
        f"{_PATIENT} ; {_VAR} -> {_VAR} - (width - D) / D * mean * mean": _ON_PAPER,
        f"{_PATIENT} ; {_VAR} -> {_VAR} - (width - D) / D * mean**2": _ON_PAPER,
        f"{_PATIENT} ; {_VAR} -> {_VAR} - (width - D) * mean**2 / D": _ON_PAPER,
        f"{_PATIENT} ; {_VAR} -> ((c * c).sum(-1, keepdim=True) - (width - D) * mean**2) / D": _ON_PAPER,
        f"row.sum(-1, keepdim=True) / D -> x.mean(-1, keepdim=True) ; {_VAR} -> (x * x).mean(-1, keepdim=True) - mean**2": "that is the one-pass variance, mean(x * x) - mean**2, where zeros do no harm; but far from zero its digits are gone (lesson 3).",
    },
)


def mended_statistics(answer):
    """Check a function x (..., D), width -> (mean, var), both (..., 1), that reads rows with a padded width (lesson 13)."""
    tried = "offsets, zeros in a row, a full width, float32 far from zero, gradients"
    examine(answer, "mended_statistics", _PADDED_PROBES, in_float64(_mended_statistics), _PADDED, tried)

"""Checks of lesson 13: words moved, the loops of a fused forward and backward pass, a sum of ones, a padded variance.

The two kernels run as plain Python on arrays that note every access, so that a check sees not only what is computed
but how: in which order rows are visited, how often a number is read and written. A kernel that was compiled runs
compiled as well, in float32 far from zero, where it must keep its digits. Nothing is timed.
"""

import inspect

import numpy as np
import torch
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, call, choice, draw, examine, in_float64, reject, values

# ------------------------------------------------------------------------------------------------ words_moved


def words_moved(answer):
    """Check the words that a fused and a line-by-line LayerNorm move for each entry (lesson 13)."""
    expected = {"fused forward": 2, "fused backward": 3, "seven lines, read": 7, "seven lines, written": 5}
    causes = [
        ("fused forward", 1, "x must be read and y must be written: two trips, one word each."),
        (
            "fused forward",
            3,
            "in a fused kernel the row is in the cache after the first loop: x comes from memory once.",
        ),
        (
            "fused forward",
            4,
            "in a fused kernel the row is in the cache after the first loop: x comes from memory once.",
        ),
        ("fused backward", 2, "dx depends on x as well as on dy. Both are read, dx is written."),
        (
            "fused backward",
            4,
            "mean and rstd are one number a row, weight is one row: they do not count. What else of x's size is needed?",
        ),
        ("fused backward", 5, "that is forward and backward together. Backward alone reads dy and x, and writes dx."),
        (
            "seven lines, read",
            5,
            "the two means read a whole tensor as well, though they write only a number for each row.",
        ),
        ("seven lines, read", 6, "each of the seven lines reads one tensor of x's size. Which one did you skip?"),
        (
            "seven lines, read",
            8,
            "c * c reads c once: both factors are the same number. And weight and bias do not count.",
        ),
        ("seven lines, read", 9, "weight and bias are one row each: they stay in the cache and do not count."),
        ("seven lines, read", 12, "that is read and written together. Of reads there is one for each line."),
        ("seven lines, written", 7, "the two means write one number for each row, which does not count."),
        ("seven lines, written", 6, "the two means write one number for each row, which does not count."),
        ("seven lines, written", 4, "five tensors of x's size are made: c, squares, x_hat, scaled, y."),
        (
            "seven lines, written",
            1,
            "only y is wanted, but each line leaves its result in memory: c, squares, x_hat, scaled, y.",
        ),
    ]
    values(answer, "words_moved", expected, causes)


# ------------------------------------------------------------------------------------------- arrays that take notes


class _Row:
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

    def __getattr__(self, name):
        raise TypeError("a whole row at once. Take one number at a time: x[r, i]")

    __array_ufunc__ = None

    def __array__(self, *args, **kwargs):
        raise TypeError("a whole row at once. Take one number at a time: x[r, i]")


class _Watched:
    """A matrix of which single numbers are read and written; every access is noted in log."""

    def __init__(self, name, array, log):
        self.name, self.array, self.log = name, array, log
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size

    def __len__(self):
        return len(self.array)

    def _place(self, at):
        if isinstance(at, tuple) and len(at) == 2 and all(isinstance(k, (int, np.integer)) for k in at):
            r, i = at
            if not (0 <= r < self.shape[0] and 0 <= i < self.shape[1]):  # compiled code would not look
                raise IndexError(f"{self.name}[{r}, {i}] lies outside its shape {self.shape}")
            return int(r), int(i)
        raise TypeError(f"several numbers of {self.name} at once. Take one at a time: {self.name}[r, i]")

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


def _row_by_row(log, names):
    """Whether no row of these matrices is visited again once another row was."""
    visited = [entry[2] for entry in log if entry[0] in names]
    changes = [r for k, r in enumerate(visited) if k == 0 or visited[k - 1] != r]
    return len(changes) == len(set(changes))


def _one_trip(log, names):
    return "one after the other" if _row_by_row(log, names) else "again and again"


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


# ------------------------------------------------------------------------------------------------ forward_rows


def _forward(
    one_pass=False, squares=None, var=None, correction=0, rstd=None, write=None, saved=None, rows=None, near=None
):
    """forward_rows with parts replaced. Where write returns None, y stays as it is."""

    def answer(x, weight, bias, eps, y, mean, rstd_, start, stop):
        D, number = x.shape[1], x.dtype.type
        for r in rows(x, start, stop) if rows else range(start, stop):
            total = number(0)
            for i in range(D):
                total += x[r, i]
            near_, sum_c, sum_cc = number(total / D), number(0), number(0)
            for i in range(D):
                c = x[r, i] - (0 if one_pass else near_)
                sum_c += c
                sum_cc += squares(c) if squares else c * c
            rest = number(0) if one_pass else number(sum_c / D)
            var_ = sum_cc / (D - correction) - (near_ * near_ if one_pass else rest * rest)
            var_ = var(sum_cc, D, rest) if var else var_
            mean[r] = saved(near_, rest) if saved else np.float64(near_) + rest
            rstd_[r] = rstd(var_, eps) if rstd else 1 / np.sqrt(var_ + eps)
            for i in range(D):
                first, second = near(near_, rest) if near else (near_, rest)
                x_hat = (x[r, i] - first - second) * rstd_[r]
                value = write(x_hat, weight[i], bias[i], i) if write else x_hat * weight[i] + bias[i]
                if value is not None:
                    y[r, i] = value

    return answer


def _forward_by_columns(x, weight, bias, eps, y, mean, rstd, start, stop):
    """Right numbers, loop after loop over all rows."""
    D = x.shape[1]
    for r in range(start, stop):
        mean[r] = sum(np.float64(x[r, i]) for i in range(D)) / D
    for r in range(start, stop):
        rstd[r] = 1 / np.sqrt(sum((x[r, i] - mean[r]) ** 2 for i in range(D)) / D + eps)
    for r in range(start, stop):
        for i in range(D):
            y[r, i] = (x[r, i] - mean[r]) * rstd[r] * weight[i] + bias[i]


def _forward_in_y(x, weight, bias, eps, y, mean, rstd, start, stop):
    """Right numbers, with y as a scratch pad."""
    D = x.shape[1]
    for r in range(start, stop):
        mean[r] = sum(np.float64(x[r, i]) for i in range(D)) / D
        for i in range(D):
            y[r, i] = x[r, i] - mean[r]
        rstd[r] = 1 / np.sqrt(sum(y[r, i] ** 2 for i in range(D)) / D + eps)
        for i in range(D):
            y[r, i] = y[r, i] * rstd[r] * weight[i] + bias[i]


def _forward_probe(label, seed, rows, D, part=None, eps=1e-5, scale=1.0, offset=0.0, dtype=torch.float64, **more):
    start, stop = part or (0, rows)
    x = draw(seed, rows, D, scale=scale, mean=offset, dtype=dtype)
    weight, bias = (draw(seed + k, D, dtype=dtype) for k in (1, 2))

    def run(answer):
        log, given = [], x.numpy().copy()
        y = np.full((rows, D), 99.0, given.dtype)
        mean, rstd = np.full(rows, 99.0), np.full(rows, 99.0, given.dtype)
        watched = _Watched("x", given, log), _Watched("y", y, log)
        answer(watched[0], weight.numpy().copy(), bias.numpy().copy(), eps, watched[1], mean, rstd, start, stop)
        seen = {
            "x after the call": _tensor(given),
            "y": _tensor(y[start:stop]),
            "rstd": _tensor(rstd[start:stop]),
            "the rows of y before start and from stop on": _tensor(np.concatenate([y[:start], y[stop:]])),
            "the order of the rows": _one_trip(log, ("x", "y")),
            "each number of x is read": _times(_most(log, "x", "read"), 3),
            "each number of y is written": _times(_most(log, "y", "written"), 1),
            "each number of y is read": _times(_most(log, "y", "read"), 0),
        }
        if dtype == torch.float64:  # float32: Python rounds near + rest where Numba does not
            seen["mean"] = _tensor(mean[start:stop])
        return seen

    return Probe(label, run, {"x": x[start:stop], "eps": eps}, **more)


_FORWARD_PROBES = [
    _forward_probe("three rows of 5", 1300, 3, 5, offset=2.0),
    _forward_probe("rows 1 and 2 of four rows (start = 1, stop = 3)", 1303, 4, 3, part=(1, 3)),
    _forward_probe("rows of spread 0.001", 1306, 2, 6, scale=1e-3),
    _forward_probe("eps = 0.5", 1309, 2, 4, eps=0.5),
    # x - near and rest are exact here, what follows is rounded to 24 bits a few times
    _forward_probe("float32 rows around 100,000", 1312, 3, 7, offset=1e5, dtype=torch.float32, tolerance=1e-5),
    # whole numbers: c and its sums are exact, and near is off by about 1, so that rest * rest counts
    _forward_probe(
        "float32 rows around 10,000,000", 1318, 3, 7, offset=1e7, scale=4.0, dtype=torch.float32, tolerance=1e-5
    ),
]

_TOO_OFTEN = "each row should be finished while it is in the cache: all loops over i belong inside the loop over r."

_FORWARD = [
    Mistake("the variance is divided by D - 1. LayerNorm divides by D.", _forward(correction=1)),
    Mistake(
        "the variance is divided by D - 1. LayerNorm divides by D.",
        _forward(var=lambda s, D, rest: (s - D * rest * rest) / (D - 1)),
    ),
    Mistake(
        "eps is added to the deviation. It belongs under the root, to the variance.",
        _forward(rstd=lambda v, eps: 1 / (np.sqrt(v) + eps)),
    ),
    Mistake("eps is missing under the root.", _forward(rstd=lambda v, eps: 1 / np.sqrt(v))),
    Mistake(
        "1e-5 is written into the loop. Use the argument eps.", _forward(rstd=lambda v, eps: 1 / np.sqrt(v + 1e-5))
    ),
    Mistake(
        "eps is added to 1 over the deviation. It belongs under the root, to the variance.",
        _forward(rstd=lambda v, eps: 1 / np.sqrt(v) + eps),
    ),
    Mistake(
        "rest * rest is not subtracted: the mean of c * c is the variance only where the mean of c is 0.",
        _forward(var=lambda s, D, rest: s / D),
    ),
    Mistake(
        "rest * rest is added. The variance is the mean of c * c minus rest * rest.",
        _forward(var=lambda s, D, rest: s / D + rest * rest),
    ),
    Mistake(
        "rest itself is subtracted from the mean of c * c. It should be rest * rest.",
        _forward(var=lambda s, D, rest: s / D - rest),
    ),
    Mistake("the sum of c * c is not divided by D.", _forward(var=lambda s, D, rest: s - rest * rest)),
    Mistake(
        "nothing is written: y, mean and rstd still hold the 99 that they held before the call.",
        lambda x, weight, bias, eps, y, mean, rstd, start, stop: None,
    ),
    Mistake(
        "y is not written: it still holds the 99 that it held before the call.", _forward(write=lambda h, w, b, i: None)
    ),
    Mistake("rstd is the deviation itself. It is 1 over it.", _forward(rstd=lambda v, eps: np.sqrt(v + eps))),
    Mistake("the root is missing: that is 1 over the variance.", _forward(rstd=lambda v, eps: 1 / (v + eps))),
    Mistake(
        "that is the one-pass variance, mean(x * x) minus the squared mean, which loses all digits far from zero. "
        "Add up c = x - near and its squares.",
        _forward(one_pass=True),
    ),
    Mistake("what is added up is |c|. The variance takes the squares.", _forward(squares=abs)),
    Mistake(
        "rest is left out when y is written: x - near alone is off by what near lacks.",
        _forward(near=lambda n, r: (n, 0)),
    ),
    Mistake(
        "rest is left out when y is written, and in the mean: x - near alone is off by what near lacks.",
        _forward(near=lambda n, r: (n, 0), saved=lambda n, r: n),
    ),
    Mistake("rest is added instead of subtracted: the mean is near + rest.", _forward(near=lambda n, r: (n, -r))),
    Mistake(
        "near + rest is added up first and then subtracted: that rounds the mean. Subtract one after the other.",
        _forward(near=lambda n, r: (n + r, 0)),
    ),
    Mistake("x is not centered in the last loop.", _forward(near=lambda n, r: (0, 0))),
    Mistake("mean[r] holds rest only: the mean is near + rest.", _forward(saved=lambda n, r: r)),
    Mistake("weight is missing in y.", _forward(write=lambda h, w, b, i: h + b)),
    Mistake("bias is missing in y.", _forward(write=lambda h, w, b, i: h * w)),
    Mistake("weight and bias are missing in y.", _forward(write=lambda h, w, b, i: h)),
    Mistake(
        "the bias is multiplied by the weight: first times weight, then plus bias.",
        _forward(write=lambda h, w, b, i: (h + b) * w),
    ),
    Mistake(
        "the rows run from 0 to the end. Use range(start, stop).", _forward(rows=lambda x, start, stop: range(len(x)))
    ),
    Mistake(
        "the last row is left out: range(start, stop) ends before stop by itself.",
        _forward(rows=lambda x, start, stop: range(start, stop - 1)),
    ),
    Mistake(_TOO_OFTEN, _forward_by_columns),
    Mistake(
        "y serves as a scratch pad, so it is written and read more than it must. Keep single numbers in names, "
        "and compute x - near anew.",
        _forward_in_y,
    ),
]


def _compiled_probe(answer, names, make):
    """Probes of a compiled answer: rows around 100,000 in float32. make(function) -> {what: value}."""
    if answer is _plain(answer):
        return []
    # everything but y's and dx's last few roundings is exact or carried in two numbers
    run = lambda function: make(answer if function is _plain(answer) else function)  # noqa: E731
    return [Probe("float32 rows around 100,000, compiled", run, names, tolerance=1e-5)]


def forward_rows(answer):
    """Check the loops of a fused forward pass, plain or compiled (lesson 13)."""
    reference = _forward()

    def make(function):
        x = draw(1315, 3, 7, mean=1e5, dtype=torch.float32).numpy()
        weight, bias = (draw(seed, 7, dtype=torch.float32).numpy() for seed in (1316, 1317))
        y, mean, rstd = np.empty_like(x), np.empty(3), np.empty(3, np.float32)
        function(x, weight, bias, 1e-5, y, mean, rstd, 0, 3)
        return {"mean - 100,000": _tensor(mean - 1e5), "rstd": _tensor(rstd), "y": _tensor(y)}

    plain = _look(answer, "forward_rows", reference)
    rounded = (
        "mean[r] holds only 24 bits: near alone, or near + rest rounded to float32. Write np.float64(near) + rest."
    )
    mistakes = [*_FORWARD, *(Mistake(rounded, _forward(saved=how)) for how in (lambda n, r: n, lambda n, r: n + r))]
    examine(
        plain,
        "forward_rows",
        [*_FORWARD_PROBES, *_compiled_probe(answer, {}, make)],
        reference,
        mistakes,
        tried="parts of the rows, small spread, two eps, float32 far from zero, every access to x and y",
    )


# ------------------------------------------------------------------------------------------------ backward_rows

_BLOCK = 64


def _backward(
    x_hat=None,
    h=None,
    dx=None,
    dweight=None,
    dbias=None,
    sums=None,
    means=None,
    block=None,
    add=True,
    rest=True,
    rows=None,
    again=None,
):
    """backward_rows with parts replaced. Where dx, dweight or dbias returns None, its array stays as it is.

    sums: (dy, h, x_hat) -> what is added to the two sums; again: (x_hat, h, dy, x_hat and h left over from the first loop)
    -> x_hat, h of the second loop.
    """

    def answer(dy, x, mean, rstd, weight, dx_, dweight_, dbias_, start, stop):
        D, number = x.shape[1], x.dtype.type
        for r in rows(x, start, stop) if rows else range(start, stop):
            near, at, k = number(mean[r]), block(r) if block else r // _BLOCK, rstd[r]
            rest_ = number(mean[r] - near) if rest else number(0)
            sum_h, sum_hx = number(0), number(0)
            for i in range(D):
                xh = x_hat(x[r, i] - near - rest_, near + rest_, k) if x_hat else (x[r, i] - near - rest_) * k
                g = dy[r, i]
                hi = h(g, weight[i]) if h else g * weight[i]
                first, second = sums(g, hi, xh) if sums else (hi, hi * xh)
                sum_h += first
                sum_hx += second
                to_weight, to_bias = (dweight(g, xh, hi) if dweight else g * xh), (dbias(g, xh, hi) if dbias else g)
                if to_weight is not None:
                    dweight_[at, i] = to_weight + (dweight_[at, i] if add else 0)
                if to_bias is not None:
                    dbias_[at, i] = to_bias + (dbias_[at, i] if add else 0)
            a, c = means(sum_h, sum_hx, D) if means else (sum_h / D, sum_hx / D)
            left = xh, hi
            for i in range(D):
                xh = x_hat(x[r, i] - near - rest_, near + rest_, k) if x_hat else (x[r, i] - near - rest_) * k
                hi = h(dy[r, i], weight[i]) if h else dy[r, i] * weight[i]
                if again:
                    xh, hi = again(xh, hi, dy[r, i], *left)
                value = dx(k, hi, a, xh, c) if dx else k * (hi - a - xh * c)
                if value is not None:
                    dx_[r, i] = value

    return answer


def _backward_by_columns(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """Right numbers; the sums over rows in loops of their own."""
    D = x.shape[1]
    _backward(dweight=lambda g, xh, h: 0, dbias=lambda g, xh, h: 0)(
        dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop
    )
    for i in range(D):
        for r in range(start, stop):
            dweight[r // _BLOCK, i] += dy[r, i] * (x[r, i] - mean[r]) * rstd[r]
            dbias[r // _BLOCK, i] += dy[r, i]


def _given(seed, rows, D, offset=0.0, dtype=torch.float64):
    """Arrays dy, x, mean, rstd, weight."""
    x = draw(seed, rows, D, mean=offset, dtype=dtype)
    exact = x.double()
    mean = exact.mean(1)
    rstd = torch.rsqrt(exact.var(1, correction=0) + 0.1).to(dtype)
    return [
        t.numpy().copy() for t in (draw(seed + 1, rows, D, dtype=dtype), x, mean, rstd, draw(seed + 2, D, dtype=dtype))
    ]


def _backward_probe(label, seed, rows, D, part=None, offset=0.0, dtype=torch.float64, before=0.0, **more):
    start, stop = part or (0, rows)
    blocks = -(-rows // _BLOCK)

    def run(answer):
        log, (dy, x, mean, rstd, weight) = [], _given(seed, rows, D, offset, dtype)
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

    shown = dict(zip(("dy", "x"), (torch.from_numpy(t) for t in _given(seed, rows, D, offset, dtype)[:2]), strict=True))
    return Probe(label, run, {name: t[start:stop] for name, t in shown.items()}, **more)


_BACKWARD_PROBES = [
    _backward_probe("three rows of 5", 1330, 3, 5, offset=1.0),
    _backward_probe("rows 1 and 2 of four rows (start = 1, stop = 3)", 1334, 4, 3, part=(1, 3)),
    _backward_probe("two blocks: rows 62 to 66 of 67", 1338, 67, 3, part=(62, 67)),
    _backward_probe("sums that are 2 already", 1342, 2, 4, before=2.0),
    # a few products and sums of numbers of order 1, rounded to 24 bits
    _backward_probe("float32 rows around 100,000", 1346, 3, 7, offset=1e5, dtype=torch.float32, tolerance=1e-5),
]

_BACKWARD = [
    Mistake("the gain is missing in h: h is dy times weight.", _backward(h=lambda g, w: g)),
    Mistake("the mean of h is missing in dx.", _backward(dx=lambda k, h, a, xh, c: k * (h - xh * c))),
    Mistake(
        "the last term of dx is missing, x_hat times the mean of h * x_hat.",
        _backward(dx=lambda k, h, a, xh, c: k * (h - a)),
    ),
    Mistake("the last term of dx lacks its x_hat.", _backward(dx=lambda k, h, a, xh, c: k * (h - a - c))),
    Mistake(
        "both terms are subtracted in dx: h - mean_h - x_hat * mean_hx.",
        _backward(dx=lambda k, h, a, xh, c: k * (h - a + xh * c)),
    ),
    Mistake(
        "the second loop uses the x_hat that the first loop left over, that of the last feature. Compute it anew for each i.",
        _backward(again=lambda xh, h, g, last_xh, last_h: (last_xh, h)),
    ),
    Mistake(
        "the second loop uses the h that the first loop left over, that of the last feature. Compute it anew for each i.",
        _backward(again=lambda xh, h, g, last_xh, last_h: (xh, last_h)),
    ),
    Mistake(
        "the second loop uses the x_hat and h that the first loop left over, those of the last feature. Compute them anew for each i.",
        _backward(again=lambda xh, h, g, last_xh, last_h: (last_xh, last_h)),
    ),
    Mistake(
        "the gain is missing in dx: its bracket begins with h = dy * weight, not with dy.",
        _backward(again=lambda xh, h, g, last_xh, last_h: (xh, g)),
    ),
    Mistake("the gain is missing in sum_hx, which adds up h * x_hat.", _backward(sums=lambda g, h, xh: (h, g * xh))),
    Mistake(
        "the gain is missing in sum_h, which adds up h = dy * weight.", _backward(sums=lambda g, h, xh: (g, h * xh))
    ),
    Mistake(
        "dx is not written: it still holds the 99 that it held before the call.",
        _backward(dx=lambda k, h, a, xh, c: None),
    ),
    Mistake("nothing is added to dweight. Each row adds dy * x_hat.", _backward(dweight=lambda g, xh, h: None)),
    Mistake("nothing is added to dbias. Each row adds dy.", _backward(dbias=lambda g, xh, h: None)),
    Mistake("rstd multiplies dx twice.", _backward(dx=lambda k, h, a, xh, c: k * k * (h - a - xh * c))),
    Mistake("the sums are not divided by D: the formula has means.", _backward(means=lambda a, c, D: (a, c))),
    Mistake("only one of the two sums is divided by D.", _backward(means=lambda a, c, D: (a / D, c))),
    Mistake("only one of the two sums is divided by D.", _backward(means=lambda a, c, D: (a, c / D))),
    Mistake("rstd is missing in front of dx.", _backward(dx=lambda k, h, a, xh, c: h - a - xh * c)),
    Mistake(
        "rstd stands before the first term only. It multiplies the whole bracket.",
        _backward(dx=lambda k, h, a, xh, c: k * h - a - xh * c),
    ),
    Mistake(
        "dweight adds up h * x_hat. The gain is not in its own gradient: dy * x_hat.",
        _backward(dweight=lambda g, xh, h: h * xh),
    ),
    Mistake("dweight lacks x_hat: it adds up dy * x_hat.", _backward(dweight=lambda g, xh, h: g)),
    Mistake("dbias adds up h. It is the sum of dy.", _backward(dbias=lambda g, xh, h: h)),
    Mistake("dweight and dbias are swapped.", _backward(dweight=lambda g, xh, h: g, dbias=lambda g, xh, h: g * xh)),
    Mistake("the sums of a row overwrite those of the row before. Add: dweight[block, i] += …", _backward(add=False)),
    Mistake("all rows add to block 0. Row r belongs to block r // ROWS_A_BLOCK.", _backward(block=lambda r: 0)),
    Mistake("x is not centered: x_hat is (x - mean) * rstd.", _backward(x_hat=lambda c, mean, k: (c + mean) * k)),
    Mistake("x_hat lacks rstd.", _backward(x_hat=lambda c, mean, k: c)),
    Mistake(
        "x_hat is divided by rstd. rstd is 1 over the deviation already: multiply.",
        _backward(x_hat=lambda c, mean, k: c / k),
    ),
    Mistake("rest is left out: x - near alone is off by what near lacks.", _backward(rest=False)),
    Mistake(
        "the rows run from 0 to the end. Use range(start, stop).", _backward(rows=lambda x, start, stop: range(len(x)))
    ),
    Mistake(
        "the sums over rows have loops of their own, so that x and dy come from memory a second time. Put them into the "
        "first loop over i.",
        _backward_by_columns,
    ),
]


def backward_rows(answer):
    """Check the loops of a fused backward pass, plain or compiled (lesson 13)."""
    reference = _backward()

    def make(function):
        given = _given(1350, 3, 7, 1e5, torch.float32)
        dx, dweight, dbias = np.empty_like(given[0]), *np.zeros((2, 1, 7), np.float32)
        function(*given, dx, dweight, dbias, 0, 3)
        return {"dweight": _tensor(dweight), "dbias": _tensor(dbias), "dx": _tensor(dx)}

    plain = _look(answer, "backward_rows", reference)
    examine(
        plain,
        "backward_rows",
        [*_BACKWARD_PROBES, *_compiled_probe(answer, {}, make)],
        reference,
        _BACKWARD,
        tried="parts of the rows, two blocks, sums that are not zero, float32 far from zero, every access",
    )


# ------------------------------------------------------------------------------------------------ sum_of_ones


def sum_of_ones(answer):
    """Check the prediction of twenty million ones added up in one float32 (lesson 13)."""
    choice(
        answer,
        "sum_of_ones",
        {
            "20,000,000": "the number itself fits into float32, but the way to it does not: what is 16,777,216 + 1 in 24 bits?",
            "16,777,216": None,
            "inf": "float32 reaches 3e38. It is not its range that ends here, but its digits.",
            "about 20,000,000": "below 2**24 each step is exact, so nothing is off by a little. What happens at 2**24?",
        },
    )


# ------------------------------------------------------------------------------------------------ mended_statistics


def _right_statistics(x, width):
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)


def _padded(mask=None, mean=None, var=None, value=0.0):
    """The patient with parts replaced. mask: (row, D) -> what counts; mean, var: (sum, D, width) -> statistic."""

    def answer(x, width):
        D = x.shape[-1]
        row = F.pad(x, (0, width - D), value=value)
        total = row.sum(-1, keepdim=True)
        mean_ = mean(total, D, width) if mean else total / D
        c = row - mean_
        if mask:
            c = c * mask(row, D)
        squares = (c * c).sum(-1, keepdim=True)
        return mean_, var(squares, D, width, mean_) if var else squares / D

    return answer


def _position(row, D):
    return torch.arange(row.shape[-1], device=row.device) < D


_PADDED_NAMES = dict(names=("x", "width"), returns=("mean", "var"))
_PADDED_PROBES = [
    call("rows of 5 around 3, width 8", draw(1360, 3, 5, mean=3.0), 8, **_PADDED_NAMES),
    call("rows of 7 around -2, width 16", draw(1361, 2, 3, 7, mean=-2.0), 16, **_PADDED_NAMES),
    call(
        "a row with zeros in it, width 8",
        torch.tensor([[4.0, 0.0, 2.0, 0.0, 9.0, 3.0]], dtype=torch.float64),
        8,
        **_PADDED_NAMES,
    ),
    call("as wide as the row", draw(1362, 2, 4, mean=1.0), 4, **_PADDED_NAMES),
    # the mean is rounded to a step of 6e-5, its square enters the variance below 1e-8; the rest is 24 bits
    call(
        "float32 rows around 1000, width 8",
        draw(1363, 2, 5, mean=1e3, dtype=torch.float32),
        8,
        tolerance=1e-5,
        gradient=False,
        **_PADDED_NAMES,
    ),
]

_PADDED = [
    Mistake("mean and variance are swapped: return mean, var.", lambda x, width: _right_statistics(x, width)[::-1]),
    Mistake(
        "that is the deviation. The variance is its square.",
        lambda x, width: (x.mean(-1, keepdim=True), _right_statistics(x, width)[1].sqrt()),
    ),
    Mistake("that is the patient: the numbers beyond the end still add their squared distance to the mean.", _padded()),
    Mistake(
        "the sums are divided by the width. Only D numbers exist.",
        _padded(mean=lambda t, D, width: t / width, var=lambda s, D, width, m: s / width),
    ),
    Mistake(
        "the mean is right, the variance is divided by the width and still holds the numbers beyond the end.",
        _padded(var=lambda s, D, width, m: s / width),
    ),
    Mistake(
        "the variance is divided by the width. Only D numbers exist.",
        _padded(mask=_position, var=lambda s, D, width, m: s / width),
    ),
    Mistake(
        "the variance is divided by D - 1. LayerNorm divides by D.",
        _padded(mask=_position, var=lambda s, D, width, m: s / (D - 1)),
    ),
    Mistake(
        "the mean is divided by the width. Only D numbers exist.",
        _padded(mask=_position, mean=lambda t, D, width: t / width),
    ),
    Mistake(
        "your condition looks at the value: a real 0 in the row is thrown out as well. Ask for the position, torch.arange(width, device=x.device) < D.",
        _padded(mask=lambda row, D: row != 0),
    ),
    Mistake(
        "the condition is off by one: positions 0 to D - 1 exist.",
        _padded(mask=lambda row, D: torch.arange(row.shape[-1], device=row.device) <= D),
    ),
    Mistake(
        "the condition is off by one: positions 0 to D - 1 exist.",
        _padded(mask=lambda row, D: torch.arange(row.shape[-1], device=row.device) < D - 1),
    ),
    Mistake(
        "the condition is turned round: it keeps what lies beyond the end.",
        _padded(mask=lambda row, D: torch.arange(row.shape[-1], device=row.device) >= D),
    ),
    *[
        Mistake(
            "right on paper. But in float32, far from zero, a large number is added and subtracted again, and the digits are "
            "gone. Keep it out of the sum instead.",
            _padded(var=f),
        )
        for f in (
            lambda s, D, width, m: s / D - (width - D) / D * m * m,
            lambda s, D, width, m: s / D - (width - D) / D * m**2,
            lambda s, D, width, m: s / D - (width - D) * m**2 / D,
            lambda s, D, width, m: (s - (width - D) * m**2) / D,
            lambda s, D, width, m: s / D - m**2 * (width - D) / D,
        )
    ],
    Mistake(
        "that is the one-pass variance, mean(x * x) - mean**2, where zeros do no harm; but far from zero its digits are gone "
        "(lesson 3).",
        lambda x, width: (x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2),
    ),
]


def mended_statistics(answer):
    """Check a function x (..., D), width -> (mean, var), both (..., 1), that reads rows with a padded width (lesson 13)."""
    examine(
        answer,
        "mended_statistics",
        _PADDED_PROBES,
        in_float64(_right_statistics),
        _PADDED,
        tried="offsets, zeros in a row, a full width, float32 far from zero, gradients",
    )

"""Answers to the exercises of lesson 13.

The kernels are plain Python: compiling each would take a second. A few are compiled, where only that shows their slip.
"""

import numpy as np
import torch
from numba import njit, prange
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _backward_rows, _forward_rows, _mended_statistics


def forward_with_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    r = start
    while r < stop:
        row, out = x[r], y[r]
        m = sum(row) / len(row)
        mean[r], rstd[r] = m, (sum((value - m) ** 2 for value in row) / len(row) + eps) ** -0.5
        for i, value in enumerate(row):
            out[i] = bias[i] + weight[i] * ((value - m) * rstd[r])
        r += 1


def two_passes_from_zero(x, weight, bias, eps, y, mean, rstd, start, stop):
    """Compiled, and so in the check, 0.0 makes the sums float64."""
    D = x.shape[1]
    for r in range(start, stop):
        m = v = 0.0
        for i in range(D):
            m += x[r, i]
        m /= D
        for i in range(D):
            c = x[r, i] - m
            v += c * c
        mean[r], rstd[r] = m, 1 / np.sqrt(v / D + eps)
        for i in range(D):
            y[r, i] = (x[r, i] - m) * rstd[r] * weight[i] + bias[i]


def backward_with_sums(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D = x.shape[1]
    for r in range(start, stop):
        a = b = 0.0
        for i in range(D):
            x_hat = (x[r, i] - mean[r]) * rstd[r]
            g = dy[r, i]
            a += g * weight[i]
            b += g * weight[i] * x_hat
            dweight[r // 64, i] += g * x_hat
            dbias[r // 64, i] += g
        for i in range(D):
            x_hat = (x[r, i] - mean[r]) * rstd[r]
            dx[r, i] = rstd[r] / D * (D * dy[r, i] * weight[i] - a - x_hat * b)


def backward_in_threads(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    for r in prange(start, stop):
        _backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, r, r + 1)


def never_padded(x, width):
    return x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)


def filled_in(x, width):
    D = x.shape[-1]
    c = x.new_zeros(*x.shape[:-1], width)
    mean = x.sum(-1, keepdim=True) / D
    c[..., :D] = x - mean
    return mean, (c * c).sum(-1, keepdim=True) / D


def times_a_mask(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    c = (row - mean) * (torch.arange(width) < D)
    return mean, c.square().sum(-1, keepdim=True) / D


ANSWERS = {
    "words_moved": {
        "right": {
            "numbers": {"read": 7, "written": 5, "forward": 2, "backward": 3, "copies": 2.5}
        }
    },
    "forward_rows": {
        "right": {
            "near and rest": _forward_rows,
            "row by row": forward_with_rows,
            "sums from 0.0": two_passes_from_zero,
            "sums from 0.0, compiled": njit(two_passes_from_zero),
        },
        "wrong": {
            "slices": (
                instead(_forward_rows, "y[start:stop] = x[start:stop]"),
                "numbers of x at once",
            ),
            "beyond the end": (
                instead(_forward_rows, "x_hat = y[r, D] = x[r, i] - near"),
                "outside",
            ),
            "all twice": (
                instead(_forward_rows, "rows = [*range(start, stop)] * 2"),
                "order of the rows",
            ),
            "64 weights": (
                instead(_forward_rows, "y[r, i] = x_hat * weight[i % 64] + bias[i]"),
                "a row of 1,000",
            ),
            "of eps = 0": (instead(_forward_rows, "eps = eps or 1e-5"), "eps = 0"),
            "weight changed": (
                instead(_forward_rows, "weight *= 2"),
                "changed its input weight",
            ),
            "state": (
                instead(
                    _forward_rows,
                    "weight = vars(_forward_rows).setdefault(str(x.shape), weight)",
                ),
                "three more rows of 5",
            ),
            "compiled, without standardize": (
                njit(fastmath={"reassoc", "contract", "nsz"})(
                    instead(_forward_rows, "sum_cc += c**2")
                ),
                "the sums of a loop may be reordered",
            ),
            "near without rest": (
                instead(_forward_rows, "mean[r] = np.float64(near) - rest"),
                "rest is next to nothing",
            ),
            "threads": (njit(parallel=True)(_forward_rows), "in several threads"),
        },
    },
    "backward_rows": {
        "right": {
            "near and rest": _backward_rows,
            "with sums": backward_with_sums,
            "from the end": instead(_backward_rows, "rows = range(stop - 1, start - 1, -1)"),
        },
        "wrong": {
            # without the plain run first, this writes outside dweight
            "compiled, r for block": (
                njit(instead(_backward_rows, "block = r")),
                "out of bounds",
            ),
            "dx as scratch pad": (
                instead(
                    _backward_rows,
                    "again = dx.__setitem__((r, i), 0) or (x[r, i] - near - rest) * scale",
                ),
                "each number of dx is written",
            ),
            "two blocks": (instead(_backward_rows, "block = int(r >= 64)"), "rows 4,070 to"),
            "few rows": (
                instead(_backward_rows, "rows = range(start, min(stop, 150))"),
                "rows 4,070 to",
            ),
            "rstd set to 0": (
                instead(_backward_rows, "mean_h, mean_hx, rstd[r] = sum_h / D, sum_hx / D, 0"),
                "its input rstd",
            ),
            "threads": (backward_in_threads, "Several threads add to one sum at once"),
        },
    },
    "mended_statistics": {
        "right": {
            "where": _mended_statistics,
            "times a mask": times_a_mask,
            "filled in": filled_in,
        },
        "wrong": {
            "never padded": (never_padded, "that reads width numbers at once"),
            "inf hidden": (
                instead(
                    _mended_statistics, "row = F.pad(x, (0, width - D)).clamp(-1e30, 1e30)"
                ),
                "a finite variance",
            ),
            "no keepdim": (lambda x, width: (x.mean(-1), x.var(-1, correction=0)), "shape"),
        },
    },
}

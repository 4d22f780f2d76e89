"""Answers to the exercises of lesson 13.

The kernels are plain Python: compiling each would take a second. Two are compiled, since only that shows their slip.
"""

import numpy as np
import torch
from numba import njit
from torch.nn import functional as F

from lessonkit.check.lessons.speed import _backward_rows, _forward_rows, _mended_statistics
from lessonkit.check.mistakes import edited

WORDS = {"fused forward": 2, "fused backward": 3, "seven lines, read": 7, "seven lines, written": 5}


def forward_in_float64(x, weight, bias, eps, y, mean, rstd, start, stop):
    D = x.shape[1]
    for r in range(start, stop):
        mu = 0.0
        for i in range(D):
            mu += np.float64(x[r, i])
        mu /= D
        var = 0.0
        for i in range(D):
            var += (x[r, i] - mu) ** 2
        scale = (var / D + eps) ** -0.5
        for i in range(D):
            y[r, i] = (x[r, i] - mu) * scale * weight[i] + bias[i]
        mean[r], rstd[r] = mu, scale


def forward_with_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    D = x.shape[1]
    r = start
    while r < stop:
        row, out = x[r], y[r]
        near = x.dtype.type(sum(row[i] for i in range(D)) / D)
        first = second = x.dtype.type(0)
        for value in row:
            first += value - near
            second += (value - near) * (value - near)
        rest = first / D
        mean[r] = np.float64(near) + np.float64(rest)
        rstd[r] = (second / D - rest**2 + eps) ** -0.5
        for i in range(len(row)):
            x_hat = ((row[i] - near) - rest) * rstd[r]
            out[i] = bias[i] + weight[i] * x_hat
        r += 1


def clipped(x, weight, bias, eps, y, mean, rstd, start, stop):
    _forward_rows(x, np.ones_like(weight), np.zeros_like(bias), eps, y, mean, rstd, start, stop)
    y.array[start:stop] = y.array[start:stop].clip(-3, 3) * weight + bias


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


def backward_backwards(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D = x.shape[1]
    for r in range(stop - 1, start - 1, -1):
        kept = []
        for i in range(D):
            kept.append(((x[r, i] - mean[r]) * rstd[r], dy[r, i]))
        h = [g * weight[i] for i, (_, g) in enumerate(kept)]
        mean_h, mean_hx = sum(h) / D, sum(a * b for a, (b, _) in zip(h, kept, strict=True)) / D
        for i, (x_hat, g) in enumerate(kept):
            dbias[r // 64][i] += g
            dweight[r // 64][i] += g * x_hat
            dx[r, i] = (h[i] - (mean_h + x_hat * mean_hx)) * rstd[r]


DX_TWICE = "h = dy[r, i] * weight[i] -> dx[r, i] = h = dy[r, i] * weight[i] ; (dy[r, i] * weight[i] - -> (dx[r, i] -"


def padded_with_ones(x, width):
    return _mended_statistics(F.pad(x, (0, width - x.shape[-1]), value=1.0), width)


def never_padded(x, width):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return mean, var


def times_a_mask(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    c = (row - mean) * (torch.arange(width) < D)
    return mean, c.square().sum(-1, keepdim=True) / D


BANK = {
    "words_moved": {
        "right": {"whole numbers": WORDS, "in another order": dict(reversed(WORDS.items()))},
        "wrong": {
            "not filled in": (WORDS | {"fused forward": ...}, "three dots"),
            "other keys": ({"forward": 2, "backward": 3, "read": 7, "written": 5}, "The keys are 'fused forward'"),
        },
    },
    "forward_rows": {
        "right": {"near and rest": _forward_rows, "in float64": forward_in_float64, "row by row": forward_with_rows},
        "wrong": {
            "clipped to three": (clipped, "one of them 30"),
            "slices": (edited(_forward_rows, "D, -> y[start:stop] = x[start:stop]; D,"), "numbers of x at once"),
            "beyond the end": (edited(_forward_rows, "rstd[r] = -> y[r, D] = rstd[r] ="), "outside"),
            "all twice": (
                edited(_forward_rows, "range(start, stop) -> [*range(start, stop)] * 2"),
                "order of the rows",
            ),
            "compiled, without standardize": (
                njit(fastmath={"reassoc", "contract", "nsz"})(edited(_forward_rows, "c * c -> c**2")),
                "standardize(x[",
            ),
            "rounded": (njit(edited(_forward_rows, "np.float64(near) + rest -> near + rest")), "only 24 bits"),
            "too few arguments": (lambda x, weight, bias: None, "must take"),
        },
    },
    "backward_rows": {
        "right": {"near and rest": _backward_rows, "with sums": backward_with_sums, "from the end": backward_backwards},
        "wrong": {
            # without the plain run first, this writes outside dweight
            "compiled, r for block": (njit(edited(_backward_rows, "r // ROWS_A_BLOCK -> r")), "out of bounds"),
            "dx as scratch pad": (edited(_backward_rows, DX_TWICE), "each number of dx is written"),
            "too few arguments": (lambda dy, x: None, "must take"),
        },
    },
    "mended_statistics": {
        "right": {"where": _mended_statistics, "times a mask": times_a_mask, "never padded": never_padded},
        "wrong": {
            "padded with ones": (padded_with_ones, "mean[1] is"),
            "the mean only": (lambda x, width: x.mean(-1, keepdim=True), "expected"),
            "no keepdim": (lambda x, width: (x.mean(-1), x.var(-1, correction=0)), "shape"),
        },
    },
}

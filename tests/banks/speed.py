"""Answers to the exercises of lesson 13. The kernels are plain Python here: compiling each would take a second."""

import numpy as np
import torch
from torch.nn import functional as F

# 13.1

WORDS = {"fused forward": 2, "fused backward": 3, "seven lines, read": 7, "seven lines, written": 5}


# 13.2


def forward(x, weight, bias, eps, y, mean, rstd, start, stop):
    D = x.shape[1]
    number = x.dtype.type
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


def forward_is(statistics=None, write=None, rows=None):
    """statistics: (list of the row, D, eps) -> near, rest, mean, rstd; write: (value, near, rest, rstd, w, b) -> y."""

    def answer(x, weight, bias, eps, y, mean, rstd, start, stop):
        D = x.shape[1]
        for r in rows(x, start, stop) if rows else range(start, stop):
            row = np.array([x[r, i] for i in range(D)])
            near = x.dtype.type(row.mean())
            rest = (row - near).mean()
            mean[r] = np.float64(near) + rest
            rstd[r] = 1 / np.sqrt(((row - near) ** 2).mean() - rest * rest + eps)
            if statistics:
                near, rest, mean[r], rstd[r] = statistics(row, near, rest, D, eps)
            for i in range(D):
                value, k, w, b = x[r, i], rstd[r], weight[i], bias[i]
                y[r, i] = write(value, near, rest, k, w, b) if write else (value - near - rest) * k * w + b

    return answer


def with_rstd(of):
    """rstd from the variance, with another formula."""

    def statistics(row, near, rest, D, eps):
        c = row - near - rest
        return near, rest, np.float64(near) + rest, of((c * c).mean(), D, eps)

    return forward_is(statistics)


def one_pass(row, near, rest, D, eps):
    mean = sum(row) / D
    return near, rest, np.float64(near) + rest, 1 / np.sqrt(sum(row * row) / D - mean * mean + eps)


def var_is(of):
    """rstd from sum_cc, D and rest, with another formula."""
    return forward_is(
        lambda row, near, rest, D, eps: (
            near,
            rest,
            near + np.float64(rest),
            1 / np.sqrt(of(((row - near) ** 2).sum(), D, rest) + eps),
        )
    )


def y_forgotten(x, weight, bias, eps, y, mean, rstd, start, stop):
    forward(x, weight, bias, eps, np.empty_like(y.array), mean, rstd, start, stop)


def three_passes(x, weight, bias, eps, y, mean, rstd, start, stop):
    D = x.shape[1]
    for r in range(start, stop):
        mean[r] = sum(np.float64(x[r, i]) for i in range(D)) / D
    for r in range(start, stop):
        rstd[r] = 1 / np.sqrt(sum((x[r, i] - mean[r]) ** 2 for i in range(D)) / D + eps)
    for r in range(start, stop):
        for i in range(D):
            y[r, i] = (x[r, i] - mean[r]) * rstd[r] * weight[i] + bias[i]


def scratch_pad(x, weight, bias, eps, y, mean, rstd, start, stop):
    D = x.shape[1]
    for r in range(start, stop):
        mean[r] = sum(np.float64(x[r, i]) for i in range(D)) / D
        for i in range(D):
            y[r, i] = x[r, i] - mean[r]
        rstd[r] = 1 / np.sqrt(sum(y[r, i] * y[r, i] for i in range(D)) / D + eps)
        for i in range(D):
            y[r, i] = y[r, i] * rstd[r] * weight[i] + bias[i]


def whole_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    for r in range(start, stop):
        mean[r] = x[r].mean()
        y[r] = (x[r] - mean[r]) * weight + bias


def slices(x, weight, bias, eps, y, mean, rstd, start, stop):
    y[start:stop] = x[start:stop]


def outside(x, weight, bias, eps, y, mean, rstd, start, stop):
    forward(x, weight, bias, eps, y, mean, rstd, start, stop)
    y[start, x.shape[1]] = 0


def many_reads(x, weight, bias, eps, y, mean, rstd, start, stop):
    forward(x, weight, bias, eps, y, mean, rstd, start, stop)
    for r in range(start, stop):
        forward(x, weight, bias, eps, y, mean, rstd, r, r + 1)


def scales_x(x, weight, bias, eps, y, mean, rstd, start, stop):
    forward(x, weight, bias, eps, y, mean, rstd, start, stop)
    x[stop - 1, 0] = 0


# 13.4


def backward(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D = x.shape[1]
    number = x.dtype.type
    for r in range(start, stop):
        near, block = number(mean[r]), r // 64
        rest = number(mean[r] - near)
        sum_h, sum_hx = number(0), number(0)
        for i in range(D):
            x_hat = (x[r, i] - near - rest) * rstd[r]
            h = dy[r, i] * weight[i]
            sum_h += h
            sum_hx += h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = number(sum_h / D), number(sum_hx / D)
        for i in range(D):
            x_hat = (x[r, i] - near - rest) * rstd[r]
            dx[r, i] = rstd[r] * (dy[r, i] * weight[i] - mean_h - x_hat * mean_hx)


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


def backward_is(x_hat=None, h=None, dx=None, dweight=None, dbias=None, means=None, block=None, store=None, rows=None):
    def answer(dy, x, mean, rstd, weight, dx_, dw, db, start, stop):
        D = x.shape[1]
        for r in rows(x, start, stop) if rows else range(start, stop):
            k, at = rstd[r], r // 64 if block is None else block
            xs = [x_hat(x[r, i], mean[r], k) if x_hat else (x[r, i] - mean[r]) * k for i in range(D)]
            gs = [dy[r, i] for i in range(D)]
            hs = [h(g, w) if h else g * w for g, w in zip(gs, weight, strict=True)]
            a, c = sum(hs), sum(p * q for p, q in zip(hs, xs, strict=True))
            a, c = means(a, c, D) if means else (a / D, c / D)
            for i in range(D):
                to_weight = dweight(gs[i], xs[i], hs[i]) if dweight else gs[i] * xs[i]
                to_bias = dbias(gs[i], xs[i], hs[i]) if dbias else gs[i]
                dw[at, i] = to_weight if store else dw[at, i] + to_weight
                db[at, i] = to_bias if store else db[at, i] + to_bias
                dx_[r, i] = dx(k, hs[i], a, xs[i], c) if dx else k * (hs[i] - a - xs[i] * c)

    return answer


def second_loop(h=None, x_hat=None, sum_h=None, sum_hx=None, gain=None):
    """backward with a slip: h, x_hat left over from the first loop; a sum or dx without the gain; dx forgotten."""

    def answer(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
        D = x.shape[1]
        for r in range(start, stop):
            a = b = 0.0
            for i in range(D):
                last_x_hat, last_h = (x[r, i] - mean[r]) * rstd[r], dy[r, i] * weight[i]
                a += dy[r, i] if sum_h else last_h
                b += (dy[r, i] if sum_hx else last_h) * last_x_hat
                dweight[r // 64, i] += dy[r, i] * last_x_hat
                dbias[r // 64, i] += dy[r, i]
            for i in range(D):
                now = last_h if h else dy[r, i] * (1 if gain == "missing" else weight[i])
                at = last_x_hat if x_hat else (x[r, i] - mean[r]) * rstd[r]
                if gain != "dx forgotten":
                    dx[r, i] = rstd[r] * (now - a / D - at * b / D)

    return answer


def sums_apart(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    backward_is(dweight=lambda g, x, h: 0.0, dbias=lambda g, x, h: 0.0)(
        dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop
    )
    for r in range(start, stop):
        for i in range(x.shape[1]):
            dweight[r // 64, i] += dy[r, i] * (x[r, i] - mean[r]) * rstd[r]
            dbias[r // 64, i] += dy[r, i]


def dx_in_two_goes(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    D = x.shape[1]
    for r in range(start, stop):
        for i in range(D):
            dx[r, i] = dy[r, i] * weight[i]
            dweight[r // 64, i] += dy[r, i] * (x[r, i] - mean[r]) * rstd[r]
            dbias[r // 64, i] += dy[r, i]
        a = sum(dx[r, i] for i in range(D)) / D
        c = sum(dx[r, i] * (x[r, i] - mean[r]) * rstd[r] for i in range(D)) / D
        for i in range(D):
            dx[r, i] = rstd[r] * (dx[r, i] - a - (x[r, i] - mean[r]) * rstd[r] * c)


def float32_mean(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    backward(dy, x, mean.astype(x.dtype), rstd, weight, dx, dweight, dbias, start, stop)


# 13.5


def mended(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    c = torch.where(torch.arange(width, device=x.device) < D, row - mean, 0)
    return mean, (c * c).sum(-1, keepdim=True) / D


def cut(x, width):
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))
    mean = row.sum(-1, keepdim=True) / D
    c = (row - mean)[..., :D]
    return mean, (c * c).mean(-1, keepdim=True)


def padded_with_the_mean(x, width):
    D = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / D
    row = torch.cat([x, mean.expand(*x.shape[:-1], width - D)], -1)
    return mean, ((row - mean) ** 2).sum(-1, keepdim=True) / D


def never_padded(x, width):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return mean, var


def padded_is(mask=None, mean_by="D", var_by="D", subtract=False):
    def answer(x, width):
        D = x.shape[-1]
        by = {"D": D, "width": width, "D - 1": D - 1}
        row = F.pad(x, (0, width - D))
        mean = row.sum(-1, keepdim=True) / by[mean_by]
        c = row - mean
        c = c * mask(row, torch.arange(width, device=x.device), D) if mask else c
        var = (c * c).sum(-1, keepdim=True) / by[var_by]
        return mean, var - (width - D) / D * mean**2 if subtract else var

    return answer


def here(row, at, D):
    return at < D


BANK = {
    "words_moved": {
        "right": {"whole numbers": WORDS, "in another order": dict(reversed(WORDS.items()))},
        "wrong": {
            "x is read only": (WORDS | {"fused forward": 1}, "y must be written"),
            "once for each loop": (WORDS | {"fused forward": 4}, "from memory once"),
            "dy and dx": (WORDS | {"fused backward": 2}, "as well as on dy"),
            "all five": (WORDS | {"fused backward": 5}, "forward and backward together"),
            "means not counted": (WORDS | {"seven lines, read": 5}, "two means read"),
            "c * c reads twice": (WORDS | {"seven lines, read": 8}, "c * c reads c once"),
            "all together": (WORDS | {"seven lines, read": 12}, "read and written together"),
            "seven written": (WORDS | {"seven lines, written": 7}, "does not count"),
            "y only": (WORDS | {"seven lines, written": 1}, "leaves its result in memory"),
            "not filled in": (WORDS | {"fused forward": ...}, "three dots"),
            "one missing": ({"fused forward": 2}, "missing"),
        },
    },
    "forward_rows": {
        "right": {"near and rest": forward, "in float64": forward_in_float64, "row by row": forward_with_rows},
        "wrong": {
            "unbiased": (with_rstd(lambda v, D, eps: 1 / np.sqrt(v * D / (D - 1) + eps)), "divides by D"),
            "unbiased sum": (var_is(lambda s, D, rest: s / (D - 1) - rest * rest), "divides by D"),
            "eps outside": (with_rstd(lambda v, D, eps: 1 / (np.sqrt(v) + eps)), "under the root"),
            "no eps": (with_rstd(lambda v, D, eps: 1 / np.sqrt(v)), "eps is missing"),
            "1e-5 written in": (with_rstd(lambda v, D, eps: 1 / np.sqrt(v + 1e-5)), "Use the argument eps"),
            "eps behind": (with_rstd(lambda v, D, eps: 1 / np.sqrt(v) + eps), "1 over the deviation"),
            "rest * rest forgotten": (var_is(lambda s, D, rest: s / D), "only where the mean of c is 0"),
            "rest * rest added": (var_is(lambda s, D, rest: s / D + rest * rest), "rest * rest is added"),
            "rest not squared": (var_is(lambda s, D, rest: s / D - rest), "rest itself"),
            "sum of squares": (var_is(lambda s, D, rest: s - rest * rest), "not divided by D"),
            "y not written": (y_forgotten, "y is not written"),
            "the deviation": (with_rstd(lambda v, D, eps: np.sqrt(v + eps)), "1 over it"),
            "no root": (with_rstd(lambda v, D, eps: 1 / (v + eps)), "root is missing"),
            "one pass": (forward_is(one_pass), "expected"),
            "rest forgotten": (forward_is(write=lambda v, n, r, k, w, b: (v - n) * k * w + b), "rest is left out"),
            "rest added": (forward_is(write=lambda v, n, r, k, w, b: (v - n + r) * k * w + b), "rest is added"),
            "near + rest": (
                forward_is(write=lambda v, n, r, k, w, b: (v - (n + r)) * k * w + b),
                "one after the other",
            ),
            "not centered": (forward_is(write=lambda v, n, r, k, w, b: v * k * w + b), "not centered"),
            "no weight": (forward_is(write=lambda v, n, r, k, w, b: (v - n - r) * k + b), "weight is missing"),
            "no bias": (forward_is(write=lambda v, n, r, k, w, b: (v - n - r) * k * w), "bias is missing"),
            "neither": (forward_is(write=lambda v, n, r, k, w, b: (v - n - r) * k), "weight and bias are missing"),
            "bias first": (forward_is(write=lambda v, n, r, k, w, b: ((v - n - r) * k + b) * w), "then plus bias"),
            "rest as mean": (
                forward_is(lambda row, n, r, D, eps: (n, r, r, 1 / np.sqrt(row.astype(float).var() + eps))),
                "rest only",
            ),
            "all rows": (forward_is(rows=lambda x, start, stop: range(len(x))), "range(start, stop)"),
            "last row left out": (
                forward_is(rows=lambda x, start, stop: range(start, stop - 1)),
                "last row is left out",
            ),
            "three passes over x": (three_passes, "finished while it is in the cache"),
            "y as scratch pad": (scratch_pad, "scratch pad"),
            "whole rows": (whole_rows, "one number at a time"),
            "slices": (slices, "at once"),
            "beyond the end": (outside, "outside"),
            "everything twice": (many_reads, "the order of the rows"),
            "changes x": (scales_x, "changed its input x"),
            "too few arguments": (lambda x, weight, bias: None, "must take"),
            "nothing": (lambda x, weight, bias, eps, y, mean, rstd, start, stop: None, "nothing is written"),
        },
        "generic_exceptions": (
            "returns None",
            "returns a string",
            "returns a list",
            "an extra axis",
            "half the digits",
            "float64 whatever comes in",
            "cut off from the gradient",
            "through NumPy",
            "changes its input",
            "a little too large",
            "a little too high",
            "a gradient that is off",
        ),  # it writes into its arguments and returns nothing; a changed x is in the list above
    },
    "sum_of_ones": {
        "right": {"stands still": "16,777,216"},
        "wrong": {
            "exact": ("20,000,000", "the way to it"),
            "inf": ("inf", "digits"),
            "about": ("about 20,000,000", "each step is exact"),
            "a number": (16777216, "takes one of"),
        },
    },
    "backward_rows": {
        "right": {
            "near and rest": backward,
            "with sums": backward_with_sums,
            "rows from the end, x_hat kept": backward_backwards,
        },
        "wrong": {
            "no gain": (backward_is(h=lambda g, w: g), "gain is missing"),
            "no mean term": (backward_is(dx=lambda k, h, a, x, c: k * (h - x * c)), "mean of h is missing"),
            "no x_hat term": (backward_is(dx=lambda k, h, a, x, c: k * (h - a)), "last term of dx is missing"),
            "x_hat missing": (backward_is(dx=lambda k, h, a, x, c: k * (h - a - c)), "lacks its x_hat"),
            "a plus": (backward_is(dx=lambda k, h, a, x, c: k * (h - a + x * c)), "both terms are subtracted"),
            "x_hat left over": (second_loop(x_hat=True), "uses the x_hat that"),
            "h left over": (second_loop(h=True), "uses the h that"),
            "both left over": (second_loop(h=True, x_hat=True), "x_hat and h that"),
            "dx without the gain": (second_loop(gain="missing"), "gain is missing in dx"),
            "sum_h without the gain": (second_loop(sum_h=True), "missing in sum_h,"),
            "sum_hx without the gain": (second_loop(sum_hx=True), "missing in sum_hx,"),
            "dx not written": (second_loop(gain="dx forgotten"), "dx is not written"),
            "rstd twice": (backward_is(dx=lambda k, h, a, x, c: k * k * (h - a - x * c)), "twice"),
            "sums for means": (backward_is(means=lambda a, c, D: (a, c)), "not divided by D"),
            "one sum for a mean": (backward_is(means=lambda a, c, D: (a / D, c)), "only one"),
            "the other": (backward_is(means=lambda a, c, D: (a, c / D)), "only one"),
            "no rstd": (backward_is(dx=lambda k, h, a, x, c: h - a - x * c), "rstd is missing"),
            "rstd before one term": (backward_is(dx=lambda k, h, a, x, c: k * h - a - x * c), "whole bracket"),
            "gain in dweight": (backward_is(dweight=lambda g, x, h: h * x), "not in its own gradient"),
            "dweight lacks x_hat": (backward_is(dweight=lambda g, x, h: g), "lacks x_hat"),
            "gain in dbias": (backward_is(dbias=lambda g, x, h: h), "sum of dy"),
            "swapped": (backward_is(dweight=lambda g, x, h: g, dbias=lambda g, x, h: g * x), "swapped"),
            "overwritten": (backward_is(store=True), "overwrite"),
            "one block": (backward_is(block=0), "block 0"),
            "not centered": (backward_is(x_hat=lambda v, m, k: v * k), "not centered"),
            "no rstd in x_hat": (backward_is(x_hat=lambda v, m, k: v - m), "x_hat lacks rstd"),
            "divided by rstd": (backward_is(x_hat=lambda v, m, k: (v - m) / k), "multiply"),
            "rest forgotten": (float32_mean, "rest is left out"),
            "all rows": (backward_is(rows=lambda x, start, stop: range(len(x))), "range(start, stop)"),
            "the sums apart": (sums_apart, "loops of their own"),
            "dx as scratch pad": (dx_in_two_goes, "each number of dx is written"),
            "too few arguments": (lambda dy, x: None, "must take"),
        },
        "generic_exceptions": (
            "returns None",
            "returns a string",
            "returns a list",
            "an extra axis",
            "half the digits",
            "float64 whatever comes in",
            "cut off from the gradient",
            "through NumPy",
            "changes its input",
            "a little too large",
            "a little too high",
            "a gradient that is off",
        ),
    },
    "mended_statistics": {
        "right": {
            "where": mended,
            "cut off": cut,
            "padded with the mean": padded_with_the_mean,
            "never padded": never_padded,
            "times a mask": padded_is(here),
        },
        "wrong": {
            "the patient": (padded_is(), "that is the patient"),
            "all by width": (padded_is(mean_by="width", var_by="width"), "sums are divided by the width"),
            "var by width": (padded_is(var_by="width"), "still holds"),
            "masked, by width": (padded_is(here, var_by="width"), "variance is divided by the width"),
            "masked, mean by width": (padded_is(here, mean_by="width"), "mean is divided by the width"),
            "unbiased": (padded_is(here, var_by="D - 1"), "divided by D - 1"),
            "by the value": (padded_is(lambda row, at, D: row != 0), "looks at the value"),
            "one too many": (padded_is(lambda row, at, D: at <= D), "off by one"),
            "one too few": (padded_is(lambda row, at, D: at < D - 1), "off by one"),
            "turned round": (padded_is(lambda row, at, D: at >= D), "turned round"),
            "subtracted afterwards": (padded_is(subtract=True), "right on paper"),
            "one pass": (
                lambda x, width: (
                    x.mean(-1, keepdim=True),
                    (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2,
                ),
                "one-pass",
            ),
            "swapped": (lambda x, width: mended(x, width)[::-1], "swapped"),
            "deviation": (
                lambda x, width: (x.mean(-1, keepdim=True), x.std(-1, correction=0, keepdim=True)),
                "its square",
            ),
            "the mean only": (lambda x, width: x.mean(-1, keepdim=True), "expected"),
            "no keepdim": (lambda x, width: (x.mean(-1), x.var(-1, correction=0)), "shape"),
        },
    },
}

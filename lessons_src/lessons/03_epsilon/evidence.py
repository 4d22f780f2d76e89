"""What lesson 3 says of many rows: how far five ways to a variance are off, far from zero."""

import torch

from lessonkit.evidence import record


def merged(x, size):
    """The biased variance of x (..., D), read once in pieces of size numbers, as the lesson's."""
    mean = x[..., :size].mean(-1, keepdim=True)
    var = (x[..., :size] - mean).square().mean(-1, keepdim=True)  # (..., 1)
    for n in range(size, x.shape[-1], size):
        piece = x[..., n : n + size]  # (..., m)
        m, piece_mean = piece.shape[-1], piece.mean(-1, keepdim=True)
        piece_var = (piece - piece_mean).square().mean(-1, keepdim=True)
        delta = piece_mean - mean
        mean = mean + delta * m / (n + m)
        var = (n * var + m * piece_var) / (n + m) + delta**2 * n * m / (n + m) ** 2
    return var


# Sums are made in another order on another processor: half of an error is no surprise.
@record(
    seeds=range(24),
    shows={
        "one_pass": ".0e",
        "typical": ".1g",
        "welford": ".0e",
        "pieces": ".0e",
        "two_passes": ".0e",
        "torch_var": ".0e",
        "ordered": "",
    },
    tolerance={
        "one_pass": 0.1,
        "typical": 0.01,
        "welford": 1e-4,
        "pieces": 1e-5,
        "two_passes": 1e-6,
        "torch_var": 1e-6,
        "ordered": 0,
    },
    offset=[100.0, 1000.0, 3000.0, 10000.0],
)
def variances(seed, offset=10000.0, rows=64, width=768):
    """Relative error of the variance of float32 rows with standard deviation 1 around offset.

    The worst of 64 rows; typical: the median of the one-pass formula. pieces: of 64. ordered: one
    pass is worse than Welford, than pieces, than two passes.
    """
    x = torch.randn(rows, width) + offset  # (B, D)
    exact = x.double().var(-1, correction=0, keepdim=True)
    off = lambda var: ((var - exact).abs() / exact).double()
    one = off((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2)
    two = off((x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True))
    ways = [one, off(merged(x, 1)), off(merged(x, 64)), two]
    worst = [way.max().item() for way in ways]
    return dict(zip(["one_pass", "welford", "pieces", "two_passes"], worst, strict=True)) | {
        "typical": one.median().item(),
        "torch_var": off(x.var(-1, correction=0, keepdim=True)).max().item(),
        "ordered": worst == sorted(worst, reverse=True),
    }

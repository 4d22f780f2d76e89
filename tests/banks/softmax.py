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


def minus(reference):
    """A softmax that subtracts reference(x) before exp."""

    def softmax(x):
        e = torch.exp(x - reference(x))
        return e / e.sum(-1, keepdim=True)

    return softmax


def over(axis):
    """A stable softmax over another axis; axis 1 stands for the last one where there is no axis 1."""

    def softmax(x):
        dim = min(axis, x.dim() - 1)
        e = torch.exp(x - x.amax(dim, keepdim=True))
        return e / e.sum(dim, keepdim=True)

    return softmax


def naive(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def naive_all(x):
    return torch.exp(x) / torch.exp(x).sum()


def sum_of_everything(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum()


def sum_without_keepdim(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1)


def max_above_only(x):
    return torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x).sum(-1, keepdim=True)


def eps_below(eps):
    def softmax(x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / (e.sum(-1, keepdim=True) + eps)

    return softmax


def cut_sum(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True).detach()


def real_axis_1(x):
    e = torch.exp(x - x.amax(dim=1, keepdim=True))
    return e / e.sum(dim=1, keepdim=True)


def largest_after_exp(x):
    e = torch.exp(x)
    e = e - e.amax(-1, keepdim=True)
    return e / e.sum(-1, keepdim=True)


def divided_by(total):
    def softmax(x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / total(e)

    return softmax


def in_place(x):
    x -= x.amax(-1, keepdim=True)
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def python_lists(x):
    rows = [[math.exp(v - max(row)) for v in row] for row in x.reshape(-1, x.shape[-1]).tolist()]
    return torch.tensor([[v / sum(row) for v in row] for row in rows], dtype=x.dtype).reshape(x.shape)


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


def but(**changes):
    """The right answers but for one, given by its number: _3="same"."""
    keys = list(SHIFT_AND_SCALE)
    return SHIFT_AND_SCALE | {keys[int(number[1:])]: value for number, value in changes.items()}


# ---- the Jacobian ----------------------------------------------------------------------------------------------------


def right_jacobian(p):
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def right_from_delta(p):
    return p[..., :, None] * (torch.eye(p.shape[-1], dtype=p.dtype, device=p.device) - p[..., None, :])


def right_einsum(p):
    return torch.diag_embed(p) - torch.einsum("...i,...j->...ij", p, p)


def right_loops(p):
    D = p.shape[-1]
    J = torch.zeros(*p.shape, D, dtype=p.dtype, device=p.device)
    for i in range(D):
        for j in range(D):
            J[..., i, j] = p[..., i] * (1 - p[..., i]) if i == j else -p[..., i] * p[..., j]
    return J


def right_by_autograd(p):
    jacobian = torch.func.jacrev(lambda x: F.softmax(x, -1))
    return (torch.func.vmap(jacobian)(p.log().reshape(-1, p.shape[-1]))).reshape(*p.shape, p.shape[-1])


def outer(p):
    return p[..., :, None] * p[..., None, :]


def eye(p):
    return torch.eye(p.shape[-1], dtype=p.dtype)


def flattened(p):
    s = p.reshape(-1, 1)
    return torch.diagflat(s) - s @ s.T


def summed_batch(p):
    return torch.diag_embed(p) - (torch.outer(p, p) if p.dim() == 1 else p.transpose(-2, -1) @ p)


# ---- the clinic ------------------------------------------------------------------------------------------------------


def broken_pool(x, query):
    weights = F.softmax(x @ query, dim=-1)
    return (weights * x).sum(1)


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


def pool_with(weigh):
    return lambda x, query: (weigh(x @ query) * x).sum(1)


def naive_pool(x, query):
    e = (x @ query).exp()
    return (e / e.sum(1, keepdim=True) * x).sum(1)


def global_largest_pool(x, query):
    e = (x @ query - (x @ query).max()).exp()
    return (e / e.sum(1, keepdim=True) * x).sum(1)


def whole_sum_pool(x, query):
    e = (x @ query - (x @ query).amax(1, keepdim=True)).exp()
    return (e / e.sum() * x).sum(1)


def forgotten_axis(x, query):
    weights = (x @ query).squeeze(-1).softmax(-1)
    return (weights * x).sum(1)


def in_place_pool(x, query):
    weights = F.softmax(x @ query, dim=1)
    x *= weights
    return x.sum(1)


def layer_norm_over_time(scores):
    return F.layer_norm(scores.squeeze(-1), (scores.shape[1],)).unsqueeze(-1)


BANK = {
    "softmax": {
        "right": {
            "exp and divide": right_softmax,
            "detached largest": right_detached_largest,
            "log-sum-exp": right_log_domain,
            "in logarithms": right_shifted_logs,
            "row by row": right_row_by_row,
            "PyTorch": lambda x: torch.softmax(x, dim=-1),
            "in float64": lambda x: F.softmax(x.double(), -1).to(x.dtype),
            "log-softmax": lambda x: F.log_softmax(x, -1).exp(),
            "shares of length 1": lambda x: F.normalize((x - x.amax(-1, keepdim=True)).exp(), p=1, dim=-1),
            "another safe shift": lambda x: right_softmax(x - x.amax(-1, keepdim=True) - 1),
        },
        "wrong": {
            "nothing subtracted": (naive, "overflows"),
            "nothing subtracted, the whole sum": (naive_all, "one sum for the whole tensor"),
            "the whole sum": (sum_of_everything, "one sum for the whole tensor"),
            "the global largest": (minus(lambda x: x.max()), "largest of its own row"),
            "the column's largest": (minus(lambda x: x.amax(0, keepdim=True)), "largest of each column"),
            "the mean": (minus(lambda x: x.mean(-1, keepdim=True)), "mean"),
            "the smallest": (minus(lambda x: x.amin(-1, keepdim=True)), "smallest"),
            "a constant": (minus(lambda x: 10.0), "overflows"),
            "axis 0": (over(0), "across the samples"),
            "axis 1": (over(1), "axis 1"),
            "naive, axis 0": (lambda x: x.exp() / x.exp().sum(0, keepdim=True), "across the samples"),
            "no keepdim in the sum": (sum_without_keepdim, "keepdim=True in the sum"),
            "naive without keepdim": (lambda x: x.exp() / x.exp().sum(-1), "keepdim=True in the sum"),
            "no keepdim in the max": (minus(lambda x: x.max(-1).values), "keepdim=True in the maximum"),
            "subtracted above only": (max_above_only, "above the line only"),
            "logarithm returned": (lambda x: F.log_softmax(x, -1), "logarithm"),
            "exp forgotten": (lambda x: x / x.sum(-1, keepdim=True), "exp is missing"),
            "exp forgotten after the shift": (
                lambda x: (x - x.amax(-1, keepdim=True)) / (x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True),
                "exp is missing",
            ),
            "not divided": (lambda x: torch.exp(x - x.amax(-1, keepdim=True)), "Divide by their sum"),
            "divided by the largest": (lambda x: naive(x / x.amax(-1, keepdim=True)), "Subtract"),
            "minus x": (lambda x: right_softmax(-x), "sign"),
            "base two": (lambda x: right_softmax(x * math.log(2)), "base 2"),
            "scaled like attention": (lambda x: right_softmax(x / x.shape[-1] ** 0.5), "temperature"),
            "sigmoid": (torch.sigmoid, "sigmoid"),
            "standardized": (lambda x: F.layer_norm(x, (x.shape[-1],)), "LayerNorm"),
            "normalized first": (lambda x: F.softmax(F.layer_norm(x, (x.shape[-1],)), -1), "forgets the scale"),
            "clamped": (lambda x: naive(x.clamp(-80, 80)), "clamp"),
            "nan hidden": (lambda x: naive(x).nan_to_num(0.0), "hides"),
            "axis 1, a single row raises": (real_axis_1, "axis 1"),
            "axis 1, PyTorch": (lambda x: F.softmax(x, 1), "axis 1"),
            "dim left out": (lambda x: F.softmax(x), "dim is left out"),
            "naive in float64": (lambda x: naive(x.double()).to(x.dtype), "in float64 too"),
            "largest absolute value": (minus(lambda x: x.abs().amax(-1, keepdim=True)), "absolute"),
            "largest after exp": (largest_after_exp, "after exp"),
            "sum of x": (lambda x: torch.exp(x - x.amax(-1, keepdim=True)) / x.sum(-1, keepdim=True), "over x"),
            "one more": (divided_by(lambda e: 1 + e.sum(-1, keepdim=True)), "1 too many"),
            "mean below": (divided_by(lambda e: e.mean(-1, keepdim=True)), "mean"),
            "length below": (divided_by(lambda e: e.norm(dim=-1, keepdim=True)), "length"),
            "argmax": (lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype), "argmax"),
            "standardized by torch.std": (
                lambda x: F.softmax((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), -1),
                "forgets the scale",
            ),
            "eps 1e-5 below": (eps_below(1e-5), "eps"),
            "eps 1e-8 below": (eps_below(1e-8), "eps"),
            "sum cut off": (cut_sum, "gradient"),
            "in place": (in_place, "changed its input"),
            "Python lists": (python_lists, "gradient"),
            "always float32": (lambda x: right_softmax(x.float()), "dtype"),
        },
    },
    "shift_and_scale": {
        "right": {
            "as given": SHIFT_AND_SCALE,
            "capitals": {key: value.upper() for key, value in SHIFT_AND_SCALE.items()},
        },
        "wrong": {
            "softmax sees a shift": (but(_0="changed"), "factor e"),
            "softmax ignores scale": (but(_1="same"), "powers"),
            "softmax is even": (but(_2="same"), "largest"),
            "softmax is odd": (but(_2="negated"), "never negative"),
            "LN sees a shift": (but(_3="changed"), "mean moves"),
            "LN sees scale": (but(_4="changed"), "deviation doubles"),
            "LN ignores the sign": (but(_5="same"), "deviation is never negative"),
            "LN of minus x is something else": (but(_5="changed"), "only the sign"),
            "softmax after LN": (but(_6="changed"), "takes the factor away"),
            "LN after softmax": (but(_7="same"), "before LN sees it"),
            "LN after softmax, negated": (but(_7="negated"), "before LN sees it"),
            "another word": (but(_3="equal"), "not right"),
            "True": (but(_3=True), "not right"),
            "a key is missing": ({"softmax(x + 3)": "same"}, "missing"),
            "a list": (list(SHIFT_AND_SCALE.values()), "dictionary"),
        },
    },
    "temperature_for": {
        "right": {
            "math": lambda gap, odds: gap / math.log(odds),
            "through the factor": lambda gap, odds: 1 / (math.log(odds) / gap),
            "other logarithms": lambda gap, odds: gap / (math.log10(odds) / math.log10(math.e)),
            "torch": lambda gap, odds: (gap / torch.tensor(odds, dtype=torch.float64).log()).item(),
            "torch, float32": lambda gap, odds: gap / torch.log(torch.tensor(odds)),
            "NumPy": lambda gap, odds: gap / np.log(odds),
            "upside down": lambda gap, odds: -gap / math.log(1 / odds),
        },
        "wrong": {
            "the factor": (lambda gap, odds: math.log(odds) / gap, "1/T"),
            "no logarithm": (lambda gap, odds: gap / odds, "logarithm"),
            "multiplied": (lambda gap, odds: gap * math.log(odds), "divides"),
            "log10": (lambda gap, odds: gap / math.log10(odds), "natural logarithm"),
            "log2": (lambda gap, odds: gap / math.log2(odds), "natural logarithm"),
            "difference": (lambda gap, odds: gap - math.log(odds), "difference"),
            "probability for odds": (lambda gap, odds: gap / math.log(odds / (1 + odds)), "probability"),
            "log of the gap": (lambda gap, odds: math.log(gap) / math.log(odds), "gap itself"),
            "exponential": (lambda gap, odds: gap / math.exp(odds), "e to the power"),
            "negative": (lambda gap, odds: -gap / math.log(odds), "sign"),
            "no gap": (lambda gap, odds: 1 / math.log(odds), "gap is missing"),
            "the exponent": (lambda gap, odds: math.log(odds), "Solve for T"),
            "swapped": (lambda gap, odds: odds / math.log(gap), "changed places"),
            "log1p": (lambda gap, odds: gap / math.log1p(odds), "ratio"),
            "odds minus one": (lambda gap, odds: gap / math.log(odds - 1), "ratio"),
            "odds minus one, no logarithm": (lambda gap, odds: gap / (odds - 1), "no exponent"),
            "exp": (lambda gap, odds: math.exp(gap / odds), "odds are given"),
            "both shares": (lambda gap, odds: torch.softmax(torch.tensor([gap, 0.0]) / odds, 0), "shape (2,)"),
            "one": (lambda gap, odds: 1.0, "On"),
            "nothing": (lambda gap, odds: None, "return"),
        },
    },
    "softmax_jacobian": {
        "right": {
            "diag_embed": right_jacobian,
            "delta": right_from_delta,
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
            "sign flipped": (lambda p: outer(p) - torch.diag_embed(p), "the other way round"),
            "plus": (lambda p: torch.diag_embed(p) + outer(p), "minus"),
            "diagonal missing": (lambda p: -outer(p), "diagonal matrix of p is missing"),
            "diagonal only": (lambda p: torch.diag_embed(p * (1 - p)), "off the diagonal"),
            "diag(p) only": (torch.diag_embed, "never subtracted"),
            "p(1 - p) and the outer product": (lambda p: torch.diag_embed(p * (1 - p)) - outer(p), "twice"),
            "delta forgotten": (lambda p: p[..., :, None] * (1 - p[..., None, :]), "only where i = j"),
            "identity for diag(p)": (lambda p: eye(p) - outer(p), "identity"),
            "log-softmax": (lambda p: eye(p) - p[..., None, :].expand(*p.shape, p.shape[-1]), "logarithm"),
            "only the vector": (lambda p: p * (1 - p), "shape"),
            "entry by entry": (lambda p: torch.diag_embed(p) - p.unsqueeze(-2) ** 2, "entry by entry"),
            "entry by entry, no axis": (lambda p: torch.diag_embed(p) - (p * p)[..., None, :], "entry by entry"),
            "batch summed": (summed_batch, "sums over the batch"),
            "one row only": (lambda p: torch.diag(p) - torch.outer(p, p), "one row"),
            "one row only, delta": (lambda p: torch.diag(p) - p[:, None] * p[None, :], "one row"),
            "the well-known one": (flattened, "one row"),
            "axes from the front": (lambda p: torch.diag_embed(p) - p[:, :, None] * p[:, None, :], "from the front"),
            "einsum from the front": (
                lambda p: torch.diag_embed(p) - torch.einsum("bi,bj->bij", p, p),
                "from the front",
            ),
            "inner product": (lambda p: torch.diag(p) - p @ p.T, "is a number"),
            "inner product, diag_embed": (lambda p: torch.diag_embed(p) - p @ p.T, "is a number"),
            "p for diag(p)": (lambda p: p - outer(p), "on the diagonal only"),
            "one axis missing": (lambda p: torch.diag_embed(p) - p[..., None] * p, "no new axis"),
            "eye times p": (lambda p: torch.eye(p.shape[-1], device=p.device) * p - outer(p), "p needs an axis"),
            "diag of squares": (lambda p: torch.diag_embed(p**2) - outer(p), "squared on the diagonal"),
            "jacrev of the batch": (
                lambda p: torch.func.jacrev(lambda x: F.softmax(x, -1))(p.log()),
                "differentiates every row",
            ),
            "softmax once more": (lambda p: right_jacobian(F.softmax(p, -1)), "already"),
            "autograd at p": (
                lambda p: torch.func.vmap(torch.func.jacrev(lambda x: F.softmax(x, -1)))(
                    p.reshape(-1, p.shape[-1])
                ).reshape(*p.shape, p.shape[-1]),
                "already",
            ),
            "square root missing": (lambda p: torch.diag_embed(p.sqrt()) - outer(p), "expected"),
            "nothing": (lambda p: None, "return"),
            "always float32": (lambda p: right_jacobian(p.float()), "dtype"),
            "in place": (lambda p: right_jacobian(p.mul_(1.0).add_(0.1)), "changed its input"),
        },
    },
    "pool_diagnosis": {
        "right": {"key": "axis", "spaces and capitals": " Axis "},
        "wrong": {
            "saturation": ("saturation", "one weight"),
            "detached": ("detached", "connected"),
            "shift": ("shift", "differ from token to token"),
            "scale": ("scale", "softmax sees the scale"),
            "a sentence": ("the axis", "takes one of"),
            "a number": (-1, "takes one of"),
        },
    },
    "mended_pool": {
        "right": {
            "dim=1": right_pool,
            "squeezed": right_squeezed,
            "a matrix product": right_matmul,
            "own softmax": right_own_softmax,
            "PyTorch's attention": right_pytorch,
            "nn.Softmax": pool_with(nn.Softmax(dim=1)),
            "sample by sample": lambda x, query: torch.stack([(F.softmax(s @ query, 0) * s).sum(0) for s in x]),
            "products by hand": lambda x, query: (F.softmax((x * query[:, 0]).sum(-1), -1).unsqueeze(-1) * x).sum(1),
        },
        "wrong": {
            "unchanged": (broken_pool, "still"),
            "axis 0": (pool_with(lambda s: F.softmax(s, 0)), "across the batch"),
            "no axis": (pool_with(lambda s: F.softmax(s)), "across the batch"),
            "everything at once": (pool_with(lambda s: F.softmax(s.flatten(), 0).view_as(s)), "whole batch"),
            "nn.LayerNorm(1)": (pool_with(nn.LayerNorm(1)), "zero"),
            "LayerNorm over the tokens": (pool_with(layer_norm_over_time), "negative"),
            "mean": (lambda x, query: x.mean(1), "mean"),
            "broken and divided": (lambda x, query: broken_pool(x, query) / x.shape[1], "mean"),
            "sigmoid": (pool_with(torch.sigmoid), "sigmoid"),
            "raw scores": (pool_with(lambda s: s), "not normalized"),
            "scores over their sum": (pool_with(lambda s: s / s.sum(1, keepdim=True)), "positive"),
            "scaled as in attention": (
                lambda x, query: (F.softmax(x @ query / x.shape[-1] ** 0.5, 1) * x).sum(1),
                "temperature",
            ),
            "largest only": (lambda x, query: x[torch.arange(len(x)), (x @ query)[..., 0].argmax(1)], "gradient"),
            "softmax of x": (lambda x, query: (F.softmax(x, 1) * x).sum(1), "query"),
            "kept axis": (lambda x, query: (F.softmax(x @ query, 1) * x).sum(1, keepdim=True), "shape"),
            "summed over the features": (lambda x, query: (F.softmax(x @ query, 1) * x).sum(-1), "features"),
            "overflow": (naive_pool, "overflows"),
            "axis forgotten after squeeze": (forgotten_axis, "squeeze"),
            "largest of the batch": (global_largest_pool, "largest score of the whole batch"),
            "sum of the batch": (whole_sum_pool, "one sum for the whole batch"),
            "mean of the products": (lambda x, query: (F.softmax(x @ query, 1) * x).mean(1), "sum to 1 already"),
            "not summed": (lambda x, query: F.softmax(x @ query, 1) * x, "not summed"),
            "weights returned": (lambda x, query: F.softmax(x @ query, 1), "these are the weights"),
            "summed over the batch": (lambda x, query: (F.softmax(x @ query, 1) * x).sum(0), "over the batch"),
            "softmax twice": (pool_with(lambda s: F.softmax(F.softmax(s, 1), 1)), "twice"),
            "logarithm": (pool_with(lambda s: F.log_softmax(s, 1)), "logarithm"),
            "sign": (pool_with(lambda s: F.softmax(-s, 1)), "sign"),
            "softmax of the query": (lambda x, query: (x @ F.softmax(query, 0) * x).sum(1), "softmax of the query"),
            "weights a feature": (lambda x, query: (F.softmax(x * query.mT, 1) * x).sum(1), "every feature"),
            "query of length 1": (
                lambda x, query: (F.softmax(x @ F.normalize(query, dim=0), 1) * x).sum(1),
                "length 1",
            ),
            "tokens detached": (lambda x, query: (F.softmax(x.detach() @ query, 1) * x).sum(1), "detach"),
            "detached weights": (pool_with(lambda s: F.softmax(s, 1).detach()), "gradient of query"),
            "in place": (in_place_pool, "changed its input"),
            "always float32": (lambda x, query: right_pool(x.float(), query.float()), "dtype"),
        },
    },
}

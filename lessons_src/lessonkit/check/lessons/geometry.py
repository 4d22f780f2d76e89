"""Checks of lesson 8: LayerNorm as projection and scaling, RMSNorm, one run from two starts, lost features."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import (
    NotYet,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    filled,
    in_float64,
    in_stages,
    known,
    refusing,
    reject,
)
from lessonkit.check.mistakes import announce, edited


def _with_an_outlier(seed):
    """256 numbers, one of them 300: normalized it is 15.9, and 16 is the bound."""
    row = draw(seed, 256)
    row[100] = 300
    return row


# --- project_and_scale
def _project_and_scale(x, eps=1e-5):
    D = x.shape[-1]
    P = torch.eye(D, dtype=x.dtype, device=x.device) - 1 / D
    p = x @ P
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)


def _layer_norm(x, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


_MOVES_PROBES = [
    call("rows of spread 0.001", 1e-3 * draw(11, 2, 3, 5)),
    call("rows with offset 3", 3 + 2 * draw(12, 4, 6)),
    call("one row", draw(13, 7)),
    call("eps = 0.25", draw(14, 2, 3, 4), 0.25, names=("x", "eps")),
    call("eps = 0", 0.01 * draw(15, 3, 8), eps=0.0),
    call("a row of equal numbers", torch.full((2, 4), 3.0, dtype=torch.float64)),  # P is exact in binary for D = 4
    call("as many rows as features", draw(17, 5, 5)),  # tells P @ x from a lost axis: elsewhere both raise
    # x @ P loses what PyTorch's kernel does not: at an offset of 1 float32 keeps six digits
    call("float32 rows", 1 + draw(16, 3, 16, dtype=torch.float32), tolerance=2e-5),
    call("a row of 256 numbers, one of them 300", _with_an_outlier(18)),
    call("four more rows of six, around 100", 100 + draw(19, 4, 6)),
]

_P = "torch.eye(D, dtype=x.dtype, device=x.device) - 1 / D"
_LENGTH = "torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)"
_NORM = "p.norm(dim=-1, keepdim=True)"
_RADIUS = "The radius is sqrt(D): multiply the unit arrow by D**0.5."
_OUTSIDE = "eps is added to the length. It belongs under the root: sqrt(|P x|^2 + D eps)."
_NORMALIZE = "F.normalize takes its eps as the smallest length allowed, not under the root with a factor D."
_VARIANCE = "the squared length is divided by D, so that it is the variance: eps and the radius must have no D then."
_IN_FLOAT32 = "P is made in float32, and float64 rows need it in float64: give torch.eye the dtype and device of x."

_MOVES = known(
    _project_and_scale,
    {
        "D * eps -> eps": "eps is added to the squared length as it is. That length is D times the variance: D * eps.",
        "D * eps -> eps / D": "eps is divided by D. The squared length is D times the variance, so it is D * eps.",
        **{f"{_LENGTH} -> ({_NORM} + {e})": _OUTSIDE for e in ("eps", "D * eps", "D**0.5 * eps", "(D * eps) ** 0.5")},
        f"{_LENGTH} -> {_NORM}.clamp(min=(D * eps) ** 0.5)": "eps is a lower limit of the length here. Add D * eps under the root.",
        f"{_LENGTH} -> torch.sqrt({_NORM} + D * eps)": "the length itself is under the root. Its square belongs there: |P x|^2 + D eps.",
        "(p * p).sum(-1, keepdim=True) -> p * p": "the squares are not summed: each number is divided by its own size. Say .sum(-1, keepdim=True).",
        "(p * p).sum(-1, keepdim=True) -> p.sum(-1, keepdim=True) ** 2": "the sum is squared, and it is 0 after the projection. Square first, then sum.",
        "x @ P -> x - x.mean()": "one mean of all numbers is subtracted. Each row has its own: x @ P.",
        "x @ P -> x - x.mean(0)": "the mean is taken over the first axis. Each row has its own, over the last: x @ P.",
        " + D * eps -> ": "there is no eps. A row of equal numbers is 0/0 then.",
        **{f"p / {_LENGTH} -> F.normalize(p, dim=-1{eps})": _NORMALIZE for eps in ("", ", eps=eps")},
        "D**0.5 * p -> p": "the rows end on a sphere of radius 1. " + _RADIUS,
        "D**0.5 * p -> p ; D * eps -> eps": "the rows end on a sphere of radius 1, and eps is not multiplied by D: sqrt(D) P x / sqrt(|P x|^2 + D eps).",
        "D**0.5 -> D": "the rows end on a sphere of radius D. The root is missing: " + _RADIUS,
        "D**0.5 -> (D - 1) ** 0.5": "that is the radius sqrt(D - 1), the largest single number. " + _RADIUS,
        "torch.sqrt -> ": "the root is missing below the fraction line: divide by the length, not by its square.",
        f"{_LENGTH} -> {_LENGTH} ** 4": "the length is squared twice: take the root of |P x|^2 + D eps, not its square.",
        "torch.sqrt( -> torch.sqrt(torch.sqrt( ; D * eps) -> D * eps))": "the root is taken twice: |P x|^2 + D eps needs one.",
        "D**0.5 * p / torch -> p * torch ; D * eps) -> D * eps) / D**0.5": "multiply by sqrt(D) and divide by the length: here it is the other way round.",
        "D**0.5 * p / torch -> D**0.5 * p * torch": "you multiply by the length: divide by it. (torch.rsqrt is 1 over the root: multiply by that.)",
        "x @ P -> x": "the rows are not projected: that is RMSNorm. Multiply by P first.",
        "p * p -> x * x": "the length of x is used instead of the length of P x.",
        "- 1 / D -> - 1": "P is I minus the matrix of all ones. Each of those ones must be 1/D.",
        f"{_P} -> torch.eye(D).to(x) * (1 - 1 / D)": "that is I - I/D: only the diagonal is changed. 11^T is the matrix of all ones.",
        "- 1 / D -> + 1 / D": "the sign of the second term: P = I - 11^T / D, minus.",
        f"{_P} -> 1 / D - torch.eye(D).to(x)": "the sign is turned round: P = I - 11^T / D, not 11^T / D - I.",
        f"{_P} -> torch.ones(D, D).to(x) / D": "that is the projection onto 1, what is to be removed. P = I - 11^T / D.",
        "x @ P -> P @ x": "P is on the wrong side. The rows lie along the last axis of x, so it is x @ P (P is symmetric).",
        "D**0.5 * p -> D**0.5 * x": "x itself is scaled. The length is that of P x, but P x must be above the fraction line, too.",
        **{f"sum(-1 -> mean(-1{too}": _VARIANCE for too in ("", " ; D**0.5 * p -> p")},
        f"{_LENGTH} -> (p.abs().sum(-1, keepdim=True) + D * eps)": "the sum of the absolute values is another length. Square, sum and take the root.",
        "D**0.5 -> torch.tensor(float(D)).sqrt()": "torch.tensor(...) without a dtype is float32. Write the number D**0.5 itself.",
        "x.shape[-1] -> x.shape[0]": "D is taken from the first axis. It is the number of features, x.shape[-1].",
        "sum(-1, keepdim=True) -> sum()": "one length for all rows together. Each row has its own: .sum(-1, keepdim=True).",
        f"D**0.5 * p / {_LENGTH} -> p": "the rows are only projected. Scale them to the radius sqrt(D).",
        ", keepdim=True -> ": "the reduced axis is gone, so that the lengths cannot line up with the rows. Say keepdim=True.",
        "D * eps -> D * 1e-5": "the number 1e-5 is written into the formula. Use the argument eps.",
        **{f"{_P} -> {P}": _IN_FLOAT32 for P in ("torch.eye(D) - 1 / D", "(torch.eye(D) - 1 / D).to(x)")},
        f"D**0.5 * p / {_LENGTH} -> p / torch.sqrt(x.var(-1, keepdim=True) + eps)": "the squared length was divided by D - 1. The projection has D - 1 dimensions, but the radius is sqrt(D).",
        "p * p -> p.detach() * p.detach()": "the values are right, but the length is cut off from the gradient.",
    },
)


def project_and_scale(answer):
    """Check a function x (..., D), eps=1e-5 -> sqrt(D) P x / sqrt(|P x|^2 + D eps) (lesson 8)."""
    tried = "small spread, offsets, an outlier, three values of eps, equal numbers, gradients"
    own = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")
    right = in_float64(_layer_norm)
    examine(answer, "project_and_scale", _MOVES_PROBES, right, _MOVES, tried, by_hand=own, devices=True)


# --- rms_norm_module
class _Shell(nn.Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        weight = torch.ones(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(weight) if elementwise_affine else None)

    def axes(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError("shape")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        return axes


class _RMSNorm(_Shell):
    def forward(self, x):
        axes = self.axes(x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)
        if self.weight is not None:
            y = y * self.weight
        return y.to(x.dtype)


# computed in float64, with the eps of the type that the answer computes in
_Reference = edited(_RMSNorm, "y = wide / -> wide = wide.double()\n        y = wide /")


def _computed(label, x, size, tolerance=1e-9, parameters=None, **options):
    return call_layer(label, lambda cls: cls(size, **options), x, options, tolerance, parameters)


def _parameters(cls):
    layer, bare = cls((3, 4)), cls(4, elementwise_affine=False)
    return {
        "its parameters": {name: tuple(p.shape) for name, p in layer.named_parameters()},
        "its gain at the start": layer.weight.detach().clone(),
        "the parameters without elementwise_affine": list(bare.state_dict()),
    }


def _again(cls):
    """One layer, called on rows, then in eval mode on other rows of the same shape: nothing may be left of the first."""
    layer = filled(cls(5).double(), 33)
    layer(2 + draw(34, 4, 5))
    return {"the output": layer.eval()(3 * draw(35, 4, 5)).detach()}


def _rms_of_rows(cls):
    """Whether bfloat16 is widened shows in no single number, each of which is rounded at the end, but in a whole row."""
    x = draw(37, 4, 1024) * torch.tensor([[1.0], [1.2], [1.5], [1.8]]).double()
    y = cls(1024, elementwise_affine=False)(x.bfloat16())
    return {"the rms of each row of the output": y.double().square().mean(-1).sqrt()}


def _refusing(x, size):
    return refusing(lambda cls: cls(size)(x))


_FLOAT64_PROBES = [
    _computed("float64 rows with mean 3, eps = 0.1", 3 + draw(22, 4, 5), 5, eps=0.1),
    _computed("a (2, 3, 4) tensor with normalized_shape (3, 4), eps = 0.01", draw(23, 2, 3, 4), (3, 4), eps=0.01),
    _computed(
        "a (2, 3, 4) tensor without elementwise_affine", 2 * draw(24, 2, 3, 4), [4], eps=1e-3, elementwise_affine=False
    ),
    _computed("tiny float64 rows (1e-8), eps=None", 1e-8 * draw(25, 3, 6), 6),
    _computed("tiny float64 rows (1e-8), eps = 0", 1e-8 * draw(26, 3, 6), 6, eps=0.0),
    _computed("rows of 256 numbers, one of them 300", _with_an_outlier(36).expand(2, 256), 256),
    Probe("other rows of the same shape, in the same layer", _again),
]
_OTHER_TYPES_PROBES = [
    # eps decides at rows of 1e-3: every other default changes the second digit, float32 rounds in the seventh
    _computed("small float32 rows (0.001), eps=None", 1e-3 * draw(27, 3, 6, dtype=torch.float32), 6, tolerance=2e-6),
    # half a unit in the last place of float16 (bfloat16) is 2**-11 (2**-8) of the largest value; twice that is allowed
    _computed("small float16 rows (0.001), eps=None", (1e-3 * draw(28, 3, 6)).half(), 6, tolerance=2**-10),
    _computed("float16 rows of size 300", (300 * draw(31, 3, 6)).half(), 6, tolerance=2**-10),
    _computed(
        "bfloat16 rows with a float32 gain", draw(32, 3, 6, dtype=torch.bfloat16), 6, 2**-7, parameters=torch.float32
    ),
    # 1024 roundings of up to 2**-9 leave a tenth of this in the rms; a root in bfloat16 is itself off by up to 2**-9
    Probe("bfloat16 rows of 1024 numbers, without a gain", _rms_of_rows, tolerance=2**-12),
]
_OTHER_PROBES = [
    Probe("a fresh layer", _parameters),
    Probe("x of shape (2, 3, 4) with normalized_shape 5", _refusing(torch.ones(2, 3, 4), 5)),
    Probe("x of shape (2, 3, 4) with normalized_shape 1", _refusing(torch.ones(2, 3, 4), 1)),
    Probe("whole numbers (int64)", _refusing(torch.ones(2, 4, dtype=torch.int64), 4)),
]

_WIDE = "x.to(torch.promote_types(x.dtype, torch.float32))"
_EPS = "torch.finfo(wide.dtype).eps if self.eps is None else self.eps"
_MEAN = "(wide * wide).mean(axes, keepdim=True)"
_ROOT = f"torch.sqrt({_MEAN} + eps)"
_WIDE_EPS = " ; finfo(wide.dtype) -> finfo(torch.promote_types(x.dtype, torch.float32))"
_RSQRT = " ; wide / torch.sqrt -> wide * torch.rsqrt"  # other roundings
_NOT_WIDENED = "half types are not widened: squares over 65,504 overflow in float16. Compute in torch.promote_types(x.dtype, torch.float32)."
_NARROWED = "float64 is narrowed to float32. torch.promote_types(x.dtype, torch.float32) keeps the wider of the two."
_ONLY_FLOAT16 = "bfloat16 is not widened, so that its eight bits round every step. Compute in torch.promote_types(x.dtype, torch.float32)."

_FORMULA = known(
    _RMSNorm,
    {
        "y = wide / -> wide = wide - wide.mean(axes, keepdim=True)\n        y = wide /": "the mean is subtracted: that is LayerNorm. RMSNorm only scales.",
        f"{_MEAN} -> wide.var(axes, correction=0, keepdim=True)": "the variance is under the root. RMSNorm takes the mean of the squares, and subtracts nothing.",
        f"{_MEAN} -> wide.var(axes, keepdim=True)": "the deviation is divided by. RMSNorm takes the root of the mean of the squares.",
        f"{_ROOT} -> (torch.sqrt({_MEAN}) + eps)": "eps is added to the root mean square. Add it to the mean square, under the root.",
        ".mean(axes -> .sum(axes": "the sum of the squares is under the root, so that the rows have length 1. Take their mean.",
        "torch.sqrt -> ": "the root is missing: divide by sqrt(mean square + eps).",
        f"{_MEAN} -> wide.mean(axes, keepdim=True) ** 2": "that is the square of the mean. Square first, then take the mean.",
        "wide / -> wide *": "divide by the root of (mean square + eps), do not multiply.",
        f"{_ROOT} -> {_ROOT} ** 4": "the mean square is squared: take its root, torch.sqrt(...) or ** 0.5.",
        f"{_ROOT} -> torch.sqrt(torch.sqrt({_MEAN}) + eps)": "the root is taken twice: the mean square needs one.",
        f"{_WIDE} -> x.double()": "float32 and half types are computed in float64 here, and eps=None takes the machine epsilon of that. Widen to torch.promote_types(x.dtype, torch.float32).",
        f"{_ROOT} -> (torch.sqrt((wide * wide).sum(axes, keepdim=True)) + eps)": "the length of the row is divided by: that is sqrt(D) times the root mean square. Take the mean of the squares, plus eps, and the root.",
        f"{_ROOT} -> (wide.abs().mean(axes, keepdim=True) + eps)": "the mean of the absolute values is another measure. Square, take the mean, add eps, take the root.",
        f"{_MEAN} + eps -> {_MEAN}.clamp(min=eps)": "eps is a lower limit here. Add it to the mean square.",
        ".mean(axes, keepdim=True) -> .sum(axes, keepdim=True) / x.shape[-1]": "the sum is divided by the last size alone. normalized_shape may name more axes: take .mean(axes, keepdim=True).",
        "y = wide / -> wide = wide if self.weight is None else wide * self.weight\n        y = wide / ; y = y * self.weight -> pass": "the row is multiplied by the gain before it is normalized. Normalize first.",
        "y * self.weight -> y + self.weight": "the gain is added. Multiply by it.",
        "y * self.weight -> y / self.weight": "the gain is divided by. Multiply by it.",
        **{
            f"{_EPS} -> {eps}": f"{eps} is written into the formula. Use self.eps, and the machine epsilon where that is None."
            for eps in ("1e-05", "1e-06", "1e-08")
        },
        "+ eps) -> + eps * eps)": "eps is squared. It is added under the root: take it as it is.",
        " + eps -> ": "eps is not used. Add it to the mean square, under the root.",
        "(axes, keepdim=True) -> (-1, keepdim=True)": "only the last axis is reduced. normalized_shape may name more: use axes.",
        "(axes, keepdim=True) -> (0, keepdim=True)": "the first axis is reduced, across the samples. Reduce axes, those that normalized_shape names.",
        "(axes, keepdim=True) -> (tuple(range(1, x.dim())), keepdim=True)": "every axis but the first is reduced. Reduce axes, those that normalized_shape names.",
        "(axes, keepdim=True) -> ()": "all axes are reduced at once: mean() needs axes and keepdim=True.",
        ", keepdim=True -> ": "the reduced axes are gone. Say keepdim=True.",
        "y * self.weight -> y": "the gain is not used: multiply by self.weight where there is one.",
        "y * self.weight -> y * (1 + self.weight)": "the gain is used as 1 + weight. PyTorch multiplies by weight itself.",
        "if self.weight is not None -> if True": "self.weight is None without elementwise_affine: multiply only if there is a gain.",
        f"{_EPS} -> self.eps": "self.eps is None unless somebody gave one: take torch.finfo(wide.dtype).eps then.",
        **{
            f"torch.finfo(wide.dtype).eps if -> {eps} if": f"with eps=None you use {eps}. PyTorch's default is the machine epsilon of the type that is computed in, torch.finfo(wide.dtype).eps."
            for eps in ("1e-05", "1e-06", "1e-08", "1e-12", "0")
        },
        "finfo(wide.dtype) -> finfo(torch.float32)": "with eps=None you always use float32's machine epsilon. For float64 it is float64's: torch.finfo(wide.dtype).eps.",
        f"{_EPS} -> self.eps or torch.finfo(wide.dtype).eps": "eps = 0 is treated as no eps: `if self.eps` and `self.eps or ...` are false for 0. Ask whether it `is None`.",
        "finfo(wide.dtype) -> finfo(x.dtype)": "eps is taken from the type of x. Half types are computed in float32, and eps is that of float32: torch.finfo(wide.dtype).eps.",
        " if self.eps is None else self.eps -> ": "eps=... is ignored: the machine epsilon is for eps=None only.",
        **{f"{_WIDE} -> x{eps}{root}": _NOT_WIDENED for eps in ("", _WIDE_EPS) for root in ("", _RSQRT)},
        **{f"{_WIDE} -> (x.float() if x.dtype == torch.float16 else x){eps}": _ONLY_FLOAT16 for eps in ("", _WIDE_EPS)},
        "y.to(x.dtype) -> y": "the result stays float32. Give it x's dtype at the end: y.to(x.dtype).",
        **{f"{_WIDE} -> x.float(){root}": _NARROWED for root in ("", _RSQRT)},
        "(wide * wide) -> (wide * wide).detach()": "the values are right, but the mean square is cut off from the gradient.",
    },
)


def rms_norm_module(answer):
    """Check a class like nn.RMSNorm(normalized_shape, eps=None, elementwise_affine=True, device, dtype) (lesson 8)."""
    in_stages(
        answer,
        "rms_norm_module",
        [(probes, _FORMULA) for probes in (_FLOAT64_PROBES, _OTHER_TYPES_PROBES, _OTHER_PROBES)],
        _Reference,
        "rms_norm_module does what it should on {count} inputs (one and two axes, an outlier, no gain, eps given, 0 and "
        "None, four number types, gradients, bad arguments)",
        by_hand=("rms_norm", "layer_norm"),
    )


# --- same_run
def _same_run(rule, c, lr, decay):
    of_c, under = {"SGD": (2, 2), "Adam": (1, 2), "AdamW": (1, 1)}[rule]
    return c**of_c * lr, decay / c**under


def _settings(rule):
    """Return the probes of one rule: factors above and below 1, with decay and without."""
    tried = [(10.0, 0.5, 0.02), (0.25, 0.1, 0.3), (3.0, 0.01, 0.0)]
    said = dict(names=("rule", "c", "lr", "decay"), returns=("the learning rate", "the decay"), gradient=False)
    return [call(f"{rule}, from {c:g} W", rule, c, lr, decay, **said) for c, lr, decay in tried]


_RIGHT = {"SGD": (2, 2), "Adam": (1, 2), "AdamW": (1, 1)}
_TWICE = "From cW the gradient is divided by c, and the step has to be c times as long: that takes c twice, c**2 * lr."
_ONCE = "Here u does not shrink when the gradients do, and the step from cW has to be c times as long: c * lr."
_DECAY = {
    "SGD": "It is added to a gradient that is divided by c, and W is multiplied by c: decay / c**2.",
    "Adam": "Adam has it inside u, with a gradient that is divided by c, and W is multiplied by c: decay / c**2.",
    "AdamW": "AdamW takes lr * decay * W away, whatever the gradient. That share of W stays the same if lr * decay does: decay / c.",
}


def _powers(rule, of_c, under):
    """Return the cause for (c**of_c * lr, decay / c**under)."""
    rate, share = _RIGHT[rule]
    about_rate = _TWICE if rule == "SGD" else _ONCE
    if of_c < 0:
        return "that is the wrong direction: a longer W needs a longer step, so the learning rate grows with c."
    if (of_c, under) == (0, 0):
        return "those are the settings of the run from W. " + about_rate
    if (of_c, under) == _RIGHT["SGD"] != (rate, share):
        return f"those are SGD's settings. {_ONCE}"
    if of_c != rate:
        return f"the learning rate takes c {'more' if of_c > rate else 'less'} often than it should. {about_rate}"
    if under == 0:
        return "the learning rate is right and the decay is unchanged. " + _DECAY[rule]
    if under < 0:
        return "the learning rate is right, and the decay grows with c. It has to shrink. " + _DECAY[rule]
    return f"the learning rate is right, and the decay is divided by c {'more' if under > share else 'less'} often than it should be. {_DECAY[rule]}"


_SETTINGS = known(
    _same_run,
    {
        f'"{rule}": {right} -> "{rule}": ({of_c}, {under})': _powers(rule, of_c, under)
        for rule, right in _RIGHT.items()
        for of_c in (-2, -1, 0, 0.5, 1, 2, 3)
        for under in (-2, -1, 0, 1, 2, 3)
        if (of_c, under) != right
    }
    | {
        "c**of_c * lr, decay / c**under -> decay / c**under, c**of_c * lr": "the two numbers are in the other order: return lr first, then decay.",
        "c**of_c * lr, decay / c**under -> (c**of_c * lr, lr * decay)": "lr * decay is returned as the decay. In SGD that product stays what it is: decay / c**2.",
        "return c**of_c -> return 10**of_c": "10 is the factor of the lesson's example. Use the argument c.",
        "return c**of_c * lr -> return c ^ (2 * lr)": "in Python ^ is no power. Write c**2.",
    },
)


def same_run(answer):
    """Check a function (rule, c, lr, decay) -> (lr, decay) that makes the run from c W that from W (lesson 8)."""
    in_stages(
        answer,
        "same_run",
        [(_settings(rule), _SETTINGS, rule) for rule in ("SGD", "Adam", "AdamW")],
        _same_run,
        "same_run finds the settings of {count} runs (three rules, c = 10, 0.25 and 3, with decay and without)",
        kind="function",
    )


# --- clinic
_GRID = torch.tensor([k / 4 for k in range(-12, 13) if k], dtype=torch.float64)  # 24 values, without 0
_TOKEN_WEIGHT, _TOKEN_BIAS = draw(51, 3, 5), draw(52, 3, 5)  # (K, E)
_SAMPLES = draw(53, 4, 3)  # (B, K)


def _different(tokens):
    """Count the rows that stay apart by more than a thousandth of the largest distance."""
    apart = torch.cdist(tokens.double(), tokens.double())
    near = apart <= max(1e-3 * apart.max().item(), 1e-6)
    return int(sum(not near[i, :i].any() for i in range(len(tokens))))


def _counted(feature):
    x = _SAMPLES[:1].repeat(len(_GRID), 1)
    x[:, feature] = _GRID

    def run(answer):
        tokens = answer(x.clone(), _TOKEN_WEIGHT.clone(), _TOKEN_BIAS.clone())
        if not tokens.isfinite().all():
            return {"the tokens": "nan or inf among them"}
        return {"the tokens": "finite", "the number of different tokens": _different(tokens[:, feature].detach())}

    return Probe(f"24 different values of feature {feature} (x of shape (24, 3), E = 5)", run)


def _shaped(answer):
    tokens = answer(_SAMPLES.clone(), _TOKEN_WEIGHT.clone(), _TOKEN_BIAS.clone())
    said = f"{tuple(tokens.shape)}, {tokens.dtype}" if isinstance(tokens, torch.Tensor) else tokens
    return {"the shape and dtype of the tokens": said}


def _alone(answer):
    together, alone = (answer(x.clone(), _TOKEN_WEIGHT, _TOKEN_BIAS) for x in (_SAMPLES, _SAMPLES[:1]))
    said = "equal" if (together[:1] - alone).abs().max() < 1e-9 else "not equal"
    return {"the shape alone": tuple(alone.shape), "a sample's tokens alone and among three others": said}


def _own(answer):
    other = _SAMPLES.clone()
    other[:, 1] += 1
    a, b = (answer(x.clone(), _TOKEN_WEIGHT, _TOKEN_BIAS)[:, [0, 2]] for x in (_SAMPLES, other))
    return {"the tokens of features 0 and 2": "stay" if (a - b).abs().max() < 1e-9 else "change"}


def _reached(answer):
    leaves = [t.clone().requires_grad_() for t in (_SAMPLES, _TOKEN_WEIGHT, _TOKEN_BIAS)]
    tokens = answer(*(leaf.clone() for leaf in leaves))
    found = [None] * 3
    if tokens.requires_grad:
        found = torch.autograd.grad((tokens * draw(54, *tokens.shape)).sum(), leaves, allow_unused=True)
    # in weight and bias all K rows: each feature has its own
    reached = [f is not None and bool(f.abs().amax(-1).min() > 1e-9) for f in found]
    names = [name for name, yes in zip(("x", "weight", "bias"), reached, strict=True) if yes]
    return {"what the gradient reaches": ", ".join(names) or "nothing"}


def _at_zero(answer):
    tokens = answer(*(t.float() for t in (0 * _SAMPLES, _TOKEN_WEIGHT, _TOKEN_BIAS)))
    finite = "finite" if tokens.isfinite().all() else "nan or inf among them"
    return {"the tokens": finite, "the dtype of the tokens": str(tokens.dtype)}


_TOKEN_PROBES = [
    Probe("x of shape (4, 3), weight and bias of shape (3, 5)", _shaped),
    Probe("one sample alone, and the same among three others", _alone),
    Probe("another value of feature 1", _own),
    *[_counted(feature) for feature in (0, 1, 2)],
    Probe("four random samples", _reached),
    Probe("float32 features that are all 0", _at_zero),
]


def _tokens(x, weight, bias):
    return x.unsqueeze(-1) * weight + bias


_SHAPE = "x has no axis for the E numbers yet: x.unsqueeze(-1) is (B, K, 1), and times (K, E) it becomes (B, K, E)."
_NOTHING = "Nothing of the feature is left. One number minus its own mean is 0, whatever eps is, and what is added to all numbers of a row alike goes with the mean."
_SIGN = "Only the sign of the feature is left: RMSNorm of one number and LayerNorm of two are signs, and LN(a w) = LN(w) for a > 0. Add the bias before you normalize, or do not normalize."
_LOST = "Half of the values share a token with another one. Is the sign lost, so that x and -x give the same?"
_FLAT = "Some values share a token. Is there a function that is flat there, like relu, clamp or round?"
_MIXED = "The token of a feature depends on other features: something is reduced over axis K. Treat each by itself."
_BATCH = "The tokens of a sample depend on the other samples (statistics over axis 0 do that) or on chance."
_UNUSED = "or one of its K rows, is not used. It is learned, and each feature has its own row."

_CAUSES = {  # words of a refusal: the cause. What was observed says enough, whatever the code is.
    "must match the size": _SHAPE,
    "cannot be multiplied": _SHAPE,
    "different tokens: yours is 1,": _NOTHING,
    "different tokens: yours is 2,": _SIGN,
    "different tokens: yours is 12,": _LOST,
    "different tokens: yours": _FLAT,
    "features 0 and 2: yours": _MIXED,
    "among three others: yours": _BATCH,
    "Expected more than 1 value": _BATCH,
    "reaches: yours is 'x, bias'": f"The weight, {_UNUSED}",
    "reaches: yours is 'x, weight'": f"The bias, {_UNUSED}",
    "reaches: yours is 'x'": f"The weight, {_UNUSED}",
    "reaches: yours is 'weight, bias'": "x is cut off from the gradient. Take detach() out.",
    "torch.float32', expected": "The tokens are float32 whatever x is. Leave out .float(): they have x's dtype.",
    "the shape alone": "squeeze() also takes away a batch of one. Leave the shape (B, K, E).",
}
_ONE = "x.unsqueeze(-1)"
_TOKENS = known(
    _tokens,
    {
        **{f"{_ONE} -> {x}": _SHAPE for x in ("x", "x.unsqueeze(1)")},
        "x.unsqueeze(-1) * -> x @": _SHAPE,
        **{f"{_ONE} -> F.layer_norm({_ONE}, (1,){eps})": _NOTHING for eps in ("", ", eps=1.0")},
        f"{_ONE} * weight -> F.layer_norm({_ONE} + bias, bias.shape[-1:]) * weight": _NOTHING,
        f"{_ONE} -> F.rms_norm({_ONE}, (1,))": _SIGN,
        **{f"{_ONE} * weight -> F.{n}_norm({_ONE} * weight, weight.shape[-1:])": _SIGN for n in ("layer", "rms")},
        **{f"{_ONE} -> {_ONE}{end}": _LOST for end in (".abs()", " ** 2")},
        **{f"{_ONE} -> {_ONE}{end}": _FLAT for end in (".relu()", ".round()", ".clamp(-1, 1)")},
        **{f"{_ONE} -> {x}.unsqueeze(-1)": _MIXED for x in ("F.layer_norm(x, x.shape[-1:])", "x.softmax(-1)")},
        f"{_ONE} * weight + bias -> F.layer_norm({_ONE} * weight + bias, weight.shape)": _MIXED,
        f"{_ONE} -> ((x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)).unsqueeze(-1)": _BATCH,
        f"{_ONE} -> ((x - x.mean()) / x.std()).unsqueeze(-1)": _BATCH,
        f"{_ONE} -> F.batch_norm(x, None, None, training=True).unsqueeze(-1)": _BATCH,
        **{f" * weight -> {w}": _CAUSES["reaches: yours is 'x, bias'"] for w in ("", " * weight[0]")},
        **{f" + bias -> {b}": _CAUSES["reaches: yours is 'x, weight'"] for b in ("", " + bias[0]")},
        "weight + bias -> weight[0] + bias[0]": _CAUSES["reaches: yours is 'x'"],
        f"{_ONE} * weight + bias -> ({_ONE} * weight + bias).float()": _CAUSES["torch.float32', expected"],
        f"{_ONE} -> {_ONE}.detach()": _CAUSES["reaches: yours is 'weight, bias'"],
        f"{_ONE} * weight + bias -> ({_ONE} * weight + bias).squeeze()": _CAUSES["the shape alone"],
    },
)


def mended_tokens(answer):
    """Check a function x (B, K), weight, bias (K, E) -> tokens (B, K, E) that keep every value apart (lesson 8)."""
    announce(_TOKENS)
    try:
        tried = "24 values of each feature, samples alone, other features, gradients"
        examine(answer, "mended_tokens", _TOKEN_PROBES, _tokens, tried=tried)
    except NotYet as wrong:
        said, _, cause = str(wrong).removeprefix("Not yet. ").partition("\n")
        reject(said, cause or next((why for words, why in _CAUSES.items() if words in said), None))

"""Checks of lesson 8: LayerNorm as projection and scaling, RMSNorm, one run from two starts, lost features."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.contract import Contract, of_a_layer, same_in_eval
from lessonkit.check.core import (
    NotYet,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    filled,
    in_float64,
    misconceptions,
    reject,
)
from lessonkit.check.misconceptions import announce, instead


# --- project_and_scale
def _project_and_scale(x, eps=1e-5):
    D = x.shape[-1]
    ones = torch.ones(D, D, dtype=x.dtype, device=x.device)
    P = torch.eye(D, dtype=x.dtype, device=x.device) - ones / D
    p = x @ P
    squares = (p * p).sum(-1, keepdim=True)
    length = torch.sqrt(squares + D * eps)
    radius = D**0.5
    return radius * p / length


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
]
_MOVES_CONTRACT = Contract(
    {"x": "... D"},
    options=({}, {"eps": 0.1}),
    sizes={"D": (7, 2, 17, 300)},
    values=("ordinary", "small", "outlier"),  # x @ P loses digits far from 0, as the lesson says
    gradient=1,
)

_MOVES = misconceptions(
    _project_and_scale,
    """
    # eps is added to the squared length as it is. That length is D times the variance. | D * eps.
    length = torch.sqrt(squares + eps)

    # eps is added to the length. It belongs under the root. | sqrt(|P x|^2 + D eps).
    length = torch.sqrt(squares) + eps
    # or
    length = torch.sqrt(squares) + D * eps

    # eps is a lower limit of the length here. | Add D * eps under the root.
    length = torch.sqrt(squares).clamp(min=(D * eps) ** 0.5)

    # F.normalize takes its eps as the smallest length allowed, not under the root with a factor D.
    return radius * F.normalize(p, dim=-1)
    # or
    return radius * F.normalize(p, dim=-1, eps=eps)

    # the squares are not summed: each number is divided by its own size. | .sum(-1, keepdim=True).
    squares = p * p

    # the sum is squared, and it is 0 after the projection. | Square first, then sum.
    squares = p.sum(-1, keepdim=True) ** 2

    # one mean of all numbers is subtracted. Each row has its own. | x @ P.
    p = x - x.mean()

    # the mean is taken over the first axis. Each row has its own, over the last. | x @ P.
    p = x - x.mean(0)

    # there is no eps. A row of equal numbers is 0/0 then.
    length = torch.sqrt(squares)

    # the rows end on a sphere of radius 1. | The radius is sqrt(D): multiply the unit arrow by D**0.5.
    radius = 1

    # the rows end on a sphere of radius D. The root is missing. | The radius is sqrt(D).
    radius = D

    # that is the radius sqrt(D - 1), the largest single number. | The radius is sqrt(D).
    radius = (D - 1) ** 0.5

    # the root is missing below the fraction line. | Divide by the length, not by its square.
    length = squares + D * eps

    # sqrt(D) belongs above the fraction line and the length below: here it is the other way round.
    return p * length / radius

    # you multiply by the length. | Divide by it. (torch.rsqrt is 1 over the root: multiply by that.)
    return radius * p * length

    # the rows are not projected: that is RMSNorm. | Multiply by P first.
    p = x

    # the length of x is used instead of the length of P x.
    squares = (x * x).sum(-1, keepdim=True)

    # x itself is scaled. The length is that of P x, but P x must be above the fraction line, too.
    return radius * x / length

    # P is I minus the matrix of all ones. | Each of those ones must be 1/D.
    P = torch.eye(D, dtype=x.dtype, device=x.device) - ones

    # that is I - I/D: only the diagonal is changed. 11^T is the matrix of all ones.
    P = torch.eye(D, dtype=x.dtype, device=x.device) * (1 - 1 / D)

    # the sign of the second term: P = I - 11^T / D, minus.
    P = torch.eye(D, dtype=x.dtype, device=x.device) + ones / D

    # that is the projection onto 1, what is to be removed. | P = I - 11^T / D.
    P = ones / D

    # P is on the wrong side. The rows lie along the last axis of x. | x @ P (P is symmetric).
    p = P @ x

    # the squared length is divided by D, so that it is the variance: eps and the radius must have no D then.
    squares = (p * p).mean(-1, keepdim=True)

    # one length for all rows together. Each row has its own. | .sum(-1, keepdim=True).
    squares = (p * p).sum()

    # the rows are only projected. | Scale them to the radius sqrt(D).
    return p

    # the reduced axis is gone, so that the lengths cannot line up with the rows. | keepdim=True.
    squares = (p * p).sum(-1)

    # the number 1e-5 is written into the formula. | Use the argument eps.
    length = torch.sqrt(squares + D * 1e-5)

    # P is made in float32, and float64 rows need it in float64. | Give torch.eye the dtype and device of x.
    P = torch.eye(D) - 1 / D
    # or
    P = (torch.eye(D) - 1 / D).to(x)

    # the squared length was divided by D - 1. The projection has D - 1 dimensions, but the radius is sqrt(D).
    return p / torch.sqrt(x.var(-1, keepdim=True) + eps)

    # the values are right, but the length is cut off from the gradient.
    squares = (p * p).sum(-1, keepdim=True).detach()
    """,
)


def project_and_scale(answer):
    """Check a function x (..., D), eps=1e-5 -> sqrt(D) P x / sqrt(|P x|^2 + D eps) (lesson 8)."""
    tried = "small spread, offsets, an outlier, values of eps, equal numbers, gradients"
    own = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")
    how = {"by_hand": own, "devices": True, "contract": _MOVES_CONTRACT}
    examine(answer, "project_and_scale", _MOVES_PROBES, in_float64(_project_and_scale), _MOVES, tried, **how)


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
        square = (wide * wide).mean(axes, keepdim=True)
        rms = torch.sqrt(square + eps)
        x_hat = wide / rms
        y = x_hat if self.weight is None else x_hat * self.weight
        return y.to(x.dtype)


# computed in float64, with the eps of the type that the answer computes in
_Reference = instead(_RMSNorm, "square = (wide.double() ** 2).mean(axes, keepdim=True)\nx_hat = wide.double() / rms")


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


_FLOAT64_PROBES = [
    _computed("float64 rows with mean 3, eps = 0.1", 3 + draw(22, 4, 5), 5, eps=0.1),
    _computed("a (2, 3, 4) tensor with normalized_shape (3, 4), eps = 0.01", draw(23, 2, 3, 4), (3, 4), eps=0.01),
    _computed(
        "a (2, 3, 4) tensor without elementwise_affine", 2 * draw(24, 2, 3, 4), [4], eps=1e-3, elementwise_affine=False
    ),
    _computed("tiny float64 rows (1e-8), eps=None", 1e-8 * draw(25, 3, 6), 6),
    _computed("tiny float64 rows (1e-8), eps = 0", 1e-8 * draw(26, 3, 6), 6, eps=0.0),
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
_OFFERED = (lambda cls: cls(5), draw(38, 4, 5))
_RMS_CONTRACT = Contract(
    {"x": "... E D"},
    use=lambda cls, sizes, **options: cls((sizes["E"], sizes["D"]), **options),
    options=({"eps": 1e-5}, {"eps": 0.1}, {"eps": 1e-5, "elementwise_affine": False}),
    sizes={"E": (1, 3), "D": (7, 1, 2, 17, 400)},
    half=True,
)

_FORMULA = misconceptions(
    _RMSNorm,
    """
    # the mean is subtracted: that is LayerNorm. RMSNorm only scales.
    wide = wide - wide.mean(self.axes(x), keepdim=True) if (wide := x.to(torch.promote_types(x.dtype, torch.float32))) is not None else x

    # the variance is under the root. RMSNorm takes the mean of the squares, and subtracts nothing.
    square = wide.var(axes, correction=0, keepdim=True)

    # the deviation is divided by. RMSNorm takes the root of the mean of the squares.
    square = wide.var(axes, keepdim=True)

    # eps is added to the root mean square. | Add it to the mean square, under the root.
    rms = torch.sqrt(square) + eps

    # the sum of the squares is under the root, so that the rows have length 1. | Take their mean.
    square = (wide * wide).sum(axes, keepdim=True)

    # the root is missing. | Divide by sqrt(mean square + eps).
    rms = square + eps

    # that is the square of the mean. | Square first, then take the mean.
    square = wide.mean(axes, keepdim=True) ** 2

    # you multiply by the root of (mean square + eps). | Divide by it.
    x_hat = wide * rms

    # float32 and half types are computed in float64 here, and eps=None takes the machine epsilon of that. | Widen to torch.promote_types(x.dtype, torch.float32).
    wide = x.double()

    # the mean of the absolute values is another measure. | Square, take the mean, add eps, take the root.
    square = wide.abs().mean(axes, keepdim=True) ** 2

    # eps is a lower limit here. | Add it to the mean square.
    rms = torch.sqrt(square.clamp(min=eps))

    # the row is multiplied by the gain before it is normalized. | Normalize first.
    wide = x.to(torch.promote_types(x.dtype, torch.float32)) * (1 if self.weight is None else self.weight)
    y = x_hat

    # a number is written into the formula. | Use self.eps, and the machine epsilon where that is None.
    eps = 1e-6
    # or
    eps = 1e-5
    # or
    eps = 1e-8

    # eps is not used. | Add it to the mean square, under the root.
    rms = torch.sqrt(square)

    # only the last axis is reduced. normalized_shape may name more. | Use axes.
    square = (wide * wide).mean(-1, keepdim=True)

    # the first axis is reduced, across the samples. | Reduce axes, those that normalized_shape names.
    square = (wide * wide).mean(0, keepdim=True)

    # all axes are reduced at once. | mean() needs axes and keepdim=True.
    square = (wide * wide).mean()

    # the reduced axes are gone, and the rows no longer fit. | Say keepdim=True.
    square = (wide * wide).mean(axes)

    # the gain is not used. | Multiply by self.weight where there is one.
    y = x_hat

    # the gain is used as 1 + weight. PyTorch multiplies by weight itself.
    y = x_hat if self.weight is None else x_hat * (1 + self.weight)

    # self.weight is None without elementwise_affine. | Multiply only if there is a gain.
    y = x_hat * self.weight

    # self.eps is None unless somebody gave one. | Take torch.finfo(wide.dtype).eps then.
    eps = self.eps

    # with eps=None you use a number of your own. PyTorch's default is the machine epsilon of the type that is computed in. | torch.finfo(wide.dtype).eps.
    eps = 1e-6 if self.eps is None else self.eps
    # or
    eps = 1e-5 if self.eps is None else self.eps
    # or
    eps = 0 if self.eps is None else self.eps

    # with eps=None you always use float32's machine epsilon. For float64 it is float64's. | torch.finfo(wide.dtype).eps.
    eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps

    # eps = 0 is treated as no eps: `if self.eps` and `self.eps or ...` are false for 0. | Ask whether it `is None`.
    eps = self.eps or torch.finfo(wide.dtype).eps

    # eps = 0 is treated as no eps, and float64 is narrowed to float32. | Ask whether it `is None`; torch.promote_types(x.dtype, torch.float32) keeps the wider type.
    wide = x.float()
    eps = self.eps or torch.finfo(x.dtype).eps
    # or
    wide = x.float()
    eps = self.eps or 1e-6

    # eps is taken from the type of x. Half types are computed in float32, and eps is that of float32. | torch.finfo(wide.dtype).eps.
    eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps

    # eps=... is ignored: the machine epsilon is for eps=None only.
    eps = torch.finfo(wide.dtype).eps

    # half types are not widened: squares over 65,504 overflow in float16. | Compute in torch.promote_types(x.dtype, torch.float32).
    wide = x
    # or
    wide = x
    eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if self.eps is None else self.eps

    # bfloat16 is not widened, so that its eight bits round every step. | Compute in torch.promote_types(x.dtype, torch.float32).
    wide = x.float() if x.dtype == torch.float16 else x

    # the result stays float32. | Give it x's dtype at the end: y.to(x.dtype).
    return y

    # float64 is narrowed to float32. | torch.promote_types(x.dtype, torch.float32) keeps the wider of the two.
    wide = x.float()

    # the values are right, but the mean square is cut off from the gradient.
    square = (wide * wide).mean(axes, keepdim=True).detach()
    """,
)


def rms_norm_module(answer):
    """Check a class like nn.RMSNorm(normalized_shape, eps=None, elementwise_affine=True, device, dtype) (lesson 8)."""
    layer = [
        Probe("a fresh layer", _parameters),
        *of_a_layer(*_OFFERED, other=lambda cls: cls(5, eps=0.5)),
        same_in_eval(*_OFFERED),
    ]
    stages = [(probes, "") for probes in (_FLOAT64_PROBES, _OTHER_TYPES_PROBES, layer)]
    tried = "one and two axes, no gain, eps given, 0 and None, four number types, gradients"
    how = {"kind": "class", "contract": _RMS_CONTRACT, "by_hand": ("rms_norm", "layer_norm")}
    examine(answer, "rms_norm_module", stages, _RMS, _FORMULA, tried, **how)


class _RMS(_Reference):
    plain = nn.RMSNorm  # for the sweep, which chooses the number type itself


# --- same_run
def _same_run(rule, c, lr, decay):
    powers = {"SGD": (2, 2), "Adam": (1, 2), "AdamW": (1, 1)}
    of_c, under = powers[rule]
    new_lr = c**of_c * lr
    new_decay = decay / c**under
    return new_lr, new_decay


def _settings(rule):
    """Return the probes of one rule: factors above and below 1, with decay and without."""
    values = [(10.0, 0.5, 0.02), (0.25, 0.1, 0.3), (3.0, 0.01, 0.0)]
    how = dict(names=("rule", "c", "lr", "decay"), returns=("the learning rate", "the decay"), gradient=False)
    return [call(f"{rule}, from {c:g} W", rule, c, lr, decay, **how) for c, lr, decay in values]


_TWICE = (
    "From cW the gradient is divided by c, and the step has to be c times as long. | That takes c twice: c**2 * lr."
)
_ONCE = "Here u does not shrink when the gradients do, and the step from cW has to be c times as long. | c * lr."
_ADDED = "The decay is added to a gradient that is divided by c, and W is multiplied by c. | decay / c**2."
_SHARE = "AdamW takes lr * decay * W away, whatever the gradient: that share of W stays the same if lr * decay does. | decay / c."
_SETTINGS = misconceptions(
    _same_run,
    f"""
    # those are the settings of the run from W, for every rule. {_TWICE}
    powers = dict.fromkeys(("SGD", "Adam", "AdamW"), (0, 0))

    # that is the wrong direction: a longer W needs a longer step, so the learning rate grows with c.
    powers = dict.fromkeys(("SGD", "Adam", "AdamW"), (-1, 0))
    # or
    powers = dict.fromkeys(("SGD", "Adam", "AdamW"), (-2, 2))

    # SGD's learning rate takes c less often than it should. {_TWICE}
    powers = powers | {{"SGD": (1, 2)}} if (powers := {{"Adam": (1, 2), "AdamW": (1, 1)}}) else None
    # or
    powers = {{"SGD": (1, 1), "Adam": (1, 2), "AdamW": (1, 1)}}
    # or
    powers = {{"SGD": (1, 0), "Adam": (1, 2), "AdamW": (1, 1)}}

    # SGD's learning rate is right and the decay is unchanged. {_ADDED}
    powers = {{"SGD": (2, 0), "Adam": (1, 2), "AdamW": (1, 1)}}

    # SGD's learning rate is right, and the decay is divided by c less often than it should be. {_ADDED}
    powers = {{"SGD": (2, 1), "Adam": (1, 2), "AdamW": (1, 1)}}

    # the decay grows with c. It has to shrink. {_ADDED}
    powers = {{"SGD": (2, -2), "Adam": (1, -2), "AdamW": (1, -1)}}

    # Adam gets SGD's settings. {_ONCE}
    powers = {{"SGD": (2, 2), "Adam": (2, 2), "AdamW": (1, 1)}}
    # or
    powers = dict.fromkeys(("SGD", "Adam", "AdamW"), (2, 2))

    # Adam gets AdamW's settings. Adam has the decay inside u, with a gradient that is divided by c, and W is multiplied by c. | decay / c**2.
    powers = {{"SGD": (2, 2), "Adam": (1, 1), "AdamW": (1, 1)}}

    # Adam's learning rate is right and the decay is unchanged. {_ADDED}
    powers = {{"SGD": (2, 2), "Adam": (1, 0), "AdamW": (1, 1)}}

    # AdamW gets Adam's settings. {_SHARE}
    powers = {{"SGD": (2, 2), "Adam": (1, 2), "AdamW": (1, 2)}}

    # AdamW gets SGD's settings. {_ONCE}
    powers = {{"SGD": (2, 2), "Adam": (1, 2), "AdamW": (2, 2)}}

    # AdamW's learning rate is right and the decay is unchanged. {_SHARE}
    powers = {{"SGD": (2, 2), "Adam": (1, 2), "AdamW": (1, 0)}}

    # the two numbers are in the other order. | Return lr first, then decay.
    return new_decay, new_lr

    # lr * decay is returned as the decay. | In SGD that product stays what it is: decay / c**2.
    new_decay = lr * decay

    # in Python ^ is no power. | Write c**2.
    new_lr = c ^ (2 * lr)
    """,
)


def same_run(answer):
    """Check a function (rule, c, lr, decay) -> (lr, decay) that makes the run from c W that from W (lesson 8)."""
    stages = [(_settings(rule), rule) for rule in ("SGD", "Adam", "AdamW")]
    right = "same_run finds the settings of {count} runs (three rules, c = 10, 0.25 and 3, with decay and without)"
    examine(answer, "same_run", stages, _same_run, _SETTINGS, right=right)


# --- clinic
_GRID = torch.tensor([k / 4 for k in range(-12, 13) if k], dtype=torch.float64)  # 24 values, without 0
_FAR_OUT = torch.tensor([3.5, 4, 4.5, 5, -3.5, -4, -4.5, -5], dtype=torch.float64)
_TOKEN_WEIGHT, _TOKEN_BIAS = draw(51, 3, 5), draw(52, 3, 5)  # (K, E)
_SAMPLES = draw(53, 4, 3)  # (B, K)


def _different(tokens, share):
    """Count the rows that stay apart by more than a share of the largest distance."""
    apart = torch.cdist(tokens.double(), tokens.double())
    near = apart <= max(share * apart.max().item(), 1e-9)
    return int(sum(not near[i, :i].any() for i in range(len(tokens))))


def _counted(feature, values, label, share=1e-3):
    x = _SAMPLES[:1].repeat(len(values), 1)
    x[:, feature] = values

    def run(answer):
        tokens = answer(x.clone(), _TOKEN_WEIGHT.clone(), _TOKEN_BIAS.clone())
        if not tokens.isfinite().all():
            return {"the tokens": "nan or inf among them"}
        return {
            "the tokens": "finite",
            "the number of different tokens": _different(tokens[:, feature].detach(), share),
        }

    shape = f"(x of shape ({len(values)}, 3), E = 5)"
    return Probe(f"{len(values)} different values of feature {feature}, {label} {shape}", run)


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
    *[_counted(feature, _GRID, "from -3 to 3") for feature in (0, 1, 2)],
    _counted(1, _GRID / 150, "from -0.02 to 0.02"),
    _counted(2, _FAR_OUT, "from 3.5 to 5 on both sides", 1e-6),  # tanh keeps them 3e-5 apart
    Probe("four random samples", _reached),
    Probe("float32 features that are all 0", _at_zero),
]


def _tokens(x, weight, bias):
    column = x.unsqueeze(-1)
    return column * weight + bias


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
_TOKENS = misconceptions(
    _tokens,
    f"""
    # {_SHAPE}
    column = x
    # or
    return x @ weight + bias

    # {_NOTHING}
    column = F.layer_norm(x.unsqueeze(-1), (1,))
    # or
    column = F.layer_norm(x.unsqueeze(-1), (1,), eps=1.0)
    # or
    return F.layer_norm(column + bias, bias.shape[-1:]) * weight + bias

    # {_SIGN}
    column = F.rms_norm(x.unsqueeze(-1), (1,))
    # or
    return F.layer_norm(column * weight, weight.shape[-1:]) + bias

    # {_LOST}
    column = x.unsqueeze(-1).abs()
    # or
    column = x.unsqueeze(-1) ** 2

    # {_FLAT}
    column = x.unsqueeze(-1).relu()
    # or
    column = (x * 100).round().unsqueeze(-1) / 100
    # or
    column = x.unsqueeze(-1).clamp(-4, 4)
    # or
    column = F.hardshrink(x.unsqueeze(-1), 0.01)

    # {_MIXED}
    column = F.layer_norm(x, x.shape[-1:]).unsqueeze(-1)
    # or
    column = x.softmax(-1).unsqueeze(-1)

    # {_BATCH}
    column = ((x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)).unsqueeze(-1)
    # or
    column = F.batch_norm(x, None, None, training=True).unsqueeze(-1)

    # {_CAUSES["reaches: yours is 'x, bias'"]}
    return column + bias
    # or
    return column * weight[0] + bias

    # {_CAUSES["reaches: yours is 'x, weight'"]}
    return column * weight

    # {_CAUSES["torch.float32', expected"]}
    return (column * weight + bias).float()

    # {_CAUSES["reaches: yours is 'weight, bias'"]}
    column = x.detach().unsqueeze(-1)

    # {_CAUSES["the shape alone"]}
    return (column * weight + bias).squeeze()
    """,
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

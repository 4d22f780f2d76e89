"""Checks of lesson 8: LayerNorm as projection and scaling, RMSNorm, invariances, effective learning rate, lost features."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import (
    Mistake,
    NotYet,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    in_float64,
    in_stages,
    observe,
    refusing,
    reject,
    values,
)

# ---------------------------------------------------------------------------------------------- project_and_scale


def _layer_norm(x, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def _two_moves(project=None, radius=None, length=None):
    """Return a project_and_scale with one part changed.

    project: x -> the projected rows. radius: D -> number. length: (p, D, eps) -> what is divided by.
    """

    def answer(x, eps=1e-5):
        D = x.shape[-1]
        p = project(x) if project else x - x.mean(-1, keepdim=True)
        size = length(p, D, eps) if length else torch.sqrt(_squares(p) + D * eps)
        return (radius(D) if radius else D**0.5) * p / size

    return answer


def _squares(p):
    return (p * p).sum(-1, keepdim=True)


def _times(matrix):
    """Rows times matrix(I, D), where I is the identity in float64."""
    return lambda x: x @ matrix(torch.eye(x.shape[-1], dtype=torch.float64), x.shape[-1]).to(x)


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
]

_NO_D = "eps stands beside the squared length here, which is D times the variance: D * eps."
_RADIUS = "the radius is sqrt(D): multiply the unit arrow by D**0.5."

_MOVES = [
    Mistake(_NO_D, _two_moves(length=lambda p, D, eps: torch.sqrt(_squares(p) + eps))),
    Mistake(
        "eps is divided by D. The squared length is D times the variance, so it is D * eps.",
        _two_moves(length=lambda p, D, eps: torch.sqrt(_squares(p) + eps / D)),
    ),
    *[
        Mistake(
            "eps is added to the length. It belongs under the root: sqrt(|P x|^2 + D eps).",
            _two_moves(
                length=lambda p, D, eps, k=k: torch.sqrt(_squares(p)) + eps * (D if k == 1 else D**0.5 if k else 1)
            ),
        )
        for k in (0, 1, 2)
    ],
    Mistake(
        "there is no eps. A row of equal numbers is 0/0 then.",
        _two_moves(length=lambda p, D, eps: torch.sqrt(_squares(p))),
    ),
    Mistake(
        "F.normalize takes its eps as the smallest length allowed, not under the root with a factor D.",
        lambda x, eps=1e-5: x.shape[-1] ** 0.5 * F.normalize(x - x.mean(-1, keepdim=True), dim=-1),
    ),
    Mistake(
        "F.normalize takes its eps as the smallest length allowed, not under the root with a factor D.",
        lambda x, eps=1e-5: x.shape[-1] ** 0.5 * F.normalize(x - x.mean(-1, keepdim=True), dim=-1, eps=eps),
    ),
    Mistake("the rows end on a sphere of radius 1. " + _RADIUS.capitalize(), _two_moves(radius=lambda D: 1)),
    Mistake(
        "the rows end on a sphere of radius 1, and eps is not multiplied by D: sqrt(D) P x / sqrt(|P x|^2 + D eps).",
        _two_moves(radius=lambda D: 1, length=lambda p, D, eps: torch.sqrt(_squares(p) + eps)),
    ),
    Mistake("the rows end on a sphere of radius D. The root is missing: " + _RADIUS, _two_moves(radius=lambda D: D)),
    Mistake(
        "that is the radius sqrt(D - 1), the largest single number. " + _RADIUS,
        _two_moves(radius=lambda D: (D - 1) ** 0.5),
    ),
    Mistake(
        "the root is missing below the fraction line: divide by the length, not by its square.",
        _two_moves(length=lambda p, D, eps: _squares(p) + D * eps),
    ),
    Mistake(
        "multiply by sqrt(D) and divide by the length: here it is the other way round.",
        lambda x, eps=1e-5: (
            (x - x.mean(-1, keepdim=True))
            * torch.sqrt(_squares(x - x.mean(-1, keepdim=True)) + x.shape[-1] * eps)
            / x.shape[-1] ** 0.5
        ),
    ),
    Mistake("the rows are not projected: that is RMSNorm. Multiply by P first.", _two_moves(project=lambda x: x)),
    Mistake(
        "the length of x is used instead of the length of P x.",
        lambda x, eps=1e-5: (
            x.shape[-1] ** 0.5 * (x - x.mean(-1, keepdim=True)) / torch.sqrt(_squares(x) + x.shape[-1] * eps)
        ),
    ),
    Mistake(
        "P is I minus the matrix of all ones. Each of those ones must be 1/D.",
        _two_moves(project=_times(lambda eye, D: eye - 1)),
    ),
    Mistake(
        "that is I - I/D: only the diagonal is changed. 11^T is the matrix of all ones.",
        _two_moves(project=_times(lambda eye, D: eye - eye / D)),
    ),
    Mistake(
        "the sign of the second term: P = I - 11^T / D, minus.", _two_moves(project=_times(lambda eye, D: eye + 1 / D))
    ),
    Mistake(
        "the sign is turned round: P = I - 11^T / D, not 11^T / D - I.",
        _two_moves(project=_times(lambda eye, D: 1 / D - eye)),
    ),
    Mistake(
        "that is the projection onto 1, what is to be removed. P = I - 11^T / D.",
        _two_moves(project=lambda x: x.mean(-1, keepdim=True).expand_as(x)),
    ),
    Mistake(
        "P stands on the wrong side. The rows lie along the last axis of x, so it is x @ P (P is symmetric).",
        _two_moves(project=lambda x: (torch.eye(x.shape[-1]).to(x) - 1 / x.shape[-1]) @ x),
    ),
    Mistake(
        "x itself is scaled. The length is that of P x, but P x must stand above the fraction line, too.",
        lambda x, eps=1e-5: (
            x.shape[-1] ** 0.5 * x / torch.sqrt(_squares(x - x.mean(-1, keepdim=True)) + x.shape[-1] * eps)
        ),
    ),
    *[
        Mistake(
            "the squared length is divided by D, so that it is the variance: eps and the radius must not have a D there.",
            f,
        )
        for f in (
            _two_moves(radius=lambda D: 1, length=lambda p, D, eps: torch.sqrt(_squares(p) / D + D * eps)),
            _two_moves(length=lambda p, D, eps: torch.sqrt(_squares(p) / D + D * eps)),
        )
    ],
    Mistake(
        "the sum of the absolute values is another length. Square, sum and take the root.",
        _two_moves(length=lambda p, D, eps: p.abs().sum(-1, keepdim=True) + D * eps),
    ),
    Mistake(
        "torch.tensor(...) without a dtype is float32. Write the number D**0.5 itself.",
        _two_moves(radius=lambda D: torch.tensor(float(D)).sqrt()),
    ),
    Mistake(
        "D is taken from the first axis. It is the number of features, x.shape[-1].",
        lambda x, eps=1e-5: x @ (torch.eye(x.shape[0]) - 1 / x.shape[0]).to(x),
    ),
    Mistake(
        "one length for all rows together. Each row has its own: .sum(-1, keepdim=True).",
        _two_moves(length=lambda p, D, eps: torch.sqrt((p * p).sum() + D * eps)),
    ),
    Mistake(
        "the rows are only projected. Scale them to the radius sqrt(D).",
        lambda x, eps=1e-5: x - x.mean(-1, keepdim=True),
    ),
    Mistake(
        "the reduced axis is gone, so that the lengths cannot line up with the rows. Say keepdim=True.",
        _two_moves(length=lambda p, D, eps: torch.sqrt((p * p).sum(-1) + D * eps)),
    ),
    Mistake("the number 1e-5 is written into the formula. Use the argument eps.", lambda x, eps=1e-5: _layer_norm(x)),
    *[
        Mistake(
            "P is made in float32, and float64 rows need it in float64: give torch.eye the dtype and device of x.", f
        )
        for f in (
            _two_moves(project=lambda x: x @ (torch.eye(x.shape[-1]) - 1 / x.shape[-1])),
            _two_moves(project=lambda x: x @ (torch.eye(x.shape[-1]) - 1 / x.shape[-1]).to(x)),
        )
    ],
    Mistake(
        "the squared length was divided by D - 1. The projection has D - 1 dimensions, but the radius is sqrt(D).",
        lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps),
    ),
    Mistake(
        "the values are right, but the length is cut off from the gradient.",
        _two_moves(length=lambda p, D, eps: torch.sqrt(_squares(p.detach()) + D * eps)),
    ),
]


def project_and_scale(answer):
    """Check a function x (..., D), eps=1e-5 -> sqrt(D) P x / sqrt(|P x|^2 + D eps) (lesson 8)."""
    examine(
        answer,
        "project_and_scale",
        _MOVES_PROBES,
        in_float64(_layer_norm),
        _MOVES,
        tried="small spread, offsets, three values of eps, equal numbers, gradients",
    )


# ------------------------------------------------------------------------------------------------ rms_norm_module


class _Right(nn.Module):
    """A right RMSNorm whose parts the mistakes below override."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        weight = (
            nn.Parameter(torch.ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("weight", weight)

    def axes(self, x):
        return tuple(range(-len(self.normalized_shape), 0))

    def wide(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def epsilon(self, x, wide):
        return torch.finfo(wide.dtype).eps if self.eps is None else self.eps

    def normalized(self, x, axes, eps):
        return x / torch.sqrt((x * x).mean(axes, keepdim=True) + eps)

    def affine(self, y):
        return y if self.weight is None else y * self.weight

    def back(self, y, x):
        return y.to(x.dtype)

    def forward(self, x):
        if tuple(x.shape[-len(self.normalized_shape) :]) != self.normalized_shape:
            raise RuntimeError("shape")
        if not x.is_floating_point():
            raise NotImplementedError("dtype")
        wide = self.wide(x)
        return self.back(self.affine(self.normalized(wide, self.axes(x), self.epsilon(x, wide))), x)


def _variant(**parts):
    return type("RMSNorm", (_Right,), parts)


class _Reference(_Right):
    """Computed in float64, with the eps of the type that is computed in."""

    def normalized(self, x, axes, eps):
        return super().normalized(x.double(), axes, eps)


def _computed(label, x, size, tolerance=1e-9, parameters=None, **options):
    return call_layer(label, lambda cls: cls(size, **options), x, options, tolerance, parameters)


def _parameters(cls):
    layer, bare = cls((3, 4)), cls(4, elementwise_affine=False)
    return {
        "its parameters": {name: tuple(p.shape) for name, p in layer.named_parameters()},
        "its gain at the start": layer.weight.detach().clone(),
        "the parameters without elementwise_affine": list(bare.state_dict()),
    }


def _refusing(x, size):
    return refusing(lambda cls: cls(size)(x))


_MODULE_PROBES = [
    _computed("float64 rows with mean 3, eps = 0.1", 3 + draw(22, 4, 5), 5, eps=0.1),
    _computed("a (2, 3, 4) tensor with normalized_shape (3, 4), eps = 0.01", draw(23, 2, 3, 4), (3, 4), eps=0.01),
    _computed(
        "a (2, 3, 4) tensor without elementwise_affine", 2 * draw(24, 2, 3, 4), [4], eps=1e-3, elementwise_affine=False
    ),
    _computed("tiny float64 rows (1e-8), eps=None", 1e-8 * draw(25, 3, 6), 6),
    _computed("tiny float64 rows (1e-8), eps = 0", 1e-8 * draw(26, 3, 6), 6, eps=0.0),
    # eps decides at rows of 1e-3: every other default changes the second digit, float32 rounds in the seventh
    _computed("small float32 rows (0.001), eps=None", 1e-3 * draw(27, 3, 6, dtype=torch.float32), 6, tolerance=2e-6),
    # half a unit in the last place of float16 (bfloat16) is 2**-11 (2**-8) of the largest value; twice that is allowed
    _computed("small float16 rows (0.001), eps=None", (1e-3 * draw(28, 3, 6)).half(), 6, tolerance=2**-10),
    _computed("float16 rows of size 300", (300 * draw(31, 3, 6)).half(), 6, tolerance=2**-10),
    _computed(
        "bfloat16 rows with a float32 gain",
        draw(32, 3, 6, dtype=torch.bfloat16),
        6,
        tolerance=2**-7,
        parameters=torch.float32,
    ),
    Probe("a fresh layer", _parameters),
    Probe("x of shape (2, 3, 4) with normalized_shape 5", _refusing(torch.ones(2, 3, 4), 5)),
    Probe("x of shape (2, 3, 4) with normalized_shape 1", _refusing(torch.ones(2, 3, 4), 1)),
    Probe("whole numbers (int64)", _refusing(torch.ones(2, 4, dtype=torch.int64), 4)),
]


def _scaled_by(rule):
    return _variant(normalized=lambda self, x, axes, eps: x / rule(x, axes, eps))


def _mean_square(x, axes):
    return (x * x).mean(axes, keepdim=True)


def _default(value):
    return _variant(epsilon=lambda self, x, wide: value if self.eps is None else self.eps)


def _without_keepdim(self, x, axes, eps):
    return x / torch.sqrt((x * x).mean(axes) + eps)


_FORMULA = [
    Mistake(
        "the mean is subtracted: that is LayerNorm. RMSNorm only scales.",
        _variant(
            normalized=lambda self, x, axes, eps: (
                (c := x - x.mean(axes, keepdim=True)) / torch.sqrt(_mean_square(c, axes) + eps)
            )
        ),
    ),
    Mistake(
        "the variance stands under the root. RMSNorm takes the mean of the squares, and subtracts nothing.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(x.var(axes, correction=0, keepdim=True) + eps)),
    ),
    Mistake(
        "the deviation is divided by. RMSNorm takes the root of the mean of the squares.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(x.var(axes, keepdim=True) + eps)),
    ),
    Mistake(
        "eps is added to the root mean square. Add it to the mean square, under the root.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(_mean_square(x, axes)) + eps),
    ),
    Mistake(
        "the sum of the squares stands under the root, so that the rows have length 1. Take their mean.",
        _scaled_by(lambda x, axes, eps: torch.sqrt((x * x).sum(axes, keepdim=True) + eps)),
    ),
    Mistake(
        "the root is missing: divide by sqrt(mean square + eps).",
        _scaled_by(lambda x, axes, eps: _mean_square(x, axes) + eps),
    ),
    Mistake(
        "that is the square of the mean. Square first, then take the mean.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(x.mean(axes, keepdim=True) ** 2 + eps)),
    ),
    Mistake(
        "divide by the root of (mean square + eps), do not multiply.",
        _variant(normalized=lambda self, x, axes, eps: x * torch.sqrt(_mean_square(x, axes) + eps)),
    ),
    Mistake(
        "float32 and half types are computed in float64 here, and eps=None takes the machine epsilon of that. Widen to "
        "torch.promote_types(x.dtype, torch.float32).",
        _variant(wide=lambda self, x: x.double()),
    ),
    Mistake(
        "the length of the row is divided by: that is sqrt(D) times the root mean square. Take the mean of the squares, plus eps, and the root.",
        _scaled_by(lambda x, axes, eps: torch.sqrt((x * x).sum(axes, keepdim=True)) + eps),
    ),
    Mistake(
        "the mean of the absolute values is another measure. Square, take the mean, add eps, take the root.",
        _scaled_by(lambda x, axes, eps: x.abs().mean(axes, keepdim=True) + eps),
    ),
    Mistake(
        "eps is a lower limit here. Add it to the mean square.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(_mean_square(x, axes).clamp(min=eps))),
    ),
    Mistake(
        "the sum is divided by the last size alone. normalized_shape may name more axes: take .mean(axes, keepdim=True).",
        _scaled_by(lambda x, axes, eps: torch.sqrt((x * x).sum(axes, keepdim=True) / x.shape[-1] + eps)),
    ),
    Mistake(
        "the row is multiplied by the gain before it is normalized. Normalize first.",
        _variant(
            normalized=lambda self, x, axes, eps: (
                (z := x if self.weight is None else x * self.weight) / torch.sqrt(_mean_square(z, axes) + eps)
            ),
            affine=lambda self, y: y,
        ),
    ),
    Mistake(
        "the gain is added. Multiply by it.",
        _variant(affine=lambda self, y: y if self.weight is None else y + self.weight),
    ),
    Mistake(
        "the gain is divided by. Multiply by it.",
        _variant(affine=lambda self, y: y if self.weight is None else y / self.weight),
    ),
    *[
        Mistake(
            f"{value:g} is written into the formula. Use self.eps, and the machine epsilon where that is None.",
            _variant(epsilon=lambda self, x, wide, value=value: value),
        )
        for value in (1e-5, 1e-6, 1e-8)
    ],
    Mistake(
        "the root of eps is added: eps stands under the root already, as it is.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(_mean_square(x, axes) + eps * eps)),
    ),
    Mistake(
        "eps is not used. Add it to the mean square, under the root.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(_mean_square(x, axes))),
    ),
    Mistake(
        "only the last axis is reduced. normalized_shape may name more: use axes.", _variant(axes=lambda self, x: -1)
    ),
    Mistake(
        "every axis but the first is reduced. Reduce axes, those that normalized_shape names.",
        _variant(axes=lambda self, x: tuple(range(1, x.dim()))),
    ),
    Mistake(
        "all axes are reduced at once: mean() needs axes and keepdim=True.",
        _variant(axes=lambda self, x: tuple(range(x.dim()))),
    ),
    Mistake("the reduced axes are gone. Say keepdim=True.", _variant(normalized=_without_keepdim)),
    Mistake("the gain is not used: multiply by self.weight where there is one.", _variant(affine=lambda self, y: y)),
    Mistake(
        "the gain is used as 1 + weight. PyTorch multiplies by weight itself.",
        _variant(affine=lambda self, y: y if self.weight is None else y * (1 + self.weight)),
    ),
    Mistake(
        "self.weight is None without elementwise_affine: multiply only if there is a gain.",
        _variant(affine=lambda self, y: y * self.weight),
    ),
    Mistake(
        "self.eps is None unless somebody gave one: take torch.finfo(wide.dtype).eps then.",
        _variant(epsilon=lambda self, x, wide: self.eps),
    ),
    *[
        Mistake(
            f"with eps=None you use {value:g}. PyTorch's default is the machine epsilon of the type that is computed in, "
            "torch.finfo(wide.dtype).eps.",
            _default(value),
        )
        for value in (1e-5, 1e-6, 1e-8, 1e-12, 0.0)
    ],
    Mistake(
        "with eps=None you always use float32's machine epsilon. For float64 it is float64's: torch.finfo(wide.dtype).eps.",
        _default(torch.finfo(torch.float32).eps),
    ),
    Mistake(
        "eps = 0 is taken for no eps: `if self.eps` and `self.eps or ...` are false for 0. Ask whether it `is None`.",
        _variant(epsilon=lambda self, x, wide: self.eps or torch.finfo(wide.dtype).eps),
    ),
    Mistake(
        "eps is taken from the type of x. Half types are computed in float32, and eps is that of float32: "
        "torch.finfo(wide.dtype).eps.",
        _variant(epsilon=lambda self, x, wide: torch.finfo(x.dtype).eps if self.eps is None else self.eps),
    ),
    Mistake(
        "eps=... is ignored: the machine epsilon is for eps=None only.",
        _variant(epsilon=lambda self, x, wide: torch.finfo(wide.dtype).eps),
    ),
    Mistake(
        "half types are not widened: squares over 65,504 overflow in float16. Compute in "
        "torch.promote_types(x.dtype, torch.float32).",
        _variant(wide=lambda self, x: x),
    ),
    Mistake(
        "half types are not widened: squares over 65,504 overflow in float16. Compute in "
        "torch.promote_types(x.dtype, torch.float32).",
        _variant(
            wide=lambda self, x: x,
            epsilon=lambda self, x, wide: (
                torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if self.eps is None else self.eps
            ),
        ),
    ),
    Mistake(
        "the result stays float32. Give it x's dtype at the end: y.to(x.dtype).", _variant(back=lambda self, y, x: y)
    ),
    Mistake(
        "float64 is narrowed to float32. torch.promote_types(x.dtype, torch.float32) keeps the wider of the two.",
        _variant(wide=lambda self, x: x.float()),
    ),
    Mistake(
        "the values are right, but the mean square is cut off from the gradient.",
        _scaled_by(lambda x, axes, eps: torch.sqrt(_mean_square(x.detach(), axes) + eps)),
    ),
]


def rms_norm_module(answer):
    """Check a class like nn.RMSNorm(normalized_shape, eps=None, elementwise_affine=True, device, dtype) (lesson 8)."""
    stages = [(probes, _FORMULA) for probes in (_MODULE_PROBES[:5], _MODULE_PROBES[5:9], _MODULE_PROBES[9:])]
    in_stages(
        answer,
        "rms_norm_module",
        stages,
        _Reference,
        "rms_norm_module does what it should on {count} inputs (one and two axes, no gain, eps given, 0 and None, "
        "four number types, gradients, bad arguments)",
    )


# -------------------------------------------------------------------------------------------------- rms_invariant


def rms_invariant(answer):
    """Check which of six changes RMSNorm behind a linear layer does not see, as a dictionary of bools (lesson 8)."""
    factor = "That multiplies all of a by 3, and a common positive factor is what RMSNorm forgets."
    values(
        answer,
        "rms_invariant",
        {"a": True, "b": False, "c": False, "d": True, "e": False, "f": True},
        [
            ("a", False, factor),
            ("d", False, factor),
            ("f", False, "That multiplies the a of this case by 3, and RMSNorm looks at each case by itself."),
            (
                "b",
                True,
                "That adds the same number to each entry of a. LayerNorm would forget it; RMSNorm does not subtract a mean.",
            ),
            ("c", True, "That multiplies one entry of a by 3. The factor must be common to all entries."),
            (
                "e",
                True,
                "That adds W times the vector to a: another number for each entry. Only BatchNorm forgets that.",
            ),
            *[
                (key, said, "Answer with True or False, without quotes.")
                for key in "abcdef"
                for said in (0, 1, "true", "false", "yes", "no", "same", "changes")
            ],
        ],
    )


# ---------------------------------------------------------------------------------------- effective_learning_rate


def _rate(weight, lr):
    return lr / weight.double().square().sum().item()


def _rated(label, weight, lr):
    def run(answer):
        found = answer(weight.clone(), lr)
        one = hasattr(found, "item") and tuple(getattr(found, "shape", ())) in ((), (1,), (1, 1))
        return {"the result": found.item() if one else found}  # a tensor or NumPy number is shown as the number it is

    return Probe(label, run, {"weight": weight, "lr": lr}, tolerance=1e-6)


_RATE_PROBES = [
    _rated("a weight of length 10", torch.tensor([[6.0, 0, 0], [0, -8, 0]], dtype=torch.float64), 50.0),
    _rated("a random weight", 0.3 * draw(41, 4, 7), 0.5),
    _rated("a small weight", 1e-2 * draw(42, 5, 3), 0.1),
    _rated("float32 weights", draw(43, 3, 8, dtype=torch.float32), 1.0),
]

_RATES = [
    Mistake(
        "one factor of |W| is missing: the gradient is smaller by |W|, and the same step turns a longer arrow less, by |W| again.",
        lambda weight, lr: lr / weight.norm(),
    ),
    Mistake(
        "that is the other way round: long weights learn slowly. Divide by |W|^2.",
        lambda weight, lr: lr * weight.square().sum(),
    ),
    Mistake(
        "that is the other way round: long weights learn slowly. Divide by |W|^2.",
        lambda weight, lr: lr * weight.norm(),
    ),
    Mistake("the mean of the squares is not |W|^2: take their sum.", lambda weight, lr: lr / weight.square().mean()),
    Mistake(
        "the sum of the entries is not the length. Square them first.", lambda weight, lr: lr / weight.sum().square()
    ),
    Mistake(
        "the sum of the absolute values is another length. Square the entries, and sum.",
        lambda weight, lr: lr / weight.abs().sum() ** 2,
    ),
    Mistake(
        "that is the largest singular value. The length of W is the root of the sum of all squared entries, weight.norm().",
        lambda weight, lr: lr / torch.linalg.matrix_norm(weight, 2) ** 2,
    ),
    Mistake(
        "that is |W| to the fourth power: weight.norm() ** 2 is the sum of the squares, already.",
        lambda weight, lr: lr / weight.square().sum() ** 2,
    ),
    Mistake("the largest entry is not the length.", lambda weight, lr: lr / weight.abs().max() ** 2),
    Mistake(
        "each row got its own rate. The norm forgets the scale of the whole matrix: one length, one rate.",
        lambda weight, lr: lr / weight.square().sum(1),
    ),
    Mistake(
        "each row got its own rate. The norm forgets the scale of the whole matrix: one length, one rate.",
        lambda weight, lr: lr / weight.square().sum(1, keepdim=True),
    ),
    Mistake(
        "each column got its own rate. The norm forgets the scale of the whole matrix: one length, one rate.",
        lambda weight, lr: lr / weight.square().sum(0),
    ),
    Mistake(
        "each entry got its own rate. Sum the squares of all entries first: one length, one rate.",
        lambda weight, lr: lr / weight.square(),
    ),
    Mistake(
        "that is |W| to the third power. It stands twice below the fraction line: smaller gradient, longer arrow.",
        lambda weight, lr: lr / weight.norm() ** 3,
    ),
    Mistake(
        "that divides by the root of |W|. It is |W|^2, the sum of the squares without a root.",
        lambda weight, lr: lr / weight.norm() ** 0.5,
    ),
    Mistake(
        "that is 1 + |W|^2. There is no 1: the rate is lr itself where |W| = 1.",
        lambda weight, lr: lr / (1 + weight.square().sum()),
    ),
    *[
        Mistake(
            "the variance of the entries is not |W|^2: take the sum of their squares.",
            lambda weight, lr, k=k: lr / weight.var(correction=k),
        )
        for k in (0, 1)
    ],
    Mistake(
        "a learning rate is positive: the minus sign belongs to the step.",
        lambda weight, lr: -lr / weight.square().sum(),
    ),
    Mistake("lr is not used.", lambda weight, lr: 1 / weight.square().sum()),
    Mistake("that is lr itself: the direction moves less, the longer W is.", lambda weight, lr: lr),
    Mistake("those are the settings of the lesson's example. Use the arguments.", lambda weight, lr: 0.5),
]


def effective_learning_rate(answer):
    """Check a function (weight, lr) -> lr / |weight|^2 (lesson 8)."""
    examine(answer, "effective_learning_rate", _RATE_PROBES, _rate, _RATES, tried="four matrices, float64 and float32")


# --------------------------------------------------------------------------------------------------------- clinic


def different_tokens(answer):
    """Check how many different tokens three normalized features can give, as a dictionary of counts (lesson 8)."""
    values(
        answer,
        "different_tokens",
        {"patient": 1, "rms": 2, "after": 2},
        [
            ("patient", 2, "With one feature the mean is the feature itself: x - mean is 0 for every x, also in sign."),
            ("patient", 0, "Count the tokens that come out: they are all equal, and equal to the bias."),
            ("patient", 1000, "One number minus its own mean is 0, whatever it was."),
            ("rms", 1, "RMSNorm subtracts nothing: x / sqrt(x^2) is +1 or -1."),
            ("rms", 1000, "x / sqrt(x^2) is +1 or -1, whatever the size of x."),
            ("rms", 0, "x / sqrt(x^2): which values can that take?"),
            ("after", 1, "For a > 0, LN(a w) = LN(w). For a < 0 it is -LN(w): another token."),
            (
                "after",
                1000,
                "For a > 0, LN(a w) = LN(w): the size of the feature is a common factor, and is forgotten.",
            ),
            ("after", 5, "Count different tokens, not their entries. LN(a w) for a > 0, and for a < 0?"),
        ],
    )


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
    return {"the shape of the tokens": tuple(tokens.shape) if isinstance(tokens, torch.Tensor) else tokens}


def _alone(answer):
    together, alone = (answer(x.clone(), _TOKEN_WEIGHT, _TOKEN_BIAS) for x in (_SAMPLES, _SAMPLES[:1]))
    near = (together[:1] - alone).abs().max() < 1e-9
    return {"the tokens of a sample alone and beside three others": "equal" if near else "not equal"}


def _own(answer):
    other = _SAMPLES.clone()
    other[:, 1] += 1
    a, b = (answer(x.clone(), _TOKEN_WEIGHT, _TOKEN_BIAS)[:, [0, 2]] for x in (_SAMPLES, other))
    near = (a - b).abs().max() < 1e-9
    return {"the tokens of features 0 and 2": "stay" if near else "change"}


def _reached(answer):
    leaves = [t.clone().requires_grad_() for t in (_SAMPLES, _TOKEN_WEIGHT, _TOKEN_BIAS)]
    tokens = answer(*(leaf.clone() for leaf in leaves))
    found = [None] * 3
    if tokens.requires_grad:
        found = torch.autograd.grad((tokens * draw(54, *tokens.shape)).sum(), leaves, allow_unused=True)
    names = [n for n, f in zip(("x", "weight", "bias"), found, strict=True) if f is not None and f.abs().max() > 1e-9]
    return {"what the gradient reaches": ", ".join(names) or "nothing"}


def _at_zero(answer):
    tokens = answer(torch.zeros(2, 3, dtype=torch.float64), _TOKEN_WEIGHT, _TOKEN_BIAS)
    return {"the tokens": "finite" if tokens.isfinite().all() else "nan or inf among them"}


def _in_float32(answer):
    tokens = answer(*(t.float() for t in (_SAMPLES, _TOKEN_WEIGHT, _TOKEN_BIAS)))
    return {"the dtype of the tokens": str(tokens.dtype)}


_TOKEN_PROBES = [
    Probe("x of shape (4, 3), weight and bias of shape (3, 5)", _shaped),
    Probe("one sample alone, and the same beside three others", _alone),
    Probe("another value of feature 1", _own),
    *[_counted(feature) for feature in (0, 1, 2)],
    Probe("four random samples", _reached),
    Probe("features that are all 0", _at_zero),
    Probe("float32 features", _in_float32),
]


def _linear(x, weight, bias):
    return x.unsqueeze(-1) * weight + bias


def _norm_of(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],)).unsqueeze(-1) * weight + bias


def _feature_by(rule):
    return lambda x, weight, bias: rule(x.unsqueeze(-1)) * weight + bias


_SIGN = "only the sign of the feature is left: "
_TOKENS = [
    *[
        Mistake("the feature is still normalized by itself: one number minus its own mean is 0, whatever eps is.", f)
        for f in (
            _feature_by(lambda x: 0 * x),
            lambda x, w, b: _feature_by(lambda x: F.layer_norm(x, (1,), eps=1.0))(x, w, b),
        )
    ],
    Mistake(_SIGN + "x / |x| is what RMSNorm makes of one number, and LayerNorm of two.", _feature_by(torch.sign)),
    *[
        Mistake(_SIGN + "LN(a w) = LN(w) for a > 0. Add the bias before you normalize, or do not normalize.", f)
        for f in (
            lambda x, w, b: F.layer_norm(x.unsqueeze(-1) * w, (w.shape[-1],)) + b,
            lambda x, w, b: F.rms_norm(x.unsqueeze(-1) * w, (w.shape[-1],)) + b,
        )
    ],
    Mistake("the features of a sample are normalized together, so that each token depends on all of them.", _norm_of),
    *[
        Mistake("the statistics are those of the batch: a sample alone gets other tokens, and a batch of one fails.", f)
        for f in (
            lambda x, w, b: _linear((x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5), w, b),
            lambda x, w, b: _linear((x - x.mean(0)) / (x.std(0) + 1e-5), w, b),
        )
    ],
    Mistake("the sign is lost: x and -x give the same token.", _feature_by(torch.abs)),
    Mistake("the sign is lost: x and -x give the same token.", _feature_by(lambda x: x * x)),
    Mistake(
        "the bias is not used any more. It is learned, and belongs to the token.", lambda x, w, b: x.unsqueeze(-1) * w
    ),
    Mistake(
        "the weight is not used any more. It is learned, and belongs to the token.", lambda x, w, b: x.unsqueeze(-1) + b
    ),
    Mistake("negative features are cut off, all to the same token.", _feature_by(torch.relu)),
]


def _why(answer):
    """Return the cause of the known mistake whose tokens are those of answer, or None."""
    x = torch.cat([_GRID.unsqueeze(-1) * torch.tensor([1.0, -0.5, 2.0]), _SAMPLES])  # (28, K)

    def tokens(answer):
        out = answer(x.clone(), _TOKEN_WEIGHT.clone(), _TOKEN_BIAS.clone())
        return out.detach() if isinstance(out, torch.Tensor) else torch.empty(0)

    found = observe(Probe("", lambda answer: {"tokens": tokens(answer)}), answer).get("tokens")
    for mistake in _TOKENS:
        known = tokens(mistake.answer)
        # 1e-3: an eps of 1e-5 more or less does not make another mistake of it
        if isinstance(found, torch.Tensor) and found.shape == known.shape and (found - known).abs().max() < 1e-3:
            return f"Probable cause: {mistake.cause}"
    return None


def mended_tokens(answer):
    """Check a function x (B, K), weight, bias (K, E) -> tokens (B, K, E) that keep every value apart (lesson 8)."""
    try:
        examine(
            answer,
            "mended_tokens",
            _TOKEN_PROBES,
            _linear,
            tried="24 values of each feature, samples alone, other features, gradients",
        )
    except NotYet as wrong:
        said, _, cause = str(wrong).removeprefix("Not yet. ").partition("\n")
        reject(said, cause or (_why(answer) if callable(answer) else None))

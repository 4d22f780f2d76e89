"""What lesson 8 builds: RMSNorm.

Made by coursebuild from lessons_src/lessons/08_geometry/lesson.py: edit the lesson, not this file.
"""

from lessonkit import data
from numbers import Integral
from torch import nn
from torch.nn import functional as F
import torch


# Trains a reader of tokens, and tests it.
def _digits_read(tokens, adam=False):
    """Train a gain, a bias and a linear layer on tokens(x, weight, bias): what does it read?"""
    torch.manual_seed(0)
    weight, bias = nn.Parameter(torch.randn(64, 4)), nn.Parameter(torch.randn(64, 4))  # (K, E)
    reader, digits = nn.Linear(256, 10), data.digits_split(0)
    rule, rate = (torch.optim.Adam, 0.01) if adam else (torch.optim.SGD, 0.05)
    optimizer = rule([weight, bias, *reader.parameters()], lr=rate)
    for _ in range(200):
        optimizer.zero_grad()
        scores = reader(tokens(digits.x_train.flatten(1), weight, bias).flatten(1))  # (B, 10)
        F.cross_entropy(scores, digits.y_train).backward()
        optimizer.step()
    scores = reader(tokens(digits.x_test.flatten(1), weight, bias).flatten(1))  # (B, 10)
    return f"{(scores.argmax(1) == digits.y_test).double().mean():.0%}"


# Counts different tokens.
def _different(tokens):
    """How many different tokens does it make of 1,000 values? Equal: to four decimals."""
    g = torch.Generator().manual_seed(89)
    w, b = torch.randn(2, 1, 4, generator=g)  # (K, E) each
    values = torch.linspace(-3, 3, 1000)[:, None]  # (B, K) = (1000, 1)
    return len((1e4 * tokens(values, w, b)).round().unique(dim=0))


# All of nn.RMSNorm but its formula
class _Shell(nn.Module):
    """All of nn.RMSNorm but its formula: the sizes, the gain, the axes, what is refused."""

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        single = isinstance(normalized_shape, Integral)
        sizes = (normalized_shape,) if single else tuple(normalized_shape)
        if not sizes or min(sizes) < 0:
            raise RuntimeError(
                f"normalized_shape is {normalized_shape!r}, expected sizes, like x.shape[-1]."
            )
        self.normalized_shape, self.eps = sizes, eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = nn.Parameter(torch.ones(sizes, device=device, dtype=dtype))
        self.register_parameter("weight", weight)

    def reset_parameters(self):
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def axes(self, x):
        """The axes of x that are normalized together; an error if x does not fit."""
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (*, {str(self.normalized_shape)[1:]}."
            )
        if not x.is_floating_point():
            raise NotImplementedError(
                f"RMSNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        return axes

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


class RMSNorm(_Shell):
    """Root mean square normalization with a learned gain: takes the place of torch.nn.RMSNorm.

    Example: RMSNorm(2, eps=0.0) makes [1.4, 0.2] of [7, 1].
    x: (..., *normalized_shape). Returns x's shape and dtype, computed in float32 at least.
    self.weight: the gain, of shape normalized_shape; None without elementwise_affine.
    self.eps: added to the mean square, under the root; 0 is an eps, too. None: the machine
    epsilon, torch.finfo(dtype).eps, of the type that is computed in.
    """

    def forward(self, x):
        axes = self.axes(x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision is too coarse
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)
        y = y if self.weight is None else y * self.weight
        return y.to(x.dtype)

"""What lesson 8 builds: RMSNorm.

Made by coursebuild from lessons_src/lessons/08_geometry.py: edit the lesson, not this file.
"""

from numbers import Integral

from torch import nn
import torch


class RMSNorm(nn.Module):
    """Root mean square normalization with a learned gain: takes the place of torch.nn.RMSNorm.

    normalized_shape: sizes of the last axes that are normalized together; an int, a list, a tuple or a torch.Size.
    eps: added to the mean square, under the root; None: the machine epsilon of the type that is computed in.
    weight: Parameter of shape normalized_shape that starts at 1, or None without elementwise_affine.
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        sizes = (
            (normalized_shape,)
            if isinstance(normalized_shape, Integral)
            else tuple(normalized_shape)
        )
        if not sizes or min(sizes) < 0:
            raise RuntimeError(
                f"normalized_shape is {normalized_shape!r}, expected sizes, like x.shape[-1]."
            )
        self.normalized_shape, self.eps, self.elementwise_affine = (
            sizes,
            eps,
            elementwise_affine,
        )
        weight = (
            nn.Parameter(torch.ones(sizes, device=device, dtype=dtype))
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", weight)

    def reset_parameters(self):
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def forward(
        self, x
    ):  # (..., *normalized_shape) in, the same shape and dtype out; computed in float32 at least
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (*, {str(self.normalized_shape)[1:]}."
            )
        if not x.is_floating_point():
            raise NotImplementedError(
                f"RMSNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)
        y = y if self.weight is None else y * self.weight
        return y.to(x.dtype)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"

"""What lesson 12 builds: GroupNorm.

Made by coursebuild from lessons_src/lessons/12_family.py: edit the lesson, not this file.
"""

from fromscratch import layer_norm
from torch import nn
import torch


class GroupNorm(nn.Module):
    """Group Normalization of x (B, C, ...), as torch.nn.GroupNorm, and built without it.

    Neighboring channels share their statistics.

    num_groups: G. num_channels: C, a multiple of G. eps: added to the biased variance.
    weight, bias: Parameters (C,) that start at 1 and 0; both None without affine, bias None
    with bias=False.
    Other channel counts are refused, also without affine (where PyTorch lets them pass).
    """

    def __init__(
        self,
        num_groups,
        num_channels,
        eps=1e-5,
        affine=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})."
            )
        self.num_groups, self.num_channels, self.eps, self.affine = (
            num_groups,
            num_channels,
            eps,
            affine,
        )
        one, zero = (
            torch.full((num_channels,), float(k), device=device, dtype=dtype) for k in (1, 0)
        )
        self.register_parameter("weight", nn.Parameter(one) if affine else None)
        self.register_parameter("bias", nn.Parameter(zero) if affine and bias else None)

    def forward(self, x):
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (B, {self.num_channels}, ...)."
            )
        if x.numel() == self.num_groups:
            raise ValueError(
                f"x of shape {tuple(x.shape)} has one number for each group, which would "
                "become 0."
            )
        if not x.is_floating_point():
            raise NotImplementedError(
                f"GroupNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        if self.weight is not None and self.weight.dtype not in (x.dtype, wide.dtype):
            raise RuntimeError(
                f"mixed dtype: x is {x.dtype}, weight is {self.weight.dtype}. Convert one of "
                "them."
            )
        # Your part: normalize wide, (B, C, ...), then gain and bias where they are not None.
        # Bind the result to y.
        groups = wide.unflatten(1, (self.num_groups, -1)).flatten(
            2
        )  # (B, G, C/G * H * W): a row for each group
        y = layer_norm(groups, groups.shape[-1], eps=self.eps).reshape(x.shape)  # (B, C, ...)
        beside = (-1,) + (1,) * (x.dim() - 2)  # (C, 1, 1) for images: beside axis 1 of x
        y = y if self.weight is None else y * self.weight.view(beside)
        y = y if self.bias is None else y + self.bias.view(beside)
        return y.to(x.dtype)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{sizes}, affine={self.affine}, bias={self.bias is not None}"

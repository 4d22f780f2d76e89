"""What lesson 12 builds: GroupNorm, group_norm, train_gpt.

Made by coursebuild from lessons_src/lessons/12_family/lesson.py: edit the lesson, not this file.
"""

from fromscratch import CharGPT
from fromscratch import encode
from fromscratch import layer_norm
from lessonkit import data
from torch import nn
from torch.nn import functional as F
import torch


# Trains a GPT on words, and measures its loss.
def train_gpt(norm, rate, run=0, steps=200):
    """Train a GPT of 6 blocks; return its loss on 2,000 unseen words (nats)."""
    words, split = data.words(), torch.Generator().manual_seed(7 + run % 2)
    order = torch.randperm(len(words), generator=split)
    torch.manual_seed(run)
    net = CharGPT(layers=6, norm=norm)
    optimizer = torch.optim.Adam(net.parameters(), rate, betas=(0.9, 0.98))
    for step in range(steps + 1):
        unseen = step == steps
        chosen = order[-2000:] if unseen else order[torch.randint(len(words) - 2000, (32,))]
        x, y = encode([words[i] for i in chosen])  # (B, T) each
        with torch.set_grad_enabled(not unseen):
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if not unseen:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalize groups of neighboring channels: x (B, C, ...) -> the same shape.

    num_groups: divides C. weight, bias: (C,), for each channel, or None. eps: under the root.
    """
    rows = x.unflatten(1, (num_groups, -1)).flatten(2)  # (B, G, C / G * H * W)
    y = layer_norm(rows, rows.shape[-1], eps=eps).reshape(x.shape)  # (B, C, ...)
    shape = (-1,) + (1,) * (x.dim() - 2)  # (C, 1, 1) for pictures
    y = y if weight is None else y * weight.view(shape)
    return y if bias is None else y + bias.view(shape)


# A module with the parameters of torch.nn.GroupNorm.
class GroupNorm(nn.Module):
    """Group Normalization of x (B, C, ...), as torch.nn.GroupNorm.

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
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
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
            raise ValueError(f"x of shape {tuple(x.shape)} has one number for each group.")
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
        return group_norm(wide, self.num_groups, self.weight, self.bias, self.eps).to(x.dtype)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{sizes}, affine={self.affine}, bias={self.bias is not None}"

"""A layer whose eps lesson 3 asks for. It stands here because the lesson would give it away, also in a folded cell."""

from torch.nn import functional as F

from lessonkit import _threads  # noqa: F401  sets how many torch uses


def layer(row):
    """Normalize the last axis of row (..., D). Return a tensor of its shape."""
    return F.layer_norm(row, row.shape[-1:], eps=1e-6)

"""What lesson 3 builds: clinic_norm, normalize.

Made by coursebuild from lessons_src/lessons/03_epsilon/lesson.py: edit the lesson, not this file.
"""

from fromscratch import mean_and_var
import torch


def normalize(x, eps=1e-5):
    """Normalize the last axis of x, with eps where F.layer_norm has it.

    Example: [5, 1, -1, 4, 1, 2] with eps=5 gives [1, -1/3, -1, 2/3, -1/3, 0].
    x: (..., D) float32 or float64. Returns x's shape and dtype.
    The variance is the biased one. eps is used as it is, 0 as well.
    Write it without F.layer_norm.
    """
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps)  # (..., D)


def clinic_norm(x, eps=1e-8):
    """The patient: (..., D) -> (..., D)."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    var = x.var(-1, correction=0, keepdim=True)  # (..., 1)
    return (x - mean) / torch.sqrt(var + eps)  # (..., D)

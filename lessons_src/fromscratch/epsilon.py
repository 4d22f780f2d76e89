"""What lesson 3 builds: normalize.

Made by coursebuild from lessons_src/lessons/03_epsilon.py: edit the lesson, not this file.
"""

from fromscratch import mean_and_var
import torch


def normalize(x, eps=1e-5):
    """Normalize the last axis of x.

    x: (..., D) float32 or float64. eps: added to the biased variance, under the root; used as
        it is, 0 as well.
    Returns x's shape and dtype; a row of variance v gets mean 0 and variance v / (v + eps).
    First and second gradients flow through mean and variance. Write it without F.layer_norm.
    """
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps)  # (..., D)

"""What lesson 2 builds: digit_reader, mean_and_var, read, read_beside.

Made by coursebuild from lessons_src/lessons/02_statistics/lesson.py: edit the lesson, not this file.
"""

from lessonkit import data
from torch.nn import functional as F
import torch


# Trains two layers, and has them read digits.
def digit_reader(norm, seed=0, biases=False):
    """Train two layers on 1,280 pictures, normalized first; return net: (B, 64) to (B, 10)."""
    images, labels = data.digits()  # (1797, 8, 8) ink from 0 to 16, (1797,)
    batches = list(
        zip(images[:1280].flatten(1).split(64), labels[:1280].split(64), strict=True)
    )
    g = torch.Generator().manual_seed(seed)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    b1 = torch.zeros(32, requires_grad=biases)
    b2 = torch.zeros(10, requires_grad=biases)
    learned = (W1, W2, b1, b2) if biases else (W1, W2)
    net = lambda x: torch.relu(norm(x) @ W1 + b1) @ W2 + b2  # (B, 10)
    for x, y in 10 * batches:
        loss = F.cross_entropy(net(x), y)
        for p, dp in zip(learned, torch.autograd.grad(loss, learned), strict=True):
            p.data -= 0.5 * dp
    return net


@torch.no_grad()
def read_beside(net, times=1, plus=0, strangers=1):
    """Return the percentage that a net reads of 517 new digits, each in a batch with strangers.

    times, plus: what the strangers' numbers are multiplied by, and what is added.
    """
    images, labels = data.digits()
    pictures = images.flatten(1)  # (N, D)
    beside = times * pictures[:strangers] + plus  # (S, D)
    answers = [net(torch.cat([x[None], beside]))[0].argmax() for x in pictures[1280:]]
    return 100 * (torch.stack(answers) == labels[1280:]).double().mean().item()


def read(net, **strangers):
    """Print it."""
    print(f"reads {read_beside(net, **strangers):.0f} % of our pictures")


def mean_and_var(x):
    """Return the mean and the variance of each row of x: of its last axis.

    Example: the row 5, 1, -1, 4, 1, 2 gives the mean [2.] and the variance [4.].
    x: (..., D) float32 or float64 tensor. Returns (mean, var), both (..., 1) and of x's dtype.
    The variance stays accurate where the mean is far larger than the standard deviation.
    """
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    centered = x - mean  # (..., D)
    var = (centered * centered).mean(-1, keepdim=True)  # (..., 1)
    return mean, var

"""Checks of lesson NN: the mean square."""

import torch

from lessonkit.check.declare import Contract, call, draw, examine, misconceptions


def _solution(x):
    squares = x * x
    return squares.mean(-1, keepdim=True)


_CONTRACT = Contract({"x": "... D"})

_PROBES = [
    call("the row -3, -1, 1, 3", torch.tensor([[-3.0, -1, 1, 3]], dtype=torch.float64)),
    call("a batch of sequences", draw(1, 2, 3, 4)),
]

_MISTAKES = misconceptions(
    _solution,
    """
    # the squares are summed. | Take their mean.
    return squares.sum(-1, keepdim=True)

    # the mean is squared, and the signs have canceled before. | Square first, then take the mean.
    return x.mean(-1, keepdim=True) ** 2

    # the reduced axis is gone. | Say keepdim=True.
    return squares.mean(-1)

    # one number for the whole tensor. Every row has its own. | Reduce axis -1 only.
    return squares.mean()

    # that is the root of the mean square. | Leave the root away.
    return squares.mean(-1, keepdim=True).sqrt()
    """,
)


def mean_square_of_new_lesson(answer):
    """Check a function x (..., D) -> the mean square of each row, (..., 1) (lesson NN)."""
    name, tried = "mean_square_of_new_lesson", "one to five axes, two number types, gradients"
    examine(answer, name, _PROBES, _solution, _MISTAKES, tried, contract=_CONTRACT)

"""Printed numbers: rounded, without a minus sign before a zero, the same text on every machine."""

import numpy as np
import pytest
import torch

from lessonkit.numbers import show, text


@pytest.mark.parametrize(
    "value, digits, written",
    [
        (1 / 3, 4, "0.3333"),
        (-1 / 3, 0, "0"),
        (-0.00004, 4, "0.0000"),
        (-0.00006, 4, "-0.0001"),
        (-0.0, 2, "0.00"),
        (3, 4, "3"),
        (True, 4, "True"),
        (None, 4, "None"),
        ("rows", 4, "rows"),
        (float("nan"), 2, "nan"),
        (-float("inf"), 2, "-inf"),
        (torch.tensor(2.5), 2, "2.50"),
        (torch.tensor([1, -2]), 2, "[1, -2]"),
        (torch.tensor([[0.5, -1e-9]], requires_grad=True), 1, "[[0.5, 0.0]]"),
        (torch.tensor([1.0]).bfloat16(), 1, "[1.0]"),
        (torch.tensor([]), 1, "[]"),
        ((0.25, [1, torch.tensor(0.5)]), 2, "(0.25, [1, 0.50])"),
        ((2.0,), 1, "(2.0,)"),
        (torch.Size([2, 3]), 1, "(2, 3)"),
        (np.float32(0.1), 3, "0.100"),
        (np.array([[1.0, 2.0]]), 1, "[[1.0, 2.0]]"),
    ],
)
def test_text(value, digits, written):
    assert text(value, digits) == written


def test_show(capsys):
    show("mean", torch.tensor(-1e-6))
    show("x", torch.tensor([[1.0, -10.25], [0.0, 3.0]]), digits=2)
    show("counts", torch.tensor([3, 4]))
    assert capsys.readouterr().out == ("mean = 0.0000\nx =\n    1.00  -10.25\n    0.00    3.00\ncounts = [3, 4]\n")
    with pytest.raises(ValueError, match="at most two axes, but 'x' has shape"):
        show("x", torch.zeros(2, 3, 4))

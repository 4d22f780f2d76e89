"""Printed numbers: rounded, without a minus sign before a zero, the same text on every machine."""

import numpy as np
import pytest
import torch

from lessonkit.numbers import text


@pytest.mark.parametrize(
    "value, digits, written",
    [
        (-0.00004, 4, "0.0000"),
        (-0.00006, 4, "-0.0001"),
        (-0.0, 2, "0.00"),
        (-float("inf"), 2, "-inf"),
        (torch.tensor([[0.5, -1e-9]], requires_grad=True), 1, "[[0.5, 0.0]]"),
        (torch.tensor([1.0]).bfloat16(), 1, "[1.0]"),
        (np.float32(0.1), 3, "0.100"),
    ],
)
def test_text(value, digits, written):
    assert text(value, digits) == written

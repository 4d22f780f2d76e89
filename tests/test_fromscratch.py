"""The exports that no check and no cell of a lesson judges, against PyTorch.

What an exercise asks for is judged by its check, whose own answer the export is; tests/hunt.py shows what it finds.
The loops of lesson 13 have a file of their own, test_fused.py.
"""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fromscratch as ours
from tests.helpers import draw


def with_gradients(layer, x, dy):
    """Return the output and the gradients of x and of the parameters."""
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], dy)]


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.bfloat16, 0.08)], ids=str)
@pytest.mark.parametrize("groups, options", [(2, {}), (1, {"affine": False, "eps": 0.1})])
def test_group_norm_is_pytorchs(groups, options, dtype, tolerance):
    """Values and gradients within rounding of float64's."""
    mine, theirs = (home.GroupNorm(groups, 6, **options, dtype=dtype) for home in (ours, nn))
    torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    with torch.no_grad():
        for number, parameter in enumerate(mine.parameters()):
            parameter.copy_(draw(9 + number, *parameter.shape))
    theirs.load_state_dict(mine.state_dict())
    x, dy = draw(1, 2, 6, 4, 3, dtype=dtype), draw(2, 2, 6, 4, 3, dtype=dtype)
    output = with_gradients(mine, x, dy)
    exact = with_gradients(theirs.double(), x.double(), dy.double())
    for value, right in zip(output, exact, strict=True):
        assert value.dtype == dtype
        torch.testing.assert_close(value.double(), right, rtol=0, atol=tolerance * max(1, right.abs().max().item()))


def test_chargpt_sees_no_later_symbol():
    gpt = ours.CharGPT(symbols=7, context=6, width=8, heads=2, layers=2).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    gaps = (gpt(torch.cat([tokens[:, :4], (tokens[:, 4:] + 1) % 7], 1)) - gpt(tokens)).abs()
    assert gaps[:, :4].max() < 1e-12 and gaps[:, 4:].max() > 1e-3


@pytest.mark.parametrize(
    "content, first, last",
    [
        (b" \n a b \t", b"a b \t", b" \n a b"),  # each half is stripped at its own end only
        (b" " * 4095 + b"x" * 4097, b"x", b"x" * 1024),  # only the first 4,096 bytes are looked at
        (bytes(range(256)) * 20, bytes(range(256)) * 4, bytes(range(256)) * 4),  # not white space: 0x1c to 0x1f, 0x85
    ],
)
def test_file_bytes_follows_magikas_rule(content, first, last):
    tokens = ours.file_bytes(content)
    assert tokens.dtype == torch.int64
    padding = [[256] * (1024 - len(half)) for half in (first, last)]
    assert tokens.tolist() == [*first, *padding[0], *padding[1], *last]


def test_conv_output_shape_agrees_with_every_convolution_of_a_grid():
    settings = itertools.product(range(1, 9), range(1, 4), range(1, 4), range(3), range(1, 3))
    for length, size, stride, padding, dilation in settings:
        # The other axis has settings of its own.
        arguments = (2, size), (1, stride), (1, padding), (2, dilation)
        try:
            there = F.conv2d(torch.zeros(1, 1, 9, length), torch.zeros(1, 1, 2, size), None, *arguments[1:]).shape[2:]
        except RuntimeError:
            with pytest.raises(ValueError):
                ours.conv_output_shape((9, length), *arguments)
        else:
            assert ours.conv_output_shape((9, length), *arguments) == tuple(there)
    assert ours.conv_output_shape((9,), 3, 2, padding=1) == (5,), "a number stands for all axes"

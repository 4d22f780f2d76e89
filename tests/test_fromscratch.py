"""The exports where no check and no cell of a lesson judges them, against PyTorch: types, options, accuracy, sizes.

What an exercise asks for is judged by its check, whose own answer the export is; tests/hunt.py shows what it finds.
The loops of lesson 13 have a file of their own, test_fused.py.
"""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fromscratch as ours
from tests.helpers import draw, draws

# Some units in the last place of each type, as a multiple of max(1, largest exact value).
TYPES = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 8e-3, torch.bfloat16: 8e-2}


def filled(layer, seed=9):
    """Return the layer with random numbers in its parameters."""
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(seed + number, *parameter.shape))
    return layer


def gap(value, exact):
    """Largest difference, as a multiple of max(1, largest exact value)."""
    return ((value.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1)).item()


def with_gradients(layer, x, dy):
    """Return the output and the gradients of x and of the parameters."""
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], dy)]


# ------------------------------------------------------------------------------------------------- layers and options


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("groups, options", [(2, {}), (1, {"affine": False, "eps": 0.1})])
def test_group_norm_is_pytorchs(groups, options, dtype):
    """Values and gradients within rounding of float64's, in every type."""
    mine, theirs = (home.GroupNorm(groups, 6, **options, dtype=dtype) for home in (ours, nn))
    torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    theirs.load_state_dict(filled(mine).state_dict())
    x, dy = draw(1, 2, 6, 4, 3, dtype=dtype), draw(2, 2, 6, 4, 3, dtype=dtype)
    output = with_gradients(mine, x, dy)
    exact = with_gradients(theirs.double(), x.double(), dy.double())
    assert [item.dtype for item in output] == [dtype] * len(output)
    for value, right in zip(output, exact, strict=True):
        assert value.shape == right.shape and gap(value, right) < TYPES[dtype]


# ------------------------------------------------------------------------------------------------- accuracy, transforms


def by_pytorch(x, weight, bias, eps):
    return F.layer_norm(x, weight.shape, weight, bias, eps)


@pytest.mark.parametrize("offset, allowed", [(0, 1.3), (10, 0.5), (10_000, 0.1)])
def test_layer_norm_is_no_less_accurate_than_pytorch(offset, allowed):
    """float32 rows of 768, root mean square errors of the output. Seen: 1.02 of PyTorch's, 0.14 at 10, then 0.02."""
    x = draw(0, 512, 768, dtype=torch.float32) + offset
    exact = F.layer_norm(x.double(), (768,))
    mine, theirs = ((layer(x, (768,)) - exact).square().mean().sqrt() for layer in (ours.layer_norm, F.layer_norm))
    assert mine < allowed * theirs


def test_layer_norm_backward_keeps_its_digits_at_any_offset():
    for offset in (0, 1e5):
        x, dy, *parameters = draws(11, (16, 1024), (16, 1024), (1024,), (1024,), dtype=torch.float32, offset=offset)
        both = []
        for layer, dtype in ((ours.LayerNormFunction.apply, torch.float32), (by_pytorch, torch.float64)):
            leaves = [item.to(dtype).requires_grad_() for item in (x, *parameters)]
            both.append(torch.autograd.grad(layer(*leaves, 1e-5), leaves, dy.to(dtype)))
        assert all((a - b).norm() < 4e-7 * b.norm() for a, b in zip(*both, strict=True))  # 2^-24 = 6e-8


# -------------------------------------------------------------------------------- what lessons 9 to 11 and 15 only show


def test_chargpt_sees_no_later_symbol_and_takes_short_texts():
    gpt = ours.CharGPT(symbols=7, context=6, width=8, heads=2, layers=2).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    logits, changed = gpt(tokens), torch.cat([tokens[:, :4], (tokens[:, 4:] + 1) % 7], 1)
    gaps = (gpt(changed) - logits).abs()
    assert gaps[:, :4].max() < 1e-12 and gaps[:, 4:].max() > 1e-3
    assert (gpt(tokens[:, :3]) - logits[:, :3]).abs().max() < 1e-12


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


# ------------------------------------------------------------------------------------------- sizes of convolutions


def test_conv_output_shape_agrees_with_every_convolution_of_a_grid():
    settings = itertools.product(range(1, 13), range(1, 7), range(1, 5), range(4), range(1, 4))
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

"""The exports where no check and no cell of a lesson judges them, against PyTorch: refusals, types, options, accuracy.

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
    """Largest difference, as a multiple of max(1, largest exact value); 0 for empty tensors."""
    if not exact.numel():
        return 0.0
    return ((value.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1)).item()


def with_gradients(layer, x, dy, parameters):
    """Return the output and the gradients of x and of the parameters."""
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *parameters], dy)]


# ------------------------------------------------------------------------------------------------- layers and options

LAYERS = {  # what: (name of the class, its arguments, its options, shape of x)
    "group_norm": ("GroupNorm", (2, 6), {}, (2, 6, 4, 3)),
    "a group for each channel": ("GroupNorm", (6, 6), {"bias": False}, (2, 6, 5)),
    "no parameters": ("GroupNorm", (1, 6), {"affine": False, "eps": 0.1}, (4, 6)),
    "no rows": ("GroupNorm", (2, 6), {}, (0, 6, 5)),
    "rms_norm": ("RMSNorm", ((3, 4),), {}, (2, 3, 4)),
    "rms_norm without a gain": ("RMSNorm", (4,), {"eps": 1e-6, "elementwise_affine": False}, (5, 4)),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name, arguments, options, shape", LAYERS.values(), ids=LAYERS)
def test_a_layer_is_pytorchs(name, arguments, options, shape, dtype):
    """Values and gradients within rounding of float64's, x left alone; names and text of the layer."""
    mine, theirs = (getattr(home, name)(*arguments, **options, dtype=dtype) for home in (ours, nn))
    torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    assert repr(theirs).rstrip(")") in repr(mine)
    theirs.load_state_dict(filled(mine).state_dict())
    theirs = theirs.double()
    if name == "RMSNorm":  # its eps is that of the type that is computed in, which float64 would change
        theirs.eps = theirs.eps or torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    x, dy = draw(1, *shape, dtype=dtype), draw(2, *shape, dtype=dtype)
    before = x.clone()
    output = with_gradients(mine, x, dy, mine.parameters())
    exact = with_gradients(theirs, x.double(), dy.double(), theirs.parameters())
    assert torch.equal(x, before) and [item.dtype for item in output] == [dtype] * len(output)
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


def test_vmap_and_jacrev_pass_through_the_function_and_the_norm():
    x, weight, bias = draws(9, (3, 5), (5,), (5,))
    layers = (by_pytorch, lambda x, *others: ours.layer_norm(x, 5, *others), ours.LayerNormFunction.apply)
    jacobian = lambda layer: torch.func.vmap(torch.func.jacrev(lambda row: layer(row, weight, bias, 1e-5)))(x)
    right, *jacobians = map(jacobian, layers)
    torch.testing.assert_close(jacobians, [right, right], rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------- what lessons 9 to 11 and 15 only show


@pytest.mark.parametrize("place, norms", [("pre", 5), ("post", 4), (None, 0)])
def test_chargpt_sees_no_later_symbol_and_takes_short_texts(place, norms):
    gpt = ours.CharGPT(symbols=7, context=6, width=8, heads=2, layers=2, place=place).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    logits, changed = gpt(tokens), torch.cat([tokens[:, :4], (tokens[:, 4:] + 1) % 7], 1)
    gaps = (gpt(changed) - logits).abs()
    assert gaps[:, :4].max() < 1e-12 and gaps[:, 4:].max() > 1e-3
    assert (gpt(tokens[:, :3]) - logits[:, :3]).abs().max() < 1e-12
    assert sum(isinstance(module, ours.LayerNorm) for module in gpt.modules()) == norms


@pytest.mark.parametrize(
    "content, first, last",
    [
        (b"", b"", b""),
        (b" \n a b \t", b"a b \t", b" \n a b"),  # each half is stripped at its own end only
        (b"x" * 1023 + b"yz", b"x" * 1023 + b"y", b"x" * 1022 + b"yz"),
        (b" " * 4095 + b"x" * 4097, b"x", b"x" * 1024),  # only the first 4,096 bytes are looked at
        (b"a" * 3000 + b" " * 2000 + b"b" * 1000, b"a" * 1024, b" " * 24 + b"b" * 1000),
        (bytes(range(256)) * 20, bytes(range(256)) * 4, bytes(range(256)) * 4),  # not white space: 0x1c to 0x1f, 0x85
    ],
)
def test_file_bytes_follows_magikas_rule(content, first, last):
    tokens = ours.file_bytes(content)
    assert tokens.dtype == torch.int64
    padding = [[256] * (1024 - len(half)) for half in (first, last)]
    assert tokens.tolist() == [*first, *padding[0], *padding[1], *last]
    assert torch.equal(tokens, ours.file_bytes(bytearray(content)))


# ------------------------------------------------------------------------------------------- sizes of convolutions


def test_conv_output_shape_agrees_with_every_convolution_of_a_grid():
    for length, *setting in itertools.product(range(1, 13), range(1, 7), range(1, 5), range(4), range(1, 4)):
        size, stride, padding, dilation = setting
        x, kernel = torch.zeros(1, 1, 9, length), torch.zeros(1, 1, 2, size)
        try:  # the other axis has settings of its own
            there = F.conv2d(x, kernel, None, (1, stride), (1, padding), (2, dilation)).shape[2:]
        except RuntimeError:
            there = None
        settings = (2, size), (1, stride), (1, padding), (2, dilation)
        if there is None:
            with pytest.raises(ValueError):
                ours.conv_output_shape((9, length), *settings)
        else:
            assert ours.conv_output_shape((9, length), *settings) == tuple(there)
    assert ours.conv_output_shape((9,), 3, 2, padding=1) == (5,), "a number stands for all axes"

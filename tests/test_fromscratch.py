"""The exports where no check and no cell of a lesson judges them, against PyTorch: refusals, types, options, accuracy.

What an exercise asks for is judged by its check, whose own answer the export is; tests/mutation.py shows what it finds.
The loops of lesson 13 have a file of their own, test_fused.py.
"""

import copy
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


def outcome(function, *arguments):
    """Return what a call does: the type of its error, or the dtype of its result."""
    try:
        return function(*arguments).dtype
    except Exception as error:
        return type(error)


# ------------------------------------------------------------------------------------------------- layers and options

LAYERS = {  # what: (name of the class, its arguments, its options, shape of x)
    "group_norm": ("GroupNorm", (2, 6), {}, (2, 6, 4, 3)),
    "one group, rows": ("GroupNorm", (1, 6), {"eps": 0.1}, (4, 6)),
    "a group for each channel": ("GroupNorm", (6, 6), {"bias": False}, (2, 6, 5)),
    "no parameters": ("GroupNorm", (3, 6), {"affine": False}, (1, 6, 2, 3, 2)),
    "no rows": ("GroupNorm", (2, 6), {}, (0, 6, 5)),
    "layer_norm": ("LayerNorm", ((3, 4),), {"eps": 0.1}, (2, 3, 4)),
    "no features": ("LayerNorm", (0,), {}, (3, 0)),
    "a gain alone": ("LayerNorm", (4,), {"bias": False}, (2, 3, 4)),
    "rms_norm": ("RMSNorm", ((3, 4),), {}, (2, 3, 4)),
    "rms_norm without a gain": ("RMSNorm", (4,), {"eps": 1e-6, "elementwise_affine": False}, (5, 4)),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name, arguments, options, shape", LAYERS.values(), ids=LAYERS)
def test_a_layer_is_pytorchs(name, arguments, options, shape, dtype):
    """Values and gradients within rounding of float64's, x left alone; names, first values and text of the layer."""
    mine, theirs = (getattr(home, name)(*arguments, **options, dtype=dtype) for home in (ours, nn))
    state, expected = mine.state_dict(), copy.deepcopy(theirs.state_dict())
    assert list(state) == list(expected) and all(torch.equal(state[key], expected[key]) for key in state)
    assert all(state[key].dtype == dtype for key in state) and repr(theirs).rstrip(")") in repr(mine)
    theirs.load_state_dict(filled(mine).state_dict())
    theirs = theirs.double()
    if name == "RMSNorm":  # its eps is that of the type that is computed in, which float64 would change
        theirs.eps = theirs.eps or torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    x, dy = draw(1, *shape, dtype=dtype), draw(2, *shape, dtype=dtype)
    before = x.clone()
    found = with_gradients(mine, x, dy, mine.parameters())
    exact = with_gradients(theirs, x.double(), dy.double(), theirs.parameters())
    assert torch.equal(x, before) and [item.dtype for item in found] == [dtype] * len(found)
    for value, right in zip(found, exact, strict=True):
        assert value.shape == right.shape and gap(value, right) < TYPES[dtype]
    if hasattr(mine, "reset_parameters"):
        mine.reset_parameters()
        assert all(torch.equal(value, expected[key]) for key, value in mine.state_dict().items())


def test_group_norm_can_be_differentiated_twice_and_mapped():
    layer, x = filled(ours.GroupNorm(3, 6).double()), draw(5, 2, 6, 4).requires_grad_()
    assert torch.autograd.gradgradcheck(layer, x)
    many = draw(6, 3, 2, 6, 4)
    assert gap(torch.func.vmap(layer)(many), torch.stack([layer(part) for part in many])) < 1e-12


def test_layers_are_made_where_and_as_what_they_are_asked_to_be():
    made = {"device": "meta", "dtype": torch.float64}
    for layer in (
        ours.LayerNorm(4, **made),
        ours.RMSNorm(4, **made),
        ours.GroupNorm(2, 4, **made),
        ours.BatchNorm1d(4, **made),
    ):
        items = layer.state_dict().values()
        assert {item.device.type for item in items} == {"meta"}
        assert {item.dtype for item in items if item.is_floating_point()} == {torch.float64}
    assert ours.RunningStatistics(4).momentum == nn.BatchNorm1d(4).momentum


def test_the_types_that_may_meet_are_pytorchs():
    x, differ = draw(0, 3, 4), []
    for kinds in itertools.product([*TYPES, torch.int64], [*TYPES, None], [*TYPES, None]):
        given = x.to(kinds[0]), (4,), *(kind and torch.ones(4, dtype=kind) for kind in kinds[1:])
        if outcome(ours.layer_norm, *given) != outcome(F.layer_norm, *given):
            differ.append(kinds)
    for kind, parameters in itertools.product(TYPES, TYPES):
        mine, theirs = (home.GroupNorm(2, 4, dtype=parameters) for home in (ours, nn))
        if outcome(mine, x.to(kind)) != outcome(theirs, x.to(kind)):
            differ.append((kind, parameters))
    assert differ == []


# ------------------------------------------------------------------------------------------------------------ refusals

X = torch.zeros(2, 3, 4)
IMAGE = torch.zeros(2, 6, 5)
ROWS = torch.zeros(3, 4)
TOKENS = torch.zeros(1, 2048, dtype=torch.int64)


def norm(x, *arguments):
    return lambda: ours.layer_norm(x, *arguments)


def size(*settings):
    return lambda: ours.conv_output_shape(*settings)


def types(tokens):
    return lambda: ours.FileTyper()(tokens)


def typer(norm):
    return lambda: ours.load_typer(norm)


REFUSED = [  # (call, error, what the message names: the value, what was expected, the way out)
    (norm(X, 5), RuntimeError, r"\[5\].*\[\*, 5\].*\[2, 3, 4\].*movedim"),
    (norm(X[0, 0], (3, 4)), RuntimeError, r"\[3, 4\].*size \[4\]"),
    (norm(X, ()), RuntimeError, r"at least 1-dimensional.*= \[\].*x.shape\[-1\]"),
    (norm(X, -1), RuntimeError, r"\[-1\].*negative.*x.shape\[-1\]"),
    (norm(X, (3, -4)), RuntimeError, "negative"),
    (norm(X, (4.0,)), TypeError, r"\(4.0,\).*whole number"),
    (norm(X, None), TypeError, "None.*whole number"),
    (norm(X, 4, torch.ones(1)), RuntimeError, r"weight of shape \[1\].*one number to each"),
    (norm(X, 4, None, torch.ones(3)), RuntimeError, r"bias of shape \[3\].*\[4\]"),
    (norm(X, 4, 2.0), TypeError, "weight is of type float.*tensor"),
    (norm(X, 4, None, 2.0), TypeError, "bias is of type float.*tensor"),
    (norm([1.0, 2.0], 2), TypeError, "x is of type list.*torch.tensor"),
    (norm(None, 2), TypeError, "x is of type NoneType"),
    (norm(X.long(), 4), NotImplementedError, r"int64.*x\.float\(\)"),
    (norm(X, 4, torch.ones(4).double()), RuntimeError, r"x is float32, weight and bias are float64.*x\.to\("),
    (lambda: ours.RMSNorm(()), RuntimeError, r"normalized_shape is \(\)"),
    (lambda: ours.RMSNorm(-1), RuntimeError, "normalized_shape is -1"),
    (lambda: ours.RMSNorm((3, -4)), RuntimeError, r"normalized_shape is \(3, -4\)"),
    (lambda: ours.RMSNorm(5)(X), RuntimeError, r"\(2, 3, 4\), expected \(\*, 5,\)"),
    (lambda: ours.RMSNorm((3, 4))(X[0, 0]), RuntimeError, r"\(4,\), expected \(\*, 3, 4\)"),
    (lambda: ours.RMSNorm(4)(X.long()), NotImplementedError, r"int64.*x\.float\(\)"),
    (lambda: ours.GroupNorm(4, 6), ValueError, r"num_channels \(6\) must be divisible"),
    (lambda: ours.GroupNorm(0, 6), ValueError, "divisible"),
    (lambda: ours.GroupNorm(-2, 6), ValueError, "divisible"),
    (lambda: ours.GroupNorm(2, 6, affine=False)(X), RuntimeError, r"\(2, 3, 4\), expected \(B, 6, ...\)"),
    (lambda: ours.GroupNorm(2, 6)(torch.zeros(6)), RuntimeError, r"\(6,\), expected \(B, 6, ...\)"),
    (lambda: ours.GroupNorm(6, 6)(torch.zeros(1, 6)), ValueError, "one number for each group"),
    (lambda: ours.GroupNorm(2, 6, affine=False)(IMAGE.long()), NotImplementedError, r"int64.*x\.float\(\)"),
    (lambda: ours.GroupNorm(2, 6)(IMAGE.double()), RuntimeError, "x is torch.float64, weight is torch.float32"),
    (lambda: ours.BatchNorm1d(4)(torch.zeros(3, 5)), ValueError, r"\(B, 4\) or \(B, 4, T\), got \(3, 5\)"),
    (lambda: ours.LayerNormGRUCell(5, 6)(ROWS, torch.zeros(3, 6)), RuntimeError, r"\(3, 4\), expected \(..., 5\)"),
    (lambda: ours.LayerNormGRUCell(4, 6)(ROWS, torch.zeros(2, 6)), RuntimeError, r"h .*\(2, 6\), expected \(3, 6\)"),
    (lambda: ours.Block(8, 2, place="Pre"), ValueError, "'Pre', expected 'pre', 'post' or None"),
    (size((8, 6), (3, 3, 3)), ValueError, "kernel_size is .*one number for each axis: 2"),
    (size((8, 6), 3, (1,)), ValueError, "stride is"),
    (size((), 3), ValueError, "size is .*at least one"),
    (size((8, 6), 0), ValueError, "kernel_size is 0, expected at least 1"),
    (size((8, 6), 3, 0), ValueError, "stride is 0"),
    (size((8, 6), 3, 1, -1), ValueError, "padding is -1, expected at least 0"),
    (size((8, 6), 3, 1, 0, 0), ValueError, "dilation is 0"),
    (size((0, 6), 1), ValueError, "size is .*at least 1"),
    (size((8, 6), (3, -1)), ValueError, "kernel_size"),
    (size((8.0, 6), 3), TypeError, "whole number"),
    (size((8, 6), 3, 1, "same"), TypeError, "whole number"),
    (size((8, 6), 3, 1, True), TypeError, "whole number"),
    (size(8, 3), TypeError, r"whole number for each axis: \(H, W\)"),
    (size((8, 8), 5, 1, 0, 2), ValueError, "9 pixels.*8"),
    (lambda: ours.file_bytes("text"), TypeError, "of type str, expected bytes.*read_bytes"),
    (lambda: ours.file_bytes(memoryview(b"abc")), TypeError, "of type memoryview, expected bytes"),
    (types(TOKENS.float()), TypeError, "torch.float32, expected an int64.*file_bytes"),
    (types([[0] * 2048]), TypeError, "list, expected an int64.*file_bytes"),
    (types(TOKENS[0]), ValueError, r"\(2048,\), expected \(B, 2048\).*file_bytes"),
    (types(TOKENS[:, 1:]), ValueError, r"\(1, 2047\), expected \(B, 2048\)"),
    (types(TOKENS + 257), ValueError, "from 257 to 257, expected 0 to 255.*file_bytes"),
    (types(TOKENS - 1), ValueError, "from -1 to -1, expected 0 to 255"),
    (typer(nn.BatchNorm1d), ValueError, "running_mean.*Give a class like nn.LayerNorm"),
    (typer(lambda size, eps: nn.LayerNorm(256)), ValueError, r"weight \(256,\), bias \(256,\)"),
    (typer(lambda size, eps: abs), ValueError, "holds nothing"),
    (typer(ours.RMSNorm), ValueError, r"holds weight \(512,\)\. "),
    (typer(None), ValueError, "cannot be called"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=lambda number: f"{number}-{REFUSED[number][2][:20]}")
def test_what_does_not_fit_is_refused_by_name(number):
    call, error, words = REFUSED[number]
    with pytest.raises(error, match=f"(?s){words}") as caught:
        call()
    assert type(caught.value) is error


# ------------------------------------------------------------------------------------------------- accuracy, transforms


@pytest.mark.parametrize("offset, allowed", [(0, 1.3), (10, 0.5), (1_000, 0.1), (10_000, 0.1)])
def test_layer_norm_is_no_less_accurate_than_pytorch(offset, allowed):
    """float32 rows of 768, root mean square errors of the output. Seen: 1.02 of PyTorch's, 0.14 at 10, then 0.02."""
    sums = torch.zeros(2, dtype=torch.float64)
    for seed in range(4):
        x = draw(seed, 128, 768, dtype=torch.float32) + offset
        exact = F.layer_norm(x.double(), (768,))
        for at, layer in enumerate((ours.layer_norm, F.layer_norm)):
            sums[at] += (layer(x, (768,)).double() - exact).square().mean().sqrt()
    assert sums[0] < allowed * sums[1]


def test_layer_norm_backward_keeps_its_digits_at_any_offset():
    for offset in (0, 1e3, 1e5):
        shapes = (16, 1024), (16, 1024), (1024,), (1024,)
        x, dy, weight, bias = draws(11, *shapes, dtype=torch.float32, offset=offset)
        given = [item.double().requires_grad_() for item in (x, weight, bias)]
        exact = torch.autograd.grad(F.layer_norm(given[0], (1024,), *given[1:]), given, dy.double())
        leaves = [item.requires_grad_() for item in (x, weight, bias)]
        found = torch.autograd.grad(ours.LayerNormFunction.apply(*leaves, 1e-5), leaves, dy)
        assert all((a - b).norm() < 4e-7 * b.norm() for a, b in zip(found, exact, strict=True)), offset  # 2^-24 = 6e-8


def test_vmap_and_jacrev_pass_through_the_function_and_the_norm():
    x, weight, bias = draws(9, (3, 5), (5,), (5,))
    layers = [
        lambda row: F.layer_norm(row, (5,), weight, bias),
        lambda row: ours.layer_norm(row, 5, weight, bias),
        lambda row: ours.LayerNormFunction.apply(row, weight, bias, 1e-5),
    ]
    right, *found = [torch.func.vmap(torch.func.jacrev(layer))(x) for layer in layers]
    for jacobian in found:
        torch.testing.assert_close(jacobian, right, rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------- what lessons 9 to 11 and 15 only show


def test_the_size_of_a_convolution_over_a_full_grid():
    """What PyTorch's own returns, None where it refuses; two unlike axes, so that none may take the other's number."""

    def theirs(sizes, *rest):
        try:
            with torch.device("meta"):
                return tuple(nn.Conv2d(1, 1, *rest)(torch.empty(1, 1, *sizes)).shape[2:])
        except RuntimeError:
            return None

    def mine(*settings):
        try:
            return ours.conv_output_shape(*settings)
        except ValueError:
            return None

    grid = list(itertools.product(range(1, 10), range(1, 6), range(1, 4), range(3), range(1, 4)))
    grid = [tuple(zip(*both, strict=True)) for both in zip(grid, reversed(grid), strict=True)]
    differ = [settings for settings in grid if mine(*settings) != theirs(*settings)]
    assert not differ and len({mine(*settings) for settings in grid}) > 5, f"(L, k, s, p, d): {differ[:5]}"
    found = ours.conv_output_shape([8, 6], [3, 2], torch.Size([1, 2]))
    assert found == (6, 3) and type(found) is tuple and ours.conv_output_shape((4, 6, 9), 2) == (3, 5, 8)


@pytest.mark.parametrize("cell", [ours.LayerNormGRUCell, ours.LayerNormLSTMCell])
def test_the_matrices_of_a_new_cell_are_drawn_as_pytorchs(cell):
    for name, value in cell(4, 6).state_dict().items():
        if name in ("weight_ih", "weight_hh"):
            assert value.abs().max() <= 6**-0.5 and value.std() > 0.1


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_block_is_pytorchs_with_gradients(place, causal):
    block = filled(ours.Block(8, 2, place=place, causal=causal)).double()
    layer = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, batch_first=True, norm_first=place == "pre", dtype=torch.float64
    )
    norms = (block.before1, block.before2) if place == "pre" else (block.after1, block.after2)
    pairs = [(block.attend.out, layer.self_attn.out_proj), (block.mlp[0], layer.linear1), (block.mlp[2], layer.linear2)]
    for mine, theirs in [*pairs, *zip(norms, (layer.norm1, layer.norm2), strict=True)]:
        theirs.load_state_dict(mine.state_dict())
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(block.attend.qkv.weight)
        layer.self_attn.in_proj_bias.copy_(block.attend.qkv.bias)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    x, dy = draw(0, 2, 5, 8), draw(3, 2, 5, 8)
    found = with_gradients(block, x, dy, []), with_gradients(lambda h: layer(h, src_mask=mask), x, dy, [])
    assert all((a - b).abs().max() < 1e-10 for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("place", ["pre", "post", None])
def test_chargpt_sees_no_later_symbol_and_takes_short_texts(place):
    gpt = ours.CharGPT(symbols=7, context=6, width=8, heads=2, layers=2, place=place).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    logits, other = gpt(tokens), tokens.clone()
    other[:, 4:] = (other[:, 4:] + 1) % 7
    assert (gpt(other)[:, :4] - logits[:, :4]).abs().max() < 1e-12 and (gpt(other) - logits)[:, 4:].abs().max() > 1e-3
    assert (gpt(tokens[:, :3]) - logits[:, :3]).abs().max() < 1e-12
    norms = sum(isinstance(module, ours.LayerNorm) for module in gpt.modules())
    assert norms == {"pre": 5, "post": 4, None: 0}[place]
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in gpt.parameters())
    assert torch.equal(copy.deepcopy(gpt)(tokens), logits)


SPACE = b" \t\n\r\x0b\x0c"  # what bytes.strip() leaves out


@pytest.mark.parametrize(
    "content, first, last",
    [
        (b"", b"", b""),
        (SPACE * 50, b"", b""),
        (b" \n a b \t", b"a b \t", b" \n a b"),  # each half is stripped at its own end only
        (b"x" * 1023 + b"yz", b"x" * 1023 + b"y", b"x" * 1022 + b"yz"),
        (b" " * 4096 + b"x" * 4096, b"", b"x" * 1024),  # only the first 4,096 bytes are looked at
        (b" " * 4095 + b"x" * 4097, b"x", b"x" * 1024),
        (b"x" * 4096 + b" " * 4096, b"x" * 1024, b""),
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

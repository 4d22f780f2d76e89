"""fromscratch.RMSNorm against torch.nn.RMSNorm and float64."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import RMSNorm
from tests.helpers import draw

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def filled(layer, seed=9):
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(draw(seed, *parameter.shape))
    return layer


def exact(x, weight, sizes, eps):
    axes = tuple(range(-len(sizes), 0))
    y = x.double() / torch.sqrt(x.double().square().mean(axes, keepdim=True) + eps)
    return y if weight is None else y * weight.double()


@pytest.mark.parametrize("sizes", [(6,), (1,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 300.0])
@pytest.mark.parametrize("eps", [None, 1e-6, 0.1])
def test_values_are_pytorchs_and_exact_to_one_rounding(sizes, dtype, scale, eps):
    mine, theirs = (filled(cls(sizes, eps=eps).to(dtype)) for cls in (RMSNorm, nn.RMSNorm))
    x = draw(0, 5, 2, 3, 6, scale=scale, dtype=dtype)[..., : sizes[-1]]
    y, truth_eps = mine(x), torch.finfo(torch.promote_types(dtype, torch.float32)).eps if eps is None else eps
    truth = exact(x, mine.weight, sizes, truth_eps)
    unit = torch.finfo(dtype).eps * truth.abs().max()
    assert y.dtype == dtype and y.shape == x.shape
    assert (y.double() - truth).abs().max() <= (4 if dtype in TYPES[2:] else 0.51) * unit  # one rounding in half types
    assert (y.double() - theirs(x).double()).abs().max() <= 4 * unit


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_half_rows_with_a_float32_gain(dtype):
    x, layer = draw(0, 4, 8, dtype=dtype), filled(RMSNorm(8))
    y = layer(x)
    assert y.dtype == dtype
    truth = exact(x, layer.weight, (8,), torch.finfo(torch.float32).eps)
    assert (y.double() - truth).abs().max() <= 0.51 * torch.finfo(dtype).eps * truth.abs().max()


def test_gradients():
    mine, theirs = (filled(cls((3, 4)).double()) for cls in (RMSNorm, nn.RMSNorm))
    x, dy = draw(1, 2, 3, 4), draw(2, 2, 3, 4)
    found = []
    for layer in (mine, theirs):
        leaf = x.clone().requires_grad_()
        found.append(torch.autograd.grad((layer(leaf) * dy).sum(), [leaf, layer.weight]))
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(*found, strict=True))
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(mine, leaf) and torch.autograd.gradgradcheck(mine, leaf)


def test_checkpoints_travel_both_ways():
    mine, theirs = RMSNorm((3, 4)), nn.RMSNorm((3, 4))
    theirs.load_state_dict(filled(mine).state_dict())
    assert torch.equal(theirs.weight, mine.weight)
    mine.load_state_dict(filled(theirs, seed=3).state_dict())
    assert torch.equal(theirs.weight, mine.weight)
    assert list(RMSNorm(4, elementwise_affine=False).state_dict()) == []
    nn.RMSNorm(4, elementwise_affine=False).load_state_dict(RMSNorm(4, elementwise_affine=False).state_dict())


def test_attributes_and_arguments():
    layer = RMSNorm([3, 4], 1e-6, True, torch.device("meta"), torch.float64)
    assert layer.normalized_shape == (3, 4) and layer.eps == 1e-6 and layer.elementwise_affine is True
    assert layer.weight.device.type == "meta" and layer.weight.dtype == torch.float64
    assert isinstance(layer.weight, nn.Parameter) and RMSNorm(4, elementwise_affine=False).weight is None
    for arguments in ((4,), ((3, 4), 1e-6, False)):
        assert repr(RMSNorm(*arguments)) == repr(nn.RMSNorm(*arguments))
    layer = filled(RMSNorm(4))
    layer.reset_parameters()
    assert torch.equal(layer.weight, torch.ones(4))
    RMSNorm(4, elementwise_affine=False).reset_parameters()
    assert RMSNorm(torch.Size([5])).normalized_shape == (5,)
    x = draw(0, 2, 4, dtype=torch.float32)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))


@pytest.mark.parametrize("size, shape", [(5, (2, 3, 4)), (1, (2, 4)), ((3, 4), (4,)), ((1, 2, 3, 4), (2, 3, 4))])
def test_shapes_that_do_not_fit_are_refused(size, shape):
    with pytest.raises(RuntimeError, match="expected"):
        RMSNorm(size)(torch.ones(shape))


def test_bad_arguments_are_refused():
    for size in ((), -1, (3, -4)):
        with pytest.raises(RuntimeError, match="normalized_shape"):
            RMSNorm(size)
    with pytest.raises(TypeError):
        RMSNorm(4.0)
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(NotImplementedError, match="float"):
            RMSNorm(4)(torch.ones(2, 4).to(dtype))


def test_empty_transposed_constant_and_zero_rows():
    layer = RMSNorm(4)
    assert layer(torch.ones(0, 4)).shape == (0, 4)
    x = draw(0, 4, 3, dtype=torch.float32)
    assert (layer(x.T) - F.rms_norm(x.T, (4,))).abs().max() < 1e-6
    for dtype in TYPES:
        assert (layer.to(dtype)(torch.zeros(2, 4, dtype=dtype)) == 0).all()  # eps keeps 0 / 0 away, in half types too
    before = x.clone()
    RMSNorm(3)(x)
    assert torch.equal(x, before)


def test_layer_norm_is_rms_norm_of_the_centered_row():
    x = draw(0, 5, 7)
    centered = x - x.mean(-1, keepdim=True)
    assert (RMSNorm(7, eps=1e-5).double()(centered) - F.layer_norm(x, (7,))).abs().max() < 1e-12


def test_vmap_and_half_overflow():
    layer = filled(RMSNorm(4).double())
    x = draw(0, 2, 3, 4)
    assert (torch.func.vmap(layer, in_dims=1, out_dims=1)(x) - layer(x)).abs().max() < 1e-12
    assert RMSNorm(4)(torch.full((1, 4), 60000.0, dtype=torch.float16)).isfinite().all()

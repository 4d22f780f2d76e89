"""fromscratch.GroupNorm against torch.nn.GroupNorm: values, gradients, types, errors, bookkeeping."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import GroupNorm
from tests.helpers import draw

SHAPES = [(4, 6), (2, 6, 5), (2, 6, 1), (2, 6, 4, 3), (2, 6, 2, 3, 2), (1, 6, 4, 3), (0, 6, 5)]
TYPES = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def filled(layer, seed=9):
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(seed + i, *parameter.shape))
    return layer


def gap(ours, exact):
    """Largest difference, as a multiple of max(1, largest exact value); 0 for empty tensors."""
    if not exact.numel():
        return 0.0
    return ((ours.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1)).item()


def results(layer, x, dy):
    x = x.clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], dy)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape, groups, dtype):
    x, dy = draw(1, *shape, dtype=dtype), draw(2, *shape, dtype=dtype)
    mine = filled(GroupNorm(groups, 6).to(dtype))
    theirs = copy.deepcopy(mine).double()
    exact = filled(nn.GroupNorm(groups, 6).double())
    exact.load_state_dict(theirs.state_dict())
    kept = x.clone()
    ours = results(mine, x, dy)
    assert torch.equal(x, kept) and [t.dtype for t in ours] == [dtype] * 4
    for a, b in zip(ours, results(exact, x.double(), dy.double()), strict=True):
        assert a.shape == b.shape and gap(a, b) < (4 if dtype in (torch.float16, torch.bfloat16) else 1) * TYPES[dtype]


@pytest.mark.parametrize(
    "options", [{"affine": False}, {"bias": False}, {"affine": False, "bias": True}, {"eps": 0.1}], ids=str
)
def test_options(options):
    mine, theirs = GroupNorm(3, 6, dtype=torch.float64, **options), nn.GroupNorm(3, 6, dtype=torch.float64, **options)
    kept = [{name: tensor.shape for name, tensor in layer.state_dict().items()} for layer in (mine, theirs)]
    assert kept[0] == kept[1]
    x = draw(3, 2, 6, 5)
    assert gap(filled(mine)(x), filled(theirs)(x)) < 1e-12
    assert mine.weight is None or torch.equal(GroupNorm(3, 6).weight, torch.ones(6))
    assert mine.bias is None or torch.equal(GroupNorm(3, 6).bias, torch.zeros(6))


def test_checkpoints_travel_both_ways():
    mine, theirs = GroupNorm(2, 6), nn.GroupNorm(2, 6)
    assert list(mine.state_dict()) == list(theirs.state_dict()) == ["weight", "bias"]
    theirs.load_state_dict(filled(mine).state_dict())
    assert torch.equal(theirs.weight, mine.weight) and torch.equal(theirs.bias, mine.bias)
    mine.load_state_dict(filled(theirs, seed=3).state_dict())
    x = draw(0, 2, 6, 5, dtype=torch.float32)
    assert gap(mine(x), theirs(x)) < 5e-6
    for twin in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):
        assert torch.equal(twin(x), mine(x))


def test_attributes_and_arguments():
    layer = GroupNorm(2, 6, 1e-3, True, torch.device("meta"), torch.float64)
    assert (layer.num_groups, layer.num_channels, layer.eps, layer.affine) == (2, 6, 1e-3, True)
    assert layer.weight.device.type == "meta" and layer.bias.dtype == torch.float64
    for options in ({}, {"affine": False}, {"bias": False}):
        assert repr(GroupNorm(2, 6, **options)).startswith(repr(nn.GroupNorm(2, 6))[: len("GroupNorm(2, 6, eps=1e-05")])


@pytest.mark.parametrize(
    "x",
    [
        draw(4, 2, 6, 4, 3).to(memory_format=torch.channels_last),
        draw(4, 6, 2, 5).transpose(0, 1),
        draw(4, 2, 12, 5)[:, ::2],
        draw(4, 1, 6, 5).expand(3, 6, 5),
    ],
)
def test_memory_order(x):
    assert gap(filled(GroupNorm(2, 6).double())(x), filled(nn.GroupNorm(2, 6).double())(x)) < 1e-12


def kind(call):
    """What a call does: the type of its error, or the dtype of its result."""
    try:
        return call().dtype
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(6),
        torch.zeros(2, 4, 5),
        torch.zeros(2, 6, 5).double(),
        torch.zeros(2, 6, 5).half(),
        torch.zeros(2, 6, 5).bfloat16(),
    ],
    ids=lambda x: f"{tuple(x.shape)} {x.dtype}",
)
@pytest.mark.parametrize("parameters", [torch.float32, torch.float16, torch.float64], ids=str)
def test_what_may_meet_is_pytorchs(x, parameters):
    mine, theirs = GroupNorm(2, 6, dtype=parameters), nn.GroupNorm(2, 6, dtype=parameters)
    assert kind(lambda: mine(x)) == kind(lambda: theirs(x))


def test_empty_positions():
    assert GroupNorm(2, 6)(torch.zeros(2, 6, 0)).shape == nn.GroupNorm(2, 6)(torch.zeros(2, 6, 0)).shape == (2, 6, 0)


def test_refusals():
    for groups, channels in ((4, 6), (0, 6), (-2, 6)):
        with pytest.raises(ValueError, match="divisible"):
            GroupNorm(groups, channels)
    with pytest.raises(RuntimeError, match=r"expected \(B, 6"):
        GroupNorm(2, 6, affine=False)(torch.zeros(2, 4, 5))
    for cls in (GroupNorm, nn.GroupNorm):
        with pytest.raises(ValueError):  # one number for each group
            cls(6, 6)(torch.zeros(1, 6))
    with pytest.raises(NotImplementedError, match="float"):
        GroupNorm(2, 6, affine=False)(torch.zeros(2, 6, 5, dtype=torch.int64))


def test_derivatives_and_transforms():
    layer, x = filled(GroupNorm(3, 6).double()), draw(5, 2, 6, 4).requires_grad_()
    assert torch.autograd.gradcheck(layer, x) and torch.autograd.gradgradcheck(layer, x)
    many = draw(6, 3, 2, 6, 4)
    assert gap(torch.func.vmap(layer)(many), torch.stack([layer(part) for part in many])) < 1e-12


def test_relatives():
    x = draw(7, 2, 6, 4, 3)
    bare = {groups: GroupNorm(groups, 6, affine=False) for groups in (1, 6)}
    assert gap(bare[1](x), F.layer_norm(x, x.shape[1:])) < 1e-12
    assert gap(bare[6](x), F.instance_norm(x)) < 1e-12
    assert gap(bare[1](x), F.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1)) > 0.1


def test_large_offsets():
    x = 1000 + draw(8, 4, 6, 50, dtype=torch.float32)
    exact = F.group_norm(x.double(), 2)
    assert gap(GroupNorm(2, 6, affine=False)(x), exact) < 1e-5
    assert not GroupNorm(2, 6)(torch.full((2, 6, 5), 100.1)).any()

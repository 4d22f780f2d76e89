"""fromscratch.BatchNorm1d against nn.BatchNorm1d: output, buffers and gradients over several steps."""

import copy
import itertools

import pytest
import torch
from torch import nn

from fromscratch import BatchNorm1d, RunningStatistics, channel_stats
from tests.helpers import draw

# (B, C), (B, C, T), and the smallest batches that have a variance
SHAPES = [(6, 4), (2, 4), (3, 4, 5), (1, 4, 2), (2, 4, 1)]


def pair(C=4, seed=0, **options):
    """Ours and PyTorch's with the same random gain and bias."""
    layers = [kind(C, **{"dtype": torch.float64} | options) for kind in (BatchNorm1d, nn.BatchNorm1d)]
    for layer in layers:
        for number, parameter in enumerate(layer.parameters()):
            parameter.data.copy_(1 + draw(seed + number, C))
    return layers


def step(layer, x, upstream, rate=0.1):
    """One SGD step; returns output and gradients."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    (y * upstream).sum().backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters())]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter -= rate * parameter.grad
    return [y.detach(), *gradients]


def assert_same(ours, theirs, tolerance):
    assert len(ours) == len(theirs)
    for mine, torchs in zip(ours, theirs, strict=True):
        assert mine.dtype == torchs.dtype and mine.shape == torchs.shape
        torch.testing.assert_close(mine, torchs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    "momentum, affine, track, eps",
    [
        (0.1, True, True, 1e-5),
        (0.7, True, True, 0.1),
        (None, True, True, 1e-5),
        (0.0, False, True, 1e-5),
        (1.0, False, False, 1e-3),
        (0.1, True, False, 1e-5),
    ],
)
def test_six_steps_and_evaluation(momentum, affine, track, eps):
    ours, theirs = pair(momentum=momentum, affine=affine, track_running_stats=track, eps=eps)
    for number, shape in enumerate(itertools.chain(SHAPES, SHAPES[:1])):
        scale = torch.tensor([1.0, 0.01, 30, 4], dtype=torch.float64).view((1, -1, 1)[: len(shape)])
        x, upstream = 2 + scale * draw(number, *shape), draw(number + 50, *shape)
        # float64; a channel of spread 0.01 enlarges rounding up to 1 / 0.01, and the gradient once more
        assert_same(step(ours, x, upstream), step(theirs, x, upstream), 1e-9)
        assert_same([*ours.buffers()], [*theirs.buffers()], 1e-12)
    ours.eval(), theirs.eval()
    before = [buffer.clone() for buffer in ours.buffers()]
    for shape in [*SHAPES, (1, 4), (1, 4, 1)] if track else SHAPES:
        x, upstream = draw(7, *shape), draw(8, *shape)
        assert_same(step(ours, x, upstream), step(theirs, x, upstream), 1e-9)
        assert_same([*ours.buffers()], before, 0)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_dtypes(dtype, tolerance):
    ours, theirs = pair(dtype=dtype)
    for shape in SHAPES:
        x, upstream = draw(1, *shape, dtype=dtype) * 3 + 2, draw(2, *shape, dtype=dtype)
        if shape != (2, 4) and shape != (2, 4, 1):  # two entries: x_hat is ±1 and the gradient is rounding over eps
            assert_same(step(ours, x, upstream), step(theirs, x, upstream), 10 * tolerance)
    assert_same([*ours.buffers()], [*theirs.buffers()], tolerance)


def test_a_new_layer_is_like_pytorchs():
    ours, theirs = BatchNorm1d(5), nn.BatchNorm1d(5)
    assert list(ours.state_dict()) and set(ours.state_dict()) == set(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert ours.state_dict()[name].dtype == value.dtype and torch.equal(ours.state_dict()[name], value)
    assert {name for name, _ in ours.named_parameters()} == {"weight", "bias"}
    assert (ours.eps, ours.momentum, ours.num_features) == (theirs.eps, theirs.momentum, theirs.num_features)
    plain = BatchNorm1d(5, affine=False, track_running_stats=False)
    assert not plain.state_dict() and plain.weight is None and plain.running_mean is None


def test_state_dicts_are_exchanged_both_ways():
    ours, theirs = pair()
    ours(draw(3, 6, 4))
    theirs.load_state_dict(ours.state_dict())
    fresh = BatchNorm1d(4, dtype=torch.float64)
    fresh.load_state_dict(theirs.state_dict())
    x = draw(4, 3, 4)
    assert_same([ours.eval()(x), fresh.eval()(x)], [theirs.eval()(x)] * 2, 1e-12)


def test_copies_and_conversions():
    layer = BatchNorm1d(4)
    layer(draw(5, 6, 4, dtype=torch.float32)).sum().backward()
    assert not layer.running_mean.requires_grad and not layer.running_var.requires_grad
    twin = copy.deepcopy(layer).double()
    assert twin.running_var.dtype == torch.float64 and twin.num_batches_tracked.dtype == torch.int64
    address = layer.running_mean.data_ptr()
    layer(draw(6, 6, 4, dtype=torch.float32))
    assert layer.running_mean.data_ptr() == address, "buffers are updated in place"
    assert BatchNorm1d(4, device="meta")(torch.empty(3, 4, device="meta")).shape == (3, 4)


def test_the_gradient_is_right_to_the_second_order():
    layer = BatchNorm1d(3, dtype=torch.float64, track_running_stats=False)
    x = draw(9, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,)) and torch.autograd.gradgradcheck(layer, (x,))


def test_the_mode_decides_not_the_gradient_mode():
    layer = BatchNorm1d(4, dtype=torch.float64)
    x = draw(10, 6, 4)
    with torch.no_grad():
        y = layer(x)
    assert y.mean(0).abs().max() < 1e-12 and layer.num_batches_tracked == 1
    layer.eval()(x.requires_grad_())
    assert layer.num_batches_tracked == 1


@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 1)])
def test_a_batch_of_one_is_refused_in_training_only(shape):
    x = draw(11, *shape, dtype=torch.float32)
    layer = BatchNorm1d(4)
    with pytest.raises(ValueError, match="more than one entry per channel"):
        layer(x)
    assert layer.eval()(x).shape == shape
    with pytest.raises(ValueError, match="more than one entry per channel"):
        BatchNorm1d(4, track_running_stats=False).eval()(x)


@pytest.mark.parametrize("shape", [(4,), (3, 5), (3, 5, 4), (2, 4, 3, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"expected \(B, 4\) or \(B, 4, T\), got"):
        BatchNorm1d(4)(torch.zeros(shape))


def test_the_steps_behind_it():
    x = draw(12, 3, 4, 5)
    mean, var = channel_stats(x)
    assert_same([mean, var], [x.mean((0, 2)), x.var((0, 2), correction=0)], 1e-12)
    kept = RunningStatistics(4, momentum=1.0, dtype=torch.float64)
    kept.update(mean, var, 15)
    assert_same([kept.running_mean, kept.running_var], [x.mean((0, 2)), x.var((0, 2))], 1e-12)

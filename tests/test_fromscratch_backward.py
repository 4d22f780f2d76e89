"""fromscratch.layer_norm_backward and LayerNormFunction against PyTorch, float64 and finite differences."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from fromscratch import LayerNormFunction, layer_norm, layer_norm_backward, mean_and_var
from tests.banks.backward import BANK
from tests.helpers import draws, first_right, mistakes_of

apply = LayerNormFunction.apply


def by_pytorch(dy, x, weight, bias, eps=1e-5):
    leaves = [item.detach().clone().requires_grad_() for item in (x, weight, bias)]
    return torch.autograd.grad(F.layer_norm(leaves[0], x.shape[-1:], leaves[1], leaves[2], eps), leaves, dy)


def by_hand(dy, x, weight, eps=1e-5):
    mean, var = mean_and_var(x)
    return layer_norm_backward(dy, x, mean, torch.rsqrt(var + eps), weight)


def by_function(dy, x, weight, bias, eps=1e-5):
    leaves = [item.detach().clone().requires_grad_() for item in (x, weight, bias)]
    return torch.autograd.grad(apply(*leaves, eps), leaves, dy)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4), (2, 1, 3, 6), (1, 1), (4, 4), (3, 768)])
@pytest.mark.parametrize(
    "scale, offset, eps", [(1, 0, 1e-5), (3, 20, 1e-5), (1e-3, 0, 1e-5), (1, 0, 0.1), (0, 2.5, 1e-5)]
)
def test_gradients_are_pytorchs(shape, scale, offset, eps):
    x, dy, weight, bias = draws(1, shape, shape, shape[-1:], shape[-1:], scale=scale, offset=offset)
    right = by_pytorch(dy, x, weight, bias, eps)
    for ours in (by_hand(dy, x, weight, eps), by_function(dy, x, weight, bias, eps)):
        for mine, theirs in zip(ours, right, strict=True):
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9)  # PyTorch's sums are not centered


def test_output_is_layer_norms_bit_for_bit():
    x, weight, bias = draws(2, (2, 3, 7), (7,), (7,), dtype=torch.float32)
    assert torch.equal(apply(x, weight, bias, 1e-5), layer_norm(x, (7,), weight, bias))


def test_no_rows_give_zero_gradients():
    x, weight, bias = draws(3, (0, 5), (5,), (5,))
    dx, dweight, dbias = by_function(torch.empty(0, 5, dtype=torch.float64), x, weight, bias)
    assert dx.shape == (0, 5) and torch.equal(dweight, torch.zeros(5).double()) and torch.equal(dbias, dweight)


def test_transposed_and_expanded_tensors():
    x, weight, bias = draws(4, (5, 3, 2), (5,), (5,))
    x = x.transpose(0, 2)
    dy = torch.tensor(1.5, dtype=torch.float64).expand(2, 3, 5) * weight
    for mine, theirs in zip(by_function(dy, x, weight, bias), by_pytorch(dy, x, weight, bias), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_first_and_second_derivative(eps):
    inputs = [item.requires_grad_() for item in draws(5, (3, 5), (5,), (5,))]
    assert gradcheck(apply, (*inputs, eps)) and gradgradcheck(apply, (*inputs, eps))


def test_third_derivative():
    x, direction, weights, weight, bias = draws(6, (2, 5), (2, 5), (2, 5), (5,), (5,))

    def third(layer):
        v = x.clone().requires_grad_()
        value = (layer(v) * weights).sum()
        for _ in range(3):
            value = (torch.autograd.grad(value, v, create_graph=True)[0] * direction).sum()
        return value

    right = third(lambda v: layer_norm(v, (5,), weight, bias))
    torch.testing.assert_close(third(lambda v: apply(v, weight, bias, 1e-5)), right, rtol=1e-9, atol=1e-9)


def test_layer_norm_backward_can_be_differentiated():
    dy, x, weight = (item.requires_grad_() for item in draws(7, (3, 5), (3, 5), (5,)))
    assert gradcheck(by_hand, (dy, x, weight))


def test_only_what_needs_a_gradient():
    x, weight, bias = draws(8, (3, 5), (5,), (5,))
    x.requires_grad_()
    apply(x, weight, bias, 1e-5).sum().backward()
    assert x.grad is not None and weight.grad is None and bias.grad is None
    assert not apply(x.detach(), weight, bias, 1e-5).requires_grad


def test_vmap_and_jacrev():
    x, weight, bias = draws(9, (3, 5), (5,), (5,))
    jacobians = [
        torch.func.vmap(torch.func.jacrev(layer))(x)
        for layer in (lambda row: apply(row, weight, bias, 1e-5), lambda row: F.layer_norm(row, (5,), weight, bias))
    ]
    torch.testing.assert_close(*jacobians, rtol=1e-12, atol=1e-12)


def test_nothing_of_its_size_but_x_is_kept():
    x, weight, bias = (item.requires_grad_() for item in draws(10, (7, 11), (11,), (11,)))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda item: kept.append(item) or item, lambda item: item):
        y = apply(x, weight, bias, 1e-5)
    large = [item for item in kept if item.numel() >= x.numel()]
    assert len(large) == 1 and large[0].data_ptr() == x.data_ptr()
    assert not any(isinstance(item, torch.Tensor) for item in vars(y.grad_fn).values())


@pytest.mark.parametrize("offset", [0, 100, 1e3, 1e4, 1e5])
def test_float32_keeps_its_digits_at_any_offset(offset):
    x, dy, weight, bias = draws(11, (16, 1024), (16, 1024), (1024,), (1024,), dtype=torch.float32, offset=offset)
    right = by_pytorch(*(item.double() for item in (dy, x, weight, bias)))
    for mine, truth in zip(by_function(dy, x, weight, bias), right, strict=True):
        assert (mine - truth).norm() < 4e-7 * truth.norm()  # a few times 2^-24 = 6e-8


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 2e-3), (torch.bfloat16, 1e-2)])  # 11 and 8 bits
def test_half_precision(dtype, tolerance):
    # the squares of these x overflow float16
    x, dy, weight, bias = draws(12, (4, 64), (4, 64), (64,), (64,), dtype=dtype, scale=100, offset=50)
    right = by_pytorch(*(item.double() for item in (dy, x, weight, bias)))
    for mine, truth in zip(by_function(dy, x, weight, bias), right, strict=True):
        assert mine.dtype == dtype and (mine - truth).norm() < tolerance * truth.norm()


def test_the_two_sums_miss_only_what_the_lesson_says():
    """Section 7.4: a forgotten or wrong gain and a wrong factor in front escape the two sums, and no other mistake."""
    x, dy, weight = draws(13, (3, 5), (3, 5), (5,), scale=2, offset=1)
    mean, var = mean_and_var(x)
    rstd = torch.rsqrt(var + 1e-5)
    x_hat, h = (x - mean) * rstd, dy * weight
    right = by_hand(dy, x, weight)[0]
    missed, seen = [], 0
    for mistake in mistakes_of("layer_norm_backward", first_right(BANK["layer_norm_backward"])):
        try:
            dx = mistake.answer(dy.clone(), x.clone(), mean, rstd, weight)[0]
        except (RuntimeError, IndexError):
            continue
        if dx.shape != x.shape or (dx - right).abs().max() < 1e-5 * right.abs().max():
            continue
        first = dx.sum(-1).abs().max() / dx.abs().max()
        expected = 1e-5 * rstd.squeeze(-1) ** 2 * (h * x_hat).sum(-1)
        second = ((dx * (x - mean)).sum(-1) - expected).abs().max() / dx.abs().max()
        if max(first, second) < 1e-3:
            missed.append(mistake.cause)
        seen += 1
    said = (
        "the gain is missing in dx",
        "dy is divided by the gain",
        "the factor rstd in front",
        "rstd is squared in front",
        "the sign of the whole dx",
        "dx is divided by rstd",
    )
    assert len(missed) == len(said) and all(cause.startswith(said) for cause in missed) and seen > 30

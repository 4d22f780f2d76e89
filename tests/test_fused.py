"""The compiled LayerNorm: against PyTorch, in any number of threads, past the caches, and where its code is kept."""

import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from fromscratch import fused_layer_norm
from fromscratch import speed as lesson
from tests.helpers import draw, python


def drawn(rows, shape, dtype=torch.float64):
    """Return x, whose mean is far from 0, dy, weight and bias."""
    others = [draw(seed, *size, dtype=dtype) for seed, size in enumerate((rows, shape, shape))]
    return [draw(3, *rows, scale=3.0, mean=20.0, dtype=dtype), *others]


def everything(layer, x, dy, weight=None, bias=None, shape=None):
    """Return the output and the gradients of x, weight and bias, as far as they are given."""
    leaves = [None if item is None else item.detach().clone().requires_grad_() for item in (x, weight, bias)]
    y = layer(leaves[0], shape or x.shape[-1:], *leaves[1:])
    return [y.detach(), *torch.autograd.grad(y, [item for item in leaves if item is not None], dy)]


def agree(arguments, tolerance, shape=None):
    """Assert that fused_layer_norm and PyTorch agree in everything; return ours. arguments: x, dy and what follows."""
    ours, theirs = (everything(layer, *arguments, shape=shape) for layer in (fused_layer_norm, F.layer_norm))
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    return ours


CASES = {  # what: (x's shape, normalized_shape)
    "one row": ((5,), (5,)),
    "two axes": ((3, 5, 7), (5, 7)),
    "pieces and a half": ((8, 96), (96,)),
    "whole pieces": ((65, 128), (128,)),
    "no rows": ((0, 64), (64,)),
}


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-8), (torch.float32, 4e-4)])
@pytest.mark.parametrize("rows, shape", CASES.values(), ids=CASES)
def test_output_and_gradients_are_pytorchs(rows, shape, dtype, tolerance, monkeypatch):
    arguments = drawn(rows, shape, dtype)
    agree(arguments, tolerance, shape)
    agree(arguments[:2], tolerance, shape)  # neither gain nor bias
    monkeypatch.setattr(lesson, "LARGE", 0)  # past the caches
    agree(arguments, tolerance, shape)


def test_transposed_expanded_and_sliced_tensors():
    x, dy, weight, bias = drawn((5, 3, 2), (10,))
    agree([x.transpose(0, 2), dy[0].T[..., None].expand(2, 3, 5), weight[::2], bias.flip(0)[:5]], 1e-8)


def test_no_memory_but_the_results_is_written():
    memory = torch.full((4, 64), 7.0)
    x, ones, mean, rstd = torch.ones(2, 64), torch.ones(64), torch.empty(2, dtype=torch.float64), torch.empty(2)
    lesson.on_rows(lesson.forward_past_caches, 2, x, ones, ones, 1e-5, memory[1:3], mean, rstd)
    assert torch.equal(memory[1:3], x) and (memory[[0, 3]] == 7).all()


@pytest.mark.parametrize("rows, D, large", [(4096, 16, 2**21), (1, 40_000, 2**21), (600, 768, 0)])
def test_any_number_of_threads_gives_the_same_bits(rows, D, large, monkeypatch):
    monkeypatch.setattr(lesson, "LARGE", large)
    arguments, before = drawn((rows, D), (D,), torch.float32), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = agree(arguments, 1e-3)  # sums of 4096 in 24 bits
        torch.set_num_threads(3)
        assert all(map(torch.equal, alone, everything(fused_layer_norm, *arguments)))
    finally:
        torch.set_num_threads(before)


def test_without_pytorchs_threads_one_does_the_work(monkeypatch):
    monkeypatch.setattr(lesson, "_parallel", None)
    agree(drawn((2048, 64), (64,)), 1e-8)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"x": torch.zeros(2, 4).half()}, TypeError, "but x is"),
        ({"normalized_shape": 5}, ValueError, "what x's shape ends with"),
        ({"bias": torch.ones(1, 4)}, ValueError, "bias must have shape"),
        ({"weight": torch.ones(4).double()}, ValueError, "weight must have shape"),
        ({"x": torch.zeros(2, 4, device="meta")}, ValueError, "works on the CPU"),
    ],
)
def test_what_would_read_past_an_array_is_refused(change, error, words):
    with pytest.raises(error, match=words):
        fused_layer_norm(**{"x": torch.zeros(2, 4), "normalized_shape": 4} | change)


SCRIPT = """
import sys
import fromscratch
fromscratch.layer_norm_backward
assert "numba" not in sys.modules, "only fused_layer_norm imports Numba"
fromscratch.fused_layer_norm
print(fromscratch.forward_rows.stats.cache_path)
"""


def test_numba_is_imported_late_and_its_cache_lies_outside_the_repository(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    place = python("-c", SCRIPT, env=clean | {"HOME": str(tmp_path)}).strip()
    assert Path(place).is_relative_to(tmp_path / ".cache/layernorm-from-scratch")

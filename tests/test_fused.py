"""The loops of lesson 13: against PyTorch, in any number of threads, past the caches, and where they are kept."""

import importlib.util
import os
import platform
import re
from pathlib import Path

import pytest
import torch
from numba import types
from torch.autograd import gradgradcheck
from torch.nn import functional as F

from fromscratch import fused_layer_norm
from fromscratch import speed as lesson
from tests.helpers import draws, python


def everything(layer, x, dy, weight=None, bias=None, shape=None):
    """Return the output and the gradients of x, weight and bias, as far as they are given."""
    leaves = [None if item is None else item.detach().clone().requires_grad_() for item in (x, weight, bias)]
    y = layer(leaves[0], shape or x.shape[-1:], *leaves[1:])
    return [y.detach(), *torch.autograd.grad(y, [item for item in leaves if item is not None], dy)]


def sizes(shape):
    """Return a normalized_shape as a tuple, which F.layer_norm wants."""
    return (shape,) if isinstance(shape, int) else shape


def agree(arguments, tolerance, shape=None):
    """Assert that fused_layer_norm and PyTorch agree in everything; return ours. arguments: x, dy and what follows."""
    ours = everything(fused_layer_norm, *arguments, shape=shape)
    theirs = everything(F.layer_norm, *arguments, shape=sizes(shape))
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    return ours


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def kernels(monkeypatch):
    """The names of the kernels that were called."""
    called, on_rows = [], lesson.on_rows

    def noted(kernel, *arguments):
        called.append(kernel.__name__)
        on_rows(kernel, *arguments)

    monkeypatch.setattr(lesson, "on_rows", noted)
    return called


CASES = {  # what: x's shape, normalized_shape
    "rows": ((600, 7), 7),
    "one row": ((5,), torch.Size([5])),
    "two axes": ((3, 5, 7), (5, 7)),
    "whole pieces": ((65, 128), 128),
    "whole pieces of three axes": ((2, 3, 192), 192),
    "whole pieces, no rows": ((0, 64), 64),
}


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-8), (torch.float32, 4e-4)])  # sums of 600 in 24 bits
@pytest.mark.parametrize("rows, shape", CASES.values(), ids=CASES)
def test_output_and_gradients_are_pytorchs(rows, shape, dtype, tolerance, kernels, monkeypatch):
    arguments = draws(1, rows, rows, sizes(shape), sizes(shape), scale=3, offset=20, dtype=dtype)
    agree(arguments, tolerance, shape)
    agree(arguments[:2], tolerance, shape)  # neither gain nor bias
    assert kernels == ["forward_rows", "backward_rows"] * 2
    monkeypatch.setattr(lesson, "LARGE", 0)
    agree(arguments, tolerance, shape)
    if rows[-1] % 64 == 0:
        assert kernels[4:] == ["forward_past_caches", "backward_past_caches"]


def test_transposed_expanded_and_sliced_tensors():
    x, dy, weight, bias = draws(3, (5, 3, 2), (2, 3, 1), (10,), (10,))
    x = x.transpose(0, 2)
    agree([x, dy.expand(2, 3, 5), weight[::2], bias.flip(0)[:5]], 1e-9)  # steps other than 1
    assert fused_layer_norm(x, 5).is_contiguous() and fused_layer_norm(torch.empty(2, 0, 4), (0, 4)).shape == (2, 0, 4)


def test_the_second_derivative():
    leaves = [item.requires_grad_() for item in draws(6, (2, 5), (5,), (5,))]
    assert gradgradcheck(lambda x, weight, bias: fused_layer_norm(x, 5, weight, bias, 0.1), leaves)


def test_gradients_only_where_they_are_needed_and_no_memory_but_their_own():
    x, weight, bias = draws(8, (700, 64), (64,), (64,))
    before, kept = x.clone(), []
    x.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda item: kept.append(item) or item, lambda item: item):
        fused_layer_norm(x, 64, weight, bias).square().sum().backward()
    large = [item for item in kept if item.numel() >= x.numel()]
    assert x.grad is not None and weight.grad is None and torch.equal(x.detach(), before)
    assert len({item.data_ptr() for item in large} - {x.data_ptr()}) <= 1, "x, and what square keeps"
    assert not fused_layer_norm(x.detach(), 64, weight, bias).requires_grad
    _, _, *sums = everything(fused_layer_norm, x, x.detach(), weight, bias)
    assert {item.untyped_storage().nbytes() for item in sums} == {8 * 64}


@pytest.mark.parametrize("rows, D, past", [(128, 4096, False), (250, 768, True), (8192, 64, True)])
@pytest.mark.parametrize("offset", [0, 1e5])
# Not fewer rows than two blocks: within one block PyTorch in two threads adds up half as many numbers in a row.
def test_float32_is_no_further_from_the_truth_than_pytorch(rows, D, past, offset, two_threads, monkeypatch):
    monkeypatch.setattr(lesson, "LARGE", 0 if past else lesson.LARGE)
    arguments = draws(9, (rows, D), (rows, D), (D,), (D,), dtype=torch.float32, offset=offset)
    truth = everything(F.layer_norm, *(item.double() for item in arguments))
    for mine, theirs, right in zip(
        everything(fused_layer_norm, *arguments), everything(F.layer_norm, *arguments), truth, strict=True
    ):
        mine, theirs = ((item - right).norm() / right.norm() for item in (mine, theirs))
        # In fact at most 1.01 times, and up to 40,000 times smaller. (Loops compiled for SSE2 alone, without
        # fused multiply-add, come to 1.3 times at D = 4096 and offset 0.)
        assert mine < 5e-7 and mine < 1.1 * theirs  # 2^-24 = 6e-8


@pytest.mark.parametrize("D", [4, 64])
def test_nan_and_inf_stay_in_their_row(D, monkeypatch):
    monkeypatch.setattr(lesson, "LARGE", 0)
    x, bias = torch.ones(4, D), torch.arange(float(D))
    x[0, 1], x[1, 2] = float("nan"), float("inf")
    y = fused_layer_norm(x, D, bias=bias)
    assert y[:2].isnan().all() and torch.equal(y[2:], bias.expand(2, D)) and fused_layer_norm(x, D, eps=0).isnan().all()


# ------------------------------------------------------------------------------------------------- past the caches


@pytest.mark.parametrize(
    "rows, D, past", [(128, 64, True), (11, 768, True), (127, 64, False), (128, 65, False), (128, 96, False)]
)
def test_large_tensors_of_whole_pieces_are_written_past_the_caches(rows, D, past, kernels, monkeypatch):
    assert lesson.LARGE == 2**21
    monkeypatch.setattr(lesson, "LARGE", 2**13)
    fused_layer_norm(torch.ones(rows, D), D)
    assert kernels == ["forward_past_caches" if past else "forward_rows"]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for instructions of x86 processors")
def test_the_compiler_writes_non_temporal_stores_a_fence_and_prefetches():
    kernel = lesson.forward_past_caches.py_func
    fresh = lesson.njit(**{key: value for key, value in lesson.LOOPS.items() if key != "cache"})(kernel)
    vector, matrix = types.Array(types.float32, 1, "C"), types.Array(types.float32, 2, "C")
    wide, number = types.Array(types.float64, 1, "C"), types.int64
    fresh.compile((matrix, vector, vector, types.float64, matrix, wide, vector, number, number))
    code = "".join(fresh.inspect_asm().values())
    assert "movntps" in code and ("mfence" in code or "lock" in code) and "prefetch" in code


def test_no_memory_but_the_results_is_written():
    memory = torch.full((4, 64), 7.0)
    x, ones, mean, rstd = torch.ones(2, 64), torch.ones(64), torch.empty(2, dtype=torch.float64), torch.empty(2)
    lesson.on_rows(lesson.forward_past_caches, 2, x, ones, ones, 1e-5, memory[1:3], mean, rstd)
    assert torch.equal(memory[1:3], x) and (memory[[0, 3]] == 7).all()
    x, y = torch.arange(24.0).numpy(), torch.zeros(40).numpy()
    lesson.copy_past(x, y[:24])
    assert (y[:24] == x).all()
    for a, b in ((x[:9], y[:9]), (x[:8], y), (x[:8], y[1:9]), (x[::3], y[:8])):
        with pytest.raises(ValueError, match="takes"):
            lesson.copy_past(a, b)
    assert (y[24:] == 0).all()


# ------------------------------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize(
    "rows, D, past",
    [(4096, 16, False), (513, 512, False), (255, 1024, False), (1, 40_000, False), (600, 768, True), (3, 64, True)],
)
def test_any_number_of_threads_gives_the_same_bits(rows, D, past, two_threads, monkeypatch):
    monkeypatch.setattr(lesson, "LARGE", 0 if past else lesson.LARGE)
    arguments = draws(10, (rows, D), (rows, D), (D,), (D,), dtype=torch.float32, offset=3)
    torch.set_num_threads(1)
    alone = agree(arguments, 1e-3)  # sums of 4096 in 24 bits
    for count in (2, 3, 5):
        torch.set_num_threads(count)
        assert all(map(torch.equal, alone, everything(fused_layer_norm, *arguments))), f"{count} threads: other bits"


def test_without_pytorchs_threads_one_does_the_work(two_threads, monkeypatch):
    assert lesson._all_rows(7) == (0, 7)
    with monkeypatch.context() as nowhere:
        nowhere.setattr(Path, "glob", lambda *_: [])
        assert lesson._torchs_openmp() is None
    monkeypatch.setattr(lesson, "_parallel", None)
    arguments = draws(12, (2048, 64), (2048, 64), (64,), (64,), dtype=torch.float32)
    agree(arguments, 1e-4)


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"x": torch.zeros(2, 4).half()}, TypeError, "but x is"),
        *[({"normalized_shape": shape}, ValueError, "what x's shape ends with") for shape in (5, (3, 2, 4), ())],
        ({"bias": torch.ones(1, 4)}, ValueError, "bias must have shape"),
        ({"weight": torch.ones(4).double()}, ValueError, "weight must have shape"),
        ({"x": torch.zeros(2, 4, device="meta")}, ValueError, "works on the CPU"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, words):
    with pytest.raises(error, match=words):
        fused_layer_norm(**{"x": torch.zeros(2, 4), "normalized_shape": 4} | change)


# ----------------------------------------------------------------------------------------------------- compiled loops

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
    assert not [path for path in Path(lesson.__file__).parent.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(lesson.numba.config, "CACHE_DIR", "")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "file")  # no folder can be made in it
    assert lesson._keep_compiled() is False
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert lesson._keep_compiled() is True and (tmp_path / ".cache/layernorm-from-scratch").is_dir()


# ---------------------------------------------------------------------------------------------------- sums over blocks


def test_blocks_are_added_up_in_float64():
    """One float32 loses 1 in 10,000 of this sum; more columns than a piece has, and no multiple of it."""
    blocks = draws(30, (100_000, 70), offset=64, dtype=torch.float32)[0]
    total = torch.full((70,), torch.nan)
    lesson._add_up(blocks.numpy(), total.numpy())
    torch.testing.assert_close(total.double(), blocks.double().sum(0), rtol=1e-7, atol=0)  # one rounding: 6e-8


# ------------------------------------------------------------------------------------------------------ Triton's lines

TRITON = """
import torch
import triton
import triton.language as tl

{kernel}

x, weight, bias = torch.randn(5, 300) + 3, torch.randn(300), torch.randn(300)
y, D = torch.empty_like(x), 300
{launch}
print((y - torch.nn.functional.layer_norm(x, (300,), weight, bias)).abs().max().item())
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_tritons_lines_of_the_lesson_are_right_in_its_interpreter(tmp_path):
    """Read from the lesson's text, run without a GPU; nothing is timed."""
    source = (Path(lesson.__file__).parents[1] / "lessons/13_speed.py").read_text(encoding="utf-8")
    text = re.sub("^# ?", "", source[source.index("# @triton.jit") :], flags=re.MULTILINE)
    kernel, _, rest = text.partition("```")
    (launch,) = re.findall(r"`(forward_kernel\[.*?)`", rest)
    (tmp_path / "kernel.py").write_text(TRITON.format(kernel=kernel, launch=launch), encoding="utf-8")
    output = python(tmp_path / "kernel.py", env=os.environ | {"TRITON_INTERPRET": "1"})
    assert float(output) < 1e-5  # |y| < 20, a few of 24 bits

# %% [markdown]
# # 13 · Speed and scale: one trip to memory
#
# **What you'll do:** count the bytes a LayerNorm has to move, measure how far PyTorch is from that floor, and write a forward and a backward pass as plain loops. On our machine they keep up with PyTorch's own kernel. *(about 50 min, without the parts marked optional)*
#
# **You'll be able to**
# - say from the bytes alone how fast a LayerNorm can be, and use a copy as the yardstick;
# - say what *fused* means, and why seven correct lines of PyTorch are slow;
# - write the loops of a fused forward and backward pass, and wrap them for autograd;
# - say where a compiler may reorder sums, where it must not, and why one float32 must not add up a whole batch;
# - recognize timings that measure something else.
#
# **You need:** [lesson 3](03_epsilon.ipynb) (rounding, two-pass variance), [lesson 7](07_backward.ipynb) (the backward formula, `autograd.Function`).

# %%
import csv
import time

import numba
import numpy as np
import torch
from numba import njit
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from fromscratch import layer_norm_backward, mean_and_var  # lessons 7 and 2
from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 13.1 What has to be moved
#
# For work like LayerNorm, a processor computes faster than its memory delivers. LayerNorm does some ten operations on each number, and each number is 4 bytes that come from memory and go back.
# So before anything is timed, we count traffic. One **word** is one number; $N$ is the number of entries of $x$. What is small beside $x$ (mean, variance, gain, bias) is left out.
#
# - **Forward:** $x$ must be read once, $y$ must be written once.
# - **Backward:** $dy$ and $x$ must be read, $dx$ must be written.
#
# If these tensors are too large for the processor's **caches** (small, fast memory close by, for what was used last), no program can do with less, however clever. Here is LayerNorm in seven lines of PyTorch (the way of lesson 4's eight lines, which center once):
#
# ```
# mean = x.mean(-1, keepdim=True)            reads x
# c = x - mean                               reads x, writes c
# squares = c * c                            reads c, writes squares
# var = squares.mean(-1, keepdim=True)       reads squares
# x_hat = c * torch.rsqrt(var + eps)         reads c, writes x_hat
# scaled = x_hat * weight                    ...
# y = scaled + bias                          ...
# ```
#
# Each line is a *kernel* of its own, one compiled loop: it walks through its whole input and leaves its whole result in memory. Suppose that none of them fits into the caches.

# %% tags=["exercise"] id="ex-13-1"
# Exercise 13.1 · ●●○○○ · 4 min
# Words moved for each entry of x (whole numbers). c * c reads c once.
# words = {"fused forward": ..., "fused backward": ..., "seven lines, read": ...,
#          "seven lines, written": ...}
### BEGIN SOLUTION
words = {
    "fused forward": 2,
    "fused backward": 3,
    "seven lines, read": 7,
    "seven lines, written": 5,
}
### END SOLUTION

# %% tags=["check"]
check.words_moved(words)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The keys are `"fused forward"`, `"fused backward"`, `"seven lines, read"`, `"seven lines, written"`; `words = {"fused forward": …, …}`.
# Go through the seven lines one by one: two of them write only a number for each row, which does not count.
#
# </details>
#
# Seven reads and five writes against one and one: **six times** the traffic. A *fused* kernel does all seven lines on a row while the row is in the cache, and then goes on to the next one.
#
# Words become seconds through the bandwidth of your memory, the bytes that it moves in a second. You need not look that up: **a copy** also reads $N$ words and writes $N$ words. So where the memory sets the pace, a forward pass takes about as long as `y.copy_(x)`, or longer.
# With a backward pass it is $2 + 3 = 5$ words, the time of **2.5 copies**. These are our floors, if a word read costs what a word written costs. (Does it? The last part of 13.5 comes back to that.)


# %%
def megabytes(rows, D, words):
    return rows * D * 4 * words / 1e6  # float32: 4 bytes a word


show("x of 4096 rows and 1024 features, MB", megabytes(4096, 1024, 1), 1)
show("moved by a forward pass, MB         ", megabytes(4096, 1024, 2), 1)
show("moved by the seven lines, MB        ", megabytes(4096, 1024, 12), 1)

# %% [markdown]
# ## 13.2 Measured: the copy as yardstick
#
# Here are the two ways of writing it line by line: with centered squares, as above, and with `x.var`.
# **Predict:** `x.var` reads $x$ once and writes no squares, so that this version moves 10 words instead of 12. Is it the faster one?


# %% tags=["export"]
def line_by_line(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x (..., D), in seven lines."""
    c = x - x.mean(-1, keepdim=True)  # (..., D)
    var = (c * c).mean(-1, keepdim=True)  # (..., 1)
    return c * torch.rsqrt(var + eps) * weight + bias  # (..., D)


def with_var(x, weight, bias, eps=1e-5):
    """The same with x.var."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps) * weight + bias  # (..., D)


# %% [markdown]
# A single timing says little: the first calls load code, and other programs take their share. `torch.utils.benchmark.Timer` repeats a call and gives the **median**. (What such a cell prints is different every time, so it is not kept in this notebook. Run it yourself.)

# %% tags=["timed"]
from torch.utils.benchmark import (
    Timer,
)  # where CUDA's compiler is installed and no GPU is, this import says so


def median_ms(function):
    """Milliseconds of function(), median over about 0.2 s."""
    return (
        Timer("f()", globals={"f": function}).blocked_autorange(min_run_time=0.2).median * 1e3
    )


g = torch.Generator().manual_seed(130)
x, y = torch.randn(4096, 1024, generator=g), torch.empty(4096, 1024)  # (B, D) each
weight, bias = torch.randn(1024, generator=g), torch.randn(1024, generator=g)  # (D,) each
copy = median_ms(lambda: y.copy_(x))
layers = {
    "F.layer_norm": lambda: F.layer_norm(x, (1024,), weight, bias),
    "centered squares": lambda: line_by_line(x, weight, bias),
    "x.var": lambda: with_var(x, weight, bias),
}
print(
    f"a copy: {copy:.2f} ms, {megabytes(4096, 1024, 2) / copy:.0f} GB/s; forward passes in "
    "copies:"
)
print({name: round(median_ms(layer) / copy, 1) for name, layer in layers.items()})

# %% [markdown]
# On our machine `x.var` is the slower one, though it moves less (the table is in 13.7). Bytes are the floor, not the whole story: PyTorch's `var` runs Welford's update ([lesson 3](03_epsilon.ipynb)), where each step divides and waits for the step before. That is probably what costs the time.
# `F.layer_norm` is fused. (How many copies it takes depends on the caches: 17 MB fit into the last cache of many servers and of few laptops.)
#
# ## 13.3 Loops that a compiler reads
#
# To fuse the lines we write them as loops over single numbers. In plain Python that is hopeless: the interpreter spends far more time on each step than the arithmetic takes. **Numba** compiles such a function to machine code when it is first called with some types of arguments.


# %%
@njit
def total_in_order(row):
    total = np.float32(0)
    for i in range(len(row)):
        total += row[i]
    return total


total_in_any_order = njit(fastmath={"reassoc"})(total_in_order.py_func)

# %% tags=["timed"]
row = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)  # (D,)
for total in (total_in_order, total_in_any_order):
    start = time.perf_counter()
    total(row)
    print(
        f"first call, with compilation: {1e3 * (time.perf_counter() - start):.0f} ms", end="; "
    )
    print(f"later calls: {median_ms(lambda: total(row)):.3f} ms")  # noqa: B023

# %% [markdown]
# Two things to remember. The **first call compiles**: leave it out of every timing. And the second function, with the same loop, is much faster.
#
# Why? Rounding makes $(a+b)+c$ differ from $a+(b+c)$, so a compiler must add in the order you wrote: each addition waits for the one before it. `fastmath={"reassoc"}` allows it to keep eight or sixteen partial sums side by side in one vector register.
# The sum is then rounded differently, and usually **better**: many partial sums stay smaller than one long one, and a small number added to a large one loses its last digits.

# %%
row = np.full(1_000_000, 0.1, np.float32)  # (D,)
show("a million times 0.1, one by one", float(total_in_order(row)), 0)
exact = row.sum(dtype=np.float64)
assert abs(total_in_any_order(row) - exact) < 0.5 * abs(
    total_in_order(row) - exact
)  # at least four partial sums

# %% [markdown]
# 958 too much, one percent. In any order it is closer to the truth (how close depends on the width of the registers).
#
# But some sums must keep their order. Far from zero the mean of a row is rounded to float32 (around 100,000 the steps are 0.008 wide), and every $x-\mu$ is off by the same amount ([lesson 7](07_backward.ipynb)). We keep the mean as a sum of two float32 numbers, `near + rest`, and subtract them one after the other.
# Reordered to $x - (\text{near}+\text{rest})$, that would round the mean after all, and the effort would be in vain.
# So this one line gets a function of its own, for which reordering is forbidden. (It says `fastmath=False` aloud, because Numba otherwise hands `fastmath` on to the functions that a function calls.)
#
# The next two cells also hold imports and `_keep_compiled`, which says where compiled loops are kept on disk. They are bookkeeping; you need not read them.

# %%
import ctypes  # these serve the bookkeeping
import functools
import math
import os
from pathlib import Path

from llvmlite import ir
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic


# %% tags=["export"]
def _keep_compiled():
    """Keep compiled loops on disk, in NUMBA_CACHE_DIR or ~/.cache, never beside the sources.
    Returns whether it can.
    """
    try:
        folder = Path(
            numba.config.CACHE_DIR or Path.home() / ".cache" / "layernorm-from-scratch"
        )
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # nowhere to write, or no home
        return False
    numba.config.CACHE_DIR = str(folder)
    return (
        os.access(folder, os.W_OK) and __name__ != "__main__"
    )  # what stands in a notebook is compiled anew


LOOPS = dict(
    nogil=True,
    error_model="numpy",
    cache=_keep_compiled(),
    fastmath={"reassoc", "contract", "nsz"},
)
ROWS_A_BLOCK = 64


@njit(nogil=True, error_model="numpy", fastmath=False)
def standardize(value, near, rest, rstd):
    """One number of x_hat. The mean is near + rest; value - near is exact where value is close
    to the mean.
    """
    return (value - near - rest) * rstd


# %% [markdown]
# `LOOPS` is what we allow for the others: sums in any order, a product and a sum in one instruction (`contract`), no care for the sign of zero (`nsz`). Infinities and nan keep their meaning: `nnan` and `ninf` are not in the list.
# `nogil` lets other Python threads run meanwhile, and the error model `"numpy"` divides by zero as arrays do.
#
# ## 13.4 The forward pass: three loops over a row
#
# The row is read from memory once. After the first loop it is in the cache, where the second and the third find it. The first loop and its result are given:
#
# - **near**: the mean, as float32 can hold it. (`number(…)` makes a number of x's type: a plain `0.0` is float64, and would drag the loop along.)
#
# **Second loop:** add up $c = x - \text{near}$ and $c^2$. The mean of $c$ is `rest`, which near lacks; the variance is $\mathrm{mean}(c^2) - \text{rest}^2$. Is that not the one-pass formula, of which lesson 3 warned? It is, but for numbers whose mean is nearly 0: what is subtracted is tiny.
#
# **Third loop:** write $y$.


# %% tags=["exercise", "export"] id="ex-13-2"
# Exercise 13.2 · ●●●○○ · 9 min
@njit(**LOOPS)
def forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    """LayerNorm of the rows start, …, stop - 1, written into y, mean and rstd.

    x, y: (rows, D), NumPy arrays of one dtype; weight, bias: (D,).
    mean: (rows,), float64; rstd: (rows,), 1 / sqrt(var + eps).
    One number at a time: x[r, i], read at most three times; y[r, i] is written once. Each row
    is finished before the next is begun. x stays as it is.
    Write the mean as np.float64(near) + rest: two float32 would round it.
    """
    D = x.shape[1]
    number = x.dtype.type  # np.float32 or np.float64
    for r in range(start, stop):
        total = number(0)
        for i in range(D):
            total += x[r, i]
        near, sum_c, sum_cc = number(total / D), number(0), number(0)
        ### BEGIN SOLUTION
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c / D)
        mean[r] = np.float64(near) + rest
        rstd[r] = 1 / np.sqrt(sum_cc / D - rest * rest + eps)
        for i in range(D):
            y[r, i] = standardize(x[r, i], near, rest, rstd[r]) * weight[i] + bias[i]
        ### END SOLUTION


# %% tags=["check"]
check.forward_rows(forward_rows)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Second loop: `c = x[r, i] - near`, then `sum_c += c` and `sum_cc += c * c`. After it: `rest = number(sum_c / D)`, and one line each for `mean[r]` and `rstd[r]`.
# Third loop, one line: `standardize(x[r, i], near, rest, rstd[r])` is $\hat x$.
#
# </details>
#
# The check runs your loops as plain Python, on arrays that note every access. It wants each row finished before the next is begun, each number of $x$ read at most three times, each number of $y$ written once: that is what makes the kernel fused. How fast it is, it does not grade.

# %% [markdown]
# ## 13.5 The backward pass: two loops over a row
#
# From [lesson 7](07_backward.ipynb), for one row, with $h = dy\,\gamma$:
#
# $$dx = r\,\bigl(h - \mathrm{mean}(h) - \hat x\;\mathrm{mean}(h\,\hat x)\bigr), \qquad d\gamma = \sum_{\text{rows}} dy\,\hat x, \qquad d\beta = \sum_{\text{rows}} dy$$
#
# The two means need the whole row before the first $dx$ can be written: two loops. $d\gamma$ and $d\beta$ fit into the first of them, so that $x$ and $dy$ come from memory only once.
# These two are sums over **rows**, and there may be very many rows. What becomes of a sum in one float32?
#
# **Predict:** twenty million rows, each with $dy = 1$. What is $d\beta$, added up one by one in one float32?

# %% tags=["exercise"] id="ex-13-3"
# Exercise 13.3 · ●●○○○ · 2 min
# One of "20,000,000", "16,777,216", "inf"; or "about 20,000,000": a few hundred off.
### BEGIN SOLUTION
sum_of_ones = "16,777,216"
### END SOLUTION

# %% tags=["check"]
check.sum_of_ones(sum_of_ones)


# %%
@njit(fastmath=False)
def add_ones(count):
    total = np.float32(0)
    for _ in range(count):
        total += np.float32(1)
    return total


one_sum = add_ones(20_000_000)
in_blocks = sum(np.float64(add_ones(64)) for _ in range(20_000_000 // 64))
print(f"in one float32: {one_sum:,.0f}; in blocks of 64, added in float64: {in_blocks:,.0f}")

# %% [markdown]
# At $2^{24} = 16{,}777{,}216$ float32 can no longer hold the next odd number: adding 1 changes nothing, and the sum stands still. With numbers other than 1, digits are lost long before that.
# So we add within **blocks of 64 rows**, each block into sums of its own, and add up the block sums at the end (in 13.6, with PyTorch's `sum`, which adds in parts itself, so that float32 will do). That has a second use: a thread that works on whole blocks never writes where another thread does. And the result does not depend on the number of threads.


# %% tags=["exercise", "export"] id="ex-13-4"
# Exercise 13.4 · ●●●●○ · 10 min
@njit(**LOOPS)
def backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """Gradients of the rows start, …, stop - 1: into dx, and into the sums of each row's block.

    dy, x, dx: (rows, D) of one dtype; mean: (rows,) float64; rstd: (rows,); weight: (D,).
    dweight, dbias: (blocks, D); row r adds dy * x_hat and dy to what stands there in number
        r // ROWS_A_BLOCK, here called block.
    One number at a time: x[r, i], read at most three times; dx[r, i] is written once. Each row
    is finished before the next is begun. scale is rstd[r], looked up once for the row.
    """
    D = x.shape[1]
    number = x.dtype.type
    for r in range(start, stop):
        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK
        rest = number(mean[r] - near)
        sum_h, sum_hx = number(0), number(0)
        ### BEGIN SOLUTION
        for i in range(D):
            x_hat = standardize(x[r, i], near, rest, scale)
            h = dy[r, i] * weight[i]
            sum_h += h
            sum_hx += h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = number(sum_h / D), number(sum_hx / D)
        for i in range(D):
            dx[r, i] = scale * (
                dy[r, i] * weight[i]
                - mean_h
                - standardize(x[r, i], near, rest, scale) * mean_hx
            )
        ### END SOLUTION


# %% tags=["check"]
check.backward_rows(backward_rows)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The first loop computes `x_hat` and `h` and adds to four sums: `sum_h`, `sum_hx`, `dweight[block, i]`, `dbias[block, i]`. In between, divide the first two by `D` (and keep their type: `number(sum_h / D)`).
# The second loop computes `x_hat` and $h$ anew for each `i` (what the first loop leaves in `x_hat` belongs to the last feature), and writes `dx[r, i]`.
#
# </details>
#
# ### Past the caches (given)
#
# (This takes 6 minutes more than the 50. On a first reading, run the cells and go on at 13.6. All you need to know there: `forward_past_caches` and `backward_past_caches` do the same as your loops, faster for large tensors.)
#
# Your loops make one trip to memory. Are 2.5 copies then the end? No: **a copy moves more than we counted.**
# Memory comes in pieces, each a **cache line**, of 64 bytes on most processors. To store one number of $y$, the processor first fetches the cache line in which it stands (if no cache has it), since the rest of the line must stay as it is. A loop that then overwrites the whole line has fetched it in vain. So for each number of a large copy, three words are moved: read $x$, read $y$, write $y$. (Not everywhere: some processors, many of Arm's among them, notice such a loop and leave the fetch out.)
#
# For whole lines there is another kind, the **non-temporal store**: it sends them to memory past the caches, and nothing is fetched before. (So it is on x86 processors; elsewhere it may be no more than a hint.)
# **Predict:** if words were all that counts, how much faster would a copy be?
#
# Numba has no such store, so the next two cells write the instruction themselves. You need not read them; `_write_past(room, …)` stores a piece of 64 numbers past the caches.

# %% tags=["export"]
PIECE = 64  # numbers: whole cache lines, in float32 and in float64


@intrinsic
def _at(typing, address):
    """The memory at an address, for carray."""
    return types.voidptr(types.int64), lambda context, builder, _, items: builder.inttoptr(
        items[0], cgutils.voidptr_t
    )


@intrinsic
def _room_for_a_piece(typing):
    """Memory for PIECE numbers on the stack. The compiler sees that no array lies there, and
    need not look out for it.
    """

    def code(context, builder, *_):
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), PIECE))
        room.align = 64
        return builder.bitcast(room, cgutils.voidptr_t)

    return types.voidptr(), code


# %% tags=["export"]
@intrinsic
def _move_past(typing, room, offset, address):
    """Copy the 32 bytes at room + offset to an address, a multiple of 32, past the caches."""

    def code(context, builder, _, items):
        eight = ir.VectorType(ir.FloatType(), 8).as_pointer()
        source = builder.bitcast(builder.gep(items[0], [items[1]]), eight)
        store = builder.store(
            builder.load(source, align=32), builder.inttoptr(items[2], eight), align=32
        )
        store.set_metadata(
            "nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        )
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64, types.int64), code


@intrinsic
def _all_is_written(typing):
    """Wait until what was stored past the caches is there for every thread."""

    def code(context, builder, *_):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@njit(nogil=True, error_model="numpy", fastmath=False)
def _write_past(room, size, address):
    for offset in range(0, size, 32):
        _move_past(room, offset, address + offset)


@njit(nogil=True)
def copy_past(x, y):
    """Copy x into y past the caches: contiguous arrays of one dtype and size, whole multiples
    of 32 bytes, addresses too.
    """
    if not (x.flags.c_contiguous and y.flags.c_contiguous) or x.nbytes != y.nbytes:
        raise ValueError(
            "copy_past takes two contiguous arrays of one size. Make one: "
            "np.ascontiguousarray(x)."
        )
    if (x.nbytes | x.ctypes.data | y.ctypes.data) % 32:
        raise ValueError(
            "copy_past takes addresses and sizes that are multiples of 32 bytes. Use y[:] = x."
        )
    _write_past(_at(x.ctypes.data), x.nbytes, y.ctypes.data)
    _all_is_written()


# %% tags=["timed"]
ordinary, past = (
    median_ms(lambda: y.copy_(x)),
    median_ms(lambda: copy_past(x.numpy(), y.numpy())),
)
print(
    f"a copy takes {ordinary:.2f} ms, past the caches {past:.2f} ms: {ordinary / past:.2f} "
    "times faster"
)

# %% [markdown]
# Two words instead of three: a factor of 1.5, if words were all. (It depends on the processor. 13.7 shows what ours does.)
# And the floors, with every fetch counted: with ordinary stores forward 3 words, backward 4, a copy 3, so 7/3 = **2.3 copies**. Past the caches 2 and 3 words, so 5/3 = **1.7 ordinary copies**.
#
# It is no gift. What was written past the caches is not in them when the next layer reads it. A small $y$ would have been found in a cache near by, a large one only far away or not at all; so this is for large tensors. From which size on it pays, 13.7 measures.
#
# Here are both passes for large tensors. They compute what your loops compute, and differ in two things:
#
# - what you write to `y[r, i]` or `dx[r, i]` goes to a piece of 64 numbers, which then is stored past the caches;
# - in the forward pass, the loop that writes row $r$ also adds up row $r+1$ (your first loop). While your second and third loop work in the cache, the memory has less to do. Here reading goes on while row $r$ is written.


# %% tags=["export"]
@njit(**LOOPS)
def forward_past_caches(x, weight, bias, eps, y, mean, rstd, start, stop):
    """forward_rows for large tensors. D: a multiple of PIECE; start: of ROWS_A_BLOCK; y's
    address: of 64 bytes.
    """
    D, number = x.shape[1], x.dtype.type
    pieces = D // PIECE
    x_in, weight_in, bias_in = (
        x.reshape(len(x), pieces, PIECE),
        weight.reshape(pieces, PIECE),
        bias.reshape(pieces, PIECE),
    )
    room = _room_for_a_piece()
    piece = carray(room, (PIECE,), number)
    total = number(0)
    for r in range(start, stop):
        # No row before it has added it up; so too between blocks, that no digit depends on the
        # threads.
        if r % ROWS_A_BLOCK == 0:
            total = number(0)
            for i in range(D):
                total += x[r, i]
        near, sum_c, sum_cc = number(total / D), number(0), number(0)
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c / D)
        scale = number(1 / np.sqrt(sum_cc / D - rest * rest + eps))
        mean[r], rstd[r] = np.float64(near) + rest, scale
        after, total = (
            min(r + 1, stop - 1),
            number(0),
        )  # behind the last row there is nothing: it adds itself up again
        for k in range(pieces):
            for i in range(PIECE):
                total += x_in[after, k, i]
                piece[i] = (
                    standardize(x_in[r, k, i], near, rest, scale) * weight_in[k, i]
                    + bias_in[k, i]
                )
            _write_past(room, piece.nbytes, y.ctypes.data + (r * pieces + k) * piece.nbytes)
    _all_is_written()


# %% tags=["export"]
@njit(**LOOPS)
def backward_past_caches(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """backward_rows for large tensors. D: a multiple of PIECE; dx's address: of 64 bytes."""
    D, number = x.shape[1], x.dtype.type
    pieces = D // PIECE
    dy_in, x_in, weight_in = (
        dy.reshape(len(x), pieces, PIECE),
        x.reshape(len(x), pieces, PIECE),
        weight.reshape(pieces, PIECE),
    )
    room = _room_for_a_piece()
    piece = carray(room, (PIECE,), number)
    for r in range(start, stop):
        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK
        rest = number(mean[r] - near)
        sum_h, sum_hx = number(0), number(0)
        for i in range(D):
            x_hat = standardize(x[r, i], near, rest, scale)
            h = dy[r, i] * weight[i]
            sum_h += h
            sum_hx += h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = number(sum_h / D), number(sum_hx / D)
        for k in range(pieces):
            for i in range(PIECE):
                x_hat = standardize(x_in[r, k, i], near, rest, scale)
                piece[i] = scale * (dy_in[r, k, i] * weight_in[k, i] - mean_h - x_hat * mean_hx)
            _write_past(room, piece.nbytes, dx.ctypes.data + (r * pieces + k) * piece.nbytes)
    _all_is_written()


# %% [markdown]
# The same numbers? On 300 rows (five blocks), yours and these:

# %%
rng = np.random.default_rng(133)
rows, upstream = rng.standard_normal((2, 300, 128), dtype=np.float32)  # (B, D) each
gain, shift = rng.standard_normal((2, 128), dtype=np.float32)  # (D,) each

# %%
results = []
for forward, backward in (
    (forward_rows, backward_rows),
    (forward_past_caches, backward_past_caches),
):
    out, dx = torch.empty(
        2, 300, 128
    ).numpy()  # (B, D) each; PyTorch's tensors start at a multiple of 64 bytes
    sums = np.zeros((2, 5, 128), np.float32)  # dweight and dbias, five blocks each
    means, rstds = np.empty(300), np.empty(300, np.float32)  # (B,) each
    forward(rows, gain, shift, 1e-5, out, means, rstds, 0, 300)
    backward(upstream, rows, means, rstds, gain, dx, sums[0], sums[1], 0, 300)
    results.append((out, dx, sums))
for yours, given in zip(*results, strict=True):
    assert np.abs(yours - given).max() < 1e-4  # sums of 64 numbers of order 1, in another order
print("your loops and those for large tensors agree")

# %% [markdown]
# ## 13.6 Around the loops: threads and autograd
#
# The rest is given, and so is its reason. **You need not read the next three cells**: go on at `FusedLayerNorm` with one fact, that `on_rows(kernel, rows, …)` calls your loops (or those for large tensors) for all rows, in as many threads as PyTorch uses. Each thread gets whole blocks of rows.
#
# For those who read on: which threads? Threads of our own (Python's, or those of Numba's `prange`) made things slower here, on two cores. Probably because PyTorch's threads, when they have finished an operation, "wait actively for a short time" for the next one (GNU's OpenMP manual, under `OMP_WAIT_POLICY`), and a second set of threads has to share the cores with them.
# So we ask for the threads that are there: `GOMP_parallel` starts a C function in the threads of the OpenMP library that PyTorch brings along. A C function and no Python, because threads that wait for Python's lock would work one after the other: hence the detour over addresses.
#
# All this was tried on Linux only. Where PyTorch's library has no `GOMP_parallel` (we expect that on Windows, and have not tried macOS), one thread does all rows: the same numbers, without the gain of a second core.


# %% tags=["export"]
def _torchs_openmp():
    """Return (GOMP_parallel, omp_get_thread_num, omp_get_num_threads) of the OpenMP that torch
    uses, or three None.
    """
    for path in sorted(
        (Path(torch.__file__).parent / "lib").glob("lib*omp*")
    ):  # libgomp on Linux, libomp elsewhere
        try:
            library = ctypes.CDLL(
                str(path)
            )  # torch has loaded it: this is that library, not a second one
            parallel, number, count = (
                library.GOMP_parallel,
                library.omp_get_thread_num,
                library.omp_get_num_threads,
            )
        except (OSError, AttributeError):
            continue
        number.argtypes, count.argtypes = (), ()
        return parallel, number, count
    return None, None, None


_parallel, _my_number, _count = _torchs_openmp()


@njit(nogil=True, error_model="numpy", fastmath=False)
def _my_rows(rows):
    """start, stop of the thread that asks: whole blocks, no row twice, none left out."""
    size = math.ceil(rows / (_count() * ROWS_A_BLOCK)) * ROWS_A_BLOCK
    return min(rows, size * _my_number()), min(rows, size * (_my_number() + 1))


# %% tags=["export"]
@functools.cache
def _for_c(kernel, number):
    """Return a C function that runs a kernel, one of the four above, on the calling thread's
    rows.

    number: np.float32 or np.float64. The function's argument points to whole numbers: rows, D,
    and the address of each argument of the kernel.
    """

    def forward(given):
        rows, D = given[0], given[1]
        x, y = (
            carray(_at(given[2]), (rows, D), number),
            carray(_at(given[6]), (rows, D), number),
        )
        weight, bias = carray(_at(given[3]), (D,), number), carray(_at(given[4]), (D,), number)
        mean, rstd = (
            carray(_at(given[7]), (rows,), np.float64),
            carray(_at(given[8]), (rows,), number),
        )
        start, stop = _my_rows(rows)
        kernel(
            x,
            weight,
            bias,
            carray(_at(given[5]), (1,), np.float64)[0],
            y,
            mean,
            rstd,
            start,
            stop,
        )

    def backward(given):
        rows, D = given[0], given[1]
        dy, x = (
            carray(_at(given[2]), (rows, D), number),
            carray(_at(given[3]), (rows, D), number),
        )
        mean, rstd = (
            carray(_at(given[4]), (rows,), np.float64),
            carray(_at(given[5]), (rows,), number),
        )
        weight, dx = (
            carray(_at(given[6]), (D,), number),
            carray(_at(given[7]), (rows, D), number),
        )
        blocks = math.ceil(rows / ROWS_A_BLOCK)
        dweight, dbias = (
            carray(_at(given[8]), (blocks, D), number),
            carray(_at(given[9]), (blocks, D), number),
        )
        start, stop = _my_rows(rows)
        kernel(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop)

    in_c = backward if kernel in (backward_rows, backward_past_caches) else forward
    return cfunc(types.void(types.CPointer(types.int64)))(in_c)


# %% tags=["export"]
def on_rows(kernel, rows, *arguments):
    """Call kernel(*arguments, start, stop), one of the four above, for all rows, in as many
    threads as torch uses.

    arguments: tensors, handed on without a copy, and eps; the first is of size (rows, D).
    With fewer than 2**15 numbers, which one thread handles in microseconds, one is used.
    """
    x = arguments[0]
    count = torch.get_num_threads() if x.numel() >= 2**15 and _parallel else 1
    if count == 1:
        arrays = [
            item.detach().numpy() if isinstance(item, torch.Tensor) else item
            for item in arguments
        ]
        return kernel(*arrays, 0, rows)
    tensors = [
        item if isinstance(item, torch.Tensor) else torch.tensor([item], dtype=torch.float64)
        for item in arguments
    ]
    given = torch.tensor([rows, x.shape[1], *(item.data_ptr() for item in tensors)])
    function = _for_c(kernel, np.float32 if x.dtype == torch.float32 else np.float64)
    _parallel(ctypes.c_void_p(function.address), ctypes.c_void_p(given.data_ptr()), count, 0)


# %% [markdown]
# From here on it is worth reading again. The `autograd.Function` keeps $x$ and two numbers for each row. Lesson 7 showed what that does to **second** derivatives: saved statistics are constants, and the second derivative is silently wrong. So where someone wants to differentiate again, the backward pass takes the way of lesson 7, on plain operations.

# %% tags=["export"]
LARGE = 2**21  # numbers: 8.4 MB in float32


def _goes_past(out):
    """Whether out (rows, D) is written past the caches: it is large, and each row is made of
    whole cache lines.
    """
    return out.numel() >= LARGE and out.shape[1] % PIECE == 0 and out.data_ptr() % 64 == 0


class FusedLayerNorm(torch.autograd.Function):
    """FusedLayerNorm.apply(x, weight, bias, eps): LayerNorm of a contiguous (rows, D) tensor;
    weight, bias: (D,).
    """

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        rows = len(x)
        y, rstd = torch.empty_like(x), x.new_empty(rows)  # (rows, D), (rows,)
        mean = x.new_empty(rows, dtype=torch.float64)  # (rows,)
        on_rows(
            forward_past_caches if _goes_past(y) else forward_rows,
            rows,
            x,
            weight,
            bias,
            eps,
            y,
            mean,
            rstd,
        )
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate dx: statistics anew, from x
            mean, var = mean_and_var(x)  # (rows, 1) each
            return *layer_norm_backward(dy, x, mean, torch.rsqrt(var + ctx.eps), weight), None
        rows, D = x.shape
        dx, sums = (
            torch.empty_like(x),
            x.new_empty(2, math.ceil(rows / ROWS_A_BLOCK), D),
        )  # (rows, D), (2, blocks, D)
        sums.zero_()
        kernel = backward_past_caches if _goes_past(dx) else backward_rows
        on_rows(kernel, rows, dy.contiguous(), x, mean, rstd, weight, dx, sums[0], sums[1])
        dweight, dbias = sums.sum(1)  # (D,) each
        return dx, dweight, dbias, None


# %% tags=["export"]
def fused_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """F.layer_norm for float32 and float64 tensors on the CPU, as two compiled loops.

    x: (..., *normalized_shape), contiguous or not. normalized_shape: int or tuple. weight,
        bias: of that shape, or None.
    Returns a contiguous tensor of x's shape. Raises TypeError for other dtypes, ValueError for
    shapes that do not fit and for other devices. May be differentiated more than once, the
    second time on plain operations.
    """
    shape = (
        (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    )
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"fused_layer_norm takes float32 and float64, but x is {x.dtype}. Convert it: "
            "x.float()."
        )
    if x.device.type != "cpu":
        raise ValueError(
            f"fused_layer_norm works on the CPU, but x is on {x.device}. Use F.layer_norm "
            "there."
        )
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"normalized_shape {shape} must be what x's shape ends with, but x has "
            f"{tuple(x.shape)}."
        )
    for name, item in (("weight", weight), ("bias", bias)):
        if item is not None and (tuple(item.shape), item.dtype, item.device) != (
            shape,
            x.dtype,
            x.device,
        ):
            raise ValueError(
                f"{name} must have shape {shape}, dtype and device of x ({x.dtype}, "
                f"{x.device}), but has "
                f"{tuple(item.shape)}, {item.dtype}, {item.device}."
            )
    D = math.prod(shape)
    weight = x.new_ones(D) if weight is None else weight.reshape(D).contiguous()
    bias = x.new_zeros(D) if bias is None else bias.reshape(D).contiguous()
    rows = x.reshape(math.prod(x.shape[: x.dim() - len(shape)]), D).contiguous()  # (rows, D)
    return FusedLayerNorm.apply(rows, weight, bias, float(eps)).view(x.shape)


# %% [markdown]
# Is it right? Against PyTorch, with random gain, bias and upstream gradient, on a tensor that is not contiguous, over two axes:

# %%
g = torch.Generator().manual_seed(131)
v = (
    torch.randn(3, 5, 4, dtype=torch.float64, generator=g).transpose(1, 2).requires_grad_()
)  # (3, 4, 5)
w, b = (
    torch.randn(4, 5, dtype=torch.float64, generator=g).requires_grad_() for _ in range(2)
)  # (4, 5) each
dy = torch.randn(3, 4, 5, dtype=torch.float64, generator=g)  # (3, 4, 5)
fused_y, torch_y = (
    fused_layer_norm(v, (4, 5), w, b),
    F.layer_norm(v, (4, 5), w, b),
)  # (3, 4, 5) each

# %%
for ours, theirs in zip(
    torch.autograd.grad(fused_y, (v, w, b), dy),
    torch.autograd.grad(torch_y, (v, w, b), dy),
    strict=True,
):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)  # float64: 16 digits
torch.testing.assert_close(fused_y, torch_y, rtol=1e-10, atol=1e-10)
print(
    "first derivative: ",
    gradcheck(lambda v, w, b: fused_layer_norm(v, (4, 5), w, b), (v, w, b)),
)
print(
    "second derivative:",
    gradgradcheck(lambda v, w, b: fused_layer_norm(v, (4, 5), w, b), (v, w, b)),
)

# %% [markdown]
# And does it keep its digits far from zero, where `near + rest` was meant to help? The truth is computed in float64 from the same float32 numbers.


# %%
def dx_error(layer, offset, seed):
    """Relative error of dx in float32 for rows of spread 1 around offset."""
    g = torch.Generator().manual_seed(seed)
    v, dy, w = (
        torch.randn(shape, generator=g) for shape in ((256, 768), (256, 768), (768,))
    )  # float32
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = (v + offset).to(dtype).requires_grad_()  # (B, D), rounded to float32 first
        y = (layer if dtype == torch.float32 else F.layer_norm)(leaf, (768,), w.to(dtype))
        found.append(torch.autograd.grad(y, leaf, dy.to(dtype))[0].double())
    return ((found[0] - found[1]).norm() / found[1].norm()).item()


# %%
offsets = [1, 10, 100, 1e3, 1e4, 1e5]
fused_error = torch.tensor(
    [[dx_error(fused_layer_norm, offset, seed) for offset in offsets] for seed in range(4)]
)

# %%
torch_error = torch.tensor(
    [[dx_error(F.layer_norm, offset, seed) for offset in offsets] for seed in range(4)]
)
assert fused_error.max() < 3e-7  # float32 resolves 6e-8
assert (torch_error / fused_error)[
    :, 1:
].min() > 1.2  # from offset 10 on; at 1 both are at the resolution
plot.lines(
    offsets,
    {"F.layer_norm": torch_error, "fused_layer_norm": fused_error},
    xlog=True,
    ylog=True,
    colors={"F.layer_norm": "none", "fused_layer_norm": "LayerNorm"},
    title="Two numbers for the mean keep the gradient's digits",
    x="offset of a row of spread 1",
    y="relative error of dx",
    caption="float32, 256 rows of 768 features, random gain and upstream gradient, no bias; "
    "four seeds; the truth in float64 from the "
    "same numbers. torch 2.13, CPU.",
    alt="Two curves over the offset on logarithmic axes. The error of F.layer_norm rises from "
    "1e-7 at offset 1 to about 1e-3 at "
    "100,000; that of fused_layer_norm stays below 1e-7.",
)

# %% [markdown]
# ## 13.7 How fast is it?
#
# First on your machine, forward and backward, in copies; last, your loops alone, nothing past the caches. (13.1 counted 2.5 copies; with all fetches it is 2.3 for ordinary stores, 1.7 past the caches.)


# %%
def forward_and_backward(layer, x, dy, weight, bias):
    torch.autograd.grad(layer(x, weight, bias), (x, weight, bias), dy)


# %% tags=["timed"]
dy = torch.randn(4096, 1024, generator=torch.Generator().manual_seed(132))  # (B, D)
leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]  # the x of 13.2
ways = {
    "fused": lambda x, w, b: fused_layer_norm(x, (1024,), w, b),
    "F.layer_norm": lambda x, w, b: F.layer_norm(x, (1024,), w, b),
    "centered squares": line_by_line,
    "x.var": with_var,
}
copy = median_ms(lambda: y.copy_(x))
for name, way in ways.items():
    ms = median_ms(lambda: forward_and_backward(way, leaves[0], dy, *leaves[1:]))  # noqa: B023
    print(f"{name:17} {ms / copy:5.1f} copies   {ms:6.1f} ms")
LARGE, usual = math.inf, LARGE  # now fused_layer_norm runs your loops only
ms = median_ms(lambda: forward_and_backward(ways["fused"], leaves[0], dy, *leaves[1:]))
LARGE = usual
print(f"{'your loops':17} {ms / copy:5.1f} copies   {ms:6.1f} ms")

# %% [markdown]
# And on ours, from the table that `make bench` writes ([data/bench.csv](../data/bench.csv)): five shapes, all of them and the copy interleaved in one run, medians. Outputs are allocated anew in every pass, as in real use. Nobody reads them afterwards, which suits stores past the caches; a second table charges them for that.

# %%
with open(data.FOLDER / "bench.csv", encoding="utf-8", newline="") as file:
    bench = list(csv.DictReader(file))
first = bench[0]
print(f"{first['date']}, {first['cpu']}, torch {first['torch']}, numba {first['numba']}")

# %%
shapes = list(
    dict.fromkeys(
        (row["rows"], row["D"])
        for row in bench
        if row["preallocated"] == "no" and row["what"] == "copy"
    )
)
names = {
    "x.var": "x.var",
    "centered squares": "centered squares",
    "F.layer_norm": "F.layer_norm",
    "fused": "fused_layer_norm",
}


def in_copies(what, threads):
    """Forward and backward, in copies, for each shape."""
    ms = {
        (row["rows"], row["D"], row["what"]): float(row["both_ms"])
        for row in bench
        if row["threads"] == threads
    }
    return [ms[*shape, what] / ms[*shape, "copy"] for shape in shapes]


def ms_of(what, threads):
    """{rows: milliseconds forward and backward}."""
    return {
        int(row["rows"]): float(row["both_ms"])
        for row in bench
        if row["threads"] == threads and row["what"] == what
    }


# %%
plot.lines(
    [f"{rows} × {D}" for rows, D in shapes],
    {name: in_copies(what, "1") for what, name in names.items()},
    ylog=True,
    ylim=(1, 50),
    href={"2.5 copies": 2.5, "1.7 past caches": 5 / 3},
    size=(8.6, 4),
    dots=list(names.values()),
    colors={
        "fused_layer_norm": "LayerNorm",
        "F.layer_norm": "none",
        "x.var": "BatchNorm",
        "centered squares": "RMSNorm",
    },
    title="Fused: a few copies; line by line: many times as many",
    x="rows × features",
    y="time in copies",
    caption=f"Forward and backward, float32, one thread; median of {first['rounds']} "
    f"interleaved rounds on {first['cpu']}, {first['date']} "
    "(make bench). For all of them, MALLOC_* variables make the C library keep freed memory, "
    "so that page faults stay out.",
    alt="For each of five shapes four points on a logarithmic axis of time in copies: x.var "
    "and centered squares lie far above, "
    "F.layer_norm and fused_layer_norm near a dashed line at 2.5 copies, and all above another "
    "at 1.7.",
)

# %% [markdown]
# Read it from the top: line by line, LayerNorm takes many times the floor. Fused, it takes a few copies: up to about twice what stores past the caches would allow. What is left is probably arithmetic, and waiting. The same table as ratios: how many times longer than `fused_layer_norm` the others take. The last line has your loops alone (ordinary stores) in its place.

# %%
others = ("F.layer_norm", "centered squares", "x.var")
for threads in ("1", "2"):
    fused = in_copies("fused", threads)
    ratios = {
        what: [
            theirs / ours for theirs, ours in zip(in_copies(what, threads), fused, strict=True)
        ]
        for what in others
    }
    print(
        f"{threads} thread(s)              ",
        "".join(f"{rows + ' × ' + D:>13}" for rows, D in shapes),
        "   mean",
    )
    for what, found in ratios.items():
        print(
            f"{what + ' / fused':24}",
            "".join(f"{ratio:13.2f}" for ratio in found),
            f"{math.prod(found) ** (1 / len(found)):7.2f}",
        )
    print(f"{'fused / copy':24}", "".join(f"{copies:13.2f}" for copies in fused))
    yours = [
        theirs / ours
        for theirs, ours in zip(
            in_copies("F.layer_norm", threads),
            in_copies("fused, ordinary stores", threads),
            strict=True,
        )
    ]
    print(
        f"{'F.layer_norm / ordinary':24}",
        "".join(f"{ratio:13.2f}" for ratio in yours),
        f"{math.prod(yours) ** (1 / len(yours)):7.2f}",
    )

# %% [markdown]
# (The mean is the geometric one, as is usual for ratios.) A ratio above 1 says that `fused_layer_norm` took less time. Between the two fused kernels it depends on the shape and the machine, so do not carry these digits over to yours: run `make bench`.
#
# What do the stores past the caches bring, and what do they cost? The copy first, at the five shapes. Then, for more and more rows of 768, PyTorch's layer, your loops (ordinary stores) and the loops past the caches, where $y$ and $dx$ are read at once by somebody (here, by a sum). How many times longer than past the caches do the others take, forward and backward?

# %%
print(
    "copy / copy past the caches:",
    *(f"{1 / copies:.2f}" for copies in in_copies("copy past the caches", "1")),
)
for threads in ("1", "2"):
    print(f"\n{threads} thread(s), results read at once      ordinary stores   F.layer_norm")
    torchs, ordinary = (
        ms_of("F.layer_norm, read", threads),
        ms_of("ordinary stores, read", threads),
    )
    for rows, past in ms_of("past the caches, read", threads).items():
        print(
            f"{megabytes(rows, 768, 1):25.1f} MB {ordinary[rows] / past:22.2f} "
            f"{torchs[rows] / past:14.2f}"
        )

# %% [markdown]
# Ordinary stores are as good or better up to 4 MB; from 8 MB on, those past the caches are. So `fused_layer_norm` uses these from $2^{21}$ numbers on (`LARGE`). That is a choice made for our machine; on a processor with other caches another limit may be better.
# And the last column says where our layer loses: for 1 MB PyTorch's takes about two thirds of its time. Around our loops stands Python, which takes as long for small tensors as for large ones.
#
# At these sizes the caches help, the copy as well. The floor is about memory. So the last part of the table has tensors (x, y, dy and dx together) of more than four times the last cache, written into memory that is at hand:

# %%
for threads in ("1", "2"):
    large = {
        row["what"]: row
        for row in bench
        if row["preallocated"] == "yes" and row["threads"] == threads
    }
    if large:  # left out by make bench where memory is short
        for copy in [name for name in ("copy", "copy past the caches") if name in large]:
            floor = 2.5 * float(large[copy]["both_ms"])
            print(
                f"{large['copy']['rows']} × {large['copy']['D']}, {threads} thread(s): "
                f"{float(large['fused']['both_ms']) / floor:.2f} times 2.5 x {copy}"
            )

# %% [markdown]
# The floor of 13.1 is the line with the ordinary copy. The fused loops may come below it, since they fetch nothing in vain; the copy past the caches is their like.
#
# ### Three traps
#
# **The first call.** You saw it in 13.3: it compiles. `fromscratch` keeps the compiled loops on disk, if it can write there, so that they are compiled once for a machine (and again when their source, Numba or the processor changes). The C functions for several threads are compiled in every process anew. So are the loops of a notebook.
#
# **Fresh memory.** On Linux the C library (glibc) gives tensors of 32 MB and more back to the system when they are freed. Each new one then consists of pages that the system must first find and clear when they are touched: **page faults**.
# Whoever allocates such a tensor in a timed loop measures that as well. `make bench` keeps it out: it starts itself with `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_` and `MALLOC_TOP_PAD_` raised, for all candidates alike.

# %% tags=["timed", "optional"]
large, out = torch.ones(4096, 4096), torch.ones(4096, 4096)  # 67 MB each
print(
    f"copy into memory at hand: {median_ms(lambda: out.copy_(large)):.1f} ms; into fresh "
    f"memory: {median_ms(lambda: large.clone()):.1f} ms"
)

# %% [markdown]
# **Threads on small tensors.** To hand work to a second thread and to wait for it takes time, however small the work is. For a tensor of 16 rows that can be more than the work itself, and far more if other programs use the second core.

# %% tags=["timed", "optional"]
few, many = torch.randn(16, 64), torch.randn(4096, 1024)  # (B, D) each
for count in (1, 2):
    torch.set_num_threads(count)
    print(
        f"{count} thread(s): 16 rows {1e3 * median_ms(lambda: F.layer_norm(few, (64,))):.1f} "
        "µs, ",
        end="",
    )
    print(f"4096 rows {median_ms(lambda: F.layer_norm(many, (1024,))):.2f} ms")
torch.set_num_threads(1)

# %% [markdown]
# ### The compiler that fuses for you (optional, 2 min)
#
# `torch.compile` reads the seven lines, writes a fused C++ loop and has it compiled. It needs a C++ compiler, and its first call may take a minute: so it runs only when you say so.

# %% tags=["timed", "optional"]
import shutil

TRY_COMPILE = False  # set to True
compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
if not TRY_COMPILE or compiler is None:
    print(
        "skipped:", "no C++ compiler was found" if compiler is None else "TRY_COMPILE is False"
    )
else:
    compiled = torch.compile(line_by_line)
    torch.testing.assert_close(
        compiled(x, weight, bias), F.layer_norm(x, (1024,), weight, bias), rtol=1e-4, atol=1e-4
    )
    print(
        "seven lines, compiled: "
        f"{median_ms(lambda: compiled(x, weight, bias)) / median_ms(lambda: y.copy_(x)):.1f} "
        "copies"
    )

# %% [markdown]
# ## 13.8 Several processes (optional, 8 min)
#
# Large batches are split over several processes, each with a part of the rows. **Predict:** what must they tell each other, for LayerNorm and for BatchNorm?
#
# Two workers, each with half of a batch of 32 rows. They meet through a file and talk through *gloo*, PyTorch's library for processes on CPUs. `all_reduce` adds a tensor up over all workers and leaves the sum with each.


# %% tags=["optional"]
def statistics_of_all(mine):
    """Mean and variance of each feature over the rows (B, C) of all workers: count, sum,
    squared deviations.
    """
    import torch.distributed as dist

    together = [torch.tensor(float(len(mine)), dtype=torch.float64), mine.sum(0)]  # (), (C,)
    for item in together:
        dist.all_reduce(item)  # in place: the sum over all workers
    mean = together[1] / together[0]  # (C,)
    squares = ((mine - mean) ** 2).sum(0)  # (C,) from the common mean
    dist.all_reduce(squares)
    return mean, squares / together[0]  # (C,) each


# %% tags=["optional"]
def normalize_own_rows(batch, mine, rows):
    """Print which layers give a worker the rows that the whole batch would give."""
    import torch.distributed as dist

    mean, var = statistics_of_all(mine)  # (C,) each
    mean_of_vars = mine.var(0, correction=0)  # (C,)
    dist.all_reduce(mean_of_vars)
    whole = F.batch_norm(batch, None, None, training=True)[rows]  # (B/2, C)
    for name, y, right in (
        ("BatchNorm, own rows only", F.batch_norm(mine, None, None, training=True), whole),
        (
            "BatchNorm, mean of variances",
            (mine - mean) / torch.sqrt(mean_of_vars / 2 + 1e-5),
            whole,
        ),
        ("BatchNorm, count, sum, squares", (mine - mean) / torch.sqrt(var + 1e-5), whole),
        ("LayerNorm, own rows only", F.layer_norm(mine, (5,)), F.layer_norm(batch, (5,))[rows]),
    ):
        print(f"{name:31}", "equal" if (y - right).abs().max() < 1e-12 else "differs")


# %% [markdown]
# These two functions are the idea. The third starts them in a worker: worker `rank` (0 or 1) gets its half of the rows.


# %% tags=["optional"]
def worker(rank, store, *arguments):
    """What a worker does: meet the other through the file store, see its half of 32 rows."""
    import datetime

    import torch.distributed as dist

    if "dies" in arguments and rank == 1:
        raise SystemExit("worker 1 gives up")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=30),
    )
    batch = torch.randn(
        32, 5, generator=torch.Generator().manual_seed(133), dtype=torch.float64
    )  # (B, C)
    batch += 4 * torch.arange(2).repeat_interleave(16)[:, None]  # the halves lie apart
    rows = slice(16 * rank, 16 * rank + 16)
    normalize_own_rows(batch, batch[rows], rows)
    try:
        torch.nn.SyncBatchNorm(5)(batch[rows].float())
    except ValueError:
        print("nn.SyncBatchNorm, on the CPU    refused")
    dist.barrier()
    dist.destroy_process_group()


# %% [markdown]
# A notebook cannot hand its functions to another process. So `run_workers` writes them into a script, starts it twice, and ends both processes: when all is done, when one has failed, or when the time is up. None is left behind.

# %% tags=["optional"]
import inspect
import subprocess
import sys
import tempfile

HEAD = (
    "import sys\nimport torch\nfrom torch.nn import functional as F\ntorch.set_num_threads(1)\n"
)
FOOT = "worker(int(sys.argv[1]), *sys.argv[2:])\n"
SCRIPT = (
    HEAD
    + "".join(map(inspect.getsource, (statistics_of_all, normalize_own_rows, worker)))
    + FOOT
)


# %% tags=["optional"]
def run_workers(script, *arguments, limit=60):
    """Run script in two processes and return what each printed; raise RuntimeError if one fails
    or time is up.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, store = Path(folder, "worker.py"), str(Path(folder, "store"))
        path.write_text(script, encoding="utf-8")
        start = lambda rank: subprocess.Popen(
            [sys.executable, str(path), str(rank), store, *arguments],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        workers, end = [], time.monotonic() + limit
        try:
            workers.append(start(0))
            workers.append(start(1))
            while {w.poll() for w in workers} in ({None}, {None, 0}) and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            codes = [w.poll() for w in workers]  # before the others are ended
            for w in workers:
                w.kill()
            said = [w.communicate()[0].strip() for w in workers]
    for rank, (code, text) in enumerate(zip(codes, said, strict=True)):
        if code:
            raise RuntimeError(
                f"worker {rank} failed: {text.splitlines()[-1] if text else f'code {code}'}"
            )
    if None in codes:
        raise RuntimeError(
            f"worker {codes.index(None)} was not done after {limit} s and was ended"
        )
    return said


# %% tags=["optional"]
said = run_workers(SCRIPT)
print(said[0])
assert said[0] == said[1] and said[0].count("equal") == 2 and said[0].endswith("refused")

# %% [markdown]
# LayerNorm's forward pass needs nothing: a row is never split. (The gradients of its gain and bias are added up over the workers, like those of all parameters.) BatchNorm with its own rows only is another function. To mend it, the workers add up three things: **count, sum, squared deviations** from the common mean. The mean of their variances is not the variance, it lacks how far their means lie apart ([lesson 6](06_batchnorm.ipynb)).
#
# PyTorch has a layer for this, `nn.SyncBatchNorm`, but on the CPU it refuses. And a worker that dies ends the run at once, with its last words:

# %% tags=["optional"]
try:
    run_workers(SCRIPT, "dies")
except RuntimeError as error:
    print("run_workers:", error)

# %% [markdown]
# ## 13.9 Clinic: right at 768, wrong at 700
#
# **The patient** is the first half of a GPU kernel, as it has stood in public code more than once. A GPU reads a row in one piece whose width must be a power of two. So a row of $D$ features is read with a width of at least $D$, and what lies beyond its end is read as 0:


# %%
def patient(x, width):
    """Mean and variance of the rows of x (..., D), read in one piece of width >= D. Returns two
    tensors (..., 1).
    """
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))  # (..., width) zeros beyond the end
    mean = row.sum(-1, keepdim=True) / D  # (..., 1)
    c = row - mean  # (..., width)
    return mean, (c * c).sum(-1, keepdim=True) / D  # (..., 1) each


# %% [markdown]
# Its tests were: $D$ = 512 and 1024, and $D$ = 700 with numbers from `torch.randn`. All passed.


# %%
def variance_ratio(D, offset):
    """The patient's variance over the true one, for a row around offset."""
    v = offset + torch.randn(
        1, D, dtype=torch.float64, generator=torch.Generator().manual_seed(D)
    )  # (1, D)
    return (patient(v, 1024)[1] / v.var(correction=0)).item()


for D in (1024, 700):
    show(f"D = {D}, rows around 0: variance, ratio to the true one", variance_ratio(D, 0), 1)
    show(f"D = {D}, rows around 3: variance, ratio to the true one", variance_ratio(D, 3), 1)

# %% [markdown]
# **Find it:** the mean is right. What do the 324 numbers that do not exist add to the variance? It depends on the mean of the row, and `torch.randn` has none.


# %% tags=["exercise"] id="ex-13-5"
# Exercise 13.5 · ●●○○○ · 5 min
def mended_statistics(x, width):
    """Mean and biased variance of the rows of x (..., D), read in one piece of width >= D.

    Returns (mean, var), both (..., 1). No number beyond the end of the row may count, whatever
    the row holds.
    """
    ### BEGIN SOLUTION
    D = x.shape[-1]
    row = F.pad(x, (0, width - D))  # (..., width)
    mean = row.sum(-1, keepdim=True) / D  # (..., 1) zeros add nothing
    there = torch.arange(width, device=x.device) < D  # (width,)
    c = torch.where(there, row - mean, 0)  # (..., width) 0 beyond the end, not -mean
    return mean, (c * c).sum(-1, keepdim=True) / D  # (..., 1) each
    ### END SOLUTION


# %% tags=["check"]
check.mended_statistics(mended_statistics)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Beyond the end, `row` is 0 and `row - mean` is not. Set it to 0 there: `torch.where(condition, row - mean, 0)`, with a condition made from the position (`torch.arange(width, device=x.device) < D`) and not from the value.
#
# </details>
#
# **Explain it:** each of the missing numbers adds $(0-\mu)^2$, so that the variance is too large by $\frac{\text{width}-D}{D}\,\mu^2$:

# %%
excess = (1024 - 700) / 700 * 3**2  # mean 3, up to the mean of the row's noise
show("expected ratio at D = 700, rows around 3", 1 + excess, 1)
assert (
    abs(variance_ratio(700, 3) / (1 + excess) - 1) < 0.25
)  # a mean of 700 numbers is off by 0.04, their variance by 5 %

# %% [markdown]
# The slip was reported for widely used kernels (Liger-Kernel, issue 518; the tutorial of Triton, issue 9838). The test that finds it: rows **away from zero** and a $D$ that is **no power of two**.
#
# ## Take-away
#
# - The floor is traffic: 2 words an entry forward, 3 backward; a copy moves 2. That makes 2.5 copies, where nothing is fetched in vain. Ordinary stores fetch first what they overwrite (3 and 4 words against 3: 2.3 copies); stores past the caches do not, and pay for large tensors.
# - Fused means that a row makes one trip: everything that is done to it is done while it is in the cache. Line by line, LayerNorm moves 12 words forward instead of 2.
# - Forward: three loops over a row. Backward: two; $d\gamma$ and $d\beta$ ride along in the first, in sums for blocks of rows. For autograd, $x$ and two numbers a row are kept; where somebody differentiates again, the statistics are computed anew.
# - Sums may be reordered: that makes them fast, and their rounding usually smaller. $x-\text{near}-\text{rest}$ may not. One float32 stops counting at 16,777,216.
# - Leave out of a timing what it is not about: the first call, fresh memory, threads that wait. State the median and the yardstick.
#
# ## On your own
#
# 1. RMSNorm needs no mean. Which loops disappear, and how many words does it still move? Write `rms_rows`, and time it: what do you gain?
# 2. Follow LayerNorm by a GELU inside `forward_rows`. How many words does the pair move, fused and apart?
# 3. Run with `LESSON_THREADS=2` and again with four. Where does the time per copy stop falling, and why must it?
# 4. Keep $y$ instead of $x$ for the backward pass (lesson 7, "On your own"). Is anything won in words?
#
# ## Further reading
#
# - P. Tillet and others, the Triton tutorial *Layer Normalization*: the same kernel on a GPU, with block sums for $d\gamma$ and $d\beta$ behind locks.
# - A. Karpathy, *llm.c*, `dev/cuda/layernorm_forward.cu`: a ladder of kernels, each a step faster than the one before.
# - U. Drepper (2007), *What Every Programmer Should Know About Memory*, section 6.1, "Bypassing the Cache": the stores of 13.5.
# - S. Williams, A. Waterman & D. Patterson (2009), *Roofline: An Insightful Visual Performance Model for Multicore Architectures*: the floor that a copy shows, for any program.
# - Chan, Golub & LeVeque (1983), *Algorithms for Computing the Sample Variance*: shifted and pairwise sums, with their error bounds.
# - Numba's documentation, "Performance Tips": what `fastmath` allows, and how to see whether a loop was vectorized.

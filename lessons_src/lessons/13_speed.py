# %% [markdown]
# # 13 · Speed: one trip to memory
#
# The formula of LayerNorm is a few lines of PyTorch, which [lesson 4](04_affine_and_module.ipynb) tested well. So we put them in place of `F.layer_norm`, and look at the clock.

# %% tags=["hide-input"]
import csv
import math
import os
import re
import time
from pathlib import Path

import numba
import numpy as np
import torch
from numba import njit
from torch.autograd import gradcheck
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Where CUDA's compiler is installed and no GPU is, this import says so.
from torch.utils.benchmark import Timer

from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)
from lessonkit.mine import layer_norm_backward, mean_and_var  # lessons 7 and 2


def median_ms(function):
    """Milliseconds of function(), median over about 0.2 s."""
    timer = Timer("f()", globals={"f": function})
    return timer.blocked_autorange(min_run_time=0.2).median * 1e3


def forward_and_backward(layer, x, dy, weight, bias):
    """Return a function that runs both passes of layer(x, weight, bias) once."""
    leaves = [item.detach().requires_grad_() for item in (x, weight, bias)]
    return lambda: torch.autograd.grad(layer(*leaves), leaves, dy)


g = torch.Generator().manual_seed(130)
x, dy, y = (torch.randn(4096, 1024, generator=g) for _ in range(3))  # (B, D) each
weight, bias = torch.randn(1024, generator=g), torch.randn(1024, generator=g)  # (D,) each
print(f"x: {len(x)} rows of {x.shape[1]} numbers in float32, {x.nbytes / 1e6:.0f} MB")

# What `make bench` has measured, one list of rows for each processor and edition of the loops.
SHAPES = [(4096, 768), (4096, 1024), (16384, 256), (65536, 64), (1024, 4096)]
with open(data.FOLDER / "bench.csv", encoding="utf-8", newline="") as file:
    bench = {}
    for row in csv.DictReader(file):
        cpu = re.sub(r"\((R|TM)\)|Processor|CPU.*|\d+-Core.*", "", row["cpu"])
        cpu = f"{' '.join(cpu.split())}, last cache {row['last_cache_mb']} MB"
        bench.setdefault((cpu, row["date"], row["loops"]), []).append(row)


def ms(rows, what, threads=1, part="both_ms"):
    """{(rows, D): milliseconds} of one candidate on one processor."""
    return {
        (int(row["rows"]), int(row["D"])): float(row[part])
        for row in rows
        if row["what"] == what
        and int(row["threads"]) == threads
        and row["preallocated"] == "no"
    }


def ratios(rows, slow, fast, threads=1):
    """How many times the time of fast the candidate slow takes, for each of SHAPES."""
    slow, fast = ms(rows, slow, threads), ms(rows, fast, threads)
    return [slow[shape] / fast[shape] for shape in SHAPES]


def mean_ratio(found):
    """The geometric mean, as is usual for ratios."""
    return math.prod(found) ** (1 / len(found))


# %% tags=["export"]
def line_by_line(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x (..., D), in seven lines."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    c = x - mean  # (..., D)
    squares = c * c  # (..., D)
    var = squares.mean(-1, keepdim=True)  # (..., 1)
    x_hat = c * torch.rsqrt(var + eps)  # (..., D)
    scaled = x_hat * weight  # (..., D)
    return scaled + bias  # (..., D)


# %% tags=["timed", "hide-input"]
layers = {
    "F.layer_norm": lambda x, w, b: F.layer_norm(x, (1024,), w, b),
    "line by line": line_by_line,
}
for name, layer in layers.items():
    found = median_ms(forward_and_backward(layer, x, dy, weight, bias))
    print(f"{name:13} {found:6.1f} ms, forward and backward")

# %% tags=["hide-input"]
given = F.layer_norm(x, (1024,), weight, bias)
assert (line_by_line(x, weight, bias) - given).abs().max() < 1e-4  # a few of 24 bits, |y| < 20
for (cpu, date, _), rows in bench.items():
    found = ratios(rows, "centered squares", "F.layer_norm")[1]
    print(f"{cpu}, {date}: line by line takes {found:.1f} times as long")
    assert found > 3

# %% [markdown]
# The same result, up to rounding, many times the time. (What your timings print is not stored in this notebook; what we measured is.) The arithmetic is the same too, so where does the time go? Into carrying numbers to memory and back.
#
# *About 79 min.* **You'll be able to**
# - say from the bytes alone what a LayerNorm should cost, with a copy as the yardstick;
# - say what *fused* means;
# - write the loops of a fused forward and backward pass, and wrap them for autograd;
# - say which sums a compiler may reorder, which it must not, and why one float32 must not add up a whole batch;
# - read a table of timings, also one that disagrees with yours.
#
# **You need** lessons [3](03_epsilon.ipynb) (rounding, two-pass variance) and [7](07_backward.ipynb) (the backward formula, `autograd.Function`). No C, and no second machine.
#
# **Recall 13.1:** the variance as $\mathrm{mean}(x^2) - \mathrm{mean}(x)^2$, in float32. When does it lose its digits?
# - [ ] when the row is long :: A long row is added up in parts, and each of the two means stays accurate.
# - [x] when the mean is far larger than the deviation :: Two large, nearly equal numbers are subtracted, and what is left is their rounding.
# - [ ] when the deviation is far larger than the mean :: Then the second term is small, and little is lost.
#
# **Recall 13.2:** in LayerNorm's backward pass $dx = r\,(h - \ldots - \ldots)$ with $h = dy\,\gamma$, what is subtracted from $h$?
# - [ ] the mean of $dy$, and $\hat x$ times the mean of $dy\,\hat x$ :: The gain comes first: what arrives at the normalized row is $h$.
# - [ ] the mean of $h$ only :: That is the path through the mean. The path through the variance is missing.
# - [x] the mean of $h$, and $\hat x$ times the mean of $h\,\hat x$ :: The two paths through the statistics, each a mean over the row.
#
# **Recall 13.3:** what does RMSNorm leave out of LayerNorm?
# - [x] the mean: it divides by the root mean square of the row as it is :: It still reads the whole row before it can write the first number.
# - [ ] the division: it only centers :: It is the other way round, it only divides.
# - [ ] the gain :: It keeps the gain. Its bias is usually left out, together with the mean.

# %% [markdown]
# ## 13.1 Count the bytes
#
# What does the memory have to deliver? LayerNorm does some ten operations on each number, and a processor can do these faster than its memory delivers the number. So count traffic first. One **word** is one number, and we count words for each entry of $x$. What is small next to $x$ (mean, variance, gain, bias) is left out.
#
# - **Forward:** $x$ must be read once, $y$ must be written once.
# - **Backward:** $dy$ and $x$ must be read, $dx$ must be written.
#
# Each of the seven lines above is a *kernel*, a compiled loop that walks through its whole input and leaves its whole result in memory. Suppose that no tensor fits into a **cache**, the small, fast memory that keeps what was used last.

# %% tags=["exercise"] id="ex-13-1"
# Exercise 13.1 · ●●○○○ · 3 min
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
# *Fused* is a kernel that moves only what must be moved, as in the two points above. For the seven lines, go through them one by one: two of them write only a number for each row, which does not count.
#
# </details>

# %% tags=["hide-input"]
plot.memory_traffic(
    {
        "line by line": [
            ("mean(x)", ["x"], []),
            ("x - mean", ["x"], ["c"]),
            ("c * c", ["c"], ["squares"]),
            ("mean(squares)", ["squares"], []),
            ("c * rstd", ["c"], ["x_hat"]),
            ("x_hat * weight", ["x_hat"], ["scaled"]),
            ("scaled + bias", ["scaled"], ["y"]),
        ],
        "fused, row by row": [
            ("loop 1: add up", ["x"], []),
            ("loop 2: c, c * c", [], []),
            ("loop 3: write y", [], ["y"]),
        ],
    },
    title="Fused, a row makes one trip: 2 words an entry instead of 12",
    caption="Each arrow is one word for every entry of x, between memory and processor. On the "
    "left each operation walks through the whole tensor. On the right all loops work on a row "
    "while it is in the cache, and then on the next row.",
    alt="Two diagrams, with the memory on the left and operations on the right. Line by line: "
    "seven operations, seven arrows that read and five that write. Fused: three loops in one "
    "frame called cache, one arrow that reads x before the first, and one that writes y after "
    "the last.",
)

# %% [markdown]
# A **fused** kernel does all seven lines on a row while that row is in the cache. It moves a sixth.
#
# How many seconds is a word? **A copy** `y.copy_(x)` tells: for each entry it reads a word and writes one. That is our yardstick. Forward moves the 2 words of a copy, backward 3, together 5: the time of **2.5 copies**.
# This is no law of nature, since there may be faster ways to move two words than a copy. It is what to expect from a kernel that is as good as a copy.
#
# So the bytes ask for 2.5 copies, and the seven lines move six times the words of a fused forward pass.

# %% [markdown]
# ## 13.2 Measured in copies
#
# Is the time where the bytes are? With `x.var` the layer reads $x$ once for the variance and writes no squares, so that forward it moves 10 words instead of 12.
#
# **Predict 13.1:** which of the two versions is the faster one?
# - [ ] the one with `x.var`, by about a sixth :: So the bytes say. But `x.var` does more than move bytes.
# - [x] the seven lines :: PyTorch's var runs Welford's update, whose steps divide and wait for each other, and probably that costs more than the words saved.
# - [ ] neither: both walk through memory again and again :: Both do, and still one takes far longer.


# %% tags=["export"]
def with_var(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x (..., D), with x.var."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps) * weight + bias  # (..., D)


# %% tags=["timed"]
layers["x.var"] = with_var
copy = median_ms(lambda: y.copy_(x))
print(f"a copy: {copy:.2f} ms, {8e-6 * x.numel() / copy:.0f} GB/s; the forward pass in copies:")
for name, layer in layers.items():
    print(f"{name:13} {median_ms(lambda: layer(x, weight, bias)) / copy:5.1f}")  # noqa: B023

# %% [markdown]
# And what we measured with `make bench` ([data/bench.csv](../data/bench.csv)): x of 4096 × 1024, one thread, forward. (These 17 MB fit into both last caches, where some trips may end.)

# %% tags=["hide-input"]
for (cpu, date, _), rows in bench.items():
    copy = ms(rows, "copy")[4096, 1024]
    forward = {
        name: ms(rows, what, part="forward_ms")[4096, 1024] / copy
        for name, what in {"seven lines": "centered squares", "x.var": "x.var"}.items()
    }
    print(f"{cpu}, {date}, copies:", {name: round(n, 1) for name, n in forward.items()})

# %% tags=["hide-input"]
for rows in bench.values():
    assert min(ratios(rows, "x.var", "centered squares")) > 1.2  # 1.4 to 1.7 where we measured

# %% [markdown]
# So the bytes tell the time of the seven lines, about six copies, and not that of `x.var`: it runs Welford's update ([lesson 3](03_epsilon.ipynb)), where each step divides and waits for the step before.

# %% [markdown]
# ## 13.3 Loops that a compiler reads
#
# How do we fuse the lines? With loops over single numbers. The Python interpreter spends far more time on a step than the arithmetic takes, but **Numba** compiles such a function to machine code when it is first called.


# %%
@njit
def total_in_order(row):
    total = np.float32(0)
    for i in range(len(row)):
        total += row[i]
    return total


total_in_any_order = njit(fastmath={"reassoc"})(total_in_order.py_func)
row = np.full(1_000_000, 0.1, np.float32)  # (D,)
show("a million times 0.1, one after the other", float(total_in_order(row)), 0)

# %% [markdown]
# 958 too much, one percent: a small number added to a large one loses its last digits.
#
# Rounding makes $(a+b)+c$ differ from $a+(b+c)$. So a compiler must add in your order, where each addition waits for the one before. `fastmath={"reassoc"}` allows the second function to reorder: it keeps several partial sums in vector registers, and adds these up at the end.
#
# **Predict 13.2:** it is faster. And its digits, for this row?
# - [ ] worse, that is what the speed costs :: It rounds differently, but each partial sum stays smaller, so that each addition loses less.
# - [ ] the same :: The order of the additions is another one, and so is the rounding.
# - [x] better :: Many partial sums stay smaller than one long sum, so that fewer digits are lost.

# %%
exact = row.sum(dtype=np.float64)
better = abs(total_in_any_order(row) - exact) < 0.5 * abs(total_in_order(row) - exact)
print("in any order, off by less than half as much:", bool(better))

# %% tags=["timed"]
numbers = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)  # (D,)
for total in (total_in_order, total_in_any_order):
    print(f"{median_ms(lambda: total(numbers)):.3f} ms")  # noqa: B023

# %% tags=["hide-input"]
assert better  # at least four partial sums; with eight it is off by an eighth or less

# %% [markdown]
# So sums may be reordered: that makes them fast, and usually more exact. But one must keep its order. Around 100,000 a float32 mean is rounded to steps of 0.008, and every $x-\mu$ is off by the same amount. So we keep the mean as **two** float32 numbers, `near + rest`, and subtract one after the other.
# Reordered to $x - (\text{near}+\text{rest})$, that would round the mean after all. This line gets a function of its own, for which reordering is forbidden.


# %% tags=["export", "hide-input"]
def _keep_compiled():
    """Keep compiled loops on disk, in NUMBA_CACHE_DIR or ~/.cache, never among the sources.
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
    # what a notebook defines is compiled anew
    return os.access(folder, os.W_OK) and __name__ != "__main__"


# %% tags=["export"]
LOOPS = dict(
    fastmath={"reassoc", "contract", "nsz"},
    nogil=True,
    error_model="numpy",
    cache=_keep_compiled(),
)
ROWS_A_BLOCK = 64


@njit(nogil=True, error_model="numpy", fastmath=False)
def standardize(value, near, rest, rstd):
    """One number of x_hat. The mean is near + rest; value - near is exact where value is close
    to the mean.
    """
    return (value - near - rest) * rstd


# %% [markdown]
# `LOOPS` is what we allow the loops below: sums in any order, a product and a sum in one instruction (`contract`), no care for the sign of zero (`nsz`). Infinities and nan keep their meaning.
#
# ## 13.4 The forward pass in three loops
#
# How many loops? Three here: the first brings the row from memory, the others find it in the cache. The first is given, with its result **near**, the mean as float32 can hold it. (`number(…)` makes a number of x's type: with a plain `0.0` the compiled loop computes in float64.)
#
# **Second loop:** add up $c = x - \text{near}$ and $c^2$. The mean of $c$ is `rest`, which near lacks, and the variance is $\mathrm{mean}(c^2) - \text{rest}^2$.
#
# **Predict 13.3:** is that not the one-pass formula that loses all digits?
# - [ ] it is, and we accept the loss :: No digit is lost that matters: look at what is subtracted.
# - [x] it is its form, for numbers whose mean is nearly 0 :: What is subtracted is tiny then: rest is what the rounding of the mean left over.
# - [ ] no: c is exact, so nothing can be lost :: Even exact numbers lose digits if two large, nearly equal sums are subtracted.
#
# **Third loop:** write $y$.


# %% tags=["exercise", "export"] id="ex-13-2"
# Exercise 13.2 · ●●●○○ · 7 min
@njit(**LOOPS)
def forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    """LayerNorm of the rows start, …, stop - 1, written into y, mean and rstd.

    x, y: (rows, D), NumPy arrays, both float32 or both float64; weight, bias: (D,).
    mean: (rows,), float64; rstd: (rows,), 1 / sqrt(var + eps).
    One number at a time: x[r, i], read at most three times; y[r, i], written once. Each row is
    finished before the next is begun, in one thread. The inputs stay as they are.
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
# The check runs your loops as plain Python, on arrays that note every access: that is how it sees whether the kernel is fused. It does not grade speed.

# %% [markdown]
# ## 13.5 The backward pass in two loops
#
# From [lesson 7](07_backward.ipynb), for one row, with $h = dy\,\gamma$:
#
# $$dx = r\,\bigl(h - \mathrm{mean}(h) - \hat x\;\mathrm{mean}(h\,\hat x)\bigr), \qquad d\gamma = \sum_{\text{rows}} dy\,\hat x, \qquad d\beta = \sum_{\text{rows}} dy$$
#
# The two means need the whole row before the first $dx$ can be written: two loops. $d\gamma$ and $d\beta$ fit into the first. But these two are sums over **rows**, of which there may be very many. What becomes of such a sum in one float32?
#
# **Predict 13.4:** twenty million rows, each with $dy = 1$. What is $d\beta$, added up one after the other in one float32?
# - [ ] 20,000,000 :: The number itself fits into float32, but the way to it does not: what is 16,777,216 + 1 in 24 bits?
# - [ ] about 20,000,000, a few hundred off :: Below 2**24 each step is exact, so nothing is off by a little.
# - [x] 16,777,216 :: That is 2**24. From there float32 cannot hold the next odd number, and adding 1 changes nothing.
# - [ ] inf :: float32 reaches 3e38. It is not its range that ends here, but its digits.


# %% tags=["hide-input"]
@njit(fastmath=False)
def add_ones(count):
    total = np.float32(0)
    for _ in range(count):
        total += np.float32(1)
    return total


# %%
blocks = 20_000_000 // ROWS_A_BLOCK
in_blocks = sum(np.float64(add_ones(ROWS_A_BLOCK)) for _ in range(blocks))
show("in one float32", float(add_ones(20_000_000)), 0)
show("in blocks of 64, added up in float64", float(in_blocks), 0)

# %% tags=["hide-input"]
assert add_ones(20_000_000) == 2**24 and in_blocks == 20_000_000

# %% [markdown]
# With most numbers digits are lost long before the sum stops. So we add within **blocks of 64 rows**, each into sums of its own, and add up the block sums at the end.


# %% tags=["exercise", "export"] id="ex-13-3"
# Exercise 13.3 · ●●●●○ · 8 min
@njit(**LOOPS)
def backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """Gradients of the rows start, …, stop - 1: into dx, and into the sums of each row's block.

    dy, x, dx: (rows, D), all float32 or all float64; mean: (rows,), float64; rstd: (rows,).
    weight: (D,); dweight, dbias: (blocks, D); row r adds dy * x_hat and dy to what
        they hold in number r // ROWS_A_BLOCK, here called block.
    One number at a time: x[r, i], read at most three times; dx[r, i], written once. Each row is
    finished before the next is begun, in one thread. The inputs stay as they are.
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
            sum_h, sum_hx = sum_h + h, sum_hx + h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = number(sum_h / D), number(sum_hx / D)
        for i in range(D):
            x_hat = standardize(x[r, i], near, rest, scale)
            dx[r, i] = scale * (dy[r, i] * weight[i] - mean_h - x_hat * mean_hx)
        ### END SOLUTION


# %% tags=["check"]
check.backward_rows(backward_rows)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The first loop computes `x_hat` and `h` and adds to four sums: `sum_h`, `sum_hx`, `dweight[block, i]`, `dbias[block, i]`. After it, divide the first two by `D` (and keep their type: `number(sum_h / D)`).
# The second loop computes `x_hat` and $h$ anew for each `i`, because what the first loop leaves in `x_hat` belongs to the last feature, and writes `dx[r, i]`.
#
# </details>

# %% [markdown]
# ## 13.6 One function for autograd
#
# How do the loops become a layer? With an `autograd.Function`, as in [lesson 7](07_backward.ipynb). Autograd does not see into compiled loops, so a *second* derivative could be silently wrong; `once_differentiable` makes it an error.


# %%
class YourLoops(torch.autograd.Function):
    """YourLoops.apply(x, weight, bias, eps): x (rows, D), contiguous; weight, bias (D,)."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y, rstd = torch.empty_like(x), x.new_empty(len(x))  # (rows, D), (rows,)
        mean = x.new_empty(len(x), dtype=torch.float64)  # (rows,)
        arrays = [item.detach().numpy() for item in (x, weight, bias)]
        forward_rows(*arrays, eps, y.numpy(), mean.numpy(), rstd.numpy(), 0, len(x))
        ctx.save_for_backward(x, mean, rstd, weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, mean, rstd, weight = (item.detach() for item in ctx.saved_tensors)
        blocks = math.ceil(len(x) / ROWS_A_BLOCK)
        dx, sums = torch.empty_like(x), x.new_zeros(2, blocks, x.shape[1])  # (2, blocks, D)
        tensors = (dy.contiguous(), x, mean, rstd, weight, dx, sums[0], sums[1])
        backward_rows(*[item.numpy() for item in tensors], 0, len(x))
        return dx, *sums.sum(1), None  # eps needs no gradient


# %%
g = torch.Generator().manual_seed(131)
shapes = ((3, 5), (5,), (5,))
inputs = [torch.randn(s, dtype=torch.float64, generator=g).requires_grad_() for s in shapes]
print("gradcheck:", gradcheck(YourLoops.apply, (*inputs, 1e-5)))

# %% [markdown]
# It is right in float64. Does it keep its digits in float32, far from zero?
#
# **Predict 13.5:** rows of standard deviation 1 around 100,000, in float32. How large is the relative error of the gradient $dx$ in PyTorch's kernel?
# - [ ] 1e-7, the resolution of float32 :: That is what two numbers for the mean achieve.
# - [x] about 1e-3 :: Its mean is one float32 number, with steps of 0.008 around 100,000.
# - [ ] about 1 :: Losing every digit would take steps as large as the deviation itself.


# %% tags=["hide-input"]
def dx_error(layer, offset, seed):
    """Relative error of dx in float32 for rows with standard deviation 1 around offset."""
    g = torch.Generator().manual_seed(seed)
    shapes = ((256, 768), (256, 768), (768,), (768,))
    v, dy, w, b = (torch.randn(shape, generator=g) for shape in shapes)  # float32
    found = []
    for dtype, one in ((torch.float32, layer), (torch.float64, layers["F.layer_norm"])):
        leaf = (v + offset).to(dtype).requires_grad_()  # (B, D), rounded to float32 first
        out = one(leaf, w.to(dtype), b.to(dtype))
        found.append(torch.autograd.grad(out, leaf, dy.to(dtype))[0].double())
    return ((found[0] - found[1]).norm() / found[1].norm()).item()


layers["F.layer_norm"] = lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b)
layers["your loops"] = lambda x, w, b: YourLoops.apply(x, w, b, 1e-5)
offsets = [1, 10, 100, 1e3, 1e4, 1e5]
error = {
    name: torch.tensor(
        [[dx_error(layers[name], o, seed) for o in offsets] for seed in range(4)]
    )
    for name in ("F.layer_norm", "your loops")
}
# float32 resolves 6e-8. From offset 10 on PyTorch is worse; at 1 both are at the resolution.
assert error["your loops"].max() < 3e-7
assert (error["F.layer_norm"] / error["your loops"])[:, 1:].min() > 1.2

# %% tags=["hide-input"]
plot.lines(
    offsets,
    error,
    xlog=True,
    ylog=True,
    colors={"F.layer_norm": "none", "your loops": "LayerNorm"},
    title="Two numbers for the mean keep the gradient's digits",
    x="offset of a row with σ = 1",
    y="relative error of dx",
    caption="float32, 256 rows of 768 features, random gain and upstream gradient; four seeds; "
    "the truth in float64 from the same numbers. torch 2.13, CPU.",
    alt="Two curves over the offset on logarithmic axes. The error of F.layer_norm rises from "
    "1e-7 at offset 1 to about 1e-3 at 100,000; that of your loops stays below 3e-7.",
)

# %% [markdown]
# So your loops are a layer, once differentiable, and far from zero their float32 gradient is more accurate than that of PyTorch's CPU kernel.

# %% [markdown]
# ## 13.7 How fast is it
#
# How do your loops compare with a kernel that experts wrote by hand, with vector instructions?
#
# **Predict 13.6:** forward and backward in one thread, on the processors that we measured?
# - [ ] your loops take two to three times as long :: So it is often with compiled Python. But both make one trip to memory, and the memory sets the pace.
# - [x] the two are level :: They move the same words, the arithmetic is vectorized in both, and neither is ahead on every shape and processor.
# - [ ] your loops take half as long :: There is nothing to gain that much from: both move five words.

# %% tags=["timed"]
copy = median_ms(lambda: y.copy_(x))
for name, layer in layers.items():
    found = median_ms(forward_and_backward(layer, x, dy, weight, bias))
    print(f"{name:13} {found / copy:5.1f} copies   {found:6.1f} ms")

# %% [markdown]
# And ours: the time of `F.layer_norm` over that of your loops, at five shapes. Above 1, your loops took less time. (The mean is the geometric one.)

# %% tags=["hide-input"]
print(f"{'':49}", *(f"{rows}×{D}".rjust(10) for rows, D in SHAPES), "      mean")
for (cpu, date, _), rows in bench.items():
    found = ratios(rows, "F.layer_norm", "fused, ordinary stores")
    numbers = "".join(f"{number:11.2f}" for number in (*found, mean_ratio(found)))
    print(f"{cpu + ', ' + date:49}{numbers}")

# %% tags=["hide-input"]
for rows in bench.values():
    found = ratios(rows, "F.layer_norm", "fused, ordinary stores")
    assert 0.8 < mean_ratio(found) < 1.3  # level; 1.02 and 1.07 where we measured

# %% tags=["hide-input"]
KINDS = {
    "x.var": "x.var",
    "seven lines": "centered squares",
    "F.layer_norm": "F.layer_norm",
    "your loops": "fused, ordinary stores",
}
newest = list(bench)[-1]
plot.lines(
    [f"{rows} × {D}" for rows, D in SHAPES],
    {name: ratios(bench[newest], what, "copy") for name, what in KINDS.items()},
    ylog=True,
    ylim=(1, 50),
    href={"2.5 copies": 2.5},
    size=(8.6, 4),
    dots=list(KINDS),
    colors={"your loops": "LayerNorm", "F.layer_norm": "none"},
    title="Fused: a few copies; line by line: many times as many",
    x="rows × features",
    y="time in copies",
    caption="Forward and backward, float32, one thread; medians of interleaved rounds "
    f"(make bench) on {newest[0]}, {newest[1]}. Freed memory is kept, so that page faults stay "
    "out.",
    alt="For each of five shapes four points on a logarithmic axis of time in copies: x.var "
    "and the seven lines far above, F.layer_norm and your loops close together, near a dashed "
    "line at 2.5 copies.",
)

# %% [markdown]
# **If your own table disagrees**, nothing need be wrong. A ratio belongs to one processor, and to what else runs on it. First run the timed cell twice: if the copy itself changes by a third, the machine is busy, and no ratio means anything. If it does not, your processor is not in our table, and both tables are true. On an AMD EPYC (Zen 5), for example, PyTorch's kernel took from 0.85 to 1.25 times the time of such loops, depending on the shape and the hour. `make bench` adds your processor to the table.
#
# ### One line that asks ahead
#
# While your loops compute in the cache, the memory may wait. A **prefetch** is an instruction that asks for a piece of memory and does not wait for it. So put one line first in the loop over rows: *ask for row $r+1$*, then work on row $r$.
#
# **Predict 13.7:** how much time does this line save your loops, on the Xeon of 22 November?
# - [ ] a tenth :: Loops that store in a different way gain about that much, see below.
# - [ ] half :: Reading is only a part of the traffic, and much of it overlaps with the arithmetic already.
# - [x] none :: Many processors notice a loop that reads in a straight line, and ask ahead by themselves. That may be why; we have not tested it.

# %% tags=["hide-input"]
for (cpu, _, _), rows in bench.items():
    if "fused, no prefetch" in {row["what"] for row in rows}:
        for name, without, asks in (
            ("your loops", "fused, ordinary stores", "ordinary stores, prefetch"),
            ("stores past the caches", "fused, no prefetch", "fused"),
        ):
            gain = mean_ratio(ratios(rows, without, asks))
            print(f"{cpu}: {name}, time without / with asking ahead: {gain:.2f}")
            if "Xeon, last cache 105 MB" in cpu:  # four runs: 0.94-0.99, 1.04-1.17
                assert 0.9 < gain < 1.06 if name == "your loops" else gain > 1.06

# %% [markdown]
# Nothing for your loops. But in loops that *store* in a different way, past the caches, asking ahead saved time. Why it pays there and not here, we have not found out. Those loops are in [Deeper](#Stores-past-the-caches), and `fused_layer_norm` of `fromscratch` runs them for large tensors.
#
# So plain loops are level with PyTorch's kernel where we measured, and the last part of the speed must be measured, not guessed.

# %% [markdown]
# ## 13.8 Clinic: every test passed
#
# **The patient** is the first half of a GPU kernel, in PyTorch here. In Triton it reads a row in one piece whose width must be a power of two, at least $D$, and what lies beyond the row's end is read as 0.


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
# Its tests passed: $D$ = 512 and 1024, and $D$ = 700 with rows from `torch.randn`.
#
# **Predict 13.8:** which test shows the fault?
# - [ ] D = 1024, rows around 3 :: At a power of two nothing is padded, so there is nothing to go wrong.
# - [x] D = 700, rows around 3 :: Each of the 324 missing numbers adds its squared distance from the mean, 9.
# - [ ] D = 700, rows around 0 with a deviation of 100 :: The missing numbers add the squared mean, and next to this variance it is nothing.


# %% tags=["hide-input"]
def variance_ratio(D, offset):
    """The patient's variance over the true one, for a row around offset."""
    g = torch.Generator().manual_seed(D)
    v = offset + torch.randn(1, D, dtype=torch.float64, generator=g)  # (1, D)
    return (patient(v, 1024)[1] / v.var(correction=0)).item()


# %%
for D, offset in ((1024, 0), (1024, 3), (700, 0), (700, 3)):
    show(
        f"D = {D}, rows around {offset}: variance over the true one",
        variance_ratio(D, offset),
        1,
    )


# %% tags=["exercise"] id="ex-13-4"
# Exercise 13.4 · ●●○○○ · 3 min
def mended_statistics(x, width):
    """Mean and biased variance of the rows of x (..., D), read in one piece of width >= D.

    Returns (mean, var), both (..., 1); gradients flow through. No number beyond a row's end may
    count, and each of the row must, also nan. Far from zero float32 keeps its digits.
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
# Beyond the end, `row` is 0 and `row - mean` is not. Set it to 0 there: `torch.where(condition, row - mean, 0)`, with a condition made from the position (`torch.arange(width) < D`) and not from the value.
#
# </details>
#
# Each missing number adds $(0-\mu)^2$, so that the variance is too large by $\frac{\text{width}-D}{D}\,\mu^2$:

# %%
excess = (1024 - 700) / 700 * 3**2  # mean 3, up to the mean of the row's noise
show("expected ratio at D = 700, rows around 3", 1 + excess, 1)

# %% tags=["hide-input"]
# The mean of 700 numbers is off by 0.04, their variance by 5 %.
assert abs(variance_ratio(700, 3) / (1 + excess) - 1) < 0.25
assert abs(variance_ratio(1024, 3) - 1) < 1e-9 and abs(variance_ratio(700, 0) - 1) < 0.02

# %% [markdown]
# This fault was found in Triton kernels of [Liger-Kernel](https://github.com/linkedin/Liger-Kernel/issues/518) and [Unsloth](https://github.com/unslothai/unsloth/pull/1867), where the tests had used powers of two only. Test with rows **away from zero** and a $D$ that is **no power of two**.
#
# ## Take-away
#
# - Bytes: 2 words an entry forward and 3 backward. The yardstick is a copy, which moves 2, so both passes should cost about 2.5 copies.
# - *Fused* means that a row makes one trip: all that is done to it is done while it is in the cache. Line by line, the forward pass moves 12 words instead of 2.
# - Forward: three loops over a row. Backward: two, with $d\gamma$ and $d\beta$ in the first.
# - Sums may be reordered, which makes them fast and usually more exact. $x-\text{near}-\text{rest}$ may not. One float32 stops counting at 16,777,216, so sums over rows are made in blocks.
# - A timing belongs to one processor. State the median, the yardstick and the processor; if the yardstick itself wavers, the machine is busy.
#
# ## Deeper (optional, 13 min)
#
# Everything here is optional: how `fused_layer_norm` of `fromscratch` became faster than plain loops, what several threads need, what spoils a timing, and what several processes must tell each other. The cells are folded; open those that you want to read.
#
# ### Stores past the caches
#
# **A copy moves more than we counted.** Memory comes in pieces of 64 bytes on most processors, each a **cache line**. To store one number of $y$, the processor first fetches the line that holds it (if no cache has it), since the rest of the line must stay as it is. A loop that then overwrites the whole line has fetched it in vain. So a large copy moves three words an entry: read $x$, read $y$, write $y$. (Not everywhere: some processors notice such a loop and leave the fetch out.)
# For whole lines there is a different kind, the **non-temporal store**: it sends them to memory past the caches, and nothing is fetched before. (So it is on x86 processors; elsewhere it may be no more than a hint; see "Bypassing the Cache" in U. Drepper, *What Every Programmer Should Know About Memory*, 2007.) That is why 2.5 copies are a yardstick and no floor: a kernel that stores in this way may take less.
#
# It is no gift. What was written past the caches is not in them when the next layer reads it. So this is for large tensors, and the size from which it pays depends on the processor.
#
# Numba has no such store, and no prefetch, so the next cells write the instructions themselves. `_write_past(room, …)` stores a piece of 64 numbers past the caches, `_fetch_piece(size, address)` asks for one.

# %% tags=["hide-input"]
import ctypes
import functools

from llvmlite import binding, ir
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

# %% tags=["export", "hide-input"]
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


# %% tags=["export", "hide-input"]
@intrinsic
def _move_past(typing, room, offset, address):
    """Copy the 32 bytes at room + offset to an address, a multiple of 32, past the caches."""

    def code(context, builder, _, items):
        eight = ir.VectorType(ir.FloatType(), 8).as_pointer()
        source = builder.bitcast(builder.gep(items[0], [items[1]]), eight)
        there = builder.inttoptr(items[2], eight)
        store = builder.store(builder.load(source, align=32), there, align=32)
        once = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        store.set_metadata("nontemporal", once)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64, types.int64), code


@intrinsic
def _all_is_written(typing):
    """Wait until what was stored past the caches is there for every thread."""

    def code(context, builder, *_):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def _fetch(typing, address):
    """Ask for the cache line at an address, and do not wait. Any address will do, also one
    where no array is.
    """

    def code(context, builder, _, items):
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = number(0), number(3), number(1)  # to be read; into all caches; data
        there = builder.inttoptr(items[0], cgutils.voidptr_t)
        builder.call(prefetch, [there, read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), code


# %% tags=["export", "hide-input"]
AHEAD = 2**13  # bytes: how far the loops ask ahead, and at least a row


@njit(nogil=True, error_model="numpy", fastmath=False)
def _fetch_piece(size, address):
    for offset in range(0, size, 64):
        _fetch(address + offset)


@njit(nogil=True, error_model="numpy", fastmath=False)
def _write_past(room, size, address):
    for offset in range(0, size, 32):
        _move_past(room, offset, address + offset)


@njit(nogil=True, cache=LOOPS["cache"])
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


# %% tags=["hide-input"]
copy_past(x.numpy(), y.numpy())
assert torch.equal(x, y)
for (cpu, date, _), rows in bench.items():
    found = ratios(rows, "copy", "copy past the caches")
    numbers = ", ".join(f"{number:.2f}" for number in found)
    print(f"{cpu}, {date}: copy / copy past the caches at the five shapes: {numbers}")

# %% [markdown]
# Two words instead of three would be a factor of 1.5, if words were all.
#
# Here are both passes for large tensors. They compute what your loops compute. Compared with yours:
#
# 1. what you write to `y[r, i]` or `dx[r, i]` goes to a piece of 64 numbers, which then is stored past the caches;
# 2. with each piece they ask for the piece that comes 8 kB, or at least a row, later;
# 3. $1/D$ is computed once, and multiplied with;
# 4. rows of 64 features have a loop of constant length, which the compiler can unroll.


# %% tags=["export", "hide-input"]
@njit(**LOOPS)
def forward_past_caches(x, weight, bias, eps, y, mean, rstd, start, stop):
    """forward_rows for large tensors. D: a multiple of PIECE; y's address: of 64 bytes."""
    D, number = x.shape[1], x.dtype.type
    pieces = D // PIECE
    x_in = x.reshape(len(x), pieces, PIECE)
    weight_in, bias_in = weight.reshape(pieces, PIECE), bias.reshape(pieces, PIECE)
    room = _room_for_a_piece()
    piece = carray(room, (PIECE,), number)
    ahead, part = max(x[0].nbytes, AHEAD), 1 / D
    for r in range(start, stop):
        total = number(0)
        for i in range(D):
            total += x[r, i]
        near, sum_c, sum_cc = number(total * part), number(0), number(0)
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c * part)
        scale = number(1 / np.sqrt(sum_cc * part - rest * rest + eps))
        mean[r], rstd[r] = np.float64(near) + rest, scale
        for k in range(pieces):
            at = (r * pieces + k) * piece.nbytes
            _fetch_piece(piece.nbytes, x.ctypes.data + at + ahead)
            for i in range(PIECE):
                x_hat = standardize(x_in[r, k, i], near, rest, scale)
                piece[i] = x_hat * weight_in[k, i] + bias_in[k, i]
            _write_past(room, piece.nbytes, y.ctypes.data + at)
    _all_is_written()


# %% tags=["export", "hide-input"]
@njit(inline="always", **LOOPS)
def _first_loop(D, r, block, dy, x, near, rest, scale, weight, dweight, dbias):
    """Return sum_h and sum_hx of row r. A constant D makes a loop of constant length."""
    sum_h, sum_hx = x.dtype.type(0), x.dtype.type(0)
    for i in range(D):
        x_hat = standardize(x[r, i], near, rest, scale)
        h = dy[r, i] * weight[i]
        sum_h += h
        sum_hx += h * x_hat
        dweight[block, i] += dy[r, i] * x_hat
        dbias[block, i] += dy[r, i]
    return sum_h, sum_hx


# %% tags=["export", "hide-input"]
@njit(**LOOPS)
def backward_past_caches(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """backward_rows for large tensors. D: a multiple of PIECE; dx's address: of 64 bytes."""
    D, number = x.shape[1], x.dtype.type
    pieces = D // PIECE
    dy_in, x_in = dy.reshape(len(x), pieces, PIECE), x.reshape(len(x), pieces, PIECE)
    weight_in, room = weight.reshape(pieces, PIECE), _room_for_a_piece()
    piece = carray(room, (PIECE,), number)
    ahead, part = max(x[0].nbytes, AHEAD), 1 / D
    for r in range(start, stop):
        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK
        rest = number(mean[r] - near)
        if pieces == 1:
            sum_h, sum_hx = _first_loop(
                PIECE, r, block, dy, x, near, rest, scale, weight, dweight, dbias
            )
        else:
            sum_h, sum_hx = _first_loop(
                D, r, block, dy, x, near, rest, scale, weight, dweight, dbias
            )
        mean_h, mean_hx = number(sum_h * part), number(sum_hx * part)
        for k in range(pieces):
            at = (r * pieces + k) * piece.nbytes
            _fetch_piece(piece.nbytes, dy.ctypes.data + at + ahead)
            _fetch_piece(piece.nbytes, x.ctypes.data + at + ahead)
            for i in range(PIECE):
                x_hat = standardize(x_in[r, k, i], near, rest, scale)
                piece[i] = scale * (dy_in[r, k, i] * weight_in[k, i] - mean_h - x_hat * mean_hx)
            _write_past(room, piece.nbytes, dx.ctypes.data + at)
    _all_is_written()


# %% [markdown]
# ### Threads and what lies around the loops
#
# At these sizes a good part of a call lies outside the loops, because Python and autograd find nothing of theirs in the caches after 50 MB have passed through. So the way to the loops is short: one C function that gets the addresses in one array, zeroes the block sums itself, and a second one that adds them up.
#
# And which threads? PyTorch's threads, when they have finished an operation, "wait actively for a short time" for the next one (GNU's OpenMP manual, under `OMP_WAIT_POLICY`), so that a second set of threads would have to share the cores with them. Therefore `GOMP_parallel` starts the C function in the threads of the OpenMP library that PyTorch brings along, each on whole blocks of rows.
# All this was tried on Linux only. Where the library has no `GOMP_parallel` (so we expect on Windows, and have not tried macOS), one thread does all rows: the same numbers, without the gain of a second core.


# %% tags=["export", "hide-input"]
def _torchs_openmp():
    """Return GOMP_parallel of the OpenMP library that torch uses, or None."""
    folder = Path(torch.__file__).parent / "lib"
    for path in sorted(folder.glob("lib*omp*")):  # libgomp on Linux, libomp elsewhere
        try:
            library = ctypes.CDLL(str(path))  # torch has loaded it: no second one
            parallel, _ = library.GOMP_parallel, library.omp_get_thread_num
        except (OSError, AttributeError):
            continue
        binding.load_library_permanently(str(path))  # compiled code finds the names in it
        number = ctypes.c_uint
        parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, number, number)
        parallel.restype = None
        return parallel
    return None


_parallel = _torchs_openmp()
_my_number = types.ExternalFunction("omp_get_thread_num", types.int32())
_count = types.ExternalFunction("omp_get_num_threads", types.int32())


def _all_rows(rows):
    return 0, rows


def _whole_blocks(rows):
    """start, stop of the thread that asks: whole blocks, no row twice, none left out."""
    size = math.ceil(rows / (_count() * ROWS_A_BLOCK)) * ROWS_A_BLOCK
    return min(rows, size * _my_number()), min(rows, size * (_my_number() + 1))


_my_rows = njit(nogil=True, error_model="numpy", fastmath=False)(
    _whole_blocks if _parallel else _all_rows
)


@njit(nogil=True, error_model="numpy", fastmath=False)
def _add_up(blocks, total):
    """Write the sum of blocks (blocks, D), from the first to the last, into total (D,)."""
    total[:] = 0
    for k in range(len(blocks)):
        for i in range(len(total)):
            total[i] += blocks[k, i]


# %% tags=["export", "hide-input"]
def _forward_for_c(past, number):
    """Return what a C function of the forward pass does; past: with stores past the caches."""

    def forward(given):
        rows, D = given[0], given[1]
        x, y = (
            carray(_at(given[2]), (rows, D), number),
            carray(_at(given[6]), (rows, D), number),
        )
        weight, bias = carray(_at(given[3]), (D,), number), carray(_at(given[4]), (D,), number)
        eps = carray(_at(given[5]), (1,), np.float64)[0]
        mean = carray(_at(given[7]), (rows,), np.float64)
        rstd = carray(_at(given[8]), (rows,), number)
        start, stop = _my_rows(rows)
        if past:
            forward_past_caches(x, weight, bias, eps, y, mean, rstd, start, stop)
        else:
            forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop)

    return forward


# %% tags=["export", "hide-input"]
def _backward_for_c(past, number):
    """The same for the backward pass. The sums of each thread's blocks begin with 0."""

    def backward(given):
        rows, D = given[0], given[1]
        dy, x = (
            carray(_at(given[2]), (rows, D), number),
            carray(_at(given[3]), (rows, D), number),
        )
        mean = carray(_at(given[4]), (rows,), np.float64)
        rstd = carray(_at(given[5]), (rows,), number)
        weight = carray(_at(given[6]), (D,), number)
        dx = carray(_at(given[7]), (rows, D), number)
        blocks = math.ceil(rows / ROWS_A_BLOCK)
        dweight = carray(_at(given[8]), (blocks, D), number)
        dbias = carray(_at(given[9]), (blocks, D), number)
        start, stop = _my_rows(rows)
        # A thread without rows begins where the last block may not be full: it zeroes nothing.
        first, last = math.ceil(start / ROWS_A_BLOCK), math.ceil(stop / ROWS_A_BLOCK)
        dweight[first:last] = 0
        dbias[first:last] = 0
        if past:
            backward_past_caches(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop)
        else:
            backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop)

    return backward


# %% tags=["export", "hide-input"]
def _sums_for_c(number):
    """What a C function does after the backward pass: add up the sums of all blocks."""

    def sums(given):
        D, blocks = given[1], math.ceil(given[0] / ROWS_A_BLOCK)
        for k in range(2):
            block_sums = carray(_at(given[8 + k]), (blocks, D), number)
            _add_up(block_sums, carray(_at(given[10 + k]), (D,), number))

    return sums


@functools.cache
def _for_c(make, *arguments):
    """Compile a C function. Returns (its address, the same to be called from Python)."""
    pointer = types.CPointer(types.int64)
    made = cfunc(types.void(pointer), cache=LOOPS["cache"])(make(*arguments))
    return made.address, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.address), made


# %% tags=["export", "hide-input"]
def on_rows(kernel, rows, *arguments):
    """Run a kernel, one of the four above, on all rows, in as many threads as torch uses.

    arguments: of the kernel without start and stop, tensors and eps; the first is (rows, D).
    For a backward kernel, dweight and dbias (D,) follow, and get the sums over all rows; the
    sums of the blocks need not be zeroed.
    With fewer than 2**15 numbers, which one thread handles in microseconds, one is used.
    """
    x, eps = arguments[0], None
    given = (ctypes.c_int64 * (len(arguments) + 2))(rows, x.shape[1])
    for k, item in enumerate(arguments, 2):
        if isinstance(item, float):
            eps = ctypes.c_double(item)
            given[k] = ctypes.addressof(eps)
        else:
            given[k] = item.data_ptr()
    number = np.float32 if x.dtype == torch.float32 else np.float64
    backward = kernel in (backward_rows, backward_past_caches)
    past = kernel in (forward_past_caches, backward_past_caches)
    address, run, _ = _for_c(_backward_for_c if backward else _forward_for_c, past, number)
    count = torch.get_num_threads() if x.numel() >= 2**15 and _parallel else 1
    if count == 1:
        run(given)
    else:
        _parallel(address, given, count, 0)
    if backward:
        _for_c(_sums_for_c, number)[1](given)


# %% [markdown]
# Around that, the `autograd.Function` of [section 13.6](#13.6-One-function-for-autograd) with two differences: large tensors are stored past the caches, and a second derivative is computed in the way of [lesson 7](07_backward.ipynb), on plain operations, with its `layer_norm_backward` and the `mean_and_var` of lesson 2 (yours, if they passed).

# %% tags=["export", "hide-input"]
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
        kernel = forward_past_caches if _goes_past(y) else forward_rows
        on_rows(kernel, rows, x, weight, bias, eps, y, mean, rstd)
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
        dx, dweight, dbias = torch.empty_like(x), x.new_empty(D), x.new_empty(D)
        sums = x.new_empty(2, math.ceil(rows / ROWS_A_BLOCK), D)  # (2, blocks, D)
        kernel = backward_past_caches if _goes_past(dx) else backward_rows
        given = dy.contiguous(), x, mean, rstd, weight, dx, sums[0], sums[1], dweight, dbias
        on_rows(kernel, rows, *given)
        return dx, dweight, dbias, None


# %% tags=["export", "hide-input"]
def fused_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """F.layer_norm for float32 and float64 tensors on the CPU, as compiled loops.

    x: (..., *normalized_shape), contiguous or not. normalized_shape: int or tuple. weight,
        bias: of that shape, or None.
    Returns a contiguous tensor of x's shape. Raises TypeError for other dtypes, ValueError for
    shapes that do not fit and for other devices. May be differentiated more than once, the
    second time on plain operations.
    """
    shape = (
        (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    )
    _refuse(x, shape, weight, bias)
    D, flat = math.prod(shape), len(shape) == 1
    weight = x.new_ones(D) if weight is None else weight if flat else weight.reshape(D)
    bias = x.new_zeros(D) if bias is None else bias if flat else bias.reshape(D)
    if flat and x.dim() == 2 and x.is_contiguous():  # no view for autograd to walk back through
        return FusedLayerNorm.apply(x, weight.contiguous(), bias.contiguous(), float(eps))
    rows = x.reshape(math.prod(x.shape[: x.dim() - len(shape)]), D).contiguous()  # (rows, D)
    given = weight.contiguous(), bias.contiguous(), float(eps)
    return FusedLayerNorm.apply(rows, *given).view(x.shape)


# %% tags=["export", "hide-input"]
def _refuse(x, shape, weight, bias):
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
        if item is None:
            continue
        found = tuple(item.shape), item.dtype, item.device
        if found != (shape, x.dtype, x.device):
            raise ValueError(
                f"{name} must have shape {shape}, dtype and device of x ({x.dtype}, "
                f"{x.device}), but has {found[0]}, {found[1]}, {found[2]}."
            )


# %% tags=["hide-input"]
given = [item.detach().requires_grad_() for item in (x, weight, bias)]  # 4096 x 1024: large
outputs = layers["your loops"](*given), fused_layer_norm(given[0], 1024, *given[1:])
gradients = [torch.autograd.grad(output, given, dy) for output in outputs]
for yours, ours in (outputs, *zip(*gradients, strict=True)):
    assert (ours - yours).norm() < 1e-5 * yours.norm()  # 24 bits, sums in a different order
print("on a large tensor it agrees with your loops")

# %% [markdown]
# How fast is it? The time of `F.layer_norm` over that of `fused_layer_norm`, forward and backward, and in brackets that of `fused_layer_norm` over 2.5 copies:

# %% tags=["hide-input"]
for (cpu, date, loops), rows in bench.items():
    for threads in sorted({int(row["threads"]) for row in rows}):
        gain = ratios(rows, "F.layer_norm", "fused", threads)
        copies = ratios(rows, "fused", "copy", threads)
        print(f"{cpu}, {date}, edition {loops} of the loops, {threads} thread(s)")
        for (n, D), a, b in zip(SHAPES, gain, copies, strict=True):
            print(f"    {n:6} × {D:4}: {a:.2f}   ({b / 2.5:.2f})")
        print(f"    mean         : {mean_ratio(gain):.2f}")

# %% [markdown]
# Edition 1 had neither prefetch nor edition 2's short way around the loops. On an AMD EPYC (Zen 5), measured on 22 November 2026 with one thread, edition 1 was level with PyTorch (0.93 to 1.11), and loops with the seven changes that edition 2 is made of came to 1.17 to 1.41. Smaller than 1 in the brackets means less time than 2.5 copies, which ordinary stores make dearer than they need be.
#
# What do stores past the caches cost whoever reads the result? Here $y$ and $dx$ of more and more rows of 768 are read at once (by a sum). How many times the time of stores past the caches do ordinary stores take, and PyTorch's layer?

# %% tags=["hide-input"]
for (cpu, date, loops), rows in bench.items():
    print(f"{cpu}, {date}, edition {loops}       ordinary stores   F.layer_norm")
    past = ms(rows, "past the caches, read")
    for shape, time_past in past.items():
        ordinary, torchs = (
            ms(rows, what)[shape] / time_past
            for what in ("ordinary stores, read", "F.layer_norm, read")
        )
        print(f"{4e-6 * math.prod(shape):28.1f} MB {ordinary:22.2f} {torchs:14.2f}")

# %% [markdown]
# Where a number is above 1, stores past the caches took less time. `fused_layer_norm` uses them from $2^{21}$ numbers (8 MB) on, a limit chosen on the Xeon with 300 MB; on a processor with other caches a different one may be better. For small tensors PyTorch's layer is ahead, probably because the Python around our loops takes as long for them as for large ones.
#
# The last part of the table has tensors (x, y, dy and dx together) of more than four times the last cache, and the loops alone, written into memory that is at hand:

# %% tags=["hide-input"]
for (cpu, date, loops), rows in bench.items():
    for large in (
        row for row in rows if row["preallocated"] == "yes" and row["what"] == "fused"
    ):
        same = [
            row
            for row in rows
            if row["preallocated"] == "yes" and row["threads"] == large["threads"]
        ]
        for row in same[1:]:
            found = float(large["both_ms"]) / (2.5 * float(row["both_ms"]))
            print(f"{cpu}, {date}, edition {loops}, {large['threads']} thread(s): ", end="")
            print(f"{found:.2f} times 2.5 × {row['what']}")

# %% [markdown]
# ### Three traps of a timing
#
# **The first call** compiles. `fromscratch` keeps the compiled loops on disk, if it can write there, so that they are compiled once for a machine, and again when their source, Numba or the processor changes. The loops of a notebook are compiled in every process anew.
#
# **Fresh memory.** On Linux the C library (glibc) gives tensors of 32 MB and more back to the system when they are freed. Each new one then consists of pages that the system must first find and clear when they are touched: **page faults**. Whoever allocates such a tensor in a timed loop measures that as well. `make bench` keeps it out: it starts itself with `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_` and `MALLOC_TOP_PAD_` raised, for all candidates alike.
#
# **Threads on small tensors.** To hand work to a second thread and to wait for it takes time, however small the work is, and far more if other programs use the second core.

# %% tags=["timed", "hide-input"]
large, out = torch.ones(4096, 4096), torch.ones(4096, 4096)  # 67 MB each
print(f"copy into memory at hand: {median_ms(lambda: out.copy_(large)):.1f} ms", end="; ")
print(f"into fresh memory: {median_ms(lambda: large.clone()):.1f} ms")
few, many = torch.randn(16, 64), torch.randn(4096, 1024)  # (B, D) each
for count in (1, 2):
    torch.set_num_threads(count)
    small = 1e3 * median_ms(lambda: F.layer_norm(few, (64,)))
    print(f"{count} thread(s): 16 rows {small:.1f} µs", end=", ")
    print(f"4096 rows {median_ms(lambda: F.layer_norm(many, (1024,))):.2f} ms")
torch.set_num_threads(1)

# %% [markdown]
# ### The compiler that fuses for you
#
# `torch.compile` reads the seven lines, writes a fused C++ loop and has it compiled. It needs a C++ compiler, and its first call may take a minute: so it runs only when you say so.

# %% tags=["timed", "hide-input"]
import shutil

TRY_COMPILE = False  # set to True
compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
if not TRY_COMPILE or compiler is None:
    print("skipped:", "no C++ compiler" if compiler is None else "TRY_COMPILE is False")
else:
    compiled, given = torch.compile(line_by_line), (x, weight, bias)
    right = F.layer_norm(x, (1024,), weight, bias)
    torch.testing.assert_close(compiled(*given), right, rtol=1e-4, atol=1e-4)
    found = median_ms(lambda: compiled(*given)) / median_ms(lambda: y.copy_(x))
    print(f"seven lines, compiled: {found:.1f} copies")

# %% [markdown]
# ### Several processes
#
# Large batches are split over several processes, each with a part of the rows. What must they tell each other, for LayerNorm and for BatchNorm?
#
# Two workers, each with half of a batch of 32 rows. They meet through a file and talk through *gloo*, PyTorch's library for processes on CPUs. `all_reduce` adds a tensor up over all workers and leaves the sum with each.


# %% tags=["hide-input"]
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


# %% tags=["hide-input"]
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


# %% tags=["hide-input"]
def worker(rank, store):
    """What a worker does: meet the other through the file store, see its half of 32 rows."""
    import datetime

    import torch.distributed as dist

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

# %% tags=["hide-input"]
import inspect
import subprocess
import sys
import tempfile

HEAD = (
    "import sys\nimport torch\nfrom torch.nn import functional as F\ntorch.set_num_threads(1)\n"
)
FOOT = "worker(int(sys.argv[1]), *sys.argv[2:])\n"
ALL_THREE = map(inspect.getsource, (statistics_of_all, normalize_own_rows, worker))
SCRIPT = HEAD + "".join(ALL_THREE) + FOOT


# %% tags=["hide-input"]
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


# %% tags=["hide-input"]
said = run_workers(SCRIPT)
print(said[0])
assert said[0] == said[1] and said[0].count("equal") == 2 and said[0].endswith("refused")

# %% [markdown]
# LayerNorm's forward pass needs nothing, because a row is never split. (The gradients of its gain and bias are added up over the workers, like those of all parameters.) BatchNorm with its own rows only is a different function. To be the same as on one machine, the workers must add up three things: **count, sum, squared deviations** from the common mean. The mean of their variances is not the variance, since it lacks how far their means lie apart ([lesson 6](06_batchnorm.ipynb)).
#
# PyTorch has a layer for this, `nn.SyncBatchNorm`, but on the CPU it refuses.

# %% [markdown]
# ## On your own
#
# 1. RMSNorm needs no mean. Which loops disappear, and how many words does it still move? Write `rms_rows`, and time it: what do you gain?
# 2. Put the line that asks ahead into your own loops (`_fetch_piece(size, address)` is in [Deeper](#Stores-past-the-caches)), and measure it on your processor.
# 3. Keep $y$ instead of $x$ for the backward pass. Is anything won in words?
#
# ## Further reading
#
# - P. Tillet and others, the Triton tutorial [*Layer Normalization*](https://triton-lang.org/main/getting-started/tutorials/05-layer-norm.html): the same kernel on a GPU, with block sums for $d\gamma$ and $d\beta$ that are protected by locks.
# - A. Karpathy, [*llm.c*](https://github.com/karpathy/llm.c/blob/master/dev/cuda/layernorm_forward.cu), `layernorm_forward.cu`: several kernels for one task. Compare their variances: the fourth uses the one-pass formula.
# - S. Williams, A. Waterman & D. Patterson (2009), *Roofline: An Insightful Visual Performance Model for Multicore Architectures*: what a copy shows for LayerNorm, for any program.
# - Numba's documentation, "Performance Tips": what `fastmath` allows, and how to see whether a loop was vectorized.

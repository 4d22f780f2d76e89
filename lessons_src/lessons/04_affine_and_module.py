# %% [markdown]
# # 4 · Gain, bias and the module: a LayerNorm that can replace PyTorch's
#
# **What you'll do:** give LayerNorm its two learned vectors, write the function and the class that can take the place of `torch.nn.LayerNorm`, and prove it with a table. *(about 50 min, and four optional pieces of 2 to 4 min each)*
#
# **You'll be able to**
# - say what gain and bias can do, and what they cannot: bring back what normalizing removed;
# - write LayerNorm over any trailing shape in eight lines, and name what these lines still lack;
# - write a module that exchanges checkpoints with PyTorch in both directions;
# - tell three "LayerNorms" for images apart, by their means and by their parameters;
# - find the faults of a layer that is right on every ordinary row.
#
# **You need:** [lesson 2](02_statistics.ipynb) (mean, variance, axes) and [lesson 3](03_epsilon.ipynb) (eps, half precision).

# %%
import inspect
from numbers import Integral
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import normalize
from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 4.1 One gain and one bias for each feature
#
# So far every row leaves the layer with mean 0 and variance 1. LayerNorm ends with two vectors that the network learns:
#
# $$y = \gamma \odot \hat x + \beta$$
#
# The **gain** $\gamma$ multiplies, the **bias** $\beta$ shifts, and both have one number for each normalized feature. PyTorch calls them `weight` and `bias`.
# Mean and variance belong to a *row*: every row computes its own. Gain and bias belong to a *feature*: all rows share them. They start at 1 and 0, so a new layer does nothing but normalize.
#
# **Predict:** after gain and bias, is the mean of each row still 0?

# %%
x = torch.tensor(
    [[0.0, 1.0, 2.0, 3.0], [10.0, 10.0, 30.0, 30.0], [-1.0, 0.0, 0.0, 5.0]]
)  # (B, D) = (3, 4)
weight = torch.tensor([2.0, 1.0, 0.5, -1.0])  # (D,)
bias = torch.tensor([0.0, 0.0, 3.0, 1.0])  # (D,)
y = normalize(x) * weight + bias  # (B, D)
show("y", y)
show("mean of each row", y.mean(-1))
show("by PyTorch", F.layer_norm(x, (4,), weight, bias))
assert (
    y - F.layer_norm(x, (4,), weight, bias)
).abs().max() < 1e-6  # numbers of order 1 in float32

# %% [markdown]
# No. "Mean 0 and variance 1" is said of $\hat x$, before gain and bias, and even there the variance is $v/(v+\epsilon)$ (lesson 3).
#
# ### A public notebook, continued (optional, 4 min)
#
# "Lecture 20: Layer Normalization" defines such a layer in its cell 564, with the names `scale` and `shift`, and applies it in cell 565 to the raw batch of lesson 2, section 2.6.
# Here are all 28 numbers that it prints, and ours. They were rounded to four decimals, so they agree within 5e-5; we allow 6e-5.

# %% tags=["optional"]
cell_565 = {
    "batch": [
        [0.2961, 0.5166, 0.2517, 0.6886, 0.0740],
        [0.8665, 0.1366, 0.1025, 0.1841, 0.7264],
    ],
    "mean": [[0.3654], [0.4032]],
    "var": [[0.0460], [0.1057]],
    "normalized": [
        [-0.3229, 0.7049, -0.5302, 1.5069, -1.3587],
        [1.4247, -0.8199, -0.9248, -0.6739, 0.9940],
    ],
    "mean after": [[0.0], [0.0]],
    "var after": [[0.9998], [0.9999]],
}

# %% tags=["optional"]
g = torch.Generator().manual_seed(
    123
)  # its own generator: the numbers stay, whatever other cells draw
batch = torch.rand(2, 5, generator=g)  # (B, D)
scale, shift = torch.ones(5), torch.zeros(5)  # (D,)
normalized = normalize(batch) * scale + shift  # (B, D)
ours = {
    "batch": batch,
    "mean": batch.mean(-1, keepdim=True),
    "var": batch.var(-1, correction=0, keepdim=True),
}
ours |= {"normalized": normalized, "mean after": normalized.mean(-1, keepdim=True)}
ours |= {"var after": normalized.var(-1, correction=0, keepdim=True)}
for name, printed in cell_565.items():
    torch.testing.assert_close(ours[name], torch.tensor(printed), atol=6e-5, rtol=0)
assert (
    ours["var after"] - ours["var"] / (ours["var"] + 1e-5)
).abs().max() < 1e-6  # v / (v + eps), float32 rounding
print("all 28 numbers of cell 565 agree")

# %% [markdown]
# The variances 0.9998 and 0.9999 are no rounding: they are $v/(v+\epsilon)$ with $v = 0.0460$ and $0.1057$.
# The layer divides by $D$ now, where the cell before it divided by $D-1$ (lesson 2), and it has an $\epsilon$.
#
# **Predict:** that class takes its statistics over the last axis. What does it do when it is told `(3, 5)` instead of `5`?

# %% tags=["optional"]
g = torch.Generator().manual_seed(41)
x = torch.randn(2, 3, 5, generator=g)  # (B, T, D)
gains = torch.ones(3, 5)  # what `scale` would be for (3, 5)
last_axis = normalize(x) * gains  # (B, T, D) no error: the gains fit
both_axes = F.layer_norm(x, (3, 5))  # (B, T, D)
assert (last_axis - both_axes).abs().max() > 0.1  # 6 means against 2
print("no error, and not LayerNorm((3, 5))")

# %% [markdown]
# Gains of shape (3, 5), statistics of the last axis alone, no error. Section 4.3 gets that right.
#
# ## 4.2 What gain and bias cannot do
#
# The BatchNorm paper (2015) adds gain and bias so that the layer *can* become the identity. The sentence is often repeated for LayerNorm.
#
# **Predict:** take the row $x$ and the row $2x + 3$. Is there a gain and a bias for which LayerNorm gives both of them back?

# %%
x = torch.tensor([[0.0, 1.0, 2.0, 4.0]], dtype=torch.float64)  # (1, D)
rows = torch.cat([x, 2 * x + 3])  # (2, D)
x_hat = F.layer_norm(rows, (4,), eps=0.0)  # (2, D)
show("x_hat", x_hat)
assert (x_hat[0] - x_hat[1]).abs().max() < 1e-12  # equal but for float64 rounding

# %% [markdown]
# Both rows become the same $\hat x$ (exactly so at $\epsilon = 0$). Whatever comes behind, a gain, a bias or a whole network, sees one row and cannot answer with two.
# A row's level and scale are gone. BatchNorm keeps them: its mean and variance have one number **per feature**, like the gain and the bias, which can therefore undo them.

# %%
g = torch.Generator().manual_seed(42)
batch = 5 + 3 * torch.randn(6, 4, dtype=torch.float64, generator=g)  # (B, D)
gain = (batch.var(0, correction=0) + 1e-5).sqrt()  # (D,)
undone = F.batch_norm(batch, None, None, gain, batch.mean(0), training=True, eps=1e-5)  # (B, D)
assert (undone - batch).abs().max() < 1e-12  # the identity, but for float64 rounding
print("BatchNorm with this gain and bias gives its batch back")

# %% [markdown]
# (It does so for the batch whose statistics were put in, as the paper says it.)
#
# ### In front of a linear layer they add nothing new
#
# A linear layer $Wz + b$ behind LayerNorm sees $z = \gamma \odot \hat x + \beta$. Write that out:
#
# $$W(\gamma \odot \hat x + \beta) + b = \underbrace{W\,\mathrm{diag}(\gamma)}_{W'}\,\hat x + \underbrace{W\beta + b}_{b'}$$
#
# A LayerNorm *without* gain and bias in front of $W', b'$ computes the same.

# %%
g = torch.Generator().manual_seed(43)
weight, bias = torch.randn(2, 5, dtype=torch.float64, generator=g)  # (D,) each
W = torch.randn(3, 5, dtype=torch.float64, generator=g)  # (out, D)
b = torch.randn(3, dtype=torch.float64, generator=g)  # (out,)
x = torch.randn(4, 5, dtype=torch.float64, generator=g)  # (B, D)
with_affine = F.linear(F.layer_norm(x, (5,), weight, bias), W, b)  # (B, out)
folded = F.linear(F.layer_norm(x, (5,)), W * weight, b + W @ bias)  # (B, out)
assert (with_affine - folded).abs().max() < 1e-12  # the same numbers but for float64 rounding
print("gain and bias have moved into the linear layer")

# %% [markdown]
# The condition: a **linear layer with a bias comes directly behind**. There, gain and bias widen nothing; they may still change how training goes.
# Before a ReLU, or where the result is added to another branch (a skip, or residual connection), they cannot be moved out of the way, and are capacity of their own.
# And nothing folds *backwards*, into the layer before: $1/\sigma$ is another number for every row. (BatchNorm in `eval()` has fixed numbers, and folds: [section 6.7](06_batchnorm.ipynb).)
#
# ## 4.3 Eight lines, for any trailing shape
#
# `normalized_shape` is the shape of what is normalized together: the **last** `len(normalized_shape)` axes.
# It holds *sizes*, which must agree with `x`, and not axis numbers as `softmax(dim=-1)` takes them. Gain and bias have this same shape: one number for each normalized element.
#
# | x | normalized_shape | axes | gains |
# |---|---|---|---|
# | (B, D) | (D,) | -1 | D |
# | (B, T, C) | (C,) | -1 | C |
# | (B, C, H, W) | (C, H, W) | -3, -2, -1 | C · H · W |

# %%
try:
    nn.LayerNorm(-1)  # meant: the last axis
except RuntimeError as error:
    print(error)

# %% [markdown]
# Write it first without any extras: a tuple comes in, a gain and a bias come in, all of one floating-point type.


# %% tags=["exercise"] id="ex-4-1"
# Exercise 4.1 · ●●○○○ · 6 min
def short_layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    """LayerNorm over the last len(normalized_shape) axes.

    x: (..., *normalized_shape), left as it is. normalized_shape: a tuple of sizes.
    weight, bias: tensors of that shape and of x's dtype, float32 or float64.
    eps: added to the biased variance, under the root; it may be 0.
    Returns a tensor of x's shape and dtype,
    (x - mean) / sqrt(biased variance + eps) * weight + bias, whose gradient flows back to all
    three tensors. Built from sums and means, without PyTorch's own norms.
    """
    ### BEGIN SOLUTION
    axes = tuple(range(-len(normalized_shape), 0))  # (-1,), (-2, -1), ...
    mean = x.mean(axes, keepdim=True)  # (..., 1, 1)
    c = x - mean  # (..., *normalized_shape)
    var = (c * c).mean(axes, keepdim=True)  # (..., 1, 1)
    x_hat = c / torch.sqrt(var + eps)  # (..., *normalized_shape)
    y = x_hat * weight + bias
    return y
    ### END SOLUTION


# %% tags=["check"]
check.short_layer_norm(short_layer_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Which axes? `range(-2, 0)` is -2, -1. `x.mean(axes, keepdim=True)` takes several axes at once.
# With `c = x - mean`, the biased variance is the mean of `c * c` over the same axes.
#
# </details>
#
# `x.var(axes, correction=0, keepdim=True)` is just as right as `(c * c).mean(...)`. The whole forward pass took from 2 to 8 times as long with it where this course was made (torch 2.13, one CPU thread, rows of 64 to 4,096 numbers).
#
# ## 4.4 What the eight lines lack
#
# They are LayerNorm. To stand in for PyTorch's, they lack five things.
#
# | lacking | what happens |
# |---|---|
# | `4` and `[3, 4]` for `normalized_shape` | an int has no `len`; a list works until it is compared with a shape, for `[4] == torch.Size([4])` is `False` |
# | `weight=None`, `bias=None` | `None` cannot be multiplied |
# | a look at the shapes | sizes that do not fit may be normalized silently |
# | half precision | the squares overflow (lesson 3) |
# | accuracy | see below |
#
# **Predict:** a row of float16 with entries of ±600, computed in float16. The largest float16 is 65,504.

# %%
half = torch.tensor([[600.0, -300.0, 0.0, -600.0, 300.0]], dtype=torch.float16)  # (1, D)
c = half - half.mean(-1, keepdim=True)  # (1, D)
show("largest square", (c * c).max())
show("in float16", c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5))
show("F.layer_norm", F.layer_norm(half, (5,)))

# %% [markdown]
# Infinite squares, and a row of zeros. PyTorch computes in float32 inside and rounds once, at the end. So shall we.
#
# ### The mean is a rounded number
#
# float32 keeps seven digits. The mean of a row around 10,000 is rounded to steps of about 0.001, and a mean that is 0.0003 off makes *every* centered value 0.0003 off.
# The mend is one more line: **center the centered row once more.** Where `x` is within a factor of two of the mean, `x - mean` is computed without any rounding. So what the mean of `c` is away from 0 is what the first mean was off by.


# %%
def once(x, eps=1e-5):
    """The eight lines, over the last axis."""
    c = x - x.mean(-1, keepdim=True)  # (B, D)
    return c / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)


def twice(x, eps=1e-5):
    """The same, with what rounding left of the mean subtracted as well."""
    c = x - x.mean(-1, keepdim=True)  # (B, D)
    c = c - c.mean(-1, keepdim=True)  # (B, D)
    return c / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)


# %%
def distance(norm, offset, seed):
    """Largest distance from the same rows in float64: 64 float32 rows of 64, spread 1."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 64, generator=g) + offset  # (B, D)
    return (norm(x) - F.layer_norm(x.double(), (64,))).abs().max().item()


offsets = [0, 1, 10, 100, 1000, 10000]
norms = {
    "centered once": once,
    "F.layer_norm": lambda x: F.layer_norm(x, (64,)),
    "centered twice": twice,
}
errors = {
    name: [[distance(norm, o, seed) for o in offsets] for seed in range(8)]
    for name, norm in norms.items()
}
at_10_000 = {name: torch.tensor(runs)[:, -1] for name, runs in errors.items()}  # (8,) each
assert (
    at_10_000["centered twice"].max() < 3e-6
)  # a few units of float32; 2e-7 to 4e-7 in 64 seeds
assert (
    min(at_10_000["F.layer_norm"].min(), at_10_000["centered once"].min()) > 2e-4
)  # 1e-3 to 2e-3

# %%
plot.lines(
    [str(o) for o in offsets],
    errors,
    ylog=True,
    colors={"F.layer_norm": "LayerNorm", "centered once": "none", "centered twice": "#5B2A86"},
    title="Centering twice keeps the error where it is without an offset",
    x="offset added to rows of spread 1",
    y="largest error",
    caption=(
        "Distance from float64 on the same float32 rows, 64 × 64 numbers, 8 seeds. At offset "
        "10,000 PyTorch and the eight lines are one to two thousandths off; the second "
        "centering keeps the error below a millionth."
    ),
    alt=(
        "Three curves over the offset on a logarithmic axis. Centering once and F.layer_norm "
        "rise together from 4e-7 to 2e-3, from offset 10 on about ten times for each tenfold "
        "offset. Centering twice stays between 3e-7 and 4e-7."
    ),
)

# %% [markdown]
# One subtraction buys a factor of more than a thousand at offset 10,000. What it does *not* buy: the rows themselves are stored to 0.001 there. Digits that were lost before the layer stay lost.
# A constant row comes out as exactly 0 now, too. Centered once, it may not: the rounded mean can miss the common value, and $\epsilon$ is small.

# %%
for D in (5, 7, 8, 100):
    assert (
        twice(torch.full((2, D), 100.1)) == 0
    ).all()  # what is left of the mean is a few units, and their mean is exact
print("constant rows give 0")

# %% [markdown]
# ### The arguments, given
#
# Two helpers do what is dull and must be right: turn `normalized_shape` into a tuple, and refuse what does not fit.
# They are long and hold no mathematics. Run them, skim them, and look at what they say in the cell behind them.
# (`Integral` stands for all kinds of whole numbers, Python's and NumPy's.) Each error says which value came, what was expected, and what to write instead. The types, and most of the beginnings, are PyTorch's own, so code that catches its errors catches ours.


# %% tags=["export"]
def _sizes(normalized_shape):
    """Return normalized_shape as a tuple of whole numbers: (4,) for 4, (3, 4) for [3, 4]."""
    try:
        sizes = (
            (normalized_shape,)
            if isinstance(normalized_shape, Integral)
            else tuple(normalized_shape)
        )
        whole = all(isinstance(size, Integral) for size in sizes)
    except TypeError:
        whole = False
    if not whole:
        raise TypeError(
            f"normalized_shape is {normalized_shape!r}, expected a whole number or several: "
            "4, (3, 4) or x.shape[1:]."
        )
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
            "one element, but got normalized_shape = []. To normalize the last axis of x, "
            "write x.shape[-1]."
        )
    if min(sizes) < 0:
        raise RuntimeError(
            f"normalized_shape = {list(sizes)} holds a negative size. It lists the sizes of "
            "the last axes, not their numbers: for the last axis of x, write x.shape[-1]."
        )
    return tuple(int(size) for size in sizes)


# %% tags=["export"]
def _check_inputs(x, sizes, weight, bias):
    """Raise PyTorch's errors: wrong kind of argument, wrong shape, mixed types, no float."""
    for name, tensor in (("x", x), ("weight", weight), ("bias", bias)):
        if not isinstance(tensor, torch.Tensor) and (name == "x" or tensor is not None):
            raise TypeError(
                f"{name} is of type {type(tensor).__name__}, expected a tensor. "
                f"Write torch.tensor({name})."
            )
    if tuple(x.shape[-len(sizes) :]) != sizes:
        wanted = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"Given normalized_shape=[{wanted}], expected input with shape [*, {wanted}], but "
            f"got input of size {list(x.shape)}. The last axes of x are normalized: write "
            "their sizes, or move the axes you mean to the end with x.movedim."
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != sizes:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of "
                f"shape {list(tensor.shape)} and normalized_shape = {list(sizes)}. Give one "
                "number to each normalized element."
            )
    types = {tensor.dtype for tensor in (weight, bias) if tensor is not None}
    half = x.dtype in (torch.float16, torch.bfloat16)
    if types and types != {x.dtype} and not (half and types == {torch.float32}):
        found = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise RuntimeError(
            f"mixed dtype: x is {str(x.dtype).removeprefix('torch.')}, weight and bias are "
            f"{found}. Expected one type for all, or float32 parameters with float16 or "
            "bfloat16 x. Convert x with x.to(weight.dtype), or the layer."
        )
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise NotImplementedError(
            f"layer_norm is not implemented for {x.dtype}. Convert x first, with x.float()."
        )


# %% [markdown]
# What they say, for three calls that people make:

# %%
images = torch.zeros(2, 3, 4, 5)  # (B, C, H, W)
for x, size, gain in [(images, 3, None), (images, -1, None), (images, 5, torch.ones(1))]:
    try:
        _check_inputs(x, _sizes(size), gain, None)
    except RuntimeError as refused:
        print(f"normalized_shape={size}: {refused}")


# %% tags=["exercise", "export"] id="ex-4-2"
# Exercise 4.2 · ●●●○○ · 8 min
# Centered once, as PyTorch does it, is accepted too. F.layer_norm and its like are not.
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axes of x, as F.layer_norm does it, in plain tensor operations.

    x: (..., *normalized_shape), float16, bfloat16, float32 or float64, in any memory order; it
    may be empty, and is left as it is.
    normalized_shape: an int, a list, a tuple or a torch.Size.
    weight, bias: tensors of shape normalized_shape, or None for each that is not wanted.
    eps: added to the biased variance, under the root; it may be 0.
    Returns a contiguous tensor of x's shape and dtype. Half precision is computed in float32
    and rounded once, at the end; float64 stays float64. Rows are centered twice, which keeps
    float32 exact to a few units (measured to offset 1e7).
    Can be differentiated twice and mapped by torch.func.vmap.
    Raises TypeError, RuntimeError or NotImplementedError where PyTorch does.
    """
    sizes = _sizes(normalized_shape)
    _check_inputs(x, sizes, weight, bias)
    axes = tuple(range(-len(sizes), 0))
    x = x.contiguous()  # a transposed x gives a result in plain order, as PyTorch's
    ### BEGIN SOLUTION
    c = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
    c = c - c.mean(axes, keepdim=True)
    c = c - c.mean(axes, keepdim=True)  # what rounding left of the mean
    var = (c * c).mean(axes, keepdim=True)
    y = c / torch.sqrt(var + eps)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)
    ### END SOLUTION


# %% tags=["check"]
check.layer_norm(layer_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The eight lines, over `axes`, with four changes:
# start from `x.to(torch.promote_types(x.dtype, torch.float32))`, which makes half precision float32 and leaves float64 alone;
# center twice; multiply and add only what is not `None`, each on its own; end with `.to(x.dtype)`.
#
# </details>
#
# Plain tensor operations have two properties that a hand-written kernel must work for. They can be differentiated as often as you like; `gradgradcheck` compares the second derivative with differences of the first.
# And `torch.func.vmap` can map them: it takes a function written for one sample and runs it along an axis of many, without a loop.

# %%
g = torch.Generator().manual_seed(44)
x = torch.randn(2, 3, 4, dtype=torch.float64, generator=g, requires_grad=True)  # (B, C, D)
weight, bias = torch.randn(2, 4, dtype=torch.float64, generator=g)  # (D,) each
assert torch.autograd.gradgradcheck(
    lambda x: layer_norm(x, 4, weight, bias), x
)  # second derivative, numerically
mapped = torch.func.vmap(lambda rows: layer_norm(rows, 4, weight, bias), in_dims=1, out_dims=1)(
    x
)  # (B, C, D)
assert (mapped - F.layer_norm(x, (4,), weight, bias)).abs().max() < 1e-12
print("second derivative and vmap: right")

# %% tags=["nbval-ignore-output"]
for name, norm in {
    "F.layer_norm": lambda x: F.layer_norm(x, (64,)),
    "yours": lambda x: layer_norm(x, 64),
}.items():
    print(
        f"{name:13} offset 0: {distance(norm, 0, 0):.0e}   "
        f"offset 10,000: {distance(norm, 10_000, 0):.0e}"
    )

# %% [markdown]
# If yours is one or two thousandths off at offset 10,000, like PyTorch's, it is right as well; the second centering makes it better.
#
# ## 4.5 The module
#
# The function is the mathematics. The class is the bookkeeping: it owns the parameters and decides what a checkpoint, an optimizer and `.to()` get to see.
# What is saved of a model, its *checkpoint*, is its `state_dict()`: a dictionary from names to tensors. `load_state_dict` reads it back, and every name and shape must fit.
# Three rules make a layer exchangeable with PyTorch's.
#
# 1. Gain and bias are `nn.Parameter`s, **called `weight` and `bias`**.
# 2. What is not wanted is registered as `None`: `self.register_parameter("bias", None)`. Nothing is counted, trained or saved, and the place is kept for a Parameter.
# 3. You define `forward`, and you *call* the layer.

# %%
bare = nn.LayerNorm(4, elementwise_affine=False)
print(
    "parameters:",
    list(bare.parameters()),
    "  state_dict:",
    dict(bare.state_dict()),
    "  weight:",
    bare.weight,
)
try:
    bare.weight = torch.ones(4)  # a plain tensor, which no optimizer would see
except TypeError as refused:
    print(refused)

# %% [markdown]
# With a plain `self.weight = None` that last assignment would have been accepted silently.
#
# The signature is PyTorch's, and the order matters, for people pass arguments by position.
#
# **Predict:** what becomes of a gain and a bias that are handed to the constructor?

# %%
layer = nn.LayerNorm(
    3, 1e-5, torch.tensor(2.0), torch.tensor(0.5)
)  # meant: a gain of 2, a bias of 0.5
show("weight", layer.weight)
show("bias", layer.bias)

# %% [markdown]
# They were taken for the flags `elementwise_affine` and `bias`, both true. No argument sets initial values; change them afterwards, with `nn.init`.
# `device` and `dtype` say where and as what the parameters are made. (The device `"meta"` has no memory: tensors there have shapes and no numbers, which is handy for tests.)
# `elementwise_affine=False` means neither gain nor bias, whatever `bias` says.
#
# Most of the class is given. Two places are yours: register one parameter or `None` in the loop, and write `forward`.


# %% tags=["exercise", "export"] id="ex-4-3"
# Exercise 4.3 · ●●●○○ · 7 min
class LayerNorm(nn.Module):
    """Layer Normalization with a learned gain and bias: takes the place of torch.nn.LayerNorm.

    normalized_shape: sizes of the last axes that are normalized together; an int, a list, a
    tuple or a torch.Size. eps: added to the biased variance.
    elementwise_affine=False: neither gain nor bias. bias=False: a gain alone.
    weight, bias: Parameters of shape normalized_shape that start at 1 and 0, or None,
    registered.
    device, dtype: where and as what they are made; .to() moves and converts them.
    """

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (
            ("weight", elementwise_affine),
            ("bias", elementwise_affine and bias),
        ):
            ### BEGIN SOLUTION
            parameter = None
            if wanted:
                parameter = nn.Parameter(
                    torch.empty(self.normalized_shape, device=device, dtype=dtype)
                )
            self.register_parameter(name, parameter)
            ### END SOLUTION
        self.reset_parameters()

    def reset_parameters(self):
        """Set the gain to 1 and the bias to 0, where there are any."""
        for name, parameter in self.named_parameters():
            nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)

    def forward(self, x):
        """x: (..., *normalized_shape). Returns a tensor of x's shape and dtype."""
        ### BEGIN SOLUTION
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        ### END SOLUTION

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


# %% tags=["check"]
check.layer_norm_module(LayerNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Inside the loop: `self.register_parameter(name, parameter)`, where `parameter` is `None` or an `nn.Parameter` around
# `torch.empty(self.normalized_shape, device=device, dtype=dtype)`. The values come from `reset_parameters`.
# `forward` is one line: hand everything that the layer owns to `layer_norm`.
#
# </details>
#
# A checkpoint goes from PyTorch to us and back, and the two print the same line.

# %%
g = torch.Generator().manual_seed(52)
theirs, own = nn.LayerNorm((3, 4)), LayerNorm((3, 4))
(
    nn.init.normal_(theirs.weight, generator=g),
    nn.init.normal_(theirs.bias, generator=g),
)  # as if trained
own.load_state_dict(theirs.state_dict())  # PyTorch to us; every name and shape must fit
theirs.load_state_dict(own.state_dict())  # and back
x = torch.randn(2, 3, 4, generator=g)  # (B, *normalized_shape)
assert (own(x) - theirs(x)).abs().max() < 1e-5  # float32, numbers of order 1 and their gains
print(own)
print(theirs)

# %% [markdown]
# The options, one by one, beside PyTorch's:

# %%
options = {
    "(3, 4)": {},
    "bias=False": {"bias": False},
    "elementwise_affine=False": {"elementwise_affine": False},
    "dtype=float64": {"dtype": torch.float64},
    "device=meta": {"device": "meta"},
}
for name, option in options.items():
    mine, torchs = LayerNorm((3, 4), **option), nn.LayerNorm((3, 4), **option)
    described = [
        [(key, p.shape, p.dtype, p.device) for key, p in layer.named_parameters()]
        for layer in (mine, torchs)
    ]
    assert described[0] == described[1]
    print(
        f"{name:25}",
        ", ".join(
            f"{key} {tuple(shape)} {dtype} {where}" for key, shape, dtype, where in described[0]
        ),
    )

# %% [markdown]
# ### Call the layer, not its forward
#
# A *hook* is a function that you hand to a layer, and that PyTorch runs each time the layer is called.
# **Predict:** how often does it run when you write `layer(x)`, and how often when you write `layer.forward(x)`?

# %%
layer, calls = nn.LayerNorm(4), []
layer.register_forward_hook(lambda module, inputs, output: calls.append(1))
layer(torch.zeros(2, 4))
print("after layer(x):        ", len(calls))
layer.forward(torch.zeros(2, 4))
print("after layer.forward(x):", len(calls))

# %% [markdown]
# Hooks, and tools that build on them such as profilers and feature extractors, live in `nn.Module.__call__`. Cell 565 of the notebook in section 4.1 calls `.forward` and goes past them. A class that overrides `__call__` instead of defining `forward`, seen in a public report, loses them for good.
#
# ### Nothing to switch, and what bias=False is not
#
# LayerNorm keeps no statistics, so `train()` and `eval()` give the same numbers. BatchNorm's differ ([lesson 6](06_batchnorm.ipynb)).
# `bias=False` drops $\beta$. It does not drop the *mean*, as RMSNorm does ([lesson 8](08_geometry.ipynb)).

# %%
g = torch.Generator().manual_seed(45)
x = 2 + torch.randn(8, 5, generator=g)  # (B, D) mean 2
layer, batchnorm = nn.LayerNorm(5), nn.BatchNorm1d(5)
assert torch.equal(layer.train()(x), layer.eval()(x)) and not list(layer.buffers())
assert (
    batchnorm.train()(x) - batchnorm.eval()(x)
).abs().max() > 0.5  # its running statistics have seen one batch
no_bias, rms = nn.LayerNorm(5, bias=False), nn.RMSNorm(5, eps=1e-5)
assert (no_bias(x) - rms(x)).abs().max() > 0.5  # two layers
centered = x - x.mean(-1, keepdim=True)  # (B, D)
assert (
    no_bias(x) - rms(centered)
).abs().max() < 1e-5  # LayerNorm is RMSNorm of the centered row; float32 rounding
print("LayerNorm: the same in train() and eval(); bias=False is not RMSNorm")

# %% [markdown]
# ### Which types may meet (optional, 2 min)
#
# Half-precision input may meet float32 parameters: the statistics are computed in float32 anyway, and the output is half again. Any other mixture is refused, by us as by PyTorch on a CPU. (GPUs and autocast have rules of their own.)

# %% tags=["optional"]
rows = torch.zeros(2, 4)  # (B, D) float32
print("bfloat16 x, float32 layer:", nn.LayerNorm(4)(rows.bfloat16()).dtype)
for x, gain in [(rows.double(), torch.ones(4)), (rows, torch.ones(4).bfloat16())]:
    try:
        _check_inputs(x, (4,), gain, None)
    except RuntimeError as refused:
        print(refused)

# %% [markdown]
# ### Weight decay and the gain (optional, 2 min)
#
# AdamW shrinks every parameter it gets by the factor $1 - \mathrm{lr} \cdot \mathrm{decay}$ at each step, by default too (0.01). For a gain, "small" means 0 and not 1.
# **Predict:** a gain of 1 whose gradient is 0, after 1,000 steps at learning rate 0.001 and decay 0.1.

# %% tags=["optional"]
layer = nn.LayerNorm(4)
optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.1)
for parameter in layer.parameters():
    parameter.grad = torch.zeros(4)
for _ in range(1000):
    optimizer.step()
show("gain", layer.weight)  # (1 - 0.0001) ** 1000
assert (layer.weight - (1 - 1e-4) ** 1000).abs().max() < 1e-4  # a thousand float32 products

# %% [markdown]
# Many recipes therefore leave gain and bias out of the decay. That is a convention, not a theorem.
#
# ## 4.6 Images: three layers, one name
#
# An image batch is (B, C, H, W), and three different layers are called "LayerNorm" on it.
#
# | | normalizes | in PyTorch | used in |
# |---|---|---|---|
# | **LayerNorm([C, H, W])** | all numbers of an image together | `nn.LayerNorm([C, H, W])` | the PyTorch manual's image example |
# | **LayerNorm per pixel** | the C numbers of one pixel | `nn.LayerNorm(C)` with C moved to the end and back | ConvNeXt |
# | **GroupNorm(1, C)** | all numbers of an image together | `nn.GroupNorm(1, C)` | PoolFormer |
#
# Before you run anything: how many means does each compute, and how many parameters does it have?

# %% tags=["exercise"] id="ex-4-4"
# Exercise 4.4 · ●●●○○ · 5 min
# For x of shape (B, C, H, W) = (2, 3, 4, 5): image_counts = {"...": a number, ...} with keys
#   "LayerNorm([C, H, W]): means", "LayerNorm([C, H, W]): parameters",
#   "LayerNorm per pixel: means", "LayerNorm per pixel: parameters",
#   "GroupNorm(1, C): means", "GroupNorm(1, C): parameters".
# Means: of the whole batch. Parameters: all numbers of weight and bias together.
### BEGIN SOLUTION
image_counts = {
    "LayerNorm([C, H, W]): means": 2,
    "LayerNorm([C, H, W]): parameters": 120,
    "LayerNorm per pixel: means": 40,
    "LayerNorm per pixel: parameters": 6,
    "GroupNorm(1, C): means": 2,
    "GroupNorm(1, C): parameters": 6,
}
### END SOLUTION

# %% tags=["check"]
check.image_counts(image_counts)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Means: cross out the normalized axes and multiply what is left. Parameters: LayerNorm's have the shape of `normalized_shape`, GroupNorm's have one number for each channel.
#
# </details>

# %%
shape = dict(B=2, C=3, H=4, W=5)
plot.cubes(
    {
        "LayerNorm([C, H, W])": dict(shape=shape, over=("C", "H", "W")),
        "LayerNorm per pixel": dict(shape=shape, over=("C",)),
        "GroupNorm(1, C)": dict(shape=shape, over=("C", "H", "W")),
    },
    title="One pair shares its statistics, another the shape of its parameters",
    caption=(
        "The dark blue cells share one mean and one variance. Parameters: 120, 6 and 6. "
        "LayerNorm([C, H, W]) has the statistics of GroupNorm(1, C), and a gain for each pixel "
        "of each channel."
    ),
    alt=(
        "Three batches of two images with three channels. In the first and the third a whole "
        "image is one group, in the second the three channels of one pixel."
    ),
)

# %%
g = torch.Generator().manual_seed(46)
x = torch.randn(2, 3, 4, 5, generator=g) * torch.tensor([1.0, 3.0, 9.0]).view(
    3, 1, 1
)  # (B, C, H, W) unlike channels
gain, shift = torch.randn(2, 3, generator=g)  # (C,) each
whole = F.layer_norm(
    x, (3, 4, 5), gain.view(3, 1, 1).expand(3, 4, 5), shift.view(3, 1, 1).expand(3, 4, 5)
)
pixel = F.layer_norm(x.movedim(1, -1), (3,), gain, shift).movedim(-1, 1)  # (B, C, H, W)
group = F.group_norm(x, 1, gain, shift)  # (B, C, H, W)
assert (whole - group).abs().max() < 1e-5  # one formula, float32 rounding
assert (whole - pixel).abs().max() > 0.5  # another layer

# %% [markdown]
# GroupNorm(1, C) is LayerNorm([C, H, W]) whose gain is the same at every pixel. The way back exists only for such gains: 120 numbers do not fit into 6.
# The per-pixel layer is a different function altogether.
#
# The many gains have a price: they tie the layer to one image size.

# %%
larger = torch.zeros(2, 3, 6, 5)  # (B, C, H, W) two rows of pixels more
try:
    nn.LayerNorm([3, 4, 5])(larger)
except RuntimeError as refused:
    print(refused)
per_pixel = nn.LayerNorm(3)(larger.movedim(1, -1)).movedim(-1, 1)  # (B, C, H, W)
print(
    "per pixel:",
    tuple(per_pixel.shape),
    "  GroupNorm(1, C):",
    tuple(nn.GroupNorm(1, 3)(larger).shape),
)

# %% [markdown]
# And one trap. `nn.LayerNorm(C)` on a channels-first image takes the **last** axis, the width. If the width differs from C it raises; if it happens to equal C, nothing is said.

# %%
g = torch.Generator().manual_seed(47)
x = torch.randn(2, 3, 4, 3, generator=g)  # (B, C, H, W) with W = C
over_width = nn.LayerNorm(3)(x)  # (B, C, H, W) no error
per_pixel = nn.LayerNorm(3)(x.movedim(1, -1)).movedim(-1, 1)  # (B, C, H, W)
assert (over_width - per_pixel).abs().max() > 0.5
print("no error, and the width was normalized")

# %% [markdown]
# The same care is due where the PyTorch manual calls `GroupNorm(1, C)` "equivalent with LayerNorm". If `LayerNorm(C)` is meant, the layer of a Transformer, that holds on (N, C) only. On a sequence GroupNorm pools over all steps as well.

# %%
g = torch.Generator().manual_seed(53)
vectors = torch.randn(2, 6, generator=g)  # (N, C)
sequence = torch.randn(2, 6, 5, generator=g)  # (N, C, L)
assert (
    F.group_norm(vectors, 1) - F.layer_norm(vectors, (6,))
).abs().max() < 1e-5  # one formula, float32 rounding
per_step = F.layer_norm(sequence.movedim(1, -1), (6,)).movedim(-1, 1)  # (N, C, L) LayerNorm(C)
assert (F.group_norm(sequence, 1) - per_step).abs().max() > 0.1
print("GroupNorm(1, C) is LayerNorm(C) on vectors, and not on sequences")

# %% [markdown]
# ## 4.7 PyTorch's own, on your disk (optional, 4 min)
#
# A remark that circulates says PyTorch's LayerNorm is buried under thirty layers of generated code. Have a look: `F.layer_norm` calls `torch.layer_norm`, which calls one operator, `native_layer_norm`. It returns the output and, for the backward pass, mean and 1/deviation of every row.

# %% tags=["optional"]
g = torch.Generator().manual_seed(48)
x = torch.randn(2, 3, 4, 5, generator=g)  # (B, C, H, W)
y, mean, rstd = torch.native_layer_norm(
    x, (4, 5), None, None, 1e-5
)  # x's shape, and twice (B, C, 1, 1)
assert torch.equal(y, F.layer_norm(x, (4, 5)))  # the same operator
print("y:", tuple(y.shape), "  mean:", tuple(mean.shape), "  rstd:", tuple(rstd.shape))

# %% [markdown]
# The operator's fast code is C++. The same arithmetic in Python comes with every installation, as a reference: `torch._refs`. Here are its last lines, as they stand on *your* disk (other versions may differ).

# %% tags=["optional", "nbval-ignore-output"]
reference = inspect.getsource(torch._refs._normalize).splitlines()
print(*reference[-6:], sep="\n")

# %% [markdown]
# Side by side:
#
# | ours | torch._refs |
# |---|---|
# | `x.to(torch.promote_types(x.dtype, torch.float32))` | `_maybe_convert_to_dtype(a, computation_dtype)` |
# | `c = c - c.mean(...)`, twice | `a_acc - mean`, once |
# | `(c * c).mean(...)` | `torch.var_mean(..., unbiased=False)` |
# | `c / torch.sqrt(var + eps)` | `(a_acc - mean) * torch.rsqrt(biased_var + eps)` |
#
# The checks whose messages we borrowed are in a C++ header, on your disk as well.

# %% tags=["optional", "nbval-ignore-output"]
header = Path(torch.__file__).parent / "include/ATen/native/layer_norm.h"
lines = header.read_text().splitlines()
start = next(i for i, line in enumerate(lines) if "!weight.defined() ||" in line)
print(*lines[start - 1 : start + 6], sep="\n")

# %% [markdown]
# `torch/_decomp/decompositions.py` holds the backward pass, `native_layer_norm_backward`. [Lesson 7](07_backward.ipynb) derives it.
#
# ## 4.8 The proof: own class against nn.LayerNorm
#
# One table over shapes, types and options. Both layers get the same random parameters and the same random gradient from above (the *upstream* gradient), `dy`. The judge is neither of them but `nn.LayerNorm` in float64.
# Three helpers come first: compute everything that a layer gives, measure a distance, and do both for two layers.


# %%
def results(layer, x, dy):
    """[y, dx, and the gradients of the layer's parameters], in float64."""
    x = x.clone().requires_grad_()
    y = layer(x)
    return [
        t.detach().double() for t in (y, *torch.autograd.grad(y, [x, *layer.parameters()], dy))
    ]


def farthest(ours, exact):
    """Largest distance between two lists of tensors, in units of the largest exact one or 1."""
    pairs = [(a, b) for a, b in zip(ours, exact, strict=True) if b.numel()]
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1)).item() for a, b in pairs)


# %%
def compare(cls, shape, size, dtype, offset=0.0, parameters=None, **options):
    """Largest error of cls and of nn.LayerNorm, output and gradients, same parameters."""
    g = torch.Generator().manual_seed(49)
    x, dy = torch.randn(
        2, *shape, dtype=torch.float64, generator=g
    )  # (..., *normalized_shape) each
    x, dy = (x + offset).to(dtype), dy.to(dtype)
    theirs = nn.LayerNorm(size, **options).to(parameters or dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, generator=g)
    own, exact = (
        cls(size, **options).to(parameters or dtype),
        nn.LayerNorm(size, **options).double(),
    )
    own.load_state_dict(theirs.state_dict())  # PyTorch to us
    exact.load_state_dict(own.state_dict())  # and back
    wanted = results(exact, x.double(), dy.double())
    return farthest(results(own, x, dy), wanted), farthest(results(theirs, x, dy), wanted)


# %% [markdown]
# The tolerances are some units in the last place of each type, times the largest value. At offset 10,000 PyTorch itself needs a wider one.

# %%
tolerances = {
    torch.float64: 1e-12,
    torch.float32: 5e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
}
cases = [
    ((6, 5), 5, torch.float64, {}),
    ((2, 3, 4), [3, 4], torch.float64, {"bias": False}),
    ((2, 3, 4, 5), (3, 4, 5), torch.float64, {"eps": 0.1}),
    ((7,), 7, torch.float64, {"elementwise_affine": False}),
    ((6, 5), 5, torch.float32, {}),
    ((2, 3, 4), torch.Size([4]), torch.float32, {"bias": False}),
    ((2, 3, 4, 5), (4, 5), torch.float32, {"eps": 1e-3}),
    ((0, 5), 5, torch.float32, {}),
    ((8, 64), 64, torch.float32, {"elementwise_affine": False}),
    ((8, 64), 64, torch.float32, {"offset": 1e4}),
    ((6, 5), 5, torch.float16, {}),
    ((2, 3, 4), (3, 4), torch.float16, {"parameters": torch.float32}),
    ((6, 5), 5, torch.bfloat16, {}),
    ((2, 3, 4), 4, torch.bfloat16, {"parameters": torch.float32, "bias": False}),
]

# %%
print(
    f"{'x':13} {'normalized_shape':17} {'type':9} {'state_dict':11} {'y, gradients':13} option"
)
for shape, size, dtype, options in cases:
    own, theirs = compare(LayerNorm, shape, size, dtype, **options)
    tolerance = 0.02 if "offset" in options else tolerances[dtype]
    assert own < tolerance and theirs < tolerance
    option = ", ".join(
        f"{name}={value}".replace("torch.", "") for name, value in options.items()
    )
    print(
        f"{shape!s:13} {size!s:17} {str(dtype)[6:]:9} {'both ways':11} "
        f"{f'< {tolerance:.0e}':13} {option}".rstrip()
    )
print(f"{len(cases)} rows: both layers equal the float64 reference within the tolerance")

# %% [markdown]
# Your class can stand wherever `nn.LayerNorm` stands. It is slower, because every line of it walks through memory once more; [lesson 13](13_speed.ipynb) mends that.
# From now on `from fromscratch import LayerNorm` gives the course's own solution of exercise 4.3. If you want yours in a later lesson, paste it there.
#
# ## 4.9 Clinic: right on ordinary rows
#
# A layer put together from two that are public. On rows of spread 1 it agrees with PyTorch within a thousandth. Three things are wrong with it.
#
# **Predict:** read it and find them, before you run the examination below.


# %%
class FoundNorm(nn.Module):
    """A LayerNorm as it was found."""

    def __init__(self, normalized_shape, elementwise_affine=True):
        super().__init__()
        self.elementwise_affine = elementwise_affine
        self.gain = nn.Parameter(torch.ones(normalized_shape))
        self.offset = nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        y = F.layer_norm(x, self.gain.shape, eps=1e-8)
        return self.gain * y + self.offset if self.elementwise_affine else y


# %%
g = torch.Generator().manual_seed(51)
x = torch.randn(6, 3, 4, generator=g)  # (B, *normalized_shape)
assert (FoundNorm((3, 4))(x) - nn.LayerNorm((3, 4))(x)).abs().max() < 1e-3
print("agrees with nn.LayerNorm on rows of spread 1, within 0.001")

# %% [markdown]
# The examination: parameters of a layer that should have none; a checkpoint from PyTorch; rows of small spread.

# %%
bare = FoundNorm((3, 4), elementwise_affine=False)
bare(x.requires_grad_()).sum().backward()
print(
    "parameters:",
    sum(p.numel() for p in bare.parameters()),
    "  their gradients:",
    [p.grad for p in bare.parameters()],
)
try:
    FoundNorm((3, 4)).load_state_dict(nn.LayerNorm((3, 4)).state_dict())
except RuntimeError as refused:
    print(str(refused).replace("\n\t", "\n  "))
small = 1e-3 * x.detach()  # (B, *normalized_shape) spread 0.001
ratio = FoundNorm((3, 4))(small).std() / nn.LayerNorm((3, 4))(small).std()
assert (
    2.5 < ratio < 4.5
)  # sqrt(v + 1e-5) / sqrt(v + 1e-8) at v = 1e-6 is 3.3; rows of 12 numbers scatter around it
print("small spread: about three times too large")

# %% [markdown]
# 1. With `elementwise_affine=False` 24 parameters stay. They are counted, saved and handed to the optimizer, and never get a gradient.
# 2. `gain` and `offset`: no checkpoint can be exchanged.
# 3. $\epsilon = 10^{-8}$, fixed. It is no "small detail" on rows whose variance is not far above $10^{-5}$, and in plain float16 it is zero (lesson 3).
#
# The notes that one of the two comes from call its output the same as PyTorch's, and on ordinary rows it nearly is. Mend it.


# %% tags=["exercise"] id="ex-4-5"
# Exercise 4.5 · ●●●○○ · 6 min
class MendedNorm(nn.Module):
    """FoundNorm without its three faults.

    MendedNorm(normalized_shape, eps=1e-5, elementwise_affine=True)
    normalized_shape: a tuple of sizes, of the last axes. eps: added to the biased variance.
    elementwise_affine: whether there is a gain and a bias; their names, shapes and first values
    are PyTorch's, and state_dicts fit both ways. Without them, None is registered.
    forward(x) returns a tensor of x's shape, the same in train() and eval().
    To write: __init__ and forward (nn.LayerNorm does not stand in for them; F.layer_norm may).
    """

    ### BEGIN SOLUTION
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__()
        self.normalized_shape, self.eps = tuple(normalized_shape), eps
        affine = elementwise_affine
        self.register_parameter(
            "weight", nn.Parameter(torch.ones(self.normalized_shape)) if affine else None
        )
        self.register_parameter(
            "bias", nn.Parameter(torch.zeros(self.normalized_shape)) if affine else None
        )

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    ### END SOLUTION


# %% tags=["check"]
check.mended_norm(MendedNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Write `__init__(self, normalized_shape, eps=1e-5, elementwise_affine=True)` and `forward(self, x)` anew.
# Without parameters there is no `self.weight.shape` to ask: keep `normalized_shape` itself. Register `None` where a parameter is not wanted.
#
# </details>
#
# ## Take-away
#
# - Gain and bias belong to features, mean and variance to rows. So gain and bias cannot bring back a row's level and scale, as BatchNorm's can; and directly before a linear layer with a bias they fold into it.
# - LayerNorm over any trailing shape is eight lines. What they lack: other kinds of arguments, `None`, errors, half precision computed in float32, and the second centering, without which an offset of 10,000 costs three digits.
# - A drop-in module is bookkeeping: Parameters called `weight` and `bias`, `None` registered, PyTorch's signature, `forward` defined and the layer called. Its checkpoints then fit both ways.
# - On images three layers share the name: LayerNorm([C, H, W]) and GroupNorm(1, C) share the statistics, the per-pixel layer and GroupNorm(1, C) the number of parameters.
# - Values are not the whole contract: parameters, names, types and $\epsilon$ are tested by other tests than rows of spread 1.
#
# ## On your own
#
# 1. Give `MendedNorm` a method that reads an old checkpoint with the names `gain` and `offset` (look up `_load_from_state_dict`, or rename the keys before loading).
# 2. Leave the decay of section 4.5 on, and give the gain a constant gradient of -1: which decay does it take for the gain to settle at 0.5? Does the learning rate matter?
# 3. Write `LayerNorm2d(C)`, the per-pixel layer, with `movedim` and with sums over axis 1. Which of the two keeps the memory order of its input?
# 4. Lesson 2 asked what comes out of LayerNorm over one feature, and over two. Which gradient goes back, at $\epsilon = 0$?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, equations 3 and 4: gain and bias; no epsilon is written there.
# - Ioffe & Szegedy (2015), *Batch Normalization*, section 3: the sentence about the identity.
# - Liu et al. (2022), *A ConvNet for the 2020s* (ConvNeXt): the per-pixel layer. Yu et al. (2022), *MetaFormer Is Actually What You Need for Vision* (PoolFormer): GroupNorm with one group.
# - PyTorch: `torch/nn/modules/normalization.py`, `torch/_refs/__init__.py`, `include/ATen/native/layer_norm.h`, all in your installation.

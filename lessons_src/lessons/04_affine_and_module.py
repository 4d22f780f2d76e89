# %% [markdown]
# # 4 · Gain, bias and the module: a LayerNorm that can replace PyTorch's
#
# A net reads handwritten digits. Its four normalization layers (norms, for short) are a colleague's class, `OldNorm`. You replace them by `nn.LayerNorm`, which gives the same numbers while both are new, and load what the old net has learned.

# %% tags=["hide-input"]
import inspect
from numbers import Integral
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import normalize
from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)
from lessonkit.data import digits_split


class OldNorm(nn.Module):
    """The colleague's layer. Section 4.7 asks you what it does, so do not read on."""

    def __init__(self, D):
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return normalize(x) * (1 + self.gain) + self.offset


def make_net(norm):
    """Four times Linear, norm, ReLU, then a Linear; float64, so that runs agree everywhere."""
    layers = [nn.Flatten()]
    for _ in range(4):
        layers += [nn.Linear(64, 64), norm(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10)).double()


def accuracy(net):
    """Return the percentage of the 500 test digits that net reads right."""
    right = net(digits.x_test.double()).argmax(-1) == digits.y_test  # (500,)
    return 100 * right.double().mean().item()


digits = digits_split()
torch.manual_seed(4)
old_net = make_net(OldNorm)
parameters = list(old_net.parameters())
velocities = [torch.zeros_like(p) for p in parameters]
g = torch.Generator().manual_seed(4)
for _ in range(5):
    for batch in torch.randperm(len(digits.x_train), generator=g).split(64):
        loss = F.cross_entropy(old_net(digits.x_train[batch].double()), digits.y_train[batch])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():  # SGD with momentum, by hand: torch.optim takes 2 s to import
            for p, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
                p -= 0.03 * velocity.mul_(0.9).add_(gradient)

# %%
checkpoint = old_net.state_dict()  # {name: tensor}
new_net = make_net(nn.LayerNorm)
try:
    new_net.load_state_dict(checkpoint)
except RuntimeError as error:
    print(str(error).replace("\n\t", "\n"))

# %% [markdown]
# PyTorch looks for a `weight` and a `bias` and finds a `gain` and an `offset`. So rename them.

# %%
renamed = {}
for key, tensor in checkpoint.items():
    renamed[key.replace("gain", "weight").replace("offset", "bias")] = tensor
print(new_net.load_state_dict(renamed))
print(f"the old net reads {accuracy(old_net):.0f} % of 500 digits")
print(f"the new net reads {accuracy(new_net):.0f} %")

# %% [markdown]
# Every key fits, and the new net guesses: one digit in ten is chance. [Section 4.7](#4.7-Clinic:-every-key-matched,-and-the-net-cannot-read) finds out why. First build the layer, and the class around it.

# %% tags=["hide-input"]
# 32 runs (16 seeds, two splits): the old net 92 to 98 %, the renamed one 8 to 13 %
assert accuracy(old_net) > 85 and accuracy(new_net) < 25
x = digits.x_test.flatten(1)  # (500, 64)
assert (OldNorm(64)(x) - nn.LayerNorm(64)(x)).abs().max() < 1e-5  # new, they agree

# %% [markdown]
# *About 60 min.* **You'll be able to**
# - say what gain and bias can do, and what they cannot;
# - write LayerNorm over any trailing shape, and say what the short version lacks;
# - write a module that exchanges checkpoints with PyTorch;
# - tell three layers for images apart that share one name;
# - find out what the numbers of a checkpoint mean.
#
# **You need** [lesson 2](02_statistics.ipynb) (mean, variance, axes) and [lesson 3](03_epsilon.ipynb) ($\epsilon$, half precision).
#
# **Recall 4.1:** which variance does a row of variance $v$ have after normalizing with $\epsilon$?
# - [ ] 1 :: Only at $\epsilon = 0$. The row is divided by a little more than its standard deviation.
# - [x] $v/(v+\epsilon)$ :: The row is divided by $\sqrt{v+\epsilon}$, so its variance $v$ is divided by $v+\epsilon$.
# - [ ] $1+\epsilon$ :: It is divided by something larger than $\sqrt v$, so the result is below 1.
#
# **Recall 4.2:** `x` is (2, 3, 4). Which shape has `x.mean((-2, -1), keepdim=True)`?
# - [x] (2, 1, 1) :: Both reduced axes stay, with size 1, so the two means broadcast over their 12 numbers each.
# - [ ] (2,) :: That is the shape without `keepdim=True`, and it would not line up with `x`.
# - [ ] (2, 3, 1) :: Here axis -2 is reduced as well.
#
# **Recall 4.3:** each layer of a net makes the signal 1.2 times as large. And fifty layers?
# - [ ] 10 times :: That adds 20 % fifty times. Factors multiply.
# - [x] about 9,000 times :: $1.2^{50}$ is 9,100. This is why depth needs a normalization layer (a norm, for short) or well-chosen weights.
# - [ ] 60 times :: That is 1.2 times 50. It is 1.2 to the power of 50.

# %% [markdown]
# ## 4.1 One gain and one bias for each feature
#
# What comes after the normalization? Two vectors that the network learns:
#
# $$y = \gamma \odot \hat x + \beta$$
#
# The **gain** $\gamma$ multiplies, the **bias** $\beta$ shifts. PyTorch calls them `weight` and `bias`; they start at 1 and 0, so a new layer only normalizes.
# Mean and variance belong to a *row*, and every row has its own. Gain and bias belong to a *feature*, and all rows share them.
#
# **Predict 4.1:** four features have different gains, and their biases add up to 4. What are the means of the rows of $y$?
# - [ ] all 0 :: That is the mean of $\hat x$. The biases alone move it to 1, and the gains weigh some features more than others.
# - [x] in general a different one for each row :: Where the gains differ, it matters which features of a row are large. With equal gains every mean would be 1.
# - [ ] all 1 :: The biases add 1 to the mean of each row. That is all only if the gains are equal, because $\hat x$ has mean 0.

# %%
x = torch.tensor([[0.0, 1, 2, 3], [10, 10, 30, 30], [-1, 0, 0, 5]])  # (B, D) = (3, 4)
gamma = torch.tensor([2.0, 1.0, 0.5, 3.0])  # (D,)
beta = torch.tensor([0.0, 0.0, 3.0, 1.0])  # (D,)
y = gamma * normalize(x) + beta  # (B, D)
show("y", y)
show("mean of each row", y.mean(-1))

# %% tags=["hide-input"]
# numbers of order 1 in float32
assert (y - F.layer_norm(x, (4,), gamma, beta)).abs().max() < 1e-6

# %% [markdown]
# So "mean 0 and variance 1" is said of $\hat x$, not of $y$, and the 1 is exact only at $\epsilon = 0$.

# %% [markdown]
# ## 4.2 What gain and bias cannot do
#
# Can gain and bias undo the normalization? The paper on BatchNorm says so of its layer. And LayerNorm's?
#
# **Predict 4.2:** take a row $x$, not constant, and the row $2x + 3$. How do their $\hat x$ differ, at $\epsilon = 0$?
# - [ ] the second is twice as large :: Its standard deviation is twice as large, too, and it is divided by that.
# - [x] not at all :: The mean takes the 3 along, and the standard deviation the 2.
# - [ ] that depends on the numbers in $x$ :: Whatever they are, the 3 goes with the mean and the 2 with the standard deviation.

# %%
x = torch.tensor([[0.0, 1.0, 2.0, 4.0]], dtype=torch.float64)  # (1, D)
rows = torch.cat([x, 2 * x + 3])  # (2, D)
show("x_hat at eps = 0", normalize(rows, eps=0.0))

# %% [markdown]
# At $\epsilon = 0$ a row's level and scale are gone, and no network that sees only $\hat x$ can tell these two apart. BatchNorm takes mean and variance **per feature**, as its gain and bias are. So these can undo the statistics of *one* batch, or the fixed ones of `eval()`, but not those of every batch.
#
# Directly before a linear layer $Wz + b$ they add no function that was not there. Write $z = \gamma \odot \hat x + \beta$ into it:
#
# $$W(\gamma \odot \hat x + \beta) + b = \underbrace{W\,\mathrm{diag}(\gamma)}_{W'}\,\hat x + \underbrace{W\beta + b}_{b'}$$
#
# A LayerNorm without gain and bias before $W', b'$ computes the same, though it may train differently.
# Through a ReLU only the size $|\gamma|$ of a gain folds; its sign and $\beta/|\gamma|$ stay. Where the result is added to another branch (a skip, or *residual connection*), the gain does not fold in general; the bias can still move into a bias of the other branch.
# *Backwards*, into the linear layer before, the subtraction of the mean folds, but $1/\sigma$ does not, because each row has its own ([Deeper](#Folding-further)).
# In short: gain and bias give each feature a scale and a level, but cannot give every row its own back.

# %% tags=["hide-input"]
# all in float64, numbers of order 10
batch = torch.tensor([[1.0, 20], [2, 50], [6, 20]], dtype=torch.float64)  # (B, D)
gain = (batch.var(0, correction=0) + 1e-5).sqrt()  # (D,)
assert (normalize(rows, eps=0.0)[0] - normalize(rows, eps=0.0)[1]).abs().max() < 1e-12
undo = lambda x: F.batch_norm(x, None, None, gain, batch.mean(0), training=True)
assert (undo(batch) - batch).abs().max() < 1e-12
assert (undo(2 * batch + 3) - batch).abs().max() < 1e-3  # the next batch comes out as this one
fixed = F.batch_norm(2 * batch, batch.mean(0), gain**2 - 1e-5, gain, batch.mean(0))  # eval()
assert (fixed - 2 * batch).abs().max() < 1e-12
W = torch.tensor([[1.0, -2, 0, 3], [2, 1, 1, 0]], dtype=torch.float64)  # (out, D)
b = torch.tensor([1.0, -1], dtype=torch.float64)  # (out,)
gamma, beta = gamma.double(), beta.double()  # (D,) each
x_hat = F.layer_norm(x, (4,))  # (1, D)
folded = F.linear(x_hat, W * gamma, W @ beta + b)
assert (F.linear(x_hat * gamma + beta, W, b) - folded).abs().max() < 1e-12

# %% [markdown]
# ## 4.3 Eight lines, for any trailing shape
#
# What if more than the last axis is normalized together? `normalized_shape` lists the **sizes** of these axes, always the last ones (not their numbers: `nn.LayerNorm(-1)` raises an error). Gain and bias have this same shape, one number for each normalized element.
#
# | x | normalized_shape | axes | gains |
# |---|---|---|---|
# | (B, D) | (D,) | -1 | D |
# | (B, T, C) | (C,) | -1 | C |
# | (B, C, H, W) | (C, H, W) | -3, -2, -1 | C · H · W |
#
# Write it first without any extras.


# %% tags=["exercise"] id="ex-4-1"
# Exercise 4.1 · ●●○○○ · 5 min
def short_layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    """LayerNorm over the last len(normalized_shape) axes.

    x: (..., *normalized_shape) in any memory order, unchanged. normalized_shape: a tuple.
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

# %% [markdown]
# ## 4.4 What the eight lines lack
#
# What more does PyTorch's LayerNorm do? It accepts an int or a list, `None` for gain or bias, and half precision, and it refuses shapes that do not fit.
#
# **Predict 4.3:** a row has entries up to ±600, and all is computed in float16, whose largest number is 65,504. What comes out?
# - [x] zeros :: $600^2 = 360{,}000$ is infinite in float16, so the variance is infinite, and a finite number divided by infinity is 0.
# - [ ] three right digits :: 600 and the result fit into float16. What has to be squared on the way?
# - [ ] `nan` :: That would need 0/0 or inf/inf. Here a finite number is divided.

# %%
half = torch.tensor([[600.0, -300.0, 0.0, -600.0, 300.0]], dtype=torch.float16)  # (1, D)
c = half - half.mean(-1, keepdim=True)  # (1, D)
show("in float16  ", c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5))
show("F.layer_norm", F.layer_norm(half, (5,)))

# %% [markdown]
# PyTorch's forward pass computes half precision in float32 and rounds once, at the end, and so shall we. How exact is float32 itself?
#
# **Predict 4.4:** float32 rows of standard deviation 1 are moved by 10,000. How far is `F.layer_norm` from the same rows normalized in float64?
# - [ ] about 1e-7 :: That is how far seven digits reach for numbers of order 1. Here the mean needs five of them before the point.
# - [x] about 1e-3 :: Near 10,000 the numbers of float32 lie 0.001 apart. The sum is rounded on the way, and the mean once more, so here it is off by up to about 0.002. That is then missing in *every* centered value.
# - [ ] about 1 :: That would be so if the variance were computed as $E[x^2] - E[x]^2$ (lesson 3). PyTorch subtracts the mean first.


# %% tags=["hide-input"]
def once(x, eps=1e-5):
    """The eight lines, over the last axis."""
    c = x - x.mean(-1, keepdim=True)  # (B, D)
    return c / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)


def twice(x, eps=1e-5):
    """The same, with what rounding left of the mean subtracted as well."""
    c = x - x.mean(-1, keepdim=True)  # (B, D)
    c = c - c.mean(-1, keepdim=True)  # (B, D)
    return c / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)


def distance(norm, offset, seed):
    """Largest distance from the same rows in float64: 64 float32 rows of 32 numbers."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 32, generator=g) + offset  # (B, D)
    return (norm(x) - F.layer_norm(x.double(), (32,))).abs().max().item()


offsets = [0, 1, 10, 100, 1000, 10000]
norms = {
    "centered once": once,
    "F.layer_norm": lambda x: F.layer_norm(x, (32,)),
    "centered twice": twice,
}
errors = {
    name: [[distance(norm, o, seed) for o in offsets] for seed in range(8)]
    for name, norm in norms.items()
}
at_10_000 = {name: torch.tensor(runs)[:, -1] for name, runs in errors.items()}  # (8,) each
# a few units of float32: 2e-7 to 4e-7 in 64 seeds
assert at_10_000["centered twice"].max() < 3e-6
assert min(at_10_000["F.layer_norm"].min(), at_10_000["centered once"].min()) > 2e-4
for D in (5, 7, 8, 100):
    # constant rows: what is left of the mean is a few units, and their mean is exact
    assert (twice(torch.full((2, D), 100.1)) == 0).all()

# %% tags=["hide-input"]
plot.lines(
    [str(o) for o in offsets],
    errors,
    ylog=True,
    colors={"F.layer_norm": "LayerNorm", "centered once": "none", "centered twice": "#5B2A86"},
    title="Centering twice keeps the error where it is without an offset",
    x="offset added to rows of standard deviation 1",
    y="largest error of the output",
    caption=(
        "Distance from float64 on the same float32 rows, 64 × 32 numbers, 8 seeds. At offset "
        "10,000 PyTorch and the eight lines are one to two thousandths off; the second "
        "centering keeps the error below a millionth."
    ),
    alt=(
        "Three curves over the offset, from 0 to 10,000, on a logarithmic axis. Centering once "
        "and F.layer_norm rise together, from below 4e-7 to between 1e-3 and 2e-3, and from "
        "offset 10 on 8 to 16 times for each tenfold offset. Centering twice stays between "
        "2e-7 and 4e-7."
    ),
)

# %% [markdown]
# One more line removes that error: **center the centered row.** `x - mean` is exact where `x` lies within a factor of two of the mean, so there the mean of `c` is, rounding aside, what the first mean was off by.
#
# Two helpers, folded here, make a tuple of `normalized_shape` and refuse what does not fit.


# %% tags=["export", "hide-input"]
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


# %% tags=["export", "hide-input"]
def _check_inputs(x, sizes, weight, bias):
    """Raise an error for a wrong kind of argument, a wrong shape, mixed types, no float."""
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


# %% tags=["exercise", "export"] id="ex-4-2"
# Exercise 4.2 · ●●●○○ · 6 min
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axes of x, in plain tensor operations.

    x: (..., *normalized_shape), float16, bfloat16, float32 or float64, in any memory order; it
    may be empty, and is left as it is.
    normalized_shape: a list, a tuple, a torch.Size, or an int, which F.layer_norm refuses.
    weight, bias: tensors of shape normalized_shape, or None for each that is not wanted.
    eps: added to the biased variance, under the root; it may be 0.
    Returns a contiguous tensor of x's shape and dtype. Half precision is computed in float32
    and rounded once, at the end; float64 stays float64. Rows are centered twice (once, as in
    PyTorch, passes too). Can be differentiated twice and mapped by torch.func.vmap.
    Sizes, shapes and number types that do not fit raise an error (given).
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
# In short, the eight lines lack other arguments, refusals, float32 inside, and a second centering.

# %% [markdown]
# ## 4.5 The module
#
# The function is the mathematics. What is left for the class? It decides what an optimizer sees, and what a *checkpoint* holds, the model's `state_dict()`: a dictionary from names to tensors. `load_state_dict` reads it back, and every name and shape must fit.
#
# This layer makes its gain when it sees the first row.


# %%
class LateNorm(nn.Module):
    """Make the gain in the first call."""

    def forward(self, x):
        if not hasattr(self, "weight"):
            self.weight = nn.Parameter(torch.ones(x.shape[-1]))
        return F.layer_norm(x, x.shape[-1:], self.weight)


# %% [markdown]
# **Predict 4.5:** a net with this layer trains for 50 steps; its optimizer is made before the first batch. And the gain?
# - [ ] it is trained :: It is a Parameter and gets a gradient. But who changes a parameter? Only an optimizer that was given it.
# - [ ] the first step raises an error :: The optimizer goes through its own list. Nobody tells it that the net has a parameter more.
# - [x] it gets a gradient and stays 1 :: `net.parameters()` was read before the gain existed, so the optimizer does not have it.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(45)
x, wanted = torch.randn(2, 8, 4, generator=g)  # (B, D) each
net = nn.Sequential(nn.Linear(4, 4), LateNorm())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(50):
    loss = ((net(x) - wanted) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
print("parameters:", [name for name, _ in net.named_parameters()])
show("gain", net[1].weight)
print("it has a gradient:", bool((net[1].weight.grad != 0).any()))

# %% [markdown]
# The rest of the net learns, so the loss does not show it. Four rules:
#
# 1. Gain and bias are `nn.Parameter`s, made in `__init__`.
# 2. They are **called `weight` and `bias`**.
# 3. What is not wanted is registered as `None`: `self.register_parameter("bias", None)`. Nothing is counted, trained or saved, and only a Parameter can take the place later.
# 4. You define `forward` and *call* the layer. *Hooks*, functions that PyTorch runs at each call, live in `nn.Module.__call__`; `layer.forward(x)` goes past them.
#
# The signature is PyTorch's, too. It takes no first values: in `nn.LayerNorm(3, 1e-5, gain, bias)` the last two are the flags `elementwise_affine` and `bias`.
#
# Two places are yours: register one parameter or `None` in the loop, and write `forward`.


# %% tags=["exercise", "export"] id="ex-4-3"
# Exercise 4.3 · ●●●○○ · 4 min
class LayerNorm(nn.Module):
    """Layer Normalization with a learned gain and bias: takes the place of torch.nn.LayerNorm.

    normalized_shape: sizes of the last axes, an int, a list, a tuple or a torch.Size.
    eps: added to the biased variance. elementwise_affine=False: neither gain nor bias,
    whatever bias says. bias=False: a gain alone.
    weight, bias: Parameters of shape normalized_shape, first 1 and 0, or None, registered.
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
        parameters = {"weight": elementwise_affine, "bias": elementwise_affine and bias}
        for name, wanted in parameters.items():
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
        """x: (..., *normalized_shape), else an error. Calls your layer_norm, not PyTorch's."""
        ### BEGIN SOLUTION
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        ### END SOLUTION

    def extra_repr(self):
        start = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine="
        return f"{start}{self.elementwise_affine}, bias={self.bias is not None}"


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

# %%
theirs, own = nn.LayerNorm((3, 4)), LayerNorm((3, 4))
nn.init.uniform_(theirs.weight)  # as if trained
print(own.load_state_dict(theirs.state_dict()))  # PyTorch to us
print(theirs.load_state_dict(own.state_dict()))  # and back

# %% tags=["hide-input"]
x = torch.arange(24.0).reshape(2, 3, 4) ** 2  # (B, *normalized_shape)
assert (own(x) - theirs(x)).abs().max() < 1e-5  # float32, numbers of order 1 and their gains
options = [
    {},
    {"bias": False},
    {"elementwise_affine": False},
    {"dtype": torch.float64},
    {"device": "meta"},
]
for option in options:
    described = [
        [(name, p.shape, p.dtype, p.device) for name, p in layer.named_parameters()]
        for layer in (LayerNorm((3, 4), **option), nn.LayerNorm((3, 4), **option))
    ]
    assert described[0] == described[1]

# %% [markdown]
# LayerNorm keeps no statistics, so `train()` and `eval()` give the same numbers, unlike BatchNorm's ([lesson 6](06_batchnorm.ipynb)). `bias=False` drops $\beta$; RMSNorm drops the *mean* as well ([lesson 8](08_geometry.ipynb)).
# [Deeper](#Types-that-may-meet) says which types may meet, and that weight decay pulls a gain towards 0.
# Later lessons train with your class, kept in `work/mine/` on this machine only.
# In short, the class decides what is trained and saved: Parameters, made in `__init__`, under PyTorch's names.

# %% tags=["hide-input"]
x = 2 + torch.arange(40.0).reshape(8, 5) ** 2 % 7  # (B, D)
layer, batchnorm = nn.LayerNorm(5), nn.BatchNorm1d(5)
assert torch.equal(layer.train()(x), layer.eval()(x)) and not list(layer.buffers())
# its running statistics have seen one batch
assert (batchnorm.train()(x) - batchnorm.eval()(x)).abs().max() > 0.5
no_bias, rms = nn.LayerNorm(5, bias=False), nn.RMSNorm(5, eps=1e-5)
assert (no_bias(x) - rms(x)).abs().max() > 0.5  # two layers
centered = x - x.mean(-1, keepdim=True)  # (B, D)
# LayerNorm is RMSNorm of the centered row; float32 rounding
assert (no_bias(x) - rms(centered)).abs().max() < 1e-5
bare, calls = nn.LayerNorm(4, elementwise_affine=False), []
assert bare.weight is None and not list(bare.parameters()) and not bare.state_dict()
layer.register_forward_hook(lambda module, inputs, output: calls.append(1))
layer(x), layer.forward(x)
assert len(calls) == 1

# %% [markdown]
# ## 4.6 Images: three layers, one name
#
# What is LayerNorm on images (B, C, H, W)? Three different layers are called so.
#
# | | normalizes | in PyTorch | used in |
# |---|---|---|---|
# | **LayerNorm([C, H, W])** | an image | `nn.LayerNorm([C, H, W])` | PyTorch's manual |
# | **LayerNorm per pixel** | the C numbers of a pixel | `nn.LayerNorm(C)` with C moved to the end and back | ConvNeXt |
# | **GroupNorm(1, C)** | an image | `nn.GroupNorm(1, C)` | PoolFormer |

# %% tags=["exercise"] id="ex-4-4"
# Exercise 4.4 · ●●●○○ · 3 min
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

# %% tags=["hide-input"]
shape = dict(B=2, C=3, H=4, W=5)
plot.cubes(
    {
        "LayerNorm([C, H, W])": dict(shape=shape, over=("C", "H", "W")),
        "LayerNorm per pixel": dict(shape=shape, over=("C",)),
        "GroupNorm(1, C)": dict(shape=shape, over=("C", "H", "W")),
    },
    title="One pair shares the statistics, another pair the shape of the gain",
    caption=(
        "In an image, neighbours of one colour share one mean and one variance; dark blue is "
        "the first such group. LayerNorm([C, H, W]) and GroupNorm(1, C) have the same groups. "
        "Not drawn are gain and bias: 120 numbers in LayerNorm([C, H, W]), a pair for each "
        "channel of each pixel, and 6 in the other two, a pair for each channel."
    ),
    alt=(
        "Three batches of two images with 3 channels, 4 rows and 5 columns. In the first and "
        "the third batch each image is one group of 60 cells, 2 means in all; in the second "
        "the 3 channels of each pixel are one group, 40 means in all."
    ),
)

# %% tags=["hide-input"]
x = (torch.arange(120.0) ** 2 % 17).reshape(2, 3, 4, 5)  # (B, C, H, W)
gain, shift = torch.tensor([[1.0, 2, -1], [0, 1, 3]])  # (C,) each
full = [p.view(3, 1, 1).expand(3, 4, 5) for p in (gain, shift)]  # (C, H, W) each
whole = F.layer_norm(x, (3, 4, 5), *full)
group = F.group_norm(x, 1, gain, shift)  # (B, C, H, W)
pixel = F.layer_norm(x.movedim(1, -1), (3,), gain, shift).movedim(-1, 1)  # (B, C, H, W)
assert (whole - group).abs().max() < 1e-5  # one formula, float32 rounding
assert (whole - pixel).abs().max() > 0.5  # another layer
vectors, sequence = x[:, 0, 0], x[:, :, 0]  # (N, C) and (N, C, L)
assert (F.group_norm(vectors, 1) - F.layer_norm(vectors, (5,))).abs().max() < 1e-5
per_step = F.layer_norm(sequence.movedim(1, -1), (3,)).movedim(-1, 1)  # (N, C, L)
assert (F.group_norm(sequence, 1) - per_step).abs().max() > 0.1

# %% [markdown]
# So GroupNorm(1, C) is LayerNorm([C, H, W]) with one gain and one bias a channel; the per-pixel layer is a different function.
# PyTorch's manual calls `GroupNorm(1, C)` "equivalent with LayerNorm". For the `LayerNorm(C)` of a Transformer that holds on vectors (N, C), but not on sequences.
#
# **Predict 4.6:** `nn.LayerNorm([3, 4, 5], elementwise_affine=False)` has no gains. Does it take images of 6 × 5 pixels?
# - [x] no :: `normalized_shape` is compared with the last axes of `x`, with or without gains.
# - [ ] yes, no parameter has the size of an image :: One thing still has: `normalized_shape`, which must agree with `x`.
# - [ ] yes, but it leaves pixels out :: LayerNorm never leaves a part of an axis out.

# %%
try:
    nn.LayerNorm([3, 4, 5], elementwise_affine=False)(torch.zeros(2, 3, 6, 5))
except RuntimeError as refused:
    print(refused)

# %% [markdown]
# The class is tied to one image size in any case; GroupNorm, the per-pixel layer and `F.layer_norm(x, x.shape[1:])` are not.
#
# One trap is left: `nn.LayerNorm(C)` takes the **last** axis, the width. If that happens to equal C, no error says so.
# So say which of the three you mean, and test with a width that differs from C.

# %% tags=["hide-input"]
x = (torch.arange(72.0) ** 2 % 17).reshape(2, 3, 4, 3)  # (B, C, H, W) with W = C
y = nn.LayerNorm(3)(x).detach()  # (B, C, H, W)
assert y.mean(-1).abs().max() < 1e-6 and y.mean(1).abs().max() > 0.1
assert F.layer_norm(x, x.shape[1:]).shape == nn.GroupNorm(1, 3)(x).shape == x.shape

# %% [markdown]
# ## 4.7 Clinic: every key matched, and the net cannot read
#
# Why does the net guess? New norms agree, and the linear layers were not touched. So the norms' numbers must mean something else.
#
# **Predict 4.7:** which gains does a new `OldNorm` hold?
# - [ ] ones, as a new `nn.LayerNorm` :: Training moved these gains by less than 0.5. Had they begun at 1, the renamed ones would be near 1, and the net would hardly guess.
# - [x] zeros :: So the trained gains say how far each factor moved. Read as factors they are near 0, of both signs, and that fits the guessing.
# - [ ] random numbers :: Then a new layer would not agree with `nn.LayerNorm`, unless it leaves them unused.

# %%
new = OldNorm(4)
print({name: tensor.tolist() for name, tensor in new.state_dict().items()})

# %% [markdown]
# A gain of 0, and the layer multiplies by 1. So the factor may be $1 + g$, or $e^g$, or the gain is not used.
#
# **Predict 4.8:** with which gain and which row do you tell the three apart?
# - [ ] gains 0, a random row :: At 0 all three factors are 1, whatever the row.
# - [x] gains 3, the row 0, 1, 2, 3 :: The factors are 4, 20.1 and 1, and the output over $\hat x$ shows which it is.
# - [ ] gains 3, the row 5, 5, 5, 5 :: There $\hat x$ is 0, and every factor gives 0.

# %%
nn.init.constant_(new.gain, 3.0)
row = torch.tensor([0.0, 1.0, 2.0, 3.0])  # (D,)
show("output over x_hat", new(row) / normalize(row))

# %% [markdown]
# Write the translation that was needed.


# %% tags=["exercise"] id="ex-4-5"
# Exercise 4.5 · ●●●○○ · 5 min
def translated(state):
    """Turn a checkpoint of a net with OldNorm into one of the same net with nn.LayerNorm.

    state: a dict {name: tensor}, left as it is, and so are its tensors. The last part of a
    name, after its last dot if there is one, is "gain" or "offset" in an OldNorm: "2.gain",
    "block.norm.offset", or just "gain".
    Returns a new dict in which these are called "weight" and "bias" ("2.weight") and hold what
    nn.LayerNorm needs, in their dtype. All other entries are handed on as they are, even if
    their names contain the words: "gain_head.weight", "position_offset".
    """
    ### BEGIN SOLUTION
    new_state = {}
    for key, tensor in state.items():
        place, dot, last = key.rpartition(".")
        if last == "gain":
            new_state[place + dot + "weight"] = 1 + tensor
        elif last == "offset":
            new_state[place + dot + "bias"] = tensor
        else:
            new_state[key] = tensor
    return new_state
    ### END SOLUTION


# %% tags=["check"]
check.translated(translated)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Go through `state.items()` and fill a new dictionary. `"block.norm.gain".rpartition(".")` is `("block.norm", ".", "gain")`, and of `"gain"` it is `("", "", "gain")`.
#
# </details>

# %%
matched = new_net.load_state_dict(translated(checkpoint))
x = digits.x_test.double()  # (500, 8, 8)
print(matched, f"the new net reads {accuracy(new_net):.0f} %", sep="\n")
print("its outputs are the old net's:", torch.allclose(new_net(x), old_net(x)))

# %% tags=["hide-input"]
assert not matched.missing_keys
gains = torch.cat([tensor for key, tensor in checkpoint.items() if key.endswith("gain")])
assert gains.abs().max() < 0.5 and gains.min() < 0 < gains.max()  # 0.2 to 0.4 in 32 runs
healed = accuracy(new_net)
assert torch.allclose(new_net(x), old_net(x)) and abs(healed - accuracy(old_net)) < 0.3
# Nor does accuracy show a wrong translation: gains left at 1, biases at 0. In 32 runs:
# at most 1.8 points
kept_at_1 = make_net(nn.LayerNorm)
kept_at_1.load_state_dict(checkpoint, strict=False)
assert abs(accuracy(kept_at_1) - healed) < 4
assert not torch.allclose(kept_at_1(x), old_net(x))

# %% [markdown]
# The net reads again. `OldNorm` multiplies by $1 + g$, so renaming made a factor of about 0 out of one of about 1. In 32 runs (16 seeds, two splits) the old nets read 92 to 98 %, the renamed ones 8 to 13 %, and the translated ones as much as the old.
# Accuracy alone is no test, though. `load_state_dict(checkpoint, strict=False)` skips every name that does not fit: the gains stay 1, the biases 0, and what the norms learned is lost. In these runs that changed the accuracy by at most 1.8 points. So compare *outputs*.
#
# This does happen. Gemma 1 to 3, language models, store their gains as $\gamma - 1$, and one loader in ExecuTorch, which did not add the 1, "silently produced garbage" ([pull request 19901](https://github.com/pytorch/executorch/pull/19901)). A checkpoint of BERT says `gamma` and `beta` ([transformers, issue 11809](https://github.com/huggingface/transformers/issues/11809)).
# In short: a checkpoint holds names, shapes and numbers, but not what they mean, nor $\epsilon$. Find out with a probe.

# %% [markdown]
# ## Take-away
#
# - Gain and bias belong to features, mean and variance to rows, so they cannot give every row its level and scale back. Before a linear layer with a bias they fold into it.
# - LayerNorm over any trailing shape is eight lines. In use it needs refusals, `None` and float32 inside; a second centering, which PyTorch does without, keeps the digits of rows with a large mean.
# - A module that can replace PyTorch's has Parameters `weight` and `bias`, made in `__init__`, or `None` registered.
# - On images LayerNorm([C, H, W]) and GroupNorm(1, C) share the statistics, the per-pixel layer and GroupNorm(1, C) the number of parameters.
# - A checkpoint that loads can still be wrong. A probe tells what its numbers mean.
#
# **Formula card**, for the $D$ numbers that are normalized together:
#
# $$\mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} \qquad y_i = \gamma_i\,\hat x_i + \beta_i$$

# %% [markdown]
# ## Deeper (optional, 10 min)
#
# ### Folding further
#
# For $\gamma \ne 0$, feature by feature, $\mathrm{relu}(\gamma \hat x + \beta) = |\gamma|\ \mathrm{relu}\big(\mathrm{sign}(\gamma)\,\hat x + \beta/|\gamma|\big)$. So $|\gamma|$ can move into the next linear layer, through the ReLU, while the sign and $\beta/|\gamma|$ stay.
#
# The subtraction of the mean folds the other way, into the linear layer *before* the norm. Subtract from $W$ its column means and from $b$ its mean; then every output row of the linear layer has mean 0, and RMSNorm, which divides by the root mean square and subtracts nothing, is all that is left of LayerNorm.

# %%
g = torch.Generator().manual_seed(43)
x = torch.randn(4, 5, dtype=torch.float64, generator=g)  # (B, in)
W, b = torch.randn(6, 5, dtype=torch.float64, generator=g), torch.arange(6.0).double()
norm_after = F.layer_norm(F.linear(x, W, b), (6,))  # (B, D)
centered = F.linear(x, W - W.mean(0), b - b.mean())  # (B, D)
print("the same:", torch.allclose(F.rms_norm(centered, (6,), eps=1e-5), norm_after))

# %% tags=["hide-input"]
# float64 rounding; 4e-16 to 7e-16
assert (F.rms_norm(centered, (6,), eps=1e-5) - norm_after).abs().max() < 1e-13
gamma, beta = torch.tensor(
    [[2.0, -3, 0.5, -1, 4, 1], [1, 2, -1, -2, 0, 3]]
).double()  # (D,) each
moved = gamma.abs() * torch.relu(gamma.sign() * norm_after + beta / gamma.abs())  # (B, D)
assert (torch.relu(gamma * norm_after + beta) - moved).abs().max() < 1e-13

# %% [markdown]
# Dividing by $\sigma$ folds into neither side. (BatchNorm in `eval()` divides by fixed numbers, and folds whole: [lesson 6](06_batchnorm.ipynb).)
#
# ### A published notebook, continued
#
# "Lecture 20: Layer Normalization" of [marcel1520/building-llm](https://github.com/marcel1520/building-llm), whose batch lesson 2 normalized, defines a LayerNorm class in its cell 564, with the names `scale` and `shift`. Cell 565 applies it to the raw batch. All 28 numbers that it prints come out here as well.

# %%
g = torch.Generator().manual_seed(123)
batch = torch.rand(2, 5, generator=g)  # (B, D)
scale, shift = torch.ones(5), torch.zeros(5)  # (D,)
normalized = normalize(batch) * scale + shift  # (B, D)
show("normalized", normalized)
show("variance after", normalized.var(-1, correction=0))

# %% tags=["hide-input"]
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
ours = {
    "batch": batch,
    "mean": batch.mean(-1, keepdim=True),
    "var": batch.var(-1, correction=0, keepdim=True),
    "normalized": normalized,
    "mean after": normalized.mean(-1, keepdim=True),
    "var after": normalized.var(-1, correction=0, keepdim=True),
}
for name, printed in cell_565.items():
    # rounded to four decimals, 5e-5; we allow 6e-5
    torch.testing.assert_close(ours[name], torch.tensor(printed), atol=6e-5, rtol=0)
# v / (v + eps), float32 rounding
assert (ours["var after"] - ours["var"] / (ours["var"] + 1e-5)).abs().max() < 1e-6
# told (3, 5), that class would take gains of that shape and the last axis alone: 6 means
x = torch.arange(30.0).reshape(2, 3, 5) ** 2  # (B, T, D)
wrong = normalize(x) * torch.ones(3, 5)  # (B, T, D) no error: the gains fit
assert (wrong - F.layer_norm(x, (3, 5))).abs().max() > 0.1

# %% [markdown]
# The variances 0.9998 and 0.9999 are $v/(v+\epsilon)$ with $v = 0.0460$ and $0.1057$. The class always takes the last axis: told `(3, 5)` instead of `5`, it would make gains of that shape, normalize over the last axis alone, and raise no error. And cell 565 calls `.forward`, past all hooks.
#
# ### Second derivative and vmap
#
# Plain tensor operations have two properties that a hand-written kernel must work for. They can be differentiated as often as you like; `gradgradcheck` compares the second derivative with differences of the first. And `torch.func.vmap` can map them: it takes a function written for one sample and runs it along an axis of many, without a loop.

# %%
g = torch.Generator().manual_seed(44)
x = torch.randn(2, 3, 4, dtype=torch.float64, generator=g, requires_grad=True)  # (B, C, D)
weight, bias = torch.randn(2, 4, dtype=torch.float64, generator=g)  # (D,) each
one = lambda rows: layer_norm(rows, 4, weight, bias)
print("second derivative right:", torch.autograd.gradgradcheck(one, x))
mapped = torch.func.vmap(one, in_dims=1, out_dims=1)(x)  # (B, C, D)
print("vmap right:", torch.allclose(mapped, F.layer_norm(x, (4,), weight, bias)))

# %% [markdown]
# ### Types that may meet
#
# Half-precision input may meet float32 parameters, because the statistics are computed in float32 anyway, and the output is half again. Any other mixture of floating-point types is refused, by us as by PyTorch on a CPU, with an error of the same type in all but a few odd cases (`normalized_shape=True`, or an integer `x` and weight with a bias of another type). GPUs and autocast have rules of their own.
#
# In one place PyTorch's own layer is less exact with parameters of half precision, or none: on a CPU it then *saves* the mean and the $1/\sqrt{\sigma^2+\epsilon}$ of each row in half precision, for the backward pass. In bfloat16, for rows of 64 numbers with mean 50 and standard deviation 1, its gradient in x was 1 to 2 % off in 16 draws of 32 rows, and 0.2 % with float32 parameters; ours was 0.2 % off with either.

# %%
rows = torch.zeros(2, 4)  # (B, D) float32
print("bfloat16 x, float32 layer:", nn.LayerNorm(4)(rows.bfloat16()).dtype)
for x, gain in [(rows.double(), torch.ones(4)), (rows, torch.ones(4).bfloat16())]:
    try:
        _check_inputs(x, (4,), gain, None)
    except RuntimeError as refused:
        print(refused)
for gain in (torch.ones(4).bfloat16(), torch.ones(4)):
    y, mean, rstd = torch.native_layer_norm(rows.bfloat16(), (4,), gain, None, 1e-5)
    print(f"weight {gain.dtype}: mean and rstd are saved as {mean.dtype}")

# %% [markdown]
# ### Weight decay and the gain
#
# AdamW shrinks every parameter that it gets by the factor $1 - \mathrm{lr} \cdot \mathrm{decay}$ at each step, by default too (0.01). That pulls a gain towards 0 and not towards 1. Here the gradient is 0 for 1,000 steps at learning rate 0.001 and decay 0.1.

# %%
layer = nn.LayerNorm(4)
optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.1)
for parameter in layer.parameters():
    parameter.grad = torch.zeros(4)
for _ in range(1000):
    optimizer.step()
show("gain", layer.weight)  # (1 - 0.0001) ** 1000

# %% tags=["hide-input"]
assert (layer.weight - (1 - 1e-4) ** 1000).abs().max() < 1e-4  # a thousand float32 products

# %% [markdown]
# Many recipes therefore leave gain and bias out of the decay. That is a convention, not a theorem. (Try a constant gradient of -1 instead: which decay makes the gain settle at 0.5? Does the learning rate matter?)
#
# ### The source on your disk
#
# `F.layer_norm` calls `torch.layer_norm`, which calls one operator, `native_layer_norm`. It returns the output and, for the backward pass, the mean and $1/\sqrt{\sigma^2+\epsilon}$ of every row.

# %%
x = torch.arange(120.0).reshape(2, 3, 4, 5) ** 2  # (B, C, H, W)
y, mean, rstd = torch.native_layer_norm(x, (4, 5), None, None, 1e-5)
print("y:", tuple(y.shape), "  mean:", tuple(mean.shape), "  rstd:", tuple(rstd.shape))

# %% tags=["hide-input"]
assert torch.equal(y, F.layer_norm(x, (4, 5)))  # the same operator

# %% [markdown]
# The operator's fast code is C++. The same arithmetic in Python comes with every installation, as a reference: `torch._refs`. Here are its last lines, as they are on *your* disk (other versions may differ), and after them the refusals, from a C++ header.

# %% tags=["nbval-ignore-output"]
reference = inspect.getsource(torch._refs._normalize).splitlines()
print(*reference[-6:], sep="\n")
header = Path(torch.__file__).parent / "include/ATen/native/layer_norm.h"
lines = header.read_text().splitlines()
start = next(i for i, line in enumerate(lines) if "!weight.defined() ||" in line)
print(*lines[start - 1 : start + 6], sep="\n")

# %% [markdown]
# | ours | torch._refs |
# |---|---|
# | `x.to(torch.promote_types(x.dtype, torch.float32))` | `_maybe_convert_to_dtype(a, computation_dtype)` |
# | `c = c - c.mean(...)`, twice | `a_acc - mean`, once |
# | `(c * c).mean(...)` | `torch.var_mean(..., unbiased=False)` |
# | `c / torch.sqrt(var + eps)` | `(a_acc - mean) * torch.rsqrt(biased_var + eps)` |
#
# `torch/_decomp/decompositions.py` holds the backward pass, `native_layer_norm_backward`. [Lesson 7](07_backward.ipynb) derives it.
#
# ### Evidence in one table
#
# Can your class take the place of `nn.LayerNorm`? Both get the same random parameters, through a `state_dict` there and back, and the same random gradient from above. The judge is neither of them, but `nn.LayerNorm` in float64. The tolerances are 2 to 45 times the rounding unit of each type (`torch.finfo(dtype).eps`), times the largest value; at offset 10,000 PyTorch itself needs a wider one.


# %% tags=["hide-input"]
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


def compare(cls, shape, size, dtype, offset=0.0, parameters=None, **options):
    """Largest error of cls and of nn.LayerNorm, output and gradients, same parameters."""
    g = torch.Generator().manual_seed(49)
    x, dy = torch.randn(2, *shape, dtype=torch.float64, generator=g)  # (..., *sizes) each
    x, dy = (x + offset).to(dtype), dy.to(dtype)
    theirs = nn.LayerNorm(size, **options).to(parameters or dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, generator=g)
    own = cls(size, **options).to(parameters or dtype)
    exact = nn.LayerNorm(size, **options).double()
    own.load_state_dict(theirs.state_dict())  # PyTorch to us
    exact.load_state_dict(own.state_dict())  # and back
    wanted = results(exact, x.double(), dy.double())
    return farthest(results(own, x, dy), wanted), farthest(results(theirs, x, dy), wanted)


tolerances = {
    torch.float64: 1e-14,
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
for shape, size, dtype, options in cases:
    own, theirs = compare(LayerNorm, shape, size, dtype, **options)
    limit = 0.02 if "offset" in options else tolerances[dtype]
    verdict = "both within" if max(own, theirs) < limit else "NOT within"
    named = ", ".join(f"{name}={value}" for name, value in options.items())
    print(
        f"{shape!s:13} {size!s:16} {str(dtype)[6:]:9} {verdict} {limit:.0e}  {named}".rstrip()
    )

# %% tags=["hide-input"]
for shape, size, dtype, options in cases:
    limit = 0.02 if "offset" in options else tolerances[dtype]
    assert max(compare(LayerNorm, shape, size, dtype, **options)) < limit

# %% [markdown]
# In these fourteen cases your class does what `nn.LayerNorm` does. It is slower, because every line of it walks through memory once more; [lesson 13](13_speed.ipynb) takes care of that.
#
# ### What is kept of your answers
#
# A function or class that passes its check is kept in `work/mine/`, with the helpers and imports that it needs: a module a lesson, here `affine_and_module.py`. In later lessons `from lessonkit.mine import LayerNorm` gives you your own, after it has passed its check again, and the course's where there is none; a line says which. `from fromscratch import LayerNorm` is the course's own in any case. In a notebook of your own in `work/`, write `from mine.affine_and_module import LayerNorm`.
# Nothing leaves your machine. Started with `LESSON_WORK=off make lab`, the course keeps nothing and uses its own.

# %% [markdown]
# ## On your own
#
# 1. Give `LayerNorm` a method that reads `OldNorm`'s checkpoints by itself (look up `_load_from_state_dict`).
# 2. Write `LayerNorm2d(C)`, the per-pixel layer, with `movedim` and with sums over axis 1. Which keeps the memory order of its input?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, equations 3 and 4: the statistics, then gain and bias (in a recurrent net); no epsilon is written there.
# - Ioffe & Szegedy (2015), *Batch Normalization*, section 3: that the layer "can represent the identity transform", for the statistics of one batch.
# - Liu et al. (2022), *A ConvNet for the 2020s*: the per-pixel layer.

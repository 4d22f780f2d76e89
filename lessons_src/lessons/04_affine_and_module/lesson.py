# %% [markdown]
# # 4 · Gain, bias and the module: a LayerNorm of your own
#
# A colleague's class, `OldNorm`, makes the four normalization layers of a net that reads digits. New layers of this class compute what `nn.LayerNorm` computes. So you replace the one by the other, and load what the old net has learned.

# %%
from numbers import Integral

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, plot, show
from lessonkit.mine import normalize  # of lesson 3: yours, if it was kept, else the course's

digits = data.digits_split()
print(f"{len(digits.x_train)} digits to learn from, {len(digits.x_test)} to test with")


# %% tags=["export", "hide-input"]
# The colleague's layer and net: do not look.
class OldNorm(nn.Module):
    """Section 4.5 asks what it does."""

    def __init__(self, D):
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:]) * (1 + self.gain) + self.offset


def _make_net(norm):
    """Four layers of 64 units, each with a norm, between 64 pixels and 10 scores; float64."""
    blocks = [nn.Sequential(nn.Linear(64, 64), norm(64), nn.ReLU()) for _ in range(4)]
    return nn.Sequential(nn.Flatten(), *blocks, nn.Linear(64, 10)).double()


def _old_net(digits):
    """Return a net of OldNorm after five epochs with plain SGD and momentum."""
    torch.manual_seed(4)
    net, g = _make_net(OldNorm), torch.Generator().manual_seed(4)
    x_train = digits.x_train.double()  # (1297, 8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    for _ in range(5):
        for batch in torch.randperm(len(x_train), generator=g).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x_train[batch]), digits.y_train[batch]).backward()
            optimizer.step()
    return net


def _accuracy(net, digits):
    """Return the share of the test digits that a net reads, 0 to 1."""
    scores = net(digits.x_test.double())  # (500, 10)
    return (scores.argmax(-1) == digits.y_test).double().mean().item()


# %%
old_net = _old_net(digits)
print(f"the old net reads {_accuracy(old_net, digits):.0%} of the test digits")
checkpoint = old_net.state_dict()  # {name: tensor}
new_net = _make_net(nn.LayerNorm)
try:
    new_net.load_state_dict(checkpoint)
except RuntimeError as error:
    print(str(error).replace("\n\t", "\n"))

# %% [markdown]
# A **checkpoint** is what a net has learned: a dictionary from names to tensors. PyTorch wants a `weight` and a `bias`, and finds a `gain` and an `offset`. Rename them.

# %%
renamed = {}
for key, tensor in checkpoint.items():
    renamed[key.replace("gain", "weight").replace("offset", "bias")] = tensor
print(new_net.load_state_dict(renamed))
print(f"the new net reads {_accuracy(new_net, digits):.0%}")

# %% [markdown]
# Every key fits, and the new net guesses: chance is one digit in ten. [Section 4.5](#4.5-Clinic:-every-key-matched,-and-the-net-cannot-read) heals it.
#
# <details><summary>How sure is that?</summary>
#
# The old nets read {checkpoints.old:range}, the renamed ones {checkpoints.renamed:range}. {checkpoints:again} Their gains had moved by {checkpoints.gains:max} at most. After 30 epochs at ten times the rate they had moved by {moved_gains.gains:range}, and the renamed nets read {moved_gains.renamed:range}, where the old ones read {moved_gains.old:range}. {moved_gains:again}
#
# </details>
#
# *About 58 min, in two sittings of 33 and 25.* **You'll be able to**
# - say what gain and bias can do, and what they cannot;
# - write LayerNorm over any trailing shape, as a module that exchanges checkpoints with PyTorch;
# - find out what the numbers of a checkpoint mean.
#
# **You need** [lesson 2](02_statistics.ipynb) (mean, variance, axes) and [lesson 3](03_epsilon.ipynb) ($\epsilon$, half precision).

# %% [markdown]
# ## 4.1 One gain and one bias for each feature
#
# After normalizing, LayerNorm multiplies each feature by a number of its own, its **gain** $\gamma$, and adds a second one, its **bias** $\beta$, both learned. Here they are set so that the result $y$ is the row $x$ again.

# %%
explore.row(x=[1, 4, 2, -2, 0], gain=[2] * 5, bias=[1] * 5, eps=0, parts=["affine"])

# %% [markdown]
# **Find out:** press *shift all*. Does $y$ follow? Which gains and biases would it take for $y$ to be $x$ again?
#
# <details><summary>What there is to find</summary>
#
# $y$ stands still, because $\hat x$ does. The biases would have to be 3, the new mean; the gains stay 2, the standard deviation. So gains and biases give back the deviation and the mean of one row, and the next row has its own.
#
# </details>
#
# Now the row in numbers, and the same numbers in a different order:

# %%
x = torch.tensor([[1.0, 4.0, 2.0, -2.0, 0.0], [-2.0, 0.0, 1.0, 4.0, 2.0]])  # (B, D) = (2, 5)
x_hat = normalize(x, eps=0.0)  # (B, D)
show("x_hat", x_hat, digits=1)

# %% [markdown]
# **Predict 4.1:** both rows get the gains 4, 2, 4, 2, 2 and then the biases 1, 0, 2, 1, 1. Which means do the two rows of $y$ have?
# - [ ] 0 and 0 :: That is the mean of $\hat x$. The biases alone would make it 1.
# - [x] two different numbers :: Two of the entries are multiplied by 4, and these differ from row to row. The means are 1.2 and 0.4.
# - [ ] 1 and 1 :: The biases add 1 to each mean. But the gains weigh some entries of $\hat x$ more than others, so that the weighted entries no longer sum to 0.

# %%
gain = torch.tensor([4.0, 2.0, 4.0, 2.0, 2.0])  # (D,)
bias = torch.tensor([1.0, 0.0, 2.0, 1.0, 1.0])  # (D,)
y = gain * x_hat + bias  # (B, D)
show("y", y, digits=1)
show("means", y.mean(-1), digits=1)

# %% [markdown]
# In letters, where $\odot$ multiplies entry by entry:
#
# $$y = \gamma \odot \hat x + \beta$$
#
# PyTorch calls the two `weight` and `bias`. They start at 1 and 0, so a new layer only normalizes.
#
# **Mean and variance belong to a row. Gain and bias belong to a feature, and all rows share them.**


# %% tags=["hide-input"]
# Draws what belongs to a row and what to a column.
rows = torch.cat([x, 2 * x[:1]])  # (3, D)


def cell(ax, left, low, fill, edge, wide=1.0):
    right = left + wide
    ax.fill([left, right, right, left], [low, low, low + 1, low + 1], fc=fill, ec=edge, lw=1.2)


def draw(ax):
    blue, gray = plot.COLORS["LayerNorm"], "#3C464D"
    middle = dict(ha="center", va="center")
    for i, row in enumerate(rows):
        for j, value in enumerate(row.tolist()):
            cell(ax, j, -i, "white", "#888888")
            ax.text(j + 0.5, 0.5 - i, f"{value:g}".replace("-", "−"), **middle)
        cell(ax, 5.4, -i, "#DCEBF5", blue, wide=2.4)
        own = f"mean {row.mean():g}, variance {row.var(correction=0):g}"
        ax.text(6.6, 0.5 - i, own, color=blue, fontsize=10, **middle)
        ax.text(-0.2, 0.5 - i, f"row {i + 1}", ha="right", va="center")
    for j in range(5):
        cell(ax, j, -3.4, "#E6E9EC", gray)
        ax.text(j + 0.5, -2.9, f"· {gain[j]:g}\n+ {bias[j]:g}", color=gray, **middle)
        ax.text(j + 0.5, 1.2, f"feature {j + 1}", ha="center", fontsize=10)
    ax.text(-0.2, -2.9, "gain, bias", ha="right", va="center", color=gray)
    ax.set(xlim=(-1.5, 7.9), ylim=(-3.5, 1.6))
    ax.set_axis_off()


plot.figure(
    draw,
    size=(7.6, 3.3),
    title="Mean and variance run along a row, gain and bias down a column",
    caption="The two rows from above, and twice the first. The second has the first one's mean "
    "and variance, because it has the same numbers.",
    alt="A table of three rows and five features. Beside each row stand its own mean and "
    "variance: 1 and 4, 1 and 4, 2 and 16. Below each column stands one gain and one bias, "
    "which all three rows share.",
)

# %% [markdown]
# ## 4.2 What gain and bias cannot do
#
# Could a net learn gains and biases that undo the normalization? For one row, yes: you have seen $y = x$. But the shifted row gave the same $\hat x$.
#
# **Rows with the same $\hat x$ get the same $y$: gain and bias cannot give each its own mean and deviation back.**
#
# <details><summary>When this holds</summary>
#
# Always. A shifted row has the same $\hat x$; a stretched one as long as $\epsilon$ is small beside the variance ([lesson 3](03_epsilon.ipynb)).
#
# </details>
#
# What do they add, then? Take one feature with gain 2 and bias 1, and after it a linear layer with weight 3 and bias 4:
#
# $$3\,(2\hat x + 1) + 4 = 6\hat x + 7$$
#
# A linear layer with weight 6 and bias 7 does the same alone. To **fold** gain and bias into the next layer is to change its weight and bias so that it does their work as well.
#
# Now two features, on paper. With the gains 2 and 3 and the biases 1 and −1, what enters the linear layer is $z_1 = 2\hat x_1 + 1$ and $z_2 = 3\hat x_2 - 1$. It makes of them
#
# $$o = z_1 + 4 z_2 + 5$$

# %% tags=["exercise"] id="ex-4-1"
# Exercise 4.1 · ●●○○○ · 2 min
# The linear layer into which gain and bias are folded, found on paper.
# Example: o = 6 x_hat_1 - 7 x_hat_2 + 8 would be typed as dict(o=[6, -7], b=8).
# Copy this line and replace the dots, o by two numbers in square brackets:
# folded = dict(o=..., b=...)
### BEGIN SOLUTION
folded = dict(o=[2, 12], b=2)
### END SOLUTION

# %% tags=["check"]
check.folded(folded)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Put $3\hat x_2 - 1$ in the place of $z_2$, in brackets, and multiply out. One part belongs to $\hat x_2$, the other to what is added.
#
# </details>
#
# **Directly before a linear layer with a bias, gain and bias add nothing that it could not do alone.**
#
# <details><summary>When this holds</summary>
#
# Where nothing else reads $y$, as a *residual connection* does, a way around a layer. The folded layer computes the same, but it may train differently. With a ReLU in between, as in our net, only the gain's size can be folded ([Deeper](#Folding-further)).
#
# </details>

# %% [markdown]
# ## 4.3 Any trailing shape
#
# What if more than the last axis is normalized together? `normalized_shape` lists the **sizes** of these axes, always the last ones. Gain and bias have the same shape.
#
# | x | normalized_shape | axes | gains |
# |---|---|---|---|
# | (B, D) | (D,) | -1 | D |
# | (B, T, C) | (C,) | -1 | C |
# | (B, C, H, W) | (C, H, W) | -3, -2, -1 | C · H · W |
#
# First the statistics, over as many of the last axes as there are sizes.


# %% tags=["exercise", "export"] id="ex-4-2"
# Exercise 4.2 · ●●●○○ · 3 min
def normalize_over(x, sizes, eps=1e-5):
    """Normalize the last axes of x together; they have these sizes.

    Example: the block 0, 1 over 2, 5 with sizes=(2, 2), eps=0.5 gives -1, -0.5 over 0, 1.5.
    x: (..., *sizes) float32 or float64. sizes: a tuple. Returns x's shape and dtype.
    eps is added to the biased variance, under the root.
    """
    ### BEGIN SOLUTION
    axes = tuple(range(-len(sizes), 0))  # (-1,), (-2, -1), ...
    c = x - x.mean(axes, keepdim=True)
    c = c - c.mean(axes, keepdim=True)  # what rounding left of the mean
    var = (c * c).mean(axes, keepdim=True)
    return c / torch.sqrt(var + eps)
    ### END SOLUTION


# %% tags=["check"]
check.normalize_over(normalize_over)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# One axis and two, a batch as large as a row, eps of 0, rows far from 0. The result can be differentiated twice and mapped by `torch.func.vmap`, as plain tensor operations can, and x is left as it is.
#
# </details>
#
# <details><summary>Hint</summary>
#
# The axes: `tuple(range(-2, 0))` is `(-2, -1)`, and `c.mean(axes, keepdim=True)` takes several at once.
# With `c` for the centered numbers, the variance is the mean of `c * c` over the same axes.
#
# </details>
#
# Then the function around it. Half precision needs float32 inside, because squares overflow in float16, and bfloat16 rounds to two digits ([lesson 3](03_epsilon.ipynb)). Two helpers are given: `_sizes` makes a tuple of `normalized_shape`, and `_check_inputs` refuses what does not fit.


# %% tags=["export", "hide-input"]
# Makes a tuple of normalized_shape.
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
# Refuses shapes and types that do not fit.
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
        names = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise RuntimeError(
            f"mixed dtype: x is {str(x.dtype).removeprefix('torch.')}, weight and bias are "
            f"{names}. Expected one type for all, or float32 parameters with float16 or "
            "bfloat16 x. Convert x with x.to(weight.dtype), or the layer."
        )
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise NotImplementedError(
            f"layer_norm is not implemented for {x.dtype}. Convert x first, with x.float()."
        )


# %% tags=["exercise", "export"] id="ex-4-3"
# Exercise 4.3 · ●●●○○ · 4 min
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axes of x, with your normalize_over.

    Example: x = [0, 1, 2, 5], 4, weight = [2, 2, 2, 2], eps=0.5 gives [-2, -1, 0, 3].
    x: (..., *normalized_shape), any float type. Returns x's shape and type.
    weight, bias: of shape normalized_shape, or None, each for itself.
    Half precision becomes float32 and is rounded once, at the end; float64 stays float64.
    """
    sizes = _sizes(normalized_shape)  # a tuple, (4,) or (3, 4)
    _check_inputs(x, sizes, weight, bias)
    x = x.contiguous()  # a transposed x gives a result in plain order, as PyTorch's
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
    y = normalize_over(wide, sizes, eps)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)
    ### END SOLUTION


# %% tags=["check"]
check.layer_norm(layer_norm)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# eps of 0, no rows, the second derivative, `torch.func.vmap`, and x afterwards. It has to be plain tensor operations, none of them in place, without PyTorch's own norms.
#
# </details>
#
# <details><summary>Hint</summary>
#
# `x.to(torch.promote_types(x.dtype, torch.float32))` makes half precision float32, and float64 stays. Give the result another name: you need x's type at the end.
# Multiply and add only what is not `None`, and end with `.to(x.dtype)`.
#
# </details>

# %% [markdown]
# ## What you have now
#
# - **Directly before a linear layer with a bias, gain and bias can be folded into it.**
#
# **You can stop here:** close the notebook, and write both functions from memory, for the last axis alone. Then fold the gain 5 and the bias 2 into $3z + 1$.
#
# *Sitting two* heals the net that cannot read, with a class of yours.

# %% [markdown]
# ## 4.4 The module

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.affine_and_module import OldNorm, _accuracy, _make_net, _old_net, _sizes
from lessonkit import check, data, plot, show
from lessonkit.mine import layer_norm, normalize

digits = data.digits_split()
old_net = _old_net(digits)
checkpoint = old_net.state_dict()

# %% [markdown]
# **Recall 4.1:** a row has the variance 3, and $\epsilon$ is 1. Which variance does the row have after normalizing?
# - [ ] 1 :: Only at $\epsilon = 0$. The row is divided by a little more than its deviation.
# - [x] 3/4 :: The row is divided by $\sqrt{3 + 1}$, so its variance is divided by 4.
# - [ ] 4 :: That is what the variance is divided by.
#
# Your function does the mathematics. What is left for the class? It decides what an optimizer sees, and what a checkpoint holds, the net's `state_dict()`. Why not let `forward` make the gain, when it sees the first row and knows its size? An optimizer reads `net.parameters()` once, when it is made, and nobody tells it of a parameter that comes later. So this gain would have a gradient, and stay 1.
#
# <details><summary>And PyTorch's lazy layers?</summary>
#
# `nn.LazyLinear` learns its sizes from the first batch, too. But it makes a Parameter without numbers at once, which an optimizer can hold, and fills it later.
#
# </details>
#
# Four rules:
#
# 1. Gain and bias are `nn.Parameter`s, **made in `__init__`**.
# 2. They are **called `weight` and `bias`**.
# 3. What is not wanted is **registered as `None`**, so that its name is kept for a Parameter. Press Tab behind `nn.Module.register_`.
# 4. You **define `forward` and call the layer**. *Hooks*, functions that PyTorch runs at each call, are skipped by `layer.forward(x)`.
#
# Two places are yours, one in the loop and one in `forward`.


# %% tags=["exercise", "export"] id="ex-4-4"
# Exercise 4.4 · ●●●○○ · 3 min
class LayerNorm(nn.Module):
    """LayerNorm with a learned gain and bias, as torch.nn.LayerNorm has it.

    Example: LayerNorm((3, 4), bias=False) has a weight of shape (3, 4), all 1; bias is None.
    normalized_shape: sizes of the last axes, an int, a list, a tuple or a torch.Size.
    weight, bias: Parameters of that shape, first 1 and 0, or None, registered.
    elementwise_affine=False: neither, whatever bias says. bias=False: a gain alone.
    device, dtype: where and as what they are made.
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
#
# Names and shapes are PyTorch's, so that each of the two classes reads the other's checkpoints.
#
# <details><summary>When this holds</summary>
#
# For all options of the constructor, in the four float types. It is not PyTorch's in all: `isinstance(own, nn.LayerNorm)` is false, so tools that look for that class do not see it; `torch.jit.script` and `fx.symbolic_trace` do not read it; it refuses `normalized_shape=()`; its `forward` may call its argument something else than `input`; and a row whose squares overflow (1e20 in float32) can give 0 where PyTorch gives `nan`.
#
# `bias=False` drops $\beta$ alone; RMSNorm ([lesson 8](08_geometry.ipynb)) drops the *mean*.
#
# </details>

# %% [markdown]
# ## 4.5 Clinic: every key matched, and the net cannot read
#
# Why does the renamed net guess? New layers of both kinds agree, and the linear layers were not touched. So the numbers of the norms must mean different things. `ask` makes an `OldNorm`, sets all its gains and offsets to numbers of yours, and gives it a row of yours.


# %% tags=["hide-input"]
# Asks an OldNorm what it makes of a row.
def ask(row, gain=0.0, offset=0.0):
    """Print x_hat of a row, and the output of an OldNorm with these gains and offsets."""
    layer, x = OldNorm(len(row)), torch.tensor(row, dtype=torch.float32)  # x: (D,)
    nn.init.constant_(layer.gain, gain)
    nn.init.constant_(layer.offset, offset)
    show("x_hat ", normalize(x), digits=2)
    show("output", layer(x), digits=2)


# %%
ask([4.0, 4.0, 4.0, 4.0], gain=0.0, offset=0.0)

# %% [markdown]
# **Find out:** by what does `OldNorm` multiply $\hat x$ where its gain is $g$? It could be $g$, $1 + g$, $e^g$, or something without $g$. And what becomes of the offset? Write your guess down, then ask until one formula is left.
#
# <details><summary>What there is to find</summary>
#
# Rows of equal numbers tell nothing about the factor, because $\hat x$ is 0, and at the gain 0 three of the four formulas agree: only $g$ itself is out. With the gain 2 and the row 0, 4, 8, 12 the output is three times $\hat x$: $e^2$ is about 7, so $1 + g$ is left of the four. But $1 + g^2/2$ would be 3 as well. A second gain rules it out: at −1 the factor is 0. The offset is added as it is.
#
# </details>
#
# Now write the translation that was needed.


# %% tags=["exercise"] id="ex-4-5"
# Exercise 4.5 · ●●●○○ · 4 min
def translated(state):
    """Turn a checkpoint of a net with OldNorm into one of the same net with nn.LayerNorm.

    Example: {"0.bias": b, "1.offset": o} becomes {"0.bias": b, "1.bias": o}.
    state: a dict {name: tensor}. Returns a new dict.
    What belongs to an OldNorm has a name whose last part, after the last dot, is "gain" or
    "offset": "2.gain", or just "gain". It becomes what nn.LayerNorm needs, name and tensor.
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
# <details><summary>What it is tried on</summary>
#
# `state` and its tensors are left as they are, each tensor keeps its dtype, and all others are handed on, also `gain_head.weight`.
#
# </details>
#
# <details><summary>Hint</summary>
#
# Go through `state.items()` and fill a new dictionary. `"block.norm.gain".rpartition(".")` is `("block.norm", ".", "gain")`, and of `"gain"` it is `("", "", "gain")`.
#
# </details>

# %%
new_net, theirs = _make_net(LayerNorm), _make_net(nn.LayerNorm)  # of your class, of PyTorch's
print(new_net.load_state_dict(translated(checkpoint)))
print("to PyTorch's:", theirs.load_state_dict(new_net.state_dict()))
print(f"old net {_accuracy(old_net, digits):.0%}, new net {_accuracy(new_net, digits):.0%}")
x_test = digits.x_test.double()  # (500, 8, 8)
for name, net in {"new net": new_net, "PyTorch's": theirs}.items():
    print(f"{name:9} gives the old outputs:", torch.allclose(net(x_test), old_net(x_test)))

# %% [markdown]
# The net reads again. Renaming alone had made a factor near 0 out of one near 1. This does happen: the language models Gemma 1 to 3 store their gains as $\gamma - 1$, and a loader that did not add the 1 "silently produced garbage" ([ExecuTorch, pull request 19901](https://github.com/pytorch/executorch/pull/19901)).
#
# **A checkpoint holds names, shapes and numbers, but not what they mean.**
#
# <details><summary>Why outputs are compared, and not the accuracy</summary>
#
# `load_state_dict(checkpoint, strict=False)` skips every name that does not fit: the gains stay 1, the biases 0, and what the norms have learned is lost. In {checkpoints:runs} of five epochs, as here, the accuracy changed by {checkpoints.skipped:mean} on average, the outputs by {checkpoints.apart:min} or more. After 30 epochs at ten times the rate the accuracy changed by {moved_gains.skipped:mean} on average, the outputs by {moved_gains.apart:min} or more. So the outputs showed in every run what was lost, and the accuracy where the norms had learned much. {moved_gains:again} Nor does a checkpoint hold $\epsilon$.
#
# </details>

# %% [markdown]
# ## Take-away
#
# - Gain and bias give each feature a scale and a level, and cannot tell rows with the same $\hat x$ apart.
# - A module that exchanges checkpoints with PyTorch's has Parameters `weight` and `bias`, made in `__init__`, or `None` registered.
# - A checkpoint that loads can still be wrong. Two gains that are not 0, and a row that is not constant, tell what its numbers mean.
#
# **Formula card**
#
# $$\mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} \qquad y_i = \gamma_i\,\hat x_i + \beta_i$$

# %% [markdown]
# ## Deeper (optional, 7 min)
#
# ### Folding further
#
# For $\gamma \ne 0$, feature by feature, $\mathrm{relu}(\gamma \hat x + \beta) = |\gamma|\ \mathrm{relu}\big(\mathrm{sign}(\gamma)\,\hat x + \beta/|\gamma|\big)$. So $|\gamma|$ can move through the ReLU into the next linear layer, while the sign and $\beta/|\gamma|$ stay.
#
# The subtraction of the mean can be folded, too, into the linear layer *before* the norm. Subtract from $W$ its column means and from $b$ its mean; then every output row has mean 0, and RMSNorm, which divides by the root mean square and subtracts nothing, is all that is left of LayerNorm.

# %%
g = torch.Generator().manual_seed(43)
x = torch.randn(4, 5, dtype=torch.float64, generator=g)  # (B, in)
W, b = torch.randn(6, 5, dtype=torch.float64, generator=g), torch.arange(6.0).double()
norm_after = F.layer_norm(F.linear(x, W, b), (6,))  # (B, D)
centered = F.linear(x, W - W.mean(0), b - b.mean())  # (B, D)
print("the same:", torch.allclose(F.rms_norm(centered, (6,), eps=1e-5), norm_after))

# %% [markdown]
# Dividing by $\sigma$ can be folded into neither side, because each row has its own. (BatchNorm in `eval()` divides by fixed numbers, and can be folded whole: [lesson 6](06_batchnorm.ipynb).)

# %% [markdown]
# ### Images: three layers, one name
#
# On images (B, C, H, W) three different layers are called LayerNorm. Here they are for the shape (2, 3, 4, 5):
#
# | | in PyTorch | means | gains | used in |
# |---|---|---|---|---|
# | **LayerNorm([C, H, W])** | `nn.LayerNorm([3, 4, 5])` | 2 | 60 | PyTorch's manual |
# | **LayerNorm per pixel** | `nn.LayerNorm(3)`, with C moved to the end and back | 40 | 3 | ConvNeXt |
# | **GroupNorm(1, C)** | `nn.GroupNorm(1, 3)` | 2 | 3 | PoolFormer |

# %% tags=["hide-input"]
# Draws which numbers share a mean.
shape = dict(B=2, C=3, H=4, W=5)
plot.cubes(
    {
        "LayerNorm([C, H, W]), GroupNorm(1, C)": dict(shape=shape, over=("C", "H", "W")),
        "LayerNorm per pixel": dict(shape=shape, over=("C",)),
    },
    title="Two of the three take a mean over each image, one over each pixel",
    caption=(
        "Cells of one color that touch share one mean and one variance; dark blue is the first "
        "such group. Not drawn are gain and bias."
    ),
    alt=(
        "Two batches of two images with 3 channels, 4 rows and 5 columns. In the first each "
        "image is one group of 60 cells, 2 means in all; in the second the 3 channels of each "
        "pixel are one group, 40 means in all."
    ),
)

# %% [markdown]
# The first one is tied to one image size. And `nn.LayerNorm(C)` takes the **last** axis: if the width happens to equal C, it normalizes along the width, and no error says so.
#
# **Say which of the three you mean, and test with a width that differs from C.**
#
# <details><summary>And on other shapes?</summary>
#
# On vectors (B, C) `nn.GroupNorm(1, C)` and `nn.LayerNorm(C)` compute the same. On sequences (B, C, T) the first takes its mean over C and T, and the LayerNorm of a Transformer over C alone.
#
# </details>

# %% [markdown]
# ### Centering twice
#
# The course's `layer_norm` subtracts the mean a second time. Far from 0 the mean is rounded, and what is missing is then missing in every entry; the mean of the centered row is what is left of it.

# %%
g = torch.Generator().manual_seed(46)
x = torch.randn(64, 32, generator=g) + 10_000  # (B, D) float32
exact = F.layer_norm(x.double(), (32,))  # (B, D)
off = [(y - exact).abs().max().item() for y in (F.layer_norm(x, (32,)), layer_norm(x, 32))]
print("F.layer_norm is off by less than 0.000001:", off[0] < 1e-6)
print("layer_norm   is off by less than 0.000001:", off[1] < 1e-6)

# %% [markdown]
# If the second line says `False`, yours centers once, as PyTorch's does, which passes the check, too.
#
# ### Types that may meet
#
# Half-precision input may meet float32 parameters, because the statistics are computed in float32 anyway, and the output is half again. Any other mixture of float types is refused, here as by PyTorch on a CPU.

# %%
rows = torch.zeros(2, 4)  # (B, D) float32
print("bfloat16 x, float32 layer:", LayerNorm(4)(rows.bfloat16()).dtype)
try:
    LayerNorm(4)(rows.double())
except RuntimeError as refused:
    print(refused)

# %% [markdown]
# ### Weight decay and the gain
#
# AdamW shrinks every parameter that it gets by the factor $1 - \mathrm{lr} \cdot \mathrm{decay}$ at each step, by default too (0.01). That pulls a gain towards 0. What does it do to `OldNorm`, which stores $\gamma - 1$? Here both begin with the factor 1.5, and the gradient is 0 for 1,000 steps at learning rate 0.001 and decay 0.1.

# %%
weight, stored = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(0.5))
optimizer = torch.optim.AdamW([weight, stored], lr=1e-3, weight_decay=0.1)
weight.grad = stored.grad = torch.tensor(0.0)
for _ in range(1000):
    optimizer.step()
show("nn.LayerNorm's factor", weight)  # 1.5 * (1 - 0.0001) ** 1000
show("OldNorm's factor     ", 1 + stored)

# %% [markdown]
# One is pulled towards 0, the other towards 1, as a new layer has it. Many recipes leave gain and bias out of the decay. That is a convention, not a theorem.
#
# ### The source on your disk
#
# `F.layer_norm` calls `torch.layer_norm`, which calls one operator, `native_layer_norm`. It returns the output and, for the backward pass, the mean and $1/\sqrt{\sigma^2+\epsilon}$ of every row. The operator's fast code is C++, on a GPU CUDA. The same arithmetic in Python comes with every installation, as a reference: `torch._refs`. Here are its last lines, as they are on *your* disk (other versions may differ).

# %% tags=["nbval-ignore-output"]
import inspect

reference = inspect.getsource(torch._refs._normalize).splitlines()
print(*reference[-6:], sep="\n")

# %% [markdown]
# `torch/_decomp/decompositions.py` holds the backward pass, `native_layer_norm_backward`. [Lesson 7](07_backward.ipynb) derives it.

# %% [markdown]
# ## On your own
#
# Give the `LayerNorm` of your own package, `work/mine/affine_and_module.py`, a method that reads `OldNorm`'s checkpoints by itself (look up `_load_from_state_dict`). It passes its check as before.
#
# Your layer can now read the checkpoints of PyTorch's, and take its place; it still cannot turn a row into shares that add up to 1, as softmax does: [lesson 5](05_softmax.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, equations 3 and 4: the statistics, then gain and bias.
# - Ioffe & Szegedy (2015), *Batch Normalization*, section 3: that the layer "can represent the identity transform".

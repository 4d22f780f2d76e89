# %% [markdown]
# # 6 · LayerNorm and BatchNorm: who shares a mean with whom
#
# **What you'll do:** build Batch Normalization in three steps, put it beside Layer Normalization, and measure what it costs that a sample depends on its neighbors. *(about 50 min; the parts marked optional are extra, some 25 min more, and nothing later relies on them)*
#
# **You'll be able to**
# - say for four norms and four layouts which axes are reduced, and how many statistics, parameters and buffers there are (one table, 6.6);
# - write a BatchNorm that agrees with PyTorch in output, buffers and gradient;
# - say how far training and evaluation lie apart at a batch size, and why LayerNorm has no such gap;
# - name the four limits of BatchNorm and say what holds of each (6.5).
#
# **You need:** lessons [2](02_statistics.ipynb) to [4](04_affine_and_module.ipynb) (mean and variance, epsilon, gain and bias, `nn.Module`).

# %%
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import mean_and_var, normalize
from lessonkit import (
    check,
    data,
    plot,
    show,
    train,
)  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 6.1 The other axis
#
# Four people, three features: height in cm, age in years, shoe size.
# LayerNorm takes the mean of each **row**, BatchNorm the mean of each **column**.
#
# **Predict:** which of the two makes sense for this table? And in which of them does a person's result depend on the other three?

# %%
# (B, C) = (4, 3)
people = torch.tensor([[160.0, 25, 36], [172, 61, 41], [181, 40, 44], [191, 34, 47]])
show("LayerNorm", F.layer_norm(people, (3,)), 2)
show("BatchNorm", F.batch_norm(people, None, None, training=True), 2)

# %% [markdown]
# LayerNorm compares a height with an age and a shoe size: every row comes out as "the first number is the large one".
# BatchNorm compares a height with the other heights. For a table of unlike quantities that is the sensible thing; statisticians call it standardizing.
# The hidden units of a network are alike, so there both can be done, and the question becomes **whom a sample may look at**.

# %%
plot.cubes(
    {
        "LayerNorm: over C": dict(shape=dict(B=4, C=3), over=("C",)),
        "BatchNorm: over B": dict(shape=dict(B=4, C=3), over=("B",)),
    },
    title="LayerNorm stays inside a sample, BatchNorm goes across the batch",
    caption="The same 4 × 3 matrix twice. The dark cells share one mean and one variance: a "
    "row for LayerNorm, a column for BatchNorm.",
    alt="Two matrices of four rows and three columns. For LayerNorm one row is colored, for "
    "BatchNorm one column.",
)

# %% [markdown]
# The arithmetic is that of lesson 3. So, for a matrix, BatchNorm in training is our `normalize` on the transposed matrix.
# (A set of public notes describes LayerNorm as the mean and variance across a batch: that is this layer, not LayerNorm.)

# %%
by_columns = normalize(people.T).T  # (C, B) -> (B, C)
theirs = F.batch_norm(people, None, None, training=True)
assert torch.allclose(by_columns, theirs, atol=1e-5)  # float32, numbers near 190

# %% [markdown]
# For a batch of series, (B, C, T), a channel has $B \cdot T$ entries: all samples and all time steps count.
# PyTorch's BatchNorm always keeps **axis 1** and reduces every other one.


# %% tags=["exercise", "export"] id="ex-6-1"
# Exercise 6.1 · ●●○○○ · 5 min
def channel_stats(x):
    """Return the mean and the biased variance of each channel of x.

    x: (B, C) or (B, C, T) float tensor; the channels are axis 1. It stays as it is.
    Returns (mean, var), both of shape (C,) and of x's dtype: over all axes but axis 1, divided
    by the number of entries. Gradients flow through both. A large mean costs var no digits.
    """
    ### BEGIN SOLUTION
    rows = x.transpose(0, 1).flatten(1)  # (C, B) or (C, B * T): one row for each channel
    mean, var = mean_and_var(rows)  # (C, 1)
    return mean.squeeze(-1), var.squeeze(-1)  # (C,)
    ### END SOLUTION


# %% tags=["check"]
check.channel_stats(channel_stats)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Bring axis 1 to the front with `transpose(0, 1)`, flatten the rest, and it is a matrix with a row for each channel: `mean_and_var` of lesson 2 does that.
# Or give `x.mean` and `x.var` a list of axes: all but 1.
#
# </details>
#
# ## 6.2 Your neighbors decide
#
# **Predict:** the fourth person grows to 250 cm. Which numbers of the *first* person change?

# %%
taller = people.clone()
taller[3, 0] = 250
batch_change = F.batch_norm(taller, None, None, training=True) - F.batch_norm(
    people, None, None, training=True
)  # (B, C)
row_change = F.layer_norm(taller, (3,)) - F.layer_norm(people, (3,))  # (B, C)
show("BatchNorm, change of the first person", batch_change[0], 2)
show("LayerNorm, change of the first person", row_change[0], 2)
assert (row_change[:3] == 0).all()  # bit for bit: a row is computed from that row alone

# %% [markdown]
# With BatchNorm the first person's height changes, and only the height: columns do not mix. This person did nothing,
# stood 1.40 deviations below the mean and now stands 0.88 below it. With LayerNorm nothing changes.
#
# The gradient takes the same way back. A loss that reads only row 0 sends gradients to these rows:

# %%
g = torch.Generator().manual_seed(62)
x = torch.randn(5, 4, generator=g).requires_grad_()  # (B, C)
upstream = torch.randn(4, generator=g)  # (C,)
# a loss of row 0 alone:
(F.batch_norm(x, None, None, training=True)[0] * upstream).sum().backward()
batch_rows = (x.grad != 0).any(-1)  # (B,)
x.grad = None
(F.layer_norm(x, (4,))[0] * upstream).sum().backward()
print("rows with a gradient, BatchNorm:", batch_rows.tolist())
print("rows with a gradient, LayerNorm:", (x.grad != 0).any(-1).tolist())

# %% [markdown]
# How much do the neighbors matter? Take one sample whose feature is 1.5, and neighbors from a Gaussian with mean 0 and deviation 1.
# Draw the neighbors anew a thousand times and look at what BatchNorm makes of the 1.5.


# %%
def with_neighbors(B):
    """1,000 batches of B samples; the first sample is always 1.5. Returns its 1,000 outputs."""
    g = torch.Generator().manual_seed(B)
    batches = torch.randn(B, 1000, generator=g)  # (B, draws): each column is one batch
    batches[0] = 1.5
    return F.batch_norm(batches, None, None, training=True)[0]  # (draws,)


outputs = {f"batch of {B}": with_neighbors(B) for B in (2, 8, 32, 128)}

# %%
plot.hist(
    outputs,
    title="The smaller the batch, the more the neighbors decide",
    x="what BatchNorm makes of the same 1.5",
    xlim=(-2, 3),
    bins=50,
    colors={name: "BatchNorm" for name in outputs},
    caption="1,000 draws of the neighbors for each batch size. With infinitely many neighbors "
    "the output would be 1.5. In a batch of two it is −1 or 1, whichever neighbor comes.",
    alt="Four histograms. For a batch of two only the values minus one and one occur; for 8, "
    "32 and 128 the outputs gather ever closer around 1.5.",
)

# %% [markdown]
# A batch of two holds one bit for each feature: who is larger. (eps moves the values a little toward 0.)
#
# **Predict:** and a batch of one?

# %%
show(
    "a batch of two",
    F.batch_norm(torch.tensor([[3.0, -5.0], [3.5, 70.0]]), None, None, training=True),
)
try:
    F.batch_norm(people[:1], None, None, training=True)
except ValueError as error:
    print(error)

# %% [markdown]
# One value minus its own mean is 0, whatever it was. PyTorch refuses, rather than return the bias for every input.
# (An image or a series in a batch of one is fine: its channel has many pixels or time steps.)
#
# ## 6.3 What evaluation uses instead
#
# A trained network must answer for **one** sample, and the answer should not depend on who else is asked about.
# So BatchNorm has two modes. In training it uses the batch, and on the side it keeps a running mean and a running variance of each channel.
# In evaluation those stand in for the batch.
#
# $$\text{running} \leftarrow (1 - m)\cdot\text{running} + m\cdot\text{newest}$$
#
# They start at mean 0 and variance 1. PyTorch calls $m$ the **momentum**, 0.1 by default.
#
# **Predict:** the running mean of the heights after one batch (the mean height is 176 cm).

# %%
layer = nn.BatchNorm1d(3)  # in training mode, like every new module
layer(people)
show("mean of the batch ", people.mean(0))
show("running mean      ", layer.running_mean)
show("running variance  ", layer.running_var)
show("0.9 + 0.1 biased  ", 0.9 + 0.1 * people.var(0, correction=0))
show("0.9 + 0.1 unbiased", 0.9 + 0.1 * people.var(0))

# %% [markdown]
# 17.6 cm: a tenth of the way. And a trap: the batch is **normalized** with the biased variance, but the buffer **stores** the unbiased one.
# There is a reason. The batch itself is to have variance 1 (up to eps), so divide by $n$. The buffer is to estimate the variance of all people, and for that $n - 1$ is right on average.
# The two differ by $n/(n-1)$: 4/3 here, 1.03 for 32 samples.
#
# The running statistics are **buffers**: tensors that belong to the layer, are saved in its `state_dict` and moved with it, but that no optimizer trains.
# `self.register_buffer(name, tensor)` makes one.


# %% tags=["exercise", "export"] id="ex-6-2"
# Exercise 6.2 · ●●●○○ · 8 min
class RunningStatistics(nn.Module):
    """A running mean and a running variance of C channels, as buffers.

    num_features: C.
    momentum: the weight of the newest batch; None gives all batches the same weight.
    Buffers, saved with the module: running_mean (C,), zeros at first; running_var (C,), ones
    at first; num_batches_tracked, a whole number.
    """

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum = momentum
        # Your part, first half:
        # register running_mean and running_var, with the given device and dtype.
        ### BEGIN SOLUTION
        self.register_buffer(
            "running_mean", torch.zeros(num_features, device=device, dtype=dtype)
        )
        self.register_buffer(
            "running_var", torch.ones(num_features, device=device, dtype=dtype)
        )
        ### END SOLUTION
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        """Take in a batch: its mean (C,), its BIASED variance (C,), and n > 1.

        n: the entries of each channel. mean and var stay as they are.
        """
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        # Your part, second half:
        # update both buffers with the weight m, without recording gradients.
        ### BEGIN SOLUTION
        with torch.no_grad():  # the buffers are no part of the loss
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        ### END SOLUTION


# %% tags=["check"]
check.running_statistics(RunningStatistics)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two `register_buffer` lines, with `device` and `dtype` handed on to `torch.zeros` and `torch.ones`.
# Then two lines under `torch.no_grad()`: the formula above, once with `mean`, once with `var * n / (n - 1)`.
#
# </details>
#
# **Predict:** other libraries write the formula with the roles of $m$ and $1 - m$ swapped, and use $m = 0.9$ or $0.99$.
# What happens if such a number is given to PyTorch?


# %%
def follow(momentum, C=200, B=8, steps=60):
    """C running means, fed with batches of B numbers around 5. Returns (steps, C)."""
    g = torch.Generator().manual_seed(63)
    bn, path = nn.BatchNorm1d(C, momentum=momentum), []
    for _ in range(steps):
        bn(5 + 2 * torch.randn(B, C, generator=g))  # (B, C)
        path.append(bn.running_mean.clone())
    return torch.stack(path)


paths = {m: follow(m) for m in (0.1, 0.9)}
for m, path in paths.items():
    # in units of one batch mean's deviation; theory for many steps: sqrt(m / (2 - m))
    assert abs(path[-1].std() / (2 / 8**0.5) - (m / (2 - m)) ** 0.5) < 0.2

# %%
plot.lines(
    list(range(1, 61)),
    {f"momentum {m}": path[:, 0] for m, path in paths.items()},
    markers=False,
    colors={"momentum 0.1": "BatchNorm", "momentum 0.9": "none"},
    href={"true mean": 5},
    title="Momentum 0.9 remembers one batch",
    x="training batches seen",
    y="running mean of one channel",
    caption="Batches of 8 numbers with mean 5 and deviation 2; both layers see the same "
    "batches. With 0.1 the buffer needs about 30 batches to arrive and is calm then; with 0.9 "
    "it follows every batch.",
    alt="Two curves. With momentum 0.1 the running mean climbs from 0 to 5 within some 30 "
    "batches and stays near it; with momentum 0.9 it jumps about 5 from batch to batch.",
)

# %% [markdown]
# With $m = 0.9$ evaluation depends on the last batch that happened to come: the buffer jitters by $\sqrt{m/(2-m)} = 0.90$ of the spread of one batch mean, with $m = 0.1$ by $0.23$.
# Training does not notice, because it never looks at the buffers. Public ports of a detector carry `momentum=0.9` over unchanged. The translation is $1 - m$.
#
# ## 6.4 The layer
#
# Now put it together. The constructor is given; it takes what `nn.BatchNorm1d` takes.
# Your part is the decision: which statistics normalize this input, and are the buffers updated?


# %% tags=["exercise", "export"] id="ex-6-3"
# Exercise 6.3 · ●●●○○ · 10 min
class BatchNorm1d(RunningStatistics):
    """Batch Normalization of x, (B, C) or (B, C, T), as nn.BatchNorm1d, built by hand.

    In train(): the batch's own mean and biased variance (gradients pass through both), and the
    buffers are updated. In eval(): the running statistics, and nothing is updated.
    Where the batch's own are used, a batch with one entry for each channel raises a ValueError,
    and the buffers stay as they were.
    With track_running_stats=False running_mean is None: both modes use the batch's own
    statistics, and there is nothing to update.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, momentum, device, dtype)
        self.num_features, self.eps, kind = num_features, eps, dict(device=device, dtype=dtype)
        self.register_parameter(
            "weight", nn.Parameter(torch.ones(num_features, **kind)) if affine else None
        )
        self.register_parameter(
            "bias", nn.Parameter(torch.zeros(num_features, **kind)) if affine else None
        )
        if not track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def forward(self, x):
        if x.dim() not in (2, 3) or x.shape[1] != self.num_features:
            raise ValueError(
                f"expected (B, {self.num_features}) or (B, {self.num_features}, T), "
                f"got {tuple(x.shape)}"
            )
        n = x.numel() // self.num_features  # entries of each channel
        # Your part: bind mean and var, both (C,), to what normalizes x.
        # Call self.update(mean, var, n) where it is due.
        # Before that, raise a ValueError for n == 1 where the batch's own statistics are used.
        ### BEGIN SOLUTION
        if self.training or self.running_mean is None:
            if n == 1:
                raise ValueError(
                    f"a batch needs more than one entry per channel, got shape {tuple(x.shape)}"
                )
            mean, var = channel_stats(x)  # (C,)
        else:
            mean, var = self.running_mean, self.running_var  # (C,)
        if self.training and self.running_mean is not None:
            self.update(mean, var, n)
        ### END SOLUTION
        shape = (1, -1, 1)[: x.dim()]  # (C,) -> (1, C) or (1, C, 1), beside axis 1 of x
        y = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


# %% tags=["check"]
check.batch_norm(BatchNorm1d)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Ask `self.training`; it is what `train()` and `eval()` set.
# Two questions, two `if`s: "batch or running?" (`channel_stats(x)` or the buffers), then "update?" (`self.update(mean, var, n)`).
# Do not detach `mean` and `var`: the gradient needs them.
#
# </details>
#
# The real test is a training run. Ours and PyTorch's see the same five batches and take the same SGD steps; the batches have different sizes, and the upstream gradients are random.


# %%
def five_steps(layer):
    """Train the layer on five batches.

    Returns the last output, the last gradient of x, and the state_dict.
    """
    g = torch.Generator().manual_seed(64)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for B, T in [(6, 5), (2, 3), (4, 1), (1, 7), (3, 4)]:
        x = 3 + 2 * torch.randn(B, 4, T, generator=g, dtype=torch.float64)  # (B, C, T)
        x.requires_grad_()
        y = layer(x)
        optimizer.zero_grad()
        (y * torch.randn(y.shape, generator=g, dtype=torch.float64)).sum().backward()
        optimizer.step()
    return y.detach(), x.grad, layer.state_dict()


# %%
ours, theirs = BatchNorm1d(4, dtype=torch.float64), nn.BatchNorm1d(4, dtype=torch.float64)
for mine, torchs in zip(five_steps(ours)[:2], five_steps(theirs)[:2], strict=True):
    assert (mine - torchs).abs().max() < 1e-12  # float64, numbers of order 1
for name, tensor in theirs.state_dict().items():
    assert (ours.state_dict()[name] - tensor).abs().max() < 1e-12
    print(f"{name:20} agrees, shape {tuple(tensor.shape)}")

# %% [markdown]
# Output, gradient, parameters and buffers agree after five steps, and the names are PyTorch's: a `state_dict` of one loads into the other.
#
# Four slips that are seen in public code and that the training loss does not show, because training never reads the buffers:
# momentum the other way round, a biased running variance, buffers that are plain attributes and are lost on saving,
# and a layer that asks *"are gradients recorded?"* (`torch.is_grad_enabled()`) instead of `self.training`: then an evaluation loop without `no_grad()` normalizes with the test batch, and writes it into the buffers.
# A fifth shows in no forward pass at all: statistics computed under `no_grad()`, so that the gradient takes mean and variance for constants ([lesson 7](07_backward.ipynb) says what that loses). `check.batch_norm` knows all five.
#
# ## 6.5 The gap between training and evaluation
#
# A network is trained with one function and used with another. How far are they apart?
# Feed a layer 100 batches, then compare what it makes of fresh batches in both modes.
#
# **Predict:** how does the gap fall when the batch gets four times as large?


# %%
def gap(B, seed, C=64):
    """Root mean square of BatchNorm(training) - BatchNorm(evaluation).

    For batches of B rows with mean 1 and deviation 2.
    """
    g = torch.Generator().manual_seed(seed)
    bn, squares = nn.BatchNorm1d(C), []
    for _ in range(100):
        bn(1 + 2 * torch.randn(B, C, generator=g))  # fills the running statistics
    bn.eval()
    for _ in range(20):
        x = 1 + 2 * torch.randn(B, C, generator=g)  # (B, C)
        # (B, C), leaves the buffers alone:
        in_training = F.batch_norm(x, None, None, training=True)
        squares.append((in_training - bn(x)).square().mean())
    return torch.stack(squares).mean().sqrt().item()


# %%
sizes = [2, 4, 8, 16, 32, 64, 128]
measured = torch.tensor([[gap(B, seed) for B in sizes] for seed in range(8)])  # (seeds, sizes)
scaled = measured.mean(0) * torch.tensor(sizes).sqrt()  # (sizes,)
# seen: 1.25 to 1.39, means over 8 to 16 seeds
assert (scaled > 1.2).all() and (scaled < 1.45).all()
ln, g = nn.LayerNorm(64), torch.Generator().manual_seed(65)
x = 1 + 2 * torch.randn(8, 64, generator=g)  # (B, C)
assert torch.equal(ln.train()(x), ln.eval()(x)) and not list(ln.buffers())

# %%
plot.lines(
    [str(B) for B in sizes],
    {
        "BatchNorm": measured,
        "1.26 / √B": 1.26 / torch.tensor(sizes).sqrt(),
        "LayerNorm": torch.zeros(len(sizes)),
    },
    title="BatchNorm changes in evaluation, LayerNorm does not",
    x="batch size B",
    y="root mean square of training − evaluation",
    ylim=(-0.05, 1.1),
    dots=("1.26 / √B",),
    markers=False,
    colors={"1.26 / √B": "none"},
    caption="64 channels of Gaussian data with mean 1 and deviation 2. BatchNorm's outputs "
    "have deviation 1, so 1 on this axis is as large as the signal itself.",
    alt="BatchNorm's gap falls from about 0.98 at batch size 2 to 0.11 at 128, along 1.26 "
    "over the root of the batch size. LayerNorm's is zero at every size.",
)

# %% [markdown]
# Four times the batch, half the gap. At a batch of two the difference is about as large as the signal.
#
# The curve can be computed. For Gaussian data the mean of $B$ samples is off by $\sigma/\sqrt{B}$, and the deviation by a share of $1/\sqrt{2B}$.
# Their squares add up: $1/B + 1/(2B) = 1.5/B$. The buffers have a jitter of their own, $m/(2-m) = 1/19$ of that: $\sqrt{1.5 \cdot 20/19} = 1.26$.
# This is the large-batch limit; at $B = 2$ we measured 0.98, which is $1.38/\sqrt{2}$.
#
# So it is the batch **size** that matters. (A public report says that BatchNorm suffers from a small number of batches; that is another number.)
# And LayerNorm has no gap because it has nothing to remember: its two modes are one function, bit for bit. Of the PyTorch layers in this course only BatchNorm and dropout listen to `eval()`.
#
# **Four limits of BatchNorm.** This is what is said of it, and what holds:
#
# | said of BatchNorm | what holds | where | LayerNorm |
# |---|---|---|---|
# | fails with small batches | the gap is as large as the signal at B = 2; an error at one entry per channel | 6.2, 6.5 | no gap |
# | needs running statistics | 2C + 1 numbers in every layer, and two modes to mix up | 6.3 | none |
# | cannot do sequences | it can, with C on axis 1; but padding and different steps spoil its statistics | 6.10 | each token by itself |
# | must be combined across devices | only if all devices are to count as one batch: then means and variances, at every layer and step | 6.8 | nothing to combine |
#
# ## 6.6 Four norms, four layouts, one table
#
# Two more norms, met in sections 2.4 and 4.6, sit between the two. **InstanceNorm** takes each channel of each sample by itself; **GroupNorm** cuts the channels of a sample into G groups and takes each group by itself.
# All four do the same arithmetic and differ only in the axes. Fill in, before anything is run:

# %% tags=["exercise"] id="ex-6-4"
# Exercise 6.4 · ●●○○○ · 4 min
# A dictionary with six keys. Which axes are reduced? Tuples of numbers, in any order;
# of (B, C, T), axis 0 is B, 1 is C, 2 is T:
#     "axes, BatchNorm on (B, C, T)"
#     "axes, BatchNorm on (B, C, H, W)"
#     "axes, InstanceNorm on (B, C, H, W)"
#     "axes, LayerNorm([C, H, W]) on (B, C, H, W)"
# How many means come out, and how many numbers do all buffers hold together? Whole numbers:
#     "means, GroupNorm with 2 groups on (8, 6, 5, 4)"      (the input's shape, B first)
#     "buffer numbers, BatchNorm with 6 channels"
### BEGIN SOLUTION
reduced_axes = {
    "axes, BatchNorm on (B, C, T)": (0, 2),
    "axes, BatchNorm on (B, C, H, W)": (0, 2, 3),
    "axes, InstanceNorm on (B, C, H, W)": (2, 3),
    "axes, LayerNorm([C, H, W]) on (B, C, H, W)": (1, 2, 3),
    "means, GroupNorm with 2 groups on (8, 6, 5, 4)": 16,
    "buffer numbers, BatchNorm with 6 channels": 13,
}
### END SOLUTION

# %% tags=["check"]
check.reduced_axes(reduced_axes)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What is **kept**? BatchNorm: C. InstanceNorm: B and C. LayerNorm: B. GroupNorm: B and the groups. For the buffers, look at the list that the five steps printed.
#
# </details>

# %%
images = dict(B=2, C=4, H=5, W=3)
plot.cubes(
    {
        "BatchNorm": dict(shape=images, over=("B", "H", "W")),
        "LayerNorm([C, H, W])": dict(shape=images, over=("C", "H", "W")),
        "InstanceNorm": dict(shape=images, over=("H", "W")),
        "GroupNorm, 2 groups": dict(shape=images, over=("C", "H", "W"), groups={"C": 2}),
    },
    title="Four norms are one formula over four sets of axes",
    caption="Two images of four channels. The dark cells share one mean and one variance. "
    "Only BatchNorm's reach from one image into the other.",
    alt="Two images, four times. One mean spans: BatchNorm, a channel of both images; "
    "LayerNorm, an image; InstanceNorm, a channel; GroupNorm, two.",
)

# %% [markdown]
# Pictures persuade; an assertion proves. Here is the whole table, executed: for each norm and layout, **one** function that reduces the named axes, against PyTorch's module.
# The channel axis of GroupNorm is written as two, G groups of K channels. The first three cells only get things ready; if time is short, go straight to the table that the fourth prints.

# %%
size = dict(B=3, C=6, T=5, H=4, W=7, G=2, K=3)
over = {  # layout: the axes that each norm reduces
    "BC": dict(BatchNorm="B", LayerNorm="C", GroupNorm="K"),
    "BCT": dict(BatchNorm="BT", LayerNorm="CT", InstanceNorm="T", GroupNorm="KT"),
    "BTC": dict(BatchNorm="BT", LayerNorm="C", InstanceNorm="T", GroupNorm="KT"),
    "BCHW": dict(BatchNorm="BHW", LayerNorm="CHW", InstanceNorm="HW", GroupNorm="KHW"),
}


# %%
def by_hand(x, layout, axes):
    """Normalize x over the named axes. Returns the result and the number of means."""
    names = layout.replace("C", "GK") if "K" in axes else layout
    parts = x.reshape([size[name] for name in names])
    where = [names.index(axis) for axis in axes]
    var, mean = torch.var_mean(parts, where, correction=0, keepdim=True)
    return ((parts - mean) / torch.sqrt(var + 1e-5)).reshape(x.shape), mean.numel()


# %%
def in_torch(norm, layout):
    """PyTorch's module for a norm and a layout, with its defaults."""
    kind, C = "2d" if layout == "BCHW" else "1d", size["C"]
    shape = [size[axis] for axis in over[layout]["LayerNorm"]]
    make = {
        "LayerNorm": lambda: nn.LayerNorm(shape),
        "GroupNorm": lambda: nn.GroupNorm(size["G"], C),
    }
    return make[norm]() if norm in make else getattr(nn, norm + kind)(C)


# %%
g = torch.Generator().manual_seed(66)
print("norm          layout  reduces  means  parameters  buffers")
for layout, norms in over.items():
    x = torch.randn([size[axis] for axis in layout], generator=g) * 3 + 1
    for norm, axes in norms.items():
        module, move = in_torch(norm, layout), layout == "BTC" and norm != "LayerNorm"
        # PyTorch wants C on axis 1:
        theirs = module(x.transpose(1, 2)).transpose(1, 2) if move else module(x)
        ours, means = by_hand(x, layout, axes)
        assert (ours - theirs).abs().max() < 1e-5  # float32, numbers of order 1
        count = [
            sum(t.numel() for t in tensors)
            for tensors in (module.parameters(), module.buffers())
        ]
        print(f"{norm:12}  {layout:6}  {axes:7}  {means:5}  {count[0]:10}  {count[1]:7}")

# %% [markdown]
# Fifteen rows, all verified. There are as many variances as means. How to read them:
#
# - **BatchNorm** has C means and 2C parameters in every layout, and is the only one that has buffers by default: 2C + 1 numbers in every layer. They are used in evaluation, where nothing is reduced.
# - **LayerNorm** is the only one that takes *trailing* axes, whatever they mean. You choose them, and the parameters follow: 2C for tokens, 2·C·H·W for images.
# - **InstanceNorm** has no parameters by default (`affine=True` gives 2C). On (B, C) it does not exist: one number would be its own mean. (`nn.InstanceNorm1d` takes such a matrix for *one* sample of shape (C, T).)
# - For **(B, T, C)** the other three need C on axis 1: transpose, normalize, transpose back. The clinic below is about what happens otherwise.
#
# ## 6.7 What the layer before it feels
#
# **A bias before a norm.** `nn.Linear` adds a bias to each feature, and a norm follows that subtracts a mean.
#
# **Predict:** before which of the two norms is the bias useless, BatchNorm, LayerNorm, or both?

# %%
g = torch.Generator().manual_seed(67)
x, W, b = [
    torch.randn(*s, generator=g, dtype=torch.float64) for s in ((16, 5), (6, 5), (6,))
]  # (B, D), (C, D), (C,)
norms = {
    "BatchNorm": lambda h: F.batch_norm(h, None, None, training=True),
    "InstanceNorm": lambda h: F.instance_norm(h.T[None]),  # (1, C, T): one series of 16 steps
    "LayerNorm": lambda h: F.layer_norm(h, (6,)),
}
effect = {
    name: (norm(F.linear(x, W, b)) - norm(F.linear(x, W))).abs().max()
    for name, norm in norms.items()
}
for name, largest in effect.items():
    # float64: below 1e-12 is rounding
    print(f"the bias changes the output of {name}:", bool(largest > 1e-12))

# %% [markdown]
# BatchNorm and InstanceNorm subtract a number from each feature, and the whole bias goes with it: write `nn.Linear(..., bias=False)` before them.
# LayerNorm subtracts one number from each row. That takes away only the **mean** of the bias vector; the rest survives, and it works.
# Answers on a public question site say that the bias is redundant before BatchNorm and LayerNorm alike.

# %%
plain = F.layer_norm(F.linear(x, W), (6,))  # (B, C)
assert (F.layer_norm(F.linear(x, W, b), (6,)) - plain).abs().max() > 0.1
assert (
    F.layer_norm(F.linear(x, W, b - b.mean()), (6,)) - F.layer_norm(F.linear(x, W, b), (6,))
).abs().max() < 1e-12
# one number for all features: gone
assert (F.layer_norm(F.linear(x, W) + 3.0, (6,)) - plain).abs().max() < 1e-12

# %% [markdown]
# One condition: this is about *training* a BatchNorm network. In a trained one the bias also sits in `running_mean`; take it out of the layer alone and evaluation is off by it.
#
# **A gift of evaluation (optional, 3 min).** With fixed statistics BatchNorm is one multiplication and one addition for each channel, and the linear layer before it can swallow both.

# %% tags=["optional"]
g = torch.Generator().manual_seed(68)
linear, bn = nn.Linear(5, 6, dtype=torch.float64), nn.BatchNorm1d(6, dtype=torch.float64)
for tensor in (*linear.parameters(), bn.weight, bn.bias, bn.running_mean):
    nn.init.normal_(tensor, generator=g)
nn.init.uniform_(bn.running_var, 0.5, 2.0, generator=g)
factor = bn.weight / torch.sqrt(bn.running_var + bn.eps)  # (C,)
folded = F.linear(
    x, linear.weight * factor[:, None], (linear.bias - bn.running_mean) * factor + bn.bias
)  # (B, C)
assert (folded - bn.eval()(linear(x))).abs().max() < 1e-12  # float64, numbers of order 1
# without its bias, evaluation is off
assert (bn(F.linear(x, linear.weight)) - bn(linear(x))).abs().max() > 0.1

# %% [markdown]
# For LayerNorm that is impossible: its factor $1/\sigma$ is another one for every row, and only known when the row is there. (Its gain and bias alone can go into a linear layer *after* it: section 4.2.)
#
# **Bit for bit? (optional, 3 min)** A row's LayerNorm does not depend on the rest of the batch, and on the CPU not even in the last digit.
# A matrix product beside it may: for another number of rows a library may add in another order.

# %% tags=["optional", "nbval-ignore-output"]
g = torch.Generator().manual_seed(69)
x = torch.randn(33, 100, generator=g)  # (B, D)
ln, linear = nn.LayerNorm(100), nn.Linear(100, 100)
for tensor in (ln.weight, ln.bias, linear.weight, linear.bias):
    nn.init.normal_(tensor, generator=g)
alone, together = [ln(x[i : i + 1]) for i in range(33)], ln(x)  # (1, D) each, (B, D)
assert torch.equal(torch.cat(alone), together)
product, products = torch.cat([linear(x[i : i + 1]) for i in range(33)]), linear(x)  # (B, D)
assert (product - products).abs().max() < 1e-4  # sums of 100 products of order 1 in float32
print("LayerNorm  equal bit for bit:", True)
print(
    "nn.Linear  equal bit for bit:",
    torch.equal(product, products),
    "(on the machine that ran this)",
)

# %% [markdown]
# So "LayerNorm makes a network independent of the batch" is true in mathematics and true for the norm, but not promised for the network around it.
# BatchNorm in training is not even independent in mathematics.

# %% [markdown]
# ## 6.8 Several devices (optional, 10 min)
#
# Large models are trained on several devices, each with a part of the batch. **Without further ado each device normalizes with its own part**, and the batch size that counts in 6.5 is the small one.
# The same goes for gradient accumulation: eight micro-batches of 4 are not a batch of 32.

# %% tags=["optional"]
g = torch.Generator().manual_seed(70)
batch = torch.randn(32, 16, generator=g)  # (B, C)
norms = {
    "BatchNorm": lambda part: F.batch_norm(part, None, None, training=True),
    "LayerNorm": lambda part: F.layer_norm(part, (16,)),
}
for name, norm in norms.items():
    parts = torch.cat([norm(part) for part in batch.split(4)])  # (B, C), eight parts of 4 rows
    differ = (parts - norm(batch)).square().mean().sqrt().item()
    # seen over 29 seeds: 0.55 to 0.65
    assert differ > 0.4 if name == "BatchNorm" else differ == 0
    print(f"{name}: eight parts of 4 agree with one batch of 32: {differ == 0}")

# %% [markdown]
# To agree, the devices must combine their statistics. Public notes say that the average and the variance have to be combined, and leave open how.
#
# **Predict:** two devices with 16 rows each. One has mean −2, the other +2, both have variance 1. What is the variance of all 32 rows?


# %% tags=["exercise", "optional"] id="ex-6-5"
# Exercise 6.5 · ●●●○○ · 6 min
def pooled_stats(means, variances, counts):
    """Return the mean and the biased variance of all rows together, from those of K devices.

    means, variances: (K, C), of each device, biased.
    counts: (K,) whole numbers, the rows of each device.
    Returns (mean, var), both (C,) and of the dtype of means. Gradients flow through both.
    """
    ### BEGIN SOLUTION
    share = (counts / counts.sum())[:, None]  # (K, 1)
    mean = (share * means).sum(0)  # (C,)
    var = (share * (variances + (means - mean) ** 2)).sum(0)  # (C,)
    return mean, var
    ### END SOLUTION


# %% tags=["check", "optional"]
check.pooled_stats(pooled_stats)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Weigh each device by its share of the rows. The spread of all rows has two parts: inside the devices (the mean of the variances),
# and between them (the variance of the means).
#
# </details>
#
# The answer is 5, not 1: the variance inside, 1, plus the variance of the means, 4. Averaging the variances alone forgets the second part.
# `nn.SyncBatchNorm` exchanges means and variances at every layer and every step, on GPUs. [Lesson 13](13_speed.ipynb) pools those of two processes. LayerNorm exchanges nothing.
#
# ## 6.9 Why does BatchNorm help? (optional, 8 min)
#
# [Section 1.8](01_why_normalize.ipynb) told the story of *internal covariate shift*, and of the test by Santurkar et al. (2018): noise **after** each BatchNorm, with another mean and scale at every step. The inputs of the next layer then move more than in a plain network, and the nets trained about as well as without the noise.
#
# A smaller and simpler version of our own, for the digits: six layers, and after each BatchNorm a *jolt*. At each step every unit gets a new random shift in ±1 and a new factor in 0.5 to 1.5, the same for the whole batch.
#
# **Predict:** where does the jolted network end up, beside the plain one or beside BatchNorm?


# %% tags=["optional"]
class Jolt(nn.Module):
    """In training: a random factor and a random shift for each unit, new at every step.

    In evaluation: nothing.
    """

    def forward(self, x):
        if not self.training:
            return x
        factor, shift = torch.rand(2, x.shape[1])  # (C,) each
        return x * (0.5 + factor) + 2 * shift - 1


def network(*makers):
    """Six linear layers of 64 units, each followed by what the makers make and a ReLU."""
    layers = []
    for _ in range(6):
        layers += [nn.Linear(64, 64), *(make() for make in makers), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% tags=["optional", "nbval-ignore-output"]
digits, norm = data.digits_split(0), lambda: nn.BatchNorm1d(64)
x_test, y_test = digits.x_test.flatten(1), digits.y_test  # (500, 64), (500,)
history = train.compare(
    {
        "none": network,
        "BatchNorm": lambda: network(norm),
        "BatchNorm + jolts": lambda: network(norm, Jolt),
    },
    seeds=range(4),
    data=(digits.x_train.flatten(1), digits.y_train),
    epochs=5,
    batch_size=64,
    drop_last=True,
    loss=F.cross_entropy,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    evaluate={
        "accuracy": lambda model: 100 * (model(x_test).argmax(-1) == y_test).float().mean()
    },
)

# %% tags=["optional"]
# (seeds,) each, after the last epoch
accuracy = {name: run["accuracy"][:, -1] for name, run in history.items()}
assert accuracy["none"].max() < 40  # seen over 16 seeds: at most 12.4
assert accuracy["BatchNorm"].min() > 90  # at least 95.6
assert accuracy["BatchNorm + jolts"].min() > 88  # at least 95.2

# %% tags=["optional"]
plot.bars(
    accuracy,
    title="Jolted at every step, BatchNorm still trains",
    x="test accuracy after 5 epochs (%)",
    xlim=(0, 110),
    fmt=".0f",
    colors={"BatchNorm + jolts": "BatchNorm"},
    caption="Six-layer network on 8 × 8 digits, SGD with learning rate 0.1, PyTorch's default "
    "initialization.",
    alt="Three bars. Without a norm the network stays near ten percent, which is chance; with "
    "BatchNorm it reaches about 97 or 98 percent, with BatchNorm and jolts a point less.",
)

# %% [markdown]
# From step to step the mean of every normalized unit now moves by 2/3 on average (so far apart lie two draws from ±1), where its deviation is about 1. It costs about a point.
# So "it keeps the inputs still" cannot be the reason why this network trains; the paper says the same of its own.
# What this shows and what it does not:
#
# - It rules one explanation **out**. Santurkar et al. propose another, a smoother loss; that is debated too. Why BatchNorm helps is not settled.
# - The next layer's BatchNorm takes part of each jolt away again. So the test is about the inputs of the linear layers, which do move.
# - The plain network fails because of its *initialization*: with Kaiming's it reaches 93 to 95 % in the same five epochs (14 seeds, measured when this lesson was written). The control is about what happens after a norm.
#
# ## 6.10 Clinic: the error that went away
#
# A public captioning network hands features of image regions to `nn.BatchNorm1d`: shape (B, R, D), R regions of D features. With `nn.BatchNorm1d(D)` it stops:

# %%
g = torch.Generator().manual_seed(71)
# (B, R, D): feature d has deviation d
features = torch.randn(16, 5, 8, generator=g) * torch.arange(1.0, 9.0)
try:
    nn.BatchNorm1d(8)(features)
except RuntimeError as error:
    print(error)

# %% [markdown]
# A user wrote the number that the message asks for, and reported that training went smoothly.
#
# **Find it:** what does this patient normalize? Which number of its state gives it away, and which input would break it?

# %%
patient = nn.BatchNorm1d(5)
out = patient(features)  # (B, R, D)
print(
    "length of running_mean:", len(patient.running_mean), "for", features.shape[-1], "features"
)
spread = out.flatten(0, 1).std(0)  # (D,)
# in theory d / sqrt(mean of the squares) = 0.20 and 1.58
assert spread[0] < 0.5 and spread[7] > 1.2
try:
    patient(features[:, :4])
except RuntimeError as error:
    print(error)

# %% [markdown]
# **Explain it.** PyTorch takes axis 1 for the channels. The patient has one mean for each *region* and mixes all features in it: the feature of deviation 1 comes out with 0.2, the one of deviation 8 with 1.6.
# Nothing is normalized that was meant to be, and images with four regions stop the program. If R and D happen to be equal, there is not even an error to silence.
#
# **Mend it.** BatchNorm *can* be used on sequences; the claim that it cannot, because axis 1 is time, confuses the layout with the layer.


# %% tags=["exercise"] id="ex-6-6"
# Exercise 6.6 · ●●○○○ · 4 min
def normalize_regions(x, norm):
    """Normalize each of the D features of x over samples and regions.

    x: (B, R, D); it stays as it is.
    norm: an nn.BatchNorm1d(D), in train() or eval(), and it stays in that mode. Use this layer:
    its gain, its bias and its running statistics count.
    Returns (B, R, D).
    """
    ### BEGIN SOLUTION
    return norm(x.transpose(1, 2)).transpose(1, 2)  # (B, D, R) and back
    ### END SOLUTION


# %% tags=["check"]
check.normalize_regions(normalize_regions)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Features to axis 1, normalize, features back. `transpose` moves an axis; `view` and `reshape` only cut the same row of numbers differently.
#
# </details>
#
# The patient is cured, but not healthy. Real sequences are padded to one length, and the padding is counted:

# %%
real = features.transpose(1, 2)  # (B, D, R)
padded = F.pad(real, (0, 5))  # (B, D, 2R), zeros behind each sequence
batch_gap = F.batch_norm(padded, None, None, training=True)[..., :5] - F.batch_norm(
    real, None, None, training=True
)
token_gap = F.layer_norm(padded.mT, (8,))[:, :5] - F.layer_norm(real.mT, (8,))  # (B, R, D)
# half of the entries are zeros: the deviation shrinks
assert batch_gap.abs().max() > 0.5 and (token_gap == 0).all()
print("padding changes the real entries, BatchNorm:", bool((batch_gap != 0).any()))
print(
    "padding changes the real entries, LayerNorm over the features:",
    bool((token_gap != 0).any()),
)

# %% [markdown]
# That is the objection to BatchNorm on sequences that holds, together with small batches, and with recurrent networks whose statistics differ from step to step ([lesson 10](10_rnn.ipynb)).
#
# ## Take-away
#
# - **One formula, four sets of axes.** BatchNorm keeps C, LayerNorm the sample (or token), InstanceNorm both, GroupNorm the sample and a group.
# - **BatchNorm from scratch:** biased variance forward, unbiased in the buffer, `momentum` is the weight of the newest batch, the switch is `self.training`, gradients pass through both statistics, buffers are registered and updated without a graph.
# - **The gap** between training and evaluation is about $1.26/\sqrt{B}$ for Gaussian data at momentum 0.1; LayerNorm's is zero, for it keeps no statistics.
# - **Four limits of BatchNorm**, with what holds of each: small batches, running statistics, sequences, several devices (the table at the end of 6.5).
# - **Said for it:** it can be folded away in evaluation, makes a bias before it superfluous, and Ba et al. themselves found it ahead in their first experiments with convolutional networks (section 6.7 of the paper); [lesson 9](09_cnn.ipynb) compares the two there. Language models use LayerNorm or, more recently, RMSNorm ([lesson 12](12_family.ipynb)).
#
# ## On your own
#
# 1. A Keras model says `momentum=0.99`. What do you write in PyTorch? After how many batches has the start value less than 1 % of the weight?
# 2. `layer.eval()` during *training* freezes the statistics. Which of the gradient's paths disappear? (Fine-tuning on small batches does this on purpose.)
# 3. Replace `self.training` in your layer by `torch.is_grad_enabled()`. Which lines of a training script now do something else?
# 4. `torch.nn.BatchNorm1d(6, momentum=None)`: what does its running mean converge to, and why is it a good way to refresh the statistics of a finished network?
#
# ## Further reading
#
# - Ioffe & Szegedy (2015), *Batch Normalization*, algorithms 1 and 2: the forward pass, and the factor $m/(m-1)$ for inference.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, section 3 and section 6.7 (convolutional networks).
# - Santurkar et al. (2018), *How Does Batch Normalization Help Optimization?*, the part on internal covariate shift (the noisy control).
# - Wu & He (2018), *Group Normalization*, fig. 1 (error over batch size) and fig. 2 (the four cubes).
# - Cooijmans et al. (2017), *Recurrent Batch Normalization*: BatchNorm in an LSTM, with statistics for each step.

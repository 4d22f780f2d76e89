# %% [markdown]
# # 6 · LayerNorm and BatchNorm: who shares a mean with whom
#
# A net with two Batch Normalization layers (*BatchNorm*, for short) learns to read digits.

# %%
import copy

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, show
from lessonkit.mine import mean_and_var  # lesson 2

digits = data.digits_split(0)
print(len(digits.x_train), "digits to learn from,", len(digits.x_test), "to be asked about")

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
hidden = [(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()) for _ in range(2)]
reader = nn.Sequential(nn.Flatten(), *hidden[0], *hidden[1], nn.Linear(64, 10))
optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
for _ in range(5):
    for rows in torch.randperm(1297).split(64):  # batches of 64
        optimizer.zero_grad()
        loss = F.cross_entropy(reader(digits.x_train[rows]), digits.y_train[rows])
        loss.backward()
        optimizer.step()
show("loss of the last batch", loss, digits=2)

# %% [markdown]
# Now it is asked about the same 500 test digits twice, 50 at a time: first mixed, then sorted by label.


# %% tags=["nbval-ignore-output"]
def percent_right(net, order):
    """Ask a net about the test digits in this order, 50 at a time."""
    batches = order.split(50)
    right = [net(digits.x_test[rows]).argmax(1) == digits.y_test[rows] for rows in batches]
    return 100 * torch.cat(right).double().mean()


mixed = torch.randperm(500, generator=torch.Generator().manual_seed(61))  # (500,)
by_label = digits.y_test.argsort(stable=True)  # (500,) all zeros first, then all ones, ...
for name, order in {"mixed": mixed, "sorted": by_label}.items():
    asked = copy.deepcopy(reader)  # a copy, so that both orders ask the same net
    show(f"percent right, {name}", percent_right(asked, order), digits=0)

# %% [markdown]
# The digits are the same, and so is the net. Only their neighbors differ, and most digits are now read wrong.
#
# <details><summary>How sure is that?</summary>
#
# Mixed such nets read {batchnorm_orders.mixed:range}, sorted {batchnorm_orders.sorted:range}; mixed, but in batches of 5, {batchnorm_orders.mixed_by_5:range}, in batches of 10 {batchnorm_orders.mixed_by_10:range}. A user of a [video classifier](https://github.com/facebookarchive/C3D/issues/277) reported the same of test videos that were not shuffled. {batchnorm_orders:again}
#
# </details>
#
# *About 58 min, in two sittings of 32 and 26.* **You'll be able to**
# - work out on paper what BatchNorm answers in training and in evaluation;
# - write a BatchNorm that agrees with PyTorch's in output, buffers and gradient;
# - say which numbers share a mean in four normalization layers (*norms*, for short).
#
# **You need** [lesson 2](02_statistics.ipynb) (mean and variance), [lesson 3](03_epsilon.ipynb) ($\epsilon$) and [lesson 4](04_affine_and_module.ipynb) (modules).

# %% [markdown]
# ## 6.1 Your neighbors decide
#
# You see a sample with five features (large dots) and its neighbors in the batch (small dots). The orange bars are BatchNorm of the sample, the blue ones LayerNorm of it.

# %%
explore.batch()

# %% [markdown]
# **Find out:** each of two sliders can make all of BatchNorm's bars vanish, while LayerNorm's stand still. What do you do with each? Which of the two states is close to a batch of sorted digits?
#
# <details><summary>What there is to find</summary>
#
# No neighbors, or neighbors that are copies of the sample: in both, the mean that BatchNorm subtracts is the sample itself. Sorted digits are close to the second, because a batch of 50 holds mostly one kind of digit.
#
# </details>
#
# **In training, what BatchNorm makes of a sample depends on its neighbors. With LayerNorm it does not.**
#
# <details><summary>When this holds</summary>
#
# For LayerNorm over the features of a sample, up to rounding ([Bit for bit](#Bit-for-bit)). The gradient takes the same path back: a loss that reads one sample's BatchNorm has, in general, a gradient in all samples of the batch.
#
# </details>

# %% [markdown]
# ## 6.2 The other axis
#
# Here are five children: age in years, weight in kg, height in cm.

# %%
children = torch.tensor(
    [[5.0, 19, 112], [7, 28, 124], [8, 25, 136], [9, 31, 130], [11, 37, 148]]
)  # (B, C) = (5, 3)
show("LayerNorm", F.layer_norm(children, (3,)), digits=1)
show("BatchNorm", F.batch_norm(children, None, None, training=True), digits=1)

# %% [markdown]
# LayerNorm takes a mean of each **row**. It compares an age with a weight and a height, and in each row the height wins: all five are 1.4.
#
# BatchNorm takes a mean of each **column**, so it compares ages with ages. Follow the first column with a pencil. The mean of 5, 7, 8, 9, 11 is 8. The ages are −3, −1, 0, 1, 3 away from it. The squares 9, 1, 0, 1, 9 have the mean 4, which is the biased variance. So $\sigma = 2$, and the ages become −1.5, −0.5, 0, 0.5, 1.5.
#
# **Predict 6.1:** now only two children are in the batch. What does BatchNorm make of the 11 beside a 9, and beside a 5 (at $\epsilon = 0$)?
# - [ ] 0.5 and 1.5 :: You have divided the distances 1 and 3 by the σ of the five children. The two have their own.
# - [ ] 1 and 3 :: These are the distances from the means 10 and 8. σ is 1 and 3 as well.
# - [x] 1 and 1 :: The means are 10 and 8, so the 11 is 1 and 3 away. So is the other child, so σ is 1 and 3.

# %%
for other in (9.0, 5.0):
    pair = torch.tensor([[11.0], [other]])  # (B, C) = (2, 1)
    show(f"11 and {other:.0f}", F.batch_norm(pair, None, None, training=True).T, digits=2)

# %% [markdown]
# **In a batch of two, BatchNorm says who is larger, and no more.**
#
# <details><summary>When this holds</summary>
#
# For each channel in which the two differ, in training, in a batch (2, C), up to the gain, the bias and $\epsilon$: at the default $\epsilon$, two numbers that are 0.01 apart come out as ±0.85. In a batch of one, a number minus its own mean is 0 whatever it was, so PyTorch refuses.
#
# </details>

# %% [markdown] tags=["slide"]
# In PyTorch's BatchNorm the features are called **channels**. They stand on **axis 1**, and all other axes are reduced: of a batch of series (B, C, T), a channel has $B \cdot T$ entries.


# %% tags=["exercise", "export"] id="ex-6-1"
# Exercise 6.1 · ●●○○○ · 3 min
def channel_stats(x):
    """Return the mean and the biased variance of each channel of x.

    Example: for the children the means are 8, 28, 130 and the variances 4, 36, 144.
    x: (B, C) or (B, C, T). Returns (mean, var), both (C,).
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
# `x.mean` and `x.var` take a list of axes: all but 1. Or bring axis 1 to the front with `transpose(0, 1)` and flatten the rest: then it is a matrix with a row for each channel, and `mean_and_var` of lesson 2 (yours, if it passed) does the rest.
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# float32 and float64: mean and var have the dtype of x, which stays as it is. Gradients flow through both. Around a large mean, var loses no digits.
#
# </details>

# %% [markdown]
# ## 6.3 What evaluation uses instead
#
# A trained net should be able to answer about one digit, without neighbors. So BatchNorm keeps a running mean and a running variance of each channel, and in evaluation it normalizes with them. They start at 0 and 1, and each training batch moves them. How far, says a number $m$, by default 0.1. PyTorch calls it the **momentum**, but it has nothing to do with an optimizer's. `stored` shows our ages to a new layer and prints its two numbers.


# %% tags=["hide-input"]
# Trains a new layer on some ages.
def stored(ages=(5, 7, 8, 9, 11), momentum=0.1, times=1):
    """Print the running mean and variance after `times` training batches of these ages."""
    layer = nn.BatchNorm1d(1, momentum=momentum)
    for _ in range(times):
        layer(torch.tensor(ages, dtype=torch.float32)[:, None])  # (B, C)
    show("running mean and variance", [layer.running_mean.item(), layer.running_var.item()], 2)


# %%
stored(ages=(5, 7, 8, 9, 11), momentum=0.1, times=1)

# %% [markdown]
# **Find out:** the ages have the mean 8 and the variance 4. Write down a rule for what each of the two becomes. Then try it: what will it be with a momentum of 1, of 0.5, and with two batches? One of the two needs a second look.
#
# <details><summary>What there is to find</summary>
#
# With a momentum of 1 the layer holds what is newest alone, 8 and 5. With less, a share $1 - m$ of the old stays.
#
# </details>
#
# The newest variance is not the one that you know. The squares 9, 1, 0, 1, 9 of our ages add up to 20. The batch is normalized with 20/5 = 4, the biased variance, and 20/4 = 5 is stored, the unbiased one. For the running variance is meant for children who are not in the batch, and for them the unbiased one is right on average.
#
# $$\text{running} \leftarrow (1 - m)\cdot\text{running} + m\cdot\text{newest}$$
#
# Take the pencil:

# %% tags=["exercise"] id="ex-6-2"
# Exercise 6.2 · ●●○○○ · 3 min
# A new BatchNorm for one channel has the momentum m = 3/4, no gain and no bias. Take eps = 0.
# In train() it gets the ages 5, 7, 8, 9, 11 as one batch. What are its running mean and its
# running variance then?
# Then, in eval(), a child of 8 comes alone. What comes out?
# Copy this line and replace the dots with three numbers:
# ages_on_paper = dict(running_mean=..., running_var=..., alone=...)
### BEGIN SOLUTION
ages_on_paper = dict(running_mean=6, running_var=4, alone=1)
### END SOLUTION

# %% tags=["check"]
check.ages_on_paper(ages_on_paper)

# %% [markdown]
# <details><summary>Hint</summary>
#
# A quarter of the start value stays, and three quarters of the newest one are added. For the mean that is 1/4 · 0 + 3/4 · 8.
#
# </details>
#
# **`train()` asks the neighbors, `eval()` asks the past.**
#
# <details><summary>The other momentum</summary>
#
# In TensorFlow and Keras, momentum is the weight of the *old* value. With a 0.9 copied from there, the running mean nearly equals the mean of the last batch, and no training loss shows it. [MaxViT](https://github.com/pytorch/vision/issues/8250) was ported from TensorFlow with its 0.99, where $1 - 0.99$ was meant; [BNInception](https://github.com/Cadene/pretrained-models.pytorch/issues/44), which was ported from Caffe, has 0.9, and its users ask whether that is a slip.
#
# </details>
#
# Running statistics are **buffers**: they are saved and moved with the layer, and no optimizer trains them.
#
# The net of the beginning was asked in train mode: `eval()` was missing. `ask` asks it for the sorted digits again, and lets you choose for each of the two statistics whose it is, the `"batch"`'s own, as in `train()`, or the `"running"` one, as in `eval()`.
#
# <details><summary>More about eval()</summary>
#
# `torch.no_grad()` is no substitute for it: that switches off gradients and not the mode. And questions in train mode move the running statistics: after 20 batches at $m = 0.1$, 88 % of their weight is test digits. That is why the cells above ask a copy.
#
# </details>


# %% tags=["hide-input"]
# Asks the net, with statistics of your choice.
@torch.no_grad()
def ask(mean="running", var="running", order="sorted", size=50):
    """Print how many test digits the net reads. mean, var: "batch" or "running".

    order: "sorted" or "mixed". size: how many digits are asked about at a time.
    """
    if not {mean, var} <= {"batch", "running"} or order not in ("sorted", "mixed"):
        raise ValueError('mean and var are "batch" or "running", order is "sorted" or "mixed"')
    if size == 1 and "batch" in (mean, var):
        raise ValueError("in a batch of one, each number is its own mean, with the variance 0")
    right = 0
    for rows in (by_label if order == "sorted" else mixed).split(size):
        x = digits.x_test[rows]  # (B, 8, 8)
        for layer in reader:
            if isinstance(layer, nn.BatchNorm1d):
                batch_var, batch_mean = torch.var_mean(x, 0, correction=0)  # (C,) each
                by_mean = batch_mean if mean == "batch" else layer.running_mean
                by_var = batch_var if var == "batch" else layer.running_var
                x = F.batch_norm(x, by_mean, by_var, layer.weight, layer.bias)
            else:
                x = layer(x)
        right += int((x.argmax(1) == digits.y_test[rows]).sum())
    print(f"reads {right / 5:.0f} % of the test digits")


# %% tags=["nbval-ignore-output"]
ask(mean="running", var="running", order="sorted", size=50)

# %% [markdown]
# **Find out:** which did the harm, the mean of the sorted batch, its variance, or each of them? Write your guess down, then take one of the two from the batch. And among mixed digits, in batches of 10, of 5 and of 2: is it the same one?
#
# <details><summary>What there is to find</summary>
#
# Nets like this one read {batchnorm_orders.mean_of_batch:range} of the sorted digits with the mean of the batch and the running variance, and {batchnorm_orders.var_of_batch:range} the other way round; in `eval()` {batchnorm_orders.sorted_eval:range}. Mixed, with both from the batch, they read {batchnorm_orders.mixed_by_10:range} by ten, {batchnorm_orders.mixed_by_5:range} by five and {batchnorm_orders.mixed_by_2:range} by two. By two, the batch's mean alone leaves {batchnorm_orders.mean_of_two:range}, its variance alone {batchnorm_orders.var_of_two:range}; but {batchnorm_orders.floored_var_of_two:range}, where we let it fall no lower than a quarter of the running variance. {batchnorm_orders:again}
#
# </details>
#
# In sorted batches of 50 it is the mean. Fifty zeros have in common what makes them zeros, and a mean of their own takes just that away, while dividing by their variance leaves most digits readable. But do not acquit the variance: in mixed batches of two it does more harm than the mean. Where two digits nearly agree, their variance is near 0, and dividing by its root blows up whatever they differ by from the past.
#
# **The mean of your neighbors can take away what you were asked about.**

# %% [markdown]
# ## What you have now
#
# - **`train()` asks the neighbors, `eval()` asks the past.**
# - **BatchNorm normalizes with the biased variance and stores the unbiased one.**
#
# **You can stop here:** close the notebook. The layer of exercise 6.2 gets the same five ages a second time in `train()`. Work out its buffers from memory.
#
# <details><summary>The numbers</summary>
#
# The running mean is 1/4 · 6 + 3/4 · 8 = 7.5, the running variance 1/4 · 4 + 3/4 · 5 = 4.75.
#
# </details>
#
# *In sitting two* you build the whole layer, and find one that normalizes the wrong axis.

# %% [markdown]
# ## 6.4 The layer

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import copy

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, evidence, explore, show
from lessonkit.mine import channel_stats

# %% [markdown]
# **Recall 6.1:** a row of scores is multiplied by 10. Which result changes, at $\epsilon = 0$?
# - [ ] LayerNorm's :: It divides by a standard deviation that is ten times larger too.
# - [ ] both LayerNorm's and softmax's :: LayerNorm does not see a factor above 0.
# - [x] softmax's :: Its shares move towards the largest entry, while LayerNorm does not see the factor.
#
# Two switches decide which statistics the layer uses: whether it is in training, and whether it keeps running statistics, as it does by default.
#
# | | `track_running_stats=True` | `track_running_stats=False` |
# |---|---|---|
# | `train()` | the batch's own; then `update` | the batch's own |
# | `eval()` | the running ones | the batch's own |
#
# Where the batch's own are used, one entry a channel is not enough, because it is its own mean. The folded class has the constructor of `nn.BatchNorm1d`, the buffers, and `update`, which moves them by the rule of your paper.

# %% tags=["export", "hide-input"]
# The constructor and the buffers of BatchNorm1d


class RunningStatistics(nn.Module):
    """A running mean and a running variance of C channels, as buffers.

    num_features: C. momentum: the weight of the newest batch; None: all weigh the same.
    """

    def __init__(self, num_features, momentum=0.1, device=None, dtype=None):
        super().__init__()
        self.momentum, kind = momentum, dict(device=device, dtype=dtype)
        self.register_buffer("running_mean", torch.zeros(num_features, **kind))
        self.register_buffer("running_var", torch.ones(num_features, **kind))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def update(self, mean, var, n):
        """Take in a batch of n > 1 entries a channel: its mean and its BIASED variance, (C,).

        mean and var stay as they are, and no gradient is recorded.
        """
        self.num_batches_tracked += 1
        m = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():  # the buffers are no part of the loss
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))


class _Given(RunningStatistics):
    """What is given of BatchNorm1d: its constructor, and how many entries a channel has."""

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
        self.num_features, self.eps = num_features, eps
        make = lambda value: torch.full((num_features,), value, device=device, dtype=dtype)
        for name, value in {"weight": 1.0, "bias": 0.0}.items():
            self.register_parameter(name, nn.Parameter(make(value)) if affine else None)
        if not track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def entries(self, x):
        """Return how many entries each channel of x has; x of another shape is refused."""
        if x.dim() not in (2, 3) or x.shape[1] != self.num_features:
            C = self.num_features
            raise ValueError(f"expected (B, {C}) or (B, {C}, T), got {tuple(x.shape)}")
        return x.numel() // self.num_features


# %% tags=["exercise", "export"] id="ex-6-3"
# Exercise 6.3 · ●●●○○ · 6 min
class BatchNorm1d(_Given):
    """Batch Normalization of x, (B, C) or (B, C, T), as nn.BatchNorm1d, built by hand.

    Example: BatchNorm1d(1) in train() makes -1.5, -0.5, 0, 0.5, 1.5 of our five ages.
    The table above says which statistics are used, and when the buffers are updated.
    Where the batch's own are used, n == 1 raises a ValueError, and no buffer changes.
    Gradients pass through the batch's own statistics. x is float32 or float64.
    """

    def forward(self, x):
        n = self.entries(x)  # how many entries each channel has
        # Your part: bind mean and var, both (C,), to what normalizes x.
        # self.training is what train() and eval() set; self.running_mean and self.running_var
        # are None without tracking; self.update(mean, var, n) moves them.
        ### BEGIN SOLUTION
        if self.training or self.running_mean is None:
            if n == 1:
                raise ValueError(
                    f"expected more than one entry per channel, got {tuple(x.shape)}"
                )
            mean, var = channel_stats(x)  # (C,)
        else:
            mean, var = self.running_mean, self.running_var  # (C,)
        if self.training and self.running_mean is not None:
            self.update(mean, var, n)
        ### END SOLUTION
        shape = (1, -1, 1)[: x.dim()]  # (C,) -> (1, C) or (1, C, 1)
        y = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)


# %% tags=["check"]
check.batch_norm(BatchNorm1d)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two questions, two `if`s, and a third where one entry is not enough. Ask it before anything is updated. Batch or running: `channel_stats(x)` or the buffers? Then: update? Three boxes of the table share an answer to the first, and only one says yes to the second. Do not detach `mean` and `var`.
#
# </details>
#
# The names agree with PyTorch's, so a `state_dict` of one loads into the other.
#
# <details><summary>Slips that no training loss shows</summary>
#
# $m$ and $1 - m$ swapped; the biased variance stored; buffers as plain attributes, which are lost on saving; `torch.is_grad_enabled()` asked in place of `self.training`. And one that shows in no output at all: statistics taken under `no_grad()`, so that the gradient treats them as constants.
#
# </details>
#
# The net of the beginning, with your layer, and the sorted digits, 50 at a time:

# %% tags=["hide-input"]
# Trains the net of the beginning with your layer.
digits = data.digits_split(0)
torch.manual_seed(0)
inner = [(nn.Linear(64, 64), BatchNorm1d(64), nn.ReLU()) for _ in range(2)]
mine = nn.Sequential(nn.Flatten(), *inner[0], *inner[1], nn.Linear(64, 10))
optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
for _ in range(5):
    for rows in torch.randperm(1297).split(64):  # batches of 64
        optimizer.zero_grad()
        F.cross_entropy(mine(digits.x_train[rows]), digits.y_train[rows]).backward()
        optimizer.step()

# %% tags=["nbval-ignore-output"]
by_label = digits.y_test.argsort(stable=True)  # (500,)
for training in (True, False):
    asked = copy.deepcopy(mine).train(training)
    read = torch.cat([asked(digits.x_test[rows]).argmax(1) for rows in by_label.split(50)])
    right = 100 * (read == digits.y_test[by_label]).double().mean()
    show("percent right, train()" if training else "percent right, eval()", right, digits=0)

# %% [markdown]
# ## 6.5 The gap between training and evaluation
#
# The child of 8 got 0 in training, because 8 is the mean of its batch, and 1 in evaluation. Does that difference go away once the running statistics have settled?

# %% [markdown] tags=["slide"]
# We train a layer on batches of $B$ independent random rows. Then fresh batches go through both modes. The **gap** is the typical difference between the two outputs; with 1 it would be as large as the outputs are themselves.


# %% tags=["hide-input"]
# Measures the gap.


def gap(B, batches=100, momentum=0.1, seed=0):
    """Return the root mean square of training minus evaluation, for batches (B, 64)."""
    g, squares = torch.Generator().manual_seed(seed), []
    bn = nn.BatchNorm1d(64, momentum=momentum)
    for step in range(batches + 20):
        x = 1 + 2 * torch.randn(B, 64, generator=g)  # (B, C)
        if step < batches:
            bn.train()(x)  # moves the running statistics
        else:
            in_training = F.batch_norm(x, None, None, training=True)  # leaves the buffers alone
            squares.append((in_training - bn.eval()(x)).square().mean())
    return torch.stack(squares).mean().sqrt().item()


# %%
show("gap", gap(8, batches=100, momentum=0.1), digits=2)  # 8 rows a batch

# %% [markdown]
# **Find out:** three levers could halve this gap: `batches=400`, `momentum=0.01`, or four times as many rows, `gap(32)`. Guess which, then pull one at a time, or two together.
#
# <details><summary>What there is to find</summary>
#
# Only more rows do. A small momentum alone makes the gap larger, because after 100 batches the running statistics are still on their way from 0 and 1. With 1,000 batches they have arrived, and the gap is about as it was. A momentum near 1 makes it larger as well: then evaluation knows one batch alone.
#
# </details>
#
# The rows of the batch are the lever, because each training batch is normalized with its own mean, however good the running one is. And the mean of $B$ independent numbers typically misses the true one by $\sigma/\sqrt B$.
#
# **Four times the batch, about half the gap. LayerNorm has none: it computes the same in both modes.**
#
# <details><summary>When this holds</summary>
#
# About $1.26/\sqrt n$ for $n$ independent Gaussian entries of a channel, once $n$ is large, at $m = 0.1$ and after some 40 batches ([Deeper](#Where-the-gap-comes-from) derives it). With fewer batches the running statistics are still on their way, and the gap is larger. Entries that are alike, as pixels of one image, count for less.
#
# </details>

# %% [markdown]
# ## 6.6 Four norms, one formula
#
# Two more norms use the same formula over other axes. **InstanceNorm** takes a mean of each channel of each sample. **GroupNorm** cuts the channels into groups and takes a mean of each group of each sample.
#
# Here are two images, (B, C, H, W). Click a number: what turns blue shares its mean.

# %%
explore.block("BCHW", over=("C", "H", "W"))

# %% [markdown]
# **Find out:** which norms let a number of one image share its mean with a number of the other? And how many means does GroupNorm with 2 groups take of these two images?
#
# <details><summary>What there is to find</summary>
#
# BatchNorm alone, which reduces B, H and W. Take B away, and you have InstanceNorm. GroupNorm takes 4 means, two for each image.
#
# </details>
#
# **Only BatchNorm's means reach from one image into the other.**

# %% [markdown]
# ## 6.7 Clinic: the error that went away
#
# A user gave the BatchNorm of a [captioning net](https://github.com/ruotianluo/self-critical.pytorch/issues/44) image regions as (B, R, D): R regions of D features for each image. Ours are 5 and 8.

# %%
g = torch.Generator().manual_seed(71)
features = torch.randn(16, 5, 8, generator=g) * torch.arange(1.0, 9.0)  # (B, R, D)
try:
    nn.BatchNorm1d(8)(features)
except RuntimeError as error:
    print(error)
patient = nn.BatchNorm1d(5)  # the user's way out; "the training process goes smoothly"
print("the output has the shape", tuple(patient(features).shape))

# %% [markdown]
# Feature $d$ goes in with the standard deviation $d$, from 1 to 8.
#
# **Predict 6.2:** with which standard deviations do the features come out?
# - [ ] all with 1 :: That is what was meant. But which axis holds the features?
# - [ ] from 1 to 8, as they came :: It does divide: by the σ of each of its channels.
# - [x] from 0.2 to 1.6 :: Axis 1 holds the regions. Each mixes all eight features, so its σ is the root of (1 + 4 + ... + 64)/8, about 5, and all features are divided by that.

# %%
out = patient(features)  # (B, R, D)
show("length of running_mean", len(patient.running_mean))
show("standard deviation of each feature", out.flatten(0, 1).std(0), digits=1)

# %% [markdown]
# The patient normalizes each region, over samples and features. The layer was made as wide as the wrong axis.
#
# To cure it, the features go to axis 1, and come back.
#
# <details><summary>Why not view?</summary>
#
# `features.view(16, 8, 5)` has the right shape, but it moves no axis. It cuts the same row of numbers differently, so that each "feature" is a mixture.
#
# </details>

# %%
norm = nn.BatchNorm1d(8)
cured = norm(features.transpose(1, 2)).transpose(1, 2)  # (B, R, D)
show("standard deviation of each feature", cured.flatten(0, 1).std(0), digits=1)

# %% [markdown]
# **Before you trust a BatchNorm, ask what axis 1 of its input holds.**
#
# <details><summary>Two more objections to BatchNorm on sequences</summary>
#
# Padding is counted in its statistics ([Deeper](#Padding-is-counted)), and in recurrent nets they differ from step to step ([lesson 10](10_rnn.ipynb)).
#
# </details>

# %% [markdown]
# ## Take-away
#
# - `train()` takes the batch's mean and biased variance, `eval()` the running ones, which each training batch moves by the share $m$.
# - **Who shares a mean:** BatchNorm keeps channels apart, LayerNorm samples, InstanceNorm both, GroupNorm samples and groups.
#
# **Formula card**, for a row (LayerNorm) or a channel (BatchNorm in training) of $n$ entries:
#
# $$\mu = \frac1n \sum_i x_i \qquad \sigma^2 = \frac1n \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2+\epsilon}} \qquad y_i = \gamma\,\hat x_i + \beta$$
#
# with a $\gamma$ and a $\beta$ for each feature or channel. BatchNorm's buffers: $\text{running} \leftarrow (1-m)\,\text{running} + m\,\text{newest}$, with the newest variance $\sigma^2\, n/(n-1)$. From [lesson 5](05_softmax.ipynb): softmax, $p_i = e^{x_i} / \sum_k e^{x_k}$.

# %% [markdown]
# ## Deeper (optional, 11 min)
#
# ### Where the gap comes from
#
# A batch mean of $n$ independent entries is off by $\sigma/\sqrt n$, which moves $\hat x$ by $1/\sqrt n$. For Gaussian data and large $n$ the standard deviation is off by a share of $1/\sqrt{2n}$, which moves $\hat x$ by that share of itself, and the mean of $\hat x^2$ is 1.
# The two errors are independent, so their squares add up to $1.5/n$. The buffers add $m/(2-m) = 1/19$ of that at $m = 0.1$: $\sqrt{1.5 \cdot 20/19} = 1.26$. At $n = 2$, far from the limit, `gap(2)` of [section 6.5](#6.5-The-gap-between-training-and-evaluation) is above $1.26/\sqrt 2 = 0.89$.
#
# ### What the layer before it feels
#
# `nn.Linear` adds a bias to each feature, and a norm subtracts a mean. In training, is the bias of any use before a norm over (B, C)?

# %%
norms = {
    "BatchNorm": lambda x: F.batch_norm(x, None, None, training=True),
    "LayerNorm": lambda x: F.layer_norm(x, x.shape[1:]),
}
g = torch.Generator().manual_seed(67)
randn = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
x, W, b = randn(16, 5), randn(6, 5), randn(6)  # (B, D), (C, D), (C,)
for name, norm in norms.items():
    plain = norm(F.linear(x, W))  # (B, C)
    for what, bias in {"bias": b, "mean of the bias": b.mean().expand(6)}.items():
        changes = (norm(F.linear(x, W, bias)) - plain).abs().max() > 1e-12  # rounding
        print(f"the {what} changes the output of {name}: {bool(changes)}")

# %% [markdown]
# A bias adds one number to a whole column, and BatchNorm subtracts the mean of that column: so before BatchNorm write `nn.Linear(..., bias=False)`. LayerNorm takes away only the **mean** of the bias vector. This is about *training*: in a trained net the bias is also part of `running_mean`.
#
# ### Folding a BatchNorm away
#
# With fixed statistics BatchNorm is one multiplication and one addition for each channel, and the linear layer before it can take over both.

# %%
g = torch.Generator().manual_seed(68)
linear, bn = nn.Linear(5, 6, dtype=torch.float64), nn.BatchNorm1d(6, dtype=torch.float64)
for tensor in (*linear.parameters(), bn.weight, bn.bias, bn.running_mean):
    nn.init.normal_(tensor, generator=g)
nn.init.uniform_(bn.running_var, 0.5, 2.0, generator=g)
factor = bn.weight / torch.sqrt(bn.running_var + bn.eps)  # (C,)
x = torch.randn(16, 5, dtype=torch.float64, generator=g)  # (B, D)
weight, bias = linear.weight * factor[:, None], (linear.bias - bn.running_mean) * factor
folded = F.linear(x, weight, bias + bn.bias)  # (B, C)
largest = (folded - bn.eval()(linear(x))).abs().max()
print("one linear layer does both:", bool(largest < 1e-12))  # float64, numbers of order 1

# %% [markdown]
# LayerNorm cannot be folded so, because its factor $1/\sigma$ differs from row to row and is only known when the row is there. (Its gain and bias alone can go into a linear layer *after* it: [lesson 4](04_affine_and_module.ipynb).)
#
# ### Padding is counted
#
# Sequences are padded to one length. What do the zeros do to the real entries?

# %%
x = features.transpose(1, 2)  # (B, D, R)
padded = F.pad(x, (0, 5))  # (B, D, 2R), zeros after each sequence
change = norms["BatchNorm"](padded)[..., :5] - norms["BatchNorm"](x)  # (B, D, R)
of_tokens = F.layer_norm(padded.mT, (8,))[:, :5] - F.layer_norm(x.mT, (8,))  # (B, R, D)
print("padding changes real entries, BatchNorm:", bool((change != 0).any()))
print("padding changes real entries, LayerNorm over D:", bool((of_tokens != 0).any()))

# %% [markdown]
# Half of the entries are zeros, and our features have means near 0, so each standard deviation shrinks and the real entries come out larger. (Around a mean far from 0, zeros would widen it.) LayerNorm over the features treats each token by itself.
#
# ### Bit for bit
#
# A row's LayerNorm does not depend on the rest of the batch. Do its last digits? For a different number of rows a library may add in a different order, and in a matrix product it often does.

# %% tags=["nbval-ignore-output"]
g = torch.Generator().manual_seed(69)
x = torch.randn(33, 100, generator=g)  # (B, D)
layers = {"LayerNorm": nn.LayerNorm(100), "nn.Linear": nn.Linear(100, 100)}
for name, layer in layers.items():
    for tensor in layer.parameters():
        nn.init.normal_(tensor, generator=g)
    alone = torch.cat([layer(x[i : i + 1]) for i in range(33)])  # (B, D)
    print(f"{name} equal bit for bit on this machine:", torch.equal(alone, layer(x)))

# %% [markdown]
# With rows of 40,000 numbers and two threads, the layer of lesson 4 was not equal bit for bit on our machine: how a sum is cut for threads may depend on the number of rows. So "LayerNorm makes a net independent of the batch" is true in mathematics, and bit for bit a matter of the library and the machine. BatchNorm in training is not independent of the batch even in mathematics.
#
# ### Several devices
#
# Large models are trained on several devices, each with a part of the batch. By default **each device normalizes with its own part**, so the batch size that counts is the small one. Gradient accumulation is no way out: eight micro-batches of 4 are not a batch of 32.

# %%
g = torch.Generator().manual_seed(70)
batch = torch.randn(32, 16, generator=g)  # (B, C)
for name, norm in norms.items():
    parts = torch.cat([norm(part) for part in batch.split(4)])  # (B, C), eight parts of 4 rows
    differ = (parts - norm(batch)).square().mean().sqrt()
    show(f"{name}, eight parts of 4 against one batch of 32: difference", differ, digits=1)

# %% [markdown]
# To agree, the devices must combine their statistics, and the average of their variances is not the variance of the whole: two devices with 16 rows each, the means −2 and +2 and the variance 1 have the variance 1 + 4 = 5 together, because the two means have the variance 4. `nn.SyncBatchNorm` does that at every layer and every step, on GPUs, and reduces two sums for each channel on the way back as well. [Lesson 3](03_epsilon.ipynb#Welford-or-two-passes?) has the formula that merges two variances. LayerNorm exchanges nothing.
#
# ### Why does BatchNorm help
#
# [Lesson 1](01_why_normalize.ipynb) told the story of *internal covariate shift*, and of the test by Santurkar et al. (2018): with noise of a new mean and scale **after** each BatchNorm, at every step, nets trained about as well as without.
# Here is a smaller version: six layers for the digits, and after each, or after its norm, a *jolt*: at each step every unit gets a new random shift in ±1 and a new factor in 0.5 to 1.5. The **control** is the same net without a norm. Each net trains at four rates, and 300 validation digits choose its rate, on each of three splits.

# %%
record = evidence.load("batchnorm_jolts")  # (jolts, rates, splits, seeds) each
nets = {"no norm": "no_norm", "BatchNorm": "batch", "LayerNorm": "layer"}
for at, jolts in enumerate(("no jolts", "shared by the batch", "own for each sample")):
    print(f"{jolts:19}", end="  ")
    for name, key in nets.items():
        best = record[f"{key}_validation"][at].mean(-1).argmax(0)  # (splits,) of the rates
        ends = record[key][at][best, range(3)]  # (splits, seeds), of the test digits
        print(f"{name} {ends.mean():.0f} ({ends.min():.0f} to {ends.max():.0f})", end="  ")
    print()

# %% [markdown]
# At its best rate jolts cost BatchNorm little: those that the whole batch shares, and also those of each sample's own, of which the next BatchNorm takes nothing away. LayerNorm is not ahead of the net without a norm under either. So BatchNorm's inputs *need not hold still*, at least here, and that is no virtue of all norms. Why BatchNorm helps is not settled.
#
# <details><summary>What this is</summary>
#
# Mean and range of percent right, read without jolts, after five epochs of SGD at 0.03, 0.1, 0.3 or 1. Under jolts, BatchNorm's best rate is mostly the largest, so it might do better still. The choice of the rate matters: at 0.1 for all, with jolts of each sample's own, no norm read {batchnorm_jolts[own, 0.1, *].no_norm:range} and BatchNorm {batchnorm_jolts[own, 0.1, *].batch:range}. {batchnorm_jolts:again}
#
# </details>
#
# ## On your own
#
# 1. Build a `BatchNorm2d` for images, (B, C, H, W), around your `BatchNorm1d`: one `flatten` and one `view`. Does it agree with `nn.BatchNorm2d` in both modes, buffers included? Keep it in a file of your own in `work/mine`, for [lesson 9](09_cnn.ipynb).
# 2. In [section 6.1](#6.1-Your-neighbors-decide) press *train on a batch* a few times, then *eval*, and move the sliders. What follows the neighbors now?
#
# Your layer can now stand beside a BatchNorm of your own, and is the same in training and in evaluation; it still cannot carry a gradient back without autograd: [lesson 7](07_backward.ipynb).
#
# ## Further reading
#
# - Ioffe & Szegedy (2015), *Batch Normalization*, algorithms 1 and 2.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*: at the end the convolutional nets.
# - Santurkar et al. (2018), *How Does Batch Normalization Help Optimization?*: the noisy control.
# - Wu & He (2018), *Group Normalization*, figures 1 and 2.

# %% [markdown]
# # 2 · Statistics: one mean, one variance, and the axes they are taken over
#
# **What you'll do:** compute the two numbers that Layer Normalization rests on, decide over which axes, and find out what happens when one of the choices goes wrong. *(about 45 min)*
#
# **You'll be able to**
# - write the mean and the variance of the last axis so that they broadcast back;
# - say how many means come out for a matrix, a sequence and an image, before you run the cell;
# - tell the biased from the unbiased variance by one row of four numbers;
# - say what normalizing does to the shape of a distribution: nothing.
#
# **You need:** tensors, broadcasting. [Lesson 1](01_why_normalize.ipynb) says what all this is for.
#
# *In a classroom (minutes):* 2.1: 3 · 2.2: 10 · 2.3: 8 · 2.4: 13 · 2.5: 3 · 2.6: 8. Short of time? Leave out 2.6.

# %%
import math

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 2.1 Two numbers for a row
#
# A row of $D$ numbers $x_1, \dots, x_D$ has a mean and a variance:
#
# $$\mu = \frac1D \sum_i x_i \qquad\qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2$$
#
# The mean says where the row lies. The variance is the mean squared distance from there. Its root $\sigma$, the (standard) deviation, is the spread.
#
# **Predict:** the mean and the variance of 0, 1, 2, 3. No computer needed.

# %%
row = torch.tensor([0.0, 1.0, 2.0, 3.0])  # (D,) = (4,)
mean = row.sum() / 4
var = ((row - mean) ** 2).sum() / 4
show("mean", mean)
show("variance", var)

# %% [markdown]
# $\mu = 6/4$, and $\sigma^2 = (2.25 + 0.25 + 0.25 + 2.25)/4 = 5/4$.
# To **normalize** the row (lesson 1: *standardize*), subtract the first and divide by the root of the second.

# %%
x_hat = (row - mean) / var.sqrt()  # (D,)
show("normalized", x_hat)
show("its mean", x_hat.mean())
show("its variance", (x_hat**2).mean())

# %% [markdown]
# Whatever the row was, the result has mean 0 and variance 1, as long as the row is not constant
# (a constant row has $\sigma = 0$: [lesson 3](03_epsilon.ipynb) is about that).
#
# ## 2.2 A batch of rows
#
# Layer Normalization gives **every row its own** mean and variance. A batch has two axes, $B$ rows of $D$ features, and we **reduce** the last one:
# each row of $D$ numbers becomes one. `x.mean(-1)` does that; $-1$ is the last axis, however many there are.
#
# **Predict:** the shape of `x.mean(-1)`, and that of `x - x.mean(-1)`.

# %%
x = torch.tensor(
    [[0.0, 1.0, 2.0, 3.0], [10.0, 10.0, 30.0, 30.0], [-1.0, 0.0, 0.0, 5.0]]
)  # (B, D) = (3, 4)
mean = x.mean(-1)  # (B,)
try:
    x - mean
except RuntimeError as error:
    print(error)

# %% [markdown]
# Broadcasting lines up the **last** axes: 4 features against 3 means. It cannot know that the means belong to the rows.
# `keepdim=True` keeps the reduced axis with size 1, and a size of 1 stretches.

# %%
mean = x.mean(-1, keepdim=True)  # (B, 1)
show("mean", mean)
show("x - mean", x - mean)  # (B, D)

# %% [markdown]
# The error above was luck. **Predict:** what happens for a batch of 4 rows of 4 features without `keepdim`?

# %%
square = torch.arange(16.0).reshape(4, 4) ** 2  # (B, D) = (4, 4)
wrong = square - square.mean(-1)  # (B, D): row j's mean is taken off column j
right = square - square.mean(-1, keepdim=True)  # (B, D)
show("row means, wrong", wrong.mean(-1))
show("row means, right", right.mean(-1))

# %% [markdown]
# No error, and rows whose mean is not 0. Equal sizes hide a wrong axis.
# That is why every axis of an example in this course has a size of its own.


# %% tags=["exercise", "export"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 6 min
def mean_and_var(x):
    """Return the mean and the biased variance over the last axis of x.

    x: (..., D) float tensor of any dtype; it stays as it is.
    Returns (mean, var), both of shape (..., 1) and of x's dtype: the reduced axis is kept, so
    that x - mean broadcasts. Gradients flow through both.
    Biased: the sum of squared distances is divided by D. A large mean costs it no digits.
    """
    ### BEGIN SOLUTION
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    centered = x - mean  # (..., D)
    var = (centered * centered).mean(-1, keepdim=True)  # (..., 1)
    return mean, var
    ### END SOLUTION


# %% tags=["check"]
check.mean_and_var(mean_and_var)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two means: one of `x`, one of the squared distances from it. Both over axis `-1`, both with `keepdim=True`.
# `x.var` works as well, but look at its argument `correction` first (section 2.3).
#
# </details>
#
# ## 2.3 Divide by D or by D − 1?
#
# `torch.var` divides by $D - 1$ unless it is told otherwise. Statistics books call that the *unbiased* variance:
# for rows drawn from a population it gives, on average, the variance of the population.
# Layer Normalization wants the variance **of the row itself**, and divides by $D$: the *biased* variance. PyTorch calls that `correction=0`.
#
# **Predict:** which of the two makes the normalized row smaller?

# %%
biased = row.var(correction=0)
unbiased = row.var()  # correction=1 by default
show("divided by D    ", (row - row.mean()) / biased.sqrt())
show("divided by D - 1", (row - row.mean()) / unbiased.sqrt())
# PyTorch's own; (4,) is the size of what it normalizes:
show("LayerNorm says  ", F.layer_norm(row, (4,)))

# %% [markdown]
# The rows differ by the factor $\sqrt{(D-1)/D}$, here $\sqrt{3/4} = 0.866$. It depends on nothing but $D$.
# ($D$ is a convention: a network could learn with $D-1$ as well, because the factor is the same for every row and the next weights can make up for it.
# But weights trained with one are off by that factor in a layer that uses the other.)


# %% tags=["exercise"] id="ex-2-2"
# Exercise 2.2 · ●●○○○ · 4 min
def unbiased_error(D):
    """Return by how many percent the unbiased variance makes a row of D features too small.

    D: int, at least 2. Returns a float, not rounded: 0.0 would be "not at all", 50.0 "half as
    large as it should be".
    """
    ### BEGIN SOLUTION
    return 100 * (1 - math.sqrt((D - 1) / D))
    ### END SOLUTION


# %% tags=["check"]
check.unbiased_error(unbiased_error)

# %% [markdown]
# <details><summary>Hint</summary>
#
# "13 percent too small" means 0.87 times as large. How large is it for $D = 4$? What does 0.866 leave to 1?
#
# </details>

# %%
widths = torch.tensor([2.0, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512, 768])  # (12,)
measured = []
for D in widths.int().tolist():
    g = torch.Generator().manual_seed(D)
    sample = torch.randn(D, dtype=torch.float64, generator=g)  # (D,)
    measured.append(100 * (1 - sample.std(correction=0) / sample.std()))
for m, D in zip(measured, widths.tolist(), strict=True):
    # what is left, squared, is the ratio of the variances; float64
    assert abs((1 - m / 100) ** 2 - (1 - 1 / D)) < 1e-12

# %%
plot.lines(
    widths,
    {"D − 1 for D": measured},
    xlog=True,
    markers=True,
    title="The unbiased variance makes short rows too small",
    x="features in a row, D",
    y="too small by (%)",
    caption="One random row per width, in float64. 29.3 % at D = 2, 13.4 % at D = 4, 0.78 % "
    "at D = 64, 0.07 % at D = 768: on wide layers the mistake is invisible, on a test row of "
    "four features it is not.",
    alt="A falling curve: the error of dividing by D minus 1 is 29 percent for 2 features, 13 "
    "percent for 4, and below 1 percent from 64 features on.",
)

# %% [markdown]
# A constant factor of 0.9993 keeps no layer from training, so nobody notices. Test a LayerNorm with **few features**: at $D = 4$ this mistake is thirteen percent.
#
# ## 2.4 Which axes, and how many means?
#
# Rows were easy. Most data have more than two axes:
#
# | layout | stands for | in this lesson LayerNorm reduces |
# |---|---|---|
# | (B, D) | B samples of D features | D |
# | (B, T, C) | B sentences of T tokens (words, say) of C channels (features) | C |
# | (B, C, H, W) | B images of C channels, H × W pixels | C, H, W |
#
# One mean and one variance come out for each entry of the axes that are **left**: for each sample, each token, each image. The batch axis is always left: no sample may see another.
# (Which of the others are reduced is a choice. For images (C, H, W) is one of three in use; [lesson 4](04_affine_and_module.ipynb) compares them.)

# %%
plot.cubes(
    {
        "(B, D), over D": dict(shape=dict(B=3, D=5), over=("D",)),
        "(B, T, C), over C": dict(shape=dict(B=2, T=3, C=4), over=("C",)),
        "(B, C, H, W), over C, H, W": dict(
            shape=dict(B=2, C=3, H=4, W=5), over=("C", "H", "W")
        ),
    },
    title="One block, one mean: LayerNorm never reaches into another sample",
    caption="The dark blue cells share one mean and one variance; so does every other block "
    "of one shade. Below each shape: how many means come out.",
    alt="Three tensors drawn as blocks. In a matrix each row is one group, in a sequence each "
    "token, in a batch of images each image.",
)

# %% [markdown]
# In PyTorch, `dim=` takes several axes at once. Negative numbers count from the end, so that `(-3, -2, -1)` is C, H, W whatever comes before.

# %%
g = torch.Generator().manual_seed(24)
images = torch.randn(2, 3, 4, 5, generator=g)  # (B, C, H, W)
for axes in [(-3, -2, -1), (-2, -1), (1,), (0,)]:
    mean = images.mean(axes, keepdim=True)
    print(f"over {axes!s:13}: {mean.numel():2} means, shape {tuple(mean.shape)}")

# %% [markdown]
# All four are in use, and only the first is `nn.LayerNorm([C, H, W])`:
# the second takes one channel of one image (Instance Normalization), the third one pixel (the LayerNorm *per pixel* of some vision models),
# the fourth one position of all images together (BatchNorm of flattened images, [lesson 6](06_batchnorm.ipynb)), which lets samples see each other.
#
# `F.layer_norm` wants the **sizes** of the reduced axes, always the last ones. "All axes but the batch" is `x.shape[1:]`;
# `x.shape[2:]`, seen in a public test of a LayerNorm, takes the means of Instance Normalization without saying so.

# %% tags=["exercise"] id="ex-2-3"
# Exercise 2.3 · ●●●○○ · 6 min
# How many means come out? Six whole numbers:
# how_many = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
# a  (32, 64) over the last axis
# b  (32, 20, 64) over the last axis
# c  (32, 20, 64) over the last two axes
# d  (8, 3, 28, 28) over all axes but the batch
# e  (8, 3, 28, 28) over the channels, at each pixel
# f  (8, 3, 28, 28) over the pixels, for each channel
### BEGIN SOLUTION
how_many = {"a": 32, "b": 32 * 20, "c": 32, "d": 8, "e": 8 * 28 * 28, "f": 8 * 3}
### END SOLUTION

# %% tags=["check"]
check.how_many(how_many)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Cross out the sizes of the reduced axes and multiply what is left. Images are (B, C, H, W): in (8, 3, 28, 28) the channels are the 3.
# You may type a product, such as `8 * 3`.
#
# </details>
#
# ### The axes explorer
#
# Choose a layout, select the axes to reduce (several with Ctrl or Cmd), and watch the cube and the shapes. It needs a running kernel; the figure below it does not.

# %%
layouts = {
    "(B, D)": dict(B=3, D=5),
    "(B, T, C)": dict(B=2, T=3, C=4),
    "(B, C, H, W)": dict(B=2, C=3, H=4, W=5),
}
layout = widgets.Dropdown(options=list(layouts), value="(B, T, C)", description="layout")
axes = widgets.SelectMultiple(
    options=["B", "T", "C"], value=["C"], description="reduce", rows=4
)
picture = widgets.Image(format="png", width=640)
report = widgets.Label()


# %%
def draw(change=None):
    """Redraw the cube for the chosen layout and axes."""
    shape, over = layouts[layout.value], axes.value
    kept, count, entries = plot.reduced(shape, over)
    drawn = plot.cubes(
        {f"{layout.value}, over {', '.join(over) or 'nothing'}": dict(shape=shape, over=over)},
        title=f"{count} means of {entries} entries",
        caption="as chosen",
        alt="as chosen",
        size=(7, 3),
        show=False,
    )
    picture.value = drawn.png
    report.value = f"mean and variance: shape {kept} with keepdim, {count} of each"


# %%
def change_layout(change):
    """Offer the axes of the new layout, and reduce its last one."""
    axes.options = list(layouts[layout.value])
    axes.value = [axes.options[-1]]


layout.observe(change_layout, "value")
axes.observe(draw, "value")
draw()
widgets.VBox([widgets.HBox([layout, axes]), report, picture])

# %%
sequence = dict(B=2, T=3, C=4)
plot.cubes(
    {
        f"over {', '.join(over)}": dict(shape=sequence, over=over)
        for over in [("C",), ("T", "C"), ("B",), ("B", "T")]
    },
    title="Four choices for a sequence: only over C does every token stand alone",
    caption="A tensor (B, T, C) = (2, 3, 4). Over C: LayerNorm as language models use it. "
    "Over T, C: one mean a sentence. Over B, or over B and T as BatchNorm does (lesson 6): "
    "samples are mixed.",
    alt="The same block drawn four times, reduced over C, over T and C, over B, over B and T: "
    "six, two, twelve and four means come out.",
)

# %% [markdown]
# **Try** in the explorer: (B, T, C) over T and C. How many means are left, and does a token now see the tokens behind it?

# %%
g = torch.Generator().manual_seed(25)
tokens = torch.randn(2, 5, 6, generator=g)  # (B, T, C)
later = tokens.clone()
later[:, 4] += 3  # only the last token changes
per_token = F.layer_norm(later, (6,)) - F.layer_norm(tokens, (6,))  # (B, T, C)
per_sentence = F.layer_norm(later, (5, 6)) - F.layer_norm(tokens, (5, 6))  # (B, T, C)
assert (per_token[:, :4] == 0).all() and (per_sentence[:, :4].abs().amax(-1) > 0.05).all()
print("over C:    the first four tokens change:", bool((per_token[:, :4] != 0).any()))
print("over T, C: the first four tokens change:", bool((per_sentence[:, :4] != 0).any()))

# %% [markdown]
# With the token axis among the reduced ones, the future leaks into the past. For the same reason padding at the end changes every word before it.
# A model that predicts the next word must not see it, and over C alone it does not. Some notes say that all time steps are normalized together: that is another layer.
#
# ## 2.5 What normalizing does not do
#
# Two numbers are set, the mean and the variance. Everything else stays: subtracting $\mu$ and dividing by $\sigma > 0$ moves and stretches a row, and keeps its shape.
#
# **Predict:** a row of exponentially distributed numbers (all positive, a long tail to the right). Is it bell-shaped, like a Gaussian, after normalizing?
#
# A number that tells shapes apart is the *skewness*, the mean of the normalized values cubed. A symmetric shape, such as the bell, has 0; a long tail to the right makes it positive.

# %%
g = torch.Generator().manual_seed(26)
uniform = torch.rand(4000, dtype=torch.float64, generator=g)  # (D,)
skewed = -uniform.log()  # (D,) exponential distribution
after = F.layer_norm(skewed, (4000,))  # (D,)
skewness = [(((v - v.mean()) / v.std(correction=0)) ** 3).mean() for v in (skewed, after)]
assert abs(skewness[0] - skewness[1]) < 1e-9  # the same number: float64 rounding is 1e-14
assert skewness[1] > 1.5  # 2 for the exponential distribution itself

# %%
g = torch.Generator().manual_seed(27)
bell = torch.randn(4000, dtype=torch.float64, generator=g)  # (D,)
plot.hist(
    {"before": skewed, "after LayerNorm": after, "a Gaussian": bell},
    title="Normalizing moves and stretches a row; it does not make it Gaussian",
    x="value",
    xlim=(-4, 6),
    colors={"before": "none", "after LayerNorm": "LayerNorm"},
    caption="4,000 exponentially distributed numbers as one row, before and after, beside "
    "4,000 Gaussian ones. The skewness is the same before and after.",
    alt="Three histograms. The exponential row keeps its sharp left edge and its long right "
    "tail after normalizing; a Gaussian row is symmetric.",
)

# %% [markdown]
# Nor does it put values into $[-1, 1]$: in a normalized row of $D$ numbers the largest can reach $\sqrt{D-1}$.
# One large entry among zeros shows it, as in section 1.5.

# %%
spike = torch.zeros(5, dtype=torch.float64)  # (D,)
spike[2] = 7.0
mean, var = spike.mean(), spike.var(correction=0)
show("normalized spike", (spike - mean) / var.sqrt())  # its largest entry is sqrt(D - 1) = 2

# %% [markdown]
# ## 2.6 A public notebook, read with care
#
# "Lecture 20: Layer Normalization" prints 114 numbers; this course reproduces all of them, here those of its cells 561 to 563.
# It draws two rows of five features, sends them through a linear layer of six units and a ReLU, and normalizes what comes out.
# The original seeds the global generator once. Here every draw takes the same private generator, so that the numbers stay even if other cells draw in between.

# %%
g = torch.Generator().manual_seed(123)
batch = torch.rand(2, 5, generator=g)  # (B, D)
# what nn.Linear(5, 6) does: weights and biases uniform in [-bound, bound]
bound = 1 / math.sqrt(5)
weight = nn.init.kaiming_uniform_(torch.empty(6, 5), a=math.sqrt(5), generator=g)  # (6, 5)
bias = torch.empty(6).uniform_(-bound, bound, generator=g)  # (6,)
out = torch.relu(F.linear(batch, weight, bias))  # (B, 6)
show("layer output", out)

# %%
mean = out.mean(-1, keepdim=True)  # (B, 1)
var = out.var(-1, keepdim=True)  # (B, 1) unbiased, as in the original
normalized = (out - mean) / torch.sqrt(var)  # (B, 6)
show("mean", mean)
show("variance", var)
show("normalized", normalized)

# %% [markdown]
# These are the printed numbers of the original. They were rounded to four decimals, so they agree within 5e-5; we allow 6e-5.

# %%
cell_561 = {
    "batch": [
        [0.2961, 0.5166, 0.2517, 0.6886, 0.0740],
        [0.8665, 0.1366, 0.1025, 0.1841, 0.7264],
    ],
    "out": [[0.0, 0.0, 0.4091, 0.6587, 0.3914, 0.0], [0.0, 0.0, 0.1902, 0.3182, 0.6486, 0.0]],
}
cell_562 = {"mean": [[0.2432], [0.1928]], "var": [[0.0799], [0.0670]]}
cell_563 = {
    "normalized": [
        [-0.8603, -0.8603, 0.5869, 1.4698, 0.5242, -0.8603],
        [-0.7450, -0.7450, -0.0102, 0.4844, 1.7608, -0.7450],
    ],
    "mean": [[0.0], [0.0]],
    "var": [[1.0], [1.0]],
}


# %%
def agree(ours, printed):
    """Assert that our numbers are the printed ones."""
    torch.testing.assert_close(ours, torch.tensor(printed), atol=6e-5, rtol=0)


agree(batch, cell_561["batch"]), agree(out, cell_561["out"])
agree(mean, cell_562["mean"]), agree(var, cell_562["var"])
agree(normalized, cell_563["normalized"])
agree(normalized.mean(-1, keepdim=True), cell_563["mean"])
agree(normalized.var(-1, keepdim=True), cell_563["var"])
count = sum(
    torch.tensor(numbers).numel()
    for cell in (cell_561, cell_562, cell_563)
    for numbers in cell.values()
)
print(f"all {count} numbers of cells 561 to 563 agree")

# %% [markdown]
# The numbers are right, and yet two things are wrong with them.
#
# **Predict:** the notebook checks itself with `normalized.var(-1)` and finds 1.0000. What does the *biased* variance of those rows say?

# %% tags=["exercise"] id="ex-2-4"
# Exercise 2.4 · ●●○○○ · 4 min
# The biased variance of each normalized row above (D = 6 numbers whose unbiased variance is 1):
# biased_variance = ...
### BEGIN SOLUTION
biased_variance = 5 / 6
### END SOLUTION

# %% tags=["check"]
check.biased_variance(biased_variance)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The same sum of squares, once divided by 5 and once by 6.
#
# </details>

# %%
show("biased variance", normalized.var(-1, correction=0))
ratio = F.layer_norm(out.double(), (6,), eps=0.0) / normalized.double()  # (B, 6)
show("LayerNorm / notebook", ratio[0])
# 1e-4: float32 rounding of the smallest entry, -0.0102
assert (ratio - math.sqrt(6 / 5)).abs().max() < 1e-4
assert (F.layer_norm(out, (6,)) - normalized).abs().max() > 0.16  # not a matter of rounding

# %% [markdown]
# A check that repeats a mistake cannot find it. The notebook normalizes with $D-1$ and verifies with $D-1$; its own class, in the next cell, divides by $D$.
# Compare with something **independent**: here, `F.layer_norm`.
#
# The second flaw cannot be seen in these numbers. Both rows have survivors of the ReLU. A row in which all six units are off has $\sigma = 0$, and 0/0 is not a number.
# Weights and biases drawn independently and symmetrically around 0 turn each unit off with probability 1/2, so that is one row in $2^6 = 64$; [lesson 3](03_epsilon.ipynb) mends it.

# %% [markdown]
# ## Take-away
#
# - `x.mean(-1, keepdim=True)` and the mean of the squared distances, `(..., 1)` each: they broadcast back.
# - The number of means is the product of the axes that are **not** reduced: B for (B, D), B·T for (B, T, C) over C, B for (B, C, H, W) over C, H, W.
# - [0, 1, 2, 3] tells the variances apart: normalized with $D$ its largest entry becomes 1.342, with $D - 1$ it becomes 1.162.
# - Normalizing sets two moments. The shape of the distribution stays.
#
# ## On your own
#
# 1. Normalize a row of one feature, and one of two. What is left of the input? ([Lesson 8](08_geometry.ipynb) says why.)
# 2. In (B, T, C) over C, does padding a sentence change the statistics of its real tokens? And over T and C?
# 3. Which of the mistakes of this lesson would a test on `torch.ones(3, 4)` find?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: the mean and the deviation over the H units of a layer, divided by H.
# - PyTorch's documentation of `torch.nn.LayerNorm`: "The variance is calculated via the biased estimator".
# - Wu & He (2018), *Group Normalization*, fig. 2: the cubes of this lesson, for four norms.

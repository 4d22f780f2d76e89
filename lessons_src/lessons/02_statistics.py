# %% [markdown]
# # 2 · Statistics: one mean, one variance, and the axes they are taken over
#
# "Subtract the mean and divide by the standard deviation": here is that description of Layer Normalization as one line of code.
# Its input is a sentence of three words, each a row of four numbers, and we look at what becomes of the first word.

# %%
import torch
from torch.nn import functional as F

from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

first_try = lambda x: (x - x.mean()) / x.std()
sentence = torch.tensor([[[0.0, 1, 2, 3], [4, 0, 2, 2], [1, 5, 0, 2]]])  # (1, 3, 4)
both = torch.cat([sentence, 30 * sentence.flip(1)])  # (2, 3, 4): a second, louder sentence
show("our line, the sentence alone      ", first_try(sentence)[0, 0])
show("our line, next to a second one    ", first_try(both)[0, 0])
show("F.layer_norm, the sentence alone  ", F.layer_norm(sentence, (4,))[0, 0])
show("F.layer_norm, next to a second one", F.layer_norm(both, (4,))[0, 0])

# %% [markdown]
# The word and the code are the same, but the four numbers depend on which other sentence happens to be in the batch.
# With such a layer, a translation service that works in batches would give you an answer that depends on a stranger's text, and no error would tell anyone.
# PyTorch's LayerNorm gives the word one answer, and ours agrees with it in neither case.
#
# The line makes two wrong choices. This lesson finds them, and ends with a test that would have found them.

# %% tags=["hide-input"]
import math

import ipywidgets as widgets
from torch import nn

word = F.layer_norm(both, (4,))[0, 0]
# PyTorch's two answers are one; 1e-6 is float32 rounding of numbers near 1
assert (word - F.layer_norm(sentence, (4,))[0, 0]).abs().max() < 1e-6
for x in (sentence, both):
    # the largest of the word's four gaps is 0.6 in both cases
    assert (first_try(x)[0, 0] - word).abs().max() > 0.5


def outcome(compute):
    """Show what compute() returns, or what it raises."""
    try:
        show("result", compute())
    except RuntimeError as error:
        print(f"RuntimeError: {error}")


# %% [markdown]
# *About 59 min.* **You'll be able to**
# - write the mean and the variance of the last axis so that they broadcast back;
# - tell the biased variance from the unbiased one with one short row;
# - say how many means come out for a matrix, a sequence and an image before you run the cell, and which entries can see each other;
# - say what normalizing does to the shape of a row;
# - write a test that no wrong layer of this lesson passes.
#
# **You need** tensors and broadcasting, and from [lesson 1](01_why_normalize.ipynb) what LayerNorm is for.
#
# **Recall 2.1:** a ReLU net of fifty layers has no biases and no normalization layer. You double all its weights. How much larger does its output become?
# - [ ] twice as large :: One layer alone would do that. The next layer doubles what it receives once more.
# - [ ] a hundred times as large :: That adds up fifty factors of 2. They multiply.
# - [x] $2^{50}$ times as large :: ReLU passes a factor of 2 on unchanged, so each of the fifty layers doubles the signal.
#
# **Recall 2.2:** which standard deviation of the first weights keeps the size of a signal, on average, in a wide ReLU net with layers of equal width $D$?
# - [ ] $1/D$ :: An output is a sum of $D$ products with independent signs, and such a sum grows with $\sqrt D$ only. The signal would vanish.
# - [x] $\sqrt{2/D}$ :: Kaiming's rule: $1/\sqrt D$ keeps the mean square through the matrix, and the 2 makes up for the half that ReLU sets to 0.
# - [ ] $1/\sqrt D$ :: That keeps the mean square through the matrix, but then ReLU halves it.
#
# **Recall 2.3:** now each of the fifty layers of Recall 2.1 has LayerNorm between its weights and its ReLU. You double all these weights again. What happens to the output?
# - [x] next to nothing :: The mean and the standard deviation of a row double with its numbers, so the factor cancels.
# - [ ] it doubles :: Only if the last LayerNorm let the factor through. It divides by the standard deviation, which has doubled as well.
# - [ ] it halves :: LayerNorm divides by twice as much, but what it divides is twice as large, too.

# %% [markdown]
# ## 2.1 Two numbers for a row
#
# Which two numbers does LayerNorm take from a row?
# The **mean** $\mu$ says where the $D$ numbers of the row lie. The **variance** $\sigma^2$ is the mean of their squared distances from there:
#
# $$\mu = \frac1D \sum_i x_i \qquad\qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2$$
#
# Its root $\sigma$ is the **standard deviation**, a typical distance from the mean.
#
# **Predict 2.1:** what are the mean and the variance of 0, 1, 2, 3?
# - [ ] mean 1.5, variance 5 :: 5 is the sum of the squared distances, 2.25 + 0.25 + 0.25 + 2.25. The variance is their mean.
# - [x] mean 1.5, variance 1.25 :: The mean is 6/4, and the variance (2.25 + 0.25 + 0.25 + 2.25)/4 = 5/4.
# - [ ] mean 1.5, variance 1.67 :: That is 5/3: the sum of four squares was divided by 3. A later section is about that number.
# - [ ] mean 2, variance 1.5 :: The numbers add up to 6, and there are four of them.

# %%
row = torch.tensor([0.0, 1.0, 2.0, 3.0])  # (D,) = (4,)
mean = row.sum() / 4
var = ((row - mean) ** 2).sum() / 4
show("mean", mean)
show("variance", var)

# %% [markdown]
# To **normalize** the row (lesson 1: *standardize*), subtract $\mu$ and divide by $\sigma$. The result is called $\hat x$, "x hat".

# %%
x_hat = (row - mean) / var.sqrt()  # (D,)
show("normalized", x_hat)
show("its mean", x_hat.mean())
show("its variance", (x_hat**2).mean())

# %% [markdown]
# So LayerNorm takes a mean and a variance, and $\hat x$ has mean 0 and variance 1, unless all numbers of the row are equal.
# Then $\sigma = 0$, and [lesson 3](03_epsilon.ipynb) begins.

# %% [markdown]
# ## 2.2 A batch of rows
#
# How does each row of a batch get a mean **of its own**? A batch has two axes, $B$ rows of $D$ features, and we **reduce** the last one, so that each row becomes one number.
# `x.mean(-1)` does that: $-1$ is the last axis, however many there are.
#
# **Predict 2.2:** `x` has the shape (3, 4). What does `x - x.mean(-1)` do?
# - [ ] it subtracts from each row its own mean :: That is what we want. But how would PyTorch know that the three means belong to the rows?
# - [ ] it leaves the last column alone :: Broadcasting never leaves a part out.
# - [x] it raises an error :: The means have the shape (3,). Broadcasting lines up the last axes, 4 features with 3 means, and these do not fit.

# %%
x = torch.tensor(
    [[0.0, 1.0, 2.0, 3.0], [10.0, 10.0, 30.0, 30.0], [-1.0, 0.0, 0.0, 5.0]]
)  # (B, D) = (3, 4)
outcome(lambda: x - x.mean(-1))  # its result, or the error that it raises

# %% [markdown]
# Broadcasting compares shapes from the right. With `keepdim=True` the reduced axis stays, with size 1, and an axis of size 1 is repeated as often as necessary.

# %%
mean = x.mean(-1, keepdim=True)  # (B, 1)
show("mean", mean)
show("x - mean", x - mean)  # (B, D)

# %% [markdown]
# **Predict 2.3:** and without `keepdim`, for a batch of 4 rows of 4 features?
# - [ ] an error again :: The shapes (4, 4) and (4,) fit each other. Nothing is left to complain about.
# - [x] no error, and wrong numbers :: The four means are lined up with the four columns: row j's mean is subtracted from column j.
# - [ ] no error, and the right numbers :: The shapes fit, but which axis do the four means get lined up with?

# %%
square = torch.arange(16.0).reshape(4, 4) ** 2  # (B, D) = (4, 4)
outcome(lambda: (square - square.mean(-1)).mean(-1))  # the mean of each row afterwards
outcome(lambda: (square - square.mean(-1, keepdim=True)).mean(-1))

# %% [markdown]
# Only the second line has row means of 0.
# In short: `x.mean(-1, keepdim=True)` gives each row a mean of its own. The error above was luck, because equal sizes hide a wrong axis; give the axes of an example different sizes.


# %% tags=["exercise", "export"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 5 min
def mean_and_var(x):
    """Return the mean and the biased variance over the last axis of x.

    x: (..., D) float32 or float64 tensor; x is not changed.
    Returns (mean, var), both of shape (..., 1) and of x's dtype: the reduced axis is kept, so
    that x - mean broadcasts. Gradients flow through both.
    Biased: the sum of squared distances is divided by D. It stays accurate when the mean is far
    larger than the standard deviation.
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
# `x.var` works as well, but look up its argument `correction` first.
#
# </details>

# %% [markdown]
# ## 2.3 Biased or not
#
# Should the sum of the squared distances be divided by $D$ or by $D - 1$? `torch.var` and `torch.std` divide by $D - 1$ unless they are told otherwise.
# Statistics calls that variance *unbiased*: for independent random samples it equals, on average, the variance of the distribution they were drawn from ([why](02_statistics.ipynb#Why-the-unbiased-variance-is-called-so)).
# LayerNorm wants the variance **of the row itself** and divides by $D$, a convention that goes back to its paper. That variance is called *biased*; PyTorch writes `correction=0`.
#
# **Predict 2.4:** which divisor makes the numbers of the normalized row larger in absolute value?
# - [x] $D$ :: Dividing the sum by more gives a smaller variance, and a row that is divided by a smaller $\sigma$ comes out larger.
# - [ ] $D - 1$ :: It makes the *variance* larger. The row is then divided by its root.
# - [ ] neither :: The mean is subtracted in both, but then the row is divided by two different numbers.

# %%
center = row - row.mean()  # (D,) the row 0, 1, 2, 3 again
show("divided by D     ", center / row.var(correction=0).sqrt())
show("divided by D - 1 ", center / row.var().sqrt())
show("F.layer_norm says", F.layer_norm(row, (4,)))  # (4,) is the size of what it normalizes

# %% [markdown]
# `F.layer_norm` divides by $D$, so `x.std()` was the first wrong choice of our opening line. How much does that matter?


# %% tags=["exercise"] id="ex-2-2"
# Exercise 2.2 · ●●○○○ · 5 min
def unbiased_error(D):
    """Return by how many percent x_hat made with D - 1 is smaller than x_hat made with D.

    Percent of the latter, for the absolute values of a row of D features.
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
# Both variances divide the same sum. What is the ratio of the two, and what becomes of that ratio when the row is divided by the root?
# "13 percent too small" means 0.87 times as large. `math` is imported.
#
# </details>

# %% tags=["hide-input"]
widths = torch.tensor([2.0, 3, 4, 8, 16, 32, 64, 128, 256, 768])  # (10,)
measured = []
for D in widths.int().tolist():
    g = torch.Generator().manual_seed(D)
    sample = torch.randn(D, dtype=torch.float64, generator=g)  # (D,)
    measured.append(100 * (1 - sample.std(correction=0) / sample.std()))
for m, D in zip(measured, widths.tolist(), strict=True):
    # what is left, squared, is the ratio of the variances; float64
    assert abs((1 - m / 100) ** 2 - (1 - 1 / D)) < 1e-12

# %% tags=["hide-input"]
plot.lines(
    widths,
    {"with D − 1": measured},
    xlog=True,
    markers=True,
    title="The unbiased variance makes short rows too small",
    colors={"with D − 1": "#2B2F33"},
    x="features in a row, D",
    y="too small by (%)",
    caption="One random row for each width, in float64; the ratio depends on the width alone. "
    "29.3 % at D = 2, 13.4 % at D = 4, 0.78 % at D = 64, 0.07 % at D = 768.",
    alt="A falling curve over the number of features, from 2 to 768, on a logarithmic axis: "
    "dividing by D minus 1 makes the row 29 percent too small for 2 features, 13 percent for "
    "4, and less than 1 percent from 64 features on.",
)

# %% [markdown]
# The unbiased variance is $D/(D-1)$ times the biased one, so the row comes out $\sqrt{(D-1)/D}$ times as large.
# The factor is the same for every row, so the weights that follow can make up for it; but weights that were trained with one divisor are off by that factor in a layer that uses the other.
# In short: LayerNorm's variance is the biased one, and wide rows hide a wrong choice, so **test a LayerNorm on few features**.

# %% [markdown]
# ## 2.4 Which axes, and how many means?
#
# Most data have more than two axes. Over which of them does LayerNorm take its mean?
#
# | layout | what it holds | in this lesson LayerNorm reduces |
# |---|---|---|
# | (B, D) | B samples of D features | D |
# | (B, T, C) | B sentences of T tokens (words, say) of C channels (features) | C |
# | (B, C, H, W) | B images of C channels, H × W pixels | C, H, W |
#
# One mean comes out for each entry of the axes that are **left**: for each sample, each token, each image. The batch axis is always left, so that no sample sees another.
# Of the others some layers reduce fewer: for images C alone, at each pixel ([lesson 4](04_affine_and_module.ipynb)).

# %% tags=["hide-input"]
plot.cubes(
    {
        "(B, D), over D": dict(shape=dict(B=3, D=5), over=("D",)),
        "(B, T, C), over C": dict(shape=dict(B=2, T=3, C=4), over=("C",)),
        "(B, C, H, W), over C, H, W": dict(
            shape=dict(B=2, C=3, H=4, W=5), over=("C", "H", "W")
        ),
    },
    title="One block, one mean: LayerNorm never reaches into another sample",
    caption="The dark blue cells share one mean and one variance; each of the other blocks "
    "has its own. Below each shape: how many means come out.",
    alt="Three tensors drawn as blocks. In a matrix (3, 5) each row is one group, in two "
    "sentences (2, 3, 4) each token, in a batch of images (2, 3, 4, 5) each image: 3, 6 and 2 "
    "means.",
)

# %% [markdown]
# In PyTorch, `mean` takes several axes at once. Negative numbers count from the end, so `(-3, -2, -1)` is C, H, W.

# %%
g = torch.Generator().manual_seed(24)
images = torch.randn(2, 3, 4, 5, generator=g)  # (B, C, H, W)
names = ["LayerNorm", "Instance Normalization", "LayerNorm at each pixel", "BatchNorm"]
for name, axes in zip(names, [(-3, -2, -1), (-2, -1), (-3,), (0, -2, -1)], strict=True):
    mean = images.mean(axes, keepdim=True)
    print(f"{name:23} {axes!s:12} {mean.numel():2} means, shape {tuple(mean.shape)}")

# %% [markdown]
# Only in BatchNorm, during training, do samples see each other ([lesson 6](06_batchnorm.ipynb)).
#
# `F.layer_norm` wants the **sizes** of the axes that it reduces, and these are always the last ones.
#
# **Predict 2.5:** for images (B, C, H, W), what does `F.layer_norm(images, images.shape[2:])` average over?
# - [ ] all axes but the batch :: That is `shape[1:]`. The axes are counted from 0, and axis 1 is C.
# - [ ] the channels of each pixel :: The sizes it is given are those of the last two axes, H and W.
# - [x] the pixels of each channel :: `shape[2:]` is (H, W): one mean for each channel of each image, as in Instance Normalization.

# %%
given = F.layer_norm(images, images.shape[2:])  # (B, C, H, W)
show("largest mean over H, W of a channel ", given.mean((-2, -1)).abs().max())
show("largest mean over C of a pixel      ", given.mean(-3).abs().max(), digits=1)

# %% [markdown]
# The channels come out with mean 0 and the pixels do not. `F.layer_norm` did what its sizes said: this is Instance Normalization, not the LayerNorm of the table, and no error says so.

# %% tags=["exercise"] id="ex-2-3"
# Exercise 2.3 · ●●●○○ · 5 min
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
# Choose a layout and the axes to reduce (several with Ctrl or Cmd), and watch which entries share a mean. It needs a running kernel.

# %% tags=["hide-input"]
layouts = {
    "(B, D)": dict(B=3, D=5),
    "(B, T, C)": dict(B=2, T=3, C=4),
    "(B, C, H, W)": dict(B=2, C=3, H=4, W=5),
}
wide = widgets.Layout(width="60%")
layout_box = widgets.Dropdown(
    options=list(layouts), value="(B, T, C)", description="layout", layout=wide
)
axes_box = widgets.SelectMultiple(
    options=["B", "T", "C"], value=["C"], description="reduce", rows=4, layout=wide
)
picture = widgets.Image(format="png", width=640)
report = widgets.Label()


def draw(change=None):
    """Redraw the cube for the chosen layout and axes."""
    shape, over = layouts[layout_box.value], axes_box.value
    kept, count, entries = plot.reduced(shape, over)
    drawn = plot.cubes(
        {
            f"{layout_box.value}, over {', '.join(over) or 'nothing'}": dict(
                shape=shape, over=over
            )
        },
        title=f"{count} means of {entries} entries",
        caption="as chosen",
        alt="as chosen",
        size=(7, 3),
        show=False,
    )
    picture.value = drawn.png
    report.value = f"mean and variance: shape {kept} with keepdim, {count} of each"


def change_layout(change):
    """Offer the axes of the new layout, and reduce its last one."""
    axes_box.options = list(layouts[layout_box.value])
    axes_box.value = [axes_box.options[-1]]


layout_box.observe(change_layout, "value")
axes_box.observe(draw, "value")
draw()
widgets.VBox([layout_box, axes_box, report, picture])

# %% tags=["hide-input"]
sequence = dict(B=2, T=3, C=4)
plot.cubes(
    {
        f"over {', '.join(over)}": dict(shape=sequence, over=over)
        for over in [("C",), ("T", "C"), ("B",), ("B", "T")]
    },
    title="Over C a token has its own mean; with B reduced, samples share one",
    caption="A tensor (B, T, C) = (2, 3, 4). Over C: LayerNorm as language models use it. "
    "Over B, or over B and T as BatchNorm does, every mean belongs to several samples.",
    alt="The same block drawn four times, reduced over C, over T and C, over B, over B and T: "
    "six, two, twelve and four means come out.",
)

# %% [markdown]
# ### Who sees whom
#
# We change the last of five words in the first of three sentences, and normalize the old and the new batch.
#
# **Predict 2.6:** mean and variance are taken over T and C. What happens to the first four words?
# - [ ] nothing :: They come earlier, but a mean over T knows no earlier and later. All words of a sentence go into it.
# - [x] all four change :: They share their mean and their variance with the fifth word.
# - [ ] only the fourth changes :: A mean does not know which word is next to which.


# %%
def normalize_over(axes, x):
    """Normalize x, with one mean and one variance for all entries along the axes."""
    return (x - x.mean(axes, keepdim=True)) / x.std(axes, correction=0, keepdim=True)


g = torch.Generator().manual_seed(30)
old = torch.randn(3, 5, 6, generator=g)  # (B, T, C)
new = old.clone()
new[0, 4, :3] += 5  # half of its features: over C a shift of all would cancel
for name, axes in {"C": -1, "T, C": (-2, -1), "B": 0, "B, T": (0, 1)}.items():
    gap = (normalize_over(axes, new) - normalize_over(axes, old)).abs()  # (B, T, C)
    earlier, other = gap[0, :4].max(), gap[1:].max()
    print(f"over {name:4}: earlier words change by {earlier:.1f}, others by {other:.1f}")

# %% tags=["hide-input"]
unchanged = (normalize_over(-1, new) == normalize_over(-1, old)).all(-1)  # (B, T)
assert unchanged.sum() == 14 and not unchanged[0, 4]

# %% [markdown]
# "Others" are the words of the other sentences, and each number is the largest change. Entries that share a mean see each other. Over C alone only the changed word comes out differently. With T among the reduced axes the future leaks into the past, which a model that predicts the next word must not allow, and filler words that bring sentences to one length (*padding*) can change every word.
# With B among them other sentences change. Our opening line reduces all three, and that was its second wrong choice.
# In short: LayerNorm never reduces the batch, PyTorch reduces the last axes, and the sizes of the axes that are left, multiplied, give the number of means.

# %% [markdown]
# ## 2.5 The shape of a row
#
# Does normalizing make a row bell-shaped, like a Gaussian? A number that tells shapes apart is the *skewness*, the mean of the normalized values cubed: 0 for a symmetric shape such as the bell, positive for a long tail to the right.
# Our row follows the exponential distribution, which has such a tail.
#
# **Predict 2.7:** its skewness is about 2. What is it after LayerNorm?
# - [ ] 0 :: A mean of 0 says where the row lies, not that its left side mirrors its right side.
# - [ ] about 1 :: That would take a map that does more to the tail than to the rest. Normalizing does the same to all entries.
# - [x] what it was before :: Subtracting $\mu$ and dividing by $\sigma$ moves and scales the row, and no more. The skewness is that of the *normalized* values, so it cannot notice.

# %%
share = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000  # (D,) evenly between 0 and 1
tailed = -2 * (1 - share).log()  # (D,) that share of the distribution lies below it
after = F.layer_norm(tailed, (4000,))  # (D,)
for name, v in {"before": tailed, "after": after}.items():
    show(f"skewness {name}", (((v - v.mean()) / v.std(correction=0)) ** 3).mean(), digits=2)

# %% tags=["hide-input"]
plot.hist(
    {"before": tailed, "after LayerNorm": after, "a Gaussian": torch.special.ndtri(share)},
    title="Normalizing moves and scales a row and keeps its shape",
    x="value",
    xlim=(-4, 8),
    bins=48,
    colors={"before": "none", "after LayerNorm": "LayerNorm", "a Gaussian": "#2B2F33"},
    caption="A row of 4,000 numbers that follow the exponential distribution, before and "
    "after, and 4,000 that follow the Gaussian. The axis ends at 8, the row before at 18.",
    alt="Three histograms over values from -4 to 8. The exponential row has a sharp left edge "
    "and a long right tail, before and, half as wide, after normalizing; the Gaussian row is "
    "symmetric around 0.",
)

# %% [markdown]
# And how large can a normalized value become?
#
# **Predict 2.8:** a row of 101 numbers has one 7 and a hundred zeros. What does the 7 become?
# - [ ] 1 :: Nothing divides by the largest value. Work out $\sigma$, which is far below 7.
# - [ ] about 3 :: In a Gaussian sample few numbers lie beyond 3. This row is no such sample.
# - [x] 10 :: The mean is 7/101 and $\sigma$ is 70/101, so it becomes (7 − 7/101)/(70/101) = 10. By this formula it is $\sqrt{D-1}$, whatever positive number replaces the 7.

# %%
spike = torch.zeros(101, dtype=torch.float64)  # (D,)
spike[40] = 7.0
show("largest entry", F.layer_norm(spike, (101,), eps=0.0).max(), digits=2)  # eps: lesson 3

# %% [markdown]
# In short: normalizing sets two numbers, the mean and the variance. The shape of the row stays, and one entry can be as large as $\sqrt{D-1}$.

# %% [markdown]
# ## 2.6 A test that finds a wrong layer
#
# How could the author of the opening line have found out? With a test. But a test is code as well, so who tests the test?
#
# **Predict 2.9:** a layer divides by $D - 1$. Its author tests it: `x_hat.var(-1)` ought to be 1. What does the test say?
# - [ ] it fails, because the variance is $(D-1)/D$ :: The *biased* variance is. Which of the two does `var(-1)` take?
# - [x] it passes :: `var` divides by $D - 1$, too, and both mistakes cancel.
# - [ ] it fails on short rows and passes on wide ones :: The two divisors cancel at every width.

# %%
x_hat = center / row.std()  # (D,) divided by D - 1
show("x_hat.var(-1)              ", x_hat.var(-1))
show("x_hat.var(-1, correction=0)", x_hat.var(-1, correction=0))

# %% [markdown]
# A test that repeats a mistake cannot find it, so compare the layer with something **independent** of it.
# And choose the input with care, because there are inputs on which a layer with the wrong axes does exactly what LayerNorm does.


# %% tags=["exercise"] id="ex-2-4"
# Exercise 2.4 · ●●●○○ · 7 min
def is_layer_norm(layer):
    """Say whether a layer is LayerNorm over the last axis, without gain and bias (lesson 4).

    layer: a function that takes a float tensor x (..., D) and returns a tensor of its shape.
        You choose the x to try it on. If layer raises an error, let it: it counts as False.
    Returns True for a right layer. On rows whose variance is 1 or more a right layer may be up
    to 1e-4 off F.layer_norm, by rounding or because it has no epsilon (lesson 3), so choose
    such rows and allow a little more than that.
    Returns False for one that reduces other axes (all, the first, axis 1, all but the first),
    forgets keepdim, divides by D - 1, leaves a step out, has the wrong sign or a bias, or cuts
    its result off at -1 and 1.
    """
    ### BEGIN SOLUTION
    g = torch.Generator().manual_seed(2)
    x = 5 + 10 * torch.randn(2, 3, 4, generator=g)  # (B, T, D)
    return torch.allclose(layer(x), F.layer_norm(x, (4,)), atol=1e-3)
    ### END SOLUTION


# %% tags=["check"]
check.is_layer_norm(is_layer_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# How many axes must x have, so that "axis 1" and "all axes but the first" are not the last axis? How many features, so that D − 1 shows? Then compare with `F.layer_norm`: `torch.allclose(a, b, atol=...)` returns True or False.
#
# </details>
#
# Now your test meets the opening line, and the same line with your `mean_and_var`.


# %%
def second_try(x):
    """Subtract the mean of each row and divide by its standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


print("our line is LayerNorm:      ", is_layer_norm(first_try))
print("our second try is LayerNorm:", is_layer_norm(second_try))
show("the sentence alone      ", second_try(sentence)[0, 0])
show("next to a second one    ", second_try(both)[0, 0])

# %% tags=["hide-input"]
assert not is_layer_norm(first_try) and is_layer_norm(second_try)
# 1e-4: second_try has no eps, and the smallest variance here is 1.25
assert (second_try(both) - F.layer_norm(both, (4,))).abs().max() < 1e-4

# %% [markdown]
# The first word has one answer now, whoever else is in the batch.
# In short: a test can find them all if it compares with something independent, on three axes and few features.
#
# ### A published notebook, read with care (optional, 3 min)
#
# The notebook "Lecture 20: Layer Normalization" of [marcel1520/building-llm](https://github.com/marcel1520/building-llm) divides by $D - 1$ in both places, as in Predict 2.9. It sends two rows of five features through a linear layer of six units and a ReLU, normalizes what comes out, and checks the result.
# It seeds the global generator once, so its last cell, which draws again, prints other numbers when it is run a second time. Here all draws come from a private generator instead, and the numbers of its cells In [561] to In [563], the first of which sets the seed, come out the same.

# %%
g = torch.Generator().manual_seed(123)
batch = torch.rand(2, 5, generator=g)  # (B, D)
# what nn.Linear(5, 6) does: weights and biases uniform in [-bound, bound]
bound = 1 / math.sqrt(5)
weight = nn.init.kaiming_uniform_(torch.empty(6, 5), a=math.sqrt(5), generator=g)  # (6, 5)
bias = torch.empty(6).uniform_(-bound, bound, generator=g)  # (6,)
out = torch.relu(F.linear(batch, weight, bias))  # (B, 6)
mean, var = out.mean(-1, keepdim=True), out.var(-1, keepdim=True)  # (B, 1), unbiased
normalized = (out - mean) / torch.sqrt(var)  # (B, 6)
show("normalized", normalized)
show("variance as the notebook checks it", normalized.var(-1))

# %% tags=["hide-input"]
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


def agree(ours, printed):
    """Assert that our numbers are the printed ones: rounded to four decimals, 5e-5; we allow
    6e-5.
    """
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
# **Predict 2.10:** what does the *biased* variance of those rows of six say?
# - [ ] 1, as the notebook found :: The notebook divides by 5 both times. The biased variance divides the same sum by 6.
# - [x] 5/6 :: The sum of the squared distances is 5, because its fifth is 1. A sixth of it is 0.83.
# - [ ] 6/5 :: The biased variance is the smaller of the two, because it divides by more.

# %%
show("biased variance", normalized.var(-1, correction=0))
ratio = F.layer_norm(out.double(), (6,), eps=0.0) / normalized.double()  # (B, 6)
show("F.layer_norm / notebook, its first row", ratio[0])

# %% tags=["hide-input"]
# 1e-4: float32 rounding of the smallest entry, -0.0102
assert (ratio - math.sqrt(6 / 5)).abs().max() < 1e-4
assert (F.layer_norm(out, (6,)) - normalized).abs().max() > 0.16  # not a matter of rounding

# %% [markdown]
# Its own class, in the next cell, divides by $D$, so the two halves of the notebook do not agree.
# A second flaw does not show in these numbers: a row in which ReLU has switched off all six units has $\sigma = 0$. With weights and biases drawn independently and symmetrically around 0, as here, each unit is off with chance 1/2, and all six are with chance $1/2^6$, one time in 64.

# %% [markdown]
# ## Take-away
#
# - With `keepdim=True` mean and variance of the last axis have the shape (..., 1) and broadcast back.
# - LayerNorm divides by $D$. The row 0, 1, 2, 3 shows it: its largest entry becomes 1.342, with $D - 1$ only 1.162.
# - There are as many means as the product of the axes **not** reduced: B for (B, D), B·T for (B, T, C) over C, B for (B, C, H, W) over C, H, W. Only entries that share a mean see each other.
# - Normalizing leaves the shape of a row as it was, and an entry can reach $\sqrt{D-1}$.
# - A test that compares with something independent, on three axes and few features, finds wrong axes and a wrong divisor.
#
# **Formula card**, for the $D$ numbers $x_1, \dots, x_D$ that share one mean:
#
# $$\mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sigma}$$
#
# $\epsilon$ joins it in [lesson 3](03_epsilon.ipynb), the gain $\gamma$ and the bias $\beta$ in [lesson 4](04_affine_and_module.ipynb).

# %% [markdown]
# ## Deeper (optional, 1 min)
#
# ### Why the unbiased variance is called so
#
# The distances are measured from the row's own mean, which lies in the middle of just these numbers, so their squares add up to less than those of the distances from the mean of the distribution.
# For rows of $D$ independent draws the sum of the squares is too small by the factor $(D-1)/D$ on average, and dividing by $D - 1$ makes up for exactly that. Here the distribution has variance 1.

# %%
g = torch.Generator().manual_seed(31)
samples = torch.randn(100_000, 4, dtype=torch.float64, generator=g)  # (B, D)
show("biased variance, on average   ", samples.var(-1, correction=0).mean(), digits=2)
show("unbiased variance, on average ", samples.var(-1).mean(), digits=2)
show("root of the latter, on average", samples.std(-1).mean(), digits=2)

# %% tags=["hide-input"]
# 3/4, 1 and, for Gaussian draws, sqrt(8 / (3 pi)) = 0.921; 100,000 rows leave errors of 0.003
for found, expected in [
    (samples.var(-1, correction=0).mean(), 0.75),
    (samples.var(-1).mean(), 1.0),
    (samples.std(-1).mean(), math.sqrt(8 / (3 * math.pi))),
]:
    assert abs(found - expected) < 0.015

# %% [markdown]
# So the unbiased variance keeps its promise. Its root does not: the standard deviation of a short sample stays too small on average, with either divisor.
#
# ## On your own
#
# 1. Normalize a row of one feature, and one of two. What is left of the input? ([Lesson 8](08_geometry.ipynb) says why.)
# 2. Which of the mistakes of this lesson would a test on `torch.ones(3, 4)` find, and which would one on `torch.randn(64, 768)` with a tolerance of 0.01?
# 3. A layer cuts its result off at −3 and 3. Why does no test on four features find it, and how many features does it take?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: the mean and the standard deviation over the H units of a layer, divided by H.
# - PyTorch's documentation of `torch.nn.LayerNorm`: the variance "is calculated via the biased estimator".
# - Wu & He (2018), *Group Normalization*, fig. 2: the cubes of this lesson, for four norms.

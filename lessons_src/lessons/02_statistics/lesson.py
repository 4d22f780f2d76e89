# %% [markdown]
# # 2 · Statistics: one mean, one variance, and the axes they are taken over
#
# "Subtract the mean and divide by the standard deviation": here is that description of LayerNorm as a line of code. Its input is a sentence of three words, each a row of six numbers. We look at what becomes of the first word.

# %%
import torch
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, explore, show  # sets torch to one thread (LESSON_THREADS)

first_try = lambda x: (x - x.mean()) / x.std()
words = torch.tensor([[5.0, 1, -1, 4, 1, 2], [4, 7, 3, 1, 6, 3], [8, 16, 14, 4, 10, 8]])
alone = words[None]  # (B, T, C) = (1, 3, 6), one sentence
both = torch.stack([words, -30 * words])  # (2, 3, 6), with a louder one
show("first_try, the sentence alone     ", first_try(alone)[0, 0], 2)
show("first_try, next to a second one   ", first_try(both)[0, 0], 2)
show("F.layer_norm, the sentence alone  ", F.layer_norm(alone, (6,))[0, 0], 2)
show("F.layer_norm, next to a second one", F.layer_norm(both, (6,))[0, 0], 2)

# %% [markdown]
# Our line gives the same word two answers, depending on whose sentence happens to be beside it, and no error says so. PyTorch's LayerNorm gives it one answer. The line makes two wrong choices. You will find both, and write a test that finds them.
#
# *About 60 min, in two sittings of 29 and 31.* **You'll be able to**
# - write the mean and the variance of each row so that they broadcast back;
# - say how many means come out, and which numbers can see each other;
# - write a test that finds a wrong layer.
#
# **You need** tensors and broadcasting, and from [lesson 1](01_why_normalize.ipynb) what LayerNorm is for.

# %% [markdown]
# ## 2.1 Two numbers for a row
#
# LayerNorm makes a new row $\hat x$, "x hat", out of a row $x$. Play with one.

# %%
explore.row((5, 1, -1, 4, 1, 2), eps=0, parts=())

# %% [markdown]
# **Find out:** how large can you make the last number of $\hat x$? Move its bar, then the other five.
#
# <details><summary>What there is to find</summary>
#
# No larger than 2.24. It gets there when the other five are equal and lower, however far away it is. [Section 2.5](#2.5-The-shape-of-a-row) says why.
#
# </details>
#
# LayerNorm takes two numbers from the row: the **mean** $\mu$, and the **variance** $\sigma^2$, the mean of the squared distances from there. Its root $\sigma$ is the **standard deviation**. Fill in the empty places with a pencil:
#
# | | | | | | | | sum | divided by 6 |
# |---|---|---|---|---|---|---|---|---|
# | $x$ | 5 | 1 | −1 | 4 | 1 | 2 | 12 | $\mu$ = 2 |
# | distance $x - \mu$ | 3 | −1 | | | | 0 | 0 | |
# | its square | 9 | 1 | | | | 0 | | $\sigma^2$ = |
# | $\hat x = (x - \mu)/\sigma$ | | | | | | 0 | 0 | |

# %%
row = words[0]  # (D,) = (6,)
mean = row.sum() / 6  # ()
distance = row - mean  # (D,)
var = (distance * distance).sum() / 6  # ()
x_hat = distance / var.sqrt()  # (D,)
for label, value in dict(mean=mean, distance=distance, var=var, x_hat=x_hat).items():
    show(label, value, 1)

# %% [markdown]
# **Subtract the mean, divide by the standard deviation: to normalize is no more than that.**
#
# <details><summary>When this holds</summary>
#
# For a row whose numbers are not all equal. Then $\hat x$ has mean 0 and variance 1. If all are equal, $\sigma = 0$, and [lesson 3](03_epsilon.ipynb) begins. Lesson 1 called the same step *standardize*.
#
# </details>

# %% [markdown]
# ## 2.2 A batch of rows
#
# `x.mean(-1)` **reduces** the last axis: each row of a batch becomes one number.
#
# **Predict 2.1:** our three words have the shape (3, 6). What does `words - words.mean(-1)` do?
# - [ ] it subtracts from each word its own mean :: That is what we want. But how would PyTorch know that the three means belong to the rows?
# - [ ] it leaves the last three columns alone :: Broadcasting never leaves a part out.
# - [x] it raises an error :: The means have the shape (3,). Broadcasting lines up the last axes, 6 numbers with 3 means, and these do not fit.

# %% tags=["hide-input"]
# Runs words - words.mean(-1).
try:
    print(words - words.mean(-1))
except RuntimeError as error:
    print(error)

# %% [markdown]
# With `keepdim=True` the reduced axis stays, with size 1, and size 1 is repeated as often as necessary:

# %%
mean = words.mean(-1, keepdim=True)  # (B, 1)
show("the means, with keepdim=True", mean, 1)
show("each word less its own mean", words - mean, 1)

# %% [markdown]
# Without it, the error was luck. Here are the first three columns of the same words, a square:

# %%
square = words[:, :3]  # (B, D) = (3, 3)
wrong, right = square - square.mean(-1), square - square.mean(-1, keepdim=True)  # (B, D)
show("row means afterwards, without keepdim", wrong.mean(-1), 1)
show("row means afterwards, with keepdim   ", right.mean(-1), 1)

# %% [markdown]
# No error and wrong numbers: row $j$'s mean went to column $j$. So give the axes of an example different sizes.
#
# **keepdim=True keeps a mean with its row.**


# %% tags=["exercise", "export"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 4 min
def mean_and_var(x):
    """Return the mean and the variance of each row of x: of its last axis.

    Example: the row 5, 1, -1, 4, 1, 2 gives the mean [2.] and the variance [4.].
    x: (..., D) float32 or float64 tensor. Returns (mean, var), both (..., 1) and of x's dtype.
    x is not changed. Both can be differentiated twice, also where var is 0. The variance stays
    accurate where the mean is far larger than the standard deviation.
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
# `torch.var` and `torch.std` divide the sum of the squared distances by $D - 1$, unless they are told otherwise. Statisticians do that when a few numbers stand for many that nobody has seen ([why](#Why-the-unbiased-variance-is-called-so)), and call it *unbiased*. A layer has seen all there is, the row itself, and divides by $D$. That is called *biased*; PyTorch writes `correction=0`.
#
# How much does a wrong divisor change? Take a pencil, and call the sum of the squared distances $S$.

# %% tags=["exercise"] id="ex-2-2"
# Exercise 2.2 · ●●○○○ · 4 min
# What comes out with D - 1 in place of D? Copy this line and replace the dots:
# divisor = dict(variance=..., percent=...)
# variance  of the row 5, 1, -1, 4, 1, 2
# percent   by which each number of x_hat is too small, in a row of four numbers
# Example: a number that should be 2 and comes out as 1.5 is 25 percent too small.
# You may type a fraction or a root, such as 2 ** 0.5; one decimal is enough.
### BEGIN SOLUTION
divisor = dict(variance=24 / 5, percent=100 * (1 - (3 / 4) ** 0.5))
### END SOLUTION

# %% tags=["check"]
check.divisor(divisor)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The standard deviations are $\sqrt{S/D}$ and $\sqrt{S/(D-1)}$, and a row is *divided* by them. Which share of the right row is left? "Too small by" is what is missing.
#
# </details>
#
# On our first word, and on rows of other widths:

# %%
show("divided by D - 1 ", distance / row.std())
show("F.layer_norm says", F.layer_norm(row, (6,)))
for D in (2, 4, 64, 768):
    print(f"{D:3} features: {100 * (1 - (1 - 1 / D) ** 0.5):5.2f} % too small")

# %% [markdown]
# So `x.std()` was the first wrong choice of our opening line. Your function mends it, and the second one, too, which sitting two names:


# %%
def second_try(x):
    """Subtract the mean of each row and divide by its standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


show("second_try, the sentence alone  ", second_try(alone)[0, 0], 2)
show("second_try, next to a second one", second_try(both)[0, 0], 2)

# %% [markdown]
# The word has one answer now, and it is PyTorch's.
#
# **LayerNorm divides by D. Test it on few features.**

# %% [markdown]
# ## What you have now
#
# - $\hat x = (x - \mu)/\sigma$, with $\mu$ and $\sigma$ from the row itself.
# - **keepdim=True keeps a mean with its row.**
# - **LayerNorm divides by D**; `x.std()` divides by D − 1.
#
# **You can stop here:** close the notebook, write 5, 1, −1, 4, 1, 2 on paper, and find its $\hat x$ with both divisors.
#
# *Sitting two* counts the means of sentences and images, and has you write the test that the opening line should have met.

# %% [markdown]
# ## 2.4 Which axes, and how many means?

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch.nn import functional as F

from lessonkit import check, explore, show
from lessonkit.mine import mean_and_var

first_try = lambda x: (x - x.mean()) / x.std()
words = torch.tensor([[5.0, 1, -1, 4, 1, 2], [4, 7, 3, 1, 6, 3], [8, 16, 14, 4, 10, 8]])
row = words[0]  # (D,) = (6,)


def second_try(x):
    """Subtract the mean of each row and divide by its standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


# %% [markdown]
# **Recall 2.1:** `standardize` of [lesson 1](01_why_normalize.ipynb) stands before each of fifty ReLUs. You double all weights before them. What happens to the output?
# - [ ] it becomes $2^{50}$ times as large :: So it would without `standardize`, because the factors multiply.
# - [ ] it doubles :: The last `standardize` divides by a standard deviation that has doubled as well.
# - [x] nothing :: The mean and the standard deviation of a row double with its numbers, so the factor cancels.
#
# Most data have more than two axes: (B, T, C) is $B$ sentences of $T$ words (tokens) of $C$ numbers (channels; for one row we wrote $D$), (B, C, H, W) is $B$ images of $C$ channels and H × W pixels.

# %%
explore.block("BTC", over=("C",))

# %% [markdown]
# **Find out:** leave C uncut. Over which axes of (B, T, C) must the mean run, so that exactly four means come out? How does the shape tell their number?
#
# <details><summary>What there is to find</summary>
#
# Over B and T. The sizes of the axes that are left, multiplied, are the number of means: here C = 4 alone is left.
#
# </details>
#
# **One mean for each position on the axes that are left.** LayerNorm always leaves the batch, so that no sample sees another.
#
# `mean` takes several axes at once, and counts negative ones from the end. `F.layer_norm` takes the **sizes** of the last axes instead, and here is a common slip:

# %%
images = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(24))  # (B, C, H, W)
inside = F.layer_norm(images, images.shape[2:])  # (B, C, H, W)
show("with shape[2:], largest mean of a channel", inside.mean((-2, -1)).abs().max())

# %% [markdown]
# `shape[2:]` is (H, W), so each channel of each image got a mean of its own. That is Instance Normalization, and no error says so.

# %% tags=["exercise"] id="ex-2-3"
# Exercise 2.3 · ●●○○○ · 3 min
# How many means come out? Six whole numbers; a product such as 2 * 3 is one.
# Example: (2, 3, 4) over the last axis would be 2 * 3.
# how_many = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
# a  (32, 64) over the last axis
# b  (32, 20, 64) over the last axis
# c  (32, 20, 64) over the last two axes
# d  (8, 3, 28, 28), images (B, C, H, W), over all axes but the batch
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
# Cross out the sizes of the reduced axes and multiply what is left. In (8, 3, 28, 28) the channels are the 3.
#
# </details>
#
# Why does it matter who shares a mean? We change the last of five words in the first of three sentences, and normalize again.
#
# **Predict 2.2:** mean and variance are taken over T and C. What happens to the first four words?
# - [ ] nothing :: They come earlier, but a mean over T knows no earlier and later. All words of a sentence go into it.
# - [x] all four change :: They share their mean and their variance with the fifth word.
# - [ ] only the fourth changes :: A mean does not know which word is next to which.


# %%
def normalize_over(axes, x):
    """Normalize x, with one mean and one variance for all numbers along the axes."""
    return (x - x.mean(axes, keepdim=True)) / x.std(axes, correction=0, keepdim=True)


old = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(30))  # (B, T, C)
new = old.clone()
new[0, 4, :3] += 5  # half of the last word's channels
for name, axes in {"C": -1, "T, C": (-2, -1), "B": 0, "B, T": (0, 1)}.items():
    gap = (normalize_over(axes, new) - normalize_over(axes, old)).abs()  # (B, T, C)
    print(f"over {name:4}: earlier words move by up to {gap[0, :4].max():.1f}, ", end="")
    print(f"other sentences by {gap[1:].max():.1f}")

# %% [markdown]
# **Numbers that share a mean see each other.** Over C alone no word moves but the changed one. With T the future reaches the past, which a model that predicts the next word must not allow. With B a sentence reaches the others: our opening line reduces all three axes, and that was its second wrong choice.

# %% [markdown]
# ## 2.5 The shape of a row
#
# Does normalizing make a row bell-shaped? No: it takes the same $\mu$ off every number and divides all of them by the same $\sigma$, so a row with a long tail to the right keeps its tail. How large can one number become? In a row of six it was 2.24.
#
# **Predict 2.3:** a row of 101 numbers has one 7 and a hundred zeros. What does the 7 become?
# - [ ] 2.24 :: That was for six numbers. A single number moves the $\sigma$ of a long row less.
# - [ ] about 3 :: In a Gaussian sample few numbers lie beyond 3. This row is no such sample.
# - [x] 10 :: The mean is 7/101 and $\sigma$ is 70/101, so it becomes (7 − 7/101)/(70/101) = 700/70.
# - [ ] about 100 :: That divides the 7 by the mean. The 7 enters $\sigma$ as well, with its square.

# %%
spike = torch.zeros(101, dtype=torch.float64)  # (D,)
spike[40] = 7.0
show("largest number", F.layer_norm(spike, (101,), eps=0.0).max(), 2)  # eps: lesson 3

# %% [markdown]
# However far away the 7 lies, it takes $\sigma$ with it.
#
# **Normalizing moves and scales a row. Its shape stays.**
#
# <details><summary>When this holds</summary>
#
# For every row whose numbers are not all equal, because the same $\mu$ is taken off all of them and all are divided by the same $\sigma$. So the *skewness*, the mean of the normalized values cubed, stays as well: 0 for a symmetric row, 2 for an exponential distribution.
#
# On paper no number of $\hat x$ exceeds $\sqrt{D-1}$, which is 2.24 for six numbers and 10 for 101. It is reached where all others are equal. Rounding can exceed it ([lesson 3](03_epsilon.ipynb#3.1-Rows-that-break-the-formula)).
#
# </details>

# %% [markdown]
# ## 2.6 A test that finds a wrong layer
#
# A colleague's layer divides by D − 1. The colleague tests it on 5, 1, −1, 4, 1, 2: after the layer, `x_hat.var(-1)` ought to be 1.
#
# **Predict 2.4:** what does the test say?
# - [ ] it fails, because the variance is 5/6 :: The *biased* variance is. Which of the two does `var(-1)` take?
# - [x] it passes :: `var` divides by D − 1, too, and the two mistakes cancel.
# - [ ] it fails, because the variance is 6/5 :: A row that was divided by a larger $\sigma$ has a smaller variance. And which of the two variances does `var(-1)` take?

# %%
wrong = (row - row.mean()) / row.std()  # (D,) divided by D - 1
show("x_hat.var(-1)", wrong.var(-1))
show("against F.layer_norm, largest difference", (wrong - F.layer_norm(row, (6,))).abs().max())

# %% [markdown]
# **A test that repeats a mistake cannot find it.** So compare with something independent. And choose the input with care, because on some inputs a layer with wrong axes does what LayerNorm does.


# %% tags=["exercise"] id="ex-2-4"
# Exercise 2.4 · ●●●○○ · 5 min
def is_layer_norm(layer):
    """Say whether a layer is LayerNorm over the last axis, without gain and bias (lesson 4).

    Example: is_layer_norm(first_try) is False.
    layer: takes a float tensor (..., D), which you choose, and returns one of its shape.
    Returns True if it is at most 1e-4 off F.layer_norm on rows whose variance is 1 or more:
    choose such rows, and allow a little more. Returns False for any other layer. If the layer
    raises an error, the check takes that as False.
    """
    ### BEGIN SOLUTION
    x = 10 * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))  # (B, T, D)
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
# <details><summary>What it is tried on</summary>
#
# On layers that reduce other axes (all, the first, axis 1, all but the first, the first and the last), forget `keepdim`, divide by D − 1, leave a step out, have the wrong sign or a bias, cut their result off at −1 and 1, or get one number wrong; and on layers that are LayerNorm.
#
# </details>
#
# Now your test meets both of our lines:

# %%
print("first_try is LayerNorm: ", is_layer_norm(first_try))
print("second_try is LayerNorm:", is_layer_norm(second_try))

# %% [markdown]
# ## Take-away
#
# - `x.mean(-1, keepdim=True)` gives each row a mean of its own that broadcasts back.
# - The sizes of the axes that are left, multiplied, are the number of means. Numbers that share a mean see each other.
# - A test compares with something independent, on three axes and rows that differ, with so few features that a wrong divisor exceeds the tolerance.
#
# **Formula card**, for the $D$ numbers $x_1, \dots, x_D$ that share one mean:
#
# $$\mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sigma}$$

# %% [markdown]
# ## Deeper (optional, 3 min)
#
# ### Why the unbiased variance is called so
#
# The distances are measured from the row's own mean, which lies in the middle of just these numbers. So their squares add up to less than those of the distances from the mean of the distribution, by the factor $(D-1)/D$ on average for $D$ independent draws. Dividing by $D - 1$ makes up for exactly that. Here the distribution has variance 1, and $D$ is 4.

# %%
draws = torch.randn(100_000, 4, generator=torch.Generator().manual_seed(31))  # (B, D)
show("biased variance, on average   ", draws.var(-1, correction=0).mean(), digits=2)
show("unbiased variance, on average ", draws.var(-1).mean(), digits=2)
show("root of the latter, on average", draws.std(-1).mean(), digits=2)

# %% [markdown]
# The unbiased variance keeps its promise. Its root does not.
#
# ### A published notebook, read with care
#
# "Lecture 20: Layer Normalization" of [marcel1520/building-llm](https://github.com/marcel1520/building-llm) normalizes two rows of six numbers. It divides by $D - 1$, and checks the result with `var(-1)`, as in Predict 2.4. These are the rows as it prints them in cell 561; the result agrees with what it prints in cell 563 but for a last digit.

# %%
out = torch.tensor([[0, 0, 0.4091, 0.6587, 0.3914, 0], [0, 0, 0.1902, 0.3182, 0.6486, 0]])
normalized = (out - out.mean(-1, keepdim=True)) / out.std(-1, keepdim=True)  # (B, D) = (2, 6)
show("normalized", normalized)
show("variance as the notebook checks it", normalized.var(-1))
show("biased variance                   ", normalized.var(-1, correction=0))

# %% [markdown]
# LayerNorm would give variance 1 by the last line. The notebook's own class, one cell later, divides by $D$, so its two halves do not agree.
#
# A seed at the top of a notebook fixes what a cell draws when it first runs, and not when it runs again.
#
# ## On your own
#
# A layer cuts its result off at −3 and 3. Why does no test on four features find it, and how many features does it take?
#
# Your layer can now normalize each row of a batch, whatever stands beside it; it still cannot take a row of equal numbers, which becomes 0/0: [lesson 3](03_epsilon.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: the mean and the standard deviation over the H units of a layer, divided by H.
# - PyTorch's documentation of `torch.nn.LayerNorm`: the variance "is calculated via the biased estimator".
# - Wu & He (2018), *Group Normalization*, fig. 2: which numbers share a mean, drawn as cubes for four norms.

# %% [markdown]
# # 2 · Statistics: one mean, one variance, and the axes they are taken over
#
# "Subtract the mean and divide by the standard deviation": here is that description of LayerNorm as a line of code. A net of two layers learns with it to read digits, and then reads new ones. They arrive in batches, so each of them stands beside a stranger's picture.

# %%
import torch
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, plot, show  # torch: one thread (LESSON_THREADS)

first_try = lambda x: (x - x.mean()) / x.std()
show("first_try of a row", first_try(torch.tensor([5.0, 1, -1, 4, 1, 2])), 1)


# %% tags=["export", "hide-input"]
# Trains two layers, and has them read digits.
def digit_reader(norm, seed=0):
    """Train two layers on 1,280 pictures, normalized first; return net: (B, 64) to (B, 10)."""
    images, labels = data.digits()  # (1797, 8, 8) ink from 0 to 16, (1797,)
    batches = list(
        zip(images[:1280].flatten(1).split(64), labels[:1280].split(64), strict=True)
    )
    g = torch.Generator().manual_seed(seed)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    net = lambda x: torch.relu(norm(x) @ W1) @ W2  # (B, 10)
    for x, y in 10 * batches:
        loss = F.cross_entropy(net(x), y)
        for W, dW in zip((W1, W2), torch.autograd.grad(loss, (W1, W2)), strict=True):
            W.data -= 0.5 * dW
    return net


@torch.no_grad()
def read_beside(net, times=1, plus=0, strangers=1):
    """Return the percentage that a net reads of 517 new digits, each in a batch with strangers.

    times, plus: what the strangers' numbers are multiplied by, and what is added.
    """
    images, labels = data.digits()
    pictures = images.flatten(1)  # (N, D)
    beside = times * pictures[:strangers] + plus  # (S, D)
    answers = [net(torch.cat([x[None], beside]))[0].argmax() for x in pictures[1280:]]
    return 100 * (torch.stack(answers) == labels[1280:]).double().mean().item()


def read(net, **strangers):
    """Print it."""
    print(f"reads {read_beside(net, **strangers):.0f} % of our pictures")


# %% tags=["nbval-ignore-output"]
net = digit_reader(first_try)
read(net)
read(net, times=16)

# %% [markdown]
# Beside an ordinary picture the net reads nine of ten. In the last line the stranger's program stores ink from 0 to 255 in place of 0 to 16, and our pictures, in which nothing has changed, can no longer be read. No error says so.
#
# **Find out:** what must strangers do to harm us? `times` multiplies their ink, `plus` adds to each of their numbers, and there can be more `strangers`. Write a guess for each of the three, then pull them one at a time.

# %% tags=["nbval-ignore-output"]
read(net, times=4, plus=0, strangers=1)  # three knobs

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# Their number does no harm by itself: 63 ordinary strangers leave what is read as it was. A faint stranger costs little (`times=0.1`), a dark one nearly all, and so does one with ordinary strokes on a dark ground (`plus=240`). In {strangers:runs}, with other first weights: beside 63 ordinary strangers {strangers.crowd:range}, a faint one {strangers.faint:range}, `times=16` {strangers.dark:range}, `plus=240` {strangers.ground:range}. {strangers:again}
#
# </details>
#
# So a stranger comes in through the two numbers. `x.mean()` and `x.std()` without an axis are taken of *all* numbers of the batch, and whoever is large decides them for everybody. That is one wrong choice of our line; it makes a second one, which is quieter. You will find both, and heal the net.
#
# *About 60 min, in two sittings of 29 and 31.* **You'll be able to**
# - write the mean and the variance of each row so that they broadcast back;
# - say how many means come out, and which numbers can see each other;
# - write a test that finds a wrong layer.
#
# **You need** tensors, broadcasting, and [lesson 1](01_why_normalize.ipynb).

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

# %% tags=["hide-input"]
# Fills in the table.
row = torch.tensor([5.0, 1, -1, 4, 1, 2])  # (D,) = (6,)
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
# `x.mean(-1)` **reduces** the last axis: each row of a batch becomes one number. Our batch is now a sentence of three words, each a row of six numbers.

# %% tags=["hide-input"]
# Takes row means off, without keepdim.
words = torch.tensor([[5.0, 1, -1, 4, 1, 2], [4, 7, 3, 1, 6, 3], [8, 16, 14, 4, 10, 8]])


def without_keepdim(rows=3, columns=6):
    """Subtract x.mean(-1) from the first rows and columns of the words; print what is left."""
    x = words[:rows, :columns]
    try:
        left = x - x.mean(-1)
    except RuntimeError as error:
        print(error)
    else:
        show(f"shape {tuple(left.shape)}, row means afterwards", left.mean(-1), 1)


# %% [markdown]
# **Predict 2.1:** our three words have the shape (3, 6). What does `words - words.mean(-1)` do?
# - [ ] it subtracts from each word its own mean :: That is what we want. But how would PyTorch know that the three means belong to the rows?
# - [ ] it leaves the last three columns alone :: Broadcasting never leaves a part out.
# - [x] it raises an error :: The means have the shape (3,). Broadcasting lines up the last axes, 6 numbers with 3 means, and these do not fit.

# %%
without_keepdim(rows=3, columns=6)

# %% [markdown]
# With `keepdim=True` the reduced axis stays, with size 1, and size 1 is repeated as often as necessary:

# %%
mean = words.mean(-1, keepdim=True)  # (B, 1)
show("the means, with keepdim=True", mean, 1)
show("row means afterwards", (words - mean).mean(-1), 1)

# %% [markdown]
# Without it, an error is the lucky case. **Find out:** take fewer rows and columns of the same words, still without `keepdim`. For which numbers of them does nothing warn you, and the rows keep a mean? Guess before you try.

# %%
without_keepdim(rows=2, columns=6)  # two knobs: up to 3 rows and 6 columns

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# For as many rows as columns, 2 by 2 or 3 by 3: there the mean of row $j$ goes to column $j$, and the numbers are wrong without an error. One column grows into a square without an error, too. One row is right, because its one mean fits each column. All else raises.
#
# </details>
#
# So give the axes of an example different sizes, and let a wrong axis raise.
#
# **keepdim=True keeps a mean with its row.**


# %% tags=["exercise", "export"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 4 min
def mean_and_var(x):
    """Return the mean and the variance of each row of x: of its last axis.

    Example: the row 5, 1, -1, 4, 1, 2 gives the mean [2.] and the variance [4.].
    x: (..., D) float32 or float64 tensor. Returns (mean, var), both (..., 1) and of x's dtype.
    The variance stays accurate where the mean is far larger than the standard deviation.
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
#
# <details><summary>What it is tried on</summary>
#
# One to five axes, float32 and float64, rows of equal numbers and rows around 100. `x` is not changed, and both results can be differentiated twice, also where the variance is 0.
#
# </details>

# %% [markdown]
# ## 2.3 Biased or not
#
# `torch.var` and `torch.std` divide the sum of the squared distances by $D - 1$, unless they are told otherwise. Statisticians call that *unbiased* ([why](#Why-the-unbiased-variance-is-called-so)): a few numbers stand for many that nobody has seen. A layer has seen its whole row, and divides by $D$, which is called *biased*; PyTorch writes `correction=0`.
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
# On our row, and on rows of other widths:

# %% tags=["hide-input"]
# Divides by D - 1, in rows of several widths.
show("divided by D - 1 ", distance / row.std())
show("F.layer_norm says", F.layer_norm(row, (6,)))
for D in (2, 4, 64, 768):
    print(f"{D:3} features: {100 * (1 - (1 - 1 / D) ** 0.5):5.2f} % too small")

# %% [markdown]
# So `x.std()` was the second wrong choice of our opening line: in rows of 64 it makes all numbers less than a percent too small. Your function makes neither choice. Put it into the net:


# %% tags=["nbval-ignore-output"]
def second_try(x):
    """Subtract the mean of each row and divide by its standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


net = digit_reader(second_try)
read(net)
read(net, times=16)

# %% [markdown]
# The stranger's ink no longer matters. Try the worst stranger that you found.
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
# *Sitting two* counts the means of sentences and images. You write the test that the opening line should have met.

# %% [markdown]
# ## 2.4 Which axes, and how many means?

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch.nn import functional as F

from lessonkit import check, explore, plot, show
from lessonkit.mine import mean_and_var

first_try = lambda x: (x - x.mean()) / x.std()
row = torch.tensor([5.0, 1, -1, 4, 1, 2])  # (D,) = (6,)


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
# `mean` takes several axes at once, and counts negative ones from the end. `F.layer_norm` takes the **sizes** of the last axes instead:

# %% tags=["hide-input"]
# Normalizes images, with shape[2:] as the sizes.
images = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(24))  # (B, C, H, W)
inside = F.layer_norm(images, images.shape[2:])  # (B, C, H, W)
show("with shape[2:], largest mean of a channel", inside.mean((-2, -1)).abs().max())

# %% [markdown]
# <details><summary>Why are those means 0?</summary>
#
# Somebody has written `F.layer_norm(images, images.shape[2:])` for images (B, C, H, W), a common slip: `shape[2:]` is (H, W), so each channel of each image got a mean of its own. That is Instance Normalization, and no error says so.
#
# </details>

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
# Why does it matter who shares a mean? Three sentences of five words stand in a batch. `whisper` changes half of the channels of one word and draws how far each word moves.


# %% tags=["hide-input"]
# Changes a word, and draws who moves.
old = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(30))  # (B, T, C)


def normalize_over(axes, x):
    """Normalize x, with one mean and one variance for all numbers along the axes."""
    return (x - x.mean(axes, keepdim=True)) / x.std(axes, correction=0, keepdim=True)


def whisper(over, sentence=1, word=5, by=5.0):
    """Add `by` to half of a word's channels, normalize over axes, draw how far words move."""
    axes = ["BTC".index(axis) for axis in over]
    new = old.clone()
    new[sentence - 1, word - 1, :3] += by
    gap = (normalize_over(axes, new) - normalize_over(axes, old)).abs().amax(-1)  # (B, T)
    moved = int((gap > 1e-5).sum())
    places = [(b, t) for b in range(3) for t in range(5)]

    def draw(ax):
        for b, t in places:
            far = gap[b, t].item()
            shade = min(1.0, far**0.5)
            tint = (0.94 - 0.18 * shade, 0.95 - 0.29 * shade, 0.96 - 0.08 * shade)
            changed = (b, t) == (sentence - 1, word - 1)
            plot.box(
                ax, 64 * t, -34 * b, 58, 28, f"{far:.1f}" + " ←" * changed, tint, fontsize=13
            )
        ax.set(xlim=(-40, 296), ylim=(-92, 24))
        ax.set_xticks([64 * t for t in range(5)], [f"word {t + 1}" for t in range(5)])
        ax.set_yticks([-34 * b for b in range(3)], [f"sentence {b + 1}" for b in range(3)])
        ax.tick_params(length=0)
        ax.grid(False)
        ax.spines[:].set_visible(False)

    named = " and ".join([", ".join(over[:-1]), over[-1]] if over[1:] else over)
    plot.figure(
        draw,
        size=(6.4, 1.9),
        numbers={
            "sentence": [b + 1 for b, _ in places],
            "word": [t + 1 for _, t in places],
            "moves by up to": [gap[b, t].item() for b, t in places],
        },
        title=f"One mean over {named}: {moved} of 15 words move",
        caption="By how much the numbers of each word move, at most, when "
        f"{by:g} is added to half of the channels of the word with the arrow.",
        alt=f"A grid of three sentences of five words. Word {word} of sentence {sentence} was "
        "changed. The words move by up to "
        + "; ".join(" ".join(f"{far:.1f}" for far in line) for line in gap.tolist())
        + ".",
    )


# %% [markdown]
# **Predict 2.2:** mean and variance are taken over T and C, and the last word of the first sentence changes. What happens to the four words before it?
# - [ ] nothing :: They come earlier, but a mean over T knows no earlier and later. All words of a sentence go into it.
# - [x] all four change :: They share their mean and their variance with the fifth word.
# - [ ] only the fourth changes :: A mean does not know which word is next to which.

# %%
whisper(over="TC")

# %% [markdown]
# **Find out:** change `over` in the line above, to any of the letters of BTC, and move the word. With which axes do other *sentences* move, though no other word of the own sentence does? And with which axes does nobody move but the changed word? Guess both before you run it.
#
# <details><summary>What there is to find</summary>
#
# Over B alone, and over B and C, the words at the same place in the other sentences move. Over C alone nobody else moves. Over B and T all fifteen move, and so they do over all three axes, as in our opening line.
#
# However often you run it, the same sentences are drawn, because the cell above has a generator of its own. A seed at the top of a notebook fixes what a cell draws when it first runs, and not when it runs again.
#
# </details>
#
# With T the future reaches the past, which a model that predicts the next word must not allow. With B a sentence reaches the others, as the stranger did.
#
# **Numbers that share a mean see each other.**

# %% [markdown]
# ## 2.5 The shape of a row
#
# Normalizing does not make a row bell-shaped: a long tail to the right stays one. How large can one number become? In a row of six it was 2.24.
#
# **Predict 2.3:** a row of 101 numbers has one 7 and a hundred zeros. What does the 7 become?
# - [ ] 2.24 :: That was for six numbers. A single number moves the $\sigma$ of a long row less.
# - [x] 10 :: The mean is 7/101 and $\sigma$ is 70/101, so it becomes (7 − 7/101)/(70/101) = 700/70.
# - [ ] about 100 :: That divides the 7 by the mean. The 7 enters $\sigma$ as well, with its square.

# %%
spike = torch.zeros(101, dtype=torch.float64)  # (D,)
spike[40] = 7.0
show("largest number", second_try(spike).max(), 2)

# %% [markdown]
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
# A colleague's layer divides by D − 1. The colleague's test: after the layer, `x_hat.var(-1)` of 5, 1, −1, 4, 1, 2 ought to be 1.
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
    choose such rows, and allow a little more. Returns False for any other layer.
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
# On layers that reduce other axes (all, the first, axis 1, all but the first, the first and the last), forget `keepdim`, divide by D − 1, leave a step out, have the wrong sign or a bias, cut their result off at −1 and 1, or get one number wrong; and on layers that are LayerNorm. If a layer raises an error, that counts as False.
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
# - A test compares with something independent, on three axes, few features, and rows that differ.
#
# **Formula card**, for the $D$ numbers $x_1, \dots, x_D$ that share one mean:
#
# $$\mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sigma}$$

# %% [markdown]
# ## Deeper (optional, 1 min)
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
# The unbiased variance is right on average. Its root is not.
#
# ## On your own
#
# For your own package: write `is_layer_norm` into a file of `work/mine/`, where your `mean_and_var` stands since its check said "Right" (`from mine.statistics import mean_and_var` works in whatever starts in `work/`). Then let it find one more: a layer that cuts its result off at −3 and 3. Why does no test on four features see that, and how many does it take?
#
# Your layer can now normalize each row of a batch, whatever stands beside it; it still cannot take a row of equal numbers, which becomes 0/0: [lesson 3](03_epsilon.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: the mean and the standard deviation over the H units of a layer, divided by H.
# - PyTorch's documentation of `torch.nn.LayerNorm`: the variance "is calculated via the biased estimator".
# - Wu & He (2018), *Group Normalization*, fig. 2: which numbers share a mean, drawn as cubes for four norms.

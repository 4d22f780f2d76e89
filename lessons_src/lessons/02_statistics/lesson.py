# %% [markdown]
# # 2 · Statistics: one mean, one variance, and the axes they are taken over
#
# `standardize` of [lesson 1](01_why_normalize.ipynb) takes one vector, and a net gets batches of them. Here are its two steps as a line that is handed a whole batch. A net of two layers learns with it to read digits, and then reads new ones. They arrive in batches, so each of them stands beside a stranger's picture.

# %%
import torch
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, plot, show  # torch: one thread (LESSON_THREADS)

first_try = lambda x: (x - x.mean()) / x.std()
show("first_try of a row", first_try(torch.tensor([5.0, 1, -1, 4, 1, 2])), 1)


# %% tags=["export", "hide-input"]
# Trains two layers, and has them read digits.
def digit_reader(norm, seed=0, biases=False):
    """Train two layers on 1,280 pictures, normalized first; return net: (B, 64) to (B, 10)."""
    images, labels = data.digits()  # (1797, 8, 8) ink from 0 to 16, (1797,)
    batches = list(
        zip(images[:1280].flatten(1).split(64), labels[:1280].split(64), strict=True)
    )
    g = torch.Generator().manual_seed(seed)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    b1 = torch.zeros(32, requires_grad=biases)
    b2 = torch.zeros(10, requires_grad=biases)
    learned = (W1, W2, b1, b2) if biases else (W1, W2)
    net = lambda x: torch.relu(norm(x) @ W1 + b1) @ W2 + b2  # (B, 10)
    for x, y in 10 * batches:
        loss = F.cross_entropy(net(x), y)
        for p, dp in zip(learned, torch.autograd.grad(loss, learned), strict=True):
            p.data -= 0.5 * dp
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
# Their number does no harm by itself: 63 ordinary strangers leave what is read as it was. A faint stranger costs little (`times=0.1`), a dark one nearly all, and so does one with ordinary strokes on a dark ground (`plus=240`). Where a stranger does harm, more of them do more. In {strangers:runs}, with other first weights and the first picture as the first stranger: beside 63 ordinary strangers {strangers.crowd:range}, a faint one {strangers.faint:range}, `times=16` {strangers.dark:range}, `plus=240` {strangers.ground:range}, `times=4` {strangers.gray:range}, and beside 63 of these {strangers.gray_crowd:range}. {strangers:again}
#
# </details>
#
# Our picture and a stranger share two numbers only: `x.mean()` and `x.std()` without an axis are taken of *all* numbers of the batch. Through which of the two does the stranger come in? You will give each row both for its own, take back one at a time, and heal the net.
#
# *About 56 min, in two sittings of 26 and 30.* **You'll be able to**
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
# No larger than 2.24, the root of 5. It gets there when the other five are equal and lower, however far away it is, because $\sigma$ grows with it. In a row of $D$ numbers it is $\sqrt{D-1}$, on paper; rounding can exceed it ([lesson 3](03_epsilon.ipynb#3.1-Rows-that-break-the-formula)).
#
# </details>
#
# LayerNorm takes two numbers from the row: the **mean** $\mu$, and the **variance** $\sigma^2$, the mean of the squared distances from there. Its root $\sigma$ is the **standard deviation**. For our row:

# %%
row = torch.tensor([5.0, 1, -1, 4, 1, 2])  # (D,) = (6,)
distance = row - row.mean()  # (D,) from the mean, which is 12/6
var = (distance * distance).mean()  # () 24/6
show("distance", distance, 1)
show("variance", var, 1)
show("x_hat", distance / var.sqrt(), 1)

# %% [markdown]
# So a row is moved and scaled, and its shape stays: a long tail to the right stays one, and nothing becomes bell-shaped.
#
# **Subtract the mean, divide by the standard deviation: to normalize is no more than that.**
#
# <details><summary>When this holds</summary>
#
# For a row whose numbers are not all equal. Then $\hat x$ has mean 0 and variance 1. If all are equal, $\sigma = 0$, and [lesson 3](03_epsilon.ipynb) begins. Because the same $\mu$ is taken off all numbers and all are divided by the same $\sigma$, the *skewness*, the mean of the normalized values cubed, stays as well: 0 for a symmetric row, 2 for an exponential distribution.
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
# Without it, an error is the lucky case. **Find out:** take fewer rows and columns of the same words, still without `keepdim`. For which numbers of them is there no error, and yet a row mean that is not 0 afterwards? Guess before you try.

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
# `torch.var` and `torch.std` divide the sum of the squared distances by $D - 1$, unless they are told otherwise. Statisticians call that *unbiased* ([why](#Why-the-unbiased-variance-is-called-so)): a few numbers stand for many that nobody has seen. LayerNorm divides by $D$, as its paper did; that is called *biased*, and PyTorch writes `correction=0`.
#
# **Predict 2.2:** in a row of four numbers the squared distances have the sum $S$. A layer divides it by 3 in place of 4. By how much is each number of $\hat x$ too small? Take a pencil.
# - [ ] by 25 % :: So it would be if a row were divided by its variance. It is divided by the root.
# - [x] by 13 % :: What is left is the right divisor over the wrong one, the root of S/4 over that of S/3: the root of 3/4, 0.866.
# - [ ] by 15 % :: That is the root of 4/3, less 1: by so much the right number is larger than the wrong one. Measure by the right one.

# %% tags=["hide-input"]
# Divides by D - 1, in rows of several widths.
show("our row, by D - 1", distance / row.std())
show("F.layer_norm says", F.layer_norm(row, (6,)))
for D in (4, 6, 64, 768):
    print(f"{D:3} features: {100 * (1 - (1 - 1 / D) ** 0.5):5.2f} % too small")

# %% [markdown]
# **LayerNorm divides by D. Test it on few features.**
#
# Now your function meets the net. In `take`, mean and standard deviation come either from each row, as your function finds them, or from the whole batch, as in our opening line.


# %% tags=["hide-input"]
# Takes each number from the row or the batch.
def take(mean, std):
    """Return a norm with its mean, and its std, taken of each "row" or of the whole "batch"."""

    def norm(x):  # (B, D)
        row_mean, row_var = mean_and_var(x)  # (B, 1) each
        center = row_mean if mean == "row" else x.mean()
        return (x - center) / (row_var.sqrt() if std == "row" else x.std())

    return norm


# %% tags=["nbval-ignore-output"]
net = digit_reader(take(mean="row", std="row"))  # two switches: "row" or "batch"
read(net)
read(net, times=16)

# %% [markdown]
# With both from the row the stranger's ink no longer matters.
#
# **Find out:** which of the two let the stranger in, or did it take both? Write a guess down, then put `"batch"` in place of one `"row"`, and of the other.
#
# <details><summary>What there is to find</summary>
#
# The mean did. In {ways_in[False, batch, batch]:n} draws of first weights, nets with one mean for all rows and a standard deviation for each read {ways_in[False, batch, row].dark:range} beside the stranger, nets with a mean for each row and one standard deviation for all {ways_in[False, row, batch].dark:range}. And a stranger as dark whose mean is an ordinary one (`times=16, plus=-78`) costs the first line little: {ways_in[False, batch, batch].level:range}, and {ways_in[False, batch, batch].own:range} beside an ordinary one.
#
# Why not $\sigma$? A ReLU passes a positive factor on, and this net has no biases. So dividing a whole batch by one number divides all ten answers of a row by one number, and the largest stays the largest. (For the same reason it reads as well with D − 1.) In nets with biases, `digit_reader(..., biases=True)`, one $\sigma$ for all lets the stranger in as well, though less: with a mean for each row they read {ways_in[True, row, batch].dark:range}, and at `times=100` {ways_in[True, row, batch].glare:range}; with one mean for all {ways_in[True, batch, row].dark:range} and {ways_in[True, batch, row].glare:range}; with both from the row {ways_in[True, row, row].glare:range} beside either. {ways_in:again}
#
# </details>

# %% [markdown]
# ## What you have now
#
# - $\hat x = (x - \mu)/\sigma$, with $\mu$ and $\sigma$ from the row itself. A mean that rows shared had let the stranger in.
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

# %% [markdown]
# **Recall 2.1:** a deep ReLU net without biases and norm has the weight scale 2 ([lesson 1](01_why_normalize.ipynb)). What does each layer do to the rms of the signal?
# - [ ] it keeps it :: The scale that keeps it is 1.41.
# - [ ] it doubles it :: The matrix does. Then ReLU divides it by 1.41.
# - [x] it multiplies it by 1.41 :: A layer multiplies the rms by the scale over 1.41.
#
# Most data have more than two axes: (B, T, C) is $B$ sentences of $T$ words (tokens) of $C$ numbers (channels; for one row we wrote $D$), (B, C, H, W) is $B$ images of $C$ channels and H × W pixels.

# %%
explore.block("BTC", over=("C",))

# %% [markdown]
# **Find out:** this block has the shape (2, 3, 4). Over which axes must the mean run, so that exactly four means come out? How does the shape tell their number?
#
# <details><summary>What there is to find</summary>
#
# Over B and T. The sizes of the axes that are left, multiplied, are the number of means: here C = 4 alone is left.
#
# </details>
#
# **One mean for each position on the axes that are left.** LayerNorm always leaves B.
#
# `mean` takes several axes at once, and counts negative ones from the end. `F.layer_norm` takes the **sizes** of the last axes instead:

# %%
images = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(24))  # (B, C, H, W)
inside = F.layer_norm(images, images.shape[2:])  # (B, C, H, W)
show("with shape[2:], largest mean of a channel", inside.mean((-2, -1)).abs().max())

# %% [markdown]
# <details><summary>Why are those means 0?</summary>
#
# Somebody has written `F.layer_norm(images, images.shape[2:])` for images (B, C, H, W), a common slip: `shape[2:]` is (H, W), so each channel of each image got a mean of its own. That is Instance Normalization, and no error says so.
#
# </details>

# %% tags=["exercise"] id="ex-2-2"
# Exercise 2.2 · ●●○○○ · 2 min
# How many means come out? Four whole numbers; a product such as 2 * 3 is one.
# Example: (2, 3, 4) over the last axis would be 2 * 3.
# how_many = {"a": ..., "b": ..., "c": ..., "d": ...}
# a  (32, 20, 64) over the last axis
# b  (32, 20, 64) over the last two axes
# c  (8, 3, 28, 28), images (B, C, H, W), over the channels
# d  (8, 3, 28, 28) over the pixels, H and W
### BEGIN SOLUTION
how_many = {"a": 32 * 20, "b": 32, "c": 8 * 28 * 28, "d": 8 * 3}
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
# What does it matter over which axes a mean runs? Three sentences of five words stand in a batch. `whisper` changes half of the channels of one word (a change of all of them would be taken off with the mean of the word) and draws how far each word moves.


# %% tags=["hide-input"]
# Changes a word, and draws who moves.
old = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(30))  # (B, T, C)


def normalize_over(axes, x):
    """Normalize x, with one mean and one variance for all numbers along the axes."""
    return (x - x.mean(axes, keepdim=True)) / x.std(axes, correction=0, keepdim=True)


def whisper(over, sentence=1, word=5, by=5.0):
    """Add `by` to half of a word's channels, normalize over axes, draw how far words move.

    A word moves if one of its numbers changes by more than 1e-5, which no rounding does here.
    """
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
# **Predict 2.3:** mean and variance are taken over T and C, and the last word of the first sentence changes. What happens to the four words before it?
# - [ ] nothing :: They come earlier, but a mean over T knows no earlier and later. All words of a sentence go into it.
# - [x] all four change :: They share their mean and their variance with the fifth word.
# - [ ] the fourth changes, the others hardly :: A mean does not know which word is next to which.

# %%
whisper(over="TC")

# %% [markdown]
# **Find out:** change `over` in the line above, to any of the letters of BTC, and move the word. With which axes do other *sentences* move, though no other word of the own sentence does? And with which axes does nobody move but the changed word? Guess both before you run it.
#
# <details><summary>What there is to find</summary>
#
# Over B alone, and over B and C, the words at the same place in the other sentences move. Over C alone nobody else moves. Over B and T all fifteen move, and so they do over all three axes, as in our opening line.
#
# </details>
#
# <details><summary>Why are the same sentences drawn each time?</summary>
#
# Because the folded cell has a generator of its own. A seed at the top of a notebook fixes what a cell draws when it first runs, and not when it runs again.
#
# </details>
#
# With T the future reaches the past, which a model that predicts the next word must not allow. With B a sentence reaches the others, as the stranger did.
#
# **Numbers that share a mean see each other.**

# %% [markdown]
# ## 2.5 A test that finds a wrong layer
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


# %% tags=["exercise"] id="ex-2-3"
# Exercise 2.3 · ●●●○○ · 5 min
def is_layer_norm(layer):
    """Say whether a layer is LayerNorm over the last axis, without gain and bias (lesson 4).

    Example: is_layer_norm(first_try) is False.
    layer: takes a float tensor (..., D), which you choose, and returns one of its shape.
    Choose rows whose variance is 1 or more. There a right layer is at most 1e-4 off
    F.layer_norm (rounding, and eps), and a wrong one 0.005 or more: allow 1e-3.
    Returns True or False.
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
# On layers that reduce other axes (all, the first, axis 1, all but the first, the first and the last), forget `keepdim`, divide by D − 1, leave a step out, have the wrong sign or a bias (of 0.005, too), cut their result off at −1 and 1, or get one number wrong; and on layers that are LayerNorm. If a layer raises an error, that counts as False.
#
# </details>
#
# Now your test meets our first line, and its repair:


# %%
def second_try(x):
    """Subtract the mean of each row and divide by its standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


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

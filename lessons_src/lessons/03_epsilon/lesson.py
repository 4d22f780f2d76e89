# %% [markdown]
# # 3 · Epsilon, and numbers that are not real numbers
#
# Of 1,280 scanned digits one is empty. A net of two layers learns to read them, and each picture is normalized first, as in [lesson 2](02_statistics.ipynb).

# %%
import torch
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, plot, show
from lessonkit.mine import mean_and_var  # of lesson 2: yours, if it was kept, else the course's

images, labels = data.digits()  # (1797, 8, 8) ink from 0 to 16, (1797,)
pictures = images[:1280].flatten(1).clone()  # (N, D) = (1280, 64)
pictures[800] = 0.0  # the empty scan
show("ink of pictures 799 to 801", pictures[799:802].sum(-1), digits=0)


# %% tags=["hide-input"]
# Prepares the training of two layers.
def train(norm, pictures=pictures, rate=0.5):
    """Train two layers with plain SGD, one epoch; return the losses and the gradients."""
    g = torch.Generator().manual_seed(30)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    losses, gradients = [], []
    for x, y in zip(pictures.split(64), labels[:1280].split(64), strict=True):
        loss = F.cross_entropy(torch.relu(norm(x) @ W1) @ W2, y)
        losses.append(loss.item())
        gradients.append(torch.autograd.grad(loss, (W1, W2)))
        for W, dW in zip((W1, W2), gradients[-1], strict=True):
            W.data -= rate * dW
    return losses, gradients


# %%
def standardized(x):
    """(..., D) -> (..., D): minus the mean, divided by the standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


show("loss, every third step", train(standardized)[0][::3], digits=1)

# %% [markdown]
# The loss comes down until the batch with the empty scan. From there on it is `nan`, *not a number*.
#
# *About 57 min, in two sittings of 27 and 30.* **You'll be able to**
# - say where $\epsilon$ stands, and what it does to small rows;
# - find the $\epsilon$ of a layer with one row and a pencil;
# - compute a variance that survives large numbers and half precision.
#
# **You need** [lesson 2](02_statistics.ipynb): mean and biased variance of the last axis.
#
# ## 3.1 Rows that break the formula
#
# What has the empty scan done, and what would have saved the net? `scan` trains it again, with as much `ink` as you like in each of the 64 numbers of that picture, `dust` more in one of them, and at the learning rate that you like.


# %% tags=["hide-input"]
# Trains with another scan in place of the empty one.
def scan(ink=0.0, dust=0.0, rate=0.5, norm=standardized):
    """Train with `ink` in each number of the scan, `dust` more in one; print the outcome."""
    other = pictures.clone()  # (N, D)
    other[800] = ink
    other[800, 27] += dust
    losses, gradients = train(norm, other, rate)
    lost = gradients[12][0].isnan()  # (D, 32) the scan is in batch 12
    show("largest number in the normalized scan", norm(other[800]).abs().max(), 5)
    print(f"nan in the gradient of W1 = {int(lost.sum()):,} of {lost.numel():,}")
    show("loss at the end", losses[-1], 1)


# %% [markdown]
# **Find out:** which ink would the net have survived, how little dust, and which rate? Write three guesses down first.

# %%
scan(ink=0.0, dust=0.0, rate=0.5)  # three knobs: ink and dust from 0 to 16, any rate

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# No rate saves it, however small: even $0 \cdot$ `nan` is `nan`. And a scan of 5 or of 16 everywhere is as deadly as an empty one.
#
# Did you find an ink that the net survives, such as 0.1? Then look at the largest number. A tenth is not exact in float32, and the mean of 64 of them may be rounded to a neighbor. All that $x-\mu$ holds is this error, $\sigma$ is as large as it, and each number becomes 1 or −1.
#
# A speck of dust saves the net. With `dust=1e-7` the largest number is 7.94, the root of 63, as with `dust=16`: dividing by $\sigma$ removes the size. (On an ink of 5, `dust=1e-6` gives 8.00, above that bound of [lesson 2](02_statistics.ipynb#2.1-Two-numbers-for-a-row), because the mean is rounded.) That ends where float32 ends. At `dust=1e-23` the numbers differ, but their variance is smaller than any number of float32, so it becomes 0, and the net is lost as before.
#
# </details>
#
# So it is not that the scan is empty: all its numbers are equal. Then each of them is the mean, the variance is 0, and each entry becomes $0/0$, which is `nan`. Only 64 numbers of the batch are lost by that, but all 2,048 of the gradient, because each of these adds up the whole batch, and a sum with `nan` in it is `nan`. After one step all weights are lost.
#
# The remedy is $\epsilon$ (epsilon, `eps`), a small number in the denominator, which is then never 0.
#
# ## 3.2 Where epsilon goes
#
# In practice $\epsilon$ is tiny; here it goes up to 10, so that you can see what it does.

# %%
explore.row(parts=("eps",))

# %% [markdown]
# **Find out:** the first number lies 3 above the mean. Without $\epsilon$ it becomes 1.5, because it is divided by $\sigma$, which is 2. By what is it divided at an $\epsilon$ of about 5, and of 10? How does the divisor come from $\sigma$ and $\epsilon$?
#
# <details><summary>What there is to find</summary>
#
# At 5 the first number becomes 1, so it is divided by 3; at 10 it becomes 0.80 and is divided by 3.74. Beside 2, 3 and 3.74 write their squares. (With all bars equal and $\epsilon = 0$ you get 0/0.)
#
# </details>
#
# PyTorch does the same. Write it:


# %% tags=["exercise", "export"] id="ex-3-1"
# Exercise 3.1 · ●●○○○ · 3 min
def normalize(x, eps=1e-5):
    """Normalize the last axis of x, with eps where F.layer_norm has it.

    Example: [5, 1, -1, 4, 1, 2] with eps=5 gives [1, -1/3, -1, 2/3, -1/3, 0].
    x: (..., D) float32 or float64. Returns x's shape and dtype.
    The variance is the biased one. eps is used as it is, 0 as well.
    Write it without F.layer_norm.
    """
    ### BEGIN SOLUTION
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.normalize(normalize)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `mean_and_var` of lesson 2 is imported already. As for the formula: squares are easier to see. Beside 2 and 3 stand 4 and 9, for an $\epsilon$ of 0 and 5.
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# One to five axes, standard deviations from 2 to 0, four values of `eps`, large entries, rows far from 0, rows with `nan` in them. Gradients flow through mean and variance, second ones too.
#
# </details>
#
# Train again, with your function:

# %%
show("loss, every third step", train(normalize)[0][::3], digits=1)
scan(dust=1e-7, norm=normalize)

# %% [markdown]
# The empty scan becomes zeros, and the net lives. Dust stays dust, too. PyTorch adds $\epsilon$, by default $10^{-5}$, to the **variance** $\sigma^2$, before the root is taken:
#
# $$\hat x = \frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}$$
#
# Not everybody adds $\epsilon$ to the variance. [The Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/) divides by $\sigma + \epsilon$. For a row with $\sigma = 0.001$ and for $\epsilon = 10^{-5}$ that is 0.00101. PyTorch divides by the root of 0.000011, which is 0.0033, so one output is more than three times the other.
#
# **Under the root, ε is measured against the variance.** So a test of a LayerNorm needs a row of **small numbers**. Ordinary rows hide where $\epsilon$ stands, and zeros hide everything: both formulas give zeros.
#
# ## 3.3 What epsilon does to values, and to gradients
#
# At $\epsilon = 12$ our row is divided by 4. Take a pencil: what is the variance of what comes out?

# %% tags=["exercise"] id="ex-3-2"
# Exercise 3.2 · ●●○○○ · 2 min
# Our row x has x - mean = 3, -1, -3, 2, -1, 0 and the variance 4.
# Example: at eps = 0 it is divided by 2, and what comes out has the variance 1.
# Copy this line and replace the dots by two numbers (7 / 2 is a number, too):
# eps_on_paper = dict(variance=..., eps=...)
# variance  the variance of what comes out of x at eps = 12
# eps       the eps at which 1/2, -1/6, -1/2, 1/3, -1/6, 0 comes out of x
### BEGIN SOLUTION
eps_on_paper = dict(variance=1 / 4, eps=32)
### END SOLUTION

# %% tags=["check"]
check.eps_on_paper(eps_on_paper)

# %% [markdown]
# <details><summary>Hint</summary>
#
# If all numbers of a row are divided by 4, their variance is divided by 16. For the second question: 3 has become 1/2, so by what was the row divided?
#
# </details>
#
# In letters: dividing by $\sqrt{v+\epsilon}$ divides the variance $v$ by $v+\epsilon$.
#
# **A row of variance v comes out with v/(v + ε).**
#
# <details><summary>When this holds</summary>
#
# For every row and every $\epsilon$ with $v + \epsilon > 0$, before gain and bias, and up to rounding. So the variance of the output is below 1 for any $\epsilon > 0$; it is 1/2 where $v = \epsilon$, and 0 for a constant row.
#
# </details>
#
# <details><summary>And a small change of the row?</summary>
#
# It is divided by $\sqrt{v+\epsilon}$ as well, and so is a gradient on its way back. In a row of equal numbers $v$ is 0, and that divisor is smallest: no change grows by more than $1/\sqrt\epsilon$, before the gain and up to rounding. The matrix of all derivatives $\partial y_i / \partial x_j$ is called the *Jacobian*, and the largest factor by which it stretches a vector is its *spectral norm*: here $1/\sqrt{v+\epsilon}$ for three features or more. [Lesson 8](08_geometry.ipynb#The-spectrum-of-the-Jacobian) has all of its factors.
#
# </details>
#
# ## 3.4 Which epsilon travels with which weights
#
# Libraries add different small numbers. Which rows does each of them make smaller?

# %% tags=["hide-input"]
# Draws what four defaults do to small rows.
row = torch.tensor([5.0, 1.0, -1.0, 4.0, 1.0, 2.0], dtype=torch.float64)  # its variance is 4
variances = torch.logspace(-14, 0, 85, dtype=torch.float64)  # (85,)
PLACES = {  # default: (eps, where its name stands)
    "BERT\n1e-12": (1e-12, 1.5e-12),
    "Flax, timm\n1e-6": (1e-6, 1.2e-9),
    "PyTorch\n1e-5": (1e-5, 6e-6),
    "Keras\n1e-3": (1e-3, 1.5e-3),
}


def variance_out(v, eps):
    """Return the variance of what comes out of a row of variance v."""
    return F.layer_norm(row * (v / 4) ** 0.5, (6,), eps=eps).var(correction=0).item()


curves = {name: [variance_out(v, eps) for v in variances] for name, (eps, _) in PLACES.items()}
colors = plot.colors_for(list(PLACES), {"PyTorch\n1e-5": "LayerNorm"})


def defaults(ax):
    font = {"fontsize": 12, "va": "center", "linespacing": 1.1}
    for name, (_, at) in PLACES.items():
        ax.plot(variances, curves[name], color=colors[name], lw=2.6)
        ax.text(at, 0.25, name, color=plot.ink(colors[name]), fontweight="bold", **font)
    ax.axhline(0.5, color="#5F6B73", lw=1.2, ls="--")
    ax.plot(0.0012, variance_out(0.0012, 1e-3), "o", color=DANGER, ms=9, zorder=4)
    ax.text(5e-3, 0.63, "BERT's rows\nunder Keras' ε", color=DANGER, **font)
    ax.set(xscale="log", xlim=(1e-14, 30), xlabel="variance of the row")
    ax.set_ylabel("variance of the output")


DANGER = "#C0392B"
plot.figure(
    defaults,
    size=(8.2, 3.1),
    numbers={"variance of the row": variances}
    | {name.replace("\n", " "): values for name, values in curves.items()},
    title="Each curve is at one half where the variance is its ε",
    caption="The six numbers of section 3.2, made smaller, under the defaults of Keras' "
    "LayerNormalization, PyTorch's nn.LayerNorm, Flax' LayerNorm, timm's VisionTransformer "
    "and Hugging Face's BERT (layer_norm_eps). The dot: rows as they enter BERT's first norm "
    "before training, sums of three draws with σ = 0.02.",
    alt="Four rising curves from 0 to 1 over the variance of the row, from 1e-14 to 1 on a "
    "logarithmic axis. Each crosses one half where the variance is its epsilon: 1e-12, 1e-6, "
    "1e-5, 1e-3. A dot on the curve of Keras, at a variance of 0.0012 and a height of 0.55: "
    "BERT's rows under Keras' epsilon. The other three curves are near 1 there.",
)

# %% [markdown]
# The dot is a row as it enters BERT's first norm before training. Under BERT's own $\epsilon$ it comes out with the variance 1, under Keras' default with 0.55, and there is no error.
#
# **ε belongs to the weights.** If nobody wrote it down, the layer can tell you. Here is one whose $\epsilon$ is hidden; you choose how large a row it gets.


# %% tags=["hide-input"]
# Feeds a layer whose eps nobody wrote down.
def layer(row):
    """(..., D) -> (..., D): its eps is stored in bits."""
    return F.layer_norm(row, row.shape[-1:], eps=float.fromhex("0x1.0c6f7a0b5ed8dp-20"))


def probe(times):
    """Feed the layer `times` our row; print the variances that go in and come out."""
    row = times * torch.tensor([5.0, 1, -1, 4, 1, 2], dtype=torch.float64)  # (D,)
    comes_out = layer(row).var(correction=0)
    print(f"variance {row.var(correction=0):.2g} goes in, variance {comes_out:.2f} comes out")


# %% [markdown]
# **Find out:** which row makes the layer talk? Change `times` until what comes out says something of $\epsilon$, then work it out.

# %%
probe(times=1)  # a knob

# %% [markdown]
# **Predict 3.1:** which $\epsilon$ has it?
# - [ ] 1e-5 :: That is PyTorch's. It would leave 4/(4 + 10) = 0.29 of the variance 4e-6.
# - [ ] 5e-6 :: Of the variance 4e-6 this layer leaves 0.80, so v + ε is 5e-6. Subtract v.
# - [x] 1e-6 :: At `times=0.001`, v/(v + ε) = 0.80, so v + ε = 5e-6, and v is 4e-6.
# - [ ] 8e-7 :: That is a fifth of 4e-6: what v has lost on its way. The formula divides by v + ε.

# %%
probe(times=0.001)
small = torch.tensor([5.0, 1, -1, 4, 1, 2]) / 1000  # (D,) = (6,)
show("the layer      ", layer(small), digits=3)
show("yours, eps 1e-6", normalize(small, 1e-6), digits=3)

# %% [markdown]
# **One row of small numbers tells you ε.**

# %% [markdown]
# ## What you have now
#
# - $\hat x = (x-\mu)\,/\,\sqrt{\sigma^2+\epsilon}$, and **ε is measured against the variance.**
# - **A row of variance v comes out with v/(v + ε).** That tells you the $\epsilon$ of any layer.
#
# **You can stop here:** close the notebook. Write the formula from memory, and find the $\epsilon$ that gives a row of variance 3 the variance 3/4.
#
# <details><summary>Is it right?</summary>
#
# $3/(3+\epsilon) = 3/4$ at $\epsilon = 1$.
#
# </details>
#
# *Sitting two:* the formula is right, but computers do not hold real numbers. You will break a layer in three ways, and repair it.
#
# ## 3.5 Half precision

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch.nn import functional as F

from lessonkit import check, data, show
from lessonkit.mine import mean_and_var

# %% [markdown]
# **Recall 3.1:** how many variances does LayerNorm take of a tensor (4, 7, 10), over the last axis?
# - [ ] 10 :: That is one for each feature.
# - [x] 28 :: The axes that are not reduced are left: 4 · 7.
# - [ ] 4 :: That is one for each sample, over the last two axes.
#
# Nets often store a number in 16 bits instead of 32, in one of two formats. What becomes of $10^{-8}$, of 50.1, and of the square of 300?

# %%
for kind in (torch.float32, torch.bfloat16, torch.float16):
    numbers = torch.tensor([1e-8, 50.1, 300.0**2], dtype=kind)  # (3,)
    print(f"{str(kind):14}", *(f"{v:>12.6g}" for v in numbers.tolist()))

# %% [markdown]
# - **float16** holds numbers from $6\cdot10^{-8}$ to 65,504. An $\epsilon$ of $10^{-8}$ is **no epsilon** there, and a variance of 300² is `inf`.
# - **bfloat16** reaches as far as float32, but it has two digits. Near 50 it moves in steps of 0.25, so a mean of 50.1 becomes 50.
#
# ## 3.6 A variance that survives an offset
#
# Is float32 safe, then? There is a formula for the variance that reads the row only once:
#
# $$\sigma^2 = \operatorname{E}[x^2] - \operatorname{E}[x]^2$$
#
# Here $\operatorname{E}$ is the mean over the row. Our formula needs two passes, because it subtracts the mean before it squares.
#
# Take the row 0, 1, 2, 3 with the variance 1.25, and add the same `offset` to all four numbers. On paper the variance stays. `spread` puts them so many times as far apart, and `kind` says how they are stored.


# %% tags=["hide-input"]
# Takes the variance in one pass and in two.
def one_pass(x):
    """E[x^2] - E[x]^2 over the last axis: (..., D) -> (..., 1)."""
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def far_out(offset, spread=1, kind=torch.float32):
    """Print both variances of the row 0, 1, 2, 3, `spread` times as wide, moved by `offset`."""
    row = (spread * torch.arange(4.0) + offset).to(kind)  # (4,)
    one, two, exact = one_pass(row).item(), mean_and_var(row)[1].item(), 1.25 * spread**2
    print(f"offset {offset}: one pass {one:.5g}, two passes {two:.5g}, right is {exact:.5g}")


# %% [markdown]
# **Find out:** how far may the row go before one pass loses its digits? Does it go farther with ten times the spread, and how far in `torch.bfloat16`? Write three guesses down.

# %%
far_out(offset=1024, spread=1, kind=torch.float32)  # three knobs

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# At 2,048 it is 1.5, and at 8,192 all digits are gone: there the squares are above 67 million, $2^{26}$, and float32 keeps 24 binary digits, so both terms are multiples of 8, and so is their difference. With ten times the spread all digits are gone at 81,920, ten times as far out, though the first wrong ones come long before, at 10,240. In bfloat16 an offset of 8 is enough. There two passes fail as well, from 127 on: the four numbers 127 to 130 are exact, but their mean, 128.5, is rounded to 128. [Section 3.7](#3.7-Clinic:-it-was-fine-in-float32) mends that.
#
# </details>
#
# **Subtract the mean, then square.**
#
# <details><summary>When this matters</summary>
#
# The farther the mean is from 0. Flax takes the one pass by default all the same (`use_fast_variance`). For random rows of 768 numbers in float32, the one-pass variance was typically off by {variances[100.0].typical:median} of the right one at a mean of 100 standard deviations, by {variances[1000.0].typical:median} of it at 1,000, and by {variances[3000.0].typical:median}, all of it, at 3,000. {variances:again} It can even be negative, and its root `nan`. One pass is not to blame, squaring large numbers is: [Deeper](#Welford-or-two-passes?) has a way to read a row once and keep its digits.
#
# </details>
#
# ## 3.7 Clinic: it was fine in float32
#
# A model with this layer worked well in float32. In float16 some rows come out as `nan`, some hold `inf`, and some are all zeros though their numbers differ.


# %% tags=["export"]
def clinic_norm(x, eps=1e-8):
    """The patient: (..., D) -> (..., D)."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    var = x.var(-1, correction=0, keepdim=True)  # (..., 1)
    return (x - mean) / torch.sqrt(var + eps)  # (..., D)


# %% [markdown]
# Before you repair it, produce the three complaints.

# %% tags=["exercise"] id="ex-3-3"
# Exercise 3.3 · ●●●○○ · 4 min
# Example: [1, 2, 3, 4] is a row that clinic_norm treats well, in float16 too.
# Find three that it does not. Copy this line and replace the dots, by four numbers or more:
# breaking_rows = {"nan": [...], "inf": [...], "zeros": [...]}
# As a float16 tensor, each row makes clinic_norm return
# "nan"    nothing but nan
# "inf"    at least one inf or -inf
# "zeros"  nothing but zeros, though the numbers of the row differ
### BEGIN SOLUTION
breaking_rows = {
    "nan": [5, 5, 5, 5],
    "inf": [1e-5, 2e-5, 3e-5, 4e-5],
    "zeros": [0, 500, 1000, 1500],
}
### END SOLUTION

# %% tags=["check"]
check.breaking_rows(breaking_rows)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What becomes of the variance, of $10^{-8}$, and of their sum? [Section 3.5](#3.5-Half-precision) says which numbers float16 can hold. You may run `clinic_norm(torch.tensor([...]).half())`.
#
# </details>
#
# A quick cure is an $\epsilon$ that float16 can hold, such as $10^{-5}$.
#
# **Predict 3.2:** right is what float32 gives with `eps=1e-8`. What does `eps=1e-5` do in float16 for three rows with these complaints?
# - [ ] It makes all three right. :: The variance of the third row is inf with any epsilon, so it stays at zeros.
# - [x] It makes only the row of nan right. :: The inf is gone, too, but that row comes out too small: its variance is far below 1e-5. The third stays at zeros.
# - [ ] It makes the rows of nan and inf right. :: Both are finite now. But the second row comes out far too small, because its variance is far below 1e-5.

# %%
rows = torch.tensor([[5, 5, 5, 5], [-3e-5, -1e-5, 1e-5, 3e-5], [-768, -256, 256, 768]])
show("in float32, eps 1e-8", clinic_norm(rows), digits=2)
show("in float16, eps 1e-5", clinic_norm(rows.half(), eps=1e-5), digits=2)

# %% [markdown]
# The alarm is gone, and the function has changed. Find a cure that changes only the rounding.


# %% tags=["exercise"] id="ex-3-4"
# Exercise 3.4 · ●●●○○ · 4 min
def normalize_half(x, eps=1e-8):
    """Repair clinic_norm for half precision without changing the function that it computes.

    Example: the float16 row [-768, -256, 256, 768] gives about [-1.34, -0.45, 0.45, 1.34].
    x: (..., D) float16, bfloat16 or float32. Returns x's shape and dtype.
    The result is as exact as one rounding at the end allows. eps is used as it is, 0 as well.
    """
    ### BEGIN SOLUTION
    wide = x.float()  # (..., D) float32, where 1e-8 is not 0 and 768 squared fits
    mean, var = mean_and_var(wide)  # (..., 1) each
    return ((wide - mean) / torch.sqrt(var + eps)).to(x.dtype)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.normalize_half(normalize_half)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Convert first, compute, and convert back in the last step. The mean needs it as much as the variance.
# (`x.dtype` remembers what came in. `F.layer_norm` is a right answer as well, if you give it the `eps`.)
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# All three dtypes, standard deviations from 0 to 600, four values of `eps`, large entries, for numbers below $10^{19}/\sqrt D$. Gradients flow through mean and variance.
#
# </details>

# %% [markdown]
# There were three causes: $\epsilon$ became 0, a small variance became 0, and a large one became `inf`. One cure is enough, because float32 holds all these numbers. So take your layer to the net of the beginning, now with pictures in float16, from a scanner that stores ink from 0 to 1,600. One scan is empty again.


# %% tags=["hide-input"]
# Trains two layers on pictures in float16.
def train_half(norm, ink=100):
    """Normalize pictures in float16, `ink` times as dark; return the losses of one epoch."""
    images, labels = data.digits()  # (1797, 8, 8), (1797,)
    pictures = ink * images[:1280].flatten(1)  # (N, D) = (1280, 64)
    pictures[800] = 0.0  # the empty scan
    g = torch.Generator().manual_seed(30)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    losses = []
    for x, y in zip(pictures.half().split(64), labels[:1280].split(64), strict=True):
        loss = F.cross_entropy(torch.relu(norm(x).float() @ W1) @ W2, y)
        losses.append(loss.item())
        for W, dW in zip((W1, W2), torch.autograd.grad(loss, (W1, W2)), strict=True):
            W.data -= 0.5 * dW
    return losses


# %%
show("the patient     ", train_half(clinic_norm)[::3], digits=1)
show("with eps = 1e-5 ", train_half(lambda x: clinic_norm(x, eps=1e-5))[::3], digits=1)
show("yours, eps 1e-8 ", train_half(normalize_half)[::3], digits=1)

# %% [markdown]
# The patient turns all other pictures into zeros, from which nothing can be learned, until the empty one makes every loss `nan`. A larger $\epsilon$ stops only the alarm. With your layer the net lives.
#
# **Compute mean and variance in float32, and round once, at the end.**
#
# <details><summary>Who does so?</summary>
#
# Today `F.layer_norm` does, in the forward pass. PyTorch 1.4.0 and 1.5.1 returned `nan` for zeros on a GPU in float16 with $\epsilon = 10^{-12}$, where 1.3.1 had not ([pytorch#41527](https://github.com/pytorch/pytorch/issues/41527)), and in 2022 the speech toolkit WeNet raised every $\epsilon$ to $10^{-5}$ for that reason ([PR 907](https://github.com/wenet-e2e/wenet/pull/907)).
#
# </details>
#
# ## Take-away
#
# - $\epsilon$ stands under the root, beside the variance, and belongs to the weights. To find it, feed the layer one row of small numbers, and solve $v/(v+\epsilon)$ for it.
# - Subtract the mean before you square. In half precision, compute mean and variance in float32, and round once.
#
# **Formula card**
#
# $$\mu = \frac1D\sum_i x_i \qquad \sigma^2 = \frac1D\sum_i (x_i-\mu)^2 \qquad \hat x = \frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}$$
#
# ## Deeper (optional, 4 min)
#
# ### Welford or two passes?
#
# A program can read a row once, piece by piece, and merge the statistics of the pieces. How do two variances merge? Two pieces of one number each, 0 and 2, both have the variance 0. The whole has the mean 1 and the variance 1. So the distance between the two means counts:
#
# $$\mu = \mu_a + \frac{m}{n+m}\,\delta \qquad \sigma^2 = \frac{n\,\sigma_a^2 + m\,\sigma_b^2}{n+m} + \frac{n\,m}{(n+m)^2}\,\delta^2 \qquad \delta = \mu_b - \mu_a$$
#
# for pieces of $n$ and $m$ numbers. Here $n = m = 1$ and $\delta = 2$, so the second part is $\frac14\cdot 4 = 1$. With pieces of one number this is **Welford's** algorithm (1962), which is known as the stable way to a variance. Is it?


# %%
def merged(x, size):
    """The biased variance of x (..., D), read once in pieces of `size` numbers: (..., 1)."""
    mean, var = mean_and_var(x[..., :size])  # (..., 1) each
    for n in range(size, x.shape[-1], size):
        piece = x[..., n : n + size]  # (..., m)
        (piece_mean, piece_var), m = mean_and_var(piece), piece.shape[-1]  # (..., 1) each
        delta = piece_mean - mean
        mean = mean + delta * m / (n + m)
        var = (n * var + m * piece_var) / (n + m) + delta**2 * n * m / (n + m) ** 2
    return var


# %% tags=["nbval-ignore-output"]
far = torch.randn(64, 768, generator=torch.Generator().manual_seed(36)) + 1e4  # (B, D) float32
exact = mean_and_var(far.double())[1]  # (B, 1)
ways = {"E[x²] − E[x]²": one_pass(far), "Welford": merged(far, 1)}
ways |= {"pieces of 64": merged(far, 64), "two passes": mean_and_var(far)[1]}
ways["x.var"] = far.var(-1, correction=0, keepdim=True)
for name, variance in ways.items():
    print(f"{name:14} largest relative error {((variance - exact).abs() / exact).max():.0e}")

# %% [markdown]
# With float32 alone two passes win, on rows of 768 numbers with $\sigma = 1$ around 10,000. If *all* distances are taken from one mean that is off by $e$, the variance is off by $e^2$ only. Welford rounds a new mean at every number, near 10,000 to multiples of 0.001, and these errors enter as they are. Larger pieces round fewer means. PyTorch's `x.var` is Welford's update as well, and more exact than all: on the CPU it keeps its means and sums in float64.
#
# <details><summary>How sure is that?</summary>
#
# The order of the first four was the same in {variances[10000.0].ordered:count} of {variances[10000.0]:n} runs. The worst of 64 rows was typically off by {variances[10000.0].one_pass:median .0f} times the variance in one pass, by {variances[10000.0].welford:median} of it with Welford, {variances[10000.0].pieces:median} with pieces of 64, {variances[10000.0].two_passes:median} with two passes, and {variances[10000.0].torch_var:median} with `x.var`. {variances:again} Until 2021 PyTorch's own LayerNorm took the one pass: [pytorch#51102](https://github.com/pytorch/pytorch/issues/51102) reports output variances between 0.05 and 48,426 for rows around 2,000, where 1 is right. Since then its CPU kernel merges short pieces.
#
# </details>
#
# ### Autocast
#
# PyTorch's *autocast* chooses a dtype for each operation, so that a model trains in half precision where that is safe. What does it choose for LayerNorm? On a CPU, torch 2.13:

# %%
g = torch.Generator().manual_seed(35)
tokens, W = torch.randn(3, 8, generator=g), torch.randn(6, 8, generator=g)  # (B, 8), (6, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = F.linear(tokens, W)  # (B, 6)
    after_linear, on_input = F.layer_norm(h, (6,)), F.layer_norm(tokens, (8,))  # (B, 6), (B, 8)
print("linear:", h.dtype)
print("LayerNorm of that:", after_linear.dtype)
print("LayerNorm of a float32 input:", on_input.dtype)

# %% [markdown]
# The CPU's autocast leaves LayerNorm alone: bfloat16 in, bfloat16 out. On CUDA, PyTorch's documentation lists `layer_norm` among the operations that autocast to **float32** (not run here). A LayerNorm written by hand is treated operation by operation, and `mean` is on neither list: a bfloat16 input gives it a mean rounded to bfloat16.
#
# ## On your own
#
# For your own package: write `find_eps(layer)` into a file of `work/mine/`. It returns the $\epsilon$ of any layer over the last axis, be it $10^{-12}$ or 1, so it has to look for a row that is small enough by itself.
#
# Your layer can now take rows of equal numbers, and of half precision; it still cannot learn anything, because it has no weights: [lesson 4](04_affine_and_module.ipynb).
#
# ## Further reading
#
# - Chan, Golub & LeVeque (1983), *Algorithms for Computing the Sample Variance*, The American Statistician 37: one pass, two passes, shifts, merging, and their error bounds.
# - Micikevicius et al. (2018), *Mixed Precision Training*: which arithmetic needs float32.

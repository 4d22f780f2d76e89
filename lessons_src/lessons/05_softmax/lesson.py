# %% [markdown]
# # 5 · LayerNorm and softmax: one axis, two promises
#
# A layer turns each sentence into one vector: the average of its tokens, weighted by a softmax of learned scores. Short sentences are filled up with padding, which gets the score $-\infty$ and so the weight 0.

# %%
import math

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, explore, show
from lessonkit.mine import normalize  # lesson 3


def attention_pool(x, query, keep):
    """x: (B, T, C) tokens. query: (C, 1). keep: (B, T), False at padding. Returns (B, C)."""
    scores = (x @ query).masked_fill(~keep[..., None], -math.inf)  # (B, T, 1)
    weights = F.softmax(scores, dim=1)  # (B, T, 1)
    return (weights * x).sum(1)  # (B, C)


# %%
g = torch.Generator().manual_seed(58)
tokens = torch.randn(3, 4, 5, generator=g)  # (B, T, 5)
keep = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)  # (B, T)
W = torch.randn(5, 6, generator=g, requires_grad=True)  # (5, C)
query = (torch.randn(6, 1, generator=g) / 4).requires_grad_()  # (C, 1)
optimizer = torch.optim.SGD([W, query], lr=0.1)
for step in range(3):
    loss = attention_pool(tokens @ W, query, keep)[:2].square().mean()  # the first two
    show(f"loss before step {step}", loss, digits=1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# The layer is to learn, and after one step it is lost: every number in `W` is nan. Yet the first loss is an ordinary number, because it leaves the third sentence out, which is empty: all of it is padding. PyTorch's own attention module does this by default ([pytorch#41508](https://github.com/pytorch/pytorch/issues/41508)).
#
# *About 58 min, in two sittings of 28 and 30.* **You'll be able to**
# - write a softmax that large entries do not break;
# - say what a shift, a factor and a change of sign do to both layers;
# - find softmax's derivatives on paper;
# - mask attention so that an empty sentence harms nothing.
#
# **You need** lessons [2](02_statistics.ipynb) (axes), [3](03_epsilon.ipynb) (`normalize`) and [4](04_affine_and_module.ipynb) (gain and bias), and the derivative of the exponential function.

# %% [markdown]
# ## 5.1 One axis, two promises
#
# What does each of the two layers make of a row? Three numbers are a point in space, seen here from above. The blue dot on the circle is LayerNorm of $x$, the black dot in the triangle is softmax of $x$.

# %%
explore.sphere(x=(1.2, -0.4, 0.3), show=["softmax"], camera=(180, 55))

# %% [markdown]
# **Find out:** drag $x$. Along the direction (1, 1, 1) it is *shifted*: all three entries gain the same number. Away from the line of (1, 1, 1) it is *stretched*: their distances from the mean are multiplied. Which of the two dots does each move?
#
# <details><summary>What there is to find</summary>
#
# Neither moves the blue dot, as long as $x$ stays on its side of the line. A stretch moves the black one: a wider row brings it closer to a corner, as long as one entry is the largest. [Section 5.2](#5.2-A-softmax-that-survives) and [section 5.3](#5.3-What-each-of-them-cannot-see) say why.
#
# </details>
#
# Softmax takes the exponential of each entry and divides by their sum. Our row has the exponentials 1, 2 and 5. `normalize` is LayerNorm before gain and bias.

# %%
x = torch.tensor([1.0, 2.0, 5.0]).log()  # (D,) = (3,)
e = x.exp()  # (D,)
p, y = e / e.sum(), normalize(x)  # (D,) each
for name, numbers in {"x": x, "exp(x)": e, "softmax": p, "LayerNorm": y}.items():
    print(f"{name:9}", *(f"{v:6.3f}" for v in numbers))

# %% [markdown]
# The exponentials have the sum 8, so softmax gives the **shares** 1/8, 2/8 and 5/8.
#
# Attention multiplies the values of tokens by shares and adds up. Somebody puts LayerNorm in the place of softmax.
#
# **Predict 5.1:** three tokens have the values 4, 8 and 0. Now all values are raised by 10. What does the output do, with LayerNorm's weights?
# - [ ] it rises by 10 :: It does with shares, because shares sum to 1.
# - [x] it stays :: The weights sum to 0, so what the values have in common is multiplied by 0.
# - [ ] it rises by 30 :: That takes three weights of 1.

# %%
value = torch.tensor([4.0, 8.0, 0.0])  # (T,) = (3,)
for name, weights in {"softmax": p, "LayerNorm": y}.items():
    before, after = (weights * value).sum(), (weights * (value + 10)).sum()  # () each
    print(f"{name:9} {before:6.3f}, then {after:6.3f}; the weights sum to {weights.sum():.3f}")

# %% [markdown]
# **Shares sum to 1, LayerNorm's outputs sum to 0.**
#
# <details><summary>When this holds</summary>
#
# For every row of finite numbers, up to rounding, and for LayerNorm before gain and bias: with gains that differ, the sum differs from row to row.
#
# </details>
#
# With shares the output is an average, (4 + 16 + 0)/8: it lies between the smallest and the largest value. LayerNorm's output lies below all three values.

# %% [markdown]
# ## 5.2 A softmax that survives
#
# What if the exponentials do not fit into a number?

# %%
row = torch.tensor([0.0, 50.0, 100.0])  # (D,)
print("exp(88), exp(89):", torch.tensor([88.0, 89.0]).exp())
show("as the formula says", row.exp() / row.exp().sum())

# %% [markdown]
# In float32 $e^{89}$ is infinite, and $\infty/\infty$ is nan. The way out is a shift. Add ln 3 to each entry of our row: its exponentials become 3, 6 and 15, and their sum becomes 24. The shares 3/24, 6/24 and 15/24 are the same as before.
#
# **Softmax does not see a shift.**
#
# <details><summary>When this holds</summary>
#
# For every row and every finite $c$: each $e^{x_i}$ is multiplied by $e^c$, and so is their sum, and $e^c$ cancels. In floating point $x + c$ is rounded first, and that is seen.
#
# </details>
#
# So we may first subtract from a row whatever we like. `shares` does, and `minus` says what: `"nothing"`, `"mean"`, `"smallest"`, `"largest"`, each of the row itself, or `"largest of all"`, one number for all rows.


# %% tags=["hide-input"]
# Prints the shares of each row, after something was subtracted.
def shares(*rows, minus):
    """Print softmax of rows, by its formula, after `minus` was subtracted."""
    for row in rows:
        x = torch.tensor(row, dtype=torch.float32)  # (D,)
        subtracted = {
            "nothing": 0.0,
            "mean": x.mean(),
            "smallest": x.min(),
            "largest": x.max(),
            "largest of all": max(map(max, rows)),
        }
        e = torch.exp(x - subtracted[minus])  # (D,)
        print(f"{row} less its {minus}: shares", *(f"{v:.3f}" for v in e / e.sum()))


# %%
shares([0.0, 50.0, 100.0], [1.0, 2.0, 3.0], minus="mean")

# %% [markdown]
# **Find out:** which of the five is safe for all rows of finite numbers? Write your guess down. Then break the other four: each with rows of your own that it turns into nan.
#
# <details><summary>What there is to find</summary>
#
# `"nothing"` breaks at an entry of 89, and at rows far below 0. `"smallest"` breaks where the largest entry lies 89 above the smallest, `"mean"` where it lies 89 above the mean, as in 0, 0, 0, 200. (A little below 89 the sum of several can be infinite, and all shares come out as 0.) `"largest of all"` never overflows, but a second row that lies 200 below it becomes 0/0. With its own largest entry no row of finite numbers breaks: its largest exponent is 0.
#
# </details>


# %% tags=["exercise", "export"] id="ex-5-1"
# Exercise 5.1 · ●●○○○ · 4 min
def safe_softmax(x):
    """Softmax over the last axis, for entries of any size.

    Example: the row log(1), log(2), log(5) gives 1/8, 2/8, 5/8; with 1,000 added, the same.
    x: (..., D), float32 or float64. Returns x's shape and dtype.
    Write it yourself, in torch, without F.softmax.
    """
    ### BEGIN SOLUTION
    largest = x.amax(-1, keepdim=True)  # (..., 1)
    e = torch.exp(x - largest)  # (..., D)
    return e / e.sum(-1, keepdim=True)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.safe_softmax(safe_softmax)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# An entry of $-\infty$ gets the share 0. Shares are as exact around 1,000 as around 0, and gradients flow.
#
# </details>
#
# <details><summary>Hint</summary>
#
# Three lines: the largest entry of each row, the exponentials of what is left, divide by their sum.
# Both reductions need `keepdim=True`, for the reason of lesson 2.
# `x.amax(-1, …)` returns the largest entries. `x.max(-1, …)` returns a pair: the entries, which are its `.values`, and their places.
#
# </details>
#
# **Subtract each row's own largest entry first.** Then no exponential exceeds 1, and one of them *is* 1, so neither $\infty/\infty$ nor 0/0 can occur.
#
# <details><summary>When this holds</summary>
#
# For rows of finite numbers in float32 and float64; an entry of $-\infty$ beside them gets the share 0. In float16 the *sum* can overflow: of 70,000 zeros it is infinite, and all shares come out as 0.
#
# </details>

# %% [markdown]
# ## 5.3 What each of them cannot see
#
# Now say it without the picture, and for a change of sign. LN is LayerNorm before gain and bias, at $\epsilon = 0$.

# %% tags=["exercise"] id="ex-5-2"
# Exercise 5.2 · ●●○○○ · 2 min
# What does each change of x do to the output? Before you run anything, choose "same",
# "negated" (every entry changes its sign), or "changed" (something else, for most rows of
# three or more entries). In the last one, the inner layer comes first.
# Example: "softmax(x + 3)": "same". Copy these lines and replace the dots:
# shift_and_scale = {"softmax(-x)": ..., "LN(-x)": ..., "LN(softmax(2 * x))": ...}
### BEGIN SOLUTION
shift_and_scale = {
    "softmax(-x)": "changed",
    "LN(-x)": "negated",
    "LN(softmax(2 * x))": "changed",
}
### END SOLUTION

# %% tags=["check"]
check.shift_and_scale(shift_and_scale)

# %% [markdown]
# <details><summary>Hint</summary>
#
# For softmax take our row: what becomes of 1, 2, 5 when every exponential is squared? For LN take the row 1, 2, 6: what becomes of its mean, of the distances from it, and of $\sigma$?
#
# </details>
#
# In numbers:

# %%
row = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()  # (D,)
changes = {"x": row, "x + 3": row + 3, "-x": -row, "2 * x": 2 * row}
changes |= {"x / 100": row / 100, "100 * x": 100 * row}
for name, changed in changes.items():
    p, y = safe_softmax(changed), normalize(changed, eps=0.0)  # (D,) each
    numbers = [f"{v:6.3f}" for v in (*p, *y)]
    print(f"{name:7} softmax", *numbers[:3], "  LN", *numbers[3:])

# %% [markdown]
# Doubling $x$ squares the exponentials: 1, 4 and 25 of 30. In LayerNorm it doubles $x - \mu$ and $\sigma$, and their ratio stays.
#
# **LayerNorm does not see a positive factor. Softmax does.**
#
# <details><summary>When this holds</summary>
#
# LayerNorm before gain and bias, of rows whose entries are not all equal. The shift and the sign hold at any $\epsilon$, the factor at $\epsilon = 0$ only: at $\epsilon > 0$ LayerNorm hardly sees the factor where the variance is far above $\epsilon$. LN(−x) = −LN(x), because $\sigma$ is never negative: LayerNorm is *odd*.
#
# </details>
#
# In $\text{softmax}(x/\tau)$ the number $\tau > 0$ is called the **temperature**. At a high one, 100, all shares are nearly equal; at a low one, 1/100, the largest entry takes nearly all.

# %% [markdown]
# ## What you have now
#
# - **Shares sum to 1, LayerNorm's outputs sum to 0.** Neither layer sees a shift.
# - **LayerNorm does not see a positive factor. Softmax does:** it is 1 over the temperature.
#
# **You can stop here:** close the notebook. A row has the exponentials 1, 2 and 5. Write down the shares of $x$, of $x + \ln 3$, of $2x$ and of $-x$.
#
# <details><summary>To compare</summary>
#
# 1/8, 2/8, 5/8; the same; 1/30, 4/30, 25/30; and from the exponentials 1, 1/2 and 1/5 the shares 10/17, 5/17 and 2/17.
#
# </details>
#
# *Sitting two:* softmax's derivatives on paper, and a cure for the empty sentence.

# %% [markdown]
# ## 5.4 The same numbers in the derivatives

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
# In the old kernel run it, too: there W is nan.
import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, show
from lessonkit.mine import normalize, safe_softmax

g = torch.Generator().manual_seed(58)
tokens = torch.randn(3, 4, 5, generator=g)  # (B, T, 5)
keep = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)  # (B, T)
W = torch.randn(5, 6, generator=g, requires_grad=True)  # (5, C)
query = (torch.randn(6, 1, generator=g) / 4).requires_grad_()  # (C, 1)

# %% [markdown]
# **Recall 5.1:** a new `nn.LayerNorm(32)` gets an input of shape (8, 20, 32). How many numbers can it learn?
# - [ ] 160 :: That is the number of rows. Each row has its own mean, but means are computed and not learned.
# - [x] 64 :: 32 gains and 32 biases, which all rows share.
# - [ ] 10,240 :: That would be a gain and a bias for each number of the batch. They belong to features, so that the batch may have any size.
#
# If input $j$ is moved a little, how fast does output $i$ move? The matrix of all these derivatives, a row for each output, is called the **Jacobian** $J$.
#
# Take a pencil, and a row of two entries with the exponentials $e^{x_1} = 3$ and $e^{x_2} = 2$. Their sum is $S = 5$, and the shares are $p_1 = e^{x_1}/S$ and $p_2 = e^{x_2}/S$.

# %% tags=["exercise"] id="ex-5-3"
# Exercise 5.3 · ●●○○○ · 3 min
# On paper: how p1 moves with each entry, by the quotient rule, with the numbers put in.
# Example: the shares themselves would be typed as dict(p1=3 / 5, p2=2 / 5).
# Copy this line and replace the dots; dp1_dx2 says how fast p1 moves with x2:
# softmax_on_paper = dict(dp1_dx1=..., dp1_dx2=...)
### BEGIN SOLUTION
softmax_on_paper = dict(dp1_dx1=6 / 25, dp1_dx2=-6 / 25)
### END SOLUTION

# %% tags=["check"]
check.softmax_on_paper(softmax_on_paper)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The derivative of $u/S$ is $(u' S - u S')/S^2$. For `dp1_dx1` both $u = e^{x_1}$ and $S$ have the derivative $e^{x_1} = 3$. For `dp1_dx2` the derivative of $u$ is 0, and that of $S$ is $e^{x_2}$.
#
# </details>
#
# With letters, your quotients are
#
# $$\frac{\partial p_i}{\partial x_i} = \frac{e^{x_i}S - e^{x_i}e^{x_i}}{S^2} = p_i - p_i\,p_i
# \qquad
# \frac{\partial p_i}{\partial x_j} = \frac{0 - e^{x_i}e^{x_j}}{S^2} = -p_i\,p_j$$
#
# for $j \ne i$. In one line: $J = \mathrm{diag}(p) - p\,p^\top$, with $p$ on the diagonal, less all products $p_i\,p_j$. For the shares 1/8, 2/8 and 5/8 each entry is a whole number over 64.

# %%
row = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()  # (D,)
p = safe_softmax(row)  # (D,)
J = torch.diag(p) - torch.outer(p, p)  # (D, D)
show("64 J", 64 * J, digits=0)
show("by autograd", 64 * torch.autograd.functional.jacobian(safe_softmax, row), digits=0)

# %% [markdown]
# Move all entries of $x$ by the same small step, and no share moves: this is the shift again.
#
# **The rows of J sum to 0.**
#
# A direction in which no output moves, here (1, 1, 1), is called a **null direction** ([Deeper](#How-many-directions) counts them).

# %% [markdown]
# ## 5.5 Clinic: the empty sentence
#
# Back to `attention_pool`: scores, weights, output, loss. The softmax is now yours. It works along the last axis, so `.mT` turns the scores before, and the weights back.
#
# **Predict 5.2:** in which step does the first nan appear?
# - [ ] the scores :: $-\infty$ is no nan: in the second sentence it does what it should, $e^{-\infty} = 0$.
# - [x] the weights :: The largest score of the third sentence is $-\infty$ itself, and $-\infty - (-\infty)$ is nan. Without the subtraction it would be 0/0.
# - [ ] only in the backward pass :: The backward pass multiplies by numbers of the forward pass. Some of these are nan already.

# %%
x = (tokens @ W).detach().requires_grad_()  # (B, T, C)
scores = (x @ query).masked_fill(~keep[..., None], -math.inf)  # (B, T, 1)
weights = safe_softmax(scores.mT).mT  # (B, T, 1)
pooled = (weights * x).sum(1)  # (B, C)
(dx,) = torch.autograd.grad(pooled[:2].square().mean(), x)  # (B, T, C)
show("scores, a row for each sentence", scores[..., 0], digits=1)
show("weights", weights[..., 0], digits=1)
show("nan in the gradient of the tokens", dx.isnan().any(-1).any(-1))

# %% [markdown]
# The loss leaves the third sentence out, so the gradient that arrives at its output is 0. On one of its ways back it goes to each token times the token's weight, and this weight is nan.
#
# **0 · nan is nan.** `W` collects the gradients of all tokens, so one empty sentence is enough.
#
# Many programs have a cure that looks simpler than yours will be. `heal` has three levers: `fill` is the score that padding gets, `zeroed` sets the output of an empty sentence to 0 at the end, and `factor` multiplies the query.


# %% tags=["hide-input"]
# Pools the three sentences with three levers.
def heal(fill=-math.inf, zeroed=False, factor=1.0):
    """Print what padding does to the output and to the gradient.

    fill: the score of padding. zeroed: whether outputs of empty sentences are set to 0.
    factor: on the query, and so on all scores.
    """
    x = (tokens @ W).detach().requires_grad_()  # (B, T, C)
    scores = (x @ (factor * query)).masked_fill(~keep[..., None], fill)  # (B, T, 1)
    weights = safe_softmax(scores.mT).mT  # (B, T, 1)
    pooled = (weights * x).sum(1)  # (B, C)
    if zeroed:
        pooled = pooled.masked_fill(~keep.any(1, keepdim=True), 0.0)
    (dx,) = torch.autograd.grad(pooled[:2].square().mean(), x)  # (B, T, C)
    show("sentence 3, empty: output", pooled[2], digits=1)
    print("nan in the gradient:", dx.isnan().any().item())
    print(f"sentence 2: its padding has {weights[1, 1:].sum().item():.0%} of the weight")


# %%
show("sentence 3: mean of its padding", (tokens @ W)[2].mean(0), digits=1)
heal()

# %% [markdown]
# **Find out:** does `fill=-1e9` heal it, does `zeroed=True`, or does it take both? Write your guess down, and try the three. Then break the best of them: find a `factor`, as large as you like and of either sign, at which padding is heard again.
#
# <details><summary>What there is to find</summary>
#
# With `fill=-1e9` the nan is gone, and so is the alarm: four equal scores give four shares of 1/4, and the output is the mean of the padding. With `zeroed=True` the output is 0 and the gradient is still nan, because 0 · nan is nan. With both all looks well. But at a factor of 1e9 the only token of the second sentence has a score below −1e9, and its padding takes all the weight; at −1e9 that score is positive, and nobody would notice. Much code fills in the lowest number of the type, `torch.finfo(torch.float32).min`. No finite score is below it, so that with the zeros it heals at every factor that leaves the scores finite. But where two such masks are added, the sum is −∞ again.
#
# </details>
#
# Shares must sum to 1, and an empty sentence has nothing to share. So *you* say what it gives, and zeros are the usual choice. Where you say it decides whether the gradient is healed as well. And a finite number in the place of $-\infty$, unless it is the lowest of its type, is a bet on how large the scores will be. Find a place for the zeros at which $-\infty$ can stay.


# %% tags=["exercise"] id="ex-5-4"
# Exercise 5.4 · ●●●○○ · 5 min
def mended_pool(x, query, keep):
    """attention_pool, healed: each sentence's average of its tokens, weighted by softmax.

    Example: keep = [[True, True, False]] leaves the third token out, whatever it holds;
    keep = [[False, False, False]] gives zeros.
    x: (B, T, C) finite numbers. query: (C, 1). keep: (B, T) bool, False at padding.
    Returns (B, C) in x's dtype. No gradient is nan. F.softmax is allowed, and your own.
    """
    ### BEGIN SOLUTION
    hidden = ~keep[..., None]  # (B, T, 1)
    scores = (x @ query).masked_fill(hidden, -math.inf)  # (B, T, 1)
    weights = F.softmax(scores, dim=1).masked_fill(hidden, 0.0)  # (B, T, 1)
    return (weights * x).sum(1)  # (B, C)
    ### END SOLUTION


# %% tags=["check"]
check.mended_pool(mended_pool)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# Padding at any place, a sentence alone, and scores from −1e10 to 800. Gradients flow to x and query.
#
# </details>
#
# <details><summary>Hint</summary>
#
# Start from the steps above. The weights of a sentence that is all padding should be 0. `masked_fill` can set them after the softmax, just as it set the scores before it.
# Look at the gradients, too: `masked_fill` passes no gradient on to the entries that it has overwritten.
#
# </details>

# %%
pooled = mended_pool(tokens @ W, query, keep)  # (B, C)
(dW,) = torch.autograd.grad(pooled[:2].square().mean(), W)  # (5, C)
show("empty sentence", pooled[2])
show("gradient of W, first row", dW[0], digits=1)

# %% [markdown]
# Inside, the weights of the third sentence are nan as before. `masked_fill` overwrites them on the way out, and on the way back it hands no gradient to what it has overwritten, neither to these weights nor to the scores.
#
# **An empty row has no softmax: decide what it gives, and test the gradient as well as the output.**

# %% [markdown]
# ## Take-away
#
# - Neither layer sees a shift; LayerNorm does not see a positive factor and turns its sign with the row.
# - Softmax over nothing but $-\infty$ is nan, and 0 · nan takes it to the gradient of `W`. Give empty rows zeros.
#
# **Formula card**, for one row $x_1, \dots, x_D$:
#
# $$\text{softmax:}\quad m = \max_k x_k \qquad p_i = \frac{e^{x_i - m}}{\sum_k e^{x_k - m}} \qquad J = \mathrm{diag}(p) - p\,p^\top$$

# %% [markdown]
# ## Deeper (optional, 8 min)
#
# ### How many directions
#
# How many null directions has each layer? Take $J$ as a map: it stretches $D$ directions, at right angles to one another, by $D$ factors, its **singular values**. Each factor of 0 belongs to a null direction; the number of the others is the **rank**.

# %%
row = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()  # (D,)
jacobian, svdvals = torch.autograd.functional.jacobian, torch.linalg.svdvals
show("softmax, singular values  ", svdvals(jacobian(lambda v: F.softmax(v, -1), row)))
show("LayerNorm, singular values", svdvals(jacobian(lambda v: normalize(v, eps=0.0), row)))

# %% [markdown]
# Softmax has rank two, as a triangle has two dimensions; LayerNorm has rank one, like the circle of [section 5.1](#5.1-One-axis,-two-promises). Its second null direction is the factor, a small step along $x - \mu$. ([Lesson 8](08_geometry.ipynb#The-spectrum-of-the-Jacobian) counts its directions. And where one share is 1, all of softmax's $J$ is 0, so that no gradient gets through.)
#
# ### Along which axis
#
# **Predict 5.3:** three tokens have the scores 2, 0 and −1, as a tensor of shape (T, 1) = (3, 1). What does `F.softmax(scores, dim=-1)` return?
# - [ ] 0.84, 0.11 and 0.04 :: These are the shares of the three tokens among each other, along axis 0.
# - [ ] three times 1/3 :: Three equal scores along one axis would give that.
# - [x] three ones :: The last axis has one entry, and a share among one is 1, whatever the score.

# %%
scores = torch.tensor([[2.0], [0.0], [-1.0]])  # (T, 1)
show("softmax, dim=-1", F.softmax(scores, dim=-1)[:, 0])
show("softmax, dim=0 ", F.softmax(scores, dim=0)[:, 0])
show("nn.LayerNorm(1)", nn.LayerNorm(1)(scores)[:, 0])

# %% [markdown]
# No error says so. The attention weights of [R-net](https://github.com/localminimum/R-net/issues/8), [KEQA](https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2) and [Catalyst](https://github.com/catalyst-team/catalyst/issues/285) once were all 1. Ask of each softmax: do the weights sum to 1 along the axis that I mean?
#
# Softmax is told the *number* of an axis. LayerNorm is told the *size* of the last axes: `nn.LayerNorm(1)` means rows of one feature, which come out as 0, and `nn.LayerNorm(-1)` is an error.
#
# ### The logarithm of a share
#
# A classifier's loss needs $\log p_i$, and the logarithm of a share that was rounded to 0 is $-\infty$. On paper the logarithm of the quotient is $x_i - m - \log \sum_k e^{x_k - m}$, with the largest entry $m$, and no share is rounded to 0. `F.log_softmax` computes it so. `x - x.logsumexp(-1)` adds $m$ before it subtracts it, and that costs digits.

# %%
row = torch.tensor([1e8, 1e8, 0.0])  # (D,)
z = row - row.amax()  # (D,)
show("log of softmax      ", F.softmax(row, -1).log())
show("x - logsumexp(x)    ", row - row.logsumexp(-1))
show("largest subtracted  ", z - z.exp().sum().log())
show("F.log_softmax       ", F.log_softmax(row, -1))

# %% [markdown]
# ### The same zeros, and nan again
#
# A mask can also be *added* to the scores, 0 at tokens and $-\infty$ at padding. The scores are the same, and so is the output after zeros have been put in.

# %%
hidden = ~keep[..., None]  # (B, T, 1)
minus_inf = torch.zeros(3, 4, 1).masked_fill(hidden, -math.inf)  # (B, T, 1)
x = (tokens @ W).detach()  # (B, T, C)
masks = {"filled": lambda s: s.masked_fill(hidden, -math.inf), "added": lambda s: s + minus_inf}
for name, mask in masks.items():
    weights = F.softmax(mask(x @ query), dim=1).masked_fill(hidden, 0.0)  # (B, T, 1)
    out = (weights * x).sum(1)  # (B, C)
    (dq,) = torch.autograd.grad(out[:2].square().mean(), query)  # (C, 1)
    print(f"-inf {name}: output {out[2, 0].item()}, nan in dq: {dq.isnan().any().item()}")

# %% [markdown]
# In the backward pass softmax multiplies the 0 that arrives by its own nan shares. What then reaches the scores is nan. `masked_fill` replaces it by 0, because these entries were overwritten; an addition hands it on to the query. Where masks are added, give the empty rows a finite score before the softmax.
#
# And PyTorch itself? (In training with `need_weights=False` the first one gives no nan.)

# %%
own = (tokens @ W).detach()  # (B, T, C)
attention = nn.MultiheadAttention(6, 2, batch_first=True)
out, _ = attention(own, own, own, key_padding_mask=~keep)  # (B, T, C)
print("nn.MultiheadAttention: nan in each sentence:", out.isnan().any(-1).any(-1).tolist())
out = F.scaled_dot_product_attention(own, own, own, keep[:, None])  # (B, T, C)
print("F.scaled_dot_product_attention, empty sentence:", out[2].unique().tolist())

# %% [markdown]
# ### The digit that depends on rounding
#
# A public notebook ("Lecture 20: Layer Normalization" of [marcel1520/building-llm](https://github.com/marcel1520/building-llm), cell 566) prints −1.2413 as an entry of LayerNorm's output. `nn.LayerNorm` on the same machine can print −1.2412. Who is wrong? We draw the numbers in its order.

# %%
g = torch.Generator().manual_seed(123)
torch.rand(2, 5, generator=g)  # two rows, then the weights and the bias of nn.Linear(5, 6)
nn.init.kaiming_uniform_(torch.empty(6, 5), a=math.sqrt(5), generator=g)
torch.empty(6).uniform_(-1, 1, generator=g)
batch = torch.rand(3, 5, generator=g)  # (B, D)
exact = normalize(batch.double())[2, 3]  # float64: 16 digits
near = exact.float()  # the float32 number next to it
far = torch.nextafter(near, torch.tensor(-2.0))  # and its neighbor
for name, number in {"float64": exact, "near float32": near, "next float32": far}.items():
    print(f"{name:13} {number.item():.8f}  prints as  {number.item():.4f}")

# %% [markdown]
# Nobody is. The value lies very close to the middle between two printed numbers, and float32 has no number between −1.24124992 and −1.24125004. Two right programs that round in a different order may land on either side. Compare numbers within a tolerance that has a reason, and never compare printed digits.
#
# ## On your own
#
# 1. Build `masked_softmax(scores, keep, dim)` for your own package, along any axis, with zeros where nothing is kept and no nan in any gradient. Put it into a file beside your answers, `work/mine/attention.py`.
# 2. Ten numbers go through LayerNorm (no gain, no bias) and then through softmax. How large can a share become?
#
# <details><summary>To compare</summary>
#
# LayerNorm's largest output is $(D - 1)/\sqrt{D - 1} = 3$, where the nine others are equal, at −1/3. So the share is $e^3/(e^3 + 9\,e^{-1/3})$, about 0.757. QK-norm makes use of such a bound: [section 12.5](12_family.ipynb#12.5-Norms-inside-attention).
#
# </details>
#
# Your layer can now work beside a softmax that no row breaks; it still cannot compare a sample with its neighbors, as BatchNorm does: [lesson 6](06_batchnorm.ipynb).
#
# ## Further reading
#
# - Bridle (1990), *Probabilistic interpretation of feedforward classification network outputs*: by the author who named it.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, table 1: what the layers do not see.
# - Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*: the plane and the sphere.
# - [pytorch#131060](https://github.com/pytorch/pytorch/pull/131060): why fully masked rows give zeros in PyTorch.

# %% [markdown]
# # 3 · Epsilon, and numbers that are not real numbers
#
# **What you'll do:** find the inputs that break LayerNorm, mend it with the smallest number in the formula, and measure what the mend costs. Then leave the real numbers: half precision, and a variance that comes out negative. *(about 50 min, and three optional pieces of 2 min each)*
#
# **You'll be able to**
# - say what $\epsilon$ does to the output, to the gradient and to half-precision numbers;
# - tell $\sqrt{\sigma^2+\epsilon}$ from $\sigma+\epsilon$ with one input;
# - read off a layer which $\epsilon$ it was trained with, and say why it must travel with the weights;
# - compute a variance that survives a mean of 10,000 beside a spread of 1.
#
# **You need:** [lesson 2](02_statistics.ipynb) (mean and variance over the last axis).
#
# *In a classroom (minutes):* 3.1: 3 · 3.2: 8 · 3.3: 7 · 3.4: 9 · 3.5: 4 · 3.6: 9 · 3.7: 10. Short of time? Leave out exercise 3.3 and the slider.

# %%
import ipywidgets as widgets
import torch
from torch.nn import functional as F

from fromscratch import mean_and_var  # lesson 2
from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 3.1 Rows that break the formula
#
# After a ReLU a row can be all zeros. Its mean is 0 and its variance is 0.
#
# **Predict:** what does $(x-\mu)/\sigma$ give for such a row: zeros, infinities, or something else?

# %%
x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])  # (B, D) = (2, 4)
mean, var = mean_and_var(x)  # (B, 1) each
show("(x - mean) / sigma", (x - mean) / var.sqrt())

# %% [markdown]
# `nan`, *not a number*: zero divided by zero. A loss that sums over the batch is then `nan` as well, and so is the gradient of every weight in the layers behind.
# One step of the optimizer later those weights are `nan` themselves, and with them every output of the network.
#
# Such rows are not rare: six ReLU units with weights drawn independently and symmetrically around 0 are all off with probability $1/2^6 = 1/64$, whatever the input (zeros aside; [section 2.6](02_statistics.ipynb)).
# The public notebook of lesson 2, which normalizes two such rows without $\epsilon$, prints `nan` for 58 of its first 2,000 seeds.
#
# A row that is *almost* constant does more harm, because nothing looks broken.
#
# **Predict:** three ones, and a fourth that differs in the last bit of float32 ($2^{-23} \approx 10^{-7}$). What comes out?

# %%
almost = torch.tensor([1.0, 1.0, 1.0, 1.0 + 2**-23])  # (D,) = (4,)
mean, var = mean_and_var(almost)  # (1,) each
show("without eps", (almost - mean) / var.sqrt())
show("LayerNorm  ", F.layer_norm(almost, (4,)))

# %% [markdown]
# A difference in the last bit has become a 2. That is more than any right answer could be: for the four numbers in float32 the exact result ends in $\sqrt{3} = 1.73$.
# PyTorch's layer lets the row fade out instead. That is what $\epsilon$ (epsilon, `eps`) is for, a small number in the denominator.
#
# ## 3.2 Where to put the mend
#
# Ba, Kiros & Hinton (2016) write no $\epsilon$ at all. PyTorch computes $(x-\mu)\,/\,\sqrt{\sigma^2+\epsilon}$ with $\epsilon = 10^{-5}$.
# Tutorials often print $(x-\mu)\,/\,(\sigma+\epsilon)$, and PyTorch's docstring helps them along: it calls `eps` "a value added to the denominator". At $\sigma = 1$ they differ in the sixth digit.


# %% tags=["exercise", "export"] id="ex-3-1"
# Exercise 3.1 · ●●○○○ · 5 min
def normalize(x, eps=1e-5):
    """Normalize the last axis of x.

    x: (..., D) float tensor. eps: added to the biased variance, under the root; used as it is,
        0 as well.
    Returns a tensor of x's shape and dtype; a row of variance v gets mean 0 and variance
    v / (v + eps). Gradients flow through mean and variance. Write it without F.layer_norm.
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
# `mean_and_var` of lesson 2 is imported above. Two lines: the two numbers, and the formula with both brackets and the root.
#
# </details>
#
# Now the two formulas side by side, on one row that is stretched to every spread $\sigma$ from $10^{-5}$ to 1.

# %%
g = torch.Generator().manual_seed(3)
row = torch.randn(512, dtype=torch.float64, generator=g)  # (D,)
row = (row - row.mean()) / row.std(correction=0)  # (D,) sigma is 1
spread = torch.logspace(-5, 0, 60, dtype=torch.float64)  # (60,)
inside = [F.layer_norm(s * row, (512,)).std(correction=0) for s in spread]
outside = [(s * row / (s + 1e-5)).std(correction=0) for s in spread]

# %%
plot.lines(
    spread,
    {"added to σ": outside, "under the root": inside},
    xlog=True,
    colors={"under the root": "LayerNorm"},
    title="Below σ = 0.03 the two formulas part",
    x="σ of the row",
    y="σ of the output",
    caption="One row of 512 numbers in float64, stretched to 60 spreads; "
    "ε = 1e-5 in both formulas.",
    alt="Two curves of the output's spread over the spread of the row. Both are 1 from 0.1 on. "
    "Under the root it falls to one half near 0.002 and to 0.003 at 1e-5; added to sigma it is "
    "still one half at 1e-5.",
)

# %% [markdown]
# Above $\sigma = 0.1$ they agree within 0.1 %. At $10^{-5}$ they are a factor 158 apart; the limit is $1/\sqrt{\epsilon} \approx 316$.
# Added to $\sigma$, an $\epsilon$ of $10^{-5}$ is a threshold on the deviation; under the root it is a threshold on the **variance**, that is $\sqrt{10^{-5}} \approx 0.003$ for $\sigma$.

# %%
tiny = 1e-3 * row  # (D,) sigma is 0.001
wrong = (tiny - tiny.mean()) / (tiny.std(correction=0) + 1e-5)  # (D,)
ratio = wrong.std(correction=0) / F.layer_norm(tiny, (512,)).std(correction=0)
assert (
    abs(ratio - 3.28) < 0.01
)  # sqrt(v + eps) / (sigma + eps) at sigma = 1e-3, whatever the row
show("times too large at sigma = 0.001", ratio, digits=2)

# %% [markdown]
# So a test of a LayerNorm needs a **row of little spread**. Here are three wrong layers and a right one under two tests.
# The first is the test of a public implementation, which feeds zeros and looks at the shape. The second looks at values.
#
# **Predict:** how many of the three does each test find?

# %%
layers = {
    "no eps      ": lambda x: (
        (x - x.mean(-1, keepdim=True)) / x.std(-1, correction=0, keepdim=True)
    ),
    "eps outside ": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + 1e-5)
    ),
    "returns x   ": lambda x: x,
    "F.layer_norm": lambda x: F.layer_norm(x, (4,)),
}
zeros, sample = (
    torch.zeros(2, 3, 4),
    1e-3 * torch.tensor([[0.0, 1.0, 2.0, 3.0]]),
)  # (B, T, C) and (B, C) = (1, 4)
right = (
    1e-3 * torch.tensor([[-1.5, -0.5, 0.5, 1.5]]) / (1.25e-6 + 1e-5) ** 0.5
)  # (1, 4) by hand: variance 1.25e-6
for name, layer in layers.items():
    same = torch.allclose(layer(sample), right, rtol=0, atol=1e-6)  # float32, numbers below 1
    print(
        f"{name}  shape on zeros: {layer(zeros).shape == zeros.shape}   "
        f"values at little spread: {same}"
    )

# %% [markdown]
# The first test lets everything pass, even the layer that answers zeros with nothing but `nan`. A right shape says nothing about the values.
#
# ## 3.3 What epsilon does to values, and to gradients
#
# **Values.** Dividing by $\sqrt{v+\epsilon}$ in place of $\sqrt v$ ($v$ is $\sigma^2$) gives the output the variance $v/(v+\epsilon)$: below 1 for every $\epsilon > 0$, one half where $v = \epsilon$, and 0 for a constant row.
# "Zero mean and unit variance" holds for rows with $v \gg \epsilon$.

# %%
for s in (1.0, 0.1, 0.01, 0.001):
    v_out = F.layer_norm(s * row, (512,)).var(correction=0)
    assert abs(v_out - s**2 / (s**2 + 1e-5)) < 1e-9  # float64
    show(f"sigma {s}: variance of the output", v_out)

# %% [markdown]
# Does a smaller $\epsilon$ "lead to potentially larger values", as an article says? Only up to a bound. With $v > 0$ and any $\epsilon \ge 0$,
#
# $$|y_i| \le \sqrt{D-1}.$$
#
# The entries of a normalized row sum to 0, their squares to at most $D$. If one entry is $a$, the other $D-1$ sum to $-a$, and their squares to at least $a^2/(D-1)$
# (the least is reached when they are all equal). So $a^2 + a^2/(D-1) \le D$, which is $a^2 \le D-1$. The spike of lesson 2 reaches the bound at $\epsilon = 0$.
#
# **Gradients** have another bound, and it does contain $\epsilon$. The *Jacobian* is the $D \times D$ matrix of all derivatives $\partial y_i/\partial x_j$.
# Its *spectral norm* is the largest factor by which a small change of the row can grow on its way through the layer, and a gradient on its way back. We call it the largest slope:
#
# $$\left\| \frac{\partial y}{\partial x} \right\| = \frac{1}{\sqrt{v+\epsilon}} \le \frac{1}{\sqrt\epsilon}$$
#
# (biased $v$, before gain and bias, at least three features; [section 7.4](07_backward.ipynb) proves it).
#
# **Predict:** the largest slope at a constant row, for PyTorch's $\epsilon = 10^{-5}$ and for BERT's $10^{-12}$.


# %%
def slope(layer, x):
    """Return the spectral norm of layer's Jacobian at the row x (D,)."""
    J = torch.autograd.functional.jacobian(layer, x)  # (D, D)
    return torch.linalg.matrix_norm(J, 2).item()


for s, eps in [(1.0, 1e-5), (0.01, 1e-5), (0.0, 1e-5), (0.0, 1e-12)]:
    found = slope(
        lambda x, eps=eps: F.layer_norm(x, (16,), eps=eps),
        s * row[:16] / row[:16].std(correction=0),
    )
    assert abs(found * (s**2 + eps) ** 0.5 - 1) < 1e-6  # 1 / sqrt(v + eps), in float64
    show(f"sigma {s}, eps {eps:.0e}: largest slope", found, digits=1)

# %% [markdown]
# 316 and a million. A nearly constant row can multiply its gradient by that number, and the weights before it feel it.
#
# Outside the root the bound is $1/\epsilon$ and not $1/\sqrt\epsilon$. And at a constant row it depends on the way the root is written whether there is a gradient at all:

# %%
dead = torch.zeros(8, dtype=torch.float64)  # (D,)
show("under the root: largest slope", slope(lambda x: F.layer_norm(x, (8,)), dead), digits=1)
added = slope(lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-5), dead)
show("x.std() + eps:  largest slope", added, digits=1)

leaf = dead.clone().requires_grad_()
y = (leaf - leaf.mean()) / (leaf.var(correction=0).sqrt() + 1e-5)  # (D,)
y[0].backward()
show("x.var().sqrt() + eps: output", y[0])
show("x.var().sqrt() + eps: gradient", leaf.grad[0])

# %% [markdown]
# The last one is the treacherous one: the output is a clean 0 and the gradient is `nan`. The root has an infinite slope at 0, and infinity times 0 is `nan`.
# (`x.std` has the same slope; PyTorch sets it to 0 there.)

# %% tags=["exercise"] id="ex-3-2"
# Exercise 3.2 · ●●○○○ · 4 min
# Five numbers, to two digits: eps_numbers = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ...}
# a  eps = 1e-5: the variance of the output for a row of variance 1e-5
# b  eps = 1e-5: the variance of the output for a row of variance 9e-5
# c  eps = 1e-5: the variance of the output for a constant row
# d  eps = 1e-4 (not 1e-5): the largest slope that any row can meet
# e  the largest entry that a row of D = 17 features can have in the output, whatever eps
### BEGIN SOLUTION
eps_numbers = {"a": 0.5, "b": 0.9, "c": 0.0, "d": 100.0, "e": 4.0}
### END SOLUTION

# %% tags=["check"]
check.eps_numbers(eps_numbers)

# %% [markdown]
# <details><summary>Hint</summary>
#
# a to c: $v/(v+\epsilon)$. d: $1/\sqrt{v+\epsilon}$ is largest where $v$ is smallest. e: the bound above.
#
# </details>
#
# ## 3.4 Which epsilon travels with which weights
#
# | where | default $\epsilon$ |
# |---|---|
# | Ba, Kiros & Hinton (2016) | none |
# | Keras `LayerNormalization` | 1e-3 |
# | PyTorch `nn.LayerNorm` | 1e-5 |
# | Flax `LayerNorm`; the vision transformers of timm | 1e-6 |
# | BERT (`layer_norm_eps` of its Hugging Face configuration) | 1e-12 |
#
# Load weights that were trained with one into a layer that uses another: no error, all shapes fit.
#
# **Predict:** for which rows is the result wrong?

# %%
others = {"Keras 1e-3": 1e-3, "Flax 1e-6": 1e-6, "BERT 1e-12": 1e-12}
for name, eps in others.items():
    factors = []
    for s in (1.0, 0.03, 0.001):
        y = F.layer_norm(s * row, (512,), eps=eps)
        factors.append(
            (y.std(correction=0) / F.layer_norm(s * row, (512,)).std(correction=0)).item()
        )
    show(f"{name:10}: times PyTorch's output at sigma 1, 0.03, 0.001", factors)

# %% [markdown]
# At $\sigma = 1$ the choice shows in the fourth digit at most, at 0.001 it is a factor 3.3 up or 9.5 down.
# Rows of little spread exist: an embedding drawn with $\sigma = 0.02$, BERT's `initializer_range`, comes out with spread $0.02/\sqrt{0.02^2 + 10^{-3}} = 0.53$ under Keras' default, and with 1 under BERT's own.
# (BERT adds three such embeddings first: spread $0.02\sqrt3$, which comes out as 0.74. Training changes all of these.)
#
# ### The epsilon slider
#
# Move $\epsilon$ and watch five rows of different spread. (It needs a running kernel; the picture below it stands still.)

# %%
slider = widgets.FloatLogSlider(
    value=1e-5, min=-12, max=-1, step=1, description="epsilon", readout_format=".0e"
)
table = widgets.HTML()


def redraw(change=None):
    """Fill the table: a bar for the spread of each output, and the largest slope."""
    lines = "<tr><th>σ of the row</th><th>largest slope</th><th>σ of the output</th></tr>"
    for s in (1.0, 0.1, 0.01, 0.001, 0.0001):
        out = F.layer_norm(s * row, (512,), eps=slider.value).std(correction=0).item()
        style = f"background:#0072B2;color:white;width:{35 + 250 * out:.0f}px"
        bar = f'<div style="{style}">&nbsp;{out:.3f}</div>'
        steepest = (s**2 + slider.value) ** -0.5
        lines += f"<tr><td>{s:g}</td><td>{steepest:,.0f}</td><td>{bar}</td></tr>"
    table.value = f"<table>{lines}</table>"


slider.observe(redraw, "value")
redraw()
widgets.VBox([slider, table])

# %%
defaults = {
    "BERT, 1e-12": 1e-12,
    "Flax, timm, 1e-6": 1e-6,
    "PyTorch, 1e-5": 1e-5,
    "Keras, 1e-3": 1e-3,
}
curves = {
    name: [F.layer_norm(s * row, (512,), eps=eps).std(correction=0) for s in spread]
    for name, eps in defaults.items()
}

# %%
plot.lines(
    spread,
    curves,
    xlog=True,
    colors={"PyTorch, 1e-5": "LayerNorm"},
    vref={"σ = 0.02": 0.02},
    title="The larger epsilon is, the more spread a row needs",
    x="σ of the row",
    y="σ of the output",
    caption="The row of the last figure under four defaults. A row comes out with spread 0.71 "
    "where its variance equals ε. Dashed: the spread of an embedding drawn with BERT's "
    "initializer range, 0.02.",
    alt="Four rising curves from 0 to 1. With 1e-12 every row comes out with spread 1; with "
    "1e-6, 1e-5 and 1e-3 rows fade out below a spread of 0.001, 0.003 and 0.03.",
)

# %% [markdown]
# You have inherited a trained layer, and nobody wrote down its $\epsilon$. The layer itself can tell you: feed it a row of your choice.


# %% tags=["exercise"] id="ex-3-3"
# Exercise 3.3 · ●●●○○ · 7 min
def find_eps(layer):
    """Find out which eps a LayerNorm uses, by feeding it a row and looking at what comes out.

    layer: a function of a (..., D) tensor that returns (x - mean) / sqrt(var + eps), with the
        biased variance of the last axis, in x's dtype. It has no gain and no bias, and no
        attribute to read.
    Returns eps as a number. It may be anything from 1e-12 to 1e-3; one percent of error is
    fine.
    """
    ### BEGIN SOLUTION
    x = 1e-8 * torch.tensor(
        [[-3.0, -1.0, 1.0, 3.0]], dtype=torch.float64
    )  # (1, D): eps must outweigh its variance
    v = x.var(correction=0)
    return (v / layer(x).var(correction=0) - v).item()  # the output has variance v / (v + eps)
    ### END SOLUTION


# %% tags=["check"]
check.find_eps(find_eps)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Which rows show $\epsilon$, and which hide it? Solve $v_\text{out} = v/(v+\epsilon)$ for $\epsilon$.
# For the smallest $\epsilon$ the row must be very small, and float64 is kinder than float32.
#
# </details>
#
# ### Do equal digits prove it? (optional, 2 min)
#
# Public notes on LayerNorm use $\epsilon = 10^{-8}$ and say of their class that it "yields the same output as torch"; their script prints both.
#
# **Predict:** in 1,000 random batches of shape (2, 3, 4), how often does `torch.allclose` agree with the notes? And how often does it reject a layer with the right $\epsilon$?

# %% tags=["optional", "nbval-ignore-output"]
x = torch.randn(1000, 2, 3, 4, generator=torch.Generator().manual_seed(34))  # (N, B, T, C)
mean, var = mean_and_var(x)  # (N, B, T, 1) each
theirs = F.layer_norm(x, (4,))  # (N, B, T, C)
agree = {}
for eps in (1e-8, 1e-5):
    ours = (x - mean) / torch.sqrt(var + eps)  # (N, B, T, C)
    agree[eps] = torch.isclose(ours, theirs).flatten(1).all(1).double().mean().item()
    worst = (ours - theirs).abs().max().item()
    print(
        f"eps {eps:.0e}: allclose says yes in {100 * agree[eps]:.1f} %, "
        f"worst difference {worst:.1e}"
    )
assert (
    0.005 < agree[1e-8] < 0.10 and 0.90 < agree[1e-5] < 0.995
)  # 2.5 to 4 % and 96 to 98 % over five seeds

# %% [markdown]
# `allclose` accepts the wrong $\epsilon$ now and then, and now and then rejects the right one, which differs by rounding only:
# its default tolerance for a number near 0 is $10^{-8}$, less than float32 can promise. Equal printed digits decide no better.
# Compare with a float64 result, allow a few $10^{-6}$ (float32, numbers of order 1), and feed a row of little spread.
#
# ## 3.5 Half precision
#
# Among the real numbers there is no largest, and no smallest above 0. Floating-point numbers have both, and between them a fixed count of digits.

# %%
for kind in (torch.float16, torch.bfloat16, torch.float32):
    info = torch.finfo(kind)
    kept = [torch.tensor(value, dtype=kind).item() for value in (1e-5, 1e-8, 1e-12)]
    print(
        f"{str(kind)[6:]:8}  largest {info.max:.1e}  next after 1: 1 + {info.eps:.1e}  "
        f"1e-5, 1e-8, 1e-12 become {', '.join(f'{value:.1e}' for value in kept)}"
    )

# %% [markdown]
# (6.6e+04 is 6.6 · 10⁴, and 0.0e+00 is 0.)
#
# - **float16** has three digits and a short range. Its smallest number above 0 is $2^{-24} \approx 6\cdot10^{-8}$; whatever is below half of that becomes 0. There, $\epsilon = 10^{-8}$ is **no epsilon**.
# - **bfloat16** has the range of float32 and pays with digits: hardly more than two.
#
# Three things go wrong when a mean and a variance are computed in them.
#
# **Predict** each: the square of 256 in float16; a sum of 768 ones in bfloat16, one after the other; the mean of 50, 50.25, …, 53.75 in bfloat16 (it is 51.875).

# %%
show("256 squared in float16", torch.tensor(256.0, dtype=torch.float16) ** 2)

total = torch.zeros((), dtype=torch.bfloat16)
for _ in range(768):
    total = total + 1
show("768 ones, added one by one in bfloat16", total)
show("the same by torch.sum", torch.ones(768, dtype=torch.bfloat16).sum())

quarters = torch.tensor(
    [50 + 0.25 * i for i in range(16)], dtype=torch.bfloat16
)  # (D,) all exact
show("mean of the quarters", quarters.mean(), digits=3)

# %% [markdown]
# The square overflows (from 256 on; the largest float16 is 65,504). The sum stalls at 256: the next bfloat16 is 258, so 257 is rounded back to 256, each time.
# `torch.sum` keeps its running total in float32, and only the result is rounded. Even so a mean of 51.875 cannot be **written down** in bfloat16.
# Hence the rule for both formats: **statistics in float32; round once, at the end.** `F.layer_norm` does that:

# %%
exact = F.layer_norm(quarters.double(), (16,))  # (D,)
mean, var = mean_and_var(quarters)  # (1,) each, rounded to bfloat16
by_hand = (quarters - mean) / torch.sqrt(var + 1e-5)  # (D,)
inside = F.layer_norm(quarters, (16,))  # (D,) bfloat16 in and out, float32 inside
show("largest error, all in bfloat16", (by_hand - exact).abs().max(), digits=3)
show("largest error, F.layer_norm   ", (inside - exact).abs().max(), digits=3)
assert (
    inside - exact
).abs().max() <= 2**-8  # half a step of bfloat16 between 1 and 2: one rounding, of the result

# %% [markdown]
# ### Autocast (optional, 2 min)
#
# PyTorch's *autocast* chooses a dtype for each operation, so that a model trains in half precision where that is safe. What does it choose for LayerNorm? On a CPU, torch 2.13:

# %% tags=["optional"]
g = torch.Generator().manual_seed(35)
x, weight = torch.randn(3, 8, generator=g), torch.randn(6, 8, generator=g)  # (B, 8), (6, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = F.linear(x, weight)  # (B, 6)
    after_linear, on_input = F.layer_norm(h, (6,)), F.layer_norm(x, (8,))  # (B, 6), (B, 8)
print(
    "linear:",
    h.dtype,
    " LayerNorm of that:",
    after_linear.dtype,
    " LayerNorm of float32:",
    on_input.dtype,
)
exact = F.layer_norm(h.double(), (6,))  # (B, 6)
assert (
    after_linear - exact
).abs().max() <= 2**-7  # half a step of bfloat16 between 2 and 4: float32 inside

# %% [markdown]
# The CPU's autocast leaves LayerNorm alone: bfloat16 in, bfloat16 out. On CUDA it is different: PyTorch's documentation lists `layer_norm` among the operations that autocast to **float32**, so that the output is float32 there (not run here).
# The statistics are taken in float32 in both cases. A LayerNorm written by hand is treated operation by operation, and `mean` is on neither list: a bfloat16 input gives it a mean rounded to bfloat16.
#
# ## 3.6 A variance that survives an offset
#
# float32 has seven digits. That is plenty, as long as nobody subtracts two large numbers that are nearly equal.
# The identity $\sigma^2 = \operatorname{E}[x^2] - \operatorname{E}[x]^2$, where $\operatorname{E}$ is the mean over the row, does just that.
# It is tempting: both means can be taken in one pass over the row. The formula of lesson 2 needs two, one for the mean and one for the distances from it.
#
# **Predict:** the variance of 0, 1, 2, 3 is 1.25, and adding 8,192 to all four changes nothing. What does each formula say in float32?


# %%
def one_pass(x):
    """E[x^2] - E[x]^2 over the last axis: (..., D) -> (..., 1)."""
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


for k in (0, 1024, 2048, 4096, 8192):
    shifted = torch.tensor([0.0, 1.0, 2.0, 3.0]) + k  # (D,) exact in float32
    two_passes = mean_and_var(shifted)[1].item()
    print(
        f"{k:5} + [0, 1, 2, 3]: one pass {one_pass(shifted).item():.2f}, "
        f"two passes {two_passes:.2f}"
    )

# %% [markdown]
# $8192^2 \approx 6.7\cdot10^7$, and from there on float32 moves in steps of 8: a variance of 1.25 falls through the grid.
# What is lost depends on the mean in units of the deviation: a few times $(\mu/\sigma)^2 \cdot 2^{-24}$ of the variance.
#
# A third way runs through the row once and keeps the mean up to date: **Welford's** algorithm (1962). It has a name for being stable.


# %%
def welford(x):
    """Running mean and sum of squared distances, entry by entry: (..., D) -> (..., 1)."""
    mean = torch.zeros_like(x[..., :1])  # (..., 1)
    m2 = torch.zeros_like(mean)  # (..., 1)
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean  # from the old mean
        mean = mean + delta / n
        m2 = m2 + delta * (entry - mean)  # times the distance from the new mean
    return m2 / x.shape[-1]


def layer_norms_own(x):
    """The variance inside F.layer_norm, from the 1 / sigma its kernel returns (eps = 0)."""
    return torch.native_layer_norm(x, x.shape[-1:], None, None, 0.0)[2].double() ** -2


# %%
ways = {
    "E[x²] − E[x]²": one_pass,
    "Welford": welford,
    "F.layer_norm": layer_norms_own,
    "two passes": lambda x: mean_and_var(x)[1],
}


def worst_errors(offset, seed):
    """Return the largest relative error of each way over 64 float32 rows.

    A row has 768 numbers, sigma 1, around offset.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 768, generator=g) + offset  # (64, 768)
    exact = mean_and_var(x.double())[1]  # (64, 1) of the rounded rows
    return [((way(x) - exact).abs() / exact).max().item() for way in ways.values()]


# %% [markdown]
# **Predict** the order of the four at a mean of 10,000: which is best, which is worst?

# %%
offsets, seeds = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5], range(5)
errors = torch.tensor(
    [[worst_errors(k, seed) for k in offsets] for seed in seeds]
)  # (seeds, offsets, ways)
plot.lines(
    offsets,
    {name: errors[:, :, i] for i, name in enumerate(ways)},
    xlog=True,
    ylog=True,
    colors={"F.layer_norm": "LayerNorm"},
    title="Far from zero, two passes beat Welford, and one pass is lost",
    x="mean of the rows (their σ is 1)",
    y="largest relative error of the variance",
    caption="float32 rows of 768 numbers, the worst of 64 rows, against float64.",
    alt="Four lines on logarithmic axes that rise with the mean. At 10,000 the one-pass "
    "formula is wrong by 30 times the variance, Welford by one in a thousand, PyTorch's layer "
    "norm by two in ten thousand and two passes by two in a million.",
)

# %%
one, chain, torchs, two = errors[:, 4].unbind(-1)  # (seeds,) each, at a mean of 10,000
# Over 24 seeds: one pass 23 to 40, Welford 4e-4 to 1.4e-3, PyTorch 1.4e-4 to 3e-4,
# two passes 1e-6 to 4e-6.
assert (one > 5).all()  # more than the variance itself
assert (two < 1e-5).all() and (chain > 50 * two).all()
assert (torchs < chain).all() and (torchs > two).all()
x = torch.randn(256, 768, generator=torch.Generator().manual_seed(36)) + 1e4  # (256, 768)
assert (one_pass(x) < 0).double().mean() > 0.05  # 23 to 52 % of the rows over 24 seeds
assert (welford(x) > 0).all() and (mean_and_var(x)[1] > 0).all()

# %% [markdown]
# At 10,000 one pass is wrong by many times the variance, and for about every third row the result is **negative**: its root is `nan`.
#
# Welford's result is never negative, and still it is hundreds of times less exact than two passes. Both have a mean that is off by rounding. But if *all* deviations are taken from one mean that is off by $e$, the result is off by $e^2$ only:
#
# $$\frac1D\sum_i (x_i - \mu - e)^2 = \sigma^2 + e^2$$
#
# Welford rounds a new mean at every entry, at $10^4$ to multiples of 0.001. Each product meets another error, and the errors enter as they are, not squared.
# (Measured in float32 and with PyTorch's `mean`, which adds up in a tree. With a mean from a plain loop, two passes are off by 1e-4 here: still better than Welford.)
#
# ### What PyTorch does (optional, 2 min)
#
# Until 2021 its LayerNorm used the one-pass formula: pytorch#51102 reports output variances between 0.05 and 48,426 for rows around 2,000, where 1 is right.
# Since then its CPU kernel runs Welford over short chunks and merges the chunks pairwise, so that no chain is long: the blue curve, between Welford and two passes.
# `x.var` goes further; on a CPU its Welford runs in float64 for float32 rows:

# %% tags=["optional"]
x = torch.randn(64, 768, generator=torch.Generator().manual_seed(37)) + 1e5  # (B, D)
exact = mean_and_var(x.double())[1]  # (B, 1)
assert (
    (x.var(-1, correction=0, keepdim=True) - exact).abs() / exact
).max() < 1.2e-7  # one rounding, of the result
assert ((welford(x) - exact).abs() / exact).max() > 1e-3  # 5e-3 to 2e-2 over 24 seeds

# %% [markdown]
# ### One pass after all
#
# The formula $\operatorname{E}[x^2] - \operatorname{E}[x]^2$ is still around: in public annotated implementations, as the default of Flax (`use_fast_variance=True`, "faster, but less numerically stable"), in kernels that want to read the row only once.
#
# They could have both, one pass and a right result. A shift does not change the variance, and **any entry of the row** is a good shift:
# by section 3.3 none lies farther than $\sqrt{D-1}$ deviations from the mean, so whatever the offset was, what is squared is about as small as the spread allows.
# (At worst, if that entry is the one far out, a few times $D \cdot 2^{-24}$ of the variance is lost: some $10^{-4}$ for 768 features.)


# %% tags=["exercise"] id="ex-3-4"
# Exercise 3.4 · ●●○○○ · 6 min
def stable_variance(x):
    """Return the biased variance over the last axis of x, and survive a large offset.

    x: (..., D) float tensor; float32 rows may have a mean of 10,000 beside a spread of 1.
    Returns (..., 1), in x's dtype.
    Any way that you write yourself is right: two passes, a shifted one pass, a way of your own.
    Only PyTorch's var and std do not count.
    """
    ### BEGIN SOLUTION
    shifted = x - x[..., :1]  # (..., D): as small as the spread
    return (
        shifted.square().mean(-1, keepdim=True) - shifted.mean(-1, keepdim=True) ** 2
    )  # (..., 1)
    ### END SOLUTION


# %% tags=["check"]
check.stable_variance(stable_variance)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The quickest way is two passes, as in lesson 2. For the other one: subtract the first entry of each row, `x[..., :1]`. Then the one-pass formula, both terms of it, has only small numbers to square.
#
# </details>

# %% [markdown]
# How does yours fare farther out, at a mean of 100,000? Two passes are off by 1e-4 to 5e-4 there, Welford by 5e-3 to 2e-2 (over 40 seeds).

# %% tags=["nbval-ignore-output"]
x = torch.randn(64, 768, generator=torch.Generator().manual_seed(37)) + 1e5  # (B, D)
exact = mean_and_var(x.double())[1]  # (B, 1)
own = stable_variance(x)  # (B, 1)
error = ((own - exact).abs() / exact).max().item()
print(f"largest relative error of yours at a mean of 100,000: {error:.0e}")

# %% [markdown]
# ## 3.7 Clinic: it was fine in float32
#
# This layer is modeled on one in public notes. Weights were trained with it, in float32, without trouble. To save memory the model was turned into float16.


# %%
def clinic_norm(x, eps=1e-8):
    """The patient: (..., D) -> (..., D)."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    var = x.var(-1, correction=0, keepdim=True)  # (..., 1)
    return (x - mean) / torch.sqrt(var + eps)


rows = torch.tensor([[0.0, 0, 0, 0], [-3, -1, 1, 3], [-3, -1, 1, 3]])  # (B, D)
rows = rows * torch.tensor(
    [[1.0], [2**-15], [256]]
)  # (B, D): zeros, tiny, large; all exact in float16
show("float32", clinic_norm(rows))
show("float16", clinic_norm(rows.half()))

# %% [markdown]
# Three rows, and in float16 three wrong results. Find the cause of each: what has been rounded away, or what did not fit?

# %% tags=["exercise"] id="ex-3-5"
# Exercise 3.5 · ●●○○○ · 3 min
# half_diagnosis = {"zeros": ..., "tiny": ..., "large": ...}, each with one of these words:
# "eps"        only eps has become 0
# "underflow"  the variance has become 0, too
# "overflow"   the variance does not fit into float16
### BEGIN SOLUTION
half_diagnosis = {"zeros": "eps", "tiny": "underflow", "large": "overflow"}
### END SOLUTION

# %% tags=["check"]
check.half_diagnosis(half_diagnosis)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The variances of the rows are 0, $5\cdot2^{-30} \approx 5\cdot10^{-9}$ and $5\cdot2^{16} \approx 330{,}000$. Which of them can float16 hold? Look at the table of section 3.5.
#
# </details>
#
# The first row has a history: PyTorch's own layer returned `nan` for it in 2020 (pytorch#41527: on a GPU, in float16, with $\epsilon = 10^{-12}$), and a public speech toolkit mended that by raising every $\epsilon$ to $10^{-5}$.
# That stops the `nan`. It also changes the function for rows of little spread (section 3.4), and the weights were trained with another $\epsilon$.


# %% tags=["exercise"] id="ex-3-6"
# Exercise 3.6 · ●●●○○ · 6 min
def normalize_half(x, eps=1e-8):
    """Mend clinic_norm for half precision without changing the function that it computes.

    x: (..., D) float16, bfloat16 or float32. eps: the one of the weights, used as it is.
    Returns x's shape and dtype, as exact as a single rounding at the end allows.
    """
    ### BEGIN SOLUTION
    wide = x.float()  # (..., D) float32, where 1e-8 is not 0 and 256 squared fits
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

# %%
show("mended, in float16", normalize_half(rows.half()))

# %% [markdown]
# ## Take-away
#
# - Under the root, $\epsilon$ gives the output the variance $v/(v+\epsilon)$ and bounds the gradient by $1/\sqrt\epsilon$ (316 for $10^{-5}$, a million for $10^{-12}$). Values are bounded by $\sqrt{D-1}$ whatever it is. In float16, $10^{-8}$ and $10^{-12}$ are 0.
# - One row of spread 0.001 tells $\sqrt{\sigma^2+\epsilon}$ from $\sigma+\epsilon$: 3.3 times too large. Well-spread rows, printed digits and shapes do not.
# - $\epsilon$ belongs to the weights. It can be read off: feed a row with $v \ll \epsilon$ and solve $v_\text{out} = v/(v+\epsilon)$.
# - Make numbers small before you square them: two passes, or a shift by an entry. Welford in float32 is safe, not exact. For half precision: statistics in float32, one rounding at the end.
#
# ## On your own
#
# 1. A row of ten times 0.1 is constant, but 0.1 is not exact in float32. What does your `normalize` make of it, and what would it be without $\epsilon$? What does `F.layer_norm` say?
# 2. Two passes lose digits at a mean of 100,000. Subtract `centered.mean(-1, keepdim=True) ** 2` from their result. How exact is it now, and why? (Look at the formula with $e^2$.)
# 3. Weights trained with $\epsilon = 10^{-12}$ are loaded with $10^{-5}$. Could other gains make up for it? For which rows?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: no $\epsilon$.
# - Chan, Golub & LeVeque (1983), *Algorithms for Computing the Sample Variance*, The American Statistician 37: one pass, two passes, shifts, updates, and their error bounds.
# - Micikevicius et al. (2018), *Mixed Precision Training*, section 3.3: which arithmetic needs float32.
# - pytorch#51102 and pytorch#41527: the two bug reports of this lesson.

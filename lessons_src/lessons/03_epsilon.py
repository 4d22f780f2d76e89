# %% [markdown]
# # 3 · Epsilon, and numbers that are not real numbers
#
# A network of two layers learns to read digits. Every picture is normalized first, as in [lesson 2](02_statistics.ipynb). One of the 1,280 pictures is an empty scan: no ink at all.

# %% tags=["hide-input"]
import ipywidgets as widgets
import torch
from torch.nn import functional as F

from fromscratch import mean_and_var  # lesson 2
from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)

images, labels = data.digits()  # (1797, 8, 8) ink from 0 to 16, (1797,)
pictures = images[:1280].flatten(1).clone()  # (N, D) = (1280, 64)
pictures[800] = 0.0  # the empty scan


def fit(norm):
    """Train two layers on normalized pictures with plain SGD, one pass in batches of 64.

    Return (the loss of each step, the weights).
    """
    g = torch.Generator().manual_seed(30)
    W1 = (torch.randn(64, 32, generator=g) / 8).requires_grad_()  # (D, 32)
    W2 = (torch.randn(32, 10, generator=g) / 32**0.5).requires_grad_()  # (32, 10)
    losses = []
    for x, y in zip(pictures.split(64), labels[:1280].split(64), strict=True):
        loss = F.cross_entropy(torch.relu(norm(x) @ W1) @ W2, y)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, (W1, W2))
        with torch.no_grad():
            W1 -= 0.5 * gradients[0]
            W2 -= 0.5 * gradients[1]
    return losses, (W1.detach(), W2.detach())


# %%
def standardized(x):
    """(..., D) -> (..., D): minus the mean, divided by the standard deviation."""
    mean, var = mean_and_var(x)  # (..., 1) each
    return (x - mean) / var.sqrt()  # (..., D)


losses, weights = fit(standardized)
show("loss, every third step", losses[::3], digits=1)

# %% tags=["hide-input"]
# The empty scan, picture 800, is in batch 800 // 64 = 12: steps 0 to 11 are fine.
assert all(loss == loss for loss in losses[:12])
assert all(loss != loss for loss in losses[12:])

# %% [markdown]
# In twelve steps the loss comes down, though not at every step. The next batch holds the empty scan, and from there on every loss is `nan`, *not a number*. This lesson repairs that with the smallest number in the formula, and measures what the repair costs.
#
# *About 60 min.* **You'll be able to**
# - say what $\epsilon$ does to output and gradient, and what half precision does to $\epsilon$;
# - tell $\sqrt{\sigma^2+\epsilon}$ from $\sigma+\epsilon$ with one input;
# - find the $\epsilon$ of a trained layer, and say why it travels with the weights;
# - compute a variance that survives a mean of 10,000 at a standard deviation of 1.
#
# **You need** [lesson 2](02_statistics.ipynb): mean and biased variance of the last axis.
#
# **Recall 3.1:** `x` has shape (4, 7, 10). How many variances does LayerNorm over the last axis take?
# - [ ] 10 :: That is one for each feature. LayerNorm takes one for each row of features.
# - [x] 28 :: The axes that are not reduced are left: 4 · 7.
# - [ ] 4 :: That is one for each sample, over the last two axes.
#
# **Recall 3.2:** by what does LayerNorm divide the centered row −1.5, −0.5, 0.5, 1.5?
# - [x] √(5/4) :: The squares sum to 5, and the biased variance divides by D = 4.
# - [ ] √(5/3) :: That is the unbiased variance, which divides by D − 1.
# - [ ] 5/4 :: That is the variance. The row is divided by its root.
#
# **Recall 3.3:** fifty ReLU layers of equal width, no biases, weights with standard deviation $g/\sqrt D$: which $g$ keeps the size of the signal?
# - [ ] 1 :: The matrix keeps the mean square then, but ReLU halves it.
# - [ ] any :: Only with a normalization layer, and this lesson finds a limit to that.
# - [x] √2 :: The matrix multiplies the mean square by 2, and ReLU halves it.

# %% [markdown]
# ## 3.1 Rows that break the formula
#
# What did the empty scan do? Its mean and its variance are 0, so every entry of the normalized row is $0/0$.
#
# **Predict 3.1:** the scan is one row of a batch of 64. Which weights are `nan` after that step?
# - [ ] none: only the loss is nan :: The step subtracts the gradient of that loss, and the gradient is nan as well.
# - [ ] some of them :: Every weight gets a gradient that is a sum over the rows of the batch, and one of them is nan.
# - [x] all of them :: Each gradient is a sum over the batch, and any sum with nan in it is nan.

# %%
nans = [W.isnan().double().mean().item() for W in weights]
show("share of the weights that are nan, in each layer", nans, digits=2)

# %% [markdown]
# No later batch can undo that. Padding makes such rows as well, and so does a narrow ReLU layer: six units without biases, their weights drawn independently from a normal distribution around 0, are all off with probability $1/2^6 = 1/64$, if their input is not zeros.
#
# A row that is *almost* constant does more harm, because nothing looks broken.
#
# **Predict 3.2:** three ones, and a fourth number that differs by the last bit of float32, about $10^{-7}$. What does $(x-\mu)/\sigma$ make of the fourth?
# - [x] a number of order 1 :: The deviation is as tiny as the difference, and dividing by it removes the size.
# - [ ] about 1e-7 :: It is divided by the deviation, which is of order 1e-7 as well.
# - [ ] nan again :: The variance is tiny, but it is not 0.

# %%
almost = torch.tensor([1.0, 1.0, 1.0, 1.0 + 2**-23])  # (D,) = (4,)
show("without eps ", standardized(almost))
show("F.layer_norm", F.layer_norm(almost, (4,)))

# %% [markdown]
# A difference in the last bit has become a 2. PyTorch's layer lets the row fade out instead. So a constant row gives `nan`, if its mean is exact, and in a nearly constant row noise becomes a signal. The remedy is $\epsilon$ (epsilon, `eps`), a small number in the denominator.
#
# ## 3.2 Where epsilon goes
#
# In the denominator, but where? Ba, Kiros & Hinton (2016) write no $\epsilon$. PyTorch computes $(x-\mu)\,/\,\sqrt{\sigma^2+\epsilon}$ with $\epsilon = 10^{-5}$, though its docstring calls `eps` "a value added to the denominator".
# [The Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/) does divide by $\sigma+\epsilon$ (with the unbiased $\sigma$). At $\sigma = 1$ and $\epsilon = 10^{-5}$ the two places differ in the sixth digit.


# %% tags=["exercise", "export"] id="ex-3-1"
# Exercise 3.1 · ●●○○○ · 4 min
def normalize(x, eps=1e-5):
    """Normalize the last axis of x.

    x: (..., D) float32 or float64. eps: added to the biased variance, under the root; used as
        it is, 0 as well.
    Returns x's shape and dtype; a row of variance v gets mean 0 and variance v / (v + eps).
    First and second gradients flow through mean and variance. Write it without F.layer_norm.
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
# `mean_and_var` of lesson 2 is imported already. Two lines: the two numbers, and the formula with both brackets and the root.
#
# </details>
#
# Train again, with your function:

# %%
show("loss, every third step", fit(normalize)[0][::3], digits=1)

# %% [markdown]
# The empty scan becomes a row of zeros, as it would with $\sigma+\epsilon$. What tells the two apart?
#
# **Predict 3.3:** $\sigma = 0.001$ and $\epsilon = 10^{-5}$. How do the two outputs compare?
# - [ ] they agree within 1 % :: Added to sigma, epsilon is a hundredth of it. Under the root it meets the variance, which is 1e-6.
# - [x] one is more than three times the other :: Under the root epsilon is ten times the variance: sigma / sqrt(1.1e-5) is 0.30. Added to sigma it changes 1 %.
# - [ ] one is about a hundred times the other :: That ratio is reached near sigma = 2e-5. Compare 1e-6 with 1e-5, and take the root.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(3)
row = torch.randn(512, dtype=torch.float64, generator=g)  # (D,)
row = (row - row.mean()) / row.std(correction=0)  # (D,) sigma is 1

# %%
tiny = 1e-3 * row  # (D,) a row of 512 numbers, sigma is 0.001
added = (tiny - tiny.mean()) / (tiny.std(correction=0) + 1e-5)  # (D,)
under = F.layer_norm(tiny, (512,))  # (D,)
ratio = added.std(correction=0) / under.std(correction=0)
show("added to sigma / under the root", ratio, digits=2)

# %% tags=["hide-input"]
# sqrt(v + eps) / (sigma + eps) at sigma = 1e-3 is 3.28, whatever the row
assert abs(ratio - 3.28) < 0.01
sigmas = torch.logspace(-5, 0, 60, dtype=torch.float64)  # (60,)
inside = [F.layer_norm(s * row, (512,)).std(correction=0) for s in sigmas]
outside = [(s * row / (s + 1e-5)).std(correction=0) for s in sigmas]

# %% tags=["hide-input"]
plot.lines(
    sigmas,
    {"added to σ": outside, "under the root": inside},
    xlog=True,
    colors={"under the root": "LayerNorm"},
    title="Below σ = 0.03 the two formulas part",
    x="σ of the row",
    y="σ of the output",
    caption="One row of 512 numbers in float64, stretched to 60 standard deviations; "
    "ε = 1e-5 in both formulas.",
    alt="Two rising curves: the output's standard deviation, from 0 to 1, over the row's, "
    "from 1e-5 to 1 on a logarithmic axis. Both are 1 from 0.1 on. Under the root it falls to "
    "0.71 at 0.003 and to 0.003 at 1e-5; added to sigma it is still one half at 1e-5.",
)

# %% [markdown]
# Added to $\sigma$, an $\epsilon$ of $10^{-5}$ is a threshold for the standard deviation. Under the root it is a threshold for the **variance**, that is $\sqrt{10^{-5}} \approx 0.003$ for $\sigma$. PyTorch, Keras, Flax and BERT have it there.
# So a test of a LayerNorm needs a row of **small numbers**.

# %% tags=["hide-input"]
zeros, small = torch.zeros(2, 3, 2, 4), 1e-3 * torch.tensor([[0.0, 1.0, 2.0, 3.0]])
assert standardized(zeros).shape == zeros.shape and standardized(zeros).isnan().all()
assert (standardized(small) - F.layer_norm(small, (4,))).abs().max() > 0.5  # 1.34 and 0.45

# %% [markdown]
# ## 3.3 What epsilon does to values, and to gradients
#
# What does the remedy cost? **Values** first. With $v = \sigma^2$, dividing by $\sqrt{v+\epsilon}$ gives the output the variance $v/(v+\epsilon)$: below 1 for every $\epsilon > 0$, one half where $v = \epsilon$, 0 for a constant row.

# %%
for s in (1.0, 0.1, 0.01, 0.001):
    v_out = F.layer_norm(s * row, (512,)).var(correction=0)
    show(f"sigma {s}: variance of the output", v_out)

# %% tags=["hide-input"]
for s in (1.0, 0.1, 0.01, 0.001):
    v_out = F.layer_norm(s * row, (512,)).var(correction=0)
    assert abs(v_out - s**2 / (s**2 + 1e-5)) < 1e-9  # float64

# %% [markdown]
# In [lesson 1](01_why_normalize.ipynb) a signal went through fifty layers with LayerNorm before each ReLU, and kept its size for every weight scale from 0.5 to 3.
#
# **Predict 3.4:** what arrives at a weight scale of 0.001, with PyTorch's $\epsilon$?
# - [ ] a signal of the usual size :: LayerNorm takes the scale out where the variance is far above epsilon. Here the variance is 1e-6 in the first layer already.
# - [ ] about a third of it :: LayerNorm leaves that in the first layer. The next layer starts from there.
# - [x] next to nothing :: Each layer starts smaller than the one before, and epsilon outweighs the variance more and more.


# %% tags=["hide-input"]
def after_fifty(scale, eps):
    """Send a signal of rms 1 through 50 layers (matrix, LayerNorm, ReLU); return its rms."""
    g = torch.Generator().manual_seed(33)
    h = torch.randn(40, 64, dtype=torch.float64, generator=g)  # (B, D)
    for _ in range(50):
        W = scale * torch.randn(64, 64, dtype=torch.float64, generator=g) / 8  # (D, D)
        h = torch.relu(F.layer_norm(h @ W, (64,), eps=eps))  # (B, D)
    return h.square().mean().sqrt().item()


# %%
for scale in (1.0, 0.01, 0.003, 0.001):
    a, b = after_fifty(scale, 1e-5), after_fifty(scale, 1e-12)
    print(f"weight scale {scale:5}: rms {a:.0e} at eps 1e-5, {b:.1f} at eps 1e-12")

# %% tags=["hide-input"]
# 64 draws: 0.66 to 0.78 at scale 1, 1.7e-10 to 1.7e-9 at 0.003, 4e-34 to 4e-33 at 0.001
assert 0.6 < after_fifty(1.0, 1e-5) < 0.85 and 0.6 < after_fifty(0.001, 1e-12) < 0.85
assert 1e-11 < after_fifty(0.003, 1e-5) < 2e-8 and after_fifty(0.001, 1e-5) < 1e-31

# %% [markdown]
# A matrix of weight scale $g$ makes a signal of rms $s$ a row with $\sigma \approx gs$. While that is small, LayerNorm divides it by about $\sqrt\epsilon$, and ReLU by $\sqrt2$: a factor $g/\sqrt{2\epsilon}$ a layer. Below about $g = \sqrt{2\epsilon} = 0.0045$ the signal dies. So the promise of lesson 1 has a lower end, which $\epsilon$ sets.
#
# Does a *smaller* $\epsilon$ allow larger values? Only up to a bound. With $v > 0$ and any $\epsilon \ge 0$,
#
# $$|y_i| \le \sqrt{D-1}.$$
#
# The entries of a normalized row sum to 0, and their squares to at most $D$. If one entry is $a$, the other $D-1$ sum to $-a$, so their squares sum to at least $a^2/(D-1)$. Hence $a^2 + a^2/(D-1) \le D$, which is $a^2 \le D-1$. (Rounding can exceed that: the 2 of the almost constant row should be $\sqrt3$, but its mean was rounded.)
#
# **Gradients** have a different bound, and $\epsilon$ is in it. The *Jacobian* is the $D \times D$ matrix of all derivatives $\partial y_i/\partial x_j$.
# Its *spectral norm* is the largest factor by which a small change can grow on its way through the layer, and a gradient on its way back. We call it the largest slope:
#
# $$\left\| \frac{\partial y}{\partial x} \right\| = \frac{1}{\sqrt{v+\epsilon}} \le \frac{1}{\sqrt\epsilon}$$
#
# for at least three features ([lesson 7](07_backward.ipynb) proves it; here we measure it).
#
# **Predict 3.5:** the largest slope at a constant row, for PyTorch's $\epsilon = 10^{-5}$ and for BERT's $10^{-12}$?
# - [ ] 0 and 0 :: The output of a constant row is 0, but a small change of one entry is divided by the root of epsilon.
# - [x] 316 and a million :: At v = 0 the bound is reached: 1 / sqrt(1e-5) and 1 / sqrt(1e-12).
# - [ ] $10^5$ and $10^{12}$ :: That is 1 / eps. Epsilon is under a root.


# %% tags=["hide-input"]
def slope(layer, x):
    """Return the spectral norm of layer's Jacobian at the row x (D,)."""
    J = torch.autograd.functional.jacobian(layer, x)  # (D, D)
    return torch.linalg.matrix_norm(J, 2).item()


# %%
for s, eps in [(1.0, 1e-5), (0.01, 1e-5), (0.0, 1e-5), (0.0, 1e-12)]:
    found = slope(lambda x, eps=eps: F.layer_norm(x, (512,), eps=eps), s * row)
    show(f"sigma {s}, eps {eps:.0e}: largest slope", found, digits=0)

# %% tags=["hide-input"]
for s, eps in [(1.0, 1e-5), (0.01, 1e-5), (0.0, 1e-5), (0.0, 1e-12)]:
    found = slope(lambda x, eps=eps: F.layer_norm(x, (512,), eps=eps), s * row)
    assert abs(found * (s**2 + eps) ** 0.5 - 1) < 1e-6  # 1 / sqrt(v + eps), in float64

# %% [markdown]
# So a nearly constant row can blow its gradient up. And with $\epsilon$ added to $\sigma$?
#
# **Predict 3.6:** a row of zeros goes through `(x - x.mean()) / (x.var(correction=0).sqrt() + 1e-5)`. Output and gradient?
# - [ ] output 0, gradient 0 :: That would be convenient. But the chain rule passes through the root at 0, where its slope is infinite.
# - [ ] nan and nan :: The output is 0 divided by 1e-5, which is 0.
# - [x] output 0, gradient nan :: The root has an infinite slope at 0, and infinity times 0 is nan.

# %%
zero = torch.zeros(8, dtype=torch.float64, requires_grad=True)  # (D,)
y = (zero - zero.mean()) / (zero.var(correction=0).sqrt() + 1e-5)  # (D,)
y[0].backward()
show("output  ", y[0])
show("gradient", zero.grad[0])

# %% [markdown]
# So the output is right and the gradient is lost. (With `x.std(correction=0)` the largest slope is $1/\epsilon = 100{,}000$, because PyTorch gives `std` the slope 0 there.) Under the root, $\epsilon$ makes small rows smaller and bounds the slope by $1/\sqrt\epsilon$; the values have a bound without it.
#
# ## 3.4 Which epsilon travels with which weights
#
# Does it matter which small number $\epsilon$ is?
#
# | where | default $\epsilon$ |
# |---|---|
# | Keras `LayerNormalization` | 1e-3 |
# | PyTorch `nn.LayerNorm` | 1e-5 |
# | Flax `LayerNorm`; timm's `VisionTransformer` | 1e-6 |
# | BERT (Hugging Face: `layer_norm_eps`) | 1e-12 |
#
# Weights trained with one load into a layer with a different one: all shapes fit.
#
# **Predict 3.7:** for which rows is the result wrong?
# - [x] for those whose variance is not far above the larger of the two :: There v / (v + eps) differs visibly; for all others both fractions are nearly 1.
# - [ ] for all rows, by one factor :: The factor depends on the variance of the row, so no weight can absorb it.
# - [ ] for none: both numbers are tiny :: Tiny next to a variance of 1. A row with sigma = 0.001 has a variance of 1e-6.

# %%
for name, eps in {"Keras 1e-3": 1e-3, "Flax 1e-6": 1e-6, "BERT 1e-12": 1e-12}.items():
    sizes = [
        F.layer_norm(s * row, (512,), eps=eps).std() / F.layer_norm(s * row, (512,)).std()
        for s in (1.0, 0.03, 0.001)
    ]
    show(f"{name:10} / PyTorch at sigma 1, 0.03, 0.001", torch.stack(sizes))

# %% [markdown]
# At $\sigma = 1$ the choice hardly shows; at 0.001 it is a factor of 3.3 up or 9.5 down. Rows of small numbers exist: before training, the first LayerNorm of Hugging Face's BERT sees the sum of three embeddings drawn with $\sigma = 0.02$. With $\sigma \approx 0.035$ a row comes out as 1.00 under BERT's own $\epsilon$ and as 0.74 under Keras' default.
#
# **Move** the slider and watch five rows. (It needs a running kernel.)

# %% tags=["hide-input"]
slider = widgets.FloatLogSlider(
    value=1e-5,
    min=-12,
    max=-1,
    step=1,
    description="epsilon",
    readout_format=".0e",
    layout=widgets.Layout(width="70%"),
)
table = widgets.HTML()


def redraw(change=None):
    """Fill the table: a bar for the deviation of each output, and the largest slope."""
    lines = "<tr><th>σ of the row</th><th>largest slope</th><th>σ of the output</th></tr>"
    for s in (1.0, 0.1, 0.01, 0.001, 0.0001):
        out = F.layer_norm(s * row, (512,), eps=slider.value).std(correction=0).item()
        style = f"background:#0072B2;color:white;width:{35 + 350 * out:.0f}px"
        bar = f'<div style="{style}">&nbsp;{out:.3f}</div>'
        steepest = (s**2 + slider.value) ** -0.5
        lines += f"<tr><td>{s:g}</td><td>{steepest:,.0f}</td><td>{bar}</td></tr>"
    table.value = f"<table>{lines}</table>"


slider.observe(redraw, "value")
redraw()
widgets.VBox([slider, table])

# %% tags=["hide-input"]
defaults = {
    "BERT, 1e-12": 1e-12,
    "Flax, timm, 1e-6": 1e-6,
    "PyTorch, 1e-5": 1e-5,
    "Keras, 1e-3": 1e-3,
}
curves = {
    name: [F.layer_norm(s * row, (512,), eps=eps).std(correction=0) for s in sigmas]
    for name, eps in defaults.items()
}

# %% tags=["hide-input"]
plot.lines(
    sigmas,
    curves,
    xlog=True,
    colors={"PyTorch, 1e-5": "LayerNorm"},
    vref={"σ = 0.035": 0.02 * 3**0.5},
    title="The larger epsilon is, the larger σ must be for a row to come out near σ = 1",
    x="σ of the row",
    y="σ of the output",
    caption="The row of the last figure under four defaults. A row comes out with 0.71 where "
    "its variance equals ε. Dashed: rows that enter BERT's first LayerNorm before training.",
    alt="Four rising curves from 0 to 1 over the standard deviation of the row, from 1e-5 to 1 "
    "on a logarithmic axis. With 1e-12 every row comes out near 1; with 1e-6, 1e-5 and 1e-3 "
    "rows fade out below 0.001, 0.003 and 0.03.",
)

# %% [markdown]
# So $\epsilon$ belongs to the weights. If nobody wrote it down, the layer can tell you.


# %% tags=["exercise"] id="ex-3-2"
# Exercise 3.2 · ●●●○○ · 5 min
def find_eps(layer):
    """Find out which eps a LayerNorm uses, by feeding it a row and looking at what comes out.

    layer: a function of a (..., D) tensor that returns (x - mean) / sqrt(var + eps), with the
        biased variance of the last axis, in x's dtype. It has no attribute to read.
    Returns eps as a number, from 1e-12 to 1e-3; one percent of error is fine.
    """
    ### BEGIN SOLUTION
    x = 1e-8 * torch.tensor([[-3.0, -1.0, 1.0, 3.0]], dtype=torch.float64)  # (1, D)
    v = x.var(correction=0)  # 5e-16: even 1e-12 outweighs it
    return (v / layer(x).var(correction=0) - v).item()  # the output has variance v / (v + eps)
    ### END SOLUTION


# %% tags=["check"]
check.find_eps(find_eps)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Which rows show $\epsilon$, and which hide it? Solve $v_\text{out} = v/(v+\epsilon)$ for $\epsilon$.
# For the smallest $\epsilon$ the row must be very small, and float64 holds more digits than float32.
#
# </details>
#
# ## 3.5 Half precision
#
# What becomes of $\epsilon$, of a mean and of a variance in 16 bits?

# %%
for kind in (torch.float16, torch.bfloat16, torch.float32):
    info = torch.finfo(kind)
    kept = " ".join(f"{torch.tensor(e, dtype=kind).item():.0e}" for e in (1e-5, 1e-8, 1e-12))
    print(
        f"{str(kind)[6:]:8}  largest {info.max:.0e}  next after 1: 1 + {info.eps:.0e}", end="  "
    )
    print("1e-5, 1e-8, 1e-12 become", kept)

# %% [markdown]
# - **float16** has three digits and a short range: its largest number is 65,504, its smallest above 0 is $6\cdot10^{-8}$, and what is at most half of that becomes 0. There, an $\epsilon$ of $10^{-8}$ is **no epsilon**.
# - **bfloat16** has the range of float32, but hardly more than two digits.
#
# **Predict 3.8:** 768 ones are added one after the other in bfloat16. What is the sum?
# - [ ] 768 :: Only up to 256: from there bfloat16 moves in steps of 2.
# - [x] 256 :: The next bfloat16 after 256 is 258. 257 lies in the middle, and such a tie goes to the even neighbour, here 256, every time.
# - [ ] inf :: bfloat16 reaches as far as float32. It is digits that it lacks.

# %%
total = torch.zeros((), dtype=torch.bfloat16)
for _ in range(768):
    total = total + 1
show("768 ones, added one by one in bfloat16", total)
show("the same by torch.sum", torch.ones(768, dtype=torch.bfloat16).sum())
quarters = (50 + 0.25 * torch.arange(16)).bfloat16()  # (D,) 50, 50.25, ..., 53.75: all exact
show("the mean of the quarters, which is 51.875", quarters.mean(), digits=3)
show("256 squared in float16", torch.tensor(256.0, dtype=torch.float16) ** 2)

# %% [markdown]
# `torch.sum` keeps its running total in float32. But even a mean that is computed well may be impossible to **write down**: near 52, bfloat16 moves in steps of 0.25. In float16 the squares overflow, from 256 on.
# So the rule for both formats is: **compute the statistics in float32, and round once, at the end.** In the forward pass `F.layer_norm` does so.

# %% tags=["hide-input"]
exact, inside = F.layer_norm(quarters.double(), (16,)), F.layer_norm(quarters, (16,))
# half a step of bfloat16 between 1 and 2: one rounding, of the result
assert (inside - exact).abs().max() <= 2**-8

# %% [markdown]
# ## 3.6 A variance that survives an offset
#
# Is float32 safe, then? Its seven digits are plenty, unless two large, nearly equal and *rounded* numbers are subtracted.
# The identity $\sigma^2 = \operatorname{E}[x^2] - \operatorname{E}[x]^2$, where $\operatorname{E}$ is the mean over the row, does just that. It is tempting because it takes **one pass** over the row where the formula of lesson 2 takes two. Flax uses it by default (`use_fast_variance`).
#
# **Predict 3.9:** the variance of 0, 1, 2, 3 is 1.25, and adding 8,192 to all four does not change it. What does the one-pass formula say in float32?
# - [ ] 1.25 :: The four numbers are exact in float32. Their squares, near 6.7e7, are not: float32 moves in steps of 8 there.
# - [ ] about 1.2 :: float32 keeps 7 digits, and both terms are near 6.7e7. No digit after the decimal point is left.
# - [x] a multiple of 8 :: Both terms are near 6.7e7, where float32 moves in steps of 8, and so does their difference. Here it is 0.


# %%
def one_pass(x):
    """E[x^2] - E[x]^2 over the last axis: (..., D) -> (..., 1)."""
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


for k in (0, 1024, 2048, 4096, 8192):
    shifted = torch.tensor([0.0, 1.0, 2.0, 3.0]) + k  # (D,) exact in float32
    two_passes = mean_and_var(shifted)[1].item()
    print(f"{k:4} + [0, 1, 2, 3]: one pass {one_pass(shifted).item():.2f}", end="")
    print(f", two passes {two_passes:.2f}")

# %% [markdown]
# One pass is not to blame; squaring large numbers is. A program can read a row piece by piece, take two passes over each piece, and **merge** the statistics. How do two variances merge?


# %% tags=["exercise"] id="ex-3-3"
# Exercise 3.3 · ●●●○○ · 6 min
def merge(n, mean_a, var_a, m, mean_b, var_b):
    """Merge the statistics of two parts of a row into those of the whole row.

    n, m: how many numbers the parts have (whole numbers, at least 1; they may differ).
    mean_a, mean_b, var_a, var_b: their means and biased variances, float32 or float64 tensors
        of one shape and dtype.
    Returns (mean, var) of all n + m numbers, in that shape and dtype; the variance is biased.
    Means far from 0 cost no digits beyond their own rounding; gradients flow, second ones too.
    """
    ### BEGIN SOLUTION
    delta = mean_b - mean_a
    mean = mean_a + delta * m / (n + m)
    var = (n * var_a + m * var_b) / (n + m) + delta**2 * n * m / (n + m) ** 2
    return mean, var
    ### END SOLUTION


# %% tags=["check"]
check.merge(merge)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Try two parts of one number each, 0 and 2: both variances are 0, and that of the whole is 1. So the distance between the means counts.
# Part a has the mean squared distance $\text{var}_a + (\text{mean}_a - \text{mean})^2$ from the mean of the whole. And how far are the two means from it? By $m/(n+m)$ and $n/(n+m)$ of their distance.
#
# </details>

# %% tags=["nbval-ignore-output"]
x = torch.randn(64, 768, generator=torch.Generator().manual_seed(36)) + 1e4  # (B, D) float32
exact = mean_and_var(x.double())[1]  # (B, 1)
mean, var = mean_and_var(x[:, :64])  # (B, 1) each, of the first piece
for start in range(64, 768, 64):
    mean, var = merge(start, mean, var, 64, *mean_and_var(x[:, start : start + 64]))
error = ((var - exact).abs() / exact).max().item()
print(f"largest relative error of your merge {error:.0e}", end="; ")
print(f"E[x^2] - E[x]^2 is negative in {(one_pass(x) < 0).double().mean().item():.0%}")

# %% [markdown]
# The one-pass formula gives a fifth to a half of such rows a *negative* variance (24 sets of 256 rows), whose root is `nan`. Merging never does. With pieces of one number it is **Welford's** algorithm (1962).
#
# So a variance survives an offset if the numbers are made small *before* they are squared.
#
# ## 3.7 Clinic: it was fine in float32
#
# A model with this layer worked well in float32. In float16 there are three complaints: some rows come out as `nan`, some hold `inf`, and some are all zeros though their numbers differ.


# %%
def clinic_norm(x, eps=1e-8):
    """The patient: (..., D) -> (..., D)."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    var = x.var(-1, correction=0, keepdim=True)  # (..., 1)
    return (x - mean) / torch.sqrt(var + eps)


# %% [markdown]
# Diagnose first: produce the complaints.

# %% tags=["exercise"] id="ex-3-4"
# Exercise 3.4 · ●●●○○ · 4 min
# breaking_rows = {"nan": [...], "inf": [...], "zeros": [...]}, four numbers or more in each.
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
# **Predict 3.10:** what does `eps=1e-5` do for three such rows in float16?
# - [ ] it heals all three :: 1e-5 is a float16 number, but the variance of the third row is inf with any epsilon.
# - [x] it stops nan and inf, but only the first row becomes right :: The row of small numbers comes out finite but too small, because the weights were trained with 1e-8; the third stays at zeros.
# - [ ] it changes the row of nan only :: The row with inf has variance 0 in float16, and dividing by sqrt(0 + 1e-5) is finite.

# %%
rows = torch.tensor([[5, 5, 5, 5], [-3e-5, -1e-5, 1e-5, 3e-5], [-768, -256, 256, 768]])
show("in float32, eps 1e-8", clinic_norm(rows), digits=2)
show("in float16, eps 1e-5", clinic_norm(rows.half(), eps=1e-5), digits=2)

# %% [markdown]
# A larger $\epsilon$ changes the function that the weights were trained with. Find a cure that changes only the rounding.


# %% tags=["exercise"] id="ex-3-5"
# Exercise 3.5 · ●●●○○ · 4 min
def normalize_half(x, eps=1e-8):
    """Repair clinic_norm for half precision without changing the function that it computes.

    x: (..., D) float16, bfloat16 or float32, below 1e18. eps: that of the weights, 0 as well.
    Returns x's shape and dtype, as exact as a single rounding at the end allows; gradients
    flow through mean and variance.
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

# %%
show("repaired, in float16", normalize_half(rows.half()), digits=2)

# %% [markdown]
# Three causes: $\epsilon$ became 0 where the variance is 0; a small variance *underflowed* to 0; a large one *overflowed* to `inf`. One cure is enough, because float32 holds all these numbers.
#
# ## Take-away
#
# - Under the root, $\epsilon$ gives the output the variance $v/(v+\epsilon)$ and bounds the slope by $1/\sqrt\epsilon$. Values are bounded by $\sqrt{D-1}$ whatever it is. In float16, $10^{-8}$ is 0.
# - At $\epsilon = 10^{-5}$ one row with $\sigma = 0.001$ tells $\sqrt{\sigma^2+\epsilon}$ from $\sigma+\epsilon$: the outputs differ by a factor of 3.3.
# - $\epsilon$ belongs to the weights. To find it, feed a row with $v \ll \epsilon$ and solve $v_\text{out} = v/(v+\epsilon)$.
# - Subtract the mean before you square; in half precision, compute the statistics in float32 and round once.
#
# **Formula card**
#
# $$\mu = \frac1D\sum_i x_i \qquad \sigma^2 = \frac1D\sum_i (x_i-\mu)^2 \qquad \hat x = \frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}$$
#
# New: $\epsilon$, $10^{-5}$ in PyTorch. Next, in [lesson 4](04_affine_and_module.ipynb): gain $\gamma$ and bias $\beta$.
#
# ## Deeper (optional, 8 min)
#
# ### What is saved in half precision
#
# In 2020 PyTorch's own layer returned `nan` for zeros on a GPU in float16, with $\epsilon = 10^{-12}$ ([pytorch#41527](https://github.com/pytorch/pytorch/issues/41527)). In 2022 the speech toolkit WeNet raised every $\epsilon$ to $10^{-5}$ for that ([PR 907](https://github.com/wenet-e2e/wenet/pull/907)).
#
# `F.layer_norm` computes its statistics in float32, but for the backward pass it keeps them in a dtype of its own choice. On a CPU with torch 2.13, bfloat16 rows without weights (or with bfloat16 weights) have a mean and $1/\sigma$ **saved in bfloat16**. With float32 weights they are saved in float32. What does that do to the gradient of 64 rows of 64 numbers around 50?

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(38)
x = (torch.randn(64, 64, generator=g) + 50).bfloat16()  # (B, D)
dy = torch.randn(64, 64, generator=g).bfloat16()  # (B, D)


def row_gradient(x, weight):
    """Return the gradient of sum(dy * layer_norm(x)) in x, as float64: (B, D)."""
    leaf = x.clone().requires_grad_()
    y = F.layer_norm(leaf, (64,), weight)  # (B, D)
    return torch.autograd.grad(y, leaf, dy.to(y.dtype))[0].double()


# %% tags=["nbval-ignore-output"]
exact = row_gradient(x.double(), None)  # (B, D)
off = {
    name: ((row_gradient(x, weight) - exact).norm() / exact.norm()).item()
    for name, weight in {"no weights": None, "float32 weights": torch.ones(64)}.items()
}
for name, error in off.items():
    print(f"{name:15}  the gradient of the rows is off by {error:.1%}")

# %% tags=["hide-input"]
saved = torch.native_layer_norm(x, (64,), None, None, 1e-5)[1:]
assert {s.dtype for s in saved} == {torch.bfloat16}
assert {s.dtype for s in torch.native_layer_norm(x, (64,), torch.ones(64), None, 1e-5)[1:]} == {
    torch.float32
}
# 16 draws: 1.1 to 1.5 % without weights, 0.16 to 0.17 % with float32 weights
assert 0.005 < off["no weights"] < 0.03 and off["float32 weights"] < 0.0025

# %% [markdown]
# With float32 weights (0.16 to 0.17 % over 16 draws) nothing is lost beyond rounding the gradient itself to bfloat16. Without them (1.1 to 1.5 %) the saved mean is off by up to 0.125, an eighth of $\sigma$. Wide rows suffer less: without weights it is about 3 % at $D = 16$ and 0.3 % at $D = 768$; around 0 instead of 50, both cases are below 0.3 %. (The gradients that arrive were drawn around 0. With a common part of 1 they are off by 7 to 9 % without weights, and by about 4 % at $D = 768$.) The outputs are equally exact in all cases.
#
# ### Autocast
#
# PyTorch's *autocast* chooses a dtype for each operation, so that a model trains in half precision where that is safe. What does it choose for LayerNorm? On a CPU, torch 2.13:

# %%
g = torch.Generator().manual_seed(35)
x, weight = torch.randn(3, 8, generator=g), torch.randn(6, 8, generator=g)  # (B, 8), (6, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = F.linear(x, weight)  # (B, 6)
    after_linear, on_input = F.layer_norm(h, (6,)), F.layer_norm(x, (8,))  # (B, 6), (B, 8)
print("linear:", h.dtype)
print("LayerNorm of that:", after_linear.dtype)
print("LayerNorm of a float32 input:", on_input.dtype)

# %% tags=["hide-input"]
exact = F.layer_norm(h.double(), (6,))  # (B, 6)
# half a step of bfloat16 between 2 and 4: float32 inside
assert (after_linear - exact).abs().max() <= 2**-7

# %% [markdown]
# The CPU's autocast leaves LayerNorm alone: bfloat16 in, bfloat16 out. On CUDA, PyTorch's documentation lists `layer_norm` among the operations that autocast to **float32** (not run here). A LayerNorm written by hand is treated operation by operation, and `mean` is on neither list: a bfloat16 input gives it a mean rounded to bfloat16.
#
# ### Do equal digits prove it?
#
# A layer uses $\epsilon = 10^{-8}$ where PyTorch has $10^{-5}$. Does `torch.allclose` notice, in 1,000 random batches of shape (2, 3, 4)? And how often does it reject a layer with the right $\epsilon$?

# %% tags=["nbval-ignore-output"]
x = torch.randn(1000, 2, 3, 4, generator=torch.Generator().manual_seed(34))  # (N, B, T, C)
mean, var = mean_and_var(x)  # (N, B, T, 1) each
theirs = F.layer_norm(x, (4,))  # (N, B, T, C)
agree = {}
for eps in (1e-8, 1e-5):
    ours = (x - mean) / torch.sqrt(var + eps)  # (N, B, T, C)
    agree[eps] = torch.isclose(ours, theirs).flatten(1).all(1).double().mean().item()
    worst = (ours - theirs).abs().max().item()
    print(f"eps {eps:.0e}: allclose says yes in {agree[eps]:.1%}, worst difference {worst:.1e}")

# %% tags=["hide-input"]
# 2.5 to 4 % and 96 to 98 % over five seeds
assert 0.005 < agree[1e-8] < 0.10 and 0.90 < agree[1e-5] < 0.995

# %% [markdown]
# `allclose` accepts the wrong $\epsilon$ now and then, and now and then it rejects the right one, which differs by rounding only:
# its default tolerance for a number near 0 is $10^{-8}$, less than float32 can promise.
# Compare with a float64 result, allow a few $10^{-6}$ (for float32 and numbers of order 1), and feed a row of small numbers.
# A shape tells still less: [labml's annotated LayerNorm](https://nn.labml.ai/normalization/layer_norm/index.html) is tested by the shape of its output for zeros, and rows of nothing but `nan` pass that as well.
#
# ### Welford or two passes?
#
# Welford's algorithm merges one number at a time, and it is known as the stable way to a variance. Is it?


# %% tags=["hide-input"]
def welford(x):
    """Merge the row entry by entry: (..., D) -> the biased variance (..., 1)."""
    mean = torch.zeros_like(x[..., :1])  # (..., 1)
    m2 = torch.zeros_like(mean)  # (..., 1) the sum of the squared distances
    for n, entry in enumerate(x.split(1, -1), 1):
        delta = entry - mean  # from the old mean
        mean = mean + delta / n
        m2 = m2 + delta * (entry - mean)  # times the distance from the new mean
    return m2 / x.shape[-1]


# %% [markdown]
# **Predict 3.11:** rows of 768 numbers in float32, $\sigma = 1$, a mean of 10,000. Which is more exact, Welford or two passes?
# - [ ] Welford :: Neither of them subtracts large squares, and Welford rounds its mean 768 times.
# - [ ] neither :: Both have a mean that is off by rounding. It matters how that error enters.
# - [x] two passes, and by far :: All distances are taken from one mean, whose error enters squared. Welford's 768 means are all off by different amounts.

# %% tags=["hide-input"]
ways = {
    "E[x²] − E[x]²": one_pass,
    "Welford": welford,
    # from the 1 / sigma that its kernel returns, at eps = 0
    "F.layer_norm": lambda x: (
        torch.native_layer_norm(x, (768,), None, None, 0.0)[2].double() ** -2
    ),
    "two passes": lambda x: mean_and_var(x)[1],
}
offsets, seeds = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5], range(5)


def worst_errors(offset, seed):
    """Return the largest relative error of each way over 64 float32 rows.

    A row has 768 numbers, sigma 1, around offset.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 768, generator=g) + offset  # (64, 768)
    exact = mean_and_var(x.double())[1]  # (64, 1) of the rounded rows
    return [((way(x) - exact).abs() / exact).max().item() for way in ways.values()]


# %% tags=["nbval-ignore-output"]
errors = torch.tensor(
    [[worst_errors(offset, seed) for offset in offsets] for seed in seeds]
)  # (seeds, offsets, ways)
for name, error in zip(ways, errors[:, offsets.index(1e4)].mean(0).tolist(), strict=True):
    print(f"{name:14} relative error at a mean of 10,000: {error:.0e}")

# %% tags=["hide-input"]
one, chain, torchs, two = errors[:, 4].unbind(-1)  # (seeds,) each, at a mean of 10,000
# Over 24 seeds: one pass 23 to 40, Welford 4e-4 to 1.4e-3, PyTorch 1.4e-4 to 3e-4,
# two passes 1e-6 to 4e-6.
assert (one > 5).all()  # more than the variance itself
assert (two < 1e-5).all() and (chain > 50 * two).all()
assert (torchs < chain).all() and (torchs > two).all()
many = torch.randn(256, 768, generator=torch.Generator().manual_seed(36)) + 1e4  # (256, 768)
# 23 to 52 % of the rows over 24 seeds
assert 0.1 < (one_pass(many) < 0).double().mean() < 0.6
assert (welford(many) > 0).all() and (mean_and_var(many)[1] > 0).all()

# %% tags=["hide-input"]
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
    alt="Four lines on logarithmic axes that rise with the rows' mean, from 1 to 100,000. "
    "At 10,000 the one-pass formula is wrong by 30 times the variance, Welford by one in a "
    "thousand, PyTorch's layer norm by two in ten thousand and two passes by two in a million.",
)

# %% [markdown]
# Both have a mean that is off by rounding. But if *all* distances are taken from one mean that is off by $e$, the result is off by $e^2$ only:
#
# $$\frac1D\sum_i (x_i - \mu - e)^2 = \sigma^2 + e^2$$
#
# Welford rounds a new mean at every entry, near $10^4$ to multiples of 0.001, and these errors enter as they are. `F.layer_norm` merges pieces, so that fewer means are rounded; at $D = 16$ that hardly helps (8e-4 against 1e-3, four seeds). (Try: subtract `centered.mean(-1, keepdim=True) ** 2` from the result of two passes. Two passes use PyTorch's `mean` here, which adds in a tree; with a mean from a plain loop they are off by 1e-4.)
#
# ### What PyTorch's variance did, and does
#
# Until 2021 PyTorch's LayerNorm used the one-pass formula: [pytorch#51102](https://github.com/pytorch/pytorch/issues/51102) reports output variances between 0.05 and 48,426 for rows around 2,000, where 1 is right.
# Since then its CPU kernel merges short pieces pairwise: the blue curve above. `x.var` goes further; on a CPU its Welford runs in float64 for float32 rows, so that only the result is rounded.

# %% tags=["hide-input"]
x = torch.randn(64, 768, generator=torch.Generator().manual_seed(37)) + 1e5  # (B, D)
exact = mean_and_var(x.double())[1]  # (B, 1)
own = x.var(-1, correction=0, keepdim=True)  # (B, 1)
assert ((own - exact).abs() / exact).max() < 1.2e-7  # one rounding, of the result
assert ((welford(x) - exact).abs() / exact).max() > 1e-3  # 5e-3 to 2e-2 over 24 seeds

# %% [markdown]
# ## On your own
#
# 1. A row of ten times 0.1 is constant, but 0.1 is not exact in float32. What does your `normalize` make of it, with $\epsilon$ and without?
# 2. Weights trained with $\epsilon = 10^{-12}$ are loaded with $10^{-5}$. Could other gains make up for it?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3: no $\epsilon$.
# - Chan, Golub & LeVeque (1983), *Algorithms for Computing the Sample Variance*, The American Statistician 37: one pass, two passes, shifts, merging, and their error bounds.
# - Micikevicius et al. (2018), *Mixed Precision Training*: which arithmetic needs float32.

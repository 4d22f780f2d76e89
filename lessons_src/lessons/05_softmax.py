# %% [markdown]
# # 5 · LayerNorm and softmax: one axis, two promises
#
# A layer turns each sentence into one vector: the average of its tokens, weighted by a softmax of learned scores. The third sentence below is empty, so all of its places are padding, which only fills it up to the common length. We know that, and leave it out of the loss.

# %% tags=["hide-input"]
import math

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)
from lessonkit.mine import normalize  # lesson 3


# %%
def attention_pool(x, query, keep):
    """x: (B, T, C) tokens. query: (C, 1). keep: (B, T), False at padding. Returns (B, C)."""
    scores = (x @ query).masked_fill(~keep[..., None], -math.inf)  # (B, T, 1)
    weights = F.softmax(scores, dim=1)  # (B, T, 1)
    return (weights * x).sum(1)  # (B, C)


# %%
g = torch.Generator().manual_seed(58)
tokens = torch.randn(3, 4, 5, generator=g)  # (B, T, 5)
keep = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)  # (B, T)
W = torch.randn(5, 6, generator=g, requires_grad=True)  # (5, C)
query = (torch.randn(6, 1, generator=g) / 4).requires_grad_()  # (C, 1)
pooled = attention_pool(tokens @ W, query, keep)  # (B, C)
loss = pooled[:2].square().mean()  # without the empty sentence
loss.backward()
show("loss", loss, digits=1)
show("gradient of W, first row", W.grad[0])

# %% [markdown]
# The loss is an ordinary number, but the gradient of every weight in `W` is `nan`, and one optimizer step would destroy the model. PyTorch's own attention module does the same by default ([pytorch#41508](https://github.com/pytorch/pytorch/issues/41508), reported in 2020).
# The clinic at the end heals the layer. Before that you find out what softmax promises, and LayerNorm instead.

# %% tags=["hide-input"]
assert W.grad.isnan().all() and loss.isfinite()

# %% [markdown]
# *About 60 min.* **You'll be able to**
# - write a softmax that never overflows;
# - say what a shift, a factor and a change of sign do to softmax and to LayerNorm;
# - draw where the two send three features;
# - write softmax's Jacobian (all its derivatives), and count the directions that each layer forgets;
# - mask attention so that an empty sentence harms nothing.
#
# **You need** lessons [2](02_statistics.ipynb) (axes), [3](03_epsilon.ipynb) (`normalize`) and [4](04_affine_and_module.ipynb) (gain and bias), and the derivative of the exponential function.
#
# **Recall 5.1:** a new `nn.LayerNorm(32)` gets an input of shape (8, 20, 32). How many numbers can it learn?
# - [ ] 160 :: That is the number of rows. Each row has its own mean, but means are computed and not learned.
# - [x] 64 :: 32 gains and 32 biases, which all rows share.
# - [ ] 10,240 :: That would be a gain and a bias for each number of the batch. They belong to features, so that the batch may have any size.
#
# **Recall 5.2:** a row of ten different numbers is normalized at $\epsilon = 0$. What do the squares of the results sum to?
# - [ ] 1 :: That is their mean square, the variance of the normalized row.
# - [ ] 9 :: That is what comes out if the variance divides by $D - 1$. LayerNorm divides by $D$.
# - [x] 10 :: Their mean square is 1, and there are ten of them: $D$.
#
# **Recall 5.3:** what does LayerNorm with $\epsilon = 10^{-5}$ make of six entries that are all 5?
# - [x] six zeros :: Every entry equals the mean, and 0 is divided by the root of $\epsilon$.
# - [ ] six times nan :: That is 0/0, and $\epsilon$ under the root prevents it.
# - [ ] six ones :: The mean is subtracted, so that nothing of the 5 is left.

# %% [markdown]
# ## 5.1 One axis, two promises
#
# What does each layer promise about the row that it returns? A Transformer uses both, and since both are said to normalize, they are easily confused.
# `normalize` is LayerNorm before gain and bias, as in [lesson 3](03_epsilon.ipynb): yours, if it passed its check there.
#
# **Predict 5.1:** what do the entries of one row sum to?
# - [ ] to 1 after both layers :: Both are said to normalize, but LayerNorm subtracts the mean, so that its entries cancel.
# - [x] to 1 after softmax, to 0 after LayerNorm :: Softmax divides by the sum. LayerNorm subtracts the mean, and deviations from the mean sum to 0.
# - [ ] to 1 after softmax, to $D$ after LayerNorm :: $D$ is the sum of the *squares* of LayerNorm's entries, at $\epsilon = 0$.

# %%
x = torch.tensor([[2.0, -1.0, 0.5, 3.0, 0.0], [0.3, 0.1, 0.2, 0.1, 0.3]])  # (B, D) = (2, 5)
p, y = F.softmax(x, dim=-1), normalize(x)  # (B, D) each
show("softmax", p)
show("LayerNorm", y)
show("row sums of softmax  ", p.sum(-1))
show("row sums of LayerNorm", y.sum(-1))

# %% [markdown]
# Softmax makes **shares**: none is below 0, and they sum to 1. LayerNorm makes **deviations**: they sum to 0, so unless all are 0, they have both signs.
# The second row is nearly constant. Softmax leaves it so, while LayerNorm enlarges its differences until the mean square is close to 1.
#
# | of one row of $D$ entries | softmax | LayerNorm before gain and bias |
# |---|---|---|
# | each entry | between 0 and 1 | between $-\sqrt{D-1}$ and $\sqrt{D-1}$ |
# | sum | 1 | 0 |
# | sum of squares | between $1/D$ and 1 | $D\,\sigma^2/(\sigma^2+\epsilon)$, or $D$ at $\epsilon = 0$ |
#
# LayerNorm's promise holds before gain and bias: with gains that differ, the sum differs from row to row.

# %%
weight = torch.tensor([0.5, 1.0, 2.0, 1.0, 1.5])  # (D,) as training might leave them
bias = torch.tensor([0.1, 0.0, -0.2, 0.3, 0.0])  # (D,)
show("row sums after gain and bias", (y * weight + bias).sum(-1))

# %% [markdown]
# ### Along which axis
#
# Softmax is told the *number* of an axis, and LayerNorm the *size* of the last axes.
#
# **Predict 5.2:** three tokens have the scores 2, 0 and −1, as a tensor of shape (T, 1) = (3, 1). What does `F.softmax(scores, dim=-1)` return?
# - [ ] 0.84, 0.11 and 0.04 :: These are the shares of the three tokens among each other, along axis 0.
# - [ ] three times 1/3 :: Three equal scores along one axis would give that.
# - [x] three ones :: The last axis has one entry, and a share among one is 1, whatever the score.

# %%
scores = torch.tensor([[2.0], [0.0], [-1.0]])  # (T, 1)
show("softmax, dim=-1", F.softmax(scores, dim=-1)[:, 0])
show("softmax, dim=0 ", F.softmax(scores, dim=0)[:, 0])
show("nn.LayerNorm(1)", nn.LayerNorm(1)(scores)[:, 0])

# %% tags=["hide-input"]
try:
    nn.LayerNorm(-1)  # meant: the last axis
except RuntimeError as error:
    print("nn.LayerNorm(-1):", error)

# %% [markdown]
# `nn.LayerNorm(-1)` tries to make a gain of −1 numbers and fails at once. `nn.LayerNorm(1)` means rows of *one* feature, which come out as 0 in float32 and float64, before the bias. Both layers keep their promise, and nothing is left of the scores.
# Softmax raises no error there, and so the attention weights of [R-net](https://github.com/localminimum/R-net/issues/8), [KEQA](https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2) and [Catalyst](https://github.com/catalyst-team/catalyst/issues/285) once were all 1. One line finds it: *do the weights sum to 1 along the axis that you mean?*
#
# So softmax promises shares with sum 1 along an axis, and LayerNorm deviations with sum 0, before gain and bias. ([Deeper](#A-public-notebook,-once-more): a public notebook that compares the two, and a printed digit that depends on rounding.)

# %% [markdown]
# ## 5.2 A softmax that survives
#
# What if the exponentials do not fit into a number?
#
# $$p_i = \frac{e^{x_i}}{\sum_k e^{x_k}}$$

# %%
row = torch.tensor([0.0, 50.0, 100.0])  # (D,)
show("as the formula says", row.exp() / row.exp().sum())
torch.tensor([88.0, 89.0]).exp()

# %% [markdown]
# In float32 $e^{89}$ is infinite (in float16 $e^{12}$ is), and $\infty/\infty$ is `nan`.
#
# A property of softmax is the way out. Add a number $c$ to all entries of a row: every $e^{x_i}$ is multiplied by $e^c$, and so is their sum, and the two cancel.
# **Softmax does not see a shift**, so we may first subtract from a row whatever we like.
#
# **Predict 5.3:** what is safe to subtract, for every row of finite numbers?
# - [ ] its mean :: The largest entry can still lie 160 above the mean, and $e^{160}$ is infinite in float32.
# - [ ] its smallest entry :: Then no exponent is negative, and the large ones overflow even sooner.
# - [x] its largest entry :: Then the largest exponent is 0, and no exponential exceeds 1.

# %%
row = torch.tensor([0.0, -1.0, 0.5, 1.0, 200.0])  # (D,)
for name, c in {"mean": row.mean(), "smallest": row.min(), "largest": row.max()}.items():
    show(f"minus its {name:8}: sum of the exponentials", torch.exp(row - c).sum())

# %% [markdown]
# With the largest entry subtracted, all exponentials lie between 0 and 1, and one of them *is* 1. Their sum lies between 1 and $D$, so neither $\infty/\infty$ nor 0/0 can occur.
# It has to be the largest entry **of each row**: if the whole batch shares one maximum, a float32 row that lies 200 below it becomes 0/0.


# %% tags=["exercise"] id="ex-5-1"
# Exercise 5.1 · ●●○○○ · 5 min
def softmax(x):
    """Softmax over the last axis of x, for entries of any size.

    x: (..., D) float tensor; an entry of -inf gets the share 0 (no row is all -inf here).
    Returns a tensor of x's shape and dtype: entries from 0 to 1, each row sums to 1.
    Gradients flow. Shares are as exact around 1,000 as around 0. Write it without F.softmax.
    """
    ### BEGIN SOLUTION
    largest = x.amax(-1, keepdim=True)  # (..., 1)
    e = torch.exp(x - largest)  # (..., D)
    return e / e.sum(-1, keepdim=True)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.softmax(softmax)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Three lines: the largest entry of each row, the exponentials of what is left, divide by their sum.
# Both reductions need `keepdim=True`, for the reason of lesson 2.
# `x.amax(-1, …)` returns the largest entries. `x.max(-1, …)` returns a pair: the entries, which are its `.values`, and their places.
#
# </details>
#
# A classifier's loss needs $\log p_i$, and the logarithm of a share that was rounded to 0 is $-\infty$. On paper $\log p_i = x_i - \log \sum_k e^{x_k}$, and `logsumexp` subtracts the largest entry inside. `F.log_softmax` computes the same.

# %%
show("log of softmax", F.softmax(row, -1).log())
show("log-softmax   ", row - row.logsumexp(-1, keepdim=True))

# %% tags=["hide-input"]
# float32 numbers near 200 lie 1.5e-5 apart
log_p = row - row.logsumexp(-1, keepdim=True)
assert (log_p - F.log_softmax(row, -1)).abs().max() < 5e-5

# %% [markdown]
# So softmax survives every finite row if the row's largest entry is subtracted first, a shift that it does not see.

# %% [markdown]
# ## 5.3 What each of them cannot see
#
# Which changes of the input leave the output as it is? In this section rows have three or more entries, not all equal, and LN is LayerNorm before gain and bias, at $\epsilon = 0$.

# %% tags=["exercise"] id="ex-5-2"
# Exercise 5.2 · ●●○○○ · 4 min
# What does each change of x do to the output? Predict, before you run anything: "same",
# "negated" (every entry changes its sign), or "changed" (something else, for most rows of
# three or more entries). A dictionary with eight keys: "softmax(x + 3)", "softmax(2 * x)",
# "softmax(-x)", "LN(x + 3)", "LN(2 * x)", "LN(-x)", "softmax(LN(2 * x))" (LN first, then
# softmax) and "LN(softmax(2 * x))" (softmax first).
### BEGIN SOLUTION
shift_and_scale = {
    "softmax(x + 3)": "same",
    "softmax(2 * x)": "changed",
    "softmax(-x)": "changed",
    "LN(x + 3)": "same",
    "LN(2 * x)": "same",
    "LN(-x)": "negated",
    "softmax(LN(2 * x))": "same",
    "LN(softmax(2 * x))": "changed",
}
### END SOLUTION

# %% tags=["check"]
check.shift_and_scale(shift_and_scale)

# %% [markdown]
# <details><summary>Hint</summary>
#
# For each: what happens to the $e^{x_i}$, or to the mean and the standard deviation? In the last two, start with the inner one.
#
# </details>
#
# Now let the machine say it, on thirty random rows.

# %% tags=["hide-input"]
functions = {"softmax": lambda x: F.softmax(x, -1), "LN": lambda x: normalize(x, eps=0.0)}
changes = {"x + 3": lambda x: x + 3, "2 * x": lambda x: 2 * x, "-x": lambda x: -x}
g = torch.Generator().manual_seed(53)
rows = torch.randn(30, 5, dtype=torch.float64, generator=g)  # (30, D)
for f_name, f in functions.items():
    for c_name, change in changes.items():
        before, after = f(rows), f(change(rows))  # (30, D) each
        same, negated = ((after - s * before).abs().max() < 1e-12 for s in (1, -1))
        print(f"{f_name}({c_name}):", "same" if same else "negated" if negated else "changed")

# %% [markdown]
# - **Shift.** Neither sees it, apart from the rounding of $x + c$; for LayerNorm that holds at any $\epsilon$.
# - **Sign.** LayerNorm is *odd*, LN(−x) = −LN(x), at any $\epsilon$, because $\sigma$ is never negative.
# - **Scale.** LayerNorm does not see a positive factor, because $x - \mu$ and $\sigma$ grow alike. Softmax does see it.
#
# Only the scale needs $\epsilon = 0$. At $\epsilon > 0$ LayerNorm hardly sees it where the variance is far above $\epsilon$. For a row of variance 0.08:

# %% tags=["hide-input"]
small = torch.tensor([0.2, 0.5, 0.1, 0.9, 0.4], dtype=torch.float64)  # (D,)
for eps in (0.0, 1e-5, 1e-3):
    moved = (normalize(2 * small, eps) - normalize(small, eps)).abs().max()
    show(f"eps = {eps:<5}: largest difference of LN(2x) and LN(x)", moved, digits=5)

# %% [markdown]
# ### Temperature
#
# In $\text{softmax}(x/T)$ the number $T > 0$ (no count of tokens here) is called the **temperature**, so the factor is $a = 1/T$.
#
# **Predict 5.4:** where does softmax(a·x) go for a very large factor, and where for a very small one?
# - [ ] large: equal shares; small: all to the largest entry :: It is the other way round: a large factor makes the differences between the exponents large.
# - [x] large: all to the largest entry; small: equal shares :: The ratio of two shares is $e^{a(x_1 - x_2)}$, which grows without bound with $a$ and is 1 at $a = 0$.
# - [ ] nowhere, the shares stay :: That is LayerNorm, at $\epsilon = 0$. Softmax sees a factor.

# %% tags=["hide-input"]
row = torch.tensor([1.0, 2.0, 3.5, 4.0], dtype=torch.float64)  # (D,)
a = torch.logspace(-4, 2, 121, dtype=torch.float64)[:, None]  # (121, 1)
shades = {
    "share of": ["#C7A9B4", "#A37486", "#7A3350", "#550022"],  # softmax's color, light to dark
    "normalized": ["#A6CBE2", "#66A6CE", "#2F86BC", "#005A8E"],  # LayerNorm's
}
curves = {
    "softmax(a x)": ("share of", F.softmax(a * row, -1)),
    "LayerNorm(a x), eps = 1e-5": ("normalized", normalize(a * row)),
}  # (121, D) each
lines, tones = {}, {}
for title, (word, values) in curves.items():
    names = [f"{word} {v:g}" for v in row.tolist()]
    lines[title] = (a[:, 0], dict(zip(names, values.T, strict=True)))
    tones |= dict(zip(names, shades[word], strict=True))

# %% tags=["hide-input"]
plot.panels(
    lines,
    title="A factor takes softmax from equal shares to argmax; LayerNorm ignores it, down to "
    "where eps takes over",
    x="factor a = 1/T",
    y=["share", "normalized entry"],
    xlog=True,
    colors=tones,
    caption="One row, 1, 2, 3.5, 4, multiplied by a. Softmax: four shares of 1/4 on the left, "
    "one share of 1 on the right. LayerNorm: constant where the standard deviation of the "
    "row, 1.19 a, is far above the root of eps, 0.003.",
    alt="Two panels of lines over a factor from 0.0001 to 100, on a logarithmic axis. Left: "
    "four softmax shares start together at one quarter and part around a = 1; one ends at 1, "
    "the others at 0. Right: four lines for LayerNorm between -1.4 and 1.2, flat above "
    "a = 0.03, which shrink toward 0 below it.",
)

# %% [markdown]
# A large factor gives all weight to the largest entry (**argmax**; entries that tie share it), a small one makes the shares **uniform**.
#
# So neither layer sees a shift, but softmax reads from the scale of a row how *sure* it is, and LayerNorm throws that scale away.

# %% [markdown]
# ## 5.4 A triangle and a circle
#
# Where do all the outputs lie? With $D = 3$ they can be drawn.
#
# - Softmax: three shares with sum 1 fill a **triangle** with the corners (1,0,0), (0,1,0), (0,0,1).
# - LayerNorm, before gain and bias, at $\epsilon = 0$: sum 0 is a plane, and sum of squares 3 a sphere of radius $\sqrt 3$. They meet in a **circle**. With $\epsilon > 0$ the output lies inside it.
#
# **Predict 5.5:** an input is multiplied by a factor that grows from nearly 0. How does LayerNorm's output move, at $\epsilon = 10^{-5}$?
# - [x] straight from the center to the circle, and there it stays :: A small row has a variance below $\epsilon$ and comes out near 0. Once its variance is far above $\epsilon$, the factor is not seen.
# - [ ] around the circle :: A factor does not change the direction of $x - \mu$, so the output does not turn.
# - [ ] to one of three corners :: Corners are where softmax ends, at argmax.

# %% tags=["hide-input"]
turn = torch.linspace(0, 2 * math.pi, 121, dtype=torch.float64)  # (121,)
across = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64)  # (2, 3)
across = across / across.norm(dim=-1, keepdim=True)  # two unit vectors in the plane of sum 0
around = turn.cos()[:, None] * across[0] + turn.sin()[:, None] * across[1]  # (121, 3)
shapes = {"triangle": torch.eye(3)[[0, 1, 2, 0]], "circle": math.sqrt(3) * around}
pale = {"triangle": "#B58A99", "circle": "#7FB8D9"}  # tints: outputs have the strong colors
g = torch.Generator().manual_seed(55)
cloud = torch.randn(60, 3, dtype=torch.float64, generator=g)  # (60, 3)


def draw(change=None):
    """Draw both outputs anew for the chosen factor."""
    outputs = {
        "softmax": F.softmax(factor.value * cloud, -1),
        "LayerNorm": normalize(factor.value * cloud),
    }
    drawn = plot.scatter3d(
        outputs,
        curves=shapes,
        colors=pale,
        view=(20, 15),
        limit=1.75,
        x="entry 1",
        y="entry 2",
        z="entry 3",
        title=f"a = {factor.value:.4g}",
        caption="as chosen",
        alt="as chosen",
        show=False,
    )
    picture.value = drawn.png


factor = widgets.FloatLogSlider(
    value=1.0,
    min=-4,
    max=2,
    step=0.25,
    description="factor a",
    continuous_update=False,
    layout=widgets.Layout(width="75%"),
)
picture = widgets.Image(format="png", width=640)
factor.observe(draw, "value")
draw()
widgets.VBox([factor, picture])

# %% [markdown]
# **Try:** drag the slider to both ends. The figure below shows the paths.

# %% tags=["hide-input"]
angles = torch.tensor([10.0, 70, 130, 190, 250, 310]) * math.pi / 180  # (6,)
inputs = angles.cos()[:, None] * across[0] + angles.sin()[:, None] * across[1]  # (6, 3)
steps = torch.logspace(-4, 3, 200, dtype=torch.float64)  # (200,)
# (400, 1) out and back, so that the six paths are one line
steps = torch.cat([steps, steps.flip(0)])[:, None]
softmax_paths = torch.cat([F.softmax(steps * v, -1) for v in inputs])  # (2400, 3)
norm_paths = torch.cat([normalize(steps * v) for v in inputs])  # (2400, 3)
on_circle = normalize(cloud, eps=0.0)  # (60, 3)
# float64: sixteen digits, three of them lost on the way
assert (on_circle.norm(dim=-1) - math.sqrt(3)).abs().max() < 1e-12
assert (normalize(cloud).norm(dim=-1) < math.sqrt(3)).all()
assert normalize(cloud).sum(-1).abs().max() < 1e-12

# %% tags=["hide-input"]
plot.scatter3d(
    {},
    # what is nearer to the eye comes last
    curves={"LayerNorm(a x)": norm_paths, **shapes, "softmax(a x)": softmax_paths},
    colors={**pale, "softmax(a x)": "softmax", "LayerNorm(a x)": "LayerNorm"},
    sphere=math.sqrt(3),
    plane=(1, 1, 1),
    view=(20, 15),
    limit=1.75,
    x="entry 1",
    y="entry 2",
    z="entry 3",
    title="As the factor grows, softmax runs to a corner of its triangle, LayerNorm to its "
    "circle",
    caption="Six inputs of three entries, multiplied by a from 0.0001 to 1000: softmax runs "
    "from the middle of the triangle to a corner; LayerNorm (eps = 1e-5, before gain and "
    "bias) runs straight to the circle, where the plane of sum 0 cuts the sphere, and stays "
    "there.",
    alt="Three axes from -1.75 to 1.75. A sphere cut by a tilted plane in a large circle, and "
    "a small triangle before the plane and parallel to it. From the middle of the triangle "
    "six curves bend to its corners, two to each. From the center of the circle six straight "
    "spokes run to its rim.",
)

# %% [markdown]
# Count dimensions. Three numbers go in, and both layers ignore their shift: the triangle is an area of **two** dimensions, $D-1$. LayerNorm ignores the scale as well: the circle is a curve of **one** dimension, $D-2$.
#
# So each change that a layer does not see costs its outputs one dimension.

# %% [markdown]
# ## 5.5 The same numbers in the derivatives
#
# Do the derivatives know what a layer cannot see? Its **Jacobian** is the $D \times D$ matrix $J_{ij} = \partial\,\text{out}_i / \partial x_j$: how much output $i$ moves when input $j$ is moved a little.
# With $S = \sum_k e^{x_k}$, so that $p_i = e^{x_i}/S$ and $\partial S/\partial x_j = e^{x_j}$, the quotient rule gives
#
# $$\frac{\partial p_i}{\partial x_i} = \frac{e^{x_i} S - e^{x_i} e^{x_i}}{S^2} = p_i - p_i\,p_i
# \qquad\qquad
# \frac{\partial p_i}{\partial x_j} = \frac{0 - e^{x_i} e^{x_j}}{S^2} = -\,p_i\,p_j \quad (i \ne j)$$
#
# In one line, with $\mathrm{diag}(p)$ for the matrix that has $p$ on its diagonal and $p\,p^\top$ for all products $p_i\,p_j$,
#
# $$J = \mathrm{diag}(p) - p\,p^\top$$


# %% tags=["exercise"] id="ex-5-3"
# Exercise 5.3 · ●●●○○ · 6 min
def softmax_jacobian(p):
    """The Jacobian of softmax, from its output, for any number of rows at once.

    p: (..., D) what softmax returned; each row of the batch has a Jacobian of its own.
    Returns (..., D, D) in p's dtype: entry [..., i, j] is the derivative of output i with
    respect to input j.
    """
    ### BEGIN SOLUTION
    products = p[..., :, None] * p[..., None, :]  # (..., D, D)
    return torch.diag_embed(p) - products  # (..., D, D)
    ### END SOLUTION


# %% tags=["check"]
check.softmax_jacobian(softmax_jacobian)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `torch.diag_embed(p)` puts each row of `p` on the diagonal of a matrix of its own.
# For the products make `p` a column, `p[..., :, None]` of shape (..., D, 1), and a row, `p[..., None, :]` of shape (..., 1, D), and let them broadcast.
#
# </details>
#
# `torch.func.jacrev` computes it by automatic differentiation.

# %%
row = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0], dtype=torch.float64)  # (D,)
automatic = torch.func.jacrev(lambda v: F.softmax(v, -1))(row)  # (D, D)
show("J", automatic)
show("J times (1, 1, 1, 1, 1)", automatic.sum(-1))

# %% tags=["hide-input"]
p = F.softmax(row, -1)  # (D,)
# float64, entries below 1
torch.testing.assert_close(torch.diag(p) - torch.outer(p, p), automatic, atol=1e-14, rtol=0)

# %% [markdown]
# The rows of $J$ sum to 0: moving all inputs by the same step moves nothing. A direction that $J$ takes to 0 is a **null direction**, here the shift. (Where one share is 1, all of $J$ is 0, and no gradient gets through.)
#
# A $D \times D$ matrix stretches $D$ directions, at right angles to one another, by $D$ factors, its **singular values**. Each factor of 0 is a null direction. The number of the others is the **rank**: in so many independent directions the output can move.
#
# **Predict 5.6:** $D = 5$ and $\epsilon = 0.1$. How many singular values of LayerNorm's Jacobian are 0?
# - [ ] none :: $\epsilon$ lets something of the scale through. But a shift never reaches the output, because $x - \mu$ stays as it is.
# - [x] one :: That of the shift. The scale is seen a little, because the output of a larger row is a little larger.
# - [ ] two :: Shift and scale, which is right at $\epsilon = 0$. But at $\epsilon = 0.1$ the output of a larger row is a little larger.

# %%
layers = {
    "softmax": lambda v: F.softmax(v, -1),
    "LayerNorm, eps = 0": lambda v: normalize(v, eps=0.0),
    "LayerNorm, eps = 0.1": lambda v: normalize(v, eps=0.1),
}
for name, layer in layers.items():
    J = torch.autograd.functional.jacobian(layer, row)  # (D, D) for any layer, row by row
    values = torch.linalg.svdvals(J)  # (D,)
    rank = int((values > 1e-12).sum())  # zeros come out as 1e-17, in float64
    show(f"{name:20} rank {rank}, singular values", values)

# %% [markdown]
# The rank is $D-1$ for softmax and $D-2$ for LayerNorm at $\epsilon = 0$. The second null direction is the scale, a small step along $x - \mu$. With $\epsilon > 0$ LayerNorm sees the scale a little: its fourth value is small instead of 0.
# [Lesson 7](07_backward.ipynb) proves LayerNorm's rank.

# %% tags=["hide-input"]
for seed in range(5):
    for D in range(3, 9):
        g = torch.Generator().manual_seed(10 * D + seed)
        v = torch.randn(D, dtype=torch.float64, generator=g)  # (D,)
        J_soft = torch.func.jacrev(layers["softmax"])(v)  # (D, D)
        J_norm = torch.autograd.functional.jacobian(layers["LayerNorm, eps = 0"], v)  # (D, D)
        s_soft = torch.linalg.svdvals(J_soft)  # (D,)
        s_norm = torch.linalg.svdvals(J_norm) * v.std(correction=0)  # (D,)
        # zeros are below 1e-15
        assert (s_soft > 1e-12).sum() == D - 1 and (s_norm > 1e-12).sum() == D - 2
        assert (s_norm[: D - 2] - 1).abs().max() < 1e-12  # the others are all 1 / sigma
        assert J_soft.sum(-1).abs().max() < 1e-14  # the shift
        assert J_norm.sum(-1).abs().max() < 1e-12
        assert (J_norm @ (v - v.mean())).abs().max() < 1e-12  # the scale
print("30 rows of 3 to 8 features: rank D - 1 and rank D - 2")

# %% [markdown]
# So each change that a layer does not see is a direction in which its derivative is 0.

# %% [markdown]
# ## 5.6 One in the other's place
#
# What breaks if you take the wrong one? ([Deeper](#A-stack-of-softmax-layers) puts softmax in LayerNorm's place.)
#
# Attention averages the values of tokens with shares as weights. Let LayerNorm make the weights instead.
#
# **Predict 5.7:** five tokens have one value each, and all values are raised by 10. What does the output do?
# - [ ] it rises by 10 :: It does with shares, which sum to 1.
# - [x] it does not change :: The weights sum to 0, so what the values have in common cancels.
# - [ ] it rises by 50 :: That takes five weights of 1.

# %%
scores = torch.tensor([2.0, 0.0, -1.0, 0.5, 1.0])  # (T,) how well each token matches
value = torch.tensor([0.2, 0.9, 0.4, 0.6, 0.8])  # (T,)
for name, w in {"softmax  ": F.softmax(scores, -1), "LayerNorm": normalize(scores)}.items():
    show(f"{name} weights", w)
    show(f"{name} output", (w * value).sum())
    show(f"{name} output, values + 10", (w * (value + 10)).sum(), digits=3)
show("LayerNorm, last score -inf", normalize(torch.tensor([2.0, 0.0, -1.0, 0.5, -math.inf])))

# %% [markdown]
# An average with shares is a **convex combination**: it lies between the smallest and the largest value and rises with them.
# With LayerNorm some weights are negative, and here the output lies below all values. A score of $-\infty$, the mask for "do not look here", gets the share 0 from softmax, while LayerNorm turns the whole row into `nan`.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(57)
many, held = torch.randn(2000, 8, generator=g), torch.rand(2000, 8, generator=g)  # (B, T)
out = (normalize(many) * held).sum(-1)  # (B,)
left = ((out < held.amin(-1)) | (out > held.amax(-1))).float().mean().item()
# 32 other sets of 500 rows: 0.64 to 0.75
assert 0.6 < left < 0.8
print(f"random scores, values from 0 to 1: outside all values in {100 * left:.0f} % of cases")

# %% [markdown]
# So LayerNorm's weights make no average: they sum to 0, and what the values have in common is lost.

# %% [markdown]
# ## 5.7 Clinic: the empty sentence
#
# What is wrong with the layer from the beginning? Look at its code again, and at the loss.
#
# **Predict 5.8:** in which step does the first nan appear?
# - [ ] the scores :: The tokens, padding included, and the query are ordinary numbers.
# - [ ] the $-\infty$ at the padding :: $-\infty$ is no nan, and in the second sentence it does what it should: $e^{-\infty} = 0$.
# - [x] the softmax of the third sentence :: Its largest score is $-\infty$ itself, and $-\infty - (-\infty)$ is nan. Without the subtraction it would be 0/0.
# - [ ] the loss :: The loss takes the first two sentences only, and it is finite.
#
# **Predict 5.9:** the loss leaves the third sentence out, so the gradient that arrives at its output is 0. Why is the gradient of `W` nan all the same?
# - [x] because 0 · nan is nan :: The gradient of each token is its weight, here nan, times the 0 that arrives. `W` collects the gradients of all tokens.
# - [ ] because the mean over the loss still divides by three sentences :: It divides by two; and any finite number would do no harm.
# - [ ] because `backward` starts from all three outputs :: It starts at the loss, which knows two of them.

# %%
x = (tokens @ W).detach().requires_grad_()  # (B, T, C)
scores = (x @ query).masked_fill(~keep[..., None], -math.inf)  # (B, T, 1)
show("weights, a row for each sentence", F.softmax(scores, dim=1)[..., 0], digits=1)
(dx,) = torch.autograd.grad(attention_pool(x, query, keep)[:2].square().mean(), x)
show("nan in the gradient of its tokens", dx.isnan().any(-1).any(-1))

# %% [markdown]
# **Predict 5.10:** many programs put −1e9 in the place of $-\infty$. What is then the output of the empty sentence?
# - [x] the mean of its padding :: Its four scores are equal, and softmax does not see a shift: four shares of 1/4.
# - [ ] zeros :: All four weights would have to be 0, but softmax makes them sum to 1.
# - [ ] nan :: −1e9 is a finite number, and minus itself it is 0.

# %%
scores = (x @ query).masked_fill(~keep[..., None], -1e9)  # (B, T, 1)
show("with -1e9", (F.softmax(scores, dim=1) * x).sum(1)[2], digits=1)
show("mean of x", x[2].mean(0), digits=1)

# %% [markdown]
# The nan is gone, and so is the alarm: the output is made of padding. Shares must sum to 1, and an empty sentence has nothing to share, so *you* say what it gives. Zeros are the usual choice.


# %% tags=["exercise"] id="ex-5-4"
# Exercise 5.4 · ●●●○○ · 7 min
def mended_pool(x, query, keep):
    """attention_pool, healed.

    x: (B, T, C) finite numbers. query: (C, 1). keep: (B, T) bool, False at padding.
    Returns (B, C) in x's dtype: for each sample the average of its tokens without the
    padding, weighted by the softmax of their scores x @ query, which may be of any size.
    A sample that is all padding gives zeros. Gradients flow to x and query, and none is nan.
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
# <details><summary>Hint</summary>
#
# The weights of a sample that is all padding should be 0. `masked_fill` can set them after the softmax, just as it set the scores before it.
# Look at the gradients too: `masked_fill` passes no gradient on to the entries that it has overwritten.
#
# </details>

# %%
pooled = mended_pool(tokens @ W, query, keep)  # (B, C)
(dW,) = torch.autograd.grad(pooled[:2].square().mean(), W)  # (5, C)
show("empty sentence", pooled[2])
show("gradient of W, first row", dW[0], digits=1)

# %% tags=["hide-input"]
assert dW.isfinite().all() and dW.abs().max() > 0
# what the text says of PyTorch's own attention
attention = nn.MultiheadAttention(6, 2, batch_first=True)
nn.init.normal_(attention.out_proj.bias)
own = (tokens @ W).detach()  # (B, T, C)
for asks, lost in {True: True, False: False}.items():
    said, _ = attention(own, own, own, key_padding_mask=~keep, need_weights=asks)
    assert said[2].isnan().all().item() == lost and said[:2].isfinite().all()
    assert lost or (said[2] == attention.out_proj.bias).all()
    (dW_in,) = torch.autograd.grad(said[:2].square().mean(), attention.in_proj_weight)
    assert dW_in.isnan().any().item() == lost
with torch.no_grad():  # eval() and no gradients: PyTorch takes its fast path
    said, _ = attention.eval()(own, own, own, key_padding_mask=~keep, need_weights=False)
assert said[2].isnan().all()
q = query.mT.expand(3, 1, -1).detach()  # (B, 1, C)
assert (F.scaled_dot_product_attention(q, own, own, keep[:, None])[2] == 0).all()

# %% [markdown]
# Zeros after the softmax heal the output and the tokens' gradient. The backward pass of softmax still returns nan, but `masked_fill` stops it, because it passes nothing on to scores that it has overwritten; if $-\infty$ is *added* instead, nan gets through ([Deeper](#The-same-zeros,-and-nan-again)).
# In PyTorch 2.13 `F.scaled_dot_product_attention` gives zeros as well. `nn.MultiheadAttention` gives nan by default; with `need_weights=False` it gives its output bias in training, but nan on the CPU in `eval()` under `no_grad`.
#
# So an empty row has no softmax: decide what it gives, and test the gradient as well as the output.

# %% [markdown]
# ## Take-away
#
# - Subtract each row's **largest** entry before the exponentials; take the logarithm on paper.
# - Neither layer sees a shift. LayerNorm is odd and does not see a factor $a > 0$ (before gain and bias, at $\epsilon = 0$); with a growing factor softmax goes from uniform to argmax.
# - For $D = 3$ softmax ends in a triangle, LayerNorm on a circle, or inside it when $\epsilon > 0$.
# - Softmax's Jacobian $\mathrm{diag}(p) - pp^\top$ has rank $D-1$, LayerNorm's has $D-2$ at $\epsilon = 0$: each change that is not seen is a null direction.
# - Softmax over nothing but $-\infty$ is nan, and 0 · nan carries it into the gradients: give empty rows zeros.
#
# **Formula card**, for one row $x_1, \dots, x_D$:
#
# $$\text{LayerNorm:}\quad \mu = \frac1D \sum_i x_i \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 \qquad \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2+\epsilon}} \qquad y_i = \gamma_i\,\hat x_i + \beta_i$$
#
# $$\text{softmax:}\quad m = \max_k x_k \qquad p_i = \frac{e^{x_i - m}}{\sum_k e^{x_k - m}} \qquad \log p_i = x_i - \log \sum_k e^{x_k} \qquad J = \mathrm{diag}(p) - p\,p^\top$$

# %% [markdown]
# ## Deeper (optional, 16 min)
#
# ### A public notebook, once more
#
# "Lecture 20: Layer Normalization" of [marcel1520/building-llm](https://github.com/marcel1520/building-llm), the notebook of [lesson 2](02_statistics.ipynb), ends (cell 566) by sending three rows through softmax and through its LayerNorm class, whose gains are 1 and biases 0.
# Its random numbers depend on every draw since the seed, so we draw in its order: two rows, a linear layer's weights and bias, three rows.

# %%
g = torch.Generator().manual_seed(123)
bound = 1 / math.sqrt(5)
torch.rand(2, 5, generator=g)  # two rows, then the weights and the bias of nn.Linear(5, 6)
nn.init.kaiming_uniform_(torch.empty(6, 5), a=math.sqrt(5), generator=g)
torch.empty(6).uniform_(-bound, bound, generator=g)
batch = torch.rand(3, 5, generator=g)  # (B, D)
p, y = F.softmax(batch, -1), normalize(batch)  # (B, D) each
show("softmax", p)
show("variances", p.var(-1, correction=0))
show("variances of LayerNorm", y.var(-1, correction=0))

# %% tags=["hide-input"]
cell_566 = {
    "softmax, sum of row 0": [1.00],
    "LayerNorm, sum of row 0": [0.00],
    "softmax": [
        [0.1511, 0.1768, 0.2551, 0.2218, 0.1951],
        [0.2221, 0.2242, 0.2417, 0.1868, 0.1252],
        [0.1455, 0.3037, 0.2042, 0.1322, 0.2145],
    ],
    "LayerNorm": [
        [-1.4612, -0.5941, 1.4379, 0.6639, -0.0465],
        [0.5510, 0.5900, 0.9076, -0.1802, -1.8685],
        [-0.9192, 1.5546, 0.2206, -1.2413, 0.3852],
    ],
    "softmax, means": [0.2000, 0.2000, 0.2000],
    "softmax, variances": [0.0013, 0.0017, 0.0037],
    "LayerNorm, means": [0.0, 0.0, 0.0],
    "LayerNorm, variances": [0.9997, 0.9998, 0.9999],
}


def agree(ours, label):
    """Assert that our numbers are those that the original prints."""
    # Rounding to four decimals moves a number by up to 5e-5; the section below says why 6e-5.
    torch.testing.assert_close(ours, torch.tensor(cell_566[label]), atol=6e-5, rtol=0)


for name, ours in [("softmax", p), ("LayerNorm", y), ("LayerNorm", F.layer_norm(batch, (5,)))]:
    agree(ours, name)
    agree(ours.sum(-1)[:1], f"{name}, sum of row 0")
    agree(ours.mean(-1), f"{name}, means")
    agree(ours.var(-1, correction=0), f"{name}, variances")
for eps in (1e-6, 0.0):  # other conventions are told apart: they are 2.3e-4 and 2.5e-4 off
    assert (normalize(batch, eps) - torch.tensor(cell_566["LayerNorm"])).abs().max() > 2e-4
count = sum(torch.tensor(numbers).numel() for numbers in cell_566.values())
print("all", count, "numbers of cell 566 agree within 6e-5")

# %% [markdown]
# The variances 0.9997, 0.9998 and 0.9999 are $\sigma^2/(\sigma^2+\epsilon)$: these rows have variances from 0.03 to 0.09, so that $\epsilon = 10^{-5}$ shows. The means of softmax are 0.2 whatever the input, because five shares sum to 1.
#
# ### The digit that depends on rounding
#
# Row 2, entry 3 (counted from 0) is printed as −1.2413 there. `nn.LayerNorm` on the same machine can print −1.2412. Who is wrong?

# %%
exact = normalize(batch.double())[2, 3]  # float64: 16 digits
near = exact.float()  # the float32 number next to it
far = torch.nextafter(near, torch.tensor(-2.0))  # and its neighbor
for name, number in {"float64": exact, "near float32": near, "next float32": far}.items():
    print(f"{name:13} {number.item():.8f}  prints as  {number.item():.4f}")

# %% tags=["hide-input"]
for v in (y, F.layer_norm(batch, (5,))):
    assert (v[2, 3] - exact).abs() < 6e-7  # five steps of float32 at 1.24

# %% [markdown]
# Nobody is. Computed in float64 the value is −1.24124989, very close to the middle between two printed numbers, and float32 has no number between −1.24124992 and −1.24125004. Two right programs that round in a different order may land on either side.
# From the exact value to the printed −1.2413 it is 5.01e-5, so a tolerance of 5e-5 would have rejected a better computation than the original. Compare numbers within a tolerance that has a reason, and never compare printed digits.
#
# ### At which temperature
#
# The ratio of two shares depends on the difference of their entries alone: $p_1/p_2 = e^{(x_1 - x_2)/T}$.


# %% tags=["exercise", "optional"] id="ex-5-5"
# Exercise 5.5 · ●●○○○ · 4 min
def temperature_for(gap, odds):
    """At which temperature T is the larger of two shares `odds` times the smaller one?

    gap: float, larger entry minus smaller entry, above 0. odds: float above 1.
    Returns T, a float, for softmax(x / T).
    """
    ### BEGIN SOLUTION
    return gap / math.log(odds)
    ### END SOLUTION


# %% tags=["check", "optional"]
check.temperature_for(temperature_for)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Solve $e^{\text{gap}/T} = \text{odds}$ for $T$. Which function undoes $e^{(\cdot)}$?
#
# </details>

# %%
T = temperature_for(0.5, 9.0)  # entries 3.5 and 4.0: nine to one
shares = F.softmax(torch.tensor([3.5, 4.0], dtype=torch.float64) / T, -1)  # (2,)
show("T", T)
show("shares", shares)

# %% [markdown]
# ### A stack of softmax layers
#
# Stack twelve layers, each a random $64 \times 64$ matrix followed by softmax or by LayerNorm, without ReLU. Do a hundred different inputs stay different? The matrices are $\sqrt2$ times `randn / sqrt(D)`, so on average they multiply the length of a difference by $\sqrt 2$.
#
# **Predict 5.11:** where all shares are near $1/D$, softmax multiplies small differences by $1/D$ (put $p_i = 1/D$ into $J$: all singular values but one are $1/D$). What do matrix and softmax together do to a difference, at $D = 64$?
# - [ ] they multiply it by 1.4 :: That is the matrix alone.
# - [x] they divide it by about 45 :: $\sqrt2/64$ is $1/45$.
# - [ ] they leave it nearly as it is :: LayerNorm does that here, because it brings every row back to size 1.


# %%
def through(norm, scale, seed, depth=12, D=64):
    """Return how far the samples are apart after each layer, (depth,), and the gradient.

    Apart: distance from the samples' mean, relative to their size. The gradient: its size
    at the input, relative to that at the output. scale: of the weights.
    """
    g = torch.Generator().manual_seed(seed)
    randn = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    x = randn(100, D).requires_grad_()  # (B, D)
    h, apart = x, []
    for _ in range(depth):
        h = norm(h @ randn(D, D) * scale / math.sqrt(D))  # (B, D)
        apart.append(((h - h.mean(0)).norm() / h.norm()).item())
    upstream = randn(100, D)  # (B, D) random, not ones
    (dx,) = torch.autograd.grad((h * upstream).sum(), x)  # (B, D)
    return torch.tensor(apart), (dx.norm() / upstream.norm()).item()


# %%
norms = {
    "LayerNorm": normalize,
    "softmax": lambda v: F.softmax(v, -1),
    "D times softmax": lambda v: 64 * F.softmax(v, -1),  # the control: entries of order 1
}
apart = {
    name: torch.stack([through(f, math.sqrt(2), seed)[0] for seed in range(16)])
    for name, f in norms.items()
}  # (16, 12) each
divided = apart["softmax"][:, :-1] / apart["softmax"][:, 1:]  # (16, 11) by each further layer
show("softmax divides by, layers 2 to 8", divided.mean(0)[:7], digits=1)

# %% tags=["hide-input"]
plot.lines(
    range(1, 13),
    apart,
    ylog=True,
    colors={"D times softmax": "#B07A8C"},
    title="At weight scale 1.41 twelve softmax layers make all inputs look alike",
    x="layer",
    y="distance of the samples from their mean, relative to their size",
    caption="100 random inputs, random weights of scale 1.41, width 64, float64.",
    alt="Lines over twelve layers, on a logarithmic axis from 1 down to 1e-16. LayerNorm and D "
    "times softmax stay near 1. Softmax falls in a nearly straight line to 2e-15 at layer 10 "
    "and levels off at 3e-16.",
)

# %% tags=["hide-input"]
# 32 other runs: 42 to 49 in layers 3 to 10, then the rounding of float64 ends it
assert divided[:, 1:9].min() > 38 and divided[:, 1:9].max() < 54
assert (divided[:, 0] > 15).all() and (divided[:, 0] < 26).all()  # 32 other runs: 19 to 23
# 32 other runs: 0.979 and 0.827 at the least, 2e-15 for softmax
assert apart["LayerNorm"].min() > 0.9 and apart["D times softmax"].min() > 0.7
assert apart["softmax"][:, -1].max() < 1e-14

# %% [markdown]
# Each of the layers 3 to 10 divided the differences by 42 to 49 in these 16 runs. Layer 2 divided them by about 20 only, because the shares before it are not yet nearly equal, and layers 11 and 12 reach the rounding of float64. In the end the network has one output for all inputs, up to rounding.
# The control shows that the size of the shares did it, about $1/D$: with entries of order 1, softmax keeps the differences.
#
# ### The scale of the weights
#
# In that stack softmax times $D$ kept the inputs apart as LayerNorm does. Now the scale of all twelve matrices is changed. What does the gradient at the input do?

# %% tags=["hide-input"]
scales = [0.25, 0.5, 1.0, 2.0, 4.0]
grads = {
    name: torch.tensor([[through(f, scale, seed)[1] for scale in scales] for seed in range(8)])
    for name, f in norms.items()
}
g_norm, g_times = grads["LayerNorm"], grads["D times softmax"]  # (8, 5) each
assert (g_norm / g_norm[:, :1] - 1).abs().max() < 1e-2  # eps = 1e-5 and a variance of 0.06
# 32 other runs: at least 6e9
assert (g_times.max(-1).values / g_times.min(-1).values).min() > 1e5
assert grads["softmax"].max() < 1e-10  # 32 other runs: 1e-13

# %% tags=["hide-input"]
plot.lines(
    scales,
    {name: values.log10() for name, values in grads.items()},
    xlog=True,
    colors={"D times softmax": "#B07A8C"},
    title="Of the three, only LayerNorm ignores the scale of the weights",
    x="weight scale",
    y="log10 of the gradient at the input",
    caption="The same twelve layers; size of the gradient at the input relative to the "
    "gradient at the output. 0 means equal, -8 a hundred million times smaller.",
    alt="Lines over weight scales from 0.25 to 4. LayerNorm's gradient stays near 0, which "
    "means 1. Softmax rises from -29 to -14. D times softmax rises from -7 to 3 at scale 1 "
    "and falls again, with a wide band at scale 4.",
)

# %% [markdown]
# LayerNorm does not see a factor, so all five weight scales give the same gradient at the input, within 1 % here, where $\epsilon$ is far below every variance.
# $D$ times softmax does see it. With small weights its rows are nearly uniform and the gradient shrinks at every layer; with large ones it becomes an argmax, and the gradient differs by many powers of ten from one draw of the weights to the next.
#
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
# In the backward pass softmax multiplies the 0 that arrives by its own nan shares. What then reaches the scores is nan. `masked_fill` replaces it by 0, because these entries were overwritten; an addition hands it on to the query.
# Where masks are added, give the empty rows a finite score before the softmax.
#
# ## On your own
#
# 1. A classifier with 10 classes sends its last row through LayerNorm (no gain, no bias) and then through softmax. What is the largest probability that it can ever give?
# 2. Attention divides its scores by $\sqrt{d}$ before the softmax. Which temperature is that?
# 3. The Jacobian of softmax is symmetric. Is LayerNorm's, before gain and bias, and after?
#
# ## Further reading
#
# - Bridle (1990), *Probabilistic interpretation of feedforward classification network outputs*: by the author who named it.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, table 1: what the layers do not see.
# - Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*: the plane and the sphere.
# - [pytorch#131060](https://github.com/pytorch/pytorch/pull/131060): why fully masked rows give zeros in PyTorch's attention function.

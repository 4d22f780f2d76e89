# %% [markdown]
# # 5 · LayerNorm and softmax: one axis, two promises
#
# **What you'll do:** put the two layers that look along the same axis side by side, find out which changes of the input each of them cannot see, and what breaks when one stands in the other's place. *(about 50 min)*
#
# **You'll be able to**
# - write a softmax that never overflows, and say why the *largest* entry is the one to subtract;
# - say what a shift, a factor and a change of sign do to each of the two, and under which conditions;
# - draw where each sends its input for three features: a triangle, and a circle;
# - write the Jacobian (all the derivatives) of softmax by hand, and count the directions that each layer forgets;
# - find the layer whose weights are all 1.
#
# **You need:** lessons [2](02_statistics.ipynb) and [3](03_epsilon.ipynb); gain and bias from [lesson 4](04_affine_and_module.ipynb). The exponential function and its derivative.

# %%
import math

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import normalize
from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 5.1 One axis, two promises
#
# A Transformer holds two layers that take a row and return a row of the same length: softmax (in its attention) and LayerNorm (around it). Both are called with the last axis in mind, both are said to "normalize", and they are taken for one another.
#
# `normalize` below is LayerNorm **before gain and bias**, as you built it in lesson 3.
#
# **Predict:** what do the entries of each row sum to, after softmax and after `normalize`?

# %%
x = torch.tensor([[2.0, -1.0, 0.5, 3.0, 0.0], [0.3, 0.1, 0.2, 0.1, 0.3]])  # (B, D) = (2, 5)
p = F.softmax(x, dim=-1)  # (B, D)
y = normalize(x)  # (B, D)
show("softmax", p)
show("LayerNorm", y)
show("row sums of softmax  ", p.sum(-1))
show("row sums of LayerNorm", y.sum(-1))

# %% [markdown]
# Softmax makes **shares**: nothing below 0, and each row sums to 1. LayerNorm makes **deviations**: both signs, and each row sums to 0.
# Look at the second row, whose entries are nearly equal. Softmax says "nearly equal". LayerNorm blows the small differences up to size 1.
#
# | of one row of $D$ entries | softmax | LayerNorm before gain and bias |
# |---|---|---|
# | each entry | between 0 and 1 | between $-\sqrt{D-1}$ and $\sqrt{D-1}$ |
# | sum | 1 | 0 |
# | sum of squares | between $1/D$ and 1 | $D\,\sigma^2/(\sigma^2+\epsilon)$, which is $D$ at $\epsilon = 0$ |
# | order of the entries | kept | kept |
#
# **Predict:** a trained LayerNorm has a gain and a bias. Do its rows still sum to 0?

# %%
weight = torch.tensor([0.5, 1.0, 2.0, 1.0, 1.5])  # (D,) as training might leave them
bias = torch.tensor([0.1, 0.0, -0.2, 0.3, 0.0])  # (D,)
out = y * weight + bias  # (B, D)
assert torch.allclose(
    out.sum(-1), (y * weight).sum(-1) + bias.sum(), atol=1e-5
)  # float32, ten numbers of order 1
show("row sums after gain and bias", out.sum(-1))

# %% [markdown]
# No: the sum is $\sum_i \gamma_i \hat x_i + \sum_i \beta_i$, and different for each row. A public notebook (section 5.3) shows LayerNorm rows that sum to 0: that holds for a fresh layer, with gain 1 and bias 0. (With one gain for all features and no bias it stays true.)
# Softmax has no parameters; its rows always sum to 1.
#
# One more difference, in how the two are called. Softmax asks **which axis**, by number. LayerNorm asks **how large** the last axes are (section 4.3).

# %%
try:
    nn.LayerNorm(-1)  # meant: the last axis
except RuntimeError as error:
    print(error)

# %% [markdown]
# It tried to make a gain of $-1$ numbers. `nn.LayerNorm(1)` can be built, and it is not "axis 1" either: the clinic at the end shows what it does.
#
# ## 5.2 A softmax that survives
#
# $$p_i = \frac{e^{x_i}}{\sum_k e^{x_k}}$$
#
# Written down as it stands, it breaks soon.

# %%
row = torch.tensor([0.0, 50.0, 100.0])  # (D,)
show("naive softmax", row.exp() / row.exp().sum())
torch.tensor([88.0, 89.0]).exp()

# %% [markdown]
# In float32 $e^{89}$ is already infinite, and $\infty/\infty$ is not a number. (In float16 it is $e^{12}$.)
#
# The cure is a property of softmax itself. Add a number $c$ to the whole row: every $e^{x_i}$ gets the factor $e^c$, the sum gets it too, and it cancels.
# **Softmax cannot see a shift.** So we may subtract from a row whatever we like before the exponentials.
#
# **Predict:** which of these is safe to subtract: the row's mean, its smallest entry, its largest entry?

# %%
row = torch.tensor([0.0, -1.0, 0.5, 1.0, 200.0])  # (D,)
for name, c in {"mean": row.mean(), "smallest": row.min(), "largest": row.max()}.items():
    e = torch.exp(row - c)  # (D,)
    show(f"minus its {name:8}", e / e.sum())

# %% [markdown]
# Only the largest. Then the largest exponent is exactly 0: all exponentials lie between 0 and 1, and one of them *is* 1. The sum lies between 1 and $D$, so there is neither $\infty/\infty$ nor $0/0$.
# This holds for every row of finite numbers. Entries far below the largest become 0, which is what their share rounds to anyway.
#
# It has to be the largest **of each row**. With one maximum for the whole batch, a float32 row that lies 200 below it becomes 0/0.


# %% tags=["exercise"] id="ex-5-1"
# Exercise 5.1 · ●●○○○ · 7 min
def softmax(x):
    """Softmax over the last axis of x, for entries of any size.

    x: (..., D) float tensor; an entry of -inf gets the share 0.
    Returns a tensor of x's shape and dtype: entries from 0 to 1, each row sums to 1.
    Gradients flow. Write it without F.softmax.
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
# `x.amax(-1, …)` returns the largest entries. `x.max(-1, …)` returns a pair: the entries, which are its `.values`, and where they stand.
#
# </details>
#
# LayerNorm cannot see a shift either: the mean moves along and is subtracted. This is a property that the two layers share.
#
# ## 5.3 A public notebook, once more
#
# The notebook of [section 2.6](02_statistics.ipynb), "Lecture 20: Layer Normalization", ends (cell 566) by sending three rows through softmax and through its LayerNorm class.
# Its random numbers depend on every draw since the seed, so we draw in its order: two rows, a linear layer's weights and bias, three rows.

# %%
g = torch.Generator().manual_seed(123)
bound = 1 / math.sqrt(5)
torch.rand(2, 5, generator=g)
nn.init.kaiming_uniform_(
    torch.empty(6, 5), a=math.sqrt(5), generator=g
)  # nn.Linear(5, 6): its weights
torch.empty(6).uniform_(-bound, bound, generator=g)  # and its bias
batch = torch.rand(3, 5, generator=g)  # (B, D)
p, y = F.softmax(batch, -1), normalize(batch)  # (B, D) each
show("softmax", p)
show("variances", p.var(-1, correction=0))
show("variances of LayerNorm", y.var(-1, correction=0))

# %%
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

# %% [markdown]
# These are its numbers, as it prints them. Rounding to four decimals can move a number by 5e-5, half of the last digit. We allow 6e-5, for a reason that comes below.
# That still tells the conventions apart: with $\epsilon = 10^{-6}$ some entry is 2.3e-4 off, without $\epsilon$ 2.5e-4.


# %%
def agree(ours, label):
    """Assert that our numbers are those that the original prints."""
    torch.testing.assert_close(ours, torch.tensor(cell_566[label]), atol=6e-5, rtol=0)


for name, ours in [("softmax", p), ("LayerNorm", y), ("LayerNorm", F.layer_norm(batch, (5,)))]:
    agree(ours, name), agree(ours.sum(-1)[:1], f"{name}, sum of row 0")
    (
        agree(ours.mean(-1), f"{name}, means"),
        agree(ours.var(-1, correction=0), f"{name}, variances"),
    )
for eps in (1e-6, 0.0):  # other conventions are told apart
    assert (normalize(batch, eps) - torch.tensor(cell_566["LayerNorm"])).abs().max() > 2e-4
print(
    "all",
    sum(torch.tensor(numbers).numel() for numbers in cell_566.values()),
    "numbers of cell 566 agree",
)

# %% [markdown]
# The variances 0.9997, 0.9998, 0.9999 are $\sigma^2/(\sigma^2+\epsilon)$: these rows have little spread, and $\epsilon = 10^{-5}$ shows.
# And the means of softmax are 0.2 whatever the input: five shares of 1.
#
# ### The one digit that depends on rounding
#
# Row 2, entry 3 (counted from 0) is printed as −1.2413. `nn.LayerNorm` on the same machine can print −1.2412. Who is wrong?

# %%
exact = normalize(batch.double())[2, 3]  # float64: 16 digits
near = exact.float()  # the float32 number next to it
far = torch.nextafter(near, torch.tensor(-2.0))  # and its neighbor
for name, number in {
    "float64": exact,
    "nearest float32": near,
    "the next float32": far,
}.items():
    print(f"{name:16}  {number.item():.8f}  prints as  {number.item():.4f}")
assert all(
    (v[2, 3] - exact).abs() < 6e-7 for v in (y, F.layer_norm(batch, (5,)))
)  # five steps of float32 at 1.24

# %% [markdown]
# Nobody. The value, computed in float64, is $-1.24124989$: a hair from $-1.24125$, the middle between two printed numbers. And float32 has no numbers between $-1.24124992$ and $-1.24125004$. Two right programs, rounded in a different order, may land on either side.
# From this value to the printed −1.2413 it is 5.01e-5: a tolerance of 5e-5 would have rejected a better computation than the original.
# So compare numbers within a tolerance that has a reason. Never compare printed digits.
#
# ## 5.4 What each of them cannot see
#
# Take a row that is not constant, LayerNorm (LN for short) before gain and bias, and $\epsilon = 0$.

# %% tags=["exercise"] id="ex-5-2"
# Exercise 5.2 · ●●○○○ · 5 min
# What does each change of x do to the output? Predict, before you run anything:
# "same", "negated" (every entry changes its sign), or "changed" (something else, for most
# rows). A dictionary with eight keys: "softmax(x + 3)", "softmax(2 * x)", "softmax(-x)",
# "LN(x + 3)", "LN(2 * x)", "LN(-x)", "softmax(LN(2 * x))" (LayerNorm first, then softmax)
# and "LN(softmax(2 * x))" (softmax first).
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
# For each: what happens to the $e^{x_i}$, or to the mean and the deviation? In the last two, start with the inner one.
#
# </details>
#
# Now let the machine say it, on six rows drawn from each of five seeds.

# %%
functions = {"softmax": lambda x: F.softmax(x, -1), "LN": lambda x: normalize(x, eps=0.0)}
changes = {"x + 3": lambda x: x + 3, "2 * x": lambda x: 2 * x, "-x": lambda x: -x}
for f_name, f in functions.items():
    for c_name, change in changes.items():
        words = set()
        for seed in range(5):
            rows = torch.randn(
                6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
            )  # (6, D)
            same, negated = (
                torch.allclose(f(change(rows)), sign * f(rows), atol=1e-12) for sign in (1, -1)
            )
            words.add("same" if same else "negated" if negated else "changed")
        print(f"{f_name}({c_name}):", *words)

# %% [markdown]
# - **Shift.** Neither sees it (LayerNorm for any $\epsilon$).
# - **Scale.** LayerNorm does not see a positive factor: $x-\mu$ and $\sigma$ grow alike. Softmax does.
# - **Sign.** LayerNorm is *odd*: LN(−x) = −LN(x) (for any $\epsilon$), because $\sigma$ is never negative. A textbook calls it independent of the scale "for any $\alpha \neq 0$"; that holds for $\alpha > 0$.
#
# Only the scale needs a **condition**: it is invisible exactly at $\epsilon = 0$, and nearly while the variance is far above $\epsilon$. The rows of cell 566 have variances from 0.03 to 0.09. How far apart are LN(2x) and LN(x)?

# %%
rows = batch.double()  # (B, D)
for eps in (0.0, 1e-5, 1e-3):
    moved = (normalize(2 * rows, eps) - normalize(rows, eps)).abs().max()
    show(f"eps = {eps:<5}: largest difference", moved, digits=5)

# %% [markdown]
# Nothing, a little, and more: 0.016 once $\epsilon$ is a thirtieth of the smallest variance.
#
# ### Temperature
#
# What a factor does to softmax has a name. In $\text{softmax}(x/T)$ the number $T > 0$ is the **temperature**; the factor is $a = 1/T$.
#
# **Predict:** where does softmax(a·x) go for a very large, and for a very small?

# %%
row = torch.tensor([1.0, 2.0, 3.5, 4.0], dtype=torch.float64)  # (D,)
a = torch.logspace(-4, 2, 121, dtype=torch.float64)[:, None]  # (121, 1)
entries = [f"x = {v:g}" for v in row.tolist()]
curves = {
    "softmax(a x)": F.softmax(a * row, -1),
    "LayerNorm(a x), eps = 1e-5": normalize(a * row),
}  # (121, D) each

# %%
plot.panels(
    {
        name: (a[:, 0], dict(zip(entries, values.T, strict=True)))
        for name, values in curves.items()
    },
    title="A factor turns softmax from uniform to argmax; LayerNorm ignores it, down to where "
    "eps takes over",
    x="factor a = 1/T",
    y=["share", "normalized entry"],
    xlog=True,
    caption="One row of four entries, multiplied by a. Softmax: four shares of 1/4 on the "
    "left, one share of 1 on the right. LayerNorm: constant where the standard deviation of "
    "the row, 1.19 a, is far above the root of eps, 0.003.",
    alt="Two panels over a factor from 0.0001 to 100. Left: four softmax shares start "
    "together at one quarter and part around a = 1; one ends at 1, the others at 0. Right: "
    "four flat lines for LayerNorm, which shrink to 0 only below a = 0.01.",
)

# %% [markdown]
# Large factor: all weight on the largest entry, **argmax** (if two entries tie, they share it). Small factor: **uniform**.
# In between softmax says how *sure* the row is, and it reads that off the scale. LayerNorm throws the scale away.
#
# The shares answer to differences alone: $p_1 / p_2 = e^{(x_1 - x_2)/T}$.


# %% tags=["exercise"] id="ex-5-3"
# Exercise 5.3 · ●●○○○ · 4 min
def temperature_for(gap, odds):
    """At which temperature T is the larger of two shares `odds` times the smaller one?

    gap: float, larger entry minus smaller entry, above 0. odds: float above 1.
    Returns T, a float, for softmax(x / T).
    """
    ### BEGIN SOLUTION
    return gap / math.log(odds)
    ### END SOLUTION


# %% tags=["check"]
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
# ## 5.5 A triangle and a circle
#
# With $D = 3$ the whole output space can be drawn.
#
# - Softmax: three numbers $\ge 0$ with sum 1. That is a **triangle** with its corners at (1,0,0), (0,1,0), (0,0,1). (Its edges are reached only by rounding, or with an entry of $-\infty$.)
# - LayerNorm before gain and bias, at $\epsilon = 0$: three numbers with sum 0 (a plane through the origin) and sum of squares 3 (a sphere of radius $\sqrt 3$). Plane and sphere meet in a **circle**. With $\epsilon > 0$ the output lies inside it, on the disc.
#
# **Predict:** 60 random inputs are multiplied by a growing factor $a$. How do the two sets of outputs move?

# %%
turn = torch.linspace(0, 2 * math.pi, 121, dtype=torch.float64)  # (121,)
across = torch.tensor(
    [[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64
)  # (2, 3) both in the plane of sum 0
across = across / across.norm(dim=-1, keepdim=True)  # (2, 3) and of length 1
around = turn.cos()[:, None] * across[0] + turn.sin()[:, None] * across[1]  # (121, 3)
shapes = {"triangle": torch.eye(3)[[0, 1, 2, 0]], "circle": math.sqrt(3) * around}
pale = {
    "triangle": "#B58A99",
    "circle": "#7FB8D9",
}  # the outputs themselves have the strong colors
cloud = torch.randn(
    60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(55)
)  # (60, 3)
assert torch.allclose(
    normalize(cloud, eps=0.0).norm(dim=-1), torch.tensor(3.0).double().sqrt(), rtol=1e-12
)
assert (normalize(cloud).norm(dim=-1) < math.sqrt(3)).all() and normalize(cloud).sum(
    -1
).abs().max() < 1e-12


# %%
def draw(change=None):
    """Redraw both outputs for the chosen factor."""
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


# %%
factor = widgets.FloatLogSlider(
    value=1.0, min=-4, max=2, step=0.25, description="a", continuous_update=False
)
picture = widgets.Image(format="png", width=640)
factor.observe(draw, "value")
draw()
widgets.VBox([factor, picture])

# %% [markdown]
# **Try:** the far right, then the far left. (The slider needs a running kernel; the figure below stands without one.)

# %%
angles = torch.tensor([10.0, 70, 130, 190, 250, 310]) * math.pi / 180  # (6,)
inputs = angles.cos()[:, None] * across[0] + angles.sin()[:, None] * across[1]  # (6, 3)
a = torch.logspace(-4, 3, 200, dtype=torch.float64)  # (200,)
a = torch.cat([a, a.flip(0)])[
    :, None
]  # (400, 1) out and back, so that the six paths are one line
softmax_paths = torch.cat([F.softmax(a * v, -1) for v in inputs])  # (2400, 3)
norm_paths = torch.cat([normalize(a * v) for v in inputs])  # (2400, 3)

# %%
plot.scatter3d(
    {},
    curves={
        "LayerNorm(a x)": norm_paths,
        **shapes,
        "softmax(a x)": softmax_paths,
    },  # what is in front comes last
    colors={**pale, "softmax(a x)": "softmax", "LayerNorm(a x)": "LayerNorm"},
    sphere=math.sqrt(3),
    plane=(1, 1, 1),
    view=(20, 15),
    limit=1.75,
    x="entry 1",
    y="entry 2",
    z="entry 3",
    title="Softmax ends in a triangle, LayerNorm on a circle",
    caption="Six inputs of three entries, multiplied by a from 0.0001 to 1000: softmax runs "
    "from the middle of the triangle to a corner; LayerNorm (eps = 1e-5, before gain and "
    "bias) runs straight to the circle, where the plane of sum 0 cuts the sphere, and stays "
    "there.",
    alt="A sphere cut by a tilted plane in a large circle, and a small triangle in front of "
    "the plane and parallel to it. From the middle of the triangle six curves bend to its "
    "corners, two to each. From the center of the circle six straight spokes run to its rim.",
)

# %% [markdown]
# As the factor grows, softmax runs from the middle of its triangle to a corner, and LayerNorm from the center to the rim, where it stays. The two planes are parallel: the sum is fixed, at 1 and at 0.
#
# Now count dimensions. Three numbers go in, and both layers ignore their shift. The triangle is an area, **two** dimensions, $D-1$.
# LayerNorm ignores the scale as well. The circle is a curve, **one** dimension, $D-2$. Only a standard deviation near $\sqrt\epsilon$ or below brings you visibly off the rim.
#
# ## 5.6 The same numbers in the derivatives
#
# The **Jacobian** of a layer (section 3.3) is the $D \times D$ matrix $J_{ij} = \partial\,\text{out}_i / \partial x_j$: how much output $i$ moves when input $j$ is nudged.
# For softmax it can be had by hand. Write $S = \sum_k e^{x_k}$, so that $p_i = e^{x_i}/S$ and $\partial S/\partial x_j = e^{x_j}$. The quotient rule gives
#
# $$\frac{\partial p_i}{\partial x_i} = \frac{e^{x_i} S - e^{x_i} e^{x_i}}{S^2} = p_i - p_i\,p_i
# \qquad\qquad
# \frac{\partial p_i}{\partial x_j} = \frac{0 - e^{x_i} e^{x_j}}{S^2} = -\,p_i\,p_j \quad (i \ne j)$$
#
# Both in one line: the matrix with $p$ on its diagonal and 0 elsewhere, minus the matrix of all products $p_i\,p_j$,
#
# $$J = \mathrm{diag}(p) - p\,p^\top$$


# %% tags=["exercise"] id="ex-5-4"
# Exercise 5.4 · ●●●○○ · 8 min
def softmax_jacobian(p):
    """The Jacobian of softmax, from its output.

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
# Nobody has to trust a derivation. `torch.func.jacrev` computes the Jacobian of any function by automatic differentiation.

# %%
row = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0], dtype=torch.float64)  # (D,)
automatic = torch.func.jacrev(lambda v: F.softmax(v, -1))(row)  # (D, D)
p = F.softmax(row, -1)  # (D,)
torch.testing.assert_close(
    torch.diag(p) - torch.outer(p, p), automatic, atol=1e-14, rtol=0
)  # float64, entries below 1
show("J", automatic)
show("J times (1, 1, 1, 1, 1)", automatic.sum(-1))

# %% [markdown]
# The rows sum to 0: moving all inputs by the same step moves nothing. A direction that $J$ takes to 0 is a **null direction**. Here it is $(1, \dots, 1)$: the shift again, seen by the derivative. (At an argmax, one share of 1, all of $J$ is 0: no gradient gets through.)
#
# How many null directions are there in all? A $D \times D$ matrix stretches $D$ directions, at right angles to one another, by $D$ factors. These factors are its **singular values**, sorted from the largest to the smallest.
# A factor of 0 is a null direction. The number of the other factors is the **rank**: in so many independent directions the output can move.
#
# **Predict:** $D = 5$. How many singular values are 0 for softmax, and how many for LayerNorm at $\epsilon = 0$? (Think of the triangle and the circle.)

# %%
layers = {
    "softmax": lambda v: F.softmax(v, -1),
    "LayerNorm, eps = 0": lambda v: normalize(v, eps=0.0),
    "LayerNorm, eps = 0.1": lambda v: normalize(v, eps=0.1),
}
singular = {
    name: torch.linalg.svdvals(torch.func.jacrev(layer)(row)) for name, layer in layers.items()
}  # (D,) each
for name, values in singular.items():
    show(f"{name:20} singular values", values)
    show(f"{'':20} rank", int((values > 1e-12).sum()))  # zeros come out as 1e-17, in float64

# %%
plot.heat(
    torch.stack(list(singular.values())),
    list(singular),
    ["1st", "2nd", "3rd", "4th", "5th"],
    title="Softmax forgets one direction, LayerNorm two (at eps = 0)",
    x="singular value of the Jacobian",
    y="layer",
    fmt=".4f",
    caption="The row 2, -1, 0.5, 3, 0 (D = 5), float64. Softmax: rank 4. LayerNorm before "
    "gain and bias: rank 3 at eps = 0, its three values all equal to 1/sigma. With eps the "
    "fourth is small instead of 0.",
    alt="A table of five singular values for three layers. Softmax has four above zero and "
    "one zero. LayerNorm at eps 0 has three equal ones and two zeros; at eps 0.1 its fourth "
    "is 0.03.",
)

# %% [markdown]
# Rank $D-1$ for softmax, $D-2$ for LayerNorm at $\epsilon = 0$: the triangle and the circle. Each change that a layer cannot see costs it a direction:
# the shift, direction $(1, \dots, 1)$, for both; the scale, direction $x - \mu$, for LayerNorm. With $\epsilon > 0$ the scale is seen a little.

# %%
for seed in range(5):
    for D in range(3, 9):
        v = torch.randn(
            D, dtype=torch.float64, generator=torch.Generator().manual_seed(10 * D + seed)
        )  # (D,)
        J_soft, J_norm = (
            torch.func.jacrev(layers[name])(v) for name in ("softmax", "LayerNorm, eps = 0")
        )
        s_soft, s_norm = (
            torch.linalg.svdvals(J_soft),
            torch.linalg.svdvals(J_norm) * v.std(correction=0),
        )  # (D,)
        assert (s_soft > 1e-12).sum() == D - 1 and (
            s_norm > 1e-12
        ).sum() == D - 2  # zeros: below 1e-15
        assert (s_norm[: D - 2] - 1).abs().max() < 1e-12  # the others are all 1 / sigma
        assert (
            J_soft.sum(-1).abs().max() < 1e-14 and J_norm.sum(-1).abs().max() < 1e-12
        )  # the shift
        assert (J_norm @ (v - v.mean())).abs().max() < 1e-12  # the scale
print("30 rows of 3 to 8 features: rank D - 1 and rank D - 2")

# %% [markdown]
# This is measured, on 30 rows. Why there are exactly two null directions, and why all other singular values are $1/\sigma$, is derived in [lesson 7](07_backward.ipynb).
#
# ## 5.7 One in the other's place
#
# ### Softmax where LayerNorm belongs
#
# Twelve layers, each a random matrix followed by LayerNorm, or by softmax, and no ReLU (with it inputs grow alike under LayerNorm, too: [section 1.7](01_why_normalize.ipynb)). Do two different inputs stay different?
# We measure the *spread*: how far the samples are from their mean, relative to their size. As a control we also multiply softmax by $D$, so that its entries are of order 1.
# The matrices are `gain * randn / sqrt(D)`, with the gain of [lesson 1](01_why_normalize.ipynb): on average they multiply the length of a difference by the gain.
#
# **Predict:** at a uniform row, $p_i = 1/D$, all singular values of softmax but one are $1/D$ (put it into $\mathrm{diag}(p) - pp^\top$). With $D = 64$ and a gain of $\sqrt 2$, by how much does one layer shrink a difference?


# %%
def through(norm, gain, seed, depth=12, D=64):
    """Return the spread after each layer, (depth,), and the size of the input's gradient."""
    g = torch.Generator().manual_seed(seed)
    randn = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    x = randn(100, D).requires_grad_()  # (B, D)
    h, spread = x, []
    for _ in range(depth):
        h = norm(h @ randn(D, D) * gain / math.sqrt(D))  # (B, D)
        spread.append(((h - h.mean(0)).norm() / h.norm()).item())
    upstream = randn(100, D)  # (B, D) random, not ones
    (dx,) = torch.autograd.grad((h * upstream).sum(), x)  # (B, D)
    return torch.tensor(spread), (dx.norm() / upstream.norm()).item()


# %%
norms = {
    "LayerNorm": normalize,
    "softmax": lambda v: F.softmax(v, -1),
    "D times softmax": lambda v: 64 * F.softmax(v, -1),
}
spreads = {
    name: torch.stack([through(f, math.sqrt(2), seed)[0] for seed in range(8)])
    for name, f in norms.items()
}  # (8, 12)
step = spreads["softmax"][:, 3] / spreads["softmax"][:, 2]  # (8,) from layer 3 to layer 4
assert (step / (math.sqrt(2) / 64) - 1).abs().max() < 0.1  # sqrt(2) / 64 = 0.022; 8 seeds
assert (
    spreads["LayerNorm"].min() > 0.9
    and spreads["D times softmax"].min() > 0.8
    and spreads["softmax"][:, -1].max() < 1e-14
)

# %%
plot.lines(
    range(1, 13),
    spreads,
    ylog=True,
    colors={"D times softmax": "#B07A8C"},
    title="Eleven softmax layers make all inputs look alike",
    x="layer",
    y="spread of the samples",
    caption="Random weights of gain 1.41, width 64, 100 random inputs, float64. Spread: "
    "distance of the samples from their mean, relative to their size.",
    alt="Over twelve layers LayerNorm and D times softmax stay near 1. Softmax falls by a "
    "factor of 45 a layer and ends at 1e-16, the rounding of float64.",
)

# %% [markdown]
# $\sqrt2/64 = 1/45$: from the second layer on the rows are nearly uniform, and each further softmax makes the inputs about 45 times more alike. After eleven layers they agree to the last digits of float64, and the network has one output for all.
# Multiplied by $D$, the differences survive. Is that all that LayerNorm does, bring the numbers back to order 1?
#
# **Predict:** now the gain of all layers gets larger or smaller. What does the gradient at the input do, with each of the three?

# %%
gains = [0.25, 0.5, 1.0, 2.0, 4.0]
grads = {
    name: torch.tensor([[through(f, gain, seed)[1] for gain in gains] for seed in range(5)])
    for name, f in norms.items()
}
g_norm, g_times = grads["LayerNorm"], grads["D times softmax"]  # (5, 5) each
assert (g_norm / g_norm[:, :1] - 1).abs().max() < 1e-2  # eps = 1e-5 beside a variance of 0.06
assert (g_times.max(-1).values / g_times.min(-1).values).min() > 1e5 and grads[
    "softmax"
].max() < 1e-10

# %%
plot.lines(
    gains,
    {name: values.log10() for name, values in grads.items()},
    xlog=True,
    colors={"D times softmax": "#B07A8C"},
    title="Only LayerNorm ignores the size of the weights before it",
    x="gain of the weights",
    y="log10 of the gradient at the input",
    caption="The same twelve layers; size of the gradient at the input relative to the "
    "gradient at the output. 0 means equal, -8 a hundred million times smaller.",
    alt="Over gains from 0.25 to 4 LayerNorm's gradient stays near 1. Through softmax it is "
    "below 1e-13 everywhere. Through D times softmax it rises from 1e-7 to 1000 and falls "
    "again.",
)

# %% [markdown]
# LayerNorm does not see a factor, so weights of any size give the same gradient at the input (within 1 % here, where $\epsilon$ is far below every variance).
# $D$ times softmax sees it: with small weights its rows are nearly uniform and the gradient shrinks at every layer, with large ones it becomes an argmax, and the gradient differs by many powers of ten from one draw of the weights to the next. Somebody would have to balance the weights by hand.

# %% [markdown]
# ### LayerNorm where softmax belongs
#
# Attention averages the values of several tokens, with shares as weights. What if the scores go through LayerNorm instead?
#
# **Predict:** five tokens have one value each. What happens to the average when all values are raised by 10?

# %%
scores = torch.tensor([2.0, 0.0, -1.0, 0.5, 1.0])  # (T,) how well each token matches
value = torch.tensor([0.2, 0.9, 0.4, 0.6, 0.8])  # (T,)
for name, w in {"softmax  ": F.softmax(scores, -1), "LayerNorm": normalize(scores)}.items():
    show(f"{name} weights", w)
    show(f"{name} output", (w * value).sum())
    show(f"{name} output, values + 10", (w * (value + 10)).sum(), digits=3)
assert (normalize(scores) * 10.5).sum().abs() < 1e-5  # float32, five products of order 10

# %% [markdown]
# With softmax, 0.43 lies between the smallest and the largest value, and it follows them when they rise by 10.
# With LayerNorm some weights are **negative**, and they sum to 0. The output lies below all values, and what the values have in common cancels: five tokens that agree on one number give 0, whatever the number.

# %% tags=["nbval-ignore-output"]
negative, outside = [], {"softmax": [], "LayerNorm": []}
for seed in range(20):
    g = torch.Generator().manual_seed(seed)
    scores, value = torch.randn(500, 8, generator=g), torch.rand(500, 8, generator=g)  # (B, T)
    for name, w in {"softmax": F.softmax(scores, -1), "LayerNorm": normalize(scores)}.items():
        out = (w * value).sum(-1)  # (B,)
        outside[name].append(
            ((out < value.amin(-1) - 1e-6) | (out > value.amax(-1) + 1e-6))
            .float()
            .mean()
            .item()
        )
    negative.append((normalize(scores) < 0).float().mean().item())
print(f"negative LayerNorm weights: {100 * min(negative):.0f} to {100 * max(negative):.0f} %")
print(
    f"outputs outside all values: {100 * min(outside['LayerNorm']):.0f} to "
    f"{100 * max(outside['LayerNorm']):.0f} % over 20 seeds"
)
assert (
    0.45 < min(negative) < max(negative) < 0.55
    and min(outside["LayerNorm"]) > 0.5
    and max(outside["softmax"]) == 0
)

# %% [markdown]
# An average with shares (a *convex combination*) never leaves the range of its values; this one does more often than not (8 tokens, random scores and values). And a mask breaks it: a score of $-\infty$, "do not look here", is a share of exactly 0.

# %%
masked = torch.tensor(
    [2.0, 0.0, -1.0, -math.inf, -math.inf]
)  # (T,) the last two tokens are padding
show("softmax  ", F.softmax(masked, -1))
show("LayerNorm", normalize(masked))

# %% [markdown]
# ## 5.8 Clinic: the query that never learns
#
# A layer pools the tokens of a sentence into one vector: a learned query scores each token, softmax makes weights, the output is the weighted average.
# This slip stood in several public repositories. The code runs, and the shapes are right.


# %%
def attention_pool(x, query):
    """x: (B, T, C) tokens. query: (C, 1), learned. Returns (B, C), an average of the tokens."""
    scores = x @ query  # (B, T, 1)
    weights = F.softmax(scores, dim=-1)  # (B, T, 1)
    return (weights * x).sum(1)  # (B, C)


# %%
g = torch.Generator().manual_seed(58)
x = torch.randn(2, 3, 4, generator=g)  # (B, T, C)
query = torch.randn(4, 1, generator=g, requires_grad=True)  # (C, 1)
out = attention_pool(x, query)  # (B, C)
(out * torch.randn(2, 4, generator=g)).sum().backward()
show("gradient of the query", query.grad)
print("same output with ten times the query:", torch.equal(out, attention_pool(x, 10 * query)))
print("output of a sentence of ones:", attention_pool(torch.ones(1, 3, 4), query).tolist())

# %% [markdown]
# Three symptoms. The gradient of the query is exactly 0. The query does not matter. And the average of three equal tokens is 3 times that token.

# %% tags=["exercise"] id="ex-5-5"
# Exercise 5.5 · ●●○○○ · 3 min
# What is wrong? One of these words:
# "saturation"  the scores are so large that softmax has become argmax
# "detached"    the query is cut off from the gradient
# "shift"       the query adds the same number to all scores, which softmax ignores
# "scale"       softmax ignores the scale of the query
# "axis"        softmax runs along an axis where it has nothing to compare
### BEGIN SOLUTION
pool_diagnosis = "axis"
### END SOLUTION

# %% tags=["check"]
check.pool_diagnosis(pool_diagnosis)


# %% tags=["exercise"] id="ex-5-6"
# Exercise 5.6 · ●●○○○ · 5 min
def mended_pool(x, query):
    """attention_pool, mended.

    x: (B, T, C) tokens. query: (C, 1).
    Returns (B, C) in x's dtype: for each sample the average of its tokens, weighted by the
    softmax of their scores x @ query, which may be of any size. Gradients flow to both.
    """
    ### BEGIN SOLUTION
    weights = F.softmax(x @ query, dim=1)  # (B, T, 1)
    return (weights * x).sum(1)  # (B, C)
    ### END SOLUTION


# %% tags=["check"]
check.mended_pool(mended_pool)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Print the weights of `attention_pool`. Which numbers should sum to 1: those of one token, or those of one sentence?
# Either name that axis, or remove the axis of size 1 before the softmax and bring it back after.
#
# </details>
#
# The scores have shape (B, T, 1), and `dim=-1`, right nearly everywhere else, is an axis with one entry. A share among one is 1, whatever the score: the output is the *sum* of the tokens.
# Perhaps it goes unnoticed because a network can live with a sum. The test that finds it takes one line: **do the weights sum to 1 along the axis you mean?**
#
# LayerNorm, put on the same axis by the same slip, fails in its own way.

# %%
scores = (x @ query).detach()  # (B, T, 1)
show("softmax, dim=-1", F.softmax(scores, dim=-1)[0, :, 0])
show("nn.LayerNorm(1)", nn.LayerNorm(1)(scores)[0, :, 0])
show("sum of softmax, dim=1", F.softmax(scores, dim=1)[0, :, 0].sum())

# %% [markdown]
# Over one entry softmax is always 1 and LayerNorm always 0: sum 1, sum 0. Both promises are kept, and all information is gone.
#
# ## Take-away
#
# - Subtract each row's **largest** entry before the exponentials. Softmax cannot see a shift, and then the sum lies between 1 and $D$.
# - Shift: neither sees it. Factor $a > 0$: LayerNorm does not see it (at $\epsilon = 0$; before gain and bias), softmax goes from uniform to argmax. Sign: LayerNorm is odd.
# - For $D = 3$ softmax ends in a triangle, LayerNorm on the circle of sum 0 and radius $\sqrt 3$, inside it when $\epsilon > 0$.
# - $J = \mathrm{diag}(p) - pp^\top$ has rank $D-1$; LayerNorm's Jacobian has rank $D-2$ at $\epsilon = 0$. Each thing a layer cannot see costs a direction.
# - A stack of softmax layers erases differences (twelve random layers, measured); LayerNorm in attention makes weights that sum to 0, so some are negative. Weights that are all 1: look at the axis.
#
# ## On your own
#
# 1. A classifier with 10 classes sends its last row through LayerNorm (no gain, no bias) and then through softmax. What is the largest probability that it can ever give? (The largest normalized entry is $\sqrt{D-1}$, and the nine others are then equal.)
# 2. Attention divides its scores by $\sqrt{d}$ before the softmax ($d$ is the length of a query). Which temperature is that? If a LayerNorm stood between the division and the softmax, what would the division still do?
# 3. The Jacobian of softmax is symmetric. Is LayerNorm's, before gain and bias? And after? Try `torch.func.jacrev`.
#
# ## Further reading
#
# - Bridle (1990), *Probabilistic interpretation of feedforward classification network outputs*: softmax as the last layer of a classifier, by the author who named it.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, section 5.1 and table 1: which changes of weights and data the norms do not see.
# - Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*: the plane and the sphere.
# - `localminimum/R-net#8`, `DEEP-PolyU/KEQA_WSDM19#2` and `catalyst-team/catalyst#285` on GitHub: attention weights that were all 1, because softmax ran along an axis of size 1.

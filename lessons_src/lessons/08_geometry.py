# %% [markdown]
# # 8 · Geometry: a projection and a sphere
#
# A net is to read handwritten digits. Each of the 64 numbers of an image becomes a *token* of four numbers, and a linear layer reads all tokens.
# Because LayerNorm helps so many nets, somebody normalizes each number first.

# %% tags=["hide-input"]
from functools import partial
from numbers import Integral

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)

split = data.digits_split(0)
X, labels = split.x_train.flatten(1).double(), split.y_train  # (1297, 64), (1297,)


def read_digits(tokens, seed=0, steps=200):
    """Train weight, bias and a linear layer on tokens(x, weight, bias) with plain SGD.

    Returns the percentage of test digits that are read right.
    """
    g = torch.Generator().manual_seed(seed)
    weight, bias = torch.randn(2, 64, 4, dtype=torch.float64, generator=g)  # (K, E) each
    reader = torch.zeros(256, 10, dtype=torch.float64)  # (K E, 10)
    learned = [t.clone().requires_grad_() for t in (weight, bias, reader)]
    scores = lambda x: tokens(x, *learned[:2]).flatten(1) @ learned[2]  # (B, 10)
    for _ in range(steps):
        batch = torch.randint(len(X), (100,), generator=g)
        loss = F.cross_entropy(scores(X[batch]), labels[batch])
        gradients = torch.autograd.grad(loss, learned)
        with torch.no_grad():
            for parameter, gradient in zip(learned, gradients, strict=True):
                parameter -= 0.05 * gradient
    with torch.no_grad():
        guess = scores(split.x_test.flatten(1).double()).argmax(1)
    return 100 * (guess == split.y_test).double().mean().item()


# %%
def patient(x, weight, bias):
    """x (B, K), weight and bias (K, E) -> tokens (B, K, E)."""
    x = F.layer_norm(x.unsqueeze(-1), (1,))  # (B, K, 1): each number is normalized by itself
    return x * weight + bias  # (B, K, E)


print(f"digits read right after training: {read_digits(patient):.0f} %")

# %% tags=["hide-input"]
# One class for all digits: 7.6 to 11.2 % over 32 runs (16 seeds, two splits of the digits).
assert read_digits(patient, seed=1) < 15

# %% [markdown]
# That is one answer for all 500 digits: any such answer gets 8 to 13 % of them right. There was no error, no `nan` and no warning.
# You will see why once you see LayerNorm as two moves in space.
#
# *About 58 min.* **You'll be able to**
# - write LayerNorm as a projection and a scaling, without mean and variance;
# - say which inputs give the same output, and what $\epsilon$ changes about that;
# - build RMSNorm and say what it leaves out;
# - say which changes of weights and data LayerNorm and RMSNorm do not see, and on which conditions;
# - say how the length of weights before a normalization layer (a *norm*, for short) sets their pace of learning.
#
# **You need** [lesson 3](03_epsilon.ipynb) ($\epsilon$), [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 6](06_batchnorm.ipynb) (BatchNorm), [lesson 7](07_backward.ipynb) (the Jacobian).
#
# **Recall 8.1:** at $\epsilon = 0$, gain 1 and bias 0: which sums over a row's gradient $dx$ are always 0?
# - [ ] only the sum of $dx$ :: That one is 0, because a shift of the row is not seen. A stretch is not seen either.
# - [x] the sum of $dx$ and the sum of $dx \cdot \hat x$ :: Neither a shift nor a stretch of the row changes the output, so neither gets a gradient.
# - [ ] none, in general :: Moving the row along $\mathbf 1$ or along $\hat x$ does not change the output at $\epsilon = 0$.
#
# **Recall 8.2:** which change of a row leaves its softmax as it is?
# - [x] adding 3 to all numbers :: The factor $e^3$ cancels.
# - [ ] multiplying all numbers by 3 :: That sharpens the distribution. Softmax forgets the shift only.
# - [ ] both :: Both leave LayerNorm as it is, at $\epsilon = 0$. Softmax forgets the shift only.
#
# **Recall 8.3:** the squared distances of eight numbers from their mean sum to 32. What is the $\sigma^2$ of LayerNorm?
# - [ ] 32/7 :: That is the unbiased estimate. LayerNorm divides by D.
# - [ ] 2 :: That is σ, the root.
# - [x] 4 :: 32 divided by D = 8.

# %% [markdown]
# ## 8.1 First move: a projection
#
# What does subtracting the mean do to a row, seen as one arrow in a space of $D$ dimensions? It is a matrix product:
#
# $$x - \mu\mathbf 1 = Px, \qquad P = I - \tfrac1D\,\mathbf 1\mathbf 1^\top$$
#
# where $\mathbf 1$ is the arrow of all ones and $\mathbf 1\mathbf 1^\top$ the matrix of all ones.
#
# **Predict 8.1:** what does $P$ make of the row (7, 7, 7, 7, 7)? And what does a second $P$ do to any row?
# - [ ] zeros; the second time every row becomes zeros :: Zeros it is. But after the first time a row has mean 0, so there is nothing left to subtract.
# - [x] zeros; the second time nothing changes :: The mean 7 is taken away, and a row with mean 0 loses nothing.
# - [ ] the same row; the second time nothing changes :: The mean of that row is 7, and it is subtracted from each number.

# %%
P = torch.eye(5) - 1 / 5  # (D, D)
row = torch.tensor([1.0, 2.0, 4.0, 8.0, 10.0])  # (D,) mean 5
show("P x", P @ row, digits=1)
show("P P x", P @ (P @ row), digits=1)
show("P (7 7 7 7 7)", P @ torch.full((5,), 7.0), digits=1)

# %% tags=["hide-input"]
assert (P @ P - P).abs().max() < 1e-6 and (P.T == P).all()  # float32 numbers of order 1

# %% [markdown]
# A symmetric matrix with $PP = P$ is an **orthogonal projection**: it drops an arrow straight down onto a flat set.
# So subtracting the mean projects onto the plane of all rows that sum to 0, which has $D-1$ dimensions, and the one direction that is lost is $\mathbf 1$.
#
# ## 8.2 Second move: onto a sphere
#
# What does dividing by the standard deviation do to the projected row? Up to a factor, the standard deviation *is* the length of that row: $\|Px\|^2 = \sum_i (x_i-\mu)^2 = D\,\sigma^2$. So
#
# $$\hat x \;=\; \frac{Px}{\sqrt{\sigma^2+\epsilon}} \;=\; \sqrt D\,\frac{Px}{\sqrt{\|Px\|^2 + D\,\epsilon}}$$
#
# At $\epsilon = 0$ every row whose numbers are not all equal ends at the distance $\sqrt D$ from the origin (a constant row is 0/0 there).
# So before gain and bias LayerNorm is **a projection and a scaling to the radius $\sqrt D$**. Write it so, for any $\epsilon$.


# %% tags=["exercise"] id="ex-8-1"
# Exercise 8.1 · ●●○○○ · 4 min
def project_and_scale(x, eps=1e-5):
    """LayerNorm of the last axis, without gain and bias, as a projection and a scaling.

    x: (..., D) float tensor.
    Returns a tensor of x's shape: sqrt(D) P x / sqrt(|P x|^2 + D eps).
    Build P with x's dtype and device, and try to do without mean, var and std. PyTorch's own
    norms (F.layer_norm, F.group_norm and the like) are no answer.
    """
    ### BEGIN SOLUTION
    D = x.shape[-1]
    P = torch.eye(D, dtype=x.dtype, device=x.device) - 1 / D  # (D, D)
    p = x @ P  # (..., D): P is symmetric, so a row times P is P times the row
    return D**0.5 * p / torch.sqrt((p * p).sum(-1, keepdim=True) + D * eps)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.project_and_scale(project_and_scale)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Four lines: `D`, `P` (as in 8.1), the projected rows `x @ P`, and the formula with `.sum(-1, keepdim=True)` for the squared length.
#
# </details>
#
# **Predict 8.2:** with $\epsilon = 10^{-5}$ instead of 0, where do the rows end?
# - [ ] still on the sphere, up to rounding :: The numerator is as long as $\sqrt{D\sigma^2}$, but the denominator has grown by ε.
# - [ ] outside it :: ε makes the denominator larger, so the output is shorter.
# - [x] inside it :: The length is $\sqrt{D\,\sigma^2/(\sigma^2+\epsilon)}$, which is less than $\sqrt D$ for any ε > 0.

# %%
g = torch.Generator().manual_seed(82)
rows = torch.randn(1000, 7, dtype=torch.float64, generator=g)  # (B, D)
for scale in (1.0, 0.01, 0.001):
    length = F.layer_norm(scale * rows, (7,)).norm(dim=-1).mean()  # eps = 1e-5
    show(f"rows times {scale}: mean length / sqrt(D)", length / 7**0.5, digits=3)

# %% tags=["hide-input"]
length = F.layer_norm(rows, (7,), eps=0.0).norm(dim=-1)  # (B,)
assert (length - 7**0.5).abs().max() < 1e-12  # eps = 0: on the sphere, up to rounding
assert (F.layer_norm(rows, (7,)).norm(dim=-1) < 7**0.5).all()  # eps > 0: inside, always
assert F.layer_norm(rows, (7,), eps=0.0).abs().max() <= 6**0.5 + 1e-12  # lesson 3's bound

# %% [markdown]
# Rows with a variance far above $\epsilon$ end just inside the sphere, rows with a variance below $\epsilon$ at less than 0.71 of its radius.
#
# ### The picture for three features
#
# With $D = 3$ the plane of zero sum cuts the sphere of radius $\sqrt3$ in a circle. For gains that are not 0, gain and bias then take the circle to an **ellipse**: $\gamma$ stretches the three axes, $\beta$ shifts.
# Move the first slider from 0 to 3 to follow nine rows. At 2 and 3 the second shows what $\epsilon$ does. (The picture below them needs no running kernel.)

# %% tags=["hide-input"]
up, aside = (
    torch.tensor([1.0, 1.0, -2.0]) / 6**0.5,
    torch.tensor([1.0, -1.0, 0.0]) / 2**0.5,
)  # (3,) each, sum 0, length 1
around = lambda angle: angle.cos()[:, None] * aside + angle.sin()[:, None] * up  # (n, 3)
circle = 3**0.5 * around(torch.linspace(0, 2 * torch.pi, 61))  # (61, 3)
radii, lifts = torch.tensor([0.7, 2.4, 1.0] * 3), torch.tensor([1.4, 0.5, 1.0] * 3)  # (B,) each
cloud = radii[:, None] * around(torch.linspace(0.2, 5.8, 9)) + lifts[:, None]  # (B, 3)
weight3, bias3 = torch.tensor([1.3, 0.5, 0.8]), torch.tensor([0.3, 0.7, 0.9])  # (3,) each
SPACE = dict(
    sphere=3**0.5,
    plane=[1, 1, 1],
    view=(5, 72),
    limit=2.5,
    size=(7, 5),
    x="feature 1",
    y="feature 2",
    z="feature 3",
)


def on_its_way(step, eps=0.0):
    """The cloud after `step` of three moves: project, scale, gain and bias; (B, 3)."""
    flat = cloud - cloud.mean(-1, keepdim=True)  # (B, 3)
    y = F.layer_norm(cloud, (3,), eps=eps)  # (B, 3)
    stations = [cloud, flat, y, y * weight3 + bias3]
    before = min(int(step), 2)
    return torch.lerp(stations[before], stations[before + 1], step - before)  # (B, 3)


# %% tags=["hide-input", "nbval-ignore-output"]
wide = {"layout": widgets.Layout(width="70%"), "style": {"description_width": "140px"}}
moves = widgets.FloatSlider(
    value=1.5,
    min=0,
    max=3,
    step=0.25,
    description="moves done",
    continuous_update=False,
    **wide,
)
epsilon = widgets.FloatLogSlider(
    value=1e-5, min=-5, max=2, step=1, description="epsilon", readout_format=".0e", **wide
)
picture = widgets.Image(format="png", width=700)


def redraw(change=None):
    """Draw the cloud after the moves that the slider asks for."""
    picture.value = plot.scatter3d(
        {"rows": on_its_way(moves.value, epsilon.value)},
        curves={"circle": circle, "ellipse": circle * weight3 + bias3},
        colors={"rows": "LayerNorm", "circle": "#9AA4AB", "ellipse": "#2B2F33"},
        title=f"After {moves.value:g} of three moves",
        show=False,
        caption="Project, scale, then gain and bias.",
        alt="Rows on their way to the circle and the ellipse.",
        **SPACE,
    ).png


moves.observe(redraw, "value")
epsilon.observe(redraw, "value")
redraw()
widgets.VBox([moves, epsilon, picture])

# %% tags=["hide-input"]
way = torch.stack([cloud[0], on_its_way(1)[0], on_its_way(2)[0]])  # (3, 3)
plot.scatter3d(
    {"rows": cloud, "projected": on_its_way(1), "scaled": on_its_way(2)},
    curves={"circle": circle, "one row's way": way, "gain and bias": circle * weight3 + bias3},
    colors={
        "rows": "none",
        "projected": "#A9B2B8",
        "scaled": "LayerNorm",
        "circle": "LayerNorm",
        "one row's way": "#7A858C",
        "gain and bias": "#2B2F33",
    },
    title="LayerNorm of three features: a plane, a circle, an ellipse",
    caption="Nine rows of three features at ε = 0: dark gray as they come, light gray "
    "projected "
    "onto the plane of zero sum, blue scaled to radius √3. Gain and bias take the circle "
    "to the black ellipse. Wire frame: the sphere of radius √3.",
    alt="A sphere cut by a plane through its center, axes from -2.5 to 2.5. Scattered gray "
    "points lie off the plane; light points are their feet on the plane; blue points lie on "
    "the circle where plane and sphere meet. A line follows one row through these three "
    "stations. A black ellipse, tilted and shifted, is where gain and bias take the circle.",
    **SPACE,
)

# %% [markdown]
# ### Two features, and one
#
# For $D = 2$ the plane is a line, and a sphere on a line is two points.
#
# **Predict 8.3:** what comes out of the rows $[0, 5]$, $[0, -0.2]$ and $[0, 0.001]$, with $\epsilon = 10^{-5}$?
# - [ ] three rows, the larger the difference the larger the output :: The length is divided out, as far as ε allows.
# - [ ] [−1, 1], [1, −1] and [−1, 1] :: True of the first two. In the third the variance is 2.5e-7, far below ε.
# - [x] [−1, 1], [1, −1], and for the third a pair well inside ±1 :: Its standard deviation is 0.0005, and $0.0005/\sqrt{0.0005^2+10^{-5}} = 0.156$.

# %%
pairs = torch.tensor([[0.0, 5.0], [0.0, -0.2], [0.0, 0.001]])  # (B, D) = (3, 2)
show("two features", F.layer_norm(pairs, (2,)), digits=3)
show("one feature", F.layer_norm(torch.tensor([[5.0], [-0.2]]), (1,)))

# %% [markdown]
# Two features tell only *which is larger*, as far as $\epsilon$ allows, so never test a norm with $D = 2$. One feature is its own mean, so for $\epsilon > 0$ it gives 0 before the bias, in float32 and float64 exactly.
# In one sentence: LayerNorm scales what the projection leaves to the radius $\sqrt D$, or to less for $\epsilon > 0$.
#
# ## 8.3 A second time
#
# What does a second LayerNorm do to the output of a first one, before gain and bias? At $\epsilon = 0$ nothing, for any row that is not constant, because that output already lies in the plane and on the sphere: LayerNorm is **idempotent** there.
# What $\epsilon > 0$ changes about that is in [Deeper](#A-second-time,-with-epsilon).

# %% tags=["hide-input"]
once = F.layer_norm(rows, (7,), eps=0.0)  # (B, D)
# a second pass is rounding: float64 numbers up to 2.4
assert (F.layer_norm(once, (7,), eps=0.0) - once).abs().max() < 1e-13

# %% [markdown]
# ## 8.4 What gets through: the spectrum of the Jacobian
#
# Which small changes of a row reach the output, and how strongly? With $r = 1/\sqrt{\sigma^2+\epsilon}$, the Jacobian of [lesson 7](07_backward.ipynb) before gain and bias is
#
# $$J = r\,\big(P - \tfrac1D\,\hat x\hat x^\top\big).$$
#
# It is symmetric, so it multiplies a change of the row by a fixed factor along each of $D$ directions at right angles to one another. These factors are its **eigenvalues**, and all together its **spectrum**. For a row that is not constant:
# - along $\mathbf 1$, a shift: 0;
# - along $\hat x$, a stretch: $r\,\frac{\epsilon}{\sigma^2+\epsilon}$, because $\|\hat x\|^2 = D\,\frac{\sigma^2}{\sigma^2+\epsilon}$;
# - along the other $D-2$ directions: $r$.
#
# **Predict 8.4:** at $\epsilon = \sigma^2$, how much of a stretch gets through, compared with the other $D-2$ directions?
# - [ ] nothing :: That is so at ε = 0 only.
# - [x] half as much :: $\epsilon/(\sigma^2+\epsilon) = 1/2$.
# - [ ] just as much :: That is the limit for an ε far above the variance.

# %%
x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 10.0], dtype=torch.float64)  # (D,) = (6,)
var = x.var(correction=0)
for share in (0.0, 0.1, 1.0, 10.0):
    ln = partial(F.layer_norm, normalized_shape=(6,), eps=share * var.item())
    J = torch.func.jacrev(ln)(x)  # (D, D)
    slopes = torch.linalg.eigvalsh(J).flip(0)  # (D,) the largest first
    show(f"eps = {share:4} var: eigenvalues times sigma", slopes * var.sqrt(), digits=3)

# %% tags=["hide-input"]
for share in (0.0, 0.1, 1.0, 10.0):
    eps = share * var.item()
    J = torch.func.jacrev(lambda x, eps=eps: F.layer_norm(x, (6,), eps=eps))(x)  # (D, D)
    r = (var + eps).rsqrt()
    expected = torch.stack([*[r] * 4, r * eps / (var + eps), 0 * r])  # (D,)
    found = torch.linalg.eigvalsh((J + J.T) / 2).flip(0)  # (D,)
    assert (J - J.T).abs().max() < 1e-12 and (found - expected).abs().max() < 1e-12  # float64

# %% tags=["hide-input"]
shares = torch.logspace(-4, 1, 61, dtype=torch.float64)  # (61,) eps in units of the variance
plot.lines(
    shares,
    {
        "D − 2 other directions": (1 + shares).rsqrt(),
        "along x̂ (stretch)": shares * (1 + shares) ** -1.5,
        "along 1 (shift)": 0 * shares,
    },
    xlog=True,
    colors={
        "D − 2 other directions": "LayerNorm",
        "along x̂ (stretch)": "#2B2F33",
        "along 1 (shift)": "#8A949B",
    },
    vref={"ε = σ²": 1.0},
    title="A shift is always forgotten, a stretch only while ε is far below the variance",
    x="ε in units of the row's variance σ²",
    y="eigenvalue, in units of 1/σ",
    caption="The three different eigenvalues of LayerNorm's Jacobian before gain and bias: "
    "r, r·ε/(σ²+ε) and 0, with r = 1/√(σ²+ε), for D ≥ 3 and a row that is not constant.",
    alt="Three curves over eps from 0.0001 to 10 variances on a logarithmic axis. The "
    "eigenvalue of the D minus 2 other directions is 1 and falls once eps exceeds a tenth of "
    "the variance. "
    "The one along x hat rises from 0 to 0.385 at twice the variance and then falls, close to "
    "the first. The one along the ones is 0.",
)

# %% tags=["hide-input"]
# The bump of the second curve is at eps = 2 variances, and 0.385 high.
assert abs(shares[(shares * (1 + shares) ** -1.5).argmax()] - 2) < 0.3

# %% [markdown]
# The two lost directions say something about whole rows, too. At $\epsilon = 0$, for every row that is not constant, every $a > 0$ and every $b$,
#
# $$\operatorname{LN}(a\,x + b\,\mathbf 1) = \operatorname{LN}(x).$$
#
# Different rows have one output, so no gain and bias make LayerNorm the identity on all rows.
# In one sentence: everything passes with the factor $r$, except a shift, always, and a stretch, as far as $\epsilon$ is small against the variance.
#
# ## 8.5 RMSNorm: the sphere without the projection
#
# What if we leave out the first move, and only scale to the radius $\sqrt D$? The squared length over $D$ is the mean of the squares, so that is
#
# $$\operatorname{RMSNorm}(x) = \sqrt D\,\frac{x}{\sqrt{\|x\|^2 + D\,\epsilon}} = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \epsilon}},$$
#
# times a gain; there is no bias. [Zhang & Sennrich](https://arxiv.org/abs/1910.07467) proposed it in 2019, and many large language models use it, the Llama family among them.

# %%
fives = torch.full((3,), 5.0)  # (D,)
show("RMSNorm of [5, 5, 5]", F.rms_norm(fives, (3,), eps=1e-5))
show("LayerNorm of [5, 5, 5]", F.layer_norm(fives, (3,), eps=1e-5))
centered = rows - rows.mean(-1, keepdim=True)  # (B, D)
gap = (F.rms_norm(centered, (7,), eps=1e-5) - F.layer_norm(rows, (7,), eps=1e-5)).abs().max()
print("RMSNorm after the projection is LayerNorm, to 12 decimals:", (gap < 1e-12).item())

# %% [markdown]
# RMSNorm keeps the direction $\mathbf 1$, so LayerNorm is RMSNorm after a projection, for any $\epsilon$. At $\epsilon = 0$ RMSNorm forgets the length alone, and the *mean square* of its output is 1 for every row that is not all zeros; the variance is 1 only if the row has mean 0.
#
# Now build a module that can take the place of `nn.RMSNorm`. The folded class `_Shell` has all but the formula. For the default `eps=None` PyTorch 2.13 takes the machine epsilon, `torch.finfo(...).eps`, of the type that it computes in, which for half types is float32.


# %% tags=["export", "hide-input"]
class _Shell(nn.Module):
    """All of nn.RMSNorm but its formula: the sizes, the gain, the axes, what is refused."""

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        one = isinstance(normalized_shape, Integral)
        sizes = (normalized_shape,) if one else tuple(normalized_shape)
        if not sizes or min(sizes) < 0:
            raise RuntimeError(
                f"normalized_shape is {normalized_shape!r}, expected sizes, like x.shape[-1]."
            )
        self.normalized_shape, self.eps = sizes, eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = nn.Parameter(torch.ones(sizes, device=device, dtype=dtype))
        self.register_parameter("weight", weight)

    def reset_parameters(self):
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def axes(self, x):
        """The axes of x that are normalized together; an error if x does not fit."""
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (*, {str(self.normalized_shape)[1:]}."
            )
        if not x.is_floating_point():
            raise NotImplementedError(
                f"RMSNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        return axes

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


# %% tags=["exercise", "export"] id="ex-8-2"
# Exercise 8.2 · ●●●○○ · 5 min
class RMSNorm(_Shell):
    """Root mean square normalization with a learned gain: takes the place of torch.nn.RMSNorm.

    normalized_shape: sizes of the last axes that are normalized together.
    self.eps: added to the mean square, under the root; None: the machine epsilon of the type
        that is computed in.
    self.weight: the gain, of shape normalized_shape; None without elementwise_affine.
    x: (..., *normalized_shape). Returns x's shape and dtype, computed in float32 at least.
    """

    def forward(self, x):
        axes = self.axes(x)
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)
        y = y if self.weight is None else y * self.weight
        return y.to(x.dtype)
        ### END SOLUTION


# %% tags=["check"]
check.rms_norm_module(RMSNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Write the formula with `.mean(axes, keepdim=True)`. Widen first, `x.to(torch.promote_types(x.dtype, torch.float32))`, and return in `x.dtype`.
# Choose `eps` after widening (`is None`: an eps of 0 is an eps, too), and multiply by the gain only if there is one.
#
# </details>

# %% tags=["hide-input"]
layer, theirs = RMSNorm((4, 6)), nn.RMSNorm((4, 6))
g = torch.Generator().manual_seed(85)
theirs.load_state_dict({"weight": torch.randn(4, 6, generator=g)})
layer.load_state_dict(theirs.state_dict())
images = torch.randn(3, 4, 6, generator=g)  # (B, C, D)
assert (layer(images) - theirs(images)).abs().max() < 2e-6  # float32, numbers up to 5

# %% [markdown]
# ## 8.6 The invariance table
#
# In many nets a norm reads the whole output of a linear layer without a bias, $a = Wx$. Which changes of the weights or of the data does the norm not see? Table 1 of the LayerNorm paper answers for three norms and six changes; a sample is a *case* there.
# (WeightNorm divides each weight vector, a row of $W$, by its length and never looks at the data.)
#
# **Predict 8.5:** RMSNorm at $\epsilon = 0$ looks at one case at a time. Which of these does it not see: the whole $W$ times 3, one row of $W$ times 3, one case times 3, one vector added to all data?
# - [ ] only the whole $W$ times 3 :: One case times 3 multiplies all of its $a$ by 3 as well, and RMSNorm looks at each case by itself.
# - [ ] all but the last :: One row of $W$ times 3 multiplies one entry of $a$ only. The factor must be common to all entries.
# - [x] the whole $W$ times 3 and one case times 3 :: Both multiply all of $a$ by 3, and a common positive factor is all that RMSNorm forgets.
#
# **Predict 8.6:** one vector $\delta$ is added to all rows of $W$. Which of the four norms does not see it?
# - [ ] BatchNorm :: It forgets what all cases of a *unit* have in common. Each case $x$ gets a different $\delta\cdot x$.
# - [x] LayerNorm :: In one case every unit gains the same number, $\delta\cdot x$: a shift along $\mathbf 1$, which the projection takes away.
# - [ ] WeightNorm :: It divides each row of $W$ by its length, and adding δ changes length and direction.
# - [ ] RMSNorm :: It forgets a common factor. A common shift it keeps.

# %% tags=["hide-input"]
norms = {  # x (N, D), W (H, D) -> (N, H), all at eps = 0, before gain and bias
    "BatchNorm": lambda x, W: (
        F.layer_norm((x @ W.T).T, x.shape[:1], eps=0.0).T
    ),  # LayerNorm along the batch axis
    "WeightNorm": lambda x, W: x @ F.normalize(W, dim=1).T,
    "LayerNorm": lambda x, W: F.layer_norm(x @ W.T, W.shape[:1], eps=0.0),
    "RMSNorm": lambda x, W: F.rms_norm(x @ W.T, W.shape[:1], eps=0.0),
}


def changes(x, W, g):
    """Return the six changes of the table, {name: (x, W)}; all factors are positive."""
    vector, shift = torch.randn(2, W.shape[1], dtype=W.dtype, generator=g)  # (D,) each
    one_row, one_case = torch.ones_like(W[:, :1]), torch.ones_like(x[:, :1])  # (H, 1), (N, 1)
    one_row[2], one_case[1] = 3.0, 3.0
    return {
        "W × 3": (x, 3 * W),
        "one vector\nadded to all\nrows of W": (x, W + vector),
        "one row\nof W × 3": (x, one_row * W),
        "all data × 3": (3 * x, W),
        "all data\nshifted": (x + shift, W),
        "one case × 3": (one_case * x, W),
    }


g = torch.Generator().manual_seed(86)
cases = torch.randn(9, 4, dtype=torch.float64, generator=g)  # (N, D)
units = torch.randn(5, 4, dtype=torch.float64, generator=g)  # (H, D)
changed = changes(cases, units, g)

table = {}  # {norm: six words}
for name, norm in norms.items():
    moved = [(norm(*pair) - norm(cases, units)).abs().max() for pair in changed.values()]
    table[name] = ["same" if change < 1e-12 else "changes" for change in moved]

# %% tags=["hide-input"]
said = {  # Table 1 of the paper; the last row is from RMSNorm's README
    "BatchNorm": "yes no yes yes yes no",
    "WeightNorm": "yes no yes no no no",
    "LayerNorm": "yes yes no yes no yes",
    "RMSNorm": "yes no no yes no yes",
}
for name, words in table.items():
    assert [word == "same" for word in words] == [word == "yes" for word in said[name].split()]
    for pair in changed.values():  # 0.3 is the least change of 24 seeds
        change = (norms[name](*pair) - norms[name](cases, units)).abs().max()
        assert change < 1e-12 or change > 0.1

# %% tags=["hide-input"]
plot.heat(
    [[float(word == "same") for word in words] for words in table.values()],
    list(norms),
    list(changed),
    texts=list(table.values()),
    limits=(0, 1.6),
    title="Four norms, and four different sets of changes that they do not see",
    x="what is done to weights or data",
    y="norm",
    size=(8.6, 3.4),
    caption="Does the output of the norm stay the same (to 1e-12, float64)? ε = 0, before gain "
    "and bias, positive factors, BatchNorm in training mode. 9 cases, 4 inputs, 5 units.",
    alt="A table of four norms and six changes, dark where the output stays the same. Scaling "
    "the whole matrix changes none. Adding one vector to all rows of W leaves LayerNorm alone "
    "the same; scaling one row leaves BatchNorm and WeightNorm the same; scaling all data all "
    "but WeightNorm; shifting all data BatchNorm alone; scaling one case LayerNorm "
    "and RMSNorm.",
)

# %% [markdown]
# Geometry explains the lower two rows. Both norms forget a common positive factor of $a$: of the whole matrix, of all data, of one case. LayerNorm also forgets a common shift, which only *one* vector added to all rows of $W$ makes here (**re-centering** $W$).
# For BatchNorm, LayerNorm and RMSNorm, every "same" about a factor needs $\epsilon = 0$, or a variance (for RMSNorm, a mean square) far above $\epsilon$.
#
# ## 8.7 Weights before a norm
#
# Let $W$ have no bias, or one that is multiplied along with it, and let its whole output go into one norm at $\epsilon = 0$ and nowhere else. Then the loss does not see the length $\|W\|$, the root of the sum of all squared entries. What does that do to training? From $L(cW) = L(W)$ for all $c > 0$ two facts follow:
# - along $W$ the loss is flat, so the gradient is **at right angles to $W$**;
# - the derivative of both sides is $c\,\nabla L(cW) = \nabla L(W)$, so $c$ times the weights get **the gradient divided by $c$**.
#
# Our net is digits → $W$ → LayerNorm ($\epsilon = 0$) → ReLU → a fixed output layer $V$ → cross-entropy. Only $W$ is trained.


# %%
def loss_and_gradient(W, V, batch, eps=0.0):
    """The loss of the net on some of the digits, and its gradient in W."""
    W = W.detach().requires_grad_()  # (H, D) = (32, 64)
    h = F.layer_norm(X[batch] @ W.T, W.shape[:1], eps=eps)  # (B, H)
    loss = F.cross_entropy(F.relu(h) @ V.T, labels[batch])
    return loss.item(), torch.autograd.grad(loss, W)[0]


# %%
g = torch.Generator().manual_seed(88)
W = torch.randn(32, 64, dtype=torch.float64, generator=g) / 8  # (H, D)
V = torch.randn(10, 32, dtype=torch.float64, generator=g) / 32**0.5  # (10, H)
first = torch.arange(64)
loss, gradient = loss_and_gradient(W, V, first)  # number, (H, D)
for c in (1.0, 10.0, 1000.0):
    same, scaled = loss_and_gradient(c * W, V, first)
    share = scaled.norm() / gradient.norm()
    print(f"{c:5.0f} W: loss {same:.4f}, length of the gradient {share:.4f} of that of W")

# %% tags=["hide-input"]
cosine = (W * gradient).sum() / (W.norm() * gradient.norm())
assert abs(cosine) < 1e-13  # float64; 0 in exact arithmetic
per_row = (W * gradient).sum(1)  # (H,) not 0 row by row: scaling one row alone is seen
assert per_row.abs().max() > 1e3 * per_row.sum().abs()

# %% [markdown]
# **Predict 8.7:** train from $10\,W$ with plain SGD (no momentum, no weight decay) at learning rate 0.5. At which rate does the run from $W$ have the same losses?
# - [ ] 0.5 :: The loss does not see the factor, but the gradient does: it is 10 times smaller.
# - [ ] 0.05 :: That is the smaller gradient alone. The arrow that it has to turn is longer as well.
# - [x] 0.005 :: The step is 10 times shorter, and the arrow that it turns is 10 times longer.
# - [ ] 50 :: That is the wrong way round: the long arrow is the one that turns slowly.

# %% tags=["hide-input"]
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


def train(c, optimizer, seed, steps=100, eps=0.0):
    """Train W from c times the weights of a seed.

    optimizer: function [W] -> a torch optimizer. eps: that of the norm.
    Returns losses (steps,), lengths of W (steps + 1,), and the angles of its turns (steps,).
    """
    g = torch.Generator().manual_seed(seed)
    W = nn.Parameter(c * torch.randn(32, 64, dtype=torch.float64, generator=g) / 8)  # (H, D)
    V = torch.randn(10, 32, dtype=torch.float64, generator=g) / 32**0.5  # (10, H)
    rule, losses, lengths, turns = optimizer([W]), [], [W.norm().item()], []
    for _ in range(steps):
        batch = torch.randint(len(X), (64,), generator=g)
        before = W.detach().clone()
        loss, W.grad = loss_and_gradient(W, V, batch, eps)
        rule.step()
        losses.append(loss)
        lengths.append(W.norm().item())
        cosine = (before * W.detach()).sum() / (lengths[-1] * lengths[-2])
        turns.append(cosine.clamp(max=1).arccos().item())
    return [torch.tensor(values, dtype=torch.float64) for values in (losses, lengths, turns)]


def plain(c, lr):
    """Five runs of plain SGD: losses (5, 100), lengths of W (5, 101)."""
    runs = [train(c, lambda W: SGD(W, lr), seed) for seed in range(5)]
    return torch.stack([run[0] for run in runs]), torch.stack([run[1] for run in runs])


# %%
slow, _ = plain(10, 0.5)  # (5, 100)
runs = {lr: plain(1, lr) for lr in (0.005, 0.05, 0.5, 50)}  # {lr: (losses, lengths)}
for lr, (losses, _) in runs.items():
    same = (losses - slow).abs().max() < 1e-12
    print(f"W at {lr:5}: the losses of 10 W at 0.5? {bool(same)}")

# %% tags=["hide-input"]
(alike, _), (ours, lengths) = runs[0.005], runs[0.5]  # (5, 100), (5, 101)
# float64, eps = 0: up to 1.4e-15 over 32 pairs (16 seeds, two splits)
assert (slow - alike).abs().max() < 1e-12
# 0.62 to 0.84 against 1.98 to 2.34 over 32 runs (16 seeds, two splits)
assert (slow - ours)[:, -10:].mean(1).min() > 0.8
share = (lengths[:, 0] / lengths[:, -1]).square()  # (5,)
assert (lengths.diff() > 0).all() and 0.7 < share.min() and share.max() < 0.9  # 0.80 to 0.85

# %% tags=["hide-input"]
plot.lines(
    range(100),
    {
        "10 W, rate 0.5": slow,
        "W, rate 0.5": ours,
        "W, rate 0.005": alike.mean(0).where(torch.arange(100) % 9 == 0, torch.nan),
    },
    colors={
        "10 W, rate 0.5": "#8A949B",
        "W, rate 0.5": "LayerNorm",
        "W, rate 0.005": "#2B2F33",
    },
    dots=["W, rate 0.005"],
    title="From 10 W, a rate of 0.5 does what 0.005 does from W",
    x="step of plain SGD",
    y="training loss",
    caption="Digits, W → LayerNorm (ε = 0) → ReLU → fixed output layer, batch 64, float64, no "
    "momentum, no weight decay. Dots: the mean of the same 5 seeds, every ninth step.",
    alt="Three loss curves over 100 steps, from 0.5 to 2.6. From W at rate 0.5 the loss falls "
    "from 2.5 to 0.7. From ten times W at rate 0.5 it only falls to 2.1, and the dots of W at "
    "rate 0.005 lie exactly on that curve.",
)

# %% [markdown]
# What counts for the loss is the direction $w = W/\|W\|$ alone. The gradient is $\nabla L(W) = \nabla L(w)/\|W\|$, so a step of plain SGD is exactly
#
# $$W - \eta\,\nabla L(W) = \|W\|\,\Big(w - \frac{\eta}{\|W\|^2}\,\nabla L(w)\Big).$$
#
# The direction moves as if $W$ had length 1 and the **effective learning rate** $\eta/\|W\|^2$.
#
# A step at right angles to $W$ makes $W$ longer (Pythagoras: $\|W_{t+1}\|^2 = \|W_t\|^2 + \eta^2\|\nabla L\|^2$), so under plain SGD with a constant $\eta$ and no weight decay that rate can only fall:

# %%
share = (lengths[:, 0] / lengths[:, -1]).square()  # (5,)
print(f"after 100 steps: {share.min():.2f} to {share.max():.2f} of the first effective rate")

# %% [markdown]
# Weight decay works against that: it changes nothing that the net computes, but it keeps $W$ shorter, so that each step changes its direction more.
#
# ### Three optimizers
#
# Which learning rate $\eta'$ and which weight decay $\lambda'$ make the run from $cW$ the same, for the loss, as the run from $W$ with $\eta$ and $\lambda$? Those with which each step from $cW$ ends at $c$ times the place where the step from $W$ ends.
# That depends on the rule. Adam divides by the gradient's own size; its `weight_decay` is added to the gradient before that division (an L2 penalty), whereas AdamW's is applied to $W$ directly.


# %% tags=["exercise"] id="ex-8-3"
# Exercise 8.3 · ●●●○○ · 6 min
def same_run(rule, c, lr, decay):
    """Settings with which the run from c W is, for the loss, the run from W with (lr, decay).

    W has no bias, and all of W x goes into one norm at eps = 0 and nowhere else. lr and decay
    are those of W's own parameter group. With the gradient g, one step makes of W
        "SGD"     W - lr * (g + decay * W)
        "Adam"    W - lr * u(g + decay * W)
        "AdamW"   W - lr * decay * W - lr * u(g)
    u(g) does not change when all gradients are multiplied by one number: Adam's own eps is 0.
    rule: one of the three names. c, lr: positive numbers; decay: a number, 0 or more.
    Returns (lr, decay) for the run from c W, two numbers.
    """
    ### BEGIN SOLUTION
    if rule == "SGD":
        return c**2 * lr, decay / c**2
    if rule == "Adam":
        return c * lr, decay / c**2
    return c * lr, decay / c
    ### END SOLUTION


# %% tags=["check"]
check.same_run(same_run)

# %% [markdown]
# <details><summary>Hint</summary>
#
# From $cW$ the gradient is $g/c$. For SGD, $cW - \eta'\,(g/c + \lambda' cW)$ should be $c\,\big(W - \eta\,(g + \lambda W)\big)$ for every $g$ and $W$: compare what multiplies $g$, then what multiplies $W$. For Adam, $g/c + \lambda' cW$ should be $g + \lambda W$ times one number; then compare the rest.
#
# </details>
#
# Your settings, tried on the net for 50 steps (SGD with momentum 0.9):

# %% tags=["hide-input"]
RULES = {  # SGD with momentum; Adam's own eps is 0, and no gradient here is exactly 0
    "SGD": lambda W, lr, decay: SGD(W, lr, momentum=0.9, weight_decay=decay),
    "Adam": lambda W, lr, decay: Adam(W, lr, eps=0.0, weight_decay=decay),
    "AdamW": lambda W, lr, decay: AdamW(W, lr, eps=0.0, weight_decay=decay),
}


def losses_of(rule, c, lr, decay):
    """The losses of 50 steps from c W; (50,)."""
    return train(c, lambda W: RULES[rule](W, lr, decay), 0, steps=50)[0]


# %%
for rule, lr, decay in [("SGD", 0.1, 0.01), ("Adam", 0.01, 0.01), ("AdamW", 0.01, 1.0)]:
    from_w = losses_of(rule, 1, lr, decay)  # (50,)
    from_ten = losses_of(rule, 10, *same_run(rule, 10, lr, decay))  # (50,)
    gap = (from_w - from_ten).abs().max()
    print(f"{rule:5} from W and from 10 W: the same losses? {bool(gap < 1e-12)}")

# %% [markdown]
# So, on the conditions that open this section, the length of $W$ changes nothing that the net computes, and under plain SGD it sets the pace at which $W$ learns. What $\epsilon$ changes about that is in [Deeper](#With-epsilon-in-the-norm).
#
# ## 8.8 Clinic: features that never arrive
#
# Why does the net of the opening read no digits? Transformers4Rec, a library for recommendation, had the same fault; one of its authors wrote that it might have cost their paper's experiments accuracy ([pull request 151](https://github.com/NVIDIA-Merlin/Transformers4Rec/pull/151)).
# It was also reported to PyTorch as a bug of LayerNorm ([issue 108956](https://github.com/pytorch/pytorch/issues/108956)).
#
# **Predict 8.8:** one number takes 1,000 different values, half of them negative, none of them 0. How many different tokens does the patient make of them?
# - [ ] 1,000 :: A norm over one number subtracts the mean of that one number, which is the number.
# - [ ] 2 :: Two would be left if only the size were lost. The projection takes the sign as well.
# - [x] 1 :: A sphere in zero dimensions: one number minus its own mean is 0, so every token is the bias.
#
# **Predict 8.9:** two cures come to mind: RMSNorm over the one number; or LayerNorm over the four numbers of $x\,w$, then the bias. How many different tokens do they make of those values, if $\epsilon$ is negligible?
# - [x] 2 and 2 :: $x/|x|$ is a sign; and $\operatorname{LN}(x\,w) = \operatorname{LN}(w)$ for x > 0 and its negative for x < 0.
# - [ ] 1,000 and 1,000 :: Both forget the size of x: it is a factor that all numbers under the norm share.
# - [ ] 2 and 1,000 :: For the second, x is a common factor of all four numbers, and a positive factor is forgotten.
# - [ ] 1 and 2 :: RMSNorm subtracts nothing, so the sign survives.

# %%
values = torch.linspace(-3, 3, 1000, dtype=torch.float64)[:, None]  # (B, K) = (1000, 1)
g = torch.Generator().manual_seed(89)
w, b = torch.randn(2, 1, 4, dtype=torch.float64, generator=g)  # (K, E) each
cures = {
    "patient": patient,
    "RMSNorm of the number": lambda x, w, b: F.rms_norm(x.unsqueeze(-1), (1,)) * w + b,
    "LayerNorm of x w": lambda x, w, b: F.layer_norm(x.unsqueeze(-1) * w, (4,), eps=0.0) + b,
}
for name, tokens in cures.items():
    count = len((1e6 * tokens(values, w, b)).round().unique(dim=0))  # equal to six decimals
    right = read_digits(tokens)
    print(f"{name:22} different tokens: {count}, digits read right: {right:.0f} %")

# %% tags=["hide-input"]
# 88.0 to 92.2 % over 32 runs (16 seeds, two splits); for RMSNorm of the number 86.8 to 91.8.
assert count == 2 and 80 < right < 96

# %% [markdown]
# For this net a sign for each pixel is enough to read 87 to 92 % of the digits (both cures, 32 runs each), so a fault like this can hide behind a fair accuracy.
#
# Now cure it. The check takes any way that keeps every value apart: it tries 24, and two tokens count as different if they are more than a thousandth of the largest distance apart.


# %% tags=["exercise"] id="ex-8-4"
# Exercise 8.4 · ●●○○○ · 3 min
def mended_tokens(x, weight, bias):
    """Turn each of K standardized numbers into a token: different values, different tokens.

    x: (B, K) float tensor. weight, bias: (K, E), both learned, a row of each for each feature.
    Returns (B, K, E), of x's dtype; gradients reach all three.
    The token of a feature depends on that feature alone, and a sample on no other sample.
    """
    ### BEGIN SOLUTION
    return (
        x.unsqueeze(-1) * weight + bias
    )  # they are standardized already, over the data set: no norm is needed
    ### END SOLUTION


# %% tags=["check"]
check.mended_tokens(mended_tokens)

# %% [markdown]
# <details><summary>Hint</summary>
#
# One way is to take something out. A different one is to normalize later, over the $E$ numbers, once the *bias* is in: then the rows $x\,w + b$ lie on a line, and its projection misses the origin unless $Pw$ and $Pb$ are parallel, so that for $E \ge 3$ the sphere sees a different direction for each $x$.
#
# </details>

# %%
print(f"digits read right with your tokens: {read_digits(mended_tokens):.0f} %")

# %% [markdown]
# Ask of every norm **how many numbers it reduces over**. Before the bias, LayerNorm over one number leaves 0 for every $\epsilon > 0$. With a negligible $\epsilon$, LayerNorm over two numbers and RMSNorm over one leave a sign, and so does LayerNorm over four multiples of one number.
#
# ## Take-away
#
# - LayerNorm projects onto the plane of zero sum and scales to the radius $\sqrt D$: rows that are not constant end on the sphere at $\epsilon = 0$, inside it for $\epsilon > 0$.
# - A shift of the row is never seen; a stretch is not seen at $\epsilon = 0$, and is seen where $\epsilon$ outweighs the variance.
# - RMSNorm scales and does not project, so LayerNorm is RMSNorm of the centered row.
# - The table: at $\epsilon = 0$ LayerNorm and RMSNorm do not see a positive factor on all of $W$, on all data or on one case; LayerNorm alone does not see one vector added to all rows of $W$.
# - If $W$ has no bias and all of $Wx$ goes into one norm at $\epsilon = 0$ and nowhere else, then the direction of $W$ learns at $\eta/\|W\|^2$ under plain SGD, and some other settings make the run from $cW$ that from $W$ (last two rows of the card).
#
# **Formula card**
#
# | | |
# |---|---|
# | LayerNorm | $\mu = \frac1D\sum_i x_i$, $\ \sigma^2 = \frac1D\sum_i (x_i-\mu)^2$, $\ \hat x = (x-\mu)/\sqrt{\sigma^2+\epsilon}$, $\ y = \gamma\,\hat x + \beta$ |
# | the same, in space | $\hat x = \sqrt D\,Px/\sqrt{\lVert Px\rVert^2 + D\epsilon}$, $\ P = I - \frac1D\mathbf 1\mathbf 1^\top$ |
# | Jacobian of $\hat x$ | $J = r\,(P - \frac1D\hat x\hat x^\top)$, $\ r = 1/\sqrt{\sigma^2+\epsilon}$, eigenvalues $r$, $r\epsilon/(\sigma^2+\epsilon)$, 0 |
# | RMSNorm | $y = \gamma\,x/\sqrt{\operatorname{mean}(x^2)+\epsilon}$ |
# | effective learning rate | $\eta/\lVert W\rVert^2$ (plain SGD; $W$ as in the last point above) |
# | from $cW$ the run of $(W, \eta, \lambda)$ | SGD: $(c^2\eta, \lambda/c^2)$; with Adam's own $\epsilon$ at 0, Adam with L2: $(c\,\eta, \lambda/c^2)$, AdamW: $(c\,\eta, \lambda/c)$; $W$ in a parameter group of its own |
#
# ## Deeper (optional, 8 min)
#
# ### With epsilon in the norm
#
# What [section 8.7](#8.7-Weights-before-a-norm) says holds at $\epsilon = 0$ in the norm, and for Adam with its own $\epsilon$ at 0. With Adam's default of $10^{-8}$, no decay and $c = 10$, the largest difference of the losses in 50 steps was $10^{-6}$ to $10^{-2}$ (32 pairs of runs on two splits of the digits).
#
# **Predict 8.10:** back to plain SGD, but with PyTorch's $\epsilon = 10^{-5}$ in the norm. For which $c$ are $(W, 0.5)$ and $(cW, 0.5\,c^2)$ very different runs?
# - [ ] c = 10 and c = 0.001 alike :: At c = 10 the variance of the norm's input is about 100, and ε is nothing against it.
# - [ ] c = 10 only, because the rate is now 50 :: The effective rate is the same, and ε is nothing against a variance of 100.
# - [x] c = 0.001 only :: The variance of the norm's input is about 1e-6 there, below ε: the norm no longer forgets the factor.

# %%
start, _, _ = train(1, lambda W: SGD(W, 0.5), 0, 60, eps=1e-5)  # (60,)
for c in (10.0, 0.001):
    other, _, _ = train(c, lambda W, c=c: SGD(W, 0.5 * c * c), 0, 60, eps=1e-5)  # (60,)
    print(f"c = {c:6}: largest difference of the loss {(other - start).abs().max():.2f}")

# %% tags=["hide-input"]
# 5e-6 to 0.0064 at c = 10 and 0.83 to 1.03 at c = 0.001, over 32 pairs (16 seeds, two splits)
assert (other - start).abs().max() > 0.5

# %% [markdown]
# ### A second time, with epsilon
#
# **Predict 8.11:** with $\epsilon = 10^{-5}$ and a row of standard deviation 0.001. What does the second pass do to the output of the first, before gain and bias?
# - [x] it more than triples it :: The first pass gives a standard deviation of 0.30, because ε outweighs the variance; for the second, 0.30 is large.
# - [ ] nothing to speak of :: True of a row of standard deviation 1, which is home after one pass.
# - [ ] it makes it smaller still, because ε is added again :: ε is the same, but the row is now 300 times larger.

# %%
steady = (
    torch.tensor([-1.0, -1, -1, -1, 2, 2], dtype=torch.float64) / 2**0.5
)  # (D,) mean 0, sigma 1
for s in (1.0, 0.001, 1e-6):
    out, passes = s * steady, []
    for _ in range(4):
        out = F.layer_norm(out, (6,))  # (D,)
        passes.append(out.std(correction=0))
    show(f"sigma {s}: after 1, 2, 3, 4 passes", passes, digits=3)

# %% [markdown]
# A second pass hardly changes rows whose variance is well above $\epsilon$, and it pulls the others outward.
#
# ### Where growth and decay balance
#
# The gradient makes $W$ longer, weight decay makes it shorter. Where do they balance? For the net of [section 8.7](#8.7-Weights-before-a-norm), under plain SGD with rate $\eta$ and decay $\lambda$ for $W$, one step adds $\eta^2\|\nabla L\|^2$ to $\|W\|^2$ and takes away about $2\eta\lambda\,\|W\|^2$, if $\eta\lambda$ is small.
# If the two are equal, the step's length over the length of $W$, $\eta\,\|\nabla L\|/\|W\|$, is $\sqrt{2\eta\lambda}$: about the angle by which $W$ turns in a step. Neither the loss nor the length at the start is in it ([van Laarhoven 2017](https://arxiv.org/abs/1706.05350); for AdamW and others [Kosson et al. 2024](https://arxiv.org/abs/2305.17212)).

# %% tags=["hide-input"]
turning = {
    f"from {c:g} W": torch.stack(
        [
            train(c, lambda W: SGD(W, 0.5, weight_decay=0.02), seed, steps=300)[2]
            .unflatten(0, (-1, 10))
            .mean(1)
            for seed in range(3)
        ]
    )
    for c in (0.3, 1.0, 3.0)
}  # {start: (3, 30)}

# %%
balance = (2 * 0.5 * 0.02) ** 0.5  # sqrt(2 lr decay), lr 0.5 and decay 0.02
print(f"predicted turn in a step: {balance:.2f} radians")
for name, turns in turning.items():
    begin, end = turns[:, 0].mean(), turns[:, 20:].mean()
    print(f"{name:10} steps 1 to 10: {begin:.2f}, steps 201 to 300: {end:.2f}")

# %% tags=["hide-input"]
for (
    turns
) in turning.values():  # 0.125 to 0.142 over 96 runs (16 seeds, two splits, three starts)
    assert 0.85 < turns[:, 20:].mean() / balance < 1.05

# %% tags=["hide-input"]
plot.lines(
    [10 * k + 5 for k in range(30)],
    turning,
    ylog=True,
    href={"√(2ηλ)": balance},
    colors={"from 0.3 W": "#2B2F33", "from 1 W": "LayerNorm", "from 3 W": "#8A949B"},
    markers=False,
    title="With weight decay, three starts end near one pace",
    x="step of SGD with weight decay",
    y="turn of W in one step (radians)",
    caption="The net of section 8.7, ε = 0, learning rate 0.5, decay 0.02, no momentum. "
    "Means of ten steps.",
    alt="Three curves of the turn in one step over 300 steps, on a logarithmic axis from 0.01 "
    "to 0.3. From short weights it starts high, from long ones low; all three end near "
    "the dashed line at 0.14.",
)

# %% [markdown]
# In 96 such runs (16 seeds, two splits of the digits, three starts) the mean turn of steps 201 to 300 was 0.125 to 0.142; the prediction is 0.141, and the longest weights get there last.
# So in this net, at $\epsilon = 0$, the decay of $W$ limits nothing that can be computed. Together with the learning rate it sets the pace, and $W$ grows or shrinks to the length that belongs to it.
#
# ### An ellipsoid that is flat in one direction
#
# For gains that are not 0, all outputs of LayerNorm satisfy $\sum_i (y_i - \beta_i)/\gamma_i = 0$. That is a plane, through the origin only if $\sum_i \beta_i/\gamma_i = 0$. On it, $\sum_i \big((y_i - \beta_i)/\gamma_i\big)^2 = D$ at $\epsilon = 0$, and less for $\epsilon > 0$.
#
# ### What can be folded away
#
# BatchNorm in evaluation mode can be folded into the linear layer before it, if nothing else reads that layer ([lesson 6](06_batchnorm.ipynb)). LayerNorm cannot, because its factor $1/\sqrt{\sigma^2+\epsilon}$ is a different one for each row.
# Parts of it can. If LayerNorm reads a linear layer directly and nothing else does, the projection fits into that layer: $PW$ and $Pb$ in the place of $W$ and $b$, and RMSNorm with the same $\epsilon$ in the place of LayerNorm. (In a residual net every layer that adds to the sum needs it.) Gain and bias fit into the linear layers after it, if these alone read the output.
#
# ### Columns that sum to zero
#
# LayerNorm that reads all of $Wx$ does not see one vector added to all rows of $W$, so each column of the gradient sums to 0; under RMSNorm it does not:

# %%
for name, norm in {"LayerNorm": F.layer_norm, "RMSNorm": F.rms_norm}.items():
    leaf = W.clone().requires_grad_()  # (H, D)
    h = norm(X[first] @ leaf.T, (32,), eps=1e-5)  # (B, H)
    F.cross_entropy(F.relu(h) @ V.T, labels[first]).backward()
    largest = leaf.grad.sum(0).abs().max() / leaf.grad.abs().max()  # of the sums of the columns
    show(f"{name}: largest sum of a column, in units of the largest entry", largest, digits=2)

# %% tags=["hide-input"]
assert gradient.sum(0).abs().max() < 1e-13  # LayerNorm, eps = 0, float64

# %% [markdown]
# ## On your own
#
# 1. With $a < 0$, what is $\operatorname{LN}(ax)$? What becomes of each "same" of the table for a factor of $-3$?
# 2. Kosson et al. predict a turn of $\sqrt{2\eta\lambda\,(1-\beta_1)/(1+\beta_1)}$ in one step of AdamW. Use `train` to test it.
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), [*Layer Normalization*](https://arxiv.org/abs/1607.06450), Table 1 and § 5.2 (the length of the weights as a learning rate).
# - van Laarhoven (2017), [*L2 Regularization versus Batch and Weight Normalization*](https://arxiv.org/abs/1706.05350): the effective learning rate.
# - Brody, Alon & Yahav (2023), [*On the Expressivity Role of LayerNorm in Transformers' Attention*](https://arxiv.org/abs/2305.02582): what each move does for attention.

# %% [markdown]
# # 7 · The backward pass: what a gradient loses on its way through LayerNorm
#
# **What you'll do:** derive LayerNorm's gradient line by line, fold it into one formula, and build an `autograd.Function` that may be differentiated twice. On the way you meet gradients that are wrong and pass their tests. *(about 50 min, without the parts marked optional)*
#
# **You'll be able to**
# - write the backward line of each forward line, and compare it with autograd;
# - say what the three terms of $dx$ are, and why $d\gamma$ is summed over rows and $dx$ is not;
# - name the two directions in which no gradient leaves the layer;
# - choose a test that a wrong gradient cannot pass;
# - say what a backward pass may keep, and what goes wrong, silently, when it keeps the statistics.
#
# **You need:** [lesson 2](02_statistics.ipynb) (mean and variance), [lesson 4](04_affine_and_module.ipynb) (gain and bias), [lesson 5](05_softmax.ipynb) (singular values), the chain rule.

# %%
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from fromscratch import layer_norm, mean_and_var  # lessons 4 and 2
from lessonkit import check, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 7.1 What arrives, and what it meets first
#
# The layers behind LayerNorm hand it $dy = \partial L/\partial y$: how much the loss $L$ grows when an entry of the output grows.
# We want the same for what went in: $dx$, $d\gamma$ (of the gain, `weight`) and $d\beta$ (of the `bias`). In code, `d_name` is $\partial L/\partial\,$`name`; it has the shape of `name`.
#
# Two rules are all it takes:
#
# 1. **What is used twice collects twice.** A value that goes to several places gets a gradient from each, and they are added.
# 2. **Copies are summed.** If the forward pass spread one number over many places (broadcasting), rule 1 says: sum over those places.
#
# Here is the forward pass in single steps. It returns every value on the way, so that we can ask for the gradient of each.


# %%
def forward_in_steps(x, weight, bias, eps):
    """LayerNorm over the last axis of x (..., D). Returns all values on the way, by name."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    centered = x - mean  # (..., D)
    var = (centered * centered).mean(-1, keepdim=True)  # (..., 1)
    rstd = (var + eps) ** -0.5  # (..., 1) the reciprocal of the standard deviation, with eps
    x_hat = centered * rstd  # (..., D)
    y = x_hat * weight + bias  # (..., D)
    return dict(mean=mean, centered=centered, var=var, rstd=rstd, x_hat=x_hat, y=y)


# %% [markdown]
# In this example you can check every number by hand, and no operation has to round: with $\epsilon = 1$ the roots come out even.
# ($\epsilon$ is huge on purpose. You will see where it stays.)

# %%
eps = 1.0
x = [[7, 1, 2, 2, 2, 4, 3, 3], [7, -5, -3, -3, 3, -5, -1, -1], [2, 2, 2, 2, 2, 2, 2, 2]]
dy = [[1, -2, 0, 3, 1, -1, 2, 0], [2, 0, -1, 1, -3, 1, 0, 4], [0, 1, -1, 2, 0, -2, 1, 3]]
x, dy = (
    torch.tensor(x, dtype=torch.float64),
    torch.tensor(dy, dtype=torch.float64),
)  # (B, D) = (3, 8) each
weight = torch.tensor([1, -2, 0.5, 3, 1, -1, 2, 0.5], dtype=torch.float64)  # (D,)
bias = torch.tensor([0.5, -1, 2, 0, 1, -0.5, 3, 1], dtype=torch.float64)  # (D,)
forward = forward_in_steps(x, weight, bias, eps)
for name in ("var", "rstd", "x_hat"):
    show(name, forward[name])

# %% [markdown]
# The gradient first meets the last line of the forward pass, $y = \hat x\,\gamma + \beta$.
# There is **one** $\gamma$ for all rows: broadcasting copied it to each of them.
#
# **Predict:** the shapes of $d\gamma$ and $d\beta$, and over which axes they are sums.


# %% tags=["exercise"] id="ex-7-1"
# Exercise 7.1 · ●●○○○ · 4 min
def gain_and_bias_gradients(dy, x_hat):
    """The gradients of weight and bias in y = x_hat * weight + bias.

    dy, x_hat: (..., D), with at least one axis before the last, such as (B, D) or (B, T, D).
    Returns (dweight, dbias), both (D,), the shape of weight and bias. Tensor operations only,
    no autograd: it is your formula that is asked for.
    """
    ### BEGIN SOLUTION
    rows = tuple(range(dy.dim() - 1))  # all axes but the last
    return (dy * x_hat).sum(rows), dy.sum(rows)
    ### END SOLUTION


# %% tags=["check"]
check.gain_and_bias_gradients(gain_and_bias_gradients)

# %% [markdown]
# <details><summary>Hint</summary>
#
# In one place, $y = \hat x\,\gamma + \beta$ has the derivative $\hat x$ in $\gamma$ and 1 in $\beta$; each is multiplied by the $dy$ that arrives there.
# Then rule 2: sum over every axis along which `weight` was copied, all but the last. `tensor.sum((0, 1))` takes several axes; `range(dy.dim() - 1)` counts them.
#
# </details>
#
# And $dx$? A row of $x$ feeds its own row of $y$ and no other. Nothing was copied from row to row, so nothing is summed over rows.
#
# ## 7.2 The six lines, backwards
#
# This is how a row travels. `x` and `centered` are used twice:
#
# ```
# x ──┬────────── centered ──┬──────────────── x_hat ──── y
#     └── mean ──────┘       └── var ── rstd ────┘
# ```
#
# Walk from right to left. Each line hands its gradient on to what it was computed from, times the derivative in the third column ($c$ is `centered`, $r$ `rstd`, $v$ `var`, $\mu$ `mean`):
#
# | forward line | hands on to | derivative |
# |---|---|---|
# | `y = x_hat * weight + bias` | `x_hat` | $\partial y_i/\partial \hat x_i = \gamma_i$ |
# | `x_hat = centered * rstd` | `rstd`, `centered` | $\partial \hat x_i/\partial r = c_i$, $\quad\partial \hat x_i/\partial c_i = r$ |
# | `rstd = (var + eps) ** -0.5` | `var` | $\partial r/\partial v = -\tfrac12\,(v+\epsilon)^{-3/2} = -\tfrac12\,r^3$ |
# | `var = (centered * centered).mean()` | `centered`, for the second time | $\partial v/\partial c_i = 2c_i/D$ |
# | `centered = x - mean` | `mean`, `x` | $\partial c_i/\partial \mu = -1$, $\quad\partial c_i/\partial x_i = 1$ |
# | `mean = x.mean()` | `x`, for the second time | $\partial \mu/\partial x_j = 1/D$ |
#
# `rstd` and `mean` are one number a row, copied to its $D$ places: by rule 2 their gradients are sums over the row. `centered` and `x` collect two parts each, by rule 1.
# (`var` goes to `rstd`, one number to one number: nothing to sum.)


# %% tags=["exercise"] id="ex-7-2"
# Exercise 7.2 · ●●●○○ · 8 min
# Write one line, run the check below, write the next.
def backward_in_steps(dy, x, weight, eps=1e-5):
    """The gradient at every step of LayerNorm, from y back to x.

    dy, x: (..., D); weight: (D,).
    Returns (d_x_hat, d_rstd, d_var, d_centered, d_mean, d_x): d_rstd, d_var, d_mean of shape
    (..., 1), the others (..., D). Tensor operations only, no autograd.
    """
    D = x.shape[-1]
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    centered = x - mean  # (..., D)
    rstd = ((centered * centered).mean(-1, keepdim=True) + eps) ** -0.5  # (..., 1)
    d_x_hat = d_rstd = d_var = d_centered = d_mean = d_x = None
    ### BEGIN SOLUTION
    d_x_hat = dy * weight  # (..., D)
    d_rstd = (d_x_hat * centered).sum(-1, keepdim=True)  # (..., 1)
    d_var = d_rstd * -0.5 * rstd**3  # (..., 1)
    d_centered = d_x_hat * rstd + d_var * 2 * centered / D  # (..., D) its two uses
    d_mean = -d_centered.sum(-1, keepdim=True)  # (..., 1)
    d_x = d_centered + d_mean / D  # (..., D) its two uses
    ### END SOLUTION
    return d_x_hat, d_rstd, d_var, d_centered, d_mean, d_x


# %% tags=["check"]
check.backward_in_steps(backward_in_steps)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Line 1: `d_x_hat = dy * weight`. Line 2 multiplies what arrives at `x_hat` by `centered` and sums over the row: `(…).sum(-1, keepdim=True)`.
# Line 4 has two parts with a plus between them: `d_x_hat` times `rstd`, and `d_var` times the derivative of the variance. Line 6 has two parts as well.
#
# </details>
#
# Autograd records the forward pass (on a *tape*, as one says) and walks it backwards in the same way. We compare all six steps.


# %%
def compare(name, ours, autograd):
    """Print whether two gradients are exactly equal, or close, and their largest difference."""
    gap = (ours - autograd).abs().max().item()
    assert gap < 1e-11, (
        f"{name} differs by {gap}"
    )  # float64 carries 16 digits; the numbers here are below 1000
    verdict = "exact" if torch.equal(ours, autograd) else "close"
    print(f"{name:10} {verdict}   largest difference {gap:.0e}")


STEPS = ("x_hat", "rstd", "var", "centered", "mean", "x")


def by_autograd(dy, x, weight, bias, eps):
    """Autograd's gradient at each of the six steps."""
    x = x.clone().requires_grad_()
    values = forward_in_steps(x, weight, bias, eps) | dict(x=x)
    return torch.autograd.grad(values["y"], [values[name] for name in STEPS], dy)


tape = by_autograd(dy, x, weight, bias, eps)

# %%
by_hand = backward_in_steps(dy, x, weight, eps)
for name, ours, autograd in zip(STEPS, by_hand, tape, strict=True):
    compare("d_" + name, ours, autograd)

# %% [markdown]
# Exactly equal, bit for bit, because no operation on these numbers has to round. On random numbers the last bits may differ:

# %% tags=["nbval-ignore-output"]
g = torch.Generator().manual_seed(72)
rx, rdy = (
    torch.randn(2, 3, 5, dtype=torch.float64, generator=g) for _ in range(2)
)  # (B, T, D) each
rw, rb = (torch.randn(5, dtype=torch.float64, generator=g) for _ in range(2))  # (D,) each
for name, ours, autograd in zip(
    STEPS, backward_in_steps(rdy, rx, rw), by_autograd(rdy, rx, rw, rb, 1e-5), strict=True
):
    compare("d_" + name, ours, autograd)

# %% [markdown]
# ### A path that carries nothing
#
# `d_centered` has two parts, so `d_mean` collects two: one straight from $\hat x$, and one **through the variance**.
#
# **Predict:** how much comes through the variance to the mean?

# %%
c = x.mean(
    -1, keepdim=True
).requires_grad_()  # (B, 1) the point that the squared distances are taken from
about_c = ((x - c) ** 2).mean(-1, keepdim=True)  # (B, 1) the variance, if c is the mean
show("derivative of the variance by the mean", torch.autograd.grad(about_c.sum(), c)[0])

# %% [markdown]
# Nothing: $\partial v/\partial\mu = -\frac2D\sum_i (x_i-\mu) = 0$, whatever the row.
# The mean is **the** point from which the mean squared distance is smallest, and at the bottom of a valley the slope is zero.
#
# ## 7.3 Three paths, one formula
#
# Now the six lines in one. Write $h_i = dy_i\,\gamma_i$ for what arrives at $\hat x_i$. From $h$ three paths lead to $x_j$:
#
# **Straight on**, through $c_j$. $\hat x_j = c_j\,r$, so
# $$r\,h_j .$$
#
# **Through the mean.** Each $x_j$ moves $\mu$ by $1/D$, and $\mu$ moves every $\hat x_i$ by $-r$:
# $$\tfrac1D \sum_i (-r)\,h_i \;=\; -\,r\;\mathrm{mean}(h) .$$
#
# **Through the variance.** $x_j$ moves $v$ by $2c_j/D$, $v$ moves $r$ by $-\tfrac12 r^3$, and $r$ moves every $\hat x_i$ by $c_i$. In the last step $c = \hat x/r$ is put in twice:
# $$\tfrac{2c_j}{D}\cdot\bigl(-\tfrac12 r^3\bigr)\sum_i h_i\,c_i \;=\; -\,r^3 c_j \cdot \tfrac1D\sum_i h_i\,c_i \;=\; -\,r\;\hat x_j\;\mathrm{mean}(h\,\hat x) .$$
#
# (The fourth path, through the variance to the mean, carries nothing.) The sum is the whole backward pass:
#
# $$dx = r\,\bigl(h - \mathrm{mean}(h) - \hat x\;\mathrm{mean}(h\,\hat x)\bigr), \qquad h = dy\,\gamma$$
# $$d\gamma = \sum_{\text{rows}} dy\,\hat x, \qquad d\beta = \sum_{\text{rows}} dy$$
#
# The means run over the features of a row. $\epsilon$ appears nowhere but inside $r$ and $\hat x$: the formula holds for every $\epsilon$ as it stands.


# %% tags=["exercise", "export"] id="ex-7-3"
# Exercise 7.3 · ●●●○○ · 6 min
def layer_norm_backward(dy, x, mean, rstd, weight):
    """The backward pass of LayerNorm over the last axis.

    dy: (..., D) gradient of the loss by the output. x: (..., D) the input.
    mean, rstd: (..., 1) statistics of x, rstd = 1 / sqrt(var + eps). weight: (D,) the gain.
    Returns (dx, dweight, dbias) of shapes (..., D), (D,), (D,).
    Only tensor operations, none in place: autograd must be able to differentiate the result
    once more. Neither autograd nor PyTorch's own LayerNorm inside: it is your formula.
    """
    ### BEGIN SOLUTION
    x_hat = (x - mean) * rstd  # (..., D)
    h = dy * weight  # (..., D) what arrives at x_hat
    along_x_hat = (h * x_hat).mean(-1, keepdim=True)  # (..., 1)
    dx = rstd * (h - h.mean(-1, keepdim=True) - x_hat * along_x_hat)  # (..., D)
    dweight = (dy * x_hat).sum_to_size(weight.shape)  # (D,) over all rows
    return dx, dweight, dy.sum_to_size(weight.shape)
    ### END SOLUTION


# %% tags=["check"]
check.layer_norm_backward(layer_norm_backward)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Four lines: `x_hat` from `x`, `mean` and `rstd`; `h`; the formula, with `keepdim=True` in both means; and exercise 7.1 for the other two.
# (`t.sum_to_size(weight.shape)` sums over all axes that `weight` does not have: rule 2 in one call. `sum(tuple(range(…)))` does as well.)
#
# </details>
#
# The check knows more than sixty ways to get this wrong, some of them from public code. Here is yours beside autograd, on the numbers that need no rounding:

# %%
leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
autograd = torch.autograd.grad(forward_in_steps(*leaves, eps)["y"], leaves, dy)
closed_form = layer_norm_backward(dy, x, forward["mean"], forward["rstd"], weight)
for name, ours, theirs in zip(("dx", "dweight", "dbias"), closed_form, autograd, strict=True):
    compare(name, ours, theirs)

# %% [markdown]
# ### Two sums to check any LayerNorm gradient
#
# Two identities follow from the formula, each in one line, with $\mathrm{mean}(\hat x) = 0$ and $\mathrm{mean}(\hat x^2) = v/(v+\epsilon)$:
#
# $$\sum_i dx_i = 0 \qquad\qquad \sum_i dx_i\,(x_i-\mu) = \epsilon\,r^2 \sum_i h_i\,\hat x_i$$
#
# Both hold for every $\epsilon$. The second sum is 0 at $\epsilon = 0$, and nearly 0 wherever $v \gg \epsilon$; in our example $\epsilon$ is 1, and it is not.

# %%
dx = tape[-1]  # (B, D) autograd's
h, x_hat, rstd = dy * weight, forward["x_hat"], forward["rstd"]
show("sum of dx                      ", dx.sum(-1))
show("sum of dx * (x - mean)         ", (dx * forward["centered"]).sum(-1))
show("eps * rstd**2 * sum of h * x_hat", (eps * rstd**2).squeeze(-1) * (h * x_hat).sum(-1))

# %% [markdown]
# Why must it be so? Add the same number to a whole row, and the output stays as it is: nothing is won in that direction, so no gradient points there. The same for stretching the row, at $\epsilon = 0$.
#
# The two sums are a test that needs no reference: you can print them in the middle of a training run. A missing term, a wrong divisor, a wrong axis, a misplaced gain break one of them.
# Of the wrong $dx$ that our tests know, two kinds escape: a gain that is forgotten altogether, and a wrong factor in front.
#
# ## 7.4 The Jacobian, and the two directions it lacks
#
# [Lesson 5](05_softmax.ipynb) counted the null directions of LayerNorm's Jacobian (the matrix of all $\partial\hat x_i/\partial x_j$ of one row) and found two at $\epsilon = 0$. The formula says why. As a matrix that acts on $h$, it is
#
# $$J = r\,\Bigl(I - \tfrac1D\,\mathbf 1\mathbf 1^\top - \tfrac1D\,\hat x\,\hat x^\top\Bigr)$$
#
# $\mathbf 1\mathbf 1^\top h/D$ is $\mathrm{mean}(h)$ in every place, and $\hat x\hat x^\top h/D = \hat x\,\mathrm{mean}(h\hat x)$. Apply $J$ to three kinds of directions:
#
# - to $\mathbf 1$: $\;r(\mathbf 1 - \mathbf 1 - 0) = 0$, for every $\epsilon$;
# - to $\hat x$: $\;r(\hat x - 0 - \hat x\,\tfrac{v}{v+\epsilon}) = r\,\tfrac{\epsilon}{v+\epsilon}\,\hat x$, which is 0 at $\epsilon = 0$;
# - to anything at right angles to both: $\;r$ times itself.
#
# So $D-2$ singular values are $r$, one is $r\,\epsilon/(v+\epsilon)$, one is 0. **The backward pass takes two parts off the gradient (the second one entirely only at $\epsilon = 0$), and multiplies the rest by $r$.**
# That factor can be large: $r \le 1/\sqrt\epsilon$, and a constant row reaches it (316 for $\epsilon = 10^{-5}$).

# %%
row = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0], dtype=torch.float64)  # (D,) the row of lesson 5
one, identity = (
    torch.ones(5, dtype=torch.float64),
    torch.eye(5, dtype=torch.float64),
)  # (D,), (D, D)
mean, var = mean_and_var(row)  # (1,) each
for small in (0.0, 0.1):
    automatic = torch.func.jacrev(lambda v, e=small: F.layer_norm(v, (5,), eps=e))(
        row
    )  # (D, D)
    r = torch.rsqrt(var + small)  # (1,)
    n = (row - mean) * r  # (D,) x_hat
    J = r * (identity - torch.outer(one, one) / 5 - torch.outer(n, n) / 5)  # (D, D)
    torch.testing.assert_close(J, automatic, atol=1e-14, rtol=0)  # float64, entries below 1
    show(f"eps = {small}: singular values / rstd", torch.linalg.svdvals(J) / r)
    show("           eps / (var + eps)     ", small / (var + small))

# %% [markdown]
# $J$ is symmetric, so at $\epsilon = 0$ the two directions are lost both ways: forward, a small shift or stretch of $x$ does not reach $\hat x$; backward, no gradient comes out along them.
#
# ### In a picture (optional, 3 min)
#
# With three features, two lost directions leave one.
#
# **Predict:** forty random gradients arrive at one row of three features. What do the forty that leave have in common?

# %% tags=["optional"]
row = torch.tensor([0.0, 1.0, 4.0], dtype=torch.float64)  # (D,) = (3,)
x_hat3 = F.layer_norm(row, (3,), eps=0.0)  # (3,)
J3 = torch.func.jacrev(lambda v: F.layer_norm(v, (3,), eps=0.0))(row)  # (3, 3)
arriving = torch.randn(
    40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(74)
)  # (N, 3)
leaving = (
    arriving @ J3 * row.std(correction=0)
)  # (N, 3) divided by rstd: compare directions, not sizes
tangent = (
    torch.linalg.cross(x_hat3, torch.ones(3, dtype=torch.float64)) / 3**0.5
)  # (3,) at right angles to x_hat and 1
assert leaving.sum(-1).abs().max() < 1e-12  # nothing along 1; float64, numbers of order 1
assert (leaving @ x_hat3).abs().max() < 1e-12  # nothing along x_hat

# %% tags=["optional"]
angle = torch.linspace(0, 6.2832, 100, dtype=torch.float64)[:, None]  # (100, 1)
circle = (
    torch.cos(angle) * x_hat3 + torch.sin(angle) * tangent
)  # (100, 3) all normalized rows of three features
plot.scatter3d(
    {"what arrives": x_hat3 + 0.6 * arriving, "what leaves": x_hat3 + 0.6 * leaving},
    curves={"normalized rows": circle},
    plane=(1, 1, 1),
    view=(22, 60),
    limit=2.6,
    colors={"what arrives": "none", "what leaves": "LayerNorm", "normalized rows": "#2B2F33"},
    title="Only the part of a gradient along the circle leaves",
    x="feature 1",
    y="feature 2",
    z="feature 3",
    caption="Three features, eps = 0, no gain and bias. The circle (radius √3) holds all "
    "normalized rows. Drawn from one of them: 40 random gradients h, and what the backward "
    "pass makes of each, dx / rstd. Both are shortened by the factor 0.6.",
    alt="A circle in the plane of zero sum. Forty gray points scatter in all directions "
    "around one point of the circle. The forty blue points, the gradients that leave, lie on "
    "one straight line through that point, the tangent of the circle.",
)

# %% [markdown]
# They lie on one line, the tangent. A normalized row can only move **along** the circle of lesson 5; whatever asks for another motion is taken off.
#
# ## 7.5 Leave a term out
#
# It is easily done: statistics computed under `torch.no_grad()`, or detached, are constants for autograd
# (a well-known course builds its BatchNorm that way). There are four variants, and the three terms say what each one costs.


# %%
def layer_norm_cut(x, weight, bias, cut=(), eps=1e-5):
    """LayerNorm whose backward pass takes what `cut` names ("mean", "rstd") for constants.

    The output is right.
    """
    mean, var = mean_and_var(x)  # (..., 1) each
    rstd = torch.rsqrt(var + eps)  # (..., 1)
    mean = mean.detach() if "mean" in cut else mean
    rstd = rstd.detach() if "rstd" in cut else rstd
    return (x - mean) * rstd * weight + bias  # (..., D)


def gradient(cut, x, dy, weight):
    """dx of sum(y * dy), with some of the statistics cut off."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(layer_norm_cut(x, weight, torch.zeros_like(weight), cut), x, dy)[
        0
    ]


# %% [markdown]
# **Predict:** which of the two sums of 7.3 does each cut break?

# %%
g = torch.Generator().manual_seed(75)
sx, sdy = (torch.randn(2, 6, dtype=torch.float64, generator=g) for _ in range(2))  # (B, D) each
sw = torch.randn(6, dtype=torch.float64, generator=g)  # (D,)
mean, var = mean_and_var(sx)  # (B, 1) each
h, rstd = sdy * sw, torch.rsqrt(var + 1e-5)  # (B, D), (B, 1)
for cut in ((), ("mean",), ("rstd",), ("mean", "rstd")):
    cut_dx = gradient(cut, sx, sdy, sw)  # (B, D)
    along_1 = cut_dx.mean(-1) / (rstd * h).mean(-1)  # (B,) what is left of the part along 1
    along_x = (cut_dx * (sx - mean)).sum(-1) / (rstd * h * (sx - mean)).sum(
        -1
    )  # (B,) and of the part along x_hat
    print(f"constant: {' and '.join(cut) or 'nothing':13}", end=" ")
    show("left along 1 and along x_hat", torch.stack([along_1[0], along_x[0]]))

# %% [markdown]
# | held constant | what is left of $dx$ | what is lost |
# |---|---|---|
# | nothing | $r(h - \mathrm{mean}(h) - \hat x\,\mathrm{mean}(h\hat x))$ | |
# | the mean | $r(h - \hat x\,\mathrm{mean}(h\hat x))$ | the gradient is not re-centered: its row mean is $r\,\mathrm{mean}(h)$ |
# | the deviation | $r(h - \mathrm{mean}(h))$ | the gradient is not re-scaled: the part along $\hat x$ stays |
# | both | $r\,h$ | both: LayerNorm is gone from the backward pass |
#
# Each statistic that is held constant takes exactly one term away. Xu et al. (2019) prove the corresponding statements on the mean and the variance of the gradient (without gain and bias), and
# report that networks trained with both cuts, their *DetachNorm*, end up worse than with the full gradient. That is their measurement, not ours.
#
# How large is the error? It depends on what arrives. For a **random** $h$, each of the two directions carries about $1/D$ of its squared length: the wider the layer, the better the mistake hides. So test with **few features**.
# But real gradients are not random. If $h$ points along $\mathbf 1$ or along $\hat x$, the right $dx$ is (nearly) zero and the cut one is not: then the relative error has no bound.
#
# ### In wide layers (optional, 3 min)
#
# The relative error of $dx$ on random gradients, for rows of 4 to 1,024 features:

# %% tags=["optional"]
widths = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
cuts = {
    "mean constant": ("mean",),
    "deviation constant": ("rstd",),
    "both constant": ("mean", "rstd"),
}
errors = {name: [] for name in cuts}  # {name: (runs, widths)}
for seed in range(10):
    for name, cut in cuts.items():
        errors[name].append([])
        for D in widths:
            g = torch.Generator().manual_seed(1000 * seed + D)
            ex, edy = (
                torch.randn(32, D, dtype=torch.float64, generator=g) for _ in range(2)
            )  # (B, D) each
            ew = 1 + 0.5 * torch.randn(D, dtype=torch.float64, generator=g)  # (D,)
            right = gradient((), ex, edy, ew)  # (B, D)
            errors[name][-1].append(
                ((gradient(cut, ex, edy, ew) - right).norm() / right.norm()).item()
            )

# %% tags=["optional"]
both = torch.tensor(errors["both constant"])  # (runs, widths)
assert (
    both[:, 0].min() > 0.4 and both[:, -1].max() < 0.07
)  # 90 other seeds: at least 0.60 at D = 4, 0.035 to 0.054 at 1024
plot.lines(
    widths,
    {name: 100 * torch.tensor(runs) for name, runs in errors.items()},
    xlog=True,
    ylog=True,
    title="On random gradients, a missing term hides in wide layers",
    x="features in a row, D",
    y="error of dx (%)",
    colors={"both constant": "Post-LN", "mean constant": "RMSNorm"},
    caption="Relative error of dx, ‖wrong − right‖ / ‖right‖, 32 rows, random gain and random "
    "upstream gradient, float64, eps = 1e-5. It falls about like 1/√D for one missing term "
    "and √2/√D for two.",
    alt="Three falling, nearly straight lines on logarithmic axes. With both statistics held "
    "constant the error falls from about 100 percent at 4 features to 4 percent at 1024. Each "
    "alone is lower by the square root of 2, and the two nearly coincide.",
)

# %% [markdown]
# With 1,024 features the gradient without both terms is about 4 % off. Our guess (we did not train with it): a loss curve alone would not give that away.
#
# ## 7.6 Losses that are blind
#
# "I compared my gradient with autograd's, and it passed." Under which loss? A new layer has **gain 1 and bias 0**, so $h = dy$.
# Then $L = \sum y$ sends $h = 1$ everywhere, and $L = \sum y^2$ sends $h = 2y = 2\hat x$. Put both into the formula of 7.3, with all its terms and with one missing.

# %% tags=["exercise"] id="ex-7-4"
# Exercise 7.4 · ●●○○○ · 4 min
# At gain 1 and bias 0: does comparing dx with the right one, under this loss, show the fault?
# Copy these lines, and put True or False for each `...`, before you run anything:
# blind_losses = {
#     "y.sum(), mean term missing": ...,
#     "y.sum(), variance term missing": ...,
#     "(y**2).sum(), mean term missing": ...,
#     "(y**2).sum(), variance term missing": ...,
#     "(y * random).sum(), mean term missing": ...,
#     "(y * random).sum(), variance term missing": ...,
#     "(y * random).sum(), gain forgotten": ...,
# }
### BEGIN SOLUTION
blind_losses = {
    "y.sum(), mean term missing": True,
    "y.sum(), variance term missing": False,
    "(y**2).sum(), mean term missing": False,
    "(y**2).sum(), variance term missing": True,
    "(y * random).sum(), mean term missing": True,
    "(y * random).sum(), variance term missing": True,
    "(y * random).sum(), gain forgotten": False,
}
### END SOLUTION

# %% tags=["check"]
check.blind_losses(blind_losses)

# %% [markdown]
# <details><summary>Hint</summary>
#
# A missing term can be seen only if it is not zero: for $h = 1$ look at $\mathrm{mean}(h\hat x)$, for $h = 2\hat x$ at $\mathrm{mean}(h)$. And what is `dy * weight` when the gain is 1?
#
# </details>
#
# Now by experiment, with the wrong gradients of 7.5 and a strict tolerance:

# %%
random = torch.randn(
    2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(76)
)  # (B, D)
losses = {
    "y.sum()": lambda y: y.sum(),
    "(y**2).sum()": lambda y: (y**2).sum(),
    "(y * random).sum()": lambda y: (y * random).sum(),
}


# %%
def passes(loss, weight, bias, cut):
    """Whether a gradient with something cut agrees with the right one under this loss."""
    grads = []
    for what in (cut, ()):
        leaf = sx.clone().requires_grad_()
        grads.append(
            torch.autograd.grad(loss(layer_norm_cut(leaf, weight, bias, what)), leaf)[0]
        )  # (B, D)
    return torch.allclose(*grads, rtol=1e-9, atol=1e-9)  # float64: 16 digits


# %%
gains = {
    "gain 1, bias 0": (torch.ones(6), torch.zeros(6)),
    "random gain and bias": (sw, sdy[0]),
}
for setting, (gain, shift) in gains.items():
    print(setting)
    for name, loss in losses.items():
        verdict = {
            cut: "passes" if passes(loss, gain, shift, (cut,)) else "is caught"
            for cut in ("mean", "rstd")
        }
        print(
            f"  {name:20} no mean term {verdict['mean']:10} no variance term {verdict['rstd']}"
        )

# %% [markdown]
# At gain 1, `y.sum()` lets a missing variance term pass and `(y**2).sum()` a missing mean term. The reason: the sum of a normalized row and the sum of its squares are constants (the second up to $\epsilon$).
# So **the right gradient is zero**, and the wrong one is zero as well where the term that it lacks is zero. (Thread 63541 in PyTorch's tracker reports that very zero as a bug.)
#
# So test with `(y * random).sum()`, **random gains**, and few features.
#
# ## 7.7 A function of your own, and its second derivative
#
# `torch.autograd.Function` puts a hand-written backward pass in place of autograd's: `forward` saves in `ctx` (the context) what `backward` will need, and `backward` returns one gradient for each input.
# The natural way is to save what the formula names:


# %%
class SavedStatistics(torch.autograd.Function):
    """LayerNorm over the last axis that saves x and its statistics for the backward pass."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean, var = mean_and_var(x)  # (..., 1) each
        rstd = torch.rsqrt(var + eps)  # (..., 1)
        ctx.save_for_backward(x, mean, rstd, weight)
        return (x - mean) * rstd * weight + bias  # (..., D)

    @staticmethod
    def backward(ctx, dy):
        return *layer_norm_backward(dy, *ctx.saved_tensors), None  # eps needs no gradient


# %% [markdown]
# `gradcheck` compares a gradient with finite differences: nudge an input, see what the output does. (Use float64; in float32 the nudge drowns in rounding.)
# `gradgradcheck` does the same with the gradient **of the gradient**, which a loss needs that holds a gradient itself (a gradient penalty, for one).

# %%
g = torch.Generator().manual_seed(77)
arguments = [
    torch.randn(shape, dtype=torch.float64, generator=g).requires_grad_()
    for shape in ((2, 5), (5,), (5,))
]
once = gradcheck(SavedStatistics.apply, (*arguments, 1e-5))
twice = gradgradcheck(SavedStatistics.apply, (*arguments, 1e-5), raise_exception=False)
print("first derivative right: ", once)
print("second derivative right:", twice)

# %% [markdown]
# No error, no warning, a wrong number. **Why?** To differentiate a second time, autograd records what `backward` computes. `dy`, `x` and `weight` are connected to the inputs.
# `mean` and `rstd` are not: they came out of `forward`, where nothing was recorded. To autograd they are plain numbers, and the paths from $x$ through $\mu$ and $r$ are missing.
# It is the mistake of 7.5, one level up.
#
# Three ways out: forbid it (`@once_differentiable` turns the wrong number into an error), make the statistics *outputs* of the function with gradients of their own, or **compute them anew from the saved $x$ in `backward`**, where they are recorded.
# We take the third. It costs a pass over $x$, and keeps nothing but $x$ and the gain. (`setup_context` is the newer place for saving; `torch.func` needs it.)


# %% tags=["exercise", "export"] id="ex-7-5"
# Exercise 7.5 · ●●●●○ · 7 min
class LayerNormFunction(torch.autograd.Function):
    """LayerNorm over the last axis, with a backward pass that may be differentiated again.

    LayerNormFunction.apply(x, weight, bias, eps): x (..., D); weight, bias (D,); eps a float.
    Returns (..., D).
    It keeps x and weight, and nothing else of x's size.
    """

    generate_vmap_rule = True  # lets torch.func.vmap and jacrev through

    @staticmethod
    def forward(x, weight, bias, eps):
        return layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        """dy: (..., D). Returns one gradient for each input of forward, None for eps."""
        x, weight = ctx.saved_tensors
        x = x.to(
            torch.promote_types(x.dtype, torch.float32)
        )  # half precision is computed in float32
        x = x - x.mean(
            -1, keepdim=True
        )  # where a row lies changes nothing; far from 0 it costs digits (7.8)
        ### BEGIN SOLUTION
        mean, var = mean_and_var(x)  # (..., 1) each
        rstd = torch.rsqrt(var + ctx.eps)  # (..., 1)
        return *layer_norm_backward(dy, x, mean, rstd, weight), None
        ### END SOLUTION


# %% tags=["check"]
check.layer_norm_function(LayerNormFunction)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Three lines: the statistics of `x` with `mean_and_var`, then `rstd` with `ctx.eps` in it, then `layer_norm_backward`. `return *three_gradients, None` unpacks them and adds a None.
#
# </details>

# %%
mine = LayerNormFunction.apply
assert gradcheck(mine, (*arguments, 1e-5)) and gradgradcheck(mine, (*arguments, 1e-5))
print("first and second derivative right")

# %% [markdown]
# ### What is kept
#
# Between forward and backward, autograd keeps what the backward pass will need, often a large part of the memory in training.
# A hook (a function that autograd calls for each tensor it keeps) lets us count those of $x$'s size, besides $x$ itself.


# %%
def kept(layer, v):
    """The number of tensors of v's size, besides v, that layer(v) keeps for backward."""
    storages = set()

    def pack(tensor):
        if tensor.numel() >= v.numel():
            storages.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = layer(v)  # held until we have counted, so that no storage is used again
    assert y.requires_grad
    return len(storages - {v.untyped_storage().data_ptr()})


# %%
v = torch.randn(
    3, 7, 64, generator=torch.Generator().manual_seed(79)
).requires_grad_()  # (B, T, D)
w64, b64 = torch.ones(64, requires_grad=True), torch.zeros(64, requires_grad=True)  # (D,) each
print("layer_norm of lesson 4 keeps", kept(lambda t: layer_norm(t, (64,), w64, b64), v))
print("F.layer_norm keeps          ", kept(lambda t: F.layer_norm(t, (64,), w64, b64), v))

# %%
print(
    "LayerNormFunction keeps     ",
    kept(lambda t: LayerNormFunction.apply(t, w64, b64, 1e-5), v),
)

# %% [markdown]
# Autograd on plain operations goes line by line, and keeps the centered row and $\hat x$. The closed form needs neither.
# In GPT-2 small, with 25 norms over 768 features, one such tensor for each norm takes $25 \cdot 1024 \cdot 768 \cdot 4$ bytes = 79 MB for one sequence of 1,024 tokens in float32.
# (PyTorch's layer also saves mean and rstd, two numbers a row: so it need not compute them twice.)
#
# ### In wide layers, and a third time (optional, 4 min)
#
# Does width hide this mistake too, as it hides the one of 7.5? We differentiate twice with 768 features, on plain operations and with `SavedStatistics`:


# %% tags=["optional"]
def second(layer, D, seed):
    """The gradient, in x, of a weighted sum of dx."""
    g = torch.Generator().manual_seed(seed)
    v, dy, weights = (
        torch.randn(3, D, dtype=torch.float64, generator=g) for _ in range(3)
    )  # (B, D) each
    v, w = v.requires_grad_(), torch.randn(D, dtype=torch.float64, generator=g)  # (B, D), (D,)
    dx = torch.autograd.grad(layer(v, w, w), v, dy, create_graph=True)[0]  # (B, D)
    return torch.autograd.grad((dx * weights).sum(), v)[0]  # (B, D)


right = [
    second(lambda v, w, b: layer_norm(v, v.shape[-1:], w, b), 768, seed) for seed in range(5)
]

# %% tags=["optional"]
saved = [
    second(lambda v, w, b: SavedStatistics.apply(v, w, b, 1e-5), 768, seed) for seed in range(5)
]
off = [((a - b).norm() / b.norm()).item() for a, b in zip(saved, right, strict=True)]
assert min(off) > 0.1  # 65 other seeds: 0.17 to 0.94
print("with 768 features, every second derivative is off by more than 10 %")

# %% [markdown]
# It does not. And what holds for two derivatives holds for all: computed anew, the statistics are seen by autograd every time.
# PyTorch's fused layer has a hand-written second derivative, which is right. **Predict:** and its third? Autograd gets it by differentiating that formula, in which the statistics are saved numbers.


# %% tags=["optional"]
def derivatives(layer):
    """First, second and third derivative of a weighted sum of layer(v), along one direction."""
    g = torch.Generator().manual_seed(78)
    v, direction, weights = (
        torch.randn(2, 5, dtype=torch.float64, generator=g) for _ in range(3)
    )  # (B, D) each
    v = v.requires_grad_()
    value, found = (layer(v) * weights).sum(), []
    for _ in range(3):
        value = (torch.autograd.grad(value, v, create_graph=True)[0] * direction).sum()
        found.append(value.item())
    return torch.tensor(found, dtype=torch.float64)


# %% tags=["optional"]
gain, shift = arguments[1].detach(), arguments[2].detach()  # (D,) each
plain = derivatives(lambda v: layer_norm_cut(v, gain, shift))  # autograd, on plain operations
fused = derivatives(lambda v: F.layer_norm(v, (5,), gain, shift))
show("plain operations ", plain)
show("F.layer_norm     ", fused)
assert abs(fused[:2] - plain[:2]).max() < 1e-9  # the first and the second are right
assert abs(fused[2] - plain[2]) > 0.1 * abs(
    plain[2]
)  # torch 2.13.0. Does this fail? Then PyTorch has mended issue 175754

# %% tags=["optional"]
ours = derivatives(lambda v: LayerNormFunction.apply(v, gain, shift, 1e-5))
show("LayerNormFunction", ours)
torch.testing.assert_close(
    ours, plain, rtol=1e-9, atol=1e-9
)  # float64: 16 digits, a few lost in three derivatives

# %% [markdown]
# The third derivative of `F.layer_norm` is silently wrong in PyTorch 2.13.0 (reported there as issue 175754), and yours is right. To know who is right, no autograd is needed: finite differences of the output alone.

# %% tags=["optional"]
g = torch.Generator().manual_seed(78)  # the draws of `derivatives`
v, direction, weights = (
    torch.randn(2, 5, dtype=torch.float64, generator=g) for _ in range(3)
)  # (B, D) each
at = lambda k: (
    layer_norm(v + 0.01 * k * direction, (5,), gain, shift) * weights
).sum()  # k steps of 0.01 along direction
third = (
    (at(-3) - at(3)) / 8 + at(2) - at(-2) - 13 / 8 * (at(1) - at(-1))
) / 0.01**3  # central, of fourth order
show("third derivative by finite differences", third, 2)
torch.testing.assert_close(
    third, plain[2], rtol=1e-3, atol=0
)  # what is left is of the order of 0.01**4 times a 7th derivative

# %% [markdown]
# ## 7.8 Far from zero, in float32 (optional, 6 min)
#
# Two formulas that are equal on paper need not be equal in float32.
# PyTorch's CPU kernel multiplies ours out, to $dx = r\,h + b\,x + c$ with two numbers $b$, $c$ a row: no $x-\mu$ in it. Far from zero, $b\,x$ and $c$ are large and nearly cancel.
# **Predict:** whose gradient is closer to the truth (the same, computed in float64) for a row of spread 1 around 1,000?


# %% tags=["optional"]
def dx_error(dx, sample, dy, weight):
    """Relative error of a float32 dx; the truth: float64, from the same float32 numbers."""
    truth = gradient((), sample.double(), dy.double(), weight.double())  # (B, D)
    return ((dx.double() - truth).norm() / truth.norm()).item()


offsets = [1, 10, 100, 1e3, 1e4, 1e5]
samples = []  # (runs, offsets) of (x, dy, weight)
for seed in range(8):
    g = torch.Generator().manual_seed(seed)
    noise, dy_s, w_s = (
        torch.randn(shape, generator=g) for shape in ((32, 1024), (32, 1024), (1024,))
    )  # float32
    samples.append([(noise + offset, dy_s, 1 + 0.5 * w_s) for offset in offsets])


# %% tags=["optional"]
def run_all(dx_of):
    """The error of dx_of(x, dy, weight) for every seed and offset."""
    return torch.tensor(
        [[dx_error(dx_of(*sample), *sample) for sample in run] for run in samples]
    )  # (runs, offsets)


def kernel(v, dy, w):
    v = v.detach().requires_grad_()
    return torch.autograd.grad(F.layer_norm(v, (1024,), w), v, dy)[0]


kernel_error = run_all(kernel)


# %% tags=["optional"]
def closed(v, dy, w):
    mean, var = mean_and_var(v)  # (B, 1) each, float32
    return layer_norm_backward(dy, v, mean, torch.rsqrt(var + 1e-5), w)[0]


def centered_twice(v, dy, w):
    v = v.detach().requires_grad_()
    return torch.autograd.grad(LayerNormFunction.apply(v, w, w, 1e-5), v, dy)[0]


closed_error, function_error = run_all(closed), run_all(centered_twice)
assert (kernel_error / closed_error)[
    :, 2:
].min() > 1.5  # 36 other seeds: 2.6 to 7.5 from offset 100 on
assert (
    function_error.max() < 3e-7
)  # 36 other seeds: below 8e-8 at every offset; float32 resolves 6e-8

# %% tags=["optional"]
plot.lines(
    offsets,
    {
        "PyTorch's CPU kernel": kernel_error,
        "closed form": closed_error,
        "LayerNormFunction": function_error,
    },
    xlog=True,
    ylog=True,
    colors={"LayerNormFunction": "LayerNorm"},
    title="Subtract the mean, twice, and the gradient keeps its digits",
    x="offset of a row of spread 1",
    y="relative error of dx",
    caption="float32, 32 rows of 1024 features, random gain and upstream gradient; the truth "
    "in float64 from the same numbers. The closed form uses x − mean; LayerNormFunction "
    "centers the row once more before. One thread, torch 2.13.",
    alt="Three curves over the offset, on logarithmic axes. PyTorch's kernel and the closed "
    "form both rise from 1e-7 to about 1e-3 and 2e-4 at an offset of 100,000, the kernel "
    "about five times higher. LayerNormFunction stays at 7e-8.",
)

# %% [markdown]
# From an offset of 100 on, the closed form is four to five times closer than the kernel on average (2.6 to 7.5 times in single runs). And it still loses digits, for another reason: the **mean** is rounded to float32, and around 100,000 the steps are 0.008 wide.
# $x - \mu$ is then off by the same small number in the whole row. Centering the row a second time removes it (the differences themselves were exact), and `LayerNormFunction` stays at the resolution of float32.
# `layer_norm` of lesson 4 does the same on the way forward.
#
# ## 7.9 Clinic: right at the start, wrong after training
#
# **The patient** is the LayerNorm of a language model written in NumPy, from a public repository. This is its backward pass (in PyTorch's words; the formula is unchanged):


# %%
def patient(dy, x_hat, rstd, weight):
    """dx of LayerNorm, as the patient computes it.

    dy, x_hat: (..., D); rstd: (..., 1); weight: (D,).
    """
    D = dy.shape[-1]
    sums = dy.sum(-1, keepdim=True) + x_hat * (dy * x_hat).sum(-1, keepdim=True)  # (..., D)
    return (weight * rstd / D) * (D * dy - sums)  # (..., D)


# %% [markdown]
# We do what 7.6 recommends, `(y * random).sum()`: first on the layer as it is created, then with a random gain, as training may leave it.

# %%
mean, var = mean_and_var(
    sx
)  # (B, 1) each; sx, sdy, sw: the rows, the upstream gradient and the gain of 7.5
rstd = torch.rsqrt(var + 1e-5)  # (B, 1)
for setting, gain in (("gain 1", torch.ones(6, dtype=torch.float64)), ("random gain", sw)):
    right, theirs = (
        gradient((), sx, sdy, gain),
        patient(sdy, (sx - mean) * rstd, rstd, gain),
    )  # (B, D) each
    agrees = torch.allclose(right, theirs, rtol=1e-9, atol=1e-9)
    print(f"{setting:12} agrees with autograd: {agrees!s:6}", end="")
    show("sum of dx", theirs.sum(-1), 2)

# %% [markdown]
# At gain 1 nothing is wrong, and there `nn.LayerNorm` starts. The mistake grows as the gains leave 1.
#
# **Find it:** which of the two sums of 7.3 raises the alarm, and what in the formula moves when the gain does?
#
# **Explain it:** somewhere else this formula is right. The same code, with rows and columns exchanged:

# %%
g = torch.Generator().manual_seed(80)
bx, bdy = (torch.randn(7, 4, dtype=torch.float64, generator=g) for _ in range(2))  # (B, C) each
bw = torch.randn(4, dtype=torch.float64, generator=g)  # (C,)
leaf = bx.clone().requires_grad_()
right = torch.autograd.grad(F.batch_norm(leaf, None, None, bw, training=True), leaf, bdy)[
    0
]  # (B, C)
mean, var = mean_and_var(bx.T)  # (C, 1) each
rstd = torch.rsqrt(var + 1e-5)  # (C, 1)
theirs = patient(bdy.T, (bx.T - mean) * rstd, rstd, bw[:, None]).T  # (B, C)
print("agrees with BatchNorm's gradient:", torch.allclose(right, theirs, rtol=1e-9, atol=1e-9))

# %% [markdown]
# It is BatchNorm's backward pass. There the means run over the batch, and along the batch the gain is **one** number, which may be taken out of the means.
# In LayerNorm the means run over the features, and each feature has its own gain.


# %% tags=["exercise"] id="ex-7-6"
# Exercise 7.6 · ●●○○○ · 4 min
def mended_gradient(dy, x_hat, rstd, weight):
    """dx of LayerNorm. dy, x_hat: (..., D); rstd: (..., 1); weight: (D,). Returns (..., D)."""
    ### BEGIN SOLUTION
    D = dy.shape[-1]
    h = dy * weight  # (..., D) the gain differs along the row: it goes in before the sums
    sums = h.sum(-1, keepdim=True) + x_hat * (h * x_hat).sum(-1, keepdim=True)  # (..., D)
    return (rstd / D) * (D * h - sums)  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.mended_gradient(mended_gradient)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Start from the patient's three lines. The gain has to be in the sums, so multiply it into `dy` before they are taken, and take it out of the front.
#
# </details>
#
# The test that would have found it at once: random gains. (The slip is an easy one. In 2020 PyTorch's own LayerNorm had a wrong gradient on the path for `create_graph=True`,
# and a reviewer asked whether the tests had left out gains other than 1: pull request 41595.)
#
# ### How far off is the patient? (optional, 2 min)
#
# With 768 features, and gains that have moved a little away from 1:

# %% tags=["optional"]
found = []
for seed in range(5):
    g = torch.Generator().manual_seed(seed)
    wx, wdy = (
        torch.randn(32, 768, dtype=torch.float64, generator=g) for _ in range(2)
    )  # (B, D) each
    ww = 1 + 0.1 * torch.randn(768, dtype=torch.float64, generator=g)  # (D,) gains around 1
    mean, var = mean_and_var(wx)  # (B, 1) each
    right, rstd = gradient((), wx, wdy, ww), torch.rsqrt(var + 1e-5)  # (B, D), (B, 1)
    found.append(
        ((patient(wdy, (wx - mean) * rstd, rstd, ww) - right).norm() / right.norm()).item()
    )
assert 0.004 < min(found) and max(found) < 0.012  # 70 other seeds: 0.0062 to 0.0086

# %% [markdown]
# With gains spread by 0.1 around 1, $dx$ is off by 0.6 to 0.9 % on random gradients. It takes a test to find that: we would not trust ourselves to see it in a loss curve.
#
# ## Take-away
#
# - Backwards, line by line: what is used twice collects twice, what was copied is summed. Each step can be compared with autograd.
# - $dx = r\,(h - \mathrm{mean}(h) - \hat x\,\mathrm{mean}(h\hat x))$ with $h = dy\,\gamma$: straight on, through the mean, through the variance. $d\gamma$ and $d\beta$ are summed over rows, because all rows share $\gamma$ and $\beta$.
# - No gradient leaves along $\mathbf 1$, and none along $\hat x$ at $\epsilon = 0$; the rest is multiplied by $r$. So $\sum dx = 0$ always, and $\sum dx\,(x-\mu) = \epsilon r^2\sum h\hat x$.
# - Test with random gains, random upstream gradients and few features. At gain 1, `y.sum()` cannot see a missing variance term, `(y**2).sum()` a missing mean term, and nothing sees a misplaced gain.
# - Of $x$'s size, a backward pass need keep nothing but $x$. If it keeps the statistics as numbers, its second derivative is silently wrong; computed anew from $x$, every derivative is right.
#
# ## On your own
#
# 1. RMSNorm divides by $\sqrt{\mathrm{mean}(x^2)+\epsilon}$ and subtracts nothing. Which of the three paths are left? Write its $dx$, and check it with `gradcheck`.
# 2. Save $y$ instead of $x$, and recover $\hat x = (y-\beta)/\gamma$ in the backward pass. Which gain breaks it?
# 3. For a batch of one row and $D = 2$: what is $dx$ at $\epsilon = 0$, whatever arrives? Count the directions of 7.4. ([Section 8.2](08_geometry.ipynb) says what is left of such a row.)
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, section 5: the invariances that the null directions come from.
# - Xu, Sun, Zhang, Zhao & Lin (2019), *Understanding and Improving Layer Normalization*: the theorem on re-centered and re-scaled gradients, and *DetachNorm*.
# - A. Karpathy, *llm.c*, `doc/layernorm`: forward and backward on the way to C, with the question what to keep (it gives the formula; you have the derivation); and *makemore* part 4, which compares every intermediate of a BatchNorm with autograd.
# - PyTorch's documentation and tutorials, "Extending PyTorch" and "Double Backward with Custom Functions": what may be saved, and what intermediates need.
# - `torch/_decomp/decompositions.py`, `native_layer_norm_backward`: PyTorch's own backward pass in readable Python.

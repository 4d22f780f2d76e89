# %% [markdown]
# # 8 · Geometry: a projection and a sphere
#
# **What you'll do:** see LayerNorm as two moves in space, derive from them everything that it keeps, forgets and cannot tell apart, and take one of the moves away: that is RMSNorm. *(about 50 min)*
#
# **You'll be able to**
# - write LayerNorm without a mean and without a variance: project, then scale to a radius;
# - say which inputs give the same output, and where the layer fades instead of forgetting;
# - build RMSNorm, say what it leaves out, and put it in the place of `nn.RMSNorm`;
# - fill in the invariance table of the 2016 paper, with its conditions;
# - predict what the size of a weight matrix before a norm does to its learning rate.
#
# **You need:** [lesson 3](03_epsilon.ipynb) (eps), [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 6](06_batchnorm.ipynb) (BatchNorm), [lesson 7](07_backward.ipynb) (the Jacobian).

# %%
from numbers import Integral

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 8.1 First move: a projection
#
# Take a row of $D$ numbers as one arrow in a space of $D$ dimensions. Subtracting the mean from each number is a matrix product:
#
# $$x - \mu\mathbf 1 = Px, \qquad P = I - \tfrac1D\,\mathbf 1\mathbf 1^\top$$
#
# $\mathbf 1$ is the arrow of all ones; $\mathbf 1\mathbf 1^\top$ is the matrix of all ones, and its product with $x$ has the sum of the row in every place.
#
# **Predict:** what does $P$ do to a row whose numbers are all equal? And what happens if you apply $P$ twice?

# %%
D = 5
P = torch.eye(D) - 1 / D  # (D, D)
x = torch.tensor([1.0, 2.0, 4.0, 8.0, 10.0])  # (D,) mean 5
show("P x", P @ x, digits=1)
show("P P x", P @ (P @ x), digits=1)
show("P (7 7 7 7 7)", P @ torch.full((D,), 7.0), digits=1)
assert ((P @ P - P).abs().max() < 1e-6) and (P.T == P).all()  # float32 numbers of order 1

# %% [markdown]
# Equal numbers go to zero, and the second time nothing happens. A symmetric matrix with $PP = P$ is an **orthogonal projection**: it lets the arrow fall straight down onto a flat set. Here the set is the plane of all rows that sum to 0, with $D-1$ dimensions. The one direction that is lost is $\mathbf 1$.
#
# ## 8.2 Second move: onto a sphere
#
# The length of the projected row is the deviation in disguise: $\|Px\|^2 = \sum_i (x_i-\mu)^2 = D\,v$. So dividing by the deviation means dividing by the length and multiplying by $\sqrt D$:
#
# $$\hat x \;=\; \frac{Px}{\sqrt{v+\epsilon}} \;=\; \sqrt D\,\frac{Px}{\sqrt{\|Px\|^2 + D\,\epsilon}}$$
#
# At $\epsilon = 0$ every row ends at distance $\sqrt D$ from the origin. That is all of LayerNorm, before gain and bias: **project, then scale to the radius $\sqrt D$**. Write it so; mean and variance are not needed.


# %% tags=["exercise"] id="ex-8-1"
# Exercise 8.1 · ●●○○○ · 5 min
def project_and_scale(x, eps=1e-5):
    """LayerNorm of the last axis, without gain and bias, as a projection and a scaling.

    x: (..., D) float tensor.
    Returns a tensor of x's shape: sqrt(D) P x / sqrt(|P x|^2 + D eps).
    Build P with x's dtype and device, and try to do without mean, var and std. PyTorch's own
    F.layer_norm is no answer.
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
# Three consequences, each on random rows in float64. The lengths:

# %%
g = torch.Generator().manual_seed(82)
x = torch.randn(1000, 7, dtype=torch.float64, generator=g)  # (B, D)
length = F.layer_norm(x, (7,), eps=0.0).norm(dim=-1)  # (B,)
faded = F.layer_norm(x, (7,), eps=1e-5).norm(dim=-1)  # (B,)
assert (length - 7**0.5).abs().max() < 1e-12  # eps = 0: on the sphere, up to rounding
assert (faded < 7**0.5).all()  # eps > 0: inside, always
show("length / sqrt(D), eps = 0", [length.min() / 7**0.5, length.max() / 7**0.5])

# %% [markdown]
# With $\epsilon > 0$ the length is $\sqrt{D\,v/(v+\epsilon)}$: strictly inside. No single number can exceed $\sqrt{D-1}$ ([lesson 3](03_epsilon.ipynb) proved it); at $\epsilon = 0$, the rows that reach it are those with one spike, a number above $D-1$ equal ones:

# %%
one_hot = torch.zeros(7, dtype=torch.float64)  # (D,)
one_hot[3] = 42.0
show("largest entry of LN(one-hot)", F.layer_norm(one_hot, (7,), eps=0.0).max())
show("sqrt(D - 1)                 ", 6**0.5)
assert F.layer_norm(x, (7,), eps=0.0).abs().max() <= 6**0.5 + 1e-12  # rounding

# %% [markdown]
# ### The picture for three features
#
# With $D = 3$ everything fits on a page. The plane of zero sum cuts the sphere of radius $\sqrt3$ in a circle. [Lesson 5](05_softmax.ipynb) looked at where the rows end; now watch them travel. Gain and bias then take the circle to an **ellipse**: $\gamma$ stretches the three axes, $\beta$ shifts.
#
# **Predict:** does the ellipse still lie in a plane through the origin?

# %%
u, w = (
    torch.tensor([1.0, -1.0, 0.0]) / 2**0.5,
    torch.tensor([1.0, 1.0, -2.0]) / 6**0.5,
)  # (3,) each, sum 0, length 1
around = lambda angle: (
    angle.cos()[:, None] * u + angle.sin()[:, None] * w
)  # (n,) -> (n, 3) on the circle of radius 1
circle = 3**0.5 * around(torch.linspace(0, 2 * torch.pi, 61))  # (61, 3)
cloud = torch.tensor([0.7, 2.4, 1.0] * 3)[:, None] * around(
    torch.linspace(0.2, 5.8, 9)
)  # (B, 3) near and far
cloud = cloud + torch.tensor([[1.4], [0.5], [1.0]] * 3)  # (B, 3) lifted off the plane
weight3, bias3 = torch.tensor([1.3, 0.5, 0.8]), torch.tensor([0.3, 0.7, 0.9])  # (3,) each


def on_its_way(step, eps=0.0):
    """Where the cloud is after `step` of three moves (a fraction is on the way): project,
    scale, gain and bias.
    """
    flat = cloud - cloud.mean(-1, keepdim=True)  # (B, 3)
    y = F.layer_norm(cloud, (3,), eps=eps)  # (B, 3)
    stations = [cloud, flat, y, y * weight3 + bias3]
    before = min(int(step), 2)
    return torch.lerp(stations[before], stations[before + 1], step - before)  # (B, 3)


# %% [markdown]
# Move the first slider from 0 to 3 to follow the rows, and the second to see what $\epsilon$ does. (Both need a running kernel; the picture below them stands still.)

# %%
step = widgets.FloatSlider(
    value=1.5, min=0, max=3, step=0.25, description="moves", continuous_update=False
)
epsilon = widgets.FloatLogSlider(
    value=1e-5, min=-5, max=2, step=1, description="epsilon", readout_format=".0e"
)
picture = widgets.Image(format="png", width=620)


def redraw(change=None):
    """Draw the cloud after the moves that the slider asks for."""
    picture.value = plot.scatter3d(
        {"rows": on_its_way(step.value, epsilon.value)},
        curves={"circle": circle, "ellipse": circle * weight3 + bias3},
        sphere=3**0.5,
        plane=[1, 1, 1],
        view=(5, 72),
        limit=2.5,
        size=(7, 5),
        colors={"rows": "LayerNorm", "circle": "none"},
        x="feature 1",
        y="feature 2",
        z="feature 3",
        title=f"After {step.value:g} of three moves",
        show=False,
        caption="Project, scale, then gain and bias.",
        alt="Rows on their way to the circle and the ellipse.",
    ).png


# %% tags=["nbval-ignore-output"]
step.observe(redraw, "value")
epsilon.observe(redraw, "value")
redraw()
widgets.VBox([step, epsilon, picture])

# %%
way = torch.stack(
    [cloud[0], on_its_way(1)[0], on_its_way(2)[0]]
)  # (3, 3) three stations of one row
plot.scatter3d(
    {"rows": cloud, "projected": on_its_way(1), "scaled": on_its_way(2)},
    curves={"circle": circle, "one row's way": way, "gain and bias": circle * weight3 + bias3},
    sphere=3**0.5,
    plane=[1, 1, 1],
    view=(5, 72),
    limit=2.5,
    size=(7, 5),
    colors={
        "rows": "none",
        "projected": "DyT",
        "scaled": "LayerNorm",
        "circle": "LayerNorm",
        "one row's way": "softmax",
        "gain and bias": "InstanceNorm",
    },
    title="LayerNorm: down onto a plane, out to a circle",
    x="feature 1",
    y="feature 2",
    z="feature 3",
    caption="Nine rows of three features at ε = 0: gray as they come, light blue projected "
    "onto the plane of zero sum, dark blue scaled to radius √3. Gain and bias take the circle "
    "to the ellipse. Wire frame: the sphere of radius √3.",
    alt="A sphere cut by a plane through its center. Scattered gray points lie off the plane; "
    "light blue points are their feet on the plane; dark blue points lie on a circle, where "
    "plane and sphere meet. A line follows one row through these three stations. An ellipse, "
    "tilted and shifted, is where gain and bias take the circle.",
)

# %% [markdown]
# It lies in a plane, but hardly ever in one through the origin. For gains that are not 0, all outputs satisfy $\sum_i (y_i - \beta_i)/\gamma_i = 0$, and the origin does so only if $\sum_i \beta_i/\gamma_i = 0$. On that plane $\sum_i \big((y_i - \beta_i)/\gamma_i\big)^2 = D$ at $\epsilon = 0$ (less for $\epsilon > 0$). In $D$ dimensions: an ellipsoid, flat in one direction.

# %%
y = on_its_way(3).double()  # (B, 3)
undone = (y - bias3) / weight3  # (B, 3)
assert (
    undone.sum(-1).abs().max() < 1e-5 and (undone.square().sum(-1) - 3).abs().max() < 1e-5
)  # y came in float32
assert y.sum(-1).abs().max() > 1  # the plane of zero sum is gone

# %% [markdown]
# ### Two features, and one
#
# A sphere of radius $\sqrt D$ in $D-1$ dimensions: for $D = 3$ a circle. For $D = 2$ the plane is a line, and a "sphere" on a line is two points. For $D = 1$ the only row of sum 0 is 0 itself.
#
# **Predict** the output for the rows $[0, 5]$, $[0, -0.2]$, $[0, 0.001]$, with $\epsilon = 10^{-5}$.

# %%
pairs = torch.tensor([[0.0, 5.0], [0.0, -0.2], [0.0, 0.001]])  # (B, D) = (3, 2)
show("two features", F.layer_norm(pairs, (2,)), digits=3)
show("one feature", F.layer_norm(torch.tensor([[5.0], [-0.2]]), (1,)))

# %% [markdown]
# Two different features come out as $\pm1$, *which is larger* and nothing else, as far as $\epsilon$ allows: at a difference of 0.001 the deviation is 0.0005, and $0.0005/\sqrt{0.0005^2+10^{-5}} = 0.156$.
# One feature comes out as 0, whatever it was. Keep that for the clinic, and never test a norm with $D = 2$.
#
# ## 8.3 A second time
#
# A row that lies in the plane and on the sphere is where it should be. So at $\epsilon = 0$, before gain and bias, a second LayerNorm does nothing (the word for that is **idempotent**): $\operatorname{LN}(\operatorname{LN}(x)) = \operatorname{LN}(x)$.
#
# **Predict:** is that true with $\epsilon = 10^{-5}$, for a row of deviation 1? And for one of 0.001?

# %%
row = (
    torch.tensor([-1.0, -1.0, -1.0, -1.0, 2.0, 2.0], dtype=torch.float64) / 2**0.5
)  # (D,) mean 0, deviation 1
for s in (1.0, 0.001, 1e-6):
    out, passes = s * row, []
    for _ in range(4):
        out = F.layer_norm(out, (6,))
        passes.append(out.std(correction=0))
    show(f"deviation {s}: after 1, 2, 3, 4 passes", passes)
once = F.layer_norm(row, (6,), eps=0.0)
assert (
    F.layer_norm(once, (6,), eps=0.0) - once
).abs().max() < 1e-14  # eps = 0: a second pass is rounding

# %% [markdown]
# The first row is home after one pass (its deviation is $0.999995$). The second comes out at 0.30, and a second pass more than triples it; from $10^{-6}$ it takes three.
# Nets do stack two norms, without meaning to ([section 11.12](11_transformer.ipynb)): PyTorch's `nn.Transformer`, for example, puts a final norm behind layers that (by default) end in one already. For well-spread rows, and while gains are 1 and biases 0, that costs nothing but time.
#
# ## 8.4 What gets through: the spectrum of the Jacobian
#
# [Lesson 7](07_backward.ipynb) found the Jacobian, before gain and bias. With $r = 1/\sqrt{v+\epsilon}$:
#
# $$J = r\,\big(P - \tfrac1D\,\hat x\hat x^\top\big)$$
#
# It is symmetric, so it stretches a change of the row by a fixed factor along each of $D$ directions at right angles to one another. Those factors, here called slopes, are its **eigenvalues** (and, as none is negative, the singular values of section 7.4); all together are its **spectrum**. In short:
# - **along $\mathbf 1$:** $P\mathbf 1 = 0$ and $\hat x^\top\mathbf 1 = 0$, so $J\mathbf 1 = 0$. A shift of the row is not seen.
# - **along $\hat x$:** $\|\hat x\|^2 = D\,v/(v+\epsilon)$, so $J\hat x = r\,\big(1 - \tfrac{v}{v+\epsilon}\big)\hat x = r\,\tfrac{\epsilon}{v+\epsilon}\,\hat x$. A stretch of the row is not seen at $\epsilon = 0$, and seen a little else.
# - **along the other $D-2$ directions,** at right angles to both: $J u = r\,u$. They pass, multiplied by $r$.
#
# So the largest slope is $r$ (for $D \ge 3$), as lesson 3 claimed. Is it so?

# %%
x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 10.0], dtype=torch.float64)  # (D,) = (6,)
v = x.var(correction=0)  # 9.33
for share in (0.0, 0.1, 1.0, 10.0):
    eps = share * v.item()
    J = torch.func.jacrev(lambda x, eps=eps: F.layer_norm(x, (6,), eps=eps))(x)  # (D, D)
    spectrum = torch.linalg.eigvalsh((J + J.T) / 2).flip(0) * v.sqrt()  # (D,)
    r = (v + eps).rsqrt()
    expected = torch.stack([*[r] * 4, r * eps / (v + eps), 0 * r]) * v.sqrt()  # (D,)
    assert (J - J.T).abs().max() < 1e-12 and (
        spectrum - expected
    ).abs().max() < 1e-12  # float64
    show(f"eps = {share:4} v: slopes times sigma", spectrum, digits=3)

# %% [markdown]
# At $\epsilon = 0$ two of six directions are lost. Here is the whole range, for a row of deviation 1.

# %%
eps = torch.logspace(-4, 1, 61, dtype=torch.float64)  # (61,) in units of the variance
r = (1 + eps).rsqrt()  # (61,)
assert (
    abs(eps[(r * eps / (1 + eps)).argmax()] - 2) < 0.3
)  # the bump is at eps = 2 v, and 0.385 high
plot.lines(
    eps,
    {
        "D − 2 other directions": r,
        "along x̂ (stretch)": r * eps / (1 + eps),
        "along 1 (shift)": 0 * eps,
    },
    xlog=True,
    colors={
        "D − 2 other directions": "LayerNorm",
        "along x̂ (stretch)": "InstanceNorm",
        "along 1 (shift)": "none",
    },
    vref={"ε = v": 1.0},
    title="Shift is always forgotten, stretch only while ε is small beside the variance",
    x="ε in units of the row's variance v",
    y="slope, in units of 1/σ",
    caption="The three eigenvalues of the Jacobian of LayerNorm before gain and bias: r, "
    "r·ε/(v+ε) and 0, with r = 1/√(v+ε), for D ≥ 3.",
    alt="Three curves over eps on a logarithmic axis. The slope of the D minus 2 other "
    "directions is 1 and falls once eps exceeds a tenth of the variance. The slope along x "
    "hat rises from 0 to 0.385 at twice the variance and then falls, close to the first. The "
    "slope along the ones is 0.",
)

# %% [markdown]
# On the right, where $\epsilon$ outweighs the variance, both curves become one: the layer is $Px/\sqrt\epsilon$ there, a linear map that forgets the shift alone.
#
# ### What is forgotten stays forgotten
#
# Two lost directions, followed to the end, are a statement about whole rows: at $\epsilon = 0$, for every $a > 0$ and every $b$,
#
# $$\operatorname{LN}(a\,x + b\,\mathbf 1) = \operatorname{LN}(x).$$
#
# Different rows, one output. That is why **LayerNorm cannot be the identity** on all rows, whatever its gain and bias (section 4.2; nor with $\epsilon > 0$: the shift stays lost). BatchNorm in training mode can, for the batch that it sees: with each feature's own $\gamma = \sqrt{v+\epsilon}$ and $\beta = \mu$.

# %%
g = torch.Generator().manual_seed(84)
x = torch.randn(8, 5, dtype=torch.float64, generator=g)  # (B, D)
weight, bias = torch.randn(2, 5, dtype=torch.float64, generator=g)  # (D,) each
ln = lambda x: F.layer_norm(x, (5,), weight, bias, eps=0.0)  # any gain and bias
assert (
    ln(3 * x + 7) - ln(x)
).abs().max() < 1e-13  # a = 3, b = 7: the same output, up to rounding
var, mean = torch.var_mean(x, 0, correction=0)  # (D,) each
undone = F.batch_norm(
    x, None, None, (var + 1e-5).sqrt(), mean, training=True, eps=1e-5
)  # (B, D)
assert (undone - x).abs().max() < 1e-13  # BatchNorm as the identity

# %% [markdown]
# BatchNorm in evaluation mode can be folded into the linear layer *before* it (section 6.7). LayerNorm cannot. Its factor $1/\sqrt{v+\epsilon}$ is another one for each row: the rows $[0,1,2,3]$ and $[0,10,20,30]$ need 0.894 and 0.0894. Parts of it can: the projection is linear and fits into the layer before ($PW$ in place of $W$), gain and bias fit into a linear layer *after* it. The scaling stays.
#
# ## 8.5 RMSNorm: the sphere without the projection
#
# What if we leave out the first move? Scale to radius $\sqrt D$, and that is all. The squared length over $D$ is the mean of the squares:
#
# $$\operatorname{RMSNorm}(x) = \sqrt D\,\frac{x}{\sqrt{\|x\|^2 + D\,\epsilon}} = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \epsilon}}$$
#
# Three lines, and a last one for the gain. (There is no bias.) Zhang & Sennrich proposed it in 2019; many large language models use it, the Llama family among them.


# %%
def rms(x, weight, eps=1e-6):
    """RMSNorm of the last axis: x (..., D), weight (D,)."""
    mean_square = (x * x).mean(-1, keepdim=True)  # (..., 1)
    x_hat = x / torch.sqrt(mean_square + eps)  # (..., D)
    return x_hat * weight  # (..., D)


# %%
g = torch.Generator().manual_seed(83)
x = torch.randn(8, 5, dtype=torch.float64, generator=g)  # (B, D)
weight = torch.randn(5, dtype=torch.float64, generator=g)  # (D,)
assert (rms(x, weight) - F.rms_norm(x, (5,), weight, eps=1e-6)).abs().max() < 1e-12  # float64
centered = x - x.mean(-1, keepdim=True)  # (B, D)
assert (
    rms(centered, weight) - F.layer_norm(x, (5,), weight, eps=1e-6)
).abs().max() < 1e-12  # LN = RMSNorm after P
show("RMSNorm of [5, 5, 5]", rms(torch.full((3,), 5.0), torch.ones(3)))
show("LayerNorm of [5, 5, 5]", F.layer_norm(torch.full((3,), 5.0), (3,)))

# %% [markdown]
# LayerNorm *is* RMSNorm after a projection. RMSNorm keeps the direction $\mathbf 1$; it forgets length alone. By the argument of 8.4, its Jacobian $r\,(I - \tfrac1D\hat x\hat x^\top)$ has the slope $r$ in $D-1$ directions, and $r\,\epsilon/(\operatorname{mean}(x^2)+\epsilon)$ along $x$.
#
# Now a module that can take the place of `nn.RMSNorm`, half precision included. One thing differs from `nn.LayerNorm`: the default `eps=None`. PyTorch 2.13 then takes the machine epsilon of the type it computes in, `torch.finfo(...).eps`: that of float32 ($1.2\cdot10^{-7}$) for float32 *and for both half types*, which it computes in float32, and that of float64 ($2.2\cdot10^{-16}$) for float64.


# %% tags=["exercise", "export"] id="ex-8-2"
# Exercise 8.2 · ●●●○○ · 7 min
class RMSNorm(nn.Module):
    """Root mean square normalization with a learned gain: takes the place of torch.nn.RMSNorm.

    normalized_shape: sizes of the last axes that are normalized together; an int, a list, a
        tuple or a torch.Size.
    eps: added to the mean square, under the root; None: the machine epsilon of the type that is
        computed in.
    weight: Parameter of shape normalized_shape that starts at 1, or None without
        elementwise_affine.
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        sizes = (
            (normalized_shape,)
            if isinstance(normalized_shape, Integral)
            else tuple(normalized_shape)
        )
        if not sizes or min(sizes) < 0:
            raise RuntimeError(
                f"normalized_shape is {normalized_shape!r}, expected sizes, like x.shape[-1]."
            )
        self.normalized_shape, self.eps, self.elementwise_affine = (
            sizes,
            eps,
            elementwise_affine,
        )
        weight = (
            nn.Parameter(torch.ones(sizes, device=device, dtype=dtype))
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", weight)

    def reset_parameters(self):
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def forward(self, x):
        # (..., *normalized_shape) in, same shape and dtype out; computed in float32 at least
        axes = tuple(range(-len(self.normalized_shape), 0))
        if tuple(x.shape[axes[0] :]) != self.normalized_shape:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (*, {str(self.normalized_shape)[1:]}."
            )
        if not x.is_floating_point():
            raise NotImplementedError(
                f"RMSNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        eps = torch.finfo(wide.dtype).eps if self.eps is None else self.eps
        y = wide / torch.sqrt((wide * wide).mean(axes, keepdim=True) + eps)
        y = y if self.weight is None else y * self.weight
        return y.to(x.dtype)
        ### END SOLUTION

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


# %% tags=["check"]
check.rms_norm_module(RMSNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Start from the three lines of `rms`, with `axes` in place of `-1`. Then widen first, `x.to(torch.promote_types(x.dtype, torch.float32))`, and return in `x.dtype`.
# Choose `eps` after widening (`is None`: an eps of 0 is an eps, too), and multiply by the gain only if there is one.
#
# </details>

# %%
layer, theirs = RMSNorm((4, 6)), nn.RMSNorm((4, 6))
g = torch.Generator().manual_seed(85)
theirs.load_state_dict({"weight": torch.randn(4, 6, generator=g)})
layer.load_state_dict(theirs.state_dict())
x = torch.randn(3, 4, 6, generator=g)  # (B, C, D)
print(layer)
assert (layer(x) - theirs(x)).abs().max() < 2e-6  # float32, numbers up to 5

# %% [markdown]
# ## 8.6 The invariance table
#
# A norm sits behind a linear layer, $a = Wx$. Change the weights or the data in some regular way: does the output of the norm change? Table 1 of the LayerNorm paper answers for three norms and six changes. (A sample is a *case* there.)
# We compute all of it, for a linear layer without a bias. **WeightNorm** is the odd one out: it divides each weight vector (each row of $W$) by its length and never looks at the data.

# %%
norms = {  # x (N, D), W (H, D) -> (N, H), all at eps = 0, before gain and bias
    "BatchNorm": lambda x, W: (
        F.layer_norm((x @ W.T).T, x.shape[:1], eps=0.0).T
    ),  # LayerNorm along the batch axis
    "WeightNorm": lambda x, W: x @ F.normalize(W, dim=1).T,
    "LayerNorm": lambda x, W: F.layer_norm(x @ W.T, W.shape[:1], eps=0.0),
    "RMSNorm": lambda x, W: F.rms_norm(x @ W.T, W.shape[:1], eps=0.0),
}


# %%
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


# %% [markdown]
# First your prediction, for RMSNorm. It looks at one case at a time and divides $a$, the $H$ outputs of the linear layer, by their root mean square.

# %% tags=["exercise"] id="ex-8-3"
# Exercise 8.3 · ●●○○○ · 4 min
# Does the output of RMSNorm stay the same (True) or not (False)? eps = 0, before the gain.
# rms_invariant = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
# a  the whole matrix W is multiplied by 3
# b  one vector is added to all rows of W
# c  one row of W is multiplied by 3
# d  all data are multiplied by 3
# e  one vector is added to all data
# f  one case (one x) is multiplied by 3
### BEGIN SOLUTION
rms_invariant = {"a": True, "b": False, "c": False, "d": True, "e": False, "f": True}
### END SOLUTION

# %% tags=["check"]
check.rms_invariant(rms_invariant)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What happens to the vector $a = Wx$ of one case? RMSNorm forgets a positive factor of $a$ that is common to all its entries, and nothing else.
#
# </details>
#
# Now all 24 cells: what the paper's table (and, for the last row, RMSNorm's README) says, and what comes out. Six claims a line, each asserted.

# %%
said = {
    "BatchNorm": "yes no yes yes yes no",
    "WeightNorm": "yes no yes no no no",
    "LayerNorm": "yes yes no yes no yes",
    "RMSNorm": "yes no no yes no yes",
}

# %%
g = torch.Generator().manual_seed(86)
x, W = (
    torch.randn(9, 4, dtype=torch.float64, generator=g),
    torch.randn(5, 4, dtype=torch.float64, generator=g),
)
table = {}
for name, norm in norms.items():
    moved = [
        (norm(*changed) - norm(x, W)).abs().max().item()
        for changed in changes(x, W, g).values()
    ]
    for change, answer in zip(moved, said[name].split(), strict=True):
        assert (
            change < 1e-12 if answer == "yes" else change > 0.1
        )  # 1e-15 and 0.3 are the worst of 24 seeds
    table[name] = moved

# %%
plot.heat(
    [[float(change < 1e-12) for change in moved] for moved in table.values()],
    list(norms),
    list(changes(x, W, g)),
    texts=[
        ["same" if change < 1e-12 else "changes" for change in moved]
        for moved in table.values()
    ],
    limits=(0, 1.6),
    title="Each norm is blind to changes of its own",
    x="what is done to weights or data",
    y="norm",
    size=(8.6, 3.4),
    caption="Does the output of the norm stay the same (to 1e-12, float64)? ε = 0, before gain "
    "and bias, positive factors, BatchNorm in training mode. 9 cases, 4 inputs, 5 units.",
    alt="A table of four norms and six changes. Scaling the whole matrix changes none. Adding "
    "one vector to all rows of W leaves LayerNorm alone the same; scaling one row leaves "
    "BatchNorm and WeightNorm the same; scaling all data all but WeightNorm; shifting all "
    "data BatchNorm alone; scaling one case LayerNorm and RMSNorm.",
)

# %% [markdown]
# Read the two norms of this lesson by their geometry. Both forget a common factor of $a$, so everything that multiplies all of $a$ is invisible: $W\times3$, all data, one case. LayerNorm also forgets a shift of all entries of $a$, and that is column two.
#
# Two traps in that table:
# - **Re-centering adds *one* vector $\delta$ to all rows of $W$.** Then each $a_h$ gains the same number, $\delta\cdot x$. Another vector for each row is another matrix. Nor does "all data shifted" do it: that adds another number to each $a_h$.
# - **$\epsilon$ must be 0.** With PyTorch's default, a small $W$ is enough to break a "yes".

# %%
g = torch.Generator().manual_seed(87)
layer_norm = norms["LayerNorm"]
each_row = torch.randn(
    5, 4, dtype=torch.float64, generator=g
)  # (H, D): a vector of its own for each row
assert (
    layer_norm(x, W + each_row) - layer_norm(x, W)
).abs().max() > 0.1  # 1.2 is the least of 24 seeds
small = 1e-3 * W  # (H, D)
with_eps = lambda W: F.layer_norm(x @ W.T, (5,))  # eps = 1e-5
assert (with_eps(3 * small) - with_eps(small)).abs().max() > 0.1  # 0.5 is the least of 24 seeds
assert (
    with_eps(small + each_row[0]) - with_eps(small)
).abs().max() < 1e-9  # a shift stays invisible at any eps

# %% [markdown]
# The last line is 8.4 once more: $\epsilon$ spoils the scaling, never the shift.
#
# ## 8.7 Weights before a norm
#
# Column one has consequences for training. If the loss does not see the size of $W$, $L(cW) = L(W)$ for all $c > 0$, then
# - the slope along $W$ itself is zero: $\langle W, \nabla L\rangle = 0$ (sum over all entries of the matrix);
# - the gradient shrinks as $W$ grows: differentiate $L(cW) = L(W)$ in $W$, and $c\,\nabla L(cW) = \nabla L(W)$.
#
# Column two says: the loss does not see one vector added to all rows, so **each column of the gradient sums to 0** (LayerNorm only).

# %%
split = data.digits_split(0)
X, labels = split.x_train.flatten(1).double(), split.y_train  # (1297, 64), (1297,)


def loss_and_gradient(W, V, batch, eps=0.0):
    """A net with a norm, digits -> W -> LayerNorm -> ReLU -> V -> cross-entropy: its loss, and
    the gradient of W.
    """
    W = W.detach().requires_grad_()
    h = F.layer_norm(X[batch] @ W.T, W.shape[:1], eps=eps)  # (B, 32)
    loss = F.cross_entropy(F.relu(h) @ V.T, labels[batch])
    return loss.item(), torch.autograd.grad(loss, W)[0]


# %%
g = torch.Generator().manual_seed(88)
W = torch.randn(32, 64, dtype=torch.float64, generator=g) / 8  # (H, D)
V = torch.randn(10, 32, dtype=torch.float64, generator=g) / 32**0.5  # (10, H)
batch = torch.arange(64)
loss, gradient = loss_and_gradient(W, V, batch)  # number, (32, 64)
cosine = (W * gradient).sum() / (W.norm() * gradient.norm())
assert (
    abs(cosine) < 1e-13 and gradient.sum(0).abs().max() < 1e-13
)  # float64; both are 0 in exact arithmetic
per_row = (W * gradient).sum(1)  # (32,) not 0 row by row: scaling one row alone is seen
assert per_row.abs().max() > 1e3 * per_row.sum().abs()

# %%
for c in (0.1, 10.0, 1000.0):
    scaled_loss, scaled = loss_and_gradient(c * W, V, batch)
    assert abs(scaled_loss - loss) < 1e-13 and (c * scaled - gradient).abs().max() < 1e-12
    show(f"W times {c:6}: gradient norm, times what it was", scaled.norm() / gradient.norm())

# %% [markdown]
# A step of **plain SGD** (no weight decay, no momentum) goes at right angles to $W$. Pythagoras: $\|W_{t+1}\|^2 = \|W_t\|^2 + \eta^2\|\nabla L\|^2$ with learning rate $\eta$. The norm of $W$ can only grow.
#
# And what counts for the loss is the *direction* $w = W/\|W\|$ alone. In one step $W$ turns by an angle of about $\eta\,\|\nabla L(W)\|/\|W\|$ (step over length, in radians), and $\nabla L(W) = \nabla L(w)/\|W\|$. So the direction moves as if it had unit length and an **effective learning rate**.


# %% tags=["exercise"] id="ex-8-4"
# Exercise 8.4 · ●●○○○ · 5 min
def effective_learning_rate(weight, lr):
    """The learning rate with which the direction weight / |weight| moves, to first order in lr.

    weight: (H, D) tensor before a norm (eps = 0); its length is the root of the sum of all
        squared entries.
    lr: learning rate of plain SGD. Returns a number: lr itself where |weight| = 1.
    """
    ### BEGIN SOLUTION
    return (
        lr / (weight * weight).sum()
    )  # once for the smaller gradient, once for the longer way around
    ### END SOLUTION


# %% tags=["check"]
check.effective_learning_rate(effective_learning_rate)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Put $\nabla L(W) = \nabla L(w)/\|W\|$ into the turn of one step. How often does $\|W\|$ stand below the fraction line?
#
# </details>
#
# If it is right, two very different settings have one effective rate:

# %%
ours, other = effective_learning_rate(W, 0.5), effective_learning_rate(10 * W, 50.0)
assert abs(ours / other - 1) < 1e-12  # float64
print("the effective rates of (W, 0.5) and (10 W, 50) are equal")

# %% [markdown]
# **Predict:** train from $W$ with learning rate 0.5, and from $10\,W$ with learning rate 50. How far apart are the losses after 100 steps? And from $10\,W$ with learning rate 0.5?


# %%
def train(c, lr, seed, eps=0.0, steps=100):
    """Plain SGD on W from c times the weights of a seed, V frozen; (losses (steps,), norms of W
    (steps + 1,)).
    """
    g = torch.Generator().manual_seed(seed)
    W = c * torch.randn(32, 64, dtype=torch.float64, generator=g) / 8  # (32, 64)
    V = torch.randn(10, 32, dtype=torch.float64, generator=g) / 32**0.5  # (10, 32)
    losses, lengths = [], [W.norm()]
    for _ in range(steps):
        batch = torch.randint(len(X), (64,), generator=g)
        loss, gradient = loss_and_gradient(W, V, batch, eps)
        W = W - lr * gradient
        losses.append(loss), lengths.append(W.norm())
    return torch.tensor(losses, dtype=torch.float64), torch.stack(lengths)


# %%
seeds = range(5)
plain, tenfold, slow = (
    [train(c, lr, seed) for seed in seeds] for c, lr in [(1, 0.5), (10, 50.0), (10, 0.5)]
)
for (a, lengths), (b, _), (late, late_lengths) in zip(plain, tenfold, slow, strict=True):
    assert (a - b).abs().max() < 1e-12  # float64, eps = 0; 4e-16 is the worst of 16 seeds
    assert late[-10:].mean() - a[-10:].mean() > 0.8  # 1.2 is the least of 26 seeds
    assert (lengths.diff() > 0).all() and late_lengths[-1] / late_lengths[0] < 1.001
print(
    f"the losses of (W, 0.5) and (10 W, 50) agree to the last digits in {len(plain)} of "
    f"{len(plain)} seeds"
)

# %%
plot.lines(
    range(100),
    {
        "10 W, lr 0.5": torch.stack([loss for loss, _ in slow]),
        "W, lr 0.5": torch.stack([loss for loss, _ in plain]),
        "10 W, lr 50": torch.stack([loss for loss, _ in tenfold])
        .mean(0)
        .where(torch.arange(100) % 9 == 0, torch.nan),
    },
    colors={"10 W, lr 0.5": "InstanceNorm", "W, lr 0.5": "LayerNorm", "10 W, lr 50": "none"},
    dots=["10 W, lr 50"],
    title="Ten times the weights and a hundred times the rate: the same run",
    x="step of plain SGD",
    y="training loss",
    caption="Digits, W → LayerNorm (ε = 0) → ReLU → fixed output layer, batch 64, float64, no "
    "momentum, no weight decay. Dots: the mean of the same 5 seeds, every ninth step.",
    alt="Three loss curves over 100 steps. From W at rate 0.5 the loss falls from 2.4 to 0.7; "
    "the dots of ten times W at rate 50 lie exactly on it. From ten times W at rate 0.5 the "
    "loss only falls to 2.1.",
)

# %% [markdown]
# The two runs are one run. With the same rate, ten times the weights learn a hundred times more slowly.
#
# The same thing happens *within* a run: $\|W\|$ grows, so the effective rate falls without a schedule. How much, is easily read off.

# %% tags=["nbval-ignore-output"]
for seed, (_, lengths) in zip(seeds, plain, strict=True):
    share = (lengths[0] / lengths[-1]).square().item()
    assert 0.7 < share < 0.9  # 0.79 to 0.85 over 16 seeds
    print(
        f"seed {seed}: |W| from {lengths[0]:.2f} to {lengths[-1]:.2f}, effective rate down to "
        f"{100 * share:.0f} %"
    )

# %% [markdown]
# ### Other optimizers
#
# All that was plain SGD. What changes with others, still at $\epsilon = 0$ in the norm:
# - **Weight decay** $\lambda$ adds $\lambda W$ to the gradient, which pulls $\|W\|$ back. The output does not see the length of $W$, so before a norm this is no limit on what the net can compute. It holds the effective rate up.
# - **Momentum** steps along a mean of past gradients, no longer at right angles to $W$: Pythagoras is lost, the equality of two runs is not.
# - **Adam** divides by the gradient's own size, entry by entry, so its steps do not shrink when the gradient does. Only the longer way around is left: its effective rate falls with $1/\|W\|$, not with its square.
#
# **Predict:** which settings of learning rate and decay make a run from $10\,W$ equal to one from $W$, for SGD with both, and for Adam?


# %%
def train_with(optimizer, c, steps=50):
    """Train from c times the weights of seed 0, eps = 0; optimizer: [W] -> a torch optimizer.
    (losses (steps,), |W|).
    """
    g = torch.Generator().manual_seed(0)
    W = nn.Parameter(c * torch.randn(32, 64, dtype=torch.float64, generator=g) / 8)  # (H, D)
    V = torch.randn(10, 32, dtype=torch.float64, generator=g) / 32**0.5  # (10, H)
    rule, losses = optimizer([W]), []
    for _ in range(steps):
        loss, W.grad = loss_and_gradient(W, V, torch.randint(len(X), (64,), generator=g))
        rule.step(), losses.append(loss)
    return torch.tensor(losses, dtype=torch.float64), W.norm().item()


# %%
def sgd(c, decay, momentum=0.9):
    return train_with(
        lambda W: torch.optim.SGD(W, 0.1 * c**2, momentum=momentum, weight_decay=decay / c**2),
        c,
    )


def adam(
    c,
):  # its own eps as good as 0; not 0, because some pixels are always blank and have no gradient
    return train_with(lambda W: torch.optim.Adam(W, 0.01 * c, eps=1e-30), c)


assert (
    sgd(10, 0.01)[0] - sgd(1, 0.01)[0]
).abs().max() < 1e-12  # rate times 100, decay over 100
assert (
    adam(10)[0] - adam(1)[0]
).abs().max() < 1e-12  # rate times 10; 9e-16 is the worst of 6 seeds for both
assert sgd(1, 0.1, momentum=0)[1] < sgd(1, 0.0, momentum=0)[1]  # decay shortens W
print("one run each: SGD from 10 W with 100 lr and decay / 100, Adam from 10 W with 10 lr")

# %% [markdown]
# With decay, $(W, \eta, \lambda)$ and $(cW, c^2\eta, \lambda/c^2)$ are one run; with Adam, $(W, \eta)$ and $(cW, c\,\eta)$.
#
# ### And eps?
#
# So far the $\epsilon$ of the norm was 0. It must be 0, or small beside the variance of $Wx$.
#
# Compare $(W, \eta)$ with $(cW, c^2\eta)$ in plain SGD again, now for PyTorch's $10^{-5}$ as well.

# %%
factors = [1e-4, 1e-3, 1e-2, 1e-1, 10.0, 100.0]


def gaps(eps):
    """Largest difference of the losses of (W, 0.5) and (c W, 0.5 c²) in 60 steps: (seeds,
    factors).
    """
    rows = []
    for seed in range(4):
        base = train(1, 0.5, seed, eps, steps=60)[0]
        rows.append(
            [
                (train(c, 0.5 * c * c, seed, eps, steps=60)[0] - base).abs().max()
                for c in factors
            ]
        )
    return torch.tensor(rows, dtype=torch.float64)


exact, default = gaps(0.0), gaps(1e-5)  # (4, 6) each
# 9e-16 is the worst of 12 seeds; with eps 0.86 is the least at c <= 0.001, 5e-6 to 5e-3 at
# c >= 10 (22 seeds)
assert exact.max() < 1e-12
assert (
    default[:, :2].min() > 0.3 and 1e-8 < default[:, 4:].min() and default[:, 4:].max() < 0.02
)

# %%
plot.lines(
    factors,
    {"ε = 1e-5": default.amax(0), "ε = 0": exact.amax(0)},
    xlog=True,
    ylog=True,
    colors={"ε = 1e-5": "InstanceNorm", "ε = 0": "LayerNorm"},
    title="With ε, the size of the weights counts again",
    x="factor c on the weights (and c² on the learning rate)",
    y="largest difference of the loss in 60 steps",
    caption="Runs from cW with rate 0.5 c² against W with rate 0.5, the net and data of the "
    "last figure, the worst of 4 seeds.",
    alt="Two lines on logarithmic axes. At eps 0 the difference is some 1e-16 for all factors. "
    "At eps 1e-5 it is far below a hundredth for large weights and rises to about 1 once the "
    "weights are a thousandth of their size.",
)

# %% [markdown]
# At the usual size of weights or more ($Wx$ has a variance near 1) $\epsilon$ moves the losses by less than a hundredth. At a thousandth, $Wx$ has a variance below $\epsilon$, the norm fades out (8.4), and the argument is void.
#
# ## 8.8 Clinic: features that never arrive
#
# A recommender reads $K$ numbers for each sample (price, age, …), already standardized over the training set. Each is to become a *token* of $E$ numbers. Someone adds "a LayerNorm for each feature", as is done for embeddings.
# The patient is modeled on a public library for recommendation. One of its authors wrote, on finding it, that it might have cost the experiments of their paper accuracy (Transformers4Rec, pull request 151). The same thing was reported to PyTorch as a bug of LayerNorm (pytorch#108956).


# %%
def clinic_tokens(x, weight, bias):
    """The patient: x (B, K), weight and bias (K, E) -> tokens (B, K, E)."""
    x = F.layer_norm(x.unsqueeze(-1), (1,))  # (B, K, 1): each feature is normalized by itself
    return x * weight + bias  # (B, K, E)


g = torch.Generator().manual_seed(89)
x, weight, bias = (
    torch.randn(*shape, generator=g) for shape in [(4, 3), (3, 5), (3, 5)]
)  # (B, K), (K, E), (K, E)
print("output:", tuple(clinic_tokens(x, weight, bias).shape), "no error, no nan, no warning")

# %% [markdown]
# How much gets through, here and in two mends that come to mind? Geometry answers without a run.

# %% tags=["exercise"] id="ex-8-5"
# Exercise 8.5 · ●●○○○ · 4 min
# One feature takes 1,000 different values, none of them 0, some of either sign.
# eps is positive, but negligible.
# How many different tokens come out for it? The weights are random.
# different_tokens = {"patient": ..., "rms": ..., "after": ...}, three whole numbers
# patient  the function above
# rms      RMSNorm in place of LayerNorm: F.rms_norm(x.unsqueeze(-1), (1,)) * weight + bias
# after    LayerNorm over the E numbers, with E = 5:
#          F.layer_norm(x.unsqueeze(-1) * weight, (E,)) + bias
### BEGIN SOLUTION
different_tokens = {"patient": 1, "rms": 2, "after": 2}
### END SOLUTION

# %% tags=["check"]
check.different_tokens(different_tokens)

# %% [markdown]
# <details><summary>Hint</summary>
#
# A sphere in one dimension: which points? And for the last one: $\operatorname{LN}(a\,w) = \operatorname{LN}(w)$ for $a > 0$. What about $a < 0$?
#
# </details>
#
# Now mend it. There is more than one way, and the check takes any that keeps every value apart (it tries 24, and two tokens count as different if they are more than a thousandth of the largest distance apart).


# %% tags=["exercise"] id="ex-8-6"
# Exercise 8.6 · ●●○○○ · 5 min
def mended_tokens(x, weight, bias):
    """Turn each of K standardized numbers into a token: different values, different tokens.

    x: (B, K) float tensor. weight, bias: (K, E), both learned, both used. Returns (B, K, E).
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
# One way is to take something out. Another is to normalize later: over the $E$ numbers, once the *bias* is in.
# Then the rows $x\,w + b$ lie on a line that misses the origin, and the sphere sees a different point for each $x$.
#
# </details>

# %%
values = torch.linspace(-3, 3, 13).unsqueeze(-1).expand(13, 3)  # (B, K)
for name, tokens in {"patient": clinic_tokens, "yours": mended_tokens}.items():
    apart = torch.pdist(
        tokens(values, weight, bias)[:, 0]
    )  # (78,) distances of the tokens of feature 0
    show(
        f"{name}: pairs of 13 values that give the same token, of 78",
        (apart < 1e-4).sum().item(),
    )

# %% [markdown]
# The loss will not tell you about such a fault: the other features carry the net. Ask of every norm **how many numbers it reduces over**: one kills, two leave a sign.
#
# ## Take-away
#
# - LayerNorm is a projection onto the plane of zero sum and a scaling to the radius $\sqrt D$ ($\epsilon = 0$; inside it for $\epsilon > 0$). Gain and bias make an ellipsoid of the sphere.
# - Rows that differ by a shift or, at $\epsilon = 0$, by a positive factor give the same output: $\operatorname{LN}(ax + b\mathbf 1) = \operatorname{LN}(x)$. Where $\epsilon$ outweighs the variance, only the shift is forgotten. One feature gives 0, two give a sign.
# - RMSNorm scales and does not project: LayerNorm is RMSNorm of the centered row. Its default $\epsilon$ is that of the type it computes in.
# - The table: a norm over features does not see $W\times c$ or one case $\times c$, for $c > 0$ at $\epsilon = 0$; LayerNorm alone does not see one vector added to all rows of $W$.
# - Before a norm at $\epsilon = 0$ the effective learning rate of plain SGD is $\eta/\|W\|^2$, and $\|W\|$ grows by itself: $(W, \eta)$ and $(cW, c^2\eta)$ are one run. For Adam they are $(W, \eta)$ and $(cW, c\,\eta)$.
#
# ## On your own
#
# 1. With $a < 0$, what is $\operatorname{LN}(ax)$? Which "yes" of the table become "no" for $c = -3$, and which "same up to sign"?
# 2. Add weight decay to `train`. At which $\|W\|$ do growth and decay balance, and what is the effective rate there?
# 3. Apply LayerNorm to a row that is first shifted by a random number and stretched by a random positive one, as data augmentation. What does a net with LayerNorm as its first layer learn from it?
# 4. Show that the Jacobian of RMSNorm at $\epsilon = 0$ has rank $D - 1$, numerically and on paper.
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, Table 1 (invariances) and section 5.2 (how the norm of the weights acts as a learning rate).
# - Zhang & Sennrich (2019), *Root Mean Square Layer Normalization*: the definition, what it keeps invariant, and what that does to the gradient.
# - Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*: projection and scaling, and what each does for attention ([lesson 11](11_transformer.ipynb) tries it).
# - van Laarhoven (2017), *L2 Regularization versus Batch and Weight Normalization*: the effective learning rate, what weight decay does to it, and why Adam removes that only in part.
# - Transformers4Rec, pull request 151, and pytorch#108956: the clinic's case. pytorch#188375: with one feature, PyTorch's CPU kernel gives the gain a gradient that should be 0.

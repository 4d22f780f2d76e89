# %% [markdown]
# # 0 · LayerNorm in one sitting
#
# A net is to learn which of two rings a point lies on. The net is deep, so its author fears that its numbers could grow too large on the way, and draws small first weights.

# %% tags=["hide-input"]
# Prepares: imports, points, pictures, checks.
import base64
import functools
import io
import math
import re

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

torch.set_num_threads(1)  # nets as small as these are faster so
torch.set_printoptions(precision=2, sci_mode=False)

rng = torch.Generator().manual_seed(0)
ring = torch.arange(512) % 2  # (B,) 0 inside, 1 outside
angle = 2 * math.pi * torch.rand(512, generator=rng)  # (B,)
radius = 1 + ring + 0.15 * torch.randn(512, generator=rng)  # (B,)
points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)  # (B, 2)


class YourTurn(Exception):
    """An exercise that is still open, or not right yet: one line in place of a traceback."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


class NotYet(YourTurn):
    """An answer that is not right yet, and what is wrong with it."""


def check(asserts):
    """Make a function of plain asserts say in one line what is wrong, or that all is right."""

    @functools.wraps(asserts)
    def checked(*answer):
        __tracebackhide__ = True  # an error in the learner's own line is shown without this one
        wrong = ""
        try:
            asserts(*answer)
        except AssertionError as error:
            wrong = str(error)
        except RuntimeError as error:
            wrong = f"{error}. Has a mean lost its axis? Say keepdim=True."
            if "must match the size" not in wrong:
                raise
        if wrong:
            raise NotYet(wrong)
        print(f"Right. {asserts.__doc__}")

    return checked


def numbers(answer, name="", length=1):
    """The answer as a row of `length` numbers in float64."""
    try:
        answer = torch.as_tensor(answer, dtype=torch.float64).flatten()
    except (TypeError, ValueError):  # of a "..." that is left, for one
        raise AssertionError(f"{name} is no list of {length} numbers yet.") from None
    assert len(answer) == length, f"{name} has {len(answer)} numbers, and {length} are wanted."
    return answer


def near(a, b, atol=1e-3):
    """Whether two tensors have the same shape and agree to atol."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), atol=atol, rtol=0)


LETTERS = {1: "", 5: "D · ", 0.2: "1/D · ", 1.25: "D/(D − 1) · ", 0.8**0.5: "√((D − 1)/D) · "}


def agree(name, mine, right, hint, parts=None):
    """Assert that mine is right; else say what sum of parts, {name: tensor}, it is. D is 5."""
    if near(mine, right):
        return
    parts = {
        name: part.double().expand(mine.shape)
        for name, part in (parts or {"the right one": right}).items()
    }
    columns = torch.stack([part.detach().flatten() for part in parts.values()], 1)
    flat = mine.detach().double().flatten()
    factors = torch.linalg.lstsq(columns, flat.nan_to_num()[:, None]).solution.flatten()
    worst = torch.unravel_index((mine - right).abs().argmax(), mine.shape)
    told = f"not right, most of all at [{', '.join(str(int(at)) for at in worst)}]"
    if near(columns @ factors, flat, 1e-4):
        told = ""
        for factor, part in zip(factors.tolist(), parts, strict=True):
            size = abs(factor)
            known = [text for value, text in LETTERS.items() if abs(value - size) < 1e-3]
            if size > 1e-3:
                told += " − " if factor < 0 else " + " if told else " "
                told += f"{known[0] if known else f'{size:.3g} · '}{part}"
    raise AssertionError(f"{name} is {told.strip() or 0}. {hint}")


class Calls(TorchFunctionMode):
    """Notes the names of torch's functions that are called."""

    names = ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names += f" {function.__name__}"
        return function(*args, **kwargs or {})


def built(function, *inputs):
    """What function makes of tensors, which it leaves as they are, by formulas of its own."""
    __tracebackhide__ = True
    given = [item.clone() if torch.is_tensor(item) else item for item in inputs]
    with Calls() as calls:
        y = function(*given)
    kind = type(y).__name__
    assert torch.is_tensor(y), f"the answer is a {kind}. Does the last line return it?"
    theirs = r"(layer|batch|group|instance|rms)_norm|\b(grad|backward)\b"
    theirs = re.search(theirs, calls.names)
    assert not theirs, f"PyTorch's own {theirs[0]} is what you build. Write the formula."
    x, mine = ((tuple(item.shape), item.dtype) for item in (inputs[0], y))
    assert mine == x, f"of {x[1]} numbers of shape {x[0]} it made {mine[1]} of shape {mine[0]}."
    same = all(torch.equal(a, b) for a, b in zip(inputs, given, strict=True) if a is not b)
    assert same, "an input has changed. Write a = a - b in place of a -= b."
    return y


def over(y, right, *inputs):
    """Say over which axes y was computed, if right(*inputs, axes) says that."""
    for axes in (*range(y.dim() - 1), tuple(range(y.dim()))):
        if near(y, right(*inputs, axes)):
            return f"It is computed over axis {axes}. Take the last one, -1."


def flows(y, mine, right, theirs, dy):
    """Assert that the gradients of y in the tensors mine are those of right in theirs."""
    hint = "a gradient is not: was a tensor detached, a plain number, or made under no_grad?"
    assert y.requires_grad, f"the values are right, {hint}"
    mine = torch.autograd.grad(y, mine, dy, allow_unused=True)
    for a, b in zip(mine, torch.autograd.grad(right, theirs, dy), strict=True):
        assert a is not None and near(a, b), f"the values are right, {hint}"


class Picture:
    """What draw(axes) draws; a cell that ends with it shows it. alt: the picture in words."""

    def __init__(self, draw, size, title, alt):
        self.png, self.alt, self.width = io.BytesIO(), alt, 90 * size[0]
        with matplotlib.rc_context({"font.size": 12}):
            figure = Figure(size, layout="constrained")
            figure.suptitle(title, fontsize=13, fontweight="bold")
            draw(figure.subplots())
            figure.savefig(self.png, format="png", dpi=150)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = base64.b64encode(self.png.getvalue()).decode()
        return {"image/png": data, "text/plain": self.alt}, {
            "image/png": {"alt": self.alt, "width": self.width}
        }


BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#2B2F33"


# %% tags=["hide-input"]
# Draws the points.
def rings(axes):
    for number, color in enumerate((BLUE, ORANGE)):
        axes.plot(*points[ring == number].T.tolist(), ".", color=color)
    axes.set_aspect("equal")
    axes.axis("off")


alt = (
    "Two rings of 256 points each. The inner one, about 1 from the middle, is blue; "
    "the outer one, about 2 from it, is orange."
)
Picture(rings, (3.6, 3.6), "Blue or orange?", alt)


# %% tags=["hide-input"]
# Draws small first weights.
def small(net):
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.05)
            nn.init.zeros_(layer.bias)
    return net


# %%
def deep_net(norm):
    """Sixteen hidden layers of 64 units, with norm(64) before all ReLUs but the first."""
    layers = [nn.Linear(2, 64), nn.ReLU()]
    for _ in range(15):
        layers += [nn.Linear(64, 64), norm(64), nn.ReLU()]
    return small(nn.Sequential(*layers, nn.Linear(64, 2)))


# %% tags=["hide-input"]
# Prepares the training.
def train(net, batch, steps, rate):
    """Train net with Adam; batch() returns inputs and their classes. Returns the last loss."""
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(steps):
        x, target = batch()
        loss = F.cross_entropy(net(x).flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def try_out(norm):
    """Train a deep net on the rings; print what it has learned."""
    torch.manual_seed(0)
    net = deep_net(norm)
    train(net, lambda: (points, ring), steps=100, rate=1e-3)
    right = net(points).argmax(1) == ring  # (B,)
    print(f"{right.double().mean():.0%} right; ", end="")
    print(f"gradient of the first layer: {net[0].weight.grad.norm():.0e}")


# %% tags=["nbval-ignore-output"]
try_out(nn.Identity)  # returns what it gets: no norm at all

# %% [markdown]
# The net guesses, and next to no gradient reaches its first layer: it is dead. Now one argument changes.

# %% tags=["nbval-ignore-output"]
try_out(nn.LayerNorm)

# %% [markdown]
# The same weights, the same steps, and the net lives.
#
# <details><summary>How sure is that?</summary>
#
# Without a norm {rings[no norm].right:range}, with LayerNorm {rings[LayerNorm].right:range}. The gradient that reaches the first layer at the first step is {rings[no norm].gradient:range} without it, and {rings[LayerNorm].gradient:range} with it.
#
# LayerNorm is one way to heal this net. Two controls end as high without any norm: three hidden layers instead of sixteen ({rings[three layers].right:range}); and sixteen with larger first weights, whose standard deviation is the root of 2 over the number of inputs (He's rule), here 0.18 instead of 0.05 ({rings[He's rule].right:range}). {rings:again}
#
# </details>
#
# What does `nn.LayerNorm` do?
#
# *About 60 min.* **You'll be able to**
# - compute LayerNorm of a row on paper, and write a layer that agrees with PyTorch's;
# - choose an input that exposes a wrong LayerNorm.
#
# **You need** tensors, broadcasting, `backward()`, and to have seen a training loop.

# %% [markdown] tags=["no-site"]
# *Run all cells in order, folded ones too. In an exercise, replace the line `raise YourTurn(...)`.*

# %% [markdown]
# ## 0.1 One row
#
# LayerNorm takes each row of numbers by itself: the features of one sample, or of one word. Ours is **(4, 0, 3, 6, 2)**. Take a pencil:
#
# 1. the mean of the row;
# 2. each entry minus the mean: the *centered* row;
# 3. the variance: the mean of the squares of the centered row;
# 4. the centered row, divided by the root of the variance: $\hat x$, the *standardized* row.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.1.
@check
def check_row(mu, v, x_hat):
    """A standardized row has the mean 0 and the variance 1."""
    hint = "The five entries, 0 among them, add up to 15."
    agree("mu", numbers(mu, "mu"), numbers(3), hint)
    hint = "It is the mean of the squares of (1, −3, 0, 3, −1). No root is taken yet."
    agree("v", numbers(v, "v"), numbers(4), hint)
    centered = torch.tensor([1, -3, 0, 3, -1])
    parts = {"the centered row": centered, "(1, 1, 1, 1, 1)": torch.ones(5)}
    hint = "Divide the centered row by the root of the variance."
    agree("x_hat", numbers(x_hat, "x_hat", 5), centered / 2, hint, parts)


# %% tags=["exercise"] id="ex-0-1"
# Exercise 0.1 · ●○○○○ · 2 min
# Three lines: mu = the mean, v = the variance, x_hat = [five numbers]
### BEGIN SOLUTION
mu = 3
v = 4
x_hat = [1 / 2, -3 / 2, 0, 3 / 2, -1 / 2]
### END SOLUTION
check_row(mu, v, x_hat)

# %% [markdown]
# **Predict 0.1:** multiply the row by 10 and add 100. It is now (140, 100, 130, 160, 120). What is its $\hat x$?
# - [x] the same as before :: Centering takes the 100 off, and the division takes the 10 off.
# - [ ] (5, −15, 0, 15, −5) :: The centered row is ten times as wide. So is the number that it is divided by.
# - [ ] (10.5, 8.5, 10, 11.5, 9.5) :: The 100 is in every entry, so it is in the mean as well, and centering takes it off.

# %%
x = torch.tensor([4.0, 0.0, 3.0, 6.0, 2.0])  # (D,) = (5,)
print("PyTorch:       ", F.layer_norm(x, (5,)))
print("of 10 x + 100: ", F.layer_norm(10 * x + 100, (5,)))
print(f"the variance is {x.var(correction=0):g}, and x.var() says {x.var():g}")

# %% [markdown]
# `x.var()` divides by $D - 1$, here 4. LayerNorm divides by $D$, the number of entries.
#
# **LayerNorm hides how high a row lies, and how wide it is.**
#
# In the deep net every layer makes the rows smaller. LayerNorm hands the next layer a row of ordinary size again.
#
# <details><summary>When this holds</summary>
#
# $c\,x + a$ has the same $\hat x$ as $x$ for any $a$ and any $c > 0$ (below 0 the signs turn), as long as its variance is far above the ε of the next section.
#
# In {rings[no norm]:n} draws of the deep net without a norm, each layer after the first left {rings[no norm].least:min} to {rings[no norm].most:max} of the rows' standard deviation (root of the variance, the mean over all points).
#
# </details>
#
# **Play:** change the row below, and find five numbers of which one becomes 2.

# %%
play = torch.tensor([4, 0, 3, 6, 2])  # (D,)
print(F.layer_norm(play.float(), (5,)))

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# (0, 0, 0, 0, 1) gives 2, and no row of five gives more: of $D$ entries none gets more than $\sqrt{D-1}$.
#
# </details>

# %% [markdown]
# ## 0.2 Five sevens
#
# **Predict 0.2:** what do the same four steps make of the row (7, 7, 7, 7, 7)?
# - [ ] 0, 0, 0, 0, 0 :: That is the centered row. It is divided by the root of the variance, and the variance is 0 as well.
# - [ ] 1, 1, 1, 1, 1 :: The centered row is 0, not 7, when it is divided.
# - [x] no numbers at all :: 0 divided by 0 is nan, "not a number".

# %%
sevens = torch.full((5,), 7.0)  # (D,)
centered = sevens - sevens.mean()  # (D,)
print("by hand:", centered / (centered * centered).mean().sqrt())
print("PyTorch:", F.layer_norm(sevens, (5,)))

# %% [markdown]
# With one such row the loss of the whole batch is nan. PyTorch adds a small number ε to the variance before it takes the root; its default is 0.00001:
#
# $$\hat x = \frac{x-\mu}{\sqrt{v+\epsilon}}$$
#
# Here $\mu$ is the mean and $v$ the variance; one over the root is called `rstd`.
#
# **Predict 0.3:** all of our row is divided by 1000, so its variance is 0.000004. What is its $\hat x$ now?
# - [ ] the same as before :: It would be without ε. Which is larger here, the variance or ε?
# - [x] about half of what it was :: ε is 2.5 times the variance, so the root is 1.87 times as large as it should be.
# - [ ] about a thousandth of what it was :: It would be if ε were far larger than the variance, a million times.

# %%
print(F.layer_norm(x / 1000, (5,)))

# %% [markdown]
# **ε decides how narrow a row may get before it counts as constant.**
#
# Now write the function, for many rows at once. Each row has a mean of its own.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.2.
def recipe(x, eps, axes=-1):
    """The right answer, by torch's own functions."""
    var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (var + eps).sqrt()


@check
def check_normalize(normalize):
    """It agrees with PyTorch on rows of any number of axes, tiny, constant and far from 0."""
    __tracebackhide__ = True
    rng = torch.Generator().manual_seed(2)
    for shape in ((2, 3, 5), (7,)):
        x, dy = (torch.randn(shape, dtype=torch.float64, generator=rng) for _ in range(2))
        x = (2 + 3 * x.cumsum(0)).requires_grad_()
        y, right = built(normalize, x, 1e-5), recipe(x, 1e-5)
        mean, rms = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True).sqrt()
        root = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        powers = {" / root": -1, "": 0, " / root²": -2, " · root": 1}
        parts = {f"x{a}": x * root**p for a, p in powers.items()} | {"x / rms": x / rms}
        parts |= {f"mean{a}": mean * root**p for a, p in powers.items()}
        parts |= {"mean / rms": mean / rms}
        hint = "Right is x / root − mean / root: the root is that of the variance + eps."
        if shape == (7,):
            parts, hint = (
                None,
                "Rows of five are right. Does a 5, or a number of axes, stand in the code?",
            )
        agree("y", y, right, over(y, recipe, x, 1e-5) or hint, parts)
        flows(y, [x], right, [x], dy)
    row = torch.tensor([[4.0, 0.0, 3.0, 6.0, 2.0]])  # (1, D)
    center = "Center the row before you square it, and add eps to the variance."
    under = "Add eps to the variance, under the root, as it is given."
    for label, x, eps, hint in (
        ("7, 7, … and 700.1, 700.1, …", row * 0 + torch.tensor([[7], [700.1]]), 1e-5, center),
        ("our row + 50,000", row + 50_000, 1e-5, center),
        ("our row + 1e9, in float64,", row.double() + 1e9, 1e-5, "Keep x's number type."),
        ("our row / 1000", row / 1000, 1e-5, under),
        ("our row / 1000 with eps = 0.001", row / 1000, 1e-3, under),
        ("our row / 1,000,000 with eps = 0", row / 1e6, 0.0, under),
    ):
        y = built(normalize, x, eps)
        assert near(y, recipe(x.double(), eps), 0.05), f"of {label} comes {y[-1]}. {hint}"


# %% tags=["exercise"] id="ex-0-2"
# Exercise 0.2 · ●●○○○ · 2 min
def normalize(x, eps):
    """Standardize each row of x.

    Example: our row with eps = 1e-5 gives (0.5, -1.5, 0, 1.5, -0.5).
    x: (..., D), is not changed, perhaps far from 0: center before you square. Returns x's
    shape and number type; gradients flow. Write the formula: no F.layer_norm.
    """
    ### BEGIN SOLUTION
    centered = x - x.mean(-1, keepdim=True)  # (..., D)
    var = (centered * centered).mean(-1, keepdim=True)  # (..., 1)
    return centered * (var + eps) ** -0.5  # (..., D)
    ### END SOLUTION


check_normalize(normalize)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Three lines: the centered rows, their variance, the division. If sizes do not match, a `keepdim=True` is missing. A root is `** 0.5`, and one over it `** -0.5`.
#
# </details>

# %% [markdown]
# ## 0.3 Gain, bias and the class
#
# Mean 0 and variance 1 are not what every layer needs. So LayerNorm multiplies each feature by a **gain** γ and adds a **bias** β, two rows of $D$ numbers that are learned, and that all rows share:
#
# $$y = \hat x\,\gamma + \beta$$

# %%
weight = torch.tensor([3.0, 2.0, -1.0, 1.0, 2.0])  # (D,) the gain: PyTorch calls it weight
bias = torch.tensor([1.0, 0.0, 2.0, -1.0, 3.0])  # (D,)
print(F.layer_norm(x, (5,), weight, bias))

# %% [markdown]
# At first every gain is 1 and every bias is 0. Make a class of it. Its state must load into PyTorch's layer, so the parameters have PyTorch's names.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.3.
@check
def check_layer_norm(LayerNorm):
    """Values, gradients and names are PyTorch's: it can take the place of nn.LayerNorm."""
    __tracebackhide__ = True
    layer = LayerNorm(5)
    assert isinstance(layer, nn.Module), "the class has to be an nn.Module."
    state = {name: tuple(value.shape) for name, value in layer.state_dict().items()}
    learned = {name: tuple(value.shape) for name, value in layer.named_parameters()}
    slip = "PyTorch's has weight and bias, each an nn.Parameter of D numbers."
    assert state == learned == {"weight": (5,), "bias": (5,)}, f"it learns {learned}. {slip}"
    first = (layer.weight == 1).all() and (layer.bias == 0).all()
    assert first, "the first gains are 1, the biases 0."
    rng = torch.Generator().manual_seed(3)
    for shape, tiny, dtype, options in (
        ((2, 3, 5), 1, torch.float64, {}),
        ((4, 7), 1e-3, torch.float64, {}),
        ((4, 7), 1e-3, torch.float32, {"eps": 0.1}),
    ):
        layer, theirs = (
            kind(shape[-1], **options).to(dtype) for kind in (LayerNorm, nn.LayerNorm)
        )
        for value in theirs.parameters():
            value.data = torch.randn(shape[-1:], generator=rng).to(dtype)
        layer.load_state_dict(theirs.state_dict())
        x, dy = (torch.randn(shape, generator=rng).to(dtype) for _ in range(2))  # (..., D)
        x = (tiny * x).requires_grad_()
        y, right, n = built(layer, x), theirs(x), recipe(x, theirs.eps).detach()
        w, b = theirs.weight.detach(), theirs.bias.detach()
        parts = {"x_hat · weight": n * w, "bias": b, "x_hat": n, "x_hat · bias": n * b}
        parts |= {"weight": w, "weight · bias": w * b}
        hint = "Right is x_hat · weight + bias."
        if tiny < 1:
            hint = "These are rows of small numbers. Is self.eps used, and 1e-5 the default?"
        agree("y", y, right, hint, parts)
        flows(y, [x, layer.weight, layer.bias], right, [x, *theirs.parameters()], dy)


# %% tags=["exercise"] id="ex-0-3"
# Exercise 0.3 · ●●●○○ · 3 min
class LayerNorm(nn.Module):
    """LayerNorm over the last axis, of D features. Your normalize may be used."""

    def __init__(self, D, eps=1e-5):
        super().__init__()
        self.eps = eps
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(D))  # (D,)
        self.bias = nn.Parameter(torch.zeros(D))  # (D,)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return normalize(x, self.eps) * self.weight + self.bias  # (..., D)
        ### END SOLUTION


check_layer_norm(LayerNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `nn.Parameter(torch.ones(D))` is a tensor that the module counts among its own: the optimizer moves it, and `state_dict()` saves it. In `forward` one line is enough.
#
# </details>

# %% tags=["nbval-ignore-output"]
try_out(LayerNorm)  # yours, in the net of the beginning

# %% [markdown]
# Your layer brings the dead net to life as PyTorch's did.

# %% [markdown]
# ## 0.4 Beside softmax and BatchNorm
#
# Softmax, too, takes a row to a row. Does it see how high the row lies, and how wide it is?

# %%
for name, row in {"x": x, "x + 100": x + 100, "x / 3": x / 3}.items():
    print(f"{name:8} softmax   {F.softmax(row, -1)}")
    print(f"{name:8} LayerNorm {F.layer_norm(row, (5,))}")

# %% [markdown]
# **Softmax hides the height of a row and gives shares that add up to 1; $\hat x$ hides height and width, and its entries add up to 0.**
#
# BatchNorm standardizes as well, but a column: one feature over all samples of the batch. On this batch both come to the same result, because the columns hold the same five numbers as the rows.

# %%
batch = torch.stack([x.roll(step) for step in range(5)])  # (B, D) = (5, 5)
rows, columns = F.layer_norm(batch, (5,)), F.batch_norm(batch, None, None, training=True)
print(batch)
print("the same but for rounding:", near(rows, columns, 1e-6))

# %% [markdown]
# **Predict 0.4:** add 20 to each entry of the *second* row. Whose result for the *first* row changes?
# - [ ] nobody's: the first row is what it was :: The first row is, but BatchNorm's means are taken over columns, and each column holds an entry of the second row.
# - [ ] LayerNorm's :: LayerNorm takes the mean of the first row, in which nothing has changed.
# - [x] BatchNorm's :: Each column has a larger entry now, so each column has a different mean and variance.


# %%
moved = batch + torch.tensor([0, 20, 0, 0, 0])[:, None]  # (B, D)
print("the first row, before:", rows[0])
print("LayerNorm, after:     ", F.layer_norm(moved, (5,))[0])
print("BatchNorm, after:     ", F.batch_norm(moved, None, None, training=True)[0])

# %% [markdown]
# **LayerNorm never looks at the neighbors: a batch of one will do, and training and testing are the same.**

# %% [markdown]
# ## 0.5 The way back
#
# In training, each output $y$ gets a number `dy`: how fast the loss grows with it. The layer has to hand on `dx`: how fast the loss grows with each input. Here is our row, with a `dy`.

# %% tags=["hide-input"]
# Draws the row's graph, with blanks.
BOXES = {
    "x": (0, 1, "4  0  3  6  2"),
    "mean": (1.75, 0, "3"),
    "centered": (3.4, 1, "1  −3  0  3  −1"),
    "rstd": (5.3, 0, "½"),
    "x_hat": (7.0, 1, "½  −1½  0  1½  −½"),
    "y": (11.1, 1, "2½  −3  2  ½  2"),
}
ARROWS = {
    ("x", "centered"): "1",
    ("x", "mean"): "1/5",
    ("mean", "centered"): "−1",
    ("centered", "x_hat"): "½",
    ("centered", "rstd"): "−centered / 40",
    ("rstd", "x_hat"): "centered",
    ("x_hat", "y"): "weight\n3  2  −1  1  2",
}


def graph(gradients, title, alt):
    def draw(ax):
        font = {"ha": "center", "va": "center", "color": INK}
        boxes = {}
        for name, (at, high, value) in BOXES.items():
            style = {"boxstyle": "round", "fc": "white", "ec": INK, "lw": 1.5}
            box = ax.text(at, high, f"{name}\n{value}", bbox=style, zorder=3, **font)
            boxes[name] = box.get_bbox_patch()
            label = f"d{name}\n{gradients.get(name, '?')}"
            ax.text(
                at,
                high + (0.46 if high else -0.46),
                label,
                **font | {"color": BLUE, "weight": "bold"},
            )
        for (start, end), label in ARROWS.items():
            (x0, y0, _), (x1, y1, _) = BOXES[start], BOXES[end]
            look = {"arrowstyle": "-|>", "mutation_scale": 15, "color": INK, "lw": 1.5}
            look |= {"patchA": boxes[start], "patchB": boxes[end]}
            ax.annotate("", (x1, y1), (x0, y0), arrowprops=look, zorder=1)
            above = (-0.4 if "\n" in label else 0.17) if y0 == y1 else 0
            at = (x0 + x1) / 2, (y0 + y1) / 2 + above
            back = {"fc": "white" if y0 != y1 else "none", "ec": "none", "pad": 1}
            ax.text(*at, label, bbox=back, zorder=2, **font)
        ax.set(xlim=(-0.9, 12.2), ylim=(-0.7, 1.7))
        ax.set_axis_off()

    return Picture(draw, (8.6, 3.4), title, alt)


graph(
    {"y": "0  4  5  4  4"},
    "x and centered have two arrows going out",
    "Boxes with values: x 4 0 3 6 2; mean 3; centered 1 −3 0 3 −1; rstd ½; x_hat ½ −1½ 0 1½ "
    "−½; y 2½ −3 2 ½ 2. Arrows with derivatives: x to centered, 1; x to mean, 1/5; mean to "
    "centered, −1; centered to x_hat, ½; centered to rstd, minus centered over 40; rstd to "
    "x_hat, centered; x_hat to y, the weight 3 2 −1 1 2. dy is 0 4 5 4 4, all other gradients "
    "are open.",
)

# %% [markdown]
# In a box stands its value, in blue its gradient, at an arrow the derivative of its end by its start. The way back is one rule:
#
# **Along an arrow, multiply. In a box, add up what comes back on all arrows that leave it.**
#
# <details><summary>Why −centered / 40?</summary>
#
# An entry $c$ of `centered` moves the variance by $2c/5$, the variance 4 moves `rstd` $= v^{-1/2}$ by $-\frac12 v^{-3/2} = -\frac1{16}$, and together that is $-c/40$. For any row it is $-r^3c/D$, where $r$ is `rstd` and $c = \hat x/r$.
#
# </details>
#
# An arrow between one number and a row stands for five: from `rstd` five go out, and what comes back on them is added. The same goes for `mean`.
#
# `x_hat` gets `dy` times the gain: (0, 8, −5, 4, 8), which we call $h$. `rstd` gets the sum of $h$ times `centered`: $0 - 24 + 0 + 12 - 8 = -20$.
#
# **Predict 0.5:** the first entry of `dy` is 0: the loss does not use the first output. What is the first entry of `dx`?
# - [ ] 0, because nothing comes back from the first output :: That is so on the straight arrows. But the first input is in the mean and in rstd, too.
# - [x] not 0 :: The first input moves the mean and rstd, and these move the four outputs that the loss does use.
#
# Fill in the three open boxes on the left.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.4.
@check
def check_on_paper(dcentered, dmean, dx):
    """Autograd walks the same arrows, and gets the same dx."""
    straight, curved = (
        numbers(row, "", 5) for row in ([0, 4, -2.5, 2, 4], [0.5, -1.5, 0, 1.5, -0.5])
    )
    right, parts = straight + curved, {"what x_hat sends": straight, "what rstd sends": curved}
    hint = "Add what comes on its two arrows, ½ dx_hat and −20 (−centered / 40)."
    agree("dcentered", numbers(dcentered, "dcentered", 5), right, hint, parts)
    hint = "dcentered is right. Add it up: five arrows, with −1 at each."
    agree("dmean", numbers(dmean, "dmean"), numbers(-7.5), hint)
    hint = "dcentered and dmean are right. Add what comes on both arrows: at one stands 1/5."
    parts = {"dcentered": right, "dmean": numbers(-7.5)}
    agree("dx", numbers(dx, "dx", 5), right - 1.5, hint, parts)


# %% tags=["exercise"] id="ex-0-4"
# Exercise 0.4 · ●●●○○ · 4 min
# Three lines: dcentered = [five numbers], dmean = one number, dx = [five numbers]
### BEGIN SOLUTION
dcentered = [0.5, 2.5, -2.5, 3.5, 3.5]
dmean = -7.5
dx = [-1, 1, -4, 2, 2]
### END SOLUTION
check_on_paper(dcentered, dmean, dx)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The second entry of `dcentered` gets 8 · ½ from `x_hat`, and −20 · (3/40) from `rstd`. `dmean` gets −1 times each entry of `dcentered`. `x` gets `dcentered` and a fifth of `dmean`, the same fifth in each entry.
#
# </details>

# %%
leaf = x.clone().requires_grad_()  # (D,)
dy = torch.tensor([0.0, 4.0, 5.0, 4.0, 4.0])  # (D,)
print(torch.autograd.grad(F.layer_norm(leaf, (5,), weight, bias), leaf, dy)[0])

# %% [markdown]
# Three paths lead from $\hat x$ back to $x$; a fourth, through `rstd` and `mean`, carries 0. With letters, where $r$ is `rstd`, they hold for any row:
#
# | path | in letters | on our row |
# |---|---|---|
# | straight | $r\,h$ | 0, 4, −2½, 2, 4 |
# | through `rstd` | $-r\,\hat x\;\mathrm{mean}(h\,\hat x)$ | ½, −1½, 0, 1½, −½ |
# | through `mean` | $-r\;\mathrm{mean}(h)$ | −1½, −1½, −1½, −1½, −1½ |
#
# All three share a factor, so one line is enough.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.5.
def right_dx(dy, x_hat, rstd, weight, axes=-1):
    """The right answer; over other axes, a wrong one."""
    h, m = dy * weight, lambda value: value.mean(axes, keepdim=True)
    return rstd * (h - m(h) - x_hat * m(h * x_hat))  # (..., D)


@check
def check_layer_norm_dx(layer_norm_dx):
    """It agrees with autograd on random rows, and the sum of each row of dx is 0."""
    __tracebackhide__ = True
    rng = torch.Generator().manual_seed(5)
    for shape in ((2, 3, 5), (4, 7)):
        x, dy = (torch.randn(shape, dtype=torch.float64, generator=rng) for _ in range(2))
        w = torch.randn(shape[-1], dtype=torch.float64, generator=rng)  # (D,)
        r = (9 * x.var(-1, correction=0, keepdim=True) + 1e-5) ** -0.5  # (..., 1)
        n, h = recipe(3 * x, 1e-5), dy * w  # (..., D)
        given, m = (dy, n, r, w), lambda value: value.mean(-1, keepdim=True)
        dx = built(layer_norm_dx, *given)
        parts = {"h": h, "mean(h)": m(h), "x_hat · mean(h · x_hat)": n * m(h * n)}
        dys = {"dy": dy, "mean(dy)": m(dy), "x_hat · mean(dy · x_hat)": n * m(dy * n)}
        more = parts | dys | {"mean(h · x_hat)": m(h * n)}
        more |= {f"weight · {name}": w * part for name, part in dys.items() if name != "dy"}
        parts |= {f"rstd · {name}": r * part for name, part in more.items()}
        hint = "Compare it with the table above, term by term."
        if shape == (4, 7):
            hint = "At (2, 3, 5) it is right. Does a 5, or a number of axes, stand in the code?"
        agree("dx", dx, right_dx(*given), over(dx, right_dx, *given) or hint, parts)


# %% tags=["exercise"] id="ex-0-5"
# Exercise 0.5 · ●●○○○ · 2 min
def layer_norm_dx(dy, x_hat, rstd, weight):
    """Carry a gradient back from the output of LayerNorm to its input.

    Example: our row with dy = (0, 4, 5, 4, 4) gives (-1, 1, -4, 2, 2).
    dy, x_hat: (..., D); rstd: (..., 1); weight: (D,), all left as they are. mean(h) is
    h.mean(-1, keepdim=True). Returns dx: (..., D). No autograd.
    """
    ### BEGIN SOLUTION
    h = dy * weight  # (..., D)
    mean_h = h.mean(-1, keepdim=True)  # (..., 1)
    mean_hx = (h * x_hat).mean(-1, keepdim=True)  # (..., 1)
    return rstd * (h - mean_h - x_hat * mean_hx)  # (..., D)
    ### END SOLUTION


check_layer_norm_dx(layer_norm_dx)

# %% [markdown]
# Add up your `dx`: −1 + 1 − 4 + 2 + 2 = 0. Moving the whole row up does not change $y$, so the loss does not grow in that direction.
#
# **The entries of dx add up to 0.** Where they do not, dx is wrong.

# %% [markdown]
# ## 0.6 Your layer in a Transformer
#
# A Transformer reads eight digits and is to write them in order, smallest first. In each block every position looks at all others (attention) and then computes by itself (the MLP). Before each of the two stands a norm; the folded cell has the code. The weights of a linear layer are drawn with the standard deviation $1/\sqrt{\text{inputs}}$.


# %% tags=["hide-input"]
# Prepares the Transformer.
class Block(nn.Module):
    def __init__(self, D, norm, causal):
        super().__init__()
        self.norm1, self.norm2, self.causal = norm(D), norm(D), causal
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))

    def forward(self, x):  # (B, T, D)
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)  # (B, T, D) each
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, norm, blocks, causal=False, D=32):
        super().__init__()
        self.digit, self.position = nn.Embedding(10, D), nn.Embedding(8, D)
        stack = [Block(D, norm, causal) for _ in range(blocks)]
        self.layers = nn.Sequential(*stack, norm(D), nn.Linear(D, 10))
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)

    def forward(self, digits):  # (B, T)
        return self.layers(self.digit(digits) + self.position.weight)  # (B, T, 10)


def to_sort():
    digits = torch.randint(10, (64, 8))  # (B, T)
    return digits, digits.sort(1).values


def to_guess():
    digits = torch.randint(10, (64, 9))  # (B, T + 1)
    return digits[:, :-1], digits[:, 1:]  # (B, T) each


# %% tags=["nbval-ignore-output"]
for norm in (nn.Identity, LayerNorm):  # yours
    torch.manual_seed(0)
    net = Transformer(norm, blocks=8)
    train(net, to_sort, steps=200, rate=3e-3)
    digits, target = to_sort()
    written = net(digits).argmax(-1)  # (B, T)
    right = (written == target).double().mean()
    print(f"{norm.__name__:9} {digits[0].tolist()} -> {written[0].tolist()}  {right:.0%} right")

# %% [markdown]
# With your layer the net sorts. Without it, it does not.
#
# <details><summary>How sure is that, and is a norm always needed?</summary>
#
# Of 1,000 fresh rows, with LayerNorm {sorters[LayerNorm, wide].right:range} of the digits are right, without it {sorters[none, wide].right:range}.
#
# It depends on the first weights. With those that PyTorch draws, which are smaller, the median net gets {sorters[none, PyTorch's].right:median .1f} right without any norm, and {sorters[LayerNorm, PyTorch's].right:median .1f} with LayerNorm. So a norm is not always needed. It spares you a choice that can go wrong. {sorters:again}
#
# </details>

# %% [markdown]
# ## 0.7 An impossible loss
#
# Here is a layer that somebody else wrote, `Suspect`. It passes a first test:


# %% tags=["hide-input"]
# Prepares the suspect. Find its fault from outside.
class Suspect(nn.LayerNorm):
    """Not quite LayerNorm."""

    def forward(self, x):
        centered = x - x.mean(1, keepdim=True)
        var = (centered * centered).mean(1, keepdim=True)
        return centered * (var + self.eps) ** -0.5 * self.weight + self.bias


# %%
suspect = Suspect(16)
sample = torch.randn(8, 16, generator=torch.Generator().manual_seed(7))  # (B, D)
off = (suspect(sample) - F.layer_norm(sample, (16,))).abs().max()
print("agrees with PyTorch:", bool(off < 1e-5))

# %% [markdown]
# Now it serves in a Transformer that guesses the *next* digit. Each position sees its own digit and those before it (`causal=True`). The digits are random, so nobody can do better than to give each of the ten the probability 0.1. That costs a loss of $\ln 10 = 2.303$.


# %% tags=["nbval-ignore-output"]
for norm in (nn.LayerNorm, Suspect):
    torch.manual_seed(0)
    net = Transformer(norm, blocks=2, causal=True)
    print(f"{norm.__name__:9} loss {train(net, to_guess, steps=200, rate=3e-3):.2f}")

# %% [markdown]
# **Predict 0.6:** how does the net with the suspect come below 2.3?
# - [ ] It has learned the digits by heart. :: Every step draws new digits, and this loss was measured on some that it had never seen.
# - [x] Positions get to know of digits that come after them. :: The mask of the attention is right, so the knowledge comes through the norm.
# - [ ] It is trained better: its norm lets more gradient through. :: No training beats chance on random digits, if only the digits before are known.
#
# So find an input on which the suspect and LayerNorm differ. What does the Transformer hand to a norm that the test above did not?


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.6.
@check
def check_suspect(probe, axis):
    """The suspect averages over axis 1: with two axes the last one, with three the time."""
    assert torch.is_tensor(probe), f"probe is a {type(probe).__name__}: make it a tensor."
    shape = tuple(probe.shape)
    assert shape[-1:] == (16,), f"probe has the shape {shape}, and the layer takes (..., 16)."
    assert len(shape) > 1, "one row alone: the suspect needs two axes at least."
    probe = probe.double()
    ours = suspect(probe)
    off = (ours - F.layer_norm(probe, (16,))).abs().max().item()
    slip = f"they agree on your probe of shape {shape}. Other numbers will not help"
    assert off > 0.1 or len(shape) > 2, (
        f"{slip}: what is the shape of what enters a norm in Block?"
    )
    assert off > 0.1, f"they differ by {off:.1g} only. The shape is right; take random numbers."
    assert axis in range(-len(shape), len(shape)), f"your probe has no axis {axis}."
    assert axis % len(shape) != len(shape) - 1, (
        "probe is right. LayerNorm works over the last axis."
    )
    mean = ours.mean(axis).abs().max()
    slip = (
        f"probe is right, but along axis {axis} the suspect's output has a mean of {mean:.1g}."
    )
    assert mean < 1e-4, f"{slip} Along which axis is it 0?"
    assert axis % len(shape) == 1, f"axis {axis} has a mean of 0, too. Take more positions."


# %% tags=["exercise"] id="ex-0-6"
# Exercise 0.6 · ●●●○○ · 2 min
# Two lines: probe = a tensor (..., 16) on which the two layers differ by more than 0.1,
# axis = the axis over which the suspect takes its mean. Try suspect(probe).mean(...).
### BEGIN SOLUTION
probe = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(8))
axis = 1
### END SOLUTION
check_suspect(probe, axis)

# %% [markdown]
# <details><summary>What was wrong</summary>
#
# The suspect writes `x.mean(1)`. In a tensor of two axes, axis 1 is the last; in (B, T, D) it is time. So each feature is standardized over the whole text, and the mean at the first position holds digits that come later. With `x.mean(-1)` it is a LayerNorm. The loss on fresh digits was {suspects[Suspect].loss:range} with the suspect, and {suspects[LayerNorm].loss:range} with LayerNorm. {suspects:again}
#
# </details>
#
# **Test a norm on the shape that it will meet.**

# %% [markdown]
# ## What you have now
#
# - $y = \dfrac{x-\mu}{\sqrt{v+\epsilon}}\,\gamma+\beta$, with the mean and the variance (by $D$) of each row.
# - $dx = r\,\bigl(h-\mathrm{mean}(h)-\hat x\;\mathrm{mean}(h\,\hat x)\bigr)$ with $h = dy\,\gamma$, and its entries add up to 0.
#
# **You can stop here:** close the notebook, write both lines from memory, and put (4, 0, 3, 6, 2) in.
#
# Your layer can now bring a dead net to life; it still cannot say which first weights would have needed no norm: [lesson 1](01_why_normalize.ipynb). In [lesson 15](15_in_the_wild.ipynb) it runs a net that Google ships.

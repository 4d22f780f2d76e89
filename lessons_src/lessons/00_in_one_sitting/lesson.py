# %% [markdown]
# # 0 · LayerNorm in one sitting
#
# A net is to learn which of two rings a point lies on. The net is deep, so its author fears that its numbers could grow too large, and draws small first weights.

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
            wrong = f"{error}. Has a mean or a variance lost its axis? Say keepdim=True."
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
    unlikely = (factors.abs() > 1e-3) & (factors.abs() < 0.01)  # by accident, and no help
    if near(columns @ factors, flat, 1e-4) and not unlikely.any():
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
def deep_net(norm, layers):
    """Hidden layers of 64 units, with norm(64) before all ReLUs but the first."""
    stack = [nn.Linear(2, 64), nn.ReLU()]
    for _ in range(layers - 1):
        stack += [nn.Linear(64, 64), norm(64), nn.ReLU()]
    return small(nn.Sequential(*stack, nn.Linear(64, 2)))


# %% tags=["hide-input"]
# Prepares the training, and draws the layers.
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


def look(net, inputs):
    """The rms of what each hidden layer hands on, and of its weights' gradient."""
    h, after = inputs, []
    for layer in net:
        h = layer(h)
        if isinstance(layer, nn.ReLU):
            after.append(h)
    weights = [layer.weight for layer in net[:-1] if isinstance(layer, nn.Linear)]
    gradients = torch.autograd.grad(F.cross_entropy(h, ring), weights)
    return [[t.square().mean().sqrt().item() for t in row] for row in (after, gradients)]


def try_out(norm=nn.Identity, weights=1, points=1, rate=1, layers=16):
    """Train a deep net on the rings; print what it has learned, and draw how it began."""
    torch.manual_seed(0)
    net, inputs = deep_net(norm, layers), points * globals()["points"]
    for layer in net:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= weights
    ways = look(net, inputs)
    train(net, lambda: (inputs, ring), steps=100, rate=1e-3 * rate)
    right = (net(inputs).argmax(1) == ring).double().mean()
    print(
        f"{right:.0%} right after 100 steps; layer 1 began with a gradient of {ways[1][0]:.0e}"
    )
    names = "the numbers after its ReLU", "the gradient of its weights"

    def draw(axes):
        for way, color, name in zip(ways, (BLUE, ORANGE), names, strict=True):
            axes.plot(range(1, layers + 1), way, "o-", color=color, label=name)
        axes.set(yscale="log", xlabel="layer", xlim=(0.5, layers + 0.5))
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 1e-12), max(high, 1e3))
        axes.set_ylabel("root of the mean square")
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
        axes.spines[["top", "right"]].set_visible(False)

    ends = "; ".join(
        f"{name}: {way[0]:.0e} after layer 1, {way[-1]:.0e} after layer {layers}"
        for way, name in zip(ways, names, strict=True)
    )
    alt = f"Two curves over the layers on a logarithmic axis, before training. {ends}."
    return Picture(
        draw, (6.4, 3.4), f"Before the first step; then it gets {right:.0%} right", alt
    )


# %% tags=["nbval-ignore-output"]
try_out(weights=1, points=1, rate=1, layers=16)  # four levers

# %% [markdown]
# Half of the points are right: it guesses. The numbers fade from layer to layer, and no layer's weights get a gradient worth the name.
#
# **Find out:** which levers bring it to life? `weights`, `points` and `rate` are factors: of the first weights, of the points, of the learning rate. Write down those that you believe in. Then make four runs, one lever in each: `weights=4`, `points=10000`, `rate=10`, `layers=3`. What do those that work do to the two curves?
#
# <details><summary>What there is to find</summary>
#
# All but the rate, each alone, so no single one of them is *the* cause: `weights` {rings[weights * 4].right:range}, `points` {revived[points].right:range}, `layers` {rings[three layers].right:range}. `points` leaves every weight as small as it was, and the numbers fade as fast. What the three share is a larger gradient of the weights. There is a too much as well: with `weights=10000` the numbers overflow. No rate did it: a tenth of it ends at {revived[rate / 10].right:range}, ten times at {revived[rate * 10].right:range}, a hundred times at {revived[rate * 100].right:range}.
#
# Why does a small gradient do harm? Because of a small number in the optimizer. Adam divides each gradient by a running mean of its size, but it adds 0.00000001 to that first, and here the gradients are smaller. With 1e-14 the same net learns: {revived[epsilon].right:range}. Your layer will get such a number, too. {revived:again} {rings:again}
#
# </details>
#
# To pull the right lever you had to know what is wrong. Now one argument changes, and all levers stay at 1:

# %% tags=["nbval-ignore-output"]
try_out(nn.LayerNorm)

# %% [markdown]
# The same weights, the same steps, and the net learns. Its numbers live, but what lives does not always learn: with `layers=32` as well, neither curve fades, and the net guesses.
#
# <details><summary>How sure is that?</summary>
#
# Without a norm {rings[no norm].right:range}, with LayerNorm {rings[LayerNorm].right:range}, with LayerNorm and 32 layers {rings[32 layers].right:range}. There steps of 0.0003 (`rate=0.3`) end at {rings[32 layers in smaller steps].right:range}, and larger first weights, whose standard deviation is the root of 2 over the number of inputs (He's rule), help only in some runs: {rings[32 layers of larger weights].right:range}. {rings:again}
#
# </details>
#
# What does `nn.LayerNorm` do?
#
# *About 57 min.* **You'll be able to**
# - compute LayerNorm of a row on paper, and write a layer that agrees with PyTorch's;
# - say which of its steps a net needs, and choose an input that exposes a wrong one.
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
# <details><summary>When this holds</summary>
#
# $c\,x + a$ has the same $\hat x$ as $x$ for any $a$ and any $c > 0$ (below 0 the signs turn), as long as its variance is far above the ε of the next section.
#
# </details>

# %% [markdown]
# ## 0.2 Five sevens
#
# What do the same four steps make of the row (7, 7, 7, 7, 7)? Its centered row is 0, and so is its variance.

# %%
sevens = torch.full((5,), 7.0)  # (D,)
centered = sevens - sevens.mean()  # (D,)
print("by hand:", centered / (centered * centered).mean().sqrt())
print("PyTorch:", F.layer_norm(sevens, (5,)))

# %% [markdown]
# 0 divided by 0 is nan, "not a number". With one such row the loss of the whole batch is nan. PyTorch adds a small number ε to the variance before it takes the root; its default is 0.00001:
#
# $$\hat x = \frac{x-\mu}{\sqrt{v+\epsilon}}$$
#
# Here $\mu$ is the mean and $v$ the variance; one over the root is called `rstd`.
#
# **Predict 0.2:** all of our row is divided by 1000, so its variance is 0.000004. What is its $\hat x$ now?
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
# Mean 0 and variance 1 are not what every layer needs. So LayerNorm multiplies each feature by a **gain** γ and adds a **bias** β, two learned rows of $D$ numbers, the same for all rows:
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
# ## 0.4 Beside BatchNorm
#
# BatchNorm standardizes as well, but a column: one feature over all samples of the batch. In the batch below our row stands first, and the columns hold the same five numbers as the rows, so both norms agree. Then 20 is added to each entry of the *second* row:

# %%
batch = torch.stack([x.roll(step) for step in range(5)])  # (B, D) = (5, 5)
moved = batch + torch.tensor([0, 20, 0, 0, 0])[:, None]  # (B, D)
print(batch)
for name, rows in {"before": batch, "after": moved}.items():
    print(f"the first row, {name}")
    print("    LayerNorm:", F.layer_norm(rows, (5,))[0])
    print("    BatchNorm:", F.batch_norm(rows, None, None, training=True)[0])

# %% [markdown]
# BatchNorm's result for the first row has changed, because each column holds an entry of the second.
#
# **LayerNorm never looks at the neighbors: a batch of one will do, and training and testing are the same.**

# %% [markdown]
# ## 0.5 The way back
#
# In training, each output $y$ gets a number `dy`: how fast the loss grows with it. The layer has to hand on `dx`: how fast the loss grows with each input. Take our row, with dy = (0, 4, 5, 4, 4). Its first entry is 0, because the loss does not use the first output. Is the first entry of `dx` 0 as well? Write a guess down.
#
# The gain (3, 2, −1, 1, 2) multiplies `dy`, so $\hat x$ gets $h$ = (0, 8, −5, 4, 8), which is `dx_hat` in the picture.

# %% tags=["hide-input"]
# Draws the row's graph, with blanks.
BOXES = {
    "x": (0, 1, "4  0  3  6  2"),
    "centered": (4.1, 1, "1  −3  0  3  −1"),
    "variance": (6.4, 0, "4"),
    "x_hat": (8.7, 1, "½  −1½  0  1½  −½"),
}
ARROWS = {
    ("x", "centered"): "itself 4/5\nothers −1/5",
    ("centered", "x_hat"): "½",
    ("centered", "variance"): "2/5 centered",
    ("variance", "x_hat"): "−1/16 centered",
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
            up = 0.46 if high else -0.46
            ax.text(at, high + up, label, **font | {"color": BLUE, "weight": "bold"})
        for (start, end), label in ARROWS.items():
            (x0, y0, _), (x1, y1, _) = BOXES[start], BOXES[end]
            look = {"arrowstyle": "-|>", "mutation_scale": 15, "color": INK, "lw": 1.5}
            look |= {"patchA": boxes[start], "patchB": boxes[end]}
            ax.annotate("", (x1, y1), (x0, y0), arrowprops=look, zorder=1)
            above = (0.26 if "\n" in label else 0.17) if y0 == y1 else 0
            at = (x0 + x1) / 2, (y0 + y1) / 2 + above
            back = {"fc": "white" if y0 != y1 else "none", "ec": "none", "pad": 1}
            ax.text(*at, label, bbox=back, zorder=2, **font)
        ax.set(xlim=(-1, 10.1), ylim=(-0.7, 1.7))
        ax.set_axis_off()

    return Picture(draw, (8.6, 3.4), title, alt)


graph(
    {"x_hat": "0  8  −5  4  8", "variance": "1¼"},
    "centered has two arrows going out",
    "Four boxes with values: x 4 0 3 6 2; centered 1 −3 0 3 −1; variance 4; x_hat ½ −1½ 0 1½ "
    "−½. Arrows with derivatives: x to centered, 4/5 for the same entry, −1/5 for the others; "
    "centered to x_hat, ½; centered to variance, 2/5 of centered; variance to x_hat, −1/16 of "
    "centered. dx_hat is 0 8 −5 4 8, dvariance 1¼; dx and dcentered are open.",
)

# %% [markdown]
# In a box stands its value, in blue its gradient, at an arrow the derivative of its end by its start. The way back is one rule:
#
# **Along an arrow, multiply. In a box, add up what comes back on all arrows that leave it.**
#
# <details><summary>Why 2/5 and −1/16?</summary>
#
# The variance is the mean of five squares, so an entry $c$ of `centered` moves it by $2c/5$. The variance moves $c\,v^{-1/2}$ by $-\frac12 c\,v^{-3/2}$, which is $-c/16$ at $v = 4$. In general these are $2c/D$ and $-\frac12 c\,r^3$, with $r$ for one over the root.
#
# </details>
#
# An arrow between one number and a row stands for five. The variance hands on to all five entries of `x_hat`, so what comes back on its five arrows is added: $-\frac1{16}(0 - 24 + 0 + 12 - 8) = 1\frac14$.
#
# Centering takes the mean off, and does so on the way back: an entry of `x` moves its own centered entry by 4/5 and every other by −1/5, so `dx` is `dcentered` less its mean. Fill in the two open boxes.


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.4.
@check
def check_on_paper(dcentered, dx):
    """Autograd walks the same arrows, and gets the same dx."""
    straight, curved = (
        numbers(row, "", 5) for row in ([0, 4, -2.5, 2, 4], [0.5, -1.5, 0, 1.5, -0.5])
    )
    right = straight + curved
    parts = {"what x_hat sends": straight, "what the variance sends": curved}
    hint = "Add what comes on its two arrows, ½ dx_hat and 1¼ · 2/5 centered."
    agree("dcentered", numbers(dcentered, "dcentered", 5), right, hint, parts)
    hint = "dcentered is right. Take its mean, 1½, off each of its entries."
    parts = {"dcentered": right, "(1, 1, 1, 1, 1)": torch.ones(5)}
    agree("dx", numbers(dx, "dx", 5), right - 1.5, hint, parts)


# %% tags=["exercise"] id="ex-0-4"
# Exercise 0.4 · ●●●○○ · 3 min
# Two lines: dcentered = [five numbers], dx = [five numbers]
### BEGIN SOLUTION
dcentered = [0.5, 2.5, -2.5, 3.5, 3.5]
dx = [-1, 1, -4, 2, 2]
### END SOLUTION
check_on_paper(dcentered, dx)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The second entry of `dcentered` gets 8 · ½ from `x_hat`, and 1¼ · 2/5 · (−3) from the variance.
#
# </details>

# %%
leaf = x.clone().requires_grad_()  # (D,)
dy = torch.tensor([0.0, 4.0, 5.0, 4.0, 4.0])  # (D,)
print(torch.autograd.grad(F.layer_norm(leaf, (5,), weight, bias), leaf, dy)[0])

# %% [markdown]
# The first entry is −1. Its own output does not count, but the first input is in the mean and in the variance, and these move the four outputs that do.
#
# Now for any row. What you added on paper came on three paths. In letters, with $r$ for one over the root:
#
# | path | in letters | on our row |
# |---|---|---|
# | straight | $r\,h$ | 0, 4, −2½, 2, 4 |
# | through the variance | $-r\,\hat x\;\mathrm{mean}(h\,\hat x)$ | ½, −1½, 0, 1½, −½ |
# | through the mean | $-r\;\mathrm{mean}(h)$ | −1½, −1½, −1½, −1½, −1½ |
#
# The middle path adds up to 0, so the mean that comes off is that of the straight one alone. [Lesson 7](07_backward.ipynb) derives the three. Here autograd has to agree on rows of random numbers:


# %%
def layer_norm_dx(dy, x_hat, rstd, weight):
    h = dy * weight  # (..., D)
    mean_h, mean_hx = h.mean(-1, keepdim=True), (h * x_hat).mean(-1, keepdim=True)  # (..., 1)
    return rstd * (h - mean_h - x_hat * mean_hx)  # (..., D)


rows, dy = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(5))  # (B, D) each
rstd = (rows.var(-1, correction=0, keepdim=True) + 1e-5) ** -0.5  # (B, 1)
dx = layer_norm_dx(dy, normalize(rows, 1e-5), rstd, weight)  # (B, D)
leaf = rows.requires_grad_()  # (B, D)
theirs = torch.autograd.grad(F.layer_norm(leaf, (5,), weight, bias), leaf, dy)[0]  # (B, D)
print("as autograd says:", near(dx.detach(), theirs, 1e-5))

# %% [markdown]
# Add up your `dx`: −1 + 1 − 4 + 2 + 2 = 0. Moving the whole row up does not change $y$, so the loss does not grow in that direction.
#
# **The entries of dx add up to 0.** Where they do not, dx is wrong.

# %% [markdown]
# ## 0.6 Your layer in a Transformer
#
# A Transformer reads eight digits and is to write them in order, smallest first. In each block every position looks at all others (attention) and then computes by itself (the MLP). Before each of the two stands a norm. What they find is added to the **stream**, the numbers that run through all eight blocks. The weights of a linear layer are drawn with the standard deviation $1/\sqrt{\text{inputs}}$.


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


# %% tags=["hide-input"]
# Trains it to sort, and looks into its blocks.
def sort_with(norm):
    """Print what a Transformer with norm(D) sorts after 200 steps, and how its blocks began."""
    torch.manual_seed(0)
    net = Transformer(norm, blocks=8)
    digits, target = to_sort()
    stream, shares = "", ""
    with torch.no_grad():
        x = net.digit(digits) + net.position.weight  # (B, T, D)
        for block in net.layers[:8]:
            q, k, _ = block.qkv(block.norm1(x)).chunk(3, -1)  # (B, T, D) each
            share = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).amax(-1).mean()
            x = block(x)
            stream += f"{x.square().mean().sqrt():6.1f}"
            shares += f"{share:6.2f}"
    train(net, to_sort, steps=200, rate=3e-3)
    written = net(digits).argmax(-1)  # (B, T)
    right = (written == target).double().mean()
    print(f"{digits[0].tolist()} -> {written[0].tolist()}  {right:.0%} right")
    print(f"before training, blocks 1 to 8: stream {stream}")
    print(f"         largest attention share {shares}")


# %% tags=["nbval-ignore-output"]
sort_with(LayerNorm)  # yours

# %% [markdown]
# With your layer the net sorts. The second row says how much of its attention a position gives to the one that it looks at most: 1 would mean that it looks at nothing else.
#
# **Predict 0.3:** your layer has three steps. Without which one does this net no longer sort?
# - [ ] centering :: Without it every row keeps its height, and the net can live with that.
# - [x] the division :: Nothing holds the stream's size then, and each block adds to it.
# - [ ] gain and bias :: At first they are 1 and 0, so leaving them out changes nothing before the first step.
#
# **Find out:** put a `#` before one of the three lines and run. Give it back before you take the next. What do the two printed rows say of it before any training?


# %% tags=["nbval-ignore-output"]
class Broken(nn.LayerNorm):
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt()
        x = x * self.weight + self.bias
        return x


sort_with(Broken)

# %% [markdown]
# Without the division the stream grows from block to block, where the net of the opening faded, and in the last blocks every position looks at a single other one. Without one of the other steps both rows stay almost as they were. On the rings it is the same: without the division the net guesses, without centering it learns. The division heals both nets, because it gives a row ordinary size whether it came too small or too large.
#
# **What keeps this Transformer alive is the division.**
#
# <details><summary>How sure is that, and is a norm always needed?</summary>
#
# Without centering {stripped[centering].right:range} of the digits of 1,000 fresh rows are right, without the division {stripped[division].right:range}, without gain and bias {stripped[gain and bias].right:range}; the share in the last block is {stripped[division].share:range} without the division, and {stripped[centering].share:range} without centering. {stripped:again} With all of LayerNorm {sorters[LayerNorm, wide].right:range} are right, without any norm {sorters[none, wide].right:range}.
#
# On the rings {rings[no division].right:range} are right without the division, {rings[no centering].right:range} without centering. {rings:again}
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
# Now it serves in a Transformer that guesses the *next* digit. Each position sees its own digit and those before it (`causal=True`). The digits are random, so the best guess gives each of the ten the probability 0.1. That costs a loss of $\ln 10 = 2.303$.


# %% tags=["nbval-ignore-output"]
for norm in (nn.LayerNorm, Suspect):
    torch.manual_seed(0)
    net = Transformer(norm, blocks=2, causal=True)
    print(f"{norm.__name__:9} loss {train(net, to_guess, steps=200, rate=3e-3):.2f}")

# %% [markdown]
# Yet the net with the suspect comes below it, on digits that it had never seen. So it knows of digits that come later. The mask of the attention is right, so it knows them through its norm.
#
# So find an input on which the suspect and LayerNorm differ. What does the Transformer hand to a norm that the test above did not?


# %% tags=["hide-input"]
# Prepares the asserts of exercise 0.5.
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


# %% tags=["exercise"] id="ex-0-5"
# Exercise 0.5 · ●●●○○ · 2 min
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
# **On your own:** put your `normalize` and your `LayerNorm` into a file `my_norm.py`, import it in a notebook of yours, and let it replace `nn.LayerNorm` in a net that you know. Then make it lighter: which of its steps can that net do without?
#
# Your layer can now bring a dead net to life; it still cannot say which first weights would have needed no norm: [lesson 1](01_why_normalize.ipynb). In [lesson 15](15_in_the_wild.ipynb) it runs a net that Google ships.

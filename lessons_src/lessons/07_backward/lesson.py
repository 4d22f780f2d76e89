# %% [markdown]
# # 7 · The backward pass
#
# A copy of LayerNorm, written by hand, saves memory: autograd keeps no record of its mean and variance, since they hold no weights. Two nets learn to read digits, from the same first weights, one with PyTorch's layer, the other with the copy.

# %% tags=["hide-input"]
# Imports what the cells need.
import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore, plot

# %% tags=["export", "hide-input"]
# Prepares the training of a net with a norm.


def _trained(norm, rate=0.05, seed=0):
    """Train a net of six blocks with this norm for 200 steps, and print what it has learned."""
    torch.manual_seed(seed)  # the same first weights for every norm
    blocks = [nn.Sequential(nn.Linear(64, 64), norm, nn.ReLU()) for _ in range(6)]
    net = nn.Sequential(*blocks, nn.Linear(64, 10))
    digits = data.digits_split(0)
    for _ in range(200):
        net.zero_grad()
        F.cross_entropy(net(digits.x_train.flatten(1)), digits.y_train).backward()
        with (
            torch.no_grad()
        ):  # plain SGD; whoever makes torch.optim's first waits seconds for its imports
            for parameter in net.parameters():
                parameter.add_(parameter.grad, alpha=-rate)
    right = net(digits.x_test.flatten(1)).argmax(1) == digits.y_test  # (B,)
    print(f"{type(norm).__name__} reads {right.double().mean():.0%} of the test digits")


# %% tags=["nbval-ignore-output"]
_trained(nn.LayerNorm(64, elementwise_affine=False))


# %% tags=["nbval-ignore-output"]
class Copy(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            mean = x.mean(-1, keepdim=True)  # (B, 1)
            var = x.var(-1, correction=0, keepdim=True)  # (B, 1)
        return (x - mean) * (var + 1e-5) ** -0.5  # (B, D)


_trained(Copy())

# %%
row = torch.tensor([[0.0, 1, 2, 5]])  # (B, D) = (1, 4)
print(Copy()(row), F.layer_norm(row, (4,)), sep="\n")

# %% [markdown]
# The copy stays far behind, although its output is the same and no error is raised. So it must be the gradient that is wrong.
#
# <details><summary>How sure is that?</summary>
#
# At the rate 0.05 LayerNorm read {cut_paths[nothing, 0.05, *].reads:range}, the copy {cut_paths[both, 0.05, *].reads:range}; at 0.2 {cut_paths[nothing, 0.2, *].reads:range} and {cut_paths[both, 0.2, *].reads:range}. {cut_paths:again}
#
# </details>
#
# *About 57 min, in two sittings of 32 and 25.* **You'll be able to**
# - carry a gradient back through LayerNorm on paper, and write it in one line;
# - choose inputs that show a wrong gradient;
# - put your line into PyTorch, so that it can be differentiated twice.
#
# **You need** [lesson 2](02_statistics.ipynb) (mean and variance), [lesson 4](04_affine_and_module.ipynb) (the gain), and the chain rule.

# %% [markdown]
# ## 7.1 Three paths back
#
# $dy$ says, for each output, how fast the loss grows with it. $dx$ says so for each input. The backward pass makes $dx$ out of $dy$, on three paths: straight, through the mean, and through the variance. Drag $dy$ and pull $x$; a click cuts a path. The marks beside $dx$ are measured.

# %%
explore.backward()

# %% [markdown]
# **Find out:** below $dx$ stand its mean, its largest entry and its length. One of the three stays where it is while you drag. Which one? Then guess which path keeps it there, and cut the paths, one at a time.
#
# <details><summary>What there is to find</summary>
#
# The mean of $dx$ stays 0 as long as the path through the mean is on. [Section 7.5](#7.5-What-the-copy-has-lost) says why.
#
# </details>

# %% [markdown]
# ## 7.2 Forward with four numbers
#
# With $\epsilon = 0.5$ and the gain 3, 1, 2, −1 our row 0, 1, 2, 5 can be worked out without a calculator. The bias is left out, because it does not change $dx$.

# %% tags=["hide-input"]
# Computes the forward pass, line by line.
x = torch.tensor([0.0, 1.0, 2.0, 5.0])  # (D,) = (4,)
weight = torch.tensor([3.0, 1.0, 2.0, -1.0])  # (D,) the gain
mean = x.mean()  # ()
centered = x - mean  # (D,)
var = (centered * centered).mean()  # ()
rstd = (var + 0.5) ** -0.5  # () one over sigma, with eps
x_hat = centered * rstd  # (D,)
y = x_hat * weight  # (D,)
print(f"{mean=}\n{centered=}\n{var=}\n{rstd=}\n{x_hat=}\n{y=}")

# %% tags=["hide-input"]
# Draws the graph: values, gradients, derivatives
BOXES = {
    "x": (0, 1, "0   1   2   5"),
    "mean": (1.5, 0, "2"),
    "centered": (3.8, 1, "−2   −1   0   3"),
    "var": (4.5, 0, "3.5"),
    "rstd": (6.9, 0, "½"),
    "x_hat": (8.1, 1, "−1   −½   0   1½"),
    "y": (12.5, 1, "−3   −½   0   −1½"),
}
ARROWS = {  # (start, end): the derivative of the end by the start
    ("x", "centered"): "1",
    ("x", "mean"): "¼",
    ("mean", "centered"): "−1",
    ("centered", "x_hat"): "rstd",
    ("centered", "var"): "centered · 2/4",
    ("var", "rstd"): "−1/16",
    ("rstd", "x_hat"): "centered",
    ("x_hat", "y"): "weight",
}


def graph(gradients, **words):
    """Draw the boxes with their values, and the gradients that are known, a "?" elsewhere."""

    def draw(ax):
        font, boxes = {"ha": "center", "va": "center", "fontsize": 12.5, "color": "#15191C"}, {}
        for name, (at, high, value) in BOXES.items():
            style = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": "#2B2F33", "lw": 1.6}
            box = ax.text(at, high, f"{name}\n{value}", bbox=style, zorder=3, **font)
            boxes[name] = box.get_bbox_patch()
            label = f"d{name}:  {gradients.get(name, '?')}"
            bold = font | {"color": "#0072B2", "fontweight": "bold"}
            ax.text(at, high + (0.42 if high else -0.42), label, **bold)
        for (start, end), label in ARROWS.items():
            (x0, y0, _), (x1, y1, _) = BOXES[start], BOXES[end]
            arrow = {"arrowstyle": "-|>", "mutation_scale": 16, "color": "#7A858C", "lw": 1.6}
            arrow |= {"patchA": boxes[start], "patchB": boxes[end]}
            ax.annotate("", (x1, y1), (x0, y0), arrowprops=arrow, zorder=1)
            at = ((x0 + x1) / 2, (y0 + y1) / 2 + (0.14 if y0 == y1 else 0))
            back = None if y0 == y1 else {"fc": "white", "ec": "none", "pad": 1}
            ax.text(*at, label, bbox=back, zorder=2, **font)
        ax.set(xlim=(-1.1, 13.7), ylim=(-0.55, 1.55))
        ax.set_axis_off()

    plot.figure(draw, size=(9.0, 3.0), **words)


graph(
    {"y": "0   7   2   3"},
    title="Two boxes have two arrows going out: x and centered",
    caption="Our row on its way through LayerNorm. In a box: its value. At an arrow: the "
    "derivative of its end by its start. Blue: the gradient, known at y only.",
    alt="Boxes: x 0 1 2 5; mean 2; centered −2 −1 0 3; var 3.5; rstd ½; x_hat −1 −½ 0 1½; y "
    "−3 −½ 0 −1½. Arrows: x to mean and to centered, mean to centered, centered to var and to "
    "x_hat, var to rstd (−1/16), rstd to x_hat, x_hat to y. dy is 0 7 2 3; the rest is open.",
)

# %% [markdown]
# The layers after the norm have sent `dy`. The chain rule finds the other gradients, from right to left:
#
# **Multiply along an arrow. Add where several arrows leave.**

# %% [markdown]
# ## 7.3 Backward with four numbers
#
# Three steps are done here. `rstd` went into four entries, so its arrow stands for four, and what comes back along them is added. The arrow of `mean` stands for four as well. You find the −1/16 yourself in [section 7.4](#7.4-The-same-with-letters).

# %%
dy = torch.tensor([0.0, 7.0, 2.0, 3.0])  # (D,)
dx_hat = dy * weight  # (D,)
drstd = (dx_hat * centered).sum()  # ()
dvar = drstd * (-1 / 16)  # ()
print(f"{dx_hat=}\n{drstd=}\n{dvar=}")

# %% [markdown]
# Now take paper, and go on to the left.

# %% tags=["exercise"] id="ex-7-1"
# Exercise 7.1 · ●●○○○ · 3 min
# Type what stands on your paper: one number for dmean, four for dcentered and dx.
# Example: the steps that are done would be drstd=-16, dx_hat=[0, 7, 4, -3]. Fractions: 7 / 2.
# What is still open may stay three dots.
# Copy this line and replace the dots:
# on_paper = dict(dvar=1, dcentered=..., dmean=..., dx=...)
### BEGIN SOLUTION
on_paper = dict(dvar=1, dcentered=[-1, 3, 2, 0], dmean=-4, dx=[-2, 2, 1, -1])
### END SOLUTION

# %% tags=["check"]
check.gradients_on_paper(on_paper)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `centered` has two arrows, to `x_hat` and to `var`: its first entry gets 0 · ½ along one of them, and `dvar` times −2 · 2/4 along the other. `mean` stands for four arrows, each with the derivative −1. In the end `x` has two arrows again.
#
# </details>
#
# All boxes, filled in:

# %% tags=["hide-input"]
# Draws the same graph with every gradient
graph(
    {
        "y": "0   7   2   3",
        "x_hat": "0   7   4   −3",
        "rstd": "−16",
        "var": "1",
        "centered": "−1   3   2   0",
        "mean": "−4",
        "x": "−2   2   1   −1",
    },
    title="All gradients of the row, found from right to left",
    caption="The graph as before, now with the gradient of every box.",
    alt="The same graph. dy 0 7 2 3; dx_hat 0 7 4 −3; drstd −16; dvar 1; dcentered −1 3 2 0; "
    "dmean −4; dx −2 2 1 −1.",
)

# %% [markdown]
# The loss does not use the first output, and yet the first entry of $dx$ is −2: the first entry of $x$ moves the mean and the variance, and these move the other outputs.

# %% [markdown]
# ## 7.4 The same with letters
#
# Write $h$ for `dx_hat`, $c$ for `centered` and $r$ for `rstd`. From `x_hat` three paths lead back to `x`, and $dx$ is the sum of what comes along them. Autograd can walk one of them alone, if the two others are detached. `along` prints what it brings, to a row of your choice.


# %% tags=["hide-input"]
# Lets autograd walk one path alone.
def along(path, x=(0, 1, 2, 5), dy=(0, 7, 2, 3), weight=(3, 1, 2, -1)):
    """Print h, centered, and what comes back to x along "straight", "mean" or "variance"."""
    if path not in ("straight", "mean", "variance"):
        raise ValueError('path is "straight", "mean" or "variance"')
    x, dy, weight = (torch.tensor(numbers, dtype=torch.float64) for numbers in (x, dy, weight))
    x.requires_grad_()
    mean = x.mean()  # ()
    rstd = ((x - mean).square().mean() + 0.5) ** -0.5  # ()
    parts = {"straight": x, "mean": mean, "variance": rstd}
    straight, mean, rstd = (
        part if name == path else part.detach() for name, part in parts.items()
    )
    y = (straight - mean) * rstd * weight  # (D,)
    (part,) = torch.autograd.grad(y, x, dy)
    say = lambda numbers: "  ".join(f"{number:6.2f}" for number in (numbers + 0.0).tolist())
    print(f"h          {say(dy * weight)}")
    print(f"centered   {say((x - x.mean()).detach())}")
    print(f"{path:10} {say(part)}")


# %%
along("variance", x=(0, 1, 2, 5), dy=(0, 7, 2, 3))

# %% [markdown]
# **Find out:** guess first, then change the path and `dy`. Which path brings all entries the same number? Which brings nothing to an entry whose own `dy` is 0? And the third: by what do its four numbers differ from each other, whatever `dy` is?
#
# <details><summary>What there is to find</summary>
#
# Through the mean all entries get the same. The straight path brings entry $j$ nothing if $dy_j = 0$. What comes through the variance is the row of `centered` times one number, and `dy` decides only that number.
#
# </details>
#
# Now find each part in letters, on paper: multiply the labels along the path's arrows in the figure. Where an arrow stands for four, what comes back along them is added. For the −1/16 differentiate $r = (v + \epsilon)^{-1/2}$ by $v$, where $v$ is `var`, and write $r$ for the root again. Put our row in, and compare with `along`.
#
# The gain and the bias have arrows to *every* row of a batch, and what comes back along them is added. `t.sum_to_size(shape)` adds over all axes that `shape` does not have.


# %% tags=["exercise", "export"] id="ex-7-2"
# Exercise 7.2 · ●●●○○ · 6 min
# For the raise line, write `straight = ...`, then the others. The check may run after each.
def layer_norm_backward(dy, x, mean, rstd, weight):
    """Carry a gradient back through LayerNorm over the last axis.

    Example: our row and dy give dx = [-2, 2, 1, -1], dweight = [0, -3.5, 0, 4.5], dbias = dy.
    dy, x, dx: (..., D). mean, rstd: (..., 1), those of x. weight, dweight, dbias: (D,).
    """
    c = x - mean  # (..., D)
    h = dy * weight  # (..., D)
    straight = through_mean = through_variance = torch.zeros_like(h)  # (..., D)
    dweight = None
    ### BEGIN SOLUTION
    x_hat = c * rstd  # (..., D)
    straight = rstd * h
    through_mean = -rstd * h.mean(-1, keepdim=True)
    through_variance = -rstd * x_hat * (h * x_hat).mean(-1, keepdim=True)
    dweight = (dy * x_hat).sum_to_size(weight.shape)  # (D,) over all rows
    ### END SOLUTION
    dx = straight + through_mean + through_variance  # (..., D)
    dbias = dy.sum_to_size(weight.shape)  # (D,) added over all rows
    return dx, dweight, dbias


# %% tags=["check"]
check.layer_norm_backward(layer_norm_backward)

# %% [markdown]
# <details><summary>Hint</summary>
#
# On the straight path the arrows say `rstd` and 1. Through the mean, the box of the mean gets $-r h_i$ along each of its four arrows, and hands on a $D$-th of their sum: a sum divided by $D$ is a mean, with `keepdim=True`. Through the variance, `drstd` is the sum of $h_i c_i$, and the two arrows that are left say $-\frac12 r^3$ and $2 c_j / D$.
#
# The gain multiplies $\hat x = c\,r$, and what arrives there from above is $dy$.
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# One to five axes, also a single row (D,); rows that are constant, far from 0, or hold one large number; float32 and float64; two values of $\epsilon$. It is differentiated again, so use tensor operations only, none in place, and detach nothing. Autograd and `F.layer_norm` are refused inside: it is your formula.
#
# </details>
#
# <details><summary>Does the third path not go on to the mean?</summary>
#
# It does, but there its four numbers add up to 0.
#
# </details>

# %% [markdown]
# ## What you have now
#
# - **Multiply along an arrow. Add where several arrows leave.**
# - Three paths lead back through LayerNorm: straight, through the mean, through the variance. $dx$ is their sum.
#
# **You can stop here:** close the notebook, draw the boxes from memory, and write what each path brings.
#
# *Sitting two* cuts the copy's paths one at a time, tests a published gradient, and puts yours into PyTorch.

# %% [markdown]
# ## 7.5 What the copy has lost

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from fromscratch.backward import _trained
from lessonkit import check, explore
from lessonkit.mine import layer_norm, layer_norm_backward, mean_and_var

# %% [markdown]
# **Recall 7.1:** a module keeps its gain as a plain tensor of ones. What becomes of it in training?
# - [ ] It is trained, but the checkpoint lacks it. :: The checkpoint does lack it. But the optimizer is given `net.parameters()`, and a plain tensor is not among them.
# - [ ] The first step raises an error. :: PyTorch computes with it as with any tensor, and misses nothing.
# - [x] It stays 1. :: Only a Parameter is registered, so neither the optimizer nor the checkpoint knows of a plain tensor.
#
# To the copy, autograd treats `mean` and `rstd` as constants, so of your three paths only the straight one is left. Which of the two lost ones costs it the digits? `cut` trains a net without those that you name, and prints how large the means of the rows are where they enter a norm.


# %% tags=["hide-input"]
# Trains the net with some paths cut.
class Cut(nn.Module):
    """LayerNorm without gain and bias, some of whose paths back are cut. x: (B, D)."""

    def __init__(self, paths):
        super().__init__()
        self.paths, self.sizes = paths, []

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)  # (B, 1)
        self.sizes.append(mean.detach().square().mean())
        rstd = ((x - mean).square().mean(-1, keepdim=True) + 1e-5) ** -0.5  # (B, 1)
        mean = mean.detach() if "mean" in self.paths else mean
        return (x - mean) * (rstd.detach() if "variance" in self.paths else rstd)  # (B, D)


def cut(*paths, rate=0.05, seed=0):
    """Train with these of "mean" and "variance" cut, and print the size of the rows' means."""
    norm = Cut(paths)
    _trained(norm, rate, seed)
    sizes = torch.stack(norm.sizes).view(-1, 6)[:200].mean(1).sqrt()  # (steps,)
    print(f"means of the rows: {sizes[0]:.2f} in the first step, {sizes[-1]:.2f} in the last")


# %% tags=["nbval-ignore-output"]
cut("mean", "variance", rate=0.05, seed=0)

# %% [markdown]
# **Find out:** write down your guess, then cut one path alone, and the other, with a few seeds each. Which of them loses digits? And what becomes of the means?
#
# <details><summary>What there is to find</summary>
#
# At the rate 0.05 our nets read {cut_paths[nothing, 0.05, *].reads:range} with LayerNorm, {cut_paths[variance, 0.05, *].reads:range} without the path through the variance, and {cut_paths[mean, 0.05, *].reads:range} without the one through the mean; at 0.2 it was {cut_paths[nothing, 0.2, *].reads:range}, {cut_paths[variance, 0.2, *].reads:range} and {cut_paths[mean, 0.2, *].reads:range}. {cut_paths:again}
#
# Then we trained each net twice from the same seed, with first weights that differ by a millionth, about as far as rounding moves them. Of a hundred digits, the second net read at most {cut_rounding[nothing].moved:max .1f} more or fewer with LayerNorm, at most {cut_rounding[variance].moved:max .1f} without the path through the variance, and {cut_rounding[mean].moved:range} without the one through the mean. {cut_rounding:again}
#
# </details>
#
# At this rate each lost path costs digits, so neither is *the* cause. Without the path through the variance, every net loses some. Without the one through the mean it is a matter of luck how many: rounding alone decides, so your machine's numbers are not ours, and at a rate of 0.2 you may meet a net that reads as well as LayerNorm's. But the means tell the two paths apart on every machine. They grow wherever the path through the mean is cut, and only there: the rows drift, all entries together, and no output of a norm shows it.
#
# Your layer does not drift, for this reason. Add 1 to every entry of $x$: the mean grows by 1 as well, so the output stays, and so does the loss. The sum of $dx$ says how fast the loss grows in that direction: not at all. The weights of a linear layer in front are moved by these $dx$, each times an input. Since the numbers of a $dx$ add up to 0, what this changes in the layer's output adds up to 0 as well: no step of training moves the mean of what it makes of one and the same input.
#
# **The output hides what all entries of x share, so dx leaves it alone: the mean of dx is 0.**
#
# <details><summary>When this holds</summary>
#
# For $dx$ of each row, with any $\epsilon$, gain and number of entries, up to rounding. It does not hold for $dy$, and not for RMSNorm ([lesson 8](08_geometry.ipynb#8.4-RMSNorm:-the-sphere-alone)), which subtracts no mean.
#
# </details>
#
# In the copy only the straight path is left. It brings our row 0, 3.5, 2 and −1.5, which add up to 4, so a step along it moves the mean.
#
# <details><summary>How far do the rows drift?</summary>
#
# At the rate 0.05 the typical size of a row's mean, where it enters a norm, began at {cut_paths[both, 0.05, *].before:range}. After 200 steps it was {cut_paths[nothing, 0.05, *].after:range} with LayerNorm, and {cut_paths[both, 0.05, *].after:range} with the copy. With the path through the mean cut alone it was {cut_paths[mean, 0.05, *].after:range}, with the other cut alone {cut_paths[variance, 0.05, *].after:range}. {cut_paths:again}
#
# </details>

# %% [markdown]
# ## 7.6 One line, two directions
#
# Your three parts share the factor $r$. With $c = \hat x / r$, and a mean in the place of the sum, the third becomes $-r\,\hat x_j\,\mathrm{mean}(h\,\hat x)$. So they fit into one line:
#
# $$dx = r\,\bigl(h - \mathrm{mean}(h) - \hat x\;\mathrm{mean}(h\,\hat x)\bigr)$$
#
# Where all entries of $h$ are equal, $h - \mathrm{mean}(h)$ is 0, so nothing comes back. Where else is $dx$ 0?

# %%
explore.backward(marks=True)

# %% [markdown]
# **Find out:** read it off the line, or drag the bars of $dy$, which here is $h$, until $dx$ has length 0.00 and the bars are not equal.
#
# <details><summary>What there is to find</summary>
#
# Drag each bar to its mark. The marks are $\hat x$: its mean is 0, and the mean of its squares 1 (up to $\epsilon$), so the line gives 0. So do twice $\hat x$, and $\hat x$ plus a number that all entries share.
#
# </details>
#
# The reason is as before. Stretch a row away from its mean: at $\epsilon = 0$ its output stays ([lesson 3](03_epsilon.ipynb)), and so does the loss.
#
# **At $\epsilon = 0$, dx leaves a stretch of the row alone, too: the mean of dx x̂ is 0.**
#
# <details><summary>When this holds</summary>
#
# For each row that is not constant. For $\epsilon > 0$ a little gets through: the mean of $dx\,\hat x$ is $\frac{\epsilon}{\sigma^2+\epsilon}\,r\,\mathrm{mean}(h\,\hat x)$.
#
# </details>

# %% [markdown]
# ## 7.7 A test that cannot fail
#
# This is the gradient in a published Transformer, [numpy-transformer](https://github.com/AkiRusProd/numpy-transformer/blob/0477575feaa0f0d40d50207034d96d794b8a5997/transformer/layers/base/layer_norm.py), translated into PyTorch.


# %% tags=["slide"]
def published(dy, x_hat, rstd, weight):
    """dx of LayerNorm. dy, x_hat: (..., D); rstd: (..., 1); weight: (D,)."""
    D = dy.shape[-1]
    sums = dy.sum(-1, keepdim=True) + x_hat * (dy * x_hat).sum(-1, keepdim=True)  # (..., D)
    return (weight * rstd / D) * (D * dy - sums)  # (..., D)


# %% [markdown]
# Is it right? And would a test find a formula that lacks its mean term, $r\,\mathrm{mean}(h)$, or its variance term, $r\,\hat x\,\mathrm{mean}(h\,\hat x)$? The inputs are yours: `gradients` prints the right $dx$ of our row and these three. It begins with a new layer and the loss `y.sum()`, so each gain and each `dy` is 1.


# %% tags=["hide-input"]
# Prints dx by the right formula and by three others.
def gradients(weight, dy, x=(0, 1, 2, 5), eps=0.5):
    """Print dx of a row x, by the right formula, by published, and without one of two terms."""
    weight, dy, x = (torch.tensor(numbers, dtype=torch.float64) for numbers in (weight, dy, x))
    rstd = (x.var(correction=0) + eps) ** -0.5  # ()
    x_hat, h = (x - x.mean()) * rstd, dy * weight  # (D,) each
    mean_term, variance_term = h.mean(), x_hat * (h * x_hat).mean()
    for name, dx in {
        "right": rstd * (h - mean_term - variance_term),
        "published": published(dy, x_hat, rstd, weight),
        "no mean term": rstd * (h - variance_term),
        "no variance term": rstd * (h - mean_term),
    }.items():
        print(
            f"{name:17}",
            "  ".join(f"{number:6.2f}" for number in (dx.round(decimals=9) + 0.0).tolist()),
        )


# %%
gradients(weight=(1, 1, 1, 1), dy=(1, 1, 1, 1))

# %% [markdown]
# **Find out:** which of the three does this test catch, and why not the others? Then change `dy`, and then the gains, until all three differ from the right one. For which gains is `published` right, whatever `dy` is?
#
# <details><summary>What there is to find</summary>
#
# Where every $h$ is 1, $\mathrm{mean}(h)$ is 1 and is missed, while $\mathrm{mean}(h\,\hat x) = \mathrm{mean}(\hat x)$ is 0 and is not. A `dy` of different numbers shows that one, too. `published` is right where all gains are equal, as in every new layer: with different gains and such a `dy`, its $dx$ does not even add up to 0.
#
# </details>
#
# **A test is blind to a term that is 0 in it: test with gains that differ, and with a random dy.**
#
# <details><summary>When this holds</summary>
#
# For a comparison as exact as rounding allows. A loose one, of a few percent, is blind in wide rows as well, because each of the two terms is about one part in $\sqrt D$ of $dx$. And whoever writes $x - \mu$ for $\hat x$ is seen only where the standard deviation is not 1.
#
# </details>

# %% [markdown]
# ## 7.8 Your line in PyTorch
#
# In a `torch.autograd.Function`, `forward` runs unrecorded. It saves in `ctx` what `backward` needs, and `backward` returns one gradient for each input. Here it saves what the formula names.


# %%
class SavedStatistics(torch.autograd.Function):
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
# `gradcheck` compares the gradient with small changes of the input, and `gradgradcheck` the gradient *of the gradient*, which a loss needs that contains a gradient. For it, autograd records what `backward` computes.
#
# **Predict 7.1:** `SavedStatistics` passes `gradcheck`. What does `gradgradcheck` find?
# - [ ] The second derivative is right. :: Your formula is plain tensor operations, which autograd differentiates. But where do the saved mean and rstd come from?
# - [x] The second derivative is wrong. :: mean and rstd come out of forward, where nothing is recorded. To autograd they are constants, as in the copy.
# - [ ] An error: PyTorch refuses to differentiate twice. :: It refuses only if it is told to, with once_differentiable.

# %%
g = torch.Generator().manual_seed(77)
shapes = ((2, 5), (5,), (5,))
arguments = [torch.randn(s, dtype=torch.float64, generator=g).requires_grad_() for s in shapes]
for test in (gradcheck, gradgradcheck):
    passed = test(SavedStatistics.apply, (*arguments, 1e-5), raise_exception=False)
    print(f"{test.__name__}: {passed}")

# %% [markdown]
# It is the copy's mistake, one derivative later. What has to change? `forward` is done, and `backward` is yours.


# %% tags=["exercise", "export"] id="ex-7-3"
# Exercise 7.3 · ●●○○○ · 3 min
class LayerNormFunction(torch.autograd.Function):
    """LayerNorm over the last axis, with a backward pass that may be differentiated again.

    Example: LayerNormFunction.apply(x, weight, bias, 1e-5) has the values of F.layer_norm.
    x: (..., D); weight, bias: (D,); eps: a float. Returns (..., D).
    Any of the three may need a gradient, or none. Nothing of x's size is kept but x.
    """

    generate_vmap_rule = True  # lets torch.func.vmap and jacrev through

    @staticmethod
    def forward(x, weight, bias, eps):
        return layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):  # saves for forward: torch.func wants it apart
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        """dy: (..., D). Returns a gradient for each input of forward, None for eps."""
        x, weight = ctx.saved_tensors
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision is too coarse
        x = x - x.mean(-1, keepdim=True)  # far from 0 the digits would be lost
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
#
# **In backward, compute mean and rstd anew from the saved x.**
#
# <details><summary>When this holds</summary>
#
# Where autograd is to differentiate your `backward`. There is a second cure: `forward` returns both as outputs, so that autograd knows them (the tutorial in [Further reading](#Further-reading)). PyTorch's own layer saves both, and its double backward is written by hand: in PyTorch 2.13.0 the second derivative is right, the third is not.
#
# </details>
#
# The net of the beginning, with your backward pass:


# %% tags=["nbval-ignore-output"]
class Healed(nn.Module):
    def forward(self, x):
        return LayerNormFunction.apply(x, torch.ones(64), torch.zeros(64), 1e-5)  # (B, 64)


_trained(Healed())
print("second derivative:", gradgradcheck(LayerNormFunction.apply, (*arguments, 1e-5)))

# %% [markdown]
# It learns as PyTorch's layer does.

# %% [markdown]
# ## Take-away
#
# - $dx$ has a term for each path. Its mean is 0, and at $\epsilon = 0$ so is that of $dx\,\hat x$.
# - A test is blind to a term that is 0 in it.
# - To autograd, saved statistics are constants. So `backward` computes them anew.
#
# **Formula card**
#
# | name | formula |
# |---|---|
# | forward | $\hat x=(x-\mu)\,r$, $r=1/\sqrt{\sigma^2+\epsilon}$, $y=\gamma\,\hat x+\beta$ |
# | backward, $h=dy\,\gamma$ | $dx=r\,(h-\mathrm{mean}(h)-\hat x\,\mathrm{mean}(h\hat x))$ |
# | over all rows | $d\gamma=\sum dy\,\hat x$, $d\beta=\sum dy$ |

# %% [markdown]
# ## Deeper (optional, 4 min)
#
# ### Forward mode
#
# Reverse mode carries one gradient from the output back to all inputs. **Forward mode** carries one direction of the input forward through all lines, and finds how the output changes along it. `torch.func` has both, `jacrev` and `jacfwd`, and the second derivatives of a number may be taken by any two of them. Here is the largest error of each pair, with the largest second derivative for comparison.


# %% tags=["optional", "hide-input"]
# Second derivatives by four pairs of modes
def plain(v, weight, bias):
    mean, var = mean_and_var(v)  # (..., 1) each
    return (v - mean) * torch.rsqrt(var + 1e-5) * weight + bias  # (..., D)


def hessians(layer, seed=1):
    """The second derivatives of a weighted sum of layer(v), (5, 5), by four pairs of modes."""
    g = torch.Generator().manual_seed(seed)
    draws = torch.randn(4, 5, dtype=torch.float64, generator=g)
    v, weights, gain, shift = draws  # (D,) each
    value = lambda v: (layer(v, gain, shift) * weights).sum()
    back, forth, by_pair = torch.func.jacrev, torch.func.jacfwd, {}
    for name, outer, inner in [
        ("jacrev(jacrev)", back, back),
        ("jacfwd(jacrev)", forth, back),
        ("jacrev(jacfwd)", back, forth),
        ("jacfwd(jacfwd)", forth, forth),
    ]:
        try:
            by_pair[name] = outer(inner(value))(v)
        except (NotImplementedError, AssertionError):  # a rule for forward mode is missing
            by_pair[name] = None
    return by_pair


# %% tags=["optional"]
layers = {
    "plain operations": plain,
    "F.layer_norm": lambda v, w, b: F.layer_norm(v, (5,), w, b),
    "LayerNormFunction": lambda v, w, b: LayerNormFunction.apply(v, w, b, 1e-5),
}
truth = hessians(plain)["jacrev(jacrev)"]  # (D, D) plain operations, reverse mode
print(f"largest second derivative {truth.abs().max():.1f}")
for name, layer in layers.items():
    for pair, second in hessians(layer).items():
        error = "raises" if second is None else f"error {(second - truth).abs().max():.1f}"
        print(f"{name:18} {pair}  {error}")

# %% tags=["optional", "hide-input"]
# Guards: the errors of torch 2.13 are still there
silent = hessians(layers["F.layer_norm"])
for pair in ("jacrev(jacrev)", "jacfwd(jacrev)"):
    assert (silent[pair] - truth).abs().max() < 1e-9
for pair in ("jacrev(jacfwd)", "jacfwd(jacfwd)"):
    # torch 2.13.0. Does this fail? Then PyTorch has closed issue 196700: change the text.
    assert (silent[pair] - truth).abs().max() > 0.5

# %% [markdown]
# Where forward mode comes first, `F.layer_norm` in PyTorch 2.13.0 is silently wrong, by an amount of the order of the derivative itself, because its forward rule drops a term when it is differentiated once more (issues [196700](https://github.com/pytorch/pytorch/issues/196700) and [198017](https://github.com/pytorch/pytorch/issues/198017)). `LayerNormFunction` has no forward rule (a static method `jvp`), so it raises an error, also under `torch.func.hessian`, which is `jacfwd(jacrev)`. An error is the better failure of the two.
#
# ### What is kept for the backward pass
#
# Between forward and backward autograd keeps what the backward pass will need, often a large part of the memory in training. A hook, a function that autograd calls for each tensor it keeps, counts those of $x$'s size, besides $x$ itself.


# %% tags=["optional", "hide-input"]
# Counts the tensors that are kept
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


# %% tags=["optional"]
g = torch.Generator().manual_seed(79)
large = torch.randn(3, 7, 64, generator=g).requires_grad_()  # (B, T, D)
w64, b64 = torch.ones(64, requires_grad=True), torch.zeros(64, requires_grad=True)  # (D,) each
print("layer_norm of lesson 4", kept(lambda t: layer_norm(t, (64,), w64, b64), large))
print("F.layer_norm          ", kept(lambda t: F.layer_norm(t, (64,), w64, b64), large))
mine_keeps = kept(lambda t: LayerNormFunction.apply(t, w64, b64, 1e-5), large)
print("LayerNormFunction     ", mine_keeps)

# %% [markdown]
# Autograd on plain operations goes line by line. With the course's `layer_norm` it keeps the centered row and $\hat x$, and with yours what your lines need. The closed form needs neither. In GPT-2 small, with 25 norms over 768 features, one such tensor for each norm takes $25 \cdot 1024 \cdot 768 \cdot 4$ bytes = 79 MB for one sequence of 1,024 tokens in float32.
#
# ## On your own
#
# 1. RMSNorm divides a row by the root of its mean square, and subtracts no mean. Which paths lead back? Find each part as in [section 7.4](#7.4-The-same-with-letters), compare with autograd, and keep `rms_norm_backward(dy, x, rstd, weight)` in a file of your own in `work/mine`.
# 2. Move one product in `published`, and it is right for every gain. Which one?
#
# Your layer can now carry its own gradient back, and be differentiated twice; it still cannot do without its mean, as RMSNorm does: [lesson 8](08_geometry.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), [*Layer Normalization*](https://arxiv.org/abs/1607.06450), section 5: the invariances that the two directions come from.
# - Xu et al. (2019), [*Understanding and Improving Layer Normalization*](https://arxiv.org/abs/1911.07013): what the gradients through mean and variance do in training; *DetachNorm*.
# - A. Karpathy, [*llm.c*, doc/layernorm](https://github.com/karpathy/llm.c/blob/master/doc/layernorm/layernorm.md).
# - PyTorch, [*Double Backward with Custom Functions*](https://pytorch.org/tutorials/intermediate/custom_function_double_backward_tutorial.html): what may be saved.

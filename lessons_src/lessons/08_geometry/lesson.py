# %% [markdown]
# # 8 · Geometry: a projection and a sphere
#
# Because LayerNorm helps so many nets, somebody normalizes each pixel of a handwritten digit. Then a net makes a *token* of four numbers out of each of the 64 pixels, and a linear layer reads all tokens.

# %% tags=["hide-input"]
# Imports.
from numbers import Integral

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore


# %%
def patient(x, weight, bias):
    """x (B, K), weight and bias (K, E) -> tokens (B, K, E)."""
    x = F.layer_norm(x.unsqueeze(-1), (1,))  # (B, K, 1): each number is normalized by itself
    return x * weight + bias  # (B, K, E)


tokens = patient(torch.ones(1, 64), torch.ones(64, 4), torch.ones(64, 4))
print("the tokens of one image:", tuple(tokens.shape))


# %% tags=["export", "hide-input"]
# Trains a reader of tokens, and tests it.
def _digits_read(tokens, adam=False):
    """Train a gain, a bias and a linear layer on tokens(x, weight, bias): what does it read?"""
    torch.manual_seed(0)
    weight, bias = nn.Parameter(torch.randn(64, 4)), nn.Parameter(torch.randn(64, 4))  # (K, E)
    reader, digits = nn.Linear(256, 10), data.digits_split(0)
    rule, rate = (torch.optim.Adam, 0.01) if adam else (torch.optim.SGD, 0.05)
    optimizer = rule([weight, bias, *reader.parameters()], lr=rate)
    for _ in range(200):
        optimizer.zero_grad()
        scores = reader(tokens(digits.x_train.flatten(1), weight, bias).flatten(1))  # (B, 10)
        F.cross_entropy(scores, digits.y_train).backward()
        optimizer.step()
    scores = reader(tokens(digits.x_test.flatten(1), weight, bias).flatten(1))  # (B, 10)
    return f"{(scores.argmax(1) == digits.y_test).double().mean():.0%}"


# %% tags=["nbval-ignore-output"]
print("digits read:", _digits_read(patient))

# %% [markdown]
# About 10 % is chance. So the net has learned nothing, and no error said so. An author of a library for recommendations suspected this fault in the experiments of a paper. At the end of the lesson you mend it, and find out whether the norm was worth the trouble.
#
# *About 59 min, in two sittings of 28 and 31.* **You'll be able to**
# - carry out LayerNorm as two moves, and find rows that it cannot tell apart;
# - build RMSNorm and say which move it leaves out;
# - say which changes of weights and data a norm does not see;
# - say how the length of weights before a norm (a normalization layer) sets their pace.
#
# **You need** [lesson 3](03_epsilon.ipynb) ($\epsilon$), [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 6](06_batchnorm.ipynb) (BatchNorm), [lesson 7](07_backward.ipynb) (gradients).

# %% [markdown]
# ## 8.1 Three numbers in space
#
# A row of three numbers is a point. Drag it, play the steps 0 to 3, and turn the picture.

# %%
explore.sphere()

# %% [markdown]
# **Find out:** drag $x$ along the direction (1, 1, 1), which is a *shift*, then straight away from that line, which is a *stretch*. From which step on does the point stand still for the one, and from which for the other? Then move $\epsilon$ to its right end and drag again. Which of the two is seen now?
#
# <details><summary>What there is to find</summary>
#
# A shift is gone from step 1 on, a stretch from step 2 on, unless $x$ crosses the line. With a large $\epsilon$ a stretch moves $\hat x$ again, because the row ends inside the circle.
#
# </details>

# %% [markdown]
# ## 8.2 Two moves in whole numbers
#
# Subtracting the mean is a product with a matrix, $P = I - \frac1D\,\mathbf 1\mathbf 1^\top$, where $\mathbf 1\mathbf 1^\top$ is the matrix of all ones.

# %%
P = torch.eye(5) - 1 / 5  # (D, D)
x = torch.tensor([9.0, 4, 4, 4, 4])  # (D,) = (5,)
flat = P @ x  # (D,)
print("P, row 1:", P[0])
print("P x:     ", flat)
print("P P x:   ", P @ flat)

# %% [markdown]
# The second $P$ finds no mean. Such a symmetric $P$ is an **orthogonal projection**: it drops the row straight down onto the plane of all rows that sum to 0.
#
# The second move divides by the standard deviation, and that *is* the length of the projected row (the root of the sum of its squares), up to a factor: $\|Px\|^2 = D\,\sigma^2$. Here the squares, 16 and four times 1, add up to 20 = 5 · 2², so $\sigma$ is 2.

# %%
x_hat = flat / 2  # (D,)
print("x_hat:", x_hat, " sum of squares:", (x_hat**2).sum())
print("PyTorch:", F.layer_norm(x, (5,), eps=0.0))

# %% [markdown]
# The squares of $\hat x$ sum to 5, as those of every row of five that is not constant. So $\hat x$ has the length $\sqrt 5$, and lies on a sphere:
#
# $$\hat x = \sqrt D\;\frac{Px}{\sqrt{\|Px\|^2 + D\,\epsilon}}$$
#
# **LayerNorm projects a row, and scales it to the length √D.**
#
# That is said before gain and bias, at $\epsilon = 0$, of rows that are not constant.
#
# <details><summary>With ε, twice, and with a gain</summary>
#
# For $\epsilon > 0$ the row ends inside the sphere, at the length $\sqrt D\,\sigma/\sqrt{\sigma^2+\epsilon}$. A second LayerNorm changes nothing at $\epsilon = 0$: the row is in the plane and on the sphere already (LayerNorm is *idempotent* there). Gain and bias then take the sphere to an ellipsoid somewhere else.
#
# </details>

# %% tags=["exercise"] id="ex-8-1"
# Exercise 8.1 · ●●○○○ · 3 min
# On paper. The row is (15, 9, 7, 1). Type numbers, and four in square brackets for a row.
# x_hat: at eps = 0. with_eps: the length of x_hat at eps = 75.
# twin: a different row with the same x_hat at eps = 0; its mean is 3, its sigma 10.
# Example: for the row of five above, x_hat=[2, -0.5, -0.5, -0.5, -0.5].
# What is still open may stay three dots. Copy this line and replace the dots:
# two_moves = dict(x_hat=..., with_eps=..., twin=...)
### BEGIN SOLUTION
two_moves = dict(x_hat=[1.4, 0.2, -0.2, -1.4], with_eps=1, twin=[17, 5, 1, -11])
### END SOLUTION

# %% tags=["check"]
check.two_moves(two_moves)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The mean is 8, so the projected row is (7, 1, −1, −7). Its squares add up to 100 = 4 · 5². With eps = 75, what stands under the root is 100 + 4 · 75. For the twin go backwards: stretch $\hat x$ to the $\sigma$ that it should have, then shift.
#
# </details>
#
# **A shift and a stretch of the row are forgotten.**
#
# <details><summary>When this holds</summary>
#
# A shift always: the same number is added to all entries. A stretch (a factor above 0) at $\epsilon = 0$; for $\epsilon > 0$ it is seen, the more the smaller the row's variance is against $\epsilon$.
#
# </details>

# %% [markdown]
# ## 8.3 Two features, and one
#
# The circle of 8.1 belongs to three features: there the plane cuts the sphere in a circle.
#
# **Predict 8.1:** 1,000 rows are drawn at random, of two different numbers each. How many different rows does LayerNorm make of them at $\epsilon = 0$?
# - [ ] about 1,000 :: Rows that are a shift and a stretch of each other give one output, and of two numbers nearly all rows are that.
# - [x] 2 :: The plane is a line here, the rows (a, −a), and only two of its points have the length √2.
# - [ ] 1 :: A shift and a stretch by a factor above 0 never exchange the larger and the smaller number.

# %%
pairs = torch.randn(1000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(83))
print(F.layer_norm(pairs, (2,), eps=0.0).round(decimals=4).unique(dim=0))

# %% [markdown]
# Two features tell only which one is larger, so do not test with two. And the patient normalizes each number by itself, so it has *one* feature:


# %% tags=["export", "hide-input"]
# Counts different tokens.
def _different(tokens):
    """How many different tokens does it make of 1,000 values? Equal: to four decimals."""
    g = torch.Generator().manual_seed(89)
    w, b = torch.randn(2, 1, 4, generator=g)  # (K, E) each
    values = torch.linspace(-3, 3, 1000)[:, None]  # (B, K) = (1000, 1)
    return len((1e4 * tokens(values, w, b)).round().unique(dim=0))


# %%
print("different tokens:", _different(patient))

# %% [markdown]
# One number minus its own mean is 0, so of 1,000 values every token is the bias.
#
# **LayerNorm over two features leaves a sign, over one feature nothing.**
#
# <details><summary>When this holds</summary>
#
# Before the bias. Of two features the sign is left where $\epsilon$ is negligible: at $\epsilon = 10^{-5}$ the pair (0, 0.001) gives (−0.16, 0.16). Of one feature nothing is left for every $\epsilon > 0$, but in half precision PyTorch leaves rounding errors, and where the square overflows (in float32 beyond about $10^{19}$) `nan`.
#
# </details>

# %% [markdown]
# ## 8.4 RMSNorm: the sphere alone
#
# What if we leave out the first move? The row (7, 1) has the squares 49 and 1. Their mean is 25, and its root, the *root mean square*, is 5.

# %%
x = torch.tensor([7.0, 1.0])  # (D,)
print("LayerNorm:", F.layer_norm(x, (2,), eps=0.0))
print("RMSNorm:  ", F.rms_norm(x, (2,), eps=0.0))

# %% [markdown]
# **RMSNorm scales a row to the length √D, and does not project it.**
#
# It forgets a factor and sees a shift. A learned gain multiplies the result, and no bias is added. [Zhang & Sennrich (2019)](https://arxiv.org/abs/1910.07467) proposed it, and many large language models use it.
#
# <details><summary>When this holds</summary>
#
# Before the gain, at $\epsilon = 0$, for a row that is not all zeros. The factor is above 0, and multiplies the row itself. LayerNorm forgets such a factor, too: it stretches the distances from the mean and shifts the mean.
#
# </details>
#
# Build a module that can take the place of `nn.RMSNorm`. The folded class has all but the formula, which you have from the numbers above and from what [lesson 3](03_epsilon.ipynb) says of the place of $\epsilon$.


# %% tags=["export", "hide-input"]
# All of nn.RMSNorm but its formula
class _Shell(nn.Module):
    """All of nn.RMSNorm but its formula: the sizes, the gain, the axes, what is refused."""

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        single = isinstance(normalized_shape, Integral)
        sizes = (normalized_shape,) if single else tuple(normalized_shape)
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
# Exercise 8.2 · ●●●○○ · 4 min
class RMSNorm(_Shell):
    """Root mean square normalization with a learned gain: takes the place of torch.nn.RMSNorm.

    Example: RMSNorm(2, eps=0.0) makes [1.4, 0.2] of [7, 1].
    x: (..., *normalized_shape). Returns x's shape and dtype, computed in float32 at least.
    self.weight: the gain, of shape normalized_shape; None without elementwise_affine.
    self.eps: added to the mean square, under the root; 0 is an eps, too. None: the machine
    epsilon, torch.finfo(dtype).eps, of the type that is computed in.
    """

    def forward(self, x):
        axes = self.axes(x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision is too coarse
        ### BEGIN SOLUTION
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
# Choose `eps`, write the formula with `.mean(axes, keepdim=True)`, multiply by the gain if there is one, and return in `x.dtype`.
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# Also on half precision. There the row may be rounded to `x`'s dtype before the gain multiplies, as in many published models.
#
# </details>

# %% [markdown]
# ## What you have now
#
# - **LayerNorm projects a row, and scales it to the length √D.** It forgets a shift and a stretch.
# - **RMSNorm scales alone.** It forgets a factor.
# - **LayerNorm over two features leaves a sign, over one feature nothing.**
#
# **You can stop here:** close the notebook. Write down a row of three numbers and two twins of it, one that LayerNorm cannot tell from it and one that RMSNorm cannot.
#
# <details><summary>To compare</summary>
#
# For (1, 2, 3), for example: (11, 12, 13) for LayerNorm, (2, 4, 6) for RMSNorm (and for LayerNorm).
#
# </details>
#
# *Sitting two:* why long weights before a norm learn slowly, and a cure for the patient.

# %% [markdown]
# ## 8.5 What four norms do not see

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.geometry import _different, _digits_read
from lessonkit import check, data, plot
from lessonkit.mine import RMSNorm

# %% [markdown]
# **Recall 8.1:** at $\epsilon = 0$, gain 1 and bias 0: which sums over a row's gradient $dx$ are always 0?
# - [ ] only the sum of $dx$ :: That one is 0, because a shift of the row is not seen. A stretch is not seen either.
# - [x] the sum of $dx$ and the sum of $dx \cdot \hat x$ :: Neither a shift nor a stretch of the row changes the output, so neither gets a gradient.
# - [ ] none, in general :: Moving the row along $\mathbf 1$ or along $\hat x$ does not change the output at $\epsilon = 0$.
#
# A norm often reads the output of a linear layer, $a = Wx$. Each row of $W$ makes one entry of $a$. Which changes of $W$ and of the data does it not see? Table 1 of [Ba, Kiros & Hinton (2016)](https://arxiv.org/abs/1607.06450) asks this; here are four norms at $\epsilon = 0$. WeightNorm ([Salimans & Kingma 2016](https://arxiv.org/abs/1602.07868)) divides each row of $W$ by its length and never looks at the data.

# %% [markdown]
# **Predict 8.2:** one vector $\delta$ is added to all rows of $W$. Which of the four does not see it?
# - [ ] BatchNorm :: It forgets what all samples have in common. Each sample $x$ gets a different $\delta\cdot x$.
# - [x] LayerNorm :: In one sample every entry of a gains the same number, $\delta\cdot x$: a shift, which the projection takes away.
# - [ ] WeightNorm :: It divides each row of $W$ by its length, and adding δ changes length and direction.
# - [ ] RMSNorm :: It forgets a common factor. A common shift it keeps.

# %% tags=["hide-input"]
# Makes six changes and draws who sees them
norms = {  # x (N, D), W (H, D) -> (N, H)
    "BatchNorm": lambda x, W: F.layer_norm((x @ W.T).T, x.shape[:1], eps=0.0).T,  # over N
    "WeightNorm": lambda x, W: x @ F.normalize(W, dim=1).T,
    "LayerNorm": lambda x, W: F.layer_norm(x @ W.T, W.shape[:1], eps=0.0),
    "RMSNorm": lambda x, W: F.rms_norm(x @ W.T, W.shape[:1], eps=0.0),
}
g = torch.Generator().manual_seed(86)
x, W = (torch.randn(s, dtype=torch.float64, generator=g) for s in ((9, 4), (5, 4)))


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
        "one sample × 3": (one_case * x, W),
    }


changed = changes(x, W, torch.Generator().manual_seed(87))
table = {}  # {norm: six words}
for name, norm in norms.items():
    moved = [(norm(*pair) - norm(x, W)).abs().max() for pair in changed.values()]
    table[name] = ["same" if change < 1e-12 else "changes" for change in moved]
paper = {  # Table 1 of the paper; the last row is from RMSNorm's README
    "BatchNorm": "yes no yes yes yes no",
    "WeightNorm": "yes no yes no no no",
    "LayerNorm": "yes yes no yes no yes",
    "RMSNorm": "yes no no yes no yes",
}
for name, words in table.items():
    assert [word == "same" for word in words] == [w == "yes" for w in paper[name].split()]


def draw(ax):
    same = [[float(word == "same") for word in words] for words in table.values()]
    ax.imshow(same, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for i, words in enumerate(table.values()):
        for j, word in enumerate(words):
            ax.text(
                j,
                i,
                word,
                ha="center",
                va="center",
                color="white" if word == "same" else "#15191C",
            )
    ax.hlines([0.5, 1.5, 2.5], -0.5, 5.5, color="white", lw=2)
    ax.vlines([0.5, 1.5, 2.5, 3.5, 4.5], -0.5, 3.5, color="white", lw=2)
    ax.set_xticks(range(6), list(changed))
    ax.set_yticks(range(4), list(norms))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


plot.figure(
    draw,
    numbers={"norm": list(norms)}
    | {
        name.replace("\n", " "): words
        for name, words in zip(changed, zip(*table.values(), strict=True), strict=True)
    },
    title="LayerNorm alone does not see one vector added to all rows of W",
    size=(8.6, 3.4),
    caption="Does the output of the norm stay the same (to 1e-12, float64)? ε = 0, before gain "
    "and bias, positive factors, BatchNorm in training mode. 9 samples, 4 inputs, 5 units.",
    alt="A table of four norms and six changes, dark where the output stays the same. Scaling "
    "the whole matrix changes none. Adding one vector to all rows of W leaves LayerNorm alone "
    "the same; scaling one row leaves BatchNorm and WeightNorm the same; scaling all data all "
    "but WeightNorm; shifting all data BatchNorm alone; scaling one sample LayerNorm "
    "and RMSNorm.",
)

# %% [markdown]
# Read the lower two rows with the two moves. A factor on all of $W$, on all data or on one sample is a factor on $a$. One vector added to all rows of $W$ (**re-centering** it) shifts $a$, and the others do neither. BatchNorm makes the two moves over the samples, so it does not see what all samples of a unit share.
#
# **The first column is the same for all four: none of them sees the length of W.**

# %% [markdown]
# ## 8.6 The length of weights before a norm
#
# So a net with $10\,W$ in the place of $W$ computes the same. Does it learn the same? In the net below $W$ alone is trained: digits → $W$ → LayerNorm → ReLU → $V$, 100 steps on all training digits, plain SGD. Two levers are yours: the length of $W$ and the rate.


# %% tags=["hide-input"]
# Trains W from any length, at any rate.
def losses(length, rate, decay=0.0, rule=torch.optim.SGD, **more):
    """The losses of 100 steps of digits -> W -> LayerNorm -> ReLU -> V, from length times W."""
    g, digits = torch.Generator().manual_seed(0), data.digits_split(0)
    X = digits.x_train.flatten(1).double()  # (B, D) = (1297, 64)
    W = nn.Parameter(length * torch.randn(32, 64, dtype=X.dtype, generator=g) / 8)  # (H, D)
    V = torch.randn(10, 32, dtype=X.dtype, generator=g) / 32**0.5  # (10, H) stays as it is
    optimizer, history = rule([W], lr=rate, weight_decay=decay, **more), []
    for _ in range(100):
        optimizer.zero_grad()
        h = F.layer_norm(X @ W.T, (32,), eps=0.0)  # (B, H)
        loss = F.cross_entropy(F.relu(h) @ V.T, digits.y_train)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return torch.tensor(history, dtype=X.dtype)  # (100,)


def trained(length=1, rate=0.5, adam=False):
    """Print the first and the last loss, from length times W."""
    rule = {"rule": torch.optim.Adam, "eps": 0.0} if adam else {}
    run = losses(length, rate, **rule)
    print(f"{length:g} W at rate {rate:g}: loss {run[0]:.3f} at first, {run[-1]:.3f} at last")


# %% tags=["nbval-ignore-output"]
trained(length=1, rate=0.5)
trained(length=10, rate=0.5)

# %% [markdown]
# Both begin with the same loss, and the long weights hardly learn. The loss depends on the direction of $W$ alone, so think of $W$ as an arrow that each step turns.
#
# **Find out:** which rate lets $10\,W$ end where $W$ ends at 0.5? And $3\,W$? Write your guesses down first. Then do the same with `adam=True`, where $W$ learns at 0.02. What is the rate multiplied by, if the weights are multiplied by $c$?

# %% tags=["nbval-ignore-output"]
trained(length=10, rate=0.5, adam=False)  # now yours

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# The rates 50 and 4.5 end at the same loss, to all digits that are printed: 10 · 10 and 3 · 3 times 0.5. With Adam it is 0.2 and 0.06, so 10 and 3 times the rate. If you looked for 5 and 1.5 first, you have found one of two reasons.
#
# </details>
#
# There are two reasons. From $L(cW) = L(W)$ follows $\nabla L(cW) = \nabla L(W)/c$: the gradient is 10 times smaller. And this smaller step turns an arrow that is 10 times longer. Adam divides by the size of the gradients, so there the second reason alone is left.
#
# **Before a norm, c times the weights need c² times the rate under SGD, c times under Adam.**
#
# So under SGD the direction of $W$ learns at the **effective learning rate** $\eta/\|W\|^2$ ([van Laarhoven 2017](https://arxiv.org/abs/1706.05350)). The limits: all of $Wx$ goes into one norm and nowhere else, without a bias, and $\epsilon$ is negligible.
#
# <details><summary>When this holds</summary>
#
# Plain SGD takes the steps, or Adam with an $\epsilon$ of its own of 0; a bias would have to be multiplied along with $W$. Along $W$ the loss is flat, so the gradient is at right angles to $W$, and each step without weight decay makes $W$ longer.
#
# The losses of $W$ at 0.005 and of $10\,W$ at 0.5 lay at most {paces.sgd:max} apart, those of Adam from $W$ at 0.02 and $10\,W$ at 0.2 at most {paces.adam:max}. At PyTorch's $\epsilon$ of $10^{-5}$ the rule still holds for $10\,W$ (at most {paces.eps:max}), and no longer for a $W$ a thousand times shorter ({paces.short:range}). {paces:again}
#
# </details>
#
# **Before a norm, weight decay keeps W short, and so keeps its pace up.** The shrinking itself changes nothing that the net computes, only its later steps.
#
# <details><summary>When this holds</summary>
#
# A faster pace helps where $W$ was too long. With a decay of 0.02, from $10\,W$ at 0.5 the last loss was {decayed[10.0].loss_with_decay:range} instead of {decayed[10.0].loss:range}; from $W$ it was {decayed[1.0].loss_with_decay:range} instead of {decayed[1.0].loss:range}. So decay was better in {decayed[10.0].gained:count > 0} of {decayed[10.0]:n} pairs from $10\,W$, and in {decayed[1.0].gained:count > 0} from $W$. {decayed:again}
#
# </details>
#
# With which rate *and decay* does $4\,W$ learn as $W$ does?

# %% tags=["exercise"] id="ex-8-3"
# Exercise 8.3 · ●●○○○ · 2 min
# On paper. With g, the gradient at W, a step of SGD leads
#     from W to W - rate * (g + decay * W).     Here the rate is 0.5 and the decay 0.02.
# At 4 W the gradient is g / 4. Which rate and decay lead from 4 W to 4 times that place?
# Example: if the decay were 0 from W, it would be 0 from 4 W.
# Copy this line and replace the dots:
# same_run = dict(rate=..., decay=...)
### BEGIN SOLUTION
same_run = dict(rate=8, decay=0.00125)
### END SOLUTION

# %% tags=["check"]
check.same_run(same_run)

# %% [markdown]
# <details><summary>Hint</summary>
#
# $4W - \eta'\,(g/4 + \lambda'\,4W)$ should be $4\,\big(W - 0.5\,(g + 0.02\,W)\big)$ for every $g$ and $W$. Compare what multiplies $g$, then what multiplies $W$.
#
# </details>
#
# The folded cell tries your settings.

# %% tags=["hide-input"]
# Trains from both, and compares the losses.
gap = losses(1, 0.5, 0.02) - losses(4, same_run["rate"], same_run["decay"])  # (100,)
print("the same losses:", bool(gap.abs().max() < 1e-9))

# %% [markdown]
# ## 8.7 Clinic: features that never arrive
#
# The patient's fault was noticed by an author of Transformers4Rec, a library for recommendations, who wrote that it might have cost accuracy in the experiments of a paper ([pull request 151](https://github.com/NVIDIA-Merlin/Transformers4Rec/pull/151)). Two cures come to mind: RMSNorm of the number $x$, which subtracts no mean, and LayerNorm of the four numbers $x\,w$, which are more than one. The bias is added afterwards.
#
# **Predict 8.3:** how many different tokens do they make of 1,000 values, half of them negative, if $\epsilon$ is negligible? The first number is that of RMSNorm.
# - [x] 2 and 2 :: $x/|x|$ is a sign; and $x\,w$ is a stretch of $w$ for x > 0, and of −w for x < 0.
# - [ ] 1,000 and 1,000 :: Both forget the size of x: it is a factor that all numbers under the norm share.
# - [ ] 2 and 1,000 :: For the second, x is a common factor of all four numbers, and a positive factor is forgotten.
# - [ ] 1 and 2 :: RMSNorm subtracts nothing, so the sign survives.


# %% tags=["nbval-ignore-output"]
def norm_of_number(x, weight, bias):
    x_hat = RMSNorm(1, eps=1e-12, elementwise_affine=False)(x.unsqueeze(-1))  # (B, K, 1)
    return x_hat * weight + bias  # (B, K, E)


def norm_of_product(x, weight, bias):
    row = x.unsqueeze(-1) * weight  # (B, K, E)
    return F.layer_norm(row, weight.shape[-1:], eps=1e-12) + bias


for tokens in (norm_of_number, norm_of_product):
    print(tokens.__name__, _different(tokens), "tokens, digits read:", _digits_read(tokens))

# %% [markdown]
# A sign for each pixel is enough for a fair accuracy, so such a fault can hide. Both cures make the unit of the pixels harmless, and forget how large a pixel is.
#
# **What a norm makes harmless and what it forgets are the same thing.**
#
# Now say that the next layers want normalized tokens. So the norm has to stay, with its small $\epsilon$, and must not forget.


# %% tags=["exercise"] id="ex-8-4"
# Exercise 8.4 · ●●●○○ · 3 min
def mended_tokens(x, weight, bias):
    """Turn each of K numbers into a normalized token: different numbers, different tokens.

    Example: with weight [1, 0, 2] and bias [2, 0, 1], one answer makes [1.22, 0, -1.22] of -1
    and [0.71, -1.41, 0.71] of 1.
    x: (B, K). weight, bias: (K, E), both learned, a row of each for each feature.
    Returns (B, K, E). Each token has mean 0 and mean square 1 (to 0.01: eps).
    """
    ### BEGIN SOLUTION
    return F.layer_norm(x.unsqueeze(-1) * weight + bias, weight.shape[-1:])
    ### END SOLUTION


# %% tags=["check"]
check.mended_tokens(mended_tokens)

# %% [markdown]
# <details><summary>Hint</summary>
#
# A norm over four numbers forgets their common factor and their common shift. So $x$ must come in as neither. What can be added to the four numbers $x\,w$ before they are normalized?
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# The token of a feature depends on that feature alone, gradients reach all three inputs, and the tokens have `x`'s dtype. Also on numbers from −3 to 3: the tokens of two that are ¼ apart or more have to be a thousandth of the largest distance apart, or more.
#
# </details>


# %% [markdown]
# Are your tokens worth it? Ask the control, which has no norm.
#
# **Find out:** who reads more, your tokens or the control? As the pixels are, then in a different unit, with `pixels=100` and with `pixels=0.01`. Write your guesses down first. At last the same with `adam=True`.


# %% tags=["nbval-ignore-output"]
def without_norm(x, weight, bias):
    return x.unsqueeze(-1) * weight + bias  # (B, K, E)


def read(tokens, pixels=1, adam=False):
    """Print what is read, if all pixels are multiplied by a factor."""
    sized = lambda x, weight, bias: tokens(pixels * x, weight, bias)
    print(f"{tokens.__name__} × {pixels}, digits read: {_digits_read(sized, adam)}")


read(mended_tokens)
read(without_norm)  # now yours: change the unit, and then the optimizer

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# With SGD the control reads a little more than your tokens of the pixels as they are, and next to nothing in each of the other two units. Your tokens read the large pixels as well, and next to nothing of the small ones. With Adam both read in every unit, and of the small pixels less.
#
# </details>
#
# If you expected your tokens to win, look at the control: as the pixels are, it reads more. So the next layers wanted the norm, and not the digits. What the norm spares is a search for the rate: at one rate of SGD the control reads pixels in one unit, and your tokens larger ones, too. Adam divides by the size of the gradients, as in 8.6, and with it the control reads in all three units.
#
# <details><summary>How sure is that?</summary>
#
# Test digits read as they are, with pixels times 100, and times 0.01. SGD at a rate of 0.05: without a norm {token_sizes[SGD, no norm, 1.0, *].reads:range}, {token_sizes[SGD, no norm, 100.0, *].reads:range} and {token_sizes[SGD, no norm, 0.01, *].reads:range}; the mended tokens {token_sizes[SGD, norm of product and bias, 1.0, *].reads:range}, {token_sizes[SGD, norm of product and bias, 100.0, *].reads:range} and {token_sizes[SGD, norm of product and bias, 0.01, *].reads:range}. Adam at 0.01: without a norm {token_sizes[Adam, no norm, 1.0, *].reads:range}, {token_sizes[Adam, no norm, 100.0, *].reads:range} and {token_sizes[Adam, no norm, 0.01, *].reads:range}; the mended tokens {token_sizes[Adam, norm of product and bias, 1.0, *].reads:range}, {token_sizes[Adam, norm of product and bias, 100.0, *].reads:range} and {token_sizes[Adam, norm of product and bias, 0.01, *].reads:range}. The tokens differ for at least three numbers a token, where the projections of $w$ and of $b$ are not parallel, and $\epsilon$ is negligible against the variance of the row. {token_sizes:again}
#
# </details>
#
# **Ask of every norm how many numbers it reduces over, and which factor they share.**

# %% [markdown]
# ## Take-away
#
# - What LayerNorm and RMSNorm forget of a row: the lines of [What you have now](#What-you-have-now).
# - Four norms do not see the length of $W$; LayerNorm alone does not see one vector added to all its rows.
# - Before a norm, $c$ times the weights need $c^2$ times the rate under SGD, $c$ times under Adam; weight decay keeps $W$ short, and its pace up.
#
# **Formula card**
#
# | | |
# |---|---|
# | LayerNorm | $\mu = \frac1D\sum_i x_i$, $\ \sigma^2 = \frac1D\sum_i (x_i-\mu)^2$, $\ \hat x = (x-\mu)/\sqrt{\sigma^2+\epsilon}$, $\ y = \gamma\,\hat x + \beta$ |
# | the same, in space | $\hat x = \sqrt D\,Px/\sqrt{\lVert Px\rVert^2 + D\epsilon}$, $\ P = I - \frac1D\mathbf 1\mathbf 1^\top$ |
# | RMSNorm | $y = \gamma\,x/\sqrt{\operatorname{mean}(x^2)+\epsilon}$ |
# | backward, $h = dy\,\gamma$ | $dx = r\,(h - \mathrm{mean}(h) - \hat x\,\mathrm{mean}(h\hat x))$, $\ r = 1/\sqrt{\sigma^2+\epsilon}$ |
# | effective learning rate | $\eta/\lVert W\rVert^2$ (plain SGD, $W$ before a norm at $\epsilon = 0$) |
# | from $cW$ the run of $(W, \eta, \lambda)$ | SGD: $(c^2\eta, \lambda/c^2)$; AdamW with its own $\epsilon$ at 0: $(c\,\eta, \lambda/c)$ |

# %% [markdown]
# ## Deeper (optional, 3 min)
#
# ### The spectrum of the Jacobian
#
# Which small changes of a row reach the output, and how strongly? With $r = 1/\sqrt{\sigma^2+\epsilon}$, the Jacobian before gain and bias is
#
# $$J = r\,\big(P - \tfrac1D\,\hat x\hat x^\top\big).$$
#
# It is symmetric, so it multiplies a change of the row by a fixed factor along each of $D$ directions at right angles to one another. These factors are its **eigenvalues**, and all together its **spectrum**. For a row that is not constant they are 0 along $\mathbf 1$ (a shift), $r\,\frac{\epsilon}{\sigma^2+\epsilon}$ along $\hat x$ (a stretch), and $r$ along the other $D-2$.

# %% tags=["optional"]
x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 10.0], dtype=torch.float64)  # (D,) = (6,)
var = x.var(correction=0)
for share in (0.0, 0.1, 1.0, 10.0):
    eps = share * var.item()
    J = torch.func.jacrev(lambda x, eps=eps: F.layer_norm(x, (6,), eps=eps))(x)  # (D, D)
    slopes = torch.linalg.eigvalsh(J).flip(0) * var.sqrt()  # (D,) the largest first
    print(
        f"eps = {share:4} var: eigenvalues times sigma",
        [round(v, 3) + 0 for v in slopes.tolist()],
    )

# %% [markdown]
# At $\epsilon = \sigma^2$ half as much of a stretch gets through as of the other directions.
#
# ### Where growth and decay balance
#
# The gradient makes $W$ longer, weight decay makes it shorter. Under plain SGD with rate $\eta$ and decay $\lambda$, one step adds $\eta^2\|\nabla L\|^2$ to $\|W\|^2$ and takes away about $2\eta\lambda\,\|W\|^2$, if $\eta\lambda$ is small. Where the two are equal, $\eta\,\|\nabla L\|/\|W\|$ is $\sqrt{2\eta\lambda}$: about the angle by which $W$ turns in a step. At the balance, neither the loss nor the length at the start is in it; how long it takes to get there depends on both ([van Laarhoven 2017](https://arxiv.org/abs/1706.05350); for AdamW and others [Kosson et al. 2024](https://arxiv.org/abs/2305.17212)).
#
# ## On your own
#
# For your package: write `forgets(layer, width)`, which says whether a layer forgets a shift, a factor above 0, a factor below 0, and a change of the other rows. Try it on your LayerNorm, BatchNorm and RMSNorm, save it in `work/mine/forgets.py`, and take it to [lesson 12](12_family.ipynb).
#
# Your layer can now make a token of a single number and not forget it; it still cannot be put after each convolution of a net by one call: [lesson 9](09_cnn.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), [*Layer Normalization*](https://arxiv.org/abs/1607.06450), Table 1 and § 5.2 (the length of the weights as a learning rate).
# - van Laarhoven (2017), [*L2 Regularization versus Batch and Weight Normalization*](https://arxiv.org/abs/1706.05350): the effective learning rate.
# - Brody, Alon & Yahav (2023), [*On the Expressivity Role of LayerNorm in Transformers' Attention*](https://arxiv.org/abs/2305.02582): what each move does for attention.

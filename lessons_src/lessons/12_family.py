# %% [markdown]
# # 12 · The family: one formula, two questions, many names
#
# When queries and keys grow during training, so do the attention scores. A published remedy is to normalize both first. The two norms below are those of [zeta](https://github.com/kyegomez/zeta)'s `qkv_norm.py`; the last line, which makes the attention logits (the scores before the softmax), is ours.

# %% tags=["record", "hide-input"]
import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode  # lesson 11
from lessonkit import check, data, plot, runs, show  # sets torch to one thread (LESSON_THREADS)
from lessonkit.mine import RMSNorm, layer_norm  # lessons 8 and 4


# %%
def patient_logits(q, k):
    """Attention logits of normalized q and k, (B, H, T, d) each -> (B, H, T, T)."""
    q = nn.LayerNorm(q.size())(q)
    k = nn.LayerNorm(k.size())(k)
    return q @ k.mT / q.shape[-1] ** 0.5


# %% tags=["hide-input"]
g = torch.Generator().manual_seed(132)
loud = torch.tensor([1.0, 3.0, 30.0]).view(3, 1, 1)  # (H, 1, 1) three heads, unlike in size
q, k = torch.randn(2, 2, 3, 5, 8, generator=g) * loud  # (B, H, T, d) each
before = patient_logits(q, k)[0, 2, :4, :4]  # (4, 4) sample 0, head 2, steps 0 to 3
for name, change in {"sample 1": (1,), "step 4 ": (0, slice(None), 4)}.items():
    other = q.clone()
    other[change] = 100.0
    moved = (patient_logits(other, k)[0, 2, :4, :4] - before).abs().max()
    print(f"{name} changes, and sample 0, steps 0 to 3 notice:", (moved > 0.1).item())

# %% [markdown]
# No error is raised. But what one user gets depends on what another one wrote, and a model that should predict the next token already sees it. The last section heals the function. First you learn to read any normalization layer (a norm, for short).

# %% [markdown]
# *About 80 min.* **You'll be able to**
# - say of any norm what it keeps and what it forgets;
# - say which norms are the same function, and when;
# - build GroupNorm from LayerNorm;
# - turn a Pre-LN Transformer into one with RMSNorm that computes the same;
# - read the norms of a published language model, and choose one.
#
# **You need** lessons [6](06_batchnorm.ipynb) (the axes of four norms), [8](08_geometry.ipynb) (RMSNorm) and [11](11_transformer.ipynb) (Pre-LN, attention, `CharGPT`).
#
# **Recall 12.1:** why does a Pre-LN Transformer have one more norm, after its last block?
# - [ ] to bring the logits to a fixed size :: The output layer comes after that norm, and its weights may be of any size.
# - [x] because the stream has not been normalized and grows with depth :: In Pre-LN the norms are on the branches, so the output layer would read the raw sum of all branches.
# - [ ] because the last block has none of its own :: It has two, as every block has.
#
# **Recall 12.2:** a batch of images has the shape (B, C, H, W) = (8, 16, 10, 10). How many gains does `nn.LayerNorm([16, 10, 10])` learn?
# - [ ] 16 :: That is one for each channel, as GroupNorm and BatchNorm have them.
# - [x] 1,600 :: One for each number of `normalized_shape`, so the layer is tied to one image size.
# - [ ] 8 :: That is the number of means it takes in this batch, one for each image.
#
# **Recall 12.3:** and how many means does BatchNorm take in that batch, in training?
# - [ ] 8 :: One for each image: that would be LayerNorm over everything but the batch.
# - [ ] 1,600 :: One for each channel and place would leave 8 numbers for each mean. BatchNorm pools the places as well.
# - [x] 16 :: One for each channel, over all images and places.

# %% [markdown]
# ## 12.1 Two questions
#
# How can one keep all these names apart? Ask a norm two questions: **over which axes** does it take its statistics, and **is the mean subtracted**? The rest is one formula, before gain and bias:


# %%
def norm(x, axes, center=True, eps=0.0):
    """Normalize x over the given axes; center=False leaves the mean where it is."""
    c = x - x.mean(axes, keepdim=True) if center else x
    return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps)


# %% [markdown]
# Six answers make six names. The layout is (B, C, T), a batch of series; the C numbers of one time step are its *token*.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(121)
x = 1 + 2 * torch.randn(3, 6, 5, dtype=torch.float64, generator=g)  # (B, C, T)
theirs = {
    "LayerNorm": F.layer_norm(x.mT, (6,)).mT,
    "RMSNorm": F.rms_norm(x.mT, (6,), eps=1e-5).mT,
    "GroupNorm, 1 group": F.group_norm(x, 1),
    "GroupNorm, 2 groups": F.group_norm(x, 2),
    "InstanceNorm": F.instance_norm(x),
    "BatchNorm": F.batch_norm(x, None, None, training=True),
}

# %%
in_groups = lambda x: x.unflatten(1, (2, -1))  # (B, C, T) -> (B, 2, C / 2, T)
family = {
    "LayerNorm": lambda x, **k: norm(x, 1, **k),  # each token over its channels
    "RMSNorm": lambda x, **k: norm(x, 1, center=False, **k),
    "GroupNorm, 1 group": lambda x, **k: norm(x, (1, 2), **k),
    "GroupNorm, 2 groups": lambda x, **k: norm(in_groups(x), (2, 3), **k).flatten(1, 2),
    "InstanceNorm": lambda x, **k: norm(x, 2, **k),  # each channel over its steps
    "BatchNorm": lambda x, **k: norm(x, (0, 2), **k),  # in training
}
agree = [(f(x, eps=1e-5) - theirs[name]).abs().max() < 1e-12 for name, f in family.items()]
print("agree with PyTorch to 12 digits:", sum(agree).item(), "of", len(family))

# %% tags=["hide-input"]
assert all(agree)  # float64, numbers of order 1

# %% [markdown]
# ### What a norm forgets
#
# At $\epsilon = 0$ and before gain and bias, a norm that subtracts a mean over some axes cannot see one number that is added over them, and a norm that divides by a size cannot see a positive factor.
#
# **Predict 12.1:** each token of each sample is multiplied by a positive factor of its own. Which of the six do not notice?
# - [ ] all six :: Only a norm whose statistics belong to one token can take that token's factor out.
# - [x] LayerNorm and RMSNorm :: They divide each token by its own size.
# - [ ] LayerNorm, RMSNorm and GroupNorm with one group :: GroupNorm has one size for all tokens of a sample, so it sees which token was loud.

# %% tags=["hide-input"]
CHANGES = [
    *(f"{sign}\na[{which}]" for which in ("b", "b,t", "b,c", "c") for sign in "+×"),
    *("other\nsamples", "later\ntokens"),
]


def fingerprint(function, x, g):
    """How far each of the ten changes of x (B, C, T) moves the output.

    For the last two: the output of sample 0, and of the first tokens. Factors are positive.
    """
    add = lambda *shape: torch.randn(shape, dtype=x.dtype, generator=g)
    factor = lambda *shape: 0.5 + 2 * torch.rand(shape, dtype=x.dtype, generator=g)
    B, C, T = x.shape
    changed = []
    for shape in ((B, 1, 1), (B, 1, T), (B, C, 1), (1, C, 1)):
        changed += [x + add(*shape), x * factor(*shape)]
    others, later = x.clone(), x.clone()
    others[1:], later[..., 3:] = add(B - 1, C, T), add(B, C, T - 3)
    gaps = [(function(other) - function(x)).abs() for other in (*changed, others, later)]
    gaps[8], gaps[9] = gaps[8][:1], gaps[9][..., :3]
    return [gap.max().item() for gap in gaps]


g = torch.Generator().manual_seed(122)
functions = family | {"tanh(x / 2)": lambda x: torch.tanh(x / 2)}
moves = {name: fingerprint(f, x, g) for name, f in functions.items()}
same = {name: [gap < 1e-12 for gap in row] for name, row in moves.items()}  # float64
said = {  # 1: the output stays the same
    "LayerNorm": "1111000011",
    "RMSNorm": "0101000011",
    "GroupNorm, 1 group": "1100000010",
    "GroupNorm, 2 groups": "1100000010",
    "InstanceNorm": "1100111110",
    "BatchNorm": "0000001100",
    "tanh(x / 2)": "0000000011",
}
for name, row in moves.items():
    assert same[name] == [digit == "1" for digit in said[name]]
    # what does change, changes visibly: 0.01 at least in 60 seeds
    assert all(gap > 1e-4 for gap, kept in zip(row, same[name], strict=True) if not kept)

# %% tags=["hide-input"]
plot.heat(
    [[float(kept) for kept in row] for row in same.values()],
    list(same),
    CHANGES,
    texts=[["=" if kept else "≠" for kept in row] for row in same.values()],
    limits=(0, 1.6),
    size=(8.6, 4.4),
    title="A norm forgets what it subtracts and divides by",
    x="what is done to x[b, c, t]",
    y="norm over (B, C, T)",
    caption="Dark and =: the output stays the same (to 1e-12, float64). A number a is added or "
    "multiplied, its own for each sample b, each token (b, t), each channel of a sample (b, c) "
    "or each channel of the whole batch (c); factors are positive. ε = 0, before gain and "
    "bias; BatchNorm in training. The last two columns look at what was not changed. "
    "The tanh, which is no norm, is the control.",
    alt="A table of seven functions, ten changes. LayerNorm does not see numbers added to or "
    "factors on samples and tokens; RMSNorm no factors on them; GroupNorm neither on whole "
    "samples; InstanceNorm neither on samples and channels; BatchNorm neither on a channel of "
    "the whole batch, and it sees everything else. Only LayerNorm, RMSNorm and tanh are "
    "untouched by other samples and later tokens.",
)

# %% [markdown]
# GroupNorm forgets level and size of a *sample* (with two groups, of each half), InstanceNorm channel by channel. BatchNorm forgets only what *all samples of a channel* share.
# A norm that notices **other samples** ties a batch together, and one that notices **later tokens** must not be in a network that predicts the next token.
#
# So a norm forgets what it subtracts and divides by, and it notices everything that it reduces over.

# %% [markdown]
# ## 12.2 Without the mean: RMSNorm and ScaleNorm
#
# What changes when the mean stays? LayerNorm is RMSNorm of the centered row ([lesson 8](08_geometry.ipynb)). There is a way back as well.
#
# **Predict 12.2:** a library offers only LayerNorm. Which row, made from $x$, has RMSNorm of $x$ as the first half of its LayerNorm?
# - [ ] $x$ followed by $D$ zeros :: Its mean is half of $x$'s mean, so something is still subtracted.
# - [ ] $x$ followed by $x$ :: Its mean is the mean of $x$, so LayerNorm subtracts it as before.
# - [x] $x$ followed by $-x$ :: Its mean is 0, and its variance is the mean square of $x$.

# %%
g = torch.Generator().manual_seed(137)
x = 3 + torch.randn(2, 4, generator=g)  # (B, D)
both = torch.cat([x, -x], dim=-1)  # (B, 2 D)
half = F.layer_norm(both, (8,))[..., :4]  # (B, D)
show("first half of LayerNorm", half)
show("RMSNorm of x           ", F.rms_norm(x, (4,), eps=1e-5))

# %% tags=["hide-input"]
assert (half - F.rms_norm(x, (4,), eps=1e-5)).abs().max() < 1e-5  # float32, numbers of order 1

# %% [markdown]
# Both have an $\epsilon$, and the defaults differ: `nn.LayerNorm` has $10^{-5}$, `nn.RMSNorm` has `eps=None`, the machine epsilon of the type it computes in, and published models set their own. A row of root mean square $s$ is returned with the size $s/\sqrt{s^2+\epsilon}$:

# %% tags=["hide-input"]
row = 1e-3 * torch.tensor([1.0, -1.0, 1.0, 1.0])  # (D,) root mean square 0.001
for eps in (None, 1e-6, 1e-5):
    size = F.rms_norm(row, (4,), eps=eps).square().mean().sqrt()
    show(f"eps = {eps}: root mean square of the output", size, 3)

# %% [markdown]
# On such a small row a wrong default makes a factor of three.
#
# **ScaleNorm** (Nguyen & Salazar, 2019) divides a row by its length and multiplies it by one learned number $g$. Since $\|x\| = \sqrt D \cdot$ root mean square, it is RMSNorm at $\epsilon = 0$ with all gains equal to $g/\sqrt D$.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(124)
x = torch.randn(4, 7, dtype=torch.float64, generator=g)  # (B, D)
gains = torch.full((7,), 1.9 / 7**0.5, dtype=torch.float64)  # (D,)
scaled = 1.9 * x / x.norm(dim=-1, keepdim=True)  # (B, D) ScaleNorm with g = 1.9
assert (scaled - F.rms_norm(x, (7,), gains, eps=0.0)).abs().max() < 1e-12  # float64

# %% [markdown]
# So RMSNorm keeps the direction of a row, its mean included, and forgets only its size. ([Deeper](#How-far-apart-LayerNorm-and-RMSNorm-are): the angle between the two.)

# %% [markdown]
# ## 12.3 Groups of channels: GroupNorm and InstanceNorm
#
# What if neither all channels nor a single one share their statistics? **GroupNorm** (Wu & He, 2018) cuts the C channels into G groups of neighbors. Each group of a sample is normalized over its channels and all places; then each *channel* has its gain and its bias. **InstanceNorm** (Ulyanov et al., 2016) does that for single channels.
# Both are LayerNorm on a different cut of the tensor. So build the first from `layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5)` of [lesson 4](04_affine_and_module.ipynb) (yours, if it passed its check there).


# %% tags=["exercise", "export"] id="ex-12-1"
# Exercise 12.1 · ●●●○○ · 5 min
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    """Group Normalization: channels c and c + 1 are neighbors, C / num_groups make a group.

    x: (B, C, ...) with any number of axes after C; B may be 0. num_groups: divides C.
    weight, bias: (C,), a gain and a bias for each channel; each may be None, by itself.
    eps: added to the biased variance. Returns a tensor of x's shape. Without PyTorch's own.
    """
    ### BEGIN SOLUTION
    rows = x.unflatten(1, (num_groups, -1)).flatten(2)  # (B, G, C / G * H * W)
    y = layer_norm(rows, rows.shape[-1], eps=eps).reshape(x.shape)  # (B, C, ...)
    shape = (-1,) + (1,) * (x.dim() - 2)  # (C, 1, 1) for images
    y = y if weight is None else y * weight.view(shape)
    return y if bias is None else y + bias.view(shape)
    ### END SOLUTION


# %% tags=["check"]
check.group_norm(group_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `x.unflatten(1, (num_groups, -1))` cuts axis 1 into groups, and `.flatten(2)` makes one row of each group. Normalize the last axis and reshape back.
# The gain (C,) has to meet axis 1: as (C, 1) for series, (C, 1, 1) for images.
#
# </details>
#
# A folded class `GroupNorm` adds the parameters; like your function it agrees with PyTorch's.


# %% tags=["export", "hide-input"]
class GroupNorm(nn.Module):
    """Group Normalization of x (B, C, ...), as torch.nn.GroupNorm.

    num_groups: G. num_channels: C, a multiple of G. eps: added to the biased variance.
    weight, bias: Parameters (C,) that start at 1 and 0; both None without affine, bias None
    with bias=False.
    Other channel counts are refused, also without affine (where PyTorch lets them pass).
    """

    def __init__(
        self,
        num_groups,
        num_channels,
        eps=1e-5,
        affine=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})."
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        one, zero = (
            torch.full((num_channels,), float(k), device=device, dtype=dtype) for k in (1, 0)
        )
        self.register_parameter("weight", nn.Parameter(one) if affine else None)
        self.register_parameter("bias", nn.Parameter(zero) if affine and bias else None)

    def forward(self, x):
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise RuntimeError(
                f"x has shape {tuple(x.shape)}, expected (B, {self.num_channels}, ...)."
            )
        if x.numel() == self.num_groups:
            raise ValueError(f"x of shape {tuple(x.shape)} has one number for each group.")
        if not x.is_floating_point():
            raise NotImplementedError(
                f"GroupNorm is not implemented for {x.dtype}. Convert x first, with x.float()."
            )
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        if self.weight is not None and self.weight.dtype not in (x.dtype, wide.dtype):
            raise RuntimeError(
                f"mixed dtype: x is {x.dtype}, weight is {self.weight.dtype}. Convert one of "
                "them."
            )
        return group_norm(wide, self.num_groups, self.weight, self.bias, self.eps).to(x.dtype)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{sizes}, affine={self.affine}, bias={self.bias is not None}"


# %% tags=["hide-input"]
mine, theirs = GroupNorm(3, 6), nn.GroupNorm(3, 6)
g = torch.Generator().manual_seed(135)
theirs.load_state_dict({name: torch.randn(6, generator=g) for name in ("weight", "bias")})
mine.load_state_dict(theirs.state_dict())
x = 2 + 3 * torch.randn(2, 6, 5, 4, generator=g)  # (B, C, H, W)
assert (mine(x) - theirs(x)).abs().max() < 1e-5  # float32, numbers of order 1

# %% [markdown]
# ### Who is whose twin
#
# PyTorch's manual calls `GroupNorm(6, 6)` "equivalent with InstanceNorm" and `GroupNorm(1, 6)` "equivalent with LayerNorm".
#
# **Predict 12.3:** a batch of *one* image, no gains, the same $\epsilon$. Which of these is a different function from InstanceNorm?
# - [ ] BatchNorm in training :: It pools a channel over the batch and all places. With one image only the places are left.
# - [ ] GroupNorm with C groups :: Each group is one channel at all places.
# - [x] GroupNorm with one group :: It pools all channels, so it remembers which channel was the strongest.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(125)
level = torch.arange(6.0).view(6, 1, 1)  # (C, 1, 1) channels that differ in level and size
x = torch.randn(1, 6, 5, 4, generator=g) * (level + 1) + level  # (1, C, H, W)
on_images = {
    "GroupNorm(1, C)": F.group_norm(x, 1),
    "LayerNorm([C, H, W])": F.layer_norm(x, x.shape[1:]),
    "LayerNorm per pixel": F.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1),
    "GroupNorm(3, C)": F.group_norm(x, 3),
    "GroupNorm(C, C)": F.group_norm(x, 6),
    "InstanceNorm": F.instance_norm(x),
    "BatchNorm, B = 1": F.batch_norm(x, None, None, training=True),
}
apart = [[(a - b).abs().max() for b in on_images.values()] for a in on_images.values()]
apart = torch.tensor(apart)  # (7, 7)
twins = apart < 1e-5  # float32 rounding; 0.7 is the least of the others in 24 seeds
assert twins.sum() == 7 + 2 + 6 and (apart[~twins] > 0.1).all()

# on series (B, C, T): GroupNorm(1, C) is not LayerNorm of each token, 0.9 apart in 30 seeds
g = torch.Generator().manual_seed(136)
x = torch.randn(3, 6, 5, dtype=torch.float64, generator=g)  # (B, C, T)
assert (F.group_norm(x, 1) - F.layer_norm(x.mT, (6,)).mT).abs().max() > 0.1
first = x[:, :, 0]  # (B, C) one step: nothing is left to pool but its channels
assert (F.group_norm(first, 1) - F.layer_norm(first, (6,))).abs().max() < 1e-12  # float64

# %% tags=["hide-input"]
plot.heat(
    twins.float(),
    list(on_images),
    ["GN(1, C)", "LN\n[C, H, W]", "LN\nper pixel", "GN(3, C)", "GN(C, C)", "IN", "BN,\nB = 1"],
    texts=[["=" if same else "≠" for same in row] for row in twins],
    limits=(0, 1.6),
    size=(8.6, 4.2),
    title="Seven names, four functions",
    x="the same norms, abbreviated",
    y="norm",
    caption="Dark and =: the outputs agree up to float32 rounding; elsewhere they are at least "
    "0.1 apart. One image of 6 × 5 × 4 numbers, no gain and bias, ε = 1e-5.",
    alt="A symmetric table of seven norms. GroupNorm with one group equals LayerNorm over C, H "
    "and W. GroupNorm with C groups, InstanceNorm and BatchNorm on a batch of one are "
    "equal. LayerNorm per pixel and GroupNorm with three groups equal only themselves.",
)

# %% [markdown]
# So the manual's first sentence is true (at a single place InstanceNorm raises an error), and its second needs a condition: `GroupNorm(1, C)` is LayerNorm **over everything but the batch**, without the gains, of which there are C here and C·H·W there. It is not the LayerNorm of pixels or of tokens: with it the past would see the future.

# %% [markdown]
# ## 12.4 A Transformer without means, exactly
#
# Llama is a Pre-LN Transformer with RMSNorm in place of LayerNorm. Does that exchange lose anything that could be computed? No: **a Pre-LN net can be turned into a Pre-RMSNorm net that computes the same** (Jiang et al., 2023).
#
# In a Pre-LN net nobody sees the mean of the residual stream, because every reader looks through a LayerNorm. So keep that mean at 0: **center whatever is written to the stream.** On rows of mean 0, LayerNorm *is* RMSNorm.
# The writers are the two embeddings and the last linear layer of each branch. Such a layer returns $Wh + b$. Which change of $W$ and $b$ takes the mean out of it, for every $h$?


# %% tags=["exercise"] id="ex-12-2"
# Exercise 12.2 · ●●○○○ · 3 min
def centered(weight, bias):
    """The weight and bias of a linear layer whose output is the old one's minus its mean.

    The mean is over the D outputs. weight: (D, H), as nn.Linear(H, D) keeps it. bias: (D,).
    Returns the pair (new weight, new bias), same shapes; the arguments stay as they are.
    """
    ### BEGIN SOLUTION
    return weight - weight.mean(0), bias - bias.mean()
    ### END SOLUTION


# %% tags=["check"]
check.centered(centered)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Output $d$ is $\sum_h W_{dh} h_h + b_d$. PyTorch keeps $W$ as (outputs, inputs), so a column is `weight[:, h]`, and `weight.mean(0)` holds the mean of each.
#
# </details>
#
# One thing is left: LayerNorm has a bias $\beta$, and RMSNorm has none. It moves into the linear layer after the norm: $W(\gamma\odot\hat x + \beta) + b = W(\gamma\odot\hat x) + (W\beta + b)$.
# A folded function `to_rms` does both for [lesson 11](11_transformer.ipynb)'s `CharGPT`, with your `centered` and the `RMSNorm` of lesson 8 (yours, if it passed). All parameters of the test net are random, biases too, because zeros would hide mistakes.


# %% tags=["hide-input"]
def without_bias(old, reader):
    """Fold the bias of a LayerNorm into the linear layer after it; return its RMSNorm."""
    with torch.no_grad():
        reader.bias += reader.weight @ old.bias
    rms = RMSNorm(old.normalized_shape, eps=old.eps)
    rms.weight = old.weight
    return rms


def to_rms(net, skip=()):
    """A copy of a Pre-LN CharGPT with RMSNorm everywhere; skip: names of steps to leave out."""
    net = copy.deepcopy(net)
    with torch.no_grad():
        for name in {"embed", "position"} - set(skip):
            table = getattr(net, name).weight  # (symbols, C), (context, C)
            table -= table.mean(-1, keepdim=True)
        for block in net.blocks:
            for name, writer in {"attention": block.attend.out, "mlp": block.mlp[2]}.items():
                if name not in skip:
                    new_weight, new_bias = centered(writer.weight, writer.bias)
                    writer.weight.copy_(new_weight), writer.bias.copy_(new_bias)
    for block in net.blocks:
        block.before1 = without_bias(block.before1, block.attend.qkv)
        block.before2 = without_bias(block.before2, block.mlp[0])
    if "final norm" not in skip:
        net.final = without_bias(net.final, net.head)
    return net


# %% tags=["hide-input"]
g = torch.Generator().manual_seed(133)
net = CharGPT(layers=3, norm=nn.LayerNorm).double()
for parameter in net.parameters():
    nn.init.normal_(parameter, std=0.5, generator=g)
tokens = torch.randint(27, (8, 16), generator=g)  # (B, T)
logits = net(tokens)  # (B, T, symbols)

# %%
converted = to_rms(net)
left = [name for name, m in converted.named_modules() if isinstance(m, nn.LayerNorm)]
gap = (converted(tokens) - logits).abs().max() / logits.abs().max()
print("LayerNorms left:", len(left), "  the same logits to 12 digits:", (gap < 1e-12).item())

# %% tags=["hide-input"]
assert gap < 1e-12  # float64; 2e-15 is the worst of 20 seeds

# %% [markdown]
# The function is the same under these conditions:
#
# - every reader is a linear layer with a bias, after a norm (so there is a final norm), and $\epsilon$ stays;
# - the output layer does not share its weights with the embedding (else make two copies first);
# - no dropout follows a writer, because it would undo the centering.
#
# In a Post-LN net the stream itself comes out of a norm with gain and bias, so it has a mean. And a net that is trained *after* the conversion leaves its twin ([Deeper](#Step-by-step,-and-trained-on)).
#
# So a Pre-LN Transformer gives up no function when it goes over to RMSNorm. Whether it trains as well, [section 12.6](#12.6-No-statistics-at-all:-DyT) measures.

# %% [markdown]
# ## 12.5 Norms inside attention: QK-norm
#
# What bounds an attention logit, $q\cdot k/\sqrt d$? Nothing does: if queries and keys grow threefold, logits grow ninefold. The softmax then puts all weight on one key, and its gradient vanishes ([lesson 5](05_softmax.ipynb)). A Vision Transformer of 8 billion parameters diverged that way (Dehghani et al., 2023). So normalize each query and each key.


# %%
def qk_logits(q, k, gain_q=1.0, gain_k=1.0, eps=1e-6):
    """Attention logits of normalized queries and keys: q, k (..., T, d) -> (..., T, T)."""
    q = F.layer_norm(q, q.shape[-1:], eps=eps) * gain_q  # each query by itself
    k = F.layer_norm(k, k.shape[-1:], eps=eps) * gain_k  # each key by itself
    return q @ k.mT / q.shape[-1] ** 0.5


# %% [markdown]
# **Predict 12.4:** $d = 64$, gain 1, no bias. How large can a logit become, whatever the inputs?
# - [ ] 1 :: That bounds the cosine of the angle. A normalized row has length $\sqrt d$, not 1.
# - [x] 8 :: Two rows of length at most $\sqrt d$ have a product of at most $d$, and $d/\sqrt d = \sqrt d$.
# - [ ] 64 :: That is $d$, before the division by $\sqrt d$.
# - [ ] there is no bound :: Without the norm there is none.

# %%
g = torch.Generator().manual_seed(126)
q, k = torch.randn(2, 512, 64, dtype=torch.float64, generator=g)  # (T, d) each
for size in (1, 30):
    plain = (size * q) @ (size * k).mT / 8  # (T, T)
    show(f"size {size:2}: largest plain logit ", plain.abs().max(), 0)
    show(f"size {size:2}: largest with QK-norm", qk_logits(size * q, size * k).abs().max(), 0)
show("a query and an equal key", qk_logits(q, q)[0, 0])

# %% tags=["hide-input"]
gain_q, gain_k = torch.randn(2, 64, dtype=torch.float64, generator=g)  # (d,) each
assert qk_logits(30 * q, 30 * k).abs().max() < 8  # sqrt(64); 4.1 to 4.8 in 16 seeds
assert qk_logits(q, k, gain_q, gain_k).abs().max() < 8 * (gain_q * gain_k).abs().max()
# reached where the key is the query
assert (qk_logits(q, q, eps=0.0).diagonal() - 8).abs().max() < 1e-12
# without the norm; 4,100 to 4,900 in 16 seeds
assert (30 * q @ (30 * k).mT / 8).abs().max() > 3000

# %% [markdown]
# With gains the bound is $\sqrt d\,\max_i|\gamma^q_i\gamma^k_i|$, and with biases there is none of this form. The price: a longer query can no longer attend more sharply than a shorter one.
#
# So QK-norm bounds the logits by $\sqrt d$ at gain 1 without a bias, and large inputs no longer make the attention collapse onto one key, where its entropy is 0 ([Deeper](#What-the-softmax-makes-of-large-queries)).

# %% [markdown]
# ## 12.6 No statistics at all: DyT
#
# Can a function without any statistics take the place of a norm? Zhu et al. (2025) propose Dynamic Tanh,
#
# $$\operatorname{DyT}(x) = \gamma\odot\tanh(\alpha x) + \beta ,$$
#
# with one learned number $\alpha$. It starts at 0.5, except in the paper's language models, where it was chosen by width and place, from 0.8 down to 0.05. The authors had plotted inputs of trained LayerNorms against outputs and seen the S of a tanh.
#
# Within *one* row LayerNorm is a straight line, $(x-\mu)/\sigma$. The S appears from row to row, and three lines give it. Move one entry, $t = x_i - m$, where $m$ and $v$ are mean and variance of the other $D-1$, which stay. At $\epsilon = 0$:
#
# $$\mu = m + \frac tD \quad\Rightarrow\quad x_i - \mu = \frac{D-1}{D}\,t$$
# $$\sigma^2 = \frac1D\Big[(D-1)\Big(v + \frac{t^2}{D^2}\Big) + \frac{(D-1)^2}{D^2}\,t^2\Big] = \frac{D-1}{D^2}\,\big(t^2 + D v\big)$$
# $$y_i = \frac{x_i-\mu}{\sigma} = \sqrt{D-1}\;\frac{t}{\sqrt{t^2 + D\,v}}$$
#
# (Stollenwerk, 2026, gives this curve for RMSNorm.)
#
# **Predict 12.5:** what is $y_i$ for a huge $x_i$?
# - [ ] huge as well :: The standard deviation grows with $x_i$.
# - [x] $\sqrt{D-1}$ :: $t/\sqrt{t^2 + Dv}$ goes to 1: the entry *saturates*, as a tanh does.
# - [ ] 1 :: That is the limit of the fraction alone.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(127)
others = 0.5 + 2 * torch.randn(63, dtype=torch.float64, generator=g)  # (D - 1,)
D, m, v = 64, others.mean(), others.var(correction=0)
x_i = torch.linspace(-80, 80, 161, dtype=torch.float64)  # (161,)
rows = torch.cat([x_i[:, None], others.expand(161, 63)], dim=-1)  # (161, D)
y_i = F.layer_norm(rows, (D,), eps=0.0)[:, 0]  # (161,)
t = x_i - m
exact = (D - 1) ** 0.5 * t / (t**2 + D * v).sqrt()  # (161,)
print("the three lines agree with F.layer_norm:", ((y_i - exact).abs().max() < 1e-12).item())

# %% tags=["hide-input"]
# (161,) the same slope at t = 0 and the same limits
tanh = (D - 1) ** 0.5 * torch.tanh(t / (D * v).sqrt())
assert (y_i - exact).abs().max() < 1e-12  # float64
# 0.0737 at best, whatever D and v
assert 0.072 < (exact - tanh).abs().max() / (D - 1) ** 0.5 < 0.0738

# %% tags=["hide-input"]
plot.lines(
    x_i,
    {
        "tanh": tanh,
        "the formula": exact,
        "LayerNorm": torch.where(torch.arange(161) % 8 == 0, y_i, torch.nan),
    },
    dots=["LayerNorm"],
    colors={"tanh": "DyT", "the formula": "#8A8F94", "LayerNorm": "LayerNorm"},
    href={"√(D − 1)": 63**0.5},
    title="One entry of LayerNorm, moved alone, follows an S that is nearly a tanh",
    x="the entry that is moved",
    y="its output",
    caption="A row of 64 numbers; 63 of them stay. Dots: F.layer_norm at ε = 0. The formula "
    "goes through all of them; a tanh of the same slope and limits is off by up to 7.4 % of "
    "the limit √(D − 1).",
    alt="An S-shaped curve from minus 7.8 to plus 7.8. The dots of LayerNorm lie on the curve "
    "of the formula. The tanh has the same slope in the middle, lies a little outside of it, "
    "and reaches the limits sooner.",
)

# %% [markdown]
# But LayerNorm's S has a width of its own for every row, $\sqrt{D v}$, the tanh one width for all. And DyT's gradient is neither centered nor made orthogonal to the row, as LayerNorm's is at $\epsilon = 0$ ([lesson 7](07_backward.ipynb)).

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(128)
x, dy = torch.randn(2, 6, dtype=torch.float64, generator=g)  # (D,) each
J = torch.func.jacrev(lambda x: torch.tanh(0.5 * x))(x)  # (D, D)
J_norm = torch.func.jacrev(lambda x: F.layer_norm(x, (6,)))(x)  # (D, D)
assert (J - J.diag().diag()).abs().max() == 0 and (dy @ J).sum().abs() > 1e-3
assert (dy @ J_norm).sum().abs() < 1e-12  # LayerNorm's gradient sums to 0, DyT's does not

# %% [markdown]
# ### Does it train?
#
# LayerNorm, RMSNorm and DyT, with two initial values of $\alpha$, in lesson 11's GPT: 6 blocks, width 32, Pre-LN, 200 steps of Adam at a rate of 0.003, which was tuned for none.
#
# **Predict 12.6:** how does the loss on unseen words compare with LayerNorm's, in pairs of runs that differ only in the norm?
# - [x] RMSNorm is nearly level, and DyT is a little behind with both values of $\alpha$ :: Behind in each of the 16 pairs, by 0.034 and 0.035 nats on average.
# - [ ] all four are level :: RMSNorm is, nearly. DyT is behind in every pair.
# - [ ] DyT is level with $\alpha = 0.5$, its default, and behind with 0.25 :: Both are behind, and they differ by 0.001 on average.


# %% tags=["record", "hide-input"]
class DyT(nn.Module):
    """Dynamic tanh with a learned width: x (..., width) -> the same shape."""

    def __init__(self, width, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


# %% tags=["record", "hide-input"]
norms = {
    "LayerNorm": nn.LayerNorm,
    "RMSNorm": nn.RMSNorm,
    "DyT, 0.5": DyT,
    "DyT, 0.25": functools.partial(DyT, alpha=0.25),
}


def gpt_run(seed, layers, steps, lr, every):
    """Train one GPT with norm number seed % 4; its weights and batches are those of seed // 4.

    2,000 words are held out: some for even seed // 4, others for odd ones. Returns the mean
    training loss of every `every` steps, and the loss on the words held out.
    """
    number, which = divmod(seed, len(norms))
    words = data.words()
    order = torch.Generator().manual_seed(7 + number % 2)
    order = torch.randperm(len(words), generator=order).tolist()
    torch.manual_seed(number)
    model = CharGPT(layers=layers, norm=list(norms.values())[which])
    optimizer = torch.optim.Adam(model.parameters(), lr, betas=(0.9, 0.98), fused=True)

    def loss_on(chosen):
        x, y = encode([words[order[i]] for i in chosen])  # (B, T) each
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)

    g, losses = torch.Generator().manual_seed(1_000_000 + number), []
    for _ in range(steps):
        value = loss_on(torch.randint(len(words) - 2000, (32,), generator=g).tolist())
        optimizer.zero_grad(), value.backward(), optimizer.step()
        losses.append(value.item())
    with torch.no_grad():
        unseen = loss_on(range(len(words) - 2000, len(words)))
    return {"loss": torch.tensor(losses).view(-1, every).mean(1), "unseen": unseen}


# %% tags=["record", "hide-input"]
history = runs.load_or_run(
    "gpt_norms",
    gpt_run,
    seeds=range(64),
    tolerance=0.08,
    rerun=False,
    layers=6,
    steps=200,
    lr=3e-3,
    every=20,
)


# %% tags=["hide-input"]
unseen = {name: history["unseen"][i :: len(norms)] for i, name in enumerate(norms)}  # (16,)
gaps = {name: unseen[name] - unseen["LayerNorm"] for name in list(norms)[1:]}  # (16,) each
assert len(history["unseen"]) == 64 and 2.2 < unseen["LayerNorm"].mean() < 2.4
# 16 pairs: RMSNorm -0.011 to 0.006; DyT 0.011 to 0.048 and 0.021 to 0.051
assert gaps["RMSNorm"].abs().max() < 0.02 and gaps["RMSNorm"].mean().abs() < 0.01
assert all(gaps[name].min() > 0 for name in ("DyT, 0.5", "DyT, 0.25"))
assert (unseen["DyT, 0.5"] - unseen["DyT, 0.25"]).mean().abs() < 0.01
splits = [(gaps["RMSNorm"][half::2] < 0).sum().item() for half in (0, 1)]  # lower in [8, 5]

# %% tags=["nbval-ignore-output", "hide-input"]
print("loss on unseen words (nats), minus LayerNorm's with the same weights and batches")
for name, gap in gaps.items():
    ahead = f"lower in {(gap < 0).sum()} of {len(gap)}"
    print(f"{name:9} {gap.mean():+.3f} ± {gap.std():.3f}  {ahead}")

# %% tags=["hide-input"]
plot.bars(
    gaps,
    x="loss on unseen words, minus LayerNorm's in the same pair (nats)",
    fmt="+.3f",
    colors={"RMSNorm": "RMSNorm", "DyT, 0.5": "DyT", "DyT, 0.25": "DyT"},
    title="In all 16 pairs DyT ends behind LayerNorm, and RMSNorm is level within about 0.01",
    caption=f"16 pairs, {runs.note('gpt_norms', '8 on each of two splits')}. LayerNorm's loss "
    f"is {unseen['LayerNorm'].mean():.2f}.",
    alt="Three rows of horizontal bars around zero, with a dot for each of 16 runs. RMSNorm: "
    "dots between -0.011 and 0.006, mean -0.002. DyT with 0.5 and with 0.25: all dots to the "
    "right of zero, between 0.01 and 0.05, means near 0.035.",
)

# %% [markdown]
# RMSNorm was lower in 13 of 16 pairs, by 0.002 nats on average. That is a fifth of the standard deviation of LayerNorm's own runs (0.010), and only one split shows it: eight of eight pairs there, five of eight on the other. If there is a lead, it is a small one.
# DyT was **behind** in all 16 pairs with either $\alpha$, and the two differ by 0.001 on average.
# That is one small network of six blocks and one rate. DyT's authors report results as good as with a norm, up to full-size language models ([Deeper](#DyT-with-little-data-and-with-more): a case of each kind).
#
# So a function without statistics can train such a net, here for 0.03 to 0.04 nats. RMSNorm cost nothing that 16 pairs could show.

# %% [markdown]
# ## 12.7 Five newer ideas, two sentences each
#
# What else will you meet in a model's code?
#
# - **QK-norm over the full width.** Qwen3 normalizes the $d$ numbers of each head, OLMo 2 all $H\,d$ numbers of a token before they are cut into heads. Then one head may hold all of the length, so its logits are bounded by $H\sqrt d$ instead of $\sqrt d$ (gain 1).
# - **Soft-capping**, $c \tanh(z/c)$, bounds logits $z$ by $c$ without statistics and leaves small ones nearly alone. Gemma 2 has $c = 50$ in attention and 30 at the output; Gemma 3 has QK-norm instead of the first.
# - **QK-clip** changes weights: if after a step a head's largest logit $S$ exceeds $\tau$, its $W_q$ and $W_k$ are multiplied by $\sqrt{\tau/S}$ each, since a logit holds one factor of each. Kimi K2 was trained with a variant of it and $\tau = 100$.
# - **Zero-centered gains:** the learned number is $w = \gamma - 1$, so weight decay pulls the gain to 1 and not to 0: `y = x_hat * (1 + w)`. Gemma's checkpoints hold $w$; a plain RMSNorm that loads them multiplies by $w$.
# - **nGPT** (Loshchilov et al., 2024) has no norm layers: embeddings, states and the vectors of its matrices have length 1. A branch $f$ moves a state a learned part $\alpha$ of the way, and back onto the sphere: $h \leftarrow \operatorname{unit}\big(h + \alpha\odot(\operatorname{unit}(f(h)) - h)\big)$.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(138)
x = torch.randn(6, 32, generator=g)  # (T, C)
W_q, W_k = 8 * torch.randn(2, 32, 8, generator=g) / 32**0.5  # (C, d) each
S = ((x @ W_q) @ (x @ W_k).mT / 8**0.5).abs().max()
clip = (10 / S).sqrt()  # tau = 10
after = ((x @ (clip * W_q)) @ (x @ (clip * W_k)).mT / 8**0.5).abs().max()
show("QK-clip with tau = 10: largest logit after it", after, 1)
one_head = torch.zeros(4, 8)  # (H, d) a token whose other heads are silent
one_head[0] = torch.tensor([1.0, -1.0] * 4)
wide = F.rms_norm(one_head.flatten(), (32,)).view(4, 8)[0]  # (d,) the whole length, sqrt(H d)
show("QK-norm over 4 heads of 8: a logit can reach", wide @ wide / 8**0.5, 2)
show("QK-norm on each head: a logit can reach", 8**0.5, 2)

# %% tags=["hide-input"]
assert S > 30 and (after - 10).abs() < 1e-3  # float32
h, f, alpha = torch.randn(3, 5, 16, generator=g)  # (B, D) each
unit = lambda v: v / v.norm(dim=-1, keepdim=True)
moved = unit(unit(h) + alpha.abs() * (unit(f) - unit(h)))  # nGPT's step
assert (moved.norm(dim=-1) - 1).abs().max() < 1e-6
z = torch.linspace(-500, 500, 101)
assert (50 * torch.tanh(z / 50)).abs().max() <= 50
assert (50 * torch.tanh(z / 50) - z)[50:51].abs().max() < 1e-3

# %% [markdown]
# So the first three bound logits: through the features, a curve or the weights. The fourth changes how a gain is stored, and nGPT puts the norm on everything.

# %% [markdown]
# ## 12.8 Reading a published model
#
# Can you read the norms off a real program? These are the lines of [nanochat](https://github.com/karpathy/nanochat) that concern them (Andrej Karpathy, MIT license; `nanochat/gpt.py` as of October 2025, later versions differ), retyped and shortened. `rotate` turns queries and keys by an angle that depends on the position. `causal_attention` divides by $\sqrt{d}$.
#
# ```python
# def norm(x):
#     return F.rms_norm(x, (x.size(-1),))
#
# def attend(self, x):                              # x: (B, T, 768)
#     q = self.to_q(x).view(B, T, 6, 128)           # 6 heads of 128 numbers
#     k = self.to_k(x).view(B, T, 6, 128)
#     v = self.to_v(x).view(B, T, 6, 128)
#     q, k = norm(rotate(q)), norm(rotate(k))
#     return self.out(causal_attention(q, k, v))    # (B, T, 768)
#
# def forward(self, tokens):
#     x = norm(self.embed(tokens))                  # (B, T, 768)
#     for block in self.blocks:                     # 12 blocks
#         x = x + block.attend(norm(x))
#         x = x + block.mlp(norm(x))
#     logits = self.head(norm(x))
#     return 15 * torch.tanh(logits / 15)
# ```

# %% tags=["exercise"] id="ex-12-3"
# Exercise 12.3 · ●●●○○ · 6 min
# Read the excerpt and fill in a dictionary with eight keys.
# "kind"       "LayerNorm", "RMSNorm", "ScaleNorm" or "BatchNorm"
# "place"      of the norms in a block: "Pre-LN", "Post-LN", "Peri-LN" or "DeepNorm"
# "calls"      how often is norm called in one forward pass?
# "learned"    how many numbers do all these norms learn together?
# "sees shift" does norm(x) change if 1 is added to all 768 numbers of a token? True or False
# "stream"     how many numbers share one root mean square in the norms of the stream?
# "query"      and in the norms of the queries?
# "attention"  the largest size that an attention logit can have; two decimals
### BEGIN SOLUTION
nanochat = {
    "kind": "RMSNorm",
    "place": "Pre-LN",
    "calls": 1 + 12 * (2 + 2) + 1,
    "learned": 0,
    "sees shift": True,
    "stream": 768,
    "query": 128,
    "attention": 128**0.5,
}
### END SOLUTION

# %% tags=["check"]
check.nanochat(nanochat)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `F.rms_norm(x, sizes)` takes its statistics over the last axes that have these sizes; no gain is handed over.
# A block calls norm on the stream twice, and in its attention on queries and on keys. For the bound see [section 12.5](#12.5-Norms-inside-attention:-QK-norm).
#
# </details>
#
# **Predict 12.7:** the first block normalizes its input again. Does the norm after the embedding change anything at all?
# - [ ] no, RMSNorm of RMSNorm is RMSNorm :: That holds for what the first branch reads (nearly, because of $\epsilon$), but the branch is not the only way.
# - [ ] yes, because its gain differs from that of the block :: There are no gains.
# - [x] yes, because the stream itself starts with it :: Each token enters the sum with size 1, so rare and frequent tokens weigh alike against what the branches add.

# %% tags=["hide-input"]
rms, calls = lambda x: F.rms_norm(x, (x.shape[-1],)), []


def counted(x):
    calls.append(x.shape[-1])
    return rms(x)


def tiny(table, weights, norm_first=True):
    """The excerpt with width 768, 6 heads, 12 blocks and 5 tokens, its rotation left out.

    weights: (4, in, out), shared by all blocks.
    Returns what enters the head, (5, 768), and the largest logit.
    """
    x, largest = counted(table) if norm_first else table, 0.0
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)  # (T, T)
    for _ in range(12):
        W_q, W_k, W_v, W_o = weights
        z = counted(x)
        q, k, v = ((z @ W).view(5, 6, 128).transpose(0, 1) for W in (W_q, W_k, W_v))
        scores = counted(q) @ counted(k).mT / 128**0.5  # (6, T, T)
        largest = max(largest, scores.abs().max().item())
        mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v  # (6, T, 128)
        x = x + mixed.transpose(0, 1).reshape(5, 768) @ W_o
        x = x + counted(x).relu().square()
    return counted(x), largest


g = torch.Generator().manual_seed(139)
table = torch.randn(5, 768, generator=g) * torch.tensor([1.0, 2, 4, 8, 16])[:, None]  # (T, D)
weights = torch.randn(4, 768, 768, generator=g) / 768**0.5
weights[1] = weights[0]  # keys that are queries: the largest logits
with torch.no_grad():
    end, largest = tiny(table, weights)
    assert len(calls) == 50 and calls.count(768) == 26 and calls.count(128) == 24
    assert largest < 128**0.5 + 1e-4 and largest > 11.3  # float32
    assert (tiny(table, weights, norm_first=False)[0] - end).abs().max() > 0.05
print("norm called", 50, "times: on the stream", 26, "and on queries and keys", 24)
show("largest attention logit if keys are queries", largest)

# %% [markdown]
# What do these norms lack? They have **no gain, no bias, no mean and no $\epsilon$ of their own** (so it is the machine epsilon). A gain before a linear layer could be multiplied into its weights ([lesson 4](04_affine_and_module.ipynb)), so in the blocks and before the head nothing is lost that could be computed. For queries and keys it is a limit: no attention logit exceeds $\sqrt{128} = 11.3$. (The last line caps the output at 15.)
#
# So read a model's norms in four steps: which function, over which axis, at which place, and what is left out.

# %% [markdown]
# ## 12.9 Which norm when
#
# Which should you take? Each line has what speaks for it, and where it fails.
#
# | you have | take | evidence | exception |
# |---|---|---|---|
# | a trained checkpoint | its own norm and $\epsilon$ | a default $\epsilon$ can change sizes threefold (12.2) | exact conversions (12.4) |
# | a new Transformer | Pre-LN with LayerNorm or RMSNorm, and a final norm | trains without warm-up where Post-LN hardly does ([lesson 11](11_transformer.ipynb)); both norms compute the same (12.4) and trained alike here (12.6) | fewer layers or small first weights |
# | a recurrent net | LayerNorm in the recurrence | faster at small rates ([lesson 10](10_rnn.ipynb)) | at the best rate no clear lead |
# | convolutions, large batches | BatchNorm | a little ahead on the digits ([lesson 9](09_cnn.ipynb)); directly after a linear layer it can be folded away ([lesson 6](06_batchnorm.ipynb)) | low contrast |
# | convolutions, small batches | GroupNorm | ResNet-50, 2 images a device: 10.6 points less error than BatchNorm (Wu & He, 2018) | many pixels: BatchNorm pools them, too |
# | contrast that is to be ignored | InstanceNorm | it forgets each channel's (12.1) | contrast with a meaning |
# | attention logits that grow | QK-norm | bounded by $\sqrt d$ (12.5) | gains that grow |
# | a ban on reductions | DyT | it trains (12.6) | behind LayerNorm in our runs |
#
# Speed depends on the kernel more than on the formula: [lesson 13](13_speed.ipynb).
#
# So take what exists already, or the norm whose row in the table of [section 12.1](#12.1-Two-questions) forgets the right things.

# %% [markdown]
# ## 12.10 Clinic: a norm for the whole tensor
#
# What is wrong with `patient_logits` from the beginning? Ask the two questions: `q` has the shape (B, H, T, d) = (2, 3, 5, 8), and the layer is `nn.LayerNorm(q.size())`.
#
# **Predict 12.8:** how many numbers share one mean?
# - [ ] 8 :: That would be `nn.LayerNorm(q.shape[-1])`, each query by itself.
# - [ ] 120 :: That is one sample, 3 · 5 · 8.
# - [x] 240 :: All of them. `normalized_shape` names every axis, the batch included.
#
# **Predict 12.9:** what does training make of the gains of these two layers?
# - [x] nothing :: The layers are made anew at every call, belong to no module, and no optimizer knows them.
# - [ ] one gain for each of the 8 features :: Each layer has 240 of them, one for each number of `q`.
# - [ ] they grow until the bound no longer holds :: They would have to be trained.
#
# Heal it, as a module. The bound $\sqrt d$, which the loudest head now breaks, has to hold; any norm that makes it hold is right.


# %% tags=["exercise"] id="ex-12-4"
# Exercise 12.4 · ●●○○○ · 4 min
class QKLogits(nn.Module):
    """Attention logits of queries and keys that are normalized first, with a learned gain.

    head_size: d. forward: q, k (B, H, T, d) -> (B, H, T, T), a row for each query, in q's
    dtype, for any B, H and T. Each query and each key is normalized by itself. A new module
    gives a query and an equal key a logit of sqrt(d), and none beyond that in size. The gains
    are trained with the model.
    """

    def __init__(self, head_size):
        super().__init__()
        # Your part, first half: make the norms, once.
        ### BEGIN SOLUTION
        self.norm_q = nn.LayerNorm(head_size, bias=False)
        self.norm_k = nn.LayerNorm(head_size, bias=False)
        ### END SOLUTION

    def forward(self, q, k):
        # Your part, second half: normalize q and k and return the logits.
        ### BEGIN SOLUTION
        return self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5
        ### END SOLUTION


# %% tags=["check"]
check.qk_logits_module(QKLogits)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `nn.LayerNorm(head_size)` or `nn.RMSNorm(head_size)`, one for queries and one for keys, made in `__init__`. In `forward` they act on the last axis, which is `d`.
#
# </details>

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(132)
q, k = torch.randn(2, 2, 3, 5, 8, generator=g) * loud  # (B, H, T, d) each, as at the start
healed = QKLogits(8)
for name, change in {"sample 1": (1,), "step 4 ": (0, slice(None), 4)}.items():
    other = q.clone()
    other[change] = 100.0
    moved = (healed(other, k) - healed(q, k))[0, :, :4, :4].abs().max()
    print(f"{name} changes, and sample 0, steps 0 to 3 notice:", (moved > 1e-5).item())
print("parameters:", [tuple(p.shape) for p in healed.parameters()])

# %% tags=["hide-input"]
assert patient_logits(q, k).abs().amax((0, 2, 3))[2] > 8**0.5  # head 2, above the bound
assert healed(q, k).abs().max() < 8**0.5 + 1e-5  # float32

# %% [markdown]
# So a norm's `normalized_shape` must name only the axes that may share their statistics, and a layer with parameters is made once.

# %% [markdown]
# ## Take-away
#
# - **Two questions read any norm:** over which axes, and with the mean or without. At $\epsilon = 0$, before gain and bias, it forgets what it subtracts and divides by, and it notices everything it reduces over.
# - **Twins:** GroupNorm(1, C) = LayerNorm([C, H, W]) without the affine part, and *not* the LayerNorm of tokens or pixels; GroupNorm(C, C) = InstanceNorm = BatchNorm in training on one image; LayerNorm = RMSNorm on rows of mean 0.
# - **GroupNorm** is LayerNorm on a different cut, with a gain for each channel.
# - **Pre-LN becomes Pre-RMSNorm exactly:** center what is written to the stream, fold the biases, keep $\epsilon$.
# - **Reading a model:** which function, axis, place, and what is left out. QK-norm bounds logits by $\sqrt d$ (gain 1, no bias), soft-capping by $c$. Choosing: the table of 12.9.
#
# **Formula card:**
#
# $$\text{any norm:}\quad \hat x = \frac{x-\mu}{\sqrt{\sigma^2+\epsilon}} \;\text{ or }\; \frac{x}{\sqrt{\operatorname{mean}(x^2)+\epsilon}}\,, \qquad y = \gamma\odot\hat x + \beta\,, \qquad \operatorname{DyT}(x) = \gamma\odot\tanh(\alpha x)+\beta$$

# %% [markdown]
# ## Deeper (optional, 14 min)
#
# ### How far apart LayerNorm and RMSNorm are
#
# At $\epsilon = 0$ both put a row on the sphere of radius $\sqrt D$. The cosine of the angle between the results is $\sigma/\sqrt{\sigma^2+\mu^2}$, because the centered row, of length $\sqrt D\,\sigma$, and the part of the row along the ones, of length $\sqrt D\,|\mu|$, are the legs of a right triangle.

# %%
g = torch.Generator().manual_seed(123)
z = norm(torch.randn(4, 512, dtype=torch.float64, generator=g), -1)  # (B, D) mean 0, sigma 1
for mean in (0.1, 1.0, 10.0):
    cosine = F.cosine_similarity(norm(z + mean, -1), norm(z + mean, -1, center=False))  # (B,)
    show(f"mean of {mean:4} standard deviations: cosine", cosine[0], 3)

# %% tags=["hide-input"]
for mean in (0.0, 0.1, 1.0, 10.0):
    cosine = F.cosine_similarity(norm(z + mean, -1), norm(z + mean, -1, center=False))  # (B,)
    assert (cosine - (1 + mean**2) ** -0.5).abs().max() < 1e-12  # sigma = 1, float64

# %% [markdown]
# Where the mean is small relative to the standard deviation, the two nearly agree, and RMSNorm loses little by leaving the mean in. Whether that holds in your network, you can measure.
#
# ### Step by step, and trained on
#
# Is each step of the conversion in [section 12.4](#12.4-A-Transformer-without-means,-exactly) needed? Leave the centering of the writers out, one at a time.

# %%
for step in ("embed", "position", "attention", "mlp"):
    change = (to_rms(net, [step])(tokens) - logits).abs().max()  # 0.26 is the least of 20 seeds
    print(f"without the centering of {step}: other logits, {(change > 0.05).item()}")

# %% tags=["hide-input"]
for step in ("embed", "position", "attention", "mlp"):
    assert (to_rms(net, [step])(tokens) - logits).abs().max() > 0.05
# LayerNorm may stay as the final norm, once the stream has mean 0
assert (to_rms(net, ["final norm"])(tokens) - logits).abs().max() < 1e-12 * logits.abs().max()

# %% [markdown]
# Each writer counts. And if the converted net is trained on, do the two stay the same function? Look at the gradient of a layer that writes to the stream.


# %%
def column_sums(model):
    """Largest sum of a column in the gradient of a layer that writes to the stream."""
    targets = torch.randint(27, (8 * 16,), generator=torch.Generator().manual_seed(134))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets)
    (dW,) = torch.autograd.grad(loss, model.blocks[0].mlp[2].weight)  # (C, 4 C)
    return dW.sum(0).abs().max().item()  # over the C outputs


for name, model in {"Pre-LN": net, "Pre-RMSNorm": converted}.items():
    print(f"{name}: the columns of the gradient sum to 0: {column_sums(model) < 1e-10}")

# %% tags=["hide-input"]
# float64: 2e-16 and 0.02 in 20 seeds
assert column_sums(net) < 1e-10 < 1e-6 < column_sums(converted)

# %% [markdown]
# They do not. In the Pre-LN net a loss cannot see the mean of the stream, so no step of plain SGD writes one. The converted net sees it, and its first step writes one. For training the centering must be part of the network: center the weights in each forward pass, as Jiang et al. do.
#
# ### What the softmax makes of large queries
#
# The **entropy** of the attention weights says over how many keys the attention is distributed: $\ln 512 = 6.24$ if all 512 count alike, 0 for a single one.

# %% tags=["hide-input"]
scales = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]


def entropies(logits_of, seed):
    """Mean entropy (nats) of the attention of 512 random queries, one for each scale."""
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 512, 64, generator=g)  # (T, d) each
    weights = [logits_of(s * q, s * k).softmax(-1) for s in scales]  # (T, T) each
    return [torch.special.entr(w).sum(-1).mean().item() for w in weights]


plain = [entropies(lambda q, k: q @ k.mT / 8, seed) for seed in range(4)]
normed = [entropies(qk_logits, seed) for seed in range(4)]
# 0.01 and 5.7 in 8 seeds
assert max(row[-1] for row in plain) < 0.1 and min(min(row) for row in normed) > 5.5

# %% tags=["hide-input"]
plot.lines(
    scales,
    {"QK-norm": normed, "plain": plain},
    xlog=True,
    colors={"QK-norm": "LayerNorm", "plain": "none"},
    href={"all 512 keys alike": 6.238, "one key": 0.0},
    ylim=(-0.4, 6.8),
    title="Large random queries and keys: plain attention picks one key",
    x="size of queries and keys",
    y="entropy of the attention (nats)",
    caption="512 random queries and keys of 64 numbers. QK-norm without gains.",
    alt="Two curves over the size of queries and keys. With QK-norm the entropy stays at 5.7. "
    "Plain attention is at 6.2 for small ones, 5.7 at size 1, 0.7 at size 3 and near 0 "
    "from size 10 on.",
)

# %% [markdown]
# At size 1 the two agree; from size 10 on the plain attention has picked one key, by chance.
#
# ### Bounded too tightly
#
# An older form of QK-norm (Henry et al., 2020) normalizes to length 1 without the factor $\sqrt d$, so by itself it would leave logits in $\pm 1$. How much weight could one of 512 keys then get at most?

# %%
logit = torch.tensor([1.0] + 511 * [-1.0])  # (T,) one key at the upper bound, all others below
show("largest weight, length 1", logit.softmax(0)[0], 3)
show("largest weight, length sqrt(64)", (8 * logit).softmax(0)[0], 3)

# %% [markdown]
# One in seventy, so this form multiplies the logits by a learned number.
#
# ### DyT with little data and with more
#
# A preprint of 2026 ([arXiv 2604.23434](https://arxiv.org/abs/2604.23434)) trains a GPT-2 of 64 million parameters. With DyT its validation loss is 27 % below LayerNorm's after training on 1 million tokens, and 19 % above it on 118 million.
#
# ### Where the norm goes: DeepNorm and Peri-LN
#
# [Lesson 11](11_transformer.ipynb) drew Post-LN, Pre-LN, DeepNorm and Peri-LN. Published language models differ in where on the branch their RMSNorm is:

# %% tags=["hide-input"]
plot.blocks(
    {
        "Llama": {"branch": ["RMS", "f"], "formula": "x + f(N(x))"},
        "OLMo 2": {"branch": ["f", "RMS"], "formula": "x + N(f(x))"},
        "Gemma 2": {"branch": ["RMS", "f", "RMS"], "formula": "x + N(f(N(x)))"},
    },
    title="Llama normalizes what a branch reads, OLMo 2 what it writes",
    caption="f is attention or the MLP, RMS and N are RMSNorm. In all three the stream itself "
    "passes by. nanochat is like Llama here, without gains.",
    alt="Three block diagrams, input x at the bottom, output y at the top; a line, and "
    "a branch around it into a sum. Llama: RMSNorm, then f on the branch. OLMo 2: f, then "
    "RMSNorm. Gemma 2: RMSNorm, f, RMSNorm.",
)

# %% [markdown]
# **DeepNorm** (Wang et al., 2022) is $\operatorname{LN}(\alpha x + f(x))$ with $\alpha = (2N)^{1/4}$ for $N$ layers of an encoder or a decoder alone, and the initial feed-forward, value and output weights in $f$ are multiplied by $\beta = (8N)^{-1/4}$. It is a Post-LN with a smaller branch: LayerNorm forgets a common factor, so $\operatorname{LN}_\epsilon(\alpha x + f) = \operatorname{LN}_{\epsilon/\alpha^2}(x + f/\alpha)$.
# The paper's aim is that one step of the optimizer moves the network's output by an amount that does not grow with depth; its analysis is for SGD. Most Transformers are trained with Adam, so we measure both.


# %% tags=["hide-input"]
def ln(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def stack(place, weights, x, alpha):
    """2N sublayers with the norm in its place; a final LayerNorm where the stream has none."""
    for W1, W2 in weights:
        f = lambda z, W1=W1, W2=W2: F.relu(z @ W1) @ W2
        if place == "Pre-LN":
            x = x + f(ln(x))
        else:
            x = ln(alpha * x + f(x))
    return ln(x) if place == "Pre-LN" else x


def update(place, N, seed, optimizer, D=64):
    """Root mean square of what one step of the optimizer changes in the output of N layers."""
    g = torch.Generator().manual_seed(seed)
    alpha, beta = ((2 * N) ** 0.25, (8 * N) ** -0.25) if place == "DeepNorm" else (1.0, 1.0)
    scale = beta * (2 / D) ** 0.5  # Kaiming's, times beta
    draw = lambda *shape: torch.randn(*shape, generator=g)
    weights = [(scale * draw(2, D, D)).requires_grad_() for _ in range(2 * N)]
    x, V = draw(32, D), draw(D, 10) / D**0.5  # (B, D), (D, 10)
    before = stack(place, weights, x, alpha)  # (B, D)
    F.cross_entropy(before @ V, torch.randint(10, (32,), generator=g)).backward()
    optimizer(weights).step()
    with torch.no_grad():
        return (stack(place, weights, x, alpha) - before).square().mean().sqrt().item()


depths = [4, 8, 16, 32]
steps = {
    "SGD, rate 0.1": lambda weights: torch.optim.SGD(weights, 0.1),
    "Adam, rate 0.0001": lambda weights: torch.optim.Adam(weights, 1e-4),
}
moved = {
    how: {
        place: torch.tensor([[update(place, N, s, make) for N in depths] for s in range(4)])
        for place in ("Post-LN", "Pre-LN", "DeepNorm")
    }
    for how, make in steps.items()
}  # (4, 4) each
grown = {how: {p: (m[:, -1] / m[:, 0]) for p, m in each.items()} for how, each in moved.items()}

# %%
for how, each in grown.items():
    for place, ratio in each.items():
        print(f"{how}: {place:8} 32 layers / 4 layers: {ratio.mean():.1f}")

# %% tags=["hide-input"]
sgd, adam = grown.values()
# 48 runs: DeepNorm 0.68 to 1.51 and 2.2 to 3.5, Pre-LN 0.9 to 5.0 and 2.4 to 6.0
assert 0.6 < sgd["DeepNorm"].mean() < 1.5 < 1.8 < adam["DeepNorm"].mean() < 4
assert adam["Pre-LN"].mean() > 2.5 and sgd["Pre-LN"].mean() > 1.6

# %% tags=["hide-input"]
plot.panels(
    {how: ([str(N) for N in depths], each) for how, each in moved.items()},
    y="change of the output",
    x="layers N (two sublayers each)",
    ylog=True,
    colors={"DeepNorm": "GroupNorm"},
    title="DeepNorm's first step does not grow with depth under SGD, and does under Adam",
    caption="Root mean square of the change in one step; outputs have size 1. New stacks of "
    "feed-forward branches, width 64, Kaiming weights (times β in DeepNorm), random labels. "
    "The same rate for all three; nothing is tuned, so compare slopes and not heights.",
    alt="Two panels of three lines over 4, 8, 16 and 32 layers, on a logarithmic axis. SGD: "
    "DeepNorm is flat near 0.035, Pre-LN rises from 0.19 to 0.4, Post-LN lies between 0.6 and "
    "1. Adam: all rise, DeepNorm from 0.005 to 0.013, Pre-LN from 0.012 to 0.05, Post-LN "
    "from 0.03 to 0.2.",
)

# %% [markdown]
# In 48 runs, these four among them, DeepNorm's first step under plain SGD is on average as large with 32 layers as with 4 (0.96 times, 0.68 to 1.5), while Pre-LN's is 2.6 times as large (0.9 to 5.0). Under Adam both grow, DeepNorm's 2.7-fold (2.2 to 3.5) and Pre-LN's 4.4-fold (2.4 to 6.0), because Adam's first step moves every weight by about the learning rate, however small its gradient. These are first steps of new stacks without attention.
#
# **Peri-LN** (Kim et al., 2025) is $x + \operatorname{LN}(f(\operatorname{LN}(x)))$, Gemma 2's place: each sublayer adds a row of fixed size, times the gain. And backward? Let the weights $W_1$ of a branch become 100 times larger.


# %%
def gradients(c, peri):
    """Sizes of the gradients of W1 and W2 in one sublayer whose W1 is c times as large."""
    g = torch.Generator().manual_seed(130)
    draw = lambda *shape: torch.randn(shape, dtype=torch.float64, generator=g)
    x, dy, W1, W2 = draw(5, 6), draw(5, 6), c * draw(6, 8), draw(8, 6)
    W1.requires_grad_(), W2.requires_grad_()
    a = F.relu(ln(x, 0.0) @ W1) @ W2  # (B, D)
    y = x + (ln(a, 0.0) if peri else a)
    return [dW.norm() for dW in torch.autograd.grad((y * dy).sum(), [W1, W2])]


for place, peri in (("Pre-LN ", False), ("Peri-LN", True)):
    ratio = [a / b for a, b in zip(gradients(100.0, peri), gradients(1.0, peri), strict=True)]
    print(f"{place}: gradient of W1 times {ratio[0]:.2f}, of W2 times {ratio[1]:.2f}")

# %% tags=["hide-input"]
for peri, expected in ((False, (1.0, 100.0)), (True, (0.01, 1.0))):
    for a, b, e in zip(gradients(100.0, peri), gradients(1.0, peri), expected, strict=True):
        assert abs(a / b / e - 1) < 1e-9  # float64

# %% [markdown]
# Exactly so at $\epsilon = 0$, without biases, with ReLU, and for the same gradient from above. In Pre-LN the gradient of $W_2$ grows with the hidden units; in Peri-LN it stays, and that of $W_1$ shrinks as $1/c$.
# LayerNorm Scaling (Sun et al., 2025) works against the growing stream of Pre-LN with one factor: the norm before layer $\ell$ is multiplied by $1/\sqrt\ell$.
#
# ### A norm that listens: AdaLN
#
# An image generator must tell each block *what* to draw and how much noise is left. AdaLN feeds that in through gain and bias, which are functions of a condition $c$: $\operatorname{AdaLN}(x, c) = (1 + s(c))\odot\hat x + b(c)$.
# DiT (Peebles & Xie, 2023) adds a gate on the branch and starts $s$, $b$ and the gate at 0 (adaLN-Zero). For a fixed $c$ it is LayerNorm with gain $1+s$ and bias $b$, and at the start each block is the identity. What learns then?


# %%
class AdaLNZero(nn.Module):
    """x (B, T, D), condition c (B, K) -> x + gate * branch((1 + scale) * LN(x) + shift)."""

    def __init__(self, D, K):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))
        self.listen = nn.Linear(K, 3 * D)
        nn.init.zeros_(self.listen.weight), nn.init.zeros_(self.listen.bias)

    def modulate(self, x, c):
        shift, scale, gate = self.listen(c).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, D) each
        return (1 + scale) * ln(x) + shift, gate

    def forward(self, x, c):
        z, gate = self.modulate(x, c)
        return x + gate * self.branch(z)


# %%
g = torch.Generator().manual_seed(131)
x, dy = torch.randn(2, 2, 3, 6, generator=g)  # (B, T, D) each
c, block = torch.randn(2, 4, generator=g), AdaLNZero(6, 4)  # (B, K)
(block(x, c) * dy).sum().backward()
print("the identity at the start:", torch.equal(block(x, c), x))
for name, parameter in block.named_parameters():
    if "weight" in name:
        print(f"{name} has a gradient: {(parameter.grad.abs().max() > 0).item()}")

# %% tags=["hide-input"]
nn.init.normal_(block.listen.weight, generator=g)
shift, scale, _ = block.listen(c[:1]).squeeze(0).chunk(3)  # (D,) each
fixed = F.layer_norm(x, (6,), 1 + scale, shift)  # (B, T, D)
assert (block.modulate(x, c[:1].expand(2, 4))[0] - fixed).abs().max() < 1e-5  # float32

# %% [markdown]
# At the start only the gates learn (the gradient of `listen` is that of its gate third). Once they have opened, everything does.
#
# ## On your own
#
# 1. Write InstanceNorm, and LayerNorm([C, H, W]) with gains, from your `group_norm`. Which gains cannot be handed over?
# 2. nanochat rotates queries and keys *before* QK-norm. Does the order matter without gains? And with gains?
# 3. Turn the converted net of 12.4 back into one with LayerNorm. What is its bias?
#
# ## Further reading
#
# - Jiang et al. (2023), *Pre-RMSNorm and Pre-CRMSNorm Transformers*; Wu & He (2018), *Group Normalization*, fig. 2.
# - Dehghani et al. (2023), *Scaling Vision Transformers to 22 Billion Parameters* (QK-norm); Kimi Team (2025), [*Kimi K2*](https://arxiv.org/abs/2507.20534) (QK-clip); Loshchilov et al. (2024), [*nGPT*](https://arxiv.org/abs/2410.01131).
# - Zhu et al. (2025), *Transformers without Normalization* (DyT); Stollenwerk (2026), *On the Mathematical Relationship Between Layer Normalization and Dynamic Activation Functions*.

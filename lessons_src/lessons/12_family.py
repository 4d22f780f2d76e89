# %% [markdown]
# # 12 · The family: one formula, two questions, many names
#
# **What you'll do:** put LayerNorm beside its relatives, find out what each of them forgets, turn some of them into one another exactly, and end with a page that says which to take when. *(about 50 min; the parts marked optional are extra, some 20 min more, and nothing later relies on them)*
#
# **You'll be able to**
# - read the formula of any norm: over which axes, with or without the mean, and what it therefore keeps and drops;
# - say which relatives are the same function, and under which condition;
# - build a GroupNorm that can take the place of PyTorch's;
# - turn a Pre-LN Transformer into a Pre-RMSNorm one without changing its function;
# - choose a norm, and name the evidence and the exception.
#
# **You need:** [lesson 6](06_batchnorm.ipynb) (the axes of four norms), [lesson 8](08_geometry.ipynb) (RMSNorm), [lesson 11](11_transformer.ipynb) (Pre-LN, Post-LN, attention).

# %% tags=["record"]
import copy

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, RMSNorm, encode, layer_norm
from lessonkit import check, data, plot, runs, show  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 12.1 Two questions
#
# Whatever a norm is called, ask it two questions: **over which axes** does it take its statistics, and **is the mean subtracted**?
# The rest is one formula, before gain and bias:


# %%
def norm(x, axes, center=True, eps=0.0):
    """Normalize x over the given axes; center=False leaves the mean where it is."""
    c = x - x.mean(axes, keepdim=True) if center else x
    return c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps)


# %% [markdown]
# Six answers, six names. The layout is that of lesson 6's series: (B, C, T), with the channels of one time step as its *token*.

# %%
family = {
    "LayerNorm": lambda x, **k: norm(x, 1, **k),  # each token over its channels
    "RMSNorm": lambda x, **k: norm(x, 1, center=False, **k),
    "GroupNorm, 1 group": lambda x, **k: norm(x, (1, 2), **k),
    "GroupNorm, 2 groups": lambda x, **k: norm(x.unflatten(1, (2, -1)), (2, 3), **k).flatten(
        1, 2
    ),
    "InstanceNorm": lambda x, **k: norm(x, 2, **k),
    "BatchNorm": lambda x, **k: norm(x, (0, 2), **k),  # in training
}

# %%
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
for name, function in family.items():
    assert (
        function(x, eps=1e-5) - theirs[name]
    ).abs().max() < 1e-12  # float64, numbers of order 1
print("six functions of PyTorch, one formula")

# %% [markdown]
# ### What a norm forgets is its fingerprint
#
# A norm that subtracts the mean over some axes cannot see one number added over those axes. One that divides by a size cannot see a positive factor. And what it never looks at cannot disturb it.
#
# **Predict:** each token of each sample is multiplied by a positive factor of its own. Which of the six do not notice?


# %%
def changed(x, g):
    """Eight changes of x (B, C, T), {name: changed x}; all factors are positive."""
    add = lambda *shape: torch.randn(shape, dtype=x.dtype, generator=g)
    factor = lambda *shape: 0.5 + 2 * torch.rand(shape, dtype=x.dtype, generator=g)
    others, later = x.clone(), x.clone()
    others[1:], later[..., 3:] = add(*x[1:].shape), add(*x[..., 3:].shape)
    return {
        "sample\n+ number": x + add(len(x), 1, 1),
        "sample\n× factor": x * factor(len(x), 1, 1),
        "token\n+ number": x + add(len(x), 1, x.shape[2]),
        "token\n× factor": x * factor(len(x), 1, x.shape[2]),
        "channel\n+ number": x + add(*x.shape[:2], 1),
        "channel\n× factor": x * factor(*x.shape[:2], 1),
        "other\nsamples": others,
        "later\ntokens": later,
    }


# %%
def fingerprint(function, x, g):
    """How far each of the eight changes moves the output.

    For the last two: the output of sample 0, and of the first tokens.
    """
    y, moved = function(x), {}
    for name, other in changed(x, g).items():
        gap = (function(other) - y).abs()
        gap = (
            gap[:1]
            if name.startswith("other")
            else gap[..., :3]
            if name.startswith("later")
            else gap
        )
        moved[name] = gap.max().item()
    return moved


g = torch.Generator().manual_seed(122)
rows = {name: fingerprint(f, x, g) for name, f in family.items()} | {
    "tanh(x / 2)": fingerprint(lambda x: torch.tanh(x / 2), x, g)
}
blind = {
    name: [gap < 1e-12 for gap in row.values()] for name, row in rows.items()
}  # float64: less is rounding

# %%
said = {  # 1: the output stays the same
    "LayerNorm": "11110011",
    "RMSNorm": "01010011",
    "GroupNorm, 1 group": "11000010",
    "GroupNorm, 2 groups": "11000010",
    "InstanceNorm": "11001110",
    "BatchNorm": "00000000",
    "tanh(x / 2)": "00000011",
}
for name, row in rows.items():
    assert blind[name] == [digit == "1" for digit in said[name]]
    assert all(
        gap > 1e-4 for gap, same in zip(row.values(), blind[name], strict=True) if not same
    )  # 0.01 at least in 60 seeds

# %%
plot.heat(
    [[float(same) for same in row] for row in blind.values()],
    list(blind),
    list(rows["LayerNorm"]),
    texts=[["same" if same else "changes" for same in row] for row in blind.values()],
    limits=(0, 1.6),
    size=(8.6, 4.2),
    title="Each norm forgets what it subtracts and divides by, and nothing else",
    x="what is done to x: each sample, token or channel of a sample gets its own",
    y="norm over (B, C, T)",
    caption="Does the output stay the same (to 1e-12, float64)? ε = 0, before gain and bias, "
    "positive factors; B = 3, C = 6, T = 5. LayerNorm and RMSNorm over the channels of "
    "each token. For the last two columns the output looked at is that of what was not "
    "changed.",
    alt="A table of seven functions and eight changes. LayerNorm does not see numbers added to "
    "or factors on tokens; RMSNorm only no factors; GroupNorm neither on whole samples; "
    "InstanceNorm neither on channels; BatchNorm sees all of it. Only LayerNorm, RMSNorm "
    "and tanh are untouched by other samples and later tokens.",
)

# %% [markdown]
# LayerNorm and RMSNorm: a factor of a token goes unseen. GroupNorm forgets level and size of a *sample* (with two groups, of each half), so within a sample it remembers which token was loud.
# InstanceNorm forgets them channel by channel. BatchNorm forgets none of the eight: it removes a number and a factor that *all samples of a channel* share.
# And the last two columns say where a norm may stand: what notices **other samples** ties a batch together, and what notices **later tokens** must not stand in a network that predicts the next token.
#
# ## 12.2 Without the mean: RMSNorm and ScaleNorm
#
# | | RMSNorm | ScaleNorm |
# |---|---|---|
# | formula | $\gamma \odot x \,/ \sqrt{\operatorname{mean}(x^2)+\epsilon}$ | $g\,x \,/ \max(\|x\|, \epsilon)$, one number $g$ |
# | keeps | direction of the row, its mean included | the same |
# | drops | size of the row | the same |
# | used in | T5, Llama and most open language models since | translation with little data (Nguyen & Salazar, 2019) |
#
# [Lesson 8](08_geometry.ipynb) showed one way between the two norms: LayerNorm is RMSNorm of the centered row. Now the other way round.
#
# You have a library whose only norm is `F.layer_norm`. Get RMSNorm out of it: which row, made from $x$, has mean 0 and the mean square of $x$ for its variance?
# (If you prefer to write the formula, do; PyTorch's own `rms_norm` would leave nothing to find.)


# %% tags=["exercise"] id="ex-12-1"
# Exercise 12.1 · ●●○○○ · 4 min
def rms_norm(x, weight, eps=1e-5):
    """RMSNorm of the last axis with a gain.

    x: (..., D) float tensor. weight: (D,). eps: added to the mean square, under the root.
    Returns a tensor of x's shape. Without PyTorch's own rms_norm.
    """
    ### BEGIN SOLUTION
    D = x.shape[-1]
    beside = torch.cat([x, -x], dim=-1)  # (..., 2 D): mean 0, variance mean(x^2)
    return F.layer_norm(beside, (2 * D,), eps=eps)[..., :D] * weight  # (..., D)
    ### END SOLUTION


# %% tags=["check"]
check.rms_norm(rms_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Put the row and its negative side by side: `torch.cat([x, -x], dim=-1)`. Normalize the $2D$ numbers together and keep the first half.
#
# </details>
#
# ### How far apart are they?
#
# Both put a row on the sphere of radius $\sqrt D$ ($\epsilon = 0$). The cosine of the angle between the two results is $\sqrt{v/(v+\mu^2)}$, with the row's mean $\mu$ and variance $v$: what counts is the mean *beside the deviation*.

# %%
g = torch.Generator().manual_seed(123)
z = norm(
    torch.randn(4, 512, dtype=torch.float64, generator=g), -1
)  # (B, D) mean 0, deviation 1
for mean in (0.0, 0.1, 1.0, 10.0):
    cosine = F.cosine_similarity(norm(z + mean, -1), norm(z + mean, -1, center=False))  # (B,)
    assert (cosine - (1 + mean**2) ** -0.5).abs().max() < 1e-12  # v = 1, float64
    show(f"mean {mean:4} deviations: cosine", cosine[0])
assert (
    F.layer_norm(z + 10, (512,)) - F.rms_norm(z, (512,), eps=1e-5)
).abs().max() < 1e-12  # LN(x) = RMSNorm(x - mean)

# %% [markdown]
# Rows whose mean is small beside their deviation get nearly the same from both. That is where RMSNorm loses little by saving the mean; whether it is so in your network, you can measure.
#
# ### Two defaults
#
# `nn.LayerNorm` has $\epsilon = 10^{-5}$. `nn.RMSNorm` has `eps=None`: the machine epsilon of the type it computes in (lesson 8). Published models set their own, often $10^{-6}$ or $10^{-5}$.
#
# **Predict:** a row of root mean square 0.001, and the values `None`, 1e-6 and 1e-5. With which does it come out nearest to size 1?

# %%
row = 1e-3 * torch.tensor([1.0, -1.0, 1.0, 1.0])  # (D,) root mean square 0.001
for eps in (None, 1e-6, 1e-5):
    show(
        f"eps = {eps}: root mean square of the output",
        F.rms_norm(row, (4,), eps=eps).square().mean().sqrt(),
        3,
    )

# %% [markdown]
# $s/\sqrt{s^2+\epsilon}$ with $s = 0.001$: 0.945, 0.707, 0.302. A factor of three, for a default that nobody wrote down. On rows of size 1 nothing shows.
#
# ### ScaleNorm is RMSNorm with one gain
#
# $\|x\| = \sqrt{D}\cdot$ root mean square. So ScaleNorm is RMSNorm at $\epsilon = 0$ whose gains are all $g/\sqrt D$, exactly, wherever $\|x\| \ge \epsilon$. (Its $\epsilon$ is a floor, not a summand; $g$ starts at $\sqrt D$ in the paper, so both start alike.)


# %%
def scale_norm(x, g, eps=1e-5):
    """ScaleNorm of the last axis: x (..., D), g one number."""
    length = x.norm(dim=-1, keepdim=True).clamp(min=eps)  # (..., 1)
    return g * x / length  # (..., D)


g = torch.Generator().manual_seed(124)
x = torch.randn(4, 7, dtype=torch.float64, generator=g)  # (B, D)
gains = torch.full((7,), 1.9 / 7**0.5, dtype=torch.float64)  # (D,)
assert (scale_norm(x, 1.9) - F.rms_norm(x, (7,), gains, eps=0.0)).abs().max() < 1e-12  # float64

# %% [markdown]
# ## 12.3 Groups of channels: GroupNorm and InstanceNorm
#
# | | GroupNorm, G groups | InstanceNorm |
# |---|---|---|
# | formula, for each group | $\gamma \odot (x-\mu)/\sqrt{\sigma^2+\epsilon} + \beta$ | the same, for each channel |
# | statistics over | C/G neighboring channels of a sample, and all positions | one channel of a sample, all positions |
# | keeps | strength of a channel beside the others of its group | shape of each channel alone |
# | drops | level and size of each group | level and size of each channel: contrast |
# | used in | detection and image generators, where batches are small | style transfer (Ulyanov et al., 2016) |
#
# Both have a gain and a bias for each *channel* (InstanceNorm only with `affine=True`), and both are the arithmetic of lesson 4 on another cut of the tensor. So build one from it: `layer_norm` is imported above, and does not care what its last axis means.


# %% tags=["exercise", "export"] id="ex-12-2"
# Exercise 12.2 · ●●●○○ · 8 min
class GroupNorm(nn.Module):
    """Group Normalization of x (B, C, ...), as torch.nn.GroupNorm, and built without it.

    Neighboring channels share their statistics.

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
        self.num_groups, self.num_channels, self.eps, self.affine = (
            num_groups,
            num_channels,
            eps,
            affine,
        )
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
            raise ValueError(
                f"x of shape {tuple(x.shape)} has one number for each group, which would "
                "become 0."
            )
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
        # Your part: normalize wide, (B, C, ...), then gain and bias where they are not None.
        # Bind the result to y.
        ### BEGIN SOLUTION
        groups = wide.unflatten(1, (self.num_groups, -1)).flatten(
            2
        )  # (B, G, C/G * H * W): a row for each group
        y = layer_norm(groups, groups.shape[-1], eps=self.eps).reshape(x.shape)  # (B, C, ...)
        beside = (-1,) + (1,) * (x.dim() - 2)  # (C, 1, 1) for images: beside axis 1 of x
        y = y if self.weight is None else y * self.weight.view(beside)
        y = y if self.bias is None else y + self.bias.view(beside)
        ### END SOLUTION
        return y.to(x.dtype)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{sizes}, affine={self.affine}, bias={self.bias is not None}"


# %% tags=["check"]
check.group_norm(GroupNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `wide.unflatten(1, (self.num_groups, -1))` cuts axis 1 into groups; `.flatten(2)` makes one row of each group. Normalize the last axis and reshape back.
# The gain (C,) must stand beside axis 1: as (C, 1) for series, (C, 1, 1) for images. Gain and bias may be `None`, each for itself.
#
# </details>

# %%
mine, theirs = GroupNorm(3, 6), nn.GroupNorm(3, 6)
g = torch.Generator().manual_seed(135)
theirs.load_state_dict(
    {"weight": torch.randn(6, generator=g), "bias": torch.randn(6, generator=g)}
)
mine.load_state_dict(theirs.state_dict())
x = 2 + 3 * torch.randn(2, 6, 5, 4, generator=g)  # (B, C, H, W)
assert (mine(x) - theirs(x)).abs().max() < 1e-5  # float32, numbers of order 1
print(mine, {name: tuple(tensor.shape) for name, tensor in mine.state_dict().items()})

# %% [markdown]
# ### Who is whose twin
#
# PyTorch's manual says of `GroupNorm(6, 6)` "equivalent with InstanceNorm", and of `GroupNorm(1, 6)` "equivalent with LayerNorm" (lesson 4 tried this one in 4.6). **Predict, then run:** which of these pairs agree on **every** input?

# %% tags=["exercise"] id="ex-12-3"
# Exercise 12.3 · ●●○○○ · 4 min
# The same function on every input (True), or not (False)? No gain, no bias, the same eps; x of
# the shape that is named.
# same_function = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
# a  GroupNorm(1, C) and LayerNorm([C, H, W])                          (B, C, H, W)
# b  GroupNorm(1, C) and LayerNorm over the C numbers of each pixel     (B, C, H, W)
# c  GroupNorm(C, C) and InstanceNorm                                   (B, C, H, W)
# d  InstanceNorm and BatchNorm in training, for a batch of one         (1, C, H, W)
# e  GroupNorm(1, C) and LayerNorm(C) at each time step                 (B, C, T) with T > 1
# f  LayerNorm(C) and RMSNorm(C) on rows whose mean is 0                (B, C)
### BEGIN SOLUTION
same_function = {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True}
### END SOLUTION

# %% tags=["check"]
check.same_function(same_function)

# %% [markdown]
# <details><summary>Hint</summary>
#
# For each of the two: which numbers share one mean? If the sets are the same, so are the functions. For f: what does LayerNorm subtract from a row with mean 0?
#
# </details>
#
# Now the run. First a to d, all pairs at once, on an image whose channels differ in level and strength.

# %%
g = torch.Generator().manual_seed(125)
x = torch.randn(1, 6, 5, 4, generator=g) * torch.arange(1.0, 7.0).view(6, 1, 1) + torch.arange(
    6.0
).view(6, 1, 1)  # (1, C, H, W)
on_images = {
    "GroupNorm(1, C)": F.group_norm(x, 1),
    "LayerNorm([C, H, W])": F.layer_norm(x, x.shape[1:]),
    "LayerNorm per pixel": F.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1),
    "GroupNorm(3, C)": F.group_norm(x, 3),
    "GroupNorm(C, C)": F.group_norm(x, 6),
    "InstanceNorm": F.instance_norm(x),
    "BatchNorm, B = 1": F.batch_norm(x, None, None, training=True),
}
apart = torch.stack(
    [torch.stack([(a - b).abs().max() for b in on_images.values()]) for a in on_images.values()]
)  # (7, 7)
twins = apart < 1e-5  # float32 rounding; 0.7 is the least of the others in 24 seeds
assert twins.sum() == 7 + 2 + 6 and (apart[~twins] > 0.1).all()

# %%
plot.heat(
    apart,
    list(on_images),
    ["GN(1, C)", "LN\n[C, H, W]", "LN\nper pixel", "GN(3, C)", "GN(C, C)", "IN", "BN,\nB = 1"],
    texts=[["=" if same else "≠" for same in row] for row in twins],
    size=(8.6, 4.2),
    title="Seven names, four functions",
    x="the same norms, abbreviated",
    y="norm",
    caption="= : the outputs agree up to float32 rounding; ≠ : they do not, and the bluer, the "
    "larger the largest difference. One image of 6 × 5 × 4 numbers, no gain and bias, ε = "
    "1e-5.",
    alt="A symmetric table of seven norms. GroupNorm with one group equals LayerNorm over C, H "
    "and W. GroupNorm with C groups, InstanceNorm and BatchNorm on a batch of one are "
    "equal. LayerNorm per pixel and GroupNorm with three groups equal only themselves.",
)

# %% [markdown]
# Then e and f, on series.

# %%
g = torch.Generator().manual_seed(136)
x = torch.randn(3, 6, 5, dtype=torch.float64, generator=g)  # (B, C, T)
assert (
    F.group_norm(x, 1) - F.layer_norm(x.mT, (6,)).mT
).abs().max() > 0.1  # e: 0.9 is the least in 30 seeds
first = x[:, :, 0]  # (B, C) one step: nothing is left to pool but its channels
assert (F.group_norm(first, 1) - F.layer_norm(first, (6,))).abs().max() < 1e-12  # float64
rows = first - first.mean(1, keepdim=True)  # (B, C) mean 0
assert (F.layer_norm(rows, (6,)) - F.rms_norm(rows, (6,), eps=1e-5)).abs().max() < 1e-12  # f

# %% [markdown]
# So the manual's first sentence is true, and its second needs a condition: `GroupNorm(1, C)` is LayerNorm **over everything but the batch**, without the affine part (C gains here, C·H·W there). It is not the per-pixel LayerNorm of ConvNeXt, nor the LayerNorm of a Transformer, except on plain vectors (B, C).
# On a sequence the difference is not a detail: with `GroupNorm(1, C)` the past sees the future (12.1, last column).
#
# ## 12.4 A Transformer without means, exactly
#
# Llama and its relatives are Pre-LN Transformers with RMSNorm in place of LayerNorm. Did they give up something? Not in what can be computed: **a Pre-LN net can be turned into a Pre-RMSNorm net that computes the same** (Jiang et al., 2023; the conditions stand below).
#
# The idea takes one line. In a Pre-LN net nobody ever sees the mean of the residual stream, because every reader looks through a LayerNorm. So keep it at 0 from the start: **center whatever is written to the stream.** On rows of mean 0, LayerNorm *is* RMSNorm (12.3, f).
#
# Who writes? The token embedding, the position embedding, and the last linear layer of each branch. The output of a linear layer $Wh + b$ has mean 0 for every $h$ if each *column* of $W$ and the vector $b$ have.


# %% tags=["exercise"] id="ex-12-4"
# Exercise 12.4 · ●●○○○ · 5 min
def centered(weight, bias):
    """The weight and bias of a linear layer whose output is the old one's minus its mean.

    The mean is over the D outputs. weight: (D, H), as nn.Linear(H, D) keeps it. bias: (D,).
    Returns the pair (new weight, new bias), same shapes.
    """
    ### BEGIN SOLUTION
    return weight - weight.mean(0), bias - bias.mean()  # each column of W, and b, sum to 0
    ### END SOLUTION


# %% tags=["check"]
check.centered(centered)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The output $d$ is $\sum_h W_{dh} h_h + b_d$. Its mean over $d$ is $\sum_h (\text{mean of column } h)\, h_h$ plus the mean of $b$. PyTorch keeps $W$ as (outputs, inputs), so a column is `weight[:, h]`.
#
# </details>
#
# One thing is left: LayerNorm has a bias $\beta$ and RMSNorm has none. [Lesson 4](04_affine_and_module.ipynb) folded it into the linear layer behind: $W(\hat x\odot\gamma + \beta) + b = W(\hat x\odot\gamma) + (W\beta + b)$.

# %% [markdown]
# Both together, on lesson 11's `CharGPT`. First a helper for the folding, then the conversion; it calls your `centered`.


# %%
def without_bias(old, reader):
    """Fold the bias of a LayerNorm into the linear layer behind it.

    Returns the RMSNorm of the same gain and eps.
    """
    with torch.no_grad():
        reader.bias += reader.weight @ old.bias
    rms = RMSNorm(old.normalized_shape, eps=old.eps)
    rms.weight = old.weight
    return rms


# %%
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


# %% [markdown]
# The patient is lesson 11's GPT with three blocks. All its parameters are drawn at random, gains and biases too: a new net would have biases of 0 and hide half of the mistakes.

# %%
g = torch.Generator().manual_seed(133)
net = CharGPT(layers=3, norm=nn.LayerNorm).double()
for parameter in net.parameters():
    nn.init.normal_(parameter, std=0.5, generator=g)
tokens = torch.randint(27, (8, 16), generator=g)  # (B, T)

# %%
converted = to_rms(net)
gap = (converted(tokens) - net(tokens)).abs().max() / net(tokens).abs().max()
assert gap < 1e-12  # float64; 2e-15 is the worst of 20 seeds
left = [name for name, module in converted.named_modules() if isinstance(module, nn.LayerNorm)]
print("LayerNorms left:", len(left), "  the same logits:", bool(gap < 1e-12))

# %% [markdown]
# The same function, not a similar one, under these conditions:
#
# - every reader looks through a norm (without the final norm, the output layer would see the mean), and $\epsilon$ stays the same;
# - each reader is a linear layer that has a bias or may get one;
# - the output layer does not share its weights with the embedding (else part them first);
# - no dropout behind a writer while training: it would undo the centering.
#
# In a Post-LN net the stream itself comes out of a norm with gain and bias, and has a mean: the argument does not apply.
#
# So what RMSNorm gives up is not a function that could be computed. Whether *training* is as good is another question, for experiments (12.6). And a net that is trained *after* the conversion leaves its twin: the optional part says why.
#
# ### Step by step, and trained on (optional, 4 min)
#
# Is each of the steps needed? Leave them out one by one, and last give RMSNorm its own default $\epsilon$.

# %% tags=["optional"]
logits = net(tokens)  # (B, T, symbols)
for step in ("embed", "position", "attention", "mlp"):
    change = (to_rms(net, [step])(tokens) - logits).abs().max()
    assert change > 0.05  # 0.26 is the least of 20 seeds
    print(f"without the centering of {step}: other logits")
other_eps = to_rms(net)
for module in other_eps.modules():
    if isinstance(module, RMSNorm):
        module.eps = None
assert (
    other_eps(tokens) - logits
).abs().max() > 1e-7  # 3e-5 to 1e-4: small, for the stream is large here
assert (
    to_rms(net, ["final norm"])(tokens) - logits
).abs().max() < 1e-12 * logits.abs().max()  # LayerNorm may stay

# %% [markdown]
# Each writer counts. The last line says: once the stream has mean 0, a LayerNorm that was left standing does no harm either.
#
# **Predict:** converted exactly, and then trained on. Do the two nets stay the same function?


# %% tags=["optional"]
def column_sums(model):
    """Largest sum of a column in the gradient of a layer that writes to the stream."""
    targets = torch.randint(27, (8 * 16,), generator=torch.Generator().manual_seed(134))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets)
    return (
        torch.autograd.grad(loss, model.blocks[0].mlp[2].weight)[0].sum(0).abs().max()
    )  # over the C outputs


assert (
    column_sums(net) < 1e-10 < 1e-6 < column_sums(converted)
)  # float64: 2e-16 and 0.02 in 20 seeds
print("columns of the gradient sum to 0, Pre-LN:", True, " Pre-RMSNorm:", False)

# %% [markdown]
# No. In the Pre-LN net a loss cannot see the mean of the stream, so the gradient of a writer has none: each column sums to 0. The converted net sees the mean, and its first step writes one. For training the centering must be part of the network (center the weights in each forward pass); Jiang et al. do that, and go one further: a row of mean 0 can be stored with one number less.
#
# ## 12.5 Norms inside attention: QK-norm
#
# An attention logit is $q\cdot k/\sqrt d$, and nothing bounds it. If queries and keys grow threefold, logits grow ninefold. The softmax behind them then puts all weight on one key, and its gradient vanishes ([lesson 5](05_softmax.ipynb)). A Vision Transformer of 8 billion parameters diverged that way (Dehghani et al., 2023). The mend: normalize queries and keys, head by head.
#
# $$\text{logit} = \operatorname{LN}(q)\cdot\operatorname{LN}(k)\,/\sqrt d$$


# %%
def qk_logits(q, k, gain_q=1.0, gain_k=1.0, eps=1e-6):
    """Attention logits of normalized queries and keys: q, k (..., T, d) -> (..., T, T)."""
    q = F.layer_norm(q, q.shape[-1:], eps=eps) * gain_q  # each query by itself
    k = F.layer_norm(k, k.shape[-1:], eps=eps) * gain_k  # each key by itself
    return q @ k.mT / q.shape[-1] ** 0.5


# %% [markdown]
# - **keeps** the direction of each query and key (less its mean; with RMSNorm, all of it); **drops** their lengths, and with them the simplest way to make one query's attention sharper than another's;
# - **used in** ViT-22B with LayerNorm; Qwen3 and Gemma 3 with RMSNorm on each head;
# - **the bound:** a normalized row has length at most $\sqrt d$, so $|\text{logit}| \le \sqrt d\cdot\sqrt d/\sqrt d = \sqrt d$ with gain 1 and without a bias. With gains it is $\sqrt d\,\max_i|\gamma^q_i\gamma^k_i|$; with biases there is none of this form.
#
# **Predict:** $d = 64$. By how much does the bound change when all inputs are multiplied by 30?

# %%
g = torch.Generator().manual_seed(126)
q, k = torch.randn(2, 512, 64, dtype=torch.float64, generator=g)  # (T, d) each
gain_q, gain_k = torch.randn(2, 64, dtype=torch.float64, generator=g)  # (d,) each
assert qk_logits(30 * q, 30 * k).abs().max() < 8  # sqrt(64); 4.1 to 4.8 in 16 seeds
assert qk_logits(q, k, gain_q, gain_k).abs().max() < 8 * (gain_q * gain_k).abs().max()
assert (
    qk_logits(q, q, eps=0.0).diagonal() - 8
).abs().max() < 1e-12  # reached where the key is the query
assert (
    30 * q @ (30 * k).mT / 8
).abs().max() > 3000  # without the norm; 4,100 to 4,900 in 16 seeds
print("|logit| <= 8, whatever the inputs' size")

# %% [markdown]
# Not at all. What does the softmax make of it? Its **entropy** says over how many keys the attention is spread: $\ln 512 = 6.24$ for all alike, 0 for a single one.


# %%
def entropies(logits_of, scales, seed):
    """Mean entropy (nats) of the attention of 512 random queries over 512 keys.

    One for each scale of queries and keys.
    """
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 512, 64, generator=g)  # (T, d) each
    weights = [logits_of(s * q, s * k).softmax(-1) for s in scales]  # (T, T) each
    return [torch.special.entr(w).sum(-1).mean().item() for w in weights]


scales = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
plain = [entropies(lambda q, k: q @ k.mT / 8, scales, seed) for seed in range(4)]
normed = [entropies(qk_logits, scales, seed) for seed in range(4)]
assert (
    max(row[-1] for row in plain) < 0.1 and min(min(row) for row in normed) > 5.5
)  # 0.01 and 5.7 in 8 seeds

# %%
plot.lines(
    scales,
    {"QK-norm": normed, "plain": plain},
    xlog=True,
    colors={"QK-norm": "LayerNorm", "plain": "none"},
    href={"all 512 keys alike": 6.238, "one key": 0.0},
    ylim=(-0.4, 6.8),
    title="Large queries and keys: plain attention collapses",
    x="size of queries and keys",
    y="entropy of the attention (nats)",
    caption="512 random queries and keys of 64 numbers. QK-norm without gains.",
    alt="Two curves over the size of queries and keys. With QK-norm the entropy stays at 5.7. "
    "Plain attention is at 6.2 for small ones, 5.7 at size 1, 0.7 at size 3 and near 0 "
    "from size 10 on.",
)

# %% [markdown]
# At size 1 the two agree; beyond it the plain attention picks one key, by chance.
#
# ### Bounded too tightly (optional, 3 min)
#
# QK-norm at gain 1 keeps what attention *can* do within limits, too: the weights of two keys differ at most by the factor $e^{2\sqrt d}$.
# That is plenty for $d = 64$. An older form normalizes to length 1 without the $\sqrt d$ (Henry et al., 2020). By itself that would leave logits in $\pm1$, and over 512 keys no weight could exceed $e^2/(e^2+511) = 0.014$. So it multiplies by a learned number $g$.

# %% tags=["optional"]
logit = torch.tensor(
    [1.0] + 511 * [-1.0]
)  # (T,) the best case: one key at +1, all others at -1
show("largest weight, length 1", logit.softmax(0)[0], 3)
show("largest weight, length sqrt(64)", (8 * logit).softmax(0)[0], 3)

# %% [markdown]
# Bounded logits bound a *loss*, too. That was run B of [lesson 9](09_cnn.ipynb) (9.10): behind a sigmoid even the perfect answer gets no more than $e/(e+9)$, and the loss stops at 1.46 (a blind guess: 2.30).

# %% tags=["optional"]
perfect = torch.tensor([1.0] + 9 * [0.0])  # (classes,) a sigmoid can do no better
show("lowest loss with a sigmoid in front", F.cross_entropy(perfect, torch.tensor(0)))

# %% [markdown]
# ## 12.6 No statistics at all: DyT
#
# $$\operatorname{DyT}(x) = \gamma\odot\tanh(\alpha x) + \beta \qquad\text{(Zhu et al., 2025)}$$
#
# One learned number $\alpha$ (it starts at 0.5), no mean, no variance, nothing to reduce. Why should that replace a norm? The authors plotted inputs of trained LayerNorms against outputs and saw the S of a tanh. The S is no accident; it can be computed.
#
# Move **one** coordinate $x_i$ and hold the other $D-1$ still, with their mean $m$ and variance $v$. With $t = x_i - m$, at $\epsilon = 0$:
#
# $$y_i = \sqrt{D-1}\;\frac{t}{\sqrt{t^2 + D\,v}}$$
#
# **Predict:** what is $y_i$ for a huge $x_i$?

# %%
g = torch.Generator().manual_seed(127)
others = 0.5 + 2 * torch.randn(63, dtype=torch.float64, generator=g)  # (D - 1,)
D, m, v = 64, others.mean(), others.var(correction=0)
x_i = torch.linspace(-80, 80, 161, dtype=torch.float64)  # (161,)
rows = torch.cat([x_i[:, None], others.expand(161, 63)], dim=-1)  # (161, D)
y_i = F.layer_norm(rows, (D,), eps=0.0)[:, 0]  # (161,)
t = x_i - m
exact = (D - 1) ** 0.5 * t / (t**2 + D * v).sqrt()  # (161,)
tanh = (D - 1) ** 0.5 * torch.tanh(
    t / (D * v).sqrt()
)  # (161,) the same slope at t = 0, the same limits
assert (y_i - exact).abs().max() < 1e-12  # float64
assert (
    0.072 < (exact - tanh).abs().max() / (D - 1) ** 0.5 < 0.0738
)  # 0.0737 at best, whatever D and v

# %%
plot.lines(
    x_i,
    {
        "tanh": tanh,
        "exact curve": exact,
        "LayerNorm": torch.where(torch.arange(161) % 8 == 0, y_i, torch.nan),
    },
    dots=["LayerNorm"],
    colors={"tanh": "DyT", "exact curve": "InstanceNorm", "LayerNorm": "LayerNorm"},
    href={"√(D − 1)": 63**0.5},
    title="One coordinate of LayerNorm is an S, and nearly a tanh",
    x="the coordinate that is moved",
    y="its output",
    caption="A row of 64 numbers; 63 of them stand still. Dots: F.layer_norm at ε = 0. The "
    "exact curve goes through all of them; a tanh of the same slope and limits is off by "
    "up to 7.4 % of the limit √(D − 1).",
    alt="An S-shaped curve from minus 7.9 to plus 7.9. The dots of LayerNorm lie on the exact "
    "curve. The tanh has the same slope in the middle, lies a little outside of it, and "
    "reaches the limits sooner.",
)

# %% [markdown]
# A huge coordinate comes out as $\sqrt{D-1}$: the row *saturates*, like the tanh. So far the likeness. The difference: LayerNorm's S has another width for every row ($\sqrt{D v}$), the tanh one width for all.
# - **keeps** level and size of a row, as far as the tanh resolves them; **drops** nothing exactly, and differences among large numbers in practice;
# - **used in** the authors' Vision Transformers, diffusion models and language models, with $\alpha$ chosen by size for the latter;
# - **the gradient:** each number for itself. The Jacobian is diagonal, so a gradient is neither centered nor made orthogonal to the row, as LayerNorm does at $\epsilon = 0$ ([lesson 7](07_backward.ipynb)).


# %%
def dyt(x, alpha=0.5, weight=1.0, bias=0.0):
    """Dynamic tanh: elementwise."""
    return weight * torch.tanh(alpha * x) + bias


g = torch.Generator().manual_seed(128)
x, dy = torch.randn(2, 6, dtype=torch.float64, generator=g)  # (D,) each
J = torch.func.jacrev(dyt)(x)  # (D, D)
assert (J - J.diag().diag()).abs().max() == 0  # diagonal
assert (
    dy @ torch.func.jacrev(lambda x: F.layer_norm(x, (6,)))(x)
).sum().abs() < 1e-12  # LayerNorm's gradient sums to 0
assert (dy @ J).sum().abs() > 1e-3 and (
    dyt(100 * x) - dyt(x)
).abs().max() > 0.1  # DyT's does not; it sees the size

# %% [markdown]
# ### Does it train?
#
# LayerNorm, RMSNorm and DyT in lesson 11's GPT: 12 blocks, width 32, Pre-LN place, Xavier's weights, Adam with rate 0.003 and no warm-up, 200 batches of 32 words. Equal for all three: initial weights, batches, learning rate, which was tuned for none of them. Not equal: RMSNorm has no bias, and each DyT one number more, $\alpha$. PyTorch's own norms do the training here. (For your LayerNorm: paste its cells and imports from lesson 4 here, write `"LayerNorm": LayerNorm` in `gpt_run`, and `rerun=True` below.)
#
# **Predict:** which ends lower, LayerNorm or DyT, and by how much? A guess among the 27 symbols by their frequencies has a loss of 2.94 nats.


# %% tags=["record"]
class DyT(nn.Module):
    """Dynamic tanh with a learned width: x (..., width) -> the same shape."""

    def __init__(self, width, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.weight, self.bias = (
            nn.Parameter(torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


# %% tags=["record"]
def gpt_run(seed, norms, steps, lr, every):
    """Train one GPT with the norm norms[seed % len(norms)].

    Its weights and batches are those of seed // len(norms). Returns its loss in parts of
    `every` steps, and its loss on 2,000 words that it has not seen.
    """
    number, which = divmod(seed, len(norms))
    words = data.words()
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(7)).tolist()
    torch.manual_seed(number)
    model = CharGPT(
        norm={"LayerNorm": nn.LayerNorm, "RMSNorm": nn.RMSNorm, "DyT": DyT}[norms[which]]
    )
    optimizer = torch.optim.Adam(model.parameters(), lr, betas=(0.9, 0.98), fused=True)
    loss = lambda batch: F.cross_entropy(
        model(batch[0]).flatten(0, 1), batch[1].flatten(), ignore_index=-100
    )
    g, losses = torch.Generator().manual_seed(1_000_000 + number), []
    for _ in range(steps):
        chosen = torch.randint(len(words) - 2000, (32,), generator=g).tolist()
        value = loss(encode([words[order[i]] for i in chosen]))  # lesson 11: tokens and targets
        optimizer.zero_grad(), value.backward(), optimizer.step()
        losses.append(value.item())
    with torch.no_grad():
        unseen = loss(encode([words[i] for i in order[-2000:]]))
    return {"loss": torch.tensor(losses).view(-1, every).mean(1), "unseen": unseen}


# %% tags=["record"]
norms = ["DyT", "LayerNorm", "RMSNorm"]
history = runs.load_or_run(
    "gpt_norms",
    gpt_run,
    seeds=range(18),
    tolerance=0.08,
    rerun=False,
    norms=norms,
    steps=200,
    lr=3e-3,
    every=20,
)

# %%
loss = {name: history["loss"][i::3] for i, name in enumerate(norms)}  # (6, 10) each
unseen = {name: history["unseen"][i::3] for i, name in enumerate(norms)}  # (6,) each
assert all(2.2 < values.mean() < 2.5 for values in unseen.values())
gaps = {
    name: unseen[name] - unseen["LayerNorm"] for name in ("RMSNorm", "DyT")
}  # (6,) same weights, same batches
assert (
    gaps["RMSNorm"].abs().max() < 0.03
    and gaps["DyT"].min() > 0
    and 0.01 < gaps["DyT"].mean() < 0.1
)
assert (loss["DyT"][:, 0] < loss["LayerNorm"][:, 0]).all()  # in the first 20 steps DyT is ahead

# %%
plot.lines(
    [20 * part + 10 for part in range(10)],
    loss,
    ylim=(2.2, 3.1),
    markers=False,
    href={"symbol frequencies": 2.94},
    title="Three norms, one GPT: no difference, and a small one",
    x="step",
    y="training loss (nats)",
    caption=f"Means over 20 steps each, {runs.note('gpt_norms', '6 seeds for each norm')}. 12 "
    "blocks, width 32, rate 0.003 without warm-up.",
    alt="Three falling curves from about 3.0 to 2.35. LayerNorm and RMSNorm lie on each other. "
    "DyT starts a little lower, meets them after about 70 steps, and ends a little higher.",
)

# %% tags=["nbval-ignore-output"]
print("loss on unseen words minus LayerNorm's, same seed: mean ± sample sd")
for name, gap in gaps.items():
    print(
        f"{name:8} {gap.mean():+.3f} ± {gap.std():.3f}  [{gap.min():+.3f}, {gap.max():+.3f}]  "
        f"n = {len(gap)}"
    )

# %% [markdown]
# RMSNorm: **no difference**, as in lesson 11 (11.8); in pairs of the same seed the two are about 0.01 apart at most, now this way, now that. DyT: lower in the first steps, and in the end two to five hundredths **behind**, in each of the six seeds and of four more. (Asserted above, the sizes with margins.)
# That is a small network, 200 steps, one learning rate and the $\alpha$ of the paper: a reason neither to take DyT nor to leave it. Its authors report results as good as with a norm, up to full-size language models. A preprint of 2026 (arXiv 2604.23434) finds, in a GPT-2 of 64 million parameters, a validation loss 27 % below LayerNorm's after training on 1 million tokens, and 19 % above it on 118 million.

# %% [markdown]
# ## 12.7 Where the norm stands: DeepNorm and Peri-LN (optional, 8 min)
#
# [Lesson 11](11_transformer.ipynb) compared two places for one norm. Two more recipes, with $f$ for a branch (attention, or the MLP, which is also called *feed-forward*); a branch with its skip is a *sublayer*:
#
# | | one sublayer | used in |
# |---|---|---|
# | Post-LN | $\operatorname{LN}(x + f(x))$ | the 2017 Transformer, BERT |
# | Pre-LN | $x + f(\operatorname{LN}(x))$ | GPT-2 and most since |
# | **DeepNorm** | $\operatorname{LN}(\alpha x + f(x))$, and weights in $f$ times $\beta$ at the start | GLM-130B |
# | **Peri-LN** | $x + \operatorname{LN}(f(\operatorname{LN}(x)))$ | Gemma 2 (RMSNorm); OLMo 2 keeps the outer one only |
#
# **DeepNorm** (Wang et al., 2022) sets $\alpha = (2N)^{1/4}$ and $\beta = (8N)^{-1/4}$ for $N$ layers of an encoder or a decoder alone ($\beta$ on the feed-forward, value and output weights, not on queries and keys). It is a Post-LN in disguise: LayerNorm forgets a common factor, so $\operatorname{LN}_\epsilon(\alpha x + f) = \operatorname{LN}_{\epsilon/\alpha^2}(x + f/\alpha)$. The branch is turned down, that is all. It keeps and drops what Post-LN does: after each sublayer the size of the stream is forgotten.


# %% tags=["optional"]
def ln(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


g = torch.Generator().manual_seed(129)
x, f = torch.randn(2, 4, 6, dtype=torch.float64, generator=g)  # (B, D) each
for N in (6, 24, 100):
    alpha, beta = (2 * N) ** 0.25, (8 * N) ** -0.25
    assert (
        ln(alpha * x + f) - ln(x + f / alpha, 1e-5 / alpha**2)
    ).abs().max() < 1e-12  # float64
    show(f"N = {N}: alpha, beta", [alpha, beta], 2)

# %% [markdown]
# What does it buy? The paper's aim is that **one step of the optimizer moves the network's output by an amount that does not grow with depth**. That can be measured on stacks of feed-forward branches.


# %% tags=["optional"]
def stack(place, weights, x, alpha):
    """2N sublayers with the norm in its place; weights: [(W1, W2), ...].

    A final LayerNorm where the stream has none.
    """
    for W1, W2 in weights:
        f = lambda z, W1=W1, W2=W2: F.relu(z @ W1) @ W2
        if place in ("Post-LN", "DeepNorm"):
            x = ln(alpha * x + f(x))
        else:
            x = x + (ln(f(ln(x))) if place == "Peri-LN" else f(ln(x)))
    return x if place in ("Post-LN", "DeepNorm") else ln(x)


# %% tags=["optional"]
def update(place, N, seed, D=64, lr=0.1):
    """Root mean square of what one step of SGD changes in the output of N new layers."""
    g = torch.Generator().manual_seed(seed)
    alpha, beta = ((2 * N) ** 0.25, (8 * N) ** -0.25) if place == "DeepNorm" else (1.0, 1.0)
    weights = [
        (beta * (2 / D) ** 0.5 * torch.randn(2, D, D, generator=g)).requires_grad_()
        for _ in range(2 * N)
    ]
    x, V = (
        torch.randn(32, D, generator=g),
        torch.randn(D, 10, generator=g) / D**0.5,
    )  # (B, D), (D, 10)
    before = stack(place, weights, x, alpha)  # (B, D)
    loss = F.cross_entropy(before @ V, torch.randint(10, (32,), generator=g))
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        after = stack(
            place, [W - lr * dW for W, dW in zip(weights, gradients, strict=True)], x, alpha
        )
    return (after - before).square().mean().sqrt().item()


# %% tags=["optional"]
depths, places = [4, 8, 16, 32, 64], ["Post-LN", "Pre-LN", "Peri-LN", "DeepNorm"]
moved = {
    place: torch.tensor([[update(place, N, seed) for N in depths] for seed in range(4)])
    for place in places
}  # (4, 5)
mean = {place: table.mean(0) for place, table in moved.items()}  # (5,)
assert (mean["DeepNorm"] < 0.06).all() and mean["DeepNorm"].max() / mean[
    "DeepNorm"
].min() < 1.5  # 0.034 to 0.038 in 8 seeds
assert (
    mean["Post-LN"].min() > 0.3 and mean["Pre-LN"][-1] > 1.7 * mean["Pre-LN"][0]
)  # 0.52; 2.5 times
assert mean["Peri-LN"][-1] > 1.7 * mean["Peri-LN"][0]  # 2.9 times

# %% tags=["optional"]
plot.lines(
    [str(N) for N in depths],
    moved,
    ylim=(0, 1.15),
    colors={"Peri-LN": "GroupNorm", "DeepNorm": "InstanceNorm"},
    title="DeepNorm: a step that does not grow with depth",
    x="layers N (two sublayers each)",
    y="change of the output in one step",
    caption="Root mean square; the outputs have size 1. New stacks of feed-forward branches, "
    "width 64, Kaiming weights (times β in DeepNorm), SGD with rate 0.1 on random labels. "
    "The same rate for all; nothing is tuned.",
    alt="Four curves over depth from 4 to 64 layers. Post-LN lies between 0.6 and 1, Pre-LN "
    "and Peri-LN rise from about 0.2 to above 0.4. DeepNorm stays below 0.04 at all "
    "depths.",
)

# %% [markdown]
# Post-LN's single step replaces most of the output; Pre-LN's and Peri-LN's steps grow with depth; DeepNorm's does not. Read it with care: DeepNorm's step is also twenty times smaller, partly because of $\beta$, so at another rate another picture. What holds here is the *flatness*.
#
# **Peri-LN** (Kim et al., 2025) puts a norm on both sides of the branch. It forgets the **size of the branch's output**: each sublayer adds a row of size 1 (times the gain), never a huge one. And in backward? Let the hidden units of a branch become 100 times larger.


# %% tags=["optional"]
def gradient_of_W2(c, peri):
    """The gradient of W2 in one sublayer whose hidden units are c times as large.

    eps = 0, no biases, ReLU.
    """
    g = torch.Generator().manual_seed(130)
    draw = lambda *shape: torch.randn(shape, dtype=torch.float64, generator=g)
    x, dy, W1, W2 = draw(5, 6), draw(5, 6), draw(6, 8), draw(8, 6).requires_grad_()
    a = F.relu(ln(x, 0.0) @ (c * W1)) @ W2  # (B, D)
    y = x + (ln(a, 0.0) if peri else a)
    return torch.autograd.grad((y * dy).sum(), W2)[0]


for place, peri in (("Pre-LN", False), ("Peri-LN", True)):
    ratio = gradient_of_W2(100.0, peri) / gradient_of_W2(1.0, peri)  # (8, 6)
    assert (
        ratio[ratio.isfinite()] - (1 if peri else 100)
    ).abs().max() < 1e-6  # float64; a dead unit gives 0/0
    print(f"{place}: hidden units times 100, gradient times {1 if peri else 100}")

# %% [markdown]
# Exactly so at $\epsilon = 0$, without biases, with ReLU, and for the same gradient from above. A runaway activation gets a hundredfold gradient in Pre-LN, an unchanged one in Peri-LN.
#
# ## 12.8 A norm that listens: AdaLN (optional, 4 min)
#
# An image generator must tell each block *what* to draw and how much noise is left. AdaLN feeds that in through the gain and the bias: they are no parameters but functions of a condition $c$.
#
# $$\operatorname{AdaLN}(x, c) = (1 + s(c))\odot\hat x + b(c)$$
#
# DiT (Peebles & Xie, 2023) adds a gate on the branch and starts $s$, $b$ and the gate at 0: adaLN-Zero. Keeps and drops what LayerNorm does: $\hat x$ is the same.
# Two statements: for a *fixed* $c$ it is LayerNorm with gain $1+s$ and bias $b$; and at the start each block is the identity, bit for bit.


# %% tags=["optional"]
class AdaLNZero(nn.Module):
    """x (B, T, D), condition c (B, K) -> x + gate * branch((1 + scale) * LN(x) + shift)."""

    def __init__(self, D, K):
        super().__init__()
        self.branch, self.listen = (
            nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D)),
            nn.Linear(K, 3 * D),
        )
        nn.init.zeros_(self.listen.weight), nn.init.zeros_(self.listen.bias)

    def modulate(self, x, c):
        shift, scale, gate = self.listen(c).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, D) each
        return (1 + scale) * ln(x) + shift, gate

    def forward(self, x, c):
        z, gate = self.modulate(x, c)
        return x + gate * self.branch(z)


# %% tags=["optional"]
g = torch.Generator().manual_seed(131)
x, c, dy = (
    torch.randn(*s, generator=g) for s in ((2, 3, 6), (2, 4), (2, 3, 6))
)  # (B, T, D), (B, K), (B, T, D)
block = AdaLNZero(6, 4)
assert torch.equal(block(x, c), x)  # the identity
(block(x, c) * dy).sum().backward()
learns = {
    name: bool(p.grad.abs().max() > 0)
    for name, p in block.named_parameters()
    if "weight" in name
}
print("has a gradient at the start:", learns)
nn.init.normal_(block.listen.weight, generator=g)
shift, scale, _ = block.listen(c[:1]).squeeze(0).chunk(3)  # (D,) each
fixed = F.layer_norm(x, (6,), 1 + scale, shift)  # (B, T, D)
assert (block.modulate(x, c[:1].expand(2, 4))[0] - fixed).abs().max() < 1e-5  # float32

# %% [markdown]
# At the start only the gates learn; once they have opened, everything does. (The gradient of `listen` is that of its gate third.)
#
# ## 12.9 Which norm when
#
# One page. Each line comes with what speaks for it and where it fails.
#
# | you have | take | evidence | exception |
# |---|---|---|---|
# | a trained checkpoint | its own norm, its own $\epsilon$ | a default $\epsilon$ can change sizes threefold (12.2, [lesson 3](03_epsilon.ipynb)) | exact conversions (12.4) |
# | a new Transformer | Pre-LN or Pre-RMSNorm with a final norm | 12 layers at a rate of 0.003 train without warm-up, where Post-LN does not ([lesson 11](11_transformer.ipynb)); the two can compute the same (12.4) and trained alike (12.6) | Post-LN trains, too, with fewer layers, small first weights or a smaller rate, and was even ahead once (lesson 11) |
# | a recurrent net | LayerNorm inside the recurrence | a GRU learns at smaller learning rates: 15 to 28 points ahead at 0.03 to 0.3 ([lesson 10](10_rnn.ipynb)) | each at the best rate of the sweep: no difference in 16 pairs |
# | convolutions, large batches | BatchNorm | level with three other norms on the digits ([lesson 9](09_cnn.ipynb)), and can be folded away at inference ([lesson 6](06_batchnorm.ipynb)) | test images of low contrast: LayerNorm was far ahead, in a net of linear layers (lesson 9) |
# | convolutions, small batches | GroupNorm | no other sample counts (12.1); ResNet-50 on ImageNet at 2 images a device: 10.6 points less error than with BatchNorm (Wu & He, 2018) | BatchNorm pools pixels, too: count entries, not images |
# | contrast and level of each channel are to be ignored | InstanceNorm | it forgets just these (12.1) | where contrast carries meaning |
# | attention logits that grow | QK-norm | bounded by $\sqrt d$ (12.5) | gains that grow lift the bound |
# | hundreds of layers, Post-LN | DeepNorm | the first step does not grow with depth, up to 64 layers (12.7) | measured on a toy; much of it is a smaller step |
# | branches whose outputs blow up | Peri-LN | size and gradient of a branch are held (12.7) | one more norm for each branch |
# | a condition to listen to | AdaLN | the identity at the start (12.8) | more parameters: $3D(K+1)$ for each branch |
# | a ban on reductions | DyT | it trains (12.6) | a little behind LayerNorm in our run; the choice of $\alpha$ |
#
# Speed is missing in this table. RMSNorm does less arithmetic; whether it takes less *time* depends on the kernel: [lesson 13](13_speed.ipynb) measures LayerNorm, and leaves RMSNorm to you (its first question of "On your own").

# %% tags=["exercise"] id="ex-12-5"
# Exercise 12.5 · ●●○○○ · 5 min
# Choose for each case: "BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm" or
# "QK-norm". choices = {"a": "...", "b": "...", "c": "...", "d": "...", "e": "...", "f": "..."}
# a  A convolutional net for images of any size; two fit on a device. What one image gives must
#    not depend on the other. How strong one place is beside another, and one channel beside the
# next, must stay visible.
# b  A net repaints photos. Contrast and level of each channel of each photo should be
#    forgotten.
# c  A published Pre-LN Transformer for inference. Its function must stay, its weights may be
#    rewritten, means must go.
# d  You continue the training of a published Post-LN encoder that has LayerNorm with eps =
#    1e-12.
# e  In a long run the largest attention logits grow and grow. The residual stream is normalized
#    already.
# f  An image classifier of convolutions, 256 images a device. At inference the norm must cost
#    nothing.
### BEGIN SOLUTION
choices = {
    "a": "GroupNorm",
    "b": "InstanceNorm",
    "c": "RMSNorm",
    "d": "LayerNorm",
    "e": "QK-norm",
    "f": "BatchNorm",
}
### END SOLUTION

# %% tags=["check"]
check.choices(choices)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Look up each case in the fingerprint of 12.1: what may be noticed, what must be? Two cases are about weights that exist already.
#
# </details>
#
# ## 12.10 Clinic: a norm for the whole tensor
#
# A public collection of attention modules offers QK-norm in four lines. Here it is with the logits behind it, for q and k of shape (B, H, T, d): H heads, d numbers in each.


# %%
def patient_logits(q, k):
    """The patient: attention logits of normalized queries and keys.

    (B, H, T, d) twice -> (B, H, T, T).
    """
    q = nn.LayerNorm(q.size())(q)
    k = nn.LayerNorm(k.size())(k)
    return q @ k.mT / q.shape[-1] ** 0.5


# %% [markdown]
# The shapes are right, and the numbers look normalized. **Find it** with the two questions of 12.1. What must not happen in a net that predicts the next token, and does?

# %%
g = torch.Generator().manual_seed(132)
q, k = torch.randn(2, 2, 3, 5, 8, generator=g) * torch.tensor([1.0, 3.0, 30.0]).view(
    3, 1, 1
)  # (B, H, T, d): unlike heads
before = patient_logits(q, k)  # (B, H, T, T)
others, later = q.clone(), q.clone()
others[1].fill_(100.0), later[:, :, 4].fill_(100.0)
print(
    "sample 0 notices sample 1:",
    not torch.allclose(patient_logits(others, k)[0], before[0], rtol=1e-3),
)
print(
    "steps 0 to 3 notice step 4:",
    not torch.allclose(patient_logits(later, k)[:, :, :4], before[:, :, :4], rtol=1e-3),
)
print("a logit above sqrt(d):", bool(before.abs().max() > 8**0.5))

# %% [markdown]
# **Explain it.** `normalized_shape` is the shape of *everything*: one mean and one deviation for all samples, heads and steps. So samples mix, the past sees the future, and the loudest head sets the scale for all; the bound of 12.5 is lost.
# And a second fault hides behind the first: the layers are made anew at **every call**. Their gains, $B\cdot H\cdot T\cdot d$ of them, belong to no module, reach no optimizer and never learn. Made once with that shape, the layer would refuse every other batch size.
#
# **Mend it**, as a module. Any norm that makes the bound true is right.


# %% tags=["exercise"] id="ex-12-6"
# Exercise 12.6 · ●●○○○ · 6 min
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

# %%
mended = QKLogits(8)
after = mended(q, k)  # (B, H, T, T)
assert torch.allclose(
    mended(others, k)[0], after[0], atol=1e-5
)  # numbers of order 1 in float32
assert (
    torch.allclose(mended(later, k)[:, :, :4], after[:, :, :4], atol=1e-5)
    and after.abs().max() < 8**0.5 + 1e-5
)
print("parameters that an optimizer gets:", [tuple(p.shape) for p in mended.parameters()])

# %% [markdown]
# ## Take-away
#
# - **Two questions read any norm:** over which axes, and with the mean or without. It forgets what it subtracts and divides by (at $\epsilon = 0$, before gain and bias), and it notices everything it reduces over.
# - **Twins:** GroupNorm(1, C) = LayerNorm([C, H, W]) without the affine part; GroupNorm(C, C) = InstanceNorm = BatchNorm in training on a batch of one; LayerNorm = RMSNorm on rows of mean 0; ScaleNorm = RMSNorm with one gain; DeepNorm = Post-LN with a smaller branch. GroupNorm(1, C) is *not* the LayerNorm of tokens or pixels.
# - **GroupNorm** is the arithmetic of LayerNorm on another cut, with a gain for each channel.
# - **Pre-LN becomes Pre-RMSNorm exactly:** center what is written to the stream, fold the biases, same $\epsilon$, the final norm too.
# - **Choosing:** the table of 12.9. QK-norm bounds attention logits by $\sqrt d$ (gain 1, no bias); DyT is one S-curve for all rows.
#
# ## On your own
#
# 1. Write InstanceNorm with your GroupNorm, and LayerNorm([C, H, W]) with gains. Which parameters must be reshaped, and which cannot be?
# 2. GroupNorm counts neighboring channels as a group. What happens to a trained net whose channels are shuffled (all its weights with them)? And with LayerNorm?
# 3. Rotary positions rotate queries and keys after QK-norm. Does the bound of 12.5 survive, with gain 1? With other gains?
# 4. Turn the converted net of 12.4 back into one with LayerNorm. What is its bias?
#
# ## Further reading
#
# - Zhang & Sennrich (2019), *Root Mean Square Layer Normalization*; Jiang et al. (2023), *Pre-RMSNorm and Pre-CRMSNorm Transformers: Equivalent and Efficient Pre-LN Transformers* (the conversion of 12.4).
# - Wu & He (2018), *Group Normalization*, fig. 1 and fig. 2; Ulyanov, Vedaldi & Lempitsky (2016), *Instance Normalization*.
# - Nguyen & Salazar (2019), *Transformers without Tears* (ScaleNorm); Henry et al. (2020), *Query-Key Normalization for Transformers*; Dehghani et al. (2023), *Scaling Vision Transformers to 22 Billion Parameters* (normalized queries and keys).
# - Zhu et al. (2025), *Transformers without Normalization* (DyT); Stollenwerk (2026), *On the Mathematical Relationship Between Layer Normalization and Dynamic Activation Functions* (the S-curve of 12.6, for RMSNorm); *When Does Removing LayerNorm Help?* (2026), arXiv 2604.23434.
# - Wang et al. (2022), *DeepNet: Scaling Transformers to 1,000 Layers*; Kim et al. (2025), *Peri-LN: Revisiting Normalization Layer in the Transformer Architecture*; Peebles & Xie (2023), *Scalable Diffusion Models with Transformers* (adaLN-Zero).

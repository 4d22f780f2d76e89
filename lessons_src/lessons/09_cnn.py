# %% [markdown]
# # 9 · A CNN on digits: what a norm buys, and what it does not
#
# **What you'll do:** compute the sizes inside a convolutional net, put a norm into it, train it with four norms and with none, and then take the result apart with controls. *(about 50 min; the parts marked optional are extra, some 8 min more)*
#
# **You'll be able to**
# - compute the output size of any convolution or pooling layer, and refuse settings that cannot be;
# - put a norm between each convolution and its ReLU, with the right shape;
# - say what was held equal in a comparison, and which part of a gain comes from the initialization;
# - tell three common faults from the curves of a training run.
#
# **You need:** lessons [4](04_affine_and_module.ipynb) (the module) and [6](06_batchnorm.ipynb) (BatchNorm, `eval()`); `nn.Conv2d`, `nn.MaxPool2d` and a training loop.

# %% tags=["record"]
import copy
import itertools
from numbers import Integral

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import BatchNorm1d, LayerNorm  # lessons 6 and 4: the course's own solutions
from lessonkit import (
    check,
    data,
    plot,
    runs,
    train,
)  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# The layer that trains below is `fromscratch.LayerNorm`, the solution of lesson 4. To train with yours, paste its cells and imports from lesson 4 here; if your class has another name, add the line `LayerNorm = YourLayerNorm`.
#
# ## 9.1 How large is what comes out?
#
# `LayerNorm([C, H, W])` must be told H and W when it is made. They are those of the convolution's **output**, so we need them before any image has passed.
#
# A kernel of $k$ taps, $d$ pixels apart (the *dilation*), reaches over $d(k-1)+1$ pixels. It starts at the left edge of the padded image and moves on by the *stride* $s$ for as long as it fits.
#
# **Predict:** 8 pixels, padding 1 on both sides, three taps two pixels apart, stride 2. How many places are there?


# %%
def draw_places(ax):
    """Four places of a kernel over 8 pixels with padding 1; the last does not fit.

    The kernel has 3 taps, dilation 2 and stride 2.
    """
    for place in range(4):
        start = 2 * place
        ax.scatter(
            range(10),
            [-place] * 10,
            marker="s",
            s=330,
            color=["#F2F2F2", *["#D8DEE3"] * 8, "#F2F2F2"],
        )
        color = plot.COLORS["LayerNorm" if place < 3 else "BatchNorm"]
        ax.scatter([start, start + 2, start + 4], [-place] * 3, marker="s", s=110, color=color)
        text = f"place {place + 1}" if place < 3 else "does not fit"
        ax.text(
            -0.8,
            -place,
            text,
            ha="right",
            va="center",
            color=plot.ink(color),
            fontweight="bold",
        )
    ax.set(xlim=(-3.2, 10.8), ylim=(-3.6, 0.6))
    ax.axis("off")


# %%
plot.figure(
    draw_places,
    size=(6.5, 2.2),
    title="The kernel moves while it fits: three places, and no fraction of a fourth",
    caption="Light gray: 8 pixels; white gray at both ends: padding. Blue: the three taps of "
    "the kernel, two pixels apart, moving on by 2. "
    "Orange: the next step would end outside.",
    alt="Four rows of ten squares. In the first three rows three marked squares move right by "
    "two each; in the fourth the last one lies outside the row.",
)

# %% [markdown]
# Three. The first place is free; then count the whole steps that are left: $(8 + 2 - 5)/2 = 2.5$, so two.
#
# $$\text{out} = \left\lfloor \frac{L + 2p - d\,(k-1) - 1}{s} \right\rfloor + 1$$
#
# $\lfloor\cdot\rfloor$ rounds down. The same rule holds for pooling layers, and for each axis by itself.
# A kernel that reaches over more than $L + 2p$ pixels has no place at all; that is an error, not a size.
#
# Arguments as in PyTorch, one number for all axes or one for each, are brought into form by a helper:


# %% tags=["export"]
def _per_axis(name, value, axes, least):
    """Return value as a tuple, one whole number for each axis: 3 is (3, 3) for two axes."""
    several = isinstance(value, (tuple, list))
    numbers = tuple(value) if several else (value,) * axes
    if not all(
        isinstance(number, Integral) and not isinstance(number, bool) for number in numbers
    ):
        raise TypeError(
            f"{name} is {value!r}, expected a whole number, or a whole number for each axis: 3 "
            "or (3, 5)."
        )
    if len(numbers) != axes or not numbers:
        raise ValueError(
            f"{name} is {value!r}, expected one number for each axis: {axes or 'at least one'}."
        )
    if min(numbers) < least:
        raise ValueError(f"{name} is {value!r}, expected at least {least}.")
    return tuple(int(number) for number in numbers)


# %% tags=["exercise", "export"] id="ex-9-1"
# Exercise 9.1 · ●●○○○ · 7 min
def conv_output_shape(size, kernel_size, stride=1, padding=0, dilation=1):
    """Return the size of what a convolution or a pooling layer makes of an image.

    size: (H, W), or the sizes of any number of axes. kernel_size, stride, padding, dilation: as
    in nn.Conv2d, one whole number for all axes or one for each. Returns a tuple of whole
    numbers. Raises ValueError where the kernel does not fit into the padded image.
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"size is {size!r}, expected a whole number for each axis: (H, W).")
    given = {
        "size": (size, 1),
        "kernel_size": (kernel_size, 1),
        "stride": (stride, 1),
        "padding": (padding, 0),
    }
    given["dilation"] = (dilation, 1)
    axes = zip(
        *(_per_axis(name, value, len(size), least) for name, (value, least) in given.items()),
        strict=True,
    )
    # Your part: for each L, k, s, p, d in axes (size, kernel_size, stride, padding, dilation of
    # one axis) compute the output size, and return them all as a tuple. Raise a ValueError
    # where the kernel does not fit.
    ### BEGIN SOLUTION
    shape = []
    for L, k, s, p, d in axes:
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError(
                f"the kernel reaches over {reach} pixels and does not fit into {L} + 2 * {p} "
                "of them."
            )
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)
    ### END SOLUTION


# %% tags=["check"]
check.conv_output_shape(conv_output_shape)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Loop over `axes`. First the reach, `d * (k - 1) + 1`; compare it with `L + 2 * p`. Then the steps that are left, divided with `//`, and one more.
#
# </details>
#
# The test is a convolution that really runs. Every setting of a grid, the impossible ones included:


# %%
def by_running(L, k, s, p, d):
    """The size a real convolution returns, or None if it refuses."""
    try:
        return F.conv1d(torch.zeros(1, 1, L), torch.zeros(1, 1, k), None, s, p, d).shape[-1]
    except RuntimeError:
        return None


grid = list(
    itertools.product(range(1, 13), range(1, 7), range(1, 5), range(4), range(1, 4))
)  # L, k, s, p, d
real = [by_running(*setting) for setting in grid]

# %%
differ = []
for (L, *setting), size in zip(grid, real, strict=True):
    try:
        found = conv_output_shape((L,), *setting)
    except ValueError:
        found = (None,)
    differ += [(L, *setting)] if found != (size,) else []
assert not differ
print(
    f"all {len(grid)} settings agree, {sum(size is None for size in real)} of them are refused "
    "by both"
)

# %% [markdown]
# A public report prints this formula with a plain division. How far does that carry, where a size exists?

# %%
valid = [
    ((L + 2 * p - d * (k - 1) - 1) / s + 1, size)
    for (L, k, s, p, d), size in zip(grid, real, strict=True)
    if size
]
print(
    "plain division leaves a fraction in "
    f"{sum(exact != size for exact, size in valid) / len(valid):.0%} of them"
)
print(
    "rounded to the nearest it is wrong in "
    f"{sum(round(exact) != size for exact, size in valid) / len(valid):.0%}"
)
L, k, s, p, d = 2, 5, 3, 0, 1
print("and where no kernel fits, // alone says", (L + 2 * p - d * (k - 1) - 1) // s + 1)

# %% [markdown]
# A size of 0 that nobody refuses makes a layer without numbers. Hence the `ValueError`.
#
# ## 9.2 A place for the norm
#
# Six convolutions of 16 channels, for digits of 8 × 8 pixels. Padding 1 with a kernel of 3 keeps the size, pooling halves it after the third and the sixth.
# The norm, if there is one, stands **between convolution and ReLU**. It is a function of (C, H, W), so that one net serves for all norms.


# %% tags=["record"]
def cnn(norm=None, side=8, norm_last=False):
    """Six 3 x 3 convolutions of 16 channels and a linear layer.

    Each convolution has norm(C, H, W) before its ReLU (or behind it).
    """
    layers, channels = [], 1
    for depth in range(6):
        H = side if depth < 3 else side // 2
        made = [norm(16, H, H)] if norm else []
        conv = nn.Conv2d(channels, 16, 3, padding=1)
        layers += [conv, nn.ReLU(), *made] if norm_last else [conv, *made, nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (2, 5) else []
        channels = 16
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * (side // 4) ** 2, 10))


# %% [markdown]
# Four norms. `LayerNorm` is ours. What lesson 6 built, BatchNorm, takes (B, C) and (B, C, T); for images we take PyTorch's `nn.BatchNorm2d`, which is the same function of the pixels in a row.
# GroupNorm (4 groups of 4 channels) and InstanceNorm are PyTorch's; we have built neither so far.

# %%
norms = {
    "none": None,
    "LayerNorm": lambda C, H, W: LayerNorm([C, H, W]),
    "BatchNorm": lambda C, H, W: nn.BatchNorm2d(C),
    "GroupNorm": lambda C, H, W: nn.GroupNorm(4, C),
    "InstanceNorm": lambda C, H, W: nn.InstanceNorm2d(C, affine=True),
}
x = torch.randn(2, 16, 4, 5, generator=torch.Generator().manual_seed(91))  # (B, C, H, W)
ours = BatchNorm1d(16)(x.flatten(2)).unflatten(2, (4, 5))  # (B, C, H * W) and back
assert (ours - nn.BatchNorm2d(16)(x)).abs().max() < 1e-5  # float32, numbers of order 1

# %% [markdown]
# Our `cnn` knows its sizes because padding keeps them. A tool should not rely on that: put norms into *any* `nn.Sequential`, with the sizes computed.


# %% tags=["exercise"] id="ex-9-2"
# Exercise 9.2 · ●●●○○ · 7 min
def with_norms(net, norm, size):
    """Return a new nn.Sequential: net's own layers, norm(C, H, W) right behind each nn.Conv2d.

    net: nn.Sequential of nn.Conv2d, nn.MaxPool2d and layers that leave the size alone; it stays
    as it is. norm: function (C, H, W) -> layer, called anew for each convolution, with the
    shape of what that convolution returns. size: (H, W) of the images that enter net. Layers
    have attributes kernel_size, stride, padding, dilation; a convolution has out_channels too.
    """
    ### BEGIN SOLUTION
    layers = []
    for layer in net:
        layers.append(layer)
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            size = conv_output_shape(
                size, layer.kernel_size, layer.stride, layer.padding, layer.dilation
            )
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)
    ### END SOLUTION


# %% tags=["check"]
check.with_norms(with_norms)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Collect the layers in a list. Behind each layer ask two questions: does it change the size (convolution or pooling)? Is it a convolution?
#
# </details>
#
# The plain net with your norms must be our net, parameter by parameter. Both start from one seed, and a LayerNorm draws no random numbers.

# %%
torch.manual_seed(9)
plain = cnn()
torch.manual_seed(9)
built_in = cnn(norms["LayerNorm"])
put_in = with_norms(plain, norms["LayerNorm"], (8, 8))
x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(92))  # (B, C, H, W)
assert torch.equal(put_in(x), built_in(x))  # the same operations in the same order
print([tuple(layer.normalized_shape) for layer in put_in if isinstance(layer, LayerNorm)])

# %% [markdown]
# One axis never belongs into that shape: the batch. `LayerNorm(x.shape)` looks like a short way to write it; an issue in PyTorch's repository suggests it.

# %%
x = torch.randn(4, 2, 3, 5, generator=torch.Generator().manual_seed(93))  # (B, C, H, W)
changed = x.clone()
changed[3] += 10  # only the last image
whole, per_image = LayerNorm(x.shape), LayerNorm(x.shape[1:])
print(
    "with the batch, the other images change:",
    bool((whole(changed)[:3] - whole(x)[:3]).abs().max() > 0.1),
)
print("without it:", not torch.equal(per_image(changed)[:3], per_image(x)[:3]))
try:
    whole(x[:3])  # the last batch of an epoch is often smaller
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## 9.3 A chasm, and no difference
#
# Now train. What is held **equal**: the images in their order, the weights of convolutions and linear layer at the start, the learning rate, the number of steps. All of that is *paired*: run 3 of each net has the same of it.
# What is **not** equal: the norms have parameters of their own, and they take time. The learning rate falls in a straight line from 0.05 to nearly 0. Large first steps are fast, small last ones let the run settle. 0.05 and six epochs were chosen because all four norms train so; the plain net got no search of its own (section 9.4 makes up for that).

# %% tags=["record"]
digits = data.digits_split(0)  # x_train (1297, 8, 8), x_test (500, 8, 8), standardized


def accuracy(model):
    """Percent of the 500 test digits that the model reads right."""
    return 100 * (model(digits.x_test[:, None]).argmax(-1) == digits.y_test).double().mean()


def falling(step):
    """Factor on the learning rate: 1 at the first step, nearly 0 at the last of 126.

    Those are six epochs of 21 batches.
    """
    return 1 - (step - 1) / 126


def trained(models, lr, seeds=range(4), epochs=6, **options):
    """Train each model once per seed with plain SGD; return the histories. Batches of 64."""
    return train.compare(
        models,
        seeds=seeds,
        data=(digits.x_train[:, None], digits.y_train),
        epochs=epochs,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=lr, fused=True
        ),  # fused: the same rule, faster
        evaluate={"accuracy": accuracy},
        **options,
    )


# %% [markdown]
# **Predict:** six epochs. Which of the five nets ends up first, which last, and by how much?

# %% tags=["nbval-ignore-output"]
history = trained(
    {name: lambda name=name: cnn(norms[name]) for name in ("none", "LayerNorm")},
    lr=0.05,
    schedule=falling,
)

# %% tags=["nbval-ignore-output"]
others = {
    name: lambda name=name: cnn(norms[name])
    for name in ("BatchNorm", "GroupNorm", "InstanceNorm")
}
history |= trained(others, lr=0.05, schedule=falling)
train.table(history, "accuracy")

# %%
plot.lines(
    range(1, 7),
    {name: run["accuracy"] for name, run in history.items()},
    ylim=(0, 100),
    href={"chance": 10.0},
    title="Without a norm this net learns nothing, with any of four it does",
    x="epoch",
    y="test accuracy (%)",
    caption="Six convolutions on 8 × 8 digits, 1,297 to train and 500 to test, PyTorch's "
    "default initialization, SGD at 0.05 falling to 0, batches of 64; paired runs.",
    alt="Test accuracy over six epochs. Without a norm it stays near 10 percent. With "
    "LayerNorm, BatchNorm, GroupNorm and InstanceNorm it rises "
    "at different speeds to about 98 percent.",
)

# %%
final = {name: run["accuracy"][:, -1] for name, run in history.items()}  # (4,) each
assert (
    final["none"].max() < 30 and final["LayerNorm"].min() > 94
)  # 10 other seeds: at most 10.4, at least 96.8
normed = torch.stack(
    [final[name].mean() for name in norms if name != "none"]
)  # (4,) one for each norm
assert normed.min() > 95 and normed.max() - normed.min() < 3  # 10 other seeds: 97.7 to 98.3
print("a chasm between none and any; no difference among the four")

# %% [markdown]
# Read it with care:
#
# - **Without a norm: chance.** Almost 90 points below the rest, in every run.
# - **Among the four: nothing.** One image of 500 is 0.2 points, and the sampling error of one accuracy near 98 % is about 0.6. Half a point between two means says nothing.
# - **On the way** there are differences: InstanceNorm is early, the others scatter by many points after the first epoch. We assert nothing there.
#
# A public report shows such a chart and the verdict that LayerNorm does well, and leaves open data, metric and axes. Ours says them. But the net without a norm never had a chance. Why?
#
# ## 9.4 The honest control
#
# PyTorch draws a convolution's weights with a gain of 0.58, where a ReLU layer needs 1.41 ([lesson 1](01_why_normalize.ipynb)). After six layers little of the image is left.
# Kaiming's initialization has that gain.


# %% tags=["record"]
def kaiming(net):
    """Give all convolutions and linear layers Kaiming's weights and zero biases; return net."""
    for layer in net:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return net


@torch.no_grad()
def spread(net):
    """How much the 500 test images differ in what the last ReLU returns.

    The deviation over the images, relative to the mean size.
    """
    out = net[:-3](digits.x_test[:, None])  # (500, 16, 4, 4)
    return (out.std(0).norm() / out.mean(0).norm()).item()


# %%
for name, make in {
    "default": cnn,
    "Kaiming": lambda: kaiming(cnn()),
    "default + LN": lambda: cnn(norms["LayerNorm"]),
}.items():
    found = []
    for seed in range(8):
        torch.manual_seed(seed)
        found.append(spread(make()))
    print(
        f"{name:12}  differences between images are",
        "below 12 %" if max(found) < 0.12 else "above 17 %",
        "of the signal",
    )
    assert (
        max(found) < 0.12 if name == "default" else min(found) > 0.17
    )  # 40 seeds: at most 9.3 %, at least 20 %

# %% [markdown]
# With the default weights the biases drown the image: to the last layer all digits look much alike. Kaiming's weights and LayerNorm both mend that, each in its way.
#
# So give the plain net a fair start, and train both once more with the **same** six epochs and the same learning rates.
# To save time `nn.LayerNorm` trains from here to the end of 9.4; lesson 4 showed that it is the same function.

# %% tags=["exercise"] id="ex-9-3"
# Exercise 9.3 · ●●○○○ · 2 min
# Predict: with Kaiming's initialization, how far is LayerNorm ahead of no norm after six
# epochs? Bind kaiming_gap to "about 90 points", "about 45 points", "a few points at most" or
# "the other way round" (LayerNorm clearly behind).
### BEGIN SOLUTION
kaiming_gap = "a few points at most"
### END SOLUTION

# %% tags=["check"]
check.kaiming_gap(kaiming_gap)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What kept the plain net from learning, the missing norm or the drowned signal? Look at what the last cell printed.
#
# </details>


# %% tags=["record"]
def torch_norm(C, H, W):
    """PyTorch's LayerNorm over an image."""
    return nn.LayerNorm([C, H, W])


# %% tags=["nbval-ignore-output"]
fair = trained(
    {"none": lambda: kaiming(cnn()), "LayerNorm": lambda: kaiming(cnn(torch_norm))},
    lr=0.05,
    schedule=falling,
    every=126,
)
train.table(fair, "accuracy")
gap = fair["LayerNorm"]["accuracy"][:, -1].mean() - fair["none"]["accuracy"][:, -1].mean()
assert (
    -3 < gap < 6 and fair["none"]["accuracy"][:, -1].min() > 85
)  # 10 other pairs: 0.6 points on average; at least 93.8

# %% [markdown]
# The chasm was mostly the initialization's. What is left is about a point, and with four runs of 500 images we would not swear to it.
# Does LayerNorm then buy anything? Change the learning rate: constant now, for ten epochs. These runs were **recorded** (48 nets); set `rerun=True` to train them here, in a minute or so.


# %% tags=["record"]
def sweep(run, rates):
    """Test accuracy of four nets after ten epochs at rates[run // 4], seed run % 4.

    One that diverges counts 10 %.
    """
    lr, seed, found = rates[run // 4], run % 4, {}
    for name, norm in (("none", None), ("LayerNorm", torch_norm)):
        for start, prepare in (("default", lambda net: net), ("Kaiming", kaiming)):
            make = {name: lambda norm=norm, prepare=prepare: prepare(cnn(norm))}
            end = trained(make, lr, [seed], epochs=10, every=210)[name]["accuracy"]  # (1, 1)
            found[f"{name}, {start}"] = end.nan_to_num(10.0).item()
    return found


# %% tags=["record"]
# How far another processor may end from the record, in points (a test repeats run 0, at 0.03).
# Nets that train: rounding moves their end by a few images. At chance a net names one digit for
# all images: 7 to 14 %.
tolerance = {
    "none, default": 8,
    "none, Kaiming": 6,
    "LayerNorm, default": 6,
    "LayerNorm, Kaiming": 6,
}
lrs = [0.03, 0.1, 1.0]
record = runs.load_or_run(
    "cnn_learning_rates", sweep, seeds=range(12), tolerance=tolerance, rerun=False, rates=lrs
)

# %%
panels = {}
for start in ("default", "Kaiming"):
    curves = {
        name: record[f"{name}, {start}"].view(3, 4).T for name in ("none", "LayerNorm")
    }  # (4 seeds, 3 rates) each
    panels[f"{start} weights"] = (lrs, curves)

# %%
plot.panels(
    panels,
    xlog=True,
    ylim=(0, 105),
    title="LayerNorm trains from both starts, and at rates where the plain net fails",
    x="learning rate",
    y="test accuracy (%)",
    caption="After ten epochs at a constant rate; "
    f"{runs.note('cnn_learning_rates', '4 seeds a rate')}. A run that diverged counts as "
    "chance, 10 %.",
    alt="Two panels, test accuracy over the learning rates 0.03, 0.1 and 1. Default weights: "
    "without a norm near 10 percent at all three; with LayerNorm above 95 at "
    "0.03 and 0.1, and lower at 1. Kaiming's weights: both above 90 percent at 0.03 and 0.1; "
    "at 1 the net without a norm is at chance, with LayerNorm it is near 88.",
)

# %%
start_free = panels["default weights"][1]["LayerNorm"].mean(0)  # (3,) one for each rate
plain, normed = (
    panels["Kaiming weights"][1][name].mean(0) for name in ("none", "LayerNorm")
)  # (3,) each
assert start_free[:2].min() > 95 and (plain - normed)[:2].abs().max() < 4  # at 0.03 and 0.1
assert plain[2] < 15 and normed[2] > 80  # at 1.0
print("LayerNorm trains from both starts, and at a rate at which the plain net does not")

# %% [markdown]
# This is the claim that stands, for this net and these four seeds: **LayerNorm trains from both starts, and it works over a wider range of learning rates.**
#
# - At 0.03 and 0.1 LayerNorm ends at 97 to 99 % on average from either start. From Kaiming's weights, the plain net is about level with it.
# - At 1.0 every plain net ends at chance. LayerNorm is not at its best there, and the start counts again (74 % from the default weights, 89 % from Kaiming's), but it learns. (From Kaiming's weights we saw 64 to 91 % in six other runs.)
# - In between it depends on the run. At 0.3, four plain nets with Kaiming's weights ended at 90, 89, 97 and 8 %; their partners with LayerNorm all at 98 %.
#
# The first has a reason that you know: the signal's size does not depend on the weights' scale (lesson 1). The *speed* of learning does: in plain SGD at one rate, ten times the weights learn a hundred times more slowly (8.7). So two starts that differ by a factor of 2.4 are no license for any scale. For the second lesson 8 has a candidate, large steps make the weights grow and that makes the next steps smaller in effect ([8.7](08_geometry.ipynb)); we have not tested it on this net.
#
# ## 9.5 Batch size: where BatchNorm breaks, and where it is ahead
#
# For this we leave convolutions. In a CNN BatchNorm pools the pixels too: at batch size 2 the first norms still see 128 values for each channel. In a net of linear layers they see two.


# %%
def mlp(norm=None):
    """Three layers of 64 units, each with norm(64) before its ReLU, and a linear layer."""
    layers = [nn.Flatten()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% [markdown]
# Batches of 2, 8 and 64; the learning rate is scaled with the batch, 0.1 · B/64 (a common rule, and the same for both); five epochs.
# At batch size 2 that is 3,240 tiny steps a run, so here PyTorch's own two layers train. They compute what ours do and take about half the time.
#
# **Predict:** who wins at 2, at 8, at 64?

# %% tags=["nbval-ignore-output"]
torchs, kept = {"BatchNorm": nn.BatchNorm1d, "LayerNorm": nn.LayerNorm}, {}
models = {name: lambda norm=norm: mlp(norm) for name, norm in torchs.items()}
pairs = trained(
    {"BatchNorm": models["BatchNorm"]},
    lr=0.1 * 2 / 64,
    epochs=5,
    batch_size=2,
    drop_last=True,
    every=3240,
    keep=kept,
)

# %% tags=["nbval-ignore-output"]
pairs |= trained(
    {"LayerNorm": models["LayerNorm"]},
    lr=0.1 * 2 / 64,
    epochs=5,
    batch_size=2,
    drop_last=True,
    every=3240,
)
by_size = {2: pairs}
print("batch size 2:")
train.table(pairs, "accuracy")

# %% tags=["nbval-ignore-output"]
sizes = [2, 8, 64]
for B in sizes[1:]:
    by_size[B] = trained(models, lr=0.1 * B / 64, epochs=5, batch_size=B, drop_last=True)
    print(f"batch size {B}:")
    train.table(by_size[B], "accuracy")

# %%
plot.lines(
    [str(B) for B in sizes],
    {
        name: torch.stack([by_size[B][name]["accuracy"][:, -1] for B in sizes], dim=1)
        for name in torchs
    },
    ylim=(0, 103),
    href={"chance": 10.0},
    title="At batch size 2 BatchNorm collapses; at 8 the two are level",
    x="batch size",
    y="test accuracy (%)",
    caption="Three linear layers on the digits, SGD at 0.1 · B/64, five epochs, BatchNorm "
    "tested in eval(). What is seen at 64 is not settled by four runs.",
    alt="Test accuracy over batch sizes 2, 8 and 64. BatchNorm: about 62, 97 and 98 percent. "
    "LayerNorm: about 97 at all three.",
)

# %%
lead = {
    B: (run["LayerNorm"]["accuracy"] - run["BatchNorm"]["accuracy"])[:, -1]
    for B, run in by_size.items()
}
assert lead[2].min() > 20  # 18 pairs: at least 32
assert lead[8].mean().abs() < 2.5  # 12 other pairs: 0.3 points on average, at most 2.0
print("2: LayerNorm far ahead in every run; 8: no difference; 64: not settled by four runs")

# %% [markdown]
# - **At 2** a BatchNorm unit sees two values and returns −1 or 1 (lesson 6). It trains on one bit a unit and is tested on something else.
# - **At 8** and 16: level.
# - **At 64 BatchNorm is ahead**, by 1.5 points over 12 other seeds of ours (98.4 against 96.9 %). But LayerNorm has a tail here: of 320 runs 13 ended below 90 %. Four seeds catch such a run or do not; so they cannot establish two points, in either direction. We assert nothing.
#
# Is the damage at 2 done by the running averages? Compute the statistics of the finished nets anew, over all training images at once: (optional, 2 min)

# %% tags=["optional"]
after = []
for model in kept["BatchNorm"]:
    fresh = copy.deepcopy(model)
    for layer in fresh:
        if isinstance(layer, nn.BatchNorm1d):
            layer.reset_running_stats()
            layer.momentum = None  # all batches count alike: here there is one
    with torch.no_grad():
        fresh.train()(digits.x_train[:, None])
        after.append(accuracy(fresh.eval()))
assert max(after) < 85  # 6 other runs: 53 to 62
print("with exact statistics the nets are still far from 97 %: the damage was done in training")

# %% [markdown]
# ## 9.6 Tested in the wrong mode
#
# Train three nets with batches of 64 and keep them. Here the layers are ours again.

# %% tags=["nbval-ignore-output"]
nets = {}
healthy = trained(
    {"BatchNorm": lambda: mlp(BatchNorm1d), "LayerNorm": lambda: mlp(LayerNorm), "none": mlp},
    lr=0.1,
    epochs=10,
    every=210,
    keep=nets,
)
train.table(healthy, "accuracy")

# %% [markdown]
# A test loop that forgets `model.eval()` normalizes with the statistics of the *test* batch. What that does depends on the batch: on its size, and on what is in it.
# Files of a test set often lie sorted by class.

# %%
by_class = digits.y_test.argsort(stable=True)  # (500,) all zeros first, then all ones ...


@torch.no_grad()
def tested(model, batch_size, order=None, eval_mode=False):
    """Test accuracy of a copy of the model, in batches of the given order.

    By default as they come, in train() mode.
    """
    order = torch.arange(500) if order is None else order
    model = copy.deepcopy(model).train(not eval_mode)
    answers = [model(digits.x_test[rows, None]).argmax(-1) for rows in order.split(batch_size)]
    return 100 * (torch.cat(answers) == digits.y_test[order]).double().mean().item()


# %%
batches = [2, 8, 32, 125]
forgotten = {
    "BatchNorm, shuffled": [[tested(net, B) for B in batches] for net in nets["BatchNorm"]],
    "BatchNorm, sorted by class": [
        [tested(net, B, by_class) for B in batches] for net in nets["BatchNorm"]
    ],
    "LayerNorm, both": [
        [tested(net, B, by_class) for B in batches] for net in nets["LayerNorm"]
    ],
}

# %%
plot.lines(
    [str(B) for B in batches],
    forgotten,
    ylim=(0, 103),
    href={"chance": 10.0},
    colors={
        "BatchNorm, shuffled": "BatchNorm",
        "BatchNorm, sorted by class": "Post-LN",
        "LayerNorm, both": "LayerNorm",
    },
    title="Without eval(), BatchNorm's answer depends on the company",
    x="size of the test batches",
    y="test accuracy (%)",
    caption="Nets trained with batches of 64; in eval() each reads more than nine digits in "
    "ten. Each test works on a copy: the buffers, which would change as well, are not "
    "carried on.",
    alt="Test accuracy in train mode over the test batch size 2, 8, 32, 125. BatchNorm on "
    "shuffled images: 40, 84, 95, 96 percent; sorted by class: 10, 11, 20 and about 55 "
    "percent. "
    "LayerNorm: 98 at every size.",
)

# %%
for net in nets["LayerNorm"]:
    assert (
        abs(tested(net, 8, by_class) - tested(net, 500, eval_mode=True)) < 0.3
    )  # the same, but for a tie decided by rounding
assert healthy["BatchNorm"]["accuracy"][:, -1].min() > 88  # in eval(); 16 runs: at least 94.4
assert max(row[0] for row in forgotten["BatchNorm, shuffled"]) < 60  # 28 other runs: at most 46
assert (
    max(row[1] for row in forgotten["BatchNorm, sorted by class"]) < 25
)  # 28 other runs: at most 15
print(
    "sorted by class, in batches of 8: near chance, from nets that read nine digits in ten and "
    "more in eval()"
)

# %% [markdown]
# In a batch of eight threes, what all threes share is subtracted as the mean. What is left says little about the class.
# The CNN suffers less, for its statistics pool pixels: with BatchNorm, sorted in batches of 8, we measured 86 % (16 runs).
# LayerNorm has one mode; there is nothing to forget.
#
# ## 9.7 A dim picture, and a bright one
#
# Test time brings other pictures than training. Two changes: **contrast**, the standardized image times a factor, and **brightness**, the same number added to every pixel. The nets are those of 9.6, in `eval()`.
#
# **Predict:** against which of the two does LayerNorm protect?


# %%
@torch.no_grad()
def on(images, net):
    """Test accuracy in percent on changed test images, (500, 1, 8, 8)."""
    return 100 * (net(images).argmax(-1) == digits.y_test).double().mean().item()


factors, shifts, x = (
    [1.0, 0.5, 0.25, 0.1],
    [0.0, 0.5, 1.0],
    digits.x_test[:, None],
)  # x: (500, 1, 8, 8)
contrast = {
    name: [[on(f * x, net) for f in factors] for net in four] for name, four in nets.items()
}
brightness = {
    name: [[on(x + b, net) for b in shifts] for net in four] for name, four in nets.items()
}

# %%
plot.panels(
    {
        "contrast factor": ([f"{f:g}" for f in factors], contrast),
        "brightness shift": ([f"{b:g}" for b in shifts], brightness),
    },
    y=["test accuracy (%)", "test accuracy (%)"],
    x="change of the images",
    ylim=(0, 103),
    title="LayerNorm protects against low contrast, not against brightness",
    caption="The nets of section 9.6, trained on unchanged images, tested in eval(). The shift "
    "is in standard deviations of the training pixels.",
    alt="Two panels. Contrast from 1 to 0.1: LayerNorm stays at 97 percent down to 0.25, "
    "BatchNorm falls to 42 there. Brightness up to 1: BatchNorm falls to 78, LayerNorm "
    "to 90, the net without a norm loses least.",
)

# %%
end = {name: torch.tensor(rows) for name, rows in contrast.items()}  # (4 seeds, 4 factors)
led = end["LayerNorm"][:, 2] - end["BatchNorm"][:, 2]  # (4,) at 0.25
assert led.min() > 15 and led.mean() > 30  # 28 other pairs: 60 points on average, at least 40
lost = {
    name: (torch.tensor(rows)[:, 0] - torch.tensor(rows)[:, 2]).mean()
    for name, rows in brightness.items()
}
assert (
    lost["LayerNorm"] > 2
)  # points lost at a shift of 1; 12 other runs: 10 on average (BatchNorm 20, none 5)
print("contrast 0.25: LayerNorm far ahead in every run")

# %% [markdown]
# **Contrast.** $W(ax) = a\,Wx$: what the first norm gets is scaled with the image, and LayerNorm divides the factor out. Not exactly, for the bias is not scaled, nor is $\epsilon$; at a factor of 0.1 both tell.
# BatchNorm divides by the deviation it has *stored*, so the signal stays small.
#
# **Brightness.** $W(x + b\mathbf 1) = Wx + b\,W\mathbf 1$. That adds another number to each unit, and LayerNorm removes only what is the same for all. In 12 runs LayerNorm lost 10 points at a shift of 1, BatchNorm 20, and the net without a norm 5.
# So brightness is **not** a reason to choose LayerNorm. A norm on the image itself would help: `LayerNorm` over the 64 pixels removes a shift at once.
#
# ## 9.8 What [C, H, W] costs
#
# Each pixel of each channel has its own gain and its own bias. Count them, for larger images:


# %%
def parameters(kind, norm, side):
    """How many parameters the layers of one kind have, for images of side x side pixels."""
    return sum(
        p.numel()
        for layer in cnn(norm, side)
        if isinstance(layer, kind)
        for p in layer.parameters()
    )


# %%
sides = [8, 16, 32, 64, 224]
counts = {
    "convolutions": [parameters(nn.Conv2d, None, side) for side in sides],
    "C·H·W gains": [parameters(LayerNorm, norms["LayerNorm"], side) for side in sides],
    "C gains": [
        parameters(nn.GroupNorm, lambda C, H, W: nn.GroupNorm(1, C), side) for side in sides
    ],
}
print(
    *(f"{name:12} {', '.join(f'{n:,}' for n in row)}" for name, row in counts.items()), sep="\n"
)

# %%
plot.lines(
    sides,
    counts,
    xlog=True,
    ylog=True,
    colors={"C·H·W gains": "LayerNorm", "convolutions": "none", "C gains": "GroupNorm"},
    title="Gains for each pixel grow with the image, convolutions do not",
    x="side of the image (pixels)",
    y="parameters in six layers",
    caption="The net of this lesson, counted, gains and biases together. C·H·W gains: "
    "LayerNorm([C, H, W]). C gains: GroupNorm(1, C) or LayerNorm per pixel.",
    alt="Parameters over image side 8 to 224 on logarithmic axes. Convolutions stay at 11,760, "
    "C times H times W gains grow from 7,680 to 6 million, C gains stay at 192.",
)

# %% [markdown]
# 7,680 beside 11,760 for our digits; at 224 × 224, six million. And the net is tied to one size:

# %%
larger = torch.randn(2, 1, 12, 12, generator=torch.Generator().manual_seed(98))  # (B, C, H, W)
try:
    cnn(norms["LayerNorm"])[:-2](larger)
except RuntimeError as error:
    print(error)
print("GroupNorm(1, C):", tuple(cnn(lambda C, H, W: nn.GroupNorm(1, C))[:-2](larger).shape))

# %% [markdown]
# (Our linear layer at the end fixes the size as well. Nets that take any size average over the pixels there; then the norm is what ties them.)
#
# Two ways out, both with C gains and none of them tied to a size ([lesson 4](04_affine_and_module.ipynb), section 4.6): **GroupNorm(1, C)**, which has the same statistics as LayerNorm([C, H, W]), and **LayerNorm per pixel** over the channels, which is another function.
# So the size is needed for the *gains* only: `F.layer_norm(x, x.shape[1:])` without gains takes any image.
#
# ## 9.9 Before or after ReLU? (optional, 3 min)
#
# Some put the norm behind the activation. With LayerNorm in our CNN (PyTorch's, as in 9.4), trained as in 9.3:


# %% tags=["optional", "record"]
def placements(seed):
    """Test accuracy with the norm before the ReLU and behind it."""
    models = {
        "before": lambda: cnn(torch_norm),
        "after": lambda: cnn(torch_norm, norm_last=True),
    }
    history = trained(models, 0.05, [seed], schedule=falling, every=126)
    return {name: run["accuracy"].flatten() for name, run in history.items()}


places = runs.load_or_run(
    "cnn_norm_placement", placements, seeds=range(8), tolerance=3
)  # rounding: a few images

# %% tags=["optional"]
print(
    "paired difference, mean over 8 seeds:",
    f"{(places['before'] - places['after']).mean():.1f} points",
)
print(
    "largest difference of one pair:",
    f"{(places['before'] - places['after']).abs().max():.1f} points",
)
assert (places["before"] - places["after"]).mean().abs() < 1.5

# %% [markdown]
# No difference that 500 images could show. This is a null result for *this* net; it is no theorem. (The record has eight seeds; it is read here, not run.)
#
# ## 9.10 Three sick runs
#
# Somebody shows you the curves of three runs of the `mlp`, each with **one** fault, and a healthy one. The training script tests after each epoch in batches of 10 of the test set, which lies sorted by class.
# We add one measurement: after a call of `eval()`, 50 test images, one image at a time.
# (The two cells of code below hold one of the faults; go to the figure first.)


# %% tags=["hide-input"]
class Norm9(nn.Module):
    """One of the layers that the runs below are made of."""

    def forward(self, x):
        return (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)


# %% tags=["hide-input"]
def watched(name, norm, loss=F.cross_entropy, eval_mode=True):
    """Train one mlp on four seeds and watch it, after every second epoch."""
    watch = {
        "script": lambda model: tested(model, 10, by_class, eval_mode=not model.training),
        "alone": lambda model: tested(model, 1, torch.arange(0, 500, 10), eval_mode=True),
    }
    return train.compare(
        {name: lambda: mlp(norm)},
        seeds=range(4),
        data=(digits.x_train[:, None], digits.y_train),
        epochs=10,
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
        evaluate=watch,
        every=42,
        eval_mode=eval_mode,
    )


# %% tags=["nbval-ignore-output"]
sick = watched("healthy", LayerNorm)
sick |= watched("run A", lambda D: Norm9())
sick |= watched("run B", LayerNorm, loss=lambda out, y: F.cross_entropy(out.sigmoid(), y))
sick |= watched("run C", BatchNorm1d, eval_mode=False)

# %%
plot.panels(
    {
        "training loss": (range(2, 11, 2), {name: run["loss"] for name, run in sick.items()}),
        "test accuracy in the script": (
            range(2, 11, 2),
            {name: run["script"] for name, run in sick.items()},
        ),
        "after eval(), one by one": (
            range(2, 11, 2),
            {name: run["alone"] for name, run in sick.items()},
        ),
    },
    x="epoch",
    y=["nats", "%", "%"],
    colors={"healthy": "none"},
    markers=False,
    size=(9.5, 3.1),
    title="Three runs with one fault each: which is which?",
    caption="Middle: batches of 10, sorted by class. Right: the same nets after a call of "
    "eval(), 50 images one at a time.",
    alt="Three panels over ten epochs. Training loss: healthy, A and C fall to near 0, B to "
    "1.6. Test in the script: healthy and B reach above 95, A and C stay near 13. "
    "Image by image after eval: healthy, B and C reach above 95, A stays near 8.",
)

# %% tags=["exercise"] id="ex-9-4"
# Exercise 9.4 · ●●●○○ · 4 min
# Bind diagnosis to a dictionary with the keys "run A", "run B", "run C". Each value is one of
#     "sigmoid before cross-entropy", "norm over the batch axis", "eval() forgotten",
#     "learning rate too large", "nothing is wrong".
### BEGIN SOLUTION
diagnosis = {
    "run A": "norm over the batch axis",
    "run B": "sigmoid before cross-entropy",
    "run C": "eval() forgotten",
}
### END SOLUTION

# %% tags=["check"]
check.diagnosis(diagnosis)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Ask in this order. Does the training loss get near zero? Does the test depend on which images come together? Does `eval()` mend it?
#
# </details>

# %%
last = {
    name: {key: run[key][:, -1] for key in ("loss", "script", "alone")}
    for name, run in sick.items()
}
assert (
    last["run B"]["loss"].min() > 1.4612 and last["run B"]["script"].min() > 80
)  # 12 runs: 1.60 and 93.4
for name in ("run A", "run C"):
    assert (
        last[name]["loss"].max() < 0.3 and last[name]["script"].max() < 25
    )  # 12 runs: 0.06 and 14.8
assert (
    last["run A"]["alone"].max() < 35 < 75 < last["run C"]["alone"].min()
)  # 12 runs: 16 and 90
floor = -torch.tensor([1.0] + [0.0] * 9).log_softmax(0)[0]
print(
    f"the lowest cross-entropy of ten sigmoids: {floor:.4f}; chance: "
    f"{torch.tensor(10.0).log():.4f}"
)

# %% [markdown]
# - **Run B: the sigmoid.** With outputs between 0 and 1 the best answer is one 1 and nine 0s, and its loss is $-\ln\frac{e}{e+9} = 1.46$. The loss cannot fall below, gradients are small, and the accuracy may still look fine. Give cross-entropy **logits**.
# - **Run C: `eval()` forgotten.** BatchNorm normalizes with ten threes at a time. Calling `eval()` mends it, and no training is lost.
# - **Run A: a norm over the batch axis**, without running statistics. It is fine in training and needs company in the test; image by image it subtracts each image from itself. `eval()` changes nothing. A set of public notes describes LayerNorm so.
#
# A learning rate that is too large looks different: a loss that jumps, or `nan`.
#
# ## 9.11 Clinic: ten mistakes in thirty lines
#
# A public report builds this CNN: convolution 3 → 5, LayerNorm, ReLU, convolution 5 → 10, LayerNorm, ReLU, a linear layer. As printed it does not run. Mend what the error message says, and the next mistake shows; it takes ten rounds.
# Two are missing imports. Here are the other eight, each alone (optional, 3 min; nothing below needs it):


# %% tags=["optional"]
class NoSuper(nn.Module):
    """The net's first lines, without super().__init__()."""

    def __init__(self):
        self.conv = nn.Conv2d(3, 5, 3)


# %% tags=["optional"]
conv, size = nn.Conv2d(3, 5, 3), 3
faults = {
    "nn.Conv2D": lambda: nn.Conv2D(3, 5, 3),
    "no super().__init__()": NoSuper,
    "an index into kernel size 3": lambda: size[0],
    "a size from a plain division": lambda: LayerNorm([5, 60 / 2, 60 / 2]),
    "nn.Dense, Keras' name": lambda: nn.Dense(10),
    "nn.Linear with one size": lambda: nn.Linear(10),
    "input, the built-in, for inputs": lambda: conv(input),
    "no flatten": lambda: nn.Linear(10 * 28 * 28, 10)(torch.zeros(4, 10, 28, 28)),
}

# %% tags=["optional"]
for fault, attempt in faults.items():
    try:
        attempt()
        print(f"{fault}: no error")
    except (AttributeError, TypeError, RuntimeError) as error:
        print(f"{fault:32} {type(error).__name__}")

# %% [markdown]
# After ten repairs it runs. This is what it computes then (our words):


# %%
class Patient(nn.Module):
    """The published net, once its ten mistakes are mended."""

    def __init__(self, size, classes=10):
        super().__init__()
        H, W = size
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), LayerNorm([5, H - 2, W - 2])
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), LayerNorm([10, H - 4, W - 4])
        self.dense = nn.Linear(10 * (H - 4) * (W - 4), classes)

    def __call__(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return torch.sigmoid(self.dense(x.flatten(1)))


# %% [markdown]
# **Find it.** No error is left. Two faults are. Each of these four lines is a hint; which line points to which?

# %%
images = torch.zeros(4, 3, 32, 32)  # (B, C, H, W)
patient, calls = Patient((32, 32)), []
patient.register_forward_hook(lambda *_: calls.append(1))
out = patient(images)
print(
    "shape:",
    tuple(out.shape),
    "  between 0 and 1:",
    bool((out >= 0).all() and (out <= 1).all()),
)
print("how often the forward hook was called:", len(calls))
parts = [
    sum(p.numel() for n, p in patient.named_parameters() if kind in n)
    for kind in ("norm", "conv")
]
print("parameters of the two norms:", parts[0], "  of the two convolutions:", parts[1])
try:
    patient(torch.zeros(4, 3, 33, 33))
except RuntimeError as error:
    print("33 x 33:", error)

# %% [markdown]
# **Explain it.** The **sigmoid** is run B's fault. **`__call__`** is the method of `nn.Module` that runs hooks and then `forward`. Who overrides it loses hooks, and with them the tools that hang on them; `patient.forward(images)` does not exist.
# The last two lines are no faults but a price: 41 times as many numbers in the norms as in the convolutions, and one image size (9.8).
#
# **Mend it:**


# %% tags=["exercise"] id="ex-9-5"
# Exercise 9.5 · ●●●○○ · 6 min
class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions without padding, each with LayerNorm([C, H, W]) and ReLU; logits.

    The channels go 3 -> 5 -> 10. size: (H, W) of the images. classes: how many logits.
    Images (B, 3, H, W) go in, (B, classes) come out.
    Attributes: conv1, norm1, conv2, norm2, dense.
    """

    def __init__(self, size, classes=10):
        super().__init__()
        # Your part, first half: make the five layers. conv_output_shape tells the sizes.
        ### BEGIN SOLUTION
        first = conv_output_shape(size, 3)
        second = conv_output_shape(first, 3)
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), LayerNorm([5, *first])
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), LayerNorm([10, *second])
        self.dense = nn.Linear(10 * second[0] * second[1], classes)
        ### END SOLUTION

    def forward(self, images):
        """Images (B, 3, H, W) -> logits (B, classes).

        It is called forward: nn.Module's own __call__ runs it.
        """
        # Your part, second half: convolution, norm and ReLU, twice; then the linear layer.
        ### BEGIN SOLUTION
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.dense(x.flatten(1))
        ### END SOLUTION


# %% tags=["check"]
check.small_cnn(SmallCNN)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Without padding each convolution takes two pixels from height and width: the second size is `conv_output_shape` of the first. The linear layer's input is channels times height times width.
# In `forward`, `x.flatten(1)` keeps the batch axis, and nothing stands behind the linear layer.
#
# </details>
#
# The report closes with a wish for topics. What comes next here: recurrent nets ([lesson 10](10_rnn.ipynb)), Transformers ([11](11_transformer.ipynb)), the family of norms ([12](12_family.ipynb)), speed ([13](13_speed.ipynb)), and a clinic of broken layers ([14](14_clinic.ipynb)).
#
# ## Take-away
#
# - **Sizes:** $\lfloor (L + 2p - d(k-1) - 1)/s \rfloor + 1$ for each axis, rounded down; a kernel that does not fit is an error. Needed only because of the gains of `LayerNorm([C, H, W])`.
# - **Where:** between convolution and ReLU; behind the ReLU made no difference here. Never the batch axis in `normalized_shape`.
# - **What it bought, measured:** with PyTorch's default weights everything (from 10 to 98 %); with Kaiming's about a point. It trains from both starts, and learns at a rate where the plain net does not. Among four norms: no difference.
# - **Batch size, `eval()`, contrast** (the net of linear layers)**:** BatchNorm collapses at batch size 2, and without `eval()` on sorted batches; LayerNorm does not care. It helps against low contrast, and not against brightness. At batch size 64 BatchNorm was ahead, by 1.5 points over 12 seeds.
# - **Curves:** a loss that stays above 1.46 is a sigmoid; a test that depends on the company is a batch norm in the wrong mode, if `eval()` mends it, or a norm over the batch axis, if not.
#
# ## On your own
#
# 1. Replace LayerNorm([C, H, W]) by `nn.GroupNorm(1, C)`. Does the accuracy change? How many parameters do you save?
# 2. Take the biases out of the first layer of `mlp(LayerNorm)`, and set $\epsilon = 0$ in the first norm. Is the trained net now invariant to contrast, exactly?
# 3. Make `cnn` twelve layers deep (no pooling in between). What does Kaiming's initialization do then, with and without LayerNorm? Four seeds, please.
# 4. Run the sweep of 9.4 at 0.3, and with BatchNorm. Where does its range end?
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, section 6.7: their first experiments with convolutional nets, in which BatchNorm was ahead.
# - Wu & He (2018), *Group Normalization*: fig. 1, error over batch size on ImageNet: at 2 images a device 34.7 % with BatchNorm, 24.1 % with GroupNorm.
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, section 2.2: the initialization.
# - Dumoulin & Visin (2016), *A guide to convolution arithmetic for deep learning*: the sizes, drawn.
# - Bouthillier et al. (2021), *Accounting for Variance in Machine Learning Benchmarks*: what a comparison over few seeds can show.

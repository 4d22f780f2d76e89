# %% [markdown]
# # 9 · A CNN on digits: what a norm buys, and what it does not
#
# Six convolutions and one linear layer are to read handwritten digits of 8 × 8 pixels. The network starts with PyTorch's own initial weights and sees 1,297 digits six times. Guessing reads 10 %.

# %% tags=["hide-input", "record"]
import copy
import itertools
from numbers import Integral

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import (
    check,
    data,
    plot,
    runs,
    show,
    train,
)  # sets torch to one thread (LESSON_THREADS)
from lessonkit.mine import BatchNorm1d, LayerNorm  # lessons 6 and 4

digits = data.digits_split(0)  # x_train (1297, 8, 8), x_test (500, 8, 8), standardized
print(f"{len(digits.x_train)} digits to learn from, {len(digits.x_test)} to be tested on")


def accuracy(model, split=digits):
    """Percent of the 500 test digits that the model reads right."""
    return 100 * (model(split.x_test[:, None]).argmax(-1) == split.y_test).double().mean()


def trained(
    models,
    lr,
    seeds=range(4),
    epochs=6,
    falls=True,
    split=digits,
    optimizer=torch.optim.SGD,
    **options,
):
    """Train each model once per seed and return the histories; plain SGD, unless told.

    Batches of 64, so 21 steps an epoch. The rate falls in a straight line to nearly 0.
    """
    steps = 21 * epochs
    return train.compare(
        models,
        seeds=seeds,
        data=(split.x_train[:, None], split.y_train),
        epochs=epochs,
        loss=F.cross_entropy,
        # fused: the same rule, faster
        optimizer=lambda parameters: optimizer(parameters, lr=lr, fused=True),
        schedule=(lambda step: 1 - (step - 1) / steps) if falls else None,
        evaluate={"accuracy": lambda model: accuracy(model, split)},
        **options,
    )


# %% tags=["record"]
def cnn(norm=None, side=8):
    """Six 3 x 3 convolutions of 16 channels, each with a ReLU, and a linear layer.

    norm: a function (C, H, W) -> layer, or None. side: of the images, in pixels.
    """
    layers, channels = [], 1
    for depth in range(6):
        H = side if depth < 3 else side // 2
        layers += [nn.Conv2d(channels, 16, 3, padding=1)]
        layers += [norm(16, H, H), nn.ReLU()] if norm else [nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (2, 5) else []
        channels = 16
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * (side // 4) ** 2, 10))


# %% tags=["nbval-ignore-output"]
run = trained({"no norm": cnn}, lr=0.05, seeds=[0])["no norm"]
show("training loss, epoch by epoch", run["loss"][0], digits=1)
show("the loss of a blind guess    ", torch.tensor(10.0).log(), digits=1)
print(f"test digits read right: {run['accuracy'][0, -1]:.0f} %")

# %% tags=["hide-input"]
assert run["accuracy"][0, -1] < 15 and run["loss"][0, -1] > 2.2  # 16 other runs: at most 10.4

# %% [markdown]
# It has learned nothing. With a normalization layer (a *norm*, for short) after each convolution the same network reads 98 %, and it is tempting to conclude that it needs one.
# This lesson puts the norm in, and then finds out with controls what it bought.
#
# *About 80 min.* **You'll be able to**
# - compute the output size of a convolution or a pooling layer, and refuse settings that cannot be;
# - put a norm between each convolution and its ReLU, with the right shape;
# - say which part of an improvement is due to a norm, and which part its control gets as well;
# - say what the batch, the mode and the contrast of a picture do to BatchNorm and to LayerNorm;
# - diagnose a training run from its curves.
#
# **You need** [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 6](06_batchnorm.ipynb) (BatchNorm, `eval()`), `nn.Conv2d`, `nn.MaxPool2d` and a training loop.
#
# **Recall 9.1:** weights before a LayerNorm are made ten times as large. How fast does plain SGD at the same rate change them, relative to their size, at $\epsilon = 0$?
# - [ ] as before, because LayerNorm does not see the factor :: The output does not change, but the gradient becomes ten times smaller, and the weights ten times larger.
# - [x] a hundred times more slowly :: The gradient is ten times smaller and the weights are ten times larger, so their relative change is a hundredth.
# - [ ] ten times more slowly :: That is the gradient alone. The step has to be compared with the weights, which have grown as well.
#
# **Recall 9.2:** in training BatchNorm gets two rows of features, which differ in every feature. What does it return, before gain and bias and with a negligible $\epsilon$?
# - [ ] two standard normal rows :: The mean of each feature is 0 and its variance 1, but with two values that leaves no choice.
# - [ ] zeros :: One row would give an error in PyTorch. Two rows differ from their mean.
# - [x] only 1 and −1 :: Each feature has two values, one above their mean and one as far below it.
#
# **Recall 9.3:** which rows does the $\epsilon$ of a LayerNorm change most?
# - [x] rows of small variance :: The output has the variance v / (v + ε), so ε matters where v is not far above it.
# - [ ] rows with a large mean :: The mean is subtracted first, apart from rounding.
# - [ ] rows of large variance :: There v / (v + ε) is nearly 1.

# %% [markdown]
# ## 9.1 How large is what comes out?
#
# LayerNorm over an image, `LayerNorm([C, H, W])`, must be told C, H and W when it is made, and they are those of the convolution's *output*. How large is that?
#
# A kernel of $k$ taps, $d$ pixels apart (the *dilation*), reaches over $d(k-1)+1$ pixels. It starts at the left edge of the padded image and moves on by the *stride* $s$ for as long as it fits.
#
# **Predict 9.1:** 8 pixels, padding 1 on both sides, three taps two pixels apart, stride 2. How many places are there?
# - [ ] 4 :: The fourth place would begin at pixel 6 of 0 to 9 and end at pixel 10, which is outside.
# - [x] 3 :: The kernel reaches over 5 of 10 pixels, so 5 are left, and two whole steps of 2 follow the first place.
# - [ ] 3.5 :: That is what a plain division says: 1 + 5/2. Half a step has no place.
# - [ ] 2 :: Two steps of 2 fit into the 5 pixels that are left. The first place needs no step.


# %% tags=["hide-input"]
def draw_places(ax):
    """Four places of a kernel over 8 pixels with padding 1; the last does not fit.

    The kernel has 3 taps, dilation 2 and stride 2.
    """
    for place in range(4):
        start, shades = 2 * place, ["#F2F2F2", *["#D8DEE3"] * 8, "#F2F2F2"]
        ax.scatter(range(10), [-place] * 10, marker="s", s=330, color=shades)
        color = plot.COLORS["LayerNorm" if place < 3 else "BatchNorm"]
        ax.scatter([start, start + 2, start + 4], [-place] * 3, marker="s", s=110, color=color)
        text = f"place {place + 1}" if place < 3 else "does not fit"
        style = {"ha": "right", "va": "center", "fontweight": "bold"}
        ax.text(-0.8, -place, text, color=plot.ink(color), **style)
    ax.set(xlim=(-3.2, 10.8), ylim=(-3.6, 0.6))
    ax.axis("off")


# %% tags=["hide-input"]
plot.figure(
    draw_places,
    size=(6.5, 2.2),
    title="The kernel moves while it fits: three places, and no fraction of a fourth",
    caption="Grey: the 8 pixels; pale at both ends: padding. Blue: the three taps of the "
    "kernel, two pixels apart, moving on by 2. Orange: the next step would end outside.",
    alt="Four rows of ten squares. In the first three rows three marked squares move right by "
    "two each; in the fourth the last one lies outside the row.",
)

# %% [markdown]
# So count the whole steps and add the first place:
#
# $$\text{out} = \left\lfloor \frac{L + 2p - d\,(k-1) - 1}{s} \right\rfloor + 1$$
#
# for an axis of $L$ pixels with padding $p$ on both sides, where $\lfloor\cdot\rfloor$ rounds down. Pooling layers follow the same rule. A kernel that reaches over more than $L + 2p$ pixels has no place at all, and that is an error, not a size.


# %% tags=["hide-input", "export"]
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
# Exercise 9.1 · ●●○○○ · 5 min
def conv_output_shape(size, kernel_size, stride=1, padding=0, dilation=1):
    """Return the size of what a convolution or a pooling layer makes of an image.

    size: (H, W), or the sizes of any number of axes. kernel_size, stride, padding, dilation: as
    in nn.Conv2d, one whole number for all axes or one for each. Returns a tuple of whole
    numbers. Raises ValueError where the kernel does not fit into the padded image.
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"size is {size!r}, expected a whole number for each axis: (H, W).")
    n = len(size)
    axes = zip(
        _per_axis("size", size, n, least=1),
        _per_axis("kernel_size", kernel_size, n, least=1),
        _per_axis("stride", stride, n, least=1),
        _per_axis("padding", padding, n, least=0),
        _per_axis("dilation", dilation, n, least=1),
        strict=True,
    )
    # Your part: "for L, k, s, p, d in axes" gives the five numbers of one axis after the other.
    # Raise a ValueError where the kernel does not fit; return all output sizes as a tuple.
    ### BEGIN SOLUTION
    shape = []
    for L, k, s, p, d in axes:
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError(f"the kernel does not fit: {reach} pixels in {L} + 2 * {p}.")
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
# The best test is a convolution that really runs. Here is every setting of a grid, the impossible ones included.


# %% tags=["hide-input"]
def by_running(L, k, s, p, d):
    """The size a real convolution returns, or None if it refuses."""
    try:
        return F.conv1d(torch.zeros(1, 1, L), torch.zeros(1, 1, k), None, s, p, d).shape[-1]
    except RuntimeError:
        return None


def by_counting(L, *setting):
    """The size that conv_output_shape returns, or None if it refuses."""
    try:
        return conv_output_shape((L,), *setting)[0]
    except ValueError:
        return None


grid = list(  # L, k, s, p, d
    itertools.product(range(1, 13), range(1, 7), range(1, 5), range(4), range(1, 4))
)
real = [by_running(*setting) for setting in grid]
same = sum(by_counting(*setting) == size for setting, size in zip(grid, real, strict=True))
sizes = [
    ((L + 2 * p - d * (k - 1) - 1) / s + 1, size)
    for (L, k, s, p, d), size in zip(grid, real, strict=True)
    if size
]
fraction = sum(exact != size for exact, size in sizes) / len(sizes)
rounded = sum(round(exact) != size for exact, size in sizes) / len(sizes)
print(f"{same} of {len(grid)} settings agree; the convolution refuses {real.count(None)}")
print(f"a plain division leaves a fraction in {fraction:.0%} of the others")
print(f"rounded to the nearest whole number, it is wrong in {rounded:.0%}")
assert same == len(grid)

# %% [markdown]
# The formula alone does not find the error: for a kernel of 5 with stride 3 on 2 pixels it says 0.
#
# ## 9.2 A place for the norm
#
# Where does the norm go, and with which shape? The usual place is **between convolution and ReLU**. Each norm below is a function of (C, H, W), so that one network serves for all of them.
#
# `LayerNorm` is the layer of [lesson 4](04_affine_and_module.ipynb): yours, if it passed its check there, otherwise the course's. The other three are PyTorch's; [lesson 6](06_batchnorm.ipynb) has their layouts.
#
# **Predict 9.2:** the six convolutions of `cnn` hold 11,760 numbers. How many do six layers `LayerNorm([C, H, W])` add, for images of 8 × 8 pixels?
# - [ ] 192 :: That is a gain and a bias for each channel: 6 · 2 · 16. The other norms have so few.
# - [x] 7,680 :: Each pixel of each channel has its own gain and bias: three times 2 · 16 · 64, and after pooling three times 2 · 16 · 16.
# - [ ] 12 :: That would be one gain and one bias for a whole image. LayerNorm has a gain for each entry of normalized_shape.

# %%
norms = {
    "LayerNorm": lambda C, H, W: LayerNorm([C, H, W]),
    "BatchNorm": lambda C, H, W: nn.BatchNorm2d(C),
    "GroupNorm": lambda C, H, W: nn.GroupNorm(4, C),  # 4 groups of 4 channels
    "InstanceNorm": lambda C, H, W: nn.InstanceNorm2d(C, affine=True),
}
count = lambda net: sum(p.numel() for p in net.parameters())
for name, norm in norms.items():
    print(f"{name:12} adds {count(cnn(norm)) - count(cnn()):5,} numbers")

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(91)
x = torch.randn(2, 16, 4, 5, generator=g)  # (B, C, H, W)
ours = BatchNorm1d(16)(x.flatten(2)).unflatten(2, (4, 5))  # (B, C, H * W) and back
assert (ours - nn.BatchNorm2d(16)(x)).abs().max() < 1e-5  # float32, numbers of order 1

# %% [markdown]
# In `cnn` the sizes are known, because its padding keeps them. A tool should not rely on that, so let it put norms into *any* `nn.Sequential` and compute the sizes.


# %% tags=["exercise"] id="ex-9-2"
# Exercise 9.2 · ●●●○○ · 5 min
def with_norms(net, norm, size):
    """Return a new nn.Sequential: net's own layers, norm(C, H, W) right after each nn.Conv2d.

    net: nn.Sequential of nn.Conv2d, nn.MaxPool2d and layers that leave the size alone; it stays
    as it is. norm: function (C, H, W) -> layer, called anew for each convolution, with the
    shape of what that convolution returns. size: (H, W) of the images that enter net.
    nn.Conv2d and nn.MaxPool2d have attributes kernel_size, stride, padding and dilation, and
    nn.Conv2d has out_channels.
    """
    ### BEGIN SOLUTION
    layers = []
    for layer in net:
        layers.append(layer)
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            size = conv_output_shape(size, *settings)
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)
    ### END SOLUTION


# %% tags=["check"]
check.with_norms(with_norms)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Collect the layers in a list. After each layer ask two questions: does it change the size (convolution or pooling)? Is it a convolution?
#
# </details>
#
# Your norms in the plain network must give the network with norms, number by number. Both start from one seed, and a LayerNorm draws no random numbers.

# %% tags=["hide-input"]
torch.manual_seed(9)
put_in = with_norms(cnn(), norms["LayerNorm"], (8, 8))
torch.manual_seed(9)
built_in = cnn(norms["LayerNorm"])
x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(92))  # (B, C, H, W)
print("the same output:", torch.equal(put_in(x), built_in(x)))
print([tuple(layer.normalized_shape) for layer in put_in if isinstance(layer, LayerNorm)])

# %% [markdown]
# One axis never belongs into that shape. `LayerNorm(x.shape)` looks like a short way to write it, and [pytorch#76613](https://github.com/pytorch/pytorch/issues/76613) suggests it.
#
# **Predict 9.3:** four images go through `LayerNorm(x.shape)`, and then once more with 10 added to every pixel of the last one. Which outputs differ?
# - [ ] that of the last image only :: One mean is taken over all four images, so it moves for each of them. With `LayerNorm(x.shape[1:])` no output differs, not even the last.
# - [ ] none, because LayerNorm removes a shift :: It removes what is added to *all* numbers it reduces over. Here 10 is added to a quarter of them.
# - [x] those of all four :: One mean is taken over all four images, so each image now depends on the others.

# %%
x = torch.randn(4, 2, 3, 5, generator=torch.Generator().manual_seed(93))  # (B, C, H, W)
changed = x.clone()
changed[3] += 10  # only the last image
for name, layer in {
    "x.shape": LayerNorm(x.shape),
    "x.shape[1:]": LayerNorm(x.shape[1:]),
}.items():
    moved = (layer(changed) - layer(x)).abs().amax((1, 2, 3)) > 1e-3  # (B,)
    print(f"LayerNorm({name}): outputs that differ: {moved.tolist()}")

# %% [markdown]
# Such a layer also refuses the last batch of an epoch, if that is smaller. So the norm goes between convolution and ReLU, its shape is the convolution's output, and the batch axis stays out.
#
# ## 9.3 Four norms and none
#
# What do the norms do for the training? For one seed all networks have the same images in the same order, the same initial weights of convolutions and linear layer, the same learning rate and the same number of steps; such runs are *paired*. The norms also have parameters of their own.
# The rate falls in a straight line from 0.05 to nearly 0, and was chosen because all four norms train with it.
#
# **Predict 9.4:** six epochs, four runs each. How do the four norms compare at the end?
# - [ ] LayerNorm leads by five points or more :: All four read nearly everything. There is no room for five points.
# - [ ] BatchNorm leads by five points or more :: It is ahead in most pairs, but by less than a point on average.
# - [x] they end within two points of each other :: All four end at about 98 percent, and the differences are a few images of 500.
# - [ ] InstanceNorm stays far below the others :: It is even the fastest in the first epoch.

# %% tags=["hide-input", "nbval-ignore-output"]
made = {"none": cnn} | {name: (lambda n=norm: cnn(n)) for name, norm in norms.items()}
history = trained({name: made.pop(name) for name in ("none", "LayerNorm")}, lr=0.05)

# %% tags=["nbval-ignore-output"]
history |= trained(made, lr=0.05)  # the other three
train.table(history, "accuracy")

# %% tags=["hide-input"]
plot.lines(
    range(1, 7),
    {name: run["accuracy"] for name, run in history.items()},
    ylim=(0, 100),
    href={"chance": 10.0},
    title="In six epochs of SGD this network learns with any of four norms, not without",
    x="epoch",
    y="test accuracy (%)",
    caption="Six convolutions on 8 × 8 digits, 1,297 to train and 500 to test, PyTorch's "
    "default initial weights, SGD at 0.05 falling to 0, batches of 64; paired runs.",
    alt="Test accuracy over six epochs. Without a norm it stays near 10 percent. With "
    "LayerNorm, BatchNorm, GroupNorm and InstanceNorm it rises "
    "at different speeds to about 98 percent.",
)

# %% tags=["hide-input"]
final = {name: run["accuracy"][:, -1] for name, run in history.items()}  # (4,) each
# 16 other runs without a norm: at most 10.4; 24 with LayerNorm, on two splits: at least 96
assert final["none"].max() < 30 and final["LayerNorm"].min() > 94
normed = torch.stack([final[name].mean() for name in norms])  # (4,) one for each norm
assert normed.min() > 95 and normed.max() - normed.min() < 3

# %% [markdown]
# Almost 90 points lie between none and any, and little between the norms: one image is 0.2 points. Little is not nothing. In 24 other pairs, on two splits of the digits, BatchNorm was ahead of LayerNorm in 18 and level in 2, by 0.7 points on average (single pairs from −0.8 to 1.8). Four pairs are too few to show that.
#
# So in six epochs of this SGD any of the four norms makes the difference between chance and 98 %. Is that because the network *needs* a norm?
#
# ## 9.4 Why the net without a norm failed
#
# A comparison is worth as much as its control, and a network at chance is a poor one: nobody chose its optimizer, its rate or its initial weights for it. Change one of them at a time.
#
# **Predict 9.5:** the same network without a norm, the same default weights, and six epochs again, but Adam (at 0.003) in the place of SGD. Where does it end?
# - [ ] still near 10 %, because the weights are the same :: The gradient is small, not zero. Adam divides it by its own size, so that the steps are not small.
# - [x] at about 93 %, some points below LayerNorm :: It can learn. What failed was this initialization together with this optimizer.
# - [ ] level with LayerNorm :: The same Adam takes LayerNorm to nearly 99 %. Several points are left.


# %% tags=["hide-input", "record"]
def kaiming(net):
    """Give all convolutions and linear layers Kaiming's weights and zero biases; return net."""
    for layer in net:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return net


def torch_norm(C, H, W):
    """PyTorch's LayerNorm over an image: the same function as lesson 4's, and faster."""
    return nn.LayerNorm([C, H, W])


# %% tags=["nbval-ignore-output"]
pair = {"none": cnn, "LayerNorm": lambda: cnn(torch_norm)}
adam = trained(pair, lr=0.003, seeds=range(2), optimizer=torch.optim.Adam, every=126)
train.table(adam, "accuracy")

# %% tags=["hide-input"]
# 16 other pairs on two splits: none 89.8 to 96.0, LayerNorm 97.8 to 99.2,
# LayerNorm ahead by 2.8 to 9.2
assert adam["none"]["accuracy"].min() > 80
assert (adam["LayerNorm"]["accuracy"] - adam["none"]["accuracy"]).mean() > 2

# %% [markdown]
# So it can read without a norm. In 16 other pairs on two splits Adam took it to 93 % on average, and LayerNorm to 99 %: six points of the 90 are left.
# SGD takes a larger rate and patience: four runs at a constant 0.2 passed 50 % after 11 to 25 epochs and ended between 53 and 97 %, while at 0.05 eight runs were still near chance after 25 epochs. Why is that?
#
# PyTorch draws the default weights of a convolution so that their weight scale is 0.58, where a ReLU layer needs 1.41 ([lesson 1](01_why_normalize.ipynb)). Each layer shrinks the image, while its biases stay as they are. The next cell measures what is left before the linear layer: by how much the test images differ there, relative to what they share.


# %% tags=["hide-input"]
@torch.no_grad()
def difference(net):
    """How much the 500 test images differ in what the last ReLU returns, in percent.

    The deviation over the images, relative to the size of their mean.
    """
    out = net[:-3](digits.x_test[:, None])  # (500, 16, 4, 4)
    return 100 * (out.std(0).norm() / out.mean(0).norm()).item()


# %% tags=["hide-input", "nbval-ignore-output"]
starts = {
    "default weights": cnn,
    "Kaiming's weights": lambda: kaiming(cnn()),
    "default weights and LayerNorm": lambda: cnn(torch_norm),
}
left = {name: [] for name in starts}
for name, make in starts.items():
    for seed in range(8):
        torch.manual_seed(seed)
        left[name].append(difference(make()))
    print(f"{name:30} {min(left[name]):4.0f} to {max(left[name]):3.0f} %")

# %% tags=["hide-input"]
# 40 seeds: at most 9.3 % with the default weights, at least 20 % with the others
assert max(left["default weights"]) < 12
assert min(left["Kaiming's weights"] + left["default weights and LayerNorm"]) > 17

# %% [markdown]
# With the default weights all digits look nearly alike to the last layer. Kaiming's weights cure that, and so does LayerNorm. Now both networks get Kaiming's weights, and six epochs of the same SGD.
#
# **Predict 9.6:** how far is LayerNorm ahead of no norm then?
# - [ ] about 90 points :: That was the gap with the default weights, where the image was lost on its way.
# - [ ] about 45 points :: That would be a network that half learns. With a signal of the right size it learns.
# - [x] a few points at most :: Both get the image through, so both learn, and little is left for the norm to do.

# %% tags=["nbval-ignore-output"]
fair = {name: (lambda make=make: kaiming(make())) for name, make in pair.items()}
fair = trained(fair, lr=0.05, seeds=range(2), every=126)
train.table(fair, "accuracy")

# %% tags=["hide-input"]
gap = (fair["LayerNorm"]["accuracy"] - fair["none"]["accuracy"]).mean()
# 16 other pairs on two splits: -1.4 to 3.0, on average 0.8; none at least 92.6
assert -3 < gap < 6 and fair["none"]["accuracy"][:, -1].min() > 85

# %% [markdown]
# Two runs cannot even show who is ahead. Over 16 other pairs on two splits LayerNorm was ahead by 0.8 points on average (−1.4 to 3.0): of 90 points about one is left. (Kaiming's weights do not help LayerNorm: with the same seeds it ended two points lower than from the default ones.)
#
# ### What is left: the learning rate
#
# Both networks now learn at 0.05. Does the norm allow larger rates? These runs are recorded: 16 pairs for each rate, eight seeds on each of two splits of the digits.
#
# **Predict 9.7:** Kaiming's weights, no norm. It learns at 0.1, and at 1 all 16 runs end at chance. What do the 16 runs do at 0.3?
# - [ ] all of them learn :: Half of them do. Which side a run falls on depends on its draw of weights and batches, on either split.
# - [x] some learn and some end at chance :: The recipe is the same for all 16. Only the draws of weights, batches and split differ, and either split has runs of both kinds.
# - [ ] all end halfway, near 60 % :: That is their mean. Only two of the 16 end between 25 and 90 %.


# %% tags=["hide-input", "record"]
def sweep(run, rates):
    """Test accuracy of two networks from Kaiming's weights, after six epochs, in percent.

    run: 16 for each rate: eight seeds on each of two splits of the digits. One that diverges
    counts 10 %.
    """
    split = data.digits_split(3 * (run % 16 // 8))
    models = {"no norm": lambda: kaiming(cnn()), "LayerNorm": lambda: kaiming(cnn(torch_norm))}
    found = trained(models, rates[run // 16], [run % 8], split=split, every=126)
    return {name: run["accuracy"].nan_to_num(10.0).item() for name, run in found.items()}


rates = [0.1, 0.3, 1.0]
# How far a different processor may end from the record, in points: a test repeats run 0, at
# 0.1, where both learn. Rounding moves the end by a few images.
record = runs.load_or_run(
    "cnn_learning_rates", sweep, seeds=range(48), tolerance=6, rates=rates
)


# %% tags=["hide-input"]
ends = {name: values.view(3, 16) for name, values in record.items()}  # (rates, runs)


def draw_ends(axes):
    """One panel a network: a dot for each run, at its rate."""
    for ax, (name, values) in zip(axes, ends.items(), strict=True):
        color = plot.COLORS["none" if name == "no norm" else "LayerNorm"]
        for at, row in enumerate(values.tolist()):
            places = [at + 0.035 * (i - 7.5) for i in range(16)]
            ax.scatter(places, row, s=20, color=color, alpha=0.75, linewidths=0)
        ax.axhline(10, color="#5F6B73", linestyle="--", linewidth=1)
        ax.set(xticks=range(3), xticklabels=[f"{rate:g}" for rate in rates], ylim=(0, 104))
        ax.set_title(name, fontsize=12, color=plot.ink(color), loc="left", pad=22)
        ax.set_xlabel("learning rate")
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("test accuracy (%)")


# %% tags=["hide-input"]
plot.figure(
    draw_ends,
    size=(8.6, 3.1),
    ncols=2,
    sharey=True,
    title="At 0.3 the draw decides whether the network without a norm learns; with LayerNorm "
    "every run does",
    caption="A dot is a run: six epochs of SGD, the rate falling to 0; "
    f"{runs.note('cnn_learning_rates', '16 paired runs a rate, two splits')}. A run that "
    "diverged counts as 10 %. Dashed: chance. Sideways the dots are only spread apart.",
    alt="Two panels of dots, test accuracy of 16 runs at each of the learning rates 0.1, 0.3 "
    "and 1. Without a norm: all near 96 percent at 0.1; at 0.3 eight above 90, five near 8 and "
    "three in between; all near 9 at 1. With LayerNorm: near 97 at 0.1, 93 to 98 at 0.3, "
    "scattered from 8 to 83 at 1.",
    numbers={
        "network": [name for name in ends for _ in range(48)],
        "learning rate": [rate for _ in ends for rate in rates for _ in range(16)],
        "test accuracy (%)": torch.stack([*ends.values()]).flatten().tolist(),
    },
)

# %% tags=["hide-input"]
print("lowest, mean and highest test accuracy of 16 runs")
for name, values in ends.items():
    cells = [f"{row.min():3.0f} {row.mean():3.0f} {row.max():3.0f}" for row in values]
    print(f"{name:18}", "   ".join(f"{r:g}: {c}" for r, c in zip(rates, cells, strict=True)))

# %% tags=["hide-input"]
plain, normed = ends["no norm"], ends["LayerNorm"]  # (3 rates, 16 runs) each
assert plain[0].min() > 94 and normed[0].min() > 94 and normed[1].min() > 93
assert (plain[1] > 90).sum() == 8 and (plain[1] < 10).sum() == 5 and plain[2].max() <= 10

# %% [markdown]
# At 0.1 all runs learn, and LayerNorm is one point ahead on average. At 0.3 it ends at 93 to 98 % in all 16 runs. Without a norm eight runs end above 90 %, five at chance and three in between, so their mean, 60 %, describes none of them: from one run at such a rate nothing can be concluded. At 1 it is LayerNorm whose runs scatter, and the control is at chance throughout.
# [Lesson 8](08_geometry.ipynb) has a candidate for the reason: large steps make weights before a norm longer, and longer weights turn less at the next step. We have not tested it on this network.
#
# So the norm let this network learn from poor initial weights, and gave it room for larger rates. From Kaiming's weights at 0.05 and 0.1, where its control learned in every run, about a point was left.
#
# ## 9.5 Two images in a batch
#
# BatchNorm takes its statistics from the batch. When does that hurt? In a CNN it pools the pixels too, so that even a batch of two gives 128 values a channel in the first three layers of `cnn`. Take a network of linear layers, where two images are two values.


# %% tags=["record"]
def mlp(norm=None):
    """Three layers of 64 units, each with norm(64) before its ReLU, and a linear layer."""
    layers = [nn.Flatten()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% [markdown]
# Training batches of 2, 8 and 64, five epochs, a constant rate that is scaled with the batch, 0.1 · B/64 (a convention, the same for both norms). BatchNorm is tested in `eval()`.
#
# **Predict 9.8:** who reads more digits at the end?
# - [ ] LayerNorm at 2, 8 and 64 :: Eight values give statistics that are good enough here, and at 64 BatchNorm is ahead.
# - [ ] nobody: `eval()` gives both what they need :: The damage is done in training: a unit that returns only 1 and −1 carries one bit.
# - [x] LayerNorm at 2 by far; at 8 and 64 they are a few points apart at most :: With two values a unit returns only 1 and −1, and little of the image is left. With 8 or 64 BatchNorm does well.

# %% tags=["hide-input", "nbval-ignore-output"]
torchs = {"BatchNorm": nn.BatchNorm1d, "LayerNorm": nn.LayerNorm}
models = {name: (lambda n=norm: mlp(n)) for name, norm in torchs.items()}
by_size, kept = {}, {}
for B in (2, 8, 64):
    options = {
        "batch_size": B,
        "drop_last": True,
        "falls": False,
        "seeds": range(2),
        "every": 5 * (1297 // B),
    }
    by_size[B] = trained(
        models, lr=0.1 * B / 64, epochs=5, keep=kept if B == 2 else None, **options
    )
    for name, run in by_size[B].items():
        row = ", ".join(f"{end:.0f}" for end in sorted(run["accuracy"][:, -1].tolist()))
        print(f"batch size {B:2}, {name}: two runs ended at {row} %")

# %% tags=["hide-input"]
lead = {
    B: run["LayerNorm"]["accuracy"] - run["BatchNorm"]["accuracy"] for B, run in by_size.items()
}
assert lead[2].min() > 20  # 16 other pairs on two splits: 30 to 54; 18 more: at least 32
assert lead[8].mean().abs() < 2.5  # 12 other pairs: 0.3 points on average, at most 2.0

# %% [markdown]
# In 16 other pairs, on two splits, LayerNorm led by 30 to 54 points at 2, and BatchNorm by 1.5 on average at 64. Two runs cannot show the second.
#
# The *test* batch can hurt as well, if `eval()` is forgotten: that was the opening of [lesson 6](06_batchnorm.ipynb), and [Deeper](#Tested-in-the-wrong-mode) measures it again. LayerNorm has one mode, and there is nothing to forget.
#
# So BatchNorm needs enough values of each unit in a batch, and LayerNorm does not look at the batch at all.
#
# ## 9.6 A dim picture, and a bright one
#
# Test pictures differ from training pictures. Does a norm protect against that? Two changes: **contrast**, the standardized image times a factor, and **brightness**, one number added to every pixel. Three networks of linear layers are trained on batches of 64, all from Kaiming's weights, and tested in `eval()`: with BatchNorm (the class of lesson 6: yours, if it passed), with LayerNorm, and, as the **control**, without a norm.
#
# **Predict 9.9:** contrast 0.25. Which of the three networks lose ten points or more?
# - [ ] BatchNorm and the one without a norm :: Without a norm and with small biases the scores shrink all alike, so the largest stays the largest.
# - [x] BatchNorm only :: It divides by the deviation of training and subtracts the mean of training, which no longer fit. The control hardly loses anything.
# - [ ] only the one without a norm, because norms remove a factor :: LayerNorm does, nearly. BatchNorm in eval() divides by stored numbers.
# - [ ] none of them :: BatchNorm loses most of its digits.


# %% tags=["hide-input", "nbval-ignore-output"]
nets = {}
three = {
    "BatchNorm": lambda: kaiming(mlp(BatchNorm1d)),
    "LayerNorm": lambda: kaiming(mlp(LayerNorm)),
    "none": lambda: kaiming(mlp()),
}
healthy = trained(three, lr=0.1, epochs=10, falls=False, every=210, keep=nets)


@torch.no_grad()
def on(images, net):
    """Test accuracy in percent on changed test images, (500, 1, 8, 8)."""
    return 100 * (net(images).argmax(-1) == digits.y_test).double().mean().item()


factors, shifts = [1.0, 0.5, 0.25, 0.1], [0.0, 0.5, 1.0]
images = digits.x_test[:, None]  # (500, 1, 8, 8)
contrast = {
    name: [[on(f * images, net) for f in factors] for net in four]
    for name, four in nets.items()
}
brightness = {
    name: [[on(images + b, net) for b in shifts] for net in four] for name, four in nets.items()
}

# %% tags=["hide-input", "nbval-ignore-output"]
print("points lost, mean of four networks")
for name in nets:
    dim, bright = (
        torch.tensor(contrast[name]),  # (nets, changes)
        torch.tensor(brightness[name]),
    )
    lost = ", ".join(f"{points:z.0f}" for points in (dim[:, :1] - dim)[:, 1:].mean(0))
    lost_b = ", ".join(f"{points:z.0f}" for points in (bright[:, :1] - bright)[:, 1:].mean(0))
    print(f"{name:9} contrast 0.5, 0.25, 0.1: {lost:12} brightness 0.5, 1: {lost_b}")

# %% tags=["hide-input"]
plot.panels(
    {
        "contrast factor": ([f"{f:g}" for f in factors], contrast),
        "brightness shift": ([f"{b:g}" for b in shifts], brightness),
    },
    y=["test accuracy (%)", "test accuracy (%)"],
    x="change of the images",
    ylim=(0, 103),
    title="BatchNorm breaks at low contrast; LayerNorm and no norm do not",
    caption="Networks trained on unchanged images, tested in eval(). The shift is in standard "
    "deviations of the training pixels.",
    alt="Two panels. Contrast from 1 to 0.1: LayerNorm and no norm stay at about 96 percent, "
    "BatchNorm falls to about 35 at 0.25 and to about 20 at 0.1. Brightness up to 1: "
    "BatchNorm falls most, LayerNorm less, the network without a norm least.",
)

# %% tags=["hide-input"]
dim = {name: torch.tensor(rows) for name, rows in contrast.items()}  # (4 nets, 4 factors)
# 16 other triples on two splits: at least 34
assert (dim["LayerNorm"] - dim["BatchNorm"])[:, 2].min() > 15
assert (dim["none"] - dim["BatchNorm"])[:, 2].min() > 15
for name in ("LayerNorm", "none"):  # lost at 0.1 in the same 16 runs: at most 1.4 and 3.6
    assert (dim[name][:, 0] - dim[name][:, 3]).max() < 12

# %% [markdown]
# **Contrast.** $W(ax) = a\,Wx$: with small biases the factor passes through the first layer, and LayerNorm divides it out. But the control says that there was nothing to protect against. Without a norm it passes through all layers ([lesson 1](01_why_normalize.ipynb)), all scores shrink alike, and the largest stays the largest.
# In 16 runs on two splits BatchNorm lost 64 points at 0.25 on average and 79 at 0.1, because it uses the mean and the deviation that it has *stored*. The other two lost at most 4 in any run. (From PyTorch's default weights both lost about 20 points at 0.1: their biases do not shrink with the picture.)
#
# **Brightness.** $W(x + b\mathbf 1) = Wx + b\,W\mathbf 1$ adds a different number to each unit, and LayerNorm removes only what is the same for all. In the same 16 runs a shift of 1 cost BatchNorm 25 points on average, LayerNorm 22, and the network without a norm 15.
#
# So neither change is a reason to prefer LayerNorm to no norm. Low contrast is a reason to prefer it to BatchNorm.
#
# ## 9.7 Three sick runs
#
# What do faults look like from outside? Below are the curves of a healthy run of `mlp` with LayerNorm, and of three runs with **one** fault each. (The code that made them comes after the exercise.)
# The training script tests in batches of 10 of the test set, which lies sorted by class. On the right, the same networks after a call of `eval()`, on 50 test images, one at a time.

# %% tags=["hide-input"]
sick = runs.recorded("cnn_three_faults")
kinds = ["healthy", "run A", "run B", "run C"]
epochs = [str(epoch) for epoch in range(2, 11, 2)]

# %% tags=["hide-input"]
plot.panels(
    {
        title: (epochs, {name: sick[f"{name}, {key}"] for name in kinds})
        for title, key in {
            "training loss": "loss",
            "test in the script": "script",
            "after eval(), one by one": "alone",
        }.items()
    },
    x="epoch",
    y=["nats", "%", "%"],
    colors={"healthy": "none"},
    markers=False,
    size=(9.5, 3.1),
    title="Three runs with one fault each: which is which?",
    caption="Test accuracy in the middle: batches of 10, sorted by class. On the right: the "
    "same networks after a call of eval(), 50 images one at a time. Recorded.",
    alt="Three panels over ten epochs. Training loss: healthy, A and C fall to near 0, B to "
    "1.6. Test in the script: healthy and B reach above 95, A and C stay near 13. "
    "Image by image after eval: healthy, B and C reach above 95, A stays near 7.",
)

# %% tags=["exercise"] id="ex-9-3"
# Exercise 9.3 · ●●●○○ · 3 min
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
# Ask in this order. Does the training loss get near zero? Does the test depend on which images come together? Does `eval()` cure it?
#
# </details>


# %% tags=["hide-input", "record"]
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


class OverTheBatch(nn.Module):
    """A norm over the batch axis, without running statistics."""

    def forward(self, x):
        return (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)


def three_faults(seed):
    """Watch four networks after epochs 2, 4, 6, 8 and 10: one healthy, three with a fault."""
    watch = {
        "script": lambda model: tested(model, 10, by_class, eval_mode=not model.training),
        "alone": lambda model: tested(model, 1, torch.arange(0, 500, 10), eval_mode=True),
    }
    squashed = lambda out, y: F.cross_entropy(out.sigmoid(), y)
    faults = {
        "healthy": (nn.LayerNorm, F.cross_entropy, True),
        "run A": (lambda D: OverTheBatch(), F.cross_entropy, True),
        "run B": (nn.LayerNorm, squashed, True),
        "run C": (nn.BatchNorm1d, F.cross_entropy, False),
    }
    found = {}
    for name, (norm, loss, eval_mode) in faults.items():
        history = train.compare(
            {name: lambda norm=norm: mlp(norm)},
            seeds=[seed],
            data=(digits.x_train[:, None], digits.y_train),
            epochs=10,
            loss=loss,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
            evaluate=watch,
            every=42,
            eval_mode=eval_mode,
        )[name]
        found |= {f"{name}, {key}": history[key][0] for key in ("loss", "script", "alone")}
    return found


# %% tags=["hide-input", "record"]
# How far a different processor may be from the record: nats of the loss, points of the tests
# (50 images one by one: one image is 2 points; early in training rounding counts most).
near = {"loss": 0.2, "script": 8, "alone": 20}
made = runs.load_or_run(
    "cnn_three_faults",
    three_faults,
    seeds=range(8),
    tolerance={
        f"{name}, {key}": allowed
        for name in ("healthy", "run A", "run B", "run C")
        for key, allowed in near.items()
    },
)

# %% tags=["hide-input"]
last = {key: values[:, -1] for key, values in made.items()}  # (8,) each
assert last["run B, loss"].min() > 1.4612 and last["run B, script"].min() > 80
for name in ("run A", "run C"):
    assert last[f"{name}, loss"].max() < 0.3 and last[f"{name}, script"].max() < 25
assert last["run A, alone"].max() < 35 < 75 < last["run C, alone"].min()
best = -torch.tensor([1.0] + [0.0] * 9).log_softmax(0)[0]
print(f"cross-entropy of a perfect answer made of ten sigmoids: {best:.2f}")

# %% [markdown]
# - **Run B: the sigmoid.** Its outputs lie between 0 and 1, so its best answer is one 1 and nine 0s, and the loss of that is $-\ln\frac{e}{e+9} = 1.46$. The loss cannot fall below, and still the accuracy may look fine. Give cross-entropy **logits**, scores of any sign.
# - **Run C: `eval()` forgotten.** BatchNorm normalizes with ten threes at a time. `eval()` before the test cures it, and the training is not lost.
# - **Run A: a norm over the batch axis**, without running statistics. It works in training and needs other images in the test too; alone, an image is subtracted from itself. `eval()` changes nothing.
#
# A loss above 1.46 alone is no proof of a sigmoid: the network of the opening stayed at 2.30. And a learning rate that is too large can show as a loss that jumps, as `nan`, or as a run that ends at chance, as in [section 9.4](#9.4-Why-the-net-without-a-norm-failed).
#
# ## 9.8 Clinic: ten mistakes in thirty lines
#
# A report on Weights & Biases, [Layer Normalization in Pytorch (With Examples)](https://wandb.ai/wandb_fc/LayerNorm/reports/Layer-Normalization-in-Pytorch-With-Examples---VmlldzoxMjk5MTk1) by Adrish Dey, ends with a CNN. As printed it raises ten errors, one after the other ([Deeper](#Ten-errors-in-a-row)). Once they are repaired, this is what it computes, in our words:


# %%
class Patient(nn.Module):
    """The published network, after ten repairs."""

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
# No error is left. Here are four observations:

# %% tags=["hide-input"]
images = torch.zeros(4, 3, 32, 32)  # (B, C, H, W)
patient, calls = Patient((32, 32)), []
patient.register_forward_hook(lambda *_: calls.append(1))
out = patient(images)
print("1. all outputs between 0 and 1:", bool(((out >= 0) & (out <= 1)).all()))
print("2. how often a forward hook was called:", len(calls))
of = lambda *layers: sum(p.numel() for layer in layers for p in layer.parameters())
print("3. numbers in the two norms:", of(patient.norm1, patient.norm2), end=", ")
print("in the two convolutions:", of(patient.conv1, patient.conv2))
try:
    patient(torch.zeros(4, 3, 33, 33))
except RuntimeError as error:
    print("4. images of 33 x 33:", type(error).__name__)

# %% [markdown]
# **Predict 9.10:** which of the four are faults, for a network that is trained with cross-entropy?
# - [ ] 1 only :: Observation 2 is a fault as well: tools that hang on hooks stop working, silently.
# - [ ] 2, 3 and 4 :: 3 and 4 are the price of a gain for each pixel, which is a choice. And 1 is run B's fault.
# - [ ] all four :: 3 and 4 are the price of a gain for each pixel. It is high here, but it is what `LayerNorm([C, H, W])` means.
# - [x] 1 and 2 :: 1 is run B's fault. 2: `__call__` belongs to nn.Module, which runs hooks in it, and then `forward`. 3 and 4 are the price of a gain for each pixel.
#
# Now cure what is a fault.


# %% tags=["exercise"] id="ex-9-4"
# Exercise 9.4 · ●●○○○ · 4 min
class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions without padding, each with LayerNorm([C, H, W]) and ReLU; logits.

    The channels go 3 -> 5 -> 10. size: (H, W) of the images. classes: how many logits, 10 by
    default. Images (B, 3, H, W) go in, (B, classes) come out; hooks run. The layers are
    attributes conv1, norm1, conv2, norm2, dense.
    """

    ### BEGIN SOLUTION
    def __init__(self, size, classes=10):
        super().__init__()
        first = conv_output_shape(size, 3)
        second = conv_output_shape(first, 3)
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), LayerNorm([5, *first])
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), LayerNorm([10, *second])
        self.dense = nn.Linear(10 * second[0] * second[1], classes)

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        return self.dense(F.relu(self.norm2(self.conv2(x))).flatten(1))

    ### END SOLUTION


# %% tags=["check"]
check.small_cnn(SmallCNN)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Copy the patient and change what must change. Without padding each convolution takes two pixels from height and width: the second size is `conv_output_shape` of the first.
#
# </details>
#
# `nn.Module.__call__` runs the hooks and then `forward`. A class that overrides `__call__` loses the hooks and all tools that rely on them, while `nn.Module`'s own `forward`, which is still there, raises `NotImplementedError`. So a network that runs, and even learns, can be wrong without an error.
#
# ## Take-away
#
# - **Sizes:** $\lfloor (L + 2p - d(k-1) - 1)/s \rfloor + 1$ for each axis; a kernel that does not fit is an error.
# - **Place:** between convolution and ReLU, in the shape of the convolution's output, never with the batch axis.
# - **What it bought, measured:** from PyTorch's default weights, six epochs of SGD gave 98 % with any of four norms, and chance without. The control without a norm reads 93 % with Adam, and from Kaiming's weights, at 0.05 and 0.1, it comes within about a point. So the norm bought learning from poor initial weights, and room for larger rates. BatchNorm was 0.7 points ahead of LayerNorm on average.
# - **Batch, mode, contrast,** in a net of linear layers: BatchNorm fails at batch size 2, without `eval()` on sorted batches, and at low contrast. LayerNorm does not; at low contrast the network without a norm does not, either.
# - **Curves:** with ten classes, a loss that stops at 1.46 or somewhat above, while the accuracy is good, points to a sigmoid before the cross-entropy. A test that depends on the other images points to BatchNorm in the wrong mode, if `eval()` cures it, or to a norm over the batch axis, if not.
#
# ## Deeper (optional, 5 min)
#
# ### What gains for each pixel cost
#
# Each pixel of each channel has its own gain and its own bias. Count them for larger images:

# %% tags=["hide-input"]
counted = lambda kind, norm, side: sum(
    p.numel()
    for layer in cnn(norm, side)
    if isinstance(layer, kind)
    for p in layer.parameters()
)
per_channel = lambda C, H, W: nn.GroupNorm(1, C)
sides = [8, 16, 32, 64, 224]
counts = {
    "convolutions": [counted(nn.Conv2d, None, side) for side in sides],
    "C·H·W gains": [counted(nn.LayerNorm, torch_norm, side) for side in sides],
    "C gains": [counted(nn.GroupNorm, per_channel, side) for side in sides],
}
for name, row in counts.items():
    print(f"{name:12}", ", ".join(f"{n:,}" for n in row))

# %% tags=["hide-input"]
plot.lines(
    sides,
    counts,
    xlog=True,
    ylog=True,
    colors={"C·H·W gains": "LayerNorm", "convolutions": "none", "C gains": "GroupNorm"},
    title="Only gains for each pixel grow with the image",
    x="side of the image (pixels)",
    y="parameters in six layers",
    caption="The network of this lesson, counted, gains and biases together. C·H·W gains: "
    "LayerNorm([C, H, W]). C gains: GroupNorm(1, C) or LayerNorm per pixel.",
    alt="Parameters over image side 8 to 224 on logarithmic axes. Convolutions stay at 11,760, "
    "C times H times W gains grow from 7,680 to 6 million, C gains stay at 192.",
)

# %% [markdown]
# At 224 × 224 pixels there are six million, and the network is tied to one image size. Two ways out have C gains and no size: **GroupNorm(1, C)**, with the same statistics as `LayerNorm([C, H, W])`, and **LayerNorm per pixel** over the channels, which is a different function ([lesson 4](04_affine_and_module.ipynb)). Without gains, `F.layer_norm(x, x.shape[1:])` takes any image.
#
# ### Before or after the ReLU
#
# Some put the norm after the activation. With LayerNorm in our CNN, trained as in [section 9.3](#9.3-Four-norms-and-none), eight recorded pairs:


# %% tags=["hide-input", "optional", "record"]
def norm_last(net):
    """Return the network with each LayerNorm after its ReLU."""
    layers = list(net)
    for i in range(len(layers) - 1):
        if isinstance(layers[i], nn.LayerNorm) and isinstance(layers[i + 1], nn.ReLU):
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return nn.Sequential(*layers)


def placements(seed):
    """Test accuracy with the norm before the ReLU and after it."""
    models = {"before": lambda: cnn(torch_norm), "after": lambda: norm_last(cnn(torch_norm))}
    history = trained(models, 0.05, [seed], every=126)
    return {name: run["accuracy"].flatten() for name, run in history.items()}


places = runs.load_or_run(
    "cnn_norm_placement", placements, seeds=range(8), tolerance=5
)  # rounding: a few images

# %% tags=["hide-input", "optional"]
apart = places["before"] - places["after"]  # (8, 1)
print(f"before minus after, mean of 8 pairs: {apart.mean():.1f} points", end=", ")
print(f"from {apart.min():.1f} to {apart.max():.1f}")
assert apart.mean().abs() < 1.5

# %% [markdown]
# For *this* network eight pairs show no clear difference.
#
# ### Exact statistics do not heal batch size 2
#
# Is the damage at batch size 2 done by the running averages? Compute the statistics of the finished networks of [section 9.5](#9.5-Two-images-in-a-batch) anew, over all training images at once:

# %% tags=["hide-input", "optional", "nbval-ignore-output"]
after = []
for model in kept["BatchNorm"]:
    fresh = copy.deepcopy(model)
    for layer in fresh:
        if isinstance(layer, nn.BatchNorm1d):
            layer.reset_running_stats()
            layer.momentum = None  # all batches count alike: here there is one
    with torch.no_grad():
        fresh.train()(digits.x_train[:, None])
        after.append(accuracy(fresh.eval()).item())
print("test accuracy with exact statistics:", ", ".join(f"{end:.0f}" for end in after), "%")
assert max(after) < 85  # 6 other runs: 53 to 62

# %% [markdown]
# They stay far from 97 %, so the damage was done in training.
#
# ### Tested in the wrong mode
#
# A test loop that forgets `model.eval()` normalizes with the statistics of the *test* batch, so the answer depends on which images come together, and the files of a test set often lie sorted by class. Here are the networks of [section 9.6](#9.6-A-dim-picture,-and-a-bright-one), in `train()`:

# %% tags=["hide-input"]
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
# 16 other runs on two splits: at most 39 and 13; in eval() at least 95.8
assert max(row[0] for row in forgotten["BatchNorm, shuffled"]) < 60
assert max(row[1] for row in forgotten["BatchNorm, sorted by class"]) < 25
assert healthy["BatchNorm"]["accuracy"][:, -1].min() > 88
for net in nets["LayerNorm"]:  # the same, but for a tie decided by rounding
    assert abs(tested(net, 8, by_class) - tested(net, 500, eval_mode=True)) < 0.3

# %% tags=["hide-input"]
plot.lines(
    [str(B) for B in batches],
    forgotten,
    ylim=(0, 103),
    href={"chance": 10.0},
    colors={
        "BatchNorm, shuffled": "BatchNorm",
        "BatchNorm, sorted by class": "#A84A00",
        "LayerNorm, both": "LayerNorm",
    },
    title="Without eval(), BatchNorm's answer depends on the other images of the batch",
    x="size of the test batches",
    y="test accuracy (%)",
    caption="Networks trained with batches of 64; in eval() each reads more than nine "
    "digits in ten. Each test works on a copy of the network.",
    alt="Test accuracy in train mode over the test batch size 2, 8, 32, 125. BatchNorm on "
    "shuffled images: 35, 84, 96, 97 percent; sorted by class: 9, 11, 18 and about 57 "
    "percent. LayerNorm: about 96 at every size.",
)

# %% [markdown]
# What eight threes share is subtracted as their mean, and that was what made them threes.
# These tests worked on copies. In a script that does not copy, every batch in `train()` also moves the running statistics, and `eval()` afterwards does not restore them: one pass over the sorted test set, in batches of 10, takes these networks from 97 to 92 % in `eval()` (means of 16 runs on two splits).
# The CNN suffers less, because its statistics pool pixels too: with BatchNorm, sorted in batches of 8, it reads 86 % (16 runs on two splits).
#
# ### Ten errors in a row
#
# Two of the ten mistakes in Dey's CNN are missing imports. Here are the other eight, each alone:


# %% tags=["hide-input", "optional"]
class NoSuper(nn.Module):
    """The net's first lines, without super().__init__()."""

    def __init__(self):
        self.conv = nn.Conv2d(3, 5, 3)


conv, kernel = nn.Conv2d(3, 5, 3), 3
faults = {
    "nn.Conv2D": lambda: nn.Conv2D(3, 5, 3),
    "no super().__init__()": NoSuper,
    "an index into kernel size 3": lambda: kernel[0],
    "a size from a plain division": lambda: nn.LayerNorm([5, 60 / 2, 60 / 2]),
    "nn.Dense, the name in Keras": lambda: nn.Dense(10),
    "nn.Linear with one size": lambda: nn.Linear(10),
    "input, the built-in, for inputs": lambda: conv(input),
    "no flatten": lambda: nn.Linear(10 * 28 * 28, 10)(torch.zeros(4, 10, 28, 28)),
}
for fault, attempt in faults.items():
    try:
        attempt()
        print(f"{fault}: no error")
    except (AttributeError, TypeError, RuntimeError) as error:
        print(f"{fault:32} {type(error).__name__}")

# %% [markdown]
# Each repair uncovers the next error, because Python stops at the first.
#
# ## On your own
#
# 1. Replace LayerNorm([C, H, W]) by `nn.GroupNorm(1, C)`. Does the accuracy change? How many parameters do you save?
# 2. Make `cnn` twelve layers deep (no pooling in between). What does Kaiming's initialization do then, with and without LayerNorm? Four seeds, please.
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, at the end of the experiments: convolutional networks, with BatchNorm ahead.
# - Wu & He (2018), *Group Normalization*, fig. 1: error over batch size on ImageNet.
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, eq. 10: the initialization.
# - Dumoulin & Visin (2016), *A guide to convolution arithmetic for deep learning*: the sizes, drawn.
# - Bouthillier et al. (2021), *Accounting for Variance in Machine Learning Benchmarks*.

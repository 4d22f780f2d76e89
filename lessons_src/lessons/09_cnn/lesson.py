# %% [markdown] tags=["trains"]
# # 9 · A CNN on digits: what a norm buys, and what it does not
#
# Your net of six convolutions shall read handwritten digits. You train it twice, once as it is and once with a LayerNorm between each convolution and its ReLU. The images, their order, the first weights and the learning rate are the same. Guessing reads 10 %.

# %% tags=["hide-input"]
# Imports and the digits.
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, evidence, plot
from lessonkit.mine import LayerNorm  # lesson 4

digits = data.digits_split(0)  # x_train (1297, 8, 8), x_test (500, 8, 8), standardized
print(f"{len(digits.x_train)} digits to learn from, {len(digits.x_test)} to be tested on")


# %% tags=["export", "hide-input"]
# Makes the net.
def digit_cnn(norm=None, side=8):
    """Six 3 x 3 convolutions, each with norm(C, H, W) and ReLU, and a linear layer."""
    layers, channels = [], 1
    for depth in range(6):
        H = side if depth < 3 else side // 2
        layers += [nn.Conv2d(channels, 16, 3, padding=1)]
        layers += [norm(16, H, H), nn.ReLU()] if norm else [nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (2, 5) else []
        channels = 16
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * (side // 4) ** 2, 10))


# %% tags=["export"]
def learn(net, digits, rate=0.05, batch_size=64, seed=0, epochs=6, optimizer=torch.optim.SGD):
    """Train a net, its rate falling to 0; return the percent it reads after each epoch."""
    x, y = digits.x_train[:, None], digits.y_train  # (N, 1, 8, 8), (N,)
    optimizer = optimizer(net.parameters(), lr=rate, fused=True)  # fused: the same, faster
    steps = epochs * math.ceil(len(x) / batch_size)
    fall = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    g, percent = torch.Generator().manual_seed(1_000_000 + seed), []
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=g).split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
            fall.step()
        net.eval()
        right = net(digits.x_test[:, None]).argmax(-1) == digits.y_test  # (500,)
        percent.append(100 * right.double().mean().item())
        net.train()
    return percent


# %% tags=["nbval-ignore-output"]
RACERS = {"no norm": None, "LayerNorm": lambda C, H, W: nn.LayerNorm([C, H, W])}
for name, norm in RACERS.items():
    torch.manual_seed(0)  # the same first weights
    print(f"{name:9} reads {learn(digit_cnn(norm), digits)[-1]:.0f} % of the test digits")

# %% [markdown]
# Without LayerNorm the net has learned nothing. Write down the sentence that you would print about this, for people who decide whether a net gets a normalization layer (a *norm*, for short). You come back to it in 9.4.
#
# *About 57 min, in two sittings of 28 and 29.* **You'll be able to**
# - find out why a net fails, by changing one suspect at a time;
# - say what a comparison of two nets shows, and what its control must get;
# - put a norm after each convolution of a net, in the right shape;
# - say what the batch, the mode and the contrast do to BatchNorm.
#
# **You need** lessons [1](01_why_normalize.ipynb) (weight scale), [4](04_affine_and_module.ipynb) (`LayerNorm`) and [6](06_batchnorm.ipynb) (BatchNorm, `eval()`), `nn.Conv2d` and a training loop.
#
# ## 9.1 A race with four knobs
#
# The net without a norm is the **control**: it shows what happens without the thing that is praised. But nobody chose its rate or its first weights, so now you do. Nothing may be chosen on the digits that are reported in the end, so 300 of the training digits are set aside as **validation digits**. `default` are the first weights that PyTorch draws, `kaiming` those of [lesson 1](01_why_normalize.ipynb), with zero biases.


# %% tags=["export", "hide-input"]
# Gives a net Kaiming's first weights.
def kaiming(net):
    """Give all convolutions and linear layers Kaiming's weights and zero biases; return net."""
    for layer in net:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return net


# %% tags=["hide-input"]
# Trains both nets with the same settings.
STARTS = {"default": lambda net: net, "kaiming": kaiming}
practice = digits.validating()  # 997 digits to learn from, 300 validation digits


def race(rate, start, batch_size, seed, digits=practice):
    """Train both nets with the same settings, and print what they read of digits' last part."""
    for name, norm in RACERS.items():
        torch.manual_seed(seed)
        net = STARTS[start](digit_cnn(norm))
        percent = learn(net, digits, rate, batch_size, seed)
        print(f"seed {seed}, {name:9} reads {percent[-1]:.1f} %")


# %% tags=["nbval-ignore-output"]
race(rate=0.1, start="default", batch_size=64, seed=0)

# %% [markdown]
# **Find out:** go back to a rate of 0.05, and turn one knob at a time: a different seed, rates from 0.02 to 0.3, batches of 16 to 128. Which knob lets the net without a norm learn?
#
# <details><summary>What there is to find</summary>
#
# The start. With Kaiming's weights it reads more than 80 %, at several rates of plain SGD. From the default weights, try a rate of 0.3 and batches of 16, first each alone and then together.
#
# </details>
#
# So this net can learn without a norm. What did the first weights do to it?
#
# ## 9.2 What one layer does to the size
#
# [Lesson 1](01_why_normalize.ipynb#1.3-Why-1.4?) tossed coins for the weights. PyTorch draws those of a unit with **4 inputs** evenly between −½ and ½: the bound is one over the root of the number of inputs.
#
# - Numbers drawn evenly between −1 and 1 have the mean square 1/3. Between −½ and ½ it is a quarter of that: **1/12**.
# - Let the inputs have the mean square 24. The unit adds up 4 products, and their mean squares add, because the weights are drawn independently around 0: 4 · 1/12 · 24 = **8**.
# - The ReLU sets the negative half to 0. Half of the mean square is left: **4**.
#
# A unit of our convolutions has 16 · 3 · 3 = 144 inputs, so its bound is 1/12. Does it end elsewhere?

# %% tags=["exercise"] id="ex-9-1"
# Exercise 9.1 · ●●○○○ · 1 min
# On paper: 144 inputs of mean square 6. (Above, with 4 inputs of mean square 24: after=4.)
# Copy this line and replace the dots by two numbers:
# shrinking = dict(after=..., factor=...)
# after       mean square of what the unit gives after its ReLU
# factor      times what the weights' mean square must be, so that a layer with ReLU keeps 6
### BEGIN SOLUTION
shrinking = dict(after=1, factor=6)
### END SOLUTION

# %% tags=["check"]
check.shrinking(shrinking)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The mean square of the weights is bound · bound / 3 = 1/432. Go through the three lines above with it.
#
# </details>
#
# **PyTorch's default weights divide the mean square by 6 in each layer with a ReLU.**
#
# <details><summary>When this holds</summary>
#
# For the first weights of `nn.Linear` and `nn.Conv2d`, on average over their draws, without biases, and where the sums are as often negative as positive. At the border of an image some inputs are padding, so more is lost; max pooling brings some of it back. In [lesson 1](01_why_normalize.ipynb)'s words, the weight scale is $1/\sqrt 3 = 0.58$. Kaiming's is $\sqrt 2$, and $\sqrt2 / 0.58 = \sqrt 6$.
#
# </details>
#
# ## 9.3 Six levers
#
# And in our net? The cell looks at what comes out of each ReLU, before any training: how much of it differs between images, and how large the gradient is that comes back to it.


# %% tags=["hide-input", "nbval-ignore-output"]
# Measures both ways and draws them.
def both_ways(norm, seeds=8):
    """After each of six ReLUs: the rms of what differs between images, and of the gradient."""
    forth, back = torch.zeros(seeds, 6), torch.zeros(seeds, 6)
    for seed in range(seeds):
        torch.manual_seed(seed)
        x, after = digits.x_train[:500, None], []  # (500, 1, 8, 8)
        for layer in digit_cnn(norm):
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                x.retain_grad()
                after.append(x)
        F.cross_entropy(x, digits.y_train[:500], reduction="sum").backward()
        for at, h in enumerate(after):  # (500, C, H, W)
            forth[seed, at] = (h - h.mean(0)).detach().square().mean().sqrt()
            back[seed, at] = h.grad.square().mean().sqrt()
    return [sizes.log().mean(0).exp().tolist() for sizes in (forth, back)]


ways = {name: both_ways(norm) for name, norm in RACERS.items()}
labels = "what differs between images", "the gradient that comes back"
plot.panels(
    {
        label: (range(1, 7), {name: ways[name][at] for name in RACERS})
        for at, label in enumerate(labels)
    },
    colors={"no norm": "none"},
    ylog=True,
    title="Without a norm, the picture fades forth and the gradient back",
    x="layer",
    y="rms after the ReLU",
    caption="PyTorch's default first weights, 500 training images, geometric means over 8 "
    "seeds.",
    alt="Two panels over the layers 1 to 6, on logarithmic axes. "
    + " ".join(
        f"{label}, {name}: {ways[name][at][0]:.1g} after layer 1, {ways[name][at][5]:.1g} "
        "after layer 6."
        for at, label in enumerate(labels)
        for name in RACERS
    ),
)

# %% [markdown]
# Which of this keeps the net at chance? Or is it the biases, which are the same for all images? `revive` trains the net without a norm, with levers: `weights` and `biases` multiply what the convolutions start with, `pictures` the images, `first_rate` and `last_rate` the learning rate of the first three and of the last four layers. `adam=True` trains with Adam in the place of plain SGD.


# %% tags=["export", "hide-input"]
# Trains the net without a norm, with six levers.
def pulled(
    digits, weights=1, biases=1, pictures=1, first_rate=1, last_rate=1, adam=False, seed=0
):
    """Percent of the test digits that the net without a norm reads after ten epochs.

    weights, biases: factors on the first numbers of all convolutions. pictures: on the images.
    first_rate, last_rate: on the rate of the first three and of the last four layers, 0.05.
    adam: Adam at a rate of 0.001 in the place of SGD.
    """
    torch.manual_seed(seed)
    net = digit_cnn()
    convolutions = [layer for layer in net if isinstance(layer, nn.Conv2d)]
    with torch.no_grad():
        for layer in convolutions:
            layer.weight *= weights
            layer.bias *= biases
    rule, rate = (torch.optim.Adam, 0.001) if adam else (torch.optim.SGD, 0.05)
    groups = [
        {"params": [p for layer in layers for p in layer.parameters()], "lr": rate * factor}
        for layers, factor in (
            (convolutions[:3], first_rate),
            ([*convolutions[3:], net[-1]], last_rate),
        )
    ]
    shown = {"x_train": pictures * digits.x_train, "x_test": pictures * digits.x_test}
    chosen = lambda *_, **__: rule(groups, fused=True)
    return learn(net, digits._replace(**shown), seed=seed, epochs=10, optimizer=chosen)[-1]


# %% tags=["hide-input"]
# Prints what it reads of the validation digits.
def revive(**levers):
    """Print how many of the validation digits the net without a norm reads: see `pulled`."""
    print(f"reads {pulled(practice, **levers):.0f} %")


# %% [markdown]
# **Predict 9.1:** every weight stays as PyTorch drew it. Which lever alone lets the net learn, `pictures=50` or `last_rate=150`?
# - [x] `pictures=50` only :: What shrinks by a factor in each layer can begin larger. Then each layer gets more, and so do the gradients of its weights.
# - [ ] `last_rate=150` only :: There the gradient has not faded yet, and a larger rate brings no picture to these layers.
# - [ ] each of the two :: The last layers have a large gradient already. What they lack is the picture.
# - [ ] neither, since the weights are too small :: They shrink the picture and the gradient by a factor. A factor at a different place can make up for it.

# %% tags=["nbval-ignore-output"]
revive(pictures=50)
revive(last_rate=150)

# %% [markdown]
# **Find out:** which of `weights=6**0.5`, `biases=0`, `first_rate=150` and `adam=True` lets it learn, alone? Write your guess down first. At last pull `weights=6**0.5, first_rate=0`: then the first three layers never move.

# %% tags=["nbval-ignore-output"]
revive()  # now yours: one lever at a time

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# All but the biases. Larger weights let each layer keep the size. A large rate in the first three layers makes up, at most seeds, for the gradient that has faded on its way back to them. So does Adam, which divides a gradient by its size, and so lets even a faint one take its step. (In [lesson 0](00_in_one_sitting.ipynb) it did not: there the gradients were smaller than the number that Adam adds.) And with larger weights the first three layers need not learn at all.
#
# </details>
#
# If you expected one cause, look at what the cures leave alone. Small weights shrink the picture on its way forth and the gradient on its way back, and a change at either place, or in the rate of the layers that get little gradient, makes up for that. So nothing that you changed was *the* cause.
#
# **A cure shows one way out. It does not show that there is no other.**
#
# <details><summary>How sure is that?</summary>
#
# Validation digits read, as it was {levers[none, *].reads:range}; weights {levers[weights, *].reads:range}, pictures {levers[pictures, *].reads:range}, first rate above 70 % in all but {levers[first rate, *].reads:count <= 70} runs; biases {levers[biases, *].reads:range}, last rate {levers[last rate, *].reads:range}; Adam {levers[Adam, *].reads:range}; larger weights with the first layers fixed {levers[first layers fixed, *].reads:range}. The ten epochs were chosen after trials with six, on these validation digits. {levers:again}
#
# </details>
#
# LayerNorm gives every layer's output the same size, whatever the size of the weights (up to $\epsilon$). In the figure neither direction fades.
#
# ## 9.4 Let the other side win
#
# The knobs are yours again, and this time the net without a norm shall *win*.

# %% tags=["exercise"] id="ex-9-2"
# Exercise 9.2 · ●●○○○ · 3 min
# Find settings at which the net without a norm ends at 80 % or more of the validation digits,
# and at least 2 points ahead of the one with LayerNorm. Try them with race(**winning).
# rate from 0.001 to 1; start "default" or "kaiming"; batch_size from 16 to 256; any seed.
# Copy this line and replace the dots:
# winning = dict(rate=..., start=..., batch_size=..., seed=...)
### BEGIN SOLUTION
winning = dict(rate=0.015, start="kaiming", batch_size=64, seed=1)
### END SOLUTION

# %% tags=["check"]
check.winning(winning)

# %% [markdown]
# <details><summary>Hint</summary>
#
# One start is better for the net without a norm. At 0.05 both nets have finished learning after six epochs. At a smaller rate they have not, and the seeds lie further apart.
#
# </details>
#
# That number could stand in a paper. Now three seeds that you have not chosen, and the test digits:

# %% tags=["nbval-ignore-output"]
for seed in (100, 101, 102):
    race(**winning | dict(seed=seed), digits=digits)

# %% [markdown]
# Is the lead still there in each pair? If not, you have found a seed. If it is, you have found a rate that suits one side.
#
# A fair race runs like this. On each of three splits, each side trains from Kaiming's weights at four rates, with eight seeds, and the validation digits choose its rate. Only then the test digits are read:

# %% tags=["hide-input"]
# Lets the validation digits choose each rate.
rates, record = [0.01, 0.03, 0.1, 0.3], evidence.load("cnn_learning_rates")
for name in ("no_norm", "layer_norm"):
    tried = record[f"{name}_validation"]  # (rates, splits, seeds)
    best = tried.mean(-1).argmax(0)  # (splits,)
    tested = record[name][best, range(3)].mean(-1)  # (splits,)
    shown = ", ".join(f"{percent:.1f}" for percent in tested)
    print(f"{name:10} at rates {[rates[at] for at in best]}: {shown} % of the test digits")

# %% [markdown]
# Of the ninety points of the beginning, about two are left at most, and on one split the net without a norm is ahead. Read the sentence that you wrote there: which words have to go?
#
# **A fair race gives each side its own best settings, chosen on validation digits, and seeds that nobody has looked at.**
#
# <details><summary>What else such a race says here</summary>
#
# Only the rate was tuned, and not the batch, of 64, for six epochs of plain SGD from Kaiming's weights, which suit the net without a norm. At a rate of 0.01 the lead of the net without a norm was {cnn_learning_rates[0.01, *].ahead:range}, and above 0 in {cnn_learning_rates[0.01, *].ahead:count > 0} pairs. How much room a norm gives for larger rates stands in [Deeper](#Room-for-larger-rates). {cnn_learning_rates:again}
#
# </details>
#
# ## What you have now
#
# - **PyTorch's default weights divide the mean square by 6 in each layer with a ReLU.**
# - **A cure shows one way out. It does not show that there is no other.**
# - **A fair race gives each side its own best settings, chosen on validation digits, and seeds that nobody has looked at.**
#
# **You can stop here:** close the notebook. From memory, work out for a unit with 9 inputs why the mean square falls to a sixth, and write down what you would ask the author of a table that says "no norm: 10 %".
#
# *Sitting two:* you put norms into any net, find out why BatchNorm fails on dim pictures, and diagnose three sick runs.
#
# %% [markdown]
# ## 9.5 How large is what comes out?

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.cnn import digit_cnn, kaiming, learn
from lessonkit import check, data, evidence, plot
from lessonkit.mine import BatchNorm1d, LayerNorm  # lessons 6 and 4

digits = data.digits_split(0)  # x_train (1297, 8, 8), x_test (500, 8, 8), standardized

# %% [markdown]
# **Recall 9.1:** in training BatchNorm gets two rows of features, which differ in every feature. What does it return, before gain and bias and with a negligible $\epsilon$?
# - [ ] two standard normal rows :: The mean of each feature is 0 and its variance 1, but with two values that leaves no choice.
# - [ ] zeros :: One row would give an error in PyTorch. Two rows differ from their mean.
# - [x] only 1 and −1 :: Each feature has two values, one above their mean and one as far below it.
#
# `LayerNorm([C, H, W])` must be told the size of the convolution's *output*. Take 8 pixels with padding 1, and a kernel of three taps, two pixels apart (the *dilation*), that moves on by 2 (the *stride*). It reaches over 5 of the 8 + 2 pixels, and can then move on twice. So there are 3 outputs. `conv_output_shape` computes this for each axis.
#
# <details><summary>The formula</summary>
#
# For $L$ pixels, $k$ taps, stride $s$, padding $p$ and dilation $d$:
#
# $$\text{out} = \left\lfloor \frac{L + 2p - d\,(k-1) - 1}{s} \right\rfloor + 1$$
#
# </details>


# %% tags=["export", "hide-input"]
# Computes the size, for each axis.
def conv_output_shape(size, kernel_size, stride=1, padding=0, dilation=1):
    """Return the size of what a convolution makes of an image, as a tuple.

    size: (H, W), or the sizes of any number of axes. The others: as in nn.Conv2d, a whole
    number for all axes or a tuple of one for each. Max pooling follows the same rule, but
    for its ceil_mode. Raises ValueError where the kernel does not fit.
    """
    shape = []
    for axis, L in enumerate(size):
        k, s, p, d = (
            setting[axis] if isinstance(setting, (tuple, list)) else setting
            for setting in (kernel_size, stride, padding, dilation)
        )
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError(f"the kernel does not fit: {reach} pixels in {L} + 2 * {p}.")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)


# %% [markdown]
# ## 9.6 A norm after each convolution
#
# The usual place of a norm is **between the convolution and its ReLU**. Write a tool that puts norms into any `nn.Sequential`.


# %% tags=["exercise"] id="ex-9-3"
# Exercise 9.3 · ●●●○○ · 4 min
def with_norms(net, norm, size):
    """Return a new nn.Sequential: net's own layers, norm(C, H, W) right after each nn.Conv2d.

    Example: of nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU()) and size (8, 6) it makes
    conv, norm(5, 6, 4), ReLU.
    norm: called anew for each convolution. size: (H, W) of the images.
    nn.Conv2d and nn.MaxPool2d have kernel_size, stride, padding and dilation, nn.Conv2d also
    out_channels. conv_output_shape(size, kernel_size, stride, padding, dilation) is (H, W).
    """
    layers = []
    for layer in net:
        layers.append(layer)
        ### BEGIN SOLUTION
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            size = conv_output_shape(size, *settings)
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
        ### END SOLUTION
    return nn.Sequential(*layers)


# %% tags=["check"]
check.with_norms(with_norms)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Ask two questions of each layer: does it change the size (convolution or pooling)? Is it a convolution?
#
# </details>
#
# <details><summary>What it is tried on</summary>
#
# Convolutions and max pooling (padding in numbers, no `ceil_mode`), between layers that leave the size alone. The given net stays as it is, its layers stand in the new net, and each norm gets the shape of what its convolution returns.
#
# </details>
#
# The net of the beginning, from PyTorch's first weights, with your tool and your `LayerNorm`:

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
net = with_norms(digit_cnn(), lambda C, H, W: LayerNorm([C, H, W]), (8, 8))
print(f"reads {learn(net, digits)[-1]:.0f} %")

# %% [markdown]
# ## 9.7 A short way to write the shape
#
# `LayerNorm(x.shape)` saves counting, and [pytorch#76613](https://github.com/pytorch/pytorch/issues/76613) suggests it.
#
# **Predict 9.2:** four images go through `LayerNorm(x.shape)`, and then once more with 10 added to every pixel of the last one. Which outputs differ?
# - [ ] that of the last image :: One mean is taken over all four images, so it moves for each of them. With `LayerNorm(x.shape[1:])` no output differs, not even the last.
# - [ ] none, because LayerNorm removes a shift :: It removes what is added to *all* numbers it reduces over. Here 10 is added to a quarter of them.
# - [x] those of all four :: One mean is taken over all four images, so each image now depends on the others.

# %% tags=["hide-input"]
# Adds 10 to the last image.
x = torch.randn(4, 2, 3, 5, generator=torch.Generator().manual_seed(93))  # (B, C, H, W)
changed = x.clone()
changed[3] += 10  # only the last image
for name, sizes in {"x.shape": x.shape, "x.shape[1:]": x.shape[1:]}.items():
    layer = LayerNorm(sizes)
    moved = (layer(changed) - layer(x)).abs().amax((1, 2, 3)) > 1e-3  # (B,)
    print(f"LayerNorm({name}): outputs that differ: {moved.tolist()}")

# %% [markdown]
# **The batch axis never belongs into LayerNorm's shape.**
#
# ## 9.8 A dim picture
#
# Three nets of linear layers learn from the digits, from Kaiming's weights. Then the test pictures are dimmed: each *standardized* pixel is multiplied by a **contrast** of ¼.


# %% tags=["export", "hide-input"]
# Makes a net of linear layers.
def mlp(norm=None):
    """Three layers of 64 units, each with norm(64) before its ReLU, and a linear layer."""
    layers = [nn.Flatten()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% tags=["hide-input"]
# Trains the three nets.
nets = {}
for name, norm in {"BatchNorm": BatchNorm1d, "LayerNorm": LayerNorm, "no norm": None}.items():
    torch.manual_seed(0)
    nets[name] = kaiming(mlp(norm))
    learn(nets[name], digits, rate=0.1)


def reads(net, pictures):
    """Percent of the test digits that a net reads in eval() from these pictures."""
    scores = net.eval()(pictures)  # (500, 10)
    return 100 * (scores.argmax(-1) == digits.y_test).double().mean()


# %% tags=["nbval-ignore-output"]
x = digits.x_test[:, None]  # (500, 1, 8, 8)
for name, net in nets.items():
    print(f"{name:9} reads {reads(net, x):.0f} %, at a contrast of ¼ {reads(net, x / 4):.0f} %")

# %% [markdown]
# The contrast is a factor. LayerNorm divides it out, and the control needs no protection: the factor passes through all its layers, the scores become small together, and the largest stays the largest.
#
# BatchNorm has *stored* a mean and a variance of each unit. Neither fits a dim picture. Which does the harm? `dim` multiplies what the first `layers` of the three BatchNorms have stored, and shows the net dim pictures.


# %% tags=["hide-input"]
# Reads dim pictures with what is stored changed.
def dim(means=1, variances=1, layers=3, contrast=1 / 4):
    """Print what BatchNorm's net reads. means, variances: factors on what is stored."""
    net = copy.deepcopy(nets["BatchNorm"])
    for layer in [layer for layer in net if isinstance(layer, BatchNorm1d)][:layers]:
        layer.running_mean.mul_(means)
        layer.running_var.mul_(variances)
    settings = f"means × {means:g}, variances × {variances:g}, layers {layers}"
    print(f"{settings}, contrast {contrast:g}: reads {reads(net, contrast * x):.0f} %")


# %% [markdown]
# **Predict 9.3:** you may correct one kind, in all layers: multiply the means by ¼, or the variances by 1/16. Which lets the net read pictures of a contrast of ¼?
# - [ ] the variances :: That changes the scale of all units alike, and the control shows that a net can read at any scale. What is subtracted is still four times too large.
# - [x] the means :: Wx/4 − m/4 is (Wx − m)/4. So the factor comes out of the layer, and passes through the net as in the control.
# - [ ] neither alone :: With the right means a factor is left, and the control reads with such a factor.

# %% tags=["nbval-ignore-output"]
dim(means=1, variances=1, layers=3)  # now yours: correct one kind, then the other

# %% [markdown]
# **Find out:** correct *both* kinds, first in all layers, then with `layers=1` in the first alone. Which reads more, and why? At last forget the means, `means=0`. Write each guess down first.
#
# <details><summary>What there is to find</summary>
#
# Both in the first layer read exactly as many digits as before the pictures were dimmed. Both in all layers read fewer than the means alone: the first layer hands on what it hands on of bright pictures, so that what the later ones have stored was right, and is spoiled. With the means alone a factor of ¼ goes through the net, and each layer needs the smaller mean. And a mean of 0 does not fit either: what is missing is not that nothing is subtracted, but that the right mean is.
#
# </details>
#
# **At a lower contrast BatchNorm fails because the mean that it has stored does not fit.**
#
# <details><summary>When this holds</summary>
#
# From Kaiming's weights BatchNorm read {cnn_dim[kaiming, *].batch:range} of the pictures as they are and {cnn_dim[kaiming, *].batch_dim:range} at a contrast of ¼; there with the means corrected {cnn_dim[kaiming, *].means:range}, with the variances corrected {cnn_dim[kaiming, *].variances:range}, with both {cnn_dim[kaiming, *].both:range}, with both in the first layer alone {cnn_dim[kaiming, *].both_first:range}, with means of 0 {cnn_dim[kaiming, *].no_means:range}. Biases are not dimmed: from PyTorch's first weights, which have some, the control read {cnn_dim[default, *].none:range} of the bright and {cnn_dim[default, *].none_dim:range} of the dim pictures.
#
# A picture with less *ink* is a different matter, since paper is then no longer as far from the mean: a shift comes with the factor, and none of the three nets was made for that. At a quarter of the ink BatchNorm read {cnn_dim[kaiming, *].batch_ink:median} in the median, LayerNorm {cnn_dim[kaiming, *].layer_ink:median} and no norm {cnn_dim[kaiming, *].none_ink:median}. {cnn_dim:again}
#
# </details>
#
# ## 9.9 Three sick runs
#
# Your `with_norms` has made four nets of `digit_cnn`. One is healthy, and three have **one** fault each. You get the training loss, and a test with levers. `batch` is how many digits are shown at a time, `order` is `"by class"` (all zeros first) or `"mixed"`, and `mode` is `"train"`, as training leaves a net, or `"eval"`.


# %% tags=["hide-input"]
# Trains four nets. Look inside afterwards.
class _RunA(nn.Module):
    def forward(self, x):  # (B, C, H, W)
        return (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)


layer_norm = lambda *sizes: LayerNorm(sizes)
batch_norm = lambda *sizes: nn.Sequential(  # of each pixel of each channel
    nn.Flatten(), nn.BatchNorm1d(math.prod(sizes)), nn.Unflatten(1, sizes)
)
patients = {}
for name, (norm, end) in {
    "healthy": (layer_norm, ()),
    "run A": (lambda *sizes: _RunA(), ()),
    "run B": (layer_norm, (nn.Sigmoid(),)),
    "run C": (batch_norm, ()),
}.items():
    torch.manual_seed(0)
    patients[name] = with_norms(digit_cnn(), norm, (8, 8)).extend(end)
    learn(patients[name], digits, rate=0.1)


@torch.no_grad()
def probe(name, batch=10, order="by class", mode="train"):
    """Print the training loss of a net, and the percent of the test digits that it reads."""
    net = copy.deepcopy(patients[name]).train()
    loss = F.cross_entropy(net(digits.x_train[:, None]), digits.y_train)
    net, y = copy.deepcopy(patients[name]).train(mode == "train"), digits.y_test
    rows = y.argsort(stable=True) if order == "by class" else torch.arange(len(y))
    try:
        shown = [net(digits.x_test[some, None]).argmax(-1) for some in rows.split(batch)]
        reads = f"{100 * (torch.cat(shown) == y[rows]).double().mean():.0f} %"
    except ValueError as error:
        reads = f"an error: {error}"
    print(f"{name:7}  loss {loss:.2f}, {batch:3} {order}, {mode}: reads {reads}")


# %% tags=["nbval-ignore-output"]
for name in patients:
    probe(name, batch=10, order="by class", mode="train")  # now yours: pull the levers

# %% [markdown]
# Two runs look alike, and a third reads well.
#
# **Find out:** which levers change what a run reads? Find one for each run, or see that none does, before you name a fault.

# %% tags=["exercise"] id="ex-9-4"
# Exercise 9.4 · ●●○○○ · 2 min
# Which run has which fault? Copy these lines and replace the dots by three of
#     "sigmoid before cross-entropy", "norm over the batch axis", "eval() forgotten",
#     "learning rate too large", "nothing is wrong".
# diagnosis = {"run A": ..., "run B": ..., "run C": ...}
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


# %% [markdown]
# - **Run B: the sigmoid.** At best one output is 1 and nine are 0, and that still costs $-\ln\frac{e}{e+9} = 1.46$. Give cross-entropy **logits**, scores of any sign.
# - **Run C: `eval()` forgotten.** BatchNorm normalizes ten threes at a time. What they share goes with their mean. Mixed or in larger batches it reads more, and in `eval` it reads all that it has learned.
# - **Run A: a norm over the batch axis, for each number of the images by itself.** Order and batch move it in the same way, but the mode does not, and alone an image is subtracted from itself.
#
# <details><summary>How sure is that?</summary>
#
# In recorded runs of the same three faults the test by class in batches of ten, as the script leaves the net, read {cnn_three_faults[run A].script:range} in run A and {cnn_three_faults[run C].script:range} in run C. {cnn_three_faults:again}
#
# </details>
#
# ## Take-away
#
# - **Why a net fails, and a fair race:** the three lines of [What you have now](#What-you-have-now).
# - **Place and shape:** between convolution and ReLU, in the shape of the convolution's output, without the batch axis.
# - **Batch, mode, contrast:** without `eval()` BatchNorm answers by the neighbors. On dim pictures it subtracts a stored mean that does not fit.
#
# ## Deeper (optional, 12 min)
#
# ### Room for larger rates
#
# Does a norm allow larger rates? The runs of 9.4 again, both nets from Kaiming's weights: eight seeds on each of three splits.


# %% tags=["hide-input"]
# Draws a dot for each run.
rates = [0.01, 0.03, 0.1, 0.3]
record = evidence.load("cnn_learning_rates")  # (rates, splits, seeds) each
ends = {  # (rates, runs)
    "no norm": record["no_norm"].flatten(1),
    "LayerNorm": record["layer_norm"].flatten(1),
}


def draw_ends(axes):
    """One panel a net: a dot for each run, at its rate."""
    for ax, (name, values) in zip(axes, ends.items(), strict=True):
        color = plot.COLORS["none" if name == "no norm" else "LayerNorm"]
        for at, row in enumerate(values.tolist()):
            places = [at + 0.03 * (i - 11.5) for i in range(24)]
            ax.scatter(places, row, s=16, color=color, alpha=0.75, linewidths=0)
        ax.axhline(10, color="#5F6B73", linestyle="--", linewidth=1)
        ax.set(xticks=range(4), xticklabels=[f"{rate:g}" for rate in rates], ylim=(0, 104))
        ax.set_title(name, fontsize=12, color=plot.ink(color), loc="left", pad=22)
        ax.set_xlabel("learning rate")
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("test accuracy (%)")


plot.figure(
    draw_ends,
    size=(8.6, 3.1),
    ncols=2,
    sharey=True,
    title="At 0.3 only the net without a norm has runs at chance",
    caption="A dot is a run: six epochs of SGD, the rate falling to 0; "
    f"{evidence.note('cnn_learning_rates')}. "
    "Dashed: chance. Sideways the dots are only spread apart.",
    alt="Two panels of dots: test accuracy of 24 runs at each of four learning rates. "
    + "; ".join(
        f"{name} at {rate:g}: {row.min():.0f} to {row.max():.0f}, median {row.median():.0f}"
        for name, values in ends.items()
        for rate, row in zip(rates, values, strict=True)
    ),
    numbers={
        "net": [name for name in ends for _ in range(96)],
        "learning rate": [rate for _ in ends for rate in rates for _ in range(24)],
        "test accuracy (%)": torch.stack([*ends.values()]).flatten().tolist(),
    },
)

# %% tags=["optional"]
for name, values in ends.items():
    for rate, row in zip(rates, values, strict=True):
        print(
            f"{name:9} at {rate:g}: {row.min():.0f} to {row.max():.0f} %, mean {row.mean():.0f}"
        )

# %% [markdown]
# The mean of the control at 0.3 describes none of its runs: some read nearly all digits, and some are at chance. So here the norm gave room for a larger rate.
#
# ### A published CNN
#
# A report on Weights & Biases, [Layer Normalization in Pytorch (With Examples)](https://wandb.ai/wandb_fc/LayerNorm/reports/Layer-Normalization-in-Pytorch-With-Examples---VmlldzoxMjk5MTk1) by Adrish Dey, ends with a CNN. As printed it raises ten errors, one after the other, from `nn.Conv2D` and a missing `super().__init__()` to a size from a plain division. Once they are repaired, this is what it computes, in our words:


# %% tags=["optional"]
class Patient(nn.Module):
    """The published net, after ten repairs."""

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


# %% tags=["optional"]
images = torch.zeros(4, 3, 32, 32)  # (B, C, H, W)
patient, calls = Patient((32, 32)), []
patient.register_forward_hook(lambda *_: calls.append(1))
out = patient(images)
print("all outputs between 0 and 1:", bool(((out >= 0) & (out <= 1)).all()))
print("how often a forward hook was called:", len(calls))

# %% [markdown]
# No error is left, and two faults are. Cure them.


# %% tags=["exercise", "optional"] id="ex-9-5"
# Exercise 9.5 · ●●○○○ · 4 min
class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions without padding, each with LayerNorm([C, H, W]) and ReLU; logits.

    Example: SmallCNN((9, 7), 4) makes of images (2, 3, 9, 7) logits (2, 4).
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


# %% tags=["check", "optional"]
check.small_cnn(SmallCNN)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Copy the patient and change what must change. One fault is run B's. For the other: what runs the hooks of a module, and what does it call afterwards?
#
# </details>
#
# `nn.Module.__call__` runs the hooks and then `forward`. A class that overrides `__call__` loses the hooks and all tools that rely on them. So a net that runs, and even learns, can be wrong without an error.
#
# ## On your own
#
# 1. For your package: make `probe` a tool of your own, `examine(net, x, y)`, which tests any net by batch, order and mode, and says in a sentence what its answers depend on. Try it on a healthy net and on the three sick ones, and save it in `work/mine/examine.py`.
# 2. Put `nn.GroupNorm(1, C)` into `digit_cnn`, or your `BatchNorm2d` of [lesson 6](06_batchnorm.ipynb). Does the accuracy change? How many parameters do you save?
#
# Your layer can now stand after each convolution of any net; it still cannot stand in a loop, where each step reads what the step before it wrote: [lesson 10](10_rnn.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, at the end of the experiments: convolutional networks, with BatchNorm ahead.
# - Wu & He (2018), *Group Normalization*, fig. 1: error over batch size on ImageNet.
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, eq. 10: the initialization.
# - Dumoulin & Visin (2016), *A guide to convolution arithmetic for deep learning*.
# - Bouthillier et al. (2021), *Accounting for Variance in Machine Learning Benchmarks*.

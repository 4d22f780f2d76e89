# %% [markdown]
# # 1 · Why normalize?
#
# **What you'll do:** send handwritten digits through fifty layers, watch them fade or burn, find the one scale of the weights at which they survive, and see what a norm changes about that, and what it does not. *(about 40 min)*
#
# **You'll be able to**
# - predict from the scale of the first weights whether a deep ReLU net's signal and gradient die, live or explode;
# - standardize a vector, the operation that this whole course is about;
# - say what a norm promises and what it does not.
#
# **You need:** tensors, matrix products, ReLU, `backward()`, a training loop. This is the first lesson.
#
# *How it works:* in an exercise, replace the line `raise check.YourTurn(...)` by your own code, run the cell, then the check below it.
# Cells that need your answer say "Your turn" until then; all others run without it.
#
# *In a classroom (minutes):* 1.1: 4 · 1.2: 9 · 1.3: 7 · 1.4: 2 · 1.5: 6 · 1.6: 3 · 1.7: 4 · 1.8: 5. Short of time? Run 1.4 and the slider of 1.2 without discussing them.

# %%
import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import (
    check,
    data,
    plot,
    show,
    train,
)  # sets torch to one thread (LESSON_THREADS)

images, labels = data.digits()  # (1797, 8, 8), (1797,)
show("one image, ink in each of its 8 x 8 pixels", images[3].int())

# %% [markdown]
# ## 1.1 Fifty layers
#
# Can you see which digit it is? A network gets just these 64 numbers: its **signal**.
# ([Where the digits come from](../data/README.md). From here on they are shifted and scaled so that all training pixels together have mean 0 and standard deviation 1.)
#
# A layer multiplies the signal by a matrix of weights and keeps what is positive (ReLU).
# Before training the weights are random. All we choose is their scale, the **gain** $g$:
# each weight is drawn with standard deviation $g/\sqrt D$, where $D$ is the number of inputs.
# No biases yet. The size of a signal is its **rms**, the root of the mean of its squares.


# %%
def rms(h):
    """The root mean square of all entries of h."""
    return h.square().mean().sqrt().item()


def deep(x, gain, norm=None, depth=50, seed=0):
    """Send x (B, 64) through `depth` random layers.

    Return the list of all signals: x, layer 1, ..., each (B, 64).
    """
    rng = torch.Generator().manual_seed(seed)
    signals = [x]
    for _ in range(depth):
        W = gain * torch.randn(64, 64, dtype=x.dtype, generator=rng) / 64**0.5  # (64, 64)
        z = signals[-1] @ W  # (B, 64)
        signals.append(torch.relu(z if norm is None else norm(z)))  # (B, 64)
    return signals


# %% [markdown]
# At gain 1, a layer keeps 71 % of the signal's rms (section 1.3 shows why). We stack fifty of them.
#
# **Predict:** how much is left at the end? `"most"` of it, `"a hundredth"`, or next to `"nothing"`, less than a millionth?

# %% tags=["exercise"] id="ex-1-1"
# Exercise 1.1 · ●○○○○ · 1 min
# fading = "most", "a hundredth" or "nothing"
### BEGIN SOLUTION
fading = "nothing"
### END SOLUTION

# %% tags=["check"]
check.fading(fading)

# %% [markdown]
# <details><summary>Hint</summary>
#
# After two layers $0.71 \cdot 0.71 = 0.50$ is left. How often can you halve?
#
# </details>
#
# Now look. One digit, four nets, from the input on the left to layer 50 on the right. All pictures have one gray scale: white is 0 or less, black is 2 or more.
# The last net has the same weights as the third, and one operation more: `F.layer_norm` before each ReLU, the thing that you will build in lessons 2 to 4.

# %%
split = data.digits_split(0)
x = (
    split.x_train[:40].flatten(1).double()
)  # (B, D) = (40, 64), in float64: it holds 1e-300 to 1e300


def layer_norm(z):
    """PyTorch's Layer Normalization over the last axis of z (B, 64)."""
    return F.layer_norm(z, z.shape[-1:])


# %%
nets = {
    "gain 1": deep(x, 1.0),
    "gain 1.41": deep(x, 2**0.5),
    "gain 2": deep(x, 2.0),
    "gain 2,\nLayerNorm": deep(x, 2.0, norm=layer_norm),
}
layers = [0, 1, 2, 5, 10, 20, 35, 50]
rows = torch.stack(
    [torch.stack([signals[layer][5] for layer in layers]) for signals in nets.values()]
)  # (4, 8, 64)


# %% tags=["hide-input"]
def strips(rows, names, columns):
    """Return a function that draws signals (R, C, 64) as R rows of C framed 8 x 8 pictures,
    white 0, black 2.
    """
    R, C, _ = rows.shape
    framed = F.pad(rows.reshape(R, C, 8, 8), (1, 1, 1, 1), value=0.35)  # (R, C, 10, 10)
    canvas = framed.transpose(1, 2).reshape(10 * R, 10 * C)

    def draw(ax):
        ax.imshow(canvas, cmap="gray_r", vmin=0, vmax=2)
        ax.set_xticks([10 * c + 4.5 for c in range(C)], columns)
        ax.set_yticks([10 * r + 4.5 for r in range(R)], names)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.grid(False)

    return draw


# %%
plot.figure(
    strips(rows, list(nets), ["input", *[f"layer {layer}" for layer in layers[1:]]]),
    size=(7, 3.4),
    title="The scale of the weights decides whether a digit gets through; a norm takes that "
    "decision away",
    caption="One digit and its 64 numbers in seven of fifty random ReLU layers (width 64, no "
    "biases, one draw of the weights). "
    "Gain 1 fades to nothing, gain 1.41 stays in range, gain 2 burns; LayerNorm before each "
    "ReLU keeps gain 2 in range.",
    alt="Four rows of eight small gray images, from the input to layer 50. In the first row "
    "they fade to white by layer 10, in the second "
    "they stay gray, in the third they turn black and white by layer 10, in the fourth, with "
    "LayerNorm, they stay gray.",
)

# %% [markdown]
# Seventy-one percent, fifty times: the first row is empty long before the end. The third row is white or far beyond black.
# Between them lies a gain at which the signal lives, and the last row lives at a gain that burns without a norm.
# (Whether the last pictures still tell which digit went in is another question: section 1.7.)
#
# No step of training has been taken: the scale of the first weights did this on its own. (One also hears that activations shoot up because sharp minima
# have large gradients. At a minimum, sharp or flat, the gradient is 0.)
#
# ## 1.2 Find the gain that survives
#
# Let us measure: the size of the signal after fifty layers, as a multiple of its size at the input.


# %% tags=["nbval-ignore-output"]
def rms_after(gain):
    """The signal's size after 50 ReLU layers of width 64, divided by its size at the input."""
    return rms(deep(x, gain)[-1]) / rms(x)


for gain in (0.5, 1.0, 2.0, 3.0):
    print(f"gain {gain}: {rms_after(gain):.1g} of the input")

# %% [markdown]
# Almost forty orders of magnitude, for gains that differ by a factor of six: the gain enters fifty times, and $6^{50} = 8 \cdot 10^{38}$. Let us say that a signal **lives** if it keeps its size within a factor of 100.
#
# **Your search.** Write a function that calls `rms_after` for several gains and returns one at which the signal lives.
# The check brings `rms_after` functions of other nets, so measure, do not guess.


# %% tags=["exercise"] id="ex-1-2"
# Exercise 1.2 · ●●●○○ · 7 min
def find_gain(rms_after, low=0.5, high=4.0):
    """Find a gain at which a signal survives 50 layers.

    rms_after: function gain -> size of the signal after 50 layers, as a multiple of the input;
        it grows with the gain.
    low, high: the gain lies between them.
    Returns a gain (float) between low and high for which rms_after(gain) lies between 0.01 and
    100. It is not the same for every net.
    """
    ### BEGIN SOLUTION
    for _ in range(20):
        middle = (low + high) / 2
        if rms_after(middle) > 1:
            high = middle
        else:
            low = middle
    return middle
    ### END SOLUTION


# %% tags=["check"]
check.find_gain(find_gain)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Halving: try the middle of `low` and `high`. Is the signal larger than 1 there? Then the gain is too large, and the middle becomes the new `high`; otherwise the new `low`. Twenty times.
# Or try every gain from 0.5 to 4 in steps of 0.05 and return the one whose signal is closest to 1.
#
# </details>

# %% tags=["nbval-ignore-output"]
found = find_gain(rms_after)
show("a gain that survives", found, 2)
assert (
    1.25 < found < 1.65
)  # sqrt(2) times 100 ** (1/50) = 1.10, up or down, and a little for the draw of the weights

# %% [markdown]
# **Slide** the gain from 1.3 to 1.6 and watch the gray curve tip over. The blue one has LayerNorm. (The slider needs a running kernel. The figure after it does not.)

# %% tags=["nbval-ignore-output"]
slider = widgets.FloatSlider(
    value=1.3, min=0.5, max=3.0, step=0.05, description="gain", continuous_update=False
)
picture = widgets.Image(format="png", width=640)


def redraw(change=None):
    """Draw the sizes of the signals in all layers for the gain of the slider."""
    curves = {
        "none": deep(x, slider.value),
        "LayerNorm": deep(x, slider.value, norm=layer_norm),
    }
    sizes = {name: [rms(h) for h in signals] for name, signals in curves.items()}
    picture.value = plot.lines(
        range(51),
        sizes,
        ylog=True,
        ylim=(1e-9, 1e9),
        markers=False,
        show=False,
        title=f"Gain {slider.value:.2f}",
        x="layer",
        y="rms of the signal",
        caption="-",
        alt="-",
    ).png


slider.observe(redraw, "value")
redraw()
widgets.VBox([slider, picture])

# %% [markdown]
# Now eleven gains from 0.5 to 3, each with four draws of the weights, and only the last layer.
#
# **Predict:** for how many of the eleven does a signal without a norm live?

# %%
gains = [0.5 + 0.25 * i for i in range(11)]  # 0.5 to 3
sizes = {
    name: [
        [rms(deep(x, gain, norm, seed=seed)[-1]) / rms(x) for gain in gains]
        for seed in range(4)
    ]  # (4, 11)
    for name, norm in {"none": None, "LayerNorm": layer_norm}.items()
}
plot.lines(
    gains,
    sizes,
    ylog=True,
    markers=True,
    href={"size of the input": 1.0},
    x="gain of the weights",
    y="rms at layer 50 / rms of the input",
    title="Without a norm only gains near 1.4 live; with LayerNorm every gain does",
    caption="Fifty random ReLU layers of width 64, 40 digits, four draws of the weights. With "
    "LayerNorm before each ReLU: 0.7 at every gain.",
    alt="Signal size at layer 50 over the gain, on a logarithmic axis. Without a norm it "
    "climbs over more than thirty orders of magnitude and crosses 1 near "
    "gain 1.4. With LayerNorm it is a flat line just below 1.",
)

# %%
assert all(
    0.5 < size < 0.9 for run in sizes["LayerNorm"] for size in run
)  # 50 other draws: 0.64 to 0.73
assert all(run[0] < 1e-15 and run[-1] > 1e12 for run in sizes["none"])
alive = [
    gain for i, gain in enumerate(gains) if all(0.01 < run[i] < 100 for run in sizes["none"])
]
print("without a norm it lives, in all four draws, at", alive)

# %% [markdown]
# One of eleven. The gray line is the reason for careful initialization, and the blue line is the first promise of a norm: the search is unnecessary.
#
# ## 1.3 Why 1.4?
#
# Two facts make the rule. They are exact for the mean square, $\text{rms}^2$, on average over random weights, for any input:
#
# - **The matrix multiplies the mean square by $g^2$.** An output is a sum of $D$ products, and the weights are independent with mean 0. So the squares add up: $D \cdot \frac{g^2}{D} \cdot \text{rms}^2$.
# - **ReLU halves it.** An output is as likely negative as positive, and the negative half is set to 0.
#
# Take the root: a layer multiplies the rms by about $g/\sqrt2$, and $L$ layers by about $(g/\sqrt2)^L$.
#
# **Predict:** the rms of a signal of size 1 at gain 1 after the matrix, and after ReLU.

# %%
rng = torch.Generator().manual_seed(13)
h = torch.randn(300, 512, dtype=torch.float64, generator=rng)  # (B, D)
W = torch.randn(512, 1024, dtype=torch.float64, generator=rng) / 512**0.5  # (D, 1024) gain 1
show("before, after the matrix, after ReLU", [rms(h), rms(h @ W), rms(torch.relu(h @ W))], 1)
assert abs(rms(torch.relu(h @ W)) - 0.5**0.5) < 0.02  # 1024 units: half a percent of noise
print(f"fifty layers at gain 1: {0.5**25:.0e}")

# %% [markdown]
# $(1/\sqrt2)^{50} = 2^{-25}$. The gain that keeps the size is $\sqrt2 = 1.414$, a standard deviation of $\sqrt{2/D}$: **Kaiming initialization** (He et al. 2015), derived for ReLU nets.
# At width 64 the measured gains come out a little higher, 1.44 in the middle of 50 draws: the rule speaks of the average over draws, and a few lucky draws lift that average above what most of them get.
#
# Code rarely says "gain". It gives a standard deviation, and $g = \text{std} \cdot \sqrt D$. Write the rule as a function:


# %% tags=["exercise"] id="ex-1-3"
# Exercise 1.3 · ●●○○○ · 5 min
def fate(std, width, depth=50):
    """Predict what happens to a signal in a deep ReLU net without biases and without a norm.

    std: standard deviation of each weight. width: inputs of each layer, D.
    depth: number of layers.
    Returns "dies" if less than 0.01 of the signal's rms is left by the rule above, "explodes"
    if more than 100 times of it, else "lives".
    """
    ### BEGIN SOLUTION
    gain = std * width**0.5
    left = (gain / 2**0.5) ** depth
    if left < 0.01:
        return "dies"
    return "explodes" if left > 100 else "lives"
    ### END SOLUTION


# %% tags=["check"]
check.fate(fate)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `gain = std * width**0.5`, one layer's factor is `gain / 2**0.5`, and `depth` layers multiply. Then three cases.
#
# </details>
#
# What do well-known initializers draw for 256 inputs, and what do fifty of our layers make of such a gain?

# %% tags=["nbval-ignore-output"]
rng = torch.Generator().manual_seed(14)
recipes = {
    "normal, std 0.02": nn.init.normal_(torch.empty(256, 256), std=0.02, generator=rng),
    "nn.Linear's own": nn.init.kaiming_uniform_(torch.empty(256, 256), a=5**0.5, generator=rng),
    "Xavier": nn.init.xavier_normal_(torch.empty(256, 256), generator=rng),
    "Kaiming, for ReLU": nn.init.kaiming_normal_(
        torch.empty(256, 256), nonlinearity="relu", generator=rng
    ),
    "normal, std 1": nn.init.normal_(torch.empty(256, 256), generator=rng),
}
for name, W in recipes.items():
    gain = W.std().item() * 256**0.5
    print(f"{name:18} gain {gain:4.2g}: {rms_after(gain):.1g} of the signal is left")
    assert (
        0.005 < rms_after(gain) / (gain / 2**0.5) ** 50 < 50
    )  # the rule is an average; one draw of the weights strays

# %%
for name, W in recipes.items():
    print(f"{name:18} {fate(W.std().item(), width=256)}")

# %% [markdown]
# PyTorch's own default weights, gain 0.58, let next to nothing through fifty plain ReLU layers. (`nn.Linear` also draws biases, which we left out: the second question of "On your own".)
# And "std 0.02" is neither small nor large by itself. It depends on the width: at width 5,000 it is Kaiming's.
#
# ## 1.4 The gradient takes the same road back
#
# On the way back the gradient meets the same matrices, transposed, and the same ReLU gates, half of them shut. So its rule is the same, a factor of $g/\sqrt2$ a layer
# (if we take the gradient as independent of the gates; the figure shows that this is good enough here).
#
# **Predict:** the gradient's size at layer 0, at gain 1, if it is 1 at layer 50.


# %%
def gradient_sizes(signals):
    """The rms of d loss / d signal for each signal, for a loss that weighs the last one at
    random.
    """
    rng = torch.Generator().manual_seed(9)
    upstream = torch.randn(signals[-1].shape, dtype=signals[-1].dtype, generator=rng)  # (B, 64)
    return [rms(d) for d in torch.autograd.grad((signals[-1] * upstream).sum(), signals)]


# %%
start = x.clone().requires_grad_()  # (B, 64), a copy that autograd follows
choices = {
    "gain 1": (1.0, None),
    "gain 1.41": (2**0.5, None),
    "gain 2": (2.0, None),
    "LayerNorm": (2.0, layer_norm),
}
runs = {
    name: [deep(start, *choice, seed=seed) for seed in range(4)]
    for name, choice in choices.items()
}
forward = {name: [[rms(h) for h in signals] for signals in four] for name, four in runs.items()}
back = {
    name: [gradient_sizes(signals)[::-1] for signals in four] for name, four in runs.items()
}
assert (
    max(run[50] for run in back["gain 1"]) < 1e-6
    and min(run[50] for run in back["gain 2"]) > 1e5
)
assert all(
    0.005 < size < 200 for run in back["gain 1.41"] + back["LayerNorm"] for size in run
)  # 50 other draws: 0.03 to 6

# %%
plot.panels(
    {"signal": (range(51), forward), "gradient": (range(51), back)},
    ylog=True,
    markers=False,
    colors={"gain 1": "#A0A0A0", "gain 1.41": "#777777", "gain 2": "#444444"},
    title="Where the signal dies or burns, the gradient does too",
    x="layers passed",
    y="rms",
    caption="Left: the signal, on the way from the input to layer 50. Right: gradient of a "
    "random loss, on its way back from layer 50 to the input. "
    "LayerNorm at gain 2. Width 64, 40 digits.",
    alt="Two panels on logarithmic axes that look alike. At gain 1 signal and gradient fall to "
    "1e-8 after 50 layers, at gain 2 both rise to 1e7; "
    "at gain 1.41 and with LayerNorm both stay near 1.",
)

# %% [markdown]
# A net that starts on the lowest line hears next to nothing, and its early layers get a gradient of $10^{-8}$ to learn from. On the highest the gradient is $10^7$, and one plain gradient step at a usual learning rate throws it off.
# (The two curves near 1 wander: with 64 units a draw of the weights can be lucky or unlucky by a factor of a few.)
#
# ## 1.5 Standardize
#
# Choosing the gain is one way. The other: after each matrix, look how large the numbers are, and **divide by that**. First the mean goes, too:
#
# $$\hat x_i = \frac{x_i - \mu}{\sigma} \qquad \mu = \frac1D\sum_i x_i \qquad \sigma = \sqrt{\frac1D\sum_i (x_i-\mu)^2}$$
#
# **By hand:** take the five numbers 0, 0, 0, 0, 10. What are $\mu$ and $\sigma$, and what do the five become? Do they lie between -1 and 1? PyTorch does the same sum:

# %%
five = torch.tensor([0.0, 0.0, 0.0, 0.0, 10.0])  # (D,) = (5,)
show("F.layer_norm", F.layer_norm(five, (5,)))

# %% [markdown]
# The mean is 2, the distances from it are -2, -2, -2, -2, 8. Their squares 4, 4, 4, 4, 64 have the mean 16, so $\sigma = 4$.
# The result has mean 0 and rms 1. But it does not stay between -1 and 1, and it is not bell-shaped: two numbers were set, the shape is what it was.


# %% tags=["exercise"] id="ex-1-4"
# Exercise 1.4 · ●●○○○ · 4 min
def standardize(x):
    """Subtract the mean of a vector and divide by its standard deviation.

    x: (D,) float tensor with at least two different numbers.
    Returns a tensor (D,) with mean 0 and rms 1. The variance is the mean of the squared
    distances: divide by D, not by D - 1 as torch.std does unless you say correction=0.
    There is no eps yet, and F.layer_norm is no answer: write its steps.
    """
    ### BEGIN SOLUTION
    centered = x - x.mean()  # (D,)
    return centered / centered.square().mean().sqrt()  # (D,)
    ### END SOLUTION


# %% tags=["check"]
check.standardize(standardize)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two lines, as in the sum by hand: first the distances from the mean; then divide them by the root of the mean of their squares.
#
# </details>
#
# Your function in a deep net: one digit, fifty layers, at gains from one thousandth to a thousand.

# %%
for gain in (0.001, 1.0, 1000.0):
    rng = torch.Generator().manual_seed(15)
    h = x[0]  # (D,) = (64,)
    for _ in range(50):
        W = gain * torch.randn(64, 64, dtype=h.dtype, generator=rng) / 8  # (64, 64)
        h = torch.relu(standardize(W @ h))  # (64,)
    show(f"gain {gain}: rms at layer 50", rms(h), 1)
    assert 0.5 < rms(h) < 0.9  # about sqrt(1/2): half of the squares of a vector of rms 1

# %% [markdown]
# The same size at every gain. It is even the same signal: a positive factor in front of the weights is a factor of $z$, of its $\mu$ and of its $\sigma$, and cancels in $(z - \mu)/\sigma$.
# This is **exact** but for rounding, not an average, as long as there are no biases.
# `F.layer_norm` does the same to each row of a batch, up to a tiny $\epsilon$ under the root that [lesson 3](03_epsilon.ipynb) explains.


# %%
def exact_norm(z):
    """LayerNorm without epsilon."""
    return F.layer_norm(z, z.shape[-1:], eps=0.0)


reference = deep(x, 1.0, exact_norm)[-1]  # (B, 64)
for weights, inputs in ((3.0, 1.0), (0.01, 1.0), (1.0, 2.0)):
    same = deep(inputs * x, weights, exact_norm)[-1]  # (B, 64)
    assert (
        same - reference
    ).abs().max() < 1e-9  # float64 rounding, 1e-16 a step, carried through fifty layers
print("same signal at layer 50 for weights x 3, weights x 0.01, input x 2")

# %% [markdown]
# **That is the promise of a norm: the signal does not depend on the scale,** neither on the weights' nor on the input's. The next two sections ask what that is worth.
#
# ## 1.6 What it is worth in training
#
# A net of eight layers learns to read the digits, with its weights at a tenth of Kaiming's scale, at Kaiming's, and at three times that.
# Chance enters twice, by the first weights and by the order of the examples, so we train each net three times; runs with one seed start from the same weights and see the same batches.
# `nn.LayerNorm(64)` is our operation as a module. It also learns a gain and a bias for each feature, which start at 1 and 0 and have nothing to do with the gain of the weights ([lesson 4](04_affine_and_module.ipynb)).
#
# **Predict:** where does LayerNorm help?


# %%
def mlp(depth, scale, norm=False):
    """A ReLU net, 64 -> 64 -> ... -> 10, with weights of `scale` times Kaiming's std and zero
    biases.
    """
    layers = []
    for _ in range(depth):
        linear = nn.Linear(64, 64)
        nn.init.normal_(linear.weight, std=scale * (2 / 64) ** 0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.LayerNorm(64), nn.ReLU()] if norm else [linear, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %%
def accuracy(model):
    """Percent of the 500 test digits that the model reads right."""
    return 100 * (model(split.x_test.flatten(1)).argmax(1) == split.y_test).double().mean()


# %%
def train_all(models):
    """Train each model from three seeds for three epochs with Adam. Return the histories."""
    return train.compare(
        models,
        seeds=range(3),
        data=(split.x_train.flatten(1), split.y_train),
        epochs=3,
        batch_size=64,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.Adam(
            parameters, lr=1e-3, fused=True
        ),  # fused: the same rule, twice as fast here
        evaluate={"accuracy": accuracy},
    )


# %% tags=["nbval-ignore-output"]
scales = [0.1, 1.0, 3.0]
plain = train_all(
    {scale: lambda scale=scale: mlp(8, scale) for scale in scales}
)  # scale=scale: each function keeps its own
normed = train_all({scale: lambda scale=scale: mlp(8, scale, norm=True) for scale in scales})
final = {
    name: torch.stack(
        [history[scale]["accuracy"][:, -1] for scale in scales], dim=1
    )  # (3 seeds, 3 scales)
    for name, history in {"none": plain, "LayerNorm": normed}.items()
}

# %%
plot.lines(
    scales,
    final,
    xlog=True,
    ylim=(0, 100),
    href={"chance": 10.0},
    title="Here LayerNorm helps where the weights start at a wrong scale, and only there",
    x="scale of the first weights, in units of Kaiming's",
    y="test accuracy (%)",
    caption="Eight layers of width 64 on the 8 x 8 digits, 1,297 to train and 500 to test, "
    "Adam at 0.001, three epochs, tuned for nobody.",
    alt="Test accuracy over the scale of the first weights. Without a norm about 10 percent at "
    "0.1, 90 at 1 and 55 at 3; with LayerNorm about 90, 90 and 75.",
)

# %%
gap = dict(zip(scales, (final["LayerNorm"] - final["none"]).mean(0).tolist(), strict=True))
assert (
    gap[0.1] > 50 and gap[3.0] > 5
)  # 28 other pairs of runs: 81 and 19 points on average, sd 4 and 6
assert abs(gap[1.0]) < 5  # 28 other pairs: -0.3 points on average, sd 2
print("better at a tenth and at three times; at Kaiming's own scale no difference")

# %% [markdown]
# At a tenth of the scale the plain net has not begun to learn when the other reads nine digits in ten. At the right scale we measure **no difference**.
# At three times the scale LayerNorm helps, but does not reach 90 %. The *signal* is independent of the scale; the *learning* is not, because a step of one size turns large weights less
# than small ones ([lesson 8](08_geometry.ipynb)).
#
# So beware of comparisons on PyTorch's default weights, gain 0.58: a norm then competes with a net that is nearly deaf (section 1.7).
#
# ## 1.7 What it does not do
#
# **It does not keep different things different.** Ten digits, fifty layers, Kaiming's gain, without and with LayerNorm:

# %%
ten = (
    torch.stack([split.x_train[split.y_train == digit][0] for digit in range(10)])
    .flatten(1)
    .double()
)  # (10, 64)
rows = [ten, deep(ten, 2**0.5)[-1], deep(ten, 2**0.5, layer_norm)[-1]]
rows = 8 * F.normalize(
    torch.stack(rows), dim=-1
)  # (3, 10, 64), each picture of rms 1, so that one gray scale fits
plot.figure(
    strips(rows, ["input", "layer 50,\nno norm", "layer 50,\nLayerNorm"], range(10)),
    size=(7, 2.3),
    title="After fifty layers ten digits are almost one picture, with LayerNorm too",
    caption="Gain 1.41, one draw of the weights, each picture divided by its rms, so that only "
    "its direction is seen.",
    alt="Three rows of ten images. The first shows the digits 0 to 9. The second and the third "
    "show ten pictures each that look almost alike.",
)

# %% [markdown]
# On average every random ReLU layer makes two signals a little more alike. LayerNorm does not undo that: it treats each vector by itself, and never looks at two of them together.
#
# We measure directions by the cosine of the angle between the vectors of two digits: 1 for the same direction.
# Two unrelated vectors have $1/\pi = 0.32$ on average after a ReLU (of Gaussian numbers), and not 0, because nothing in them is negative.


# %%
def cosine(h):
    """The mean cosine between different rows of h (B, 64)."""
    h = h / h.square().sum(-1, keepdim=True).sqrt()  # (B, 64), each row of length 1
    return ((h @ h.T).sum().item() - len(h)) / (len(h) * (len(h) - 1))


def batch_norm(z):
    """PyTorch's Batch Normalization: statistics of each feature over the batch (lesson 6)."""
    return F.batch_norm(z, None, None, training=True)


# %%
norms = {"none": None, "LayerNorm": layer_norm, "BatchNorm": batch_norm}
runs = {
    name: [deep(start, 2**0.5, norm, seed=seed) for seed in range(4)]
    for name, norm in norms.items()
}
cosines = {
    name: [[cosine(h) for h in signals] for signals in four] for name, four in runs.items()
}
assert all(
    run[-1] > 0.85 for run in cosines["none"] + cosines["LayerNorm"]
)  # 50 other draws: 0.91 and more
assert all(run[-1] < 0.5 for run in cosines["BatchNorm"])  # 50 other draws: 0.31 to 0.34

# %%
plot.lines(
    range(51),
    cosines,
    ylim=(0, 1.05),
    markers=False,
    href={"unrelated: 1/π": 0.318},
    title="LayerNorm leaves all digits nearly parallel; BatchNorm keeps them apart",
    x="layer",
    y="mean cosine between digits",
    caption="40 digits, width 64, gain 1.41. Near-parallel signals differ little in what the "
    "last layer can read off them.",
    alt="The mean cosine between digits over 50 layers. Without a norm and with LayerNorm it "
    "rises from about 0.5 to above 0.97; with BatchNorm it falls to 0.32 in the first layer "
    "and stays there.",
)

# %% [markdown]
# BatchNorm is the older norm (2015; LayerNorm came in 2016). It compares each digit with the others of its batch, which pulls them apart. Is it the better one, then?
#
# **Predict:** what happens to its gradient on the way back?

# %%
gradients = {name: [gradient_sizes(signals) for signals in four] for name, four in runs.items()}
plot.lines(
    range(50),
    {name: [sizes[:0:-1] for sizes in four] for name, four in gradients.items()},
    ylog=True,
    markers=False,
    title="BatchNorm's gradient explodes in a deep plain net, by a factor of 1.2 a layer",
    x="layers passed, on the way back from layer 50",
    y="rms of the gradient",
    caption="The nets of the last figure. Tuning the first weights cannot prevent it (Yang et "
    "al. 2019).",
    alt="Gradient size over the layers passed on the way back, on a logarithmic axis. Without "
    "a norm and with LayerNorm it stays near 1; with BatchNorm it rises from 1 to above "
    "10,000.",
)

# %% [markdown]
# A forward signal of the right size is no guarantee for the way back. The factors per layer:

# %%
factors = {
    name: [(sizes[1] / sizes[50]) ** (1 / 49) for sizes in four]
    for name, four in gradients.items()
}
assert all(
    1.17 < factor < 1.29 for factor in factors["BatchNorm"]
)  # 50 other draws: 1.22 to 1.25
assert all(
    0.9 < factor < 1.1 for factor in factors["none"] + factors["LayerNorm"]
)  # 50 other draws: 0.94 to 1.04
show("BatchNorm, four draws of the weights", factors["BatchNorm"], 1)

# %% [markdown]
# **It does not stand in for the right scale in a deep net.** Twenty layers, the training of section 1.6.
# Gain 0.58 is the scale of PyTorch's default weights, 1.41 is Kaiming's.
#
# **Predict:** which of these four nets learns best?

# %% tags=["nbval-ignore-output"]
history = train_all(
    {
        "gain 0.58, no norm": lambda: mlp(20, 6**-0.5),
        "gain 0.58, LayerNorm": lambda: mlp(20, 6**-0.5, norm=True),
        "gain 1.41, LayerNorm": lambda: mlp(20, 1.0, norm=True),
        "gain 1.41, no norm": lambda: mlp(20, 1.0),
    }
)
train.table(history, "accuracy")
mean = {name: columns["accuracy"][:, -1].mean().item() for name, columns in history.items()}
assert (
    mean["gain 0.58, no norm"] < 20 < mean["gain 0.58, LayerNorm"]
)  # 28 other runs: 9 and 58 on average
assert (
    mean["gain 1.41, LayerNorm"] < mean["gain 1.41, no norm"] + 20
)  # 28 other pairs: 2 points less on average, sd 9

# %% [markdown]
# At the scale of PyTorch's default weights the plain net stays at chance, 10 %. LayerNorm gets somewhere: between 23 and 78 % in 28 other runs of ours.
# The right gain alone gets further on average, 71 against 58 % in those runs, and the norm on top of it adds nothing here.
# (Longer training does not change that: after ten epochs 92 % without and 91 % with it, six seeds, measured apart.)
# Very deep nets that work have something else besides: skip connections ([lesson 11](11_transformer.ipynb)).
#
# ## 1.8 The story that everybody tells
#
# Batch Normalization was introduced against **internal covariate shift**: while a layer learns, the layers before it change what it gets as input, and a norm was to hold that still.
# It is a good story, and the best known measurement speaks against it. Santurkar et al. (2018) put a shift back in: right *after* each BatchNorm they added random noise whose mean and scale changed at every step. Their image nets trained about as well as with plain BatchNorm, and better than without a norm.
# They propose a smoother loss as the reason. So keep three things apart: that a norm makes the signal independent of the scale is **proved**, in one line, in section 1.5; that the nets of section 1.6 learn from a wrong scale thanks to it was **measured**; why norms help in general is still **argued about**.
#
# **Your turn, without a computer:** which of these promises does a norm keep?

# %% tags=["exercise"] id="ex-1-5"
# Exercise 1.5 · ●●○○○ · 4 min
# All nets are those of this lesson: plain ReLU layers; in the first five statements with random
# weights and no biases.
# Copy these lines and put True or False for each `...`:
# promises = {
#     "with LayerNorm, weights three times as large give the same signal": ...,
#     "with LayerNorm, an input twice as large gives the same signal": ...,
#     "the entries of a standardized vector lie between -1 and 1": ...,
#     "with LayerNorm, two digits keep different directions for 50 layers": ...,
#     "with BatchNorm, the gradient keeps its size over 50 plain layers": ...,
#     "in our training runs, weights of the right scale learned better with LayerNorm": ...,
# }
### BEGIN SOLUTION
promises = {
    "with LayerNorm, weights three times as large give the same signal": True,
    "with LayerNorm, an input twice as large gives the same signal": True,
    "the entries of a standardized vector lie between -1 and 1": False,
    "with LayerNorm, two digits keep different directions for 50 layers": False,
    "with BatchNorm, the gradient keeps its size over 50 plain layers": False,
    "in our training runs, weights of the right scale learned better with LayerNorm": False,
}
### END SOLUTION

# %% tags=["check"]
check.promises(promises)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Where to look: for the first two, the last code cell of section 1.5; for the third, the five numbers there; for the fourth and the fifth, the figures of section 1.7;
# for the last, the middle of the figure of 1.6 and the table of 1.7.
#
# </details>
#
# ## Take-away
#
# - In a ReLU net without norm and biases, signal and gradient change by $g/\sqrt2$ a layer, with $g = \text{std}\cdot\sqrt D$. Below $\sqrt2$ a deep net goes deaf, above it burns; $\sqrt2$ is Kaiming's.
# - Standardizing divides by the signal's own size, so a positive factor cancels exactly (without biases and at $\epsilon = 0$): the signal is **independent of the scale** of the weights and of the input.
# - A norm need not keep directions apart (LayerNorm: cosine above 0.9 at depth 50), nor the gradient even (BatchNorm: a factor of 1.2 a layer), and here it did not beat weights of the right scale.
#
# ## On your own
#
# 1. Train the net of section 1.6 at scale 0.1 with LayerNorm and a learning rate of 0.003 instead of 0.001. It gets much worse. Why, if the signal does not depend on the scale? ([Lesson 8](08_geometry.ipynb) answers.)
# 2. Give each layer of `deep` random biases as `nn.Linear` has them, at gain 0.58. The signal does not die any more. Is it still about the digit? Use `cosine`.
# 3. `deep` in float32, weights of std 0.01 at width 64: what is left after 50 layers, and why is it exactly that?
#
# ## Further reading
#
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, eq. 10: the gain $\sqrt2$, for the signal; eq. 14 for the gradient.
# - Ioffe & Szegedy (2015), *Batch Normalization*; Santurkar, Tsipras, Ilyas & Madry (2018), *How Does Batch Normalization Help Optimization?*: the story, and the control with noise.
# - Yang et al. (2019), *A Mean Field Theory of Batch Normalization*: the exploding gradient, and that initialization cannot prevent it.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*: the paper that this course takes apart.

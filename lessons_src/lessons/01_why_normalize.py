# %% [markdown]
# # 1 · Why normalize?
#
# A net of twenty layers is to read handwritten digits. It starts with PyTorch's initial weights, sees 1,297 small images three times, and is tested on 500 others. A net of two layers is the control. Guessing reads 10 %.
#
# *Before you start, [form A](inventory_a.ipynb) asks what you know. Shift+Enter runs a cell and goes to the next. Run all in order, folded ones too.*

# %% tags=["hide-input"]
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

split = data.digits_split(0)
print(f"{len(split.x_train)} digits to learn from, {len(split.x_test)} to be tested on")


def accuracy(model):
    """Percent of the 500 test digits that the model reads right."""
    return 100 * (model(split.x_test.flatten(1)).argmax(1) == split.y_test).double().mean()


def train_all(models):
    """Train each model from three seeds for three epochs with Adam. Return the histories."""
    return train.compare(
        models,
        seeds=range(3),
        data=(split.x_train.flatten(1), split.y_train),
        epochs=3,
        batch_size=64,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3, fused=True),
        evaluate={"accuracy": accuracy},
    )


# %% tags=["nbval-ignore-output"]
def plain(depth):
    """`depth` ReLU layers 64 -> 64 and a last Linear 64 -> 10, as PyTorch starts them."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


shallow = train_all({"2 layers": lambda: plain(2)})
train.table(shallow, "accuracy")

# %% tags=["nbval-ignore-output"]
deeper = train_all({"20 layers": lambda: plain(20)})
train.table(deeper, "accuracy")

# %% tags=["hide-input"]
# 16 and 32 other runs: 85 to 91, and 8 to 11
assert shallow["2 layers"]["accuracy"][:, -1].min() > 75
assert deeper["20 layers"]["accuracy"][:, -1].max() < 20

# %% [markdown]
# The shallow net reads about nine digits in ten. The deep one, with more of the same layers, still guesses. This lesson finds out why and heals it.
#
# *About 60 min.* **You'll be able to**
# - predict from the scale of the initial weights whether signal and gradient of a deep ReLU net die, live or explode;
# - standardize a vector, which this course is about;
# - say what a **normalization layer** (a **norm**, for short) promises and what it does not.
#
# **You need** tensors, matrix products, ReLU, `backward()`, and to have seen a training loop.
#
# **How it works.** This is your own copy, in `work/`. For a prediction, put one letter between the quotes and run its cell *before* you read on. In an exercise, replace `raise check.YourTurn(...)` by your code, run the cell and the check below it, which answers in green (right), blue (your turn) or red (not yet, and probably why). After a break, select the cell where you stopped, then *Kernel → Restart Kernel and Run up to Selected Cell*.
# Each check and prediction adds a line to `work/attempts.jsonl`: right or not, and the time, never your code. Nothing is sent, and `LESSON_LOG=off make lab` switches it off.

# %% [markdown]
# ## 1.1 Fifty layers
#
# What happens to a digit on its way through a deep net? It enters as 64 numbers, its **signal**. Each layer has 64 **units**, and each unit makes one new number: it adds up all 64, each times a weight of its own, and turns a negative sum into 0 (ReLU).
# Before training the weights are random. All we choose is their size: we draw each with standard deviation $s/\sqrt D$, where $D$ is the number of inputs, and call $s$ the **weight scale**. There are no biases yet. The size of a signal is its **rms**, the root of the mean of its squares.


# %%
def rms(h):
    """The root mean square of all entries of h."""
    return h.square().mean().sqrt().item()


def deep(x, scale, before=None, after=None, seed=0):
    """The 51 signals of x (B, 64) in fifty ReLU layers; before, after ReLU: norm or none."""
    rng = torch.Generator().manual_seed(seed)
    signals = [x]
    for _ in range(50):
        W = scale * torch.randn(64, 64, dtype=x.dtype, generator=rng) / 64**0.5  # (64, 64)
        z = signals[-1] @ W  # (B, 64)
        h = torch.relu(before(z) if before else z)  # (B, 64)
        signals.append(after(h) if after else h)  # (B, 64)
    return signals


# %% [markdown]
# **Predict 1.1:** at weight scale 1 a layer keeps 71 % of the signal's rms on average. How much is left after fifty layers?
# - [ ] most of it :: The second layer keeps 71 % of what the first one has left, 50 %, and so on fifty times.
# - [ ] about a hundredth :: A hundredth is left after 13 layers already, because 0.71 to the power 13 is 0.01. There are 37 more.
# - [x] less than a millionth :: Every two layers keep one half, so fifty layers halve the signal 25 times: 3e-8 is left.

# %% [markdown]
# Three nets have the same random weights but for their scale. The fourth has the weights of the third and, before each ReLU, a norm that you will build in lessons 2 to 4: `F.layer_norm`, or LayerNorm.


# %%
def layer_norm(z):
    """PyTorch's Layer Normalization over the last axis of z (B, 64)."""
    return F.layer_norm(z, z.shape[-1:])


x = split.x_train[:40].flatten(1).double()  # (B, D) = (40, 64); float64: no over- or underflow
nets = {
    "scale 1": deep(x, 1.0),
    "scale 1.41": deep(x, 2**0.5),
    "scale 2": deep(x, 2.0),
    "scale 2, LayerNorm": deep(x, 2.0, before=layer_norm),
}
for name, signals in nets.items():
    print(f"{name:18} rms at layer 50: {rms(signals[-1]):.1g}")


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


layers = [0, 1, 2, 5, 10, 20, 35, 50]
rows = torch.stack(
    [torch.stack([signals[layer][5] for layer in layers]) for signals in nets.values()]
)  # (4, 8, 64)
plot.figure(
    strips(
        rows,
        [name.replace(", ", ",\n") for name in nets],
        ["input", *[f"layer {layer}" for layer in layers[1:]]],
    ),
    size=(7, 3.4),
    title="The weight scale decides how large a signal gets; a norm takes that decision away",
    caption="One digit: its 64 numbers at the input and in seven of fifty random ReLU layers "
    "(width 64, no biases, one draw of the weights). One gray scale: white is 0 or less, black "
    "is 2 or more. In the last row `F.layer_norm` comes before each ReLU.",
    alt="Four rows of eight small gray images, from the input to layer 50. At scale 1 they "
    "fade to white by layer 10, at scale 1.41 they stay gray, at scale 2 they turn black and "
    "white by layer 10, and at scale 2 with LayerNorm they stay gray.",
    numbers={
        "net": [name for name in nets for _ in layers],
        "layer": layers * len(nets),
        "rms of the image": rows.square().mean(-1).sqrt().flatten().tolist(),
    },
)

# %% [markdown]
# No step of training has been taken: the scale of the weights alone makes a signal fade or explode.
#
# **Predict 1.2:** divide each picture at layer 50 of the first three rows by its own rms. What do you see?
# - [ ] noise in the first row, because nothing was left there :: 3e-8 is small, but in float64 it still has its sixteen digits.
# - [x] the same picture three times :: A matrix product and ReLU pass a positive factor on unchanged, so the scale cannot alter the picture.
# - [ ] three different pictures :: The only difference between the three nets is a positive factor in each layer, and matrix products and ReLU pass such a factor on unchanged.

# %%
for name, signals in list(nets.items())[:3]:
    h = signals[-1][5]  # (64,), one digit
    show(f"{name}, positive numbers of one digit", h[h > 0][:5] / rms(h), 2)

# %% tags=["hide-input"]
last = [signals[-1] / rms(signals[-1]) for signals in nets.values()]
assert all(torch.allclose(last[0], h, atol=1e-12) for h in last[:3])

# %% [markdown]
# Without biases these nets are **homogeneous**: $c > 0$ times the weights of a layer is $c$ times every later signal. So the weight scale decides only how large a signal is.
# Size matters because numbers have limits (float16 ends at 65,504), and because gradients share its fate.

# %% [markdown]
# ## 1.2 Find the weight scale that survives
#
# Which weight scales keep a signal at a usable size through fifty layers? We say that it **lives** if its size stays within a factor of 100, up or down.


# %%
def rms_after(scale):
    """The signal's size after 50 ReLU layers of width 64, divided by its size at the input."""
    return rms(deep(x, scale)[-1]) / rms(x)


for scale in (0.5, 1.0, 2.0, 3.0):
    print(f"weight scale {scale}: {rms_after(scale):.0e} of the input")

# %% [markdown]
# Almost forty powers of ten lie between weight scales that differ by a factor of six, because the scale enters fifty times: $6^{50} = 8 \cdot 10^{38}$.
# Write a function that finds a weight scale at which the signal lives. The check brings the `rms_after` of other nets, where 1.4 is wrong, so measure.


# %% tags=["exercise"] id="ex-1-1"
# Exercise 1.1 · ●●●○○ · 7 min
def find_scale(rms_after, low=0.5, high=4.0):
    """Find a weight scale at which a signal survives 50 layers.

    rms_after: function weight scale -> size of the signal after 50 layers, as a multiple of
        the input; it grows with the weight scale.
    Returns a weight scale (float) between low and high for which rms_after(scale) lies
    between 0.01 and 100. It is not the same for every net.
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
check.find_scale(find_scale)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Halving: try the middle of `low` and `high`. Is the signal larger than 1 there? Then the weight scale is too large, and the middle becomes the new `high`; otherwise the new `low`. Twenty times.
# Or try every weight scale from 0.5 to 4 in steps of 0.05 and return the one whose signal is closest to 1.
#
# </details>

# %% tags=["nbval-ignore-output", "hide-input"]
found = find_scale(rms_after)
show("a weight scale that survives", found, 2)

# %% tags=["hide-input"]
# by the rule of section 1.3, with room for the draw of the weights:
# sqrt(2) times 100 ** (1/50) = 1.10, up or down
assert 1.25 < found < 1.65

# %% [markdown]
# **Predict 1.3:** by how much may the weight scale miss 1.41, up or down, if the signal is to live?
# - [ ] by about 1 % :: A factor of 1.01 in each layer is harmless: fifty of them make 1.6.
# - [x] by about 10 % :: A factor of 1.1 in each layer makes 117 in fifty, and 100 is the limit.
# - [ ] by about 25 % :: A factor of 1.25 in each layer makes 70,000 in fifty.

# %% tags=["hide-input"]
scales = [0.5, 0.75, 1.0, 1.25, 1.35, 1.4, 1.45, 1.5, 1.55, 1.65, 1.75, 2.0, 2.5, 3.0]
sizes = {
    name: [
        [rms(deep(x, scale, before=norm, seed=seed)[-1]) / rms(x) for scale in scales]
        for seed in range(4)
    ]  # (4, 14)
    for name, norm in {"no norm": None, "LayerNorm": layer_norm}.items()
}
for name, runs in sizes.items():
    lives = [s for i, s in enumerate(scales) if all(0.01 < run[i] < 100 for run in runs)]
    print(f"{name}: lives in all four draws at {lives}")

# %% [markdown]
# **Slide** the weight scale and watch the gray curve. The blue one has LayerNorm.

# %% tags=["nbval-ignore-output", "hide-input"]
slider = widgets.FloatSlider(
    value=1.2,
    min=1.0,
    max=2.0,
    step=0.02,
    description="weight scale",
    tooltip="weight scale from 1 to 2; the arrow keys move it by 0.02",
    continuous_update=False,
    style={"description_width": "initial"},
    layout=widgets.Layout(width="98%"),
)
said = widgets.HTML()
picture = widgets.Image(format="png", width=640)


def redraw(change=None):
    """Draw and say the sizes of the signals in all layers for the slider's weight scale."""
    curves = {
        "no norm": deep(x, slider.value),
        "LayerNorm": deep(x, slider.value, before=layer_norm),
    }
    in_layers = {name: [rms(h) for h in signals] for name, signals in curves.items()}
    said.value = f"Weight scale {slider.value:.2f}. Size at layer 50: " + ", ".join(
        f"{values[-1]:.1g} ({name})" for name, values in in_layers.items()
    )
    picture.value = plot.lines(
        range(51),
        in_layers,
        ylog=True,
        ylim=(1e-9, 1e9),
        markers=False,
        show=False,
        title=f"Weight scale {slider.value:.2f}",
        x="layer",
        y="rms of the signal",
        caption="-",
        alt="-",
    ).png


slider.observe(redraw, "value")
redraw()
widgets.VBox([slider, said, picture])

# %% tags=["hide-input"]
plot.lines(
    scales,
    sizes,
    ylog=True,
    markers=True,
    href={"size of the input": 1.0},
    x="weight scale",
    y="rms at layer 50 / rms of the input",
    title="Without a norm only scales near 1.4 live; with LayerNorm all from 0.5 to 3 do",
    caption="Fifty random ReLU layers of width 64, 40 digits, four draws of the weights. With "
    "LayerNorm before each ReLU the size is about 0.7 at each of these weight scales.",
    alt="Signal size at layer 50 over the weight scale from 0.5 to 3, on a logarithmic axis. "
    "Without a norm it climbs over more than thirty powers of ten and crosses 1 near 1.4. With "
    "LayerNorm it is a flat line just below 1.",
)

# %% tags=["hide-input"]
# five blocks of 50 other draws, at weight scale 2: 0.61 to 0.78
assert all(0.5 < size < 0.9 for run in sizes["LayerNorm"] for size in run)
assert all(run[0] < 1e-15 and run[-1] > 1e12 for run in sizes["no norm"])

# %% [markdown]
# With LayerNorm the signal lives at any weight scale from 0.5 to 3: that is its first promise.

# %% [markdown]
# ## 1.3 Why 1.4?
#
# Two facts about the mean square, $\text{rms}^2$, explain the number. They are exact on average over weights drawn symmetrically around 0, for any input:
#
# - **The matrix multiplies the mean square by $s^2$.** An output sums $D$ products of a weight and an input. The weights are independent, so on average only the squares add up: $D \cdot \frac{s^2}{D} \cdot \text{rms}^2$.
# - **ReLU halves it.** Because the weights are symmetric, an output is as likely negative as positive, and the negative half is set to 0.
#
# So a layer multiplies the rms by about $s/\sqrt2$, and $L$ layers by about $(s/\sqrt2)^L$.

# %% tags=["hide-input"]
rng = torch.Generator().manual_seed(13)
h = torch.randn(300, 512, dtype=torch.float64, generator=rng)  # (B, D)
W = torch.randn(512, 1024, dtype=torch.float64, generator=rng) / 512**0.5  # (D, 1024) s = 1
show("before, after the matrix, after ReLU", [rms(h), rms(h @ W), rms(torch.relu(h @ W))], 1)
print(f"fifty layers at weight scale 1: {0.5**25:.0e}")

# %% tags=["hide-input"]
assert abs(rms(torch.relu(h @ W)) - 0.5**0.5) < 0.02  # 1024 units: half a percent of noise

# %% [markdown]
# On average a layer keeps the size at $s = \sqrt2 = 1.41$, a standard deviation of $\sqrt{2/D}$. This is **Kaiming initialization** (He et al. 2015), derived for ReLU nets. Single draws stray: at width 64, half of 300 kept less than 42 % through fifty layers.
# Code gives a standard deviation instead of a weight scale, and $s = \text{std} \cdot \sqrt D$. Write the rule as a function:


# %% tags=["exercise"] id="ex-1-2"
# Exercise 1.2 · ●●○○○ · 5 min
from math import log10  # may help: no float holds what many layers leave


def fate(std, width, depth=50):
    """Predict what happens to a signal in a deep ReLU net without biases and without a norm.

    std: of each weight. width: inputs of each layer, D. depth: number of layers.
    Returns "dies" if less than 0.01 of the signal's rms is left by the rule above, "explodes"
    if more than 100 times of it, else "lives".
    """
    ### BEGIN SOLUTION
    scale = std * width**0.5
    power_of_ten = depth * log10(scale / 2**0.5)  # 0.01 is -2, 100 is 2
    if power_of_ten < -2:
        return "dies"
    return "explodes" if power_of_ten > 2 else "lives"
    ### END SOLUTION


# %% tags=["check"]
check.fate(fate)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `scale = std * width**0.5`, one layer's factor is `scale / 2**0.5`, and `depth` layers multiply. Then three cases.
#
# </details>
#
# What do well-known initializers draw for 256 inputs, and what do fifty 64-wide layers of that scale leave?

# %% tags=["nbval-ignore-output", "hide-input"]
rng = torch.Generator().manual_seed(14)
new = lambda: torch.empty(256, 256)
recipes = {
    "normal, std 0.02": nn.init.normal_(new(), std=0.02, generator=rng),
    "nn.Linear's own": nn.init.kaiming_uniform_(new(), a=5**0.5, generator=rng),
    "Xavier": nn.init.xavier_normal_(new(), generator=rng),
    "Kaiming, for ReLU": nn.init.kaiming_normal_(new(), nonlinearity="relu", generator=rng),
    "normal, std 1": nn.init.normal_(new(), generator=rng),
}
for name, W in recipes.items():
    scale = W.std().item() * 256**0.5
    left = f"{rms_after(scale):.0e} is left"
    print(f"{name:18} scale {scale:4.2g}: {left}; by the rule it {fate(scale / 16, 256)}")

# %% tags=["hide-input"]
for W in recipes.values():
    scale = W.std().item() * 256**0.5
    # the rule is an average; one draw of the weights strays
    assert 0.005 < rms_after(scale) / (scale / 2**0.5) ** 50 < 50

# %% [markdown]
# PyTorch's own weights have scale 0.58 and let next to nothing through fifty plain ReLU layers. And "std 0.02" is neither small nor large by itself: at width 5,000 it is Kaiming's.

# %% [markdown]
# ## 1.4 The gradient takes the same road back
#
# What becomes of the gradient? On the way back it meets the same matrices, transposed, and the same ReLU gates, half of them shut. So for layers of equal width its rule is the same, about $s/\sqrt2$ a layer, if we treat it as independent of the gates.


# %% tags=["hide-input"]
def gradient_sizes(signals):
    """The rms of d loss / d signal for each signal; the loss weighs the last one at random."""
    rng = torch.Generator().manual_seed(9)
    upstream = torch.randn(signals[-1].shape, dtype=signals[-1].dtype, generator=rng)  # (B, 64)
    return [rms(d) for d in torch.autograd.grad((signals[-1] * upstream).sum(), signals)]


start = x.clone().requires_grad_()  # (B, 64), a copy that autograd follows
choices = {
    "scale 1": (1.0, None),
    "scale 1.41": (2**0.5, None),
    "scale 2": (2.0, None),
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
assert max(run[50] for run in back["scale 1"]) < 1e-6
assert min(run[50] for run in back["scale 2"]) > 1e5
# 50 other draws: 0.03 to 6
assert all(0.005 < size < 200 for run in back["scale 1.41"] + back["LayerNorm"] for size in run)

# %% tags=["hide-input"]
plot.panels(
    {
        "signal, on its way to layer 50": (range(51), forward),
        "gradient, on its way back": (range(51), back),
    },
    ylog=True,
    markers=False,
    colors={"scale 1": "#A0A0A0", "scale 1.41": "#777777", "scale 2": "#444444"},
    title="Where the signal dies or explodes, the gradient does too",
    x="layers passed",
    y="rms",
    caption="Left: the signal. Right: the gradient of a random loss. LayerNorm before each "
    "ReLU, at weight scale 2. Width 64, 40 digits.",
    alt="Two panels with logarithmic axes that look alike, over the layers passed, 0 to 50. "
    "At scale 1 signal and gradient fall to 1e-8, at scale 2 both rise to 1e7; at scale 1.41 "
    "and with LayerNorm both stay between 0.05 and 5.",
)

# %% [markdown]
# **Predict 1.4:** at weight scale 1, which of the fifty matrices gets the smallest gradient?
# - [ ] the first, because the gradient has faded when it gets there :: It has, but a weight's gradient is the signal that enters times the gradient that comes back, and the signal is still large there.
# - [ ] the last, because the signal has faded when it gets there :: It has, but the gradient that comes back is still large there, and a weight's gradient is the product of both.
# - [x] none, all get about the same :: A weight's gradient is the signal that enters times the gradient that comes back. One fades forward, the other backward, so every layer gets about 0.71 to the power 49.

# %%
rng = torch.Generator().manual_seed(16)
W = [(torch.randn(64, 64, generator=rng) / 8).requires_grad_() for _ in range(50)]  # s = 1
h = x.float()  # (B, 64)
for matrix in W:
    h = torch.relu(h @ matrix)  # (B, 64)
(h * torch.randn(40, 64, generator=rng)).sum().backward()
for layer in (1, 25, 50):
    print(f"layer {layer:2}: rms of the gradient of its weights {rms(W[layer - 1].grad):.0e}")

# %% tags=["hide-input"]
weights = [rms(matrix.grad) for matrix in W]
# 0.71 ** 49 times the root of 40 digits is 3e-7; 64 other draws: 1e-8 to 1e-6, ratio up to 16
assert 1e-9 < min(weights) and max(weights) < 1e-5 and max(weights) < 50 * min(weights)

# %% [markdown]
# At weight scale 1 the weights of every layer get a gradient of about $10^{-8}$ to $10^{-6}$, so a plain gradient step at a usual learning rate changes nothing. At scale 2 it is between $10^6$ and $10^9$ (64 draws), and one step throws the net off. The gradient shares the fate of the signal.

# %% [markdown]
# ## 1.5 Standardize
#
# Is there a way to keep a signal alive that does not depend on the weights? After each matrix, **standardize**: subtract the mean $\mu$ of the numbers, then divide by their standard deviation $\sigma$, the rms of what is left:
#
# $$\hat x_i = \frac{x_i - \mu}{\sigma} \qquad \mu = \frac1D\sum_i x_i \qquad \sigma = \sqrt{\frac1D\sum_i (x_i-\mu)^2}$$
#
# **By hand:** take the five numbers 0, 0, 0, 0, 10. What are $\mu$ and $\sigma$, what do the five become, and do they lie between -1 and 1?

# %%
five = torch.tensor([0.0, 0.0, 0.0, 0.0, 10.0])  # (D,) = (5,)
show("F.layer_norm", F.layer_norm(five, (5,)))

# %% [markdown]
# The mean is 2, the distances from it are -2, -2, -2, -2 and 8, and their squares have the mean 16, so $\sigma = 4$.
# The result has mean 0 and rms 1, but it need not lie between -1 and 1.


# %% tags=["exercise"] id="ex-1-3"
# Exercise 1.3 · ●●○○○ · 3 min
def standardize(x):
    """Subtract the mean of a vector and divide by its standard deviation.

    x: (D,) float tensor with at least two different numbers, also around 100.
    Returns a tensor (D,) with mean 0 and rms 1 that passes gradients on, unlike `rms` above.
    The variance is the mean of the squared distances: divide by D, not by D - 1 as torch.std
    does unless you say correction=0. No eps yet, and no F.layer_norm: write its steps.
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
# Your function before each ReLU of fifty layers, for one digit and three weight scales:

# %% tags=["hide-input"]
for scale in (0.001, 1.0, 1000.0):
    rng = torch.Generator().manual_seed(15)
    h = x[0]  # (D,) = (64,)
    for _ in range(50):
        W = scale * torch.randn(64, 64, dtype=h.dtype, generator=rng) / 8  # (64, 64)
        h = torch.relu(standardize(W @ h))  # (64,)
    lived = rms(h)
    print(
        f"scale {scale:6}: rms {lived:.1f}, first numbers", *[f"{n:.2f}" for n in h[h > 0][:6]]
    )

# %% tags=["hide-input"]
assert 0.5 < lived < 0.9  # about sqrt(1/2): half of the squares of a vector of rms 1

# %% [markdown]
# Not only the size is the same, the signal is. The reason is one line: a positive factor of the weights is a factor of $z$, of its $\mu$ and of its $\sigma$, and cancels in $(z - \mu)/\sigma$.
# So with this norm in every layer, and without biases, **the signal does not depend on the scale, neither of the weights nor of the input.** This is proved.
#
# `F.layer_norm` does this to each row of a batch, but divides by the root of $\sigma^2 + \epsilon$ with $\epsilon = 10^{-5}$.
#
# **Predict 1.5:** `F.layer_norm` before each ReLU, weight scale 0.001. How large is the signal at layer 50?
# - [ ] 0.7, as before :: That is what your own function gives, which has no epsilon. Compare 0.00001 with the variance that a layer of scale 0.001 leaves: 0.000001 or less.
# - [ ] nan, because it divides by almost zero :: It never divides by less than the root of epsilon, 0.003. That is what epsilon is for.
# - [x] next to nothing :: A layer leaves a standard deviation of 0.001 or less, and epsilon makes the divisor 0.003. So every layer shrinks the signal, fifty times over.

# %%
for scale in (1.0, 0.1, 0.01, 0.001):
    print(f"weight scale {scale:5}: {rms(deep(x, scale, before=layer_norm)[-1]):.1g}")

# %% [markdown]
# Somewhere between 0.01 and 0.001 the signal dies, although a norm comes before every ReLU. What $\epsilon$ is good for, and what it costs, says [lesson 3](03_epsilon.ipynb).
#
# Back to your function, without $\epsilon$: which of six changes to the net leave its signals at layer 50 as they are?

# %% tags=["exercise"] id="ex-1-4"
# Exercise 1.4 · ●●●○○ · 4 min
# Fifty random ReLU layers without biases, `standardize` on each row z of a batch before each
# ReLU. Copy these lines and put True (same signals at layer 50) or False for each `...`:
# unchanged = {
#     "the weights of layer 7 only times 3": ...,
#     "the weights of all layers times -1": ...,
#     "the weights of one unit in each layer times 3": ...,
#     "all pixels of the input plus 1": ...,
#     "all 64 numbers of each z plus 5": ...,
#     "the first digit times 100: the other digits at layer 50": ...,
# }
### BEGIN SOLUTION
unchanged = {
    "the weights of layer 7 only times 3": True,
    "the weights of all layers times -1": False,
    "the weights of one unit in each layer times 3": False,
    "all pixels of the input plus 1": False,
    "all 64 numbers of each z plus 5": True,
    "the first digit times 100: the other digits at layer 50": True,
}
### END SOLUTION

# %% tags=["check"]
check.unchanged(unchanged)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Ask of each change what it does to a row $z$ just before its norm. The norm takes out a positive factor or a summand that all 64 numbers share, and nothing else.
#
# </details>


# %% tags=["hide-input"]
def changed(x, factor=lambda layer: 1.0, shift=0.0):
    """The signal at layer 50; `factor` (a number or (64,)) multiplies each layer's weights."""
    rng = torch.Generator().manual_seed(17)
    for layer in range(1, 51):
        W = torch.randn(64, 64, dtype=x.dtype, generator=rng) / 8  # (64, 64)
        z = x @ (W * factor(layer)) + shift  # (B, 64)
        x = torch.relu(F.layer_norm(z, (64,), eps=0.0))  # (B, 64)
    return x


one_unit = torch.ones(64, dtype=x.dtype).index_fill(0, torch.tensor([20]), 3.0)  # (64,)
hundred = torch.ones(40, 1, dtype=x.dtype).index_fill(0, torch.tensor([0]), 100.0)  # (40, 1)
variants = {
    "the weights of layer 7 only times 3": changed(x, lambda layer: 3.0 if layer == 7 else 1.0),
    "the weights of all layers times -1": changed(x, lambda layer: -1.0),
    "the weights of one unit in each layer times 3": changed(x, lambda layer: one_unit),
    "all pixels of the input plus 1": changed(x + 1),
    "all 64 numbers of each z plus 5": changed(x, shift=5.0),
    "the first digit times 100: the other digits at layer 50": torch.cat(
        [changed(x)[:1], changed(hundred * x)[1:]]
    ),
}
for what, now in variants.items():
    same = torch.allclose(now, changed(x), atol=1e-9)  # float64 rounding through fifty layers
    print(f"measured {same!s:5}, you said {unchanged.get(what)!s:5}: {what}")

# %% [markdown]
# ## 1.6 What it is worth in training
#
# Does the promise help to learn? Nets of eight layers are trained like the two at the beginning, without a norm and with `nn.LayerNorm(64)`, our operation as a module, before each ReLU. (It also learns a factor and a bias for each feature: [lesson 4](04_affine_and_module.ipynb).) The weight scales are 0.1, 0.2, 0.4, 1 and 3 times Kaiming's.
# Each net is trained from the same three seeds, for the initial weights and the order of the examples.


# %% tags=["hide-input"]
def mlp(depth, scale=None, norm=False):
    """The net `plain`, with a norm before each ReLU if norm is True.

    scale: weight scale of the hidden layers, whose biases then become 0; the last Linear keeps
        PyTorch's own weights and biases. None: all are PyTorch's own.
    """
    layers = []
    for _ in range(depth):
        linear = nn.Linear(64, 64)
        if scale is not None:
            nn.init.normal_(linear.weight, std=scale / 64**0.5)
            nn.init.zeros_(linear.bias)
        layers += [linear, nn.LayerNorm(64), nn.ReLU()] if norm else [linear, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% [markdown]
# **Predict 1.6:** at which weight scale does the net *with* LayerNorm read best?
# - [ ] at all five alike, because its signal does not depend on the scale :: The signal does not. But a training step has a size of its own, and turns large weights less than small ones.
# - [x] at 0.2 or 0.4 times Kaiming's :: The signal is the same at all five, but a step of one size changes small weights more.
# - [ ] at Kaiming's, which was derived for ReLU nets :: It was derived for nets without a norm. With one, the signal keeps its size at every scale, and something else decides.

# %% tags=["nbval-ignore-output", "hide-input"]
kaiming = 2**0.5
parts = [0.1, 0.2, 0.4, 1.0, 3.0]  # of Kaiming's scale
without = train_all({str(p): lambda p=p: mlp(8, p * kaiming) for p in parts})

# %% tags=["nbval-ignore-output", "hide-input"]
with_norm = train_all({str(p): lambda p=p: mlp(8, p * kaiming, norm=True) for p in parts})

final = {
    name: torch.stack([history[str(p)]["accuracy"][:, -1] for p in parts], dim=1)  # (3, 5)
    for name, history in {"no norm": without, "LayerNorm": with_norm}.items()
}

# %% tags=["nbval-ignore-output"]
show("weight scale", [p * kaiming for p in parts], 2)
for name, runs in final.items():
    show(f"mean accuracy, {name}", runs.mean(0).tolist(), 0)

# %% tags=["hide-input"]
plot.lines(
    [round(p * kaiming, 2) for p in parts],
    final,
    xlog=True,
    ylim=(0, 100),
    href={"chance": 10.0},
    title="Without a norm Kaiming's scale is the best of five; with LayerNorm a smaller one",
    x="weight scale (Kaiming's: 1.41)",
    y="test accuracy (%)",
    caption="Eight layers of width 64 on the 8 x 8 digits, 1,297 to train and 500 to test, "
    "LayerNorm before each ReLU, Adam at 0.001, three epochs. No hyperparameter was tuned.",
    alt="Test accuracy over the weight scale from 0.14 to 4.2, on a logarithmic axis. Without "
    "a norm near chance, then about 20, 50, 90 and 60 percent; with LayerNorm about 90, 94, "
    "94, 90 and 77.",
)

# %% tags=["hide-input"]
gap = dict(zip(parts, (final["LayerNorm"] - final["no norm"]).mean(0).tolist(), strict=True))
# 32 other pairs of runs on two splits: means 78, 75, 44, 0 and 20 points, sd 6, 5, 13, 2 and 5
assert gap[0.1] > 50 and gap[0.2] > 50 and gap[0.4] > 10 and abs(gap[1.0]) < 6 and gap[3.0] > 5

# %% [markdown]
# At 0.1 and 0.2 times Kaiming's scale the plain net has hardly begun to learn, and at 0.4 it reads half of the digits, while LayerNorm's reads nine in ten.
# LayerNorm's own best scale is smaller than Kaiming's: at 0.4 times Kaiming's it ended 4.6 points above the plain net at its best, Kaiming's (32 other pairs of runs on two splits; standard error 0.4). The signal does not depend on the scale, but learning does, because a step of one size changes large weights less than small ones ([lesson 8](08_geometry.ipynb)).
#
# **Back to the net of the beginning,** with PyTorch's own weights and biases. Its signal does not die: the biases hold the rms near 0.06.
#
# **Predict 1.7:** then why does the net not learn? What does its last layer see?
# - [ ] a different signal for each digit, but too small a one :: 0.06 is not too small. Only the biases are in it, though: what came from the digit has been multiplied by 0.41 twenty times.
# - [x] almost the same signal for all digits :: What a digit brings fades by 0.58/1.41 = 0.41 a layer, 2e-8 in all. What the biases bring is the same for every digit.
# - [ ] random numbers, others for each digit :: The weights are random, but they are drawn once, for all digits. It is worse: next to nothing in the signal depends on the digit.

# %%
torch.manual_seed(0)
patient = plain(20).double()
with torch.no_grad():
    last = patient[:-1](split.x_test.flatten(1).double())  # (500, 64), what the last layer gets
apart = rms(last - last.mean(0)) / rms(last)
print(f"rms of the signal {rms(last):.2f}; between digits it differs by {apart:.0e} of that")

# %% [markdown]
# The part that depends on the digit is so small a share of the signal that the last layer has next to nothing to use. Three cures to try are Kaiming's weights, a norm before each ReLU, and both.
#
# **Predict 1.8:** which net of twenty layers reads best after three epochs?
# - [ ] PyTorch's weights with LayerNorm :: At eight layers this weight scale, 0.41 times Kaiming's, was among LayerNorm's best. At twenty it is not, and we do not explain that.
# - [ ] Kaiming's weights with LayerNorm :: At Kaiming's scale the signal keeps its size without a norm. In our runs the second cure adds nothing.
# - [x] Kaiming's weights, with LayerNorm or without :: At Kaiming's scale the signal keeps its size already, and in our runs a norm added nothing. Why PyTorch's weights with LayerNorm read worse, we do not explain.

# %% tags=["nbval-ignore-output"]
healed = train_all(
    {
        "PyTorch's weights, LayerNorm": lambda: mlp(20, norm=True),
        "Kaiming's weights": lambda: mlp(20, kaiming),
        "Kaiming's weights, LayerNorm": lambda: mlp(20, kaiming, norm=True),
    }
)
train.table({"PyTorch's weights": deeper["20 layers"]} | healed, "accuracy")

# %% tags=["hide-input"]
mean = {name: columns["accuracy"][:, -1].mean().item() for name, columns in healed.items()}
# 32 other runs on two splits: 59 on average, 35 to 79
assert mean["PyTorch's weights, LayerNorm"] > 25
# 32 other pairs: 1.3 points less on average, sd 8
assert mean["Kaiming's weights, LayerNorm"] < mean["Kaiming's weights"] + 20

# %% [markdown]
# Each cure makes the net learn. In 32 other pairs of runs on two splits, Kaiming's weights reached 73 % without and 72 % with LayerNorm (standard error of the difference 1.5), PyTorch's weights with LayerNorm 59 %. Their scale was among LayerNorm's best at eight layers; at twenty it is not, and we do not explain that.
# So in these runs a norm made badly started nets learn, and at Kaiming's scale it made no difference that we could measure, with eight layers (0.0 points, standard error 0.3) or twenty. Very deep nets that work also have skip connections ([lesson 11](11_transformer.ipynb)).

# %% [markdown]
# ## 1.7 Do different digits stay different?
#
# Does a norm also keep the signals of different digits apart? At Kaiming's scale:

# %% tags=["hide-input"]
ten = torch.stack([split.x_train[split.y_train == digit][0] for digit in range(10)])
ten = ten.flatten(1).double()  # (10, 64)
rows = [ten, deep(ten, kaiming)[-1], deep(ten, kaiming, before=layer_norm)[-1]]
rows = 8 * F.normalize(torch.stack(rows), dim=-1)  # (3, 10, 64), each picture of rms 1
plot.figure(
    strips(rows, ["input", "layer 50,\nno norm", "layer 50,\nLayerNorm"], range(10)),
    size=(7, 2.3),
    title="After fifty layers ten digits are almost one picture, "
    "even with LayerNorm before ReLU",
    caption="Weight scale 1.41, one draw of the weights, LayerNorm before each ReLU. Each "
    "picture is divided by its rms, so that only its direction is seen.",
    alt="Three rows of ten images. The first shows the digits 0 to 9. The second and the third "
    "show ten pictures each that look almost alike.",
    numbers={
        "row": [name for name in ("input", "no norm", "LayerNorm") for _ in range(10)],
        "digit": [*range(10)] * 3,
        "cosine with the first image of the row": (rows @ rows[:, :1].mT / 64)
        .flatten()
        .tolist(),
    },
)

# %% [markdown]
# We measure how alike two signals are by the cosine of the angle between them: 1 for the same direction, and on average $1/\pi = 0.32$ for unrelated Gaussian signals after a ReLU, because no number is negative.
#
# **Predict 1.9:** BatchNorm standardizes each unit over the digits of a batch. Which of two norms keeps the digits apart: LayerNorm *after* each ReLU, or BatchNorm before it?
# - [ ] neither :: A norm after a ReLU can subtract the positive mean that all signals share there, and BatchNorm subtracts what the digits share.
# - [ ] only BatchNorm, because LayerNorm treats each digit by itself :: LayerNorm need not know the others. After a ReLU all signals share a positive mean, and each can subtract its own.
# - [x] both :: BatchNorm subtracts what the digits share. And no number is negative after a ReLU, so all signals share a positive mean there, and each subtracts its own.


# %% tags=["hide-input"]
def cosine(h):
    """The mean cosine between different rows of h (B, 64)."""
    h = h / h.norm(dim=-1, keepdim=True)  # (B, 64), each row of length 1
    return ((h @ h.T).sum().item() - len(h)) / (len(h) * (len(h) - 1))


def batch_norm(z):
    """Batch Normalization: mean and deviation of each unit over the batch (lesson 6)."""
    return F.batch_norm(z, None, None, training=True)


places = {
    "no norm": {},
    "LayerNorm before ReLU": {"before": layer_norm},
    "LayerNorm after ReLU": {"after": layer_norm},
    "BatchNorm before ReLU": {"before": batch_norm},
}
runs = {
    name: [deep(start, kaiming, **norm, seed=seed) for seed in range(4)]
    for name, norm in places.items()
}
cosines = {name: [[cosine(h) for h in run] for run in four] for name, four in runs.items()}
for name, four in cosines.items():
    print(f"{name:22} mean cosine at layer 50: {sum(run[-1] for run in four) / 4:.2f}")

# %% tags=["hide-input"]
last = {name: [run[-1] for run in four] for name, four in cosines.items()}
# 64 other draws on two splits: 0.93 to 1.00, 0.93 to 1.00, 0.006 to 0.09, 0.30 to 0.34
assert min(last["no norm"] + last["LayerNorm before ReLU"]) > 0.85
assert max(last["LayerNorm after ReLU"]) < 0.2 and max(last["BatchNorm before ReLU"]) < 0.45

# %% tags=["hide-input"]
plot.lines(
    range(51),
    cosines,
    ylim=(0, 1),
    markers=False,
    href={"unrelated: 1/π": 0.318},
    dots=["LayerNorm after ReLU"],
    colors={
        "LayerNorm before ReLU": "LayerNorm",
        "LayerNorm after ReLU": "LayerNorm",
        "BatchNorm before ReLU": "BatchNorm",
    },
    title="LayerNorm keeps digits apart after the ReLU, not before",
    x="layer",
    y="mean cosine between digits",
    caption="40 digits, width 64, weight scale 1.41. The mean cosine cannot exceed 1.",
    alt="The mean cosine between digits over 50 layers, from 0 to 1. Without a norm and with "
    "LayerNorm before the ReLU it rises from about 0.5 to above 0.95; with LayerNorm after the "
    "ReLU it falls below 0.1 within twenty layers; with BatchNorm it falls to 0.32 in the "
    "first layer and stays there.",
)

# %% [markdown]
# The place decides. Before a ReLU the mean of a signal is close to 0 already, because the weights are drawn around 0, so the norm finds little to subtract. After a ReLU the positive mean is just what all signals have in common.
# BatchNorm is the older norm and the common one in image nets. It subtracts what the digits of a batch share ([lesson 6](06_batchnorm.ipynb)).
#
# Here keeping signals apart has a price, a gradient that grows by a factor of about 1.2 a layer ([Deeper](#What-it-costs-to-keep-signals-apart)).

# %% [markdown]
# ## 1.8 The story that everybody tells
#
# Why do norms help in general? Batch Normalization was introduced against **internal covariate shift**: while a layer learns, the layers before it change its input, and a norm was to hold that still.
# A measurement by Santurkar et al. (2018) speaks against it. Right after each BatchNorm of a VGG net for small photos (CIFAR-10) they added random noise whose mean and scale changed at every step. It trained about as well as without the noise, and better than without a norm. They propose a smoother loss as the reason.
#
# So keep three things apart: that without biases and $\epsilon$ a norm makes the signal independent of the scale is **proved**; that our nets learn from a wrong weight scale thanks to it was **measured**; why norms help in general is **argued about**.
#
# ## Take-away
#
# - In a ReLU net of equal widths, without norm and biases, signal and gradient change by about $s/\sqrt2$ a layer, with $s = \text{std}\cdot\sqrt D$. Below $\sqrt2$, Kaiming's scale, a deep net fades, above it explodes.
# - To standardize is to subtract the mean and divide by the standard deviation. A positive factor cancels, so without biases and $\epsilon$ the signal is **independent of the scale** of the weights and of the input.
# - In random nets LayerNorm keeps directions apart after the ReLU, not before it. In our runs it made badly started nets learn. At Kaiming's scale it made no measurable difference; at its own best scale, with eight layers, it ended four to five points above the plain net's best.
#
# **Formula card**
#
# $$\hat x_i = \frac{x_i - \mu}{\sigma} \qquad \mu = \frac1D\sum_i x_i \qquad \sigma^2 = \frac1D\sum_i (x_i-\mu)^2$$
#
# ## Deeper (optional, 3 min)
#
# ### A layer whose width changes
#
# From 64 to 1,024 units at Kaiming's scale, the signal keeps its size and the gradient grows fourfold, because a sum on the way back has 1,024 terms instead of 64. The rule of [section 1.4](#1.4-The-gradient-takes-the-same-road-back) is for layers of equal width.
#
# ### What it costs to keep signals apart
#
# These are the gradients of the nets of [section 1.7](#1.7-Do-different-digits-stay-different?), on their way back from layer 50.

# %% tags=["hide-input", "optional"]
gradients = {name: [gradient_sizes(signals) for signals in four] for name, four in runs.items()}
factors = {
    name: [(sizes[1] / sizes[50]) ** (1 / 49) for sizes in four]
    for name, four in gradients.items()
}
# 64 other draws on two splits: 0.96 to 1.04, and 1.20 to 1.26
assert all(0.9 < f < 1.1 for f in factors["no norm"] + factors["LayerNorm before ReLU"])
apart = factors["LayerNorm after ReLU"] + factors["BatchNorm before ReLU"]
assert all(1.15 < f < 1.31 for f in apart)

# %% tags=["hide-input", "optional"]
plot.lines(
    range(50),
    {name: [sizes[:0:-1] for sizes in four] for name, four in gradients.items()},
    ylog=True,
    markers=False,
    dots=["LayerNorm after ReLU"],
    colors={
        "LayerNorm before ReLU": "LayerNorm",
        "LayerNorm after ReLU": "LayerNorm",
        "BatchNorm before ReLU": "BatchNorm",
    },
    title="The norms that keep digits apart make the gradient grow",
    x="layers passed, on the way back from layer 50",
    y="rms of the gradient",
    caption="The nets of section 1.7, with the gradient of a random loss.",
    alt="Gradient size over the layers passed on the way back, from 0 to 49, on a logarithmic "
    "axis. Without a norm and with LayerNorm before the ReLU it stays near 1; with LayerNorm "
    "after the ReLU and with BatchNorm it rises in a straight line from 1 to above 10,000.",
)

# %% [markdown] tags=["optional"]
# The factor follows from the mean that is subtracted. For standard normal numbers, ReLU leaves the mean square $\frac12$ and the squared mean $\frac1{2\pi}$, so the variance is $\frac12(1 - \frac1\pi)$. A norm that divides by the root of the *mean square* makes up for ReLU's gates exactly. One that divides by the smaller *standard deviation* multiplies the gradient by a further $1/\sqrt{1 - 1/\pi} = 1.21$ a layer; we measure 1.20 to 1.26.
# For BatchNorm, Yang et al. (2019) prove such a growth in wide nets, and that no choice of the initial weights' variance prevents it. Orthogonal weights together with linear activations do prevent it (Meterez et al. 2024).
# Nor did different directions alone help to learn: with LayerNorm after each ReLU the twenty layers of [section 1.6](#1.6-What-it-is-worth-in-training) at Kaiming's scale reached 47 % after three epochs, against 72 % with LayerNorm before it (32 pairs of runs on two splits).

# %% [markdown]
# ## On your own
#
# 1. Train the eight layers of [section 1.6](#1.6-What-it-is-worth-in-training) at a tenth of Kaiming's scale with LayerNorm and a learning rate of 0.003. It gets much worse. Why, if the signal does not depend on the scale? ([Lesson 8](08_geometry.ipynb) answers.)
# 2. `deep` in float32, weights of standard deviation 0.01 at width 64: what is left after 50 layers, and why exactly that?
#
# ## Further reading
#
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, eq. 10: the weight scale $\sqrt2$, for the signal; eq. 14 for the gradient.
# - Ioffe & Szegedy (2015), *Batch Normalization*; Santurkar et al. (2018), *How Does Batch Normalization Help Optimization?*.
# - Joudaki, Daneshmand & Bach (2023), *On the Impact of Activation and Normalization in Obtaining Isometric Embeddings at Initialization*: a theorem on how LayerNorm and activations push signals apart.
# - Yang et al. (2019), *A Mean Field Theory of Batch Normalization*; Meterez et al. (2024), *Towards Training Without Depth Limits*: the exploding gradient, and a net without it.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*: the paper that this course takes apart.

# %% [markdown]
# # 1 · Why normalize?
#
# A net of two layers learns to read handwritten digits, 1,297 small images. Will a net of twenty layers read more of them, or fewer? Guessing reads 10 %.

# %% [markdown] tags=["no-site"]
# 1. **Run** each cell with Shift+Enter, in order, folded ones too.
# 2. **Predict:** run the cell below a question, and click the answer that you expect, *before* you read on.
# 3. **Build:** replace `raise check.YourTurn(...)` by your code and run the check below it.

# %%
import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, explore  # sets torch to one thread (LESSON_THREADS)

digits = data.digits_split(0)
x_train, x_test = digits.x_train.flatten(1), digits.x_test.flatten(1)  # (N, 64) pixels
print(f"{len(x_train)} digits to learn from, {len(x_test)} to be tested on")


# %%
def plain(depth):
    """`depth` ReLU layers 64 -> 64 and a last Linear 64 -> 10, as PyTorch starts them."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %%
def train(model, rate=0.001):
    """Train for three epochs. Return the percent of the test digits that are read right."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(3):
        for rows in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()
    right = model(x_test).argmax(1) == digits.y_test  # (500,)
    return 100 * right.double().mean()


# %% tags=["nbval-ignore-output"]
rate = 0.001  # the knob
for depth in (2, 20):
    torch.manual_seed(0)
    print(f"{depth:2} layers read {train(plain(depth), rate):.0f} % of the test digits")

# %% [markdown]
# **Find out:** the learning rate is what everybody turns first. Change it and run the cell again, three times: can you make the twenty layers read?
#
# <details><summary>What there is to find</summary>
#
# No, not in three epochs. At seven rates from 0.0001 to 0.1 the twenty layers read {deep_rates.reads:mean} on average, and at most {deep_rates.reads:max}. {deep_rates:again} (A *split* divides the digits into those to learn from and those to be tested on.)
#
# </details>
#
# This lesson finds out why, and heals the deep net twice.
#
# *About 58 min, in two sittings of 29 and 29.* **You'll be able to**
# - derive on paper which first weights keep a signal alive in a deep ReLU net;
# - say from them how much of a signal and of a gradient is left after many layers, and why a net with little left only guesses;
# - standardize a vector, and say what a net no longer depends on then.
#
# **You need** tensors, matrix products, ReLU, `backward()`, and to have seen a training loop.
#
# <details><summary>Your copy, and what is kept</summary>
#
# This is your own copy, in `work/`. After a break, select the cell where you stopped, then *Kernel → Restart Kernel and Run up to Selected Cell*. Each check and prediction adds a line to `work/attempts.jsonl`: right or not yet, the misconception if one was named, and the seconds, never your code. Nothing is sent, and `LESSON_LOG=off make lab` keeps none. [Form A](inventory_a.ipynb) asks what you know before you start.
#
# </details>

# %% [markdown]
# ## 1.1 Fifty layers
#
# A digit enters a net as 64 numbers, its **signal**. Each of a layer's 64 **units** adds them all up, each times a weight of its own, and turns a negative sum into 0 (ReLU).
#
# Before training the weights are random. All we choose is their size: each is drawn with standard deviation $s/\sqrt D$, where $D$ is the number of inputs. We call $s$ the **weight scale**. The size of a signal is its **rms**, the root of the mean of its squares.
#
# **Predict 1.1:** at weight scale 1 a layer keeps 71 % of the signal's rms on average. How much is left after fifty layers?
# - [ ] about 4 % :: Every two layers halve it, 25 times in all. To halve 25 times is to divide by 2 to the power 25, and not by 25.
# - [ ] about a hundredth :: A hundredth is left after 13 layers already, because 0.71 to the power 13 is 0.01. There are 37 more.
# - [x] less than a millionth :: Every two layers keep one half, so fifty layers halve the signal 25 times: 3e-8 is left.


# %%
def rms(h):
    """The root mean square of all numbers of h."""
    return h.square().mean().sqrt().item()


def deep(x, scale, layers=50):
    """The signals of x (B, 64) before, between and after random ReLU layers without biases."""
    rng, signals = torch.Generator().manual_seed(0), [x]
    for _ in range(layers):
        W = scale / 64**0.5 * torch.randn(64, 64, dtype=x.dtype, generator=rng)  # (64, 64)
        signals.append(torch.relu(signals[-1] @ W))  # (B, 64)
    return signals


# %%
x = x_train[:40].double()  # (B, D) = (40, 64); float64 holds very small and very large numbers
signals = deep(x, scale=1.0)
for layer in (0, 1, 2, 10, 50):
    print(f"rms after layer {layer:2}: {rms(signals[layer]):.1g}")

# %% [markdown]
# ## 1.2 Find the weight scale that survives
#
# No training step was taken: the size of the weights alone makes the signal fade. So play with it:

# %%
explore.depth()

# %% [markdown]
# **Find out:** LayerNorm stays at *none*. Between which two weight scales does the signal arrive with an rms between 0.01 and 100? We say that it **lives** there.
#
# <details><summary>What there is to find</summary>
#
# With the first weights between 1.30 and 1.57. The range is narrow because the scale enters fifty times: a factor of 1.1 in each layer is 117 in fifty. *Other weights* move both ends: in {scale_lives:n} draws the lower end lay at {scale_lives.low:range}, the upper at {scale_lives.high:range}, and so 1.4 always between them. Why that number? (`make runs ARGS=scale_lives`)
#
# </details>

# %% [markdown]
# ## 1.3 Why 1.4?
#
# Take the smallest layer: one unit with two weights, and the input 3, 4. Each weight is +1 or −1, as a coin falls, so four cases are equally likely. Fill in the table with a pencil:
#
# | the two weights | sum | squared | after ReLU | squared |
# |---|---|---|---|---|
# | +1, +1 | 7 | 49 | 7 | 49 |
# | +1, −1 | −1 | | 0 | |
# | −1, +1 | | | | |
# | −1, −1 | | | | |
# | mean of the four | 0 | | | |
#
# What did the two weights do to the mean square of the input, and what ReLU? Then do the same with $D$ inputs and weights of any standard deviation.

# %% tags=["exercise"] id="ex-1-1"
# Exercise 1.1 · ●●○○○ · 5 min
# Copy this line and replace the dots:
# two_weights = dict(input=..., before=..., after=..., std=...)
# input   the mean square of the input 3, 4
# before  the mean square of the sum, over the four cases
# after   the same after ReLU
# std     for 64 inputs: the standard deviation of the weights that keeps the mean square
# Example: the mean square of 1, 3 is (1 + 9) / 2 = 5. A root is 2 ** 0.5.
### BEGIN SOLUTION
two_weights = dict(input=12.5, before=25, after=12.5, std=(2 / 64) ** 0.5)
### END SOLUTION

# %% tags=["check"]
check.two_weights(two_weights)

# %% [markdown]
# <details><summary>Hint</summary>
#
# In the mean of the squares the mixed products 3 · 4 cancel: 9 + 16 is left. So $D$ inputs make $D$ times the mean square of the input, times the mean square of the weights, std². Then ReLU takes its share. What must std² be?
#
# </details>
#
# With a standard deviation of $s/\sqrt D$ the matrix multiplies the mean square by $D \cdot \frac{s^2}{D} = s^2$, and ReLU halves it.
#
# **A wide ReLU layer multiplies the rms by about** $s/\sqrt2$.
#
# <details><summary>When this holds</summary>
#
# For the mean square it is exact, on average over weights that are drawn independently and symmetrically around 0, for any input, without biases and norm. A single draw strays, the more the narrower and the deeper the net.
#
# </details>
#
# So $s = \sqrt2 = 1.41$ keeps the size, and that is a standard deviation of $\sqrt{2/D}$: **Kaiming initialization** (He et al. 2015). Code gives std instead of $s$, and $s = \text{std} \cdot \sqrt D$.
#
# What does the rule say of the twenty layers of the beginning? PyTorch drew their weights with a standard deviation of $1/\sqrt{3D}$.

# %%
for name, std in {"PyTorch's own": (3 * 64) ** -0.5, "yours": two_weights["std"]}.items():
    scale = std * 64**0.5
    print(f"{name:13} scale {scale:.2f}: {(scale / 2**0.5) ** 20:.1g} of the rms is left")

# %% [markdown]
# So give them your standard deviation, and the same three epochs. PyTorch draws biases as well, so there are two levers: `std` of the weights, and a factor of the biases. `None` leaves what PyTorch drew.


# %% tags=["hide-input"]
# Trains twenty layers with two levers.
def heal(std, biases):
    """Print what twenty layers read; std of their first weights, biases: a factor."""
    torch.manual_seed(0)
    net = plain(20)
    for layer in net[:-1:2]:  # every Linear but the last
        if std is not None:
            nn.init.normal_(layer.weight, std=std)
        if biases is not None:
            layer.bias.data *= biases
    print(f"20 layers read {train(net):.0f} % of the test digits")


# %% tags=["nbval-ignore-output"]
heal(std=two_weights["std"], biases=0)

# %% [markdown]
# The deep net learns, and nothing but its start has changed.
#
# **Find out:** which of the two levers did it, or does it take both? Write a guess down, then put `None` for one, and for the other.
#
# <details><summary>What there is to find</summary>
#
# The weights did it. With your weights and PyTorch's biases twenty layers read {deep_start[larger weights, *].reads:mean} on average, with both levers {deep_start[Kaiming's, *].reads:mean}, which is no difference in runs that scatter like these; the worst of them reads {deep_start[larger weights, *].reads:min} and {deep_start[Kaiming's, *].reads:min}. Biases of 0 alone change nothing: at most {deep_start[no biases, *].reads:max}, as with all that PyTorch drew, {deep_start[PyTorch's, *].reads:max}. {deep_start:again}
#
# </details>
#
# ## What you have now
#
# - **A wide ReLU layer multiplies the rms by about** $s/\sqrt2$, with $s = \text{std}\cdot\sqrt D$. So in a deep net the signal fades below $s = \sqrt2$, and grows above.
#
# **You can stop here:** close the notebook, draw the table of the four cases from memory, and read Kaiming's $\sqrt{2/D}$ off it.
#
# *Sitting two* follows the gradient back, and heals the net a second time.

# %% [markdown]
# ## 1.4 The gradient takes the same road back

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, explore, plot, show

digits = data.digits_split(0)
x_train, x_test = digits.x_train.flatten(1), digits.x_test.flatten(1)  # (N, 64) pixels
x = x_train[:40].double()  # (B, D) = (40, 64)


def rms(h):
    """The root mean square of all numbers of h."""
    return h.square().mean().sqrt().item()


def deep(x, scale, layers=50):
    """The signals of x (B, 64) before, between and after random ReLU layers without biases."""
    rng, signals = torch.Generator().manual_seed(0), [x]
    for _ in range(layers):
        W = scale / 64**0.5 * torch.randn(64, 64, dtype=x.dtype, generator=rng)  # (64, 64)
        signals.append(torch.relu(signals[-1] @ W))  # (B, 64)
    return signals


def plain(depth):
    """`depth` ReLU layers 64 -> 64 and a last Linear 64 -> 10, as PyTorch starts them."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def train(model, rate=0.001):
    """Train for three epochs. Return the percent of the test digits that are read right."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(3):
        for rows in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()
    right = model(x_test).argmax(1) == digits.y_test  # (500,)
    return 100 * right.double().mean()


# %% [markdown]
# A gradient comes back through the same matrices, transposed, and the same ReLUs, half of them shut, so it meets the same factor. It is the dashed line in [section 1.2](#1.2-Find-the-weight-scale-that-survives): go back and move the scale. At scale 1 you expect about $1/\sqrt2 = 0.71$ for both:

# %% tags=["hide-input"]
# Measures both factors at three depths.
g = torch.Generator().manual_seed(1)
for depth in (10, 25, 50):
    leaf = x.clone().requires_grad_()  # (B, D)
    last = deep(leaf, 1.0, depth)[-1]  # (B, D)
    above = torch.randn(last.shape, dtype=x.dtype, generator=g)  # (B, D) a gradient
    back = torch.autograd.grad(last, leaf, above)[0]  # (B, D)
    signal = (rms(last) / rms(x)) ** (1 / depth)
    gradient = (rms(back) / rms(above)) ** (1 / depth)
    print(f"{depth} layers: each multiplies the signal by {signal:.2f}", end=", ")
    print(f"the gradient by {gradient:.2f}")

# %% [markdown]
# **Without biases, signal and gradient fade or grow at one rate.**
#
# <details><summary>When this holds</summary>
#
# For layers of equal width without a norm, whose weights have mean 0, if the gradient is treated as independent of the ReLUs. At scale 1.41 a layer of fifty multiplied the signal by {two_ways[0.0, 50].signal:range} and the gradient by {two_ways[0.0, 50].gradient:range}. If the weights' mean lies a tenth of their standard deviation below 0, the two part: {two_ways[-0.1, 50].signal:range} and {two_ways[-0.1, 50].gradient:range}. {two_ways:again} They also part where the width changes, since on the way back $D$ is the number of outputs, and where there are biases.
#
# </details>
#
# By the rule of the first sitting 2e-8 of the signal arrives at the end of the twenty layers that guessed. Yet the next cell will measure an rms of 0.06 there.
#
# **Predict 1.2:** what does the last layer see?
# - [ ] a different signal for each digit :: 0.06 is large enough for that. But what came from the digit has been multiplied by 0.58/1.41 = 0.41 twenty times.
# - [x] almost the same signal for all digits :: What came from the digit fades by 0.58/1.41 = 0.41 a layer, 2e-8 in all. What the biases bring is the same for every digit.
# - [ ] random numbers, others for each digit :: The weights are random, but they are drawn once, for all digits.

# %%
torch.manual_seed(0)
net = plain(20).double()
last = net[:-1](x_test.double())  # (500, 64) what the last layer gets
print(f"rms {rms(last):.2f}, of each digit less their mean {rms(last - last.mean(0)):.0e}")


# %% tags=["hide-input"]
# Draws what some layers hand on.
def draw(axes):
    h = x_test[:16].double()  # (16, 64)
    for at, layer in enumerate(net[:-1], 1):
        h = layer(h).detach()
        if at in depths:
            ax = axes[list(depths).index(at)]
            ax.imshow(h, cmap="Blues", vmin=0, vmax=h.max(), aspect="auto")
            ax.set_title(f"after layer {depths[at]}", loc="left", fontsize=12)
            ax.set_xlabel("64 units")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(visible=False)


depths = {2: 1, 6: 3, 40: 20}  # {place in the net: layer}
with torch.no_grad():
    largest = {at: net[:at](x_test[:16].double()).max().item() for at in depths}
plot.figure(
    draw,
    ncols=3,
    size=(7.4, 2.9),
    title="After twenty layers all digits look the same",
    caption="Sixteen digits, a row each. White is 0, the darkest blue each panel's largest: "
    f"{', '.join(f'{largest[at]:.1f}' for at in depths)}.",
    alt="Three panels of 16 rows, one for each digit, and 64 columns. After layer 1 no two "
    "rows are alike. After layer 3 vertical stripes appear under what differs. After layer 20 "
    "there are stripes only: each column has one color from top to bottom.",
)

# %% [markdown]
# So the last layer gets a signal with two faults: all digits look alike, and what differs between them is tiny. Which of the two does the harm? Give each fault alone to the twenty layers that you healed, just before their last layer: `times` multiplies the signal, and `plus` adds one row of random numbers, of that rms, to the row of every digit.


# %% tags=["hide-input"]
# Trains the healed net with a fault.
class Fault(nn.Module):
    def __init__(self, times, plus):
        super().__init__()
        rng = torch.Generator().manual_seed(0)
        self.times, self.row = times, plus * torch.randn(64, generator=rng)

    def forward(self, h):  # (B, 64)
        return self.times * h + self.row


def spoil(times=1.0, plus=0.0):
    """Print what the last layer gets before training, and what the net then reads."""
    torch.manual_seed(0)
    net = plain(20)
    for layer in net[:-1:2]:  # every Linear but the last
        nn.init.normal_(layer.weight, std=(2 / 64) ** 0.5)
        nn.init.zeros_(layer.bias)
    net.insert(len(net) - 1, Fault(times, plus))
    last = net[:-1](x_test)  # (500, 64)
    print(f"rms {rms(last):.2g}, of each digit less their mean {rms(last - last.mean(0)):.2g}")
    print(f"it reads {train(net):.0f} % of the test digits")


# %% tags=["nbval-ignore-output"]
spoil(times=1, plus=0)

# %% [markdown]
# **Find out:** write down which fault makes it guess. Then try `times=1e-8`, and `plus=10`, and `plus=1000`, which makes the rows look as striped as in the picture.
#
# <details><summary>What there is to find</summary>
#
# Each of the two can. With `times=1e-8` the net reads {spoiled[small, *].reads:mean} on average, although the digits differ as much as before, in proportion. With `plus=10` what differs is {spoiled[alike, *].share:range} of the signal, and the net still reads {spoiled[alike, *].reads:mean}, against {spoiled[healed, *].reads:mean} without a fault; with `plus=1000` that is at most {spoiled[common, *].share:max .2f}, and it reads {spoiled[common, *].reads:mean}.
#
# Is it the stripes, then? The other net that guessed has none. Without biases, in [section 1.3](#1.3-Why-1.4?), what differs is {spoiled[dead without biases, *].share:range} of the signal, as in the healed net. But it is as tiny as with biases, and the net reads {spoiled[dead without biases, *].reads:max} at most.
#
# To enlarge it is no cure: with that net's signal times 10,000,000 just before the last layer it still reads only {spoiled[dead but enlarged, *].reads:max} at most. {spoiled:again}
#
# Nor is it Adam's small number, as it was in [lesson 0](00_in_one_sitting.ipynb): with 1e-16 in its place the net as PyTorch starts it reads {smaller_eps[True, *].reads:range}, without biases {smaller_eps[False, *].reads:range}. {smaller_eps:again}
#
# </details>
#
# **A net learns from what differs between its inputs. Where that is too small, by itself or beside what all share, it guesses.**

# %% [markdown]
# ## 1.5 Standardize
#
# Here is the second cure: after each matrix, **standardize**: subtract the mean $\mu$ of the numbers, then divide by their standard deviation $\sigma$, the rms of what is left. The numbers 0, 0, 0, 0, 10 have the mean 2, so −2, −2, −2, −2, 8 are left. The squares of these have the mean 16, so $\sigma = 4$.


# %% tags=["exercise"] id="ex-1-2"
# Exercise 1.2 · ●●○○○ · 3 min
def standardize(x):
    """Subtract the mean of a vector and divide by its standard deviation.

    Example: 0, 0, 0, 0, 10 becomes -0.5, -0.5, -0.5, -0.5, 2.
    x: (D,) float tensor with at least two different numbers. Returns a tensor (D,).
    Divide the sum of the squares by D, not by D - 1 as torch.std does unless you say
    correction=0. No eps yet, and no F.layer_norm: write its steps.
    """
    ### BEGIN SOLUTION
    centered = x - x.mean()  # (D,)
    return centered / centered.square().mean().sqrt()  # (D,)
    ### END SOLUTION


# %% tags=["check"]
check.standardize(standardize)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# Vectors of 2 to 1,100 numbers, also around 100 and of tiny spread, in two number types. Gradients have to flow through all of it, so no `.item()`, and `torch.vmap` maps it over rows, so no `if` on a value.
#
# </details>
#
# <details><summary>Hint</summary>
#
# Two lines, as with the five numbers above: first the distances from the mean; then divide them by the root of the mean of their squares.
#
# </details>
#
# Now your function stands before each ReLU of fifty random layers, at three weight scales. (The picture of [section 1.2](#1.2-Find-the-weight-scale-that-survives) has it as well: choose LayerNorm, and move the scale.)

# %%
for scale in (0.001, 1.0, 1000.0):
    rng, h = torch.Generator().manual_seed(15), x[0]  # (D,) = (64,)
    for _ in range(50):
        W = scale / 8 * torch.randn(64, 64, dtype=h.dtype, generator=rng)  # (64, 64)
        h = torch.relu(standardize(W @ h))  # (64,)
    show(f"scale {scale:6}: rms {rms(h):.1f}, first numbers", h[h > 0][:5], 2)

# %% [markdown]
# **Without biases, and with standardize in every layer, the signal does not depend on the scale of the weights.**
#
# <details><summary>When this holds</summary>
#
# Whatever the positive factor; one line proves it, $\frac{cz - c\mu}{c\sigma} = \frac{z - \mu}{\sigma}$. PyTorch's `F.layer_norm` divides by the root of $\sigma^2 + \epsilon$ with $\epsilon = 10^{-5}$, so there it holds as long as $\sigma^2$ is much larger: at weight scale 0.001 the signal dies. [Lesson 3](03_epsilon.ipynb) says what $\epsilon$ is good for.
#
# </details>
#
# What else does the signal not depend on?

# %% tags=["exercise"] id="ex-1-3"
# Exercise 1.3 · ●●●○○ · 3 min
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
# Measures the six changes in a net.
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
for name, now in variants.items():
    same = torch.allclose(now, changed(x), atol=1e-9)  # float64 rounding through fifty layers
    print(f"measured {same!s:5}, you said {unchanged.get(name)!s:5}: {name}")

# %% [markdown]
# ## 1.6 What it is worth in training
#
# A layer that does such a thing is a **normalization layer**, a **norm** for short. Yours, for each row by itself, is the heart of **Layer Normalization**, or LayerNorm. Put it before each ReLU of twenty layers without biases.


# %%
class Standardize(nn.Module):
    def forward(self, z):
        return torch.vmap(standardize)(z)  # (B, 64): it runs standardize on each row


# %% tags=["hide-input"]
# Prepares twenty layers of a weight scale.
def twenty(scale, norm):
    """Twenty ReLU layers without biases; norm: Standardize, or nn.Identity for none."""
    layers = []
    for _ in range(20):
        linear = nn.Linear(64, 64, bias=False)
        nn.init.normal_(linear.weight, std=scale / 64**0.5)
        layers += [linear, norm(), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %% tags=["nbval-ignore-output"]
scale, rate = 0.58, 0.001  # two levers; 0.58 is PyTorch's own scale
for norm in (nn.Identity, Standardize):
    torch.manual_seed(0)  # the same first weights
    print(f"{norm.__name__:11} reads {train(twenty(scale, norm), rate):.0f} %")

# %% [markdown]
# Without a norm (`Identity`) the net guesses. Your function heals it at the scale that PyTorch draws.
#
# **Find out:** does it heal at every scale? Write down a guess for 0.2, 1.41 and 100, then try them. Where it does not, turn the rate as well, up or down.
#
# <details><summary>What there is to find</summary>
#
# Means, without and with: {forgiven[0.58, none, *].reads:mean} and {forgiven[0.58, standardize, *].reads:mean} at 0.58, {forgiven[1.41, none, *].reads:mean} and {forgiven[1.41, standardize, *].reads:mean} at 1.41, where there is nothing to heal, {forgiven[0.2, none, *].reads:mean} and {forgiven[0.2, standardize, *].reads:mean} at 0.2. Single runs scatter: with the norm at 0.58 from {forgiven[0.58, standardize, *].reads:min} to {forgiven[0.58, standardize, *].reads:max}. {forgiven:again}
#
# At 0.2 and at 100 the signal is the same as at 1.41. But a step of training changes small weights more than large ones ([lesson 8](08_geometry.ipynb)), so the one wants smaller steps, the other larger ones. With the norm, at the rates 0.0003, 0.001 and 0.03, the scale 0.2 reads {other_rates[0.2, 0.0003, *].reads:mean}, {other_rates[0.2, 0.001, *].reads:mean} and {other_rates[0.2, 0.03, *].reads:mean}, the scale 100 reads {other_rates[100.0, 0.0003, *].reads:mean}, {other_rates[100.0, 0.001, *].reads:mean} and {other_rates[100.0, 0.03, *].reads:mean}. {other_rates:again}
#
# </details>
#
# **A norm forgives a wrong weight scale, within limits.**
#
# But what lives does not always learn: in these three epochs fifty layers hardly read with either cure, and the twenty that you healed still read fewer digits than two layers do.
#
# <details><summary>How sure is that?</summary>
#
# Fifty layers read {depths[Kaiming's, 50, *].reads:range} with Kaiming's weights, {depths[standardize, 50, *].reads:range} with the norm as well. Two layers read {depths[PyTorch's, 2, *].reads:range} as PyTorch starts them, {depths[Kaiming's, 2, *].reads:range} with Kaiming's weights and {depths[standardize, 2, *].reads:range} with the norm as well. {depths:again}
#
# </details>
#
# ## 1.7 The story that everybody tells
#
# That standardizing makes a signal independent of the weights' scale is **proved**. That our net learns from bad weights thanks to it was **measured**. Why norms help in general is **argued about**. The first story was **internal covariate shift**: a norm holds still what the layers before it move while they learn. But with noise of changing mean and scale after each norm the nets of Santurkar et al. (2018) trained about as well ([lesson 6](06_batchnorm.ipynb#Why-does-BatchNorm-help)).
#
# ## Take-away
#
# - Two weights and a coin: the matrix multiplies the mean square by $s^2$, and ReLU halves it. So in a wide ReLU net of equal widths, without norm and biases, signal and gradient change by about $s/\sqrt2$ a layer, and Kaiming's $s = \sqrt2$ keeps both.
# - A net learns from what differs between its inputs. Twenty layers as PyTorch starts them leave too little of that.
# - Where a vector is standardized, a positive factor cancels, and so does a common summand.
#
# **Formula card**
#
# $$\hat x_i = \frac{x_i - \mu}{\sigma} \qquad \mu = \frac1D\sum_i x_i \qquad \sigma^2 = \frac1D\sum_i (x_i-\mu)^2$$
#
# ## On your own
#
# Write `start(net)`, which draws all first weights of a ReLU net by your rule, and sets the biases to 0. Try it on widths 64, 256, 16, 256, 10, and keep it as `work/mine/start.py` for your next net. What must it know of a layer that no ReLU follows?
#
# Your layer can now bring a deep net to life whose first weights are too small; it still cannot take a batch of rows by itself: [lesson 2](02_statistics.ipynb).
#
# ## Further reading
#
# - He, Zhang, Ren & Sun (2015), *Delving Deep into Rectifiers*, eq. 10: the weight scale $\sqrt2$, for the signal; eq. 14 for the gradient.
# - Schoenholz et al. (2017), *Deep Information Propagation*: how alike two signals become, layer by layer, and up to which depth a net can be trained.
# - Ba, Kiros & Hinton (2016), *Layer Normalization*.

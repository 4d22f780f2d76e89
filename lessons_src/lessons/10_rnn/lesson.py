# %% [markdown] tags=["trains"]
# # 10 · Recurrent nets: the norm inside the loop
#
# A net reads rows of five coin tosses, 1 for heads and −1 for tails. After each toss it says what the next one will be. It learns from 1,200 random rows, and is tested on all 32 possible ones, with 128 next tosses in them.

# %% tags=["hide-input"]
# Imports, and a count of foreseen tosses.
import math

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, evidence, plot, show, train
from lessonkit.mine import LayerNorm  # lesson 4

ROWS = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 5)[:, :, None]  # (32, T, 1)
ROWS = ROWS[torch.randperm(32, generator=torch.Generator().manual_seed(0))]


def foreseen(net, as_they_fall):
    """How many of the 128 next tosses the net names; as_they_fall: later ones given as 0."""
    right = 0
    for t in range(4):
        shown = ROWS.clone()  # (32, T, 1)
        if as_they_fall:
            shown[:, t + 1 :] = 0
        right += ((net(shown)[:, t] > 0) == (ROWS[:, t + 1] > 0)).sum().item()
    return right


# %% tags=["slide"]
class Tagger(nn.Module):
    """x: (B, T, I). Returns (B, T, H)."""

    def __init__(self, input_size, hidden_size, steps):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size)
        self.norm = nn.LayerNorm([steps, hidden_size])

    def forward(self, x):
        return self.norm(self.rnn(x)[0])


# %%
def toss_net(tagger):
    """Train a tagger of 6 units, and a linear layer after it, to name the next toss."""
    torch.manual_seed(0)
    net = nn.Sequential(tagger(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(150):
        heads = torch.randint(2, (8, 5)).float()  # (B, T)
        says = net(2 * heads[..., None] - 1)[:, :-1, 0]  # (B, T - 1), for tosses 2 to 5
        loss = F.binary_cross_entropy_with_logits(says, heads[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.requires_grad_(False)


# %% tags=["nbval-ignore-output"]
net = toss_net(lambda: Tagger(1, 6, steps=5))
print("whole rows at once:", foreseen(net, as_they_fall=False), "of 128 tosses foreseen")
print("toss by toss, later ones as 0:", foreseen(net, as_they_fall=True), "of 128")

# %% [markdown]
# The past of a coin says nothing about its next toss, so 64 is chance. The net names far more. But as soon as the tosses arrive one at a time, it is back near chance. All shapes fit, and there was no error.
#
# <details><summary>How sure is that?</summary>
#
# Of 128 tosses: {rnn_tosses.whole:range} on whole rows, {rnn_tosses.toss_by_toss:range} toss by toss. {rnn_tosses:again}
#
# </details>
#
# *About 58 min, in two sittings of 26 and 32.* **You'll be able to**
# - find out whether a net reads ahead;
# - put LayerNorm at the right place inside a recurrent cell;
# - say what it does there to the gradient through time;
# - build a GRU cell with LayerNorm, and read a comparison over learning rates.
#
# **You need** [lesson 4](04_affine_and_module.ipynb) (`LayerNorm`) and [lesson 8](08_geometry.ipynb) (what LayerNorm is blind to).
#
# ## 10.1 Hunt the leak
#
# The **tagger** gives scores to every step of a sequence. It may know the steps up to this one.
#
# **Predict 10.1:** which experiment proves that the tagger looks ahead?
# - [ ] train it longer, and see whether the accuracy grows :: A net that looks ahead and one that does not may both improve. This shows nothing about the direction.
# - [x] change the last step, and see whether earlier outputs change :: In a net that does not look ahead, what comes later cannot reach what came earlier.
# - [ ] change the first step, and see whether later outputs change :: They should change. That is what a state is for.
#
# `nudge` changes one step of one sample, and marks every output that moves, of the whole tagger or of one of its two layers:

# %% tags=["hide-input"]
# nudge: changes one input, marks what moves.
TOUCHED = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(108))  # (B, T, I)
tagger = Tagger(6, 6, steps=5)
LAYERS = {"tagger": tagger, "rnn": lambda x: tagger.rnn(x)[0], "norm": tagger.norm}


def nudge(layer, sample, step):
    """Change one step of one sample; mark what moves of "tagger", "rnn" or "norm"."""
    changed = TOUCHED.clone()  # (B, T, I)
    changed[sample, step] += torch.linspace(-1, 1, 6)
    moved = (LAYERS[layer](changed) - LAYERS[layer](TOUCHED)).abs().amax(-1) > 1e-5  # (B, T)
    print(f"{layer:8} step 0 1 2 3 4")
    for at, row in enumerate(moved.tolist()):
        print("sample", at, "     ", *("x" if entry else "." for entry in row))


# %%
nudge("rnn", sample=3, step=4)  # yours: "tagger", "rnn" or "norm"; sample 0 to 3; step 0 to 4

# %% [markdown]
# The only output that moves is the one that should. **Find out:** in which layer does an output know a *later step*, and in which a *different sample*? Write your guess down, then change the line until you have an x to show for each.
#
# <details><summary>What there is to find</summary>
#
# In the norm, a change of step 4 moves step 0 of the same sample. In the GRU a change of sample 0 moves samples 1, 2 and 3, and a change of sample 3 moves no other. So whoever nudges only the last sample calls the GRU clean: a leak shows where there is something that it can still reach.
#
# </details>
#
# Each layer has a leak of its own. The norm (its normalization layer) has the shape `[steps, hidden_size]`, so it takes one mean over all steps, and the first output knows something of the last input. The GRU, a recurrent layer of PyTorch's, keeps numbers from step to step, its *state*. Here it hands them from sample to sample: it reads (T, B, I), unless its argument `batch_first` says otherwise. And because the norm has a row of gains for each step, any other number of steps raises an error.
#
# **To find a leak, change a late step and look at the early outputs; change one sample and look at the others.**
#
# Now repair the tagger.


# %% tags=["exercise"] id="ex-10-1"
# Exercise 10.1 · ●●○○○ · 3 min
class MendedTagger(nn.Module):
    """The tagger without its three faults: MendedTagger(input_size, hidden_size).

    Example: MendedTagger(1, 6) makes of x (8, 5, 1) scores (8, 5, 6), and of (2, 3, 1)
    scores (2, 3, 6).
    x: (B, T, I), for any number of steps. Returns (B, T, H).
    It keeps rnn (an nn.GRU) and norm (an nn.LayerNorm, the usual eps). To write: __init__
    and forward.
    """

    ### BEGIN SOLUTION
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, x):
        return self.norm(self.rnn(x)[0])  # (B, T, H)

    ### END SOLUTION


# %% tags=["check"]
check.mended_tagger(MendedTagger)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Start from `Tagger`, with `batch_first=True` in its `nn.GRU`. And how many gains has a norm that works for every number of steps?
#
# </details>

# %%
healed = toss_net(lambda: MendedTagger(1, 6))
print("whole rows at once:", foreseen(healed, as_they_fall=False), "of 128 tosses foreseen")
print("toss by toss, later ones as 0:", foreseen(healed, as_they_fall=True), "of 128")

# %% [markdown]
# Exactly half: over all 32 rows, every past is followed by heads as often as by tails.
#
# ## 10.2 The norm and the loop
#
# What has the repaired norm to do with the recurrent net? A recurrent net reads one step at a time and keeps a **state** $h$. It uses the same two matrices at every step (we leave out the biases):
#
# $$a_t = W x_t + U h_{t-1}, \qquad h_t = \tanh(a_t)$$
#
# $a_t$ is called the **summed input**.
#
# <details><summary>Who uses such nets today?</summary>
#
# Most language models are Transformers now ([lesson 11](11_transformer.ipynb)). A loop is still used where each step must be cheap and the memory must not grow with the length, for example in agents that act in a simulated world: the GRU of DreamerV2 ([nets.py](https://github.com/danijar/dreamerv2/blob/main/dreamerv2/common/nets.py)) has a LayerNorm on its summed inputs.
#
# </details>
#
# **Predict 10.2:** an `nn.LayerNorm` is applied to what `nn.RNN` returns for all steps, as in `norm(rnn(x)[0])`. Which states does the *loop* compute with?
# - [ ] with normalized ones, from the first step on :: For that the norm would have to be called inside the loop, between two steps.
# - [x] with those of a plain RNN :: The loop has run to its end before the norm sees anything.
# - [ ] with plain ones, but the last is normalized :: The loop is finished by then; the last state it returned is not touched either.

# %%
g = torch.Generator().manual_seed(100)
rnn, norm = nn.RNN(4, 6, batch_first=True, bias=False), nn.LayerNorm(6)
for parameter in rnn.parameters():
    nn.init.normal_(parameter, std=0.5, generator=g)
x = torch.randn(2, 5, 4, generator=g)  # (B, T, I)
states, last = rnn(x)  # (B, T, H), (1, B, H)
h = torch.zeros(2, 6)  # (B, H)
for t in range(5):
    h = torch.tanh(x[:, t] @ rnn.weight_ih_l0.T + h @ rnn.weight_hh_l0.T)  # (B, H)
show("a plain loop's last state", h[0].detach(), digits=2)
show("what rnn hands on, `last`", last[0, 0].detach(), digits=2)
show("the last step after norm ", norm(states)[0, -1].detach(), digits=2)

# %% [markdown]
# **A norm after the loop changes no state in the loop.** It can serve the next layer, but it makes no layer-normalized RNN.
#
# ## 10.3 A norm in the loop
#
# Where does it belong, then? Here is the loop, unrolled:

# %% tags=["hide-input"]
# Draws three steps, and three places for a norm.
AFTER, SUM, PART, LINE = "#8A6508", plot.ink("#1F77B4"), "#5B2A86", "#2B2F33"


def unrolled(ax):
    font = {"ha": "center", "va": "center", "fontsize": 13}
    look = {"arrowstyle": "-|>", "mutation_scale": 15, "color": LINE, "lw": 1.8}

    def arrow(start, end):
        ax.annotate("", end, start, arrowprops=look, zorder=1)

    def node(x, y, text, color=LINE, filled=False, shape="round"):
        style = {"boxstyle": shape, "ec": color, "fc": color if filled else "white", "lw": 1.8}
        ink = "white" if filled else color
        ax.text(x, y, text, color=ink, bbox=style, zorder=3, fontweight="bold", **font)

    for t in range(3):
        at = 5.2 * t
        arrow((at - 1.9, 1), (at - 0.3, 1))
        arrow((at, 1), (at + 1.75, 1))
        if t < 2:
            arrow((at + 2.3, 1), (at + 2.85, 1))
        arrow((at, -1.1), (at, 0.7))
        arrow((at + 1.8, 1), (at + 1.8, 2.65))
        node(at, 1, "+", shape="circle")
        node(at + 1.75, 1, "tanh")
        node(at, -1.25, f"W x{'₁₂₃'[t]}")
        node(at - 1.9, 1, f"U h{'₀₁₂'[t]}")
        node(at + 1.8, 2.9, f"h{'₁₂₃'[t]}")
        node(at, -0.2, "3", PART, True)
        node(at - 0.95, 1, "3", PART, True)
        node(at + 0.82, 1, "2", SUM, True)
        node(at + 1.8, 2.05, "1", AFTER, True)
    for text, color, at in (
        ("1 after the loop", AFTER, 2.05),
        ("2 on the sum", SUM, 1),
        ("3 on each part", PART, -0.2),
    ):
        ax.text(13.3, at, text, color=color, fontsize=13, fontweight="bold", va="center")
    ax.set(xlim=(-2.7, 17.1), ylim=(-1.7, 3.4))
    ax.set_axis_off()


plot.figure(
    unrolled,
    size=(9.3, 3.1),
    title="Places 2 and 3 lie on the way from state to state, place 1 does not",
    caption="Three steps of a recurrent net, and three places for a norm.",
    alt="A chain from left to right, three times: U h and W x meet in a plus, a tanh follows, "
    "and its result is both the next state and, upwards, what is handed on. Place 1 is on the "
    "way up, place 2 between plus and tanh, place 3 between W x and the plus and between U h "
    "and the plus.",
)

# %% [markdown]
# Ba, Kiros & Hinton (2016, eq. 4) take place 2: they normalize the summed input, before the tanh. All steps share one gain and one bias.
#
# Every step of every sequence has its own mean and variance, over its H units. Nothing is averaged over time, so nothing looks ahead.
#
# <details><summary>And BatchNorm in a loop?</summary>
#
# The state begins at 0 and then grows, so its mean and variance differ from step to step. Cooijmans et al. (2017, *Recurrent Batch Normalization*) therefore keep running statistics for each step, and use those of the last training step for all later ones.
#
# </details>


# %% tags=["exercise"] id="ex-10-2"
# Exercise 10.2 · ●○○○○ · 2 min
def normed_step(x, h, W, U, weight, bias):
    """One step of a layer-normalized RNN, with its norm at place 2.

    Example: if W x + U h is 0, 1, 2, 3, then gain 1 and bias 0 give about -0.87, -0.42,
    0.42, 0.87.
    x: (B, I) input of this step. h: (B, H) state before it. W: (H, I). U: (H, H).
    weight, bias: (H,) gain and bias. Returns the new state, (B, H).
    F.layer_norm may be used, with its usual eps.
    """
    ### BEGIN SOLUTION
    a = x @ W.T + h @ U.T  # (B, H)
    return torch.tanh(F.layer_norm(a, a.shape[-1:], weight, bias))  # (B, H)
    ### END SOLUTION


# %% tags=["check"]
check.normed_step(normed_step)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `x` holds a sample in each row, so $W x$ is `x @ W.T`. Add the two products first. `F.layer_norm(a, (H,), weight, bias)` normalizes the last axis; the tanh comes last.
#
# </details>
#
# Your step, in the loop of 10.2, with inputs that are twenty times as large:

# %%
W, U, loud = rnn.weight_ih_l0.detach(), rnn.weight_hh_l0.detach(), 20 * x
plain = normed = torch.zeros(2, 6)  # (B, H)
for t in range(5):
    plain = torch.tanh(loud[:, t] @ W.T + plain @ U.T)  # (B, H)
    normed = normed_step(loud[:, t], normed, W, U, torch.ones(6), torch.zeros(6))  # (B, H)
show("plain loop", plain[0], digits=2)
show("your loop ", normed[0], digits=2)

# %% [markdown]
# In the plain loop these units are stuck near 1 and −1, where the tanh is flat and lets next to no gradient through. In yours, at gain 1, none is.
#
# ## What you have now
#
# - **To find a leak, change a late step and look at the early outputs; change one sample and look at the others.**
# - **A norm after the loop changes no state in the loop.**
# - In the loop, the norm stands before the tanh and takes its statistics from one step.
#
# **You can stop here:** close the notebook. Draw two steps of the loop from memory, with the three places for a norm, and write down what `nn.LayerNorm([5, 6])` lets the first of five steps know.
#
# <details><summary>To compare</summary>
#
# The mean and the variance of all five steps, and so something of the last.
#
# </details>
#
# *Sitting two:* what does the norm in the loop do to the gradient of a hundred steps? You will find the factor of one step on paper, build a GRU cell, and find out what brings a gradient home through it.
#
# ## 10.4 The gradient through time

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, evidence, plot, train
from lessonkit.mine import LayerNorm  # lesson 4

# %% [markdown]
# **Recall 10.1:** a net with BatchNorm, trained on mixed batches, is tested without `eval()`, on batches that hold one class each. What happens?
# - [ ] nothing unusual: the weights are the same :: The weights are, but each batch is normalized with its own mean and variance.
# - [ ] an error, because such batches were never seen :: BatchNorm takes any batch of at least two values a channel, and says nothing.
# - [x] accuracy falls: the class's own mean is subtracted :: In training mode the batch's statistics are used, and what all its pictures share is removed.
#
# A net learns from what lies a hundred steps back only if the gradient arrives there. `arrives` puts a gradient in at the last of 100 steps of a tanh net that has not been trained, and prints what is left of it at the first state. It has four levers:
# - the place: `"no norm"`, `"on the sum"`, or `"on each part"`, which is $\mathrm{LN}(W x) + \mathrm{LN}(U h)$;
# - the **weight scale** $s$, where $U$ is $s$ times a matrix that keeps lengths;
# - `inputs`, their deviation;
# - `gain`, that of $\mathrm{LN}(U h)$ on each part.


# %% tags=["hide-input"]
# arrives: sends a gradient back through 100 steps.
def next_state(place, a, b, gain=1.0):
    """The new state from a = W x and b = U h, both (B, H), with a norm at a place."""
    if place == "on the sum":
        return torch.tanh(F.layer_norm(a + b, a.shape[-1:]))
    if place == "on each part":
        return torch.tanh(F.layer_norm(a, a.shape[-1:]) + gain * F.layer_norm(b, b.shape[-1:]))
    return torch.tanh(a + b)  # no norm


def through_time(place, s, inputs=1.0, gain=1.0, seed=0, H=32, T=100):
    """log10 of (size of the gradient T steps back / size put in), over 8 sequences."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    U, W = s * torch.linalg.qr(draw(H, H))[0], draw(H, 10) / math.sqrt(10)
    upstream, h_0 = draw(8, H), (0.5 * draw(8, H)).requires_grad_()  # (B, H)
    h = h_0
    for x_t in inputs * draw(T, 8, 10):  # (B, I)
        h = next_state(place, x_t @ W.T, h @ U.T, gain)  # (B, H)
    (arrived,) = torch.autograd.grad((h * upstream).sum(), h_0)
    return (arrived.norm(dim=1) / upstream.norm(dim=1)).mean().log10().item()


def arrives(place, s, inputs=1.0, gain=1.0):
    """Print what share of a gradient arrives 100 steps back: the geometric mean of 8 nets.

    place: "no norm", "on the sum" or "on each part". s, inputs, gain: positive numbers.
    """
    if place not in ("no norm", "on the sum", "on each part"):
        raise ValueError("Expected 'no norm', 'on the sum' or 'on each part'.")
    power = sum(through_time(place, s, inputs, gain, seed) for seed in range(8)) / 8
    share = f"10^{power:.0f}" if power < 5 else f"over 10^{power // 5 * 5:.0f}"
    print(f"{place}, s = {s}, inputs = {inputs}, gain = {gain}: {share} arrives")


# %%
arrives("no norm", s=0.5)
arrives("on the sum", s=0.5)

# %% [markdown]
# Next to nothing arrives, and the norm seems to be of no use.
#
# **Predict 10.3:** the norm on the sum, $s = 0.5$. Now the `inputs` become a tenth as large, and nothing else changes. What arrives?
# - [ ] about as little as before :: LayerNorm forgets the size of the whole sum. But only one of its two parts has become smaller.
# - [x] far more, between 10^−10 and 10^10 :: The norm divides the gradient by σ, the deviation of the sum, and W x had made most of that.
# - [ ] still less :: Where the inputs are smaller the sum is, too, and the norm divides the gradient by less.

# %%
arrives("on the sum", s=0.5, inputs=0.1)

# %% [markdown]
# So the size of the inputs, which know nothing of the state before, decides how much of its gradient arrives.

# %%
arrives("on the sum", s=1.0, inputs=1.0)  # yours: place, s, inputs, gain

# %% [markdown]
# **Find out,** and write your guesses down first:
# 1. The norm on the sum: which other pair of $s$ and `inputs` gives the same as 0.5 and 0.1? Does the pair give the same without a norm?
# 2. The norm on each part: which of the three numbers still matter? Find a setting in which the gradient neither vanishes nor explodes.
#
# <details><summary>What there is to find</summary>
#
# 1. Every pair with the same ratio of $s$ to `inputs`, such as 5 and 1: a common factor is what LayerNorm forgets. Without a norm the two differ.
# 2. The gain alone, unless $s$ or the inputs are so small that $\epsilon$ counts. Near 1.5 it balances what the tanh takes away.
#
# No place is the right one by itself: without a norm there is a balance too, near $s = 2$ with inputs of 1.
#
# </details>
#
# Why the ratio? Take a pencil. Say that the state has the standard deviation 1 and $s = 4$, so that $U h$ has the deviation 4, and that $W x$ has the deviation 3. If the two have nothing to do with each other, their variances add, so the sum has $\sigma = \sqrt{9 + 16} = 5$. What does the norm do to a gradient on its way back, and what does $U$? Together they multiply it by $4/5$ in a step.

# %% tags=["exercise"] id="ex-10-3"
# Exercise 10.3 · ●●○○○ · 2 min
# The state has the deviation 1, s = 5, and W x has the deviation 12. By what does one step
# multiply a gradient on its way back, before the tanh? (Above: on_sum=4 / 5.)
# Copy this line and replace the dots by three numbers (7 / 2 is a number, too):
# back_one_step = dict(on_sum=..., no_input=..., each_part=...)
# on_sum     with the norm on the sum
# no_input   with the norm on the sum, while W x = 0
# each_part  with a norm on each part, where that of U h has the gain 2
### BEGIN SOLUTION
back_one_step = dict(on_sum=5 / 13, no_input=1, each_part=2)
### END SOLUTION

# %% tags=["check"]
check.back_one_step(back_one_step)


# %% [markdown]
# <details><summary>Hint</summary>
#
# The factor is $s$, divided by the deviation that the norm sees. The deviation of a sum is the root of the sum of the squares.
#
# </details>
#
# **On the sum, the norm divides by what the inputs bring, too. On each part, the weight scale drops out, and the gain takes its place.**
#
# <details><summary>When this holds</summary>
#
# The norm's Jacobian is a projection times $1/\sigma$, times the gain ([lesson 8](08_geometry.ipynb#The-spectrum-of-the-Jacobian)): it also removes two of the H directions. $\epsilon$ has to be negligible, and the variances must add. After a tanh the state's deviation is below 1, and the tanh takes away a part of the gradient. So a real net differs somewhat: at $s = 0.5$ and inputs of 1 the pencil says 0.45 a step, and the cell above prints 10^−46 after a hundred steps, which is 0.35 a step.
#
# </details>
#
# Each place has its balance, of $s$ with the inputs or of the gain with the tanh, and training can lose it again. A different kind of cell writes only a part of its state anew, and keeps the rest. You will build one, and ask the same of its gradient.
#
# ## 10.5 A GRU cell
#
# In a GRU (gated recurrent unit) the net decides how much is kept, for each unit and at each step, by **gates**: numbers between 0 and 1, made by a sigmoid, that multiply something. There is a **candidate** $n$ for the new state, and two gates:
# - the **reset gate** $r$ (not the $r$ of lesson 7) says how much of the old state the candidate may look at;
# - the **update gate** $z$ says how much of the old state is kept; the rest comes from the candidate.
# %% tags=["hide-input"]
# Draws a recurrent cell, from its products to its state.
def wiring(parts):
    """Return what draws a cell for plot.figure.

    parts: places in points from the lower left corner.

    products: (y, text, the name of the norm behind it). boxes: (x, y, text), for a norm the
    name as well. wires: the corners of each, with an arrow at its end. dots: where one forks.
    """
    widths = {"LN": 50, "1 −": 50, "tanh": 66, "sigmoid": 92}  # of a box; others are 64 wide
    blue = plot.COLORS["LayerNorm"]
    products = [[(42, y, text), (130, y, "LN", norm)] for y, text, norm in parts["products"]]
    wires = [*parts["wires"], *([(74, y), (105, y)] for y, *_ in parts["products"])]

    def draw(ax):
        for wire in wires:
            ax.plot(
                *zip(*wire, strict=True),
                color="#2B2F33",
                lw=2.6,
                solid_joinstyle="round",
                zorder=1,
            )
            plot.arrow(ax, wire[-1], wire[-2], color="#2B2F33", lw=2.6)
        ax.plot(*zip(*parts["dots"], strict=True), "o", color="#2B2F33", ms=9, zorder=2)
        for x, y, sign in parts["circles"]:
            ax.plot(x, y, "o", ms=26, mfc="white", mec="#2B2F33", mew=2, zorder=3)
            ax.text(
                x,
                y,
                sign,
                ha="center",
                va="center_baseline",
                zorder=4,
                fontsize=18,
                weight="bold",
            )
        for x, y, text, *norm in sum(products, parts["boxes"]):
            fill = blue if text == "LN" else "#D5DBE0"
            plot.box(
                ax, x, y, widths.get(text, 64), 32, text, fill, fontsize=16, fontweight="bold"
            )
            for name in norm:  # the norm of the state has wires above and below
                place = (
                    (x + 7, y - 19, "left", "top")
                    if name == "norm_c"
                    else (x, y + 18, "center", "bottom")
                )
                ax.text(
                    *place[:2],
                    name,
                    ha=place[2],
                    va=place[3],
                    fontsize=12.5,
                    color=plot.ink(blue),
                )
        for x, y, text in parts["words"]:
            ax.text(x, y, text, ha="center", va="center", fontsize=17, style="italic")
        ax.set(xlim=(-4, 606), ylim=(-16, 284), aspect="equal")
        ax.set_axis_off()

    return draw


GRU = {
    "products": [
        (190, "W x", "gates_ih"), (130, "U h", "gates_hh"), (72, "U h", "new_hh"),
        (14, "W x", "new_ih"),
    ],
    "boxes": [(298, 160, "sigmoid"), (490, 72, "tanh"), (503, 160, "1 −")],
    "circles": [
        (205, 160, "+"), (375, 72, "×"), (425, 72, "+"), (455, 260, "×"), (556, 160, "×"),
        (556, 260, "+"),
    ],
    "wires": [
        [(155, 190), (205, 190), (205, 173)], [(155, 130), (205, 130), (205, 147)],
        [(218, 160), (252, 160)],
        [(344, 160), (476, 160)], [(528, 160), (543, 160)],
        [(375, 160), (375, 85)], [(455, 160), (455, 247)],
        [(155, 72), (362, 72)],
        [(388, 72), (412, 72)], [(155, 14), (425, 14), (425, 59)], [(438, 72), (457, 72)],
        [(523, 72), (556, 72), (556, 147)], [(556, 173), (556, 247)],
        [(24, 260), (442, 260)],
        [(468, 260), (543, 260)], [(569, 260), (586, 260)],
    ],
    "dots": [(375, 160), (455, 160)],
    "words": [
        (14, 260, "h"), (595, 260, "h′"), (362, 118, "r"), (443, 205, "z"),
        (568, 108, "n"),
    ],
}  # fmt: skip
plot.figure(
    wiring(GRU),
    size=(8.6, 4.3),
    title="A GRU keeps z of its state and writes 1 − z anew",
    caption="W x and U h are the products with the input and with the old state, each drawn "
    "twice: 2H rows for the gates r and z, H rows for the candidate n. Blue: LayerNorm. The "
    "state itself, on top, goes through no norm.",
    alt="A wiring diagram. On top the state h goes through a multiplication by z and an "
    "addition to h'. Below, W x and U h each pass a LayerNorm, are added and go through a "
    "sigmoid, which gives r and z. Further below U h passes a LayerNorm, is multiplied by r, "
    "added to the normalized W x, and a tanh makes n. A box on the way of z makes 1 - z, "
    "which n is multiplied by before it is added to the state.",
)

# %% [markdown]
# Both gates are made alike, in PyTorch's order r, z, n. What the candidate and the new state are is written nowhere but in the figure: follow the wires.
#
# What comes from the input does not depend on the state, so the given `from_input` normalizes it for *all* steps at once, before the loop. In `step` the gates are given. You write what they do.


# %% tags=["export", "hide-input"]
# Compares shapes, as PyTorch's cells do.
def _check_step(cell, x, states):
    """Raise RuntimeError, as PyTorch's cells do, for an input or a state of the wrong size.

    x: (..., input_size).
    states: {name: tensor (..., hidden_size) with the leading axes of x}.
    """
    if x.shape[-1] != cell.input_size:
        raise RuntimeError(
            f"x has shape {tuple(x.shape)}, expected (..., {cell.input_size}): "
            f"input_size={cell.input_size}."
        )
    wanted = (*x.shape[:-1], cell.hidden_size)
    for name, state in states.items():
        if tuple(state.shape) != wanted:
            raise RuntimeError(
                f"{name} has shape {tuple(state.shape)}, expected {wanted} for x "
                f"{tuple(x.shape)}."
            )


# %% tags=["exercise", "export"] id="ex-10-4"
# Exercise 10.4 · ●●●○○ · 3 min
class LayerNormGRUCell(nn.Module):
    """A GRU cell with LayerNorm on its summed inputs, separately for input and state.

    weight_ih (3H, I), weight_hh (3H, H): the rows of r, z, n, as in nn.GRUCell;
    I input_size, H hidden_size. gates_ih, gates_hh: LayerNorm(2H) for r and z together.
    new_ih, new_hh: LayerNorm(H) for the candidate. Their biases are the cell's biases.
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.gates_ih, self.gates_hh = LayerNorm(2 * hidden_size), LayerNorm(2 * hidden_size)
        self.new_ih, self.new_hh = LayerNorm(hidden_size), LayerNorm(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)  # as PyTorch does

    def from_input(self, x):
        """x: (..., I). Returns (..., 3H): what r, z, n get from the input, normalized."""
        rows = F.linear(x, self.weight_ih)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)  # (..., 3H)

    def step(self, part, h):
        """part: (..., 3H), from from_input. h: (..., H). Returns the new state (..., H).
        Example: where all of z is 1, it is h."""
        rows = F.linear(h, self.weight_hh)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        x_gates, x_new = part.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        r, z = torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)  # (..., H) each
        # Your part: the candidate, from x_new and new, and the new state.
        ### BEGIN SOLUTION
        n = torch.tanh(x_new + r * self.new_hh(new))  # (..., H)
        return (1 - z) * n + z * h  # (..., H)
        ### END SOLUTION

    def forward(self, x, h=None):
        """x: (..., I). h: (..., H), zeros if None. Returns the new state (..., H)."""
        h = x.new_zeros(*x.shape[:-1], self.hidden_size) if h is None else h
        _check_step(self, x, {"h": h})
        return self.step(self.from_input(x), h)


# %% tags=["check"]
check.gru_cell(LayerNormGRUCell)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two lines, $n = \tanh\big(\mathrm{LN}(W_n x) + r \odot \mathrm{LN}(U_n h)\big)$ and $h' = (1 - z) \odot n + z \odot h$. `x_new` is normalized already, and `new`, which is $U_n h$, is not.
#
# </details>
#
# Does a gradient come home through your cell? Its norms stand on each part, so [10.4](#10.4-The-gradient-through-time) lets you expect something. `comes_home` has three levers: `norms` or none, the deviation of the `inputs`, and `z_bias`, which is added to the bias of $z$.


# %% tags=["export", "hide-input"]
# Takes the norms out of a cell.
class Shift(nn.Module):
    """What is left of a LayerNorm without the normalization and the gain: x + bias."""

    def __init__(self, norm):
        super().__init__()
        self.bias = norm.bias

    def forward(self, x):
        return x + self.bias


def without_norms(cell):
    """Replace the cell's norms by their biases, the LSTM's norm of c by nothing; return it."""
    for name, norm in list(cell.named_children()):
        setattr(cell, name, nn.Identity() if name == "norm_c" else Shift(norm))
    return cell


# %% tags=["hide-input"]
# comes_home: a gradient through 100 steps.
def through_cell(norms, inputs, z_bias, seed, H=32, T=100):
    """log10 of (size of the gradient T steps back / size put in), over 8 sequences."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    cell = LayerNormGRUCell(10, H).double()
    cell = cell if norms else without_norms(cell)
    with torch.no_grad():
        for U in cell.weight_hh.split(H):
            U.copy_(torch.linalg.qr(draw(H, H))[0])  # keeps lengths
        cell.weight_ih.copy_(draw(3 * H, 10) / math.sqrt(10))
        cell.gates_ih.bias[H:] += z_bias  # the rows of r, then those of z
    upstream, h_0 = draw(8, H), (0.5 * draw(8, H)).requires_grad_()  # (B, H)
    h = h_0
    for part in cell.from_input(inputs * draw(T, 8, 10)):  # (B, 3H)
        h = cell.step(part, h)  # (B, H)
    (arrived,) = torch.autograd.grad((h * upstream).sum(), h_0)
    return (arrived.norm(dim=1) / upstream.norm(dim=1)).mean().log10().item()


def comes_home(norms=True, inputs=1.0, z_bias=0.0):
    """Print what share of a gradient arrives 100 steps back: the geometric mean of 4 nets."""
    power = sum(through_cell(norms, inputs, z_bias, seed) for seed in range(4)) / 4
    print(f"norms={norms}, inputs={inputs}, z_bias={z_bias}: 10^{power:.1f} arrives")


# %%
comes_home(norms=True, inputs=1.0, z_bias=0.0)  # yours: one lever at a time

# %% [markdown]
# So gates alone are no help. **Find out:** which lever, pulled alone, brings at least a tenth of the gradient home? And which changes nothing? Write your guesses down first.
#
# <details><summary>What there is to find</summary>
#
# `z_bias`, which says how much of the state is kept: the sigmoid of 0 is 0.5, that of 4 is 0.98. The power of ten that arrives is, with norms, {gru_gradient[True, *, 0.0].power:range} at 0, and {gru_gradient[True, *, 4.0].power:range} at 4, for inputs of 0.1, 1 and 4 alike. That the inputs change nothing is what 10.4 says of norms on each part. Without norms it is {gru_gradient[False, *, 0.0].power:range} at 0 and {gru_gradient[False, *, 4.0].power:range} at 4, the less the larger the inputs. {gru_gradient:again}
#
# </details>
#
# **A gradient comes home where most of the state is kept. The norms make that independent of the size of the inputs.**
#
# ## 10.6 Which learning rate
#
# Does the norm help your cell to learn? It reads an 8 × 8 digit in 16 steps of 4 pixels, and a linear layer names the digit from the last of its states.
#
# <details><summary>What is equal, and what is not</summary>
#
# Equal: the cell's code, the order of the data, the first values of all matrices and biases, the learning rate, the clipping (a longer gradient is scaled to length 1). Not equal: 192 gains, and the time for a step.
#
# </details>


# %% tags=["export", "hide-input"]
# Reads digits with a cell.
class Reader(nn.Module):
    """Reads (B, T, I) with a cell; a linear layer makes outputs of the last state."""

    def __init__(self, cell, outputs=10):
        super().__init__()
        self.cell, self.head = cell, nn.Linear(cell.hidden_size, outputs)
        H = cell.hidden_size
        for W, U in zip(cell.weight_ih.split(H), cell.weight_hh.split(H), strict=True):
            nn.init.xavier_uniform_(W), nn.init.orthogonal_(U)  # each gate by itself

    def forward(self, x):
        h = x.new_zeros(len(x), self.cell.hidden_size)  # (B, H)
        state = (h, h) if hasattr(self.cell, "norm_c") else h
        for part in self.cell.from_input(x).unbind(1):  # T times (B, 3H or 4H)
            state = self.cell.step(part, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


# %% tags=["hide-input"]
# Trains a cell with and without norms.
def compete(cell, optimizer, seeds, split=0):
    """Train the cell without norms and with them, six epochs of digits; return the histories.

    Both see the same batches and start from the same numbers. split: of the digits. The
    accuracy is that on its 300 validation digits, which nobody trains on.
    """
    digits = data.digits_split(split).validating()
    x_train, x_test = (x.reshape(len(x), 16, 4) for x in (digits.x_train, digits.x_test))
    accuracy = lambda model: 100 * (model(x_test).argmax(-1) == digits.y_test).float().mean()
    return train.compare(
        {
            "none": lambda: Reader(without_norms(cell(4, 32))),
            "LayerNorm": lambda: Reader(cell(4, 32)),
        },
        seeds=seeds,
        data=(x_train, digits.y_train),
        epochs=6,
        drop_last=True,
        clip=1.0,
        loss=F.cross_entropy,
        optimizer=optimizer,
        evaluate={"accuracy": accuracy},
        every=90,
    )


# %% tags=["nbval-ignore-output"]
sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
train.table(compete(LayerNormGRUCell, sgd, seeds=range(2)), "accuracy")

# %% [markdown]
# Your cell reads digits, and on 300 validation digits, which nobody trained on, the norm is far ahead. But both had the same rate, and it may suit one of them only. Here are eight seeds on each of three splits, at five rates:

# %% tags=["hide-input"]
# Draws accuracy over learning rates.
rates = [0.1, 1.0, 3.0, 5.0, 10.0]
swept, at_5 = evidence.load("rnn_sweep"), evidence.load("rnn_between")  # (rates, splits, seeds)
tried = {
    name: torch.cat([swept[key][:3], at_5[key][None], swept[key][3:]])  # (5, splits, seeds)
    for name, key in {"none": "none_validation", "LayerNorm": "layer_norm_validation"}.items()
}
plot.lines(
    rates,
    {name: values.flatten(1).T for name, values in tried.items()},
    xlog=True,
    ylim=(0, 100),
    title="LayerNorm is far ahead at 0.1, and about level from 3 on",
    x="learning rate (SGD, clipped)",
    y="validation accuracy after six epochs, %",
    caption=f"GRU of 32 units on digits in 16 steps; {evidence.note('rnn_sweep')}; "
    f"rate 5 {evidence.note('rnn_between')}.",
    alt="Two curves over learning rates. "
    + " ".join(
        f"{name}: {row.mean():.0f} at {lr:g}."
        for name, rows in tried.items()
        for lr, row in zip(rates, rows, strict=True)
    ),
)

# %% [markdown]
# If you expected the norm to stay ahead, your run had said so, and it was no mistake: at 0.1 it is ahead in all {rnn_sweep[0.1, *]:n} recorded pairs of runs. But that rate suits neither net. At 3, the best rate of the net without norms and as good as any for the other, the norm is ahead in {rnn_sweep[3.0, *].ahead:count > 0} of {rnn_sweep[3.0, *]:n}. So the lead belongs to the small rates.
#
# **Compare each side at its own best learning rate, chosen on digits that are not reported.**
#
# <details><summary>How sure is that?</summary>
#
# At a rate of 0.1 the norm was ahead by {rnn_sweep[0.1, *].ahead:range} of the test digits, at 3 by {rnn_sweep[3.0, *].ahead:range}, at 5 by {rnn_between.ahead:range}, where it led in {rnn_between.ahead:count > 0} pairs. Single runs differ by much at 5, so a few seeds can show either side ahead. This is one task with six epochs of SGD. {rnn_sweep:again} {rnn_between:again}
#
# </details>
#
# ## Take-away
#
# - How a leak is found, and where in the loop the norm stands: the lines of [What you have now](#What-you-have-now).
# - On the sum, the inputs have a part in $\sigma$, which divides the gradient. On each part, the gain takes the place of the weight scale.
# - Through a GRU a gradient comes home where most of the state is kept; norms on each part take the size of the inputs out.
# - On digits the norms were ahead at small rates. Where each side had its best rate, they were about level.
#
# ## Deeper (optional, 12 min)
#
# ### An LSTM cell
#
# An LSTM (long short-term memory) has two states: a **cell** $c$, which is its memory, and $h$, which the matrices read. Three gates say how much of the candidate $g$ is written ($i$, the input gate), of the memory kept ($f$, the forget gate), and of it shown as $h$ ($o$, the output gate).

# %% tags=["hide-input"]
# Draws the LSTM's wiring.
LSTM = {
    "products": [(152, "W x", "norm_ih"), (68, "U h", "norm_hh")],
    "boxes": [
        (316, 200, "sigmoid"), (316, 146, "sigmoid"), (316, 78, "tanh"),
        (316, 14, "sigmoid"),
        (540, 178, "LN", "norm_c"), (540, 96, "tanh"),
    ],
    "circles": [
        (205, 110, "+"), (408, 260, "×"), (440, 112, "×"), (484, 260, "+"), (540, 14, "×"),
    ],
    "wires": [
        [(155, 152), (205, 152), (205, 123)],
        [(155, 68), (205, 68), (205, 97)], [(218, 110), (242, 110), (242, 200), (270, 200)],
        [(242, 146), (270, 146)], [(242, 110), (242, 78), (283, 78)],
        [(242, 78), (242, 14), (270, 14)],
        [(362, 200), (440, 200), (440, 125)], [(362, 146), (408, 146), (408, 247)],
        [(349, 78), (440, 78), (440, 99)], [(453, 112), (484, 112), (484, 247)],
        [(24, 260), (395, 260)],
        [(421, 260), (471, 260)], [(497, 260), (586, 260)], [(540, 260), (540, 194)],
        [(540, 162), (540, 112)],
        [(540, 80), (540, 27)], [(362, 14), (527, 14)], [(553, 14), (586, 14)],
    ],
    "dots": [(242, 110), (242, 146), (242, 78), (540, 260)],
    "words": [
        (14, 260, "c"), (595, 260, "c′"), (595, 14, "h′"), (384, 213, "i"),
        (384, 159, "f"), (384, 91, "g"),
        (384, 27, "o"),
    ],
}  # fmt: skip
plot.figure(
    wiring(LSTM),
    size=(8.6, 4.3),
    title="An LSTM carries its memory c past all its norms",
    caption="W x and U h have 4H rows, for i, f, g and o. Blue: LayerNorm. The line on top is "
    "what the next step gets.",
    alt="A wiring diagram. On top the memory c is multiplied by f and gets an addition, and "
    "becomes c'. Below, W x and U h each pass a LayerNorm and are added; sigmoids make i, f "
    "and o, a tanh makes g; i times g is added to the memory. From c' a branch goes through a "
    "LayerNorm and a tanh, is multiplied by o, and becomes h'.",
)

# %% [markdown]
# Ba et al. (2016, eqs. 20 to 22), in PyTorch's order i, f, g, o:
#
# $$a_i, a_f, a_g, a_o = \mathrm{LN}(W x) + \mathrm{LN}(U h) \qquad c' = \mathrm{sigmoid}(a_f) \odot c + \mathrm{sigmoid}(a_i) \odot \tanh(a_g) \qquad h' = \mathrm{sigmoid}(a_o) \odot \tanh(\mathrm{LN}(c'))$$
#
# Two norms are **4H** wide, all four rows together; the third is H wide. The bias of the forget gate starts at 1, so that at first most of $c$ is kept.


# %% tags=["exercise", "export", "optional"] id="ex-10-5"
# Exercise 10.5 · ●●●○○ · 4 min
class LayerNormLSTMCell(nn.Module):
    """An LSTM cell with LayerNorm as in Ba et al. (2016), eqs. 20 to 22.

    weight_ih (4H, I), weight_hh (4H, H): the rows of i, f, g, o, as in nn.LSTMCell;
    I input_size, H hidden_size. norm_ih, norm_hh: LayerNorm(4H), on the two projections;
    their biases are the cell's. norm_c: LayerNorm(H), before the last tanh only.
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.norm_ih, self.norm_hh = LayerNorm(4 * hidden_size), LayerNorm(4 * hidden_size)
        self.norm_c = LayerNorm(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)  # as PyTorch does
        nn.init.ones_(self.norm_ih.bias[hidden_size : 2 * hidden_size].data)  # the forget gate

    def from_input(self, x):
        """x: (..., I). Returns (..., 4H): what i, f, g, o get from the input, normalized."""
        return self.norm_ih(F.linear(x, self.weight_ih))  # (..., 4H)

    def step(self, part, state):
        """part: (..., 4H). state: (h, c), each (..., H). Returns the new (h, c)."""
        ### BEGIN SOLUTION
        h, c = state
        rows = part + self.norm_hh(F.linear(h, self.weight_hh))  # (..., 4H)
        i, f, g, o = rows.chunk(4, -1)  # (..., H) each
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (..., H)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c  # (..., H), (..., H)
        ### END SOLUTION

    def forward(self, x, state=None):
        """x: (..., I). state: (h, c), each (..., H), zeros if None. Returns the new (h, c)."""
        state = (x.new_zeros(*x.shape[:-1], self.hidden_size),) * 2 if state is None else state
        _check_step(self, x, dict(zip("hc", state, strict=True)))
        return self.step(self.from_input(x), state)


# %% tags=["check", "optional"]
check.lstm_cell(LayerNormLSTMCell)

# %% [markdown]
# <details><summary>Hint</summary>
#
# One norm for all four gates at once: normalize (..., 4H), add, and only then `.chunk(4, -1)`. Return the pair (h, c) with the c that has *not* been through `norm_c`.
#
# </details>

# %% [markdown]
# <details><summary>A different cell of the same name</summary>
#
# PyTorch's own benchmarks ([custom_lstms.py](https://github.com/pytorch/pytorch/blob/main/benchmarks/fastrnns/custom_lstms.py)) carry the *normalized* memory on, $c' = \mathrm{LN}(f c + i g)$. LayerNorm is blind to a factor, so the size of $c$ is gone after one step. All shapes are the same.
#
# </details>
#
# ## On your own
#
# 1. Write a fourth place, in a file of your own in `work/mine`: the state of every step normalized after the tanh, before $U$. Put it into `next_state`, and find with `arrives` what balances it.
# 2. At $h_0 = 0$ the row $U h_0$ is constant. What is the gradient of $\mathrm{LN}(U h_0)$ in $h_0$ there, and what follows for a learned first state? ([Lesson 3](03_epsilon.ipynb).)
# 3. Papers often write $h' = (1-z) \odot h + z \odot n$, as the LayerNorm paper does. Which signs of which parameters turn one form into the other? ($1 - \mathrm{sigmoid}(a) = \mathrm{sigmoid}(-a)$.)
#
# Your layer can now stand inside a recurrent cell, at every step; it still cannot find its place in a deep Transformer: [lesson 11](11_transformer.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*: eq. 4 (the summed input of an RNN), eqs. 20 to 22 (LSTM), and the GRU in the same supplement.
# - Cho et al. (2014), *Learning Phrase Representations using RNN Encoder-Decoder*: the GRU. Hochreiter & Schmidhuber (1997), *Long Short-Term Memory*.
# - Pascanu, Mikolov & Bengio (2013), *On the difficulty of training recurrent neural networks*: exploding and vanishing gradients, clipping.

# %% [markdown]
# # 10 · Recurrent nets: the norm inside the loop
#
# A net reads rows of five coin tosses, 1 for heads and −1 for tails. After each toss it says what the next one will be. It has learned from 1,200 random rows, and is tested on all 32 possible ones, with 128 next tosses in them.

# %% tags=["hide-input", "record"]
import itertools
import math

import ipywidgets as widgets
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, plot, runs, show, train  # sets torch to one thread
from lessonkit.mine import LayerNorm  # lesson 4

print(2**5, "rows of five tosses, with", 2**5 * 4, "next tosses in them")


# %% tags=["hide-input"]
class FoundTagger(nn.Module):
    """x: (B, T, I). Returns (B, T, H)."""

    def __init__(self, input_size, hidden_size, steps):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size)
        self.norm = nn.LayerNorm([steps, hidden_size])

    def forward(self, x):
        return self.norm(self.rnn(x)[0])


def toss_net(tagger, seed=0):
    """Train a tagger of 6 units and a linear layer after it to name the next of five tosses."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(tagger(), nn.Linear(6, 1))
    g = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(150):
        heads = torch.randint(2, (8, 5), generator=g).float()  # (B, T)
        says = net(2 * heads[..., None] - 1)[:, :-1, 0]  # (B, T - 1), for tosses 2 to 5
        loss = F.binary_cross_entropy_with_logits(says, heads[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.requires_grad_(False)


rows = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=5)))[:, :, None]  # (32, T, 1)
rows = rows[torch.randperm(32, generator=torch.Generator().manual_seed(0))]


def foreseen(net, as_they_fall=False):
    """How many of the 128 next tosses the net names; as_they_fall: later ones given as 0."""
    right = 0
    for t in range(4):
        given = rows.clone()  # (32, T, 1)
        if as_they_fall:
            given[:, t + 1 :] = 0
        right += ((net(given)[:, t] > 0) == (rows[:, t + 1] > 0)).sum().item()
    return right


found_net = toss_net(lambda: FoundTagger(1, 6, steps=5))

# %% tags=["nbval-ignore-output"]
print("whole rows at once:", foreseen(found_net), "of 128 tosses foreseen")
print("toss by toss, later ones as 0:", foreseen(found_net, as_they_fall=True), "of 128")

# %% tags=["hide-input"]
# Eight seeds: 86 to 91, and 60 to 67; 64 is chance.
assert 80 <= foreseen(found_net) <= 96 and 56 <= foreseen(found_net, as_they_fall=True) <= 72

# %% [markdown]
# Over all 32 rows, no rule that sees only the past can name more than 64 of the tosses, yet this net names about 88. As soon as the tosses arrive one at a time, it is back at chance. All shapes fit, and no error was raised. [Section 10.7](#10.7-Clinic:-the-net-that-foresaw-coin-tosses) finds the causes; one of them is a normalization layer (a norm, for short) that looks along time.
#
# *About 79 min.* **You'll be able to**
# - put LayerNorm at the right place inside a recurrent cell;
# - say what it does there to the gradient through time, and what it does not do;
# - build a GRU cell and an LSTM cell with LayerNorm, and show that without their norms they are PyTorch's cells;
# - read a comparison over learning rates: faster at one rate is not better at every rate;
# - find out whether a net reads ahead.
#
# **You need** [lesson 4](04_affine_and_module.ipynb) (`LayerNorm`), [lesson 6](06_batchnorm.ipynb) (running statistics) and [lesson 8](08_geometry.ipynb) (what LayerNorm is blind to).
#
# **Recall 10.1:** a net with BatchNorm, trained on mixed batches, is tested without `eval()`, on batches that hold one class each. What happens?
# - [ ] nothing unusual: the weights are the same :: The weights are, but each batch is normalized with its own mean and variance.
# - [ ] an error, because such batches were never seen :: BatchNorm takes any batch of at least two values a channel, and says nothing.
# - [x] accuracy falls: the class's own mean is subtracted :: In training mode the batch's statistics are used, and what all its pictures share is removed.
#
# **Recall 10.2:** a gradient arrives at LayerNorm (gains 1) that is the same for all features of a row. What goes on to $x$?
# - [x] zeros :: The Jacobian removes the mean of the gradient over the features, and nothing else was there.
# - [ ] the same gradient, divided by σ :: Only what is left after two directions are removed is divided by σ. This gradient lies in one of them.
# - [ ] the same gradient :: That would need a layer that lets a common shift through. LayerNorm subtracts it.
#
# **Recall 10.3:** how many gains does `nn.LayerNorm([5, 6])` learn?
# - [ ] 6 :: That is nn.LayerNorm(6), which normalizes the last axis alone.
# - [x] 30 :: One for each entry of the normalized shape, 5 · 6, and one mean for all 30 together.
# - [ ] 5 :: The gains have the whole normalized shape, here (5, 6).

# %% [markdown]
# ## 10.1 A norm after the loop
#
# A recurrent net reads a sequence one step at a time and keeps a **state** $h$. (Here H is the number of its hidden units, and I that of its inputs.) It uses the same two matrices at every step (we leave out the biases):
#
# $$a_t = W x_t + U h_{t-1}, \qquad h_t = \tanh(a_t)$$
#
# $a_t$ is called the **summed input**. What does a norm change if it follows such a net, as in `norm(rnn(x)[0])`?
#
# **Predict 10.1:** an `nn.LayerNorm` is applied to what `nn.RNN` returns for all steps. Which states does the *loop* compute with?
# - [ ] with normalized ones, from the first step on :: For that the norm would have to be called inside the loop, between two steps.
# - [x] with those of a plain RNN :: The loop has run to its end before the norm sees anything.
# - [ ] with plain ones, but the last is normalized :: The loop is finished by then; the last state it returned is not touched either.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(100)
rnn, norm = nn.RNN(4, 6, batch_first=True), nn.LayerNorm(6)
for parameter in rnn.parameters():
    nn.init.normal_(parameter, std=0.5, generator=g)
x = torch.randn(2, 5, 4, generator=g)  # (B, T, I)

# %%
states, last = rnn(x)  # (B, T, H), (1, B, H)
y = norm(states)  # (B, T, H)
h = torch.zeros(2, 6)  # (B, H)
for t in range(5):
    a = x[:, t] @ rnn.weight_ih_l0.T + h @ rnn.weight_hh_l0.T  # (B, H)
    h = torch.tanh(a + rnn.bias_ih_l0 + rnn.bias_hh_l0)  # (B, H)
show("a plain loop's last state ", h[0].detach(), digits=2)
show("what rnn hands on, `last` ", last[0, 0].detach(), digits=2)
show("the last step after norm  ", y[0, -1].detach(), digits=2)

# %% tags=["hide-input"]
assert (last[0] - h).abs().max() < 1e-5 and (states[:, -1] - h).abs().max() < 1e-5  # float32
assert (last[0] - y[:, -1]).abs().max() > 0.1 and y.mean(-1).abs().max() < 1e-5

# %% [markdown]
# So a norm after the loop changes nothing in the loop. It can serve the next layer, but makes no layer-normalized RNN.
#
# ## 10.2 A norm in the loop
#
# Where does it belong, then? Ba, Kiros & Hinton (2016, eq. 4) normalize the summed input at every step, before the tanh. All steps share one gain $\gamma$ and one bias $\beta$:
#
# $$h_t = \tanh\big(\mathrm{LN}(W x_t + U h_{t-1};\, \gamma, \beta)\big)$$
#
# Every step of every sequence has its own mean and variance, over its H units. Nothing is averaged over time.


# %% tags=["exercise"] id="ex-10-1"
# Exercise 10.1 · ●○○○○ · 3 min
def normed_step(x, h, W, U, weight, bias):
    """One step of a layer-normalized RNN.

    x: (B, I) input of this step. h: (B, H) state before it. W: (H, I). U: (H, H).
    weight, bias: (H,) gain and bias. Returns the new state (B, H): tanh of the normalized
    summed input. F.layer_norm may be used, with its usual eps.
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
# Add the two products first. `F.layer_norm(a, (H,), weight, bias)` normalizes the last axis; the tanh comes last.
#
# </details>
#
# So the norm belongs on the summed input, inside every step.
#
# ## 10.3 The gradient through time
#
# What does that do to learning? How strongly the last state depends on an early one is a product with one factor for each step:
#
# $$\frac{\partial h_t}{\partial h_{t-1}} = \mathrm{diag}(1 - h_t^2)\; J_t\; U$$
#
# Without a norm $J_t$ is the identity. With the norm on the sum it is LayerNorm's Jacobian: at gain 1 and $\epsilon = 0$ a projection times $1/\sigma_t$, where $\sigma_t$ is the standard deviation of the summed input.
# Let $U$ be an orthogonal matrix, which keeps lengths, times a **weight scale** $s$. Then without a norm each step multiplies a gradient by $s$ on its way back, less what the tanh takes away. We send a random gradient into the last of 100 states, and measure what arrives at the earlier ones.


# %% tags=["hide-input"]
def next_state(place, a, b, gain):
    """The new state from a = W x and b = U h, both (B, H), with the norm at a place.

    gain: of the norm of b alone.
    """
    centered = lambda row: F.layer_norm(row, row.shape[-1:])
    if place == "on the sum":
        return torch.tanh(centered(a + b))
    if place == "on each part":
        return torch.tanh(centered(a) + gain * centered(b))
    return torch.tanh(a + b)  # "no norm", and "after the loop"


def through_time(place, scale, seed, gain=1.0, H=32, T=100):
    """log10 of (size of the gradient k steps back / size put in), for k from 0 to T: (T + 1,).

    The mean size of 8 sequences of Gaussian inputs.
    """
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    U, W = scale * torch.linalg.qr(draw(H, H))[0], draw(H, 10) / math.sqrt(10)
    upstream, states = draw(8, H), [(0.5 * draw(8, H)).requires_grad_()]  # (B, H)
    for step in draw(T, 8, 10):  # (B, I)
        states.append(next_state(place, step @ W.T, states[-1] @ U.T, gain))  # (B, H)
    out = F.layer_norm(states[-1], (H,)) if place == "after the loop" else states[-1]
    arrived = torch.autograd.grad((out * upstream).sum(), states[::-1])
    sizes = torch.stack(arrived).norm(dim=2) / upstream.norm(dim=1)  # (T + 1, B)
    return sizes.mean(1).log10()


PLACES = ["no norm", "after the loop", "on the sum"]
back = {
    s: {place: torch.stack([through_time(place, s, n) for n in range(4)]) for place in PLACES}
    for s in (0.5, 1.0, 5.0)
}  # (seeds, T + 1) each


# %% [markdown]
# **Predict 10.2:** at $s = 0.5$ and without a norm, about $10^{-47}$ of the gradient is left after 100 steps. How much arrives with the norm inside, on the sum?
# - [ ] about all of it :: For that the norm would have to give the factor 0.5 back. It divides by the deviation of the sum, and W x makes most of that.
# - [x] nearly nothing, as without the norm :: W x dominates the sum, so $1/\sigma_t$ is about what it would be without U, and the small factor stays.
# - [ ] far too much: it explodes :: For that every step would have to enlarge. $1/\sigma_t$ is near 1 here.

# %%
for s, found in back.items():
    for place in PLACES:
        power = found[place][:, -1].mean().item()
        size = f"10^{power:.0f}" if power < 5 else f"over 10^{power // 5 * 5:.0f}"
        print(f"s = {s}, {place:14}: {size} arrives")

# %% tags=["hide-input"]
end = {s: {place: found[place][:, -1] for place in PLACES} for s, found in back.items()}
for found in end.values():
    # 12 seeds: at most 0.32, of up to 48
    assert (found["after the loop"] - found["no norm"]).abs().max() < 0.6
# 12 seeds: -49.2 to -43.5 with the norm, -48.6 to -46.0 without; it does not cure vanishing
assert end[0.5]["on the sum"].max() < -35 and end[0.5]["no norm"].max() < -40
assert end[5.0]["no norm"].min() > 14  # 12 seeds: 18.0 to 21.4
assert 0 < end[5.0]["on the sum"].min() and end[5.0]["on the sum"].max() < 5  # 0.8 to 2.0

# %% tags=["hide-input"]
plot.panels(
    {f"s = {s:g}": (range(101), back[s]) for s in (0.5, 5.0)},
    colors={"no norm": "none", "after the loop": "#B8860B", "on the sum": "LayerNorm"},
    title="After the loop it hardly matters; inside it slows explosion, not vanishing",
    x="steps back in time",
    y="log10 of the gradient that arrives",
    caption="A tanh net of 32 units before training, recurrent matrix = s × orthogonal. Each "
    "curve is the mean of 4 draws, with their standard deviation.",
    alt="Two panels over 0 to 100 steps back. At s = 0.5 all curves fall together to about "
    "-47. At s = 5 no norm and after the loop rise together to about 19, on the sum stays "
    "below 2.",
)

# %% [markdown]
# - **After the loop** the norm is one factor at the end, which cannot undo a hundred.
# - **On the sum, $s = 5$:** $U h$ dominates the sum, so $\sigma_t$ grows with $s$, and $1/\sigma_t$ takes the factor back. But nothing *bounds* the product: at $s = 20$ it is about $10^3$ after 100 steps.
# - **On the sum, $s = 0.5$:** $W x$ dominates the sum, so the small factor stays.
#
# In their gated cells Ba et al. normalize the two parts **separately**: $\mathrm{LN}(W x_t) + \mathrm{LN}(U h_{t-1})$, each with its own gain. LayerNorm is blind to a factor, as far as $\epsilon$ allows, so $s$ drops out.
#
# **Predict 10.3:** which number decides now whether the gradient vanishes or explodes?
# - [x] the gain of LN(U h) :: It multiplies the state's part after its scale has been taken out, so it does what $s$ did before.
# - [ ] none: each factor is 1 now :: The norm makes the state's part a row of standard deviation 1. The tanh still takes something away, and the gain still multiplies.
# - [ ] the weight scale of W :: LN(W x) is blind to it, and the gradient in h does not go through W.

# %%
factors = [0.1, 0.3, 1.0, 3.0, 10.0]
ends = lambda place, s, k: [through_time(place, s, n, k)[-1] for n in range(4)]
by_scale = {
    place: torch.tensor([ends(place, s, 1.0) for s in factors]).T  # (seeds, 5)
    for place in ("no norm", "on the sum", "on each part")
}
by_gain = torch.tensor([ends("on each part", 1.0, k) for k in factors]).T  # (seeds, 5)
show("powers of ten, s    0.1 to 10", by_scale["on each part"].mean(0), digits=0)
show("powers of ten, gain 0.1 to 1 ", by_gain[:, :3].mean(0), digits=0)
show("over these,    gain 3 and 10 ", by_gain[:, 3:].mean(0) // 10 * 10, digits=0)

# %% tags=["hide-input"]
same = by_scale["on each part"]
assert (same - same[:, 2:3]).abs().max() < 0.3  # 12 seeds: 0.03; eps is felt a little at 0.1
assert -16 < same.min() and same.max() < -5  # 12 seeds: -9.9 to -8.5
assert by_gain[:, 1].max() < -35 and by_gain[:, 3].min() > 8  # 12 seeds: -52 to -50, 12 to 15

# %% [markdown]
# **Move** the sliders: which of them moves which curves? (They need a running kernel; the figure below them does not.)

# %% tags=["hide-input", "nbval-ignore-output"]
WIDE = dict(
    value=1.0,
    min=-1,
    max=1,
    step=0.125,
    readout_format=".2f",
    continuous_update=False,
    layout=widgets.Layout(width="70%"),
    style={"description_width": "140px"},
)
scale_slider = widgets.FloatLogSlider(description="weight scale of U", **WIDE)
gain_slider = widgets.FloatLogSlider(description="gain of LN(U h)", **WIDE)
scale_picture = widgets.Image(format="png", width=720)


def redraw_gradients(change=None):
    """Draw the gradient over the steps back, for the weight scale and gain of the sliders."""
    scale, gain = scale_slider.value, gain_slider.value
    places = ("no norm", "on the sum", "on each part")
    scale_picture.value = plot.lines(
        range(101),
        {place: through_time(place, scale, 0, gain) for place in places},
        colors={"no norm": "none", "on the sum": "LayerNorm", "on each part": "#5B2A86"},
        ylim=(-120, 40),
        title=f"Weight scale {scale:.2f}, gain on each part {gain:.2f}",
        x="steps back in time",
        y="log10 of the gradient that arrives",
        caption="One draw.",
        alt="Three curves over 0 to 100 steps back.",
        show=False,
    ).png


scale_slider.observe(redraw_gradients, "value")
gain_slider.observe(redraw_gradients, "value")
redraw_gradients()
widgets.VBox([scale_slider, gain_slider, scale_picture])

# %% tags=["hide-input"]
plot.panels(
    {
        "weight scale of U, gain 1": (factors, by_scale),
        "gain of LN(U h)": (factors, {"on each part": by_gain}),
    },
    colors={"no norm": "none", "on the sum": "LayerNorm", "on each part": "#5B2A86"},
    xlog=True,
    title="Norms on each part: the weight scale no longer matters, the gain does",
    x="factor",
    y="log10 of the gradient that arrives",
    caption="As before, after 100 steps. Left: with a norm on each part about 10^-9 arrives at "
    "every weight scale. Right: a gain of 0.3 makes it vanish, a gain of 3 makes it explode.",
    alt="Left, over the weight scale from 0.1 to 10: no norm from -116 up to about 26, on the "
    "sum from -114 up to 3, on each part a level line at -9. Right, over the gain: on "
    "each part from -98 at gain 0.1 through -9 at gain 1 to about 26 at gain 10.",
)

# %% [markdown]
# A weight scale comes from the initialization and moves with every step of training; the gain starts at 1 and is learned, one number for each unit.
# So with a norm on each part, **the gain and not the weight scale sets the factor of each step, but it does not make it 1.** What keeps a gradient alive over a long time is a state that is kept and not written anew, and for that a cell needs gates.
#
# ## 10.4 A GRU cell
#
# What are gates for? A plain RNN writes its whole state anew at every step. To remember, a unit should be able to *keep* what it holds; to start afresh, it should be able to *ignore* it. A **gate** is a number between 0 and 1 for each unit that multiplies something: 0 shuts it off, 1 lets it through. The net computes its gates from the input and the state, with a sigmoid, $\mathrm{sigmoid}(a) = 1/(1+e^{-a})$, which is always between 0 and 1.
#
# A GRU (gated recurrent unit) has two gates and a **candidate** $n$ for the new state:
# - the **reset gate** $r$ says how much of the old state the candidate may look at;
# - the **update gate** $z$ says how much of the old state is kept. The rest, $1-z$, comes from the candidate.

# %% tags=["hide-input"]
plot.cell(
    "GRU",
    title="A GRU keeps z of its state and writes 1 − z anew",
    caption="W x and U h are the products with the input and with the old state, each drawn "
    "twice: 2H rows for the gates r and z, H rows for the candidate n. Blue: LayerNorm. The "
    "state itself, on top, goes through no norm.",
    alt="A wiring diagram. On top the state h goes through a multiplication by z and an "
    "addition to h'. Below, W x and U h each pass a LayerNorm, are added and go through a "
    "sigmoid, which gives r and z. Further below U h passes a LayerNorm, is multiplied by r, "
    "added to the normalized W x, and a tanh makes n, which is multiplied by 1 - z and added "
    "to the state.",
)

# %% [markdown]
# **Predict 10.4:** which gates make a unit forget all that it knew?
# - [ ] z = 1 :: Then h' = h: the unit keeps everything and writes nothing.
# - [ ] r = 0, whatever z is :: The candidate ignores the old state then, but z of the old state is kept.
# - [x] z = 0 and r = 0 :: Nothing of h is kept, and the candidate is made of the input alone.
#
# With PyTorch's names and its order r, z, n:
#
# $$r, z = \mathrm{sigmoid}\big(\mathrm{LN}(W_{rz} x) + \mathrm{LN}(U_{rz} h)\big) \qquad n = \tanh\big(\mathrm{LN}(W_n x) + r \odot \mathrm{LN}(U_n h)\big) \qquad h' = (1 - z) \odot n + z \odot h$$
#
# Two norms are **2H** wide, over both gates together, and two are **H** wide. What comes from the input does not depend on the state, so `from_input` can normalize it for *all* steps at once, before the loop. (`_check_step`, folded above the exercise, compares shapes; `LayerNorm` is lesson 4's: yours, if it passed.)


# %% tags=["export", "record", "hide-input"]
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


# %% tags=["exercise", "export", "record"] id="ex-10-2"
# Exercise 10.2 · ●●●●○ · 7 min
class LayerNormGRUCell(nn.Module):
    """A GRU cell with LayerNorm on its summed inputs, separately for input and state.

    weight_ih (3H, I), weight_hh (3H, H): the rows of r, z, n, as in nn.GRUCell;
    I input_size, H hidden_size. gates_ih, gates_hh: LayerNorm(2H) for r and z together.
    new_ih, new_hh: LayerNorm(H) for the candidate.
    Their biases are the cell's biases.
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
        ### BEGIN SOLUTION
        rows = F.linear(x, self.weight_ih)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)  # (..., 3H)
        ### END SOLUTION

    def step(self, part, h):
        """part: (..., 3H), from from_input. h: (..., H). Returns the new state (..., H)."""
        ### BEGIN SOLUTION
        rows = F.linear(h, self.weight_hh)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        x_gates, x_new = part.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        r, z = torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)  # (..., H) each
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
# `F.linear(x, self.weight_ih)` is (..., 3H). Its first 2H columns go to `gates_ih`, its last H to `new_ih`; `torch.cat([...], -1)` joins the two.
# In `step`: project `h` the same way, `torch.sigmoid(...)` of the sum for the gates, `.chunk(2, -1)` gives r and z in this order. The reset gate multiplies the *normalized* state part of the candidate.
#
# </details>
#
# So a GRU keeps z of its state with no matrix, tanh or norm on the way, and the norms lie on what computes its gates and its candidate.
#
# ### Without its norms it is PyTorch's cell
#
# How do you test such a cell? If each norm is replaced by its bias alone, a plain cell is left. Names and row order are PyTorch's, so the weights of `nn.GRUCell` and `nn.LSTMCell` load as they are.


# %% tags=["hide-input", "record"]
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
def compare_with_pytorch(plain, cell, norms, *states):
    """Load a plain cell's weights into one without norms; return the largest difference.

    norms: {"_ih" or "_hh": [(name of a norm, rows of its bias), ...]}.
    """
    g = torch.Generator().manual_seed(101)
    for parameter in plain.parameters():
        nn.init.normal_(parameter, generator=g)
    loaded = {"weight_ih": plain.weight_ih, "weight_hh": plain.weight_hh}
    for side in ("_ih", "_hh"):
        parts = getattr(plain, f"bias{side}").split([rows for _, rows in norms])
        loaded |= {
            f"{name}{side}.bias": part for (name, _), part in zip(norms, parts, strict=True)
        }
    without_norms(cell).load_state_dict(loaded)
    x, *states = (torch.randn(3, size, generator=g) for size in (4, *states))
    state = tuple(states) if len(states) == 2 else states[0]
    ours, theirs = cell(x, state), plain(x, state)
    pairs = zip(ours, theirs, strict=True) if len(states) == 2 else [(ours, theirs)]
    return max((a - b).abs().max().item() for a, b in pairs)


# %%
our_gru, norms = LayerNormGRUCell(4, 6), [("gates", 12), ("new", 6)]
gru_gap = compare_with_pytorch(nn.GRUCell(4, 6), our_gru, norms, 6)
print("without its norms, this is nn.GRUCell:", gru_gap < 1e-5)  # float32, of order 1

# %% tags=["hide-input"]
assert gru_gap < 1e-5

# %% [markdown]
# ## 10.5 An LSTM cell
#
# A GRU shows all that it keeps. What if a cell could remember something without showing it yet? An LSTM (long short-term memory) has two states: a **cell** $c$, which is its memory, and $h$, which the matrices read. Its three gates work on the memory:
# - the **forget gate** $f$ says how much of the old memory is kept;
# - the **input gate** $i$ says how much of the candidate $g$ is written;
# - the **output gate** $o$ says how much of the memory is shown as $h$.

# %% tags=["hide-input"]
plot.cell(
    "LSTM",
    title="An LSTM carries its memory c past all its norms",
    caption="W x and U h have 4H rows, for i, f, g and o. Blue: LayerNorm. The line on top is "
    "what the next step gets.",
    alt="A wiring diagram. On top the memory c is multiplied by f and gets an addition, and "
    "becomes c'. Below, W x and U h each pass a LayerNorm and are added; sigmoids make f, i "
    "and o, a tanh makes g; i times g is added to the memory. From c' a branch goes through a "
    "LayerNorm and a tanh, is multiplied by o, and becomes h'.",
)

# %% [markdown]
# Ba et al. (2016, eqs. 20 to 22), in PyTorch's order i, f, g, o:
#
# $$a_i, a_f, a_g, a_o = \mathrm{LN}(W x) + \mathrm{LN}(U h) \qquad c' = \mathrm{sigmoid}(a_f) \odot c + \mathrm{sigmoid}(a_i) \odot \tanh(a_g) \qquad h' = \mathrm{sigmoid}(a_o) \odot \tanh(\mathrm{LN}(c'))$$
#
# Two norms are **4H** wide, all four rows together; the third is H wide.
# The bias of the forget gate starts at 1 (given), so that at first most of $c$ is kept.


# %% tags=["exercise", "export", "record"] id="ex-10-3"
# Exercise 10.3 · ●●●○○ · 5 min
class LayerNormLSTMCell(nn.Module):
    """An LSTM cell with LayerNorm as in Ba et al. (2016), eqs. 20 to 22.

    weight_ih (4H, I), weight_hh (4H, H): the rows of i, f, g, o, as in nn.LSTMCell;
    I input_size, H hidden_size. norm_ih, norm_hh: LayerNorm(4H), on the two projections.
    norm_c: LayerNorm(H), before the last tanh only.
    Their biases are the cell's biases; the forget gate's starts at 1.
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
        ### BEGIN SOLUTION
        return self.norm_ih(F.linear(x, self.weight_ih))  # (..., 4H)
        ### END SOLUTION

    def step(self, part, state):
        """part: (..., 4H), from from_input. state: (h, c), each (..., H).

        Returns the new (h, c).
        """
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


# %% tags=["check"]
check.lstm_cell(LayerNormLSTMCell)

# %% [markdown]
# <details><summary>Hint</summary>
#
# One norm for all four gates at once: normalize (..., 4H), add, and only then `.chunk(4, -1)`. Return the pair (h, c) with the c that has *not* been through `norm_c`.
#
# </details>

# %%
our_lstm = LayerNormLSTMCell(4, 6)
lstm_gap = compare_with_pytorch(nn.LSTMCell(4, 6), our_lstm, [("norm", 24)], 6, 6)
print("without its norms, this is nn.LSTMCell:", lstm_gap < 1e-5)

# %% tags=["hide-input"]
assert lstm_gap < 1e-5

# %% [markdown]
# So two norms lie on what computes the gates, one on the way out, and none on what the next step gets. ([What if the carried memory is normalized](#What-is-carried), as a well-known implementation does it?)
#
# ## 10.6 Which learning rate
#
# Does the norm inside help such a cell to learn? An 8 × 8 digit becomes a sequence of 16 steps of 4 pixels, and a linear layer names the digit from the last state of a GRU of 32 units. **Equal** with and without norms: the cell's code, the order of the data, the first values of all matrices and biases, the learning rate, six epochs of plain SGD, the clipping (a longer gradient is scaled to length 1). **Not equal:** 192 gains, and the processor time for a step, here 2.6 times as long with our norm and 1.2 times with PyTorch's (medians of 40 steps).
#
# The cells are those that you wrote. (Exercise 10.2 still open? Then the next cell says "your turn"; the figure after it is recorded.)


# %% tags=["hide-input", "record"]
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
        state = (h, h) if isinstance(self.cell, LayerNormLSTMCell) else h
        for part in self.cell.from_input(x).unbind(1):  # T times (B, 3H or 4H)
            state = self.cell.step(part, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


def compete(cell, optimizer, seeds, split=0, raw=False):
    """Train the cell without norms and with them, six epochs of digits; return the histories.

    Both see the same batches and start from the same numbers. split: of the digits.
    raw: pixels from 0 to 256, not standardized.
    """
    digits = data.digits_split(split)
    x_train, x_test = digits.x_train, digits.x_test  # (1297, 8, 8), (500, 8, 8)
    if raw:
        order = torch.randperm(1797, generator=torch.Generator().manual_seed(1000 + split))
        pixels = 16 * data.digits()[0][order]  # (1797, 8, 8) in the order of the split
        x_train, x_test = pixels[:-500], pixels[-500:]
    x_train, x_test = (x.reshape(len(x), 16, 4) for x in (x_train, x_test))  # (N, T, I)
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
        every=120,
    )


# %% tags=["nbval-ignore-output"]
sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
train.table(compete(LayerNormGRUCell, sgd, seeds=range(2)), "accuracy")

# %% [markdown]
# **Predict 10.5:** at rate 0.1 the norm is far ahead. We try rates from 0.03 to 10, and give each side its *own* best one. How large is the lead then?
# - [ ] as large as at 0.1, some 25 points :: Then the plain GRU could not learn the digits at any rate. It needs a larger one, and may have it.
# - [x] less than a point :: At its best rate the plain GRU is as good. The norm helped where the rate was too small.
# - [ ] the plain GRU is five points ahead :: It catches up as the rate grows, but it does not overtake.


# %% tags=["hide-input", "record"]
def sweep(run, rates):
    """Accuracy of the GRU after six epochs of SGD, without norms and with them.

    The rate is rates[run // 16], the seed 20 + run % 16, the split run % 2.
    """
    lr = rates[run // 16]
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=lr)
    history = compete(LayerNormGRUCell, optimizer, [20 + run % 16], split=run % 2)
    return {name: curves["accuracy"][0, -1] for name, curves in history.items()}


rates = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
# A test repeats run 0, at 0.03: sums in a different order may move a few of 500 images.
found = runs.load_or_run("rnn_sweep", sweep, seeds=range(96), tolerance=1.01, rates=rates)
swept = {name: accuracy.view(6, 16).T for name, accuracy in found.items()}  # (16, 6) each

# %%
ahead = swept["LayerNorm"] - swept["none"]  # (16, 6) pair by pair
for lr, points in zip(rates, ahead.unbind(1), strict=True):
    print(f"rate {lr:5}: LayerNorm ahead by {points.mean():5.1f} points", end=", ")
    print(f"pairs {points.min():5.1f} to {points.max():5.1f}")

# %% tags=["hide-input"]
best = {name: accuracy.mean(0).argmax().item() for name, accuracy in swept.items()}
assert best == {"none": 4, "LayerNorm": 4}  # rate 3 is the best of the sweep for both
assert (ahead[:, :3] > 10).all()  # of the record
assert ahead[:, 4].mean().abs() < 1  # 0.0, standard error 0.5
assert (ahead[::2, :3].mean(0) - ahead[1::2, :3].mean(0)).abs().max() < 2  # the two splits

# %% tags=["hide-input"]
plot.lines(
    rates,
    swept,
    xlog=True,
    ylim=(0, 100),
    title="LayerNorm is ahead at small rates, and level at the best one",
    x="learning rate (SGD)",
    y="test accuracy after six epochs, %",
    caption="GRU of 32 units on digits in 16 steps, each rate run in 16 pairs on two splits; "
    f"{runs.note('rnn_sweep', '16 seeds a rate')}.",
    alt="Two curves over learning rates from 0.03 to 10. LayerNorm rises from 58 at 0.03 "
    "through 80, 91 and 93 to 94 at 3. None starts at 33, has 52 at 0.1, 76 at 0.3 and 90 at "
    "1, and meets LayerNorm at 3. At 10 both fall to 36.",
)

# %% [markdown]
# At rates up to 0.3 the norm was ahead in all 48 pairs, by 10 to 35 points. Each at its best rate of this sweep, which is 3 for both, the lead is 0.0 points on average (standard error 0.5, 16 pairs on two splits). At 10 both collapse.
# So the norm extends the range of learning rates **towards small ones**; in six epochs, at the best rate, no lead was found.
#
# ## 10.7 Clinic: the net that foresaw coin tosses
#
# Back to the patient: a tagger, which gives scores to every step of a sequence, and a linear layer after it.
#
# ```python
# self.rnn = nn.GRU(input_size, hidden_size)
# self.norm = nn.LayerNorm([steps, hidden_size])
# return self.norm(self.rnn(x)[0])  # x: (B, T, I)
# ```
#
# **Predict 10.6:** which experiment proves that the tagger looks ahead?
# - [ ] train it longer, and see whether the accuracy grows :: A net that looks ahead and one that does not may both improve. This shows nothing about the direction.
# - [x] change the last step, and see whether earlier outputs change :: In a net that does not look ahead, what comes later cannot reach what came earlier.
# - [ ] change the first step, and see whether later outputs change :: They should change. That is what a state is for.
#
# That experiment, the same with a different sample changed, and then fewer steps:

# %%
x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(108))  # (B, T, I)
tagger, future, neighbour = FoundTagger(3, 6, steps=5), x.clone(), x.clone()
future[:, 4] += 1  # only the last step of each sequence
neighbour[0] += 1  # only the first sequence
moved = lambda x_new: (tagger(x_new) - tagger(x)).abs()  # (B, T, H)
print("the last step changes earlier outputs:  ", bool(moved(future)[:, :4].max() > 1e-3))
print("a sample changes other samples' outputs:", bool(moved(neighbour)[1:].max() > 1e-3))
try:
    tagger(x[:, :3])
except RuntimeError:
    print("three steps instead of five:             an error")

# %% [markdown]
# Which of the two layers is to blame for which line? Repair both.


# %% tags=["exercise"] id="ex-10-4"
# Exercise 10.4 · ●●○○○ · 4 min
class MendedTagger(nn.Module):
    """The tagger without its three faults: MendedTagger(input_size, hidden_size).

    For any number of steps. It keeps rnn (an nn.GRU) and norm (an nn.LayerNorm, the usual eps).
    x: (B, T, I). Returns (B, T, H).
    To write: __init__ and forward.
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
# In which order does `nn.GRU` expect its axes, unless it is told? And how many gains has a norm that works for every number of steps?
#
# </details>
#
# **Predict 10.7:** the repaired tagger is trained in the same way. How many of the 128 tosses does it foresee?
# - [ ] about 88, as before :: Those came from the faults.
# - [ ] about 75: half of the lead was honest :: The tosses are independent, so the past says nothing about the next one.
# - [x] 64 :: Half of them. Without a look ahead, no net does better or worse on all 32 rows.

# %%
healed = toss_net(lambda: MendedTagger(1, 6))
print("whole rows at once:", foreseen(healed), "of 128 tosses foreseen")
print("toss by toss, later ones as 0:", foreseen(healed, as_they_fall=True), "of 128")

# %% tags=["hide-input"]
# Over all rows every past is followed by heads and tails equally often: exactly half.
assert foreseen(healed) == foreseen(healed, as_they_fall=True) == 64

# %% [markdown]
# 1. `nn.LayerNorm([steps, hidden_size])` takes one mean over all steps, so the first output knows something of the last input: how many heads are in the row. From that number alone the best guess is right in 88 of 128 cases.
# 2. `nn.GRU` reads (T, B, I) unless it is told `batch_first=True`. It treated the samples as steps, and carried the state from one to the next, which moves the 88 by a few.
# 3. The gains have one row for each step, so only one length is accepted. That is the one fault that announces itself.
#
# Repaired, it is still a norm *after* the loop, with nothing for the gradient through time.
#
# ## Take-away
#
# - The norm belongs on the **summed inputs**, inside every step, before the nonlinearities; in gated cells separately on what comes from the input and from the state. In the LSTM it is also on the way out of $c$, but not on the $c$ that is carried.
# - After the loop it changes nothing in the loop. Before training, on the sum, it slows explosion by many orders of magnitude, bounds nothing, and does not cure vanishing. On each part it takes the weight scale of $U$ out, and the gain sets the factor of each step.
# - Both cells are PyTorch's once each norm is replaced by its bias, and that of $c$ by nothing.
# - In six epochs of SGD the GRU with norms was on average 15 to 28 points ahead at rates up to 0.3, and level at the best rate of both: 16 pairs a rate, on two splits.
# - A norm over time lets the future into the past. Change a late step, and look at the early outputs.
#
# ## Deeper (optional, 20 min)
#
# ### What is carried
#
# A different implementation is found in PyTorch's own benchmarks ([custom_lstms.py](https://github.com/pytorch/pytorch/blob/main/benchmarks/fastrnns/custom_lstms.py)): it carries the *normalized* memory on, $c' = \mathrm{LN}(f c + i g)$.
#
# **Predict 10.8:** the forget gate is 1 and the input gate 0, so the memory should just be kept. One cell holds a pattern, a second one twice the pattern. What do they hold after 20 steps of the normalized variant, at gain 1 and bias 0?
# - [ ] still a pattern and twice the pattern :: Carried as it is, c keeps its size. A norm takes the size out, at every step.
# - [x] the same numbers in both :: LayerNorm is blind to a factor, so after one step nothing tells them apart, up to epsilon.
# - [ ] both have faded to zeros :: A norm sets the standard deviation to 1 each time; it does not shrink further.


# %%
def hold(c, carry_normalized, steps=20):
    """c (B, H) after steps with the forget gate at 1 and nothing put in."""
    for _ in range(steps):
        c = F.layer_norm(c, (c.shape[-1],)) if carry_normalized else c
    return c


pattern = torch.tensor([[0.0, 0.5, 1.0, -0.5]])  # (1, H)
for name, carried in {"c itself": False, "LN(c)   ": True}.items():
    show(f"{name} carried: the pattern", hold(pattern, carried)[0], digits=2)
    show(f"{name} carried: twice of it", hold(2 * pattern, carried)[0], digits=2)

# %% [markdown]
# Carried as it is, $c$ keeps its size, so an LSTM can count and add up. Carried through a norm, size and mean are gone after one step. That is a different model, not an error; but a checkpoint of the one is useless in the other, and no shape will tell you.
#
# ### Sequences of different lengths
#
# A batch of sequences is padded to the longest of them. Padding must enter neither the *state* nor the *statistics*. A loop over T steps goes on through the padding; the cure is a mask, with which a sequence that has ended keeps its state.


# %% tags=["exercise", "optional"] id="ex-10-5"
# Exercise 10.5 · ●●●○○ · 6 min
def last_states(cell, x, lengths):
    """Run a cell over padded sequences, each to its own end.

    cell: a module with hidden_size; cell(x_t, h) -> h, with x_t (B, I) and h (B, H).
    x: (B, T, I), any finite numbers after the ends. lengths: (B,) whole numbers from 1 to T.
    Returns (B, H), in x's dtype: the state of each sequence after its own last step.
    """
    ### BEGIN SOLUTION
    h = x.new_zeros(len(x), cell.hidden_size)  # (B, H)
    for t in range(x.shape[1]):
        alive = (t < lengths)[:, None]  # (B, 1)
        h = torch.where(alive, cell(x[:, t], h), h)  # (B, H)
    return h
    ### END SOLUTION


# %% tags=["check", "optional"]
check.last_states(last_states)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Step `t` (from 0) belongs to a sequence as long as `t < length`. `torch.where(mask, new, old)` chooses row by row if the mask is (B, 1).
#
# </details>
#
# PyTorch's own way is a **packed** sequence, which leaves the padding out. Both give the same states.

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(104)
packed_gru, one_cell = nn.GRU(3, 5, batch_first=True), nn.GRUCell(3, 5)
for parameter, source in zip(one_cell.parameters(), packed_gru.parameters(), strict=True):
    nn.init.normal_(source, generator=g)
    parameter.data.copy_(source)
x, lengths = torch.randn(4, 6, 3, generator=g), torch.tensor([6, 2, 5, 1])  # (B, T, I), (B,)

# %%
packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
_, at_the_end = packed_gru(packed)  # (1, B, H)
mask_gap = (last_states(one_cell, x, lengths) - at_the_end[0]).abs().max().item()
print("masked and packed agree:", mask_gap < 1e-5)  # float32
states = torch.randn(2, 5, 6, generator=g)  # (B, T, H)
padded = F.pad(states, (0, 0, 0, 4))  # (B, T + 4, H), zeros after the end
by_step = (F.layer_norm(padded, (6,))[:, :5] - F.layer_norm(states, (6,))).abs().max()
over_time = (F.layer_norm(padded, (9, 6))[:, :5] - F.layer_norm(states, (5, 6))).abs().max()
print("padding changes real steps, LayerNorm((H,)):  ", bool(by_step > 0))
print("padding changes real steps, LayerNorm((T, H)):", bool(over_time > 0.3))

# %% tags=["hide-input"]
assert mask_gap < 1e-5 and by_step == 0 and over_time > 0.3

# %% [markdown]
# LayerNorm over the features takes its statistics from one step, so padding cannot enter them.
#
# ### BatchNorm in a loop
#
# [Lesson 6](06_batchnorm.ipynb) said that the statistics of recurrent nets differ from step to step. Cooijmans et al. (2017, *Recurrent Batch Normalization*) therefore keep running statistics **for each step**, start the gains at 0.1, and use those of the last training step, $T_{\max}$, for all later ones. One difficulty needs no training to be seen: few sequences live long. Batches of 64 words from our list of 63,240:

# %%
letters = torch.tensor([len(word) for word in data.words()])  # (63240,)
order = torch.randperm(len(letters), generator=torch.Generator().manual_seed(106))[:62720]
alive = (letters[order].view(-1, 64, 1) >= torch.arange(1, 15)).sum(1)  # (980, 14)
for t in (1, 8, 12, 14):
    few = 100 * (alive[:, t - 1] < 2).float().mean()
    print(f"letter {t:2}: {alive[:, t - 1].float().mean():4.1f} words of 64", end=", ")
    print(f"fewer than two in {few:2.0f} % of the batches")

# %% [markdown]
# With one word left there is no variance, and BatchNorm raises; with three, the statistics are noise.
#
# And with training? In the *adding problem* eight numbers come in, two of them are marked, and the net must say the sum of those two. All sequences have the same length. The LSTM has 32 units, the batch 64 sequences; 200 steps of Adam at 0.005, which nobody tuned. All nets of a run start from the **same** matrices and biases, both norms are tried with the gains 1 and 0.1, and BatchNorm is tested with its running statistics and with those of the test batch (1,000 new sequences).


# %% tags=["hide-input", "record"]
class StepNorm(nn.Module):
    """BatchNorm with statistics of its own for each step; gain and bias of a given norm.

    Its owner sets t. Steps after the last one of training use that one's statistics.
    """

    def __init__(self, norm, steps):
        super().__init__()
        self.weight, self.bias, self.t = norm.weight, norm.bias, 0
        one = lambda: nn.BatchNorm1d(len(norm.bias), affine=False)
        self.stats = nn.ModuleList(one() for _ in range(steps))

    def forward(self, x):
        stats = self.stats[min(self.t, len(self.stats) - 1)]  # the rule of Cooijmans et al.
        return stats(x) * self.weight + self.bias  # (B, C)


class StepReader(Reader):
    """A Reader whose LSTM cell has a StepNorm in place of each LayerNorm."""

    def __init__(self, cell, outputs, steps):
        super().__init__(cell, outputs)
        for name, norm in list(cell.named_children()):
            setattr(cell, name, StepNorm(norm, steps))

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.cell.hidden_size)  # (B, H)
        for t, x_t in enumerate(x.unbind(1)):
            for norm in self.cell.children():
                norm.t = t
            h, c = self.cell(x_t, (h, c))
        return self.head(h)


# %% tags=["hide-input", "record"]
def adding(generator, B=64, T=8):
    """x (B, T, 2): numbers, and marks, one in each half. y (B, 1): the marked numbers' sum."""
    numbers, marks = torch.rand(B, T, generator=generator), torch.zeros(B, T)
    for half in (0, T // 2):
        marks[torch.arange(B), half + torch.randint(T // 2, (B,), generator=generator)] = 1
    return torch.stack([numbers, marks], -1), (numbers * marks).sum(-1, keepdim=True)


def adding_errors(run, settings, lengths):
    """1000 x the squared error on 1000 new sequences of each length, after 200 steps of Adam.

    run: settings[run // 16] is a norm and the gain it starts with; the seed is run % 16.
    Returns for each length the error in eval mode, and with the 1000 sequences' statistics.
    """
    (norm, gain), seed = settings[run // 16], run % 16

    def make():
        cell = LayerNormLSTMCell(2, 32)
        for each in cell.children():
            nn.init.constant_(each.weight, gain)
        if norm == "BatchNorm":
            return StepReader(cell, 1, steps=8)
        return Reader(cell if norm == "LayerNorm" else without_norms(cell), 1)

    tests = [adding(torch.Generator().manual_seed(2_000_000 + seed), 1000, T) for T in lengths]
    kept = {}
    train.compare(
        {norm: make},
        seeds=[seed],
        batches=adding,
        steps=200,
        clip=1.0,
        loss=F.mse_loss,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=5e-3),
        keep=kept,
    )
    model = kept[norm][0].requires_grad_(False)
    running, own = (
        [1000 * F.mse_loss(model.train(training)(x), y) for x, y in tests]
        for training in (False, True)  # in this order: training mode moves the buffers
    )
    return {f"length {T}": pair for T, *pair in zip(lengths, running, own, strict=True)}


settings = [
    ["BatchNorm", 0.1],
    ["LayerNorm", 0.1],
    ["none", 1.0],
    ["BatchNorm", 1.0],
    ["LayerNorm", 1.0],
]
# A test repeats run 0. Three instruction sets gave it within 2e-4 of one another; allowed is
# about half the distance between two seeds, because errors jump from step to step.
found = runs.load_or_run(
    "rnn_adding",
    adding_errors,
    seeds=range(80),
    tolerance={"length 8": 1.0, "length 12": 20.0, "length 16": 80.0},
    settings=settings,
    lengths=[8, 12, 16],
)
errors = torch.stack(list(found.values()), 1).view(5, 16, 3, 2)  # (setting, run, length, way)

# %%
print("1000 x squared error at 8, 12 and 16 numbers, geometric means over 16 runs")
for (norm, gain), row in zip(settings, errors.log().mean(1).exp(), strict=True):  # (3, 2)
    show(f"{norm:9} gain {gain}            ", row[:, 0], digits=1)
    if norm == "BatchNorm":
        show("          with batch statistics", row[:, 1], digits=1)

# %% tags=["hide-input"]
# All of the record. Pairs at length 8: LayerNorm (gain 1) against BatchNorm (gain 0.1).
better, worse = errors[4, :, 0, 0], errors[0, :, 0]  # (16,), (16, 2)
assert (better < worse[:, 0]).sum() == 16 and (better < worse[:, 1]).sum() == 14
rule, own, layer, plain = (
    errors[0, :, 2, 0],
    errors[0, :, 2, 1],
    errors[4, :, 2, 0],
    errors[2, :, 2, 0],
)
assert (rule > own).all() and (rule < layer).sum() == 15 and (layer > plain).sum() == 9

# %% tags=["hide-input"]
plot.lines(
    [8, 12, 16],
    {
        "none": errors[2, :, :, 0].log10(),
        "LayerNorm, gain 1": errors[4, :, :, 0].log10(),
        "BatchNorm, gain 0.1": errors[0, :, :, 0].log10(),
        "the same, batch statistics": errors[0, :, :, 1].log10(),
    },
    colors={
        "LayerNorm, gain 1": "LayerNorm",
        "BatchNorm, gain 0.1": "BatchNorm",
        "the same, batch statistics": "#C98A5E",
    },
    title="LayerNorm leads at 8 numbers, BatchNorm at 12 and 16",
    x="numbers in a sequence (8 in training)",
    y="log10 of 1000 × squared error",
    caption="Adding problem, each norm at the gain that is better at 8 numbers, 16 paired "
    "runs. After step 8 BatchNorm uses the statistics of step 8; "
    f"{runs.note('rnn_adding', '16 runs each')}.",
    alt="Four rising lines over sequences of 8, 12 and 16 numbers, in powers of ten. At 8: "
    "none 1.3, BatchNorm 0.4, with batch statistics 0.3, LayerNorm 0.0. At 16: LayerNorm and "
    "none about 2.5, BatchNorm 1.8, with batch statistics 1.3.",
)

# %% [markdown]
# In these 16 runs, on one task at one learning rate:
# - At the length of training, each norm at its better gain, LayerNorm's error is smaller in all 16 pairs, by a factor of 2.4 in the geometric mean (1.04 to 13). With the statistics of the test batch BatchNorm's is still 1.8 times as large (14 of 16 pairs), so the running statistics explain a part of it.
# - At this length the **gain** matters as much as the kind of norm: LayerNorm at 0.1 makes 3.4 times its error at 1, and BatchNorm at 1 makes 2.5 times its error at 0.1.
# - On longer sequences, which nothing was trained on, Cooijmans' rule works: BatchNorm's error is smaller than LayerNorm's in 15 of 16 pairs at 16 numbers. Statistics of each step's own batch would be better still, by a factor of 3. LayerNorm is no better there than no norm (9 of 16 pairs are worse).
#
# ## On your own
#
# 1. Measure [section 10.3](#10.3-The-gradient-through-time) for 300 steps, and for the GRU cell instead of the tanh net. Does the bias of $z$ matter more than the norm?
# 2. At $h_0 = 0$ the row $U h_0$ is constant. What is the gradient of $\mathrm{LN}(U h_0)$ in $h_0$ there, and what follows for a learned first state? ([Lesson 3](03_epsilon.ipynb).)
# 3. `compete(LayerNormLSTMCell, lambda p: torch.optim.Adam(p, lr=3e-3), range(4), raw=True)` trains on pixels from 0 to 256. Which side suffers, and why does LN(W x) help the other one? Would dividing the pixels by 100 do?
# 4. Write `LayerNormLSTMCell` with the normalized memory carried on, and train both on the adding problem with 8 and with 16 numbers.
# 5. Papers often write $h' = (1-z) \odot h + z \odot n$, with $z$ and $1-z$ exchanged, as the LayerNorm paper does. Which signs of which parameters turn one form into the other? ($1 - \mathrm{sigmoid}(a) = \mathrm{sigmoid}(-a)$.)
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*: eq. 4 (the summed input of an RNN), eqs. 20 to 22 (LSTM), and the GRU in the same supplement.
# - Cooijmans et al. (2017), *Recurrent Batch Normalization*: statistics for each step, gain 0.1.
# - Cho et al. (2014), *Learning Phrase Representations using RNN Encoder-Decoder*: the GRU. Hochreiter & Schmidhuber (1997), *Long Short-Term Memory*.
# - Pascanu, Mikolov & Bengio (2013), *On the difficulty of training recurrent neural networks*: exploding and vanishing gradients, clipping.
# - PyTorch: the formulas in the documentation of `nn.GRUCell` and `nn.LSTMCell`.

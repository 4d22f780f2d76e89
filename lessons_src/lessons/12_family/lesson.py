# %% [markdown]
# # 12 · The family: one formula, two questions, many names
#
# Attention multiplies each query with each key ([lesson 11](11_transformer.ipynb)). If both grow during training, their products grow faster, so many models normalize both first. The two lines with `LayerNorm` are those of a published library ([zeta](https://github.com/kyegomez/zeta), `qkv_norm.py`).

# %% tags=["hide-input"]
# Imports.
import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode  # lesson 11

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, evidence, explore, plot, show
from lessonkit.mine import RMSNorm, layer_norm  # lessons 8 and 4


# %%
def patient_logits(q, k):
    """Attention scores of normalized q and k, (B, heads, T, d) each -> (B, heads, T, T)."""
    q = nn.LayerNorm(q.size())(q)
    k = nn.LayerNorm(k.size())(k)
    return q @ k.mT / q.shape[-1] ** 0.5


# %% tags=["hide-input"]
# Changes the other sentence, then the last word.
q, k = torch.randn(
    2, 2, 3, 5, 8, generator=torch.Generator().manual_seed(132)
)  # (B, heads, T, d)
before = patient_logits(q, k)[0, :, :4, :4]  # sentence 0, words 0 to 3
neighbor, future = q.clone(), q.clone()
neighbor[1], future[0, :, 4] = 100.0, 100.0
for name, other in {"the other sentence": neighbor, "the last word": future}.items():
    moved = (patient_logits(other, k)[0, :, :4, :4] - before).abs().max()
    print(f"{name} changes, and the first words notice: {bool(moved > 0.1)}")

# %% [markdown]
# There is no error, but what one user gets depends on what a different user wrote, and a model that should predict the next word already sees it. [Section 12.7](#12.7-Clinic:-a-norm-for-the-whole-tensor) heals the function. First you learn to read any norm, as a normalization layer is called for short.
#
# *About 58 min, in two sittings of 28 and 30.* **You'll be able to**
# - say of any norm what it sees and what it forgets;
# - take LayerNorm out of a trained Transformer without changing what it computes;
# - read the equations of a new paper, and build them;
# - heal a norm that leaks.
#
# **You need** lessons [6](06_batchnorm.ipynb) (the axes of four norms), [8](08_geometry.ipynb) (RMSNorm) and [11](11_transformer.ipynb) (Pre-LN, attention, `CharGPT`).

# %% [markdown]
# ## 12.1 Two questions
#
# How can one keep all these names apart? Ask a norm two questions: **over which axes** does it take its mean, and **is the mean subtracted**? Play with the first. The block holds 2 sentences of 3 words with 4 features each.

# %%
explore.block()

# %% [markdown]
# **Find out:** click word 1 of sentence 1, and try the five norms. In which of them does word 3 share its statistics with word 1?
#
# <details><summary>What there is to find</summary>
#
# In GroupNorm, InstanceNorm and BatchNorm.
#
# </details>
#
# **A number sees those that share its statistics, and no others.**
#
# <details><summary>When this holds</summary>
#
# For a norm in training. In eval mode BatchNorm uses stored statistics, and each number sees itself alone.
#
# </details>
#
# With both questions each of the five is one line. (There is no $\epsilon$, gain or bias here.)

# %% tags=["hide-input"]
# Computes the five with PyTorch's own functions.
g = torch.Generator().manual_seed(121)
x = 1 + 2 * torch.randn(2, 3, 4, dtype=torch.float64, generator=g)  # (B, T, C)
theirs = {
    "LayerNorm": F.layer_norm(x, (4,), eps=1e-12),
    "RMSNorm": F.rms_norm(x, (4,), eps=1e-12),
    "GroupNorm": F.group_norm(x.mT, 1, eps=1e-12).mT,
    "InstanceNorm": F.instance_norm(x.mT, eps=1e-12).mT,
    "BatchNorm": F.batch_norm(x.mT, None, None, training=True, eps=1e-12).mT,
}


# %%
def norm(x, axes, center=True):
    """Normalize x over the given axes; center=False leaves the mean where it is."""
    c = x - x.mean(axes, keepdim=True) if center else x
    return c / c.square().mean(axes, keepdim=True).sqrt()


family = {  # of x (B, T, C): sentences, words, features
    "LayerNorm": lambda x: norm(x, 2),
    "RMSNorm": lambda x: norm(x, 2, center=False),
    "GroupNorm": lambda x: norm(x, (1, 2)),  # with one group
    "InstanceNorm": lambda x: norm(x, 1),
    "BatchNorm": lambda x: norm(x, (0, 1)),  # in training
}
agree = [torch.allclose(f(x), theirs[name]) for name, f in family.items()]
print("agree with PyTorch's own:", sum(agree), "of", len(agree))

# %% [markdown]
# ## 12.2 What a norm forgets
#
# The row 9, 1, 3, 3 has the mean 4, the standard deviation 3 and the root mean square 5. Add 2 to it, or double it. What is left of that in the output?

# %%
row = torch.tensor([9.0, 1.0, 3.0, 3.0])  # (D,) = (4,)
for name, center in {"LayerNorm": True, "RMSNorm  ": False}.items():
    for what, changed in {"as it was": row, "plus 2   ": row + 2, "doubled  ": 2 * row}.items():
        show(f"{name} of the row {what}", norm(changed, -1, center), digits=2)

# %% [markdown]
# LayerNorm notices neither, RMSNorm notices the 2.
#
# **A norm forgets what it subtracts, and the size that it divides by.**
#
# <details><summary>When this holds</summary>
#
# On paper, at $\epsilon = 0$, before gain and bias: a number added to all that share a mean disappears with that mean, and a positive factor on all that share a size disappears with that size.
#
# </details>
#
# Take a pencil: which norm forgets what, when there are several words and sentences? The two rules in bold decide every case.

# %% tags=["exercise"] id="ex-12-1"
# Exercise 12.1 · ●●○○○ · 3 min
# x holds sentences of words with features, (B, T, C), and the norms are as above. Six changes:
# a  a number is added to all features of a word, its own for each word
# b  each word is multiplied by a positive number of its own
# c  each sentence is multiplied by a positive number of its own
# d  a number is added to a feature, the same in all words and sentences
# e  the other sentences are replaced (look at the sentence that stays)
# f  the last word of each sentence is replaced (look at the words before it)
# Which of them leave the output of each norm as it was? Type their letters.
# Example: two are done. LayerNorm sees only d, which differs from feature to feature.
# Copy these three lines and fill in the empty quotes:
# forgets = dict(
#     LayerNorm="abcef", InstanceNorm="cde", RMSNorm="", GroupNorm="", BatchNorm=""
# )
### BEGIN SOLUTION
forgets = dict(
    LayerNorm="abcef", InstanceNorm="cde", RMSNorm="bcef", GroupNorm="ce", BatchNorm="d"
)
### END SOLUTION

# %% tags=["check"]
check.forgets(forgets)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Ask for each norm: which numbers share one mean, and one size? A change is forgotten if it is the same for all of these. For e and f ask whether what is replaced is among them.
#
# </details>
#
# The five functions answer as well:

# %% tags=["hide-input"]
# Draws what each norm forgets, and what leaks.
draw = lambda *shape: 0.5 + torch.rand(shape, dtype=torch.float64, generator=g)  # 0.5 to 1.5
changes = [x + draw(2, 3, 1), x * draw(2, 3, 1), x * draw(2, 1, 1), x + draw(4)]  # a to d
changes += [torch.cat([x[:1], draw(1, 3, 4)]), torch.cat([x[:, :2], draw(2, 1, 4)], dim=1)]
table = {}
for name, f in family.items():
    gaps = [(f(other) - f(x))[0, :2].abs().max() for other in changes]
    table[name] = [letter for letter, gap in zip("abcdef", gaps, strict=True) if gap < 1e-9]
WORDS = {
    "a": "a · added\nto a word",
    "b": "b · times\na word",
    "c": "c · times\na sentence",
    "d": "d · added\nto a feature",
    "e": "e · other\nsentences",
    "f": "f · the\nlast word",
}


def forgotten(ax):
    font = {"ha": "center", "va": "center", "fontsize": 12}
    for down, (name, letters) in enumerate(table.items()):
        ax.text(-0.6, -down, name, ha="right", va="center", fontsize=13, color="#2B2F33")
        for across, letter in enumerate(WORDS):
            stays, leak = letter in letters, letter in "ef" and letter not in letters
            color = "#5F6B73" if stays else plot.DANGER if leak else "#ECEEF0"
            ax.barh(-down, 0.94, 0.84, left=across - 0.47, color=color)
            text = "forgets" if stays else "leaks" if leak else "sees"
            ax.text(across, -down, text, color="white" if stays or leak else "#2B2F33", **font)
    for across, words in enumerate(WORDS.values()):
        ax.text(across, 0.9, words, color="#2B2F33", linespacing=1.2, **font)
    ax.set(xlim=(-2.3, 5.6), ylim=(-4.6, 1.35))
    ax.set_axis_off()


plot.figure(
    forgotten,
    size=(8.6, 3.5),
    title="LayerNorm and RMSNorm take one word at a time, so nothing leaks",
    caption="Five norms of (B, T, C), and six changes. Red: the output notices another "
    "sentence or a later word. ε = 0, before gain and bias; GroupNorm with one group, "
    "BatchNorm in training.",
    alt="A table of five norms and six changes. LayerNorm forgets a, b, c, e and f; RMSNorm b, "
    "c, e and f; GroupNorm c and e; InstanceNorm c, d and e; BatchNorm d. The last word leaks "
    "in GroupNorm, InstanceNorm and BatchNorm, the other sentence in BatchNorm.",
)

# %% [markdown]
# ## 12.3 A Transformer without means, exactly
#
# Llama has RMSNorm where GPT-2 has LayerNorm. Has it given up anything that could be computed?
#
# In a Pre-LN net every layer reads the residual stream through a LayerNorm, which subtracts the mean of each row. So nothing changes if the rows have no mean in the first place, and on a row of mean 0 the two norms are the same.
#
# The last linear layer of each branch adds to the stream. Here is such a layer, and what it adds for one $h$:

# %%
W = torch.tensor([[5.0, 3.0], [1.0, 0.0], [4.0, 1.0], [2.0, 0.0]])  # (D, 2) = (4, 2)
b = torch.tensor([-2.0, 0.0, -3.0, 1.0])  # (D,)
h = torch.tensor([1.0, 2.0])  # (2,)
print("W h + b =", (W @ h + b).tolist())

# %% [markdown]
# It is our row, and its mean is 4. Find $W'$ and $b'$ that give the same row minus its mean, **for every** $h$.

# %% tags=["exercise"] id="ex-12-2"
# Exercise 12.2 · ●●○○○ · 3 min
# Type the new layer, its matrix row by row. Example: W and b themselves would be typed as
# centered_layer = dict(weight=[[5, 3], [1, 0], [4, 1], [2, 0]], bias=[-2, 0, -3, 1])
# For h = (1, 2) yours must give 5, -3, -1, -1.
### BEGIN SOLUTION
centered_layer = dict(weight=[[2, 2], [-2, -1], [1, 0], [-1, -1]], bias=[-1, 1, -2, 2])
### END SOLUTION

# %% tags=["check"]
check.centered_layer(centered_layer)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Write W h + b as h1 times a column, plus h2 times a column, plus b. What is the mean of each of the three? The first column is 5, 1, 4, 2, with the mean 3. If it loses that mean, h1 times the column has the mean 0, whatever h1 is.
#
# </details>
#
# RMSNorm after your layer does what LayerNorm did after the old one, for any $h$:

# %% tags=["hide-input"]
# Runs each norm after its layer.
W2, b2 = (torch.tensor(centered_layer[name]).float() for name in ("weight", "bias"))
for h in (torch.tensor([1.0, 2.0]), torch.tensor([-3.0, 0.5])):  # (2,)
    show("LayerNorm after the old layer", norm(W @ h + b, -1), digits=2)
    show("RMSNorm after your layer     ", norm(W2 @ h + b2, -1, center=False), digits=2)

# %% [markdown]
# **Each column of W loses its mean, and so does b.** In PyTorch that is `weight - weight.mean(0)`. Do it to everything that adds to the stream of lesson 11's `CharGPT`. (Its embeddings add whole rows, so each row loses its mean.) RMSNorm has no bias: that of LayerNorm moves into the linear layer behind it, which is what `without_bias` does in the folded cell.


# %% tags=["hide-input"]
# Moves a LayerNorm's bias to the layer after it.
def without_bias(old, behind):
    """Return the RMSNorm with old's gain; behind, the layer after it, gets old's bias."""
    behind.bias += behind.weight @ old.bias
    rms = RMSNorm(old.normalized_shape, eps=old.eps)
    rms.weight = old.weight
    return rms


# %%
@torch.no_grad()
def to_rms(net):
    """Return a copy of a Pre-LN CharGPT with RMSNorm in the place of each LayerNorm."""
    net = copy.deepcopy(net)
    for table in (net.embed, net.position):
        table.weight -= table.weight.mean(-1, keepdim=True)  # (symbols, C), (context, C)
    for block in net.blocks:
        for last in (block.attend.out, block.mlp[2]):  # of each branch
            last.weight -= last.weight.mean(0)  # (C, inputs)
            last.bias -= last.bias.mean()
        block.before1 = without_bias(block.before1, block.attend.qkv)
        block.before2 = without_bias(block.before2, block.mlp[0])
    net.final = without_bias(net.final, net.head)
    return net


# %% tags=["hide-input"]
# Makes a GPT, and words to read.
net = CharGPT(layers=3, norm=nn.LayerNorm).double()
g = torch.Generator().manual_seed(133)
for parameter in net.parameters():
    nn.init.normal_(parameter, std=0.5, generator=g)  # biases too: zeros would hide mistakes
tokens = torch.randint(27, (8, 16), generator=g)  # (B, T)

# %%
logits, converted = net(tokens), to_rms(net)  # (B, T, symbols)
left = sum(isinstance(module, nn.LayerNorm) for module in converted.modules())
gap = (converted(tokens) - logits).abs().max() / logits.abs().max()
print("LayerNorms left:", left, "  the same logits to 12 digits:", bool(gap < 1e-12))

# %% [markdown]
# **A trained Pre-LN Transformer can be turned into one with RMSNorm that computes the same.**
#
# <details><summary>When this holds, and where the bias goes</summary>
#
# Every layer that reads the stream is linear and stands after a norm (so there is a final norm), every layer that adds to it is linear, $\epsilon$ stays, and dropout is off. If the output layer shares its weights with the embedding, make two copies first. LayerNorm's bias $\beta$ moves into the bias of the linear layer after it (which gets one if it has none): $W(\gamma\odot\hat x + \beta) + c = W(\gamma\odot\hat x) + (W\beta + c)$. The theorem is that of Jiang et al. (2023).
#
# The function is the same, its training is not: from {without_means.converted:max} apart, the logits of a trained net and its copy came to {without_means.trained:range} in 20 more steps of Adam on the same batches. In these nets the mean typically carried {without_means.share:median} of the power of what the norms read (3.1 %, or $1/D$, for independent numbers), so in them there was little to subtract. {without_means:again}
#
# </details>
#
# ## What you have now
#
# - **A number sees those that share its statistics, and no others.**
# - **A norm forgets what it subtracts, and the size that it divides by.**
# - A layer whose columns and bias have mean 0 gives rows of mean 0, and there RMSNorm is LayerNorm.
#
# **You can stop here:** close the notebook. Write down from memory what LayerNorm, RMSNorm and BatchNorm see and forget. Then take the mean out of the layer with one input, $W = (1, 4, 1)$ and $b = (0, 3, 3)$.
#
# <details><summary>Is it right?</summary>
#
# $W' = (-1, 2, -1)$ and $b' = (-2, 1, 1)$.
#
# </details>
#
# *Sitting two:* you build a replacement for norms that takes no statistics, train it, read what the models of 2026 do, and heal the patient.
#
# ## 12.4 No statistics at all

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import functools

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode  # lesson 11
from lessonkit import check, data, evidence, plot
from lessonkit.mine import layer_norm  # lesson 4

# %% [markdown]
# **Recall 12.1:** why does a Pre-LN Transformer have one more norm, after its last block?
# - [ ] to bring the logits to a fixed size :: The output layer comes after that norm, and its weights may be of any size.
# - [x] because the stream itself has not been normalized :: The norms are on the branches, so the output layer would read the raw sum of all branches.
# - [ ] because the last block has none of its own :: It has two, as every block has.
#
# Can a function without statistics replace a norm? Zhu et al. ([DyT](https://arxiv.org/abs/2503.10622), 2025) saw that in trained nets the outputs of many a LayerNorm, drawn over its inputs, looked like a tanh, so they put a tanh in its place. Chen et al. ([Derf](https://arxiv.org/abs/2512.10938), 2025) take erf, the error function, an S as well. ([Deeper](#Why-an-S) draws where the S comes from.)
#
# $$\operatorname{DyT}(x) = \gamma\odot\tanh(\alpha x)+\beta \qquad \operatorname{Derf}(x) = \gamma\odot\operatorname{erf}(\alpha x + s)+\beta$$
#
# $\alpha$ and $s$ are learned as $\gamma$ and $\beta$ are, but one number each for a layer. In the authors' code for pictures they start at 0.5 and 0.
#
# **Predict 12.1:** put Derf into the table of [section 12.2](#12.2-What-a-norm-forgets). Which letters does it get?
# - [ ] "abcef", as LayerNorm :: It has LayerNorm's place in the net. But it subtracts nothing, and divides by no size of its row.
# - [ ] "bcef", as RMSNorm :: A word that is ten times as large gives a different erf: nothing is divided by its size.
# - [x] "ef" :: Each output is made of its own number alone. So it forgets nothing that happens to that number, and sees no others.


# %% [markdown]
# Both papers choose an S and a start for $\alpha$. Build a layer in which you can choose both: any curve through 0, and the slope that the new layer has there.


# %% tags=["exercise"] id="ex-12-3"
# Exercise 12.3 · ●●●○○ · 4 min
class PointWise(nn.Module):
    """gain * curve(alpha x + shift) + bias, for a norm: PointWise(width, curve, slope).

    Example: a new PointWise(4, torch.erf, 0.5) makes of 0.01 about 0.005, as with torch.tanh.
    curve: a function of tensors, with curve(0) = 0. slope: of the new layer at 0.
    Parameters: alpha and shift, one number each (no axes), shift starts at 0; weight and bias
    (width,), which start at ones and zeros. x: (..., width) -> the same shape.
    """

    ### BEGIN SOLUTION
    def __init__(self, width, curve, slope):
        super().__init__()
        zero = torch.tensor(0.0, requires_grad=True)
        own = torch.autograd.grad(curve(zero), zero)[0]
        self.curve, self.alpha = curve, nn.Parameter(slope / own)
        self.shift = nn.Parameter(torch.tensor(0.0))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.weight * self.curve(self.alpha * x + self.shift) + self.bias

    ### END SOLUTION


# %% tags=["check"]
check.pointwise(PointWise)

# %% [markdown]
# <details><summary>Hint</summary>
#
# By the chain rule the new layer's slope at 0 is alpha times the curve's own: 1 for tanh, and not for every curve. Autograd knows the curve's, at a `torch.tensor(0.0, requires_grad=True)`; so does a small number. `torch.tensor(0.5)` is one number without axes, and `super().__init__()` comes first.
#
# </details>
#
# Does it train? The folded cell puts it into lesson 11's GPT, which learns to spell, and says how far it is behind LayerNorm after 100 steps, with the same first weights and batches.
#
# **Find out:** which lever moves that most: the curve, the slope at the start (0.25 to 1), or the rate (0.003 to 0.01)? Write your guess down, then pull one at a time, each at two runs. An S of your own is welcome.


# %% tags=["export", "hide-input"]
# Trains a GPT on words, and measures its loss.
def train_gpt(norm, rate, run=0, steps=200):
    """Train a GPT of 6 blocks; return its loss on 2,000 unseen words (nats)."""
    words, split = data.words(), torch.Generator().manual_seed(7 + run % 2)
    order = torch.randperm(len(words), generator=split)
    torch.manual_seed(run)
    net = CharGPT(layers=6, norm=norm)
    optimizer = torch.optim.Adam(net.parameters(), rate, betas=(0.9, 0.98))
    for step in range(steps + 1):
        unseen = step == steps
        chosen = order[-2000:] if unseen else order[torch.randint(len(words) - 2000, (32,))]
        x, y = encode([words[i] for i in chosen])  # (B, T) each
        with torch.set_grad_enabled(not unseen):
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if not unseen:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


# %% tags=["hide-input"]
# lag: trains with your layer, and with LayerNorm.
torch.optim.SGD([torch.zeros(1)])  # the first optimizer loads for seconds, while you read


@functools.cache
def reached(curve, slope, rate, run):
    norm = nn.LayerNorm if curve is None else lambda width: PointWise(width, curve, slope)
    return train_gpt(norm, rate, run, steps=100)


def lag(curve, slope, rate=0.006, run=0):
    """Loss with your layer minus loss with LayerNorm, at one rate (nats)."""
    return reached(curve, slope, rate, run) - reached(None, 0, rate, run)


# %% tags=["nbval-ignore-output"]
print(f"{lag(torch.tanh, slope=1.0):+.3f} nats")  # yours: torch.erf, slope, rate, run

# %% [markdown]
# <details><summary>What there is to find</summary>
#
# The slope, upwards. So far behind LayerNorm at the rate 0.006: with slope 1, tanh {gpt_slopes[tanh, 1.0].lag:range} and erf {gpt_slopes[erf, 1.0].lag:range}; with 0.5, {gpt_slopes[tanh, 0.5].lag:range} and {gpt_slopes[erf, 0.5].lag:range}; with 0.25, {gpt_slopes[tanh, 0.25].lag:range} and {gpt_slopes[erf, 0.25].lag:range}. Once their slopes agree, the two curves do as well as each other. Yours may lie beside these ranges: a last digit of $\alpha$ is enough to move one run by some hundredths. {gpt_slopes:again}
#
# </details>
#
# Your choice was made on these words. Does it hold on the other split?

# %% tags=["nbval-ignore-output"]
mine = dict(curve=torch.tanh, slope=0.5, rate=0.006)  # put your best here
print(f"{lag(**mine, run=1):+.3f} nats, on other words and from other first weights")

# %% [markdown]
# One run says little. Here are eight of each, twice as long, with the start 0.5 of both papers, at several rates:

# %% tags=["hide-input"]
# Draws who leads, and who does at which rate.
RATES, NORMS = [0.003, 0.006, 0.01, 0.02], ["Derf", "DyT", "RMSNorm", "LayerNorm"]
losses = evidence.load("gpt_rates")["unseen"].permute(2, 0, 1)  # (run, norm, rate)
gaps = {name: losses[:, i] - losses[:, 3] for i, name in enumerate(NORMS[:2])}
ends = {name: " to ".join(f"{gap:.3f}" for gap in some.mean(0)) for name, some in gaps.items()}
plot.lines(
    [str(rate) for rate in RATES],
    gaps,
    href={"LayerNorm": 0.0},
    colors={"Derf": "softmax"},
    size=(7.2, 3.0),
    title="How far DyT and Derf lag depends on the rate",
    x="learning rate of Adam",
    y="loss minus LayerNorm's (nats)",
    caption="Loss on unseen words, minus that of LayerNorm with the same first weights and "
    f"batches; even runs on one split, odd ones on another; {evidence.note('gpt_rates')}.",
    alt=f"Two lines over the rates {RATES}; zero is LayerNorm. The means: "
    + "; ".join(f"{name} {values}" for name, values in ends.items()),
)

# %% [markdown]
# At one rate DyT looks worse than LayerNorm, and at another better. So let each take its own best rate:

# %% tags=["hide-input"]
# Compares each at its best rate.
best = losses.mean(0).argmin(1)  # (norm,)
own = losses[:, range(4), best]  # (run, norm)
for i, name in enumerate(NORMS):
    lags = own[:, i] - own[:, 3]
    print(f"{name:9} at {RATES[best[i]]:5}: {own[:, i].mean():.3f}", end="")
    lag_of = lags.mean().round(decimals=3) + 0.0  # no -0
    print(f", behind in {(lags > 0).sum()} of {len(lags)}, by {lag_of:.3f} nats" * (i < 3))

# %% [markdown]
# **Compare norms each at its best: its own rate, and whatever else it asks you to set.**
#
# <details><summary>What these runs showed</summary>
#
# The rates were chosen on the words that are reported, for all four alike. LayerNorm is best at 0.006, so above it part of a lag is gone because LayerNorm got worse. That is one small net, 200 steps and one start of $\alpha$. erf is steeper than tanh by $2/\sqrt\pi$, so at the same start Derf is not DyT with another S. {gpt_rates:again} In a preprint of 2026 ([2604.23434](https://arxiv.org/abs/2604.23434)) DyT's loss is 27 % below LayerNorm's for a GPT-2 of 64 million parameters on 1 million tokens, and 19 % above it on 118 million.
#
# </details>
#
# ## 12.5 Norms inside attention
#
# Nothing bounds an attention score $q\cdot k/\sqrt d$, and at large scores the softmax puts nearly all weight on one key, so that its gradient vanishes ([lesson 5](05_softmax.ipynb#How-many-directions)). A Vision Transformer of 8 billion parameters diverged that way (Dehghani et al., 2023).
#
# With the row 9, 1, 3, 3 as query and as key, $d = 4$, the score is $100/2 = 50$, and if both are three times as large, 450. **QK-norm** normalizes each query and each key first. Take a pencil: what are the two scores after RMSNorm?
#
# <details><summary>To compare</summary>
#
# RMSNorm makes 9/5, 1/5, 3/5, 3/5 of either row, so both scores are $(100/25)/2 = 2$.
#
# </details>
#
# No key does better than an equal one, because both rows have the length $\sqrt d$.
#
# **QK-norm without gains bounds every score by √d.**
#
# <details><summary>When this holds</summary>
#
# With LayerNorm or RMSNorm over the $d$ numbers of a head, and no bias. With gains the bound is $\sqrt d\,\max_i|\gamma^q_i\gamma^k_i|$. A norm over all heads at once bounds by $\sqrt d$ times their number, because one head can hold all of the length. QK-norm has a price: a longer query can no longer attend more sharply than a shorter one.
#
# </details>
#
# <details><summary>Scores that really grow, and three ways to hold them</summary>
#
# In a GPT of two blocks, trained at the high rate 0.02, the largest score was {growing_scores[plain, *].start:range} before training and {growing_scores[plain, *].largest:range} after 100 steps. QK-norm held it at {growing_scores[QK-norm, *].largest:max} (heads of 8 numbers: √8 is 2.83), soft-capping by 5 at {growing_scores[softcap, *].largest:max}. QK-clip ([Kimi K2](https://arxiv.org/abs/2507.20534)) shrinks the weights of q and k after each step in which a score passes 5: {growing_scores[QK-clip, *].largest:range}. The mean losses were {growing_scores[plain, *].unseen:mean} without a bound, and {growing_scores[QK-norm, *].unseen:mean}, {growing_scores[softcap, *].unseen:mean} and {growing_scores[QK-clip, *].unseen:mean} with one: so far, growth did no harm here. {growing_scores:again}
#
# </details>
#
# ## 12.6 A map of 2026
#
# What will you meet in a model's code today?
#
# | name | in one line | for example |
# |---|---|---|
# | gated RMSNorm | `norm(x) * silu(gate)`, the gate computed from the input | [Qwen3-Next](https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen3_next/modeling_qwen3_next.py) |
# | AdaLN | gain and bias are functions of a condition, such as the class of a picture | [DiT](https://arxiv.org/abs/2212.09748) |
# | QK-norm | on each head, or over all heads at once | [Gemma 3](https://arxiv.org/abs/2503.19786); [OLMo 2](https://arxiv.org/abs/2501.00656) |
# | gain of 1 + w | `x_hat * (1 + w)`, where $w$ starts at 0, so that weight decay pulls the gain to 1; the [card](https://huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct) of Qwen3-Next calls that a "zero-centered" norm, and no mean of a row is subtracted | Qwen3-Next; [Gemma 3](https://github.com/huggingface/transformers/blob/main/src/transformers/models/gemma3/modeling_gemma3.py) |
#
# And which should you take? Cover the other columns, and choose before you look.
#
# | you have | take | because |
# |---|---|---|
# | a trained checkpoint | its own norm, $\epsilon$ and form of the gain | any other is a different function |
# | a new Transformer | RMSNorm on the branch (Pre-LN) | there the first weights matter little ([lesson 11](11_transformer.ipynb#11.7-A-factor-for-each-branch)); it takes one sum less, and larger studies found it no worse than LayerNorm ([Zhang & Sennrich](https://arxiv.org/abs/1910.07467), 2019; [Narang et al.](https://arxiv.org/abs/2102.11972), 2021) |
# | scores that grow | QK-norm | at gain 1 it bounds them by √d |
# | pictures, in batches of two | GroupNorm | 10.6 points less error than BatchNorm (Wu & He, 2018) |
# | a ban on sums over a row | DyT or Derf | they train, if the slope at the start fits |
#
# ## 12.7 Clinic: a norm for the whole tensor
#
# Back to the patient: `nn.LayerNorm(q.size())(q)`, where `q` has the shape (B, heads, T, d) = (2, 3, 5, 8). One mean is taken over all 240 numbers, which explains both leaks ([section 9.7](09_cnn.ipynb#9.7-A-short-way-to-write-the-shape) met the first one with images).
#
# **Predict 12.2:** each of the two norms has 240 gains. What does training make of them?
# - [x] nothing :: The layers are made anew at every call and belong to no module, so no optimizer knows their gains.
# - [ ] one useful gain for each of the 8 features :: Each number of q has a gain of its own, 240 of them. And who would train them?
# - [ ] an error, as soon as a batch has another size :: A new layer is made at each call, in the size of that batch. So there is no error.
#
# Heal it, as a module. Our scores should not only be bounded, but by a number that one can choose.


# %% tags=["exercise"] id="ex-12-4"
# Exercise 12.4 · ●●●○○ · 3 min
class QKLogits(nn.Module):
    """Attention scores of normalized queries and keys: QKLogits(head_size, bound).

    Example: a new QKLogits(8, 3.0) gives a query and an equal key the score 3, none a larger.
    q, k: (B, heads, T, d), d = head_size. Returns (B, heads, T, T), a row for each query, in
    q's dtype, without a mask.
    Each query and each key is normalized by itself. The gains are trained with the model.
    """

    ### BEGIN SOLUTION
    def __init__(self, head_size, bound):
        super().__init__()
        self.norm_q = nn.LayerNorm(head_size, bias=False)
        self.norm_k = nn.LayerNorm(head_size, bias=False)
        self.factor = bound / head_size  # without it equal rows have the score d

    def forward(self, q, k):
        return self.norm_q(q) @ self.norm_k(k).mT * self.factor

    ### END SOLUTION


# %% tags=["check"]
check.qk_logits_module(QKLogits)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `nn.LayerNorm(head_size)` or `nn.RMSNorm(head_size)`, one for queries and one for keys (or one for both), made in `__init__`. In `forward` they act on the last axis, which is `d`. How large is the product of two equal rows then, before any division?
#
# </details>

# %% tags=["hide-input"]
# Asks your module what the patient was asked.
q, k = torch.randn(
    2, 2, 3, 5, 8, generator=torch.Generator().manual_seed(132)
)  # (B, heads, T, d)
healed = QKLogits(8, 3.0).requires_grad_(False)
neighbor, future = q.clone(), q.clone()
neighbor[1], future[0, :, 4] = 100.0, 100.0
for name, other in {"the other sentence": neighbor, "the last word": future}.items():
    moved = (healed(other, k) - healed(q, k))[0, :, :4, :4].abs().max()
    print(f"{name} changes, and the first words notice: {bool(moved > 1e-5)}")

# %% [markdown]
# **Name only the axes that may share statistics, and make a layer once.**
#
# ## Take-away
#
# - What a norm sees and forgets, and where RMSNorm is LayerNorm: the lines of [What you have now](#What-you-have-now).
# - DyT and Derf take no statistics. Compare norms each at its best: its rate, and its own hyperparameters.
# - QK-norm without gains bounds a score by $\sqrt d$. A norm over all axes of $q$ leaks.

# %% [markdown]
# ## Deeper (optional, 16 min)
#
# ### GroupNorm, and who is whose twin
#
# **GroupNorm** (Wu & He, 2018) cuts the C channels of a picture into groups of neighbors. Each group of a sample is one row of LayerNorm. So it needs nothing but `layer_norm` of [lesson 4](04_affine_and_module.ipynb):


# %% tags=["export"]
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalize groups of neighboring channels: x (B, C, ...) -> the same shape.

    num_groups: divides C. weight, bias: (C,), for each channel, or None. eps: under the root.
    """
    rows = x.unflatten(1, (num_groups, -1)).flatten(2)  # (B, G, C / G * H * W)
    y = layer_norm(rows, rows.shape[-1], eps=eps).reshape(x.shape)  # (B, C, ...)
    shape = (-1,) + (1,) * (x.dim() - 2)  # (C, 1, 1) for pictures
    y = y if weight is None else y * weight.view(shape)
    return y if bias is None else y + bias.view(shape)


# %% tags=["export", "hide-input"]
# A module with the parameters of torch.nn.GroupNorm.
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


# %% [markdown]
# PyTorch's manual calls `GroupNorm(C, C)` "equivalent with InstanceNorm" and `GroupNorm(1, C)` "equivalent with LayerNorm".
#
# **Predict 12.3:** a batch of *one* picture, without gain and bias. Which of these is a different function from InstanceNorm?
# - [ ] BatchNorm in training :: It takes a mean of each channel over the batch and all places. With one picture only the places are left.
# - [ ] GroupNorm with C groups :: Each group is one channel at all places.
# - [x] GroupNorm with one group :: One mean serves all channels, so it sees which channel was the brightest.

# %%
g = torch.Generator().manual_seed(125)
pictures = 3 + torch.randn(1, 6, 5, 4, generator=g)  # (B, C, H, W)
instance, one_group = F.instance_norm(pictures), group_norm(pictures, 1)
batch = F.batch_norm(pictures, None, None, training=True)
pixels = F.layer_norm(pictures.movedim(1, -1), (6,)).movedim(-1, 1)  # each over its channels
same = lambda a, b: torch.allclose(a, b, atol=1e-5)  # float32
print("InstanceNorm is BatchNorm of one picture:", same(instance, batch))
print("InstanceNorm is GroupNorm, 6 groups:", same(instance, group_norm(pictures, 6)))
print("InstanceNorm is GroupNorm, 1 group: ", same(instance, one_group))
print("1 group is LayerNorm([C, H, W]):", same(one_group, F.layer_norm(pictures, (6, 5, 4))))
print("1 group is LayerNorm of each pixel:", same(one_group, pixels))

# %% [markdown]
# So the manual's second sentence needs a condition. **Before gain and bias, GroupNorm with one group is LayerNorm over the whole sample, not over each pixel or word.** In a language model it would see the future.
#
# ### Why an S
#
# Within one row LayerNorm is a straight line, $(x-\mu)/\sigma$. But move one entry *alone*, and it pulls $\mu$ and $\sigma$ along:

# %% tags=["hide-input"]
# Draws one entry of a row, moved alone.
t = torch.linspace(-40, 40, 161)  # (161,)
others = torch.linspace(-1.5, 1.5, 15) * 2  # (D - 1,)
rows = torch.cat([t[:, None], others.expand(161, 15)], dim=-1)  # (161, D) = (161, 16)
moved = F.layer_norm(rows, (16,))[:, 0]  # (161,)
slope = (moved[81] - moved[79]) / (t[81] - t[79])


def moved_alone(ax):
    bound = 15**0.5
    curves = {"tanh": bound * torch.tanh(slope * t / bound), "LayerNorm": moved}
    for (name, values), at in zip(curves.items(), ((0.5, 3.2), (17, 2.7)), strict=True):
        color = plot.COLORS["DyT" if name == "tanh" else name]
        ax.plot(t, values, color=color, lw=2.6)
        ax.text(*at, name, color=plot.ink(color), fontsize=12, va="center", fontweight="bold")
    for side in (-bound, bound):
        ax.axhline(side, color="#5F6B73", lw=1.2, ls="--")
    ax.text(-38, bound - 0.5, "√(D − 1)", color="#5F6B73", fontsize=12, va="center")
    ax.set(xlabel="the entry that is moved", ylabel="its output")


plot.figure(
    moved_alone,
    size=(7.2, 2.9),
    numbers={"entry": t, "LayerNorm": moved},
    title="One entry of LayerNorm, moved alone, follows an S",
    caption="A row of 16 numbers, of which 15 stay. The tanh has the same slope in the middle "
    "and the same limits; √(D − 1) is the bound of lesson 2.",
    alt="Two S-shaped curves from minus 3.9 to plus 3.9 over an entry from minus 40 to 40. "
    "LayerNorm and the tanh agree in the middle; the tanh reaches the dashed limits sooner.",
)

# %% [markdown]
# This S is $x/\sqrt{x^2+c}$, stretched (Stollenwerk, 2026).
#
# ### Reading a published model
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

# %% tags=["exercise", "optional"] id="ex-12-5"
# Exercise 12.5 · ●●●○○ · 3 min
# Read the excerpt and fill in a dictionary with five keys, nanochat = {"calls": ..., ...}
# Example: for a model without any norm "calls" would be 0.
# "calls"      how often is norm called in one forward pass?
# "learned"    how many numbers do all these norms learn together?
# "sees shift" does norm(x) change if 1 is added to all 768 numbers of a token? True or False
# "query"      how many numbers share one root mean square in the norms of the queries?
# "attention"  the largest size that an attention score can have; two decimals
### BEGIN SOLUTION
nanochat = {
    "calls": 1 + 12 * (2 + 2) + 1,
    "learned": 0,
    "sees shift": True,
    "query": 128,
    "attention": 128**0.5,
}
### END SOLUTION

# %% tags=["check", "optional"]
check.nanochat(nanochat)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `F.rms_norm(x, sizes)` takes its statistics over the last axes that have these sizes; no gain is handed over. A block calls norm on the stream twice, and in its attention on queries and on keys. For the bound see [section 12.5](#12.5-Norms-inside-attention).
#
# </details>
#
# ### Where the norm goes
#
# Models differ in where on the branch their RMSNorm is:

# %% tags=["hide-input"]
# Draws three places for a norm.
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
# **Peri-LN** (Kim et al., 2025) is Gemma 2's place with any norm. **DeepNorm** (Wang et al., 2022) is $\operatorname{LN}(\alpha x + f(x))$ with $\alpha > 1$, and some weights in $f$ start smaller. It is a Post-LN with a smaller branch. **ScaleNorm** (Nguyen & Salazar, 2019) divides a row by its length and multiplies it by one learned number.
#
# ## On your own
#
# 1. For your package: write InstanceNorm, and LayerNorm([C, H, W]) with gains, from `group_norm`, into a file of your own in `work/mine`. Which gains cannot be handed over?
# 2. nanochat rotates queries and keys *before* QK-norm. Does the order matter without gains? And with gains?
# 3. A library offers only LayerNorm. Which row, made of $x$, has RMSNorm of $x$ as the first half of its LayerNorm?
# 4. What does your `forgets.py` of [lesson 8](08_geometry.ipynb) say of your `PointWise`?
#
# Your layer can now leave its place in a trained Transformer to your RMSNorm, and the net computes the same; it still cannot keep up with the speed of PyTorch's: [lesson 13](13_speed.ipynb).
#
# ## Further reading
#
# - Jiang et al. (2023), *Pre-RMSNorm and Pre-CRMSNorm Transformers*; Wu & He (2018), *Group Normalization*, fig. 2.
# - Chen et al. (2025), *Stronger Normalization-Free Transformers* (Derf), eq. 10; Stollenwerk (2026), *On the Mathematical Relationship Between Layer Normalization and Dynamic Activation Functions*: the S.
# - Dehghani et al. (2023), *Scaling Vision Transformers to 22 Billion Parameters*: QK-norm. Loshchilov et al. (2024), [*nGPT*](https://arxiv.org/abs/2410.01131): every vector on a sphere.

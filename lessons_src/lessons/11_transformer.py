# %% [markdown]
# # 11 · Transformers: where the norm stands
#
# **What you'll do:** write a Transformer block, put its norms in two places, train a small GPT with each of them, and read the curves. *(about 50 min, and three optional pieces of 3 to 4 min each)*
#
# **You'll be able to**
# - write the Pre-LN block, and say what changes in Post-LN;
# - say why a Pre-LN stack needs a final norm, and which library adds none;
# - tell Pre-LN, Post-LN and Post-LN with warm-up by their loss curves, and name the conditions under which they differ at all;
# - say where the norms sit in GPT-2, BERT and Llama, and count them;
# - find two norms in a row.
#
# **You need:** [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 5](05_softmax.ipynb) (softmax), [lesson 8](08_geometry.ipynb) (RMSNorm). Four cells train for 10 to 30 seconds each.

# %% tags=["record"]
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNorm, RMSNorm
from lessonkit import (
    check,
    data,
    plot,
    runs,
    show,
    train,
)  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 11.1 Attention in twelve lines
#
# A Transformer works on **tokens**: T vectors of C numbers each, here one for each letter of a word. Most of what it does, it does to every token alone. Only **attention** lets one token look at another.
#
# Each token sends a query $q$, and shows a key $k$ and a value $v$. The score of a pair is $q \cdot k/\sqrt d$; a softmax over all keys turns the scores of one query into weights; the answer is the weighted mean of the values.
# In a *causal* model a token sees itself and what came before. The scores of later tokens are set to $-\infty$, which the softmax turns into weight 0.


# %% tags=["export", "record"]
def attention(q, k, v, causal=True):
    """Every token asks, and gets a mean of the values that it may see, weighted by q · k.

    q, k, v: (..., T, d). causal: a token sees itself and the tokens before it, not those
    behind it.
    Returns (..., T, d).
    """
    T, d = q.shape[-2:]
    scores = (
        q @ k.transpose(-1, -2) / math.sqrt(d)
    )  # (..., T, T) a row for each token that asks
    if causal:
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)  # (T, T)
        scores = scores.masked_fill(future, -math.inf)
    return scores.softmax(-1) @ v  # (..., T, d)


# %% [markdown]
# **Predict:** a query of zeros scores every key alike. What does each of three tokens get?

# %%
q, k = torch.zeros(3, 5), torch.ones(3, 5)  # (T, d) each
v = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]])  # (T, d_v)
show("causal", attention(q, k, v), digits=1)
show("not causal", attention(q, k, v, causal=False), digits=1)

# %% [markdown]
# The mean of what it may see. The first token sees only itself, so it gets its own value back.
# PyTorch has the same function. There is one more test, and every causal model needs it: change the last token, and nothing before it may move.

# %%
g = torch.Generator().manual_seed(111)
q, k, v = torch.randn(3, 2, 4, 6, 8, generator=g)  # (B, heads, T, d) each
y = attention(q, k, v)  # (B, heads, T, d)
assert (
    y - F.scaled_dot_product_attention(q, k, v, is_causal=True)
).abs().max() < 1e-5  # float32, numbers of order 1
k[..., -1, :], v[..., -1, :] = 5.0, 5.0
assert (
    attention(q, k, v)[..., :-1, :] - y[..., :-1, :]
).abs().max() < 1e-6  # the past does not see the last token
print("as PyTorch computes it, and nothing looks ahead")

# %% [markdown]
# One attention mixes all features with the same weights. So the features are shared out to several **heads**, each with its own softmax, and a linear layer puts them together again. This class is given.


# %% tags=["export", "record"]
class Attention(nn.Module):
    """Attention with several heads: each attends with its own share of the features.

    width: C, divisible by heads. forward: x (B, T, C) -> (B, T, C).
    """

    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        shares = self.qkv(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = shares.permute(2, 0, 3, 1, 4)  # (B, heads, T, C / heads) each
        mixed = attention(q, k, v, self.causal)  # (B, heads, T, C / heads)
        return self.out(mixed.transpose(1, 2).reshape(B, T, C))


# %% [markdown]
# ## 11.2 A block, and two places for its norms
#
# A block has two functions: attention, and an MLP that treats each token alone. Around each leads a **skip**, $x + f(x)$ (lesson 4's *residual connection*), so that a signal and its gradient always have a way that no function bars.
# Where does the norm go? Two answers have a name.
#
# ```
# Post-LN (Transformer, 2017)           Pre-LN (GPT-2, 2019)
#
# x ──┬── f ── + ── LN ── y             x ──┬── LN ── f ── + ── y
#     └────────┘                            └──────────────┘
# ```
#
# In **Post-LN** the norm stands behind the sum, on the way that everything takes. In **Pre-LN** it stands on the branch, and the skip stays clean: what a block adds is never touched again. That way through all blocks is called the **residual stream**.
# In both, LayerNorm takes its statistics over the C features of one token: B · T means. Nothing is averaged over letters or words.


# %% tags=["exercise"] id="ex-11-1"
# Exercise 11.1 · ●●○○○ · 5 min
def pre_ln(x, attend, mlp, norm1, norm2):
    """A Pre-LN block: attention, then MLP, each with its norm and its skip.

    x: (B, T, C). attend, mlp, norm1, norm2: functions (B, T, C) -> (B, T, C); norm1 belongs to
    attend, norm2 to mlp.
    Returns (B, T, C).
    """
    ### BEGIN SOLUTION
    x = x + attend(norm1(x))  # (B, T, C)
    return x + mlp(norm2(x))  # (B, T, C)
    ### END SOLUTION


# %% tags=["check"]
check.pre_ln(pre_ln)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Read the right-hand picture from left to right, twice. The second half starts from the sum that the first half made.
#
# </details>
#
# Now one half of a block, with the place as an argument. `None` means no norm at all: we need it as a control.


# %% tags=["exercise"] id="ex-11-2"
# Exercise 11.2 · ●●○○○ · 5 min
def place_norm(x, function, norm, place):
    """One function of a block with its skip, and its norm where place says.

    x: (B, T, C). function, norm: (B, T, C) -> (B, T, C).
    place: "pre", "post", or None for no norm.
    Returns (B, T, C).
    """
    ### BEGIN SOLUTION
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))
    return x + function(x)
    ### END SOLUTION


# %% tags=["check"]
check.place_norm(place_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Three cases, one line each, and all three keep the skip.
#
# </details>
#
# The course's block says it in one line for all places: `after(x + function(before(x)))`, where a norm that is not wanted is `nn.Identity()`.
# `norm` is a function that makes a norm of a given width: `LayerNorm`, `RMSNorm`, or anything you write.


# %% tags=["export", "record"]
class Block(nn.Module):
    """A Transformer block: attention between tokens, then an MLP on each, each beside a skip.

    width: C. heads: of the attention. norm: function (width) -> module. causal: whether a token
    sees no later one.
    place: where the norms sit. "pre": on the branch, before its function. "post": behind the
    sum. None: nowhere.
    forward: x (B, T, C) -> (B, T, C).
    """

    def __init__(self, width, heads, norm=LayerNorm, place="pre", causal=True):
        super().__init__()
        if place not in ("pre", "post", None):
            raise ValueError(f"place is {place!r}, expected 'pre', 'post' or None.")
        self.attend = Attention(width, heads, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.before1, self.before2 = (
            norm(width) if place == "pre" else nn.Identity() for _ in range(2)
        )
        self.after1, self.after2 = (
            norm(width) if place == "post" else nn.Identity() for _ in range(2)
        )

    def forward(self, x):
        x = self.after1(x + self.attend(self.before1(x)))  # (B, T, C)
        return self.after2(x + self.mlp(self.before2(x)))  # (B, T, C)


# %%
g = torch.Generator().manual_seed(112)
x = 3 * torch.randn(2, 5, 8, generator=g)  # (B, T, C)
block = Block(8, heads=2)
y = pre_ln(x, block.attend, block.mlp, block.before1, block.before2)  # (B, T, C)
assert (y - block(x)).abs().max() < 1e-5  # the same operations on numbers of order 10
print("your block is the course's")

# %% [markdown]
# ## 11.3 A GPT for words
#
# The text: 63,240 English words. The model reads a word letter by letter and says, at every place, what comes next. It is trained on all but 2,000 words, and we look at its loss on 300 of those.
# Three helpers turn words into numbers. Rows have 16 places, for words of up to 14 letters.


# %% tags=["export", "record"]
def encode(words, T=16):
    """Words as numbers: a to z are 1 to 26; 0 is the start, the end and the rest of the row.

    Returns x (N, T), the word behind a 0, and y (N, T), what comes next; -100 marks places
    without a question.
    """
    rows = [[0, *(ord(letter) - 96 for letter in word)] for word in words]
    x = [row + [0] * (T - len(row)) for row in rows]
    y = [row[1:] + [0] + [-100] * (T - len(row)) for row in rows]
    return torch.tensor(x), torch.tensor(y)


# %%
for name, numbers in zip("xy", encode(["norm"], T=6), strict=True):
    show(name, numbers)


# %% tags=["record"]
@functools.cache  # read the words once
def corpus():
    """(x, y) of 61,240 words to train on, and (x, y) of 300 others to validate with."""
    words = data.words()
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(7)).tolist()
    x, y = encode([words[i] for i in order])  # (N, T) each
    return x[:-2000], y[:-2000], x[-2000:-1700], y[-2000:-1700]


def batch(generator, size=32):
    """Draw words to train on."""
    x, y, *_ = corpus()
    rows = torch.randint(len(x), (size,), generator=generator)
    return x[rows], y[rows]  # (B, T) each


# %% [markdown]
# The loss is the mean cross-entropy, in nats a character (a nat is the unit of the natural logarithm). Two heights to read it by: a model that ignores its input can at best answer with the letter frequencies, and its loss is then their *entropy*, $-\sum p\ln p$, which follows; and $\ln 27 = 3.30$ is blind guessing.

# %%
_, y, *_ = corpus()
share = torch.bincount(y[y >= 0], minlength=27).double()
share = share / share.sum()  # (27,) the frequency of each symbol
unigram = -(share * share.log()).sum().item()
show("entropy of the letter frequencies, in nats", unigram, digits=3)
assert 2.94 < unigram < 2.945  # counted, not drawn

# %% [markdown]
# And the model: embeddings of letter and position, the blocks, a last linear layer. In front of that stands, under `"pre"`, a final norm; section 11.7 says why. With attention and block it is less than 80 lines.


# %% tags=["export", "record"]
class CharGPT(nn.Module):
    """A character-level GPT: what comes next, for each position of a text.

    symbols: size of the alphabet. context: most tokens T. width, heads, norm, place: of the
    blocks. layers: how many. With place="pre" a final norm stands before the output layer.
    Linears start with Xavier's uniform weights and zero biases, embeddings with N(0, 1).
    forward: tokens (B, T) -> logits (B, T, symbols).
    """

    def __init__(
        self, symbols=27, context=16, width=32, heads=4, layers=12, norm=LayerNorm, place="pre"
    ):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, norm, place) for _ in range(layers)])
        self.final = norm(width) if place == "pre" else nn.Identity()
        self.head = nn.Linear(width, symbols)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]  # (B, T, C)
        for block in self.blocks:
            x = block(x)  # (B, T, C)
        return self.head(self.final(x))  # (B, T, symbols)


# %%
gpt = CharGPT()
tokens, _ = batch(torch.Generator().manual_seed(113), size=2)  # (B, T)
norms = [module for module in gpt.modules() if isinstance(module, LayerNorm)]
print(
    "logits:",
    tuple(gpt(tokens).shape),
    "  parameters:",
    sum(p.numel() for p in gpt.parameters()),
    end="  ",
)
print(
    "of which in",
    len(norms),
    "norms:",
    sum(p.numel() for norm in norms for p in norm.parameters()),
)

# %% [markdown]
# One percent of the parameters sits in the norms.
#
# ## 11.4 Four curves
#
# How the runs are made: Adam at a learning rate of 0.003, 150 steps of 32 words, the same for all, and no run is stopped early. **Warm-up** means that the rate rises linearly from 0 over the first 75 steps.
# Runs are paired: with one seed, all models start from the same weights and see the same words. Not equal: with a final norm Pre-LN has 64 parameters more. The rate was chosen for this lesson because the placements differ there; section 11.5 has other rates.


# %% tags=["record"]
def nats(logits, y):
    """Mean cross-entropy in nats a character: logits (B, T, symbols), y (B, T)."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def validation(model):
    """Nats a character on 300 words that no model trains on."""
    *_, x, y = corpus()
    logits = torch.cat(
        [model(some) for some in x.split(100)]
    )  # (N, T, symbols) a hundred words at a time: faster
    return nats(logits, y).item()


def study(models, seeds, rate=3e-3, warm_up=0, steps=150, keep=None):
    """Train each model on `steps` batches of 32 words.

    warm_up: the steps in which the learning rate rises linearly.
    """
    return train.compare(
        models,
        seeds=seeds,
        loss=nats,
        batches=batch,
        steps=steps,
        every=25,
        evaluate={"validation": validation},
        optimizer=lambda parameters: torch.optim.Adam(
            parameters, lr=rate, betas=(0.9, 0.98), fused=True
        ),
        schedule=(lambda step: min(1.0, step / warm_up)) if warm_up else None,
        keep=keep,
    )


# %% [markdown]
# You train the first three of these settings below. A larger table of 19 settings takes ten minutes and is **recorded**: the next two cells are the ones that made it, and `rerun=True` makes it again. The course's tests repeat only the first of its 76 runs (Pre-LN, seed 100) and compare; the others stand as they were recorded.

# %% tags=["record"]
# place, norm, learning rate, warm-up steps, what starts with a std of 0.02, final norm
settings = [
    ["pre", "LayerNorm", 3e-3, 0, "nothing", True],
    ["post", "LayerNorm", 3e-3, 0, "nothing", True],
    ["post", "LayerNorm", 3e-3, 75, "nothing", True],
    [None, "LayerNorm", 3e-3, 0, "nothing", True],
    ["pre", "RMSNorm", 3e-3, 0, "nothing", True],
    ["pre", "LayerNorm", 3e-3, 0, "nothing", False],
    ["post", "LayerNorm", 3e-3, 0, "linears", True],
    ["post", "LayerNorm", 3e-3, 0, "embeddings", True],
    ["post", "LayerNorm", 3e-3, 0, "both", True],
    ["pre", "LayerNorm", 3e-3, 0, "both", True],
    ["pre", "LayerNorm", 3e-4, 0, "nothing", True],
    ["post", "LayerNorm", 3e-4, 0, "nothing", True],
    ["post", "LayerNorm", 3e-4, 75, "nothing", True],
    ["pre", "LayerNorm", 1e-3, 0, "nothing", True],
    ["post", "LayerNorm", 1e-3, 0, "nothing", True],
    ["post", "LayerNorm", 1e-3, 75, "nothing", True],
    ["pre", "LayerNorm", 1e-2, 0, "nothing", True],
    ["post", "LayerNorm", 1e-2, 0, "nothing", True],
    ["post", "LayerNorm", 1e-2, 75, "nothing", True],
]


# %% tags=["record"]
def gpt_run(run, settings):
    """Run 4 s + k: setting s of the table with seed 100 + k. Returns 6 validation losses."""
    place, norm, rate, warm_up, small, final = settings[run // 4]

    def model():
        gpt = CharGPT(norm={"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}[norm], place=place)
        for module in gpt.modules():
            kind = {nn.Linear: "linears", nn.Embedding: "embeddings"}.get(type(module))
            if kind and small in (kind, "both"):
                nn.init.normal_(module.weight, std=0.02)
        gpt.final = gpt.final if final else nn.Identity()
        return gpt

    history = study({"gpt": model}, seeds=[100 + run % 4], rate=rate, warm_up=warm_up)
    return {"validation": history["gpt"]["validation"][0]}


# %% tags=["record"]
recorded = runs.load_or_run(
    "transformer_gpt", gpt_run, seeds=range(76), tolerance=0.1, settings=settings
)

# %%
curves = recorded["validation"].view(19, 4, 6)  # (settings, seeds, evaluations)
note = runs.note("transformer_gpt", "4 seeds a setting")
steps = range(25, 151, 25)

# %% [markdown]
# Four rows of that table, twelve layers each: Pre-LN, Post-LN, Post-LN with warm-up, and no norm at all. Their names are taken away.
#
# **Predict:** which curve is which?

# %%
plot.lines(
    steps,
    {"A": curves[2], "B": curves[3].clamp(max=100), "C": curves[0], "D": curves[1]},
    ylim=(2.2, 3.6),
    href={"letter frequencies": unigram},
    colors={"A": "#7A5C00", "B": "#3D6B35", "C": "#8C3B7A", "D": "#444444"},
    title="One of them never gets past the letter frequencies",
    x="training step",
    y="nats a character",
    caption=f"Validation loss on 300 words; {note}. B lies above the picture from its first "
    "point on.",
    alt="Four loss curves over 150 training steps, the lowest first. C falls from 2.7 to "
    "below 2.4. A starts as high as D and ends near 2.6. D stays at 2.95, where a dashed line "
    "marks the entropy of the letter frequencies. B is above the picture.",
)

# %% tags=["exercise"] id="ex-11-3"
# Exercise 11.3 · ●●○○○ · 3 min
# For each curve one of "Pre-LN", "Post-LN", "Post-LN + warm-up", "no norm":
# four_curves = {"A": ..., "B": ..., "C": ..., "D": ...}
### BEGIN SOLUTION
four_curves = {"A": "Post-LN + warm-up", "B": "no norm", "C": "Pre-LN", "D": "Post-LN"}
### END SOLUTION

# %% tags=["check"]
check.four_curves(four_curves)

# %% [markdown]
# <details><summary>Hint</summary>
#
# With warm-up the first steps are small: nothing much happens in them, good or bad. And which of the four lets the numbers grow without any limit?
#
# </details>
#
# Now train three of them yourself, with other seeds than the record's. To save time your runs end at step 100, where the recorded ones go on to 150; up to there the rules are the same. `LayerNorm` is the course's own class from lesson 4. To train with yours, paste its cells and imports from lesson 4 above the next cell, and write `norm=YourLayerNorm` into each `CharGPT(...)` below.

# %% tags=["nbval-ignore-output"]
trained = {}
pre = study({"Pre-LN": lambda: CharGPT(place="pre")}, seeds=range(4), steps=100, keep=trained)
train.table(pre, "validation", digits=2)

# %% tags=["nbval-ignore-output"]
post = study({"Post-LN": lambda: CharGPT(place="post")}, seeds=range(4), steps=100)
train.table(post, "validation", digits=2)

# %% tags=["nbval-ignore-output"]
warm = study(
    {"Post-LN + warm-up": lambda: CharGPT(place="post")}, seeds=range(4), warm_up=75, steps=100
)
train.table(warm, "validation", digits=2)

# %%
live = {
    name: history["validation"] for name, history in (pre | post | warm).items()
}  # (seeds, evaluations) each
plot.lines(
    steps[:4],
    live,
    href={"letter frequencies": unigram},
    ylim=(2.2, 3.1),
    title="Post-LN stays at the letter frequencies; after a warm-up it learns, behind Pre-LN",
    x="training step",
    y="nats a character",
    caption="Validation loss on 300 words, live runs: 12 layers, Xavier's initial weights, "
    "Adam at 0.003, 32 words a step, four seeds, no run stopped early.",
    alt="Three loss curves over 100 steps. Pre-LN falls at once and ends near 2.42. Post-LN "
    "stays at the dashed line of the letter frequencies. Post-LN with warm-up starts at that "
    "line, too, then falls and ends near 2.65, half-way to Pre-LN.",
)

# %%
end = {name: values[:, -1] for name, values in live.items()}  # (seeds,) each
mean = {name: values.mean().item() for name, values in end.items()}
assert (
    mean["Post-LN"] > unigram - 0.15
)  # 0.05 below it at most, in the means of four sets of four seeds
assert (
    mean["Pre-LN"] < 2.55 and mean["Post-LN"] - mean["Pre-LN"] > 0.3
)  # 2.41 to 2.42, and 0.48 to 0.53, in these sets
assert mean["Post-LN"] - mean["Post-LN + warm-up"] > 0.1  # 0.25 to 0.33 in these sets
assert (end["Post-LN + warm-up"] > end["Pre-LN"]).all()  # by 0.1 or more in 16 pairs
print("what the title says holds for these four seeds")

# %% [markdown]
# After 100 steps Post-LN knows the letter frequencies and hardly anything else. No number is infinite and no error is raised; the curve is all there is to see.
# With warm-up it has only just reached its full rate at step 75, and is on its way down. The recorded runs go further: after 150 steps warm-up has recovered most of the gap to Pre-LN in the mean, not all of it.

# %%
last = curves[:3, :, -1].mean(
    1
)  # (3,) Pre-LN, Post-LN, Post-LN + warm-up, means of the recorded runs
show(
    "share of the gap that warm-up recovers",
    (last[1] - last[2]) / (last[1] - last[0]),
    digits=2,
)

# %% [markdown]
# ## 11.5 When Post-LN does not fail
#
# "Post-LN needs warm-up" is half a sentence. Here are three changes, each enough alone, under which it trains without. First: six layers in place of twelve, for 75 steps.

# %% tags=["nbval-ignore-output"]
six = study(
    {"Post-LN, 6 layers": lambda: CharGPT(layers=6, place="post")}, seeds=range(4), steps=75
)
train.table(six, "validation", digits=2)

# %%
assert (
    six["Post-LN, 6 layers"]["validation"][:, -1].max() < unigram - 0.1
)  # 2.5 to 2.7 in 8 seeds
print("six layers: trained, without warm-up")

# %% [markdown]
# Second: smaller initial weights. In place of Xavier's, draw with a standard deviation of 0.02, the value that BERT and GPT-2 use. But which weights does it take, those of the linear layers or the embeddings'?

# %%
final = curves[:, :, -1]  # (settings, seeds)
small = {"Post-LN, Xavier": final[1], "Post-LN, small embeddings": final[7]}
small |= {
    "Post-LN, small linears": final[6],
    "Post-LN, both small": final[8],
    "Pre-LN, both small": final[9],
}
plot.bars(
    small,
    vref={"letter frequencies": unigram},
    xlim=(2.2, 3.1),
    fmt=".2f",
    colors={name: "Pre-LN" if "Pre" in name else "Post-LN" for name in small},
    title="Small linear layers rescue Post-LN, small embeddings do not",
    x="nats a character after 150 steps",
    caption=f"Validation loss, 12 layers, Adam at 0.003 without warm-up; {note}. Small means "
    "a standard deviation of 0.02; otherwise linear layers start as Xavier says and "
    "embeddings with a standard deviation of 1.",
    alt="Five rows of points. Post-LN with Xavier's linear layers stays at 2.9 with either "
    "embeddings. With small linear layers it ends near 2.35, whatever the embeddings; Pre-LN "
    "with all weights small ends at 2.45.",
)

# %%
assert (
    final[6].max() < 2.4 and final[8].max() < 2.4 < 2.75 < final[7].min()
)  # loaded, so the same everywhere
assert (final[9] - final[8] > 0.09).all()  # (seeds,) paired: Pre-LN behind Post-LN

# %% [markdown]
# It takes the linear layers. Then the untrained functions $f(x)$ are small beside $x$, and each Post-LN block starts near the identity. With that, Post-LN without warm-up even ends 0.1 nats below Pre-LN under the *same* initial weights. So "Pre-LN is better" needs its condition, too.
#
# Third: a smaller learning rate.

# %%
rates = [3e-4, 1e-3, 3e-3, 1e-2]
rows = {
    "Pre-LN": [10, 13, 0, 16],
    "Post-LN": [11, 14, 1, 17],
    "Post-LN + warm-up": [12, 15, 2, 18],
}
by_rate = {name: final[row].T for name, row in rows.items()}  # (seeds, rates) each
plot.lines(
    rates,
    by_rate,
    xlog=True,
    href={"letter frequencies": unigram},
    ylim=(2.2, 3.1),
    title="Post-LN trains at small rates; at 0.01 even warm-up fails",
    x="learning rate",
    y="nats a character after 150 steps",
    caption="Validation loss, 12 layers, Xavier; warm-up over the first 75 of 150 steps; "
    f"{note}.",
    alt="Three curves over four learning rates. Pre-LN goes from 2.54 at 0.0003 to 2.36 at "
    "0.003 and 2.39 at 0.01. Post-LN starts at 2.62, reaches 2.51 at 0.001, and lies at the "
    "letter frequencies, 2.94, from 0.003 on. With warm-up it goes from 2.70 over 2.51 to "
    "2.57 at 0.003, and lies at 2.93 at 0.01.",
)

# %%
assert (
    by_rate["Post-LN"][:, :2].max() < 2.65 and by_rate["Post-LN"][:, 2:].min() > unigram - 0.2
)
assert by_rate["Post-LN + warm-up"][:, 3].mean() > unigram - 0.1

# %% [markdown]
# Up to 0.001 Post-LN trains without warm-up, about 0.1 nats behind Pre-LN at each rate; there warm-up buys nothing. At 0.003 it decides, and not always: of the four recorded runs with warm-up one is still at 2.82 after 150 steps. At 0.01 three of four ignore their input even with it. Pre-LN runs at all four rates.
# So the true sentence is: *Pre-LN works over a wider range of learning rates and initial weights.* That is a statement about this small net after 150 steps, and the same in kind as what lessons 9 and 10 found for LayerNorm itself.
#
# ## 11.6 Gradients before the first step
#
# Xiong et al. (2020) look at the net before training. Their Theorem 1 bounds the gradient of the last MLP weight from above: in Pre-LN the bound shrinks with the number of layers L as $1/\sqrt{L}$, in Post-LN it does not depend on L.
# A bound is not a value, so we measure. And the theorem is about a simpler net, so that one comes first: attention that averages over all tokens, square weights drawn with Xavier's variance, the loss of one token.


# %%
def place_half(x, place, norm, function):
    return x + function(norm(x)) if place == "pre" else norm(x + function(x))


# %%
def toy(place, L, seed, d=128, T=16, symbols=64):
    """Return the gradient norm of the last weight, and |x|²/d behind the last block."""
    g = torch.Generator().manual_seed(seed)
    norm = LayerNorm(d)
    weights = torch.randn(L, 4, d, d, generator=g) / d**0.5  # Xavier's variance, 2 / (d + d)
    x, head = (
        torch.randn(T, d, generator=g),
        torch.randn(d, symbols, generator=g) * (2 / (d + symbols)) ** 0.5,
    )
    last = weights[-1, 3].clone().requires_grad_()
    for i, (V, O, W1, W2) in enumerate(weights):
        W2 = last if i == L - 1 else W2
        x = place_half(
            x, place, norm, lambda z, V=V, O=O: (z @ V @ O).mean(0, keepdim=True)
        )  # (T, d)
        x = place_half(x, place, norm, lambda z, W1=W1, W2=W2: (z @ W1).relu() @ W2)  # (T, d)
    out = norm(x) if place == "pre" else x  # (T, d)
    F.cross_entropy(out[:1] @ head, torch.zeros(1, dtype=torch.long)).backward()
    return last.grad.norm().item(), x.detach().square().sum(-1).mean().item() / d


# %%
def gpt_gradients(place, layers, seed):
    """Gradient norms of the last MLP weight in the first and last block of a new CharGPT."""
    torch.manual_seed(seed)
    model = CharGPT(layers=layers, place=place)
    x, y = batch(torch.Generator().manual_seed(1000 + seed), size=64)
    nats(model(x), y).backward()
    return [model.blocks[i].mlp[2].weight.grad.norm().item() for i in (0, -1)]


# %%
depths, few = [2, 4, 8, 16, 32, 64], [2, 8, 32]
names = {"Pre-LN": "pre", "Post-LN": "post"}
toys = {
    name: [[toy(place, L, seed) for L in depths] for seed in range(8)]
    for name, place in names.items()
}
theory = {
    name: torch.tensor(runs_)[:, :, 0] for name, runs_ in toys.items()
}  # (seeds, depths) each
stream = {
    name: torch.tensor(runs_)[:, :, 1] for name, runs_ in toys.items()
}  # (seeds, depths) each
made = {
    name: [[gpt_gradients(place, L, seed) for L in few] for seed in range(4)]
    for name, place in names.items()
}
both = {
    name: torch.tensor(runs_) for name, runs_ in made.items()
}  # (seeds, few, 2) each, first and last block
practice = {name: gradients[..., 1] for name, gradients in both.items()}  # (seeds, few) each

# %%
plot.panels(
    {"Theorem's net, width 128": (depths, theory), "CharGPT, width 32": (few, practice)},
    xlog=True,
    ylog=True,
    ylim=(0.1, 10),
    y="gradient of the last MLP weight",
    x="layers L",
    title="Pre-LN's last gradient shrinks with depth, Post-LN's does not",
    caption="Gradient norm of the last block's second MLP weight before the first step.",
    alt="Two panels with logarithmic axes. Left, in the setting of the theorem: Post-LN is "
    "flat near 7.5 from 2 to 64 layers, Pre-LN falls along a straight line from 6 to 1. "
    "Right, in the GPT: Post-LN rises from 0.6 to 1.2, Pre-LN falls from 0.4 to 0.2.",
)

# %%
root = theory["Pre-LN"].mean(0) * torch.tensor(depths).sqrt()  # (depths,)
assert root.max() / root.min() < 1.5  # 1.1 to 1.25 in eight sets of 8 seeds
flat = theory["Post-LN"].mean(0)  # (depths,)
assert flat.max() / flat.min() < 1.4  # 1.06 to 1.18 in these sets
assert (
    theory["Pre-LN"].mean(0)[0] / theory["Pre-LN"].mean(0)[-1] > 4
)  # 5.5 to 6.6 in these sets: the root of 32 is 5.7
ratio = (
    practice["Post-LN"] / practice["Pre-LN"]
)  # (seeds, few) paired: the same weights and words
assert (ratio[:, 0] < ratio[:, -1]).all() and (
    ratio[:, -1] > 2
).all()  # 1.4 to 1.8 at 2 layers, 3.5 to 11 at 32

# %% [markdown]
# The theorem's two directions show, in its own setting and in our GPT. What follows from it is less than is often told. It bounds the *last* block's gradient before step one; it does not say that a large rate must fail.
# And a picture that is often told, "Post-LN's gradients fade towards the input", is not what we find in nets of this size. Compare the first block with the last, at 32 layers:

# %%
first = {
    name: gradients[:, -1, 0] / gradients[:, -1, 1] for name, gradients in both.items()
}  # (seeds,) each
assert (first["Pre-LN"] > 1).all()  # 1.8 to 4 in 14 nets: larger near the input
assert (
    first["Post-LN"] > 0.05
).all()  # 0.2 to 6 in 22 nets; a loss of 20 percent a layer would leave 0.001
print("Pre-LN: larger in the first block than in the last; Post-LN: scattered around one size")

# %% [markdown]
# ## 11.7 The growing stream, and why a final norm
#
# In Post-LN every block ends in a norm: what comes out has mean square 1. In Pre-LN each block **adds** to the stream, and nothing ever takes away. For the theorem's net the same paper proves (Lemma 2) that $\|x\|^2/d$ behind L blocks lies on average between $1 + L/2$ and $1 + 3L/2$.

# %%
L = torch.tensor(depths)
plot.lines(
    depths,
    {name: stream[name] for name in ("Pre-LN", "Post-LN")}
    | {"1 + 3L/2": 1 + 1.5 * L, "1 + L/2": 1 + 0.5 * L},
    xlog=True,
    ylog=True,
    colors={"1 + 3L/2": "none", "1 + L/2": "none"},
    title="Pre-LN's stream grows with depth, between the bounds",
    x="layers L",
    y="mean square of the stream",
    caption="Mean of |x|²/d over 16 tokens behind the last block, before training, in the "
    "setting of the theorem.",
    alt="Two curves between two gray lines on logarithmic axes. Pre-LN grows from 2 at 2 "
    "layers to 90 at 64 layers, between 1 + L/2 and 1 + 3L/2. Post-LN stays at 1.",
)

# %%
assert (stream["Post-LN"] - 1).abs().max() < 1e-3  # a norm comes last; eps takes a little
grown = stream["Pre-LN"].mean(0)  # (depths,)
inside = (grown > 0.9 * (1 + L / 2)) & (grown < 1.1 * (1 + 1.5 * L))
assert inside.all()  # with 10 percent for the error of a mean over 8 seeds

# %% [markdown]
# So the output layer behind a Pre-LN stack would get numbers whose size depends on the depth. One more norm behind the last block ends that. GPT-2 calls it `ln_f`: two norms a block, **and one**.
# Is it indispensable? Row 5 of our table (counted from 0) is Pre-LN without it.

# %%
show("without the final norm, nats higher by", final[5] - final[0], digits=2)  # (seeds,) paired
assert ((final[5] - final[0]) > 0.02).all() and (
    final[5] < 2.5
).all()  # 0.04 to 0.09, paired, loaded

# %% [markdown]
# It trains without, and ends 0.06 nats higher, in all four pairs by at least 0.04. Not a failure, but a price; how high it is with more layers was not measured here.
#
# PyTorch's `nn.TransformerEncoder` leaves the final norm to you, under `norm_first=True` as well: its argument `norm` is `None` unless you fill it.

# %%
layer = nn.TransformerEncoderLayer(8, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
print("final norm:", nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).norm)


# %% tags=["exercise"] id="ex-11-4"
# Exercise 11.4 · ●●○○○ · 4 min
def encoder(width, heads, layers, norm_first):
    """An nn.TransformerEncoder, with a final norm only if its blocks need one behind them.

    width, heads, layers: whole numbers. norm_first: whether the blocks are Pre-LN.
    Returns the module:
    nn.TransformerEncoder(layer, number, norm=module or None, enable_nested_tensor=False).
    """
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    ### BEGIN SOLUTION
    final = nn.LayerNorm(width) if norm_first else None
    return nn.TransformerEncoder(layer, layers, norm=final, enable_nested_tensor=False)
    ### END SOLUTION


# %% tags=["check"]
check.encoder(encoder)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What does a Post-LN block end in? And a Pre-LN block? The final norm has the width of a token.
#
# </details>
#
# ## 11.8 Where the norms sit in three well-known models
#
# | model | place | norm | norms |
# |---|---|---|---|
# | Transformer (2017), 6 encoder and 6 decoder layers | Post-LN | LayerNorm | behind each function: 2 in an encoder layer, 3 in a decoder layer (it also attends to the encoder) |
# | BERT base, 12 layers | Post-LN | LayerNorm | 2 a layer, and one on the sum of the embeddings (a head for pre-training may add its own) |
# | GPT-2 small, 12 blocks | Pre-LN | LayerNorm | 2 a block, and one behind the last block |
# | Llama 7B, 32 blocks | Pre-LN | RMSNorm | 2 a block, and one behind the last block |
#
# A trap in the last line: in widespread code Llama's second norm is called `post_attention_layernorm`. It stands *after* the attention and *before* the MLP, on the branch: Pre-LN, and an RMSNorm.
# RMSNorm in place of LayerNorm changed nothing that we can see in our GPT: a difference of 0.00 nats in the mean of four paired runs (row 4 of the table).

# %%
gap = curves[4, :, -1] - curves[0, :, -1]  # (seeds,) RMSNorm behind LayerNorm, paired
assert gap.abs().max() < 0.05  # loaded: at most 0.006

# %% [markdown]
# ### Count them (optional, 3 min)

# %% tags=["exercise", "optional"] id="ex-11-5"
# Exercise 11.5 · ●●○○○ · 3 min
# How many norms does each model have? ("BERT base": the encoder with its embeddings)
# norm_counts = {
#     "GPT-2 small": ..., "BERT base": ..., "Llama 7B": ..., "the Transformer of 2017": ...
# }
### BEGIN SOLUTION
norm_counts = {
    "GPT-2 small": 25,
    "BERT base": 25,
    "Llama 7B": 65,
    "the Transformer of 2017": 30,
}
### END SOLUTION

# %% tags=["check", "optional"]
check.norm_counts(norm_counts)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Count layer by layer from the table: the norms of one layer times the layers, and what stands outside of them.
#
# </details>
#
# ### Weight decay and the norms
#
# The optimizers of such models usually spare gains and biases from weight decay. That is a **convention, not a theorem**: decay pulls a gain towards 0 and not towards 1 (lesson 4, section 4.5), and whether that hurts or helps, only experiments can say. This course has made none.
# `torch.optim.AdamW` decays every parameter, with `weight_decay=0.01`, unless told otherwise. This is how to tell it:

# %%
model = CharGPT()
norms = [
    p
    for module in model.modules()
    if isinstance(module, LayerNorm)
    for p in module.parameters()
]
biases = [module.bias for module in model.modules() if isinstance(module, nn.Linear)]
spared = {id(p) for p in norms + biases}
groups = [
    {"params": [p for p in model.parameters() if id(p) not in spared], "weight_decay": 0.01},
    {"params": norms + biases, "weight_decay": 0.0},
]
assert spared == {id(p) for p in model.parameters() if p.dim() == 1}
optimizer = torch.optim.AdamW(groups, lr=1e-3)
print("decayed tensors:", len(groups[0]["params"]), "  spared:", len(groups[1]["params"]))

# %% [markdown]
# A rule by shape ("spare what has one axis") gives the same groups here. It misses gains that are stored stacked, layers by features.
#
# ## 11.9 What the model writes (optional, 4 min)
#
# The Pre-LN model that you trained on 100 batches writes words, letter by letter: start with 0, draw the next symbol, go on until it draws 0.


# %% tags=["optional", "nbval-ignore-output"]
def sample(model, generator):
    """Draw one word."""
    tokens = [0]
    while len(tokens) < 16 and (len(tokens) == 1 or tokens[-1]):
        logits = model(torch.tensor([tokens]))[0, -1]  # (symbols,)
        tokens.append(torch.multinomial(logits.softmax(-1), 1, generator=generator).item())
    return "".join(chr(96 + token) for token in tokens if token)


g = torch.Generator().manual_seed(114)
with torch.no_grad():
    print(*[sample(trained["Pre-LN"][0], g) for _ in range(16)])

# %% [markdown]
# Not words, but no soup of letters either: vowels and consonants take turns, and endings like *-ed*, *-s*, *-ing* come at the end. For that a model has to read what it has written.
#
# ## 11.10 Patches are tokens
#
# A Vision Transformer cuts an image into patches, and each patch becomes a token. From there on it is the same block, without the causal mask, and the same norm over C.

# %%
images, *_ = data.digits_split(0)
patches = (
    images[:5].view(5, 4, 2, 4, 2).transpose(2, 3).reshape(5, 16, 4)
)  # (B, T, pixels of a patch)
torch.manual_seed(115)
embed, block, final = nn.Linear(4, 32), Block(32, heads=4, causal=False), LayerNorm(32)
tokens = embed(patches) + torch.randn(16, 32)  # (B, T, C) what a patch shows + where it lies
y = final(block(tokens))  # (B, T, C)
print(
    "images",
    tuple(images[:5].shape),
    " patches",
    tuple(patches.shape),
    " tokens",
    tuple(y.shape),
    end="  ",
)
print("means in one norm:", tuple(y.mean(-1, keepdim=True).shape))
assert y.mean(-1).abs().max() < 1e-5  # a mean for each patch of each image, and none across

# %% [markdown]
# No claim about training comes with it: on these small images, nets of this kind with and without norms differed in either direction, depending on the initial weights.
# Without the positions the block cannot know where a patch lies: shuffle the patches, and its answers are shuffled likewise. The norm changes nothing in that, because it looks at one token at a time.

# %%
order = torch.randperm(16, generator=torch.Generator().manual_seed(116))
x = embed(patches)  # (B, T, C) no positions
assert (
    block(x[:, order]) - block(x)[:, order]
).abs().max() < 1e-5  # float32, numbers of order 1
print("shuffled in, shuffled out")

# %% [markdown]
# ## 11.11 Keys that no query can select (optional, 4 min)
#
# What does a norm in front of attention do for the *keys*? Say that a query selects a key if that key gets the largest score. Brody et al. (2023) point out: a key that is a mixture of other keys, inside their convex hull, can never be selected over all of them. Its score is the same mixture of their scores.

# %% tags=["optional"]
g = torch.Generator().manual_seed(117)
keys = torch.randn(6, 8, dtype=torch.float64, generator=g)  # (T, d)
keys[5] = keys[:5].mean(0)  # a mixture of the others
queries = torch.randn(1000, 8, dtype=torch.float64, generator=g)  # (Q, d)
scores = queries @ keys.T  # (Q, T)
assert (scores[:, 5] <= scores[:, :5].max(-1).values).all()  # a mean is never above the largest
normed = F.layer_norm(keys, (8,), eps=0.0)  # (T, d) all of length √8
own = normed @ normed.T  # (T, T) each key as a query
assert (own.argmax(-1) == torch.arange(6)).all()
print("raw: the sixth key is never first;  behind LayerNorm: each key is first for itself")

# %% [markdown]
# Why the second line always holds: behind LayerNorm (gain 1, bias 0, $\epsilon = 0$) all keys have length $\sqrt d$, and among vectors $k$ of one length $q \cdot k$ is largest for $k = q$. Only the length matters in that, so RMSNorm does it as well; centering alone does not.
# In a Transformer a linear layer stands between the norm and the keys, so this is a property of the norm, not a guarantee for the model.
#
# ## 11.12 Clinic: two norms in a row
#
# Code as it is found, in PyTorch itself: `nn.Transformer`, the model of 2017, with its defaults. Someone counts the norms: six encoder and six decoder layers should have 30.

# %%
found = nn.Transformer(
    8,
    2,
    num_encoder_layers=6,
    num_decoder_layers=6,
    dim_feedforward=16,
    dropout=0.0,
    batch_first=True,
)
print("norms:", sum(isinstance(module, nn.LayerNorm) for module in found.modules()))

# %% [markdown]
# Two too many. Which? A norm is superfluous, before training, if what goes *in* is normalized already. Write that test; a helper then asks it at every norm of a model.


# %% tags=["exercise"] id="ex-11-6"
# Exercise 11.6 · ●●●○○ · 6 min
def already_normalized(h, tolerance=0.01):
    """Whether every row of h is as LayerNorm leaves it at gain 1 and bias 0.

    h: (..., D). tolerance: how far the mean of a row may be from 0, and its biased variance
    from 1.
    Returns True or False.
    """
    ### BEGIN SOLUTION
    mean = h.mean(-1)  # (...)
    var = h.var(-1, correction=0)  # (...)
    return bool((mean.abs() < tolerance).all() and ((var - 1).abs() < tolerance).all())
    ### END SOLUTION


# %% tags=["check"]
check.already_normalized(already_normalized)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two conditions, each on every row: `(...).abs() < tolerance`, then `.all()`. LayerNorm's variance divides by D.
#
# </details>


# %%
def norms_in_a_row(model, *inputs):
    """Names of the LayerNorms of model whose input is normalized already."""
    names = []

    def ask(name):
        return lambda module, given: (
            names.append(name) if already_normalized(given[0]) else None
        )

    hooks = [
        m.register_forward_pre_hook(ask(name))
        for name, m in model.named_modules()
        if isinstance(m, nn.LayerNorm)
    ]
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return names


# %%
g = torch.Generator().manual_seed(118)
source, target = (
    3 * torch.randn(2, 5, 8, generator=g),
    3 * torch.randn(2, 4, 8, generator=g),
)  # (B, T, C)
norms_in_a_row(found, source, target)

# %% [markdown]
# The class hands a final norm to its encoder and to its decoder, whatever `norm_first` says (issue 24930 in PyTorch's tracker). Under Post-LN, the default, the last layer ends in a norm already.
#
# What does it cost? Before training next to nothing: a normalized row stays what it is, but for $\epsilon$. After training the first of the two has a gain and a bias, and the second normalizes what they did; the model is no longer the paper's, and weights of the paper's model leave two norms without any. The mend:

# %%
with torch.no_grad():
    before = found(source, target)  # (B, T, C)
    found.encoder.norm = found.decoder.norm = None
    after = found(source, target)  # (B, T, C)
assert (before - after).abs().max() < 1e-3  # rows of variance v/(v+eps), normalized once more
print("norms:", sum(isinstance(module, nn.LayerNorm) for module in found.modules()))

# %% [markdown]
# The other fault, a Pre-LN stack *without* a final norm, is seen in public, too. No test of shapes sees either of them. Count the norms.
#
# ## Take-away
#
# - Pre-LN: `x = x + f(norm(x))`, the stream stays clean. Post-LN: `x = norm(x + f(x))`, each block ends in a norm.
# - Pre-LN's stream grows with depth (mean square between $1 + L/2$ and $1 + 3L/2$ before training, in the setting of the paper), so a final norm stands before the output layer. `nn.TransformerEncoder` adds none by itself, `nn.Transformer` always adds two.
# - With 12 layers, Xavier's weights and Adam at 0.003, Post-LN without warm-up hardly gets past the letter frequencies in 150 steps; warm-up recovers most of the gap to Pre-LN in the mean. With 6 layers, small initial linear layers, or a rate of 0.001 and less it trains without.
# - GPT-2: 2 norms a block + 1 behind the last. Llama the same, with RMSNorm. BERT: 2 a layer + 1 on the embeddings. The Transformer of 2017: one behind each function, 30 in all.
# - Two norms in a row show before training: the second one's input has mean 0 and variance 1 in every row.
#
# ## On your own
#
# 1. Raise the depth of the six-layer runs to 12 in steps of 2. At which depth does Post-LN fail, and does the answer change with the rate?
# 2. Give `Block` a third place, norms on both ends of the branch: `x + after(f(before(x)))` (Peri-LN, [lesson 12](12_family.ipynb)). How does the stream grow?
# 3. Train without warm-up for 75 steps at a tenth of the rate, then at the full rate. Is that a warm-up?
# 4. Clip the gradient's norm at 1 (`clip=1.0` in `train.compare`). Does that rescue Post-LN?
#
# ## Further reading
#
# - Vaswani et al. (2017), *Attention Is All You Need*, section 3.1: Post-LN; section 5.3: warm-up.
# - Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*, Theorem 1, Lemma 2.
# - Radford et al. (2019), *Language Models are Unsupervised Multitask Learners* (GPT-2), section 2.3: the norm moved to the input of each sub-block, and one added at the end.
# - Devlin et al. (2019), *BERT*; Touvron et al. (2023), *LLaMA*, section 2.2: pre-normalization with RMSNorm.
# - Dosovitskiy et al. (2021), *An Image is Worth 16x16 Words* (ViT), equations 1 to 4.
# - Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*, section 3.

# %% [markdown] tags=["trains"]
# # 11 · Transformers: where the norm goes
#
# A language model of twelve layers reads words letter by letter and says which letter comes next. It exists twice, with the same batches and the same optimizer. In one, each norm (normalization layer) stands *after* a sum, in the other *before* a function.

# %% tags=["hide-input"]
# Imports.
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, evidence, explore, plot, show
from lessonkit.mine import LayerNorm  # lesson 4

# %%
# (settings, runs, evaluations) of recorded runs: two of the twenty settings, four seeds each
losses = evidence.load("transformer_gpt")["validation"]  # (20, 4, 6)
show("norm after the sum:       loss after 150 steps", losses[3, :, -1], digits=2)
show("norm before the function: loss after 150 steps", losses[2, :, -1], digits=2)

# %% [markdown]
# The *loss* says how badly new words are foreseen, and somebody who knows only how often each letter occurs has 2.94. In three of these four runs the first model has learned no more than that, and no error was raised. What holds it back?
#
# *About 56 min, in two sittings of 31 and 25.* **You'll be able to**
# - build a Transformer block, as Pre-LN and as Post-LN;
# - say why a deep Post-LN stack can stall, with numbers;
# - name what helps, and GPT-2's factor on its branches;
# - say which stack needs a final norm, and what can take the place of all norms in a small net.
#
# **You need** lessons [4](04_affine_and_module.ipynb) (the module), [5](05_softmax.ipynb) (softmax) and [8](08_geometry.ipynb) (RMSNorm).
#
# ## 11.1 Play
#
# A Transformer is a stack of **blocks**, also called layers. A block does not replace its input $x$, it adds something to it: $x + f(x)$. $f$ is on a **branch**, and the way around it, a residual connection, is a **skip**. What runs along all skips is the **residual stream**. Two places for a norm are usual:
#
# - **Post-LN:** $\mathrm{LN}(x + f(x))$. The norm comes after the sum, on the stream itself.
# - **Pre-LN:** $x + f(\mathrm{LN}(x))$. The norm is on the branch, before $f$.
#
# Here are 24 small blocks that learn to tell eight rows apart.

# %%
explore.stream()

# %% [markdown]
# **Find out:** drag LN onto the branch: the loss falls. (Peri-LN waits for [lesson 12](12_family.ipynb).) Which of the four sliders can help Post-LN, each alone? (A double click resets.)
#
# <details><summary>What there is to find</summary>
#
# All four: fewer blocks, such as 8; a smaller weight scale, such as 0.3; a smaller rate, such as 0.005; 20 steps of warm-up, in which the rate rises slowly. (With other weights warm-up often helps less.) [Section 11.7](#11.7-A-factor-for-each-branch) says what the sliders have in common.
#
# </details>
#
# ## 11.2 Two places for a norm
#
# A Transformer block has two functions, attention and an MLP (two linear layers with a ReLU between them), each with its own skip and its own norm. Here is one of the two halves:

# %% tags=["hide-input"]
# Draws half a block with its norm in two places.
plot.blocks(
    {
        "Post-LN": {"branch": ["f"], "after": ["LN"], "formula": "LN(x + f(x))"},
        "Pre-LN": {"branch": ["LN", "f"], "formula": "x + f(LN(x))"},
    },
    title="The norm is on the stream itself, or only on the branch",
    caption="Half a block; f is attention or the MLP. The straight line is the skip.",
    alt="Two block diagrams, input x at the bottom, output y at the top; a line goes straight "
    "up, a branch with a gray box f leads around it into a sum. Post-LN: a blue box LN on the "
    "line after the sum. Pre-LN: LN on the branch, before f, and nothing after the sum.",
)

# %% [markdown]
# Take the row $x$ = (7, 1, 7, 1), a function $f$ that returns three times what it gets, and $\epsilon = 0$. The mean of $x$ is 4, and its standard deviation is 3. In **Pre-LN** the norm makes (1, −1, 1, −1) of it, $f$ makes (3, −3, 3, −3), and the sum is (10, −2, 10, −2).
#
# **Predict 11.1:** what does **Post-LN** make of the same row, with the same $f$?
# - [ ] (28, 4, 28, 4) :: That is the sum, x + 3x. In Post-LN the norm is still to come.
# - [x] (1, −1, 1, −1) :: The sum is (28, 4, 28, 4), with mean 16 and deviation 12.
# - [ ] (4, −4, 4, −4) :: You have added x and f(x) after the norm. In Post-LN the norm comes after the sum.

# %%
x, ln, f = torch.tensor([7.0, 1.0, 7.0, 1.0]), LayerNorm(4), lambda x: 3 * x
show("Pre-LN ", (x + f(ln(x))).detach(), digits=2)
show("Post-LN", ln(x + f(x)).detach(), digits=2)

# %% [markdown]
# **In Pre-LN a block only adds to the stream. In Post-LN every norm rescales all of it.**


# %% tags=["exercise"] id="ex-11-1"
# Exercise 11.1 · ●●○○○ · 2 min
def pre_ln(x, attend, mlp, norm1, norm2):
    """A whole Pre-LN block: attention, then MLP, each with its norm and its skip.

    Example: where attend and mlp triple what they get, and both norms are LayerNorm,
    (7, 1, 7, 1) becomes (10, -2, 10, -2), and that becomes (13, -5, 13, -5).
    x, the result, and what all four functions take and return: (B, T, C).
    """
    ### BEGIN SOLUTION
    x = x + attend(norm1(x))  # (B, T, C)
    return x + mlp(norm2(x))  # (B, T, C)
    ### END SOLUTION


# %% tags=["check"]
check.pre_ln(pre_ln)

# %% [markdown]
# <details><summary>What it is tried on</summary>
#
# Many shapes, two number types, gradients. `norm1` belongs to `attend`, `norm2` to `mlp`, and `x` itself may not be changed.
#
# </details>
#
# <details><summary>Hint</summary>
#
# Read the picture named Pre-LN from the bottom to the top, twice. The second half starts from the sum that the first half made.
#
# </details>
#
# ## 11.3 What becomes of a difference
#
# Each letter enters the stream as a row of numbers, a **token**. A net that knows only how often each letter occurs answers every token alike, so what tokens had of their own was lost on the way. Where?
#
# Say that the rows have mean 0 and mean square 1, and that a branch adds a row of mean square 3, **the same row to every token**. If it has nothing to do with the rows that are there, mean squares add: 1 + 3 = 4.
#
# In **Post-LN** the norm divides this by $\sqrt 4 = 2$. What was added is the same for all, but what *distinguishes* two tokens has been halved, and the next norm starts from mean square 1 again. In **Pre-LN** no norm stands on the stream, except for a final one after the last block. What does each do over many branches, whose rows have nothing to do with each other?

# %% tags=["exercise"] id="ex-11-2"
# Exercise 11.2 · ●●○○○ · 3 min
# The rows have mean square 1, and each of 6 branches adds a row of mean square 8, the same
# to every token. By what is the difference between two tokens divided?
# Copy this line and replace the dots by numbers:
# divided_by = dict(post_all=..., pre_stream=..., pre_all=..., post_small=...)
# post_all    Post-LN: by all six norms (by the first one above: 2)
# pre_stream  Pre-LN: the mean square of the stream after the six branches
# pre_all     Pre-LN: by the final norm, the only one on the stream
# post_small  as post_all, where each branch adds only 0.21 (two decimals)
### BEGIN SOLUTION
divided_by = dict(post_all=729, pre_stream=49, pre_all=7, post_small=1.77)
### END SOLUTION

# %% tags=["check"]
check.divided_by(divided_by)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The norm divides by the root of the mean square of the sum, and the next norm starts from mean square 1 again. Of the small branches, $\sqrt{1.21} = 1.1$.
#
# </details>
#
# **In Post-LN the divisions of all norms multiply. In Pre-LN the stream is divided once, at the end.** When tokens become alike, one speaks of *rank collapse* (Dong et al., [2021](https://arxiv.org/abs/2103.03404); for norms in both places Noci et al., [2022](https://arxiv.org/abs/2206.03126)).
#
# <details><summary>When this holds</summary>
#
# The structure always, the numbers at gain 1 and $\epsilon = 0$. Real branches also add what differs.
#
# </details>
#
# ## 11.4 Build a GPT, and train it
#
# Norms and MLPs treat every token alone. Only **attention** lets a token look at others: it sends a query $q$, and shows a key $k$ and a value $v$, rows of $d$ numbers. A softmax of all $q \cdot k/\sqrt d$ gives the weights of a mean of the values. In a **causal** model a token sees itself and the tokens before it. The folded cell has all this, in several **heads**, each with its share of the features. With it, a block takes one page:


# %% tags=["export", "hide-input"]
# Attention, and attention with several heads.
def attention(q, k, v, causal=True):
    """Every token gets a mean of the values that it may see, weighted by q · k.

    q, k, v: (..., T, d). causal: no token sees a later one. Returns (..., T, d).
    """
    T, d = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)  # (..., T, T) a row for each query
    if causal:
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)  # (T, T)
        scores = scores.masked_fill(future, -math.inf)
    return scores.softmax(-1) @ v  # (..., T, d)


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


# %% tags=["export"]
class Block(nn.Module):
    """A Transformer block: attention between tokens, then an MLP on each, both with a skip.

    place of its norms: "pre", on the branch, "post", after the sum, or None, nowhere.
    width: C. norm: function (width) -> module. forward: x (B, T, C) -> (B, T, C).
    """

    def __init__(self, width, heads, norm=LayerNorm, place="pre", causal=True):
        super().__init__()
        if place not in ("pre", "post", None):
            raise ValueError(f"place is {place!r}, expected 'pre', 'post' or None.")
        self.attend = Attention(width, heads, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        put = lambda here: norm(width) if place == here else nn.Identity()
        self.before1, self.before2 = put("pre"), put("pre")
        self.after1, self.after2 = put("post"), put("post")

    def forward(self, x):
        x = self.after1(x + self.attend(self.before1(x)))  # (B, T, C)
        return self.after2(x + self.mlp(self.before2(x)))  # (B, T, C)


# %% [markdown]
# `nn.Identity()` does nothing, so under `"pre"` the last two lines are your `pre_ln`. A GPT stacks blocks between an **embedding** (a learned row of numbers for each letter and each position) and a linear layer that scores the next letter. Its matrices start as **Xavier** proposed, with the variance 2 / (inputs + outputs). It reads 63,240 English words.


# %% tags=["export"]
class CharGPT(nn.Module):
    """A GPT for letters: tokens (B, T) -> logits (B, T, symbols). With "pre", a final norm."""

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


# %% tags=["export", "hide-input"]
# Makes rows of numbers of words, and the loss.
def encode(words, T=16):
    """Words as numbers: a to z are 1 to 26; 0 is the start, the end and the rest of the row.

    Returns x (N, T), each word after a 0, and y (N, T), what comes next; -100 marks places
    without a question.
    """
    rows = [[0, *(ord(letter) - 96 for letter in word)] for word in words]
    x = [row + [0] * (T - len(row)) for row in rows]
    y = [row[1:] + [0] + [-100] * (T - len(row)) for row in rows]
    return torch.tensor(x), torch.tensor(y)


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


def nats(logits, y):
    """Mean cross-entropy of logits (B, T, symbols) and y (B, T), in nats a character."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


@torch.no_grad()
def validation(model):
    """Nats a character on 300 words that no model trains on."""
    *_, x, y = corpus()
    # (N, T, symbols), a hundred words at a time: faster
    logits = torch.cat([model(some) for some in x.split(100)])
    return nats(logits, y).item()


# %% [markdown]
# The loss is the mean of $-\log p$ in **nats** (natural logarithms), where $p$ is what a net gives to the letter that comes. Two tables say how good a loss is: how often each letter occurs, and how often it follows each other one (a *bigram* table).

# %% tags=["hide-input"]
# Counts letters, and pairs of letters.
torch.optim.SGD([torch.zeros(1)])  # the first optimizer loads for seconds, while you read
x, y, x_new, y_new = corpus()  # training words, then 300 new ones
asked, asked_new = y >= 0, y_new >= 0
pairs = torch.zeros(27, 27, dtype=torch.float64)  # how often each symbol follows each other
pairs.index_put_((x[asked], y[asked]), torch.ones(()).double(), accumulate=True)
letters = pairs.sum(0) / pairs.sum()  # (27,)
follows = pairs / pairs.sum(1, keepdim=True)  # (27, 27) rows sum to 1
show("letter frequencies", -letters[y_new[asked_new]].log().mean().item(), digits=2)
show(
    "bigram table      ",
    -follows[x_new[asked_new], y_new[asked_new]].log().mean().item(),
    digits=2,
)

# %% [markdown]
# So at 2.94 a net looks at no letter, and below 2.47 it knows more than pairs. Now train a GPT with its norms in each place (a run takes up to half a minute):


# %% tags=["export"]
def training(gpt, rate=3e-3, steps=100, seed=0):
    """Train on batches of 32 words, and pause after each step."""
    optimizer = torch.optim.Adam(gpt.parameters(), lr=rate, betas=(0.9, 0.98))
    g = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        x, y = batch(g)  # (B, T) each: letters, and what comes next
        optimizer.zero_grad()
        nats(gpt(x), y).backward()
        optimizer.step()
        yield step


# %% tags=["export", "hide-input"]
# learn_words: trains a GPT with levers.
def learn_words(place, layers=12, rate=3e-3, start=None, seed=0):
    """Train a CharGPT for 100 steps, and print its loss on the way.

    start: a function that changes the model's first weights in place, or None.
    """
    torch.manual_seed(seed)
    gpt = CharGPT(layers=layers, place=place)
    if start:
        start(gpt)
    print(f"{place}, {layers} layers, rate {rate}", end=": ")
    for step in training(gpt, rate, seed=seed):
        if step in (25, 50, 100):
            print(
                f"{validation(gpt):.2f} after {step} steps", end="\n" if step == 100 else ", "
            )


# %% tags=["nbval-ignore-output"]
learn_words("pre")

# %% tags=["nbval-ignore-output"]
learn_words("post")  # yours: place, layers, rate, seed

# %% [markdown]
# Pre-LN comes down to the bigram table, and Post-LN stays at the letter frequencies. **Find out:** is it this draw of the weights (another `seed`), the number of `layers`, or the `rate`? Guess first, then change one at a time.
#
# <details><summary>What there is to find</summary>
#
# No seed helps much: after 100 steps eight others are at {atlas[post, Xavier, 0.003].curve[1]:each}, and Pre-LN is at {atlas[pre, Xavier, 0.003].curve[1]:range}. Six layers learn ({transformer_gpt[0].validation[5]:range} after 150 steps), and twelve do, more slowly, at a rate of 0.001 ({atlas[post, Xavier, 0.001].loss:range}). {transformer_gpt:again} {atlas:again}
#
# </details>
#
# ## What you have now
#
# - Pre-LN: `x = x + f(norm(x))`. Post-LN: `x = norm(x + f(x))`.
# - **In Pre-LN a block only adds to the stream. In Post-LN every norm rescales all of it.**
# - **In Post-LN the divisions of all norms multiply. In Pre-LN the stream is divided once, at the end.**
#
# **You can stop here:** close the notebook. Draw half a block twice, with its norm in both places, and take (7, 1, 7, 1) with $f(z) = 3z$ through each.
#
# *Sitting two:* is that why Post-LN stalls? You will take the cause away, and then heal the net by a factor.
#
# ## 11.5 An atlas of places

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import math

import torch
from torch import nn

from fromscratch.transformer import CharGPT, batch, learn_words
from lessonkit import check, evidence, plot, show

losses = evidence.load("transformer_gpt")["validation"]  # (20, 4, 6)

# %% [markdown]
# **Recall 11.1:** at gain 1, bias 0 and $\epsilon = 0$, which rows come out of RMSNorm as they come out of LayerNorm?
# - [x] rows with mean 0 :: RMSNorm leaves out only the centering. Where the mean is 0 there is nothing to center, and the mean square is the variance.
# - [ ] rows with variance 1 :: With a mean of 5 their mean square is 26, so RMSNorm divides by 5.1 and leaves the mean in.
# - [ ] none :: There is one kind of row for which centering changes nothing.
#
# On paper, norms can make all tokens alike. Does it happen in our net, and is it why Post-LN stalls? First look around, because others put the norm in other places:
#
# | place | half a block | used by |
# |---|---|---|
# | `pre` | $x + f(\mathrm{LN}(x))$ | GPT-2, Llama |
# | `post` | $\mathrm{LN}(x + f(x))$ | Transformer, BERT |
# | `peri` | $x + \mathrm{LN}(f(\mathrm{LN}(x)))$ | Gemma 2 and 3 |
# | `output` | $x + \mathrm{LN}(f(x))$ | OLMo 2 |
# | `keel` | $\mathrm{LN}(n\,x + f(\mathrm{LN}(x)))$, in a net with $n$ branches | [Keel, 2026](https://arxiv.org/abs/2601.19895) |
#
# All five were trained as you trained two, with eight seeds each: from Xavier's weights and from GPT-2's (a standard deviation of 0.02, and a factor that you will find in [11.7](#11.7-A-factor-for-each-branch)), at four learning rates. `look` draws the eight runs of one choice: at the left how much of the stream differs between tokens, after each block; at the right the size of each block's gradient.


# %% tags=["export", "behind"]
# Five places for the norms of a block.
class Placed(nn.Module):
    """A block of CharGPT with its two norms in another place: "pre", "post", "peri", "output",
    "keel". forward: x (B, T, C) -> (B, T, C).

    Experiments set: skip, factors on the two skips, with "post". own: take away what a branch
    returns for all tokens alike; common: a row (C,) for each branch, added to it. scale: of
    what the norms before the branches return.
    """

    def __init__(self, block, width, place, branches=24):
        super().__init__()
        self.branches = nn.ModuleList([block.attend, block.mlp])
        self.before = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.after = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.place, self.alpha = place, branches
        self.skip, self.common, self.own, self.scale = [1.0, 1.0], None, False, 1.0
        self.returned = [None, None]

    def forward(self, x):
        for i, f in enumerate(self.branches):
            first = self.place in ("pre", "peri", "keel")
            y = f(self.before[i](x) * self.scale if first else x)  # (B, T, C)
            if self.own:
                y = y - y.mean((0, 1), keepdim=True)
            if self.common is not None:
                y = y + self.common[i]
            self.returned[i] = y
            if self.place in ("peri", "output"):
                y = self.after[i](y)
            if self.place == "post":
                x = self.after[i](self.skip[i] * x + y)
            elif self.place == "keel":
                x = self.after[i](self.alpha * x + y)
            else:
                x = x + y
        return x


# %% tags=["export", "behind"]
# Starts a model with its norms in a place.
def start_as(gpt, start):
    """Draw initial weights anew with a standard deviation of 0.02: those that start names."""
    for name, module in gpt.named_modules():
        kind = {nn.Linear: "small linears", nn.Embedding: "small embeddings"}.get(type(module))
        if kind and start in (kind, "GPT-2"):
            nn.init.normal_(module.weight, std=0.02)
            if start == "GPT-2" and name.endswith(("attend.out", "mlp.2")):
                with torch.no_grad():  # the last linear layer of a branch
                    module.weight /= math.sqrt(2 * len(gpt.blocks))


def placed(place, start="Xavier", layers=12):
    """A CharGPT with its norms in a place, and its weights drawn as start says."""
    gpt = CharGPT(layers=layers, norm=nn.LayerNorm, place=None)
    width = gpt.head.in_features
    start_as(gpt, start)
    gpt.blocks = nn.ModuleList([Placed(b, width, place, 2 * layers) for b in gpt.blocks])
    if place in ("pre", "peri", "output"):
        gpt.final = nn.LayerNorm(width)
    return gpt


# %% tags=["hide-input"]
# look: draws eight recorded runs of the atlas.
atlas = evidence.load("atlas")  # (places, starts, rates, seeds, ...) each
CHOICES = {
    "place": ["pre", "post", "peri", "output", "keel"],
    "start": ["Xavier", "GPT-2"],
    "rate": [0.001, 0.003, 0.01, 0.03],
}


def look(place="post", start="Xavier", rate=0.003):
    """Print and draw what the eight runs at this point of the atlas did."""
    chosen = dict(place=place, start=start, rate=rate)
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ValueError(f"{name} is {value!r}, expected one of {CHOICES[name]}.")
    at = tuple(CHOICES[name].index(value) for name, value in chosen.items())
    here = {key: values[at] for key, values in atlas.items()}
    print(f"loss {here['loss'].min():.2f} to {here['loss'].max():.2f}")
    parts = (
        ("differs between tokens", range(13), {"start": "unlike_start", "end": "unlike"}),
        ("gradient before the first step", range(1, 13), {"start": "gradient_start"}),
    )

    def draw(axes):
        for ax, (name, blocks, curves) in zip(axes, parts, strict=True):
            for when, key in curves.items():
                color = "#8A9097" if when == "start" else plot.COLORS["LayerNorm"]
                ax.plot(list(blocks), here[key].T, color=color, lw=1, alpha=0.8)
                if len(curves) == 2:
                    where = (0.04, 0.16 if when == "start" else 0.05)
                    ax.text(*where, when, color=color, transform=ax.transAxes)
            low, high = (math.log10(edge) for edge in ax.dataLim.intervaly)
            ax.set(yscale="log", ylim=(10 ** math.floor(low), 10 ** math.ceil(high)))
            ax.set_title(name, fontsize=11, loc="left")
            ax.set(xlabel="block", xticks=range(0, 13, 3))

    plot.figure(
        draw,
        ncols=2,
        size=(8.6, 2.8),
        title=f"Eight runs of {place} from {start}'s start, rate {rate}",
        caption="A line is a run: gray before training, blue after 150 steps. Left, as a share "
        f"of the stream; {evidence.note('atlas')}.",
        alt="Two panels over the blocks, from the smallest to the largest number of runs: "
        + "; ".join(
            f"{key} {here[key].min():.2g} to {here[key].max():.2g}"
            for key in ("unlike_start", "unlike", "gradient_start")
        ),
    )


# %%
look("post", start="Xavier", rate=0.003)  # yours; or "GPT-2"; 0.001, 0.003, 0.01, 0.03

# %% [markdown]
# **Find out:** which choice of place, start and rate ends lowest? And where Post-LN stalls, is it to be seen before the first step? Write a guess for each, then look at three or four choices.
#
# <details><summary>What there is to find, once you have looked</summary>
#
# Lowest are Post-LN and Keel from GPT-2's start: {atlas[post, GPT-2, 0.003].loss:range} and {atlas[keel, GPT-2, 0.003].loss:range} at 0.003. Pre-LN's best is {atlas[pre, Xavier, 0.003].loss:range}, from Xavier's start at 0.003, so the lead is small. (Takase et al., 2022, and Keel see such a lead in large models.) A Post-LN that learns does not always lead: from Xavier's start at 0.001 it ends at {atlas[post, Xavier, 0.001].loss:range}, Pre-LN at {atlas[pre, Xavier, 0.001].loss:range}. All places but Post-LN come below 2.9 at every rate from both starts.
#
# Before the first step one sees a part of it: after the last block {atlas[post, Xavier, 0.003].unlike_start[12]:range} of the stream differs between tokens, in Pre-LN {atlas[pre, Xavier, 0.003].unlike_start[12]:range}. After 1, 2, 5 and 10 steps of training it is {own_part[nothing].early[1]:mean}, {own_part[nothing].early[2]:mean}, {own_part[nothing].early[3]:mean} and {own_part[nothing].early[4]:mean} (means of four runs). So the net makes its tokens alike while it takes its first steps. The gradients do not say who stalls: the most uneven ones, of `output` from GPT-2's start, belong to runs that learn.
#
# {atlas:again} {own_part:again}
#
# </details>
#
# ## 11.6 Cause or symptom
#
# In most runs that stall, next to nothing differs between tokens at the end. That may be the cause, or one more symptom. So take it away, and see whether the patient gets well; bring it in, and see whether a healthy net falls ill. The patient is Post-LN from Xavier's start at 0.003, the control is Pre-LN. Two interventions:
# - **own part**: from what a branch returns, its mean over all tokens of the batch is subtracted, so that nothing is added to all alike;
# - **common row**: the own part, and a fixed row that is the same for all tokens, of mean square 0.3, 1 or 3.

# %% tags=["hide-input"]
# tried: the recorded runs of a change.
changed = evidence.load("causes")["loss"]  # (stacks, changes, seeds)
alone = evidence.load("own_part")["loss"]  # (changes, seeds), of Post-LN
CHANGES = [
    *("nothing", "warm-up", "slow last blocks", "slow first blocks", "memory of 10 steps"),
    *("memory cleared", "own part", "common row 0.3", "common row 1", "common row 3"),
    *("wide skips", "scaled branches", "quiet deep norms"),
]
CONTROLS = ["own part, as large as the branch", "branch, as small as its own part"]


def tried(*changes):
    """Print the losses of Post-LN and Pre-LN with each change, after 150 steps."""
    for change in changes:
        if change in CONTROLS:
            runs = {"Post-LN": alone[2 + CONTROLS.index(change)]}
        elif change in CHANGES:
            runs = dict(
                zip(("Post-LN", "Pre-LN"), changed[:, CHANGES.index(change)], strict=True)
            )
        else:
            raise ValueError(f"{change!r} was not tried. Expected one of {CHANGES + CONTROLS}.")
        losses = (f"{name} {run.min():.2f} to {run.max():.2f}" for name, run in runs.items())
        print(f"{change:34}", ", ".join(losses))


# %%
tried("nothing", "own part", "common row 0.3", "common row 1", "common row 3")

# %% [markdown]
# The larger the row, the less Post-LN learns, and Pre-LN hardly notices. Without the common part Post-LN is healed.
#
# **Predict 11.2:** but a branch without its common part is also *smaller*, and it may be the size that heals. Which run could refute that it is the common part?
# - [ ] Post-LN with the whole branch, made as small as its own part :: If that heals too, there are two cures. It does not say what the first one does.
# - [x] Post-LN with the own part alone, made as large as the whole branch was :: Only the common part is missing, and the size is as before. If the net stalls now, it was the size.
# - [ ] Pre-LN with the own part alone :: That is the control for harm. Pre-LN does not stall, so nothing can be healed there.

# %%
tried("nothing", "own part, as large as the branch", "branch, as small as its own part")

# %% [markdown]
# At its full size the own part still learns, if less well, so it was not the size alone. The last line shows a second cure: where the whole branch is small, so is what it adds to all tokens, and the net learns. And the rows that were brought in above say that to make tokens alike is enough to hold a Post-LN stack back. There is more than one way out. Warm-up and wider skips are others ([Deeper](#What-others-blame)).
#
# **Take the cause away, bring it in, and watch a control.**
#
# <details><summary>When this holds</summary>
#
# At 0.003, in 12 blocks of 32 features that read letters for 150 steps; from GPT-2's start Post-LN stalls at 0.03 although its tokens stay unlike ({atlas[post, GPT-2, 0.03].loss:range} in {atlas[post, GPT-2, 0.03]:n} runs). The mean over the batch knows later letters, so a net with its own part alone reads ahead, as the tagger of [lesson 10](10_rnn.ipynb#10.1-Hunt-the-leak) did. That is not what heals it: with these means of a thousand words as constants its loss is {own_part[own part].frozen:range}. To subtract as constants the common rows that are there *before* training heals nothing ({own_part[without the first common part].loss:range}). {causes:again} {own_part:again}
#
# </details>
#
# ## 11.7 A factor for each branch
#
# Now the sliders of [section 11.1](#11.1-Play) have something in common: fewer blocks bring fewer divisions, smaller weights bring smaller ones, and smaller first steps keep them small.
#
# GPT-2 also shrinks the *last* linear layer of each branch. If $n$ branches add rows of mean square $v$ that have nothing to do with each other, all together add $n\,v$. By which factor must each row be multiplied, so that all together add $v$?


# %% tags=["exercise"] id="ex-11-3"
# Exercise 11.3 · ●●●○○ · 4 min
def scale_branches(model):
    """Shrink what every branch adds, so that all together add as much as one did before.

    Example: in a model of 8 blocks, so with 16 branches, the weights are divided by 4.
    model: a CharGPT (or another model with its names). A block has two branches, whose last
    linear layers are block.attend.out and block.mlp[2]. Their weights are multiplied in
    place, all by one factor. Everything else stays, the biases too. Returns nothing.
    """
    ### BEGIN SOLUTION
    n = 2 * len(model.blocks)
    with torch.no_grad():
        for block in model.blocks:
            block.attend.out.weight /= math.sqrt(n)
            block.mlp[2].weight /= math.sqrt(n)
    ### END SOLUTION


# %% tags=["check"]
check.scale_branches(scale_branches)

# %% [markdown]
# <details><summary>Hint</summary>
#
# A factor $c$ on a row multiplies its mean square by $c^2$. Weights are changed in place under `torch.no_grad()`, for example with `weight *= c`.
#
# </details>
#
# Does your factor heal the patient of the opening?

# %% tags=["nbval-ignore-output"]
learn_words("post", start=scale_branches)  # yours: layers, rate, start

# %% [markdown]
# It does: after 100 steps Post-LN is where Pre-LN was. **Find out:** how far does the factor carry? Guess, and try the rate 0.01; then `None` in the place of `"post"`, which is a net without any norm, with your factor and without it.
#
# <details><summary>What there is to find</summary>
#
# At 0.01 Post-LN stalls again. The net without any norm learns at both rates, but not without the factor: after 100 steps at 0.003 its loss is {transformer_gpt[5].validation[3]:range .0f}. {transformer_gpt:again}
#
# </details>
#
# If you expected a net of twelve blocks to need a norm, look again: with your factor it comes as low without one. So in this net LayerNorm does nothing that first weights cannot do. (Fixup, [Zhang et al., 2019](https://arxiv.org/abs/1901.09321), trains deep nets in this way.) What the norm on the branch buys is that the start matters little: Pre-LN learns with the factor and without it, where the net without norms is lost.
#
# **Fewer branches, smaller branches, smaller steps: each of them can help Post-LN. With small branches this net needs no norm at all.**
#
# <details><summary>When this holds</summary>
#
# In this small net, after 150 steps. With the factor, at 0.003: no norm {nowhere[None, 0.003].loss:range}, Pre-LN {nowhere[pre, 0.003].loss:range}, Post-LN {nowhere[post, 0.003].loss:range}; at 0.01: no norm {nowhere[None, 0.01].loss:range}, Pre-LN {nowhere[pre, 0.01].loss:range}, Post-LN {nowhere[post, 0.01].loss:range}. Without factor and norm, at 0.003: {transformer_gpt[5].validation[5]:range .0f}. {nowhere:again} {transformer_gpt:again} [Deeper](#The-rate,-and-warm-up) has more rates.
#
# </details>
#
# ## 11.8 A stream that grows
#
# What does Pre-LN pay? Nobody divides its stream, and every branch adds to it. Here is its mean square after the last block, before training.


# %% tags=["hide-input"]
# Measures the stream after the last block.
@torch.no_grad()
def stream_of(layers, scaled):
    """Mean square of the stream after the last Pre-LN block, before training."""
    torch.manual_seed(119)
    model, kept = CharGPT(layers=layers), []
    if scaled:
        scale_branches(model)
    model.final.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    model(batch(torch.Generator().manual_seed(120))[0])
    return kept[0].square().mean().item()


# %%
for layers in (4, 16, 64):
    grown, held = stream_of(layers, scaled=False), stream_of(layers, scaled=True)
    print(f"{layers:2} layers: stream {grown:4.0f}, with scaled branches {held:3.1f}")

# %% [markdown]
# So what reaches the output layer would depend on the depth. GPT-2 starts with scaled branches, and has one more norm after the last block.
#
# **A Pre-LN stack ends in the bare stream, so give it a final norm.**
#
# <details><summary>How much does it matter?</summary>
#
# In our net, twelve layers and Xavier's start, not much: with the final norm four runs end at {transformer_gpt[2].validation[5]:range}, without it at {transformer_gpt[19].validation[5]:range}. {transformer_gpt:again}
#
# </details>
#
# ## Take-away
#
# - Where the norm stands, in two lines: [What you have now](#What-you-have-now).
# - A deep Post-LN stack can stall: where branches add the same to all tokens, each norm divides the rest.
# - From GPT-2's start Post-LN ended as low as any place that we tried.
# - Fewer branches, smaller branches, smaller steps can help. GPT-2 divides the last weights of each of $n$ branches by $\sqrt n$, and with that our net learned without any norm.
# - Pre-LN's stream grows, so a final norm comes before the output layer.
#
# ## Deeper (optional, 16 min)
#
# ### The rate, and warm-up
#
# The opening's runs are two of twenty recorded settings with four seeds each. **Warm-up** means that the rate rises from 0, here over the first 75 of 150 steps.

# %% tags=["hide-input"]
# Draws the loss over three rates.
final = losses[:, :, -1]  # (settings, seeds)
rows = {"Pre-LN": [12, 2, 15], "Post-LN": [13, 3, 16], "Post-LN + warm-up": [14, 4, 17]}
plot.lines(
    [1e-3, 3e-3, 1e-2],
    {name: final[row].T for name, row in rows.items()},  # (seeds, rates) each
    xlog=True,
    href={"letter frequencies": 2.94, "bigram table": 2.47},
    ylim=(2.2, 3.1),
    title="The larger the rate, the fewer Post-LN runs learn; warm-up helps in the middle",
    x="learning rate",
    y="nats a character after 150 steps",
    caption="Validation loss, 12 layers, Xavier's start; warm-up over the first 75 of 150 "
    f"steps; {evidence.note('transformer_gpt')}.",
    alt="Three curves over three learning rates, 0.001, 0.003 and 0.01, means of four runs: "
    + "; ".join(
        f"{name} {', '.join(f'{loss:.2f}' for loss in final[row].mean(1).tolist())}"
        for name, row in rows.items()
    ),
)

# %% [markdown]
# At 0.001 Post-LN learns, warm-up or not. At 0.003 warm-up helps, in one of four runs little ({transformer_gpt[4].validation[5]:each}). {transformer_gpt:again}
#
# ### What others blame
#
# Xiong et al. ([2020](https://arxiv.org/abs/2002.04745)): the last blocks' gradients are too large at first, so warm up. In the stall of [section 11.6](#11.6-Cause-or-symptom) warm-up helps every run ({causes[post, warm-up].loss:range}). A tenth of the rate for the last half of the blocks helps some runs ({causes[post, slow last blocks].loss:range}), but so does a tenth for the first half ({causes[post, slow first blocks].loss:range}): where is not all that matters.
#
# Liu et al. ([2020](https://arxiv.org/abs/2004.08249)): a small change of the weights moves the output too much; neither the gradients nor Adam's memory is to blame. Wider skips (*Admin*) help every run ({causes[post, wide skips].loss:range}), a memory of 10 steps little ({causes[post, memory of 10 steps].loss:range}), a cleared one few or none ({causes[post, memory cleared].loss:range}). {causes:again}
#
# ### A final norm where it is due
#
# PyTorch's `nn.TransformerEncoder` leaves the final norm of [section 11.8](#11.8-A-stream-that-grows) to you, also under `norm_first=True`.


# %% tags=["exercise", "optional"] id="ex-11-4"
# Exercise 11.4 · ●●○○○ · 2 min
def encoder(width, heads, layers, norm_first):
    """An nn.TransformerEncoder, with a final norm only if its blocks need one after them.

    Example: encoder(8, 2, 3, norm_first=True) has 7 norms, and with norm_first=False 6.
    norm_first: whether the blocks are Pre-LN. Your line binds final, a LayerNorm or None.
    """
    ### BEGIN SOLUTION
    final = nn.LayerNorm(width) if norm_first else None
    ### END SOLUTION
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    return nn.TransformerEncoder(layer, layers, norm=final, enable_nested_tensor=False)


# %% tags=["check", "optional"]
check.encoder(encoder)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What does a Post-LN block end in? And a Pre-LN block? The final norm has the width of a token.
#
# </details>
#
# ### Clinic: two norms in a row
#
# | model | place | norm | norms |
# |---|---|---|---|
# | Transformer (2017) | Post-LN | LayerNorm | encoder 6 · 2, decoder 6 · 3: 30 |
# | BERT base, 12 layers | Post-LN | LayerNorm | 2 a layer, and one on the embeddings: 25 without the head |
# | GPT-2 small, 12 blocks | Pre-LN | LayerNorm | 2 a block, and one after the last block: 25 |
# | Llama 7B, 32 blocks | Pre-LN | RMSNorm | 2 a block, and one after the last block: 65. The second is called `post_attention_layernorm`, and is on the branch, before the MLP |
#
# The patient is `nn.Transformer`, PyTorch's model of 2017: Post-LN, six encoder and six decoder layers. By the first row it should have 30 norms.

# %%
patient = nn.Transformer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
print("norms:", sum(isinstance(module, nn.LayerNorm) for module in patient.modules()))

# %% [markdown]
# A norm is superfluous, before training, if what goes *in* is normalized already. Write that test; a folded helper asks it at every norm.


# %% tags=["exercise", "optional"] id="ex-11-5"
# Exercise 11.5 · ●●○○○ · 3 min
def already_normalized(h, tolerance=0.01):
    """Whether every row of h is as LayerNorm leaves it at gain 1 and bias 0.

    Example: True for (1, -1, 1, -1), False for (2, -2, 2, -2) and for (2, 0, 2, 0).
    h: (..., D), which may need gradients. tolerance: how far the mean of a row may be from 0,
    and its biased variance from 1. h itself is not changed. Returns True or False.
    """
    ### BEGIN SOLUTION
    mean = h.mean(-1)  # (...)
    var = h.var(-1, correction=0)  # (...)
    return bool((mean.abs() < tolerance).all() and ((var - 1).abs() < tolerance).all())
    ### END SOLUTION


# %% tags=["check", "optional"]
check.already_normalized(already_normalized)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two conditions, each on every row: `(...).abs() < tolerance`, then `.all()`. LayerNorm's variance divides by D.
#
# </details>


# %% tags=["hide-input"]
# Asks the test at every norm of a model.
def norms_in_a_row(model, *inputs):
    """Names of the LayerNorms of model whose input is normalized already."""
    names = []

    def ask(name):
        return lambda module, inputs: (
            names.append(name) if already_normalized(inputs[0]) else None
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


g = torch.Generator().manual_seed(118)
source = 3 * torch.randn(2, 5, 8, generator=g)  # (B, T, C)
target = 3 * torch.randn(2, 4, 8, generator=g)  # (B, T, C)

# %%
norms_in_a_row(patient, source, target)

# %% [markdown]
# By default the class hands a final norm to its encoder and to its decoder ([pytorch#24930](https://github.com/pytorch/pytorch/issues/24930)), and under Post-LN the last layer ends in a norm already. The cure takes both away:

# %%
with torch.no_grad():
    with_both = patient(source, target)  # (B, T, C)
    patient.encoder.norm = patient.decoder.norm = None
    without = patient(source, target)  # (B, T, C)
show("largest change of the output", (with_both - without).abs().max().item(), digits=3)

# %% [markdown]
# Before training next to nothing changes, because a normalized row stays what it is, apart from $\epsilon$. After training the second norm normalizes what the first one's gain and bias have made.
#
# ## On your own
#
# 1. Write a `Block` of your own into a file in `work/mine`, with your `LayerNorm` in a third place: on both ends of the branch, `x + after(f(before(x)))` (Peri-LN, [lesson 12](12_family.ipynb)). Does a GPT of it learn? How does its stream grow?
# 2. Raise the depth from 6 to 12 in steps of 2. Where does Post-LN stall?
#
# Your layer can now stand in a deep GPT, in either place, and the GPT trains; it still cannot leave a trained net without changing what the net computes: [lesson 12](12_family.ipynb).
#
# ## Further reading
#
# - Vaswani et al. (2017), *Attention Is All You Need*: 3.1 for Post-LN, 5.3 for warm-up.
# - Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*: gradients before the first step, Theorem 1.
# - Noci et al. (2022), *Signal Propagation in Transformers*: tokens that become alike.
# - Radford et al. (2019), *Language Models are Unsupervised Multitask Learners* (GPT-2), part 2.3.

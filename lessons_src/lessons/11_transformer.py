# %% [markdown]
# # 11 · Transformers: where the norm goes
#
# A small language model reads words letter by letter and learns to say which letter comes next. It has twelve layers, and it exists twice, with the same batches and the same optimizer. One has each norm *after* a sum, the other one *before* a function.

# %% tags=["record", "hide-input"]
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import check, data, plot, runs, show, train  # one thread (LESSON_THREADS)
from lessonkit.mine import LayerNorm  # lesson 4

# %%
# (settings, runs, evaluations): runs that this lesson explains, recorded with seeds 100 to 103
losses = runs.recorded("transformer_gpt")["validation"].view(20, 4, 6)
show("norm after the sum:       loss of four runs", losses[3, :, -1], digits=2)
show("norm before the function: loss of four runs", losses[2, :, -1], digits=2)

# %% [markdown]
# After 150 steps the second model has learned something. The first one is near 2.95 in three of four runs. A model that ignores its input and knows only how often each letter occurs has a loss of 2.94. No number is infinite and no error is raised. When does that happen, and what helps?
#
# *About 81 min.* **You'll be able to**
# - write the Pre-LN block, and say what changes in Post-LN;
# - name the conditions under which the two train differently;
# - say what GPT-2 does to the initial weights of each branch, and why;
# - say why a Pre-LN stack gets a final norm, and which library adds none;
# - count the norms of GPT-2, BERT and Llama, and find two norms in a row.
#
# **You need** lessons [4](04_affine_and_module.ipynb) (the module), [5](05_softmax.ipynb) (softmax) and [8](08_geometry.ipynb) (RMSNorm).
#
# **Recall 11.1:** a recurrent net has the hidden state `h` of shape (B, H) = (16, 32) at each of 20 time steps. LayerNorm normalizes `h` inside the recurrence. How many means does it take in one step?
# - [ ] 1 :: One mean for the whole batch would mix the samples. Each row has its own.
# - [x] 16 :: One for each sample of the batch, over its 32 features.
# - [ ] 32 :: That is one for each feature, as BatchNorm takes them over the batch.
#
# **Recall 11.2:** at gain 1, bias 0 and $\epsilon = 0$, which rows come out of RMSNorm as they come out of LayerNorm?
# - [x] rows with mean 0 :: RMSNorm leaves out only the centering. Where the mean is 0 there is nothing to center, and the mean square is the variance.
# - [ ] rows with variance 1 :: With a mean of 5 their mean square is 26, so RMSNorm divides by 5.1 and leaves the mean in.
# - [ ] none :: There is one kind of row for which centering changes nothing.
#
# **Recall 11.3:** one of four scores is $-\infty$, the others are finite. What does softmax make of it?
# - [ ] nan :: That happens if *all* scores of a row are $-\infty$.
# - [ ] a very small share :: $e^{-\infty}$ is exactly 0.
# - [x] a share of 0, and the other three sum to 1 :: This is how a mask keeps attention away from a place.

# %% [markdown]
# ## 11.1 Attention in twelve lines
#
# Where in a Transformer do tokens meet? Its input is a sequence of **tokens**, T vectors of C numbers, here one for each letter of a word. Only **attention** lets one token look at another.
#
# Each token sends a query $q$ and shows a key $k$ and a value $v$. The score of a pair is $q \cdot k/\sqrt d$. A softmax over all keys turns the scores of one query into weights, and the answer is the weighted mean of the values.
# In a *causal* model a token sees itself and the tokens before it, so the scores of later tokens are set to $-\infty$.


# %% tags=["export", "record"]
def attention(q, k, v, causal=True):
    """Every token asks, and gets a mean of the values that it may see, weighted by q · k.

    q, k, v: (..., T, d). causal: a token sees itself and the tokens before it, no later ones.
    Returns (..., T, d).
    """
    T, d = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)  # (..., T, T) a row for each query
    if causal:
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)  # (T, T)
        scores = scores.masked_fill(future, -math.inf)
    return scores.softmax(-1) @ v  # (..., T, d)


# %% [markdown]
# **Predict 11.1:** all queries are zeros. What does the *first* of three tokens get, in a causal model?
# - [ ] the mean of the three values :: It would get that without the mask. The first token sees no later one.
# - [x] its own value :: It sees only itself, and one share among one is 1.
# - [ ] zeros :: The query decides the weights only. What is averaged are the values.

# %%
q, k = torch.zeros(3, 5), torch.ones(3, 5)  # (T, d) each
v = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]])  # (T, d_v)
show("causal", attention(q, k, v), digits=1)
show("not causal", attention(q, k, v, causal=False), digits=1)

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(111)
q, k, v = torch.randn(3, 2, 4, 6, 8, generator=g)  # (B, heads, T, d) each
y = attention(q, k, v)  # (B, heads, T, d)
# float32, numbers of order 1
assert (y - F.scaled_dot_product_attention(q, k, v, is_causal=True)).abs().max() < 1e-5
k[..., -1, :], v[..., -1, :] = 5.0, 5.0
moved = (attention(q, k, v) - y).abs().amax((0, 1, 3))  # (T,) the last token was changed
assert moved[:-1].max() < 1e-6 < 0.1 < moved[-1]

# %% [markdown]
# Every query of zeros scores all keys alike, so each token gets the mean of what it may see. PyTorch's `F.scaled_dot_product_attention` computes the same.
#
# One attention mixes all features with the same weights. So `Attention(width, heads)`, folded here, divides them among several **heads**, each with its own softmax, and a linear layer puts them together again.


# %% tags=["export", "record", "hide-input"]
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
# So tokens meet in the softmax of the attention, and everything else in the model, its norms included, treats each token alone.

# %% [markdown]
# ## 11.2 A block, and two places for its norms
#
# Where does the norm go? A block has two functions, attention and an MLP that treats each token alone. A **skip** leads around each of them, $x + f(x)$ (the *residual connection* of [lesson 4](04_affine_and_module.ipynb)), so both the signal and its gradient always have a path around $f$. The picture shows one function with its skip; a block has two of these.

# %% tags=["hide-input"]
plot.blocks(
    {
        "Post-LN": {"branch": ["f"], "after": ["LN"]},
        "Pre-LN": {"branch": ["LN", "f"]},
        "DeepNorm": {"branch": ["f"], "skip": ["× α"], "after": ["LN"]},
        "Peri-LN": {"branch": ["LN", "f", "LN"]},
    },
    title="The norm is on the stream itself, or only on the branch",
    caption="Four published places for the norm. f is attention or the MLP. In DeepNorm α is "
    "larger than 1, and some of the initial weights in f are made smaller.",
    alt="Four block diagrams side by side, input x at the bottom, output y at the top; a line "
    "goes straight up, a branch with a gray box f leads around it into a sum. Post-LN: a blue "
    "box LN on the line after the sum. Pre-LN: LN on the branch, before f. DeepNorm: like "
    "Post-LN, and a box times alpha on the straight line before the sum. Peri-LN: LN on the "
    "branch before f and a second one after f.",
)

# %% [markdown]
# **Post-LN** is the block of the Transformer of 2017: the norm comes after the sum, so everything passes through it. **Pre-LN** is the block of GPT-2 (2019): the norm is on the branch, and nothing on the straight line changes what a block has added. This line through all blocks is called the **residual stream**.
# In every place LayerNorm takes its B · T means over the C features of one token. [Lesson 12](12_family.ipynb) comes back to DeepNorm and Peri-LN.
#
# **Predict 11.2:** a function $f$ has learned to return zeros. What does its part of the block return?
# - [x] $x$ in Pre-LN, LN(x) in Post-LN :: In Pre-LN a branch of zeros leaves the stream as it is. In Post-LN even then every token is normalized.
# - [ ] $x$ in both places :: The skip gives $x$, but in Post-LN the norm is still to come.
# - [ ] zeros in both places :: The skip leads around $f$.


# %% tags=["exercise"] id="ex-11-1"
# Exercise 11.1 · ●●○○○ · 4 min
def pre_ln(x, attend, mlp, norm1, norm2):
    """A Pre-LN block: attention, then MLP, each with its norm and its skip.

    x: (B, T, C). attend, mlp, norm1, norm2: functions (B, T, C) -> (B, T, C); norm1 belongs to
    attend, norm2 to mlp.
    Returns (B, T, C); x itself is not changed.
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
# Read the picture named Pre-LN from the bottom to the top, twice. The second half starts from the sum that the first half made.
#
# </details>
#
# The course's `Block(width, heads, norm, place)`, folded here, serves all places with one line, `after(x + function(before(x)))`, where a norm that is not wanted is `nn.Identity()`. With the same parts your block and the course's return the same, up to rounding:


# %% tags=["export", "record", "hide-input"]
class Block(nn.Module):
    """A Transformer block: attention between tokens, then an MLP on each, both with a skip.

    width: C. heads: of the attention. norm: function (width) -> module. causal: whether a token
    sees no later one.
    place: where the norms are. "pre": on the branch, before its function. "post": after the
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


# %% tags=["hide-input"]
g = torch.Generator().manual_seed(112)
x = 3 * torch.randn(2, 5, 8, generator=g)  # (B, T, C)
block = Block(8, heads=2)
mine = pre_ln(x, block.attend, block.mlp, block.before1, block.before2)  # (B, T, C)
show("largest difference", (mine - block(x)).abs().max().item(), digits=4)

# %% tags=["hide-input"]
assert (mine - block(x)).abs().max() < 1e-5  # the same operations on numbers of order 10
dead = Block(8, heads=2, place="post")
with torch.no_grad():
    for layer in (dead.attend.out, dead.mlp[2]):
        layer.weight.zero_(), layer.bias.zero_()
# prediction 11.2; eps = 1e-5 of a variance near 9, twice
assert (dead(x) - F.layer_norm(x, (8,))).abs().max() < 1e-3

# %% [markdown]
# So the norm goes after the sum (Post-LN), where nothing gets around it, or on the branch (Pre-LN), where the stream passes by.

# %% [markdown]
# ## 11.3 A GPT for words
#
# On what do we compare the two places? The text is 63,240 English words. The model reads a word letter by letter and says at every place what comes next. It is trained on all but 2,000 words, and we look at its loss on 300 of those.
# `encode` turns words into rows of 16 numbers: a to z are 1 to 26, and 0 is the start and the end.


# %% tags=["export", "record", "hide-input"]
def encode(words, T=16):
    """Words as numbers: a to z are 1 to 26; 0 is the start, the end and the rest of the row.

    Returns x (N, T), each word after a 0, and y (N, T), what comes next; -100 marks places
    without a question.
    """
    rows = [[0, *(ord(letter) - 96 for letter in word)] for word in words]
    x = [row + [0] * (T - len(row)) for row in rows]
    y = [row[1:] + [0] + [-100] * (T - len(row)) for row in rows]
    return torch.tensor(x), torch.tensor(y)


# %%
for name, numbers in zip("xy", encode(["norm"], T=6), strict=True):
    show(name, numbers)


# %% tags=["record", "hide-input"]
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
# The loss is the mean cross-entropy in nats a character (a nat is the unit of the natural logarithm). Blind guessing among 27 symbols costs $\ln 27 = 3.30$. Two tables that need no net say how to read a lower loss: how often each letter occurs, and how often each letter follows each other one (a *bigram* table).

# %% tags=["hide-input"]
x, y, x_new, y_new = corpus()  # training words, then 300 new ones
asked, asked_new = y >= 0, y_new >= 0
pairs = torch.zeros(27, 27, dtype=torch.float64)  # how often each symbol follows each other
pairs.index_put_((x[asked], y[asked]), torch.ones(()).double(), accumulate=True)
letters = pairs.sum(0) / pairs.sum()  # (27,)
follows = pairs / pairs.sum(1, keepdim=True)  # (27, 27) rows sum to 1
unigram = -letters[y_new[asked_new]].log().mean().item()
bigram = -follows[x_new[asked_new], y_new[asked_new]].log().mean().item()
show("letter frequencies", unigram, digits=2)
show("bigram table      ", bigram, digits=2)

# %% tags=["hide-input"]
assert 2.943 < unigram < 2.945 and 2.472 < bigram < 2.474  # counted, not drawn

# %% [markdown]
# The model, `CharGPT` (folded), has embeddings of letter and position, twelve blocks of width 32, and a last linear layer; one percent of its 154,779 parameters is in its norms. Under `"pre"` there is a final norm before the last layer; [section 11.7](#11.7-The-growing-stream,-and-why-a-final-norm) says why.
# Its linear layers start with Xavier's uniform weights, whose variance is 2 / (inputs + outputs), and its embeddings with standard deviation 1.


# %% tags=["export", "record", "hide-input"]
class CharGPT(nn.Module):
    """A character-level GPT: what comes next, for each position of a text.

    symbols: size of the alphabet. context: most tokens T. width, heads, norm, place: of the
    blocks. layers: how many. With place="pre" there is a final norm before the output layer.
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


# %% tags=["hide-input"]
gpt = CharGPT()
held = sum(p.numel() for m in gpt.modules() if isinstance(m, LayerNorm) for p in m.parameters())
total = sum(p.numel() for p in gpt.parameters())
assert total == 154_779 and 0.0100 < held / total < 0.0105

# %% [markdown]
# So we compare on the next letter of a word, where a model below 2.47 knows more than pairs of letters.

# %% [markdown]
# ## 11.4 Four curves
#
# What does the place of the norm do to training? Every run uses Adam at a learning rate of 0.003 and 150 steps of 32 words, and no run is stopped early. **Warm-up** means that the rate rises linearly from 0, here over the first 75 steps.


# %% tags=["record", "hide-input"]
def nats(logits, y):
    """Mean cross-entropy in nats a character: logits (B, T, symbols), y (B, T)."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def validation(model):
    """Nats a character on 300 words that no model trains on."""
    *_, x, y = corpus()
    # (N, T, symbols), a hundred words at a time: faster
    logits = torch.cat([model(some) for some in x.split(100)])
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
# Twenty settings take long, so they are **recorded**. Folded cells hold the table and its function; `rerun=True` makes it again.

# %% tags=["record", "hide-input"]
# layers, place, norm, learning rate, warm-up steps, initial weights, final norm
settings = [
    [6, "post", "LayerNorm", 3e-3, 0, "Xavier", True],
    [6, "pre", "LayerNorm", 3e-3, 0, "Xavier", True],
    [12, "pre", "LayerNorm", 3e-3, 0, "Xavier", True],
    [12, "post", "LayerNorm", 3e-3, 0, "Xavier", True],
    [12, "post", "LayerNorm", 3e-3, 75, "Xavier", True],
    [12, None, "LayerNorm", 3e-3, 0, "Xavier", True],
    [12, "pre", "LayerNorm", 3e-3, 0, "small embeddings", True],
    [12, "post", "LayerNorm", 3e-3, 0, "small embeddings", True],
    [12, "pre", "LayerNorm", 3e-3, 0, "small linears", True],
    [12, "post", "LayerNorm", 3e-3, 0, "small linears", True],
    [12, "pre", "LayerNorm", 3e-3, 0, "GPT-2", True],
    [12, "post", "LayerNorm", 3e-3, 0, "GPT-2", True],
    [12, "pre", "LayerNorm", 1e-3, 0, "Xavier", True],
    [12, "post", "LayerNorm", 1e-3, 0, "Xavier", True],
    [12, "post", "LayerNorm", 1e-3, 75, "Xavier", True],
    [12, "pre", "LayerNorm", 1e-2, 0, "Xavier", True],
    [12, "post", "LayerNorm", 1e-2, 0, "Xavier", True],
    [12, "post", "LayerNorm", 1e-2, 75, "Xavier", True],
    [12, "pre", "RMSNorm", 3e-3, 0, "Xavier", True],
    [12, "pre", "LayerNorm", 3e-3, 0, "Xavier", False],
]


# %% tags=["record", "hide-input"]
def start_as(gpt, start):
    """Draw initial weights anew with a standard deviation of 0.02: those that start names."""
    for name, module in gpt.named_modules():
        kind = {nn.Linear: "small linears", nn.Embedding: "small embeddings"}.get(type(module))
        if kind and start in (kind, "GPT-2"):
            nn.init.normal_(module.weight, std=0.02)
            if start == "GPT-2" and name.endswith(("attend.out", "mlp.2")):
                with torch.no_grad():  # the last linear layer of a branch
                    module.weight /= math.sqrt(2 * len(gpt.blocks))


def gpt_run(run, settings):
    """Run 4 s + k: setting s of the table with seed 100 + k. Returns 6 validation losses."""
    layers, place, norm, rate, warm_up, start, final = settings[run // 4]

    def model():
        kind = {"LayerNorm": nn.LayerNorm, "RMSNorm": nn.RMSNorm}[norm]  # PyTorch's: faster
        gpt = CharGPT(layers=layers, norm=kind, place=place)
        start_as(gpt, start)
        gpt.final = gpt.final if final else nn.Identity()
        return gpt

    history = study({"gpt": model}, seeds=[100 + run % 4], rate=rate, warm_up=warm_up)
    return {"validation": history["gpt"]["validation"][0]}


# %% tags=["record", "hide-input"]
recorded = runs.load_or_run(
    "transformer_gpt", gpt_run, seeds=range(80), tolerance=0.1, settings=settings
)


# %% tags=["hide-input"]
curves = recorded["validation"].view(20, 4, 6)  # (settings, seeds, evaluations)
final = curves[:, :, -1]  # (settings, seeds)
note = runs.note("transformer_gpt", "4 seeds a setting")
steps = range(25, 151, 25)
tables = {"letter frequencies": unigram, "bigram table": bigram}

# %% tags=["hide-input"]
plot.lines(
    steps,
    {"A": curves[4], "B": curves[5].clamp(max=100), "C": curves[2], "D": curves[3]},
    ylim=(2.2, 3.4),
    href=tables,
    colors={"A": "#7A5C00", "B": "#3D6B35", "C": "#8C3B7A", "D": "#444444"},
    title="At step 100 only C is below the bigram table, in each of four runs",
    x="training step",
    y="nats a character",
    caption=f"Validation loss on 300 words, 12 layers; {note}. B is above the picture from its "
    "first point on.",
    alt="Loss curves over 150 training steps with two dashed lines, letter frequencies at 2.94 "
    "and a bigram table at 2.47. C falls from 2.7 to below 2.4. A starts at the upper line and "
    "ends near 2.6 with a wide band. D stays near the upper line. B is above the picture.",
)

# %% tags=["hide-input"]
at_100 = curves[:, :, 3]  # (settings, seeds)
assert at_100[2].max() < bigram < at_100[3:6].min()  # loaded, so the same everywhere
assert (final[2] < final[4]).all() and (final[4] < final[3]).all()  # paired
assert curves[5].min() > 100  # B lies above the picture in every run, at every point

# %% [markdown]
# **Predict 11.3:** one curve is Pre-LN, one Post-LN, one Post-LN with warm-up, and one has no norm at all. Which is which?
# - [ ] A Pre-LN, B Post-LN, C Post-LN with warm-up, D no norm :: C falls from its first steps on. With warm-up the first steps are too small for that.
# - [ ] A no norm, B Post-LN with warm-up, C Pre-LN, D Post-LN :: B is worse than any guess. In a Post-LN model the last norm keeps the numbers of the output layer in bounds.
# - [x] A Post-LN with warm-up, B no norm, C Pre-LN, D Post-LN :: A waits while its rate is small, and then it falls. In B nothing bounds the stream. D stays near the letter frequencies.
#
# Now train two of them yourself, with other seeds and up to step 100 only. They train with lesson 4's `LayerNorm` (yours, if it passed), recorded runs with PyTorch's.

# %% tags=["nbval-ignore-output"]
trained, pre = {}, {"Pre-LN": lambda: CharGPT(place="pre")}
live = study(pre, seeds=range(2), steps=100, keep=trained)
train.table(live, "validation", digits=2)

# %% tags=["nbval-ignore-output"]
live |= study({"Post-LN": lambda: CharGPT(place="post")}, seeds=range(2), steps=100)
train.table(live, "validation", digits=2)

# %% tags=["hide-input"]
end = {name: history["validation"][:, -1] for name, history in live.items()}  # (seeds,) each
mean = {name: values.mean().item() for name, values in end.items()}
# 2.41 to 2.42 in the means of four sets of four seeds
assert mean["Pre-LN"] < 2.55
# 0.48 to 0.53 in these sets; here two seeds, and one in four may have begun to learn
assert mean["Post-LN"] - mean["Pre-LN"] > 0.25

# %% [markdown]
# After 100 steps Pre-LN is just below the bigram table, so it has begun to use more than the last letter. Post-LN is still at the letter frequencies, or has hardly left them. The recorded runs go on to step 150. There one of the four Post-LN runs without warm-up has begun to learn, and one of the four with warm-up is still at 2.8.
#
# So in this setting, for each of the four recorded seeds, Pre-LN ends lowest, then Post-LN with warm-up, then Post-LN without, and a model without any norm does not train.

# %% [markdown]
# ## 11.5 Depth, initial weights, rate
#
# Does Post-LN *need* a warm-up? So far every model had twelve layers, Xavier's weights and the rate 0.003. We change one of these at a time.
#
# **Predict 11.4:** six layers in place of twelve, no warm-up. Where does Post-LN end after 150 steps?
# - [ ] at the letter frequencies, as with twelve :: Then the place alone would be to blame. Depth has its part in it.
# - [x] below the bigram table, close to Pre-LN with six layers :: In these runs half the depth is enough to train without warm-up.
# - [ ] above 3.3, blind guessing :: Even the twelve layers learn the letter frequencies.

# %%
show("Post-LN,  6 layers", final[0], digits=2)  # (seeds,)
show("Pre-LN,   6 layers", final[1], digits=2)
show("Post-LN, 12 layers", final[3], digits=2)

# %% tags=["hide-input"]
assert final[0].max() < bigram and (final[0] - final[1]).abs().max() < 0.1  # loaded, paired

# %% [markdown]
# ### A smaller start
#
# With Xavier's weights $f(x)$ is of the same order as $x$ from the beginning. GPT-2 starts smaller: its linear layers have a standard deviation of 0.02, and the *last* linear layer of each branch is shrunk further, by a factor that depends on the number of branches.
# Say that each of $n$ branches adds a row of mean square $v$, and that the rows are independent and have mean 0. Then their sum has mean square $n\,v$. By which factor must each be multiplied, so that the sum has mean square $v$ again?


# %% tags=["exercise"] id="ex-11-2"
# Exercise 11.2 · ●●●○○ · 4 min
def scale_branches(model):
    """Shrink what every branch adds, so that all together add as much as one did before.

    model: a CharGPT (or another model with its names). A block has two branches; the last
    linear layers of these are block.attend.out and block.mlp[2]. Their weights are multiplied,
    in place, by one factor, so that n rows (n: all branches of the model) which are
    independent and have mean 0 sum to the mean square that one of them had.
    Everything else stays as it is, the biases too. Returns nothing.
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
# The record holds four starts: Xavier's; only the embeddings with standard deviation 0.02; only the linear layers with 0.02; and GPT-2's, here all weights with 0.02 and then your factor.
#
# **Predict 11.5:** with which start does Post-LN train without warm-up, at twelve layers and 0.003?
# - [ ] small embeddings :: The first norm makes every token's mean square 1 again, however small the embeddings were.
# - [ ] any of the three small ones :: Small embeddings leave $f(x)$ as large as it was, right after the first norm.
# - [x] small linear layers, and GPT-2's :: In both $f(x)$ is small at first, so each block is nearly LN(x), and twelve of them hardly change what comes in.

# %% tags=["hide-input"]
starts = ["Xavier", "small embeddings", "small linears", "GPT-2's"]
first = {"Xavier": 2, "small embeddings": 6, "small linears": 8, "GPT-2's": 10}  # Pre-LN's rows
small = {f"Post-LN, {start}": final[row + 1] for start, row in first.items()}
small |= {f"Pre-LN, {start}": final[row] for start, row in first.items()}
plot.bars(
    small,
    vref={"letter frequencies": unigram},
    xlim=(2.2, 3.1),
    fmt=".2f",
    colors={name: name.split(",")[0] for name in small},
    title="With small linear layers Post-LN ends as low as Pre-LN, in each of four runs",
    x="nats a character after 150 steps",
    caption=f"Validation loss, 12 layers, Adam at 0.003 without warm-up; {note}. Small means a "
    "standard deviation of 0.02; otherwise linear layers start as Xavier says and embeddings "
    "with a standard deviation of 1.",
    alt="Eight rows of points and a dashed line at 2.94, the letter "
    "frequencies. Post-LN is between 2.8 and 2.96 with Xavier's start and with small "
    "embeddings, near 2.37 with small linear layers and near 2.34 with GPT-2's start. Pre-LN "
    "is between 2.34 and 2.46 with all four, lowest with Xavier's.",
)

# %% tags=["hide-input"]
# loaded, so the same everywhere; (seeds,) paired
gap = {start: final[row + 1] - final[row] for start, row in first.items()}  # Post minus Pre
assert gap["small linears"].abs().max() < 0.02 and gap["small embeddings"].min() > 0.3
assert -0.1 < gap["GPT-2's"].min() and gap["GPT-2's"].max() < -0.045
cost = final[6] - final[2]  # (seeds,) of small embeddings, Pre-LN
assert 0.06 < cost.min() and cost.max() < 0.1

# %% [markdown]
# With small linear layers the two places are level, within 0.02 nats in each of the four pairs, and with GPT-2's start Post-LN even ends 0.05 to 0.1 nats lower. Small embeddings alone do not help Post-LN, and they cost Pre-LN 0.06 to 0.1 nats. So "Pre-LN trains better" needs the initial weights in its sentence.
# For our net 0.02 is a very small start: at width 32 Xavier's standard deviation of a square layer is 0.18, at GPT-2's width of 768 it is 0.036.
#
# ### A smaller rate

# %% tags=["hide-input"]
rates = [1e-3, 3e-3, 1e-2]
rows = {"Pre-LN": [12, 2, 15], "Post-LN": [13, 3, 16], "Post-LN + warm-up": [14, 4, 17]}
by_rate = {name: final[row].T for name, row in rows.items()}  # (seeds, rates) each
plot.lines(
    rates,
    by_rate,
    xlog=True,
    href=tables,
    ylim=(2.2, 3.1),
    title="At 0.01 only Pre-LN comes below the bigram table, in each of four runs",
    x="learning rate",
    y="nats a character after 150 steps",
    caption="Validation loss, 12 layers, Xavier's start; warm-up over the first 75 of 150 "
    f"steps; {note}.",
    alt="Three curves over three learning rates. Pre-LN is near 2.4 at all of them. Post-LN is "
    "at 2.51 at 0.001 and near the letter frequencies, 2.94, from 0.003 on. With warm-up it "
    "goes from 2.52 over 2.57 to 2.95 at 0.01.",
)

# %% tags=["hide-input"]
assert by_rate["Pre-LN"][:, 2].max() < bigram  # loaded
assert by_rate["Post-LN + warm-up"][:, 2].min() > 2.9 < by_rate["Post-LN"][:, 2].min()
above, warmed = final[13] - final[12], final[14] - final[13]  # (seeds,) paired, at 0.001
assert 0.07 < above.min() and above.max() < 0.17 and warmed.abs().max() < 0.05

# %% [markdown]
# At 0.001 Post-LN trains without warm-up and ends 0.08 to 0.16 nats above Pre-LN; warm-up changes that by less than 0.05 either way. At 0.003 warm-up decides in three of four runs. At 0.01 none of the four runs with warm-up ends below 2.9. Pre-LN trains at all three rates.
#
# So the place alone does not make Post-LN fail. In these runs it took three things together: twelve layers, Xavier's linear layers, and a rate of 0.003 without warm-up or 0.01 even with it. And Pre-LN trained over a wider range of rates and initial weights. (One small net, 150 steps, four runs a setting.)

# %% [markdown]
# ## 11.6 Gradients before the first step
#
# Can one see the difference before training? Xiong et al. (2020) bound the gradient of the last MLP weight from above (their Theorem 1): in one of the two places the bound does not depend on the number of layers L, in the other one it shrinks as $1/\sqrt{L}$. A bound is not a value, so we measure it, in the theorem's simpler net (attention averages over all tokens, width 128) and in our GPT.
#
# **Predict 11.6:** in which place does the gradient of the *last* MLP weight shrink with depth?
# - [x] Pre-LN, because the final norm divides by a stream that has grown :: Each block adds to the stream. The final norm divides by the size of the whole sum, and the gradient on its way back is divided by it, too.
# - [ ] Post-LN, because every block's norm divides it :: The last weight has only one norm after it, at every depth.
# - [ ] in both alike :: One norm comes after the last weight in both, but what it divides by differs.


# %% tags=["hide-input"]
def toy(place, L, seed, d=128, T=16, symbols=64):
    """Return the gradient norm of the last weight, and |x|²/d after the last block."""
    g = torch.Generator().manual_seed(seed)
    norm = LayerNorm(d)
    weights = torch.randn(L, 4, d, d, generator=g) / d**0.5  # Xavier's variance, 2 / (d + d)
    x = torch.randn(T, d, generator=g)
    head = torch.randn(d, symbols, generator=g) * (2 / (d + symbols)) ** 0.5
    last = weights[-1, 3].clone().requires_grad_()
    for i, (V, O, W1, W2) in enumerate(weights):
        W2 = last if i == L - 1 else W2
        for f in (
            lambda z, V=V, O=O: (z @ V @ O).mean(0, keepdim=True),  # (1, d) all tokens alike
            lambda z, W1=W1, W2=W2: (z @ W1).relu() @ W2,  # (T, d)
        ):
            x = x + f(norm(x)) if place == "pre" else norm(x + f(x))  # (T, d)
    out = norm(x) if place == "pre" else x  # (T, d)
    F.cross_entropy(out[:1] @ head, torch.zeros(1, dtype=torch.long)).backward()
    return last.grad.norm().item(), x.detach().square().sum(-1).mean().item() / d


def gpt_gradients(place, layers, seed):
    """Gradient norms of the last MLP weight in the first and last block of a new CharGPT."""
    torch.manual_seed(seed)
    model = CharGPT(layers=layers, place=place)
    x, y = batch(torch.Generator().manual_seed(1000 + seed), size=64)
    nats(model(x), y).backward()
    return [model.blocks[i].mlp[2].weight.grad.norm().item() for i in (0, -1)]


depths, few = [2, 4, 8, 16, 32, 64], [2, 8, 32]
sides = {"Pre-LN": "pre", "Post-LN": "post"}
toys = {
    name: torch.tensor([[toy(place, L, seed) for L in depths] for seed in range(8)])
    for name, place in sides.items()
}  # (seeds, depths, 2) each
theory = {name: values[..., 0] for name, values in toys.items()}  # (seeds, depths) each
stream = {name: values[..., 1] for name, values in toys.items()}  # (seeds, depths) each
both = {
    name: torch.tensor([[gpt_gradients(place, L, seed) for L in few] for seed in range(4)])
    for name, place in sides.items()
}  # (seeds, few, 2) each, first and last block
practice = {name: gradients[..., 1] for name, gradients in both.items()}  # (seeds, few) each

# %% tags=["hide-input"]
plot.panels(
    {"Theorem's net, width 128": (depths, theory), "CharGPT, width 32": (few, practice)},
    xlog=True,
    ylog=True,
    ylim=(0.1, 10),
    y="gradient of the last MLP weight",
    x="layers L",
    title="Pre-LN's last gradient shrinks with depth, Post-LN's does not",
    caption="Norm of the gradient of the last block's second MLP weight before the first step.",
    alt="Two panels with logarithmic axes. Left, in the setting of the theorem: Post-LN is "
    "flat near 7.5 from 2 to 64 layers, Pre-LN falls along a straight line from 6 to 1. "
    "Right, in the GPT: Post-LN rises from 0.6 to 1.2, Pre-LN falls from 0.4 to 0.3.",
)

# %% tags=["hide-input"]
root = theory["Pre-LN"].mean(0) * torch.tensor(depths).sqrt()  # (depths,)
assert root.max() / root.min() < 1.5  # 1.1 to 1.25 in eight sets of 8 seeds
flat = theory["Post-LN"].mean(0)  # (depths,)
assert flat.max() / flat.min() < 1.4  # 1.06 to 1.18 in these sets
# 5.5 to 6.6 in these sets: the root of 32 is 5.7
assert theory["Pre-LN"].mean(0)[0] / theory["Pre-LN"].mean(0)[-1] > 4
# (seeds, few) paired: the same weights and words
ratio = practice["Post-LN"] / practice["Pre-LN"]
# 1.4 to 1.8 at 2 layers, 3.5 to 11 at 32
assert (ratio[:, 0] < ratio[:, -1]).all() and (ratio[:, -1] > 2).all()
share = practice["Pre-LN"][:, -1] / practice["Pre-LN"][:, 0]  # (seeds,) 32 layers over 2
assert (share < 1).all()  # 0.42 to 0.85 in 12 nets, 0.68 to 0.75 in these four

# %% [markdown]
# Both directions of the theorem show, in its own setting and more weakly in our GPT: from 2 to 32 layers Pre-LN's gradient shrinks by 15 to 58 % in 12 nets, and $1/\sqrt L$ would be 75 %. The theorem speaks of the *last* block before the first step, and it does not prove that a large rate must fail. ([Deeper](#Does-Post-LN's-gradient-fade-towards-the-input?): what happens in the *first* block.)
#
# So before training Pre-LN's last gradient shrinks as the stream grows with depth, and Post-LN's does not.

# %% [markdown]
# ## 11.7 The growing stream, and why a final norm
#
# How large does the stream become? In Post-LN every block ends in a norm, so before training what comes out has mean square 1. In Pre-LN each block adds to the stream, and nothing rescales it.
#
# **Predict 11.7:** in the theorem's net the stream starts with mean square 1. How large is it on average after 64 Pre-LN blocks, before training?
# - [ ] about 1, because each branch is normalized :: The *input* of each branch is normalized. What it adds stays in the stream.
# - [ ] about 8, the root of 64 :: Independent rows add their mean squares, so the mean square grows with L, and its root with $\sqrt L$.
# - [x] between 33 and 97 :: Each block adds between 1/2 and 3/2 on average (Lemma 2 of the same paper), so it lies between $1 + L/2$ and $1 + 3L/2$.
# - [ ] about $2^{64}$ :: It would double if each block added as much as the stream *has*. It adds a row of fixed size.

# %% tags=["hide-input"]
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
    caption="Mean of |x|²/d over 16 tokens after the last block, before training, in the "
    "setting of the theorem.",
    alt="Two curves between two gray lines on logarithmic axes. Pre-LN grows from 2 at 2 "
    "layers to 90 at 64 layers, between 1 + L/2 and 1 + 3L/2. Post-LN stays at 1.",
)

# %% tags=["hide-input"]
assert (stream["Post-LN"] - 1).abs().max() < 1e-3  # a norm comes last; eps takes a little
grown = stream["Pre-LN"].mean(0)  # (depths,)
# with 10 percent for the error of a mean over 8 seeds
assert ((grown > 0.9 * (1 + L / 2)) & (grown < 1.1 * (1 + 1.5 * L))).all()

# %% [markdown]
# Your `scale_branches` ends that growth. In our GPT the stream starts with mean square 2, letter plus position. Before training:


# %% tags=["hide-input"]
@torch.no_grad()
def stream_of(layers, scaled):
    """Mean square of the stream after the last Pre-LN block, before training."""
    torch.manual_seed(119)
    model, kept = CharGPT(layers=layers), []
    if scaled:
        scale_branches(model)
    model.final.register_forward_pre_hook(lambda module, given: kept.append(given[0]))
    model(batch(torch.Generator().manual_seed(120))[0])
    return kept[0].square().mean().item()


# %%
for layers in (4, 16, 64):
    grown, held = stream_of(layers, scaled=False), stream_of(layers, scaled=True)
    print(f"{layers:2} layers: stream {grown:5.1f}, with scaled branches {held:3.1f}")

# %% tags=["hide-input"]
# 3.6 to 4.6, 10 to 14, 43 to 52 in four draws, and 2.1 to 2.5 with scaled branches
for layers, low, high in ((4, 3, 6), (16, 8, 18), (64, 35, 65)):
    assert low < stream_of(layers, scaled=False) < high
    assert 1.9 < stream_of(layers, scaled=True) < 2.7

# %% [markdown]
# Without that start the output layer after a Pre-LN stack gets numbers whose size depends on the depth. One more norm after the last block ends that, and GPT-2 has both: `ln_f` is its final norm.
#
# **Predict 11.8:** what does Pre-LN lose in our setting, twelve layers and Xavier's weights, without the final norm?
# - [ ] it does not train, as the model without any norm :: The norms on the branches are still there, so each block adds a row of bounded size.
# - [x] less than a tenth of a nat :: It trains without, and ends a little higher in each of the four recorded pairs.
# - [ ] nothing :: The output layer starts with logits that are several times too large, and the recorded runs show it.

# %%
show("higher without the final norm, in nats", final[19] - final[2], digits=2)  # (seeds,)

# %% tags=["hide-input"]
assert ((final[19] - final[2]) > 0.02).all() and final[19].max() < 2.5  # paired, loaded

# %% [markdown]
# PyTorch's `nn.TransformerEncoder` leaves the final norm to you, under `norm_first=True` as well: its `norm` is `None` unless you fill it.


# %% tags=["exercise"] id="ex-11-3"
# Exercise 11.3 · ●●○○○ · 4 min
def encoder(width, heads, layers, norm_first):
    """An nn.TransformerEncoder, with a final norm only if its blocks need one after them.

    width, heads, layers: whole numbers. norm_first: whether the blocks are Pre-LN.
    Returns the module:
    nn.TransformerEncoder(layer, number, norm=module or None, enable_nested_tensor=False).
    """
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    ### BEGIN SOLUTION
    last = nn.LayerNorm(width) if norm_first else None
    return nn.TransformerEncoder(layer, layers, norm=last, enable_nested_tensor=False)
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
# So before training Pre-LN's stream grows with depth unless its branches are scaled, and a final norm gives the output layer numbers of one size.

# %% [markdown]
# ## 11.8 Where the norms sit in four well-known models
#
# How many norms does a model have, and where?
#
# | model | place | norm | norms |
# |---|---|---|---|
# | Transformer (2017), 6 encoder and 6 decoder layers | Post-LN | LayerNorm | after each function: 2 in an encoder layer, 3 in a decoder layer (it also attends to the encoder), 30 in all |
# | BERT base, 12 layers | Post-LN | LayerNorm | 2 a layer, and one on the sum of the embeddings: 25 without the head |
# | GPT-2 small, 12 blocks | Pre-LN | LayerNorm | 2 a block, and one after the last block: 25 |
# | Llama 7B, 32 blocks | Pre-LN | RMSNorm | 2 a block, and one after the last block |
#
# **Predict 11.9:** in widespread code the two norms of a Llama block are called `input_layernorm` and `post_attention_layernorm`. How many norms does Llama 7B have, and is the second one Post-LN?
# - [x] 65, and no :: 2 · 32 + 1. The name says that it comes after the *attention*; it is on the branch before the MLP: Pre-LN, and an RMSNorm.
# - [ ] 97, and yes :: That counts three norms a block. Its two functions have one each.
# - [ ] 64, and no :: The norm after the last block is missing in that count.
#
# RMSNorm in place of LayerNorm made no visible difference in our GPT:

# %% tags=["no-slide"]
show("RMSNorm minus LayerNorm, nats", final[18] - final[2], digits=2)  # (seeds,) paired

# %% tags=["hide-input"]
assert (final[18] - final[2]).abs().max() < 0.05  # loaded

# %% [markdown]
# So the two Post-LN models end in their last layer's norm, and the two Pre-LN models have one more norm after the last block.

# %% [markdown]
# ## 11.9 Clinic: two norms in a row
#
# The patient is `nn.Transformer`, PyTorch's model of 2017, with its defaults: Post-LN, six encoder and six decoder layers. By the table it should have 30 norms.

# %%
found = nn.Transformer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
print("norms:", sum(isinstance(module, nn.LayerNorm) for module in found.modules()))

# %% [markdown]
# **Predict 11.10:** where are the two that the paper does not have?
# - [ ] on the embeddings of source and target :: `nn.Transformer` has no embeddings; it gets vectors.
# - [ ] in the decoder layers, around the second attention :: These have three norms each, as in the paper: 6 · 3 = 18.
# - [x] one after the last encoder layer, one after the last decoder layer :: The class adds a final norm to both stacks, whatever `norm_first` says.
#
# A norm is superfluous, before training, if what goes *in* is normalized already. Write that test; a helper then asks it at every norm of a model.


# %% tags=["exercise"] id="ex-11-4"
# Exercise 11.4 · ●●●○○ · 5 min
def already_normalized(h, tolerance=0.01):
    """Whether every row of h is as LayerNorm leaves it at gain 1 and bias 0.

    h: (..., D). tolerance: how far the mean of a row may be from 0, and its biased variance
    from 1. h itself is not changed.
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


# %% tags=["hide-input"]
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
source = 3 * torch.randn(2, 5, 8, generator=g)  # (B, T, C)
target = 3 * torch.randn(2, 4, 8, generator=g)  # (B, T, C)
norms_in_a_row(found, source, target)

# %% [markdown]
# The class hands a final norm to its encoder and to its decoder ([pytorch#24930](https://github.com/pytorch/pytorch/issues/24930)). Under Post-LN, the default, the last layer ends in a norm already. The cure takes both away:

# %%
with torch.no_grad():
    before = found(source, target)  # (B, T, C)
    found.encoder.norm = found.decoder.norm = None
    after = found(source, target)  # (B, T, C)
print("norms:", sum(isinstance(module, nn.LayerNorm) for module in found.modules()))
show("largest change of the output", (before - after).abs().max().item(), digits=3)

# %% tags=["hide-input"]
assert (before - after).abs().max() < 1e-3  # rows of variance v/(v+eps), normalized once more

# %% [markdown]
# Before training the two change next to nothing, because a normalized row stays what it is, apart from $\epsilon$. After training the second one normalizes what the first one's gain and bias have made, so the model is no longer the paper's.
#
# So no test of shapes sees a norm too many, or a missing final norm. Count the norms, and ask each whether its input is normalized already.

# %% [markdown]
# ## Take-away
#
# - Pre-LN: `x = x + f(norm(x))`, the stream is only added to. Post-LN: `x = norm(x + f(x))`, each block ends in a norm.
# - In our runs (four a setting, 150 steps) with 12 layers, Xavier's weights and Adam at 0.003, Post-LN without warm-up stays at the letter frequencies in three of four, and with warm-up it ends between that and Pre-LN. With 6 layers, with small initial linear layers, or at a rate of 0.001 it trains without warm-up. With small linear layers the two places are level.
# - GPT-2 divides the last weights of each branch by $\sqrt n$, where $n$ is the number of branches, because independent branches add their mean squares.
# - Pre-LN's stream grows with depth (mean square between $1 + L/2$ and $1 + 3L/2$ before training, in the setting of the paper), so a final norm comes before the output layer. `nn.TransformerEncoder` adds none by itself, `nn.Transformer` always adds two.
# - GPT-2 and Llama: 2 norms a block and 1 after the last. BERT: 2 a layer and 1 on the embeddings. The Transformer of 2017: one after each function, 30 in all.
# - Two norms in a row show before training: the second one's input has mean 0 and variance 1 in every row.

# %% [markdown]
# ## Deeper (optional, 13 min)
#
# ### All three places in one function
#
# Here is one half of a block, with the place as an argument; `None`, no norm at all, is the control of [section 11.4](#11.4-Four-curves).


# %% tags=["exercise", "optional"] id="ex-11-5"
# Exercise 11.5 · ●●○○○ · 3 min
def place_norm(x, function, norm, place):
    """One function of a block with its skip, and its norm where place says.

    x: (B, T, C). function, norm: (B, T, C) -> (B, T, C).
    place: "pre", "post", or None for no norm.
    Returns (B, T, C); x itself is not changed.
    """
    ### BEGIN SOLUTION
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))
    return x + function(x)
    ### END SOLUTION


# %% tags=["check", "optional"]
check.place_norm(place_norm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Three cases, one line each, and all three keep the skip.
#
# </details>
#
# ### Does Post-LN's gradient fade towards the input?
#
# It is often said so. Here is the gradient of the second MLP weight in the first block, divided by the one in the last block, at 32 layers before training:

# %% tags=["nbval-ignore-output"]
faded = {name: gradients[:, -1, 0] / gradients[:, -1, 1] for name, gradients in both.items()}
for name, shares in faded.items():
    show(f"first / last, {name:7}", shares, digits=1)  # (seeds,)

# %% tags=["hide-input"]
assert (faded["Pre-LN"] > 1).all()  # 1.8 to 4 in 14 nets: larger near the input
# 0.054 to 3.0 in 64 nets; a loss of 20 percent a layer would leave 0.001
assert (faded["Post-LN"] > 0.01).all()

# %% [markdown]
# Pre-LN's gradient is larger in the first block than in the last one. Post-LN's is mostly somewhat smaller there, and it scatters from net to net: 0.05 to 3.0 in 64 nets, with a geometric mean of 0.56. A loss of 20 % at each of 32 layers would leave 0.001, and nothing like that shows in nets of this size.
#
# ### Weight decay and the norms
#
# The optimizers of such models usually spare gains and biases from weight decay. That is a **convention, not a theorem**: decay pulls a gain towards 0 and not towards 1 ([lesson 4](04_affine_and_module.ipynb)), and whether that hurts or helps, only experiments can say. This course has made none.
# `torch.optim.AdamW` decays every parameter, with `weight_decay=0.01`, unless told otherwise. This is how to tell it:

# %%
model = CharGPT()
spared = [p for p in model.parameters() if p.dim() == 1]  # gains and biases
decayed = [p for p in model.parameters() if p.dim() > 1]
groups = [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
print("decayed tensors:", len(decayed), "  spared:", len(spared))

# %% tags=["hide-input"]
kinds = (LayerNorm, nn.Linear)
named = {
    id(p)
    for m in model.modules()
    if isinstance(m, kinds)
    for key, p in m.named_parameters(recurse=False)
    if key == "bias" or isinstance(m, LayerNorm)
}
assert {id(p) for p in spared} == named

# %% [markdown]
# The rule by shape ("spare what has one axis") finds the gains and biases of this model. It misses gains that are stored stacked, layers by features.
#
# ### What the model writes
#
# The Pre-LN model that you trained on 100 batches writes words, letter by letter: start with 0, draw the next symbol, and go on until it draws 0.


# %% tags=["nbval-ignore-output"]
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
# These are not words, but vowels and consonants take turns. At step 100 the loss is only a little below that of the bigram table, so most of this can come from pairs of letters.
#
# ### Patches are tokens
#
# A Vision Transformer cuts an image into patches, and each patch becomes a token. From there on it is the same block, without the causal mask, and the same norm over C.

# %%
images, *_ = data.digits_split(0)
patches = images[:5].view(5, 4, 2, 4, 2).transpose(2, 3).reshape(5, 16, 4)  # (B, T, pixels)
torch.manual_seed(115)
embed, block, last = nn.Linear(4, 32), Block(32, heads=4, causal=False), LayerNorm(32)
tokens = embed(patches) + torch.randn(16, 32)  # (B, T, C) what a patch shows + where it is
y = last(block(tokens))  # (B, T, C)
print("patches", tuple(patches.shape), " tokens", tuple(y.shape))
print("means in one norm:", tuple(y.mean(-1, keepdim=True).shape))

# %% tags=["hide-input"]
assert y.mean(-1).abs().max() < 1e-5  # a mean for each patch of each image, and none across

# %% [markdown]
# Without the positions the block cannot know where a patch was: shuffle the patches, and its answers are shuffled likewise. The norm changes nothing in that, because it looks at one token at a time.

# %%
order = torch.randperm(16, generator=torch.Generator().manual_seed(116))
x = embed(patches)  # (B, T, C) no positions
change = (block(x[:, order]) - block(x)[:, order]).abs().max().item()
show("shuffled before or after the block, largest difference", change, digits=4)

# %% tags=["hide-input"]
assert change < 1e-5  # float32, numbers of order 1

# %% [markdown]
# ### Keys that no query can select
#
# What does a norm before attention do for the *keys*? Say that a query selects a key if that key gets the largest score. Brody et al. (2023) point out that a key which is a mixture of other keys, inside their convex hull, can never be selected over all of them, because its score is the same mixture of their scores.

# %%
g = torch.Generator().manual_seed(117)
keys = torch.randn(6, 8, dtype=torch.float64, generator=g)  # (T, d)
keys[5] = keys[:5].mean(0)  # a mixture of the others
queries = torch.randn(1000, 8, dtype=torch.float64, generator=g)  # (Q, d)
normed = F.layer_norm(keys, (8,), eps=0.0)  # (T, d) all of length √8
wins = (queries @ keys.T).argmax(-1) == 5  # (Q,)
print("raw: 1000 queries select the sixth key", wins.sum().item(), "times")
print("after LayerNorm each key, as a query, selects", (normed @ normed.T).argmax(-1).tolist())

# %% tags=["hide-input"]
assert not wins.any() and (normed @ normed.T).argmax(-1).tolist() == list(range(6))

# %% [markdown]
# The last line holds for all rows that differ after LayerNorm: there (gain 1, bias 0, $\epsilon = 0$) all keys have length $\sqrt d$, and among vectors $k$ of one length $q \cdot k$ is largest for $k = q$. Only the length matters in that, so RMSNorm does it as well, and centering alone does not.
# In a Transformer a linear layer comes between the norm and the keys, so this is a property of the norm, not a guarantee for the model.

# %% [markdown]
# ## On your own
#
# 1. Raise the depth of the six-layer runs to 12 in steps of 2. At which depth does Post-LN fail, and does the answer change with the rate?
# 2. Give `Block` a third place, norms on both ends of the branch: `x + after(f(before(x)))` (Peri-LN, [lesson 12](12_family.ipynb)). How does the stream grow?
# 3. Clip the gradient's norm at 1 (`clip=1.0` in `train.compare`). Does that rescue Post-LN?
#
# ## Further reading
#
# - Vaswani et al. (2017), *Attention Is All You Need*: 3.1 for Post-LN, 5.3 for warm-up.
# - Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*, Theorem 1, Lemma 2.
# - Radford et al. (2019), *Language Models are Unsupervised Multitask Learners* (GPT-2), part 2.3: the norm before each function, one at the end, and residual layers scaled by $1/\sqrt N$.
# - On the optional parts: Dosovitskiy et al. (2021), *An Image is Worth 16x16 Words*, equations 1 to 4; Brody, Alon & Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers' Attention*, section 3.

"""What lesson 11 builds: Attention, Block, CharGPT, Placed, attention, batch, corpus, encode, learn_words, nats, placed, start_as, training, validation.

Made by coursebuild from lessons_src/lessons/11_transformer/lesson.py: edit the lesson, not this file.
"""

from fromscratch import LayerNorm
from lessonkit import data
from torch import nn
from torch.nn import functional as F
import functools
import math
import torch


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

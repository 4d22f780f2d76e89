"""What lesson 11 builds: Attention, Block, CharGPT, attention, batch, corpus, encode, nats, training, validation.

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
    """A GPT for letters: what comes next, at each position. With "pre", a final norm.

    symbols: how many there are. context: most tokens T. width, heads, norm, place: of the
    blocks. forward: tokens (B, T) -> logits (B, T, symbols).
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
        x, y = batch(g)
        optimizer.zero_grad()
        nats(gpt(x), y).backward()
        optimizer.step()
        yield step

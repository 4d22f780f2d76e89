"""What lesson 11 builds: Attention, Block, CharGPT, attention, encode.

Made by coursebuild from lessons_src/lessons/11_transformer.py: edit the lesson, not this file.
"""

import math

from fromscratch import LayerNorm
from torch import nn
import torch


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


# Attention with several heads.
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
                nn.init.xavier_uniform_(module.weight)  # variance 2 / (inputs + outputs)
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]  # (B, T, C)
        for block in self.blocks:
            x = block(x)  # (B, T, C)
        return self.head(self.final(x))  # (B, T, symbols)


# Makes rows of numbers of words.
def encode(words, T=16):
    """Words as numbers: a to z are 1 to 26; 0 is the start, the end and the rest of the row.

    Returns x (N, T), each word after a 0, and y (N, T), what comes next; -100 marks places
    without a question.
    """
    rows = [[0, *(ord(letter) - 96 for letter in word)] for word in words]
    x = [row + [0] * (T - len(row)) for row in rows]
    y = [row[1:] + [0] + [-100] * (T - len(row)) for row in rows]
    return torch.tensor(x), torch.tensor(y)

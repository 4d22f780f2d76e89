"""What lesson 0 says of many runs: a deep net on two rings, a Transformer that sorts, a suspect."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.evidence import record


def train(net, batch, steps, rate):
    """Train net with Adam; return the last loss, and the first gradient of its first layer."""
    optimizer, first = torch.optim.Adam(net.parameters(), lr=rate), None
    for _ in range(steps):
        x, target = batch()
        loss = F.cross_entropy(net(x).flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        first = first or next(net.parameters()).grad.norm().item()
        optimizer.step()
    return loss.item(), first


class Without(nn.LayerNorm):
    """LayerNorm without one of its three steps: "centering", "division", or "gain and bias"."""

    step = ""

    def forward(self, x):
        if self.step != "centering":
            x = x - x.mean(-1, keepdim=True)
        if self.step != "division":
            x = x / (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt()
        return x if self.step == "gain and bias" else x * self.weight + self.bias


@record(
    seeds=range(8),
    shows={"right": ".0f %"},
    tolerance=10,  # a net that has just begun to learn can be anywhere
    net=[
        "no norm",
        "weights * 4",
        "three layers",
        "LayerNorm",
        "no centering",
        "no division",
        "32 layers",
        "32 layers in smaller steps",
        "32 layers of larger weights",
    ],
)
def rings(seed, net="no norm", width=64):
    """Percent of 512 points whose ring a net names after 100 steps; points and weights are drawn.

    weights * 4, three layers: without a norm. 32 layers: with LayerNorm. smaller steps: a rate of 0.0003, not 0.001. larger weights: He's, 0.18, not 0.05.
    """
    ring = torch.arange(512) % 2  # (B,)
    angle, radius = 2 * math.pi * torch.rand(512), 1 + ring + 0.15 * torch.randn(512)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)  # (B, 2)
    norm = nn.Identity if net in ("no norm", "weights * 4", "three layers") else nn.LayerNorm
    if net in ("no centering", "no division"):
        norm = type("Norm", (Without,), {"step": net.removeprefix("no ")})
    layers = [nn.Linear(2, width), nn.ReLU()]
    for _ in range(31 if net.startswith("32") else 2 if net == "three layers" else 15):
        layers += [nn.Linear(width, width), norm(width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 2))
    for layer in model:
        if isinstance(layer, nn.Linear):
            he = (2 / layer.in_features) ** 0.5
            std = he if "larger weights" in net else 0.2 if net == "weights * 4" else 0.05
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)
    rate = 3e-4 if "smaller steps" in net else 1e-3
    train(model, lambda: (points, ring), 100, rate)
    return {"right": 100 * (model(points).argmax(1) == ring).double().mean().item()}


@record(
    seeds=range(16),
    shows={"right": ".0f %"},
    tolerance=10,  # a net that has just begun to learn can be anywhere
    lever=["points", "rate / 10", "rate * 10", "rate * 100", "epsilon"],
)
def revived(seed, lever="points", width=64):
    """Percent of 512 points whose ring the net without a norm names after 100 steps, with one lever pulled.

    points: times 10,000. rate: Adam's, 0.001, times 0.1, 10 or 100. epsilon: Adam's, 1e-14 instead of 1e-8.
    """
    ring = torch.arange(512) % 2  # (B,)
    angle, radius = 2 * math.pi * torch.rand(512), 1 + ring + 0.15 * torch.randn(512)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)  # (B, 2)
    if lever == "points":
        points = 10_000 * points
    layers = [nn.Linear(2, width), nn.ReLU()]
    for _ in range(15):
        layers += [nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(width, 2))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.05)
            nn.init.zeros_(layer.bias)
    rate = 1e-3 * {"rate / 10": 0.1, "rate * 10": 10, "rate * 100": 100}.get(lever, 1)
    optimizer = torch.optim.Adam(
        net.parameters(), rate, eps=1e-14 if lever == "epsilon" else 1e-8
    )
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(net(points), ring).backward()
        optimizer.step()
    return {"right": 100 * (net(points).argmax(1) == ring).double().mean().item()}


class Block(nn.Module):
    """The lesson's block: attention with one head, then an MLP, each behind a norm."""

    def __init__(self, D, norm, causal):
        super().__init__()
        self.norm1, self.norm2, self.causal = norm(D), norm(D), causal
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)  # (B, T, D) each
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """The lesson's Transformer; start: "wide", 1 / root of the inputs, or "PyTorch's"."""

    def __init__(self, norm, blocks, causal=False, D=32, start="wide"):
        super().__init__()
        self.digit, self.position = nn.Embedding(10, D), nn.Embedding(8, D)
        stack = [Block(D, norm, causal) for _ in range(blocks)]
        self.layers = nn.Sequential(*stack, norm(D), nn.Linear(D, 10))
        for layer in self.modules():
            if start == "wide" and isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)

    def forward(self, digits):
        return self.layers(self.digit(digits) + self.position.weight)  # (B, T, 10)


@record(
    seeds=range(8),
    shows={"right": ".0f %"},
    tolerance=15,  # early in training rounding counts
    norm=["LayerNorm", "none"],
    start=["wide", "PyTorch's"],
)
def sorters(seed, norm="LayerNorm", start="wide", blocks=8):
    """Percent of the digits that a Transformer of eight blocks puts right, of 1,000 fresh rows."""
    kind = nn.LayerNorm if norm == "LayerNorm" else nn.Identity
    net = Transformer(kind, blocks, start=start)

    def to_sort(rows=64):
        digits = torch.randint(10, (rows, 8))  # (B, T)
        return digits, digits.sort(1).values

    train(net, to_sort, 200, 3e-3)
    digits, target = to_sort(1000)
    with torch.no_grad():
        return {"right": 100 * (net(digits).argmax(-1) == target).double().mean().item()}


@record(
    seeds=range(6),
    shows={"right": ".0f %", "stream": ".0f", "share": ".2f"},
    tolerance={"right": 25, "stream": 0.05, "share": 0.01},  # early in training rounding counts
    step=["centering", "division", "gain and bias"],
)
def stripped(seed, step="centering", blocks=8):
    """Percent of the digits that a Transformer puts right whose norms lack a step, of 1,000 fresh rows.

    Before training: stream, the root mean square after the last block; share, how much of its attention a position
    gives in that block to the one it looks at most, on average.
    """
    net = Transformer(type("Norm", (Without,), {"step": step}), blocks)

    def to_sort(rows=64):
        digits = torch.randint(10, (rows, 8))  # (B, T)
        return digits, digits.sort(1).values

    with torch.no_grad():
        x = net.digit(to_sort()[0]) + net.position.weight  # (B, T, D)
        for block in net.layers[:blocks]:
            q, k, _ = block.qkv(block.norm1(x)).chunk(3, -1)
            share = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).amax(-1).mean().item()
            x = block(x)
        stream = x.square().mean().sqrt().item()
    train(net, to_sort, 200, 3e-3)
    digits, target = to_sort(1000)
    with torch.no_grad():
        right = 100 * (net(digits).argmax(-1) == target).double().mean().item()
    return {"right": right, "stream": stream, "share": share}


class Suspect(nn.LayerNorm):
    """The lesson's suspect: it averages over axis 1."""

    def forward(self, x):
        centered = x - x.mean(1, keepdim=True)
        var = (centered * centered).mean(1, keepdim=True)
        return centered * (var + self.eps) ** -0.5 * self.weight + self.bias


@record(seeds=range(8), shows={"loss": ".2f"}, tolerance=0.1, norm=["LayerNorm", "Suspect"])
def suspects(seed, norm="Suspect", blocks=2):
    """Loss on fresh digits of a causal Transformer that guesses the next of random digits."""
    net = Transformer({"LayerNorm": nn.LayerNorm}.get(norm, Suspect), blocks, causal=True)

    def to_guess(rows=64):
        digits = torch.randint(10, (rows, 9))  # (B, T + 1)
        return digits[:, :-1], digits[:, 1:]  # (B, T) each

    train(net, to_guess, 200, 3e-3)
    digits, target = to_guess(1000)
    with torch.no_grad():
        return {"loss": F.cross_entropy(net(digits).flatten(0, 1), target.flatten()).item()}

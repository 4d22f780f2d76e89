"""What lesson 14 says of many runs."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode
from lessonkit import data
from lessonkit.evidence import record

STEPS = 150


class HurriedNorm(nn.LayerNorm):
    """The colleague's: the statistics are those of all tokens."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-2:], eps=self.eps) * self.weight + self.bias


class Weighing(nn.LayerNorm):
    """A token's statistics are those of the tokens s that weigh(t, s) gives a weight to."""

    def __init__(self, features, weigh):
        super().__init__(features)
        self.weigh = weigh

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
        t = torch.arange(x.shape[-2])
        w = self.weigh(t[:, None], t).to(x.dtype)
        w = w / w.sum(-1, keepdim=True)  # (T, T)
        mu = w @ mean
        v = w @ var + (w * (mean.mT - mu) ** 2).sum(-1, keepdim=True)
        return (x - mu) / torch.sqrt(v + self.eps) * self.weight + self.bias


WEIGHED = {
    "trail": lambda t, s: 0.5 ** (t - s).clamp(min=0) * (s <= t),  # TrailNorm of the page
    "so far": lambda t, s: s <= t,  # the same with a decay of 1
    "next": lambda t, s: (s == t) | (s == t + 1),
}


def spelling_losses(norm, seed, split):
    """Train a GPT of two blocks; return its loss given the whole word, and given the prefix."""
    words = data.words()[::8]
    tokens, targets = encode(words)
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(149 + split))
    held, rest = order[:256], order[256:]
    torch.manual_seed(seed)
    net, g = CharGPT(layers=2, norm=norm), torch.Generator().manual_seed(1_000_000 + seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, fused=True)
    loss = lambda logits, wanted: F.cross_entropy(logits.flatten(0, -2), wanted.flatten())
    for _ in range(STEPS):
        rows = rest[torch.randint(len(rest), (16,), generator=g)]
        optimizer.zero_grad()
        loss(net(tokens[rows]), targets[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        last = [net(tokens[held, : t + 1])[:, -1] for t in range(16)]
        whole = loss(net(tokens[held]), targets[held])
        return whole.item(), loss(torch.stack(last, 1), targets[held]).item()


@record(
    seeds=range(8),
    shows=dict.fromkeys(("whole", "prefix", "trail", "so_far", "next", "next_prefix"), ".2f"),
    tolerance=dict.fromkeys(("whole", "prefix", "trail", "so_far", "next"), 0.1)
    | {"next_prefix": 1},
    split=[0, 1],
)
def hurried_pairs(seed, split=0):
    """The loss of a GPT with HurriedNorm minus that with LayerNorm, in nats a letter.

    whole: given the whole word. prefix: given the letters so far. Of other norms minus
    LayerNorm, trail: TrailNorm, given the prefix; so_far: statistics over all tokens so far,
    given the whole word; next, next_prefix: over a token and the next one, given the whole word
    and given the prefix. A split draws the words of validation.
    """
    right, hurried = (
        spelling_losses(norm, seed, split) for norm in (nn.LayerNorm, HurriedNorm)
    )
    others = {
        name: spelling_losses(lambda features, w=weigh: Weighing(features, w), seed, split)
        for name, weigh in WEIGHED.items()
    }
    return {
        "whole": hurried[0] - right[0],
        "prefix": hurried[1] - right[1],
        "trail": others["trail"][1] - right[1],
        "so_far": others["so far"][0] - right[0],
        "next": others["next"][0] - right[0],
        "next_prefix": others["next"][1] - right[1],
    }


class Branch(nn.Module):
    """x + MLP(LN(x))."""

    def __init__(self, D):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


PARTS = ["weights", "biases", "block gains", "final gain"]
DRAWN = {
    "all": PARTS,
    "none": [],
    **{f"only {part}": [part] for part in PARTS[:1]},
    **{f"weights and {part}": ["weights", part] for part in PARTS[1:]},
    **{f"only {part}": [part] for part in PARTS[1:]},
    **{f"all but {part}": [other for other in PARTS if other != part] for part in PARTS},
}


# Three images of 500 are 0.6 points; where a net has just begun to learn, rounding counts more.
@record(
    seeds=range(8),
    shows={"read": ".0f %", "rms": ".2f", "gradient": ".4f"},
    tolerance={"read": 6, "rms": 0.01, "gradient": 0.001},
    drawn=list(DRAWN),
    split=[0, 1, 2, 3],
)
def whispering(
    seed, drawn="all", split=0, std=0.02, rate=0.1, epochs=3, optimize=torch.optim.SGD
):
    """A net of four branches whose parameters are drawn at 0.02: all, one part, or all but one.

    What is not drawn is as PyTorch makes it, Linear biases 0. read: percent of 500 test digits
    after training. Before it, rms: of what the final norm returns; gradient: of the loss, rms
    over the weights of the first Linear layer.
    """
    parts, digits = DRAWN[drawn], data.digits_split(split)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), *(Branch(64) for _ in range(4)))
    net.extend([nn.LayerNorm(64), nn.Linear(64, 10)])
    for module in net.modules():
        if isinstance(module, (nn.Linear, nn.LayerNorm)):
            gain = "final gain" if module is net[-2] else "block gains"
            kind = "weights" if isinstance(module, nn.Linear) else gain
            if kind in parts:
                nn.init.normal_(module.weight, std=std)
            nn.init.normal_(module.bias, std=std if "biases" in parts else 0.0)
    x, y = digits.x_train, digits.y_train
    F.cross_entropy(net(x), y).backward()
    gradient = net[1].weight.grad.square().mean().sqrt().item()
    rms = net[:-1](x).square().mean().sqrt().item()
    optimizer = optimize(net.parameters(), lr=rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    right = net(digits.x_test).argmax(1) == digits.y_test
    return {"read": 100 * right.double().mean(), "rms": rms, "gradient": gradient}


@record(
    seeds=range(8),
    shows={"read": ".0f %"},
    tolerance=6,
    drawn=["all", "none", "only final gain"],
    rate=[0.001, 0.003],
    split=[0, 1],
)
def whispering_under_adam(seed, drawn="all", rate=0.001, split=0):
    """The percentage that the net of `whispering` reads, trained by Adam in place of plain SGD."""
    ended = whispering(seed, drawn, split, rate=rate, optimize=torch.optim.Adam)
    return {"read": ended["read"]}

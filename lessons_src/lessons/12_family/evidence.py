"""What lesson 12 says of many runs."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode, train_gpt
from lessonkit import data
from lessonkit.evidence import record


class PointWise(nn.Module):
    """In a norm's place: an S-shaped function of a x + s, then gain and bias."""

    def __init__(self, width, function, shifted):
        super().__init__()
        self.function = function
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.shift = nn.Parameter(torch.tensor(0.0)) if shifted else 0.0
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.weight * self.function(self.alpha * x + self.shift) + self.bias


NORMS = {
    "Derf": lambda width: PointWise(width, torch.erf, shifted=True),
    "DyT": lambda width: PointWise(width, torch.tanh, shifted=False),
    "RMSNorm": nn.RMSNorm,
    "LayerNorm": nn.LayerNorm,
}


@record(
    seeds=range(8),
    shows={"unseen": ".3f nats"},
    tolerance=0.08,
    norm=list(NORMS),
    rate=[0.003, 0.006, 0.01, 0.02],
)
def gpt_rates(seed, norm="LayerNorm", rate=0.003, steps=200):
    """Loss of a GPT of 6 blocks on 2,000 unseen words, after 200 steps of Adam.

    Even seeds are on one split of the words, odd ones on another.
    """
    return {"unseen": train_gpt(NORMS[norm], rate, seed, steps)}


class Sloped(PointWise):
    """PointWise with a shift, whose function of x has a given slope at 0 before training."""

    def __init__(self, width, function, slope):
        super().__init__(width, function, shifted=True)
        zero = torch.tensor(0.0, requires_grad=True)
        own = torch.autograd.grad(function(zero), zero)[0]
        self.alpha = nn.Parameter(slope / own)


CURVES = {"tanh": torch.tanh, "erf": torch.erf}


@record(
    seeds=range(4),
    shows={"lag": ".3f nats"},
    tolerance=0.08,
    curve=list(CURVES),
    slope=[0.25, 0.5, 1.0],
)
def gpt_slopes(seed, curve="tanh", slope=0.5, rate=0.006, steps=100):
    """How far a GPT with a curve for each norm is behind LayerNorm's, from the same seed."""
    norms = (lambda width: Sloped(width, CURVES[curve], slope)), nn.LayerNorm
    ours, theirs = (train_gpt(norm, rate, seed, steps) for norm in norms)
    return {"lag": ours - theirs}


class Scored(nn.Module):
    """Attention whose scores are watched, and held down in one of three ways, or not at all.

    QK-norm: RMSNorm without gains for each query and key (Dehghani et al., 2023). softcap:
    bound * tanh(score / bound) (Gemma 2). QK-clip: see held (Kimi K2).
    """

    def __init__(self, attention, way, bound):
        super().__init__()
        self.heads, self.qkv, self.out = attention.heads, attention.qkv, attention.out
        self.way, self.bound = way, bound

    def forward(self, x):
        B, T, C = x.shape
        shares = self.qkv(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = shares.permute(2, 0, 3, 1, 4)  # (B, heads, T, d) each
        if self.way == "QK-norm":
            q, k = (F.rms_norm(one, one.shape[-1:]) for one in (q, k))
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, heads, T, T)
        if self.way == "softcap":
            scores = self.bound * torch.tanh(scores / self.bound)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)  # (T, T)
        self.largest = scores.detach().abs().masked_fill(future, 0).amax((0, 2, 3))  # (heads,)
        mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ v  # (B, heads, T, d)
        return self.out(mixed.transpose(1, 2).reshape(B, T, C))

    @torch.no_grad()
    def held(self):
        """QK-clip: where a head's largest score passed the bound, shrink what makes q and k."""
        factor = (self.bound / self.largest).clamp(max=1).sqrt()  # (heads,)
        rows = factor.repeat_interleave(self.qkv.in_features // self.heads).repeat(2)  # (2C,)
        self.qkv.weight[: len(rows)] *= rows[:, None]
        self.qkv.bias[: len(rows)] *= rows


def words_of(split):
    """Return (x, y) of all words but 2,000, and of these."""
    words = data.words()
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(7 + split))
    x, y = encode([words[i] for i in order[-10_000:]])  # (N, T) each
    return (x[:-2000], y[:-2000]), (x[-2000:], y[-2000:])


def letters_loss(net, x, y):
    return F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)


def steps_of(net, x, y, rate, steps, after=lambda: None):
    """Train a net by Adam on batches of 32 words."""
    optimizer = torch.optim.Adam(net.parameters(), rate, betas=(0.9, 0.98))
    for _ in range(steps):
        rows = torch.randint(len(x), (32,))
        optimizer.zero_grad()
        letters_loss(net, x[rows], y[rows]).backward()
        optimizer.step()
        after()


# Training at a high rate is chaotic: another processor's rounding moves a largest score by a third.
@record(
    seeds=range(8),
    shows={"start": ".1f", "largest": ".1f", "unseen": ".2f nats"},
    tolerance={"start": 0.01, "largest": 25, "unseen": 0.2},
    way=["plain", "QK-norm", "softcap", "QK-clip"],
    split=[0, 1],
)
def growing_scores(seed, way="plain", split=0, rate=0.02, steps=100, layers=2, bound=5.0):
    """The largest attention score of a GPT, in size, before and after training at a high rate.

    unseen: loss on 2,000 unseen words.
    """
    (x, y), unseen = words_of(split)
    torch.manual_seed(seed)
    net = CharGPT(layers=layers, norm=nn.LayerNorm)
    for block in net.blocks:
        block.attend = Scored(block.attend, way, bound)
    watched = [block.attend for block in net.blocks]

    @torch.no_grad()
    def measure():
        loss = letters_loss(net, *unseen).item()
        return max(attend.largest.max().item() for attend in watched), loss

    start, _ = measure()
    clip = lambda: [attend.held() for attend in watched] if way == "QK-clip" else None
    steps_of(net, x, y, rate, steps, clip)
    largest, loss = measure()
    return {"start": start, "largest": largest, "unseen": loss}


@torch.no_grad()
def to_rms(net):
    """Return a copy of a Pre-LN CharGPT with RMSNorm in the place of each LayerNorm."""
    net = copy.deepcopy(net)
    for table in (net.embed, net.position):
        table.weight -= table.weight.mean(-1, keepdim=True)
    for block in net.blocks:
        for writer in (block.attend.out, block.mlp[2]):
            writer.weight -= writer.weight.mean(0)
            writer.bias -= writer.bias.mean()
        for name, reader in (("before1", block.attend.qkv), ("before2", block.mlp[0])):
            swap_norm(block, name, reader)
    swap_norm(net, "final", net.head)
    return net


def swap_norm(owner, name, reader):
    old = getattr(owner, name)
    reader.bias += reader.weight @ old.bias
    new = nn.RMSNorm(old.normalized_shape, eps=old.eps, dtype=old.weight.dtype)
    new.weight.copy_(old.weight)
    setattr(owner, name, new)


# float64: the conversion is exact to rounding; what Adam does after it is chaotic.
@record(
    seeds=range(8),
    shows={"converted": ".0e %", "trained": ".0f %", "share": ".1f %"},
    tolerance={"converted": 1e-8, "trained": 15, "share": 1.5},
    split=[0, 1],
)
def without_means(seed, split=0, rate=0.003, steps=100, more=20, layers=3):
    """A GPT with LayerNorm is trained, and turned into one with RMSNorm; both train on.

    converted, trained: how far the logits of the two differ, root mean square in percent, after
    the conversion and after more steps on the same batches. share: percent of the power of what
    the norms read that lies in the mean of a token, over all norms and tokens.
    """
    (x, y), (tokens, _) = words_of(split)
    torch.manual_seed(seed)
    net = CharGPT(layers=layers, norm=nn.LayerNorm).double()
    steps_of(net, x, y, rate, steps)
    read, tokens = [], tokens[:200]
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].detach()))
        for module in net.modules()
        if isinstance(module, nn.LayerNorm)
    ]
    with torch.no_grad():
        net(tokens)
    [hook.remove() for hook in hooks]
    shares = [x.mean(-1).square() / x.square().mean(-1) for x in read]  # (B, T) each
    nets = net, to_rms(net)
    gaps = [apart(*nets, tokens)]
    for each in nets:
        torch.manual_seed(1000 + seed)  # the same batches
        steps_of(each, x, y, rate, more)
    gaps.append(apart(*nets, tokens))
    return {"converted": gaps[0], "trained": gaps[1], "share": 100 * torch.stack(shares).mean()}


@torch.no_grad()
def apart(net, other, tokens):
    logits = net(tokens)
    return 100 * ((other(tokens) - logits).norm() / logits.norm()).item()

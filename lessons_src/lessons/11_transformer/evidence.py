"""What lesson 11 says of many runs: places of the norm, starts and rates, and what was tried
against each cause.

All models are the lesson's CharGPT of 12 blocks and 32 features; they learn 61,240 words letter
by letter, with Adam and batches of 32, and are measured on 300 words that nobody trains on. The
norms are PyTorch's, which are faster."""

import math

import torch
from torch import nn

from fromscratch.transformer import CharGPT, batch, corpus, nats, placed, start_as, validation
from lessonkit import train
from lessonkit.evidence import record

LAYERS = 12
# layers, place, norm, learning rate, warm-up steps, initial weights, final norm
SETTINGS = [
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
PLACES = ["pre", "post", "peri", "output", "keel"]
STARTS = ["Xavier", "GPT-2"]
RATES = [0.001, 0.003, 0.01, 0.03]


def trained(gpt, seed, rate, steps, warm_up=0, betas=(0.9, 0.98), rates=None, cleared=None):
    """Train a model in place; return its validation losses after each third of the steps.

    rates: {block: factor} on the rate of blocks. cleared: the step after which Adam forgets
    what it has seen."""
    blocks = {id(p): k for k, block in enumerate(gpt.blocks) for p in block.parameters()}
    groups = {}
    for p in gpt.parameters():
        groups.setdefault((rates or {}).get(blocks.get(id(p)), 1.0), []).append(p)
    optimizer = torch.optim.Adam(
        [
            {"params": some, "lr": rate * factor, "base": rate * factor}
            for factor, some in groups.items()
        ],
        betas=betas,
        fused=True,
    )
    g, losses = torch.Generator().manual_seed(1_000_000 + seed), []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * (min(1.0, step / warm_up) if warm_up else 1.0)
        x, y = batch(g)
        optimizer.zero_grad()
        nats(gpt(x), y).backward()
        optimizer.step()
        if step == cleared:
            optimizer.state.clear()
        if step % (steps // 3) == 0:
            losses.append(validation(gpt))
    return losses


@torch.no_grad()
def streams(gpt, x):
    """Return the stream before the first block and after each one, (N, T, C) each."""
    h = gpt.embed(x) + gpt.position.weight[: x.shape[1]]
    kept = [h]
    for block in gpt.blocks:
        h = block(h)
        kept.append(h)
    return kept


@torch.no_grad()
def unlike(gpt):
    """Return what differs between tokens after each block, as a share of the stream: 13 numbers
    from 0 to 1."""
    *_, x, y = corpus()
    rows = [h[y[:100] >= 0] for h in streams(gpt, x[:100])]
    return [((r - r.mean(0)).norm() / r.norm()).item() for r in rows]


def gradients(gpt):
    """Return the norm of the loss's gradient by all weights of each block, on one batch: 12
    numbers."""
    x, y = batch(torch.Generator().manual_seed(7))
    gpt.zero_grad()
    nats(gpt(x), y).backward()
    norms = [
        torch.cat([p.grad.flatten() for p in b.parameters() if p.grad is not None])
        .norm()
        .item()
        for b in gpt.blocks
    ]
    gpt.zero_grad()
    return norms


@torch.no_grad()
def amplification(gpt, delta=1e-4):
    """Return by how much the rows before the output layer move, relative to their size and to
    delta.

    Each weight of a block is moved by delta, up or down by a coin: the size of a step of Adam
    at this rate, in no direction. (Liu et al., 2020, section 4.2, move weights as well, and
    measure the output.)"""
    *_, x, y = corpus()
    x, asked = x[:100], y[:100] >= 0
    before = gpt.final(streams(gpt, x)[-1])[asked]
    g = torch.Generator().manual_seed(8)
    coins = {
        p: delta * torch.sign(torch.rand(p.shape, generator=g) - 0.5)
        for p in gpt.blocks.parameters()
    }
    for p, coin in coins.items():
        p += coin
    after = gpt.final(streams(gpt, x)[-1])[asked]
    for p, coin in coins.items():
        p -= coin
    return ((after - before).norm() / before.norm() / delta).item()


@torch.no_grad()
def without(gpt):
    """Return what the validation loss gains when one block is left out, for each block: 12
    numbers, in nats."""
    whole, gained, blocks = validation(gpt), [], gpt.blocks
    for k in range(len(blocks)):
        gpt.blocks = nn.ModuleList([block for at, block in enumerate(blocks) if at != k])
        gained.append(validation(gpt) - whole)
    gpt.blocks = blocks
    return gained


@torch.no_grad()
def peak(gpt):
    """Return the largest |h| over the root mean square of its row, after each block: 12 numbers."""
    *_, x, y = corpus()
    rows = [h[y[:100] >= 0] for h in streams(gpt, x[:100])[1:]]
    return [(r.abs().amax(-1) / r.square().mean(-1).sqrt()).max().item() for r in rows]


@record(
    seeds=range(8),
    shows={
        "loss": ".2f nats",
        "unlike": ".2g",
        "unlike_start": ".2g",
        "gradient": ".2g",
        "gradient_start": ".2g",
        "first_to_last": ".2g",
        "amplification": ".0f",
        "amplification_end": ".0f",
        "without": ".2f nats",
        "peak": ".1f",
        "curve": ".2f nats",
    },
    tolerance={
        "loss": 0.1,
        "curve": 0.15,
        "unlike": 0.1,
        "unlike_start": 0.01,
        "gradient": 1.0,
        "gradient_start": 0.01,
        "first_to_last": 0.05,
        "amplification": 2,
        "amplification_end": 200,
        "without": 0.3,
        "peak": 1.0,
    },
    place=PLACES,
    start=STARTS,
    rate=RATES,
)
def atlas(seed, place="post", start="Xavier", rate=0.003, steps=150, layers=LAYERS):
    """Where the norm stands, how the weights start, and the rate: one model, measured before
    and after 150 steps.

    loss: of validation at the end. curve: after 50, 100 and 150 steps. unlike: what differs
    between tokens after each block. gradient: norm by block, and first_to_last: the first
    block's over the last one's, before the first step. amplification: how much a nudge of all
    weights moves the end of the stream. without: what the loss gains without one block. peak:
    the largest entry over its row's root mean square."""
    gpt = placed(place, start, layers)
    begun = {
        "unlike_start": unlike(gpt),
        "gradient_start": gradients(gpt),
        "amplification": amplification(gpt),
    }
    curve = trained(gpt, seed, rate, steps)
    first, last = begun["gradient_start"][0], begun["gradient_start"][-1]
    return begun | {
        "first_to_last": first / last,
        "loss": curve[-1],
        "curve": curve,
        "unlike": unlike(gpt),
        "gradient": gradients(gpt),
        "amplification_end": amplification(gpt),
        "without": without(gpt),
        "peak": peak(gpt),
    }


CHANGES = [
    "nothing",
    "warm-up",
    "slow last blocks",
    "slow first blocks",
    "memory of 10 steps",
    "memory cleared",
    "own part",
    "common row 0.3",
    "common row 1",
    "common row 3",
    "wide skips",
    "scaled branches",
    "quiet deep norms",
]


def widen_skips(gpt, x):
    """Give each skip the factor of Admin (Liu et al., 2020): the root of the variance that all
    branches before it add."""
    with torch.no_grad():
        variance = 1.0
        for block in gpt.blocks:
            block.skip = [1.0, 1.0]
        streams(gpt, x)
        for block in gpt.blocks:
            for i, y in enumerate(block.returned):
                block.skip[i] = math.sqrt(variance)
                variance += y.var().item()


def changed(gpt, change, generator):
    """Change a model as one of CHANGES says; return the arguments of its training."""
    width = gpt.head.in_features
    if change.startswith(("own", "common")):
        for block in gpt.blocks:
            block.own = True
            if change.startswith("common"):
                rows = torch.randn(2, width, generator=generator)
                block.common = (
                    float(change.split()[-1]) ** 0.5
                    * rows
                    / rows.square().mean(-1, keepdim=True).sqrt()
                )
    if change == "wide skips":
        widen_skips(gpt, corpus()[0][:100])
    if change == "scaled branches":
        with torch.no_grad():
            for block in gpt.blocks:
                block.branches[0].out.weight /= math.sqrt(2 * len(gpt.blocks))
                block.branches[1][2].weight /= math.sqrt(2 * len(gpt.blocks))
    if change == "quiet deep norms":
        for k, block in enumerate(gpt.blocks, 1):
            block.scale = 1 / math.sqrt(k)
    half = len(gpt.blocks) // 2
    return {
        "warm-up": {"warm_up": 75},
        "slow last blocks": {"rates": {k: 0.1 for k in range(half, 2 * half)}},
        "slow first blocks": {"rates": {k: 0.1 for k in range(half)}},
        "memory of 10 steps": {"betas": (0.5, 0.9)},
        "memory cleared": {"cleared": 40},
    }.get(change, {})


@record(
    seeds=range(8),
    shows={
        "loss": ".2f nats",
        "unlike": ".2g",
        "unlike_start": ".2g",
        "first_to_last": ".2g",
        "last_gradient": ".2g",
        "amplification": ".0f",
        "deep": ".3f nats",
    },
    tolerance={
        "loss": 0.3,
        "unlike": 0.6,
        "unlike_start": 0.01,
        "first_to_last": 0.05,
        "last_gradient": 0.05,
        "amplification": 2,
        "deep": 0.2,
    },
    place=["post", "pre"],
    change=CHANGES,
)
def causes(
    seed, place="post", change="nothing", start="Xavier", rate=0.003, steps=150, layers=LAYERS
):
    """One thing changed in a stack that stalls (Post-LN) and in its control (Pre-LN), 150 steps
    at rate 0.003.

    warm-up: over 75 steps. slow first or last blocks: a tenth of the rate for one half of the
    blocks. memory of 10 steps: Adam's beta are 0.5 and 0.9. memory cleared: Adam forgets all at
    step 40. own part: without what a branch returns for all tokens alike. common row m: the own
    part, and a fixed row of mean square m. wide skips: Admin. scaled branches: GPT-2's factor.
    quiet deep norms: block k's norms times 1/sqrt(k). loss: at the end. unlike, unlike_start:
    what differs between tokens after the last block. first_to_last, last_gradient: of the first
    step's gradient by block. deep: what leaving out one of the last four blocks costs, in the
    mean."""
    gpt = placed(place, start, layers)
    how = changed(gpt, change, torch.Generator().manual_seed(2_000_000 + seed))
    norms = gradients(gpt)
    begun = {
        "unlike_start": unlike(gpt)[-1],
        "first_to_last": norms[0] / norms[-1],
        "last_gradient": norms[-1],
        "amplification": amplification(gpt),
    }
    loss = trained(gpt, seed, rate, steps, **how)[-1]
    return begun | {"loss": loss, "unlike": unlike(gpt)[-1], "deep": sum(without(gpt)[-4:]) / 4}


@record(
    seeds=range(4),
    shows={"loss": ".2f nats", "start": ".0f nats"},
    tolerance={"loss": 0.2, "start": 1},
    place=[None, "pre", "post"],
    rate=[0.003, 0.01],
)
def nowhere(seed, place=None, rate=0.003, steps=150, layers=LAYERS):
    """GPT-2's factor on the branches of a model from Xavier's start, with norms in two places and
    with no norm at all: the validation loss before training (start), and after it."""
    gpt = CharGPT(layers=layers, norm=nn.LayerNorm, place=place)
    with torch.no_grad():
        for block in gpt.blocks:
            block.attend.out.weight /= math.sqrt(2 * layers)
            block.mlp[2].weight /= math.sqrt(2 * layers)
    return {"start": validation(gpt), "loss": trained(gpt, seed, rate, steps)[-1]}


class Returned(nn.Module):
    """A branch f whose result is changed before it is added. how: one of PARTS.

    fixed: the common row that is taken away whatever the batch is, (C,), or None."""

    def __init__(self, f, how):
        super().__init__()
        self.f, self.how, self.fixed = f, how, None

    def forward(self, x):
        y = self.f(x)  # (B, T, C)
        self.mean = y.detach().mean((0, 1))  # (C,)
        if self.fixed is not None:
            return y - self.fixed
        own = y - y.mean((0, 1))
        ratio = (y.detach().square().mean() / own.detach().square().mean()).sqrt()
        if self.how == "own part":
            return own
        if self.how == "own part, as large as the branch":
            return own * ratio
        if self.how == "branch, as small as its own part":
            return y / ratio
        return y


PARTS = [
    "nothing",
    "own part",
    "own part, as large as the branch",
    "branch, as small as its own part",
    "without the first common part",
]


@record(
    seeds=range(4),
    shows={"loss": ".2f nats", "frozen": ".2f nats", "early": ".2g"},
    tolerance={"loss": 0.3, "frozen": 0.3, "early": 0.1},
    change=PARTS,
)
def own_part(seed, change="nothing", rate=0.003, steps=150, layers=LAYERS):
    """Controls for what taking away the common part does to Post-LN: it also makes the branches
    smaller, and it takes means over later letters.

    without the first common part: the mean row of each branch before training, on a thousand
    words, is taken away as a constant. frozen: the loss where each branch's mean row, on a
    thousand words after training, is a constant, so that no letter knows a later one; of "own
    part", and of the others the loss itself. early: what differs between tokens after the last
    block, before training and after 1, 2, 5 and 10 steps."""
    gpt = placed("post", "Xavier", layers)
    for block in gpt.blocks:
        block.branches = nn.ModuleList(Returned(f, change) for f in block.branches)
    parts = [branch for block in gpt.blocks for branch in block.branches]

    @torch.no_grad()
    def freeze():
        gpt(corpus()[0][:1000])
        for part in parts:
            part.fixed = part.mean

    if change == "without the first common part":
        freeze()
    early, g = [unlike(gpt)[-1]], torch.Generator().manual_seed(1_000_000 + seed)
    optimizer = torch.optim.Adam(gpt.parameters(), lr=rate, betas=(0.9, 0.98), fused=True)
    for step in range(1, steps + 1):
        x, y = batch(g)
        optimizer.zero_grad()
        nats(gpt(x), y).backward()
        optimizer.step()
        if step in (1, 2, 5, 10):
            early.append(unlike(gpt)[-1])
    loss = validation(gpt)
    if change == "own part":
        freeze()
    return {"loss": loss, "frozen": validation(gpt), "early": early}


@record(
    seeds=range(100, 104),
    shows={"validation": ".2f nats"},
    tolerance=0.1,
    setting=list(range(len(SETTINGS))),
)
def transformer_gpt(seed, setting=0):
    """Validation losses after 25, 50, ... 150 steps of one of SETTINGS, which are rows of a table."""
    layers, place, norm, rate, warm_up, start, final = SETTINGS[setting]

    def model():
        kind = {"LayerNorm": nn.LayerNorm, "RMSNorm": nn.RMSNorm}[norm]
        gpt = CharGPT(layers=layers, norm=kind, place=place)
        start_as(gpt, start)
        gpt.final = gpt.final if final else nn.Identity()
        return gpt

    history = train.compare(
        {"gpt": model},
        seeds=[seed],
        loss=nats,
        batches=batch,
        steps=150,
        every=25,
        evaluate={"validation": validation},
        optimizer=lambda parameters: torch.optim.Adam(
            parameters, lr=rate, betas=(0.9, 0.98), fused=True
        ),
        schedule=(lambda step: min(1.0, step / warm_up)) if warm_up else None,
    )
    return {"validation": history["gpt"]["validation"][0]}

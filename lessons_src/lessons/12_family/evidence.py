"""What lesson 12 says of many runs."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode
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
    rate=[0.003, 0.006, 0.01],
)
def gpt_rates(seed, norm="LayerNorm", rate=0.003, steps=200):
    """Loss of a GPT of 6 blocks on 2,000 unseen words, after 200 steps of Adam.

    Even seeds are on one split of the words, odd ones on another.
    """
    words, split = data.words(), torch.Generator().manual_seed(7 + seed % 2)
    order = torch.randperm(len(words), generator=split)
    torch.manual_seed(seed)
    net = CharGPT(layers=6, norm=NORMS[norm])
    optimizer = torch.optim.Adam(net.parameters(), rate, betas=(0.9, 0.98))
    for step in range(steps + 1):
        unseen = step == steps
        chosen = order[-2000:] if unseen else order[torch.randint(len(words) - 2000, (32,))]
        x, y = encode([words[i] for i in chosen])  # (B, T) each
        with torch.set_grad_enabled(not unseen):
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if not unseen:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {"unseen": loss.item()}

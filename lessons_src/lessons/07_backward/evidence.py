"""What lesson 7 says of many runs: nets whose norm has a wrong backward pass."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import data
from lessonkit.evidence import record


class Cut(nn.Module):
    """LayerNorm over the last axis, without gain and bias, whose statistics hold no gradient.

    cut: "mean", "variance" or "both" are cut; "nothing" is a right LayerNorm. x (B, D).
    """

    def __init__(self, cut):
        super().__init__()
        self.cut, self.means = cut, []

    def forward(self, x):
        self.means.append(x.detach().mean(-1).square().mean().sqrt().item())
        mean = x.mean(-1, keepdim=True)  # (B, 1)
        centered = x - (mean.detach() if self.cut in ("mean", "both") else mean)
        var = (x - mean).square().mean(-1, keepdim=True)  # (B, 1)
        return (
            centered
            * ((var.detach() if self.cut in ("variance", "both") else var) + 1e-5) ** -0.5
        )


@record(
    seeds=range(8),
    shows={"reads": ".0f %", "before": ".2f", "after": ".2f"},
    tolerance={"reads": 20, "before": 1e-3, "after": 1.0},
    cut=["nothing", "both", "mean", "variance"],
    rate=[0.05, 0.2],
    split=[0, 1],
)
def cut_paths(seed, cut="nothing", rate=0.05, split=0, steps=200, blocks=6, nudge=0.0):
    """Percent of the test digits read by a net of six blocks, some paths of whose norms are cut.

    Its first weights are larger by the share nudge.
    before, after: the root mean square of the rows' means where they enter a norm, over all norms,
    at the first step and at the last.
    """
    norms = [Cut(cut) for _ in range(blocks)]
    layers = [nn.Sequential(nn.Linear(64, 64), norm, nn.ReLU()) for norm in norms]
    net, digits = nn.Sequential(*layers, nn.Linear(64, 10)), data.digits_split(split)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter *= 1 + nudge
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    x = digits.x_train.flatten(1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), digits.y_train).backward()
        optimizer.step()
    size = lambda at: (sum(norm.means[at] ** 2 for norm in norms) / blocks) ** 0.5
    before, after = size(0), size(-1)
    right = net(digits.x_test.flatten(1)).argmax(1) == digits.y_test
    return {"reads": 100 * right.double().mean().item(), "before": before, "after": after}


# The run that a test repeats cuts nothing: there rounding moves a few digits.
@record(
    seeds=range(4), shows={"moved": ".0f"}, tolerance=3, cut=["nothing", "variance", "mean"]
)
def cut_rounding(seed, cut="nothing"):
    """By how many in a hundred test digits two runs differ whose first weights differ by a millionth."""
    reads = []
    for nudge in (0.0, 1e-6):
        torch.manual_seed(seed)
        reads.append(cut_paths(seed, cut, nudge=nudge)["reads"])
    return {"moved": abs(reads[0] - reads[1])}

"""What lesson 4 says of many runs: a checkpoint whose names are translated, and its numbers are not."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.affine_and_module import OldNorm, _make_net
from lessonkit import data
from lessonkit.evidence import record


def _loaded(split, epochs, rate):
    """Train a net of OldNorm, load it into LayerNorms in two ways, and return what came of it, as the records say."""
    digits = data.digits_split(split)
    net, x_train, x_test = (_make_net(OldNorm), digits.x_train.double(), digits.x_test.double())
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()

    def reads(model):
        return 100 * (model(x_test).argmax(-1) == digits.y_test).double().mean().item()

    renamed, skipped = _make_net(nn.LayerNorm), _make_net(nn.LayerNorm)
    state = net.state_dict()
    new_name = lambda key: key.replace("gain", "weight").replace("offset", "bias")
    renamed.load_state_dict({new_name(key): value for key, value in state.items()})
    skipped.load_state_dict(state, strict=False)
    old, scores = reads(net), net(x_test)  # scores: (500, 10)
    return {
        "old": old,
        "renamed": reads(renamed),
        "skipped": abs(reads(skipped) - old),
        "apart": ((skipped(x_test) - scores).norm() / scores.norm()).item() * 100,
        "gains": max(g.abs().max().item() for key, g in state.items() if key.endswith("gain")),
    }


_SHOWS = {
    "old": ".0f %",
    "renamed": ".0f %",
    "skipped": ".1f points",
    "apart": ".0f %",
    "gains": ".2f",
}


@record(
    seeds=range(8),
    shows=_SHOWS,
    tolerance={"old": 3, "renamed": 6, "skipped": 1.5, "apart": 3, "gains": 0.02},
    split=[0, 1, 2],
)
def checkpoints(seed, split=0):
    """Percent of the test digits read by a net of OldNorm, and by LayerNorms that load it.

    renamed: with gain loaded as weight, as it is. skipped: by how many points the accuracy changes
    if load_state_dict(strict=False) leaves the norms out; apart: by how many percent of their length
    the outputs do. gains: how far the gain that has moved most is from where it began.
    """
    return _loaded(split, epochs=5, rate=0.03)


# Here 630 large steps make a difference of rounding large, so that on another machine this is another net.
@record(
    seeds=range(8),
    shows=_SHOWS,
    tolerance={"old": 3, "renamed": 40, "skipped": 30, "apart": 40, "gains": 1.5},
    split=[0, 1, 2],
)
def moved_gains(seed, split=0):
    """The same after 30 epochs at ten times the rate, where the norms have learned much more."""
    return _loaded(split, epochs=30, rate=0.3)

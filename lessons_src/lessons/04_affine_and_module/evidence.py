"""What lesson 4 says of many runs: a checkpoint whose names are translated, and its numbers are not."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.affine_and_module import OldNorm, _make_net
from lessonkit import data
from lessonkit.evidence import record


@record(
    seeds=range(8),
    shows={"old": ".0f %", "renamed": ".0f %", "skipped": ".1f points"},
    tolerance={"old": 3, "renamed": 6, "skipped": 1.5},
    split=[0, 1, 2],
)
def checkpoints(seed, split=0, epochs=5):
    """Percent of the test digits read by a net of OldNorm, and by LayerNorms that load it.

    renamed: with gain loaded as weight, as it is. skipped: by how many points the accuracy changes
    if load_state_dict(strict=False) leaves the norms out.
    """
    digits = data.digits_split(split)
    net, x_train = _make_net(OldNorm), digits.x_train.double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()

    def reads(model):
        right = model(digits.x_test.double()).argmax(-1) == digits.y_test
        return 100 * right.double().mean().item()

    renamed, skipped = _make_net(nn.LayerNorm), _make_net(nn.LayerNorm)
    names = {"gain": "weight", "offset": "bias"}
    worded = lambda key: (
        key.rsplit(".", 1)[0] + "." + names.get(key.split(".")[-1], key.split(".")[-1])
    )
    renamed.load_state_dict({worded(key): value for key, value in net.state_dict().items()})
    skipped.load_state_dict(net.state_dict(), strict=False)
    old = reads(net)
    return {"old": old, "renamed": reads(renamed), "skipped": abs(reads(skipped) - old)}

"""What lesson 6 says of many runs."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import data, train
from lessonkit.evidence import record


def read_in_batches(net, x, y, size):
    """Percent read by a copy of the net in its present mode, asked `size` pictures at a time."""
    net = copy.deepcopy(net)
    with torch.no_grad():
        answers = torch.cat([net(part).argmax(1) for part in x.split(size)])
    return 100 * (answers == y).double().mean().item()


class Half(nn.Module):
    """A trained BatchNorm that takes one of its two statistics from the batch.

    floor: the share of the running variance below which the variance of the batch does not fall.
    """

    def __init__(self, bn, mean_of_batch, floor):
        super().__init__()
        self.bn, self.mean_of_batch, self.floor = bn, mean_of_batch, floor

    def forward(self, x):
        var, mean = torch.var_mean(x, 0, correction=0)
        bn = self.bn
        var = torch.maximum(var, self.floor * bn.running_var)
        mean, var = (mean, bn.running_var) if self.mean_of_batch else (bn.running_mean, var)
        return F.batch_norm(x, mean, var, bn.weight, bn.bias)


def halved(net, mean_of_batch, floor=0.0):
    """The net with each of its BatchNorms as a Half."""
    layers = copy.deepcopy(list(net))
    return nn.Sequential(
        *(
            Half(layer, mean_of_batch, floor) if isinstance(layer, nn.BatchNorm1d) else layer
            for layer in layers
        )
    )


# Out of the mixed batches of training, rounding moves more of the 500 answers. Many splits: how the
# sorted digits fall into batches of 50 depends on the split.
@record(
    seeds=range(2),
    shows=dict.fromkeys(
        [
            "mixed", "sorted", "mixed_by_5", "mixed_by_10", "sorted_eval", "mixed_eval",
            "mean_of_batch", "var_of_batch", "mixed_by_2", "mean_of_two", "var_of_two",
            "floored_var_of_two",
        ],
        ".0f %",
    ),
    tolerance=6,
    split=list(range(12)),
)  # fmt: skip
def batchnorm_orders(seed, split=0, rate=0.1, epochs=5):
    """Percent of the test digits read by the opening's net with BatchNorm: mixed, sorted by label.

    In train mode in batches of 50, or of 5 and 10; in eval mode. mean_of_batch, var_of_batch:
    sorted, with one of the two statistics taken from the batch of 50, the other the running one.
    mean_of_two, var_of_two: the same, mixed, in batches of 2; floored_var_of_two: with the variance
    of the two kept above a quarter of the running one.
    """
    digits = data.digits_split(split)
    hidden = [(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()) for _ in range(2)]
    net = nn.Sequential(nn.Flatten(), *hidden[0], *hidden[1], nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(digits.x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(digits.x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()
    x, y = digits.x_test, digits.y_test
    mixed, by_label = torch.randperm(len(x)), y.argsort(stable=True)
    asked = lambda net, order, size=50: read_in_batches(net, x[order], y[order], size)
    return {
        "mixed": asked(net, mixed),
        "sorted": asked(net, by_label),
        "mixed_by_5": asked(net, mixed, 5),
        "mixed_by_10": asked(net, mixed, 10),
        "mixed_by_2": asked(net, mixed, 2),
        "sorted_eval": asked(net.eval(), by_label),
        "mixed_eval": asked(net.eval(), mixed),
        "mean_of_batch": asked(halved(net, True), by_label),
        "var_of_batch": asked(halved(net, False), by_label),
        "mean_of_two": asked(halved(net, True), mixed, 2),
        "var_of_two": asked(halved(net, False), mixed, 2),
        "floored_var_of_two": asked(halved(net, False, 0.25), mixed, 2),
    }


class Jolt(nn.Module):
    """In training a random factor, 0.5 to 1.5, and a random shift, -1 to 1, new at every step.

    For each unit the same for the whole batch, or (own) for each unit of each sample.
    """

    def __init__(self, own):
        super().__init__()
        self.own = own

    def forward(self, x):
        if not self.training:
            return x
        factor, shift = torch.rand(2, *(x.shape if self.own else x.shape[1:]))
        return x * (0.5 + factor) + 2 * shift - 1


def jolted(norm, jolts):
    """Six Kaiming layers of 64 units, each with a norm, jolts and a ReLU, and a linear layer."""
    layers = []
    for _ in range(6):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else [])]
        layers += [*([] if jolts == "none" else [Jolt(jolts == "own")]), nn.ReLU()]
    layers.append(nn.Linear(64, 10))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


NORMS = {"no_norm": None, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


# The first run, which a test repeats, has no jolts: rounding moves a few images.
@record(
    seeds=range(8),
    shows=dict.fromkeys(
        [f"{name}{part}" for name in NORMS for part in ("", "_validation")], ".0f %"
    ),
    tolerance=6,
    jolts=["none", "shared", "own"],
    rate=[0.03, 0.1, 0.3, 1.0],
    split=[0, 1, 2],
)
def batchnorm_jolts(seed, jolts="none", rate=0.1, split=0, epochs=5):
    """Percent of validation and test digits read after five epochs of SGD on 997 digits.

    By six layers without a norm, with BatchNorm, with LayerNorm, and jolts after each.
    """
    whole = data.digits_split(split)
    chosen = whole.validating()
    flat = lambda x: x.flatten(1)
    reads = lambda x, y: lambda net: 100 * (net(flat(x)).argmax(-1) == y).float().mean()
    history = train.compare(
        {name: lambda norm=norm: jolted(norm, jolts) for name, norm in NORMS.items()},
        seeds=[seed],
        data=(flat(chosen.x_train), chosen.y_train),
        epochs=epochs,
        drop_last=True,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate, fused=True),
        evaluate={
            "_validation": reads(chosen.x_test, chosen.y_test),
            "": reads(whole.x_test, whole.y_test),
        },
        every=epochs * (len(chosen.x_train) // 64),
    )
    ends = {}
    for name, curves in history.items():
        for part in ("", "_validation"):  # a run that diverges is at chance
            ends[f"{name}{part}"] = curves[part][0, -1].nan_to_num(10.0).item()
    return ends

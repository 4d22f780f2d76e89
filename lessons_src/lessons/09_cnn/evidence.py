"""What lesson 9 says of many runs."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.cnn import digit_cnn, kaiming, learn
from lessonkit import data, train
from lessonkit.evidence import record


def mlp(norm=None):
    """Three layers of 64 units, each with norm(64) before its ReLU, and a linear layer."""
    layers = [nn.Flatten()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


@torch.no_grad()
def tested(model, digits, batch_size, order, eval_mode):
    """Percent of the test digits that a copy of the model reads, in batches of the given order."""
    model = copy.deepcopy(model).train(not eval_mode)
    answers = [model(digits.x_test[rows, None]).argmax(-1) for rows in order.split(batch_size)]
    return 100 * (torch.cat(answers) == digits.y_test[order]).double().mean().item()


class OverTheBatch(nn.Module):
    """A norm over the batch axis, without running statistics."""

    def forward(self, x):
        return (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)


# Nats of the loss, points of the tests (50 images one by one: one image is 2 points; early in
# training rounding counts most).
@record(
    seeds=range(8),
    shows={"loss": ".2f", "script": ".0f %", "alone": ".0f %"},
    tolerance={"loss": 0.2, "script": 8, "alone": 20},
    run=["healthy", "run A", "run B", "run C"],
)
def cnn_three_faults(seed, run="healthy", split=0):
    """A net of linear layers after epochs 2, 4, 6, 8 and 10: a healthy one, or one with a fault.

    loss: of training. script: percent read of the test digits sorted by class, ten at a time, as
    the net is left by training. alone: after eval(), 50 digits one by one.
    """
    digits = data.digits_split(split)
    by_class = digits.y_test.argsort(stable=True)  # (500,) all zeros first, then all ones ...
    some = torch.arange(0, 500, 10)
    squashed = lambda out, y: F.cross_entropy(out.sigmoid(), y)
    norm, loss, eval_mode = {
        "healthy": (nn.LayerNorm, F.cross_entropy, True),
        "run A": (lambda D: OverTheBatch(), F.cross_entropy, True),
        "run B": (nn.LayerNorm, squashed, True),
        "run C": (nn.BatchNorm1d, F.cross_entropy, False),
    }[run]
    history = train.compare(
        {run: lambda: mlp(norm)},
        seeds=[seed],
        data=(digits.x_train[:, None], digits.y_train),
        epochs=10,
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
        evaluate={
            "script": lambda model: tested(model, digits, 10, by_class, not model.training),
            "alone": lambda model: tested(model, digits, 1, some, True),
        },
        every=42,
        eval_mode=eval_mode,
    )[run]
    return {key: history[key][0] for key in ("loss", "script", "alone")}


# The first run, which a test repeats, is at 0.1, where both learn: rounding moves its end by a few
# images.
@record(
    seeds=range(8),
    shows={"no_norm": ".0f %", "layer_norm": ".0f %"},
    tolerance=6,
    rate=[0.1, 0.3, 1.0],
    split=[0, 3],
)
def cnn_learning_rates(seed, rate=0.1, split=0):
    """Percent read after six epochs by two nets from Kaiming's weights; one that diverges: 10 %."""
    ends = {}
    for name, norm in {"no_norm": None, "layer_norm": lambda *CHW: nn.LayerNorm(CHW)}.items():
        torch.manual_seed(seed)
        net = kaiming(digit_cnn(norm))
        ends[name] = learn(net, data.digits_split(split), rate, seed=seed)[-1]
        if not all(p.isfinite().all() for p in net.parameters()):
            ends[name] = 10.0
    return ends

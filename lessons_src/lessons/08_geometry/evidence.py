"""What lesson 8 says of many runs: the length of weights before a norm, and tokens of one number."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import data
from lessonkit.evidence import record

SPLITS = [0, 1, 2]


def losses(
    seed, split, length, rate, decay=0.0, eps=0.0, rule=torch.optim.SGD, steps=100, **more
):
    """The losses of steps of digits -> W -> LayerNorm -> ReLU -> V, from length times W; float64."""
    g, digits = torch.Generator().manual_seed(seed), data.digits_split(split)
    X = digits.x_train.flatten(1).double()  # (B, D) = (1297, 64)
    W = nn.Parameter(length * torch.randn(32, 64, dtype=X.dtype, generator=g) / 8)  # (H, D)
    V = torch.randn(10, 32, dtype=X.dtype, generator=g) / 32**0.5  # (10, H) stays as it is
    optimizer, history = rule([W], lr=rate, weight_decay=decay, **more), []
    for _ in range(steps):
        optimizer.zero_grad()
        h = F.layer_norm(X @ W.T, (32,), eps=eps)  # (B, H)
        loss = F.cross_entropy(F.relu(h) @ V.T, digits.y_train)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return torch.tensor(history, dtype=X.dtype)  # (steps,)


@record(
    seeds=range(24),
    shows={"sgd": ".0e", "adam": ".0e", "eps": ".0e", "short": ".2f"},
    tolerance={"sgd": 1e-9, "adam": 1e-9, "eps": 1e-3, "short": 0.05},
)
def paces(seed, split=None, times=10.0):
    """The largest gap between the losses of two runs that should be the same.

    A seed draws the weights, and who trains: the losses of two splits from the same weights are alike.

    sgd: W at rate 0.005 and 10 W at 0.5. adam: W at 0.02 and 10 W at 0.2, its own eps 0. eps: as
    sgd, with the norm's epsilon at 1e-5. short: W / 1000 at 0.5e-6 in the place of 10 W.
    """
    gap = lambda a, b: (a - b).abs().max().item()
    split = seed if split is None else split
    run = lambda length, rate, **more: losses(seed, split, length, rate, **more)
    adam = {"rule": lambda p, lr, weight_decay: torch.optim.Adam(p, lr=lr, eps=0.0)}
    return {
        "sgd": gap(run(1, 0.5 / times**2), run(times, 0.5)),
        "adam": gap(run(1, 0.2 / times, **adam), run(times, 0.2, **adam)),
        "eps": gap(run(1, 0.5 / times**2, eps=1e-5), run(times, 0.5, eps=1e-5)),
        "short": gap(run(1, 0.5, eps=1e-5), run(1e-3, 0.5e-6, eps=1e-5)),
    }


@record(
    seeds=range(24),
    shows={"loss": ".2f", "loss_with_decay": ".2f", "gained": ".2f"},
    tolerance=0.05,
    length=[10.0, 1.0],
)
def decayed(seed, length=1.0, split=None, rate=0.5, decay=0.02):
    """The last of 100 losses of SGD without weight decay and with it, and what the decay gained.

    A seed draws the weights, and who trains.
    """
    split = seed if split is None else split
    plain, short = (losses(seed, split, length, rate, d)[-1].item() for d in (0.0, decay))
    return {"loss": plain, "loss_with_decay": short, "gained": plain - short}


SIZED = {
    "no norm": lambda x, w, b: x.unsqueeze(-1) * w + b,
    "norm of product and bias": lambda x, w, b: F.layer_norm(x.unsqueeze(-1) * w + b, (4,)),
}
RULES = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@record(
    seeds=range(3),
    shows={"reads": ".0f %"},
    tolerance=3,
    rule=list(RULES),
    tokens=list(SIZED),
    pixels=[1.0, 100.0, 0.01],
    split=SPLITS,
)
def token_sizes(seed, rule="SGD", tokens="no norm", pixels=1.0, split=0):
    """Percent of the test digits that a linear layer reads from such tokens of pixels times a factor."""
    digits = data.digits_split(split)
    weight, bias = nn.Parameter(torch.randn(64, 4)), nn.Parameter(torch.randn(64, 4))  # (K, E)
    reader, make = nn.Linear(256, 10), SIZED[tokens]
    optimizer = RULES[rule]([weight, bias, *reader.parameters()])
    scores = lambda x: reader(make(pixels * x.flatten(1), weight, bias).flatten(1))  # (B, 10)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(scores(digits.x_train), digits.y_train).backward()
        optimizer.step()
    right = scores(digits.x_test).argmax(1) == digits.y_test
    return {"reads": 100 * right.double().mean().item()}

"""What lesson 1 says of many runs: deep ReLU nets, before training and after three epochs on digits."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import data
from lessonkit.evidence import record

SPLITS = [0, 1, 2]


def plain(depth, width=64):
    """`depth` ReLU layers and a last linear layer, as PyTorch starts them."""
    layers = []
    for at in range(depth):
        layers += [nn.Linear(width if at else 64, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def healed(depth, weights=True, biases=True):
    """The same with first weights of scale 1.41 and biases of 0, or with one of the two."""
    net = plain(depth)
    for layer in net[:-1:2]:
        if weights:
            nn.init.normal_(layer.weight, std=(2 / 64) ** 0.5)
        if biases:
            nn.init.zeros_(layer.bias)
    return net


class Standardize(nn.Module):
    """Each row less its mean, over its standard deviation; a constant row becomes 0."""

    def forward(self, z):
        c = z - z.mean(-1, keepdim=True)
        deviation = c.square().mean(-1, keepdim=True).sqrt()
        return c / torch.where(deviation > 0, deviation, 1)


def twenty(scale, norm):
    """Twenty ReLU layers without biases at a weight scale, with norm() before each ReLU."""
    layers = []
    for _ in range(20):
        linear = nn.Linear(64, 64, bias=False)
        nn.init.normal_(linear.weight, std=scale / 64**0.5)
        layers += [linear, norm(), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def reads(model, split, rate, epochs=3, eps=1e-8):
    """Train with Adam (eps: its small number) in batches of 64. Return the percent of the test digits that are read."""
    digits = data.digits_split(split)
    x_train, x_test = digits.x_train.flatten(1), digits.x_test.flatten(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, eps=eps)
    for _ in range(epochs):
        for rows in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x_train[rows]), digits.y_train[rows]).backward()
            optimizer.step()
    return 100 * (model(x_test).argmax(1) == digits.y_test).double().mean().item()


@record(
    seeds=range(8),
    shows={"reads": ".0f %"},
    tolerance=15,  # guessing: which digit is guessed can change
    rate=[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1],
    split=SPLITS,
)
def deep_rates(seed, rate=0.001, split=0, depth=20, width=64):
    """Percent read by twenty layers as PyTorch starts them, after three epochs."""
    return {"reads": reads(plain(depth, width), split, rate)}


@record(
    seeds=range(8),
    shows={"reads": ".0f %"},
    tolerance=15,
    start=["PyTorch's", "Kaiming's", "larger weights", "no biases"],
    split=SPLITS,
)
def deep_start(seed, start="Kaiming's", split=0, rate=0.001, depth=20):
    """Percent read by twenty layers after three epochs. Kaiming's: larger weights, of scale 1.41, and no biases."""
    both = start == "Kaiming's"
    net = healed(depth, both or start == "larger weights", both or start == "no biases")
    return {"reads": reads(net, split, rate)}


@record(
    seeds=range(4), shows={"reads": ".0f %"}, tolerance=15, biases=[True, False], split=SPLITS
)
def smaller_eps(seed, biases=True, split=0, rate=0.001, depth=20):
    """Percent read by twenty layers as PyTorch starts them, with 1e-16 in the place of Adam's 1e-8; biases: or 0."""
    return {
        "reads": reads(healed(depth, weights=False, biases=not biases), split, rate, eps=1e-16)
    }


@record(
    seeds=range(8),
    shows={"reads": ".0f %"},
    tolerance=15,
    scale=[0.2, 0.58, 1.41, 3.0],
    norm=["none", "standardize"],
    split=SPLITS,
)
def forgiven(seed, scale=1.41, norm="none", split=0, rate=0.001):
    """Percent read after three epochs by twenty layers of a weight scale, with and without norms."""
    return {
        "reads": reads(twenty(scale, {"none": nn.Identity}.get(norm, Standardize)), split, rate)
    }


@record(
    seeds=range(4),
    shows={"reads": ".0f %"},
    tolerance=15,
    scale=[0.2, 100.0],
    rate=[0.0003, 0.001, 0.03],
    split=SPLITS,
)
def other_rates(seed, scale=0.2, rate=0.0003, split=0):
    """Percent read with norms from weights that are far too small or too large, in smaller and larger steps."""
    return {"reads": reads(twenty(scale, Standardize), split, rate)}


class Fault(nn.Module):
    """times * h + plus * row, with one random row for all digits."""

    def __init__(self, times, plus):
        super().__init__()
        self.times, self.row = times, plus * torch.randn(64)

    def forward(self, h):
        return self.times * h + self.row


@record(
    seeds=range(4),
    shows={"differs": ".0e", "share": ".0f %", "reads": ".0f %"},
    tolerance={"differs": 0.01, "share": 1, "reads": 15},
    case=[
        "healed",
        "small",
        "alike",
        "common",
        "dead",
        "dead without biases",
        "dead but enlarged",
    ],
    split=SPLITS,
)
def spoiled(seed, case="healed", split=0, depth=20):
    """Percent read after three epochs by twenty layers with a fault just before the last one.

    healed: first weights of scale 1.41, biases 0. small: this, and the signal times 1e-8. alike: this, and one random
    row of rms 10 added to every digit's; common: one of rms 1000. dead: as PyTorch starts them. dead without biases:
    these are 0. dead but enlarged: this, and the signal times 1e7.
    differs: the rms of each digit less their mean, before the last layer and before training. share: what part of the
    signal's rms that is, in percent.
    """
    net = healed(depth, weights=not case.startswith("dead"), biases=case != "dead")
    times = {"small": 1e-8, "dead but enlarged": 1e7}.get(case, 1.0)
    net.insert(len(net) - 1, Fault(times, {"alike": 10.0, "common": 1000.0}.get(case, 0.0)))
    with torch.no_grad():
        last = net[:-1](data.digits_split(split).x_test.flatten(1))  # (500, 64)
    rms = lambda h: h.square().mean().sqrt().item()
    differs = rms(last - last.mean(0))
    return {
        "differs": differs,
        "share": 100 * differs / rms(last),
        "reads": reads(net, split, 0.001),
    }


@record(
    seeds=range(4),
    shows={"reads": ".0f %"},
    tolerance=15,
    start=["PyTorch's", "Kaiming's", "standardize"],
    depth=[2, 50],
    split=SPLITS,
)
def depths(seed, start="Kaiming's", depth=50, split=0):
    """Percent read after three epochs by two and by fifty layers. standardize: after each matrix, at scale 1.41."""
    net = plain(depth) if start == "PyTorch's" else healed(depth)
    if start == "standardize":
        layers = [
            [layer] if isinstance(layer, nn.ReLU) else [layer, Standardize()]
            for layer in net[:-1]
        ]
        net = nn.Sequential(*sum(layers, []), net[-1])
    return {"reads": reads(net, split, 0.001)}


def signals(seed, depth, mean=0.0, width=64):
    """Return (factor of the signal's rms, factor of the gradient's rms) of random ReLU layers, scale 1.41.

    The gradient comes from random numbers above; float64.
    """
    x = data.digits_split(0).x_train[:40].flatten(1).double()
    leaf = x.clone().requires_grad_()
    h = leaf
    for _ in range(depth):
        std = (2 / h.shape[1]) ** 0.5
        h = torch.relu(h @ (std * (torch.randn(h.shape[1], width, dtype=h.dtype) + mean)))
    up = torch.randn(h.shape, dtype=h.dtype)
    (back,) = torch.autograd.grad(h, leaf, up)
    size = lambda t: t.square().mean().sqrt().item()
    return size(h) / size(x), size(back) / size(up)


@record(seeds=range(96), shows={"low": ".2f", "high": ".2f"}, tolerance=1e-6)
def scale_lives(seed, depth=50, number=3):
    """Between which weight scales one digit of rms 1, as in explore.depth, arrives with 0.01 to 100.

    All fifty layers together multiply by the scale fifty times, so one draw says both ends.
    """
    rms = lambda t: t.square().mean().sqrt()
    h = data.digits()[0][number].flatten().double()  # (64,)
    h = h / rms(h)
    for _ in range(depth):
        h = torch.relu(h @ torch.randn(64, 64, dtype=h.dtype) / 8)
    at_one = rms(h).item()
    return {"low": (0.01 / at_one) ** (1 / depth), "high": (100 / at_one) ** (1 / depth)}


@record(
    seeds=range(24),
    shows={"signal": ".2f", "gradient": ".2f", "apart": ".2g"},
    tolerance={"signal": 1e-6, "gradient": 1e-6, "apart": 1e-3},
    mean=[0.0, -0.1],
    depth=[10, 25, 50],
)
def two_ways(seed, mean=0.0, depth=50):
    """What a layer multiplies the signal by, and the gradient, as a mean over the depth.

    mean: of the weights, in their standard deviations. apart: the whole gradient's factor over the
    whole signal's.
    """
    forward, back = signals(seed, depth, mean)
    return {
        "signal": forward ** (1 / depth),
        "gradient": back ** (1 / depth),
        "apart": back / forward,
    }

"""What lesson 9 says of many runs."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.cnn import digit_cnn, kaiming, learn, mlp, pulled
from lessonkit import data
from lessonkit.evidence import record


def layer_norm(*sizes):
    """LayerNorm of each image, with a gain and a bias for each pixel of each channel."""
    return nn.LayerNorm(sizes)


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


def batch_norm(*sizes):
    """BatchNorm of each pixel of each channel."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(math.prod(sizes)), nn.Unflatten(1, sizes))


# Nats of the loss, points of the tests (50 images one by one: one image is 2 points).
@record(
    seeds=range(8),
    shows={"loss": ".2f", "script": ".0f %", "alone": ".0f %"},
    tolerance={"loss": 0.2, "script": 8, "alone": 20},
    run=["healthy", "run A", "run B", "run C"],
)
def cnn_three_faults(seed, run="healthy", split=0):
    """A net of six convolutions after six epochs: a healthy one, or one with a fault.

    loss: of training. script: percent read of the test digits sorted by class, ten at a time, as
    the net is left by training. alone: after eval(), 50 digits one by one.
    """
    digits = data.digits_split(split)
    norm, end = {
        "healthy": (layer_norm, ()),
        "run A": (lambda *sizes: OverTheBatch(), ()),
        "run B": (layer_norm, (nn.Sigmoid(),)),
        "run C": (batch_norm, ()),
    }[run]
    net = digit_cnn(norm).extend(end)
    learn(net, digits, rate=0.1, seed=seed)
    with torch.no_grad():
        scores = copy.deepcopy(net).train()(digits.x_train[:, None])
    return {
        "loss": F.cross_entropy(scores, digits.y_train).item(),
        # all zeros first, then all ones ...
        "script": tested(net, digits, 10, digits.y_test.argsort(stable=True), eval_mode=False),
        "alone": tested(net, digits, 1, torch.arange(0, 500, 10), eval_mode=True),
    }


LEVERS = {
    "weights": {"weights": 6**0.5},
    "none": {},
    "biases": {"biases": 0.0},
    "pictures": {"pictures": 50.0},
    "first rate": {"first_rate": 150.0},
    "last rate": {"last_rate": 150.0},
    "first layers fixed": {"weights": 6**0.5, "first_rate": 0.0},
    "Adam": {"adam": True},
}


# The first run, which a test repeats, is with larger weights, where rounding moves the end by a few
# of 300 images.
@record(
    seeds=range(20, 28),
    shows={"reads": ".0f %"},
    tolerance=6,
    lever=list(LEVERS),
    split=[1, 2, 3],
)
def levers(seed, lever="weights", split=1):
    """Percent of the validation digits that the net without a norm reads, with one lever pulled.

    first layers fixed: the weights are larger, and those of the first three layers never change.
    """
    practice = data.digits_split(split).validating()
    return {"reads": pulled(practice, **LEVERS[lever], seed=seed)}


# The first run, which a test repeats, is at the smallest rate: rounding moves the end by a few
# images.
@record(
    seeds=range(8),
    shows=dict.fromkeys(
        ["no_norm", "no_norm_validation", "layer_norm", "layer_norm_validation"], ".0f %"
    )
    | {"ahead": ".1f points"},
    tolerance=6,
    rate=[0.01, 0.03, 0.1, 0.3],
    split=[0, 1, 2],
)
def cnn_learning_rates(seed, rate=0.01, split=0):
    """Percent of validation digits and of test digits read after six epochs on 997 digits.

    By nets without a norm and with LayerNorm, both from Kaiming's weights. A net that diverges:
    10 %. ahead: the net without a norm, on the test digits.
    """
    whole, ends = data.digits_split(split), {}
    for name, norm in {"no_norm": None, "layer_norm": layer_norm}.items():
        torch.manual_seed(seed)
        net = kaiming(digit_cnn(norm))
        ends[f"{name}_validation"] = learn(net, whole.validating(), rate, seed=seed)[-1]
        with torch.no_grad():
            right = net.eval()(whole.x_test[:, None]).argmax(-1) == whole.y_test  # (500,)
        ends[name] = 100 * right.double().mean().item()
        if not all(p.isfinite().all() for p in net.parameters()):
            ends[f"{name}_validation"] = ends[name] = 10.0
    return ends | {"ahead": ends["no_norm"] - ends["layer_norm"]}


@torch.no_grad()
def with_means_of(net, x):
    """A copy of the net whose BatchNorms hold, in turn, the means of what pictures x bring them."""
    net = copy.deepcopy(net).eval()
    for layer in net:
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean.copy_(x.mean(0))
        x = layer(x)
    return net


def corrected(net, means=1.0, variances=1.0, layers=3):
    """A copy of the net whose first BatchNorms hold a factor of what they have stored."""
    net = copy.deepcopy(net)
    for layer in [layer for layer in net if isinstance(layer, nn.BatchNorm1d)][:layers]:
        layer.running_mean.mul_(means)
        layer.running_var.mul_(variances)
    return net


# Dim pictures lie near the border of what the nets know: rounding in training moves more of them.
@record(
    seeds=range(8),
    shows=dict.fromkeys(
        [
            *(
                f"{net}{kind}"
                for net in ("batch", "layer", "none")
                for kind in ("", "_dim", "_ink")
            ),
            "means",
            "variances",
            "both",
            "both_first",
            "no_means",
            "means_of_dim",
            "means_of_ink",
        ],
        ".0f %",
    ),
    tolerance=12,
    start=["kaiming", "default"],
    split=[0, 1, 2],
)
def cnn_dim(seed, start="kaiming", split=0, contrast=0.25):
    """Percent of test digits that nets of linear layers read: as they are, and dim.

    batch, layer, none: with BatchNorm, LayerNorm, no norm. _dim: standardized pixels times the
    contrast. _ink: the ink times the contrast, before it is standardized as in training. means,
    variances, both: _dim, with what BatchNorm stored of these corrected by the factor; both_first:
    in the first of its three layers only. no_means: with stored means of 0. means_of_dim,
    means_of_ink: with means taken from dim training pictures.
    """
    digits, nets = data.digits_split(split), {}
    for name, norm in {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": None}.items():
        torch.manual_seed(seed)
        nets[name] = kaiming(mlp(norm)) if start == "kaiming" else mlp(norm)
        learn(nets[name], digits, rate=0.1, seed=seed)
    white = digits.x_train.min()  # a pixel without ink
    less_ink = lambda x: white + contrast * (x - white)
    x, y = digits.x_test, digits.y_test
    reads = lambda net, x: 100 * (net.eval()(x).argmax(-1) == y).double().mean().item()
    seen = {"": x, "_dim": contrast * x, "_ink": less_ink(x)}
    batch = nets["batch"]
    return (
        {f"{name}{kind}": reads(nets[name], seen[kind]) for name in nets for kind in seen}
        | {
            name: reads(corrected(batch, **factors), seen["_dim"])
            for name, factors in {
                "means": {"means": contrast},
                "variances": {"variances": contrast**2},
                "both": {"means": contrast, "variances": contrast**2},
                "both_first": {"means": contrast, "variances": contrast**2, "layers": 1},
                "no_means": {"means": 0.0},
            }.items()
        }
        | {
            "means_of_dim": reads(
                with_means_of(batch, contrast * digits.x_train), seen["_dim"]
            ),
            "means_of_ink": reads(with_means_of(batch, less_ink(digits.x_train)), seen["_ink"]),
        }
    )

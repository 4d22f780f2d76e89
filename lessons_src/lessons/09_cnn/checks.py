"""Checks of lesson 9: a layer on paper, a race, norms put into a net, three broken runs, a published CNN."""

import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.cnn import conv_output_shape, digit_cnn, kaiming, learn
from lessonkit.check.declare import (
    Contract,
    Misconception,
    Probe,
    accept,
    announce,
    as_python,
    draw,
    examine,
    filled,
    kind_of,
    misconceptions,
    of_a_layer,
    raised,
    refuse_dots,
    reject,
    values,
)
from lessonkit.data import digits_split

# ------------------------------------------------------------------------------------ 9.1: one layer on paper

_ON_PAPER = {"weight": 1 / 432, "unit": 2.0, "smaller": 216.0, "factor": 6.0}
_SLIPS = {
    "weight": {
        1 / 144: "That is the square of the bound. The mean square is a third of it.",
        1
        / 12: "That is the bound, or the answer for 4 inputs. The mean square is bound * bound / 3.",
        1 / 36: "The bound is not squared. The mean square is bound * bound / 3.",
        **dict.fromkeys(
            (0.002, 0.0023, 0.00231), "That is rounded. Type a fraction, as 1 / 12 above."
        ),
    },
    "unit": {
        1 / 72: "That is one product. The unit adds up 144 of them.",
        12.0: "That is 144 times 1/12 times 1. The mean square of a weight is 1/432, and that of an input 6.",
        72.0: "That is 144 times 1/12 times 6. The mean square of a weight is 1/432.",
        1 / 3: "The inputs have the mean square 6, not 1.",
        1.0: "That is what the ReLU leaves. Before it there is twice as much.",
    },
    "smaller": {
        46656.0: "That is the mean square. Its root is asked.",
        36.0: "Six layers divide by 6 six times: 6 to the power of 6, and then the root.",
        6.0: "That is the mean square in one layer. Six layers divide by 6 six times; then take the root.",
        **dict.fromkeys(
            (6**0.5, 2.449, 2.45),
            "That is one layer. The factors of six layers are multiplied.",
        ),
        1 / 216: "How many times smaller: a number above 1.",
    },
    "factor": {
        **dict.fromkeys(
            (6**0.5, 2.449, 2.45), "That is for the weights. Their mean square is asked."
        ),
        3.0: "That keeps the mean square up to the ReLU, which takes half of it.",
        1 / 6: "The layer makes the mean square smaller, so the weights must become larger.",
        2.0: "That makes up for the ReLU. The sum has lost two thirds as well.",
    },
}


def shrinking(answer):
    """Check what a layer of PyTorch's first weights does to the mean square of its inputs, on paper (lesson 9)."""
    values(answer, "shrinking", _ON_PAPER, _SLIPS, tolerance=1e-6)


# ------------------------------------------------------------------------------------ 9.2: the other side wins

_SETTINGS = {"rate": 0.01, "start": "kaiming", "batch_size": 64, "seed": 0}
_LOST = {
    "start": "the default first weights hold the net without a norm back. | Take the other start.",
    "large": "the rate is too large for the net without a norm.",
    "few": "six epochs of so few and so small steps are too short for it. | A larger rate, or smaller batches.",
    "close": "both nets have nearly finished learning. | Take a smaller rate, at which they have not.",
    "behind": "here the net without a norm has no lead of two points. | Smaller rates leave more to the seed: try a different one.",
}


def _ends(rate, start, batch_size, seed):
    """Return the percentages that the net without a norm and the one with LayerNorm read."""
    digits, ends = digits_split(0), []
    for norm in (None, lambda *sizes: nn.LayerNorm(sizes)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = digit_cnn(norm)
            ends.append(
                learn(
                    kaiming(net) if start == "kaiming" else net, digits, rate, batch_size, seed
                )[-1]
            )
    return ends


def _whole(value, least, most):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def winning(answer):
    """Check settings at which a net without a norm ends two points ahead of one with LayerNorm (lesson 9)."""
    announce(
        Misconception(f"Probable cause: {_LOST[why]}", _SETTINGS | other)
        for why, other in {
            "start": {"start": "default"},
            "large": {"rate": 1},
            "few": {"rate": 0.002},
            "close": {"rate": 0.1},
            "behind": {"seed": 2},
        }.items()
    )
    refuse_dots(answer, "winning")
    if not isinstance(answer, dict):
        reject(
            f"check.winning takes dict(rate=..., start=..., batch_size=..., seed=...), not {kind_of(answer)}."
        )
    if set(answer) != set(_SETTINGS):
        reject(f"The keys are {', '.join(_SETTINGS)}, not {', '.join(map(str, answer))}.")
    rate, start, batch_size, seed = (as_python(answer[name]) for name in _SETTINGS)
    if not isinstance(rate, (int, float)) or not 0.001 <= rate <= 1:
        reject("rate: a number from 0.001 to 1, please.")
    if start not in ("default", "kaiming"):
        reject("start is one of the words 'default' and 'kaiming'.")
    if not _whole(batch_size, 16, 256) or not _whole(seed, 0, 10**9):
        reject("batch_size: a whole number from 16 to 256, and seed one from 0, please.")
    plain, normed = _ends(rate, start, batch_size, seed)
    if plain < 80:
        why = "start" if start == "default" else "large" if rate > 0.1 else "few"
    elif plain < normed + 2:
        why = "close" if min(plain, normed) > 90 else "behind"
    else:
        accept("Right: the net without a norm is ahead by two points or more.")
        return
    seen = f"The net without a norm reads {plain:.1f} %, the one with LayerNorm {normed:.1f} %."
    reject(seen, f"Probable cause: {_LOST[why]}")


# ------------------------------------------------------------------------------------ 9.3: norms into a net


class _Norm(nn.Module):
    """What the check's norm(C, H, W) makes: it remembers its sizes."""

    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes


def _six(padding):
    layers, channels = [], 1
    for depth in range(4):
        layers += [nn.Conv2d(channels, 4 + depth, 3, padding=padding), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (1, 3) else []
        channels = 4 + depth
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(14, 10))


def _odd():
    return nn.Sequential(
        nn.Conv2d(3, 5, 5, stride=2),
        nn.Tanh(),
        nn.Conv2d(5, 7, (3, 1), padding=(1, 0)),
        nn.ReLU(),
        nn.MaxPool2d(
            3, stride=2, padding=1, dilation=3
        ),  # without both of the last two: another size
        nn.Conv2d(7, 4, 2, dilation=2),
        nn.Flatten(),
    )


def _pool_first():
    relu, same = (
        nn.ReLU(),
        _Conv(3, 3, 3, padding=1),
    )  # the norm of same has the shape of the one before
    return nn.Sequential(
        nn.MaxPool2d((1, 2)), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 3, 2), relu, same, relu
    )


def _with_buffers():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3))


class _Conv(nn.Conv2d):
    """A kind of nn.Conv2d."""


def _described(net):
    if not isinstance(net, nn.Sequential):
        return {
            "the kind of the result": "nothing (None)" if net is None else type(net).__name__
        }
    kinds = ["norm" if isinstance(layer, _Norm) else type(layer).__name__ for layer in net]
    norms = [layer for layer in net if isinstance(layer, _Norm)]
    # The pieces that a message needs come apart: a list of twenty layers tells a reader nothing.
    beside = [(before, after) for before, after in pairwise(kinds) if "norm" in (before, after)]
    return {
        "the kind of the result": "Sequential",
        "the number of norms": len(norms),
        "the layers before and after each norm": beside,
        "the kinds of layers": kinds,
        "what norm was given": [layer.sizes for layer in norms],
        "the number of different norms": len({id(layer) for layer in norms}),
    }


def _run_norms(make, size):
    def run(answer):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = make()
        before, held = list(net), [tensor.clone() for tensor in net.state_dict().values()]
        modes = [layer.training for layer in net.modules()]
        try:
            returned = answer(net, _Norm, size)
        except Exception as error:
            return {"the result": raised(error)}
        weights = list(returned.parameters()) if isinstance(returned, nn.Module) else []
        own = list(net.parameters())
        kept = len(weights) == len(own) and all(
            mine is its for mine, its in zip(weights, own, strict=True)
        )
        same = list(net) == before and all(map(torch.equal, net.state_dict().values(), held))
        kept_modes = list(net) != before or [layer.training for layer in net.modules()] == modes
        return _described(returned) | {
            "the layers besides": "those of net" if kept else "others, or copies",
            "the given net is unchanged": same,
            "the mode of the given net": "as before"
            if kept_modes
            else "changed by train() or eval()",
        }

    return run


_NORMS_PROBES = [
    Probe(
        "four convolutions and two poolings",
        _run_norms(lambda: _six(1), (4, 8)),
        {"size": (4, 8)},
    ),
    Probe(
        "convolutions without padding",
        _run_norms(lambda: _six(0), (18, 21)),
        {"size": (18, 21)},
    ),
    Probe(
        "stride, dilation, a kernel that is not square",
        _run_norms(_odd, (29, 25)),
        {"size": (29, 25)},
    ),
    Probe(
        "a pooling layer first, two convolutions in a row",
        _run_norms(_pool_first, (5, 12)),
        {"size": (5, 12)},
    ),
    Probe(
        "a net with a BatchNorm",
        _run_norms(_with_buffers, (8, 9)),
        {"size": (8, 9)},
        why="Was an image sent through net to measure the sizes? That moves the running statistics of a BatchNorm: "
        "send it through a copy, or let conv_output_shape compute the sizes.",
    ),
]


def _with_norms(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        entering = size  # noqa: F841  a misconception reads it
        follows = isinstance(layer, (nn.Conv2d, nn.MaxPool2d))
        if follows:
            settings = {
                name: getattr(layer, name) for name in ("stride", "padding", "dilation")
            }
            size = conv_output_shape(size, layer.kernel_size, **settings)
        due = isinstance(layer, nn.Conv2d)
        if due:
            new = norm(layer.out_channels, *size)
            layers.append(new)
    return nn.Sequential(*layers)


_NORMS_MISTAKES = misconceptions(
    _with_norms,
    """
    # the norm comes after the activation. It belongs between the convolution and the activation.
    due = isinstance(layer, nn.ReLU)
    new = norm(next(before.out_channels for before in reversed(layers) if isinstance(before, nn.Conv2d)), *size)

    # pooling halves the image, and your size does not follow. | Update it for nn.MaxPool2d as well.
    follows = isinstance(layer, nn.Conv2d)

    # the size does not follow: every norm gets the size of the images that enter the net.
    follows = False

    # norm gets the size of what enters the convolution. It normalizes what comes out.
    new = norm(layer.out_channels, *entering)

    # norm gets in_channels. What comes out of the convolution has out_channels.
    new = norm(layer.in_channels, *size)

    # H and W are swapped.
    new = norm(layer.out_channels, *size[::-1])

    # the channels come last. | Call norm(C, H, W).
    new = norm(*size, layer.out_channels)

    # norm gets all three in one list or tuple. | Call norm(C, H, W).
    new = norm((layer.out_channels, *size))
    # or
    new = norm([layer.out_channels, *size])

    # nn.LayerNorm is written into your function. | Call norm(C, H, W): whoever calls with_norms chooses the norm.
    new = nn.LayerNorm([layer.out_channels, *size])

    # pooling does not always halve the image. | Let conv_output_shape compute it from the layer's settings.
    size = tuple(n // 2 for n in size) if isinstance(layer, nn.MaxPool2d) else conv_output_shape(size, layer.kernel_size, **settings)

    # the pooling layer's stride is not handed to conv_output_shape: there it is 1 if nothing is said.
    settings = {name: getattr(layer, name) for name in ("stride", "padding", "dilation") if isinstance(layer, nn.Conv2d)}

    # the pooling layer's padding and dilation count as well as its stride. | Hand them to conv_output_shape.
    size = conv_output_shape(size, layer.kernel_size, layer.stride) if isinstance(layer, nn.MaxPool2d) else conv_output_shape(size, layer.kernel_size, **settings)

    # norm gets the size only, without the channels. | Call norm(C, H, W).
    new = norm(*size)

    # norm gets the size as one tuple. | Call norm(C, H, W), with a star before the size.
    new = norm(layer.out_channels, size)

    # the layer's dilation is not handed to conv_output_shape.
    settings = {name: getattr(layer, name) for name in ("stride", "padding")}

    # only kernel_size, or one more setting, is handed to conv_output_shape: stride, padding and dilation count as well.
    settings = {}
    # or
    settings = {"stride": layer.stride}
    # or
    settings = {"padding": layer.padding}

    # pooling layers get a norm, too. Only convolutions do.
    due = follows
    new = norm(getattr(layer, "out_channels", 1), *size)

    # a kind of nn.Conv2d counts as one, too. | Ask by isinstance, and not by type.
    due = type(layer) is nn.Conv2d

    # one norm is used at every place. Each convolution needs its own. | Call norm anew.
    new = next((other for other in layers if isinstance(other, _Norm)), None) or norm(layer.out_channels, *size)
    """,
)


def with_norms(answer):
    """Check a function (net, norm, size) that puts norm(C, H, W) after every convolution of net (lesson 9)."""
    tried = "pooling, stride, padding, dilation, images that are not square"
    examine(answer, "with_norms", _NORMS_PROBES, _with_norms, _NORMS_MISTAKES, tried)


# ------------------------------------------------------------------------------------ 9.4: three broken runs


def diagnosis(answer):
    """Check which fault belongs to which of three training runs (lesson 9)."""
    sigmoid, batch, mode = (
        "sigmoid before cross-entropy",
        "norm over the batch axis",
        "eval() forgotten",
    )
    large, healthy = "learning rate too large", "nothing is wrong"
    floor = "This run's training loss falls to nearly 0. With a sigmoid before the loss it could not get below 1.46."
    lossless = "Its training loss is as low as the healthy run's."
    together = (
        "Then the test would depend on the batch. Run B's does not; look at its training loss."
    )
    helps = "Then eval() would not help: that norm has nothing else to use. Run C is fine after eval()."
    jumps = "Then the loss would jump, be nan, or stay at chance, 2.30. This one has come down to 1.62, and the test is fine."
    causes = {
        "run A": {
            mode: "Then calling eval() would cure it. Run A is at chance after eval(), too.",
            sigmoid: floor,
            large: f"{lossless} What fails is the test, and how it fails depends on the batch it is done in.",
            healthy: "Image by image it is at chance, after eval().",
        },
        "run B": {
            batch: together,
            mode: "Then calling eval() would change the test. It does not; look at the training loss.",
            large: jumps,
            healthy: "Its training loss gets stuck far above the healthy run's.",
        },
        "run C": {
            batch: helps,
            sigmoid: floor,
            large: f"{lossless} And after eval() the test is fine.",
            healthy: "In the script its test accuracy is near chance.",
        },
    }
    values(answer, "diagnosis", {"run A": batch, "run B": sigmoid, "run C": mode}, causes)


# ------------------------------------------------------------------------------------ 9.5: the published net


class _Small(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        first = conv_output_shape(size, 3)
        second = conv_output_shape(first, 3)
        self.conv1 = nn.Conv2d(3, 5, 3)
        self.norm1 = nn.LayerNorm([5, *first])
        self.conv2 = nn.Conv2d(5, 10, 3)
        self.norm2 = nn.LayerNorm([10, *second])
        self.dense = nn.Linear(10 * math.prod(second), classes)

    def forward(self, images):
        a = F.relu(self.norm1(self.conv1(images)))
        b = F.relu(self.norm2(self.conv2(a)))
        logits = self.dense(b.flatten(1))
        return logits


_NAMES = (
    "conv1.weight",
    "norm1.weight",
    "norm1.bias",
    "conv2.weight",
    "norm2.weight",
    "norm2.bias",
    "dense.weight",
)


def _small_probe(label, size, classes=None):
    def run(cls):
        net = cls(size, classes) if classes else cls(size)
        state = net.state_dict()
        seen = {
            f"the shape of {n}": tuple(state[n].shape) if n in state else "missing"
            for n in _NAMES
        }
        net = filled(net.double(), 90)
        calls, images = [], draw(80, 2 if classes else 3, 3, *size).requires_grad_()
        for module in (
            net,
            *(
                getattr(net, name, net)
                for name in ("conv1", "norm1", "conv2", "norm2", "dense")
            ),
        ):
            module.register_forward_hook(lambda *_: calls.append(1))
        entered = images.clone()
        try:
            logits = net(entered)
        except Exception as error:  # the shapes above tell one RuntimeError from another
            return seen | {"the logits": raised(error)}
        seen |= {"images after the call": entered.detach(), "the logits": logits}
        return seen | {"how often six forward hooks were called": len(calls)}

    return Probe(label, run, {"size": size} | ({"classes": classes} if classes else {}))


_SMALL_PROBES = [
    _small_probe("images of 9 x 7 pixels, 4 classes", (9, 7), 4),
    _small_probe("images of 8 x 12 pixels, the default classes", (8, 12)),
]
_SMALL_CONTRACT = Contract(
    {"images": "B 3 9 7"},
    use=lambda cls, sizes: cls((9, 7), 4),
    sizes={"B": (2, 1, 17)},
    values=("ordinary", "small"),
    gradient=1,
)

_SMALL_MISTAKES = misconceptions(
    _Small,
    """
    # the sigmoid is still there, and __call__ is still overridden. | Return logits, and define forward.
    def __call__(self, images):
        return torch.sigmoid(self.forward(images))

    # the sigmoid is still there. Cross-entropy takes logits. | Return what dense gives.
    return torch.sigmoid(logits)

    # __call__ is overridden, so hooks are passed over. | Define forward, and nn.Module's own __call__ does the rest.
    def __call__(self, images):
        return self.forward(images)

    # softmax comes before the cross-entropy, which has one of its own. | Return what dense gives.
    return logits.softmax(-1)

    # no ReLU. Order: convolution, norm, ReLU.
    a, b = self.norm1(self.conv1(images)), self.norm2(self.conv2(self.norm1(self.conv1(images))))

    # the second ReLU is missing. Order: convolution, norm, ReLU, both times.
    b = self.norm2(self.conv2(a))

    # the ReLU comes before the norm. Order: convolution, norm, ReLU.
    a = self.norm1(F.relu(self.conv1(images)))
    b = self.norm2(F.relu(self.conv2(a)))

    # the norms are made, and not used in forward. Order: convolution, norm, ReLU.
    a = F.relu(self.conv1(images))
    b = F.relu(self.conv2(a))

    # the channels are missing in normalized_shape: that is a mean for each channel. | Write [C, H, W].
    self.norm1, self.norm2 = nn.LayerNorm(first), nn.LayerNorm(second)

    # GroupNorm(1, C) has the right statistics, and C gains. | Asked is LayerNorm([C, H, W]).
    self.norm1, self.norm2 = nn.GroupNorm(1, 5), nn.GroupNorm(1, 10)

    # the second convolution makes the image smaller again: its size is conv_output_shape of the first one's.
    second = first

    # a convolution without padding makes the image smaller: H and W are those of its output.
    first, second = size, size

    # dense takes (B, features): all axes but the batch are flattened first. | flatten(1).
    logits = self.dense(b)
    # or
    logits = self.dense(b.flatten())
    """,
)


def small_cnn(answer):
    """Check a class SmallCNN(size, classes): two convolutions with LayerNorm([C, H, W]), logits (lesson 9)."""
    tried = (
        "two image sizes, shapes of all parameters, logits, gradients, hooks, train and eval"
    )
    stages = [_SMALL_PROBES, of_a_layer(lambda cls: cls((9, 7), 4), draw(82, 3, 3, 9, 7))]
    examine(
        answer, "small_cnn", stages, _Small, _SMALL_MISTAKES, tried, contract=_SMALL_CONTRACT
    )

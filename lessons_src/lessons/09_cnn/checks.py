"""Checks of lesson 9."""

import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.cnn import conv_output_shape, digit_cnn, kaiming, learn
from lessonkit.check.declare import (
    Misconception,
    Probe,
    accept,
    announce,
    as_python,
    draw,
    exercise,
    filled,
    kind_of,
    of_a_layer,
    quiz,
    raised,
    refuse_dots,
    reject,
)
from lessonkit.data import digits_split

# ------------------------------------------------------------------------------------ 9.1: one layer on paper

shrinking = quiz(
    tolerance=1e-6,
    after=(
        1.0,
        {
            3: "That is the square of the bound. The mean square is a third of it.",
            2: "That is what the unit adds up. The ReLU leaves half of it.",
            4: "That is the unit with 4 inputs. Here are 144, of mean square 6.",
            36: "That is with the bound, 1/12, for the mean square of a weight. It is bound * bound / 3.",
            12: "That is with the bound not squared. The mean square of a weight is bound * bound / 3.",
            1 / 36: "That adds up 4 products. This unit adds up 144 of them.",
            1 / 6: "The inputs have the mean square 6, not 1.",
        },
    ),
    factor=(
        6.0,
        {
            3: "That keeps the mean square up to the ReLU, which takes half of it.",
            2: "That makes up for the ReLU. The sum has lost two thirds as well.",
            **dict.fromkeys(
                (2 / 144, 0.0139, 0.01389),
                "That is Kaiming's mean square itself. How many times PyTorch's, 1/432, is it?",
            ),
        },
    ),
)

# ------------------------------------------------------------------------------------ 9.2: the other side wins

_WINNING = {"rate": 0.015, "start": "kaiming", "batch_size": 64, "seed": 1}
_whole = lambda value, least, most: type(value) is int and least <= value <= most
_ALLOWED = {  # setting: what it has to be, and whether a value is that
    "rate": (
        "a number from 0.001 to 1",
        lambda rate: type(rate) in (int, float) and 0.001 <= rate <= 1,
    ),
    "start": (
        "one of the words 'default' and 'kaiming'",
        lambda start: start in ("default", "kaiming"),
    ),
    "batch_size": ("a whole number from 16 to 256", lambda size: _whole(size, 16, 256)),
    "seed": ("a whole number from 0", lambda seed: _whole(seed, 0, 10**9)),
}
_LOST = {  # why the net without a norm does not win: settings at which it is so
    "the default first weights hold the net without a norm back. | Take the other start.": {
        "start": "default"
    },
    "the rate is too large for the net without a norm.": {"rate": 1},
    "six epochs of so few and so small steps are too short for the net without a norm. | A larger rate, or smaller batches.": {
        "rate": 0.002
    },
    "both nets have nearly finished learning. | Take a smaller rate, at which they have not.": {
        "rate": 0.1
    },
    "here the net without a norm has no lead of two points. | Smaller rates leave more to the seed: try a different one.": {
        "seed": 2
    },
}


def _ends(rate, start, batch_size, seed):
    """Return the percentages of the validation digits that the nets without and with a norm read."""
    digits, ends = digits_split(0).validating(), []
    for norm in (None, lambda *sizes: nn.LayerNorm(sizes)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = digit_cnn(norm)
            net = kaiming(net) if start == "kaiming" else net
            ends.append(learn(net, digits, rate, batch_size, seed)[-1])
    return ends


def winning(answer):
    """Check settings at which a net without a norm ends two points ahead of one with LayerNorm (lesson 9)."""
    announce(
        Misconception(f"Probable cause: {why}", _WINNING | other)
        for why, other in _LOST.items()
    )
    refuse_dots(answer, "winning")
    if not isinstance(answer, dict):
        keys = ", ".join(f"{name}=..." for name in _ALLOWED)
        reject(f"check.winning takes dict({keys}), not {kind_of(answer)}.")
    missing = [f"{name} is missing" for name in _ALLOWED if name not in answer]
    other = [f"{name} is no setting" for name in answer if name not in _ALLOWED]
    if missing or other:
        reject(f"{', '.join(missing + other)}. The keys are {', '.join(_ALLOWED)}.")
    settings = {name: as_python(answer[name]) for name in _ALLOWED}
    for name, (words, allowed) in _ALLOWED.items():
        if not allowed(settings[name]):
            reject(f"{name} is {words}.")
    plain, normed = _ends(**settings)
    if plain >= max(80, normed + 2):
        return accept("Right: the net without a norm is ahead by two points or more.")
    default, large, few, close, behind = _LOST
    why = close if min(plain, normed) > 90 else behind
    if plain < 80:
        why = large if settings["rate"] > 0.1 else few
        why = default if settings["start"] == "default" else why
    seen = f"The net without a norm reads {plain:.1f} %, the one with LayerNorm {normed:.1f} %."
    reject(seen, f"Probable cause: {why}")


# ------------------------------------------------------------------------------------ 9.3: norms into a net


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


class _Norm(nn.Module):
    """What the check's norm(C, H, W) makes: it remembers its sizes."""

    def __init__(self, *sizes):
        super().__init__()
        self.sizes, self.gain = sizes, nn.Parameter(torch.ones(1))


class _Conv(nn.Conv2d):
    """A kind of nn.Conv2d."""


def _plain():
    layers, channels = [], 1
    for depth in range(4):
        layers += [nn.Conv2d(channels, 40 + depth, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (1, 3) else []
        channels = 40 + depth
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(86, 10))


def _odd():
    return nn.Sequential(
        nn.Conv2d(3, 5, 5, stride=2),
        nn.BatchNorm2d(5),
        nn.Tanh(),
        nn.Conv2d(5, 7, (3, 1), padding=(1, 0)),
        nn.ReLU(),
        # without padding and dilation: another size
        nn.MaxPool2d(3, stride=2, padding=1, dilation=3),
        nn.Conv2d(7, 4, 2, dilation=2),
        nn.Flatten(),
    )


def _pool_first():
    relu = nn.ReLU()
    same = _Conv(3, 3, 3, padding=1)  # its norm has the shape of the one before
    return nn.Sequential(
        nn.MaxPool2d((1, 2)), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 3, 2), relu, same, relu
    )


def _described(net):
    if not isinstance(net, nn.Sequential):
        return {"the kind of the result": kind_of(net)}
    kinds = ["norm" if isinstance(layer, _Norm) else type(layer).__name__ for layer in net]
    norms = [layer for layer in net if isinstance(layer, _Norm)]
    return {
        "the number of norms": len(norms),
        "what stands before each norm": ", ".join(a for a, b in pairwise(kinds) if b == "norm"),
        "the kinds of layers": kinds,
        "what norm was given": [layer.sizes for layer in norms],
        "the number of different norms": len(set(norms)),
        "the layers besides": [id(layer) for layer in net if not isinstance(layer, _Norm)],
    }


_MEASURED = (
    "Was an image sent through net to measure the sizes? That moves the running statistics of a BatchNorm: "
    "send it through a copy, or let conv_output_shape compute the sizes."
)


def _norms_into(label, make, size):
    """Return a Probe: the net that the answer makes of a given one, and what it leaves of that."""

    def run(answer):
        torch.manual_seed(14)
        net = make()
        before = list(net)
        held = [tensor.clone() for tensor in net.state_dict().values()]
        seen = _described(answer(net, _Norm, size))
        others = seen.pop("the layers besides", None) != [id(layer) for layer in before]
        same = list(net) == before and all(map(torch.equal, net.state_dict().values(), held))
        return seen | {
            "the layers besides": "others, or copies" if others else "those of net",
            "the given net is unchanged": same,
        }

    why = lambda seen: _MEASURED if seen.get("the given net is unchanged") is False else ""
    return Probe(label, run, {"size": size}, why=why)


with_norms = exercise(
    _with_norms,
    _norms_into("four convolutions and two poolings", _plain, (4, 8)),
    _norms_into("stride, dilation, a kernel that is not square, a BatchNorm", _odd, (290, 250)),
    _norms_into("a pooling layer first, two convolutions in a row", _pool_first, (5, 12)),
    tried="pooling, stride, padding, dilation, images that are not square",
    wrong="""
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

    # nn.LayerNorm is written into your function. | Call norm(C, H, W): the caller chooses the norm.
    new = nn.LayerNorm([layer.out_channels, *size])

    # pooling does not always halve the image. | Let conv_output_shape compute it.
    size = tuple(n // 2 for n in size) if isinstance(layer, nn.MaxPool2d) else conv_output_shape(size, layer.kernel_size, **settings)

    # norm gets the size only, without the channels. | Call norm(C, H, W).
    new = norm(*size)

    # norm gets the size as one tuple. | Write a star before it.
    new = norm(layer.out_channels, size)

    # not all settings are handed to conv_output_shape: stride, padding and dilation count as well as kernel_size, of pooling layers, too.
    settings = {}
    # or
    settings = {name: getattr(layer, name) for name in ("stride", "padding", "dilation") if isinstance(layer, nn.Conv2d)}
    # or
    size = conv_output_shape(size, layer.kernel_size, layer.stride) if isinstance(layer, nn.MaxPool2d) else conv_output_shape(size, layer.kernel_size, **settings)
    # or
    settings = {"stride": layer.stride}
    # or
    settings = {"padding": layer.padding}
    # or
    settings = {"stride": layer.stride, "padding": layer.padding}

    # pooling layers get a norm, too. Only convolutions do.
    due = follows
    new = norm(getattr(layer, "out_channels", 1), *size)

    # a kind of nn.Conv2d counts as one, too. | Ask by isinstance, and not by type.
    due = type(layer) is nn.Conv2d

    # a layer that stands in net at two places is there once in yours: net.children() names it once. | Go through net itself.
    return nn.Sequential(*dict.fromkeys(layers))

    # one norm is used at every place. Each convolution needs its own. | Call norm anew.
    new = next((other for other in layers if isinstance(other, _Norm)), None) or norm(layer.out_channels, *size)
    """,
)

# ------------------------------------------------------------------------------------ 9.4: three broken runs

_SIGMOID, _BATCH, _MODE = (
    "sigmoid before cross-entropy",
    "norm over the batch axis",
    "eval() forgotten",
)
_LARGE, _HEALTHY = "learning rate too large", "nothing is wrong"
_FLOOR = "This run's training loss falls to nearly 0. With a sigmoid before the loss it could not get below 1.46."
_LOSSLESS = "Its training loss is as low as the healthy run's."
diagnosis = quiz(
    {
        "run A": (
            _BATCH,
            {
                _MODE: "Then calling eval() would cure it. Run A is at chance after eval(), too.",
                _SIGMOID: _FLOOR,
                _LARGE: f"{_LOSSLESS} What fails is the test, and how it fails depends on the batch it is done in.",
                _HEALTHY: "Image by image it is at chance, after eval().",
            },
        ),
        "run B": (
            _SIGMOID,
            {
                _BATCH: "Then the test would depend on the batch. Run B's does not; look at its training loss.",
                _MODE: "Then calling eval() would change the test. It does not; look at the training loss.",
                _LARGE: "Then the loss would jump, be nan, or stay at chance, 2.30. This one has come down below 2, and the test is fine.",
                _HEALTHY: "Its training loss gets stuck far above the healthy run's.",
            },
        ),
        "run C": (
            _MODE,
            {
                _BATCH: "Then eval() would not help: that norm has nothing else to use. Run C is fine after eval().",
                _SIGMOID: _FLOOR,
                _LARGE: f"{_LOSSLESS} And after eval() the test is fine.",
                _HEALTHY: "In the script its test accuracy is near chance.",
            },
        ),
    }
)

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


_LAYERS = ("conv1", "norm1", "conv2", "norm2", "dense")


def _small(label, size, *classes):
    """Return a Probe: the shapes of the parameters, the logits of two or three images, and how often hooks ran."""

    def run(cls):
        net = cls(size, *classes)
        state, calls = net.state_dict(), []
        names = [f"{layer}.{kind}" for layer in _LAYERS for kind in ("weight", "bias")]
        seen = {
            f"the shape of {name}": tuple(state[name].shape) if name in state else "missing"
            for name in names
        }
        for module in (net, *(getattr(net, layer, net) for layer in _LAYERS)):
            module.register_forward_hook(lambda *_: calls.append(1))
        images = draw(80, 3 - len(classes), 3, *size)
        entered = images.clone()
        try:
            logits = filled(net.double(), 90)(entered)
        except Exception as error:  # the shapes above tell one RuntimeError from another
            return seen | {"the logits": raised(error)}
        seen |= {"images after the call": entered, "the logits": logits}
        return seen | {"how often six forward hooks were called": len(calls)}

    return Probe(label, run, {"size": size} | ({"classes": classes[0]} if classes else {}))


small_cnn = exercise(
    _Small,
    [
        _small("images of 9 x 7 pixels, 4 classes", (9, 7), 4),
        _small("images of 8 x 12 pixels, the default classes", (8, 12)),
    ],
    of_a_layer(lambda cls: cls((9, 7), 4), draw(82, 3, 3, 9, 7)),
    takes={"images": "B 3 9 7"},
    use=lambda cls, sizes: cls((9, 7), 4),
    sizes={"B": (2, 1, 17)},
    values=("ordinary", "small"),
    gradient=1,
    tried="two image sizes, shapes of all parameters, logits, gradients, hooks, train and eval",
    wrong="""
    # the sigmoid is still there. Cross-entropy takes logits. | Return what dense gives.
    return torch.sigmoid(logits)

    # __call__ is overridden, so hooks are passed over. | Define forward, and nn.Module's own __call__ does the rest.
    def __call__(self, images):
        return self.forward(images)

    # softmax comes before the cross-entropy, which has one of its own. | Return what dense gives.
    return logits.softmax(-1)
    # or
    return logits.log_softmax(-1)

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
    """,
)

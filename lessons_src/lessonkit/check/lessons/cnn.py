"""Checks of lesson 9: sizes of convolutions, norms put into a net, a prediction, three broken runs, a published CNN."""

import copy
import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, choice, draw, examine, raised, values

# ------------------------------------------------------------------------------------ 9.1: sizes of convolutions


def _axes(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def _shaped(axis=None, refuse=None, ready=lambda sizes: sizes):
    """Return a conv_output_shape from its rule for one axis, its rule for refusing, and what is done to the list.

    axis: (L, k, s, p, d) -> size. refuse: (L, k, s, p, d, size) -> None, or the error.
    """
    axis = axis or (lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) // s + 1)
    refuse = refuse or (lambda L, k, s, p, d, out: ValueError("no room") if d * (k - 1) + 1 > L + 2 * p else None)

    def shape(size, kernel_size, stride=1, padding=0, dilation=1):
        n, sizes = len(size), []
        for each in zip(size, *(_axes(v, n) for v in (kernel_size, stride, padding, dilation)), strict=True):
            sizes.append(axis(*each))
            error = refuse(*each, sizes[-1])
            if error:
                raise error
        return ready(tuple(sizes))

    return shape


_shape = _shaped()


def _run_shape(args, kwargs):
    def run(answer):
        try:
            out = answer(*args, **kwargs)
        except Exception as error:
            return {"the shape": raised(error)}
        if isinstance(out, (tuple, list)):
            # 15.0 == 15, but LayerNorm takes whole numbers only: what is not whole is shown as text, which is not equal.
            whole = all(type(number) is int for number in out)
            out = tuple(out) if whole else f"({', '.join(map(str, out))})"
        return {"the shape": out}

    return run


def _sized(label, size, kernel_size, **kwargs):
    shown = {"size": size, "kernel_size": kernel_size} | kwargs
    return Probe(label, _run_shape((size, kernel_size), kwargs), shown)


_SHAPE_PROBES = [
    _sized("a 3 x 3 kernel", (8, 6), 3),
    _sized("padding 1", (8, 6), 3, padding=1),
    _sized("stride 2", (8, 7), 3, stride=2),
    _sized("stride 3", (9, 12), 4, stride=3),
    _sized("dilation 2", (11, 9), 3, dilation=2),
    _sized("all at once", (32, 31), 5, stride=3, padding=2, dilation=2),
    _sized("settings that differ between the axes", (10, 13), (3, 5), stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
    _sized("one axis", (20,), 4, stride=2),
    _sized("three axes", (4, 6, 9), 2, stride=2),
    _sized("a kernel that just fits", (3, 5), (3, 5)),
    _sized("a dilated kernel that just fits", (5, 6), 3, dilation=2),
    _sized("a kernel that fits thanks to padding", (2, 3), 4, padding=1),
    _sized("a kernel larger than the image", (2, 2), 5),
    _sized("a kernel larger than the image, with stride 3", (2, 2), 5, stride=3),
    _sized("a kernel that does not fit one of the axes", (8, 2), 3),
    _sized("a dilated kernel that does not fit", (8, 8), 5, dilation=2),
    _sized("a kernel that does not fit in spite of padding", (2, 2), 5, padding=1),
]

_NO_ROOM = "Compare the reach of the kernel, d * (k - 1) + 1, with the padded size, L + 2 * p, and raise a ValueError."


def _never(*_):
    return None


def _refuse_if(condition, error=ValueError):
    return lambda L, k, s, p, d, out: error("no room") if condition(L, k, s, p, d, out) else None


_RULES = [  # (cause, rule for one axis)
    (
        "the division leaves a fraction. A kernel that hangs over the edge by a part of its stride is not placed: round "
        "down, with //.",
        lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) / s + 1,
    ),
    (
        "rounded to the nearest. The last step is taken only if it fits whole: round down, with //.",
        lambda L, k, s, p, d: round((L + 2 * p - d * (k - 1) - 1) / s + 1),
    ),
    (
        "rounded up. The last step is taken only if it fits whole: round down, with //.",
        lambda L, k, s, p, d: math.ceil((L + 2 * p - d * (k - 1) - 1) / s) + 1,
    ),
    (
        "the + 1 at the end is missing: the first place counts before any step is taken.",
        lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) // s,
    ),
    (
        "the - 1 in the bracket is missing. A kernel of k reaches over d * (k - 1) + 1 pixels.",
        lambda L, k, s, p, d: (L + 2 * p - d * (k - 1)) // s + 1,
    ),
    (
        "the + 1 stands inside the division (or both ones are missing). Count the steps first, (...) // s, then add the "
        "first place.",
        lambda L, k, s, p, d: (L + 2 * p - d * (k - 1)) // s,
    ),
    (
        "padding counts once. It is added on both sides: 2 * p.",
        lambda L, k, s, p, d: (L + p - d * (k - 1) - 1) // s + 1,
    ),
    ("padding is left out.", lambda L, k, s, p, d: (L - d * (k - 1) - 1) // s + 1),
    (
        "dilation is left out. It spreads the kernel: k taps reach over d * (k - 1) + 1 pixels.",
        lambda L, k, s, p, d: (L + 2 * p - k) // s + 1,
    ),
    (
        "the reach of a dilated kernel is d * (k - 1) + 1, not d * k: there are gaps between the taps, none behind the last.",
        lambda L, k, s, p, d: (L + 2 * p - d * k) // s + 1,
    ),
    ("stride is left out.", lambda L, k, s, p, d: L + 2 * p - d * (k - 1)),
    (
        "the padded size is divided by the stride, whatever the kernel. That is the rule for padding='same'.",
        lambda L, k, s, p, d: math.ceil((L + 2 * p) / s),
    ),
]

_SHAPE_MISTAKES = [
    *[Mistake(cause, _shaped(rule)) for cause, rule in _RULES],
    Mistake("an image that the kernel does not fit into is not refused. " + _NO_ROOM, _shaped(refuse=_never)),
    *[
        Mistake(
            f"{cause.rstrip('.')}. Also, an image that the kernel does not fit into is not refused.",
            _shaped(rule, refuse=_never),
        )
        for cause, rule in _RULES
    ],
    Mistake(
        "sizes that do not fit are cut off at 0 (or 1) instead of refused. " + _NO_ROOM,
        _shaped(lambda L, k, s, p, d: max(0, (L + 2 * p - d * (k - 1) - 1) // s + 1), _never),
    ),
    Mistake(
        "sizes that do not fit are cut off at 0 (or 1) instead of refused. " + _NO_ROOM,
        _shaped(lambda L, k, s, p, d: max(1, (L + 2 * p - d * (k - 1) - 1) // s + 1), _never),
    ),
    Mistake(
        "a size of 0 is let through. With a large stride the formula can give 0 where the kernel does not fit. "
        + _NO_ROOM,
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: out < 0)),
    ),
    Mistake(
        "the kernel is compared with the image without its padding. " + _NO_ROOM,
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: d * (k - 1) + 1 > L)),
    ),
    Mistake(
        "k is compared with the padded size; a dilated kernel reaches further. " + _NO_ROOM,
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: k > L + 2 * p)),
    ),
    Mistake(
        "a kernel that just fits has one place, an output of size 1. Refuse only what is larger.",
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: d * (k - 1) + 1 >= L + 2 * p)),
    ),
    Mistake(
        "the refusal takes d * k for the kernel's reach, and so refuses a dilated kernel that fits. " + _NO_ROOM,
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: d * k > L + 2 * p)),
    ),
    Mistake(
        "the refusal is off by one: a kernel that is one pixel too large is let through. " + _NO_ROOM,
        _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: d * (k - 1) > L + 2 * p)),
    ),
    *[
        Mistake(
            f"the docstring promises a ValueError, this is another kind: {kind.__name__}.",
            _shaped(refuse=_refuse_if(lambda L, k, s, p, d, out: out < 1, kind)),
        )
        for kind in (RuntimeError, AssertionError, TypeError)
    ],
    Mistake("H and W come out in the other order.", _shaped(ready=lambda sizes: sizes[::-1])),
    Mistake(
        "one number comes back, for one axis. Return a tuple with a number for each axis.",
        _shaped(ready=lambda sizes: sizes[0]),
    ),
    Mistake("every axis gets the size of the first one.", _shaped(ready=lambda sizes: sizes[:1] * len(sizes))),
    Mistake(
        "the sizes are floats. Divide with //, which keeps whole numbers whole.",
        _shaped(ready=lambda sizes: tuple(map(float, sizes))),
    ),
    Mistake(
        "the return stands inside the loop: only the first axis is computed.",
        lambda size, *args, **kwargs: _shape(
            size[:1],
            *(_axes(v, len(size))[:1] for v in args),
            **{n: _axes(v, len(size))[:1] for n, v in kwargs.items()},
        ),
    ),
]


def conv_output_shape(answer):
    """Check a function (size, kernel_size, stride, padding, dilation) -> output size of a convolution (lesson 9)."""
    examine(
        answer,
        "conv_output_shape",
        _SHAPE_PROBES,
        _shape,
        _SHAPE_MISTAKES,
        tried="stride, padding, dilation, unlike axes, sizes that do not fit",
    )


# ------------------------------------------------------------------------------------ 9.2: norms into a net


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
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 10))


def _odd():
    return nn.Sequential(
        nn.Conv2d(3, 5, 5, stride=2),
        nn.Tanh(),
        nn.Conv2d(5, 7, (3, 1), padding=(1, 0)),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(7, 4, 2, dilation=2),
        nn.Flatten(),
    )


def _pool_first():
    return nn.Sequential(nn.MaxPool2d((1, 2)), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 3, 2), nn.ReLU())


def _described(net):
    if not isinstance(net, nn.Sequential):
        return {"the kind of the result": "nothing (None)" if net is None else type(net).__name__}
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
        before = list(net)
        try:
            found = answer(net, _Norm, size)
        except Exception as error:
            return {"the result": raised(error)}
        weights = [p.shape for p in found.parameters()] if isinstance(found, nn.Module) else None
        same = list(net) == before
        return _described(found) | {"the shapes of the weights": weights, "the given net is unchanged": same}

    return run


_NORMS_PROBES = [
    Probe("four convolutions and two poolings", _run_norms(lambda: _six(1), (4, 8)), {"size": (4, 8)}),
    Probe("convolutions without padding", _run_norms(lambda: _six(0), (18, 21)), {"size": (18, 21)}),
    Probe("stride, dilation, a kernel that is not square", _run_norms(_odd, (21, 17)), {"size": (21, 17)}),
    Probe("a pooling layer first, two convolutions in a row", _run_norms(_pool_first, (5, 12)), {"size": (5, 12)}),
]


def _insert(
    place="after",
    sizes=lambda layer, C, before, after: (C, *after),
    follow=(nn.Conv2d, nn.MaxPool2d),
    norms=nn.Conv2d,
    settings=("kernel_size", "stride", "padding", "dilation"),
    keep=lambda layer: True,
    one=False,
    ready=nn.Sequential,
    resize=lambda layer, size, given: _shape(size, **given),
):
    """Return a with_norms; the arguments are its mistakes."""

    def with_norms(net, norm, size):
        layers, single = [], None
        for layer in net:
            before = size
            if isinstance(layer, follow):
                size = resize(layer, size, {name: getattr(layer, name) for name in settings})
            if keep(layer):
                layers.append(layer)
            if isinstance(layer, norms):
                C = layer.out_channels if isinstance(layer, nn.Conv2d) else 1
                made = single or norm(*sizes(layer, C, before, size))
                single = made if one else None
                at = len(layers) - (place == "before")
                layers.insert(at, made)
        if place == "after ReLU":
            layers = _behind_relu(layers)
        return ready(*layers)

    return with_norms


def _behind_relu(layers):
    for i in range(len(layers) - 1):
        if isinstance(layers[i], _Norm) and isinstance(layers[i + 1], (nn.ReLU, nn.Tanh)):
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return layers


def _in_place(net, norm, size):
    made = _insert()(net, norm, size)
    for i, layer in enumerate(list(made)):
        if isinstance(layer, _Norm):
            net.insert(i, layer)
    return net


def _changed_and_new(net, norm, size):
    _in_place(net, norm, size)
    return nn.Sequential(*net)


_NORMS_MISTAKES = [
    Mistake(
        "the norm stands behind the activation. It belongs between the convolution and the activation.",
        _insert("after ReLU"),
    ),
    Mistake("the norm stands before its convolution. It follows it: append the layer first.", _insert("before")),
    Mistake(
        "pooling halves the image, and your size does not follow: update it for nn.MaxPool2d as well.",
        _insert(follow=nn.Conv2d),
    ),
    Mistake(
        "the size does not follow: every norm gets the size of the images that enter the net.",
        _insert(sizes=lambda layer, C, before, after: (C, *before), follow=()),
    ),
    Mistake(
        "norm gets the size of what enters the convolution. It normalizes what comes out.",
        _insert(sizes=lambda layer, C, before, after: (C, *before)),
    ),
    Mistake(
        "norm gets in_channels. What comes out of the convolution has out_channels.",
        _insert(sizes=lambda layer, C, before, after: (layer.in_channels, *after)),
    ),
    Mistake("H and W are swapped.", _insert(sizes=lambda layer, C, before, after: (C, *after[::-1]))),
    Mistake("the channels come last. Call norm(C, H, W).", _insert(sizes=lambda layer, C, before, after: (*after, C))),
    Mistake(
        "pooling does not always halve the image: let conv_output_shape compute it from the layer's settings.",
        _insert(
            resize=lambda layer, size, given: (
                tuple(n // 2 for n in size) if isinstance(layer, nn.MaxPool2d) else _shape(size, **given)
            )
        ),
    ),
    Mistake(
        "norm gets the size only, without the channels: call norm(C, H, W).",
        _insert(sizes=lambda layer, C, before, after: after),
    ),
    Mistake(
        "norm gets one tuple: call norm(C, H, W), with a star before the size.",
        _insert(sizes=lambda layer, C, before, after: (C, after)),
    ),
    Mistake("norm gets one list: call norm(C, H, W).", _insert(sizes=lambda layer, C, before, after: ([C, *after],))),
    *[
        Mistake(
            f"the layer's {name} is not handed to conv_output_shape.",
            _insert(settings=tuple(n for n in ("kernel_size", "stride", "padding", "dilation") if n != name)),
        )
        for name in ("stride", "padding", "dilation")
    ],
    Mistake(
        "only kernel_size is handed to conv_output_shape: stride, padding and dilation count as well.",
        _insert(settings=("kernel_size",)),
    ),
    Mistake(
        "only kernel_size and stride are handed to conv_output_shape: padding and dilation count as well.",
        _insert(settings=("kernel_size", "stride")),
    ),
    Mistake(
        "dilation and padding change places. Hand them on by name.",
        _insert(
            resize=lambda layer, size, given: _shape(
                size, **given | {"padding": layer.dilation, "dilation": layer.padding}
            )
        ),
    ),
    Mistake("pooling layers get a norm, too. Only convolutions do.", _insert(norms=(nn.Conv2d, nn.MaxPool2d))),
    Mistake(
        "layers that are neither convolution nor pooling get lost: append every layer.",
        _insert(keep=lambda layer: isinstance(layer, (nn.Conv2d, nn.MaxPool2d))),
    ),
    Mistake(
        "only the convolutions are kept: append every layer.", _insert(keep=lambda layer: isinstance(layer, nn.Conv2d))
    ),
    Mistake(
        "the convolutions get lost: append every layer, then the norm.",
        _insert(keep=lambda layer: not isinstance(layer, nn.Conv2d)),
    ),
    Mistake("one norm is used at every place. Each convolution needs its own: call norm anew.", _insert(one=True)),
    Mistake("the result is a list. Put it into nn.Sequential(*layers).", _insert(ready=lambda *layers: list(layers))),
    Mistake(
        "nn.ModuleList holds layers, but does not run them. Return nn.Sequential(*layers).",
        _insert(ready=lambda *layers: nn.ModuleList(layers)),
    ),
    Mistake("the given net is changed. Collect the layers in a new list, and return a new nn.Sequential.", _in_place),
    Mistake(
        "the given net is changed. Collect the layers in a new list, and return a new nn.Sequential.", _changed_and_new
    ),
    Mistake("no norm was put in: the net comes back as it was.", lambda net, norm, size: net),
    Mistake("no norm was put in: the net comes back as it was.", lambda net, norm, size: nn.Sequential(*net)),
]


def with_norms(answer):
    """Check a function (net, norm, size) that puts norm(C, H, W) behind every convolution of net (lesson 9)."""
    examine(
        answer,
        "with_norms",
        _NORMS_PROBES,
        _insert(),
        _NORMS_MISTAKES,
        tried="pooling, stride, padding, dilation, images that are not square",
    )


# ------------------------------------------------------------------------------------ 9.3: a prediction


def kaiming_gap(answer):
    """Check the prediction: how far LayerNorm is ahead with Kaiming's initialization (lesson 9)."""
    choice(
        answer,
        "kaiming_gap",
        {
            "about 90 points": "That was the gap with PyTorch's default weights, whose scale dies out over six layers "
            "(gain 0.58). Kaiming's keeps the signal's size without a norm.",
            "about 45 points": "That would need a net that half learns. With a signal of the right size it learns.",
            "a few points at most": None,
            "the other way round": "In ten pairs of runs the net with LayerNorm was level or slightly ahead, never far behind.",
        },
    )


# ------------------------------------------------------------------------------------ 9.4: three broken runs


def diagnosis(answer):
    """Check which fault belongs to which of three training runs (lesson 9)."""
    sigmoid, batch, mode = "sigmoid before cross-entropy", "norm over the batch axis", "eval() forgotten"
    large, healthy = "learning rate too large", "nothing is wrong"
    floor = "This run's training loss falls to nearly 0. With a sigmoid in front it could not get below 1.46."
    lossless = "Its training loss is as low as the healthy run's."
    values(
        answer,
        "diagnosis",
        {"run A": batch, "run B": sigmoid, "run C": mode},
        [
            (
                "run A",
                mode,
                "Then calling eval() would mend it, and the right panel calls eval(). Run A fails there, too.",
            ),
            ("run A", sigmoid, floor),
            (
                "run A",
                large,
                f"{lossless} What fails is the test, and how it fails depends on the batch it is done in.",
            ),
            ("run A", healthy, "Image by image it is at chance, after eval()."),
            (
                "run B",
                batch,
                "Then the test would depend on the batch. Run B's is the same in both panels; look at the left one.",
            ),
            ("run B", mode, "Then calling eval() would change the test. It does not; look at the left panel."),
            (
                "run B",
                large,
                "A rate that is too large gives a loss that jumps or grows. This one falls slowly and evenly, in "
                "all four seeds alike, and stays above 1.46.",
            ),
            ("run B", healthy, "Its training loss gets stuck far above the healthy run's."),
            (
                "run C",
                batch,
                "Then eval() would not help: that norm has nothing else to use. Run C is fine in the right panel.",
            ),
            ("run C", sigmoid, floor),
            ("run C", large, f"{lossless} And after eval() the test is fine."),
            ("run C", healthy, "In the script its test accuracy is near chance."),
        ],
    )


# ------------------------------------------------------------------------------------ 9.5: the published net


class _Small(nn.Module):
    """The reference; what the methods below return or make are the mistakes."""

    head = staticmethod(lambda logits: logits)
    activation = staticmethod(F.relu)
    padding, shrink = 0, (2, 4)

    def __init__(self, size, classes=10):
        super().__init__()
        first, second = ([n - by + 2 * self.padding * (i + 1) for n in size] for i, by in enumerate(self.shrink))
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3, padding=self.padding), self.norm(5, first)
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3, padding=self.padding), self.norm(10, second)
        self.dense = nn.Linear(10 * math.prod(second), classes)

    def norm(self, C, size):
        return nn.LayerNorm([C, *size])

    def features(self, images):
        x = self.activation(self.norm1(self.conv1(images)))
        return self.activation(self.norm2(self.conv2(x)))

    def forward(self, images):
        return self.head(self.dense(self.features(images).flatten(1)))


def _small(**changes):
    return type("SmallCNN", (_Small,), changes)


class _CallOverridden(_Small):
    def __call__(self, images):
        return self.forward(images)


class _Patient(_CallOverridden):
    head = staticmethod(torch.sigmoid)


class _NoFlatten(_Small):
    def forward(self, images):
        return self.dense(self.features(images))


class _FlattenedWhole(_Small):
    def forward(self, images):
        return self.dense(self.features(images).flatten())


def _no_first_relu(self, images):
    return F.relu(self.norm2(self.conv2(self.norm1(self.conv1(images)))))


def _no_second_relu(self, images):
    return self.norm2(self.conv2(F.relu(self.norm1(self.conv1(images)))))


_NAMES = ("conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight", "norm2.weight", "norm2.bias", "dense.weight")


def _filled(net):
    """net in float64, with fixed random numbers in all its parameters."""
    net = net.double()
    with torch.no_grad():
        for seed, (_, parameter) in enumerate(sorted(net.named_parameters())):
            parameter.copy_(draw(90 + seed, *parameter.shape, scale=0.5))
    return net


def _run_small(size, classes):
    def run(cls):
        net = cls(size, classes) if classes else cls(size)
        state = net.state_dict()
        seen = {f"the shape of {n}": tuple(state[n].shape) if n in state else "missing" for n in _NAMES}
        net = _filled(net)
        calls, images = [], draw(80, 2, 3, *size).requires_grad_()
        net.register_forward_hook(lambda *_: calls.append(1))
        try:
            logits = net(images)
        except Exception as error:  # the shapes above tell one RuntimeError from another
            return seen | {"the logits": raised(error)}
        seen["the logits"] = logits
        if isinstance(logits, torch.Tensor) and logits.requires_grad:
            seen["gradient of images"] = torch.autograd.grad((logits * draw(81, *logits.shape)).sum(), images)[0]
        return seen | {"how often a forward hook was called": len(calls)}

    return run


def _run_modes(cls):
    net = _filled(cls((9, 7), 4))
    images = draw(82, 2, 3, 9, 7)
    try:
        alone = copy.deepcopy(net)(images[:1])
    except Exception as error:
        return {"the logits of one image alone": raised(error)}
    return {
        "the logits in train()": net.train()(images),
        "the logits in eval()": net.eval()(images),
        "the logits of one image alone": alone,
    }


_SMALL_PROBES = [
    Probe("images of 9 x 7 pixels, 4 classes", _run_small((9, 7), 4), {"size": (9, 7), "classes": 4}),
    Probe("images of 8 x 12 pixels, the default classes", _run_small((8, 12), None), {"size": (8, 12)}),
    Probe("train() and eval()", _run_modes),
]

_SMALL_MISTAKES = [
    Mistake(
        "the sigmoid is still there, and __call__ is still overridden: return logits, and define forward.", _Patient
    ),
    Mistake(
        "the sigmoid is still there. Cross-entropy takes logits: return what dense gives.",
        _small(head=staticmethod(torch.sigmoid)),
    ),
    Mistake(
        "__call__ is overridden, so hooks are passed over. Define forward, and nn.Module's own __call__ does the rest.",
        _CallOverridden,
    ),
    Mistake(
        "softmax stands before the cross-entropy, which has one of its own. Return what dense gives.",
        _small(head=staticmethod(lambda logits: logits.softmax(-1))),
    ),
    Mistake(
        "log_softmax stands before the cross-entropy, which has one of its own (twice is once here, but it is not "
        "logits). Return what dense gives.",
        _small(head=staticmethod(lambda logits: logits.log_softmax(-1))),
    ),
    Mistake(
        "a ReLU stands behind dense. Logits may be negative: return what dense gives.",
        _small(head=staticmethod(torch.relu)),
    ),
    Mistake("no ReLU. Order: convolution, norm, ReLU.", _small(activation=staticmethod(lambda x: x))),
    *[
        Mistake(f"the {which} ReLU is missing. Order: convolution, norm, ReLU, both times.", _small(features=features))
        for which, features in (("first", _no_first_relu), ("second", _no_second_relu))
    ],
    Mistake(
        "the ReLU stands before the norm. Order: convolution, norm, ReLU.",
        _small(features=lambda self, images: self.norm2(F.relu(self.conv2(self.norm1(F.relu(self.conv1(images))))))),
    ),
    Mistake(
        "the norms are made, and not used in forward. Order: convolution, norm, ReLU.",
        _small(features=lambda self, images: F.relu(self.conv2(F.relu(self.conv1(images))))),
    ),
    Mistake(
        "one of the norms is not used in forward.",
        _small(features=lambda self, images: F.relu(self.conv2(F.relu(self.norm1(self.conv1(images)))))),
    ),
    Mistake(
        "the channels are missing in normalized_shape: that is a mean for each channel. Write [C, H, W].",
        _small(norm=lambda self, C, size: nn.LayerNorm(list(size))),
    ),
    Mistake("that is BatchNorm. Asked is LayerNorm([C, H, W]).", _small(norm=lambda self, C, size: nn.BatchNorm2d(C))),
    Mistake(
        "GroupNorm(1, C) has the right statistics, and C gains. Asked is LayerNorm([C, H, W]).",
        _small(norm=lambda self, C, size: nn.GroupNorm(1, C)),
    ),
    Mistake(
        "the norms have no gain and bias. Leave elementwise_affine as it is.",
        _small(norm=lambda self, C, size: nn.LayerNorm([C, *size], elementwise_affine=False)),
    ),
    Mistake(
        "the second convolution makes the image smaller again: its size is conv_output_shape of the first one's.",
        _small(shrink=(2, 2)),
    ),
    Mistake(
        "a convolution without padding makes the image smaller: H and W are those of its output.", _small(shrink=(0, 0))
    ),
    Mistake(
        "with padding=1 the sizes stay, but the published net has no padding: nn.Conv2d(3, 5, 3).", _small(padding=1)
    ),
    Mistake("dense takes (B, features): flatten all axes but the batch first, with flatten(1).", _NoFlatten),
    Mistake("the batch is flattened as well. Keep axis 0: flatten(1).", _FlattenedWhole),
    Mistake("H and W are swapped.", _small(norm=lambda self, C, size: nn.LayerNorm([C, *size[::-1]]))),
]


def small_cnn(answer):
    """Check a class SmallCNN(size, classes): two convolutions with LayerNorm([C, H, W]), logits (lesson 9)."""
    examine(
        answer,
        "small_cnn",
        _SMALL_PROBES,
        _Small,
        _SMALL_MISTAKES,
        kind="class",
        tried="two image sizes, shapes of all parameters, logits, gradient, hooks, train and eval",
    )

"""Checks of lesson 9: sizes of convolutions, norms put into a net, three broken runs, a published CNN."""

import copy  # noqa: F401  a misconception calls it
import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.contract import Contract, of_a_layer, same_in_eval
from lessonkit.check.core import Probe, draw, examine, misconceptions, raised, values

# ------------------------------------------------------------------------------------ 9.1: sizes of convolutions


def _axes(size, *settings):
    """Return (L, k, s, p, d) of each axis."""
    each = [value if isinstance(value, (tuple, list)) else (value,) * len(size) for value in settings]
    return zip(size, *each, strict=True)


def _shape(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = []
    for L, k, s, p, d in _axes(size, kernel_size, stride, padding, dilation):
        reach = d * (k - 1) + 1
        refused = reach > L + 2 * p
        if refused:
            raise ValueError("the kernel does not fit")
        places = (L + 2 * p - reach) // s + 1
        shape.append(places)
    return tuple(shape)


def _run_shape(args, kwargs):
    def run(answer):
        try:
            out = answer(*args, **kwargs)
        except ValueError:  # or a kind of it
            return {"the shape": "a ValueError"}
        except Exception as error:
            return {"the shape": raised(error)}
        if isinstance(out, tuple):
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
    _sized("three axes, the last one too short", (8, 8, 2), 3),
    _sized("a kernel that does not fit in spite of padding", (2, 2), 5, padding=1),
    _sized("padding larger than the kernel, and a stride larger than the image", (2, 3), 1, stride=9, padding=4),
    *(
        _sized(f"settings drawn at random, number {n}", *(tuple(row[:2].tolist()) for row in rows[:2]), **settings)
        for n, rows in enumerate(draw(7, 20, 4, 2).abs().mul(5).long() + 1)
        for settings in [{"stride": tuple(rows[2].tolist()), "dilation": tuple(rows[3].tolist()), "padding": n % 4}]
    ),
]

_SHAPE_MISTAKES = misconceptions(
    _shape,
    """
    # the division leaves a fraction. A kernel that hangs over the edge by a part of its stride is not placed. | Round down, with //.
    places = (L + 2 * p - reach) / s + 1

    # rounded to the nearest. The last step is taken only if it fits whole. | Round down, with //.
    places = round((L + 2 * p - reach) / s + 1)

    # rounded up. The last step is taken only if it fits whole. | Round down, with //.
    places = math.ceil((L + 2 * p - reach) / s) + 1

    # the + 1 at the end is missing: the first place counts before any step is taken.
    places = (L + 2 * p - reach) // s

    # the - 1 in the bracket is missing. A kernel of k reaches over d * (k - 1) + 1 pixels.
    places = (L + 2 * p - d * (k - 1)) // s + 1

    # padding counts once. It is added on both sides. | 2 * p.
    places = (L + p - reach) // s + 1

    # padding is left out.
    places = (L - reach) // s + 1

    # dilation is left out. It spreads the kernel: k taps reach over d * (k - 1) + 1 pixels.
    places = (L + 2 * p - k) // s + 1

    # the reach of a dilated kernel is d * (k - 1) + 1, not d * k: there are gaps between the taps, none after the last.
    places = (L + 2 * p - d * k) // s + 1
    # or
    refused = d * k > L + 2 * p

    # stride is left out.
    places = L + 2 * p - reach + 1

    # an image that the kernel does not fit into is not refused. | Compare the reach of the kernel, d * (k - 1) + 1, with the padded size, L + 2 * p, and raise a ValueError.
    refused = False

    # sizes that do not fit are cut off at 0 (or 1) instead of refused. | Compare the reach with the padded size, and raise a ValueError.
    refused = False
    places = max(0, (L + 2 * p - reach) // s + 1)
    # or
    refused = False
    places = max(1, (L + 2 * p - reach) // s + 1)

    # a size of 0 is let through. With a large stride the formula can give 0 where the kernel does not fit. | Compare the reach with the padded size.
    refused = (L + 2 * p - reach) // s + 1 < 0

    # the kernel is compared with the image without its padding.
    refused = reach > L

    # k is compared with the padded size; a dilated kernel reaches further.
    refused = k > L + 2 * p

    # a kernel that just fits has one place, an output of size 1. | Refuse only what is larger.
    refused = reach >= L + 2 * p

    # a stride larger than the image is refused, or padding larger than the kernel. Both are legal: only the reach has to fit.
    refused = reach > L + 2 * p or s > L or p >= k

    # H and W come out in the other order.
    return tuple(shape[::-1])

    # a list comes back. The docstring promises a tuple. | return tuple(shape).
    return shape

    # one number comes back, for one axis. | Return a tuple with a number for each axis.
    return shape[0]

    # the sizes are floats. | Divide with //, which keeps whole numbers whole.
    return tuple(map(float, shape))
    """,
)


def conv_output_shape(answer):
    """Check a function (size, kernel_size, stride, padding, dilation) -> output size of a convolution (lesson 9)."""
    tried = "stride, padding, dilation, unlike axes, sizes that do not fit"
    examine(answer, "conv_output_shape", _SHAPE_PROBES, _shape, _SHAPE_MISTAKES, tried)


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
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(14, 10))


def _odd():
    return nn.Sequential(
        nn.Conv2d(3, 5, 5, stride=2),
        nn.Tanh(),
        nn.Conv2d(5, 7, (3, 1), padding=(1, 0)),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1, dilation=2),
        nn.Conv2d(7, 4, 2, dilation=2),
        nn.Flatten(),
    )


def _pool_first():
    relu, same = nn.ReLU(), _Conv(3, 3, 3, padding=1)  # the norm of same has the shape of the one before
    return nn.Sequential(nn.MaxPool2d((1, 2)), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 3, 2), relu, same, relu)


class _Conv(nn.Conv2d):
    """A kind of nn.Conv2d."""


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
        weights = list(found.parameters()) if isinstance(found, nn.Module) else []
        own = list(net.parameters())
        kept = len(weights) == len(own) and all(mine is its for mine, its in zip(weights, own, strict=True))
        same = list(net) == before
        return _described(found) | {
            "the layers besides": "those of net" if kept else "others, or copies",
            "the given net is unchanged": same,
        }

    return run


_NORMS_PROBES = [
    Probe("four convolutions and two poolings", _run_norms(lambda: _six(1), (4, 8)), {"size": (4, 8)}),
    Probe("convolutions without padding", _run_norms(lambda: _six(0), (18, 21)), {"size": (18, 21)}),
    Probe("stride, dilation, a kernel that is not square", _run_norms(_odd, (21, 17)), {"size": (21, 17)}),
    Probe("a pooling layer first, two convolutions in a row", _run_norms(_pool_first, (5, 12)), {"size": (5, 12)}),
]


def _with_norms(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        follows = isinstance(layer, (nn.Conv2d, nn.MaxPool2d))
        if follows:
            settings = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
            size = _shape(size, layer.kernel_size, **settings)
        due = isinstance(layer, nn.Conv2d)
        if due:
            new = norm(layer.out_channels, *size)
            layers.append(new)
    return nn.Sequential(*layers)


def _after_relu(layers):
    """Swap each norm with an activation behind it."""
    for i in range(len(layers) - 1):
        if isinstance(layers[i], _Norm) and isinstance(layers[i + 1], (nn.ReLU, nn.Tanh)):
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return layers


def _put_into(net, layers):
    """Insert the norms among layers into net itself."""
    for i, layer in enumerate(layers):
        if isinstance(layer, _Norm):
            net.insert(i, layer)
    return net


_NORMS_MISTAKES = misconceptions(
    _with_norms,
    """
    # the norm comes after the activation. It belongs between the convolution and the activation.
    return nn.Sequential(*_after_relu(layers))

    # the norm comes before its convolution. It belongs after it. | Append the layer first.
    new = layers.insert(-1, norm(layer.out_channels, *size))
    return nn.Sequential(*(layer for layer in layers if layer is not None))

    # pooling halves the image, and your size does not follow. | Update it for nn.MaxPool2d as well.
    follows = isinstance(layer, nn.Conv2d)

    # the size does not follow: every norm gets the size of the images that enter the net.
    follows = False

    # norm gets the size of what enters the convolution. It normalizes what comes out.
    before = size
    follows = (before := size) and isinstance(layer, (nn.Conv2d, nn.MaxPool2d))
    new = norm(layer.out_channels, *before)

    # norm gets in_channels. What comes out of the convolution has out_channels.
    new = norm(layer.in_channels, *size)

    # H and W are swapped.
    new = norm(layer.out_channels, *size[::-1])

    # the channels come last. | Call norm(C, H, W).
    new = norm(*size, layer.out_channels)

    # pooling does not always halve the image. | Let conv_output_shape compute it from the layer's settings.
    size = tuple(n // 2 for n in size) if isinstance(layer, nn.MaxPool2d) else _shape(size, layer.kernel_size, **settings)

    # norm gets the size only, without the channels. | Call norm(C, H, W).
    new = norm(*size)

    # norm gets one tuple. | Call norm(C, H, W), with a star before the size.
    new = norm(layer.out_channels, size)

    # the layer's stride is not handed to conv_output_shape.
    settings = {name: getattr(layer, name) for name in ("padding", "dilation")}

    # the layer's padding is not handed to conv_output_shape.
    settings = {name: getattr(layer, name) for name in ("stride", "dilation")}

    # the layer's dilation is not handed to conv_output_shape.
    settings = {name: getattr(layer, name) for name in ("stride", "padding")}

    # only kernel_size is handed to conv_output_shape: stride, padding and dilation count as well.
    settings = {}

    # pooling layers get a norm, too. Only convolutions do.
    due = follows
    new = norm(getattr(layer, "out_channels", 1), *size)

    # the convolutions get lost. | Append every layer, then the norm.
    return nn.Sequential(*(layer for layer in layers if not isinstance(layer, nn.Conv2d)))

    # layers that are neither convolution nor pooling get lost. | Append every layer.
    return nn.Sequential(*(layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.MaxPool2d, _Norm))))

    # net.children() names a layer that occurs twice only once. | Loop over net itself.
    return nn.Sequential(*dict.fromkeys(layers))

    # the layers are copies. Asked are net's own, which share their weights with net. | Append the layers of net themselves.
    return nn.Sequential(*copy.deepcopy(layers))

    # one norm is used at every place. Each convolution needs its own. | Call norm anew.
    new = next((other for other in layers if isinstance(other, _Norm)), None) or norm(layer.out_channels, *size)

    # convolutions of one shape share a norm. Each needs its own, with gains of its own. | Call norm anew.
    new = next((o for o in layers if isinstance(o, _Norm) and o.sizes == (layer.out_channels, *size)), None) or norm(layer.out_channels, *size)

    # the result is a list. | Put it into nn.Sequential(*layers).
    return layers

    # nn.ModuleList holds layers, but does not run them. | Return nn.Sequential(*layers).
    return nn.ModuleList(layers)

    # no norm was put in: the net comes back as it was.
    return net

    # the given net is changed. | Collect the layers in a new list, and return a new nn.Sequential.
    return _put_into(net, layers)
    # or
    return nn.Sequential(*_put_into(net, layers))
    """,
)


def with_norms(answer):
    """Check a function (net, norm, size) that puts norm(C, H, W) after every convolution of net (lesson 9)."""
    tried = "pooling, stride, padding, dilation, images that are not square"
    examine(answer, "with_norms", _NORMS_PROBES, _with_norms, _NORMS_MISTAKES, tried)


# ------------------------------------------------------------------------------------ 9.3: three broken runs


def diagnosis(answer):
    """Check which fault belongs to which of three training runs (lesson 9)."""
    sigmoid, batch, mode = "sigmoid before cross-entropy", "norm over the batch axis", "eval() forgotten"
    large, healthy = "learning rate too large", "nothing is wrong"
    floor = "This run's training loss falls to nearly 0. With a sigmoid before the loss it could not get below 1.46."
    lossless = "Its training loss is as low as the healthy run's."
    together = "Then the test would depend on the batch. Run B's is the same in both panels; look at the left one."
    helps = "Then eval() would not help: that norm has nothing else to use. Run C is fine in the right panel."
    jumps = "A rate that is too large gives a loss that jumps, is nan, or stays at chance, 2.30. This one falls evenly to 1.6, and the test reads about 95 %."
    causes = [
        ("run A", mode, "Then calling eval() would cure it, and the right panel calls eval(). Run A fails there, too."),
        ("run A", sigmoid, floor),
        ("run A", large, f"{lossless} What fails is the test, and how it fails depends on the batch it is done in."),
        ("run A", healthy, "Image by image it is at chance, after eval()."),
        ("run B", batch, together),
        ("run B", mode, "Then calling eval() would change the test. It does not; look at the left panel."),
        ("run B", large, jumps),
        ("run B", healthy, "Its training loss gets stuck far above the healthy run's."),
        ("run C", batch, helps),
        ("run C", sigmoid, floor),
        ("run C", large, f"{lossless} And after eval() the test is fine."),
        ("run C", healthy, "In the script its test accuracy is near chance."),
    ]
    values(answer, "diagnosis", {"run A": batch, "run B": sigmoid, "run C": mode}, causes)


# ------------------------------------------------------------------------------------ 9.4: the published net


class _Small(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        first = _shape(size, 3)
        second = _shape(first, 3)
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


_NAMES = ("conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight", "norm2.weight", "norm2.bias", "dense.weight")


def _filled(net):
    """net in float64, with fixed random numbers in all its parameters."""
    net = net.double()
    with torch.no_grad():
        for seed, (_, parameter) in enumerate(sorted(net.named_parameters())):
            parameter.copy_(draw(90 + seed, *parameter.shape, scale=0.5))
    return net


def _small_probe(label, size, classes=None):
    def run(cls):
        net = cls(size, classes) if classes else cls(size)
        state = net.state_dict()
        seen = {f"the shape of {n}": tuple(state[n].shape) if n in state else "missing" for n in _NAMES}
        net = _filled(net)
        calls, images = [], draw(80, 2, 3, *size).requires_grad_()
        for module in (net, *(getattr(net, name, net) for name in ("conv1", "norm1", "conv2", "norm2", "dense"))):
            module.register_forward_hook(lambda *_: calls.append(1))
        given = images.clone()
        try:
            logits = net(given)
        except Exception as error:  # the shapes above tell one RuntimeError from another
            return seen | {"the logits": raised(error)}
        seen |= {"images after the call": given.detach(), "the logits": logits}
        return seen | {"how often six forward hooks were called": len(calls)}

    return Probe(label, run, {"size": size} | ({"classes": classes} if classes else {}))


_SMALL_PROBES = [
    _small_probe("images of 9 x 7 pixels, 4 classes", (9, 7), 4),
    _small_probe("images of 8 x 12 pixels, the default classes", (8, 12)),
]
_OFFERED = (lambda cls: cls((9, 7), 4), draw(82, 3, 3, 9, 7))
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

    # log_softmax comes before the cross-entropy, which has one of its own (twice is once here, but it is not logits). | Return what dense gives.
    return logits.log_softmax(-1)

    # a ReLU comes after dense. Logits may be negative. | Return what dense gives.
    return logits.relu()

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

    # one of the norms is not used in forward.
    a = F.relu(self.conv1(images))
    # or
    b = F.relu(self.conv2(a))

    # the channels are missing in normalized_shape: that is a mean for each channel. | Write [C, H, W].
    self.norm1, self.norm2 = nn.LayerNorm(first), nn.LayerNorm(second)

    # that is BatchNorm. | Asked is LayerNorm([C, H, W]).
    self.norm1, self.norm2 = nn.BatchNorm2d(5), nn.BatchNorm2d(10)

    # GroupNorm(1, C) has the right statistics, and C gains. | Asked is LayerNorm([C, H, W]).
    self.norm1, self.norm2 = nn.GroupNorm(1, 5), nn.GroupNorm(1, 10)

    # the norms have no gain and bias. | Leave elementwise_affine as it is.
    self.norm1 = nn.LayerNorm([5, *first], elementwise_affine=False)
    self.norm2 = nn.LayerNorm([10, *second], elementwise_affine=False)

    # the second convolution makes the image smaller again: its size is conv_output_shape of the first one's.
    second = first

    # a convolution without padding makes the image smaller: H and W are those of its output.
    first, second = size, size

    # with padding=1 the sizes stay, but the published net has no padding. | nn.Conv2d(3, 5, 3).
    first, second = size, size
    self.conv1 = nn.Conv2d(3, 5, 3, padding=1)
    self.conv2 = nn.Conv2d(5, 10, 3, padding=1)

    # dense takes (B, features): all axes but the batch are flattened first. | flatten(1).
    logits = self.dense(b)
    # or
    logits = self.dense(b.flatten())

    # H and W are swapped.
    self.norm1, self.norm2 = nn.LayerNorm([5, *first[::-1]]), nn.LayerNorm([10, *second[::-1]])
    """,
)


def small_cnn(answer):
    """Check a class SmallCNN(size, classes): two convolutions with LayerNorm([C, H, W]), logits (lesson 9)."""
    tried = "two image sizes, shapes of all parameters, logits, gradients, hooks, train and eval"
    stages = [(_SMALL_PROBES, ""), ([*of_a_layer(*_OFFERED), same_in_eval(*_OFFERED)], "")]
    how = {"kind": "class", "contract": _SMALL_CONTRACT}
    examine(answer, "small_cnn", stages, _Small, _SMALL_MISTAKES, tried, **how)

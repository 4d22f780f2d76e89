"""Checks of lesson 9: sizes of convolutions, norms put into a net, three broken runs, a published CNN."""

import copy
import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, draw, examine, known, raised, values

# ------------------------------------------------------------------------------------ 9.1: sizes of convolutions


def _axes(size, *settings):
    """Return (L, k, s, p, d) of each axis."""
    each = [value if isinstance(value, (tuple, list)) else (value,) * len(size) for value in settings]
    return zip(size, *each, strict=True)


def _shape(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = []
    for L, k, s, p, d in _axes(size, kernel_size, stride, padding, dilation):
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError("the kernel does not fit")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)


def _run_shape(args, kwargs):
    def run(answer):
        try:
            out = answer(*args, **kwargs)
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
    _sized("a kernel that does not fit in spite of padding", (2, 2), 5, padding=1),
]

_SIZE = "(L + 2 * p - reach) // s + 1"
_RULES = {  # what is put in its place
    "(L + 2 * p - reach) / s + 1": "the division leaves a fraction. A kernel that hangs over the edge by a part of its stride is not placed: round down, with //.",
    "round((L + 2 * p - reach) / s + 1)": "rounded to the nearest. The last step is taken only if it fits whole: round down, with //.",
    "round((L + 2 * p - reach) / s) + 1": "rounded to the nearest. The last step is taken only if it fits whole: round down, with //.",
    "math.ceil((L + 2 * p - reach) / s) + 1": "rounded up. The last step is taken only if it fits whole: round down, with //.",
    "(L + 2 * p - reach) // s": "the + 1 at the end is missing: the first place counts before any step is taken.",
    "(L + 2 * p - d * (k - 1)) // s + 1": "the - 1 in the bracket is missing. A kernel of k reaches over d * (k - 1) + 1 pixels.",
    "(L + 2 * p - d * (k - 1)) // s": "the + 1 is inside the division (or both ones are missing). Count the steps first, (...) // s, then add the first place.",
    "(L + p - reach) // s + 1": "padding counts once. It is added on both sides: 2 * p.",
    "(L - reach) // s + 1": "padding is left out.",
    "(L + 2 * p - k) // s + 1": "dilation is left out. It spreads the kernel: k taps reach over d * (k - 1) + 1 pixels.",
    "(L + 2 * p - d * k) // s + 1": "the reach of a dilated kernel is d * (k - 1) + 1, not d * k: there are gaps between the taps, none after the last.",
    "L + 2 * p - reach + 1": "stride is left out.",
    "math.ceil((L + 2 * p) / s)": "the padded size is divided by the stride, whatever the kernel. That is the rule for padding='same'.",
}

_REFUSAL = "if reach > L + 2 * p"
_NEVER = f"{_REFUSAL} -> if False"
_NO_ROOM = "Compare the reach of the kernel, d * (k - 1) + 1, with the padded size, L + 2 * p, and raise a ValueError."
_LET_IN = "an image that the kernel does not fit into is not refused."
_CUT_OFF = f"sizes that do not fit are cut off at 0 (or 1) instead of refused. {_NO_ROOM}"

_SHAPE_MISTAKES = known(
    _shape,
    {f"{_SIZE} -> {rule}": cause for rule, cause in _RULES.items()}
    | {_NEVER: f"{_LET_IN} {_NO_ROOM}"}
    | {f"{_SIZE} -> {rule} ; {_NEVER}": f"{cause.rstrip('.')}. Also, {_LET_IN}" for rule, cause in _RULES.items()}
    # the same wrong size, refused where it is below 1
    | {f"{_SIZE} -> {rule} ; {_REFUSAL} -> if {rule} < 1": cause for rule, cause in _RULES.items()}
    | {
        **{f"{_SIZE} -> max({least}, {_SIZE}) ; {_NEVER}": _CUT_OFF for least in (0, 1)},
        f"{_REFUSAL} -> if {_SIZE} < 0": f"a size of 0 is let through. With a large stride the formula can give 0 where the kernel does not fit. {_NO_ROOM}",
        f"{_REFUSAL} -> if reach > L": "the kernel is compared with the image without its padding. " + _NO_ROOM,
        f"{_REFUSAL} -> if k > L + 2 * p": f"k is compared with the padded size; a dilated kernel reaches further. {_NO_ROOM}",
        f"{_REFUSAL} -> if reach >= L + 2 * p": "a kernel that just fits has one place, an output of size 1. Refuse only what is larger.",
        f"{_REFUSAL} -> if d * k > L + 2 * p": f"the refusal takes d * k for the kernel's reach, and so refuses a dilated kernel that fits. {_NO_ROOM}",
        f"{_REFUSAL} -> if reach - 1 > L + 2 * p": f"the refusal is off by one: a kernel that is one pixel too large is let through. {_NO_ROOM}",
        "tuple(shape) -> tuple(shape[::-1])": "H and W come out in the other order.",
        "tuple(shape) -> shape": "a list comes back. The docstring promises a tuple: return tuple(shape).",
        "tuple(shape) -> shape[0]": "one number comes back, for one axis. Return a tuple with a number for each axis.",
        "tuple(shape) -> tuple(shape[:1] * len(shape))": "every axis gets the size of the first one.",
        "tuple(shape) -> tuple(map(float, shape))": "the sizes are floats. Divide with //, which keeps whole numbers whole.",
        "    return ->         return": "the return is inside the loop: only the first axis is computed.",
    }
    | {
        f"ValueError -> {kind}": f"the docstring promises a ValueError, this is another kind: {kind}."
        for kind in ("RuntimeError", "AssertionError", "TypeError")
    },
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
    same = nn.Conv2d(3, 3, 3, padding=1)  # its norm has the shape of the one before
    return nn.Sequential(nn.MaxPool2d((1, 2)), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 3, 2), nn.ReLU(), same)


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
        kept = len(weights) == len(own) and all(map(torch.equal, weights, own))
        same = list(net) == before
        return _described(found) | {
            "the weights": "those of net" if kept else "others",
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
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            size = _shape(size, layer.kernel_size, stride=layer.stride, padding=layer.padding, dilation=layer.dilation)
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)


def _after_relu(net, norm, size):
    layers = list(_with_norms(net, norm, size))
    for i in range(len(layers) - 1):
        if isinstance(layers[i], _Norm) and isinstance(layers[i + 1], (nn.ReLU, nn.Tanh)):
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return nn.Sequential(*layers)


def _in_place(net, norm, size):
    for i, layer in enumerate(_with_norms(net, norm, size)):
        if isinstance(layer, _Norm):
            net.insert(i, layer)
    return net


_AFTER = "the norm comes after the activation. It belongs between the convolution and the activation."
_AT_RELU = (
    "layers = [] -> layers, C = [], 1 ; layers.append(layer) -> layers.append(layer); C = getattr(layer, 'out_channels', C)"
    " ; norm(layer.out_channels -> norm(C ; isinstance(layer, nn.Conv2d) -> isinstance(layer, "
)
_CHANGED = "the given net is changed. Collect the layers in a new list, and return a new nn.Sequential."
_NOT_PUT_IN = "no norm was put in: the net comes back as it was."
_SHARED = "convolutions of one shape share a norm. Each needs its own, with gains of its own: call norm anew."
_APPEND, _NORM = "layers.append(layer)", "norm(layer.out_channels, *size)"
_FOLLOWS, _SETTINGS = "isinstance(layer, (nn.Conv2d, nn.MaxPool2d))", ("stride", "padding", "dilation")

_NORMS_MISTAKES = [
    Mistake(_AFTER, _after_relu),
    *known(
        _with_norms,
        {
            _AT_RELU + "nn.ReLU)": _AFTER,
            _AT_RELU + "(nn.ReLU, nn.Tanh))": _AFTER,
            f"layers.append({_NORM}) -> layers.insert(-1, {_NORM})": "the norm comes before its convolution. It belongs after it: append the layer first.",
            f"{_FOLLOWS} -> isinstance(layer, nn.Conv2d)": "pooling halves the image, and your size does not follow: update it for nn.MaxPool2d as well.",
            f"{_FOLLOWS} -> False": "the size does not follow: every norm gets the size of the images that enter the net.",
            f"{_APPEND} -> {_APPEND}; before = size ; *size) -> *before)": "norm gets the size of what enters the convolution. It normalizes what comes out.",
            "out_channels -> in_channels": "norm gets in_channels. What comes out of the convolution has out_channels.",
            "*size) -> *size[::-1])": "H and W are swapped.",
            "layer.out_channels, *size -> *size, layer.out_channels": "the channels come last. Call norm(C, H, W).",
            "size = _shape( -> size = tuple(n // 2 for n in size) if isinstance(layer, nn.MaxPool2d) else _shape(": "pooling does not always halve the image: let conv_output_shape compute it from the layer's settings.",
            "layer.out_channels, *size -> *size": "norm gets the size only, without the channels: call norm(C, H, W).",
            "*size) -> size)": "norm gets one tuple: call norm(C, H, W), with a star before the size.",
            "layer.out_channels, *size -> [layer.out_channels, *size]": "norm gets one list: call norm(C, H, W).",
            **{f", {s}=layer.{s} -> ": f"the layer's {s} is not handed to conv_output_shape." for s in _SETTINGS},
            ", stride=layer.stride, padding=layer.padding, dilation=layer.dilation -> ": "only kernel_size is handed to conv_output_shape: stride, padding and dilation count as well.",
            ", padding=layer.padding, dilation=layer.dilation -> ": "only kernel_size and stride are handed to conv_output_shape: padding and dilation count as well.",
            "padding=layer.padding, dilation=layer.dilation -> padding=layer.dilation, dilation=layer.padding": "dilation and padding change places. Hand them on by name.",
            f"isinstance(layer, nn.Conv2d) -> {_FOLLOWS} ; layer.out_channels -> getattr(layer, 'out_channels', 1)": "pooling layers get a norm, too. Only convolutions do.",
            f"{_APPEND} -> layers += [layer] * {_FOLLOWS}": "layers that are neither convolution nor pooling get lost: append every layer.",
            f"{_APPEND} -> layers += [layer] * isinstance(layer, nn.Conv2d)": "only the convolutions are kept: append every layer.",
            f"{_APPEND} -> layers += [layer] * (not isinstance(layer, nn.Conv2d))": "the convolutions get lost: append every layer, then the norm.",
            f"{_APPEND} -> layers.append(nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size) if isinstance(layer, nn.Conv2d) else layer)": "the convolutions are new ones, with random weights. Append the layers of net themselves.",
            f"layers = [] -> layers, one = [], None ; layers.append({_NORM}) -> one = one or {_NORM}; layers.append(one)": "one norm is used at every place. Each convolution needs its own: call norm anew.",
            f"layers = [] -> layers, made = [], dict() ; {_NORM} -> made.setdefault(size, {_NORM})": _SHARED,
            f"layers = [] -> layers, made = [], dict() ; {_NORM} -> made.setdefault((layer.out_channels, size), {_NORM})": _SHARED,
            "nn.Sequential(*layers) -> layers": "the result is a list. Put it into nn.Sequential(*layers).",
            "nn.Sequential(*layers) -> nn.ModuleList(layers)": "nn.ModuleList holds layers, but does not run them. Return nn.Sequential(*layers).",
            **dict.fromkeys(("nn.Sequential(*layers) -> net", "*layers -> *net"), _NOT_PUT_IN),
        },
    ),
    Mistake(_CHANGED, _in_place),
    Mistake(_CHANGED, lambda net, norm, size: nn.Sequential(*_in_place(net, norm, size))),
]


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
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), nn.LayerNorm([5, *first])
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), nn.LayerNorm([10, *second])
        self.dense = nn.Linear(10 * math.prod(second), classes)

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.dense(x.flatten(1))


_NAMES = ("conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight", "norm2.weight", "norm2.bias", "dense.weight")


def _filled(net):
    """net in float64, with fixed random numbers in all its parameters."""
    net = net.double()
    with torch.no_grad():
        for seed, (_, parameter) in enumerate(sorted(net.named_parameters())):
            parameter.copy_(draw(90 + seed, *parameter.shape, scale=0.5))
    return net


def _small_probe(label, size, classes=None, dtype=torch.float64, tolerance=1e-9):
    def run(cls):
        net = cls(size, classes) if classes else cls(size)
        state = net.state_dict()
        seen = {f"the shape of {n}": tuple(state[n].shape) if n in state else "missing" for n in _NAMES}
        net = _filled(net).to(dtype)
        calls, images = [], draw(80, 2, 3, *size, dtype=dtype).requires_grad_()
        net.register_forward_hook(lambda *_: calls.append(1))
        given = images.clone()
        try:
            logits = net(given)
        except Exception as error:  # the shapes above tell one RuntimeError from another
            return seen | {"the logits": raised(error)}
        seen |= {"images after the call": given.detach(), "the logits": logits}
        if isinstance(logits, torch.Tensor) and logits.requires_grad and dtype == torch.float64:
            seen["gradient of images"] = torch.autograd.grad((logits * draw(81, *logits.shape)).sum(), images)[0]
        return seen | {"how often a forward hook was called": len(calls)}

    return Probe(label, run, {"size": size} | ({"classes": classes} if classes else {}), tolerance)


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
    _small_probe("images of 9 x 7 pixels, 4 classes", (9, 7), 4),
    _small_probe("images of 8 x 12 pixels, the default classes", (8, 12)),
    Probe("train() and eval()", _run_modes),
    # sums of 150 products, a norm and sums of 320 products of order 1: some hundred units of 6e-8
    _small_probe("float32 images of 8 x 12 pixels", (8, 12), dtype=torch.float32, tolerance=1e-5),
]

_ORDER = "Order: convolution, norm, ReLU."
_LOGITS = "self.dense(x.flatten(1))"
_CONV1, _CONV2 = "self.conv1(images)", "self.conv2(x)"
_NORM1, _NORM2 = f"self.norm1({_CONV1})", f"self.norm2({_CONV2})"

_SMALL_MISTAKES = known(
    _Small,
    {
        f"def forward -> def __call__ ; {_LOGITS} -> torch.sigmoid({_LOGITS})": "the sigmoid is still there, and __call__ is still overridden: return logits, and define forward.",
        f"{_LOGITS} -> torch.sigmoid({_LOGITS})": "the sigmoid is still there. Cross-entropy takes logits: return what dense gives.",
        "def forward -> def __call__": "__call__ is overridden, so hooks are passed over. Define forward, and nn.Module's own __call__ does the rest.",
        f"{_LOGITS} -> {_LOGITS}.softmax(-1)": "softmax comes before the cross-entropy, which has one of its own. Return what dense gives.",
        f"{_LOGITS} -> {_LOGITS}.log_softmax(-1)": "log_softmax comes before the cross-entropy, which has one of its own (twice is once here, but it is not logits). Return what dense gives.",
        f"{_LOGITS} -> {_LOGITS}.relu()": "a ReLU comes after dense. Logits may be negative: return what dense gives.",
        "F.relu -> ": f"no ReLU. {_ORDER}",
        f"F.relu({_NORM1}) -> {_NORM1}": "the first ReLU is missing. Order: convolution, norm, ReLU, both times.",
        f"F.relu({_NORM2}) -> {_NORM2}": "the second ReLU is missing. Order: convolution, norm, ReLU, both times.",
        f"F.relu({_NORM1}) -> self.norm1(F.relu({_CONV1})) ; F.relu({_NORM2}) -> self.norm2(F.relu({_CONV2}))": f"the ReLU comes before the norm. {_ORDER}",
        f"{_NORM1} -> {_CONV1} ; {_NORM2} -> {_CONV2}": f"the norms are made, and not used in forward. {_ORDER}",
        **dict.fromkeys((f"{_NORM1} -> {_CONV1}", f"{_NORM2} -> {_CONV2}"), "one of the norms is not used in forward."),
        "[5, *first] -> first ; [10, *second] -> second": "the channels are missing in normalized_shape: that is a mean for each channel. Write [C, H, W].",
        "nn.LayerNorm([5, *first]) -> nn.BatchNorm2d(5) ; nn.LayerNorm([10, *second]) -> nn.BatchNorm2d(10)": "that is BatchNorm. Asked is LayerNorm([C, H, W]).",
        "nn.LayerNorm([5, *first]) -> nn.GroupNorm(1, 5) ; nn.LayerNorm([10, *second]) -> nn.GroupNorm(1, 10)": "GroupNorm(1, C) has the right statistics, and C gains. Asked is LayerNorm([C, H, W]).",
        "first]) -> first], elementwise_affine=False) ; second]) -> second], elementwise_affine=False)": "the norms have no gain and bias. Leave elementwise_affine as it is.",
        "_shape(first, 3) -> first": "the second convolution makes the image smaller again: its size is conv_output_shape of the first one's.",
        "_shape(size, 3) -> size ; _shape(first, 3) -> first": "a convolution without padding makes the image smaller: H and W are those of its output.",
        "_shape(size, 3) -> size ; _shape(first, 3) -> first ; , 3), -> , 3, padding=1),": "with padding=1 the sizes stay, but the published net has no padding: nn.Conv2d(3, 5, 3).",
        "x.flatten(1) -> x": "dense takes (B, features): flatten all axes but the batch first, with flatten(1).",
        "flatten(1) -> flatten()": "the batch is flattened as well. Keep axis 0: flatten(1).",
        "*first] -> *first[::-1]] ; *second] -> *second[::-1]]": "H and W are swapped.",
    },
)


def small_cnn(answer):
    """Check a class SmallCNN(size, classes): two convolutions with LayerNorm([C, H, W]), logits (lesson 9)."""
    tried = "two image sizes, shapes of all parameters, logits, gradient, hooks, train and eval"
    examine(answer, "small_cnn", _SMALL_PROBES, _Small, _SMALL_MISTAKES, tried, kind="class")

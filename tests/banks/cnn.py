"""Answers to the exercises of lesson 9: right ones written in several ways, wrong ones with the words they must get."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------ 9.1 conv_output_shape


def axes(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def rows(size, kernel_size, stride, padding, dilation):
    n = len(size)
    return zip(size, *(axes(v, n) for v in (kernel_size, stride, padding, dilation)), strict=True)


def right_loop(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = []
    for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation):
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError("does not fit")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)


def right_list(size, kernel_size, stride=1, padding=0, dilation=1):
    shape = [
        math.floor((L + 2 * p - d * (k - 1) - 1) / s + 1)
        for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation)
    ]
    if min(shape) < 1:
        raise ValueError("does not fit")
    return shape


def right_counting(size, kernel_size, stride=1, padding=0, dilation=1):
    """Counts the places."""
    shape = [
        len(range(-p, L + p - d * (k - 1), s)) for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation)
    ]
    if 0 in shape:
        raise ValueError("does not fit")
    return torch.Size(shape)


def formula(rule, refuse=True):
    """The usual loop with another rule for an axis; refuses what does not fit."""

    def answer(size, kernel_size, stride=1, padding=0, dilation=1):
        shape = []
        for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation):
            if refuse and d * (k - 1) + 1 > L + 2 * p:
                raise ValueError("does not fit")
            shape.append(rule(L, k, s, p, d))
        return tuple(shape)

    return answer


def refusing_only(condition, error=ValueError):
    def answer(size, kernel_size, stride=1, padding=0, dilation=1):
        shape = []
        for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation):
            out = (L + 2 * p - d * (k - 1) - 1) // s + 1
            if condition(L, k, s, p, d, out):
                raise error("does not fit")
            shape.append(out)
        return tuple(shape)

    return answer


def asserting(size, kernel_size, stride=1, padding=0, dilation=1):
    out = [
        (L + 2 * p - d * (k - 1) - 1) // s + 1 for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation)
    ]
    assert min(out) >= 1, "does not fit"
    return tuple(out)


def whole(L, k, s, p, d):
    return (L + 2 * p - d * (k - 1) - 1) // s + 1


def returns_early(size, kernel_size, stride=1, padding=0, dilation=1):
    for L, k, s, p, d in rows(size, kernel_size, stride, padding, dilation):
        if d * (k - 1) + 1 > L + 2 * p:
            raise ValueError("does not fit")
        return (whole(L, k, s, p, d),)


def ask_pytorch_for_two_axes(size, kernel_size, stride=1, padding=0, dilation=1):
    return tuple(
        F.conv2d(
            torch.zeros(1, 1, *size), torch.zeros(1, 1, *axes(kernel_size, 2)), None, stride, padding, dilation
        ).shape[2:]
    )


CONV_OUTPUT_SHAPE = {
    "right": {"a loop": right_loop, "a list, floor": right_list, "places counted": right_counting},
    "wrong": {
        "plain division": (formula(lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) / s + 1), "round down"),
        "plain division, not refusing": (
            formula(lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) / s + 1, refuse=False),
            "is not refused",
        ),
        "round": (formula(lambda L, k, s, p, d: round((L + 2 * p - d * (k - 1) - 1) / s + 1)), "to the nearest"),
        "ceil": (formula(lambda L, k, s, p, d: -((d * (k - 1) + 1 - L - 2 * p) // s) + 1), "rounded up"),
        "no + 1": (formula(lambda L, k, s, p, d: (L + 2 * p - d * (k - 1) - 1) // s), "+ 1 at the end"),
        "no - 1": (formula(lambda L, k, s, p, d: (L + 2 * p - d * (k - 1)) // s + 1), "- 1 in the bracket"),
        "no ones": (formula(lambda L, k, s, p, d: (L + 2 * p - d * (k - 1)) // s), "inside the division"),
        "padding on one side": (formula(lambda L, k, s, p, d: (L + p - d * (k - 1) - 1) // s + 1), "both sides"),
        "no padding": (formula(lambda L, k, s, p, d: (L - d * (k - 1) - 1) // s + 1), "padding is left out"),
        "no dilation": (formula(lambda L, k, s, p, d: (L + 2 * p - k) // s + 1), "dilation is left out"),
        "no dilation, not refusing": (
            formula(lambda L, k, s, p, d: (L + 2 * p - k) // s + 1, refuse=False),
            "dilation is left out",
        ),
        "reach d * k": (formula(lambda L, k, s, p, d: (L + 2 * p - d * k) // s + 1), "not d * k"),
        "no stride": (formula(lambda L, k, s, p, d: L + 2 * p - d * (k - 1)), "stride is left out"),
        "same": (formula(lambda L, k, s, p, d: -(-(L + 2 * p) // s)), "padding='same'"),
        "never refuses": (formula(whole, refuse=False), "not refused"),
        "cut off at 0": (formula(lambda *a: max(0, whole(*a)), refuse=False), "cut off"),
        "cut off at 1": (formula(lambda *a: max(1, whole(*a)), refuse=False), "cut off"),
        "0 let through": (refusing_only(lambda L, k, s, p, d, out: out < 0), "a size of 0"),
        "padding forgotten in the refusal": (
            refusing_only(lambda L, k, s, p, d, out: d * (k - 1) + 1 > L),
            "without its padding",
        ),
        "dilation forgotten in the refusal": (
            refusing_only(lambda L, k, s, p, d, out: k > L + 2 * p),
            "reaches further",
        ),
        "a just fitting kernel refused": (
            refusing_only(lambda L, k, s, p, d, out: d * (k - 1) + 1 >= L + 2 * p),
            "just fits",
        ),
        "d * k in the refusal": (
            refusing_only(lambda L, k, s, p, d, out: d * k > L + 2 * p),
            "dilated kernel that fits",
        ),
        "off by one in the refusal": (refusing_only(lambda L, k, s, p, d, out: d * (k - 1) > L + 2 * p), "off by one"),
        "a RuntimeError": (refusing_only(lambda L, k, s, p, d, out: out < 1, RuntimeError), "ValueError"),
        "an assert": (asserting, "ValueError"),
        "asks PyTorch": (ask_pytorch_for_two_axes, "On "),
        "swapped": (lambda *a, **k: right_loop(*a, **k)[::-1], "other order"),
        "one number": (lambda *a, **k: right_loop(*a, **k)[0], "one number"),
        "a return inside the loop": (returns_early, "inside the loop"),
        "floats": (lambda *a, **k: tuple(map(float, right_loop(*a, **k))), "floats"),
        "the first axis for all": (lambda *a, **k: right_loop(*a, **k)[:1] * len(a[0]), "first one"),
        "no return": (lambda *a, **k: None, "return"),
        "settings left out": (lambda size, kernel_size: right_loop(size, kernel_size), "raised"),
        "its result": ((6, 6), "takes your function itself"),
    },
}


# ------------------------------------------------------------------------------------------ 9.2 with_norms


def right_isinstance(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        if isinstance(layer, nn.Conv2d):
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)


def right_dry_run(net, norm, size):
    """Measures the sizes with an image of zeros, instead of computing them."""
    x = torch.zeros(1, next(layer for layer in net if isinstance(layer, nn.Conv2d)).in_channels, *size)
    out = nn.Sequential()
    for layer in net:
        out.append(layer)
        if x.dim() == 4 and not isinstance(layer, nn.Linear):
            with torch.no_grad():
                x = layer(x)
        if isinstance(layer, nn.Conv2d):
            out.append(norm(*x.shape[1:]))
    return out


def right_two_branches(net, norm, size):
    layers = []
    for layer in net.children():
        if isinstance(layer, nn.Conv2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            H, W = size
            layers += [layer, norm(layer.out_channels, H, W)]
        elif isinstance(layer, nn.MaxPool2d):
            size = right_list(size, layer.kernel_size, layer.stride, layer.padding)
            layers += [layer]
        else:
            layers += [layer]
    return nn.Sequential(*layers)


def variant(change):
    """right_isinstance, whose pieces `change` may replace: layer, C, size before, size after, norm -> what is added."""

    def answer(net, norm, size):
        layers = []
        for layer in net:
            before = size
            if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
                size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            layers += change(layer, tuple(before), tuple(size), norm)
        return nn.Sequential(*layers)

    return answer


def is_conv(layer):
    return isinstance(layer, nn.Conv2d)


def without(*left_out):
    def answer(net, norm, size):
        layers = []
        for layer in net:
            layers.append(layer)
            if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
                names = [n for n in ("stride", "padding", "dilation") if n not in left_out]
                size = right_loop(size, layer.kernel_size, **{n: getattr(layer, n) for n in names})
            if is_conv(layer):
                layers.append(norm(layer.out_channels, *size))
        return nn.Sequential(*layers)

    return answer


def after_relu(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        if isinstance(layer, (nn.Conv2d, nn.MaxPool2d)):
            size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        if is_conv(layer):
            made = norm(layer.out_channels, *size)
            layers.append(made)
        elif isinstance(layer, (nn.ReLU, nn.Tanh)) and len(layers) > 1 and layers[-2] is made:
            layers[-2:] = [layer, made]
    return nn.Sequential(*layers)


def pools_ignored(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        if is_conv(layer):
            size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            layers.append(norm(layer.out_channels, *size))
    return nn.Sequential(*layers)


def shared(net, norm, size):
    made = []

    def once(*sizes):
        made.append(norm(*sizes))
        return made[0]

    return right_isinstance(net, once, size)


def in_place(net, norm, size):
    for i, layer in reversed(list(enumerate(right_isinstance(net, norm, size)))):
        if type(layer).__module__ != "torch.nn.modules.conv" and layer not in list(net):
            net.insert(min(i, len(net)), layer)
    fresh = list(right_isinstance(nn.Sequential(*[m for m in net if type(m).__name__ != "_Norm"]), norm, size))
    while len(net):
        del net[0]
    for layer in fresh:
        net.append(layer)
    return net


def pools_halve(net, norm, size):
    layers = []
    for layer in net:
        layers.append(layer)
        if is_conv(layer):
            size = right_loop(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            layers.append(norm(layer.out_channels, *size))
        if isinstance(layer, nn.MaxPool2d):
            size = [n // 2 for n in size]
    return nn.Sequential(*layers)


def changes_the_list(net, norm, size):
    made = right_isinstance(net, norm, size)
    for i, layer in enumerate(list(made)):
        if type(layer).__name__ == "_Norm":
            net.insert(i, layer)
    return net


WITH_NORMS = {
    "right": {"isinstance": right_isinstance, "a dry run": right_dry_run, "two branches": right_two_branches},
    "wrong": {
        "behind the ReLU": (after_relu, "behind the activation"),
        "before the convolution": (
            variant(lambda m, b, a, norm: [norm(m.out_channels, *a), m] if is_conv(m) else [m]),
            "before its convolution",
        ),
        "pooling ignored": (pools_ignored, "pooling halves"),
        "the size of the net's input": (
            lambda net, norm, size: right_isinstance(net, lambda C, H, W: norm(C, *size), size),
            "enter the net",
        ),
        "the size before": (
            variant(lambda m, b, a, norm: [m, norm(m.out_channels, *b)] if is_conv(m) else [m]),
            "what enters the convolution",
        ),
        "in_channels": (
            variant(lambda m, b, a, norm: [m, norm(m.in_channels, *a)] if is_conv(m) else [m]),
            "in_channels",
        ),
        "H and W swapped": (
            variant(lambda m, b, a, norm: [m, norm(m.out_channels, *a[::-1])] if is_conv(m) else [m]),
            "swapped",
        ),
        "channels last": (
            variant(lambda m, b, a, norm: [m, norm(*a, m.out_channels)] if is_conv(m) else [m]),
            "channels come last",
        ),
        "pooling always halves": (pools_halve, "does not always halve"),
        "only the first convolution": (
            lambda net, norm, size: nn.Sequential(*list(right_isinstance(net, norm, size))[:2], *list(net)[1:]),
            "On ",
        ),
        "no channels": (variant(lambda m, b, a, norm: [m, norm(*a)] if is_conv(m) else [m]), "without the channels"),
        "a tuple": (variant(lambda m, b, a, norm: [m, norm(m.out_channels, a)] if is_conv(m) else [m]), "one tuple"),
        "a list": (variant(lambda m, b, a, norm: [m, norm([m.out_channels, *a])] if is_conv(m) else [m]), "one list"),
        "no stride": (without("stride"), "stride is not handed"),
        "no padding": (without("padding"), "padding is not handed"),
        "no dilation": (without("dilation"), "dilation is not handed"),
        "kernel only": (without("stride", "padding", "dilation"), "only kernel_size"),
        "kernel and stride": (without("padding", "dilation"), "only kernel_size and stride"),
        "norms after pools": (
            variant(
                lambda m, b, a, norm: (
                    [m, norm(m.out_channels if is_conv(m) else 1, *a)]
                    if isinstance(m, (nn.Conv2d, nn.MaxPool2d))
                    else [m]
                )
            ),
            "pooling layers get a norm",
        ),
        "others lost": (
            variant(
                lambda m, b, a, norm: (
                    [m, norm(m.out_channels, *a)] if is_conv(m) else [m] if isinstance(m, nn.MaxPool2d) else []
                )
            ),
            "neither convolution nor pooling",
        ),
        "all others lost": (
            variant(lambda m, b, a, norm: [m, norm(m.out_channels, *a)] if is_conv(m) else []),
            "only the convolutions are kept",
        ),
        "convolutions lost": (
            variant(lambda m, b, a, norm: [norm(m.out_channels, *a)] if is_conv(m) else [m]),
            "the convolutions get lost",
        ),
        "one norm for all": (shared, "one norm is used"),
        "a list of layers": (lambda net, norm, size: list(right_isinstance(net, norm, size)), "list"),
        "a ModuleList": (lambda net, norm, size: nn.ModuleList(right_isinstance(net, norm, size)), "ModuleList"),
        "in place": (changes_the_list, "given net is changed"),
        "in place, all anew": (in_place, "given net is changed"),
        "nothing put in": (lambda net, norm, size: net, "no norm was put in"),
        "a copy with nothing put in": (lambda net, norm, size: nn.Sequential(*net), "no norm was put in"),
        "no return": (lambda net, norm, size: None, "nothing (None)"),
        "raises": (lambda net, norm, size: size + 1, "raised"),
    },
}


# ------------------------------------------------------------------------------------------ 9.3, 9.4 quizzes

KAIMING_GAP = {
    "right": {"right": "a few points at most", "in capitals": " A few points at most "},
    "wrong": {
        "as before": ("about 90 points", "gain 0.58"),
        "half": ("about 45 points", "right size"),
        "reversed": ("the other way round", "never far behind"),
        "a number": (2, "takes one of"),
        "another text": ("none", "takes one of"),
    },
}

RIGHT = {"run A": "norm over the batch axis", "run B": "sigmoid before cross-entropy", "run C": "eval() forgotten"}

DIAGNOSIS = {
    "right": {"right": RIGHT},
    "wrong": {
        "A and C exchanged": (
            RIGHT | {"run A": "eval() forgotten", "run C": "norm over the batch axis"},
            "calling eval() would mend",
        ),
        "C as A": (RIGHT | {"run C": "norm over the batch axis"}, "eval() would not help"),
        "A a sigmoid": (RIGHT | {"run A": "sigmoid before cross-entropy"}, "1.46"),
        "C a sigmoid": (RIGHT | {"run C": "sigmoid before cross-entropy"}, "1.46"),
        "B the batch": (RIGHT | {"run B": "norm over the batch axis"}, "same in both panels"),
        "B eval": (RIGHT | {"run B": "eval() forgotten"}, "left panel"),
        "B the rate": (RIGHT | {"run B": "learning rate too large"}, "stays above 1.46"),
        "A the rate": (RIGHT | {"run A": "learning rate too large"}, "as low as"),
        "C the rate": (RIGHT | {"run C": "learning rate too large"}, "as low as"),
        "A healthy": (RIGHT | {"run A": "nothing is wrong"}, "at chance"),
        "B healthy": (RIGHT | {"run B": "nothing is wrong"}, "stuck"),
        "C healthy": (RIGHT | {"run C": "nothing is wrong"}, "near chance"),
        "a run missing": ({"run A": "norm over the batch axis"}, "missing"),
        "a text": ("eval() forgotten", "dictionary"),
    },
}


# ------------------------------------------------------------------------------------------ 9.5 SmallCNN


class RightSizes(nn.Module):
    head = staticmethod(lambda x: x)

    def __init__(self, size, classes=10):
        super().__init__()
        first = right_loop(size, 3)
        second = right_loop(first, 3)
        self.conv1, self.norm1 = nn.Conv2d(3, 5, 3), self.norm(5, first)
        self.conv2, self.norm2 = nn.Conv2d(5, 10, 3), self.norm(10, second)
        self.dense = nn.Linear(10 * second[0] * second[1], classes)

    def norm(self, C, size):
        return nn.LayerNorm([C, *size])

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(self.dense(x.flatten(1)))


class RightDryRun(nn.Module):
    def __init__(self, size, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 10, 3)
        x = self.conv1(torch.zeros(1, 3, *size))
        self.norm1, self.norm2 = nn.LayerNorm(x.shape[1:]), nn.LayerNorm(self.conv2(x).shape[1:])
        self.dense = nn.Linear(self.conv2(x).numel(), classes)

    def forward(self, images):
        x = self.norm1(self.conv1(images)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.dense(torch.flatten(x, start_dim=1))


class RightMinusTwo(RightSizes):
    def __init__(self, size, classes=10):
        nn.Module.__init__(self)
        H, W = size
        self.dense = nn.Linear(10 * (H - 4) * (W - 4), classes)
        self.conv1 = nn.Conv2d(3, 5, kernel_size=3)
        self.norm1 = nn.LayerNorm((5, H - 2, W - 2))
        self.conv2 = nn.Conv2d(5, 10, kernel_size=3)
        self.norm2 = nn.LayerNorm((10, H - 4, W - 4))


def small(base=RightSizes, **changes):
    return type("SmallCNN", (base,), changes)


class Unchanged(RightSizes):
    def __call__(self, images):
        return torch.sigmoid(self.forward(images))


class OnlyCall(RightSizes):
    def __call__(self, images):
        return self.forward(images)


class ForgetsTheBatch(RightSizes):
    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        return self.dense(F.relu(self.norm2(self.conv2(x))).flatten())


class NoFlatten(RightSizes):
    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        return self.dense(F.relu(self.norm2(self.conv2(x))))


class SizesOfTheImage(RightSizes):
    def __init__(self, size, classes=10):
        super().__init__(size, classes)
        self.norm1, self.norm2 = nn.LayerNorm([5, *size]), nn.LayerNorm([10, *size])
        self.dense = nn.Linear(10 * math.prod(size), classes)


class FirstSizeTwice(RightSizes):
    def __init__(self, size, classes=10):
        super().__init__(size, classes)
        self.norm2 = nn.LayerNorm([10, *right_loop(size, 3)])
        self.dense = nn.Linear(10 * math.prod(right_loop(size, 3)), classes)


class Padded(RightSizes):
    def __init__(self, size, classes=10):
        super().__init__([n + 4 for n in size], classes)
        self.conv1, self.conv2 = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 10, 3, padding=1)
        self.norm1, self.norm2 = nn.LayerNorm([5, *size]), nn.LayerNorm([10, *size])
        self.dense = nn.Linear(10 * math.prod(size), classes)


class NoSuper(RightSizes):
    def __init__(self, size, classes=10):
        self.conv1 = nn.Conv2d(3, 5, 3)


class OneNormForgotten(RightSizes):
    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        return self.dense(F.relu(self.conv2(x)).flatten(1))


SMALL_CNN = {
    "right": {"conv_output_shape": RightSizes, "a dry run": RightDryRun, "minus two": RightMinusTwo},
    "wrong": {
        "unchanged": (Unchanged, "still overridden"),
        "sigmoid": (small(head=staticmethod(torch.sigmoid)), "sigmoid is still there"),
        "__call__": (OnlyCall, "hooks are passed over"),
        "softmax": (small(head=staticmethod(lambda x: F.softmax(x, dim=1))), "softmax stands"),
        "log_softmax": (small(head=staticmethod(lambda x: F.log_softmax(x, dim=1))), "log_softmax"),
        "ReLU at the end": (small(head=staticmethod(torch.relu)), "behind dense"),
        "no ReLU": (
            small(forward=lambda self, x: self.dense(self.norm2(self.conv2(self.norm1(self.conv1(x)))).flatten(1))),
            "no ReLU",
        ),
        "no second ReLU": (
            small(
                forward=lambda self, x: self.dense(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))).flatten(1))
            ),
            "second ReLU is missing",
        ),
        "no first ReLU": (
            small(
                forward=lambda self, x: self.dense(F.relu(self.norm2(self.conv2(self.norm1(self.conv1(x))))).flatten(1))
            ),
            "first ReLU is missing",
        ),
        "norm after ReLU": (
            small(
                forward=lambda self, x: self.dense(
                    self.norm2(F.relu(self.conv2(self.norm1(F.relu(self.conv1(x)))))).flatten(1)
                )
            ),
            "before the norm",
        ),
        "no norms used": (
            small(forward=lambda self, x: self.dense(F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1))),
            "made, and not used",
        ),
        "one norm forgotten": (OneNormForgotten, "not used in forward"),
        "no channels": (small(norm=lambda self, C, size: nn.LayerNorm(size)), "channels are missing"),
        "BatchNorm": (small(norm=lambda self, C, size: nn.BatchNorm2d(C)), "BatchNorm"),
        "GroupNorm": (small(norm=lambda self, C, size: nn.GroupNorm(1, C)), "C gains"),
        "no gain": (
            small(norm=lambda self, C, size: nn.LayerNorm([C, *size], elementwise_affine=False)),
            "no gain and bias",
        ),
        "the image's size": (SizesOfTheImage, "those of its output"),
        "the first size twice": (FirstSizeTwice, "smaller again"),
        "padding": (Padded, "no padding"),
        "no flatten": (NoFlatten, "flatten"),
        "the batch flattened": (ForgetsTheBatch, "flatten(1)"),
        "H and W swapped": (small(norm=lambda self, C, size: nn.LayerNorm([C, *size[::-1]])), "swapped"),
        "no super().__init__()": (NoSuper, "AttributeError"),
        "classes fixed": (
            type(
                "SmallCNN", (RightSizes,), {"__init__": lambda self, size, classes=10: RightSizes.__init__(self, size)}
            ),
            "dense.weight",
        ),
        "an instance": (RightSizes((9, 7)), "takes your class itself"),
    },
}

BANK = {
    "conv_output_shape": CONV_OUTPUT_SHAPE,
    "with_norms": WITH_NORMS,
    "kaiming_gap": KAIMING_GAP,
    "diagnosis": DIAGNOSIS,
    "small_cnn": SMALL_CNN,
}

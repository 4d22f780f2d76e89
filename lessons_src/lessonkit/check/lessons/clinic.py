"""Checks of lesson 14: four repairs, three tests that find the fault in unseen layers, and a norm from one page."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.contract import Contract, of_a_layer, same_in_eval
from lessonkit.check.core import Probe, call, call_layer, draw, examine, filled, in_float64, misconceptions, raised
from lessonkit.check.misconceptions import instead


def _created(label, make):
    """Return a Probe: the parameters of a new layer, with their shapes, and their value if it is one."""

    def run(cls):
        described = []
        for name, p in sorted(make(cls).named_parameters()):
            values = p.detach().unique().tolist()
            described.append(f"{name} {tuple(p.shape)}{f' of {values[0]:g}' if len(values) == 1 else ''}")
        return {"its parameters": ", ".join(described) or "none"}

    return Probe(label, run)


# ---- case 1: pixels
def _pixels(x, weight, bias):
    moved = x.movedim(1, -1)
    normed = F.layer_norm(moved, (x.shape[1],), weight, bias)
    return normed.movedim(-1, 1)


def _over_channels(x, weight, bias):
    mean = x.mean(1, keepdim=True)
    var = x.var(1, correction=0, keepdim=True)
    deviation = torch.sqrt(var + 1e-5)
    x_hat = (x - mean) / deviation
    return x_hat * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def _images(label, x, tolerance=1e-7):
    weight, bias = draw(100, x.shape[1], dtype=x.dtype), draw(200, x.shape[1], dtype=x.dtype)
    return call(label, x, weight, bias, names=("x", "weight", "bias"), tolerance=tolerance)


_outlier = draw(8, 1, 64, 2, 3)
_outlier[:, 5] = 30.0
_PIXEL_PROBES = [
    _images("images (2, 3, 4, 5)", draw(1, 2, 3, 4, 5)),
    _images("square images (2, 5, 4, 4)", draw(2, 2, 5, 4, 4)),
    _images("images with as many channels as columns (2, 4, 3, 4)", draw(3, 2, 4, 3, 4)),
    _images("pixels of standard deviation 0.001 around 2", draw(4, 1, 6, 2, 3, scale=1e-3, mean=2.0)),
    _images("pixels of 64 channels, one of them far out", _outlier),
    # float32 resolves 100 to 8e-6, two passes lose no more; one pass loses 1e4 times 2^-24 of the variance
    _images("float32 pixels around 100", draw(7, 2, 16, 3, 2, mean=100.0, dtype=torch.float32), tolerance=1e-4),
]
_PIXEL_CONTRACT = Contract(
    {"x": "B C H W", "weight": "C", "bias": "C"},
    sizes={"B": (2, 1, 17), "C": (3, 1, 2, 17, 320), "H": (4, 1, 9), "W": (5, 1, 8)},
)

_PIXEL_MISTAKES = misconceptions(
    _pixels,
    """
    # reshape and view cut the numbers in their order and move nothing: C neighbors of one channel are still normalized together. | Move the axis: movedim, permute, transpose.
    moved = x.reshape(x.shape[0], -1, x.shape[1])
    return normed.reshape(x.shape)

    # the channels are moved to the end and not moved back: a reshape at the end puts the numbers into the wrong places. | Undo a move with a move.
    return normed.reshape(x.shape)

    # the axes come back in a different order than they left. | movedim(1, -1) is undone by movedim(-1, 1), and permute(0, 2, 3, 1) by permute(0, 3, 1, 2).
    return normed
    # or
    return normed.permute(0, 2, 3, 1)
    # or
    return normed.transpose(1, 2)
    # or
    return normed.transpose(1, -1)

    # F.layer_norm normalizes the last axis, and here that is a row of pixels (W). | Move the channels to the end first.
    moved = x
    return normed

    # that is a different norm: each pixel has a mean and a variance of its own, over its C channels.
    return F.group_norm(x, 1, weight, bias)
    # or
    return F.instance_norm(x, weight=weight, bias=bias)
    # or
    return F.batch_norm(x, None, None, weight, bias, training=True)
    """,
) + misconceptions(
    _over_channels,
    """
    # the mean and the variance are those of a row of pixels (W). Each pixel has its own, over its C channels. | The channels are axis 1.
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)

    # the variance divides by C - 1. LayerNorm divides by C. | correction=0.
    var = x.var(1, keepdim=True)

    # eps is added to the standard deviation. It belongs to the variance, under the root.
    deviation = torch.sqrt(var) + 1e-5

    # there is no eps under the root.
    deviation = torch.sqrt(var)

    # eps is 1e-5 here, as the docstring says.
    deviation = torch.sqrt(var + 1e-6)

    # E[x^2] - E[x]^2 loses its digits around 100. | Subtract the mean first, then square.
    var = (x * x).mean(1, keepdim=True) - mean * mean

    # gain and bias are left out.
    return x_hat

    # the bias is added before the gain multiplies.
    return (x_hat + bias.view(-1, 1, 1)) * weight.view(-1, 1, 1)

    # gain and bias of shape (C,) meet the last axis, the columns. | As (C, 1, 1) they meet the channels.
    return x_hat * weight + bias
    """,
)


def repaired_pixels(answer):
    """Check a LayerNorm over the channels of each pixel: (B, C, H, W), weight (C,), bias (C,) -> (B, C, H, W) (lesson 14)."""
    how = {
        "tried": "square and other images, small rows, an outlier, an offset, gradients",
        "contract": _PIXEL_CONTRACT,
    }
    examine(answer, "repaired_pixels", _PIXEL_PROBES, in_float64(_pixels), _PIXEL_MISTAKES, **how)


# ---- case 2: padding
def _average(x, mask, norm):
    m = mask.unsqueeze(-1)
    normed = norm(x)
    y = normed.masked_fill(~m, 0)
    count = m.sum(1)
    return y.sum(1) / count


def _norm(C, seed):
    return filled(nn.LayerNorm(C).double(), seed)


def _sentences(label, x, mask, norm, gradient=True):  # 1e-6: mask / mask.sum() is float32, and right
    probe = call(label, x, mask, norm, names=("x", "mask", "norm"), tolerance=1e-6, gradient=gradient)

    def run(answer):  # with a norm of its own: one that sets a bias to 0 must not spoil it for the next
        return probe.run(lambda x, mask, norm: answer(x, mask, deepcopy(norm)))

    return replace(probe, run=run)


_LONG = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)
_HOLES = torch.tensor([[0, 0, 1, 1, 1], [1, 0, 1, 0, 1]], dtype=torch.bool)

# A real token of zeros, and real tokens with an entry at their mean, where the norm gives the bias alone.
_WHOLE = torch.tensor(
    [[[4, 1, 7], [0, 0, 0], [0, 0, 0], [1, 2, 3], [5, 0, 1]], [[-1, 0, 1], [2, 2, 5], [0, 3, 0], [0, 0, 0], [6, 4, 2]]]
).double()

_AVERAGE_PROBES = [
    _sentences("sentences of 3, 7 and 1 tokens", draw(21, 3, 7, 4), _LONG, _norm(4, 31)),
    _sentences("padding before and in between", draw(24, 2, 5, 6), _HOLES, _norm(6, 35)),
    _sentences("tokens of whole numbers, zeros among them", _WHOLE, _HOLES, _norm(3, 43)),
    _sentences("as many sentences as features", draw(28, 3, 7, 3), _LONG, _norm(3, 45)),
]
_broken, _real_nan = draw(29, 3, 7, 4), draw(30, 3, 7, 4)
_broken[0, 4], _broken[0, 6], _broken[2, 2] = float("nan"), float("inf"), -float("inf")
_real_nan[0, 1] = float("nan")
_BROKEN_PROBES = [  # values only: the gradients of a norm's parameters are nan as soon as it meets nan
    _sentences("padding of nan and inf", _broken, _LONG, _norm(4, 47), gradient=False),
    _sentences("a real token of nan", _real_nan, _LONG, _norm(4, 47), gradient=False),
]
_AVERAGE_CONTRACT = Contract(
    {"x": "B T C", "mask": "B T"},
    use=lambda answer, sizes, norm="LayerNorm": (
        lambda x, mask: answer(x, mask, filled(getattr(nn, norm)(sizes["C"]), 31).to(x.dtype))
    ),
    options=({}, {"norm": "RMSNorm"}),
    sizes={"B": (2, 1, 17), "T": (3, 1, 40), "C": (4, 1, 3, 320)},
    valid={"mask": lambda numbers: (numbers > 0.3) | (numbers == numbers.amax(-1, keepdim=True))},
    fixed=("mask",),
)

_AVERAGE_MISTAKES = misconceptions(
    _average,
    """
    # the padding is set to 0 before the norm, and the norm turns 0 into its bias. | Nothing may come between the mask and the sum.
    normed = norm(x * m)
    y = normed

    # the sum is divided by the padded length. | Divide by the number of real tokens.
    count = x.shape[1]
    # or
    y = normed
    count = x.shape[1]

    # the padding is not masked at all, and goes into the sum.
    y = normed

    # the bias is taken away from the real tokens, too. Only the padding has to go.
    normed = norm(x * m) - norm.bias
    y = normed

    # the mask is the wrong way round: True marks a real token.
    y = normed.masked_fill(m, 0)

    # the padding is told by its zeros. A real token may hold zeros, and padding other numbers: the mask says which is which.
    y = normed * (x != 0)
    # or
    y = normed.masked_fill((x == 0).all(-1, keepdim=True), 0)

    # the first tokens are taken for the real ones. The mask may have its gaps anywhere.
    return torch.stack([row[: int(n)].mean(0) for row, n in zip(normed, count)])

    # the sum is divided by the longest sentence's number of tokens. Every sentence has its own.
    count = m.sum(1).max()

    # the average is taken over the real tokens of all sentences together. Every sentence has its own.
    return normed[mask].mean(0).expand(len(x), -1)

    # the norm comes after the average. Each token is to be normalized by itself, then averaged.
    normed = x
    return norm(y.sum(1) / count)

    # the norm is gone. Each token is to be normalized by itself, then averaged.
    normed = x

    # that is the sum. | Divide it by the number of real tokens.
    return y.sum(1)

    # mask.sum(1) has shape (B,) and meets the features. | With keepdim=True it is (B, 1), a number for each sentence.
    count = mask.sum(1)

    # 0 times nan is nan, and so is what a norm makes of inf: to multiply by the mask does not stop it. | Set the padding to 0 after the norm: masked_fill or torch.where.
    y = normed * m

    # nan in a real token has to show. It is hidden where every nan becomes 0, whether padding or not. | The mask says what is padding.
    y = normed.nan_to_num() * m
    """,
)


def repaired_average(answer):
    """Check the average of the real tokens after a norm: x (B, T, C), mask (B, T) bool, norm -> (B, C) (lesson 14)."""
    stages = [(_AVERAGE_PROBES, ""), (_BROKEN_PROBES, "")]
    tried = "padding after, before and between, of zeros, of other numbers and of nan, two norms, gradients"
    how = {"tried": tried, "contract": _AVERAGE_CONTRACT}
    examine(answer, "repaired_average", stages, _average, _AVERAGE_MISTAKES, **how)


# ---- case 3: initialization
class _OwnNorm(nn.Module):  # no class of PyTorch's
    def __init__(self, D):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))


class _OwnLinear(nn.Linear):
    pass


def _model(*chosen):
    """A model with norms of six kinds, for initialization only; chosen: only these of its layers."""
    model = {
        "embedding": nn.Embedding(100, 100),
        "up": nn.Linear(100, 200),
        "down": nn.Linear(200, 100),
        "deep": nn.Sequential(nn.Linear(100, 150, bias=False), nn.ReLU()),
        "head": _OwnLinear(100, 100),
        "norm1": nn.LayerNorm(100),
        "last": nn.LayerNorm(100),
        "scale": _OwnNorm(80),
        "rms": nn.RMSNorm(100),
        "groups": nn.GroupNorm(4, 60),
        "batch": nn.BatchNorm1d(60),
        "conv": nn.Conv2d(3, 8, 5),
        "image_norm": nn.LayerNorm((8, 5)),
        "pixels": nn.LayerNorm((6, 5)),
    }
    with torch.no_grad():
        model["up"].bias.fill_(0.3)  # what was there before must be gone
        model["rms"].weight.fill_(0.5)  # and what was made so must stay
        model["batch"].running_mean.fill_(0.7)
    return nn.ModuleDict({name: layer for name, layer in model.items() if name in chosen or not chosen})


def _described(p, before):
    """Say what is in a parameter or buffer, so that two draws from one distribution read alike."""
    if torch.equal(p, before):
        return "as it was"
    if (p == p.flatten()[0]).all():
        return f"all {p.flatten()[0].item() + 0.0:.4g}"  # + 0.0: -0 is 0
    if p.numel() < 10_000:
        return f"random, deviation {p.std().item():.1g}"
    mean, deviation = p.mean().item(), p.std().item()
    near = ((p - mean).abs() < deviation).double().mean().item()  # Gaussian 0.683, uniform 0.577, Laplace 0.757
    kind = (
        "Gaussian" if abs(near - 0.683) < 0.025 else "uniform" if near < 0.63 else "not Gaussian"
    )  # five standard errors
    if abs(deviation / 0.02 - 1) < 0.04 and abs(mean) < 0.001 and kind == "Gaussian":
        return "Gaussian, mean 0, deviation 0.02"
    return f"{kind}, mean {round(mean, 1) + 0.0:g}, deviation {deviation:.2g}"


def _initialized(label, *chosen):
    def run(answer):
        torch.manual_seed(14)
        model = _model(*chosen)
        held = dict(model.named_parameters())
        before = {name: item.clone() for name, item in model.state_dict().items()}
        answer(model)
        now = dict(model.named_parameters())
        seen = {
            name: _described(item, before[name]) if name in before else "new"
            for name, item in model.state_dict().items()
        }
        same = now.keys() == held.keys() and all(p is held[name] and p.requires_grad for name, p in now.items())
        seen["the parameters"] = "those of the model" if same else "new ones, or without gradients"
        seen["the model"] = "in train(), as before" if model.training else "in eval()"
        return seen | {"the seed of the notebook": "as before" if torch.initial_seed() == 14 else "set anew"}

    return Probe(label, run)


def _init(model):
    layers = list(model.modules())
    drawn = [layer for layer in layers if isinstance(layer, (nn.Linear, nn.Embedding))]
    linear = [layer for layer in drawn if isinstance(layer, nn.Linear)]
    biases = [layer.bias for layer in linear if layer.bias is not None]
    for layer in drawn:
        nn.init.normal_(layer.weight, std=0.02)
    for bias in biases:
        nn.init.zeros_(bias)


def _by_axes(model):  # a design that must fail: what a parameter is, told by its axes
    named = dict(model.named_parameters())
    zeroed = [p for name, p in named.items() if name.endswith("bias")]
    drawn = [p for p in named.values() if p.dim() > 1]
    for p in zeroed:
        nn.init.zeros_(p)
    for p in drawn:
        nn.init.normal_(p, std=0.02)


_INIT_STAGES = [
    ([_initialized("LayerNorms over one axis and over two", "norm1", "last", "image_norm", "pixels")], ""),
    ([_initialized("a norm of a class that is not PyTorch's", "scale")], ""),
    ([_initialized("an RMSNorm with gains of 0.5, a GroupNorm, a BatchNorm", "rms", "groups", "batch")], "the norms"),
    (
        [
            _initialized("two Linear layers", "up", "down"),
            _initialized("an Embedding and a Linear layer", "embedding", "head"),
            _initialized("a Linear layer without bias, inside a Sequential", "deep"),
            _initialized("a convolution", "conv"),
            _initialized("the whole model"),
        ],
        "",
    ),
]
_INIT_MISTAKES = misconceptions(
    _by_axes,
    """
    # a gain over two axes is a matrix, too: p.dim() > 1 treats it as a weight. | Ask which layer a parameter belongs to, not how many axes it has.
    drawn = [p for p in named.values() if p.dim() >= 2]

    # every parameter is drawn, the gains and biases of the norms too.
    drawn = list(named.values())

    # every weight is drawn, and that is what the gains of the norms are called, too.
    drawn = [p for name, p in named.items() if name.endswith("weight")]

    # one-dimensional parameters are set to 0, and the gains of the norms are among them.
    zeroed = [p for p in named.values() if p.dim() == 1]

    # your rule goes by names, and a norm may have any name. | Ask of which class a layer is.
    drawn = [p for name, p in named.items() if "norm" not in name]
    # or
    drawn = [p for name, p in named.items() if "norm" not in name and p.dim() > 1]
    # or
    drawn = [p for name, p in named.items() if "norm" not in name and not name.endswith("bias")]
    """,
) + misconceptions(
    _init,
    """
    # your rule knows some classes of norms, and this model has others. | List the layers that you do change.
    drawn = [layer for layer in layers if not isinstance(layer, nn.LayerNorm) and hasattr(layer, "weight")]
    # or
    drawn = [layer for layer in layers if not isinstance(layer, nn.LayerNorm) and hasattr(layer, "weight")]
    biases = [nn.init.normal_(layer.bias, std=0.02) for layer in drawn if getattr(layer, "bias", None) is not None][:0]

    # the norms are set back to how they are created. What is in them is to stay.
    [layer.reset_parameters() for layer in model.modules() if hasattr(layer, "reset_parameters")]

    # nothing in the model has changed. | Change its own parameters, in place.
    layers = []

    # children() are the layers of the first level only. | modules() walks through those inside others as well.
    layers = list(model.children())

    # the biases of the Linear layers keep what was in them. They are to be 0.
    biases = []

    # the biases of the Linear layers are drawn, too. They are to be 0.
    nn.init.zeros_(nn.init.normal_(bias, std=0.02)[:0])

    # the Embedding keeps its own initialization, with deviation 1. It is to be drawn as well.
    drawn = [layer for layer in layers if isinstance(layer, nn.Linear)]

    # 0.02 is the deviation (std), 0.02² the variance.
    nn.init.normal_(layer.weight, std=0.02**0.5)
    # or
    nn.init.normal_(layer.weight, std=0.02**2)

    # the second argument of normal_ is the mean. | Name the deviation: std=0.02.
    nn.init.normal_(layer.weight, 0.02)

    # that is a uniform distribution between -0.02 and 0.02. Its deviation is 0.02 / sqrt(3), and N is the Gaussian one.
    nn.init.normal_(nn.init.uniform_(layer.weight, -0.02, 0.02)[:0])

    # a Linear layer made with bias=False has None for its bias. | Ask before you set it to 0.
    biases = [layer.bias for layer in linear]

    # an Embedding has no bias: only a Linear layer does.
    linear = drawn

    # a convolution is drawn, too. All but Linear and Embedding layers stay as they were made.
    drawn = [layer for layer in layers if isinstance(layer, (nn.Linear, nn.Embedding, nn.Conv2d))]

    # a class made from nn.Linear is a Linear layer, too, and it was passed over. | isinstance knows that; type(layer) == nn.Linear does not.
    drawn = [layer for layer in layers if type(layer) in (nn.Linear, nn.Embedding)]

    # the weights are new parameters, which an optimizer made before does not know. | Change the old ones in place: nn.init does.
    drawn = [setattr(layer, "weight", nn.Parameter(layer.weight.detach().clone())) or layer for layer in drawn]
    """,
)


def repaired_init(answer):
    """Check an initialization of a model in place that leaves the norms alone (lesson 14)."""
    right = "repaired_init does what it should on {count} models (Linear layers, Embeddings, and norms of five classes)"
    examine(answer, "repaired_init", _INIT_STAGES, _init, _INIT_MISTAKES, right=right)


# ---- case 4: block
class _Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        h = x + self.mix(self.norm1(x))
        return h + self.mlp(self.norm2(h))


def _silent(cls):
    layer = filled(cls(4).double(), 91)
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            module.requires_grad_(False).weight.zero_(), module.bias.zero_()
    return {"the output": layer(_STREAM.clone()).detach()}


_STREAM = draw(41, 2, 3, 4)
_BLOCK_PROBES = [
    _created("a new block", lambda cls: cls(4)),
    Probe("a block whose branches are silent (all Linear layers 0)", _silent, {"x": _STREAM}),
    call_layer("a block with random parameters", lambda cls: cls(4), _STREAM, {}),
]
_new_block = lambda cls: cls(4)  # noqa: E731
_BLOCK_STAGES = [(_BLOCK_PROBES, ""), ([*of_a_layer(_new_block, _STREAM), same_in_eval(_new_block, _STREAM)], "")]
_BLOCK_CONTRACT = Contract(
    {"x": "... D"}, use=lambda cls, sizes: cls(sizes["D"]), sizes={"D": (4, 1, 2, 17, 60)}, ranks=(1, 0, 2, 3)
)

_BLOCK_MISTAKES = misconceptions(
    _Block,
    """
    # the name x is overwritten by its normalized self before the sum, in both branches.
    h = self.norm1(x) + self.mix(self.norm1(x))
    return self.norm2(h) + self.mlp(self.norm2(h))

    # the first half is right; in the second x is still overwritten by its normalized self.
    return self.norm2(h) + self.mlp(self.norm2(h))

    # the second half is right; in the first x is still overwritten by its normalized self.
    h = self.norm1(x) + self.mix(self.norm1(x))

    # that is Post-LN: the norms come after the sums, on the stream itself. In Pre-LN they are inside the branches.
    h = self.norm1(x + self.mix(x))
    return self.norm2(h + self.mlp(h))

    # the second branch is added to the input of the block: what the first branch wrote is lost.
    return x + self.mlp(self.norm2(h))

    # the norms are gone. In Pre-LN each branch reads the stream through its norm.
    h = x + self.mix(x)
    return h + self.mlp(h)

    # the second branch reads the sum of a normalized row and the first branch. It is to read the stream: x as it came in, plus the first branch.
    h = x
    return x + self.mlp(self.norm2(self.norm1(x) + self.mix(self.norm1(x))))

    # norm1 is used in both branches. The second has a norm of its own, norm2.
    return h + self.mlp(self.norm1(h))

    # the norms are exchanged: norm1 belongs to mix, norm2 to mlp.
    h = x + self.mix(self.norm2(x))
    return h + self.mlp(self.norm1(h))

    # both branches read the input of the block. mlp is to read the stream after mix has written to it.
    return h + self.mlp(self.norm2(x))

    # norm2 is not used: mlp reads the stream as it is.
    return h + self.mlp(h)

    # norm1 is not used: mix reads the stream as it is.
    h = x + self.mix(x)

    # there is a norm on the stream itself, at the end. With silent branches x must come out as it went in.
    return self.norm2(h + self.mlp(self.norm2(h)))

    # the stream is not added: without x + … nothing passes when a branch is silent.
    h = self.mix(self.norm1(x))
    return self.mlp(self.norm2(h))
    """,
)


def repaired_block(answer):
    """Check a Pre-LN block of two branches, built as RepairedBlock(D) (lesson 14)."""
    how = {"tried": "silent branches, random parameters, eval(), many shapes, gradients", "contract": _BLOCK_CONTRACT}
    examine(answer, "repaired_block", _BLOCK_STAGES, _Block, _BLOCK_MISTAKES, kind="class", **how)


# ---- three of the ten tests
class _Layer(nn.LayerNorm):  # a right one, with parts to replace for the layers held back
    def var(self, x, axes):
        return x.var(axes, correction=0, keepdim=True)

    def one_pass(self, x, axes):
        return x.square().mean(axes, keepdim=True) - x.mean(axes, keepdim=True).square()

    def next_to_last(self, var, share=0.1):
        """Return var, moved towards that of the call before: the same rows twice in a row do not show it."""
        last, self.last = getattr(self, "last", None), var.detach().mean()
        return var if last is None else (var + share * (last - self.last)).clamp(min=0)

    def forward(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = wide.mean(axes, keepdim=True)
        var = self.var(wide, axes)
        x_hat = (wide - mean) / torch.sqrt(var + self.eps)
        scaled = x_hat if self.weight is None else x_hat * self.weight
        y = scaled if self.bias is None else scaled + self.bias
        return y.to(x.dtype)


def _in_backward(tensor, change):
    """Return tensor; the gradient that arrives at it is changed."""
    if tensor.requires_grad:
        tensor.register_hook(change)
    return tensor


def _meets(what, layer, sound, why):
    """Return a Probe: the verdict of a learner's test on a layer. To a faulty layer, an error is a verdict as well."""

    def run(test):
        try:
            verdict = test(layer)
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
            verdict = raised(error) if sound else False
        return {"the verdict": bool(verdict) if isinstance(verdict, torch.Tensor) else verdict}

    return Probe(f"{what} ({'sound' if sound else 'faulty'})", run, why=why)


_SOUND = {
    "nn.LayerNorm": nn.LayerNorm,
    "a LayerNorm by hand": _Layer,
    "a LayerNorm that centers twice": instead(
        _Layer, "wide = (x64 := x.to(torch.promote_types(x.dtype, torch.float32))) - x64.mean(axes, keepdim=True)"
    ),
}


def _against(refuses, passes, faults):
    """Return Probes: sound layers, then layers that are held back.

    refuses, passes: why a test may refuse a sound layer, and why it may let a faulty one pass.
    faults: blocks with an empty line between them: what the layer does, as a comment, and lines of _Layer.
    """
    blocks = [block.strip().partition("\n") for block in faults.strip().split("\n\n")]
    held_back = {f"a layer that {what[2:]}": instead(_Layer, lines) for what, _, lines in blocks}
    right = [
        _meets(what, layer, True, f"A right layer has to pass, without an error. {refuses}")
        for what, layer in _SOUND.items()
    ]
    return right + [
        _meets(what, layer, False, f"Your test lets this layer pass. {passes}") for what, layer in held_back.items()
    ]


_OFFSET_PROBES = _against(
    "Is the tolerance too small? PyTorch is off by about 0.002 at 10,000 in float32, and other right layers by as much: allow ten times that.",
    "What has to be equal, and within which tolerance?",
    """
# takes the one-pass variance and clamps it at 0
var = self.one_pass(wide, axes).clamp(min=0)

# takes the one-pass variance and its absolute value
var = self.one_pass(wide, axes).abs()

# does not subtract the mean
x_hat = wide / torch.sqrt(var + self.eps)

# is off by one in rows beyond 500
return (y + (mean.abs() > 500)).to(x.dtype)

# subtracts no more than 100
x_hat = (wide - mean.clamp(-100, 100)) / torch.sqrt(var + self.eps)
""",
)
_GRADIENT_PROBES = _against(
    "Does x.grad hold the sum of two gradients? backward() adds to it, so take torch.autograd.grad. And rounding is larger than 1e-9 in float32, and above 0 in float64.",
    "A comparison of outputs does that, and so does x.grad compared with itself: take the gradient of each output, from a random dy, and compare them to 0.1 % at least.",
    """
# treats the mean as a constant in the backward pass
mean = wide.mean(axes, keepdim=True).detach()

# treats both statistics as constants in the backward pass
mean = wide.mean(axes, keepdim=True).detach()
var = self.var(wide, axes).detach()

# takes the gain out of the means in its backward pass
wide = _in_backward(x.double() * 1, lambda dx: dx if self.weight is None else dx * self.weight)
scaled = x_hat if self.weight is None else x_hat + (x_hat * self.weight - x_hat).detach()

# forgets the gradient from above
return _in_backward(y.to(x.dtype), torch.ones_like)

# has a gradient that is off by 0.2 %
y = 1.002 * (scaled + self.bias) - 0.002 * (scaled + self.bias).detach()
""",
)
_AGAIN_PROBES = _against(
    "Compare the layer with itself, in one type, and clone what you keep.",
    "Three things to look at: the input after the call, the answer after other rows, the answer in eval().",
    """
# overwrites its input
x_hat = wide.sub_(mean) / torch.sqrt(var + self.eps)

# keeps a running variance for eval, in a buffer
x_hat = (wide - mean) / torch.sqrt((var if self.training else self.kept) + self.eps)
return y.to(x.dtype) if not self.training else self.register_buffer("kept", var.mean().detach()) or y.to(x.dtype)

# keeps a running variance for eval, in an attribute
x_hat = (wide - mean) / torch.sqrt((var if self.training else self.kept) + self.eps)
return y.to(x.dtype) if not self.training else setattr(self, "kept", var.mean().detach()) or y.to(x.dtype)

# enlarges its eps with every call
return setattr(self, "eps", 1.5 * self.eps) or y.to(x.dtype)

# remembers the rows of the call before
var = self.next_to_last(self.var(wide, axes))

# remembers them in training only
var = self.next_to_last(self.var(wide, axes), 0.1 if self.training else 0)
""",
)


def _trial(cls, x, size=None, eps=1e-5):  # the lesson's, on which its three tests lean
    size = size or x.shape[-1:]
    layer = cls(size if len(size) > 1 else size[0], eps=eps).to(x.dtype)
    g = torch.Generator().manual_seed(148)
    known = [nn.init.normal_(p, generator=g).double() for p in layer.parameters()]
    return layer(x), F.layer_norm(x.double(), size, *known, eps=eps)


def _close(cls, x, tolerance):
    y, right = _trial(cls, x)
    return y.shape == x.shape and y.dtype == x.dtype and bool((y - right).abs().max() <= tolerance)


def _offset(cls):
    x = draw(81, 4, 5, dtype=torch.float32) + 10_000
    return _close(cls, x, 0.02)


def _gradient(cls):
    x = draw(82, 4, 5).requires_grad_()
    y, right = _trial(cls, x)
    dy = draw(83, 4, 5)
    dx = torch.autograd.grad(y, x, dy)[0]
    dx_right = torch.autograd.grad(right, x, dy)[0]
    return torch.allclose(dx, dx_right, rtol=1e-9, atol=1e-9)


def _again(cls):
    layer = cls(5).double()
    x = draw(84, 4, 5)
    first = layer(x.clone()).clone()
    used = x.clone()
    layer(used)
    other = layer(10 * x)  # noqa: F841  other rows in between
    later = layer(x.clone())
    evaluated = layer.eval()(x.clone())
    same = torch.equal(later, first) and torch.equal(evaluated, first)
    return same and torch.equal(used, x)


_OFFSET_MISTAKES = misconceptions(
    _offset,
    """
    # your test lets every layer pass.
    return True

    # your test refuses every layer, PyTorch's too.
    return False

    # the rows are around 0, or too near to it for the tolerance. | Move them away: + 10_000.
    x = draw(81, 4, 5, dtype=torch.float32)
    return _close(cls, x, 1e-4)

    # a one-pass variance passes. At 10,000 it keeps eight digits in float64 rows, and in rows multiplied by 10,000 nothing is lost. | Draw float32 rows (dtype=torch.float32), and add 10_000.
    x = draw(81, 4, 5) + 10_000

    # the tolerance is too large. PyTorch is off by about 0.002 at 10,000, so allow ten times as much.
    return _close(cls, x, 1000)
    """,
)
_GRADIENT_MISTAKES = misconceptions(
    _gradient,
    """
    # your test lets every layer pass. Outputs agree in all of these, and a gradient agrees with itself. | Compare the gradients of both outputs that trial returns.
    return torch.allclose(y, right)

    # your test refuses every layer, PyTorch's too.
    return False

    # the gradient from above is all ones, so a layer that forgets it passes. | Draw dy at random.
    dy = torch.ones_like(x)

    # the gains are those of a new layer, 1, and hide a gain in the wrong place. | trial gives a layer random ones.
    y, right = cls(5).double()(x), F.layer_norm(x, (5,))

    # the tolerance is too large: a gradient that is off by 0.2 % passes. In float64 the two agree to 1e-9.
    return torch.allclose(dx, dx_right, rtol=0, atol=0.01)
    # or
    return torch.allclose(dx, dx_right, rtol=0.1, atol=0.1)
    """,
)
_AGAIN_MISTAKES = misconceptions(
    _again,
    """
    # your test lets every layer pass.
    return True

    # your test refuses every layer, PyTorch's too.
    return False

    # the input is not looked at after the call. | Keep a clone, and compare.
    return same

    # eval() is missing: a layer that keeps something for evaluation passes.
    evaluated = layer(x.clone())

    # no other rows come in between, so a layer that remembers those of the call before passes.
    other = None

    # in training mode the rows are not asked again after other rows.
    later = first

    # each call has a new layer (trial makes one, too), so nothing can be remembered. | Build one layer, and call it several times.
    later, evaluated = cls(5).double()(x.clone()), cls(5).double()(x.clone())

    # the layer is float32 and the rows are float64: PyTorch's layer raises an error. | Make them one type.
    layer = cls(5)

    # vars(layer) names the same dictionary of buffers before and after, so a buffer that changes does not show. | Compare what the layer answers.
    first = dict(vars(layer))
    evaluated = None
    same = dict(vars(layer)) == first
    """,
)


def offset(answer):
    """Check a test (class -> True or False) that looks at float32 rows far from 0 (lesson 14)."""
    right = "offset passes three sound layers and refuses five whose error shows in rows far from 0"
    examine(answer, "offset", _OFFSET_PROBES, _offset, _OFFSET_MISTAKES, right=right)


def gradient(answer):
    """Check a test (class -> True or False) that looks at the gradient of x (lesson 14)."""
    right = "gradient passes three sound layers and refuses five whose gradient is wrong"
    examine(answer, "gradient", _GRADIENT_PROBES, _gradient, _GRADIENT_MISTAKES, right=right)


def again(answer):
    """Check a test (class -> True or False) that looks at what a call leaves behind (lesson 14)."""
    right = "again passes three sound layers and refuses six that a call changes, or that change what they are given"
    examine(answer, "again", _AGAIN_PROBES, _again, _AGAIN_MISTAKES, right=right)


# ---- the project: TrailNorm
class _Trail(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay = decay
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        m = wide.mean(-1, keepdim=True)
        var = wide.var(-1, correction=0, keepdim=True)
        t = torch.arange(x.shape[-2])
        age = (t[:, None] - t).clamp(min=0)
        powers = self.decay ** age.to(wide.dtype)
        past = powers.tril()
        w = past / past.sum(-1, keepdim=True)
        mu = w @ m
        gaps = (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)
        v = w @ var + gaps
        deviation = torch.sqrt(v + self.eps)
        x_hat = (wide - mu) / deviation
        y = x_hat * self.weight + self.bias
        return y.to(x.dtype)


def _sorted(cls, sizes, **options):
    """A layer with its parameters in the order of their names: an answer may make the bias before the weight."""
    layer = cls(sizes["D"], **options)
    for name in sorted(layer._parameters):
        layer._parameters[name] = layer._parameters.pop(name)
    return layer


def _trail(label, x, tolerance=1e-6, **arguments):
    """arguments: decay and eps, where they are not left out."""
    make = lambda cls: _sorted(cls, {"D": x.shape[-1]}, **arguments)  # noqa: E731
    return call_layer(label, make, x, arguments, tolerance)


def _used(cls):
    """A layer that has met four tokens."""
    layer = _sorted(cls, {"D": 5})
    layer(draw(58, 2, 4, 5, dtype=torch.float32))
    return layer


_unlike = draw(61, 2, 6, 5) * torch.tensor([1.0, 3.0, 0.2, 1.0, 5.0, 0.5]).view(6, 1) + draw(62, 2, 6, 1)
_new_trail = lambda cls: cls(5, 0.7)  # noqa: E731
_TRAIL_STAGES = [
    (
        [
            _created("a new layer", lambda cls: cls(4)),
            _trail("decay 0, which is LayerNorm", _unlike, decay=0.0),
            _trail("the worked example", torch.tensor([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]]).double(), decay=1.0),
            _trail("tokens of unlike mean and size (2, 6, 5)", _unlike),
            _trail("tokens of standard deviation 0.001", 1e-3 * draw(65, 2, 4, 5)),
            _trail("eps = 0.1", draw(66, 2, 4, 5), eps=0.1),
        ],
        "",
    ),
    (
        [
            # The mean is rounded by 0.0005 at 10,000: 0.02 as in lesson 4. One pass is off by 1 and more.
            _trail("float32 tokens around 10,000", (10_000 + draw(67, 2, 4, 64)).float(), tolerance=0.02),
            _trail("decay = 0.3, to nine digits", _unlike, tolerance=1e-9, decay=0.3),
            _trail("float16 tokens of size 600", (600 * draw(68, 2, 4, 5)).half(), tolerance=0.01),
        ],
        "",
    ),
    ([call_layer("six tokens after a call with four", _used, _unlike, {})], ""),
    ([*of_a_layer(_new_trail, _unlike, other=lambda cls: cls(5, 0.2, 0.1)), same_in_eval(_new_trail, _unlike)], ""),
]
_TRAIL_CONTRACT = Contract(
    {"x": "... T D"},
    use=_sorted,
    options=({}, {"decay": 0.0}, {"decay": 1.0}, {"decay": 0.9, "eps": 0.1}),
    half=True,
    sizes={"T": (4, 1, 2, 20, 600), "D": (5, 2, 17, 40)},
    ranks=(1, 0, 2, 3),
)

_TRAIL_MISTAKES = misconceptions(
    _Trail,
    """
    # the mean of the variances is not the variance of the whole (lesson 6): the distances of the tokens' means from the common mean are missing.
    v = w @ var

    # the distances of the means are taken from the token's own mean, not from the common one.
    gaps = (w * (m.mT - m) ** 2).sum(-1, keepdim=True)

    # each token's distances are taken from the mean of its own trail. All those of a sum are taken from mu_t, the mean of the token that is normalized.
    v = w @ ((wide - mu) ** 2).mean(-1, keepdim=True)

    # the mean is the token's own. Every token is centered by the mean of its trail.
    x_hat = (wide - m) / deviation

    # later tokens have weight, too: the future leaks. Only s <= t counts.
    age = (t[:, None] - t).abs()
    past = powers

    # later tokens have the weight, and earlier ones none: rows and columns are exchanged. | t counts the rows, s the columns.
    age = (t - t[:, None]).clamp(min=0)
    past = powers.triu()

    # the decay is not used: all tokens up to t have the same weight.
    powers = 1.0 ** age.to(wide.dtype)

    # the weights of a row do not sum to 1. | Divide by their sum.
    w = past

    # the columns of the weights sum to 1. It is the rows that must: each token t divides by the sum over s.
    w = past / past.sum(0, keepdim=True)

    # 0 to a negative power is inf, and 0 times inf is nan. | Clamp the exponent, or cut the later tokens off with tril.
    age = t[:, None] - t
    past = powers * (age >= 0)

    # the decay of the call is not used; the number 0.5 is written into the formula.
    powers = 0.5 ** age.to(wide.dtype)

    # the variance divides by D - 1. It is to divide by D. | correction=0.
    var = wide.var(-1, keepdim=True)

    # eps is added to the standard deviation. It belongs to the variance, under the root.
    deviation = torch.sqrt(v) + self.eps

    # the eps of the call is not used.
    deviation = torch.sqrt(v + 1e-5)

    # there is no eps under the root.
    deviation = torch.sqrt(v)

    # the bias is added before the gain multiplies.
    y = (x_hat + self.bias) * self.weight

    # float64 tokens meet float32 weights, which PyTorch refuses to multiply. | Build the weights in the type that you compute in.
    powers = self.decay**age

    # float64 tokens are computed in float32, or weighted by float32 weights. | Build the weights in the type that you compute in.
    powers = (self.decay**age).to(wide.dtype)
    # or
    wide = x.float()

    # everything is computed in x's dtype: in float16 the squares overflow. | Convert x first, and back in the last step.
    wide = x

    # E[x^2] - E[x]^2 loses its digits around 10,000. | Subtract first, then square.
    v = w @ (wide * wide).mean(-1, keepdim=True) - mu**2
    """,
)


def trail_norm(answer):
    """Check a module TrailNorm(features, decay=0.5, eps=1e-5) on x (..., T, D) (lesson 14)."""
    tried = "several decays, unlike tokens, 1 to 200 of them, small rows, an offset, four dtypes, eval(), gradients"
    how = {"tried": tried, "contract": _TRAIL_CONTRACT, "kind": "class"}
    examine(answer, "trail_norm", _TRAIL_STAGES, _Trail, _TRAIL_MISTAKES, **how)

"""Checks of lesson 14: four repairs, three tests that find the fault in unseen layers, and a norm from one page."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.mistakes import Mistake, edited, known
from lessonkit.check.probing import Probe, call, draw, filled, gradients, in_float64, quiet, raised


def _created(label, make):
    """Return a Probe: the parameters of a new layer, with their shapes, and their value if it is one."""

    def run(cls):
        described = []
        for name, p in sorted(make(cls).named_parameters()):
            values = p.detach().unique().tolist()
            described.append(f"{name} {tuple(p.shape)}{f' of {values[0]:g}' if len(values) == 1 else ''}")
        return {"its parameters": ", ".join(described) or "none"}

    return Probe(label, run)


def _layer(label, make, x, state, shown=None, tolerance=1e-9, watched=None):
    """Return a Probe: a layer with given parameters on x: its output, whether it changed x, and gradients.

    make: the learner's class -> layer. state: {name: value} of its parameters; their names are another probe's matter.
    watched: of what the gradients are compared, () for nothing; without it, x and all parameters.
    """

    def run(cls):
        try:
            layer = make(cls).to(x.dtype)
            layer.load_state_dict(state, strict=False)
            leaf = x.clone().requires_grad_()
            given = leaf.clone()
            y = layer(given)
        except Exception as error:
            return {"the output": raised(error)}
        seen = {"x after the call": given.detach(), "the output": y}
        leaves = {"x": leaf, **dict(layer.named_parameters())}
        leaves = {name: leaf for name, leaf in leaves.items() if watched is None or name in watched}
        if not leaves or not isinstance(y, torch.Tensor) or y.shape != x.shape or y.dtype != x.dtype:
            return seen
        return seen | gradients((y * draw(73, *y.shape).to(y.dtype)).sum(), leaves)

    return Probe(label, run, {"x": x, **(shown or {})}, tolerance)


# ---- case 1: pixels
def _pixels(x, weight, bias):
    pixels = x.movedim(1, -1)
    pixels = F.layer_norm(pixels, (x.shape[1],), weight, bias)
    return pixels.movedim(-1, 1)


def _over_channels(x, weight, bias):
    mean = x.mean(1, keepdim=True)
    var = x.var(1, correction=0, keepdim=True)
    y = (x - mean) / torch.sqrt(var + 1e-5)
    return y * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


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
    _images("float32 images (2, 3, 4, 5)", draw(6, 2, 3, 4, 5, dtype=torch.float32), tolerance=1e-5),
    _images("one pixel (3, 4, 1, 1)", draw(5, 3, 4, 1, 1)),
    _images("pixels of 64 channels, one of them far out", _outlier),
    # float32 resolves 100 to 8e-6, two passes lose no more; one pass loses 1e4 times 2^-24 of the variance
    _images("float32 pixels around 100", draw(7, 2, 16, 3, 2, mean=100.0, dtype=torch.float32), tolerance=1e-4),
]

_VIEW = "reshape cuts one long row of numbers into other pieces and moves nothing: C neighbors of one channel are still normalized together. To bring the channels to the end, move the axis (movedim, permute, transpose)."
_ORDER = "the axes come back in a different order than they left: movedim(1, -1) is undone by movedim(-1, 1), and permute(0, 2, 3, 1) by permute(0, 3, 1, 2)."
_BACK = (".permute(0, 2, 3, 1)", ".transpose(1, 2).movedim(-1, 1)", "")
_OTHER = "that is a different norm: each pixel has a mean and a variance of its own, over its C channels."
_RETURN = "return pixels.movedim(-1, 1)"

_PIXEL_MISTAKES = known(
    _pixels,
    {
        "x.movedim(1, -1) -> x.reshape(x.shape[0], -1, x.shape[1]) ; pixels.movedim(-1, 1) -> pixels.reshape(x.shape)": _VIEW,
        "pixels.movedim(-1, 1) -> pixels.reshape(x.shape)": "the channels are moved to the end and not moved back: a reshape at the end puts the numbers into the wrong places. Undo a move with a move.",
        **{f"pixels.movedim(-1, 1) -> pixels{back}": _ORDER for back in _BACK},
        "x.movedim(1, -1) -> x ; pixels.movedim(-1, 1) -> pixels": "F.layer_norm normalizes the last axis, and here that is a row of pixels (W). Move the channels to the end first.",
        f"{_RETURN} -> return F.group_norm(x, 1, weight, bias)": _OTHER,
        f"{_RETURN} -> return F.instance_norm(x, weight=weight, bias=bias)": _OTHER,
        f"{_RETURN} -> return F.batch_norm(x, None, None, weight, bias, training=True)": _OTHER,
    },
) + known(
    _over_channels,
    {
        "(1, -> (-1,": _OTHER,
        "correction=0, -> ": "the variance divides by C - 1. Say correction=0.",
        "torch.sqrt(var + 1e-5) -> (torch.sqrt(var) + 1e-5)": "eps is added to the standard deviation. It belongs under the root.",
        " + 1e-5 -> ": "there is no eps under the root.",
        "1e-5 -> 1e-6": "eps is 1e-5 here, as the docstring says.",
        "x.var(1, correction=0, keepdim=True) -> (x * x).mean(1, keepdim=True) - mean * mean": "E[x^2] - E[x]^2 loses its digits around 100. Subtract first, then square.",
        "y * weight.view(-1, 1, 1) + bias.view(-1, 1, 1) -> y": "gain and bias are left out.",
        "y * weight.view(-1, 1, 1) + bias.view(-1, 1, 1) -> (y + bias.view(-1, 1, 1)) * weight.view(-1, 1, 1)": "the bias is added before the gain multiplies.",
        ".view(-1, 1, 1) -> ": "gain and bias of shape (C,) meet the last axis, the columns. As (C, 1, 1) they meet the channels.",
    },
)


def repaired_pixels(answer):
    """Check a LayerNorm over the channels of each pixel: (B, C, H, W), weight (C,), bias (C,) -> (B, C, H, W) (lesson 14)."""
    tried = "square and other images, W = C, small rows, an outlier, an offset, random gains, gradients"
    examine(answer, "repaired_pixels", _PIXEL_PROBES, in_float64(_pixels), _PIXEL_MISTAKES, tried)


# ---- case 2: padding
def _average(x, mask, norm):
    m = mask.unsqueeze(-1)
    y = norm(x).masked_fill(~m, 0)
    return y.sum(1) / m.sum(1)


def _norm(C, seed, **options):
    return filled(nn.LayerNorm(C, **options).double(), seed)


def _sentences(label, x, mask, norm, tolerance=1e-6, gradient=True):  # mask / mask.sum() is float32, and right
    probe = call(label, x, mask, norm, names=("x", "mask", "norm"), tolerance=tolerance, gradient=gradient)

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
    _sentences("sentences with zeros for padding", draw(22, 3, 7, 4) * _LONG.unsqueeze(-1), _LONG, _norm(4, 33)),
    _sentences("a norm as it is created", draw(23, 3, 7, 5), _LONG, nn.LayerNorm(5).double()),
    _sentences("padding before and in between", draw(24, 2, 5, 6), _HOLES, _norm(6, 35)),
    _sentences("no padding", draw(25, 2, 5, 4), torch.ones(2, 5, dtype=torch.bool), _norm(4, 37)),
    _sentences("a norm without bias", draw(26, 3, 7, 4), _LONG, _norm(4, 39, bias=False)),
    _sentences("tokens of whole numbers, zeros among them", _WHOLE, _HOLES, _norm(3, 43)),
    _sentences("as many sentences as features", draw(28, 3, 7, 3), _LONG, _norm(3, 45)),
    _sentences("float32 tokens", draw(27, 3, 7, 4).float(), _LONG, _norm(4, 41).float(), tolerance=1e-5),
]
_broken = draw(29, 3, 7, 4)
_broken[0, 4], _broken[0, 6], _broken[2, 2] = float("nan"), float("inf"), -float("inf")
# Values only: the gradients of a norm's parameters are nan as soon as it meets nan, whatever comes after it.
_BROKEN_PROBES = [_sentences("padding of nan and inf", _broken, _LONG, _norm(4, 47), gradient=False)]

_PADDED_LENGTH = "the sum is divided by the padded length. Divide by the number of real tokens."
_BIAS_GONE = "the bias is taken away from the real tokens, too. Only the padding has to go."
_ZEROS = "the padding is told by its zeros. A real token may hold zeros, and padding other numbers: the mask says which is which."
_UPSIDE_DOWN = "the mask is the wrong way round: True marks a real token."
_Y = "y = norm(x).masked_fill(~m, 0)"
_LESS_BIAS = "- (0 if norm.bias is None else norm.bias)"

_AVERAGE_MISTAKES = known(
    _average,
    {
        f"{_Y} -> y = norm(x * m)": "the padding is set to 0 before the norm, and the norm turns 0 into its bias. Nothing may come between the mask and the sum.",
        "m.sum(1) -> x.shape[1]": _PADDED_LENGTH,
        f"{_Y} -> y = norm(x) ; m.sum(1) -> x.shape[1]": _PADDED_LENGTH,
        f"{_Y} -> y = norm(x)": "the padding is not masked at all, and goes into the sum.",
        f"{_Y} -> y = norm(x * m) {_LESS_BIAS}": _BIAS_GONE,
        "~m -> m": _UPSIDE_DOWN,
        f"{_Y} -> y = norm(x) * (x != 0)": _ZEROS,
        "~m -> (x == 0).all(-1, keepdim=True)": _ZEROS,
        "return y.sum(1) / m.sum(1) -> return torch.stack([y[: int(n)].mean(0) for y, n in zip(norm(x), m.sum(1))])": "the first tokens are taken for the real ones. The mask may have its gaps anywhere.",
        "/ m.sum(1) -> / m.sum(1).max()": "the sum is divided by the longest sentence's number of tokens. Every sentence has its own.",
        "return y.sum(1) / m.sum(1) -> return norm(x)[mask].mean(0).expand(len(x), -1)": "the average is taken over the real tokens of all sentences together. Every sentence has its own.",
        "norm(x) -> x ; return y.sum(1) / m.sum(1) -> return norm(y.sum(1) / m.sum(1))": "the norm comes after the average. Each token is to be normalized by itself, then averaged.",
        "norm(x) -> x": "the norm is gone. Each token is to be normalized by itself, then averaged.",
        " / m.sum(1) -> ": "that is the sum. Divide it by the number of real tokens.",
        "/ m.sum(1) -> / mask.sum(1)": "mask.sum(1) has shape (B,) and meets the features. With keepdim=True it is (B, 1), a number for each sentence.",
    },
)
_STILL_NAN = "0 times nan is nan, and so is what a norm makes of inf: to multiply by the mask does not stop it. Set the padding to 0 after the norm: masked_fill or torch.where."
_BROKEN_MISTAKES = known(_average, {f"{_Y} -> y = norm(x) * m": _STILL_NAN})


def repaired_average(answer):
    """Check the average of the real tokens after a norm: x (B, T, C), mask (B, T) bool, norm -> (B, C) (lesson 14)."""
    stages = [(_AVERAGE_PROBES, _AVERAGE_MISTAKES), (_BROKEN_PROBES, _BROKEN_MISTAKES)]
    tried = "new and trained norms, padding after, before and between, of zeros, of other numbers and of nan, gradients"
    right = f"repaired_average does what it should on {{count}} inputs ({tried})"
    in_stages(answer, "repaired_average", stages, _average, right, kind="function")


# ---- case 3: initialization
class _OwnNorm(nn.Module):  # no class of PyTorch's
    def __init__(self, D):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))


def _model(*chosen):
    """A model with norms of five kinds, for initialization only; chosen: only these of its layers."""
    model = {
        "embedding": nn.Embedding(50, 40),
        "up": nn.Linear(40, 80),
        "down": nn.Linear(80, 40),
        "deep": nn.Sequential(nn.Linear(40, 60, bias=False), nn.ReLU()),
        "head": nn.Linear(40, 50),
        "norm1": nn.LayerNorm(40),
        "last": nn.LayerNorm(40),
        "scale": _OwnNorm(80),
        "rms": nn.RMSNorm(40),
        "groups": nn.GroupNorm(4, 60),
        "image_norm": nn.LayerNorm((8, 5)),
        "pixels": nn.LayerNorm((6, 5)),
    }
    with torch.no_grad():
        model["up"].bias.fill_(0.3)  # what was there before must be gone
        model["rms"].weight.fill_(0.5)  # and what was made so must stay
    return nn.ModuleDict({name: layer for name, layer in model.items() if name in chosen or not chosen})


def _described(parameter):
    """Say what is in a parameter, so that two draws from one distribution read alike."""
    p = parameter.detach()
    if not parameter.requires_grad:
        return "without requires_grad"
    if (p == p.flatten()[0]).all():
        return f"all {p.flatten()[0].item() + 0.0:.4g}"  # + 0.0: -0 is 0
    if p.numel() < 2000:
        return f"random, deviation {p.std().item():.1g}"
    mean, deviation, most = p.mean().item(), p.std().item(), p.abs().max().item()
    uniform = most < 2 * deviation  # such numbers end at 1.7 deviations; of 2,000 Gaussian ones some lie beyond 3
    if abs(deviation / 0.02 - 1) < 0.07 and abs(mean) < 0.0025 and not uniform:  # four standard errors and more
        return "random, mean 0, deviation 0.02"
    return f"{'uniform' if uniform else 'random'}, mean {round(mean, 1) + 0.0:g}, deviation {deviation:.2g}"


def _initialized(label, *chosen):
    def run(answer):
        torch.manual_seed(14)
        model = _model(*chosen)
        answer(model)
        return {name: _described(p) for name, p in model.named_parameters()}

    return Probe(label, run)


_LAYER_NORM_PROBES = [_initialized("LayerNorms over one axis and over two", "norm1", "last", "image_norm", "pixels")]
_OWN_NORM_PROBES = [_initialized("a norm of a class that is not PyTorch's", "scale")]
_OTHER_NORM_PROBES = [_initialized("an RMSNorm with gains of 0.5 and a GroupNorm", "rms", "groups")]
_LINEAR_PROBES = [
    _initialized("two Linear layers", "up", "down"),
    _initialized("an Embedding and a Linear layer", "embedding", "head"),
    _initialized("a Linear layer without bias, inside a Sequential", "deep"),
    _initialized("the whole model"),
]


def _init(model):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _by_axes(model):
    """A mistake of a different design: what a parameter is, told by its axes."""
    for name, p in model.named_parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)


def _sparing(model):
    """A further one: the norms are listed, not the layers."""
    for module in (layer for layer in model.modules() if not isinstance(layer, nn.LayerNorm)):
        for name, p in module.named_parameters(recurse=False):
            nn.init.zeros_(p) if name == "bias" else nn.init.normal_(p, std=0.02)


_MATRICES = "a gain over two axes is a matrix, too: the rule p.dim() > 1 treats it as a weight. Ask which layer a parameter belongs to, not how many axes it has."
_LISTED = "your rule knows some classes of norms, and this model has others. List the layers that you do change."
_SILENT = "the gains are set to 0: such a norm answers every row with its bias."
_MORE = (" and p.dim() > 1", ' and not name.endswith("bias")')
_NAMED = "your rule goes by names, and a norm may have any name. Ask of which class a layer is."

_LAYER_NORM_MISTAKES = [
    Mistake(_MATRICES, _by_axes),
    *known(
        _by_axes,
        {
            "if p.dim() > 1 -> if True": "every parameter is drawn, the gains and biases of the norms too.",
            'p.dim() > 1 -> name.endswith("weight")': "every weight is drawn, and that is what the gains of the norms are called, too.",
            'elif name.endswith("bias") -> else': "one-dimensional parameters are set to 0, and the gains of the norms are among them.",
            'if p.dim() > 1 -> if False ; elif name.endswith("bias") -> else': _SILENT,
            **{f'p.dim() > 1 -> "norm" not in name{more}': _NAMED for more in ("", *_MORE)},
        },
    ),
]
_OWN_NORM_MISTAKES = [Mistake(_LISTED, _sparing), *known(_sparing, {'name == "bias" -> False': _LISTED})]
_RESET = "model.modules(): -> model.modules():\n        getattr(module, 'reset_parameters', list)()"
_BACK_AT_START = "the norms are set back to how they are created. What is in them is to stay."
_OTHER_NORM_MISTAKES = known(_init, {_RESET: _BACK_AT_START})
_LINEAR_MISTAKES = known(
    _init,
    {
        "model.modules() -> []": "nothing in the model has changed. Change its own parameters, in place.",
        "model.modules() -> model.children()": "children() are the layers of the first level only. modules() walks through those inside others as well.",
        "nn.init.zeros_(module.bias) -> pass": "the biases of the Linear layers keep what was in them. They are to be 0.",
        "nn.init.zeros_(module.bias) -> nn.init.normal_(module.bias, std=0.02)": "the biases of the Linear layers are drawn, too. They are to be 0.",
        "(nn.Linear, nn.Embedding) -> nn.Linear": "the Embedding keeps its own initialization, with deviation 1. It is to have 0.02 as well.",
        **{f"std=0.02 -> std=0.02**{n}": "0.02 is the deviation (std), 0.02² the variance." for n in (0.5, 2)},
        "std=0.02 -> 0.02": "the second argument of normal_ is the mean. Name the deviation: std=0.02.",
        "normal_(module.weight, std=0.02) -> uniform_(module.weight, -0.02, 0.02)": "that is a uniform distribution between -0.02 and 0.02. Its deviation is 0.02 / sqrt(3).",
        " and module.bias is not None -> ": "a Linear layer made with bias=False has None for its bias. Ask before you set it to 0.",
        "nn.Linear) and module -> (nn.Linear, nn.Embedding)) and module": "an Embedding has no bias: only a Linear layer does.",
    },
)


def repaired_init(answer):
    """Check an initialization of a model in place that leaves the norms alone (lesson 14)."""
    norms = [(_OWN_NORM_PROBES, _OWN_NORM_MISTAKES), (_OTHER_NORM_PROBES, _OTHER_NORM_MISTAKES)]
    stages = [(_LAYER_NORM_PROBES, _LAYER_NORM_MISTAKES), *norms, (_LINEAR_PROBES, _LINEAR_MISTAKES)]
    right = "repaired_init does what it should on {count} models (Linear layers, Embeddings, and norms of four classes)"
    in_stages(answer, "repaired_init", stages, _init, right, kind="function")


# ---- case 4: block
class _Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


def _block(label, x, silent=False, tolerance=1e-9):
    """silent: whether all Linear layers are 0, so that both branches are."""
    with quiet():  # a new Linear draws from the learner's random numbers
        state = {name: draw(91 + n, *p.shape) for n, (name, p) in enumerate(_Block(4).named_parameters())}
    if silent:
        state = {name: p if "norm" in name else 0 * p for name, p in state.items()}
    return _layer(label, lambda cls: cls(4), x, state, tolerance=tolerance, watched=("x",) if silent else None)


_BLOCK_PROBES = [
    _created("a new block", lambda cls: cls(4)),
    _block("a block whose branches are silent (all Linear layers 0)", draw(41, 2, 3, 4), silent=True),
    _block("a block with random parameters", draw(41, 2, 3, 4)),
    _block("a stream of rms 10", 10 * draw(43, 2, 3, 4)),
    _block("a stream of rms 0.001", 1e-3 * draw(45, 2, 3, 4)),
    _block("a float32 stream", draw(47, 3, 4, dtype=torch.float32), tolerance=1e-5),
]

_MIX, _MLP = "x + self.mix(self.norm1(x))", "x + self.mlp(self.norm2(x))"
_PATIENT_MIX = f"{_MIX} -> (x := self.norm1(x)) + self.mix(x)"
_PATIENT_MLP = f"{_MLP} -> (x := self.norm2(x)) + self.mlp(x)"
_NOT_ADDED = "the stream is not added: without x + … nothing passes when a branch is silent."

_BLOCK_MISTAKES = known(
    _Block,
    {
        f"{_PATIENT_MIX} ; {_PATIENT_MLP}": "the name x is overwritten by its normalized self before the sum, in both branches.",
        _PATIENT_MLP: "the first half is right; in the second x is still overwritten by its normalized self.",
        _PATIENT_MIX: "the second half is right; in the first x is still overwritten by its normalized self.",
        f"{_MIX} -> self.norm1(x + self.mix(x)) ; {_MLP} -> self.norm2(x + self.mlp(x))": "that is Post-LN: the norms come after the sums, on the stream itself. In Pre-LN they are inside the branches.",
        f"x = {_MIX} -> y = {_MIX} ; norm2(x) -> norm2(y)": "the second branch is added to the input of the block: what the first branch wrote is lost.",
        f"{_MIX} -> x + (y := self.norm1(x)) + self.mix(y) ; {_MLP} -> x + (y := self.norm2(x)) + self.mlp(y)": "the normalized row is added to the stream in addition to the branch: three terms, where Pre-LN has two.",
        "self.norm1(x) -> x ; self.norm2(x) -> x": "the norms are gone. In Pre-LN each branch reads the stream through its norm.",
        f"x = {_MIX} -> y = self.norm1(x) ; norm2(x) -> norm2(y + self.mix(y))": "the second branch reads the sum of a normalized row and the first branch. It is to read the stream: x + self.mix(…), x as it came in.",
        "norm2(x) -> norm1(x)": "norm1 is used in both branches. The second has a norm of its own, norm2.",
        "mix(self.norm1(x)) -> mix(self.norm2(x)) ; mlp(self.norm2(x)) -> mlp(self.norm1(x))": "the norms are exchanged: norm1 belongs to mix, norm2 to mlp.",
        f"x = {_MIX} -> y = self.mix(self.norm1(x)) ; {_MLP} -> {_MLP} + y": "both branches read the input of the block. mlp is to read the stream after mix has written to it.",
        "self.norm2(x) -> x": "norm2 is not used: mlp reads the stream as it is.",
        "self.norm1(x) -> x": "norm1 is not used: mix reads the stream as it is.",
        f"x = {_MIX} -> y = {_MLP} ; x = {_MLP} -> x = y + self.mix(self.norm1(y))": "mlp comes first. It is to read the stream after mix has written to it.",
        "return x -> return self.norm2(x)": "there is a norm on the stream itself, at the end. With silent branches x must come out as it went in.",
        "self.mix(self.norm1(x)) -> self.norm1(self.mix(self.norm1(x))) ; self.mlp(self.norm2(x)) -> self.norm2(self.mlp(self.norm2(x)))": "there are norms on both sides of the branches (lesson 12's Peri-LN, with shared norms). Pre-LN has them before only.",
        "self.mix(self.norm1(x)) -> self.norm1(self.mix(x)) ; self.mlp(self.norm2(x)) -> self.norm2(self.mlp(x))": "the norms come after the branches: LN(mix(x)). In Pre-LN they come before: mix(LN(x)).",
        "x + self -> self": _NOT_ADDED,
    },
)


def repaired_block(answer):
    """Check a Pre-LN block of two branches, built as RepairedBlock(D) (lesson 14)."""
    tried = "silent branches, random parameters, streams of three sizes, float32, gradients"
    examine(answer, "repaired_block", _BLOCK_PROBES, _Block, _BLOCK_MISTAKES, tried, kind="class")


# ---- three of the ten tests
class _Layer(nn.LayerNorm):  # a right one, of which the layers held back are edits
    def forward(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean, var = wide.mean(axes, keepdim=True), self.var(wide, axes)
        y = (wide - mean) / torch.sqrt(var + self.eps)
        y = y if self.weight is None else y * self.weight
        y = y if self.bias is None else y + self.bias
        return y.to(x.dtype)

    def var(self, x, axes):
        var = x.var(axes, correction=0, keepdim=True)
        return var


def _scale_gradient(x, weight):
    """Make the gradient that arrives at x weight times as large."""
    if x.requires_grad and weight is not None:
        x.register_hook(lambda gradient: gradient * weight)


_WIDE, _VAR = "x.to(torch.promote_types(x.dtype, torch.float32))", "x.var(axes, correction=0, keepdim=True)"
_ONE_PASS = "x.square().mean(axes, keepdim=True) - x.mean(axes, keepdim=True).square()"
_MEAN = "wide.mean(axes, keepdim=True)"


def _meets(what, layer, sound):
    """Return a Probe: the verdict of a learner's test on a layer. To a faulty layer, an error is a verdict as well."""

    def run(test):
        try:
            verdict = test(layer)
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
            verdict = raised(error) if sound else False
        return {"the verdict": bool(verdict) if isinstance(verdict, torch.Tensor) else verdict}

    return Probe(f"{what} ({'sound' if sound else 'faulty'})", run)


def _against(**faults):
    """Return Probes: sound layers, then layers that are held back, {what: an edit of _Layer}."""
    sound = {
        "nn.LayerNorm": nn.LayerNorm,
        "a LayerNorm by hand": _Layer,
        "a LayerNorm that centers twice": edited(_Layer, f"mean, -> wide = wide - {_MEAN}; mean,"),
    }
    held_back = {f"a layer that {what.replace('_', ' ')}": edited(_Layer, edits) for what, edits in faults.items()}
    return [_meets(what, layer, layers is sound) for layers in (sound, held_back) for what, layer in layers.items()]


_OFFSET_PROBES = _against(
    takes_the_one_pass_variance_and_clamps_it_at_0=f"{_VAR} -> ({_ONE_PASS}).clamp(min=0)",
    takes_the_one_pass_variance_and_its_absolute_value=f"{_VAR} -> ({_ONE_PASS}).abs()",
    does_not_subtract_the_mean="(wide - mean) -> wide",
    is_off_by_one_in_rows_beyond_500="return y.to -> y = y + (mean.abs() > 500); return y.to",
    subtracts_no_more_than_100="(wide - mean) -> (wide - mean.clamp(-100, 100))",
)
_GRADIENT_PROBES = _against(
    treats_the_mean_as_a_constant_in_the_backward_pass=f"{_MEAN} -> {_MEAN}.detach()",
    treats_both_statistics_as_constants_in_the_backward_pass="keepdim=True) -> keepdim=True).detach()",
    takes_the_gain_out_of_the_means_in_its_backward_pass=f"{_WIDE} -> {_WIDE} * 1; _scale_gradient(wide, self.weight) ; y * self.weight -> y + (y * self.weight - y).detach()",
    forgets_the_gradient_from_above="return y.to -> y.requires_grad and y.register_hook(torch.ones_like); return y.to",
    has_a_gradient_that_is_off_by_a_fiftieth="return y.to -> y = y + 0.02 * (y - y.detach()); return y.to",
)
_AGAIN_PROBES = _against(
    overwrites_its_input="y = (wide - mean) / -> wide -= mean; y = wide / ",
    keeps_a_running_variance_for_eval="return var -> if self.training: self.kept = 0.9 * getattr(self, 'kept', 1.0) + 0.1 * var.mean().detach()\n        return var if self.training else self.kept",
    enlarges_its_eps_with_every_call="return y.to -> self.eps *= 1.5; return y.to",
    # its variance leans towards that of the call before: the same rows twice in a row do not show it
    remembers_the_rows_of_the_call_before="return var -> last, self.last = getattr(self, 'last', None), var.detach().mean()\n        return var if last is None else (var + 0.1 * (last - self.last)).clamp(min=0)",
    remembers_them_in_training_only="return var -> last, self.last = getattr(self, 'last', None), var.detach().mean()\n        return (var + 0.1 * (last - self.last)).clamp(min=0) if self.training and last is not None else var",
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
    return _close(cls, draw(81, 4, 5, dtype=torch.float32) + 10_000, 0.02)


def _gradient(cls):
    x = draw(82, 4, 5).requires_grad_()
    y, right = _trial(cls, x)
    dx, dx_right = (torch.autograd.grad(out, x, draw(83, 4, 5))[0] for out in (y, right))
    return torch.allclose(dx, dx_right, rtol=1e-9, atol=1e-9)


def _again(cls):
    layer, x = cls(5).double(), draw(84, 4, 5)
    first = layer(x.clone()).clone()
    used = x.clone()
    layer(used), layer(10 * x)
    same = torch.equal(layer(x.clone()), first) and torch.equal(layer.eval()(x.clone()), first)
    return same and torch.equal(used, x)


def _test_mistakes(solution, let, refuse, rows):
    """The known mistakes of a learner's test: let, refuse: why it may let every layer pass, or none; then its own."""
    rounding = ("is nn.LayerNorm", "is not nn.LayerNorm", "is not _Layer", "not in (nn.LayerNorm, _Layer)")
    every = {
        "return -> return True or": f"your test lets every layer pass. {let}",
        "return -> return False and": f"your test refuses every layer, PyTorch's too. {refuse}",
        **{f"return -> return cls {some} and": f"your test refuses right layers. {refuse}" for some in rounding},
        "return -> _ =": "the return is missing: a test that returns None refuses every layer.",
    }
    return known(solution, every | rows)


_OFFSET_MISTAKES = _test_mistakes(
    _offset,
    "What has to be equal, and within which tolerance?",
    "Is the tolerance too small? PyTorch is off by about 0.002 at 10,000 in float32, and other right layers by as much: allow ten times that.",
    {
        "10_000, 0.02 -> 0, 1e-4": "the rows are around 0, or too near to it for the tolerance. Move them away: + 10_000.",
        ", dtype=torch.float32 -> ": "a one-pass variance passes. At 10,000 it keeps eight digits in float64 rows, and in rows multiplied by 10,000 nothing is lost: draw float32 rows (dtype=torch.float32), and add 10_000.",
        "0.02 -> 1000": "the tolerance is too large. PyTorch is off by about 0.002 at 10,000, so allow ten times as much.",
    },
)
_GRADIENT_MISTAKES = _test_mistakes(
    _gradient,
    "A comparison of outputs does that, and so does x.grad compared with itself: take torch.autograd.grad(…, x, dy) of each output, and compare within 1e-9 or so.",
    "Does x.grad hold the sum of two gradients? backward() adds to it, so take torch.autograd.grad. And rounding is larger than 1e-9 in float32, and above 0 in float64.",
    {
        "draw(83, 4, 5) -> torch.ones_like(out)": "the gradient from above is all ones, so a layer that forgets it passes. Draw dy at random.",
        "_trial(cls, x) -> cls(5).double()(x), F.layer_norm(x, (5,))": "the gains are those of a new layer, 1, and hide a gain in the wrong place. trial gives a layer random ones.",
        "rtol=1e-9, atol=1e-9 -> rtol=0.1, atol=0.1": "the tolerance is too large: in float64 the two gradients agree to 1e-9.",
    },
)
_AGAIN_MISTAKES = _test_mistakes(
    _again,
    "Three things to look at: the input after the call, the answer after other rows, the answer in eval().",
    "Compare the layer with itself, in one type, and clone what you keep.",
    {
        " and torch.equal(used, x) -> ": "the input is not looked at after the call. Keep a clone, and compare.",
        "layer.eval() -> layer": "eval() is missing: a layer that keeps something for evaluation passes.",
        ", layer(10 * x) -> ": "no other rows come in between, so a layer that remembers those of the call before passes.",
        "same = torch.equal(layer(x.clone()), first) and -> same =": "in training mode the rows are not asked again after other rows.",
        "layer(x.clone()) -> cls(5).double()(x.clone()) ; layer.eval()(x.clone()) -> cls(5).double()(x.clone())": "each call has a new layer (trial makes one, too), so nothing can be remembered. Build one layer, and call it several times.",
        "cls(5).double() -> cls(5)": "the layer is float32 and the rows are float64: PyTorch's layer raises an error. Make them one type.",
    },
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
    right = "again passes three sound layers and refuses five that a call changes, or that change what they are given"
    examine(answer, "again", _AGAIN_PROBES, _again, _AGAIN_MISTAKES, right=right)


# ---- the project: TrailNorm
class _Trail(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        m, var = wide.mean(-1, keepdim=True), wide.var(-1, correction=0, keepdim=True)
        t = torch.arange(x.shape[-2])
        w = (self.decay ** (t[:, None] - t).clamp(min=0).to(wide.dtype)).tril()
        w = w / w.sum(-1, keepdim=True)
        mu = w @ m
        v = w @ var + (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)
        y = (wide - mu) / torch.sqrt(v + self.eps)
        return (y * self.weight + self.bias).to(x.dtype)


def _trail(label, x, tolerance=1e-6, watched=None, before=None, **arguments):
    """before: a tensor that the layer is given first. arguments: decay and eps, where they are not left out."""
    D = x.shape[-1]

    def make(cls):
        layer = cls(D, **arguments)
        if before is not None:
            layer.to(before.dtype)(before)
        return layer

    return _layer(label, make, x, {"weight": draw(71, D), "bias": draw(72, D)}, arguments, tolerance, watched)


def _digits_kept(cls):
    x = 100 + draw(69, 2, 6, 5)  # in float32 it is off by 4e-6, and float32 weights move the mean as far
    off = (cls(5, 0.3).double()(x) - _Trail(5, 0.3).double()(x)).abs().max().item()
    seven = "exact to float32's seven digits only"
    return {"the output": "exact to 1e-8" if off < 1e-8 else seven if off < 1e-3 else "wrong"}


_unlike = draw(61, 2, 6, 5) * torch.tensor([1.0, 3.0, 0.2, 1.0, 5.0, 0.5]).view(6, 1) + draw(62, 2, 6, 1)
_wide = draw(59, 2, 3, 64)
_wide[:, 1, 7] = 40.0
_TRAIL_PROBES = [
    _created("a new layer", lambda cls: cls(4)),
    _trail("decay 0, which is LayerNorm", _unlike, decay=0.0),
    _trail("the worked example", torch.tensor([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]]).double(), decay=1.0),
    _trail("tokens of unlike mean and size (2, 6, 5)", _unlike),
    _trail("decay 1", _unlike, decay=1.0),
    _trail("more leading axes (2, 3, 4, 5)", draw(63, 2, 3, 4, 5), decay=0.25),
    _trail("one sequence of one token", draw(64, 1, 5)),
    _trail("tokens of standard deviation 0.001", 1e-3 * draw(65, 2, 4, 5)),
    _trail("eps = 0.1", draw(66, 2, 4, 5), eps=0.1),
    _trail("64 features, one of them far out", _wide),
    _trail("tokens that follow a call with other ones", _unlike, before=draw(58, 2, 4, 5)),
]
_TYPE_PROBES = [
    # The mean is rounded by 0.0005 at 10,000: 0.02 as in lesson 4. One pass is off by 1 and more.
    _trail("float32 tokens around 10,000", (10_000 + draw(67, 2, 4, 64)).float(), tolerance=0.02, watched=()),
    Probe("float64 tokens around 100", _digits_kept),
    _trail("float16 tokens of size 600", (600 * draw(68, 2, 4, 5)).half(), tolerance=0.01, watched=()),
]

_FUTURE = "later tokens have weight, too: the future leaks. Only s <= t counts."
_SEVEN_DIGITS = "float64 tokens are computed in float32, or weighted by float32 weights. Build the weights in the type that you compute in."
_GAPS, _POWERS = " + (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)", "(t[:, None] - t).clamp(min=0)"
_SHARES, _IN_FLOAT = "w / w.sum(-1, keepdim=True)", ".to(wide.dtype)).tril() -> ).tril()"

_TRAIL_MISTAKES = known(
    _Trail,
    {
        f"{_GAPS} -> ": "the mean of the variances is not the variance of the whole (lesson 6): the distances of the tokens' means from the common mean are missing.",
        "m.mT - mu -> m.mT - m": "the distances of the means are taken from the token's own mean, not from the common one.",
        f"w @ var{_GAPS} -> w @ ((wide - mu) ** 2).mean(-1, keepdim=True)": "each token's distances are taken from the mean of its own trail. All those of a sum are taken from mu_t, the mean of the token that is normalized.",
        ".tril() -> .tril().triu()": "that is LayerNorm: the tokens before have no part in it.",
        "wide - mu -> wide - m": "the mean is the token's own. Every token is centered by the mean of its trail.",
        f"{_POWERS} -> (t[:, None] - t).abs() ; .tril() -> ": _FUTURE,
        f"{_POWERS} -> (t - t[:, None]).clamp(min=0) ; .tril() -> .triu()": f"{_FUTURE} Rows and columns are exchanged: t counts the rows, s the columns.",
        "self.decay ** -> 1.0 **": "the decay is not used: all tokens up to t have the same weight.",
        f"w = {_SHARES} -> w = w": "the weights of a row do not sum to 1. Divide by their sum.",
        "w.sum(-1, -> w.sum(0,": "the columns of the weights sum to 1. It is the rows that must: each token t divides by the sum over s.",
        f"{_POWERS} -> t.expand(len(t), -1)": "the weights run the wrong way: the oldest token has the largest.",
        ".clamp(min=0).to(wide.dtype)).tril() -> .to(wide.dtype)) * (t[:, None] >= t)": "0 to a negative power is inf, and 0 times inf is nan. Clamp the exponent, or cut the later tokens off with tril.",
        "self.decay ** -> 0.5 **": "the decay of the call is not used; the number 0.5 is written into the formula.",
        "correction=0, -> ": "the variance divides by D - 1. Say correction=0.",
        "torch.sqrt(v + self.eps) -> (torch.sqrt(v) + self.eps)": "eps is added to the standard deviation. It belongs under the root.",
        "torch.sqrt(v + self.eps) -> (v + self.eps)": "the root is missing: divide by the standard deviation, not by the variance.",
        "v + self.eps -> v + 1e-5": "the eps of the call is not used.",
        "v + self.eps -> v": "there is no eps under the root.",
        "torch.sqrt(v + self.eps) -> torch.sqrt(v + self.eps).detach()": "the standard deviation is cut off from the gradient.",
        _IN_FLOAT: _SEVEN_DIGITS,
        "y * self.weight + self.bias -> y": "gain and bias are registered and not used.",
        "y * self.weight + self.bias -> (y + self.bias) * self.weight": "the bias is added before the gain multiplies.",
    },
)
_TYPE_MISTAKES = known(
    _Trail,
    {
        f"{_WIDE} -> x": "everything is computed in x's dtype: in float16 the squares overflow. Convert x first, and back in the last step.",
        f"{_WIDE} -> x.float()": _SEVEN_DIGITS,
        f"{_IN_FLOAT}.to(wide.dtype)": _SEVEN_DIGITS,
        f"w @ var{_GAPS} -> w @ (wide * wide).mean(-1, keepdim=True) - mu**2": "E[x^2] - E[x]^2 loses its digits around 10,000. Subtract first, then square.",
    },
)


def trail_norm(answer):
    """Check a module TrailNorm(features, decay=0.5, eps=1e-5) on x (..., T, D) (lesson 14)."""
    stages = [(_TRAIL_PROBES, _TRAIL_MISTAKES), (_TYPE_PROBES, _TYPE_MISTAKES)]
    tried = "three decays, unlike tokens, more axes, small rows, an outlier, two calls, float64 around 100, float32 around 10,000, float16, gradients"
    in_stages(answer, "trail_norm", stages, _Trail, f"trail_norm does what it should on {{count}} inputs ({tried})")

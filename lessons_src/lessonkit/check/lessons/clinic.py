"""Checks of lesson 14: four repairs, tests that find the fault in unseen layers, and a norm from one page of formulas."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, YourTurn, call, draw, examine, filled, gradients, quiet, raised, reject

# ------------------------------------------------------------------------------------------- case 1: pixels


def _pixels(there=lambda x: x.movedim(1, -1), back=lambda y, shape: y.movedim(-1, 1), norm=None):
    """Return a per-pixel LayerNorm whose way to rows of channels, way back or norm is replaced."""

    def answer(x, weight, bias):
        rows = there(x)
        y = norm(rows, weight, bias) if norm else F.layer_norm(rows, (x.shape[1],), weight, bias)
        return back(y, x.shape)

    return answer


def _cut(x):
    return x.reshape(x.shape[0], -1, x.shape[1])


def _formula(correction=0, root=lambda var: torch.sqrt(var + 1e-5), axes=(1,), affine=lambda y, w, b: y * w + b):
    """Return LayerNorm written out for (B, C, H, W), with one part changed."""

    def answer(x, weight, bias):
        mean = x.mean(axes, keepdim=True)
        y = (x - mean) / root(x.var(axes, correction=correction, keepdim=True))
        return affine(y, weight.view(-1, 1, 1), bias.view(-1, 1, 1))

    return answer


def _image(seed, *shape, scale=1.0, mean=0.0):
    return draw(seed, *shape, scale=scale, mean=mean), draw(seed + 100, shape[1]), draw(seed + 200, shape[1])


_PIXEL_NAMES = ("x", "weight", "bias")
_PIXEL_PROBES = [
    call("images (2, 3, 4, 5)", *_image(1, 2, 3, 4, 5), names=_PIXEL_NAMES, tolerance=1e-7),
    call("square images (2, 5, 4, 4)", *_image(2, 2, 5, 4, 4), names=_PIXEL_NAMES, tolerance=1e-7),
    call(
        "images with as many channels as columns (2, 4, 3, 4)",
        *_image(3, 2, 4, 3, 4),
        names=_PIXEL_NAMES,
        tolerance=1e-7,
    ),
    call(
        "pixels of spread 0.001 around 2",
        *_image(4, 1, 6, 2, 3, scale=1e-3, mean=2.0),
        names=_PIXEL_NAMES,
        tolerance=1e-7,
    ),
    call(
        "float32 images (2, 3, 4, 5)", *[t.float() for t in _image(6, 2, 3, 4, 5)], names=_PIXEL_NAMES, tolerance=1e-5
    ),
    call("one pixel (3, 4, 1, 1)", *_image(5, 3, 4, 1, 1), names=_PIXEL_NAMES, tolerance=1e-7),
]

_VIEW = (
    "reshape cuts one long row of numbers into other pieces and moves nothing: C neighbors of one channel are still "
    "normalized together. To bring the channels to the end, move the axis (movedim, permute, transpose)."
)
_BACK = (
    "the channels are moved to the end and not moved back: a reshape at the end puts the numbers into the wrong places. "
    "Undo a move with a move."
)
_OTHER = "that is another norm: each pixel has a mean and a variance of its own, over its C channels."

_PIXEL_MISTAKES = [
    *[
        Mistake(_VIEW, f)
        for f in (
            _pixels(_cut, lambda y, s: y.reshape(s)),
            _pixels(lambda x: x.reshape(x.shape[0], *x.shape[2:], x.shape[1]), lambda y, s: y.reshape(s)),
        )
    ],
    Mistake(
        "the channels are cut out with reshape and put back with a move: now even the places are wrong. Both ways must move.",
        _pixels(lambda x: x.reshape(x.shape[0], *x.shape[2:], x.shape[1])),
    ),
    *[
        Mistake(_BACK, f)
        for f in (
            _pixels(back=lambda y, s: y.reshape(s)),
            _pixels(lambda x: x.flatten(2).mT, lambda y, s: y.reshape(s)),
        )
    ],
    *[
        Mistake("the axes come back in another order than they left: movedim(1, -1) is undone by movedim(-1, 1).", f)
        for f in (
            _pixels(back=lambda y, s: y.movedim(1, -1)),
            _pixels(back=lambda y, s: y.permute(0, 2, 3, 1)),
            _pixels(back=lambda y, s: y.transpose(1, -1)),
            _pixels(back=lambda y, s: y),
        )
    ],
    *[
        Mistake(_OTHER, f)
        for f in (
            lambda x, w, b: F.group_norm(x, 1, w, b),
            lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            _formula(axes=(-1,)),
            _formula(axes=(-2, -1)),
            _formula(axes=(0, 2, 3)),
            _formula(axes=(1, 2, 3)),
        )
    ],
    Mistake("the variance divides by C - 1. Say correction=0.", _formula(correction=1)),
    Mistake("eps is added to the deviation. It belongs under the root.", _formula(root=lambda v: v.sqrt() + 1e-5)),
    Mistake("there is no eps under the root.", _formula(root=lambda v: v.sqrt())),
    Mistake("gain and bias are left out.", _formula(affine=lambda y, w, b: y)),
    Mistake("the bias is added before the gain multiplies.", _formula(affine=lambda y, w, b: (y + b) * w)),
]


def repaired_pixels(answer):
    """Check a LayerNorm over the channels of each pixel: (B, C, H, W), weight (C,), bias (C,) -> (B, C, H, W) (lesson 14)."""
    examine(
        answer,
        "repaired_pixels",
        _PIXEL_PROBES,
        _pixels(),
        _PIXEL_MISTAKES,
        tried="square and other images, W = C, little spread, random gains, gradients",
    )


# ---------------------------------------------------------------------------------------- case 2: padding


def _norm(C, seed, **options):
    return filled(nn.LayerNorm(C, **options).double(), seed)


def _average(before=True, after=False, count=lambda y, m: m.sum(1), add=0, change=lambda y, m, norm: y):
    def answer(x, mask, norm):
        m = mask.unsqueeze(-1)
        y = norm(x * m if before else x)
        y = change(y, m, norm)
        return (y * m if after else y).sum(1) / count(y, m)

    return answer


_LONG = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)
_HOLES = torch.tensor([[0, 0, 1, 1, 1], [1, 0, 1, 0, 1]], dtype=torch.bool)

# A real token of zeros, and real tokens with an entry at their mean, where the norm gives the bias alone.
_WHOLE = torch.tensor(
    [[[4, 1, 7], [0, 0, 0], [0, 0, 0], [1, 2, 3], [5, 0, 1]], [[-1, 0, 1], [2, 2, 5], [0, 3, 0], [0, 0, 0], [6, 4, 2]]]
).double()

_AVERAGE_NAMES = ("x", "mask", "norm")
_AVERAGE_PROBES = [  # 1e-6 also in float64: mask / mask.sum() is float32, and a right weight all the same
    call(
        "sentences of 3, 7 and 1 tokens", draw(21, 3, 7, 4), _LONG, _norm(4, 31), names=_AVERAGE_NAMES, tolerance=1e-6
    ),
    call(
        "sentences with zeros for padding",
        draw(22, 3, 7, 4) * _LONG.unsqueeze(-1),
        _LONG,
        _norm(4, 33),
        names=_AVERAGE_NAMES,
        tolerance=1e-6,
    ),
    call(
        "a norm as it is created",
        draw(23, 3, 7, 5),
        _LONG,
        nn.LayerNorm(5).double(),
        names=_AVERAGE_NAMES,
        tolerance=1e-6,
    ),
    call(
        "padding in front and in between", draw(24, 2, 5, 6), _HOLES, _norm(6, 35), names=_AVERAGE_NAMES, tolerance=1e-6
    ),
    call(
        "no padding",
        draw(25, 2, 5, 4),
        torch.ones(2, 5, dtype=torch.bool),
        _norm(4, 37),
        names=_AVERAGE_NAMES,
        tolerance=1e-6,
    ),
    call(
        "a norm without bias", draw(26, 3, 7, 4), _LONG, _norm(4, 39, bias=False), names=_AVERAGE_NAMES, tolerance=1e-6
    ),
    call(
        "tokens of whole numbers, zeros among them", _WHOLE, _HOLES, _norm(3, 43), names=_AVERAGE_NAMES, tolerance=1e-6
    ),
    call(
        "float32 tokens", draw(27, 3, 7, 4).float(), _LONG, _norm(4, 41).float(), names=_AVERAGE_NAMES, tolerance=1e-5
    ),
]


def _fresh(run):
    """Give every answer a norm of its own: one that sets a bias to 0 must not spoil the probe for the next."""
    return lambda answer: run(lambda x, mask, norm: answer(x, mask, deepcopy(norm)))


_AVERAGE_PROBES = [
    replace(probe, run=_fresh(probe.run), elsewhere=None) for probe in _AVERAGE_PROBES
]  # the norm stays on the CPU

_T = lambda y, m: y.shape[1]  # noqa: E731
_AVERAGE_MISTAKES = [
    Mistake(
        "the padding is set to 0 before the norm, and the norm turns 0 into its bias. Nothing may come between the mask and the sum.",
        _average(),
    ),
    *[
        Mistake("the sum is divided by the padded length. Divide by the number of real tokens.", f)
        for f in (
            _average(before=False, after=True, count=_T),
            _average(after=True, count=_T),
            _average(count=_T),
            _average(before=False, count=_T),
        )
    ],
    Mistake("the padding is not masked at all, and goes into the sum.", _average(before=False)),
    *[
        Mistake("the bias is taken away from the real tokens, too. Only the padding has to go.", f)
        for f in (
            _average(change=lambda y, m, norm: y if getattr(norm, "bias", None) is None else y - norm.bias),
            _average(after=True, change=lambda y, m, norm: y if getattr(norm, "bias", None) is None else y - norm.bias),
        )
    ],
    Mistake(
        "the mask is the wrong way round: True marks a real token.",
        lambda x, mask, norm: (norm(x) * ~mask.unsqueeze(-1)).sum(1) / (~mask).sum(1, keepdim=True),
    ),
    *[
        Mistake(
            "the padding is told by its zeros. A real token may hold zeros, and padding other numbers: the mask says which is which.",
            f,
        )
        for f in (
            lambda x, mask, norm: (norm(x) * (x != 0)).sum(1) / mask.sum(1, keepdim=True),
            lambda x, mask, norm: (norm(x) * (x != 0).any(-1, keepdim=True)).sum(1) / mask.sum(1, keepdim=True),
            lambda x, mask, norm: (
                (norm(x * mask.unsqueeze(-1)) * (x * mask.unsqueeze(-1) != 0).any(-1, keepdim=True)).sum(1)
                / mask.sum(1, keepdim=True)
            ),
        )
    ],
    Mistake(
        "the first tokens are taken for the real ones. The mask may have its gaps anywhere.",
        lambda x, mask, norm: torch.stack([norm(row[: int(n)]).mean(0) for row, n in zip(x, mask.sum(1), strict=True)]),
    ),
    Mistake(
        "the sum is divided by the longest sentence's number of tokens. Every sentence has its own.",
        lambda x, mask, norm: (norm(x) * mask.unsqueeze(-1)).sum(1) / mask.sum(1).max(),
    ),
    Mistake(
        "the average is taken over the real tokens of all sentences together. Every sentence has its own.",
        lambda x, mask, norm: norm(x)[mask].mean(0).expand(len(x), -1),
    ),
    Mistake(
        "the norm comes after the average. Each token is to be normalized by itself, then averaged.",
        lambda x, mask, norm: norm((x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)),
    ),
    Mistake(
        "the norm is gone. Each token is to be normalized by itself, then averaged.",
        lambda x, mask, norm: (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True),
    ),
    Mistake(
        "that is the sum. Divide it by the number of real tokens.",
        lambda x, mask, norm: (norm(x) * mask.unsqueeze(-1)).sum(1),
    ),
    Mistake(
        "one number of tokens is used for all sentences. Every sentence has its own.",
        lambda x, mask, norm: (norm(x) * mask.unsqueeze(-1)).sum(1) / (mask.sum() / len(mask)),
    ),
]


def repaired_average(answer):
    """Check the average of the real tokens behind a norm: x (B, T, C), mask (B, T) bool, norm -> (B, C) (lesson 14)."""
    examine(
        answer,
        "repaired_average",
        _AVERAGE_PROBES,
        _average(before=False, after=True),
        _AVERAGE_MISTAKES,
        tried="new and trained norms, padding behind, in front and in between, of zeros and of other numbers, gradients",
    )


# ------------------------------------------------------------------------------------- case 3: initialization


class _OwnNorm(nn.Module):
    """A norm that is no class of PyTorch's."""

    def __init__(self, D):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


def _model():
    """A model with five kinds of norms, for initialization only."""
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(50, 40),
            "norm1": nn.LayerNorm(40),
            "up": nn.Linear(40, 80),
            "scale": _OwnNorm(80),
            "down": nn.Linear(80, 40),
            "image_norm": nn.LayerNorm((8, 5)),
            "rms": nn.RMSNorm(40),
            "deep": nn.Sequential(nn.Linear(40, 60, bias=False), nn.ReLU(), nn.GroupNorm(4, 60)),
            "head": nn.Linear(40, 50),
        }
    )
    with torch.no_grad():
        model["up"].bias.fill_(0.3)  # what was there before must be gone
        model["rms"].weight.fill_(0.5)  # and what was made so must stay
    return model


def _described(parameter):
    p = parameter.detach()
    if not parameter.requires_grad:
        return "without requires_grad"
    if (p == p.flatten()[0]).all():
        return f"all {p.flatten()[0].item() + 0.0:.4g}"  # + 0.0: -0 is 0
    return f"random, mean {p.mean().item():.2f}, deviation {p.std().item():.3f}"


def _near(parameter):
    """As _described, but with 0.02 in words where it is met: 2,000 numbers have their deviation within 7 %."""
    p = parameter.detach()
    normal = (
        abs(p.std() / 0.02 - 1) < 0.07 and abs(p.mean()) < 0.0025 and p.abs().max() > 0.05
    )  # a uniform one ends at 0.035
    return "random, mean 0, deviation 0.02" if normal and parameter.requires_grad else _described(parameter)


def _initialized(*only):
    def run(answer):
        torch.manual_seed(14)
        model = _model()
        answer(model)
        seen = {name: _near(p) if p.numel() >= 2000 else _described(p) for name, p in model.named_parameters()}
        return {name: text for name, text in seen.items() if not only or name.partition(".")[0] in only}

    return run


_INIT_PROBES = [
    Probe("the Linear and Embedding layers", _initialized("embedding", "up", "down", "head")),
    Probe("the norms of one axis", _initialized("norm1", "scale", "rms", "deep")),
    Probe("a norm over two axes", _initialized("image_norm")),
    Probe("the whole model", _initialized()),
]


def _init(kinds=(nn.Linear, nn.Embedding), std=0.02, biases=True, every=None, uniform=False):
    def answer(model):
        for p in model.parameters() if every else ():
            every(p)
        for module in model.modules():
            if isinstance(module, kinds):
                if uniform:
                    nn.init.uniform_(module.weight, -std, std)
                else:
                    nn.init.normal_(module.weight, std=std)
                if biases and getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)

    return answer


def _by(rule):
    """Return an init that treats every parameter by itself: rule(name, parameter)."""

    def answer(model):
        for name, p in model.named_parameters():
            rule(name, p)

    return answer


_normal = lambda p: nn.init.normal_(p, std=0.02)  # noqa: E731
_MATRICES = (
    "a gain over two axes is a matrix, too: the rule p.dim() > 1 takes it for a weight. Ask which layer a parameter "
    "belongs to, not how many axes it has."
)
_LISTED = "your rule knows some classes of norms, and this model has others. List the layers that you do change."
_INIT_MISTAKES = [
    Mistake("every parameter is drawn, the gains and biases of the norms too.", _by(lambda n, p: _normal(p))),
    *[
        Mistake(_MATRICES, f)
        for f in (
            _by(lambda n, p: _normal(p) if p.dim() > 1 else nn.init.zeros_(p) if n.endswith("bias") else None),
            _by(
                lambda n, p: (
                    _normal(p) if p.dim() > 1 else nn.init.zeros_(p) if n.endswith("bias") else nn.init.ones_(p)
                )
            ),
        )
    ],
    Mistake("the biases of the Linear layers keep what was in them. They are to be 0.", _init(biases=False)),
    Mistake(
        "the Embedding keeps its own initialization, with deviation 1. It is to have 0.02 as well.",
        _init(kinds=nn.Linear),
    ),
    Mistake(
        "with p.dim() > 1 as the rule, no bias is touched, and gains over two axes are drawn.",
        _by(lambda n, p: _normal(p) if p.dim() > 1 else None),
    ),
    Mistake(
        "one-dimensional parameters are set to 0, and the gains of the norms are among them.",
        _by(lambda n, p: _normal(p) if p.dim() > 1 else nn.init.zeros_(p)),
    ),
    Mistake(
        "the gains are set to 0: such a norm answers every row with its bias.",
        _by(lambda n, p: _normal(p) if p.dim() > 1 and "norm" not in n else nn.init.zeros_(p)),
    ),
    Mistake("0.02 is the deviation (std), not the variance.", _init(std=0.02**0.5)),
    Mistake(
        "that is a uniform distribution between -0.02 and 0.02. Its deviation is 0.02 / sqrt(3).", _init(uniform=True)
    ),
]


def _restoring(classes):
    def answer(model):
        for p in model.parameters():
            _normal(p)
        for module in model.modules():
            if isinstance(module, classes):
                nn.init.ones_(module.weight)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    return answer


def _sparing(classes):
    def answer(model):
        for module in model.modules():
            if isinstance(module, classes):
                continue
            for name, p in module.named_parameters(recurse=False):
                nn.init.zeros_(p) if name == "bias" else _normal(p)

    return answer


_INIT_MISTAKES += [
    Mistake(_LISTED, make(kinds))
    for make in (_restoring, _sparing)
    for kinds in (
        nn.LayerNorm,
        (nn.LayerNorm, nn.RMSNorm),
        (nn.LayerNorm, nn.GroupNorm),
        (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm),
    )
]


def repaired_init(answer):
    """Check an initialization of a model in place that leaves the norms alone (lesson 14)."""
    examine(
        answer,
        "repaired_init",
        _INIT_PROBES,
        _init(),
        _INIT_MISTAKES,
        tried="Linear and Embedding layers, and norms of four classes",
    )


# ----------------------------------------------------------------------------------------------- case 4: block


class _Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def _forward(function):
    return type("Block", (_Block,), {"forward": function})


def _with_block(label, *, silent=False, scale=1.0, seed=41):
    """Return a Probe that gives a block fixed random parameters, runs it, and looks at output and gradients.

    silent: whether all Linear layers are 0, so that both branches are.
    """
    x = scale * draw(seed, 2, 3, 4)

    def run(cls):
        try:
            block = cls(4).double()
        except Exception as error:
            return {"the block": raised(error)}
        fixed = _Block(4).double()
        state = {name: draw(seed + 50 + n, *p.shape) for n, (name, p) in enumerate(fixed.state_dict().items())}
        if silent:
            state = {name: p if "norm" in name else 0 * p for name, p in state.items()}
        try:
            block.load_state_dict(state)
            leaf = x.clone().requires_grad_()
            copy = leaf.clone()
            y = block(copy)
        except Exception as error:
            return {"the output": raised(error)}
        seen = {"x after the call": copy.detach(), "the output": y}
        if not isinstance(y, torch.Tensor) or y.shape != x.shape:
            return seen
        leaves = {"x": leaf, **({} if silent else dict(block.named_parameters()))}
        return seen | gradients((y * draw(seed + 90, *y.shape)).sum(), leaves)

    return Probe(label, run, {"x": x})


_BLOCK_PROBES = [
    _with_block("a block whose branches are silent (all Linear layers 0)", silent=True),
    _with_block("a block with random parameters"),
    _with_block("a stream of rms 10", scale=10.0, seed=43),
    _with_block("a stream of rms 0.001", scale=1e-3, seed=45),
]


def _first_only(s, x):
    x = x + s.mix(s.norm1(x))
    x = s.norm2(x)
    return x + s.mlp(x)


def _second_only(s, x):
    x = s.norm1(x)
    x = x + s.mix(x)
    return x + s.mlp(s.norm2(x))


def _patient(s, x):
    x = s.norm1(x)
    x = x + s.mix(x)
    x = s.norm2(x)
    return x + s.mlp(x)


def _post(s, x):
    x = s.norm1(x + s.mix(x))
    return s.norm2(x + s.mlp(x))


def _from_start(s, x):
    y = x + s.mix(s.norm1(x))
    return x + s.mlp(s.norm2(y))


def _twice(s, x):
    y = s.norm1(x)
    y = x + y + s.mix(y)
    z = s.norm2(y)
    return y + z + s.mlp(z)


def _no_norm_in_the_branch(s, x):
    return x + s.mix(x) + s.mlp(x + s.mix(x))


_BLOCK_MISTAKES = [
    Mistake("the name x is overwritten by its normalized self before the sum, in both branches.", _forward(_patient)),
    Mistake(
        "the first half is mended; in the second x is still overwritten by its normalized self.", _forward(_first_only)
    ),
    Mistake(
        "the second half is mended; in the first x is still overwritten by its normalized self.", _forward(_second_only)
    ),
    Mistake(
        "that is Post-LN: the norms stand behind the sums, on the stream itself. In Pre-LN they stand inside the branches.",
        _forward(_post),
    ),
    Mistake(
        "the second branch is added to the input of the block: what the first branch wrote is lost.",
        _forward(_from_start),
    ),
    Mistake(
        "the normalized row is added to the stream besides the branch: three terms, where Pre-LN has two.",
        _forward(_twice),
    ),
    Mistake(
        "the norms are gone. In Pre-LN each branch reads the stream through its norm.", _forward(_no_norm_in_the_branch)
    ),
    Mistake(
        "norm1 is used in both branches. The second has a norm of its own, norm2.",
        _forward(lambda s, x: (y := x + s.mix(s.norm1(x))) + s.mlp(s.norm1(y))),
    ),
    Mistake(
        "the norms are exchanged: norm1 belongs to mix, norm2 to mlp.",
        _forward(lambda s, x: (y := x + s.mix(s.norm2(x))) + s.mlp(s.norm1(y))),
    ),
    Mistake(
        "both branches read the input of the block. mlp is to read the stream after mix has written to it.",
        _forward(lambda s, x: x + s.mix(s.norm1(x)) + s.mlp(s.norm2(x))),
    ),
    Mistake(
        "norm2 is not used: mlp reads the stream as it is.",
        _forward(lambda s, x: (y := x + s.mix(s.norm1(x))) + s.mlp(y)),
    ),
    Mistake(
        "norm1 is not used: mix reads the stream as it is.",
        _forward(lambda s, x: (y := x + s.mix(x)) + s.mlp(s.norm2(y))),
    ),
    Mistake(
        "mlp comes first. It is to read the stream after mix has written to it.",
        _forward(lambda s, x: (y := x + s.mlp(s.norm2(x))) + s.mix(s.norm1(y))),
    ),
    *[
        Mistake(
            "there is a norm on the stream itself, at the end. With silent branches x must come out as it went in.", f
        )
        for f in (
            _forward(lambda s, x: s.norm2(_Block.forward(s, x))),
            _forward(lambda s, x: s.norm1(_Block.forward(s, x))),
        )
    ],
    Mistake(
        "there are norms on both sides of the branches (lesson 12's Peri-LN, with shared norms). Pre-LN has them in front only.",
        _forward(lambda s, x: (y := x + s.norm1(s.mix(s.norm1(x)))) + s.norm2(s.mlp(s.norm2(y)))),
    ),
    Mistake(
        "x is added to what the patient makes: its sums still add to the normalized x.",
        _forward(lambda s, x: x + _patient(s, x)),
    ),
    Mistake(
        "the norms stand behind the branches: LN(mix(x)). In Pre-LN they stand in front: mix(LN(x)).",
        _forward(lambda s, x: (y := x + s.norm1(s.mix(x))) + s.norm2(s.mlp(y))),
    ),
    Mistake(
        "the stream is not added: without x + … nothing passes when a branch is silent.",
        _forward(lambda s, x: s.mlp(s.norm2(s.mix(s.norm1(x))))),
    ),
]


def repaired_block(answer):
    """Check a Pre-LN block of two branches, built as RepairedBlock(D) (lesson 14)."""
    examine(
        answer,
        "repaired_block",
        _BLOCK_PROBES,
        _Block,
        _BLOCK_MISTAKES,
        kind="class",
        tried="silent branches, random parameters, streams of three sizes, gradients",
    )


# --------------------------------------------------------------------------------------- the ten tests


class _Layer(nn.Module):
    """A right LayerNorm in parts, so that a held-back layer replaces one."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.axes = eps, tuple(range(-len(self.sizes), 0))
        self.register_parameter("weight", nn.Parameter(torch.ones(self.sizes)) if elementwise_affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(self.sizes)) if elementwise_affine and bias else None)

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.scale(self.normalize(wide)).to(x.dtype)

    def normalize(self, x):
        return (x - self.mean(x)) / torch.sqrt(self.var(x) + self.eps)

    def mean(self, x):
        return x.mean(self.axes, keepdim=True)

    def var(self, x):
        return x.var(self.axes, correction=0, keepdim=True)

    def scale(self, y):
        y = y if self.weight is None else y * self.weight
        return y if self.bias is None else y + self.bias


class _Running(_Layer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("kept", torch.ones(()))

    def var(self, x):
        var = super().var(x)
        if self.training:
            self.kept = 0.9 * self.kept + 0.1 * var.mean().detach()
        return var if self.training else self.kept


class _Counting(_Layer):
    """Its eps grows with every call."""

    def forward(self, x):
        y = super().forward(x)
        self.eps *= 1.5
        return y


class _Remembering(_Layer):
    """Its variance leans towards that of the call before: the same rows twice in a row do not show it."""

    last = None

    def var(self, x):
        var = super().var(x)
        level = var.detach().mean()
        moved = 0.1 * (level if self.last is None else self.last) - 0.1 * level
        self.last = level
        return (var + moved).clamp(min=0)


class _PlainGain(_Layer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.weight is not None:
            del self.weight
            self.weight = torch.ones(self.sizes)


class _Frozen(_Layer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requires_grad_(False)


class _GainOutside(torch.autograd.Function):
    """LayerNorm whose backward takes the gain out of the means."""

    @staticmethod
    def forward(ctx, x, weight, bias, axes, eps):
        mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        x_hat = (x - mean) * rstd
        ctx.save_for_backward(x_hat, rstd, weight)
        ctx.axes = axes
        return x_hat * weight + bias

    @staticmethod
    def backward(ctx, dy):
        x_hat, rstd, weight = ctx.saved_tensors
        m = lambda t: t.mean(ctx.axes, keepdim=True)  # noqa: E731
        front = tuple(range(dy.dim() - weight.dim()))
        return weight * rstd * (dy - m(dy) - x_hat * m(dy * x_hat)), (dy * x_hat).sum(front), dy.sum(front), None, None


def _held(**methods):
    return type("HeldBack", (_Layer,), methods)


def _hand_written(self, x):
    if self.weight is None:
        return _Layer.forward(self, x)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    parameters = (p.to(wide.dtype) for p in (self.weight, self.bias))
    return _GainOutside.apply(wide, *parameters, self.axes, self.eps).to(x.dtype)


def _no_grad_statistics(self, x):
    with torch.no_grad():
        mean, var = self.mean(x), self.var(x)
    return (x - mean) / torch.sqrt(var + self.eps)


def _overwriting(self, x):
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    x -= self.mean(x)
    return self.scale(x / torch.sqrt(self.var(x) + self.eps)).to(x.dtype)


def _all_but_first(x):
    return tuple(range(1, x.dim()))


# name -> (class, tests of which one must be the first to fail)
_HELD_BACK = {
    "that takes E[x^2] - E[x]^2 and clamps it at 0": (
        _held(var=lambda s, x: (x.square().mean(s.axes, keepdim=True) - s.mean(x).square()).clamp(min=0)),
        {"offset"},
    ),
    "that takes the mean of (x - mean) * x for the variance": (
        _held(
            var=lambda s, x: (x.square().mean(s.axes, keepdim=True) - s.mean(x) * x.mean(s.axes, keepdim=True)).abs()
        ),
        {"offset"},
    ),
    "that treats the mean as a constant in the backward pass": (
        _held(mean=lambda s, x: _Layer.mean(s, x).detach()),
        {"gradient"},
    ),
    "that treats both statistics as constants in the backward pass": (
        _held(normalize=_no_grad_statistics),
        {"gradient"},
    ),
    "whose hand-written backward pass takes the gain out of the means": (_held(forward=_hand_written), {"gradient"}),
    "that overwrites its input": (_held(forward=_overwriting), {"again", "gradient"}),
    "that keeps a running variance for eval()": (_Running, {"again"}),
    "whose eps grows with every call": (_Counting, {"again"}),
    "that remembers the rows of the call before": (_Remembering, {"again"}),
    "that divides by D - 1": (_held(var=lambda s, x: x.var(s.axes, keepdim=True)), {"rows"}),
    "with eps outside the root": (_held(normalize=lambda s, x: (x - s.mean(x)) / (s.var(x).sqrt() + s.eps)), {"rows"}),
    "that normalizes over all axes but the first": (
        _held(
            mean=lambda s, x: x.mean(_all_but_first(x), keepdim=True),
            var=lambda s, x: x.var(_all_but_first(x), correction=0, keepdim=True),
        ),
        {"axes"},
    ),
    "whose gain is a plain tensor": (_PlainGain, {"names"}),
    "whose parameters need no gradient": (_Frozen, {"names"}),
    "that squares in half precision": (_held(forward=lambda s, x: s.scale(s.normalize(x))), {"half"}),
    "that takes a root, and squares it again": (
        _held(normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x).sqrt() ** 2 + s.eps)),
        {"constant"},
    ),
    "that does not use the eps it is given": (
        _held(normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x) + 1e-5)),
        {"options"},
    ),
    "that needs its input in one piece of memory": (
        _held(forward=lambda s, x: _Layer.forward(s, x.view(-1, *s.sizes)).view(x.shape)),
        {"layout"},
    ),
}


def _centered_twice(self, x):
    x = x - self.mean(x)
    x = x - self.mean(x)
    return x * torch.rsqrt(x.square().mean(self.axes, keepdim=True) + self.eps)


_SOUND = {
    "nn.LayerNorm": nn.LayerNorm,
    "the eight lines of lesson 4": _Layer,
    "a LayerNorm that centers twice": _held(normalize=_centered_twice),
}

_WHAT_FOR = {
    "offset": "which rows show that a variance is the difference of two large numbers?",
    "gradient": "compare the gradients of x, with random gains (trial sets them) and a random gradient from above.",
    "again": "look at the input after the call, and at the answer to the same rows after another call, and in eval().",
}


def first_fault(answer):
    """Check a function class -> name of the first of ten tests that it fails, or None, on layers held back (lesson 14)."""
    if answer is ... or not callable(answer) or isinstance(answer, type):
        reject("check.first_fault takes the function first_fault itself, without brackets.")
    for name, layer in _SOUND.items():
        found = _verdict(answer, layer)
        if found is not None:
            reject(
                f"{name} is right, and {_named(found)}.",
                "A tolerance too small? PyTorch itself is off by 0.002 at offset 10,000. Or an error in the test: "
                f"run {found}(nn.LayerNorm) to see it."
                if isinstance(found, str) and found in _WHAT_FOR
                else None,
            )
    for what, (layer, wanted) in _HELD_BACK.items():
        found = _verdict(answer, layer)
        if found is None:
            which = next(iter(sorted(wanted)))
            reject(
                f"A layer was held back {what}: it passes all ten tests.",
                f"The test {which!r} should find it: {_WHAT_FOR[which]}" if which in _WHAT_FOR else None,
            )
        if found not in wanted:
            reject(
                f"A layer was held back {what}: {_named(found)}, expected {' or '.join(map(repr, sorted(wanted)))} to be the first.",
                "Tests that come before it are too strict, or the order has changed.",
            )
    print(
        f"Right: your ten tests pass {len(_SOUND)} sound layers, and find the fault in {len(_HELD_BACK)} that were held back."
    )


def _verdict(answer, layer):
    with quiet():
        try:
            return answer(layer)
        except YourTurn:
            raise
        except (Exception, SystemExit) as error:
            return raised(error)


def _named(found):
    if isinstance(found, str):
        return f"your test {found!r} refuses it"
    if hasattr(found, "kind"):
        return f"first_fault raised {found.kind.__name__}{f': {found.text}' if found.text else ''}"
    return f"first_fault returned {found!r}"


# ------------------------------------------------------------------------------------------ the project: TrailNorm


def _weights(T, decay, like):
    t = torch.arange(T)
    W = torch.tensor([[decay ** int(i - j) if j <= i else 0.0 for j in t] for i in t], dtype=torch.float64)
    return (W / W.sum(-1, keepdim=True)).to(like)


class _Trail(nn.Module):
    """The specification, in parts."""

    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        W = self.W(x.shape[-2], wide)
        mean, var = self.mean(W, wide), self.var(W, wide)
        return (self.divide(wide, mean, var) * self.weight + self.bias).to(x.dtype)

    def W(self, T, like):
        return _weights(T, self.decay, like)

    def mean(self, W, x):
        return W @ x.mean(-1, keepdim=True)

    def var(self, W, x):
        gap = x.mean(-1, keepdim=True).mT - self.mean(W, x)  # (..., T, T)
        return W @ x.var(-1, correction=0, keepdim=True) + (W * gap**2).sum(-1, keepdim=True)

    def divide(self, x, mean, var):
        return (x - mean) / torch.sqrt(var + self.eps)


def _trail(**methods):
    return type("Trail", (_Trail,), methods)


def _with_trail(label, x, decay=0.5, eps=1e-5, tolerance=1e-6, fresh=False, gradient=True):
    D = x.shape[-1]

    def run(cls):
        try:
            layer = cls(D, decay, eps)
        except Exception as error:
            return {"TrailNorm(features, decay, eps)": raised(error)}
        found = {
            n: (tuple(p.shape), bool((p == p.flatten()[0]).all()) and p.flatten()[0].item())
            for n, p in layer.named_parameters()
        }
        if fresh or set(found) != {"weight", "bias"} or any(shape != (D,) for shape, _ in found.values()):
            return {
                "its parameters (shape, first value)": ", ".join(
                    f"{n}: {s}, {v:g}" for n, (s, v) in sorted(found.items())
                )
                or "none"
            }
        layer = layer.to(x.dtype)
        with torch.no_grad():
            layer.weight.copy_(draw(71, D)), layer.bias.copy_(draw(72, D))
        leaf = x.clone().requires_grad_()
        copy = leaf.clone()
        try:
            y = layer(copy)
        except Exception as error:
            return {"the output": raised(error)}
        seen = {"x after the call": copy.detach(), "the output": y}
        if not gradient or not isinstance(y, torch.Tensor) or y.shape != x.shape or y.dtype != x.dtype:
            return seen
        leaves = {"x": leaf, "weight": layer.weight, "bias": layer.bias}
        return seen | gradients((y * draw(73, *y.shape).to(y.dtype)).sum(), leaves)

    return Probe(label, run, {"x": x, "decay": decay, "eps": eps}, tolerance)


def _digits_kept(cls):
    """Whether float64 comes out in float64: x in float32 is off by 4e-6 at 100, float32 weights move the mean as far."""
    x = 100 + draw(69, 2, 6, 5)
    try:
        off = (cls(5).double()(x) - _Trail(5).double()(x)).abs().max().item()
    except Exception as error:
        return {"the output": raised(error)}
    return {
        "the output": "exact to 1e-8"
        if off < 1e-8
        else "exact to float32's seven digits only"
        if off < 1e-3
        else "wrong"
    }


_unlike = draw(61, 2, 6, 5) * torch.tensor([1.0, 3.0, 0.2, 1.0, 5.0, 0.5]).view(6, 1) + draw(62, 2, 6, 1)
_WORKED = torch.tensor([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
_TRAIL_PROBES = [
    _with_trail("a new layer", draw(60, 2, 3, 4), fresh=True),
    _with_trail("decay 0, which is LayerNorm", _unlike, decay=0.0),
    _with_trail("the worked example", _WORKED, decay=1.0),
    _with_trail("tokens of unlike mean and spread (2, 6, 5)", _unlike),
    _with_trail("decay 1", _unlike, decay=1.0),
    _with_trail("more axes in front (2, 3, 4, 5)", draw(63, 2, 3, 4, 5), decay=0.25),
    _with_trail("one sequence of one token", draw(64, 1, 5)),
    _with_trail("tokens of spread 0.001", 1e-3 * draw(65, 2, 4, 5)),
    _with_trail("eps = 0.1", draw(66, 2, 4, 5), eps=0.1),
    # The mean is rounded by 0.0005 at 10,000: 0.02 as in lesson 4. One pass is off by 1 and more.
    _with_trail("float32 tokens around 10,000", (10_000 + draw(67, 2, 4, 64)).float(), tolerance=0.02, gradient=False),
    Probe("float64 tokens around 100", _digits_kept),
    _with_trail(
        "float16 tokens of spread 600",
        600 * draw(68, 2, 4, 5).half().double().clamp(-60, 60).half(),
        tolerance=0.01,
        gradient=False,
    ),
]


def _flat(W, x, square):
    """One-pass moments of the trail."""
    return W @ (x * x if square else x).mean(-1, keepdim=True)


def _in_its_dtype(self, x):
    W = self.W(x.shape[-2], x)
    return self.divide(x, self.mean(W, x), self.var(W, x)) * self.weight + self.bias


def _reversed(self, T, like):
    W = _weights(T, self.decay, like).flip(-1)
    rows = [torch.cat([W[t, T - t - 1 :], W.new_zeros(T - t - 1)]) for t in range(T)]
    return torch.stack(rows)


def _both_sides(self, T, like):
    t = torch.arange(T)
    W = self.decay ** (t[:, None] - t).abs().to(torch.float64)
    return (W / W.sum(-1, keepdim=True)).to(like)


def _not_one(self, T, like):
    t = torch.arange(T)
    return (self.decay ** (t[:, None] - t).clamp(min=0).to(torch.float64)).tril().to(like)


def _everything(self, T, like):
    return like.new_full((T, T), 1 / T)


_TRAIL_MISTAKES = [
    Mistake(
        "the mean of the variances is not the variance of the whole (lesson 6): the distances of the tokens' means from the common "
        "mean are missing.",
        _trail(var=lambda s, W, x: W @ x.var(-1, correction=0, keepdim=True)),
    ),
    Mistake(
        "the distances of the means are taken from the token's own mean, not from the common one.",
        _trail(
            var=lambda s, W, x: (
                W @ x.var(-1, correction=0, keepdim=True)
                + (W * (x.mean(-1, keepdim=True).mT - x.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True)
            )
        ),
    ),
    Mistake(
        "that is LayerNorm: the tokens before have no part in it.", _trail(W=lambda s, T, like: torch.eye(T).to(like))
    ),
    Mistake(
        "the mean is the token's own. Every token is centered by the mean of its trail.",
        _trail(divide=lambda s, x, m, v: (x - x.mean(-1, keepdim=True)) / torch.sqrt(v + s.eps)),
    ),
    Mistake("later tokens have weight, too: the future leaks. Only s <= t counts.", _trail(W=_both_sides)),
    Mistake(
        "all tokens have the same weight, later ones too: the future leaks, and the decay is not used.",
        _trail(W=_everything),
    ),
    Mistake("the weights of a row do not sum to 1. Divide by their sum.", _trail(W=_not_one)),
    Mistake("the weights run the wrong way: the oldest token has the largest.", _trail(W=_reversed)),
    Mistake(
        "the decay of the call is not used; the number 0.5 is written into the formula.",
        _trail(W=lambda s, T, like: _weights(T, 0.5, like)),
    ),
    Mistake(
        "the variance divides by D - 1. Say correction=0.",
        _trail(
            var=lambda s, W, x: (
                W @ x.var(-1, keepdim=True)
                + (W * (x.mean(-1, keepdim=True).mT - s.mean(W, x)) ** 2).sum(-1, keepdim=True)
            )
        ),
    ),
    Mistake(
        "eps is added to the deviation. It belongs under the root.",
        _trail(divide=lambda s, x, m, v: (x - m) / (v.sqrt() + s.eps)),
    ),
    Mistake("the eps of the call is not used.", _trail(divide=lambda s, x, m, v: (x - m) / torch.sqrt(v + 1e-5))),
    Mistake(
        "gain and bias are registered and not used.",
        _trail(forward=lambda s, x: s.divide(x, s.mean(s.W(x.shape[-2], x), x), s.var(s.W(x.shape[-2], x), x))),
    ),
    Mistake(
        "everything is computed in x's dtype: in float16 the squares overflow. Convert x first, and back in the last step.",
        _trail(forward=_in_its_dtype),
    ),
    *[
        Mistake(
            "float64 tokens are computed in float32, or weighted by float32 weights. Build the weights in the type that you compute in.",
            f,
        )
        for f in (
            _trail(forward=lambda s, x: _Trail.forward(s, x.float()).to(x.dtype)),
            _trail(W=lambda s, T, like: _Trail.W(s, T, like.float()).to(like)),
            _trail(W=lambda s, T, like: (lambda w: w / w.sum(-1, keepdim=True))(_not_one(s, T, like.float())).to(like)),
        )
    ],
    Mistake(
        "E[x^2] - E[x]^2 loses its digits around 10,000. Subtract first, then square.",
        _trail(var=lambda s, W, x: _flat(W, x, True) - _flat(W, x, False) ** 2),
    ),
]


def trail_norm(answer):
    """Check a module TrailNorm(features, decay=0.5, eps=1e-5) on x (..., T, D) (lesson 14)."""
    examine(
        answer,
        "trail_norm",
        _TRAIL_PROBES,
        _Trail,
        _TRAIL_MISTAKES,
        kind="class",
        tried="three decays, unlike tokens, more axes, little spread, float64 around 100, float32 around 10,000, float16, gradients",
    )

"""Checks of lesson 14."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import (
    Probe,
    call_layer,
    draw,
    exercise,
    in_float64,
    instead,
    judging,
    misconceptions,
    numbers,
    of_a_layer,
)


def _created(label, make):
    """Return a Probe: the parameters of a new layer, with their shapes, and their value if it is one."""

    def described(name, p):
        values = p.detach().unique().tolist()
        return f"{name} {tuple(p.shape)}{f' of {values[0]:g}' if len(values) == 1 else ''}"

    def run(cls):
        parameters = sorted(make(cls).named_parameters())
        return {"its parameters": ", ".join(described(*each) for each in parameters) or "none"}

    return Probe(label, run)


# ---- case 1: pixels
def _pixels(x, weight, bias):
    moved = x.movedim(1, -1)
    mean = moved.mean(-1, keepdim=True)
    var = moved.var(-1, correction=0, keepdim=True)
    deviation = torch.sqrt(var + 1e-5)
    x_hat = (moved - mean) / deviation
    normed = x_hat * weight + bias
    return normed.movedim(-1, 1)


def _by_layer_norm(x, weight, bias):  # whose rounding is allowed as well
    return F.layer_norm(x.movedim(1, -1), weight.shape, weight, bias).movedim(-1, 1)


repaired_pixels = exercise(
    _pixels,
    ("images (2, 3, 4, 5)", draw(1, 2, 3, 4, 5), draw(100, 3), draw(200, 3)),
    ("images of as many channels as columns", draw(3, 2, 4, 3, 4), draw(100, 4), draw(200, 4)),
    # float32 resolves 100 to 8e-6, two passes lose no more; one pass loses 1e4 times 2^-24 of the variance
    (
        "float32 pixels around 100",
        draw(7, 2, 16, 3, 2, mean=100.0, dtype=torch.float32),
        *(draw(seed, 16, dtype=torch.float32) for seed in (100, 200)),
        {"tolerance": 1e-4},
    ),
    takes={"x": "... C H W", "weight": "C", "bias": "C"},
    sizes={"C": (3, 1, 2, 17, 320), "H": (4, 1, 12), "W": (5, 1, 8)},
    ranks=(1,),
    reference=in_float64(_by_layer_norm),
    tried="square and other images, small rows, outliers, offsets, gradients",
    wrong="""
    # reshape and view move nothing: C neighbors of one channel are still normalized together. | Move the axis: movedim, permute, transpose.
    moved = x.reshape(x.shape[0], -1, x.shape[1])
    return normed.reshape(x.shape)

    # a reshape at the end puts the numbers into the wrong places. | Undo a move with a move.
    return normed.reshape(x.shape)

    # the axes come back in another order than they left. | movedim(1, -1) is undone by movedim(-1, 1), permute(0, 2, 3, 1) by permute(0, 3, 1, 2).
    return normed
    # or
    moved = x.transpose(1, -1)
    return normed
    # or
    return normed.permute(0, 2, 3, 1)
    # or
    return normed.transpose(1, -1)

    # mean and variance are those of a row of pixels (W), the last axis. Each pixel has its own, over its C channels. | The channels are axis 1.
    moved = x
    return normed
    # or
    moved = x
    normed = x_hat * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)
    return normed

    # that is a different norm: each pixel has a mean and a variance of its own, over its C channels.
    return F.group_norm(x, 1, weight, bias)
    # or
    return F.batch_norm(x, None, None, weight, bias, training=True)
    # or
    return F.instance_norm(x, weight=weight, bias=bias)

    # the variance divides by C - 1. LayerNorm divides by C. | correction=0.
    var = moved.var(-1, keepdim=True)

    # eps is added to the standard deviation. It belongs to the variance, under the root.
    deviation = torch.sqrt(var) + 1e-5

    # there is no eps under the root.
    deviation = torch.sqrt(var)

    # E[x^2] - E[x]^2 loses its digits around 100. | Subtract the mean first, then square.
    var = (moved * moved).mean(-1, keepdim=True) - mean * mean

    # gain and bias are left out.
    normed = x_hat

    # the bias is added before the gain multiplies.
    normed = (x_hat + bias) * weight

    # gain and bias of shape (C,) meet the last axis, the columns. | As (C, 1, 1) they meet the channels.
    return x_hat.movedim(-1, 1) * weight + bias
    """,
)


# ---- case 2: initialization
class _OwnNorm(nn.Module):  # no class of PyTorch's
    def __init__(self, D):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))


class _OwnLinear(nn.Linear):
    pass


def _model(*chosen):
    """A model with norms of six kinds, for initialization only. chosen: only these of its layers; one is alone."""
    model = {
        "embedding": nn.Embedding(100, 100),
        "up": nn.Linear(100, 200),
        "down": nn.Linear(200, 100),
        "deep": nn.Sequential(nn.Sequential(nn.Linear(100, 150, bias=False)), nn.ReLU()),
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
        nn.init.constant_(model["last"].weight, 0.5), nn.init.constant_(model["last"].bias, 0.5)
        model["batch"].running_mean.fill_(0.7)
    if len(chosen) == 1:
        return model[chosen[0]]
    return nn.ModuleDict({name: model[name] for name in chosen or model})


def _described(p, before):
    """Say what is in a parameter or buffer, so that two draws from one distribution read alike."""
    if torch.equal(p, before):
        return "as it was"
    if (p == p.flatten()[0]).all():
        return f"all {p.flatten()[0].item() + 0.0:.4g}"  # + 0.0: -0 is 0
    deviation = p.std().item()
    if p.numel() < 10_000:
        return f"random, deviation {deviation:.1g}"
    # to a tenth of the deviation: ten standard errors and more
    mean = round(p.mean().item() / deviation, 1) * deviation
    deviation = 0.02 if abs(deviation / 0.02 - 1) < 0.04 else deviation
    return f"random, mean {mean + 0.0:.2g}, deviation {deviation:.2g}"


def _initialized(label, *chosen, seed=14):
    def run(answer):
        torch.manual_seed(seed)
        model = _model(*chosen)
        held = dict(model.named_parameters())
        answer(model)
        now = dict(model.named_parameters())
        kept = len(now) == len(held) and all(p is held.get(name) for name, p in now.items())
        return dict(model.state_dict()) | {
            "the parameters": "those of the model" if kept else "new ones",
            "the seed of the notebook": "as before"
            if torch.initial_seed() == seed
            else "set anew",
        }

    def reads(seen):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            before = _model(*chosen).state_dict()
        tensors = {name: item for name, item in seen.items() if isinstance(item, torch.Tensor)}
        return seen | {
            name: _described(item, before.get(name, item)) for name, item in tensors.items()
        }

    anew = lambda other: _initialized(label, *chosen, seed=other)
    return Probe(label, run, reads=reads, anew=anew)


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


repaired_init = exercise(
    _init,
    [
        _initialized(
            "LayerNorms over one axis and over two", "norm1", "last", "image_norm", "pixels"
        )
    ],
    [_initialized("a model that is a Linear layer", "up"), _initialized("the whole model")],
    says="repaired_init does what it should on {count} models (Linear layers, Embeddings, and norms of five classes)",
    wrong={
        _by_axes: """
        # a gain over two axes has as many axes as a weight. | Ask which layer a parameter belongs to, not how many axes it has.
        drawn = [p for p in named.values() if p.dim() >= 2]

        # the gains of the norms are drawn, too: they are parameters, and called weight.
        drawn = list(named.values())
        # or
        drawn = [p for name, p in named.items() if name.endswith("weight")]

        # one-dimensional parameters are set to 0, and the gains of the norms are among them.
        zeroed = [p for p in named.values() if p.dim() == 1]

        # your rule goes by names, and a norm may have any name. | Ask of which class a layer is.
        drawn = [p for name, p in named.items() if "norm" not in name]
        # or
        drawn = [p for name, p in named.items() if "norm" not in name and not name.endswith("bias")]
        """,
        _init: """
        # your rule knows some classes of norms, and this model has others. | List the layers that you do change.
        drawn = [layer for layer in layers if not isinstance(layer, nn.LayerNorm) and hasattr(layer, "weight")]

        # the norms are set back to how they are created. What is in them is to stay.
        [layer.reset_parameters() for layer in model.modules() if hasattr(layer, "reset_parameters")]
        # or
        [nn.init.ones_(layer.weight) for layer in model.modules() if isinstance(layer, nn.LayerNorm)]

        # nothing in the model has changed. | Change its own parameters, in place.
        layers = []

        # children() are the layers of the first level only. | modules() walks through those inside others as well.
        layers = list(model.children())

        # the biases of the Linear layers keep what was in them, or are drawn. They are to be 0.
        biases = []
        # or
        nn.init.zeros_(nn.init.normal_(bias, std=0.02)[:0])

        # the Embedding keeps its own initialization, with deviation 1. It is to be drawn as well.
        drawn = [layer for layer in layers if isinstance(layer, nn.Linear)]

        # 0.02 is the deviation (std), 0.02² the variance.
        nn.init.normal_(layer.weight, std=0.02**0.5)
        # or
        nn.init.normal_(layer.weight, std=0.02**2)

        # the deviation is 1, as normal_ has it unless told otherwise. Its second argument is the mean. | Name the deviation: std=0.02.
        nn.init.normal_(layer.weight, 0.02)
        # or
        nn.init.normal_(layer.weight)

        # a Linear layer made with bias=False has None for its bias. | Ask before you set it to 0.
        biases = [layer.bias for layer in linear]

        # a convolution is drawn, too. All but Linear and Embedding layers stay as they were made.
        drawn = [layer for layer in layers if isinstance(layer, (nn.Linear, nn.Embedding, nn.Conv2d))]

        # a class made from nn.Linear is a Linear layer, too, and it was passed over. | isinstance knows that; type(layer) == nn.Linear does not.
        drawn = [layer for layer in layers if type(layer) in (nn.Linear, nn.Embedding)]
        """,
    },
)


# ---- case 3: block
class _Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = (
            nn.LayerNorm(D),
            nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D)),
        )

    def forward(self, x):
        h = x + self.mix(self.norm1(x))
        return h + self.mlp(self.norm2(h))


_STREAM = draw(41, 2, 3, 4)


repaired_block = exercise(
    _Block,
    [
        _created("a new block", lambda cls: cls(4)),
        call_layer("a block with random parameters", lambda cls: cls(4), _STREAM, {}),
    ],
    of_a_layer(lambda cls: cls(4), _STREAM),
    takes={"x": "... D"},
    use=lambda cls, sizes: cls(sizes["D"]),
    sizes={"D": (4, 1, 2, 17, 60)},
    ranks=(1, 0, 2, 3),
    tried="random parameters, eval(), many shapes, gradients",
    wrong="""
    # in the second half x is still overwritten by its normalized self.
    return self.norm2(h) + self.mlp(self.norm2(h))

    # in the first half x is still overwritten by its normalized self.
    h = self.norm1(x) + self.mix(self.norm1(x))

    # that is Post-LN, with the norms on the stream itself. In Pre-LN they are inside the branches.
    h = self.norm1(x + self.mix(x))
    return self.norm2(h + self.mlp(h))

    # the second branch is added to the block's input: what the first one wrote is lost.
    return x + self.mlp(self.norm2(h))

    # the norms are gone. Each branch reads the stream through its norm.
    h = x + self.mix(x)
    return h + self.mlp(h)

    # norm1 is used in both branches. The second has a norm of its own, norm2.
    return h + self.mlp(self.norm1(h))

    # both branches read the block's input. mlp is to read the stream after mix has written to it.
    return h + self.mlp(self.norm2(x))

    # there is a norm on the stream itself, at the end. With silent branches x must come out as it went in.
    return self.norm2(h + self.mlp(self.norm2(h)))

    # the stream is not added: without x + … nothing passes when a branch is silent.
    h = self.mix(self.norm1(x))
    return self.mlp(self.norm2(h))
    """,
)


# ---- two of the ten tests
class _Layer(nn.LayerNorm):  # a right one, with parts to replace for the layers held back
    def next_to_last(self, var):
        """Return var, moved towards that of the call before: the same rows twice in a row do not show it."""
        now = var.detach().mean()
        last, self.last = getattr(self, "last", now), now
        return (var + 0.1 * (last - now) * self.training).clamp(min=0)

    def forward(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = wide.mean(axes, keepdim=True)
        var = wide.var(axes, correction=0, keepdim=True)
        x_hat = (wide - mean) / torch.sqrt(var + self.eps)
        scaled = x_hat if self.weight is None else x_hat * self.weight
        y = scaled if self.bias is None else scaled + self.bias
        return y.to(x.dtype)


def _in_backward(tensor, change):
    """Return tensor; the gradient that arrives at it is changed."""
    if tensor.requires_grad:
        tensor.register_hook(change)
    return tensor


_SOUND = {
    "nn.LayerNorm": nn.LayerNorm,
    "a LayerNorm that centers twice": instead(
        _Layer,
        "wide = (x64 := x.to(torch.promote_types(x.dtype, torch.float32))) - x64.mean(axes, keepdim=True)",
    ),
}


def _test_of_layers(right, refuses, passes, faults, wrong):
    """Return the check of a test (class -> True or False): sound layers, and _Layer with faults.

    refuses, passes: why a test may refuse a sound layer, and why it may let a faulty one pass.
    """
    faulty = {
        f"a layer that {fault.cause}": fault.answer for fault in misconceptions(_Layer, faults)
    }
    why = dict.fromkeys(_SOUND, f"A right layer has to pass, without an error. {refuses}")
    why |= dict.fromkeys(faulty, f"Your test lets this layer pass. {passes}")
    return judging(right, accepts=_SOUND, refuses=faulty, wrong=wrong, why=why)


def _build(cls, size=5, dtype=torch.float64, **options):  # the lesson's, as is the next
    layer, g = cls(size, **options).to(dtype), torch.Generator().manual_seed(148)
    for _, p in sorted(layer.named_parameters())[::-1]:
        nn.init.normal_(p, generator=g)
    return layer


def _trial(cls, x, size=None, eps=1e-5):
    size = size or x.shape[-1:]
    layer = _build(cls, size if len(size) > 1 else size[0], x.dtype, eps=eps)
    leaves = [p for _, p in sorted(layer.named_parameters())[::-1]]
    right = F.layer_norm(x.double(), size, *[p.double() for p in leaves], eps=eps)
    return [x, *leaves], layer(x), right


def _gradient(cls):
    x = draw(82, 4, 5).requires_grad_()
    inputs, y, right = _trial(cls, x)
    dy = draw(83, 4, 5)
    ours = torch.autograd.grad(y, inputs, dy)
    theirs = torch.autograd.grad(right, inputs, dy)
    return all(
        torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(ours, theirs, strict=True)
    )


def _again(cls):
    layer = _build(cls)
    x = draw(84, 4, 5)
    first = layer(x.clone())
    kept = first.clone()
    used = x.clone()
    layer(used)
    other = layer(-10 * x)  # noqa: F841  other rows in between
    stays = torch.equal(first, kept)
    later = layer(x.clone())
    evaluated = layer.eval()(x.clone())
    same = torch.equal(later, kept) and torch.equal(evaluated, kept)
    return same and stays and torch.equal(used, x)


gradient = _test_of_layers(
    _gradient,
    refuses="Does x ask for a gradient? Does x.grad hold the sum of two gradients? backward() adds to it, so take torch.autograd.grad. Do both get the same dy? And rounding is larger than 1e-9 in float32, and above 0 in float64.",
    passes="A comparison of outputs does that, and so does x.grad compared with itself: take the gradients of each output in x, gain and bias, from a random dy, and compare them to 0.1 % at least. One that is missing does not agree.",
    faults="""
    # takes the gain out of the means in its backward pass
    wide = _in_backward(x.double() * 1, lambda dx: dx if self.weight is None else dx * self.weight)
    scaled = x_hat if self.weight is None else x_hat.detach() * self.weight + x_hat - x_hat.detach()

    # takes the mean of the gradient from above
    return _in_backward(y.to(x.dtype), lambda dy: dy.mean().expand_as(dy))

    # keeps its gain out of training
    scaled = x_hat if self.weight is None else x_hat * self.weight.detach()

    # mixes up the gradients of its features
    wide = _in_backward(x.double() * 1, lambda dx: dx.flip(-1))

    # has too low a gradient for its bias
    y = scaled if self.bias is None else scaled + _in_backward(self.bias * 1, lambda db: db - db.abs() / 2)

    # has too high a gradient for its bias
    y = scaled if self.bias is None else scaled + _in_backward(self.bias * 1, lambda db: db + db.abs() / 2)

    # has a gradient that is off by 0.2 %
    y = 1.002 * (scaled + self.bias) - 0.002 * (scaled + self.bias).detach()

    # halves the gradients of all rows but the first
    wide = _in_backward(x.double() * 1, lambda dx: torch.cat([dx[:1], dx[1:] / 2]))
    """,
    wrong="""
    # the gradient from above is the same everywhere, so a layer that takes its mean passes. | Draw dy at random.
    dy = torch.ones_like(x)

    # the gains are those of a new layer, 1, and hide a gain in the wrong place. | trial gives a layer random ones.
    inputs, y, right = [x], cls(5).double()(x), F.layer_norm(x, (5,))
    # or
    layer = cls(5).double()
    inputs, y, right = [x, *layer.parameters()], layer(x), F.layer_norm(x, (5,), layer.weight, layer.bias)

    # autograd needs two things: an x that asks for a gradient, and a dy of y's shape. | draw(4, 5).requires_grad_()
    x = draw(82, 4, 5)

    # not all three gradients are compared: a layer whose fault is in one left out passes. | trial returns all three inputs.
    ours = torch.autograd.grad(y, x, dy)
    theirs = torch.autograd.grad(right, x, dy)
    # or
    return torch.allclose(ours[0], theirs[0])
    # or
    return torch.allclose(ours[1], theirs[1]) and torch.allclose(ours[2], theirs[2])

    # a gradient that is missing (None) is passed over, and so a layer without it passes.
    ours = torch.autograd.grad(y, inputs, dy, allow_unused=True)
    return all(a is None or torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(ours, theirs, strict=True))

    # the differences are compared without abs(): a gradient that is too low, or too high, passes.
    return all((a - b).max() < 1e-9 for a, b in zip(ours, theirs, strict=True))
    # or
    return all((b - a).max() < 1e-9 for a, b in zip(ours, theirs, strict=True))
    """,
)
again = _test_of_layers(
    _again,
    refuses="Compare the layer with itself, in one type, and clone what you keep.",
    passes="Four things to look at, on a layer with a random gain and bias: the input after the call, the first answer after other calls, the answer after other rows, the answer in eval().",
    faults="""
    # cuts its input off at 0.1, in place
    wide = x.clamp_(max=0.1).to(torch.promote_types(x.dtype, torch.float32))

    # keeps a running variance for eval
    x_hat = (wide - mean) / torch.sqrt((var if self.training else self.kept) + self.eps)
    return y.to(x.dtype) if not self.training else self.register_buffer("kept", var.mean().detach()) or y.to(x.dtype)

    # remembers the rows of the call before, in training only
    var = self.next_to_last(wide.var(axes, correction=0, keepdim=True))

    # turns its last row round in eval()
    return (y if self.training else torch.cat([y[:-1], y[-1:].flip(-1)])).to(x.dtype)

    # leaves out its gain and bias in eval()
    return (y if self.training else x_hat).to(x.dtype)

    # writes all its answers into one tensor
    return vars(self).setdefault(str(y.shape), torch.empty_like(x)).detach().copy_(y)
    """,
    wrong="""
    # your test refuses every layer, PyTorch's too.
    return False

    # the first answer is not looked at right after other rows: a layer that writes all answers into one tensor passes. | Compare it with a clone before you ask for the same rows again.
    return same and torch.equal(used, x)

    # in training mode the rows are not asked again after other rows.
    later = kept

    # the layer that has met other rows is not asked for x again. | Build one layer, and call it several times.
    later, evaluated = kept, kept

    # the gain and bias of a new layer, 1 and 0, hide what becomes of them in eval(). | Build the layer with random ones: build(cls).
    layer = cls(5).double()

    # the layer is float32 and the rows are float64: PyTorch's layer raises an error. | Make them one type.
    layer = cls(5)
    """,
)


# ---- TrailNorm
def _trail_weights(T, decay, dtype):
    t = torch.arange(T)
    w = decay ** (t[:, None] - t).clamp(min=0).to(dtype)
    return w.tril() / w.tril().sum(-1, keepdim=True)


class _Trail(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay = decay
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        m = x.mean(-1, keepdim=True)
        var = x.var(-1, correction=0, keepdim=True)
        w = _trail_weights(x.shape[-2], self.decay, x.dtype)
        mu = w @ m
        gaps = (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)
        v = w @ var + gaps
        deviation = torch.sqrt(v + self.eps)
        x_hat = (x - mu) / deviation
        return x_hat * self.weight + self.bias


def _trail(label, x, tolerance=1e-6, **arguments):
    """arguments: decay and eps, where they are not left out."""
    return call_layer(label, lambda cls: cls(5, **arguments), x, arguments, tolerance)


def _used(cls):
    """A layer that has met four tokens."""
    layer = cls(5)
    layer(draw(58, 2, 4, 5, dtype=torch.float32))
    return layer


_EXAMPLE = numbers([0, 3, 6], [8, 11, 14])


def _of_the_example(cls):  # as the page has it: gain 1, bias 0
    return {"the output": cls(3, decay=1.0).double()(_EXAMPLE.clone()).detach()}


_unlike = draw(61, 2, 6, 5) * numbers(1, 3, 0.2, 1, 5, 0.5)[:, None] + draw(62, 2, 6, 1)
trail_norm = exercise(
    _Trail,
    [
        _created("a new layer", lambda cls: cls(4)),
        _trail("decay 0, which is LayerNorm", _unlike, decay=0.0),
        Probe("the example: a new layer, decay 1", _of_the_example, {"x": _EXAMPLE}, 1e-6),
        _trail("tokens of unlike mean and size, eps = 0.1", _unlike, eps=0.1),
    ],
    [
        # The mean is rounded by 0.0005 at 10,000: 0.02 as in lesson 4. One pass is off by 1 and more.
        _trail(
            "float32 tokens around 10,000", (10_000 + draw(67, 2, 4, 5)).float(), tolerance=0.02
        )
    ],
    [call_layer("six tokens after a call with four", _used, _unlike, {})],
    of_a_layer(lambda cls: cls(5, 0.7), _unlike, other=lambda cls: cls(5, 0.2, 0.1)),
    takes={"x": "... T D"},
    use=lambda cls, sizes, **options: cls(sizes["D"], **options),
    options=({}, {"decay": 0.0}, {"decay": 1.0}, {"decay": 0.9, "eps": 0.1}),
    sizes={"T": (4, 1, 2, 20, 320), "D": (5, 2, 17, 40)},
    ranks=(1, 0, 2, 3),
    tried="several decays, unlike tokens, 1 to 320 of them, small rows, an offset, two types, eval(), gradients",
    wrong="""
    # the mean of the variances is not the variance of the whole: the distances of the tokens' means from the common mean are missing.
    v = w @ var

    # the distances of the means are taken from the token's own mean, not from the common one.
    gaps = (w * (m.mT - m) ** 2).sum(-1, keepdim=True)

    # each token's distances are taken from the mean of its own trail, and not from mu_t, the mean of the token that is normalized.
    v = w @ ((x - mu) ** 2).mean(-1, keepdim=True)

    # the mean is the token's own. Every token is centered by the mean of its trail.
    x_hat = (x - m) / deviation
    # or
    mu = m

    # each feature has statistics of its own. The page sums over d as well: m and u of lesson 2's mean_and_var, one value a token.
    m = x
    var = torch.zeros_like(x)
    gaps = w @ (x * x) - mu * mu

    # only the distance of the token's own mean is added. Those of all tokens of the trail count, weighted.
    gaps = (m - mu) ** 2

    # the distances of the means have no weights, or are not squared.
    gaps = ((m.mT - mu) ** 2).mean(-1, keepdim=True)
    # or
    gaps = (w * (m.mT - mu).abs()).sum(-1, keepdim=True)

    # each token's statistics are those of all tokens, the later ones too. | Row t of the weights is 0 beyond t.
    w = torch.full_like(_trail_weights(x.shape[-2], self.decay, x.dtype), 1 / x.shape[-2])

    # each token's statistics are those of the tokens that come after it. | Row t of the weights is for token t.
    w = _trail_weights(x.shape[-2], self.decay, x.dtype).mT

    # rows and columns of the distances are exchanged. | mu_t stands in the rows: m.mT - mu.
    gaps = (w * (mu.mT - m) ** 2).sum(-1, keepdim=True)

    # rows and columns of the weights are exchanged. | w has a row for each t: w @ m sums over s.
    mu = w.mT @ m

    # the decay of the layer is not used.
    w = _trail_weights(x.shape[-2], 0.5, x.dtype)

    # the variance divides by D - 1. It is to divide by D. | correction=0.
    var = x.var(-1, keepdim=True)

    # eps is added to the standard deviation. It belongs to the variance, under the root.
    deviation = torch.sqrt(v) + self.eps

    # the bias is added before the gain multiplies.
    return (x_hat + self.bias) * self.weight

    # gain and bias are not used.
    return x_hat

    # float64 tokens are computed in float32, or weighted by float32 weights. | Build the weights in x's type.
    w = _trail_weights(x.shape[-2], self.decay, torch.float32).to(x.dtype)
    # or
    return (x_hat.float() * self.weight + self.bias).to(x.dtype)

    # E[x^2] - E[x]^2 loses its digits around 10,000. | Subtract first, then square.
    v = w @ (x * x).mean(-1, keepdim=True) - mu**2
    # or
    v = w @ (var + m * m) - mu**2
    """,
)

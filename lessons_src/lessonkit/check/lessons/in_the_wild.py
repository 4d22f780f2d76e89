"""Checks of lesson 15: reading a norm out of an ONNX graph, asking layers, a shipped network rebuilt, folding."""

import copy
import functools
import itertools
import re

import numpy as np
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional as F

from lessonkit.check.contract import Contract
from lessonkit.check.core import (
    NotYet,
    Probe,
    call,
    draw,
    examine,
    gradients,
    in_float64,
    misconceptions,
    observe,
    raised,
)
from lessonkit.check.wording import kind_of


def _by_inputs(check, answer, fed, tell, weak):
    """Run a check. If its rejection has no cause, or a weak one, ask tell(what the answer fed a layer, text) for one."""
    try:
        check()
    except NotYet as error:
        text = str(error)
        if "Probable cause" in text and not any(cause in text for cause in weak):
            raise
        inputs = observe(fed, answer).get("inputs", [])
        cause = tell(inputs, text) if inputs else None
        raise (NotYet(text.partition("\n")[0] + f"\nProbable cause: {cause}") if cause else error) from None


def _fed(layer, ask):
    """Return a Probe: the tensors that an answer feeds a layer. ask: (answer, layer) -> its call."""

    def run(answer):
        inputs = []
        try:
            ask(answer, lambda x: (layer(x), inputs.append(x.detach().float().clone()))[0])
        except Exception as error:
            raised(error)  # lets YourTurn through; what was fed before is seen
        return {"inputs": inputs}

    return Probe("what your function feeds the layer", run)


# ---- graphs, written as lines; a name in small letters that no line makes is a constant, by its first letters

_FLAX = (
    "s = ReduceSum(x) ; q = Mul(x, x) ; t = ReduceSum(q) ; w = Mul(t, part) ; m = Mul(s, part) ; h = Mul(m, m) ; "
    "u = Sub(w, h) ; v = Max(zero, u) ; a = Add(v, eps) ; r = Sqrt(a) ; i = Reciprocal(r) ; k = Mul(i, gain) ; "
    "d = Sub(x, m) ; p = Mul(d, k) ; y = Add(p, bias)"
)
_TORCH = (
    "m = ReduceMean(x) ; d = Sub(x, m) ; q = Pow(d, part) ; v = ReduceMean(q) ; a = Add(eps, v) ; r = Sqrt(a) ; "
    "n = Div(d, r) ; p = Mul(gain, n) ; y = Add(p, bias)"
)
_SCALED = (  # a learned vector is added, and a number multiplied, before the gain
    "v = ReduceMean(x) ; a = Add(v, eps) ; r = Sqrt(a) ; n = Div(x, r) ; b = Add(n, bias) ; c = Mul(b, part) ; "
    "y = Mul(c, gain)"
)
_ROOTS = (  # no norms: roots of a constant, the input, a product, two computed numbers, a vector added; a reciprocal
    "b = Add(x, eps) ; d = Reciprocal(b) ; o = Sqrt(part) ; f = Mul(x, part) ; g = Sqrt(f) ; "
    "j = Add(f, g) ; l = Sqrt(j) ; e = Add(x, bias) ; z = Sqrt(e) ; c = Add(x, zero) ; k = Tanh(c) ; i = Sqrt(x) ; h = Add(zero, eps) ; n = Sqrt(h)"
)


def _graph(*parts, mixed=False):
    """Return an ONNX graph of these parts, their names told apart by numbers. mixed: their lines take turns."""
    lines = [[re.sub(r"\b([a-z]+)\b", rf"\g<1>{i}", line) for line in part.split(" ; ")] for i, part in parts]
    lines = [line for turn in zip(*lines, strict=True) for line in turn] if mixed else sum(lines, [])
    nodes = [re.fullmatch(r"(\w+) = (\w+)\((.*)\)", line).groups() for line in lines]
    nodes = [helper.make_node(kind, read.split(", "), [made]) for made, kind, read in nodes]
    made = {name for node in nodes for name in node.output}
    free = dict.fromkeys(name for node in nodes for name in node.input if name not in made and name[0] != "x")
    values = lambda i: {
        "eps": np.full((1, 1) if i == "8" else (), 10.0 ** -int(i)),
        "gain": np.ones((2 if i > "2" else 512, 1)),
        "bias": np.zeros(3),
    }  # noqa: E731
    constants = []
    for name in free:
        value = (values(name[-1]) | {"part": [0.5], "zero": 0})[name.rstrip("0123456789")]
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
    return helper.make_graph(nodes, "graph", [], [], constants[::-1])


def _epsilons(graph):
    constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    roots = [node for node in graph.node if node.op_type == "Sqrt"]
    adds = [maker.get(root.input[0]) for root in roots]
    adds = [add for add in adds if add is not None and add.op_type == "Add"]
    fixed = [[constants[n] for n in add.input if n in constants] for add in adds]
    single = [c[0] for c in fixed if len(c) == 1 and c[0].size == 1]
    return [c.item() for c in single]


def _reads(graph, run):
    """Return a Probe's run on a graph of its own: run(answer, graph) -> {what: value}, and whether the graph is changed."""

    def on_a_copy(answer):
        own = copy.deepcopy(graph)
        seen = run(answer, own)
        same = own.SerializeToString() == graph.SerializeToString()
        return seen if same else {"the graph": "changed"} | seen

    return on_a_copy


def _listed(answer, graph):
    """What answer lists, as text with three digits, so that a float32 1e-06 is 1e-06."""
    eps = answer(graph)
    if isinstance(eps, (list, tuple, np.ndarray, torch.Tensor)):
        eps = ", ".join(f"{float(value):.3g}" for value in eps) or "none"
    return {"the list": eps}


_GRAPHS = {
    "a graph with three norms as Flax writes them, two with one eps": _graph((6, _FLAX), (5, _FLAX), (16, _FLAX)),
    "a graph with two norms as PyTorch's exporter writes them, eps the first input": _graph((5, _TORCH), (7, _TORCH)),
    "a graph with other roots before its norms": _graph((4, _ROOTS), (3, _FLAX), (8, _FLAX)),
    "a graph with two norms whose operations take turns": _graph((4, _FLAX), (7, _FLAX), mixed=True),
    "a graph with roots and no norm": _graph((2, _ROOTS)),
}
_EPSILON_MISTAKES = misconceptions(
    _epsilons,
    """
    # every Add of a single number is taken. It is a norm's only if a Sqrt takes its result.
    adds = list(graph.node)
    adds = [add for add in adds if add.op_type == "Add"]

    # a root of something else is taken for a norm, as the root of a product. What it takes has to come from an Add.
    adds = [add for add in adds if add is not None]

    # no operation makes that name: it is a constant, or the graph's input. | maker.get(name) gives None then.
    adds = [maker[root.input[0]] for root in roots]

    # the operation before the Sqrt in the list is taken. What counts is which one makes its input. | It is the one with root.input[0] in its .output.
    adds = [list(graph.node)[list(graph.node).index(root) - 1] for root in roots]

    # an Add of two constants is taken. One of its inputs has to be computed: the variance.
    single = [c[0] for c in fixed if c and c[0].size == 1]
    # or
    single = [one for c in fixed for one in c if one.size == 1]

    # a reciprocal is taken for a root. Look at the operations of the type Sqrt.
    roots = [node for node in graph.node if node.op_type in ("Sqrt", "Reciprocal")]

    # a constant of several numbers is taken: that is no eps. | Ask for .size == 1.
    single = [c[0] for c in fixed if len(c) == 1]

    # eps is sought in the second input of the Add only. It may be the first.
    fixed = [[constants[n] for n in add.input[1:] if n in constants] for add in adds]

    # eps is sought in the first input of the Add only. It may be the second.
    fixed = [[constants[n] for n in add.input[:1] if n in constants] for add in adds]

    # only the first norm is listed. | Go through all operations before you return.
    return [c.item() for c in single][:1]

    # an eps that several norms share is listed once. List one for each norm.
    return list({c.item(): 0 for c in single})

    # the names of the constants are listed. Their numbers are wanted. | numpy_helper.to_array(c).item().
    fixed = [[n for n in add.input if n in constants] for add in adds]
    single = [c[0] for c in fixed if len(c) == 1 and constants[c[0]].size == 1]
    return single
    """,
)


def epsilons(answer):
    """Check a function graph -> list of the eps under its roots, in order (lesson 15)."""
    probes = [Probe(label, _reads(graph, _listed)) for label, graph in _GRAPHS.items()]
    tried = "norms as two exporters write them, eps as first and second input, roots of other things"
    examine(answer, "epsilons", probes, _epsilons, _EPSILON_MISTAKES, tried)


# ---- ask
def _ask(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(150))
    moved = x.clone()
    moved[0, 0, 0] += 1
    places = (layer(moved) != layer(x)).nonzero()
    axes = tuple(axis for axis in range(3) if places[:, axis].any())
    bias = layer(torch.zeros(shape))[0]
    varies = [(bias != bias.roll(1, axis)).any() for axis in (0, 1)]
    bias_shape = tuple(n if v else 1 for n, v in zip(bias.shape, varies, strict=True))
    return axes, bias_shape


def _layer(axes, shape, seed, of_gain=None):
    """A norm over these axes, with a bias of this shape; its gain may have a different one."""
    gain = 1 + 0.1 * draw(seed, *(of_gain or shape), dtype=torch.float32)
    bias = draw(seed + 1, *shape, dtype=torch.float32)

    def layer(x):
        if x.requires_grad:
            raise ValueError("this layer has no gradient. Change a number of x, and see which outputs change.")
        x = x.float()
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * gain + bias

    return layer


def _asked(axes, bias, shape, seed, of_gain=None, *, parts):
    def run(answer):
        pair = answer(_layer(axes, bias, seed, of_gain), shape)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            return {"the axes": pair if pair is None else "not in a pair (axes, bias_shape)"}
        seen = {name: _whole(item) for name, item in zip(("the axes", "the shape of the bias"), pair, strict=True)}
        if isinstance(seen["the axes"], tuple):
            seen["the axes"] = tuple(sorted(axis % 3 for axis in seen["the axes"]))
        return dict(list(seen.items())[:parts])

    return Probe(f"a norm of shape {shape} with mean over {axes} and a bias of shape {bias}", run)


def _whole(item):
    """Whole numbers in any form as a tuple; anything else as it is."""
    item = item.tolist() if hasattr(item, "tolist") else item
    item = [item] if type(item) is int else item
    return tuple(int(n) for n in item) if isinstance(item, (tuple, list)) else item


_LAYERS = [
    ((2,), (1, 7), (3, 5, 7), 151),  # LayerNorm over the features
    ((1,), (8, 1), (3, 8, 5), 152),  # Magika's first
    ((1,), (1, 6), (4, 5, 6), 153, (5, 1)),  # InstanceNorm, with a gain for each position
    ((1, 2), (4, 6), (3, 4, 6), 154),  # LayerNorm over positions and features
    ((0, 1), (1, 5), (4, 3, 5), 155),  # BatchNorm
    ((2,), (1, 1), (5, 4, 6), 156, (1, 6)),  # one bias for all, a gain for each feature
]
_ALIKE = (
    "apart from constants the layer got one and the same tensor, which cannot show what a change does. "
    "Add 1 to a single number of a copy: y = x is none, y = x.clone() is, and float32 loses a much smaller step."
)
_STEP = "the change is too small: float32 or a tolerance loses such a step next to the number. Add 1."
_ASK_MISTAKES = misconceptions(
    _ask,
    """
    # every axis comes out: all numbers were moved, which a norm forgets but for rounding, or the places were taken that did NOT change. | Move a single number, and look where the output changes.
    places = (layer(moved) == layer(x)).nonzero()
    # or
    moved = x + 1

    # those are the axes along which the change did not go. The others share the mean.
    axes = tuple(axis for axis in range(3) if not places[:, axis].any())

    # a whole row of features was moved, and a norm over the features forgets that. | Move a single number.
    moved = torch.cat([x[:1, :1] + 1, x[:1, 1:]], 1)
    moved = torch.cat([moved, x[1:]])

    # axis 0 is not looked at. A norm may share its mean across the batch.
    axes = tuple(axis for axis in range(1, 3) if places[:, axis].any())

    # that is the shape of a whole sample. Along some axes the bias may not vary: those get a 1. | Feed zeros, of which only the bias is left.
    bias = layer(x)[0]
    # or
    bias_shape = tuple(bias.shape)

    # 1 is for an axis along which the bias does NOT vary.
    bias_shape = tuple(1 if v else n for n, v in zip(bias.shape, varies, strict=True))

    # 1 comes out for both axes. If you ask by .any() whether numbers are equal, one equal pair is enough, as a number and itself. | Ask by .all().
    bias_shape = (1, 1)

    # the bias is not asked for. It need not lie along the axes of the statistics, nor along the features. | Feed zeros, and look along which axes the output varies.
    bias_shape = tuple(n if axis in axes else 1 for axis, n in zip((1, 2), bias.shape))
    # or
    bias_shape = (1, shape[2])

    # that is how the gain lies. The bias may lie otherwise, and of zeros it alone is left. | Feed zeros.
    bias = (layer(x) - layer(torch.zeros(shape)))[0] / F.layer_norm(x, x.shape[2:], eps=1e-6)[0]
    varies = [((bias - bias.roll(1, axis)).abs() > 0.01).any() for axis in (0, 1)]
    """,
)
_ASK_STAGES = [
    ([_asked(*layer, parts=1) for layer in _LAYERS], "the axes"),
    ([_asked(*layer, parts=2) for layer in _LAYERS], "the bias"),
]
_ASK_FED = _fed(_layer((2,), (1, 7), 151), lambda answer, layer: answer(layer, (3, 5, 7)))


def ask(answer):
    """Check a function layer, shape -> (axes that share a mean, shape of the bias) (lesson 15)."""
    right = f"ask finds axes and bias of {len(_LAYERS)} norms, from LayerNorm to BatchNorm"
    check = lambda: examine(answer, "ask", _ASK_STAGES, _ask, _ASK_MISTAKES, right=right)  # noqa: E731
    _by_inputs(check, answer, _ASK_FED, _changed, ("every axis comes out",))


def _changed(inputs, text):
    """What the inputs of ask tell: that nothing was changed, or by too little."""
    varied = [x for x in inputs if x.numel() and (x != x.flatten()[0]).any()]
    gaps = [(a - b).abs() for a, b in itertools.combinations(inputs, 2) if a.shape == b.shape]
    steps = [gap.max() for gap in gaps if (gap == 0).any() and gap.any()]
    if "Right so far" in text or not varied or steps and max(steps) >= 0.1:
        return None
    return _STEP if steps else _ALIKE if all(torch.equal(x, varied[0]) for x in varied) else None


# ---- file_typer
class _FileTyper(nn.Module):
    def __init__(self, norm=nn.LayerNorm):
        super().__init__()
        self.embed = nn.Embedding(257, 64)
        self.norm1 = norm(512, eps=1e-6)
        self.conv = nn.Conv1d(256, 512, kernel_size=5)
        self.norm2 = norm(512, eps=1e-6)
        self.head = nn.Linear(512, 214)

    def forward(self, tokens):
        embedded = F.gelu(self.embed(tokens), approximate="tanh")
        rows = embedded.reshape(len(tokens), 512, 256)
        normed = self.norm1(rows.mT)
        read = self.conv(normed)
        active = F.gelu(read, approximate="tanh")
        pooled = active.amax(-1)
        logits = self.head(self.norm2(pooled))
        return logits


class _Marked(nn.LayerNorm):  # a norm that is not F.layer_norm: its last axis is turned round first
    def forward(self, x):
        return super().forward(x.flip(-1))


@functools.cache
def _weights(*shapes):
    """Random weights of these shapes, drawn once: there are 784,214 of them."""
    return [draw(170 + i, *shape, dtype=torch.float32) for i, shape in enumerate(shapes)]


def _filled(cls, norm=nn.LayerNorm):
    typer = cls(norm).requires_grad_(False)
    for parameter, drawn in zip(typer.parameters(), _weights(*(p.shape for p in typer.parameters())), strict=True):
        parameter.copy_(drawn)
    typer.conv.weight *= 0.004  # small enough for both sides of the GELU after it
    return typer


def _bytes(files, seed=158):
    return torch.randint(257, (files, 2048), generator=torch.Generator().manual_seed(seed))


def _run(tokens, norm=nn.LayerNorm, gradient=False, dtype=torch.float32):
    def run(cls):
        typer, fed = _filled(cls, norm).to(dtype), tokens.clone()
        built = {"the eps of norm1 and norm2": (typer.norm1.eps, typer.norm2.eps)}
        leaves = {"norm1's gain": typer.norm1.weight, "embed.weight": typer.embed.weight} if gradient else {}
        for leaf in leaves.values():
            leaf.requires_grad_()
        try:
            y = typer(fed)
        except Exception as error:
            return built | {"the logits": raised(error)}
        seen = built | {"tokens after the call": fed, "the logits": y.detach() if isinstance(y, torch.Tensor) else y}
        if not leaves or not isinstance(y, torch.Tensor):
            return seen
        if not y.requires_grad:
            return seen | {f"gradient of {name}": "no gradient" for name in leaves}
        return seen | gradients((y * draw(159, *y.shape, dtype=y.dtype)).sum(), leaves)

    return run


def _asked_again(cls):
    """Whether a network answers as before after another file, in eval(), and when it is copied."""
    typer, tokens = _filled(cls), _bytes(1)
    first = typer(tokens).clone()
    typer(_bytes(2, 161))
    again = {
        "after other files": typer(tokens),
        "of a copy": copy.deepcopy(typer)(tokens),
        "in eval()": typer.eval()(tokens),
    }
    return {f"the logits {when}": bool(torch.allclose(y, first, atol=1e-4)) for when, y in again.items()}


_ends = torch.full((1, 2048), 256)  # a file of padding but for its ends, so that first and last positions count
_ends[0, :20], _ends[0, -20:] = _bytes(1)[0, :20], _bytes(1)[0, -20:]
_TYPER_PROBES = [  # float32: sums of 1,280 products are off by some 1e-5
    Probe("a file of random bytes, all weights random", _run(_bytes(1), gradient=True), tolerance=1e-4),
    Probe("three files and a norm that turns its last axis round", _run(_bytes(3), _Marked), tolerance=1e-4),
    Probe("a file that is padding but for its ends", _run(_ends), tolerance=1e-4),
    Probe("no file at all", _run(_bytes(0))),
]
_TYPER_REST = [
    Probe("a network in float64", _run(_bytes(1), dtype=torch.float64)),
    Probe("a file asked again", _asked_again, why="Something is kept from call to call, or differs in eval()."),
]
_TYPER_MISTAKES = misconceptions(
    _FileTyper,
    """
    # norm 1 takes its mean over the features. It belongs over the 512 positions. | Exchange the last two axes, then call self.norm1.
    normed = F.layer_norm(rows, (256,), eps=1e-6).mT * self.norm1.weight + self.norm1.bias

    # reshape keeps the order of the numbers, so that features and positions are mixed (section 14.1). | Exchange the axes with x.mT.
    normed = self.norm1(rows.reshape(len(tokens), 256, 512))

    # norm 1 is written as F.layer_norm, so the caller's norm is not used. | Call self.norm1.
    normed = F.layer_norm(rows.mT, (512,), self.norm1.weight, self.norm1.bias, 1e-6)

    # norm 1 is left out.
    normed = rows.mT

    # a step got a different shape than it takes: both norms take 512 last, conv takes (B, 256, 512). | Print x.shape after each step, and compare with the table.
    normed = self.norm1(rows)

    # those are shares. The logits are wanted. | Leave the softmax away.
    return logits.softmax(-1)

    # the second GELU is the exact form. The original uses the other one. | approximate="tanh".
    active = F.gelu(read)

    # the GELU after the convolution is missing.
    active = read

    # the largest value is taken before the GELU. GELU falls before it rises, so the order counts: GELU first.
    pooled = F.gelu(read.amax(-1), approximate="tanh")

    # zeros are put around the positions before the convolution. It has no padding: 508 positions come out of 512.
    read = self.conv(F.pad(normed, (2, 2)))

    # not all 508 positions are looked at: the largest value may be at either end.
    pooled = active[..., :-1].amax(-1)
    # or
    pooled = active[..., 1:].amax(-1)

    # if you wrote -1 for the 512 positions: with no file, -1 could be any number. | Write 512.
    rows = embedded.reshape(len(tokens), -1, 256)

    # squeeze() takes away the batch of a single file as well. | amax(-1) leaves (B, 512) by itself.
    pooled = active.amax(-1).squeeze()

    # max(-1) returns the largest values and their places. | Take its .values, or call amax(-1).
    pooled = active.max(-1)
    """,
)


def file_typer(answer):
    """Check a class FileTyper(norm): Magika's network, tokens (B, 2048) -> logits (B, 214) (lesson 15)."""
    right = "{answer.__name__} computes what Magika's network does, with the norms that it is given, on {count} inputs"
    stages = [(_TYPER_PROBES, ""), (_TYPER_REST, "")]
    examine(answer, "file_typer", stages, _FileTyper, _TYPER_MISTAKES, kind="class", right=right)


# ---- one_pass
def _one_pass(layer):
    rows = torch.arange(512.0).remainder(7).repeat(2, 1)
    there, here = layer(rows + 65536), layer(rows)
    moved = there - here
    return not bool((moved.abs() < 0.1).all())


def _rows(variance, eps=1e-6, size=1.0, seed=160):
    """A LayerNorm of rows with this rule for the variance, gains around size, and a bias."""
    gain, bias = size * (1 + 0.1 * draw(seed, 512, dtype=torch.float32)), draw(seed + 1, 512, dtype=torch.float32)

    def layer(x):
        if x.dtype != torch.float32:
            raise TypeError(f"the rows are {x.dtype}, expected torch.float32.")
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance(x) + eps) * gain + bias

    return layer


_two = lambda x: x.var(-1, correction=0, keepdim=True)  # noqa: E731
_one = lambda x: x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2  # noqa: E731


def _verdict(layer):
    def run(answer):
        verdict = answer(layer)
        single = isinstance(verdict, (torch.Tensor, np.bool_)) and verdict.ndim == 0
        return {"the answer": bool(verdict) if single else verdict}

    return run


_ONE_PASS_PROBES = [
    Probe(f"a layer {label}", _verdict(layer))
    for label, layer in {
        "with two passes": _rows(_two),
        "with one pass, cut off at 0 as Magika's": _rows(lambda x: _one(x).clamp(min=0)),
        "with one pass, rounded down, which makes nan": _rows(lambda x: _one(x) - 1e-6 * x.square().amax(-1, True)),
        "with one pass, eps = 0.001 and gains of 0.25": _rows(lambda x: _one(x).clamp(min=0), 1e-3, 0.25),
        "with two passes, eps = 0.001 and gains of 2.5": _rows(_two, 1e-3, 2.5, seed=164),
        "with E[x^2] - E[x]^2 in float64": _rows(lambda x: _one(x.double()).float()),
        "of PyTorch's": lambda x: F.layer_norm(x.detach(), (512,), eps=1e-6),
    }.items()
]
_ONE_PASS_MISTAKES = misconceptions(
    _one_pass,
    """
    # the answer is turned round: True stands for one pass.
    return bool((moved.abs() < 0.1).all())

    # nan is not seen: nan > 0.1 is False. | Ask whether all differences are small, and turn the answer round.
    return bool((moved.abs() > 0.1).any())

    # True comes out for every layer. With two passes, an offset changes the last digits as well. | Allow a small difference.
    return not torch.equal(there, here)

    # only the layer that makes nan is found. A variance cut off at 0 makes none, and rows of equal numbers give zeros by every formula. | Use rows that vary, and look for large differences too.
    return bool(moved.isnan().any())

    # the differences of this layer are small, since its gains are. In a mean they cancel. | Compare number by number, and allow 0.1 at most.
    return not bool(moved.mean().abs() < 0.1)
    """,
)
_ONE_PASS_FED = _fed(_rows(_two), lambda answer, layer: answer(layer))


def _offset(inputs, text):
    """What the inputs of one_pass tell about the offset; None if it is a good one."""
    far, near = max(inputs, key=lambda x: x.abs().mean()), min(inputs, key=lambda x: x.abs().mean())
    offset, equal = far - near, all((x == x[:, :1]).all() for x in inputs)
    size, small = offset.abs().max(), offset.abs().max() < 5e3 and "yours is False" in text
    uneven = (offset.amax(-1) - offset.amin(-1)).max() > 1e-6 * far.abs().max()
    causes = {
        "every row that the layer got is of equal numbers, and gives zeros by every formula. Use rows that vary.": equal,
        "one input does not tell: gain and bias are unknown, and one pass need not make nan. Compare the layer with itself, on the same rows with and without an offset.": not offset.any(),
        "the two inputs differ by other numbers at other places. Take the same rows twice, and add the SAME number to a whole row, which alone leaves a norm as it was.": uneven,
        "so large an offset swallows the row itself, since float32 keeps 7 digits. 1e4 is enough.": size > 1e5,
        "the offset is too small: its square has to use up the 7 digits of float32, also where eps = 0.001 is added. Take 1e4.": small,
    }
    return next((cause for cause, applies in causes.items() if applies), None)


def one_pass(answer):
    """Check a function layer -> whether its variance is taken as E[x^2] - E[x]^2 in float32 (lesson 15)."""
    tried = "one pass and two, with and without nan, large and small gains and eps, PyTorch's"
    check = lambda: examine(answer, "one_pass", _ONE_PASS_PROBES, _one_pass, _ONE_PASS_MISTAKES, tried)  # noqa: E731
    _by_inputs(check, answer, _ONE_PASS_FED, _offset, [mistake.cause for mistake in _ONE_PASS_MISTAKES[2:]])


# ---- gain_of
def _gain_of(graph, root):
    size = {c.name: numpy_helper.to_array(c).size for c in graph.initializer}
    many = {name for name in size if size[name] > 1}
    name = root.output[0]
    gain = None
    while gain is None:
        node = next(node for node in graph.node if name in node.input)
        gains = [constant for constant in node.input if constant in many and node.op_type == "Mul"]
        gain = gains[0] if gains else None
        name = node.output[0]
    return gain


def _gains(answer, graph):
    """The names that answer gives for the roots of a graph's norms, joined."""
    names = [answer(graph, root) for root in graph.node if root.op_type == "Sqrt"]
    return {"the names": ", ".join(name if isinstance(name, str) else kind_of(name) for name in names)}


_GAIN_GRAPHS = {
    "two norms as Flax writes them": _graph((12, _FLAX), (1, _FLAX)),
    "two norms as PyTorch's exporter writes them": _graph((3, _TORCH), (4, _TORCH)),
    "a norm that adds a learned vector and multiplies by a number before the gain": _graph((5, _SCALED), (6, _TORCH)),
    "two norms whose operations take turns": _graph((8, _FLAX), (7, _FLAX), mixed=True),
}
_GAIN_MISTAKES = misconceptions(
    _gain_of,
    """
    # the first constant of many numbers is taken, whatever is done with it. One that is added is a bias. | Ask for a Mul.
    gains = [constant for constant in node.input if constant in many]

    # a single number is taken for a gain. | Ask for more than one.
    many = set(size)

    # the constants of this graph have another size than Magika's 512. | Ask for more than one number.
    many = {name for name in size if size[name] == 512}

    # None is returned at the first Mul, which has no such constant. | Go on to the operation that reads its output.
    return next((c for c in next(node for node in graph.node if name in node.input).input if c in many), None)

    # the constant is returned. Its name is wanted.
    return next(numpy_helper.to_array(c) for c in graph.initializer if c.name == gain)

    # the first gain of the whole graph is given for every root. | Start from this root's output.
    node = next(node for node in graph.node if node.op_type == "Mul" and many & set(node.input))

    # the next Mul in the list is taken, whose input need not come from this root. | Ask which operation reads the name.
    later = list(graph.node)[list(graph.node).index(root) :]
    node = next(node for node in later if node.op_type == "Mul" and set(node.input) & {c.name for c in graph.initializer if numpy_helper.to_array(c).size > 1})

    # the gain is sought in the second input of the Mul only. It may be the first.
    gains = [constant for constant in node.input[1:] if constant in many and node.op_type == "Mul"]

    # no operation has that name. The way goes towards the output. | Find the operation that reads the name, and go on with its .output[0]: a name, where .output is a list.
    node = next(node for node in graph.node if name in node.output)
    name = node.input[0]
    """,
)


def gain_of(answer):
    """Check a function graph, root -> name of the gain that is applied after this root (lesson 15)."""
    probes = [Probe(label, _reads(graph, _gains), seconds=2.0) for label, graph in _GAIN_GRAPHS.items()]
    tried = "norms as two exporters write them, other constants on the way, two norms side by side"
    examine(answer, "gain_of", probes, _gain_of, _GAIN_MISTAKES, tried)


# ---- fold
def _fold(gain, bias, weight, shift):
    scaled = weight * gain
    means = scaled.mean(1, keepdim=True)
    new_weight = scaled - means
    new_shift = shift + weight @ bias
    return new_weight, new_shift


_FOLDED = Contract(
    {"gain": "D", "bias": "D", "weight": "K D", "shift": "K"},
    returns=("the weight", "the shift"),
    sizes={"D": (5, 1, 2, 320), "K": (3, 1, 17)},
)


def _fold_probe(label, K, D):
    inputs = [draw(170 + i, *size) for i, size in enumerate([(D,), (D,), (K, D), (K,)])]
    return call(label, *inputs, names=tuple(_FOLDED.takes), returns=_FOLDED.returns)


_FOLD_PROBES = [_fold_probe("a layer from 5 features to 3", 3, 5), _fold_probe("a layer from 4 features to 4", 4, 4)]
_FOLD_MISTAKES = misconceptions(
    _fold,
    """
    # the mean of each column is subtracted. The mean of x meets the sum of a row of the weight. | Subtract the mean of each row.
    means = scaled.mean(0)

    # the mean is not folded: raw rows x still have theirs. | Subtract from each row of the scaled weight its mean.
    new_weight = scaled

    # the sum of each row is subtracted. The mean of x has 1/D in it already. | Subtract the row's mean.
    means = scaled.sum(1, keepdim=True)

    # the gain is left out: it multiplies the columns of the weight.
    scaled = weight

    # the gain multiplies the rows of the weight. It has a number for each feature, which is a column.
    scaled = weight * gain[:, None]

    # the weight is turned. It is (K, D), a column for each feature, and stays so: no .T.
    scaled = weight.T * gain
    # or
    new_shift = shift + weight.T @ bias

    # the means are a row, (K,), and one is subtracted from each column. They belong to the rows. | keepdim=True makes them (K, 1).
    means = scaled.mean(1)

    # torch.eye, torch.ones and torch.zeros make float32, and the arguments are float64 here. | torch.eye(D, dtype=weight.dtype).
    new_weight = scaled @ (torch.eye(len(gain)) - 1 / len(gain))

    # the weight is centered before the gain is in. | Scale first, then subtract from each row its mean.
    new_weight = (weight - weight.mean(1, keepdim=True)) * gain

    # the new weight meets the bias. The norm adds its bias last, so that the old weight meets it.
    new_shift = shift + new_weight @ bias

    # the norm's bias is left out: the linear layer makes weight @ bias of it.
    new_shift = shift

    # the linear layer's own shift is left out.
    new_shift = weight @ bias
    """,
)


def fold(answer):
    """Check a function gain, bias, weight, shift -> (weight, shift) of the linear layer that needs 1/sigma only (lesson 15)."""
    how = {"tried": "square and other layers, random gains, gradients", "contract": _FOLDED}
    examine(answer, "fold", _FOLD_PROBES, in_float64(_fold), _FOLD_MISTAKES, **how)

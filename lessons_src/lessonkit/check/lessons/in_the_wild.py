"""Checks of lesson 15: reading a norm out of an ONNX graph, asking layers, a shipped network rebuilt, folding."""

import functools
import itertools
import re
import types

import numpy as np
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional as F

from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.core import NotYet, Probe, call, draw, gradients, in_float64, known, observe, raised
from lessonkit.check.wording import kind_of


def _by_inputs(run, try_it, layer, tell, weak):
    """Run a check. If its rejection has no cause, or a weak one, ask tell(what the answer gives this layer) for one."""
    try:
        run()
    except NotYet as error:
        text, given = str(error), []
        if "Probable cause" in text and not any(cause in text for cause in weak):
            raise
        spy = lambda x: (layer(x), given.append(x.detach().float().clone()))[0]  # noqa: E731
        cause = observe(Probe("", lambda try_it: {"cause": [try_it(spy), tell(given, text)][1]}), try_it).get("cause")
        raise (NotYet(text.partition("\n")[0] + f"\nProbable cause: {cause}") if cause else error) from None


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
_ROOTS = (  # roots that are no norm: of a constant, the input, a product, two computed numbers, a vector added, constants
    "o = Sqrt(part) ; f = Mul(x, part) ; g = Sqrt(f) ; j = Add(f, g) ; l = Sqrt(j) ; e = Add(x, bias) ; z = Sqrt(e) ; "
    "c = Add(x, zero) ; k = Tanh(c) ; i = Sqrt(x) ; h = Add(eps, zero) ; n = Sqrt(h)"
)


def _graph(*parts, mixed=False):
    """Return an ONNX graph of these parts, their names told apart by numbers. mixed: their lines take turns."""
    lines = [[re.sub(r"\b([a-z]+)\b", rf"\g<1>{i}", line) for line in part.split(" ; ")] for i, part in parts]
    lines = [line for turn in zip(*lines, strict=True) for line in turn] if mixed else sum(lines, [])
    nodes = [re.fullmatch(r"(\w+) = (\w+)\((.*)\)", line).groups() for line in lines]
    nodes = [helper.make_node(kind, read.split(", "), [made]) for made, kind, read in nodes]
    made = {name for node in nodes for name in node.output}
    free = dict.fromkeys(name for node in nodes for name in node.input if name not in made and name[0] != "x")
    values = lambda i: {"eps": 10.0 ** -int(i), "gain": np.ones((2 if i > "2" else 512, 1)), "bias": np.zeros(3)}  # noqa: E731
    constants = []
    for name in free:
        value = (values(name[-1]) | {"part": [0.5], "zero": 0})[name.rstrip("0123456789")]
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
    return helper.make_graph(nodes, "graph", [], [], constants[::-1])


def _epsilons(graph):
    constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    found = []
    for root in graph.node:
        add = maker.get(root.input[0]) if root.op_type == "Sqrt" else None
        if add is not None and add.op_type == "Add":
            given = [constants[n] for n in add.input if n in constants]
            if len(given) == 1 and given[0].size == 1:
                found.append(given[0].item())
    return found


def _listed(graph):
    """A run: what answer finds in a graph, as text with three digits, so that a float32 1e-06 is 1e-06."""

    def run(answer):
        found = answer(graph)
        if isinstance(found, (list, tuple, np.ndarray, torch.Tensor)):
            found = ", ".join(f"{float(value):.3g}" for value in found) or "none"
        return {"the list": found}

    return run


_GRAPHS = {
    "a graph with three norms as Flax writes them, two with one eps": _graph((6, _FLAX), (5, _FLAX), (16, _FLAX)),
    "a graph with two norms as PyTorch's exporter writes them, eps the first input": _graph((5, _TORCH), (7, _TORCH)),
    "a graph with other roots before its norms": _graph((4, _ROOTS), (3, _FLAX), (8, _FLAX)),
    "a graph with two norms whose operations take turns": _graph((4, _FLAX), (7, _FLAX), mixed=True),
    "a graph with roots and no norm": _graph((2, _ROOTS)),
}
_MADE, _GUARD = 'maker.get(root.input[0]) if root.op_type == "Sqrt" else None', "len(given) == 1 and given[0].size == 1"
_ONE_MORE, _ALL = "found.append(given[0].item())", "found += [one.item() for one in given if one.size == 1]"
_TWO = "an Add of two constants is taken. One of its inputs has to be computed: the variance."
_NO_ROOT = "every Add of a single number is taken. It is a norm's only if a Sqrt takes its result."
_EPSILON_MISTAKES = known(
    _epsilons,
    {
        f"{_MADE} -> root": _NO_ROOT,
        'and add.op_type == "Add" -> ': "a root of something else is taken for a norm, as the root of a product. What it takes has to come from an Add.",
        "maker.get(root.input[0]) if -> maker[root.input[0]] if": "no operation makes that name: it is a constant, or the graph's input. maker.get(name) gives None then.",
        "maker.get(root.input[0]) if -> list(graph.node)[list(graph.node).index(root) - 1] if": "the operation before the Sqrt in the list is taken. What counts is which one makes its input: the one with root.input[0] in its .output.",
        "len(given) == 1 and -> given and": _TWO,
        f"{_GUARD} -> True ; {_ONE_MORE} -> {_ALL}": _TWO,
        f"{_MADE} -> root ; {_GUARD} -> True ; {_ONE_MORE} -> {_ALL}": _NO_ROOT,
        " and given[0].size == 1 -> ": "a constant of several numbers is taken: that is no eps. Ask for .size == 1.",
        "for n in add.input -> for n in add.input[1:]": "eps is sought in the second input of the Add only. It may be the first.",
        "for n in add.input -> for n in add.input[:1]": "eps is sought in the first input of the Add only. It may be the second.",
        "return found -> return found[:1]": "only the first norm is listed. Go through all operations before you return.",
        "return found -> return list(dict.fromkeys(found))": "an eps that several norms share is listed once. List one for each norm.",
        "given[0].item() -> 1e-6": "the number 1e-6 is written into the answer. Read the constant.",
        "given[0].item() -> next(n for n in add.input if n in constants)": "the names of the constants are listed. Their numbers are wanted: numpy_helper.to_array(c).item().",
    },
)


def epsilons(answer):
    """Check a function graph -> list of the eps under its roots, in order (lesson 15)."""
    probes = [Probe(label, _listed(graph)) for label, graph in _GRAPHS.items()]
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
    return axes, tuple(n if v else 1 for n, v in zip(bias.shape, varies, strict=True))


def _layer(axes, affine, seed):
    """A norm over these axes, with a gain and a bias of this shape."""
    gain, bias = 1 + 0.1 * draw(seed, *affine, dtype=torch.float32), draw(seed + 1, *affine, dtype=torch.float32)

    def layer(x):
        if x.requires_grad:
            raise ValueError("this layer has no gradient. Change a number of x, and see which outputs change.")
        x = x.float()
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * gain + bias

    return layer


def _asked(axes, affine, shape, seed, parts):
    def run(answer):
        found = answer(_layer(axes, affine, seed), shape)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return {"the axes": found if found is None else "not in a pair (axes, bias_shape)"}
        seen = {name: _whole(item) for name, item in zip(("the axes", "the shape of the bias"), found, strict=True)}
        if isinstance(seen["the axes"], tuple):
            seen["the axes"] = tuple(sorted(axis % 3 for axis in seen["the axes"]))
        return dict(list(seen.items())[:parts])

    return Probe(f"a norm of shape {shape} with mean over {axes} and a bias of shape {affine}", run)


def _whole(item):
    """Whole numbers in any form as a tuple; anything else as it is."""
    item = item.tolist() if hasattr(item, "tolist") else item
    item = [item] if type(item) is int else item
    return tuple(int(n) for n in item) if isinstance(item, (tuple, list)) else item


_LAYERS = [
    ((2,), (1, 7), (3, 5, 7), 151),  # LayerNorm over the features
    ((1,), (8, 1), (3, 8, 5), 152),  # Magika's first
    ((1,), (1, 6), (2 + 2, 5, 6), 153),  # InstanceNorm
    ((1, 2), (4, 6), (3, 4, 6), 154),  # LayerNorm over positions and features
    ((0, 1), (1, 5), (4, 3, 5), 155),  # BatchNorm
    ((2,), (1, 1), (5, 4, 6), 156),
]
_EVERY = "every axis comes out: either all numbers were moved, which a norm forgets but for rounding, or the places were taken that did NOT change. Move a single number, and look where the output changes."
_WHOLE_SAMPLE = "that is the shape of a whole sample. Feed zeros, of which only the bias is left, and put 1 for an axis along which it does not vary."
_CHANGED, _SIZES = "places[:, axis].any()", "tuple(n if v else 1 for n, v in zip(bias.shape, varies, strict=True))"
_HABIT = "the bias is not asked for. It need not lie along the axes of the statistics, nor along the features: feed zeros, and look along which axes the output varies."
_ALIKE = "apart from constants the layer got one and the same tensor, which cannot show what a change does. Add 1 to a single number of a copy: y = x is none, y = x.clone() is, and float32 loses a much smaller step."
_STEP = "the change is too small: float32 or a tolerance loses such a step next to the number. Add 1."
_AXES_MISTAKES = known(
    _ask,
    {
        f"if {_CHANGED} -> if not {_CHANGED}": "those are the axes along which the change did not go. The others share the mean.",
        "layer(moved) != layer(x) -> layer(moved) == layer(x)": _EVERY,
        "moved[0, 0, 0] += 1 -> moved += 1": _EVERY,
        "moved[0, 0, 0] += 1 -> moved[0, 0] += 1": "a whole row of features was moved, and a norm over the features forgets that. Move a single number.",
        "range(3) -> range(1, 3)": "axis 0 is not looked at. A norm may share its mean across the batch.",
    },
)
_BIAS_MISTAKES = known(
    _ask,
    {
        "layer(torch.zeros(shape))[0] -> layer(x)[0]": _WHOLE_SAMPLE,
        "n if v else 1 -> n": _WHOLE_SAMPLE,
        "n if v else 1 -> 1 if v else n": "1 is for an axis along which the bias does NOT vary.",
        "n if v else 1 -> 1": "1 comes out for both axes. If you ask by .any() whether numbers are equal, one equal pair is enough, as a number and itself: ask by .all().",
        f"{_SIZES} -> tuple(n if axis in axes else 1 for axis, n in zip((1, 2), bias.shape, strict=True))": _HABIT,
        f"{_SIZES} -> (1, shape[2])": _HABIT,
    },
)
_ASK_STAGES = [
    ([_asked(*layer, parts=1) for layer in _LAYERS], _AXES_MISTAKES, "the axes"),
    ([_asked(*layer, parts=2) for layer in _LAYERS], _BIAS_MISTAKES, "the bias"),
]


def ask(answer):
    """Check a function layer, shape -> (axes that share a mean, shape of the bias) (lesson 15)."""
    right = f"ask finds axes and bias of {len(_LAYERS)} norms, from LayerNorm to BatchNorm"
    run = lambda: in_stages(answer, "ask", _ASK_STAGES, _ask, right, kind="function")  # noqa: E731
    _by_inputs(run, lambda layer: answer(layer, (3, 5, 7)), _layer((2,), (1, 7), 151), _changed, (_EVERY,))


def _changed(given, text):
    """What the inputs of ask tell: that nothing was changed, or by too little."""
    varied = [x for x in given if x.numel() and (x != x.flatten()[0]).any()]
    gaps = [(a - b).abs() for a, b in itertools.combinations(given, 2) if a.shape == b.shape]
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
        x = F.gelu(self.embed(tokens), approximate="tanh")
        x = x.reshape(len(tokens), 512, 256)
        x = self.norm1(x.mT)
        x = F.gelu(self.conv(x), approximate="tanh").amax(-1)
        return self.head(self.norm2(x))


class _Marked(nn.LayerNorm):  # a norm that is not F.layer_norm: its last axis is turned round first
    def forward(self, x):
        return super().forward(x.flip(-1))


@functools.cache
def _weights(*shapes):
    """Random weights of these shapes, drawn once: there are 784,214 of them."""
    return [draw(170 + i, *shape, dtype=torch.float32) for i, shape in enumerate(shapes)]


def _run(norm, files, gradient=False):
    def run(cls):
        typer = cls(norm).requires_grad_(False)
        for parameter, drawn in zip(typer.parameters(), _weights(*(p.shape for p in typer.parameters())), strict=True):
            parameter.copy_(drawn)
        typer.conv.weight *= 0.004  # small enough for both sides of the GELU after it
        tokens = torch.randint(257, (files, 2048), generator=torch.Generator().manual_seed(158))
        made = {"the eps of norm1 and norm2": (typer.norm1.eps, typer.norm2.eps)}
        given, leaves = tokens.clone(), {"norm1's gain": typer.norm1.weight, "embed.weight": typer.embed.weight}
        for leaf in leaves.values() if gradient else ():
            leaf.requires_grad_()
        try:
            y = typer(given)
        except Exception as error:
            return made | {"the logits": raised(error)}
        seen = made | {"tokens after the call": given, "the logits": y.detach() if isinstance(y, torch.Tensor) else y}
        if not gradient or not isinstance(y, torch.Tensor):
            return seen
        if not y.requires_grad:
            return seen | {f"gradient of {name}": "no gradient" for name in leaves}
        return seen | gradients((y * draw(159, *y.shape, dtype=y.dtype)).sum(), leaves)

    return run


_TYPER_PROBES = [  # float32: sums of 1,280 products are off by some 1e-5
    Probe("a file of random bytes, all weights random", _run(nn.LayerNorm, 1, gradient=True), tolerance=1e-4),
    Probe("two files and a norm that turns its last axis round", _run(_Marked, 2), tolerance=1e-4),
    Probe("no file at all", _run(nn.LayerNorm, 0)),
]
_SECOND, _NORM1, _LAST = "F.gelu(self.conv(x), approximate=", "self.norm1(x.mT)", "self.head(self.norm2(x))"
_TYPER_MISTAKES = known(
    _FileTyper,
    {
        f"{_NORM1} -> F.layer_norm(x, (256,), eps=1e-6).mT * self.norm1.weight + self.norm1.bias": "norm 1 takes its mean over the features. It belongs over the 512 positions: exchange the last two axes, then call self.norm1.",
        f"{_NORM1} -> self.norm1(x.reshape(len(tokens), 256, 512))": "reshape keeps the order of the numbers, so that features and positions are mixed (section 14.1). Exchange the axes with x.mT.",
        f"{_NORM1} -> F.layer_norm(x.mT, (512,), self.norm1.weight, self.norm1.bias, 1e-6)": "norm 1 is written as F.layer_norm. Call self.norm1, so that the caller chooses the norm.",
        f"{_NORM1} -> x.mT": "norm 1 is left out.",
        f"{_NORM1} -> self.norm1(x)": "a step was given another shape than it takes: both norms take 512 last, conv takes (B, 256, 512). Print x.shape after each step, and compare with the table.",
        f"{_LAST} -> self.head(x)": "norm 2 is left out.",
        f"{_LAST} -> {_LAST}.softmax(-1)": "those are shares. The logits are wanted: leave the softmax away.",
        f'{_SECOND}"tanh" -> {_SECOND}"none"': 'the second GELU is the exact form. The original uses the other one: approximate="tanh".',
        f'{_SECOND}"tanh") -> self.conv(x)': "the GELU after the convolution is missing.",
        f'{_SECOND}"tanh").amax(-1) -> F.gelu(self.conv(x).amax(-1), approximate="tanh")': "the largest value is taken before the GELU. GELU falls before it rises, so the order counts: GELU first.",
        "self.conv(x) -> self.conv(F.pad(x, (2, 2)))": "zeros are put around the positions before the convolution. It has no padding: 508 positions come out of 512.",
        "tokens), 512, -> tokens), -1,": "if you wrote -1 for the 512 positions: with no file, -1 could be any number. Write 512.",
        "amax(-1) -> amax(-1).squeeze()": "squeeze() takes away the batch of a single file as well. amax(-1) leaves (B, 512) by itself.",
        "amax(-1) -> max(-1)": "max(-1) returns the largest values and their places. Take its .values, or call amax(-1).",
        "amax(-1) -> mean(-1)": "that is the mean over the positions. The largest value is wanted: amax(-1).",
    },
)


def file_typer(answer):
    """Check a class FileTyper(norm): Magika's network, tokens (B, 2048) -> logits (B, 214) (lesson 15)."""
    right = "{answer.__name__} computes what Magika's network does, with the norms that it is given, on {count} inputs"
    in_stages(answer, "file_typer", [(_TYPER_PROBES, _TYPER_MISTAKES)], _FileTyper, right)


# ---- one_pass
def _one_pass(layer):
    rows = torch.arange(512.0).remainder(7).repeat(2, 1)
    moved = layer(rows + 65536) - layer(rows)
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


def _told(layer):
    def run(answer):
        said = answer(layer)
        return {"the answer": bool(said) if isinstance(said, (torch.Tensor, np.bool_)) and said.ndim == 0 else said}

    return run


_ONE_PASS_PROBES = [
    Probe(f"a layer {label}", _told(layer))
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
_STRICT = "True comes out for every layer. With two passes, an offset changes the last digits as well: allow a small difference."
_SMALL = "not bool((moved.abs() < 0.1).all())"
_ONE_PASS_MISTAKES = known(
    _one_pass,
    {
        "return not bool -> return bool": "the answer is turned round: True stands for one pass.",
        f"{_SMALL} -> bool((moved.abs() > 0.1).any())": "nan is not seen: nan > 0.1 is False. Ask whether all differences are small, and turn the answer round.",
        f"{_SMALL} -> not torch.equal(layer(rows + 65536), layer(rows))": _STRICT,
        f"{_SMALL} -> bool(moved.isnan().any())": "only the layer that makes nan is found. A variance cut off at 0 makes none, and rows of equal numbers give zeros by every formula: use rows that vary, and look for large differences too.",
        "(moved.abs() < 0.1).all() -> moved.mean().abs() < 0.1": "the differences of this layer are small, since its gains are. Compare number by number, because in a mean they cancel, and allow 0.1 at most.",
    },
)


def _offset(given, text):
    """What the inputs of one_pass tell about the offset; None if it is a good one."""
    far, near = max(given, key=lambda x: x.abs().mean()), min(given, key=lambda x: x.abs().mean())
    offset, equal = far - near, all((x == x[:, :1]).all() for x in given)
    size, small = offset.abs().max(), offset.abs().max() < 5e3 and "yours is False" in text
    uneven = (offset.amax(-1) - offset.amin(-1)).max() > 1e-6 * far.abs().max()
    causes = {
        "every row that the layer got is of equal numbers, and gives zeros by every formula. Use rows that vary.": equal,
        "one input does not tell: the layer has a gain and a bias that you do not know, and one pass need not make nan. Compare the layer with itself, on the same rows with and without an offset.": not offset.any(),
        "the two inputs differ by other numbers at other places. Take the same rows twice, and add the SAME number to a whole row, which alone leaves a norm as it was.": uneven,
        "so large an offset swallows the row itself, since float32 keeps 7 digits. 1e4 is enough.": size > 1e5,
        "the offset is too small: its square has to use up the 7 digits of float32, also where eps = 0.001 is added. Take 1e4.": small,
    }
    return next((cause for cause, found in causes.items() if found), None)


def one_pass(answer):
    """Check a function layer -> whether its variance is taken as E[x^2] - E[x]^2 in float32 (lesson 15)."""
    tried = "one pass and two, with and without nan, large and small gains and eps, PyTorch's"
    run = lambda: examine(answer, "one_pass", _ONE_PASS_PROBES, _one_pass, _ONE_PASS_MISTAKES, tried)  # noqa: E731
    _by_inputs(run, answer, _rows(_two), _offset, [one.cause for one in _ONE_PASS_MISTAKES[2:]])


# ---- gain_of
def _gain_of(graph, root):
    many = {c.name for c in graph.initializer if numpy_helper.to_array(c).size > 1}
    name = root.output[0]
    while True:
        node = next(node for node in graph.node if name in node.input)
        gains = [given for given in node.input if given in many]
        if node.op_type == "Mul" and gains:
            return gains[0]
        name = node.output[0]


class _Node:
    """A node whose parts can be read 20,000 times in a probe (right answers need some hundred): no endless loop hangs."""

    def __init__(self, node, reads):
        self._node, self._reads = node, reads

    def __getattr__(self, part):
        if next(self._reads) > 20_000:
            raise RuntimeError("after 20,000 looks at operations the loop was stopped.")
        return getattr(self._node, part)


def _gains(graph):
    """A run: the names that answer gives for the roots of a graph's norms, joined."""

    def run(answer):
        reads = itertools.count()
        counted = types.SimpleNamespace(node=[_Node(n, reads) for n in graph.node], initializer=graph.initializer)
        roots = [node for node in counted.node if node.op_type == "Sqrt"]
        names = [answer(counted, root) for root in roots]
        return {"the names": ", ".join(name if isinstance(name, str) else kind_of(name) for name in names)}

    return run


_GAIN_GRAPHS = {
    "two norms as Flax writes them": _graph((12, _FLAX), (1, _FLAX)),
    "two norms as PyTorch's exporter writes them": _graph((3, _TORCH), (4, _TORCH)),
    "a norm that adds a learned vector and multiplies by a number before the gain": _graph((5, _SCALED), (6, _TORCH)),
    "two norms whose operations take turns": _graph((8, _FLAX), (7, _FLAX), mixed=True),
}
_READER, _BIG_MUL = "if name in node.input)", 'if node.op_type == "Mul" and many & set(node.input)'
_SIZE = "the constants of this graph have another size than Magika's 512. Ask for more than one number."
_GAIN_MISTAKES = known(
    _gain_of,
    {
        'node.op_type == "Mul" and gains -> gains': "the first constant of many numbers is taken, whatever is done with it. One that is added is a bias: ask for a Mul.",
        "size > 1 -> size > 0": "a single number is taken for a gain. Ask for more than one.",
        "size > 1 -> size == 512": _SIZE,
        f"size > 1 -> size == 512 ; while True -> for node in graph.node ; node = next(node for node in graph.node {_READER} -> if name not in node.input: continue": _SIZE,
        "and gains -> and name ; return gains[0] -> return gains[0] if gains else None": "None is returned at the first Mul, which has no such constant. Go on to the operation that reads its output.",
        "return gains[0] -> return next(numpy_helper.to_array(c) for c in graph.initializer if c.name == gains[0])": "the constant is returned. Its name is wanted.",
        f"{_READER} -> {_BIG_MUL})": "the first gain of the whole graph is given for every root. Start from this root's output.",
        f"{_READER} -> {_BIG_MUL} and list(graph.node).index(node) > list(graph.node).index(root))": "the next Mul in the list is taken, whose input need not come from this root. Ask which operation reads the name.",
        "for given in node.input -> for given in node.input[1:]": "the gain is sought in the second input of the Mul only. It may be the first.",
        "name = node.output[0] -> name = name": "the name never changes, so the loop never ends. At the end of a turn it becomes the operation's .output[0].",
        f"{_READER} -> if name in node.output) ; = node.output[0] -> = node.input[0]": "no operation has that name. The way goes towards the output: find the one that reads the name, and go on with its .output[0], which is a name, where .output is a list.",
    },
)


def gain_of(answer):
    """Check a function graph, root -> name of the gain that is applied after this root (lesson 15)."""
    probes = [Probe(label, _gains(graph)) for label, graph in _GAIN_GRAPHS.items()]
    tried = "norms as two exporters write them, other constants on the way, two norms side by side"
    examine(answer, "gain_of", probes, _gain_of, _GAIN_MISTAKES, tried)


# ---- fold
def _fold(gain, bias, weight, shift):
    scaled = weight * gain
    return scaled - scaled.mean(1, keepdim=True), shift + weight @ bias


def _fold_probe(label, K, D, dtype=torch.float64, tolerance=1e-9):
    given = [draw(170 + i, *size, dtype=dtype) for i, size in enumerate([(D,), (D,), (K, D), (K,)])]
    names = ("gain", "bias", "weight", "shift")
    return call(label, *given, names=names, returns=("the weight", "the shift"), tolerance=tolerance)


_FOLD_PROBES = [
    _fold_probe("a layer from 5 features to 3", 3, 5),
    _fold_probe("a layer from 4 features to 4", 4, 4),
    _fold_probe("a float32 layer from 6 features to 1", 1, 6, torch.float32, 1e-5),
]
_ROWS_OF = "scaled.mean(1, keepdim=True)"
_TURNED = "the weight is turned. It is (K, D), a column for each feature, and stays so: no .T."
_FOLD_MISTAKES = known(
    _fold,
    {
        f"{_ROWS_OF} -> scaled.mean(0)": "the mean of each column is subtracted. The mean of x meets the sum of a row of the weight: subtract the mean of each row.",
        f"{_ROWS_OF} -> scaled.mean()": "one mean for the whole matrix. Each row needs its own.",
        f"scaled - {_ROWS_OF} -> scaled": "the mean is not folded: raw rows x still have theirs. Subtract from each row of the scaled weight its mean.",
        f"{_ROWS_OF} -> scaled.sum(1, keepdim=True)": "the sum of each row is subtracted. The mean of x has 1/D in it already: subtract the row's mean.",
        "scaled = weight * gain -> scaled = weight": "the gain is left out: it multiplies the columns of the weight.",
        "weight * gain -> weight * gain[:, None]": "the gain multiplies the rows of the weight. It has a number for each feature, which is a column.",
        "weight * gain -> weight.T * gain": _TURNED,
        "weight @ bias -> weight.T @ bias": _TURNED,
        f"{_ROWS_OF} -> scaled.mean(1)": "the means are a row, (K,), and one is subtracted from each column. They belong to the rows: keepdim=True makes them (K, 1).",
        f"scaled - {_ROWS_OF} -> scaled @ (torch.eye(len(gain)) - 1 / len(gain))": "torch.eye, torch.ones and torch.zeros make float32, and the arguments are float64 here. Write torch.eye(D, dtype=weight.dtype).",
        "weight @ bias -> (weight - weight.mean(1, keepdim=True)) @ bias": "the weight that meets the bias is centered. The bias is added after the mean is gone: take the weight as it was.",
        f"weight * gain -> (weight - weight.mean(1, keepdim=True)) * gain ; scaled - {_ROWS_OF} -> scaled": "the weight is centered before the gain is in. Scale first, then subtract from each row its mean.",
        f"weight @ bias -> (scaled - {_ROWS_OF}) @ bias": "the new weight meets the bias. The norm adds its bias last, so that the old weight meets it.",
        "shift + weight @ bias -> shift + scaled @ bias": "the gain is applied to the bias. The bias is added after the gain: take the weight as it was.",
        "shift + weight @ bias -> shift": "the norm's bias is left out: the linear layer makes weight @ bias of it.",
        "shift + weight @ bias -> weight @ bias": "the linear layer's own shift is left out.",
    },
)


def fold(answer):
    """Check a function gain, bias, weight, shift -> (weight, shift) of the linear layer that needs 1/sigma only (lesson 15)."""
    tried = "three sizes, one of them square, random gains, gradients"
    examine(answer, "fold", _FOLD_PROBES, in_float64(_fold), _FOLD_MISTAKES, tried)

"""Answers to the exercises of lesson 15."""

import numpy as np
import torch
from onnx import numpy_helper
from torch.nn import functional as F

from lessonkit.check.lessons.in_the_wild import _ask, _epsilons, _FileTyper, _fold, _gain_of, _one_pass
from lessonkit.check.mistakes import edited


def by_walking(graph):
    """Without dictionaries, and as an array."""
    sizes = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    found = []
    for root in graph.node:
        for add in graph.node:
            if root.op_type == "Sqrt" and add.op_type == "Add" and root.input[0] in add.output:
                known = [sizes[n].flatten() for n in add.input if n in sizes]
                found += [float(value[0]) for value in known if len(known) == len(value) == 1]
    return np.array(found)


def by_comparing(layer, shape):
    """Changes the last number, and reads the bias off ones."""
    x = torch.randn(shape)
    moved = x.clone()
    moved[-1, -1, -1] = 7
    changed = layer(moved) != layer(x)
    axes = [axis for axis in range(3) if changed.any(axis).sum() < changed.sum()]
    bias = layer(torch.ones(shape))[0]
    return axes, torch.Size([len({tuple(row) for row in rows.tolist()}) for rows in (bias, bias.mT)])


class Described(_FileTyper):
    def forward(self, tokens):
        x = torch.nn.GELU("tanh")(self.embed(tokens))
        x = x.view(-1, 512, 4 * 64) if len(tokens) else x.new_zeros(0, 512, 256)
        x = self.conv(self.norm1(x.permute(0, 2, 1)))
        return self.head(self.norm2(F.gelu(x, approximate="tanh").max(-1).values))


def by_steps(layer):
    rows = torch.randint(0, 9, (4, 512)).float()
    far, near = layer(rows + 2.0**17), layer(rows)
    return (far - near).nan_to_num(1e9).abs().max() > 0.1


def by_recursion(graph, root):
    node = next(n for n in graph.node if root.output[0] in n.input)
    sizes = {c.name: np.prod(c.dims) for c in graph.initializer}
    here = [name for name in node.input if sizes.get(name, 0) > 1 and node.op_type == "Mul"]
    return here[0] if here else by_recursion(graph, node)


def by_projection(gain, bias, weight, shift):
    D = len(gain)
    center = torch.eye(D, dtype=gain.dtype) - torch.ones(D, D, dtype=gain.dtype) / D
    return weight @ torch.diag(gain) @ center, F.linear(bias, weight, shift)


BANK = {
    "epsilons": {
        "right": {
            "two dictionaries": _epsilons,
            "by walking, as an array": by_walking,
            "as a tensor": edited(_epsilons, "return found -> return torch.tensor(found)"),
        },
        "wrong": {
            "a number": (lambda graph: 1e-6, "expected"),
            "the roots": (lambda graph: [n.name for n in graph.node if n.op_type == "Sqrt"], "ValueError"),
            "nothing": (lambda graph: None, "return"),
            "by the name of the constant": (
                lambda graph: [numpy_helper.to_array(c).item() for c in graph.initializer if "eps" in c.name],
                "expected",
            ),
        },
    },
    "ask": {
        "right": {
            "one number and zeros": _ask,
            "another number, ones, other forms": by_comparing,
            "fed with ones": edited(_ask, "torch.zeros -> torch.ones"),
        },
        "wrong": {
            "always LayerNorm": (lambda layer, shape: ((2,), (1, shape[2])), "expected (1,)"),
            "only the axes": (lambda layer, shape: _ask(layer, shape)[0], "not in a pair"),
            "the pair turned round": (lambda layer, shape: _ask(layer, shape)[::-1], "the axes"),
            "with the batch": (edited(_ask, "tuple(n if v -> (1,) + tuple(n if v"), "Right so far: the axes"),
            "by autograd": (lambda layer, shape: layer(torch.zeros(shape, requires_grad=True)), "has no gradient"),
        },
    },
    "file_typer": {
        "right": {
            "as in the table": _FileTyper,
            "with other words": Described,
            "two axes exchanged": edited(_FileTyper, "x.mT -> x.transpose(2, 1).contiguous()"),
        },
        "wrong": {
            "turned back": (edited(_FileTyper, "self.norm1(x.mT) -> self.norm1(x.mT).mT"), "another shape"),
            "cut off from the weights": (edited(_FileTyper, "self.norm2(x)) -> self.norm2(x.detach()))"), "gradient"),
            "an instance": (_FileTyper(), "without brackets"),
        },
        "generic_exceptions": ["a little too high"],  # by 3e-4, and float32 logits of 20 may be off by 2e-3
    },
    "one_pass": {
        "right": {
            "an offset": _one_pass,
            "other rows, a tensor": by_steps,
            "a far offset": edited(_one_pass, "65536 -> 2**20"),
        },
        "wrong": {
            "always": (lambda layer: True, "for every layer"),
            "a number": (lambda layer: 1.5, "expected False"),
            "in float64": (edited(_one_pass, "torch.arange(512.0) -> torch.arange(512.0).double()"), "torch.float32"),
        },
    },
    "gain_of": {
        "right": {
            "a loop": _gain_of,
            "recursion": by_recursion,
            "from the end": edited(_gain_of, "node in graph.node -> node in reversed(graph.node)"),
        },
        "wrong": {"the operation": (lambda graph, root: root, "expected")},
    },
    "fold": {
        "right": {
            "rows": _fold,
            "a projection": by_projection,
            "by sums": edited(_fold, "scaled.mean(1, keepdim=True) -> scaled.sum(1, keepdim=True) / len(gain)"),
        },
        "wrong": {
            "in place": (edited(_fold, "weight * gain -> weight.mul_(gain)"), "changed its input"),
            "one of two": (lambda *given: _fold(*given)[0], "expected the weight and the shift"),
        },
    },
}

"""Answers to the exercises of lesson 15."""

import torch

from lessonkit.check.lessons.in_the_wild import _ask, _epsilons, _FileTyper, _fold, _gain_of, _one_pass
from lessonkit.check.misconceptions import instead


def one_way(graph, root):
    many = {c.name for c in graph.initializer if len(c.raw_data) > 4}
    name = root.output[0]
    for node in graph.node:
        if name not in node.input:
            continue
        gains = many.intersection(node.input)
        if node.op_type == "Mul" and gains:
            return gains.pop()
        name = node.output[0]


ANSWERS = {
    "epsilons": {
        "right": {
            "two dictionaries": _epsilons,
            "as an array": instead(_epsilons, "return np.array([c.item() for c in single])"),
            "as a tensor": instead(_epsilons, "return torch.tensor([c.item() for c in single])"),
        },
        "wrong": {
            "a number": (lambda graph: 1e-6, "expected"),
            "the roots": (lambda graph: [n.name for n in graph.node if n.op_type == "Sqrt"], "ValueError"),
        },
    },
    "ask": {
        "right": {
            "one number and zeros": _ask,
            "ones, other forms": instead(
                _ask, "bias = layer(torch.ones(shape))[0]\nreturn list(axes), torch.Size(bias_shape)"
            ),
            "a new value": instead(_ask, "moved = torch.cat([torch.full((1,), 7.0), x.flatten()[1:]]).view(shape)"),
        },
        "wrong": {
            "always LayerNorm": (lambda layer, shape: ((2,), (1, shape[2])), "expected (1,)"),
            "only the axes": (lambda layer, shape: _ask(layer, shape)[0], "not in a pair"),
            "with the batch": (instead(_ask, "return axes, (1, *bias_shape)"), "Right so far: the axes"),
            "no copy": (instead(_ask, "moved = x"), "y = x is none"),
            "a step of 1e-9": (instead(_ask, "moved[0, 0, 0] += 1e-9"), "float32 loses"),
            "a step of .01": (
                instead(_ask, "moved[0, 0, 0] += .01\nplaces = (layer(moved) - layer(x) > 1).nonzero()"),
                "too small",
            ),
            "by means": (
                instead(
                    _ask, "axes = tuple(axis for axis in range(3) if layer(x).mean(axis).abs().max() < 1e-3)\nmoved = x"
                ),
                "the same tensor",
            ),
            "by autograd": (lambda layer, shape: layer(torch.zeros(shape, requires_grad=True)), "has no gradient"),
        },
    },
    "file_typer": {
        "right": {
            "as in the table": _FileTyper,
            "with other words": instead(
                _FileTyper, "normed = self.norm1(rows.permute(0, 2, 1))\npooled = active.max(-1).values"
            ),
            "two axes exchanged": instead(_FileTyper, "normed = self.norm1(rows.transpose(2, 1).contiguous())"),
        },
        "wrong": {
            "turned back": (instead(_FileTyper, "normed = self.norm1(rows.mT).mT"), "a different shape"),
            "cut off from the weights": (
                instead(_FileTyper, "logits = self.head(self.norm2(pooled.detach()))"),
                "gradient",
            ),
            "an instance": (_FileTyper(), "without brackets"),
        },
        "generic_exceptions": ["a little too high"],  # by 3e-4, and float32 logits of 20 may be off by 2e-3
    },
    "one_pass": {
        "right": {
            "an offset": _one_pass,
            "other rows, a tensor": lambda layer: (
                (layer((x := torch.randint(0, 9, (4, 512)).float()) + 2.0**17) - layer(x)).nan_to_num(1e9).abs().max()
                > 0.1
            ),
            "a far offset": instead(_one_pass, "there, here = layer(rows + 2**20), layer(rows)"),
        },
        "wrong": {
            "always": (lambda layer: True, "for every layer"),
            "a number": (lambda layer: 1.5, "expected False"),
            **{
                f"fed {fed}": (instead(_one_pass, f"there, here = layer({fed}), layer(rows)"), words)
                for fed, words in {
                    "rows + 0": "with itself",
                    "rows + 1e3": "eps = 0.001",
                    "rows + 1e7": "swallows the row",
                    "rows + 1e5 * torch.rand(2, 512)": "the SAME number",
                    "rows + 65536 * (rows > 5)": "the SAME number",
                    "rows * 65536": "the SAME number",
                }.items()
            },
            "equal rows": (instead(_one_pass, "rows = torch.zeros(2, 512)"), "rows that vary"),
            "in float64": (instead(_one_pass, "rows = torch.arange(512).double().repeat(2, 1)"), "torch.float32"),
        },
    },
    "gain_of": {
        "right": {
            "a loop": _gain_of,
            "one way": one_way,
            "from the end": instead(
                _gain_of, "node = next(node for node in reversed(graph.node) if name in node.input)"
            ),
        },
        "wrong": {
            "the operation": (lambda graph, root: root, "expected"),
            "the name never changes": (instead(_gain_of, "name = name"), "runs on and on"),
            "takes the graph to pieces": (lambda graph, root: (_gain_of(graph, root), graph.node.pop())[0], "changed"),
        },
    },
    "fold": {
        "right": {
            "rows": _fold,
            "a projection": instead(
                _fold,
                "means = scaled @ torch.full_like(scaled.mT @ scaled, 1 / len(gain))\nnew_shift = F.linear(bias, weight, shift)",
            ),
            "by sums": instead(_fold, "means = scaled.sum(1, keepdim=True) / len(gain)"),
        },
        "wrong": {"one of two": (lambda *inputs: _fold(*inputs)[0], "expected the weight and the shift")},
    },
}

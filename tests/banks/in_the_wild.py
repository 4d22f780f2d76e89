"""Answers to the exercises of lesson 15."""

import torch

from lessonkit.check.lessons.in_the_wild import _ask, _epsilons, _FileTyper, _fold, _gain_of, _one_pass
from lessonkit.check.mistakes import edited

BANK = {
    "epsilons": {
        "right": {
            "two dictionaries": _epsilons,
            "as an array": edited(_epsilons, "return found -> return np.array(found)"),
            "as a tensor": edited(_epsilons, "return found -> return torch.tensor(found)"),
        },
        "wrong": {
            "a number": (lambda graph: 1e-6, "expected"),
            "the roots": (lambda graph: [n.name for n in graph.node if n.op_type == "Sqrt"], "ValueError"),
        },
    },
    "ask": {
        "right": {
            "one number and zeros": _ask,
            "ones, other forms": edited(
                _ask,
                "torch.zeros -> torch.ones ; return axes, tuple(n if v else 1 for -> return list(axes), torch.Size(n if v else 1 for",
            ),
            "a new value": edited(_ask, "moved[0, 0, 0] += 1 -> moved[0, 0, 0] = 7"),
        },
        "wrong": {
            "always LayerNorm": (lambda layer, shape: ((2,), (1, shape[2])), "expected (1,)"),
            "only the axes": (lambda layer, shape: _ask(layer, shape)[0], "not in a pair"),
            "with the batch": (edited(_ask, "tuple(n if v -> (1,) + tuple(n if v"), "Right so far: the axes"),
            "no copy": (edited(_ask, "x.clone() -> x"), "y = x is none"),
            "a step of 1e-9": (edited(_ask, "] += 1 -> ] += 1e-9"), "float32 loses"),
            "a step of .01": (
                edited(_ask, "] += 1 -> ] += .01 ; layer(moved) != layer(x) -> layer(moved) - layer(x) > 1"),
                "too small",
            ),
            "by means": (
                edited(
                    _ask,
                    "moved[0, 0, 0] += 1 -> moved = x ; places[:, axis].any() -> layer(x).mean(axis).abs().max() < 1e-3",
                ),
                "the same tensor",
            ),
            "by autograd": (lambda layer, shape: layer(torch.zeros(shape, requires_grad=True)), "has no gradient"),
        },
    },
    "file_typer": {
        "right": {
            "as in the table": _FileTyper,
            "with other words": edited(_FileTyper, "x.mT -> x.permute(0, 2, 1) ; amax(-1) -> max(-1).values"),
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
            "other rows, a tensor": edited(
                _one_pass,
                "torch.arange(512.0).remainder(7).repeat(2, 1) -> torch.randint(0, 9, (4, 512)).float() ; not bool((moved.abs() < 0.1).all()) -> moved.nan_to_num(1e9).abs().max() > 0.1 ; 65536 -> 2.0**17",
            ),
            "a far offset": edited(_one_pass, "65536 -> 2**20"),
        },
        "wrong": {
            "always": (lambda layer: True, "for every layer"),
            "a number": (lambda layer: 1.5, "expected False"),
            **{
                change: (edited(_one_pass, change), words)
                for change, words in {
                    "65536 -> 0": "with itself",
                    "65536 -> 1e3": "eps = 0.001",
                    "65536 -> 1e7": "swallows the row",
                    "65536 -> 1e5 * torch.rand(2, 512)": "the SAME number",
                    "65536 -> 65536 * (rows > 5)": "the SAME number",
                    "rows + 65536 -> rows * 65536": "the SAME number",
                    "remainder(7) -> mul(0)": "rows that vary",
                }.items()
            },
            "in float64": (edited(_one_pass, "torch.arange(512.0) -> torch.arange(512.0).double()"), "torch.float32"),
        },
    },
    "gain_of": {
        "right": {
            "a loop": _gain_of,
            "one way": edited(
                _gain_of,
                "while True -> for node in graph.node ; node = next(node for node in graph.node if name in node.input) -> if name not in node.input: continue",
            ),
            "from the end": edited(_gain_of, "node in graph.node -> node in reversed(graph.node)"),
        },
        "wrong": {"the operation": (lambda graph, root: root, "expected")},
    },
    "fold": {
        "right": {
            "rows": _fold,
            "a projection": edited(
                _fold,
                "scaled - scaled.mean(1, keepdim=True) -> scaled @ (torch.eye(len(gain), dtype=gain.dtype) - 1 / len(gain)) ; shift + weight @ bias -> F.linear(bias, weight, shift)",
            ),
            "by sums": edited(_fold, "scaled.mean(1, keepdim=True) -> scaled.sum(1, keepdim=True) / len(gain)"),
        },
        "wrong": {"one of two": (lambda *given: _fold(*given)[0], "expected the weight and the shift")},
    },
}

"""Explorables: things to play with before reading. Each is one ES module in this folder, NAME.mjs.

A module runs in JupyterLab, through anywidget and the functions below, and on a page without a kernel: its `render`
takes {model, el}, and its `start` holds the same parameters with the same defaults as the function here. What it
computes is exported, too, and compared with PyTorch in tests/test_explore.py. NAME.svg is the picture that it draws at
its start, for viewers that run no script: after an edit, `node lessons_src/lessonkit/explore/still.mjs`. One more
explorable is its module, its picture, and here a function that returns Explorable(NAME, parameters), named in __all__.
"""

import inspect
from pathlib import Path

import anywidget
from traitlets import Any

__all__ = ["batch", "block", "depth", "row"]

_HERE = Path(__file__).parent


class Explorable(anywidget.AnyWidget):
    """The explorable `name`, whose parameters are synced traits: what is changed by hand can be read from Python.

    A notebook stores its picture and its words, never its state as a widget. The picture's metadata say which module a
    page may show in its place ("explore") and with which parameters ("state").
    """

    def __init__(self, name, state):
        self._esm = (_HERE / f"{name}.mjs").read_text(encoding="utf-8")
        self._name, self._state = name, state
        self.add_traits(**{key: Any(value).tag(sync=True) for key, value in state.items()})
        super().__init__()

    def __repr__(self):
        return f"explore.{self._name}: {inspect.getdoc(globals()[self._name]).splitlines()[0]}"

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        picture = {"image/svg+xml": (_HERE / f"{self._name}.svg").read_text(encoding="utf-8")}
        about = {"image/svg+xml": {"explore": self._name, "state": self._state}}
        return data | picture | {"text/plain": repr(self)}, metadata | about


def row(x=(5, 1, -1, 4, 1, 2), gain=None, bias=None, eps=1e-5, correction=0, parts=("correction", "eps", "affine")):
    """Drag the numbers of a row and see their mean, their variance and LayerNorm of them.

    x: two to six numbers from -10 to 10; gain and bias: as many, 1 and 0 if not given. correction: 0 divides the
    squares by D, 1 by D - 1. parts: what can be changed apart from x.
    """
    x = [float(v) for v in x]
    if not 2 <= len(x) <= 6 or max(map(abs, x)) > 10:
        raise ValueError(f"explore.row takes two to six numbers from -10 to 10, not {x}.")
    gain = [1.0] * len(x) if gain is None else [float(v) for v in gain]
    bias = [0.0] * len(x) if bias is None else [float(v) for v in bias]
    if not len(gain) == len(bias) == len(x):
        raise ValueError(
            f"explore.row: {len(x)} numbers, {len(gain)} gains, {len(bias)} biases; expected one for each."
        )
    return Explorable("row", dict(x=x, gain=gain, bias=bias, eps=eps, correction=correction, parts=list(parts)))


def block(tensor="BTC", over=("C",), groups=1, squares=False, cell=None):
    """Point at a number of a tensor and see which others share its mean, for any axes and for each norm.

    tensor: "BTC" for sentences (2, 3, 4) or "BCHW" for images (2, 4, 3, 5). over: the axes that the mean runs over;
    groups: 1, 2 or 4, into which C is cut first. squares: the mean of the squares, as in RMSNorm. cell: an index.
    """
    if tensor not in ("BTC", "BCHW") or not set(over) <= set(tensor) or groups not in (1, 2, 4):
        raise ValueError(f"explore.block has no {tensor!r} with a mean over {over!r} in {groups!r} groups.")
    cell = list(cell or ((0, 1, 2) if tensor == "BTC" else (0, 1, 1, 2)))
    return Explorable("block", dict(tensor=tensor, over=list(over), groups=groups, squares=squares, cell=cell))


def depth(scale=1, norm="none", layer=10, seed=0):
    """Follow a digit through fifty layers, and its gradient back, and choose the weight scale and a norm.

    scale: the weight scale, 0.8 to 2.4. norm: LayerNorm "none", "before" or "after" each ReLU. layer: the one looked
    at, 0 to 50. seed: of the weights.
    """
    return Explorable("depth", dict(scale=scale, norm=norm, layer=layer, seed=seed))


def batch(sample=(4, -2, 2, 0, 1), neighbors=5, likeness=0.3, draw=1, mode="train"):
    """See what a sample's neighbors do to it in BatchNorm, in train and in eval mode, and in LayerNorm.

    sample: its features, from -8 to 8. neighbors: how many rows are beside it, 0 to 15. likeness: 0 as they come, 1
    copies of the sample. draw: which neighbors. mode: "train" or "eval".
    """
    running = dict(mean=[0] * len(sample), variance=[1] * len(sample), batches=0)
    state = dict(sample=list(sample), neighbors=neighbors, likeness=likeness, draw=draw, mode=mode, running=running)
    return Explorable("batch", state)

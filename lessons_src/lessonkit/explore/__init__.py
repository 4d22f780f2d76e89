"""Explorables: things to play with before reading. Each is one ES module in this folder, NAME.mjs.

host.mjs has what all of them share: numbers, words, drawing, the look of a page, hands and frames. A module says what
it computes, how it is drawn and what its controls do. It runs in JupyterLab, through anywidget and the functions below,
and on a page without a kernel: its `render` takes {model, el}, and its `start` holds the same parameters with the same
defaults as the function here. What it computes is exported, too, and compared with PyTorch in tests/test_explore.py.
NAME.svg is the picture that it draws at its start, with a title and a description, for viewers that run no script,
NAME-NUMBER.svg what it draws in a lesson that begins otherwise: after an edit, `node
lessons_src/lessonkit/explore/still.mjs`. One more explorable is its module, its picture, and here a function that
returns Explorable(NAME, parameters, what is allowed for each), named in __all__.
"""

import inspect
import json
import re
from pathlib import Path

import anywidget
from traitlets import Any

__all__ = ["backward", "batch", "block", "depth", "row", "sphere", "stream"]

_HERE = Path(__file__).parent


class Explorable(anywidget.AnyWidget):
    """The explorable `name`, whose parameters are synced traits: what is changed by hand can be read from Python.

    A notebook stores its picture and its words, never its state as a widget. The picture's metadata say which module a
    page may show in its place ("explore") and with which parameters ("state").
    allowed: for each parameter what `_numbers` or `_among` returns. ValueError for a value that is not.
    """

    def __init__(self, name, state, **allowed):
        for parameter, (convert, expected) in allowed.items():
            try:
                state[parameter] = convert(state[parameter])
            except (TypeError, ValueError):
                usual = inspect.signature(globals()[name]).parameters[parameter].default
                raise ValueError(
                    f"{parameter} of explore.{name} is {state[parameter]!r}; expected {expected}, "
                    f"for example explore.{name}({parameter}={usual!r})."
                ) from None
        self._esm = _joined(name)
        self._name, self._state = name, state
        self.add_traits(**{key: Any(value).tag(sync=True) for key, value in state.items()})
        super().__init__()

    def __repr__(self):
        return f"explore.{self._name}: {inspect.getdoc(globals()[self._name]).splitlines()[0]}"

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        stills = json.loads((_HERE / "stills.json").read_text(encoding="utf-8"))
        of_lessons = (name for name, state in stills.items() if name[:-3] == self._name and state == self._state)
        picture = {"image/svg+xml": (_HERE / f"{next(of_lessons, self._name)}.svg").read_text(encoding="utf-8")}
        about = {"image/svg+xml": {"explore": self._name, "state": self._state}}
        return data | picture | {"text/plain": repr(self)}, metadata | about


def _joined(name):
    """Return a module with the host that it imports as one text, which is what anywidget takes."""
    host, module = ((_HERE / f"{part}.mjs").read_text(encoding="utf-8") for part in ("host", name))
    host = re.sub("^export ", "", host, flags=re.MULTILINE)
    enclosed = lambda names: f"const {names[1]} = (() => {{\n{host}\nreturn {names[1]};\n}})();"
    return re.sub(r'import (\{[^}]*\}) from "\./host\.mjs";', enclosed, module)


def row(x=(5, 1, -1, 4, 1, 2), gain=None, bias=None, eps=1e-5, correction=0, parts=("correction", "eps", "affine")):
    """Drag the numbers of a row and see their mean, their variance and LayerNorm of them.

    x: two to six numbers from -10 to 10; gain, from -1 to 3, and bias, from -3 to 3: as many, or None for 1 and 0.
    correction: 0 divides the squares by D, 1 by D - 1. parts: which of "correction", "eps", "affine" can be changed.
    """
    D = _length(x)
    gain, bias = [1.0] * D if gain is None else gain, [0.0] * D if bias is None else bias
    state = dict(x=x, gain=gain, bias=bias, eps=eps, correction=correction, parts=list(parts))
    return Explorable("row", state, x=_numbers(-10, 10, 2, 6), gain=_numbers(-1, 3, D, D), bias=_numbers(-3, 3, D, D))


def block(tensor="BTC", over=("C",), groups=1, squares=False, cell=None):
    """Point at a number of a tensor and see which others share its mean, for any axes and for each norm.

    tensor: "BTC" for sentences (2, 3, 4) or "BCHW" for images (2, 4, 3, 5). over: the axes that the mean runs over;
    groups: 1, 2 or 4, into which C is cut first. squares: the mean of the squares, as in RMSNorm. cell: an index.
    """
    cell = list(cell or ((0, 1, 2) if tensor == "BTC" else (0, 1, 1, 2)))
    return Explorable(
        "block",
        dict(tensor=tensor, over=over, groups=groups, squares=squares, cell=cell),
        tensor=_among("BTC", "BCHW"),
        over=_among(*str(tensor), many=True),
        groups=_among(1, 2, 4),
    )


def depth(scale=1, norm="none", layer=10, seed=0):
    """Follow a digit through fifty layers, and its gradient back, and choose the weight scale and a norm.

    scale: the weight scale, 0.8 to 2.4. norm: LayerNorm "none", "before" or "after" each ReLU. layer: the one looked
    at, 0 to 50. seed: of the weights.
    """
    return Explorable(
        "depth",
        dict(scale=scale, norm=norm, layer=layer, seed=seed),
        scale=_numbers(0.8, 2.4),
        norm=_among("none", "before", "after"),
        layer=_numbers(0, 50),
    )


def batch(sample=(4, -2, 2, 0, 1), neighbors=5, likeness=0.3, draw=1, mode="train"):
    """See what a sample's neighbors do to it in BatchNorm, in train and in eval mode, and in LayerNorm.

    sample: its five features, from -8 to 8. neighbors: how many rows are beside it, 0 to 15. likeness: 0 as they
    come, 1 copies of the sample. draw: which neighbors. mode: "train" or "eval".
    """
    running = dict(mean=[0] * 5, variance=[1] * 5, batches=0)
    return Explorable(
        "batch",
        dict(sample=sample, neighbors=neighbors, likeness=likeness, draw=draw, mode=mode, running=running),
        sample=_numbers(-8, 8, 5, 5),
        neighbors=_numbers(0, 15),
        likeness=_numbers(0, 1),
        mode=_among("train", "eval"),
    )


def sphere(
    x=(1.9, 0.5, 1.5), gain=(1.3, 0.5, 0.8), bias=(0.3, 0.7, 0.9), eps=1e-5, step=2, camera=(10, 24), show=("cloud",)
):
    """See LayerNorm of three numbers in space: onto a plane, onto a circle, onto an ellipse.

    x: three numbers from -2.5 to 2.5; gain: -1 to 2, bias: -2 to 2; eps: 0 to 10. step: 0 the row, 1 minus its mean,
    2 divided, 3 after gain and bias. camera: its turn and its height, -15 to 80, in degrees. show: of "cloud", 60
    other rows, and "softmax", its triangle.
    """
    return Explorable(
        "sphere",
        dict(x=x, gain=gain, bias=bias, eps=eps, step=step, camera=camera, show=show),
        x=_numbers(-2.5, 2.5, 3, 3),
        gain=_numbers(-1, 2, 3, 3),
        bias=_numbers(-2, 2, 3, 3),
        eps=_numbers(0, 10),
        step=_among(0, 1, 2, 3),
        camera=_numbers(-180, 180, 2, 2),
        show=_among("cloud", "softmax", many=True),
    )


def backward(
    x=(0.4, -0.8, 2, 1.3, -1.9),
    dy=(-0.6, 1.2, 2.2, 0.9, 0.5),
    gain=None,
    eps=1e-5,
    paths=("straight", "mean", "variance"),
    nudged=(),
    marks=False,
):
    """Follow dy back through LayerNorm on three paths, switch them off, and compare dx with a nudge of x.

    x: a row of three to eight numbers from -10 to 10; dy, what comes back from the loss, and gain: as many, None for
    a gain of 1. paths: those that are on. nudged: the features, counted from 0, whose nudge is shown. marks: whether
    the row of dy shows where x hat is.
    """
    D = _length(x)
    as_many = _numbers(-10, 10, D, D)
    return Explorable(
        "backward",
        dict(x=x, dy=dy, gain=gain, eps=eps, paths=paths, nudged=nudged, marks=marks),
        x=_numbers(-10, 10, 3, 8),
        dy=as_many,
        **{} if gain is None else {"gain": as_many},
        eps=_numbers(0, 10),
        paths=_among("straight", "mean", "variance", many=True),
        nudged=_among(*range(D), many=True),
    )


def stream(place="pre", blocks=12, scale=1, rate=0.01, warmUp=0, seed=1):
    """Compare a norm in three places of a residual stream: the size of the stream, the gradients, the first steps.

    place: the one looked at, "none", "post" (after the sum) or "pre" (on the branch). blocks: 2 to 24; scale: the
    weight scale, 0.2 to 2; rate: of Adam, 0.001 to 0.1; warmUp: its steps of warm-up, 0 to 20; seed: of the weights.
    """
    return Explorable(
        "stream",
        dict(place=place, blocks=blocks, scale=scale, rate=rate, warmUp=warmUp, seed=seed),
        place=_among("none", "post", "pre"),
        blocks=_numbers(2, 24),
        scale=_numbers(0.2, 2),
        rate=_numbers(0.001, 0.1),
        warmUp=_numbers(0, 20),
    )


def _numbers(low, high, least=1, most=None):
    """What turns least to most numbers from low to high into floats, or checks a single one; and that in words."""

    def convert(value):
        numbers = [float(number) for number in (value if most else [value])]
        if not least <= len(numbers) <= (most or 1) or not all(low <= number <= high for number in numbers):
            raise ValueError
        return numbers if most else value

    count = f"{least} to {most}" if least < (most or 1) else least
    return convert, f"{count} number{'s' if most else ''} from {low} to {high}"


def _among(*options, many=False):
    """What checks that a value, or each of many, is one of the options; and that in words."""

    def convert(value):
        values = list(value) if many else value
        if not set(values if many else [value]) <= set(options):
            raise ValueError
        return values

    return convert, ", ".join(map(repr, options))


def _length(x):
    return len(x) if hasattr(x, "__len__") else 0

"""Explorables: things to play with before reading. Each is one ES module in this folder, NAME.mjs.

host.mjs has what all of them share: numbers, words, drawing, the look of a page, hands and frames. A module says what
it computes, how it is drawn and what its controls do. It is a script of the page, in JupyterLab as on the site, and
asks no kernel; its `start` holds the same parameters with the same defaults as the function here. What it computes is
exported, too, and compared with PyTorch in tests/test_explore.py.
NAME.svg is the picture that it draws at its start, with a title and a description, for viewers that run no script,
NAME-NUMBER.svg what it draws in a lesson that begins otherwise: after an edit, `node
lessons_src/lessonkit/explore/still.mjs`. One more explorable is its module, its picture, and here a function,
named in __all__, whose annotations say what its parameters may be.
"""

import base64
import html
import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["backward", "batch", "block", "depth", "row", "sphere", "stream"]


def _stored(file):
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


@dataclass
class Explorable:
    """The explorable `name`, and the parameters that it begins with, as `state`.

    A notebook shows its stored picture, until the script below it brings it to life. What is built is stored without
    the script, and a notebook that is not trusted runs none. The SVG is for viewers without HTML; its metadata say
    which module a page may show in its place ("explore") and with which parameters ("state").
    """

    name: str
    state: dict

    def __repr__(self):
        return f"explore.{self.name}: {inspect.getdoc(globals()[self.name]).splitlines()[0]}"

    def _repr_mimebundle_(self, **kwargs):
        stills = json.loads(_stored("stills.json")).items()
        of_lessons = (name for name, state in stills if name[:-3] == self.name and state == self.state)
        picture = _stored(f"{next(of_lessons, self.name)}.svg")
        source = base64.b64encode(picture.encode()).decode()
        place = (
            f'<div data-explore="{self.name}" data-state="{html.escape(json.dumps(self.state))}">'
            f'<img src="data:image/svg+xml;base64,{source}" alt="{re.search("<desc>(.*)</desc>", picture)[1]}" '
            'style="max-width: 100%"><p>Run the cells down to this one, and it moves.</p></div>'
            f'<script type="module">\n{_joined(self.name)}</script>'
        )
        data = {"text/html": place, "image/svg+xml": picture, "text/plain": repr(self)}
        return data, {"image/svg+xml": {"explore": self.name, "state": self.state}}


def _joined(name):
    """Return a module with the host that it imports as one text, which needs no other file."""
    host = re.sub("^export ", "", _stored("host.mjs"), flags=re.MULTILINE)
    enclosed = lambda names: f"const {names[1]} = (() => {{\n{host}\nreturn {names[1]};\n}})();"
    return re.sub(r'import (\{[^}]*\}) from "\./host\.mjs";', enclosed, _stored(f"{name}.mjs"))


def _made(name, state):
    """Return the Explorable of a name. ValueError for a parameter that is not what its annotation says."""
    for key, parameter in inspect.signature(globals()[name]).parameters.items():
        if isinstance(parameter.annotation, _Allowed):
            try:
                state[key] = parameter.annotation.convert(state[key], state.get("x"))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{key} of explore.{name} is {state[key]!r}; expected {parameter.annotation}, "
                    f"for example explore.{name}({key}={parameter.default!r})."
                ) from None
    return Explorable(name, state)


class _Allowed:
    """What a parameter may be, in words, and convert(value, x): the value to keep; ValueError if it is not allowed."""

    def __init__(self, words, convert):
        self.words, self.convert = words, convert

    def __repr__(self):
        return self.words


def _numbers(low, high, *lengths):
    """A number from low to high; with lengths a list of them, of one length, or of one to another."""

    def convert(value, x):
        numbers = [float(number) for number in (value if lengths else [value])]
        if lengths and not lengths[0] <= len(numbers) <= lengths[-1] or not all(low <= one <= high for one in numbers):
            raise ValueError
        return numbers if lengths else value

    count = f"{' to '.join(map(str, lengths))} numbers" if lengths else "a number"
    return _Allowed(f"{count} from {low} to {high}", convert)


def _as_many(low, high, missing=None):
    """Numbers from low to high, as many as x has. None is a list of `missing`, or stays None."""

    def convert(value, x):
        if value is None:
            return None if missing is None else [missing] * len(x)
        return _numbers(low, high, len(x)).convert(value, x)

    return _Allowed(f"as many numbers as x, from {low} to {high}", convert)


def _among(*options):
    """One of the options."""
    return _Allowed(f"one of {options}", lambda value, x: options[options.index(value)])


def _some(*options):
    """A list of any of the options."""
    return _Allowed(f"any of {options}", lambda value, x: [options[options.index(one)] for one in value])


def row(
    x: _numbers(-10, 10, 2, 6) = (5, 1, -1, 4, 1, 2),
    gain: _as_many(-1, 3, 1.0) = None,
    bias: _as_many(-3, 3, 0.0) = None,
    eps=1e-5,
    correction=0,
    parts: _some("correction", "eps", "affine") = ("correction", "eps", "affine"),
):
    """Drag the numbers of a row and see their mean, their variance and LayerNorm of them.

    gain, bias: None for 1 and 0. correction: 0 divides the squares by D, 1 by D - 1. parts: what can be changed.
    """
    return _made("row", locals())


def block(
    tensor: _among("BTC", "BCHW") = "BTC",
    over: _some("B", "T", "C", "H", "W") = ("C",),
    groups: _among(1, 2, 4) = 1,
    squares=False,
    cell=None,
):
    """Click a number of a tensor and see which others share its mean, for any axes and for each norm.

    tensor: "BTC" for sentences (2, 3, 4) or "BCHW" for images (2, 4, 3, 5). over: the axes that the mean runs over;
    groups: into which C is cut first. squares: the mean of the squares, as in RMSNorm. cell: an index.
    """
    cell = list(cell or ((0, 1, 2) if tensor == "BTC" else (0, 1, 1, 2)))
    return _made("block", locals())


def depth(
    scale: _numbers(0.8, 2.4) = 1, norm: _among("none", "before", "after") = "none", layer: _numbers(0, 50) = 50, seed=0
):
    """Follow a digit through fifty layers, and its gradient back, and choose the weight scale and a norm.

    scale: the weight scale. norm: LayerNorm before or after each ReLU. layer: the one looked at. seed: of the weights.
    """
    return _made("depth", locals())


def batch(
    sample: _numbers(-8, 8, 5) = (4, -2, 2, 0, 1),
    neighbors: _numbers(0, 15) = 5,
    likeness: _numbers(0, 1) = 0.3,
    draw=1,
    mode: _among("train", "eval") = "train",
):
    """See what a sample's neighbors do to it in BatchNorm, in train and in eval mode, and in LayerNorm.

    neighbors: how many rows are beside the sample. likeness: 0 as they come, 1 copies of it. draw: which neighbors.
    """
    running = dict(mean=[0] * 5, variance=[1] * 5, batches=0)
    return _made("batch", locals())


def sphere(
    x: _numbers(-2.5, 2.5, 3) = (1.9, 0.5, 1.5),
    gain: _numbers(-1, 2, 3) = (1.3, 0.5, 0.8),
    bias: _numbers(-2, 2, 3) = (0.3, 0.7, 0.9),
    eps: _numbers(0, 10) = 1e-5,
    step: _among(0, 1, 2, 3) = 2,
    camera: _numbers(-180, 180, 2) = (10, 24),
    show: _some("cloud", "softmax") = ("cloud",),
):
    """See LayerNorm of three numbers in space: onto a plane, onto a circle, onto an ellipse.

    A hand shifts and stretches x, which LayerNorm does not see, or turns x hat, and x with it.
    step: 0 the row, 1 minus its mean, 2 divided, 3 after gain and bias. camera: its turn and its height, -15 to 80, in
    degrees. show: 60 other rows, and the triangle of softmax.
    """
    return _made("sphere", locals())


def backward(
    x: _numbers(-10, 10, 3, 6) = (0.4, -0.8, 2, 1.3, -1.9),
    dy: _as_many(-10, 10) = (-0.6, 1.2, 2.2, 0.9, 0.5),
    gain: _as_many(-10, 10) = None,
    eps: _numbers(0, 10) = 1e-5,
    paths: _some("straight", "mean", "variance") = ("straight", "mean", "variance"),
    marks=False,
):
    """Follow dy back through LayerNorm on three paths, cut them, pull x, and compare dx with the slope of the loss.

    dy: what comes back from the loss. gain: None for 1. paths: those that are not cut. marks: whether the row of dy
    shows where x hat is.
    """
    return _made("backward", locals())


def stream(
    place: _among("none", "post", "peri", "pre") = "post",
    blocks: _numbers(2, 24) = 24,
    scale: _numbers(0.2, 2) = 1,
    rate: _numbers(0.001, 0.1) = 0.03,
    warmUp: _numbers(0, 20) = 0,
    seed=2,
):
    """Put the norm of a residual block in one of four places and see whether a net of such blocks learns.

    place: no norm, after the sum, on both ends of the branch, or before its function. scale: the weight scale; rate: of
    Adam; warmUp: its steps of warm-up; seed: of the weights.
    """
    return _made("stream", locals())

"""lessonkit.plot: layout without overlaps, what a figure shows, what a notebook stores beside the picture."""

import itertools
import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from lessonkit import plot
from lessonkit.plot import _style

WORDS = {"title": "A title", "caption": "A caption.", "alt": "In words."}
LABELS = {"x": "step", "y": "loss (nats)"}

LN = "LayerNorm"
x3, x8 = torch.tensor([1.0, 2, 3]), torch.arange(8)
RUNS = {LN: x3 / 3, "none": torch.stack([x3, 3 * x3])}
PARTS = {"left": (x3, {"none": x3}), "right": (x3, {"none": torch.stack([x3, x3])})}
blocks = {"(B, C)": {"shape": {"B": 2, "C": 5}, "over": ("C",)}}
PRE_LN = {"branch": ["LN", "f"], "formula": "x + f(LN(x))"}
# One right call of every function: its data, its words besides WORDS, and how the table behind its picture begins.
CALLS = {
    "lines": (
        (x3, RUNS),
        LABELS,
        ["curve,step,loss (nats),standard deviation", "LayerNorm,1,0.333,", "LayerNorm,2,0.667,", "LayerNorm,3,1,"]
        + ["none,1,2,1.41", "none,2,4,2.83", "none,3,6,4.24"],
    ),
    "panels": (
        (PARTS,),
        LABELS,
        ["panel,curve,step,loss (nats),standard deviation", "left,none,1,1,"]
        + ["left,none,2,2,", "left,none,3,3,", "right,none,1,1,0"],
    ),
    "cubes": (
        (blocks,),
        {},
        ["tensor,shape,shape of the mean,means,entries in each", '"(B, C)","B = 2, C = 5","(2, 1)",2,5'],
    ),
    "blocks": (({"Pre-LN": PRE_LN, "Post-LN": PRE_LN | {"after": ["LN"]}},), {}, []),
    "figure": (
        (lambda ax: ax.plot([0, 1]),),
        {"numbers": {"rate": [0.1, 1], "accuracy (%)": torch.tensor([96.0, 9])}},
        ["rate,accuracy (%)", "0.1,96", "1,9"],
    ),
}


def picture(name, *data, **words):
    """Return the Picture of a function of lessonkit.plot for data, or for its own of CALLS."""
    own, needed, _ = CALLS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_style, "_show", lambda picture: picture)
        return getattr(plot, name)(*(data or own), **WORDS | needed | words)


@pytest.fixture
def drawn(monkeypatch):
    """The figures of the test instead of their bytes; none has a text that overlaps another or is clipped."""
    figures, texts, draw = [], {}, Text.draw

    def keep(canvas):
        figures.append(canvas.figure)
        check_layout(canvas.figure, texts)
        texts.clear()
        frame = np.array(canvas.buffer_rgba())
        frame[3:-3, 3:-3] = 255
        assert (frame == 255).all(), "something touches the edge of the picture"
        return b"bytes"

    monkeypatch.setattr(_style, "_png", keep)
    monkeypatch.setattr(Text, "draw", lambda text, renderer: texts.setdefault(text, draw(text, renderer)))
    return figures


def check_layout(fig, texts):
    """No text that the figure has drawn overlaps another or leaves the figure."""
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts if text.get_text()]
    width, height = fig.bbox.size
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, f"{text!r} is clipped"
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{first!r} overlaps {second!r}"


def labels(fig):
    """The names beside the axes, from top to bottom, on one line each."""
    ends = [text for ax in fig.axes for text in ax.texts if text.get_gid() == _style._END]
    return [t.get_text().replace("\n", " ") for t in sorted(ends, key=lambda t: -t.get_position()[1])]


TEN = list(plot.COLORS)[:10]
x30 = np.arange(1, 30)


def curves(gap):
    return {name: 5 / x30 + 1 + gap * number for number, name in enumerate(TEN[:5])}


LONG = {f"{name} with a long explanation behind it": 1 + 0.001 * n + 0 * x30 for n, name in enumerate(TEN)}
HARD = {  # figures that no lesson draws, and that an author may: one of CALLS, its data, further words
    "curves that end together": ("lines", (x30, curves(0.0)), {"xlog": True, "ylog": True}),
    "ten long names, a long title and references": (
        "lines",
        (x30, LONG),
        {"href": {"entropy of letters": 1.002, "chance": 0.998}, "title": "A title that says all it has to " * 4},
    ),
    "huge numbers": ("lines", (1e7 * x8.double(), {"none": 10.0 ** (28 * x8.double())}), {"ylog": True}),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_figure_is_drawn_inside_its_frame_with_its_table_behind_it(name, drawn):
    figure, rows = picture(name), CALLS[name][-1]
    assert figure.alt == "In words." and len(drawn) == 1
    assert figure.width == round(drawn[0].get_figwidth() * 110)
    assert figure.numbers.splitlines()[: len(rows)] == rows and ("numbers" in figure._repr_png_()[1]) == bool(rows)


@pytest.mark.parametrize("name, data, words", HARD.values(), ids=HARD)
def test_no_text_overlaps_another_or_leaves_the_picture(name, data, words, drawn):
    picture(name, *data, **words)
    assert len(drawn) == 1


def test_labels_stand_in_the_order_of_their_curves(drawn):
    picture("lines", x30, curves(0.01))
    picture("lines", x8, {"none": 100 * x8, LN: 0 * x8 + 1}, ylim=(0, 2))
    assert [labels(fig) for fig in drawn] == [TEN[4::-1], ["none", LN]]


def test_a_curve_that_ends_early_says_why(drawn):
    lost = [1.0, 2.0, math.inf, math.nan]
    picture("lines", range(4), {"none": lost})
    picture("lines", range(4), {"none": [lost, [1.0, 1, 1, 1]]})
    picture("lines", range(4), {"none": [1e-3, 1e-30, 0, 0]}, ylog=True)
    picture("lines", range(4), {"none": [1, math.nan, 3, 4]})
    ends = ["none (diverges)", "none (1 of 2 diverge)", "none (reaches 0)", "none"]
    assert [labels(fig) for fig in drawn] == [[end] for end in ends]
    crosses = [[list(line.get_xdata()) for line in fig.axes[0].lines if line.get_marker() == "x"] for fig in drawn]
    assert crosses == [[[1]], [[1]], [[1]], []]


def test_bytes_do_not_depend_on_anybodys_settings():
    first = picture("lines").png
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        assert picture("lines").png == first and dict(matplotlib.rcParams) == before


def test_outside_a_notebook_it_prints_and_words_are_needed(capsys):
    assert plot.lines(x8, {LN: x8}, **WORDS | {"caption": "One\n   caption."}, **LABELS) is None
    assert capsys.readouterr().out == "In words.\nOne caption.\n"
    with pytest.raises(ValueError, match="alt='  '. Write them"):
        picture("lines", alt="  ")


def lab(rgb):
    """CIE Lab of linear RGB (D65)."""
    xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]) @ np.clip(rgb, 0, 1)
    f = np.cbrt(xyz / [0.9505, 1, 1.0888])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


@pytest.mark.parametrize("eyes", EYES)
def test_every_pair_of_methods_can_be_told_apart_and_read_on_white(eyes):
    seen = {}
    for name, color in plot.COLORS.items():
        c = np.array(to_rgb(color))
        seen[name] = lab(EYES[eyes] @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4))
        assert 1.05 / (_style.luminance(plot.ink(color)) + 0.05) >= 4.5, name
    for first, second in itertools.combinations(seen, 2):
        # 2.3 is just noticeable; the least of Okabe and Ito's own pairs is 17.9
        assert np.linalg.norm(seen[first] - seen[second]) > 14, (first, second)

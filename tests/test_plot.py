"""lessonkit.plot: layout without overlaps, what a figure shows, what a notebook stores beside the picture, errors.

nbval compares captions and text alternatives, and no picture.
"""

import base64
import csv
import io
import itertools
import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text
from PIL import Image

from fromscratch import LayerNormGRUCell, LayerNormLSTMCell
from lessonkit import plot
from lessonkit.plot import _numbers, _style
from tests.helpers import executed

WORDS = {"title": "A title", "caption": "A caption.", "alt": "In words."}
LABELS = {"x": "step", "y": "loss (nats)"}
LINES = {**WORDS, **LABELS, "show": False}

LN = "LayerNorm"
TABLE = {"texts": [["1", "0"], ["0", "1"]], "limits": (0, 1), "size": (5, 2)}
x8 = torch.arange(8)
pictures = torch.arange(24.0).reshape(2, 3, 4)  # (N, H, W)
blocks = {"(B, C)": {"shape": {"B": 2, "C": 5}, "over": ("C",)}}
pre_ln = {"branch": ["LN", "f"], "formula": "x + f(LN(x))"}
# One right call of every function that shows something: (function, data, the words that it needs).
CALLS = {
    "lines": (plot.lines, (x8, {"LayerNorm": x8}), {**WORDS, **LABELS}),
    "panels": (plot.panels, ({"left": (x8, {"LayerNorm": x8})},), {**WORDS, **LABELS}),
    "bars": (plot.bars, ({"a": 1.0, "b": 2.5},), {**WORDS, "x": "%"}),
    "hist": (plot.hist, ({"a": [0.0, 0.01, 1]},), {**WORDS, "x": "value"}),
    "heat": (plot.heat, (torch.eye(2), ["r", "s"], ["c", "d"]), {**WORDS, "x": "to", "y": "from", **TABLE}),
    "images": (plot.images, (pictures, ["0", "1"]), WORDS),
    "cubes": (plot.cubes, (blocks,), WORDS),
    "blocks": (plot.blocks, ({"Pre-LN": pre_ln},), WORDS),
    "cell": (plot.cell, ("GRU",), WORDS),
    "memory_traffic": (plot.memory_traffic, ({"fused": [("loop 1", ["x"], []), ("loop 2", [], ["y"])]},), WORDS),
    "figure": (plot.figure, (lambda ax: ax.plot([0, 1]),), WORDS),
}


@pytest.fixture
def drawn(monkeypatch):
    """The figures of the test instead of their bytes; none has a text that overlaps another or is clipped."""
    figures = []

    def keep(canvas):
        figures.append(canvas.figure)
        check_layout(canvas.figure)
        frame = np.array(canvas.buffer_rgba())
        frame[3:-3, 3:-3] = 255
        assert (frame == 255).all(), "something touches the edge of the picture"
        return b"bytes"

    monkeypatch.setattr(_style, "_png", keep)
    return figures


def texts(fig):
    """Every text that is drawn, with its box in pixels: [(text, box)]."""
    drawn_texts = list(fig.texts)
    for ax in fig.axes:
        drawn_texts += ax.texts
        if not ax.axison:
            continue
        drawn_texts += [
            ax._left_title,
            *(item for a in (ax.xaxis, ax.yaxis) for item in (a.label, a.get_offset_text())),
        ]
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(limits)
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
            drawn_texts += [label for place, label in ticks if low <= place <= high]
    return [(text.get_text(), Text.get_window_extent(text)) for text in drawn_texts if text.get_text()]


def check_layout(fig):
    """No text of the figure overlaps another or leaves the figure."""
    boxes = texts(fig)
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


# -------------------------------------------------------------------------------------------------------------- layout

TEN = ["LayerNorm", "BatchNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "DyT", "none", "Pre-LN", "Post-LN", "softmax"]
LONG = [f"{name} with a long explanation behind it" for name in TEN]
x30 = np.arange(1, 30)
SHAPES = {"bottom": 5 / x30 + 1, "top": 5 - 4 / x30, "middle": 3 + 0 * x30}
BARS = {**WORDS, "x": "value"}


def curves(shape, gap):
    return {name: SHAPES[shape] + gap * number for number, name in enumerate(TEN[:5])}


HARD = {  # figures that no lesson draws, and that an author may
    **{
        f"curves that end together at the {shape}, {log}": lambda shape=shape, gap=gap, log=log: plot.lines(
            x30, curves(shape, gap), **LINES, **log
        )
        for shape, gap in (("bottom", 0.0), ("top", 1e-6), ("middle", 0.01))
        for log in ({}, {"xlog": True, "ylog": True})
    },
    "ten long names, a long title and references": lambda: plot.lines(
        x30,
        {name: 1 + 0.001 * number + 0 * x30 for number, name in enumerate(LONG)},
        href={"entropy of single letters": 1.002, "chance": 0.998},
        **LINES | {"title": "A title that says everything it has to say " * 4},
    ),
    "small panels": lambda: plot.panels(
        {f"learning rate {rate}": (x30, curves("bottom", 0.01)) for rate in (0.1, 1, 10)}, ylog=True, **LINES
    ),
    "huge numbers": lambda: plot.lines(1e7 * x8.double(), {"none": 10.0 ** (28 * x8.double())}, ylog=True, **LINES),
    "numbers that hardly differ": lambda: plot.lines(x8, {"none": 1 + 1e-5 * x8.double()}, **LINES),
    "long categories": lambda: plot.lines([f"({4**n}, {n}00)" for n in range(3, 8)], {"none": range(5)}, **LINES),
    "long bars": lambda: plot.bars(
        {f"{name} with a long explanation": number for number, name in enumerate(TEN)}, **BARS, show=False
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_figure_is_drawn_inside_its_frame(name, drawn):
    function, data, words = CALLS[name]
    picture = function(*data, **words, show=False)
    assert picture.alt == "In words." and len(drawn) == 1
    assert picture.width == round(drawn[0].get_figwidth() * 110)


@pytest.mark.parametrize("what", HARD)
def test_no_text_overlaps_another_or_leaves_the_picture(what, drawn):
    HARD[what]()
    assert len(drawn) == 1


def test_labels_stand_in_the_order_of_their_curves(drawn):
    plot.lines(x30, curves("bottom", 0.01), **LINES)
    plot.lines(x8, {"none": 100 * x8, LN: 0 * x8 + 1}, ylim=(0, 2), **LINES)
    assert [labels(fig) for fig in drawn] == [TEN[4::-1], ["none", LN]]


def test_a_curve_that_ends_early_says_why(drawn):
    lost = [1.0, 2.0, math.inf, math.nan]
    plot.lines(range(4), {"none": lost}, **LINES)
    plot.lines(range(4), {"none": [lost, [1.0, 1, 1, 1]]}, **LINES)
    plot.lines(range(4), {"none": [1e-3, 1e-30, 0, 0]}, ylog=True, **LINES)
    plot.lines(range(4), {"none": [1, math.nan, 3, 4]}, **LINES)
    ends = ["none (diverges)", "none (1 of 2 diverge)", "none (reaches 0)", "none"]
    assert [labels(fig) for fig in drawn] == [[end] for end in ends]
    crosses = [[list(line.get_xdata()) for line in fig.axes[0].lines if line.get_marker() == "x"] for fig in drawn]
    assert crosses == [[[1]], [[1]], [[1]], []]


# ------------------------------------------------------------------------------------------------- what a figure shows


def test_a_band_is_drawn_where_the_statistic_says(drawn):
    plot.lines([0, 1], {LN: [[1.0, 2.0], [2.0, 4.0], [6.0, 0.0]]}, **LINES)
    corners = drawn[0].axes[0].collections[0].get_paths()[0].vertices
    heights = corners[corners[:, 0] == 0][:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((3 - 7**0.5, 3 + 7**0.5))  # (4 + 1 + 9) / (n - 1)


def test_panels_share_range_and_colors(drawn):
    parts = {"left": (x8, {"one": x8 + 1, "two": x8 + 2}), "right": (x8, {"two": 1000 * (x8 + 1)})}
    plot.panels(parts, ylog=True, **LINES)
    plot.panels(parts, **LINES | {"y": ["loss", "accuracy"]})
    left, right = drawn[0].axes
    assert left.get_ylim() == right.get_ylim() and left.get_ylim()[0] < 1 and left.get_ylim()[1] > 8000
    colors = {text.get_text(): text.get_color() for text in left.texts}
    assert right.texts[0].get_color() == colors["two"] and drawn[1].axes[1].get_ylabel() == "accuracy"


def test_ticks_are_what_was_measured_at_and_dots_have_no_line(drawn):
    shapes = ["(4096, 768)", "(4096, 1024)", "(16384, 256)", "(65536, 64)", "(1024, 4096)"]
    plot.lines(shapes, {"eager": range(5)}, **LINES)
    plot.lines([1e-5, 1e-4, 3e-4, 1e-3, 1.1e-3, 1e-2], {"none": range(6)}, xlog=True, **LINES)
    plot.lines([2, 8, 32, 128], {"none": range(4), "formula": range(4)}, dots=["none"], xlog=True, **LINES)
    ticks = [[text.get_text().replace("\n", " ") for text in fig.axes[0].get_xticklabels()] for fig in drawn]
    assert ticks == [shapes, [r"$10^{-5}$", "0.0001", "0.0003", "0.001", "0.01"], ["2", "8", "32", "128"]]
    dots, line = [curve for curve in drawn[2].axes[0].lines if len(curve.get_xdata()) == 4]
    assert (dots.get_linestyle(), dots.get_marker()) == ("None", "o") and line.get_linestyle() == "-"


def test_bars_are_labeled_with_their_means_and_dots_are_the_runs(drawn):
    plot.bars({"none": [1.0, 2.0, 4.0], LN: 2.5}, **BARS, show=False)
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["2.33", "2.5"]
    assert [1.0, 2.0, 4.0] in [list(line.get_xdata()) for line in drawn[0].axes[0].lines]


def test_a_matrix_has_its_numbers_in_an_ink_that_reads(drawn):
    words = {"x": "column", "y": "a label longer than this matrix is high"}
    plot.heat(torch.eye(2), "ab", [1, 2], **WORDS, **words, **TABLE, show=False)
    texts, (image,) = drawn[0].axes[0].texts, drawn[0].axes[0].images
    assert [text.get_text() for text in texts] == ["1", "0", "0", "1"]
    assert [text.get_color() for text in texts] == ["white", "#15191C", "#15191C", "white"]
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    plot.images(torch.rand(13, 8, 8), [f"label {n}" for n in range(13)], ncols=5, **WORDS, show=False)
    scales = [(ax.images[0].norm.vmin, ax.images[0].norm.vmax) for ax in drawn[1].axes if ax.images]
    assert len(scales) == 13 and len(set(scales)) == 1


IMAGES = {"B": 2, "C": 4, "H": 3, "W": 5}
TOKENS = {"B": 2, "T": 3, "C": 4}


CUBES = [  # shape, over, shape of the mean, blue faces of how many: front + top + side
    ({"B": 2, "C": 5}, "C", (2, 1), 5, 10),
    (TOKENS, "C", (2, 3, 1), 4 + 4 + 1, 12 + 8 + 6),
    (TOKENS, "B", (1, 3, 4), 1 + 2 + 0, 26),
    (IMAGES, "CHW", (2, 1, 1, 1), 15 + 20 + 12, 2 * 47),
    (IMAGES, "BHW", (1, 4, 1, 1), 2 * (15 + 5 + 3), 2 * 47),  # on both blocks
]


def test_cubes_shade_one_group_and_count_the_groups(drawn):
    plot.cubes({f"number {n}": {"shape": row[0], "over": row[1]} for n, row in enumerate(CUBES)}, **WORDS, show=False)
    written = [text for text, _ in texts(drawn[0])]
    blocks = [c for c in drawn[0].axes[0].collections if isinstance(c, PolyCollection)]
    first = np.array(to_rgb(plot.COLORS[LN]))
    for (shape, _, kept, blue, faces), block in zip(CUBES, blocks, strict=True):
        count, size = math.prod(kept), math.prod(shape.values()) // math.prod(kept)
        assert f"mean: {kept}" in written and {f"{axis} = {size}" for axis, size in shape.items()} <= set(written)
        assert f"{count} means of {size} entries" in written
        shaded = [any(np.allclose(c[:3], light * first) for light in (1, 0.97, 0.9)) for c in block.get_facecolors()]
        assert (sum(shaded), len(shaded)) == (blue, faces)


@pytest.mark.parametrize("kind, cell, state", [("GRU", LayerNormGRUCell, "h"), ("LSTM", LayerNormLSTMCell, "c")])
def test_a_cell_is_drawn_with_the_norms_it_has_and_none_on_the_state(kind, cell, state, drawn):
    plot.cell(kind, **WORDS, show=False)
    (ax,) = drawn[0].axes
    assert {name for name, _ in cell(2, 3).named_children()} == {t.get_text() for t in ax.texts if "_" in t.get_text()}
    norms = [patch for patch in ax.patches if to_hex(patch.get_facecolor()).upper() == plot.COLORS[LN]]
    assert len(norms) == len(list(cell(2, 3).children()))
    at = {text.get_text(): text.get_position() for text in ax.texts}
    boxes = [patch.get_bbox() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert at[f"{state}\N{PRIME}"][1] == at[state][1] > max(box.y1 for box in boxes), "the state passes no box"


def test_every_trip_to_memory_is_an_arrow_and_is_counted(drawn):
    line = [("mean(x)", ["x"], []), ("x - mean", ["x"], ["c"]), ("c * c", ["c"], ["squares"])]
    plot.memory_traffic(
        {"line by line": line, "fused": [("loop 1", ["x"], []), ("loop 2", [], [])]}, **WORDS, show=False
    )
    (ax,) = drawn[0].axes
    texts = [text.get_text() for text in ax.texts]
    assert "3 read, 2 written" in texts and "1 read, 0 written" in texts
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    assert sorted(arrow.xy[0] < arrow.get_position()[0] for arrow in arrows) == [False] * 4 + [True] * 2, "2 go back"
    assert texts.count("one row, in the cache") == 1, "only where a loop moves nothing"


def test_a_block_draws_its_boxes_in_the_order_of_the_signal(drawn):
    layouts = {
        "Post-LN": {"branch": ["f"], "after": ["LN"]},
        "again": {"branch": ["f"], "after": ["LN"], "formula": "LN(x + f(x))"},
        "Peri-LN": {"branch": ["RMSNorm", "f", "LN"], "formula": "x + LN(f(RMSNorm(x)))"},
    }
    plot.blocks(layouts, **WORDS, show=False)
    (ax,) = drawn[0].axes
    at = {}
    for text in ax.texts:
        at.setdefault(text.get_text(), []).append(text.get_position())
    f, sums, outer = at["f"][2], sorted(at["+"]), sorted(at["LN"])
    (rms,) = at["RMSNorm"]
    assert rms[0] == f[0] == outer[2][0] and rms[1] < f[1] < outer[2][1] < sums[2][1]
    assert outer[0][1] > sums[0][1] and outer[0][0] == sums[0][0], "after the sum, on the stream"
    assert plot.COLORS["RMSNorm"] in {to_hex(patch.get_facecolor()).upper() for patch in ax.patches}


# ----------------------------------------------------------------------------------------------- words, what is stored


@pytest.mark.parametrize("name", CALLS)
def test_words_are_required(name):
    function, data, words = CALLS[name]
    for word in WORDS.keys() | LABELS.keys() & words.keys():
        others = {key: text for key, text in words.items() if key != word}
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{word}'"):
            function(*data, **others)
    with pytest.raises(ValueError, match="alt='  '. Write them"):
        function(*data, **words | {"alt": "  "})


def test_bytes_do_not_depend_on_the_run_or_on_anybodys_settings():
    calls = [CALLS[name] for name in ("lines", "cubes")]
    first = [function(*data, **words, show=False).png for function, data, words in calls]
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        again = [function(*data, **words, show=False).png for function, data, words in calls]
        assert dict(matplotlib.rcParams) == before
    assert again == first


def test_a_notebook_stores_picture_numbers_text_and_caption(tmp_path):
    """Of a stored picture's metadata nbval compares nothing."""
    source = "import sys\nfrom lessonkit import plot\n"
    source += f"plot.lines(range(8), {{'LayerNorm': range(8)}}, **{ {**WORDS, **LABELS} })\n"
    source += "assert not {'matplotlib.pyplot', 'scipy', 'pandas'} & set(sys.modules), 'the import is light'"
    picture, caption = executed([source], tmp_path)[0].outputs
    here = plot.lines(range(8), {LN: range(8)}, **LINES)
    assert Image.open(io.BytesIO(here.png)).size[0] == 2 * 770
    assert base64.b64decode(picture.data["image/png"]) == here.png  # another process, the same bytes
    stored = {"alt": "In words.", "width": 770, "numbers": here.numbers}
    assert picture.metadata["image/png"] == picture.metadata["image/png"] | stored
    assert caption.data == {"text/markdown": "*A caption.*", "text/plain": "A caption."}
    assert {picture.output_type, caption.output_type} == {"display_data"}


def test_outside_a_notebook_it_prints(capsys):
    assert plot.lines(x8, {LN: x8}, **WORDS | {"caption": "One\n   caption."}, **LABELS) is None
    assert capsys.readouterr().out == "In words.\nOne caption.\n"


# ------------------------------------------------------------------------------------------------------------- palette


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


def test_unknown_names_get_what_is_left():
    names = [f"curve {number}" for number in range(9)] + ["BatchNorm"]
    colors = plot.colors_for(names)
    assert colors == plot.colors_for(names) and list(colors) == names
    assert len(set(colors.values())) == 10 and plot.COLORS[LN] not in colors.values()
    assert plot.colors_for(["a", "b"], {"a": LN, "b": "#123456"}) == {"a": plot.COLORS[LN], "b": "#123456"}


# --------------------------------------------------------------------------------------- the numbers behind a picture

x3 = torch.tensor([1.0, 2, 3])
SHOWN = {**WORDS, "show": False}
PARTS = {"left": (x3, {"none": x3}), "right": (x3, {"none": torch.stack([x3, x3])})}
RUNS = {LN: x3 / 3, "none": torch.stack([x3, 3 * x3])}
BY_HAND = {"rate": [0.1, 1], "accuracy (%)": torch.tensor([96.0, 9])}
TABLES = {  # what: (picture, rows of its table, from which row on)
    "lines": (
        lambda: plot.lines(x3, RUNS, **LABELS, href={"chance": 2.3}, **SHOWN),
        ["curve,step,loss (nats),standard deviation", "LayerNorm,1,0.333,", "LayerNorm,2,0.667,", "LayerNorm,3,1,"]
        + ["none,1,2,1.41", "none,2,4,2.83", "none,3,6,4.24", "chance,all,2.3,"],
    ),
    "panels": (
        lambda: plot.panels(PARTS, x="step", y=["loss", "rms"], **SHOWN),
        ["panel,curve,step,value,standard deviation", "left: loss,none,1,1,"]
        + ["left: loss,none,2,2,", "left: loss,none,3,3,", "right: rms,none,1,1,0"],
    ),
    "by hand": (
        lambda: plot.figure(lambda ax: ax.plot([0, 1]), numbers=BY_HAND, **SHOWN),
        ["rate,accuracy (%)", "0.1,96", "1,9"],
    ),
}


BEHIND = {  # the first two rows behind each of CALLS that has numbers
    "bars": ["bar,%", "a,1"],
    "hist": ['values,"value, from",to,how many', "a,0,0.025,2"],
    "heat": ['"from (down), to (across)",c,d', "r,1,0"],
    "images": ["image,lowest pixel,mean,highest", "0,0,5.5,11"],
    "cubes": ["tensor,shape,shape of the mean,means,entries in each", '"(B, C)","B = 2, C = 5","(2, 1)",2,5'],
}


@pytest.mark.parametrize("name", [*TABLES, *BEHIND])
def test_the_table_behind_a_picture(name):
    if name in TABLES:
        picture, rows = TABLES[name]
        assert picture().numbers.splitlines()[: len(rows)] == rows
    else:
        function, data, words = CALLS[name]
        assert function(*data, **words, show=False).numbers.splitlines()[:2] == BEHIND[name]


def test_a_diagram_has_no_table_and_a_long_one_is_thinned_evenly():
    assert "numbers" not in plot.figure(lambda ax: ax.plot([0, 1]), **SHOWN)._repr_png_()[1]
    text, total = _numbers.table(["c", "x"], {("a",): [(k,) for k in range(1001)], ("b",): [(7,)]})
    rows = list(csv.reader(io.StringIO(text)))
    xs = [int(row[1]) for row in rows if row[0] == "a"]
    assert total == 1002 and len(xs) == _numbers.MOST // 2 and (xs[0], xs[-1]) == (0, 1000)
    assert {b - a for a, b in itertools.pairwise(xs)} == {10, 11} and rows[-1] == ["b", "7"]


# ------------------------------------------------------------------ errors: the value, what was expected, the way out


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: plot.lines(x8, {}, **LINES), r"at least one name.*got \{\}"),
        (lambda: plot.lines(x8, {LN: x8[:5]}, **LINES), r"'LayerNorm' has shape \(5,\) and x has 8 values"),
        (lambda: plot.lines(x8, {LN: torch.zeros(4, 7)}, **LINES), r"\(4, 7\).*\(runs, 8\)"),
        (lambda: plot.lines(x8, {LN: [math.nan] * 8}, **LINES), "'LayerNorm' has no value to draw.*Leave it out"),
        (lambda: plot.lines(x8, {LN: x8 - 3}, ylog=True, **LINES), "'LayerNorm' holds -3, below zero. Leave ylog out"),
        (lambda: plot.lines(x8, {LN: x8}, dots=["LN"], **LINES), "names out of LayerNorm"),
        (lambda: plot.panels({"left": (x8, {LN: x8[:2]})}, **LINES), "plot.panels, 'left': 'LayerNorm' has shape"),
        (lambda: plot.panels({"left": (x8, {LN: x8})}, **{**LINES, "y": ["a", "b"]}), "2 labels in y= for 1 panels"),
        (
            lambda: plot.heat(torch.eye(2), "ab", "abc", x="x", y="y", **WORDS, **TABLE),
            r"shape \(2, 2\) .*Expected shape \(2, 3\)",
        ),
        (lambda: plot.cubes({"a": {"shape": {"B": 2}, "over": "D"}}, **WORDS), "axis 'D' is not one of B"),
        (lambda: plot.colors_for([f"curve {number}" for number in range(12)]), "12 names in one figure"),
        (lambda: plot.colors_for(["a"], {"a": "Layernrom"}), "'Layernrom'"),
        (lambda: plot.figure(lambda ax: None, numbers={"a": [1], "b": [1, 2]}, **WORDS), "longer than"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


NONSENSE = {  # data that a function cannot draw
    "bars": ({LN: math.nan},),
    "hist": ({LN: [1, math.inf]},),
    "images": (torch.zeros(2, 1, 3, 4), "ab"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_data_that_cannot_be_drawn_is_refused_by_the_function_s_name(name):
    with pytest.raises(ValueError, match=f"^plot.{name}.*(expected|Expected|not|nan)"):
        CALLS[name][0](*NONSENSE[name], **CALLS[name][2])

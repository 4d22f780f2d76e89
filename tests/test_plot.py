"""lessonkit.plot: layout without overlaps, what a figure shows, what a notebook stores beside the picture, errors.

nbval compares captions and text alternatives, and no picture.
"""

import base64
import csv
import io
import itertools
import math

import matplotlib
import nbclient
import nbformat
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

WORDS = {"title": "A title", "caption": "A caption.", "alt": "In words."}
LABELS = {"x": "step", "y": "loss (nats)"}
LINES = {**WORDS, **LABELS, "show": False}

LN = "LayerNorm"
x8 = torch.arange(8)
pictures = torch.arange(24.0).reshape(2, 3, 4)  # (N, H, W)
blocks = {"(B, C)": {"shape": {"B": 2, "C": 5}, "over": ("C",)}}
pre_ln = {"branch": ["LN", "f"], "formula": "x + f(LN(x))"}
# One right call of every function that shows something: (function, data, the words that it needs).
CALLS = {
    "lines": (plot.lines, (x8, {"LayerNorm": x8}), {**WORDS, **LABELS}),
    "panels": (plot.panels, ({"left": (x8, {"LayerNorm": x8})},), {**WORDS, **LABELS}),
    "bars": (plot.bars, ({"LayerNorm": 1.0},), {**WORDS, "x": "accuracy"}),
    "hist": (plot.hist, ({"LayerNorm": x8},), {**WORDS, "x": "value"}),
    "heat": (plot.heat, (torch.eye(2), ["a", "b"], ["c", "d"]), {**WORDS, "x": "column", "y": "row"}),
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
            ax.xaxis.label,
            ax.yaxis.label,
            ax._left_title,
            ax.xaxis.get_offset_text(),
            ax.yaxis.get_offset_text(),
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


def panels():
    parts = {f"learning rate {rate}": (x30, curves("bottom", 0.01)) for rate in (0.1, 1, 10)}
    return plot.panels(parts, ylog=True, **LINES)


def small_and_large(y, **more):
    return plot.lines(1e7 * x8.double(), {"none": y}, **LINES, **more)


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
    "small panels": panels,
    "huge numbers": lambda: small_and_large(10.0 ** (28 * x8.double()), ylog=True),
    "long categories": lambda: plot.lines([f"({4**n}, {n}00)" for n in range(3, 8)], {"none": range(5)}, **LINES),
    "long bars": lambda: plot.bars(
        {f"{name} with a long explanation": number for number, name in enumerate(TEN)}, **BARS, show=False
    ),
    "ten histograms": lambda: plot.hist(dict.fromkeys(TEN, x30), **BARS, show=False),
    "a low matrix with a long label": lambda: plot.heat(
        [[-1.0, 0.001, 1.0], [math.nan, -0.0001, 0.5]],
        ["a", "b"],
        [1, 2, 3],
        **WORDS,
        x="column",
        y="a label longer than this matrix is high",
        show=False,
    ),
    "many images": lambda: plot.images(
        torch.rand(13, 8, 8), [f"label {n}" for n in range(13)], ncols=5, **WORDS, show=False
    ),
    "all cubes of three axes": lambda: plot.cubes(
        {
            f"over {over}": {"shape": {"B": 2, "T": 3, "C": 4}, "over": over}
            for many in range(4)
            for over in itertools.combinations("BTC", many)
        },
        **WORDS,
        show=False,
    ),
    "an LSTM": lambda: plot.cell("LSTM", **WORDS, show=False),
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
    plot.lines(range(4), {"none": lost, LN: [1, 1, 1, 1]}, **LINES)
    plot.lines(range(4), {"none": [lost, [1.0, 1, 1, 1]], LN: [[1.0] * 4] * 2}, **LINES)
    plot.lines(range(4), {"none": [1e-3, 1e-30, 0, 0], LN: [1, 1, 1, 1]}, ylog=True, **LINES)
    plot.lines(range(4), {"none": [1, math.nan, 3, 4]}, **LINES)
    ends = [["none (diverges)", LN], ["none (1 of 2 diverge)", LN], [LN, "none (reaches 0)"], ["none"]]
    assert [labels(fig) for fig in drawn] == ends
    crosses = [[list(line.get_xdata()) for line in fig.axes[0].lines if line.get_marker() == "x"] for fig in drawn]
    assert crosses == [[[1]], [[1]], [[1]], []]


# ------------------------------------------------------------------------------------------------- what a figure shows


def test_a_band_is_drawn_where_the_statistic_says(drawn):
    runs = torch.tensor([[1.0, 2.0, 4.0], [2.0, 4.0, 9.0], [6.0, 0.0, 2.0]])
    plot.lines([0, 1, 2], {LN: runs}, **LINES)
    low, high = runs.mean(0) - runs.std(0), runs.mean(0) + runs.std(0)  # divides by n - 1
    corners = drawn[0].axes[0].collections[0].get_paths()[0].vertices
    for at in range(3):
        heights = corners[corners[:, 0] == at][:, 1]
        assert (heights.min(), heights.max()) == pytest.approx((low[at].item(), high[at].item()))


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
    small_and_large(1 + 1e-5 * x8.double())
    assert "1.00002" in [text.get_text() for text in drawn[3].axes[0].get_yticklabels()]


def test_bars_are_labeled_with_their_means_and_dots_are_the_runs(drawn):
    plot.bars({"none": [1.0, 2.0, 4.0], LN: 2.5, "DyT": -1.3}, **BARS, show=False)
    plot.bars({"a": 1e-7, "b": 1.0}, fmt=".0e", **BARS, show=False)
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["2.33", "2.5", "\N{MINUS SIGN}1.3"]
    assert [1.0, 2.0, 4.0] in [list(line.get_xdata()) for line in drawn[0].axes[0].lines]
    assert drawn[1].axes[0].texts[0].get_text() == "1e\N{MINUS SIGN}7"


def test_a_matrix_has_its_numbers_in_an_ink_that_reads(drawn):
    matrix = [[-1.0, 0.001, 1.0], [math.nan, -0.0001, 0.5]]
    plot.heat(matrix, "ab", [1, 2, 3], **WORDS, x="column", y="row", show=False)
    texts, (image,) = drawn[0].axes[0].texts, drawn[0].axes[0].images
    assert [text.get_text() for text in texts] == ["\N{MINUS SIGN}1.00", "0.00", "1.00", "nan", "0.00", "0.50"]
    assert [text.get_color() for text in texts] == ["#15191C", "#15191C", "white", "#15191C", "#15191C", "white"]
    assert (image.norm.vmin, image.norm.vmax) == (-1, 1)
    plot.images(torch.rand(13, 8, 8), [f"label {n}" for n in range(13)], ncols=5, **WORDS, show=False)
    scales = [(ax.images[0].norm.vmin, ax.images[0].norm.vmax) for ax in drawn[1].axes if ax.images]
    assert len(scales) == 13 and len(set(scales)) == 1


IMAGES = {"B": 2, "C": 4, "H": 3, "W": 5}
TOKENS = {"B": 2, "T": 3, "C": 4}


@pytest.mark.parametrize(
    "shape, over, groups, kept, blue, faces",  # front + top + side; of 4 axes one group may be on both blocks
    [
        ({"B": 2, "C": 5}, "C", {}, (2, 1), 5, 10),
        ({"B": 2, "C": 5}, "B", {}, (1, 5), 2, 10),
        (TOKENS, "C", {}, (2, 3, 1), 4 + 4 + 1, 12 + 8 + 6),
        (TOKENS, "B", {}, (1, 3, 4), 1 + 2 + 0, 26),
        (TOKENS, "BTC", {}, (1, 1, 1), 26, 26),
        (IMAGES, "CHW", {}, (2, 1, 1, 1), 15 + 20 + 12, 2 * 47),
        (IMAGES, "BHW", {}, (1, 4, 1, 1), 2 * (15 + 5 + 3), 2 * 47),
        (IMAGES, "CHW", {"C": 2}, (2, 2, 1, 1), 15 + 10 + 6, 2 * 47),
    ],
)
def test_cubes_shade_one_group_and_count_the_groups(shape, over, groups, kept, blue, faces, drawn):
    count, size = math.prod(kept), math.prod(shape.values()) // math.prod(kept)
    plot.cubes({"one": {"shape": shape, "over": over, "groups": groups}}, **WORDS, show=False)
    written = [text for text, _ in texts(drawn[0])]
    assert f"mean: {kept}" in written and {f"{axis} = {size}" for axis, size in shape.items()} <= set(written)
    assert any(text.startswith(f"{count} mean{'s' * (count > 1)} of {size} entr") for text in written)
    (boxes,) = [c for c in drawn[0].axes[0].collections if isinstance(c, PolyCollection)]
    first, colors = np.array(to_rgb(plot.COLORS[LN])), [np.array(color[:3]) for color in boxes.get_facecolors()]
    shaded = [any(np.allclose(color, light * first) for light in (1, 0.97, 0.9)) for color in colors]
    assert (sum(shaded), len(colors)) == (blue, faces)


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
    assert len(arrows) == 6
    back = [arrow for arrow in arrows if arrow.xy[0] < arrow.get_position()[0]]  # towards the memory, on the left
    assert len(back) == 2
    assert texts.count("one row, in the cache") == 1, "only where a loop moves nothing"


def test_a_block_draws_its_boxes_in_the_order_of_the_signal(drawn):
    layouts = {
        "Post-LN": {"branch": ["f"], "after": ["LN"]},
        "DeepNorm": {"branch": ["f"], "skip": ["× α"], "after": ["LN"], "formula": "LN(αx + f(x))"},
        "Peri-LN": {"branch": ["RMSNorm", "f", "LN"], "formula": "x + LN(f(RMSNorm(x)))"},
    }
    plot.blocks(layouts, **WORDS, show=False)
    (ax,) = drawn[0].axes
    at = {}
    for text in ax.texts:
        at.setdefault(text.get_text(), []).append(text.get_position())
    f, sums, outer = at["f"][2], sorted(at["+"]), sorted(at["LN"])
    assert at["RMSNorm"][0][0] == f[0] == outer[2][0] and at["RMSNorm"][0][1] < f[1] < outer[2][1] < sums[2][1]
    assert outer[0][1] > sums[0][1] and outer[0][0] == sums[0][0], "after the sum, on the stream"
    assert at["× α"][0][0] == sums[1][0] and at["× α"][0][1] < sums[1][1], "on the skip, before the sum"
    fills = {to_hex(patch.get_facecolor()).upper() for patch in ax.patches}
    assert {plot.COLORS["LayerNorm"], plot.COLORS["RMSNorm"], "#D5DBE0"} <= fills


# ----------------------------------------------------------------------------------------------- words, what is stored


@pytest.mark.parametrize("name", CALLS)
def test_words_are_required(name):
    function, data, words = CALLS[name]
    for word, empty in itertools.product(words, ("left out", "", "  ", None)):
        others = {key: text for key, text in words.items() if key != word}
        with pytest.raises(ValueError, match=f"plot.{name} needs {word}=...: .{{15}}"):
            function(*data, **others if empty == "left out" else others | {word: empty})


def test_bytes_do_not_depend_on_the_run_or_on_anybodys_settings():
    calls = [CALLS[name] for name in ("lines", "cubes")]
    first = [function(*data, **words, show=False).png for function, data, words in calls]
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        again = [function(*data, **words, show=False).png for function, data, words in calls]
        assert dict(matplotlib.rcParams) == before
    assert again == first


def test_a_notebook_stores_picture_numbers_text_and_caption():
    """Of a stored picture's metadata nbval compares nothing."""
    source = "import sys\nfrom lessonkit import plot\n"
    source += f"plot.lines(range(8), {{'LayerNorm': range(8)}}, **{ {**WORDS, **LABELS} })\n"
    source += "assert not {'matplotlib.pyplot', 'scipy', 'pandas'} & set(sys.modules), 'the import is light'"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(nb, timeout=60).execute()
    picture, caption = nb.cells[0].outputs
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
    "bars": (lambda: plot.bars({"a": 1, "b": 2.5}, x="%", **SHOWN), ["bar,%", "a,1", "b,2.5"]),
    "hist": (lambda: plot.hist({"a": [0.0, 0.1, 1]}, x="value", bins=2, **SHOWN), ["", "a,0,0.5,2", "a,0.5,1,1"]),
    "heat": (
        lambda: plot.heat([[1, float("nan")]], ["r"], ["c", "d"], x="to", y="from", **SHOWN),
        ['"from (down), to (across)",c,d', "r,1,"],
    ),
    "images": (lambda: plot.images(torch.tensor([[[0.0, 1, 2]]]), ["7"], **SHOWN), ["", "7,0,1,2"]),
    "cubes": (lambda: plot.cubes(blocks, **SHOWN), ["", '"(B, C)","B = 2, C = 5","(2, 1)",2,5']),
    "by hand": (
        lambda: plot.figure(lambda ax: ax.plot([0, 1]), numbers=BY_HAND, **SHOWN),
        ["rate,accuracy (%)", "0.1,96", "1,9"],
    ),
}


@pytest.mark.parametrize("picture, rows", TABLES.values(), ids=TABLES)
def test_the_table_behind_a_picture(picture, rows):
    lines = picture().numbers.splitlines()
    assert all(line == row for line, row in zip(lines, rows, strict=False) if row) and len(lines) >= len(rows)


def test_a_diagram_has_no_table_and_a_long_one_is_thinned_evenly():
    diagram = plot.figure(lambda ax: ax.plot([0, 1]), **SHOWN)
    assert diagram.numbers == "" and "numbers" not in diagram._repr_png_()[1]
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
        (lambda: plot.panels({"left": x8}, **LINES), r"panel 'left' is .* expected a pair"),
        (lambda: plot.panels({"left": (x8, {LN: x8[:2]})}, **LINES), "plot.panels, 'left': 'LayerNorm' has shape"),
        (lambda: plot.panels({"left": (x8, {LN: x8})}, **{**LINES, "y": ["a", "b"]}), "2 labels in y= for 1 panels"),
        (lambda: plot.bars({LN: math.nan}, x="x", **WORDS), "'LayerNorm' is nan, expected a finite number"),
        (lambda: plot.hist({LN: [1, math.inf]}, x="x", **WORDS), "1 of 2 values nan or inf"),
        (
            lambda: plot.heat(torch.eye(2), "ab", "abc", x="x", y="y", **WORDS),
            r"shape \(2, 2\) .*Expected shape \(2, 3\)",
        ),
        (lambda: plot.heat(torch.eye(21), range(21), range(21), x="x", y="y", **WORDS), "441 cells"),
        (lambda: plot.images(torch.zeros(2, 1, 3, 4), "ab", **WORDS), "squeeze a channel axis"),
        (lambda: plot.cubes({"a": {"shape": {"B": 2}}}, **WORDS), r"expected dict\(shape="),
        (lambda: plot.cubes({"a": {"shape": {"B": 2}, "over": "D"}}, **WORDS), "axis 'D' is not one of B"),
        (lambda: plot.cell("RNN", **WORDS), "draws 'GRU' and 'LSTM', not 'RNN'"),
        (lambda: plot.memory_traffic({name: [("f", ["x"], [])] for name in "abc"}, **WORDS), "3 lists, at most 2"),
        (lambda: plot.memory_traffic({"a": [("f", "x", [])]}, **WORDS), "'a' is .*expected"),
        (lambda: plot.blocks({"Pre-LN": {"after": ["LN"]}}, **WORDS), r"'Pre-LN' is .*expected dict\(branch="),
        (lambda: plot.blocks({str(n): pre_ln for n in range(6)}, **WORDS), "6 blocks, at most 5"),
        (lambda: plot.colors_for([f"curve {number}" for number in range(12)]), "12 names in one figure"),
        (lambda: plot.colors_for(["a"], {"a": "Layernrom"}), "'Layernrom' to 'a'"),
        (
            lambda: plot.figure(lambda ax: None, numbers={"a": [1], "b": [1, 2]}, **WORDS),
            "'a' has 1, 'b' has 2.*one value a row",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""lessonkit.plot: words, palette, statistics, layout without overlaps or clipping, what a notebook stores, errors."""

import base64
import io
import itertools
import math
import statistics
import subprocess
import sys

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
from lessonkit.plot import _cells, _house

WORDS = {"title": "A title", "caption": "A caption.", "alt": "In words."}
LABELS = {"x": "step", "y": "loss (nats)"}
LINES = {**WORDS, **LABELS, "show": False}

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
    "trips": (plot.trips, ({"fused": [("loop 1", ["x"], []), ("loop 2", [], ["y"])]},), WORDS),
    "scatter3d": (plot.scatter3d, ({"softmax": torch.eye(3)},), {**WORDS, "x": "a", "y": "b", "z": "c"}),
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

    monkeypatch.setattr(_house, "_png", keep)
    return figures


def texts(fig):
    """Every text that is drawn, with its box in pixels: [(text, box)]."""
    found = list(fig.texts)
    for ax in fig.axes:
        found += ax.texts
        if not ax.axison:
            continue
        found += [
            ax.xaxis.label,
            ax.yaxis.label,
            ax._left_title,
            ax.xaxis.get_offset_text(),
            ax.yaxis.get_offset_text(),
        ]
        if ax.name != "3d":
            for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
                low, high = sorted(limits)
                ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
                found += [label for place, label in ticks if low <= place <= high]
    return [(text.get_text(), Text.get_window_extent(text)) for text in found if text.get_text()]


def check_layout(fig):
    """No text of the figure overlaps another or leaves the figure."""
    boxes = texts(fig)
    width, height = fig.bbox.size
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, f"{text!r} is clipped"
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one!r} overlaps {two!r}"


def labels(fig):
    """The names beside the axes, from top to bottom, on one line each."""
    found = [text for ax in fig.axes for text in ax.texts if text.get_gid() == _house._END]
    return [t.get_text().replace("\n", " ") for t in sorted(found, key=lambda t: -t.get_position()[1])]


# Words


@pytest.mark.parametrize("name", CALLS)
def test_every_figure_is_drawn_inside_its_frame(name, drawn):
    function, data, words = CALLS[name]
    picture = function(*data, **words, show=False)
    assert picture.alt == "In words." and len(drawn) == 1
    assert picture.width == round(drawn[0].get_figwidth() * 110)


@pytest.mark.parametrize("name, word", [(name, word) for name, (_, _, words) in CALLS.items() for word in words])
@pytest.mark.parametrize("empty", ["left out", "", "  ", None])
def test_words_are_required(name, word, empty):
    function, data, words = CALLS[name]
    words = {key: text for key, text in words.items() if key != word}
    if empty != "left out":
        words[word] = empty
    with pytest.raises(ValueError, match=f"plot.{name} needs {word}=...: .{{15}}"):
        function(*data, **words)


# What is shown


def test_bytes_do_not_depend_on_the_run_or_on_anybodys_settings():
    calls = [CALLS[name] for name in ("lines", "bars", "cubes", "blocks", "scatter3d")]
    first = [function(*data, **words, show=False).png for function, data, words in calls]
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        again = [function(*data, **words, show=False).png for function, data, words in calls]
        assert dict(matplotlib.rcParams) == before
    assert again == first


def test_a_notebook_stores_picture_text_and_caption():
    source = "from lessonkit import plot\n"
    source += f"plot.lines(range(8), {{'LayerNorm': range(8)}}, **{ {**WORDS, **LABELS} })"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(nb, timeout=60).execute()
    picture, caption = nb.cells[0].outputs
    here = plot.lines(range(8), {"LayerNorm": range(8)}, **LINES)
    assert Image.open(io.BytesIO(here.png)).size[0] == 2 * 770
    assert base64.b64decode(picture.data["image/png"]) == here.png  # another process, the same bytes
    stored = picture.metadata["image/png"]
    assert {name: stored[name] for name in ("alt", "width", "numbers")} == {
        "alt": "In words.",
        "width": 770,
        "numbers": here.numbers,
    }
    assert picture.data["text/plain"] == "In words."
    assert set(picture.data) == {"image/png", "text/plain"}
    assert caption.data == {"text/markdown": "*A caption.*", "text/plain": "A caption."}
    assert {picture.output_type, caption.output_type} == {"display_data"}


def test_outside_a_notebook_it_prints(capsys):
    shown = plot.lines(x8, {"LayerNorm": x8}, **WORDS, **LABELS)
    assert shown is None
    assert capsys.readouterr().out == "In words.\nA caption.\n"


def test_words_written_over_several_lines_are_joined(drawn):
    picture = plot.bars({"none": 1}, title="T", x="x", caption="One\n   two.", alt="a\n  b", show=False)
    assert (picture.caption, repr(picture), picture._repr_png_()[1]["alt"]) == ("One two.", "a b", "a b")


def test_import_is_light():
    heavy = "matplotlib.pyplot", "scipy", "pandas"
    code = f"import sys\nfrom lessonkit import plot\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and not done.stderr


# Statistics


def test_mean_and_sample_deviation():
    runs = [[1.0, 2.0, 5.0], [3.0, 6.0, 5.0], [2.0, 1.0, 5.0], [7.0, 3.0, 5.0]]
    mean, sd = plot.mean_and_sd(torch.tensor(runs))
    columns = list(zip(*runs, strict=True))
    assert mean == pytest.approx([statistics.mean(c) for c in columns])
    assert sd == pytest.approx([statistics.stdev(c) for c in columns])  # divides by n - 1
    assert sd[2] == 0


def test_mean_of_runs_of_which_one_is_lost():
    mean, sd = plot.mean_and_sd([[1.0, math.inf, 1e200], [3.0, 2.0, -1e200]])
    assert mean[0] == 2 and math.isnan(mean[1]) and math.isnan(sd[1])
    assert np.isnan(plot.mean_and_sd([[1.0, 2.0]])[1]).all()


def test_band_is_drawn_where_the_statistic_says(drawn):
    runs = torch.tensor([[1.0, 2.0, 4.0], [2.0, 4.0, 9.0], [6.0, 0.0, 2.0]])
    plot.lines([0, 1, 2], {"LayerNorm": runs}, **LINES)
    mean, sd = plot.mean_and_sd(runs)
    corners = drawn[0].axes[0].collections[0].get_paths()[0].vertices
    for i in range(3):
        heights = corners[corners[:, 0] == i][:, 1]
        assert heights.min() == pytest.approx(mean[i] - sd[i]) and heights.max() == pytest.approx(mean[i] + sd[i])


@pytest.mark.parametrize(
    "runs, sentence",
    [
        ({"a": (4, 8)}, " Mean line and band of one sample standard deviation over n = 4 runs."),
        ({"a": (4, 8), "b": (4, 8)}, " Mean line and band of one sample standard deviation over n = 4 runs."),
        ({"a": (4, 8), "b": (3, 8)}, " Mean line and band of one sample standard deviation over n = 4 (a), 3 (b)."),
        ({"a": (8,)}, ""),
        ({"a": (1, 8)}, ""),
    ],
)
def test_caption_states_n_and_estimator(runs, sentence, drawn):
    curves = {name: torch.rand(shape) for name, shape in runs.items()}
    parts = {"left": (x8, curves), "right": (x8, {"c": x8})}
    assert plot.panels(parts, **LINES).caption == "A caption." + sentence
    if "b" not in runs:
        assert plot.lines(x8, curves, **LINES).caption == "A caption." + sentence


def test_panels_with_different_numbers_of_runs_say_so(drawn):
    parts = {"left": (x8, {"a": torch.rand(4, 8)}), "right": (x8, {"a": torch.rand(3, 8)})}
    assert plot.panels(parts, **LINES).caption.endswith("over n = 4 (a), 3 (a, right).")


def test_bars_state_n_and_estimator(drawn):
    picture = plot.bars({"none": [1.0, 2.0, 4.0], "LayerNorm": 2.5}, x="accuracy", **WORDS, show=False)
    text = "A dot for each run, mean and whisker of one sample standard deviation over n = 3 runs."
    assert picture.caption == f"A caption. {text}"
    assert [t.get_text() for t in drawn[0].axes[0].texts] == ["2.33", "2.5"]
    points = [line.get_xdata() for line in drawn[0].axes[0].lines if len(line.get_xdata()) == 3]
    assert any(list(x) == [1.0, 2.0, 4.0] for x in points)


@pytest.mark.parametrize(
    "value, fmt, text",
    [
        (-0.0001, ".2f", "0.00"),
        (-0.0, "g", "0"),
        (-1.5, ".1f", "\N{MINUS SIGN}1.5"),
        (3e-7, ".0e", "3e\N{MINUS SIGN}7"),
        (-2e12, ".0e", "\N{MINUS SIGN}2e12"),
        (0.0, ".1e", "0.0e0"),
        (math.nan, ".2f", "nan"),
        (-0.00001, ".1%", "0.0%"),
        (-math.inf, ".1f", "\N{MINUS SIGN}inf"),
        (100, ".3g", "100"),
        (1e10, ".0e", "1e10"),
    ],
)
def test_numbers(value, fmt, text):
    assert _house.number(value, fmt) == text


@pytest.mark.parametrize(
    "values",
    [
        torch.tensor([1, 2, 3], dtype=torch.bfloat16),
        torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
        [torch.tensor(1.0, requires_grad=True), torch.tensor(2), torch.tensor(3.0, dtype=torch.half)],
        np.array([1, 2, 3], dtype=np.float32),
        (1, 2.0, np.float64(3)),
        range(1, 4),
    ],
    ids=str,
)
def test_data_of_any_kind(values):
    assert _house.array(values, "values").tolist() == [1.0, 2.0, 3.0]
    assert _house.array([values, values], "values").shape == (2, 3)


def test_gradients_are_detached_for_the_caller(drawn):
    x = torch.linspace(1, 2, 8, requires_grad=True)
    plot.lines(x, {"LayerNorm": x, "none": [v * 2 for v in x]}, **LINES)
    assert x.requires_grad and x.grad is None


# Palette


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
def test_every_pair_of_methods_can_be_told_apart(eyes):
    seen = {}
    for name, color in plot.COLORS.items():
        c = np.array(to_rgb(color))
        seen[name] = lab(EYES[eyes] @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4))
    for one, two in itertools.combinations(seen, 2):
        # 2.3 is just noticeable; the least of Okabe and Ito's own pairs is 17.9
        assert np.linalg.norm(seen[one] - seen[two]) > 14, (one, two)


def test_text_in_any_colour_reads_on_white():
    for color in plot.COLORS.values():
        assert 1.05 / (_house.luminance(plot.ink(color)) + 0.05) >= 4.5


def test_layernorm_keeps_its_blue():
    for names in (["LayerNorm"], ["none", "BatchNorm", "LayerNorm"], ["mine", "yours", "LayerNorm"]):
        assert plot.colors_for(names)["LayerNorm"] == "#0072B2"
    for name in ("LN", "layer norm", "Layernorm", "layer_norm"):
        assert plot.colors_for([name])[name] == "#0072B2"
    assert plot.colors_for(["BN", "no norm", "warm"], {"warm": "Post-LN + warm-up"}) == {
        "BN": plot.COLORS["BatchNorm"],
        "no norm": plot.COLORS["none"],
        "warm": plot.COLORS["Post-LN + warm-up"],
    }


def test_unknown_names_get_what_is_left():
    names = [f"curve {i}" for i in range(9)] + ["BatchNorm"]
    colors = plot.colors_for(names)
    assert colors == plot.colors_for(names) and list(colors) == names
    assert len(set(colors.values())) == 10 and "#0072B2" not in colors.values()
    with pytest.raises(ValueError, match="12 names in one figure"):
        plot.colors_for([f"curve {i}" for i in range(12)])


def test_own_colours():
    assert plot.colors_for(["a", "b"], {"a": "LayerNorm", "b": "#123456"}) == {"a": "#0072B2", "b": "#123456"}
    with pytest.raises(ValueError, match="'c', which is not drawn. Drawn are: a, b"):
        plot.colors_for(["a", "b"], {"c": "LayerNorm"})
    with pytest.raises(ValueError, match="'Layernrom' to 'a'"):
        plot.colors_for(["a"], {"a": "Layernrom"})


# Layout: the fixture `drawn` looks for overlaps and clipping in every figure

TEN = ["LayerNorm", "BatchNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "DyT", "none", "Pre-LN", "Post-LN", "softmax"]


@pytest.mark.parametrize("log", [{}, {"xlog": True, "ylog": True}], ids=str)
@pytest.mark.parametrize("gap, level", [(0.0, "bottom"), (1e-6, "top"), (0.01, "middle")])
def test_labels_of_curves_that_end_together(log, gap, level, drawn):
    x = np.arange(1, 60)
    shape = {"bottom": 5 / x + 1, "top": 5 - 4 / x, "middle": 3 + 0 * x}[level]
    curves = {name: shape + gap * i for i, name in enumerate(TEN[:5])}
    plot.lines(x, curves, **log, **LINES)
    if gap:
        assert labels(drawn[0]) == TEN[4::-1]  # in the order of the curves' ends


def test_labels_of_the_hardest_case(drawn):
    x = np.arange(1, 30)
    curves = {f"{name} with a long explanation behind it": 1 + 0.001 * i + 0 * x for i, name in enumerate(TEN)}
    href = {"entropy of single letters": 1.002, "chance": 0.998}
    vref = {"warm-up ends": 2, "half of the steps": 3, "learning rate falls": 28}
    plot.lines(x, curves, href=href, vref=vref, **{**LINES, "title": "A title that says everything it has to say " * 4})
    assert len(labels(drawn[0])) == 12


def test_labels_on_small_panels(drawn):
    x = np.arange(1, 30)
    curves = {name: np.exp(-x / 10) + 0.01 * i for i, name in enumerate(TEN[:6])}
    parts = {f"learning rate {lr}": (x, curves) for lr in (0.1, 1, 10)}
    plot.panels(parts, ylog=True, vref={"warm-up ends": 1}, href={"chance": 0.02}, **LINES)
    plot.panels(parts, **{**LINES, "y": ["loss (nats)", "accuracy", "gradient"]})
    shared, own = drawn
    assert len({ax.get_ylim() for ax in shared.axes}) == 1 and [ax.get_ylabel() for ax in own.axes][1] == "accuracy"


def test_a_panel_draws_a_name_in_the_same_colour_as_its_neighbour(drawn):
    plot.panels({"left": (x8, {"one": x8, "two": x8 + 1}), "right": (x8, {"two": x8})}, **LINES)
    colors = {t.get_text(): t.get_color() for t in drawn[0].axes[0].texts}
    assert drawn[0].axes[1].texts[0].get_color() == colors["two"]


def test_panels_show_the_range_of_all(drawn):
    plot.panels({"left": (x8, {"a": x8 + 1}), "right": (x8, {"a": 1000 * (x8 + 1)})}, ylog=True, **LINES)
    low, high = drawn[0].axes[0].get_ylim()
    assert low < 1 and high > 8000


def test_a_curve_that_diverges_is_marked(drawn):
    lost = [1.0, 2.0, math.inf, math.nan]
    plot.lines(range(4), {"none": lost, "LayerNorm": [1, 1, 1, 1]}, **LINES)
    plot.lines(range(4), {"none": [lost, [1.0, 1, 1, 1]], "LayerNorm": [[1.0] * 4] * 2}, **LINES)
    plot.lines(range(4), {"none": [1e-3, 1e-30, 0, 0], "LayerNorm": [1, 1, 1, 1]}, ylog=True, **LINES)
    assert [labels(fig) for fig in drawn] == [
        ["none (diverges)", "LayerNorm"],
        ["none (1 of 2 diverge)", "LayerNorm"],
        ["LayerNorm", "none (reaches 0)"],
    ]
    for fig, last in zip(drawn, (1, 1, 1), strict=True):
        crosses = [line for line in fig.axes[0].lines if line.get_marker() == "x"]
        assert [list(line.get_xdata()) for line in crosses] == [[last]]


def test_a_gap_in_the_middle_stays_a_gap(drawn):
    plot.lines(range(5), {"none": [1, math.nan, 3, math.inf, 5]}, **LINES)
    curve = drawn[0].axes[0].lines[0].get_ydata()
    assert np.isnan(curve[[1, 3]]).all() and labels(drawn[0]) == ["none"]


def test_a_curve_out_of_ylim_is_named_where_it_leaves(drawn):
    plot.lines(x8, {"none": 100 * x8, "LayerNorm": 0 * x8 + 1}, ylim=(0, 2), **LINES)
    assert drawn[0].axes[0].get_ylim() == (0, 2) and labels(drawn[0]) == ["none", "LayerNorm"]


def test_a_band_below_zero_leaves_a_log_axis_at_its_foot(drawn):
    runs = torch.tensor([[1.0, 0.001], [1.1, 1.0]])  # mean minus deviation is below zero at the end
    plot.lines([1, 2], {"LayerNorm": runs}, ylog=True, **LINES)
    low, high = drawn[0].axes[0].get_ylim()
    assert 0.1 < low < 0.51 and high > 1.2


def test_extreme_values(drawn):
    plot.lines(x8, {"none": 10.0 ** (28 * x8.double())}, ylog=True, **LINES)
    plot.lines(x8, {"none": 0 * x8}, **LINES)
    plot.lines([3], {"none": [2]}, ylog=True, xlog=True, **LINES)
    plot.lines([3], {"none": [2]}, **LINES)
    shown = []
    for y in (1e-9 * x8, -1e12 * x8.double(), 1 + 1e-5 * x8.double(), 1 + 1e-12 * x8.double(), 0.001 * x8):
        plot.lines(1e7 * x8, {"none": y}, **LINES)
        shown.append([t.get_text() for t in drawn[-1].axes[0].get_yticklabels()])
        assert not drawn[-1].axes[0].yaxis.get_offset_text().get_text()
    assert "$10^{-9}$" in str(shown[0]) or r"$2\cdot10^{-9}$" in shown[0]
    assert r"$-2\cdot10^{12}$" in shown[1] and "1.00002" in shown[2] and "1.00" in shown[3] and "0.002" in shown[4]


def test_categories_and_sweeps(drawn):
    shapes = ["(4096, 768)", "(4096, 1024)", "(16384, 256)", "(65536, 64)", "(1024, 4096)"]
    plot.lines(shapes, {"eager": range(5)}, **LINES)
    plot.lines([1e-5, 1e-4, 3e-4, 1e-3, 1.1e-3, 1e-2], {"none": range(6)}, xlog=True, **LINES)
    plot.lines([2, 8, 32, 128], {"none": range(4)}, xlog=True, **LINES)
    ticks = [[t.get_text() for t in fig.axes[0].get_xticklabels()] for fig in drawn]
    assert [t.replace("\n", " ") for t in ticks[0]] == shapes
    assert ticks[1] == [r"$10^{-5}$", "0.0001", "0.0003", "0.001", "0.01"] and ticks[2] == ["2", "8", "32", "128"]


def test_dots_have_no_line(drawn):
    plot.lines(range(40), {"measured": range(40), "formula": range(40)}, dots=["measured"], **LINES)
    dots, line = [curve for curve in drawn[0].axes[0].lines if len(curve.get_xdata()) == 40]
    assert (dots.get_linestyle(), dots.get_marker()) == ("None", "o") and line.get_linestyle() == "-"


def test_bars_on_both_sides_and_without_zero(drawn):
    plot.bars({"a": -1.3, "b": 0.4, "c": [-1.0, -3.0]}, x="value", **WORDS, show=False)
    plot.bars({"a": 1e-7, "b": 1.0}, xlog=True, fmt=".0e", x="error", **WORDS, show=False)
    plot.bars({"a": 0.96, "b": 0.97}, xlim=(0.9, 1), x="accuracy", vref={"chance": 0.95}, **WORDS, show=False)
    many = {name + " with a long explanation": i for i, name in enumerate(TEN)}
    plot.bars(many, x="value", vref={"one": 1, "two": 1.1, "three": 1.2}, **WORDS, show=False)
    assert [len(fig.axes[0].patches) for fig in drawn] == [3, 0, 0, 10]  # no bar where it could not start at zero


def test_hist_rows(drawn):
    g = torch.Generator().manual_seed(0)
    normal = ("standard normal", lambda t: np.exp(-t * t / 2) / math.sqrt(2 * math.pi))
    values = {name: torch.randn(500, generator=g) for name in TEN}
    picture = plot.hist(values, x="value", curve=normal, **WORDS, show=False)
    assert picture.caption == "A caption. Each row is scaled to its own peak."
    plot.hist({"constant": [2.0, 2.0]}, x="value", **WORDS, show=False)


def test_heat_numbers_and_their_ink(drawn):
    m = [[-1.0, 0.001, 1.0], [math.nan, -0.0001, 0.5]]
    plot.heat(
        m,
        ["a", "b"],
        [1, 2, 3],
        diverging=True,
        x="column",
        y="a label longer than this matrix is high",
        **{**WORDS, "show": False},
    )
    cells = drawn[0].axes[0].texts
    assert [t.get_text() for t in cells] == ["\N{MINUS SIGN}1.00", "0.00", "1.00", "nan", "0.00", "0.50"]
    assert [t.get_color() for t in cells] == ["white", "#15191C", "white", "#15191C", "#15191C", "white"]
    low, high = drawn[0].axes[0].images[0].norm.vmin, drawn[0].axes[0].images[0].norm.vmax
    assert low == -high == -1
    texts = [["mean", "in groups", "keep"]] * 2
    plot.heat(m, ["InstanceNorm", "b"], ["a", "b", "c"], texts=texts, x="axis", y="layer", **WORDS, show=False)
    plot.heat(torch.ones(16, 16), range(16), range(16), fmt=".1f", x="x", y="y", **WORDS, show=False)


def test_images_in_rows(drawn):
    plot.images(torch.rand(13, 8, 8), [f"label {i}" for i in range(13)], ncols=5, **WORDS, show=False)
    plot.images(torch.rand(1, 8, 8), ["only"], **WORDS, show=False)
    assert sum(bool(ax.images) for ax in drawn[0].axes) == 13
    assert len({(ax.images[0].norm.vmin, ax.images[0].norm.vmax) for ax in drawn[0].axes if ax.images}) == 1


def test_scatter3d_with_all_it_has(drawn):
    circle = torch.tensor([[math.cos(t), math.sin(t), 0] for t in np.linspace(0, 6.28, 40)])
    plot.scatter3d(
        {"softmax": torch.eye(3), "LayerNorm": circle},
        curves={"circle": circle},
        sphere=1.7,
        plane=(1, 1, 1),
        x="first",
        y="second",
        z="third",
        **WORDS,
        show=False,
    )
    assert sorted(labels(drawn[0])) == ["LayerNorm", "circle", "softmax"]
    plot.scatter3d({"softmax": 1e-3 * torch.eye(3)}, view=(60, 10), x="a", y="b", z="c", **WORDS, show=False)


@pytest.mark.parametrize("view", [(22, 35), (5, 20), (15, 10), (60, 10), (30, 60), (12, 98), (20, -60), (25, 200)])
def test_scatter3d_shows_every_label_from_every_side(view, drawn):
    plot.scatter3d(
        {"softmax": torch.eye(3), "LayerNorm": -1.5 * torch.eye(3)},
        sphere=1.7,
        plane=(1, 1, 1),
        view=view,
        x="first entry",
        y="second entry",
        z="third entry",
        **WORDS,
        show=False,
    )
    fig = drawn[0]
    (ax,) = fig.axes
    axes = (ax.xaxis, ax.yaxis, ax.zaxis)
    sides = [axis.label.get_window_extent() for axis in axes]
    ticks = [axis.get_tightbbox(fig.canvas.get_renderer()) for axis in axes]
    names = [Text.get_window_extent(text) for text in ax.texts]
    top = fig.texts[0].get_window_extent().y0  # of the room below the title
    assert all(0 < b.x0 and b.x1 < fig.bbox.x1 and 0 < b.y0 and b.y1 < top for b in sides + ticks)
    assert max(b.x1 for b in sides + ticks) < min(b.x0 for b in names)  # no name stands on an axis
    assert ax.bbox.height > 0.75 * top  # and the cube is large: matplotlib draws it somewhat smaller than its axes


def test_figure_by_hand(drawn):
    def draw(axes):
        for ax, level in zip(axes, (1, 2), strict=True):
            ax.plot([0, level])
            ax.set(xlabel="x", ylabel="a label of the vertical axis")
            plot.end_label(ax, "LayerNorm", 1, level, plot.COLORS["LayerNorm"])
            plot.end_label(ax, "none", 1, level)

    plot.figure(draw, ncols=2, sharey=True, **WORDS, show=False)
    assert labels(drawn[0])[0] in ("LayerNorm", "none")


@pytest.mark.parametrize("seed", range(20))
def test_spread(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    centres, sizes = rng.uniform(-10, 110, n), rng.uniform(1, 12, n)
    placed = np.array(_house.spread(list(centres), list(sizes), 0, 100))
    order = np.argsort(centres)
    low, high = (placed - sizes / 2)[order], (placed + sizes / 2)[order]
    assert (low[1:] >= high[:-1] - 1e-9).all() and low[0] >= -1e-9 and high[-1] <= 100 + 1e-9


def test_spread_moves_nothing_without_need():
    assert _house.spread([30, 10, 20], [5, 5, 5], 0, 100) == pytest.approx([30, 10, 20])
    assert _house.spread([50, 50], [10, 10], 0, 100) == pytest.approx([45, 55])
    assert _house.spread([1, 2, 3], [10, 10, 10], 0, 15) == pytest.approx([5, 15, 25])  # no room: from low on


# Cubes

LAYOUTS = [  # shape, over, groups, keepdim shape
    ({"D": 4}, "D", {}, (1,)),
    ({"B": 2, "C": 5}, "C", {}, (2, 1)),
    ({"B": 2, "C": 5}, "B", {}, (1, 5)),
    ({"B": 2, "T": 3, "C": 4}, "C", {}, (2, 3, 1)),
    ({"B": 2, "T": 3, "C": 4}, "TC", {}, (2, 1, 1)),
    ({"B": 2, "T": 3, "C": 4}, "BT", {}, (1, 1, 4)),
    ({"B": 2, "T": 3, "C": 4}, "BTC", {}, (1, 1, 1)),
    ({"B": 2, "T": 3, "C": 4}, "", {}, (2, 3, 4)),
    ({"B": 2, "C": 4, "H": 3, "W": 5}, "CHW", {}, (2, 1, 1, 1)),
    ({"B": 2, "C": 4, "H": 3, "W": 5}, "BHW", {}, (1, 4, 1, 1)),
    ({"B": 2, "C": 4, "H": 3, "W": 5}, "HW", {}, (2, 4, 1, 1)),
    ({"B": 2, "C": 4, "H": 3, "W": 5}, "C", {}, (2, 1, 3, 5)),
    ({"B": 2, "C": 4, "H": 3, "W": 5}, "CHW", {"C": 2}, (2, 2, 1, 1)),
]


@pytest.mark.parametrize("shape, over, groups, kept", LAYOUTS)
def test_cubes_count_and_shape(shape, over, groups, kept, drawn):
    x = torch.zeros(*shape.values())
    expected = math.prod(kept)
    assert plot.reduced(shape, over, groups) == (kept, expected, x.numel() // expected)
    if over and not groups:
        assert tuple(x.mean([list(shape).index(axis) for axis in over], keepdim=True).shape) == kept
    plot.cubes({"one": {"shape": shape, "over": over, "groups": groups}}, **WORDS, show=False)
    written = [text for text, _ in texts(drawn[0])]
    assert f"mean: {kept}" in written
    count = f"{expected} mean{'s' * (expected > 1)} of {x.numel() // expected} entr"
    assert any(text.startswith(count) for text in written)
    assert {f"{axis} = {size}" for axis, size in shape.items()} <= set(written)


def blue_faces(fig):
    (faces,) = [c for c in fig.axes[0].collections if isinstance(c, PolyCollection)]
    colors = [np.array(c[:3]) for c in faces.get_facecolors()]
    blue = np.array(to_rgb(plot.COLORS["LayerNorm"]))
    return sum(any(np.allclose(c, light * blue) for light in (1, 0.97, 0.9)) for c in colors), len(colors)


@pytest.mark.parametrize(
    "shape, over, groups, blue, faces",
    [
        # front + top + side
        ({"B": 2, "C": 5}, "C", {}, 5, 10),
        ({"B": 2, "C": 5}, "B", {}, 2, 10),
        ({"B": 2, "T": 3, "C": 4}, "C", {}, 4 + 4 + 1, 12 + 8 + 6),
        ({"B": 2, "T": 3, "C": 4}, "B", {}, 1 + 2 + 0, 26),
        ({"B": 2, "T": 3, "C": 4}, "BTC", {}, 26, 26),
        ({"B": 2, "C": 4, "H": 3, "W": 5}, "CHW", {}, 15 + 20 + 12, 2 * 47),
        ({"B": 2, "C": 4, "H": 3, "W": 5}, "BHW", {}, 2 * (15 + 5 + 3), 2 * 47),
        ({"B": 2, "C": 4, "H": 3, "W": 5}, "CHW", {"C": 2}, 15 + 10 + 6, 2 * 47),
    ],
)
def test_cubes_shade_exactly_one_group(shape, over, groups, blue, faces, drawn):
    plot.cubes({"one": {"shape": shape, "over": over, "groups": groups}}, **WORDS, show=False)
    assert blue_faces(drawn[0]) == (blue, faces)


def test_neighbouring_groups_differ_in_shade(drawn):
    plot.cubes({"one": {"shape": {"B": 6}, "over": ()}}, **WORDS, show=False)
    colors = [to_hex(c) for c in drawn[0].axes[0].collections[0].get_facecolors()]
    assert all(a != b for a, b in itertools.pairwise(colors)) and len(set(colors)) == 3


def test_many_cubes_and_a_fixed_size(drawn):
    shape = {"B": 2, "T": 3, "C": 4}
    every = [over for r in range(4) for over in itertools.combinations(shape, r)]
    plot.cubes({f"over {over}": {"shape": shape, "over": over} for over in every}, **WORDS, show=False)
    large = {"B": 3, "C": 8, "H": 8, "W": 8}
    plot.cubes({"(B, C, H, W)": {"shape": large, "over": "HW"}}, **WORDS, show=False)
    for shape in ({"B": 2, "C": 3}, {"B": 2, "C": 3, "H": 4, "W": 5}):
        plot.cubes({"x": {"shape": shape, "over": "C"}}, size=(7, 4), **WORDS, show=False)
    assert drawn[2].get_figheight() == drawn[3].get_figheight()  # a widget does not jump


# Cells


@pytest.mark.parametrize("kind, cell, state", [("GRU", LayerNormGRUCell, "h"), ("LSTM", LayerNormLSTMCell, "c")])
def test_a_cell_is_drawn_with_the_norms_it_has_and_none_on_the_state(kind, cell, state, drawn):
    plot.cell(kind, **WORDS, show=False)
    (ax,) = drawn[0].axes
    at = {text.get_text(): text.get_position() for text in ax.texts}
    assert {name for name, _ in cell(2, 3).named_children()} == {text for text in at if "_" in text}
    boxes = [patch.get_bbox() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    norms = [patch for patch in ax.patches if to_hex(patch.get_facecolor()).upper() == plot.COLORS["LayerNorm"]]
    assert len(norms) == len(list(cell(2, 3).children()))
    top = at[state][1]
    assert at[f"{state}\N{PRIME}"][1] == top and all(box.y1 < top for box in boxes), "the state passes no box"


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_every_wire_of_a_cell_ends_at_something(kind):
    parts = _cells._CELLS[kind]
    sizes = [(x, y, _cells._WIDTHS.get(text, 64) / 2, _cells._HIGH / 2) for x, y, text, *_ in parts["boxes"]]
    sizes += [(x, y, _cells._RADIUS, _cells._RADIUS) for x, y, _ in parts["circles"]]
    sizes += [(x, y, 4.5, 4.5) for x, y in parts["dots"]] + [(x, y, 11, 11) for x, y, _ in parts["words"]]
    for wire in parts["wires"]:
        for x, y in (wire[0], wire[-1]):
            assert any(abs(x - a) <= w and abs(y - b) <= h for a, b, w, h in sizes), f"{wire} hangs in the air"


# Trips to memory


def test_every_trip_to_memory_is_an_arrow_and_is_counted(drawn):
    line = [("mean(x)", ["x"], []), ("x - mean", ["x"], ["c"]), ("c * c", ["c"], ["squares"])]
    plot.trips({"line by line": line, "fused": [("loop 1", ["x"], []), ("loop 2", [], [])]}, **WORDS, show=False)
    (ax,) = drawn[0].axes
    texts = [text.get_text() for text in ax.texts]
    assert "3 read, 2 written" in texts and "1 read, 0 written" in texts
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == 6
    back = [arrow for arrow in arrows if arrow.xy[0] < arrow.get_position()[0]]  # towards the memory, on the left
    assert len(back) == 2
    assert texts.count("one row, in the cache") == 1, "only where a loop moves nothing"


# Blocks


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


# Errors: the value, what was expected, the way out

LN = "LayerNorm"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: plot.lines(x8, {}, **LINES), r"at least one name.*got \{\}"),
        (lambda: plot.lines(x8, x8, **LINES), "expects {name: values}"),
        (lambda: plot.lines(x8, {3: x8}, **LINES), "names as strings"),
        (lambda: plot.lines(x8, {LN: x8[:5]}, **LINES), r"'LayerNorm' has shape \(5,\) and x has 8 values"),
        (lambda: plot.lines(x8, {LN: torch.zeros(4, 7)}, **LINES), r"\(4, 7\).*\(runs, 8\)"),
        (lambda: plot.lines(x8, {LN: torch.zeros(0, 8)}, **LINES), r"shape \(0, 8\)"),
        (lambda: plot.lines(x8, {LN: [[1, 2], [3]]}, **LINES), "'LayerNorm' is no array of real numbers"),
        (lambda: plot.lines(x8, {LN: ["a"] * 8}, **LINES), "no array of real numbers"),
        (lambda: plot.lines(x8, {LN: None}, **LINES), "no array of real numbers|shape"),
        (lambda: plot.lines(torch.tensor(1.0), {LN: x8}, **LINES), r"x has shape \(\)"),
        (lambda: plot.lines([], {LN: []}, **LINES), r"x has shape \(0,\)"),
        (lambda: plot.lines([0, math.nan], {LN: [1, 2]}, **LINES), "finite numbers"),
        (lambda: plot.lines(x8, {LN: [math.nan] * 8}, **LINES), "'LayerNorm' has no value to draw.*Leave it out"),
        (lambda: plot.lines(x8, {LN: 0 * x8}, ylog=True, **LINES), "nan or inf, or 0"),
        (lambda: plot.lines(x8, {LN: x8 - 3}, ylog=True, **LINES), "'LayerNorm' holds -3, below zero. Leave ylog out"),
        (lambda: plot.lines(x8, {LN: x8}, xlog=True, **LINES), "x holds 0, which xlog=True cannot show"),
        (lambda: plot.lines(x8, {LN: x8}, ylog=True, href={"zero": 0}, **LINES), "reference 'zero' is at 0"),
        (lambda: plot.lines(x8, {LN: x8}, ylog=True, ylim=(0, 9), **LINES), r"ylim=\(0, 9\) reaches 0, which ylog"),
        (lambda: plot.lines(x8, {LN: x8}, vref={"end": math.inf}, **LINES), "reference 'end' is at inf"),
        (lambda: plot.lines(x8, {LN: x8}, dots="LayerNorm", **LINES), "expected a list of names"),
        (lambda: plot.lines(x8, {LN: x8}, dots=["LN"], **LINES), "names out of LayerNorm"),
        (lambda: plot.panels({"left": x8}, **LINES), r"panel 'left' is .* expected a pair"),
        (lambda: plot.panels({"left": (x8, {LN: x8[:2]})}, **LINES), "plot.panels, 'left': 'LayerNorm' has shape"),
        (lambda: plot.panels({"left": (x8, {LN: x8})}, **{**LINES, "y": ["a", "b"]}), "2 labels in y= for 1 panels"),
        (lambda: plot.panels({"left": (x8, {LN: x8})}, **{**LINES, "y": [""]}), "needs y="),
        (lambda: plot.bars({LN: math.nan}, x="x", **WORDS), "'LayerNorm' is nan, expected a finite number"),
        (lambda: plot.bars({LN: []}, x="x", **WORDS), "expected a finite number"),
        (lambda: plot.bars({LN: -1}, x="x", xlog=True, **WORDS), "holds -1, which xlog"),
        (lambda: plot.hist({LN: [1, math.inf]}, x="x", **WORDS), "1 of 2 values nan or inf"),
        (lambda: plot.hist({LN: []}, x="x", **WORDS), "'LayerNorm' has 0 of 0"),
        (
            lambda: plot.heat(torch.eye(2), "ab", "abc", x="x", y="y", **WORDS),
            r"shape \(2, 2\) .*Expected shape \(2, 3\)",
        ),
        (lambda: plot.heat(torch.eye(21), range(21), range(21), x="x", y="y", **WORDS), "441 cells"),
        (lambda: plot.heat(torch.eye(2), "ab", "ab", texts=[["a"]], x="x", y="y", **WORDS), "2 rows of 2 strings"),
        (lambda: plot.images(torch.zeros(2, 1, 3, 4), "ab", **WORDS), "squeeze a channel axis"),
        (lambda: plot.images(pictures, "abc", **WORDS), "3 labels"),
        (lambda: plot.cubes({"a": {"shape": {"B": 2}}}, **WORDS), r"expected dict\(shape="),
        (lambda: plot.cubes({"a": {"shape": {"B": 9}, "over": "B"}}, **WORDS), "1 to 4 axes of 1 to 8 cells"),
        (lambda: plot.cubes({"a": {"shape": dict.fromkeys("ABCDE", 2), "over": "B"}}, **WORDS), "1 to 4 axes"),
        (lambda: plot.cubes({"a": {"shape": {"B": 2}, "over": "D"}}, **WORDS), "axis 'D' is not one of B"),
        (
            lambda: plot.cubes({"a": {"shape": {"C": 3}, "over": "C", "groups": {"C": 2}}}, **WORDS),
            "its 3 divisible by 2",
        ),
        (lambda: plot.cubes({"a" * 90: {"shape": {"C": 3}, "over": "C"}}, **WORDS), "too wide"),
        (lambda: plot.cell("RNN", **WORDS), "draws 'GRU' and 'LSTM', not 'RNN'"),
        (lambda: plot.trips({name: [("f", ["x"], [])] for name in "abc"}, **WORDS), "3 lists, at most 2"),
        (lambda: plot.trips({"a": [("f", "x", [])]}, **WORDS), "'a' is .*expected"),
        (lambda: plot.trips({"a": [("f" * 40, ["x"], [])]}, **WORDS), "is too wide. Say it in fewer letters"),
        (lambda: plot.blocks({"Pre-LN": {"after": ["LN"]}}, **WORDS), r"'Pre-LN' is .*expected dict\(branch="),
        (lambda: plot.blocks({"Pre-LN": {"branch": ["f"], "before": ["LN"]}}, **WORDS), r"expected dict\(branch="),
        (lambda: plot.blocks({str(n): pre_ln for n in range(6)}, **WORDS), "6 blocks, at most 5"),
        (lambda: plot.blocks({"a" * 40: pre_ln}, **WORDS), "the words of 'a+' are too wide"),
        (lambda: plot.scatter3d({}, x="x", y="y", z="z", **WORDS), "expects points or curves"),
        (lambda: plot.scatter3d({"a": torch.ones(4)}, x="x", y="y", z="z", **WORDS), r"'a' has shape \(4,\)"),
        (
            lambda: plot.scatter3d({"a": torch.eye(3)}, plane=(0, 0, 0), x="x", y="y", z="z", **WORDS),
            "normal of a plane",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

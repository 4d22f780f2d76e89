"""The numbers behind a picture: what a notebook stores of them with it, and what of long tables is left out."""

import csv
import io

import pytest
import torch

from lessonkit import plot
from lessonkit.plot import _numbers

WORDS = {"title": "A title", "caption": "A caption.", "alt": "In words.", "show": False}
x3 = torch.tensor([1.0, 2, 3])


def rows(picture):
    """The table of a picture, cell by cell as text."""
    return list(csv.reader(io.StringIO(picture.numbers)))


def test_lines_of_one_run_and_of_several():
    curves = {"LayerNorm": x3 / 3, "none": torch.stack([x3, 3 * x3])}
    drawn = rows(plot.lines(x3, curves, x="step", y="loss (nats)", href={"chance": 2.3}, vref={"here": 2}, **WORDS))
    assert drawn[0] == ["curve", "step", "loss (nats)", "standard deviation"]
    assert drawn[1] == ["LayerNorm", "1", "0.333", ""]
    assert drawn[4:7] == [["none", "1", "2", "1.41"], ["none", "2", "4", "2.83"], ["none", "3", "6", "4.24"]]
    assert drawn[7:] == [["chance", "all", "2.3", ""], ["here", "2", "all", ""]]


def test_a_lost_value_is_an_empty_cell_and_a_category_its_word():
    drawn = rows(plot.lines(["a", "b"], {"none": [1.0, float("nan")]}, x="place", y="rms", **WORDS))
    assert drawn == [["curve", "place", "rms"], ["none", "a", "1"], ["none", "b", ""]]


def test_panels_say_which_one_and_what_it_counts():
    parts = {"left": (x3, {"none": x3}), "right": (x3, {"none": torch.stack([x3, x3])})}
    drawn = rows(plot.panels(parts, x="step", y=["loss", "rms"], **WORDS))
    assert drawn[0] == ["panel", "curve", "step", "value", "standard deviation"]
    assert drawn[1] == ["left: loss", "none", "1", "1", ""] and drawn[4] == ["right: rms", "none", "1", "1", "0"]
    same = rows(plot.panels(parts, x="step", y="loss", **WORDS))
    assert same[0][3] == "loss" and same[1][0] == "left"
    assert {len(row) for row in drawn + same} == {5}


def test_bars_histogram_matrix_images_points_blocks():
    assert rows(plot.bars({"a": 1, "b": 2.5}, x="%", vref={"chance": 0.1}, **WORDS)) == [
        ["bar", "%"],
        ["a", "1"],
        ["b", "2.5"],
        ["chance", "0.1"],
    ]
    several = rows(plot.bars({"a": [1, 3.0], "b": [2.0]}, x="%", **WORDS))
    assert several[1:] == [["a", "2", "1.41", "2"], ["b", "2", "", "1"]]
    counts = rows(plot.hist({"a": [0.0, 0.1, 1]}, x="value", bins=2, **WORDS))
    assert counts[1:] == [["a", "0", "0.5", "2"], ["a", "0.5", "1", "1"]]
    matrix = rows(plot.heat([[1, float("nan")]], ["r"], ["c", "d"], x="to", y="from", **WORDS))
    assert matrix == [["from (down), to (across)", "c", "d"], ["r", "1", ""]]
    assert rows(plot.images(torch.tensor([[[0.0, 1, 2]]]), ["7"], **WORDS))[1] == ["7", "0", "1", "2"]
    points = rows(plot.scatter3d({"p": [[1, 2, 3.0]]}, curves={"c": [[0, 0, 1.0]]}, x="a", y="b", z="c", **WORDS))
    assert points == [["points", "a", "b", "c"], ["p", "1", "2", "3"], ["c", "0", "0", "1"]]
    blocks = plot.cubes({"LN": {"shape": {"B": 2, "C": 5}, "over": ("C",)}}, **WORDS)
    assert rows(blocks)[1] == ["LN", "B = 2, C = 5", "(2, 1)", "2", "5"]


def test_a_figure_drawn_by_hand_takes_columns_and_refuses_crooked_ones():
    draw = lambda ax: ax.plot([0, 1])
    picture = plot.figure(draw, numbers={"rate": [0.1, 1], "accuracy (%)": torch.tensor([96.0, 9])}, **WORDS)
    assert rows(picture) == [["rate", "accuracy (%)"], ["0.1", "96"], ["1", "9"]]
    with pytest.raises(ValueError, match="'a' has 1, 'b' has 2.*one value a row"):
        plot.figure(draw, numbers={"a": [1], "b": [1, 2]}, **WORDS)
    diagram = plot.figure(draw, **WORDS)
    assert diagram.numbers == "" and "numbers" not in diagram._repr_png_()[1]


def test_what_a_notebook_stores():
    stored = plot.bars({"a": 1}, x="%", **WORDS)._repr_png_()[1]
    assert stored["numbers"] == "bar,%\na,1\n" and stored["rows"] == 1


def test_long_curves_are_thinned_evenly_and_keep_their_ends():
    text, total = _numbers.table(["c", "x"], {("a",): [(k,) for k in range(1001)], ("b",): [(7,)]})
    cells = list(csv.reader(io.StringIO(text)))
    xs = [int(row[1]) for row in cells if row[0] == "a"]
    assert total == 1002 and len(xs) == _numbers.MOST // 2 and (xs[0], xs[-1]) == (0, 1000)
    assert {b - a for a, b in zip(xs, xs[1:], strict=False)} == {10, 11} and cells[-1] == ["b", "7"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0012345, "0.00123"),
        (48000, "48000"),
        (3.14e-8, "3.14e-08"),
        (-2.0, "-2"),
        (12345.6, "12300"),
        (1e9, "1e+09"),
        (1024, "1024"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert _numbers._text(value) == text

"""lessonkit's hook in a real kernel: what shows while exercises wait, and what stays as it is."""

import re
from html import unescape

import nbformat
import pytest

from lessonkit import shown as kit
from lessonkit.shown import MARKS, TINTS, bound_names, box
from tests.helpers import executed

WAITS = "Your turn: exercise 3.1 · "
NOT_YET = "a box and an error"
BLANK = WAITS + "replace this line by your answer"


AGAIN = "Waits for exercise 3.1"  # a box above says what to do


def above(name, exercise="3.1"):
    return f"Waits for exercise {exercise}: `{name}` {kit.ABOVE}"


CELLS = [  # code, and what it must show: text on stdout, one line of YourTurn, or (error, words) with a traceback
    (
        """import torch
from lessonkit import check, show, shown as its
from lessonkit.check.declare import exercise
its.install()
graded = exercise(lambda x: x * 1.0, ("a row", torch.arange(3.0)))
graded.name = "same" """,
        "",
    ),
    ('def normalize(x):\n    raise check.YourTurn("3.1: replace this line by your answer")', ""),
    ("x_hat = normalize(1)", BLANK),
    ("y = x_hat * 2", above("x_hat")),
    ("z = (lambda: y)() + 1", above("y")),
    ("def late():\n    return sum(z for _ in range(2))\nlate()", above("z")),
    ("a = 5\nb = normalize(a)\nc = 6", AGAIN),
    ("print(a)", "5\n"),
    ("c", above("c")),
    # a quiz: the blank stands at top level and says what it will bind
    (
        """# Exercise 3.2 · ●○○○○ · 2 min
raise check.YourTurn("3.2: replace this line by your answer: guess = ..., reason = ...")""",
        "Your turn: exercise 3.2 · replace this line by your answer: guess = ..., reason = ...",
    ),
    ("graded(guess)", above("guess", "3.2")),
    ("graded(normalize)", AGAIN),
    ("graded(lambda x: x + y)", above("y")),
    (
        """class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, dy):
        raise check.YourTurn("3.3: replace this line by your answer")
x = torch.ones(3, requires_grad=True)
Twice.apply(x).sum().backward()""",
        "Your turn: exercise 3.3 · replace this line by your answer",
    ),
    ("torch.func.vmap(lambda row: row + x_hat)(torch.ones(2, 3))", above("x_hat")),
    # errors of the learner's own stay what they are
    ("def oops():\n    total = 1\n    return totl\noops()", ("NameError", "return totl")),
    ("def shadow():\n    print(y)\n    y = 1\nshadow()", ("UnboundLocalError", "print(y)")),
    (  # a free variable
        "def outer():\n    def inner():\n        return y\n    inner()\n    y = 1\nouter()",
        ("NameError", "return y"),
    ),
    ("x = = 1", ("SyntaxError", "invalid syntax")),
    # a name that the learner has bound waits no longer
    ("x_hat = 3\nprint(x_hat)", "3\n"),
    ("del x_hat\nx_hat", ("NameError", "x_hat")),
    ("def normalize(x):\n    return x + 1\ny, z = normalize(1), 4", ""),
    ("del y\nprint(y)", ("NameError", "print(y)")),
    ("print(normalize(z), late())", "5 8\n"),
    # what a check says: one or two lines, no traceback
    ("graded(lambda x: x * 1)", "Right: same does what it should on 1 input (a row).\n"),
    ("graded(lambda x: x + 0.5)", NOT_YET),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return what each cell of CELLS put out, all run in one kernel."""
    return [cell.outputs for cell in executed([code for code, _ in CELLS], tmp_path_factory.mktemp("kernel"))]


def in_a_box(out, tone):
    """Return the text of a box, after a look at its HTML: the same words, in its tone."""
    html, text = out.data["text/html"], out.data["text/plain"]
    assert html.count("<div") == html.count("</div>") == 1 + len(text.split("\n"))
    assert f"rgb({', '.join(map(str, TINTS[tone]))})" in html
    shown = unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", html).replace("\n", ""))
    assert shown == f"{MARKS[tone]} " + text.replace("\n", "").replace("`", "")
    return text


@pytest.mark.parametrize("number", range(len(CELLS)), ids=[code.splitlines()[0][:40] for code, _ in CELLS])
def test_what_a_cell_shows(number, shown):
    expected, outputs = CELLS[number][1], shown[number]
    if isinstance(expected, tuple):
        (error,) = outputs
        kind, words = expected
        assert error.output_type == "error" and error.ename == kind, error
        text = re.sub(r"\x1b\[[\d;]*m", "", " ".join(error.traceback))
        assert kind in text and words in text and "Cell In" in text and "lessonkit" not in text
    elif expected == NOT_YET:
        text = refused(outputs, "NotYet", "Not yet.", "not yet")
        assert text == outputs[1].evalue and text.startswith("Not yet. ")
    elif expected.startswith("Your turn"):
        assert refused(outputs, "YourTurn", "Your turn:", "turn") == expected
    elif expected.startswith("Waits"):
        (line, error) = outputs
        assert line.data["text/plain"] == expected and "style=" not in line.data["text/html"].rpartition("</style>")[2]
        assert (error.ename, error.traceback) == ("YourTurn", [expected])
    elif expected.startswith("Right"):
        (box,) = outputs
        assert in_a_box(box, "right") == expected.rstrip("\n")
    else:
        assert [(out.output_type, out.text) for out in outputs] == [("stream", expected)] * bool(expected)


def refused(outputs, kind, words, tone):
    """Return the text of a box, with an error below it that is a word or two and no traceback."""
    box, error = outputs
    assert (error.output_type, error.ename, error.traceback) == ("error", kind, [words])
    return in_a_box(box, tone)


def test_a_box_shows_what_a_learner_typed_as_text():
    assert "<b>Not yet.</b> &lt;b&gt; is no <code>x &lt; 1</code>" in box("Not yet. <b> is no `x < 1`", "not yet")


def test_a_name_whose_cell_was_not_run_says_how_to_come_back(tmp_path, monkeypatch):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x_hat = normalize(1)")])
    nbformat.write(notebook, tmp_path / "a.ipynb")
    missing, typo = (NameError(f"name '{name}' is not defined", name=name) for name in ("x_hat", "typo"))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    first, second = kit.not_run_yet(missing)
    assert first == "`x_hat` comes from a cell that has not been run in this kernel."
    assert "Run up to Selected Cell" in second
    assert kit.not_run_yet(typo) is kit.not_run_yet(ValueError("x_hat")) is None
    (tmp_path / "a.ipynb").write_text("{")
    assert kit.not_run_yet(missing) is None
    assert bound_names("%%time\nx = 1") == set()

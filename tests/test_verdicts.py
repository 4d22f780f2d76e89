"""What a check tells a learner: the cause first, the repair later, and whose code was judged."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
import torch

from coursebuild.source import blank
from lessonkit import check, course, shown
from lessonkit.check.misconceptions import Misconception, announce
from lessonkit.check.questions import values
from lessonkit.check.verdicts import collecting, reject
from tests import helpers
from tests.helpers import SOURCES, read

# ------------------------------------------------------------------------------------------- the cause, then the rest


def toy(answer):
    announce([Misconception("one is missing. | Add one.", 1)])
    if answer == 1:
        reject("On 1: it is 1, expected 2.", "Probable cause: one is missing. | Add one.")
    if answer == 0:
        reject("On 0: it is 0.", "Zero is no number here.")


def told(judge, answer):
    with pytest.raises(check.NotYet) as caught:
        judge(answer)
    return str(caught.value).split("\n")


def test_the_cause_comes_first_and_the_repair_from_the_second_time_on_and_never_in_the_log(monkeypatch):
    noted, its = [], course.checks()["how_many"]
    monkeypatch.setattr("lessonkit.attempts.note", lambda *item, **more: noted.append(more["mistake"]))
    monkeypatch.setattr(course, "checks", lambda: {"toy": its})
    judge = check._judging("toy", toy)
    first = ["Not yet. Probable cause: one is missing.", "On 1: it is 1, expected 2."]
    again = [*first, "To mend it: Add one."]
    assert told(judge, 1) == first
    assert told(judge, 0) == ["Not yet. On 0: it is 0.", "Zero is no number here."]
    assert told(judge, 1) == told(judge, 1) == again
    assert noted == ["one is missing.", None, "one is missing.", "one is missing."]
    assert told(check._judging("other", toy), 1) == first, "of another exercise it is the first time"
    assert told(toy, 1) == again, "tests and graders are told the whole at once"


def test_a_check_s_help_says_what_it_takes_and_tells_no_solution():
    for name in course.checks():
        judge = getattr(check, name)
        assert "solution" not in judge.__doc__ and f"check.{name}" in judge.__doc__ + f"check.{name}"
        assert inspect.getdoc(judge) != inspect.getdoc(check.plain(name)) and not hasattr(judge, "__wrapped__")
        assert f"def {name}(" not in inspect.getsource(judge), "nor does check.NAME??"
        assert list(inspect.signature(judge).parameters) == ["answer"]
    assert check.layer_norm.__doc__.startswith(
        "Judge your answer to exercise 4.2. It takes your layer_norm itself, so write check.layer_norm(layer_norm)"
    )
    assert "exercise 6.2. It takes the value or values" in check.ages_on_paper.__doc__


def test_no_check_hides_behind_a_name_of_the_machinery():
    assert not vars(check).keys() & course.checks().keys()


# ------------------------------------------------------------------------------------------------------- numbers

HALVES = [np.float16(0.5), np.array(0.5), torch.tensor(0.5), torch.tensor([0.5]), Fraction(1, 2), [0.5, 0.5]]
HALVES += [np.full((2, 1), 0.5), torch.full((3, 1), 0.5), [np.float32(0.5)] * 2]
SAME = {
    0.5: HALVES,
    3: [3, 3.0, np.uint8(3), torch.tensor(3), torch.tensor([3])],
    True: [True, np.bool_(True), torch.tensor(True)],
    (0, 2): [
        *[[0, 2], np.array([0, 2]), torch.tensor([0, 2]), torch.Size([0, 2]), (np.int64(0), torch.tensor(2))],
        *[[[0, 2]], [[0], [2]], np.array([[0, 2]]), torch.tensor([[0.0, 2]]), torch.tensor([[0], [2]])],
    ],
    (3,): [(3,), [3], torch.tensor([3])],
}
OTHERS = {
    0.5: [0.6, True, None, [], [0.5, 0.6], torch.ones(3)],
    3: [4, True, "x"],
    True: [1, "True"],
    (0, 2): [(0,), 2, [[0, 0], [2, 2]], torch.tensor([[2], [0]])],
    (3,): [(3, 3), (4,)],
}


def typed(right):
    """Return a quiz of one question."""
    return lambda answer: values({"it": answer}, "toy", {"it": right}, {}, tolerance=1e-6)


@pytest.mark.parametrize("right", SAME)
def test_a_number_is_a_number_whoever_holds_it(right):
    for answer in SAME[right]:
        with collecting() as verdicts:
            typed(right)(answer)
        assert len(verdicts) == 1
    for answer in OTHERS[right]:
        assert told(typed(right), answer)


def test_a_number_of_a_billion_digits_is_refused_at_once():
    assert told(typed(1), "1e999999999")


# --------------------------------------------------------------------------------------------- whose code was judged


@pytest.fixture
def shell():
    with helpers.shell() as running:
        shown.install()
        yield running


def run(shell, *cells):
    """Run cells; return the lines that the last one printed, or those of its error."""
    for cell in cells:
        result = shell.run_cell(cell, store_history=True)
    return str(result.error_in_exec).split("\n")


def bases(shell):
    """Return {name: (it, its base classes)} of what a lesson's cells have bound."""
    bound = {name: value for name, value in shell.user_ns.items() if not name.startswith("_")}
    return {name: (value, getattr(value, "__bases__", None)) for name, value in bound.items()}


IMPORTS = "import torch\nfrom numbers import Integral\nfrom torch import nn\nfrom lessonkit import check"


def test_an_open_exercise_closes_no_later_one(shell, capsys):
    """Exercise 6.4 needs a class and a function of others."""
    lesson = read(SOURCES[5])
    exported = {cell.id: blank(lesson, cell) for cell in lesson.code("export")}
    asks, borrowed = "check.batch_norm(BatchNorm1d)", "RunningStatistics, since your 6.3"
    run(shell, IMPORTS, *(solved if name == "ex-6-4" else unsolved for name, (unsolved, solved) in exported.items()))
    before = bases(shell)
    capsys.readouterr()
    run(shell, asks)
    first, *more = capsys.readouterr().out.splitlines()
    assert first.startswith("Right: ")
    assert f"This was judged with the course's own {borrowed} is still open." in more
    assert bases(shell) == before
    wrong = "class Wrong(BatchNorm1d):\n    def forward(self, x):\n        return super().forward(x) + 0.5"
    lines = run(shell, wrong, "check.batch_norm(Wrong)")
    assert lines[0].startswith("Not yet. ") and f"{borrowed} is still open." in "\n".join(lines)
    assert run(shell, exported["ex-6-4"][0], asks)[0].startswith("6.4: replace this line")


def test_a_cell_that_python_cannot_read_leaves_the_definition_from_before_and_the_check_says_so(shell, capsys):
    card, asks = "# Exercise 2.1 · ●●○○○ · 4 min\n", "check.mean_and_var(mean_and_var)"
    right = f"{card}def mean_and_var(x):\n    return x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)"
    output = (
        "Python could not read the cell of exercise 2.1 when it was run last, so this is about the definition from "
        "before."
    )
    wrong = right.replace("correction=0", "correction=1")
    assert output not in run(shell, "from lessonkit import check", wrong, asks)
    assert output in run(shell, right.replace("return x", "return (( * x"), asks)
    capsys.readouterr()
    run(shell, right.removeprefix(card), asks)
    assert output not in capsys.readouterr().out, "written anew in a cell without the card"
    assert output in run(shell, f"{card}def mean_and_var(x):\n    raise check.YourTurn('2.1: x')", f"{card}((", asks)
    capsys.readouterr()
    run(shell, right, asks)
    assert output not in capsys.readouterr().out

"""Questions, cards, the way on and the minutes: what coursebuild adds to a lesson, and what the learner sees of it."""

import json

import pytest

from coursebuild import minutes, questions
from coursebuild.editions import notebook
from lessonkit import check
from lessonkit.check import asking
from tests.helpers import ROOT
from tests.toy import TITLE, lesson, project, refused, whole

ASKED = """# %% [markdown]
# Some text.
#
# **Predict 2.1:** what comes out of `5, 5, 5`?
# Think of the deviation.
# - [ ] ones :: That would take a mean of 0.
# - [ ] zeros :: Look at the denominator: $0/0$.
# - [x] nan :: The mean is 5 and the deviation 0.
#
# **Recall 2.1:** how many means?
# - [x] 160 :: One for each token.
# - [ ] 8 :: One for each sample.
#
# And on.
"""


@pytest.fixture
def read(tmp_path):
    return lesson(tmp_path, TITLE + ASKED + "# %%\n1 + 1\n")


def test_options_become_a_lettered_question_and_a_cell_for_a_letter(read):
    learner, solutions = notebook(read, "learner").cells, notebook(read, "solutions").cells
    assert learner[1].source == (
        "Some text.\n\n**Predict 2.1:** what comes out of `5, 5, 5`?\nThink of the deviation.\n\n"
        "- **a.** ones\n- **b.** zeros\n- **c.** nan"
    )
    assert [cell.source for cell in learner[2:6]] == [
        'check.predict("2.1", "")',
        "**Recall 2.1:** how many means?\n\n- **a.** 160\n- **b.** 8",
        'check.recall("2.1", "")',
        "And on.",
    ]
    assert [cell.source for cell in (solutions[2], solutions[4])] == [
        'check.predict("2.1", "c")',
        'check.recall("2.1", "a")',
    ]
    assert [cell.id for cell in learner[1:5]] == ["predict-2-1-asked", "predict-2-1", "recall-2-1-asked", "recall-2-1"]
    assert learner[2].metadata["tags"] == ["predict"]


def test_the_reasons_are_written_for_the_kit_and_for_nobody_else(read):
    made = json.loads(questions.files([read])["tiny.json"])
    assert made["Predict 2.1"][1] == {"text": "zeros", "reason": "Look at the denominator: $0/0$.", "right": False}
    assert [option["right"] for option in made["Recall 2.1"]] == [True, False]
    assert "denominator" not in json.dumps(notebook(read, "learner"))


GOOD = "# - [ ] a :: b\n# - [x] c :: d\n"


@pytest.mark.parametrize(
    "text, line, what, way_out",
    [
        (GOOD, 4, "an option without its question", "no empty line between"),
        ("# **Predict 2.1:** x\n#\n# text\n#\n" + GOOD + "#\n" + GOOD, 11, "an option without its question", "Begin"),
        ("# **Predict 2.1:** x\n# - [x] a :: b\n", 4, "has 1 options, expected two to four", "right below"),
        ("# **Predict 2.1:** x\n# text only\n", 4, "has 0 options", "right below"),
        ("# **Predict 2.1:** x\n" + "# - [ ] a :: b\n" * 5, 4, "has 5 options", "right below"),
        ("# **Predict 2.1:** x\n# - [ ] a :: b\n# - [ ] c :: d\n", 4, "exactly one right option", "mark it '- [x]'"),
        ("# **Predict 2.1:** x\n# - [x] a :: b\n# - [x] c :: d\n", 4, "exactly one right option", "mark it"),
        ("# **Predict 2.1:** x\n# - [x] a\n# - [ ] c :: d\n", 5, "'- [x] a' is not an option", "Write '- [ ]"),
        ("# **Predict 2.1:** x\n# - [X] a :: b\n# - [ ] c :: d\n", 5, "is not an option", "Write '- [ ]"),
        ("# **Predict 3.1:** x\n" + GOOD, 4, "a number of a different lesson", "expected 2.something"),
        ("# **Recall 2.1:** x\n" + GOOD + "#\n# **Recall 2.1:** x\n" + GOOD, 8, "is asked twice", "another number"),
    ],
)
def test_a_malformed_question_stops_the_build(text, line, what, way_out, tmp_path):
    refused(lambda: lesson(tmp_path, TITLE + "# %% [markdown]\n" + text), line, what, way_out)


def test_a_question_asked_in_two_cells_is_refused(tmp_path):
    text = "# %% [markdown]\n# **Predict 2.1:** x\n" + GOOD
    refused(
        lambda: lesson(tmp_path, TITLE + text + text.replace("x\n", "y\n")),
        7,
        "Predict 2.1 is asked twice",
        "another number",
    )


def test_files_of_lessons_that_are_gone_are_removed(tmp_path):
    root = project(tmp_path, {"02_tiny.py": TITLE + ASKED})
    questions.write(whole(root))
    assert [path.name for path in questions.folder(root).iterdir()] == ["tiny.json"]
    project(root, {"02_tiny.py": TITLE})
    questions.write(whole(root))
    assert list(questions.folder(root).iterdir()) == []


# ------------------------------------------------------------------------------------------------ what a letter gets


@pytest.fixture
def table(read, monkeypatch):
    found = json.loads(questions.files([read])["tiny.json"])
    monkeypatch.setattr(asking, "_tables", lambda: {"tiny": found})
    monkeypatch.setattr(asking, "answered", set())


@pytest.mark.parametrize(
    "letter, said",
    [
        ("", "Predict 2.1: put the letter of your answer (a, b or c) between the quotes, and run this cell.\n"),
        ("c", "Yes. The mean is 5 and the deviation 0.\n"),
        (" C) ", "Yes. The mean is 5 and the deviation 0.\n"),
        ("b", "Not quite. Look at the denominator: $0/0$.\n"),
        ("d", "Predict 2.1: 'd' is none of its letters. Put a, b or c between the quotes, and run this cell.\n"),
        (2, "Predict 2.1: 2 is none of its letters. Put a, b or c between the quotes, and run this cell.\n"),
    ],
)
def test_a_letter_gets_the_reason_of_its_option(letter, said, table, capfd):
    assert check.predict("2.1", letter) is None
    assert capfd.readouterr() == (said, "")


def test_recall_has_numbers_of_its_own(table, capfd):
    check.recall("2.1", "b")
    assert capfd.readouterr().out == "Not quite. One for each sample.\n"
    with pytest.raises(ValueError, match="there is no 'Predict 9.9'"):
        check.predict("9.9", "a")


# ------------------------------------------------------------------------------------------------- cards, the way on

EXERCISE = """# %% tags=["exercise"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 5 min
import math
def scale(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
"""


def test_an_exercise_has_a_card_above_it(tmp_path):
    read = lesson(tmp_path, TITLE + EXERCISE + EXERCISE.replace("ex-2-1", "ex-2-1-more"))
    cells = notebook(read, "learner").cells
    assert [cell.id for cell in cells[1:]] == ["card-2-1", "ex-2-1", "ex-2-1-more", "what-next"], (
        "no check, so nothing to sum up"
    )
    assert cells[1].source == (
        '<div class="alert alert-info">\n\n**Exercise 2.1** · ●●○○○ · 5 min · Write `scale`, run the cell, then the '
        "check below it.\n\n</div>"
    )


def test_a_lesson_ends_with_the_way_on_and_its_solutions(tmp_path):
    root = project(tmp_path, {"02_tiny.py": TITLE, "03_more.py": TITLE.replace("2 · Tiny", "3 · More of it")})
    first, last = whole(root).lessons
    ends = {
        (one.stem, edition): notebook(one, edition).cells[-1].source
        for one in (first, last)
        for edition in ("learner", "solutions")
    }
    assert ends["02_tiny", "solutions"] == "---\n**Next:** [3 · More of it](03_more.ipynb)"
    assert ends["02_tiny", "learner"].endswith("when you have tried: [solutions/02_tiny](solutions/02_tiny.ipynb)")
    assert "This was the last lesson." in ends["03_more", "learner"]


CHECKED = EXERCISE + '# %% tags=["check"]\ncheck.scale(scale)\n'


def test_a_lesson_sums_up_before_it_ends(tmp_path):
    read = lesson(tmp_path, TITLE + CHECKED + ASKED)
    assert [(cell.id, cell.source) for cell in notebook(read, "learner").cells[-2:-1]] == [
        ("how-far", 'check.summary("tiny")')
    ]
    assert json.loads(questions.files([read])["tiny.json"])["Exercise 2.1"] == "scale"


def test_an_exercise_may_have_several_checks(tmp_path, monkeypatch):
    read = lesson(tmp_path, TITLE + CHECKED + '# %% tags=["check"]\ncheck.shift(scale)\n' + ASKED)
    assert json.loads(questions.files([read])["tiny.json"])["Exercise 2.1"] == "scale shift"
    monkeypatch.setattr(asking, "_tables", lambda: {"tiny": {"Exercise 2.1": "scale shift"}})
    assert asking.summary("tiny", {"scale": True}).endswith("Still open: 2.1.")
    assert asking.summary("tiny", {"scale": True, "shift": True}) == "1 of 1 exercises are right in this kernel."


def test_the_summary(table, monkeypatch, capfd):
    tables = {"tiny": asking._tables()["tiny"] | {"Exercise 2.1": "scale", "Exercise 2.2": "shift"}}
    monkeypatch.setattr(asking, "_tables", lambda: tables)
    said = "1 of 2 exercises are right in this kernel. Still open: 2.2. Questions answered: 0 of 2."
    assert asking.summary("tiny", {"scale": True, "shift": False}) == said
    check.predict("2.1", "")
    check.predict("2.1", "x")
    check.recall("2.1", "b")
    assert asking.summary("tiny", {"scale": True, "shift": True}) == (
        "2 of 2 exercises are right in this kernel. Questions answered: 1 of 2."
    )


def test_a_check_remembers_its_last_verdict(monkeypatch):
    monkeypatch.setattr(check, "_verdicts", {})

    def toy(answer):
        if answer != 4:
            raise check.NotYet("Not yet.")

    remembering = check._judging("toy", toy)
    remembering(4)
    assert check._verdicts == {"toy": True}
    with pytest.raises(check.NotYet):
        remembering(5)
    assert check._verdicts == {"toy": False}


# ------------------------------------------------------------------------------------------------------------ minutes


def cell(kind, source, ident, *tags, folded=False, figures=0):
    metadata = {"tags": list(tags)} | ({"jupyter": {"source_hidden": True}} if folded else {})
    outputs = [{"data": {"image/png": "x"}}] * figures
    return {"cell_type": kind, "source": source, "id": ident, "metadata": metadata, "outputs": outputs}


CELLS = [
    cell("markdown", "# 2 · Tiny\n\n" + "word " * 118, "a"),
    cell("markdown", "## 2.1 Core", "b"),
    cell("code", "x = 1\n\ny = 2\nz = 3", "c", figures=2),
    cell("code", "x = 1\n" * 50, "d", folded=True),
    cell("markdown", "<details>" + "word " * 500 + "</details>", "e"),
    cell("code", 'check.predict("2.1", "")', "f", "predict"),
    cell("markdown", "card " * 300, "card-2-1"),
    cell("code", "# Exercise 2.1 · ●●○○○ · 10 min\nx = 1", "g", "exercise"),
    cell("markdown", "**Aside (optional).** " + "word " * 238, "h"),
    cell("markdown", "## 2.2 Deeper (optional, 3 min)\n\n" + "word " * 235, "i"),
    cell("markdown", "### Inside\n\n" + "word " * 119, "j"),
    cell("markdown", "## Take-away\n\n" + "word " * 119, "k"),
]


def test_the_model_of_minutes():
    found = minutes.sections({"cells": CELLS}, {"cells": CELLS})
    core = 120 / 120 + 2 / 120 + 3 * 4 / 60 + 2 * 0.75 + 1 / 3 + 2 * 4 / 60 + 13 + 120 / 120
    assert minutes.total(found) == pytest.approx(core, abs=0.02)
    assert minutes.total(found, optional=True) == pytest.approx(2 + 2 + 1, abs=0.05)
    assert [s.heading for s in found if s.optional] == [
        "2.1 Core (optional part)",
        "2.2 Deeper (optional, 3 min)",
        "Inside",
    ]


@pytest.mark.parametrize(
    "said, optional, lines", [(17, 3, 0), (18, 4, 0), (16, 2, 0), (20, 3, 1), (17, 9, 1), (None, 3, 1)]
)
def test_printed_minutes_are_held_against_the_model(said, optional, lines, tmp_path):
    cells = json.loads(json.dumps(CELLS).replace("optional, 3 min", f"optional, {optional} min"))
    cells[0]["source"] += f"\n\n*About {said} min.*" if said else ""
    for folder in ("notebooks", "notebooks/solutions"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "02_tiny.ipynb").write_text(json.dumps({"cells": cells}))
    found = minutes.wrong("02_tiny", tmp_path)
    assert len(found) == lines and all("Write" in line for line in found)


def test_the_model_reads_every_lesson_of_the_course(capsys):
    assert minutes.main(["02"]) == 0
    assert "02_statistics" in capsys.readouterr().out and minutes.total(minutes.of("02_statistics", ROOT)) > 20

"""Questions, cards, the way on and the minutes: what coursebuild adds to a lesson, and what the learner sees of it."""

import json

import pytest

from coursebuild import generated, manifest, minutes
from coursebuild.editions import notebook
from lessonkit import check, course
from lessonkit.check import questions
from lessonkit.course import Code, Exercise, Lesson, Question, Section, Text
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
    predict, recall = manifest.lesson(read).questions
    assert predict.options[1] == {"text": "zeros", "reason": "Look at the denominator: $0/0$.", "right": False}
    assert [option["right"] for option in recall.options] == [True, False]
    assert "denominator" not in json.dumps(notebook(read, "learner"))


GOOD = "# - [ ] a :: b\n# - [x] c :: d\n"


@pytest.mark.parametrize(
    "text, line, what, way_out",
    [
        (GOOD, 4, "an option without its question", "no empty line between"),
        ("# **Predict 2.1:** x\n#\n# text\n#\n" + GOOD + "#\n" + GOOD, 11, "an option without its question", "Begin"),
        ("# **Predict 2.1:** x\n# - [x] a :: b\n", 4, "has 1 options, expected two to four", "right below"),
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


# ------------------------------------------------------------------------------------------------ what a letter gets


@pytest.fixture
def kit(read, monkeypatch):
    """A kit that knows that lesson and no other."""
    known = manifest.lesson(read)
    monkeypatch.setattr(course, "lessons", lambda: {known.stem: known})
    monkeypatch.setattr(questions, "answered", set())
    return known


@pytest.mark.parametrize(
    "letter, reason",
    [
        ("", "Predict 2.1: put the letter of your answer (a, b or c) between the quotes, and run this cell.\n"),
        ("c", "Yes. The mean is 5 and the deviation 0.\n"),
        (" C) ", "Yes. The mean is 5 and the deviation 0.\n"),
        ("b", "Not quite. Look at the denominator: $0/0$.\n"),
        ("d", "Predict 2.1: 'd' is none of its letters. Put a, b or c between the quotes, and run this cell.\n"),
    ],
)
def test_a_letter_gets_the_reason_of_its_option(letter, reason, kit, capfd):
    assert check.predict("2.1", letter) is None
    assert capfd.readouterr() == (reason, "")


def test_recall_has_numbers_of_its_own(kit, capfd):
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
    read = lesson(tmp_path, TITLE + EXERCISE)
    cells = notebook(read, "learner").cells
    assert [cell.id for cell in cells[1:]] == ["card-2-1", "ex-2-1", "what-next"], "no check, so nothing to sum up"
    assert cells[1].source == (
        '<div class="alert alert-info">\n\n**Exercise 2.1** · ●●○○○ · 5 min · Write `scale`, run the cell, then the '
        "check below it.\n\n</div>"
    )


def test_an_exercise_has_one_cell(tmp_path):
    text = TITLE + EXERCISE + EXERCISE.replace("ex-2-1", "ex-2-1-more")
    refused(lambda: lesson(tmp_path, text), 10, "exercise 2.1 has a cell already", "Join the two")


def test_a_lesson_ends_with_the_way_on_and_its_solutions(tmp_path):
    root = project(tmp_path, {"02_tiny": TITLE, "03_more": TITLE.replace("2 · Tiny", "3 · More of it")})
    first, last = whole(root).lessons
    ends = {
        (lesson_text.stem, edition): notebook(lesson_text, edition).cells[-1].source
        for lesson_text in (first, last)
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


def test_a_check_cell_is_one_call(tmp_path):
    text = TITLE + EXERCISE + '# %% tags=["check"]\ncheck.scale(scale)\ncheck.shift(scale)\n'
    refused(lambda: manifest.lesson(lesson(tmp_path, text)), 10, "a check cell has one line", "Write just that")


TWO = CHECKED + '# %% tags=["check"]\ncheck.shift(scale)\n' + CHECKED.replace("2.1", "2.2").replace("2-1", "2-2")


def test_the_summary(tmp_path, monkeypatch, capfd):
    known = manifest.lesson(lesson(tmp_path, TITLE + TWO + ASKED))
    monkeypatch.setattr(course, "lessons", lambda: {known.stem: known})
    monkeypatch.setattr(questions, "answered", set())
    assert [check.name for check in known.exercises[0].checks] == ["scale", "shift"]
    head = "1 of 2 exercises are right, in this kernel or kept."
    still = f"{head} Not yet right here: 2.1. Questions answered: 0 of 2."
    assert questions.summary("tiny", {"scale"}) == still
    check.predict("2.1", "")
    check.predict("2.1", "x")
    check.recall("2.1", "b")
    head = "2 of 2 exercises are right, in this kernel or kept."
    assert questions.summary("tiny", {"scale", "shift"}) == f"{head} Questions answered: 1 of 2."
    known.exercises[0].optional = True
    head = "1 of 1 exercises are right, in this kernel or kept."
    assert questions.summary("tiny", {"scale"}) == f"{head} Optional: 2.1. Questions answered: 1 of 2."


def test_a_check_remembers_that_an_answer_was_right_once(monkeypatch):
    monkeypatch.setattr(check, "_passed", set())

    def toy(answer):
        if answer != 4:
            raise check.NotYet("Not yet.")

    remembering = check._judging("toy", toy)
    with pytest.raises(check.NotYet):
        remembering(5)
    assert check._passed == set()
    remembering(4)
    with pytest.raises(check.NotYet):
        remembering(5)
    assert check._passed == {"toy"}


# ------------------------------------------------------------------------------------------------------------ minutes


def timed(printed="*About 23 min", optional=3, stop=""):
    """Return a Lesson of known minutes: a core with an optional piece, an optional section with one inside, an end."""
    core = [
        Code("c", "x = 1\n\ny = 2\nz = 3", pictures=2),
        Code("d", "x = 1\n" * 50, folded=True),
        Text("<details>" + "word " * 500 + "</details>"),
        Code("e", "x = 1\n" * 50, tags=["way-back"]),
        Question("Predict", "2.1", "", []),
        Exercise("2.1", 2, 10, "# Exercise 2.1 · ●●○○○ · 10 min\nx = 1"),
        Text("**Aside (optional).** " + "word " * 198),
    ]
    sections = [
        Section("2 · Tiny", 1, items=[Text(f"{printed} " + "word " * 95)]),
        Section("2.1 Core", 2, items=core),
        Section(f"2.2 Deeper (optional, {optional} min)", 2, True, items=[Text("word " * 195)]),
        Section("Inside", 3, True, "Deeper", items=[Text("word " * 99)]),
        Section("What you have now", 2, items=[Text(f"word\n\n{stop}")]),
        Section("Take-away", 2, items=[Text("word " * 99)]),
    ]
    for section in sections:
        section.minutes, section.aside = map(minutes.of, minutes.counts(section))
    return Lesson("02_tiny", "Tiny", 23, sections)


def test_the_model_of_minutes():
    core = 100 / 100 + 2 / 100 + 3 * 4 / 60 + 2 * 0.75 + 1 + 2 / 100 + 2 * 4 / 60 + 17 + 5 / 100 + 100 / 100
    assert minutes.total(timed()) == pytest.approx(core, abs=0.05)
    assert minutes.total(timed(), optional=True) == pytest.approx(2 + 2 + 1, abs=0.05)
    assert [round(section.aside) for section in timed().sections] == [0, 2, 0, 0, 0, 0]
    first, second = minutes.sittings(timed(stop="**You can stop here:** close it."))
    assert (first + second, second) == (pytest.approx(core, abs=0.15), pytest.approx(1, abs=0.05))


IN_TWO = dict(stop="**You can stop here:** close it.")


@pytest.mark.parametrize(
    "printed, lines",
    [
        (dict(), 0),
        (dict(printed="*About 25 min"), 1),
        (dict(printed=""), 1),
        (dict(optional=4), 0),
        (dict(optional=9), 1),
        (dict(printed="*About 22 min, in two sittings of 21 and 1", **IN_TWO), 0),
        (dict(printed="*About 22 min, in two sittings of 15 and 7", **IN_TWO), 1),
        (dict(printed="*About 22 min, in two sittings of 21 and 1"), 1),
    ],
)
def test_printed_minutes_are_held_against_the_model(printed, lines):
    messages = minutes.wrong(timed(**printed))
    assert len(messages) == lines and all("Write" in line for line in messages)


# ------------------------------------------------------------------------------------------------- what the kit gets

OPTIONAL = """# %% [markdown]
# ## 2.1 Deeper (optional, 4 min)
#
# <details><summary>Hint</summary>
#
# No hint of an exercise.
# </details>
#
# ### In it
#
# ```
# ## no heading
# ```
"""
HINTED = """# %% [markdown]
# <details><summary>Hint</summary>
#
# Twice.
# </details>
#
# And so on.
"""
END = "# %% [markdown]\n# ## Take-away\n"


def numbered(number, *tags):
    """Return the source of exercise 2.1 with a different number and more tags."""
    more = CHECKED.replace("2.1", f"2.{number}").replace("2-1", f"2-{number}")
    return more.replace('["exercise"', ", ".join(['["exercise"', *(f'"{tag}"' for tag in tags)]))


def test_the_manifest_holds_a_lesson_and_its_solutions_lie_apart(tmp_path):
    text = TITLE + ASKED + CHECKED + HINTED + OPTIONAL + numbered(2) + END + numbered(3, "optional")
    root = project(tmp_path, {"02_tiny": text})
    sources = whole(root)
    generated.write(sources)
    folder = root / manifest.FOLDER
    stored = course.read(folder / "02_tiny.json")
    assert [(exercise.number, exercise.optional) for exercise in stored.exercises] == [
        ("2.1", False),
        ("2.2", True),
        ("2.3", True),
    ]
    assert [exercise.hint for exercise in stored.exercises] == ["Twice.", "", ""]
    *texts, folded, fenced = stored.texts
    assert texts == ["Some text.", "And on.", "And so on."] and "No hint" in folded and "## no heading" in fenced
    assert "...  # your answer" in stored.exercises[0].task and "Exercise" not in stored.exercises[0].task
    assert "2 * x" not in (folder / "02_tiny.json").read_text()
    assert course.solved("02_tiny", folder) == manifest.lesson(sources.lessons[0])
    project(root, {"03_tiny": TITLE.replace("2", "3")})
    (root / "lessons_src/lessons/02_tiny/lesson.py").unlink()
    generated.write(whole(root))
    assert [path.name for path in folder.rglob("*.json")] == ["03_tiny.json"] * 2, "those of a lesson that is gone go"

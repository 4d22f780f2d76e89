"""Progress read from saved notebooks of every kind, and what `make progress` and a class's page say of it."""

import html
import json
import os
import re

import pytest

from lessonkit.course import Check, DamagedCourse, Exercise, Lesson, Question, Section, lessons, stored
from lessonkit.progress import __main__ as command
from lessonkit.progress import learner, page, summary
from lessonkit.progress.saved import NOT_RUN, RIGHT, TRIED, WAITS, states_in
from tests.helpers import ROOT, python
from tests.test_setup import lab


def asked(number, minutes, *names, optional=False):
    checks = [Check(name, f"check.{name}(f)", name=name, argument="f") for name in names]
    return Exercise(number, 2, minutes, "", checks=checks, id=f"ex-{number}", optional=optional)


ITEMS = [
    Question("Recall", "2.1", "what?", []),
    asked("2.1", 5, "first"),
    Question("Predict", "2.1", "what?", []),
    asked("2.2", 10, "one", "other"),
    asked("2.3", 5, "more", optional=True),
]
COURSE = {
    "02_tiny": Lesson("02_tiny", "Tiny: a lesson", 60, [Section("Tiny", 1, items=ITEMS)]),
    "03_last": Lesson("03_last", "Last", 30, [Section("Last", 1, items=[asked("3.1", 5, "third")])]),
}


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [*outputs], "execution_count": None}


def exercise(number, *outputs):
    return code([f"# Exercise {number} · ●●○○○ · 5 min\n", "def f():\n", "    ..."], *outputs)


def check(name, *outputs):
    return code(f"check.{name}(f)", *outputs)


def error(name, *traceback):
    return {"output_type": "error", "ename": name, "evalue": "", "traceback": list(traceback)}


BOX = {"output_type": "display_data", "data": {"text/html": "<div>", "text/plain": ["Right: all 3 answers.\n", "Good"]}}
PRINTED = {"output_type": "stream", "name": "stdout", "text": ["1\n", "Right: outside a notebook"]}
NOT_YET, BLANK = error("NotYet"), error("YourTurn")


def written(path, *rights, **metadata):
    """Write a notebook in which these checks are right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [code("1 + 1"), *(check(name, BOX) for name in rights)]
    path.write_text(json.dumps({"cells": cells, "metadata": metadata}), encoding="utf-8")
    return path


STATES = {  # what the cells show: the states of the exercises 2.1 and 2.2
    "untouched": ([exercise("2.1"), check("first")], NOT_RUN, NOT_RUN),
    "right": ([exercise("2.1"), check("first", BOX), check("one", PRINTED), check("other", BOX)], RIGHT, RIGHT),
    "some parts": ([check("first", NOT_YET), check("one", BOX), check("other", NOT_YET)], TRIED, TRIED),
    "no part": ([check("first", BLANK), check("one", NOT_YET), check("other", BLANK)], WAITS, TRIED),
    "an error of its own": ([exercise("2.1", error("SyntaxError")), exercise("2.2", BLANK)], TRIED, WAITS),
    "copied, and right below": ([check("first", NOT_YET), exercise("2.1"), check("first", BOX)], RIGHT, NOT_RUN),
    "two in a cell": ([code("check.first(g)\ncheck.one(f)", BOX, NOT_YET)], RIGHT, TRIED),
    "talked about": ([code("# like check.first(f)", BOX)], NOT_RUN, NOT_RUN),
}


@pytest.mark.parametrize("shown", STATES)
def test_the_state_of_an_exercise(shown):
    cells, first, second = STATES[shown]
    assert states_in(cells, COURSE["02_tiny"]) == {"2.1": first, "2.2": second, "2.3": NOT_RUN}


def test_the_editions_of_a_real_lesson_are_read_as_they_were_stored():
    for folder, state in (("notebooks/solutions", RIGHT), ("notebooks", NOT_RUN)):
        cells = json.loads((ROOT / folder / "04_affine_and_module.ipynb").read_text("utf-8"))["cells"]
        assert set(states_in(cells, lessons()["04_affine_and_module"]).values()) == {state}


@pytest.mark.parametrize("content", ['{"cells": [{"cell_type"', "[1, 2]", "[" * 100_000])
def test_a_file_that_is_no_notebook_is_named_and_the_others_are_read(content, tmp_path):
    written(tmp_path / "03_last.ipynb", "third")
    (tmp_path / "02_tiny.ipynb").write_text(content, encoding="utf-8")
    who = learner(tmp_path, COURSE)
    assert who.notes == ["02_tiny.ipynb is left out: it cannot be read as a notebook of JupyterLab."]
    assert not who.left(COURSE["03_last"]) and who.left(COURSE["02_tiny"])


def test_a_file_says_which_lesson_it_is_else_its_name_does_and_of_copies_the_last_that_was_run_counts(tmp_path):
    for saved, (name, rights, said) in enumerate(
        [
            ("mine", ["first"], {"source": "lessons_src/lessons/02_tiny"}),
            ("02_tiny-Copy1", ["first", "more"], {}),
            ("02_tiny_ffffff", [], {}),  # put beside by make lab, later than all others
            ("notes", ["third"], {}),
            ("old", ["third"], {"source": "lessons_src/lessons/03_last.py"}),
        ]
    ):
        os.utime(written(tmp_path / f"{name}.ipynb", *rights, lesson=said), (saved, saved))
    who = learner(tmp_path, COURSE)
    assert who.files == {"02_tiny": "02_tiny-Copy1.ipynb", "03_last": "old.ipynb"}
    assert who.states == {"02_tiny": {"2.1": RIGHT, "2.2": NOT_RUN, "2.3": RIGHT}, "03_last": {"3.1": RIGHT}}
    assert who.notes == ["02_tiny-Copy1.ipynb counts of 3 copies of its lesson: the last saved that was run."]


def attempt(item="Exercise 2.1", what="first", right=True, **more):
    """A line of a log of attempts."""
    record = {"v": 1, "time": "2026-11-22T06:58:01Z", "kernel": "0a1b2c3d", "lesson": "tiny", "item": item}
    record |= {"check" if item.startswith("E") else "letter": what, "verdict": "right" if right else "not yet"}
    return json.dumps(record | {"on_item": 60.0, "in_kernel": 600.0} | more)


def test_a_learner_s_table_minutes_and_next_exercise(tmp_path):
    """Minutes go by the exercises that are left, 10 of 15 min in lesson 2; an optional one is no part of the core."""
    assert summary.line(learner(tmp_path, COURSE), COURSE).endswith("Next: exercise 2.1.")
    written(tmp_path / "02_tiny.ipynb", "first", "more")
    lines = summary.table(learner(tmp_path, COURSE), COURSE)
    assert "yours" not in lines[0]
    assert lines[1].split() == "2 · Tiny ●· +● 1 of 2 40 60 2.2".split()
    assert lines[4:6] == [
        "1 of 3 exercises of the core are right. Next: exercise 2.2 in 02_tiny.ipynb.",
        "About 1 h 10 min of the core are left.",
    ]
    kernels = [attempt(in_kernel=300.0), attempt(in_kernel=1200.0), attempt(kernel="ffffffff", in_kernel=600.0)]
    (tmp_path / "attempts.jsonl").write_text("\n".join([*kernels, "?"]))
    written(tmp_path / "02_tiny.ipynb", "first", "one", "other")
    written(tmp_path / "03_last.ipynb", "third")
    done = summary.table(learner(tmp_path, COURSE), COURSE)
    assert done[0].split()[-2:] == ["yours", "next"] and done[1].split()[-3:] == ["0", "60", "30"]
    assert done[4].endswith("You have finished the course.")
    assert done[-1].endswith("left out, damaged or of a newer edition of the course: 1.")


def rows_of(text):
    """Return the rows of a page's table, each a list of its cells' texts."""
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)]
    return [[html.unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in rows]


def test_the_page_has_a_row_a_learner_and_a_column_an_exercise(tmp_path):
    written(tmp_path / "seat 9/work/02_tiny.ipynb", "first", "more")
    written(tmp_path / "<b>Ève & Co/work/02_tiny.ipynb", "first", "one", "other")
    (tmp_path / "<b>Ève & Co/work/03_last.ipynb").write_text("{")
    text = page.html([learner(folder, COURSE) for folder in tmp_path.glob("*/work")], COURSE)
    assert "<b>Ève" not in text and "<script" not in text and 'http-equiv="refresh" content="30"' in text
    assert rows_of(text)[:5] == [
        ["learner", "right", "2 · Tiny", "3 · Last"],
        ["2.1", "2.2", "2.3", "3.1"],
        ["<b>Ève & Co", "2", *"●●··"],
        ["seat 9", "2", *"●·●·"],
        ["● right", "4", *"2110"],
    ]
    assert "&lt;b&gt;Ève &amp; Co: 03_last.ipynb is left out" in text
    in_order = ["anna", "Bo", "Łuk", "seat 9", "seat 10", "Übel", "Zoe"]
    assert sorted(sorted(in_order), key=page.in_order) == in_order


def test_lab_opens_the_first_lesson_that_is_not_finished_and_then_the_page_of_progress(tmp_path):
    folder = tmp_path / "lessons_src/lessonkit/course"
    folder.mkdir(parents=True)
    for stem, lesson in COURSE.items():
        (folder / f"{stem}.json").write_text(json.dumps(stored(lesson)[0]), encoding="utf-8")
    written(tmp_path / "work/02_tiny.ipynb", "first", "one", "other")
    last = written(tmp_path / "work/03_last.ipynb")
    name, (message,) = lab.opens_on(tmp_path, folder)
    assert name == "progress.md" and message.startswith("2 of 3 exercises of the core are right. Next: exercise 3.1")
    shown = (tmp_path / "work/progress.md").read_text(encoding="utf-8")
    assert "Next: exercise 3.1 in [03_last.ipynb](03_last.ipynb)." in shown
    fields = re.findall(r'title="([^"]+)">(. (?:<i>)?\d\.\d)', shown)
    assert fields == [("right", "● 2.1"), ("right", "● 2.2"), ("not run", "· <i>2.3"), ("not run", "· 3.1")]
    (tmp_path / "work/progress.md").unlink()
    (tmp_path / "work/progress.md").mkdir()  # cannot be written
    assert lab.opens_on(tmp_path, folder)[0] == last.name
    last.write_text("{")
    assert lab.opens_on(tmp_path, folder)[0] == "02_tiny.ipynb"
    written(tmp_path / "work/02_tiny.ipynb")
    (tmp_path / "work/progress.md").rmdir()
    assert lab.opens_on(tmp_path, folder)[0] == "02_tiny.ipynb", "nothing was run yet"
    (tmp_path / "03_last.json").write_text('{"type": [')
    with pytest.raises(DamagedCourse, match="03_last.json is damaged. Get it back with git"):
        lessons(tmp_path)


def test_a_folder_that_holds_the_learners_folders_stands_for_them(tmp_path, capsys):
    collected, page_of = tmp_path / "in", tmp_path / "class.html"
    written(collected / "anna/02_statistics.ipynb", "how_many")
    (collected / "anna/attempts.jsonl").write_text(attempt("Exercise 2.2", "how_many", lesson="statistics"))
    written(collected / "bo/work/02_statistics.ipynb")
    written(collected / ".trash/02_statistics.ipynb")
    for arguments, out in [
        (["--html", page_of, collected], f"{page_of}: 2 learners\n"),
        (["--report", collected], "Learners: 1. Attempts: 1."),
        (["--report", collected / "bo/work"], "bo/work/attempts.jsonl: no attempts."),
        ([collected], "anna:\n"),
    ]:
        command.main([*map(str, arguments)])
        assert out in capsys.readouterr().out
    assert [row[0] for row in rows_of(page_of.read_text("utf-8"))[2:4]] == ["anna", "bo"]
    with pytest.raises(SystemExit):
        command.main(["nowhere"])
    assert "there is no nowhere" in capsys.readouterr().err


def test_it_reads_the_learners_folder_without_being_told_and_needs_no_torch(tmp_path):
    written(tmp_path / "02_statistics.ipynb", "how_many")
    program = "import sys; sys.modules['torch'] = None; from lessonkit.progress import __main__ as it; it.main([])"
    assert "·●·" in python("-c", program, env=os.environ | {"LESSON_WORK": str(tmp_path)})

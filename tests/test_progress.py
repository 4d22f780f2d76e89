"""Progress read from saved notebooks of every kind, and what `make progress` and a class's page say of it."""

import html
import json
import os
import re

import pytest

from lessonkit.course import Check, DamagedCourse, Exercise, Lesson, Question, Section, lessons, stored
from lessonkit.progress import __main__ as command
from lessonkit.progress import learner, page, summary
from lessonkit.progress.saved import NOT_RUN, RIGHT, STATES, TRIED, WAITS, Unreadable, read, states_in
from tests.helpers import ROOT, python
from tests.test_setup import lab

GREEN = "\x1b[32mRight:\x1b[0m all 3 answers.\n"


def code(source, *outputs, tags=(), count=None):
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": list(tags)}, "outputs": list(outputs)}
    return cell | {"execution_count": count or (1 if outputs else None)}


def text(source):
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def says(*lines):
    return {"output_type": "stream", "name": "stdout", "text": list(lines)}


def error(name, told="", *traceback):
    return {"output_type": "error", "ename": name, "evalue": told, "traceback": list(traceback)}


def exercise(number, *outputs, minutes=5, **more):
    return code(f"# Exercise {number} · ●●○○○ · {minutes} min\ndef f():\n    ...", *outputs, tags=["exercise"], **more)


def check(name, *outputs):
    return code(f"check.{name}({name})", *outputs, tags=["check"])


RIGHT_NOW = says(GREEN)
NOT_YET = error("NotYet", "Not yet. b: 3 is not right.")
BLANK = error("YourTurn", "2.1: replace this line by your answer")
NEW = error("NameError", "name 'f' is not defined", "`f` comes from a cell that has not been run in this kernel.", "…")
NEWER = error("NameError", "name 'f' is not defined", "`f` is not known: this kernel is new, and the cells above …")


def lesson(number=2):
    """The cells of an untouched lesson."""
    cells = [text(f"# {number} · Tiny: a lesson"), code(f'check.predict("{number}.1", "")', tags=["predict"])]
    for item in known(number).exercises:
        cells += [exercise(item.number), *(check(its.name) for its in item.checks)]
    return [*cells, code(f'check.summary("tiny_{number}")')]


def written(path, cells, **metadata):
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def asked(number, ident, *names, minutes=5, optional=False):
    checks = [Check(name, f"check.{name}(f)", name=name, argument="f") for name in names]
    return Exercise(f"{number}.{ident}", 2, minutes, "", checks=checks, id=f"ex-{ident}", optional=optional)


def known(number=2, minutes=60):
    """What the course knows of a lesson: three exercises, one of two checks and an optional one; a question."""
    both = asked(number, 2, f"second_{number}", f"third_{number}", minutes=10)
    more = asked(number, 3, f"fourth_{number}", optional=True)
    items = [Question("Predict", f"{number}.1", "what?", []), asked(number, 1, f"first_{number}"), both, more]
    return Lesson(f"0{number}_tiny_{number}", "Tiny: a lesson", minutes, [Section("Tiny", 1, items=items)])


@pytest.fixture
def tiny(tmp_path):
    """A course of two lessons of 60 and 30 minutes, which lies in a folder."""
    course = {lesson.stem: lesson for lesson in (known(2), known(3, 30))}
    for stem, lesson in course.items():
        path = tmp_path / f"lessons_src/lessonkit/course/{stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored(lesson)[0]), encoding="utf-8")
    return course


def done(number, right=("first", "second", "third")):
    """A lesson of which some checks are right."""
    rights = [f"check.{name}_{number}" for name in right]
    return [
        cell | {"outputs": [RIGHT_NOW]} if cell["source"].startswith(tuple(rights)) else cell for cell in lesson(number)
    ]


# ---------------------------------------------------------------------------------------------------------- the course


def test_a_damaged_file_of_the_course_is_named(tmp_path):
    (tmp_path / "02_tiny.json").write_text('{"sections": [')
    with pytest.raises(DamagedCourse, match="02_tiny.json is damaged. Get it back with git"):
        lessons(tmp_path)


# ----------------------------------------------------------------------------------------------- one exercise, as saved

FIRST = {  # what the cells of exercise 2.1 show: its state
    "untouched": ([exercise("2.1"), check("first_2")], NOT_RUN),
    "right": ([exercise("2.1", count=2), check("first_2", RIGHT_NOW)], RIGHT),
    "right without colours, in one text": ([check("first_2", says("Right: f does what it should.\n"))], RIGHT),
    "right after the learner's own print": ([code("print(1)\ncheck.first_2(f)", says("1\n"), RIGHT_NOW)], RIGHT),
    "a check said no": ([exercise("2.1", count=2), check("first_2", NOT_YET)], TRIED),
    "an error in the exercise's cell": ([exercise("2.1", error("SyntaxError")), check("first_2")], TRIED),
    "waits": ([exercise("2.1", BLANK), check("first_2", BLANK)], WAITS),
    "its check waits, as its cell only defines a function": (
        [exercise("2.1", count=2), check("first_2", BLANK)],
        WAITS,
    ),
    "run in a new kernel": ([exercise("2.1", NEWER), check("first_2", NEW)], NOT_RUN),
    "own cells between": (
        [exercise("2.1"), code("1 + 1", error("ZeroDivisionError")), check("first_2", RIGHT_NOW)],
        RIGHT,
    ),
    "copied and right below": ([check("first_2", NOT_YET), exercise("2.1"), check("first_2", RIGHT_NOW)], RIGHT),
    "split, an error in its first part": (
        [exercise("2.1", error("TypeError")), code("def g(): ..."), check("first_2", BLANK)],
        TRIED,
    ),
    "two checks in a cell, this one wrong": ([code("check.other(g)\ncheck.first_2(f)", RIGHT_NOW, NOT_YET)], TRIED),
    "an older edition, with a different number": (
        [exercise("2.9", error("TypeError")), check("first_2", RIGHT_NOW)],
        RIGHT,
    ),
    "a check that is talked about": ([code("# like check.first_2(f)", RIGHT_NOW)], NOT_RUN),
    "cells without outputs or source": (
        [{"cell_type": "code"}, {"cell_type": "code", "source": 3, "outputs": 4}],
        NOT_RUN,
    ),
}


SEVERAL = [(RIGHT_NOW, RIGHT_NOW, RIGHT), (RIGHT_NOW, NOT_YET, TRIED), (BLANK, BLANK, WAITS), (NOT_YET, BLANK, TRIED)]


@pytest.mark.parametrize("cells, state", FIRST.values(), ids=FIRST)
def test_the_state_of_an_exercise(cells, state, tiny):
    assert states_in(cells, tiny["02_tiny_2"]) == {"2.1": state, "2.2": NOT_RUN, "2.3": NOT_RUN}


def test_an_exercise_of_several_checks_is_right_when_all_are(tiny):
    for second, third, state in SEVERAL:
        cells = [exercise("2.2"), check("second_2", second), check("third_2", third)]
        assert states_in(cells, tiny["02_tiny_2"])["2.2"] == state, (second, third)


def test_the_editions_of_a_real_lesson_are_read_as_they_were_stored():
    """The solutions are all right, and the words that the hook and the start of a kernel say are those looked for."""
    for stem in ("01_why_normalize", "04_affine_and_module", "14_clinic"):
        for folder, state in (("notebooks/solutions", RIGHT), ("notebooks", NOT_RUN)):
            _, cells = read(ROOT / folder / f"{stem}.ipynb", lessons())
            assert set(states_in(cells, lessons()[stem]).values()) == {state}
    hook = (ROOT / "lessons_src/lessonkit/shown.py").read_text("utf-8")
    startup = (ROOT / "lessons_src/lab_settings/startup.py").read_text("utf-8")
    assert "has not been run in this kernel" in hook and "this kernel is new" in startup


# ------------------------------------------------------------------------------------------------- a learner's folder

DAMAGED = {  # content of a file: what is said of it
    "truncated": ('{"cells": [{"cell_type"', "it is damaged, or no notebook, from line 1 on"),
    "empty": (" \n", "the file is empty"),
    "a list": ("[1, 2]", "it is no notebook"),
    "format 3": ('{"worksheets": [{"cells": []}], "nbformat": 3}', "it is in the old notebook format 3"),
    "nested without end": ("[" * 100_000, "it is damaged, or no notebook"),
}


@pytest.mark.parametrize("content, message", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_is_no_notebook_is_named_and_the_others_are_shown(content, message, tiny, tmp_path):
    work = written(tmp_path / "work/03_tiny_3.ipynb", done(3)).parent
    (work / "02_tiny_2.ipynb").write_text(content, encoding="utf-8")
    states = learner(work, tiny)
    (note,) = states.notes
    assert note.startswith("02_tiny_2.ipynb is left out: ") and message in note and note.endswith(".")
    assert states.finished(tiny["03_tiny_3"]) and not states.begun(tiny["02_tiny_2"])


def test_a_file_says_which_lesson_it_is_and_else_its_name_does(tiny, tmp_path):
    source = "lessons_src/lessons/03_tiny_3"
    for name, said, stem in [
        ("mine.ipynb", {"source": source}, "03_tiny_3"),
        ("old.ipynb", {"source": f"{source}.py"}, "03_tiny_3"),
        ("02_tiny_2-Copy1.ipynb", {}, "02_tiny_2"),
        ("02_tiny_2.ipynb", ["?"], "02_tiny_2"),
        ("notes.ipynb", {}, None),
    ]:
        assert read(written(tmp_path / name, [], lesson=said), tiny)[0] == stem
    with pytest.raises(Unreadable):
        read(written(tmp_path / "x.ipynb", None), tiny)


def test_of_several_copies_the_last_saved_counts_that_was_run(tiny, tmp_path):
    work = tmp_path / "work"
    old = written(work / "02_tiny_2.ipynb", done(2, ["first"]))
    new = written(work / "02_tiny_2_abc123.ipynb", done(2))
    untouched = written(work / "02_tiny_2_ffffff.ipynb", lesson(2))  # put beside by make lab, later than all others
    for path, saved in ((old, 100), (new, 200), (untouched, 300)):
        os.utime(path, (saved, saved))
    states = learner(work, tiny)
    assert states.files == {"02_tiny_2": new.name} and states.finished(tiny["02_tiny_2"])
    assert states.notes == [f"{new.name} counts of 3 copies of its lesson: the last saved that was run."]
    os.utime(old, (400, 400))
    assert learner(work, tiny).states["02_tiny_2"] == {"2.1": RIGHT, "2.2": NOT_RUN, "2.3": NOT_RUN}


# ------------------------------------------------------------------------------------------------------ what is said


@pytest.fixture
def half(tiny, tmp_path):
    """A learner who has done the first exercise of lesson 2, and the optional one of lesson 3."""
    written(tmp_path / "anna/work/02_tiny_2.ipynb", done(2, ["first"]))
    written(tmp_path / "anna/work/03_tiny_3.ipynb", done(3, ["fourth"]))
    return learner(tmp_path / "anna/work", tiny)


def test_the_table_has_a_row_a_lesson_the_sum_and_the_next_one(half, tiny):
    """Minutes go by the exercises that are left, 10 of 15 min in lesson 2; an optional one is no part of the core."""
    lines = summary.table(half, tiny)
    assert lines[0].split() == "lesson exercises core right min left of next".split()
    assert lines[1].split() == "2 · Tiny ●· +· 1 of 2 40 60 2.2".split()
    assert lines[2].split() == "3 · Tiny ·· +● 0 of 2 30 30 3.1".split()
    assert lines[4] == "1 of 4 exercises of the core are right. Next: exercise 2.2 in 02_tiny_2.ipynb."
    assert lines[5] == "About 1 h 10 min of the core are left."


def test_the_line_says_when_nothing_is_begun_and_when_all_is_done(tiny, tmp_path):
    nobody = learner(tmp_path, tiny)
    assert summary.line(nobody, tiny) == "0 of 4 exercises of the core are right. Next: exercise 2.1."
    for number in (2, 3):
        written(tmp_path / f"work/0{number}_tiny_{number}.ipynb", done(number))
    everything = learner(tmp_path / "work", tiny)
    assert summary.line(everything, tiny) == "4 of 4 exercises of the core are right. You have finished the course."
    assert summary.table(everything, tiny)[5] == "About 0 h 0 min of the core are left."


def attempt(lesson, item, name, kernel="a", seconds=3.0):
    """A line of a log: a right answer."""
    what = {"v": 1, "kernel": kernel * 8, "lesson": lesson, "item": item, "check": name, "verdict": "right"}
    return what | {"on_item": 1.0, "in_kernel": seconds}


def test_own_minutes_stand_beside_the_printed_ones_where_there_is_a_log(half, tiny):
    kernels = (("a", 300.0), ("a", 1200.0), ("b", 600.0))
    lines = [json.dumps(attempt("tiny_2", "Exercise 2.1", "first_2", *kernel)) for kernel in kernels]
    (half.folder / "attempts.jsonl").write_text("\n".join([*lines, "?"]))
    table = summary.table(half, tiny)
    assert table[0].split()[-2:] == ["yours", "next"] and table[1].split()[-3:] == ["60", "30", "2.2"]
    assert table[2].split()[-2:] == ["30", "3.1"] and "1 line is damaged and left out" in table[-1]


def rows_of(text):
    """Return the rows of a page's table, each a list of its cells' texts."""
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)]
    return [[html.unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in rows]


def test_the_page_has_a_row_a_learner_and_a_column_an_exercise(half, tiny, tmp_path):
    written(tmp_path / "<b>Eve & Co/work/02_tiny_2.ipynb", done(2))
    (tmp_path / "<b>Eve & Co/work/03_tiny_3.ipynb").write_text("{")
    eve = learner(tmp_path / "<b>Eve & Co/work", tiny)
    text = page.html([half, eve], tiny)
    assert "<b>Eve" not in text and "<script" not in text
    assert rows_of(text)[:5] == [
        ["learner", "right", "2 · Tiny", "3 · Tiny"],
        ["2.1", "2.2", "2.3", "3.1", "3.2", "3.3"],
        ["<b>Eve & Co", "2", *"●●····"],
        ["anna", "2", *"●····●"],
        ["● right", "4", *"210001"],
    ]
    assert "&lt;b&gt;Eve &amp; Co: 03_tiny_3.ipynb is left out" in text
    assert 'http-equiv="refresh" content="30"' in text and "color-scheme: light dark" in text
    assert set(page.MARKS) == set(STATES), "each state has its mark, so that nothing is told by colour alone"


# ---------------------------------------------------------------------------------------------------------- make lab


@pytest.mark.parametrize(
    "right, damaged, file",
    [((2,), (), "03_tiny_3.ipynb"), ((2, 3), (), "03_tiny_3.ipynb"), ((), (2, 3), "02_tiny_2.ipynb")],
)
def test_lab_opens_the_first_lesson_that_is_not_finished(right, damaged, file, tiny, tmp_path):
    for number in (2, 3):
        cells = done(number) if number in right else lesson(number)
        path = written(tmp_path / f"work/0{number}_tiny_{number}.ipynb", cells)
        if number in damaged:
            path.write_text("{")
    name, message = lab.opens_on(tmp_path, tmp_path / "lessons_src/lessonkit/course")
    count = 2 * len(set(right) - set(damaged))
    assert name == file and message[0].startswith(f"{count} of 4 exercises of the core are right.")
    assert message[0].endswith("All of it: make progress") and len(message) == 1 + len(damaged)


# -------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere"], "there is no nowhere"),
        (["--html", "a.html", "--report", "."], "stand alone"),
        (["--csv", "a.csv", "."], "--csv goes with --report"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())


@pytest.fixture
def collected(tmp_path):
    """A folder with the folders of three learners: one with a log, one called work, one that is empty."""
    written(tmp_path / "in/anna/02_statistics.ipynb", [check("how_many", RIGHT_NOW)])
    (tmp_path / "in/anna/attempts.jsonl").write_text(json.dumps(attempt("statistics", "Exercise 2.3", "how_many")))
    written(tmp_path / "in/bo/work/02_statistics.ipynb", [check("how_many")])
    (tmp_path / "in/cy").mkdir()
    (tmp_path / "in/.trash").mkdir()
    return tmp_path / "in"


def test_a_folder_that_holds_the_learners_folders_stands_for_them(collected, tmp_path, capsys):
    note = f"{collected} holds no notebooks itself, so the folders in it that do are read: anna, bo/work.\n"
    page_of, table = tmp_path / "class.html", tmp_path / "all.csv"
    for arguments, status, out, err in [
        (["--html", page_of, collected], 0, f"{page_of}: 2 learners\n", note),
        (["--html", tmp_path / "no/class.html", collected / "anna"], 1, "", "cannot be written (No such file or dir"),
        (["--report", collected], 0, "Learners: 1. Attempts: 1.", note),
        (["--report", "--csv", table, collected / "anna/attempts.jsonl"], 0, "Learners: 1. Attempts: 1.", ""),
        (["--report", collected / "bo/work"], 0, "bo/work/attempts.jsonl: no attempts.", ""),
        ([collected], 0, "anna:\n", note),
        ([collected / "bo/work", collected / "anna"], 0, "bo:\n", ""),
        (["--report", collected / "cy"], 0, "", "holds no notebooks, and no folder that does."),
    ]:
        assert command.main([*map(str, arguments)]) == status
        output = capsys.readouterr()
        assert out in output.out and err in output.err and (err or not output.err), arguments
    assert [row[0] for row in rows_of(page_of.read_text("utf-8"))[2:4]] == ["anna", "bo"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "class.html", "in"], "whole or not at all"
    assert "Exercise 2.3,1,1,0,0,0,1.0," in table.read_text("utf-8")


def test_names_are_sorted_as_people_do():
    names = ["Zoe", "Übel", "seat 10", "seat 9", "Łuk", "anna", "Élan", "Bo"]
    assert sorted(names, key=page.in_order) == ["anna", "Bo", "Élan", "Łuk", "seat 9", "seat 10", "Übel", "Zoe"]


def test_it_reads_the_learners_folder_without_being_told_and_needs_no_torch(tmp_path):
    """So it starts at once, and runs in the instructors' environment too."""
    written(tmp_path / "02_statistics.ipynb", [check("how_many", RIGHT_NOW)])
    program = "import sys; sys.modules['torch'] = None; from lessonkit.progress import __main__ as it; it.main([])"
    assert "··●·" in python("-c", program, env=os.environ | {"LESSON_WORK": str(tmp_path)})


def test_every_module_that_computes_sets_torchs_threads():
    """The package itself imports no torch, so whoever does must import _threads, or its package must."""
    kit = ROOT / "lessons_src/lessonkit"
    texts = {path: path.read_text("utf-8") for path in kit.rglob("*.py") if path.name != "_threads.py"}
    computing = [path for path, text in texts.items() if re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE)]
    assert len(computing) > 10 and not any(path.parent.name == "progress" for path in computing)
    for path in computing:
        homes = [folder / "__init__.py" for folder in path.parents if kit in folder.parents]
        sets = [re.search(r"^from lessonkit import .*_threads\b", texts[home], re.MULTILINE) for home in [path, *homes]]
        assert any(sets), f"{path}: from lessonkit import _threads"

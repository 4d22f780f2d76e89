"""Grading: what a notebook is taken for, what it gets, and that no row is ever lost."""

import functools
import json
import os
import signal
import subprocess
import sys
import types

import pytest

from coursebuild.source import ROOT
from teaching import material
from teaching.grading import feedback, lesson, marking, submission
from teaching.grading.__main__ import main
from teaching.grading.jail import PYTHON, Limits
from teaching.grading.lesson import GradingError
from teaching.grading.sheet import Sheet
from teaching.tests.grading_toys import SIX, code, grade, graded, rows, six, solved, stored, with_answers, write

STEMS = material.stems()
runs = pytest.mark.skipif(not PYTHON.exists(), reason="answers run in the learners' environment: make .venv/ready")


def answers_in(notebook, tmp_path):
    return submission.answers(six(), submission.cells(write(notebook, tmp_path / "ann.ipynb")))


def sheets(result):
    return [remark.sheet for remark in result.remarks]


# --------------------------------------------------------------------------------------- what a lesson asks


def test_a_lesson_is_found_by_its_number_or_its_name():
    assert lesson.find("6") == lesson.find("06") == lesson.find(SIX) == SIX
    with pytest.raises(GradingError, match=r"no lesson is called '99'.*LESSON="):
        lesson.find("99")


# --------------------------------------------------------------------------------------- what was handed in


def test_answers_are_found_in_copies_with_other_ids_and_other_cells(tmp_path):
    notebook = stored()
    for at, cell in enumerate(notebook["cells"]):
        cell["id"], cell["source"] = f"other-{at}", "".join(cell["source"]).splitlines(True)
    notebook["cells"] = [cell for cell in notebook["cells"] if "Exercise" in "".join(cell["source"])]
    answers = answers_in(notebook, tmp_path)
    assert [answer.cells for answer in answers.values()] == [[e.solved] for e in six().exercises.values()]
    assert not any(answer.remarks for answer in answers.values())


def test_a_cell_that_lost_its_card_is_found_by_its_id_or_its_names(tmp_path):
    notebook = stored()
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    for name in ("ex-6-1", "ex-6-3"):
        cells[name]["source"] = "".join(cells[name]["source"]).partition("\n")[2]
    cells["ex-6-3"]["id"] = "lost"
    answers = answers_in(notebook, tmp_path)
    assert sheets(answers["6.1"]) == ["the cell has lost its card; it was found by its id"]
    assert sheets(answers["6.3"]) == ["the cell has lost its card; it was found by its names"]
    assert "its first line, # Exercise 6.3" in answers["6.3"].remarks[0].page
    assert answers["6.3"].cells[0].startswith("class RunningStatistics")


def test_missing_doubled_and_converted_cells(tmp_path):
    notebook = stored()
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    notebook["cells"].remove(cells["ex-6-4"])
    cells["ex-6-2"]["cell_type"] = "markdown"
    notebook["cells"].append(code("# Exercise 6.3 · took me an hour", "note", "markdown"))
    again = [code(solved("6.1") + f"\n# {n}", f"copy-{n}") for n in (1, 2)]
    notebook["cells"] += [*again, code(six().exercises["6.1"].source, "blank")]
    answers = answers_in(notebook, tmp_path)
    assert answers["6.4"].cells == [] and sheets(answers["6.4"]) == ["the exercise's cell is missing"]
    assert answers["6.4"].remarks[0].page.endswith("Copy it from a fresh lesson 6 and hand in again.")
    assert answers["6.2"].cells == [solved("6.2")] and "markdown" in sheets(answers["6.2"])[0]
    assert answers["6.3"].cells == [solved("6.3")] and not answers["6.3"].remarks
    assert answers["6.1"].cells[-1].endswith("# 2") and "4 cells of this exercise" in sheets(answers["6.1"])[0]


def test_own_cells_that_an_answer_reads_come_with_it(tmp_path):
    notebook = with_answers(ex_6_1="def channel_stats(x):\n    return stats_of(x.transpose(0, 1).flatten(1))")
    notebook["cells"] += [
        code("import math as maths\nHALF = maths.sqrt(0.25)"),
        code("def stats_of(rows):\n    return HALF * rows.mean(1), rows.var(1, correction=0)"),
        code("print('not read by any answer')\nlonely = 1"),
        code("channel_stats = None  # what the lesson binds itself is the course's"),
    ]
    answer = answers_in(notebook, tmp_path)["6.1"]
    assert [text.split("\n")[0] for text in answer.cells] == [
        "import math as maths",
        "HALF = maths.sqrt(0.25)",
        "def stats_of(rows):",
        "# Exercise 6.1 · ●●○○○ · 3 min",
    ]
    assert sheets(answer) == ["own definitions used too: HALF, maths, stats_of"]
    assert answer.remarks[0].page == "Your own HALF, maths and stats_of were used too."


def test_a_helper_in_the_cell_of_a_check_or_among_the_course_s_imports_comes_without_the_rest(tmp_path):
    notebook = with_answers(ex_6_1="def channel_stats(x):\n    return stats_of(x, list(itertools.chain([0])))")
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if text.startswith("import copy\n"):
            cell["source"] = "import itertools\n" + text
        if "check.channel_stats" in text:
            cell["source"] = "def stats_of(x, axes):\n    return x.mean(axes), x.var(axes)\n\n" + text
    answer = answers_in(notebook, tmp_path)["6.1"]
    assert [text.split("\n")[0] for text in answer.cells[:-1]] == ["import itertools", "def stats_of(x, axes):"]


def test_a_helper_in_another_exercise_s_cell_comes_too_and_the_answer_there_is_the_course_s(tmp_path):
    first = "HALF = 0.5\n\ndef channel_stats(x):\n    return HALF"
    notebook = with_answers(ex_6_1=first, ex_6_3="RunningStatistics = (HALF, channel_stats)")
    answer = answers_in(notebook, tmp_path)["6.3"]
    assert answer.cells[:-1] == ["HALF = 0.5"] and answer.reads == {"HALF", "channel_stats"}


def test_lines_of_ipython_s_own_are_left_out(tmp_path):
    text = "%load_ext autoreload\n!ls\ndef channel_stats(x):\n    return x\nchannel_stats?"
    answer = answers_in(with_answers(ex_6_1=text), tmp_path)["6.1"]
    compile(answer.cells[0], "answer", "exec")
    assert sheets(answer) == ["3 lines of IPython's own (% or ! or ?) left out"]


BAD_FILES = {
    "half a file": (json.dumps(stored())[: 10**5], "this is no notebook: JSONDecodeError"),
    "old": ('{"worksheets": []}', "old format 3"),
    "an empty notebook": ('{"cells": []}', "holds no exercise"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_notebook_says_so(tmp_path, name):
    text, why = BAD_FILES[name]
    path = tmp_path / "ann.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(submission.Unreadable, match=why):
        submission.answers(six(), submission.cells(path))


def test_learners_are_files_or_folders_in_any_layout(tmp_path):
    six_, five = stored(), stored(stem=lesson.find("5"))
    handed = {
        "ann_06_batchnorm.ipynb": six_,  # a second ann
        "ann/06_batchnorm.ipynb": six_,
        "bob/06_batchnorm/06_batchnorm.ipynb": six_,
        "bob/05_softmax/05_softmax.ipynb": five,
        "cem/homework.ipynb": six_,
        "cem/another.ipynb": five,
        "cem/.ipynb_checkpoints/homework-checkpoint.ipynb": six_,
        "fay/06_batchnorm.ipynb": six_,
        "fay/06_batchnorm (1).ipynb": six_,
    }
    for name, notebook in handed.items():
        write(notebook, tmp_path / name)
    os.utime(tmp_path / "fay/06_batchnorm (1).ipynb", (0, 0))
    for name in ("dee", "empty/empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "eve.ipynb").symlink_to(tmp_path / "ann_06_batchnorm.ipynb")
    learners = marking.handed_in(tmp_path, six())
    assert {each.learner: each.path and str(each.path.relative_to(tmp_path)) for each in learners} == {
        "ann": "ann/06_batchnorm.ipynb",
        "ann_06_batchnorm.ipynb": "ann_06_batchnorm.ipynb",
        "bob": "bob/06_batchnorm/06_batchnorm.ipynb",
        "cem": "cem/homework.ipynb",
        "dee": None,
        "empty": None,
        "fay": "fay/06_batchnorm.ipynb",
    }
    assert learners[1].remarks[0].sheet == "a second submission called ann; each has a row"
    for name, message in (("nowhere", "is no folder"), ("empty/empty", "holds no notebook")):
        with pytest.raises(GradingError, match=message):
            marking.handed_in(tmp_path / name, six())


NAMES = {  # of a file: (the learner, whether that is doubtful)
    "ann_06_batchnorm.ipynb": ("ann", False),
    "ben_06_batchnorm (1).ipynb": ("ben", False),  # what a browser calls a second download
    "cem-06_batchnorm-Copy1.ipynb": ("cem", False),
    "Zoe\u0308 Çelik.ipynb": ("Zoë Çelik", False),
    "s1234567.ipynb": ("s1234567", False),
    "Copycat, Finalia.ipynb": ("Copycat, Finalia", False),
    "06_batchnorm.ipynb": ("06_batchnorm", True),
    "Übung 6 (final) (2).ipynb": ("Übung 6 (final) (2)", True),
    "lesson_06.ipynb": ("lesson_06", True),
    "Untitled1.ipynb": ("Untitled1", True),
    "6.ipynb": ("6", True),
}


def test_a_file_that_does_not_look_like_a_learner_s_name_gets_a_remark(tmp_path):
    for file in NAMES:
        write({"cells": []}, tmp_path / file)
    learners = {
        submitted.path.name: (submitted.learner, bool(submitted.remarks))
        for submitted in marking.handed_in(tmp_path, six())
    }
    assert learners == NAMES
    learners = [submitted.learner for submitted in marking.handed_in(tmp_path, six())]
    assert learners[-3:] == ["Übung 6 (final) (2)", "Untitled1", "Zoë Çelik"] and learners[:2] == ["6", "06_batchnorm"]


# --------------------------------------------------------------------------------------- the sheet and the pages


def result(learner="ann", **changed):
    marks = [marking.Mark(e.number, e.difficulty, e.optional, "right", e.difficulty) for e in six().exercises.values()]
    return marking.Result(**{"learner": learner, "file": "a.ipynb", "sha256": "1", "marks": marks} | changed)


def test_the_sheet_is_whole_after_each_row_and_is_taken_up_again(tmp_path):
    sheet = Sheet(tmp_path / "grades.csv", six(), Limits())
    for name in ("zoe", "Ünal", "ann", "=1+1", 'Bob "the 2nd", Jr.', "seat 10", "seat 9", "Łukasz"):
        sheet.add(result(name))
        assert len(rows(sheet.path)) == len(sheet.rows)
    again = Sheet(sheet.path, six(), Limits())
    assert list(again.rows) == ["=1+1", "ann", 'Bob "the 2nd", Jr.', "Łukasz", "seat 9", "seat 10", "Ünal", "zoe"]
    assert sheet.path.read_bytes().startswith(b"\xef\xbb\xbflearner,") and "ex 6.1" in rows(sheet.path)["ann"]
    assert rows(sheet.path)["Ünal"]["page"] == f"grades/{feedback.name('Ünal')}"
    assert again.has("ann", "1") and again.has("=1+1", "1")
    assert not again.has("ann", "2") and not again.has("eve", "1") and not again.has("ann", "")
    assert "'=1+1" in rows(sheet.path)  # for a spreadsheet no formula
    assert rows(sheet.path)["ann"]["points"] == rows(sheet.path)["ann"]["of"] == "9"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grades.csv"]


def test_a_sheet_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("name,points\nann,3\n", encoding="utf-8")
    wrong = {
        r"is no sheet of 06_batchnorm.*OUT=": (path, six()),
        r"is no sheet of 07_backward.*OUT=grades_07.csv": (path, lesson.read(lesson.find("7"))),
        r"is a folder; name a file, OUT=.*/grades.csv": (tmp_path, six()),
    }
    for message, arguments in wrong.items():
        with pytest.raises(GradingError, match=message):
            Sheet(*arguments, Limits())
    assert path.read_text(encoding="utf-8") == "name,points\nann,3\n"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GradingError, match="cannot be read"):
        Sheet(path, six(), Limits())


def test_a_row_is_worth_another_run_where_more_is_allowed_and_that_may_help(tmp_path):
    path = tmp_path / "grades.csv"
    sheet = Sheet(path, six(), Limits())
    verdicts = {
        "loop": ("stopped", "not done after 20 s: an endless loop, or far too slow"),
        "error": ("raised", "MemoryError"),
        "wrong": ("not yet", "Not yet."),
        "right": ("right", "Right."),
    }
    for name, verdict in verdicts.items():
        marked = result(name)
        marked.marks[0].verdict, marked.marks[0].message = verdict
        sheet.add(marked)
    states = ["6.1 raised an error", "6.1 stopped after 20 s", "", "6.1 not yet"]
    assert [row["state"] for row in rows(path).values()] == states

    def anew(**limits):
        again = Sheet(path, six(), Limits(**limits))
        return {name for name in verdicts if not again.has(name, "1")}

    assert anew() == anew(seconds=10) == anew(seconds=20, memory=2 << 30) == set()
    assert anew(seconds=60) == anew(seconds=20.5, memory=1 << 30) == {"loop"}
    assert anew(memory=4 << 30) == {"loop", "error"}


def test_a_page_says_what_happened_and_is_no_html_of_the_learner_s():
    bad = "<script>alert(1)</script>"
    graded = result(bad, remarks=[submission.Remark("", bad)])
    graded.marks[0].message, graded.marks[0].cells, graded.marks[1].points = bad, [bad], 0
    page = feedback.page(graded, six())
    assert bad not in page and page.count("&lt;script&gt;") >= 4
    assert "7 of 9 points" in page and "<h2>6.1 · channel_stats · Right · 2 of 2</h2>" in page
    names = [feedback.name(learner) for learner in ("ann", "../ann", "a/b", "Ünal", "a" * 300, ".", "A n n")]
    assert len(set(names)) == len(names) and not any("/" in name or name.startswith(".") for name in names)


# --------------------------------------------------------------------------------------- whole runs


@runs
def test_a_class_is_graded_whatever_was_handed_in(tmp_path, capsys):
    """Three wrong of four, untouched, another lesson's, damaged, no notebook, right with a side effect."""
    folder = tmp_path / "in"
    wrong = "def channel_stats(x):\n    return x.mean(0), x.var(0)"
    wrong = with_answers(
        ex_6_1=wrong, ex_6_3="class RunningStatistics(nn.Module):\n    pass", ex_6_2="ages_on_paper = 1 / 0"
    )
    write(wrong, folder / "three.ipynb")
    write(stored(solved=False), folder / "untouched.ipynb")
    write(stored(stem=lesson.find("5")), folder / "other.ipynb")
    (folder / "broken.ipynb").write_text(json.dumps(stored())[:5000], encoding="utf-8")
    (folder / "none").mkdir()
    effect = "import os, operator\ntorch.set_default_dtype(torch.float64)\n"
    write(with_answers(ex_6_1=effect + solved("6.1")), folder / "effect.ipynb")
    table = graded(tmp_path)
    assert {name: row["points"] for name, row in table.items()} == {
        "three": "3",  # 6.4 builds on the course's 6.1 and 6.3
        "untouched": "0",
        "other": "0",
        "broken": "0",
        "none": "0",
        "effect": "9",
    }
    assert "exercises of lesson 5" in table["other"]["remarks"] and "no notebook" in table["broken"]["remarks"]
    assert table["effect"]["remarks"] == "6.1: changes the default dtype (torch.set_default_dtype)"
    assert {path.name for path in (tmp_path / "grades").iterdir()} == {"log.txt"} | {f"{n}.html" for n in table}
    page = (tmp_path / "grades/three.html").read_text(encoding="utf-8")
    assert "Not yet. " in page and "ZeroDivisionError: division by zero. In the line: ages_on_paper = 1 / 0" in page
    log = (tmp_path / "grades/log.txt").read_text(encoding="utf-8")
    assert "Each answer runs in a jail" in log and "6 graded" in log and "\nuntouched  " in log
    assert table["three"]["state"] == "6.1 not yet; 6.2 raised an error; 6.3 not yet"

    write(stored(), folder / "untouched.ipynb")  # handed in anew
    (folder / "none").rmdir()
    capsys.readouterr()
    again = graded(tmp_path)
    printed = capsys.readouterr().out
    assert "4 in " in printed and "1 graded" in printed and "kept: none" in printed
    assert again == table | {"untouched": again["untouched"]} and again["untouched"]["points"] == "9"


class Answering:
    """A bench that says what it was told to say."""

    def __init__(self, *replies):
        self.replies, self.jail = list(replies), types.SimpleNamespace(limits=Limits())

    def ask(self, **request):
        return self.replies.pop(0)


RIGHT = {"verdict": "right", "message": "Right.", "passed": 1, "computed": 0.1}


def one_mark(bench, tmp_path, also=()):
    """Return the Mark of the course's answer to 6.1. also: exercises whose checks are given to this one, too."""
    marker = marking.Marker(lesson.read(SIX), bench)
    exercises = marker.lesson.exercises
    for other in also:
        exercises["6.1"].checks += exercises[other].checks
    alone = write(with_answers(solved=False, ex_6_1=exercises["6.1"].solved), tmp_path / "ann.ipynb")
    return marker.mark(marking.Handed("ann", alone), tmp_path).marks[0]


def test_points_are_shared_out_among_several_checks(tmp_path):
    reply = {"verdict": "not yet", "message": "Not yet.", "passed": 2}
    mark = one_mark(Answering(reply, RIGHT), tmp_path, also=("6.2", "6.3"))
    assert (mark.verdict, mark.of, round(mark.points, 2)) == ("partly", 2, 1.33)


def test_a_machine_on_which_the_course_s_own_answer_fails_grades_nobody(tmp_path):
    wrong = {"verdict": "not yet", "message": "Not yet.", "passed": 0, "computed": 0.1}
    with pytest.raises(GradingError, match="the course's own answer to 6.1 gets no points here"):
        one_mark(Answering(wrong, wrong, wrong), tmp_path)


def test_an_answer_that_is_slow_where_the_course_s_own_is_gets_more_time(tmp_path):
    late = {"verdict": "stopped", "message": "not done after 20 s: an endless loop, or far too slow", "passed": 0}
    slow = RIGHT | {"computed": 30}
    assert one_mark(Answering(late, slow, RIGHT), tmp_path).points == 2
    assert one_mark(Answering(late, RIGHT), tmp_path).verdict == "stopped"


@runs
def test_ctrl_c_ends_in_one_line_and_loses_nothing(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "grades.csv"
    write(stored(), folder / "ann.ipynb")
    write(with_answers(ex_6_1="while True:\n    pass"), folder / "bo.ipynb")
    command = [sys.executable, "-m", "teaching.grading", "6", str(folder), str(out)]
    streams = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    normal = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a test in the background ignores it
    started = subprocess.Popen(command, cwd=ROOT, start_new_session=True, preexec_fn=normal, **streams)
    while not started.stdout.readline().startswith("ann "):
        assert started.poll() is None
    os.killpg(started.pid, signal.SIGINT)
    printed, errors = started.communicate(timeout=60)
    assert printed.startswith("bo ") or not printed  # the name stands there before its result
    assert started.returncode == 130 and errors == "\nStopped; the same command goes on.\n"
    assert list(rows(out)) == ["ann"]


@runs
def test_answers_that_were_stopped_are_graded_again_where_more_is_allowed(tmp_path, capsys):
    folder = tmp_path / "in"
    slow = "import time\nuntil = time.process_time() + 3\nwhile time.process_time() < until:\n    pass\n"
    write(with_answers(solved=False, ex_6_1=slow + solved("6.1")), folder / "slow.ipynb")
    write(stored(solved=False), folder / "ann.ipynb")
    assert graded(tmp_path, "--seconds", "2")["slow"]["state"].startswith("6.1 stopped after 2 s; 6.2 not answered")
    capsys.readouterr()
    graded(tmp_path, "--seconds", "2", "--again", "ann")
    printed = capsys.readouterr().out
    assert "1 graded" in printed and "\nann  " in printed and "1 in " in printed
    assert graded(tmp_path, "--seconds", "20")["slow"]["ex 6.1"] == "2"
    assert "1 graded" in capsys.readouterr().out
    assert grade(tmp_path, "--again", "eve") == 1
    assert "no learner is called 'eve'. There are ann, slow." in capsys.readouterr().err


def test_a_wrong_out_is_refused_before_anything_is_written(tmp_path, capsys):
    write(stored(), tmp_path / "in/ann.ipynb")
    (tmp_path / "file").write_text("")
    wrong = {
        "in": "is a folder; name a file, OUT=",
        "grades": "has no ending; name a file, OUT=",
        "in.csv": "would lie among the submissions",
        "file/grades.csv": "cannot be made (Not a directory)",
    }
    for out, why in wrong.items():
        assert main(["6", str(tmp_path / "in"), str(tmp_path / out)]) == 1
        assert why in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["ann.ipynb", "file", "in"]


@runs
def test_two_runs_into_one_sheet_are_refused(tmp_path, capsys):
    import fcntl

    write(stored(), tmp_path / "in/ann.ipynb")
    (tmp_path / "grades").mkdir()
    with open(tmp_path / "grades/log.txt", "w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert grade(tmp_path) == 1
    assert "another run is writing" in capsys.readouterr().err


@runs
def test_without_bubblewrap_it_says_that_such_points_count_for_nothing(tmp_path, capsys):
    write(with_answers(solved=False, ex_6_1=solved("6.1")), tmp_path / "in/ann.ipynb")
    assert grade(tmp_path, "--jail", "user") in (0, 1)
    printed = capsys.readouterr()
    if "does not start" in printed.err:  # another user may not look into the folder that holds this Python
        return
    assert "NO JAIL" in printed.out and "nothing that counts" in printed.out
    row = rows(tmp_path / "grades.csv")["ann"]
    assert row["points"] == "2" and row["limits"].endswith("NO JAIL: counts for nothing")
    assert "counts for nothing" in (tmp_path / "grades/ann.html").read_text(encoding="utf-8")


@runs
@pytest.mark.parametrize("stem", STEMS)
def test_the_course_s_own_answers_get_all_points(stem, tmp_path):
    write(stored(stem=stem), tmp_path / "in/ann.ipynb")
    row = graded(tmp_path, number=stem)["ann"]
    assert (row["points"], row["optional points"]) == (row["of"], row["optional of"]) and not row["remarks"]


@runs
@pytest.mark.parametrize("number", ["01", "06", "09"])
def test_an_answer_is_told_the_same_wherever_it_is_observed(number):
    command = [PYTHON, "-m", "teaching.tests.grading_alike", number]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'lessons_src'}:{ROOT}", "LESSON_WORK": "off"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert " 0 told otherwise" in run.stdout, run.stdout + run.stderr

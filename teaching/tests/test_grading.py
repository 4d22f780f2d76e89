"""Grading: what a notebook is taken for, what it gets, and that no row is ever lost."""

import dataclasses
import fcntl
import os
import re
import subprocess

import pytest

from teaching import material
from teaching.grading import assignment, learners, notebook, points
from teaching.grading.__main__ import main
from teaching.grading.assignment import ROOT
from teaching.grading.jail import PYTHON, Limits
from teaching.grading.table import Table
from teaching.tests.submissions import code, grade, graded, rows, runs, six, solved, with_answers, write

# --------------------------------------------------------------------------------------- what was handed in


def exercises_alone(cells):
    """Leave the exercises alone, with sources of lines."""
    for ident, cell in list(cells.items()):
        text = "".join(cell["source"])
        cell["source"] = text.splitlines(True)
        if "Exercise" not in text:
            del cells[ident]


def adding(*texts, kind="code"):
    return lambda cells: cells.update({str(at): code(text, f"own-{at}", kind) for at, text in enumerate(texts)})


USES = "def channel_stats(x):\n    return "
HELPERS = (
    "import math as maths\nHALF = maths.sqrt(0.25)",
    "def stats_of(rows):\n    return HALF * rows",
    "print('not read by any answer')\nlonely = 1",
    "channel_stats = None  # what the lesson binds itself is the course's",
)
CHANGES = [  # of an object that another cell has made: all are used
    "TABLE.append(3)",
    "TABLE[0] = 2",
    "TABLE[0], TABLE[1] = 2, 3",
    "del TABLE[0]",
    "TABLE += [4]",
    "SETTINGS.update(eps=1e-5)",
    "SETTINGS.setdefault('rows', []).append(2)",
    "SETTINGS['rows'].sort()",
    "for k in range(3):\n    if k:\n        TABLE.append(k)",
    "with torch.no_grad():\n    LAYER.weight.fill_(2)",
]
USED = [  # none is used
    "print(TABLE.copy())",
    "plt.plot(TABLE)",
    "LOG.append(TABLE)",
    "for k in range(3):\n    LAYER.zero_grad()\n    fit(LAYER)",
    "for k in TABLE:\n    TABLE.append(k)\n    print(k)",
    "nn.Linear(2, 2).zero_grad()",
    "assert TABLE.index(3)",
    "check.TABLE(TABLE)",
    "plt.show()",
    "children.add_(1)",  # the lesson's
    "TABLE.append(channel_stats(children))",  # uses the answer
    "channel_stats.calls = 0",
    "if k == 0:\n    TABLE.append(0)\n" + "".join(f"elif k == {k}:\n    TABLE.append(0)\n" for k in range(1500)),
]
MADE = ["TABLE = []", "SETTINGS = {}", "LAYER = nn.Linear(2, 2)", "import matplotlib.pyplot as plt", "LOG = []"]
READS = "[plt, children, TABLE, SETTINGS, LAYER]"
DONE = {  # to a notebook: (exercise, its answer, what is done to {id: cell}, what is used of other cells, the remark)
    "exercises alone": ("6.1", None, exercises_alone, [], ""),
    "the cell is gone": ("6.3", None, lambda cells: cells.pop("ex-6-3"), None, "copy it from a fresh lesson 6 and"),
    "the card is gone": (
        "6.3",
        None,
        lambda cells: cells["ex-6-3"].update(source="".join(cells["ex-6-3"]["source"]).partition("\n")[2]),
        [],
        "it was found by its names",
    ),
    "text": ("6.2", None, lambda cells: cells["ex-6-2"].update(cell_type="markdown"), [], "a markdown cell, which a"),
    "a note quotes the card": ("6.3", None, adding("# Exercise 6.3 · took me an hour", kind="markdown"), [], ""),
    "tried again": ("6.1", None, adding(solved("6.1")), [], "there are 2 cells of this exercise"),
    "own helpers": (
        "6.1",
        USES + "stats_of(x)",
        adding(*HELPERS),
        ["import math as maths", "HALF = maths.sqrt(0.25)", "def stats_of(rows):"],
        "own definitions used too: HALF, maths, stats_of",
    ),
    "helpers that other cells change": (
        "6.1",
        USES + READS,
        adding(*MADE, *USED, *CHANGES, *USED),
        [text.split("\n")[0] for text in (*MADE[:4], *CHANGES)],
        "own definitions used too: LAYER, SETTINGS, TABLE, k, plt",
    ),
    "a helper that is made anew": (
        "6.1",
        USES + "TABLE",
        adding("TABLE = [1]", "TABLE.append(2)", "SUM = sum(TABLE)", "TABLE.clear()", "TABLE = [SUM]", "SUM = 0"),
        ["TABLE = [1]", "TABLE.append(2)", "SUM = sum(TABLE)", "TABLE = [SUM]"],
        "own definitions used too: SUM, TABLE",
    ),
    "a helper in another answer": (  # and the answer there is the course's
        "6.3",
        "BatchNorm1d = (HALF, channel_stats)",
        lambda cells: cells["ex-6-1"].update(source=f"# Exercise 6.1\nHALF = 0.5\n{USES}HALF"),
        ["HALF = 0.5"],
        "HALF",
    ),
    "lines of IPython's": (
        "6.1",
        f"!ls\n{USES}x\nhere = !ls\nt = %timeit -o channel_stats(1)\nchannel_stats?",
        adding(),
        [],
        "left out: 4 lines of IPython's own",
    ),
}


@pytest.mark.parametrize("name", DONE)
def test_an_answer_is_found_whatever_was_done_to_its_notebook(name, tmp_path):
    number, text, do, others, remark = DONE[name]
    submitted = with_answers(answers={number: text} if text else {})
    cells = {cell["id"]: cell for cell in submitted["cells"]}
    do(cells)
    path = write(submitted | {"cells": list(cells.values())}, tmp_path / "ann.ipynb")
    answer = notebook.answers(six(), notebook.cells(path))[number]
    assert len(answer.remarks) == bool(remark) and remark in "".join(answer.remarks)
    if others is None:
        assert not answer.cells
        return
    assert [cell.split("\n")[0] for cell in answer.cells[:-1]] == others
    compile(answer.cells[-1], "answer", "exec")
    assert (text or solved(number)).splitlines()[-1].removesuffix("?") in answer.cells[-1]


@runs
def test_a_helper_is_what_the_learner_s_cells_have_made_of_it(tmp_path):
    answer = {"6.1": solved("6.1").partition("\n")[2] + "\nassert TABLE == [3]"}
    for learner, texts in {"ann": ["TABLE = []", "TABLE.append(3)"], "ben": ["TABLE = [3]", "TABLE.append(4)"]}.items():
        submitted = with_answers(False, answers=answer)
        submitted["cells"][:0] = [code(text, f"own-{at}") for at, text in enumerate(texts)]
        write(submitted, tmp_path / f"in/{learner}.ipynb")
    table = graded(tmp_path)
    assert (table["ann"]["points"], table["ben"]["points"]) == ("2", "0"), table
    assert "6.1 raised an error" in table["ben"]["state"]


HANDED = {  # a file in the folder: whether it is another lesson's
    "ann_06_batchnorm.ipynb": False,  # a second ann
    "ann/06_batchnorm.ipynb": False,
    "ben_06_batchnorm (1).ipynb": False,  # what a browser calls a second download
    "bob/06_batchnorm/06_batchnorm.ipynb": False,
    "cem/homework.ipynb": False,
    "cem/another.ipynb": True,
    "cem/.ipynb_checkpoints/homework-checkpoint.ipynb": False,
    "fay/06_batchnorm.ipynb": False,
    "fay/06_batchnorm (1).ipynb": False,  # an older one
    "Zoe\u0308 Çelik.ipynb": False,  # as macOS writes it
}


def test_learners_are_files_or_folders_in_any_layout(tmp_path):
    mine, other = with_answers(), with_answers(stem=assignment.find("5"))
    for name, another in HANDED.items():
        write(other if another else mine, tmp_path / name)
    os.utime(tmp_path / "fay/06_batchnorm (1).ipynb", (0, 0))
    (tmp_path / "empty/empty").mkdir(parents=True)
    (tmp_path / "eve.ipynb").symlink_to(tmp_path / "ann_06_batchnorm.ipynb")
    found = {each.learner: each for each in learners.handed_in(tmp_path, six())}
    assert {name: each.path and str(each.path.relative_to(tmp_path)) for name, each in found.items()} == {
        "ann": "ann/06_batchnorm.ipynb",
        "ann_06_batchnorm.ipynb": "ann_06_batchnorm.ipynb",
        "ben": "ben_06_batchnorm (1).ipynb",
        "bob": "bob/06_batchnorm/06_batchnorm.ipynb",
        "cem": "cem/homework.ipynb",
        "empty": None,
        "fay": "fay/06_batchnorm.ipynb",
        "Zoë Çelik": "Zoe\u0308 Çelik.ipynb",
    }
    for each in ("ann", "ann_06_batchnorm.ipynb"):
        assert "two submissions called ann" in found[each].remarks[0]
    assert found["fay"].remarks == ("2 notebooks would do; the newest was graded: 06_batchnorm.ipynb",)


def test_annotations_that_one_cell_makes_words_of_are_words_in_all(tmp_path):
    submitted = with_answers(answers={"6.1": f"{USES}x: Tensor = 1"})
    submitted["cells"].insert(0, code("from __future__ import annotations"))
    path = write(submitted, tmp_path / "ann.ipynb")
    answer = notebook.answers(six(), notebook.cells(path))["6.1"]
    assert not answer.remarks and answer.cells[-1].startswith("from __future__ import annotations\n")


# --------------------------------------------------------------------------------------- the table


def result(learner, verdict="right"):
    marks = [points.Mark(e.number, e.difficulty, e.optional, "right", e.difficulty) for e in six().exercises.values()]
    marks[0].verdict = verdict
    return points.Result(learner, "a.ipynb", "1", marks)


def test_the_table_is_whole_after_each_row_and_is_taken_up_again(tmp_path):
    table = Table(tmp_path / "grades.csv", six(), Limits())
    verdicts = {"zoe": "stopped", "Ünal": "raised", "ann": "not yet", "=1+1": "right", 'Bob "2nd", Jr.': "right"}
    for name in (*verdicts, "seat 10", "seat 9"):
        table.add(result(name, verdicts.get(name, "right")))
        assert len(rows(table.path)) == len(table.rows)
    stored = rows(table.path)
    assert table.path.read_bytes().startswith(b"\xef\xbb\xbflearner,") and "ex 6.1" in stored["ann"]
    assert "'=1+1" in stored  # for a spreadsheet no formula
    assert stored["zoe"]["state"] == "6.1 stopped" and stored["zoe"]["points"] == stored["zoe"]["of"] == "7"
    assert os.listdir(tmp_path) == ["grades.csv"]

    def anew(lesson, **limits):
        """Return who is graded again."""
        again = Table(table.path, lesson, Limits(**limits))
        assert list(again.rows) == ["=1+1", "ann", 'Bob "2nd", Jr.', "seat 9", "seat 10", "Ünal", "zoe"]
        return {name for name in again.rows if not again.has(name, "1")}

    assert anew(six()) == set() and anew(six(), seconds=60) == {"zoe", "Ünal"}
    assert anew(dataclasses.replace(six(), digest="another")) == set(table.rows)
    assert not table.has("ann", "2") and not table.has("eve", "1") and not table.has("ann", "")


# --------------------------------------------------------------------------------------- whole runs


@runs
def test_a_class_is_graded_whatever_was_handed_in(tmp_path, capsys):
    """Two wrong of three, untouched, another lesson's, no notebook, right with a side effect."""
    folder = tmp_path / "in"
    wrong = {"6.1": USES + "x.mean(0), x.var(0)", "6.2": "ages_on_paper = 1 / 0"}
    effect = "import os, operator\ntorch.set_default_dtype(torch.float64)\n" + solved("6.1")
    write(with_answers(answers=wrong), folder / "two.ipynb")
    write(with_answers(False), folder / "untouched.ipynb")
    write(with_answers(stem=assignment.find("5")), folder / "other.ipynb")
    (folder / "none").mkdir()
    write(with_answers(answers={"6.1": effect}), folder / "<b>effect.ipynb")
    table = graded(tmp_path)
    assert {name: row["points"] for name, row in table.items()} == {
        "two": "3",  # 6.3 builds on the course's 6.1
        "untouched": "0",
        "other": "0",
        "none": "0",
        "<b>effect": "7",
    }
    assert "exercises of lesson 5" in table["other"]["remarks"]
    assert table["<b>effect"]["remarks"].startswith("6.1: changes the default dtype (torch.set_default_dtype) for")
    page = (tmp_path / "grades/two.html").read_text(encoding="utf-8")
    assert "Not yet. " in page and "ZeroDivisionError: division by zero. In the line: ages_on_paper = 1 / 0" in page
    assert "3 of 7 points" in page and "<h2>6.3 · BatchNorm1d · Right · 3 of 3</h2>" in page
    page = (tmp_path / table["<b>effect"]["page"]).read_text(encoding="utf-8")
    assert "<b>" not in page and "&lt;b&gt;effect" in page
    assert table["two"]["state"] == "6.1 not yet; 6.2 raised an error"

    write(with_answers(), folder / "untouched.ipynb")  # handed in anew
    (folder / "none").rmdir()
    capsys.readouterr()
    again = graded(tmp_path)
    printed = capsys.readouterr().out
    assert "graded already and not changed: 3" in printed and "\n1 graded" in printed
    assert again == table | {"untouched": again["untouched"]} and again["untouched"]["points"] == "7"
    graded(tmp_path, "--again", "other")
    assert "1 graded" in (printed := capsys.readouterr().out) and "\nother  " in printed
    assert grade(tmp_path, "--again", "two", "--seconds", "0") == 1  # and nobody gets nothing for it
    assert "the course's own answer to 6.1 gets no points here (stopped: not done" in capsys.readouterr().err


@runs
def test_what_cannot_be_graded_is_refused_before_anything_is_written(tmp_path, capsys):
    write(with_answers(), tmp_path / "in/ann.ipynb")
    (tmp_path / "empty").mkdir()
    (tmp_path / "own.csv").write_text("name,points\nann,3\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "busy").mkdir()
    before = sorted(tmp_path.rglob("*"))
    refused = [
        (("99", "in", "new.csv"), r"no lesson is called '99'.*LESSON="),
        (("6", "nowhere", "new.csv"), "holds no notebook"),
        (("6", "empty", "new.csv"), "holds no notebook"),
        (("6", "in", "in"), "is no table.*OUT="),
        (("6", "in", "grades"), "has no ending; name a file, OUT="),
        (("6", "in", "own.csv"), "is no table of 06_batchnorm.*OUT="),
        (("6", "in", "bytes.csv"), "is no table"),
        (("6", "in", "in.csv"), "would lie among the submissions"),
        (("6", "in", "new.csv", "--again", "eve"), "no learner is called eve. There are ann."),
        (("6", "in", "busy.csv"), "another run is writing"),
    ]
    busy = os.open(tmp_path / "busy", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    for (lesson, folder, out, *options), why in refused:
        assert main([lesson, str(tmp_path / folder), str(tmp_path / out), *options]) == 1
        assert re.search(why, error := capsys.readouterr().err), error
    os.close(busy)
    assert (tmp_path / "own.csv").read_text() == "name,points\nann,3\n"
    assert sorted(tmp_path.rglob("*")) == before


@runs
@pytest.mark.parametrize("stem", material.stems())
def test_the_course_s_own_answers_get_all_points(stem, tmp_path):
    write(with_answers(stem=stem), tmp_path / "in/ann.ipynb")
    row = graded(tmp_path, number=stem)["ann"]
    assert (row["points"], row["optional points"]) == (row["of"], row["optional of"]) and not row["remarks"]


@runs
@pytest.mark.parametrize("number", [stem[:2] for stem in material.stems()])
def test_an_answer_is_told_the_same_wherever_it_is_observed(number):
    command = [PYTHON, "-m", "teaching.tests.grading_alike", number]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'lessons_src'}:{ROOT}", "LESSON_WORK": "off"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert " 0 told otherwise" in run.stdout, run.stdout + run.stderr

"""Submissions for the tests of grading: a lesson's notebook with some of its answers replaced."""

import csv
import json
from functools import cache

from teaching import material
from teaching.grading import lesson
from teaching.grading.__main__ import main

SIX = "06_batchnorm"


@cache
def six():
    """Return lesson 6 as the grader reads it."""
    return lesson.read(SIX)


def solved(number):
    """Return the cell of an exercise of lesson 6 with the course's answer."""
    return six().exercises[number].solved


def stored(solved=True, stem=SIX):
    """Return a lesson's notebook as a dictionary: solved by the course, or untouched."""
    return material.stored(stem, solved)


def with_answers(solved=True, stem=SIX, **answers):
    """Return a lesson with some answers replaced. answers: ex_6_1="def channel_stats(x): ...", with or without card."""
    notebook = stored(solved, stem)
    for cell in notebook["cells"]:
        text = answers.pop(cell["id"].replace("-", "_"), None)
        if text is not None:
            number = cell["id"].removeprefix("ex-").replace("-", ".")
            cell["source"] = f"# Exercise {number} · ●●○○○ · 3 min\n{text}"
    assert not answers, f"no such exercise: {answers}"
    return notebook


def code(text, ident="mine", kind="code"):
    """Return a cell of a notebook."""
    return {"cell_type": kind, "id": ident, "metadata": {}, "source": text, "outputs": [], "execution_count": None}


def write(notebook, path):
    """Write a notebook; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def rows(path):
    """Return {learner: row} of a sheet."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        return {row["learner"]: row for row in csv.DictReader(file)}


def grade(folder, *options, number="6"):
    """Grade the submissions in folder/in, a lesson's, into folder/grades.csv; return the exit status."""
    return main([number, str(folder / "in"), str(folder / "grades.csv"), *options])


def graded(folder, *options, number="6"):
    """Grade the submissions in folder/in; return {learner: row} of folder/grades.csv."""
    assert grade(folder, *options, number=number) == 0
    return rows(folder / "grades.csv")

"""Submissions for the tests of grading: a lesson's notebook with some of its answers replaced, and what it gets."""

import csv
import json
from functools import cache

import pytest

from teaching import material
from teaching.grading import assignment, jail
from teaching.grading.__main__ import main

runs = pytest.mark.skipif(not jail.PYTHON.exists() or bool(jail.missing()), reason="make .venv/ready, and bubblewrap")
SIX = "06_batchnorm"


@cache
def six():
    """Return lesson 6 as the grader reads it."""
    return assignment.read(SIX)


def solved(number):
    """Return the cell of an exercise of lesson 6 with the course's answer."""
    return six().exercises[number].solved


def with_answers(solved=True, stem=SIX, answers=None):
    """Return a lesson's notebook, solved by the course or untouched. answers: {"6.1": text of a cell, without card}."""
    notebook, answers = material.stored(stem, solved), dict(answers or {})
    for cell in notebook["cells"]:
        number = cell["id"].removeprefix("ex-").replace("-", ".")
        if number in answers:
            cell["source"] = f"# Exercise {number} · ●●○○○ · 3 min\n{answers.pop(number)}"
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
    """Return {learner: row} of a table."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        return {row["learner"]: row for row in csv.DictReader(file)}


def grade(folder, *options, number="6"):
    """Grade the submissions in folder/in, a lesson's, into folder/grades.csv; return the exit status."""
    return main([number, str(folder / "in"), str(folder / "grades.csv"), *options])


def graded(folder, *options, number="6"):
    """Grade the submissions in folder/in; return {learner: row} of folder/grades.csv."""
    assert grade(folder, *options, number=number) == 0
    return rows(folder / "grades.csv")

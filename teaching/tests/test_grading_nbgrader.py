"""The export for nbgrader: what it consists of, and its whole cycle where nbgrader is installed."""

import json
import os
import re
import sqlite3
import subprocess

import pytest

from teaching import material
from teaching.grading.assignment import ROOT, GradingError, read
from teaching.grading.jail import PYTHON
from teaching.grading.nbgrader import export, main, with_metadata
from teaching.tests.submissions import SIX, with_answers, write

NBGRADER = ROOT / ".venv-nbgrader/bin/nbgrader"


def test_every_lesson_becomes_an_assignment_and_settings_of_another_course_are_left_alone(tmp_path):
    for stem in material.stems():
        notebook, total = with_metadata(stem)
        cells = [cell["metadata"]["nbgrader"] for cell in notebook["cells"] if "nbgrader" in cell["metadata"]]
        exercises = read(stem).exercises.values()
        assert total == sum(exercise.difficulty for exercise in exercises if not exercise.optional)
        assert sum(cell["solution"] for cell in cells) == len(exercises)
        assert sum(cell["grade"] for cell in cells) == sum(len(exercise.checks) for exercise in exercises)
        names = {cell["grade_id"] for cell in cells}
        assert len(names) == len(cells) and all(re.fullmatch(r"[\w-]+", name) for name in names)  # what nbgrader allows
    settings = tmp_path / "nbgrader_config.py"
    settings.write_text("c = get_config()\n")
    with pytest.raises(GradingError, match="not one of ours"):
        export(SIX, tmp_path)
    assert settings.read_text() == "c = get_config()\n" and list(tmp_path.iterdir()) == [settings]


@pytest.mark.skipif(not NBGRADER.exists(), reason="nbgrader is not installed: make .venv-nbgrader/ready")
@pytest.mark.skipif(not PYTHON.exists(), reason="answers run in the learners' environment: make .venv/ready")
def test_the_whole_cycle(tmp_path, capsys):
    """Assign, submit, grade, give feedback: all points but those of the one wrong answer, none untouched.

    A submission that was not made from what was assigned is refused, and the others are graded.
    """
    assert main(["6", str(tmp_path)]) == 0
    first, where, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("These marks prove nothing") and "make grade" in first and "9 points" in where
    assert first in (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8").partition("\n")[0]

    def run(*arguments):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "PYTHONPATH"))}
        kept |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "lessons_src")}
        done = subprocess.run([str(NBGRADER), *arguments], cwd=tmp_path, env=kept, capture_output=True, text=True)
        return done.returncode, done.stderr

    assert run("generate_assignment", SIX)[0] == 0
    released = tmp_path / f"release/{SIX}/{SIX}.ipynb"
    wrong = with_answers(answers={"6.2": "ages_on_paper = dict(running_mean=8, running_var=4, alone=1)"})
    for learner, solved in (("untouched", with_answers(False)), ("one_wrong", wrong)):
        answers = {cell["id"]: cell["source"] for cell in solved["cells"] if cell["id"].startswith("ex-")}
        notebook = json.loads(released.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = answers.get(cell["id"], cell["source"])
        write(notebook, tmp_path / "submitted" / learner / SIX / f"{SIX}.ipynb")
    write(with_answers(), tmp_path / "submitted/a_copy" / SIX / f"{SIX}.ipynb")
    status, printed = run("autograde", SIX)
    assert status == 1 and "The notebook of a_copy was not made from release/06_batchnorm" in printed
    assert f"make grade LESSON=06 IN={tmp_path / 'submitted'} OUT=grades.csv" in printed
    assert not (tmp_path / "autograded/a_copy").exists()
    status, printed = run("generate_feedback", SIX)
    assert status == 0, printed[-3000:]
    with sqlite3.connect(tmp_path / "gradebook.db") as book:
        rows = book.execute(
            "select submitted_assignment.student_id, sum(coalesce(grade.manual_score, grade.auto_score, 0)) from grade "
            "join submitted_notebook on grade.notebook_id = submitted_notebook.id "
            "join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id group by 1"
        ).fetchall()
    assert dict(rows) == {"untouched": 0, "one_wrong": 7}
    for learner in ("untouched", "one_wrong"):
        assert (tmp_path / f"feedback/{learner}/{SIX}/{SIX}.html").stat().st_size > 10_000

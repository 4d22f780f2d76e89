"""The cells tagged record: what `make runs` executes of a lesson, and in which form."""

import json

import pytest

from coursebuild import records
from coursebuild.__main__ import main
from tests.toy import TITLE, edit, project, whole

RECORDS = (
    TITLE
    + '''
# %% tags=["record"]
from lessonkit import data, runs
STEPS, RATES = 3, [0.1, 0.2]
twice = 2 * STEPS
digits = data.digits()

# %%
import os
model = os.listdir(".")
print("never")

# %% tags=["exercise", "record"]
# Exercise 2.1 · ●○○○○ · 5 min
def answer():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% tags=["record"]
class Net:
    size = STEPS

def train(seed, rate):
    """Train."""
    return {"loss": rate * seed * Net.size * twice * answer()}

# %% tags=["optional", "record"]
one = runs.load_or_run("one", train, seeds=range(STEPS), tolerance=0.1, rate=0.5)

# %%
model[0] = late = 5

# %% tags=["record"]
for rate in RATES:
    both = runs.load_or_run("two", train, seeds=[0], tolerance=0.1, rate=rate)
'''
)
STUB = """import json, os, sys
def load_or_run(name, function, *, seeds, tolerance, **arguments):
    mode, only = os.environ["LESSON_RUNS"], os.environ["LESSON_RUNS_ONLY"]
    print(json.dumps([mode, only, name, [function(seed, **arguments)["loss"] for seed in seeds]]))
"""


@pytest.fixture
def toy(tmp_path):
    """Return a course whose lessons 2 and 3 record; its lessonkit is a stub, so that no torch is imported."""
    other = RECORDS.replace("# # 2 ·", "# # 3 ·").replace('"one"', '"three"').replace('"two"', '"four"')
    root = project(tmp_path, {"02_tiny": RECORDS, "03_more": other, "04_light": TITLE.replace("2", "4")})
    (root / "lessons_src/lessonkit").mkdir()
    for name, text in {"__init__": "", "runs": STUB, "data": "def digits():\n    return [1]\n"}.items():
        (root / f"lessons_src/lessonkit/{name}.py").write_text(text)
    return root


def test_the_recorded_part_of_a_lesson_is_exactly_the_cells_with_the_tag(toy):
    two, _, four = whole(toy).lessons
    names, script = records.recorded(two)
    assert names == ["one", "two"] and records.recorded(four) == ([], "")
    assert all(cell.source in script for cell in two.code("record"))
    assert not [left for left in ("listdir", "never", "late") if left in script]


def test_records_are_made_and_verified_by_the_lesson_itself(toy, capfd):
    records.record(whole(toy).lessons[:1], [], "verify")
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line[:3] for line in lines] == [["verify", "", "one"], ["verify", "", "two"], ["verify", "", "two"]]
    assert lines[0][3] == [0, 9.0, 18.0]
    assert main(["--runs", "two"], toy) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[0])[:2] == ["record", "two"]
    assert main(["--runs", "five"], toy) == 1
    assert capfd.readouterr().err == "no lesson records 'five'. There are: four, one, three, two.\n"


def test_a_run_that_raises_shows_the_lessons_own_line_and_the_next_lesson_has_its_turn(toy, capfd):
    edit(toy / "lessons_src/lessons/02_tiny/lesson.py", "    return 1\n", "    return 1 / 0\n")
    assert main(["--runs"], toy) == 1
    out, err = capfd.readouterr()
    line = RECORDS.splitlines().index("    return 1") + 1
    assert f'02_tiny/lesson.py", line {line}, in answer\n    return 1 / 0' in err and "ZeroDivisionError" in err
    assert "lessons_src/lessons/02_tiny/lesson.py: its recorded runs failed" in err and "03_more" not in err
    assert [json.loads(line)[2] for line in out.splitlines()] == ["three", "four", "four"]

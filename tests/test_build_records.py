"""The cells tagged record: what `make runs` executes, and what is refused."""

import ast
import json

import pytest

from coursebuild import command, records, sources
from tests.toy import TITLE, edit, lesson, project, refused, whole

RECORDS = '''# %% [markdown]
# # 2 · Tiny

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
STUB = """import json, os, sys
def load_or_run(name, function, *, seeds, tolerance, **arguments):
    mode, only = os.environ["LESSON_RUNS"], os.environ["LESSON_RUNS_ONLY"]
    print(json.dumps([mode, only, name, [function(seed, **arguments)["loss"] for seed in seeds]]))
    if name == os.environ.get("BREAK"):
        sys.exit(3)
"""
SOURCE = "lessons_src/lessons/02_tiny/lesson.py"


@pytest.fixture
def toy(tmp_path):
    """Return a course whose lesson 2 records; its lessonkit is a stub, so that no torch is imported."""
    root = project(tmp_path, {"02_tiny": RECORDS, "03_light": "# %% [markdown]\n# # 3 · Light\n"})
    (root / "lessons_src/lessonkit").mkdir()
    (root / "lessons_src/lessonkit/__init__.py").write_text("")
    (root / "lessons_src/lessonkit/runs.py").write_text(STUB)
    (root / "lessons_src/lessonkit/data.py").write_text("def digits():\n    return [1]\n")
    return root


def test_the_recorded_part_of_a_lesson_is_a_script(toy):
    two, three = whole(toy).lessons
    names, script = records.recorded(two)
    assert names == ["one", "two"] and records.recorded(three) == ([], "")
    ast.parse(script)
    for left in ("listdir", "never", "late", "model[0]"):
        assert left not in script
    tagged = {cell.source for cell in two.code("record")}
    assert all(source in script for source in tagged) and len(tagged) == 5, "exactly the cells with the tag"


def test_records_are_made_and_verified_by_the_lesson_itself(toy, capfd):
    lessons = whole(toy).lessons
    records.record(lessons, [], "verify")
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line[:3] for line in lines] == [["verify", "", "one"], ["verify", "", "two"], ["verify", "", "two"]]
    assert lines[0][3] == [0, 9.0, 18.0]
    assert command.main(["--runs", "two"], toy) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[0])[:2] == ["record", "two"]


def test_a_recorded_run_that_raises_shows_the_lessons_own_line(toy, capfd):
    edit(toy / SOURCE, "    return 1\n", "    return 1 / 0\n")
    assert command.main(["--runs"], toy) == 1
    line = RECORDS.splitlines().index("    return 1") + 1
    output = capfd.readouterr().err
    assert f'02_tiny.py", line {line}, in answer\n    return 1 / 0' in output and "ZeroDivisionError" in output


def test_a_lesson_whose_runs_fail_does_not_keep_the_next_one_from_its_turn(toy, capfd, monkeypatch):
    text = RECORDS.replace("# # 2 ·", "# # 3 ·").replace('"one"', '"three"').replace('"two"', '"four"')
    (toy / "lessons_src/lessons/03_light/lesson.py").write_text(text)
    monkeypatch.setenv("BREAK", "one")
    assert command.main(["--runs"], toy) == 1
    out, err = capfd.readouterr()
    assert [json.loads(line)[2] for line in out.splitlines()] == ["one", "three", "four", "four"]
    assert "lessons_src/lessons/02_tiny/lesson.py: its recorded runs failed" in err and "03_light" not in err


def test_unknown_records_and_computed_names_are_refused(toy, capsys):
    assert command.main(["--runs", "three"], toy) == 1
    assert capsys.readouterr().err == "no lesson records 'three'. There are: one, two.\n"
    edit(toy / SOURCE, '"two", train', 'f"t{rate}", train')
    refused(lambda: whole(toy), 38, "from an expression", "Write the name there")
    edit(toy / SOURCE, "one = runs.load_or_run", "one = load_or_run")
    refused(lambda: whole(toy), 31, "load_or_run", "write runs.load_or_run")


IMPORT = '# %% tags=["record"]\nfrom lessonkit import runs\n'
CALL = '# %% tags=["record"]\nx = runs.load_or_run("x", f, seeds=[1], tolerance=0, steps=STEPS)\n'
BOTH = IMPORT + '# %% tags=["record"]\ndef f(seed, steps):\n    return steps\n'
REFUSED = {  # what is wrong: (source after the title's two lines, line, words, way out)
    "an untagged call": (IMPORT + "# %%\n1\nruns.load_or_run('x', len)\n", 7, "does not execute", 'tags=["record"]'),
    "a constant in an untagged cell": ("# %%\nSTEPS = 3\n" + BOTH + CALL, 11, "reads 'STEPS'", "Tag the cell"),
    "a tag and no record": ('# %% tags=["record"]\n1\n', 3, "calls no runs.load_or_run", "Remove the tag"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_wrong_record_is_refused(wrong, tmp_path):
    text, line, what, way_out = REFUSED[wrong]
    read = lesson(tmp_path, TITLE + text)
    refused(lambda: records.recorded(read), line, what, way_out)
    assert [str(error) for error in sources.load(tmp_path).errors], "the builder asks as well"

"""A course with broken lessons, lessons that take too long, and what a lesson depends on."""

import hashlib
import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from coursebuild import command, digest, editions
from lessonkit import data
from tests.helpers import ROOT
from tests.toy import EXPORT, TITLE, edit, lesson, project

# ------------------------------------------------------------------------------------------------------ broken lessons

ONE = "# %% [markdown]\n# # 1 · One\n" + EXPORT + "early = 1\n"
TWO = TITLE + EXPORT + "middle = 2\n"
THREE = "# %% [markdown]\n# # 3 · Three\n# %%\nfrom fromscratch import early, middle\n" + EXPORT + "late = 1\n"
BROKEN = "# %% tags=['oops']\n1\n"
FORM = "lessons_src/lessons/02_two/lesson.py:5: \"# %% tags=['oops']\" is not how a cell begins."


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Return a course of three lessons that was exported once, and a list of what is built from now on."""
    root = project(tmp_path, {"01_one": ONE, "02_two": TWO, "03_three": THREE})
    calls = []
    monkeypatch.setattr(editions, "build", lambda lesson: calls.append(lesson.stem) or [])
    assert command.main([], root) == 0 and calls == ["01_one", "02_two", "03_three"]
    calls.clear()
    return root, calls


def test_a_broken_lesson_stops_its_own_build_and_no_other(three, capsys):
    root, calls = three
    package = root / "lessons_src/fromscratch"
    before = {path.name: path.read_text() for path in package.glob("*.py")}
    (root / "lessons_src/lessons/02_two/lesson.py").write_text(TWO + BROKEN)
    assert command.main([], root) == 1 and calls == ["01_one", "03_three"]
    assert capsys.readouterr().err.startswith(FORM)
    assert {path.name: path.read_text() for path in package.glob("*.py")} == before, "lesson 3 still finds middle"


TAKEN = {  # what lesson 3 exports: (the lessons that are built all the same, what is said)
    "early": (
        ["02_two"],
        "'early' is exported by lesson 01 already (lessons_src/lessons/01_one/lesson.py:3). Rename one of them.",
    ),
    "two": (["01_one", "02_two"], "'two' is what the module fromscratch.two is called. Rename the export."),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_is_taken_stops_who_shares_it_and_no_other(name, three, capsys):
    root, calls = three
    edit(root / "lessons_src/lessons/03_three/lesson.py", "late = 1", f"{name} = 1")
    built, message = TAKEN[name]
    assert command.main([], root) == 1 and calls == built
    assert capsys.readouterr().err == f"lessons_src/lessons/03_three/lesson.py:5: {message}\n"
    assert '"early": "one"' in (root / "lessons_src/fromscratch/__init__.py").read_text(), "as it was"


@pytest.mark.parametrize("name, what", [("02_twin.py", "number 02"), ("04_two.py", "name two")])
def test_a_number_or_a_name_that_two_lessons_have_stops_both_and_names_both(three, name, what, capsys):
    root, calls = three
    (root / "lessons_src/lessons" / name).write_text(TITLE.replace("2", str(int(name[:2]))))
    assert command.main([], root) == 1 and calls == ["01_one", "03_three"]
    first, second = sorted(["02_two.py", name])
    expected = f"lessons_src/lessons/{second}:1: {first} has the {what} already. Rename one of them.\n"
    assert capsys.readouterr().err == expected


# -------------------------------------------------------------------------------------------------------------- budget

TIMES = {  # what takes too long: (seconds of the cells in the solutions edition, in the learner edition, place, words)
    "a cell": ([0.1, 12.34], [0.1, 0.1], 5, "in the solutions edition the cell takes 12.3 s, at most 10 s"),
    "a learner's cell": ([0.1, 0.1], [11, 0.1], 3, "in the learner edition the cell takes 11.0 s, at most 10 s"),
    "the first output": ([2, 3], [0.1, 0.1], 1, "the solutions edition shows nothing for 5.0 s, at most 4 s"),
}


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """Return a function (seconds of both editions) -> root of a lesson whose second cell shows something after them."""

    def root_of(*editions_seconds):
        answers = iter(editions_seconds)

        def execute(read, notebook, folder, **settings):
            notebook.cells[2].outputs = [nbformat.v4.new_output("stream", name="stdout", text="2\n")]
            return dict(enumerate([0, 0] if settings else next(answers), 1))

        monkeypatch.setattr(editions, "execute", execute)
        return project(tmp_path, {"02_tiny": TITLE + "# %%\n1\n# %%\n2\n"})

    return root_of


@pytest.mark.parametrize("what", TIMES)
def test_what_is_over_the_budget_is_written_and_fails_in_ci_alone(what, timed, capsys, monkeypatch):
    monkeypatch.setenv("CI", "true")
    solutions, learner, line, words = TIMES[what]
    root = timed(solutions, learner)
    assert command.main([], root) == 1
    out, err = capsys.readouterr()
    lines = [text for text in err.splitlines() if words in text]
    assert len(lines) == 1 and lines[0].startswith(f"lessons_src/lessons/02_tiny/lesson.py:{line}: OVER BUDGET: "), err
    assert "Make it smaller" in lines[0] and "busy machine" in lines[0] and "02_tiny: solutions " in out
    assert len(list((root / "notebooks").rglob("02_tiny.ipynb"))) == 2, "the notebooks are right, only slow"
    monkeypatch.delenv("CI")
    assert command.main(["02"], timed(solutions, learner)) == 0
    out, err = capsys.readouterr()
    assert words in out and err == "", "on a person's machine it is only printed"


# -------------------------------------------------------------------------------------------------------- command line


def run(root, *arguments):
    """Run `python -m coursebuild` as it is used, on a course with a builder of its own."""
    shutil.copytree(ROOT / "lessons_src/coursebuild", root / "lessons_src/coursebuild")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "lessons_src"), str(ROOT / "lessons_src")])}
    command = [sys.executable, "-m", "coursebuild", *arguments]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=100)


def test_a_cell_that_kills_the_kernel_is_one_line_without_a_traceback(tmp_path):
    text = TITLE + "# %%\n1\n# %%\nimport os; os._exit(1)\n# %%\n2\n"
    done = run(project(tmp_path, {"02_tiny": text}))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "lessons_src/lessons/02_tiny/lesson.py:5: the kernel died in this cell. Look for an exit, or too much memory.\n"
    )


# -------------------------------------------------------------------------------------------- what a lesson depends on


def test_words_in_prose_and_in_other_places_are_no_dependency(tmp_path):
    text = (
        TITLE
        + "#\n# data.digits() and ../data/digits.npz and runs.load_or_run('x')\n# %%\n# data.digits()\ndigits = 1\n"
    )
    read = lesson(tmp_path, text + "x = other.data.words\n")
    (tmp_path / "lessons_src/lessonkit").mkdir()
    shutil.copy(data.__file__, tmp_path / "lessons_src/lessonkit/data.py")
    (tmp_path / "data/runs").mkdir(parents=True)
    for file in ("digits.npz", "words.txt.gz", "runs/x.json"):
        (tmp_path / "data" / file).write_bytes(b"")
    assert not [path for path in digest.depends(read) if (tmp_path / "data") in path.parents]
    for code, file in (
        ("from lessonkit import data\nload = data.digits_split", "digits.npz"),
        ("from lessonkit.data import words as w", "words.txt.gz"),
        ("runs.note('x')", "runs/x.json"),
        ("runs.load_or_run('x', print)", "runs/x.json"),
        ("open('../data/digits.npz')", "digits.npz"),
        ("path = data.FOLDER / 'digits.npz'", "digits.npz"),
    ):
        read = lesson(tmp_path, TITLE + f"# %%\n{code}\n")
        assert tmp_path / "data" / file in digest.depends(read), code


EVERY_KIND = """
import math as m
def f(x, *, width: int = 3) -> str:
    return f"{x:>{width}} {x!r}" + "a" f"b{x=}"
class C(object, metaclass=type):
    x: int = -1e-5
    y = lambda a, /, *b, **c: (a, *b)
"""


def test_the_digest_of_a_definition_is_the_same_with_every_python():
    parts = digest._module("kit", EVERY_KIND).parts
    assert [part.text.count("JoinedStr") for part in parts] == [0, 3, 0]
    assert hashlib.sha256("".join(part.text for part in parts).encode()).hexdigest()[:8] == "12bde02b"


def test_what_is_reached_from_name_to_name():
    """A module that is handed on counts whole; so do statements that may do something when they are run."""
    text = "from lessonkit import plot, train as t\nimport lessonkit.data\na = 1\nb = f()\nc, d = 1, 2\n"
    text += "@e\ndef g(): pass\ndef h(x):\n    'Text.'\n    return plot.bars(a, x), vars(t)\ne.f = 1\n"
    text += "def i(): pass\ndef j(): return edited('x + i(2)')\n"
    module = digest._module("kit", text)
    names = [part.names for part in module.parts]
    assert names == [set(), set(), {"a"}, set(), set(), set(), {"h"}, set(), {"i"}, {"j"}]
    assert ("kit", "i") in module.parts[-1].asks, "code may stand in a text"
    asks = set().union(*(part.asks for part in module.parts))
    assert {("lessonkit.plot", "bars"), ("kit", "a"), ("lessonkit.train", "*"), ("lessonkit.data", "*")} <= asks
    assert ("lessonkit.plot", "*") not in asks and "Text." not in module.parts[6].text

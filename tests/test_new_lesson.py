"""A new lesson, as `make lesson` writes it: it passes the rules as it stands, and what cannot be is refused."""

import os
import shutil

import pytest

from coursebuild import new, source
from tests.helpers import ROOT, python

NUMBER = f"{int(source.rooms()[-1].name[:2]) + 1:02}"
RULES = [
    "tests/test_lessons.py",
    "tests/test_checks.py",
    "teaching/tests/test_plan.py",
    "teaching/tests/test_slides.py",
]


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a module of a copy of the repository, which has no notebooks, and what it printed."""
    for name in ("conftest.py", "pyproject.toml", "README.md", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("tests", "data", "lessons_src", "teaching"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "lessons_src"), str(tmp_path)])}
    environment.pop("CI", None)  # beside other tests it may take longer than a lesson may
    return lambda *arguments: python("-m", *arguments, cwd=tmp_path, env=environment)


@pytest.mark.trains
def test_a_new_lesson_passes_the_rules_and_its_checks_are_tested_before_it_is_built(run, tmp_path):
    room = tmp_path / f"lessons_src/lessons/{NUMBER}_a_long_name_for_a_new_lesson"
    for left in (room, room.with_name("99_on_another_branch")):  # git leaves these folders, which are no lessons
        (left / "__pycache__").mkdir(parents=True)
    told = run("coursebuild.new", room.name, "How large is a row?")
    assert f"make check LESSON={NUMBER}" in told
    run("coursebuild", "--no-kernel")
    pytest_of_it = "pytest", "-q", "-p", "no:cacheprovider", "--lesson", NUMBER
    assert " passed" in run(*pytest_of_it, "tests/test_checks.py", "-k", "mean_square_of_a_long_name")
    run("coursebuild", NUMBER)
    assert run("coursebuild", "--check", NUMBER) == "all notebooks are as their sources say\n"
    run("ruff", "check", str(room))
    run("ruff", "format", "--check", str(room))
    assert " passed" in run(*pytest_of_it, *RULES)


@pytest.mark.parametrize(
    ("stem", "title", "words"),
    [
        (f"{NUMBER}_statistics", "A title", "there is a lesson 'statistics' already"),
        ("02_mean", "A title", f"Write make lesson NEW={NUMBER}_name"),
        (f"{NUMBER}_mean", " ", "a title, one line without '|'."),
    ],
)
def test_what_cannot_be_a_lesson_is_refused_with_the_way_out(stem, title, words):
    assert words in new.refusal(stem, title, ROOT)

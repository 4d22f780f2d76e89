"""A new lesson, as `make lesson` writes it: it passes the rules as it stands, and what cannot be is refused."""

import os
import shutil

import pytest

from coursebuild import new
from tests.helpers import ROOT, python

LAST = max((ROOT / "lessons_src/lessons").glob("[0-9]*")).stem
NUMBER = f"{int(LAST[:2]) + 1:02}"


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the repository, without what is built of other lessons."""
    for name in ("conftest.py", "pyproject.toml", "README.md", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("tests", "data", "lessons_src", "teaching"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    return tmp_path


def run(root, *arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "lessons_src"), str(root)])}
    return python("-m", *arguments, cwd=root, env=environment)


@pytest.mark.trains
def test_a_new_lesson_passes_the_rules(copy):
    told = run(copy, "coursebuild.new", f"{NUMBER}_a_long_name_for_a_new_lesson", "How large is a row?")
    assert f"make check LESSON={NUMBER}" in told
    assert run(copy, "coursebuild", "--check", NUMBER) == "all notebooks are as their sources say\n"
    written = [*(copy / f"lessons_src/lessons/{NUMBER}_a_long_name_for_a_new_lesson").glob("*.py")]
    assert len(written) == 3
    run(copy, "ruff", "check", *map(str, written))
    run(copy, "ruff", "format", "--check", *map(str, written))
    rules = ["tests/test_lessons.py", "tests/test_checks.py", "teaching/tests/test_plan.py"]
    assert " passed" in run(copy, "pytest", "-q", "-p", "no:cacheprovider", "--lesson", NUMBER, *rules)


@pytest.mark.parametrize(
    ("stem", "title", "words"),
    [
        ("mean", "A title", "'mean' is not how a lesson is called"),
        (f"{NUMBER}_class", "A title", "'class' is a word of Python's own"),
        (f"{NUMBER}_statistics", "A title", "there is a lesson 'statistics' already"),
        ("02_mean", "A title", "the next one is"),
        (f"{NUMBER}_mean", " ", f'Write make lesson NEW={NUMBER}_name TITLE="A title".'),
        (f"{NUMBER}_mean", "a | b", 'TITLE="A title".'),
    ],
)
def test_what_cannot_be_a_lesson_is_refused_with_the_way_out(stem, title, words):
    assert words in new.refusal(stem, title, ROOT)


def test_a_lesson_that_is_not_built_has_no_tests_yet(request):
    (ours,) = (plugin for plugin in request.config.pluginmanager.get_plugins() if hasattr(plugin, "of_lesson"))
    with pytest.raises(pytest.UsageError, match="make notebooks ARGS=99"):
        ours.of_lesson("99", [])

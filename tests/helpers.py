"""What several tests share: lessons, random numbers, kernels, and all answers."""

import contextlib
import functools
import importlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from traitlets.config import Config

from coursebuild import manifest, source, sources
from lessonkit import check
from lessonkit.check.cases import draw  # noqa: F401  Gaussian numbers from a generator of their own
from lessonkit.check.declare import NotYet
from lessonkit.check.misconceptions import listening

ROOT = Path(__file__).resolve().parents[1]
# Lesson 0 runs where nothing but torch and matplotlib is: no kit, so no checks of the kit, no answers, no exports.
SITTING, *others = EVERY = source.rooms(ROOT)
SOURCES = [path for path in others if not source.head(path)[1]]
REFERENCE = next(path for path in others if path not in SOURCES)  # tables to look things up in, and no lesson


@functools.cache
def the_course():
    """Return the Sources as it is now."""
    return sources.load(ROOT)


@functools.cache
def read(path):
    """Return a lesson of the course, in which nothing is wrong."""
    for lesson in the_course().lessons:
        if lesson.path == path:
            return lesson
    pytest.fail("\n".join(map(str, the_course().errors)), pytrace=False)


@functools.cache
def known(path):
    """Return what the course knows of a lesson once it is built as its source is now."""
    return manifest.lesson(read(path))


def within_budget(fits, message):
    """Warn of a budget that is exceeded, or fail where the environment variable CI is set (.ci/run sets it)."""
    assert fits or not os.environ.get("CI"), message
    if not fits:
        warnings.warn(message, stacklevel=2)


# ------------------------------------------------------------------------------------------------------------- kernels


def executed(sources, folder, **environment):
    """Run code in a kernel that starts in a folder; return its cells. Errors are outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    client.execute(env={name: os.environ[name] for name in os.environ if "LESSON_" not in name} | environment)
    return notebook.cells


def python(*arguments, **options):
    """Run a Python of its own, which has to end well; return what it printed."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def shell():
    """Yield an IPython shell in this process."""
    settings, main = Config(), sys.modules["__main__"]
    settings.HistoryManager.enabled = False
    try:
        yield InteractiveShell.instance(config=settings)
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main


# ------------------------------------------------------------------------------------------------------------- answers


@functools.cache
def all_answers():
    """Return {lesson: ANSWERS}, in the order of the lessons."""
    return {path.stem[3:]: importlib.import_module(f"lessons.{path.stem}.answers").ANSWERS for path in SOURCES}


def first_right(answers):
    return next(iter(answers["right"].values()))


def misconceptions_of(name, right):
    """Return the misconceptions that check.NAME looks for, each once. right: an answer that it accepts."""
    with listening() as heard, contextlib.redirect_stdout(io.StringIO()):
        getattr(check, name)(right)
    return list(dict.fromkeys(heard))


def refusal(name, answer):
    """Return what check.NAME says of a wrong answer, None if it accepts it."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            getattr(check, name)(answer)
        except NotYet as error:
            return str(error)
    return None

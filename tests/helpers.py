"""What several tests share: lessons, random numbers, kernels, and all answers with what is done to them."""

import contextlib
import functools
import importlib
import inspect
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from torch import nn
from traitlets.config import Config

from coursebuild import manifest, source, sources
from lessonkit import check
from lessonkit.check.cases import draw  # noqa: F401  Gaussian numbers from a generator of their own
from lessonkit.check.declare import NotYet
from lessonkit.check.misconceptions import listening

ROOT = Path(__file__).resolve().parents[1]
# Lesson 0 runs where nothing but torch and matplotlib is: no kit, so no checks of the kit, no answers, no exports.
SITTING, *others = EVERY = sorted((ROOT / "lessons_src/lessons").glob("[0-9]*"))
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


def draws(seed, *shapes, dtype=torch.float64, scale=1.0, offset=0.0):
    """Return a tensor for each shape; the first is scaled and moved."""
    generator = torch.Generator().manual_seed(seed)
    first, *others = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)
    return [(scale * first + offset).to(dtype), *(item.to(dtype) for item in others)]


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


# ----------------------------------------------------------------------------------------------- faults of any answer

RESULTS = {  # done to every tensor that a right answer gives out; the first are done to plain numbers, too
    "returns None": lambda y: None,
    "returns a string": lambda y: "done",
    "a little too large": lambda y: y * 1.0003,
    "returns a list": lambda y: y.tolist(),
    "an extra axis": lambda y: y.unsqueeze(0),
    "half the digits": lambda y: y.half().to(y.dtype),
    "float64 whatever comes in": lambda y: y.double(),
    "cut off from the gradient": lambda y: y.detach(),
    "through NumPy": lambda y: torch.from_numpy(y.detach().numpy()),
    "a little too high": lambda y: y + 1e-4,
    "a gradient that is off": lambda y: y + 0.01 * (y - y.detach()),
}
OF_NUMBERS = list(RESULTS)[:3]
WHOLE = {  # in place of an answer
    "raises": lambda right: _raising(right, lambda: 1 / 0),
    "exits": lambda right: _raising(right, exit),
    "not a function or class": lambda right: 3,
    "its result instead of itself": lambda right: torch.zeros(2, 3),
    "a layer instead of its class": lambda right: nn.Identity(),
}
FAULTS = [*RESULTS, "changes its input", *WHOLE]


def faulty(right, what):
    """Return (a right function or class with one of FAULTS, a list that is empty until it has changed anything)."""
    done = []
    if what in WHOLE:
        return WHOLE[what](right), [True]

    def changed(out):
        if isinstance(out, tuple):
            return type(out)(*map(changed, out)) if hasattr(out, "_fields") else tuple(map(changed, out))
        if isinstance(out, torch.Tensor) and out.is_floating_point() or what in OF_NUMBERS and type(out) is float:
            done.append(True)
            return RESULTS[what](out)
        return out

    def wrap(function):
        def wrong(*args, **kwargs):
            out = function(*args, **kwargs)
            if what in RESULTS:
                return changed(out)
            tensors = [a for a in [*args, *kwargs.values()] if isinstance(a, torch.Tensor) and a.is_floating_point()]
            for tensor in tensors[:1]:
                done.append(True)
                tensor.data.mul_(3).add_(1)
            return out

        return wrong

    return _wrapped(right, wrap), done


def _wrapped(right, wrap):
    """Return wrap of a function, or a subclass with wrap of the public methods that are not PyTorch's."""
    if not isinstance(right, type):
        return wrap(right)
    methods = {}
    for base in reversed(right.__mro__):
        if base is not object and not (base.__module__ or "").startswith("torch"):
            methods |= {
                n: m for n, m in vars(base).items() if n[0] != "_" and n not in ("extra_repr", "reset_parameters")
            }
    static = {n: staticmethod(wrap(m.__func__)) for n, m in methods.items() if isinstance(m, staticmethod)}
    return type(right.__name__, (right,), static | {n: wrap(m) for n, m in methods.items() if inspect.isfunction(m)})


def _raising(right, act):
    wrong = lambda *args, **kwargs: act()  # noqa: E731
    return type("Raising", (), {"__init__": wrong}) if isinstance(right, type) else wrong

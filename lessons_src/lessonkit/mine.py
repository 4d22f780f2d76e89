"""The learner's own layers: `from lessonkit.mine import LayerNorm` gives the answer to exercise 4.3 that was kept.

Where a learner works and has passed the exercise's check, that is the learner's own, else the course's, from
fromscratch; a line says which. Before it is used it passes its check once more in this kernel, in silence. What
exercises do not make is to be had from fromscratch alone.
"""

import functools
import importlib
import sys
import types

from lessonkit import _kept, _trying, _work, course
from lessonkit._trying import Refused

_running = set()  # the lessons whose files are run just now: a file that asks for itself gets the course's


def __getattr__(name):
    if name.startswith("_"):  # Python asks for __path__, IPython for _repr_html_
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _made()
    if name not in made:
        raise ImportError(
            f"lessonkit.mine has no {name!r}, it has what exercises make: {', '.join(sorted(made))}. All else that the "
            f"course builds is in the package fromscratch: write from fromscratch import {name}."
        )
    lesson, check = made[name]
    exercise = course.checks()[check][1].number
    folder, why_not = _work.folder(), ""
    if folder and lesson not in _running:
        try:
            own, since = _own(folder / "mine" / f"{lesson}.py", name)
            if own is not None:
                print(f"{name}: yours, {since}. The course's instead: from fromscratch import {name}")
                return own
        except Refused as error:
            why_not = (
                f" Yours in {folder.name}/mine/{lesson}.py is not used, because {error}. Run exercise {exercise} and "
                "its check again, or delete that file."
            )
    print(f"{name}: the course's own, from lesson {exercise.partition('.')[0]}.{why_not}")
    return getattr(importlib.import_module(f"fromscratch.{lesson}"), name)


def __dir__():
    return sorted(_made())


def home(name):
    """Return the lesson whose exercise makes a name, None if none does."""
    return _made().get(name, (None,))[0]


def _made():
    """Return {name: (lesson, check)} of what an exercise makes and fromscratch holds."""
    homes = importlib.import_module("fromscratch")._HOME
    answers = course.answers()
    return {name: (lesson, answers[lesson][name]) for name, lesson in homes.items() if name in answers.get(lesson, ())}


def _own(path, name):
    """Return (the learner's own, since when), (None, "") if it was not kept; Refused if it cannot be used."""
    try:
        kept = _kept.read(path)
    except OSError as error:
        raise Refused(f"it cannot be read ({error.strerror})") from None
    if kept.text is None or kept.whole and name not in kept.entries:
        return None, ""
    own = _tried(path, kept.text, name)
    if isinstance(own, Refused):
        raise own
    _, day = kept.entries.get(name, ("", "an unknown day"))
    return own, f"kept on {day}" + ("" if kept.whole else ", edited since and checked again")


@functools.cache  # once a kernel, and anew if the file has changed
def _tried(path, text, name):
    """Return what a file holds under a name, after it has passed its check, or a Refused that says why not."""
    _running.add(path.stem)
    try:
        module = _module(path, text)
        _trying.passes(module, path.stem, name)
        return getattr(module, name)
    except Refused as error:
        return error
    finally:
        _running.remove(path.stem)


@functools.cache
def _module(path, text):
    """Return the module that a file makes; from now on it can be imported, and its classes pickled."""
    module = _trying.execute(_kept.parse(text), path)
    package = types.ModuleType("mine")  # like work/mine/__init__.py, which may have been edited
    package.__path__ = [str(path.parent)]
    exec(_kept.package(path.parent), package.__dict__)
    sys.modules.setdefault("mine", package)
    sys.modules[module.__name__] = module
    return module

"""The learner's own layers: `from lessonkit.mine import LayerNorm` gives the answer to exercise 4.4 that was kept.

Where a learner has passed the exercise's check, that is the learner's own, else the course's; a line says which. What
was edited since must pass its check again before it is used.
"""

import functools
import importlib
import sys
import types

from lessonkit import check, course, places
from lessonkit.check.attempt import again
from lessonkit.check.observing import quiet
from lessonkit.check.questions import made_by
from lessonkit.kept import files
from lessonkit.kept.files import Refused

_running = set()  # the lessons whose files are run just now: a file that asks for itself gets the course's


def __getattr__(name):
    if name.startswith("_"):  # Python asks for __path__, IPython for _repr_html_
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = _homes()
    if name not in homes:
        raise ImportError(
            f"lessonkit.mine has no {name!r}, it has what exercises make: {', '.join(sorted(homes))}. All else that "
            f"the course builds is in the package fromscratch: write from fromscratch import {name}."
        )
    lesson, why_not = homes[name], ""
    exercise = made_by(course.answers()[lesson][name])[1]
    try:
        own, since = (None, "") if lesson in _running else _own(lesson, name)
        if own is not None:
            print(f"{name}: yours, {since}. The course's instead: from fromscratch import {name}")
            return own
    except Refused as error:
        why_not = (
            f" Yours in {places.work().name}/mine/{lesson}.py is not used, because {error}. Run exercise {exercise} "
            "and its check again, or delete that file."
        )
    print(f"{name}: the course's own, from lesson {exercise.partition('.')[0]}.{why_not}")
    return getattr(importlib.import_module(f"fromscratch.{lesson}"), name)


def _homes():
    """Return {name: lesson} of what an exercise makes and fromscratch holds."""
    homes, answers = importlib.import_module("fromscratch")._HOME, course.answers()
    return {name: lesson for name, lesson in homes.items() if name in answers.get(lesson, ())}


def _own(lesson, name):
    """Return (the learner's own, since when), (None, "") if it was not kept; Refused if it cannot be used."""
    if places.work() is None:
        return None, ""
    path = places.work() / "mine" / f"{lesson}.py"
    try:
        kept = files.read(path)
    except OSError as error:
        raise Refused(f"it cannot be read ({error.strerror})") from None
    if kept.text is None or kept.whole and name not in kept.entries:
        return None, ""
    module = _module(path, kept.text)
    if not hasattr(module, name):
        raise Refused(f"it does not bind {name}")
    trouble = None if kept.whole else _trouble(module, lesson, name)
    if trouble:
        raise Refused(trouble)
    _, day = kept.entries.get(name, ("", "an unknown day"))
    return getattr(module, name), f"kept on {day}" + ("" if kept.whole else ", edited since and checked again")


@functools.cache  # once a kernel, and anew if the file has changed
def _module(path, text):
    """Return the module that a file makes, which can be imported from then on."""
    _running.add(path.stem)
    try:
        with quiet(), files.loaded(files.parse(text), path) as module:
            pass
        package = types.ModuleType("mine")
        package.__path__ = [str(path.parent)]
        sys.modules.setdefault("mine", package)
        sys.modules[module.__name__] = module
        return module
    finally:
        _running.remove(path.stem)


@functools.cache
def _trouble(module, lesson, name):
    """Return why what a module holds under a name does not pass its check, None if it does."""
    return again(check.plain(course.answers()[lesson][name]), getattr(module, name))

"""Run the code of a kept answer apart from everything else, and put it through its check once more, in silence."""

import contextlib
import sys
import types

from lessonkit import _allowed, attempts, course


class Refused(Exception):
    """Why an answer cannot be kept or used, as the end of a sentence: "it opens a file, by open"."""


def execute(kept, path):
    """Return the module mine.LESSON that a file makes; Refused, and not run, if it holds what cannot be kept."""
    if not kept.program:
        raise Refused("Python cannot read it")
    found = _allowed.trouble(kept.program)
    if found:
        raise Refused(found)
    module = types.ModuleType(f"mine.{path.stem}")
    module.__file__ = str(path)
    with _apart(module):
        try:
            exec(compile(kept.text, str(path), "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            raise Refused(f"on its own it raises {type(error).__name__}: {_first_line(error)}") from None
    return module


def passes(module, lesson, name):
    """Put what a module holds under a name through its check, once more; Refused if it does not pass."""
    from lessonkit import check

    if not hasattr(module, name):
        raise Refused(f"it does not bind {name}")
    plain = getattr(check, course.answers()[lesson][name]).__wrapped__  # it is not counted in the summary
    with _apart(module):
        try:
            plain(getattr(module, name))
        except check.NotYet as error:
            raise Refused(f"on its own it does not pass its check: {_first_line(error)}") from None
        except Exception as error:
            raise Refused(f"its check ends with {type(error).__name__}: {_first_line(error)}") from None


def _first_line(error):
    return str(error).partition("\n")[0].removeprefix("Not yet. ").rstrip(".")


@contextlib.contextmanager
def _apart(module):
    """Keep away what is printed, drawn at random or noted as an attempt; meanwhile the module can be imported."""
    from lessonkit.check.probing import quiet

    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        with quiet(), attempts.paused():
            yield
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before

"""Checks that tell a right answer from a wrong one, and say why it is wrong.

`check.NAME(answer)` takes the learner's own function, class or value. Right: prints one line that says what was tried.
Wrong: raises NotYet. Not written yet: raises YourTurn. Each check lives in the module that is called as its lesson, in
the folder lessons, which is loaded when one of its checks is first asked for.

`check.predict("3.1", "b")` and `check.recall("3.1", "b")` answer a question of the lesson with a letter.
"""

import functools
import importlib

from lessonkit import _keeping, _threads, course  # noqa: F401  _threads sets how many torch uses
from lessonkit._hook import YourTurn
from lessonkit.check import asking
from lessonkit.check.asking import predict, recall
from lessonkit.check.attempted import attempted
from lessonkit.check.core import NotYet

__all__ = ["NotYet", "YourTurn", "predict", "recall", "summary"]

_verdicts = {}  # name of a check: whether its last answer in this kernel was right


def __getattr__(name):
    if name in course.checks():
        lesson, _ = course.checks()[name]
        return _kept(name, getattr(importlib.import_module(f"{__name__}.lessons.{lesson.module}"), name))
    raise AttributeError(f"there is no check.{name}; the checks are: {', '.join(sorted(course.checks()))}")


def _kept(name, check):
    """Return a check that also remembers whether the answer was right, for the summary, and keeps a right one."""

    @functools.wraps(check)
    def remembering(answer):
        _verdicts[name] = False
        attempted(check, answer)
        _verdicts[name] = True
        _keeping.keep(name, answer)

    return remembering


def summary(lesson):
    """Say how many of a lesson's exercises are right in this kernel: the last line of Restart and Run All."""
    print(asking.summary(lesson, _verdicts))


def __dir__():
    return sorted([*__all__, *course.checks()])

"""Checks that tell a right answer from a wrong one, and say why it is wrong.

`check.NAME(answer)` takes the learner's own function, class or value. Right: says what was tried and what can be done
now. Wrong: raises NotYet. Not written yet: raises YourTurn. Each is a box in a notebook, else text. Each check lives in
its lesson's room, lessons/NN_name/checks.py, and is loaded when it is first asked for.

`check.predict("3.1")` and `check.recall("3.1")` ask a question of the lesson; a second argument, "b", answers it.
"""

import importlib

from lessonkit import _threads, course, places  # noqa: F401  _threads sets how many torch uses
from lessonkit.check import attempt, questions
from lessonkit.check.observing import quiet
from lessonkit.check.questions import predict, recall
from lessonkit.check.verdicts import NotYet
from lessonkit.kept import files, saving
from lessonkit.shown import YourTurn, in_notebook, say, tell

__all__ = ["NotYet", "YourTurn", "predict", "recall", "summary"]

# The names of the checks that an answer in this kernel has passed, whatever was tried later; and that have said no.
_passed, _tried = set(), set()


def plain(name):
    """Return a check as its lesson's module defines it: it remembers, keeps and notes nothing, and tells all."""
    check = getattr(importlib.import_module(f"lessons.{course.checks()[name][0].stem}.checks"), name)
    if hasattr(check, "name"):  # declared, and called as it is bound
        check.name = name
    return check


def __getattr__(name):
    if name in course.checks():
        return _judging(name, plain(name))
    raise AttributeError(f"there is no check.{name}; the checks are: {', '.join(sorted(course.checks()))}")


def _judging(name, check):
    """Return what a learner calls: it runs a check, remembers whether the answer was right, and keeps a right one."""

    def judge(answer):
        try:
            lines, borrowed = attempt.attempted(name, check, answer)
        except NotYet:
            _tried.add(name)
            raise
        _passed.add(name)
        if in_notebook():
            lines += _from_now_on(name, answer, borrowed)
        tell("\n".join(lines), "right")

    judge.__name__ = judge.__qualname__ = name
    judge.__doc__ = _what_it_takes(name)
    return judge


def _from_now_on(name, answer, borrowed):
    """Keep an answer that is right, where a learner works; return lines that say so, and what can be used now."""
    lesson, exercise, answer_name = questions.made_by(name)
    if not answer_name:  # a quiz
        return []
    with quiet():
        kept = saving.save(
            answer,
            (lesson, exercise, answer_name, name),
            lambda other, kept: attempt.again(plain(course.answers()[lesson][other]), kept),
            {other for names in borrowed.values() for other in names},
            attempt.exported(lesson) - course.answers()[lesson].keys(),
        )
    return [kept or f"The cells below can use {answer_name} now."]


def _what_it_takes(name):
    """Return what check.NAME? shows. It is not the check's own docstring, which may tell the solution."""
    lesson, exercise, answer_name = questions.made_by(name)
    if answer_name:
        takes = f"your {answer_name} itself, so write check.{name}({answer_name}), without calling it first"
    else:
        takes = "the value or values that the exercise asks for"
    of = f"Judge your answer to exercise {exercise}. " if exercise else ""
    return (
        f"{of}It takes {takes}.\n\nRight: a box says what was tried. Wrong: a box says why, as far as that can be told."
    )


def summary(lesson):
    """Show which of a lesson's exercises are right, in this kernel or kept: the end of Restart and Run All."""
    say(*questions.summary(lesson, _passed | _kept(lesson), _tried))


def _kept(lesson):
    """Return the names of the checks whose answers were kept, in this kernel or an earlier one."""
    folder, checks = places.work(), course.answers().get(lesson, {})
    try:
        passed = files.read(folder / "mine" / f"{lesson}.py").passed if folder else {}
    except OSError:  # the lessons that use it say more
        passed = {}
    return {checks[name] for name in passed.keys() & checks.keys()}


def __dir__():
    return sorted([*__all__, *course.checks()])

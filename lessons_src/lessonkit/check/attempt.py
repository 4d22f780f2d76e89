"""One attempt of a learner at an exercise: judged, noted, and helped where another exercise is still open.

A later exercise often calls what an earlier one makes. If that is still blank, the check of the later one runs once
more with the course's own in its place, so that one open exercise closes no other.
"""

import contextlib
import importlib
import sys
from collections import Counter

from lessonkit import attempts, course, shown
from lessonkit.check.misconceptions import TWO, listening
from lessonkit.check.observing import quiet, undrawn
from lessonkit.check.verdicts import CAUSE, NotYet, YourTurn, collecting, with_repairs

_failures = Counter()  # (check, what mends the answer): how often a rejection could have told it in this kernel


def attempted(name, check, answer):
    """Run a check on an answer and return (the lines for a right one, what the course has stood in for).

    NotYet leaves out the repair when an exercise fails for a reason for the first time. Where a learner works, the
    attempt is noted in the log.
    """
    lesson, item = course.checks().get(name, (None, None))
    exercise, borrowed = item.number if item else "", {}
    with listening() as misconceptions, collecting() as verdicts, undrawn():
        try:
            judged(check, answer, exercise, borrowed)
        except YourTurn as error:
            raise YourTurn("\n".join([str(error), *_notes(exercise, answer, {})])) from None
        except NotYet as error:
            lines, repairs = with_repairs(str(error))
            if item:
                attempts.note(lesson.module, item.name, False, check=name, mistake=_named(lines, misconceptions))
            _failures.update((name, repair) for repair in repairs)
            lines += [repair for repair in repairs if _failures[name, repair] > 1]
            raise NotYet("\n".join([*lines, *_notes(exercise, answer, borrowed)])) from None
    if item:
        attempts.note(lesson.module, item.name, True, check=name)
    return [*verdicts, *_notes(exercise, answer, borrowed)], borrowed


def again(check, answer):
    """Put an answer that was kept through its check once more, in silence; return why it does not pass, or None."""
    try:
        with quiet(), collecting():
            check(answer)
    except NotYet as error:
        what = str(error).partition("\n")[0].removeprefix("Not yet. ").rstrip(".")
        return f"on its own it does not pass its check: {what}"
    except Exception as error:
        what = str(error).partition("\n")[0].rstrip(".")
        return f"its check ends with {type(error).__name__}: {what}"


def _notes(exercise, answer, borrowed):
    """Return the lines that say what was judged, where that is not only what the learner has written last."""
    lines = [
        f"This was judged with the course's own {', '.join(names)}, since your {number} is still open."
        for number, names in borrowed.items()
    ]
    if shown.from_before(exercise, answer):
        lines.append(
            f"Python could not read the cell of exercise {exercise} when it was run last, so this is about the "
            "definition from before."
        )
    return lines


def _named(lines, misconceptions):
    """Return the cause of the misconception that a rejection tells, else None."""
    told = {line.removeprefix("Not yet. ").removeprefix(CAUSE).removeprefix(TWO.strip()).strip() for line in lines}
    causes = [misconception.cause.partition(" | ")[0] for misconception in misconceptions]  # a quiz writes both in one
    return next((cause for cause in causes if cause in told), None)


# ---- the course's own answer in the place of one that the learner has not written yet
def judged(check, answer, exercise, borrowed):
    """Run a check on the answer to an exercise ("6.3"); blanks of other exercises give way to the course's own.

    borrowed: a dictionary; {number of another exercise: [names that the course stood in for]} is added to it.
    """
    module = sys.modules.get(getattr(answer, "__module__", None), sys.modules["__main__"])
    with contextlib.ExitStack() as until_then:
        while True:
            try:
                return check(answer)
            except YourTurn as error:
                other = error.exercise
                own = _course_s(other) if other not in (exercise, *borrowed) else {}
                if not own:
                    raise
            until_then.enter_context(_replaced(vars(module), own))
            borrowed[other] = list(own)


def exported(lesson):
    """Return the names that the course has in fromscratch from a lesson ("batchnorm")."""
    return {name for name, home in importlib.import_module("fromscratch")._HOME.items() if home == lesson}


def _course_s(number):
    """Return {name: object} of what the course answers to an exercise with, as far as fromscratch has it."""
    lessons = course.lessons().values()
    lesson, exercise = next(
        ((candidate, e) for candidate in lessons for e in candidate.exercises if e.number == number), (None, None)
    )
    names = exercise.answers.keys() & exported(lesson.module) if exercise else ()
    return {name: getattr(importlib.import_module(f"fromscratch.{lesson.module}"), name) for name in names}


@contextlib.contextmanager
def _replaced(space, own):
    """Meanwhile let names stand for other objects, as functions read them and as classes inherit from them."""
    before = {name: space[name] for name in own if name in space}
    heirs = {}
    for name, old in before.items():
        for cls in {value for value in space.values() if isinstance(value, type) and old in value.__bases__}:
            heirs.setdefault(cls, cls.__bases__)
            with contextlib.suppress(TypeError):  # Python cannot exchange every base: then it is the blank's turn again
                cls.__bases__ = tuple(own[name] if base is old else base for base in cls.__bases__)
    space.update(own)
    try:
        yield
    finally:
        for cls, bases in heirs.items():
            cls.__bases__ = bases
        for name in own:
            del space[name]
        space.update(before)

"""Run a check and note how it went: right or not yet, and which misconception it named."""

from collections import Counter

from lessonkit import attempts, course, shown
from lessonkit.check import standing_in
from lessonkit.check.misconceptions import listening
from lessonkit.check.probing import quiet
from lessonkit.check.verdicts import CAUSE, REPAIR, NotYet, YourTurn, collecting

_failures = Counter()  # (check, what mends the answer): how often a rejection could have told it in this kernel


def attempted(name, check, answer):
    """Run a check on an answer and return (the lines for a right one, what the course has stood in for).

    NotYet leaves out the repair when an exercise fails for a reason for the first time. Where a learner works, the
    attempt is noted in the log.
    """
    lesson, item = course.checks().get(name, (None, None))
    exercise, borrowed = item.number if item else "", {}
    with listening() as misconceptions, collecting() as verdicts:
        try:
            standing_in.run(check, answer, exercise, borrowed)
        except YourTurn as error:
            raise YourTurn("\n".join([str(error), *_notes(exercise, answer, {})])) from None
        except NotYet as error:
            lines = str(error).split("\n")
            if item:
                attempts.note(lesson.module, item.name, False, check=name, mistake=_named(lines, misconceptions))
            if lines[-1].startswith(REPAIR):
                _failures[name, lines[-1]] += 1
                if _failures[name, lines[-1]] == 1:
                    lines.pop()
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
    told = {line.removeprefix("Not yet. ").removeprefix(CAUSE) for line in lines}
    causes = [misconception.cause.partition(" | ")[0] for misconception in misconceptions]  # a quiz writes both in one
    return next((cause for cause in causes if cause in told), None)

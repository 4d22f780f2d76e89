"""Run a check and note how it went: right or not yet, and which known mistake it named."""

from lessonkit import attempts, course
from lessonkit.check.mistakes import listening
from lessonkit.check.verdicts import NotYet


def attempted(check, answer):
    """Run a check on an answer, as if nothing else happened; where a learner works, it is noted in the log."""
    name = check.__name__
    if not attempts.active() or name not in course.checks():
        check(answer)
        return
    lesson, exercise = course.checks()[name]
    with listening() as heard:
        try:
            check(answer)
        except NotYet as error:
            attempts.note(lesson.module, exercise.name, False, check=name, mistake=_named(error, heard))
            raise
    attempts.note(lesson.module, exercise.name, True, check=name)


def _named(error, heard):
    """Return the cause that a rejection tells in its second line, if it is that of a known mistake, else None."""
    cause = str(error).partition("\n")[2].removeprefix("Probable cause: ")
    return cause if any(mistake.cause == cause for mistake in heard) else None

"""Run a check and note how it went: right or not yet, and which known mistake it named."""

from lessonkit import attempts
from lessonkit.check import asking
from lessonkit.check.mistakes import listening
from lessonkit.check.verdicts import NotYet


def attempted(check, answer):
    """Run a check on an answer, as if nothing else happened; where a learner works, it is noted in the log."""
    name = check.__name__
    exercise = asking.exercise(name) if attempts.active() else None
    if exercise is None:
        check(answer)
        return
    with listening() as heard:
        try:
            check(answer)
        except NotYet as error:
            attempts.note(*exercise, False, check=name, mistake=_named(name, error, heard))
            raise
    attempts.note(*exercise, True, check=name)


def _named(name, error, heard):
    """Return the id of the known mistake whose cause a rejection tells in its second line, else None."""
    _, _, told = str(error).partition("\n")
    cause = told.removeprefix("Probable cause: ")
    return attempts.mistake_id(name, cause) if any(mistake.cause == cause for mistake in heard) else None

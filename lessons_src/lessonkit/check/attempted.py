"""Run a check and note how it went: right or not yet, and which known mistake it named."""

from lessonkit import attempts
from lessonkit.check.mistakes import listening
from lessonkit.check.verdicts import NotYet


def attempted(check, answer, lesson, item):
    """Run a check on an answer, as if nothing else happened; where a learner works, it is noted in the log."""
    if not attempts.active():
        check(answer)
        return
    name = check.__name__
    with listening() as heard:
        try:
            check(answer)
        except NotYet as error:
            attempts.note(lesson, item, False, check=name, mistake=_named(name, error, heard))
            raise
    attempts.note(lesson, item, True, check=name)


def _named(name, error, heard):
    """Return the id of the known mistake whose cause a rejection tells in its second line, else None."""
    _, _, told = str(error).partition("\n")
    cause = told.removeprefix("Probable cause: ")
    return attempts.mistake_id(name, cause) if any(mistake.cause == cause for mistake in heard) else None

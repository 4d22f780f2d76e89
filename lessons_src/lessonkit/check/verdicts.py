"""How a check says yes and no: accept, NotYet for a wrong answer, YourTurn for one that is not written yet.

A cause is a sentence that says what is wrong. What mends it may follow after " | ": "the variance is divided by D - 1 |
Say correction=0." In a kernel the repair is told when an exercise fails for the same reason again.
"""

import contextlib

from lessonkit.shown import Told, YourTurn, tell

__all__ = ["NotYet", "YourTurn", "accept", "collecting", "refuse_dots", "reject"]

CAUSE, REPAIR = "Probable cause: ", "To mend it: "
_collectors = []


class NotYet(Told, AssertionError):
    """A wrong answer. Lines of its text: the probable cause; what went in, came out and should have; the repair."""


def reject(what, why=None):
    """Raise NotYet with what happened, and why: a cause comes before it, any other explanation after it."""
    reason, _, repair = (why or "").partition(" | ")
    lines = [reason, what] if reason.startswith(CAUSE) else [what, reason]
    if repair:
        lines.append(REPAIR + repair)
    raise NotYet("Not yet. " + "\n".join(filter(None, lines))) from None


def refuse_dots(answer, name):
    if answer is ...:
        reject(f"check.{name} got three dots: put your answer in their place.")


def accept(text):
    """Say that an answer is right, in a text that begins with "Right:"."""
    if _collectors:
        _collectors[-1].append(text)
    else:
        tell(text, "right")


@contextlib.contextmanager
def collecting():
    """Yield a list to which the texts of accept go meanwhile; nothing of them is shown."""
    _collectors.append([])
    try:
        yield _collectors[-1]
    finally:
        _collectors.pop()

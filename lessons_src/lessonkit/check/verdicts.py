"""How a check says no: NotYet for a wrong answer, YourTurn for one that is not written yet."""

from lessonkit._hook import YourTurn
from lessonkit._tones import Told, accept

__all__ = ["NotYet", "YourTurn", "accept", "refuse_dots", "reject"]


class NotYet(Told, AssertionError):
    """A wrong answer. Its text says what went in, what came out, what should have, and the probable cause."""


def reject(what, cause=None):
    """Raise NotYet with what happened and, on a second line, the cause."""
    raise NotYet(f"Not yet. {what}" + (f"\n{cause}" if cause else "")) from None


def refuse_dots(answer, name):
    if answer is ...:
        reject(f"check.{name} got three dots: put your answer in their place.")

"""An exception as something to observe: what an answer raised stands beside what another one returned."""

from dataclasses import dataclass, field

CHANGED = "what your code changed"  # the name of that observation


@dataclass(frozen=True)
class Raised:
    """An exception that an answer raised, as plain data: two are equal if they are of one type.

    kind: the name of its type. text: its first line. line: the learner's line that raised it, "" if it is not known.
    """

    kind: str
    text: str = field(compare=False)
    line: str = field(default="", compare=False)

"""An exception as something to observe: what an answer raised stands beside what another one returned."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Raised:
    """An exception that an answer raised, as something to compare: two are equal if they are of one type."""

    kind: type
    text: str = field(compare=False)
    line: str = field(default="", compare=False)

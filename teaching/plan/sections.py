"""What a lesson consists of, as an instructor plans it: sections with their minutes, questions and exercises."""

import re
from dataclasses import dataclass, field
from functools import cache

from coursebuild import minutes
from teaching import material

NUMBERED = re.compile(r"(\d+\.\d+) (.+)")
OPTIONAL = re.compile(r" \(optional[^)]*\)$")
START = "start"  # the key of what comes before the first section
AFTER = ("On your own", "Further reading")  # of no use in a session, but for homework


@dataclass
class Section:
    """A section of a lesson. key: "6.1", "start", or its heading where that has no number. minutes: by the model.

    What is below a heading of the core belongs to it; optional parts are sections of their own.
    """

    key: str
    title: str
    minutes: float
    optional: bool
    questions: list = field(default_factory=list)
    exercises: list = field(default_factory=list)


class PlanError(Exception):
    """Words or a course that name what the lessons do not have: where, what, and what there is."""


@cache
def of(stem, root=material.ROOT):
    """Return {key: Section} of a built lesson, in order."""
    found, last = {}, None
    for one in minutes.of(stem, root):
        key, title = named(one.heading)
        if one.level == 1:
            key, title = START, "What breaks, and what comes back from earlier lessons"
        if one.optional or one.level <= 2 or last is None:
            last = found.setdefault(key, Section(key, title, 0, one.optional))
        last.minutes += one.minutes
    _fill(found, stem, root)
    return found


def named(heading):
    """Return (key, title) of a heading: ("6.1", "The other axis"), ("Take-away", "Take-away")."""
    heading = OPTIONAL.sub("", heading)
    numbered = NUMBERED.fullmatch(heading)
    return numbered.groups() if numbered else (heading, heading)


def _fill(found, stem, root):
    """Put each question and exercise into the section under whose heading it stands."""
    current = found[START]
    for item in material.read(stem, root).items:
        if isinstance(item, material.Text):
            for heading in re.findall(r"^##+ (.+)", item.markdown, re.MULTILINE):
                current = found.get(named(heading)[0], current)
        elif isinstance(item, material.Question):
            current.questions.append(item)
        elif isinstance(item, material.Exercise):
            current.exercises.append(item)


def core(stem, root=material.ROOT):
    """Return the keys of a lesson's core, in order: all that a session goes through."""
    return [key for key, one in of(stem, root).items() if not one.optional and key not in AFTER]

"""Courses as lists of lessons, sittings and sections, from courses.toml, with the minutes that they take in a class."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lessonkit import course
from teaching.plan import sections
from teaching.plan.sections import PlanError

FILE = Path(__file__).with_name("courses.toml")
NAME = re.compile(r"(\d+)(?:\.\d+)?(?: (.+))?")
SITTINGS = ("first", "second")  # "6 first" is the first sitting of lesson 6


@dataclass
class Session:
    """A session of a course. has: the minutes that it has. parts: [(stem, Section)], in order."""

    name: str
    has: int
    parts: list

    @property
    def minutes(self):
        """What its sections take in a class."""
        return sum(sections.in_class(section) for _, section in self.parts)


@dataclass
class Course:
    name: str
    words: str
    sessions: list


def read():
    """Return the Courses of FILE; PlanError names what no lesson has."""
    return [
        Course(table["name"], table["words"], [_session(session) for session in table["session"]])
        for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["course"]
    ]


def _session(table):
    return Session(table["name"], table["minutes"], [part for name in table["sections"] for part in parts(name)])


def parts(name):
    """Return [(stem, Section)] of a name: "6" is a lesson's core, "6 first" a sitting, "6.1" or "6 start" a section."""
    match = NAME.fullmatch(name)
    stems = {int(stem[:2]): stem for stem in (sections.LESSON_0, *course.lessons())}
    stem = stems.get(int(match[1])) if match else None
    if stem is None:
        raise PlanError(f"{FILE.name}: {name!r} begins with the number of no lesson. Write '6', '6 first' or '6.1'.")
    there = sections.of(stem)
    if match[2] in SITTINGS:
        chosen = sections.sittings(stem)[SITTINGS.index(match[2])]
    elif name == match[1]:
        chosen = sections.core(stem)
    else:
        key = match[2] or name
        if key not in there:
            raise PlanError(f"{FILE.name}: {stem} has no section {key!r}. It has {', '.join(there)}.")
        chosen = [there[key]]
    return [(stem, section) for section in chosen]

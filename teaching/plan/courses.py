"""Courses as lists of lessons, sittings and sections, from courses.toml, with the minutes that they take in a class."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from teaching import material
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
        return sum(material.in_class(section) for _, section in self.parts)


@dataclass
class Course:
    name: str
    words: str
    sessions: list


def read(file=FILE):
    """Return the Courses of a file; PlanError names what no lesson has.

    A course without sessions has one of `minutes` for each lesson of the manifest.
    """
    courses = []
    for table in tomllib.loads(file.read_text(encoding="utf-8"))["course"]:
        lessons = [sections.lesson(stem) for stem in material.stems()]
        each = [{"name": lesson.label, "sections": [str(lesson.number)]} for lesson in lessons]
        sessions = [{"minutes": table.get("minutes")} | session for session in table.get("session", each)]
        courses.append(Course(table["name"], table["words"], list(map(_session, sessions))))
    return courses


def _session(table):
    return Session(table["name"], table["minutes"], [part for name in table["sections"] for part in parts(name)])


def parts(name):
    """Return [(stem, Section)] of a name: "6" is a lesson's core, "6 first" a sitting, "6.1" or "6 start" a section."""
    match = NAME.fullmatch(name)
    stems = {int(stem[:2]): stem for stem in material.every()}
    stem = stems.get(int(match[1])) if match else None
    if stem is None:
        raise PlanError(f"{FILE.name}: {name!r} begins with the number of no lesson. Write '6', '6 first' or '6.1'.")
    there = {key: [section] for key, section in sections.of(stem).items()}
    there |= dict(zip(SITTINGS, sections.sittings(stem), strict=False)) | {match[1]: sections.core(stem)}
    key = match[2] or name
    if key not in there:
        raise PlanError(f"{FILE.name}: {stem} has no section {key!r}. It has {', '.join(there)}.")
    return [(stem, section) for section in there[key]]

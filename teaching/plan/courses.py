"""Courses as lists of sections, from courses.toml, with the minutes that they add up to."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from teaching import material
from teaching.plan import sections
from teaching.plan.sections import PlanError

FILE = Path(__file__).with_name("courses.toml")
NAME = re.compile(r"(\d+)(?:\.\d+)?(?: (.+))?")


@dataclass
class Session:
    """A session of a course. has: the minutes that it has. parts: [(stem, Section)], in order."""

    name: str
    has: int
    parts: list

    @property
    def minutes(self):
        """What its sections take, by the model."""
        return sum(section.minutes for _, section in self.parts)


@dataclass
class Course:
    name: str
    words: str
    sessions: list


def read(path=FILE, root=material.ROOT):
    """Return the Courses of a file; PlanError names what no lesson has."""
    stored = tomllib.loads(path.read_text(encoding="utf-8"))["course"]
    courses = []
    for one in stored:
        made = [
            Session(item["name"], item["minutes"], [p for name in item["sections"] for p in parts(name, root)])
            for item in one["session"]
        ]
        courses.append(Course(one["name"], one["words"], made))
    return courses


def parts(name, root=material.ROOT):
    """Return [(stem, Section)] of a name: "6" is a lesson's core, "6.1" and "6 Take-away" are one section."""
    found = NAME.fullmatch(name)
    stems = {int(stem[:2]): stem for stem in material.stems(root)}
    stem = stems.get(int(found[1])) if found else None
    if stem is None:
        raise PlanError(f"{FILE.name}: {name!r} begins with the number of no lesson. Write '6', '6.1' or '6 start'.")
    there = sections.of(stem, root)
    if name == found[1]:
        return [(stem, there[key]) for key in sections.core(stem, root)]
    key = found[2] or name
    if key not in there:
        raise PlanError(f"{FILE.name}: {stem} has no section {key!r}. It has {', '.join(there)}.")
    return [(stem, there[key])]

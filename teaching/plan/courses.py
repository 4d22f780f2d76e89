"""Courses as lists of sections, from courses.toml, with the minutes that they add up to in a class."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from lessonkit import course
from teaching.plan import notes, sections
from teaching.plan.sections import PlanError

FILE = Path(__file__).with_name("courses.toml")
NAME = re.compile(r"(\d+)(?:\.\d+)?(?: (.+))?")
CUT = "in 60"  # "6 in 60" is lesson 6 without what its words call homework


@dataclass
class Session:
    """A session of a course. has: the minutes that it has. parts: [(stem, Section)], in order.

    home: {stem: the names of questions and exercises of these sections that are homework}.
    """

    name: str
    has: int
    parts: list
    home: dict = field(default_factory=dict)

    @property
    def minutes(self):
        """What its sections take in a class."""
        return sum(self.of(stem, section) for stem, section in self.parts)

    def of(self, stem, section):
        return sections.left(section, self.home.get(stem, ()))


@dataclass
class Course:
    name: str
    words: str
    sessions: list


def read(path=FILE):
    """Return the Courses of a file; PlanError names what no lesson has."""
    courses = []
    for one in tomllib.loads(path.read_text(encoding="utf-8"))["course"]:
        made = [_session(item) for item in one["session"]]
        courses.append(Course(one["name"], one["words"], made))
    return courses


def needs(path=FILE):
    """Return {(stem, key): [(stem, key)]}: which sections a section cannot do without, as the file says."""
    stored = tomllib.loads(path.read_text(encoding="utf-8"))["needs"]
    place = lambda name: [(stem, section.key) for stem, section in parts(name)][0]  # noqa: E731
    return {place(name): [place(other) for other in others] for name, others in stored.items()}


def parts(name):
    """Return [(stem, Section)] of a name: "6" is a lesson's core, "6.1" and "6 Take-away" are one section.

    "6 in 60" is the core without the sections that are homework where a session has 60 minutes.
    """
    found = NAME.fullmatch(name)
    stems = {lesson.number: stem for stem, lesson in course.lessons().items()}
    stem = stems.get(int(found[1])) if found else None
    if stem is None:
        raise PlanError(f"{FILE.name}: {name!r} begins with the number of no lesson. Write '6', '6.1' or '6 start'.")
    there = sections.of(stem)
    if name in (found[1], f"{found[1]} {CUT}"):
        home = notes.read(stem, there).home if name.endswith(CUT) else ()
        return [(stem, there[key]) for key in sections.core(stem) if key not in home]
    key = found[2] or name
    if key not in there:
        raise PlanError(f"{FILE.name}: {stem} has no section {key!r}. It has {', '.join(there)}.")
    return [(stem, there[key])]


def _session(item):
    held = [part for name in item["sections"] for part in parts(name)]
    home, asked = {}, list(item.get("homework", []))
    for stem in dict.fromkeys(stem for stem, _ in held):
        there = {section.key: section for other, section in held if other == stem}
        number = str(int(stem[:2]))
        if f"{number} {CUT}" in item["sections"]:
            home[stem] = notes.read(stem, sections.of(stem)).home
        else:
            mine = [name for name in asked if name.split()[-1].split(".")[0] == number]
            home[stem] = notes.homework(mine, stem, there, FILE.name)
            asked = [name for name in asked if name not in mine]
    if asked:
        raise PlanError(f"{FILE.name}: homework {asked[0]!r} is of no lesson of {item['name']!r}.")
    return Session(item["name"], item["minutes"], held, home)

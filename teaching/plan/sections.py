"""What an instructor plans with: the sections of lessons with their minutes, and courses as lists of them.

What is below a heading of the core belongs to it; optional parts are sections of their own.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from coursebuild import minutes
from lessonkit.course import Section
from teaching import material
from teaching.slides import deck

FILE = Path(__file__).with_name("courses.toml")
START = "start"  # the key of what comes before the first section
OPENING = "What breaks"
AFTER = ("On your own", "Further reading")  # of no use in a session, but for homework


class PlanError(Exception):
    """Words or a course that name what the lessons do not have: where, what, and what there is."""


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


lesson = cache(material.solved)


@cache
def of(stem):
    """Return {key: Section} of a lesson, in order; the first is called by what it does, not by the lesson's title.

    What a section of the core has that is optional, an exercise for example, is a Section after it, with its minutes.
    """
    sections, last = {}, None
    for section in lesson(stem).sections:
        if section.optional or section.level <= 2:
            heading = OPENING if section.level == 1 else section.heading
            last = sections.setdefault(section.key, replace(section, heading=heading, minutes=0.0, items=[]))
        aside = [] if section.optional else [item for item in section.items if "optional" in item.tags]
        last.minutes += section.minutes
        last.items += [item for item in section.items if item not in aside]
        if section.aside:
            name = ", ".join(item.name for item in named(aside)) or f"More on {section.title}"
            sections[name] = Section(f"{name} (optional)", 3, True, last.title, section.aside, items=aside)
    return sections


@cache
def slides(stem):
    """Return {key of a section, name of a question or exercise: [numbers of its slides]}, from the lesson's deck."""
    numbers = deck.numbers(material.read(stem))
    return numbers | {key: numbers.get(section.heading, numbers[""]) for key, section in of(stem).items()}


def named(items):
    """Return the questions and exercises of items, in the notebook's order."""
    return [item for item in items if hasattr(item, "name")]


def core(stem):
    """Return the Sections of a lesson's core, in order: all that a session goes through."""
    return [section for section in of(stem).values() if not section.optional and section.key not in AFTER]


def sittings(stem):
    """Return the Sections of a lesson's core, a list a sitting; one list, if the lesson has no place to stop."""
    return minutes.split(core(stem))


def courses():
    """Return the Courses of courses.toml. One without sessions has one of `minutes` for each lesson of the manifest."""
    known = map(lesson, material.stems())
    each = [{"name": one.label, "sections": [str(one.number)]} for one in known]
    return [
        Course(table["name"], table["words"], [_session(table | session) for session in table.get("session", each)])
        for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["course"]
    ]


def _session(table):
    return Session(table["name"], table["minutes"], [part for name in table["sections"] for part in parts(name)])


def parts(name):
    """Return [(stem, Section)] of a name: "6" is a lesson's core, "6 first" a sitting, "6.1" or "6 start" a section."""
    if name not in (there := _parts()):
        raise PlanError(f"{FILE.name}: no lesson has {name!r}. Write '6', '6 first', '6 second', '6 start' or '6.1'.")
    return there[name]


@cache
def _parts():
    found = {}
    for stem in material.every():
        number = int(stem[:2])
        there = {key: [section] for key, section in of(stem).items()} | {str(number): core(stem)}
        there[f"{number} {START}"] = there[START]
        there |= zip((f"{number} first", f"{number} second"), sittings(stem), strict=False)
        found |= {name: [(stem, section) for section in sections] for name, sections in there.items()}
    return found

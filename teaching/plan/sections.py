"""What a lesson consists of, as an instructor plans it: sections with their minutes, questions and exercises.

What is below a heading of the core belongs to it; optional parts are sections of their own.
"""

import re
from dataclasses import replace
from functools import cache

from coursebuild import minutes
from lessonkit.course import Section
from teaching import material
from teaching.slides import deck

START = "start"  # the key of what comes before the first section
OPENING = "What breaks"
AFTER = ("On your own", "Further reading")  # of no use in a session, but for homework


class PlanError(Exception):
    """Words or a course that name what the lessons do not have: where, what, and what there is."""


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


def seconds():
    """Return {number of a lesson: seconds of its Run All}, as the table of the README has them."""
    readme = (material.ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .* \| \d+ \| (\d+) \|$", readme, re.MULTILINE)
    return {int(number): int(took) for number, took in rows}

"""What a lesson consists of, as an instructor plans it: sections with their minutes, questions and exercises.

What is below a heading of the core belongs to it; optional parts are sections of their own.
"""

import re
from dataclasses import replace
from functools import cache

from coursebuild.minutes import MINUTES, STOP
from lessonkit import course
from lessonkit.course import Section
from teaching import material
from teaching.slides import deck

(LESSON_0,) = material.alone()  # it is in no manifest
SHEET = material.ROOT / "lessons_src/lessons" / LESSON_0 / "words.md"  # its run sheet, written by hand
ROW = re.compile(r"^\| \d:\d\d \| (.+?) \| (\d+) \|", re.MULTILINE)  # of that sheet: a section and its minutes
START = "start"  # the key of what comes before the first section
OPENING = "What breaks"
AFTER = ("On your own", "Further reading")  # of no use in a session, but for homework

# A reader answers a question in a minute (coursebuild/minutes.py). A class votes, two people say why, and the cell is
# run: about 90 s, an instructor's guess and not a measurement. All clocks of plans and courses take it from here.
CLASS_QUESTION = 1.5

# To play with something in the notebook, and to say what was seen: a guess as well; the model counts its words only.
CLASS_TRY = 2
FIND_OUT = re.compile(r"\*\*Find out:\*\* (.+)")  # a task of that kind


class PlanError(Exception):
    """Words or a course that name what the lessons do not have: where, what, and what there is."""


lesson = cache(course.solved)


@cache
def of(stem):
    """Return {key: Section} of a lesson, in order; the first is called by what it does, not by the lesson's title.

    Those of lesson 0 have the minutes of its run sheet, which are a class's, and no items.
    """
    if stem == LESSON_0:
        rows = ROW.findall(SHEET.read_text(encoding="utf-8"))
        return {section.key: section for section in (Section(name, 2, minutes=float(took)) for name, took in rows)}
    sections, last = {}, None
    for section in lesson(stem).sections:
        if section.optional or section.level <= 2:
            heading = OPENING if section.level == 1 else section.heading
            last = sections.setdefault(section.key, replace(section, heading=heading, minutes=0.0, items=[]))
        last.minutes += section.minutes
        last.items += section.items
    return sections


@cache
def slides(stem):
    """Return {key of a section, name of a question or exercise: [numbers of its slides]}, from the lesson's deck."""
    numbers = deck.numbers(material.read(stem))
    return numbers | {key: numbers.get(section.heading, numbers[""]) for key, section in of(stem).items()}


def asked(section):
    """Return the questions and exercises of a Section, in the notebook's order."""
    return [item for item in section.items if hasattr(item, "name")]


def in_class(section):
    """Return the minutes of a Section in a class: a reader's, and more for questions and for what is tried."""
    tried = sum(len(FIND_OUT.findall(text)) for text in section.texts)
    return section.minutes + len(section.questions) * (CLASS_QUESTION - MINUTES["questions"]) + tried * CLASS_TRY


def core(stem):
    """Return the Sections of a lesson's core, in order: all that a session goes through."""
    return [section for section in of(stem).values() if not section.optional and section.key not in AFTER]


def sittings(stem):
    """Return the Sections of the first sitting and those of the second; none, if the lesson has no place to stop."""
    parts = core(stem)
    ends = [at for at, part in enumerate(parts, 1) if any(STOP in text for text in part.texts)] or [len(parts)]
    return parts[: ends[0]], parts[ends[0] :]


def seconds():
    """Return {number of a lesson: seconds of its Run All}, as the table of the README has them."""
    rows = re.findall(
        r"^\| (\d+) \| .* \| \d+ \| (\d+) \|$", (material.ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    return {int(number): int(took) for number, took in rows}

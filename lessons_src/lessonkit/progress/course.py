"""The course as its learner notebooks show it: lessons in order, their printed minutes, exercises and their checks."""

import functools
import json
import re
from dataclasses import dataclass

from lessonkit._work import ROOT
from lessonkit.attempts import met

CARD = re.compile(r"^# Exercise (\d+\.\d+) · [●○]{5} · (\d+) min", re.MULTILINE)
CHECK = re.compile(r"^check\.(?!predict\(|recall\(|summary\()([a-z]\w*)\(", re.MULTILINE)
MINUTES = re.compile(r"\*About (\d+) min\b")
HEADING = re.compile(r"^(#+) (.*)", re.MULTILINE)


class DamagedCourse(Exception):
    """A notebook of the course itself that cannot be read: which one, and the way out."""


@dataclass(frozen=True)
class Exercise:
    """number: "3.1". minutes: on its card. optional: whether it lies in an optional part. checks: their names."""

    number: str
    minutes: int
    optional: bool
    checks: tuple


@dataclass(frozen=True)
class Lesson:
    """stem: "03_epsilon". title: "3 · Epsilon", up to a colon. minutes: of the core, as the lesson prints them.

    exercises: in order. items: the names of exercises and questions, in order: "Recall 3.1", "Exercise 3.1", ...
    """

    stem: str
    title: str
    minutes: int
    exercises: tuple
    items: tuple

    @property
    def core(self):
        return [exercise for exercise in self.exercises if not exercise.optional]

    @property
    def module(self):
        return self.stem[3:]


def text_of(cell):
    """Return the text of a cell of a stored notebook, which may be a list of lines; "" for what is neither."""
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


@functools.cache
def course(folder=ROOT / "notebooks"):
    """Return {stem: Lesson}, in order, of the lessons in a folder of untouched learner notebooks.

    Lesson 0 is none of them: it runs without the kit, so nothing in a saved copy says which exercise is right.
    """
    lessons = {}
    for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        if path.stem.startswith("00"):
            continue
        try:
            lessons[path.stem] = _lesson(path.stem, json.loads(path.read_text(encoding="utf-8"))["cells"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamagedCourse(f"{path} is damaged. Get it back with git, or delete it and build it anew.") from None
    return lessons


def _lesson(stem, cells):
    texts = [text_of(cell) for cell in cells if cell["cell_type"] == "markdown"]
    title = next((found[2].partition(":")[0] for found in map(HEADING.search, texts) if found), stem)
    minutes = next((int(found[1]) for found in map(MINUTES.search, texts) if found), 0)
    exercises, optional_from = {}, 0  # the level of the heading that began an optional part, 0 in the core
    card = None
    for cell in cells:
        text, tags = text_of(cell), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            for marks, heading in HEADING.findall(text):
                if optional_from and len(marks) <= optional_from:
                    optional_from = 0
                if "(optional" in heading:
                    optional_from = optional_from or len(marks)
            continue
        found = CARD.search(text)
        if found:
            card = found[1]
            optional = bool(optional_from) or "optional" in tags
            exercises.setdefault(card, Exercise(card, int(found[2]), optional, ()))
        if card and "check" in tags:
            old = exercises[card]
            exercises[card] = Exercise(card, old.minutes, old.optional, (*old.checks, *CHECK.findall(text)))
    items = tuple(item for cell in cells if cell["cell_type"] == "code" for item in met(text_of(cell)))
    return Lesson(stem, title, minutes, tuple(exercises.values()), tuple(dict.fromkeys(items)))

"""What a lesson consists of, as an instructor plans it: sections with their minutes, questions and exercises."""

import json
import re
from dataclasses import dataclass, field
from functools import cache

from coursebuild import minutes
from teaching import material

NUMBERED = re.compile(r"(\d+\.\d+) (.+)")
OPTIONAL = re.compile(r" \(optional[^)]*\)$")
START = "start"  # the key of what comes before the first section
AFTER = ("On your own", "Further reading")  # of no use in a session, but for homework

# A reader answers a question in 20 s (coursebuild/minutes.py). A class votes, two people say why, and the cell is run:
# about 90 s, an instructor's guess and not a measurement. All clocks of plans and courses take it from here.
CLASS_QUESTION = 1.5


@dataclass
class Section:
    """A section of a lesson. key: "6.1", "start", or its heading where that has no number. minutes: a reader's.

    items: its questions and exercises, in the notebook's order. What is below a heading of the core belongs to it;
    optional parts are sections of their own; under: the heading that such a part is found under.
    """

    key: str
    title: str
    minutes: float
    optional: bool
    heading: str = ""
    under: str = ""
    items: list = field(default_factory=list)

    @property
    def questions(self):
        return [item for item in self.items if isinstance(item, material.Question)]

    @property
    def exercises(self):
        return [item for item in self.items if isinstance(item, material.Exercise)]

    @property
    def in_class(self):
        """Its minutes in a class, which are those of a reader but for the questions."""
        return self.minutes + len(self.questions) * (CLASS_QUESTION - minutes.QUESTION)


class PlanError(Exception):
    """Words or a course that name what the lessons do not have: where, what, and what there is."""


@cache
def of(stem, root=material.ROOT):
    """Return {key: Section} of a built lesson, in order."""
    found, last, under = {}, None, ""
    for one in minutes.of(stem, root):
        key, title = named(one.heading)
        if one.level == 1:
            key, title = START, "What breaks, and what comes back from earlier lessons"
        if one.optional or one.level <= 2 or last is None:
            last = found.setdefault(key, Section(key, title, 0, one.optional, OPTIONAL.sub("", one.heading)))
            under = last.title if one.level <= 2 else under
            last.under = under if one.optional and one.level > 2 else ""
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
        elif isinstance(item, (material.Question, material.Exercise)):
            current.items.append(item)


def core(stem, root=material.ROOT):
    """Return the keys of a lesson's core, in order: all that a session goes through."""
    return [key for key, one in of(stem, root).items() if not one.optional and key not in AFTER]


def label(item):
    """Return the name of a question or an exercise: "Predict 6.2", "Exercise 6.2"."""
    return f"{getattr(item, 'kind', 'Exercise')} {item.number}"


def cost(item):
    """Return the minutes that a question or an exercise takes in a class."""
    return CLASS_QUESTION if isinstance(item, material.Question) else minutes.EXERCISE * item.minutes


def left(section, home=()):
    """Return the minutes of a section in a class if what home names (its key, or items of it) is left out."""
    if section.key in home:
        return 0.0
    return section.in_class - sum(cost(item) for item in section.items if label(item) in home)


def printed(stem, root=material.ROOT):
    """Return the minutes that the lesson itself prints, a reader's: the README has the same."""
    cells = json.loads((root / f"notebooks/{stem}.ipynb").read_text(encoding="utf-8"))["cells"]
    return int(minutes.PRINTED.search("\n".join("".join(cell["source"]) for cell in cells))[1])


def seconds(root=material.ROOT):
    """Return {number of a lesson: seconds of its Run All}, as the table of the README has them."""
    rows = re.findall(r"^\| (\d+) \| .* \| \d+ \| (\d+) \|$", (root / "README.md").read_text(encoding="utf-8"), re.M)
    return {int(number): int(found) for number, found in rows}


@cache
def misconceptions(root=material.ROOT):
    """Return {key of a section: what holds}, from the index at the end of lesson 14."""
    found = {}
    for item in material.read(next(one for one in material.stems(root) if one.startswith("14_")), root).items:
        if isinstance(item, material.Text) and "### Index of misconceptions" in item.markdown:
            table = item.markdown.partition("### Index of misconceptions")[2]
            for holds, key in re.findall(r"^\| .* \| (.+) \| \[(\d+\.\d+)\]", table, re.MULTILINE):
                found.setdefault(key, []).append(holds)
    return found

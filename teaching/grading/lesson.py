"""What a lesson asks: its exercises, their points and checks, and the statements of the lesson that each one needs.

All of it is read from the course's own two editions in notebooks/, so nothing about a lesson is written here.
"""

import hashlib
import json
import re
from dataclasses import dataclass

from coursebuild.source import ROOT
from lessonkit.program import names, needed, statements

CARD = re.compile(r"^#[ \t]*Exercise[ \t]+(\d+\.\d+)\b", re.MULTILINE)
DIFFICULTY = re.compile(r"^# Exercise \d+\.\d+ · ([●○]{5})", re.MULTILINE)
CALL = re.compile(r"^check\.([a-z]\w*)\((.+)\)$", re.MULTILINE)


class GradingError(Exception):
    """Something that stops the grading: what was found, what was expected, and the way out."""


@dataclass(frozen=True)
class Exercise:
    """One exercise. number: "6.1". points: its ●. at: how many statements of the lesson stand before it.

    blank: the cell as the learner gets it. answer: the cell with the course's answer. checks: ((name of a check, the
    expression that it is given), ...), in order.
    """

    number: str
    cell: str
    points: int
    optional: bool
    at: int
    blank: str
    answer: str
    checks: tuple

    @property
    def names(self):
        """What the course's answer binds."""
        return names(self.answer)[1]

    @property
    def title(self):
        """What its checks are given: "channel_stats", or several names with commas."""
        return ", ".join(expression for _, expression in self.checks)


@dataclass(frozen=True)
class Lesson:
    """A lesson as the grader needs it. stem: "06_batchnorm". digest: of all that a verdict depends on in it."""

    stem: str
    exercises: dict
    statements: tuple
    texts: frozenset
    digest: str

    @property
    def number(self):
        return int(self.stem[:2])

    @property
    def imports(self):
        """The texts of the statements that import something."""
        return [statement.text for statement in self.statements if statement.imports]

    def context(self, exercise, wanted):
        """Return the texts of the lesson's statements before an exercise that bind what is wanted, in order.

        wanted: names. What these statements read is found in turn. The course's answers to earlier exercises are
        statements like all others, so what builds on them gets the course's. A name that nothing binds is left out.
        """
        before = self.statements[: exercise.at]
        order = needed(before, *wanted)[0]
        return [statement.text for statement in before if statement in order]


def find(name, root=ROOT):
    """Return the stem of a lesson that is named "6", "06" or "06_batchnorm"."""
    stems = sorted(path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    fitting = [s for s in stems if name == s or name.isdigit() and int(name) == int(s[:2])]
    if not fitting:
        raise GradingError(f"no lesson is called {name!r}. There are {', '.join(stems)}. Say LESSON=06.")
    return fitting[0]


def read(stem, root=ROOT):
    """Return the Lesson of a stem, from notebooks/ and notebooks/solutions/."""
    learner, solutions = (_code(root / folder / f"{stem}.ipynb") for folder in ("notebooks", "notebooks/solutions"))
    blanks = {cell["id"]: _text(cell) for cell in learner}
    program, exercises, current = [], {}, None
    for cell in solutions:
        tags, text = cell["metadata"].get("tags", []), _text(cell)
        if "exercise" in tags:
            number, points = CARD.search(text)[1], DIFFICULTY.search(text)[1].count("●")
            if number in exercises:
                raise GradingError(f"{stem} has two cells with the card of exercise {number}. Join them.")
            current = Exercise(
                number, cell["id"], points, "optional" in tags, len(program), blanks[cell["id"]], text, ()
            )
        elif "check" in tags and current:
            called = CALL.search(text)
            if not called:
                raise GradingError(f"{stem}, exercise {current.number}: {text!r} is no check.NAME(answer).")
            current = Exercise(**vars(current) | {"checks": (*current.checks, called.groups())})
        if current:
            exercises[current.number] = current
        if not {"check", "predict"} & set(tags):
            program += statements(text)
    if not exercises:
        raise GradingError(f"{stem} has no exercises, so there is nothing to grade.")
    digest = hashlib.sha256(json.dumps([_text(cell) for cell in solutions]).encode())
    for path in sorted((root / "lessons_src/lessonkit").rglob("*.py")):  # the checks
        digest.update(path.read_bytes())
    known = frozenset(bare(text) for text in [*blanks.values(), *map(_text, solutions)])
    return Lesson(stem, exercises, tuple(program), known, digest.hexdigest()[:16])


def bare(text):
    """Return a cell's text without what an editor may change by itself: blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _code(path):
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise GradingError(f"{path} cannot be read ({error}). Build it: make notebooks.") from None
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _text(cell):
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])

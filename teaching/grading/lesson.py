"""What a lesson asks: its exercises, as the course knows them, and the statements of the lesson that each one needs."""

import ast
import hashlib
from dataclasses import dataclass
from functools import cached_property

from coursebuild.editions import FOLDED
from coursebuild.source import ROOT
from coursebuild.syntax import names
from lessonkit import course


class GradingError(Exception):
    """Something that stops the grading: what was found, what was expected, and the way out."""


@dataclass(frozen=True)
class Statement:
    """A statement at the top level of a lesson. cell: the id of its cell."""

    cell: str
    text: str

    @cached_property
    def _names(self):
        return names(self.text)

    @property
    def reads(self):
        return self._names[0]

    @property
    def binds(self):
        return self._names[1]


@dataclass(frozen=True)
class Assignment:
    """A lesson as the grader needs it. exercises: {number: Exercise}. digest: of all that a verdict depends on in it.

    statements: of all cells, with the course's answers. texts: of the cells that are the course's, in both editions.
    """

    lesson: course.Lesson
    exercises: dict
    statements: list
    texts: set
    digest: str

    @property
    def stem(self):
        return self.lesson.stem

    @property
    def number(self):
        return self.lesson.number

    @property
    def imports(self):
        """The texts of the statements that import something."""
        return [statement.text for statement in self.statements if statement.text.startswith(("import ", "from "))]

    def before(self, exercise):
        """Return the statements of the lesson that stand before an exercise."""
        cells = [statement.cell for statement in self.statements]
        return self.statements[: cells.index(exercise.id)]

    def context(self, exercise, wanted):
        """Return the texts of the lesson's statements before an exercise that bind what is wanted, in order.

        wanted: names. What these statements read is found in turn. The course's answers to earlier exercises are
        statements like all others, so what builds on them gets the course's. A name that nothing binds is left out.
        """
        before = self.before(exercise)
        needed, open_ = set(), [(name, len(before)) for name in wanted]
        while open_:
            name, end = open_.pop()
            binding = [at for at, statement in enumerate(before) if name in statement.binds]
            # the last one before it is read; a function may read what is bound only after its definition
            at = next((at for at in reversed(binding) if at < end), binding[0] if binding else None)
            if at is not None and at not in needed:
                needed.add(at)
                open_ += [(other, at) for other in before[at].reads]
        return [before[at].text for at in sorted(needed)]


def title(exercise):
    """Return what the checks of an Exercise are given: "channel_stats", or several names with commas."""
    return ", ".join(check.argument for check in exercise.checks)


def find(name):
    """Return the stem of a lesson that is named "6", "06" or "06_batchnorm"."""
    stems = list(course.lessons())
    fitting = [s for s in stems if name == s or name.isdigit() and int(name) == int(s[:2])]
    if not fitting:
        raise GradingError(f"no lesson is called {name!r}. There are {', '.join(stems)}. Say LESSON=06.")
    return fitting[0]


def read(stem):
    """Return the Assignment of a stem."""
    try:
        lesson = course.solved(stem)
    except course.DamagedCourse as error:
        raise GradingError(str(error)) from None
    exercises = {exercise.number: exercise for exercise in lesson.exercises}
    if not exercises:
        raise GradingError(f"{stem} has no exercises, so there is nothing to grade.")
    statements = [Statement(cell.id, text) for cell in lesson.code for text in _split(cell.solved)]
    checks = [check for exercise in lesson.exercises for check in exercise.checks]
    folded = [cell for cell in lesson.code if isinstance(cell, course.Code) and cell.folded]
    texts = {bare(text) for cell in [*lesson.code, *checks] for text in (cell.source, cell.solved)}
    texts |= {bare(f"{FOLDED}\n{cell.source}") for cell in folded}
    digest = hashlib.sha256("\0".join(statement.text for statement in statements).encode())
    for path in sorted((ROOT / "lessons_src/lessonkit").rglob("*.py")):  # the checks
        digest.update(path.read_bytes())
    return Assignment(lesson, exercises, statements, texts, digest.hexdigest()[:16])


def bare(text):
    """Return a cell's text without what an editor may change by itself: blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _split(text):
    """Return the texts of a cell's statements, decorators included."""
    lines = text.split("\n")
    for node in ast.parse(text).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        yield "\n".join(lines[first - 1 : node.end_lineno])

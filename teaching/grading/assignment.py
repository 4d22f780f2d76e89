"""What a lesson asks: its exercises, as the course knows them, and the statements of the lesson that each one needs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from lessonkit import course
from lessonkit.program import needed, statements

ROOT = Path(__file__).resolve().parents[2]


class GradingError(Exception):
    """Something that stops the grading: what was found, what was expected, and the way out."""


@dataclass(frozen=True)
class Assignment:
    """A lesson as the grader needs it. stem, number: as of the course's Lesson.

    exercises: {number: Exercise}. statements: of all cells, with the course's answers. starts: {id of a cell: how many
    statements stand before it}. digest: of all that a verdict depends on.
    """

    stem: str
    number: int
    exercises: dict
    statements: list
    starts: dict
    digest: str

    def before(self, exercise):
        """Return the statements of the lesson that stand before an exercise."""
        return self.statements[: self.starts[exercise.id]]

    def context(self, exercise, wanted):
        """Return the texts of the lesson's statements before an exercise that bind what is wanted, in order.

        wanted: names. What these statements read is found in turn. The course's answers to earlier exercises are
        statements like all others, so what builds on them gets the course's. A name that nothing binds is left out.
        """
        before = self.before(exercise)
        order = needed(before, *wanted)[0]
        return [statement.text for statement in before if statement in order]


def find(name):
    """Return the stem of a lesson that is named by its number, with or without a zero before it, or by its stem."""
    stems = list(course.lessons())
    fitting = [s for s in stems if name == s or name.isdigit() and int(name) == int(s[:2])]
    if not fitting:
        raise GradingError(f"no lesson is called {name!r}. There are {', '.join(stems)}. Say LESSON={stems[0][:2]}.")
    return fitting[0]


def read(stem):
    """Return the Assignment of a stem."""
    lesson = course.solved(stem)
    program, starts = [], {}
    for cell in lesson.code:
        starts[cell.id] = len(program)
        again = set()  # what the second sitting's first cell brings back: the first one's cells bind it
        if "way-back" in getattr(cell, "tags", ()):
            again = {name for statement in program for name in statement.binds}
        program += [s for s in statements(cell.solved) if not s.binds or not s.binds <= again]
    exercises = {exercise.number: exercise for exercise in lesson.exercises}
    digest = hashlib.sha256("\0".join(statement.text for statement in program).encode())
    kit = sorted((ROOT / "lessons_src/lessonkit").rglob("*.py"))
    for path in [*kit, ROOT / f"lessons_src/lessons/{stem}/checks.py"]:
        digest.update(path.read_bytes())
    return Assignment(stem, lesson.number, exercises, program, starts, digest.hexdigest()[:16])

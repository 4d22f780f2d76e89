"""A lesson's source as the builder holds it: its cells, where they stand, and how it stops when it is wrong."""

from dataclasses import dataclass
from pathlib import Path

from lessonkit.course import REFERENCE, Question


class LessonError(Exception):
    """A lesson that cannot be built: where it is wrong, what was expected, and the way out.

    stems: the lessons that are stopped by it, "02_statistics"; none if it is no lesson's fault.
    """

    def __init__(self, message, stems=()):
        super().__init__(message)
        self.stems = set(stems)


@dataclass
class Cell:
    """One cell of a notebook to be. line: where it starts in the lesson's file, counted from 1.

    question: the Question with which the text of a Markdown cell ends.
    """

    type: str
    source: str
    tags: list
    id: str
    line: int
    learner: str | None = None  # the learner edition's source, where it is not made by blanking the solution
    question: Question | None = None


@dataclass
class Source:
    """A lesson's room. path: its folder, which holds all of it. root: the folder that holds lessons_src and data."""

    path: Path
    cells: list

    @property
    def file(self):
        """The text, code and exercises of the lesson, in jupytext's py:percent form."""
        return self.path / "lesson.py"

    @property
    def stem(self):
        return self.path.stem

    @property
    def number(self):
        return self.stem[:2]

    @property
    def module(self):
        """What its module of fromscratch and its module of checks are called: the lesson's name without the number."""
        return self.stem[3:]

    @property
    def alone(self):
        """Whether the lesson runs without lessonkit: it defines YourTurn itself, above its first exercise."""
        return any("class YourTurn(" in cell.source for cell in self.cells)

    @property
    def reference(self):
        """Whether it is there to look things up: no lesson, so it has no minutes, and leads nowhere."""
        return self.module == REFERENCE

    @property
    def root(self):
        return self.path.parents[2]

    def place(self, line):
        """Return "lessons_src/lessons/02_statistics/lesson.py:7", where an editor can jump to."""
        return f"{self.file.relative_to(self.root).as_posix()}:{line}"

    def fail(self, line, message, *others):
        """Stop this lesson, and the others that have a part in what is wrong."""
        raise LessonError(f"{self.place(line)}: {message}", [self.stem, *(other.stem for other in others)])

    def code(self, tag=None):
        return [cell for cell in self.cells if cell.type == "code" and (tag is None or tag in cell.tags)]

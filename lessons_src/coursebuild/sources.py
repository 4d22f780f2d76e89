"""The sources of all lessons together. One that is broken is named and set aside, and the others go on."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from coursebuild import export, records
from coursebuild.source import ROOT, LessonError, read


@dataclass
class Sources:
    """The sources of a folder. root: it holds lessons_src, notebooks and data. paths: of all sources, in order.

    lessons: those that nothing is wrong with so far. errors: what is wrong with the others, a LessonError each.
    package: {file name: text} of fromscratch.
    """

    root: Path
    paths: list
    lessons: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    package: dict = field(default_factory=dict)

    @property
    def stopped(self):
        """The stems of the lessons that are broken."""
        good = {lesson.stem for lesson in self.lessons}
        return [path.stem for path in self.paths if path.stem not in good]

    @contextlib.contextmanager
    def stopping(self):
        """Keep a LessonError that is raised in here, and set the lessons aside that it stops."""
        try:
            yield
        except LessonError as error:
            self.errors.append(error)
            self.lessons = [lesson for lesson in self.lessons if lesson.stem not in error.stems]

    def stems(self, names):
        """Return the stems of the lessons that are named, by 02 or 02_statistics."""
        known = {name: path.stem for path in self.paths for name in (path.stem, path.stem[:2])}
        for name in names:
            if name not in known:
                stems = ", ".join(path.stem for path in self.paths)
                raise LessonError(f"no lesson is called {name!r}. There are {stems}.")
        return [known[name] for name in names]


def load(root=ROOT):
    """Return the Sources of a folder: every lesson read, and checked by itself and against the others."""
    course = Sources(root, sorted(path.parent for path in (root / "lessons_src/lessons").glob("*/lesson.py")))
    for path in course.paths:
        with course.stopping():
            course.lessons.append(read(path))
    for what, tell in (("number", lambda source: source.number), ("name", lambda source: source.module)):
        first = {}
        for lesson in list(course.lessons):
            other = first.setdefault(tell(lesson), lesson)
            with course.stopping():
                if other is not lesson:
                    lesson.fail(
                        1, f"{other.path.name} has the {what} {tell(lesson)} already. Rename one of them.", other
                    )
    for lesson in list(course.lessons):
        with course.stopping():
            records.recorded(lesson)
    course.package = export.package(course)
    return course

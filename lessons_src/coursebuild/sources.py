"""All lessons together, and what they export to each other. One that is broken is set aside, and the others go on.

The export cells of a lesson are a module of the package fromscratch, called as the lesson.
"""

import ast
import builtins
import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from coursebuild import frame
from coursebuild.source import OWN, ROOT, LessonError, blank, imports, parse, rooms
from lessonkit.course import CARD
from lessonkit.program import modules, names

FOLDER = "lessons_src/fromscratch"
FORBIDDEN = re.compile(r"(matplotlib|lessonkit)\b")  # in export cells
DATA = "from lessonkit import data"  # allowed: a model's shipped weights are found from there
PACKAGE = '''"""What the course has built so far: its own solutions, not what a learner typed.

Made by coursebuild from the lessons' export cells; a name is loaded when it is first asked for.
"""

import importlib

_HOME = {
%s}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"fromscratch has no {name!r}; the lessons export: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return __all__
'''


@dataclass
class Sources:
    """The sources of a folder. root: it holds lessons_src, notebooks and data. paths: of all rooms, in order.

    lessons: those that are right so far. errors: of the others. package: {file name: text} of fromscratch.
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
        return [path.name for path in self.paths if path.name not in good]

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
        known = {name: path.name for path in self.paths for name in (path.name, path.name[:2])}
        for name in names:
            if name not in known:
                stems = ", ".join(path.name for path in self.paths)
                raise LessonError(f"no lesson is called {name!r}. There are {stems}.")
        return [known[name] for name in names]


def load(root=ROOT):
    """Return the Sources of a folder: every lesson read, and checked by itself and against the others."""
    course = Sources(root, rooms(root))
    for path in course.paths:
        with course.stopping():
            course.lessons.append(frame.read(path))
    course.package = _package(course)
    return course


# ------------------------------------------------------------------------------------------------ what a lesson exports


def exported(lesson):
    """Return (module text, {public name: line of its cell}) of a lesson's export cells; ("", {}) if it has none."""
    home, wanted, body = {}, {}, []
    for cell in lesson.exports():
        parse(lesson, cell)
        body.append(CARD.sub("", blank(lesson, cell)[1]).strip())
        read_here, bound_here = names(body[-1])
        wanted |= {name: cell.line for name in read_here if name not in wanted}
        home |= {name: cell.line for name in bound_here if name not in home}
    if not body:
        return "", {}
    public = {name: home[name] for name in sorted(home) if not name.startswith("_")}
    head = (
        f'"""What lesson {int(lesson.number)} builds: {", ".join(public)}.\n\n'
        f'Made by coursebuild from lessons_src/lessons/{lesson.stem}/lesson.py: edit the lesson, not this file.\n"""'
    )
    needed = _imported(lesson, {name: line for name, line in wanted.items() if name not in home})
    inside = [ast.unparse(node) for node in ast.walk(ast.parse("\n".join(body))) if modules(node)]
    for statement in [*needed, *inside]:
        if FORBIDDEN.match(statement.split()[1]) and statement != DATA:
            lesson.fail(min(home.values()), f"the exports need '{statement}'. Do without: torch only.")
    return "\n\n\n".join(["\n\n".join(filter(None, [head, "\n".join(needed)])), *body]) + "\n", public


def _imported(lesson, wanted):
    """Return the import statements that bind what the export cells read and do not bind: {name: line of a cell}."""
    known = {name: text.replace(OWN, "from fromscratch import ", 1) for name, (text, _) in imports(lesson).items()}
    statements = []
    for name, line in sorted(wanted.items()):
        if name not in known:
            if hasattr(builtins, name):
                continue
            lesson.fail(
                line,
                f"the export cell reads {name!r}, which no import statement and no export cell of this lesson binds. "
                "Import it at the top of the lesson, or export it too.",
            )
        statements.append(known[name])
    return sorted(statements)


# ------------------------------------------------------------------------------------------------ what they all export


def _package(course):
    """Return {file name: text} of the package fromscratch; {} while a lesson is broken.

    Then the package stays as it is, and the other lessons build on that.
    """
    first, texts = {}, {}  # first: {name: (the lesson that exports it, its line)}
    for lesson in list(course.lessons):
        with course.stopping():
            texts[f"{lesson.module}.py"], public = exported(lesson)
            for name, line in public.items():
                other, there = first.setdefault(name, (lesson, line))
                if other is not lesson:
                    taken = f"{name!r} is exported by lesson {other.number} already ({other.place(there)})."
                    lesson.fail(line, f"{taken} Rename one of them.", other)
    home, whole = {name: lesson.stem for name, (lesson, _) in first.items()}, not course.stopped
    for lesson in list(course.lessons):
        with course.stopping():
            _refuse_imports(lesson, home, whole)
    if course.stopped:
        return {}
    rows = sorted((stem, name) for name, stem in home.items())
    table = "".join(f'    "{name}": "{stem[3:]}",\n' for stem, name in rows)
    return {name: text for name, text in texts.items() if text} | {"__init__.py": PACKAGE % table}


def _refuse_imports(lesson, home, whole):
    """Refuse an import from fromscratch or lessonkit.mine that hides what it takes, or is of no earlier lesson.

    home: {name: stem of the lesson that exports it}. whole: no lesson is broken, whose names would be missing there.
    """
    for statement, line in imports(lesson).values():
        if not re.match(r"(?:import|from) (?:fromscratch|lessonkit\.mine)\b|from lessonkit import mine\b", statement):
            continue
        _, package, _, name, *_ = [*statement.split(), "", ""]
        if package not in ("fromscratch", "lessonkit.mine") or statement.startswith("import"):
            lesson.fail(line, f"'{statement}' hides what it uses. Write 'from fromscratch import' and the names.")
        if name and name not in home and whole:
            lesson.fail(line, f"no lesson exports {name!r}. Define it here, or export it in an earlier lesson.")
        if home.get(name, "")[:2] >= lesson.number:
            lesson.fail(
                line,
                f"{name!r} is exported by lesson {home[name][:2]}, which is not an earlier one. "
                "Define it here, or export it earlier.",
            )

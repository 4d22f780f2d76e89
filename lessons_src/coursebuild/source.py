"""One lesson's source: its cells, where they stand, and how it stops when it is wrong, with the line and the way out.

A source is a Python file in jupytext's py:percent form, lessons_src/lessons/NN_name/lesson.py.
"""

import ast
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import jupytext

from lessonkit.course import CARD, REFERENCE, Question
from lessonkit.program import names, statements

ROOT = Path(__file__).resolve().parents[2]
TAGS = {"exercise", "check", "export", "timed", "raises-exception", "way-back", "nbval-ignore-output"}  # of code
TAGS |= {REFERENCE, "trains"}  # of a lesson's first cell, for the whole
TAGS |= {"optional", "hide-input", "slide", "no-slide", "no-site"}
BEHIND = "behind"  # of code that stands in the lesson's module of fromscratch alone, and in no notebook
TAGS |= {BEHIND}
MARK = {  # begins and ends a solution, alone on its line
    "code": re.compile(r"( *)### (BEGIN|END) SOLUTION *"),
    "markdown": re.compile(r"( *)<!-- (BEGIN|END) SOLUTION --> *"),
}
MISSPELT = re.compile(r"(?<![a-z])(begin|end)[\s_-]*solution|^\s*(###|<!--)\s*(begin|end)\b", re.IGNORECASE)
CELL = re.compile(r'# %%( \[markdown\])?( tags=\[(?P<tags>"[^"]*"(, "[^"]*")*)\])?( id="[\w-]{1,64}")?')
HEAD = re.compile(r"# %% \[markdown\](.*)\n# # (.*)")
OWN = "from lessonkit.mine import "  # the learner's own layer in a lesson; fromscratch holds the course's


class LessonError(Exception):
    """A lesson that cannot be built: where it is wrong, what was expected, and the way out.

    stems: the lessons that are stopped by it, "02_statistics"; none if it is no lesson's fault.
    """

    def __init__(self, message, stems=()):
        super().__init__(message)
        self.stems = set(stems)


@dataclass
class Cell:
    """One cell of a notebook to be. line: where it starts in the lesson's file.

    learner: the learner edition's source, where it is not made by blanking the solution. question: the Question with
    which the text of a Markdown cell ends, and asked: these last words. made: by coursebuild.
    """

    type: str
    source: str
    tags: list
    id: str
    line: int
    learner: str | None = None
    question: Question | None = None
    asked: str = ""
    made: bool = False


@dataclass
class Source:
    """A lesson. path: its folder, its room. root: the folder that holds lessons_src and data.

    cells: of its notebooks. behind: code that they import from the lesson's module. records: those that its text takes
    numbers from.
    """

    path: Path
    cells: list
    behind: list = field(default_factory=list)
    records: set = field(default_factory=set)

    @property
    def file(self):
        return self.path / "lesson.py"

    @property
    def stem(self):
        return self.path.stem

    @property
    def number(self):
        return self.stem[:2]

    @property
    def module(self):
        """What its module of fromscratch is called: the lesson's name without the number."""
        return self.stem[3:]

    @property
    def alone(self):
        """Whether the lesson runs without lessonkit: it defines YourTurn itself, above its first exercise."""
        return any("class YourTurn(" in cell.source for cell in self.cells)

    @property
    def reference(self):
        """Whether it is there to look things up, and no lesson."""
        return REFERENCE in self.cells[0].tags

    @property
    def trains(self):
        """Whether it trains while one watches, and may take longer."""
        return "trains" in self.cells[0].tags

    @property
    def root(self):
        return self.path.parents[2]

    def notebook(self, edition):
        """Return the path of a notebook: of the edition "learner" or "solutions"."""
        folder = self.root / "notebooks"
        return (folder / "solutions" if edition == "solutions" else folder) / f"{self.stem}.ipynb"

    def place(self, line):
        """Return "lessons_src/lessons/02_statistics/lesson.py:7"."""
        return f"{self.file.relative_to(self.root).as_posix()}:{line}"

    def fail(self, line, message, *others):
        """Stop this lesson, and the others that have a part in what is wrong."""
        raise LessonError(f"{self.place(line)}: {message}", [self.stem, *(other.stem for other in others)])

    def code(self, tag=None):
        return [cell for cell in self.cells if cell.type == "code" and (tag is None or tag in cell.tags)]

    def exports(self):
        """Return the cells that its module of fromscratch is made of: those of its notebooks, then those behind."""
        return self.code("export") + [cell for cell in self.behind if "export" in cell.tags]


def rooms(root=ROOT):
    """Return the folders of all lessons, in order."""
    return sorted(path.parent for path in (root / "lessons_src/lessons").glob("*/lesson.py"))


def head(room):
    """Return (title, whether it is the reference) of a lesson, from its first two lines alone; ("", False) of none."""
    found = HEAD.match((room / "lesson.py").read_text(encoding="utf-8", errors="replace"))
    return (found[2], f'"{REFERENCE}"' in found[1]) if found else ("", False)


def written(path):
    """Return a lesson with its cells as they are written, or refuse it."""
    lesson = Source(path, [])
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", path.name):
        lesson.fail(1, "a lesson's folder is called like 02_statistics. Rename it.")
    text = lesson.file.read_text(encoding="utf-8")
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines, 1) if re.match(r"#\s*%%", line)]
    for number in starts:
        _refuse_start(lesson, number, lines[number - 1].rstrip())
    if starts[:1] != [1]:
        lesson.fail(1, "a lesson starts with '# %% [markdown]' on its first line. Remove what stands before it.")
    notebook = jupytext.reads(text, fmt="py:percent")
    if len(notebook.cells) != len(starts):
        lesson.fail(
            1,
            f"{len(starts)} '# %%' lines, but jupytext sees {len(notebook.cells)} cells. "
            "Look for a '# %%' that is indented or inside a string, or for '# In[1]:'.",
        )
    for raw, line in zip(notebook.cells, starts, strict=True):
        cell = _cell(lesson, raw, line)
        taken = next((other.line for other in lesson.cells if other.id == cell.id), None)
        if taken:
            lesson.fail(line, f"the id {cell.id!r} is taken by the cell at line {taken}. Give it another one.")
        lesson.cells.append(cell)
    lesson.behind = lesson.code(BEHIND)
    lesson.cells = [cell for cell in lesson.cells if cell not in lesson.behind]
    first = lesson.cells[0]
    if first.type != "markdown" or not first.source.startswith(f"# {int(lesson.number)} · "):
        title = f"# {int(lesson.number)} · "
        lesson.fail(1, f"the first cell is Markdown and starts with the title. Write '{title}...' there.")
    return lesson


def _refuse_start(lesson, number, line):
    """Refuse a line that begins a cell and is not in our form, or has wrong tags."""
    marker = CELL.fullmatch(line)
    if not marker:
        lesson.fail(
            number,
            f"{line!r} is not how a cell begins. Write '# %%' or '# %% [markdown]' and, where they are "
            'needed, tags=["check"] and then id="ex-3-1".',
        )
    for tag in re.findall('"([^"]*)"', marker["tags"] or ""):
        if tag not in TAGS:
            lesson.fail(number, f"unknown tag {tag!r}, expected one of {', '.join(sorted(TAGS))}.")


def _cell(lesson, raw, line):
    """Return the Cell of one that jupytext has read, or refuse it."""
    source, tags = raw.source.rstrip("\n"), raw.metadata.get("tags", [])
    if not source.strip():
        lesson.fail(line, "an empty cell. Fill it or remove it.")
    card = CARD.search(source)
    if "exercise" in tags and not (card and card[3]):
        lesson.fail(line, "an exercise without its card. Add it on a line: '# Exercise 3.1 · ●●○○○ · 5 min'.")
    made = hashlib.sha256("\0".join([lesson.stem, raw.cell_type, source]).encode()).hexdigest()[:10]
    repeats = sum(cell.id == made or cell.id.startswith(made + "-") for cell in lesson.cells)
    ident = raw.metadata.get("id") or (f"{made}-{repeats + 1}" if repeats else made)
    cell = Cell(raw.cell_type, source, list(tags), ident, line)
    marked = len(blank(lesson, cell)[1].splitlines()) != len(source.splitlines())
    if marked and cell.type == "code" and "exercise" not in tags:
        lesson.fail(line, 'a solution stands between marks, but the cell has no tag. Add tags=["exercise"].')
    if "exercise" in tags and not marked:
        lesson.fail(line, "an exercise without a solution. Put ### BEGIN SOLUTION and ### END SOLUTION round it.")
    return cell


def blank(lesson, cell):
    """Return (learner's source, solutions' source) of a cell: marked regions replaced, or only the marks removed."""
    if cell.learner is not None:
        return cell.learner, cell.source
    learner, solution, opened = [], [], None  # opened: (indentation, line, number of lines before) of a region
    for number, line in enumerate(cell.source.splitlines(), cell.line + 1):
        mark = MARK[cell.type].fullmatch(line)
        if mark and mark[2] == "BEGIN":
            if opened:
                lesson.fail(number, f"BEGIN SOLUTION inside the solution that begins at line {opened[1]}. End that.")
            opened = mark[1], number, len(solution)
        elif mark:
            if not opened:
                lesson.fail(number, "END SOLUTION without a BEGIN SOLUTION before it. Add it, or remove this line.")
            if mark[1] != opened[0]:
                lesson.fail(number, f"END SOLUTION is indented unlike BEGIN SOLUTION at line {opened[1]}. Align it.")
            learner.append(_turn(lesson, cell, opened[0], solution[opened[2] :]))
            opened = None
        elif MISSPELT.search(line):
            form = "### BEGIN SOLUTION" if cell.type == "code" else "<!-- BEGIN SOLUTION -->"
            lesson.fail(number, f"a malformed mark: {line.strip()!r}. Write it alone on its line, as '{form}'.")
        else:
            solution.append(line)
            learner += [] if opened else [line]
    if opened:
        lesson.fail(opened[1], "BEGIN SOLUTION is never closed. Add END SOLUTION with the same indentation.")
    return "\n".join(learner), "\n".join(solution)


def _turn(lesson, cell, indent, answer):
    """Return what stands in the learner edition for a region; it says which names an answer at top level binds."""
    if cell.type == "markdown":
        return f"{indent}*Your answer:*"
    number = CARD.search(cell.source)
    bound = [] if indent else list(dict.fromkeys(re.findall(r"^(\w+) = ", "\n".join(answer), re.MULTILINE)))
    wanted = f": {', '.join(f'{name} = ...' for name in bound)}" if bound else ""
    error = "YourTurn" if lesson.alone else "check.YourTurn"
    return f'{indent}raise {error}("{number[1]}: replace this line by your answer{wanted}")' if number else ""


def parse(lesson, cell):
    """Return the statements of a code cell; what Python cannot read stops the lesson."""
    try:
        return ast.parse(cell.source).body
    except SyntaxError as error:
        lesson.fail(
            cell.line + (error.lineno or 1),
            f"Python cannot read this line: {error.msg}. Mend it; %magics and !commands have no place in a lesson.",
        )


def imports(lesson):
    """Return {name: (import statement that binds just it, its line)} of a lesson's top-level imports.

    Left out is what it takes from its own module: its way-back cell, or of what stands behind its notebooks any cell.
    """
    exported, behind = (
        set().union(*(names(cell.source)[1] for cell in lesson.exports() if parse(lesson, cell) and tag in cell.tags))
        for tag in ("export", BEHIND)
    )
    own = (f"from fromscratch.{lesson.module} import ", OWN)
    return {
        min(statement.binds, default="*"): (statement.text, cell.line + statement.node.lineno)
        for cell in lesson.code() + lesson.behind
        if parse(lesson, cell)
        for statement in statements(cell.source)
        if statement.imports
        and not (
            statement.text.startswith(own) and statement.binds <= (exported if "way-back" in cell.tags else behind)
        )
    }


def environment(root):
    """Return the environment of a process that uses this course's own lessonkit and fromscratch, and no learner's."""
    path = [str(root / "lessons_src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "LESSON_WORK": "off"}

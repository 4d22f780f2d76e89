"""What a learner handed in: the answers of one lesson, taken from a notebook in whatever state it is.

Only exercise cells and the learner's own cells that they read are taken. All other cells are the course's, and the
course's are run, so it does not matter what has become of them in the submission.
"""

import ast
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass, field

from lessonkit.course import CARD
from lessonkit.program import names, needed, statements
from teaching.grading.lesson import bare

LARGEST = 50e6  # bytes of a notebook; one with all its figures has 2e6
MOST_CELLS = 5000  # of a notebook; the course's have at most 130
LONGEST = 200_000  # characters of a cell that is looked at; the course's have at most 6,000
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # what Python says of a text that it cannot read
WAITS = re.compile(r"^[ \t]*raise check\.YourTurn\(", re.MULTILINE)
IPYTHON = re.compile(r"^([ \t]*)([%!?].*|[\w.]+\?\??)$", re.MULTILINE)  # %magic, !command, ?help, help?


@dataclass
class Answer:
    """The answer to one exercise. cells: texts to run in order, the last one is the exercise's own; [] if missing.

    remarks: Remark objects. reads: the names that the cells read from outside.
    """

    cells: list = field(default_factory=list)
    remarks: list = field(default_factory=list)
    reads: set = field(default_factory=set)


@dataclass(frozen=True)
class Remark:
    """What was found in a submission. sheet: for the instructor, in few words. page: sentences to the learner."""

    sheet: str
    page: str


class Unreadable(Exception):
    """A file that holds no answers to this lesson: why."""


def _bytes(path):
    """Return the bytes of a regular file that is not too large; Unreadable for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)  # a pipe would wait for a writer
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("this is no file that can be read, but a folder, a pipe or a device")
            if status.st_size > LARGEST:
                raise Unreadable(f"the file has {status.st_size / 1e6:.0f} MB, at most {LARGEST / 1e6:.0f} are read")
            return file.read(int(LARGEST) + 1)
    except OSError as error:
        raise Unreadable(f"the file cannot be read: {error.strerror}") from None


def digest(path):
    """Return the SHA-256 of a file, "" if it cannot be read or there is none."""
    try:
        return hashlib.sha256(_bytes(path)).hexdigest() if path else ""
    except Unreadable:
        return ""


def cells(path):
    """Return [(type, id, text)] of a notebook's cells; Unreadable if it is none."""
    data = _bytes(path)
    try:
        stored = json.loads(data.decode("utf-8-sig"))
        if "worksheets" in stored:  # nbformat 3
            raise Unreadable("the notebook has the old format 3. Open it in JupyterLab and save it")
        if len(stored["cells"]) > MOST_CELLS:
            raise Unreadable(f"the notebook has {len(stored['cells']):,} cells, at most {MOST_CELLS:,} are read")
        return [_cell(cell["cell_type"], str(cell.get("id", "")), "".join(cell["source"])) for cell in stored["cells"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
        raise Unreadable(f"this is no notebook: {type(error).__name__}: {error}"[:200]) from None


def _cell(kind, ident, text):
    """Return a cell; of one that is too long its first line, and a line that says so."""
    if len(text) > LONGEST:
        first = text[:200].partition("\n")[0]
        text = f"{first}\nraise ValueError('this cell has {len(text):,} characters, at most {LONGEST:,} are graded')"
    return kind, ident, text


def exercises_in(notebook_cells):
    """Return the numbers of the exercises whose cards stand in cells, {"6.1", ...}."""
    return {match[1] for kind, _, text in notebook_cells if (match := CARD.search(text))}


def answers(lesson, notebook_cells):
    """Return {exercise: Answer} of a lesson's exercises. notebook_cells: what cells() gave."""
    numbers = exercises_in(notebook_cells)
    if not numbers & lesson.exercises.keys():
        others = sorted({number.partition(".")[0] for number in numbers}, key=lambda n: (len(n), n))
        what = f"exercises of lesson {', '.join(others)}" if others else "no exercise"
        if not any(ident == e.id for e in lesson.exercises.values() for _, ident, _ in notebook_cells):
            raise Unreadable(f"the notebook holds {what}, and {lesson.stem} is graded")
    own = [
        (text, statement)
        for kind, _, text in notebook_cells
        if kind == "code" and bare(text) not in lesson.texts
        for statement in statements_of(_python(text, []))
    ]
    return {exercise.number: _answer(lesson, exercise, notebook_cells, own) for exercise in lesson.exercises.values()}


def _answer(lesson, exercise, notebook_cells, own):
    answer = Answer()
    chosen = _chosen(exercise, notebook_cells, answer.remarks)
    if chosen is None:
        way_out = f"Copy it from a fresh lesson {lesson.number} and hand in again."
        answer.remarks.append(Remark("the exercise's cell is missing", f"The exercise's cell is missing. {way_out}"))
        return answer
    kind, text = chosen
    if kind != "code":
        sheet = f"the cell had become a {kind} cell; it is run as code"
        page = f"Your cell had become a {kind} cell, which a notebook does not run. It was graded as code all the same."
        answer.remarks.append(Remark(sheet, page))
    others = [statement for cell, statement in own if cell != text]  # another exercise's cell may hold a helper, too
    text = _python(text, answer.remarks)
    try:
        helpers = _helpers(lesson, exercise, text, others)
    except RecursionError:
        helpers = []
        told = "Your own definitions build on each other in so many steps that they were left out."
        answer.remarks.append(Remark("too many own definitions in a chain; none used", told))
    if helpers:
        bound = sorted(set().union(*(helper.binds for helper in helpers)))
        used = f"Your own {listed(bound)} {'was' if len(bound) == 1 else 'were'} used too."
        answer.remarks.append(Remark(f"own definitions used too: {', '.join(bound)}", used))
    answer.cells = [*(helper.text for helper in helpers), text]
    answer.reads = set().union(*(names_of(cell)[0] for cell in answer.cells))
    return answer


def _chosen(exercise, notebook_cells, remarks):
    """Return (type, text) of an exercise's cell: by its card, else by its id, else by what it binds; None if gone."""
    ways = (
        lambda kind, ident, text: (match := CARD.search(text)) and match[1] == exercise.number,
        lambda kind, ident, text: ident == exercise.id,
        lambda kind, ident, text: kind == "code" and _makes(exercise.solved) <= _makes(text),
    )
    for way in ways:
        fitting = [(kind, text) for kind, ident, text in notebook_cells if text.strip() and way(kind, ident, text)]
        fitting = [cell for cell in fitting if cell[0] == "code"] or fitting  # a note may quote the card
        if fitting:
            break
    else:
        return None
    if way is not ways[0]:
        sheet = "the cell has lost its card; it was found by " + ("its id" if way is ways[1] else "its names")
        card = f"its first line, # Exercise {exercise.number}"
        remarks.append(Remark(sheet, f"Your cell has lost {card}. It was found and graded all the same."))
    if len(fitting) > 1:
        sheet = f"there are {len(fitting)} cells of this exercise; the last one that is no blank counts"
        page = f"Your notebook has {len(fitting)} cells of this exercise. The last one with an answer was graded."
        remarks.append(Remark(sheet, page))
    done = [cell for cell in fitting if not WAITS.search(cell[1])] or fitting
    return done[-1]


def _helpers(lesson, exercise, text, own):
    """Return the learner's own statements that an answer reads, in order: those that bind what the lesson does not."""
    bound_before = {name for statement in lesson.before(exercise) for name in statement.binds}
    program = [statement for statement in own if not statement.binds & bound_before]
    order = set(needed(program, *(names_of(text)[0] - bound_before))[0])
    return [statement for statement in program if statement in order]


def _makes(text):
    """Return the names that a text binds otherwise than by an import, which brings back what another cell has made."""
    return {name for statement in statements_of(text) if not statement.imports for name in statement.binds}


def names_of(text):
    """Return (read, bound) of a text; nothing for one that is no Python."""
    try:
        return names(text)
    except NO_PYTHON:
        return set(), set()


def statements_of(text):
    """Return the statements of a text; none for one that is no Python."""
    try:
        return statements(text)
    except NO_PYTHON:
        return ()


def listed(words):
    """Return words as a person lists them: a, b and c."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def _python(text, remarks):
    """Return a cell's text with IPython's own lines (%magic, !command, name?) made comments, if it is no Python."""
    try:
        ast.parse(text)
    except NO_PYTHON:
        plain, n = IPYTHON.subn(lambda match: f"{match[1]}pass  # left out: {match[2]}", text)
        if n:
            lines = f"{n} line{'s' if n > 1 else ''} of IPython's own (% or ! or ?)"
            remarks.append(Remark(f"{lines} left out", f"{lines} {'were' if n > 1 else 'was'} left out."))
        return plain
    return text

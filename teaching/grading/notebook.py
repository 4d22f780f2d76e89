"""What a learner's notebook holds: the answers of one lesson, taken from it in whatever state it is.

Only exercise cells and the learner's own statements that they read are taken. All other cells are the course's, and the
course's are run, so it does not matter what has become of them in the submission.

A remark is what was found on the way, a clause such as "there are 2 cells of this exercise; the last one was graded".
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
from teaching.grading.assignment import bare

LARGEST = 50e6  # bytes of a notebook; one with all its figures has 2e6
LONGEST = 200_000  # characters of a cell that is looked at; the course's have at most 6,000
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # what Python says of a text that it cannot read
WAITS = re.compile(r"^[ \t]*raise check\.YourTurn\(", re.MULTILINE)
IPYTHON = re.compile(r"^([ \t]*)([%!?].*|[\w.]+\?\??)$", re.MULTILINE)  # %magic, !command, ?help, help?


@dataclass
class Answer:
    """The answer to one exercise. cells: texts to run in order, the last one is the exercise's own; [] if missing.

    reads: the names that the cells read from outside.
    """

    cells: list = field(default_factory=list)
    remarks: list = field(default_factory=list)
    reads: set = field(default_factory=set)


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
    return {match[1] for _, _, text in notebook_cells if (match := CARD.search(text))}


def answers(lesson, notebook_cells):
    """Return {exercise: Answer} of a lesson's exercises. notebook_cells: what cells() gave."""
    numbers, ids = exercises_in(notebook_cells), {ident for _, ident, _ in notebook_cells}
    if not numbers & lesson.exercises.keys() and not any(e.id in ids for e in lesson.exercises.values()):
        others = sorted({number.partition(".")[0] for number in numbers}, key=lambda n: (len(n), n))
        what = f"exercises of lesson {', '.join(others)}" if others else "no exercise"
        raise Unreadable(f"the notebook holds {what}, and {lesson.stem} is graded")
    own = [
        (text, statement)
        for kind, _, text in notebook_cells
        if kind == "code" and bare(text) not in lesson.texts
        for statement in _read(statements, _python(text, []), ())
    ]
    return {exercise.number: _answer(lesson, exercise, notebook_cells, own) for exercise in lesson.exercises.values()}


def _answer(lesson, exercise, notebook_cells, own):
    answer = Answer()
    kind, text = _chosen(exercise, notebook_cells, answer.remarks)
    if kind is None:
        answer.remarks.append(f"the cell is missing: copy it from a fresh lesson {lesson.number} and hand in again")
        return answer
    if kind != "code":
        answer.remarks.append(f"the cell had become a {kind} cell, which a notebook does not run; it was run as code")
    others = [statement for cell, statement in own if cell != text]  # another exercise's cell may hold a helper, too
    text = _python(text, answer.remarks)
    try:
        helpers = _helpers(lesson, exercise, text, others)
    except RecursionError:
        helpers = []
        answer.remarks.append("own definitions were left out: they build on each other in too many steps")
    if helpers:
        bound = sorted(set().union(*(helper.binds for helper in helpers)))
        answer.remarks.append(f"own definitions used too: {', '.join(bound)}")
    answer.cells = [*(helper.text for helper in helpers), text]
    answer.reads = set().union(*map(_reads, answer.cells))
    return answer


def _chosen(exercise, notebook_cells, remarks):
    """Return (type, text) of an exercise's cell, found in one of three ways; (None, "") if it is gone."""
    made = _makes(exercise.solved)
    ways = {
        "card": lambda kind, ident, text: (match := CARD.search(text)) and match[1] == exercise.number,
        "id": lambda kind, ident, text: ident == exercise.id and text.strip(),
        "names": lambda kind, ident, text: kind == "code" and made <= _makes(text),
    }
    found = ((way, [(cell[0], cell[2]) for cell in notebook_cells if fits(*cell)]) for way, fits in ways.items())
    way, fitting = next(((way, cells) for way, cells in found if cells), ("", []))
    if not way:
        return None, ""
    fitting = [cell for cell in fitting if cell[0] == "code"] or fitting  # a note may quote the card
    if way != "card":
        remarks.append(f"the cell has lost its first line, # Exercise {exercise.number}; it was found by its {way}")
    if len(fitting) > 1:
        remarks.append(f"there are {len(fitting)} cells of this exercise; the last one with an answer was graded")
    return ([cell for cell in fitting if not WAITS.search(cell[1])] or fitting)[-1]


def _helpers(lesson, exercise, text, own):
    """Return the learner's own statements that an answer reads, in order: those that bind what the lesson does not."""
    bound_before = {name for statement in lesson.before(exercise) for name in statement.binds}
    program = [statement for statement in own if not statement.binds & bound_before]
    order = set(needed(program, *(_reads(text) - bound_before))[0])
    return [statement for statement in program if statement in order]


def _makes(text):
    """Return the names that a text binds otherwise than by an import, which brings back what another cell has made."""
    return {name for s in _read(statements, text, ()) if not s.imports for name in s.binds}


def _reads(text):
    return _read(names, text, (set(),))[0]


def _read(reader, text, otherwise):
    """Return what reader finds in a text, or otherwise, if that is no Python."""
    try:
        return reader(text)
    except NO_PYTHON:
        return otherwise


def _python(text, remarks):
    """Return a cell's text with IPython's own lines (%magic, !command, name?) made comments, if it is no Python."""
    if _read(ast.parse, text, None):
        return text
    plain, count = IPYTHON.subn(lambda match: f"{match[1]}pass  # left out: {match[2]}", text)
    if count:
        remarks.append(f"left out: {count} line{'s' * (count > 1)} of IPython's own (% or ! or ?)")
    return plain

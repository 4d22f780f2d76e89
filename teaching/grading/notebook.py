"""What a learner's notebook holds: the answers of one lesson, taken from it in whatever state it is.

Only exercise cells and the learner's own statements that they read are taken. All other cells are the course's, and the
course's are run, so it does not matter what has become of them in the submission.

A remark is what was found on the way, a clause such as "there are 2 cells of this exercise; the last one was graded".
"""

import ast
import hashlib
import json
import multiprocessing
import pickle
import re
import resource
import signal
from dataclasses import dataclass, field, replace

from lessonkit.course import CARD
from lessonkit.program import names, needed, statements

LARGEST = 50e6  # bytes of a notebook; one with all its figures has 2e6
LONGEST = 200_000  # characters of a cell that is looked at; the course's have at most 6,000
SECONDS, MEMORY = 10, 2 << 30  # that reading a submission may take
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # what Python says of a text that it cannot read
WAITS = re.compile(r"^[ \t]*raise check\.YourTurn\(", re.MULTILINE)
IPYTHON = re.compile(  # %magic, !command, ?help, files = !ls, help?
    r"^([ \t]*)([%!?].*|\w[\w, .]*=[ \t]*[%!].*|[\w.]+\?\??)$", re.MULTILINE
)
FORK = multiprocessing.get_context("fork")


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


def bounded(act, seconds=SECONDS):
    """Return what act() returns, in another process; Unreadable for what it raises, and if it does not come in time.

    act is the grader's own, and runs nothing of a learner's: what it returns may be pickled.
    """
    reads, writes = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_send, args=(act, seconds, writes))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Python loses a Ctrl-C that comes while it forks
    try:
        child.start()
    finally:
        writes.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        value, why = pickle.loads(reads.recv_bytes() if reads.poll(3 * seconds) else b"")
    except (OSError, EOFError):
        raise Unreadable(f"reading it takes more than {seconds} s or {MEMORY >> 30} GiB") from None
    finally:
        child.kill()
        child.join()
    if why:
        raise Unreadable(why)
    return value


def _send(act, seconds, writes):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        data = pickle.dumps((act(), ""))
    except Unreadable as error:
        data = pickle.dumps((None, str(error)))
    except Exception as error:
        data = pickle.dumps((None, f"it cannot be read: {type(error).__name__}: {error}"[:200]))
    writes.send_bytes(data)


def _bytes(path):
    """Return the bytes of a regular file that is not too large; Unreadable for anything else."""
    if not path.is_file():
        raise Unreadable("this is no file that can be read, but a folder, a pipe or a device")
    if (size := path.stat().st_size) > LARGEST:
        raise Unreadable(f"the file has {size / 1e6:.0f} MB, at most {LARGEST / 1e6:.0f} are read")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"the file cannot be read: {error.strerror}") from None


def digest(path):
    """Return the SHA-256 of a file, "" if it cannot be read or there is none."""
    try:
        return hashlib.sha256(_bytes(path)).hexdigest() if path else ""
    except Unreadable:
        return ""


def cells(path):
    """Return [(type, text)] of a notebook's cells; Unreadable or what reading it raises if it is none."""
    stored = json.loads(_bytes(path).decode("utf-8-sig"))
    if isinstance(stored, dict) and stored.get("nbformat") in (2, 3) and "worksheets" in stored:
        old = f"this is a notebook in the old format {stored['nbformat']}"
        raise Unreadable(f"{old}: open it in JupyterLab, save it there, and hand in the saved file")
    try:
        return [(cell["cell_type"], _shortened("".join(cell["source"]))) for cell in stored["cells"]]
    except (KeyError, TypeError):
        raise Unreadable("this is a JSON file and no notebook: hand in the .ipynb that JupyterLab saves") from None


def _shortened(text):
    """Return a cell's text; of one that is too long its first line, and a line that says so."""
    if len(text) <= LONGEST:
        return text
    first = text[:200].partition("\n")[0]
    return f"{first}\nraise ValueError('this cell has {len(text):,} characters, at most {LONGEST:,} are graded')"


def exercises_in(notebook_cells):
    """Return the numbers of the exercises whose cards stand in cells, {"6.1", ...}."""
    return {match[1] for _, text in notebook_cells if (match := CARD.search(text))}


def answers(lesson, notebook_cells):
    """Return {exercise: Answer} of a lesson's exercises. notebook_cells: what cells() gave."""
    numbers = exercises_in(notebook_cells)
    if not numbers & lesson.exercises.keys():
        others = sorted({number.partition(".")[0] for number in numbers})
        what = f"exercises of lesson {', '.join(others)}" if others else "no exercise"
        raise Unreadable(f"the notebook holds {what}, and {lesson.stem} is graded")
    own = [
        (text, statement)
        for kind, text in notebook_cells
        if kind == "code"
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
    helpers = _helpers(lesson, exercise, text, others)
    if helpers:
        bound = sorted(set().union(*(helper.binds for helper in helpers)))
        answer.remarks.append(f"own definitions used too: {', '.join(bound)[:500]}")
    future = "".join(f"{statement.text}\n" for _, statement in own if statement.text.startswith("from __future__"))
    answer.cells = [future + cell for cell in (*(helper.text for helper in helpers), text)]  # it holds in all cells
    if (size := sum(map(len, answer.cells))) > LONGEST:
        answer.cells = [f"raise ValueError('this answer has {size:,} characters, at most {LONGEST:,} are graded')"]
    answer.reads = set().union(*map(_reads, answer.cells))
    return answer


def _chosen(exercise, notebook_cells, remarks):
    """Return (type, text) of an exercise's cell, found by its card or else by its names; (None, "") if it is gone."""
    carded = [cell for cell in notebook_cells if (match := CARD.search(cell[1])) and match[1] == exercise.number]
    made = _makes(exercise.solved)
    fitting = carded or [cell for cell in notebook_cells if cell[0] == "code" and made <= _makes(cell[1])]
    if not fitting:
        return None, ""
    fitting = [cell for cell in fitting if cell[0] == "code"] or fitting  # a note may quote the card
    if not carded:
        remarks.append(f"the cell has lost its first line, # Exercise {exercise.number}; it was found by its names")
    if len(fitting) > 1:
        remarks.append(f"there are {len(fitting)} cells of this exercise; the last one with an answer was graded")
    return ([cell for cell in fitting if not WAITS.search(cell[1])] or fitting)[-1]


def _helpers(lesson, exercise, text, own):
    """Return the learner's own statements that an answer reads, in order: those that bind what the lesson does not.

    What changes an object that one of them has made (table.append(3), del table[0]) counts as binding its name.
    """
    bound_before = {name for statement in lesson.before(exercise) for name in statement.binds}
    answered = _makes(exercise.solved) - bound_before  # what reads them as it runs can only stand after the answer
    program, made = [], set()
    for statement in own:
        if not statement.binds & bound_before and not statement.now & answered:
            changed = _read(_changed, statement.node, set()) & made
            now = statement.now - _counters(statement.node) if changed else statement.now
            program.append(replace(statement, binds=statement.binds | changed, now=now | changed))
            made = made - statement.binds if statement.imports else made | statement.binds
    order = set(needed(program, *(_reads(text) - bound_before))[0])
    return [statement for statement in program if statement in order]


def _changed(node):
    """Return the names whose objects a statement may change: x in x.f(), x[0] = 1, x.y = 1, x += 1 and del x[0].

    Of a loop, a condition or a `with` those in it, if it does nothing else: a training run or a print is none.
    """
    if isinstance(node, (ast.For, ast.While, ast.If, ast.With)):
        inner = [_changed(part) for part in (*node.body, *getattr(node, "orelse", ()))]
        return set().union(*inner) if all(inner) else set()
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        changed = [node.value.func]
    elif isinstance(node, (ast.Assign, ast.Delete)):
        changed = [each for target in node.targets for each in getattr(target, "elts", [target])]  # x[0], y[0] = 1, 2
    else:
        changed = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
    plain = isinstance(node, ast.AugAssign)
    return {root.id for each in changed if isinstance(root := _root(each), ast.Name) and (plain or root is not each)}


def _counters(node):
    """Return the names that loops in a statement bind before it reads them: k in "for k in range(3)"."""
    loops = [part for part in ast.walk(node) if isinstance(part, ast.For)]
    bound = {name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
    return bound - {name.id for loop in loops for name in ast.walk(loop.iter) if isinstance(name, ast.Name)}


def _root(node):
    """Return x of x.y[0].f().g, or what stands in its place."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            break
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


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

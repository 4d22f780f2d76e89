"""What the notebooks of a learner show, as they were saved last: which exercises are right, tried, waiting or not run.

An exercise is found by its checks, wherever the learner has moved, copied or split its cells, also in an older edition
of the lesson:

    right    each of its checks said "Right" in one of the cells that call it
    tried    a check said no, or the exercise's cell or the check's cell ended in an error of the learner's own
    waits    only "your turn" was said, by this exercise or by one above that it needs
    not run  none of that: never run, outputs cleared, or run in a new kernel without the cells above
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from lessonkit.course import CARD

RIGHT, TRIED, WAITS, NOT_RUN = "right", "tried", "waits", "not run"
STATES = (RIGHT, TRIED, WAITS, NOT_RUN)  # the best first
MARKS = {RIGHT: "●", TRIED: "◐", WAITS: "○", NOT_RUN: "·"}
CHECK = re.compile(r"^check\.(?!predict\(|recall\(|summary\()([a-z]\w*)\(", re.MULTILINE)
COLOR = re.compile(r"\x1b\[[0-9;]*m")
NEW_KERNEL = ("has not been run in this kernel", "this kernel is new")  # in words of lessonkit.shown and startup.py


class Unreadable(Exception):
    """A file that is no notebook that can be read: what is wrong with it."""


@dataclass
class Learner:
    """A folder of saved notebooks.

    states: {stem: {number of an exercise: one of STATES}}, for every lesson of the course.
    files: {stem: name of the file that counts}, for the lessons that are there. notes: what the reader should know,
    one sentence each.
    """

    folder: Path
    states: dict
    files: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    @property
    def name(self):
        """The folder's name, or that of the folder above for one that is called work, as every learner's is."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == "work" else folder.name

    def finished(self, lesson):
        """Return whether all exercises of a lesson's core are right."""
        return all(self.states[lesson.stem][exercise.number] == RIGHT for exercise in lesson.core)

    def begun(self, lesson):
        """Return whether anything of a lesson has been run."""
        return any(state != NOT_RUN for state in self.states[lesson.stem].values())

    def next_in(self, lesson):
        """Return the number of the first exercise of a lesson's core that is not right yet, None if all are."""
        states = self.states[lesson.stem]
        return next((exercise.number for exercise in lesson.core if states[exercise.number] != RIGHT), None)

    def minutes_left(self, lesson):
        """Return the minutes of a lesson's core that are left: those it prints, times the share that is not right yet.

        An exercise's share is that of its own minutes in those of all exercises of the core.
        """
        states, core = self.states[lesson.stem], lesson.core
        left = sum(exercise.minutes for exercise in core if states[exercise.number] != RIGHT)
        return lesson.minutes * left / sum(exercise.minutes for exercise in core) if left else 0


def learner(folder, course):
    """Return the Learner of a folder. A file that cannot be read gets a note, and the others are read."""
    folder = Path(folder)
    person = Learner(folder, {stem: states_in([], lesson) for stem, lesson in course.items()})
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".ipynb" and not path.name.startswith("."))
    except OSError as error:
        person.notes.append(f"{folder} cannot be read ({error.strerror}), so all counts as not run.")
        return person
    copies = {}  # stem: [(whether anything was run, when it was saved, name, cells)]
    for path in paths:
        try:
            stem, cells = read(path, course)
            saved = path.stat().st_mtime_ns
        except (Unreadable, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            person.notes.append(f"{path.name} is left out: {why}.")
            continue
        if stem:
            run = any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
            copies.setdefault(stem, []).append((run, saved, path.name, cells))
    for stem, these in copies.items():
        *_, name, cells = max(these, key=lambda copy: copy[:3])
        person.states[stem], person.files[stem] = states_in(cells, course[stem]), name
        if len(these) > 1:
            person.notes.append(f"{name} counts of {len(these)} copies of its lesson: the last saved that was run.")
    return person


def read(path, course):
    """Return (stem of its lesson, its cells) of a saved notebook; the stem is None if it belongs to no lesson.

    A notebook says itself which lesson it was made from; one that does not is told by its name. Unreadable for what
    is no notebook.
    """
    try:
        content = path.read_text(encoding="utf-8")
        notebook = json.loads(content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and not content.strip():
            raise Unreadable("the file is empty") from None
        where = f", from line {error.lineno} on" if isinstance(error, json.JSONDecodeError) else ""
        raise Unreadable(f"it is damaged, or no notebook{where}") from None
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise Unreadable("it is in the old notebook format 3. Open it in JupyterLab and save it") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("it is no notebook")
    metadata = notebook.get("metadata")
    edition = metadata.get("lesson") if isinstance(metadata, dict) else None
    source = edition.get("source") if isinstance(edition, dict) else None
    stem = Path(source).stem if isinstance(source, str) else None
    if stem not in course:
        stem = next((stem for stem in course if path.stem.startswith(stem)), None)
    return stem, [cell for cell in cells if isinstance(cell, dict)]


def states_in(cells, lesson):
    """Return {number: one of STATES} of a lesson's exercises. cells: of a saved notebook, in its order."""
    verdicts = {}  # name of a check, or number of an exercise: what its cells showed
    for cell in cells:
        if cell.get("cell_type") != "code":
            continue
        text, outputs = text_of(cell), cell.get("outputs")
        outputs = [out for out in outputs if isinstance(out, dict)] if isinstance(outputs, list) else []
        failed = next((_of_error(out) for out in outputs if out.get("output_type") == "error"), None)
        for card in CARD.finditer(text):
            verdicts.setdefault(card[1], []).append(failed or NOT_RUN)
        rights = _rights(outputs)
        for at, check in enumerate(CHECK.findall(text)):  # of several, all before the one that fails are right
            state = RIGHT if at < rights else failed if failed and at == rights else NOT_RUN
            verdicts.setdefault(check, []).append(state)
    return {exercise.number: _state(exercise, verdicts) for exercise in lesson.exercises}


def text_of(cell):
    """Return the text of a cell of a stored notebook, which may be a list of lines; "" for what is neither."""
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _state(exercise, verdicts):
    checks = [min(verdicts.get(check.name, [NOT_RUN]), key=STATES.index) for check in exercise.checks]
    if checks and all(state == RIGHT for state in checks):
        return RIGHT
    if RIGHT in checks:  # some parts are
        return TRIED
    return min([*checks, *verdicts.get(exercise.number, [NOT_RUN])], key=STATES.index)


def _of_error(out):
    """Return what an error in an exercise's or check's cell says of the exercise."""
    name, shown = out.get("ename"), out.get("traceback")
    if name == "YourTurn":
        return WAITS
    shown = " ".join(map(str, shown)) if isinstance(shown, list) else ""
    return NOT_RUN if name == "NameError" and any(words in shown for words in NEW_KERNEL) else TRIED


def _rights(outputs):
    """Return how many checks said "Right" in a cell's outputs: in a box, or in an older edition on a printed line."""
    texts = [out.get("text") if out.get("name") == "stdout" else _plain(out) for out in outputs]
    lines = "\n".join(text_of({"source": text}) for text in texts).split("\n")
    return sum(COLOR.sub("", line).startswith("Right:") for line in lines)


def _plain(out):
    data = out.get("data")
    return data.get("text/plain") if isinstance(data, dict) else None

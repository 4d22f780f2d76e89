"""What the notebooks of a learner show, as they were saved last: which exercises are right, tried, waiting or not run.

An exercise is found by its checks, wherever the learner has moved, copied or split its cells:

    right    each of its checks said "Right"
    tried    a check said no, or the exercise's or the check's cell ended in an error of the learner's own
    waits    only "your turn" was said
    not run  none of that
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from lessonkit.course import CARD

RIGHT, TRIED, WAITS, NOT_RUN = "right", "tried", "waits", "not run"
STATES = (RIGHT, TRIED, WAITS, NOT_RUN)  # the best first
MARKS = {RIGHT: "●", TRIED: "◐", WAITS: "○", NOT_RUN: "·"}
CHECK = re.compile(r"^check\.(?!predict\(|recall\(|summary\()([a-z]\w*)\(", re.MULTILINE)
SAYS_RIGHT = re.compile(r"^Right:", re.MULTILINE)


@dataclass
class Learner:
    """A folder of saved notebooks.

    states: {stem: {number of an exercise: one of STATES}}, for every lesson of the course. files: {stem: name of the
    file that counts}, for the lessons that are there. notes: what the reader should know, a sentence each.
    """

    folder: Path
    states: dict
    files: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    @property
    def name(self):
        """The folder's name, or that of the folder above one that is called work."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == "work" else folder.name

    def left(self, lesson):
        """Return the exercises of a lesson's core that are not right yet."""
        return [exercise for exercise in lesson.core if self.states[lesson.stem][exercise.number] != RIGHT]

    def minutes_left(self, lesson):
        """Return the minutes that are left: those the lesson prints, times the share of its core's exercise minutes."""
        left = sum(exercise.minutes for exercise in self.left(lesson))
        return lesson.minutes * left / sum(exercise.minutes for exercise in lesson.core) if left else 0


def learner(folder, course):
    """Return the Learner of a folder. A file that cannot be read gets a note."""
    folder = Path(folder)
    person = Learner(folder, {stem: states_in([], lesson) for stem, lesson in course.items()})
    copies = defaultdict(list)  # stem: [(whether anything was run, when it was saved, name, states)]
    for path in sorted(folder.glob("[!.]*.ipynb")):
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            stem, cells = lesson_of(notebook, path.stem, course), notebook["cells"]
            if stem:
                run = any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
                copies[stem].append((run, path.stat().st_mtime_ns, path.name, states_in(cells, course[stem])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            person.notes.append(f"{path.name} is left out: it cannot be read as a notebook of JupyterLab.")
    for stem, these in copies.items():
        *_, person.files[stem], person.states[stem] = max(these, key=lambda copy: copy[:3])
        if len(these) > 1:
            person.notes.append(
                f"{person.files[stem]} counts of {len(these)} copies of its lesson: the last saved that was run."
            )
    return person


def lesson_of(notebook, name, course):
    """Return the stem of the lesson that a notebook (JSON) says it was made from, else that its name begins with."""
    source = notebook["metadata"].get("lesson", {}).get("source", "")
    stem = Path(source).stem
    return stem if stem in course else next((stem for stem in course if name.startswith(stem)), None)


def states_in(cells, lesson):
    """Return {number: one of STATES} of a lesson's exercises. cells: of a saved notebook, in its order."""
    verdicts = defaultdict(lambda: [NOT_RUN])  # name of a check, or number of an exercise: what its cells showed
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        text, outputs = "".join(cell["source"]), cell["outputs"]
        ended = [WAITS if out["ename"] == "YourTurn" else TRIED for out in outputs if out["output_type"] == "error"]
        failed = ended[0] if ended else NOT_RUN
        for card in CARD.finditer(text):
            verdicts[card[1]].append(failed)
        shown = (out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs)
        rights = sum(len(SAYS_RIGHT.findall("".join(text))) for text in shown)
        for at, check in enumerate(CHECK.findall(text)):  # of several, all before the one that fails are right
            verdicts[check].append(RIGHT if at < rights else failed if at == rights else NOT_RUN)
    return {exercise.number: _state(exercise, verdicts) for exercise in lesson.exercises}


def _state(exercise, verdicts):
    checks = [min(verdicts[check.name], key=STATES.index) for check in exercise.checks]
    if RIGHT in checks:
        return RIGHT if set(checks) == {RIGHT} else TRIED
    return min([*checks, *verdicts[exercise.number]], key=STATES.index)


def spread(folders, *logs):
    """Return folders, with the learners' in place of one that only holds these.

    A learner's folder holds notebooks or one of the logs (names of files), itself or in its folder work.
    """

    def learners(folder):
        return any(path.name in logs or path.match("[!.]*.ipynb") for path in folder.glob("*"))

    paths = []
    for folder in folders:
        within = [] if learners(folder) else sorted(folder.glob("[!._]*"))
        inside = [place for path in within for place in (path, path / "work") if learners(place)]
        paths += [place for place in inside if place.name != "solutions"] or [folder]  # which an empty work/ has too
    return paths

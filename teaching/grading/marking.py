"""A submission's answers, run one by one in the course's own lesson, and given points."""

import hashlib
import re
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from coursebuild.syntax import names
from lessonkit.progress.page import in_order
from teaching.grading import submission, suspect
from teaching.grading.lesson import GradingError, bare
from teaching.grading.submission import Remark

STOPPED = "the answer brought down the process that runs the answers, twice"
COPY = re.compile(r"( ?\(\d+\)|-Copy\d+)+$")  # what browsers and JupyterLab put after the name of a second copy
NO_NAME = re.compile(  # in the name of a file that says which exercise it is, and not whose
    r"[()]|^\W*\d{0,2}\W*$|(?<![^\W\d_])(lessons?|exercises?|assignment|homework|notebook|submission|solutions?|answers?|"
    r"final|copy|version|draft|untitled|batch ?norm|layer ?norm|übung|uebung|lösung|abgabe|aufgabe)(?![^\W\d_])",
    re.IGNORECASE,
)


@dataclass
class Mark:
    """What became of one exercise.

    verdict: "right", "partly" (of several checks some), "not yet", "raised", "waits", "missing" or "stopped".
    points: given. held: points that an answer has earned and that wait for a person, because of look.
    """

    number: str
    of: int
    optional: bool
    verdict: str = "missing"
    points: float = 0
    held: float = 0
    said: str = ""
    look: list = field(default_factory=list)
    remarks: list = field(default_factory=list)
    cells: list = field(default_factory=list)


@dataclass
class Result:
    """A learner's marks. why: why there are none, for a file that could not be read. seconds: what it all took."""

    learner: str
    file: str
    sha256: str
    marks: list = field(default_factory=list)
    why: str = ""
    remarks: list = field(default_factory=list)
    seconds: float = 0

    def points(self, optional=False):
        return sum(mark.points for mark in self.marks if mark.optional == optional)

    def of(self, optional=False):
        return sum(mark.of for mark in self.marks if mark.optional == optional)

    @property
    def held(self):
        return sum(mark.held for mark in self.marks)


@dataclass(frozen=True)
class Handed:
    """What a learner handed in. path: None if there is no notebook. remarks: how it was chosen."""

    learner: str
    path: Path | None
    remarks: tuple = ()


def handed_in(folder, lesson):
    """Return a Handed for each learner in a folder, in the order of their names.

    A learner is a file (ann.ipynb, ann_06_batchnorm.ipynb) or a folder with notebooks anywhere in it.
    """
    if not folder.is_dir():
        raise GradingError(f"{folder} is no folder. Name the one that holds the submissions: IN=submitted.")
    found, taken = [], set()
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")) or path.is_symlink():
            continue
        if path.is_dir():
            found.append(_from_folder(path, lesson))
        elif path.suffix == ".ipynb":
            found.append(_from_file(path, lesson))
    if not found:
        raise GradingError(f"{folder} holds no notebook and no folder of a learner. Name the one that does: IN=...")
    for at, one in enumerate(found):
        if one.learner in taken:
            where = str((one.path or folder / one.learner).relative_to(folder))
            sheet = f"a second submission called {one.learner}; each has a row"
            page = f"There is a second submission with the name {one.learner}. This page is of {where}."
            found[at] = Handed(where, one.path, (*one.remarks, Remark(sheet, page)))
        taken.add(found[at].learner)
    return sorted(found, key=lambda one: in_order(one.learner))


def _from_file(path, lesson):
    """Return the Handed of a notebook that lies among others: its name without the lesson's is the learner's."""
    plain = COPY.sub("", path.stem)
    name = _composed(plain.removesuffix(lesson.stem).rstrip("_- "))
    if name and not NO_NAME.search(name):
        return Handed(name, path)
    told = f"The name of your file does not say who you are. Call it YOUR_NAME_{lesson.stem}.ipynb."
    return Handed(_composed(path.stem), path, (Remark("the file's name does not look like a learner's", told),))


def _composed(name):
    """Return a name as most systems write it: macOS stores Ü as two characters."""
    return unicodedata.normalize("NFC", name)


def _from_folder(folder, lesson):
    """Return the Handed of a learner's folder: the notebook called as the lesson, else one with its exercises."""
    paths = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts and path.is_file() and not path.is_symlink()
    ]
    fitting = [path for path in paths if lesson.stem in path.stem]
    if not fitting:
        fitting = [path for path in paths if _holds(path, lesson)]
    if not fitting:
        fitting = paths  # to say what they hold instead
    if not fitting:
        return Handed(_composed(folder.name), None)
    chosen = max(fitting, key=lambda path: path.stat().st_mtime)
    if len(fitting) == 1:
        return Handed(_composed(folder.name), chosen)
    told = f"You handed in {len(fitting)} notebooks of this lesson. The newest was graded: {chosen.name}."
    remark = Remark(f"{len(fitting)} notebooks would do; the newest was taken", told)
    return Handed(_composed(folder.name), chosen, (remark,))


def _holds(path, lesson):
    try:
        return bool(submission.exercises_in(submission.cells(path)) & lesson.exercises.keys())
    except submission.Unreadable:
        return False


def digest(path):
    """Return the SHA-256 of a file, "" if it cannot be read or there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path else ""
    except OSError:
        return ""


class Marker:
    """Marks submissions of a lesson with a worker. seconds: what an answer may take at least, see inside/."""

    def __init__(self, lesson, worker):
        self.lesson, self.worker, self.seconds = lesson, worker, worker.jail.limits.seconds

    def mark(self, handed, folder):
        """Return the Result of one learner."""
        started = time.perf_counter()
        file = str(handed.path.relative_to(folder)) if handed.path else ""
        result = Result(handed.learner, file, digest(handed.path), remarks=list(handed.remarks))
        try:
            if handed.path is None:
                raise submission.Unreadable("there is no notebook in this folder")
            answers = submission.answers(self.lesson, submission.cells(handed.path))
        except submission.Unreadable as error:
            result.why = str(error)
            answers = {number: submission.Answer() for number in self.lesson.exercises}
        for number, answer in answers.items():
            result.marks.append(self._mark(self.lesson.exercises[number], answer))
        result.seconds = time.perf_counter() - started
        return result

    def _mark(self, exercise, answer):
        mark = Mark(exercise.number, exercise.difficulty, exercise.optional, remarks=answer.remarks, cells=answer.cells)
        if not answer.cells:
            return mark
        if bare(answer.cells[-1]) == bare(exercise.source):
            mark.verdict = "waits"
            return mark
        reply = self._run(exercise, answer.cells) or self._run(exercise, answer.cells)
        if reply is None:
            mark.verdict, mark.said, mark.look = "stopped", STOPPED, [STOPPED]
            return mark
        mark.verdict, mark.said = reply["verdict"], reply["said"]
        if reply["printed"]:  # more than inside/ carries out
            times = f"{reply['printed']:,} times"
            told = f"Your answer printed {times} while it was checked. That takes long and nobody reads it."
            mark.remarks = [*mark.remarks, Remark(f"printed {times}", f"{told} Remove the print.")]
        earned = exercise.difficulty * reply["passed"] / len(exercise.checks)
        if 0 < reply["passed"] < len(exercise.checks):
            mark.verdict = "partly"
        suspect_of = suspect.reasons(answer.cells)
        if reply["broken"]:
            mark.look = [f"after it has run: {what}" for what in reply["broken"]]
            mark.verdict, mark.said = "stopped", "the answer has changed what judges it"
        elif earned and suspect_of:
            mark.look, mark.held = suspect_of, earned
        else:
            mark.points = earned
        return mark

    def _run(self, exercise, cells):
        """Return the worker's reply on an answer, None if the worker did not survive it."""
        context = self.lesson.context(exercise, names(exercise.solved)[0])
        if self.worker.needs(exercise.number):
            checks = [(check.name, check.argument) for check in exercise.checks]
            prepared = dict(number=exercise.number, context=context, answer=exercise.solved, checks=checks)
            reply = self.worker.ask({"do": "prepare", **prepared}, 300)
            if reply is None:
                raise GradingError(f"the course's own answer to {exercise.number} could not be run in five minutes.")
            self.worker.prepared[exercise.number] = reply["seconds"]
        wanted = {name for text in cells for name in submission.names_of(text)[0]}
        more = [text for text in self.lesson.context(exercise, wanted) if text not in context]
        patience = 4 * max(self.seconds, 10 * self.worker.prepared[exercise.number]) + 60  # longer than inside/ waits
        request = dict(number=exercise.number, context=more, cells=cells, seconds=self.seconds)
        return self.worker.ask({"do": "grade", **request}, patience)

"""A submission's answers, observed one by one in the course's own lesson, and given points."""

import os
import re
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from lessonkit.program import names
from lessonkit.progress.page import in_order
from teaching.grading import submission
from teaching.grading.apart import Failed, apart
from teaching.grading.lesson import GradingError, bare
from teaching.grading.submission import Remark

MOST_NOTEBOOKS = 50  # of a learner's folder that are read, to find the one of the lesson
SHOWN = 1000  # prints of an answer that inside/ carries out
SLOWER = 10  # an answer may take this many times the seconds that the course's own takes
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
    points: given.
    """

    number: str
    of: int
    optional: bool
    verdict: str = "missing"
    points: float = 0
    message: str = ""
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
    handed, taken = [], set()
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")) or path.is_symlink():
            continue
        if path.is_dir():
            handed.append(_whatever_is_in(path, lesson))
        elif path.suffix == ".ipynb":
            handed.append(_from_file(path, lesson))
    if not handed:
        raise GradingError(f"{folder} holds no notebook and no folder of a learner. Name the one that does: IN=...")
    for at, submitted in enumerate(handed):
        if submitted.learner in taken:
            where = printable(str((submitted.path or folder / submitted.learner).relative_to(folder)))
            sheet = f"a second submission called {submitted.learner}; each has a row"
            page = f"There is a second submission with the name {submitted.learner}. This page is of {where}."
            handed[at] = Handed(where, submitted.path, (*submitted.remarks, Remark(sheet, page)))
        taken.add(handed[at].learner)
    return sorted(handed, key=lambda submitted: in_order(submitted.learner))


def printable(name):
    """Return a name as it can be printed: bytes that are no text and signs that command a screen become \\xff."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


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
    return unicodedata.normalize("NFC", printable(name))


def _whatever_is_in(folder, lesson):
    try:
        return apart(lambda: _from_folder(folder, lesson))
    except (Failed, OSError) as error:
        return Handed(_composed(folder.name), None, (Remark(f"the folder: {error}", f"Your folder: {error}."),))


def _from_folder(folder, lesson):
    """Return the Handed of a learner's folder: the notebook called as the lesson, else one with its exercises."""
    paths = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts and path.is_file() and not path.is_symlink()
    ]
    fitting = [path for path in paths if lesson.stem in path.stem]
    fitting = fitting or [path for path in paths[:MOST_NOTEBOOKS] if _holds(path, lesson)]
    fitting = fitting or paths  # to say what they hold instead
    chosen, remarks = max(fitting, key=lambda path: path.lstat().st_mtime, default=None), ()
    if len(fitting) > 1:
        told = f"You handed in {len(fitting)} notebooks of this lesson. The newest was graded: {chosen.name}."
        remarks = (Remark(f"{len(fitting)} notebooks would do; the newest was taken", told),)
    return Handed(_composed(folder.name), chosen, remarks)


def _holds(path, lesson):
    try:
        return apart(lambda: bool(submission.exercises_in(submission.cells(path)) & lesson.exercises.keys()))
    except (submission.Unreadable, Failed):
        return False


class Marker:
    """Marks submissions of a lesson on a bench."""

    def __init__(self, lesson, bench):
        self.lesson, self.bench, self.seconds = lesson, bench, bench.jail.limits.seconds
        self.own = {}  # exercise -> seconds that the course's own answer takes; it has got its points then

    def mark(self, handed, folder):
        """Return the Result of one learner. Whatever a submission is, the next one is marked."""
        started = time.perf_counter()
        file = printable(str(handed.path.relative_to(folder))) if handed.path else ""
        result = Result(handed.learner, file, submission.digest(handed.path), remarks=list(handed.remarks))
        answers = {number: submission.Answer() for number in self.lesson.exercises}
        try:
            if handed.path is None:
                raise submission.Unreadable("there is no notebook in this folder")
            answers = apart(lambda: submission.answers(self.lesson, submission.cells(handed.path)))
        except (submission.Unreadable, Failed) as error:
            result.why = str(error)
        except Exception as error:
            result.why = f"it could not be read ({type(error).__name__})"
        for number, answer in answers.items():
            exercise = self.lesson.exercises[number]
            mark = Mark(number, exercise.difficulty, exercise.optional, remarks=answer.remarks, cells=answer.cells)
            result.marks.append(mark)
            try:
                self._judge(mark, exercise, answer)
            except GradingError:
                raise
            except Exception as error:
                mark.verdict = "stopped"
                mark.message = f"it could not be graded ({type(error).__name__}: {error})"[:500]
        result.seconds = time.perf_counter() - started
        return result

    def _judge(self, mark, exercise, answer):
        """Fill in a Mark, which is that of a missing answer."""
        if not answer.cells:
            return
        if bare(answer.cells[-1]) == bare(exercise.source):
            mark.verdict = "waits"
            return
        reply = self._run(exercise, answer)
        if reply["verdict"] in ("stopped", "not yet", "raised"):
            reply = self._fairly(exercise, answer, reply)
        mark.verdict, mark.message = reply["verdict"], reply["message"]
        mark.remarks = [*mark.remarks, *_remarks(reply)]
        mark.points = exercise.difficulty * reply["passed"] / len(exercise.checks)
        if 0 < reply["passed"] < len(exercise.checks):
            mark.verdict = "partly"

    def _run(self, exercise, answer, seconds=None):
        """Return the judge's reply on an answer."""
        wanted = {*names(exercise.solved)[0], *answer.reads}
        checks = [(check.name, check.argument) for check in exercise.checks]
        context = self.lesson.context(exercise, wanted)
        asked = dict(number=exercise.number, checks=checks, context=context, cells=answer.cells)
        return self.bench.ask(**asked, seconds=seconds or self.seconds)

    def _fairly(self, exercise, answer, reply):
        """Look at a verdict that is not right: the course's own answer gets its points here, and in what time?"""
        if exercise.number not in self.own:
            for _ in range(2):  # the machine may have been busy
                own = self._run(exercise, submission.Answer([exercise.solved]), SLOWER * self.seconds)
                if own["verdict"] == "right":
                    break
            else:
                why = f"{own['verdict']}: {own['message']}"
                raise GradingError(f"the course's own answer to {exercise.number} gets no points here ({why}).")
            self.own[exercise.number] = own["computed"]
        longer = SLOWER * self.own[exercise.number]
        if reply["verdict"] == "stopped" and reply["message"].startswith("not done") and longer > 2 * self.seconds:
            return self._run(exercise, answer, longer)
        return reply


def _remarks(reply):
    """Yield what else was seen of an answer."""
    if reply.get("printed", 0) > SHOWN:
        times = f"{reply['printed']:,} times"
        told = f"Your answer printed {times} while it was checked. That takes long and nobody reads it."
        yield Remark(f"printed {times}", f"{told} Remove the print.")
    for change in reply.get("changes", ()):
        told = f"Your cell changes {change}. That stays so for the whole notebook. It was put back, and cost no points."
        yield Remark(f"changes {change}", told)
    if reply.get("theirs"):
        named = ", ".join(reply["theirs"])
        told = f"Your cell names {named}, which this exercise is there to build. No check has seen it called."
        yield Remark(f"names {named}", told)

"""A submission gets its points: each answer is sent to the judge, alone in the course's own lesson."""

import time
from dataclasses import dataclass, field

from lessonkit.program import names
from teaching.grading import notebook
from teaching.grading.assignment import GradingError, bare
from teaching.grading.bounded import Failed, bounded
from teaching.grading.learners import printable

SLOWER = 10  # an answer may take this many times the seconds that the course's own takes


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
        return round(sum(mark.points for mark in self.marks if mark.optional == optional), 2)

    def of(self, optional=False):
        return sum(mark.of for mark in self.marks if mark.optional == optional)


class Grader:
    """Gives the answers to a lesson their points. processes: what has them observed and judged, see Processes."""

    def __init__(self, lesson, processes):
        self.lesson, self.processes, self.seconds = lesson, processes, processes.jail.limits.seconds
        self.own = {}  # exercise -> seconds that the course's own answer takes; it has got its points then

    def grade(self, handed, folder):
        """Return the Result of one learner. Whatever a submission is, the next one is graded."""
        started = time.perf_counter()
        file = printable(str(handed.path.relative_to(folder))) if handed.path else ""
        result = Result(handed.learner, file, notebook.digest(handed.path), remarks=list(handed.remarks))
        answers = {number: notebook.Answer() for number in self.lesson.exercises}
        try:
            if handed.path is None:
                raise notebook.Unreadable("there is no notebook in this folder")
            answers = bounded(lambda: notebook.answers(self.lesson, notebook.cells(handed.path)))
        except (notebook.Unreadable, Failed) as error:
            result.why = str(error)
        except Exception as error:
            result.why = f"it could not be read ({type(error).__name__})"
        result.marks = [self._mark(self.lesson.exercises[number], answer) for number, answer in answers.items()]
        result.seconds = time.perf_counter() - started
        return result

    def _mark(self, exercise, answer):
        """Return the Mark of one answer. An error of the grader's own costs this exercise alone."""
        mark = Mark(exercise.number, exercise.difficulty, exercise.optional, cells=answer.cells, remarks=answer.remarks)
        if not answer.cells:
            return mark
        if bare(answer.cells[-1]) == bare(exercise.source):
            mark.verdict = "waits"
            return mark
        try:
            reply = self._fairly(exercise, answer, self._judged(exercise, answer))
        except GradingError:
            raise
        except Exception as error:
            message = f"it could not be graded ({type(error).__name__}: {error})"[:500]
            reply = {"verdict": "stopped", "message": message, "passed": 0, "remarks": []}
        passed, checks = reply["passed"], len(exercise.checks)
        mark.verdict = "partly" if 0 < passed < checks else reply["verdict"]
        mark.message, mark.points = reply["message"], round(exercise.difficulty * passed / checks, 2)
        mark.remarks = [*mark.remarks, *reply["remarks"]]
        return mark

    def _judged(self, exercise, answer, seconds=None):
        """Return the judge's reply on an answer."""
        wanted = {*names(exercise.solved)[0], *answer.reads}
        return self.processes.ask(
            number=exercise.number,
            checks=[(check.name, check.argument) for check in exercise.checks],
            context=self.lesson.context(exercise, wanted),
            cells=answer.cells,
            seconds=seconds or self.seconds,
        )

    def _fairly(self, exercise, answer, reply):
        """Look at a verdict that is not right: the course's own answer gets its points here, and in what time?"""
        if reply["verdict"] in ("right", "waits"):
            return reply
        if exercise.number not in self.own:
            for _ in range(2):  # the machine may have been busy
                own = self._judged(exercise, notebook.Answer([exercise.solved]), SLOWER * self.seconds)
                if own["verdict"] == "right":
                    break
            else:
                why = f"{own['verdict']}: {own['message']}"
                raise GradingError(f"the course's own answer to {exercise.number} gets no points here ({why}).")
            self.own[exercise.number] = own["computed"]
        longer = SLOWER * self.own[exercise.number]
        if reply["message"].startswith("not done") and reply["verdict"] == "stopped" and longer > 2 * self.seconds:
            return self._judged(exercise, answer, longer)
        return reply

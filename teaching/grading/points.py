"""A submission gets its points: each answer is sent to the judge, alone in the course's own lesson."""

from dataclasses import dataclass, field

from lessonkit.program import names
from teaching.grading import notebook
from teaching.grading.assignment import GradingError
from teaching.grading.learners import printable


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
    """A learner's marks. why: why there are none, for a file that could not be read."""

    learner: str
    file: str
    sha256: str
    marks: list
    why: str = ""
    remarks: list = field(default_factory=list)

    def points(self, optional=False):
        return round(sum(mark.points for mark in self.marks if mark.optional == optional), 2)

    def of(self, optional=False):
        return sum(mark.of for mark in self.marks if mark.optional == optional)


class Grader:
    """Gives the answers to a lesson their points. processes: what has them observed and judged, see Processes."""

    def __init__(self, lesson, processes):
        self.lesson, self.processes = lesson, processes
        self.fair = set()  # the exercises to which the course's own answer has got its points in this run

    def grade(self, handed, folder):
        """Return the Result of one learner. Whatever a submission is, the next one is graded."""
        file = printable(handed.path.relative_to(folder)) if handed.path else ""
        marks = [Mark(e.number, e.difficulty, e.optional) for e in self.lesson.exercises.values()]
        result = Result(handed.learner, file, notebook.digest(handed.path), marks, remarks=list(handed.remarks))
        if handed.path is None:
            result.why = "there is no notebook in this folder"
            return result
        try:
            answers = notebook.bounded(lambda: notebook.answers(self.lesson, notebook.cells(handed.path)))
        except notebook.Unreadable as error:
            result.why = str(error)
            return result
        for mark in marks:
            self._mark(mark, self.lesson.exercises[mark.number], answers[mark.number])
        return result

    def _mark(self, mark, exercise, answer):
        """Fill in the Mark of one answer."""
        mark.cells, mark.remarks = answer.cells, answer.remarks
        if not answer.cells:
            return
        if answer.cells[-1].split() == exercise.source.split():
            mark.verdict = "waits"
            return
        reply = self._judged(exercise, answer.cells, answer.reads)
        if reply["verdict"] not in ("right", "waits"):
            self._look_at_the_course(exercise)
        passed, checks = reply["passed"], len(exercise.checks)
        mark.verdict = "partly" if 0 < passed < checks else reply["verdict"]
        mark.message, mark.points = reply["message"], round(exercise.difficulty * passed / checks, 2)
        mark.remarks = [*mark.remarks, *reply["remarks"]]

    def _judged(self, exercise, cells, reads=frozenset()):
        """Return the judge's reply on an answer."""
        return self.processes.ask(
            number=exercise.number,
            checks=[(check.name, check.argument) for check in exercise.checks],
            context=self.lesson.context(exercise, {*names(exercise.solved)[0], *reads}),
            cells=cells,
            seconds=self.processes.jail.limits.seconds,
        )

    def _look_at_the_course(self, exercise):
        """Stop before a first answer is refused, if the course's own gets no points on this machine."""
        if exercise.number in self.fair:
            return
        own = self._judged(exercise, [exercise.solved])
        if own["verdict"] != "right":
            why = f"{own['verdict']}: {own['message']}"
            raise GradingError(f"the course's own answer to {exercise.number} gets no points here ({why}).")
        self.fair.add(exercise.number)

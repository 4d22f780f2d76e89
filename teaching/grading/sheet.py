"""The CSV file with the points: a row a learner, written anew as a whole after each, so that it is never torn."""

import csv
import io
import os
import re
from pathlib import Path

from lessonkit.progress.page import in_order
from teaching.grading import feedback
from teaching.grading.lesson import GradingError

FIRST = ["learner", "points", "of", "optional points", "optional of"]
LAST = ["state", "remarks", "page", "seconds", "file", "sha256", "course", "limits"]
UNJAILED = ", NO JAIL: counts for nothing"
LONGEST = 10_000  # characters of a cell: Python's csv reads none of more than 131,072
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # so a text begins that a spreadsheet would take for one
LIMITS = re.compile(r"([\d.e+]+) s, ([\d.e+]+) GiB(.*)")


class Sheet:
    """The rows of a CSV file. path: it need not be there. lesson: its exercises get a column each.

    limits: what the answers of this run may take, see jail. jailed: whether they run in a jail.
    """

    def __init__(self, path, lesson, limits, jailed=True):
        self.path, self.lesson, self.jailed = Path(path), lesson, jailed
        self.limits = limits.seconds, limits.memory / 2**30
        self.columns = {number: f"ex {number}" for number in lesson.exercises}  # 6.1 alone is a date to a spreadsheet
        self.fields = [*FIRST, *self.columns.values(), *LAST]
        self.rows = {}
        if self.path.is_dir():
            raise GradingError(f"{path} is a folder; name a file, OUT={self.path / 'grades.csv'}.")
        if not self.path.exists():
            return
        try:
            with open(self.path, newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                columns, rows = list(reader.fieldnames or []), list(reader)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise GradingError(f"{path} cannot be read ({error}). {self._other()}") from None
        if columns != self.fields:
            has = f"its columns are {', '.join(columns)}" if columns else "it is empty"
            raise GradingError(f"{path} is no sheet of {lesson.stem} by this edition: {has}. {self._other()}")
        self.rows = {_plain(row["learner"]): row for row in rows}

    def _other(self):
        return f"Nothing was written. Name another file: OUT=grades_{self.lesson.number:02}.csv."

    def has(self, learner, sha256):
        """Whether a learner's row says what this very file gets from this very course, and more would not help."""
        row = self.rows.get(learner, {})
        same = (row.get("sha256"), row.get("course")) == (sha256, self.lesson.digest)
        return bool(sha256) and same and not self._worth_another(row)

    def _worth_another(self, row):
        """Whether a row has an answer that was stopped or ran out of memory, and this run allows more than its run."""
        limits = LIMITS.fullmatch(row.get("limits") or "")
        if not limits or self.jailed and limits[3]:
            return True
        seconds, memory = map(float, limits.groups()[:2])
        roomier = self.limits[1] > memory
        state = row.get("state") or ""
        return (roomier or self.limits[0] > seconds) and "stopped" in state or roomier and "error" in state

    def add(self, result):
        """Put a learner's row into the file, in place of an older one."""
        remarks = [remark.sheet for remark in result.remarks]
        remarks += [f"{m.number}: {remark.sheet}" for m in result.marks for remark in m.remarks]
        row = dict(learner=result.learner, points=result.points(), of=result.of(), file=result.file)
        row |= {"optional points": result.points(True), "optional of": result.of(True)}
        row |= {self.columns[mark.number]: mark.points for mark in result.marks}
        row |= dict(state="; ".join(states(result)), remarks="; ".join(filter(None, [result.why, *remarks])))
        row |= dict(page=f"{self.path.stem}/{feedback.name(result.learner)}", seconds=round(result.seconds, 1))
        row |= dict(sha256=result.sha256, course=self.lesson.digest)
        row["limits"] = "{:g} s, {:g} GiB".format(*self.limits) + ("" if self.jailed else UNJAILED)
        self.rows[result.learner] = {key: _cell(value) for key, value in row.items()}
        self._write()

    def _write(self):
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.fields, restval="")
        writer.writeheader()
        writer.writerows(self.rows[learner] for learner in sorted(self.rows, key=in_order))
        put(self.path, text.getvalue(), "utf-8-sig")  # with its mark, or Excel takes it for cp1252


def put(path, text, encoding="utf-8"):
    """Write a file in one step: there is the old one or the new one, and never a part."""
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding=encoding, newline="", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def states(result):
    """Return what became of the answers that are not right: ["6.1 not yet", "6.3 stopped after 20 s"]."""
    if result.why:
        return ["not graded"]
    if {mark.verdict for mark in result.marks} == {"waits"}:
        return ["nothing answered"]
    return [f"{mark.number} {_state(mark)}" for mark in result.marks if mark.verdict != "right"]


def _state(mark):
    after = re.search(r"after \d+ s", mark.message) if mark.verdict == "stopped" else None
    return f"stopped {after[0]}" if after else feedback.SAYS[mark.verdict].lower()


def _cell(value):
    """Return what stands in a cell: numbers short, and no formula."""
    if isinstance(value, (int, float)):
        return f"{round(value, 2):g}"
    value = value[:LONGEST]
    return f"'{value}" if value.startswith(FORMULA) else value


def _plain(text):
    return text.removeprefix("'") if text[1:].startswith(FORMULA) else text

"""The CSV file with the points: a row a learner, written anew as a whole after each, so that it is never torn."""

import csv
import io
import os
import re
from pathlib import Path

from lessonkit.progress.page import in_order
from teaching.grading import feedback
from teaching.grading.lesson import GradingError

FIRST = ["learner", "points", "of", "optional points", "optional of", "held"]
LAST = ["state", "look", "remarks", "page", "seconds", "file", "sha256", "course", "limits"]
FORMER = ["look", "remarks", "seconds", "file", "sha256", "course"]  # of the first edition; exercises: 6.1, ...
LIMITS = re.compile(r"([\d.e+]+) s, ([\d.e+]+) GiB")
FORMER_LIMITS = 20.0, 2.0  # what the first edition allowed, which did not write it down


class Sheet:
    """The rows of a CSV file. path: it need not be there. lesson: its exercises get a column each.

    limits: what the answers of this run may take, see jail.
    """

    def __init__(self, path, lesson, limits):
        self.path, self.lesson = Path(path), lesson
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
                found, rows = list(reader.fieldnames or []), list(reader)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise GradingError(f"{path} cannot be read ({error}). {self._other()}") from None
        if found == [*FIRST, *lesson.exercises, *FORMER]:
            rows = [{self.columns.get(key, key): value for key, value in row.items()} for row in rows]
        elif found != self.fields:
            columns = f"its columns are {', '.join(found)}" if found else "it is empty"
            raise GradingError(f"{path} is no sheet of {lesson.stem}: {columns}. {self._other()}")
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
        found = LIMITS.fullmatch(row.get("limits") or "")
        seconds, memory = map(float, found.groups()) if found else FORMER_LIMITS
        if self.limits[0] <= seconds and self.limits[1] <= memory:
            return False
        if not row.get("state"):  # all right; the first edition wrote no states
            return not found and any(row[column] == "0" for column in self.columns.values())
        return "stopped" in row["state"] or self.limits[1] > memory and "error" in row["state"]

    def add(self, result):
        """Put a learner's row into the file, in place of an older one."""
        look = [f"{m.number}: {', '.join(m.look)}" for m in result.marks if m.look]
        remarks = [one.sheet for one in result.remarks]
        remarks += [f"{m.number}: {one.sheet}" for m in result.marks for one in m.remarks]
        row = dict(zip(FIRST, (result.learner, result.points(), result.of()), strict=False))
        row |= {"optional points": result.points(True), "optional of": result.of(True), "held": result.held}
        row |= {self.columns[mark.number]: mark.points for mark in result.marks}
        row |= {"state": "; ".join(states(result)), "look": "; ".join(look)}
        row |= {"remarks": "; ".join(filter(None, [result.why, *remarks])), "file": result.file}
        row |= {"page": f"{self.path.stem}/{feedback.name(result.learner)}", "seconds": round(result.seconds, 1)}
        row |= {"sha256": result.sha256, "course": self.lesson.digest}
        row |= {"limits": "{:g} s, {:g} GiB".format(*self.limits)}
        self.rows[result.learner] = {key: _cell(value) for key, value in row.items()}
        self._write()

    def _write(self):
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.fields, restval="")
        writer.writeheader()
        writer.writerows(self.rows[learner] for learner in sorted(self.rows, key=in_order))
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w", encoding="utf-8-sig", newline="") as file:  # with its mark, or Excel takes it for cp1252
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)


def states(result):
    """Return what became of the answers that are not right: ["6.1 not yet", "6.3 stopped after 20 s"]."""
    if result.why:
        return ["not graded"]
    if {mark.verdict for mark in result.marks} == {"waits"}:
        return ["nothing answered"]
    return [f"{mark.number} {_state(mark)}" for mark in result.marks if mark.verdict != "right"]


def _state(mark):
    after = re.search(r"after \d+ s", mark.said) if mark.verdict == "stopped" else None
    return f"stopped {after[0]}" if after else feedback.SAYS[mark.verdict].lower()


def _cell(value):
    """Return what stands in a cell: numbers short, and no text that a spreadsheet would take for a formula."""
    if isinstance(value, (int, float)):
        return f"{round(value, 2):g}"
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _plain(text):
    return text[1:] if text[:2] in ("'=", "'+", "'-", "'@", "'\t", "'\r") else text

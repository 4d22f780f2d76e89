"""The CSV file with the points: a row a learner, written anew as a whole after each, so that it is never torn."""

import csv
import io
import os

from lessonkit.progress.page import in_order
from teaching.grading import pages
from teaching.grading.assignment import GradingError

FIRST = ["learner", "points", "of", "optional points", "optional of"]
LAST = ["state", "remarks", "page", "file", "sha256", "course", "limits"]
LONGEST = 10_000  # characters of a cell: Python's csv reads none of more than 131,072
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # so a text begins that a spreadsheet would take for one


class Table:
    """The rows of a CSV file. path: it need not be there. lesson: its exercises get a column each.

    limits: what the answers of this run may take, see jail.
    """

    def __init__(self, path, lesson, limits):
        self.path, self.lesson = path, lesson
        self.limits = f"{limits.seconds:g} s, {limits.memory / 2**30:g} GiB"
        self.columns = {number: f"ex {number}" for number in lesson.exercises}  # 6.1 alone is a date to a spreadsheet
        self.fields = [*FIRST, *self.columns.values(), *LAST]
        self.rows = self._read() if path.exists() else {}

    def _read(self):
        """Return {learner: row} of the file; GradingError if it is anything but such a table."""
        try:
            with open(self.path, newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                columns, rows = reader.fieldnames, list(reader)
        except (OSError, UnicodeDecodeError, csv.Error):
            columns, rows = None, []
        if columns != self.fields:
            raise GradingError(
                f"{self.path} is no table of {self.lesson.stem} by this edition. Nothing was written. Name another "
                f"file: OUT=grades_{self.lesson.number:02}.csv."
            )
        return {_plain(row["learner"]): row for row in rows}

    def has(self, learner, sha256):
        """Whether a learner's row says what this very file gets from this very course, and other limits do not matter.

        They do for an answer that was stopped, or raised an error, as that memory has run out.
        """
        row = self.rows.get(learner)
        if not row or not sha256 or (row["sha256"], row["course"]) != (sha256, self.lesson.digest):
            return False
        return row["limits"] == self.limits or not any(word in row["state"] for word in ("stopped", "error"))

    def add(self, result):
        """Put a learner's row into the file, in place of an older one."""
        remarks = [result.why, *result.remarks]
        remarks += [f"{mark.number}: {remark}" for mark in result.marks for remark in mark.remarks]
        row = {self.columns[mark.number]: mark.points for mark in result.marks} | {
            "learner": result.learner,
            "points": result.points(),
            "of": result.of(),
            "optional points": result.points(True),
            "optional of": result.of(True),
            "state": state(result),
            "remarks": "; ".join(filter(None, remarks)),
            "page": f"{self.path.stem}/{pages.name(result.learner)}",
            "file": result.file,
            "sha256": result.sha256,
            "course": self.lesson.digest,
            "limits": self.limits,
        }
        self.rows[result.learner] = {key: _cell(value) for key, value in row.items()}
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.fields)
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


def state(result):
    """Return what became of the answers that are not right, as "6.1 not yet; 6.3 stopped"."""
    if result.why:
        return "not graded"
    if {mark.verdict for mark in result.marks} == {"waits"}:
        return "nothing answered"
    left = [mark for mark in result.marks if mark.verdict != "right"]
    return "; ".join(f"{mark.number} {pages.SAYS[mark.verdict].lower()}" for mark in left)


def _cell(value):
    """Return what stands in a cell: numbers short, and no formula."""
    if isinstance(value, (int, float)):
        return f"{value:g}"
    value = value[:LONGEST]
    return f"'{value}" if value.startswith(FORMULA) else value


def _plain(text):
    return text.removeprefix("'") if text[1:].startswith(FORMULA) else text

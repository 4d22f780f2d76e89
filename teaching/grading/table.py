"""The CSV file with the points: a row a learner, written anew as a whole after each, so that it is never torn."""

import csv
import io
import os
import re
from pathlib import Path

from lessonkit.progress.page import in_order
from teaching.grading import pages
from teaching.grading.assignment import GradingError

FIRST = ["learner", "points", "of", "optional points", "optional of"]
LAST = ["state", "remarks", "page", "seconds", "file", "sha256", "course", "limits"]
UNJAILED = ", NO JAIL: counts for nothing"
LONGEST = 10_000  # characters of a cell: Python's csv reads none of more than 131,072
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # so a text begins that a spreadsheet would take for one
LIMITS = re.compile(r"([\d.e+]+) s, ([\d.e+]+) GiB(.*)")


class Table:
    """The rows of a CSV file. path: it need not be there. lesson: its exercises get a column each.

    limits: what the answers of this run may take, see jail. jailed: whether they run in a jail.
    """

    def __init__(self, path, lesson, limits, jailed=True):
        self.path, self.lesson, self.jailed = Path(path), lesson, jailed
        self.limits = limits.seconds, limits.memory / 2**30
        self.columns = {number: f"ex {number}" for number in lesson.exercises}  # 6.1 alone is a date to a spreadsheet
        self.fields = [*FIRST, *self.columns.values(), *LAST]
        self.rows = self._read() if self.path.exists() else {}

    def _read(self):
        """Return {learner: row} of the file; GradingError if it is anything but such a table."""
        try:
            with open(self.path, newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                columns, rows = list(reader.fieldnames or []), list(reader)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise self._refusal(f"cannot be read ({error})") from None
        if columns != self.fields:
            has = f"its columns are {', '.join(columns)}" if columns else "it is empty"
            raise self._refusal(f"is no table of {self.lesson.stem} by this edition: {has}")
        return {_plain(row["learner"]): row for row in rows}

    def _refusal(self, why):
        other = f"OUT=grades_{self.lesson.number:02}.csv"
        return GradingError(f"{self.path} {why}. Nothing was written. Name another file: {other}.")

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
        remarks = [result.why, *result.remarks]
        remarks += [f"{mark.number}: {remark}" for mark in result.marks for remark in mark.remarks]
        row = {self.columns[mark.number]: mark.points for mark in result.marks} | {
            "learner": result.learner,
            "points": result.points(),
            "of": result.of(),
            "optional points": result.points(True),
            "optional of": result.of(True),
            "state": "; ".join(states(result)),
            "remarks": "; ".join(filter(None, remarks)),
            "page": f"{self.path.stem}/{pages.name(result.learner)}",
            "seconds": round(result.seconds, 1),
            "file": result.file,
            "sha256": result.sha256,
            "course": self.lesson.digest,
            "limits": "{:g} s, {:g} GiB".format(*self.limits) + ("" if self.jailed else UNJAILED),
        }
        self.rows[result.learner] = {key: _cell(value) for key, value in row.items()}
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
    """Return what became of the answers that are not right, as "not yet" or "stopped after 20 s", with its exercise."""
    if result.why:
        return ["not graded"]
    if {mark.verdict for mark in result.marks} == {"waits"}:
        return ["nothing answered"]
    return [f"{mark.number} {_state(mark)}" for mark in result.marks if mark.verdict != "right"]


def _state(mark):
    after = re.search(r" after \d+ s", mark.message) if mark.verdict == "stopped" else None
    return pages.SAYS[mark.verdict].lower() + (after[0] if after else "")


def _cell(value):
    """Return what stands in a cell: numbers short, and no formula."""
    if isinstance(value, (int, float)):
        return f"{value:g}"
    value = value[:LONGEST]
    return f"'{value}" if value.startswith(FORMULA) else value


def _plain(text):
    return text.removeprefix("'") if text[1:].startswith(FORMULA) else text

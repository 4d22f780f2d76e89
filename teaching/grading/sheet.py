"""The CSV file with the points: a row a learner, written anew as a whole after each, so that it is never torn."""

import csv
import io
import os
from pathlib import Path

from teaching.grading.lesson import GradingError

FIRST = ["learner", "points", "of", "optional points", "optional of", "held"]
LAST = ["look", "remarks", "seconds", "file", "sha256", "course"]


class Sheet:
    """The rows of a CSV file. path: it need not be there. numbers: the exercises, a column each."""

    def __init__(self, path, lesson):
        self.path, self.lesson = Path(path), lesson
        self.fields = [*FIRST, *lesson.exercises, *LAST]
        self.rows = {}
        if not self.path.exists():
            return
        with open(self.path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != self.fields:
                raise GradingError(
                    f"{self.path} is no sheet of {lesson.stem}: its columns are {', '.join(reader.fieldnames or [])}. "
                    "Nothing was written. Name another file: OUT=grades_06.csv."
                )
            self.rows = {_plain(row["learner"]): row for row in reader}

    def has(self, learner, sha256):
        """Whether a learner's row says what this very file gets from this very course."""
        row = self.rows.get(learner, {})
        return bool(sha256) and (row.get("sha256"), row.get("course")) == (sha256, self.lesson.digest)

    def add(self, result):
        """Put a learner's row into the file, in place of an older one."""
        look = [f"{m.number}: {', '.join(m.look)}" for m in result.marks if m.look]
        remarks = [result.why, *result.remarks, *(f"{m.number}: {r}" for m in result.marks for r in m.remarks)]
        row = dict(zip(FIRST, (result.learner, result.points(), result.of()), strict=False))
        row |= {"optional points": result.points(True), "optional of": result.of(True), "held": result.held}
        row |= {mark.number: mark.points for mark in result.marks}
        row |= {"look": "; ".join(look), "remarks": "; ".join(filter(None, remarks)), "file": result.file}
        row |= {"seconds": round(result.seconds, 1), "sha256": result.sha256, "course": self.lesson.digest}
        self.rows[result.learner] = {key: _cell(value) for key, value in row.items()}
        self._write()

    def _write(self):
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.fields)
        writer.writeheader()
        writer.writerows(self.rows.values())
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)


def _cell(value):
    """Return what stands in a cell: numbers short, and no text that a spreadsheet would take for a formula."""
    if isinstance(value, (int, float)):
        return f"{round(value, 2):g}"
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _plain(text):
    return text[1:] if text[:2] in ("'=", "'+", "'-", "'@", "'\t", "'\r") else text

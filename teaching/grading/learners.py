"""Whose is what in a folder of submissions: a notebook for each learner."""

import os
import re
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path

from lessonkit.progress.page import in_order
from teaching.grading import notebook
from teaching.grading.assignment import GradingError

COPY = re.compile(r"( ?\(\d+\)|-Copy\d+)+$")  # what browsers and JupyterLab put after the name of a second copy


@dataclass(frozen=True)
class Handed:
    """What a learner handed in. path: None if there is no notebook. remarks: how it was chosen."""

    learner: str
    path: Path | None
    remarks: tuple = ()


def handed_in(folder, lesson):
    """Return a Handed for each learner in a folder, in the order of their names.

    A learner is a file (NAME.ipynb, NAME_ and the lesson's stem) or a folder with notebooks anywhere in it.
    """
    handed = {}
    for path in sorted(folder.glob("*"), key=lambda path: (bool(COPY.search(path.stem)), path)):  # copies come last
        if path.name.startswith((".", "__")) or path.is_symlink() or not (path.is_dir() or path.suffix == ".ipynb"):
            continue
        submitted = _whatever_is_in(path, lesson) if path.is_dir() else _from_file(path, lesson)
        if first := handed.get(submitted.learner):
            remark = f"there are two submissions called {first.learner}, each with a row and a page: {{}}"
            remark = remark.format(" and ".join(printable(one.name) for one in (first.path, path) if one))
            handed[first.learner] = replace(first, remarks=(*first.remarks, remark))
            submitted = replace(submitted, learner=printable(path.name), remarks=(*submitted.remarks, remark))
        handed[submitted.learner] = submitted
    if not handed:
        raise GradingError(f"{folder} holds no notebook and no folder of a learner. Name one that does: IN=submitted.")
    return sorted(handed.values(), key=lambda submitted: in_order(submitted.learner))


def printable(name):
    """Return a name as it can be printed, and as most systems write it (macOS stores Ü as two characters).

    Bytes that are no text and signs that command a screen become \\xff.
    """
    text = unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "backslashreplace"))
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _from_file(path, lesson):
    """Return the Handed of a notebook that lies among others: its name without the lesson's is the learner's."""
    plain = COPY.sub("", path.stem)
    return Handed(printable(plain.removesuffix(lesson.stem).rstrip("_- ") or path.stem), path)


def _whatever_is_in(folder, lesson):
    try:
        path, remarks = notebook.bounded(lambda: _notebook_in(folder, lesson))
    except notebook.Unreadable as error:
        path, remarks = None, (f"the folder: {error}",)
    return Handed(printable(folder.name), path, remarks)


def _notebook_in(folder, lesson):
    """Return (the notebook called as the lesson, else one with its exercises, else any, else None; remarks)."""
    paths = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts and path.is_file() and not path.is_symlink()
    ]
    fitting = [path for path in paths if lesson.stem in path.stem]
    fitting = fitting or [path for path in paths if _holds(path, lesson)]
    fitting = fitting or paths  # to say what they hold instead
    chosen = max(fitting, key=lambda path: path.stat().st_mtime, default=None)
    several = f"{len(fitting)} notebooks would do; the newest was graded: {chosen and printable(chosen.name)}"
    return chosen, (several,) * (len(fitting) > 1)


def _holds(path, lesson):
    try:
        return not lesson.exercises.keys().isdisjoint(notebook.exercises_in(notebook.cells(path)))
    except Exception:  # whatever a file is, another one may do
        return False

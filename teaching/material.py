"""A lesson as material to teach with: what the course knows of it, and what its cells have put out.

The outputs are those of the solutions edition in notebooks/; no kernel runs. Site, slides and plans are made from it.
"""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from coursebuild import frame, manifest, source
from coursebuild.manifest import MINUTES, kind_of
from lessonkit import course

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ROOT / "lessons_src/lessons"
PACKAGES = ROOT / "teaching/node_modules"  # what pages load in a browser, as package.json says
# What is printed for the one who sits at a kernel alone: colors, and whose layer it is (lessonkit.mine).
PRIVATE = re.compile(r"\x1b\[[\d;]*m|^\w+: the course's own, from lesson \d+\.\n", re.MULTILINE)

# A reader answers a question in a minute (coursebuild/minutes.py). A class votes, two people say why, and the cell is
# run: about 90 s. To try something in the notebook and to say what was seen takes it two minutes, a reader one and a
# half. Both are an instructor's guess and no measurement; all clocks of a class take them from here.
CLASS_QUESTION = 1.5
CLASS_TRY = 2
LONGER = {"questions": CLASS_QUESTION - MINUTES["questions"], "tries": CLASS_TRY - MINUTES["tries"]}


@dataclass
class Figure:
    """A picture: png (bytes), alt (in words), caption (Markdown), width (CSS pixels on a page).

    numbers: what it draws, as CSV, "" for a diagram; rows: how many rows that would be if none were left out.
    """

    png: bytes
    alt: str
    caption: str
    width: int
    numbers: str = ""
    rows: int = 0


@dataclass
class Explorable:
    """Something to play with: the name of its module, the parameters that it begins with, its stored picture as SVG."""

    name: str
    state: dict
    picture: str = field(default="", compare=False)


def stems():
    """Return the stems of the lessons in the manifest, in order."""
    return list(course.lessons())


def every():
    """Return the stems of all lessons, in order. Those that run without the kit come first and are in no manifest."""
    alone = (room.name for room in source.rooms(ROOT) if room.name not in course.pages())
    return [*alone, *stems()]


def references():
    """Return the stems of what is there to look things up and is no lesson."""
    return [stem for stem in course.pages() if stem not in stems()]


def stored(stem, solved=True):
    """Return a built notebook as a dictionary: of the solutions edition, or of the learners'."""
    folder = "notebooks/solutions" if solved else "notebooks"
    path = ROOT / folder / f"{stem}.ipynb"
    if not path.exists():
        raise FileNotFoundError(f"{folder}/{stem}.ipynb is missing. Build it: make notebooks")
    return json.loads(path.read_text(encoding="utf-8"))


def solved(stem):
    """Return the Lesson of a stem with its solutions, read anew, and without outputs."""
    if stem in course.pages():
        return course.solved(stem)
    lesson = manifest.lesson(frame.read(ROOMS / stem))
    for exercise in lesson.exercises:  # it defines YourTurn itself
        exercise.source = exercise.source.replace("raise YourTurn(", "raise check.YourTurn(")
    return lesson


def read(stem):
    """Return the Lesson of a stem with solutions and outputs; ValueError where the notebook is of an older build."""
    lesson = solved(stem)
    outputs = {cell["id"]: _outputs(cell) for cell in stored(stem)["cells"] if cell["cell_type"] == "code"}
    for cell in [*lesson.code, *(check for exercise in lesson.exercises for check in exercise.checks)]:
        if cell.id not in outputs:
            raise ValueError(f"The solutions edition of {stem} was built from an older source. Run `make notebooks`.")
        cell.outputs = outputs[cell.id]
    return lesson


def pictures(lesson):
    """Return all Figures and Explorables that the cells of a Lesson put out, in order."""
    outputs = (output for cell in lesson.code for output in getattr(cell, "outputs", ()))
    return [output for output in outputs if isinstance(output, Figure | Explorable)]


def in_class(part):
    """Return the minutes that a Section or an Exercise takes in a class: a reader's by the model, and what it adds.

    The minutes on an exercise's card are for the exercise itself; the model knows what goes into finding the way.
    """
    if isinstance(part, course.Exercise):
        return MINUTES[kind_of(part)] * part.minutes
    return part.minutes + manifest.minutes(manifest.counts(part)[0], LONGER)


def keeper(folder, stem):
    """Return a function that writes a picture (bytes) of a lesson into folder, and returns its path as a page sees it.

    A page lies beside the folder.
    """
    folder.mkdir(exist_ok=True)

    def keep(png):
        path = folder / f"{stem}-{hashlib.sha256(png).hexdigest()[:8]}.png"
        path.write_bytes(png)
        return f"{folder.name}/{path.name}"

    return keep


def _outputs(cell):
    """Return the outputs of a cell: Figures with their captions, Explorables, and all else as text."""
    shown = []
    for out in cell["outputs"]:
        data = out.get("data", {})
        if out["output_type"] == "stream":
            shown.append(PRIVATE.sub("", "".join(out["text"])))
        elif out["output_type"] == "error":
            shown.append(f"{out['ename']}: {out['evalue']}\n")
        elif "explore" in (about := out["metadata"].get("image/svg+xml", {})):
            shown.append(Explorable(about["explore"], about["state"], "".join(data.get("image/svg+xml", ""))))
        elif "image/png" in data:
            stored = out["metadata"].get("image/png", {})
            words = data.get("text/plain", ""), "", stored.get("width", 770)
            numbers = stored.get("numbers", ""), stored.get("rows", 0)
            shown.append(Figure(base64.b64decode(data["image/png"]), *words, *numbers))
        elif "text/markdown" in data and shown and isinstance(shown[-1], Figure) and not shown[-1].caption:
            shown[-1].caption = data["text/markdown"].strip().removeprefix("*").removesuffix("*")
        else:
            shown.append(data.get("text/plain", "") + "\n")
    return [output for output in shown if output]

"""Make the two editions of a lesson's notebook, run them, and write both or none."""

import hashlib
import json
import re
import time
from dataclasses import dataclass

import nbformat

from coursebuild import budgets
from coursebuild.digest import digest
from coursebuild.execution import OTHER_PROCESSOR, errors, execute
from coursebuild.outputs import clean, compared, place, refuse_moved
from coursebuild.source import LessonError, blank

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
INVENTORY = re.compile(r"\]\((?=inventory_[ab]\.ipynb\))")  # has no solutions edition
UPWARDS = re.compile(r"""(\]\(<?|^ *\[[^]]+\]: *<?|\b(?:href|src)=["'])\.\./""", re.MULTILINE)  # a link in Markdown

# JupyterLab shows the first line of a folded cell, and that line may not answer a prediction above or below it.
FOLDED = "# Folded: this cell draws, checks or prepares. Run it like any other; click here to look inside."


def notebook(lesson, edition):
    """Return the un-run notebook of an edition, "learner" or "solutions"."""
    cells = []
    for cell in lesson.cells:
        learner, solution = blank(lesson, cell)
        source = learner if edition == "learner" else solution
        if cell.type == "markdown" and edition == "solutions":  # one folder deeper
            source = INVENTORY.sub("](../", UPWARDS.sub(r"\1../../", source))
        tags = list(cell.tags)
        if "timed" in tags and "nbval-ignore-output" not in tags:
            tags.append("nbval-ignore-output")
        metadata = {"tags": tags} if tags else {}
        if "hide-input" in tags:  # JupyterLab folds the code, and shows what it puts out
            metadata["jupyter"] = {"source_hidden": True}
            if lesson.alone:
                metadata["cellView"] = "form"  # the same for Google Colab
            if cell.type == "code":
                source = f"{FOLDED}\n{source}"
        stored = {"id": cell.id, "cell_type": cell.type, "metadata": metadata, "source": source}
        cells.append(stored | ({"execution_count": None, "outputs": []} if cell.type == "code" else {}))
    stored = nbformat.v4.new_notebook(cells=[nbformat.from_dict(cell) for cell in cells])  # build validates it whole
    stored.metadata = nbformat.from_dict(METADATA)
    return stored


def build(lesson, say=print):
    """Build both editions of one lesson. Nothing is written unless both are right, the solutions on any processor.

    Returns what took longer than it may, a line each; the notebooks are written all the same.
    """
    paths = {edition: target(lesson, edition) for edition in ("solutions", "learner")}
    for path in paths.values():
        refuse_edited(path, lesson.root)
    folder = lesson.root / "notebooks"
    folder.mkdir(exist_ok=True)

    solutions, solved = _solve(lesson, folder)
    times, again = {"solutions": solved}, 0
    if any(map(compared, solutions.cells)):
        others, there = _solve(lesson, folder, **OTHER_PROCESSOR)
        again = there.total
        for cell, other, source in zip(solutions.cells, others.cells, lesson.cells, strict=True):
            refuse_moved(lesson, cell, other, source)

    learner = notebook(lesson, "learner")
    times["learner"] = _run(lesson, learner, folder)
    for cell, twin, source in zip(learner.cells, solutions.cells, lesson.cells, strict=True):
        if source.type != "code":
            continue
        raised = errors(cell)
        if raised and raised[0][0] != "YourTurn" and raised != errors(twin):
            what = f"{raised[0][0]}: {raised[0][1][:300]}"
            lesson.fail(
                source.line,
                f"in the untouched learner edition the cell raises {what}. Only 'your turn' "
                "may show: let it depend on the blank through a plain name.",
            )
        clean(lesson, cell, source)
        tags = cell.metadata.get("tags", [])
        if (raised or {"exercise", "check"} & set(tags)) and "raises-exception" not in tags:
            cell.metadata["tags"] = [*tags, "raises-exception"]
        cell.outputs, cell.execution_count = [], None

    whole, texts = digest(lesson), {}
    for edition, built in (("solutions", solutions), ("learner", learner)):
        built.metadata["lesson"] = {
            "source": lesson.path.relative_to(lesson.root).as_posix(),
            "digest": whole,
            "cells": fingerprint(built),
        }
        built.metadata["language_info"] = {"name": "python"}
        nbformat.validate(built)
        texts[edition] = json.dumps(built, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    for edition, text in texts.items():
        paths[edition].parent.mkdir(exist_ok=True)
        paths[edition].write_text(text, encoding="utf-8", newline="\n")
    return _report(lesson, times, again, say)


def _solve(lesson, folder, **settings):
    """Run the solutions edition and refuse what may not be stored. Return (its notebook, its Times)."""
    solved = notebook(lesson, "solutions")
    times = _run(lesson, solved, folder, **settings)
    where = f" with {' '.join(f'{name}={value}' for name, value in settings.items())}" if settings else ""
    for cell, source in zip(solved.cells, lesson.cells, strict=True):
        if source.type != "code":
            continue
        raised = errors(cell)
        if raised and "raises-exception" not in source.tags:
            lesson.fail(place(cell, source), f"the cell raises{where} {raised[0][0]}: {raised[0][1][:800]}")
        if not raised and "raises-exception" in source.tags:
            lesson.fail(source.line, f"the cell is tagged raises-exception and does not raise{where}. Remove the tag.")
        clean(lesson, cell, source)
    return solved, times


@dataclass
class Times:
    """Seconds of one Run All. total: with the start of the kernel. cells: {index of a code cell: its seconds}.

    first: until the first cell that shows something has run, without the start of the kernel; 0 if none does.
    """

    total: float
    cells: dict
    first: float

    @property
    def slowest(self):
        """The index of the cell that took longest."""
        return max(self.cells, key=self.cells.get)


def _run(lesson, book, folder, **settings):
    """Run a notebook in place and return its Times."""
    start = time.perf_counter()
    cells = execute(lesson, book, folder, **settings)
    total = time.perf_counter() - start
    shown = min((i for i, cell in enumerate(book.cells) if cell.get("outputs")), default=-1)
    return Times(total, cells, sum(seconds for i, seconds in cells.items() if i <= shown))


def _report(lesson, times, again, say):
    """Say how long both editions took; return what is over the budget, a line each, with the way out.

    again: the seconds of the run with other kernels, which has no budget; 0 if there was none.
    """
    budget, over, parts = budgets.budget(lesson.number), [], []
    for edition, took in times.items():
        if not took.cells:  # a lesson without code
            continue
        cell = took.cells[took.slowest]
        parts.append(f"{edition} {took.total:.1f} s, slowest cell {cell:.1f} s, first output after {took.first:.1f} s")
        line = lesson.cells[took.slowest].line
        for what, value, limit, at in (
            (f"Run All of the {edition} edition takes", took.total, budget["lesson"], 1),
            (f"in the {edition} edition the cell takes", cell, budget["cell"], line),
            (f"the {edition} edition shows nothing for", took.first, budget["first output"], 1),
        ):
            if value > limit:
                over.append(
                    f"{lesson.place(at)}: OVER BUDGET: {what} {value:.1f} s, at most {limit} s are allowed. Make it "
                    "smaller or record it (runs.load_or_run). On a busy machine, build it again later."
                )
    parts += [f"with other kernels {again:.1f} s"] if again else []
    say(f"{lesson.stem}: {'; '.join(parts) or 'no code'}")
    return over


def target(lesson, edition):
    folder = lesson.root / "notebooks"
    return (folder / "solutions" if edition == "solutions" else folder) / f"{lesson.stem}.ipynb"


def fingerprint(book):
    """Return the SHA-256 of a notebook's cells: type and text, not tags and outputs."""
    return hashlib.sha256(json.dumps([[c["cell_type"], text_of(c)] for c in book["cells"]]).encode()).hexdigest()


def text_of(cell):
    """Return the text of a cell of a stored notebook, which may be a list of lines."""
    return "".join(cell["source"])


def refuse_edited(path, root):
    """Refuse to overwrite a notebook whose cells are not those that were written here."""
    if not path.exists():
        return
    name = path.relative_to(root).as_posix()
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        mine = old["metadata"]["lesson"]["cells"] == fingerprint(old)
    except (ValueError, KeyError, TypeError):
        mine = False
    if not mine:
        raise LessonError(
            f"{name}: its cells are not those that coursebuild wrote, so it is not overwritten. To keep them: "
            f"mkdir -p work && cp {name} work/mine_{path.name}. Then delete {name} and build again. "
            "A lesson is changed in lessons_src/lessons."
        )

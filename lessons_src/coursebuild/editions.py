"""Make the two editions of a lesson's notebook, run them, and write both or none."""

import re
import time
from dataclasses import dataclass

import nbformat

from coursebuild.digest import digest
from coursebuild.notebooks import (
    IGNORED,
    METADATA,
    OTHER_PROCESSOR,
    clean,
    compared,
    errors,
    execute,
    fingerprint,
    refuse_edited,
    refuse_moved,
    stored,
)
from coursebuild.source import blank

EDITIONS = ("learner", "solutions")
# Seconds that Run All may take on two cores without a GPU, a cell of it, and what comes before its first output.
BUDGET = {"lesson": 30, "cell": 10, "first output": 4}
TRAINING = BUDGET | {"lesson": 90, "cell": 30}  # of a lesson that trains while one watches
INVENTORY = re.compile(r"\]\((?=inventory_[ab]\.ipynb\))")  # has no solutions edition
UPWARDS = re.compile(r"""(\]\(<?|\b(?:href|src)=["'])\.\./""")  # a link in Markdown

RULE = re.compile(r"^\*\*[^*]+\.\*\*.*$", re.MULTILINE)  # a paragraph that begins with a rule in bold
TASK = re.compile(r"Now |.*\*\*Find out")
# JupyterLab shows the first line of a folded cell, and that line may not answer a prediction above or below it.
FOLDED = "# Folded: this cell draws, checks or prepares. Run it like any other; click here to look inside."


@dataclass
class Times:
    """Seconds of one Run All. total: with the start of the kernel. cells: {index of a code cell: its seconds}.

    first: until the first cell that shows something has run, without the start of the kernel; 0 if none does.
    """

    total: float
    cells: dict
    first: float


def notebook(lesson, edition):
    """Return the un-run notebook of an edition, "learner" or "solutions"."""
    cells, asked = [], ("", False)
    for cell in lesson.cells:
        learner, solution = blank(lesson, cell)
        source = learner if edition == "learner" else solution
        if edition == "learner":
            source, asked = _folded(cell, source, asked)
        if cell.type == "markdown" and edition == "solutions":  # one folder deeper
            source = INVENTORY.sub("](../", UPWARDS.sub(r"\1../../", source))
        tags = list(cell.tags)
        if "timed" in tags and IGNORED not in tags:
            tags.append(IGNORED)
        metadata = {"tags": tags} if tags else {}
        if "hide-input" in tags:  # JupyterLab folds the code, and shows what it puts out
            metadata["jupyter"] = {"source_hidden": True}
            if lesson.alone:
                metadata["cellView"] = "form"  # the same for Google Colab
            if cell.type == "code":
                source = f"{FOLDED}\n{source}"
        made = {"id": cell.id, "cell_type": cell.type, "metadata": metadata, "source": source}
        cells.append(made | ({"execution_count": None, "outputs": []} if cell.type == "code" else {}))
    book = nbformat.v4.new_notebook(cells=[nbformat.from_dict(cell) for cell in cells])  # build validates it whole
    book.metadata = nbformat.from_dict(METADATA)
    return book


def _folded(cell, source, asked):
    """Return the text of a cell with what closes a prediction in a fold, and what is asked after it.

    asked: (the place of the prediction that is open, whether code has followed it). What closes it is the text up to
    the last rule above a heading or a fold, or its first paragraph, unless that is a task.
    """
    place, ran = asked
    if cell.type == "code":
        done = not place or {"exercise", "check"} & set(cell.tags)
        return source, ("", False) if done else (place, ran or "predict" not in cell.tags)
    text = source.removesuffix(cell.asked)
    body = re.split(r"^(?=#|<details)", text, maxsplit=1, flags=re.MULTILINE)[0]
    if place and body.strip() and not cell.made and (ran or RULE.match(body)):
        first = body.partition("\n\n")[0]
        end = max([rule.end() for rule in RULE.finditer(body)], default=0 if TASK.match(first) else len(first.rstrip()))
        if end:
            told = f"<summary>Once you have answered</summary>\n\n{body[:end]}\n\n</details>"
            source = f'<details class="after-{place}">{told}{source[end:]}'
        place = ""
    if cell.question:
        return source, (cell.question.place if cell.question.kind == "Predict" else "", False)
    return source, (place, ran) if body == text else ("", False)


def build(lesson):
    """Build both editions of one lesson. Nothing is written unless both are right, the solutions on any processor.

    Returns what took longer than it may, a line each.
    """
    for edition in EDITIONS:
        refuse_edited(lesson.notebook(edition), lesson.root)
    lesson.notebook("solutions").parent.mkdir(parents=True, exist_ok=True)
    books, times = {}, {}
    books["solutions"], times["solutions"] = _solutions(lesson)
    if any(map(compared, books["solutions"].cells)):
        others, _ = _solutions(lesson, **OTHER_PROCESSOR)
        for cell, other, source in zip(books["solutions"].cells, others.cells, lesson.cells, strict=True):
            refuse_moved(lesson, cell, other, source)
    books["learner"], times["learner"] = _learner(lesson, books["solutions"])
    whole, texts = digest(lesson), {}
    for edition, book in books.items():
        about = {"source": lesson.path.relative_to(lesson.root).as_posix(), "digest": whole, "cells": fingerprint(book)}
        book.metadata |= {"lesson": about, "language_info": METADATA["language_info"]}
        nbformat.validate(book)
        texts[lesson.notebook(edition)] = stored(book)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return _report(lesson, times)


def _solutions(lesson, **settings):
    """Run the solutions edition and refuse what may not be stored. Return (its notebook, its Times)."""
    solved = notebook(lesson, "solutions")
    times = _run(lesson, solved, **settings)
    where = f" with {' '.join(f'{name}={value}' for name, value in settings.items())}" if settings else ""
    for cell, source in _code(lesson, solved):
        raised = errors(cell)
        if raised and "raises-exception" not in source.tags:
            lesson.fail(source.line, f"the cell raises{where} {raised[0][0]}: {raised[0][1][:800]}")
        if not raised and "raises-exception" in source.tags:
            lesson.fail(source.line, f"the cell is tagged raises-exception and does not raise{where}. Remove the tag.")
        clean(lesson, cell, source)
    return solved, times


def _learner(lesson, solutions):
    """Run the learner edition, in which only 'your turn' may be raised. Return (it without outputs, its Times)."""
    book = notebook(lesson, "learner")
    times = _run(lesson, book)
    raised_there = {cell.id: errors(cell) for cell in solutions.cells}
    for cell, source in _code(lesson, book):
        raised = errors(cell)
        if raised and raised[0][0] != "YourTurn" and raised != raised_there[cell.id]:
            lesson.fail(
                source.line,
                f"in the untouched learner edition the cell raises {raised[0][0]}: {raised[0][1][:300]}. Only 'your "
                "turn' may show: let it depend on the blank through a plain name.",
            )
        clean(lesson, cell, source)
        tags = cell.metadata.get("tags", [])
        if (raised or {"exercise", "check"} & set(tags)) and "raises-exception" not in tags:
            cell.metadata["tags"] = [*tags, "raises-exception"]
        cell.outputs, cell.execution_count = [], None
    return book, times


def _code(lesson, book):
    pairs = zip(book.cells, lesson.cells, strict=True)
    return [(cell, source) for cell, source in pairs if source.type == "code"]


def _run(lesson, book, **settings):
    """Run a notebook in place and return its Times."""
    start = time.perf_counter()
    cells = execute(lesson, book, lesson.root / "notebooks", **settings)
    total = time.perf_counter() - start
    shown = min((i for i, cell in enumerate(book.cells) if cell.get("outputs")), default=-1)
    return Times(total, cells, sum(seconds for i, seconds in cells.items() if i <= shown))


def _report(lesson, times):
    """Say how long both editions took; return what is over the budget, a line each, with the way out."""
    budget, over, parts = TRAINING if lesson.trains else BUDGET, [], []
    for edition, took in times.items():
        if not took.cells:  # a lesson without code
            continue
        slowest = max(took.cells, key=took.cells.get)
        cell, line = took.cells[slowest], lesson.cells[slowest].line
        parts.append(f"{edition} {took.total:.1f} s, slowest cell {cell:.1f} s, first output after {took.first:.1f} s")
        for what, seconds, limit, at in (
            (f"Run All of the {edition} edition takes", took.total, budget["lesson"], 1),
            (f"in the {edition} edition the cell takes", cell, budget["cell"], line),
            (f"the {edition} edition shows nothing for", took.first, budget["first output"], 1),
        ):
            if seconds > limit:
                over.append(
                    f"{lesson.place(at)}: OVER BUDGET: {what} {seconds:.1f} s, at most {limit} s are allowed. Make it "
                    "smaller, or make it a record (evidence.py). On a busy machine, build it again later."
                )
    print(f"{lesson.stem}: {'; '.join(parts) or 'no code'}")
    return over

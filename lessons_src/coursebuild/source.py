"""Read one lesson's source and refuse what would build a wrong notebook, with its line and the way out.

A source is a Python file in jupytext's py:percent form, lessons_src/lessons/NN_name/lesson.py.
"""

import hashlib
import re
from pathlib import Path

import jupytext

from coursebuild import frame, options
from coursebuild.cells import Cell, LessonError, Source
from lessonkit.course import CARD

__all__ = ["BEGIN", "CELL", "END", "ROOT", "TAGS", "LessonError", "blank", "read"]

ROOT = Path(__file__).resolve().parents[2]
CODE_TAGS = {"exercise", "check", "export", "record", "timed", "raises-exception", "way-back"}  # of no use on Markdown
TAGS = CODE_TAGS | {"optional", "nbval-ignore-output", "hide-input", "slide", "no-slide", "no-site"}
BEGIN = {"code": re.compile(r"( *)### BEGIN SOLUTION"), "markdown": re.compile(r"( *)<!-- BEGIN SOLUTION -->")}
END = {"code": re.compile(r"( *)### END SOLUTION"), "markdown": re.compile(r"( *)<!-- END SOLUTION -->")}
CELL = re.compile(r'# %%(?P<markdown> \[markdown\])?( tags=\[(?P<tags>"[^"]*"(, "[^"]*")*)\])?( id="(?P<id>[^"]*)")?')
MISSPELT = re.compile(r"(?<![a-z])(begin|end)[\s_-]*solution|^\s*(###|<!--)\s*(begin|end)\b", re.IGNORECASE)


def read(path):
    """Read one lesson and refuse what would build a wrong notebook: unknown tags, bad marks, duplicate ids."""
    lesson = Source(path, [])
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", lesson.stem):
        lesson.fail(1, "a lesson's folder is called like 02_statistics. Rename it.")
    try:
        text = lesson.file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        lesson.fail(1, f"the file is not UTF-8 (byte {error.start}). Save it as UTF-8.")
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines, 1) if re.match(r"#\s*%%", line)]
    for number in starts:
        _options(lesson, number, lines[number - 1].rstrip())
    if starts[:1] != [1]:
        lesson.fail(1, "a lesson starts with '# %% [markdown]' on its first line. Remove what stands before it.")
    notebook = jupytext.reads(text, fmt="py:percent")
    if len(notebook.cells) != len(starts):
        lesson.fail(
            1,
            f"{len(starts)} '# %%' lines, but jupytext sees {len(notebook.cells)} cells. "
            "Look for a '# %%' that is indented or inside a string, or for '# In[1]:'.",
        )
    seen = {}
    for raw, line in zip(notebook.cells, starts, strict=True):
        cell = _cell(lesson, raw, line)
        if cell.id in seen:
            lesson.fail(line, f"the id {cell.id!r} is taken by the cell at line {seen[cell.id]}. Give it another one.")
        seen[cell.id] = line
        blank(lesson, cell)  # refuses malformed marks
        if cell.type == "code":
            lesson.cells += [*frame.card(lesson, cell), cell]
            continue
        options.expand(lesson, cell)
    lesson.cells += [*frame.how_far(lesson), *frame.what_next(lesson)]
    title = f"# {int(lesson.number)} · "
    if not lesson.cells[0].type == "markdown" or not lesson.cells[0].source.startswith(title):
        lesson.fail(1, f"the first cell is Markdown and starts with the title. Write '{title}...' there.")
    return lesson


def _options(lesson, number, line):
    """Refuse a line that begins a cell and is not in our form, or has wrong tags or a wrong id."""
    marker = CELL.fullmatch(line)
    if not marker:
        lesson.fail(
            number,
            f"{line!r} is not how a cell begins. Write '# %%' or '# %% [markdown]' and, where they are "
            'needed, tags=["check"] and then id="ex-3-1".',
        )
    tags = re.findall('"([^"]*)"', marker["tags"] or "")
    for tag in tags:
        if tag not in TAGS:
            lesson.fail(number, f"unknown tag {tag!r}, expected one of {', '.join(sorted(TAGS))}.")
    if marker["markdown"] and set(tags) & CODE_TAGS:
        lesson.fail(number, f"the tags {tags} belong to code cells, this one is Markdown. Remove them.")
    if marker["id"] is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", marker["id"]):
        lesson.fail(number, f"the id {marker['id']!r} is not one to 64 letters, digits, '-' and '_'. Rename it.")


def _cell(lesson, raw, line):
    source, tags, ident = raw.source.rstrip("\n"), raw.metadata.get("tags", []), raw.metadata.get("id")
    if not source.strip():
        lesson.fail(line, "an empty cell. Fill it or remove it.")
    if re.search(r"^\s*#+\s*(NBVAL|PYTEST_VALIDATE)_", source, re.MULTILINE):
        lesson.fail(line, "a comment that steers nbval past the rules for tags. Remove it, or use a tag.")
    card = CARD.search(source)
    if "exercise" in tags and not (card and card[3]):
        lesson.fail(line, "an exercise without its card. Add it on a line: '# Exercise 3.1 · ●●○○○ · 5 min'.")
    digest = hashlib.sha256("\0".join([lesson.stem, raw.cell_type, source]).encode()).hexdigest()[:10]
    repeats = sum(cell.id == digest or cell.id.startswith(digest + "-") for cell in lesson.cells)
    return Cell(raw.cell_type, source, list(tags), ident or (f"{digest}-{repeats + 1}" if repeats else digest), line)


def blank(lesson, cell):
    """Return (learner's source, solutions' source) of a cell: marked regions replaced, or only the marks removed."""
    if cell.learner is not None:
        return cell.learner, cell.source
    learner, solution, region = [], [], None
    begin, end = BEGIN[cell.type], END[cell.type]
    for number, line in enumerate(cell.source.splitlines(), cell.line + 1):
        opening, closing = begin.fullmatch(line.rstrip()), end.fullmatch(line.rstrip())
        if opening:
            if region:
                lesson.fail(number, f"BEGIN SOLUTION inside the solution that begins at line {region[1]}. End that.")
            region = (opening[1], number, len(solution))
        elif closing:
            if not region:
                lesson.fail(number, "END SOLUTION without a BEGIN SOLUTION before it. Add it, or remove this line.")
            if closing[1] != region[0]:
                lesson.fail(number, f"END SOLUTION is indented unlike BEGIN SOLUTION at line {region[1]}. Align it.")
            learner.append(_turn(lesson, cell, opening=region[0], answer=solution[region[2] :]))
            region = None
        elif MISSPELT.search(line):
            form = "### BEGIN SOLUTION" if cell.type == "code" else "<!-- BEGIN SOLUTION -->"
            lesson.fail(number, f"a malformed mark: {line.strip()!r}. Write it alone on its line, as '{form}'.")
        else:
            solution.append(line)
            if not region:
                learner.append(line)
    if region:
        lesson.fail(region[1], "BEGIN SOLUTION is never closed. Add END SOLUTION with the same indentation.")
    marked = len(solution) != len(cell.source.splitlines())
    if marked and cell.type == "code" and "exercise" not in cell.tags:
        lesson.fail(cell.line, 'a solution stands between marks, but the cell has no tag. Add tags=["exercise"].')
    if "exercise" in cell.tags and not marked:
        lesson.fail(cell.line, "an exercise without a solution. Put ### BEGIN SOLUTION and ### END SOLUTION round it.")
    return "\n".join(learner), "\n".join(solution)


def _turn(lesson, cell, opening, answer):
    """Return what stands in the learner edition for a region; it says which names an answer at top level binds."""
    if cell.type == "markdown":
        return f"{opening}*Your answer:*"
    number = CARD.search(cell.source)
    bound = [] if opening else list(dict.fromkeys(re.findall(r"^(\w+) = ", "\n".join(answer), re.MULTILINE)))
    wanted = f": {', '.join(f'{name} = ...' for name in bound)}" if bound else ""
    error = "YourTurn" if lesson.alone else "check.YourTurn"
    return f'{opening}raise {error}("{number[1]}: replace this line by your answer{wanted}")' if number else ""

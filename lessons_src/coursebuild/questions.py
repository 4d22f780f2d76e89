"""Predictions and recall questions: a list of options in the source, a lettered question and a cell in the notebook.

    # **Predict 1.1:** how much of the signal is left after fifty layers?
    # - [ ] most of it :: A layer keeps 71 %, and 0.71 · 0.71 is 0.50 already.
    # - [x] next to nothing :: Twenty-five halvings: 3e-8.

becomes the question with the options a and b, and the cell `check.predict("1.1", "")`. The reasons are not in the
notebook's sight: they are written to lessonkit/check/questions/, where check.predict finds them.

In a lesson that runs without the kit (lesson 0) the options become folds that open on their reasons.
"""

import json
import re

from coursebuild.cells import Cell
from coursebuild.frame import answers, exercises

ASKS = re.compile(r"^\*\*(Predict|Recall) (\d+\.\d+):\*\* \S")
OPTION = re.compile(r"- \[([ x])\] (\S.*?) :: (\S.*)")
BOX = re.compile(r"^\s*[-*] \[.?\]")
LETTERS = "abcd"


def expand(lesson, cell):
    """Return (the cells that a Markdown cell becomes, {"Predict 1.1": [{"text", "reason", "right"}]})."""
    cells, asked, text, lines = [], {}, [], cell.source.split("\n")
    at = 0
    while at < len(lines):
        found = ASKS.match(lines[at])
        if not found:
            if BOX.match(lines[at]):
                lesson.fail(
                    cell.line + 1 + at,
                    "an option without its question. Begin the question above it with '**Predict 3.1:** ' or "
                    "'**Recall 3.1:** ', and leave no empty line between the options.",
                )
            text.append(lines[at])
            at += 1
            continue
        start = at
        while at < len(lines) and not BOX.match(lines[at]) and not (at > start and ASKS.match(lines[at])):
            at += 1
        question = "\n".join(lines[start:at]).strip()
        options, first = [], at
        while at < len(lines) and BOX.match(lines[at]):
            options.append(_option(lesson, cell.line + 1 + at, lines[at]))
            at += 1
        name = f"{found[1]} {found[2]}"
        _refuse_bad(lesson, cell.line + 1 + start, name, options, asked)
        asked[name] = options
        if lesson.alone:
            text += ["", question, "", *_folds(options)]
            continue
        shown = "\n".join(f"- **{letter}.** {o['text']}" for letter, o in zip(LETTERS, options, strict=False))
        above = "\n".join(text).strip()
        text = []
        ident = name.lower().replace(" ", "-").replace(".", "-")
        whole = "\n\n".join(part for part in (above, question, shown) if part)
        cells.append(Cell("markdown", whole, list(cell.tags), f"{ident}-asked", cell.line))
        call = f'check.{found[1].lower()}("{found[2]}", "{{}}")'
        right = LETTERS[next(i for i, o in enumerate(options) if o["right"])]
        code = Cell("code", call.format(right), ["predict"], ident, cell.line + 1 + first, learner=call.format(""))
        cells.append(code)
    rest = "\n".join(text).strip()
    if rest:
        cells.append(Cell("markdown", rest, list(cell.tags), cell.id, cell.line))
    return cells, asked


def _folds(options):
    """Return the options as folds that open on their reasons, for a lesson that runs without check.predict."""
    return [
        f"<details><summary><b>{letter}.</b> {option['text']}</summary>\n\n"
        f"{'Right' if option['right'] else 'No'}: {option['reason']}\n\n</details>\n"
        for letter, option in zip(LETTERS, options, strict=False)
    ]


def _option(lesson, line, text):
    found = OPTION.fullmatch(text.strip())
    if not found:
        lesson.fail(line, f"{text.strip()!r} is not an option. Write '- [ ] what it says :: why that is not so'.")
    return {"text": found[2], "reason": found[3], "right": found[1] == "x"}


def _refuse_bad(lesson, line, name, options, asked):
    if name in asked:
        lesson.fail(line, f"{name} is asked twice. Give one of them another number.")
    if not name.split(" ")[1].startswith(f"{int(lesson.number)}."):
        lesson.fail(line, f"{name} is a number of a different lesson, expected {int(lesson.number)}.something.")
    if not 2 <= len(options) <= len(LETTERS):
        lesson.fail(line, f"{name} has {len(options)} options, expected two to four, right below the question.")
    if sum(option["right"] for option in options) != 1:
        lesson.fail(line, f"{name} needs exactly one right option: mark it '- [x]'.")


def files(lessons):
    """Return {file name: text} of lessonkit/check/questions: each lesson's exercises, and its questions' options.

    And, for lessonkit.mine, the functions and classes that are answers.
    """
    tables = {}
    for lesson in lessons:
        made = {"Answers": answers(lesson)} if answers(lesson) else {}
        asked = {} if lesson.alone else lesson.questions
        tables[lesson.module] = exercises(lesson) | made | asked
    return {
        f"{name}.json": json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        for name, table in tables.items()
        if table
    }


def folder(root):
    return root / "lessons_src/lessonkit/check/questions"


def unwanted(course):
    """Return the files in that folder that no lesson makes, not even one that is broken just now."""
    made = {*files(course.lessons), *(f"{stem[3:]}.json" for stem in course.stopped)}
    return sorted(path for path in folder(course.root).glob("*.json") if path.name not in made)


def write(course):
    """Write what check.predict reads; files that would not change are left alone."""
    for path in unwanted(course):
        path.unlink()
    for name, text in files(course.lessons).items():
        path = folder(course.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")

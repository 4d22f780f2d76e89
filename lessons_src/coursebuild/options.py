"""Predictions and recall questions: a list of options in the source, a lettered question and a cell in the notebook.

    # **Predict 1.1:** how much of the signal is left after fifty layers?
    # - [ ] most of it :: A layer keeps 71 %, and 0.71 · 0.71 is 0.50 already.
    # - [x] next to nothing :: Twenty-five halvings: 3e-8.

becomes the question with the options a and b, and the cell `check.predict("1.1", "")`. The reasons are not in the
notebook's sight: check.predict finds them in lessonkit.course.

In a lesson that runs without the kit (lesson 0) the options become folds that open on their reasons.
"""

import functools
import re

from coursebuild.cells import Cell
from lessonkit.course import LETTERS, Question

ASKS = re.compile(r"^\*\*(Predict|Recall) (\d+\.\d+):\*\* (?=\S)")
OPTION = re.compile(r"- \[([ x])\] (\S.*?) :: (\S.*)")
BOX = re.compile(r"^\s*[-*] \[.?\]")


def expand(lesson, cell):
    """Add to a lesson the cells that a Markdown cell becomes: before each question a new one ends with it."""
    text, lines = [], cell.source.split("\n")
    at = 0
    while at < len(lines):
        head = ASKS.match(lines[at])
        if not head:
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
        asked, first, choices = "\n".join(lines[start:at])[head.end() :].strip(), at, []
        while at < len(lines) and BOX.match(lines[at]):
            choices.append(_option(lesson, cell.line + 1 + at, lines[at]))
            at += 1
        question = Question(head[1], head[2], asked, choices, list(cell.tags))
        _refuse_bad(lesson, cell.line + 1 + start, question)
        above, text = "\n".join(text).strip(), []
        whole = "\n\n".join(filter(None, (above, shown(lesson, question))))
        ident = question.name.lower().replace(" ", "-").replace(".", "-")
        lesson.cells.append(Cell("markdown", whole, list(cell.tags), f"{ident}-asked", cell.line, question=question))
        if lesson.alone:
            continue
        call = f'check.{question.kind.lower()}("{question.number}", "{{}}")'
        right = next(letter for letter, option in question.by_letter.items() if option["right"])
        code = Cell("code", call.format(right), ["predict"], ident, cell.line + 1 + first, learner=call.format(""))
        lesson.cells.append(code)
    rest = "\n".join(text).strip()
    if rest:
        lesson.cells.append(Cell("markdown", rest, list(cell.tags), cell.id, cell.line))


def shown(lesson, question):
    """Return the Markdown with which a cell asks a question."""
    if not lesson.alone:
        return question.markdown
    folds = (
        f"<details><summary><b>{letter}.</b> {option['text']}</summary>\n\n"
        f"{'Right' if option['right'] else 'No'}: {option['reason']}\n\n</details>"
        for letter, option in question.by_letter.items()
    )
    return "\n\n".join([f"**{question.name}:** {question.text}", *folds])


def _option(lesson, line, text):
    option = OPTION.fullmatch(text.strip())
    if not option:
        lesson.fail(
            line,
            f"{text.strip()!r} is not an option. Write '- [ ] what it says :: why that is not so', with '[x]' for "
            "the right one.",
        )
    return {"text": option[2], "reason": option[3], "right": option[1] == "x"}


def _refuse_bad(lesson, line, question):
    name = question.name
    if any(cell.question and cell.question.name == name for cell in lesson.cells):
        lesson.fail(line, f"{name} is asked twice. Give one of them another number.")
    if not question.number.startswith(f"{int(lesson.number)}."):
        lesson.fail(line, f"{name} is a number of a different lesson, expected {int(lesson.number)}.something.")
    refuse_options(functools.partial(lesson.fail, line), name, question.options)


def refuse_options(fail, name, options):
    """Call fail with what is wrong with the options of a question, if anything is."""
    if not 2 <= len(options) <= len(LETTERS):
        fail(
            f"{name} has {len(options)} options, expected two to four, right below the question, without an empty line "
            "between. Each begins with '- [ ] '."
        )
    if sum(option["right"] for option in options) != 1:
        fail(f"{name} needs exactly one right option: mark it '- [x]', and the others '- [ ]'.")

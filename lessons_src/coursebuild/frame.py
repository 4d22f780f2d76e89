"""Read a lesson, and add what nobody writes: lettered questions, a card above each exercise, and the way on.

    # **Predict 1.1:** how much of the signal is left after fifty layers?
    # - [ ] most of it :: A layer keeps 71 %, and 0.71 · 0.71 is 0.50 already.
    # - [x] next to nothing :: Twenty-five halvings: 3e-8.

becomes the question with the options a and b, and the cell `check.predict("1.1")`, which finds the reasons in
lessonkit.course. In a lesson that runs without the kit the options become folds that open on their reasons.
"""

import functools
import re

from coursebuild.source import Cell, head, rooms, written
from lessonkit import evidence
from lessonkit.course import CARD, LETTERS, Question

ASKS = re.compile(r"^\*\*(Predict|Recall) (\d+\.\d+):\*\* (?=\S)")
OPTION = re.compile(r"- \[([ x])\] (\S.*?) :: (\S.*)")
BOX = re.compile(r"^\s*[-*] \[.?\]")


def read(path):
    """Return a whole lesson, or refuse what would build a wrong notebook. path: its room."""
    lesson = written(path)
    cells, lesson.cells = lesson.cells, []
    for cell in cells:
        if cell.type == "markdown":
            _fill(lesson, cell)
            _ask(lesson, cell)
        else:
            lesson.cells += [*_card(lesson, cell), cell]
    if lesson.code("exercise") and lesson.code("check"):  # sums up, at the end of Restart and Run All, what is right
        lesson.cells.append(Cell("code", f'check.summary("{lesson.module}")', [], "how-far", 1, made=True))
    lesson.cells += _way_on(lesson)
    return lesson


def _fill(lesson, cell):
    """Put the numbers of records into a text that names them; lessonkit.evidence says how they are named."""
    lesson.records |= evidence.named(cell.source)
    try:
        cell.source = evidence.say(cell.source)
    except evidence.EvidenceError as error:
        lesson.fail(cell.line, str(error))


# ----------------------------------------------------------------------------------------------------------- questions


def _ask(lesson, cell):
    """Add to a lesson the cells that a Markdown cell becomes: one ends with each question."""
    text, lines, at = [], cell.source.split("\n"), 0
    while at < len(lines):
        if ASKS.match(lines[at]):
            question, first, at = _question(lesson, cell, lines, at)
            asked = _shown(lesson, question)
            whole = "\n\n".join(filter(None, ("\n".join(text).strip(), asked)))
            text = []
            ends = Cell("markdown", whole, list(cell.tags), f"{question.place}-asked", cell.line, None, question, asked)
            lesson.cells += [ends, *_answer(lesson, question, cell.line + 1 + first)]
            continue
        if BOX.match(lines[at]):
            lesson.fail(
                cell.line + 1 + at,
                "an option without its question. Begin the question above it with '**Predict 3.1:** ' or "
                "'**Recall 3.1:** ', and leave no empty line between the options.",
            )
        text.append(lines[at])
        at += 1
    rest = "\n".join(text).strip()
    if rest:
        lesson.cells.append(Cell("markdown", rest, list(cell.tags), cell.id, cell.line))


def _question(lesson, cell, lines, start):
    """Return (the Question that begins at lines[start], where its first option stands, where it ends)."""
    first = start + 1
    while first < len(lines) and not BOX.match(lines[first]) and not ASKS.match(lines[first]):
        first += 1
    end = first
    while end < len(lines) and BOX.match(lines[end]):
        end += 1
    options = [_option(lesson, cell.line + 1 + at, lines[at].strip()) for at in range(first, end)]
    asks = ASKS.match(lines[start])
    asked = "\n".join(lines[start:first])[asks.end() :].strip()
    question = Question(asks[1], asks[2], asked, options, list(cell.tags))
    refuse_options(functools.partial(lesson.fail, cell.line + 1 + start), question.name, options)
    return question, first, end


def _option(lesson, line, text):
    option = OPTION.fullmatch(text)
    if not option:
        lesson.fail(
            line,
            f"{text!r} is not an option. Write '- [ ] what it says :: why that is not so', with '[x]' for the right "
            "one.",
        )
    return {"text": option[2], "reason": option[3], "right": option[1] == "x"}


def refuse_options(fail, name, options):
    """Call fail with what is wrong with the options of a question, if anything is."""
    if not 2 <= len(options) <= len(LETTERS):
        fail(
            f"{name} has {len(options)} options, expected two to four, right below the question, without an empty line "
            "between. Each begins with '- [ ] '."
        )
    if sum(option["right"] for option in options) != 1:
        fail(f"{name} needs exactly one right option: mark it '- [x]', and the others '- [ ]'.")


def _answer(lesson, question, line):
    """Return a list of the cell that takes an answer; [] where a lesson runs without the kit."""
    if lesson.alone:
        return []
    call = f'check.{question.kind.lower()}("{question.number}"'
    right = next(letter for letter, option in question.by_letter.items() if option["right"])
    return [Cell("code", f'{call}, "{right}")', ["predict"], question.place, line, learner=f"{call})", made=True)]


def _shown(lesson, question):
    """Return the Markdown with which a cell asks a question."""
    if not lesson.alone:
        return question.markdown
    return f"**{question.name}:** {question.text}\n\n{question.folds()}"


# ---------------------------------------------------------------------------------------------------- cards, the way on


def _card(lesson, cell):
    """Return a list of the Markdown card above an exercise; [] for any other cell."""
    if "exercise" not in cell.tags:
        return []
    number, difficulty, minutes = CARD.search(cell.source).groups()
    ident = f"card-{number.replace('.', '-')}"
    how = "Answer and run the cell." if lesson.alone else "Answer, run the cell, then the check below it."
    text = f"**Exercise {number}** · {difficulty} · {minutes} min · {how}"
    box = f'<div class="alert alert-info">\n\n{text}\n\n</div>'
    return [Cell("markdown", box, [], ident, cell.line, made=True)]


def _way_on(lesson):
    """Return a list of the cell that ends a lesson: where it goes on; [] for the reference."""
    if lesson.reference:
        return []
    later = {room.name: head(room) for room in rooms(lesson.root) if room.name > lesson.stem}
    after = next((f"[{title}]({stem}.ipynb)" for stem, (title, tables) in later.items() if not tables), None)
    on = f"**Next:** {after}" if after else "**This was the last lesson.**"
    if not after:
        on += "".join(f" To look things up: [the reference]({stem}.ipynb)" for stem in later)
    solutions = f"**Solutions**, for when you have tried: [solutions/{lesson.stem}](solutions/{lesson.stem}.ipynb)"
    return [Cell("markdown", f"---\n{on}", [], "what-next", 1, learner=f"---\n{on} · {solutions}", made=True)]

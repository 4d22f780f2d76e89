"""What a person has written about a session: words/NN_name.md.

A file has items, each one line that begins with what it is, under the headings of the lesson's sections:

    Prepare: what to have ready, before the first heading
    ## 6.1
    Open: what to say before the section's first question; it gives no answer away
    Close: what to say when the section is over, its conclusion
    Close Predict 6.2: what to say after that question
    Ask Predict 6.2: what one hears, and what it means; the question itself comes from the lesson
    Expect 6.1 "words of the check": what that answer reveals; the words are the check's own, and a test finds them
    ## Late
    6.7: why that section can be dropped. Tell: the sentence that takes its place
    ## Early
    Several devices: what an optional section is good for
    ## Board
    what to draw, all lines that follow, as they are; a block for a section, whose number stands at the right
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from teaching.plan.sections import PlanError

FOLDER = Path(__file__).with_name("words")
EXPECT = re.compile(r'Expect (\d+\.\d+) "(.+?)": (.+)')
QUESTION = re.compile(r"(Ask|Close) ((?:Predict|Recall) \d+\.\d+): (.+)")
SAY = re.compile(r"(Open|Close): (.+)")
LATE = re.compile(r"([^:]+): (.+?) Tell: (.+)")


@dataclass
class Words:
    """prepare: a text.

    open, close: {key of a section, or label of a question for close: [texts]}. ask: {label: text}.
    expect: {number of an exercise: [(words of the check, text)]}. late: {key: (why, tell)}. early: {key: text}.
    board: a text.
    """

    prepare: str = ""
    open: dict = field(default_factory=dict)
    close: dict = field(default_factory=dict)
    ask: dict = field(default_factory=dict)
    expect: dict = field(default_factory=dict)
    late: dict = field(default_factory=dict)
    early: dict = field(default_factory=dict)
    board: str = ""


def read(stem, sections, folder=FOLDER):
    """Return the Words about a lesson, checked against its sections. PlanError says what does not fit, and where."""
    path = folder / f"{stem}.md"
    if not path.exists():
        raise PlanError(
            f"{path.name} is missing: every lesson has a plan. teaching/plan/README.md says how it is written."
        )
    text, _, board = path.read_text(encoding="utf-8").partition("\n## Board\n")
    notes, key = Words(board=board.strip("\n")), None
    for line, block in _lines(text):
        where = f"{path.name}:{line}"
        if block.startswith("## "):
            key = block.removeprefix("## ")
            if key not in sections and key not in ("Late", "Early"):
                raise PlanError(f"{where}: there is no section {key!r}. There are {', '.join(sections)}, Late, Early.")
        elif key is None:
            notes.prepare = _match(re.compile(r"Prepare: (.+)"), block, where, "Prepare: ...")[0]
        elif key in ("Late", "Early"):
            form, example = (
                (LATE, "6.7: why. Tell: ...") if key == "Late" else (re.compile("([^:]+): (.+)"), "6.7: why")
            )
            name, *texts = _match(form, block, where, example)
            full = next((other for other in sections if other == name or other.startswith(f"{name}:")), None)
            if full is None or (key == "Late" and sections[full].optional):
                raise PlanError(f"{where}: {name!r} is no section that can be named under {key}.")
            getattr(notes, key.lower())[full] = tuple(texts) if key == "Late" else texts[0]
        else:
            _item(notes, key, block, where, sections[key])
    return notes


def _lines(text):
    """Return [(its number, line)] of the lines that are not empty: each is an item or a heading."""
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _match(form, block, where, example):
    match = form.fullmatch(block)
    if not match:
        raise PlanError(f"{where}: {block[:60]!r} is not understood here. Write it as '{example}'.")
    return match.groups()


def _item(notes, key, block, where, section):
    if block.startswith(("Ask ", "Close ")):
        kind, question, text = _match(QUESTION, block, where, f"{block.split()[0]} Predict 6.2: ...")
        there = [question.name for question in section.questions]
        if question not in there:
            raise PlanError(f"{where}: section {key} does not ask {question}. It asks {', '.join(there) or 'nothing'}.")
        if kind == "Ask":
            notes.ask[question] = text
        else:
            notes.close.setdefault(question, []).append(text)
    elif block.startswith("Expect "):
        exercise, words, text = _match(EXPECT, block, where, 'Expect 6.1 "words of the check": what it reveals')
        there = [item.number for item in section.exercises]
        if exercise not in there:
            raise PlanError(f"{where}: section {key} has no exercise {exercise}. It has {', '.join(there) or 'none'}.")
        notes.expect.setdefault(exercise, []).append((words, text))
    else:
        when, text = _match(SAY, block, where, "Open: ...' or 'Close: ...")
        getattr(notes, when.lower()).setdefault(key, []).append(text)

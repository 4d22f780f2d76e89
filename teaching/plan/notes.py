"""What a person has written about a session: words/NN_name.md.

A file has items, each one line that begins with what it is, under the headings of the lesson's sections:

    Prepare: what to have ready, before the first heading
    Homework: 6.7, Exercise 6.4; what is left out in 60 minutes, before the first heading too
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
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from teaching.plan.sections import PlanError, asked, core

FOLDER = Path(__file__).with_name("words")
EXPECT = re.compile(r'Expect (\d+\.\d+) "(.+?)": (.+)')
ASK = re.compile(r"Ask ((?:Predict|Recall) \d+\.\d+): (.+)")
CLOSE = re.compile(r"Close ((?:Predict|Recall) \d+\.\d+): (.+)")
SAY = re.compile(r"(Open|Close): (.+)")
LATE = re.compile(r"([^:]+): (.+?) Tell: (.+)")


@dataclass
class Words:
    """prepare: a text. home: the keys and labels that are homework where a session has 60 minutes.

    open, close: {key of a section, or label of a question for close: [texts]}. ask: {label: text}.
    expect: {number of an exercise: [(words of the check, text)]}. late: {key: (why, tell)}. early: {key: text}.
    """

    prepare: str = ""
    home: list = field(default_factory=list)
    open: dict = field(default_factory=dict)
    close: dict = field(default_factory=dict)
    ask: dict = field(default_factory=dict)
    expect: dict = field(default_factory=dict)
    late: dict = field(default_factory=dict)
    early: dict = field(default_factory=dict)


def read(stem, sections, folder=FOLDER):
    """Return the Words about a lesson, checked against its sections. PlanError says what does not fit, and where."""
    path = folder / f"{stem}.md"
    if not path.exists():
        raise PlanError(
            f"{path.name} is missing: every lesson has a plan. teaching/plan/README.md says how it is written."
        )
    found, key = Words(), None
    for line, block in _lines(path.read_text(encoding="utf-8")):
        where = f"{path.name}:{line}"
        if block.startswith("## "):
            key = block.removeprefix("## ")
            if key not in sections and key not in ("Late", "Early"):
                raise PlanError(f"{where}: there is no section {key!r}. There are {', '.join(sections)}, Late, Early.")
        elif key is None and block.startswith("Homework: "):
            found.home = homework(block.removeprefix("Homework: ").split(", "), stem, sections, where)
        elif key is None:
            found.prepare = _match(re.compile(r"Prepare: (.+)"), block, where, "Prepare: ...' or 'Homework: ...")[0]
        elif key in ("Late", "Early"):
            form, example = (
                (LATE, "6.7: why. Tell: ...") if key == "Late" else (re.compile("([^:]+): (.+)"), "6.7: why")
            )
            name, *texts = _match(form, block, where, example)
            full = next((other for other in sections if other == name or other.startswith(f"{name}:")), None)
            if full is None or (key == "Late" and sections[full].optional):
                raise PlanError(f"{where}: {name!r} is no section that can be named under {key}.")
            getattr(found, key.lower())[full] = tuple(texts) if key == "Late" else texts[0]
        else:
            _item(found, key, block, where, sections[key])
    return found


def homework(names, stem, sections, where):
    """Return names, if each is a section of the core, or a question or an exercise in one."""
    there = [key for key in core(stem) if key in sections]
    there += [item.name for key in there for item in asked(sections[key])]
    for name in names:
        if name not in there:
            raise PlanError(f"{where}: {name!r} cannot be homework. What can: {', '.join(there)}.")
    return names


def _lines(text):
    """Return [(its number, line)] of the lines that are not empty: each is an item or a heading."""
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _match(form, block, where, example):
    found = form.fullmatch(block)
    if not found:
        raise PlanError(f"{where}: {block[:60]!r} is not understood here. Write it as '{example}'.")
    return found.groups()


def _item(found, key, block, where, section):
    if block.startswith(("Ask ", "Close ")):
        asks = block.startswith("Ask ")
        form, example = (ASK, "Ask Predict 6.2: what one hears") if asks else (CLOSE, "Close Predict 6.2: ...")
        question, text = _match(form, block, where, example)
        there = [question.name for question in section.questions]
        if question not in there:
            raise PlanError(f"{where}: section {key} does not ask {question}. It asks {', '.join(there) or 'nothing'}.")
        if asks:
            found.ask[question] = text
        else:
            found.close.setdefault(question, []).append(text)
    elif block.startswith("Expect "):
        exercise, words, text = _match(EXPECT, block, where, 'Expect 6.1 "words of the check": what it reveals')
        there = [one.number for one in section.exercises]
        if exercise not in there:
            raise PlanError(f"{where}: section {key} has no exercise {exercise}. It has {', '.join(there) or 'none'}.")
        found.expect.setdefault(exercise, []).append((words, text))
    else:
        when, text = _match(SAY, block, where, "Open: ...' or 'Close: ...")
        getattr(found, when.lower()).setdefault(key, []).append(text)

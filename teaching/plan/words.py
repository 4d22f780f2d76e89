"""What a person has written about a session: words/NN_name.md.

A file has items, each one line that begins with what it is, under the headings of the lesson's sections:

    Prepare: what to have ready, before the first heading
    ## 6.1
    Say: a sentence that carries the section
    Ask Predict 6.2: what to listen for; the question itself comes from the lesson
    Expect 6.1 "words of the check": what that answer reveals; the words are the check's own, and a test finds them
    ## Late
    6.7: why that section can be dropped
    ## Early
    Several devices: what an optional section is good for
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from teaching.plan.sections import PlanError

FOLDER = Path(__file__).with_name("words")
EXPECT = re.compile(r'Expect (\d+\.\d+) "(.+?)": (.+)', re.DOTALL)
ASK = re.compile(r"Ask ((?:Predict|Recall) \d+\.\d+): (.+)", re.DOTALL)
SAY = re.compile(r"Say: (.+)", re.DOTALL)


@dataclass
class Words:
    """prepare: a text. say: {key: [texts]}. ask: {key: [(question, text)]}. expect: {key: [(exercise, words, text)]}.

    late, early: {key: text}.
    """

    prepare: str = ""
    say: dict = field(default_factory=dict)
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
    for number, block in _lines(path.read_text(encoding="utf-8")):
        where = f"{path.name}:{number}"
        if block.startswith("## "):
            key = block[3:].strip()
            if key not in sections and key not in ("Late", "Early"):
                raise PlanError(f"{where}: there is no section {key!r}. There are {', '.join(sections)}, Late, Early.")
        elif key is None:
            found.prepare = _match(re.compile(r"Prepare: (.+)", re.DOTALL), block, where, "Prepare: ...")[0]
        elif key in ("Late", "Early"):
            name, text = _match(re.compile(r"([^:]+): (.+)", re.DOTALL), block, where, "6.7: why")
            full = next((other for other in sections if other == name or other.startswith(f"{name}:")), None)
            if full is None or (key == "Late" and sections[full].optional):
                raise PlanError(f"{where}: {name!r} is no section that can be named under {key}.")
            getattr(found, key.lower())[full] = text
        else:
            _item(found, key, block, where, sections[key])
    return found


def _lines(text):
    """Return [(its number, line)] of the lines that are not empty: each is an item or a heading."""
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _match(form, block, where, example):
    found = form.fullmatch(block)
    if not found:
        raise PlanError(f"{where}: {block[:60]!r} is not understood here. Write it as '{example}'.")
    return found.groups()


def _item(found, key, block, where, section):
    if block.startswith("Ask "):
        question, text = _match(ASK, block, where, "Ask Predict 6.2: what to listen for")
        there = [f"{one.kind} {one.number}" for one in section.questions]
        if question not in there:
            raise PlanError(f"{where}: section {key} does not ask {question}. It asks {', '.join(there) or 'nothing'}.")
        found.ask.setdefault(key, []).append((question, text))
    elif block.startswith("Expect "):
        exercise, words, text = _match(EXPECT, block, where, 'Expect 6.1 "words of the check": what it reveals')
        there = [one.number for one in section.exercises]
        if exercise not in there:
            raise PlanError(f"{where}: section {key} has no exercise {exercise}. It has {', '.join(there) or 'none'}.")
        found.expect.setdefault(key, []).append((exercise, words, text))
    else:
        found.say.setdefault(key, []).append(_match(SAY, block, where, "Say: ...")[0])

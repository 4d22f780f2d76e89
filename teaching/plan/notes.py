"""What a person has written about a session: words.md in its lesson's room.

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

from teaching.plan import sections
from teaching.plan.sections import PlanError

FOLDER = Path(__file__).resolve().parents[2] / "lessons_src/lessons"
QUESTION = r"((?:Predict|Recall) \d+\.\d+)"
FORMS = {  # by the first word of an item, or by the heading that it stands under: its pattern, and an example
    "Prepare": ("()Prepare: (.+)", "Prepare: ..."),
    "Open": ("()Open: (.+)", "Open: ...' or 'Close: ..."),
    "Close": (f"Close(?: {QUESTION})?: (.+)", "Close Predict 6.2: ..."),
    "Ask": (f"Ask {QUESTION}: (.+)", "Ask Predict 6.2: ..."),
    "Expect": (r'Expect (\d+\.\d+) "(.+?)": (.+)', 'Expect 6.1 "words of the check": what it reveals'),
    "Late": ("([^:]+): (.+?) Tell: (.+)", "6.7: why. Tell: ..."),
    "Early": ("([^:]+): (.+)", "6.7: why"),
}


@dataclass
class Words:
    """prepare: a text.

    open, close: {key of a section, or name of a question for close: [texts]}. ask: {name of a question: [texts]}.
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


def read(stem, folder=FOLDER):
    """Return the Words about a lesson, checked against its sections. PlanError says what does not fit, and where."""
    path, there = folder / stem / "words.md", sections.of(stem)
    if not path.exists():
        raise PlanError(
            f"{stem}/words.md is missing: every lesson has a plan. teaching/plan/README.md says how it is written."
        )
    text, _, board = path.read_text(encoding="utf-8").partition("\n## Board\n")
    notes, key = Words(board=board.strip("\n")), None
    for number, line in enumerate(text.split("\n"), 1):
        block, where = line.strip(), f"{stem}/words.md:{number}"
        if block.startswith("## "):
            key = block.removeprefix("## ")
            if key not in there and key not in ("Late", "Early"):
                raise PlanError(f"{where}: there is no section {key!r}. There are {', '.join(there)}, Late, Early.")
        elif block and key is None:
            notes.prepare = _match("Prepare", block, where)[1]
        elif block and key in ("Late", "Early"):
            name, text = _match(key, block, where)
            full = next((other for other in there if other == name or other.startswith(f"{name}:")), None)
            if full is None or (key == "Late" and there[full].optional):
                raise PlanError(f"{where}: {name!r} is no section that can be named under {key}.")
            getattr(notes, key.lower())[full] = text
        elif block:
            _item(notes, key, block, where, there[key])
    return notes


def _match(kind, block, where):
    """Return (what an item is about or None, its text; or its texts, if it has two)."""
    form, example = FORMS[kind]
    match = re.fullmatch(form, block)
    if not match:
        raise PlanError(f"{where}: {block[:60]!r} is not understood here. Write it as '{example}'.")
    about, *texts = match.groups()
    return about, tuple(texts) if len(texts) > 1 else texts[0]


def _item(notes, key, block, where, section):
    first = re.match(r"\w*", block)[0]
    kind = first if first in ("Ask", "Close", "Expect") else "Open"
    about, text = _match(kind, block, where)
    name = f"Exercise {about}" if kind == "Expect" else about
    there = [item.name for item in sections.asked(section)]
    if name and name not in there:
        raise PlanError(f"{where}: section {key} has no {name}. It has {', '.join(there) or 'nothing to ask or do'}.")
    getattr(notes, kind.lower()).setdefault(about or key, []).append(text)

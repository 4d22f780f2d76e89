"""What a person has written about a session: words.md in its lesson's room.

A file has items, each one line that begins with what it is, under the headings of the lesson's sections:

    Card "Build it": what the lesson's card says on the site's start page, in the part of the course that is named
    Leads to "words that a cell prints": what a learner can do at the end; the start page shows it with these outputs
    Prepare: what to have ready
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

from teaching.material import ROOMS
from teaching.plan import sections
from teaching.plan.sections import PlanError

QUESTION = r"((?:Predict|Recall) \d+\.\d+)"
FORMS = {  # by the first word of an item, or by the heading that it stands under: its pattern, and an example
    "Card": ('Card "(.+?)": (.+)', 'Card "Build it": ...'),
    "Leads": ('Leads to "(.+?)": (.+)', 'Leads to "words that a cell prints": ...'),
    "Prepare": ("()Prepare: (.+)", "Prepare: ..."),
    "Open": ("()Open: (.+)", "Open: ...' or 'Close: ..."),
    "Close": (f"Close(?: {QUESTION})?: (.+)", "Close Predict 6.2: ..."),
    "Ask": (f"Ask {QUESTION}: (.+)", "Ask Predict 6.2: ..."),
    "Expect": (r'Expect (\d+\.\d+) "(.+?)": (.+)', 'Expect 6.1 "words of the check": what it reveals'),
    "Late": ("([^:]+): (.+?) Tell: (.+)", "6.7: why. Tell: ..."),
    "Early": ("([^:]+): (.+)", "6.7: why"),
}
FIRST = ("Card", "Leads", "Prepare")  # come before the first heading


@dataclass
class Words:
    """prepare: a text. card: (a part of the course, text). leads: (words that a cell prints, text), or ().

    open, close: {key of a section, or name of a question for close: [texts]}. ask: {name of a question: [texts]}.
    expect: {number of an exercise: [(words of the check, text)]}. late: {key: (why, tell)}. early: {key: text}.
    board: a text.
    """

    prepare: str = ""
    card: tuple = ()
    leads: tuple = ()
    open: dict = field(default_factory=dict)
    close: dict = field(default_factory=dict)
    ask: dict = field(default_factory=dict)
    expect: dict = field(default_factory=dict)
    late: dict = field(default_factory=dict)
    early: dict = field(default_factory=dict)
    board: str = ""


def read(stem, folder=ROOMS):
    """Return the Words about a lesson, checked against its sections. PlanError says what does not fit, and where."""
    path, there = folder / stem / "words.md", sections.of(stem)
    if not path.exists():
        raise PlanError(
            f"{stem}/words.md is missing: every lesson has a plan. teaching/plan/README.md says how it is written."
        )
    text, _, board = path.read_text(encoding="utf-8").partition("\n## Board\n")
    words, key = Words(board=board.strip("\n")), None
    for number, line in enumerate(text.split("\n"), 1):
        block, where = line.strip(), f"{stem}/words.md:{number}"
        if block.startswith("## "):
            key = block.removeprefix("## ")
            if key not in there and key not in ("Late", "Early"):
                raise PlanError(f"{where}: there is no section {key!r}. There are {', '.join(there)}, Late, Early.")
        elif block and key is None:
            kind, about, text = _match(block, FIRST, where)
            setattr(words, kind.lower(), (about, text) if about else text)
        elif block and key in ("Late", "Early"):
            _, name, text = _match(block, [key], where)
            full = next((other for other in there if other == name or other.startswith(f"{name}:")), None)
            if full is None or (key == "Late" and there[full].optional):
                raise PlanError(f"{where}: {name!r} is no section that can be named under {key}.")
            getattr(words, key.lower())[full] = text
        elif block:
            _item(words, there[key], block, where)
    return words


def _match(block, kinds, where):
    """Return (the kind of an item, what it is about or "", its text; or its texts, if it has two).

    Its first word says which of the kinds it is; an item that begins with none of these words is of the last kind.
    """
    kind = next((kind for kind in kinds if block.startswith(kind)), kinds[-1])
    form, example = FORMS[kind]
    match = re.fullmatch(form, block)
    if not match:
        raise PlanError(f"{where}: {block[:60]!r} is not understood here. Write it as '{example}'.")
    about, *texts = match.groups()
    return kind, about, tuple(texts) if len(texts) > 1 else texts[0]


def _item(words, section, block, where):
    """Add an item under the heading of a section, which must have what the item is about."""
    kind, about, text = _match(block, ["Ask", "Close", "Expect", "Open"], where)
    name = f"Exercise {about}" if kind == "Expect" else about
    there = [item.name for item in sections.named(section.items)]
    if name and name not in there:
        has = ", ".join(there) or "nothing to ask or do"
        raise PlanError(f"{where}: section {section.key} has no {name}. It has {has}.")
    getattr(words, kind.lower()).setdefault(about or section.key, []).append(text)

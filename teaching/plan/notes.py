"""What a person has written about a session: words.md in its lesson's room, in the form that README.md describes."""

import re
from dataclasses import dataclass, field

from teaching.material import ROOMS
from teaching.plan import sections
from teaching.plan.sections import PlanError

FORMS = {  # by the heading that an item stands under; None: before the first; "": a section's
    None: r'(Card|Leads|Prepare)(?: to)?(?: "(.+?)")?: (.+)',
    "": r'(Open|Close|Ask|Expect)(?: ((?:Predict |Recall )?\d+\.\d+))?(?: "(.+?)")?: (.+)',
    "Late": "([^:]+): (.+?) Tell: (.+)",
    "Early": "([^:]+): (.+)",
}


@dataclass
class Words:
    """prepare: a text. card: (a part of the course, text). leads: (words that a cell prints, text), or ().

    open, close: {key of a section, or name of a question for close: [texts]}. ask: {name of a question: [texts]}.
    expect: {number of an exercise: [(words of the check, text)]}. late: {key: [(why, tell)]}. early: {key: [text]}.
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
    text, _, board = path.read_text(encoding="utf-8").partition("\n## Board\n")
    words, key = Words(board=board.strip("\n")), None
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        try:
            if line.startswith("## "):
                key = line.removeprefix("## ")
                if key not in [*there, "Late", "Early"]:
                    raise PlanError(f"there is no section {key!r}. There are {', '.join(there)}, Late, Early.")
            elif line:
                _add(words, line, key, there)
        except PlanError as error:
            raise PlanError(f"{stem}/words.md:{number}: {error}") from None
    return words


def _add(words, line, key, there):
    """Add an item to Words. key: the heading that it stands under, None for none. there: {key: Section}."""
    match = re.fullmatch(FORMS.get(key, FORMS[""]), line)
    if not match:
        raise PlanError(f"{line[:60]!r} is not understood here. teaching/plan/README.md says how it is written.")
    if key is None:
        kind, about, text = match.groups()
        return setattr(words, kind.lower(), (about, text) if about else text)
    if key in there:
        kind, about, quote, text = match.groups()
        name = f"Exercise {about}" if kind == "Expect" else about
        has = [item.name for item in sections.named(there[key].items)]
        if name and name not in has:
            raise PlanError(f"section {key} has no {name}. It has {', '.join(has) or 'nothing to ask or do'}.")
        about, text = about or key, (quote, text) if quote else text
    else:
        kind, (named, *texts) = key, match.groups()
        about = next((other for other in there if other == named or other.startswith(f"{named}:")), None)
        if about is None or kind == "Late" and there[about].optional:
            raise PlanError(f"{named!r} is no section that can be named under {kind}.")
        text = texts[0] if kind == "Early" else tuple(texts)
    getattr(words, kind.lower()).setdefault(about, []).append(text)

"""The questions of both forms, as coursebuild wrote them from lessons_src/inventory.md."""

import functools
import json
from pathlib import Path

from lessonkit.course import LETTERS

UNKNOWN = "?"
FORMS = {"A": "before the course", "B": "after the course"}
WORDS = (  # at the head of a form, in its notebook and on paper
    "A row is the vector of D features that is normalized together. Gain and bias are LayerNorm's learned γ and β "
    "(`weight` and `bias` in PyTorch), σ is a standard deviation, and ε is `eps`."
)


@functools.cache
def items():
    """Return {"A1": its theme, belief, question, options and edition}."""
    return json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))


def questions(form, theme=None):
    """Return the names of a form's questions, in order: of all, or of those on a theme."""
    return [name for name, item in items().items() if name[0] == form and theme in (None, item["theme"])]


def themes():
    """Return the themes, in order."""
    return list(dict.fromkeys(item["theme"] for item in items().values()))


def by_letter(name):
    """Return {letter: option} of a question."""
    return dict(zip(LETTERS, items()[name]["options"], strict=False))


def right_letter(name):
    return next(letter for letter, option in by_letter(name).items() if option["right"])

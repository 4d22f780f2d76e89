"""How a check says yes and no: accept, NotYet for a wrong answer, YourTurn for one that is not written yet.

A cause is a sentence that says what is wrong. What mends it may follow after " | ": "the variance is divided by D - 1 |
Say correction=0." In a kernel the repair is told when an exercise fails for the same reason again. Values, rows and
inputs are put into words here as well: few numbers, and those that tell.
"""

import contextlib
import math
from dataclasses import dataclass, field

import torch

from lessonkit.shown import Told, YourTurn, tell  # noqa: F401  YourTurn is the third verdict

CAUSE, REPAIR = "Probable cause: ", "To mend it: "
CHANGED, KEPT = "what your code changed", "the memory of"  # the name of that observation; a change: it stays in use
_collectors = []


class NotYet(Told, AssertionError):
    """A wrong answer. Lines of its text: the probable cause; what went in, came out and should have; the repair."""


def reject(what, why=None, first=False):
    """Raise NotYet with what happened, and why. A cause comes before it, and so does all else if first is said."""
    reason, _, repair = (why or "").partition(" | ")
    lines = [reason, what] if first or reason.startswith(CAUSE) else [what, reason]
    if repair:
        lines.append(REPAIR + repair)
    raise NotYet("Not yet. " + "\n".join(filter(None, lines))) from None


def with_repairs(text):
    """Return the lines of a rejection without what mends the answer, and the lines that say that."""
    lines = text.split("\n")
    repairs = [line for line in lines if line.startswith(REPAIR)]
    return [line for line in lines if line not in repairs], repairs


def refuse_dots(answer, name):
    if answer is ...:
        reject(f"check.{name} got three dots: put your answer in their place.")


def accept(text):
    """Say that an answer is right, in a text that begins with "Right:"."""
    if _collectors:
        _collectors[-1].append(text)
    else:
        tell(text, "right")


@contextlib.contextmanager
def collecting():
    """Yield a list to which the texts of accept go meanwhile; nothing of them is shown."""
    _collectors.append([])
    try:
        yield _collectors[-1]
    finally:
        _collectors.pop()


# ---- in words
@dataclass(frozen=True)
class Raised:
    """An exception that an answer raised, as plain data: two are equal if they are of one type.

    kind: the name of its type. text: its first line. line: the learner's line that raised it, "" if it is not known.
    """

    kind: str
    text: str = field(compare=False)
    line: str = field(default="", compare=False)


def cut(text, most):
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def sentence(text):
    """Return text with a full stop, unless it ends in a mark of its own."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def kind_of(value, short=False):
    """What a value is, in words. short: the value itself, unless it is a tensor or nothing."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Raised):
        return f"{'an' if value.kind[0] in 'AEIOU' else 'a'} {value.kind}"
    if type(value).__module__ == "numpy" and hasattr(value, "shape"):
        return f"a NumPy array of shape {value.shape}" if value.shape else f"the NumPy number {value}"
    if short or isinstance(value, (str, bool)):
        return plain(value)
    if isinstance(value, (int, float)):
        return f"the number {plain(value)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    name = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def plain(value):
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else tuple(value.shape)
    return f"{value:.6g}" if isinstance(value, float) else cut(repr(value), 100)


def plain_value(value):
    return kind_of(value) if isinstance(value, torch.Tensor) and value.numel() != 1 else plain(value)


def number(value, digits=4):
    """A float as it is if that is short (1, 0.5), else with so many significant digits (1.000, 0.3333)."""
    if type(value) is not float or not math.isfinite(value):
        return str(value)
    if float(f"{value:.{digits}g}") == value:
        return f"{value + 0.0:.{max(digits, 6)}g}"  # + 0.0: no minus sign before a zero
    written = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e" in written and 1 <= abs(value) < 1e6 else written.rstrip(".")


def digits_of(value, right):
    """How many significant digits tell two numbers apart: 4 if they do, else one more than just enough."""
    if type(value) is not float or type(right) is not float:
        return 4
    enough = next((digits for digits in range(4, 17) if f"{value:.{digits}g}" != f"{right:.{digits}g}"), 16)
    return enough if enough == 4 else enough + 1


def _spread_digits(row):
    """Significant digits that show how the numbers of a row differ, also where they lie close together."""
    finite = row.detach().double()[row.isfinite()]
    spread = finite.max() - finite.min() if len(finite) else 0
    return 4 + (max(0, min(6, int(math.log10(finite.abs().max() / spread)))) if spread > 0 else 0)


def row_of(tensor, digits=4, place=(0,), most=8):
    """At most eight numbers of a row, those around the last index of place; a single number without brackets."""
    if tensor.dim() == 0:
        return number(tensor.item(), digits)
    start = max(0, min(place[-1] - most // 2, len(tensor) - most))
    numbers = ", ".join(number(item, digits) for item in tensor[start : start + most].tolist())
    return f"[{'…, ' if start else ''}{numbers}{', …' if start + most < len(tensor) else ''}]"


def inputs(probe, shape=(), place=()):
    """The inputs of a probe in short: single values, shapes, and of the first tensor the row that an output belongs to.

    shape, place: of the output and of the number in it that is most wrong.
    """
    parts, first = [], True
    for name, item in probe.shown.items():
        if not isinstance(item, torch.Tensor) or item.numel() == 1:
            parts.append(f"{name} = {plain(item)}")
            continue
        at = None  # the index of the row to show; None if the output's rows are not this tensor's
        if item.dim() == 1:
            at = ()
        elif shape and item.shape[:-1] in (shape, shape[:-1]):
            at = place[: item.dim() - 1]
        if first and at is not None and item.numel():
            where = f"[{', '.join(map(str, at))}]" if at else ""
            row = item[at]
            parts.append(f"{name}{where} = {row_of(row, _spread_digits(row), place if item.shape == shape else (0,))}")
        else:
            parts.append(f"{name} of shape {tuple(item.shape)}")
        first = False
    return f"In: {', '.join(parts)}." if parts else ""


def two(what, value, right):
    """Say what two observations are that are no tensors, with their types if that is the difference."""
    digits = digits_of(value, right)
    mine, theirs = (number(x, digits) if type(x) is float else kind_of(x, short=True) for x in (value, right))
    if mine == theirs:
        mine, theirs = f"{mine} ({type(value).__name__})", f"{theirs} ({type(right).__name__})"
    return f"{what}: yours is {mine}, expected {sentence(theirs)}"


def listed(what, keys):
    """Say which keys are missing or unknown, at most two of them by name."""
    more = f" and {len(keys) - 2} more" if len(keys) > 2 else ""
    return f"{', '.join(map(repr, keys[:2]))}{more}: {what}." if keys else ""

"""Read a log of attempts (lessonkit.attempts writes it): what is damaged is counted and left out."""

import json
from dataclasses import dataclass

from lessonkit.attempts import VERSION


@dataclass(frozen=True)
class Attempt:
    """A line of the log. what: the check's name, or the letter. mistake: its cause, or ""."""

    kernel: str
    lesson: str
    item: str
    what: str
    right: bool
    mistake: str
    on_item: float
    in_kernel: float


def read(path):
    """Return (the attempts in a log, in order; a sentence for each thing that could not be read)."""
    attempts = []
    notes = take(path, VERSION, lambda record: attempts.append(_attempt(record)))
    return attempts, notes


def last_letter(path, lesson, item):
    """Return the letter that answered a question last, by the log at path; "" where none is there, or path is None."""
    attempts = read(path)[0] if path else []
    return next((one.what for one in reversed(attempts) if (one.lesson, one.item) == (lesson, item)), "")


def own_minutes(attempts):
    """Return {lesson's module: minutes of work}, from the attempts of one learner.

    Counted is the work up to the last attempt in each kernel.
    """
    last = {(attempt.lesson, attempt.kernel): attempt.in_kernel for attempt in attempts}
    sums = {}
    for (lesson, _), seconds in last.items():
        sums[lesson] = sums.get(lesson, 0) + seconds / 60
    return sums


def take(path, version, add):
    """Hand each record of a file, a line of JSON each, to add; return a sentence if something could not be read.

    version: of the newest form that add knows. It raises a ValueError or the like for a damaged record.
    """
    left_out = 0
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:  # another user's, after sudo make lab for example
        return [f"{path} is left out: it cannot be read ({error.strerror})."]
    for line in filter(bytes.strip, lines):
        try:
            record = json.loads(line)
            if record["v"] > version:
                raise ValueError(record)
            add(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            left_out += 1
    return [f"{path}: left out, damaged or of a newer edition of the course: {left_out}."] if left_out else []


def _attempt(record):
    texts = {name: record[name] for name in ("kernel", "lesson", "item")}
    texts["what"] = record["letter"] if "letter" in record else record["check"]
    texts["mistake"] = record.get("mistake", "")
    seconds = {name: float(record[name]) for name in ("on_item", "in_kernel")}
    # What anybody may have written is shown on a terminal.
    if not "".join(texts.values()).isprintable() or not all(0 <= value < 1e9 for value in seconds.values()):
        raise ValueError(record)
    return Attempt(**texts, right=record["verdict"] == "right", **seconds)

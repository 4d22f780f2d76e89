"""Read a log of attempts (lessonkit.attempts writes it): what is damaged is counted and left out."""

import json
import re
from dataclasses import dataclass

from lessonkit.attempts import VERSION

ITEM = re.compile(r"[0-9a-f]{8} \w+ (Exercise|Predict|Recall) \d+\.\d+ \w+", re.ASCII)  # kernel, lesson, item, what
CAUSE = re.compile(r"[^=+@-].{,499}")  # to a spreadsheet no formula


@dataclass(frozen=True)
class Attempt:
    """A line of the log. what: the check's name, or the letter. mistake: its cause, or None."""

    kernel: str
    lesson: str
    item: str
    what: str
    right: bool
    mistake: str | None
    on_item: float
    in_kernel: float


def read(path):
    """Return (the attempts in a log, in order; a sentence for each thing that could not be read)."""
    attempts = []
    notes = take(path, VERSION, lambda record: attempts.append(_attempt(record)))
    return attempts, notes


def own_minutes(attempts):
    """Return {lesson's module: minutes of work}, from the attempts of one learner.

    Counted is the work up to the last attempt in each kernel; what followed it, or came before a restart without one,
    is not known.
    """
    last, sums = {}, {}
    for attempt in attempts:
        key = attempt.lesson, attempt.kernel
        last[key] = max(attempt.in_kernel, last.get(key, 0))
    for (lesson, _), seconds in last.items():
        sums[lesson] = sums.get(lesson, 0) + seconds / 60
    return sums


def take(path, version, add):
    """Hand each record of a file, a line of JSON each, to add; return a sentence for each thing that could not be read.

    version: of the newest form that add knows. It raises a ValueError or the like for a damaged record.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path} cannot be read ({error.strerror})."]
    count = {"damaged": 0, "of a newer edition of the course": 0}
    for line in filter(bytes.strip, lines):
        try:
            record = json.loads(line)
            if record["v"] > version:
                count["of a newer edition of the course"] += 1
            else:
                add(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            count["damaged"] += 1
    left_out = [f"{n} line{'s are' if n > 1 else ' is'} {what}" for what, n in count.items() if n]
    return [f"{path}: {lines} and left out; the others count." for lines in left_out]


def _attempt(record):
    texts = {name: record[name] for name in ("kernel", "lesson", "item")}
    texts["what"] = record["letter"] if "letter" in record else record["check"]
    seconds = {name: record[name] for name in ("on_item", "in_kernel")}
    mistake = record.get("mistake")
    if (
        not ITEM.fullmatch(" ".join(texts.values()))
        or not (mistake is None or mistake.isprintable() and CAUSE.fullmatch(mistake))
        or not all(type(value) in (int, float) and 0 <= value < 1e9 for value in seconds.values())
        or record["verdict"] not in ("right", "not yet")
    ):
        raise ValueError(record)
    return Attempt(**texts, right=record["verdict"] == "right", mistake=mistake, **seconds)

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
    try:
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{path} cannot be read ({error.strerror})."]
    attempts, damaged, newer = [], 0, 0
    for line in filter(str.strip, lines):
        try:
            record = json.loads(line)
            if record["v"] > VERSION:
                newer += 1
                continue
            attempts.append(_attempt(record))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            damaged += 1
    notes = []
    if damaged:
        notes.append(f"{path}: {_lines(damaged)} damaged and left out; the others count.")
    if newer:
        notes.append(f"{path}: {_lines(newer)} of a newer edition and left out. Update the course to read them.")
    return attempts, notes


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


def _lines(count):
    return f"{count} line{'s are' if count > 1 else ' is'}"

"""Predictions and recall questions: a letter goes in, the reason of just that option comes out.

The options and their reasons stand in the folder questions, in files that coursebuild makes from the lessons.
"""

import functools
import json
from pathlib import Path

from lessonkit import attempts
from lessonkit._tones import tell

LETTERS = "abcd"


answered = set()  # the questions that got a letter in this kernel


@functools.cache
def _tables():
    """Return {lesson: {"Exercise 3.1": name of its check (or names), "Predict 3.1": options, ...}}."""
    files = sorted(Path(__file__).with_name("questions").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def _table():
    return {name: item for table in _tables().values() for name, item in table.items() if isinstance(item, list)}


def exercise(check):
    """Return (lesson, "Exercise 3.1") of the exercise that has the check, None for a check of no exercise."""
    return next(
        (
            (lesson, name)
            for lesson, table in _tables().items()
            for name, item in table.items()
            if isinstance(item, str) and check in item.split()
        ),
        None,
    )


def answers():
    """Return {lesson: {name: check}} of the functions and classes that answer its exercises."""
    return {lesson: table.get("Answers", {}) for lesson, table in _tables().items()}


def made_by(check):
    """Return (lesson, "3.1", the function or class that answers the exercise) of a check; "" for what it has not."""
    lesson, item = exercise(check) or ("", "")
    names = [name for name, its in answers().get(lesson, {}).items() if its == check]
    return lesson, item.removeprefix("Exercise "), names[0] if names else ""


def predict(number, letter):
    """Answer a prediction: check.predict("3.1", "b") says whether b is right, and why. Left empty, it waits."""
    _answer(f"Predict {number}", letter)


def recall(number, letter):
    """Answer a question about an earlier lesson: check.recall("3.1", "b") says whether b is right, and why."""
    _answer(f"Recall {number}", letter)


def _answer(name, letter):
    if name not in _table():
        here = [other.split(" ")[1] for other in _table() if other.split(".")[0] == name.split(".")[0]]
        raise ValueError(f"there is no {name!r}. The lesson has {', '.join(here) or 'none'}. Correct the number.")
    options = dict(zip(LETTERS, _table()[name], strict=False))
    *most, last = options
    letters = f"{', '.join(most)} or {last}"
    said = letter.strip(" .()").lower() if isinstance(letter, str) else letter
    if said == "":
        print(f"{name}: put the letter of your answer ({letters}) between the quotes, and run this cell.")
    elif said not in options:
        print(f"{name}: {letter!r} is none of its letters. Put {letters} between the quotes, and run this cell.")
    else:
        answered.add(name)
        lesson = next(lesson for lesson, table in _tables().items() if name in table)
        attempts.note(lesson, name, options[said]["right"], letter=said)
        right = options[said]["right"]
        tell(
            f"{'Yes' if right else 'Not quite'}. {options[said]['reason']}",
            "right" if right else "not yet",
            markdown=True,
        )


def summary(lesson, verdicts):
    """Return a line that says how far a lesson is in this kernel. verdicts: {name of a check: whether it was right}."""
    table = _tables().get(lesson, {})
    exercises = {name.split(" ")[1]: item for name, item in table.items() if isinstance(item, str)}
    asked = [name for name, item in table.items() if isinstance(item, list)]
    still = [number for number, names in exercises.items() if not all(map(verdicts.get, names.split()))]
    said = f"{len(exercises) - len(still)} of {len(exercises)} exercises are right in this kernel."
    if still:
        said += f" Still open: {', '.join(still)}."
    if asked:
        said += f" Questions answered: {len(answered.intersection(asked))} of {len(asked)}."
    return said

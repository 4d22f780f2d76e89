"""Answers that are values: numbers, words and dictionaries of them, and predictions."""

import contextlib
from fractions import Fraction

from lessonkit.check.misconceptions import Misconception, announce
from lessonkit.check.verdicts import accept, refuse_dots, reject
from lessonkit.check.wording import kind_of, listed, plain_value


def values(answer, name, expected, causes, tolerance=None):
    """Check a quiz answer, a dict of named values.

    expected: {question: value}. A tuple matches a list, torch.Size, a row (1, D) and a column (D, 1) as well; a float
        is compared within tolerance (absolute; required if a value is a float).
    causes: {question: {wrong value: why}}: what a known wrong value tells.
    """
    for question, slips in causes.items():
        announce(Misconception(why, expected | {question: wrong}) for wrong, why in slips.items())
    refuse_dots(answer, name)
    if not isinstance(answer, dict):
        reject(f"check.{name} takes a dictionary with a value for each of {len(expected)} keys, not {kind_of(answer)}.")
    missing = [key for key in expected if key not in answer]
    unknown = [key for key in answer if key not in expected]
    if missing or unknown:
        keys = f" The keys are {', '.join(map(repr, expected))}." if unknown else ""
        reject(f"{listed('missing', missing)} {listed('unknown', unknown)}".strip() + keys)
    wrong = [key for key, right in expected.items() if answer[key] is ... or not _equal(answer[key], right, tolerance)]
    if wrong:
        key = wrong[0]
        right_ones = [str(key) for key in expected if key not in wrong]
        so_far = f" Right so far: {', '.join(right_ones)}." if right_ones else ""
        if answer[key] is ...:
            reject(f"{key}: put your answer in the place of the three dots.{so_far}")
        slips = causes.get(key, {})
        why = next((why for other, why in slips.items() if _equal(answer[key], other, tolerance)), None)
        message = f"{key}: {plain_value(answer[key])} is not right.{so_far}"
        reject(message, why or _form(answer[key], expected, key, slips))
    accept(f"Right: all {len(expected)} answers.")


def _form(value, expected, key, slips):
    """Say what kind of answer is wanted, if value is of another kind; None if it is only wrong."""
    right = expected[key]
    if isinstance(right, bool) and not isinstance(value, bool):
        return "The answer is one of Python's two words True and False."
    if isinstance(right, str):
        words = sorted({word for word in (*expected.values(), *slips) if isinstance(word, str)})
        text = value.strip().lower() if isinstance(value, str) else value
        if text not in [word.lower() for word in words]:
            return f"The answer is one of the words {', '.join(map(repr, words))}."
    if isinstance(right, (int, float)) and isinstance(_as_number(value), str):
        return "The answer is a number."
    return None


def _equal(value, right, tolerance):
    if isinstance(right, tuple):
        return as_python(value) == as_python(right)
    value = as_python(value) if isinstance(right, (bool, str)) else _as_number(value)
    if isinstance(right, bool) or isinstance(value, bool):
        return value is right
    if isinstance(right, float):
        return isinstance(value, (int, float)) and (value == right or abs(value - right) <= tolerance)
    if isinstance(right, str):
        return isinstance(value, str) and value.strip().lower() == right.lower()
    return type(value) in (int, float) and value == right if isinstance(right, int) else value == right


def as_python(value):
    """Return a number, or several, as Python's own, whether NumPy, a tensor, a fraction or Python holds them.

    Axes of size 1 go: a row of shape (1, D) and a column of shape (D, 1) are the list of their D numbers.
    """
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, (list, tuple)):
        items = [as_python(item) for item in value]
        return items[0] if len(items) == 1 else items
    return value.squeeze().tolist() if hasattr(value, "tolist") else value


def _as_number(value):
    """The number that given stands for (text like "5/6", a Fraction, one value for each row), or given itself."""
    value = as_python(value)
    if isinstance(value, str):
        for read in (float, lambda text: float(Fraction(text))):  # Fraction writes all digits of 1e999999999 out
            with contextlib.suppress(ValueError, ZeroDivisionError):
                return read(value.replace(" ", ""))
        return value
    each = value
    while isinstance(each, list) and each and isinstance(each[0], list):
        each = [item for items in each for item in items]
    if isinstance(each, list) and each and all(type(item) in (int, float) for item in each):
        return each[0] if max(each) - min(each) <= 1e-6 * abs(each[0]) else value
    return value

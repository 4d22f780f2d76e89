"""Answers that are values: a quiz's numbers and words, and the letters of predictions and recall questions."""

import ast
import contextlib
import itertools
import math
from fractions import Fraction

import torch

from lessonkit import attempts, course
from lessonkit.check.misconceptions import Misconception, announce
from lessonkit.check.relations import FUNCTIONS
from lessonkit.check.verdicts import accept, kind_of, listed, plain_value, refuse_dots, reject
from lessonkit.progress.saved import RIGHT, TRIED, WAITS
from lessonkit.progress.strip import strip
from lessonkit.shown import above_output, in_notebook, tell

answered = {}  # the questions that have an answer in this kernel: their letters


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
        like = [other for other in slips if _equal(answer[key], other, tolerance)]
        number = _as_number(answer[key])
        why = slips[min(like, key=lambda other: abs(other - number) if len(like) > 1 else 0)] if like else None
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
    number = _as_number(value)
    if isinstance(right, (int, float)) and isinstance(number, (str, list)):
        return "The answer is a number." if isinstance(number, str) else "The answer is one number, not several."
    if isinstance(right, (int, float)) and type(number) in (int, float):
        return _related(number, right) or _neighbor(number, expected, key)
    if isinstance(right, tuple) and isinstance(as_python(value), list) and isinstance(as_python(right), list):
        return _of_several(as_python(value), as_python(right)) or _neighbor(as_python(value), expected, key)
    return None


_SIZES = [  # beside the functions that all relations share
    (lambda right: 100 * right, "A share, or percent?"),
    (lambda right: right / 100, "Percent, or a share?"),
    (lambda right: 100 - right, "That is what is left. Asked is the other part."),
    (lambda right: 2 * right, "You are off by a factor of 2."),
    (lambda right: right / 2, "Off by a factor of 2."),
    (lambda right: right + 1, "You are off by one."),
    (lambda right: right - 1, "Off by one."),
]


def _related(number, right):
    """Ask back what a number suggests that is related to the right one; None where no relation is known."""
    exact = torch.tensor(float(right), dtype=torch.float64)
    for function, *_, told in [*FUNCTIONS, *_SIZES] if right else ():
        other = function(exact).item()
        itself = abs(other - right) <= 1e-3 * abs(right)
        if abs(number - other) <= 1e-3 * abs(other) and not itself and (isinstance(right, int) or "one" not in told):
            return told
    ratio = number / right if right else 0
    for n in range(2, 13):
        if any(math.isclose(ratio, (n / (n - 1)) ** power, rel_tol=1e-3) for power in (1, -1, 0.5, -0.5)):
            return f"Is something divided by {n - 1} that has {n} parts, or by {n} for {n - 1}?"
    if isinstance(right, int) and right > 12 and ratio and (ratio == int(ratio) or 1 / ratio == round(1 / ratio)):
        return f"You are off by a factor of {round(max(ratio, 1 / ratio))}. What does it count?"
    if 0 < abs(ratio - 1) < 0.01:
        return "That is close. Was a number rounded on the way?"
    return None


def _of_several(given, right):
    """What several numbers suggest: another order, another count, the same relation in each."""
    if isinstance(right[0], list) and given == [list(column) for column in zip(*right, strict=True)]:
        return "Rows and columns are exchanged."
    if len(given) != len(right):
        rows = " rows" if isinstance(right[0], list) else ""
        return f"You give {len(given)}{rows}, and {len(right)} are asked for."
    given, right = _flat(given), _flat(right)
    if len(given) != len(right) or any(isinstance(item, str) for item in [*given, *right]):
        return None
    if sorted(given) == sorted(right):
        return "The numbers are right, and their order is not."
    pairs = [(item, other) for item, other in zip(given, right, strict=True) if item != other]
    told = {_related(item, other) for item, other in pairs}
    if len(told) == 1 < len(pairs) and None not in told:
        return told.pop()
    return f"{len(right) - len(pairs)} of {len(right)} numbers are right." if len(pairs) < len(right) else None


def _flat(numbers):
    return [item for row in numbers for item in (_flat(row) if isinstance(row, list) else [row])]


def _neighbor(value, expected, key):
    """Say that a value is the answer to another key."""
    other = next((name for name, right in expected.items() if name != key and _equal(value, right, 1e-9)), None)
    return f"That is the answer to {other}." if other else None


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
    each = _flat(value) if isinstance(value, list) else []
    if each and all(type(item) in (int, float) for item in each):
        return each[0] if max(each) - min(each) <= 1e-6 * abs(each[0]) else value
    return value


# ---- letters
def predict(number, letter=""):
    """Show the options of a prediction, for a click. check.predict("3.1", "b") answers with a letter, and says why."""
    _ask(f"Predict {number}", letter)


def recall(number, letter=""):
    """Ask about an earlier lesson, as check.predict does about this one."""
    _ask(f"Recall {number}", letter)


def _ask(name, letter):
    kind, number = name.split(" ")
    lesson = next((lesson for lesson in course.lessons().values() if number.startswith(f"{lesson.number}.")), None)
    questions = {question.name: question for question in lesson.questions} if lesson else {}
    if name not in questions:
        here = [other.number for other in questions.values() if other.kind == kind]
        raise ValueError(f"there is no {name!r}. The lesson has {', '.join(here) or 'none'}. Correct the number.")
    question = questions[name]
    *most, last = question.by_letter
    how = f'{name}: write {", ".join(most)} or {last} as in check.{kind.lower()}("{number}", "a"), and run this cell.'
    plain = letter.strip(" .()").lower() if isinstance(letter, str) else letter
    if plain in question.by_letter:
        _answered(lesson, question, plain)
        right, reason = question.by_letter[plain]["right"], question.by_letter[plain]["reason"]
        tell(f"{'Yes' if right else 'Not quite'}. {reason}", "right" if right else "not yet", markdown=True)
    elif plain == "" and in_notebook():
        _choose(lesson, question, how)
    else:
        print(how)


def _answered(lesson, question, letter):
    answered[question.name] = letter
    attempts.note(lesson.module, question.name, question.by_letter[letter]["right"], letter=letter)


def _choose(lesson, question, how):
    """Show a question's options, and what was clicked in this kernel or an earlier one."""
    from lessonkit.check import choices  # a grader has no use for widgets
    from lessonkit.progress import log

    def clicked(letter):
        _answered(lesson, question, letter)
        expect(letter)

    def expect(letter):
        answered[question.name] = letter
        expected = question.by_letter[letter]["text"]
        above_output[_outcome(lesson, question)] = f"You expected **{letter}**: {expected}"

    letter = answered.get(question.name) or log.last_letter(attempts.path(), lesson.module, question.name)
    if letter:
        expect(letter)
    choices.show(question, letter, how, clicked)


def _outcome(lesson, question):
    """Return the id of the cell that shows what was predicted: the first after the question that does anything."""
    after = lesson.items[lesson.items.index(question) + 1 :]
    codes = itertools.takewhile(lambda item: not isinstance(item, (course.Question, course.Exercise)), after)
    silent = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.Import | ast.ImportFrom
    does = lambda code: any(not isinstance(statement, silent) for statement in ast.parse(code.source).body)
    return next((code.id for code in codes if isinstance(code, course.Code) and does(code)), "")


def made_by(check):
    """Return (its lesson's module, "3.1", the function or class that answers it) of a check; "" for what it has not."""
    if check not in course.checks():
        return "", "", ""
    lesson, exercise = course.checks()[check]
    names = [name for name, its in exercise.answers.items() if its == check]
    return lesson.module, exercise.number, names[0] if names else ""


def summary(module, right, tried=()):
    """Return (a line that says how far a lesson is, the same with its exercises as a strip, as HTML).

    right, tried: the names of the checks that an answer has passed, and of those that have said no.
    """
    lesson = next((lesson for lesson in course.lessons().values() if lesson.module == module), None)
    exercises, questions = (lesson.exercises, lesson.questions) if lesson else ([], [])
    states = {}
    for exercise in exercises:
        checks = {check.name for check in exercise.checks}
        states[exercise.number] = RIGHT if checks <= right else TRIED if checks & {*right, *tried} else WAITS
    still = [exercise for exercise in exercises if states[exercise.number] != RIGHT]
    core = [exercise for exercise in exercises if not exercise.optional]
    first = (
        f"{sum(exercise not in still for exercise in core)} of {len(core)} exercises are right, in this kernel or kept."
    )
    is_open = ", ".join(exercise.number for exercise in still if not exercise.optional)
    optional = ", ".join(exercise.number for exercise in still if exercise.optional)
    names = f" Not yet right here: {is_open}." * bool(is_open) + f" Optional: {optional}." * bool(optional)
    count = sum(question.name in answered for question in questions)
    last = f" Questions answered: {count} of {len(questions)}." * bool(questions)
    return first + names + last, f"<div>{strip(lesson, states) if lesson else ''}</div>{first}{last}"

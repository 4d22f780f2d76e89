"""Predictions and recall questions: a letter goes in, the reason of just that option comes out."""

from lessonkit import attempts, course
from lessonkit.shown import tell

answered = set()  # the questions that got a letter in this kernel


def made_by(check):
    """Return (its lesson's module, "3.1", the function or class that answers it) of a check; "" for what it has not."""
    if check not in course.checks():
        return "", "", ""
    lesson, exercise = course.checks()[check]
    names = [name for name, its in exercise.answers.items() if its == check]
    return lesson.module, exercise.number, names[0] if names else ""


def predict(number, letter):
    """Answer a prediction: check.predict("3.1", "b") says whether b is right, and why. Left empty, it waits."""
    _answer(f"Predict {number}", letter)


def recall(number, letter):
    """Answer a question about an earlier lesson: check.recall("3.1", "b") says whether b is right, and why."""
    _answer(f"Recall {number}", letter)


def _answer(name, letter):
    kind, number = name.split(" ")
    lesson = next((lesson for lesson in course.lessons().values() if number.startswith(f"{lesson.number}.")), None)
    questions = {question.name: question for question in lesson.questions} if lesson else {}
    if name not in questions:
        here = [other.number for other in questions.values() if other.kind == kind]
        raise ValueError(f"there is no {name!r}. The lesson has {', '.join(here) or 'none'}. Correct the number.")
    options = questions[name].by_letter
    *most, last = options
    letters = f"{', '.join(most)} or {last}"
    plain = letter.strip(" .()").lower() if isinstance(letter, str) else letter
    if plain == "":
        print(f"{name}: put the letter of your answer ({letters}) between the quotes, and run this cell.")
    elif plain not in options:
        print(f"{name}: {letter!r} is none of its letters. Put {letters} between the quotes, and run this cell.")
    else:
        answered.add(name)
        right, reason = options[plain]["right"], options[plain]["reason"]
        attempts.note(lesson.module, name, right, letter=plain)
        tell(f"{'Yes' if right else 'Not quite'}. {reason}", "right" if right else "not yet", markdown=True)


def summary(module, right):
    """Return a line that says how far a lesson is. right: the names of the checks that an answer has passed."""
    lesson = next((lesson for lesson in course.lessons().values() if lesson.module == module), None)
    exercises, questions = (lesson.exercises, lesson.questions) if lesson else ([], [])
    core = [exercise for exercise in exercises if not exercise.optional]
    still = [exercise for exercise in exercises if not right.issuperset(check.name for check in exercise.checks)]
    is_open = ", ".join(exercise.number for exercise in still if not exercise.optional)
    optional = ", ".join(exercise.number for exercise in still if exercise.optional)
    line = (
        f"{sum(exercise not in still for exercise in core)} of {len(core)} exercises are right, in this kernel or kept."
    )
    if is_open:
        line += f" Not yet right here: {is_open}."
    if optional:
        line += f" Optional: {optional}."
    if questions:
        count = sum(question.name in answered for question in questions)
        line += f" Questions answered: {count} of {len(questions)}."
    return line

"""Progress in words: a table for the learner, and the line that `make lab` prints."""

from lessonkit.attempts import FILE
from lessonkit.progress.log import own_minutes, read
from lessonkit.progress.saved import MARKS, NOT_RUN, RIGHT

HEAD = ("lesson", "exercises", "core right", "min left", "of", "yours", "next")
ALIGN = "<<>>>><"


def table(learner, course):
    """Return the lines of a learner's progress: a row a lesson, the sum, and what comes next."""
    attempts, notes = read(learner.folder / FILE)
    own = own_minutes(attempts)
    rows = [HEAD, *(_row(learner, lesson, own) for lesson in course.values())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = [at for at, name in enumerate(HEAD) if own or name != "yours"]
    lines = ["  ".join(f"{row[at]:{ALIGN[at]}{widths[at]}}" for at in shown).rstrip() for row in rows]
    left = _whole(sum(learner.minutes_left(lesson) for lesson in course.values()))
    lines += ["", line(learner, course), f"About {left // 60} h {left % 60} min of the core are left."]
    lines.append("  ".join(f"{mark} {state}" for state, mark in MARKS.items()) + "; optional exercises after a +")
    lines.append("min left: the lesson's minutes times the share of its exercises' minutes that is open.")
    if own:
        lines.append("yours: your minutes up to the last attempt, a pause counting ten minutes at most.")
    return [*lines, *learner.notes, *notes]


def _row(learner, lesson, own):
    states, left = learner.states[lesson.stem], learner.left(lesson)
    marks = "".join(MARKS[states[exercise.number]] for exercise in lesson.core)
    optional = "".join(MARKS[states[exercise.number]] for exercise in lesson.exercises if exercise.optional)
    right = f"{len(lesson.core) - len(left)} of {len(lesson.core)}"
    minutes = [_whole(learner.minutes_left(lesson)), lesson.minutes, _whole(own.get(lesson.module, 0)) or ""]
    begun = left and any(state != NOT_RUN for state in states.values())
    exercises = f"{marks} +{optional}" if optional else marks
    return (lesson.label, exercises, right, *map(str, minutes), left[0].number if begun else "")


def line(learner, course, file="{}"):
    """Return progress in one line: how many exercises are right, and which is next. file: how a file is named."""
    core = [learner.states[stem][exercise.number] for stem, lesson in course.items() for exercise in lesson.core]
    sentence = f"{core.count(RIGHT)} of {len(core)} exercises of the core are right."
    lesson = next(filter(learner.left, course.values()), None)
    if lesson is None:
        return f"{sentence} You have finished the course."
    where = f" in {file.format(learner.files[lesson.stem])}" if lesson.stem in learner.files else ""
    return f"{sentence} Next: exercise {learner.left(lesson)[0].number}{where}."


def _whole(minutes):
    """Round minutes, but never what is left to nothing."""
    return max(1, round(minutes)) if minutes else 0

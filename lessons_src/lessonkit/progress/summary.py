"""Progress in words: a table for the learner, and the line that `make lab` prints."""

from lessonkit.attempts import FILE
from lessonkit.progress.log import own_minutes, read
from lessonkit.progress.saved import MARKS, RIGHT


def table(learner, course):
    """Return the lines of a learner's progress: a row a lesson, the sum, and what comes next."""
    attempts, notes = read(learner.folder / FILE)
    own = own_minutes(attempts)
    rows = [("lesson", "exercises", "core right", "min left", "of", "yours", "next")]
    for stem, lesson in course.items():
        right = sum(learner.states[stem][exercise.number] == RIGHT for exercise in lesson.core)
        done, left = f"{right} of {len(lesson.core)}", _whole(learner.minutes_left(lesson))
        mine = _whole(own[lesson.module]) if lesson.module in own else ""
        following = learner.next_in(lesson) if learner.begun(lesson) else None
        marks = _marks(learner.states[stem], lesson)
        rows.append((lesson.label, marks, done, str(left), str(lesson.minutes), str(mine), following or ""))
    columns = [column for column in zip(*rows, strict=True) if own or column[0] != "yours"]
    left_aligned = ("lesson", "exercises", "next")
    padded = [_padded(column, str.ljust if column[0] in left_aligned else str.rjust) for column in columns]
    lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
    left = _whole(sum(learner.minutes_left(lesson) for lesson in course.values()))
    lines += ["", line(learner, course), f"About {left // 60} h {left % 60} min of the core are left."]
    lines.append("  ".join(f"{mark} {state}" for state, mark in MARKS.items()) + "; optional exercises after a +")
    lines.append("min left: the lesson's minutes times the share of its exercises, by their minutes, that is open.")
    if own:
        lines.append("yours: your minutes up to the last attempt, a pause counting ten minutes at most.")
    return [*lines, *learner.notes, *notes]


def _padded(column, to):
    return [to(cell, max(map(len, column))) for cell in column]


def line(learner, course):
    """Return progress in one line: how many exercises are right, and which is the next one to do."""
    core = [learner.states[stem][exercise.number] for stem, lesson in course.items() for exercise in lesson.core]
    sentence = f"{core.count(RIGHT)} of {len(core)} exercises of the core are right."
    lesson = next((lesson for lesson in course.values() if not learner.finished(lesson)), None)
    if lesson is None:
        return f"{sentence} You have finished the course."
    where = f" in {learner.files[lesson.stem]}" if lesson.stem in learner.files else ""
    return f"{sentence} Next: exercise {learner.next_in(lesson)}{where}."


def _marks(states, lesson):
    marks = [MARKS[states[exercise.number]] for exercise in lesson.core]
    optional = [MARKS[states[exercise.number]] for exercise in lesson.exercises if exercise.optional]
    return "".join(marks) + (f" +{''.join(optional)}" if optional else "")


def _whole(minutes):
    """Round minutes, but never what is left to nothing."""
    return max(1, round(minutes)) if minutes else 0

"""Progress in words: a table for the learner, and the line that `make lab` prints."""

from lessonkit.attempts import FILE
from lessonkit.progress.log import read
from lessonkit.progress.saved import MARKS, RIGHT


def own_minutes(attempts):
    """Return {lesson's module: minutes of work}, from the attempts of one learner, see lessonkit.attempts.

    Counted is the work up to the last attempt in each kernel; what followed it, or came before a restart without one,
    is not known.
    """
    last = {}
    for attempt in attempts:
        key = attempt.lesson, attempt.kernel
        last[key] = max(attempt.in_kernel, last.get(key, 0))
    sums = {}
    for (lesson, _), seconds in last.items():
        sums[lesson] = sums.get(lesson, 0) + seconds / 60
    return sums


def table(learner, course):
    """Return the lines of a learner's progress: a row a lesson, the sum, and what comes next."""
    attempts, notes = read(learner.folder / FILE)
    own = own_minutes(attempts)
    marks = {stem: _marks(learner.states[stem], lesson) for stem, lesson in course.items()}
    widths = [max(map(len, column)) for column in ([lesson.label for lesson in course.values()], marks.values())]
    heads = ["lesson".ljust(widths[0]), "exercises".ljust(widths[1]), "core right", "min left", "of"]
    lines = ["  ".join([*heads, *(["yours"] if own else []), "next"])]
    for stem, lesson in course.items():
        right = sum(learner.states[stem][exercise.number] == RIGHT for exercise in lesson.core)
        row = [lesson.label.ljust(widths[0]), marks[stem].ljust(widths[1]), f"{f'{right} of {len(lesson.core)}':>10}"]
        row += [f"{_whole(learner.minutes_left(lesson)):8}", f"{lesson.minutes:2}"]
        row += [f"{_whole(own[lesson.module]) if lesson.module in own else '':>5}"] if own else []
        row += [(learner.next_in(lesson) or "") if learner.begun(lesson) else ""]
        lines.append("  ".join(row).rstrip())
    left = _whole(sum(learner.minutes_left(lesson) for lesson in course.values()))
    lines += ["", line(learner, course), f"About {left // 60} h {left % 60} min of the core are left."]
    lines.append("  ".join(f"{mark} {state}" for state, mark in MARKS.items()) + "; optional exercises after a +")
    lines.append("min left: the lesson's minutes times the share of its exercises, by their minutes, that is open.")
    if own:
        lines.append("yours: your minutes up to the last attempt, a pause counting ten minutes at most.")
    return [*lines, *learner.notes, *notes]


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

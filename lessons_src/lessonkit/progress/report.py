"""What the attempts of a class show: how many got each exercise right, at which try, and its misconceptions."""

from collections import Counter, defaultdict
from statistics import median

from lessonkit.attempts import FILE
from lessonkit.progress.log import own_minutes, read

LEGEND = """\
1st, 2nd, later, never: the try at which a learner first had it right (in all parts). median: minutes and
seconds from where they met it to the right answer, a pause between two cells counting ten minutes at most.
printed: the minutes on the exercise's card. answers: the first letters given."""


def text(folders, course):
    """Return the lines of a report on the logs in these folders, a learner each."""
    logs, notes = [], []
    for folder in folders:
        log, problems = read(folder / FILE)
        logs.append(log)
        notes += problems if log or problems else [f"{folder / FILE}: no attempts."]
    lines = [f"Learners: {sum(map(bool, logs))}. Attempts: {sum(map(len, logs))}.", ""]
    for lesson in course.values():
        lines += _of_lesson(lesson, [[attempt for attempt in log if attempt.lesson == lesson.module] for log in logs])
    return [*lines, *_misconceptions(logs), LEGEND, *notes]


def _of_lesson(lesson, logs):
    """Return the lines of a lesson, [] if nobody tried it. logs: each learner's attempts in it."""
    if not any(logs):
        return []
    core = {check.name for exercise in lesson.core for check in exercise.checks}
    finished = [log for log in logs if core and core <= {attempt.what for attempt in log if attempt.right}]
    minutes = [own_minutes(log)[lesson.module] for log in finished]
    took = f"median {median(minutes):.0f} min of the {len(minutes)} who finished" if minutes else "nobody has finished"
    lines = [
        f"{lesson.label}: {took}, printed {lesson.minutes} min",
        f"  {'':16} tried  1st  2nd later never  median  printed  answers",
    ]
    exercises = {exercise.name: exercise for exercise in lesson.exercises}
    for name in lesson.names:
        by = [*filter(None, ([attempt for attempt in log if attempt.item == name] for log in logs))]
        if by or name in exercises:
            lines.append(_line(name, exercises.get(name), by))
    return [*lines, ""]


def _line(name, exercise, logs):
    """Return the line of an exercise, or of a question (None). logs: each learner's attempts at it."""
    checks = {check.name for check in exercise.checks} if exercise else set()
    ends = [_until_right(log, checks) for log in logs]
    counts = Counter(min(tries, 3) for tries, _ in ends)
    columns = "".join(f"{counts[tries]:{width}}" for tries, width in ((1, 5), (2, 5), (3, 6), (0, 6)))
    seconds = [time for tries, time in ends if tries]
    took = "{}:{:02}".format(*divmod(int(median(seconds)), 60)) if seconds else ""
    printed = f"{exercise.minutes:3} min" if exercise else ""
    letters = Counter(log[0].what for log in logs) if not name.startswith("Exercise") else {}
    answers = " ".join(f"{letter}:{count}" for letter, count in sorted(letters.items()))
    return f"  {name:16}{len(logs):6}{columns}{took:>8}  {printed:7}  {answers}".rstrip()


def _until_right(log, checks):
    """Return (the try at which one learner first had an item right, seconds of work until then), (0, 0) for never.

    checks: all of them have to be right; empty for a question. What comes after that does not count.
    """
    left, tries, seconds = set(checks) or {""}, Counter(), {}
    for attempt in log:
        what = attempt.what if checks else ""
        seconds[attempt.kernel] = attempt.on_item
        if what in left:
            tries[what] += 1
            left -= {what} if attempt.right else set()
        if not left:
            return max(tries.values()), sum(seconds.values())
    return 0, 0


def _misconceptions(logs):
    """Return lines that count the misconceptions, the most frequent first."""
    learners = defaultdict(Counter)
    for learner, log in enumerate(logs):
        for attempt in (attempt for attempt in log if attempt.mistake):
            learners[attempt.item, attempt.mistake][learner] += 1
    counted = sorted((-len(by), -by.total(), item, cause) for (item, cause), by in learners.items())
    lines = [f"  {-many:3} ({-times}) {item}: {cause}" for many, times, item, cause in counted]
    return ["Misconceptions, by learners (and times):", *lines, ""] if lines else []

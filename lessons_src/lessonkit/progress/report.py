"""What the attempts of a class show: how many got each exercise right, at which try, and its misconceptions."""

import csv
import io
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median

from lessonkit import attempts
from lessonkit.progress.log import read
from lessonkit.progress.summary import own_minutes

TRIES = ("first", "second", "later", "never")
COLUMNS = ("kind", "lesson", "item", "learners", *TRIES, "median_seconds", "printed_minutes", "answers", "times")
COLUMNS += ("cause",)
MOST = 15  # misconceptions in the text; the table has all


@dataclass
class Row:
    """An exercise or question. tries: {one of TRIES: learners}; "never" are those who tried and never got it right.

    seconds: of each learner who got it right, from where they met it to there. printed: its minutes, None for a
    question. answers: {letter: learners} of the first answers to a question.
    """

    lesson: str
    item: str
    printed: int | None
    tries: Counter = field(default_factory=Counter)
    seconds: list = field(default_factory=list)
    answers: Counter = field(default_factory=Counter)

    @property
    def letters(self):
        return " ".join(f"{letter}:{count}" for letter, count in sorted(self.answers.items()))

    @property
    def learners(self):
        return self.tries.total()


def _logs(folders):
    """Return (the attempts in each folder's log, or in each file that is named itself; what could not be read)."""
    found, notes = [], []
    for folder in folders:
        path = folder / attempts.FILE if folder.is_dir() else folder
        these, said = read(path)
        found.append(these)
        notes += said if these or said else [f"{path}: no attempts."]
    return found, notes


def rows(logs, course):
    """Return a Row for each exercise of the lessons that anyone tried, and for each question, in order."""
    items = {}  # (lesson, item): {learner: attempts}
    for learner, log in enumerate(logs):
        for attempt in log:
            items.setdefault((attempt.lesson, attempt.item), {}).setdefault(learner, []).append(attempt)
    found = []
    for lesson in course.values():
        exercises = {exercise.name: exercise for exercise in lesson.exercises}
        tried = {item: by for (module, item), by in items.items() if module == lesson.module}
        names = [*lesson.names, *sorted(tried.keys() - set(lesson.names))]  # an older edition may have had others
        for name in (name for name in names if tried and (name in exercises or name in tried)):
            exercise = exercises.get(name)
            row = Row(lesson.label, name, exercise.minutes if exercise else None)
            for log in tried.get(name, {}).values():
                tries, seconds = _until_right(log, exercise.checks if exercise else ())
                row.tries[tries] += 1
                row.seconds += [] if seconds is None else [seconds]
                if not name.startswith("Exercise"):
                    row.answers[log[0].what] += 1
            found.append(row)
    return found


def _until_right(log, checks):
    """Return (one of TRIES, seconds or None) of one learner and item. checks: all of them have to be right.

    What comes after the first time that all are right, for example when the notebook is run again, does not count.
    """
    asked = not log[0].item.startswith("Exercise")
    open_checks = {""} if asked else {check.name for check in checks} or {attempt.what for attempt in log}
    tries, seconds = Counter(), {}
    for attempt in log:
        what = "" if asked else attempt.what
        seconds[attempt.kernel] = attempt.on_item
        if what in open_checks:
            tries[what] += 1
            open_checks -= {what} if attempt.right else set()
        if not open_checks:
            return TRIES[min(max(tries.values()), 3) - 1], sum(seconds.values())
    return "never", None


def misconceptions(logs):
    """Return [((lesson, item, cause), learners, times)] of the misconceptions, the most frequent first."""
    learners, times = defaultdict(set), Counter()
    for learner, log in enumerate(logs):
        for attempt in log:
            if attempt.mistake:
                key = attempt.lesson, attempt.item, attempt.mistake
                learners[key].add(learner)
                times[key] += 1
    counted = [(key, len(learners[key]), times[key]) for key in learners]
    return sorted(counted, key=lambda misconception: (-misconception[1], -misconception[2], misconception[0]))


def text(folders, course):
    """Return the lines of a report on the logs in these folders (or files), a learner each."""
    logs, notes = _logs(folders)
    count = sum(map(len, logs))
    lines = [f"Learners: {sum(map(bool, logs))}. Attempts: {count}.", ""]
    minutes = [own_minutes(log) for log in logs]
    found = rows(logs, course)
    for lesson in course.values():
        these = [row for row in found if row.lesson == lesson.label]
        if not these:
            continue
        done = [m[lesson.module] for m, log in zip(minutes, logs, strict=True) if _finished(log, lesson)]
        took = f"median {median(done):.0f} min of the {len(done)} who finished" if done else "nobody has finished"
        lines.append(f"{lesson.label}: {took}, printed {lesson.minutes} min")
        lines.append(f"  {'':16} tried  1st  2nd later never  median  printed  answers")
        for row in these:
            counts = "".join(f"{row.tries[at]:{width}}" for at, width in zip(TRIES, (5, 5, 6, 6), strict=True))
            printed = f"{row.printed:3} min" if row.printed else ""
            numbers = f"{row.learners:6}{counts}{_clock(row.seconds):>8}  {printed:7}"
            lines.append(f"  {row.item:16}{numbers}  {row.letters}".rstrip())
        lines.append("")
    named = misconceptions(logs)
    if named:
        lines.append("Misconceptions, by learners (and times):")
    lines += [f"  {learners:3} ({times}) {item}: {cause}" for (_, item, cause), learners, times in named[:MOST]]
    if len(named) > MOST:
        lines.append(f"  and {len(named) - MOST} more: --csv has all.")
    lines += [
        *([""] if named else []),
        "1st, 2nd, later, never: the try at which a learner first had it right (in all parts). Running an answer again",
        "counts as a try until it is right. median: minutes and seconds of those who got it right, from where they met",
        "it, a pause between two cells counting ten minutes at most; work before a restart without a try is not known.",
        "printed: the minutes on the exercise's card.",
    ]
    return [*lines, *notes]


def _finished(log, lesson):
    right = {attempt.what for attempt in log if attempt.right and attempt.lesson == lesson.module}
    return bool(lesson.core) and all(check.name in right for exercise in lesson.core for check in exercise.checks)


def _clock(seconds):
    return f"{int(median(seconds)) // 60}:{int(median(seconds)) % 60:02}" if seconds else ""


def table(folders, course):
    """Return the report's numbers as CSV: a row for each exercise, question and misconception."""
    logs, _ = _logs(folders)
    out = io.StringIO()
    sheet = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    sheet.writeheader()
    for row in rows(logs, course):
        sheet.writerow(
            {
                "kind": row.item.partition(" ")[0].lower(),
                "lesson": row.lesson,
                "item": row.item,
                "learners": row.learners,
                **{at: row.tries[at] for at in TRIES},
                "median_seconds": round(median(row.seconds), 1) if row.seconds else "",
                "printed_minutes": row.printed or "",
                "answers": row.letters,
            }
        )
    for (module, item, cause), learners, times in misconceptions(logs):
        row = {"kind": "misconception", "lesson": module, "item": item, "learners": learners}
        sheet.writerow(row | {"times": times, "cause": cause})
    return out.getvalue()

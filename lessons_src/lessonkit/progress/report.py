"""What the attempts of a class show: how many got each exercise right, at which try, and its misconceptions."""

import csv
import io
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median

from lessonkit import attempts
from lessonkit.progress.log import own_minutes, read

TRIES = ("first", "second", "later", "never")
COLUMNS = ("kind", "lesson", "item", "learners", *TRIES, "median_seconds", "printed_minutes", "answers", "times")
COLUMNS += ("cause",)
MOST = 15  # misconceptions in the text; the table has all
LEGEND = """\
1st, 2nd, later, never: the try at which a learner first had it right (in all parts). Running an answer again
counts as a try until it is right. median: minutes and seconds of those who got it right, from where they met
it, a pause between two cells counting ten minutes at most; work before a restart without a try is not known.
printed: the minutes on the exercise's card."""


@dataclass
class Row:
    """An exercise or question. tries: {one of TRIES: learners}; "never" are those who tried and never got it right.

    seconds: of each learner who got it right, from where they met it to there. printed: its minutes, "" for a
    question. answers: {letter: learners} of the first answers to a question.
    """

    lesson: str
    item: str
    printed: int | str
    tries: Counter = field(default_factory=Counter)
    seconds: list = field(default_factory=list)
    answers: Counter = field(default_factory=Counter)

    @property
    def letters(self):
        return " ".join(f"{letter}:{count}" for letter, count in sorted(self.answers.items()))


def _logs(folders):
    """Return (the attempts in each folder's log, or in each file that is named itself; what could not be read)."""
    logs, notes = [], []
    for folder in folders:
        path = folder / attempts.FILE if folder.is_dir() else folder
        these, problems = read(path)
        logs.append(these)
        notes += problems if these or problems else [f"{path}: no attempts."]
    return logs, notes


def rows(logs, course):
    """Return a Row for each exercise of the lessons that anyone tried, and for each question, in order."""
    items = defaultdict(dict)  # (lesson, item): {learner: attempts}
    for learner, log in enumerate(logs):
        for attempt in log:
            items[attempt.lesson, attempt.item].setdefault(learner, []).append(attempt)
    table = []
    for lesson in course.values():
        exercises = {exercise.name: exercise for exercise in lesson.exercises}
        tried = {item: by for (module, item), by in items.items() if module == lesson.module}
        names = [*lesson.names, *sorted(tried.keys() - set(lesson.names))]  # an older edition may have had others
        for name in (name for name in names if tried and (name in exercises or name in tried)):
            exercise = exercises.get(name)
            row = Row(lesson.label, name, exercise.minutes if exercise else "")
            for log in tried.get(name, {}).values():
                tries, seconds = _until_right(log, exercise.checks if exercise else ())
                row.tries[tries] += 1
                row.seconds += seconds
                if not name.startswith("Exercise"):
                    row.answers[log[0].what] += 1
            table.append(row)
    return table


def _until_right(log, checks):
    """Return (one of TRIES, [seconds] or []) of one learner and item. checks: all of them have to be right.

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
            return TRIES[min(max(tries.values()), 3) - 1], [sum(seconds.values())]
    return "never", []


def misconceptions(logs):
    """Return [((lesson, item, cause), learners, times)] of the misconceptions, the most frequent first."""
    learners = defaultdict(Counter)
    for learner, log in enumerate(logs):
        for attempt in (attempt for attempt in log if attempt.mistake):
            learners[attempt.lesson, attempt.item, attempt.mistake][learner] += 1
    counted = [(key, len(by), by.total()) for key, by in learners.items()]
    return sorted(counted, key=lambda misconception: (-misconception[1], -misconception[2], misconception[0]))


def text(folders, course):
    """Return the lines of a report on the logs in these folders (or files), a learner each."""
    logs, notes = _logs(folders)
    lines = [f"Learners: {sum(map(bool, logs))}. Attempts: {sum(map(len, logs))}.", ""]
    table = rows(logs, course)
    for lesson in course.values():
        these = [_line(row) for row in table if row.lesson == lesson.label]
        done = [own_minutes(log)[lesson.module] for log in logs if _finished(log, lesson)]
        took = f"median {median(done):.0f} min of the {len(done)} who finished" if done else "nobody has finished"
        head = [
            f"{lesson.label}: {took}, printed {lesson.minutes} min",
            f"  {'':16} tried  1st  2nd later never  median  printed  answers",
        ]
        lines += [*head, *these, ""] if these else []
    named = misconceptions(logs)
    lines += ["Misconceptions, by learners (and times):"] if named else []
    lines += [f"  {learners:3} ({times}) {item}: {cause}" for (_, item, cause), learners, times in named[:MOST]]
    lines += [f"  and {len(named) - MOST} more: --csv has all."] if len(named) > MOST else []
    return [*lines, *([""] if named else []), LEGEND, *notes]


def _line(row):
    counts = "".join(f"{row.tries[at]:{width}}" for at, width in zip(TRIES, (5, 5, 6, 6), strict=True))
    minutes, seconds = divmod(int(median(row.seconds)), 60) if row.seconds else (0, 0)
    took = f"{minutes}:{seconds:02}" if row.seconds else ""
    printed = f"{row.printed:3} min" if row.printed else ""
    return f"  {row.item:16}{row.tries.total():6}{counts}{took:>8}  {printed:7}  {row.letters}".rstrip()


def _finished(log, lesson):
    right = {attempt.what for attempt in log if attempt.right and attempt.lesson == lesson.module}
    return bool(lesson.core) and all(check.name in right for exercise in lesson.core for check in exercise.checks)


def table(folders, course):
    """Return the report's numbers as CSV: a row for each exercise, question and misconception."""
    logs, _ = _logs(folders)
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(COLUMNS)
    for row in rows(logs, course):
        numbers = [row.tries.total(), *(row.tries[at] for at in TRIES)]
        numbers += [round(median(row.seconds), 1) if row.seconds else "", row.printed]
        sheet.writerow([row.item.partition(" ")[0].lower(), row.lesson, row.item, *numbers, row.letters, "", ""])
    for (module, item, cause), learners, times in misconceptions(logs):
        sheet.writerow(["misconception", module, item, learners, *[""] * 7, times, cause])
    return out.getvalue()

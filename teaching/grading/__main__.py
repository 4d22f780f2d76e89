"""The command line of the grader.

python -m teaching.grading 06 submitted grades.csv      (make grade LESSON=06 IN=submitted OUT=grades.csv)
"""

import argparse
import fcntl
import sys
from datetime import datetime
from pathlib import Path

from teaching.grading import feedback, lesson
from teaching.grading.bench import Bench
from teaching.grading.jail import KINDS, Jail, Limits
from teaching.grading.lesson import GradingError
from teaching.grading.marking import Marker, handed_in
from teaching.grading.sheet import Sheet, put, states
from teaching.grading.submission import Remark, digest

NO_JAIL = Remark("", "This was graded without a jail, for practice: it counts for nothing.")


def parser():
    arguments = argparse.ArgumentParser(
        prog="python -m teaching.grading",
        description="Grade the submissions of a lesson. A run that was stopped goes on where it was: submissions that "
        "the CSV file has already, and that have not changed since, are not run again, unless an answer of theirs was "
        "stopped and this run allows more.",
    )
    arguments.add_argument("lesson", help="06 or 06_batchnorm")
    arguments.add_argument("folder", type=Path, metavar="IN", help="a notebook or a folder for each learner")
    arguments.add_argument("out", type=Path, metavar="OUT", help="the CSV file; pages and log: a folder")
    defaults = Limits()
    arguments.add_argument(
        "--seconds",
        type=float,
        default=defaults.seconds,
        help="processor time of an answer, at least (%(default)s). Where the course's own answer is slow, ten times "
        "what that takes on this machine; by the clock up to three times as long, because the machine may be busy",
    )
    arguments.add_argument(
        "--memory", type=float, default=defaults.memory / 2**30, help="in GiB, a process (%(default)s)"
    )
    arguments.add_argument(
        "--again", action="append", default=[], metavar="NAME", help="grade this learner again anyway"
    )
    arguments.add_argument("--jail", choices=KINDS, default="", help="not the best that works here, but this one")
    return arguments


def main(arguments=None):
    """Do what the command line says; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        return grade(options)
    except GradingError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; the same command goes on.", file=sys.stderr)  # on a line of its own, below a learner's name
        return 130


def grade(options):
    """Grade all submissions of a folder; return the exit status."""
    wanted = lesson.read(lesson.find(options.lesson))
    handed = handed_in(options.folder, wanted)
    unknown = [name for name in options.again if name not in {submitted.learner for submitted in handed}]
    if unknown:
        names = ", ".join(submitted.learner for submitted in handed)
        raise GradingError(f"--again: no learner is called {unknown[0]!r}. There are {names[:500]}.")
    limits = Limits(seconds=options.seconds, memory=int(options.memory * 2**30))
    jail = Jail(limits, wanted, options.jail)
    sheet = Sheet(options.out, wanted, limits, jail.kind == "bubblewrap")
    pages = _folder_of_pages(options.out, options.folder)
    with open(pages / "log.txt", "a", encoding="utf-8", errors="backslashreplace") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GradingError(f"another run is writing {options.out}. Wait for it, or name another OUT.") from None
        with Bench(jail) as bench:
            _grade_all(Marker(wanted, bench), handed, sheet, options.folder, pages, _saying(log), options.again)
    return 0


def _folder_of_pages(out, submissions):
    """Return the folder beside a CSV file that is called like it, for the pages and the log; it is made."""
    pages = out.with_suffix("")
    if pages == out:
        raise GradingError(f"{out} has no ending; name a file, OUT={out}.csv.")
    if pages.resolve() == submissions.resolve():
        raise GradingError(f"the pages of {out} would lie among the submissions, in {pages}. Name another OUT.")
    try:
        pages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradingError(f"the folder {pages} cannot be made ({error.strerror}). Name another OUT.") from None
    return pages


def _saying(log):
    """Return a function that prints a line, and writes it into the log. shown: its beginning, which is printed."""

    def say(text, shown=""):
        print(text.removeprefix(shown), flush=True)
        print(text, file=log, flush=True)

    return say


def _grade_all(marker, handed, sheet, folder, pages, say, again):
    say(f"{marker.lesson.stem}, {datetime.now():%Y-%m-%d %H:%M}. Submissions: {len(handed)}")
    say(marker.bench.jail.says)
    new = 0
    for submitted in handed:
        done = (
            sheet.has(submitted.learner, digest(submitted.path)) and (pages / feedback.name(submitted.learner)).exists()
        )
        if done and submitted.learner not in again:
            continue
        print(shown := f"{submitted.learner:24} ", end="", flush=True)
        result = marker.mark(submitted, folder)
        if not sheet.jailed:
            result.remarks.append(NO_JAIL)
        put(pages / feedback.name(submitted.learner), feedback.page(result, marker.lesson))
        sheet.add(result)
        new += 1
        say(_line(result), shown)
    kept = len(handed) - new
    gone = sorted(sheet.rows.keys() - {submitted.learner for submitted in handed})
    if kept:
        say(f"{kept} in {sheet.path} already and not changed. To grade one again: ARGS='--again NAME'")
    if gone:
        say(f"Rows of learners not in {folder}, kept: {', '.join(gone)[:200]}")
    say(f"{new} graded. Points: {sheet.path}; pages and log: {pages}/")


def _line(result):
    of = f"{result.points():4.3g} of {result.of():g}"
    more = f" + {result.points(True):g} of {result.of(True):g} optional" if result.of(True) else ""
    state = result.why or ", ".join(states(result))
    return f"{result.learner:24} {of}{more}  {result.seconds:5.1f} s  {state}"


if __name__ == "__main__":
    sys.exit(main())

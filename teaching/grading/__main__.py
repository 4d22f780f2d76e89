"""The command line of the grader.

python -m teaching.grading 06 submitted grades.csv      (make grade LESSON=06 IN=submitted OUT=grades.csv)
"""

import argparse
import fcntl
import os
import sys
from datetime import datetime
from pathlib import Path

from coursebuild.source import ROOT
from teaching.grading import feedback, lesson
from teaching.grading.jail import KINDS, Jail, Limits
from teaching.grading.lesson import GradingError
from teaching.grading.marking import Marker, digest, handed_in
from teaching.grading.sheet import Sheet
from teaching.grading.worker import Worker, holds


def parser():
    made = argparse.ArgumentParser(
        prog="python -m teaching.grading",
        description="Grade the submissions of a lesson. A run that was stopped goes on where it was: submissions that "
        "stand in the CSV file already, and have not changed since, are not run again.",
    )
    made.add_argument("lesson", help="06 or 06_batchnorm")
    made.add_argument("folder", type=Path, metavar="IN", help="a notebook or a folder for each learner")
    made.add_argument("out", type=Path, metavar="OUT", help="the CSV file; pages and log: a folder")
    defaults = Limits()
    made.add_argument("--seconds", type=float, default=defaults.seconds, help="an answer's, at least (%(default)s)")
    made.add_argument("--memory", type=float, default=defaults.memory / 2**30, help="in GiB, a process (%(default)s)")
    made.add_argument("--user", default=defaults.user, help="who runs the answers, if you are root (%(default)s)")
    made.add_argument("--jail", choices=KINDS, default="", help="not the best that works here, but this one")
    made.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python", help="the lessons' Python")
    return made


def main(arguments=None, root=ROOT):
    """Do what the command line says; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        return grade(options, root)
    except GradingError as error:
        print(error, file=sys.stderr)
        return 1


def grade(options, root=ROOT):
    """Grade all submissions of a folder; return the exit status."""
    wanted = lesson.read(lesson.find(options.lesson, root), root)
    handed = handed_in(options.folder, wanted)
    sheet = Sheet(options.out, wanted)
    pages = options.out.with_suffix("")
    pages.mkdir(parents=True, exist_ok=True)
    limits = Limits(seconds=options.seconds, memory=int(options.memory * 2**30), user=options.user)
    with open(pages / "log.txt", "a", encoding="utf-8") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GradingError(f"another run is writing {options.out}. Wait for it, or name another OUT.") from None
        with Worker(Jail(root, options.python, limits, wanted, options.jail)) as worker:
            _grade_all(Marker(wanted, worker), handed, sheet, options.folder, pages, _saying(log))
    return 0


def _saying(log):
    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    return say


def _grade_all(marker, handed, sheet, folder, pages, say):
    say(f"{marker.lesson.stem}: {len(handed)} submissions, {datetime.now():%Y-%m-%d %H:%M}")
    say("What a submission meets on this machine, each tried just now:")
    for what, good, how in holds(marker.worker):
        say(f"  {'yes' if good else 'NO '}  {what}: {how}")
    new = 0
    for one in handed:
        if sheet.has(one.learner, digest(one.path)) and (pages / feedback.name(one.learner)).exists():
            continue
        result = marker.mark(one, folder)
        _write(pages / feedback.name(one.learner), feedback.page(result, marker.lesson))
        sheet.add(result)
        new += 1
        say(_line(result))
    kept = len(handed) - new
    gone = sorted(sheet.rows.keys() - {one.learner for one in handed})
    if kept:
        say(f"{kept} stood in {sheet.path} already and have not changed.")
    if gone:
        say(f"{len(gone)} rows belong to learners who are not in {folder}; they were kept: {', '.join(gone)[:200]}")
    say(f"{new} graded. Points: {sheet.path}; pages and log: {pages}/")


def _write(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _line(result):
    of = f"{result.points():4.3g} of {result.of():g}"
    more = f" + {result.points(True):g} of {result.of(True):g} optional" if result.of(True) else ""
    held = f", {result.held:g} HELD" if result.held else ""
    wrong = [f"{mark.number} {mark.verdict}" for mark in result.marks if mark.verdict != "right"]
    what = result.why or ", ".join(wrong)
    return f"{result.learner:24} {of}{more}{held}  {result.seconds:5.1f} s  {what}"


if __name__ == "__main__":
    sys.exit(main())

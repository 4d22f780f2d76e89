"""The command line of the grader.

python -m teaching.grading LESSON IN OUT        (make grade LESSON=06 IN=submitted OUT=grades.csv)
"""

import argparse
import fcntl
import sys
from datetime import datetime
from pathlib import Path

from teaching.grading import assignment, notebook, pages
from teaching.grading.assignment import GradingError
from teaching.grading.jail import Jail, Limits
from teaching.grading.learners import handed_in
from teaching.grading.points import Grader
from teaching.grading.processes import Processes
from teaching.grading.table import Table, put, states


def parser():
    arguments = argparse.ArgumentParser(
        prog="python -m teaching.grading",
        description="Grade the submissions of a lesson. A run that was stopped goes on where it was: submissions that "
        "the CSV file has already, and that have not changed since, are not run again, unless an answer of theirs was "
        "stopped and this run allows more.",
    )
    add, defaults = arguments.add_argument, Limits()
    add("lesson", help="its number, or the name of its notebook")
    add("folder", type=Path, metavar="IN", help="a notebook or a folder for each learner")
    add("out", type=Path, metavar="OUT", help="the CSV file; pages and log: a folder")
    add(
        "--seconds",
        type=float,
        default=defaults.seconds,
        help="processor time of an answer, at least (%(default)s). Where the course's own answer is slow, ten times "
        "what that takes on this machine; by the clock up to three times as long, because the machine may be busy",
    )
    add("--memory", type=float, default=defaults.memory / 2**30, help="in GiB, a process (%(default)s)")
    add("--again", action="append", default=[], metavar="NAME", help="grade this learner again anyway")
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
    lesson = assignment.read(assignment.find(options.lesson))
    handed = handed_in(options.folder, lesson)
    unknown = [name for name in options.again if name not in {submitted.learner for submitted in handed}]
    if unknown:
        names = ", ".join(submitted.learner for submitted in handed)
        raise GradingError(f"--again: no learner is called {unknown[0]!r}. There are {names[:500]}.")
    limits = Limits(seconds=options.seconds, memory=int(options.memory * 2**30))
    jail = Jail(limits, lesson)
    table = Table(options.out, lesson, limits, jail.kind == "bubblewrap")
    folder = _folder_of_pages(options.out, options.folder)
    with open(folder / "log.txt", "a", encoding="utf-8", errors="backslashreplace") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GradingError(f"another run is writing {options.out}. Wait for it, or name another OUT.") from None

        def say(text, shown=""):
            """Print a line, and write it into the log. shown: its beginning, which is printed."""
            print(text.removeprefix(shown), flush=True)
            print(text, file=log, flush=True)

        say(f"{lesson.stem}, {datetime.now():%Y-%m-%d %H:%M}. Submissions: {len(handed)}")
        say(jail.says)
        with Processes(jail) as processes:
            new = _grade_all(Grader(lesson, processes), handed, table, options, folder, say)
        if new < len(handed):
            kept = f"{len(handed) - new} in {table.path} already and not changed"
            say(f"{kept}. To grade one again: ARGS='--again NAME'")
        say(f"{new} graded. Points: {table.path}; pages and log: {folder}/")
    return 0


def _folder_of_pages(out, submissions):
    """Return the folder beside a CSV file that is called like it, for the pages and the log; it is made."""
    folder = out.with_suffix("")
    if folder == out:
        raise GradingError(f"{out} has no ending; name a file, OUT={out}.csv.")
    if folder.resolve() == submissions.resolve():
        raise GradingError(f"the pages of {out} would lie among the submissions, in {folder}. Name another OUT.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradingError(f"the folder {folder} cannot be made ({error.strerror}). Name another OUT.") from None
    return folder


def _grade_all(grader, handed, table, options, folder, say):
    """Grade those whose row and page are not there yet, or are named by --again; return how many."""
    new = 0
    for submitted in handed:
        page = folder / pages.name(submitted.learner)
        done = table.has(submitted.learner, notebook.digest(submitted.path)) and page.exists()
        if done and submitted.learner not in options.again:
            continue
        print(shown := f"{submitted.learner:24} ", end="", flush=True)
        result = grader.grade(submitted, options.folder)
        if not table.jailed:
            result.remarks.append("this was graded without a jail, for practice: it counts for nothing")
        put(page, pages.page(result, grader.lesson))
        table.add(result)
        new += 1
        say(_line(result), shown)
    return new


def _line(result):
    of = f"{result.points():4.3g} of {result.of():g}"
    more = f" + {result.points(True):g} of {result.of(True):g} optional" if result.of(True) else ""
    state = result.why or ", ".join(states(result))
    return f"{result.learner:24} {of}{more}  {result.seconds:5.1f} s  {state}"


if __name__ == "__main__":
    sys.exit(main())

"""The command line of the grader.

python -m teaching.grading LESSON IN OUT        (make grade LESSON=06 IN=submitted OUT=grades.csv)
"""

import argparse
import contextlib
import fcntl
import os
import sys
from pathlib import Path

from teaching.grading import assignment, jail, notebook, pages
from teaching.grading.assignment import GradingError
from teaching.grading.learners import handed_in
from teaching.grading.points import Grader
from teaching.grading.processes import Processes
from teaching.grading.table import Table, put, state


def parser():
    arguments = argparse.ArgumentParser(prog="python -m teaching.grading", description="Grade a lesson's submissions.")
    add, defaults = arguments.add_argument, jail.Limits()
    add("lesson", help="its number, or the name of its notebook")
    add("folder", type=Path, metavar="IN", help="a notebook or a folder for each learner")
    add("out", type=Path, metavar="OUT", help="the CSV file; pages: a folder beside it")
    seconds = "processor time of an answer (%(default)s); by the clock up to three times as long"
    add("--seconds", type=float, default=defaults.seconds, help=seconds)
    add("--memory", type=float, default=defaults.memory / 2**30, help="in GiB, a process (%(default)s)")
    add("--again", action="append", default=[], metavar="NAME", help="grade this learner again anyway")
    return arguments


def main(arguments=None):
    """Do what the command line says; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        grade(options)
    except GradingError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; the same command goes on.", file=sys.stderr)  # on a line of its own, below a learner's name
        return 130
    return 0


def grade(options):
    """Grade all submissions of a folder whose row and page are not there yet, or are named by --again."""
    if why := jail.missing():
        raise GradingError(f"grading needs Linux with bubblewrap, which does not work here: {why}")
    lesson = assignment.read(assignment.find(options.lesson))
    handed = handed_in(options.folder, lesson)
    if unknown := set(options.again) - {submitted.learner for submitted in handed}:
        names = ", ".join(submitted.learner for submitted in handed)
        raise GradingError(f"--again: no learner is called {', '.join(unknown)}. There are {names[:500]}.")
    limits = jail.Limits(seconds=options.seconds, memory=int(options.memory * 2**30))
    table = Table(options.out, lesson, limits)
    folder = _folder_of_pages(options.out, options.folder)
    done = {each.learner for each in handed if _done(each, table, folder)} - set(options.again)
    print(f"{lesson.stem}. Submissions: {len(handed)}, of which graded already and not changed: {len(done)}")
    with _alone(options.out, folder), Processes(jail.Jail(limits, lesson)) as processes:
        grader = Grader(lesson, processes)
        for submitted in handed:
            if submitted.learner not in done:
                print(f"{submitted.learner:24} ", end="", flush=True)
                result = grader.grade(submitted, options.folder)
                put(folder / pages.name(result.learner), pages.page(result, lesson))
                table.add(result)
                print(f"{pages.total(result)}. {result.why or state(result)}", flush=True)
    print(f"{len(handed) - len(done)} graded. Points: {table.path}; pages: {folder}/")


@contextlib.contextmanager
def _alone(out, folder):
    """Hold a folder of pages for this run: two that write one table would lose each other's rows."""
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GradingError(f"another run is writing {out}. Wait for it, or name another OUT.") from None
        yield
    finally:
        os.close(held)


def _done(submitted, table, folder):
    digest = notebook.digest(submitted.path)
    return table.has(submitted.learner, digest) and (folder / pages.name(submitted.learner)).exists()


def _folder_of_pages(out, submissions):
    """Return the folder beside a CSV file that is called like it, for the pages; it is made."""
    folder = out.with_suffix("")
    if folder == out:
        raise GradingError(f"{out} has no ending; name a file, OUT={out}.csv.")
    if folder.resolve() == submissions.resolve():
        raise GradingError(f"the pages of {out} would lie among the submissions, in {folder}. Name another OUT.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())

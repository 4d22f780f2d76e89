"""The command line of the builder."""

import argparse
import sys

from coursebuild import editions, generated, records, sources, stale
from coursebuild.source import ROOT, LessonError

ABOUT = """Build the course: lessons_src/lessons/NN_name.py -> notebooks/, notebooks/solutions/ and the package
fromscratch. Without a name, build what changed. A lesson that is broken is named and left out; the others are built,
and the exit status is 1."""
EXAMPLES = """examples:
  python -m coursebuild                 build what changed                              (make notebooks)
  python -m coursebuild 02 03_epsilon   build these lessons, changed or not             (make notebooks ARGS="02 03")
  python -m coursebuild --check         say what is stale or broken; starts no kernel   (part of make check)
  python -m coursebuild --runs          record all longer training runs anew            (make runs)
  python -m coursebuild --runs NAME     record only data/runs/NAME.json                 (make runs ARGS=NAME)
"""


def parser():
    made = argparse.ArgumentParser(
        prog="python -m coursebuild",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="a lesson (02 or 02_statistics); with --runs, a record")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what is stale or broken; exit status 1 if any is")
    what.add_argument("--runs", action="store_true", help="execute the cells tagged record, and write data/runs")
    made.add_argument(
        "--no-budget",
        action="store_true",
        help="only print what takes longer than it may, and do not fail for it: for a busy machine",
    )
    return made


def main(arguments=None, root=ROOT):
    """Do what the command line says; return the exit status."""
    options = parser().parse_args(arguments)
    course = sources.load(root)
    if options.check:
        found = stale.stale(course)
        print(*(found or ["all notebooks are as their sources say"]), sep="\n")
        if found:
            print("Run `make notebooks` and commit what it changes.", file=sys.stderr)
        return int(bool(found))
    with course.stopping():
        if options.runs:
            records.record(course.lessons, options.names)
        else:
            _build(course, options)
    print(*course.errors, sep="\n", end="\n" if course.errors else "", file=sys.stderr)
    return int(bool(course.errors))


def _build(course, options):
    """Write what needs no kernel, and build the lessons that were named, or those that changed."""
    with course.stopping():
        generated.write(course)
    known = {name for path in course.paths for name in (path.stem, path.stem[:2])}
    for name in options.names:
        if name not in known:
            there = ", ".join(path.stem for path in course.paths)
            raise LessonError(f"no lesson is called {name!r}. There are {there}.")
    for lesson in list(course.lessons):
        if {lesson.number, lesson.stem} & set(options.names) or not options.names and stale.changed(lesson):
            with course.stopping():
                over = editions.build(lesson)
                generated.write(course)  # how many pictures it draws is known now
                if over and options.no_budget:
                    print(*over, sep="\n")
                elif over:
                    raise LessonError("\n".join(over), [lesson.stem])

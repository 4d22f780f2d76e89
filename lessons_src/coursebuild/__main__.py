"""The command line of the builder: python -m coursebuild."""

import argparse
import os
import sys

from coursebuild import editions, generated, sources
from coursebuild.source import ROOT, LessonError

ABOUT = """Build the course: lessons_src/lessons/NN_name/lesson.py -> notebooks/, notebooks/solutions/ and the package
fromscratch. Without a name, build what changed. A lesson that is broken is named and left out; the others are built,
and the exit status is 1. One that takes longer than editions.py allows is built, and the exit status is 1 where the
environment variable CI is set."""


def parser():
    arguments = argparse.ArgumentParser(prog="python -m coursebuild", description=ABOUT)
    arguments.add_argument("names", nargs="*", metavar="NAME", help="a lesson (02), to be built, changed or not")
    what = arguments.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what is stale (exit status 1) or broken (2)")
    what.add_argument("--no-kernel", action="store_true", help="write all that no kernel is needed for, of all lessons")
    return arguments


def main(arguments=None, root=ROOT):
    """Do what the command line says; return the exit status."""
    options = parser().parse_args(arguments)
    course = sources.load(root)
    with course.stopping():
        if options.check:
            return _check(course, options.names)
        named = course.stems(options.names)
        with course.stopping():
            generated.write(course)
        if not options.no_kernel:
            _build(course, named)
    print(*course.errors, sep="\n", end="\n" if course.errors else "", file=sys.stderr)
    return int(bool(course.errors))


def _check(course, names):
    """Say what is stale or broken, of the lessons that were named or of all."""
    named = set(course.stems(names))
    others = {name for room in course.paths if named and room.name not in named for name in (room.name, room.name[3:])}
    stale = [
        f"{path.relative_to(course.root).as_posix()}: {why}"
        for path, why in generated.wrong(course).items()
        if path.stem not in others
    ]
    broken = [str(error) for error in course.errors if not error.stems or error.stems - others]
    print(*(broken + stale or ["all notebooks are as their sources say"]), sep="\n", flush=True)
    if stale:  # what is broken has its own way out
        only = f' ARGS="{" ".join(names)}"' if names else ""
        print(f"Run `make notebooks{only}` and commit what it changes.", file=sys.stderr)
    return 2 if broken else int(bool(stale))


def _build(course, named):
    """Build the lessons that were named, or those that changed."""
    for lesson in list(course.lessons):
        if lesson.stem in named if named else generated.wrong_notebooks(lesson):
            with course.stopping():
                over = editions.build(lesson)
                if over and os.environ.get("CI"):
                    raise LessonError("\n".join(over), [lesson.stem])
                print(*over, sep="\n", end="\n" if over else "")


if __name__ == "__main__":
    sys.exit(main())

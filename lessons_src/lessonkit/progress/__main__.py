"""See lessonkit.progress."""

import argparse
import os
import sys
from pathlib import Path

from lessonkit import attempts
from lessonkit.course import DamagedCourse, lessons
from lessonkit.places import USUAL
from lessonkit.progress import page, report, summary
from lessonkit.progress.files import Unwritable, for_a_pipe, spread, tell, write_whole
from lessonkit.progress.saved import learner


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m lessonkit.progress", description="How far a learner or a class is, from saved notebooks."
    )
    where = "a learner's folder, by default work/; or one that holds the folders of learners"
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=where)
    parser.add_argument("--html", metavar="FILE", help="write the page of a class: a row for each folder")
    parser.add_argument("--report", action="store_true", help="what the logs of attempts in these folders show")
    parser.add_argument("--csv", metavar="FILE", help="with --report: write the numbers as a table as well")
    asked = parser.parse_args(arguments)
    if asked.html and asked.report or asked.csv and not asked.report:
        parser.error("--csv goes with --report, and --html and --report each stand alone.")
    folders = [Path(folder) for folder in asked.folders or [_own_folder()]]
    if not any(folder.exists() for folder in folders):
        parser.error(f"there is no {' and no '.join(map(str, folders))}. make lab makes work/; or name other folders.")
    with for_a_pipe():
        return _do(asked, folders)
    return 0


def _do(asked, folders):
    """Do what the command line asked for, of these folders; return the exit status."""
    if asked.folders:
        folders, notes = spread(folders, attempts.FILE)
        tell(notes)
    try:
        if asked.report:
            print("\n".join(report.text(folders, lessons())))
            if asked.csv:
                write_whole(Path(asked.csv), report.table(folders, lessons()))
        elif asked.html:
            learners = [learner(folder, lessons()) for folder in folders]
            write_whole(Path(asked.html), page.html(learners, lessons()))
            print(f"{asked.html}: {len(learners)} learner{'s' if len(learners) > 1 else ''}")
        else:
            for folder in folders:
                who = learner(folder, lessons())
                print("\n".join([*([f"{who.name}:"] if len(folders) > 1 else []), *summary.table(who, lessons())]))
    except (DamagedCourse, Unwritable) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _own_folder():
    named = os.environ.get("LESSON_WORK") or "off"
    return USUAL if named == "off" else named


if __name__ == "__main__":
    sys.exit(main())

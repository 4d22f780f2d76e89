"""See lessonkit.progress."""

import argparse
import os
import sys
from pathlib import Path

from lessonkit.attempts import FILE
from lessonkit.course import DamagedCourse, lessons
from lessonkit.places import USUAL
from lessonkit.progress import page, report, summary
from lessonkit.progress.saved import learner, spread


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m lessonkit.progress", description="How far a learner or a class is.")
    where = "a learner's folder, by default work/; or one that holds the folders of learners"
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=where)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--html", type=Path, metavar="FILE", help="write the page of a class: a row for each folder")
    what.add_argument("--report", action="store_true", help="what the logs of attempts in these folders show")
    asked = parser.parse_args(arguments)
    folders = asked.folders or [_own_folder()]
    if not any(folder.exists() for folder in folders):
        parser.error(f"there is no {' and no '.join(map(str, folders))}. make lab makes work/; or name other folders.")
    if asked.folders:
        folders = spread(folders, FILE)
    try:
        print("\n".join(_lines(asked, folders, lessons())))
    except DamagedCourse as error:
        sys.exit(str(error))


def _lines(asked, folders, course):
    """Return the lines that answer a command line, after writing the page that it may ask for."""
    if asked.report:
        return report.text(folders, course)
    learners = [learner(folder, course) for folder in folders]
    if asked.html:
        part = asked.html.with_name(f"{asked.html.name}.part")  # a browser may load the page at any moment
        part.write_text(page.html(learners, course), encoding="utf-8")
        part.replace(asked.html)
        return [f"{asked.html}: {len(learners)} learner{'s' if len(learners) > 1 else ''}"]
    return [line for who in learners for line in [f"{who.name}:"] * (len(folders) > 1) + summary.table(who, course)]


def _own_folder():
    named = os.environ.get("LESSON_WORK")
    return USUAL if named in (None, "", "off") else Path(named)


if __name__ == "__main__":
    main()

"""Write the plans of all sessions and courses: python -m teaching.plan (make plan)."""

import argparse
import sys
from pathlib import Path

from lessonkit.course import lessons
from teaching.material import ROOT
from teaching.plan import courses, plans
from teaching.plan.sections import PlanError


def write(folder):
    """Write all plans into a folder; return the paths, the index first."""
    found = courses.read()
    made = {"index.md": plans.index(found)}
    made[plans.ONE_SESSION.name] = plans.ONE_SESSION.read_text(encoding="utf-8")
    made |= {f"{stem}.md": plans.lesson(stem) for stem in lessons()}
    made |= {plans.file(course): plans.course(course) for course in found}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in made]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m teaching.plan", description="Write the plans of all sessions.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/plan", help="(build/plan)")
    folder = parser.parse_args(arguments).folder
    try:
        paths = write(folder)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(paths)} plans, begin with {paths[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the plans of all sessions and courses: python -m teaching.plan (make plan)."""

import argparse
import sys
from pathlib import Path

from teaching import material
from teaching.plan import courses, pages
from teaching.plan.sections import PlanError


def write(folder, root=material.ROOT):
    """Write all plans into a folder; return the paths, the index first."""
    found = courses.read(root=root)
    made = {"index.md": pages.index(found, root)}
    made |= {f"{stem}.md": pages.lesson(stem, root) for stem in material.stems(root)}
    made |= {pages.file(one): pages.course(one) for one in found}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in made]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m teaching.plan", description="Write the plans of all sessions.")
    parser.add_argument("folder", nargs="?", type=Path, default=material.ROOT / "build/plan", help="(build/plan)")
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

"""Write the plans of all sessions and courses: python -m teaching.plan (make plan).

make plan                  build/plan, a page of Markdown each
make plan ARGS="--pdf"     and the run sheet of each lesson as one page of A4, which needs a Chromium
"""

import argparse
import sys
from pathlib import Path

from teaching.material import ROOT, every
from teaching.plan import plans, sections, sheets
from teaching.slides import pdf


def write(folder, pages):
    """Write pages, {name: text}, into a folder; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in pages]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m teaching.plan", description="Write the plans of all sessions.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/plan", help="(build/plan)")
    parser.add_argument("--pdf", action="store_true", help="each run sheet as a page to print (needs a Chromium)")
    options = parser.parse_args(arguments)
    try:
        paths = write(options.folder, plans.pages())
        print(f"{len(paths)} plans, begin with {paths[0]}")
        if options.pdf:
            paths = write(options.folder, {f"{stem}.html": sheets.page(plans.sheet(stem)) for stem in every()})
            print(f"{len(pdf.print_pages(paths))} run sheets to print, {paths[0].with_suffix('.pdf')} and so on")
    except (sections.PlanError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

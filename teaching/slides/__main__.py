"""Build a deck of slides for each lesson, from the notebooks: build/slides.

make slides                          all decks
make slides ARGS="--pdf"             and each as PDF, which needs a Chromium
make slides ARGS="--pdf 06 07"       only these lessons
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from pygments.formatters import HtmlFormatter

from teaching import material
from teaching.site import explorables
from teaching.slides import deck, pdf

OUT = material.ROOT / "build/slides"
THEME = Path(__file__).with_name("theme")
FROM_PACKAGES = (
    "reveal.js/dist/reset.css",
    "reveal.js/dist/reveal.css",
    "reveal.js/dist/reveal.js",
    "reveal.js/plugin/notes/notes.js",
    "mathjax/es5/tex-svg.js",
)


def build(out, stems):
    """Write the decks of lessons to a folder. Returns {path of a deck: number of its slides}."""
    (out / "theme").mkdir(parents=True, exist_ok=True)
    for path in [*THEME.iterdir(), *(material.PACKAGES / name for name in FROM_PACKAGES)]:
        shutil.copy(path, out / "theme")
    for name in explorables.NAMES:
        explorables.bundle(name, out / "theme")
    (out / "theme/code.css").write_text(HtmlFormatter(style="default").get_style_defs(".code"), encoding="utf-8")
    counts = {}
    for stem in stems:
        lesson = material.read(stem)
        slides = deck.slides(lesson)
        page = deck.page(lesson, slides, material.keeper(out / "pictures", stem))
        (out / f"{stem}.html").write_text(page, encoding="utf-8")
        counts[out / f"{stem}.html"] = len(slides)
    return counts


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m teaching.slides", description=__doc__.partition("\n\n")[0])
    parser.add_argument("numbers", nargs="*", help="of lessons, like 06; all if none is given")
    parser.add_argument("--pdf", action="store_true", help="print each deck as PDF too (needs a Chromium)")
    options = parser.parse_args(arguments)
    there = {stem[:2]: stem for stem in material.every()}
    if unknown := set(options.numbers) - set(there):
        parser.error(f"there is no lesson {', '.join(sorted(unknown))}; there are {', '.join(there)}")
    if not options.numbers:
        shutil.rmtree(OUT, ignore_errors=True)  # decks of lessons that are no more
    counts = build(OUT, [there[number] for number in options.numbers or there])
    for path, count in counts.items():
        print(f"{os.path.relpath(path)}: {count} slides")
    try:
        for path in pdf.print_pages(counts) if options.pdf else ():
            print(os.path.relpath(path))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

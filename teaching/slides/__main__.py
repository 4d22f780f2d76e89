"""Build a deck of slides for each lesson, from the notebooks: build/slides.

make slides                          all decks
make slides ARGS="--pdf"             and each as PDF, which needs a Chromium
make slides ARGS="--pdf 06 07"       only these lessons
"""

import argparse
import shutil
import sys
from pathlib import Path

from pygments.formatters import HtmlFormatter

from teaching import material
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


def build(out, names=()):
    """Write the decks of the lessons with these numbers, or of all, to a folder. Returns {stem: number of slides}."""
    if not names:
        shutil.rmtree(out, ignore_errors=True)
    (out / "theme").mkdir(parents=True, exist_ok=True)
    for path in [*THEME.iterdir(), *(material.PACKAGES / name for name in FROM_PACKAGES)]:
        shutil.copy(path, out / "theme")
    (out / "theme/code.css").write_text(HtmlFormatter(style="default").get_style_defs(".code"), encoding="utf-8")
    counts = {}
    for stem in material.every():
        if names and stem[:2] not in names:
            continue
        lesson = material.read(stem)
        slides = deck.slides(lesson)
        page = deck.page(lesson, slides, material.keeper(out / "pictures", stem))
        (out / f"{stem}.html").write_text(page, encoding="utf-8")
        counts[stem] = len(slides)
    return counts


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m teaching.slides", description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NUMBER", help="of lessons; all if none is given")
    parser.add_argument("--pdf", action="store_true", help="print each deck as PDF too (needs a Chromium)")
    options = parser.parse_args(arguments)
    there = [stem[:2] for stem in material.every()]
    for name in options.names:
        if name not in there:
            parser.error(f"no lesson has the number {name!r}. There are {', '.join(there)}.")
    counts = build(OUT, options.names)
    for stem, count in counts.items():
        print(f"{(OUT / stem).relative_to(material.ROOT)}.html: {count} slides")
    if options.pdf:
        try:
            for path in pdf.print_pages([OUT / f"{stem}.html" for stem in counts]):
                print(path.relative_to(material.ROOT))
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

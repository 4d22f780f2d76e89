"""Write a new lesson that builds and passes every test, to be rewritten from there.

    python -m coursebuild.new 17_name "A title"             (make lesson NEW=17_name TITLE="A title": and build it)

It is made of the files in the folder skeleton, in which NN stands for the number, new_lesson for the name and TITLE for
the title: one folder with the source, checks, answers and words. The README's table gets a row.
"""

import argparse
import re
import sys
from pathlib import Path

from coursebuild.source import ROOT, rooms

SKELETON = Path(__file__).with_name("skeleton")
ROW = (
    "| NN | [TITLE](notebooks/NN_new_lesson.ipynb) · [solutions](notebooks/solutions/NN_new_lesson.ipynb) | "
    "what one builds or sees | 6 | 3 |\n"
)


def refusal(stem, title, root):
    """Return why there can be no such lesson, with the way out; None if there can."""
    stems = [room.name for room in rooms(root)]
    number = f"{int(stems[-1][:2]) + 1:02}"
    if stem[3:] in [other[3:] for other in stems]:
        return f"there is a lesson {stem[3:]!r} already. Take another name."
    if not re.fullmatch(rf"{number}_[a-z][a-z0-9_]*", stem) or not re.fullmatch(r"[^|\s][^|\n]*", title):
        return (
            f"Write make lesson NEW={number}_name TITLE=\"A title\": the next number, small letters, digits and '_', "
            "and a title, one line without '|'."
        )
    return None


def write(stem, title, root):
    """Write what a new lesson consists of; return the paths below the root of what was written or changed."""

    def filled(text):
        return text.replace("NN", stem[:2]).replace("new_lesson", stem[3:]).replace("TITLE", title)

    room = root / "lessons_src/lessons" / stem
    room.mkdir(exist_ok=True)  # git leaves the folder of a lesson that is no more, for its __pycache__
    for path in SKELETON.iterdir():
        if path.is_file():
            (room / path.name).write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    readme = root / "README.md"
    old = readme.read_text(encoding="utf-8")
    at = list(re.finditer(r"^\| \d+ \| \[.*\n", old, re.MULTILINE))[-1].end()  # the last row of its table
    readme.write_text(old[:at] + filled(ROW) + old[at:], encoding="utf-8")
    return [path.relative_to(root).as_posix() for path in [*sorted(room.glob("*.*")), readme]]


def main(arguments=None, root=ROOT):
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m coursebuild.new", description=__doc__.partition("\n\n")[0])
    parser.add_argument("stem", metavar="NN_name")
    parser.add_argument("title")
    options = parser.parse_args(arguments)
    why = refusal(options.stem, options.title, root)
    if why:
        print(why, file=sys.stderr)
        return 1
    print("Written:", *write(options.stem, options.title, root), sep="\n  ")
    print(f"Try it with make check LESSON={options.stem[:2]}. The lesson before leads here: make notebooks builds it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

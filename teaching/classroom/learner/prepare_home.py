"""Bring the lessons that are not there yet into a learner's home, as the learner, before the server starts.

python prepare_home.py             the hub runs it; prints the file to open
python prepare_home.py --new 03    a learner runs it: the newer lesson 3 beside the copy
"""

import os
import shutil
import sys
from pathlib import Path

import lab

COURSE = Path(__file__).resolve().parents[1]


def prepare(home, course):
    """Put into home what is not there yet: links to the course, copies of its lessons, the list of fonts.

    course: where the links point, FOLDER/course, so that they lead to the newest edition.
    Writes a page that says which copies belong to an older edition, and removes it when none does.
    """
    for name in ("notebooks", "data", "README.md", "GUIDE.md"):
        link = home / name
        if not os.path.lexists(link):
            link.symlink_to(course / name)
    lab.copy_missing(home)
    older, page = lab.older(home), home / "NEWER_LESSONS.md"
    if older:
        lines = "\n".join(f"- `work/{name}`: `python {Path(__file__)} --new {name[:2]}`" for name in older)
        page.write_text(
            "# Newer lessons\n\nThe course has a newer edition of these lessons than your copies, which stay as they "
            "are. To get the new one beside yours, open a terminal (File ▸ New ▸ Terminal) and type what follows the "
            f"name.\n\n{lines}\n",
            encoding="utf-8",
        )
    else:
        page.unlink(missing_ok=True)
    if not (home / ".cache/matplotlib").exists():
        shutil.copytree(COURSE / "environment/matplotlib", home / ".cache/matplotlib")


def main(arguments):
    home, code = Path.home(), 0
    if arguments[:1] == ["--new"] and len(arguments) == 2:
        print(f"work/{lab.put_beside(arguments[1], home)} is there.")
        return 0
    try:
        prepare(home, Path(os.environ["CLASS_COURSE"]))
    except (OSError, lab.LabError) as error:  # a full disk, most likely
        print(
            f"Your lessons could not be prepared: {error} What you saved is there. Start your server once more: it "
            "opens then, so that you can make room.",
            file=sys.stderr,
        )
        code = 1
    print(lab.opens_on(home)[0])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Bring the lessons that are not there yet into a learner's home, as the learner, before the server starts.

python prepare_home.py             the hub runs it; prints the lesson to open
python prepare_home.py --new 03    a learner runs it: the newer lesson 3 beside the copy
"""

import errno
import os
import shutil
import sys
from pathlib import Path

import disk_room

COURSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(COURSE / "lessons_src"))
import lab  # noqa: E402


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


def missing(home, course):
    """Return the bytes of the lessons that home has no copy of."""
    lessons = (course / "notebooks").glob("*.ipynb")
    return sum(path.stat().st_size for path in lessons if not (home / "work" / path.name).exists())


def main(arguments):
    home = Path.home()
    if arguments[:1] == ["--new"] and len(arguments) == 2:
        print(f"work/{lab.put_beside(arguments[1], home)} is there.")
        return 0
    course, code = Path(os.environ["CLASS_COURSE"]), 0
    if disk_room.is_lacking(home, size := missing(home, course)):
        lessons = f" Lessons of {size / 2**20:.1f} MB are still to come." if size else ""
        print(
            f"Your disk is full: there is no room left in {home}.{lessons} What you saved is there. Start your server "
            "once more: it opens then, so that you can delete what you do not need. If that is nothing, tell your "
            "instructor.",
            file=sys.stderr,
        )
        code = errno.ENOSPC
    else:
        prepare(home, course)
    print(lab.opens_on(home)[0])
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, lab.LabError) as error:
        sys.exit(str(error))

"""Start a learner's server, as the learner: limits, the lessons that are not there yet, then JupyterHub's own start.

python start.py [arguments for jupyterhub-singleuser]      the hub runs it
python start.py --new 03                                   a learner runs it: the newer lesson 3 beside the copy
"""

import os
import resource
import shutil
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
PROCESSES = 512  # processes and threads of one learner; a server and five kernels have about 150
sys.path.insert(0, str(COURSE / "lessons_src"))
import lab  # noqa: E402


def limit():
    """Hold every process of this learner to CLASS_MEMORY bytes of data, and their number; new files are private."""
    memory = int(os.environ["CLASS_MEMORY"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)


def prepare(home, course=Path("/"), fonts=None):
    """Put into home what is not there yet: links to the course, copies of its lessons, the list of fonts.

    course: where the links point, FOLDER/course, so that they lead to the newest edition.
    Writes a page that says which copies belong to an older edition, and removes it when none does.
    """
    for name in ("notebooks", "data", "README.md"):
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
    if fonts and not (home / ".cache/matplotlib").exists():
        shutil.copytree(fonts, home / ".cache/matplotlib")


def main(arguments):
    home = Path.home()
    if arguments[:1] == ["--new"] and len(arguments) == 2:
        print(f"work/{lab.put_beside(arguments[1], home)} is there.")
        return
    limit()
    try:
        prepare(home, Path(os.environ["CLASS_COURSE"]), COURSE / "environment/matplotlib")
        os.environ["JUPYTERHUB_DEFAULT_URL"] = f"/lab/tree/work/{lab.opens_on(home)[0]}"
    except (OSError, lab.LabError) as error:  # the server starts all the same: on a full disk, to make room
        print(f"{home.name}: {error}", file=sys.stderr)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterhub.singleuser", *arguments])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except lab.LabError as error:
        sys.exit(str(error))

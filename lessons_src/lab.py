"""Open JupyterLab on lesson 1, in the learner's own copies of the notebooks.

    python lessons_src/lab.py [arguments for jupyter lab, like --no-browser --port=9999]

Copies each learner notebook into work/ that is not there yet, and never overwrites one.
"""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = "01_why_normalize.ipynb"


def copy_missing(root=ROOT):
    """Copy the learner notebooks that work/ does not hold yet; return the names of those copied."""
    work = root / "work"
    work.mkdir(exist_ok=True)
    new = [path for path in sorted((root / "notebooks").glob("*.ipynb")) if not (work / path.name).exists()]
    for path in new:
        shutil.copyfile(path, work / path.name)
    return [path.name for path in new]


def command(arguments, root=ROOT):
    """Return the command that starts the server, with the repository as its root so that links to data/ work."""
    fixed = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/work/{FIRST}",
        # Holds overrides.json: no pop-ups about news and updates. Its page_config.json keeps jupytext's menu away,
        # and the next line its server part: it would open a lesson's source, solutions and all, as a notebook.
        f"--LabApp.app_settings_dir={root / 'lessons_src' / 'lab_settings'}",
        "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container
        fixed.append("--allow-root")
    return [sys.executable, "-m", "jupyterlab", *fixed, *arguments]


def main():
    new = copy_missing()
    if new:
        print(f"work/: {len(new)} new lesson{'s' if len(new) > 1 else ''} copied; what was there is as you left it.")
    done = command(sys.argv[1:])
    os.chdir(ROOT)
    if os.name == "posix":
        os.execv(done[0], done)  # so that Ctrl-C and signals reach the server itself
    import subprocess

    sys.exit(subprocess.call(done))


if __name__ == "__main__":
    main()

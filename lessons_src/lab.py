"""Open JupyterLab on the learner's own copies of the notebooks: on lesson 1, and later on the page of progress.

    python lessons_src/lab.py [--new 03] [arguments for jupyter lab, like --no-browser --port=9999]

Copies each learner notebook into work/ that is not there yet, and never overwrites one. --new 03 puts the present
edition of lesson 3 beside an older copy of it.
"""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from lessonkit import course, progress
from lessonkit.progress import strip

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "lessons_src" / "lab_settings"
# What the list of files leaves out: what the course keeps for a learner, and Jupyter's own defaults.
HIDDEN = ["attempts.jsonl", "inventory.jsonl", "mine", "__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~"]


class LabError(Exception):
    """Something that keeps the course from opening: what it is, and the way out."""


def copy_missing(root=ROOT):
    """Copy the notebooks that work/ does not hold yet; return the names of the learners' ones.

    A solutions notebook that nobody has edited is brought up to date as well.
    """
    new = []
    for path, mine in _copies(root):
        if not _is_there(mine):
            _write(mine, _copy(path))
            new.append(path.name)
    for path in (root / "notebooks/solutions").glob("*.ipynb"):
        mine = root / "work/solutions" / path.name
        edition, edited = _state(mine)
        if not _is_there(mine) or edition != _state(path)[0] and not edited:
            _write(mine, _copy(path))
    return new


def older(root=ROOT):
    """Return the names of the notebooks whose copy in work/ is of an older edition."""
    states = [(path.name, _state(path)[0], _state(mine)[0]) for path, mine in _copies(root)]
    return [name for name, edition, mine in states if edition and mine and edition != mine]


def unreadable(root=ROOT):
    """Return the names of the notebooks whose copy in work/ no program can read."""
    names = []
    for path, mine in _copies(root):
        try:
            json.loads(mine.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError):
            names.append(path.name)
    return names


def news(new, root=ROOT):
    """Return lines that say how many notebooks are new, and which copies are older than the course or damaged."""
    copied = f"work/: {len(new)} new notebook{'s' if len(new) > 1 else ''} copied; what was there is as you left it."
    lines = [copied] * bool(new)
    for said, names in (
        ("was copied from an older edition of the course, and stays as it is. To get the new one", older(root)),
        ("cannot be read. To get a new one", unreadable(root)),
    ):
        lines += [f'work/{name} {said} beside it: make lab ARGS="--new {_called(Path(name).stem)}"' for name in names]
    return lines


def put_beside(number, root=ROOT):
    """Put the present edition of a lesson beside the learner's copy of it; return the new file's name.

    number: "3" or "03", or the name of a notebook that is no lesson, "inventory_a".
    """
    paths = {_called(path.stem): path for path, _ in _copies(root)}
    path = paths.get(number) or paths.get(number.zfill(2))
    if path is None:
        raise LabError(f"--new {number}: there is no such lesson. There are {', '.join(paths)}.")
    text = _copy(path)
    beside = root / "work" / f"{path.stem}_{_state(path)[0][:6]}.ipynb"
    if not beside.exists():
        _write(beside, text)
    return beside.name


def _copies(root):
    """Return each learner notebook with its copy in work/, in order."""
    return [(path, root / "work" / path.name) for path in sorted((root / "notebooks").glob("*.ipynb"))]


def _called(stem):
    """Return what --new calls a notebook: the number of a lesson, the whole name of any other."""
    return stem[:2] if stem[:2].isdigit() else stem


def _copy(path):
    """Return the text of a notebook as work/ gets it."""
    if _state(path)[0] is None:
        raise LabError(
            f"{path} is damaged: expected is a notebook of the course. Get it back with git checkout {path}, or "
            "download the course anew, and keep your folder work/. What you have there is as you left it."
        )
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"]["lesson"]["copied"] = _fingerprint(notebook)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _fingerprint(notebook):
    return hashlib.sha256(json.dumps(["".join(cell["source"]) for cell in notebook["cells"]]).encode()).hexdigest()


def _state(path):
    """Return (the edition that a notebook was made from, whether it was edited since); a damaged file's is None.

    An edition is the fingerprint of the cells that the builder wrote.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        lesson = notebook["metadata"]["lesson"]
        return lesson["cells"], lesson.get("copied") != _fingerprint(notebook)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, True


def _is_there(path):
    """Return whether a file is there; LabError if the folder is closed, another user's for example."""
    try:
        return path.exists()
    except OSError as error:
        raise _closed(path, "read", error) from None


def _closed(path, act, error):
    return LabError(
        f"{path} cannot be {act} ({error.strerror}). Your copies of the lessons live there: make it writable, or copy "
        "the course to a place of your own."
    )


def _write(path, text):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")  # on a full disk no half of a lesson is left
        try:
            part.write_text(text, encoding="utf-8", newline="\n")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _closed(path, "written", error) from None


def opens_on(root=ROOT, folder=course.FOLDER):
    """Return (the file in work/ to open, lines on how far the learner is).

    It is the page of progress once an exercise was run, else the first lesson that is not finished.
    root: the folder that holds work/, a learner's home for example. folder: of the lessons' manifests.
    """
    try:
        lessons = course.lessons(folder)
    except course.DamagedCourse as error:
        raise LabError(str(error)) from None
    learner = progress.learner(root / "work", lessons)
    first, *_ = lessons.values()
    there = [lesson for lesson in lessons.values() if lesson.stem in learner.files] or [first]  # others are unreadable
    lesson = next((lesson for lesson in there if learner.left(lesson)), there[-1])
    lines = [f"{progress.line(learner, lessons)} All of it: make progress", *learner.notes]
    if strip.begun(learner):
        try:
            (root / "work" / strip.NAME).write_text(strip.page(learner, lessons), encoding="utf-8")
            return strip.NAME, lines
        except OSError:  # no room: the lesson opens all the same
            pass
    return learner.files.get(lesson.stem, f"{lesson.stem}.ipynb"), lines


def running():
    """Return the address of a JupyterLab that serves this course already, None if there is none."""
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == ROOT.resolve() and _listens(server):
            return f"{server['url']}lab?token={server['token']}"
    return None


def _listens(server):
    """Return whether a server that Jupyter has noted still listens.

    One that was killed stays noted, and after a restart of the machine or container its number can be another
    process's, this one's too.
    """
    try:
        address = (server["hostname"] or "localhost", server["port"])
        with socket.create_connection(address, timeout=5):
            return server["pid"] != os.getpid()
    except OSError:
        return bool(server.get("sock"))  # it listens at a file


def command(arguments, open_on):
    """Return the command that starts the server on a file of work/. Its root is the repository: links to data/ work."""
    fixed = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/work/{open_on}",
        # No pop-ups, saves every 15 s, Markdown opens as pages. jupytext would open a source, solutions and all.
        f"--LabApp.app_settings_dir={SETTINGS}",
        f"--LabApp.extra_labextensions_path={SETTINGS}",  # course-page: one column, folds, dark figures
        *(f"--ContentsManager.hide_globs={name}" for name in HIDDEN),
        "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container
        fixed.append("--allow-root")
    return [sys.executable, "-m", "jupyterlab", *fixed, *arguments]


def main(arguments=None):
    """Do what the command line says; the server takes the place of this process."""
    parser = argparse.ArgumentParser(prog="make lab", add_help=False, allow_abbrev=False)  # --help is jupyter lab's
    parser.add_argument("--new", metavar="03")
    options, others = parser.parse_known_args(arguments)
    try:
        new = copy_missing()
        beside = put_beside(options.new) if options.new else None
        started, lines = opens_on()
        print(*news(new), *lines, sep="\n")
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    address = running()
    if address:
        print(f"JupyterLab is already running for this course: {address}")
        print("A second one on the same files could overwrite your work. If you want one, stop the first.")
        return 0
    os.environ["PYTHONSTARTUP"] = str(SETTINGS / "startup.py")  # each kernel runs it first
    os.environ.setdefault("LESSON_WORK", str(ROOT / "work"))  # where kernels keep answers, see lessonkit/places.py
    os.chdir(ROOT)
    server = command(others, beside or started)
    if os.name == "posix":
        os.execv(server[0], server)  # so that Ctrl-C and signals reach the server itself
    return subprocess.call(server)


if __name__ == "__main__":
    sys.exit(main())

"""Open JupyterLab on the learner's own copies of the notebooks.

    python lessons_src/lab.py [--new 03] [--again] [arguments for jupyter lab, like --no-browser --port=9999]

Copies each learner notebook into work/ that is not there yet, and never overwrites one. Opens the first lesson whose
exercises are not all right yet. --new 03 puts the present edition of lesson 3 beside an older copy of it; --again
starts a server although one for this course is running.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

from lessonkit import course, progress

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "lessons_src" / "lab_settings"
FIRST = "01_why_normalize.ipynb"
LANGUAGE = {  # what the kernel reports; a copy that says so already is not "modified" as soon as it is opened
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": "{}.{}.{}".format(*sys.version_info[:3]),
}


class LabError(Exception):
    """Something that keeps the course from opening: what it is, and the way out."""


def copy_missing(root=ROOT):
    """Copy the learner notebooks and the solutions that work/ does not hold yet; return the names of the lessons.

    A solutions notebook that nobody has edited is brought up to date as well.
    """
    work = root / "work"
    new = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if not (work / path.name).exists():
            _write(work / path.name, _copy(path))
            new.append(path.name)
    for path in sorted((root / "notebooks/solutions").glob("*.ipynb")):
        mine = work / "solutions" / path.name
        if not mine.exists() or _edition(mine) != _edition(path) and not _edited(mine):
            _write(mine, _copy(path, " (solutions)"))
    return new


def older(root=ROOT):
    """Return the names of the lessons whose copy in work/ was made from an older edition than notebooks/ holds."""
    pairs = [(path, root / "work" / path.name) for path in sorted((root / "notebooks").glob("*.ipynb"))]
    return [path.name for path, mine in pairs if mine.exists() and _edition(mine) not in (None, _edition(path))]


def put_beside(number, root=ROOT):
    """Put the present edition of a lesson beside the learner's copy of it; return the new file's name.

    number: "3" or "03", or the name of a notebook that is no lesson, "inventory_a".
    """
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    matching = [path for path in paths if _called(path.stem) in (number, number.zfill(2))]
    if not matching:
        there = ", ".join(_called(path.stem) for path in paths)
        raise LabError(f"--new {number}: there is no such lesson. There are {there}.")
    beside = root / "work" / f"{matching[0].stem}_{_edition(matching[0])[:6]}.ipynb"
    if not beside.exists():
        _write(beside, _copy(matching[0]))
    return beside.name


def _called(stem):
    """Return what --new calls a notebook: the number of a lesson, the whole name of any other."""
    return stem[:2] if stem[:2].isdigit() else stem


def _copy(path, title=""):
    """Return the text of a notebook as work/ gets it: with the kernel's language, and with title behind its heading."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"]["language_info"] = LANGUAGE
    if title:
        first = notebook["cells"][0]
        heading, *rest = _text(first).split("\n")
        first["source"] = "\n".join([heading + title, *rest])
    notebook["metadata"].setdefault("lesson", {})["copied"] = _fingerprint(notebook)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _text(cell):
    return "".join(cell["source"])


def _fingerprint(notebook):
    return hashlib.sha256(json.dumps([_text(cell) for cell in notebook["cells"]]).encode()).hexdigest()


def _lesson(path):
    """Return (what a notebook's metadata say of its lesson, the notebook); ({}, None) for a damaged file."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        return notebook["metadata"]["lesson"], notebook
    except (ValueError, KeyError, TypeError):
        return {}, None


def _edition(path):
    """What tells one edition of a lesson from another: the fingerprint of the cells that the builder wrote."""
    return _lesson(path)[0].get("cells")


def _edited(path):
    lesson, notebook = _lesson(path)
    return notebook is None or lesson.get("copied") != _fingerprint(notebook)


def _write(path, text):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # on a full disk no half of a lesson is left, which would never be replaced
        try:
            part.write_text(text, encoding="utf-8", newline="\n")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(
            f"{path} cannot be written ({error.strerror}). Your copies of the lessons live in that folder: make it "
            "writable, or copy the course to a place of your own."
        ) from None


def opens_on(root=ROOT):
    """Return (the file in work/ to open: the first lesson that is not finished, else the last; how far it all is)."""
    try:
        lessons = course.lessons(root / "lessons_src/lessonkit/course")
    except course.DamagedCourse as error:
        raise LabError(str(error)) from None
    learner = progress.learner(root / "work", lessons)
    there = [lesson for lesson in lessons.values() if lesson.stem in learner.files]  # the others cannot be read
    lesson = next((lesson for lesson in there if not learner.finished(lesson)), there[-1] if there else None)
    lines = [f"{progress.line(learner, lessons)} All of it: make progress", *learner.notes]
    return learner.files[lesson.stem] if lesson else FIRST, lines


def running():
    """Return the address of a JupyterLab that serves this course already, None if there is none."""
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == ROOT.resolve():
            return f"{server['url']}lab?token={server['token']}"
    return None


def command(arguments, open_on=FIRST):
    """Return the command that starts the server, with the repository as its root so that links to data/ work."""
    fixed = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/work/{open_on}",
        # Holds overrides.json: no pop-ups about news and updates, saves every 15 s, long lines wrap, Markdown files
        # open as pages. Its page_config.json keeps jupytext's menu away, and the next line its server part: it would
        # open a lesson's source, solutions and all, as a notebook.
        f"--LabApp.app_settings_dir={ROOT / 'lessons_src' / 'lab_settings'}",
        "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container
        fixed.append("--allow-root")
    return [sys.executable, "-m", "jupyterlab", *fixed, *arguments]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make lab", add_help=False, allow_abbrev=False)  # --help is jupyter lab's
    parser.add_argument("--new", metavar="03")
    parser.add_argument("--again", action="store_true")
    options, others = parser.parse_known_args(arguments)
    try:
        new = copy_missing()
        beside = put_beside(options.new) if options.new else None
        started, lines = opens_on()
        if new:
            print(
                f"work/: {len(new)} new notebook{'s' if len(new) > 1 else ''} copied; what was there is as you left it."
            )
        for name in older():
            print(
                f"work/{name} was copied from an older edition of the course, and stays as it is. To get the new one "
                f'beside it: make lab ARGS="--new {_called(Path(name).stem)}"'
            )
        print("\n".join(lines))
        address = None if options.again else running()
        if address:
            print(f"JupyterLab is already running for this course: {address}")
            print('A second one on the same files could overwrite your work. If you want one: make lab ARGS="--again"')
            return 0
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    os.environ["PYTHONSTARTUP"] = str(SETTINGS / "startup.py")  # each kernel runs it first
    os.environ.setdefault("LESSON_WORK", str(ROOT / "work"))  # where kernels keep answers, see lessonkit/places.py
    done = command(others, open_on=beside or started)
    os.chdir(ROOT)
    if os.name == "posix":
        os.execv(done[0], done)  # so that Ctrl-C and signals reach the server itself
    import subprocess

    return subprocess.call(done)


if __name__ == "__main__":
    sys.exit(main())

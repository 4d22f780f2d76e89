"""Every command that the documentation tells somebody to type does what is said, as it is typed.

Read are the head of the Makefile, and of the pages for people every block of commands and every `make ...` in a line.
Each is run in a copy of the repository, one after the other: `.venv/bin/python -m pytest .ci` runs this.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "GUIDE.md", "CONTRIBUTING.md", "lessons_src/lessons/README.md", "teaching/README.md")
LINKED = (".venv", ".venv-teaching", ".venv-class", "teaching/node_modules")
MAKE = r"(?:[A-Z_]+=\S+ )*make [\w./-]+(?: [A-Z]+=(?:\"[^\"]*\"|[\w./=-]+))*"

# What is not run here: a pattern of whole commands, and why.
LEFT_OUT = {
    r"make test|make check|make test-teaching( .*)?|make test .*--other-processor.*": "minutes, and .ci/run runs it",
    r"make (lesson|grade)": "says what is missing; the whole command is run",
    r"make runs.*|make bench": "trains for half an hour, or needs a machine that is idle",
    r"(\w+=\S+ )?make lab.*": "ends when it is told to; tests/test_browser.py runs it",
    r"make class( ARGS=\"--(learners|domain|collect).*)?": "needs root; teaching/tests/test_classroom.py has a class",
    r".*FOLDER….*": "names a folder of one's own; make progress ARGS=--report is run",
    r"py -3.*|\.venv\\.*": "for Windows; .github/workflows/test.yml runs it there",
}
LEAVES = {  # what some of them write
    "make site": "build/site/index.html",
    'make slides ARGS="--pdf 06"': "build/slides/06_batchnorm.pdf",
    "make plan ARGS=--pdf": "build/plan/06_batchnorm.pdf",
    "make grade LESSON=06 IN=submitted OUT=grades.csv": "grades.csv",
    'make lesson NEW=17_name TITLE="A title"': "notebooks/solutions/17_name.ipynb",
}


def documented():
    head = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\n\n")[0]
    lines = re.sub(r"^#\s*", "", head, flags=re.MULTILINE)
    found = re.findall(MAKE, lines)
    for target, others in re.findall(r"\((make \w+)[^()]*((?:; ARGS=[\w-]+)+)", lines):
        found += [f"{target} {other}" for other in others.split("; ")[1:]]
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        found += [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
        found += re.findall(rf"`({MAKE}|\.venv/bin/python [^`]+)`", text)
    return list(dict.fromkeys(found))


RUN = [command for command in documented() if not any(re.fullmatch(pattern, command) for pattern in LEFT_OUT)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of this repository, uncommitted changes included, with what the examples name."""
    root = tmp_path_factory.mktemp("course")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *(f":!{name}" for name in LINKED)]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
            os.utime(root / name, (0, 0))  # older than the environments that are made of it
    shutil.copytree(root / "notebooks", root / "work", ignore=lambda *_: ["solutions"])  # as make lab does
    (root / "submitted").mkdir()
    shutil.copy(ROOT / "notebooks/solutions/06_batchnorm.ipynb", root / "submitted/ann.ipynb")
    return root


@pytest.mark.parametrize("command", RUN)
def test_a_documented_command_does_what_is_said(command, copy):
    for name in LINKED:
        if (ROOT / name).exists() and not (copy / name).exists():
            (copy / name).symlink_to((ROOT / name).resolve())
    left_out = "CI", "MAKE", "MFLAGS", "PYTEST"  # who types it has none of these; where CI is set, a slow build fails
    ours = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    # In the environment another folder's course is installed.
    environment = ours | {"PYTHONPATH": f"{copy / 'lessons_src'}{os.pathsep}{copy}"}
    command_line = ["timeout", "900", "bash", "-c", command]
    done = subprocess.run(command_line, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (copy / LEAVES.get(command, "Makefile")).exists(), done.stdout


@pytest.mark.parametrize("pattern", LEFT_OUT)
def test_what_is_left_out_is_documented(pattern):
    assert any(re.fullmatch(pattern, command) for command in documented())


def test_what_is_looked_for_is_run():
    assert LEAVES.keys() <= set(RUN)

"""The course as a package beside any torch: a notebook alone in a folder, and what a learner keeps there."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUN_ALL = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
print("errors:", [o.evalue for o in outputs if o.output_type == "error" and o.ename != "YourTurn"])
print("turns:", sum("our turn" in str(o) or o.get("ename") == "YourTurn" for o in outputs) > 3)
"""
KEEP = """
from pathlib import Path
from lessonkit import course, data, evidence, places
assert not places.ROOT.joinpath("data").exists() and places.work() == Path.cwd()
assert len(data.digits()[0]) == 1797 and data.magika_model() and (data.FOLDER / "bench.csv").exists()
assert list(evidence.FOLDER.glob("*.json")) and "statistics" in {lesson.module for lesson in course.lessons().values()}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The python of an environment that has the course's wheel and sees what this one has; and the wheel."""
    folder = tmp_path_factory.mktemp("anywhere")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in files:
        if name.startswith(("lessons_src/", "data/", "pyproject", "README", "LICENSE")):
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    alone = os.environ | {"PYTHONPATH": ""}  # or pip takes a course that it names for installed
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, folder / "source"]
    subprocess.run(build, check=True)
    venv.create(folder / "env", with_pip=False)
    python, there = folder / "env/bin/python", sysconfig.get_path("purelib")
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True, env=alone)
    packages = folder / "env" / Path(there).relative_to(sys.prefix)
    (packages / "others.pth").write_text(f"import site; site.addsitedir({there!r})\n")
    return python, wheel


def run(python, folder, program, *arguments):
    command = [python, "-c", program, *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PATH": ""})
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


SOLVED = re.compile(rb"### BEGIN SOLUTION$|^ANSWERS = ", re.MULTILINE)


def test_the_wheel_has_no_solutions_and_pins_no_torch(installed):
    with zipfile.ZipFile(installed[1]) as wheel:
        texts = {name: wheel.read(name) for name in wheel.namelist()}
    rooms = {name.rpartition("/")[2] for name in texts if name.startswith("lessons/")}
    assert rooms == {"__init__.py", "checks.py"} and not [name for name in texts if "course/solutions" in name]
    assert not [name for name, text in texts.items() if name.endswith((".py", ".md")) and SOLVED.search(text)]
    (metadata,) = [text.decode() for name, text in texts.items() if name.endswith("METADATA")]
    assert "Requires-Dist: torch>=2.6\n" in metadata
    assert installed[1].stat().st_size < 5_000_000


def test_data_manifest_and_kept_answers_are_where_the_kernel_starts(installed, tmp_path):
    run(installed[0], tmp_path, KEEP)


@pytest.mark.parametrize("stem", ["00_in_one_sitting", "03_epsilon"])
def test_a_notebook_alone_in_a_folder_reaches_its_end(installed, tmp_path, stem):
    (tmp_path / "alone.ipynb").write_bytes((ROOT / f"notebooks/{stem}.ipynb").read_bytes())
    assert run(installed[0], tmp_path, RUN_ALL, "alone.ipynb") == "errors: []\nturns: True\n"

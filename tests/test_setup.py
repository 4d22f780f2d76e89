"""make and lab.py: what a newcomer meets first, also when something is missing."""

import importlib.util
import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from tests.helpers import ROOT, executed

spec = importlib.util.spec_from_file_location("course_lab", ROOT / "lessons_src/lab.py")
lab = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lab)

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


@pytest.fixture
def checkout(tmp_path):
    """The files that set-up reads, in a folder whose name has a space."""
    root = tmp_path / "a course"
    root.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    (root / "requirements.txt").write_text("there-is-no-such-package-as-this==0\n")
    return root


def make(root, *arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=root, env=clean | environment, capture_output=True, text=True, timeout=120
    )


@needs_make
def test_a_wrong_or_missing_python_stops_with_the_way_out(checkout):
    fake = checkout.parent / "fakepython"
    pretend = "import sys; sys.version_info = (3, 10, 1); exec(sys.argv[1])"
    fake.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}" "$2"\n')
    fake.chmod(0o755)
    for python, words in ((fake, "is 3.10."), ("python-of-nowhere", "There is no python-of-nowhere")):
        done = make(checkout, "lab", f"PYTHON={python}")
        assert done.returncode != 0 and words in done.stderr and "3.11 to 3.14" in done.stderr
        assert "PYTHON=" in done.stderr and not (checkout / ".venv").exists()


@needs_make
def test_a_failing_installation_stops_and_is_tried_again_also_by_a_python_whose_path_has_a_space(checkout):
    folder = checkout.parent / "my programs"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    for _ in range(2):
        done = make(checkout, "lab", f"PYTHON={folder / 'python'}", PIP_NO_INDEX="1")
        assert done.returncode != 0 and "pip could not install requirements.txt" in done.stderr
        assert "there-is-no-such-package" in done.stderr and not (checkout / ".venv/ready").exists()
    (checkout / ".venv/ready").touch()  # as after one that went well
    for changed, asked in ((0, 0), (2e9, 1)):
        os.utime(checkout / "requirements.txt", (changed, changed))
        os.utime(checkout / "pyproject.toml", (0, 0))
        assert make(checkout, "--question", ".venv/ready").returncode == asked


# ---------------------------------------------------------------------------------------------------------- make lab


def written(path, *sources, edition="first"):
    """Write a notebook as the builder leaves one."""
    cells = [nbformat.v4.new_markdown_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"lesson": {"cells": edition}})
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def course(tmp_path):
    for name in ("01_a", "02_b"):
        written(tmp_path / f"notebooks/{name}.ipynb", f"# {name}", "text")
        written(tmp_path / f"notebooks/solutions/{name}.ipynb", f"# {name}", "answer")
    return tmp_path


def cells(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_lab_copies_what_is_missing_and_never_overwrites(course):
    """A copy says which Python it runs with, so that it is not modified as soon as it is opened."""
    (course / "work").mkdir()
    (course / "work/01_a.ipynb").write_text("mine")
    assert lab.copy_missing(course) == ["02_b.ipynb"] and lab.copy_missing(course) == []
    assert (course / "work/01_a.ipynb").read_text() == "mine"
    assert cells(course / "work/02_b.ipynb") == ["# 02_b", "text"]
    language = nbformat.read(course / "work/02_b.ipynb", as_version=4).metadata.language_info
    assert language.version == "{}.{}.{}".format(*sys.version_info[:3])


def test_solutions_are_looked_at_in_work(course):
    """So that a tracked file never changes; one that was only looked at follows a new edition, one with notes stays."""
    lab.copy_missing(course)
    mine = course / "work/solutions"
    assert cells(mine / "01_a.ipynb") == ["# 01_a (solutions)", "answer"]
    noted = nbformat.read(mine / "02_b.ipynb", as_version=4)
    noted.cells.append(nbformat.v4.new_markdown_cell("my note"))
    nbformat.write(noted, mine / "02_b.ipynb")
    for name in ("01_a", "02_b"):
        written(course / f"notebooks/solutions/{name}.ipynb", f"# {name}", "a better answer", edition="second")
    lab.copy_missing(course)
    assert cells(mine / "01_a.ipynb") == ["# 01_a (solutions)", "a better answer"]
    assert cells(mine / "02_b.ipynb") == ["# 02_b (solutions)", "answer", "my note"]


def test_lab_says_which_copies_are_older_and_puts_the_new_one_beside(course):
    lab.copy_missing(course)
    assert lab.news([], course) == []
    for name in ("02_b", "inventory_a"):  # the second is no lesson
        written(course / f"notebooks/{name}.ipynb", f"# {name}", "better", edition="second")
    new = lab.copy_missing(course)
    copied, older = lab.news(new, course)
    assert new == ["inventory_a.ipynb"] and "1 new notebook copied" in copied and older.endswith('ARGS="--new 02"')
    assert lab.put_beside("2", course) == "02_b_second.ipynb"
    assert lab.put_beside("inventory_a", course) == "inventory_a_second.ipynb"
    assert cells(course / "work/02_b.ipynb") == ["# 02_b", "text"]
    assert cells(course / "work/02_b_second.ipynb") == ["# 02_b", "better"]
    with pytest.raises(lab.LabError, match="--new 7: there is no such lesson. There are 01, 02, inventory_a."):
        lab.put_beside("7", course)
    (course / "work/02_b.ipynb").write_text("{")
    assert lab.news([], course) == [], "a damaged file is nobody's older edition"


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(course):
    (course / "work").write_text("a file where the folder should be")
    with pytest.raises(lab.LabError, match="cannot be written .* make it writable, or copy the course"):
        lab.copy_missing(course)


def test_a_new_kernel_says_how_to_come_back_before_anything_is_imported(tmp_path):
    sources = ["check.normalize(normalize)", "print(1 + 1)", "torch = None\neps"]
    cells = executed(sources, tmp_path, PYTHONSTARTUP=str(lab.SETTINGS / "startup.py"))
    (message,), (fine,), (misspelled,) = (cell.outputs for cell in cells)
    assert message.traceback[0].startswith("`check` is not known: this kernel is new")
    assert "Run up to Selected Cell" in message.traceback[1] and len(message.traceback) == 2
    assert fine.text == "2\n"
    assert "name 'eps' is not defined" in misspelled.traceback[-1] and "this kernel" not in str(misspelled)


def test_requirements_are_pinned_and_say_what_needs_them():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[-1].startswith("-e .")
    for line in lines:
        package, _, reason = line.partition("#")
        assert reason.strip(), f"{line!r} does not say what needs it"
        assert package.startswith("-e .") or "==" in package, f"{line!r} is not pinned"
    assert "-r requirements.txt" in (ROOT / "environment.yml").read_text()

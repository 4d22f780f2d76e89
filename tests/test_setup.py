"""make and lab.py: what a newcomer meets first, also when something is missing."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
@pytest.mark.parametrize("version", [(3, 10, 1), (3, 15, 0), (2, 7, 18)])
def test_a_wrong_python_stops_with_its_version_and_the_way_out(checkout, version):
    fake = checkout.parent / "fakepython"
    pretend = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n')
    fake.chmod(0o755)
    done = make(checkout, "lab", f"PYTHON={fake}")
    assert done.returncode != 0 and f"is {version[0]}.{version[1]}." in done.stderr and "3.11 to 3.14" in done.stderr
    assert "PYTHON=" in done.stderr and not (checkout / ".venv").exists()


@needs_make
def test_a_missing_python_is_named(checkout):
    done = make(checkout, "test", "PYTHON=python-of-nowhere")
    assert done.returncode != 0 and "There is no python-of-nowhere" in done.stderr


@needs_make
def test_a_failing_installation_stops_and_is_tried_again(checkout):
    for _ in range(2):
        done = make(checkout, "lab", f"PYTHON={sys.executable}", PIP_NO_INDEX="1")
        assert done.returncode != 0 and "pip could not install requirements.txt" in done.stderr
        assert "there-is-no-such-package" in done.stderr and not (checkout / ".venv/ready").exists()


@needs_make
def test_set_up_is_redone_only_when_the_requirements_change(checkout):
    (checkout / ".venv").mkdir()
    (checkout / ".venv/ready").touch()
    assert make(checkout, "--question", ".venv/ready").returncode == 0
    os.utime(checkout / "requirements.txt", (2e9, 2e9))
    assert make(checkout, "--question", ".venv/ready").returncode == 1


def test_lab_copies_what_is_missing_and_never_overwrites(tmp_path):
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    for name in ("01_a.ipynb", "02_b.ipynb", "solutions/01_a.ipynb"):
        (tmp_path / "notebooks" / name).write_text(f"new {name}")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/01_a.ipynb").write_text("mine")
    assert lab.copy_missing(tmp_path) == ["02_b.ipynb"]
    assert (tmp_path / "work/01_a.ipynb").read_text() == "mine"
    assert (tmp_path / "work/02_b.ipynb").read_text() == "new 02_b.ipynb"
    assert lab.copy_missing(tmp_path) == [] and len(list((tmp_path / "work").iterdir())) == 2


def test_lab_serves_the_repository_and_passes_arguments_on():
    command = lab.command(["--no-browser", "--port=9999"])
    assert command[0] == sys.executable and command[-2:] == ["--no-browser", "--port=9999"]
    assert f"--ServerApp.root_dir={ROOT}" in command
    assert any(lab.FIRST in part for part in command) and (ROOT / "notebooks" / lab.FIRST).exists()
    assert ("--allow-root" in command) == (os.geteuid() == 0)


def test_requirements_are_pinned_and_say_what_needs_them():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[-1].startswith("-e .")
    for line in lines:
        package, _, reason = line.partition("#")
        assert reason.strip(), f"{line!r} does not say what needs it"
        assert package.startswith("-e .") or "==" in package, f"{line!r} is not pinned"
    assert "-r requirements.txt" in (ROOT / "environment.yml").read_text()

"""make and lab.py: what a newcomer meets first, also when something is missing."""

import errno
import importlib.util
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys

import nbformat
import pytest

from tests.helpers import ROOT, executed

spec = importlib.util.spec_from_file_location("course_lab", ROOT / "lessons_src/lab.py")
lab = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lab)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_set_up_stops_with_the_way_out_where_python_or_a_package_is_missing(tmp_path):
    root, programs = tmp_path / "a course", tmp_path / "my programs"  # paths with spaces
    root.mkdir()
    programs.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    (root / "requirements.txt").write_text("there-is-no-such-package-as-this==0\n")
    pretend = "import sys; sys.version_info = (3, 10, 1); exec(sys.argv[1])"
    (programs / "old").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}" "$2"\n')
    (programs / "old").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    (programs / "uv").write_text("#!/bin/sh\necho uv installs >&2\n")  # it says that it has done so, and has not
    (programs / "uv").chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS"))}
    clean |= {"PIP_CONFIG_FILE": os.devnull, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    told = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(programs)}
    for python, pip, words in (
        (programs / "old", told, "is 3.10. Install one of them, and say which: make PYTHON="),
        ("python-of-nowhere", told, "There is no python-of-nowhere on the PATH. Install Python 3.11 to 3.14"),
        (programs / "python", told, "requirements.txt could not be installed, see above. Mend that and run make"),
        (programs / "python", {}, "The installed packages do not import, see above. Try: make clean, then again."),
    ):
        command = ["make", "lab", f"PYTHON={python}"]
        done = subprocess.run(command, cwd=root, env=clean | pip, capture_output=True, text=True, timeout=120)
        assert done.returncode != 0 and words in done.stderr and not (root / ".venv/ready").exists()
        assert ("uv installs" in done.stderr) == (not pip), "uv does not read what pip is told of the small torch"
        assert ("CUDA" in done.stdout) == ("Setting up" in done.stdout and sys.platform == "linux")


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
    mine = course / "work"
    mine.mkdir()
    (mine / "01_a.ipynb").write_text("mine")
    assert lab.copy_missing(course) == ["02_b.ipynb"] and lab.copy_missing(course) == []
    assert (mine / "01_a.ipynb").read_text() == "mine"
    assert cells(mine / "02_b.ipynb") == ["# 02_b", "text"]
    assert lab.older(course) == [], "a damaged file is nobody's older edition"
    assert lab.news([], course) == [
        'work/01_a.ipynb cannot be read. To get a new one beside it: make lab ARGS="--new 01"'
    ]


def test_a_new_edition_leaves_what_is_mine_and_follows_what_was_only_looked_at(course):
    mine = course / "work"
    lab.copy_missing(course)
    noted = nbformat.read(mine / "solutions/02_b.ipynb", as_version=4)
    noted.cells.append(nbformat.v4.new_markdown_cell("my note"))
    nbformat.write(noted, mine / "solutions/02_b.ipynb")
    for name in ("02_b", "solutions/01_a", "solutions/02_b", "inventory_a"):  # the last is no lesson
        written(course / f"notebooks/{name}.ipynb", f"# {name}", "better", edition="second")
    new = lab.copy_missing(course)
    copied, older = lab.news(new, course)
    assert new == ["inventory_a.ipynb"] and "1 new notebook copied" in copied and older.endswith('ARGS="--new 02"')
    assert lab.put_beside("2", course) == "02_b_second.ipynb"
    assert lab.put_beside("inventory_a", course) == "inventory_a_second.ipynb"
    assert cells(mine / "02_b.ipynb") == ["# 02_b", "text"] and cells(mine / "02_b_second.ipynb")[1] == "better"
    assert cells(mine / "solutions/01_a.ipynb") == ["# solutions/01_a", "better"]
    assert cells(mine / "solutions/02_b.ipynb") == ["# 02_b", "answer", "my note"]
    with pytest.raises(lab.LabError, match="--new 7: there is no such lesson. There are 01, 02, inventory_a."):
        lab.put_beside("7", course)


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(course):
    (course / "work").write_text("a file where the folder should be")
    with pytest.raises(lab.LabError, match="cannot be written .* make it writable, or copy the course"):
        lab.copy_missing(course)


def test_two_that_copy_at_once_do_not_meet(course, monkeypatch):
    monkeypatch.setattr(lab.os, "getpid", itertools.count().__next__)
    replace = lab.Path.replace

    def in_between(part, path):
        if not path.exists():
            monkeypatch.setattr(lab.Path, "replace", replace)
            lab.copy_missing(course)
        return replace(part, path)

    monkeypatch.setattr(lab.Path, "replace", in_between)
    assert lab.copy_missing(course)[0] == "01_a.ipynb" and cells(course / "work/01_a.ipynb") == ["# 01_a", "text"]
    assert not list(course.glob("work/.*"))


@pytest.mark.parametrize("text", ["", '{"cells": [', "[]", '{"cells": [], "metadata": {}}', "[" * 100_000])
def test_a_damaged_notebook_of_the_course_is_named_when_it_is_copied(course, text):
    lab.copy_missing(course)
    path, mine = course / "notebooks/02_b.ipynb", course / "work/02_b.ipynb"
    path.write_text(text)
    assert lab.copy_missing(course) == [] == lab.older(course)
    named = r"notebooks.02_b.ipynb is damaged.* git checkout .*02_b.ipynb, or download the course anew"
    before = mine.read_text()
    with pytest.raises(lab.LabError, match=named):
        lab.put_beside("2", course)
    assert mine.read_text() == before and len(list(course.glob("work/*.ipynb"))) == 2
    mine.unlink()
    with pytest.raises(lab.LabError, match=named):
        lab.copy_missing(course)


def test_a_folder_of_somebody_else_s_is_said_in_a_sentence(course, monkeypatch):
    def closed(path, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(lab.Path, "exists", closed)
    with pytest.raises(lab.LabError, match=r"work.01_a.ipynb cannot be read \(Permission denied\)"):
        lab.copy_missing(course)


def test_a_server_that_was_killed_does_not_keep_lab_from_starting(monkeypatch, tmp_path):
    """What it noted stays, with a number that another process has now, or this one, as in a new container."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.close()
        for pid, at, found in [
            (os.getppid(), listening.getsockname()[1], True),
            (os.getpid(), listening.getsockname()[1], False),
            (os.getppid(), port, False),
        ]:
            noted = {"pid": pid, "root_dir": str(lab.ROOT), "url": "http://127.0.0.1/", "token": "t", "port": at}
            (tmp_path / "jpserver-1.json").write_text(json.dumps(noted | {"hostname": "127.0.0.1"}))
            assert (lab.running() == "http://127.0.0.1/lab?token=t") == found


def test_a_new_kernel_says_how_to_come_back_before_anything_is_imported(tmp_path):
    sources = ["check.normalize(normalize)", "print(1 + 1)", "torch = None\neps"]
    cells = executed(sources, tmp_path, PYTHONSTARTUP=str(lab.SETTINGS / "startup.py"))
    (message,), (fine,), (misspelled,) = (cell.outputs for cell in cells)
    assert message.traceback[0].startswith("`check` is not known: this kernel is new")
    assert "Run up to Selected Cell" in message.traceback[1] and len(message.traceback) == 2
    assert fine.text == "2\n"
    assert "name 'eps' is not defined" in misspelled.traceback[-1] and "this kernel" not in str(misspelled)

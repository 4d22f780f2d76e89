"""What a repository is expected to have, held against what it says of itself: versions, links, commands, pins."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.helpers import ROOT
from tests.test_lessons import none_of, outside_fences

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ELSEWHERE = {"build", "node_modules", "work", "sphinx"}  # sphinx: what lies elsewhere on the site


def pages():
    """Yield the pages and notebooks below the root; a copy of the course need not be a repository."""
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if name not in ELSEWHERE and name[0] != "."]
        yield from (Path(folder, name) for name in names if name.endswith((".md", ".ipynb")))


PAGES = list(pages())
LINK = re.compile(r"""\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|\b(?:href|src)=["']([^"']+)["']""")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_and_licence_are_the_same_everywhere():
    cited = yaml.safe_load(text("CITATION.cff"))
    assert (cited["version"], " AND ".join(cited["license"])) == (PROJECT["version"], PROJECT["license"])
    assert re.search(r"^## (\S+?),? ", text("CHANGELOG.md"), re.MULTILINE)[1] == PROJECT["version"]


def test_every_promised_python_is_tested_on_every_system():
    low, high = map(int, re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups())
    matrix = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]["learners"]["strategy"]["matrix"]
    assert matrix["python"] == [f"3.{minor}" for minor in range(low, high)]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    for name in ("README.md", "Makefile", "requirements.txt"):
        assert f"3.{low} to 3.{high - 1}" in text(name), f"{name} promises another Python"


def test_the_guide_the_workflow_and_make_test_say_the_same_for_windows():
    steps = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]["learners"]["steps"]
    (windows,) = [step["run"] for step in steps if "'Windows'" in step.get("if", "") and "==" in step["if"]]
    commands = re.findall(r"\.venv\\Scripts\\python -m (?:pip|pytest) .*", text("GUIDE.md"))
    assert [line for line in windows.splitlines() if "Scripts" in line] == commands
    workers = re.search(r"^WORKERS := (.*)$", text("Makefile"), re.MULTILINE)[1]
    of_make = re.search(r"-m pytest -q (.*--nbval.*) \$\(or", text("Makefile"))[1].replace("$(WORKERS)", workers)
    assert of_make in commands[-1]


def prose(path):
    """Return the text of a page, or of a notebook's Markdown cells, without its code."""
    whole = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(whole)["cells"]
        whole = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"`[^`]*`", "", "\n".join(outside_fences(whole)))


def anchors(path):
    """Return the anchors of a Markdown file, as GitHub makes them, or of a notebook, as JupyterLab does."""
    if path.suffix == ".ipynb":
        return {heading.strip().replace(" ", "-") for heading in re.findall(r"^#+ (.+)", prose(path), re.MULTILINE)}
    headings = re.findall(r"^#+ (.+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_to_what_it_names(path):
    lost = []
    for words, *targets in LINK.findall(prose(path)):
        target = "".join(targets)
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        named = re.fullmatch(r"(?i:lesson |section )?(\d+(\.\d+)?)", words)
        leads = f"#{named[1]}-" if named and named[2] else f"{named[1]:0>2}_" if named else ""
        if re.match(r"\w+:", target):
            continue
        if not there.exists() or anchor and anchor not in anchors(there) or leads not in target:
            lost.append(f"[{words}]({target})")
    room = ROOT / "lessons_src/lessons" / path.stem
    source = room / "lesson.py" if path.suffix == ".ipynb" and room.exists() else path
    none_of(lost, f"These links lead nowhere, or elsewhere than they say. Edit {source.relative_to(ROOT).as_posix()}:")


def pins(name):
    """Return {package: version} of a list of requirements; packages in small letters, with - for _."""
    versions = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", text(name), re.MULTILINE)
    return {package.lower().replace("_", "-"): version for package, version in versions}


def test_the_lock_and_binder_have_the_pins():
    """The way out if this fails: .ci/lock."""
    locked, asked = pins("requirements.lock"), pins("requirements.txt")
    asked.pop("torch")  # its builds differ by machine
    assert len(asked) > 10 and {package: locked.get(package) for package in asked} == asked
    assert "://" not in text("requirements.lock")
    assert f"pytorch-cpu={pins('requirements.txt')['torch']}\n" in text("binder/environment.yml")

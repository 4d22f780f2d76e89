"""What a repository is expected to have, held against what it says of itself: versions, links, commands, pins."""

import base64
import json
import re
import subprocess
import tomllib

import pytest
import yaml

from tests import test_lessons as rules
from tests.helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHOWN = ["git", "ls-files", "*.md", ":!teaching/site/sphinx"]  # what is in there lies elsewhere on the site
PAGES = subprocess.run(SHOWN, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pythons():
    """Return the Pythons that the project promises, as "3.11"."""
    low, high = map(int, re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups())
    return [f"3.{minor}" for minor in range(low, high)]


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load(text("CITATION.cff"))["version"] == PROJECT["version"]
    assert re.search(r"^## (\S+?),? ", text("CHANGELOG.md"), re.MULTILINE)[1] == PROJECT["version"]


def test_every_promised_python_is_tested_on_every_system():
    matrix = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]["learners"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    promise = f"{pythons()[0]} to {pythons()[-1]}"
    for name in ("README.md", "Makefile", "requirements.txt"):
        assert promise in text(name), f"{name} does not say Python {promise}"
    ours = [re.search(r"python:(3\.\d+)", text(".devcontainer/devcontainer.json"))[1]]
    ours += [re.search(r"python=(3\.\d+)", text("binder/environment.yml"))[1]]
    for name in (".github/workflows/test.yml", ".github/workflows/site.yml"):
        ours += re.findall(r'python-version: "(.+)"', text(name))
    assert set(ours) <= set(pythons())


def test_the_workflow_runs_on_windows_what_the_guide_says():
    steps = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]["learners"]["steps"]
    (windows,) = [step["run"] for step in steps if "'Windows'" in step.get("if", "") and "==" in step["if"]]
    commands = re.findall(r"\.venv\\Scripts\\python -m (?:pip|pytest) .*", text("GUIDE.md"))
    assert [line for line in windows.splitlines() if "Scripts" in line] == commands


@pytest.mark.parametrize(
    "name",
    [".ci/run", ".github/workflows/test.yml", ".github/workflows/site.yml", ".devcontainer/devcontainer.json"]
    + ["README.md", "GUIDE.md", "CONTRIBUTING.md", "AGENTS.md"],
)
def test_every_make_target_that_is_named_exists(name):
    named = set(re.findall(r"(?:^|[`\"]|run: )make ([a-z./-]+)", text(name), re.MULTILINE))
    makefile = text("Makefile").replace("$(READY)", ".venv/ready").replace("$(TEACHING)", ".venv-teaching")
    assert named or name == ".github/workflows/test.yml"
    assert not [target for target in named if not re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE)]


def test_windows_runs_the_same_tests_as_make():
    command = re.search(r"-m pytest .*--nbval.*", text("Makefile"))[0].replace(" -q", "").partition(" $(or")[0]
    command = command.replace("$(WORKERS)", re.search(r"^WORKERS := (.*)$", text("Makefile"), re.MULTILINE)[1])
    assert "$" not in command and command in text("GUIDE.md").replace("\\", "/")


def test_what_make_test_leaves_out_is_run_in_ci():
    assert "$(or $(ARGS),$(if $(CI),,--quick))" in text("Makefile")
    assert "\nexport CI=true" in text(".ci/run") and "\nmake test\n" in text(".ci/run")


def test_the_readme_s_figure_is_one_of_the_course():
    (path,) = re.findall(r"!\[[^]]+\]\(([^)]+\.png)\)", text("README.md"))
    shown = base64.b64encode((ROOT / path).read_bytes()).decode()
    notebooks = (notebook.read_text(encoding="utf-8") for notebook in (ROOT / "notebooks/solutions").glob("*.ipynb"))
    assert any(shown in notebook for notebook in notebooks), (
        f"{path} is in no notebook any more: save the new one there"
    )


def anchors(path):
    """Return the anchors of a Markdown file, as GitHub makes them, or of a notebook, as JupyterLab does."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return rules.anchors("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"))
    headings = re.findall(r"^#+ (.+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    page = ROOT / page
    lost = []
    for target in rules.links(page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists() or anchor and anchor not in anchors(path):
            lost.append(target)
    assert lost == []


def pins(name):
    """Return {package: version} of a list of requirements; packages in small letters, with - for _."""
    versions = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", text(name), re.MULTILINE)
    return {package.lower().replace("_", "-"): version for package, version in versions}


def test_the_lock_holds_every_pin_with_its_hashes_and_names_no_address():
    """The way out if this fails: .ci/lock."""
    locked, asked = pins("requirements.lock"), pins("requirements.txt")
    asked.pop("torch")  # its builds differ by machine
    assert len(asked) > 10 and {package: locked.get(package) for package in asked} == asked
    entries = re.split(r"\n(?=[a-z])", text("requirements.lock").split("\n", 2)[2])
    assert len(entries) >= len(locked) and all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text("requirements.lock")


def test_binder_has_the_pinned_torch():
    assert f"pytorch-cpu={pins('requirements.txt')['torch']}\n" in text("binder/environment.yml")


def test_the_licences_are_those_that_are_declared():
    assert all((ROOT / name).exists() for name in PROJECT["license-files"])
    assert " AND ".join(yaml.safe_load(text("CITATION.cff"))["license"]) == PROJECT["license"]


def test_an_assistant_is_told_of_every_place_that_holds_answers():
    """The folders may not be named alike for ever, and a tutor must not open them."""
    for name in ("notebooks/solutions/", "lessons_src/lessons/", "lessons_src/fromscratch/"):
        assert (ROOT / name).is_dir() and f"`{name}`" in text("AGENTS.md")

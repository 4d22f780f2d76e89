"""The README and the guide: the figure is one of the course's, and the commands are the Makefile's."""

import base64
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "GUIDE.md").read_text(encoding="utf-8")


def figures():
    """Yield the PNG bytes of every figure in the solutions edition."""
    for path in sorted((ROOT / "notebooks/solutions").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for out in cell.get("outputs", []):
                if "image/png" in out.get("data", {}):
                    yield base64.b64decode("".join(out["data"]["image/png"]))


def test_its_figure_is_one_of_the_course():
    (path,) = re.findall(r"!\[[^]]+\]\(([^)]+\.png)\)", TEXT)
    shown = (ROOT / path).read_bytes()
    assert shown in figures(), f"{path} is no figure of the course any more: save the new one there"


def test_windows_runs_the_same_tests_as_make():
    makefile = (ROOT / "Makefile").read_text()
    command = re.search(r"-m pytest .*--nbval.*", makefile)[0].replace(" -q", "").partition(" $(or")[0]
    command = command.replace("$(WORKERS)", re.search(r"^WORKERS := (.*)$", makefile, re.MULTILINE)[1])
    assert "$" not in command and command in GUIDE.replace("\\", "/")


def test_what_make_test_leaves_out_is_run_in_ci():
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci/run").read_text()
    left_out = re.search(r"^LONG := (.*)$", makefile, re.MULTILINE)[1].split()
    assert left_out and all((ROOT / path).exists() for path in left_out)
    whole, other = re.findall(r"^make test\b(?!-).*?(?= #|$)", ci, re.MULTILINE)
    assert whole == "make test LONG=" and other.startswith('make test ARGS="--other-processor notebooks/solutions ')
    assert "$(or $(ARGS),$(LONG:%=--ignore=%))" in makefile, "with LONG empty and no ARGS, nothing is left out"

"""The files that other programs read are of the form that these programs publish."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    ".github/workflows/test.yml": "github-workflows",
    ".github/workflows/site.yml": "github-workflows",
    ".github/dependabot.yml": "dependabot",
    "CITATION.cff": "citation-file-format",
}


def check(schema, path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", FILES)
def test_it_is_valid(name, tmp_path):
    done = check(FILES[name], ROOT / name)
    assert done.returncode == 0, done.stdout + done.stderr
    worse = tmp_path / Path(name).name
    worse.write_text("surely: wrong\n" + (ROOT / name).read_text(encoding="utf-8").replace("\n", "\nsurely: ", 1))
    assert check(FILES[name], worse).returncode != 0, "the schema refuses nothing"

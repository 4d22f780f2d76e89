"""The files that other programs read are of the form that these programs publish."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {"*.yml": "dependabot", "workflows/*.yml": "github-workflows", "../CITATION.cff": "citation-file-format"}


@pytest.mark.parametrize("pattern", FILES)
def test_it_is_valid(pattern):
    found = list((ROOT / ".github").glob(pattern))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{FILES[pattern]}", *found]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

"""The files that other programs read are of the form that these programs publish."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {".github/dependabot.yml": "dependabot", "CITATION.cff": "citation-file-format"}


@pytest.mark.parametrize("name", FILES)
def test_it_is_valid(name):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{FILES[name]}", ROOT / name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_github_takes_the_workflows_and_would_say_what_is_wrong(tmp_path):
    packages = ROOT / "teaching/node_modules"
    if not (packages / ".bin/esbuild").exists():
        pytest.skip("needs make teaching/node_modules/ready (npm)")
    ours, worse = sorted((ROOT / ".github/workflows").glob("*.yml")), tmp_path / "worse.yml"
    text = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    worse.write_text(text.replace("runner.os ==", "matrix.system ==", 1), encoding="utf-8")
    program = ROOT / "teaching/tests/workflows.mjs"
    bundle = [packages / ".bin/esbuild", program, "--bundle", "--platform=node", "--log-level=warning"]
    built = subprocess.run(bundle, env={**os.environ, "NODE_PATH": str(packages)}, check=True, capture_output=True)
    done = subprocess.run(["node", "-", *ours, worse], input=built.stdout, check=True, capture_output=True)
    said = json.loads(done.stdout)
    assert "Context access might be invalid: system" in "".join(said.pop(str(worse)))
    assert len(said) == len(ours) > 0 and not any(said.values()), said

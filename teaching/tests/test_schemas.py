"""The files that other programs read are of the form that these programs publish."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {".github/dependabot.yml": "dependabot", "CITATION.cff": "citation-file-format"}


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


WORSE = {  # in a workflow: (what is there, what takes its place, what is said)
    "a name": ("runner.os ==", "matrix.system ==", "Context access might be invalid: system"),
    "a key": ("runs-on:", "runs-in:", "Unexpected value 'runs-in'"),
}


def test_github_takes_the_workflows_and_would_say_what_is_wrong(tmp_path):
    packages = ROOT / "teaching" / "node_modules"
    if not (packages / ".bin" / "esbuild").exists():
        pytest.skip("needs make teaching/node_modules/ready (npm)")
    ours = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    for name, (old, new, _) in WORSE.items():
        (tmp_path / name).with_suffix(".yml").write_text(text.replace(old, new, 1), encoding="utf-8")
    program = ROOT / "teaching" / "tests" / "workflows.mjs"
    bundle = [packages / ".bin" / "esbuild", program, "--bundle", "--platform=node", "--log-level=warning"]
    built = subprocess.run(bundle, env={**os.environ, "NODE_PATH": str(packages)}, check=True, capture_output=True)
    paths = [*ours, *tmp_path.iterdir()]
    done = subprocess.run(["node", "-", *map(str, paths)], input=built.stdout, check=True, capture_output=True)
    said = {Path(path): messages for path, messages in json.loads(done.stdout).items()}
    assert ours and all(said[path] == [] for path in ours), said
    for name, (_, _, why) in WORSE.items():
        messages = said[(tmp_path / name).with_suffix(".yml")]
        assert any(why in message for message in messages), messages

"""The class on a cluster, as far as it can be tried without one: values, files of the image, how a server starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml

from teaching.classroom import install

HERE = Path(install.__file__).parent / "kubernetes"


def test_a_container_starts_a_server_with_the_first_open_lesson(tmp_path):
    """The program of the image runs here, on the files of the image; only the server itself is a stand-in."""
    values = yaml.safe_load((HERE / "values.yaml").read_text())
    jsonschema.validate(values, json.loads((HERE / "z2jh_values_schema.json").read_text()))
    course, home, programs = (tmp_path / name for name in ("course", "home", "bin"))
    subprocess.run([sys.executable, "-m", "teaching.classroom.install", course], cwd=install.ROOT, check=True)
    (course / "environment/matplotlib").mkdir(parents=True)  # the list of fonts, made when the image is built
    home.mkdir()
    programs.mkdir()
    (programs / "jupyterhub-singleuser").write_text('#!/bin/sh\nenv\necho "limit $(ulimit -d)"\necho "arguments $*"\n')
    (programs / "jupyterhub-singleuser").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    image = (HERE / "Containerfile").read_text()
    set_there = dict(re.findall(r"(?:ENV|    ) ?(\w+)=(\S+)", image)) | values["singleuser"]["extraEnv"]
    own = {"HOME": str(home), "PATH": f"{programs}:{os.defpath}"}
    environment = {name: value.replace("/course", str(course)) for name, value in set_there.items()} | own
    script = (HERE / "start-server").read_text().replace("/course", str(course))
    started = subprocess.run(
        ["sh", "-c", script, "start-server", "--port=1"], env=environment, capture_output=True, text=True
    )
    lines = started.stdout.splitlines()
    assert not started.stderr and started.returncode == 0
    assert "JUPYTERHUB_DEFAULT_URL=/lab/tree/work/01_why_normalize.ipynb" in lines and "limit 2621440" in lines
    assert f"arguments --config={course}/learner/server_config.py --port=1" in lines
    assert (home / "work/01_why_normalize.ipynb").exists()
    read = set(re.findall(r'environ\["(\w+)"\]', (course / "learner/server_config.py").read_text()))
    assert read and read <= set(set_there), "a setting that the container does not have"

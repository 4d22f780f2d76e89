"""The class on a cluster, as far as it can be tried without one: values, files of the image, how a server starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from teaching.classroom import accounts, install

HERE = Path(install.__file__).parent / "kubernetes"
VALUES = yaml.safe_load((HERE / "values.yaml").read_text())


def chart_schema():
    """Return the chart's schema. What it requires, the chart's own values have: Helm checks both merged."""

    def without_required(part):
        if isinstance(part, dict):
            return {key: without_required(value) for key, value in part.items() if key != "required"}
        return [without_required(item) for item in part] if isinstance(part, list) else part

    return without_required(json.loads((HERE / "z2jh_values_schema.json").read_text()))


def test_the_chart_takes_the_values_and_refuses_a_wrong_one():
    jsonschema.validate(VALUES, chart_schema())
    wrong = VALUES | {"singleuser": VALUES["singleuser"] | {"memory": {"limt": "4G"}}}
    with pytest.raises(jsonschema.ValidationError, match="'limt' was unexpected"):
        jsonschema.validate(wrong, chart_schema())


def test_names_are_those_of_a_class_on_one_machine_and_a_new_password_costs_no_home():
    config = VALUES["hub"]["config"]
    assert config["Authenticator"]["username_pattern"] == f"^{accounts.NAME}$"
    assert config["FirstUseAuthenticator"]["create_users"] is config["KubeSpawner"]["delete_pvc"] is False


def test_a_container_starts_a_server_with_the_first_open_lesson(tmp_path):
    """The program of the image runs here, on the files of the image; only the server itself is a stand-in."""
    course, home, programs = (tmp_path / name for name in ("course", "home", "bin"))
    subprocess.run([sys.executable, "-m", "teaching.classroom.install", course], cwd=install.ROOT, check=True)
    assert (course / "notebooks/01_why_normalize.ipynb").exists() and (course / "learner/server_config.py").exists()
    assert {path.name for path in course.iterdir()} == set(
        "GUIDE.md LICENSE README.md data learner lessons_src notebooks".split()
    )
    (course / "environment/matplotlib").mkdir(parents=True)  # the list of fonts, made when the image is built
    home.mkdir()
    (home / "data").write_text("mine")
    programs.mkdir()
    (programs / "jupyterhub-singleuser").write_text('#!/bin/sh\nenv\necho "limit $(ulimit -d)"\necho "arguments $*"\n')
    (programs / "jupyterhub-singleuser").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    image = (HERE / "Containerfile").read_text()
    set_there = dict(re.findall(r"(?:ENV|    ) ?(\w+)=(\S+)", image)) | VALUES["singleuser"]["extraEnv"]
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
    assert (home / "work/01_why_normalize.ipynb").exists() and (home / "data").read_text() == "mine"
    assert (home / "notebooks").readlink() == course / "notebooks"
    read = set(re.findall(r'environ\["(\w+)"\]', (course / "learner/server_config.py").read_text()))
    assert read and read <= set(set_there), "a setting that the container does not have"


def test_what_the_image_is_made_of_is_there():
    lines = (HERE / "Containerfile").read_text().splitlines()
    copied = [line.split()[-2] for line in lines if line.startswith("COPY") and "--from" not in line]
    assert copied and all((install.ROOT / name).exists() for name in copied)
    assert os.access(HERE / "start-server", os.X_OK) and "CMD" in lines[-1]
    assert VALUES["singleuser"]["cmd"] == json.loads(lines[-1].removeprefix("CMD "))

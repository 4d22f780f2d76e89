"""A class that is thrown away: the real command on a folder, accounts and homes of its own, for tests and for load.

make class ARGS="--trial 30"      thirty learners at once run a lesson; prints how long they waited
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from teaching.classroom import accounts, client
from teaching.classroom.install import ROOT
from teaching.classroom.ports import free_port

UNITS = ("s to a server", "s more to the first output", "s to the lesson's end", "MB a learner", "s of one core")


class Trial:
    """A class. with Trial() as trial: trial.start(); afterwards its processes, accounts and files are gone.

    Attributes: folder, homes, group, address (of the hub), program (make class). "mara" and "li" are on its list.
    """

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="layernorm-class-"))
        self.folder.chmod(0o755)
        self.homes, hub = self.folder / "homes", self.folder / "hub"
        self.group = f"lntry{secrets.token_hex(3)}"  # no class of this machine is touched
        self.token = secrets.token_hex(32)
        self.homes.mkdir()
        hub.mkdir(mode=0o700)
        (hub / "lock").touch()
        own = {"group": self.group, "homes": str(self.homes), "port": free_port(), "trial_token": self.token}
        (hub / "settings.json").write_text(json.dumps(own | {"learners": ["mara", "li"]}))
        self.program = self.address = None

    def __enter__(self):
        return self

    def command(self, *arguments):
        """Return the words that run make class's program on this folder."""
        return [f"{ROOT}/.venv/bin/python", "-m", "teaching.classroom", "--folder", self.folder, *arguments]

    def start(self, *arguments):
        """Start the class, and wait until it says that it is there."""
        said = self.folder / "said.txt"
        with open(said, "w") as file:
            self.program = subprocess.Popen(self.command(*arguments), cwd=ROOT, stdout=file, stderr=file)
        end = time.monotonic() + 120
        while not (announced := re.search(r"The class is at (\S+)", said.read_text())):
            if time.monotonic() > end or self.program.poll() is not None:
                raise RuntimeError(f"the hub did not start:\n{said.read_text()}")
            time.sleep(0.1)
        self.address = announced[1]

    def learner(self, name):
        return client.Learner(self.address, self.token, name)

    def account(self, name):
        return accounts.members(self.group)[name]

    def __exit__(self, *_):
        if self.program:
            self.program.terminate()
            self.program.wait()
        accounts.remove(self.group, self.homes)
        shutil.rmtree(self.folder)


def usage(uid):
    """Return what a user's processes hold and have used: (MB, a shared page counted in parts; seconds of one core)."""
    megabytes = seconds = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended just now
            if process.uids().real == uid:
                megabytes += process.memory_full_info().pss / 2**20
                seconds += sum(process.cpu_times()[:2])  # in its own code, and in the system's
    return megabytes, seconds


def crowd(trial, names, notebook):
    """Let learners come at the same moment and run a lesson; return (measurements, errors).

    notebook: the lesson as the course has it. measurements: for each who came through, numbers in UNITS. errors: those
    other than "your turn".
    """
    stored = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    cells = ["".join(cell["source"]) for cell in stored if cell["cell_type"] == "code"]
    measurements, errors = [], []

    def visit(name):
        learner, begin = trial.learner(name), time.monotonic()
        try:
            learner.start()
            ready = time.monotonic() - begin
            _, raised, seconds = learner.kernel(f"work/{notebook.name}").run(cells)
        except Exception as error:
            errors.append((name, repr(error)))
        else:
            measurements.append((ready, *seconds, *usage(trial.account(name).pw_uid)))
            errors.extend((name, error) for error in raised if error[0] != "YourTurn")

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(visit, names))
    return measurements, errors


def main(number, lesson):
    """Let number learners come at once and run a lesson; print the median and the largest; return 1 after an error."""
    notebook = next((ROOT / "notebooks").glob(f"{lesson:02}_*.ipynb"), None)
    if notebook is None:
        raise accounts.ClassError(f"There is no lesson {lesson}.")
    with Trial() as trial:
        trial.start()
        measurements, errors = crowd(trial, [f"l{index}" for index in range(number)], notebook)
    for unit, values in zip(UNITS, zip(*measurements, strict=True), strict=False):
        print(f"{unit:30} median {statistics.median(values):6.1f}  max {max(values):6.1f}")
    print(f"{len(measurements)} of {number} learners came to the end, on {os.cpu_count()} cores", *errors, sep="\n")
    return int(bool(errors))

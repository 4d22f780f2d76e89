"""A class that is thrown away: the real command on a folder, accounts and homes of its own, for tests and for load.

make class ARGS="--trial 30"      thirty learners at once run a lesson; prints how long they waited
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from teaching.classroom import accounts, client
from teaching.classroom.install import ROOT
from teaching.classroom.ports import free_port

UNITS = {
    "server": "s to a server",
    "output": "s more to the first output",
    "done": "s to the lesson's end",
    "memory": "MB a learner",
    "cpu": "s of one core a learner",
}


class Trial:
    """A running class. with Trial() as trial: ... ; afterwards its processes, accounts and files are gone.

    Attributes: folder, homes, group, address (of the hub), certificate (a file, for https). "mara" has a password.
    """

    def __init__(self, *arguments):
        self.arguments = list(arguments)
        self.folder = Path(tempfile.mkdtemp(prefix="layernorm-class-"))
        self.folder.chmod(0o755)
        self.homes = self.folder / "homes"
        self.homes.mkdir()
        self.group = f"lntry{secrets.token_hex(3)}"  # no class of this machine is touched
        self.token = secrets.token_hex(32)
        (self.folder / "hub").mkdir(mode=0o700)
        self.port = free_port()
        (self.folder / "hub/settings.json").write_text(json.dumps({"trial_token": self.token, "learners": ["mara"]}))
        self.hub = self.address = self.certificate = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, *arguments):
        """Return the command and options that run make class's program on this folder."""
        command = [ROOT / ".venv/bin/python", "-m", "teaching.classroom", "--folder", self.folder, *arguments]
        return {"args": list(map(str, command)), "cwd": ROOT}

    def start(self, *arguments):
        """Start the class, and wait until it says that it is there."""
        log = self.folder / "hub.log"
        with open(log, "a") as file:
            begin = file.tell()
            own = ["--homes", self.homes, "--group", self.group, "--port", self.port]
            command = self.run(*own, *self.arguments, *arguments)
            self.hub = subprocess.Popen(**command, stdout=file, stderr=file, start_new_session=True)
        end = time.monotonic() + 120
        while time.monotonic() < end and self.hub.poll() is None:
            if announced := re.search(r"The class is at (\S+)", self.log()[begin:]):
                self.address = announced[1]
                return
            time.sleep(0.1)
        raise RuntimeError(f"the hub did not start:\n{self.log()[-3000:]}")

    def log(self):
        return (self.folder / "hub.log").read_text()

    def learner(self, name):
        return client.Learner(self.address, self.token, name, self.certificate)

    def uid(self, name):
        return accounts.members(self.group)[name].pw_uid

    def home(self, name):
        return Path(accounts.members(self.group)[name].pw_dir)

    def kill(self):
        """End the program, and with it the hub, at once, as a crash would; servers of learners and the proxy go on."""
        self.hub.kill()
        self.hub.wait()

    def __exit__(self, *_):
        if self.hub:
            self.hub.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.hub.wait(15)
        for process in Path("/proc").glob("[0-9]*"):  # what did not end in time, the proxy of a killed hub among it
            with contextlib.suppress(OSError):
                if f"{self.folder}/".encode() in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        users = accounts.members(self.group).values()
        accounts.end_processes(users)
        for user in users:
            subprocess.run(["umount", "--quiet", user.pw_dir], stderr=subprocess.DEVNULL)  # a home of its own disk
        try:
            accounts.remove(self.group, self.homes)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def usage(uid):
    """Return what a user's processes hold and have used: (MB, a shared page counted in parts; seconds of one core)."""
    megabytes = seconds = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended just now
            if process.uids().real == uid:
                megabytes += process.memory_full_info().pss / 2**20
                seconds += sum(process.cpu_times()[:2])  # in its own code, and in the system's
    return megabytes, seconds


def crowd(learners, notebook, uid_of):
    """Let all learners come at the same moment and run a lesson; return a row of measurements for each.

    notebook: the lesson as the course has it. A row: what UNITS names, the last output, and errors other than "your
    turn"; of a learner who did not come through, the error alone.
    """
    stored = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    cells = ["".join(cell["source"]) for cell in stored if cell["cell_type"] == "code"]

    def visit(learner):
        begin = time.monotonic()
        try:
            learner.start()
            ready = time.monotonic() - begin
            texts, errors, (output, done) = learner.kernel(f"work/{notebook.name}").run(cells)
        except Exception as error:
            return {"errors": [repr(error)]}
        megabytes, cpu = usage(uid_of(learner.name))
        row = {"server": ready, "output": output, "done": done, "memory": megabytes, "cpu": cpu, "last": texts[-1]}
        return row | {"errors": [error for error in errors if error[0] != "YourTurn"]}

    with ThreadPoolExecutor(len(learners)) as pool:
        return list(pool.map(visit, learners))


def table(rows):
    """Return the measurements of a crowd as lines of text: median and largest."""
    lines = []
    for key, unit in UNITS.items():
        if values := [row[key] for row in rows if key in row]:
            lines.append(f"{unit:30} median {statistics.median(values):6.1f}  max {max(values):6.1f}")
    bad = [str(row["errors"]) for row in rows if row["errors"]]
    return "\n".join([*lines, f"{len(rows)} learners, {len(bad)} failed or met an error", *bad])


def main(number, lesson):
    """Let number learners come at once and run a lesson; print the table; return 1 if one of them failed."""
    notebook = next((ROOT / "notebooks").glob(f"{lesson:02}_*.ipynb"), None)
    if notebook is None:
        print(f"There is no lesson {lesson}.", file=sys.stderr)
        return 1
    with Trial() as trial:
        rows = crowd([trial.learner(f"l{index}") for index in range(number)], notebook, trial.uid)
    print(table(rows), f"{os.cpu_count()} cores", sep="\n")
    return int(any(row["errors"] for row in rows))

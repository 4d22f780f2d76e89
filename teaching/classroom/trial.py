"""A class that is thrown away: the real command on a folder, accounts and homes of its own, for tests and for load.

make class ARGS="--trial 30"      thirty learners at once run lesson 2; prints how long they waited
"""

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from teaching.classroom import accounts, load
from teaching.classroom.install import ROOT
from teaching.classroom.ports import free_port


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
        (self.folder / "hub/settings.json").write_text(json.dumps({"load_token": self.token, "learners": ["mara"]}))
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
        return load.Learner(self.address, self.token, name, self.certificate)

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


def main(number):
    """Let number learners come at once; print the table; return 1 if one of them failed."""
    begin = time.monotonic()
    with Trial() as trial:
        cells = load.cells_of(ROOT / "notebooks/02_statistics.ipynb")
        learners = [trial.learner(f"l{index}") for index in range(number)]
        rows = asyncio.run(load.crowd(learners, cells, trial.uid))
    print(load.table(rows))
    print(f"{time.monotonic() - begin:.0f} s in all, {os.cpu_count()} cores")
    return int(any("failed" in row or row["errors"] for row in rows))

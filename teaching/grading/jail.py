"""Where answers run: one jail an answer, as far from everything else as bubblewrap can put it.

Nothing of this machine is in sight but Python, its packages, what the lessons lean on and what earlier lessons have
built, all of it read-only; no network, no processes but the jail's; a Unix user of its own, if the grader runs as root;
little processor time, memory, disk (in_jail/limits.py). With the jail all that it holds ends.

The judge, which runs no answer but reads what comes out of the jails, runs in the same way, with all of the lessons.
"""

import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lessonkit import course
from teaching.grading.assignment import ROOT, Assignment

HERE, KIT = Path(__file__).parent, ROOT / "lessons_src/lessonkit"
PYTHON = ROOT / ".venv/bin/python"  # the lessons'
KEPT = ("CAP_SETUID", "CAP_SETGID")  # to become another user, before an answer is there
USERS = itertools.cycle(range(61184, 65520))  # numbers that systems keep for users of one process
BOX = "/answers"  # the only folder that can be written in a jail
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
ENVIRONMENT = dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "NUMBA_CACHE_DIR"), BOX) | {
    "PATH": "/usr/bin:/bin",
    "USER": "learner",
    "LANG": "C.UTF-8",
    "PYTHONPATH": f"{ROOT / 'lessons_src'}:{ROOT}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LESSON_WORK": "off",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}


@dataclass
class Limits:
    """What an answer may take. seconds: of the processor; memory and file in bytes."""

    seconds: float = 20
    memory: int = 2 << 30
    file: int = 10 << 20
    processes: int = 16

    def bounds(self):
        """Return what in_jail/limits.py needs; as root with another Unix user for each process."""
        user = next(USERS) if os.getuid() == 0 else None
        return {"memory": self.memory, "file": self.file, "processes": self.processes, "user": user}


@dataclass
class Jail:
    """How the processes for a lesson are started."""

    limits: Limits
    lesson: Assignment

    def observer(self):
        """Return the command line of an observer, whose standard input is a socket.

        It sees of lessonkit's manifest and of fromscratch what earlier lessons have put there.
        """
        earlier = {stem: each for stem, each in course.lessons().items() if stem < self.lesson.stem}
        modules = ["__init__", *(each.module for each in earlier.values())]
        built = [ROOT / f"lessons_src/fromscratch/{module}.py" for module in modules]
        manifest = [KIT / "course/__init__.py", *(KIT / f"course/{stem}.json" for stem in earlier)]
        shown = [KIT, ROOT / "data", HERE / "in_jail", *(path for path in built if path.exists())]
        return [*_jail(shown, KIT / "course", manifest), str(PYTHON), str(HERE / "in_jail")]

    def judge(self):
        """Return the command line of the judge, whose standard input is a socket."""
        shown = [ROOT / "lessons_src", ROOT / "data", HERE.parent / "__init__.py", HERE]
        return [*_jail(shown), str(PYTHON), "-m", "teaching.grading.judge_outside"]


def missing():
    """Return why there is no jail on this machine, "" if there is one."""
    if shutil.which("bwrap") is None:
        return "there is no program bwrap. On Debian and Ubuntu: apt install bubblewrap"
    trial = subprocess.run([*_jail([]), str(PYTHON), "-c", ""], capture_output=True, text=True, check=False)
    return trial.stderr.strip() if trial.returncode else ""


def _jail(paths, emptied=None, put_back=()):
    """Return the command line that puts what follows into a jail, where paths are in sight, read-only.

    emptied: a folder in one of them of which no more than the files put_back are in sight.
    """
    shown = [path for path in SYSTEM if os.path.exists(path)]
    shown += [str(prefix) for prefix in _prefixes() if not prefix.is_relative_to("/usr")]
    shown += map(str, paths)
    command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    command += ["--perms", "0755", "--dir", "/tmp", "--perms", "0777", "--size", str(256 << 20), "--tmpfs", BOX]
    if os.getuid() == 0:
        for capability in KEPT:
            command += ["--cap-add", capability]
    folders = {folder for path in shown for folder in Path(path).parents if folder != Path("/")}
    for folder in sorted(folders):  # bubblewrap would make them for root alone
        command += ["--perms", "0755", "--dir", str(folder)]
    for path in shown:
        link = os.path.islink(path) and path in SYSTEM
        command += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    if emptied:
        command += ["--tmpfs", str(emptied)]
    for path in put_back:
        command += ["--ro-bind", str(path), str(path)]
    return [*command, "--remount-ro", "/", "--chdir", BOX, "--"]


def _prefixes():
    """Return the folders that the lessons' Python needs: its own and those of what it was made from."""
    own = PYTHON.parents[1]
    lines = (own / "pyvenv.cfg").read_text().splitlines()
    homes = [Path(line.partition("=")[2].strip()).parent for line in lines if line.startswith("home")]
    return dict.fromkeys([own, own.resolve(), *homes, PYTHON.resolve().parents[1]])

"""Where answers run: one jail an answer, as far from everything else as this machine allows.

    bubblewrap   (bwrap is installed and works.) Nothing of this machine is in sight but Python, its packages, what the
                 lessons lean on and what earlier lessons have built, all of it read-only; no network, no processes but
                 the jail's; a Unix user of its own, if the grader runs as root. With the jail all that it holds ends.
    user         Without bubblewrap: another Unix user, if the grader runs as root, and the limits. The files of the
                 course can be read, and with them its answers: such marks count for nothing.
    limits       always: processor time, memory, file size, processes (resource.setrlimit)

The judge, which runs no answer but reads what comes out of the jails, runs in the same way, with all of the lessons.
"""

import functools
import itertools
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lessonkit import course
from teaching.grading.assignment import ROOT, Assignment, GradingError

HERE, KIT = Path(__file__).parent, ROOT / "lessons_src/lessonkit"
PYTHON = ROOT / ".venv/bin/python"  # the lessons'
KEPT = ("CAP_SETUID", "CAP_SETGID")  # to become another user, before an answer is there
USERS = range(61184, 65520)  # numbers that systems keep for users who are there for one process only
BOX = "/answers"  # the only folder that can be written in a jail
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")


@dataclass
class Limits:
    """What an answer may take. seconds: at least; memory and file in bytes."""

    seconds: float = 20
    memory: int = 2 << 30
    file: int = 10 << 20
    processes: int = 16


@dataclass(eq=False)
class Jail:
    """How the processes for a lesson are started. kind: "bubblewrap", "user", or "" for the best that works here."""

    limits: Limits
    lesson: Assignment
    kind: str = ""

    def __post_init__(self):
        if not hasattr(os, "fork"):
            raise GradingError("grading needs Linux or macOS: Windows cannot fork. On Windows, use WSL.")
        if not PYTHON.exists():
            raise GradingError(f"there is no {PYTHON}, in which the lessons run. Make it: make .venv/ready")
        taken = {entry.pw_uid for entry in pwd.getpwall()}
        self._users = itertools.cycle(number for number in USERS if number not in taken)
        self.kind = self.kind or ("bubblewrap" if self._works() else "user")

    def bounds(self):
        """Return what in_jail/limits.py needs; as root with another Unix user for each process, whom nobody else is."""
        bounds = {"memory": self.limits.memory, "file": self.limits.file, "processes": self.limits.processes}
        user = next(self._users) if os.getuid() == 0 else None
        return bounds | {"user": user, "group": user}

    @functools.cached_property
    def allowed(self):
        """The modules of fromscratch that an answer may import from: those of earlier lessons."""
        return [lesson.module for stem, lesson in course.lessons().items() if stem < self.lesson.stem]

    def observer(self):
        """Return the command line of an observer, whose standard input is a socket."""
        built = [ROOT / f"lessons_src/fromscratch/{module}.py" for module in ("__init__", *self.allowed)]
        shown = [KIT, ROOT / "data", HERE / "in_jail", *(path for path in built if path.exists())]
        return self._command(shown, self._hidden(), HERE / "in_jail")

    def judge(self):
        """Return the command line of the judge, whose standard input is a socket."""
        shown = [ROOT / "lessons_src", ROOT / "data", HERE.parent / "__init__.py", HERE]
        return self._command(shown, (), "-m", "teaching.grading.judge_outside")

    @property
    def says(self):
        """A line for the log: what holds an answer on this machine."""
        who = "as a Unix user of its own" if os.getuid() == 0 else "as you (only root can change that)"
        most = self.limits
        bounds = f"{most.memory / 2**30:g} GiB a process, {most.processes} processes, files of {most.file >> 20} MiB"
        if self.kind == "bubblewrap":
            return f"Each answer runs in a jail of its own (bubblewrap), {who}: no network, no files; {bounds}."
        return (
            f"NO JAIL: bubblewrap does not work here. Answers run {who} and can read the course's solutions. "
            f"Use these points for nothing that counts, or install bubblewrap. {bounds}."
        )

    def _command(self, shown, hidden, *arguments):
        """Return the command line of the lessons' Python, with only the files shown in sight where there is a jail."""
        jail = self._bubblewrap(shown, hidden) if self.kind == "bubblewrap" else []
        return [*jail, *map(str, (PYTHON, *arguments))]

    def _hidden(self):
        """What of lessonkit is not in sight of an answer: what judges it, and this lesson and later ones."""
        earlier = [KIT / f"course/{stem}.json" for stem in course.lessons() if stem < self.lesson.stem]
        command = ["--tmpfs", str(KIT / "course")]
        for path in (KIT / "course/__init__.py", *earlier):
            command += ["--ro-bind", str(path), str(path)]
        return command

    @functools.cache  # noqa: B019  a few of them live as long as the grader
    def _works(self):
        if sys.platform != "linux" or shutil.which("bwrap") is None:
            return False
        trial = [*self._bubblewrap([]), str(PYTHON), "-c", "import sys"]
        return subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def _bubblewrap(self, paths, hidden=()):
        shown = [path for path in SYSTEM if os.path.exists(path)]
        shown += [str(prefix) for prefix in _prefixes() if not prefix.is_relative_to("/usr")]
        shown += map(str, paths)
        command = [shutil.which("bwrap"), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
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
        return [*command, *hidden, "--remount-ro", "/", "--chdir", BOX, "--"]

    def environment(self, box):
        """Return the environment of a process: nothing of the grader's but what Python needs."""
        box = BOX if self.kind == "bubblewrap" else box
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": box,
            "TMPDIR": box,
            "MPLCONFIGDIR": box,
            "NUMBA_CACHE_DIR": box,
            "USER": "learner",
            "LANG": "C.UTF-8",
            "PYTHONPATH": f"{ROOT / 'lessons_src'}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LESSON_WORK": "off",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
        }


def _prefixes():
    """Return the folders that the lessons' Python needs: its own and those of what it was made from."""
    own = PYTHON.parents[1]
    lines = (own / "pyvenv.cfg").read_text().splitlines()
    homes = [Path(line.partition("=")[2].strip()).parent for line in lines if line.startswith("home")]
    return dict.fromkeys([own, own.resolve(), *homes, PYTHON.resolve().parents[1]])

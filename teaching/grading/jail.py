"""Where submissions run: as far from everything else as this machine allows, and what that is, found by trying it.

    a jail with files of its own   bubblewrap (bwrap) is installed and works: nothing of this machine is in sight but
                                   Python, its packages and what the checks need, all of it read-only; no network, no
                                   processes but the jail's
    another Unix user              the grader runs as root
    limits                         always: processor time, memory, file size, processes (resource.setrlimit)

Without bubblewrap, root still gets another user, no network and processes of its own, from util-linux's unshare.
"""

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lessonkit.course import lessons
from teaching.grading.lesson import Assignment, GradingError

INSIDE = Path(__file__).with_name("inside")
KEPT = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE")  # the worker's, to become another user
KINDS = ("bubblewrap", "unshare", "none")  # the best first
BOX = "/answers"  # the only folder that can be written in a jail of its own files
FONTS = Path.home() / ".cache/matplotlib"  # what matplotlib has found out about fonts: finding it anew takes seconds
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")


@dataclass
class Limits:
    """What an answer may take. seconds: at least, see the worker; memory and file in bytes; user: a name, for root."""

    seconds: float = 20
    memory: int = 2 << 30
    file: int = 10 << 20
    processes: int = 16
    user: str = "nobody"


@dataclass
class Jail:
    """How a worker for a lesson is started.

    root: of the course. python: the lessons'. kind: one of KINDS, or "" for the best that works here.
    """

    root: Path
    python: Path
    limits: Limits
    lesson: Assignment
    kind: str = ""

    def __post_init__(self):
        if not hasattr(os, "fork"):
            raise GradingError("grading needs Linux or macOS: Windows cannot fork. On Windows, use WSL.")
        if not self.python.exists():
            raise GradingError(f"there is no {self.python}, in which the lessons run. Make it: make .venv/ready")
        if self.kind and not self._works(self.kind):
            raise GradingError(f"the jail {self.kind!r} does not work here. Leave the choice to the grader.")
        self.kind = self.kind or next(kind for kind in KINDS if self._works(kind))

    @property
    def bounds(self):
        """What inside/limits.py needs."""
        found = {"memory": self.limits.memory, "file": self.limits.file, "processes": self.limits.processes}
        found |= {"user": None, "group": None, "own processes": self.kind != "none"}
        if os.getuid() == 0:
            try:
                entry = pwd.getpwnam(self.limits.user)
            except KeyError:
                raise GradingError(
                    f"there is no Unix user {self.limits.user!r}. Make one (useradd --system {self.limits.user}), or "
                    "name one that is there: USER=nobody."
                ) from None
            if entry.pw_uid == 0:
                raise GradingError(f"the user {self.limits.user!r} is root itself. Name one without rights: nobody.")
            found |= {"user": entry.pw_uid, "group": entry.pw_gid}
        return found

    @property
    def allowed(self):
        """The modules of fromscratch that an answer may import from: those of earlier lessons."""
        return [lesson.module for stem, lesson in lessons().items() if stem < self.lesson.stem]

    def command(self):
        """Return the command line of a worker."""
        return [*self._before(self.kind), str(self.python), str(INSIDE)]

    def _before(self, kind):
        if kind == "bubblewrap":
            return self._bubblewrap()
        if kind == "unshare":
            return ["unshare", "--net", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        return []

    def _works(self, kind):
        if kind == "none":
            return True
        if kind == "unshare" and os.getuid() != 0:
            return False
        tool = "bwrap" if kind == "bubblewrap" else "unshare"
        if sys.platform != "linux" or shutil.which(tool) is None:
            return False
        trial = [*self._before(kind), str(self.python), "-c", "import sys"]
        return subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def _bubblewrap(self):
        root = self.root
        shown = [path for path in SYSTEM if os.path.exists(path)]
        shown += [str(prefix) for prefix in _prefixes(self.python) if not prefix.is_relative_to("/usr")]
        kit = root / "lessons_src"
        shown += [str(path) for path in (kit / "lessonkit", root / "data", kit / "fromscratch/__init__.py", INSIDE)]
        shown += [str(FONTS)] if FONTS.is_dir() else []
        built = [kit / f"fromscratch/{module}.py" for module in [*self.allowed, self.lesson.lesson.module]]
        shown += [str(path) for path in built if path.exists()]
        command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
        command += ["--new-session", "--proc", "/proc", "--dev", "/dev", "--perms", "0755", "--dir", "/tmp"]
        command += ["--perms", "0755", "--size", str(256 << 20), "--tmpfs", BOX]
        if os.getuid() == 0:
            for capability in KEPT:
                command += ["--cap-add", capability]
        folders = {folder for path in shown for folder in Path(path).parents if folder != Path("/")}
        for folder in sorted(folders):  # bubblewrap would make them for root alone
            command += ["--perms", "0755", "--dir", str(folder)]
        for path in shown:
            link = os.path.islink(path) and path in SYSTEM
            command += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
        command += ["--tmpfs", str(kit / "lessonkit/course/solutions")]  # nobody's business in there
        return [*command, "--remount-ro", "/", "--chdir", BOX, "--"]

    def environment(self, box):
        """Return the environment of the worker: nothing of the grader's but what Python needs."""
        box = BOX if self.kind == "bubblewrap" else box
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": box,
            "TMPDIR": box,
            "FONTS": str(FONTS),
            "USER": "learner",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self.root / "lessons_src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LESSON_WORK": "off",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
        }


def _prefixes(python):
    """Return the folders that a virtual environment's Python needs: its own and those of what it was made from."""
    own = python.parents[1]
    lines = (own / "pyvenv.cfg").read_text().splitlines()
    homes = [Path(line.partition("=")[2].strip()).parent for line in lines if line.startswith("home")]
    return dict.fromkeys([own, own.resolve(), *homes, python.resolve().parents[1]])

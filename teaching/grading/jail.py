"""Where submissions run: as far from everything else as this machine allows, and what that is, found by trying it.

    a jail with files of its own   bubblewrap (bwrap) is installed and works: nothing of this machine is in sight but
                                   Python, its packages and what the checks need, all of it read-only; no network, no
                                   processes but the jail's
    another Unix user              the grader runs as root
    limits                         always: processor time, memory, file size, processes (resource.setrlimit)

Without bubblewrap, root still gets another user, no network and processes of its own, from util-linux's unshare.
"""

import contextlib
import json
import os
import pwd
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from teaching.grading.lesson import GradingError

INSIDE = Path(__file__).with_name("inside")
KEPT = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE")  # the worker's, to become another user
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
    """How a worker for a lesson is started. root: of the course. python: the lessons'. lesson: "06_batchnorm"."""

    root: Path
    python: Path
    limits: Limits
    lesson: str
    kind: str = field(init=False)

    def __post_init__(self):
        if not hasattr(os, "fork"):
            raise GradingError("grading needs Linux or macOS: Windows cannot fork. On Windows, use WSL.")
        if not self.python.exists():
            raise GradingError(f"there is no {self.python}, in which the lessons run. Make it: make .venv/ready")
        self.kind = next(kind for kind in ("bubblewrap", "unshare", "none") if self._works(kind))

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
        return [stem[3:] for stem in self._stems() if stem < self.lesson]

    def _stems(self):
        return sorted(path.stem for path in (self.root / "lessons_src/lessons").glob("[0-9]*.py"))

    def command(self):
        """Return the command line of a worker."""
        run = [str(self.python), "-X", "faulthandler=0", str(INSIDE)]
        return [*self._before(self.kind), *run]

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
        built = [kit / f"fromscratch/{stem[3:]}.py" for stem in self._stems() if stem <= self.lesson]
        shown += [str(path) for path in built if path.exists()]
        command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
        command += ["--new-session", "--proc", "/proc", "--dev", "/dev", "--size", str(256 << 20), "--tmpfs", "/tmp"]
        command += ["--clearenv"]
        for key, value in self.environment("/tmp").items():
            command += ["--setenv", key, value]
        if os.getuid() == 0:
            for capability in KEPT:
                command += ["--cap-add", capability]
        for path in shown:
            link = os.path.islink(path) and path in SYSTEM
            command += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
        return [*command, "--chdir", "/tmp", "--"]

    def environment(self, box):
        """Return the environment of the worker: nothing of the grader's but what Python needs."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": box,
            "TMPDIR": box,
            "MPLCONFIGDIR": box,
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


class Worker:
    """A worker in its jail. It is started when it is first needed, and anew when an answer has brought it down."""

    def __init__(self, jail):
        self.jail, self.process = jail, None
        self.prepared = {}  # of this process: exercise -> seconds that the course's answer takes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            shutil.rmtree(self.box, ignore_errors=True)
        self.process, self.prepared = None, {}

    def needs(self, exercise):
        """Whether an exercise has not been prepared in the process that runs now."""
        return self.process is None or exercise not in self.prepared

    def ask(self, request, seconds):
        """Return the worker's reply to a request; None if it did not answer within seconds, and was stopped."""
        if self.process is None:
            self._start()
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(time.monotonic() + seconds)
        except OSError:
            line = b""
        if not line:
            self.stop()
            return None
        reply = json.loads(line)
        if "error" in reply:
            self.stop()
            raise GradingError(f"the grader's worker failed:\n{reply['error']}")
        if not reply.get("clean", True):
            self.stop()  # a process is left that could not be ended: the jail goes, and it with it
        return reply

    def _start(self):
        self.box = tempfile.mkdtemp(prefix="grading-")
        os.chmod(self.box, 0o711)
        self.log = open(os.path.join(self.box, "log"), "w+b")
        self.process = subprocess.Popen(
            self.jail.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=self.jail.environment(self.box),
            cwd=self.box,
            start_new_session=True,
        )
        if self.ask({"do": "begin", "bounds": self.jail.bounds, "allowed": self.jail.allowed}, 120) is None:
            self.log.seek(0)
            said = self.log.read().decode(errors="replace").strip()[-1500:]
            raise GradingError(f"the lessons' Python, {self.jail.python}, does not start. It says:\n{said}")

    def _line(self, deadline):
        """Return a line of the worker's; what is left of it if it ends or takes too long."""
        line, selector = b"", selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0, deadline - time.monotonic())):
                return b""
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            line += part
        return line


@contextlib.contextmanager
def _listening():
    """Yield the port of a server on this machine that accepts connections: what a submission should not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def holds(worker):
    """Return [(what, whether it holds, how it is said)], after trying each in a process like those of the answers."""
    jail, limits = worker.jail, worker.jail.limits
    with _listening() as port, tempfile.NamedTemporaryFile(prefix="grading-", suffix=".csv") as private:
        private.write(b"grades")
        private.flush()
        question = {
            "port": port,
            "secret": str(next((jail.root / "notebooks/solutions").glob("*.ipynb"))),
            "folder": str(jail.root),
            "memory": limits.memory + (256 << 20),
            "file": limits.file + 1,
            "processes": limits.processes + 4,
        }
        reply = worker.ask({"do": "probe", "question": question}, 60)
    found = (reply or {}).get("found")
    if found is None:
        raise GradingError(
            f"what this machine prevents could not be tried: {(reply or {}).get('why', 'the worker died')}"
        )
    other = found["user"] != os.getuid()
    memory, size = f"{limits.memory / 2**30:g} GiB", f"{limits.file / 2**20:g} MiB"
    rows = [
        ("another Unix user", other, limits.user if other else "runs as you; run the grader as root for that"),
        ("solutions", not found["reads"], "cannot be read" if not found["reads"] else "can be read from disk"),
        ("the course's files", not found["writes"], "cannot be changed" if not found["writes"] else "CAN BE CHANGED"),
        ("network", not found["network"], "cut off" if not found["network"] else "open"),
        ("memory", not found["memory"], f"at most {memory} a process" if not found["memory"] else "no limit"),
        ("file size", not found["file"], f"at most {size} a file" if not found["file"] else "no limit"),
        (
            "processes",
            not found["processes"],
            f"at most {limits.processes} more" if not found["processes"] else "no limit",
        ),
    ]
    return rows

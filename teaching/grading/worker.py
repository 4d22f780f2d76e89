"""A worker in its jail: it prepares exercises, judges answers, and tries what this machine prevents."""

import contextlib
import json
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import time

from teaching.grading.lesson import GradingError


class Worker:
    """A worker in its jail. It is started when it is first needed, and anew when an answer has brought it down."""

    def __init__(self, jail):
        self.jail, self.process = jail, None
        self.said = ""  # what a process that has ended wrote to stderr
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
            self.log.seek(0)
            self.said = self.log.read().decode(errors="replace").strip()[-1500:]
            self.log.close()
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
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.jail.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=self.jail.environment(self.box),
            cwd=self.box,
            start_new_session=True,
        )
        begin = {"bounds": self.jail.bounds, "allowed": self.jail.allowed, "imports": self.jail.lesson.imports}
        if self.ask({"do": "begin", **begin}, 120) is None:
            raise GradingError(f"the lessons' Python, {self.jail.python}, does not start. It says:\n{self.said}")

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
    jail, most = worker.jail, worker.jail.limits
    with _listening() as port, tempfile.NamedTemporaryFile(prefix="grading-") as private:  # mode 0600
        question = {
            "port": port,
            "private": private.name,
            "solutions": str(next((jail.root / "notebooks/solutions").glob("*.ipynb"))),
            "folder": str(jail.root),
            "memory": most.memory + (256 << 20),
            "file": most.file + 1,
            "processes": most.processes + 4,
        }
        reply = worker.ask({"do": "probe", "question": question}, 60) or {"why": "the worker died"}
    can = reply.get("found")
    if can is None:
        raise GradingError(f"what this machine prevents could not be tried: {reply['why']}.")
    if not can["imports"]:
        raise GradingError(
            f"the user {most.user!r} cannot read the Python that the lessons run in ({jail.python.resolve()}). Install "
            "bubblewrap, which shows it to that user alone, or put Python where every user can read it."
        )
    other = can["user"] != os.getuid()
    return [
        (
            "another Unix user",
            other,
            f"they run as {most.user}" if other else "they run as you; only root can change that",
        ),
        _row("your private files", can, "private", "cannot be read", "can be read"),
        _row("the solutions", can, "solutions", "cannot be read", "can be read from disk"),
        _row("the course", can, "writes", "cannot be changed", "can be changed"),
        _row("the network", can, "network", "is cut off", "can be used"),
        _row("memory", can, "memory", f"{most.memory / 2**30:g} GiB a process", "without limit"),
        _row("files", can, "file", f"{most.file / 2**20:g} MiB each", "without limit"),
        _row("processes", can, "processes", f"{most.processes} more", "without limit"),
    ]


def _row(what, can, key, good, bad):
    return what, not can[key], bad if can[key] else good

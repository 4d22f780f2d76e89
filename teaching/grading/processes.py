"""One judge, and a jail for each answer: started, given to each other, and ended in time."""

import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from teaching.grading.assignment import GradingError
from teaching.grading.in_jail.channel import Channel, Ended
from teaching.grading.jail import PYTHON

WARM = 2  # jails that stand ready, since Python and torch take seconds to start
PATIENCE = 3  # times the processor's seconds, by the clock: for answers that sleep and for machines that are busy
START = 120  # seconds that a process may take to start
JUDGED = 60  # seconds for the judge's own part
MOST_JUDGED = 300  # answers, then a new judge begins with an empty memory


class Process:
    """A process of ours with a socket to it. command: its line. jail: see Jail. begin: its first message."""

    def __init__(self, jail, command, begin):
        self.box = tempfile.mkdtemp(prefix="grading-")
        os.chmod(self.box, 0o777)
        self.log = tempfile.TemporaryFile()
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=self.log,
            stderr=self.log,
            env=jail.environment(self.box),
            cwd=self.box,
            start_new_session=True,
        )
        theirs.close()
        self.channel = Channel(ours)
        with contextlib.suppress(Ended):
            self.channel.send(json.dumps(begin).encode())

    def end(self):
        """End it with all that it has started; return (its exit status or signal, what it wrote while it started)."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that ended just now has the time to say how
            self.process.wait(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait()
        self.channel.socket.close()
        self.log.seek(0)
        text = self.log.read(20_000).decode(errors="replace").strip()[-1500:]
        self.log.close()
        shutil.rmtree(self.box, ignore_errors=True)
        return status, text


class Processes:
    """Has answers observed and judged. jail: how the processes are started."""

    def __init__(self, jail):
        self.jail, self.judge, self.judged = jail, None, 0
        self.ready = collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.ready:
            self.ready.popleft().end()
        self._dismiss()

    def ask(self, **request):
        """Return the judge's reply on the answers of an exercise, which run in a jail of their own.

        request: number, checks [(name, expression)], context, cells [texts], seconds (of the processor).
        """
        patience = PATIENCE * request["seconds"]
        request |= {"lesson": self.jail.lesson.stem, "wait": START, "patience": patience}
        if self.judge is None or self.judged >= MOST_JUDGED:
            self._dismiss()
            bounds = self.jail.bounds() | {"memory": 4 << 30, "processes": 4096}
            self.judge, self.judged = Process(self.jail, self.jail.judge(), {"bounds": bounds}), 0
        for _ in range(2):  # a machine that is busy may need a second try to start a jail
            self._warm()
            jail = self.ready.popleft()
            try:
                self._warm()
                reply = self._judged(jail, request, patience)
            finally:
                status, log = jail.end()
            if reply["verdict"] == "gone":
                return reply | {"verdict": "stopped", "message": _why(reply["message"], status, request["seconds"])}
            if reply["verdict"] != "failed":
                return reply
        why = f"{reply['message']}\n{log}".strip()
        raise GradingError(f"the lessons' Python, {PYTHON}, does not start in its jail. {why}")

    def _warm(self):
        while len(self.ready) < WARM:
            begin = {"bounds": self.jail.bounds(), "allowed": self.jail.allowed, "imports": self.jail.lesson.imports}
            self.ready.append(Process(self.jail, self.jail.observer(), begin))

    def _judged(self, jail, request, patience):
        channel = self.judge.channel
        channel.deadline = time.monotonic() + START + patience + JUDGED
        ready = self.judged > 0
        try:
            ready = ready or bool(channel.receive())
            channel.send(json.dumps(request).encode())
            socket.send_fds(channel.socket, [b"."], [jail.channel.socket.fileno()])
            reply = json.loads(channel.receive(1 << 20))
        except Ended:
            _, log = self._dismiss()
            if not ready:
                raise GradingError(f"the judge does not start. It says:\n{log}") from None
            why = "what the answer gave could not be compared"
            return {"verdict": "stopped", "passed": 0, "message": why, "remarks": []}
        self.judged += 1
        return reply

    def _dismiss(self):
        ended, self.judge = self.judge and self.judge.end(), None
        return ended or (0, "")


def _why(reason, status, seconds):
    """Say why an answer's process is gone: status is the exit status of it, or of its jail."""
    by_signal = -status if status < 0 else status - 128
    if reason == "too late" or by_signal == signal.SIGXCPU:
        return f"not done after {seconds:.0f} s: an endless loop, or far too slow"
    if reason == "too much":
        return "more came out of the answer than is read"
    if by_signal in set(signal.Signals) and by_signal != signal.SIGKILL:
        return f"Python died: {signal.Signals(by_signal).name}"
    return "the answer ended Python before it was checked"

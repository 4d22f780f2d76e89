"""One judge, and a jail for each answer: started, given to each other, and ended in time."""

import collections
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
from dataclasses import replace
from multiprocessing.reduction import send_handle

from teaching.grading.assignment import GradingError
from teaching.grading.jail import ENVIRONMENT

WARM = 2  # jails that stand ready, since Python and torch take seconds to start
PATIENCE = 3  # times the processor's seconds, by the clock: for answers that sleep and for machines that are busy
START = 120  # seconds that a process may take to start
JUDGED = 60  # seconds for the judge's own part


class Process:
    """A process in a jail, and channel, a socket to it. command: its line. bounds: see in_jail/limits.py."""

    def __init__(self, command, bounds):
        self.log = tempfile.TemporaryFile()
        self.channel, theirs = multiprocessing.Pipe()
        streams = {"stdin": theirs.fileno(), "stdout": self.log, "stderr": self.log}
        self.process = subprocess.Popen(command, **streams, env=ENVIRONMENT, start_new_session=True)
        theirs.close()
        self.channel.send_bytes(json.dumps(bounds).encode())

    def started(self):
        """Return the process once it is ready; GradingError with what it wrote if it does not get so far."""
        with contextlib.suppress(EOFError, OSError):
            if self.channel.poll(START) and self.channel.recv_bytes() == b"ready":
                return self
        self.end()
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")[-1500:]
        raise GradingError(f"the lessons' Python does not start in its jail. {text}")

    def end(self):
        """End it with all that it has started; return its exit status or signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that ended just now has the time to say how
            self.process.wait(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


class Processes:
    """Has answers observed and judged. jail: how the processes are started."""

    def __init__(self, jail):
        self.jail, self.judge, self.ready = jail, None, collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in filter(None, (*self.ready, self.judge)):
            process.end()

    def ask(self, **request):
        """Return the judge's reply on the answers of an exercise, which run in a jail of their own.

        request: number, checks [(name, expression)], context, cells [texts], seconds (of the processor).
        """
        reply = self._asked(request)
        if reply["verdict"] == "right" and reply.pop("again", False):
            again = self._asked(request | {"again": True})
            reply = reply if again["verdict"] == "right" else again
        return reply

    def _asked(self, request):
        self._warm()
        jail = self.ready.popleft()
        self._warm()
        try:
            reply, late = self._judged(jail.started(), request)
        finally:
            status = jail.end()
        if reply["verdict"] == "gone":
            reply |= {"verdict": "stopped", "message": _why(late, status, request["seconds"])}
        if reply["verdict"] == "failed":
            raise GradingError(f"exercise {request['number']}: {reply['message']}")
        return reply

    def _warm(self):
        while len(self.ready) < WARM:
            self.ready.append(Process(self.jail.observer(), self.jail.limits.bounds()))
        if self.judge is None:
            bounds = replace(self.jail.limits, memory=4 << 30, processes=4096).bounds()
            self.judge = Process(self.jail.judge(), bounds).started()

    def _judged(self, jail, request):
        """Return (the judge's reply, whether the answer's time was up before it)."""
        channel, late = self.judge.channel, False
        try:
            channel.send_bytes(json.dumps(request | {"lesson": self.jail.lesson.stem}).encode())
            send_handle(channel, jail.channel.fileno(), None)
            late = not channel.poll(PATIENCE * request["seconds"])
            if late:
                jail.end()  # then the judge waits for it no longer
            if channel.poll(JUDGED):
                return json.loads(channel.recv_bytes(1 << 20)), late
        except (EOFError, OSError):  # the judge has ended
            pass
        self.judge.end()
        self.judge = None
        why = "what the answer gave could not be compared"
        return {"verdict": "stopped", "passed": 0, "message": why, "remarks": []}, late


def _why(late, status, seconds):
    """Say why an answer's process is gone: status is the exit status of it, or of its jail."""
    by_signal = -status if status < 0 else status - 128
    if late or by_signal == signal.SIGXCPU:
        return f"not done after {seconds:.0f} s: an endless loop, or far too slow"
    if by_signal in set(signal.Signals) and by_signal != signal.SIGKILL:
        return f"Python died: {signal.Signals(by_signal).name}"
    return "the answer ended Python before it was checked"

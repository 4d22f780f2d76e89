"""Limits of a process that the grader has started, and its other Unix user."""

import contextlib
import ctypes
import math
import os
import resource
import signal
import time

KEYCTL, JOIN = {"x86_64": 250, "aarch64": 219}, 1  # a kernel call's number, and what it does, linux/keyctl.h


def apply(limits):
    """Limit this process for good. limits: {"memory": bytes, "file": bytes, "processes": number, "user": id or None}.

    Memory and processes come on top of what is in the jail already.
    """
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    here = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in os.listdir("/proc") if pid.isdigit())
    _limit(resource.RLIMIT_FSIZE, limits["file"])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NPROC, limits["processes"] + here)
    _limit(resource.RLIMIT_AS, limits["memory"] + mapped)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if the machine's memory ends, this one goes first
    if limits["user"] is not None:
        os.setgroups([])
        os.setgid(limits["user"])
        os.setuid(limits["user"])
    if os.uname().machine in KEYCTL:  # a login's keyring goes to all that it starts
        ctypes.CDLL(None).syscall(KEYCTL[os.uname().machine], JOIN, None)


def seconds(more):
    """Let this process compute for so many seconds more: then a signal, and a second later the end."""
    most = math.ceil(time.process_time() + more)
    _limit(resource.RLIMIT_CPU, most, most + 1)


@contextlib.contextmanager
def within(seconds, error):
    """Raise an error in here once this process has computed for so many seconds."""

    def ring(*_):
        raise error

    signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _limit(what, soft, hard=None):
    with contextlib.suppress(ValueError):  # a lower limit holds already
        resource.setrlimit(what, (soft, soft if hard is None else hard))

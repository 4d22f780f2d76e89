"""Limits of a process that the grader has started, and its other Unix user."""

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
import time

KEYCTL, JOIN = {"x86_64": 250, "aarch64": 219}, 1  # a kernel call's number, and what it does, linux/keyctl.h
PARENT_DIES, DUMPABLE, NO_NEW_PRIVS = 1, 4, 38  # prctl's numbers, linux/prctl.h


def prctl(option, value):
    """Tell Linux something about this process; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def apply(limits):
    """Limit this process for good. limits: {"memory": bytes, "file": bytes, "processes": number, "user": id or None}.

    memory comes on top of what the process has already.
    """
    most = {
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: limits["processes"] + (0 if limits["user"] is not None else _tasks()),
        resource.RLIMIT_AS: limits["memory"] + _size(),
    }
    for what, value in most.items():
        _limit(what, value, value)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if the machine's memory ends, this one goes first
    if limits["user"] is not None:
        os.setgroups([])
        os.setgid(limits["group"])
        os.setuid(limits["user"])
    if sys.platform == "linux" and os.uname().machine in KEYCTL:  # a login's keyring goes to all that it starts
        ctypes.CDLL(None).syscall(KEYCTL[os.uname().machine], JOIN, None)
    prctl(NO_NEW_PRIVS, 1)
    prctl(PARENT_DIES, signal.SIGKILL)


def seconds(more):
    """Let this process compute for so many seconds more: then a signal, and a second later the end."""
    most = math.ceil(time.process_time() + more)
    _limit(resource.RLIMIT_CPU, most, most + 1)


def _limit(what, soft, hard):
    with contextlib.suppress(ValueError, OSError):  # a lower limit holds already, or the system has none of these
        resource.setrlimit(what, (soft, hard))


def _size():
    """Return the bytes of memory that this process has mapped."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return 4 << 30  # what torch and its libraries map, generously


def _tasks():
    """Return how many processes and threads this process's user has: the limit counts them all."""
    count = 0
    for pid in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with contextlib.suppress(OSError):
            if pid.isdigit() and os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count

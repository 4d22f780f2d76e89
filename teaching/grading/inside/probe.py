"""What an answer could do on this machine, found by trying it."""

import errno
import importlib
import os
import signal
import socket
import time


def attempts(question):
    """Return {what: what came of it}; True is what a submission should not be able to do.

    question: {"port": of a server on this machine, "private": a file that only its owner may read, "solutions": one of
    them, "folder": of the course, "memory", "file", "processes": a little more than is allowed of each}.
    """
    return {
        "user": os.getuid(),
        "network": _reaches(question["port"]),
        "private": _opens(question["private"], "rb"),
        "solutions": _opens(question["solutions"], "rb"),
        "writes": _writes(question["folder"]),
        "memory": _allocates(question["memory"]),
        "file": _fills(question["file"]),
        "processes": _forks(question["processes"]),
        "imports": _imports("colorsys"),
    }


def _imports(name):
    """Whether a module of Python's own, which nothing has loaded yet, can be imported: every answer may want one."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _reaches(port):
    with socket.socket() as ours:
        ours.settimeout(2)
        return ours.connect_ex(("127.0.0.1", port)) == 0


def _opens(path, mode):
    try:
        open(path, mode).close()
    except OSError:
        return False
    return True


def _writes(folder):
    path = os.path.join(folder, f".grading-{os.getpid()}")
    if not _opens(path, "xb"):
        return False
    os.unlink(path)
    return True


def _allocates(size):
    try:
        return bool(bytearray(size))
    except MemoryError:
        return False


def _fills(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with open("large", "wb") as file:
            file.truncate(size)
    except OSError as error:
        return error.errno not in (errno.EFBIG, errno.ENOSPC)
    os.unlink("large")
    return True


def _forks(number):
    """Whether so many processes can be started; they sleep until all are there, and are ended and waited for."""
    started = []
    try:
        for _ in range(number):
            pid = os.fork()
            if not pid:
                time.sleep(60)
                os._exit(0)
            started.append(pid)
    except OSError:
        return False
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return True

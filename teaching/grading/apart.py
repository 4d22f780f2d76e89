"""Do something with what a learner has handed in, in a process that is given up if it takes too long or too much."""

import os
import pickle
import resource
import selectors
import signal
import time

SECONDS, MEMORY = 10, 2 << 30
LARGEST = 200 << 20  # bytes of what comes back


class Failed(Exception):
    """It could not be done: why, as the end of a sentence."""


def apart(act, seconds=SECONDS):
    """Return what act() returns, in another process; what it raises is raised. Failed, where neither comes in time.

    act is the grader's own, and runs nothing of a learner's: what it returns may be pickled.
    """
    reads, writes = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Python loses a Ctrl-C that comes while it forks
    try:
        child = os.fork()
    except OSError:  # no process is left
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        raise
    if not child:
        try:
            os.close(reads)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            try:
                data = pickle.dumps((act(), None))
            except (RecursionError, MemoryError) as error:
                data = pickle.dumps((None, Failed(f"it is too deep or too large to be read ({type(error).__name__})")))
            except Exception as error:
                data = pickle.dumps((None, error))
            while data:
                data = data[os.write(writes, data) :]
        finally:
            os._exit(0)
    os.close(writes)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        data = _all_of(reads, time.monotonic() + 3 * seconds)
    finally:
        os.close(reads)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        value, error = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):
        raise Failed(f"reading it takes more than {seconds} s or {MEMORY >> 30} GiB") from None
    if error is not None:
        raise error
    return value


def _all_of(pipe, deadline):
    parts, length = [], 0
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while length < LARGEST and selector.select(max(0, deadline - time.monotonic())):
            part = os.read(pipe, 1 << 20)
            if not part:
                break
            parts.append(part)
            length += len(part)
    return b"".join(parts)

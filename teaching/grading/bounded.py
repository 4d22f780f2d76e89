"""Do something with what a learner has handed in, in a process that is given up if it takes too long or too much."""

import multiprocessing
import pickle
import resource
import signal

SECONDS, MEMORY = 10, 2 << 30
LARGEST = 200 << 20  # bytes of what comes back
FORK = multiprocessing.get_context("fork")


class Failed(Exception):
    """It could not be done: why, as the end of a sentence."""


def bounded(act, seconds=SECONDS):
    """Return what act() returns, in another process; what it raises is raised. Failed, where neither comes in time.

    act is the grader's own, and runs nothing of a learner's: what it returns may be pickled.
    """
    reads, writes = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_send, args=(act, seconds, writes))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Python loses a Ctrl-C that comes while it forks
    try:
        child.start()
    finally:
        writes.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        value, error = pickle.loads(reads.recv_bytes(LARGEST) if reads.poll(3 * seconds) else b"")
    except (OSError, EOFError, pickle.UnpicklingError):
        raise Failed(f"reading it takes more than {seconds} s or {MEMORY >> 30} GiB") from None
    finally:
        reads.close()
        child.kill()
        child.join()
    if error is not None:
        raise error
    return value


def _send(act, seconds, writes):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        data = pickle.dumps((act(), None))
    except (RecursionError, MemoryError) as error:
        data = pickle.dumps((None, Failed(f"it is too deep or too large to be read ({type(error).__name__})")))
    except Exception as error:
        data = pickle.dumps((None, error))
    writes.send_bytes(data)

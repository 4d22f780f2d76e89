"""Runs answers, one process for each: the part of the grader that works inside the jail, in the learners' environment.

It reads requests from stdin and writes a reply to stdout for each, one JSON object a line. It never runs a learner's
code itself: it imports torch and the checks, prepares each exercise, and for each answer forks a process that does,
with limits and as another user. A process that was forked before an answer ran has nothing of that answer in it.
"""

import contextlib
import gc
import io
import json
import linecache
import marshal
import mmap
import os
import secrets
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path

import limits
import probe
from seal import Seal

SLOWER = 10  # an answer may take this many times the processor seconds that the course's takes
PATIENCE = 3  # times as many by the clock, for answers that sleep and for machines that are busy
CONTROLS = 3  # this many of the first misconceptions, and of the last ones
LONGEST = 4000  # characters of a message
SHOWN = 1000  # prints of an answer; those that follow are counted only, since writing a tensor out takes long


class Prepared:
    """An exercise with all that its answers are run in. request: what the grader sends.

    namespace: what the lesson has bound when the exercise begins. right: the objects that the course's answer gives to
    the checks; wrong: of each check some misconceptions. seconds: what the course's answer takes. seal: of all that is
    loaded by then.
    """

    def __init__(self, request):
        self.number, self.checks = request["number"], request["checks"]
        self.namespace = {"__name__": "__main__"}
        for text in request["context"]:
            run(text, self.namespace, "lesson")
        self._solve(request["answer"])
        started = time.process_time()
        self._solve(request["answer"])  # once more: the first time loads a lot
        self.seconds = time.process_time() - started
        for at, check in enumerate(self.functions):  # a few mistakes are mistakes only once they are compiled
            self.wrong[at] = [answer for answer in self.wrong[at] if not accepts(check, answer)]
        self.seal = Seal()

    def _solve(self, answer):
        from lessonkit import check
        from lessonkit.check.misconceptions import listening

        solved = dict(self.namespace)
        run(answer, solved, self.number)
        self.functions, self.right, self.wrong = [], [], []
        for name, expression in self.checks:
            self.functions.append(getattr(check, name))
            self.right.append(eval(expression, solved))
            with listening() as heard, contextlib.redirect_stdout(io.StringIO()):
                self.functions[-1](self.right[-1])
            plain = [mistake.answer for mistake in dict.fromkeys(heard)]
            self.wrong.append([None, *plain[:CONTROLS], *plain[CONTROLS:][-CONTROLS:]])


def run(text, namespace, name):
    """Execute a text as a cell would be: its lines are found by inspect and by the checks' messages."""
    file = f"<ipython-input-{name}>"  # as the checks know a learner's own lines
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)


def only_earlier(allowed):
    """Take away what the lesson and later ones export: an answer would only have to import it.

    allowed: the modules of fromscratch that come from earlier lessons.
    """
    import fromscratch

    for name in set(fromscratch._HOME.values()) - set(allowed):
        sys.modules[f"fromscratch.{name}"] = None  # importing it raises ImportError
        vars(fromscratch).pop(name, None)
    fromscratch._HOME = {name: home for name, home in fromscratch._HOME.items() if home in allowed}
    fromscratch.__all__ = sorted(fromscratch._HOME)


# ------------------------------------------------------------------------------------------- in the answer's process


def judge(exercise, request, allowed, printing):
    """Run an answer and its checks. allowed: see only_earlier. printing: the answer's print.

    Returns (verdict, what was said, number of right checks, what was found replaced).
    """
    from lessonkit.check import NotYet, YourTurn

    main = types.ModuleType("__main__")
    namespace = vars(main)
    namespace |= {**exercise.namespace, "display": printing, "print": printing}
    only_earlier(allowed)
    worker = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        for text in request["context"]:
            run(text, namespace, "lesson")
        for at, text in enumerate(request["cells"], 1):
            run(text, namespace, f"{exercise.number}-{at}")
    except YourTurn:
        return "waits", "", 0, []
    except BaseException as error:
        return "raised", told(error)[:LONGEST], 0, []
    passed, said, verdict = 0, [], "right"
    for check, (_, expression) in zip(exercise.functions, exercise.checks, strict=True):
        printed = io.StringIO()
        try:
            value = eval(expression, namespace)
            with contextlib.redirect_stdout(printed):
                check(value)
            passed += 1
            said.append(printed.getvalue().strip())
        except NotYet as error:
            verdict = "not yet"
            said.append(str(error))
        except YourTurn:
            verdict = "waits" if verdict == "right" else verdict
        except BaseException as error:
            verdict = "raised"
            said.append(told(error))
    sys.modules["__main__"] = worker
    broken = exercise.seal.broken() + controls(exercise) if passed else []
    return verdict, "\n\n".join(said)[:LONGEST], passed, broken


def controls(exercise):
    """Return what is wrong with the checks of this process: they should accept the course's answer and refuse others.

    An answer that has changed a check, or what a check leans on, changes what it says of these as well.
    """
    found = []
    for check, right, wrong, (name, _) in zip(
        exercise.functions, exercise.right, exercise.wrong, exercise.checks, strict=True
    ):
        if not accepts(check, right):
            found.append(f"check.{name} refuses the course's own answer")
        if any(accepts(check, answer) for answer in wrong):
            found.append(f"check.{name} accepts a wrong answer")
    return found


def accepts(check, answer):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            check(answer)
        except BaseException:
            return False
    return True


class Printing:
    """The answer's print: the first SHOWN calls print, all are counted. counter: memory shared with the worker."""

    def __init__(self, counter):
        self.counter = counter

    def __call__(self, *values, **options):
        count = times(self.counter) + 1
        self.counter[:8] = count.to_bytes(8)
        if count <= SHOWN or "file" in options:
            print(*values, **options)


def times(counter):
    """Return how often an answer has printed."""
    return int.from_bytes(counter[:8])


def told(error):
    """Return an error of a learner's code in a line: its type and text, and the learner's own line."""
    unread = type(error) in (SyntaxError, IndentationError, TabError)  # isinstance may be the answer's own by now
    if unread and str(error.filename).startswith("<ipython-input"):
        return f"{type(error).__name__}: {error.msg}. In line {error.lineno}: {(error.text or '').strip()}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<ipython-input")]
    line = f" In the line: {frames[-1].line}" if frames and frames[-1].line else ""
    return f"{type(error).__name__}: {error}.{line}"


def child(act, seconds, box, report, bounds):
    """Become the process of an answer: quiet, limited, in a folder of its own. Ends the process."""
    ends, writes, packs, pid = os._exit, os.write, marshal.dumps, os.getpid()  # as they are before the answer runs
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        for fd in range(3, 256):
            if fd != report[0]:
                with contextlib.suppress(OSError):
                    os.close(fd)
        sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in "rww")
        os.setsid()
        os.chdir(box)
        os.environ |= dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR"), box)
        tempfile.tempdir = None  # to be looked up anew
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = box  # what one answer compiles, no other one loads
        limits.apply(bounds, seconds)
        for number in (signal.SIGXFSZ, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        result = packs(act())
        if os.getpid() == pid and len(result) < 1 << 16:
            writes(report[0], report[1] + result)
    finally:
        ends(0)


# --------------------------------------------------------------------------------------------- in the worker itself


def supervise(act, seconds, bounds):
    """Run act in a process of its own. Returns (what it returned or None, why not, the seconds it took, clean)."""
    box = tempfile.mkdtemp(prefix="answer-")
    if bounds["user"] is not None:
        os.chown(box, bounds["user"], bounds["group"])
    reads, writes = os.pipe()
    token = secrets.token_bytes(32)
    started = time.perf_counter()
    gc.freeze()  # the process of the answer shares this one's memory, as long as nobody writes to it
    pid = os.fork()
    if not pid:
        child(act, seconds, box, (writes, token), bounds)
    os.close(writes)
    data, ended = _receive(reads, pid, started + PATIENCE * seconds)
    took = time.perf_counter() - started
    os.close(reads)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1] if ended is None else ended
    clean = sweep(bounds) and wipe(tempfile.gettempdir())
    if data.startswith(token):
        with contextlib.suppress(ValueError, EOFError, TypeError):
            return marshal.loads(data[len(token) :]), "", took, clean
    if data:
        return None, "the answer wrote into the grader's own channel", took, clean
    if ended is None or os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return None, f"not done after {seconds:.0f} s: an endless loop, or far too slow", took, clean
    if os.WIFSIGNALED(status):
        return None, f"Python died: {signal.Signals(os.WTERMSIG(status)).name}", took, clean
    return None, "the answer ended Python before it was checked", took, clean


def _receive(fd, pid, deadline):
    """Return (bytes that came, status of the process or None if it had to be stopped)."""
    data, selector = b"", selectors.DefaultSelector()
    os.set_blocking(fd, False)
    selector.register(fd, selectors.EVENT_READ)
    while True:
        if selector.select(timeout=0.05):
            with contextlib.suppress(BlockingIOError):
                data += os.read(fd, 1 << 16)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with contextlib.suppress(BlockingIOError):
                data += os.read(fd, 1 << 17)
            return data, status
        if time.perf_counter() > deadline or len(data) > 1 << 17:
            return data, None


def sweep(bounds, patience=2):
    """End every process that an answer has left. Returns whether none is left."""
    if bounds["user"] is not None and bounds["own processes"]:
        pid = os.fork()
        if not pid:  # all of that user's at once: none can start another one meanwhile
            os.setuid(bounds["user"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(pid, 0)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # none is left: an orphan becomes the child of this process
            return True
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return False


def wipe(folder):
    """Remove all that lies in a folder. Returns whether nothing is left."""
    for left in list(os.scandir(folder)):
        if left.is_dir(follow_symlinks=False):
            shutil.rmtree(left.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(left.path)
    return not os.listdir(folder)


def _children():
    for pid in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if pid.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    yield int(pid)


class Worker:
    """Answers requests: {"do": "begin"}, "probe", "prepare" or "grade" with what each needs."""

    def __init__(self):
        self.exercises = {}

    def begin(self, request):
        self.bounds, self.allowed = request["bounds"], request["allowed"]
        os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp()
        for fonts in Path(os.environ["FONTS"]).glob("fontlist-*.json"):
            shutil.copy(fonts, os.environ["MPLCONFIGDIR"])
        for text in request["imports"]:  # once, and not in every answer's process
            run(text, {}, "lesson")
        return {"ready": True}

    def probe(self, request):
        found, why, _, clean = supervise(lambda: probe.attempts(request["question"]), 20, self.bounds)
        return {"found": found, "why": why, "clean": clean}

    def prepare(self, request):
        exercise = Prepared(request)
        self.exercises[exercise.number] = exercise
        return {"seconds": exercise.seconds}

    def grade(self, request):
        exercise = self.exercises[request["number"]]
        seconds = max(request["seconds"], SLOWER * exercise.seconds)
        with mmap.mmap(-1, 8) as counter:
            printing = Printing(counter)
            found, why, took, clean = supervise(
                lambda: judge(exercise, request, self.allowed, printing), seconds, self.bounds
            )
            printed = times(counter)
        reply = dict(seconds=took, clean=clean, printed=printed if printed > SHOWN else 0)
        verdict, said, passed, broken = found or ("stopped", why, 0, [])
        return dict(verdict=verdict, said=said, passed=passed, broken=broken[:5]) | reply


def main():
    limits.prctl(limits.SUBREAPER, 1)
    limits.prctl(limits.DUMPABLE, 0)  # no process of the same user can look into this one
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the course prints is no reply
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, request["do"])(request)
        except Exception:
            reply = {"error": traceback.format_exc(limit=-3)}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()

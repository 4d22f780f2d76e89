"""The log of attempts: each check and each answered question in a learner's kernel adds a line to work/attempts.jsonl.

A line holds no code and no name, and nothing is sent anywhere. LESSON_LOG=off ends it. There is no log where there is
no learner: see lessonkit.places. A line is JSON:

    v               2, the version of this form; in version 1 mistakes had ids
    time            when, UTC, "2026-11-22T06:58:01Z"
    kernel          eight random letters and digits, new in each kernel
    lesson, item    "statistics", "Exercise 2.1" (or "Predict 2.1", "Recall 2.1")
    check or letter the check's name ("mean_and_var"), or the letter of the answer ("b")
    verdict         "right" or "not yet"; an exercise that is not written yet is no attempt
    mistake         the cause that the check named, if the mistake is a known one
    on_item         seconds of work since the end of the last cell before the one that first showed the item was run
    in_kernel       seconds of work since the lesson's first cell in this kernel

Seconds of work are those from cell to cell, with every pause between two cells cut to ten minutes.
"""

import datetime
import errno
import json
import os
import re
import secrets
import time

from lessonkit import places
from lessonkit.course import CARD
from lessonkit.shown import in_notebook

VERSION = 2
FILE = "attempts.jsonl"
PAUSE = 600  # seconds: the longest time between two cells that counts as work
ASKS = re.compile(r'^check\.(predict|recall)\("(\d+\.\d+)"', re.MULTILINE)

_log = None  # the _Log of this kernel, where there is a learner


class Lines:
    """Records on their way to a file. Those that cannot be written wait; that is said once.

    sorry: what is said then, with {name} of the file and {why}.
    """

    def __init__(self, sorry):
        self.waiting, self._sorry = [], sorry

    def add(self, path, version, record):
        """Add a record with its version and the time to a file; to None it waits."""
        time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.waiting.append({"v": version, "time": time} | record)
        try:
            while path and self.waiting:
                _append(path, json.dumps(self.waiting[0]))
                del self.waiting[0]
        except OSError as error:
            if self._sorry:
                print(f"({self._sorry.format(name=path.name, why=error.strerror)})")
            self._sorry = ""


class _Log:
    """A kernel's log, and its clock."""

    def __init__(self, path):
        self.path, self.kernel = path, secrets.token_hex(4)
        self.met = {}  # item: seconds of work when it was met
        self.before = self.worked = 0.0  # at the end of the cell before; in all
        self.last = time.monotonic()
        self.lines = Lines(
            "This attempt could not be noted in {name}: {why}. The lesson goes on as it is, and this kernel tries "
            "again at the next one."
        )

    def before_cell(self, info):
        self.before, now = self.worked, time.monotonic()
        self.worked += min(now - self.last, PAUSE)
        self.last = now
        source = info.raw_cell or ""
        items = [f"Exercise {card[1]}" for card in CARD.finditer(source)]
        for item in [*items, *(f"{kind.capitalize()} {number}" for kind, number in ASKS.findall(source))]:
            self.met.setdefault(item, self.before)

    def after_cell(self, result):
        now = time.monotonic()
        self.worked, self.last = self.worked + now - self.last, now

    def add(self, lesson, item, details):
        worked = self.worked + min(time.monotonic() - self.last, PAUSE)  # a click may come long after its cell
        record = {"kernel": self.kernel, "lesson": lesson, "item": item, **details}
        record["on_item"] = round(worked - self.met.setdefault(item, self.before), 1)
        record["in_kernel"] = round(worked, 1)
        self.lines.add(self.path, VERSION, record)


def install():
    """Start the log, if this is a learner's kernel. Installing twice changes nothing."""
    global _log
    folder = places.work()
    if _log or folder is None or not in_notebook():
        return
    from IPython import get_ipython

    _log = _Log(folder.resolve() / FILE)  # a lesson may change the directory
    get_ipython().events.register("pre_run_cell", _log.before_cell)
    get_ipython().events.register("post_run_cell", _log.after_cell)


def off():
    """Return whether the learner has switched the log off, with LESSON_LOG=off."""
    return os.environ.get("LESSON_LOG", "").strip().lower() == "off"


def note(lesson, item, right, **details):
    """Add an attempt to the log, where there is one. details: check and mistake (or None), or letter."""
    if _log and not off():
        details = {name: value for name, value in details.items() if value is not None}
        _log.add(lesson, item, details | {"verdict": "right" if right else "not yet"})


def path():
    """Return the file of the log, None where none is kept."""
    return _log and _log.path


def _append(path, line):
    """Add a line to a file in one write, so that two kernels never mix theirs; OSError if it does not fit.

    After a line that was cut off the new one begins a line of its own.
    """
    path.touch()
    cut = path.read_bytes()[-1:] not in (b"", b"\n")
    data = ("\n" * cut + line + "\n").encode()
    with open(path, "ab", buffering=0) as file:
        if file.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

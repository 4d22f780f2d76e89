"""The judge, outside the jails: it runs no answer, and compares what was observed of one with what is right.

    python -m teaching.grading.judge_outside        stdin: a socket to the grader

It runs in the lessons' Python. For each answer it gets a socket to a jail, in which an observer waits (in_jail/). The
checks are the lessons' own; an answer in a jail stands before them as an Observed, which sends each probe into the jail
and gets plain data back.
"""

import ast
import contextlib
import functools
import importlib
import io
import json
import os
import random
import re
import types
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

import torch

from lessonkit import check, course
from lessonkit.check import NotYet, YourTurn
from lessonkit.check.cases import Probe
from lessonkit.check.observing import WORLD, Observed, quiet
from lessonkit.check.verdicts import collecting
from teaching.grading.in_jail import functions, limits
from teaching.grading.in_jail.plain_data import Malformed, decode

MOST = 64 << 20  # bytes of a message that comes out of a jail
LONGEST = 4000  # characters of a message
READING = 5  # seconds of computing that a message may take to be read
ERRORS = {TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError, ZeroDivisionError}
WATCHES = re.compile(r"torch\.overrides|\b_C\b|DisableTorchFunction|function_mode|lessonkit\.check\.|^gc\.|_getframe")
LABEL = "this input"  # a probe's own label may tell what is right
cloudpickle = functions.load_cloudpickle()


class Leak(Exception):
    """A probe would carry the exercise's own answer into the jail."""


class Ended(Exception):
    """Nobody is in the jail any more, or too much came out of it."""


class Writer(cloudpickle.Pickler):
    """Writes a request for a jail: functions of the checks by value, of a probe only what is done to an answer.

    hidden: the functions and classes that must not go there. outside: a list, to which functions that stay outside are
        added; the jail calls them by their number in it.
    """

    def __init__(self, file, hidden=(), outside=()):
        super().__init__(file)
        self.outside = outside
        self.hidden = {id(item) for item in hidden if not getattr(item, "__module__", "").startswith("torch")}

    def reducer_override(self, item):
        if isinstance(item, Probe):
            return functools.partial(Probe, LABEL, item.run, seconds=item.seconds), ()
        if type(item) is functools._lru_cache_wrapper:
            return functools.cache, (item.__wrapped__,)
        of_text = isinstance(item, types.CodeType) and not item.co_filename.startswith("/")
        if of_text:  # what is made of text is called as that text, which may say what is wrong with it
            return super().reducer_override(item.replace(co_filename="<check>"))
        if isinstance(item, (types.FunctionType, type)) and id(item) in self.hidden:
            raise Leak(item.__qualname__)
        if isinstance(item, types.FunctionType) and getattr(item, "stays_outside", False):
            self.outside.append(item)
            return functions.outside, (len(self.outside) - 1, item.__name__)
        return super().reducer_override(item)


class Jailed:
    """The answers of one exercise in a jail."""

    def __init__(self, channel):
        self.channel = channel
        self.outside = []  # functions that the answer may call, see Writer
        self.examined = []  # (probe, what was seen, hidden): what is asked again, see _again

    def ask(self, request, hidden=()):
        """Return the observer's reply; Ended if there is none, Malformed if it is none."""
        while True:
            file = io.BytesIO()
            Writer(file, hidden, self.outside).dump(request)
            try:
                self.channel.send_bytes(file.getvalue())
                message = self.channel.recv_bytes(MOST)
            except (EOFError, OSError) as error:
                raise Ended from error
            with limits.within(READING, Malformed("it takes too long to read")):
                reply = decode(message)
            if type(reply) is not dict:
                raise Malformed("no reply")
            if "call" not in reply:
                return reply
            request = self._called(reply)

    def _called(self, reply):
        """Return (result, error) of a function that stayed outside; its gradients, if one arrives at the result."""
        try:
            function, args = self.outside[reply["call"]], reply["arguments"]
            with quiet():
                result = function(*args, **reply["keywords"])
                if "gradient" in reply:
                    result = _gradients(result, args, reply["gradient"])
            return (result.detach() if isinstance(result, torch.Tensor) else result), None
        except Exception as error:
            return None, (type(error) if type(error) in ERRORS else RuntimeError)(str(error))

    def run(self, asked):
        """Have the learner's cells run; return (the answers as checks take them, None) or (None, what became of it)."""
        report = self.ask({"do": "run"} | asked)
        if report.get("verdict") == "ran":
            answers = [self.answer(at, about) for at, about in enumerate(report["answers"])]
            if len(answers) != len(asked["expressions"]):
                raise Malformed("not as many answers as were asked for")
            self.changes = [change for change in WORLD if change in report["changes"]]
            return answers, None
        if report.get("verdict") == "waits":
            return None, {"verdict": "waits"}
        message = report.get("message") or "the answer's process does not say why"
        return None, {"verdict": "raised", "message": str(message)[:LONGEST]}

    def answer(self, at, about):
        """Return what a check gets for the answer number at: its value, or an Observed."""
        if about["kind"] == "value":
            return about["value"]
        kind, words, name = ("class" if about["kind"] == "class" else "function"), about["words"], about["name"]
        bases = [str(base) for base in about["bases"]]
        seen = lambda probe: self.seen(at, probe, answer.hidden)  # noqa: E731
        answer = type(kind, (Observed,), {})(seen, kind, str(words), str(name)[:80], bases)
        return answer

    def seen(self, at, probe, hidden):
        """Return what a probe has seen: {what: value}. hidden: see Writer."""
        before = len(self.outside)
        reply = self.ask({"do": "observe", "answer": at, "probe": probe}, hidden)
        if "rejected" in reply:
            raise NotYet(str(reply["rejected"]).replace(LABEL, probe.label, 1)[:LONGEST])
        if "waits" in reply:
            raise YourTurn(str(reply["waits"])[:LONGEST])
        seen = reply.get("seen")
        if type(seen) is not dict or any(type(what) is not str for what in seen):
            raise Malformed("no observation")
        if len(self.outside) > before or probe.anew:
            self.examined.append((probe, seen, hidden))
        return seen


def _gradients(result, args, arriving):
    """Return the gradients of a result in its arguments, None for what has none."""
    leaves = [item for item in args if isinstance(item, torch.Tensor) and item.requires_grad]
    gradients = iter(torch.autograd.grad(result, leaves, arriving, allow_unused=True))
    return [next(gradients) if any(item is leaf for leaf in leaves) else None for item in args]


def judge(request, channel, examined):
    """Return what becomes of the answers of one exercise: {"verdict", "message", "passed", "remarks", "again"}.

    examined: {number of a check: what is to be asked of its answer again, in another jail}. Is there any, then a right
    answer's reply says "again", and the next request, which is the same but for "again", asks it.
    """
    by_value(request["lesson"])
    jailed = Jailed(channel)
    judge_one = functools.partial(_again if request.get("again") else _judged, examined)
    nothing = {"verdict": "stopped", "message": "", "passed": 0, "remarks": []}
    checks, expressions = zip(*request["checks"], strict=True)
    asked = {key: request[key] for key in ("number", "context", "cells", "seconds")}
    try:
        answers, why = jailed.run(asked | {"expressions": expressions})
        if why:
            return nothing | why
        judged = [judge_one(at, *one, jailed) for at, one in enumerate(zip(checks, answers, strict=True))]
    except Leak as error:
        return nothing | {"verdict": "failed", "message": f"{error} would be in sight of the answer"}
    except Ended:
        return nothing | {"verdict": "gone"}
    except Exception as error:  # Malformed, or something else than was asked for
        return nothing | {"message": f"what came out of the process of the answer cannot be read ({str(error)[:200]})"}
    verdicts = [verdict for verdict, _ in judged]
    passed = [answer for verdict, answer in zip(verdicts, answers, strict=True) if verdict == "right"]
    by_hand = {name for answer in passed for name in getattr(answer, "by_hand", ())}
    put_back = "changes {} for the whole notebook; that was put back, and cost no points"
    return {
        "verdict": next(verdict for verdict in ("not yet", "waits", "right") if verdict in verdicts),
        "message": "\n\n".join(text for _, text in judged if text)[:LONGEST],
        "passed": len(passed),
        "remarks": [*map(put_back.format, jailed.changes), *named(request["cells"], by_hand)],
        "again": not request.get("again") and any(examined.values()),
    }


def _again(examined, at, name, answer, jailed):
    """Return (verdict, what is said) of an answer that is asked again, in an order and on numbers that nobody knows.

    It runs in a jail of its own, so nothing of the first time is there: neither how often it was called, nor what it
    was given. What it says then is a word or a few numbers: a list of these is no answer.
    """
    chance = random.SystemRandom()
    try:
        for probe, before, hidden in chance.sample(examined[at], len(examined[at])):
            asked, answer.hidden = probe.anew(chance.randrange(2**31)) if probe.anew else probe, hidden
            if (asked.reads or dict)(answer.seen(asked)) != (probe.reads or dict)(before):
                return "not yet", f"Not yet. On {probe.label}: it says something else when it is asked again."
    except NotYet as error:
        return "not yet", str(error)
    return "right", ""


def _judged(examined, at, name, answer, jailed):
    """Return (verdict, what is said of it) of one check on one answer."""
    jailed.examined.clear()
    try:
        with collecting() as lines:
            check.plain(name)(answer)
        examined[at] = list(jailed.examined)
    except NotYet as error:
        return "not yet", str(error)
    except YourTurn:
        return "waits", ""
    except (Ended, Malformed, Leak):
        raise
    except Exception as error:
        return "not yet", f"What came out could not be compared: {type(error).__name__}: {error}"
    return "right", "\n".join(lines)


def named(cells, by_hand):
    """Return remarks if cells name functions of PyTorch's that the exercise is there to build, or what watches it.

    Names count that are read from something, imported under whatever name, or asked for by getattr.
    """
    plain = {name.replace("_", "").lower() for name in by_hand}
    built, watches = {}, {}
    for text in cells:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for of, name in _named(ast.parse(text)):
                if of in ("self", "cls"):
                    continue
                if name.replace("_", "").lower().removeprefix("native") in plain:
                    built[f"{of}.{name}"] = None
                if WATCHES.search(f"{of}.{name}"):
                    watches[f"{of}.{name}"] = None
    told = {
        "which this exercise is there to build; no check has seen it called": built,
        "with which an answer can hide from what observes it": watches,
    }
    return [f"names {', '.join(names)}, {why}" for why, names in told.items() if names]


def _named(tree):
    """Yield (what it is taken from, name) for each name of a program that is taken from something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield getattr(node.value, "id", "") or getattr(node.value, "attr", "…"), node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and len(node.args) > 1:
            if isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
                yield ast.unparse(node.args[0])[:40], node.args[1].value


def by_value(lesson):
    """Let the functions of a lesson's checks, and of what it and later ones export, go into jails by value."""
    later = [other for stem, other in course.lessons().items() if stem >= lesson]
    names = [f"lessons.{lesson}.checks", *(f"fromscratch.{other.module}" for other in later)]
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):  # not every lesson exports something
            cloudpickle.register_pickle_by_value(importlib.import_module(name))


def main():
    grader = Connection(os.dup(0))
    limits.apply(json.loads(grader.recv_bytes()))
    grader.send_bytes(b"ready")
    examined = {}
    while True:
        request = json.loads(grader.recv_bytes())
        examined = examined if request.get("again") else {}
        with Connection(recv_handle(grader)) as jail:
            reply = judge(request, jail, examined)
        grader.send_bytes(json.dumps(reply).encode())


if __name__ == "__main__":
    main()

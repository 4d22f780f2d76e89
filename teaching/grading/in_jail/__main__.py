"""The observer: all of the grader that is in a jail with an answer.

It runs the learner's cells, then probe after probe that it is sent, and sends back what it has seen, as plain data. It
knows no expected value and gives no verdict: what an answer does to this process spoils what is seen of that answer,
and nothing else. What arrives is written by the judge (pickled, since probes are functions); what leaves never is.
"""

import ast
import asyncio
import importlib
import inspect
import json
import linecache
import os
import pickle
import sys
import traceback
import types
from multiprocessing.connection import Connection

import functions
import limits
import plain_data

LONGEST = 4000  # characters of a message


def run(text, namespace, name):
    """Execute a text as a cell would be: its lines are found by inspect and by the checks' messages."""
    file = f"<ipython-input-{name}>"  # as the checks know a learner's own lines
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    code = compile(text, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waits = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:  # a cell of a notebook may await
        asyncio.run(waits)


class Observer:
    """Answers requests about one answer: first "run", then "observe" as often as it is asked."""

    def __init__(self):
        self.answers = []

    def run(self, request):
        """Run the lesson's statements and the learner's cells; say what became of them and what the answers are."""
        from lessonkit.check import YourTurn
        from lessonkit.check.observing import watched

        main = sys.modules["__main__"] = types.ModuleType("__main__")
        namespace = vars(main)
        namespace["display"] = print  # as a notebook has it
        for text in request["context"]:
            run(text, namespace, "lesson")
        limits.seconds(request["seconds"])
        changes = []
        try:
            with watched(changes):
                for at, text in enumerate(request["cells"], 1):
                    run(text, namespace, f"{request['number']}-{at}")
            self.answers = [eval(expression, namespace) for expression in request["expressions"]]
        except YourTurn:
            return {"verdict": "waits"}
        except BaseException as error:
            return {"verdict": "raised", "message": told(error)[:LONGEST]}
        return {"verdict": "ran", "changes": changes, "answers": [about(answer) for answer in self.answers]}

    def observe(self, request):
        """Return what a probe sees of an answer."""
        from lessonkit.check import NotYet, YourTurn
        from lessonkit.check.observing import observe, raised

        try:
            return {"seen": observe(request["probe"], self.answers[request["answer"]])}
        except NotYet as error:
            return {"rejected": str(error)[:LONGEST]}
        except YourTurn as error:
            return {"waits": str(error)[:LONGEST]}
        except BaseException as error:
            return {"seen": {"the result": raised(error)}}

    def reply(self, request):
        """Return the message that answers a request."""
        found = getattr(self, request["do"])(request)
        try:
            return plain_data.encode(found)
        except Exception as error:
            return plain_data.encode({"unreadable": type(error).__name__})


def about(answer):
    """Return what a check may ask about an answer without running it; and the answer itself, if it is a value."""
    from lessonkit.check.observing import BASES
    from lessonkit.check.verdicts import kind_of

    if not callable(answer):
        return {"kind": "value", "value": answer}
    kind = "class" if isinstance(answer, type) else "function"
    bases = [name for name, base in BASES.items() if kind == "class" and issubclass(answer, base)]
    name = getattr(answer, "__name__", type(answer).__name__)
    return {"kind": kind, "name": str(name)[:80], "words": kind_of(answer)[:200], "bases": bases[:50]}


def told(error):
    """Return an error of a learner's code in a line: its type and text, and the learner's own line."""
    if isinstance(error, SyntaxError) and str(error.filename).startswith("<ipython-input"):
        return f"{type(error).__name__}: {error.msg}. In line {error.lineno}: {(error.text or '').strip()}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<ipython-input")]
    line = f" In the line: {frames[-1].line}" if frames and frames[-1].line else ""
    try:
        text = str(error)
    except Exception:  # it is the learner's class
        text = "it does not say what"
    return f"{type(error).__name__}: {text}.{line}"


def main():
    channel = Connection(os.dup(0))
    bounds = json.loads(channel.recv_bytes())
    functions.load_cloudpickle()
    sys.modules["teaching.grading.in_jail.functions"] = functions  # as the judge calls it
    importlib.import_module("lessonkit.check.declare")  # all that a check is made of, before an answer is here
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    limits.apply(bounds)
    channel.send_bytes(b"ready")

    def ask(request):
        channel.send_bytes(plain_data.encode(request))
        return pickle.loads(channel.recv_bytes())

    functions.ask, observer = ask, Observer()
    while True:
        channel.send_bytes(observer.reply(pickle.loads(channel.recv_bytes())))


if __name__ == "__main__":
    main()

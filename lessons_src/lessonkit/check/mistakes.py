"""Known mistakes: wrong answers with their causes, most of them made by editing the text of a right one."""

import contextlib
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

_listeners = []


@dataclass(frozen=True, eq=False)
class Mistake:
    """A known wrong answer: its cause in plain words (a sentence or a question), and a function or class that makes it.

    shares: words of the message that this mistake gets instead of its cause when it is the whole answer, because an
        earlier probe or an earlier row meets it first. A row without shares must be told its own cause; a test tries.
    """

    cause: str
    answer: Callable
    shares: str = ""


def known(solution, rows):
    """Return mistakes made by editing a right answer's text, so that a cause is one row and no second implementation.

    solution: a function or class at the top level of a module, written as a learner would write it. Its text is
        edited, and what it reads from its module stays as it is.
    rows: {"old -> new": cause}; several edits at once: {"old -> new ; old -> new": cause}. Every occurrence of old
        changes, so an old text that stands in several places takes more of its line to name one of them. In place of
        cause, (cause, shares): see Mistake.
    """
    mistakes = []
    for edits, said in rows.items():
        cause, shares = (said, "") if isinstance(said, str) else said
        mistakes.append(Mistake(cause, edited(solution, edits), shares))
    return mistakes


def edited(solution, edits):
    """Return what solution becomes when its text is edited ("old -> new ; old -> new"); ValueError if it cannot be."""
    text = changed = _source(solution)
    for edit in edits.split(" ; "):
        old, arrow, new = edit.partition(" -> ")
        if not arrow or " -> " in new:
            raise ValueError(f"{solution.__name__}: {edit!r} is not an edit. Write it as 'old -> new'.")
        if old not in changed:
            raise ValueError(f"{solution.__name__} does not contain {old!r}. Copy the text from its source.")
        changed = changed.replace(old, new)
    if changed == text:
        raise ValueError(f"{solution.__name__}: the edits {edits!r} change nothing. Remove the row.")
    file = f"<{solution.__name__} with {edits}>"
    namespace = dict(inspect.getmodule(solution).__dict__)
    exec(compile(changed, file, "exec"), namespace)
    linecache.cache[file] = (len(changed), None, changed.splitlines(keepends=True), file)  # inspect.getsource finds it
    return namespace[solution.__name__]


@functools.cache
def _source(solution):
    return textwrap.dedent(inspect.getsource(solution))  # for a class it reads the whole module: once is enough


@contextlib.contextmanager
def listening():
    """Yield a list to which every check that runs meanwhile adds the known mistakes it looks for, in order.

    A mistake of a quiz has the wrong value as its answer. Tests use it to try each mistake as an answer.
    """
    heard = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


def announce(mistakes):
    """Tell those that listen which mistakes a check looks for."""
    for heard in _listeners:
        heard.extend(mistakes)

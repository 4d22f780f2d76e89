"""The files of work/mine: one module a lesson, with the learner's answers to its exercises, and the package's list.

A file is a docstring that says whose it is, when each exercise was kept and how to use it, then the code. The docstring
ends with a fingerprint, so that an edited or damaged file is known.
"""

import ast
import contextlib
import hashlib
import os
import re
import sys
import time
from dataclasses import dataclass, field

from lessonkit._program import needed, statements

try:
    import fcntl
except ImportError:  # Windows: there two kernels at once may lose one part of two, and nothing worse
    fcntl = None

ENTRY = re.compile(r"^Exercise (\d+\.\d+), (\w+): kept on (\d{4}-\d\d-\d\d)$", re.MULTILINE)
MARK = re.compile(r"^Fingerprint: (\S+)$", re.MULTILINE)
MARK_TO_BE = "Fingerprint: ?"
HEAD = f'''"""Your own answers to lesson {{number}}: {{names}}.

{{entries}}

Each has passed its check. Lessons that build on it take it through lessonkit.mine. For a notebook or a program of
yours that starts in the folder above mine/:

    from mine.{{lesson}} import {{last}}

When you pass a check again, its exercise is written anew. What you edit here is checked before a lesson uses it.

{MARK_TO_BE}
"""'''
PACKAGE = '''"""Your own layers: what you have written in this course, a module a lesson.

In a notebook or a program that starts in the folder above this one: from mine import {first}
"""

import importlib

_HOME = {{
{rows}}}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"mine has no {{name!r}}; it has {{', '.join(__all__)}}")
    return getattr(importlib.import_module(f"{{__name__}}.{{_HOME[name]}}"), name)
'''
PATIENCE = 10  # seconds for which a kernel waits for another one that is keeping an answer just now


@dataclass(frozen=True)
class Kept:
    """What a file of work/mine holds. text: all of it, None if there is no file. program: its statements.

    entries: {name: (exercise, day on which it was kept)}. whole: whether it is as it was written here.
    """

    text: str | None = None
    program: tuple = ()
    entries: dict = field(default_factory=dict)
    whole: bool = True


def read(path):
    """Return what a file holds, Kept() if there is none."""
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return Kept()


def parse(text):
    """Return what a text holds; one that was edited or damaged is not whole, and may have lost entries."""
    program = statements(text)
    if program and isinstance(program[0].node, ast.Expr):  # the docstring
        program = program[1:]
    entries = {name: (exercise, day) for exercise, name, day in ENTRY.findall(text)}
    mark = MARK.search(text)
    return Kept(text, program, entries, bool(program and mark) and mark[1] == _fingerprint(text))


def _fingerprint(text):
    return hashlib.sha256(MARK.sub("", text, count=1).encode()).hexdigest()[:16]


def compose(lesson, entries, program):
    """Return the text of a file. entries as in Kept; program: statements, each before those that read it at once."""
    rows = sorted(entries.items(), key=lambda item: _order(item[1][0]))
    head = HEAD.format(
        number=rows[0][1][0].partition(".")[0],
        names=", ".join(name for name, _ in rows),
        entries="\n".join(f"Exercise {exercise}, {name}: kept on {day}" for name, (exercise, day) in rows),
        lesson=lesson,
        last=rows[-1][0],
    )
    parts, written = [], []
    for name, (exercise, _) in rows:
        new = [statement for statement in needed(program, name)[0] if statement not in written]
        written += new
        if not all(statement.imports for statement in new):
            parts.append(f"# Exercise {exercise}\n{_spaced([s for s in new if not s.imports])}")
    text = "\n\n\n".join(["\n\n".join(filter(None, [head, _imports(written)])), *parts]) + "\n"
    return text.replace(MARK_TO_BE, f"Fingerprint: {_fingerprint(text)}", 1)


def _order(exercise):
    return [int(part) for part in exercise.split(".")]


def _spaced(program):
    """Return the texts of statements as one, with two empty lines around each definition."""
    kinds = [isinstance(s.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for s in program]
    gaps = ["\n\n" * (kind or before) for kind, before in zip(kinds, [False, *kinds], strict=False)]
    return "\n".join(gap + statement.text for gap, statement in zip(gaps, program, strict=True))


def _imports(program):
    """Return the import statements of a program as lines, Python's own modules first and the course's last."""
    groups = {0: set(), 1: set(), 2: set()}
    for statement in program:
        if statement.imports:
            module = statement.text.split()[1].partition(".")[0]
            own = module in ("lessonkit", "fromscratch")
            groups[2 if own else module not in sys.stdlib_module_names].add(statement.text)
    return "\n\n".join(
        "\n".join(sorted(sorted(lines), key=lambda line: line.startswith("from"))) for lines in groups.values() if lines
    )


def write(path, text):
    """Write a file of work/mine as a whole or not at all, then the package's list of what it holds."""
    _replace(path, text)
    _replace(path.with_name("__init__.py"), package(path.parent))


def package(folder):
    """Return the text of work/mine/__init__.py: it finds each name that the files hold."""
    homes = {name: path.stem for path in sorted(folder.glob("[a-z]*.py")) for name in read(path).entries}
    rows = "".join(f'    "{name}": "{homes[name]}",\n' for name in sorted(homes))
    return PACKAGE.format(first=min(homes, default="..."), rows=rows)


def _replace(path, text):
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8", newline="\n")
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def set_aside(path):
    """Give an edited or damaged file another name, so that it is not lost; return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.edited-{number}")).exists():
        number += 1
    os.replace(path, aside)
    return aside.name


@contextlib.contextmanager
def locked(folder):
    """Let one kernel at a time change work/mine; TimeoutError if another one does not finish."""
    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "a", encoding="utf-8") as file:
        give_up = time.monotonic() + PATIENCE
        while fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise TimeoutError("another kernel is keeping an answer") from None
                time.sleep(0.02)
            except OSError:  # a disk without locks
                break
        yield

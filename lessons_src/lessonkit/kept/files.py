"""The files of work/mine: one module a lesson, with the learner's answers to its exercises.

A file is a docstring, then the code. The docstring ends with a fingerprint: what has one that fits has passed its check
as it stands, what was edited or damaged has not.
"""

import contextlib
import hashlib
import os
import re
import sys
import types
from dataclasses import dataclass, field

from lessonkit.kept import allowed
from lessonkit.program import needed, statements

ENTRY = re.compile(r"^Exercise (\d+\.\d+), (\w+): kept on (\d{4}-\d\d-\d\d)$", re.MULTILINE)
MARK = re.compile(r"^Fingerprint: (\S+)$", re.MULTILINE)
HEAD = '''"""Your own answers to lesson {number}: {names}.

{entries}

Each has passed its check. Lessons that build on it take it through lessonkit.mine. For a notebook or a program of
yours that starts in the folder above mine/:

    from mine.{lesson} import {last}

When you pass a check again, its exercise is written anew. What you edit here is checked before a lesson uses it.

Fingerprint: ?
"""'''


class Refused(Exception):
    """Why an answer cannot be kept or used, as the end of a sentence: "it does not bind LayerNorm"."""


@dataclass(frozen=True)
class Kept:
    """What a file of work/mine holds. text: all of it, None if there is no file. program: its statements.

    entries: {name: (exercise, day on which it was kept)}. whole: whether nobody has edited it.
    """

    text: str | None = None
    program: tuple = ()
    entries: dict = field(default_factory=dict)
    whole: bool = True

    @property
    def passed(self):
        """The entries that have passed their checks as they stand."""
        return self.entries if self.whole else {}

    def code(self, name):
        """Return the statements that a name needs."""
        return needed(self.program, name)[0]


def read(path):
    """Return what a file holds, Kept() if there is none."""
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return Kept()


def parse(text):
    """Return what a text holds; one that was edited or damaged is not whole, and may have lost entries."""
    program = statements(text)[1:]  # the first is the docstring
    entries = {name: (exercise, day) for exercise, name, day in ENTRY.findall(text)}
    return Kept(text, program, entries, bool(program and MARK.search(text)) and text == signed(text))


def signed(text):
    """Return the text of a file with the fingerprint that fits it."""
    fits = hashlib.sha256(MARK.sub("", text, count=1).encode()).hexdigest()[:16]
    return MARK.sub(f"Fingerprint: {fits}", text, count=1)


def compose(lesson, entries, program):
    """Return the text of a file. entries as in Kept; program: statements, in the order in which they run."""
    rows = sorted(entries.items(), key=lambda item: [int(part) for part in item[1][0].split(".")])
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
        texts = [statement.text for statement in new if not statement.imports]
        if texts:
            texts[0] = f"# Exercise {exercise}\n{texts[0]}"
        parts += texts
    imports = "\n".join(sorted({statement.text for statement in written if statement.imports}))
    return signed("\n\n\n".join(["\n\n".join(filter(None, [head, imports])), *parts]) + "\n")


@contextlib.contextmanager
def draft(path, text):
    """Yield a file beside another that holds a text meanwhile: numba's cache wants to see the source."""
    file = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
        yield file
    finally:
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def loaded(kept, path, file=None):
    """Run what a file of a lesson holds and yield the module mine.LESSON; Refused, and not run, if it may not be.

    Meanwhile the module can be imported, as dataclasses and pickle do. file: where the text is, if not at path.
    """
    trouble = allowed.trouble(kept.program) if kept.program else "Python cannot read it"
    if trouble:
        raise Refused(trouble)
    module = types.ModuleType(f"mine.{path.stem}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        try:
            exec(compile(kept.text, str(file or path), "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            what = str(error).partition("\n")[0].rstrip(".")
            raise Refused(f"on its own it raises {type(error).__name__}: {what}") from None
        yield module
    finally:
        del sys.modules[module.__name__]
        if before is not None:
            sys.modules[module.__name__] = before


def write(path, text):
    """Write a file of work/mine as a whole or not at all."""
    with draft(path, text) as file:
        os.replace(file, path)


def set_aside(path):
    """Give an edited or damaged file another name, so that it is not lost; return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.edited-{number}")).exists():
        number += 1
    os.replace(path, aside)
    return aside.name

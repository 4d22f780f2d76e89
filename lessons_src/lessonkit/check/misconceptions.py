"""Misconceptions: wrong answers with their causes, written as lines of Python that stand in a right answer instead."""

import ast
import contextlib
import difflib
import functools
import inspect
import itertools
import linecache
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from lessonkit.check.verdicts import REPAIR

_listeners = []
TWO = "\nAnd a second one: "  # between two causes that are told at once


@dataclass(frozen=True, eq=False)
class Misconception:
    """A known wrong answer.

    cause: what is wrong, in plain words (a sentence or a question). repair: what to write instead, told when the same
        misconception comes again. answer: a function or class that makes the misconception; of a quiz, the wrong value.
        edit: (the right answer, the lines that stand in it instead), where it was made so.
    """

    cause: str
    answer: Callable
    repair: str = ""
    edit: tuple = ()

    @property
    def told(self):
        """What a rejection says of it: the cause, and behind " | " what mends it."""
        return f"{self.cause} | {self.repair}" if self.repair else self.cause


def misconceptions(solution, text):
    """Return the misconceptions of a text: blocks, each a cause and the lines that stand in the solution instead.

    ValueError for a block that has no cause, more than one or no lines, and for lines that change nothing.

    solution: a function or class at the top level of a module, written as a learner would write it.
    text: blocks with an empty line between them,

            # the variance is divided by D - 1 (torch.var's default). | Say correction=0.
            var = x.var(-1, keepdim=True)

        The comment is the cause and, behind " | ", the repair; `# or` stands between several ways to write it.
        A line takes the place of the solution's that binds the same names (of several, of the most similar one); one
        that binds the names of several lines takes the place of the first of these, and the others go; a return takes
        the place of the last return; what binds nothing of the body's comes first. In a class, the last method that
        has its like is meant. A def speaks of the method (or function) of that name: its head takes the place of the
        old head, its lines those of the body, and `...` leaves the body as it is. A def of a new name is added. `del
        name` removes the line that binds name.
    """
    misconceptions = []
    for block in re.split(r"\n\s*\n", textwrap.dedent(text).strip()):
        lines = block.splitlines()
        comment = [line[2:] for line in itertools.takewhile(lambda line: line.startswith("# "), lines)]
        cause, _, repair = " ".join(comment).partition(" | ")
        ways = "\n".join(lines[len(comment) :]).split("# or\n")
        if not cause or any(not way or re.search("^# ", way, re.MULTILINE) for way in ways):
            raise ValueError(
                f"{solution.__name__}: {block!r} is not one misconception. Begin each with its cause in a comment, "
                "leave an empty line before it and none before its lines of Python."
            )
        misconceptions += [Misconception(cause, instead(solution, way), repair, (solution, way)) for way in ways]
    return misconceptions


@functools.lru_cache(10_000)
def both(first, second):
    """Return the Misconception of two at once, None where they change the same line or are no edits of one answer.

    The causes are told in the order of the lines.
    """
    if not (first.edit and second.edit) or first.edit[0] is not second.edit[0] or first.cause == second.cause:
        return None
    solution, texts = first.edit[0], [first.edit[1], second.edit[1]]
    lines = [_changed(solution, text) for text in texts]
    if lines[0] & lines[1]:
        return None
    one, other = (first, second) if min(lines[0], default=0) <= min(lines[1], default=0) else (second, first)
    try:
        answer = instead(solution, "\n".join(texts))
    except (ValueError, SyntaxError):
        return None
    repair = f"\n{REPAIR}".join(filter(None, (one.repair, other.repair)))
    return Misconception(f"{one.cause}{TWO}{other.cause}", answer, repair)


@functools.cache
def _changed(solution, lines):
    """Return the numbers of the lines of a solution that an edit takes the place of, or before which it comes."""
    before = ast.unparse(ast.parse(source_of(solution))).splitlines()
    after = _edited(solution, lines).splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    places = {number for kind, i, j, *_ in blocks if kind != "equal" for number in range(i, max(j, i + 1))}
    return places & set(range(len(before)))


def instead(solution, lines):
    """Return what solution becomes when lines stand in it; ValueError if they change nothing."""
    text, file = _edited(solution, lines), f"<{solution.__name__} with {lines}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # inspect.getsource finds it
    return made(solution, text, file)


def _edited(solution, lines):
    """Return the text of a solution in which lines stand."""
    tree = ast.parse(source_of(solution))
    before = ast.unparse(tree)
    _put(tree.body[0], ast.parse(lines, f"<a misconception of {solution.__name__}>").body)
    text = ast.unparse(ast.fix_missing_locations(tree))
    if text == before:
        raise ValueError(
            f"{solution.__name__}: {lines!r} changes nothing. Write a line that is not in it, or remove it."
        )
    return text


def made(answer, source, file):
    """Return what an answer becomes with another source. file: how tracebacks call that."""
    namespace = dict(inspect.getmodule(answer).__dict__)
    exec(compile(source, file, "exec"), namespace)
    return namespace[answer.__name__]


@functools.cache
def source_of(solution):
    """Return the source of a function or class, as it would stand at the top level of a module."""
    return textwrap.dedent(inspect.getsource(solution))  # for a class it reads the whole module: once is enough


def _binds(node):
    """What a statement binds: names, attributes like self.eps, `return`, `def NAME`; a call binds what it calls."""
    if isinstance(node, ast.Return):
        return "return"
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return f"def {node.name}"
    if isinstance(node, ast.Delete):
        return {ast.unparse(target) for target in node.targets}
    inner = {
        id(part) for loop in ast.walk(node) if isinstance(loop, ast.comprehension) for part in ast.walk(loop.target)
    }
    stored = [part for part in ast.walk(node) if isinstance(getattr(part, "ctx", None), ast.Store)]
    bound = {ast.unparse(part) for part in stored if id(part) not in inner and not isinstance(part, ast.Tuple)}
    return bound or ast.unparse(node).partition("(")[0]


def _put(old, statements):
    """Put statements into the body of a function or class, each in the place of its like."""
    if isinstance(old, ast.ClassDef):
        lines = [new for new in statements if not isinstance(new, ast.FunctionDef)]
        methods = [method for method in old.body if isinstance(method, ast.FunctionDef)]
        likes = [[m for m in methods if any(_alike(node, new) for _, node in _places(m))] for new in lines]
        homes = [like[-1] for like in likes if like]
        for new, like in zip(lines, likes, strict=True) if homes else ():
            _put(like[-1] if like else homes[-1], [new])
        if homes:
            statements = [new for new in statements if isinstance(new, ast.FunctionDef)]
    first = int(bool(ast.get_docstring(old)))
    for new in statements:
        if isinstance(new, ast.FunctionDef) and isinstance(old, ast.FunctionDef) and new.name == old.name:
            _into(old, new)
            continue
        places = list(_places(old))
        its_like = any(_binds(node) == _binds(new) for _, node in places)
        if isinstance(new, ast.Assign) and len(_binds(new)) > 1 and not its_like:  # one for several of the solution's
            parts = [
                (body, node) for body, node in places if isinstance(node, ast.Assign) and _binds(node) < _binds(new)
            ]
            for i, (body, node) in enumerate(parts):
                body[body.index(node)] = ast.Pass() if i else new
            if parts:
                continue
        alike = [(body, node) for body, node in places if _binds(node) == _binds(new)]
        if not alike:
            old.body.insert(len(old.body) if isinstance(old, ast.ClassDef) else first, new)
            first += not isinstance(old, ast.ClassDef)
        elif isinstance(new, ast.FunctionDef):
            _into(alike[0][1], new)
        else:
            likeness = lambda place, new=new: difflib.SequenceMatcher(
                None, ast.unparse(place[1]), ast.unparse(new)
            ).ratio()
            last = isinstance(new, (ast.Return, ast.Delete))
            body, node = alike[-1] if last else max(alike, key=likeness)
            body[body.index(node)] = ast.Pass() if isinstance(new, ast.Delete) else new


def _alike(old, new):
    """Whether a statement binds what another one binds, or a part of it."""
    if isinstance(old, ast.Assign) and isinstance(new, ast.Assign):
        return _binds(old) <= _binds(new)
    return _binds(old) == _binds(new)


def _places(old):
    """Yield (list of statements, statement) for a body and the loops and branches in it, not for functions in it."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(old, name, [])
        for node in list(body):
            yield body, node
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield from _places(node)


def _into(old, new):
    old.args, old.decorator_list = new.args, new.decorator_list or old.decorator_list
    if ast.unparse(new.body[0]) != "...":
        _put(old, new.body)


@contextlib.contextmanager
def listening():
    """Yield a list to which every check that runs meanwhile adds the misconceptions it looks for, in order.

    A misconception of a quiz has the wrong value as its answer. Tests use it to try each misconception as an answer.
    """
    heard = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


def announce(misconceptions):
    """Tell those that listen which misconceptions a check looks for."""
    for heard in _listeners:
        heard.extend(misconceptions)

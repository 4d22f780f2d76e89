"""What a piece of code reads and binds, and which statements of a program a name needs, found without running it.

A program is a list of statements in the order in which they ran. A statement's own expressions, decorators, defaults
and base classes are read while it runs, from what was bound before it; the bodies of its functions are read when they
are called, from what is bound in the end.
"""

import ast
import builtins
import dis
import functools
import inspect
from dataclasses import dataclass

from lessonkit.course import CARD

IMPORTS = (ast.Import, ast.ImportFrom)
OUTSIDE = set(dir(builtins)) - {"display", "get_ipython"}  # the last two are IPython's
STORES, READS = ("STORE_NAME", "STORE_GLOBAL"), ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at top level; an import of several names is one for each.

    text: as it was written, with the comment above it. binds: the names that it binds or changes. now, later: the names
    that it reads while it runs, and that its functions read.
    """

    text: str
    node: ast.stmt
    binds: frozenset
    now: frozenset
    later: frozenset

    @property
    def imports(self):
        return isinstance(self.node, IMPORTS)


def names(source):
    """Return (names read from outside, names bound at top level) by a piece of code; SyntaxError if it is none."""
    binds, now, later = _names(source)
    return (now | later) - binds, binds


@functools.lru_cache(1000)  # all cells are looked at after each check
def statements(source):
    """Return the statements of a cell or module as a tuple; () for what Python cannot read, which has not run."""
    try:
        nodes = ast.parse(source).body
        texts = [(part, _text(source, part, nodes)) for node in nodes for part in _one_by_one(node)]
        return tuple(_statement(node, text) for node, text in texts)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return ()


def needed(program, *wanted):
    """Return (the statements that names need, in order; the names that neither one of them nor Python itself binds)."""
    order, seen, unbound = [], set(), []

    def visit(name, before):
        binding = [i for i, statement in enumerate(program) if name in statement.binds]
        at = max((i for i in binding if i < before), default=max(binding, default=None))
        if at is None and name not in OUTSIDE:
            unbound.append(name)
        if at is None or at in seen:
            return
        seen.add(at)
        for other in sorted(program[at].now):
            visit(other, at)
        for other in sorted(program[at].later):
            visit(other, len(program))
        order.append(program[at])

    for name in wanted:
        visit(name, len(program))
    return order, list(dict.fromkeys(unbound))


def modules(node):
    """Return the modules that an import statement names, [] for any other node; "." for a relative one without name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def _names(source):
    """Return three sets of names: those that code binds at top level, reads while it runs, and reads in functions."""
    binds, now, later = set(), set(), set()

    def visit(code, reads, top):
        steps = list(dis.get_instructions(code))
        stored = {step.argval for step in steps if step.opname in STORES}
        if top:
            binds.update(stored)
        own = stored | {"__name__"} if not top and not code.co_flags & inspect.CO_OPTIMIZED else set()  # of a class
        reads.update({step.argval for step in steps if step.opname in READS} - own)
        for inner in filter(inspect.iscode, code.co_consts):
            runs_now = inner.co_name in COMPREHENSIONS or not inner.co_flags & inspect.CO_OPTIMIZED
            visit(inner, reads if runs_now else later, top and inner.co_name in COMPREHENSIONS)

    visit(compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), now, True)
    special = {name for name in binds | now | later if name.startswith("__") and name not in OUTSIDE}
    return binds - special, now - special, later - special


def _one_by_one(node):
    for alias in node.names if isinstance(node, IMPORTS) else ():
        yield ast.copy_location(type(node)(**dict(ast.iter_fields(node)) | {"names": [alias]}), node)
    if not isinstance(node, IMPORTS):
        yield node


def _text(source, node, nodes):
    """Return a statement as it was written, with its decorators and the comment lines right above it."""
    if isinstance(node, IMPORTS):
        return ast.unparse(node)
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    if any(n is not node and n.lineno <= node.end_lineno and n.end_lineno >= first for n in nodes):  # a = 1; b = 2
        return ast.get_source_segment(source, node)
    lines = source.split("\n")
    while first > 1 and lines[first - 2].startswith("#") and not CARD.match(lines[first - 2]):
        first -= 1
    return "\n".join(lines[first - 1 : node.end_lineno])


def _statement(node, text):
    binds, now, later = _names(text)
    changed = set(_changed(node))
    return Statement(text, node, frozenset(binds | changed), frozenset(now | changed), frozenset(later))


def _changed(node):
    """Yield the names whose objects an assignment changes: x in x.y = 1, x[0] = 1 and x += 1."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        if isinstance(node, ast.AugAssign) and isinstance(target, ast.Name):
            yield target.id
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
            if isinstance(target, ast.Name):
                yield target.id

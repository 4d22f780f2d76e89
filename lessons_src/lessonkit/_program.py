"""Which statements of a program a name needs, found without running it.

A program is a list of statements in the order in which they ran: the cells of a kernel, or a module. A statement's own
expressions, decorators, defaults and base classes are read while it runs, from what was bound before it; the bodies of
its functions are read when they are called, from what is bound in the end.
"""

import ast
import builtins
import functools
import symtable
from dataclasses import dataclass

from lessonkit.course import CARD

OUTSIDE = {"__name__", "__doc__"} | set(dir(builtins)) - {"display", "get_ipython"}  # the last two are IPython's


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at top level. An import of several names is one statement for each.

    text: as it was written, with the comment right above it. binds: the names that it binds or changes, also by
    x.y = ... and x[...] = ... now, later: the names that it reads while it runs, and that its functions read.
    """

    text: str
    node: ast.stmt
    binds: frozenset
    now: frozenset
    later: frozenset

    @property
    def imports(self):
        return isinstance(self.node, (ast.Import, ast.ImportFrom))


@functools.lru_cache(1000)  # all cells of a kernel are looked at again after each check
def statements(source):
    """Return the statements of a cell or module as a tuple; () for what Python cannot read, which has not run."""
    try:
        nodes = ast.parse(source).body
        found = []
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found += [_statement(one, ast.unparse(one)) for one in _one_by_one(node)]
            else:
                found.append(_statement(node, _text(source, node, nodes)))
        return tuple(found)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return ()


def needed(program, name):
    """Return (the statements that a name needs, what is needed first coming first; the names that none of them binds).

    Names that Python itself has are not among the latter.
    """
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

    visit(name, len(program))
    return order, list(dict.fromkeys(unbound))


def _one_by_one(node):
    for alias in node.names:
        one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
        yield ast.copy_location(one, node)


def _text(source, node, nodes):
    """Return a statement as it was written, with its decorators and the comment lines right above it."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    beside = [n for n in nodes if n is not node and n.lineno <= node.end_lineno and n.end_lineno >= first]
    if beside:  # a = 1; b = 2
        return ast.get_source_segment(source, node)
    lines = source.split("\n")
    while first > 1 and lines[first - 2].startswith("#") and not CARD.match(lines[first - 2]):
        first -= 1
    return "\n".join(lines[first - 1 : node.end_lineno])


def _statement(node, text):
    top = symtable.symtable(text, "statement", "exec")
    binds = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    if isinstance(node, ast.Delete):
        binds = set()
    now, later = set(), set()

    def visit(table, reads):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                reads.add(symbol.get_name())
        for child in table.get_children():
            runs_now = child.get_type() == "class" or child.get_name() in ("listcomp", "setcomp", "dictcomp", "genexpr")
            visit(child, reads if runs_now else later)

    visit(top, now)
    changed, inner = set(_changed(node)), _of_comprehensions(node)
    now, later = (now | changed) - inner - {"__class__"}, later - {"__class__"}
    return Statement(text, node, frozenset((binds | changed) - inner), frozenset(now), frozenset(later))


def _of_comprehensions(node):
    """Return the variables of a statement's comprehensions, if they are nothing else in it.

    From Python 3.12 on the symbol table counts them among the names around the comprehension.
    """
    inside, outside = set(), set()

    def visit(node):
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = (inner.target for inner in ast.walk(node) if isinstance(inner, ast.comprehension))
            inside.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            return visit(node.generators[0].iter)
        if isinstance(node, ast.Name):
            outside.add(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(node)
    return inside - outside


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

"""Hunt for holes in the checks: change one thing at a time in a right answer, and show each change that is accepted.

    python -m tests.hunt layer_norm softmax     these exercises, all their right answers that are written out
    python -m tests.hunt --lesson epsilon       all exercises of a lesson
    python -m tests.hunt                        all of them: some minutes

An accepted change either leaves the function the same or is a hole in the check: a person decides. Not collected by
pytest.
"""

import argparse
import ast
import contextlib
import copy
import inspect
import textwrap

from lessonkit import check
from lessonkit.check.observing import TooLong, limit, quiet
from lessonkit.check.verdicts import NotYet, YourTurn, collecting
from tests.helpers import all_answers

ALIKE = [  # operators as ast calls them, and functions: each may stand in the place of another one of its line
    "Add Sub Mult Div Pow MatMult",
    "And Or",
    "Lt LtE Gt GtE Eq NotEq",
    "Is IsNot",
    "sqrt rsqrt square abs exp log",
    "mean sum amax amin max min var std",
    "ones zeros",
    "ones_like zeros_like",
    "sigmoid tanh relu gelu",
    "softmax log_softmax",
]


def mutants(source):
    """Yield (what was changed, source) for each single change of source."""
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    for node in list(ast.walk(tree)):
        itself = type(node), vars(node)
        for what, other in _changes(node):
            place = f"line {getattr(node, 'lineno', 0)}: {what}: {ast.unparse(node).splitlines()[0][:90]}"
            node.__class__, node.__dict__ = type(other), vars(other)
            changed = ast.unparse(tree)
            node.__class__, node.__dict__ = itself
            if changed not in seen:
                seen.add(changed)
                yield place, changed


def _changes(node):
    """Yield (what is changed, what stands in the place of the node) for each single change of a node."""
    match node:
        case ast.Constant(value=bool(value)):
            yield f"to {not value}", _with(node, value=not value)
        case ast.Constant(value=int(value) | float(value)):
            for new in (value + 1, value - 1, 2 * value, 10 * value, 0 * value):
                yield f"to {new}", _with(node, value=new)
        case ast.Compare(ops=[operator, *more]):
            for name in _alike(type(operator).__name__):
                yield f"to {name}", _with(node, ops=[getattr(ast, name)(), *more])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            for name in _alike(type(operator).__name__):
                yield f"to {name}", _with(node, op=getattr(ast, name)())
        case ast.Call(func=ast.Attribute(attr=called)):
            for name in _alike(called):
                yield f"to {name}", _with(node, func=_with(node.func, attr=name))
            yield f"without .{called}()", node.func.value
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "the other way round", _with(node, test=ast.UnaryOp(ast.Not(), test))
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        yield from (("one part alone", part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    for field in ("body", "args", "keywords", "elts"):
        items = getattr(node, field, None)
        if isinstance(items, list) and not isinstance(node, ast.Module):
            empty = [ast.Pass()] if field == "body" else []
            for at, item in enumerate(items):
                yield f"without {ast.unparse(item)[:60]}", _with(node, **{field: items[:at] + empty + items[at + 1 :]})
            yield "the first two swapped", _with(node, **{field: items[1::-1] + items[2:]})


def _with(node, **fields):
    """Return a copy of a node with some fields changed."""
    twin = copy.copy(node)
    vars(twin).update(fields)
    return twin


def _alike(name):
    return [other for line in ALIKE if name in line.split() for other in line.split() if other != name]


def accepted(name, answer):
    """Return (how many changes were tried, those that the check accepts) for one right answer that is written out."""
    source, tried, good = textwrap.dedent(inspect.getsource(answer)), 0, []
    for what, changed in mutants(source):
        namespace = dict(inspect.getmodule(answer).__dict__)
        try:
            exec(compile(changed, "<mutant>", "exec"), namespace)
            mutant = namespace[answer.__name__]
        except Exception:
            continue
        tried += 1
        with contextlib.suppress(NotYet, YourTurn, TooLong), quiet(), collecting(), limit(20):
            check.plain(name)(mutant)
            good.append(what)
    return tried, good


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="exercises; without any, all")
    parser.add_argument("--lesson", choices=all_answers(), help="all exercises of this lesson")
    options = parser.parse_args()
    strays = set(options.names).difference(*all_answers().values())
    if strays:
        parser.error(f"no check is called {', '.join(sorted(strays))}. An exercise is named as in check.NAME(NAME).")
    for lesson, exercises in all_answers().items():
        for name in exercises if options.lesson in (None, lesson) else ():
            for answer in exercises[name]["right"].values() if not options.names or name in options.names else ():
                with contextlib.suppress(TypeError, OSError, AttributeError, SyntaxError):  # not written out
                    tried, good = accepted(name, answer)
                    print(
                        f"{lesson} · {name} · {answer.__name__}: {tried} tried, {len(good)} accepted",
                        *good,
                        sep="\n    ",
                    )


if __name__ == "__main__":
    main()

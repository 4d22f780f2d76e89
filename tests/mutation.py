"""Hunt for holes in the checks: change one thing at a time in a right answer, and show each change that is accepted.

    python -m tests.mutation layer_norm softmax     these exercises, all their right answers that are written out
    python -m tests.mutation --lesson epsilon       all exercises of a lesson
    python -m tests.mutation                        all of them: some minutes

An accepted change either leaves the function the same (equivalent) or is a hole in the check: a person decides. Not
collected by pytest.
"""

import argparse
import ast
import contextlib
import copy
import faulthandler
import inspect
import io
import signal
import textwrap

from lessonkit import check
from lessonkit.check.declare import NotYet, YourTurn
from tests.helpers import all_answers

ALIKE = [  # operators as ast calls them, and functions: each may stand in the place of another one of its line
    "Add Sub Mult",
    "Mult Div FloorDiv Mod",
    "Mult Pow MatMult",
    "BitAnd BitOr",
    "And Or",
    "Lt LtE Gt GtE",
    "Eq NotEq",
    "Is IsNot",
    "In NotIn",
    "sqrt rsqrt square abs",
    "mean sum amax amin max min",
    "var std",
    "ones zeros",
    "ones_like zeros_like",
    "exp expm1 square",
    "log log1p",
    "sigmoid tanh",
    "relu gelu",
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
        case ast.Constant(value=int(value)):
            for new in (value + 1, value - 1, 2 * value):
                yield f"to {new}", _with(node, value=new)
        case ast.Constant(value=float(value)):
            for new in (10 * value, value / 10, 0.0):
                yield f"to {new}", _with(node, value=new)
        case ast.Compare(ops=[operator, *more]):
            for name in _alike(type(operator).__name__):
                yield f"to {name}", _with(node, ops=[getattr(ast, name)(), *more])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            for name in _alike(type(operator).__name__):
                yield f"to {name}", _with(node, op=getattr(ast, name)())
        case ast.Call(func=ast.Attribute() | ast.Name() as called):
            field = "attr" if isinstance(called, ast.Attribute) else "id"
            for name in _alike(getattr(called, field)):
                yield f"to {name}", _with(node, func=_with(called, **{field: name}))
            if isinstance(called, ast.Attribute):
                yield f"without .{called.attr}()", called.value
        case ast.If(test=test) | ast.IfExp(test=test):
            for new in (ast.UnaryOp(ast.Not(), test), ast.Constant(True), ast.Constant(False)):
                yield f"test is {ast.unparse(new)}", _with(node, test=new)
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Call)):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr) and part is not getattr(node, "func", None):
                yield f"{ast.unparse(part)} alone", part
    if not isinstance(node, (ast.Module, ast.arguments)):
        yield from _shorter_lists(node)


def _shorter_lists(node):
    """Yield changes of a node's lists: statements, arguments and entries are dropped, the first two are swapped."""
    for field in ("body", "orelse", "args", "keywords", "elts"):
        items = getattr(node, field, None)
        if not isinstance(items, list) or isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        for at, item in enumerate(items):
            text = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
            if not text and not isinstance(item, ast.FunctionDef):
                empty = [ast.Pass()] if isinstance(item, ast.stmt) else []
                rest = items[:at] + empty + items[at + 1 :]
                yield f"without {ast.unparse(item).splitlines()[0][:60]}", _with(node, **{field: rest})
        if field in ("args", "elts"):
            yield "first two swapped", _with(node, **{field: items[1::-1] + items[2:]})


def _with(node, **fields):
    """Return a copy of a node with some fields changed."""
    twin = copy.copy(node)
    vars(twin).update(fields)
    return twin


def _alike(name):
    return [other for line in ALIKE if name in line.split() for other in line.split() if other != name]


class TooLong(BaseException):
    """A change that hangs; no Exception, so that a check does not take it for one of the answer's and run it again."""


def mutate(name, answer):
    """Return (how many changes were tried, [those that are accepted]) for one right answer; one that hangs is not."""
    source = textwrap.dedent(inspect.getsource(answer))
    tried, accepted = 0, []
    for what, changed in mutants(source):
        namespace = dict(inspect.getmodule(answer).__dict__)
        try:
            exec(compile(changed, "<mutant>", "exec"), namespace)
            mutant = namespace[answer.__name__]
        except Exception:
            continue
        tried += 1
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TooLong()))
        signal.alarm(20)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                getattr(check, name)(mutant)
            accepted.append(what)
        except (NotYet, YourTurn, TooLong):
            pass
        finally:
            signal.alarm(0)
    return tried, accepted


def written_out(answers):
    """Return the right answers whose text can be changed: functions and classes with a def or class line."""
    texts = []
    for answer in answers["right"].values():
        with contextlib.suppress(TypeError, OSError, AttributeError):
            if textwrap.dedent(inspect.getsource(answer)).startswith(
                (f"def {answer.__name__}", f"class {answer.__name__}")
            ):
                texts.append(answer)
    return texts


def main():
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="exercises; without any, all")
    parser.add_argument("--lesson", choices=all_answers(), help="all exercises of this lesson")
    options = parser.parse_args()
    strays = set(options.names).difference(*all_answers().values())
    if strays:
        parser.error(f"no check is called {', '.join(sorted(strays))}. An exercise is named as in check.NAME(NAME).")
    for lesson, exercises in all_answers().items():
        for name, exercise in exercises.items():
            if options.lesson not in (None, lesson) or options.names and name not in options.names:
                continue
            for answer in written_out(exercise):
                tried, accepted = mutate(name, answer)
                print(f"{lesson} · {name} · {answer.__name__}: {tried} tried, {len(accepted)} accepted")
                for what in accepted:
                    print(f"    {what}")


if __name__ == "__main__":
    main()

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
from lessonkit.check.core import NotYet, YourTurn
from tests.helpers import all_answers

OPERATORS = {  # classes of ast: those that may stand in their place
    "Add": "Sub",
    "Sub": "Add",
    "Mult": "Div Add",
    "Div": "Mult FloorDiv",
    "Pow": "Mult",
    "FloorDiv": "Div",
    "MatMult": "Mult",
    "BitAnd": "BitOr",
    "BitOr": "BitAnd",
    "Mod": "FloorDiv",
    "Lt": "LtE Gt",
    "LtE": "Lt GtE",
    "Gt": "GtE Lt",
    "GtE": "Gt LtE",
    "Eq": "NotEq",
    "NotEq": "Eq",
    "Is": "IsNot",
    "IsNot": "Is",
    "In": "NotIn",
    "NotIn": "In",
}
CALLS = {  # functions: those that may stand in their place
    "sqrt": "rsqrt square abs",
    "rsqrt": "sqrt",
    "mean": "sum amax",
    "sum": "mean",
    "var": "std",
    "std": "var",
    "square": "abs",
    "ones": "zeros",
    "zeros": "ones",
    "amax": "amin mean",
    "max": "min",
    "min": "max",
    "exp": "square expm1",
    "sigmoid": "tanh",
    "tanh": "sigmoid",
    "relu": "gelu",
    "softmax": "log_softmax",
    "ones_like": "zeros_like",
    "zeros_like": "ones_like",
    "log": "log1p",
}


def mutants(source):
    """Yield (what was changed, source) for each single change of source."""
    tree = ast.parse(source)
    for index, node in enumerate(ast.walk(tree)):
        for what, change in _changes(node):
            copied = copy.deepcopy(tree)
            twin = next(n for i, n in enumerate(ast.walk(copied)) if i == index)
            before = ast.unparse(node).split("\n")[0]
            try:
                change(twin)
                changed = ast.unparse(ast.fix_missing_locations(copied))
            except (ValueError, IndexError, AttributeError, TypeError):
                continue
            if changed != ast.unparse(tree):
                yield f"line {getattr(node, 'lineno', 0)}: {what}: {before[:90]}", changed


def _set(**fields):
    return lambda node: [setattr(node, name, value) for name, value in fields.items()]


def _become(other):
    """Return a change that turns a node into a copy of another one of its parts."""

    def change(node):
        new = other(node)
        node.__class__, node.__dict__ = new.__class__, dict(new.__dict__)

    return change


def _changes(node):
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        for change, other in _others(node.op):
            yield change, _set(op=other)
    if isinstance(node, ast.BinOp):
        yield "left operand alone", _become(lambda n: n.left)
        yield "right operand alone", _become(lambda n: n.right)
    if isinstance(node, ast.Compare):
        for change, other in _others(node.ops[0]):
            yield change, lambda n, other=other: n.ops.__setitem__(0, other)
    if isinstance(node, ast.BoolOp):
        yield "and or swapped", _set(op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield "first part alone", _become(lambda n: n.values[0])
        yield "last part alone", _become(lambda n: n.values[-1])
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield "sign or not dropped", _become(lambda n: n.operand)
    if isinstance(node, ast.Constant) and not isinstance(node.value, str):
        yield from _constants(node.value)
    if isinstance(node, ast.Call):
        yield from _calls(node)
    if isinstance(node, (ast.If, ast.IfExp)):
        yield "test negated", _set(test=ast.UnaryOp(ast.Not(), node.test))
        yield "test always true", _set(test=ast.Constant(True))
        yield "test always false", _set(test=ast.Constant(False))
    if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) > 1 and isinstance(node.ctx, ast.Load):
        yield "first two swapped", lambda n: n.elts.__setitem__(slice(0, 2), n.elts[1::-1])
        yield "last dropped", lambda n: n.elts.pop()
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        if isinstance(statements, list) and not isinstance(node, ast.Module):
            for i, statement in enumerate(statements):
                is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if not is_text and not isinstance(statement, (ast.FunctionDef, ast.Pass)):
                    first = ast.unparse(statement).split("\n")[0]
                    yield f"dropped `{first[:60]}`", lambda n, f=field, i=i: getattr(n, f).__setitem__(i, ast.Pass())


def _others(operator):
    name = type(operator).__name__
    return [(f"{name} to {other}", getattr(ast, other)()) for other in OPERATORS.get(name, "").split()]


def _constants(value):
    if isinstance(value, bool):
        yield f"{value} to {not value}", _set(value=not value)
    elif isinstance(value, int):
        for new in dict.fromkeys((value + 1, value - 1, 2 * value)):
            yield f"{value} to {new}", _set(value=new)
    elif isinstance(value, float):
        for new in (10 * value, value / 10, 0.0):
            yield f"{value} to {new}", _set(value=new)


def _calls(node):
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    for new in CALLS.get(name, "").split():
        field = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield f"{name} to {new}", lambda n, f=field, new=new: setattr(n.func, f, new)
    for i, keyword in enumerate(node.keywords):
        yield f"without {keyword.arg}=", lambda n, i=i: n.keywords.pop(i)
    if len(node.args) > 1:
        yield "arguments swapped", lambda n: n.args.__setitem__(slice(0, 2), n.args[1::-1])
        yield "last argument dropped", lambda n: n.args.pop()
    if isinstance(node.func, ast.Attribute):
        yield f"without .{name}()", _become(lambda n: n.func.value)
    if len(node.args) == 1:
        yield f"without {name}()", _become(lambda n: n.args[0])


class TooLong(BaseException):
    """A change that hangs; no Exception, so that a check does not take it for one of the answer's and run it again."""


def mutate(name, answer, seconds=20):
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
        signal.alarm(seconds)
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

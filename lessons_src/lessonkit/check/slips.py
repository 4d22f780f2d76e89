"""Slips that nobody has listed: a right answer with one thing changed, or asked about something else.

Where no misconception does what an answer does, these are tried in its place: the same for all exercises. The changes
also show what a check lets pass (tests.hunt).
"""

import ast
import copy
import functools
import inspect
import re

import torch
from torch import nn

from lessonkit.check.cases import in_float64
from lessonkit.check.misconceptions import made, source_of

ALIKE = [  # operators as ast calls them, and functions: each may stand in the place of another one of its line
    "Add Sub Mult Div Pow MatMult",
    "And Or",
    "Lt LtE Gt GtE Eq NotEq",
    "Is IsNot",
    "sqrt rsqrt square abs exp log",
    "mean sum amax amin max min var std",
    "ones zeros",
    "ones_like zeros_like",
    "sigmoid tanh relu gelu erf",
    "softmax log_softmax",
]


# ---- one thing changed
def mutants(source):
    """Yield (line, what was there, what is there now, the new source) for each single change of source."""
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in list(ast.walk(tree)):
        whole = node
        while isinstance(whole, (ast.Constant, ast.UnaryOp, ast.keyword, ast.Name)) and whole in parents:
            whole = parents[whole]  # 1 says nothing where x.mean(-1) is meant
        itself, before = (type(node), vars(node)), ast.unparse(whole)
        for other in _changes(node):
            node.__class__, node.__dict__ = type(other), vars(other)
            changed, after = ast.unparse(tree), ast.unparse(whole)
            node.__class__, node.__dict__ = itself
            if changed not in seen:
                seen.add(changed)
                yield getattr(node, "lineno", 0), before, after, changed


def _changes(node):
    """Yield what may stand in the place of the node, for each single change of it."""
    match node:
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (_with(node, value=new) for new in (value + 1, value - 1, 2 * value, 10 * value, 0 * value))
        case ast.Compare(ops=[operator, *more]):
            yield from (_with(node, ops=[getattr(ast, name)(), *more]) for name in _alike(type(operator).__name__))
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            yield from (_with(node, op=getattr(ast, name)()) for name in _alike(type(operator).__name__))
        case ast.Call(func=ast.Attribute(attr=called)):
            of_a_module = getattr(node.func.value, "id", "") in ("torch", "F", "math")
            yield from node.args[:1] if of_a_module else [node.func.value]  # without the call
            yield from (_with(node, func=_with(node.func, attr=name)) for name in _alike(called))
        case ast.If(test=test) | ast.IfExp(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        yield from (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    for field in ("body", "args", "keywords", "elts"):
        items = getattr(node, field, None)
        if isinstance(items, list) and not isinstance(node, ast.Module):
            empty = [ast.Pass()] if field == "body" else []
            for at in range(len(items)):
                yield _with(node, **{field: items[:at] + empty + items[at + 1 :]})
            yield _with(node, **{field: items[1::-1] + items[2:]})


def _with(node, **fields):
    """Return a copy of a node with some fields changed."""
    twin = copy.copy(node)
    vars(twin).update(fields)
    return twin


def _alike(name):
    return [other for line in ALIKE if name in line.split() for other in line.split() if other != name]


# ---- asked about something else
_OF_A_TENSOR = [  # how an argument, or a parameter of a layer, may be taken, and what is told then
    ("{name} is not used.", torch.zeros_like),
    ("{name} is not used.", torch.ones_like),
    ("It is as if {name} were 1 + {name}.", lambda value: 1 + value),
    ("It is as if {name} were {name} - 1.", lambda value: value - 1),
    ("It is as if {name} had the other sign.", torch.neg),
]
_OF_A_NUMBER = [
    ("It is as if {name} were squared.", lambda value: value**2),
    ("It is as if the root of {name} were taken.", lambda value: value**0.5),
    *(
        (f"It is as if {{name}} were {other:g}.", lambda _, other=other: float(other))
        for other in (0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1)
    ),
]


def _asked(function, name, change):
    """Return a function that takes what stands for one of its arguments otherwise."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def asked(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments[name] = change(bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    return asked


def _along(function, axis):
    """Return a function that takes another axis of its first argument as the last one; "all": the tensor as one row."""

    def along(x, *others, **more):
        back = lambda out: out.movedim(-1, axis)
        if axis == "all":
            there = x.reshape(1, -1)
            back = lambda out: out.reshape(x.shape) if out.numel() == x.numel() else out.expand(*x.shape[:-1], 1)
        elif axis < x.dim() - 1:
            there = x.movedim(axis, -1)
        else:
            return function(x, *others, **more)
        out = function(there, *others, **more)
        return tuple(map(back, out)) if isinstance(out, tuple) else back(out)

    return along


def _own(cls, name, change):
    """Return a class whose forward takes one of its own parameters otherwise, or leaves out one of its layers."""

    def forward(self, *inputs, **more):
        parameters, layers = dict(self._parameters), dict(self._modules)
        if parameters.get(name) is not None:
            self._parameters[name] = change(parameters[name])
        elif name in layers:
            self._modules[name] = nn.Identity()
        try:
            return cls.forward(self, *inputs, **more)
        finally:
            self._parameters.update(parameters), self._modules.update(layers)

    return type(cls.__name__, (cls,), {"forward": forward})


def _of_a_class(cls):
    for name, item in inspect.signature(cls).parameters.items():
        for told, change in _OF_A_NUMBER if isinstance(item.default, float) else ():
            make = lambda n=name, c=change: type(cls.__name__, (cls,), {"__init__": _asked(cls.__init__, n, c)})
            yield told.format(name=name), make
    for name in dict.fromkeys(re.findall(r"self\.(\w+)", source_of(cls.forward))) if hasattr(cls, "forward") else ():
        yield from ((told.format(name=name), lambda n=name, c=c: _own(cls, n, c)) for told, c in _OF_A_TENSOR)


def _of_a_function(function):
    first, *others = inspect.signature(function).parameters.values()
    for item in others:
        for told, change in _OF_A_NUMBER if isinstance(item.default, float) else _OF_A_TENSOR:
            yield told.format(name=item.name), lambda n=item.name, c=change: _asked(function, n, c)
    for axis in (0, 1, "all"):
        what = "the whole tensor is taken as one row" if axis == "all" else f"axis {axis} is taken as the last one"
        yield f"It is what comes out if {what}.", lambda axis=axis: _along(function, axis)


def slips(right):
    """Yield (what is told, a function that makes the answer) for each slip: what is asked otherwise, then its lines."""
    plain = getattr(right, "plain", right)
    again = in_float64 if plain is not right else lambda answer: answer
    for told, make in (_of_a_class if isinstance(plain, type) else _of_a_function)(plain):
        yield told, lambda make=make: again(make())
    for _, old, new, source in mutants(source_of(plain)):
        if max(len(old), len(new)) < 70 and "\n" not in old + new and not new.isidentifier():
            told = f"A right answer gives this if one of its steps reads `{new}`. Look at that step in yours."
            yield told, lambda source=source: again(made(plain, source, f"<{plain.__name__}, changed>"))

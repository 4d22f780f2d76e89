"""What a kept answer may consist of: imports of what computes, definitions and assignments.

It must import by itself in a new process, today and next year, and do nothing but define. So what leans on the screen,
the keyboard, a file or the notebook is refused, and so is a value that training has made. This is no sandbox: it tells
apart what can be kept and what cannot.
"""

import ast

from lessonkit.program import modules, needed

MODULES = set(
    "torch numpy numba onnx lessonkit fromscratch abc bisect cmath collections contextlib copy dataclasses decimal "
    "enum fractions functools heapq inspect itertools math numbers operator random re statistics string textwrap time "
    "types typing warnings weakref".split()
)
FUNCTIONS = {
    "open": "opens a file",
    "input": "asks for typed input",
    "display": "shows something in the notebook",
    "get_ipython": "uses a magic or a shell line",
    **dict.fromkeys(("exec", "eval", "compile", "globals", "__import__"), "makes names out of text"),
    **dict.fromkeys(("breakpoint", "exit", "quit"), "stops the kernel"),
}
FILES = {"loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap", "read_text", "write_text"}
FILES |= {"load", "save"}  # torch.load, numpy.save; self.load is a method like any other
TRAINERS = {"lessonkit.train", "lessonkit.runs", "torch.optim"}
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
VALUES = (ast.Assign, ast.AnnAssign, ast.AugAssign)
BLOCKS = {
    **dict.fromkeys((ast.For, ast.AsyncFor), "a for loop"),
    **dict.fromkeys((ast.With, ast.AsyncWith), "a with block"),
    ast.While: "a while loop",
}


def trouble(program):
    """Return why a program is none that can be kept, as the end of a sentence ("it opens a file"), None if it can."""
    bound = set().union(*(statement.binds for statement in program))
    for statement in program:
        troubles = (
            _of_another_kind(statement.node, statement.binds) or _imported(statement.node) or _in_code(statement.node)
        )
        if not troubles and isinstance(statement.node, VALUES):
            troubles = _trained(statement, program)
        for name in sorted((statement.now | statement.later) & FUNCTIONS.keys() - bound):
            troubles = troubles or f"it {FUNCTIONS[name]}, by {name}"
        if troubles:
            return troubles
    return None


def _of_another_kind(node, binds):
    """Look at what a statement is; what stands in an if or a try is at top level as well."""
    if isinstance(node, (*DEFINITIONS, *VALUES)):
        return None
    if isinstance(node, (ast.If, ast.Try)):
        handled = [inner for handler in getattr(node, "handlers", ()) for inner in handler.body]
        inside = [*node.body, *handled, *node.orelse, *getattr(node, "finalbody", ())]
        return next(filter(None, (_of_another_kind(inner, binds) for inner in inside)), None)
    source = BLOCKS.get(type(node), "a line of another kind")
    return f"{' and '.join(sorted(binds)) or 'something'} comes from {source}, not from a definition or an assignment"


def _imported(tree):
    for node in ast.walk(tree):
        imported = modules(node)
        for module in imported:
            if getattr(node, "level", 0) or module.partition(".")[0] not in MODULES:
                return f"it imports {module}, which is not among what only computes (torch, numpy, math …)"
        if imported and node.names[0].name == "*":
            return f"its import does not say which names of {imported[0]} it takes"
    return None


def _in_code(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FILES and not ast.unparse(node).startswith("self."):
            return f"it reads or writes a file, by {ast.unparse(node)}"
        if isinstance(node, ast.Global):
            return f"it changes {node.names[0]} for all, by a global statement"
    return None


def _trained(statement, program):
    """Look for training in what makes a value: it would be repeated at each import."""
    making = [statement]
    for name in statement.now:
        making += needed(program, name)[0]
    for node in (node for part in making for node in ast.walk(part.node)):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        asked = [f"{module}.{alias.name}" for module in modules(node) for alias in node.names]
        if called in ("backward", "step") or TRAINERS.intersection([*modules(node), *asked]):
            return f"{min(statement.binds)} was made by training"
    return None

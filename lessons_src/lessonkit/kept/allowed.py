"""What a kept answer may consist of: imports of what computes, definitions and assignments.

It must import by itself in a new process and do nothing but define. So what leans on the screen, the keyboard, a file
or the notebook is refused. This is no sandbox.
"""

import ast

from lessonkit.program import modules

MODULES = set(
    "torch numpy numba onnx lessonkit fromscratch abc bisect cmath collections contextlib copy dataclasses decimal "
    "enum fractions functools heapq inspect itertools math numbers operator random re statistics string textwrap time "
    "types typing warnings weakref".split()
)
FUNCTIONS = set("open input display get_ipython exec eval compile globals __import__ breakpoint exit quit".split())
FILES = set("loadtxt savetxt genfromtxt fromfile memmap read_text write_text load save".split())  # but for self.load
KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
KEPT += (ast.Assign, ast.AnnAssign, ast.AugAssign)


def trouble(program):
    """Return why a program cannot be kept, as the end of a sentence ("it uses open, ..."), None if it can."""
    return next((reason for statement in program for reason in _troubles(statement, program)), None)


def _troubles(statement, program):
    bound = set().union(*(other.binds for other in program))
    if _does_something(statement.node):
        names = " and ".join(sorted(statement.binds)) or "something"
        yield f"{names} comes from a loop, a with block or a call, not from a definition or an assignment"
    for node in ast.walk(statement.node):
        for module in modules(node):
            if getattr(node, "level", 0) or module.partition(".")[0] not in MODULES:
                yield f"it imports {module}, which is not among what only computes (torch, numpy, math …)"
            if node.names[0].name == "*":
                yield f"its import does not say which names of {module} it takes"
        if isinstance(node, ast.Attribute) and node.attr in FILES and not ast.unparse(node).startswith("self."):
            yield f"it uses {ast.unparse(node)}, which reads or writes a file"
        if isinstance(node, ast.Global):
            yield f"it changes {node.names[0]} for all, by a global statement"
    for name in sorted((statement.now | statement.later) & FUNCTIONS - bound):
        yield f"it uses {name}, which does more than compute"


def _does_something(node):
    """Return whether a statement, or one in its if or try, is no import, definition or assignment."""
    if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler)):
        inner = (ast.stmt, ast.ExceptHandler)
        return any(_does_something(child) for child in ast.iter_child_nodes(node) if isinstance(child, inner))
    return not isinstance(node, KEPT)

"""What a lesson's notebooks depend on, as one number: if it changes, they are built anew.

They depend on the lesson, its data files, the requirements, and those definitions in the course's own modules that
their code and the builder reach, from name to name: on no comment, docstring or layout, nor on what only a wrong answer
or a broken lesson is told.
"""

import ast
import functools
import hashlib
import re
from pathlib import PurePosixPath
from typing import NamedTuple

# Names of these packages may stand in any of several modules, which is loaded when a name is first asked for.
LAZY = {"fromscratch": "fromscratch/[a-z]*.py", "lessonkit.mine": "fromscratch/[a-z]*.py"}
LAZY["lessonkit.check"] = "lessons/*/checks.py"
# Functions that get words for wrong answers and for broken lessons; a declared check has them in its argument `wrong`.
UNSEEN = {"misconceptions", "Misconception", "reject", "fail"}
BUILDER = {("coursebuild.frame", "read"), ("coursebuild.editions", "build")}
IN_CODE = re.compile(r"\b_\w+|\w+(?=\()")  # names in a text that may be code: a check edits texts of right answers


class Part(NamedTuple):
    """A top-level statement. names: with which it is asked for; none if it counts as soon as its module is imported.

    asks: (module, name) of what it reads, the name "" for an import. strings: that may be names of files.
    """

    names: set
    asks: set
    strings: set
    text: str


class Module(NamedTuple):
    """A module's Parts, {name: the (module, name) that an import binds to it}, and the names that it defines."""

    parts: list
    imported: dict
    defines: set


def digest(lesson):
    """Return the SHA-256 of all that a lesson's notebooks depend on, the way on to the next lesson too."""
    whole = hashlib.sha256(lesson.cells[-1].source.encode())
    for path, content in sorted(depends(lesson).items()):
        whole.update(f"{path.relative_to(lesson.root).as_posix()}\0".encode() + content + b"\0")
    return whole.hexdigest()


def depends(lesson):
    """Return {path: what counts of it, as bytes} of all files that a lesson's notebooks depend on."""
    cells = _module("", "\n".join(cell.source for cell in lesson.code()))
    counts, strings = _reached(lesson.root, BUILDER.union(cells.imported.values(), *(c.asks for c in cells.parts)))
    strings = strings.union(lesson.records, *(cell.strings for cell in cells.parts))
    names = lambda path: {path.name, path.stem if path.parent.name == "runs" else path.name}  # a record has no suffix
    there = [path for path in (lesson.root / "data").rglob("*") if path.is_file() and names(path) & strings]
    whole = [lesson.file, lesson.root / "requirements.txt", *there]
    return {path: path.read_bytes() if path.exists() else b"missing" for path in whole} | {
        path: "\n".join(text for _, text in sorted(parts.items())).encode() for path, parts in counts.items()
    }


def _reached(root, waiting):
    """Return ({path of a module: {place of a statement that counts: its text}}, all strings in them).

    waiting: the (module, name) to begin with; what they read is reached from name to name.
    """
    modules, asked, counts, strings = functools.cache(lambda name: _course(root, name)), set(), {}, set()
    while waiting:
        name, what = waiting.pop()
        asked.add((name, what))
        path, module = modules(name)
        wanted = {(name.rpartition(".")[0], ""), (name, ""), module.imported.get(what, ("", ""))}
        wanted.add((f"{name}.{what}" if what else "", ""))  # what may be a module
        if name in LAZY and what and what not in module.defines | module.imported.keys():
            paths = [path.relative_to(root / "lessons_src") for path in (root / "lessons_src").glob(LAZY[name])]
            homes = [".".join(path.with_suffix("").parts) for path in paths]
            wanted |= {(home, what) for home in homes if what in modules(home)[1].defines}
        for at, part in enumerate(module.parts):
            if name != "fromscratch" and (what in part.names or not part.names):
                counts.setdefault(path, {})[at] = part.text
                wanted |= part.asks
                strings |= part.strings
        waiting |= wanted - asked
    return counts, strings


def _course(root, name):
    """Return (path, Module) of one of the course's own modules; of any other no path, and a Module without Parts."""
    base = root / "lessons_src" / name.replace(".", "/")
    path = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if name and path.exists()), None)
    return path, _module(name, path.read_text(encoding="utf-8") if path else "")


class _Shown(ast.NodeTransformer):
    """Take away what no notebook stores: docstrings and other loose texts, and the arguments of UNSEEN."""

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Call(self, node):
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "wrong"]
        if getattr(node.func, "attr", getattr(node.func, "id", "")) in UNSEEN:
            node.args, node.keywords = [], []
        return self.generic_visit(node)

    def visit_JoinedStr(self, node):  # Python 3.12 ends some f-strings with an empty text, others do not
        node.values = [part for part in node.values if getattr(part, "value", None) != ""]
        return self.generic_visit(node)


def shown(tree):
    """Return a program as text that is the same with every Python, without comments, docstrings and layout."""
    return _text(_Shown().visit(tree))


@functools.cache
def _module(name, text):
    tree, imported, defines = _Shown().visit(ast.parse(text)), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    for node in tree.body:
        targets = getattr(node, "targets", ())
        defines |= {getattr(node, "name", ""), *(getattr(target, "id", "") for target in targets)}
    known = {own: (name, own) for own in defines} | imported
    return Module([_part(node, known) for node in tree.body], imported, defines)


def _part(statement, known):
    """Return a statement's Part. known: {name: (module, name)} of what its module defines and imports."""
    asks, strings, nodes = set(), set(), list(ast.walk(statement))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):  # the course's own modules have no other import of each other
            asks |= {(node.module, ""), *((f"{node.module}.{alias.name}", "") for alias in node.names)}
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in known:
            asks.add((".".join(filter(None, known[node.value.id])), node.attr))
        elif isinstance(node, ast.Name) and node.id in known:
            asks.add(known[node.id])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(PurePosixPath(node.value).name)
            asks |= {known[word] for word in IN_CODE.findall(node.value) if word in known}
    names = {statement.name} if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else set()
    if isinstance(statement, ast.Assign) and not any(isinstance(node, ast.Call) for node in nodes):
        names = {getattr(target, "id", "") for target in statement.targets}
    always = getattr(statement, "decorator_list", ()) or any(own[:2] in ("", "__") for own in names - {"__all__"})
    return Part(set() if always else names, asks, strings, _text(statement))


def _text(node):
    """Return a node as text that is the same with every Python: ast.dump and ast.unparse change with its version."""
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (f"{name}={_text(value)}" for name, value in ast.iter_fields(node) if value not in (None, []))
    return f"{type(node).__name__}({', '.join(fields)})"

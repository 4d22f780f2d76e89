"""What a lesson's notebooks depend on, as one number: if it changes, they are built anew.

They depend on the lesson, its module of checks, what these import from the course, the data files that their code
reads, the part of coursebuild that makes notebooks, and the pinned requirements.
"""

import ast
import functools
import hashlib
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from coursebuild.syntax import modules, parse

HOUSE = {"lessonkit", "coursebuild"}  # packages that are followed file by file


class Reads(NamedTuple):
    """What code reads, as far as a walk through it shows."""

    imports: set  # (module, the names that are asked of it) for each import statement
    checks: set  # NAME of check.NAME
    data: set  # NAME of data.NAME, and names asked of lessonkit.data
    runs: set  # NAME of runs.load_or_run("NAME") and runs.note("NAME")
    names: set  # of each string the part after the last slash


def digest(lesson):
    """Return the SHA-256 of all that a lesson's notebooks depend on."""
    whole = hashlib.sha256()
    for path in sorted(depends(lesson)):
        content = path.read_bytes() if path.exists() else b"missing"
        whole.update(f"{path.relative_to(lesson.root).as_posix()}\0".encode() + content + b"\0")
    return whole.hexdigest()


def depends(lesson):
    """Return the paths of all files that a lesson's notebooks depend on."""
    root, files = lesson.root, set()
    code = _reads(node for cell in lesson.code() for node in parse(lesson, cell))
    checks = code.checks | {name for module, asked in code.imports if module == "lessonkit.check" for name in asked}
    functions = _functions(root)
    there = {path.name: path for path in sorted((root / "data").rglob("*")) if path.is_file()}
    waiting = {
        root / f"lessons_src/lessonkit/check/lessons/{lesson.module}.py",
        root / "lessons_src/coursebuild/editions.py",
        *_imported(code, root, checks),
    }
    found = _data_files(code, root, functions, there)
    while waiting:
        path = waiting.pop()
        files.add(path)
        if path.exists():
            read = _reads_of_text(path.read_text(encoding="utf-8"))
            waiting |= _imported(read, root, checks) - files
            if path.parent.name != "coursebuild" and path != _home_of_data(root):
                found |= _data_files(read, root, functions, there)
    return files | found | {lesson.path, root / "requirements.txt"}


@functools.cache
def _reads_of_text(text):
    return _reads(ast.parse(text).body)


def _reads(code):
    """Return the Reads of statements."""
    read = Reads(set(), set(), set(), set(), set())
    for node in (inner for outer in code for inner in ast.walk(outer)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            asked = tuple(alias.name for alias in node.names)
            read.imports.update((module, asked) for module in modules(node))
            if "lessonkit.data" in modules(node):
                read.data.update(asked)
        elif _is_of(node, "check"):
            read.checks.add(node.attr)
        elif _is_of(node, "data"):
            read.data.add(node.attr)
        elif isinstance(node, ast.Call) and _is_of(node.func, "runs") and node.args:
            name = getattr(node.args[0], "value", None)
            if node.func.attr in ("load_or_run", "note") and isinstance(name, str):
                read.runs.add(name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            read.names.add(PurePosixPath(node.value).name)
    return read


def _data_files(read, root, functions, there):
    """Return the files of data/ that code reads: by data.digits(), by runs.load_or_run("NAME"), or by their name.

    functions: {function of lessonkit.data: its file}. there: {name: path} of all files.
    """
    found = {root / "data" / functions[name] for name in read.data if name in functions}
    found |= {root / f"data/runs/{name}.json" for name in read.runs}
    return found | {there[name] for name in read.names if name in there}


def _functions(root):
    """Return {function of lessonkit.data: its file in data/}, from its constant FILES; read, not imported: no torch."""
    home = _home_of_data(root)
    for node in ast.parse(home.read_text(encoding="utf-8")).body if home.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILES":
            return ast.literal_eval(node.value)
    return {}


def _home_of_data(root):
    return root / "lessons_src/lessonkit/data.py"


def _is_of(node, name):
    """Whether a node is an attribute of the plain name, as in data.digits."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def _imported(read, root, checks):
    """Return the course's own modules that code imports: of lessonkit, with the checks that are used; of fromscratch.

    read: the code's Reads. checks: names of the checks that the lesson uses; lessonkit.check loads their modules by
    name.
    """
    found = set()
    for module, asked in read.imports:
        home = module.partition(".")[0]
        if home in HOUSE:
            parts = module.split(".")
            above = [".".join(parts[: n + 1]) for n in range(len(parts))]
            for place in [*above, *(f"{module}.{name}" for name in asked)]:
                base = root / "lessons_src" / place.replace(".", "/")
                found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()}
        if module == "lessonkit.check" or module == "lessonkit" and "check" in asked:
            found |= _defining(checks, root / "lessons_src/lessonkit/check/lessons")
        if home == "fromscratch" or module == "lessonkit.mine":  # not fromscratch's __init__: a table of all lessons
            found |= _defining(set(asked), root / "lessons_src/fromscratch")
    return found


def _defining(wanted, folder):
    """Return the modules of a folder that define one of the wanted names at top level."""
    return {
        path
        for path in folder.glob("*.py")
        if path.name != "__init__.py" and wanted & _defined(path.read_text(encoding="utf-8"))
    }


@functools.cache
def _defined(text):
    """Return the names that a module's text defines at top level."""
    return {a or b for a, b in re.findall(r"^(?:def|class) (\w+)|^(\w+) =", text, re.MULTILINE)}

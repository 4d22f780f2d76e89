"""What a lesson's notebooks depend on, as one number: if it changes, they are built anew.

They depend on the lesson, its module of checks, what these import from the course, the data files that their code
reads, the part of coursebuild that makes notebooks, and the pinned requirements.
"""

import ast
import hashlib
import re
from pathlib import PurePosixPath

from coursebuild.syntax import modules, parse

HOUSE = {"lessonkit", "coursebuild"}  # packages that are followed file by file


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
    code = [node for cell in lesson.code() for node in parse(lesson, cell)]
    checks = {node.attr for node in _walk(code) if _is_of(node, "check")}
    checks |= {name for node in _walk(code) if "lessonkit.check" in modules(node) for name in _asked(node)}
    waiting = {
        root / f"lessons_src/lessonkit/check/lessons/{lesson.module}.py",
        root / "lessons_src/coursebuild/editions.py",
        *_imported(code, root, checks),
    }
    while waiting:
        path = waiting.pop()
        files.add(path)
        if path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8")).body
            waiting |= _imported(tree, root, checks) - files
            if path.parent.name != "coursebuild" and path != _home_of_data(root):
                files |= data_files(tree, root)
    return files | data_files(code, root) | {lesson.path, root / "requirements.txt"}


def data_files(code, root):
    """Return the files of data/ that code reads: by data.digits(), by runs.load_or_run("NAME"), or by their name."""
    functions, found = _functions(root), set()
    there = {path.name: path for path in sorted((root / "data").rglob("*")) if path.is_file()}
    for node in _walk(code):
        names = [node.attr] if _is_of(node, "data") else []
        if "lessonkit.data" in modules(node):
            names += _asked(node)
        found |= {root / "data" / functions[name] for name in names if name in functions}
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("runs.load_or_run", "runs.note") and node.args:
            name = getattr(node.args[0], "value", None)
            found |= {root / f"data/runs/{name}.json"} if isinstance(name, str) else set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = PurePosixPath(node.value).name
            found |= {there[name]} if name in there else set()
    return found


def _functions(root):
    """Return {function of lessonkit.data: its file in data/}, from its constant FILES; read, not imported: no torch."""
    home = _home_of_data(root)
    for node in ast.parse(home.read_text(encoding="utf-8")).body if home.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILES":
            return ast.literal_eval(node.value)
    return {}


def _home_of_data(root):
    return root / "lessons_src/lessonkit/data.py"


def _walk(code):
    return [inner for node in code for inner in ast.walk(node)]


def _is_of(node, name):
    """Whether a node is an attribute of the plain name, as in data.digits."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def _asked(node):
    """Return the names that an import statement asks for."""
    return [alias.name for alias in node.names]


def _imported(code, root, checks):
    """Return the course's own modules that code imports: of lessonkit, with the checks that are used; of fromscratch.

    code: statements. checks: names of the checks that the lesson uses; lessonkit.check loads their modules by name.
    """
    found = set()
    for node in _walk(code):
        for module in modules(node):
            home, asked = module.partition(".")[0], _asked(node)
            if home in HOUSE:
                parts = module.split(".")
                above = [".".join(parts[: n + 1]) for n in range(len(parts))]
                for place in [*above, *(f"{module}.{name}" for name in asked)]:
                    base = root / "lessons_src" / place.replace(".", "/")
                    found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()}
            if module == "lessonkit.check" or module == "lessonkit" and "check" in asked:
                found |= _defining(checks, root / "lessons_src/lessonkit/check/lessons")
            if (
                home == "fromscratch" or module == "lessonkit.mine"
            ):  # not its __init__: a table of all lessons, made by coursebuild
                found |= _defining(set(asked), root / "lessons_src/fromscratch")
    return found


def _defining(wanted, folder):
    """Return the modules of a folder that define one of the wanted names at top level."""
    define = re.compile(r"^(?:def|class) (\w+)|^(\w+) =", re.MULTILINE)
    return {
        path
        for path in folder.glob("*.py")
        if path.name != "__init__.py" and wanted & {a or b for a, b in define.findall(path.read_text(encoding="utf-8"))}
    }

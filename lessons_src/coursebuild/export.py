"""The export cells of the lessons, as the package fromscratch: one module a lesson, called as the lesson."""

import ast
import builtins
import re

from coursebuild import manifest
from coursebuild.source import blank
from coursebuild.syntax import imports, modules, names, parse
from lessonkit.course import CARD

FOLDER = "lessons_src/fromscratch"
FORBIDDEN = re.compile(r"(matplotlib|lessonkit)\b")  # in export cells
DATA = "from lessonkit import data"  # allowed: a model's shipped weights are found from there
MINE = "from lessonkit.mine import "  # the learner's own layer in a lesson; fromscratch holds the course's


def exported(lesson):
    """Return (module text, {public name: line of its cell}) of a lesson's export cells; ("", {}) if it has none."""
    known = {
        name: (statement.replace(MINE, "from fromscratch import ", 1), line)
        for name, (statement, line) in imports(lesson).items()
    }
    home, wanted, body = {}, {}, []
    for cell in lesson.code("export"):
        for node in ast.walk(ast.Module(parse(lesson, cell), [])):
            for module in modules(node):
                if FORBIDDEN.match(module):
                    lesson.fail(cell.line, f"an export cell imports {module}. Do without: exports need torch only.")
        source = CARD.sub("", blank(lesson, cell)[1]).strip()
        body.append(source)
        read_here, bound_here = names(source)
        for name in read_here:
            wanted.setdefault(name, cell.line)
        for name in bound_here:
            home.setdefault(name, cell.line)
    needed = []
    for name, line in sorted(wanted.items()):
        if name in home or name not in known and hasattr(builtins, name):
            continue
        if name not in known:
            lesson.fail(
                line,
                f"the export cell reads {name!r}, which no import statement and no export cell of this "
                "lesson binds. Import it at the top of the lesson, or export it too.",
            )
        if FORBIDDEN.match(known[name][0].split()[1]) and known[name][0] != DATA:
            lesson.fail(
                line, f"the export cell reads {name!r} from '{known[name][0]}'. Do without: exports need torch only."
            )
        needed.append(known[name][0])
    if not body:
        return "", {}
    public = {name: home[name] for name in sorted(home) if not name.startswith("_")}
    head = (
        f'"""What lesson {int(lesson.number)} builds: {", ".join(public)}.\n\n'
        f'Made by coursebuild from lessons_src/lessons/{lesson.stem}/lesson.py: edit the lesson, not this file.\n"""'
    )
    top = "\n\n".join(filter(None, [head, "\n".join(sorted(needed))]))
    return "\n\n\n".join([top, *body]) + "\n", public


def package(course):
    """Return {file name: text} of the package fromscratch. A lesson that cannot be exported is stopped.

    A stopped lesson keeps the module that it has, and the names that the package has had from it: the other lessons
    build on them.
    """
    parts = {}  # {stem: (module text, {name: line})}
    for lesson in list(course.lessons):
        with course.stopping():
            parts[lesson.stem] = exported(lesson)
            for name, line in parts[lesson.stem][1].items():
                if name in {path.stem[3:] for path in course.paths}:
                    lesson.fail(line, f"{name!r} is what the module fromscratch.{name} is called. Rename the export.")
    first = {}
    for lesson in list(course.lessons):
        for name, line in parts[lesson.stem][1].items():
            with course.stopping():
                if name in first:
                    other, there = first[name]
                    lesson.fail(
                        line,
                        f"{name!r} is exported by lesson {other.number} already ({other.place(there)}). "
                        "Rename one of them.",
                        other,
                    )
                first[name] = lesson, line
    home = {name: stem for stem, (_, public) in parts.items() for name in public}
    home = {name: stem for name, stem in kept(course).items() if name not in home} | home
    answers = {(name, source.stem) for source in course.lessons for name in manifest.lesson(source).answers}
    answers |= kept(course).items()
    for lesson in list(course.lessons):
        with course.stopping():
            _check_imports(lesson, home, answers)
    good = {lesson.stem for lesson in course.lessons}
    home = kept(course) | {name: stem for stem in sorted(good) for name in parts[stem][1]}
    files = {f"{stem[3:]}.py": parts[stem][0] for stem in sorted(good) if parts[stem][0]}
    rows = sorted(home.items(), key=lambda item: item[::-1])
    table = "".join(f'    "{name}": "{stem[3:]}",\n' for name, stem in rows)
    files["__init__.py"] = (
        '"""What the course has built so far: its own solutions, not what a learner typed.\n\n'
        "Made by coursebuild from the lessons' export cells; a name is loaded when it is first asked for.\n"
        '"""\n\n'
        "import importlib\n\n"
        f"_HOME = {{\n{table}}}\n"
        "__all__ = sorted(_HOME)\n\n\n"
        "def __getattr__(name):\n"
        "    if name not in _HOME:\n"
        "        raise AttributeError(f\"fromscratch has no {name!r}; the lessons export: {', '.join(__all__)}\")\n"
        '    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)\n\n\n'
        "def __dir__():\n"
        "    return __all__\n"
    )
    return files


def _check_imports(lesson, home, answers):
    """Refuse what a lesson imports from fromscratch or lessonkit.mine in another form, or not from an earlier lesson.

    home: {name: stem of the lesson that exports it}. made: those of its items that an exercise makes, as pairs.
    """
    for statement, line in imports(lesson).values():
        imported = re.match(r"(?:import|from) (fromscratch|lessonkit\.mine)\b|from lessonkit import mine\b", statement)
        if imported is None:
            continue
        package = imported[1] or "lessonkit.mine"
        if not statement.startswith(f"from {package} import"):
            lesson.fail(line, f"'{statement}' hides what it uses. Write 'from {package} import' and the names.")
        name = statement.split()[3]
        if name not in home:
            lesson.fail(line, f"no lesson exports {name!r}. Correct the name, or export it in an earlier lesson.")
        if home[name][:2] >= lesson.number:
            lesson.fail(
                line,
                f"{name!r} is exported by lesson {home[name][:2]}, which is not an earlier one. "
                "Define it here, or export it earlier.",
            )
        if package == "lessonkit.mine" and (name, home[name]) not in answers:
            lesson.fail(line, f"no exercise makes {name!r}, so no learner has one. Import it from fromscratch.")


def kept(course):
    """Return {name: stem} of what stopped lessons exported when they were last whole, from the package as it is."""
    path, home = course.root / FOLDER / "__init__.py", {}
    try:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
                home = ast.literal_eval(node.value)
    except (OSError, SyntaxError, ValueError):  # no package yet, or one edited by hand: it is written anew
        return {}
    stems = {stem[3:]: stem for stem in reversed(course.stopped)}  # of two with one name, the first
    return {name: stems[module] for name, module in home.items() if module in stems}

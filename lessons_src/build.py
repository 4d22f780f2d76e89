"""Build the course: lessons_src/lessons/NN_name.py -> two editions of notebooks, and the package fromscratch.

    python lessons_src/build.py            build what changed
    python lessons_src/build.py 02 03      build these lessons, changed or not
    python lessons_src/build.py --check    say what is stale, without starting a kernel
    python lessons_src/build.py --runs     record anew the longer training runs (data/runs); with names: only these

One way only: nothing is ever read back from a notebook. The same source gives the same bytes on one machine.
"""

import argparse
import ast
import builtins
import hashlib
import json
import os
import re
import subprocess
import symtable
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[1]
TAGS = {"exercise", "check", "export", "optional", "timed", "raises-exception", "nbval-ignore-output", "hide-input"}
BEGIN = {"code": re.compile(r"( *)### BEGIN SOLUTION"), "markdown": re.compile(r"( *)<!-- BEGIN SOLUTION -->")}
END = {"code": re.compile(r"( *)### END SOLUTION"), "markdown": re.compile(r"( *)<!-- END SOLUTION -->")}
EXERCISE = re.compile(r"^# Exercise (\d+\.\d+) · [●○]{5} · \d+ min$", re.MULTILINE)
FORBIDDEN = re.compile(r"(matplotlib|lessonkit)\b")  # in export cells
CELL = re.compile(r'# %%(?P<markdown> \[markdown\])?( tags=\[(?P<tags>"[^"]*"(, "[^"]*")*)\])?( id="(?P<id>[^"]*)")?')
UPWARDS = re.compile(r"""(\]\(<?|^ *\[[^]]+\]: *<?|\b(?:href|src)=["'])\.\./""", re.MULTILINE)  # a link in Markdown
MISSPELT = re.compile(r"(?<![a-z])(begin|end)[\s_-]*solution|^\s*(###|<!--)\s*(begin|end)\b", re.IGNORECASE)
WIDGET = "application/vnd.jupyter.widget-view+json"
BUDGET = {"lesson": 30, "cell": 10, "training lesson": 90, "training cell": 30, "first output": 4}  # seconds
TRAINING = ("09", "10", "11")
TIMEOUT = 600  # seconds a cell may take before the build gives up


class LessonError(Exception):
    """A lesson that cannot be built: where it is wrong, what was expected, and the way out."""


@dataclass
class Cell:
    """One cell of a lesson's source. line: where it starts in the file, counted from 1."""

    type: str
    source: str
    tags: list
    id: str
    line: int


@dataclass
class Lesson:
    """One source file. root: the folder that holds lessons_src, notebooks and data."""

    path: Path
    cells: list

    @property
    def stem(self):
        return self.path.stem

    @property
    def number(self):
        return self.stem[:2]

    @property
    def root(self):
        return self.path.parents[2]

    def fail(self, line, message):
        raise LessonError(f"{self.path.relative_to(self.root)}:{line}: {message}")

    def code(self, tag=None):
        return [cell for cell in self.cells if cell.type == "code" and (tag is None or tag in cell.tags)]


# ---------------------------------------------------------------------------------------------------- reading


def read(path):
    """Read one lesson and refuse what would build a wrong notebook: unknown tags, bad marks, duplicate ids."""
    text = path.read_text(encoding="utf-8")
    lesson, lines = Lesson(path, []), text.split("\n")
    starts = [number for number, line in enumerate(lines, 1) if re.match(r"#\s*%%", line)]
    for number, line in enumerate(lines, 1):
        if re.match(r"\s+# %%", line):
            lesson.fail(number, "an indented '# %%' would split the cell here. Move it to the start of the line.")
        if number in starts:
            _options(lesson, number, line.rstrip())
    if starts[:1] != [1]:
        lesson.fail(1, "a lesson starts with '# %% [markdown]' on its first line. Remove what stands before it.")
    notebook = jupytext.reads(text, fmt="py:percent")
    if len(notebook.cells) != len(starts):
        lesson.fail(
            1,
            f"{len(starts)} '# %%' lines, but jupytext sees {len(notebook.cells)} cells. "
            "Look for a '# %%' inside a string, or for '# In[1]:'.",
        )
    seen = {}
    for raw, line in zip(notebook.cells, starts, strict=True):
        cell = _cell(lesson, raw, line)
        if cell.id in seen:
            lesson.fail(line, f"the id {cell.id!r} is taken by the cell at line {seen[cell.id]}. Give it another one.")
        seen[cell.id] = line
        lesson.cells.append(cell)
        blank(lesson, cell)  # refuses malformed marks
    title = f"# {int(lesson.number)} · "
    if not lesson.cells[0].type == "markdown" or not lesson.cells[0].source.startswith(title):
        lesson.fail(1, f"the first cell is Markdown and starts with the title. Write '{title}...' there.")
    return lesson


def _options(lesson, number, line):
    """Refuse a line that begins a cell and is not in our form, or has wrong tags or a wrong id."""
    found = CELL.fullmatch(line)
    if not found:
        lesson.fail(
            number,
            f"{line!r} is not how a cell begins. Write '# %%' or '# %% [markdown]' and, where they are "
            'needed, tags=["check"] and then id="ex-3-1".',
        )
    tags = re.findall('"([^"]*)"', found["tags"] or "")
    for tag in tags:
        if tag not in TAGS:
            lesson.fail(number, f"unknown tag {tag!r}, expected one of {', '.join(sorted(TAGS))}.")
    if len(set(tags)) < len(tags):
        lesson.fail(number, f"a tag stands twice in {tags}. Name each tag once.")
    if found["markdown"] and set(tags) & {"exercise", "check", "export", "timed", "raises-exception"}:
        lesson.fail(number, f"the tags {tags} belong to code cells, this one is Markdown. Remove them.")
    if found["id"] is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found["id"]):
        lesson.fail(number, f"the id {found['id']!r} is not one to 64 letters, digits, '-' and '_'. Rename it.")


def _cell(lesson, raw, line):
    source, tags, given = raw.source.rstrip("\n"), raw.metadata.get("tags", []), raw.metadata.get("id")
    if not source.strip():
        lesson.fail(line, "an empty cell. Fill it or remove it.")
    if re.search(r"^\s*#+\s*(NBVAL|PYTEST_VALIDATE)_", source, re.MULTILINE):
        lesson.fail(line, "a comment that steers nbval past the rules for tags. Remove it, or use a tag.")
    if "exercise" in tags and not EXERCISE.search(source):
        lesson.fail(line, "an exercise without its card. Add it on a line: '# Exercise 3.1 · ●●○○○ · 5 min'.")
    digest = hashlib.sha256("\0".join([lesson.stem, raw.cell_type, source]).encode()).hexdigest()[:10]
    repeats = sum(cell.id == digest or cell.id.startswith(digest + "-") for cell in lesson.cells)
    return Cell(raw.cell_type, source, list(tags), given or (f"{digest}-{repeats + 1}" if repeats else digest), line)


def blank(lesson, cell):
    """Return (learner's source, solutions' source) of a cell: marked regions replaced, or only the marks removed."""
    learner, solution, region = [], [], None
    begin, end = BEGIN[cell.type], END[cell.type]
    for number, line in enumerate(cell.source.splitlines(), cell.line + 1):
        opening, closing = begin.fullmatch(line.rstrip()), end.fullmatch(line.rstrip())
        if opening:
            if region:
                lesson.fail(number, f"BEGIN SOLUTION inside the solution that begins at line {region[1]}. End that.")
            region = (opening[1], number, len(solution))
        elif closing:
            if not region:
                lesson.fail(number, "END SOLUTION without a BEGIN SOLUTION before it. Add it, or remove this line.")
            if closing[1] != region[0]:
                lesson.fail(number, f"END SOLUTION is indented unlike BEGIN SOLUTION at line {region[1]}. Align it.")
            learner.append(_turn(cell, opening=region[0], answer=solution[region[2] :]))
            region = None
        elif MISSPELT.search(line):
            form = "### BEGIN SOLUTION" if cell.type == "code" else "<!-- BEGIN SOLUTION -->"
            lesson.fail(number, f"a malformed mark: {line.strip()!r}. Write it alone on its line, as '{form}'.")
        else:
            solution.append(line)
            if not region:
                learner.append(line)
    if region:
        lesson.fail(region[1], "BEGIN SOLUTION is never closed. Add END SOLUTION with the same indentation.")
    marked = len(solution) != len(cell.source.splitlines())
    if marked and cell.type == "code" and "exercise" not in cell.tags:
        lesson.fail(cell.line, 'a solution stands between marks, but the cell has no tag. Add tags=["exercise"].')
    if "exercise" in cell.tags and not marked:
        lesson.fail(cell.line, "an exercise without a solution. Put ### BEGIN SOLUTION and ### END SOLUTION round it.")
    return "\n".join(learner), "\n".join(solution)


def _turn(cell, opening, answer):
    """Return what stands in the learner edition for a region; it says which names an answer at top level binds."""
    if cell.type == "markdown":
        return f"{opening}*Your answer:*"
    number = EXERCISE.search(cell.source)
    bound = [] if opening else list(dict.fromkeys(re.findall(r"^(\w+) = ", "\n".join(answer), re.MULTILINE)))
    wanted = f": {', '.join(f'{name} = ...' for name in bound)}" if bound else ""
    return f'{opening}raise check.YourTurn("{number[1]}: replace this line by your answer{wanted}")' if number else ""


# -------------------------------------------------------------------------------------------------- exporting


def names(code):
    """Return (names read from outside, names bound at top level) by a piece of code, without running it."""
    top = symtable.symtable(code, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read = set()

    def visit(table):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                read.add(symbol.get_name())
        for child in table.get_children():
            visit(child)

    visit(top)
    return read - bound - {"__class__"}, bound


def imports(lesson):
    """Return {name: (import statement that binds just it, its line)} of a lesson's top-level imports."""
    found = {}
    for cell in lesson.code():
        for node in _parse(lesson, cell):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                plain = isinstance(node, ast.Import)
                for alias in node.names:
                    one = ast.Import([alias]) if plain else ast.ImportFrom(node.module, [alias], 0)
                    name = (alias.asname or alias.name).partition(".")[0]
                    found[name] = ast.unparse(one), cell.line + node.lineno
    return found


def _parse(lesson, cell):
    try:
        return ast.parse(cell.source).body
    except SyntaxError as error:
        lesson.fail(
            cell.line + (error.lineno or 1),
            f"Python cannot read this line: {error.msg}. Mend it; %magics and !commands have no place in a lesson.",
        )


def exported(lesson):
    """Return (module text, {public name: line of its cell}) of a lesson's export cells; ("", {}) if it has none."""
    known, home, wanted, body = imports(lesson), {}, {}, []
    for cell in lesson.code("export"):
        for node in ast.walk(ast.Module(_parse(lesson, cell), [])):
            for module in _modules(node):
                if FORBIDDEN.match(module):
                    lesson.fail(cell.line, f"an export cell imports {module}. Do without: exports need torch only.")
        source = EXERCISE.sub("", blank(lesson, cell)[1]).strip()
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
        if FORBIDDEN.match(known[name][0].split()[1]):
            lesson.fail(
                line, f"the export cell reads {name!r} from '{known[name][0]}'. Do without: exports need torch only."
            )
        needed.append(known[name][0])
    if not body:
        return "", {}
    public = {name: home[name] for name in sorted(home) if not name.startswith("_")}
    groups = [
        sorted(line for line in needed if (line.split()[1].partition(".")[0] in kind) == keep)
        for kind, keep in ((sys.stdlib_module_names, True), (sys.stdlib_module_names, False))
    ]
    head = (
        f'"""What lesson {int(lesson.number)} builds: {", ".join(public)}.\n\n'
        f'Made by build.py from lessons_src/lessons/{lesson.path.name}: edit the lesson, not this file.\n"""'
    )
    top = "\n\n".join([head, *("\n".join(group) for group in groups if group)])
    return "\n\n\n".join([top, *body]) + "\n", public


def _modules(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def package(lessons):
    """Return {file name: text} of the whole package fromscratch."""
    files, home = {}, {}
    for lesson in lessons:
        text, public = exported(lesson)
        for name, line in public.items():
            if name in home:
                lesson.fail(line, f"{name!r} is exported by lesson {home[name][-2:]} already. Rename one of them.")
            home[name] = f"lesson_{lesson.number}"
        if text:
            files[f"lesson_{lesson.number}.py"] = text
    for lesson in lessons:
        for statement, line in imports(lesson).values():
            if re.match(r"(import|from) fromscratch\b", statement) is None:
                continue
            if not statement.startswith("from fromscratch import"):
                lesson.fail(line, f"'{statement}' hides what it uses. Write 'from fromscratch import' and the names.")
            name = statement.split()[3]
            if name not in home:
                lesson.fail(line, f"no lesson exports {name!r}. Correct the name, or export it in an earlier lesson.")
            if home[name][-2:] >= lesson.number:
                lesson.fail(
                    line,
                    f"{name!r} is exported by lesson {home[name][-2:]}, which is not an earlier one. "
                    "Define it here, or export it earlier.",
                )
    rows = sorted(home.items(), key=lambda item: item[::-1])
    table = "".join(f'    "{name}": "{module}",\n' for name, module in rows)
    files["__init__.py"] = (
        '"""What the course has built so far: its own solutions, not what a learner typed.\n\n'
        "Made by build.py from the lessons' export cells; a name is loaded when it is first asked for.\n"
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


# ----------------------------------------------------------------------------------------------------- digest


def digest(lesson):
    """Return the SHA-256 of all that a lesson's notebooks depend on."""
    root, text = lesson.root, lesson.path.read_text(encoding="utf-8")
    files = {root / "lessons_src/build.py", root / "requirements.txt"}
    waiting = {lesson.path, root / f"lessons_src/lessonkit/check/lesson_{lesson.number}.py"}
    while waiting:
        path = waiting.pop()
        files.add(path)
        if path.exists():
            waiting |= _reached(path, root, text) - files
    for path in (root / "data").rglob("*"):  # digits.npz serves digits_split() as well; runs/NAME.json its "NAME"
        name = re.escape(path.name.partition(".")[0])
        if path.is_file() and path.suffix != ".md" and re.search(rf"\b{name}(?![A-Za-z])", text):
            files.add(path)
    whole = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes() if path.exists() else b"missing"
        whole.update(f"{path.relative_to(root).as_posix()}\0".encode() + content + b"\0")
    return whole.hexdigest()


def _reached(path, root, lesson_text):
    """Return the course's own modules that a file imports (lessonkit, its checks that the lesson uses, fromscratch)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for module in _modules(node):
            home, asked = module.partition(".")[0], {alias.name for alias in node.names}
            if home == "lessonkit":
                for place in [home, module, *(f"{module}.{name}" for name in asked)]:
                    base = root / "lessons_src" / place.replace(".", "/")
                    found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()}
            if module == "lessonkit" and "check" in asked:  # its __init__ loads the others by name
                used = set(re.findall(r"\bcheck\.([a-z]\w*)", lesson_text))
                found |= _defining(used, root / "lessons_src/lessonkit/check")
            if home == "fromscratch":  # not its __init__: a table of all lessons, made by build.py
                found |= _defining(asked, root / "lessons_src/fromscratch")
    return found


def _defining(wanted, folder):
    """Return the modules lesson_NN.py of a folder that define one of the wanted names at top level."""
    define = re.compile(r"^(?:def|class) (\w+)|^(\w+) =", re.MULTILINE)
    return {
        path
        for path in folder.glob("lesson_*.py")
        if wanted & {a or b for a, b in define.findall(path.read_text(encoding="utf-8"))}
    }


# ---------------------------------------------------------------------------------------------------- notebooks


def notebook(lesson, edition):
    """Return the un-run notebook of an edition, "learner" or "solutions"."""
    cells = []
    for cell in lesson.cells:
        learner, solution = blank(lesson, cell)
        source = learner if edition == "learner" else solution
        if cell.type == "markdown" and edition == "solutions":  # one folder deeper
            source = UPWARDS.sub(r"\1../../", source)
        tags = list(cell.tags)
        if "timed" in tags and "nbval-ignore-output" not in tags:
            tags.append("nbval-ignore-output")
        make = nbformat.v4.new_code_cell if cell.type == "code" else nbformat.v4.new_markdown_cell
        cells.append(make(source, id=cell.id, metadata={"tags": tags} if tags else {}))
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return made


def execute(lesson, made, folder):
    """Run a notebook in place, errors included. Return {index of a code cell: its seconds}."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    config = Config()
    seconds, started = {}, {}
    with tempfile.TemporaryDirectory() as sockets:
        if os.name == "posix":  # keeps the kernel's warning about TCP out of the log
            config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{sockets}/kernel"
        client = NotebookClient(
            made,
            timeout=TIMEOUT,
            kernel_name="python3",
            allow_errors=True,
            record_timing=False,
            coalesce_streams=True,
            store_widget_state=False,
            resources={"metadata": {"path": str(folder)}},
            config=config,
            on_cell_start=lambda cell, cell_index: started.update({cell_index: time.perf_counter()}),
            on_cell_executed=lambda cell, cell_index, execute_reply: seconds.update(
                {cell_index: time.perf_counter() - started[cell_index]}
            ),
        )
        try:
            client.execute(env=environment(lesson.root))
        except CellTimeoutError:
            lesson.fail(lesson.cells[max(started)].line, f"the cell ran for more than {TIMEOUT} s. Make it smaller.")
        except DeadKernelError:
            lesson.fail(
                lesson.cells[max(started)].line, "the kernel died in this cell. Look for an exit, or too much memory."
            )
    return seconds


def environment(root):
    """Return the environment of a process that uses this course's own lessonkit and fromscratch."""
    path = [str(root / "lessons_src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def errors(cell):
    return [(out.ename, out.evalue) for out in cell.get("outputs", []) if out.output_type == "error"]


def _place(cell, source):
    """Return the line of the source at which a run solutions cell raised, as far as its traceback tells."""
    shown = "\n".join(line for out in cell.outputs if out.output_type == "error" for line in out.traceback)
    found = re.search(r"Cell In\[\d+\], line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", shown))
    kept = [
        number
        for number, line in enumerate(source.source.splitlines(), source.line + 1)
        if not BEGIN["code"].fullmatch(line.rstrip()) and not END["code"].fullmatch(line.rstrip())
    ]
    return kept[int(found[1]) - 1] if found and int(found[1]) <= len(kept) else source.line


def _clean(lesson, cell, source):
    """Make the outputs of a run cell reproducible; refuse those that cannot be."""
    tags = cell.metadata.get("tags", [])
    kept = []
    for out in cell.outputs:
        data = out.get("data", {})
        if out.output_type == "stream" and out.name == "stderr":
            lesson.fail(source.line, f"the cell writes to stderr: {out.text.strip()[:300]!r}. Mend its cause.")
        if re.search(r"\d%\||\dit \[", data.get("text/plain", "")) and "nbval-ignore-output" not in tags:
            lesson.fail(
                source.line,
                "the cell shows a progress bar. Add the tag nbval-ignore-output: then none of it is stored.",
            )
        if WIDGET in data:
            if "nbval-ignore-output" in tags:
                continue  # a progress bar: its stored text would stay at 0 %
            del data[WIDGET]
        if out.output_type == "error":
            out["traceback"] = [f"{out.ename}: {out.evalue}"]
        out.get("metadata", {}).pop("execution", None)
        shown = [out.get("text", ""), out.get("evalue", ""), *(data[kind] for kind in data if "image" not in kind)]
        if re.search(r"\b0x[0-9a-f]{6,}", json.dumps(shown)) and "nbval-ignore-output" not in tags:
            lesson.fail(
                source.line, "the output holds a memory address, which differs in every run. Show something else."
            )
        alt = out.get("metadata", {}).get("image/png", {}).get("alt")
        if alt:  # for the web site, where the text must stand among the cell's options
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
        kept.append(out)
    cell.outputs = [] if "timed" in tags else kept
    cell.metadata.pop("execution", None)


def build(lesson, say=print):
    """Build both editions of one lesson. Nothing is written unless both are right."""
    paths = {edition: target(lesson, edition) for edition in ("solutions", "learner")}
    for path in paths.values():
        refuse_edited(path, lesson.root)
    folder = lesson.root / "notebooks"
    folder.mkdir(exist_ok=True)

    solutions, start = notebook(lesson, "solutions"), time.perf_counter()
    seconds = execute(lesson, solutions, folder)
    total = time.perf_counter() - start
    for cell, source in zip(solutions.cells, lesson.cells, strict=True):
        if source.type != "code":
            continue
        raised = errors(cell)
        if raised and "raises-exception" not in source.tags:
            lesson.fail(_place(cell, source), f"the cell raises {raised[0][0]}: {raised[0][1][:800]}")
        if not raised and "raises-exception" in source.tags:
            lesson.fail(source.line, "the cell is tagged raises-exception and does not raise. Remove the tag.")
        _clean(lesson, cell, source)

    learner = notebook(lesson, "learner")
    execute(lesson, learner, folder)
    for cell, twin, source in zip(learner.cells, solutions.cells, lesson.cells, strict=True):
        if source.type != "code":
            continue
        raised = errors(cell)
        if raised and raised[0][0] != "YourTurn" and raised != errors(twin):
            what = f"{raised[0][0]}: {raised[0][1][:300]}"
            lesson.fail(
                source.line,
                f"in the untouched learner edition the cell raises {what}. Only 'your turn' "
                "may show: let it depend on the blank through a plain name.",
            )
        _clean(lesson, cell, source)
        tags = cell.metadata.get("tags", [])
        if (raised or {"exercise", "check"} & set(tags)) and "raises-exception" not in tags:
            cell.metadata["tags"] = [*tags, "raises-exception"]
        cell.metadata.pop("mystnb", None)
        cell.outputs, cell.execution_count = [], None

    whole, texts = digest(lesson), {}
    for edition, made in (("solutions", solutions), ("learner", learner)):
        made.metadata["lesson"] = {
            "source": lesson.path.relative_to(lesson.root).as_posix(),
            "digest": whole,
            "cells": fingerprint(made),
        }
        made.metadata["language_info"] = {"name": "python"}
        nbformat.validate(made)
        texts[edition] = json.dumps(made, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    for edition, text in texts.items():
        paths[edition].parent.mkdir(exist_ok=True)
        paths[edition].write_text(text, encoding="utf-8", newline="\n")
    _report(lesson, seconds, total, solutions, say)


def _report(lesson, seconds, total, made, say):
    slowest = max(seconds, key=seconds.get)
    first = next((sum(seconds[j] for j in seconds if j <= i) for i, c in enumerate(made.cells) if c.get("outputs")), 0)
    training = "training " if lesson.number in TRAINING else ""
    line = f"{lesson.stem}: {total:.1f} s, slowest cell {seconds[slowest]:.1f} s, first output after {first:.1f} s"
    for value, limit in (
        (total, BUDGET[f"{training}lesson"]),
        (seconds[slowest], BUDGET[f"{training}cell"]),
        (first, BUDGET["first output"]),
    ):
        line += f"  OVER BUDGET ({value:.1f} > {limit} s)" if value > limit else ""
    say(line)


def target(lesson, edition):
    folder = lesson.root / "notebooks"
    return (folder / "solutions" if edition == "solutions" else folder) / f"{lesson.stem}.ipynb"


def fingerprint(made):
    """Return the SHA-256 of a notebook's cells: type and text, not tags and outputs."""
    return hashlib.sha256(json.dumps([[c["cell_type"], _text(c)] for c in made["cells"]]).encode()).hexdigest()


def _text(cell):
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def refuse_edited(path, root):
    """Refuse to overwrite a notebook whose cells are not those that were written here."""
    if not path.exists():
        return
    name = path.relative_to(root).as_posix()
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        mine = old["metadata"]["lesson"]["cells"] == fingerprint(old)
    except (ValueError, KeyError, TypeError):
        mine = False
    if not mine:
        raise LessonError(
            f"{name}: its cells are not those that build.py wrote, so it is not overwritten. To keep them: "
            f"mkdir -p work && cp {name} work/mine_{path.name}. Then delete {name} and build again. "
            "A lesson is changed in lessons_src/lessons."
        )


# ---------------------------------------------------------------------------------------------------- staleness


def stale(root, lessons):
    """Return what is not as a build would leave it, a line each. Starts no kernel."""
    found = []
    made = package(lessons)
    here = root / "lessons_src/fromscratch"
    for name in sorted({*made, *(p.name for p in here.glob("*.py"))}):
        path = here / name
        if name not in made:
            found.append(f"lessons_src/fromscratch/{name}: no lesson makes it, delete it")
        elif not path.exists() or path.read_text(encoding="utf-8") != made[name]:
            found.append(f"lessons_src/fromscratch/{name}: is not what the lessons export")
    expected = set()
    for lesson in lessons:
        whole = digest(lesson)
        for edition in ("learner", "solutions"):
            path = target(lesson, edition)
            expected.add(path)
            reason = _reason(lesson, edition, whole)
            if reason:
                found.append(f"{path.relative_to(root).as_posix()}: {reason}")
    for path in sorted((root / "notebooks").rglob("*.ipynb")):
        if path not in expected and ".ipynb_checkpoints" not in path.parts:
            found.append(f"{path.relative_to(root).as_posix()}: no lesson makes it, delete it")
    return found


def _reason(lesson, edition, whole):
    """Return why a notebook is not as a build would leave it, None if it is. whole: the lesson's digest."""
    path = target(lesson, edition)
    if not path.exists():
        return "is missing"
    raises = {"raises-exception"} if edition == "learner" else set()  # which cells have it there, only a run can tell
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        is_ = [(c["id"], c["cell_type"], _text(c), set(c["metadata"].get("tags", ())) - raises) for c in old["cells"]]
        run = any(c.get("outputs") or c.get("execution_count") for c in old["cells"])
        mark = old["metadata"]["lesson"]["digest"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "was not made by build.py"
    should = [
        (c.id, c.cell_type, c.source, set(c.metadata.get("tags", ())) - raises) for c in notebook(lesson, edition).cells
    ]
    if is_ != should:
        return f"its cells are not those of {lesson.path.name}"
    if run and edition == "learner":
        return "has been run, and the learner edition is stored without outputs"
    return None if mark == whole else f"something that {lesson.path.name} depends on has changed"


def changed(lesson):
    """Whether a notebook of this lesson is not as a build would leave it."""
    whole = digest(lesson)
    return any(_reason(lesson, edition, whole) for edition in ("learner", "solutions"))


# ------------------------------------------------------------------------------------------------ recorded runs


def recorded(lesson):
    """Return (names of a lesson's records, the part of the lesson that makes them as a script); ([], "") without any.

    That part is: import, def and class statements, assignments of literals, of data.NAME(...) and of names that such
    assignments bind, and every statement that calls runs.load_or_run.
    """
    kept, records, known = [], [], {"data", "range"}
    for cell in lesson.code():
        for node in _parse(lesson, cell):
            called = [(ast.unparse(call.func), call) for call in ast.walk(node) if isinstance(call, ast.Call)]
            loads = [call for name, call in called if name.endswith("load_or_run")]
            for name, call in called:
                if name.endswith("load_or_run") and name != "runs.load_or_run":
                    lesson.fail(cell.line + call.lineno, f"the call of {name}. Import runs and write runs.load_or_run.")
            for call in loads:
                if not call.args or not isinstance(getattr(call.args[0], "value", None), str):
                    lesson.fail(
                        cell.line + call.lineno,
                        "runs.load_or_run gets its name from an expression. Write the "
                        "name there, in quotes: others look for it.",
                    )
                records.append(call.args[0].value)
            plain = isinstance(node, ast.Assign) and all(name.startswith(("data.", "range")) for name, _ in called)
            plain = plain and {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} <= known
            places = [n for target in getattr(node, "targets", ()) for n in ast.walk(target)]
            plain = plain and not any(isinstance(n, (ast.Subscript, ast.Attribute)) for n in places)  # no k[0] = 5
            if plain:
                known |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            if loads or plain or isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
                kept.append(ast.unparse(node))
    return (records, "\n".join(kept) + "\n") if records else ([], "")


def record(lessons, only, mode="record"):
    """Run what lessons record: mode "record" writes data/runs, "verify" re-runs one seed of each and compares.

    only: names of records; if empty, all.
    """
    parts = [(lesson, *recorded(lesson)) for lesson in lessons]
    known = [name for _, names, _ in parts for name in names]
    for name in only:
        if name not in known:
            raise LessonError(f"no lesson records {name!r}. There are: {', '.join(sorted(known)) or 'none'}.")
    for lesson, names, script in parts:
        if set(names) & set(only or names):
            env = environment(lesson.root) | {"LESSON_RUNS": mode, "LESSON_RUNS_ONLY": ",".join(only)}
            done = subprocess.run([sys.executable, "-c", script], cwd=lesson.root, env=env)
            if done.returncode:
                raise LessonError(f"{lesson.path.relative_to(lesson.root)}: its recorded runs failed, see above.")


# -------------------------------------------------------------------------------------------------------- main


def everything(root=ROOT):
    """Return all lessons, read and checked, in order."""
    lessons = [read(path) for path in sorted((root / "lessons_src/lessons").glob("*.py"))]
    for before, lesson in zip([None, *lessons], lessons, strict=False):
        if not re.fullmatch(r"\d\d_[a-z0-9_]+", lesson.stem):
            lesson.fail(1, "a lesson's file is called like 02_statistics.py. Rename it.")
        if before and before.number == lesson.number:
            lesson.fail(1, f"{before.path.name} has the number {lesson.number} already. Rename one of them.")
    return lessons


def export(root, lessons):
    """Write the package fromscratch; files that would not change are left alone, those no lesson makes are removed."""
    made, folder = package(lessons), root / "lessons_src/fromscratch"
    folder.mkdir(exist_ok=True)
    for path in set(folder.glob("lesson_*.py")) - {folder / name for name in made}:
        path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="lessons (02, 02_statistics), or records with --runs")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--runs", action="store_true", help="record the longer training runs anew")
    options = parser.parse_args(arguments)
    try:
        lessons = everything(root)
        if options.runs:
            record(lessons, options.names)
            return 0
        if options.check:
            found = stale(root, lessons)
            print(*(found or ["all notebooks are as their sources say"]), sep="\n")
            if found:
                print("Run `make notebooks` and commit what it changes.", file=sys.stderr)
            return bool(found)
        export(root, lessons)
        chosen = [lesson for lesson in lessons if lesson.number in options.names or lesson.stem in options.names]
        unknown = set(options.names) - {x for lesson in chosen for x in (lesson.number, lesson.stem)}
        if unknown:
            there = ", ".join(lesson.stem for lesson in lessons)
            raise LessonError(f"no lesson is called {sorted(unknown)[0]!r}. There are {there}.")
        for lesson in chosen if options.names else filter(changed, lessons):
            build(lesson)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

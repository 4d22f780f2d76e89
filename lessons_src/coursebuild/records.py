"""Recorded runs: the cells tagged record make data/runs/NAME.json when `make runs` executes them, and only then.

A lesson loads its records with runs.load_or_run, which says in lessonkit/runs.py how a record is made and compared.
"""

import ast
import builtins
import subprocess
import sys

from coursebuild.source import LessonError, environment, parse
from lessonkit.program import names

# Read the script from stdin and compile it under the name of the lesson: a traceback then shows the lesson's own lines.
RUNNER = "import sys; exec(compile(sys.stdin.buffer.read(), sys.argv[1], 'exec'))"


def recorded(lesson):
    """Return (names of a lesson's records, its cells tagged record as a script); ([], "") if it records nothing.

    The script has every line at the place that it has in the lesson. Refused are: a call of load_or_run in a cell that
    lacks the tag, or under another name, or without a literal name; and a tagged cell that reads what no tagged cell
    binds.
    """
    records = []
    for cell in lesson.code():
        for node in parse(lesson, cell):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("load_or_run"):
                    records.append(_name(lesson, cell, call))
    tagged = lesson.code("record")
    if tagged and not records:
        lesson.fail(tagged[0].line, "a cell tagged record, but the lesson calls no runs.load_or_run. Remove the tag.")
    bound = set().union(*(names(cell.source)[1] for cell in tagged)) | set(dir(builtins))
    for cell in tagged:
        for name in sorted(names(cell.source)[0] - bound):
            lesson.fail(
                cell.line,
                f"this cell is tagged record and reads {name!r}, which no cell with that tag binds. Tag the cell that "
                "binds it as well, or bind it here.",
            )
    lines = []
    for cell in tagged:
        lines += [""] * (cell.line - len(lines)) + cell.source.splitlines()
    return records, "\n".join(lines) + "\n" if records else ""


def _name(lesson, cell, call):
    """Return the name of the record that a call of load_or_run stands for."""
    line, function = cell.line + call.lineno, ast.unparse(call.func)
    if function != "runs.load_or_run":
        lesson.fail(line, f"the call of {function}. Import runs and write runs.load_or_run.")
    if not call.args or not isinstance(getattr(call.args[0], "value", None), str):
        lesson.fail(
            line,
            "runs.load_or_run gets its name from an expression. Write the name there, in quotes: others look for it.",
        )
    if "record" not in cell.tags:
        lesson.fail(
            line,
            'runs.load_or_run in a cell that `make runs` does not execute. Add tags=["record"] to the cell, and to '
            "those that bind what it reads.",
        )
    return call.args[0].value


def record(lessons, only, mode="record"):
    """Run what lessons record: mode "record" writes data/runs, "verify" re-runs one seed of each and compares.

    only: names of records; if empty, all. A lesson that fails does not keep the next one from its turn.
    """
    parts = [(lesson, *recorded(lesson)) for lesson in lessons]
    known = [name for _, recorded_names, _ in parts for name in recorded_names]
    for name in only:
        if name not in known:
            raise LessonError(f"no lesson records {name!r}. There are: {', '.join(sorted(known)) or 'none'}.")
    failed = []
    for lesson, recorded_names, script in parts:
        if set(recorded_names) & set(only or recorded_names):
            env = environment(lesson.root) | {"LESSON_RUNS": mode, "LESSON_RUNS_ONLY": ",".join(only)}
            command = [sys.executable, "-c", RUNNER, str(lesson.file)]
            if subprocess.run(command, cwd=lesson.root, env=env, input=script.encode()).returncode:
                failed.append(f"{lesson.file.relative_to(lesson.root)}: its recorded runs failed, see above.")
    if failed:
        raise LessonError("\n".join(failed))

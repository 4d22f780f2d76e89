"""The root conftest.py refuses what nbval alone lets pass: errors planted in tiny notebooks, run as make test does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
TURN = "class YourTurn(Exception): pass\nraise YourTurn('3.1: write it')"
DEMO = "raise ValueError('that is how it looks')"
# id, code, tags, and the words with which the cell is refused (None: it passes)
LEARNER = [
    ("waits", TURN, ["exercise", "raises-exception"], None),
    ("demo", DEMO, ["raises-exception"], None),
    ("wrong-text", "raise ValueError('another text')", ["raises-exception"], "raised ValueError: another text"),
    ("no-twin", DEMO, ["raises-exception"], "raised ValueError: that is how"),
]
SOLUTIONS = [
    ("waits", "x = 1", ["exercise"], None),
    ("demo", DEMO, ["raises-exception"], None),
    ("wrong-text", "raise ValueError('one text')", ["raises-exception"], None),
    ("quiet", "3 + 3", ["raises-exception"], "tagged raises-exception and does not raise"),
    ("never-run", "5 + 5", [], "never run"),
]
STORED = {
    "demo": nbformat.v4.new_output("error", ename="ValueError", evalue="that is how it looks", traceback=[]),
    "wrong-text": nbformat.v4.new_output("error", ename="ValueError", evalue="one text", traceback=[]),
    "quiet": nbformat.v4.new_output("execute_result", {"text/plain": "6"}, execution_count=1),
}


def write(path, rows, run):
    cells = [nbformat.v4.new_code_cell(code, id=name, metadata={"tags": tags}) for name, code, tags, _ in rows]
    for cell in cells:
        if run and cell.id != "never-run":
            cell.execution_count = 1
            cell.outputs = [STORED[cell.id]] if cell.id in STORED else []
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def test_planted_errors_are_found_and_only_they(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    # nbval imports nbformat, that jsonschema, and that, if it can, a parser of IRIs, which takes two seconds each time.
    (tmp_path / "rfc3987_syntax.py").write_text("raise ImportError\n")
    write(tmp_path / "notebooks/03_toy.ipynb", LEARNER, run=False)
    write(tmp_path / "notebooks/solutions/03_toy.ipynb", SOLUTIONS, run=True)
    command = "-m pytest --nbval --nbval-current-env -rA --color=no -p no:cacheprovider -q notebooks"
    ended = subprocess.run(
        [sys.executable, *command.split()], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    output = ended.stdout
    for path, rows in (("notebooks", LEARNER), ("notebooks/solutions", SOLUTIONS)):
        for number, (name, _, _, words) in enumerate(rows):
            verdict = "FAILED" if words else "PASSED"
            cell = rf"^{verdict} .*{path}/03_toy\.ipynb::Cell {number}\b"
            assert re.search(cell, output, re.MULTILINE) and (words or "") in output, f"{name}: not {verdict}\n{output}"

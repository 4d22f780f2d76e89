"""A lesson as an nbgrader assignment, for those who grade with nbgrader.

    python -m teaching.grading.nbgrader LESSON OUT      (make nbgrader LESSON=06 OUT=course)

writes into the folder OUT what nbgrader wants: the lesson below source/, nbgrader_config.py, and the kernel that runs
the lessons. README.md says how to go on, and what nbgrader does not do that `make grade` does.
"""

import argparse
import json
import sys
from pathlib import Path

from teaching import material
from teaching.grading.assignment import ROOT, GradingError, find, read

NO_PROOF = (
    "These marks prove nothing: in nbgrader an answer and its check share a process, and an answer that replaces "
    "`check` gets all points. For marks that count: make grade."
)
CONFIG = Path(__file__).with_name("nbgrader_config.txt")  # of nbgrader_config.py, what is filled in stands in braces


def with_metadata(stem):
    """Return (a lesson's notebook with nbgrader's metadata, the sum of its points).

    An exercise becomes a cell to solve, its check a locked test worth the exercise's ●, shared out if it has several.
    Optional exercises are worth nothing: nbgrader knows no points beside the sum.
    """
    notebook = material.stored(stem, solved=False)
    cells, total = {cell["id"]: cell["metadata"] for cell in notebook["cells"]}, 0
    for exercise in read(stem).exercises.values():
        dashed = exercise.number.replace(".", "-")
        cells[exercise.id]["nbgrader"] = _metadata(f"answer-{dashed}", solution=True)
        points = 0 if exercise.optional else exercise.difficulty / len(exercise.checks)
        for nth, check in enumerate(exercise.checks, 1):
            total += points
            test = _metadata(f"check-{dashed}-{nth}", locked=True, grade=True)
            cells[check.id]["nbgrader"] = test | {"points": points}
    notebook["metadata"].pop("lesson", None)
    return notebook, round(total, 6)


def _metadata(name, solution=False, locked=False, grade=False):
    fixed = {"schema_version": 3, "task": False}
    return fixed | {"grade_id": name, "solution": solution, "locked": locked, "grade": grade}


def export(stem, folder):
    """Write a lesson, the settings and the kernel into an nbgrader course's folder; return the sum of the points."""
    folder = folder.resolve()
    notebook, total = with_metadata(stem)
    kernel = {
        "argv": [str(ROOT / ".venv/bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    config = CONFIG.read_text(encoding="utf-8").format(
        no_proof=NO_PROOF, jupyter=str(folder / "jupyter"), exchange=str(folder / "exchange")
    )
    files = {
        f"source/{stem}/{stem}.ipynb": json.dumps(notebook, indent=1, ensure_ascii=False) + "\n",
        "jupyter/kernels/python3/kernel.json": json.dumps(kernel, indent=1) + "\n",
        "nbgrader_config.py": config,
    }
    settings = folder / "nbgrader_config.py"
    if settings.exists() and "Made by teaching/grading/nbgrader.py" not in settings.read_text(encoding="utf-8"):
        raise GradingError(f"{settings} is not one of ours, so nothing was written. Name another folder: OUT=course.")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return total


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Write a lesson as an nbgrader assignment.")
    parser.add_argument("lesson", help="its number, or the name of its notebook")
    parser.add_argument("folder", type=Path, metavar="OUT", help="of the nbgrader course; it need not be there")
    options = parser.parse_args(arguments)
    try:
        stem = find(options.lesson)
        total = export(stem, options.folder)
    except GradingError as error:
        print(error, file=sys.stderr)
        return 1
    print(NO_PROOF)
    print(f"{options.folder}/source/{stem}: {total:g} points. Go on there: nbgrader generate_assignment {stem}")
    print(f"Hand out release/{stem}, and nothing else: nbgrader cannot grade a copy of notebooks/{stem}.ipynb.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

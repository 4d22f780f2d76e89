"""Where things lie: the learner's folder, the notebook that runs, and the course's data.

The learner's own layers (lessonkit.mine) and the log of attempts live in the folder work/. A kernel counts as a
learner's only if it was started in that folder itself, not in work/solutions or notebooks/. LESSON_WORK names another
folder (a class on one machine), or is "off" (builds, tests). Where the course is an installed package, the learner
works wherever the kernel starts.
"""

import json
import os
import sys
from pathlib import Path

PACKAGE, SUMS = "layernorm-from-scratch", "SHA256SUMS"
ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(__file__).resolve().parents[1].name != "lessons_src"  # by pip: there is no folder of the course
_STARTED_IN = Path.cwd()  # a lesson may change the directory later
USUAL = _STARTED_IN if INSTALLED else ROOT / "work"


def work():
    """Return the learner's folder as a Path, or None where there is no learner: in builds, tests and solutions."""
    named = os.environ.get("LESSON_WORK") or USUAL
    if named == "off":
        return None
    named = Path(named)
    return named if named.is_dir() and _STARTED_IN.resolve() == named.resolve() else None


def data():
    """Return the folder of the course's data: the course's own, or where pip has put it."""
    if not INSTALLED:
        return ROOT / "data"
    from importlib import metadata  # a tenth of a second, which only an installed course needs

    there = [Path(file.locate()).resolve().parent for file in metadata.files(PACKAGE) or () if file.name == SUMS]
    return there[0] if there else ROOT / "data"


def notebook():
    """Return the notebook that this kernel runs, as it was saved last; one without cells if it cannot be told.

    The Jupyter server tells a kernel its notebook's path in JPY_SESSION_NAME, VS Code in a variable.
    """
    path = os.environ.get("JPY_SESSION_NAME") or getattr(sys.modules["__main__"], "__vsc_ipynb_file__", "")
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
        return {"metadata": saved["metadata"], "cells": saved["cells"]}
    except (KeyError, OSError, ValueError, TypeError):  # no notebook, or one that is being saved just now
        return {"metadata": {}, "cells": []}

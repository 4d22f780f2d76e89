"""Where the learner works: the folder work/, and nothing while the course is built or tested.

The learner's own layers (lessonkit.mine) and the log of attempts live there. A kernel counts as a learner's only if it
was started in that folder itself: not in work/solutions, and not in notebooks/, where builds and nbval start theirs.
LESSON_WORK names another folder (a class on one machine), or is "off": builds and tests set that.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STARTED_IN = Path.cwd()  # a lesson may change the directory later


def folder():
    """Return the learner's folder as a Path, or None where there is no learner: in builds, tests and solutions."""
    named = os.environ.get("LESSON_WORK") or ROOT / "work"
    if named == "off":
        return None
    named = Path(named)
    return named if named.is_dir() and _STARTED_IN.resolve() == named.resolve() else None

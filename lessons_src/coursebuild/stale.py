"""What is not as a build would leave it, found without starting a kernel."""

import json
from pathlib import PurePath

from coursebuild import generated, inventory
from coursebuild.digest import digest
from coursebuild.editions import notebook, target, text_of

EDITIONS = ("learner", "solutions")


def stale(course, named=()):
    """Return what is not as a build would leave it, a line each; first the lessons that are broken.

    named: the stems of the lessons that are asked about; without any, all are.
    """
    root, files = course.root, generated.stale(course)
    others = {path.stem for path in course.paths if named and path.stem not in named}
    lines = [str(error) for error in course.errors if not error.stems or error.stems - others]
    modules = {stem[3:] for stem in others}
    lines += [line for line in files if PurePath(line.partition(":")[0]).stem not in others | modules]
    for lesson in course.lessons:
        if lesson.stem in others:
            continue
        whole = digest(lesson)
        for edition in EDITIONS:
            reason = _reason(lesson, edition, whole)
            if reason:
                lines.append(f"{target(lesson, edition).relative_to(root).as_posix()}: {reason}")
    stems = {path.stem for path in course.paths}
    for path in sorted((root / "notebooks").rglob("*.ipynb")):
        ours = path.stem in stems and path.parent in (root / "notebooks", root / "notebooks/solutions")
        ours = ours or path in inventory.notebooks(root)
        if not ours and ".ipynb_checkpoints" not in path.parts:
            lines.append(f"{path.relative_to(root).as_posix()}: no lesson makes it, delete it")
    return lines


def _reason(lesson, edition, whole):
    """Return why a notebook is not as a build would leave it, None if it is. whole: the lesson's digest."""
    path = target(lesson, edition)
    if not path.exists():
        return "is missing"
    raises = {"raises-exception"} if edition == "learner" else set()  # which cells have it there, only a run can tell
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        is_ = [(c["id"], c["cell_type"], text_of(c), *_marks(c["metadata"], raises)) for c in old["cells"]]
        run = any(c.get("outputs") or c.get("execution_count") for c in old["cells"])
        mark = old["metadata"]["lesson"]["digest"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "was not made by coursebuild"
    should = [(c.id, c.cell_type, c.source, *_marks(c.metadata, raises)) for c in notebook(lesson, edition).cells]
    if is_ != should:
        return f"its cells are not those of {lesson.stem}"
    if run and edition == "learner":
        return "has been run, and the learner edition is stored without outputs"
    return None if mark == whole else f"something that {lesson.stem} depends on has changed"


def _marks(metadata, raises):
    """Return the tags of a cell without those in `raises`, and whether its code is folded where its tag says so."""
    tags = set(metadata.get("tags", ()))
    return tags - raises, "hide-input" in tags and metadata.get("jupyter", {}).get("source_hidden", False)


def changed(lesson):
    """Whether a notebook of this lesson is not as a build would leave it."""
    whole = digest(lesson)
    return any(_reason(lesson, edition, whole) for edition in EDITIONS)

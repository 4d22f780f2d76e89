"""What a build leaves in the repository: what it would change, and why; and all of it that needs no kernel, written.

What is stale is told by `wrong` alone, which starts no kernel. A build makes the notebooks that it names.
"""

import json

from coursebuild import inventory, manifest, sources
from coursebuild.digest import digest
from coursebuild.editions import EDITIONS
from coursebuild.notebooks import fingerprint, refuse_edited

HOMES = {sources.FOLDER: "*.py", manifest.FOLDER: "**/*.json"}  # where nothing else lies
ORPHAN = "no lesson makes it, delete it"


def files(course):
    """Return {path: text} of what is made without a kernel: the package fromscratch, the manifest, the inventory."""
    texts = {course.root / sources.FOLDER / name: text for name, text in course.package.items()}
    texts |= manifest.files(course)
    with course.stopping():
        texts |= inventory.files(course.root)
    return texts


def write(course):
    """Write the files that would change, remove those that no lesson makes, and overwrite no edited notebook."""
    texts = files(course)
    for path, why in wrong_files(course, texts).items():
        if why == ORPHAN:
            path.unlink()
            continue
        if path.suffix == ".ipynb":
            refuse_edited(path, course.root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path], encoding="utf-8", newline="\n")


def wrong_files(course, texts):
    """Return {path: why} of the files made without a kernel that are not as they should be. texts: see `files`."""
    wrong = {}
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong[path] = "is not what the sources say. A build overwrites it: edit its source"
    there = [path for home, pattern in HOMES.items() for path in (course.root / home).glob(pattern)]
    return wrong | {path: ORPHAN for path in there if path not in texts and not course.stopped}


def wrong_notebooks(lesson):
    """Return {path: why} of the notebooks of a lesson that are not as a build would leave them."""
    whole = digest(lesson)
    reasons = {lesson.notebook(edition): _reason(lesson, edition, whole) for edition in EDITIONS}
    return {path: why for path, why in reasons.items() if why}


def wrong(course):
    """Return {path: why} of all that is not as a build would leave it, of the lessons that are whole."""
    found = wrong_files(course, files(course))
    for lesson in course.lessons:
        found |= wrong_notebooks(lesson)
    ours = {room.name for room in course.paths}
    home = course.root / "notebooks"
    for path in home.rglob("*.ipynb"):
        of_a_lesson = path.stem in ours and path.parent in (home, home / "solutions")
        if not (of_a_lesson or path in inventory.notebooks(course.root) or ".ipynb_checkpoints" in path.parts):
            found[path] = ORPHAN
    return dict(sorted(found.items()))


def _reason(lesson, edition, whole):
    """Return why a notebook is not as a build would leave it, None if it is. whole: the lesson's digest."""
    path = lesson.notebook(edition)
    if not path.exists():
        return "is missing"
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        about, cells = old["metadata"]["lesson"], fingerprint(old)
        run = any(cell.get("outputs") or cell.get("execution_count") for cell in old["cells"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return "was not made by coursebuild"
    if about["cells"] != cells:
        return "its cells are not those that coursebuild wrote"
    if run and edition == "learner":
        return "has been run, and the learner edition is stored without outputs"
    return None if about.get("digest") == whole else f"something that {lesson.stem} depends on has changed"

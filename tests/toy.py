"""A tiny course in a temporary folder, for the tests of coursebuild."""

import pytest

from coursebuild import source, sources

TITLE = "# %% [markdown]\n# # 2 · Tiny\n"
EXPORT = '# %% tags=["export"]\n'


def project(root, lessons):
    """Write a course: {"02_tiny": text of its source}. Return its root folder."""
    (root / "lessons_src/lessons").mkdir(parents=True, exist_ok=True)
    (root / "lessons_src/lessons/__init__.py").touch()
    for name, text in lessons.items():
        room = root / "lessons_src/lessons" / name
        room.mkdir(exist_ok=True)
        (room / "lesson.py").write_text(text, encoding="utf-8")
    return root


def whole(root):
    """Return the Sources of a folder in which no lesson is broken; raise the first error if one is."""
    course = sources.load(root)
    for error in course.errors:
        raise error
    return course


def lesson(tmp_path, text):
    return source.read(project(tmp_path, {"02_tiny": text}) / "lessons_src/lessons/02_tiny")


def refused(action, line, what, way_out, file="lessons_src/lessons/02_tiny/lesson.py"):
    """Run action, which must be refused with its place, what is wrong there and a way out in the last sentence."""
    with pytest.raises(source.LessonError) as caught:
        action()
    message = str(caught.value)
    place, _, rest = message.partition(": ")
    assert place == f"{file}:{line}" and what in rest, message
    assert way_out in rest.partition(what)[2] and rest.endswith(".") and len(message) < 400 and "\n" not in message, (
        message
    )


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")

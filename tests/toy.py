"""A tiny course for the tests of coursebuild. python -m tests.toy stores what is built of WHOLE in toy_built.txt."""

import shutil
import tempfile
from pathlib import Path

import nbformat
import pytest

from coursebuild import frame, source, sources
from coursebuild.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
BUILT = Path(__file__).with_name("toy_built.txt")
TITLE = "# %% [markdown]\n# # 2 · Tiny\n"
EXPORT = '# %% tags=["export"]\n'
CARD = "# Exercise 2.1 · ●○○○○ · 5 min\n"
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
EXERCISE = f'# %% tags=["exercise"] id="ex-2-1"\n{CARD}def scale(x):\n{BEGIN}    return 2 * x\n{END}'
CHECKED = EXERCISE + '# %% tags=["check"]\ncheck.scale(scale)\n'


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
    """Return the lesson 02_tiny with a text."""
    return frame.read(project(tmp_path, {"02_tiny": text}) / "lessons_src/lessons/02_tiny")


def refused(action, line, what, way_out, file="lessons_src/lessons/02_tiny/lesson.py"):
    """Run action, which must be refused with its place, what is wrong there, and behind that a way out."""
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


# --------------------------------------------------------------------------- a course with one of everything, and built

WHOLE = {
    "02_tiny": '''# %% [markdown]
# # 2 · Tiny
#
# [Lesson 1](01_one.ipynb), [data](../data/README.md "why"), ![](../data/a.png), <a href="../README.md">all</a>.


# %%
import json
import math
from abc import ABC, abstractmethod

from lessonkit import check
from lessonkit.toy import show

# %% [markdown]
# **Predict 2.1:** what comes out of `5, 5, 5`?
# Think of the deviation.
# - [ ] zeros :: Look at the denominator: $0/0$.
# - [x] nan :: The mean is 5 and the deviation 0.
#
# **Recall 2.1:** how many means?
# - [x] 160 :: One for each token.
# - [ ] 8 :: One for each sample.
#
# And on.

# %% tags=["exercise", "export"] id="ex-2-1"
# Exercise 2.1 · ●●○○○ · 5 min
class Scale(ABC):
    """Twice x."""

    def __call__(self, x):
        def twice(y):
            ### BEGIN SOLUTION
            secret_local = y * 2.0

            return secret_local
            ### END SOLUTION

        return [twice(item) for item in x]

# %% tags=["check"]
check.scale(Scale)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Twice.
# </details>
#
# Why twice?
#
# <!-- BEGIN SOLUTION -->
# Secret words.
# <!-- END SOLUTION -->
#
# It reads no `data.others()`, [other.npz](../data/other.npz).

# %%
doubled = Scale()([1, 1, 1])
show("doubled", doubled)

# %% tags=["exercise", "optional"]
# Exercise 2.2 · ●○○○○ · 2 min
### BEGIN SOLUTION
secret_answer = 41
### END SOLUTION

# %% tags=["check", "optional"]
check.answer(secret_answer)

# %% tags=["export"]
def _half(x):
    return x / 2

# %% tags=["export"]
LIMIT = 3


def quarter(x, root=math.sqrt):
    """A quarter of x, never above LIMIT."""
    return min(_half(_half(x)), root(LIMIT))

# %% tags=["timed"]
import time
print(time.time())

# %% tags=["nbval-ignore-output"]
from tqdm.auto import tqdm
for _ in tqdm(range(3)):
    pass
print("done")

# %% tags=["raises-exception"]
raise ValueError("that is how it looks")

# %%
import base64
class Picture:
    def _repr_png_(self):
        return (base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="),
                {"alt": "One dot."})
    def __repr__(self):
        return "One dot."
Picture()

# %% [markdown] tags=["slide", "no-slide"]
# ## 2.1 Deeper (optional, 4 min)
#
# ```
# ## no heading
# ```

# %% tags=["hide-input"]
from lessonkit import data, evidence

def later():
    """Nobody calls it."""
    return data.digits(), evidence.note("quarter"), open("../data/limits.csv")

# %%
import ipywidgets
ipywidgets.IntSlider(value=4)

# %%
1 + 1

# %%
1 + 1
''',  # noqa: E501
    "03_light": """# %% [markdown]
# # 3 · Light

# %%
import json as js
from collections import OrderedDict, deque

from fromscratch import quarter

# %% tags=["export"]
def dumps(x):
    return js.dumps(OrderedDict(a=x))


def fourth(x):
    return quarter(x)
""",
}
KIT = {  # what is added to the kit of the course, and of its lessons' rooms
    "lessonkit/toy.py": """import math

LAST = ''


def show(label, value):
    '''Print it.'''
    print(f'{label} = {value}{LAST}')


def never():
    return 1


def refuse(what, mistakes):
    reject(what, mistakes)
""",
    "lessons/02_tiny/checks.py": '''"""Checks of the tiny lesson."""
from lessonkit.check.declare import accept, reject
from lessonkit.toy import refuse

def scale(answer):
    if answer()([1, 1]) != [2, 2]:
        reject("wrong", "it is tripled")
    accept("Right: scale.")

def answer(given):
    accept("Right: answer.")
''',
}


def build(root):
    """Write a course with a kit of its own that has one of everything, and build its lesson 2. Return root."""
    without = shutil.ignore_patterns("__pycache__", "[0-9][0-9]_*")
    shutil.copytree(ROOT / "lessons_src", root / "lessons_src", ignore=without)
    (root / "lessons_src/inventory.md").unlink()
    project(root, WHOLE)
    for name, text in KIT.items():
        (root / "lessons_src" / name).write_text(text, encoding="utf-8")
    (root / "data/runs").mkdir(parents=True)
    for name in ("digits.npz", "words.txt.gz", "limits.csv"):  # the lesson's code names the first and the last
        (root / "data" / name).write_bytes(b"numbers")
    (root / "requirements.txt").write_text("torch\n")
    assert main(["02"], root) == 0
    return root


def rendered(root):
    """Return what was built of WHOLE as a text: learner edition, what differs in the solutions edition, fromscratch."""
    lines, learner = [], {}
    for edition in ("learner", "solutions"):
        book = nbformat.read(whole(root).lessons[0].notebook(edition), as_version=4)
        lines.append(f"=== {edition}: {sorted(book.metadata)}, {book.metadata.language_info}")
        for cell in book.cells:
            about = [cell.id, cell.cell_type, *cell.metadata.pop("tags", []), *map(str, cell.metadata.items())]
            same = learner.setdefault(cell.id, "") == cell.source
            learner[cell.id] = cell.source
            if same and not cell.get("outputs"):
                continue
            lines.append(f"\n--- {' '.join(about)}")
            lines += [] if same else [cell.source]
            for out in cell.get("outputs", []):
                text = out.get("text") or out.get("traceback") or f"{sorted(out.data)} {out.metadata}"
                lines.append(f">>> {text} {out.get('data', {}).get('text/plain', '')}".strip())
    module = root / sources.FOLDER / "tiny.py"
    return "\n".join([*lines, "=== fromscratch", module.read_text(encoding="utf-8")])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        BUILT.write_text(rendered(build(Path(folder) / "course")), encoding="utf-8")

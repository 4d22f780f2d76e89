"""build.py on tiny courses in a temporary folder: what it makes, and all that it refuses."""

import ast
import copy
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from tests.machine import ROOT, machine

TITLE = "# %% [markdown]\n# # 2 · Tiny\n"


def project(root, lessons):
    """Write a course: {"02_tiny.py": text of its source}. Return its root folder."""
    (root / "lessons_src/lessons").mkdir(parents=True, exist_ok=True)
    for name, text in lessons.items():
        (root / "lessons_src/lessons" / name).write_text(text, encoding="utf-8")
    return root


def lesson(tmp_path, text, name="02_tiny.py"):
    return machine.read(project(tmp_path, {name: text}) / "lessons_src/lessons" / name)


def refused(action, line, what, way_out, file="lessons_src/lessons/02_tiny.py"):
    """Run action, which must be refused with its place, what is wrong there and a way out in the last sentence."""
    with pytest.raises(machine.LessonError) as caught:
        action()
    said = str(caught.value)
    place, _, rest = said.partition(": ")
    assert place == f"{file}:{line}" and what in rest, said
    assert way_out in rest.partition(what)[2] and rest.endswith(".") and len(said) < 400 and "\n" not in said, said


# ---------------------------------------------------------------------------------------------- refused: the source

BLANK = '# %% tags=["exercise"]\n# Exercise 2.1 · ●○○○○ · 5 min\ndef f(x):\n'  # three lines, from line 3 on
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
FORM = "is not how a cell begins"
CELLS = {  # what is wrong: (source after the title's two lines, line, words, way out)
    "unknown tag": ('# %% tags=["exersice"]\n1\n', 3, "unknown tag 'exersice'", "expected one of check, exercise"),
    "tag twice": ('# %% tags=["timed", "timed"]\n1\n', 3, "a tag stands twice", "Name each tag once"),
    "code tag on Markdown": ('# %% [markdown] tags=["check"]\n# a\n', 3, "belong to code cells", "Remove them"),
    "unknown option": ('# %% slideshow="x"\n1\n', 3, FORM, "Write '# %%'"),
    "cell with a title": ("# %% Exercise\n1\n", 3, FORM, "Write '# %%'"),
    "raw cell": ("# %% [raw]\n# a\n", 3, FORM, "or '# %% [markdown]'"),
    "tags no list": ('# %% tags="check"\n1\n', 3, FORM, 'tags=["check"]'),
    "tags not closed": ('# %% tags=["check"\n1\n', 3, FORM, 'tags=["check"]'),
    "no blank": ("#%%\n1\n", 3, "'#%%' is not how a cell begins", "Write '# %%'"),
    "empty cell": ("# %%\n\n# %%\n1\n", 3, "an empty cell", "Fill it or remove it"),
    "id twice": ('# %% id="a"\n1\n# %% id="a"\n2\n', 5, "'a' is taken by the cell at line 3", "Give it another one"),
    "bad id": ('# %% id="a b"\n1\n', 3, "the id 'a b' is not", "Rename it"),
    "empty id": ('# %% id=""\n1\n', 3, "the id '' is not", "Rename it"),
    "long id": (f'# %% id="{"a" * 65}"\n1\n', 3, "is not one to 64 letters", "Rename it"),
    "indented cell line": ("# %%\ndef f():\n    # %% x\n    return 1\n", 5, "an indented '# %%'", "Move it"),
    "cell line in a string": ('# %%\ns = """\n# %%\n"""\n', 1, "jupytext sees 2 cells", "inside a string"),
    "nbval comment": ("# %%\n1 / 0  # yes\n# NBVAL_SKIP\n", 3, "steers nbval past", "use a tag"),
    "nested marks": (BLANK + BEGIN + "    a = 1\n" + BEGIN + END, 8, "the solution that begins at line 6", "End that"),
    "stray end": (BLANK + "    return 1\n" + END, 7, "without a BEGIN SOLUTION", "Add it, or remove"),
    "two ends": (BLANK + BEGIN + "    return 1\n" + END + END, 9, "without a BEGIN SOLUTION", "Add it, or remove"),
    "not closed": (BLANK + BEGIN + "    return 1\n", 6, "is never closed", "Add END SOLUTION"),
    "closed in the next cell": (BLANK + BEGIN + "    1\n# %%\n" + END, 6, "is never closed", "Add END SOLUTION"),
    "misaligned": (BLANK + BEGIN + "    1\n" + END[4:], 8, "is indented unlike BEGIN SOLUTION at line 6", "Align it"),
    "two hashes": (BLANK + BEGIN.replace("###", "##") + END, 6, "a malformed mark", "Write it alone"),
    "a colon": (BLANK + BEGIN.replace("N\n", "N:\n") + END, 6, "a malformed mark", "Write it alone"),
    "small letters": (BLANK + BEGIN.lower() + END.lower(), 6, "a malformed mark", "Write it alone"),
    "underscore": (BLANK + BEGIN.replace("N S", "N_S") + END, 6, "a malformed mark", "Write it alone"),
    "misspelt": (BLANK + BEGIN.replace("TION", "TON") + END.replace("TION", "TON"), 6, "a malformed mark", "Write it"),
    "after code": (BLANK + "    a = 1 " + BEGIN + END, 6, "a malformed mark", "Write it alone on its line"),
    "tab": (BLANK + BEGIN.replace("    ", "\t"), 6, "a malformed mark", "Write it alone"),
    "code mark in Markdown": ("# %% [markdown]\n# ### BEGIN SOLUTION\n", 4, "a malformed mark", "'<!-- BEGIN"),
    "Markdown mark in code": (BLANK + "    # <!-- BEGIN SOLUTION -->\n", 6, "a malformed mark", "'### BEGIN SOLUTION'"),
    "misspelt in Markdown": ("# %% [markdown]\n# <!-- BEGIN SOLUTON -->\n", 4, "a malformed mark", "Write it alone"),
    "marks without tag": ("# %%\n" + BEGIN + END, 3, "has no tag", 'tags=["exercise"]'),
    "exercise without marks": (BLANK + "    return 1\n", 3, "an exercise without a solution", "### BEGIN SOLUTION"),
    "exercise without card": ('# %% tags=["exercise"]\n' + BEGIN + END, 3, "without its card", "'# Exercise 3.1 ·"),
    "card misspelt": (BLANK.replace("min", "minutes") + BEGIN + END, 3, "without its card", "'# Exercise 3.1 ·"),
}
HEADS = {  # what is wrong: (the whole source, line, words, way out)
    "header": ("# ---\n# jupytext: x\n# ---\n" + TITLE, 1, "on its first line", "Remove what stands before it"),
    "blank first line": ("\n" + TITLE, 1, "on its first line", "Remove what stands before it"),
    "empty file": ("", 1, "on its first line", "Remove what stands before it"),
    "wrong title": ("# %% [markdown]\n# # 3 · Tiny\n", 1, "starts with the title", "Write '# 2 · ...'"),
    "first cell is code": ("# %%\n1\n", 1, "the first cell is Markdown", "Write '# 2 · ...'"),
}


@pytest.mark.parametrize("wrong", [*CELLS, *HEADS])
def test_a_wrong_source_is_refused(wrong, tmp_path):
    text, line, what, way_out = (CELLS | HEADS)[wrong]
    refused(lambda: lesson(tmp_path, TITLE + text if wrong in CELLS else text), line, what, way_out)


def test_two_lessons_with_one_number_and_odd_names_are_refused(tmp_path):
    for one, words in (("02_twin.py", "02_tiny.py has the number 02"), ("02-Tiny.py", "is called like 02_")):
        root = project(tmp_path / one, {"02_tiny.py": TITLE, one: TITLE})
        refused(lambda root=root: machine.everything(root), 1, words, "Rename", f"lessons_src/lessons/{one}")


# --------------------------------------------------------------------------------------------- refused: the exports

EXPORT = '# %% tags=["export"]\n'
PLOT = "# %%\nfrom matplotlib import pyplot\nfrom lessonkit import show\n" + EXPORT
EXPORTS = {  # what is wrong: (source of lesson 2 after the title's two lines, line, words, way out)
    "unknown name": (EXPORT + "def f(x):\n    return x + d\n", 3, "reads 'd', which no import", "Import it"),
    "name of another cell": ("# %%\nD = 4\n" + EXPORT + "def f(x):\n    return x * D\n", 5, "reads 'D'", "or export"),
    "in a comprehension": (EXPORT + "f = [g(i) for i in range(3)]\n", 3, "reads 'g'", "Import it"),
    "in a default": (EXPORT + "def f(x=D):\n    return x\n", 3, "reads 'D'", "Import it"),
    "as a decorator": (EXPORT + "@jit\ndef f(x):\n    return x\n", 3, "reads 'jit'", "Import it"),
    "as a base class": (EXPORT + "class A(Module):\n    pass\n", 3, "reads 'Module'", "Import it"),
    "in a method": (EXPORT + "class A:\n    def f(self):\n        return F.relu\n", 3, "reads 'F'", "Import it"),
    "imports matplotlib": (EXPORT + "import matplotlib.pyplot as plt\n", 3, "imports matplotlib.pyplot", "Do without"),
    "imports lessonkit": (EXPORT + "def f():\n    from lessonkit import show\n", 3, "imports lessonkit", "Do without"),
    "reads matplotlib": (PLOT + "def f():\n    pyplot.plot()\n", 6, "'from matplotlib import pyplot'", "Do without"),
    "reads lessonkit": (PLOT + "def f():\n    show('a', 1)\n", 6, "'from lessonkit import show'", "Do without"),
    "no Python": ("# %%\nx = 1\nx = = 2\n", 5, "cannot read this line", "Mend it"),
    "magic": ("# %%\n%matplotlib inline\n", 4, "cannot read this line", "%magics"),
    "unknown import": ("# %%\n1\n# %%\nimport os\nfrom fromscratch import g\n", 7, "no lesson exports 'g'", "Correct"),
    "later lesson": ("# %%\nfrom fromscratch import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    "own export": ("# %%\nfrom fromscratch import f\n" + EXPORT + "f = 1\n", 4, "exported by lesson 02", "Define it"),
    "private import": ("# %%\nfrom fromscratch import _private\n", 4, "no lesson exports '_private'", "Correct"),
    "module import": ("# %%\nfrom fromscratch.lesson_01 import early\n", 4, "hides what it uses", "Write 'from"),
    "package import": ("# %%\nimport fromscratch\n", 4, "hides what it uses", "Write 'from fromscratch import'"),
}
ONE = "# %% [markdown]\n# # 1 · One\n" + EXPORT + "early = 1\n_private = 2\n"
THREE = "# %% [markdown]\n# # 3 · Three\n" + EXPORT + "late = 1\n"


@pytest.mark.parametrize("wrong", EXPORTS)
def test_a_wrong_export_is_refused(wrong, tmp_path):
    text, line, what, way_out = EXPORTS[wrong]
    project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + text, "03_three.py": THREE})
    refused(lambda: machine.package(machine.everything(tmp_path)), line, what, way_out)


def test_a_name_exported_twice_is_refused(tmp_path):
    project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + "# %%\n1\n" + EXPORT + "early = 2\n"})
    refused(lambda: machine.package(machine.everything(tmp_path)), 5, "'early' is exported by lesson 01", "Rename one")


# ------------------------------------------------------------------------------------------ refused: what cells put out

TURN = "class check:\n    class YourTurn(Exception): pass\n"
CARD = "# Exercise 2.1 · ●○○○○ · 5 min\n"
TQDM = "from tqdm.auto import tqdm\n"
ADDRESS, BAR = "holds a memory address", "shows a progress bar"
UNTOUCHED = "in the untouched learner edition the cell raises"
RUNS = {  # id of the cell: (tags, code, line within the cell, words, way out)
    "raises": ("", "x = 1\ny = 2\nx / 0\n", 3, "the cell raises ZeroDivisionError: division by zero", None),
    "raises-between-marks": (
        '"exercise"',
        CARD + "if True:\n" + BEGIN + "    x = 1\n" + END + "1 / 0\n",
        6,
        "the cell raises ZeroDivisionError",
        None,
    ),
    "no-python": ("", "x = 1\nreturn x\n", 2, "the cell raises SyntaxError", None),
    "does-not-raise": ('"raises-exception"', "1 + 1\n", 0, "raises-exception and does not raise", "Remove the tag"),
    "stderr": ("", "import sys\nprint('help', file=sys.stderr)\n", 0, "writes to stderr: 'help'", "Mend its cause"),
    "warning": ("", "import warnings\nwarnings.warn('old')\n", 0, "writes to stderr", "Mend its cause"),
    "address": ("", "object()\n", 0, ADDRESS, "Show something else"),
    "printed-address": ("", "print(lambda: 0)\n", 0, ADDRESS, "Show something else"),
    "raised-address": ('"raises-exception"', "raise ValueError(object())\n", 0, ADDRESS, "Show something else"),
    "bar": ("", TQDM + "for _ in tqdm(range(3)): pass\n", 0, BAR, "nbval-ignore-output"),
    "endless-bar": ("", TQDM + "tqdm(iter([1]), desc='x').close()\n", 0, BAR, "nbval-ignore-output"),
    "container": (
        '"exercise"',
        CARD
        + "kept = {}\ndef f():\n"
        + BEGIN
        + "    return 1\n"
        + END
        + "try:\n    kept['f'] = f()\nexcept check.YourTurn:\n    pass\n",
        0,
        None,
        None,
    ),
    "reads-container": ("", "kept['f']\n", 0, f"{UNTOUCHED} KeyError", "through a plain name"),
    "learner-syntax": (
        '"exercise"',
        CARD + "x = [\n" + BEGIN + "1\n" + END + "]\n",
        0,
        f"{UNTOUCHED} SyntaxError",
        "through a plain name",
    ),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return what a kernel answers to the cells of RUNS: {edition: {id: outputs}}. Two kernels for all of them."""
    text = TITLE + "# %%\n" + TURN
    for name, (tags, code, *_) in RUNS.items():
        text += f'# %% tags=[{tags}] id="{name}"\n{code}'.replace("tags=[] ", "")
    root = tmp_path_factory.mktemp("ran")
    read = lesson(root, text)
    found = {}
    for edition in ("solutions", "learner"):
        made = machine.notebook(read, edition)
        machine.execute(read, made, root)
        found[edition] = {cell.id: cell.outputs for cell in made.cells if cell.cell_type == "code"}
    return found


@pytest.mark.parametrize("wrong", [name for name in RUNS if RUNS[name][3]])
def test_a_wrong_output_is_refused_and_nothing_written(wrong, ran, tmp_path, monkeypatch):
    tags, code, within, what, way_out = RUNS[wrong]
    read = lesson(tmp_path, TITLE + f'# %%\n1\n# %% tags=[{tags}] id="{wrong}"\n{code}'.replace("tags=[] ", ""))
    answers = iter([ran["solutions"], ran["learner"]])

    def execute(read, made, folder):
        outputs = next(answers)
        for cell in made.cells:
            if cell.id in outputs:
                cell.outputs = copy.deepcopy(outputs[cell.id])
        return {1: 0.1, 2: 0.1}

    monkeypatch.setattr(machine, "execute", execute)
    line = 5 + within
    if way_out:
        refused(lambda: machine.build(read), line, what, way_out)
    else:
        with pytest.raises(machine.LessonError, match=re.escape(f"02_tiny.py:{line}: {what}")):
            machine.build(read)
    assert not list(tmp_path.rglob("*.ipynb"))


def test_a_kernel_that_dies_or_hangs_is_named(tmp_path, monkeypatch):
    read = lesson(tmp_path, TITLE + "# %%\n1\n# %%\nimport os\nos._exit(1)\n")
    refused(lambda: machine.build(read), 5, "the kernel died in this cell", "Look for an exit")


def test_a_cell_that_hangs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "TIMEOUT", 1)
    read = lesson(tmp_path, TITLE + "# %%\nimport time\ntime.sleep(30)\n")
    refused(lambda: machine.build(read), 3, "ran for more than 1 s", "Make it smaller")


# ------------------------------------------------------------------------------------------------------ what is built

RICH = '''# %% [markdown]
# # 2 · Tiny
#
# [Lesson 1](01_one.ipynb), [data](../data/README.md "why"), ![](../data/a.png), <a href="../README.md">all</a>.
#
# [below]: ../LICENSE


# %%
import json
import math
from abc import ABC, abstractmethod

from lessonkit import check, show

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

    def extra_repr(self):
        return "twice"

# %% tags=["check"]
check.scale(Scale)

# %% [markdown]
# Why twice?
#
# <!-- BEGIN SOLUTION -->
# Secret words.
# <!-- END SOLUTION -->
#
# And on.

# %%
doubled = Scale()([1, 1, 1])
show("doubled", doubled)

# %%
also = [item for item in doubled]
sum(doubled)

# %% tags=["exercise"]
# Exercise 2.2 · ●○○○○ · 2 min
### BEGIN SOLUTION
secret_answer = 41
### END SOLUTION

# %% tags=["check"]
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

# %%
import ipywidgets
ipywidgets.IntSlider(value=4)

# %%
1 + 1

# %%
1 + 1
'''  # noqa: E501
LIGHT = """# %% [markdown]
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
"""
KIT = {  # a lessonkit without torch, whose import takes a second; _hook.py and check/__init__.py are the real ones
    "__init__.py": "from lessonkit import _hook\nfrom lessonkit.numbers import show\n\n_hook.install()\n",
    "numbers.py": "import math\n\n\ndef show(label, value):\n    print(f'{label} = {value}')\n",
    "train.py": "import math\n",
    "check/core.py": "import io\n\n\nclass NotYet(AssertionError):\n    pass\n",
    "check/lesson_02.py": '''"""Checks of the tiny lesson."""
from lessonkit.check.core import NotYet

def scale(answer):
    if answer()([1, 1]) != [2, 2]:
        raise NotYet("wrong")
    print("Right: scale.")

def answer(given):
    print("Right: answer.")
''',
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the root of a tiny course whose lesson 2 was built twice, and the bytes of both builds. Four kernels."""
    root = tmp_path_factory.mktemp("built")
    project(root, {"02_tiny.py": RICH, "03_light.py": LIGHT})
    kit = root / "lessons_src/lessonkit"
    (kit / "check").mkdir(parents=True)
    for name, text in KIT.items():
        (kit / name).write_text(text, encoding="utf-8")
    for name in ("lessonkit/_hook.py", "lessonkit/check/__init__.py", "build.py"):
        shutil.copy(ROOT / "lessons_src" / name, root / "lessons_src" / name)
    (root / "data/runs").mkdir(parents=True)
    (root / "data/json.npz").write_bytes(b"numbers")  # the lesson's text has the word json
    (root / "data/other.npz").write_bytes(b"numbers")
    (root / "requirements.txt").write_text("torch\n")
    builds = []
    for _ in range(2):
        assert machine.main(["02"], root) == 0
        builds.append(
            {
                edition: machine.target(machine.everything(root)[0], edition).read_bytes()
                for edition in ("learner", "solutions")
            }
        )
        shutil.copytree(root / "notebooks", root / "first", dirs_exist_ok=True)
        shutil.rmtree(root / "notebooks")
    (root / "first").rename(root / "notebooks")
    return root, builds


@pytest.fixture
def course(built, tmp_path):
    """Return a copy of the built course that a test may change."""
    return shutil.copytree(built[0], tmp_path / "course")


@pytest.fixture(scope="module")
def editions(built):
    """Return {edition: its cells}."""
    return {edition: nbformat.reads(text.decode(), as_version=4) for edition, text in built[1][0].items()}


def cell(notebook, words):
    found = [cell for cell in notebook.cells if words in cell.source]
    assert found, words
    return found[0]


def test_built_twice_byte_identical(built):
    assert built[1][0] == built[1][1]


def test_the_learner_gets_one_statement_for_a_solution(editions):
    source = cell(editions["learner"], "class Scale").source
    assert (
        source
        == '''# Exercise 2.1 · ●●○○○ · 5 min
class Scale(ABC):
    """Twice x."""

    def __call__(self, x):
        def twice(y):
            raise check.YourTurn("2.1: replace this line by your answer")

        return [twice(item) for item in x]

    def extra_repr(self):
        return "twice"'''
    )
    inner = next(node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == "twice")
    assert [type(node) for node in inner.body] == [ast.Raise]
    assert "Exercise 2.2" in editions["learner"].cells[7].source
    assert editions["learner"].cells[7].source.splitlines()[1] == (  # with the name that the check below takes
        'raise check.YourTurn("2.2: replace this line by your answer: secret_answer = ...")'
    )
    assert cell(editions["learner"], "Why twice?").source == "Why twice?\n\n*Your answer:*\n\nAnd on."


def test_the_solutions_edition_has_the_solution_without_marks(editions):
    source = cell(editions["solutions"], "class Scale").source
    assert "            secret_local = y * 2.0\n\n            return secret_local\n\n        return [" in source
    assert cell(editions["solutions"], "Why twice?").source == "Why twice?\n\nSecret words.\n\nAnd on."
    assert "SOLUTION" not in json.dumps(editions["solutions"]) + json.dumps(editions["learner"])


def test_no_solution_leaks_into_the_learner_edition(built):
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "", built[1][0]["learner"].decode())  # ids and digests hold anything
    assert "secret_local" not in text and "Secret words" not in text and "41" not in text


def test_the_learner_edition_has_no_outputs_and_may_wait(editions):
    learner = editions["learner"]
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in learner.cells)
    raises = {c.source.splitlines()[0] for c in learner.cells if "raises-exception" in c.metadata.get("tags", [])}
    assert raises == {
        "# Exercise 2.1 · ●●○○○ · 5 min",
        "check.scale(Scale)",
        "doubled = Scale()([1, 1, 1])",
        "also = [item for item in doubled]",
        "# Exercise 2.2 · ●○○○○ · 2 min",
        "check.answer(secret_answer)",
        'raise ValueError("that is how it looks")',
    }


def test_the_solutions_edition_was_run(editions):
    solutions = editions["solutions"]
    code = [c for c in solutions.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    assert cell(solutions, "check.scale").outputs[0].text == "Right: scale.\n"
    assert cell(solutions, 'show("doubled"').outputs[0].text == "doubled = [2.0, 2.0, 2.0]\n"
    assert cell(solutions, "sum(doubled)").outputs[0].data == {"text/plain": "6.0"}
    error = cell(solutions, "raise ValueError").outputs[0]
    assert (error.ename, error.evalue, error.traceback) == (
        "ValueError",
        "that is how it looks",
        ["ValueError: that is how it looks"],
    )


def test_timed_cells_store_nothing_and_are_not_compared(editions):
    timed = cell(editions["solutions"], "time.time()")
    assert timed.outputs == [] and timed.execution_count and timed.metadata.tags == ["timed", "nbval-ignore-output"]


def test_progress_bars_are_not_stored(editions):
    assert [out.get("text") for out in cell(editions["solutions"], "tqdm(range").outputs] == ["done\n"]


def test_pictures_carry_their_text_twice_and_widgets_no_state(editions, built):
    picture = cell(editions["solutions"], "class Picture")
    assert picture.outputs[0].metadata == {"image/png": {"alt": "One dot."}}
    assert picture.outputs[0].data["text/plain"] == "One dot."
    assert picture.metadata == {"mystnb": {"image": {"alt": "One dot."}}}
    assert cell(editions["learner"], "class Picture").metadata == {}
    assert cell(editions["solutions"], "IntSlider").outputs[0].data == {"text/plain": "IntSlider(value=4)"}
    assert "widget" not in built[1][0]["solutions"].decode().replace("ipywidgets", "")


def test_metadata_is_fixed(editions):
    for edition, notebook in editions.items():
        assert notebook.metadata.kernelspec == {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        }
        assert notebook.metadata.language_info == {"name": "python"}
        assert set(notebook.metadata) == {"kernelspec", "language_info", "lesson"}
        assert set(notebook.metadata.lesson) == {"cells", "digest", "source"}
        assert notebook.metadata.lesson.source == "lessons_src/lessons/02_tiny.py"
        for one in notebook.cells:
            assert set(one.metadata) <= {"tags", "mystnb"}, edition
            assert not one.source.endswith("\n")


def test_ids_are_fixed_and_the_same_in_both_editions(editions):
    ids = [c.id for c in editions["learner"].cells]
    assert ids == [c.id for c in editions["solutions"].cells] and len(set(ids)) == len(ids)
    assert ids[2] == "ex-2-1" and ids[-1] == ids[-2] + "-2"  # two cells with the same text


def test_links_lead_out_of_the_deeper_folder(editions):
    learner, solutions = (editions[edition].cells[0].source for edition in ("learner", "solutions"))
    assert solutions == learner.replace("../", "../../")
    assert "(01_one.ipynb)" in solutions and solutions.count("../../") == 4


def test_fromscratch_has_the_solution_and_only_the_imports_it_needs(built):
    text = (built[0] / "lessons_src/fromscratch/lesson_02.py").read_text()
    assert text.startswith('"""What lesson 2 builds: LIMIT, Scale, quarter.\n')
    assert [line for line in text.splitlines() if "import" in line] == ["from abc import ABC", "import math"]
    assert "secret_local" in text and "Exercise" not in text and "SOLUTION" not in text and "def _half" in text
    light = (built[0] / "lessons_src/fromscratch/lesson_03.py").read_text()
    assert [line for line in light.splitlines() if "import" in line] == [
        "from collections import OrderedDict",
        "import json as js",
        "from fromscratch import quarter",
    ]


def test_fromscratch_loads_lazily_and_names_what_there_is(built):
    script = (
        "import sys, fromscratch\n"
        "assert dir(fromscratch) == ['LIMIT', 'Scale', 'dumps', 'fourth', 'quarter'], dir(fromscratch)\n"
        "assert not [name for name in sys.modules if name.startswith('fromscratch.')]\n"
        "from fromscratch import LIMIT\n"
        "assert LIMIT == 3 and 'fromscratch.lesson_03' not in sys.modules\n"
        "assert fromscratch.fourth(8) == 3 ** 0.5 and fromscratch.dumps(1) == '{\"a\": 1}'\n"
        "try: fromscratch._half\n"
        "except AttributeError as error: print(error)\n"
    )
    env = machine.environment(built[0])
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "fromscratch has no '_half'; the lessons export: LIMIT, Scale, dumps, fourth, quarter\n"


def test_an_import_wins_over_a_builtin_of_its_name(tmp_path):
    source = "# %%\nfrom math import pow\nimport os.path\n" + EXPORT + "def f(x):\n    return pow(len(x), 2), os.sep\n"
    text, public = machine.exported(lesson(tmp_path, TITLE + source))
    assert "from math import pow\nimport os.path\n" in text and public == {"f": 6}


# ------------------------------------------------------------------------------------------------- staleness, editing


def stale(root):
    return machine.stale(root, machine.everything(root))


def test_a_built_course_is_not_stale(course, capsys):
    (course / "lessons_src/lessons/03_light.py").unlink()
    machine.export(course, machine.everything(course))
    assert stale(course) == [] and not machine.changed(machine.everything(course)[0])
    assert not (course / "lessons_src/fromscratch/lesson_03.py").exists(), "no lesson makes it any more"
    assert machine.main(["--check"], course) == 0
    assert capsys.readouterr().out == "all notebooks are as their sources say\n"


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def edit_json(path, change):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


BOTH = ["notebooks/02_tiny.ipynb", "notebooks/solutions/02_tiny.ipynb"]
LEARNER, SOLUTIONS, MODULE = BOTH[:1], BOTH[1:], "lessons_src/fromscratch/lesson_02.py"
SOURCE, HOUSE = "lessons_src/lessons/02_tiny.py", "lessons_src/lessonkit"
CELLS_DIFFER, DEPENDS = "its cells are not those of 02_tiny.py", "something that 02_tiny.py depends on has changed"
ORPHAN, EXPORTS_DIFFER = "no lesson makes it, delete it", "is not what the lessons export"
TEXTS = {  # what was changed: (file, old text, new text, files that are stale, why)
    "source": (SOURCE, "And on.", "And off.", BOTH, CELLS_DIFFER),
    "a comment in a blank": (SOURCE, "y * 2.0", "y * 2.0  # why", [*BOTH, MODULE], ""),
    "a tag": (SOURCE, 'tags=["timed"]', 'tags=["timed", "optional"]', BOTH, CELLS_DIFFER),
    "check module": (f"{HOUSE}/check/lesson_02.py", "wrong", "bad", BOTH, DEPENDS),
    "lessonkit": (f"{HOUSE}/numbers.py", "import math", "import  math", BOTH, DEPENDS),
    "the hook": (f"{HOUSE}/_hook.py", "import ast", "import  ast", BOTH, DEPENDS),
    "the check's machinery": (f"{HOUSE}/check/core.py", "import io", "import  io", BOTH, DEPENDS),
    "data": ("data/json.npz", "numbers", "others", BOTH, DEPENDS),
    "requirements": ("requirements.txt", "torch", "torch==2", BOTH, DEPENDS),
    "build.py": ("lessons_src/build.py", "import ast", "import  ast", BOTH, DEPENDS),
    "edited module": (
        "lessons_src/fromscratch/lesson_03.py",
        "dumps(x)",
        "dumps(y)",
        ["lessons_src/fromscratch/lesson_03.py"],
        EXPORTS_DIFFER,
    ),
    "edited package": (
        "lessons_src/fromscratch/__init__.py",
        "LIMIT",
        "LIMITS",
        ["lessons_src/fromscratch/__init__.py"],
        EXPORTS_DIFFER,
    ),
    "no JSON": (LEARNER[0], "{", "<", LEARNER, "was not made by build.py"),
}
CELLS_BY_HAND = {  # what was changed by hand: (file, change of the notebook, why)
    "a cell": (LEARNER, lambda n: n["cells"][1].update(source="import os"), CELLS_DIFFER),
    "a cell more": (SOLUTIONS, lambda n: n["cells"].append(n["cells"][1]), CELLS_DIFFER),
    "an id": (LEARNER, lambda n: n["cells"][1].update(id="a"), CELLS_DIFFER),
    "a tag": (SOLUTIONS, lambda n: n["cells"][1].update(metadata={"tags": ["nbval-skip"]}), CELLS_DIFFER),
    "run": (LEARNER, lambda n: n["cells"][1].update(execution_count=1), "has been run"),
    "no mark": (SOLUTIONS, lambda n: n["metadata"].pop("lesson"), "was not made by build.py"),
}
FILES = {  # what was done: (how, file that is stale, why)
    "a notebook is missing": (lambda c: (c / LEARNER[0]).unlink(), LEARNER, "is missing"),
    "a module is missing": (lambda c: (c / MODULE).unlink(), [MODULE], EXPORTS_DIFFER),
    "a new record": (lambda c: (c / "data/runs/quarter.json").write_bytes(b"{}"), BOTH, DEPENDS),
    "orphan notebook": (
        lambda c: shutil.copy(c / BOTH[1], c / "notebooks/01_old.ipynb"),
        ["notebooks/01_old.ipynb"],
        ORPHAN,
    ),
    "orphan module": (
        lambda c: shutil.copy(c / MODULE, c / "lessons_src/fromscratch/lesson_09.py"),
        ["lessons_src/fromscratch/lesson_09.py"],
        ORPHAN,
    ),
}


def find_stale(course, how, files, words, capsys):
    before = set(stale(course))  # lesson 3 was never built
    how()
    found = sorted(set(stale(course)) - before)
    assert [line.partition(": ")[0] for line in found] == sorted(files) and all(words in line for line in found), found
    assert machine.main(["--check"], course) == 1
    out, err = capsys.readouterr()
    assert all(line in out for line in found) and "make notebooks" in err
    if words not in (ORPHAN, EXPORTS_DIFFER):
        assert machine.changed(machine.everything(course)[0])


@pytest.mark.parametrize("change", TEXTS)
def test_check_finds_a_changed_file(change, course, capsys):
    file, old, new, files, words = TEXTS[change]
    find_stale(course, lambda: edit(course / file, old, new), files, words, capsys)


@pytest.mark.parametrize("change", CELLS_BY_HAND)
def test_check_finds_a_notebook_changed_by_hand(change, course, capsys):
    files, how, words = CELLS_BY_HAND[change]
    find_stale(course, lambda: edit_json(course / files[0], how), files, words, capsys)


@pytest.mark.parametrize("change", FILES)
def test_check_finds_files_missing_and_too_many(change, course, capsys):
    how, files, words = FILES[change]
    find_stale(course, lambda: how(course), files, words, capsys)


def test_what_a_lesson_does_not_use_leaves_it_alone(course):
    (course / "data/other.npz").write_bytes(b"others")
    (course / "data/js.npz").write_bytes(b"numbers")  # the text has the word json, and no js
    (course / "data/README.md").write_text("json quarter")
    (course / "lessons_src/lessonkit/train.py").write_text("")
    (course / "lessons_src/lessonkit/check/lesson_03.py").write_text("def other(answer): pass\n")
    edit(course / "lessons_src/lessons/03_light.py", "# # 3 · Light", "# # 3 · Lighter")
    assert not machine.changed(machine.everything(course)[0])


def test_a_lesson_depends_on_what_it_imports_from_fromscratch(course):
    two, three = machine.everything(course)
    before = machine.digest(two), machine.digest(three)
    edit(course / "lessons_src/fromscratch/lesson_02.py", "y * 2.0", "2.0 * y")
    assert machine.digest(two) == before[0] and machine.digest(three) != before[1]


def test_only_what_changed_is_built(course, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(machine, "build", lambda lesson: calls.append(lesson.stem))
    assert machine.main([], course) == 0 and calls == ["03_light"]
    (course / "requirements.txt").write_text("torch==2\n")
    assert machine.main([], course) == 0 and calls[1:] == ["02_tiny", "03_light"]
    assert machine.main(["02_tiny"], course) == 0 and calls[3:] == ["02_tiny"]
    assert machine.main(["04"], course) == 1 and len(calls) == 4
    assert "no lesson is called '04'. There are 02_tiny, 03_light." in capsys.readouterr().err


def by_hand(notebook):
    notebook["cells"][1]["source"] = ["import os\n", "mine = 1"]


EDITED = {
    "a cell": by_hand,
    "a cell more": lambda n: n["cells"].append({"cell_type": "markdown", "id": "x", "metadata": {}, "source": "mine"}),
    "a cell less": lambda n: n["cells"].pop(),
    "a foreign notebook": lambda n: n["metadata"].pop("lesson"),
}


@pytest.mark.parametrize("how", EDITED)
@pytest.mark.parametrize("path", BOTH, ids=["learner", "solutions"])
def test_an_edited_notebook_is_not_overwritten(how, path, course, capsys):
    edit_json(course / path, EDITED[how])
    before = (course / path).read_bytes()
    for arguments in (["02"], []):
        assert machine.main(arguments, course) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"{path}: its cells are not those that build.py wrote, so it is not overwritten. ")
        assert f"cp {path} work/mine_02_tiny.ipynb" in said and "lessons_src/lessons" in said
        assert (course / path).read_bytes() == before


def test_a_notebook_that_was_only_run_or_saved_again_counts_as_ours(course):
    def saved(notebook):
        for one in notebook["cells"]:
            one["source"] = one["source"].splitlines(keepends=True)
        notebook["metadata"]["language_info"]["version"] = "3.13"

    edit_json(course / BOTH[0], saved)
    machine.refuse_edited(course / BOTH[0], course)


# ------------------------------------------------------------------------------------------------------ recorded runs

RECORDS = '''# %% [markdown]
# # 2 · Tiny

# %%
import os
from lessonkit import data, runs
STEPS, RATES = 3, [0.1, 0.2]
twice = 2 * STEPS
digits = data.digits()
model = os.listdir(".")
print("never")

# %%
class Net:
    size = STEPS

def train(seed, rate):
    """Train."""
    return {"loss": rate * seed * Net.size * twice}

# %%
one = runs.load_or_run("one", train, seeds=range(STEPS), tolerance=0.1, rate=0.5)
model[0] = late = 5

# %% tags=["exercise"]
# Exercise 2.1 · ●○○○○ · 5 min
def answer():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %%
for rate in RATES:
    both = runs.load_or_run("two", train, seeds=[0], tolerance=0.1, rate=rate)
'''
STUB = """import json, os, sys
def load_or_run(name, function, *, seeds, tolerance, **arguments):
    mode, only = os.environ["LESSON_RUNS"], os.environ["LESSON_RUNS_ONLY"]
    print(json.dumps([mode, only, name, [function(seed, **arguments)["loss"] for seed in seeds]]))
    if name == os.environ.get("BREAK"):
        sys.exit(3)
"""


@pytest.fixture
def records(tmp_path):
    """Return a course whose lesson 2 records; its lessonkit is a stub, so that no torch is imported."""
    root = project(tmp_path, {"02_tiny.py": RECORDS, "03_light.py": "# %% [markdown]\n# # 3 · Light\n"})
    (root / "lessons_src/lessonkit").mkdir()
    (root / "lessons_src/lessonkit/__init__.py").write_text("")
    (root / "lessons_src/lessonkit/runs.py").write_text(STUB)
    (root / "lessons_src/lessonkit/data.py").write_text("def digits():\n    return [1]\n")
    return root


def test_the_recorded_part_of_a_lesson_is_a_script(records):
    two, three = machine.everything(records)
    names, script = machine.recorded(two)
    assert names == ["one", "two"] and machine.recorded(three) == ([], "")
    ast.parse(script)
    for kept in ("STEPS, RATES", "twice = 2", "data.digits()", "class Net", "def train", "def answer", "for rate in"):
        assert kept in script
    for left in ("listdir", "never", "late", "model[0]"):
        assert left not in script


def test_records_are_made_and_verified_by_the_lesson_itself(records, capfd, monkeypatch):
    lessons = machine.everything(records)
    machine.record(lessons, [], "verify")
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line[:3] for line in lines] == [["verify", "", "one"], ["verify", "", "two"], ["verify", "", "two"]]
    assert lines[0][3] == [0, 9.0, 18.0]
    assert machine.main(["--runs", "two"], records) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[0])[:2] == ["record", "two"]
    monkeypatch.setenv("BREAK", "one")
    assert machine.main(["--runs"], records) == 1
    assert "lessons_src/lessons/02_tiny.py: its recorded runs failed" in capfd.readouterr().err


def test_unknown_records_and_computed_names_are_refused(records, capsys):
    assert machine.main(["--runs", "three"], records) == 1
    assert capsys.readouterr().err == "no lesson records 'three'. There are: one, two.\n"
    edit(records / "lessons_src/lessons/02_tiny.py", '"two", train', 'f"t{rate}", train')
    refused(lambda: machine.recorded(machine.everything(records)[0]), 34, "from an expression", "Write the name there")
    edit(records / "lessons_src/lessons/02_tiny.py", "one = runs.load_or_run", "one = load_or_run")
    refused(lambda: machine.recorded(machine.everything(records)[0]), 22, "load_or_run", "write runs.load_or_run")

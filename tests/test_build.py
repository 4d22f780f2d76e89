"""coursebuild on a tiny course: what it makes, what it refuses in outputs, what it calls stale."""

import copy
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from coursebuild import budgets, command, digest, editions, execution, export, generated, source, sources, stale
from coursebuild.outputs import clean, compared
from tests.helpers import ROOT, python
from tests.toy import EXPORT, TITLE, edit, lesson, project, refused, whole

BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"

# ------------------------------------------------------------------------------------------ refused: what cells put out

TURN = "class check:\n    class YourTurn(Exception): pass\n"
CARD = "# Exercise 2.1 · ●○○○○ · 5 min\n"
TQDM = "from tqdm.auto import tqdm\n"
ADDRESS, BAR = "holds a memory address", "shows a progress bar"
UNTOUCHED = "in the untouched learner edition the cell raises"


def cells(rows):
    """Return the source of cells. rows: {id: (tag, code, ...)}."""
    texts = [f'# %% tags=["{tag}"] id="{name}"\n{code}' for name, (tag, code, *_) in rows.items()]
    return "".join(texts).replace('tags=[""] ', "")


RUNS = {  # id of the cell: (tag, code, line within the cell, words, way out)
    "raises": ("", "x = 1\ny = 2\nx / 0\n", 3, "the cell raises ZeroDivisionError: division by zero", None),
    "raises-between-marks": (
        "exercise",
        CARD + "if True:\n" + BEGIN + "    x = 1\n" + END + "1 / 0\n",
        6,
        "the cell raises ZeroDivisionError",
        None,
    ),
    "raises-folded": ("hide-input", "1\n1 / 0\n", 2, "the cell raises ZeroDivisionError", None),
    "no-python": ("", "x = 1\nreturn x\n", 2, "the cell raises SyntaxError", None),
    "does-not-raise": ("raises-exception", "1 + 1\n", 0, "raises-exception and does not raise", "Remove the tag"),
    "stderr": ("", "import sys\nprint('help', file=sys.stderr)\n", 0, "writes to stderr: 'help'", "Mend its cause"),
    "address": ("", "object()\n", 0, ADDRESS, "Show something else"),
    "printed-address": ("", "print(lambda: 0)\n", 0, ADDRESS, "Show something else"),
    "raised-address": ("raises-exception", "raise ValueError(object())\n", 0, ADDRESS, "Show something else"),
    "bar": ("", TQDM + "for _ in tqdm(range(3)): pass\n", 0, BAR, "nbval-ignore-output"),
    "endless-bar": ("", TQDM + "tqdm(iter([1]), desc='x').close()\n", 0, BAR, "nbval-ignore-output"),
    "container": (
        "exercise",
        CARD.replace("2.1", "2.2")
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
        "exercise",
        CARD.replace("2.1", "2.3") + "x = [\n" + BEGIN + "1\n" + END + "]\n",
        0,
        f"{UNTOUCHED} SyntaxError",
        "through a plain name",
    ),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return what a kernel answers to the cells of RUNS: {edition: {id: outputs}}. Two kernels for all of them."""
    root = tmp_path_factory.mktemp("ran")
    read = lesson(root, TITLE + "# %%\n" + TURN + cells(RUNS))
    editions_of = {}
    for edition in ("solutions", "learner"):
        notebook = editions.notebook(read, edition)
        execution.execute(read, notebook, root)
        editions_of[edition] = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    return editions_of


@pytest.mark.parametrize("wrong", [name for name in RUNS if RUNS[name][3]])
def test_a_wrong_output_is_refused_and_nothing_written(wrong, ran, tmp_path, monkeypatch):
    _, _, within, what, way_out = RUNS[wrong]
    read = lesson(tmp_path, TITLE + "# %%\n1\n" + cells({wrong: RUNS[wrong]}))
    answers = iter([ran["solutions"], ran["learner"]])

    def execute(read, notebook, folder, **settings):
        outputs = ran["solutions"] if settings else next(answers)
        for cell in notebook.cells:
            if cell.id in outputs:
                cell.outputs = copy.deepcopy(outputs[cell.id])
        return {1: 0.1, 2: 0.1}

    monkeypatch.setattr(editions, "execute", execute)
    line = 5 + within
    if way_out:
        refused(lambda: editions.build(read), line, what, way_out)
    else:
        with pytest.raises(source.LessonError, match=re.escape(f"02_tiny.py:{line}: {what}")):
            editions.build(read)
    assert not list(tmp_path.rglob("*.ipynb"))


def test_a_cell_that_hangs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "TIMEOUT", 1)
    read = lesson(tmp_path, TITLE + "# %%\nimport time\ntime.sleep(30)\n")
    refused(lambda: editions.build(read), 3, "ran for more than 1 s", "Make it smaller")


# ---------------------------------------------------------------------------------- refused: what the processor decides


def test_a_number_that_depends_on_the_processor_is_refused_with_both_texts(tmp_path):
    code = "import os\nprint('the same')\nprint('kernels:', os.environ.get('MKL_CBWR', 'its own'))\n"
    read = lesson(tmp_path, TITLE + "# %%\n1\n# %%\n" + code)
    texts = "Here it has 'kernels: its own', with other kernels of the math libraries 'kernels: COMPATIBLE'"
    refused(lambda: editions.build(read), 5, texts, "Round a number that moves to what holds, draw it, or assert it")
    assert not list(tmp_path.rglob("*.ipynb"))


SHOW = "from IPython.display import display\n"
PAIRS = {  # (tag of a cell, its code, whether nbval compares what it puts out); n differs with other kernels
    "a-line": ("", "print('a')\nprint(n)\n", True),
    "a-line-more": ("", "print('a' if n == '1' else 'a\\na')\n", True),
    "nothing": ("", "if n == '1': print(n)\n", True),
    "a-value": ("", "int(n)\n", True),
    "a-caption": ("", SHOW + "display({'text/plain': 'x', 'text/markdown': n}, raw=True)\n", True),
    "a-table": ("", SHOW + "display({'text/html': n}, raw=True)\n", True),
    "another-order": ("", "for one in sorted('12', reverse=n == '2'): display(one)\n", True),
    "an-errors-text": ("raises-exception", "raise ValueError(n)\n", True),
    "a-picture": ("", SHOW + "display({'text/plain': 'x', 'image/png': n}, raw=True)\n", False),
    "ignored": ("nbval-ignore-output", "print(n)\n", False),
    "the-same": ("", "print(1)\n", False),
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Return ({id: cell} of PAIRS as run here, as run with other kernels, ids of those that nbval then refuses)."""
    root = tmp_path_factory.mktemp("apart")
    start = "# %%\nimport os\nn = '2' if os.environ.get('MKL_CBWR') else '1'\n"
    read, runs = lesson(root, TITLE + start + cells(PAIRS)), []
    for settings in ({}, execution.OTHER_PROCESSOR):
        runs.append(editions.notebook(read, "solutions"))
        execution.execute(read, runs[-1], root, **settings)
    (root / "notebooks/solutions").mkdir(parents=True)
    nbformat.write(runs[0], root / "notebooks/solutions/02_tiny.ipynb")
    shutil.copy(ROOT / "conftest.py", root)
    command = "-m pytest -q --nbval --nbval-current-env -p no:cacheprovider --color=no --other-processor notebooks"
    output = subprocess.run([sys.executable, *command.split()], cwd=root, capture_output=True, text=True).stdout
    code = [cell for cell in runs[0].cells if cell.cell_type == "code"]
    failed = {code[int(number)].id for number in re.findall(r"^FAILED .*::Cell (\d+)", output, re.MULTILINE)}
    for run in runs:
        for cell, its_source in zip(run.cells, read.cells, strict=True):
            if cell.cell_type == "code":
                clean(read, cell, its_source)
    return *({cell.id: cell for cell in run.cells} for run in runs), failed


@pytest.mark.parametrize("pair", PAIRS)
def test_refused_is_what_nbval_compares(pair, apart):
    here, there, failed = apart
    assert (pair in failed) == PAIRS[pair][2] == (compared(here[pair]) != compared(there[pair]))


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
# And on. It reads no `data.others()`, [other.npz](../data/other.npz).

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

# %% [markdown] tags=["slide", "no-slide"]
# What the slides read.

# %% tags=["hide-input"]
from lessonkit import data, runs

def later():
    """Nobody calls it."""
    return data.numbers(), runs.note("quarter"), open("../data/limits.csv")

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
ON = "And on. It reads no `data.others()`, [other.npz](../data/other.npz)."
CACHES = shutil.ignore_patterns("__pycache__")
REAL_CHECK = ("__init__", "asking", "attempted", "misconceptions", "standing_in", "verdicts")
KIT = {  # a lessonkit without torch, whose import takes a second; the hook, what it imports and check are real
    "__init__.py": "from lessonkit import _hook\nfrom lessonkit.numbers import show\n\n_hook.install()\n",
    "numbers.py": """import math

LAST = ''


def show(label, value):
    \'\'\'Print it.\'\'\'
    print(f'{label} = {value}{LAST}')


def never():
    return 1
""",
    "_threads.py": "",
    "train.py": "import math\n",
    "check/core.py": """from lessonkit.check.verdicts import NotYet, accept


def reject(what, why=None):
    raise NotYet(what)


def misconceptions(rows):
    return rows
""",
    "check/probing.py": "import contextlib\n\nquiet = contextlib.nullcontext\n",
    "data.py": 'FILES = {"numbers": "json.npz", "others": "other.npz"}\n',
    "runs.py": "",
    "../lessons/02_tiny/checks.py": '''"""Checks of the tiny lesson."""
from lessonkit.check.declare import accept, misconceptions, reject

ROW = "it is tripled"
MISTAKES = misconceptions({"2.0 -> 3.0": ROW})

def scale(answer):
    if answer()([1, 1]) != [2, 2]:
        reject("wrong", MISTAKES)
    accept("Right: scale.")

def answer(given):
    accept("Right: answer.")
''',
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the root of a tiny course whose lesson 2 was built twice, and the bytes of both builds. Four kernels."""
    root = tmp_path_factory.mktemp("built")
    project(root, {"02_tiny": RICH, "03_light": LIGHT})
    kit = root / "lessons_src/lessonkit"
    (kit / "check").mkdir(parents=True)
    (kit / "course").mkdir()
    for path in [
        *(ROOT / "lessons_src/lessonkit").glob("_[a-z]*.py"),
        ROOT / "lessons_src/lessonkit/attempts.py",
        ROOT / "lessons_src/lessonkit/course/__init__.py",
        ROOT / "lessons_src/lessonkit/program.py",
        *(ROOT / f"lessons_src/lessonkit/check/{name}.py" for name in REAL_CHECK),
    ]:
        shutil.copy(path, root / path.relative_to(ROOT))
    for name, text in KIT.items():
        (kit / name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "lessons_src/coursebuild", root / "lessons_src/coursebuild", ignore=CACHES)
    (root / "data/runs").mkdir(parents=True)
    (root / "data/json.npz").write_bytes(b"numbers")  # the lesson's code has data.numbers
    (root / "data/other.npz").write_bytes(b"numbers")  # the lesson's prose has data.others and its name
    (root / "data/limits.csv").write_bytes(b"numbers")  # the lesson's code has its name
    (root / "requirements.txt").write_text("torch\n")
    builds = []
    for _ in range(2):
        assert command.main(["02"], root) == 0
        builds.append(
            {
                edition: editions.target(whole(root).lessons[0], edition).read_bytes()
                for edition in ("learner", "solutions")
            }
        )
        shutil.copytree(root / "notebooks", root / "first", dirs_exist_ok=True)
        shutil.rmtree(root / "notebooks")
    (root / "first").rename(root / "notebooks")
    return root, builds


@pytest.fixture
def tiny(built, tmp_path):
    """Return a copy of the built course that a test may change."""
    return shutil.copytree(built[0], tmp_path / "tiny")


@pytest.fixture(scope="module")
def notebooks(built):
    """Return {edition: its cells}."""
    return {edition: nbformat.reads(text.decode(), as_version=4) for edition, text in built[1][0].items()}


def cell(notebook, words):
    matching = [cell for cell in notebook.cells if words in cell.source]
    assert matching, words
    return matching[0]


def test_built_twice_byte_identical(built):
    assert built[1][0] == built[1][1]


def test_the_learner_gets_one_statement_for_a_solution(notebooks):
    source = cell(notebooks["learner"], "class Scale").source
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
    quiz = next(other for other in notebooks["learner"].cells if other.source.startswith("# Exercise 2.2"))
    assert quiz.source.splitlines()[1] == (  # with the name that the check below takes
        'raise check.YourTurn("2.2: replace this line by your answer: secret_answer = ...")'
    )
    assert cell(notebooks["learner"], "Why twice?").source == "Why twice?\n\n*Your answer:*\n\n" + ON


def test_the_solutions_edition_has_the_solution_without_marks(notebooks):
    source = cell(notebooks["solutions"], "class Scale").source
    assert "            secret_local = y * 2.0\n\n            return secret_local\n\n        return [" in source
    assert cell(notebooks["solutions"], "Why twice?").source == "Why twice?\n\nSecret words.\n\n" + ON.replace(
        "../", "../../"
    )
    assert "SOLUTION" not in json.dumps(notebooks["solutions"]) + json.dumps(notebooks["learner"])


def test_no_solution_leaks_into_the_learner_edition(built):
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "", built[1][0]["learner"].decode())  # ids and digests hold anything
    assert "secret_local" not in text and "Secret words" not in text and "41" not in text


def test_the_learner_edition_has_no_outputs_and_may_wait(notebooks):
    learner = notebooks["learner"]
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


def test_the_solutions_edition_was_run(notebooks):
    solutions = notebooks["solutions"]
    code = [c for c in solutions.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    assert {"text/plain", "text/html"} <= cell(solutions, "check.scale").outputs[0].data.keys()
    error = cell(solutions, "raise ValueError").outputs[0]
    assert (error.ename, error.evalue, error.traceback) == (
        "ValueError",
        "that is how it looks",
        ["ValueError: that is how it looks"],
    )


def test_timed_cells_store_nothing_and_are_not_compared(notebooks):
    timed = cell(notebooks["solutions"], "time.time()")
    assert timed.outputs == [] and timed.execution_count and timed.metadata.tags == ["timed", "nbval-ignore-output"]


def test_progress_bars_are_not_stored(notebooks):
    assert [out.get("text") for out in cell(notebooks["solutions"], "tqdm(range").outputs] == ["done\n"]


def test_pictures_carry_their_text_and_widgets_no_state(notebooks, built):
    picture = cell(notebooks["solutions"], "class Picture")
    assert picture.outputs[0].metadata == {"image/png": {"alt": "One dot."}}
    assert picture.outputs[0].data["text/plain"] == "One dot."
    assert picture.metadata == cell(notebooks["learner"], "class Picture").metadata == {}
    assert cell(notebooks["solutions"], "IntSlider").outputs[0].data == {"text/plain": "IntSlider(value=4)"}
    assert "widget" not in built[1][0]["solutions"].decode().replace("ipywidgets", "")


def test_metadata_is_fixed(notebooks):
    for edition, notebook in notebooks.items():
        assert notebook.metadata.language_info == {"name": "python"}
        assert set(notebook.metadata) == {"kernelspec", "language_info", "lesson"}
        assert notebook.metadata.lesson.source == "lessons_src/lessons/02_tiny"
        assert all(set(cell.metadata) <= {"tags", "mystnb", "jupyter"} for cell in notebook.cells), edition


def test_a_folded_cell_shows_a_line_without_an_answer(notebooks):
    for notebook in notebooks.values():
        folded = cell(notebook, "def later")
        assert folded.metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
        assert folded.source.startswith(f"{editions.FOLDED}\nfrom lessonkit import data")


def test_links_lead_out_of_the_deeper_folder(notebooks):
    learner, solutions = (notebooks[edition].cells[0].source for edition in ("learner", "solutions"))
    assert solutions == learner.replace("../", "../../")
    assert "(01_one.ipynb)" in solutions and solutions.count("../../") == 4


def test_fromscratch_has_the_solution_and_only_the_imports_it_needs(built):
    text = (built[0] / "lessons_src/fromscratch/tiny.py").read_text()
    assert text.startswith('"""What lesson 2 builds: LIMIT, Scale, quarter.\n')
    assert [line for line in text.splitlines() if "import" in line] == ["from abc import ABC", "import math"]
    assert "secret_local" in text and "Exercise" not in text and "SOLUTION" not in text and "def _half" in text


def test_fromscratch_loads_lazily_and_names_what_there_is(built):
    script = (
        "import sys, fromscratch\n"
        "assert dir(fromscratch) == ['LIMIT', 'Scale', 'dumps', 'fourth', 'quarter'], dir(fromscratch)\n"
        "assert not [name for name in sys.modules if name.startswith('fromscratch.')]\n"
        "from fromscratch import LIMIT\n"
        "assert LIMIT == 3 and 'fromscratch.light' not in sys.modules\n"
        "assert fromscratch.fourth(8) == 3 ** 0.5 and fromscratch.dumps(1) == '{\"a\": 1}'\n"
        "try: fromscratch._half\n"
        "except AttributeError as error: print(error)\n"
    )
    output = python("-c", script, env=execution.environment(built[0]))
    assert output == "fromscratch has no '_half'; the lessons export: LIMIT, Scale, dumps, fourth, quarter\n"


def test_an_import_wins_over_a_builtin_of_its_name(tmp_path):
    source = "# %%\nfrom math import pow\nimport os.path\n" + EXPORT + "def f(x):\n    return pow(len(x), 2), os.sep\n"
    text, public = export.exported(lesson(tmp_path, TITLE + source))
    assert "from math import pow\nimport os.path\n" in text and public == {"f": 6}


# ------------------------------------------------------------------------------------------------- staleness, editing


def stale_in(root):
    return stale.stale(sources.load(root))


def test_a_built_course_is_not_stale(tiny, capsys):
    assert [line for line in stale_in(tiny) if "03_light" not in line] == []  # lesson 3 was never built
    (tiny / "lessons_src/lessons/03_light/lesson.py").unlink()
    generated.write(whole(tiny))
    (only,) = whole(tiny).lessons
    assert [line.partition(": ")[2] for line in stale_in(tiny)] == ["its cells are not those of 02_tiny.py"] * 2
    for edition in ("learner", "solutions"):  # its last cell named the lesson that is gone
        change = {"source": editions.notebook(only, edition).cells[-1].source}
        edit_json(editions.target(only, edition), lambda notebook, new=change: notebook["cells"][-1].update(new))
    assert stale_in(tiny) == [] and not stale.changed(only)
    assert not (tiny / "lessons_src/fromscratch/light.py").exists(), "no lesson makes it any more"
    assert command.main(["--check"], tiny) == 0
    assert capsys.readouterr().out == "all notebooks are as their sources say\n"


def edit_json(path, change):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


BOTH = ["notebooks/02_tiny.ipynb", "notebooks/solutions/02_tiny.ipynb"]
LEARNER, SOLUTIONS, MODULE = BOTH[:1], BOTH[1:], "lessons_src/fromscratch/tiny.py"
SOURCE, HOUSE, OTHER = (
    "lessons_src/lessons/02_tiny/lesson.py",
    "lessons_src/lessonkit",
    "lessons_src/fromscratch/light.py",
)
OLD = ["notebooks/01_old.ipynb", "lessons_src/fromscratch/old.py"]
KNOWN, ANSWERS = f"{HOUSE}/course/02_tiny.json", f"{HOUSE}/course/solutions/02_tiny.json"
CELLS_DIFFER, DEPENDS = "its cells are not those of 02_tiny.py", "something that 02_tiny.py depends on has changed"
ORPHAN, DIFFERS = "no lesson makes it, delete it", "is not what the sources say. A build overwrites it: edit its source"


def edited(file, old, new):
    return lambda root: edit(root / file, old, new)


def in_notebook(path, change):
    return lambda root: edit_json(root / path[0], change)


CHANGES = {  # what was changed: (how, files that are stale, why)
    "source": (edited(SOURCE, "And on.", "And off."), [*BOTH, KNOWN], ""),
    "a comment in a blank": (edited(SOURCE, "y * 2.0", "y * 2.0  # why"), [*BOTH, MODULE, ANSWERS], ""),
    "edited by hand": (edited(KNOWN, "timed", "optional"), [KNOWN], DIFFERS),
    "check module": (edited("lessons_src/lessons/02_tiny/checks.py", '"Right: scale."', '"Right: it."'), BOTH, DEPENDS),
    "lessonkit": (edited(f"{HOUSE}/numbers.py", "{label} = ", "{label} is "), BOTH, DEPENDS),
    "the hook": (edited(f"{HOUSE}/_hook.py", "waiting = {}", "waiting = dict()"), BOTH, DEPENDS),
    "the machinery": (edited(f"{HOUSE}/check/core.py", "raise NotYet(what)", "raise NotYet(what, 1)"), BOTH, DEPENDS),
    "data": (edited("data/json.npz", "numbers", "others"), BOTH, DEPENDS),
    "requirements": (edited("requirements.txt", "torch", "torch==2"), BOTH, DEPENDS),
    "the builder": (edited("lessons_src/coursebuild/outputs.py", 'if "timed" in tags', "if tags"), BOTH, DEPENDS),
    "a module": (edited(OTHER, "dumps(x)", "dumps(y)"), [OTHER], DIFFERS),
    "no JSON": (edited(LEARNER[0], "{", "<"), LEARNER, "was not made by coursebuild"),
    "an id": (in_notebook(LEARNER, lambda n: n["cells"][1].update(id="a")), LEARNER, CELLS_DIFFER),
    "a tag": (
        in_notebook(SOLUTIONS, lambda n: n["cells"][1].update(metadata={"tags": ["nbval-skip"]})),
        SOLUTIONS,
        CELLS_DIFFER,
    ),
    "run": (in_notebook(LEARNER, lambda n: n["cells"][1].update(execution_count=1)), LEARNER, "has been run"),
    "no mark": (in_notebook(SOLUTIONS, lambda n: n["metadata"].pop("lesson")), SOLUTIONS, "was not made by"),
    "a notebook is missing": (lambda root: (root / LEARNER[0]).unlink(), LEARNER, "is missing"),
    "a module is missing": (lambda root: (root / MODULE).unlink(), [MODULE], DIFFERS),
    "a new record": (lambda root: (root / "data/runs/quarter.json").write_bytes(b"{}"), BOTH, DEPENDS),
    "orphan notebook": (lambda root: shutil.copy(root / BOTH[1], root / OLD[0]), OLD[:1], ORPHAN),
    "orphan module": (lambda root: shutil.copy(root / MODULE, root / OLD[1]), OLD[1:], ORPHAN),
}


@pytest.mark.parametrize("change", CHANGES)
def test_check_finds_what_is_stale(change, tiny, capsys):
    how, files, words = CHANGES[change]
    before = set(stale_in(tiny))  # lesson 3 was never built
    how(tiny)
    stale_files = sorted(set(stale_in(tiny)) - before)
    assert [line.partition(": ")[0] for line in stale_files] == sorted(files) and all(
        words in line for line in stale_files
    ), stale_files
    assert command.main(["--check"], tiny) == 1
    out, err = capsys.readouterr()
    assert all(line in out for line in stale_files) and "make notebooks" in err
    if set(files) & set(BOTH):
        assert stale.changed(whole(tiny).lessons[0])


def test_what_a_lesson_does_not_use_leaves_it_alone(tiny):
    (tiny / "data/other.npz").write_bytes(b"others")
    (tiny / "data/js.npz").write_bytes(b"numbers")
    (tiny / "data/json.csv").write_bytes(b"numbers")  # the code has the word json
    (tiny / "data/runs/numbers.json").write_bytes(b"{}")
    (tiny / "data/README.md").write_text("json quarter")
    (tiny / "lessons_src/lessonkit/train.py").write_text("")
    (tiny / "lessons_src/lessons/03_light/checks.py").write_text("def other(answer): pass\n")
    for name in ("command", "records"):
        edit(tiny / f"lessons_src/coursebuild/{name}.py", "import sys", "import re, sys")
    edit(tiny / "lessons_src/lessons/03_light/lesson.py", "# # 3 · Light\n", "# # 3 · Light\n#\n# More text.\n")
    assert not stale.changed(whole(tiny).lessons[0])


NEVER_SHOWN = {  # what was changed: (file, old text, new text)
    "a comment": ("lessonkit/numbers.py", "import math", "import math  # why"),
    "a function's docstring": ("lessonkit/numbers.py", "Print it.", "Show it."),
    "what nothing calls": ("lessonkit/numbers.py", "return 1", "return 2"),
    "what a wrong answer is told": ("lessons/02_tiny/checks.py", '"wrong"', '"not right"'),
    "a misconception": ("lessons/02_tiny/checks.py", "2.0 -> 3.0", "2.0 -> 4.0"),
    "what the builder says": ("coursebuild/outputs.py", "Show something else.", "Show another thing."),
}


@pytest.mark.parametrize("change", NEVER_SHOWN)
def test_what_no_notebook_stores_leaves_the_lessons_alone(change, tiny):
    file, old, new = NEVER_SHOWN[change]
    edit(tiny / "lessons_src" / file, old, new)
    assert not stale.changed(whole(tiny).lessons[0])


def test_a_lesson_depends_on_what_it_imports_from_fromscratch(tiny):
    two, three = whole(tiny).lessons
    before = digest.digest(two), digest.digest(three)
    edit(tiny / "lessons_src/fromscratch/tiny.py", "y * 2.0", "2.0 * y")
    assert digest.digest(three) == before[1], "it imports another name"
    edit(tiny / "lessons_src/fromscratch/tiny.py", "return x / 2", "return 0.5 * x")
    assert digest.digest(two) == before[0] and digest.digest(three) != before[1], "which quarter needs"


def test_only_what_changed_is_built(tiny, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(editions, "build", lambda lesson: calls.append(lesson.stem) or [])
    assert command.main([], tiny) == 0 and calls == ["03_light"]
    (tiny / "requirements.txt").write_text("torch==2\n")
    assert command.main([], tiny) == 0 and calls[1:] == ["02_tiny", "03_light"]
    assert command.main(["02_tiny"], tiny) == 0 and calls[3:] == ["02_tiny"]
    assert command.main(["04"], tiny) == 1 and len(calls) == 4
    assert "no lesson is called '04'. There are 02_tiny, 03_light." in capsys.readouterr().err


def by_hand(notebook):
    notebook["cells"][1]["source"] = ["import os\n", "mine = 1"]


EDITED = {"a cell": by_hand, "a foreign notebook": lambda n: n["metadata"].pop("lesson")}


@pytest.mark.parametrize("how", EDITED)
@pytest.mark.parametrize("path", BOTH, ids=["learner", "solutions"])
def test_an_edited_notebook_is_not_overwritten(how, path, tiny, capsys):
    edit_json(tiny / path, EDITED[how])
    before = (tiny / path).read_bytes()
    (tiny / "lessons_src/lessons/03_light/lesson.py").unlink()  # it was never built, and would be now
    for arguments in (["02"], []):
        assert command.main(arguments, tiny) == 1
        output = capsys.readouterr().err
        assert output.startswith(f"{path}: its cells are not those that coursebuild wrote, so it is not overwritten. ")
        assert f"cp {path} work/mine_02_tiny.ipynb" in output and "lessons_src/lessons" in output
        assert (tiny / path).read_bytes() == before

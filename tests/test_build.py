"""coursebuild on a tiny course: what it makes, what it refuses in outputs, what it calls stale, what it builds anew."""

import copy
import difflib
import hashlib
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from coursebuild import digest, editions, generated, manifest, notebooks, source
from coursebuild.__main__ import main
from lessonkit import course
from tests.helpers import ROOT, python
from tests.toy import (
    BEGIN,
    BUILT,
    CARD,
    END,
    EXERCISE,
    EXPORT,
    TITLE,
    build,
    edit,
    lesson,
    project,
    refused,
    rendered,
    whole,
)

# ------------------------------------------------------------------------------------------------------ what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the root of a tiny course whose lesson 2 was built. Three kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CI", raising=False)  # a slow machine is no fault of the builder
        return build(tmp_path_factory.mktemp("built"))


@pytest.fixture
def tiny(built, tmp_path):
    """Return a copy of the built course that a test may change."""
    return shutil.copytree(built, tmp_path / "tiny", ignore=shutil.ignore_patterns("__pycache__"))


def test_what_is_built_is_what_is_stored(built):
    lines = difflib.unified_diff(*(text.splitlines() for text in (BUILT.read_text("utf-8"), rendered(built))), n=2)
    differs = "\n".join(lines)
    assert not differs, (
        f"{differs}\nIf that is what you want: .venv/bin/python -m tests.toy, and commit what it changes."
    )


def test_no_solution_is_in_sight_of_a_learner(built):
    (two, _) = whole(built).lessons
    seen = [two.notebook("learner"), built / manifest.FOLDER / "02_tiny.json"]
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "", "".join(path.read_text() for path in seen))  # digests hold anything
    assert not re.search(r"secret_local|Secret words|\b41\b|SOLUTION", text)
    assert "denominator" not in two.notebook("learner").read_text(), "the reasons are the kit's alone"


def test_the_manifest_holds_a_lesson_and_its_solutions_lie_apart(built):
    (two, _) = whole(built).lessons
    folder = built / manifest.FOLDER
    stored = course.read(folder / "02_tiny.json")
    first, second = stored.exercises
    assert (first.optional, first.hint, first.answers) == (False, "Twice.", {"Scale": "scale"})
    assert (second.optional, second.hint, second.answers) == (True, "", {})
    assert [section.optional for section in stored.sections] == [False, True] and stored.core == [first]
    assert stored.sections[0].aside == pytest.approx(1.7 * 2 + 3 * 4 / 60, abs=0.01), "counted, and not in the core"
    assert "...  # your answer" in first.task and "Exercise" not in first.task
    assert stored.questions[0].options[0] == {
        "text": "zeros",
        "reason": "Look at the denominator: $0/0$.",
        "right": False,
    }
    assert course.solved("02_tiny", folder) == manifest.lesson(two)


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
    output = python("-c", script, env=source.environment(built))
    assert output == "fromscratch has no '_half'; the lessons export: LIMIT, Scale, dumps, fourth, quarter\n"


# ------------------------------------------------------------------------------------------ refused: what cells put out

TQDM = "from tqdm.auto import tqdm\n"
ADDRESS, BAR = "holds a memory address", "shows a progress bar"
UNTOUCHED = "in the untouched learner edition the cell raises"


def cells(rows):
    """Return the source of cells. rows: {id: (tag, code, ...)}."""
    texts = [f'# %% tags=["{tag}"] id="{name}"\n{code}' for name, (tag, code, *_) in rows.items()]
    return "".join(texts).replace('tags=[""] ', "")


RUNS = {  # id of the cell: (tag, code, line within the cell, words, way out)
    "raises": ("", "x = 1\ny = 2\nx / 0\n", 3, "the cell raises ZeroDivisionError: division by zero", ""),
    "raises-between-marks": (
        "exercise",
        f"{CARD}if True:\n{BEGIN}    x = 1\n{END}1 / 0\n",
        6,
        "the cell raises ZeroDivisionError",
        "",
    ),
    "raises-folded": ("hide-input", "1\n1 / 0\n", 2, "the cell raises ZeroDivisionError", ""),
    "no-python": ("", "x = 1\nreturn x\n", 2, "the cell raises SyntaxError", ""),
    "does-not-raise": ("raises-exception", "1 + 1\n", 0, "raises-exception and does not raise", "Remove the tag"),
    "stderr": ("", "import sys\nprint('help', file=sys.stderr)\n", 0, "writes to stderr: 'help'", "Mend its cause"),
    "address": ("", "object()\n", 0, ADDRESS, "Show something else"),
    "printed-address": ("", "print(lambda: 0)\n", 0, ADDRESS, "Show something else"),
    "raised-address": ("raises-exception", "raise ValueError(object())\n", 0, ADDRESS, "Show something else"),
    "bar": ("", TQDM + "for _ in tqdm(range(3)): pass\n", 0, BAR, "nbval-ignore-output"),
    "endless-bar": ("", TQDM + "tqdm(iter([1]), desc='x').close()\n", 0, BAR, "nbval-ignore-output"),
    "container": (
        "exercise",
        f"{CARD.replace('2.1', '2.2')}kept = {{}}\ndef f():\n{BEGIN}    return 1\n{END}"
        "try:\n    kept['f'] = f()\nexcept check.YourTurn:\n    pass\n",
        0,
        "",
        "",
    ),
    "reads-container": ("", "kept['f']\n", 0, f"{UNTOUCHED} KeyError", "through a plain name"),
    "learner-syntax": (
        "exercise",
        f"{CARD.replace('2.1', '2.3')}x = [\n{BEGIN}1\n{END}]\n",
        0,
        f"{UNTOUCHED} SyntaxError",
        "through a plain name",
    ),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return what a kernel answers to the cells of RUNS: {edition: {id: outputs}}. Two kernels for all of them."""
    root = tmp_path_factory.mktemp("ran")
    turn = "# %%\nclass check:\n    class YourTurn(Exception): pass\n"
    read, outputs = lesson(root, TITLE + turn + cells(RUNS)), {}
    for edition in editions.EDITIONS:
        book = editions.notebook(read, edition)
        notebooks.execute(read, book, root)
        outputs[edition] = {cell.id: cell.outputs for cell in book.cells if cell.cell_type == "code"}
    return outputs


@pytest.mark.parametrize("wrong", [name for name in RUNS if RUNS[name][3]])
def test_a_wrong_output_is_refused_and_nothing_written(wrong, ran, tmp_path, monkeypatch):
    _, _, within, what, way_out = RUNS[wrong]
    read = lesson(tmp_path, TITLE + "# %%\n1\n" + cells({wrong: RUNS[wrong]}))
    answers = iter([ran["solutions"], ran["learner"]])

    def execute(read, book, folder, **settings):
        outputs = ran["solutions"] if settings else next(answers)
        for cell in book.cells:
            if cell.id in outputs:
                cell.outputs = copy.deepcopy(outputs[cell.id])
        return {1: 0.1, 2: 0.1}

    monkeypatch.setattr(editions, "execute", execute)
    if way_out:
        refused(lambda: editions.build(read), 5 + within, what, way_out)
    else:
        with pytest.raises(source.LessonError, match=re.escape(f"02_tiny/lesson.py:{5 + within}: {what}")):
            editions.build(read)
    assert not list(tmp_path.rglob("*.ipynb"))


ENDS = {  # what a cell does: (its code, what is said)
    "hangs": ("import time\ntime.sleep(30)\n", "the cell ran for more than 1 s. Make it smaller."),
    "dies": ("import os; os._exit(1)\n", "the kernel died in this cell. Look for an exit, or too much memory."),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_cell_that_hangs_or_kills_its_kernel_is_named_in_one_line(how, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "TIMEOUT", 1 if how == "hangs" else 60)
    root = project(tmp_path, {"02_tiny": f"{TITLE}# %%\n1\n# %%\n{ENDS[how][0]}# %%\n2\n"})
    assert main([], root) == 1
    assert capsys.readouterr() == ("", f"lessons_src/lessons/02_tiny/lesson.py:5: {ENDS[how][1]}\n")


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


def test_refused_is_what_nbval_compares(tmp_path):
    start = "# %%\nimport os\nn = '2' if os.environ.get('MKL_CBWR') else '1'\n"
    read, runs = lesson(tmp_path, TITLE + start + cells(PAIRS)), []
    for settings in ({}, notebooks.OTHER_PROCESSOR):
        runs.append(editions.notebook(read, "solutions"))
        notebooks.execute(read, runs[-1], tmp_path, **settings)
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    nbformat.write(runs[0], tmp_path / "notebooks/solutions/02_tiny.ipynb")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    command = "-m pytest -q --nbval --nbval-current-env -p no:cacheprovider --color=no --other-processor notebooks"
    output = subprocess.run([sys.executable, *command.split()], cwd=tmp_path, capture_output=True, text=True).stdout
    code = [cell for cell in runs[0].cells if cell.cell_type == "code"]
    failed = {code[int(number)].id for number in re.findall(r"^FAILED .*::Cell (\d+)", output, re.MULTILINE)}
    for run in runs:
        for cell, its_source in editions._code(read, run):
            notebooks.clean(read, cell, its_source)
    here, there = ({cell.id: notebooks.compared(cell) for cell in run.cells} for run in runs)
    assert failed == {name for name in PAIRS if here[name] != there[name]} == {name for name in PAIRS if PAIRS[name][2]}


# ----------------------------------------------------------------------------------------------------------- staleness

BOTH = ["notebooks/02_tiny.ipynb", "notebooks/solutions/02_tiny.ipynb"]
LEARNER, SOLUTIONS, MODULE = BOTH[:1], BOTH[1:], "lessons_src/fromscratch/tiny.py"
SOURCE, OTHER, OLD = "lessons/02_tiny/lesson.py", "lessons_src/fromscratch/light.py", "notebooks/01_old.ipynb"
OLD_MODULE = "lessons_src/fromscratch/old.py"
KNOWN, ANSWERS = (f"lessons_src/lessonkit/course/{name}02_tiny.json" for name in ("", "solutions/"))
DEPENDS = "something that 02_tiny depends on has changed"
CELLS_DIFFER, ORPHAN = "its cells are not those of 02_tiny", "no lesson makes it, delete it"
DIFFERS = "is not what the sources say. A build overwrites it: edit its source"


def wrong_in(root):
    """Return {path below root: why} of what is stale; lesson 3 was never built."""
    found = {path.relative_to(root).as_posix(): why for path, why in generated.wrong(whole(root)).items()}
    return {path: why for path, why in found.items() if path.partition("03_")[2] != "light.ipynb"}


def edit_json(path, change):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


EDITS = {  # what is changed: (file in lessons_src, old text, new text, files that are stale, why)
    "the source": (SOURCE, "And on.", "And off.", [*BOTH, KNOWN], ""),
    "a comment in a blank": (SOURCE, "y * 2.0", "y * 2.0  # why", [MODULE, ANSWERS, *BOTH], ""),
    "what a right answer is told": ("lessons/02_tiny/checks.py", '"Right: scale."', '"Right: it."', BOTH, DEPENDS),
    "what it shows with": ("lessonkit/toy.py", "{label} = ", "{label} is ", BOTH, DEPENDS),
    "a name that this reads": ("lessonkit/toy.py", "LAST = ''", "LAST = '.'", BOTH, DEPENDS),
    "the builder": ("coursebuild/notebooks.py", 'if "timed" in tags', "if tags", BOTH, DEPENDS),
    "requirements": ("../requirements.txt", "torch", "torch==2", BOTH, DEPENDS),
    "a file that it names": ("../data/limits.csv", "numbers", "others", BOTH, DEPENDS),
    "data that it reads": ("../data/digits.npz", "numbers", "others", BOTH, DEPENDS),
    "data that its prose names": ("../data/words.txt.gz", "numbers", "others", [], ""),
    "the manifest, by hand": (f"../{KNOWN}", "timed", "optional", [KNOWN], DIFFERS),
    "a module, by hand": (f"../{OTHER}", "dumps(x)", "dumps(y)", [OTHER], DIFFERS),
    "a notebook, by hand": (f"../{LEARNER[0]}", "And on.", "And off.", LEARNER, CELLS_DIFFER),
    "a notebook, past reading": (f"../{LEARNER[0]}", "{", "<", LEARNER, "was not made by coursebuild"),
    "a comment": ("lessonkit/toy.py", "import math", "import math  # why", [], ""),
    "a docstring": ("lessonkit/toy.py", "Print it.", "Show it.", [], ""),
    "what nothing calls": ("lessonkit/toy.py", "return 1", "return 2", [], ""),
    "what a wrong answer is told": ("lessons/02_tiny/checks.py", '"wrong"', '"not right"', [], ""),
    "what the builder refuses": ("coursebuild/notebooks.py", "Mend its cause.", "Mend it.", [], ""),
    "its command line": ("coursebuild/__main__.py", "import sys", "import re, sys", [], ""),
    "what no cell calls in the kit": ("lessonkit/train.py", "import math", "import math, re", [], ""),
}
CHANGES = (
    {  # what is changed: (how, files that are stale, why)
        "an id": (
            lambda root: edit_json(root / LEARNER[0], lambda n: n["cells"][1].update(id="a")),
            LEARNER,
            CELLS_DIFFER,
        ),
        "a tag": (
            lambda root: edit_json(root / BOTH[1], lambda n: n["cells"][1].update(metadata={"tags": ["nbval-skip"]})),
            SOLUTIONS,
            CELLS_DIFFER,
        ),
        "run": (
            lambda root: edit_json(root / BOTH[0], lambda n: n["cells"][1].update(execution_count=1)),
            LEARNER,
            "has been run",
        ),
        "no mark": (
            lambda root: edit_json(root / BOTH[1], lambda n: n["metadata"].pop("lesson")),
            SOLUTIONS,
            "not made by",
        ),
        "a notebook is missing": (lambda root: (root / LEARNER[0]).unlink(), LEARNER, "is missing"),
        "a module is missing": (lambda root: (root / MODULE).unlink(), [MODULE], DIFFERS),
        "a new record": (lambda root: (root / "data/runs/quarter.json").write_bytes(b"{}"), BOTH, DEPENDS),
        "another lesson's record": (lambda root: (root / "data/runs/x.json").write_bytes(b"{}"), [], ""),
        "orphan notebook": (lambda root: shutil.copy(root / BOTH[1], root / OLD), [OLD], ORPHAN),
        "orphan module": (
            lambda root: shutil.copy(root / MODULE, root / f"{MODULE[:-7]}old.py"),
            [f"{MODULE[:-7]}old.py"],
            ORPHAN,
        ),
    }
    | {  # fmt: skip
        what: (lambda root, file=file, old=old, new=new: edit(root / "lessons_src" / file, old, new), files, why)
        for what, (file, old, new, files, why) in EDITS.items()
    }
)


@pytest.mark.parametrize("what", CHANGES)
def test_check_finds_what_a_change_makes_stale_and_nothing_else(what, tiny, capsys):
    how, files, words = CHANGES[what]
    how(tiny)
    found = wrong_in(tiny)
    assert sorted(found) == sorted(files) and all(words in why for why in found.values()), found
    mine = [f"{path}: {why}" for path, why in found.items() if path != OTHER]
    assert main(["--check", "02"], tiny) == int(bool(mine))
    out, err = capsys.readouterr()
    assert out.splitlines() == (mine or ["all notebooks are as their sources say"])
    assert ('make notebooks ARGS="02"' in err) == bool(mine)


def test_a_lesson_is_removed_with_its_folder_and_check_names_what_a_build_would_change(tiny):
    shutil.rmtree(tiny / "lessons_src/lessons/03_light")
    gone = [OTHER, *(f"{manifest.FOLDER}/{name}03_light.json" for name in ("", "solutions/"))]
    leads = {path: CELLS_DIFFER for path in BOTH}  # its last cell names the lesson that is gone
    package = {"lessons_src/fromscratch/__init__.py": DIFFERS}
    assert wrong_in(tiny) == dict.fromkeys(gone, ORPHAN) | package | leads
    generated.write(whole(tiny))
    assert wrong_in(tiny) == leads


def test_a_lesson_depends_on_what_it_imports_from_fromscratch(tiny):
    two, three = whole(tiny).lessons
    before = digest.digest(two), digest.digest(three)
    edit(tiny / MODULE, "y * 2.0", "2.0 * y")
    assert digest.digest(three) == before[1], "it imports another name"
    edit(tiny / MODULE, "return x / 2", "return 0.5 * x")
    assert digest.digest(two) == before[0] and digest.digest(three) != before[1], "which quarter needs"


EVERY_KIND = """
import math as m
def f(x, *, width: int = 3) -> str:
    return f"{x:>{width}} {x!r}" + "a" f"b{x=}"
class C(object, metaclass=type):
    x: int = -1e-5
    y = lambda a, /, *b, **c: (a, *b)
"""


def test_the_digest_of_a_definition_is_the_same_with_every_python():
    text = "".join(part.text for part in digest._module("kit", EVERY_KIND).parts)
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == "12bde02b"


def test_only_what_changed_is_built(tiny, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(editions, "build", lambda lesson: calls.append(lesson.stem) or [])
    assert main([], tiny) == 0 and calls == ["03_light"]
    (tiny / "requirements.txt").write_text("torch==2\n")
    assert main([], tiny) == 0 and calls[1:] == ["02_tiny", "03_light"]
    assert main(["02_tiny"], tiny) == 0 and calls[3:] == ["02_tiny"]
    assert main(["04"], tiny) == 1 and len(calls) == 4
    assert "no lesson is called '04'. There are 02_tiny, 03_light." in capsys.readouterr().err


EDITED = {
    "a cell": lambda n: n["cells"][1].update(source=["import os\n", "mine = 1"]),
    "a foreign notebook": lambda n: n["metadata"].pop("lesson"),
}


@pytest.mark.parametrize("how, path", list(zip(EDITED, BOTH, strict=True)))
def test_an_edited_notebook_is_not_overwritten(how, path, tiny, capsys):
    edit_json(tiny / path, EDITED[how])
    before = (tiny / path).read_bytes()
    assert main(["02"], tiny) == 1
    output = capsys.readouterr().err
    assert output.startswith(f"{path}: its cells are not those that coursebuild wrote, so it is not overwritten. ")
    assert f"cp {path} work/mine_02_tiny.ipynb" in output and "lessons_src/lessons" in output
    assert (tiny / path).read_bytes() == before


# ------------------------------------------------------------------------------------------------------ broken lessons

SOUND = {
    "01_one": f"# %% [markdown]\n# # 1 · One\n{EXPORT}early = 1\n",
    "02_two": TITLE + EXPORT + "middle = 2\n",
    "03_three": f"# %% [markdown]\n# # 3 · Three\n# %%\nfrom fromscratch import early, middle\n{EXPORT}late = 1\n",
}
ROOM = "lessons_src/lessons"
BROKEN = {  # what is wrong: ({lesson: its new source}, the lessons that are built all the same, what is said)
    "a lesson": (
        {"02_two": SOUND["02_two"] + "# %% tags=['oops']\n1\n"},
        ["01_one", "03_three"],
        f"{ROOM}/02_two/lesson.py:5: \"# %% tags=['oops']\" is not how a cell begins. Write",
    ),
    "a name that is taken": (
        {"03_three": SOUND["03_three"].replace("late = 1", "early = 1")},
        ["02_two"],
        f"{ROOM}/03_three/lesson.py:5: 'early' is exported by lesson 01 already ({ROOM}/01_one/lesson.py:3). Rename",
    ),
    "a module's name": (
        {"03_three": SOUND["03_three"].replace("late = 1", "two = 1")},
        ["01_one", "02_two"],
        f"{ROOM}/03_three/lesson.py:5: 'two' is what the module fromscratch.two is called. Rename the export.",
    ),
    "a number that two have": (
        {"02_twin": TITLE},
        ["01_one", "03_three"],
        f"{ROOM}/02_two/lesson.py:1: 02_twin has the number 02 already. Rename one of them.",
    ),
    "a name that two have": (
        {"04_two": TITLE.replace("2", "4")},
        ["01_one", "03_three"],
        f"{ROOM}/04_two/lesson.py:1: 02_two has the name two already. Rename one of them.",
    ),
    "a check cell": (
        {"02_two": SOUND["02_two"] + EXERCISE + '# %% tags=["check"]\n1\n'},
        ["01_one", "03_three"],
        f"{ROOM}/02_two/lesson.py:11: a check cell has one line, check.NAME(ANSWER). Write just that.",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_lesson_stops_its_own_build_and_no_other(what, tmp_path, monkeypatch, capsys):
    calls, package = [], tmp_path / "lessons_src/fromscratch"
    monkeypatch.setattr(editions, "build", lambda lesson: calls.append(lesson.stem) or [])
    assert main([], project(tmp_path, SOUND)) == 0 and calls == list(SOUND)
    before = {path.name: path.read_text() for path in package.glob("*.py")}
    change, others, message = BROKEN[what]
    assert main([], project(tmp_path, change)) == 1 and calls[3:] == others
    assert capsys.readouterr().err.startswith(message)
    after = {path.name: path.read_text() for path in package.glob("*.py")}
    assert after == before, "the others still find what it exported when it was whole"


# -------------------------------------------------------------------------------------------------------------- budget

TIMES = {  # what takes too long: (seconds of the cells in the solutions edition, in the learner edition, place, words)
    "a cell": ([0.1, 12.34], [0.1, 0.1], 5, "in the solutions edition the cell takes 12.3 s, at most 10 s"),
    "a learner's cell": ([0.1, 0.1], [11, 0.1], 3, "in the learner edition the cell takes 11.0 s, at most 10 s"),
    "the first output": ([2, 3], [0.1, 0.1], 1, "the solutions edition shows nothing for 5.0 s, at most 4 s"),
}


@pytest.mark.parametrize("what", TIMES)
def test_what_is_over_the_budget_is_written_and_fails_in_ci_alone(what, tmp_path, capsys, monkeypatch):
    solutions, learner, line, words = TIMES[what]

    def execute(read, book, folder, **settings):
        book.cells[2].outputs = [nbformat.v4.new_output("stream", name="stdout", text="2\n")]
        return dict(enumerate([0, 0] if settings else next(answers), 1))

    monkeypatch.setattr(editions, "execute", execute)
    root = project(tmp_path, {"02_tiny": TITLE + "# %%\n1\n# %%\n2\n"})
    for ci in ("true", None):
        monkeypatch.setenv("CI", "true") if ci else monkeypatch.delenv("CI")
        answers = iter([solutions, learner])
        assert main(["02"], root) == int(bool(ci))
        out, err = capsys.readouterr()
        (told,) = [text for text in (err if ci else out).splitlines() if words in text]
        assert told.startswith(f"lessons_src/lessons/02_tiny/lesson.py:{line}: OVER BUDGET: ") and told.endswith(
            "later."
        )
        assert "02_tiny: solutions " in out and bool(err) == bool(ci)
        assert len(list((root / "notebooks").rglob("02_tiny.ipynb"))) == 2, "the notebooks are right, only slow"

"""coursebuild on a tiny course: what it makes, what it refuses in outputs, what it calls stale, what it builds anew."""

import copy
import difflib
import re
import shutil

import nbformat
import pytest

from coursebuild import digest, editions, generated, manifest
from coursebuild.__main__ import main
from lessonkit import course
from tests.toy import BEGIN, BUILT, CARD, END, EXPORT, TITLE, build, edit, lesson, project, refused, rendered, whole

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


def test_the_manifest_holds_a_lesson_and_no_solution_is_in_sight_of_a_learner(built):
    (two, _) = whole(built).lessons
    folder = built / manifest.FOLDER
    first, second = course.read(folder / "02_tiny.json").exercises
    assert (first.hint, first.answers, second.optional) == ("Twice.", {"Scale": "scale"}, True)
    assert course.solved("02_tiny", folder) == manifest.lesson(two)
    seen = [two.notebook("learner"), folder / "02_tiny.json"]
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "", "".join(path.read_text() for path in seen))  # digests hold anything
    assert not re.search(r"secret_local|Secret words|\b41\b|SOLUTION", text)
    assert "denominator" not in two.notebook("learner").read_text(), "the reasons are the kit's alone"


# ------------------------------------------------------------------------------------------ refused: what cells put out


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


ERROR = nbformat.v4.new_output("error", ename="KeyError", evalue="There is no f.", traceback=["Cell In[1], line 4"])
EXERCISED = f"{CARD}if True:\n{BEGIN}    x = 1\n{END}x['f']\n"
ADDRESS = "<function <lambda> at 0x7f2c1d0e>"
BAR = nbformat.v4.new_output("display_data", {"text/plain": "  0%|          | 0/3 [00:00<?, ?it/s]"})
# (tag, code, line, words, way out, outputs of each run). The solutions run first, then with other kernels if they show
# anything, then the learner edition.
REFUSED = {
    "raises": ("exercise", EXERCISED, 5, "the cell raises KeyError: There is no f", "", [ERROR]),
    "does not raise": ("raises-exception", "1 + 1\n", 5, "tagged raises-exception and does not raise", "Remove", []),
    "stderr": ("timed", "1\n", 5, "the cell writes to stderr: 'help'", "Mend its cause", [stream("help", "stderr")]),
    "an address": ("export", "1\n", 5, "the output holds a memory address", "Show something else", [stream(ADDRESS)]),
    "a bar": ("export", "1\n", 5, "the cell shows a progress bar", "Add the tag nbval-ignore-output", [BAR]),
    "a blank's container": ("export", "1\n", 5, "edition the cell raises KeyError", "a plain name", [], [ERROR]),
    "the processor": (
        "export",
        "1\n",
        5,
        "Here it has 'sum 1', with other kernels of the math libraries 'sum 2'",
        "Round a number that moves to what holds, draw it, or assert it",
        [stream("the same\nsum 1")],
        [stream("the same\nsum 2")],
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_wrong_output_is_refused_and_nothing_written(wrong, tmp_path, monkeypatch):
    tag, code, line, what, way_out, *outputs = REFUSED[wrong]
    read = lesson(tmp_path, f'{TITLE}# %%\n1\n# %% tags=["{tag}"]\n{code}')
    runs = iter(outputs)

    def execute(read, book, folder, **settings):
        book.cells[-2].outputs = copy.deepcopy(next(runs))
        return {1: 0.1, 2: 0.1}

    monkeypatch.setattr(editions, "execute", execute)
    refused(lambda: editions.build(read), line, what, way_out)
    assert not list(tmp_path.rglob("*.ipynb"))


# ----------------------------------------------------------------------------------------------------------- staleness

BOTH = ["notebooks/02_tiny.ipynb", "notebooks/solutions/02_tiny.ipynb"]
LEARNER, MODULE = BOTH[:1], "lessons_src/fromscratch/tiny.py"
SOURCE, OTHER = "lessons/02_tiny/lesson.py", "lessons_src/fromscratch/light.py"
KNOWN, ANSWERS = (f"lessons_src/lessonkit/course/{name}02_tiny.json" for name in ("", "solutions/"))
DEPENDS = "something that 02_tiny depends on has changed"
CELLS_DIFFER, ORPHAN = "its cells are not those that coursebuild wrote", "no lesson makes it, delete it"
DIFFERS = "is not what the sources say. A build overwrites it: edit its source"


def wrong_in(root):
    """Return {path below root: why} of what is stale; lesson 3 was never built."""
    found = {path.relative_to(root).as_posix(): why for path, why in generated.wrong(whole(root)).items()}
    return {path: why for path, why in found.items() if path.partition("03_")[2] != "light.ipynb"}


RUN = '"execution_count": null'
CHANGES = {  # what is changed: (file in lessons_src, old text, new text, files that are stale, why)
    # Without an old text the file is new.
    "the source": (SOURCE, "And on.", "And off.", [*BOTH, KNOWN], ""),
    "what a right answer is told": ("lessons/02_tiny/checks.py", '"Right: scale."', '"Right: it."', BOTH, DEPENDS),
    "requirements": ("../requirements.txt", "torch", "torch==2", BOTH, DEPENDS),
    "a file that it names": ("../data/limits.csv", "numbers", "others", BOTH, DEPENDS),
    "the manifest, by hand": (f"../{KNOWN}", "timed", "optional", [KNOWN], DIFFERS),
    "a notebook, by hand": (f"../{LEARNER[0]}", "And on.", "And off.", LEARNER, CELLS_DIFFER),
    "a notebook, run": (f"../{LEARNER[0]}", RUN, RUN.replace("null", "1"), LEARNER, "has been run"),
    "a notebook of no lesson": ("../notebooks/01_old.ipynb", "", "{}", ["notebooks/01_old.ipynb"], ORPHAN),
    "a docstring": ("lessonkit/toy.py", "Print it.", "Show it.", [], ""),
    "what nothing calls": ("lessonkit/toy.py", "return 1", "return 2", [], ""),
    "what a wrong answer is told": ("lessons/02_tiny/checks.py", '"wrong"', '"not right"', [], ""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_check_finds_what_a_change_makes_stale_and_nothing_else(what, tiny, capsys):
    file, old, new, files, words = CHANGES[what]
    path = tiny / "lessons_src" / file
    edit(path, old, new) if old else path.write_text(new)
    found = wrong_in(tiny)
    assert sorted(found) == sorted(files) and all(words in why for why in found.values()), found
    assert main(["--check", "02"], tiny) == int(bool(found))
    out, err = capsys.readouterr()
    told = [f"{path}: {why}" for path, why in found.items()]
    assert out.splitlines() == (told or ["all notebooks are as their sources say"])
    assert ('make notebooks ARGS="02"' in err) == bool(found)


def test_a_lesson_is_removed_with_its_folder_and_check_names_what_a_build_would_change(tiny):
    shutil.rmtree(tiny / "lessons_src/lessons/03_light")
    gone = [OTHER, *(f"{manifest.FOLDER}/{name}03_light.json" for name in ("", "solutions/"))]
    leads = {path: DEPENDS for path in BOTH}  # its last cell names the lesson that is gone
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


def test_only_what_changed_is_built(tiny, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(editions, "build", lambda lesson: calls.append(lesson.stem) or [])
    assert main([], tiny) == 0 and calls == ["03_light"]
    (tiny / "requirements.txt").write_text("torch==2\n")
    assert main([], tiny) == 0 and calls[1:] == ["02_tiny", "03_light"]
    assert main(["02_tiny"], tiny) == 0 and calls[3:] == ["02_tiny"]
    assert main(["04"], tiny) == 1 and len(calls) == 4
    assert "no lesson is called '04'. There are 02_tiny, 03_light." in capsys.readouterr().err


def test_an_edited_notebook_is_not_overwritten(tiny, capsys):
    path = BOTH[1]
    edit(tiny / path, "And on.", "And off.")
    before = (tiny / path).read_bytes()
    assert main(["02"], tiny) == 1
    output = capsys.readouterr().err
    assert output.startswith(f"{path}: its cells are not those that coursebuild wrote, so it is not overwritten. ")
    assert f"cp {path} work/mine_02_tiny.ipynb" in output and (tiny / path).read_bytes() == before


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


@pytest.mark.parametrize("ci", ["true", ""])
def test_what_is_over_the_budget_is_written_and_fails_in_ci_alone(ci, tmp_path, capsys, monkeypatch):
    def execute(read, book, folder, **settings):
        book.cells[2].outputs = [stream("2\n")]
        return {1: 3, 2: 12.34}

    monkeypatch.setattr(editions, "execute", execute)
    monkeypatch.setenv("CI", ci)
    root = project(tmp_path, {"02_tiny": TITLE + "# %%\n1\n# %%\n2\n"})
    assert main(["02"], root) == int(bool(ci))
    out, err = capsys.readouterr()
    place = "lessons_src/lessons/02_tiny/lesson.py"
    for told in (
        f"{place}:5: OVER BUDGET: in the solutions edition the cell takes 12.3 s, at most 10 s are allowed.",
        f"{place}:1: OVER BUDGET: the learner edition shows nothing for 15.3 s, at most 4 s are allowed.",
    ):
        assert told in (err if ci else out)
    assert "02_tiny: solutions " in out and bool(err) == bool(ci)
    assert len(list((root / "notebooks").rglob("02_tiny.ipynb"))) == 2, "the notebooks are right, only slow"

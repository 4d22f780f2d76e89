"""The learner's own layers: what is kept of an answer, and what a later lesson gets from lessonkit.mine."""

import contextlib
import copy
import datetime
import errno
import io
import os
import pickle
import re
import shutil
import sys
import textwrap

import nbformat
import pytest
import torch
from filelock import FileLock

import fromscratch
from coursebuild import digest, editions, generated, sources
from coursebuild.source import blank
from lessonkit import _saved_answers, _saving, _work, attempts, check, course, mine
from tests.helpers import ROOT, SOURCES, executed, python, read, shell
from tests.toy import TITLE, edit, project, refused, whole

# ------------------------------------------------------------------------------------------------------- the builder


def lesson_4():
    return read(SOURCES[3])


ONE = """# %% [markdown]
# # 1 · One
# %% tags=["exercise", "export"]
# Exercise 1.1 · ●●○○○ · 5 min
def early(x):
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION
# %% tags=["check"]
check.early(early)
# %% tags=["export"]
given = 2
"""


@pytest.mark.parametrize(
    "text, what, way_out",
    [
        ("from lessonkit.mine import given\n", "no exercise makes 'given'", "from fromscratch"),
        ("from lessonkit import mine\n", "hides what it uses", "Write 'from lessonkit.mine import'"),
    ],
)
def test_a_lesson_imports_from_mine_what_exercises_of_earlier_lessons_make(text, what, way_out, tmp_path):
    project(tmp_path, {"01_one": ONE, "02_tiny": TITLE + "# %%\n" + text})
    refused(lambda: whole(tmp_path), 4, what, way_out)


def test_a_lesson_depends_on_the_course_s_own_of_what_it_takes_from_mine(tmp_path):
    text = TITLE + "# %%\nfrom lessonkit.mine import early\n"
    root = project(tmp_path, {"01_one": ONE, "02_tiny": text})
    generated.write(whole(root))
    assert root / sources.FOLDER / "one.py" in digest.depends(whole(root).lessons[1])


# ------------------------------------------------------------------------------------------------- without a learner


def test_without_a_learner_it_is_the_course_s_own_and_one_line_says_so(capsys):
    assert (mine.LayerNorm, mine.BatchNorm1d) == (fromscratch.LayerNorm, fromscratch.BatchNorm1d)
    assert capsys.readouterr().out == (
        "LayerNorm: the course's own, from lesson 4.\nBatchNorm1d: the course's own, from lesson 6.\n"
    )


@pytest.mark.parametrize("name", ["encode", "standardize", "LayerNrm"])  # standardize: exercise 1.3, and a loop of 13
def test_what_no_exercise_makes_is_refused_with_the_package_that_has_it(name):
    with pytest.raises(ImportError, match=f"no '{name}', .*LayerNorm.* write from fromscratch import {name}"):
        exec(f"from lessonkit.mine import {name}")


# --------------------------------------------------------------------------------------- a learner: what can be kept

IMPORTS = "import torch\nfrom numbers import Integral\nfrom torch import nn\nfrom lessonkit import check, show"
MEAN = """def mean_and_var(x):
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)"""
CHECK = "check.mean_and_var(mean_and_var)"
HELPERS = re.compile("^def _(sizes|check_inputs)", re.MULTILINE)
GIVEN = [cell.source for cell in lesson_4().code("export") if HELPERS.search(cell.source)]
LAYER_NORM, LAYER = [blank(lesson_4(), cell)[1] for cell in lesson_4().code("exercise")[1:3]]
OWN_LAYER = """class Normed(Base):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = _sizes(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        for name in ("weight", "bias"):
            start = torch.full(self.normalized_shape, float(name == "weight"), device=device, dtype=dtype)
            wanted = elementwise_affine and (bias or name == "weight")
            self.register_parameter(name, nn.Parameter(start) if wanted else None)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"
"""
FORWARD = """def forward(self, x):
    return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
"""
# What one learner writes for exercise 4.3, in cells of their own.
IN_OWN_WORDS = ["class Base(nn.Module):\n" + textwrap.indent(FORWARD, "    "), OWN_LAYER, "LayerNorm = Normed"]
ANSWERS = {  # what is special about it: the cells; the last one calls the check
    "a helper above, with plots and prints between": [
        "from lessonkit import plot\nx = torch.arange(4.0)\ndef center(x):\n    return x - middle(x)\n"
        "print(x)\nshow('x', x)\nassert plot and len(x) == 4",
        "def middle(x):\n    return x.mean(-1, keepdim=True)",
        "def mean_and_var(x):\n    return middle(x), (center(x) ** 2).mean(-1, keepdim=True)",
        CHECK,
    ],
    "a dataclass and a decorator": [
        "import functools\nfrom dataclasses import dataclass\n\ndef along(axis):\n    def wrap(function):\n"
        "        @functools.wraps(function)\n        def inner(x):\n            return function(x, axis)\n"
        "        return inner\n    return wrap",
        "@dataclass(frozen=True)\nclass Stats:\n    mean: torch.Tensor\n    var: torch.Tensor\n\n"
        "LAST: int = -1\nfirst, *rest = [LAST, 3]",
        "@along(first)\ndef stats(x, axis):\n    mean = x.mean(axis, keepdim=True)\n"
        "    return Stats(mean, ((x - mean) ** 2).mean(axis, keepdim=True))",
        "def mean_and_var(x):\n    return (s := stats(x)).mean, s.var",
        CHECK,
    ],
    "a lambda, under a name of its own": [
        "both = lambda x: (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True))",
        "check.mean_and_var(both)",
    ],
    "a layer, its function and a base class": [
        *GIVEN,
        LAYER_NORM,
        "check.layer_norm(layer_norm)",
        *IN_OWN_WORDS,
        "check.layer_norm_module(LayerNorm)",
    ],
    "the course's own function by lessonkit.mine, of another lesson and of this one": [
        "from lessonkit.mine import mean_and_var as stats, layer_norm as function\nfrom fromscratch import RMSNorm",
        *GIVEN,
        "def layer_norm(x, *others):\n    stats(x)\n    return function(x, *others)",
        OWN_LAYER.replace("(Base)", "(nn.Module)") + "\n" + textwrap.indent(FORWARD, "    "),
        "check.layer_norm_module(Normed)",
    ],
}
KEPT = "Kept as yours in work/mine/{}.py: the cells below and later lessons can use it."


def today():
    return datetime.date.today().isoformat()


class Kernel:
    """An IPython shell in this process. folder: the learner's work/."""

    def __init__(self, folder, shell):
        self.folder, self.shell = folder, shell
        self.run(IMPORTS)

    def again(self):
        """Start anew in the same folder, with no cell run but the imports."""
        self.shell.reset()
        self.run(IMPORTS)

    def run(self, *cells):
        """Run cells; return what the last one printed, its colours left out, or the text of its error."""
        for cell in cells:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                result = self.shell.run_cell(cell, store_history=True)
            assert result.error_before_exec is None, result.error_before_exec
        return str(result.error_in_exec or re.sub(r"\x1b\[\d*m", "", out.getvalue()))

    def kept(self, lesson="statistics"):
        """Return the path of the file that holds the answers to a lesson."""
        return self.folder / f"mine/{lesson}.py"

    def text(self, lesson="statistics"):
        return self.kept(lesson).read_text(encoding="utf-8")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel that was started in a learner's folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(_work, "folder", lambda: folder)
    monkeypatch.setattr(check, "in_notebook", lambda: True)
    with shell() as running:
        yield Kernel(folder, running)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


@pytest.mark.parametrize("special", ANSWERS)
def test_an_answer_in_other_words_is_kept_and_imports_by_itself(special, kernel):
    output = kernel.run(*ANSWERS[special])
    right, news = output.splitlines()[0], output.splitlines()[-1]
    lesson, name = ("statistics", "mean_and_var") if "mean_and_var" in right else ("affine_and_module", "LayerNorm")
    assert right.startswith("Right: ") and news == KEPT.format(lesson), output
    python("-c", f"from mine import {name}", cwd=kernel.folder)


BY = MEAN.replace("-1", "{0}")
REFUSED = {  # what it leans on: (the cells before its check, words of the one sentence)
    "a widget": (["import ipywidgets", "w = ipywidgets.IntSlider(-1, -1)", BY.format("w.value")], "imports ipywidgets"),
    "an open file": (["f = open('{}/f', 'w')", "print(-1, file=f)", BY.format("f and -1")], "it opens a file, by open"),
    "a loop": (["for axis in [1, 0, -1]:\n    pass", BY.format("axis")], "axis comes from a for loop"),
    "training": (
        [
            "net = nn.Linear(1, 1)\ndef train():\n    net(torch.ones(1)).sum().backward()\n    return -1",
            "axis = train()",
            BY.format("axis"),
        ],
        "axis was made by training",
    ),
    "a list that was filled later": (
        ["axes = []", "axes.append(-1)", BY.format("axes")],
        "on its own it does not pass its check: On ",
    ),
    "a counter": (
        ["n = 0", "def count():\n    global n\n    n += 1", BY.format("count() or -1")],
        "it changes n for all",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_answer_that_leans_on_what_cannot_be_kept_is_refused_in_one_sentence(what, kernel):
    cells, words = REFUSED[what]
    kernel.run(*(cell.replace("{}", str(kernel.folder)) for cell in cells))
    right, sentence = kernel.run(CHECK).splitlines()
    assert right.startswith("Right: ")
    assert sentence.startswith("It is not kept in work/mine, because ") and words in sentence, sentence
    assert sentence.endswith(".") and not kernel.kept().exists()
    assert kernel.run("from lessonkit.mine import mean_and_var") == "mean_and_var: the course's own, from lesson 2.\n"


def test_an_answer_that_was_judged_with_the_course_s_own_is_kept_with_that_until_one_s_own_is_there(kernel):
    unsolved = blank(lesson_4(), lesson_4().code("exercise")[1])[0]
    kernel.run(*GIVEN, unsolved, LAYER)
    assert KEPT.format("affine_and_module") in kernel.run("check.layer_norm_module(LayerNorm)")
    borrowed = "from fromscratch.affine_and_module import layer_norm\n"
    assert borrowed in kernel.text("affine_and_module") and "YourTurn" not in kernel.text("affine_and_module")
    assert "Kept" in kernel.run(LAYER_NORM, "check.layer_norm(layer_norm)")
    code = kernel.text("affine_and_module")
    assert borrowed not in code and code.count("def layer_norm(") == code.count("class LayerNorm(") == 1


def test_what_the_lesson_gives_and_cannot_be_kept_is_imported_from_the_course(kernel):
    """Lesson 13's compiled loops go by a setting that looks for a folder on the disk."""
    thirteen = read(SOURCES[12])
    loops = next(blank(thirteen, cell)[1] for cell in thirteen.code("exercise") if "ex-13-2" == cell.id)
    cells = [blank(thirteen, cell)[1] for cell in thirteen.code("export") if cell.line < 330 and cell.id != "ex-13-2"]
    imports = "import math, os, numba\nimport numpy as np\nfrom pathlib import Path\nfrom numba import njit"
    assert KEPT.format("speed") in kernel.run(imports, *cells, loops, "check.forward_rows(forward_rows)")
    code = kernel.text("speed")
    assert "from fromscratch.speed import LOOPS\n" in code and "pathlib" not in code and "def forward_rows(" in code


# ------------------------------------------------------------------------------------------------ what a file holds


def body(text):
    """Return the code of a kept file, without its docstring."""
    return text.split('\n"""\n', 1)[1]


def test_a_file_says_whose_it_is_when_and_how_to_use_it_and_holds_the_answer_alone(kernel):
    kernel.run(
        "import os, math as m\nfrom torch import nn, optim",
        '# the last axis\nAXIS = -m.floor(1.5)\nprint("hello")',
        'def mean_and_var(x):\n    """Both."""\n    mean = x.mean(AXIS, keepdim=True)  # a comment\n'
        "    return mean, ((x - mean) ** 2).mean(AXIS, keepdim=True)",
        "x = torch.ones(3)\nmean_and_var(x)\nassert len(x) == 3",
        CHECK,
    )
    text = kernel.text()
    assert text.startswith(
        f'"""Your own answers to lesson 2: mean_and_var.\n\nExercise 2.1, mean_and_var: kept on {today()}\n'
    )
    assert "\n    from mine.statistics import mean_and_var\n" in text
    assert body(text) == (
        "\nimport math as m\n\n\n# Exercise 2.1\n# the last axis\nAXIS = -m.floor(1.5)\n\n\n"
        'def mean_and_var(x):\n    """Both."""\n    mean = x.mean(AXIS, keepdim=True)  # a comment\n'
        "    return mean, ((x - mean) ** 2).mean(AXIS, keepdim=True)\n"
    )
    listed = (kernel.folder / "mine/__init__.py").read_text(encoding="utf-8")
    assert '    "mean_and_var": "statistics",\n' in listed


def test_a_pass_again_replaces_the_answer_a_wrong_answer_does_not_and_the_same_again_changes_nothing(kernel):
    kernel.run("import math", MEAN.replace("-1", "-math.floor(1.5)"), CHECK)
    assert "import math\n" in kernel.text()
    kernel.run(MEAN, CHECK)
    first, changed = kernel.text(), kernel.kept().stat().st_mtime_ns
    assert "math" not in first
    assert "Kept" not in kernel.run(MEAN, CHECK) and kernel.kept().stat().st_mtime_ns == changed
    assert "mean has shape" in kernel.run(BY.format(0), CHECK) and kernel.text() == first
    assert kernel.run(BY.format("(-1,)"), CHECK).splitlines()[1] == KEPT.format("statistics")
    assert BY.format("(-1,)") in kernel.text() and kernel.text().count("def mean_and_var") == 1


TEST = (
    "def is_layer_norm(layer):\n    x = 10.0 * torch.arange(24).reshape(2, 3, 4) ** 2\n"
    "    return bool((layer(x) - stats(x)).abs().max() < 0.01)"
)
PLAIN = TEST.replace("stats(x)", "torch.nn.functional.layer_norm(x, (4,))")
CHECK_TEST = "check.is_layer_norm(is_layer_norm)"


def lesson_4_in(kernel, layer_norm=LAYER_NORM):
    kernel.run(*GIVEN, layer_norm, "check.layer_norm(layer_norm)")


def test_the_second_exercise_uses_the_learner_s_first_and_follows_it(kernel):
    lesson_4_in(kernel)
    assert "Kept" in kernel.run(LAYER, "check.layer_norm_module(LayerNorm)")
    code = body(kernel.text("affine_and_module"))
    assert code.index("# Exercise 4.2") < code.index("def layer_norm(") < code.index("# Exercise 4.3")
    assert code.count("def _sizes(") == code.count("def layer_norm(") == 1
    once = LAYER_NORM.replace("    c = c - c.mean(axes, keepdim=True)  # what rounding left of the mean\n", "")
    lesson_4_in(kernel, once)
    again = body(kernel.text("affine_and_module"))
    assert "what rounding left" in code and "what rounding left" not in again and "class LayerNorm" in again


def test_the_next_day_one_exercise_is_answered_anew_and_the_other_stays(kernel):
    lesson_4_in(kernel)
    path = kernel.kept("affine_and_module")
    edit(path, today(), "2026-01-02")
    text = kernel.text("affine_and_module")
    edit(path, _saved_answers.MARK.search(text)[1], _saved_answers._fingerprint(text))
    kernel.again()
    output = kernel.run("from lessonkit.mine import layer_norm", GIVEN[0], LAYER, "check.layer_norm_module(LayerNorm)")
    assert output.splitlines()[1] == KEPT.format("affine_and_module")
    text = kernel.text("affine_and_module")
    assert "4.2, layer_norm: kept on 2026-01-02\n" in text and f"4.3, LayerNorm: kept on {today()}\n" in text
    assert "lessonkit" not in body(text) and body(text).count("def layer_norm(") == 1
    output = kernel.run("from lessonkit.mine import LayerNorm")
    assert output == f"LayerNorm: yours, kept on {today()}. The course's instead: from fromscratch import LayerNorm\n"


def test_two_answers_that_need_one_name_for_two_things_are_told_so(kernel):
    kernel.run("def stats(x):\n    return x.mean(-1, keepdim=True)")
    kernel.run("def mean_and_var(x):\n    mean = stats(x)\n    return mean, stats((x - mean) ** 2)", CHECK)
    first = kernel.text()
    kernel.again()
    kernel.run("def stats(x):\n    return torch.nn.functional.layer_norm(x, (4,))")
    lines = kernel.run(TEST, CHECK_TEST).splitlines()
    assert lines[0].startswith("Right: ") and kernel.text() == first
    assert lines[1:] == [
        "It is not kept in work/mine, because your kept answer to exercise 2.1 would no longer pass its check: "
        "both bind stats."
    ]
    renamed = ["def right(x):\n    return torch.nn.functional.layer_norm(x, (4,))", TEST.replace("stats", "right")]
    assert "Kept" in kernel.run(*renamed, CHECK_TEST)


# ------------------------------------------------------------------------------------ a file, edited or damaged

ASK = "from lessonkit.mine import mean_and_var"
YOURS = "mean_and_var: yours, kept on {}. The course's instead: from fromscratch import mean_and_var\n"
DAMAGED = {  # what happened to the file: (old text, new text, why it is not used)
    "it no longer passes": ("keepdim=True)\n", "keepdim=False)\n", "does not pass its check: "),
    "it runs something": (
        "# Exercise",
        "open('{}/marker', 'w')\n# Exercise",
        "something comes from a line of another kind",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_reported_in_one_line_and_not_executed_blindly(what, kernel):
    kernel.run(MEAN, CHECK)
    old, new, why = DAMAGED[what]
    edit(kernel.kept(), old, new.replace("{}", str(kernel.folder)))
    text = kernel.text()
    (message,) = kernel.run(ASK).splitlines()
    start = "mean_and_var: the course's own, from lesson 2. Yours in work/mine/statistics.py is not used, because "
    assert message.startswith(start) and why in message, message
    assert message.endswith(" Run exercise 2.1 and its check again, or delete that file.")
    assert kernel.shell.user_ns["mean_and_var"] is fromscratch.mean_and_var
    assert not (kernel.folder / "marker").exists() and kernel.text() == text


def test_a_file_that_was_edited_and_passes_is_used_and_said_to_be_edited(kernel):
    kernel.run(MEAN, CHECK)
    edit(kernel.kept(), "x.mean(-1", "x.mean((-1,)")
    assert kernel.run(ASK) == YOURS.format(f"{today()}, edited since and checked again")


def test_a_pass_over_an_edited_file_puts_that_aside_and_keeps_of_it_what_passes(kernel):
    kernel.run(PLAIN, CHECK_TEST, MEAN, CHECK)
    edit(kernel.kept(), "10.0 * ", "1e1 * ")
    edited = kernel.text()
    message = KEPT.format("statistics") + " The edited file that was there is now called statistics.py.edited-"
    assert kernel.run(BY.format("(-1,)"), CHECK).splitlines()[1] == message + "1."
    assert "1e1 * " in kernel.text() and "(-1,)" in kernel.text()
    assert kernel.kept().with_name("statistics.py.edited-1").read_text(encoding="utf-8") == edited
    edit(kernel.kept(), "1e1 * ", "0.0 * ")
    assert kernel.run(MEAN, CHECK).splitlines()[1] == message + "2."
    assert "is_layer_norm" not in kernel.text()


def test_the_summary_counts_what_an_earlier_kernel_kept(kernel):
    kernel.run(MEAN, CHECK)
    assert check._kept("statistics") == {"mean_and_var"} and check._kept("softmax") == set()
    edit(kernel.kept(), "keepdim=True", "keepdim=False")
    assert check._kept("statistics") == set(), "what was edited counts when it is checked again"


# ------------------------------------------------------------------------------------------------ trying it once more


def test_it_is_checked_once_more_when_it_is_kept_in_silence_and_never_again(kernel, monkeypatch, capfd):
    noisy = "    print('noise', START)\n    import warnings; warnings.warn('noise')\n    mean ="
    noisy = "START = print('noise') or torch.rand(1)\n" + MEAN.replace("    mean =", noisy)
    checked, noted = [], []
    plain = check.plain("mean_and_var")
    monkeypatch.setattr(check, "plain", lambda name: lambda answer: (checked.append(name), plain(answer)))
    monkeypatch.setattr(attempts, "note", lambda *a, **k: noted.append(a))
    kernel.run(noisy)
    state = torch.get_rng_state()
    assert "noise" not in kernel.run(CHECK) and torch.equal(torch.get_rng_state(), state)
    for _ in range(3):
        assert kernel.run(ASK).startswith("mean_and_var: yours, ")
    assert len(checked) == 2
    edit(kernel.kept(), "x.mean(-1", "x.mean((-1,)")
    for _ in range(3):
        assert "edited since" in kernel.run(ASK)
    assert len(checked) == 3 and len(noted) == 1, "what was edited is checked once in a kernel"
    assert capfd.readouterr() == ("", "")


def test_a_layer_from_mine_can_be_copied_converted_subclassed_and_pickled(kernel):
    kernel.run(*ANSWERS["a layer, its function and a base class"])
    from lessonkit.mine import LayerNorm, layer_norm

    assert (LayerNorm.__module__, layer_norm.__module__) == ("mine.affine_and_module",) * 2
    layer = type("Sub", (LayerNorm,), {})([3, 4], eps=0.1, bias=False).double()
    assert copy.deepcopy(layer).normalized_shape == (3, 4) and layer.weight.dtype == torch.float64
    again = pickle.loads(pickle.dumps(LayerNorm(5)))
    assert type(again) is LayerNorm and (again.eps, again.bias is None) == (1e-5, False)


# -------------------------------------------------------------------------------------- disks, two kernels, nobody


def test_a_full_disk_costs_one_sentence(kernel, monkeypatch):
    kernel.run(MEAN, CHECK)
    first = kernel.text()

    def fails(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    right, sentence = kernel.run(BY.format("(-1,)"), CHECK).splitlines()
    assert right.startswith("Right: ") and "that folder cannot be written (No space left on device)" in sentence
    monkeypatch.undo()
    assert kernel.text() == first and not list((kernel.folder / "mine").glob(".*.py*"))


def test_a_file_in_the_folder_s_place_and_a_fault_of_ours_cost_one_sentence(kernel, monkeypatch):
    (kernel.folder / "mine").write_text("mine")
    assert "cannot be written (File exists)." in kernel.run(MEAN, CHECK).splitlines()[1]
    assert kernel.run(ASK).startswith("mean_and_var: the course's own")
    (kernel.folder / "mine").unlink()
    monkeypatch.setattr(_saved_answers, "compose", lambda *a: 1 / 0)
    lines = kernel.run(CHECK).splitlines()[1:]
    assert lines == ["It is not kept in work/mine, because keeping it failed (ZeroDivisionError: division by zero)."]


def test_a_kernel_that_keeps_for_ever_holds_nobody_up(kernel, monkeypatch):
    monkeypatch.setattr(_saving, "PATIENCE", 0.05)
    kernel.run(MEAN, CHECK)
    with FileLock(kernel.folder / "mine/.lock"):
        message = kernel.run(BY.format("(-1,)"), CHECK).splitlines()[1]
    assert message == (
        "It is not kept in work/mine yet, because another notebook is just keeping an answer. Run the check again."
    )
    assert "Kept" in kernel.run(CHECK)


@pytest.mark.parametrize("module, name", [(_work, "folder"), (check, "in_notebook")])
def test_where_nobody_learns_nothing_is_kept(module, name, kernel, monkeypatch):
    monkeypatch.setattr(module, name, lambda: None)
    assert "kept" not in kernel.run(MEAN, CHECK).lower() and not (kernel.folder / "mine").exists()


def test_a_learner_is_who_started_a_kernel_in_work_and_nobody_else(tmp_path):
    kit = tmp_path / "lessons_src/lessonkit"
    kit.mkdir(parents=True)
    (kit / "__init__.py").touch()
    shutil.copy(ROOT / "lessons_src/lessonkit/_work.py", kit)
    for folder in ("work/solutions", "notebooks", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    ask = "import os; from lessonkit import _work; os.chdir('/'); print(_work.folder())"
    elsewhere = str(tmp_path / "elsewhere")
    for start, named, learns in [  # where the kernel starts, LESSON_WORK, whether that is a learner's folder
        ("work", "", True),
        ("work/solutions", "", False),
        ("notebooks", "", False),
        ("work", "off", False),
        ("elsewhere", elsewhere, True),
        ("work", elsewhere, False),
    ]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "lessons_src"), "LESSON_WORK": named}
        output = python("-c", ask, cwd=tmp_path / start, env=environment)
        assert output == f"{tmp_path / start if learns else None}\n", (start, named)


# ------------------------------------------------------------------------------------------- real kernels and builds


def printed(sources, folder, **environment):
    """Return what each cell printed, or the text of its error, of code in a kernel that starts in a folder."""
    return [
        "".join(out.get("text", "") + out.get("evalue", "") for out in cell.outputs)
        for cell in executed(sources, folder, **environment)
    ]


def test_a_lesson_s_first_cell_brings_back_what_was_kept_from_it(tmp_path):
    work, saved = tmp_path / "work", tmp_path / "work/my lesson.ipynb"
    work.mkdir()
    lesson_2 = nbformat.v4.new_notebook()
    lesson_2.metadata["lesson"] = {"source": "lessons_src/lessons/02_statistics/lesson.py"}
    nbformat.write(lesson_2, saved)
    where = {"LESSON_WORK": str(work), "JPY_SESSION_NAME": str(saved)}
    printed([IMPORTS, MEAN, CHECK, f"print({TEST!r})", PLAIN], work, **where)
    asks = "print([globals().get(name) for name in ('mean_and_var', 'is_layer_norm')])"
    for off, back, names in (
        ({}, "Back from work/mine: mean_and_var (your answers to lesson 2).\n", "[<function mean_and_var"),
        ({"LESSON_WORK": "off"}, "", "[None, None]"),
    ):
        first, second = printed([IMPORTS, asks], work, **where | off)
        assert first == back and second.startswith(names)


def test_what_a_cell_has_bound_is_not_brought_back_and_another_lesson_s_is_not_either(kernel, monkeypatch, capsys):
    kernel.run(MEAN, CHECK)
    for lesson_here, space in (("statistics", {"mean_and_var": 1}), ("epsilon", {}), ("", {})):
        monkeypatch.setattr(_work, "lesson", lambda here=lesson_here: here)
        before = dict(space)
        mine.bring_back(space)
        assert space == before and capsys.readouterr().out == ""


STEP = """
net = digit_cnn(lambda C, H, W: LayerNorm([C, H, W]))
learn(net, digits, epochs=1)
print(sorted({type(m).__module__ + "." + type(m).__name__ for m in net if isinstance(m, LayerNorm)}))"""


@pytest.mark.trains
def test_a_learner_takes_a_layer_in_own_words_from_lesson_4_to_lesson_9(tmp_path):
    """The other exercises are answered as in the solutions."""
    work = tmp_path / "work"
    work.mkdir()
    cells = {cell.id: [cell.source] for cell in editions.notebook(lesson_4(), "solutions").cells if "outputs" in cell}
    cells["ex-4-3"] = IN_OWN_WORDS
    ran = executed([text for texts in cells.values() for text in texts], work, LESSON_WORK=str(work))
    assert not any(out.output_type == "error" for cell in ran for out in cell.outputs)
    assert list(_saved_answers.read(work / "mine/affine_and_module.py").entries) == list(
        course.answers()["affine_and_module"]
    )
    cells = [cell.source for cell in editions.notebook(read(SOURCES[8]), "learner").cells if "outputs" in cell]
    stop = next(i for i, source in enumerate(cells) if "RACERS = {" in source)
    *outputs, own = printed([*cells[:stop], STEP], work, LESSON_WORK=str(work))
    assert any("LayerNorm: yours, kept on " in text for text in outputs)
    assert own.endswith("['mine.affine_and_module.Normed']\n")

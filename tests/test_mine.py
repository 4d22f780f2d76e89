"""The learner's own layers: what is kept of an answer, and what a later lesson gets from lessonkit.mine."""

import contextlib
import io
import json
import re
import subprocess
import sys
import textwrap

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from coursebuild import digest, export
from coursebuild.frame import answers
from coursebuild.source import blank, read
from lessonkit import _keeping, _work, mine
from tests.helpers import ROOT
from tests.toy import EXPORT, TITLE, lesson, project, refused, whole

# ------------------------------------------------------------------------------------------------------- the builder


def lesson_4():
    return read(ROOT / "lessons_src/lessons/04_affine_and_module.py")


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
THREE = (
    ONE.replace("1 · One", "3 · Three").replace("early", "late").replace("given", "given_late").replace("1.1", "3.1")
)
IMPORTS = {  # (source of lesson 2 after its title, line, what is said, way out)
    "made by no exercise": ("from lessonkit.mine import given\n", 4, "no exercise makes 'given'", "from fromscratch"),
    "a later lesson": ("from lessonkit.mine import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    "unknown": ("import os\nfrom lessonkit.mine import f\n", 5, "no lesson exports 'f'", "Correct the name"),
    "the module": ("import lessonkit.mine\n", 4, "hides what it uses", "Write 'from lessonkit.mine import'"),
    "as a name": ("from lessonkit import mine\n", 4, "hides what it uses", "Write 'from lessonkit.mine import'"),
}


@pytest.mark.parametrize("wrong", IMPORTS)
def test_a_lesson_imports_from_mine_what_exercises_of_earlier_lessons_make(wrong, tmp_path):
    text, line, what, way_out = IMPORTS[wrong]
    project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + "# %%\n" + text, "03_three.py": THREE})
    refused(lambda: whole(tmp_path), line, what, way_out)


def test_an_export_takes_from_the_course_what_its_lesson_takes_from_mine(tmp_path):
    body = "\n# %%\nfrom {} import early as first\n" + EXPORT + "def f(x):\n    return first(x)\n"
    texts = []
    for package in ("fromscratch", "lessonkit.mine"):
        root = project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + body.format(package)})
        texts.append(whole(root).package["tiny.py"])
    assert texts[0] == texts[1] and "from fromscratch import early as first" in texts[0]


def test_a_lesson_depends_on_the_course_s_own_of_what_it_takes_from_mine(tmp_path):
    text = TITLE + "# %%\nfrom lessonkit.mine import early\n"
    root = project(tmp_path, {"01_one.py": ONE, "02_tiny.py": text})
    export.write(whole(root))
    assert export.folder(root) / "one.py" in digest.depends(whole(root).lessons[1])


def test_the_answers_of_a_lesson_are_the_functions_and_classes_that_its_checks_take(tmp_path):
    more = ONE + '# %% tags=["exercise"]\n# Exercise 1.2 · ●●○○○ · 5 min\n### BEGIN SOLUTION\nn = 2\n### END SOLUTION\n'
    more += '# %% tags=["check"]\ncheck.number(n)\n'
    assert answers(lesson(tmp_path, more, "01_one.py")) == {"early": "early"}


# ------------------------------------------------------------------------------------------------- without a learner


def test_without_a_learner_it_is_the_course_s_own_and_one_line_says_so(capsys):
    from fromscratch import BatchNorm1d, LayerNorm

    assert (mine.LayerNorm, mine.BatchNorm1d) == (LayerNorm, BatchNorm1d)
    assert capsys.readouterr().out == (
        "LayerNorm: the course's own, from lesson 4.\nBatchNorm1d: the course's own, from lesson 6.\n"
    )


@pytest.mark.parametrize("name", ["encode", "standardize", "LayerNrm"])  # standardize: exercise 1.3, and a loop of 13
def test_what_no_exercise_makes_is_refused_with_the_package_that_has_it(name):
    with pytest.raises(ImportError, match=f"no '{name}', .*LayerNorm.* write from fromscratch import {name}"):
        exec(f"from lessonkit.mine import {name}")


def test_every_name_is_there():
    for name in dir(mine):
        assert getattr(mine, name).__module__.startswith("fromscratch.")
    assert not hasattr(mine, "_repr_html_")


# --------------------------------------------------------------------------------------- a learner: what can be kept

IMPORTS_OF_ALL = "import torch\nfrom torch import nn\nfrom lessonkit import check, show"
MEAN = """def mean_and_var(x):
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)"""
CHECK = "check.mean_and_var(mean_and_var)"
GIVEN = [cell.source for cell in lesson_4().code("export") if "exercise" not in cell.tags]
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
ANSWERS = {  # what is special about it: the cells; the last one calls the check
    "one cell": [IMPORTS_OF_ALL, MEAN, CHECK],
    "the check in the same cell": [IMPORTS_OF_ALL, MEAN + "\n" + CHECK],
    "a helper above, with plots and prints between": [
        IMPORTS_OF_ALL,
        "from matplotlib import pyplot as plt\nx = torch.arange(4.0)\ndef center(x):\n    return x - middle(x)\n"
        "print(x)\nplt.plot(x)\nassert len(x) == 4",
        "def middle(x):\n    return x.mean(-1, keepdim=True)",
        "def mean_and_var(x):\n    return middle(x), (center(x) ** 2).mean(-1, keepdim=True)",
        CHECK,
    ],
    "a helper below, and one that was wrong at first": [
        IMPORTS_OF_ALL,
        "def middle(x):\n    return x.mean(0, keepdim=True)",
        "def mean_and_var(x):\n    return middle(x), ((x - middle(x)) ** 2).mean(-1, keepdim=True)",
        "def middle(x):\n    return x.mean(AXIS, keepdim=True)",
        "AXIS = 1",
        "AXIS = -1",
        CHECK,
    ],
    "a value made by a helper that was run again": [
        IMPORTS_OF_ALL,
        "def last():\n    return -1",
        "AXIS = last()",
        "def last():\n    return -1  # again",
        MEAN.replace("-1", "AXIS"),
        CHECK,
    ],
    "imports of every form": [
        "import torch as t, math as m\nfrom functools import partial, reduce\nimport torch.nn.functional\n"
        "from lessonkit import check",
        "mean = partial(t.mean, dim=-1, keepdim=True)\nOne = m.floor(1.5); half = .5",
        "def mean_and_var(x):\n    import operator\n    var = (x - mean(x)) ** (One / half)\n"
        "    return mean(x), reduce(operator.add, [mean(var)])",
        CHECK,
    ],
    "a dataclass and a decorator": [
        IMPORTS_OF_ALL,
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
        IMPORTS_OF_ALL,
        "both = lambda x: (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True))",
        "check.mean_and_var(both)",
    ],
    "an expression in the check": [
        IMPORTS_OF_ALL,
        "def both(x, *, axis):\n    return x.mean(axis, keepdim=True), x.var(axis, correction=0, keepdim=True)",
        "import functools\ncheck.mean_and_var(functools.partial(both, axis=-1))",
    ],
    "recursion": [
        IMPORTS_OF_ALL,
        "def total(x):\n    return x if x.shape[-1] == 1 else halves(x)\n\ndef halves(x):\n"
        "    k = x.shape[-1] // 2\n    return total(x[..., :k]) + total(x[..., k:])",
        "def mean_and_var(x):\n    mean = total(x) / x.shape[-1]\n"
        "    return mean, total((x - mean) ** 2) / x.shape[-1]",
        CHECK,
    ],
    "a name that depends on what is installed": [
        IMPORTS_OF_ALL,
        "try:\n    from numpy import float_ as eight\nexcept ImportError:\n    eight = -1\n"
        "if eight == 8:\n    axis = 1\nelse:\n    axis = eight",
        "def mean_and_var(input):  # a name of Python, as in torch's documentation\n"
        "    return input.mean(axis, keepdim=True), input.var(axis, correction=0, keepdim=True)",
        CHECK,
    ],
    "a layer, its function and a base class": [
        IMPORTS_OF_ALL + "\nfrom numbers import Integral",
        *GIVEN,
        LAYER_NORM,
        "check.layer_norm(layer_norm)",
        "class Base(nn.Module):\n" + textwrap.indent(FORWARD, "    "),
        OWN_LAYER,
        "LayerNorm = Normed",
        "check.layer_norm_module(LayerNorm)",
    ],
    "a class in three cells": [
        IMPORTS_OF_ALL + "\nfrom numbers import Integral",
        *GIVEN,
        LAYER_NORM,
        OWN_LAYER.replace("Normed(Base)", "LayerNorm(nn.Module)"),
        FORWARD + "LayerNorm.forward = forward",
        "class LayerNorm(LayerNorm):\n    pass",
        "check.layer_norm_module(LayerNorm)",
    ],
    "the course's own function by lessonkit.mine, of another lesson and of this one": [
        IMPORTS_OF_ALL + "\nfrom numbers import Integral",
        "from lessonkit.mine import mean_and_var as stats, layer_norm as function\nfrom fromscratch import RMSNorm",
        *GIVEN,
        "def layer_norm(x, *others):\n    stats(x)\n    return function(x, *others)",
        OWN_LAYER.replace("(Base)", "(nn.Module)") + "\n" + textwrap.indent(FORWARD, "    "),
        "check.layer_norm_module(Normed)",
    ],
}
NEW_PROCESS = """
import json, sys
from pathlib import Path
found = {}
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]
    import mine
    found[folder] = {name: getattr(mine, name).__module__ for name in mine.__all__}
    sys.path.remove(folder)
print("\\n" + json.dumps(found))
"""


class Kernel:
    """An IPython shell in this process. folder: the learner's work/."""

    def __init__(self, folder):
        settings = Config()
        settings.HistoryManager.enabled = False
        self.folder, self._main = folder, sys.modules["__main__"]
        self.shell = InteractiveShell.instance(config=settings)

    def run(self, *cells):
        """Run cells; return what the last one printed, its colours left out, or the text of its error."""
        for cell in cells:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                result = self.shell.run_cell(cell, store_history=True)
            assert result.error_before_exec is None, result.error_before_exec
        return str(result.error_in_exec or re.sub(r"\x1b\[\d*m", "", out.getvalue()))

    def close(self):
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = self._main

    def text(self, lesson="statistics"):
        return (self.folder / f"mine/{lesson}.py").read_text(encoding="utf-8")


@contextlib.contextmanager
def learner(folder):
    """A kernel that was started in the folder, which is made."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_work, "folder", lambda: folder)
        patch.setattr(_keeping, "in_notebook", lambda: True)
        kernel = Kernel(folder)
        try:
            yield kernel
        finally:
            kernel.close()


@pytest.fixture
def kernel(tmp_path):
    with learner(tmp_path / "work") as kernel:
        kernel.run(IMPORTS_OF_ALL)
        yield kernel


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return {what is special: (what its check printed, {kept name: its module in a new process})}."""
    said = {}
    for special, cells in ANSWERS.items():
        with learner(tmp_path_factory.mktemp("learner") / "work") as kernel:
            said[special] = kernel.run(*cells), str(kernel.folder)
    folders = [folder for _, folder in said.values()]
    done = subprocess.run([sys.executable, "-c", NEW_PROCESS, *folders], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {special: (words, found[folder], folder) for special, (words, folder) in said.items()}


@pytest.mark.parametrize("special", ANSWERS)
def test_an_answer_in_other_words_is_kept_and_imports_by_itself(kept, special):
    said, modules, _ = kept[special]
    right, news = said.splitlines()[0], said.splitlines()[-1]
    lesson, name = ("statistics", "mean_and_var") if "mean_and_var" in right else ("affine_and_module", "LayerNorm")
    assert right.startswith("Right: ") and news == f"Kept as yours in work/mine/{lesson}.py.", said
    assert name in modules

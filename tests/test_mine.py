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
from unittest.mock import Mock

import pytest
import torch
from filelock import FileLock

import fromscratch
from coursebuild import digest, generated, sources
from coursebuild.source import blank
from lessonkit import check, mine, places
from lessonkit.kept import files, saving
from tests.helpers import ROOT, SOURCES, python, read, shell
from tests.toy import TITLE, edit, project, refused, whole

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


def test_a_lesson_takes_from_mine_what_earlier_exercises_make_and_depends_on_the_course_s_own_of_it(tmp_path):
    second = project(tmp_path, {"01_one": ONE, "02_tiny": TITLE}) / "lessons_src/lessons/02_tiny/lesson.py"
    second.write_text(f"{TITLE}# %%\nfrom lessonkit import mine\n", encoding="utf-8")
    refused(lambda: whole(tmp_path), 4, "hides what it uses", "")
    second.write_text(f"{TITLE}# %%\nfrom lessonkit.mine import early\n", encoding="utf-8")
    generated.write(whole(tmp_path))
    assert tmp_path / sources.FOLDER / "one.py" in digest.depends(whole(tmp_path).lessons[1])


def test_without_a_learner_it_is_the_course_s_own_and_one_line_says_so(capsys):
    assert (mine.LayerNorm, mine.BatchNorm1d) == (fromscratch.LayerNorm, fromscratch.BatchNorm1d)
    lines = ["LayerNorm: the course's own, from lesson 4.", "BatchNorm1d: the course's own, from lesson 6."]
    assert capsys.readouterr().out.splitlines() == lines


def test_what_no_exercise_makes_is_refused_with_the_package_that_has_it():
    with pytest.raises(ImportError, match="no 'encode', .*LayerNorm.* write from fromscratch import encode"):
        exec("from lessonkit.mine import encode")


class Kernel:
    """An IPython shell in this process. folder: the learner's work/."""

    def __init__(self, folder, shell):
        self.folder, self.shell = folder, shell
        self.run(IMPORTS)

    def run(self, *cells):
        """Run cells and functions of this kernel; return what the last cell printed, or its error's text."""
        shown = ""
        for cell in cells:
            if callable(cell):
                cell(self)
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                result = self.shell.run_cell(cell.replace("WORK", str(self.folder)), store_history=True)
            assert result.error_before_exec is None, result.error_before_exec
            shown = str(result.error_in_exec or re.sub(r"\x1b\[\d*m", "", out.getvalue()))
        return shown

    def kept(self, lesson="statistics"):
        return self.folder / f"mine/{lesson}.py"

    def code(self):
        texts = [path.read_text(encoding="utf-8") for path in (self.folder / "mine").glob("[a-z]*.py")]
        return "".join(text.split('\n"""\n', 1)[1] for text in texts)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(places, "work", lambda: folder)
    monkeypatch.setattr(check, "in_notebook", lambda: True)
    with shell() as running:
        yield Kernel(folder, running)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


def today():
    return datetime.date.today().isoformat()


def anew(kernel):
    """Start a new kernel in the same folder."""
    kernel.shell.reset()
    kernel.run(IMPORTS)


def edited(old, new):
    return lambda kernel: edit(kernel.kept(), old, new.replace("WORK", str(kernel.folder)))


def by_itself(name, lesson="statistics"):
    """A new process imports what was kept."""
    return lambda kernel: python("-c", f"from mine.{lesson} import {name}", cwd=kernel.folder)


def a_day_later(kernel):
    path = kernel.kept("affine_and_module")
    text = path.read_text(encoding="utf-8").replace(today(), "2026-01-02")
    path.write_text(files.signed(text), encoding="utf-8")
    anew(kernel)


IMPORTS = "import torch\nfrom numbers import Integral\nfrom torch import nn\nfrom lessonkit import check, show"
MEAN = """def mean_and_var(x):
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)"""
OTHER = MEAN.replace("-1", "(-1,)")
CHECK, ASK = "check.mean_and_var(mean_and_var)", "from lessonkit.mine import mean_and_var"
FOURTH = read(SOURCES[3])
GIVEN = [cell.source for cell in FOURTH.code("export") if re.search("^def _(sizes|check_inputs)", cell.source, re.M)]
(_, OVER), (UNSOLVED, LAYER_NORM), (_, LAYER) = (blank(FOURTH, cell) for cell in FOURTH.code("exercise")[1:4])
GIVEN.append(OVER)
FUNCTION = [*GIVEN, LAYER_NORM, "check.layer_norm(layer_norm)"]
ROUNDED = LAYER_NORM.replace("  # float64 stays float64", "")
CHECK_LAYER = "check.layer_norm_module(LayerNorm)"
IN_OWN_WORDS = [
    "class Base(nn.Module):\n    pass",
    LAYER.replace("LayerNorm(nn.Module", "Normed(Base"),
    "LayerNorm = Normed",
]
TEST = (
    "def is_layer_norm(layer):\n    x = 10.0 * torch.arange(24).reshape(2, 3, 4) ** 2\n"
    "    return bool((layer(x) - stats(x)).abs().max() < 0.001)"
)
STATS = "def stats(x):\n    return torch.nn.functional.layer_norm(x, (4,))"
CHECK_TEST = "check.is_layer_norm(is_layer_norm)"


def of_lesson_13(kernel):
    """Its exercise 13.2 with the exports above it; its loops go by a folder on the disk."""
    thirteen = read(SOURCES[12])
    answer = next(cell for cell in thirteen.code("exercise") if cell.id == "ex-13-2")
    given = [cell for cell in thirteen.code("export") if cell.line < answer.line]
    kernel.run("import math, os, numba\nimport numpy as np\nfrom pathlib import Path\nfrom numba import njit")
    kernel.run(*(blank(thirteen, cell)[1] for cell in [*given, answer]))


NO = "NOT "  # what follows is not there
YOURS = f"mean_and_var: yours, kept on {today()}"
KEPT = "\nKept as yours in work/mine/{}.py: the cells below and later lessons can use it."
TWO, FOUR, SPEED = map(KEPT.format, ("statistics", "affine_and_module", "speed"))
ASIDE = " The edited file that was there is now called statistics.py.edited-"
UNUSED = "mean_and_var: the course's own, from lesson 2. Yours in work/mine/statistics.py is not used, because "
AGAIN = " Run exercise 2.1 and its check again, or delete that file.\n"
ALL = "It is not kept in work/mine, because "


def refusal(why, axis, *cells):
    """An answer that takes its axis from these cells is right and not kept; later lessons go on with the course's."""
    steps = [*cells, MEAN.replace("-1", axis), CHECK]
    return [(steps, f"Right: |\n{ALL}|{why}"), ([ASK], "mean_and_var: the course's own, from lesson 2.\n")]


# What happens: steps of (what is done, what the last cell says, what the kept files hold then), texts parted by |.
ACCIDENTS = {
    "a helper above, with plots and prints between": [
        (
            [
                "from lessonkit import plot\nx = torch.arange(4.0)\ndef center(x):\n    return x - middle(x)\n"
                "print(x)\nshow('x', x)\nassert plot and len(x) == 4",
                "def middle(x):\n    return x.mean(-1, keepdim=True)",
                "def mean_and_var(x):\n    return middle(x), (center(x) ** 2).mean(-1, keepdim=True)",
                CHECK,
                by_itself("mean_and_var"),
            ],
            TWO,
        )
    ],
    "a dataclass and a decorator": [
        (
            [
                "import functools\nfrom dataclasses import dataclass\n\ndef along(axis):\n"
                "    return lambda function: functools.partial(function, axis=axis)",
                "@dataclass(frozen=True)\nclass Stats:\n    mean: torch.Tensor\n    var: torch.Tensor\n\n"
                "LAST: int = -1\nfirst, *rest = [LAST, 3]",
                "@along(first)\ndef stats(x, axis):\n    mean = x.mean(axis, keepdim=True)\n"
                "    return Stats(mean, ((x - mean) ** 2).mean(axis, keepdim=True))",
                "def mean_and_var(x):\n    return (s := stats(x)).mean, s.var",
                CHECK,
                by_itself("mean_and_var"),
            ],
            TWO,
        )
    ],
    "a lambda, under a name of its own": [
        (
            [
                "both = lambda x: (x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True))",
                "check.mean_and_var(both)",
                by_itself("mean_and_var"),
            ],
            TWO,
        )
    ],
    "a layer, its function and a base class": [
        ([*FUNCTION, *IN_OWN_WORDS, CHECK_LAYER, by_itself("LayerNorm", "affine_and_module")], FOUR)
    ],
    "the course's own function by lessonkit.mine": [
        (
            [
                "from lessonkit.mine import mean_and_var as stats, layer_norm as function",
                "from fromscratch import RMSNorm",
                *GIVEN,
                "def layer_norm(x, *others):\n    stats(x)\n    return function(x, *others)",
                LAYER.replace("class LayerNorm", "class Normed"),
                "check.layer_norm_module(Normed)",
                by_itself("LayerNorm", "affine_and_module"),
            ],
            FOUR,
        )
    ],
    "a widget": refusal("imports ipywidgets", "w.value", "import ipywidgets\nw = ipywidgets.IntSlider(-1, -1)"),
    "an open file": refusal("it uses open, which does more", "f and -1", "f = open('WORK/f', 'w')\nprint(-1, file=f)"),
    "a loop": refusal("axis comes from a loop", "axis", "for axis in [1, 0, -1]:\n    pass"),
    "a list that was filled later": refusal(
        "on its own it does not pass its check: On ", "axes", "axes = []\naxes.append(-1)"
    ),
    "a counter": refusal("it changes n for all", "count() or -1", "n = 0\ndef count():\n    global n\n    n += 1"),
    "the course's own stood in, until one's own is there": [
        ([*GIVEN, UNSOLVED, LAYER, CHECK_LAYER], FOUR, "import layer_norm\n|NOT YourTurn|NOT def layer_norm("),
        (
            [LAYER_NORM, "check.layer_norm(layer_norm)"],
            FOUR,
            "def layer_norm(|class LayerNorm(|NOT import layer_norm\n",
        ),
    ],
    "what the lesson gives cannot be kept": [
        (
            [of_lesson_13, "check.forward_rows(forward_rows)"],
            SPEED,
            "from fromscratch.speed import LOOPS\n|def forward_rows(|NOT pathlib",
        )
    ],
    "the same again, a wrong answer, another right one": [
        (["import math", MEAN.replace("-1", "-math.floor(1.5)"), CHECK], TWO, "import math\n"),
        ([MEAN, CHECK], TWO, "NOT math"),
        ([MEAN, CHECK], "Right: |NOT Kept"),
        ([MEAN.replace("-1", "0"), CHECK], "mean has shape", MEAN),
        ([OTHER, CHECK], TWO, f"{OTHER}|NOT {MEAN}"),
    ],
    "the second exercise uses the first, which is answered anew": [
        ([*FUNCTION, LAYER, CHECK_LAYER], FOUR, "# float64 stays float64"),
        ([ROUNDED, "check.layer_norm(layer_norm)"], FOUR, "class LayerNorm|NOT # float64 stays float64"),
    ],
    "the next day": [
        (
            [*FUNCTION, a_day_later, "from lessonkit.mine import layer_norm", GIVEN[0], LAYER, CHECK_LAYER],
            FOUR,
            "def layer_norm(|class LayerNorm(|NOT lessonkit",
        ),
        (
            ["from lessonkit.mine import layer_norm, LayerNorm"],
            f"layer_norm: yours, kept on 2026-01-02. |\nLayerNorm: yours, kept on {today()}. The course's instead: "
            "from fromscratch import LayerNorm\n",
        ),
    ],
    "two answers need one name for two things": [
        (
            [
                "def stats(x):\n    return x.mean(-1, keepdim=True)",
                "def mean_and_var(x):\n    mean = stats(x)\n    return mean, stats((x - mean) ** 2)",
                CHECK,
            ],
            TWO,
        ),
        (
            [anew, STATS, TEST, CHECK_TEST],
            f"Right: |\n{ALL}your kept answer to exercise 2.1 would no longer pass its check: both bind stats.",
            "NOT is_layer_norm",
        ),
        ([STATS.replace("stats", "right"), TEST.replace("stats", "right"), CHECK_TEST], TWO, "def right(|def stats("),
    ],
    "a file was edited and no longer passes": [
        (
            [MEAN, CHECK, edited("keepdim=True)\n", "keepdim=False)\n"), ASK],
            f"{UNUSED}|does not pass its check: |{AGAIN}",
            "False",
        )
    ],
    "a file was edited and does something": [
        (
            [MEAN, CHECK, edited("# Exercise", "open('WORK/marker', 'w')\n# Exercise"), ASK],
            f"{UNUSED}something comes from a loop, a with block or a call|{AGAIN}",
            "marker",
        ),
        (["from pathlib import Path\nprint(Path('WORK/marker').exists())"], "False"),
    ],
    "a file cannot be read": [
        (
            [MEAN, CHECK, lambda kernel: (kernel.kept().unlink(), kernel.kept().mkdir()), ASK],
            f"{UNUSED}it cannot be read (|{AGAIN}",
        )
    ],
    "a file was edited and passes; then it is written anew": [
        (
            [STATS, TEST, CHECK_TEST, MEAN, CHECK, edited("10.0 * ", "1e1 * "), ASK],
            f"{YOURS}, edited since and checked again. The course's instead: from fromscratch import mean_and_var\n",
        ),
        ([OTHER, CHECK], f"{TWO}{ASIDE}1.", "1e1 * |(-1,)"),
        ([edited("1e1 * ", "0.0 * "), MEAN, CHECK], f"{TWO}{ASIDE}2.", "NOT is_layer_norm"),
    ],
}


@pytest.mark.parametrize("happens", ACCIDENTS)
def test_what_is_kept_whatever_happens(happens, kernel):
    for cells, says, *holds in ACCIDENTS[happens]:
        output = kernel.run(*cells)
        for text, claims in [(output, says), *((kernel.code(), claims) for claims in holds)]:
            for claim in claims.split("|"):
                assert (claim.removeprefix(NO) in text) != claim.startswith(NO), (claim, text)


def test_a_file_says_whose_it_is_when_and_how_to_use_it_and_holds_the_answer_alone(kernel):
    kernel.run(
        'import os, math as m\n# the last axis\nAXIS = -m.floor(1.5)\nprint("hello")',
        '"""Both."""\n' + MEAN.replace("-1", "AXIS").replace("True)\n", "True)  # a comment\n"),
        CHECK,
    )
    text = kernel.kept().read_text(encoding="utf-8")
    assert f"lesson 2: mean_and_var.\n\nExercise 2.1, mean_and_var: kept on {today()}\n" in text
    assert "\n    from mine.statistics import mean_and_var\n" in text
    assert kernel.code() == (
        "\nimport math as m\n\n\n# Exercise 2.1\n# the last axis\nAXIS = -m.floor(1.5)\n\n\n"
        "def mean_and_var(x):\n    mean = x.mean(AXIS, keepdim=True)  # a comment\n"
        "    return mean, ((x - mean) ** 2).mean(AXIS, keepdim=True)\n"
    )


def test_it_is_checked_once_more_when_it_is_kept_in_silence_and_never_again(kernel, monkeypatch, capfd):
    noisy = "START = print('noise') or torch.rand(1)\n" + MEAN.replace(
        "    mean =", "    print('noise', START)\n    mean ="
    )
    checked, plain = [], check.plain("mean_and_var")
    monkeypatch.setattr(check, "plain", lambda name: lambda answer: (checked.append(name), plain(answer)))
    kernel.run(noisy)
    state = torch.get_rng_state()
    assert "noise" not in kernel.run(CHECK) and torch.equal(torch.get_rng_state(), state)
    assert all(kernel.run(ASK).startswith("mean_and_var: yours, ") for _ in range(3)) and len(checked) == 2
    assert check._kept("statistics") == {"mean_and_var"}, "the summary counts it, also in a later kernel"
    edit(kernel.kept(), "x.mean(-1", "x.mean((-1,)")
    assert check._kept("statistics") == set() and all("edited since" in kernel.run(ASK) for _ in range(3))
    assert len(checked) == 3 and capfd.readouterr() == ("", "")


def test_a_layer_from_mine_can_be_copied_converted_subclassed_and_pickled(kernel):
    kernel.run(*FUNCTION, *IN_OWN_WORDS, CHECK_LAYER)
    from lessonkit.mine import LayerNorm, layer_norm

    assert (LayerNorm.__module__, layer_norm.__module__) == ("mine.affine_and_module",) * 2
    layer = type("Sub", (LayerNorm,), {})([3, 4], bias=False).double()
    assert copy.deepcopy(layer).normalized_shape == (3, 4) and layer.weight.dtype == torch.float64
    assert type(pickle.loads(pickle.dumps(LayerNorm(5)))) is LayerNorm


@contextlib.contextmanager
def broken(module, name, error):
    """Meanwhile a function raises an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, Mock(side_effect=error))
        yield


TROUBLES = {  # what is said after "It is not kept in work/mine": of the kept folder, a context in which that is so
    ", because keeping it failed (OSError: [Errno 28] No space left on device).": lambda folder: broken(
        os, "replace", OSError(errno.ENOSPC, "No space left on device")
    ),
    ", because keeping it failed (ZeroDivisionError: by 0).": lambda folder: broken(
        files, "compose", ZeroDivisionError("by 0")
    ),
    " yet, because another notebook is just keeping an answer. Run the check again.": lambda folder: FileLock(
        folder / ".lock"
    ),
}


@pytest.mark.parametrize("sentence", TROUBLES)
def test_what_goes_wrong_costs_one_sentence_and_nothing_else(sentence, kernel, monkeypatch):
    monkeypatch.setattr(saving, "PATIENCE", 0.05)
    kernel.run(MEAN, CHECK)
    before = kernel.kept().read_text()
    with TROUBLES[sentence](kernel.folder / "mine"):
        assert kernel.run(OTHER, CHECK).splitlines()[1:] == [f"It is not kept in work/mine{sentence}"]
    assert kernel.kept().read_text() == before and not list((kernel.folder / "mine").glob(".*.py*"))
    assert "Kept" in kernel.run(CHECK)


def test_a_learner_is_who_started_a_kernel_in_work_and_nobody_else(tmp_path):
    kit = tmp_path / "lessons_src/lessonkit"
    kit.mkdir(parents=True)
    (kit / "__init__.py").touch()
    shutil.copy(ROOT / "lessons_src/lessonkit/places.py", kit)
    for folder in ("work/solutions", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    ask = "import os; from lessonkit import places; os.chdir('/'); print(places.work())"
    elsewhere = str(tmp_path / "elsewhere")
    for start, named, learns in [  # where the kernel starts, LESSON_WORK, whether that is a learner's folder
        ("work", "", True),
        ("work/solutions", "", False),
        ("work", "off", False),
        ("elsewhere", elsewhere, True),
        ("work", elsewhere, False),
    ]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "lessons_src"), "LESSON_WORK": named}
        output = python("-c", ask, cwd=tmp_path / start, env=environment)
        assert output == f"{tmp_path / start if learns else None}\n", (start, named)

"""Lesson 0, which runs where nothing but torch and matplotlib is: what it imports, and what its asserts say."""

import ast
import contextlib
import functools
import io
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coursebuild import editions, syntax
from tests import test_lessons as rules
from tests.helpers import SITTING, known, read

ROW = torch.tensor([4.0, 0.0, 3.0, 6.0, 2.0])
X_HAT = [0.5, -1.5, 0, 1.5, -0.5]
DCENTERED, DX = [0.5, 2.5, -2.5, 3.5, 3.5], [-1, 1, -4, 2, 2]


@functools.cache
def lesson():
    """Return the names that the cells of lesson 0 bind, without those that train."""
    names = {}
    for cell in editions.notebook(read(SITTING), "solutions").cells:
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ()):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(cell.source, names)
    return names


def test_it_needs_torch_and_matplotlib_and_nothing_else():
    allowed = {"torch", "matplotlib", *sys.stdlib_module_names}
    nodes = ast.walk(ast.parse(SITTING.read_text(encoding="utf-8")))
    named = {module.partition(".")[0] for node in nodes for module in syntax.modules(node)}
    assert "torch" in named and named <= allowed


def test_its_notebooks_name_nothing_of_the_kit():
    for edition in ("learner", "solutions"):
        code = "\n".join(c.source for c in editions.notebook(read(SITTING), edition).cells if c.cell_type == "code")
        assert "lessonkit" not in code and "check." not in code
        assert ("raise YourTurn(" in code) == (edition == "learner")


def test_what_is_open_or_wrong_is_one_line():
    for kind in ("YourTurn", "NotYet"):
        assert lesson()[kind]("0.1: do it")._render_traceback_() == [f"{kind}: 0.1: do it"]


# It has no frame, figures and checks of the kit, its questions are folds, and it is the first, so it recalls nothing.
# All other rules for lessons hold here as well.
RULES = (
    rules.test_cells_are_short,
    rules.test_code_lines_end_at_96_characters,
    rules.test_learners_write_at_most_ten_lines,
    rules.test_a_lesson_opens_with_what_breaks,
    rules.test_proof_is_folded_and_what_is_seen_shows_something,
    rules.test_headings_are_in_plain_letters,
    rules.test_no_contractions,
    rules.test_exercises_and_their_cards,
    rules.test_a_blank_is_in_a_function_or_a_class_or_binds_fresh_names,
    rules.test_no_catch_all_no_threads_no_semicolons,
    rules.test_stored_outputs,
    rules.test_the_readme_names_every_lesson,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__[5:])
def test_it_keeps_the_rules_for_lessons(rule):
    rule(SITTING)


@pytest.mark.parametrize("edition", ["learner", "solutions", "the learner's copy"])
def test_links_lead_somewhere(edition):
    rules.test_links_lead_somewhere(SITTING, edition)


def test_its_questions_are_folds_and_the_right_option_has_no_place_of_its_own():
    questions = known(SITTING).questions
    places = [[option["right"] for option in question.options].index(True) for question in questions]
    assert len(questions) == 6 and len(set(places)) == 3
    text = "\n".join(cell.source for cell in read(SITTING).cells if cell.type == "markdown")
    wrong = sum(len(question.options) - 1 for question in questions)
    assert text.count("\n\nRight: ") == 6 and text.count("\n\nNo: ") == wrong


def test_every_figure_has_its_words():
    words = [
        (data["text/plain"], out["metadata"]["image/png"]["alt"])
        for _, cell in rules.built(SITTING)
        for out in cell.get("outputs", ())
        for data in [out.get("data", {})]
        if "image/png" in data
    ]
    assert len(words) == 4
    for plain, alt in words:
        assert "".join(plain) == alt and len(alt) > 100


# --------------------------------------------------------------------------------------------------------- answers


def mean(x, axis=-1):
    return x.mean(axis, keepdim=True)


def unbiased(x, eps):
    return (x - mean(x)) / (x.var(-1, keepdim=True) + eps).sqrt()


def deviation(x, eps):
    return (x - mean(x)) / (x.std(-1, keepdim=True) + eps)


def population(x):
    return x.var(-1, correction=0, keepdim=True)


def joined(x, eps):
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


def over_samples(x, eps):
    return (x - mean(x, 0)) / (x.var(0, correction=0, keepdim=True) + eps).sqrt()


def forgotten_return(x, eps):
    (x - mean(x)) / (population(x) + eps).sqrt()


def layer(weight=True, bias=True, eps_used=True, detached=False, names=("weight", "bias"), kind=nn.Parameter, **change):
    """Return a LayerNorm in which something is as people get it wrong."""

    class Layer(nn.Module):
        def __init__(self, D, eps=1e-5):
            super().__init__()
            self.eps = eps if eps_used else 1e-5
            size = change.get("size", D)
            setattr(self, names[0], kind(torch.full((size,), change.get("gain", 1.0))))
            setattr(self, names[1], kind(torch.zeros(size)))

        def forward(self, x):
            axis = change.get("axis", -1)
            with torch.set_grad_enabled(not detached):
                m = x.mean(axis, keepdim=True)
                v = x.var(axis, correction=change.get("correction", 0), keepdim=True)
            outside = change.get("outside", False)
            y = (x - m) / (v.sqrt() + self.eps if outside else (v + self.eps).sqrt())
            gain, shift = getattr(self, names[0]), getattr(self, names[1])
            if change.get("swapped"):
                return (y + shift) * gain
            y = y * gain if weight else y
            return y + shift if bias else y

    return Layer


class NoReturn(layer()):
    def forward(self, x):
        super().forward(x)


def terms(dy, x_hat, rstd, weight, average=mean):
    h = dy * weight
    return h, average(h), average(h * x_hat)


def dx_by_sums(dy, x_hat, rstd, weight):
    h, a, b = terms(dy, x_hat, rstd, weight, lambda v: v.sum(-1, keepdim=True))
    return rstd * (h - a - x_hat * b)


def dx_by_all_rows(dy, x_hat, rstd, weight):
    h = dy * weight
    return rstd * (h - h.mean() - x_hat * (h * x_hat).mean())


def dx_combined(combine):
    """Return a backward pass that combines dy, x_hat, rstd, weight, h, mean(h) and mean(h x_hat)."""

    def function(dy, x_hat, rstd, weight):
        h, a, b = terms(dy, x_hat, rstd, weight)
        return combine(dy=dy, n=x_hat, r=rstd, w=weight, h=h, a=a, b=b)

    return function


def by_autograd(dy, x_hat, rstd, weight):
    x = (x_hat / rstd).requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], weight), x, dy)[0]


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


RIGHT = {
    "check_row": [(3, 4, X_HAT), (3.0, 4.0, tuple(X_HAT)), (ROW.mean(), torch.tensor(4.0), torch.tensor(X_HAT))],
    "check_normalize": [
        (lambda x, eps: (x - mean(x)) / torch.sqrt(population(x) + eps),),
        (lambda x, eps: (x - mean(x)) * torch.rsqrt(mean((x - mean(x)) ** 2) + eps),),
        (lambda x, eps: (x - mean(x)) / (mean(x * x) - mean(x) ** 2 + eps) ** 0.5,),
    ],
    "check_layer_norm": [(layer(),)],
    "check_on_paper": [(DCENTERED, -7.5, DX), (tuple(DCENTERED), torch.tensor(-7.5), torch.tensor(DX))],
    "check_layer_norm_dx": [
        (dx_combined(lambda h, a, b, n, r, **_: r * (h - a - n * b)),),
        (dx_combined(lambda h, a, b, n, r, **_: r * h - r * a - r * n * b),),
    ],
    "check_suspect": [(seeded(2, 3, 16), 1), (seeded(2, 3, 16), -2), (seeded(2, 3, 4, 16), 1), (seeded(4, 1, 16), 1)],
}
WRONG = {
    "check_row": {
        "the sum for the mean": ((15, 4, X_HAT), "15 is the sum"),
        "the 0 left out": ((3.75, 4, X_HAT), "The entry 0 counts"),
        "a mean that is none": ((4, 4, X_HAT), "the mean is not 4"),
        "torch's variance": ((3, 5, X_HAT), "torch.var"),
        "the sum of squares": ((3, 20, X_HAT), "The variance is their mean"),
        "the deviation": ((3, 2, X_HAT), "the standard deviation"),
        "squares of x": ((3, 13, X_HAT), "Subtract the mean"),
        "a variance that is none": ((3, 3.6, X_HAT), "the variance is not 3.6"),
        "centered only": ((3, 4, [1, -3, 0, 3, -1]), "the centered row so far"),
        "divided by the variance": ((3, 4, [0.25, -0.75, 0, 0.75, -0.25]), "not by its root"),
        "not centered": ((3, 4, [2, 0, 1.5, 3, 1]), "was not centered"),
        "mean minus entry": ((3, 4, [-0.5, 1.5, 0, -1.5, 0.5]), "wrong sign"),
        "divided by the root of 5": ((3, 4, [0.447, -1.342, 0, 1.342, -0.447]), "entry 1"),
        "a sign lost": ((3, 4, [0.5, 1.5, 0, 1.5, -0.5]), "entry 1"),
        "a blank left": ((3, 4, ...), "x_hat is no list of 5 numbers yet"),
        "an entry left": ((3, 4, [0.5, ..., 0, 1.5, -0.5]), "x_hat is no list of 5 numbers yet"),
        "the 0 forgotten": ((3, 4, [0.5, -1.5, 1.5, -0.5]), "4 numbers, and 5"),
    },
    "check_normalize": {
        "torch's variance": ((unbiased,), "correction=0"),
        "torch's deviation": ((deviation,), "D − 1"),
        "one mean for all rows": ((joined,), "all rows share"),
        "one mean for a column": ((over_samples,), "over axis 0"),
        "by the variance": ((lambda x, eps: (x - mean(x)) / (population(x) + eps),), "not by its root"),
        "centered only": ((lambda x, eps: x - mean(x),), "not divided"),
        "not centered": ((lambda x, eps: x / (population(x) + eps).sqrt(),), "not centered"),
        "no eps": ((lambda x, eps: (x - mean(x)) / population(x).sqrt(),), "still give nan"),
        "eps outside": ((lambda x, eps: (x - mean(x)) / (population(x).sqrt() + eps),), "under the root"),
        "eps fixed": ((lambda x, eps: (x - mean(x)) / (population(x) + 1e-5).sqrt(),), "not the one"),
        "no return": ((forgotten_return,), "Does the last line return it?"),
        "PyTorch's own": ((lambda x, eps: F.layer_norm(x, x.shape[-1:], eps=eps),), "is what you build"),
        "times the root": ((lambda x, eps: (x - mean(x)) * (population(x) + eps).sqrt(),), "wrong by up to"),
        "one number a row": ((lambda x, eps: mean(x),), "from shape (4, 5) came (4, 1)"),
    },
    "check_layer_norm": {
        "plain tensors": ((layer(kind=lambda tensor: tensor),), "its state_dict is empty"),
        "buffers": ((layer(kind=nn.Buffer),), "Is each an nn.Parameter"),
        "names of the formula": ((layer(names=("gamma", "beta")),), "'gamma'"),
        "one gain for all": ((layer(size=1),), "(1,)"),
        "gains of 0": ((layer(gain=0.0),), "the first gains are 1"),
        "nothing used": ((layer(weight=False, bias=False),), "are not used"),
        "no gain": ((layer(weight=False),), "the gain is not multiplied"),
        "no bias": ((layer(bias=False),), "the bias is not added"),
        "bias first": ((layer(swapped=True),), "first the gain"),
        "statistics under no_grad": ((layer(detached=True),), "the gradient of x"),
        "torch's variance": ((layer(correction=1),), "y is off"),
        "axis 1": ((layer(axis=1),), "y is off"),
        "eps outside": ((layer(outside=True),), "small numbers differ"),
        "eps fixed": ((layer(eps_used=False),), "is not used"),
        "no return": ((NoReturn,), "Does its last line return y?"),
        "no module": ((lambda D, eps=1e-5: None,), "an nn.Module"),
    },
    "check_on_paper": {
        "straight only": (([0, 4, -2.5, 2, 4], -7.5, DX), "what x_hat sends so far"),
        "through rstd only": (([0.5, -1.5, 0, 1.5, -0.5], -7.5, DX), "what rstd sends so far"),
        "a sign": (([-0.5, 5.5, -2.5, 0.5, 4.5], -7.5, DX), "wrong sign"),
        "without the half": (([0.5, 6.5, -5, 5.5, 7.5], -7.5, DX), "multiplied by the ½"),
        "one entry": (([0.5, 2.5, 2.5, 3.5, 3.5], -7.5, DX), "entry 2"),
        "dmean's sign": ((DCENTERED, 7.5, DX), "turns the sign"),
        "dmean a mean": ((DCENTERED, -1.5, DX), "a sum over five arrows"),
        "dmean something": ((DCENTERED, -9, DX), "dmean is not -9"),
        "dx without mean": ((DCENTERED, -7.5, DCENTERED), "what mean sends as well"),
        "dx with all of dmean": ((DCENTERED, -7.5, [-7, -5, -10, -4, -4]), "stands 1/5"),
        "dx something": ((DCENTERED, -7.5, [-1, 1, 4, 2, 2]), "dcentered plus dmean / 5"),
        "four numbers": ((DCENTERED[1:], -7.5, DX), "dcentered has 4 numbers"),
    },
    "check_layer_norm_dx": {
        "dy for h": ((dx_combined(lambda dy, n, r, **_: r * (dy - mean(dy) - n * mean(dy * n))),), "where h belongs"),
        "gain last": (
            (dx_combined(lambda dy, n, r, w, **_: w * r * (dy - mean(dy) - n * mean(dy * n))),),
            "multiplied last",
        ),
        "sums": ((dx_by_sums,), "sums stand"),
        "no mean path": ((dx_combined(lambda h, b, n, r, **_: r * (h - n * b)),), "path through the mean"),
        "no variance path": ((dx_combined(lambda h, a, r, **_: r * (h - a)),), "path through rstd"),
        "no brackets": ((dx_combined(lambda h, a, b, n, r, **_: r * h - a - n * b),), "brackets are missing"),
        "no rstd": ((dx_combined(lambda h, a, b, n, **_: h - a - n * b),), "factor rstd"),
        "plus": ((dx_combined(lambda h, a, b, n, r, **_: r * (h + a + n * b)),), "both signs"),
        "x_hat forgotten": ((dx_combined(lambda h, a, b, r, **_: r * (h - a - b)),), "x_hat before"),
        "all rows": ((dx_by_all_rows,), "over all rows"),
        "no return": ((lambda *_: None,), "Does the last line return it?"),
        "autograd": ((by_autograd,), "is what you replace"),
        "divided by rstd": ((dx_combined(lambda h, a, b, n, r, **_: (h - a - n * b) / r),), "dx is off"),
    },
    "check_suspect": {
        "more rows": ((seeded(64, 16), 1), "what is the shape"),
        "a constant row": ((torch.ones(8, 16), 1), "what is the shape"),
        "an outlier": ((1000 * seeded(8, 16), 0), "what is the shape"),
        "zeros with time": ((torch.zeros(2, 3, 16), 1), "take random numbers"),
        "a different width": ((seeded(2, 3, 8), 1), "takes (..., 16)"),
        "one row": ((seeded(16), 0), "two axes at least"),
        "a list": (([[1.0] * 16], 1), "make it a tensor"),
        "the last axis": ((seeded(2, 3, 16), -1), "works LayerNorm"),
        "the batch": ((seeded(2, 3, 16), 0), "along axis 0"),
        "no such axis": ((seeded(2, 3, 16), 3), "no axis 3"),
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_told_so(name, capsys):
    for answer in RIGHT[name]:
        lesson()[name](*answer)
        out, err = capsys.readouterr()
        assert out.startswith("Right. ") and out.count("\n") == 1 and not err


@pytest.mark.parametrize("name, how", [(name, how) for name in WRONG for how in WRONG[name]])
def test_wrong_answers_are_told_their_cause(name, how):
    answer, words = WRONG[name][how]
    with pytest.raises(lesson()["NotYet"]) as caught:
        lesson()[name](*answer)
    text = str(caught.value)
    assert words in text and "\n" not in text and len(text) < 250, text


@pytest.mark.parametrize("name", ["check_normalize", "check_layer_norm_dx"])
def test_a_missing_keepdim_stops_at_the_learners_own_line(name):
    wrong = {
        "check_normalize": lambda x, eps: (x - x.mean(-1)) / (x.var(-1, correction=0) + eps) ** 0.5,
        "check_layer_norm_dx": lambda dy, x_hat, rstd, weight: rstd * (dy * weight - (dy * weight).mean(-1)),
    }
    with pytest.raises(RuntimeError, match="must match the size"):
        lesson()[name](wrong[name])


def test_every_exercise_is_shown_right_and_wrong_answers():
    called = {name for name in lesson() if name.startswith("check_")}
    assert called == set(RIGHT) == set(WRONG) and len(called) == len(read(SITTING).code("exercise"))

"""How a check judges, on toy exercises: what it accepts, what it says of the rest, and what it leaves in peace.

The course's own exercises are tried in test_checks.py.
"""

import re
import sys
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coursebuild.source import blank
from lessonkit import check, course, shown
from lessonkit.check import attempt, declare
from lessonkit.check.cases import Probe, call, call_layer
from lessonkit.check.declare import exercise, quiz
from lessonkit.check.layers import of_a_layer
from lessonkit.check.misconceptions import instead, misconceptions
from lessonkit.check.sweep import Contract, sweep
from lessonkit.check.verdicts import NotYet, YourTurn, accept, collecting, reject
from tests import helpers
from tests.helpers import SOURCES, draw, read


def told(judge, answer):
    """Return what a check says of an answer, "" if it accepts it. Holds for every rejection: it is well formed."""
    judge.name = "toy"
    try:
        with collecting() as verdicts:
            assert judge(answer) is None
    except NotYet as error:
        text = str(error)
        assert text.startswith("Not yet. ") and error.__suppress_context__ and len(text.splitlines()) <= 4, text
        assert not re.search(r"(?<!\.)\.\.(?!\.)|  | \.( |$)|: None[.:]", text), text
        assert all(len(line) < 400 and line == line.strip() and line[-1] in ".?!…" for line in text.splitlines()), text
        return text.removeprefix("Not yet. ")
    assert len(verdicts) == 1 and verdicts[0].startswith("Right: ")
    return ""


@pytest.fixture(autouse=True)
def a_hint_that_fails_is_a_fault(monkeypatch):
    monkeypatch.setattr(declare, "NO_HINT", ())


# ----------------------------------------------------------------------------------------------- what a message says


def center(x):
    return x - x.mean(-1, keepdim=True)


def moments(x):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return mean, var


ROWS, CUBE = ("3 rows of 5", draw(0, 3, 5)), ("a (2, 3, 4) tensor", draw(0, 2, 3, 4))
CENTER = exercise(center, ROWS, ("one long row", draw(1, 40)), by_hand=("layer_norm",))
PAIR = exercise(
    moments,
    *(call(*case, returns=("mean", "var")) for case in (ROWS, CUBE)),
    wrong="""
    # the variance is divided by D - 1. | Say correction=0.
    var = x.var(-1, keepdim=True)

    # mean and variance are swapped.
    return var, mean
    """,
)


def spoils_the_graph(x):
    y = center(x).exp()
    z = (y * y).log() / 2
    y.data.add_(0)
    y.mul_(1)
    return z


WRONG = [  # (check, answer, how the message begins after "On 3 rows of 5: ", the suggestion after a line break)
    (CENTER, lambda x: None, "it returned nothing (None), expected a tensor of shape (3, 5).\nIs the return missing"),
    (CENTER, lambda x: x.mean(-1), "the result has shape (3,), expected (3, 5). In: x of shape (3, 5)."),
    (CENTER, lambda x: center(x).float(), "the result has dtype torch.float32, expected torch.float64.\nA conv"),
    (CENTER, lambda x: x.sub_(x.mean(-1, keepdim=True)), "your code changed its input x.\nAn operation in place"),
    (CENTER, lambda x: (center(x), x.data.add_(1e-12))[0], "your code changed its input x."),
    (CENTER, lambda x: center(x).detach(), "there is no gradient of x.\nSomething cuts the way"),
    (CENTER, spoils_the_graph, "gradient of x could not be computed (RuntimeError: one of the variables"),
    (CENTER, lambda x: (_ for _ in ()).throw(ValueError("one\n" + "two " * 300)), "it raised ValueError: one"),
    (CENTER, draw(0, 3, 5), "check.toy takes your function itself, not a tensor of shape (3, 5): write check.toy("),
    (PAIR, lambda x: (moments(x)[0], None), "var is nothing (None), expected a tensor of shape (3, 1)."),
    (PAIR, lambda x: moments(x)[0], "it returned a tensor of shape (3, 1), expected mean and var."),
    (PAIR, lambda x: torch.var_mean(x, -1, keepdim=True)[::-1], "the variance is divided by D - 1."),
    (PAIR, lambda x: (x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=x.dim() == 2)), "var[0] is"),
]


@pytest.mark.parametrize("judge, answer, message", WRONG)
def test_a_wrong_answer_gets_a_message_that_reads_well(judge, answer, message):
    text = told(judge, answer).removeprefix("Probable cause: ").removeprefix("On 3 rows of 5: ")
    assert text.startswith(message), f"\n{text}\n{message}"


def test_the_ready_made_function_is_refused_where_building_is_the_point():
    ready = lambda x: F.layer_norm(x, x.shape[-1:])
    text = told(exercise(ready, ROWS, by_hand=("layer_norm",)), ready)
    assert text.startswith("Right values, and PyTorch's own layer_norm made them.\nThis exercise is there to build it")


def test_your_turn_and_the_keyboard_are_let_through():
    def blank(x):
        raise YourTurn("3.1: write it")

    def stop(x):
        raise KeyboardInterrupt

    for judge, answer, error in (
        (CENTER, lambda x: center(blank(x)), YourTurn),
        (PAIR, blank, YourTurn),
        (CENTER, stop, KeyboardInterrupt),
    ):
        with pytest.raises(error):
            judge(answer)


ERRORS = {  # what an answer does, and what it is told behind the error's own words
    "lost its reduced axis": lambda x: draw(0, 3, 4) - draw(0, 3),
    "has no such axis": lambda x: x.mean(4),
    "holds whole numbers": lambda x: torch.tensor([1, 2]).mean(),
    "stands for a value now": lambda x, mean=3: mean(x),
    "No cell that has run binds this name": lambda x: nowhere(x),  # noqa: F821
    "inner sizes of a product": lambda x: x @ x,
    "an if asks for one truth value": lambda x: x if x > 0 else -x,
    "NumPy has no gradients": lambda x: x.numpy(),
}


@pytest.mark.parametrize("words", ERRORS)
def test_an_error_is_put_into_words(words):
    assert words.lower() in told(CENTER, ERRORS[words]).lower()


# ---------------------------------------------------------------------------------------------------------- the sweep


def right(x, weight, eps=1e-5):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centered = wide - wide.mean(-1, keepdim=True)
    var = centered.square().mean(-1, keepdim=True)
    return (centered / torch.sqrt(var + eps) * weight).to(x.dtype)


FIRST = call("3 rows of 5", draw(0, 3, 5), draw(1, 5), names=("x", "weight"))
PROMISE = Contract({"x": "... D", "weight": "D"}, options=({}, {"eps": 0.1}), half=True, empty=True, devices=True)
LAST = []  # what an answer may keep things in
LAYER_NORM = exercise(right, FIRST, contract=PROMISE)


def keeping():
    sizes = {}

    def answer(x, weight, eps=1e-5):
        size = sizes.setdefault((x.shape, x.dtype, eps), x.detach().abs().sum())
        return right(x, weight, eps) * (1 + (size - x.abs().sum()).detach())

    return answer


def reusing():
    buffers = {}

    def answer(x, weight, eps=1e-5):
        y = right(x, weight, eps)
        return y if y.requires_grad else buffers.setdefault((y.shape, y.dtype), torch.empty_like(y)).copy_(y)

    return answer


RESULT = "return (centered / torch.sqrt(var + eps) * weight).to(x.dtype)"
WIDE = "wide = x.to(torch.promote_types(x.dtype, torch.float32))"


def off(condition):
    """Return an answer that is right but where a condition on x holds."""
    return instead(right, f"{RESULT} + 1e-3 * ({condition})")


BROKEN = {  # words of what is told: the answer, or a line that stands in the right one
    "D = 1100": off("x.shape[-1] > 300"),
    "rows = 1": off("x.dim() == 2 and len(x) == 1"),
    "rows = 70": off("x.dim() == 2 and len(x) > 16"),
    "front axes = 0": off("x.dim() == 1"),
    "front axes = 4": off("x.dim() == 5"),
    "memory": off("not x.is_contiguous()"),
    "gradient of x": WIDE.replace("x.to", "(x.detach() if x.dtype == torch.float32 else x).to"),
    "float16": f"{WIDE} if x.dtype != torch.float16 else x",
    "gradient": f"{RESULT} + (x - x.detach()) * x.detach() * 0.1",
    "eps=0.1": "var = centered.square().mean(-1, keepdim=True) + 1e-5 - eps",
    "On x": keeping(),
    "large": f"{WIDE}.clamp(-3e4, 3e4)",
    "outlier": f"{RESULT}.clamp(-30, 30)",
    "changed its input": "x.data.sub_(0.25)",
    "random generator": "torch.manual_seed(3)",
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "gradients are recorded": "torch.set_grad_enabled(False)",
    "set_detect_anomaly": "torch.autograd.set_detect_anomaly(True)",
    "set_printoptions": "torch.set_printoptions(precision=2)",
    "Python's random generator": "import random\nrandom.seed(0)",
    "NumPy's random generator": "import numpy\nnumpy.random.seed(0)",
    "whether x needs a gradient": "x.requires_grad_()",
    "returned for the call before": reusing(),
    "rows = 0": "x.numel() or 1 / 0",
    "keeps its input x": "LAST[:] = [x.detach()]",
    "or a graph that": f"{RESULT} if not LAST.append(centered.sum()) else x",
    "bfloat16": f"{RESULT} if x.dtype != torch.bfloat16 else right(x.detach(), weight.detach(), eps)",
    "is made on the CPU": f"{RESULT} * torch.ones(x.shape[-1], dtype=x.dtype)",
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_promise_is_found_and_the_world_is_put_back(words):
    answer = instead(right, BROKEN[words]) if isinstance(BROKEN[words], str) else BROKEN[words]
    before = torch.get_default_dtype(), torch.is_grad_enabled(), torch.random.get_rng_state()
    text = told(LAYER_NORM, answer)
    assert words in text, text
    assert before[:2] == (torch.get_default_dtype(), torch.is_grad_enabled())
    assert torch.equal(before[2], torch.random.get_rng_state())


def test_right_answers_pass_and_may_draw():
    assert told(LAYER_NORM, instead(right, "import random\ntorch.rand(random.randrange(9))")) == ""


def test_what_is_told_is_the_plainest_case_and_all_pairs_of_choices_come_together():
    text = told(LAYER_NORM, off("x.shape[-1] == 1100"))
    assert text.startswith("On x (2, 1100), weight (1100,) (float64): the result")
    assert text.endswith("It is right without: D = 1100.")
    factors, cases = PROMISE.factors(), [probe.run.args[1] for probe in sweep(PROMISE)[:-1]]
    for a in factors:
        for b in list(factors)[list(factors).index(a) + 1 :]:
            pairs = {(case[a], case[b]) for case in cases}
            assert {(x, y) for x in factors[a] for y in factors[b]} <= pairs, (a, b)


def test_an_endless_loop_stops_with_a_sentence():
    def endless(x, weight, eps=1e-5):
        while True:
            try:
                x = x + 0
            except Exception:
                pass

    text = told(exercise(right, replace(FIRST, seconds=0.3)), endless)
    assert "it runs on and on. It was stopped after 0.3 seconds" in text


def test_seconds_that_go_to_the_loading_of_a_library_are_not_the_answer_s(monkeypatch):
    def slow(x, weight, eps=1e-5):
        if "late.0" not in sys.modules:
            for number in range(60):
                monkeypatch.setitem(sys.modules, f"late.{number}", sys)
            end = time.process_time() + 0.9
            while time.process_time() < end:
                pass
        return right(x, weight, eps)

    assert told(exercise(right, replace(FIRST, seconds=0.6)), slow) == ""


def test_no_probe_hands_out_what_it_keeps():
    held = draw(5, 4)
    judge = exercise(lambda x: x, Probe("a tensor of its own", lambda answer: {"the result": answer(held).sum()}))
    assert "changed its input" in told(judge, lambda x: x.data.mul_(0))
    assert told(judge, lambda x: x + 0) == "", "and the next answer is judged as if nothing had been"


class Layer(nn.Module):
    shared = None

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return right(x, self.weight)


class Tied(Layer):
    def __init__(self, width):
        super().__init__(width)
        self.work = lambda x: right(x, self.weight)

    def forward(self, x):
        return self.work(x)


class Shared(Layer):
    def forward(self, x):
        type(self).shared = self.weight if type(self).shared is None else type(self).shared
        return right(x, type(self).shared)


LAWS = {
    "deepcopy": Tied,
    "share": Shared,
    "eval()": instead(Layer, "return right(x, self.weight if self.training else self.weight + 1)"),
    "first of a net": instead(Layer, "return right(x, self.weight if x.requires_grad else self.weight.detach())"),
}


def half_frozen(net):
    net[0].requires_grad_(False)
    return net


MODULES = {  # words of what is told: what is done to a net that is given, and given back
    "the mode of a module": lambda net: net.eval(),
    "the hooks of a module": lambda net: (net[0].register_forward_hook(print), net)[1],
    "which parameters of a module need a gradient": half_frozen,
    "the mode of": lambda net: nn.Sequential(net[0], nn.ReLU().eval()),
}


@pytest.mark.parametrize("words", MODULES)
def test_a_module_comes_back_as_it_was_given(words):
    parts = Probe("a net", lambda answer: {"parts": len(answer(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))})
    judge = exercise(lambda net: net, parts)
    assert words in told(judge, MODULES[words]) and not told(judge, lambda net: net)


@pytest.mark.parametrize("words", LAWS)
def test_what_every_layer_promises(words):
    judge = exercise(Layer, *of_a_layer(lambda layer: layer(5), draw(6, 3, 5)))
    assert words in told(judge, LAWS[words]) and not told(judge, Layer)


# ---------------------------------------------------------------------- what would have made a wrong answer right


ROW = exercise(
    moments,
    *(call(*case, returns=("mean", "var")) for case in (ROWS, CUBE)),
    takes={"x": "... D"},
    returns=("mean", "var"),
)
SHIFTED = exercise(
    lambda x, shift: (center(x) + shift).exp(), call("3 rows of 5", draw(0, 3, 5), draw(1, 5), names=("x", "shift"))
)
NORM = exercise(Layer, call_layer("3 rows of 5", lambda cls: cls(5), draw(6, 3, 5), {}))
BOTH = exercise(
    moments,
    *ROW.stages[0][0],
    wrong="""
    # the mean is that of all rows.
    mean = x.mean().expand(*x.shape[:-1], 1)

    # the variance is divided by D - 1.
    var = x.var(-1, keepdim=True)
    """,
)
RELATED = [  # (check, answer, what is told)
    (
        ROW,
        lambda x: (x.mean(-1), x.var(-1, correction=0)),
        "Your mean has lost an axis of size 1, the one that was reduced. Its numbers are right.",
    ),
    (ROW, lambda x: (x.mean(-1, keepdim=True), x.var(-1, keepdim=True)), "Your var is D/(D − 1) times the right one."),
    (
        ROW,
        lambda x: (x.sum(-1, keepdim=True), moments(x)[1]),
        "Your mean is D times the right one. A sum and a mean differ by that",
    ),
    (ROW, lambda x: (-moments(x)[0], moments(x)[1]), "Your mean is the right one with the other sign."),
    (ROW, lambda x: (moments(x)[0], moments(x)[1].sqrt()), "Your var is the root of the right one."),
    (ROW, lambda x: (moments(x)[0], 3 * moments(x)[1]), "Your var is 3 times the right one."),
    (ROW, lambda x: (moments(x)[0], moments(x)[1] + 0.5), "Your var is the right one plus 0.5."),
    (ROW, lambda x: moments(x)[::-1], "These have changed places: mean and var."),
    (CENTER, lambda x: x, "Your result is x itself."),
    (CENTER, lambda x: center(x) + x, "Your result is the right one plus x."),
    (
        ROW,
        lambda x: (moments(x)[0] * x.shape[-1] / x.shape[0], moments(x)[1]) if x.dim() > 1 else moments(x),
        "Your mean is D divided by the size of the first axis times the right one.",
    ),
    (LAYER_NORM, lambda x, weight, eps=1e-5: right(x, 1 + weight, eps), "It is as if weight were 1 + weight."),
    (LAYER_NORM, lambda x, weight, eps=1e-5: right(x, weight, 1e-3), "It is as if eps were 0.001."),
    (
        LAYER_NORM,
        instead(right, "centered = wide + wide.mean(-1, keepdim=True)"),
        "A right answer gives this if one of its steps reads `wide + wide.mean(-1, keepdim=True)`",
    ),
    (NORM, instead(Layer, "return right(x, -self.weight)"), "Your output is the right one with the other sign."),
    (NORM, instead(Layer, "return right(x, 1 + self.weight)"), "It is as if weight were 1 + weight."),
    (CENTER, lambda x: x - x.mean(0, keepdim=True), "It is what comes out if axis 0 is taken as the last one."),
    (CENTER, lambda x: x - x.mean(), "It is what comes out if the whole tensor is taken as one row."),
    (SHIFTED, lambda x, shift: center(x).exp(), "shift is not used."),
    (
        BOTH,
        lambda x: (x.mean().expand(*x.shape[:-1], 1), x.var(-1, keepdim=True)),
        "the mean is that of all rows.\nAnd a second one: the variance is divided by D - 1.",
    ),
    (PAIR, lambda x: (x.mean(), x.unsqueeze(0)), "Your mean is one number for the whole tensor. Each row has its own."),
    (CENTER, lambda x: x / (x - x), "It begins with inf: a number divided by 0"),
    (CENTER, lambda x: (x - 10).sqrt(), "It begins with nan: the root of a negative number"),
]


@pytest.mark.parametrize("judge, answer, words", RELATED)
def test_how_an_answer_is_related_to_the_right_one_is_told_first(judge, answer, words):
    assert told(judge, answer).removeprefix("Probable cause: ").startswith(words)


def test_a_relation_that_does_not_hold_on_every_input_is_not_told():
    text = told(ROW, lambda x: (moments(x)[0], moments(x)[1] * (2 if len(x) == 3 else 3)))
    assert text.startswith("On 3 rows of 5: var[0] is")


# ------------------------------------------------------------------------------------------- misconceptions, as lines


def solution(x):
    mean = x.mean(-1, keepdim=True)
    total = 0
    for row in x:
        part = row.sum()
        total = total + part
    return x - mean, total


BLOCK = "# the mean is that of all rows. | Say -1.\nmean = x.mean()\n# or\nmean = x.mean(0)"


def test_a_block_is_a_cause_a_repair_and_several_ways():
    first, second = misconceptions(solution, BLOCK)
    assert (first.cause, first.repair, second.cause) == ("the mean is that of all rows.", "Say -1.", first.cause)
    for text in (
        "mean = x.mean()",
        "# all.\nmean = x.mean()\n# the first.\nmean = x.mean(0)",
        "# all.",
        "# all.\n\nmean = 1",
    ):
        with pytest.raises(ValueError, match="Begin each with its cause in a comment, leave an empty line before it"):
            misconceptions(solution, text)
    with pytest.raises(ValueError, match="changes nothing"):
        instead(solution, "mean = x.mean(-1, keepdim=True)")


# ------------------------------------------------------------------------------------------------- answers in values

SAME = {  # right: others that are right, and some that are not
    0.5: ([np.float16(0.5), torch.tensor([0.5]), Fraction(1, 2), "1/2", [0.5, 0.5]], [0.6, True, None, [], [0.5, 0.6]]),
    3: ([3.0, "3", torch.tensor(3)], [4, True, "x", "1e999999999"]),
    True: ([np.bool_(True)], [1, "True"]),
    (0, 2): ([[0, 2], torch.Size([0, 2]), [[0], [2]], torch.tensor([[0], [2]])], [(0,), 2, [[0, 0], [2, 2]]]),
}


@pytest.mark.parametrize("value", SAME)
def test_a_number_is_a_number_whoever_holds_it(value):
    judge = quiz(it=(value, {}), tolerance=1e-6)
    assert [told(judge, {"it": answer}) for answer in (value, *SAME[value][0])] == [""] * (len(SAME[value][0]) + 1)
    assert all(told(judge, {"it": answer}) for answer in SAME[value][1])


SIZES = {"means": 6, "shape": (2, 1), "biased": True, "factor": 0.75, "which": "rows"}
QUIZ = quiz(SIZES | {"means": (6, {12: "That is every entry."}), "mass": (40, {})}, tolerance=1e-3)
VALUES = [  # an answer, or what is changed of a right one, and what the message says
    (
        {"means": 12, "shape": 0},
        "means: 12 is not right. Right so far: biased, factor, which, mass.\nThat is every entry.",
    ),
    ({"means": "six"}, "\nThe answer is a number"),
    ({"means": ...}, "means: put your answer in the place of the three dots. Right so far: shape,"),
    ({"means": draw(0, 2)}, "means: a tensor of shape (2,) is not right"),
    ({"means": -6}, "\nIs its sign right?"),
    ({"means": 36}, "\nIs a square, or a root, missing or too much?"),
    ({"mass": 240}, "\nYou are off by a factor of 6."),
    ({"factor": 75}, "\nA share, or percent?"),
    ({"factor": 0.25}, "\nThat is what is left."),
    ({"factor": 0.9375}, "\nIs something divided by 4 that has 5 parts"),
    ({"factor": 0.753}, "\nThat is close. Was a number rounded"),
    ({"shape": (1, 2)}, "\nThe numbers are right, and their order is not."),
    ({"biased": 1}, "\nThe answer is one of Python's"),
    ({"which": "row"}, "\nThe answer is one of the"),
    ({"mean": 6}, "'mean': unknown. The keys are 'means', 'shape', 'biased', 'factor', 'which', 'mass'."),
    ([6, 12], "check.toy takes a dictionary with a value for each of 6 keys, not a list of 2."),
    (..., "check.toy got three dots: put your answer in their place."),
]


@pytest.mark.parametrize("change, message", VALUES)
def test_a_wrong_value_is_named_with_its_cause(change, message):
    right = SIZES | {"mass": 40}
    assert message in told(QUIZ, right | change if isinstance(change, dict) else change)
    assert told(QUIZ, {}) == "'means', 'shape' and 4 more: missing."


# ---------------------------------------------------------------------------------------- what a learner's check adds


def test_the_cause_comes_first_and_the_repair_from_the_second_time_on_and_never_in_the_log(monkeypatch):
    def toy(answer):
        if answer == 1:
            reject("On 1: it is 1, expected 2.", "Probable cause: one is missing. | Add one.")
        reject("On 0: it is 0.", "Zero is no number here.") if answer == 0 else accept("Right: two.")

    noted, its = [], course.checks()["how_many"]
    monkeypatch.setattr("lessonkit.attempts.note", lambda *item, **more: noted.append(more["mistake"]))
    monkeypatch.setattr(course, "checks", lambda: {"toy": its})
    judge = check._judging("toy", toy)
    first = "Probable cause: one is missing.\nOn 1: it is 1, expected 2."
    assert told(judge, 1) == first and told(judge, 0) == "On 0: it is 0.\nZero is no number here."
    assert told(judge, 1) == f"{first}\nTo mend it: Add one."
    assert told(check._judging("other", toy), 1) == first, "of another exercise it is the first time"
    assert told(toy, 1) == f"{first}\nTo mend it: Add one.", "tests and graders are told the whole at once"
    assert len(noted) == 3 and "Add one" not in str(noted)


@pytest.fixture
def shell():
    with helpers.shell() as running:
        shown.install()
        yield running


def run(shell, *cells):
    """Run cells; return the lines that the last one printed, or those of its error."""
    for cell in cells:
        result = shell.run_cell(cell, store_history=True)
    return str(result.error_in_exec).split("\n")


IMPORTS = "import torch\nfrom numbers import Integral\nfrom torch import nn\nfrom lessonkit import check"


def test_an_open_exercise_closes_no_later_one(shell, capsys):
    """Exercise 6.3 needs a function of 6.1."""
    lesson = read(SOURCES[5])
    exported = {cell.id: blank(lesson, cell) for cell in lesson.code("export")}
    asks, borrowed = "check.batch_norm(BatchNorm1d)", "channel_stats, since your 6.1"
    run(shell, IMPORTS, *(solved if name == "ex-6-3" else unsolved for name, (unsolved, solved) in exported.items()))
    before = {name: getattr(value, "__bases__", None) for name, value in shell.user_ns.items()}
    capsys.readouterr()
    run(shell, asks)
    first, *more = capsys.readouterr().out.splitlines()
    assert first.startswith("Right: ")
    assert f"This was judged with the course's own {borrowed} is still open." in more
    assert {name: getattr(shell.user_ns[name], "__bases__", None) for name in before} == before
    wrong = "class Wrong(BatchNorm1d):\n    def forward(self, x):\n        return super().forward(x) + 0.5"
    lines = run(shell, wrong, "check.batch_norm(Wrong)")
    assert lines[0].startswith("Not yet. ") and f"{borrowed} is still open." in "\n".join(lines)
    assert run(shell, exported["ex-6-3"][0], asks)[0].startswith("6.3: replace this line")


def test_what_inherits_from_a_blank_inherits_from_the_course_s_own_meanwhile():
    class Blank:
        pass

    class Heir(Blank):
        pass

    class Course(Blank):
        said = "the course's"

    space = {"Blank": Blank, "Heir": Heir}
    with attempt._replaced(space, {"Blank": Course}):
        assert space["Blank"] is Course and Heir().said == "the course's"
    assert space == {"Blank": Blank, "Heir": Heir} and Heir.__bases__ == (Blank,)


def test_a_cell_that_python_cannot_read_leaves_the_definition_from_before_and_the_check_says_so(shell, capsys):
    card, asks = "# Exercise 2.1 · ●●○○○ · 4 min\n", "check.mean_and_var(mean_and_var)"
    good = f"{card}def mean_and_var(x):\n    return x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)"
    output = (
        "Python could not read the cell of exercise 2.1 when it was run last, so this is about the definition from "
        "before."
    )
    assert output not in run(shell, "from lessonkit import check", good.replace("correction=0", "correction=1"), asks)
    assert output in run(shell, good.replace("return x", "return (( * x"), asks)
    capsys.readouterr()
    run(shell, good.removeprefix(card), asks)
    assert output not in capsys.readouterr().out, "written anew in a cell without the card"

"""How a check reads, on toy exercises: what it accepts, what it says of the rest, and what it leaves in peace.

The exercises themselves are in test_checks.py.
"""

import re

import pytest
import torch
from torch.nn import functional as F

from lessonkit.check.declare import Misconception, NotYet, Probe, YourTurn, call, examine, values
from tests.helpers import draw


def center(x):
    return x - x.mean(-1, keepdim=True)


def moments(x):
    return x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)


ROWS = [call("3 rows of 5", draw(0, 3, 5)), call("one long row", draw(1, 40))]
SHAPES = ("3 rows of 5", (3, 5)), ("a (2, 3, 4) tensor", (2, 3, 4))
OF_PAIRS = {
    "probes": [call(name, draw(0, *shape), returns=("mean", "var")) for name, shape in SHAPES],
    "reference": moments,
}


def refusal(answer, probes=ROWS, reference=center, misconceptions=(), **more):
    """Return the lines of the rejection; [] if the answer is accepted. Holds for every rejection: it is well formed."""
    try:
        assert examine(answer, "toy", probes, reference, misconceptions, **more) is None
    except NotYet as error:
        lines = str(error).splitlines()
        assert error.show() == lines and 1 <= len(lines) <= 2 and error.__suppress_context__
        assert lines[0].startswith("Not yet. ") and all(len(line) < 400 and line == line.strip() for line in lines)
        assert not any(re.search(r"(?<!\.)\.\.(?!\.)|  | \.( |$)|: None", line) for line in lines), lines
        assert all(line[-1] in ".?!…" for line in lines)
        return lines
    return []


def first(answer, **more):
    return refusal(answer, **more)[0].removeprefix("Not yet. ")


class Center(torch.nn.Module):
    def forward(self, x):
        return center(x)


def test_a_right_answer_gets_one_line(capfd):
    assert refusal(lambda x: x - x.sum(-1, keepdim=True) / x.shape[-1]) == [] == refusal(Center(), tried="everything")
    assert capfd.readouterr() == (
        "Right: toy does what it should on 2 inputs (3 rows of 5, one long row).\n"
        "Right: toy does what it should on 2 inputs (everything).\n",
        "",
    )
    assert refusal(lambda x: list(moments(x)), **OF_PAIRS) == []


def assert_false():
    raise AssertionError


def endless(x):
    return endless(x)


def spoils_the_graph(x):
    y = center(x).exp()
    z = (y * y).log() / 2
    y.data.add_(0)
    y.mul_(1)
    return z


WRONG = [  # (answer, how the message begins after "On 3 rows of 5: ", with the suggestion after a line break)
    (
        lambda x: None,
        "it returned nothing (None), expected a tensor of shape (3, 5).\nIs the return missing at the end?",
    ),
    (lambda x: x.detach().numpy(), "it returned a NumPy array of shape (3, 5), expected a tensor"),
    (moments, "it returned a tuple of 2, expected a tensor of shape (3, 5)."),
    (lambda x: x.mean(-1), "the result has shape (3,), expected (3, 5). In: x of shape (3, 5)."),
    (lambda x: center(x).float(), "the result has dtype torch.float32, expected torch.float64.\nA conv"),
    (lambda x: x.sub_(x.mean(-1, keepdim=True)), "your code changed its input x.\nAn operation in place"),
    (lambda x: (center(x), x.data.add_(1e-12))[0], "your code changed its input x."),
    (lambda x: center(x).detach(), "there is no gradient of x.\nSomething cuts the way"),
    (lambda x: center(x) + 0.1 * (x - x.detach()), "gradient of x["),
    (spoils_the_graph, "gradient of x could not be computed (RuntimeError: one of the variables"),
    (lambda x: (_ for _ in ()).throw(ValueError("one\n" + "two " * 300)), "it raised ValueError: one"),
    (lambda x: assert_false(), "it raised AssertionError. In: x of shape (3, 5)."),
    (lambda: 3, "it raised TypeError: <lambda>() takes 0 positional arguments but 1 was given."),
    (lambda x: endless(x), "it raised RecursionError: maximum recursion depth exceeded"),
    (lambda x: center(x) * float("nan"), "the result[0] is [nan, nan, nan, nan, nan], expected ["),
    (draw(0, 3, 5), "check.toy takes your function itself, not a tensor of shape (3, 5): write check.toy("),
    (torch.nn.ReLU, "check.toy takes your function itself, not a class."),
]


@pytest.mark.parametrize("answer, message", WRONG)
def test_a_wrong_answer_gets_a_message_that_reads_well(answer, message):
    text = "\n".join(refusal(answer)).removeprefix("Not yet. ").removeprefix("On 3 rows of 5: ")
    assert text.startswith(message), f"\n{text}\n{message}"


def test_an_output_among_several_is_named():
    assert first(lambda x: (x.mean(-1, keepdim=True), None), **OF_PAIRS) == (
        "On 3 rows of 5: var is nothing (None), expected a tensor of shape (3, 1)."
    )
    assert "a tensor of shape (3, 1), expected mean and var." in first(lambda x: moments(x)[0], **OF_PAIRS)


# ------------------------------------------------------------------------------------------------------------ the cause

UNBIASED = Misconception("the variance is divided by D - 1.", lambda x: (moments(x)[0], x.var(-1, keepdim=True)))
SWAPPED = Misconception("mean and variance are swapped.", lambda x: moments(x)[::-1])


def test_a_known_mistake_is_the_cause_if_it_does_the_same_on_every_input():
    toy = OF_PAIRS | {"misconceptions": [SWAPPED, UNBIASED]}
    unbiased = lambda x: (x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=1))
    assert refusal(unbiased, **toy)[0] == "Not yet. Probable cause: the variance is divided by D - 1."
    assert len(refusal(lambda x: unbiased(x) if x.dim() == 2 else moments(x), **toy)) == 1


def test_where_inf_comes_from_is_suggested():
    probes = [call("a constant row", torch.ones(2, 4, dtype=torch.float64))]
    divides = lambda x: x / x.std(-1, keepdim=True)
    assert refusal(divides, probes=probes)[1].startswith("inf comes from a division by 0")


def test_an_expected_error():
    def picky(x):
        if x.dim() < 2:
            raise ValueError("expected two axes")
        return center(x)

    probes = [call("3 rows of 5", draw(0, 3, 5)), call("a vector", draw(0, 5))]
    assert refusal(picky, probes=probes, reference=picky) == []
    missing = first(center, probes=probes, reference=picky)
    assert missing.startswith("On a vector: it raised no error, expected a ValueError. In: x = [1.541, -0.2934")
    other = first(lambda x: center(x) if x.dim() > 1 else {}["axes"], probes=probes, reference=picky)
    assert other.startswith("On a vector: it raised KeyError: 'axes'. Expected a ValueError. In: x = [")


def test_the_ready_made_function_is_refused_where_building_is_the_point():
    ready = lambda x: F.layer_norm(x, x.shape[-1:])
    assert refusal(ready, reference=ready, by_hand=("layer_norm",)) == [
        "Not yet. Right values, and PyTorch's own layer_norm made them.",
        "This exercise is there to build it: write its steps yourself.",
    ]


# -------------------------------------------------------------------------------------------------------- left in peace


def test_your_turn_and_the_keyboard_are_let_through():
    def blank(x):
        raise YourTurn("3.1: write it")

    def stop(x):
        raise KeyboardInterrupt

    for answer, toy in ((blank, {}), (lambda x: center(blank(x)), {}), (blank, OF_PAIRS)):
        with pytest.raises(YourTurn, match="3.1"):
            refusal(answer, **toy)
    with pytest.raises(KeyboardInterrupt):
        refusal(stop)


# ------------------------------------------------------------------------------------------------ parts of an exercise


class Whole:
    first, second = staticmethod(lambda x: x - x.mean()), staticmethod(lambda x: x / 2)


class Half(Whole):
    second = staticmethod(lambda x: x)


class Waits(Whole):
    @staticmethod
    def second(x):
        raise YourTurn("6.2: write it")


def test_an_exercise_of_several_parts_says_what_is_right_so_far(capfd):
    def in_parts(answer):
        stages = [
            ([Probe("numbers", lambda cls: {"the result": cls.first(draw(0, 3))})], "first"),
            ([Probe("numbers again", lambda cls: {"the result": cls.second(draw(0, 3))})], "second"),
        ]
        examine(answer, "whole", stages, Whole, right="{answer.__name__}: {count} inputs")

    with pytest.raises(NotYet, match=r"^Not yet. On numbers again: .*\nRight so far: first\.$"):
        in_parts(Half)
    with pytest.raises(YourTurn, match=r"^6.2: write it\nRight so far: first\.$"):
        in_parts(Waits)
    in_parts(Whole)
    assert capfd.readouterr().out == "Right: Whole: 2 inputs.\n"


# ------------------------------------------------------------------------------------------------- answers in values

SIZES = {"means": 6, "shape": (2, 1), "biased": True, "factor": 0.75, "which": "rows"}
CAUSES = {
    "means": {12: "That is every entry."},
    "factor": {0.5: "Half is for D = 2."},
    "shape": {(2,): "Say keepdim."},
    "which": {"columns": "These are the other way round."},
}


def quiz(answer):
    try:
        return values(answer, "sizes", SIZES, CAUSES, tolerance=1e-3)
    except NotYet as error:
        return str(error)


@pytest.mark.parametrize(
    "change",
    [{}, {"means": 6.0, "shape": [2, 1], "factor": 0.7501, "which": " Rows "}, {"means": "6", "factor": "3/4"}],
)
def test_a_value_is_right_in_another_form(change, capfd):
    assert quiz(SIZES | change) is None
    assert capfd.readouterr() == ("Right: all 5 answers.\n", "")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"means": 12}, "12 is not right. Right so far: shape, biased, factor, which.\nThat is every entry."),
        ({"means": 12, "shape": 0}, "12 is not right. Right so far: biased, factor, which.\nThat is every entry."),
        ({"means": "six"}, "'six' is not right. Right so far: shape, biased, factor, which.\nThe answer is a number."),
        ({"means": ...}, "put your answer in the place of the three dots. Right so far: shape,"),
        ({"means": draw(0, 2)}, "a tensor of shape (2,) is not right"),
        ({"shape": (2,)}, "(2,) is not right. Right so far: means, biased, factor, which.\nSay keepdim."),
        ({"biased": 1}, "1 is not right. Right so far: means, shape, factor, which.\nThe answer is one of Python's"),
        ({"factor": 0.5004}, "0.5004 is not right. Right so far: means, shape, biased, which.\nHalf is for D = 2."),
        ({"which": "row"}, "'row' is not right. Right so far: means, shape, biased, factor.\nThe answer is one of the"),
    ],
)
def test_a_wrong_value_is_named_with_its_cause(change, message):
    assert quiz(SIZES | change).startswith(f"Not yet. {next(iter(change))}: {message}")


@pytest.mark.parametrize(
    "answer, message",
    [
        ([6, 12], "check.sizes takes a dictionary with a value for each of 5 keys, not a list of 2."),
        (..., "check.sizes got three dots: put your answer in their place."),
        ({}, "'means', 'shape' and 3 more: missing."),
        (SIZES | {"mean": 6}, "'mean': unknown. The keys are 'means', 'shape', 'biased', 'factor', 'which'."),
    ],
)
def test_values_in_another_form(answer, message):
    assert quiz(answer) == f"Not yet. {message}"

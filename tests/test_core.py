"""The machinery of the checks, on toy exercises: what it accepts, what it rejects, and how that reads."""

import contextlib
import random
import re
import sys
import warnings
from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check import core
from lessonkit.check.core import (
    Mistake,
    NotYet,
    Probe,
    Raised,
    YourTurn,
    call,
    choice,
    examine,
    in_float64,
    in_stages,
    known,
    values,
)
from lessonkit.check.mistakes import listening
from tests.helpers import draw


def center(x):
    return x - x.mean(-1, keepdim=True)


def moments(x):
    return x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)


PAIR = {"returns": ("mean", "var")}
ROWS = [call("3 rows of 5", draw(0, 3, 5)), call("one long row", draw(1, 40))]
PAIRS = [call("3 rows of 5", draw(0, 3, 5), **PAIR), call("a (2, 3, 4) tensor", draw(1, 2, 3, 4), **PAIR)]
OF_ROWS = {"probes": ROWS, "reference": center}
OF_PAIRS = {"probes": PAIRS, "reference": moments}


def said(answer, probes=ROWS, reference=center, mistakes=(), **more):
    """Return the lines of the rejection; [] if the answer is accepted. Holds for every rejection: it is well formed."""
    try:
        assert examine(answer, "toy", probes, reference, mistakes, **more) is None
    except NotYet as error:
        lines = str(error).splitlines()
        assert error.show() == lines and 1 <= len(lines) <= 2 and error.__suppress_context__
        assert lines[0].startswith("Not yet. ") and all(len(line) < 400 and line == line.strip() for line in lines)
        assert not any(re.search(r"(?<!\.)\.\.(?!\.)|  | \.( |$)|: None", line) for line in lines), lines
        assert all(line[-1] in ".?!…" for line in lines)
        return lines
    return []


def first(answer, **more):
    return said(answer, **more)[0].removeprefix("Not yet. ")


# ------------------------------------------------------------------------------------------------------------- right


def test_a_right_answer_gets_one_line(capfd):
    assert said(lambda x: x - x.sum(-1, keepdim=True) / x.shape[-1]) == []
    assert said(center, tried="everything") == []
    assert said(center, probes=ROWS[:1]) == []
    assert capfd.readouterr() == (
        "Right: toy does what it should on 2 inputs (3 rows of 5, one long row).\n"
        "Right: toy does what it should on 2 inputs (everything).\n"
        "Right: toy does what it should on 1 input (3 rows of 5).\n",
        "",
    )


def test_tuples_and_lists_of_outputs_and_modules_are_right():
    assert said(moments, **OF_PAIRS) == [] == said(lambda x: list(moments(x)), **OF_PAIRS)

    class Center(torch.nn.Module):
        def forward(self, x):
            return center(x)

    assert said(Center()) == []


def test_tolerance_is_relative_to_the_largest_expected_number():
    probes = [call("large numbers", 1e6 * draw(0, 3, 5), tolerance=1e-6, gradient=False)]
    assert said(lambda x: center(x) + 0.5, probes=probes) == []
    assert said(lambda x: center(x) + 5.0, probes=probes)


def test_a_layer_that_returns_a_single_number_hears_of_its_shape():
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x.sum()

    probe = core.call_layer("3 rows of 5", lambda cls: cls(), draw(0, 3, 5), {})
    with pytest.raises(NotYet, match=r"shape \(\).*expected.*\(3, 5\)"):
        core.in_stages(Layer, "layer", [([probe], [])], torch.nn.Identity, "{answer.__name__}, {count} inputs")


@pytest.mark.parametrize(
    "x",
    [draw(0, 0, 5), draw(0), torch.arange(6).reshape(2, 3), torch.tensor([True, False])],
    ids=["empty", "0-d", "int", "bool"],
)
def test_inputs_and_outputs_of_every_kind(x, capfd):
    def same(x):
        return x.clone()

    probes = [call("it", x)]
    assert said(same, probes=probes, reference=same) == []
    assert "it returned nothing" in first(lambda x: None, probes=probes, reference=same)
    assert "has shape" in first(lambda x: x[None], probes=probes, reference=same)
    if x.numel():
        assert " is " in first(lambda x: x.logical_not().to(x.dtype), probes=probes, reference=same)


def test_integers_and_bools_are_shown_as_they_are():
    x = torch.tensor([[3, 1, 2], [5, 4, 6]])
    ints = [call("whole numbers", x)]
    assert first(lambda x: x.argsort(-1) + 1, probes=ints, reference=lambda x: x.argsort(-1)) == (
        "On whole numbers: the result[0] is [2, 3, 1], expected [1, 2, 0]. In: x[0] = [3, 1, 2]."
    )
    assert first(lambda x: x > 3, probes=ints, reference=lambda x: x > 2).startswith(
        "On whole numbers: the result[0] is [False, False, False], expected [True, False, False]. In: x[0] = [3,"
    )
    assert first(lambda x: x.sum(), probes=ints, reference=lambda x: x.max()) == (
        "On whole numbers: the result is 21, expected 6. In: x of shape (2, 3)."
    )


# ---------------------------------------------------------------------------------------------- wrong, and how it reads

WRONG = {  # what: (answer, the message after "On 3 rows of 5: ", with the suggestion after a line break)
    "None": (
        lambda x: None,
        "it returned nothing (None), expected a tensor of shape (3, 5).\nIs the return missing at the end?",
    ),
    "a list": (lambda x: x.tolist(), "it returned a list of 3, expected a tensor of shape (3, 5)."),
    "a number": (lambda x: 3.5, "it returned the number 3.5, expected a tensor of shape (3, 5)."),
    "a string": (lambda x: "done", "it returned 'done', expected a tensor of shape (3, 5)."),
    "NumPy": (
        lambda x: x.detach().numpy(),
        "it returned a NumPy array of shape (3, 5), expected a tensor of shape (3, 5).",
    ),
    "a module": (lambda x: torch.nn.ReLU(), "it returned a ReLU, expected a tensor of shape (3, 5)."),
    "a pair": (moments, "it returned a tuple of 2, expected a tensor of shape (3, 5)."),
    "a shape": (lambda x: x.mean(-1), "the result has shape (3,), expected (3, 5). In: x of shape (3, 5)."),
    "float32": (
        lambda x: center(x).float(),
        "the result has dtype torch.float32, expected torch.float64.\n"
        "A conversion like .float() or torch.tensor(...) must be undone before the return: .to(x.dtype).",
    ),
    "int": (lambda x: center(x).long(), "the result has dtype torch.int64, expected torch.float64."),
    "meta": (lambda x: center(x).to("meta"), "the result is on the device meta, expected cpu."),
    "in place": (
        lambda x: x.sub_(x.mean(-1, keepdim=True)),
        "your code changed its input x.\n"
        "An operation in place (+=, *=, or a name that ends in _) works on the caller's tensor. "
        "Write x = x - mean, not x -= mean.",
    ),
    "detached": (
        lambda x: center(x).detach(),
        "there is no gradient of x.\nSomething cuts the way from the output "
        "back to the input: .detach(), .data, .item(), torch.no_grad(), torch.tensor(...) or NumPy.",
    ),
    "of something else": (lambda x: torch.ones(3, 5, dtype=x.dtype, requires_grad=True), "the result[0] is "),
    "an error": (
        lambda x: x.mean(-1, what=4),
        "it raised TypeError: mean() got an unexpected keyword argument 'what'. In: x of shape (3, 5).",
    ),
    "a full stop": (
        lambda x: x.numpy(),
        "it raised RuntimeError: Can't call numpy() on Tensor that requires grad. "
        "Use tensor.detach().numpy() instead. In: x of shape (3, 5).",
    ),
    "an error without text": (lambda x: [][x], "it raised TypeError: "),
    "exit": (lambda x: sys.exit(), "it raised SystemExit. In: x of shape (3, 5)."),
    "exit with a number": (lambda x: sys.exit(3), "it raised SystemExit: 3. In: x of shape (3, 5)."),
    "assert": (lambda x: assert_false(), "it raised AssertionError. In: x of shape (3, 5)."),
    "a check inside": (lambda x: values(3, "other", 4), "it raised NotYet: Not yet. 3 is not right. In: "),
    "no argument": (lambda: 3, "it raised TypeError: <lambda>() takes 0 positional arguments but 1 was given."),
    "endless": (lambda x: endless(x), "it raised RecursionError: maximum recursion depth exceeded"),
    "nan": (lambda x: center(x) * float("nan"), "the result[0] is [nan, nan, nan, nan, nan], expected ["),
    "its result": (
        draw(0, 3, 5),
        "check.toy takes your function itself, not a tensor of shape (3, 5): write "
        "check.toy(toy), without calling it first.",
    ),
    "a number for a function": (3, "check.toy takes your function itself, not the number 3: write check.toy(toy), "),
    "None for a function": (None, "check.toy takes your function itself, not nothing (None): write check.toy(toy), "),
    "a class for a function": (torch.nn.ReLU, "check.toy takes your function itself, not a class."),
    "three dots": (..., "check.toy got three dots: put your answer in their place."),
}


def assert_false():
    raise AssertionError


def endless(x):
    return endless(x)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_answer_gets_a_message_that_reads_well(what):
    answer, message = WRONG[what]
    found = "\n".join(said(answer)).removeprefix("Not yet. ").removeprefix("On 3 rows of 5: ")
    assert found.startswith(message), f"\n{found}\n{message}"


def test_an_output_among_several_is_named():
    pair = first(lambda x: (x.mean(-1, keepdim=True), None), **OF_PAIRS)
    assert pair == "On 3 rows of 5: var is nothing (None), expected a tensor of shape (3, 1)."
    assert said(lambda x: moments(x)[0], **OF_PAIRS) == [
        "Not yet. On 3 rows of 5: it returned a tensor of shape (3, 1), expected mean and var."
    ]
    assert said(lambda x: None, **OF_PAIRS) == [
        "Not yet. On 3 rows of 5: it returned nothing (None), expected mean and var.",
        "Is the return missing at the end?",
    ]
    assert "it returned a tuple of 3, expected mean and var." in first(lambda x: (*moments(x), 1), **OF_PAIRS)
    assert "there is no gradient of x" in first(lambda x: (moments(x)[0], moments(x)[1].detach()), **OF_PAIRS)


def test_numbers_are_of_the_row_that_is_most_wrong_and_so_is_the_input():
    x = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) ** 2
    probes = [call("squares", x, gradient=False)]

    def wrong(x):
        y = center(x)
        y[0, 1] += 0.5
        y[1, 2, 3] += 2
        return y

    assert first(wrong, probes=probes) == (
        "On squares: the result[1, 2] is [-63.5, -22.5, 20.5, 67.5], expected [-63.5, -22.5, 20.5, 65.5]. "
        "In: x[1, 2] = [400, 441, 484, 529]."
    )
    assert first(lambda x: x.mean(-1) + (x.sum(-1) > 1800), probes=probes, reference=lambda x: x.mean(-1)) == (
        "On squares: the result[1] is [183.5, 307.5, 464.5], expected [183.5, 307.5, 463.5]. "
        "In: x[1, 2] = [400, 441, 484, 529]."
    )


def test_a_long_row_is_shown_around_the_number_that_is_wrong():
    def wrong(x):
        return center(x) + (torch.arange(len(x)) == 30)

    x = torch.arange(40.0, dtype=torch.float64)
    assert first(wrong, probes=[call("0 to 39", x)]) == (
        "On 0 to 39: the result is […, 6.5, 7.5, 8.5, 9.5, 11.5, 11.5, 12.5, 13.5, …], "
        "expected […, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, …]. "
        "In: x = […, 26, 27, 28, 29, 30, 31, 32, 33, …]."
    )


@pytest.mark.parametrize(
    "mine, right, message",
    [
        (1.00001, 1.0, "is 1.00001, expected 1."),
        (1 / 3, 0.3334, "is 0.3333, expected 0.3334."),
        (1 / 3, 1 / 3 + 1e-7, "is 0.33333333, expected 0.33333343."),
        (999.71054, 999.71053, "is 999.71054, expected 999.71053."),
        (1000.0, 999.0, "is 1000, expected 999."),
        (12345.678, 0.0, "is 12346, expected 0."),
        (2e-9, 1e-9 / 3, "is 2e-09, expected 3.333e-10."),
        (-0.0001, 0.0001, "is -0.0001, expected 0.0001."),
        (float("inf"), 2 / 3, "is inf, expected 0.6667."),
        (float("inf"), float("-inf"), "is inf, expected -inf."),
    ],
)
def test_digits_are_as_many_as_tell_the_numbers_apart(mine, right, message):
    exact = {"tolerance": 0.0, "gradient": False}
    probe = [call("it", torch.ones((), dtype=torch.float64), **exact)]
    assert f"the result {message}" in first(lambda x: x * mine, probes=probe, reference=lambda x: x * right)
    probe = [call("it", torch.ones(2, 1, dtype=torch.float64), **exact)]
    within = message.replace("is ", "is [").replace(", ", "], ").replace("expected ", "expected [")[:-1] + "]."
    assert f"the result[0] {within}" in first(lambda x: x * mine, probes=probe, reference=lambda x: x * right)


def test_offset_inputs_are_shown_with_the_digits_that_differ():
    x = 10_000 + torch.tensor([[0.25, 0.5, 0.75, 1.0]], dtype=torch.float64)
    assert "In: x[0] = [10000.25, 10000.5, 10000.75, 10001]." in first(lambda x: x, probes=[call("far away", x)])


def test_several_inputs_the_first_in_numbers_the_others_in_shape():
    probes = [call("a gain", draw(0, 2, 3), draw(0, 3), 1e-5, names=("x", "weight", "eps"))]
    message = first(lambda x, weight, eps: x, probes=probes, reference=lambda x, weight, eps: x * weight)
    assert message.endswith("weight of shape (3,), eps = 1e-05.") and "In: x[" in message


def test_an_input_is_not_shown_by_rows_that_are_not_the_output_s():
    message = first(lambda x: x.T * 2, probes=[call("a matrix", draw(0, 3, 5))], reference=lambda x: x.T)
    assert "In: x of shape (3, 5)." in message


def test_a_wrong_gradient_is_found_where_the_values_are_right():
    lines = said(lambda x: center(x) + 0.1 * (x - x.detach()))
    assert lines[0].startswith("Not yet. On 3 rows of 5: gradient of x[") and "expected [" in lines[0]
    assert lines[1].startswith("The values agree, the gradient does not: .detach(), .item() or torch.no_grad()")
    lines = said(spoils_the_graph)
    assert "gradient of x could not be computed (RuntimeError: one of the variables needed" in lines[0]
    assert lines[1] == "An operation in place changed a tensor that the gradient needs."


def spoils_the_graph(x):
    y = center(x).exp()
    z = (y * y).log() / 2
    y.data.add_(0)
    y.mul_(1)
    return z


def test_long_texts_are_cut():
    assert len(first(lambda x: (_ for _ in ()).throw(ValueError("blah " * 300)))) < 260
    assert "line one. In:" in first(lambda x: (_ for _ in ()).throw(ValueError("line one\nline two")))
    label = [Probe("it", lambda answer: {"name": answer()}, {})]
    assert len(first(lambda: "y" * 3000, probes=label, reference=lambda: "x" * 3000)) < 260


# ------------------------------------------------------------------------------------------------------------ the cause

UNBIASED = Mistake("the variance is divided by D - 1.", lambda x: (moments(x)[0], x.var(-1, keepdim=True)))
SWAPPED = Mistake("mean and variance are swapped.", lambda x: moments(x)[::-1])


def test_a_known_mistake_is_the_cause_if_it_does_the_same_on_every_input():
    toy = OF_PAIRS | {"mistakes": [SWAPPED, UNBIASED]}
    unbiased = lambda x: (x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=1))
    assert said(unbiased, **toy)[0] == "Not yet. Probable cause: the variance is divided by D - 1."
    assert len(said(lambda x: unbiased(x) if x.dim() == 2 else moments(x), **toy)) == 1
    assert len(said(lambda x: unbiased(x) if x.dim() == 2 else moments(x)[::-1], **toy)) == 1


def test_a_known_mistake_beats_the_general_suggestion():
    mistakes = [Mistake("no eps.", lambda x: x / x.std(-1, keepdim=True))]
    probes = [call("a constant row", torch.ones(2, 4, dtype=torch.float64))]
    found = said(lambda x: x / x.std(-1, keepdim=True), probes=probes, mistakes=mistakes)
    assert found[0] == "Not yet. Probable cause: no eps."
    assert said(lambda x: x / x.std(-1, keepdim=True), probes=probes)[1].startswith("inf comes from a division by 0")
    assert said(lambda x: center(x) / 0, probes=probes)[1].startswith("nan comes from 0/0")


def test_a_mistake_that_raises_is_recognized():
    mistakes = [Mistake("no keepdim.", lambda x: x - x.mean(-1))]
    assert (
        said(lambda x: x - x.sum(-1) / 5, mistakes=mistakes, probes=ROWS[:1])[0]
        == "Not yet. Probable cause: no keepdim."
    )


def test_wrong_values_are_recognized_with_another_gradient():
    mistakes = [Mistake("twice.", lambda x: 2 * center(x))]
    assert said(lambda x: center(x) + center(x).detach(), mistakes=mistakes)[0] == "Not yet. Probable cause: twice."
    own = [Mistake("gradient twice.", lambda x: center(x) + x - x.detach())]
    other = said(lambda x: center(x) + 3 * (x - x.detach()), mistakes=own)
    assert "Probable cause" not in other[1], "where the values are right the gradient counts"


# -------------------------------------------------------------------------------------------- errors that are expected


def picky(x):
    if x.dim() < 2:
        raise ValueError("expected two axes")
    return center(x)


def test_an_expected_error():
    probes = [call("3 rows of 5", draw(0, 3, 5)), call("a vector", draw(0, 5))]
    assert said(picky, probes=probes, reference=picky) == []
    assert first(center, probes=probes, reference=picky) == (
        "On a vector: it raised no error, expected a ValueError. In: x = [1.541, -0.2934, -2.179, 0.5684, -1.085]."
    )

    def other(x):
        return center(x) if x.dim() > 1 else {}["axes"]

    assert first(other, probes=probes, reference=picky).startswith(
        "On a vector: it raised KeyError: 'axes'. Expected a ValueError. In: x = ["
    )


def test_errors_inside_an_observation():
    def attempt(answer):
        try:
            answer(-1)
        except Exception as error:
            return {"a negative number": core.raised(error)}
        return {"a negative number": "no error"}

    def right(n):
        if n < 0:
            raise ValueError("negative")

    probes = [Probe("odd input", attempt)]
    assert said(right, probes=probes, reference=right) == []
    assert first(lambda n: n, probes=probes, reference=right) == (
        "On odd input: a negative number: yours is 'no error', expected a ValueError."
    )


# ------------------------------------------------------------------------------------------------ what is no tensor


@pytest.mark.parametrize(
    "mine, right, message",
    [
        ((3, 4), (3, 5), "its size: yours is (3, 4), expected (3, 5)."),
        ([3, 4], (3, 4), "its size: yours is [3, 4], expected (3, 4)."),
        (torch.Size([3]), (3,), "its size: yours is torch.Size([3]), expected (3,)."),
        (True, 1, "its size: yours is True, expected 1."),
        ("a", "b", "its size: yours is 'a', expected 'b'."),
        (None, "b", "it returned nothing (None), expected 'b'."),
        (draw(0, 2, 3), "b", "its size: yours is a tensor of shape (2, 3), expected 'b'."),
        ([draw(0, 2)], [draw(0, 2)], "its size: yours is [tensor("),
        (0.1, 0.2, "its size: yours is 0.1, expected 0.2."),
        (13.4, 13.397459621556141, "its size: yours is 13.4, expected 13.3975."),
        ("1", 1.0, "its size: yours is '1', expected 1."),
        (float("nan"), 0.5, "its size: yours is nan, expected 0.5."),
    ],
)
def test_other_observations(mine, right, message):
    probes = [Probe("a layer", lambda answer: {"its size": answer()})]
    assert first(lambda: mine, probes=probes, reference=lambda: right).startswith(f"On a layer: {message}")


@pytest.mark.parametrize(
    "mine, right",
    [(1, 1.0), (1.0 + 1e-12, 1.0), (torch.tensor(1.0), 1.0), (float("nan"), float("nan")), ((2, 3), (2, 3))],
)
def test_other_observations_that_agree(mine, right):
    probes = [Probe("a layer", lambda answer: {"its size": answer()})]
    assert said(lambda: mine, probes=probes, reference=lambda: right) == []


def test_the_same_value_of_another_type_says_so():
    class Text(str):
        pass

    probes = [Probe("a layer", lambda answer: {"name": answer()})]
    assert first(lambda: Text("a"), probes=probes, reference=lambda: "a") == (
        "On a layer: name: yours is 'a' (Text), expected 'a' (str)."
    )


class Layer(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight


def test_classes():
    probes = [Probe("a layer of 3", lambda cls: {"the output": cls(3)(torch.arange(3.0))}, tolerance=1e-6)]
    toy = {"probes": probes, "reference": Layer, "kind": "class"}
    assert said(Layer, **toy) == []
    assert first(Layer(3), **toy) == "check.toy takes your class itself, not a Layer: write the name without brackets."
    assert first(lambda n: Layer(n), **toy).startswith("check.toy takes your class itself, not a function")

    class Twice(Layer):
        def forward(self, x):
            return 2 * super().forward(x)

    assert first(Twice, **toy) == "On a layer of 3: the output is [0, 2, 4], expected [0, 1, 2]."
    assert first(torch.nn.Linear, **toy).startswith("On a layer of 3: it raised TypeError")

    class Bare(torch.nn.Module):
        def __init__(self, n):
            pass

    assert "it raised AttributeError" in first(Bare, **toy) or "it raised TypeError" in first(Bare, **toy)


# -------------------------------------------------------------------------------------------------- left in peace


def test_your_turn_is_let_through():
    def blank(x):
        raise YourTurn("3.1: write it")

    for answer, toy in ((blank, OF_ROWS), (lambda x: center(blank(x)), OF_ROWS), (blank, OF_PAIRS)):
        with pytest.raises(YourTurn, match="3.1"):
            said(answer, **toy)
    with pytest.raises(YourTurn):  # on the other device, which only answers that make tensors of their own get to see
        said(
            lambda x: center(x) + torch.zeros((), device=x.device) if x.device.type == "cpu" else blank(x), devices=True
        )
    with pytest.raises(YourTurn):
        core.raised(YourTurn("3.1: write it"))


def test_the_keyboard_is_let_through():
    def stop(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        said(stop)


def test_what_an_answer_prints_warns_or_draws_is_kept_away(capfd):
    def noisy(x):
        print("debugging"), print("debugging", file=sys.stderr)
        warnings.warn("look here", stacklevel=1)
        torch.manual_seed(0), torch.rand(3)
        return center(x)

    state = torch.random.get_rng_state(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert said(noisy) == []
        assert said(lambda x: noisy(x) * 2)
    assert torch.equal(torch.random.get_rng_state(), state[0]) and random.getstate() == state[1]
    out, err = capfd.readouterr()
    assert err == "" and out.count("\n") == 1 and out.startswith("Right: toy")


def test_checks_work_where_gradients_are_off():
    with torch.no_grad():
        assert said(center) == [] and not torch.is_grad_enabled()
        assert "no gradient" in first(lambda x: center(x).detach())


def test_every_answer_gets_fresh_inputs():
    x = draw(0, 3, 5)
    before = x.clone()
    probes = [call("it", x), call("it again", x)]
    assert "changed its input" in first(lambda x: x.zero_(), probes=probes)
    assert torch.equal(x, before) and said(center, probes=probes) == []


def test_another_device():
    stays = lambda x: center(x) + torch.zeros(1, dtype=x.dtype)  # noqa: E731
    assert said(stays) == [], "no probe on another device unless the exercise speaks of devices"
    assert said(stays, devices=True) == [
        "Not yet. With x on another device than the CPU it raises an error.",
        "A tensor made inside stays on the CPU: give it device=x.device, or derive it from x.",
    ]
    assert said(lambda x: center(x) + torch.zeros(1, dtype=x.dtype, device=x.device), devices=True) == []
    works_on_a_gpu = lambda x: center(x) if x.sum().item() < 1e9 else x  # noqa: E731
    assert said(works_on_a_gpu, devices=True) == [], ".item() fails on meta but works on a GPU"
    assert said(lambda x: center(x) if x.device.type == "cpu" else sys.exit(), devices=True) == []


@pytest.mark.parametrize(
    "ready",
    [
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: torch.layer_norm(x, x.shape[-1:]),
        lambda x: torch.native_layer_norm(x, x.shape[-1:], None, None, 1e-5)[0],
        lambda x: nn.LayerNorm(x.shape[-1]).double()(x),
    ],
)
def test_the_ready_made_function_is_refused_where_building_is_the_point(ready):
    def built(x):
        c = x - x.mean(-1, keepdim=True)
        return c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5)

    assert said(ready, reference=built) == []
    assert said(ready, reference=built, by_hand=("layer_norm",)) == [
        "Not yet. Right values, and PyTorch's own layer_norm made them.",
        "This exercise is there to build it: write its steps yourself.",
    ]
    assert said(built, reference=built, by_hand=("layer_norm",)) == []
    assert said(lambda x: ready(x) * 2, reference=built, by_hand=("layer_norm",))[0].startswith("Not yet. On 3 rows")
    assert (
        said(
            lambda x: x.softmax(-1),
            reference=lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
            by_hand=("softmax",),
        )[0]
        == "Not yet. Right values, and PyTorch's own softmax made them."
    )


def test_a_changed_input_is_seen_however_small_the_change():
    def nudged(x):
        y = center(x)
        with torch.no_grad():
            x.add_(1e-12)
        return y

    assert first(nudged) == "On 3 rows of 5: your code changed its input x."


def test_a_mistake_with_other_observations_is_not_the_cause():
    """Two observations agree only if they are of the same things: one with fewer of them proves nothing."""
    few = Probe("a toy", lambda answer: answer())
    both = {"the output": draw(0, 3), "the count": 1}
    right = lambda: both | {"the count": 2}  # noqa: E731
    mistakes = [Mistake("never.", lambda: {"the output": draw(0, 3)}), Mistake("counts 1.", lambda: dict(both))]
    assert said(lambda: dict(both), [few], right, mistakes)[0] == "Not yet. Probable cause: counts 1."
    assert said(lambda: {"the output": draw(0, 3)}, [few], right, mistakes[1:]) == [
        "Not yet. On a toy: the count is missing."
    ]


# ---------------------------------------------------------------------------------------------------- known mistakes


def solved(x):
    mean = x.mean(-1, keepdim=True)
    return x - mean


def test_known_mistakes_are_edits_of_a_solution():
    rows = {"x - mean -> x - mean - mean": "twice.", "x.mean -> x.sum ; x - mean -> x + mean": ("sums", "shared")}
    twice, sums = known(solved, rows)
    x = draw(0, 2, 3)
    assert (twice.cause, twice.shares, sums.cause, sums.shares) == ("twice.", "", "sums", "shared")
    assert torch.equal(twice.answer(x), x - x.mean(-1, keepdim=True) - x.mean(-1, keepdim=True))
    assert torch.equal(sums.answer(x), x + x.sum(-1, keepdim=True))
    assert said(lambda x: x - 2 * x.mean(-1, keepdim=True), mistakes=[twice])[0] == "Not yet. Probable cause: twice."
    assert torch.equal(solved(x), center(x)), "the solution itself stays as it is"


@pytest.mark.parametrize(
    "edits, words",
    [
        ("x.median -> x.mean", "solved does not contain 'x.median'. Copy the text"),
        ("x.mean", "'x.mean' is not an edit. Write it as 'old -> new'"),
        ("x.mean -> x.mean", "change nothing"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edits, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        known(solved, {edits: "cause"})


def test_who_listens_hears_each_mistake_a_check_looks_for():
    mistakes = [Mistake("one", lambda x: x), Mistake("two", lambda x: -x)]
    with listening() as heard:
        said(center, mistakes=mistakes)
        quiz(values, SIZES, "sizes", SIZES, CAUSES, tolerance=1e-3)
        quiz(choice, "nan", "guess", {"nan": None, "zeros": "0/0 is no number."})
    assert heard[:2] == mistakes
    assert [(m.cause, m.answer) for m in heard[2:4]] == [
        ("That is every entry.", SIZES | {"means": 12}),
        ("Half is for D = 2.", SIZES | {"factor": 0.5}),
    ]
    assert [(m.cause, m.answer) for m in heard[5:]] == [("0/0 is no number.", "zeros")]
    said(center, mistakes=mistakes)
    assert len(heard) == 6


# ----------------------------------------------------------------------------------------------- parts of an exercise


class Whole:
    first, second = staticmethod(lambda x: x - x.mean()), staticmethod(lambda x: x / 2)


def in_parts(answer):
    stages = [
        ([Probe("numbers", lambda cls: {"the result": cls.first(draw(0, 3))})], [], "first"),
        ([Probe("other numbers", lambda cls: {"the result": cls.first(draw(0, 4))})], [], "first"),
        ([Probe("numbers again", lambda cls: {"the result": cls.second(draw(0, 3))})], [], "second"),
    ]
    in_stages(answer, "whole", stages, Whole, "{answer.__name__}: {count} inputs")


def test_an_exercise_of_several_parts_says_what_is_right_so_far(capfd):
    class Half(Whole):
        second = staticmethod(lambda x: x)

    class Waits(Whole):
        @staticmethod
        def second(x):
            raise YourTurn("6.2: write it")

    class Nothing(Half):
        first = staticmethod(lambda x: x)

    with pytest.raises(NotYet, match=r"^Not yet. On numbers again: .* Right so far: first\.$"):
        in_parts(Half)
    with pytest.raises(YourTurn, match=r"^6.2: write it. Right so far: first\.$"):
        in_parts(Waits)
    with pytest.raises(NotYet) as caught:
        in_parts(Nothing)
    assert "Right so far" not in str(caught.value)
    in_parts(Whole)
    assert capfd.readouterr().out == "Right: Whole: 3 inputs.\n"


def test_in_float64():
    x = 4096 + draw(0, 3, 5, dtype=torch.float32)
    y = in_float64(center)(x.requires_grad_())
    assert y.dtype == torch.float32 and torch.equal(y, center(x.double()).float())
    assert [one.dtype for one in in_float64(moments)(x.half())] == [torch.float16] * 2
    y.sum().backward()
    assert x.grad.dtype == torch.float32


def test_raised_compares_by_type():
    assert Raised(ValueError, "a") == Raised(ValueError, "b") != Raised(TypeError, "a")


# --------------------------------------------------------------------------------------------------------- quizzes


def quiz(check, *arguments, **more):
    with contextlib.suppress(NotYet):
        check(*arguments, **more)
        return None
    try:
        check(*arguments, **more)
    except NotYet as error:
        return str(error)


SIZES = {"means": 6, "shape": (2, 1), "biased": True, "factor": 0.75, "which": "rows"}
CAUSES = [("means", 12, "That is every entry."), ("factor", 0.5, "Half is for D = 2."), ("shape", (2,), "Say keepdim.")]


@pytest.mark.parametrize(
    "change, message",
    [
        ({}, None),
        ({"means": 6.0, "shape": [2, 1], "factor": 0.7501, "which": " Rows "}, None),
        ({"means": torch.tensor([[6]]), "shape": torch.Size([2, 1]), "factor": torch.tensor(0.75)}, None),
        ({"means": torch.tensor([6]).numpy()[0], "factor": torch.tensor([0.75]).numpy()[0]}, None),
        ({"means": "6", "factor": "3/4"}, None),
        ({"means": [6, 6, 6], "factor": torch.full((3, 1), 0.75)}, None),
        ({"means": Fraction(6), "factor": Fraction(3, 4)}, None),
        ({"means": [6, 7]}, "means: [6, 7] is not right. Right so far: shape, biased, factor, which."),
        ({"means": 12}, "means: 12 is not right. Right so far: shape, biased, factor, which.\nThat is every entry."),
        ({"means": 7}, "means: 7 is not right. Right so far: shape, biased, factor, which."),
        ({"means": True}, "means: True is not right. Right so far: shape, biased, factor, which."),
        (
            {"means": "six"},
            "means: 'six' is not right. Right so far: shape, biased, factor, which.\nThe answer is a number.",
        ),
        (
            {"means": ...},
            "means: put your answer in the place of the three dots. Right so far: shape, biased, factor, which.",
        ),
        ({"means": None}, "means: None is not right. Right so far: shape, biased, factor, which."),
        (
            {"means": draw(0, 2)},
            "means: a tensor of shape (2,) is not right. Right so far: shape, biased, factor, which.",
        ),
        ({"shape": (2,)}, "shape: (2,) is not right. Right so far: means, biased, factor, which.\nSay keepdim."),
        ({"shape": 2}, "shape: 2 is not right. Right so far: means, biased, factor, which."),
        (
            {"biased": 1},
            "biased: 1 is not right. Right so far: means, shape, factor, which.\n"
            "The answer is one of Python's two words True and False.",
        ),
        (
            {"factor": 0.5004},
            "factor: 0.5004 is not right. Right so far: means, shape, biased, which.\nHalf is for D = 2.",
        ),
        ({"factor": float("nan")}, "factor: nan is not right. Right so far: means, shape, biased, which."),
        (
            {"which": "columns"},
            "which: 'columns' is not right. Right so far: means, shape, biased, factor.\n"
            "The answer is one of the words 'rows'.",
        ),
    ],
)
def test_values(change, message, capfd):
    said = quiz(values, SIZES | change, "sizes", SIZES, CAUSES, tolerance=1e-3)
    assert said == (message and f"Not yet. {message}")
    assert capfd.readouterr() == ("" if message else "Right: all 5 answers.\n", "")


@pytest.mark.parametrize(
    "answer, message",
    [
        ([6, 12], "check.sizes takes a dictionary with a value for each of 5 keys, not a list of 2."),
        (6, "check.sizes takes a dictionary with a value for each of 5 keys, not the number 6."),
        (None, "check.sizes takes a dictionary with a value for each of 5 keys, not nothing (None)."),
        (..., "check.sizes got three dots: put your answer in their place."),
        ({}, "'means', 'shape' and 3 more: missing."),
        (SIZES | {"mean": 6}, "'mean': unknown. The keys are 'means', 'shape', 'biased', 'factor', 'which'."),
        (
            {"mean" if key == "means" else key: value for key, value in SIZES.items()},
            "'means': missing. 'mean': unknown. The keys are 'means', 'shape', 'biased', 'factor', 'which'.",
        ),
    ],
)
def test_values_in_another_form(answer, message):
    assert quiz(values, answer, "sizes", SIZES, CAUSES, tolerance=1e-3) == f"Not yet. {message}"


def test_a_single_value(capfd):
    assert quiz(values, 4, "four", 4) is None
    assert quiz(values, 5, "four", 4, [(None, 5, "One too many.")]) == "Not yet. 5 is not right.\nOne too many."
    assert quiz(values, float("inf"), "bound", float("inf"), tolerance=0) is None
    assert capfd.readouterr().out == "Right: 4.\nRight: inf.\n"


def test_a_typed_answer_gets_the_list_of_allowed_words():
    causes = [("where", "inside", "Under the root."), ("where", "before", "Too early.")]
    ask = lambda word, **more: quiz(values, {"where": word}, "eps", {"where": "outside"}, causes, **more)  # noqa: E731
    assert ask("inside") == "Not yet. where: 'inside' is not right.\nUnder the root."
    listed = "\nThe answer is one of the words 'before', 'inside', 'outside'."
    assert ask("out") == "Not yet. where: 'out' is not right." + listed
    assert ask(3) == "Not yet. where: 3 is not right." + listed
    assert ask("behind", words=("outside", "behind")) == "Not yet. where: 'behind' is not right."
    assert ask("OUTSIDE ") is None


@pytest.mark.parametrize(
    "answer, message",
    [
        ("nan", None),
        (" NaN ", None),
        ("zeros", "'zeros' is not what happens.\n0/0 is no number."),
        ("one", "check.guess takes one of 'nan', 'zeros', not 'one'."),
        (0, "check.guess takes one of 'nan', 'zeros', not 0."),
        (None, "check.guess takes one of 'nan', 'zeros', not None."),
        (..., "check.guess got three dots: put your answer in their place."),
        (draw(0, 3), "check.guess takes one of 'nan', 'zeros', not a tensor of shape (3,)."),
    ],
)
def test_choice(answer, message, capfd):
    said = quiz(choice, answer, "guess", {"nan": None, "zeros": "0/0 is no number."})
    assert said == (message and f"Not yet. {message}")
    assert capfd.readouterr().out == ("" if message else "Right: 'nan'.\n")


def test_choice_with_capitals():
    options = {"LayerNorm": None, "BatchNorm": "No."}
    assert quiz(choice, "layernorm", "guess", options) is None
    assert quiz(choice, "batchnorm", "guess", options) == "Not yet. 'BatchNorm' is not what happens.\nNo."

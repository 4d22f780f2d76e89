"""The checks, tested by mutation: right answers pass, wrong answers are rejected, each for its own reason."""

import importlib
import inspect
from pathlib import Path

import pytest
import torch

from lessonkit import check
from lessonkit.check.core import NotYet, YourTurn

BANKS = {
    path.stem: importlib.import_module(f"tests.banks.{path.stem}").BANK
    for path in sorted(Path(__file__).parent.glob("banks/lesson_*.py"))
}
EXERCISES = [(name, bank) for banks in BANKS.values() for name, bank in banks.items()]
FUNCTIONS = [(name, bank) for name, bank in EXERCISES if inspect.isfunction(next(iter(bank["right"].values())))]


def verdict(name, answer, capfd):
    """Return None if check.NAME accepts answer with one line on stdout, else the text of its NotYet."""
    capfd.readouterr()
    state = torch.random.get_rng_state()
    try:
        returned = getattr(check, name)(answer)
    except NotYet as error:
        said = str(error)
        assert 1 <= len(error._render_traceback_()) <= 3, f"a message of one or two lines, not:\n{said}"
        assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
        assert capfd.readouterr() == ("", ""), "a rejection is the exception alone"
        return said
    finally:
        assert torch.equal(torch.random.get_rng_state(), state), "a check leaves the learner's random numbers alone"
    out, err = capfd.readouterr()
    assert returned is None and err == "" and out.count("\n") == 1 and out.startswith("Right"), (returned, out, err)
    return None


@pytest.mark.parametrize(
    "name, how, answer",
    [
        pytest.param(name, how, answer, id=f"{name}-{how}")
        for name, bank in EXERCISES
        for how, answer in bank["right"].items()
    ],
)
def test_right_answers_pass(name, how, answer, capfd):
    assert verdict(name, answer, capfd) is None


@pytest.mark.parametrize(
    "name, answer, words",
    [
        pytest.param(name, answer, words, id=f"{name}-{what}")
        for name, bank in EXERCISES
        for what, (answer, words) in bank["wrong"].items()
    ],
)
def test_wrong_answers_are_rejected_with_their_cause(name, answer, words, capfd):
    said = verdict(name, answer, capfd)
    assert said is not None, "a wrong answer was accepted"
    assert words in said


def on_result(change):
    """Return a wrapper that applies change to every tensor that a right function returns."""

    def wrap(right):
        def wrong(*args, **kwargs):
            out = right(*args, **kwargs)
            return tuple(map(change, out)) if isinstance(out, tuple) else change(out)

        return wrong

    return wrap


def changes_input(right):
    def wrong(x, *args, **kwargs):
        out = right(x, *args, **kwargs)
        with torch.no_grad():
            x.mul_(3).add_(1)
        return out

    return wrong


GENERIC = {
    "returns None": on_result(lambda y: None),
    "returns a string": lambda right: lambda *a, **k: "done",
    "returns a list": on_result(lambda y: y.tolist()),
    "raises": lambda right: lambda *a, **k: 1 / 0,
    "exits": lambda right: lambda *a, **k: exit(),
    "an extra axis": on_result(lambda y: y.unsqueeze(0)),
    "half the digits": on_result(lambda y: y.half().to(y.dtype)),
    "float64 whatever comes in": on_result(lambda y: y.double()),
    "cut off from the gradient": on_result(lambda y: y.detach()),
    "through NumPy": on_result(lambda y: torch.from_numpy(y.detach().numpy())),
    "changes its input": changes_input,
    "a little too large": on_result(lambda y: y * 1.0003),
    "a little too high": on_result(lambda y: y + 1e-4),
    "a gradient that is off": on_result(lambda y: y + 0.01 * (y - y.detach())),
    "not a function": lambda right: 3,
    "its result instead of itself": lambda right: torch.zeros(2, 3),
}


def takes_tensors(answer):
    """Whether a right answer is a function of a tensor (some exercises are functions of numbers)."""
    return next(iter(inspect.signature(answer).parameters), "") in ("x", "dy")


@pytest.mark.parametrize(
    "name, right, wrap",
    [
        pytest.param(name, next(iter(bank["right"].values())), wrap, id=f"{name}-{what}")
        for name, bank in FUNCTIONS
        if takes_tensors(next(iter(bank["right"].values())))
        for what, wrap in GENERIC.items()
        if what not in bank.get("generic_exceptions", ())
    ],
)
def test_what_nobody_listed_is_rejected(name, right, wrap, capfd):
    assert verdict(name, wrap(right), capfd) is not None


@pytest.mark.parametrize("name, bank", FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_a_noisy_right_answer_passes_and_a_blank_one_waits(name, bank, capfd):
    right = next(iter(bank["right"].values()))

    def noisy(*args, **kwargs):
        import sys
        import warnings

        print("debugging"), print("debugging", file=sys.stderr), warnings.warn("look here", stacklevel=1)
        torch.manual_seed(0), torch.rand(3)
        return right(*args, **kwargs)

    def blank(*args, **kwargs):
        raise YourTurn("9.9: write it")

    assert verdict(name, noisy, capfd) is None
    with pytest.raises(YourTurn):
        getattr(check, name)(blank)


def test_every_check_has_its_bank_and_every_bank_its_check():
    assert {name for name, _ in EXERCISES} == set(check.where())


@pytest.mark.parametrize("name, bank", EXERCISES, ids=[name for name, _ in EXERCISES])
def test_banks_are_large_enough(name, bank):
    kind = next(iter(bank["right"].values()))
    code = inspect.isfunction(kind) or inspect.isclass(kind)
    assert len(bank["right"]) >= (3 if code else 1)
    assert len(bank["wrong"]) >= (10 if name in ("layer_norm", "layer_norm_module") else 5 if code else 1)
    words = [words for _, words in bank["wrong"].values()]
    assert all(words), "each wrong answer names the message it must get"

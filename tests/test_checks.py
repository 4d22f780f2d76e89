"""The checks, tested by mutation: right answers pass, wrong answers are rejected, each for its own reason."""

import inspect
import re

import pytest
import torch

from lessonkit import check
from lessonkit.check.declare import NotYet, YourTurn
from tests.helpers import all_answers, first_right, misconceptions_of, refusal

EXERCISES = {name: answers for lesson in all_answers().values() for name, answers in lesson.items()}
CODE = {name: answers for name, answers in EXERCISES.items() if callable(first_right(answers))}
FUNCTIONS = {name: answers for name, answers in CODE.items() if inspect.isfunction(first_right(answers))}


def each(exercises):
    return pytest.mark.parametrize("name, answers", exercises.items(), ids=exercises)


def verdict(name, answer, capfd):
    """Return None if check.NAME accepts answer with one line on stdout, else the text of its NotYet."""
    capfd.readouterr()
    state = torch.random.get_rng_state()
    try:
        returned = getattr(check, name)(answer)
    except NotYet as error:
        message = str(error)
        assert 1 <= len(message.splitlines()) <= 4, f"the cause, what was seen, the parts, the repair, not:\n{message}"
        assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
        assert capfd.readouterr() == ("", ""), "a rejection is the exception alone"
        return message
    finally:
        assert torch.equal(torch.random.get_rng_state(), state), "a check leaves the learner's random numbers alone"
    out, err = capfd.readouterr()
    assert returned is None and err == "" and out.count("\n") == 1 and out.startswith("Right"), (returned, out, err)
    return None


def every(kind):
    return [
        pytest.param(name, answer, id=f"{name}-{how}")
        for name, answers in EXERCISES.items()
        for how, answer in answers.get(kind, {}).items()
    ]


@pytest.mark.parametrize("name, answer", every("right"))
def test_right_answers_pass(name, answer, capfd):
    text = verdict(name, answer, capfd)
    assert text is None, f"check.{name} refuses a right answer of its list: {text}"


@pytest.mark.parametrize("name, pair", every("wrong"))
def test_wrong_answers_are_rejected_with_their_cause(name, pair, capfd):
    answer, words = pair
    text = verdict(name, answer, capfd)
    assert text is not None, f"check.{name} accepts this answer. Add a probe that tells it from a right one."
    assert words and words in text, f"check.{name} has to say {words!r}, and says: {text}"


@each(EXERCISES)
def test_each_misconception_is_refused_with_its_own_cause(name, answers):
    wrong, known = [], misconceptions_of(name, first_right(answers))
    for misconception in known:
        text = refusal(name, misconception.answer)
        cause = misconception.cause.partition(" | ")[0]
        if text is None or cause not in text or re.search("NameError|UnboundLocalError", text):
            wrong.append(f"* {misconception.cause}\n  said: {text or 'Right'}")
    assert not wrong, (
        f"{len(wrong)} misconceptions of check.{name} are not told their own cause. 'Right': it is right, or a probe "
        "is missing. The cause of a different one: they do the same, join them by '# or' or add a probe. A "
        "NameError: the solution in the check's module does not bind that name.\n" + "\n".join(wrong)
    )
    many = len(known) + len(answers.get("wrong", {}))
    assert many >= 5, (
        f"check.{name} is tried with {many} wrong answers. Write five at least, in checks.py or answers.py."
    )


@each(CODE)
def test_right_answers_are_written_in_two_ways_at_least(name, answers):
    assert len(answers["right"]) > 1, (
        f"answers.py has one right answer for check.{name}. Write another one differently."
    )


@each(FUNCTIONS)
@pytest.mark.filterwarnings("error")
def test_a_noisy_right_answer_passes_and_a_blank_one_waits(name, answers, capfd):
    right = first_right(answers)

    def noisy(*args, **kwargs):
        import sys
        import warnings

        print("debugging"), print("debugging", file=sys.stderr), warnings.warn("look here", stacklevel=1)
        torch.rand(3)
        return right(*args, **kwargs)

    def blank(*args, **kwargs):
        raise YourTurn("9.9: write it")

    with torch.no_grad():
        assert verdict(name, noisy, capfd) is None and not torch.is_grad_enabled()
    with pytest.raises(YourTurn):
        getattr(check, name)(blank)


@pytest.mark.parametrize("lesson", all_answers())
def test_no_answer_passes_for_another_exercise_of_its_lesson(lesson):
    """No false green: the answer of a different exercise is refused, unless its answers say that it is right."""
    answers = {name: exercise for name, exercise in all_answers()[lesson].items() if callable(first_right(exercise))}
    passed = [
        f"the answer to {other} passes check.{name}"
        for name in answers
        for other in answers
        if other != name
        and name not in answers[other].get("right_for", ())
        and refusal(name, first_right(answers[other])) is None
    ]
    passed += [f"check.{name} takes a number" for name in answers if refusal(name, 3) is None]
    assert not passed, "\n".join([*passed, "If an answer is right for both, name the other check in its right_for."])

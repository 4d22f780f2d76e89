"""The checks, tested by mutation: right answers pass, wrong answers are rejected, each for its own reason."""

import inspect
import re

import pytest
import torch

from lessonkit import check, course
from lessonkit.check.core import NotYet, YourTurn
from tests.helpers import (
    OF_RESULTS,
    ROOT,
    WHOLE,
    banks,
    changing_input,
    changing_results,
    first_right,
    mistakes_of,
    said,
)

EXERCISES = {name: bank for bank in banks().values() for name, bank in bank.items()}
CODE = {name: bank for name, bank in EXERCISES.items() if callable(first_right(bank))}
FUNCTIONS = {name: bank for name, bank in CODE.items() if inspect.isfunction(first_right(bank))}


def each(exercises):
    return pytest.mark.parametrize("name, bank", exercises.items(), ids=exercises)


def verdict(name, answer, capfd):
    """Return None if check.NAME accepts answer with one line on stdout, else the text of its NotYet."""
    capfd.readouterr()
    state = torch.random.get_rng_state()
    try:
        returned = getattr(check, name)(answer)
    except NotYet as error:
        said = str(error)
        assert 1 <= len(said.splitlines()) <= 4, f"the cause, what was seen, the parts, the repair, not:\n{said}"
        assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
        assert capfd.readouterr() == ("", ""), "a rejection is the exception alone"
        return said
    finally:
        assert torch.equal(torch.random.get_rng_state(), state), "a check leaves the learner's random numbers alone"
    out, err = capfd.readouterr()
    assert returned is None and err == "" and out.count("\n") == 1 and out.startswith("Right"), (returned, out, err)
    return None


def every(kind):
    return [
        pytest.param(name, answer, id=f"{name}-{how}")
        for name, bank in EXERCISES.items()
        for how, answer in bank[kind].items()
    ]


@pytest.mark.parametrize("name, answer", every("right"))
def test_right_answers_pass(name, answer, capfd):
    text = verdict(name, answer, capfd)
    assert text is None, f"check.{name} refuses a right answer of the bank: {text}"


@pytest.mark.parametrize("name, pair", every("wrong"))
def test_wrong_answers_are_rejected_with_their_cause(name, pair, capfd):
    answer, words = pair
    text = verdict(name, answer, capfd)
    assert text is not None, f"check.{name} accepts this answer. Add a probe that tells it from a right one."
    assert words and words in text, f"check.{name} has to say {words!r}, and says: {text}"


@each(EXERCISES)
def test_each_known_mistake_is_refused_with_its_own_cause(name, bank):
    wrong = []
    for mistake in mistakes_of(name, first_right(bank)):
        text = said(name, mistake.answer)
        if text is None or mistake.cause.partition(" | ")[0] not in text:
            wrong.append(f"* {mistake.cause}\n  said: {text}")
    assert not wrong, f"{len(wrong)} known mistakes are not told their own cause:\n" + "\n".join(wrong)


@each(CODE)
@pytest.mark.parametrize("what", OF_RESULTS)
def test_what_nobody_listed_is_rejected(what, name, bank):
    if what in bank.get("generic_exceptions", ()):
        pytest.skip("the bank says why")
    fault = OF_RESULTS[what]()
    text = said(name, changing_results(first_right(bank), fault))
    assert text is not None or not fault.touched, (
        f"check.{name} accepts a right answer with the fault {what!r}. Add a probe, or say in the bank why not."
    )


@each(CODE)
def test_a_changed_input_is_rejected(name, bank):
    if "changes its input" in bank.get("generic_exceptions", ()):
        pytest.skip("the bank says why")
    wrong, touched = changing_input(first_right(bank))
    assert said(name, wrong) is not None or not touched, f"check.{name} lets an answer change its input. Add a probe."


@each(CODE)
@pytest.mark.parametrize("what", WHOLE)
def test_no_answer_at_all_is_rejected(what, name, bank):
    assert said(name, WHOLE[what](first_right(bank))) is not None, f"check.{name} accepts: {what}"


@each(FUNCTIONS)
def test_a_noisy_right_answer_passes_and_a_blank_one_waits(name, bank, capfd):
    right = first_right(bank)

    def noisy(*args, **kwargs):
        import sys
        import warnings

        print("debugging"), print("debugging", file=sys.stderr), warnings.warn("look here", stacklevel=1)
        torch.rand(3)
        return right(*args, **kwargs)

    def blank(*args, **kwargs):
        raise YourTurn("9.9: write it")

    assert verdict(name, noisy, capfd) is None
    with pytest.raises(YourTurn):
        getattr(check, name)(blank)


@pytest.mark.parametrize("lesson", banks())
def test_no_answer_passes_for_another_exercise_of_its_lesson(lesson):
    """No false green: the answer of a different exercise is refused, unless its bank says that it is right."""
    bank = {name: exercise for name, exercise in banks()[lesson].items() if callable(first_right(exercise))}
    passed = [
        f"the answer to {other} passes check.{name}"
        for name in bank
        for other in bank
        if other != name
        and name not in bank[other].get("right_for", ())
        and said(name, first_right(bank[other])) is None
    ]
    assert not passed, "\n".join([*passed, "If an answer is right for both, name the other check in its right_for."])


def test_every_check_has_its_bank_and_every_bank_its_check():
    asked = {name: lesson.module for name, (lesson, _) in course.checks().items()}
    modules = (ROOT / "lessons_src/lessonkit/check/lessons").glob("[a-z]*.py")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in modules}
    written = {name: module for module in texts for name in re.findall(r"^def ([a-z]\w*)", texts[module], re.MULTILINE)}
    answered = {name: lesson for lesson, bank in banks().items() for name in bank}
    for name in asked.keys() | written.keys() | answered.keys():
        assert asked.get(name) == written.get(name) == answered.get(name), (
            f"check.{name} is asked for in lesson {asked.get(name)}, written in the checks of {written.get(name)} and "
            f"answered in the bank of {answered.get(name)}. All three belong to one lesson; is `make notebooks` due?"
        )


@each(EXERCISES)
def test_exercises_are_shown_enough_answers(name, bank):
    code = callable(first_right(bank))
    enough = 3 if code else 1
    assert len(bank["right"]) >= enough, f"{len(bank['right'])} right answers to {name}, expected {enough} spellings."
    count = len(bank["wrong"]) + len(mistakes_of(name, first_right(bank)))
    enough = 20 if name in ("layer_norm", "layer_norm_module") else 5
    assert count >= enough, f"{count} wrong answers to {name}, expected {enough}, known mistakes included."

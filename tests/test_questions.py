"""What a letter gets and how far a lesson is, by a lesson that was read from its source."""

import pytest

from coursebuild import manifest
from lessonkit import check, course
from lessonkit.check import questions
from tests.toy import CHECKED, TITLE, lesson

ASKED = """# %% [markdown]
# **Predict 2.1:** what comes out of `5, 5, 5`?
# - [ ] ones :: That would take a mean of 0.
# - [ ] zeros :: Look at the denominator: $0/0$.
# - [x] nan :: The mean is 5 and the deviation 0.
#
# **Recall 2.1:** how many means?
# - [x] 160 :: One for each token.
# - [ ] 8 :: One for each sample.
"""
TWO = CHECKED + '# %% tags=["check"]\ncheck.shift(scale)\n' + CHECKED.replace("2.1", "2.2").replace("2-1", "2-2")


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit that knows that lesson and no other."""
    known = manifest.lesson(lesson(tmp_path, TITLE + TWO + ASKED))
    monkeypatch.setattr(course, "lessons", lambda: {known.stem: known})
    monkeypatch.setattr(questions, "answered", set())
    return known


ANSWERED = {  # a letter: what is said
    "": "Predict 2.1: put the letter of your answer (a, b or c) between the quotes, and run this cell.\n",
    " C) ": "Yes. The mean is 5 and the deviation 0.\n",
    "b": "Not quite. Look at the denominator: $0/0$.\n",
    "d": "Predict 2.1: 'd' is none of its letters. Put a, b or c between the quotes, and run this cell.\n",
}


def test_a_letter_gets_the_reason_of_its_option_and_recall_has_numbers_of_its_own(kit, capfd):
    for letter, told in ANSWERED.items():
        assert check.predict("2.1", letter) is None
        assert capfd.readouterr() == (told, "")
    check.recall("2.1", "b")
    assert capfd.readouterr().out == "Not quite. One for each sample.\n"
    with pytest.raises(ValueError, match="there is no 'Predict 9.9'"):
        check.predict("9.9", "a")


def test_the_summary(kit):
    assert [check.name for check in kit.exercises[0].checks] == ["scale", "shift"]
    head = "1 of 2 exercises are right, in this kernel or kept."
    assert questions.summary("tiny", {"scale"}) == f"{head} Not yet right here: 2.1. Questions answered: 0 of 2."
    check.predict("2.1", "x")  # none of its letters, so no answer
    check.recall("2.1", "b")
    kit.exercises[0].optional = True
    head = "1 of 1 exercises are right, in this kernel or kept."
    assert questions.summary("tiny", {"scale"}) == f"{head} Optional: 2.1. Questions answered: 1 of 2."

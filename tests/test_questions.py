"""What a letter gets and how far a lesson is, by a lesson that was read from its source."""

import pytest

from coursebuild import editions, manifest
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
    monkeypatch.setattr(questions, "answered", {})
    return known


HOW = 'Predict 2.1: write a, b or c as in check.predict("2.1", "a"), and run this cell.\n'
ANSWERED = {  # a letter: what is said
    "": HOW,
    " C) ": "Yes. The mean is 5 and the deviation 0.\n",
    "b": "Not quite. Look at the denominator: $0/0$.\n",
    "d": HOW,
}


def test_a_letter_gets_the_reason_of_its_option_and_recall_has_numbers_of_its_own(kit, capfd):
    for letter, told in ANSWERED.items():
        assert check.predict("2.1", letter) is None
        assert capfd.readouterr() == (told, "")
    check.recall("2.1", "b")
    assert capfd.readouterr().out == "Not quite. One for each sample.\n"
    with pytest.raises(ValueError, match="there is no 'Predict 9.9'"):
        check.predict("9.9", "a")


CLOSES = {  # the text below the cell that shows what was predicted: what of it waits in a fold
    "The sum is 3.\n\nNext, a product.": "The sum is 3.",
    "Look.\n\n**Sums add.** So it is.\n\nNext.\n\n<details>\n\n**It holds.**\n": "Look.\n\n**Sums add.** So it is.",
    "## 2.2 Products\n\nThey are next.": "",
    "Now write it.": "",
}


@pytest.mark.parametrize("text", CLOSES)
def test_what_closes_a_prediction_is_folded_for_learners(text, tmp_path):
    source = "\n".join(f"# {line}".rstrip() for line in text.split("\n"))
    asked = ASKED.partition("#\n# **Recall")[0]
    read = lesson(tmp_path, f"{TITLE}{asked}# %%\n1 + 2\n# %% [markdown]\n{source}\n")
    learner, solutions = (editions.notebook(read, edition).cells[-2].source for edition in editions.EDITIONS)
    told = f"<summary>Once you have answered</summary>\n\n{CLOSES[text]}\n\n</details>"
    assert solutions == text.rstrip()
    assert learner == solutions.replace(CLOSES[text] or "-", f'<details class="after-predict-2-1">{told}')


def test_the_summary(kit):
    assert [check.name for check in kit.exercises[0].checks] == ["scale", "shift"]
    head = "1 of 2 exercises are right, in this kernel or kept."
    text, drawn = questions.summary("tiny", {"scale"})
    assert text == f"{head} Not yet right here: 2.1. Questions answered: 0 of 2."
    assert "◐ 2.1<" in drawn and drawn.endswith(f"</div>{head} Questions answered: 0 of 2.")
    check.predict("2.1", "x")  # none of its letters, so no answer
    check.recall("2.1", "b")
    kit.exercises[0].optional = True
    head = "1 of 1 exercises are right, in this kernel or kept."
    text = questions.summary("tiny", {"scale"})[0]
    assert text == f"{head} Optional: 2.1. Questions answered: 1 of 2."
    assert "○ <i>2.1</i><" in questions.summary("tiny", set())[1]
    assert "◐ <i>2.1</i><" in questions.summary("tiny", set(), {"shift"})[1]
    assert "● <i>2.1</i><" in questions.summary("tiny", {"scale", "shift"})[1]

"""What a letter gets, how far a lesson is, and how many minutes it takes, by a lesson that was read from its source."""

import pytest

from coursebuild import editions, manifest, minutes
from lessonkit import check, course
from lessonkit.check import questions
from lessonkit.course import Exercise, Lesson, Section, Text
from tests.toy import CHECKED, TITLE, lesson, project

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
    assert questions.summary("tiny", {"scale"}) == f"{head} Not yet right here: 2.1. Questions answered: 0 of 2."
    check.predict("2.1", "x")  # none of its letters, so no answer
    check.recall("2.1", "b")
    kit.exercises[0].optional = True
    head = "1 of 1 exercises are right, in this kernel or kept."
    assert questions.summary("tiny", {"scale"}) == f"{head} Optional: 2.1. Questions answered: 1 of 2."


# ------------------------------------------------------------------------------------------------------------ minutes


def timed(printed="*About 21 min", optional=3, stop=""):
    """Return a Lesson of known minutes: a core with an exercise, an optional section, an end of two minutes."""
    sections = [
        Section("2 · Tiny", 1, items=[Text(f"{printed} " + "word " * 300)]),
        Section("2.1 Core", 2, items=[Exercise("2.1", 2, 10, "# Exercise 2.1 · ●●○○○ · 10 min\nx = 1")]),
        Section(f"2.2 Deeper (optional, {optional} min)", 2, True, items=[Text("word " * 295)]),
        Section("What you have now", 2, items=[Text(f"word\n\n{stop}")]),
        Section("Take-away", 2, items=[Text("word " * 99)]),
    ]
    for section in sections:
        section.minutes, section.aside = map(manifest.minutes, manifest.counts(section))
    return Lesson("02_tiny", "Tiny", 21, sections)


STOP = "**You can stop here:** close it."
SAYS = [  # (what the frame prints, minutes in the heading of the optional section, the end of a sitting, lines told)
    ("*About 21 min", 4, "", 0),
    ("*About 23 min", 9, "", 2),
    ("", 3, "", 1),
    ("*About 21 min, in two sittings of 20 and 1", 3, STOP, 0),
    ("*About 21 min, in two sittings of 15 and 6", 3, STOP, 1),
]


@pytest.mark.parametrize("printed, optional, stop, lines", SAYS)
def test_printed_minutes_are_held_against_the_model(printed, optional, stop, lines):
    messages = minutes.wrong(timed(printed, optional, stop))
    assert len(messages) == lines and all("Write" in line for line in messages)


def test_the_command_lists_lessons_and_their_sections(tmp_path, capsys):
    root = project(tmp_path, {"02_tiny": TITLE + TWO + "# %% [markdown]\n# ## 2.1 Words (optional)\n#\n# One.\n"})
    assert minutes.main(["02"], root) == 0
    out = capsys.readouterr().out
    assert out.startswith("02_tiny                  core 17.") and "optional      2.1 Words (optional)" in out

"""The log of attempts: what a learner's kernel writes, that nothing is lost, and the report on a class's logs."""

import errno
import json
import os
from unittest.mock import Mock

import pytest

from lessonkit import attempts, places
from lessonkit.course import Lesson, Question, Section, lessons
from lessonkit.progress import report
from lessonkit.progress.log import Attempt, read
from lessonkit.progress.saved import NOT_RUN, RIGHT, TRIED, WAITS, states_in
from tests.helpers import all_answers, executed, first_right, misconceptions_of
from tests.test_progress import asked

# ------------------------------------------------------------------------------------------------ in a real kernel

WRONG = "def mine(x):\n    return x.mean(-1, keepdim=True), x.var(-1, keepdim=True)"
SOLVED = WRONG.replace("var(-1, ", "var(-1, correction=0, ")
CELLS = [  # code, and what it adds to the log: (item, verdict, what)
    ("import os\nfrom pathlib import Path\nfrom lessonkit import attempts, check\nlog = Path('attempts.jsonl')", None),
    (f"# Exercise 2.1 · ●●○○○ · 5 min\n{WRONG}", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "not yet", "mean_and_var")),
    (f"# Exercise 2.1 · ●●○○○ · 5 min\n{SOLVED}", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "right", "mean_and_var")),
    ('check.predict("2.1", "")', None),
    ('check.predict("2.1", "a")', ("Predict 2.1", "not yet", "a")),
    ('check.recall("2.1", " C. ")', ("Recall 2.1", "right", "c")),
    ("def blank(layer):\n    raise check.YourTurn('2.4: write it')\ncheck.is_layer_norm(blank)", None),
    ("check.plain('mean_and_var')(mine)", None),
    ("os.environ['LESSON_LOG'] = 'off'\ncheck.mean_and_var(mine)", None),
    ("check.how_many(dict.fromkeys('abcdef', 64))", None),
    ("del os.environ['LESSON_LOG']\nwritten = log.read_text()\nlog.unlink(); log.mkdir()", None),
    ("check.how_many(dict.fromkeys('abcdef', 64))", ("Exercise 2.3", "not yet", "how_many")),
    ("check.how_many(dict.fromkeys('abcdef', 64))", ("Exercise 2.3", "not yet", "how_many")),
    ("log.rmdir(); log.write_text(written + '{\"v\": 1, \"cut o')\nos.chdir('/')", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "right", "mean_and_var")),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return (the cells after one run in a learner's folder, the text of its log). One kernel."""
    work = tmp_path_factory.mktemp("course") / "work"
    work.mkdir()
    cells = executed([source for source, _ in CELLS], work, LESSON_WORK=str(work))
    return cells, (work / "attempts.jsonl").read_text("utf-8")


def lines_of(text):
    """Return the lines of a log that are whole."""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def test_each_check_and_question_adds_a_line_and_nothing_of_the_learner(ran):
    lines = lines_of(ran[1])
    attempts = [(line["item"], line["verdict"], line.get("check") or line["letter"]) for line in lines]
    assert attempts == [expected for _, expected in CELLS if expected]
    common = "v time kernel lesson item verdict since_cell on_item in_kernel".split()
    assert {" ".join(set(line) - {*common, "mistake"}) for line in lines} == {"check", "letter"}
    assert {line["lesson"] for line in lines} == {"statistics"} and len({line["kernel"] for line in lines}) == 1
    assert "mine" not in ran[1] and "keepdim" not in ran[1]


def test_a_known_mistake_is_told_by_its_cause(ran):
    first, *_, quiz, _ = lines_of(ran[1])
    assert first["mistake"].startswith("the variance is divided by D - 1")
    assert quiz["mistake"].startswith("That is how many entries share a mean")


def test_a_log_that_cannot_be_written_is_said_once_and_written_later(ran):
    cells, text = ran
    first, second = ("".join(out.get("text", "") for out in cell.outputs) for cell in cells[13:15])
    assert first.startswith("(This attempt could not be noted in attempts.jsonl: ") and first.count("\n") == 1
    assert second == "" and cells[13].outputs[1] == cells[14].outputs[0], "the check's own words are the same"
    assert text.count('"Exercise 2.3"') == 2 and '{"v": 1, "cut o\n' in text, "and a line that was cut off stays alone"


def test_a_check_says_the_same_with_a_log_and_without(ran):
    cells, _ = ran
    logged, plain, off = (cells[at].outputs[0].data["text/plain"].split("\n")[0] for at in (4, 9, 10))
    assert logged == plain == off and logged.startswith("Right:")
    assert [len(cells[at].outputs) for at in (2, 6, 11)] == [2, 1, 2]
    assert not any(out.get("name") == "stderr" for cell in cells for out in cell.outputs)


def test_progress_reads_what_a_real_kernel_has_shown(ran):
    states = states_in(ran[0], lessons()["02_statistics"])
    assert states == {"2.1": RIGHT, "2.2": NOT_RUN, "2.3": TRIED, "2.4": WAITS}


# ----------------------------------------------------------------------------------------------------- where it is not


NOWHERE = {  # what keeps a kernel from having a log
    "nothing": lambda patch: None,
    "builds, tests, solutions": lambda patch: patch.setattr(places, "work", lambda: None),
    "no notebook": lambda patch: patch.setattr(attempts, "in_notebook", lambda: False),
    "switched off": lambda patch: patch.setenv("LESSON_LOG", " OFF "),
}


@pytest.mark.parametrize("why", NOWHERE)
def test_a_learners_kernel_has_a_log_and_no_other_has_one(why, monkeypatch, tmp_path):
    monkeypatch.setattr(attempts, "_log", None)
    monkeypatch.setattr(places, "work", lambda: tmp_path)
    monkeypatch.setattr(attempts, "in_notebook", lambda: True)
    monkeypatch.delenv("LESSON_LOG", raising=False)
    monkeypatch.setattr("IPython.get_ipython", Mock())
    NOWHERE[why](monkeypatch)
    attempts.install()
    attempts.note("statistics", "Predict 2.1", True, letter="b")
    assert attempts.active() == (tmp_path / attempts.FILE).exists() == (why == "nothing")


# ------------------------------------------------------------------------------------------------------ time and lines


def test_every_cause_can_be_read_from_a_log(tmp_path):
    """A log may have been written by anybody, so what is no plain sentence is left out."""
    exercises = all_answers()["statistics"] | all_answers()["epsilon"] | all_answers()["backward"]
    rights = [(name, first_right(answers)) for name, answers in exercises.items()]
    told = {mistake.cause for name, right in rights for mistake in misconceptions_of(name, right)}
    path = tmp_path / attempts.FILE
    path.write_text("\n".join(line(right=False, mistake=cause) for cause in told), encoding="utf-8")
    logged, notes = read(path)
    assert len(told) > 80 and {attempt.mistake for attempt in logged} == told and not notes


def line(item="Exercise 2.1", what="first", right=True, **more):
    record = {"v": 1, "time": "2026-11-22T06:58:01Z", "kernel": "0a1b2c3d", "lesson": "tiny", "item": item}
    record |= {"check" if item.startswith("E") else "letter": what, "verdict": "right" if right else "not yet"}
    return json.dumps(record | {"since_cell": 1.0, "on_item": 60.0, "in_kernel": 600.0} | more)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    path, write = tmp_path / "log", os.write
    attempts.append(path, "one")
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    with pytest.raises(OSError) as caught:
        attempts.append(path, "two")
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    attempts.append(path, "two")
    assert path.read_text() == "one\ntw\ntwo\n"


@pytest.mark.parametrize(
    "bad",
    [
        "3",
        '{"v": 1}',
        line(right=True).replace('"right"', '"perhaps"'),
        line(item="=1+1"),
        line(mistake="=cmd()"),
        line(mistake="a\x1b[2J"),
        line(on_item=-1),
        line(in_kernel=float("nan")),
        line()[:-20],
        "[" * 100_000,
    ],
)
def test_a_damaged_line_is_counted_and_the_others_are_read(bad, tmp_path):
    path = tmp_path / attempts.FILE
    path.write_text("\n".join([line(), bad, line()]), encoding="utf-8")
    logged, notes = read(path)
    assert len(logged) == 2 and all(isinstance(attempt, Attempt) for attempt in logged)
    assert notes == [f"{path}: 1 line is damaged and left out; the others count."]


# ---------------------------------------------------------------------------------------------------------- the report

PARTS = [
    Question("Recall", "2.1", "what?", []),
    asked(2, 1, "first"),
    Question("Predict", "2.1", "what?", []),
    asked(2, 2, "one", "other", minutes=4),
]
TINY = {"02_tiny": Lesson("02_tiny", "Tiny: a lesson", 30, [Section("Tiny", 1, items=PARTS)])}
CLASS = {  # learner: lines
    "anna": [line(on_item=100.0), line("Predict 2.1", "b"), line("Exercise 2.2", "one"), line("Exercise 2.2", "other")],
    "bo": [line(right=False, on_item=80.0, mistake="the mean is missing."), line(on_item=500.0), line(right=False)],
    "cy": [
        line(right=False, mistake="the mean is missing.", on_item=50.0),
        line(right=False, mistake="the mean is missing.", on_item=300.0),
        line(kernel="ffffffff", on_item=40.0, in_kernel=60.0),  # after a restart
        line("Exercise 2.2", "one"),
        line("Predict 2.1", "a", right=False),
        line("Predict 2.1", "b"),
    ],
    "dee": [line(right=False, mistake="it is late."), line("Recall 2.1", "c", right=False)],
}


@pytest.fixture
def folders(tmp_path):
    for name, lines in CLASS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / attempts.FILE).write_text("\n".join(lines) + "\n")
    return [tmp_path / name for name in CLASS]


WORDS = """\
Learners: 4. Attempts: 15.

2 · Tiny: median 10 min of the 1 who finished, printed 30 min
                   tried  1st  2nd later never  median  printed  answers
  Recall 2.1           1    0    0     0     1                   c:1
  Exercise 2.1         4    1    1     1     1    5:40    5 min
  Predict 2.1          2    1    1     0     0    1:00           a:1 b:1
  Exercise 2.2         2    1    0     0     1    1:00    4 min

Misconceptions, by learners (and times):
    2 (3) Exercise 2.1: the mean is missing.
    1 (1) Exercise 2.1: it is late.
"""
TABLE = """\
kind,lesson,item,learners,first,second,later,never,median_seconds,printed_minutes,answers,times,cause
recall,2 · Tiny,Recall 2.1,1,0,0,0,1,,,c:1,,
exercise,2 · Tiny,Exercise 2.1,4,1,1,1,1,340.0,5,,,
predict,2 · Tiny,Predict 2.1,2,1,1,0,0,60.0,,a:1 b:1,,
exercise,2 · Tiny,Exercise 2.2,2,1,0,0,1,60.0,4,,,
misconception,tiny,Exercise 2.1,2,,,,,,,,3,the mean is missing.
misconception,tiny,Exercise 2.1,1,,,,,,,,1,it is late.
"""


def test_the_report_in_words_and_as_a_table(folders):
    """Right is right in all parts. Kernels add up; what comes after the first right answer does not count."""
    assert "\n".join(report.text(folders, TINY)).startswith(WORDS)
    assert report.table(folders, TINY).splitlines() == TABLE.splitlines()

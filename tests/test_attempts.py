"""The log of attempts: what a learner's kernel writes, that nothing is lost, and the report on a class's logs."""

import json
import re

from lessonkit import attempts
from lessonkit.course import lessons
from lessonkit.progress import report
from lessonkit.progress.log import read
from lessonkit.progress.saved import RIGHT, TRIED, WAITS, states_in
from tests.helpers import executed
from tests.test_progress import COURSE
from tests.test_progress import attempt as line

WRONG = "def mine(x):\n    return x.mean(-1, keepdim=True), x.var(-1, keepdim=True)"
CARD, SOLVED = "# Exercise 2.1 · ●●○○○ · 5 min\n", WRONG.replace("var(-1, ", "var(-1, correction=0, ")
CELLS = [  # code, and what it adds to the log: (item, verdict, what)
    ("import os\nfrom pathlib import Path\nfrom lessonkit import attempts, check\nlog = Path('attempts.jsonl')", None),
    (f"{CARD}{WRONG}", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "not yet", "mean_and_var")),
    (f"{CARD}{SOLVED}", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "right", "mean_and_var")),
    ('check.predict("2.1", "")', None),
    ('check.predict("2.1", "a")', ("Predict 2.1", "not yet", "a")),
    ('check.recall("2.1", " C. ")', ("Recall 2.1", "right", "c")),
    ('check.predict("2.1")', None),
    ("def blank(layer):\n    raise check.YourTurn('2.3: write it')\ncheck.is_layer_norm(blank)", None),
    ("os.environ['LESSON_LOG'] = 'off'\ncheck.mean_and_var(mine)", None),
    ("del os.environ['LESSON_LOG']\nwritten = log.read_text()\nlog.unlink(); log.mkdir()", None),
    *[("check.how_many(dict.fromkeys('abcd', 64))", ("Exercise 2.2", "not yet", "how_many"))] * 2,
    ("log.rmdir(); log.write_text(written + '{\"v\": 1, \"cut o')\nos.chdir('/')", None),
    ("check.mean_and_var(mine)", ("Exercise 2.1", "right", "mean_and_var")),
]


def test_a_learner_s_kernel_adds_a_line_for_each_try_and_nothing_else(tmp_path):
    cells = executed([source for source, _ in CELLS], tmp_path, LESSON_WORK=str(tmp_path))
    text = (tmp_path / "attempts.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    added = [(line["item"], line["verdict"], line.get("check") or line["letter"]) for line in lines]
    assert added == [expected for _, expected in CELLS if expected]
    common = "v time kernel lesson item verdict on_item in_kernel".split()
    assert {" ".join(set(line) - {*common, "mistake"}) for line in lines} == {"check", "letter"}
    assert {line["lesson"] for line in lines} == {"statistics"} and len({line["kernel"] for line in lines}) == 1
    assert "mine" not in text and "keepdim" not in text, "nothing of the learner's"
    assert lines[0]["mistake"].startswith("the variance is divided by D - 1")
    assert "\n" + '{"v": 1, "cut o\n' in text, "a line that was cut off stays alone"
    said = ["".join(out.get("text", "") for out in cell.outputs) for cell in cells]
    assert said[12].startswith("(This attempt could not be noted in attempts.jsonl: ") and said[13] == "", "said once"
    folds, line_below = cells[8].outputs
    assert '<details class="lesson-option" open><summary><b>a.</b>' in folds.data["text/markdown"], "as it was answered"
    assert folds.data["text/markdown"].count(" open>") == 1 and "check.predict" in line_below.data["text/plain"]
    states = states_in(cells, lessons()["02_statistics"])
    assert states == {"2.1": RIGHT, "2.2": TRIED, "2.3": WAITS}, "and progress reads what was shown"


def test_damaged_lines_are_counted_and_the_others_are_read(tmp_path):
    path = tmp_path / attempts.FILE
    bad = ["3", '{"v": 1}', line(mistake="a\x1b[2J")]
    bad += [line(in_kernel=float("nan")), line()[:-20], "[" * 100_000, line(v=99)]
    path.write_text("\n".join([line(), *bad, line()]), encoding="utf-8")
    logged, notes = read(path)
    assert len(logged) == 2 and notes == [f"{path}: left out, damaged or of a newer edition of the course: {len(bad)}."]


def test_a_log_that_cannot_be_read_is_said_and_nothing_else(tmp_path):
    path = tmp_path / attempts.FILE
    assert read(path) == ([], [])
    path.mkdir()
    logged, (note,) = read(path)
    assert not logged and re.fullmatch(r".*attempts.jsonl is left out: it cannot be read \(.+\).", note)


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
WORDS = """\
Learners: 4. Attempts: 15.

2 · Tiny: median 10 min of the 1 who finished, printed 60 min
                   tried  1st  2nd later never  median  printed  answers
  Recall 2.1           1    0    0     0     1                   c:1
  Exercise 2.1         4    1    1     1     1    5:40    5 min
  Predict 2.1          2    1    1     0     0    1:00           a:1 b:1
  Exercise 2.2         2    1    0     0     1    1:00   10 min
  Exercise 2.3         0    0    0     0     0            5 min

Misconceptions, by learners (and times):
    2 (3) Exercise 2.1: the mean is missing.
    1 (1) Exercise 2.1: it is late.
"""


def test_the_report_on_a_class(tmp_path):
    """Right is right in all parts. Kernels add up; what comes after the first right answer does not count."""
    for name, lines in CLASS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / attempts.FILE).write_text("\n".join(lines) + "\n")
    assert "\n".join(report.text([tmp_path / name for name in CLASS], COURSE)).startswith(WORDS)

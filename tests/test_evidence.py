"""Records: made from evidence.py, put into texts by name, compared with fresh runs, and reproduced today."""

import json

import pytest
import torch

from coursebuild import records
from lessonkit import evidence
from tests.helpers import ROOT

LESSON = '''"""Toy."""
from lessonkit.evidence import record

HALF = 0.5  # a comment

@record(seeds=range(4), shows={"accuracy": ".1f %", "loss": ".2f nats", "finds": ""}, tolerance=0.01, split=[0, 3], rate=[0.1, 1.0])
def toy(seed, split=0, rate=0.1, wide=2):
    """A toy."""
    return {"accuracy": 90 + seed + split + HALF, "loss": [seed * rate, wide / 3], "finds": seed > 1, "table": [[1, seed]]}
'''  # noqa: E501


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return the root of a course with one record, and how to change its evidence.py."""
    monkeypatch.setattr(evidence, "FOLDER", tmp_path / "data/runs")
    path = tmp_path / "lessons_src/lessons/02_tiny/evidence.py"
    path.parent.mkdir(parents=True)
    (path.parent / "lesson.py").write_text("")
    path.write_text(LESSON)

    def change(old, new):
        path.write_text(path.read_text().replace(old, new))
        return records.recorders(tmp_path)["toy"]

    return tmp_path, change


def test_a_record_is_made_loaded_and_named_in_a_text(toy, capfd):
    root, _ = toy
    state = torch.random.get_rng_state()
    assert records.main([], root) == 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert "toy: data/runs/toy.json is missing" in capfd.readouterr().out
    text = (root / "data/runs/toy.json").read_text()
    assert sum('"accuracy"' in line for line in text.splitlines()) == 1 + 16, "a line a run"
    assert str(ROOT) not in text
    loaded = evidence.load("toy")
    assert loaded["accuracy"].shape == (2, 2, 4) and loaded["table"].shape == (2, 2, 4, 1, 2)
    assert loaded["loss"][1, 1, 3].tolist() == [3.0, 0.66666667]  # 8 digits
    for asked, said in {
        r"{toy.accuracy:range} in {toy:runs}": "90.5 to 96.5 % in 2 settings, each with 4 seeds on each of 2 splits",
        r"{toy[3, *].accuracy:min} {toy[0, 1.0].loss[0]:each .0f} {toy:n} {toy:runs}": "93.5 % 0, 1, 2, 3 nats 16 ",
        r"{toy.finds:count} {toy.accuracy:count >= 96.5} {toy:runs}": "8 2 ",
        r"{toy.accuracy:median .0f} {toy:again}": "94 % 2 settings, each with 4 seeds on each of 2 splits: `make runs "
        "ARGS=toy` repeats them in less than a minute.",
        r"$\frac{a}{b}^{i}$ and {anything} stay": r"$\frac{a}{b}^{i}$ and {anything} stay",
    }.items():
        assert evidence.say(asked).startswith(said)


CHANGED = "its function, seeds, grid or units have changed"


def test_a_record_is_stale_when_what_it_runs_has_changed(toy):
    root, change = toy
    records.main([], root)
    stays = change("  # a comment", "").function.recorder
    assert records.stale(stays) == "" and records.stale(change('"""A toy."""', '"""The toy."""')) == ""
    assert records.stale(change("HALF = 0.5", "HALF = 0.25")) == CHANGED
    change("HALF = 0.25", "HALF = 0.5")
    assert records.stale(change("tolerance=0.01", "tolerance=0.02")) == "", "it changes no number"
    for old, new in (("range(4)", "range(5)"), ("[0.1, 1.0]", "[0.1]"), (".2f nats", ".3f nats")):
        assert records.stale(change(old, new)) == CHANGED
        change(new, old)


def test_fresh_runs_are_printed_beside_the_record_and_written_nowhere(toy, capfd):
    root, _ = toy
    records.main([], root)
    before = (root / "data/runs/toy.json").read_text()
    capfd.readouterr()
    assert records.main(["toy", "--seeds", "3-6", "--rate", "0.1", "--wide", "4"], root) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "toy: 8 runs, about 1 min"
    assert lines[1] == (
        "  split 0, rate 0.1, wide 4: accuracy: recorded 90.5 to 93.5, fresh 93.5 to 96.5: 3 of 4 outside, by up to 3"
    )
    assert any("accuracy: recorded 93.5 to 96.5, fresh 96.5 to 99.5" in line for line in lines)
    assert (root / "data/runs/toy.json").read_text() == before
    for arguments, words in {
        ("none",): "no lesson records 'none'. There are: toy.",
        ("toy", "--split"): "'--split' is not understood. Write an argument and its value: --split 7.",
    }.items():
        assert records.main([*arguments], root) == 1 and words in capfd.readouterr().err


def test_every_run_is_drawn(toy, capsys):
    root, _ = toy
    records.main([], root)
    capsys.readouterr()
    evidence.show("toy")
    assert capsys.readouterr().out.startswith("accuracy: 90.5 to 96.5\nA dot is a run; recorded on ")
    evidence.show("toy", "accuracy", split=3, rate=0.1)
    assert capsys.readouterr().out.startswith("accuracy: 93.5 to 96.5\n")


def test_one_run_is_repeated_and_compared(toy):
    root, change = toy
    records.main([], root)
    assert records.verify(change("wide / 3", "wide / 3 + 0.009")) == []
    assert records.verify(change("+ HALF", "+ HALF + 0.02"))[0].startswith("accuracy is 90.52 here, and 90.5 in")
    assert "the function returns loss" in records.verify(change('"accuracy": ', '"loss": '))[0]


# ---------------------------------------------------------------------------------------------- the course's records

RECORDERS = records.recorders()


def test_every_record_is_made_by_a_lesson_as_it_is_now():
    there = {path.stem for path in (ROOT / "data/runs").glob("*.json")}
    assert not there - set(RECORDERS), f"no evidence.py makes these of data/runs, delete them: {there - set(RECORDERS)}"
    assert not set(RECORDERS) - there, f"not in data/runs, write them with make runs: {set(RECORDERS) - there}"
    assert {name: records.stale(recorder) for name, recorder in RECORDERS.items() if records.stale(recorder)} == {}
    for name in RECORDERS:
        assert set(json.loads((ROOT / f"data/runs/{name}.json").read_text())["machine"]) == {"cpu", "torch", "threads"}


@pytest.mark.trains
@pytest.mark.parametrize("name", RECORDERS)
def test_one_run_of_every_record_is_reproduced(name):
    assert records.verify(RECORDERS[name]) == []

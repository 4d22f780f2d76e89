"""Recorded runs: written once, loaded for the same call only, run again on demand, and still reproduced today."""

import math
import re
from pathlib import Path

import pytest
import torch

from coursebuild import records
from lessonkit import runs
from tests.helpers import ROOT, SOURCES, read, the_course


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "data" / "runs")
    monkeypatch.delenv("LESSON_RUNS", raising=False)
    monkeypatch.delenv("LESSON_RUNS_ONLY", raising=False)
    return tmp_path / "data" / "runs"


CALLS = []


def sweep(seed, lr=0.1, sizes=(2, 3)):
    CALLS.append(seed)
    return {"accuracy": 90.0 + seed, "loss": [seed * lr, 1 / 3], "table": [[1, 2, 3], [4, 5, len(sizes)]]}


def other(change):
    """Return the function of the record with other results."""
    function = lambda seed, **arguments: sweep(seed, **arguments) | change
    function.__name__ = "sweep"
    return function


def run(function=sweep, seeds=(0, 1, 2), tolerance=0.01, mode="", **arguments):
    CALLS.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LESSON_RUNS", mode) if mode else None
        return runs.load_or_run("toy", function, seeds=seeds, tolerance=tolerance, **arguments)


def test_a_record_is_written_and_loaded_without_a_run(folder, capfd):
    written = run(lr=0.2, sizes=(4, 5), mode="record")
    assert re.fullmatch(r"toy.json: 3 seeds recorded in [\d.]+ s\n", capfd.readouterr().out)
    loaded = run(lr=0.2, sizes=[4, 5])
    assert CALLS == [] and capfd.readouterr() == ("", "")
    assert all(value.dtype == torch.float64 and torch.equal(value, written[key]) for key, value in loaded.items())
    assert loaded["table"].shape == (3, 2, 3) and loaded["loss"][2].tolist() == [0.4, 0.33333333]  # 8 digits
    text = (folder / "toy.json").read_text()
    assert sum('"accuracy"' in line for line in text.splitlines()) == 3, "one line a seed"
    assert str(Path.home()) not in text and str(ROOT) not in text
    assert re.fullmatch(r"recorded on [\d-]{10} \(3 seeds, .+, torch .+\)", runs.note("toy"))
    assert runs.note("toy", "one seed for each rate") == runs.note("toy").replace("3 seeds", "one seed for each rate")


def test_nan_and_infinity_survive():
    diverges = other({"loss": [1.0, math.inf, -math.inf, math.nan], "accuracy": math.nan})
    run(diverges, mode="record")
    loaded = run(diverges)
    assert loaded["loss"][0].nan_to_num(7, 8, 9).tolist() == [1, 8, 9, 7] and loaded["accuracy"].isnan().all()
    run(diverges, mode="verify")


def test_what_is_not_recorded_says_how_to_get_it(folder):
    with pytest.raises(runs.RunsError, match=r"^data/runs/toy.json is missing. .*`make runs ARGS=toy`.*rerun=True"):
        run()
    run(lr=0.2, mode="record")
    words = "toy.json was recorded with arguments = {'lr': 0.2}, this call has arguments = {'lr': 0.3}. "
    with pytest.raises(runs.RunsError, match=f"{re.escape(words)}.*make runs ARGS=toy.*rerun=True"):
        run(lr=0.3)
    with pytest.raises(runs.RunsError, match="recorded with seeds = .0, 1, 2., this call has seeds = .0, 1, 2, 3.[.]"):
        run(lr=0.2, seeds=range(4))
    (folder / "toy.json").write_text("{")
    with pytest.raises(runs.RunsError, match=r"^data/runs/toy.json is damaged. .*git checkout -- data/runs/toy.json"):
        run()


def test_rerun_runs_every_seed_and_writes_nothing(folder, capfd):
    state = torch.random.get_rng_state()
    again = run(seeds=[5, 7], rerun=True)
    assert CALLS == [5, 7] and again["accuracy"].tolist() == [95, 97] and not folder.exists()
    assert torch.equal(torch.random.get_rng_state(), state) and capfd.readouterr() == ("", "")


def test_verify_runs_the_first_seed_and_compares(capfd):
    verify = dict(seeds=[2, 3], mode="verify")
    run(seeds=[2, 3], mode="record")
    capfd.readouterr()
    run(tolerance={"accuracy": 0, "loss": 1e-7, "table": 0}, **verify)
    assert CALLS == [2] and capfd.readouterr().out == "toy.json: seed 2 agrees\n"
    drifted = other({"loss": [0.2, 0.5]})
    run(drifted, tolerance=0.167, **verify)  # the gap is 1/6: no factor can hide there
    for function, tolerance, words in (
        (drifted, 0.166, "seed 2 gives loss = [0.2, 0.5] here, and the record says [0.2, 0.33333333]."),
        (other({"loss": [math.nan, 0.5]}), 1.0, "loss = [nan, 0.5]"),
        (other({"new": 1.0}), 1.0, "returns accuracy, loss, table, new"),
    ):
        with pytest.raises(runs.RunsError, match=re.escape(words)):
            run(function, tolerance=tolerance, **verify)


# ---------------------------------------------------------------------------------------------- the course's records


def test_every_record_belongs_to_one_lesson_and_is_there():
    named = [name for lesson in the_course().lessons for name in records.recorded(lesson)[0]]
    assert len(named) == len(set(named)), "a record is made in one place"
    assert set(named) == {path.stem for path in (ROOT / "data/runs").glob("*.json")}


@pytest.mark.trains
@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_one_seed_of_every_record_is_reproduced(path):
    records.record([read(path)], [], "verify")

"""Recorded runs: written once, loaded for the same call only, run again on demand, and still reproduced today."""

import contextlib
import json
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


@contextlib.contextmanager
def mode(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LESSON_RUNS", value)
        yield


CALLS = []


def sweep(seed, lr=0.1, sizes=(2, 3)):
    CALLS.append(seed)
    return {"accuracy": 90.0 + seed, "loss": [seed * lr, 1 / 3], "table": [[1, 2, 3], [4, 5, len(sizes)]]}


def record(function=sweep, seeds=range(3), **arguments):
    with mode("record"):
        return runs.load_or_run("toy", function, seeds=seeds, tolerance=0.01, **arguments)


def test_a_record_is_written_and_loaded_without_a_run(capfd):
    written = record(lr=0.2, sizes=(4, 5))
    assert re.fullmatch(r"toy.json: 3 seeds recorded in [\d.]+ s\n", capfd.readouterr().out)
    CALLS.clear()
    loaded = runs.load_or_run("toy", sweep, seeds=[0, 1, 2], tolerance=0.01, lr=0.2, sizes=[4, 5])
    assert CALLS == [] and capfd.readouterr() == ("", "")
    assert {key: tuple(value.shape) for key, value in loaded.items()} == {
        "accuracy": (3,),
        "loss": (3, 2),
        "table": (3, 2, 3),
    }
    assert all(value.dtype == torch.float64 for value in loaded.values())
    assert all(torch.equal(loaded[key], written[key]) for key in written)
    assert loaded["loss"][2].tolist() == [0.4, 0.33333333]  # 8 digits


def test_a_record_says_where_it_comes_from_and_nothing_private(folder):
    record(lr=0.2)
    text = (folder / "toy.json").read_text()
    stored = json.loads(text)
    assert list(stored) == ["name", "function", "arguments", "seeds", "tolerance", "date", "machine", "results"]
    assert (stored["seeds"], stored["tolerance"], stored["arguments"]) == ([0, 1, 2], 0.01, {"lr": 0.2})
    assert set(stored["machine"]) == {"cpu", "torch", "threads"}
    assert sum('"accuracy"' in line for line in text.splitlines()) == 3, "one line a seed"
    assert str(Path.home()) not in text and str(ROOT) not in text
    assert re.fullmatch(r"recorded on [\d-]{10} \(3 seeds, .+, torch .+\)", runs.note("toy"))
    assert runs.note("toy", "one seed for each rate") == runs.note("toy").replace("3 seeds", "one seed for each rate")


def test_nan_and_infinity_survive():
    def diverges(seed):
        return {"loss": [1.0, math.inf, -math.inf, math.nan], "step": float("nan")}

    record(diverges)
    loaded = runs.load_or_run("toy", diverges, seeds=range(3), tolerance=0)
    assert loaded["loss"][0].nan_to_num(7, 8, 9).tolist() == [1, 8, 9, 7] and loaded["step"].isnan().all()
    with mode("verify"):
        runs.load_or_run("toy", diverges, seeds=range(3), tolerance=0)


@pytest.mark.parametrize(
    "other, words",
    [
        ({"lr": 0.3}, "recorded with arguments = {'lr': 0.2}, this call has arguments = {'lr': 0.3}"),
        ({"seeds": range(4)}, "recorded with seeds = [0, 1, 2], this call has seeds = [0, 1, 2, 3]"),
        ({"function": lambda seed, lr: {}}, "recorded with function = sweep, this call has function = <lambda>"),
    ],
)
def test_another_call_than_the_recorded_one_is_refused(other, words):
    record(lr=0.2)
    call = {"function": sweep, "seeds": range(3), "lr": 0.2} | other
    with pytest.raises(runs.RunsError) as caught:
        runs.load_or_run("toy", tolerance=0, **call)
    assert str(caught.value).startswith(f"toy.json was {words}. ")
    assert "make runs ARGS=toy" in str(caught.value) and "rerun=True" in str(caught.value)


def test_a_missing_and_a_damaged_record_say_how_to_get_them(folder):
    with pytest.raises(runs.RunsError, match=r"^data/runs/toy.json is missing. .*`make runs ARGS=toy`.*rerun=True"):
        runs.load_or_run("toy", sweep, seeds=range(3), tolerance=0)
    folder.mkdir(parents=True)
    (folder / "toy.json").write_text("{")
    with pytest.raises(runs.RunsError, match=r"^data/runs/toy.json is damaged. .*git checkout -- data/runs/toy.json"):
        runs.load_or_run("toy", sweep, seeds=range(3), tolerance=0)


def test_rerun_runs_every_seed_and_writes_nothing(folder, capfd):
    state = torch.random.get_rng_state()
    CALLS.clear()
    runs_again = runs.load_or_run("toy", sweep, seeds=[5, 7], tolerance=0, rerun=True)
    assert CALLS == [5, 7] and runs_again["accuracy"].tolist() == [95, 97] and not folder.exists()
    assert torch.equal(torch.random.get_rng_state(), state) and capfd.readouterr() == ("", "")


def changed(change):
    """Return the function of the record with other results."""
    function = lambda seed: sweep(seed) | change
    function.__name__ = "sweep"
    return function


def test_verify_runs_the_first_seed_and_compares(capfd):
    record(seeds=[2, 3])
    capfd.readouterr()
    CALLS.clear()
    with mode("verify"):
        runs.load_or_run("toy", sweep, seeds=[2, 3], tolerance={"accuracy": 0, "loss": 1e-7, "table": 0})
        assert CALLS == [2]
        assert capfd.readouterr().out == "toy.json: seed 2 agrees\n"

        drifted = changed({"loss": [0.2, 0.5]})
        with pytest.raises(runs.RunsError) as caught:
            runs.load_or_run("toy", drifted, seeds=[2, 3], tolerance=0.166)
        words = "seed 2 gives loss = [0.2, 0.5] here, and the record says [0.2, 0.33333333]."
        assert words in str(caught.value) and "up to 0.166 allowed" in str(caught.value)
        runs.load_or_run("toy", drifted, seeds=[2, 3], tolerance=0.167)  # the gap is 1/6: no factor can hide there

        for change, words in (
            ({"loss": [math.nan, 0.5]}, "loss = [nan, 0.5]"),
            ({"loss": [1.0]}, "loss = [1.0] here"),
            ({"new": 1.0}, "returns accuracy, loss, table, new"),
        ):
            with pytest.raises(runs.RunsError, match=re.escape(words)):
                runs.load_or_run("toy", changed(change), seeds=[2, 3], tolerance=1.0)


def test_an_unknown_mode_is_refused():
    with mode("yes"), pytest.raises(ValueError, match="LESSON_RUNS is 'yes', expected"):
        runs.load_or_run("toy", sweep, seeds=[1], tolerance=0)


# ---------------------------------------------------------------------------------------------- the course's records


def test_every_record_belongs_to_one_lesson_and_is_there():
    named = [name for lesson in the_course().lessons for name in records.recorded(lesson)[0]]
    assert len(named) == len(set(named)), "a record is made in one place"
    assert set(named) == {path.stem for path in (ROOT / "data/runs").glob("*.json")}


@pytest.mark.trains
@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_one_seed_of_every_record_is_reproduced(path):
    records.record([read(path)], [], "verify")

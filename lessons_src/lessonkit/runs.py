"""Recorded runs: training that takes too long for a lesson is run once, written to data/runs/NAME.json, and loaded.

The lesson keeps the function that makes the numbers, so a learner can read it, and run it with rerun=True. Records are
written by `make runs`, which sets LESSON_RUNS=record; a test sets LESSON_RUNS=verify and runs one seed of each again.
"""

import csv
import datetime
import functools
import json
import os
import platform
import re
import time
from pathlib import Path

import torch
from tqdm.auto import tqdm

from lessonkit import _threads, places  # noqa: F401  _threads sets how many torch uses
from lessonkit.shown import Told

FOLDER = places.data() / "runs"


class RunsError(Told, RuntimeError):
    """A record that is missing, belongs to another call, or that this machine does not reproduce. Says what to do."""


def load_or_run(name, function, *, seeds, tolerance, rerun=False, **arguments):
    """Return the recorded results of function(seed, **arguments) for every seed, or run it if rerun is True.

    name: of the record, data/runs/NAME.json. function: returns a dictionary of numbers and (nested) lists of numbers,
        with the same keys and lengths for every seed; it is called with torch's generator seeded by the seed.
    seeds: whole numbers. arguments: what JSON can hold (numbers, strings, None, lists and dictionaries of them).
    tolerance: how far a run on another machine may be from the record, as an absolute difference: one number for all
        results, or a dictionary with one for each key.
    Returns {key: float64 tensor (len(seeds), ...)}.
    Raises RunsError if there is no record, or if it was made by another function, or with other arguments or seeds.
    """
    seeds = list(seeds)
    mode, only = os.environ.get("LESSON_RUNS", "load"), os.environ.get("LESSON_RUNS_ONLY", "")
    if mode not in ("load", "record", "verify"):
        raise ValueError(f"LESSON_RUNS is {mode!r}, expected 'record', 'verify' or nothing. Unset it.")
    path = FOLDER / f"{name}.json"
    # as they come back from JSON (tuples become lists), so that they can be compared
    call = {"name": name, "function": function.__name__, "arguments": json.loads(json.dumps(arguments)), "seeds": seeds}
    run = functools.partial(_run, function, arguments, tolerance)
    if mode != "load" and name not in (only.split(",") if only else [name]):  # another record's turn
        return _stack(json.loads(path.read_text(encoding="utf-8"))["results"]) if path.exists() else {}
    if mode == "record":
        return _record(path, call | {"tolerance": tolerance}, run)
    if rerun:
        return _stack(run(seeds))
    record = _load(path, call)
    if mode == "verify":
        _verify(path, record, run(seeds[:1])[0], tolerance)
    return _stack(record["results"])


def recorded(name):
    """Return the results of a record, as load_or_run does, in a cell above the one that makes it.

    An exercise can so show runs whose making would give its answer away; the call of load_or_run comes after it.
    """
    return _stack(_read(FOLDER / f"{name}.json")["results"])


def note(name, counted=None):
    """Return what a caption says about a record: "recorded on 2026-11-20 (8 seeds, CPU, torch 2.13.0)".

    counted: what to say instead of the number of seeds, where a seed of the record stands for a setting as well.
    """
    record = _read(FOLDER / f"{name}.json")
    counted, machine = counted or f"{len(record['seeds'])} seeds", record["machine"]
    return f"recorded on {record['date']} ({counted}, {machine['cpu']}, torch {machine['torch']})"


def timings():
    """Return what `make bench` measured, the rows of data/bench.csv.

    {processor: {(candidate, threads, rows, D): (forward, forward and backward)}}, milliseconds. A processor is its
    name, the size of its last cache and the date, as text.
    """
    times = {}
    with open(FOLDER.parent / "bench.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = " ".join(re.sub(r"\((R|TM)\)|Processor|CPU.*|\d+-Core.*", "", row["cpu"]).split())
            processor = times.setdefault(f"{name}, {row['last_cache_mb']} MB, {row['date']}", {})
            key = row["what"], int(row["threads"]), int(row["rows"]), int(row["D"])
            processor[key] = float(row["forward_ms"]), float(row["both_ms"])
    return times


def _run(function, arguments, tolerance, seeds):
    """Return a dictionary of floats and lists of floats for each seed, the same keys and shapes in all of them."""
    results = []
    for seed in tqdm(seeds, desc=function.__name__, unit="seed", leave=False, disable=None):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            values = function(seed, **arguments)
        if not isinstance(values, dict) or not values:
            raise RunsError(f"{function.__name__} returned {values!r}, expected a dictionary of numbers. Mend it.")
        results.append({key: _numbers(value) for key, value in values.items()})
        for key in values:
            _allowed(tolerance, key)  # complain about a tolerance that is missing now, not after the last seed
        _stack(results)  # and about lists that differ in length
    return results


def _numbers(value):
    """Return a result as floats and lists of floats, with 8 digits: float32 has no more."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    return float(f"{value:.8g}")


def _stack(results):
    return {key: torch.tensor([result[key] for result in results], dtype=torch.float64) for key in results[0]}


def _again(name):
    return f"Record it with `make runs ARGS={name}`, or set rerun=True to run it here."


def _read(path):
    place = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunsError(f"{place} is missing. {_again(path.stem)}") from None
    except ValueError:
        raise RunsError(f"{place} is damaged. To restore it: git checkout -- {place}") from None


def _load(path, call):
    record = _read(path)
    for key in ("function", "seeds", "arguments"):
        if record[key] != call[key]:
            raise RunsError(
                f"{path.name} was recorded with {key} = {record[key]}, this call has {key} = {call[key]}. "
                f"{_again(path.stem)}"
            )
    return record


def _record(path, call, run):
    start = time.perf_counter()
    results = run(call["seeds"])
    head = call | {
        "date": datetime.date.today().isoformat(),
        "machine": {"cpu": processor(), "torch": torch.__version__, "threads": torch.get_num_threads()},
    }
    lines = [f'"{key}": {json.dumps(value)},' for key, value in head.items()]
    rows = ",\n".join(map(json.dumps, results))  # a line a seed: diffs can be read
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["{", *lines, '"results": [', rows, "]", "}"]) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path.name}: {len(results)} seeds recorded in {time.perf_counter() - start:.1f} s")
    return _stack(results)


def processor():
    """Return the name of this machine's processor, as a record keeps it: "Intel(R) Xeon(R) Processor"."""
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()


def _allowed(tolerance, key):
    return tolerance[key] if isinstance(tolerance, dict) else tolerance


def _verify(path, record, again, tolerance):
    """Compare the first seed's recorded results with the ones found just now."""
    recorded, seed = record["results"][0], record["seeds"][0]
    if recorded.keys() != again.keys():
        raise RunsError(
            f"{path.name} holds {', '.join(recorded)}, but {record['function']} returns {', '.join(again)}."
            f" {_again(path.stem)}"
        )
    for key, value in again.items():
        new, old = (torch.tensor(numbers, dtype=torch.float64) for numbers in (value, recorded[key]))
        try:
            torch.testing.assert_close(new, old, rtol=0, atol=_allowed(tolerance, key), equal_nan=True)
        except AssertionError as error:
            raise RunsError(
                f"{path.name}: seed {seed} gives {key} = {value} here, and the record says {recorded[key]}. {error}\n"
                f"If the function was changed on purpose: {_again(path.stem)}"
            ) from None
    print(f"{path.name}: seed {seed} agrees")

"""Records: what the functions of a lesson's evidence.py return, run for all seeds and kept in data/runs/NAME.json.

python -m coursebuild.records                                 record anew what is stale           (make runs)
python -m coursebuild.records rings                           record this one anew                (make runs ARGS=rings)
python -m coursebuild.records rings --seeds 500-507 --split 7  run it with others, and compare; nothing is written
"""

import argparse
import ast
import hashlib
import importlib.util
import json
import math
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from coursebuild.digest import shown
from coursebuild.source import ROOT, LessonError, rooms
from lessonkit import _threads, evidence  # noqa: F401  _threads sets how many torch uses
from lessonkit.program import needed, statements


def recorders(root=ROOT):
    """Return {name: Recorder} of all records that lessons make, in the order of the lessons.

    Raises LessonError where two have one name.
    """
    found = {}
    for room in rooms(root):
        path = room / "evidence.py"
        if not path.exists():
            continue
        spec = importlib.util.spec_from_file_location(f"lessons.{room.name}.evidence", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in vars(module).items():
            if hasattr(function, "recorder") and function.__module__ == module.__name__:
                if name in found:
                    raise LessonError(f"{path}: the record {name} is made by two lessons. Rename one of them.")
                found[name] = function.recorder
    return found


def code(recorder):
    """Return a number for what a recorder runs: it changes with the function and what it uses of its module.

    How the function is made a recorder does not count: seeds and grid stand in the record, and a tolerance changes no
    number in it.
    """
    source = Path(recorder.function.__code__.co_filename).read_text(encoding="utf-8")
    used, _ = needed(statements(source), recorder.function.__name__)
    trees = [ast.parse(statement.text) for statement in used]
    for node in (node for tree in trees for node in tree.body):
        if getattr(node, "name", "") == recorder.function.__name__:
            node.decorator_list = []
    return hashlib.sha256("\n".join(sorted(map(shown, trees))).encode()).hexdigest()[:16]


def stale(recorder):
    """Return why a record has to be made anew, "" if it has not."""
    try:
        head = evidence.read(recorder.function.__name__)
    except evidence.EvidenceError as error:
        return str(error)
    now = [recorder.seeds, recorder.grid, recorder.shows, code(recorder)]
    same = [head[key] for key in ("seeds", "grid", "shows", "code")] == now
    return "" if same else "its function, seeds, grid or units have changed"


def run(recorder, seeds, where):
    """Return the results of all runs, a dictionary of floats and lists each: for each point of `where`, all seeds."""
    calls = [(point, seed) for point in where for seed in seeds]
    results = []
    for point, seed in tqdm(calls, desc=recorder.function.__name__, unit="run", leave=False, disable=None):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            values = recorder.function(seed, **point)
        results.append({key: _numbers(value) for key, value in values.items()})
        if results[-1].keys() != results[0].keys():
            raise LessonError(f"{recorder.function.__name__} returns other keys at {point}: {', '.join(values)}.")
        for key in values:
            allowed(recorder.tolerance, key)  # complain about a tolerance that is missing now, not after the last run
    return results


def _numbers(value):
    """Return a result as floats and lists of floats, with 8 digits: float32 has no more."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    return float(f"{value:.8g}")


def allowed(tolerance, key):
    """Return how far a number may be from the record on another machine."""
    return tolerance[key] if isinstance(tolerance, dict) else tolerance


def write(recorder):
    """Run a recorder for all seeds and points, and write its record, a line a run: diffs can be read."""
    start, name = time.process_time(), recorder.function.__name__  # the processor's own, on a busy machine as well
    results = run(recorder, recorder.seeds, evidence.points(recorder.grid))
    seconds = time.process_time() - start
    head = {
        "name": name,
        "seeds": recorder.seeds,
        "grid": recorder.grid,
        "shows": recorder.shows,
        "code": code(recorder),
    }
    head |= evidence.machine() | {"seconds": round(seconds / len(results), 3)}  # of one run
    lines = [f'"{key}": {json.dumps(value)},' for key, value in head.items()]
    text = "\n".join(["{", *lines, '"results": [', ",\n".join(map(json.dumps, results)), "]", "}"]) + "\n"
    evidence.FOLDER.mkdir(parents=True, exist_ok=True)
    (evidence.FOLDER / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
    print(f"{name}: {len(results)} runs recorded in {seconds:.0f} s")


def verify(recorder):
    """Repeat the first run of a record; return what differs by more than its tolerance, a line each."""
    recorded = evidence.read(recorder.function.__name__)["results"][0]
    (again,) = run(recorder, recorder.seeds[:1], evidence.points(recorder.grid)[:1])
    if recorded.keys() != again.keys():
        return [f"the record holds {', '.join(recorded)}, the function returns {', '.join(again)}"]
    wrong = []
    for key, value in again.items():
        new, old = (torch.tensor(numbers, dtype=torch.float64) for numbers in (value, recorded[key]))
        if not torch.allclose(new, old, rtol=0, atol=allowed(recorder.tolerance, key), equal_nan=True):
            wrong.append(f"{key} is {value} here, and {recorded[key]} in the record")
    return wrong


def compare(recorder, seeds, changes):
    """Run a recorder with other seeds or arguments; print them beside the record, and whether they lie inside it."""
    name = recorder.function.__name__
    head, here = evidence.read(name), evidence.points(recorder.grid)
    where = list({json.dumps(point | changes): point | changes for point in here}.values())
    minutes = max(1, round(head["seconds"] * len(where) * len(seeds) / 60))
    print(f"{name}: {len(where) * len(seeds)} runs, about {minutes} min")
    fresh = run(recorder, seeds, where)
    for at, point in enumerate(where):
        same = [i for i, other in enumerate(here) if other | changes == point]
        n = len(head["seeds"])
        before = [row for i in same for row in head["results"][i * n : (i + 1) * n]]
        after = fresh[at * len(seeds) : (at + 1) * len(seeds)]
        for key in head["shows"]:
            label = ", ".join(f"{argument} {value}" for argument, value in point.items())
            print(f"  {label + ': ' if label else ''}{key}: {verdict(_last(before, key), _last(after, key))}")


def _last(rows, key):
    """Return a number a run; of a list that a run returns, its last one."""
    values = [row[key] for row in rows]
    while isinstance(values[0], list):
        values = [value[-1] for value in values]
    return values


def verdict(before, after):
    """Say how fresh numbers lie to recorded ones: inside their range, or how many outside, and by how much.

    >>> verdict([1, 2, 4], [2, 3, 5])
    'recorded 1 to 4, fresh 2 to 5: 1 of 3 outside, by up to 1'
    """
    low, high = min(before), max(before)
    away = [max(low - value, value - high) for value in after]
    outside = [gap for gap in away if not gap <= 0]
    head = f"recorded {low:.4g} to {high:.4g}, fresh {min(after):.4g} to {max(after):.4g}: "
    if not outside:
        return f"{head}all {len(after)} inside"
    return f"{head}{len(outside)} of {len(after)} outside, by up to {max(outside):.3g}"


def _seeds(text):
    """Return the whole numbers of "500-507" or "3,5"."""
    low, dash, high = text.partition("-")
    return list(range(int(low), int(high) + 1)) if dash else [int(number) for number in text.split(",")]


def _changes(pairs):
    """Return {argument: value} of ["--split", "7"]; a value is a number, or else a text."""
    if len(pairs) % 2 or not all(name.startswith("--") for name in pairs[::2]):
        raise LessonError(f"{' '.join(pairs)!r} is not understood. Write an argument and its value: --split 7.")
    value = lambda text: json.loads(text) if text.strip("-.e0123456789") == "" else text
    return {name[2:]: value(text) for name, text in zip(pairs[::2], pairs[1::2], strict=True)}


def main(arguments=None, root=ROOT):
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="make runs ARGS=...", description=__doc__, add_help=True)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="records; all that are stale, if none is named")
    parser.add_argument("--seeds", type=_seeds, help="other seeds to compare with, 500-507 or 3,5")
    options, pairs = parser.parse_known_args(arguments)
    try:
        known, changes = recorders(root), _changes(pairs)
        for name in options.names:
            if name not in known:
                raise LessonError(f"no lesson records {name!r}. There are: {', '.join(sorted(known)) or 'none'}.")
        if options.seeds or changes:
            for name in options.names or known:
                compare(known[name], options.seeds or known[name].seeds, changes)
            return 0
        for name in options.names or known:
            why = "asked for" if options.names else stale(known[name])
            if why:
                print(f"{name}: {why}; {len(known[name].seeds) * math.prod(map(len, known[name].grid.values()))} runs")
                write(known[name])
    except (LessonError, evidence.EvidenceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

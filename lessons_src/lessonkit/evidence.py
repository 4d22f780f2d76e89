"""Evidence: what many runs have shown, recorded once in data/runs/NAME.json, and put into texts and figures from there.

A function of a lesson's evidence.py makes a record: it takes a seed and returns numbers. `make runs` runs it for every
seed and every setting of its grid, and a test repeats one run of each record. A lesson's text names the numbers:

    {rings.layer_norm:range}                 "97 to 99 %": the smallest and the largest of all runs
    {rings[0.1].layer_norm:mean}             the mean at this point of the grid: a value for each of its arguments; * is
                                             all. Also median, min, max, each (all of them), and .1f for the digits
    {rings.loss[-1]:range .2f}               of a list that each run returns, its last number
    {rings.layer_norm:count > 90}            in how many runs it is so; without a condition: in how many it is not 0
    {rings:n} and {rings:runs}               "16", and "16 runs (8 seeds on each of 2 splits)"
    {rings:again}                            how it is repeated, in how many minutes: so ends a text that names a record
"""

import csv
import datetime
import functools
import itertools
import json
import math
import operator
import platform
import re
import statistics
from pathlib import Path
from typing import NamedTuple

from lessonkit import places
from lessonkit.shown import Told

# torch and matplotlib are imported where they are used: the builder asks for texts alone, and starts at once without.

FOLDER = places.data() / "runs"
NAMED = re.compile(r"\{([a-z][a-z0-9_]{2,})(?:\[([^\]{}]*)\])?(?:\.([a-z]\w*)(?:\[(-?\d+)\])?)?(?::([^{}:]+))?\}")
MEANT = re.compile(r"\{([a-z][a-z0-9_]{2,})[\[.:][^{}]*\}")  # whoever writes this of a record means a number of it
CONDITION = re.compile(r"count (<=|>=|<|>|=) (-?[\d.]+)")
COMPARE = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq}
ONE = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}


class EvidenceError(Told, RuntimeError):
    """A record that is missing or damaged, or a text that asks it for what it does not hold. Says what to do."""


class Recorder(NamedTuple):
    """How a record is made. shows: {key: format and unit, as ".0f %"}. grid: {argument: its values}."""

    function: object
    seeds: list
    grid: dict
    shows: dict
    tolerance: object


def record(*, seeds, shows, tolerance, **grid):
    """Make a function of evidence.py the recorder of data/runs/<its name>.json.

    The function takes a seed, and arguments with defaults; torch's generator is seeded before each run. It returns a
    dictionary of numbers and (nested) lists of numbers, with the same keys and lengths for every run.
    seeds: whole numbers. grid: arguments of the function, each with the list of values for which all seeds are run; one
        that is called `split` draws anew who trains and who tests.
    shows: {key: how a text shows it, ".0f %" or ".2f nats"}; "" for one without a unit.
    tolerance: how far a run on a different machine may be from the record, as an absolute difference: one number, or a
        dictionary with one for each key.
    """

    def decorate(function):
        # as they come back from JSON, where tuples become lists
        values = json.loads(json.dumps(grid))
        function.recorder = Recorder(function, list(seeds), values, shows, tolerance)
        return function

    return decorate


def load(name):
    """Return a record's numbers: {key: float64 tensor (values of each argument of the grid..., seeds, ...)}.

    Raises EvidenceError if there is no such record.
    """
    import torch

    from lessonkit import _threads  # noqa: F401  sets how many torch uses

    head = read(name)
    shape = [*map(len, head["grid"].values()), len(head["seeds"])]
    columns = {key: [row[key] for row in head["results"]] for key in head["results"][0]}
    stacked = {key: torch.tensor(column, dtype=torch.float64) for key, column in columns.items()}
    return {key: column.view(*shape, *column.shape[1:]) for key, column in stacked.items()}


def note(name):
    """Return what a caption says about a record: "recorded on 2026-11-20 (8 seeds, CPU, torch 2.13.0)"."""
    head = read(name)
    machine = head["machine"]
    return f"recorded on {head['date']} ({_runs(head)}, {machine['cpu']}, torch {machine['torch']})"


def say(text):
    """Return a text with the numbers that it names in braces, and no others: see the head of this module.

    Raises EvidenceError for a record, a key, a setting or a form that is not there, and where a record is named and the
    text does not say how many runs it has, by {NAME:again}, {NAME:runs} or {NAME:n}.
    """
    for name in sorted(named(text)):
        read(name)
        if not re.search(rf"\{{{name}(\[[^\]]*\])?:(again|runs|n)\}}", text):
            raise EvidenceError(
                f"The text names the record {name} and does not say how many runs it has. End it with "
                f"{{{name}:again}}, or say {{{name}:runs}}."
            )
    told = NAMED.sub(lambda found: _replaced(found) if _is_named(found) else found[0], text)
    for found in MEANT.finditer(told):
        if (FOLDER / f"{found[1]}.json").exists():
            raise EvidenceError(f"{found[0]} has no form that lessonkit/evidence.py knows. {found[1]} is a record.")
    return told


def _replaced(found):
    try:
        return _said(*found.groups())
    except (LookupError, TypeError, ValueError):
        head = read(found[1])
        raise EvidenceError(
            f"{found[0]} names nothing. {found[1]} shows {', '.join(head['shows'])}, and its grid is {head['grid']}; "
            "lessonkit/evidence.py says how a number is named."
        ) from None


def _is_named(found):
    """Whether braces name a record: there is a key, or a form (LaTeX has neither in its braces)."""
    return found[3] is not None or found[5] is not None


def named(text):
    """Return the names of the records that a text names, as a set."""
    return {found[1] for found in NAMED.finditer(text) if _is_named(found)}


def _said(name, point, key, at, form):
    head, form = read(name), form or "mean"
    rows = _selected(head, point)
    if key is None:
        minutes = round(head["seconds"] * len(head["results"]) / 60)
        time = f"about {minutes} min" if minutes else "less than a minute"
        again = f"{_runs(head).capitalize()}: `make runs ARGS={name}` repeats them in {time}."
        return {"n": str(len(rows)), "runs": _runs(head), "again": again}[form]
    values = _values(name, head, rows, key, at)
    condition = CONDITION.fullmatch(form)
    if condition or form == "count":
        holds = COMPARE[condition[1]] if condition else operator.ne
        return str(sum(holds(value, float(condition[2]) if condition else 0) for value in values))
    kind, _, digits = form.partition(" ")
    shown, _, unit = head["shows"][key].partition(" ")
    numbers = [min(values), max(values)] if kind == "range" else values if kind == "each" else [ONE[kind](values)]
    texts = [_number(number, digits or shown) for number in numbers]
    joined = " to ".join(dict.fromkeys(texts)) if kind == "range" else ", ".join(texts)
    return f"{joined} {unit}" if unit else joined


def _number(value, digits):
    text = format(value, digits)
    return "0" if not text.strip("-0.") and "e" not in text else text.replace("-", "−")


def _selected(head, point):
    """Return the results at a point of the grid: "post, GPT-2" names a value of each argument, * all of them."""
    wanted = [part.strip() for part in point.split(",")] if point else ["*"] * len(head["grid"])
    fits = lambda place: all(part in ("*", str(value)) for part, value in zip(wanted, place.values(), strict=True))
    every = [place for place in points(head["grid"]) for _ in head["seeds"]]
    rows = [row for place, row in zip(every, head["results"], strict=True) if fits(place)]
    if not rows:
        raise ValueError(point)
    return rows


def _values(name, head, rows, key, at=None):
    """Return a number of each row; EvidenceError for a key that a text does not show, and for a list as a whole."""
    values = [row.get(key) if at is None else row[key][int(at)] for row in rows]
    if key not in head["shows"] or isinstance(values[0], list):
        shown = ", ".join(head["shows"])
        raise EvidenceError(f"{name} holds no number {key!r} to show. It shows {shown}; {key}[0] is one of a list.")
    return values


def _runs(head):
    """Return how many runs a record has, and of what: "16 runs (8 seeds on each of 2 splits)"."""
    seeds, grid = len(head["seeds"]), dict(head["grid"])
    splits = len(grid.pop("split", [0]))
    each = f"{seeds} seeds" + (f" on each of {splits} splits" if splits > 1 else "")
    settings = math.prod(map(len, grid.values()))
    if settings > 1:
        return f"{settings} settings, each with {each}"
    return each if splits == 1 else f"{seeds * splits} runs ({each})"


def points(grid):
    """Return the points of a grid in the order of a record's results, a dictionary of arguments each."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


@functools.lru_cache(100)
def _parsed(path, changed):
    return json.loads(path.read_text(encoding="utf-8"))


def read(name):
    """Return all that a record holds, as data/runs/NAME.json has it; EvidenceError if it is missing or damaged."""
    path = FOLDER / f"{name}.json"
    place = f"data/runs/{name}.json"
    try:
        return _parsed(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        raise EvidenceError(f"{place} is missing. Record it with `make runs ARGS={name}`.") from None
    except ValueError:
        raise EvidenceError(f"{place} is damaged. To restore it: git checkout -- {place}") from None


def show(name, key=None, **where):
    """Draw every single run of a record: a row for each point of its grid, a dot for each run.

    key: which of its numbers; the first that is no list, if none is named.
    where: arguments of the grid, each with the value to which the picture keeps.
    Raises EvidenceError for a key that is not there or a list, and where no point of the grid is left.
    """
    from lessonkit import plot

    head = read(name)
    grid = points(head["grid"])
    key = key or next(key for key in head["shows"] if not isinstance(head["results"][0][key], list))
    kept = [at for at, place in enumerate(grid) if where.items() <= place.items()]
    if not kept:
        raise EvidenceError(f"{name} has no run with {where}. Its grid is {head['grid']}.")
    seeds, values = len(head["seeds"]), _values(name, head, head["results"], key)
    rows = {_label(name, grid[at], where): values[at * seeds : (at + 1) * seeds] for at in kept}

    def draw(ax):
        for row, dots in enumerate(rows.values()):
            ax.scatter(dots, [row] * seeds, s=22, alpha=0.7, linewidths=0, color=plot.COLORS["LayerNorm"])
        unit = head["shows"][key].partition(" ")[2]
        ax.set(yticks=range(len(rows)), yticklabels=list(rows), xlabel=f"{key} ({unit})" if unit else key)
        ax.set_ylim(len(rows) - 0.5, -0.5)

    shown = sum(rows.values(), [])
    plot.figure(
        draw,
        size=(8, 1.2 + 0.3 * len(rows)),
        title=f"Every run of {name}",
        caption=f"A dot is a run; {note(name)}.",
        alt=f"{key}: {min(shown):.3g} to {max(shown):.3g}",
    )


def _label(name, place, where):
    """Return what a row of dots is called: its words, and its numbers behind the names of their arguments."""
    left = {argument: value for argument, value in place.items() if argument not in where}
    return ", ".join(value if isinstance(value, str) else f"{key} {value}" for key, value in left.items()) or name


def timings():
    """Return what `make bench` measured, the rows of data/bench.csv.

    {processor: {(candidate, threads, rows, D): (forward, forward and backward)}}, milliseconds. A processor is its
    name, the size of its last cache and the date, as text.
    """
    times = {}
    with open(FOLDER.parent / "bench.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = " ".join(re.sub(r"\((R|TM)\)|Processor|CPU.*|\d+-Core.*", "", row["cpu"]).split())
            row_of = times.setdefault(f"{name}, {row['last_cache_mb']} MB, {row['date']}", {})
            key = row["what"], int(row["threads"]), int(row["rows"]), int(row["D"])
            row_of[key] = float(row["forward_ms"]), float(row["both_ms"])
    return times


def machine():
    """Return the date and the machine, as a record keeps them."""
    import torch

    return {
        "date": datetime.date.today().isoformat(),
        "machine": {"cpu": processor(), "torch": torch.__version__, "threads": torch.get_num_threads()},
    }


def processor():
    """Return the name of this machine's processor, as a record keeps it: "Intel(R) Xeon(R) Processor"."""
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()

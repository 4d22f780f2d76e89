"""make bench: time lesson 13's loops and PyTorch's own kernel, and write data/bench.csv, which the lesson shows.

The rows of this processor are replaced; those of other processors stay. A processor is its name and the size of its
last cache, because virtual machines give different processors one name.

For each shape and number of threads, one round runs every candidate, so that a slow moment of the machine meets all of
them, in an order that is drawn anew; the median over the rounds is kept. A candidate runs twice, and the second run
counts: so it finds the caches as it left them itself. "fused after F.layer_norm" tells what that is worth. (Up to
edition 3 of the loops, each ran once.) Inputs are float32. Outputs are allocated by the candidates, as in real use;
glibc is told to keep freed memory, because fresh pages cost every candidate more than the work itself.
With one thread more candidates tell what each change brings: the loops past the caches without one of them, and the
learner's two loops with one line that asks for the next row.
One more part: at which size storing past the caches begins to pay, if every result is read at once by whoever comes
next.

Run it on a machine that does nothing else: python data/make_bench.py [--rounds 31] [--threads 1 2]
"""

import argparse
import csv
import datetime
import math
import os
import platform
import random
import re
import shutil
import statistics
import sys
import time
import types
from functools import cache, partial
from pathlib import Path

KEEP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}
if __name__ == "__main__" and any(os.environ.get(name) != value for name, value in KEEP.items()):
    os.environ |= KEEP  # read once, when the process starts
    os.execv(sys.executable, [sys.executable, *sys.argv])

import numba  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from fromscratch import speed as lesson  # noqa: E402
from lessonkit import evidence  # noqa: E402

FILE = Path(__file__).resolve().parent / "bench.csv"
SHAPES = [(4096, 768), (4096, 1024), (16384, 256), (65536, 64), (1024, 4096)]
READ = [(rows, 768) for rows in (341, 683, 1365, 2731, 4096)]  # 1, 2, 4, 8, 12 MB
LOOPS = "4"  # edition of the loops and of the rounds: count up when what is measured changes
COLUMNS = """
    date machine cpu last_cache_mb cores torch numba loops threads rows D what rounds forward_ms both_ms
""".split()


def edited(*edits):
    """Return the lesson's module with its text edited, (old, new) each, and compiled in memory."""
    text = Path(lesson.__file__).read_text(encoding="utf-8")
    for old, new in (("cache=_keep_compiled()", "cache=False"), *edits):
        if old not in text:
            raise ValueError(f"{lesson.__file__} has no {old!r}. Copy the text from it.")
        text = text.replace(old, new)
    module = types.ModuleType("edited")
    module.__file__ = lesson.__file__
    exec(compile(text, "<edited>", "exec"), module.__dict__)
    return module


def asking_ahead():
    """The module, in which the learner's loops begin each row with one line that asks for the next row."""
    fetch = """        for k in range(D // PIECE):
            _fetch_piece({0}, {0}.ctypes.data + ((r + 1) * D + k * PIECE) * {0}.itemsize)
"""
    start = "    for r in range(start, stop):\n"
    forward = f"{start}        total = number(0)\n        for i in range(D):\n            total += x[r, i]\n"
    near = "        near, sum_c, sum_cc = number(total / D)"
    backward = f"{start}        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK\n"
    more = "        rest = number(mean[r] - near)\n        sum_h, sum_hx = number(0), number(0)\n"
    ahead = lambda loop, *names: loop.replace(start, start + "".join(map(fetch.format, names)))  # noqa: E731
    return edited((forward + near, ahead(forward, "x") + near), (backward + more, ahead(backward, "x", "dy") + more))


def a_row_at_a_time():
    """The module, in which the loops past the caches finish a row before they begin the next."""
    overlapped = "                _add_to(to_bias, block, k, more)\n            if s >= start:\n"
    apart = """                _add_to(to_bias, block, k, more)
        mean_h, mean_hx = _means(sums_h, sums_hx, part)
        s, of_s = r, of_r
        for k in range(pieces):
            if s < stop:
"""
    return edited(("3 if row > LONG else 1", "3"), (overlapped, apart))


def a_sum_a_piece():
    """The module, in which the loops past the caches make one number of each piece's sums at once."""
    row = "                for i in range(PIECE):\n                    sums[i] += x_in[r, k, i]\n"
    spread = """
    for i in range(PIECE):
        c = x[r, k, i] - near
        sums_c[i] += c
        sums_cc[i] += c * c
"""
    back = """
    for i in range(PIECE):
        x_hat = standardize(x[r, k, i], near, rest, scale)
        h = dy[r, k, i] * weight[k, i]
        sums_h[i] += h
        sums_hx[i] += h * x_hat
        piece[i], more[i] = dy[r, k, i] * x_hat, dy[r, k, i]
"""
    edits = []
    for loop, names in ((row, ["sums"]), (spread, ["sums_c", "sums_cc"]), (back, ["sums_h", "sums_hx"])):
        indent = re.match(r"\s*", loop)[0].strip("\n")
        before = "".join(f"{indent}one_{name} = {name}.dtype.type(0)\n" for name in names)
        after = "".join(f"{indent}{name}[0] += one_{name}\n" for name in names)
        inside = re.sub(r"(\w+)\[i\] \+=", r"one_\1 +=", loop.lstrip("\n"))
        edits.append((loop.lstrip("\n"), before + inside + after))
    return edited(*edits)


@cache
def variants():
    """{name: (module, from how many numbers on it stores past the caches)}: what each change to the loops brings."""
    past = {
        "fused, no prefetch": edited(("builder.call(prefetch,", "(prefetch,")),
        "fused, first cache": edited(("_ask(builder, line, cache=2)", "_ask(builder, line, cache=1)")),
        "fused, no pages": edited(("if at % PAGE == 0:", "if at < 0:")),
        "fused, a row at a time": a_row_at_a_time(),
        "fused, a sum a piece": a_sum_a_piece(),
        "fused, short vectors": edited(('"512"', '"256"')),
    }
    large = {name: (module, lesson.LARGE) for name, module in past.items()}
    rows = "forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop)\n\n    return"
    one_pass = edited((rows, rows.replace("forward_rows", "one_pass_rows")))
    ordinary = {"ordinary stores, prefetch": asking_ahead(), "loops, one pass": one_pass}
    return large | {name: (module, math.inf) for name, module in ordinary.items()}


def fused(D, module=lesson):
    return lambda x, weight, bias: module.fused_layer_norm(x, (D,), weight, bias)


def layers(D):
    return {
        "fused": fused(D),
        "F.layer_norm": lambda x, w, b: F.layer_norm(x, (D,), w, b),
        "centered squares": lesson.line_by_line,
        "x.var": lesson.with_var,
    }


def forward_and_backward(layer, x, dy, weight, bias, large=lesson.LARGE, read=False, module=lesson):
    """Return (milliseconds forward, milliseconds forward and backward).

    large: numbers from which on the fused layer of a module stores past the caches. read: whether y and dx are read at
    once (their sums), as by whoever comes next.
    """
    usual, module.LARGE = module.LARGE, large
    try:
        start = time.perf_counter()
        y = layer(x, weight, bias)
        if read:
            y.detach().sum()
        middle = time.perf_counter()
        dx, *_ = torch.autograd.grad(y, (x, weight, bias), dy)
        if read:
            dx.sum()
        return 1e3 * (middle - start), 1e3 * (time.perf_counter() - start)
    finally:
        module.LARGE = usual


def copied(copy, x):
    start = time.perf_counter()
    copy(x)
    ms = 1e3 * (time.perf_counter() - start)
    return ms, ms


def copies(x, y):
    """Candidates that copy x into y: PyTorch's copy, and with one thread the copy past the caches."""
    timings = {"copy": lambda: copied(y.copy_, x)}
    if torch.get_num_threads() == 1:
        timings["copy past the caches"] = lambda: copied(lambda x: lesson.copy_past(x.numpy(), y.numpy()), x)
    return timings


def medians(candidates, rounds):
    """Run all candidates in turn. Return {name: (forward, both)}, medians in milliseconds.

    A candidate finds the caches, and the memory that it is given, as the one before has left them. So each runs twice,
    the first time only for the second, and each round goes in an order of its own.
    """
    seen, names, warm, draws = {name: [] for name in candidates}, list(candidates), 2, random.Random(13)
    for k in range(rounds + warm):
        for name in draws.sample(names, len(names)):
            candidates[name]()
            result = candidates[name]()
            if k >= warm:
                seen[name].append(result)
    return {name: tuple(statistics.median(column) for column in zip(*runs, strict=True)) for name, runs in seen.items()}


def draw(rows, D):
    """x (rows, D), dy (rows, D), weight (D,), bias (D,); gradients are wanted of all but dy."""
    g = torch.Generator().manual_seed(13)
    x, dy = (torch.randn(rows, D, generator=g) for _ in range(2))
    weight, bias = (torch.randn(D, generator=g).requires_grad_() for _ in range(2))
    return x.requires_grad_(), dy, weight, bias


def measure(rows, D, rounds):
    x, *others = draw(rows, D)
    candidates, ways = copies(x.detach(), torch.empty(rows, D)), layers(D)
    for name, layer in ways.items():
        candidates[name] = partial(forward_and_backward, layer, x, *others)
    in_turn = candidates["F.layer_norm"], candidates["fused"]
    candidates["fused after F.layer_norm"] = lambda: [run() for run in in_turn][-1]
    candidates["fused, ordinary stores"] = partial(forward_and_backward, ways["fused"], x, *others, math.inf)
    if torch.get_num_threads() == 1:
        for name, (module, large) in variants().items():
            layer = fused(D, module)
            candidates[name] = partial(forward_and_backward, layer, x, *others, large, module=module)
        doubles = [item.detach().double().requires_grad_(item.requires_grad) for item in (x, *others)]
        candidates["loops, float64"] = partial(forward_and_backward, ways["fused"], *doubles, math.inf)
        if (rows, D) == (4096, 1024) and shutil.which("c++"):
            candidates["compiled"] = partial(forward_and_backward, torch.compile(lesson.line_by_line), x, *others)
    return medians(candidates, rounds)


def measure_read(rows, D, rounds):
    arguments, layer = draw(rows, D), layers(D)
    ways = {
        "F.layer_norm": (layer["F.layer_norm"], 0),
        "ordinary stores": (layer["fused"], math.inf),
        "past the caches": (layer["fused"], 0),
    }
    candidates = {
        f"{name}, read": partial(forward_and_backward, layer, *arguments, large, read=True)
        for name, (layer, large) in ways.items()
    }
    return medians(candidates, rounds)


def last_cache():
    """Bytes of the last cache; 32 MB where Linux does not say."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * {"K": 1024, "M": 1 << 20}[size[-1]] for size in sizes), default=32 << 20)


def kept(file, common):
    """The rows of a file that were measured on other processors."""
    if not file.exists():
        return []
    with open(file, encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    same = ("machine", "cpu", "last_cache_mb")
    return [row for row in rows if any(row[key] != str(common[key]) for key in same)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=FILE)
    arguments = parser.parse_args()
    common = dict(
        date=datetime.date.today().isoformat(),
        machine=f"{platform.system()} {platform.machine()}",
        cpu=evidence.processor(),
        last_cache_mb=round(last_cache() / (1 << 20)),
        cores=os.cpu_count(),
        torch=torch.__version__,
        numba=numba.__version__,
        loops=LOOPS,
        rounds=arguments.rounds,
    )
    table, kept_rows = [], kept(arguments.out, common)
    print("milliseconds forward / forward and backward, medians")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for timed, shapes in ((measure, SHAPES), (measure_read, READ)):
            for rows, D in shapes:
                for name, (forward, both) in timed(rows, D, arguments.rounds).items():
                    setting = dict(threads=threads, rows=rows, D=D, what=name)
                    table.append(common | setting | dict(forward_ms=f"{forward:.4f}", both_ms=f"{both:.4f}"))
                    times = f"{forward:8.2f} / {both:8.2f}"
                    print(f"{threads} thread{'s' * (threads > 1)} {rows:>6} x{D:>5} {times}  {name}", flush=True)
    with open(arguments.out, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept_rows + table)
    print(f"\nwritten: {arguments.out}. Lesson 13 shows it after: make notebooks")


if __name__ == "__main__":
    main()

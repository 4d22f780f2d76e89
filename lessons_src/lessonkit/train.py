"""A training loop for fair comparisons: with one seed, every method sees the same batches in the same order.

The lesson passes in what it teaches (model, loss, optimizer) as small functions. This file owns the rest: seeds,
batches, the loop, the progress bar and the histories.
"""

import math
from itertools import islice

import torch
from tqdm.auto import tqdm

from lessonkit import _threads  # noqa: F401  sets how many torch uses


def compare(
    models,
    *,
    seeds,
    loss,
    optimizer,
    schedule=None,
    clip=None,
    data=None,
    epochs=None,
    batch_size=64,
    drop_last=False,
    batches=None,
    steps=None,
    evaluate=None,
    every=None,
    eval_mode=True,
):
    """Train every model once per seed and return the histories.

    models: dict, name -> function without arguments that makes a fresh model.
    seeds: whole numbers, one run each. A seed fixes the batches, and is given to torch.manual_seed just before a model
        is made: models that draw the same numbers start from the same weights. So runs are paired, across calls too.
    loss: function (model(x), y) -> scalar tensor. optimizer: function (list of parameters) -> torch optimizer.
    schedule: function (step) -> factor on the learning rate; steps count from 1. clip: largest norm of the gradient.
    Either data = x (N, ...), y (N, ...), shuffled for each of `epochs`; drop_last leaves out a smaller last batch.
    Or batches: function (torch.Generator) -> x, y, that draws from this generator only, called for each of `steps`.

    evaluate: dict, name -> function (model) -> number, called without gradients and with the model in eval().
        eval_mode=False leaves it in train(), as code that forgets eval() does; running statistics move then, too.
    every: steps from one evaluation to the next: by default an epoch, with `batches` all steps. The last step has one.

    Returns a dict, name -> dict of tensors, for S seeds and E evaluations:
        "loss" (S, E), mean over the batches since the evaluation before; each name in `evaluate` (S, E); "step" (E,),
        when they were taken; "diverged" (S,), the step at which the run diverged, 0 if it did not.
    A run diverges when its training loss is not finite, or at an evaluation one of its weights. It is nan from there
    on, and the other runs go on. The global random numbers (CPU) are left as they were.
    Raises ValueError for arguments that cannot work.
    """
    evaluate = evaluate or {}
    per_epoch, marks = _check(models, seeds, data, epochs, batch_size, drop_last, steps, every)
    steps, history, old = marks[-1], {}, []
    # disable=None: a widget in a notebook, text in a terminal, nothing where stderr is a file or a pipe.
    bar = tqdm(total=len(models) * len(seeds) * steps, unit="step", leave=False, disable=None)
    with bar, torch.random.fork_rng(devices=[]):
        for name, make in models.items():
            rows = []
            for seed in seeds:
                bar.set_description(f"{name}, seed {seed}")
                torch.manual_seed(seed)
                model = make()
                fresh = isinstance(model, torch.nn.Module) and model not in old
                _need(fresh, f"models[{name!r}]()", model, "a new module. Does its function make one and return it?")
                old.append(model)
                # Another seed than the model's: batches that are drawn would repeat the numbers in its weights.
                generator = torch.Generator().manual_seed(1_000_000 + seed)
                stream = _stream(data, batch_size, per_epoch, batches, generator)
                rows.append(_run(model, stream, marks, loss, optimizer, schedule, clip, evaluate, eval_mode, bar))
                bar.update(-bar.n % steps)  # the steps that a diverged run did not take
            history[name] = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
            history[name]["step"] = torch.tensor(marks)
    return history


def _stream(data, batch_size, per_epoch, batches, generator):
    """Yield batches without end: those of `batches`, or epoch after epoch of data, each in a new random order."""
    while data is None:
        yield batches(generator)
    x, y = data
    while True:
        for rows in torch.randperm(len(x), generator=generator).split(batch_size)[:per_epoch]:
            yield x[rows], y[rows]


def _run(model, stream, marks, loss, optimizer, schedule, clip, evaluate, eval_mode, bar):
    """Train one model; return its row of each table in the history: a number per mark, and the step of divergence."""
    row = {key: torch.full((len(marks),), math.nan, dtype=torch.float64) for key in ("loss", *evaluate)}
    row["diverged"] = torch.tensor(0)
    optimizer, losses = optimizer(list(model.parameters())), []
    rates = [group["lr"] for group in optimizer.param_groups]
    model.train()
    for step, (x, y) in enumerate(islice(stream, marks[-1]), start=1):
        value = loss(model(x), y)
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        factor = schedule(step) if schedule else 1
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        optimizer.step()
        bar.update()
        # The weights are looked at, too: an accuracy does not show that the last step made them nan.
        spoiled = step in marks and not all(p.isfinite().all() for p in model.parameters())
        if spoiled or not math.isfinite(losses[-1]):
            row["diverged"] += step
            break
        if step in marks:
            at = marks.index(step)
            row["loss"][at] = sum(losses) / len(losses)
            losses = []
            for key, measure in evaluate.items():
                model.train(not eval_mode)
                with torch.no_grad():
                    row[key][at] = measure(model)
            model.train()
    return row


def table(history, column, digits=1):
    """Print a line for each method: mean ± sample standard deviation (ddof=1) [min, max] over the seeds, and n.

    history: what compare returned, or several of them joined with |. column: a name in `evaluate`, or "loss".
    The last evaluation counts. digits: decimals. Runs that are not finite are counted, not averaged.
    """
    print(f"{column}: mean ± sample sd [min, max] over n seeds")
    for name, columns in history.items():
        values = columns[column][:, -1]  # (S,)
        good = values[values.isfinite()]
        n, lost, d = len(good), len(values) - len(good), digits
        sd = f"{good.std(correction=1):.{d}f}" if n > 1 else "-"  # one run has no spread
        text = f"{good.mean():z.{d}f} ± {sd} [{good.min():z.{d}f}, {good.max():z.{d}f}]" if n else "no finite run"
        lost = f", {lost} more not finite" if lost else ""
        print(f"{name:<{max(map(len, history))}}  {text}  n = {n}{lost} (step {columns['step'][-1]})")


def _check(models, seeds, data, epochs, batch_size, drop_last, steps, every):
    """Raise ValueError for what cannot work; return the batches in an epoch, and the steps to evaluate after."""
    for name, make in models.items():
        function = not isinstance(make, torch.nn.Module)
        _need(function, f"models[{name!r}]", make, "a function that makes a fresh model: write lambda: in front of it.")
    several = hasattr(seeds, "__len__") and 0 < len(seeds) == len(set(seeds))
    _need(several, "seeds", seeds, "different whole numbers, like range(4) for four runs.")
    needed = (epochs, batch_size) if data is not None else (steps,)
    _need(all(needed), "The length of a run", needed, "data with epochs, or batches with steps, all of them above 0.")
    per_epoch = steps
    if data is not None:
        N = len(data[0])
        per_epoch = N // batch_size if drop_last else math.ceil(N / batch_size)
        _need(per_epoch, "batch_size", batch_size, f"at most {N}, the number of examples, or else drop_last=False.")
        steps = epochs * per_epoch
    every = every or per_epoch
    return per_epoch, sorted({*range(every, steps, every), steps})


def _need(condition, name, value, expected):
    if not condition:
        raise ValueError(f"{name} is {value!r}, expected {expected}")

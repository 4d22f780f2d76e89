"""Explorables: what their modules compute, compared with torch in float64, and what a notebook stores of them.

Node runs the functions that a module exports on cases that are drawn here, and returns what they return as JSON.
"""

import base64
import itertools
import json
import math
import re
import shutil
import subprocess

import pytest
import torch
from torch.nn import functional as F

from lessonkit import data, explore
from tests.helpers import ROOT, draw

EXPLORE = ROOT / "lessons_src/lessonkit/explore"
SOLVED = ROOT / "notebooks/solutions"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(not NODE, reason="no Node (on Debian: apt install nodejs): nothing is computed")
every_explorable = pytest.mark.parametrize("name", explore.__all__)
SCRIPT = """
import { readFileSync } from "node:fs";
const [address, name] = process.argv.slice(1);
const { [name]: work } = await import(address);
const plain = (key, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value)
  : ArrayBuffer.isView(value) ? Array.from(value) : value);
const results = JSON.parse(readFileSync(0)).map((inputs) => (typeof work === "function" ? work(...inputs) : work));
process.stdout.write(JSON.stringify(results, plain));
"""


def node(module, name, cases):
    """Call an export of a module once a case, with the case's arguments, and return the results.

    module: its name or address. Numbers that are not finite come back as the texts "NaN", "Infinity" and "-Infinity".
    """
    address = module if ":" in module else (EXPLORE / f"{module}.mjs").as_uri()
    command = [NODE, "--input-type=module", "-e", SCRIPT, address, name]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(actual, expected, tolerance=1e-9):
    """Assert that nested lists agree with a tensor, relative to the largest number of the tensor if that is over 1."""
    actual, expected = torch.tensor(actual, dtype=torch.float64), expected.detach()
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


def rows(seed, n, D=None):
    """Return n cases (x, dy, gain, bias, eps): rows of 3 to 16 numbers, of sizes 0.01 to 100, or of D numbers."""
    cases = []
    for i in range(n):
        x, dy, gain, bias = draw(seed + i, 4, D or 3 + i % 14)
        scale, eps = 10 ** float(draw(seed + n + i, 1).clamp(-2, 2)), [0.0, 1e-5, 0.5][i % 3]
        cases.append((scale * x, dy, gain, bias, eps))
    return cases


# ------------------------------------------------------------------------------------------------ what all modules have


@needs_node
@every_explorable
def test_the_stored_picture_is_what_the_module_draws(name):
    """To store it anew: node lessons_src/lessonkit/explore/still.mjs."""
    [drawn] = node(name, "still", [[]])
    assert (EXPLORE / f"{name}.svg").read_text(encoding="utf-8") == drawn
    assert re.match(r"<svg [^>]*\brole=\"img\"[^>]*>\s*<title>[^<]{10,}</title>\s*<desc>[^<]{60,}</desc>", drawn)
    assert not any(word in drawn for word in ("NaN", "undefined", "var("))
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


@needs_node
def test_a_lesson_stores_the_picture_of_the_state_that_it_shows():
    """To store it anew, once the notebooks are built: node lessons_src/lessonkit/explore/still.mjs."""
    cells = [cell for path in SOLVED.glob("*.ipynb") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    outputs = [out.get("metadata", {}).get("image/svg+xml") for cell in cells for out in cell.get("outputs", [])]
    shown = [(out["explore"], out["state"]) for out in outputs if out]
    assert {name for name, _ in shown} == set(explore.__all__)
    for name, state in shown:
        [drawn] = node(name, "still", [[state]])
        assert explore.Explorable(name, state)._repr_mimebundle_()[0]["image/svg+xml"] == drawn


@needs_node
@every_explorable
def test_python_and_the_module_begin_with_the_same_parameters(name):
    """Both what a page imports, and the one text that anywidget takes."""
    widget = getattr(explore, name)()
    text = base64.b64encode(widget._esm.encode()).decode()
    joined, start = node(f"data:text/javascript;base64,{text}", "start", [[]]) + node(name, "start", [[]])
    assert joined == start
    assert {key: getattr(widget, key) for key in start} == start
    assert set(start) <= set(widget.keys)


@every_explorable
def test_a_module_asks_for_nothing_beyond_itself(name):
    text = getattr(explore, name)()._esm
    assert not re.search(r"\bimport\b\s*[({\"'*\w]|\bfetch\(|XMLHttpRequest|WebSocket|@import|url\((?!#)", text)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)


NO_PARAMETERS = [  # an explorable, and values that it refuses, each by itself
    ("row", dict(x=[1], gain=[1])),
    ("row", dict(x=range(7))),
    ("block", dict(tensor="BD", over=("H",), groups=3)),
    ("depth", dict(scale=3, norm="pre")),
    ("batch", dict(sample=(1, 2), neighbors=16, mode="test")),
    ("sphere", dict(x=(1, 2, 3), gain=None, eps=-1, step=4, show="cloud")),
    ("backward", dict(x=(1, 2), dy=(1, 2, 3), gain=1, paths=["var"], nudged=[5])),
    ("stream", dict(place="Pre-LN", scale="1.0e")),
]


@pytest.mark.parametrize("name, wrong", NO_PARAMETERS)
def test_what_is_no_parameter_is_refused_with_the_way_out(name, wrong):
    for key, value in wrong.items():
        with pytest.raises(ValueError, match=rf"^{key} of explore.{name} .*; expected .*, for example "):
            getattr(explore, name)(**{key: value})


# ----------------------------------------------------------------------------------------------------------------- host


@needs_node
def test_layer_norm():
    cases = [(*row, correction) for row in rows(1, 300) for correction in (0, 1)]
    options = [dict(eps=eps, correction=c, gain=g.tolist(), bias=b.tolist()) for _, _, g, b, eps, c in cases]
    results = node("host", "layerNorm", [[x.tolist(), how] for (x, *_), how in zip(cases, options, strict=True)])
    for (x, _, gain, bias, eps, correction), result in zip(cases, results, strict=True):
        variance = x.var(correction=correction)
        hat = (x - x.mean()) / (variance + eps).sqrt()
        numbers = [result["mu"], result["variance"], result["sigma"], result["rstd"]]
        close(numbers, torch.stack([x.mean(), variance, variance.sqrt(), (variance + eps).rsqrt()]))
        close(result["y"], F.layer_norm(x, x.shape, gain, bias, eps) if not correction else gain * hat + bias)


@needs_node
def test_numbers_in_words():
    """A true minus sign and no −0; a factor of 1 is left out before a power of ten."""
    assert node("host", "fmt", [[-1.005], [-0.001], [3, 0], [0.5, 3]]) == ["−1.00", "0.00", "3", "0.500"]
    assert node("host", "power", [[3.14e-8, 1], [1e-12], [2e10]]) == ["3.1·10⁻⁸", "10⁻¹²", "2·10¹⁰"]


# ---------------------------------------------------------------------------------------------------------------- block


def layouts():
    """Every tensor of the explorable with every set of axes, and every number of groups if C is among them."""
    [shapes] = node("block", "SHAPES", [[]])
    for tensor, shape in shapes.items():
        for n in range(1, len(shape) + 1):
            for over in itertools.combinations(shape, n):
                for groups in (1, 2, 4) if "C" in over else (1,):
                    yield tensor, shape, list(over), groups


@needs_node
def test_block_shares_means_as_torch_does():
    """The mean of the numbers that a cell shares its mean with, for each cell, is torch's; so is the printed line."""
    cases = list(layouts())
    places = [
        [list(index), shape, over, groups]
        for _, shape, over, groups in cases
        for index in itertools.product(*map(range, shape.values()))
    ]
    means = iter(node("block", "meanOf", places))
    reduced = node("block", "reduced", [[shape, over, groups] for _, shape, over, groups in cases])
    states = [[dict(tensor=t, over=over, groups=g, squares=True)] for t, _, over, g in cases]
    for (_, shape, *_), line, result in zip(cases, node("block", "code", states), reduced, strict=True):
        x = draw(2, *shape.values())
        expected = eval(line, {"x": x})
        assert str(tuple(expected.shape)) == line.partition("# ")[2]
        assert result["means"] == expected.numel() == math.prod(result["kept"])
        assert result["entries"] == x.numel() // expected.numel()
        flat = torch.zeros(result["kept"], dtype=torch.float64)
        for index in itertools.product(*map(range, shape.values())):
            flat[tuple(next(means))] += x[index].square() / result["entries"]
        close(flat.flatten().tolist(), expected.flatten())
    assert len(cases) == 7 + 4 * 2 + 15 + 8 * 2  # subsets, and two more numbers of groups for those with C


@needs_node
def test_block_names_the_norms_that_torch_calls_so():
    """Of all settings, those that average what torch's function of that name averages."""
    named = {  # axes of the images, axes of the sentences (B, T, C), groups of the channels
        "LayerNorm": ("CHW", "C", 1),
        "BatchNorm": ("BHW", "BT", 1),
        "InstanceNorm": ("HW", "T", 1),
        "GroupNorm": ("CHW", "TC", 2),
    }
    states = [dict(tensor=t, over=over, groups=g, squares=False) for t, _, over, g in layouts()]
    names = node("block", "nameOf", [[state] for state in states])
    for state, name in zip(states, names, strict=True):
        axes = 0 if state["tensor"] == "BCHW" else 1
        same = [n for n, row in named.items() if set(row[axes]) == set(state["over"]) and row[2] == state["groups"]]
        assert [name] == (same or [""])


# ---------------------------------------------------------------------------------------------------------------- depth


def unit(x):
    return x / x.square().mean().sqrt()


@needs_node
def test_depth():
    """The weights are Gaussian; signals and gradients are torch's, by autograd."""
    digit = unit(data.digits()[0][3].double().flatten())
    [drawn] = node("depth", "digit", [[]])
    close(drawn, digit)
    for seed in (0, 3):
        [net] = node("depth", "net", [[seed]])
        weights, upstream = (torch.tensor(net[key], dtype=torch.float64) for key in ("weights", "upstream"))
        weights = weights.view(50, 64, 64)
        assert abs(weights.std() * 8 - 1) < 0.01 and abs((weights.abs() < 1 / 8).double().mean() - 0.683) < 0.01
        cases = list(itertools.product((digit, draw(4, 64)), (0.8, 1.0, 2**0.5, 2.4), ("none", "before", "after")))
        settings = [[x.tolist(), dict(scale=scale, norm=norm, seed=seed)] for x, scale, norm in cases]
        for (x, scale, norm), result in zip(cases, node("depth", "run", settings), strict=True):
            signals = [x.clone().requires_grad_()]
            for W in scale * weights:
                z = signals[-1] @ W
                z = F.layer_norm(z, (64,)) if norm == "before" else z
                signals.append(F.layer_norm(z.relu(), (64,)) if norm == "after" else z.relu())
            gradients = torch.autograd.grad(signals[-1] @ upstream, signals)
            for actual, expected in zip(result["signals"] + result["gradients"], [*signals, *gradients], strict=True):
                size = expected.detach().abs().max()  # from 1e-13 to 1e13: each is compared at its own size
                close((torch.tensor(actual, dtype=torch.float64) / size).tolist(), expected.detach() / size)


# ---------------------------------------------------------------------------------------------------------------- batch


@needs_node
def test_batch():
    """Train mode, the running statistics and eval mode are those of torch's modules."""
    cases = []
    for n, D in ((2, 5), (3, 2), (16, 8)):
        norm = torch.nn.BatchNorm1d(D, affine=False).double()
        for batches in range(12):
            samples = 3 * draw(batches, n, D) + draw(100 + batches, D)
            before = dict(mean=norm.running_mean.tolist(), variance=norm.running_var.tolist(), batches=batches)
            trained = norm.train()(samples)[0]
            after = torch.stack([norm.running_mean, norm.running_var])
            cases.append((samples, before, after, trained, norm.eval()(samples)[0]))
    first = [case[0][0].tolist() for case in cases]
    used = node("batch", "statistics", [[samples.tolist()] for samples, *_ in cases])
    kept = node("batch", "keep", [[before, samples.tolist()] for samples, before, *_ in cases])
    trains, evals = (node("batch", "batchNorm", list(zip(first, how, strict=True))) for how in (used, kept))
    for i, (_, before, after, trained, evaluated) in enumerate(cases):
        close([kept[i]["mean"], kept[i]["variance"]], after)
        assert kept[i]["batches"] == before["batches"] + 1
        close(trains[i], trained)
        close(evals[i], evaluated)


@needs_node
def test_batch_is_the_sample_and_neighbors_that_become_like_it():
    sample = [4, -2, 2, 0, 1]
    states = [dict(sample=sample, neighbors=15, likeness=likeness, draw=2) for likeness in (0, 0.5, 1)]
    far, half, same = (
        torch.tensor(rows, dtype=torch.float64) for rows in node("batch", "batch", [[s] for s in states])
    )
    assert far.shape == (16, 5) and (far[0] == torch.tensor(sample)).all() and (same == far[0]).all()
    close(half.tolist(), (far + same) / 2)
    assert far.abs().max() <= 8 and (far[1:].std(0) > 1).all()

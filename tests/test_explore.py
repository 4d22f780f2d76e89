"""Explorables: what their modules compute, compared with torch in float64, and what a notebook stores of them.

Node runs the functions that a module exports on cases that are drawn here, and returns what they return as JSON.
"""

import base64
import functools
import html
import itertools
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from coursebuild import notebooks
from lessonkit import data, explore
from tests.helpers import ROOT, draw

EXPLORE = ROOT / "lessons_src/lessonkit/explore"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(not NODE, reason="no Node (on Debian: apt install nodejs): nothing is computed")
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


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, tolerance=1e-9):
    """Assert that nested lists agree with a tensor, relative to its largest number, or each with its own of several."""
    if isinstance(expected, dict):
        actual, expected = [actual[key] for key in expected], [*expected.values()]
    if isinstance(expected, list):
        for one, other in zip(actual, expected, strict=True):
            close(one, other, tolerance)
    else:
        at_most = tolerance * expected.detach().abs().max().item()
        torch.testing.assert_close(tensor(actual), expected.detach().double(), rtol=0, atol=at_most)


# ------------------------------------------------------------------------------- what a notebook and a page are given


@needs_node
def test_the_stored_pictures_are_what_the_modules_draw():
    """Of each by itself and as lessons show it. To store them anew, once all notebooks are built: still.mjs."""
    books = [json.loads(path.read_text("utf-8")) for path in (ROOT / "notebooks/solutions").glob("*.ipynb")]
    outputs = [out for book in books for cell in book["cells"] for out in cell.get("outputs", [])]
    about = [out.get("metadata", {}).get("image/svg+xml") for out in outputs]
    shown = [explore.Explorable(of["explore"], of["state"]) for of in about if of]
    assert {one.name for one in shown} == set(explore.__all__)
    for one in shown + [getattr(explore, name)() for name in explore.__all__]:
        [drawn] = node(one.name, "still", [[one.state]])
        data = one._repr_mimebundle_()[0]
        assert data["image/svg+xml"] == drawn
        assert base64.b64encode(drawn.encode()).decode() in re.sub(notebooks.SCRIPT, "", data["text/html"])
        assert re.match(r"<svg [^>]*\brole=\"img\"[^>]*>\s*<title>[^<]{10,}</title>\s*<desc>[^<\"]{60,}</desc>", drawn)


@needs_node
@pytest.mark.parametrize("name", explore.__all__)
def test_python_and_the_module_begin_with_the_same_parameters(name):
    """Both what the site bundles, and the one script that a notebook's page is given."""
    explorable = getattr(explore, name)()
    place = explorable._repr_mimebundle_()[0]["text/html"]
    [script] = re.findall('<script type="module">(.*)</script>', place, re.DOTALL)
    text = base64.b64encode(script.encode()).decode()
    joined, start = node(f"data:text/javascript;base64,{text}", "start", [[]]) + node(name, "start", [[]])
    assert joined == start == json.loads(html.unescape(re.search('data-state="(.*?)"', place)[1])) == explorable.state


# ---------------------------------------------------------------------------------- what torch says that they compute


def rows(seed, n, D=None):
    """Return n cases (x, dy, {gain, bias, eps}): rows of 3 to 16 numbers, of sizes 0.01 to 100, or of D numbers."""
    cases = []
    for i in range(n):
        x, dy, gain, bias = draw(seed + i, 4, D or 3 + i % 14)
        scale, eps = 10 ** float(draw(seed + n + i, 1).clamp(-2, 2)), [0.0, 1e-5, 0.5][i % 3]
        how = {"gain": gain.tolist(), "bias": bias.tolist(), "eps": eps}
        cases.append(((scale * x).tolist(), dy.tolist(), how))
    return cases


def layer_norm(x, how):
    """Return what the formula says; with correction 0 y is PyTorch's."""
    x, gain, bias = map(tensor, (x, how["gain"], how["bias"]))
    variance = x.var(correction=how["correction"])
    rstd = (variance + how["eps"]).rsqrt()
    y = (
        F.layer_norm(x, x.shape, gain, bias, how["eps"])
        if not how["correction"]
        else gain * (x - x.mean()) * rstd + bias
    )
    return {"mu": x.mean(), "variance": variance, "sigma": variance.sqrt(), "rstd": rstd, "y": y}


def gradient(x, dy, how):
    """Return dx of F.layer_norm."""
    x = tensor(x).requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape, tensor(how["gain"]), eps=how["eps"]), x, tensor(dy))[0]


def paths(x, dy, how):
    """Return dx on each path: what autograd finds when the other two are detached."""
    x = tensor(x).requires_grad_()
    mean, rstd = x.mean(), (x.var(correction=0) + how["eps"]).rsqrt()
    x_hats = {
        "straight": (x - mean.detach()) * rstd.detach(),
        "mean": (x.detach() - mean) * rstd.detach(),
        "variance": (x - mean).detach() * rstd,
    }
    ways = {path: torch.autograd.grad(h * tensor(how["gain"]), x, tensor(dy))[0] for path, h in x_hats.items()}
    torch.testing.assert_close(sum(ways.values()), gradient(x.tolist(), dy, how))
    return ways


def station(x, how, time, delay):
    """Return where a row is at a time from 0 to 3: x, less its mean, divided, after gain and bias."""
    x = tensor(x)
    hat = F.layer_norm(x, (3,), eps=how["eps"])
    return [x, x - x.mean(), hat, hat * tensor(how["gain"]) + tensor(how["bias"])][time]


@functools.cache
def depth_net(seed):
    [net] = node("depth", "net", [[seed]])
    return tensor(net["weights"]).view(50, 64, 64), tensor(net["upstream"])


def through_depth(x, setting):
    weights, upstream = depth_net(setting["seed"])
    signals = [tensor(x).requires_grad_()]
    for W in setting["scale"] * weights:
        z = signals[-1] @ W
        z = F.layer_norm(z, (64,)) if setting["norm"] == "before" else z
        signals.append(F.layer_norm(z.relu(), (64,)) if setting["norm"] == "after" else z.relu())
    return {"signals": signals, "gradients": list(torch.autograd.grad(signals[-1] @ upstream, signals))}


def through_stream(x, head, weights, place):
    """Return the loss of the residual net."""
    norm = lambda x, *places: F.layer_norm(x, (16,)) if place in places else x
    for W1, W2 in weights:
        x = norm(x + norm((norm(x, "pre", "peri") @ W1).relu() @ W2, "peri"), "post")
    return F.cross_entropy(norm(x, "pre", "peri") @ head, torch.arange(8))


def trained_stream(net, place):
    """Return the loss before the first step of Adam and after each."""
    [drawn] = node("stream", "drawNet", [[net]])
    x, head, weights = (tensor(drawn[key]) for key in ("x", "head", "weights"))
    x, head, weights = x.view(8, 16), head.view(16, 8), weights.view(-1, 2, 16, 16).requires_grad_()
    adam, losses = torch.optim.Adam([weights], betas=(0.9, 0.98)), []
    for step in range(1, 22):
        adam.param_groups[0]["lr"] = net["rate"] * min(1, step / max(1, net["warmUp"]))
        losses.append(through_stream(x, head, weights, place))
        [weights.grad] = torch.autograd.grad(losses[-1], [weights])
        adam.step()
    return torch.stack(losses)


DIGIT = data.digits()[0][3].double().flatten()
DIGIT = DIGIT / DIGIT.square().mean().sqrt()
DEPTHS = itertools.product((DIGIT, draw(4, 64)), (0.8, 2**0.5, 2.4), ("none", "before", "after"), (0, 3))
NETS = [  # place, blocks, weight scale, rate, warm-up
    ("none", 12, 1, 0.01, 8),
    ("none", 2, 0.3, 0.001, 0),
    ("post", 24, 1.4, 0.1, 0),
    ("pre", 5, 0.3, 0.1, 20),
    ("peri", 12, 1, 0.03, 0),
]
NETS = [(dict(seed=s, blocks=n, scale=scale, rate=r, warmUp=w), p) for s, (p, n, scale, r, w) in enumerate(NETS)]
COMPARED = {  # module.export: what returns the same with torch, the arguments of both, and a tolerance
    "host.layerNorm": (layer_norm, [(x, how | {"correction": c}) for x, _, how in rows(1, 60) for c in (0, 1)]),
    "sphere.softmax": (lambda x: tensor(x).softmax(0), [(x,) for x, *_ in rows(100, 60)]),
    "sphere.under": (station, [(x, how, t, d) for x, _, how in rows(200, 30, D=3) for t in range(4) for d in (0, 0.7)]),
    "backward.backward": (paths, rows(300, 60)),
    "backward.nudge": (
        # to three digits: what is left of the curve over a thousandth of the deviation
        lambda x, dy, i, how: gradient(x, dy, how)[i],
        [(x, dy, i, how) for x, dy, how in rows(400, 20) for i in (0, 2)],
        0.005,
    ),
    "depth.digit": (lambda: DIGIT, [()]),
    "depth.run": (through_depth, [(x.tolist(), dict(scale=a, norm=n, seed=s)) for x, a, n, s in DEPTHS]),
    "stream.run": (trained_stream, NETS, 1e-6),
}


@needs_node
@pytest.mark.parametrize("export", COMPARED)
def test_what_a_module_computes_is_what_torch_computes(export):
    reference, cases, *tolerance = COMPARED[export]
    for case, result in zip(cases, node(*export.split("."), cases), strict=True):
        close(result, reference(*case), *tolerance)


@needs_node
def test_layer_norm_sees_of_a_row_in_space_only_the_angle():
    """At the ends of the ranges, too, and on the other side of the line of (1, 1, 1)."""
    cases = [{"mu": mu, "spread": s, "angle": a} for mu in (-9, 0.4) for s in (-7, 0.2) for a in range(-3, 4)]
    rows = tensor(node("sphere", "placed", [[case] for case in cases]))
    _, spread, angle = tensor([[*case.values()] for case in cases]).T[:, :, None]
    out = torch.cat([angle.cos(), angle.sin()], dim=1) @ F.normalize(tensor([[1, -1, 0], [1, 1, -2]]))
    close(F.layer_norm(rows, (3,), eps=0.0).tolist(), 3**0.5 * spread.sign() * out, 1e-4)
    assert rows.abs().max() == 2.5


@needs_node
def test_equal_numbers_are_divided_by_eps_or_0_by_0():
    states = [{"x": [2, 2, 2], "eps": eps, "step": 3, "show": ["cloud", "softmax"]} for eps in (0, 1)]
    drawn = node("sphere", "still", [[state] for state in states])
    assert ["NaN" in svg for svg in drawn] == [False, False] and ["0/0" in svg for svg in drawn] == [True, False]


# ------------------------------------------------------------------------------------------------------ block, batch


def cells(x):
    """Return the numbers of a tensor as block takes them."""
    return {",".join(map(str, index)): x[index].item() for index in np.ndindex(*x.shape)}


def layouts():
    """Every tensor of the explorable with every set of axes, and every number of groups if C is among them."""
    [shapes] = node("block", "SHAPES", [[]])
    for tensor_name, shape in shapes.items():
        for n in range(1, len(shape) + 1):
            for over in itertools.combinations(shape, n):
                for groups in (1, 2, 4) if "C" in over else (1,):
                    yield shape, dict(tensor=tensor_name, over=list(over), groups=groups, squares=True)


@needs_node
def test_block_shares_means_and_prints_a_line_as_torch_does():
    """The means of the numbers that share one are what the printed line gives."""
    cases, values, means = list(layouts()), [], []
    lines = node("block", "code", [[state] for _, state in cases])
    arguments = [[shape, state["over"], state["groups"]] for shape, state in cases]
    for (_, state), case, line, counts in zip(
        cases, arguments, lines, node("block", "reduced", arguments), strict=True
    ):
        x = draw(2, *case[0].values())
        expected = eval(line, {"x": x})
        assert str(tuple(expected.shape)) == line.partition("# ")[2]
        assert (counts["means"], counts["entries"]) == (expected.numel(), x.numel() // expected.numel())
        values.append([cells(x), state])
        means.append(expected.flatten())
    for result, expected in zip(node("block", "normalize", values), means, strict=True):
        close([*result["means"].values()], expected)


@needs_node
def test_block_names_the_norms_that_torch_calls_so_and_finds_their_results():
    cases = [(shape, state | {"squares": squares}) for shape, state in layouts() for squares in (False, True)]
    names = node("block", "nameOf", [[state] for _, state in cases])
    named = [(name, *case) for name, case in zip(names, cases, strict=True) if name]
    assert len(named) == 10
    xs = [draw(3, *shape.values()) for _, shape, _ in named]
    results = node("block", "normalize", [[cells(x), state] for x, (*_, state) in zip(xs, named, strict=True)])
    for (name, shape, _), x, result in zip(named, xs, results, strict=True):
        own = x.shape[-1:] if "T" in shape else x.shape[1:]
        first = x.mT if "T" in shape else x  # C stands second in torch's norms of images
        norms = {
            "LayerNorm": F.layer_norm(x, own),
            "RMSNorm": x * (x.square().mean([*range(-len(own), 0)], keepdim=True) + 1e-5).rsqrt(),
            "BatchNorm": F.batch_norm(first, None, None, training=True),
            "InstanceNorm": F.instance_norm(first),
            "GroupNorm": F.group_norm(first, 2),
        }
        expected = norms[name]
        close(
            [result["results"][index] for index in cells(x)],
            (expected.mT if expected.shape != x.shape else expected).flatten(),
        )


@needs_node
def test_batch_is_torchs_batch_norm_in_train_and_eval_mode():
    norm, running = torch.nn.BatchNorm1d(5, affine=False).double(), dict(mean=[0] * 5, variance=[1] * 5, batches=0)
    for n in (2, 16, 3):
        samples = 3 * draw(n, n, 5) + 1
        trained = norm.train()(samples)[0]
        [used] = node("batch", "statistics", [[samples.tolist()]])
        [running] = node("batch", "keep", [[running, samples.tolist()]])
        close(running, {"mean": norm.running_mean, "variance": norm.running_var, "batches": norm.num_batches_tracked})
        outputs = node("batch", "batchNorm", [[samples[0].tolist(), how] for how in (used, running)])
        close(outputs, [trained, norm.eval()(samples)[0]])

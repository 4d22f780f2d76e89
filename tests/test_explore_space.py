"""Three explorables, sphere, backward and stream: what their modules compute, compared with torch in float64.

Node runs the functions that a module exports on cases that are drawn here, and returns what they return as JSON.
"""

import json
import shutil
import subprocess

import pytest
import torch
from torch.nn import functional as F

from tests.helpers import ROOT, draw

EXPLORE = ROOT / "lessons_src/lessonkit/explore"
NAMES = ["sphere", "backward", "stream"]
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(not NODE, reason="no Node (on Debian: apt install nodejs)")
SCRIPT = """
import { readFileSync } from "node:fs";
const [address, name] = process.argv.slice(1);
const { [name]: work } = await import(address);
const plain = (value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
const results = JSON.parse(readFileSync(0)).map((given) => (typeof work === "function" ? work(...given) : work));
process.stdout.write(JSON.stringify(results, (key, value) => plain(value)));
"""


def node(module, name, cases):
    """Call an export of a module once a case, with the case's arguments, and return the results.

    Numbers that are not finite come back as the texts "NaN", "Infinity" and "-Infinity".
    """
    command = [NODE, "--input-type=module", "-e", SCRIPT, (EXPLORE / f"{module}.mjs").as_uri(), name]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(actual, expected, tolerance=1e-9):
    """Assert that nested lists agree with a tensor, relative to the largest number of the tensor if that is over 1."""
    actual, expected = torch.tensor(actual, dtype=torch.float64), expected.detach()
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


# ---------------------------------------------------------------------------------------------- what every module has


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_the_modules_own(name):
    """The stored picture is what the module draws now. To store it anew: see lessonkit/explore/README.md."""
    [drawn] = node(name, "picture", [[]])
    assert (EXPLORE / f"{name}.svg").read_text() == drawn


@pytest.mark.parametrize("name", NAMES)
def test_picture_needs_nothing_else(name):
    text = (EXPLORE / f"{name}.svg").read_text()
    assert "<title>" in text and "<desc>" in text and "NaN" not in text and "undefined" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


# ------------------------------------------------------------------------------------------------------ rows of numbers


def rows(seed, n, D=None):
    """Return n cases (x, dy, gain, bias, eps): rows of 3 to 16 numbers, of sizes 0.01 to 100, or of D numbers."""
    cases = []
    for i in range(n):
        size = D or 3 + i % 14
        x, dy, gain, bias = draw(seed + i, 4, size)
        scale, eps = 10 ** float(draw(seed + n + i, 1).clamp(-2, 2)), [0.0, 1e-5, 0.5][i % 3]
        cases.append((scale * x, dy, gain, bias, eps))
    return cases


def test_backward_and_its_paths():
    """Each path is what autograd returns when the other two are detached, and their sum is F.layer_norm's gradient."""
    cases = rows(22_000, 300)
    given = [[x.tolist(), dy.tolist(), {"eps": eps, "gain": gain.tolist()}] for x, dy, gain, _, eps in cases]
    for (x, dy, gain, _, eps), parts, forward in zip(
        cases,
        node("backward", "backward", given),
        node("backward", "forward", [[x, how] for x, _, how in given]),
        strict=True,
    ):
        x.requires_grad_()
        mean = x.mean()
        rstd = (x.var(correction=0) + eps).rsqrt()
        frozen = x.detach(), mean.detach(), rstd.detach()
        paths = {
            "straight": (x - frozen[1]) * frozen[2],
            "mean": (frozen[0] - mean) * frozen[2],
            "variance": (frozen[0] - frozen[1]) * rstd,
        }
        for path, x_hat in paths.items():
            close(parts[path], torch.autograd.grad(x_hat * gain, x, dy, retain_graph=True)[0])
        y = F.layer_norm(x, x.shape, gain, eps=eps)
        close(forward["y"], y)
        dx = torch.tensor([parts[path] for path in paths], dtype=torch.float64).sum(0)
        close(dx.tolist(), torch.autograd.grad(y, x, dy)[0])


def test_combine_and_summary():
    cases = rows(22_700, 60)
    parts = [dict(zip(["straight", "mean", "variance"], draw(i, 3, 7).tolist(), strict=True)) for i in range(60)]
    on = [[], ["straight"], ["mean", "variance"], ["straight", "mean", "variance"]]
    given = [[part, on[i % 4]] for i, part in enumerate(parts)]
    for (part, paths), dx in zip(given, node("backward", "combine", given), strict=True):
        close(dx, torch.tensor([part[path] for path in paths], dtype=torch.float64).reshape(-1, 7).sum(0))
    for (x, *_), three in zip(cases, node("backward", "summary", [[x.tolist()] for x, *_ in cases]), strict=True):
        close([three["mean"], three["largest"], three["length"]], torch.stack([x.mean(), x.abs().max(), x.norm()]))


def test_nudge():
    """The measured slope is the same quotient as in torch, and near the gradient for a small step."""
    cases = rows(22_900, 90)
    given = [
        [x.tolist(), dy.tolist(), i % len(x), {"eps": eps, "gain": gain.tolist(), "delta": 0.01}]
        for i, (x, dy, gain, _, eps) in enumerate(cases)
    ]
    for (x, dy, gain, _, eps), (_, _, i, _), slope in zip(cases, given, node("backward", "nudge", given), strict=True):
        step = torch.zeros_like(x).index_fill_(0, torch.tensor(i), 0.01)
        before, after = (F.layer_norm(row, x.shape, gain, eps=eps) @ dy for row in (x, x + step))
        # the difference of two sums near each other: their rounding, over 0.01
        close([slope], ((after - before) / 0.01)[None])


def test_backward_of_equal_numbers():
    """All numbers equal: with eps dx is the straight path less its mean; without eps it is 0/0."""
    x, dy = [2.0] * 4, [1.0, -2.0, 0.5, 3.0]
    some, none = node("backward", "backward", [[x, dy, {"eps": 0.25}], [x, dy, {"eps": 0}]])
    h = torch.tensor(dy, dtype=torch.float64)
    close(torch.tensor(list(some.values()), dtype=torch.float64).sum(0).tolist(), (h - h.mean()) / 0.5)
    assert none["variance"] == ["NaN"] * 4


def test_nice_limit():
    given = [0, 0.3, 1, 1.01, 2.5, 5, 7.4, 10, 11, 3000.1]
    assert node("backward", "niceLimit", [[v] for v in given]) == [1, 1, 1, 1.5, 3, 5, 10, 10, 15, 5000]

"""What the modules sphere, backward and stream compute, compared with torch in float64.

What holds for every explorable is tested in test_explore.py.
"""

import torch
from torch.nn import functional as F

from tests.helpers import draw
from tests.test_explore import close, needs_node, node, rows

pytestmark = needs_node


def test_backward_and_its_paths():
    """Each path is what autograd returns when the other two are detached, and their sum is F.layer_norm's gradient."""
    cases = rows(22_000, 300)
    arguments = [[x.tolist(), dy.tolist(), {"eps": eps, "gain": gain.tolist()}] for x, dy, gain, _, eps in cases]
    for (x, dy, gain, _, eps), parts in zip(cases, node("backward", "backward", arguments), strict=True):
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
        dx = torch.tensor([parts[path] for path in paths], dtype=torch.float64).sum(0)
        close(dx.tolist(), torch.autograd.grad(y, x, dy)[0])


def test_nudge():
    """The step is small beside the deviation, so that a nudge agrees with the gradient in every row."""
    x, dy, gain = draw(22_990, 3, 6)
    for scale in (10, 1, 1e-2, 1e-4):
        row = (scale * x).requires_grad_()
        dx = torch.autograd.grad(F.layer_norm(row, (6,), gain), row, dy)[0]
        slopes = node("backward", "nudge", [[row.tolist(), dy.tolist(), i, {"gain": gain.tolist()}] for i in range(6)])
        close(slopes, dx, 0.005)  # what is left of the curve over a thousandth of the deviation


def test_summary():
    [three] = node("backward", "summary", [[[4, -8, 1]]])
    assert three == {"mean": -1, "largest": 8, "length": 9}


def test_backward_of_equal_numbers():
    """All numbers equal: with eps dx is the straight path less its mean; without eps it is 0/0."""
    x, dy = [2.0] * 4, [1.0, -2.0, 0.5, 3.0]
    some, none = node("backward", "backward", [[x, dy, {"eps": 0.25}], [x, dy, {"eps": 0}]])
    h = torch.tensor(dy, dtype=torch.float64)
    close(torch.tensor(list(some.values()), dtype=torch.float64).sum(0).tolist(), (h - h.mean()) / 0.5)
    assert none["variance"] == ["NaN"] * 4


def test_softmax():
    cases = [[x.tolist()] for x, *_ in rows(22_100, 300)]
    for [x], shares in zip(cases, node("sphere", "softmax", cases), strict=True):
        close(shares, torch.tensor(x, dtype=torch.float64).softmax(0))


def test_stations_of_a_row():
    """At times 0 to 3 a row is where the formula says: x, less its mean, divided, after gain and bias."""
    cases = rows(22_500, 60, D=3)
    arguments = [
        [x.tolist(), {"eps": eps, "gain": gain.tolist(), "bias": bias.tolist()}, t, delay]
        for x, _, gain, bias, eps in cases
        for delay in (0, 0.7)
        for t in range(4)
    ]
    stations = iter(node("sphere", "under", arguments))
    for x, _, gain, bias, eps in cases:
        hat = F.layer_norm(x, (3,), eps=eps)
        for expected in 2 * (x, x - x.mean(), hat, hat * gain + bias):
            close(next(stations), expected)


def test_what_layer_norm_cannot_see():
    """Shift and stretch keep the row in the picture and its image where it was, at eps 0."""
    cases = [[kind, x.tolist()] for x in draw(22_600, 50, 3).clamp(-2.5, 2.5) for kind in ("shift", "stretch")]
    for (_, x), result in zip(cases, node("sphere", "unseenMove", cases), strict=True):
        assert max(map(abs, result["to"])) <= 2.5 + 1e-12 and result["to"] != x
        before, after = (F.layer_norm(torch.tensor(row, dtype=torch.float64), (3,), eps=0) for row in (x, result["to"]))
        close(after.tolist(), before)


def test_equal_numbers_in_space():
    """All three numbers equal: in the middle with eps, 0/0 without, and both can be drawn."""
    states = [
        {"x": [2, 2, 2], "eps": eps, "step": step, "show": ["cloud", "softmax"]} for eps in (0, 1) for step in range(4)
    ]
    for state, drawn in zip(states, node("sphere", "still", [[state] for state in states]), strict=True):
        assert "NaN" not in drawn and ("0/0" in drawn) == (state["eps"] == 0)


# ---------------------------------------------------------------------------------------------------- nets of blocks

STEPS = 20


def tensors(net):
    """Return x (8, 16), head (16, 8) and weights (blocks, 2, 16, 16) of a net that stream.mjs has drawn."""
    shapes = {"x": (8, 16), "head": (16, 8), "weights": (-1, 2, 16, 16)}
    return [torch.tensor(net[key], dtype=torch.float64).view(shape) for key, shape in shapes.items()]


def through(x, head, weights, place):
    """Run the net. Return the loss, and the stream before the first and after each block."""
    stream = [x]
    for W1, W2 in weights:
        branch = F.layer_norm(x, (16,)) if place == "pre" else x
        x = x + (branch @ W1).relu() @ W2
        x = F.layer_norm(x, (16,)) if place == "post" else x
        stream.append(x)
    final = F.layer_norm(x, (16,)) if place == "pre" else x
    return F.cross_entropy(final @ head, torch.arange(8)), stream


def settings(n):
    """Return n settings of a net with a place each: depth, weight scale, rate, warm-up and seed vary."""
    cases = []
    for i in range(n):
        blocks, scale = [2, 5, 12, 24][i % 4], [0.3, 1.0, 1.4][i % 3]
        rate, warm_up = [0.001, 0.01, 0.1][i // 3 % 3], [0, 8][i % 2]
        net = {"seed": 100 + i, "blocks": blocks, "scale": scale, "rate": rate, "warmUp": warm_up}
        cases.append((net, ["none", "post", "pre"][i // 2 % 3]))
    return cases


def first_steps(x, head, weights, net, place):
    """The first steps of torch's Adam: losses, and the size (rms) of what each step adds to the weights of a block."""
    optimizer = torch.optim.Adam([weights], lr=net["rate"], betas=(0.9, 0.98), eps=1e-8)
    losses, updates = [], []
    for t in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = net["rate"] * (min(1, t / net["warmUp"]) if net["warmUp"] else 1)
        before = weights.detach().clone()
        optimizer.zero_grad()
        loss, _ = through(x, head, weights, place)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        updates.append((weights - before).detach().flatten(1).square().mean(-1).sqrt())
    return torch.stack([*losses, through(x, head, weights, place)[0].detach()]), torch.stack(updates)


def test_sizes_of_stream_and_gradients_and_the_first_steps_of_adam():
    """All 20 steps agree; without a norm at the rate 0.1 rounding grows from step to step, so only the first five."""
    cases = settings(36)
    nets = node("stream", "drawNet", [[net] for net, _ in cases])
    for (net, place), drawn, result in zip(cases, nets, node("stream", "run", cases), strict=True):
        x, head, weights = tensors(drawn)
        assert abs(weights.std() * 4 / net["scale"] - 1) < 0.1 and weights.mean().abs() < 0.05
        loss, stream = through(x, head, weights.requires_grad_(), place)
        [gradient] = torch.autograd.grad(loss, weights)
        close(result["stream"], torch.stack([row.square().mean().sqrt() for row in stream]))
        close(result["gradient"], gradient[:, 1].flatten(1).norm(dim=1))
        losses, updates = first_steps(x, head, weights, net, place)
        end = 5 if place == "none" and net["rate"] == 0.1 else STEPS
        assert len(result["loss"]) == STEPS + 1 and len(result["update"]) == STEPS
        close(result["loss"][:end], losses[:end])
        close(result["update"][:end], updates[:end])

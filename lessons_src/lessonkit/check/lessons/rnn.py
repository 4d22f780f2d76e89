"""Checks of lesson 10: LayerNorm inside recurrent cells, masked sequences, a tagger that read ahead."""

import zlib

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import (
    Mistake,
    Probe,
    call,
    choice,
    draw,
    examine,
    gradients,
    in_float64,
    in_stages,
    raised,
    refusing,
)


def _layer_norm(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


def _with_gradients(outputs, leaves):
    """Return outputs and the gradients of sum(output * fixed random weights) in the leaves: {name: tensor}."""
    seen = {name: out.detach() if isinstance(out, torch.Tensor) else out for name, out in outputs.items()}
    if not leaves or not all(isinstance(out, torch.Tensor) and out.is_floating_point() for out in outputs.values()):
        return seen
    cut = [name for name, out in outputs.items() if not out.requires_grad]
    if cut:
        return seen | {f"gradient of {name}": "no gradient" for name in leaves}
    loss = sum((out * draw(90 + n, *out.shape).to(out.dtype)).sum() for n, out in enumerate(outputs.values()))
    return seen | gradients(loss, leaves)


def _pair(out):
    """Return the outputs of an LSTM step by name; anything but a pair goes on as it is."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        return {"the pair (h, c)": out}
    return dict(zip(("h", "c"), out, strict=True))


# ------------------------------------------------------------------------------------ 10.1: one step


def _step(x, h, W, U, weight, bias):
    return torch.tanh(_layer_norm(x @ W.T + h @ U.T, weight, bias))


def _hand_written(a, weight, bias, correction=0, eps=1e-5, outside=False):
    var = a.var(-1, correction=correction, keepdim=True)
    sd = var.sqrt() + eps if outside else torch.sqrt(var + eps)
    return (a - a.mean(-1, keepdim=True)) / sd * weight + bias


def _inputs(B, I, H, seed, scale=1.0, dtype=torch.float64, **options):  # noqa: E741
    shapes = ((B, I), (B, H), (H, I), (H, H), (H,), (H,))
    x, h, W, U, weight, bias = (draw(seed + n, *shape, dtype=dtype) for n, shape in enumerate(shapes))
    return call(
        options.pop("label"),
        x * scale,
        h * scale,
        W,
        U,
        weight,
        bias,
        names=("x", "h", "W", "U", "weight", "bias"),
        **options,
    )


_STEP_PROBES = [
    _inputs(3, 4, 5, 1, label="3 rows, 4 inputs, 5 units"),
    _inputs(5, 5, 5, 11, label="5 rows, 5 inputs, 5 units"),
    _inputs(2, 3, 6, 21, scale=1e-3, label="summed inputs of spread 0.002"),
    # float32 products and a norm of numbers of order 1: some units of 1e-7 each
    _inputs(4, 3, 6, 31, dtype=torch.float32, tolerance=1e-5, gradient=False, label="float32"),
]

_STEP_MISTAKES = [
    Mistake(
        "the norm comes behind the tanh. The summed input is normalized, and the tanh comes last.",
        lambda x, h, W, U, w, b: _layer_norm(torch.tanh(x @ W.T + h @ U.T), w, b),
    ),
    Mistake(
        "the old state is normalized, and not the summed input W x + U h.",
        lambda x, h, W, U, w, b: torch.tanh(x @ W.T + _layer_norm(h, w, b) @ U.T),
    ),
    Mistake(
        "only U h is normalized. The norm goes on the sum W x + U h.",
        lambda x, h, W, U, w, b: torch.tanh(x @ W.T + _layer_norm(h @ U.T, w, b)),
    ),
    Mistake(
        "only W x is normalized. The norm goes on the sum W x + U h.",
        lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T, w, b) + h @ U.T),
    ),
    Mistake(
        "the two parts are normalized separately. That comes later; here the norm goes on their sum.",
        lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T, w, b) + _layer_norm(h @ U.T, w, b)),
    ),
    Mistake(
        "the two parts are normalized separately. That comes later; here the norm goes on their sum.",
        lambda x, h, W, U, w, b: torch.tanh((_layer_norm(x @ W.T) + _layer_norm(h @ U.T)) * w + b),
    ),
    Mistake("there is no tanh.", lambda x, h, W, U, w, b: _layer_norm(x @ W.T + h @ U.T, w, b)),
    Mistake(
        "nothing is normalized: this is the plain step, with gain and bias.",
        lambda x, h, W, U, w, b: torch.tanh((x @ W.T + h @ U.T) * w + b),
    ),
    Mistake("nothing is normalized: this is the plain step.", lambda x, h, W, U, w, b: torch.tanh(x @ W.T + h @ U.T)),
    Mistake("gain and bias are not used.", lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T + h @ U.T))),
    Mistake("the bias is not used.", lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T + h @ U.T, w))),
    Mistake("weight and bias are swapped.", lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T + h @ U.T, b, w))),
    Mistake(
        "the batch is normalized: each unit over the rows. Each row takes its own statistics, over its H units.",
        lambda x, h, W, U, w, b: torch.tanh(_layer_norm((x @ W.T + h @ U.T).T).T * w + b),
    ),
    Mistake(
        "the variance divides by H - 1. LayerNorm divides by H: correction=0.",
        lambda x, h, W, U, w, b: torch.tanh(_hand_written(x @ W.T + h @ U.T, w, b, correction=1)),
    ),
    Mistake(
        "eps is added to the deviation. It belongs to the variance, under the root.",
        lambda x, h, W, U, w, b: torch.tanh(_hand_written(x @ W.T + h @ U.T, w, b, outside=True)),
    ),
    Mistake(
        "the variance divides by H - 1, and eps is added to the deviation.",
        lambda x, h, W, U, w, b: torch.tanh(_hand_written(x @ W.T + h @ U.T, w, b, correction=1, outside=True)),
    ),
    Mistake(
        "eps is not PyTorch's 1e-5.",
        lambda x, h, W, U, w, b: torch.tanh(_hand_written(x @ W.T + h @ U.T, w, b, eps=1e-8)),
    ),
    Mistake(
        "x is not used: the summed input is W x + U h.", lambda x, h, W, U, w, b: torch.tanh(_layer_norm(h @ U.T, w, b))
    ),
    Mistake(
        "the mean is not taken away: this is RMSNorm.",
        lambda x, h, W, U, w, b: torch.tanh(F.rms_norm(x @ W.T + h @ U.T, w.shape, w, 1e-5) + b),
    ),
    Mistake(
        "the statistics are taken over the whole batch. Each row takes its own, over its H units.",
        lambda x, h, W, U, w, b: torch.tanh(F.layer_norm(x @ W.T + h @ U.T, (len(x), len(w))) * w + b),
    ),
    Mistake(
        "U is not transposed: the product is h @ U.T.",
        lambda x, h, W, U, w, b: torch.tanh(_layer_norm(x @ W.T + h @ U, w, b)),
    ),
]


def normed_step(answer):
    """Check a function (x, h, W, U, weight, bias) -> tanh(LN(W x + U h)), (B, H) (lesson 10)."""
    examine(
        answer,
        "normed_step",
        _STEP_PROBES,
        in_float64(_step),
        _STEP_MISTAKES,
        tried="three sizes, small spread, float32, gradients",
    )


# ------------------------------------------------------------------------------------ 10.2: a prediction


def gradient_guess(answer):
    """Check the prediction of a gradient through 100 steps, norm inside, small recurrent matrix (lesson 10)."""
    choice(
        answer,
        "gradient_guess",
        {
            "about all of it": "The norm divides by the deviation of the sum, and at scale 0.5 the input W x makes most of that: "
            "it does not give the factor 0.5 back. Run the next cells.",
            "nearly nothing": None,
            "far too much": "For that, every step would have to enlarge. 1/sigma is about what it would be without U, since the "
            "input W x makes most of the spread. Run the next cells.",
            "exactly zero": "The Jacobian of LayerNorm takes away two directions of H, not all. Run the next cells.",
        },
    )


# ------------------------------------------------------------------------------------ cells


def _fill(cell):
    """Give every parameter fixed random numbers that depend on its name, in float64. Returns the cell."""
    cell = cell.double()
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            parameter.copy_(draw(zlib.crc32(name.encode()) % 10_000, *parameter.shape))
    return cell


def _names(cls):
    cell = cls(4, 6)
    return {"the parameters": {name: tuple(p.shape) for name, p in sorted(cell.named_parameters())}}


def _parameters(cell):
    return dict(cell.named_parameters())


def _from_input(shape, seed):
    x = draw(seed, *shape)

    def run(cls):
        cell, leaf = _fill(cls(4, 6)), x.clone().requires_grad_()
        out = cell.from_input(leaf)
        out = f"a {type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else out  # compares as text
        return _with_gradients({"from_input(x)": out}, {"x": leaf})

    return Probe(f"from_input with x of shape {shape}", run, {"x": x})


def _stepping(shape, seed, gates, pair=False, dtype=torch.float64):
    part = draw(seed, *shape, 6 * gates, dtype=dtype)
    states = [draw(seed + n, *shape, 6, dtype=dtype) for n in ((1, 2) if pair else (1,))]
    names = ("h", "c")

    def run(cls):
        cell = _fill(cls(4, 6)).to(dtype)
        leaves = [tensor.clone().requires_grad_() for tensor in (part, *states)]
        given = [leaf.clone() for leaf in leaves]  # in-place changes of a leaf would raise
        out = cell.step(given[0], tuple(given[1:]) if pair else given[1])
        outputs = _pair(out) if pair else {"the new state": out}
        seen = {f"{name} after the call": one.detach() for name, one in zip(("part", *names), given, strict=False)}
        watched = dict(zip(("part", *names), leaves, strict=False)) | {"weight_hh": cell.weight_hh}
        return seen | (_with_gradients(outputs, watched) if dtype == torch.float64 else outputs)

    label = f"step with {'h and c' if pair else 'h'} of shape {(*shape, 6)}" + (
        " in float32" if dtype != torch.float64 else ""
    )
    return Probe(
        label, run, {"part": part} | dict(zip(names, states, strict=False)), 1e-9 if dtype == torch.float64 else 1e-4
    )


def _whole(shape, seed, pair=False):
    x, h, c = draw(seed, *shape, 4), draw(seed + 1, *shape, 6), draw(seed + 2, *shape, 6)

    def run(cls):
        cell, leaf = _fill(cls(4, 6)), x.clone().requires_grad_()
        out = cell(leaf, (h, c)) if pair else cell(leaf, h)
        outputs = _pair(out) if pair else {"the new state": out}
        return _with_gradients(outputs, {"x": leaf} | _parameters(cell))

    return Probe(f"a call with x of shape {(*shape, 4)}", run, {"x": x})


def _from_nothing(pair):
    x = draw(70, 3, 4)

    def run(cls):
        out = _fill(cls(4, 6))(x)
        return _with_gradients(_pair(out) if pair else {"the new state": out}, {})

    return Probe("a call without a state", run, {"x": x})


def _refused(label, pair, *shapes):
    tensors = [draw(80 + n, *shape) for n, shape in enumerate(shapes)]

    def attempt(cls):
        x, *states = tensors
        cls(4, 6).double()(x, (states if pair else states[0]) if states else None)

    return Probe(label, refusing(attempt), dict(zip(("x", "h", "c"), tensors, strict=False)))


class _Cell(nn.Module):
    """Both cells' bookkeeping, with PyTorch's LayerNorm."""

    ROWS, NORMS = 3, {"gates_ih": 2, "gates_hh": 2, "new_ih": 1, "new_hh": 1}

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.zeros(self.ROWS * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.zeros(self.ROWS * hidden_size, hidden_size))
        for name, width in self.NORMS.items():
            setattr(self, name, nn.LayerNorm(width * hidden_size))

    def check(self, x, *states):
        sizes = {tuple(state.shape) for state in states}
        if x.shape[-1] != self.input_size or sizes != {(*x.shape[:-1], self.hidden_size)}:
            raise RuntimeError("sizes")


class _GRU(_Cell):
    def from_input(self, x):
        gates, new = self.split(F.linear(x, self.weight_ih))
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)

    def split(self, rows):
        return rows[..., : 2 * self.hidden_size], rows[..., 2 * self.hidden_size :]

    def gates(self, x_gates, gates):
        return torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)

    def new(self, x_new, new, r, h):
        return torch.tanh(x_new + r * self.new_hh(new))

    def mix(self, z, n, h):
        return (1 - z) * n + z * h

    def step(self, part, h):
        x_gates, x_new = self.split(part)
        gates, new = self.split(F.linear(h, self.weight_hh))
        r, z = self.gates(x_gates, gates)
        return self.mix(z, self.new(x_new, new, r, h), h)

    def forward(self, x, h=None):
        h = x.new_zeros(*x.shape[:-1], self.hidden_size) if h is None else h
        self.check(x, h)
        return self.step(self.from_input(x), h)


def _gru(**parts):
    return type("Changed", (_GRU,), parts)


def _input(function):
    """Return a GRU cell whose from_input is function(cell, gates (..., 2H), new (..., H))."""
    return _gru(from_input=lambda self, x: function(self, *self.split(F.linear(x, self.weight_ih))))


def _other_split(self, x):
    rows, H = F.linear(x, self.weight_ih), self.hidden_size
    return torch.cat([self.gates_ih(rows[..., H:]), self.new_ih(rows[..., :H])], -1)


def _each_gate(self, row):
    return torch.cat([_layer_norm(gate) for gate in row.chunk(row.shape[-1] // self.hidden_size, -1)], -1)


_NAMES = "The names and sizes in __init__ were given: keep them."
_CELL_RIGHT = "{answer.__name__} does what it should (from_input, step, calls, gradients, refusals)"

_GRU_INPUT_MISTAKES = [
    Mistake(
        "nothing is normalized: gates_ih and new_ih belong on the products.",
        _input(lambda self, gates, new: torch.cat([gates, new], -1)),
    ),
    Mistake(
        "the candidate's part is not normalized: new_ih belongs on the last H columns.",
        _input(lambda self, gates, new: torch.cat([self.gates_ih(gates), new], -1)),
    ),
    Mistake(
        "the gates' part is not normalized: gates_ih belongs on the first 2H columns.",
        _input(lambda self, gates, new: torch.cat([gates, self.new_ih(new)], -1)),
    ),
    Mistake(
        "those are the norms of the state (gates_hh, new_hh). The input has its own: gates_ih, new_ih.",
        _input(lambda self, gates, new: torch.cat([self.gates_hh(gates), self.new_hh(new)], -1)),
    ),
    Mistake(
        "the candidate comes first in the result. The order is r, z, n, as in weight_ih: gates first.",
        _input(lambda self, gates, new: torch.cat([self.new_ih(new), self.gates_ih(gates)], -1)),
    ),
    Mistake(
        "the candidate's rows are taken for the gates'. The first 2H columns are r and z, the last H are n.",
        _gru(from_input=_other_split),
    ),
    Mistake(
        "gain and bias of the norms are not used: call self.gates_ih and self.new_ih.",
        _input(lambda self, gates, new: torch.cat([_layer_norm(gates), _layer_norm(new)], -1)),
    ),
    Mistake(
        "all 3H columns are normalized together. The two gates have one norm (2H), the candidate its own (H).",
        _input(lambda self, gates, new: _layer_norm(torch.cat([gates, new], -1))),
    ),
    Mistake(
        "all 3H columns are normalized together. The two gates have one norm (2H), the candidate its own (H).",
        _input(
            lambda self, gates, new: _layer_norm(
                torch.cat([gates, new], -1),
                torch.cat([self.gates_ih.weight, self.new_ih.weight]),
                torch.cat([self.gates_ih.bias, self.new_ih.bias]),
            )
        ),
    ),
    Mistake(
        "r and z are normalized each by itself. They share one norm, 2H wide.",
        _input(
            lambda self, gates, new: torch.cat(
                [_each_gate(self, gates) * self.gates_ih.weight + self.gates_ih.bias, self.new_ih(new)], -1
            )
        ),
    ),
    Mistake(
        "the sigmoid comes too early. from_input only projects and normalizes.",
        _input(lambda self, gates, new: torch.cat([torch.sigmoid(self.gates_ih(gates)), self.new_ih(new)], -1)),
    ),
    Mistake(
        "x itself is normalized, and not its products with weight_ih.",
        _gru(from_input=lambda self, x: F.linear(_layer_norm(x), self.weight_ih)),
    ),
    Mistake(
        "the two parts are returned as a pair. Join them: torch.cat([...], -1).",
        _input(lambda self, gates, new: (self.gates_ih(gates), self.new_ih(new))),
    ),
]

_GRU_STEP_MISTAKES = [
    Mistake(
        "z and 1 - z have changed places, as papers have it. PyTorch's form is (1 - z) * n + z * h.",
        _gru(mix=lambda self, z, n, h: (1 - z) * h + z * n),
    ),
    Mistake(
        "r and z have changed places: the first H columns are r.",
        _gru(gates=lambda self, x_gates, gates: _GRU.gates(self, x_gates, gates)[::-1]),
    ),
    Mistake(
        "r and z have changed places, and z and 1 - z as well. The order is r, z; then (1 - z) * n + z * h.",
        _gru(
            gates=lambda self, x_gates, gates: _GRU.gates(self, x_gates, gates)[::-1],
            mix=lambda self, z, n, h: (1 - z) * h + z * n,
        ),
    ),
    Mistake(
        "r multiplies h before the product with U_n. Here r comes behind the norm: r * new_hh(U_n h).",
        _gru(
            new=lambda self, x_new, new, r, h: torch.tanh(
                x_new + self.new_hh(F.linear(r * h, self.weight_hh[2 * self.hidden_size :]))
            )
        ),
    ),
    Mistake(
        "r is inside the norm. It multiplies what comes out of it: r * new_hh(U_n h).",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(x_new + self.new_hh(r * new))),
    ),
    Mistake(
        "r and 1 - r have changed places: n = tanh(x_new + r * new_hh(U_n h)).",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(x_new + (1 - r) * self.new_hh(new))),
    ),
    Mistake(
        "the candidate has a sigmoid. It is no gate: tanh.",
        _gru(new=lambda self, x_new, new, r, h: torch.sigmoid(x_new + r * self.new_hh(new))),
    ),
    Mistake(
        "there are two sigmoids in a gate. Add first, then one sigmoid of the sum.",
        _gru(
            gates=lambda self, x_gates, gates: (torch.sigmoid(x_gates) + torch.sigmoid(self.gates_hh(gates))).chunk(
                2, -1
            )
        ),
    ),
    Mistake(
        "r multiplies the input's part as well. It holds back the state alone.",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(r * (x_new + self.new_hh(new)))),
    ),
    Mistake(
        "r multiplies the input's part. It belongs on the state's.",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(r * x_new + self.new_hh(new))),
    ),
    Mistake(
        "r is not used: n = tanh(x_new + r * new_hh(...)).",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(x_new + self.new_hh(new))),
    ),
    Mistake(
        "the state's part of the candidate is not normalized: new_hh is missing.",
        _gru(new=lambda self, x_new, new, r, h: torch.tanh(x_new + r * new)),
    ),
    Mistake(
        "the state's part of the gates is not normalized: gates_hh is missing.",
        _gru(gates=lambda self, x_gates, gates: torch.sigmoid(x_gates + gates).chunk(2, -1)),
    ),
    Mistake(
        "nothing of the state is normalized: gates_hh and new_hh are missing.",
        _gru(
            gates=lambda self, x_gates, gates: torch.sigmoid(x_gates + gates).chunk(2, -1),
            new=lambda self, x_new, new, r, h: torch.tanh(x_new + r * new),
        ),
    ),
    Mistake(
        "the gates' norm is on the sum. gates_hh takes the state's part alone; the input's is normalized already.",
        _gru(gates=lambda self, x_gates, gates: torch.sigmoid(self.gates_hh(x_gates + gates)).chunk(2, -1)),
    ),
    Mistake(
        "the norms are on the sums. gates_hh and new_hh take the state's part alone.",
        _gru(
            gates=lambda self, x_gates, gates: torch.sigmoid(self.gates_hh(x_gates + gates)).chunk(2, -1),
            new=lambda self, x_new, new, r, h: torch.tanh(self.new_hh(x_new + r * new)),
        ),
    ),
    Mistake(
        "part is normalized a second time. from_input has done it.",
        _gru(
            gates=lambda self, x_gates, gates: torch.sigmoid(self.gates_ih(x_gates) + self.gates_hh(gates)).chunk(
                2, -1
            ),
            new=lambda self, x_new, new, r, h: torch.tanh(self.new_ih(x_new) + r * self.new_hh(new)),
        ),
    ),
    Mistake(
        "the norms of the input are on the state. The state has its own: gates_hh, new_hh.",
        _gru(
            gates=lambda self, x_gates, gates: torch.sigmoid(x_gates + self.gates_ih(gates)).chunk(2, -1),
            new=lambda self, x_new, new, r, h: torch.tanh(x_new + r * self.new_ih(new)),
        ),
    ),
    Mistake(
        "the gates have no sigmoid.",
        _gru(gates=lambda self, x_gates, gates: (x_gates + self.gates_hh(gates)).chunk(2, -1)),
    ),
    Mistake("the candidate has no tanh.", _gru(new=lambda self, x_new, new, r, h: x_new + r * self.new_hh(new))),
    Mistake(
        "the new state is normalized once more. Only the summed inputs are.",
        _gru(mix=lambda self, z, n, h: _layer_norm((1 - z) * n + z * h)),
    ),
    Mistake(
        "the candidate itself is returned. It is mixed with the old state: (1 - z) * n + z * h.",
        _gru(mix=lambda self, z, n, h: n),
    ),
]

_GRU_NAME_PROBES = [Probe("a new cell, (4, 6)", _names)]
_GRU_INPUT_PROBES = [_from_input((3, 4), 41), _from_input((2, 5, 4), 42)]
_GRU_STEP_PROBES = [
    _stepping((3,), 43, gates=3),
    _stepping((2, 5), 46, gates=3),
    _stepping((3,), 49, gates=3, dtype=torch.float32),  # products and norms of order 10 in float32
]
_GRU_CALL_PROBES = [
    _whole((3,), 52),
    _whole((), 55),
    _from_nothing(pair=False),
    _refused("x with 5 features for input_size 4", False, (3, 5), (3, 6)),
    _refused("a state for another batch", False, (3, 4), (2, 6)),
]


def gru_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: a GRU with four norms (lesson 10)."""
    stages = [
        (_GRU_NAME_PROBES, [Mistake(_NAMES, nn.GRUCell)]),
        (_GRU_INPUT_PROBES, _GRU_INPUT_MISTAKES),
        (_GRU_STEP_PROBES, _GRU_STEP_MISTAKES),
        (_GRU_CALL_PROBES, []),
    ]
    in_stages(answer, "gru_cell", stages, _GRU, _CELL_RIGHT)


class _LSTM(_Cell):
    ROWS, NORMS = 4, {"norm_ih": 4, "norm_hh": 4, "norm_c": 1}

    def from_input(self, x):
        return self.norm_ih(F.linear(x, self.weight_ih))

    def gates(self, part, rows):
        return (part + self.norm_hh(rows)).chunk(4, -1)

    def cell(self, i, f, g, c):
        return torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)

    def out(self, o, c, old):
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c

    def step(self, part, state):
        h, old = state
        i, f, g, o = self.gates(part, F.linear(h, self.weight_hh))
        return self.out(o, self.cell(i, f, g, old), old)

    def forward(self, x, state=None):
        state = (x.new_zeros(*x.shape[:-1], self.hidden_size),) * 2 if state is None else state
        self.check(x, *state)
        return self.step(self.from_input(x), state)


def _lstm(**parts):
    return type("Changed", (_LSTM,), parts)


def _ordered(*order):
    """Return `gates` with the four chunks in another order."""
    return lambda self, part, rows: [_LSTM.gates(self, part, rows)[k] for k in order]


_LSTM_INPUT_MISTAKES = [
    Mistake(
        "nothing is normalized: norm_ih belongs on the product.",
        _lstm(from_input=lambda self, x: F.linear(x, self.weight_ih)),
    ),
    Mistake(
        "that is the norm of the state. The input has its own: norm_ih.",
        _lstm(from_input=lambda self, x: self.norm_hh(F.linear(x, self.weight_ih))),
    ),
    Mistake(
        "gain and bias of the norm are not used: call self.norm_ih.",
        _lstm(from_input=lambda self, x: _layer_norm(F.linear(x, self.weight_ih))),
    ),
    Mistake(
        "each gate is normalized by itself. All four share one norm, 4H wide.",
        _lstm(
            from_input=lambda self, x: (
                _each_gate(self, F.linear(x, self.weight_ih)) * self.norm_ih.weight + self.norm_ih.bias
            )
        ),
    ),
    Mistake(
        "x itself is normalized, and not its product with weight_ih.",
        _lstm(from_input=lambda self, x: F.linear(_layer_norm(x), self.weight_ih)),
    ),
]

_LSTM_STEP_MISTAKES = [
    Mistake(
        "the normalized c is returned and carried. In the paper c goes on as it is; only the way out has norm_c.",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * torch.tanh(self.norm_c(c)), self.norm_c(c))),
    ),
    Mistake(
        "the old c is normalized before the forget gate. norm_c is on the way out, before the last tanh.",
        _lstm(
            cell=lambda self, i, f, g, c: _LSTM.cell(self, i, f, g, self.norm_c(c)),
            out=lambda self, o, c, old: (torch.sigmoid(o) * torch.tanh(c), c),
        ),
    ),
    Mistake(
        "norm_c is missing: h = sigmoid(o) * tanh(norm_c(c)).",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * torch.tanh(c), c)),
    ),
    Mistake(
        "norm_c comes behind the tanh. Before it: tanh(norm_c(c)).",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * self.norm_c(torch.tanh(c)), c)),
    ),
    Mistake(
        "h comes from the old c. Compute the new c first.",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * torch.tanh(self.norm_c(old)), c)),
    ),
    Mistake(
        "the last tanh is missing: h = sigmoid(o) * tanh(norm_c(c)).",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * self.norm_c(c), c)),
    ),
    Mistake(
        "the pair is swapped: return h first, then c.",
        _lstm(out=lambda self, o, c, old: _LSTM.out(self, o, c, old)[::-1]),
    ),
    Mistake(
        "c is not returned. The next step needs both: return h, c.",
        _lstm(out=lambda self, o, c, old: _LSTM.out(self, o, c, old)[0]),
    ),
    Mistake(
        "the order of the gates is f, i, o, g, as the paper writes it. PyTorch's is i, f, g, o.",
        _lstm(gates=_ordered(1, 0, 3, 2)),
    ),
    Mistake("i and f have changed places. The order is i, f, g, o.", _lstm(gates=_ordered(1, 0, 2, 3))),
    Mistake("g and o have changed places. The order is i, f, g, o.", _lstm(gates=_ordered(0, 1, 3, 2))),
    Mistake(
        "the state's part is not normalized: norm_hh is missing.",
        _lstm(gates=lambda self, part, rows: (part + rows).chunk(4, -1)),
    ),
    Mistake(
        "the norm is on the sum. norm_hh takes the state's part alone; the input's is normalized already.",
        _lstm(gates=lambda self, part, rows: self.norm_hh(part + rows).chunk(4, -1)),
    ),
    Mistake(
        "part is normalized a second time. from_input has done it.",
        _lstm(gates=lambda self, part, rows: (self.norm_ih(part) + self.norm_hh(rows)).chunk(4, -1)),
    ),
    Mistake(
        "the input's norm is on the state. The state has its own: norm_hh.",
        _lstm(gates=lambda self, part, rows: (part + self.norm_ih(rows)).chunk(4, -1)),
    ),
    Mistake(
        "gain and bias of norm_hh are not used: call it.",
        _lstm(gates=lambda self, part, rows: (part + _layer_norm(rows)).chunk(4, -1)),
    ),
    Mistake(
        "each gate is normalized by itself. All four share one norm, 4H wide: normalize first, chunk afterwards.",
        _lstm(
            gates=lambda self, part, rows: (
                part + _each_gate(self, rows) * self.norm_hh.weight + self.norm_hh.bias
            ).chunk(4, -1)
        ),
    ),
    Mistake("g has no tanh.", _lstm(cell=lambda self, i, f, g, c: torch.sigmoid(f) * c + torch.sigmoid(i) * g)),
    Mistake(
        "g has a sigmoid. It is no gate, but what is written: tanh(g).",
        _lstm(cell=lambda self, i, f, g, c: torch.sigmoid(f) * c + torch.sigmoid(i) * torch.sigmoid(g)),
    ),
    Mistake(
        "the gates have no sigmoid.",
        _lstm(
            cell=lambda self, i, f, g, c: f * c + i * torch.tanh(g),
            out=lambda self, o, c, old: (o * torch.tanh(self.norm_c(c)), c),
        ),
    ),
    Mistake(
        "1 is added to f in every step. The forget gate's 1 is in the bias already, where it is learned.",
        _lstm(cell=lambda self, i, f, g, c: _LSTM.cell(self, i, f + 1, g, c)),
    ),
    Mistake(
        "the input gate is 1 - sigmoid(f). It has rows of its own: sigmoid(i).",
        _lstm(cell=lambda self, i, f, g, c: torch.sigmoid(f) * c + (1 - torch.sigmoid(f)) * torch.tanh(g)),
    ),
    Mistake(
        "norm_c is on h. It is inside the last tanh: sigmoid(o) * tanh(norm_c(c)).",
        _lstm(out=lambda self, o, c, old: (self.norm_c(torch.sigmoid(o) * torch.tanh(c)), c)),
    ),
    Mistake(
        "the old c is returned. The next step needs the new one.",
        _lstm(out=lambda self, o, c, old: (torch.sigmoid(o) * torch.tanh(self.norm_c(c)), old)),
    ),
    Mistake(
        "the forget gate is 1 - sigmoid(i). It has rows of its own: sigmoid(f).",
        _lstm(cell=lambda self, i, f, g, c: (1 - torch.sigmoid(i)) * c + torch.sigmoid(i) * torch.tanh(g)),
    ),
]

_LSTM_INPUT_PROBES = [_from_input((3, 4), 61), _from_input((2, 5, 4), 62)]
_LSTM_STEP_PROBES = [
    _stepping((3,), 63, gates=4, pair=True),
    _stepping((2, 5), 66, gates=4, pair=True),
    _stepping((3,), 69, gates=4, pair=True, dtype=torch.float32),  # products and norms of order 10 in float32
]
_LSTM_CALL_PROBES = [
    _whole((3,), 72, pair=True),
    _whole((), 75, pair=True),
    _from_nothing(pair=True),
    _refused("x with 5 features for input_size 4", True, (3, 5), (3, 6), (3, 6)),
    _refused("a c for another batch", True, (3, 4), (3, 6), (2, 6)),
]


def lstm_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: an LSTM with three norms (lesson 10)."""
    stages = [
        (_GRU_NAME_PROBES, [Mistake(_NAMES, nn.LSTMCell)]),
        (_LSTM_INPUT_PROBES, _LSTM_INPUT_MISTAKES),
        (_LSTM_STEP_PROBES, _LSTM_STEP_MISTAKES),
        (_LSTM_CALL_PROBES, []),
    ]
    in_stages(answer, "lstm_cell", stages, _LSTM, _CELL_RIGHT)


# ------------------------------------------------------------------------------------ 10.5: masks


def _masked(keep=lambda t, lengths: (t < lengths)[:, None], update=torch.where, read=lambda x, alive: x):
    """Return a last_states. keep: which rows go on at t. update: (alive, new, old) -> h. read: (x_t, alive) -> x_t."""

    def answer(cell, x, lengths):
        h = x.new_zeros(len(x), cell.hidden_size)
        for t in range(x.shape[1]):
            alive = keep(t, lengths)
            h = update(alive, cell(read(x[:, t], alive), h), h)
        return h

    return answer


def _all_states(cell, x):
    h, states = x.new_zeros(len(x), cell.hidden_size), []
    for x_t in x.unbind(1):
        h = cell(x_t, h)
        states.append(h)
    return torch.stack(states, 1)


def _taken(shift):
    return lambda cell, x, lengths: _all_states(cell, x)[torch.arange(len(x)), lengths + shift]


def _averaged(cell, x, lengths):
    states = _all_states(cell, x)
    alive = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    return (states * alive).sum(1) / lengths[:, None]


def _to_the_shortest(cell, x, lengths):
    return _all_states(cell, x[:, : int(lengths.min())])[:, -1]


def _only_the_last_input(cell, x, lengths):
    return cell(x[torch.arange(len(x)), lengths - 1], x.new_zeros(len(x), cell.hidden_size))


def _sequences(label, B, T, H, lengths, seed):
    x, lengths = draw(seed, B, T, 3), torch.tensor(lengths)
    padding = (torch.arange(T) >= lengths[:, None])[..., None]  # (B, T, 1)
    x = torch.where(padding, 5 + 3 * draw(seed + 1, B, T, 3), x)  # padding that shows, and is no zero

    def run(answer):
        cell, leaf = _fill(nn.GRUCell(3, H)), x.clone().requires_grad_()
        given = leaf.clone()
        out = answer(cell, given, lengths.clone())
        return {"x after the call": given.detach()} | _with_gradients({"the states": out}, {"x": leaf})

    return Probe(label, run, {"lengths": str(lengths.tolist()), "x": x})


_MASK_PROBES = [
    _sequences("4 sequences of 6, 2, 5 and 1 steps, padded to 6", 4, 6, 5, [6, 2, 5, 1], 101),
    _sequences("5 sequences of 5 units", 5, 4, 5, [2, 4, 3, 1, 4], 111),
    _sequences("a batch that is padded further than its longest sequence", 3, 7, 4, [3, 5, 4], 121),
]

_MASK_MISTAKES = [
    Mistake(
        "the loop goes on through the padding. A sequence that has ended must keep its state.",
        lambda cell, x, lengths: _all_states(cell, x)[:, -1],
    ),
    Mistake(
        "one step too many: step t (from 0) belongs to a sequence while t < length.",
        _masked(keep=lambda t, lengths: (t <= lengths)[:, None]),
    ),
    Mistake(
        "one step too few: the last step is number length - 1, so t < length.",
        _masked(keep=lambda t, lengths: (t < lengths - 1)[:, None]),
    ),
    Mistake(
        "the state is set to zero where a sequence has ended. It must keep its last one: torch.where(alive, new, h).",
        _masked(update=lambda alive, new, old: new * alive),
    ),
    Mistake(
        "the choice is the wrong way round: the new state while the sequence lives, the old one afterwards.",
        _masked(update=lambda alive, new, old: torch.where(alive, old, new)),
    ),
    Mistake(
        "the padding is set to zero, but the loop goes on: zeros are an input, too. Keep the state.",
        _masked(update=lambda alive, new, old: new, read=lambda x, alive: x * alive),
    ),
    Mistake(
        "the mask has the shape (B,) and meets (B, H): make it (B, 1), with [:, None].",
        _masked(keep=lambda t, lengths: t < lengths),
    ),
    Mistake("the states at index length are taken. The last step is number length - 1.", _taken(0)),
    Mistake("the states before the last step are taken. The last step is number length - 1.", _taken(-2)),
    Mistake("the states of a sequence are averaged. Wanted is the last one.", _averaged),
    Mistake("all sequences stop at the end of the shortest.", _to_the_shortest),
    Mistake("only the last input is read, from a state of zeros. Run all the steps up to it.", _only_the_last_input),
    Mistake(
        "the states come in the order of the lengths. Put them back into the order of x.",
        lambda cell, x, lengths: _masked()(cell, x, lengths)[lengths.argsort(descending=True)],
    ),
    Mistake(
        "the sequences start at their ends: the mask marks the padding.",
        _masked(keep=lambda t, lengths: (t >= lengths)[:, None]),
    ),
]


def last_states(answer):
    """Check a function (cell, x, lengths) -> the state of each sequence after its own last step, (B, H) (lesson 10)."""
    examine(
        answer,
        "last_states",
        _MASK_PROBES,
        _masked(),
        _MASK_MISTAKES,
        tried="three batches with loud padding, gradients",
    )


# ------------------------------------------------------------------------------------ 10.6: the clinic


class _Tagger(nn.Module):
    """A right MendedTagger; the mistakes below change its parts."""

    OPTIONS, NORM = {"batch_first": True}, staticmethod(lambda input_size, hidden_size: nn.LayerNorm(hidden_size))

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, **self.OPTIONS)
        self.norm = self.NORM(input_size, hidden_size)

    def forward(self, x):
        return self.norm(self.rnn(x)[0])


def _over_time(self, x):
    states = self.rnn(x)[0]
    return F.layer_norm(states, states.shape[1:]) * self.norm.weight + self.norm.bias


class _WithSteps(nn.Module):
    def __init__(self, input_size, hidden_size, steps):
        super().__init__()


def _tagger(**parts):
    return type("Changed", (_Tagger,), parts)


def _tag_names(cls):
    try:
        tagger = cls(3, 6)
    except TypeError as error:
        return {"MendedTagger(3, 6)": raised(error)}
    shapes = {name: tuple(p.shape) for name, p in tagger.named_parameters() if not name.startswith("rnn.")}
    kinds = {name: type(getattr(tagger, name, None)).__name__ for name in ("rnn", "norm")}
    return {"the layers": kinds, "the parameters besides rnn's": shapes}


def _tag(shape, seed):
    x = draw(seed, *shape)

    def run(cls):
        leaf = x.clone().requires_grad_()
        return _with_gradients({"the scores": _fill(cls(3, 6))(leaf)}, {"x": leaf})

    return Probe(f"x of shape {shape}", run, {"x": x})


_TAG_NAME_PROBES = [Probe("a new tagger, (3, 6)", _tag_names)]
_TAG_PROBES = [_tag((4, 5, 3), 131), _tag((2, 7, 3), 132), _tag((3, 3, 3), 133), _tag((1, 1, 3), 134)]

_TAG_NAME_MISTAKES = [
    Mistake(
        "the tagger still needs the number of steps. It takes (input_size, hidden_size), and any length.", _WithSteps
    ),
    Mistake(
        "the norm has the width of the input. It normalizes what comes out of the GRU: nn.LayerNorm(hidden_size).",
        _tagger(NORM=staticmethod(lambda input_size, hidden_size: nn.LayerNorm(input_size))),
    ),
]

_TAG_MISTAKES = [
    Mistake(
        "still to mend: the GRU reads (T, B, I), so the state wanders from sample to sample. Write batch_first=True.",
        _tagger(OPTIONS={}),
    ),
    Mistake(
        "still to mend: the norm takes its mean over the steps too, so the future is in the past. Last axis only.",
        _tagger(forward=_over_time),
    ),
    Mistake(
        "still to mend: batch_first=True is missing, and the norm takes its mean over the steps.",
        _tagger(OPTIONS={}, forward=_over_time),
    ),
    Mistake(
        "the output is not normalized any more. Keep self.norm on what the GRU gives.",
        _tagger(forward=lambda self, x: self.rnn(x)[0]),
    ),
    Mistake(
        "the result has the steps first. Transpose it back, or use batch_first=True.",
        _tagger(OPTIONS={}, forward=lambda self, x: self.norm(self.rnn(x.transpose(0, 1))[0])),
    ),
    Mistake(
        "reshape and view do not exchange two axes. Use transpose(0, 1), or batch_first=True.",
        _tagger(
            OPTIONS={},
            forward=lambda self, x: self.norm(self.rnn(x.reshape(x.shape[1], x.shape[0], x.shape[2]))[0]).reshape(
                *x.shape[:2], -1
            ),
        ),
    ),
    Mistake(
        "only the last state is returned. Every step gets its scores.",
        _tagger(forward=lambda self, x: self.norm(self.rnn(x)[0][:, -1])),
    ),
    Mistake(
        "nn.GRU returns a pair, the states of all steps and the last one. Take the first: self.rnn(x)[0].",
        _tagger(forward=lambda self, x: self.norm(self.rnn(x)[1])),
    ),
    Mistake(
        "nn.GRU returns a pair, the states of all steps and the last one. Take the first: self.rnn(x)[0].",
        _tagger(forward=lambda self, x: self.norm(self.rnn(x))),
    ),
    Mistake(
        "the scores are normalized over the batch. Each step of each sequence is normalized by itself, over H.",
        _tagger(
            forward=lambda self, x: (
                _layer_norm(self.rnn(x)[0].transpose(0, 2)).transpose(0, 2) * self.norm.weight + self.norm.bias
            )
        ),
    ),
]


def mended_tagger(answer):
    """Check a class (input_size, hidden_size): a GRU read batch first, and a LayerNorm over its H features (lesson 10)."""
    stages = [(_TAG_NAME_PROBES, _TAG_NAME_MISTAKES), (_TAG_PROBES, _TAG_MISTAKES)]
    in_stages(
        answer,
        "mended_tagger",
        stages,
        _Tagger,
        "{answer.__name__} keeps samples and steps apart (values, gradients, several lengths)",
    )

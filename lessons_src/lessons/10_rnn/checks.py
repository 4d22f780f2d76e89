"""Checks of lesson 10."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.rnn import LayerNormGRUCell as _GRU
from fromscratch.rnn import LayerNormLSTMCell as _LSTM
from lessonkit.check.declare import (
    Probe,
    call,
    call_layer,
    draw,
    exercise,
    filled,
    in_float64,
    of_a_layer,
    quiz,
)

# ---- one step


def _layer_norm(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


def _step(x, h, W, U, weight, bias):
    a = x @ W.T + h @ U.T
    normed = _layer_norm(a, weight, bias)
    return torch.tanh(normed)


_SHAPES = [(3, 4), (3, 5), (5, 4), (5, 5), (5,), (5,)]
normed_step = exercise(
    _step,
    ("3 rows, 4 inputs, 5 units", *[draw(n, *shape) for n, shape in enumerate(_SHAPES, 1)]),
    takes={"x": "B I", "h": "B H", "W": "H I", "U": "H H", "weight": "H", "bias": "H"},
    sizes={"B": (3, 1, 17), "I": (4, 1, 9), "H": (5, 2, 60)},
    values=("ordinary",),
    reference=in_float64(_step),
    says="{answer.__name__} does what it should (many sizes, two number types, gradients)",
    wrong="""
    # the norm comes after the tanh. The summed input is normalized.
    return _layer_norm(torch.tanh(a), weight, bias)

    # the old state is normalized, and not the summed input W x + U h.
    normed = x @ W.T + _layer_norm(h, weight, bias) @ U.T

    # only U h is normalized. The norm goes on the sum W x + U h.
    normed = x @ W.T + _layer_norm(h @ U.T, weight, bias)

    # only W x is normalized. The norm goes on the sum W x + U h.
    normed = _layer_norm(x @ W.T, weight, bias) + h @ U.T

    # the two parts are normalized separately. Here the norm goes on their sum.
    normed = _layer_norm(x @ W.T, weight, bias) + _layer_norm(h @ U.T, weight, bias)
    # or
    normed = _layer_norm(x @ W.T) + _layer_norm(h @ U.T, weight, bias)
    # or
    normed = _layer_norm(x @ W.T, weight, bias) + _layer_norm(h @ U.T)
    # or
    normed = (_layer_norm(x @ W.T) + _layer_norm(h @ U.T)) * weight + bias

    # there is no tanh.
    return normed

    # gain and bias come after the tanh. They belong to the norm, before it.
    return torch.tanh(_layer_norm(a)) * weight + bias

    # nothing is normalized: this is the plain step, with gain and bias.
    normed = a * weight + bias

    # gain and bias are not used.
    normed = _layer_norm(a)

    # each unit is normalized over the rows. Each row takes its own statistics, over its H units.
    normed = _layer_norm(a.T).T * weight + bias

    # the statistics are taken over the whole batch, and not over the H units of a row. | The sizes are a.shape[-1:].
    normed = F.layer_norm(a, a.shape) * weight + bias

    # the variance divides by H - 1. LayerNorm divides by H. | correction=0.
    normed = (a - a.mean(-1, keepdim=True)) / torch.sqrt(a.var(-1, keepdim=True) + 1e-5) * weight + bias

    # eps is not under the root. It is added to the variance. | torch.sqrt(var + 1e-5).
    normed = (a - a.mean(-1, keepdim=True)) / (a.std(-1, correction=0, keepdim=True) + 1e-5) * weight + bias
    # or
    normed = (a - a.mean(-1, keepdim=True)) / a.std(-1, correction=0, keepdim=True) * weight + bias

    # U is not transposed. | The product is h @ U.T.
    a = x @ W.T + h @ U
    """,
)

# ---- cells


class _Apart(nn.Module):
    """An LSTM cell that takes h and c apart, and gives both in one tensor: a layer as all others."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h=None, c=None):
        state = None if h is None else (h, c)
        return torch.cat(self.cell(x, state))

    def step(self, part, h, c):
        return self.cell.step(part, (h, c))


def _new_cell(cls):
    parameters = sorted(cls(4, 6).named_parameters())
    shapes = {"the parameters": {name: tuple(p.shape) for name, p in parameters}}
    return shapes | {
        f"{name} at the start": p.detach().view(-1, 6)
        for name, p in parameters
        if name.endswith("bias")
    }


_GIVEN = "__init__ was given: keep the names, sizes and values that it makes."


def _cell(right, gates, state, wrong, wrap=lambda cell: cell):
    """Return the check of a cell with so many rows of H. state: its tensors' names. wrap: what makes it a layer."""
    make = lambda cls: wrap(cls(4, 6))
    part, x, *tensors = (
        draw(n, 3, size) for n, size in enumerate((6 * gates, 4, *(6 for _ in state)))
    )

    def on(label, use, *inputs, **names):
        """A call of use(a cell with random parameters)."""
        probe = call(label, *inputs, **names)
        return replace(probe, run=lambda cls: probe.run(use(filled(make(cls).double(), 21))))

    step = on(
        f"step with {' and '.join(state)} of shape (3, 6)",
        lambda cell: cell.step,
        part,
        *tensors,
        names=("part", *state),
        returns=state if len(state) == 2 else ("the new state",),
    )
    alone = on("a call with x of shape (4,), without a state", lambda cell: cell, x[0])
    return exercise(
        right,
        [Probe("a new cell, (4, 6)", _new_cell, why=_GIVEN)],
        ([step], "step"),
        [alone, *of_a_layer(make, x, *tensors)],
        takes={"x": "B 5"} | dict.fromkeys(state, "B 9"),
        use=lambda cls, sizes: wrap(cls(5, 9)),
        sizes={"B": (3, 1, 17)},
        values=("ordinary",),
        gradient=1,
        says="{answer.__name__} does what it should (parameters, step, calls, gradients)",
        wrong=wrong,
    )


gru_cell = _cell(
    _GRU,
    3,
    ("h",),
    """
    # z and 1 - z have changed places, as papers have it. PyTorch's form is (1 - z) * n + z * h.
    def step(self, part, h):
        return (1 - z) * h + z * n

    # z holds back nothing: the old state is left out. | (1 - z) * n + z * h.
    def step(self, part, h):
        return (1 - z) * n

    # r and z have changed places. The order is r, z, n.
    def step(self, part, h):
        n = torch.tanh(x_new + z * self.new_hh(new))
        return (1 - r) * n + r * h

    # r multiplies h before U does, as in the paper of 2014. PyTorch multiplies what U_n h gives. | r * new_hh(U_n h).
    def step(self, part, h):
        n = torch.tanh(x_new + self.new_hh(F.linear(r * h, self.weight_hh[2 * self.hidden_size :])))

    # r is inside the norm. It multiplies what comes out of it. | r * new_hh(U_n h).
    n = torch.tanh(x_new + self.new_hh(r * new))

    # r is outside the tanh. It holds back the state's part, inside. | tanh(x_new + r * new_hh(...)).
    n = r * torch.tanh(x_new + self.new_hh(new))

    # r multiplies the input's part as well. It holds back the state's alone.
    n = torch.tanh(r * (x_new + self.new_hh(new)))

    # r multiplies the input's part. It belongs on the state's.
    n = torch.tanh(r * x_new + self.new_hh(new))

    # r is not used: n = tanh(x_new + r * new_hh(...)).
    n = torch.tanh(x_new + self.new_hh(new))

    # the candidate has a sigmoid. It is no gate. | tanh.
    n = torch.sigmoid(x_new + r * self.new_hh(new))

    # the candidate has no tanh.
    n = x_new + r * self.new_hh(new)

    # the state's part of the candidate is not normalized: new_hh is missing.
    n = torch.tanh(x_new + r * new)

    # the norm is on the sum. new_hh takes the state's part alone; the input's is normalized already.
    n = torch.tanh(self.new_hh(x_new + r * new))

    # part is normalized a second time. from_input has done it.
    n = torch.tanh(self.new_ih(x_new) + r * self.new_hh(new))

    # the norm of the input is on the state. The state has its own: new_hh.
    n = torch.tanh(x_new + r * self.new_ih(new))
    """,
)

lstm_cell = _cell(
    _LSTM,
    4,
    ("h", "c"),
    """
    # each gate is normalized by itself. All four share one norm, 4H wide.
    rows = part + F.layer_norm(F.linear(h, self.weight_hh).unflatten(-1, (4, -1)), h.shape[-1:]).flatten(-2) * self.norm_hh.weight + self.norm_hh.bias

    # the normalized c is returned and carried. c goes on as it is; only the way out has norm_c.
    def step(self, part, state):
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), self.norm_c(c)

    # the old c is normalized before the forget gate. norm_c is on the way out, before the last tanh.
    def step(self, part, state):
        c = torch.sigmoid(f) * self.norm_c(c) + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    # norm_c is missing: h = sigmoid(o) * tanh(norm_c(c)).
    def step(self, part, state):
        return torch.sigmoid(o) * torch.tanh(c), c

    # norm_c comes after the tanh. | Put it before: tanh(norm_c(c)).
    def step(self, part, state):
        return torch.sigmoid(o) * self.norm_c(torch.tanh(c)), c

    # h comes from the old c. | Compute the new c first.
    def step(self, part, state):
        return torch.sigmoid(o) * torch.tanh(self.norm_c(state[1])), c

    # the last tanh is missing: h = sigmoid(o) * tanh(norm_c(c)).
    def step(self, part, state):
        return torch.sigmoid(o) * self.norm_c(c), c

    # the output gate o is not used: h = sigmoid(o) * tanh(norm_c(c)).
    def step(self, part, state):
        return torch.tanh(self.norm_c(c)), c

    # norm_c is on h. It is inside the last tanh. | sigmoid(o) * tanh(norm_c(c)).
    def step(self, part, state):
        return self.norm_c(torch.sigmoid(o) * torch.tanh(c)), c

    # state is (h, c), and h and c have changed places. | h, c = state.
    def step(self, part, state):
        c, h = state

    # c is not returned. The next step needs both. | return h, c.
    def step(self, part, state):
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c))

    # the old c is returned. The next step needs the new one.
    def step(self, part, state):
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), state[1]

    # the order of the gates is f, i, o, g, as the paper writes it. PyTorch's is i, f, g, o.
    f, i, o, g = rows.chunk(4, -1)

    # i and f have changed places: f multiplies the old c, i what is written. | The order is i, f, g, o.
    f, i, g, o = rows.chunk(4, -1)

    # g and o have changed places. The order is i, f, g, o.
    i, f, o, g = rows.chunk(4, -1)

    # the state's part is not normalized: norm_hh is missing.
    rows = part + F.linear(h, self.weight_hh)

    # the norm is on the sum. norm_hh takes the state's part alone; the input's is normalized already.
    rows = self.norm_hh(part + F.linear(h, self.weight_hh))

    # part is normalized a second time. from_input has done it.
    rows = self.norm_ih(part) + self.norm_hh(F.linear(h, self.weight_hh))

    # the input's norm is on the state. The state has its own: norm_hh.
    rows = part + self.norm_ih(F.linear(h, self.weight_hh))

    # g has a sigmoid. It is no gate. | tanh.
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.sigmoid(g)

    # g has no tanh.
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * g

    # a gate has no sigmoid. The gates are i, f and o.
    def step(self, part, state):
        return o * torch.tanh(self.norm_c(c)), c
    # or
    def step(self, part, state):
        c = f * c + i * torch.tanh(g)
        return o * torch.tanh(self.norm_c(c)), c

    # 1 is added to f in every step. The forget gate's 1 is in the bias already, where it is learned.
    c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
    """,
    _Apart,
)

# ---- the gradient of one step, on paper

_NORM_ALONE = (
    "That is the norm alone. The gradient goes through U as well, which multiplies by s."
)
back_one_step = quiz(
    tolerance=0.005,
    on_sum=(
        5 / 13,
        {
            5 / 17: "The deviations do not add, their squares do: 5² + 12² is 13².",
            5
            / 145
            ** 0.5: "1 is the deviation of the state. U multiplies it by s, so that of U h is 5.",
            5 / 12: "That divides by the deviation of W x. The norm sees the sum, W x + U h.",
            1 / 13: _NORM_ALONE,
            5
            / 169: "That divides by the variance of the sum. The norm divides by its deviation.",
            12 / 13: "The gradient goes back through U h, and not through W x.",
        },
    ),
    no_input=(
        1,
        {
            0: "The gradient does not go through W x. The norm divides by the deviation of U h alone.",
            1 / 5: _NORM_ALONE,
        },
    ),
    each_part=(
        2,
        {
            1: "The norm of U h takes s away. Its gain multiplies afterwards.",
            10: "The norm of U h divides by its deviation, which is 5. Then the gain multiplies.",
            10 / 13: "This norm sees U h alone, whose deviation is 5.",
            2 / 5: "That forgets U, which multiplies by s.",
        },
    ),
)

# ---- the clinic


class _Tagger(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, x):
        states = self.rnn(x)[0]
        return self.norm(states)


def _layers(cls):
    tagger = cls(3, 7)  # not the example's 6, which an answer may have written down
    shapes = {
        name: tuple(p.shape)
        for name, p in tagger.named_parameters()
        if not name.startswith("rnn.")
    }
    kinds = {name: type(getattr(tagger, name, None)).__name__ for name in ("rnn", "norm")}
    return {
        "the layers": kinds,
        "the parameters besides rnn's": shapes,
        "eps": getattr(tagger.norm, "eps", None),
    }


_tagger = lambda cls: cls(3, 6)
mended_tagger = exercise(
    _Tagger,
    ([Probe("a new tagger, (3, 7)", _layers)], "the layers"),
    ([call_layer("x of shape (4, 5, 3)", _tagger, draw(131, 4, 5, 3), {})], "forward"),
    of_a_layer(_tagger, draw(141, 4, 5, 3)),
    takes={"x": "B T 2"},
    use=lambda cls, sizes: cls(2, 9),
    sizes={"B": (4, 1, 17), "T": (5, 1, 30)},
    values=("ordinary", "small"),
    gradient=1,
    says="{answer.__name__} keeps samples and steps apart (values, gradients, several lengths)",
    wrong="""
    # the tagger still needs the number of steps. | It takes any.
    def __init__(self, input_size, hidden_size, steps):
        ...

    # the gains still have one row for each step, and the norm looks along time. | nn.LayerNorm(hidden_size).
    self.norm = nn.LayerNorm([5, hidden_size])

    # the norm is 2H wide. A bidirectional GRU would fit it, but that looks ahead.
    self.rnn = nn.GRU(input_size, hidden_size, bidirectional=True, batch_first=True)
    self.norm = nn.LayerNorm(2 * hidden_size)

    # the norm has the width of the input. It normalizes what comes out of the GRU. | nn.LayerNorm(hidden_size).
    self.norm = nn.LayerNorm(input_size)

    # the norm has no gain and bias. | Leave elementwise_affine as it is.
    self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False)

    # that is BatchNorm: its statistics mix the samples. | Asked is nn.LayerNorm(hidden_size).
    self.norm = nn.BatchNorm1d(hidden_size)

    # still to mend: the GRU reads (T, B, I), so the state wanders from sample to sample. | Write batch_first=True.
    self.rnn = nn.GRU(input_size, hidden_size)

    # still to mend: the norm takes its mean over the steps too, so the future is in the past. | Last axis only.
    return F.layer_norm(states, states.shape[1:]) * self.norm.weight + self.norm.bias
    # or
    return F.layer_norm(states, states.shape[1:])

    # the result has the steps first. | Transpose it back, or use batch_first=True.
    self.rnn = nn.GRU(input_size, hidden_size)
    states = self.rnn(x.transpose(0, 1))[0]

    # reshape and view do not exchange two axes. | Use transpose(0, 1), or batch_first=True.
    self.rnn = nn.GRU(input_size, hidden_size)
    states = self.rnn(x.reshape(x.shape[1], x.shape[0], -1))[0].reshape(*x.shape[:2], -1)

    # only the last state is returned. Every step gets its scores.
    states = self.rnn(x)[0][:, -1]

    # nn.GRU returns a pair, the states of all steps and the last one. | Take the first: self.rnn(x)[0].
    states = self.rnn(x)[1]
    # or
    states = self.rnn(x)
    """,
)

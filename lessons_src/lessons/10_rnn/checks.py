"""Checks of lesson 10: LayerNorm inside recurrent cells, a tagger that read ahead."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNormGRUCell, LayerNormLSTMCell
from lessonkit.check.declare import (
    Contract,
    Probe,
    call,
    call_layer,
    draw,
    examine,
    filled,
    in_float64,
    misconceptions,
    of_a_layer,
    raised,
    refusing,
    values,
)


def _layer_norm(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


# ---- one step
def _step(x, h, W, U, weight, bias):
    a = x @ W.T + h @ U.T
    normed = _layer_norm(a, weight, bias)
    return torch.tanh(normed)


def _inputs(label, B, I, H, seed, scale=1.0):  # noqa: E741
    shapes = {"x": (B, I), "h": (B, H), "W": (H, I), "U": (H, H), "weight": (H,), "bias": (H,)}
    x, h, *others = (draw(seed + n, *shape) for n, shape in enumerate(shapes.values()))
    return call(label, scale * x, scale * h, *others, names=tuple(shapes))


_STEP_PROBES = [
    _inputs("3 rows, 4 inputs, 5 units", 3, 4, 5, 1),
    _inputs("5 rows, 5 inputs, 5 units", 5, 5, 5, 11),
    _inputs("summed inputs of spread 0.002", 2, 3, 6, 21, scale=1e-3),
]
_STEP_CONTRACT = Contract(
    {"x": "B I", "h": "B H", "W": "H I", "U": "H H", "weight": "H", "bias": "H"},
    sizes={"B": (3, 1, 17), "I": (4, 1, 9), "H": (5, 2, 60)},
    values=("ordinary",),
)

_STEP_MISTAKES = misconceptions(
    _step,
    """
    # the norm comes after the tanh. The summed input is normalized, and the tanh comes last.
    return _layer_norm(torch.tanh(a), weight, bias)

    # the old state is normalized, and not the summed input W x + U h.
    normed = x @ W.T + _layer_norm(h, weight, bias) @ U.T

    # only U h is normalized. The norm goes on the sum W x + U h.
    normed = x @ W.T + _layer_norm(h @ U.T, weight, bias)

    # only W x is normalized. The norm goes on the sum W x + U h.
    normed = _layer_norm(x @ W.T, weight, bias) + h @ U.T

    # the two parts are normalized separately. That comes later; here the norm goes on their sum.
    normed = _layer_norm(x @ W.T, weight, bias) + _layer_norm(h @ U.T, weight, bias)

    # there is no tanh.
    return normed

    # gain and bias come after the tanh. They belong to the norm, before it.
    return torch.tanh(_layer_norm(a)) * weight + bias

    # nothing is normalized: this is the plain step, with gain and bias.
    normed = a * weight + bias

    # gain and bias are not used.
    normed = _layer_norm(a)

    # the bias is not used.
    normed = _layer_norm(a, weight)

    # the batch is normalized: each unit over the rows. Each row takes its own statistics, over its H units.
    normed = _layer_norm(a.T).T * weight + bias

    # the statistics are taken over the whole batch. Each row takes its own, over its H units. | The sizes are a.shape[-1:].
    normed = F.layer_norm(a, a.shape) * weight + bias

    # the variance divides by H - 1. LayerNorm divides by H. | correction=0.
    normed = (a - a.mean(-1, keepdim=True)) / torch.sqrt(a.var(-1, keepdim=True) + 1e-5) * weight + bias

    # eps is not under the root. It is added to the variance. | torch.sqrt(var + 1e-5).
    normed = (a - a.mean(-1, keepdim=True)) / (a.std(-1, correction=0, keepdim=True) + 1e-5) * weight + bias
    # or
    normed = (a - a.mean(-1, keepdim=True)) / a.std(-1, correction=0, keepdim=True) * weight + bias

    # W and U are not transposed. They have a row for each unit. | The products are x @ W.T and h @ U.T.
    a = x @ W + h @ U

    # x holds a sample in each row, so W x is x @ W.T, and U h is h @ U.T.
    a = W @ x + U @ h

    # U is not transposed. | The product is h @ U.T.
    a = x @ W.T + h @ U
    """,
)


def normed_step(answer):
    """Check a function (x, h, W, U, weight, bias) -> tanh(LN(W x + U h)), (B, H) (lesson 10)."""
    examine(
        answer,
        "normed_step",
        _STEP_PROBES,
        in_float64(_step),
        _STEP_MISTAKES,
        "many sizes, small spread, two number types, gradients",
        contract=_STEP_CONTRACT,
    )


# ---- cells
def _parameters(cls):
    return {
        "the parameters": {
            name: tuple(p.shape) for name, p in sorted(cls(4, 6).named_parameters())
        }
    }


class _GRU(LayerNormGRUCell):  # all but step is given to the learner
    def step(self, part, h):
        products = F.linear(h, self.weight_hh)
        u_gates, u_new = products.tensor_split([2 * self.hidden_size], -1)
        from_x, new_from_x = part.tensor_split([2 * self.hidden_size], -1)
        new_from_h = self.new_hh(u_new)
        r, z = torch.sigmoid(from_x + self.gates_hh(u_gates)).chunk(2, -1)
        n = torch.tanh(new_from_x + r * new_from_h)
        return (1 - z) * n + z * h


class _LSTM(LayerNormLSTMCell):  # all but step is given to the learner
    def step(self, part, state):
        h, c = state
        products = F.linear(h, self.weight_hh)
        summed = part + self.norm_hh(products)
        i, f, g, o = summed.chunk(4, -1)
        forget, write = torch.sigmoid(f), torch.sigmoid(i)
        new = forget * c + write * torch.tanh(g)
        way_out = torch.tanh(self.norm_c(new))
        h_new = torch.sigmoid(o) * way_out
        return h_new, new


_GRU_MISTAKES = misconceptions(
    _GRU,
    """
    # z and 1 - z have changed places, as papers have it. PyTorch's form is (1 - z) * n + z * h.
    return (1 - z) * h + z * n

    # r is inside the norm. It multiplies what comes out of it. | r * new_hh(U_n h).
    n = torch.tanh(new_from_x + self.new_hh(r * u_new))

    # r is outside the tanh. It holds back the state's part, inside. | tanh(x_new + r * new_hh(...)).
    n = r * torch.tanh(new_from_x + new_from_h)

    # r multiplies the input's part as well. It holds back the state alone.
    n = torch.tanh(r * (new_from_x + new_from_h))

    # r multiplies the input's part. It belongs on the state's.
    n = torch.tanh(r * new_from_x + new_from_h)

    # r is not used: n = tanh(x_new + r * new_hh(...)).
    n = torch.tanh(new_from_x + new_from_h)

    # the candidate has a sigmoid. It is no gate. | tanh.
    n = torch.sigmoid(new_from_x + r * new_from_h)

    # the candidate has no tanh.
    n = new_from_x + r * new_from_h

    # the state's part of the candidate is not normalized: new_hh is missing.
    new_from_h = u_new

    # the norm is on the sum. new_hh takes the state's part alone; the input's is normalized already.
    n = torch.tanh(self.new_hh(new_from_x + r * u_new))

    # part is normalized a second time. from_input has done it.
    n = torch.tanh(self.new_ih(new_from_x) + r * new_from_h)

    # the norm of the input is on the state. The state has its own: new_hh.
    new_from_h = self.new_ih(u_new)
    """,
)

_LSTM_MISTAKES = misconceptions(
    _LSTM,
    """
    # each gate is normalized by itself. All four share one norm, 4H wide. | Normalize first, chunk afterwards.
    summed = part + _layer_norm(products.unflatten(-1, (4, -1))).flatten(-2) * self.norm_hh.weight + self.norm_hh.bias

    # the normalized c is returned and carried. In the paper c goes on as it is; only the way out has norm_c.
    return h_new, self.norm_c(new)

    # the old c is normalized before the forget gate. norm_c is on the way out, before the last tanh.
    new = forget * self.norm_c(c) + write * torch.tanh(g)
    way_out = torch.tanh(new)

    # norm_c is missing: h = sigmoid(o) * tanh(norm_c(c)).
    way_out = torch.tanh(new)

    # norm_c comes after the tanh. | Before it: tanh(norm_c(c)).
    way_out = self.norm_c(torch.tanh(new))

    # h comes from the old c. | Compute the new c first.
    way_out = torch.tanh(self.norm_c(c))

    # the last tanh is missing: h = sigmoid(o) * tanh(norm_c(c)).
    way_out = self.norm_c(new)

    # the output gate o is not used: h = sigmoid(o) * tanh(norm_c(c)).
    h_new = way_out

    # the output gate o has no sigmoid.
    h_new = o * way_out

    # norm_c is on h. It is inside the last tanh. | sigmoid(o) * tanh(norm_c(c)).
    h_new = self.norm_c(torch.sigmoid(o) * torch.tanh(new))

    # the pair is swapped. | Return h first, then c.
    return new, h_new

    # state is (h, c), and h and c have changed places. | h, c = state.
    c, h = state

    # c is not returned. The next step needs both. | return h, c.
    return h_new

    # the old c is returned. The next step needs the new one.
    return h_new, c

    # chunk(4, 1) cuts axis 1, which is the gates of a matrix only. | The last axis: .chunk(4, -1).
    i, f, g, o = summed.chunk(4, 1)

    # the order of the gates is f, i, o, g, as the paper writes it. PyTorch's is i, f, g, o.
    f, i, o, g = summed.chunk(4, -1)

    # i and f have changed places: f multiplies the old c, i what is written. | The order is i, f, g, o.
    f, i, g, o = summed.chunk(4, -1)

    # g and o have changed places. The order is i, f, g, o.
    i, f, o, g = summed.chunk(4, -1)

    # the state's part is not normalized: norm_hh is missing.
    summed = part + products

    # the norm is on the sum. norm_hh takes the state's part alone; the input's is normalized already.
    summed = self.norm_hh(part + products)

    # part is normalized a second time. from_input has done it.
    summed = self.norm_ih(part) + self.norm_hh(products)

    # the input's norm is on the state. The state has its own: norm_hh.
    summed = part + self.norm_ih(products)

    # g has a sigmoid. It is no gate. | tanh.
    new = forget * c + write * torch.sigmoid(g)

    # g has no tanh.
    new = forget * c + write * g

    # the gates have no sigmoid.
    forget, write = f, i
    h_new = o * way_out

    # 1 is added to f in every step. The forget gate's 1 is in the bias already, where it is learned.
    forget, write = torch.sigmoid(f + 1), torch.sigmoid(i)
    """,
)


class _OfThree(nn.Module):
    """An LSTM cell as a contract and a layer's probes use it: it takes h and c apart, and gives both in one tensor."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h, c):
        return torch.cat(self.cell(x, (h, c)))


_SIZES = {"B": (3, 1, 17)}
_VALUES = ("ordinary", "small", "constant")
_GRU_CONTRACT = Contract(
    {"x": "B 4", "h": "B 6"},
    use=lambda cls, sizes: cls(4, 6),
    sizes=_SIZES,
    values=_VALUES,
    gradient=1,
)
_LSTM_CONTRACT = Contract(
    {"x": "B 4", "h": "B 6", "c": "B 6"},
    ("h and below it c",),
    lambda cls, sizes: _OfThree(cls(4, 6)),
    sizes=_SIZES,
    values=_VALUES,
    gradient=1,
)


def _starts(cls):
    biases = {
        name: p.detach() for name, p in cls(4, 6).named_parameters() if name.endswith("bias")
    }
    return {f"{name} at the start": p.view(-1, 6) for name, p in sorted(biases.items())}


def _stages(gates, *state):
    """Return the stages of a cell with so many rows of H. state: the names of its tensors."""
    together = lambda tensors: tuple(tensors) if len(state) == 2 else tensors[0]
    new_state = state if len(state) == 2 else ("the new state",)

    def drawn(first, size, *shape):
        return {
            name: draw(41 + n, *shape, 6 if n else size)
            for n, name in enumerate((first, *state))
        }

    def probe(label, use, inputs, returns=new_state):
        with_inputs = call(label, *inputs.values(), names=tuple(inputs), returns=returns)
        run = lambda cls: with_inputs.run(partial(use, filled(cls(4, 6).double(), 21)))
        return replace(with_inputs, run=run)

    def from_input(*shape):
        use = lambda cell, x: cell.from_input(x)
        return probe(
            f"from_input with x of shape {shape}",
            use,
            {"x": draw(41, *shape)},
            ("from_input(x)",),
        )

    def step(*shape):
        use = lambda cell, part, *tensors: cell.step(part, together(tensors))
        label = f"step with {' and '.join(state)} of shape {(*shape, 6)}"
        return probe(label, use, drawn("part", 6 * gates, *shape))

    def refused(label, inputs):
        x, *tensors = inputs.values()
        return Probe(
            label, refusing(lambda cls: cls(4, 6).double()(x, together(tensors))), inputs
        )

    other_batch = drawn("x", 4, 3)
    other_batch[state[-1]] = other_batch[state[-1]][:1]
    calls = [
        probe(
            "a call with x of shape (4,)",
            lambda cell, x, *tensors: cell(x, together(tensors)),
            drawn("x", 4),
        ),
        probe("a call without a state", lambda cell, x: cell(x), {"x": draw(70, 3, 4)}),
        refused("x with 5 features for input_size 4", drawn("x", 5, 3)),
        refused(f"{state[-1]} for another batch", other_batch),
        Probe("a new cell, (4, 6)", _starts),
    ]
    layer = of_a_layer(
        lambda cls: _OfThree(cls(4, 6)) if len(state) == 2 else cls(4, 6),
        *drawn("x", 4, 3).values(),
    )
    why = "The names and sizes in __init__ were given: keep them."
    return [
        [Probe("a new cell, (4, 6)", _parameters, why=why)],
        ([from_input(3, 4), from_input(2, 5, 4)], "from_input"),
        ([step(3), step(2, 5)], "step"),
        calls + layer,
    ]


_GRU_STAGES, _LSTM_STAGES = _stages(3, "h"), _stages(4, "h", "c")
_CELL_RIGHT = (
    "{answer.__name__} does what it should (from_input, step, calls, gradients, refusals)"
)


def gru_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: a GRU with four norms (lesson 10)."""
    examine(
        answer,
        "gru_cell",
        _GRU_STAGES,
        _GRU,
        _GRU_MISTAKES,
        right=_CELL_RIGHT,
        contract=_GRU_CONTRACT,
    )


def lstm_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: an LSTM with three norms (lesson 10)."""
    examine(
        answer,
        "lstm_cell",
        _LSTM_STAGES,
        _LSTM,
        _LSTM_MISTAKES,
        right=_CELL_RIGHT,
        contract=_LSTM_CONTRACT,
    )


# ---- the gradient of one step, on paper
def back_one_step(answer):
    """Check a dict of four factors: without a norm, on the sum, on the sum without input, on each part (lesson 10)."""
    squares = "The deviations do not add, their squares do: 5² + 12² is 13²."
    causes = {
        "no_norm": {
            1: "Without a norm nothing divides: the gradient goes through U alone, which multiplies by s."
        },
        "on_sum": {
            5 / 17: squares,
            5 / 12: "That divides by the deviation of W x. The norm sees the sum, W x + U h.",
            1
            / 13: "That is the norm alone. The gradient goes through U as well, which multiplies by s.",
            5
            / 169: "That divides by the variance of the sum. The norm divides by its deviation.",
            12 / 13: "The gradient goes back through U h, and not through W x.",
            13 / 5: "Upside down: U multiplies by 5, and the norm divides by 13.",
        },
        "no_input": {
            5: "The norm still divides, now by the deviation of U h alone.",
            0: "The gradient does not go through W x. The norm divides by the deviation of U h alone.",
            1
            / 5: "That is the norm alone. The gradient goes through U as well, which multiplies by s.",
            5 / 13: "Without W x, the deviation of the sum is that of U h alone.",
        },
        "each_part": {
            1: "The norm of U h takes s away. Its gain multiplies afterwards.",
            10: "The norm of U h divides by its deviation, which is 5. Then the gain multiplies.",
            10 / 13: "This norm sees U h alone, whose deviation is 5.",
            2 / 5: "That forgets U, which multiplies by s.",
        },
    }
    right = {"no_norm": 5, "on_sum": 5 / 13, "no_input": 1, "each_part": 2}
    values(answer, "back_one_step", right, causes, tolerance=0.005)


# ---- the clinic
class _Tagger(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, x):
        states = self.rnn(x)[0]
        return self.norm(states)


def _tag_names(cls):
    try:
        tagger = cls(3, 7)  # not the example's 6, which an answer may have written down
    except TypeError as error:
        return {"MendedTagger(3, 7)": raised(error)}
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


_MAKE = lambda cls: cls(3, 6)
_TAG_PROBES = [
    call_layer(f"x of shape {shape}", _MAKE, draw(131, *shape), {})
    for shape in [(4, 5, 3), (2, 7, 3), (3, 3, 3), (1, 1, 3)]
]
_TAG_CONTRACT = Contract(
    {"x": "B T 3"},
    use=lambda cls, sizes: cls(3, 6),
    sizes={"B": (4, 1, 17), "T": (5, 1, 30)},
    values=("ordinary", "small"),
    gradient=1,
)

_TAG_MISTAKES = misconceptions(
    _Tagger,
    """
    # the tagger still needs the number of steps. | It takes (input_size, hidden_size), and any length.
    def __init__(self, input_size, hidden_size, steps):
        ...

    # the gains still have one row for each step, and the norm looks along time. | nn.LayerNorm(hidden_size).
    self.norm = nn.LayerNorm([5, hidden_size])

    # the norm is 2H wide. A bidirectional GRU would fit it, but that reads from the end too, and so looks ahead.
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

    # the output is not normalized any more. | Keep self.norm on what the GRU gives.
    return states

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


def mended_tagger(answer):
    """Check a class (input_size, hidden_size): a tagger that mixes neither steps nor samples (lesson 10)."""
    layer = of_a_layer(_MAKE, draw(141, 4, 5, 3))
    names = ([Probe("a new tagger, (3, 7)", _tag_names)], "the layers")
    right = (
        "{answer.__name__} keeps samples and steps apart (values, gradients, several lengths)"
    )
    examine(
        answer,
        "mended_tagger",
        [names, (_TAG_PROBES, "forward"), layer],
        _Tagger,
        _TAG_MISTAKES,
        right=right,
        contract=_TAG_CONTRACT,
    )

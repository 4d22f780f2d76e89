"""Checks of lesson 10: LayerNorm inside recurrent cells, a tagger that read ahead."""

import zlib

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNormGRUCell, LayerNormLSTMCell
from lessonkit.check.comparing import examine
from lessonkit.check.contract import Contract, of_a_layer, same_in_eval
from lessonkit.check.misconceptions import misconceptions
from lessonkit.check.probing import Probe, call, draw, gradients, in_float64, raised, refusing
from lessonkit.check.quizzes import values


def _layer_norm(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


def _watched(label, inputs, compute, tolerance=1e-9, dtype=torch.float64, gradient=True):
    """Return a Probe: outputs, the inputs afterwards and, in float64, gradients of sum(output * fixed random weights).

    inputs: {name: tensor}. compute: (answer, inputs) -> ({name: output}, {name: parameter}).
    """
    inputs = {name: tensor.to(dtype) for name, tensor in inputs.items()}

    def run(answer):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        entered = {name: leaf.clone() for name, leaf in leaves.items()}  # in-place changes of a leaf would raise
        outputs, parameters = compute(answer, entered)
        seen = {f"{name} after the call": tensor.detach() for name, tensor in entered.items()}
        seen |= {name: out.detach() if isinstance(out, torch.Tensor) else out for name, out in outputs.items()}
        results = outputs.values()
        floats = all(isinstance(out, torch.Tensor) and out.is_floating_point() for out in results)
        if not floats or not gradient or dtype != torch.float64:
            return seen
        leaves |= parameters
        if not all(out.requires_grad for out in results):
            return seen | {f"gradient of {name}": "no gradient" for name in leaves}
        loss = sum((out * draw(90 + n, *out.shape).to(out.dtype)).sum() for n, out in enumerate(results))
        return seen | gradients(loss, leaves)

    return Probe(label, run, inputs, tolerance)


# ---- one step
def _step(x, h, W, U, weight, bias):
    a = x @ W.T + h @ U.T
    normed = _layer_norm(a, weight, bias)
    return torch.tanh(normed)


def _inputs(label, B, I, H, seed, scale=1.0):  # noqa: E741
    shapes = ((B, I), (B, H), (H, I), (H, H), (H,), (H,))
    x, h, *others = (draw(seed + n, *shape) for n, shape in enumerate(shapes))
    return call(label, x * scale, h * scale, *others, names=("x", "h", "W", "U", "weight", "bias"))


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

    # there is a sigmoid in place of the tanh.
    return torch.sigmoid(normed)

    # nothing is normalized: this is the plain step, with gain and bias.
    normed = a * weight + bias

    # gain and bias are not used.
    normed = _layer_norm(a)

    # the bias is not used.
    normed = _layer_norm(a, weight)

    # weight and bias are swapped.
    normed = _layer_norm(a, bias, weight)

    # the batch is normalized: each unit over the rows. Each row takes its own statistics, over its H units.
    normed = _layer_norm(a.T).T * weight + bias

    # the statistics are taken over the whole batch. Each row takes its own, over its H units. | The sizes are a.shape[-1:].
    normed = F.layer_norm(a, a.shape) * weight + bias

    # the variance divides by H - 1. LayerNorm divides by H. | correction=0.
    normed = (a - a.mean(-1, keepdim=True)) / torch.sqrt(a.var(-1, keepdim=True) + 1e-5) * weight + bias

    # eps is added to the deviation. It belongs to the variance, under the root.
    normed = (a - a.mean(-1, keepdim=True)) / (a.std(-1, correction=0, keepdim=True) + 1e-5) * weight + bias

    # the mean is not taken away: this is RMSNorm.
    normed = F.rms_norm(a, weight.shape, weight, 1e-5) + bias

    # W and U are not transposed. They have a row for each unit. | The products are x @ W.T and h @ U.T.
    a = x @ W + h @ U

    # x holds a sample in each row, so W x is x @ W.T, and U h is h @ U.T.
    a = W @ x + U @ h

    # U is not transposed. | The product is h @ U.T.
    a = x @ W.T + h @ U

    # x is not used: the summed input is W x + U h.
    a = h @ U.T

    # h is not used: the summed input is W x + U h.
    a = x @ W.T
    """,
)


def normed_step(answer):
    """Check a function (x, h, W, U, weight, bias) -> tanh(LN(W x + U h)), (B, H) (lesson 10)."""
    how = {"tried": "many sizes, small spread, two number types, gradients", "contract": _STEP_CONTRACT}
    examine(answer, "normed_step", _STEP_PROBES, in_float64(_step), _STEP_MISTAKES, **how)


# ---- cells
def _fill(cell):
    """Give every parameter fixed random numbers that depend on its name, in float64. Returns the cell."""
    cell = cell.double()
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            parameter.copy_(draw(zlib.crc32(name.encode()) % 10_000, *parameter.shape))
    return cell


def _parameters(cls):
    return {"the parameters": {name: tuple(p.shape) for name, p in sorted(cls(4, 6).named_parameters())}}


def _named(out, pair):
    """Return the outputs of a step by name; for an LSTM, what is no pair goes on as it is."""
    if not pair:
        return {"the new state": out}
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        return {"the pair (h, c)": out}
    return {"h": out[0], "c": out[1]}


def _from_input(shape, seed, kind="", **options):
    def compute(cls, entered):
        cell = _fill(cls(4, 6)).to(entered["x"].dtype)
        out = cell.from_input(entered["x"])
        out = f"a {type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else out  # compares as text
        return {"from_input(x)": out}, {"weight_ih": cell.weight_ih}

    return _watched(f"from_input with x of shape {shape}{kind}", {"x": draw(seed, *shape)}, compute, **options)


def _stepping(shape, seed, gates, pair, kind="", **options):
    inputs = {"part": draw(seed, *shape, 6 * gates), "h": draw(seed + 1, *shape, 6)}
    inputs |= {"c": draw(seed + 2, *shape, 6)} if pair else {}

    def compute(cls, entered):
        cell = _fill(cls(4, 6)).to(entered["h"].dtype)
        state = (entered["h"], entered["c"]) if pair else entered["h"]
        cell.from_input(draw(99, 2, 4).to(entered["h"].dtype))  # of other numbers: step takes its argument
        return _named(cell.step(entered["part"], state), pair), {"weight_hh": cell.weight_hh}

    label = f"step with {'h and c' if pair else 'h'} of shape {(*shape, 6)}{kind}"
    return _watched(label, inputs, compute, **options)


def _whole(shape, seed, pair):
    x, h, c = draw(seed, *shape, 4), draw(seed + 1, *shape, 6), draw(seed + 2, *shape, 6)

    def compute(cls, entered):
        cell = _fill(cls(4, 6))
        return _named(cell(entered["x"], (h, c) if pair else h), pair), dict(cell.named_parameters())

    return _watched(f"a call with x of shape {(*shape, 4)}", {"x": x}, compute)


def _from_nothing(pair):
    compute = lambda cls, entered: (_named(_fill(cls(4, 6))(entered["x"]), pair), {})
    return _watched("a call without a state", {"x": draw(70, 3, 4)}, compute, gradient=False)


def _refused(label, pair, *shapes):
    tensors = [draw(80 + n, *shape) for n, shape in enumerate(shapes)]
    x, *states = tensors
    run = refusing(lambda cls: cls(4, 6).double()(x, tuple(states) if pair else states[0]))
    return Probe(label, run, dict(zip(("x", "h", "c"), tensors, strict=False)))


class _GRU(LayerNormGRUCell):  # all but step is given to the learner
    def step(self, part, h):
        products = F.linear(h, self.weight_hh)
        u_gates, u_new = products.tensor_split([2 * self.hidden_size], -1)
        from_x = part[..., : 2 * self.hidden_size]
        new_from_x = part[..., 2 * self.hidden_size :]
        from_h = self.gates_hh(u_gates)
        new_from_h = self.new_hh(u_new)
        r, z = torch.sigmoid(from_x + from_h).chunk(2, -1)
        n = torch.tanh(new_from_x + r * new_from_h)
        h_new = (1 - z) * n + z * h
        return h_new


class _LSTM(LayerNormLSTMCell):
    def from_input(self, x):
        rows = F.linear(x, self.weight_ih)
        return self.norm_ih(rows)

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


def _apart(row, count, norm):
    """Each of count gates normalized by itself, with gain and bias of the norm of all of them."""
    gates = row.unflatten(-1, (count, -1))
    return _layer_norm(gates).flatten(-2) * norm.weight + norm.bias


_GRU_MISTAKES = misconceptions(
    _GRU,
    """
    # z and 1 - z have changed places, as papers have it. PyTorch's form is (1 - z) * n + z * h.
    h_new = (1 - z) * h + z * n

    # r is inside the norm. It multiplies what comes out of it. | r * new_hh(U_n h).
    n = torch.tanh(new_from_x + self.new_hh(r * u_new))

    # r is outside the tanh. It holds back the state's part, inside. | tanh(x_new + r * new_hh(...)).
    n = r * torch.tanh(new_from_x + new_from_h)

    # r multiplies the input's part as well. It holds back the state alone.
    n = torch.tanh(r * (new_from_x + new_from_h))

    # r multiplies the input's part. It belongs on the state's.
    n = torch.tanh(r * new_from_x + new_from_h)

    # the input's part is forgotten in the candidate. | n = tanh(x_new + r * new_hh(...)).
    n = torch.tanh(r * new_from_h)

    # z is in r's place. z mixes the candidate with the old state.
    n = torch.tanh(new_from_x + z * new_from_h)

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
    new_from_x = self.new_ih(part[..., 2 * self.hidden_size :])

    # the norm of the input is on the state. The state has its own: new_hh.
    new_from_h = self.new_ih(u_new)

    # gain and bias of the norm are not used. | Call self.new_hh.
    new_from_h = _layer_norm(u_new)

    # the old state is forgotten in the sum. | (1 - z) * n + z * h.
    h_new = (1 - z) * n

    # the candidate itself is returned. It is mixed with the old state. | (1 - z) * n + z * h.
    h_new = n
    """,
)

_LSTM_MISTAKES = misconceptions(
    _LSTM,
    """
    # from_input normalizes nothing: norm_ih belongs on the product.
    def from_input(self, x):
        return rows

    # that is the norm of the state. The input has its own. | norm_ih.
    def from_input(self, x):
        return self.norm_hh(rows)

    # gain and bias of the norm are not used. | Call self.norm_ih.
    def from_input(self, x):
        return _layer_norm(rows)

    # each gate is normalized by itself. All four share one norm, 4H wide. | Normalize first, chunk afterwards.
    def from_input(self, x):
        return _apart(rows, 4, self.norm_ih)
    # or
    summed = part + _apart(products, 4, self.norm_hh)

    # x itself is normalized, and not its product with weight_ih.
    def from_input(self, x):
        return F.linear(_layer_norm(x), self.weight_ih)

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

    # i and f have changed places. The order is i, f, g, o.
    f, i, g, o = summed.chunk(4, -1)

    # g and o have changed places. The order is i, f, g, o.
    i, f, o, g = summed.chunk(4, -1)

    # the state's part is not normalized: norm_hh is missing.
    summed = part + products

    # h itself is normalized, and not its product with weight_hh.
    summed = part + F.linear(_layer_norm(h), self.weight_hh)

    # the norm is on the sum. norm_hh takes the state's part alone; the input's is normalized already.
    summed = self.norm_hh(part + products)

    # part is normalized a second time. from_input has done it.
    summed = self.norm_ih(part) + self.norm_hh(products)

    # the input's norm is on the state. The state has its own: norm_hh.
    summed = part + self.norm_ih(products)

    # g has no tanh.
    new = forget * c + write * g

    # g has a sigmoid. It is no gate, but what is written. | tanh(g).
    new = forget * c + write * torch.sigmoid(g)

    # the gates have no sigmoid.
    forget, write = f, i

    # the gates have a tanh. A gate is between 0 and 1. | sigmoid.
    forget, write = torch.tanh(f), torch.tanh(i)

    # 1 is added to f in every step. The forget gate's 1 is in the bias already, where it is learned.
    forget, write = torch.sigmoid(f + 1), torch.sigmoid(i)

    # the input gate is 1 - sigmoid(f). It has rows of its own. | sigmoid(i).
    forget, write = torch.sigmoid(f), 1 - torch.sigmoid(f)
    """,
)


class _OfThree(nn.Module):
    """An LSTM cell that takes h and c apart, as a contract hands in its inputs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h, c):
        return self.cell(x, (h, c))


_SIZES = {"B": (3, 1, 17)}
_VALUES = ("ordinary", "small", "constant")
_GRU_CONTRACT = Contract(
    {"x": "B 4", "h": "B 6"}, use=lambda cls, sizes: cls(4, 6), sizes=_SIZES, values=_VALUES, gradient=1
)
_LSTM_CONTRACT = Contract(
    {"x": "B 4", "h": "B 6", "c": "B 6"},
    ("h", "c"),
    lambda cls, sizes: _OfThree(cls(4, 6)),
    sizes=_SIZES,
    values=_VALUES,
    gradient=1,
)


def _starts(cls):
    biases = {name: p.detach() for name, p in cls(4, 6).named_parameters() if name.endswith("bias")}
    return {f"{name} at the start": p.view(-1, 6) for name, p in sorted(biases.items())}


def _stages(pair):
    seed, gates, state = (61, 4, [(3, 6), (3, 6)]) if pair else (41, 3, [(3, 6)])
    steps = [_stepping(shape, seed + n, gates, pair) for n, shape in ((2, (3,)), (5, (2, 5)))]
    calls = [
        _whole((), seed + 14, pair),
        _from_nothing(pair),
        _refused("x with 5 features for input_size 4", pair, (3, 5), *state),
        _refused(f"a {'c' if pair else 'state'} for another batch", pair, (3, 4), *state[1:], (1, 6)),
        Probe("a new cell, (4, 6)", _starts),
    ]
    inputs = [draw(seed + 20, 3, 4), draw(seed + 21, 3, 6), draw(seed + 22, 3, 6)]
    layer = of_a_layer(lambda cls: _First(_OfThree(cls(4, 6))) if pair else cls(4, 6), *inputs[: 2 + pair])
    why = "The names and sizes in __init__ were given: keep them."
    return [
        ([Probe("a new cell, (4, 6)", _parameters, why=why)], ""),
        ([_from_input((3, 4), seed), _from_input((2, 5, 4), seed + 1)], "from_input"),
        (steps, "step"),
        (calls + layer, ""),
    ]


class _First(nn.Module):
    """The first output of a module, h, since a layer has one."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        return self.inner(*inputs)[0]


_GRU_STAGES, _LSTM_STAGES = _stages(False), _stages(True)
_CELL_RIGHT = "{answer.__name__} does what it should (from_input, step, calls, gradients, refusals)"


def gru_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: a GRU with four norms (lesson 10)."""
    how = {"kind": "class", "right": _CELL_RIGHT, "contract": _GRU_CONTRACT}
    examine(answer, "gru_cell", _GRU_STAGES, _GRU, _GRU_MISTAKES, **how)


def lstm_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: an LSTM with three norms (lesson 10)."""
    how = {"kind": "class", "right": _CELL_RIGHT, "contract": _LSTM_CONTRACT}
    examine(answer, "lstm_cell", _LSTM_STAGES, _LSTM, _LSTM_MISTAKES, **how)


# ---- the gradient of one step, on paper
def back_one_step(answer):
    """Check a dict of four factors: without a norm, on the sum, on the sum without input, on each part (lesson 10)."""
    squares = "The deviations do not add, their squares do: 5² + 12² is 13²."
    causes = [
        ("no_norm", 1, "Without a norm nothing divides: the gradient goes through U alone, which multiplies by s."),
        ("no_norm", 17, "The gradient goes back through U h alone. W x does not depend on the state."),
        ("on_sum", 5 / 17, squares),
        ("on_sum", 5 / 12, "That divides by the deviation of W x. The norm sees the sum, W x + U h."),
        ("on_sum", 1 / 13, "That is the norm alone. The gradient goes through U as well, which multiplies by s."),
        ("on_sum", 5 / 169, "That divides by the variance of the sum. The norm divides by its deviation."),
        ("on_sum", 13 / 5, "Upside down: U multiplies by 5, and the norm divides by 13."),
        ("on_sum", 13, "That is the deviation of the sum. The gradient is multiplied by s and divided by it."),
        ("on_sum", 12 / 13, "The gradient goes back through U h, and not through W x."),
        ("no_input", 5, "The norm still divides, now by the deviation of U h alone."),
        ("no_input", 0, "The gradient does not go through W x. The norm divides by the deviation of U h alone."),
        ("no_input", 1 / 5, "That is the norm alone. The gradient goes through U as well, which multiplies by s."),
        ("no_input", 5 / 13, "Without W x, the deviation of the sum is that of U h alone."),
        ("each_part", 1, "The norm of U h takes s away. Its gain multiplies afterwards."),
        ("each_part", 10, "The norm of U h divides by its deviation, which is 5. Then the gain multiplies."),
        ("each_part", 10 / 13, "This norm sees U h alone, whose deviation is 5."),
        ("each_part", 2 / 5, "That forgets U, which multiplies by s."),
    ]
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
        tagger = cls(3, 6)
    except TypeError as error:
        return {"MendedTagger(3, 6)": raised(error)}
    shapes = {name: tuple(p.shape) for name, p in tagger.named_parameters() if not name.startswith("rnn.")}
    kinds = {name: type(getattr(tagger, name, None)).__name__ for name in ("rnn", "norm")}
    return {"the layers": kinds, "the parameters besides rnn's": shapes, "eps": getattr(tagger.norm, "eps", None)}


def _tag(shape, seed):
    compute = lambda cls, entered: ({"the scores": _fill(cls(3, 6))(entered["x"])}, {})
    return _watched(f"x of shape {shape}", {"x": draw(seed, *shape)}, compute)


_TAG_PROBES = [_tag((B, T, 3), 131 + n) for n, (B, T) in enumerate([(4, 5), (2, 7), (3, 3), (1, 1)])]
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

    # eps is not the usual one, 1e-5. | nn.LayerNorm(hidden_size) has it.
    self.norm = nn.LayerNorm(hidden_size, eps=1e-6)

    # that is BatchNorm: its statistics mix the samples. | Asked is nn.LayerNorm(hidden_size).
    self.norm = nn.BatchNorm1d(hidden_size)

    # self.norm is not made in __init__: gains that are made in forward are never trained.
    self.norm = None

    # rnn is an LSTM. | Asked is nn.GRU.
    self.rnn = nn.LSTM(input_size, hidden_size, batch_first=True)

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

    # gain and bias of the norm are not used. | Call self.norm.
    return _layer_norm(states)
    """,
)


def mended_tagger(answer):
    """Check a class (input_size, hidden_size): a tagger that mixes neither steps nor samples (lesson 10)."""
    make, x = lambda cls: cls(3, 6), draw(141, 4, 5, 3)
    layer = [*of_a_layer(make, x), same_in_eval(make, x)]
    names = ([Probe("a new tagger, (3, 6)", _tag_names)], "the layers")
    right = "{answer.__name__} keeps samples and steps apart (values, gradients, several lengths)"
    how = {"kind": "class", "right": right, "contract": _TAG_CONTRACT}
    examine(answer, "mended_tagger", [names, (_TAG_PROBES, "forward"), (layer, "")], _Tagger, _TAG_MISTAKES, **how)

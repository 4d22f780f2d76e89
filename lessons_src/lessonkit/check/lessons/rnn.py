"""Checks of lesson 10: LayerNorm inside recurrent cells, masked sequences, a tagger that read ahead."""

import zlib

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNormGRUCell, LayerNormLSTMCell
from lessonkit.check.comparing import examine, in_stages
from lessonkit.check.mistakes import Mistake, known
from lessonkit.check.probing import Probe, call, draw, gradients, in_float64, raised, refusing


def _layer_norm(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


def _watched(label, inputs, compute, tolerance=1e-9, dtype=torch.float64, gradient=True, shown=None):
    """Return a Probe: outputs, the inputs afterwards and, in float64, gradients of sum(output * fixed random weights).

    inputs: {name: tensor}. compute: (answer, inputs) -> ({name: output}, {name: parameter}).
    """
    inputs = {name: tensor.to(dtype) for name, tensor in inputs.items()}

    def run(answer):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        given = {name: leaf.clone() for name, leaf in leaves.items()}  # in-place changes of a leaf would raise
        outputs, parameters = compute(answer, given)
        seen = {f"{name} after the call": tensor.detach() for name, tensor in given.items()}
        seen |= {name: out.detach() if isinstance(out, torch.Tensor) else out for name, out in outputs.items()}
        results = [out for name, out in outputs.items() if not name.endswith("after the call")]
        floats = all(isinstance(out, torch.Tensor) and out.is_floating_point() for out in results)
        if not floats or not gradient or dtype != torch.float64:
            return seen
        leaves |= parameters
        if not all(out.requires_grad for out in results):
            return seen | {f"gradient of {name}": "no gradient" for name in leaves}
        loss = sum((out * draw(90 + n, *out.shape).to(out.dtype)).sum() for n, out in enumerate(results))
        return seen | gradients(loss, leaves)

    return Probe(label, run, (shown or {}) | inputs, tolerance)


# ---- one step
def _step(x, h, W, U, weight, bias):
    a = x @ W.T + h @ U.T
    return torch.tanh(_layer_norm(a, weight, bias))


def _inputs(label, B, I, H, seed, scale=1.0, dtype=torch.float64, **options):  # noqa: E741
    shapes = ((B, I), (B, H), (H, I), (H, H), (H,), (H,))
    x, h, *others = (draw(seed + n, *shape, dtype=dtype) for n, shape in enumerate(shapes))
    return call(label, x * scale, h * scale, *others, names=("x", "h", "W", "U", "weight", "bias"), **options)


_STEP_PROBES = [
    _inputs("3 rows, 4 inputs, 5 units", 3, 4, 5, 1),
    _inputs("5 rows, 5 inputs, 5 units", 5, 5, 5, 11),
    _inputs("summed inputs of spread 0.002", 2, 3, 6, 21, scale=1e-3),
    # float32 products and a norm of numbers of order 1: some units of 1e-7 each
    _inputs("float32", 4, 3, 6, 31, dtype=torch.float32, tolerance=1e-5, gradient=False),
]

_LN = "_layer_norm(a, weight, bias)"
_VAR = "a.var(-1, correction=0, keepdim=True)"
_SEPARATE = "the two parts are normalized separately. That comes later; here the norm goes on their sum."

_WRITTEN_OUT = {
    "torch.sqrt(a.var(-1, keepdim=True) + 1e-5)": "the variance divides by H - 1. LayerNorm divides by H: correction=0.",
    f"(torch.sqrt({_VAR}) + 1e-5)": "eps is added to the deviation. It belongs to the variance, under the root.",
    "(a.std(-1, keepdim=True) + 1e-5)": "the variance divides by H - 1, and eps is added to the deviation.",
    "a.std(-1, keepdim=True)": "the variance divides by H - 1, and eps is missing: F.layer_norm has both right.",
    f"({_VAR} + 1e-5)": "the root is missing: divide by sqrt(variance + eps).",
    f"torch.sqrt({_VAR} + 1e-12)": "eps is not PyTorch's 1e-5.",
    f"torch.sqrt({_VAR} + 1e-3)": "eps is not PyTorch's 1e-5.",
    f"torch.sqrt({_VAR}.detach() + 1e-5)": "the values are right, but the deviation is cut off from the gradient.",
}

_STEP_MISTAKES = known(
    _step,
    {
        f"torch.tanh({_LN}) -> _layer_norm(torch.tanh(a), weight, bias)": "the norm comes after the tanh. The summed input is normalized, and the tanh comes last.",
        f"{_LN} -> a ; h @ -> _layer_norm(h, weight, bias) @": "the old state is normalized, and not the summed input W x + U h.",
        f"{_LN} -> a ; h @ U.T -> _layer_norm(h @ U.T, weight, bias)": "only U h is normalized. The norm goes on the sum W x + U h.",
        f"{_LN} -> a ; x @ W.T -> _layer_norm(x @ W.T, weight, bias)": "only W x is normalized. The norm goes on the sum W x + U h.",
        f"{_LN} -> a ; x @ W.T + h @ U.T -> _layer_norm(x @ W.T, weight, bias) + _layer_norm(h @ U.T, weight, bias)": _SEPARATE,
        f"{_LN} -> a * weight + bias ; x @ -> _layer_norm(x) @ ; h @ -> _layer_norm(h) @": "x and h are normalized, and not what the matrices make of them: the norm goes on the sum W x + U h.",
        "torch.tanh -> ": "there is no tanh.",
        f"torch.tanh({_LN}) -> torch.tanh(_layer_norm(a)) * weight + bias": "gain and bias come after the tanh. They belong to the norm, before it.",
        "torch.tanh -> torch.sigmoid": "there is a sigmoid in place of the tanh.",
        f"{_LN} -> a * weight + bias": "nothing is normalized: this is the plain step, with gain and bias.",
        "(a, weight, bias) -> (a)": "gain and bias are not used.",
        "(a, weight, bias) -> (a, weight)": "the bias is not used.",
        "(a, weight, bias) -> (a, bias, weight)": "weight and bias are swapped.",
        f"{_LN} -> (_layer_norm(a) + bias) * weight": "the bias is multiplied by the gain. Multiply first, then add.",
        f"{_LN} -> _layer_norm(a.T).T * weight + bias": "the batch is normalized: each unit over the rows. Each row takes its own statistics, over its H units.",
        **{f"{_LN} -> (a - a.mean(-1, keepdim=True)) / {sd} * weight + bias": why for sd, why in _WRITTEN_OUT.items()},
        "x @ W.T +  -> ": "x is not used: the summed input is W x + U h.",
        " + h @ U.T -> ": "h is not used: the summed input is W x + U h.",
        f"{_LN} -> F.rms_norm(a, weight.shape, weight, 1e-5) + bias": "the mean is not taken away: this is RMSNorm.",
        f"{_LN} -> F.layer_norm(a, a.shape) * weight + bias": "the statistics are taken over the whole batch. Each row takes its own, over its H units.",
        "U.T -> U": "U is not transposed: the product is h @ U.T.",
    },
)


def normed_step(answer):
    """Check a function (x, h, W, U, weight, bias) -> tanh(LN(W x + U h)), (B, H) (lesson 10)."""
    tried = "three sizes, small spread, float32, gradients"
    examine(answer, "normed_step", _STEP_PROBES, in_float64(_step), _STEP_MISTAKES, tried)


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


# Float32: products and norms of order 10, some hundred units of 1e-7.
_IN_FLOAT32 = {"kind": " in float32", "dtype": torch.float32, "tolerance": 1e-4}


def _from_input(shape, seed, kind="", **options):
    def compute(cls, given):
        cell = _fill(cls(4, 6)).to(given["x"].dtype)
        out = cell.from_input(given["x"])
        out = f"a {type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else out  # compares as text
        return {"from_input(x)": out}, {"weight_ih": cell.weight_ih}

    return _watched(f"from_input with x of shape {shape}{kind}", {"x": draw(seed, *shape)}, compute, **options)


def _stepping(shape, seed, gates, pair, kind="", **options):
    inputs = {"part": draw(seed, *shape, 6 * gates), "h": draw(seed + 1, *shape, 6)}
    inputs |= {"c": draw(seed + 2, *shape, 6)} if pair else {}

    def compute(cls, given):
        cell = _fill(cls(4, 6)).to(given["h"].dtype)
        state = (given["h"], given["c"]) if pair else given["h"]
        return _named(cell.step(given["part"], state), pair), {"weight_hh": cell.weight_hh}

    label = f"step with {'h and c' if pair else 'h'} of shape {(*shape, 6)}{kind}"
    return _watched(label, inputs, compute, **options)


def _whole(shape, seed, pair):
    x, h, c = draw(seed, *shape, 4), draw(seed + 1, *shape, 6), draw(seed + 2, *shape, 6)

    def compute(cls, given):
        cell = _fill(cls(4, 6))
        return _named(cell(given["x"], (h, c) if pair else h), pair), dict(cell.named_parameters())

    return _watched(f"a call with x of shape {(*shape, 4)}", {"x": x}, compute)


def _from_nothing(pair):
    compute = lambda cls, given: (_named(_fill(cls(4, 6))(given["x"]), pair), {})
    return _watched("a call without a state", {"x": draw(70, 3, 4)}, compute, gradient=False)


def _refused(label, pair, *shapes):
    tensors = [draw(80 + n, *shape) for n, shape in enumerate(shapes)]
    x, *states = tensors
    run = refusing(lambda cls: cls(4, 6).double()(x, tuple(states) if pair else states[0]))
    return Probe(label, run, dict(zip(("x", "h", "c"), tensors, strict=False)))


class _GRU(LayerNormGRUCell):  # __init__ and forward are given to the learner
    def from_input(self, x):
        gates, new = F.linear(x, self.weight_ih).tensor_split([2 * self.hidden_size], -1)
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)

    def step(self, part, h):
        gates, new = F.linear(h, self.weight_hh).tensor_split([2 * self.hidden_size], -1)
        x_gates, x_new = part.tensor_split([2 * self.hidden_size], -1)
        r, z = torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)
        n = torch.tanh(x_new + r * self.new_hh(new))
        return (1 - z) * n + z * h


class _LSTM(LayerNormLSTMCell):
    def from_input(self, x):
        return self.norm_ih(F.linear(x, self.weight_ih))

    def step(self, part, state):
        h, c = state
        i, f, g, o = (part + self.norm_hh(F.linear(h, self.weight_hh))).chunk(4, -1)
        new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(new)), new


def _apart(row, count, norm):
    """Each of count gates normalized by itself, with gain and bias of the norm of all of them."""
    gates = row.unflatten(-1, (count, -1))
    return _layer_norm(gates).flatten(-2) * norm.weight + norm.bias


_NAMES = "The names and sizes in __init__ were given: keep them."
_CELL_RIGHT = "{answer.__name__} does what it should (from_input, step, calls, gradients, refusals)"

_PROJECTED = "gates, new = F.linear(x, self.weight_ih).tensor_split([2 * self.hidden_size], -1)"
_BOTH = "self.gates_ih(gates), self.new_ih(new)"
_JOINED = f"torch.cat([{_BOTH}], -1)"
_TOGETHER = "all 3H columns are normalized together. The two gates have one norm (2H), the candidate its own (H)."

_GRU_INPUT_MISTAKES = known(
    _GRU,
    {
        f"{_BOTH} -> gates, new": "nothing is normalized: gates_ih and new_ih belong on the products.",
        "self.new_ih(new) -> new": "the candidate's part is not normalized: new_ih belongs on the last H columns.",
        "self.gates_ih(gates) -> gates": "the gates' part is not normalized: gates_ih belongs on the first 2H columns.",
        f"{_BOTH} -> self.gates_hh(gates), self.new_hh(new)": "those are the norms of the state (gates_hh, new_hh). The input has its own: gates_ih, new_ih.",
        f"{_BOTH} -> self.new_ih(new), self.gates_ih(gates)": "the candidate comes first in the result. The order is r, z, n, as in weight_ih: gates first.",
        f"{_PROJECTED} -> new, gates = F.linear(x, self.weight_ih).tensor_split([self.hidden_size], -1)": "the candidate's rows are taken for the gates'. The first 2H columns are r and z, the last H are n.",
        f"{_BOTH} -> _layer_norm(gates), _layer_norm(new)": "gain and bias of the norms are not used: call self.gates_ih and self.new_ih.",
        f"{_JOINED} -> _layer_norm(torch.cat([gates, new], -1), torch.cat([self.gates_ih.weight, self.new_ih.weight]), torch.cat([self.gates_ih.bias, self.new_ih.bias]))": _TOGETHER,
        "self.gates_ih(gates) -> _apart(gates, 2, self.gates_ih)": "r and z are normalized each by itself. They share one norm, 2H wide.",
        "self.gates_ih(gates) -> torch.sigmoid(self.gates_ih(gates))": "the sigmoid comes too early. from_input only projects and normalizes.",
        f"F.linear(x -> F.linear(_layer_norm(x) ; {_BOTH} -> gates, new": "x itself is normalized, and not its products with weight_ih.",
        f"{_JOINED} -> {_BOTH}": "the two parts are returned as a pair. Join them: torch.cat([...], -1).",
    },
)

_GATES, _CANDIDATE = "torch.sigmoid(x_gates + self.gates_hh(gates))", "torch.tanh(x_new + r * self.new_hh(new))"
_MIX = "(1 - z) * n + z * h"

_GRU_STEP_MISTAKES = known(
    _GRU,
    {
        f"{_MIX} -> (1 - z) * h + z * n": "z and 1 - z have changed places, as papers have it. PyTorch's form is (1 - z) * n + z * h.",
        "r, z = -> z, r =": "r and z have changed places: the first H columns are r.",
        "r * self.new_hh(new) -> self.new_hh(F.linear(r * h, self.weight_hh[2 * self.hidden_size :]))": "r multiplies h before the product with U_n. Here r comes after the norm: r * new_hh(U_n h).",
        "r * self.new_hh(new) -> self.new_hh(r * new)": "r is inside the norm. It multiplies what comes out of it: r * new_hh(U_n h).",
        "r * self -> (1 - r) * self": "r and 1 - r have changed places: n = tanh(x_new + r * new_hh(U_n h)).",
        "torch.tanh -> torch.sigmoid": "the candidate has a sigmoid. It is no gate: tanh.",
        f"{_GATES} -> (torch.sigmoid(x_gates) + torch.sigmoid(self.gates_hh(gates)))": "there are two sigmoids in a gate. Add first, then one sigmoid of the sum.",
        "x_new + r * self.new_hh(new) -> r * (x_new + self.new_hh(new))": "r multiplies the input's part as well. It holds back the state alone.",
        "x_new + r * self.new_hh(new) -> r * x_new + self.new_hh(new)": "r multiplies the input's part. It belongs on the state's.",
        "r * self -> self": "r is not used: n = tanh(x_new + r * new_hh(...)).",
        "self.new_hh(new) -> new": "the state's part of the candidate is not normalized: new_hh is missing.",
        "self.gates_hh(gates) -> gates": "the state's part of the gates is not normalized: gates_hh is missing.",
        "self.gates_hh(gates) -> gates ; self.new_hh(new) -> new": "nothing of the state is normalized: gates_hh and new_hh are missing.",
        "F.linear(h -> F.linear(_layer_norm(h) ; self.gates_hh(gates) -> gates ; self.new_hh(new) -> new": "h itself is normalized, and not its products with weight_hh.",
        "x_gates + self.gates_hh(gates) -> self.gates_hh(x_gates + gates)": "the gates' norm is on the sum. gates_hh takes the state's part alone; the input's is normalized already.",
        "x_new + r * self.new_hh(new) -> self.new_hh(x_new + r * new)": "the candidate's norm is on the sum. new_hh takes the state's part alone; the input's is normalized already.",
        "x_gates + self.gates_hh(gates) -> self.gates_hh(x_gates + gates) ; x_new + r * self.new_hh(new) -> self.new_hh(x_new + r * new)": "the norms are on the sums. gates_hh and new_hh take the state's part alone.",
        "x_gates + -> self.gates_ih(x_gates) + ; x_new + -> self.new_ih(x_new) +": "part is normalized a second time. from_input has done it.",
        "self.gates_hh -> self.gates_ih ; self.new_hh -> self.new_ih": "the norms of the input are on the state. The state has its own: gates_hh, new_hh.",
        "self.gates_hh(gates) -> _layer_norm(gates) ; self.new_hh(new) -> _layer_norm(new)": "gain and bias of the norms are not used: call self.gates_hh and self.new_hh.",
        "self.gates_hh(gates) -> _apart(gates, 2, self.gates_hh)": "r and z are normalized each by itself. They share one norm, 2H wide.",
        f"{_GATES} -> (x_gates + self.gates_hh(gates))": "the gates have no sigmoid.",
        f"{_GATES} -> torch.tanh(x_gates + self.gates_hh(gates))": "the gates have a tanh. A gate is between 0 and 1: sigmoid.",
        f"{_CANDIDATE} -> x_new + r * self.new_hh(new)": "the candidate has no tanh.",
        f"{_MIX} -> _layer_norm({_MIX})": "the new state is normalized once more. Only the summed inputs are.",
        f"{_MIX} -> n": "the candidate itself is returned. It is mixed with the old state: (1 - z) * n + z * h.",
        f"{_MIX} -> n + z * h": "the candidate is not held back: (1 - z) * n + z * h.",
    },
)

_ROWS, _OUT = "part + self.norm_hh(F.linear(h, self.weight_hh))", "torch.sigmoid(o) * torch.tanh(self.norm_c(new))"

_LSTM_INPUT_MISTAKES = known(
    _LSTM,
    {
        "self.norm_ih -> ": "nothing is normalized: norm_ih belongs on the product.",
        "self.norm_ih -> self.norm_hh": "that is the norm of the state. The input has its own: norm_ih.",
        "self.norm_ih -> _layer_norm": "gain and bias of the norm are not used: call self.norm_ih.",
        "self.norm_ih(F.linear(x, self.weight_ih)) -> _apart(F.linear(x, self.weight_ih), 4, self.norm_ih)": "each gate is normalized by itself. All four share one norm, 4H wide.",
        "self.norm_ih(F.linear(x, -> (F.linear(_layer_norm(x),": "x itself is normalized, and not its product with weight_ih.",
        "self.norm_ih(F.linear(x, self.weight_ih)) -> torch.sigmoid(self.norm_ih(F.linear(x, self.weight_ih)))": "the sigmoid comes too early. from_input only projects and normalizes.",
    },
)

_LSTM_STEP_MISTAKES = known(
    _LSTM,
    {
        f"{_OUT}, new -> {_OUT}, self.norm_c(new)": "the normalized c is returned and carried. In the paper c goes on as it is; only the way out has norm_c.",
        "* c + -> * self.norm_c(c) + ; self.norm_c(new) -> new": "the old c is normalized before the forget gate. norm_c is on the way out, before the last tanh.",
        "self.norm_c(new) -> new": "norm_c is missing: h = sigmoid(o) * tanh(norm_c(c)).",
        "torch.tanh(self.norm_c(new)) -> self.norm_c(torch.tanh(new))": "norm_c comes after the tanh. Before it: tanh(norm_c(c)).",
        "self.norm_c(new) -> self.norm_c(c)": "h comes from the old c. Compute the new c first.",
        "torch.tanh(self.norm_c(new)) -> self.norm_c(new)": "the last tanh is missing: h = sigmoid(o) * tanh(norm_c(c)).",
        "torch.sigmoid(o) * torch.tanh(self -> torch.tanh(self": "the output gate o is not used: h = sigmoid(o) * tanh(norm_c(c)).",
        f"{_OUT}, new -> new, {_OUT}": "the pair is swapped: return h first, then c.",
        f"{_OUT}, new -> {_OUT}": "c is not returned. The next step needs both: return h, c.",
        "i, f, g, o = -> f, i, o, g =": "the order of the gates is f, i, o, g, as the paper writes it. PyTorch's is i, f, g, o.",
        "i, f, g, o = -> f, i, g, o =": "i and f have changed places. The order is i, f, g, o.",
        "i, f, g, o = -> i, f, o, g =": "g and o have changed places. The order is i, f, g, o.",
        "self.norm_hh(F.linear(h, self.weight_hh)) -> F.linear(h, self.weight_hh)": "the state's part is not normalized: norm_hh is missing.",
        "self.norm_hh(F.linear(h, -> (F.linear(_layer_norm(h),": "h itself is normalized, and not its product with weight_hh.",
        f"{_ROWS} -> self.norm_hh(part + F.linear(h, self.weight_hh))": "the norm is on the sum. norm_hh takes the state's part alone; the input's is normalized already.",
        "part + -> self.norm_ih(part) +": "part is normalized a second time. from_input has done it.",
        "self.norm_hh -> self.norm_ih": "the input's norm is on the state. The state has its own: norm_hh.",
        "self.norm_hh -> _layer_norm": "gain and bias of norm_hh are not used: call it.",
        f"{_ROWS} -> part + _apart(F.linear(h, self.weight_hh), 4, self.norm_hh)": "each gate is normalized by itself. All four share one norm, 4H wide: normalize first, chunk afterwards.",
        "torch.tanh(g) -> g": "g has no tanh.",
        "torch.tanh(g) -> torch.sigmoid(g)": "g has a sigmoid. It is no gate, but what is written: tanh(g).",
        "torch.sigmoid -> ": "the gates have no sigmoid.",
        "torch.sigmoid -> torch.tanh": "the gates have a tanh. A gate is between 0 and 1: sigmoid.",
        "torch.sigmoid(f) -> torch.sigmoid(f + 1)": "1 is added to f in every step. The forget gate's 1 is in the bias already, where it is learned.",
        "torch.sigmoid(i) -> (1 - torch.sigmoid(f))": "the input gate is 1 - sigmoid(f). It has rows of its own: sigmoid(i).",
        f"{_OUT} -> self.norm_c(torch.sigmoid(o) * torch.tanh(new))": "norm_c is on h. It is inside the last tanh: sigmoid(o) * tanh(norm_c(c)).",
        f"{_OUT}, new -> {_OUT}, c": "the old c is returned. The next step needs the new one.",
        "torch.sigmoid(f) -> (1 - torch.sigmoid(i))": "the forget gate is 1 - sigmoid(i). It has rows of its own: sigmoid(f).",
    },
)


def _stages(pair, library, input_mistakes, step_mistakes):
    seed, gates, state = (61, 4, [(3, 6), (3, 6)]) if pair else (41, 3, [(3, 6)])
    steps = [_stepping(shape, seed + n, gates, pair) for n, shape in ((2, (3,)), (5, (2, 5)))]
    steps.append(_stepping((3,), seed + 8, gates, pair, **_IN_FLOAT32))
    calls = [
        _whole((3,), seed + 11, pair),
        _whole((), seed + 14, pair),
        _from_nothing(pair),
        _refused("x with 5 features for input_size 4", pair, (3, 5), *state),
        _refused(f"a {'c' if pair else 'state'} for another batch", pair, (3, 4), *state[1:], (1, 6)),
    ]
    inputs = [_from_input((3, 4), seed), _from_input((2, 5, 4), seed + 1), _from_input((3, 4), seed, **_IN_FLOAT32)]
    started = lambda cls: {"norm_ih.bias of i, f, g, o": cls(4, 6).norm_ih.bias.detach().view(4, 6)}
    return [
        ([Probe("a new cell, (4, 6)", _parameters)], [Mistake(_NAMES, library)]),
        (inputs, input_mistakes, "from_input"),
        (steps, step_mistakes, "step"),
        (calls + [Probe("a new cell, (4, 6)", started)] * pair, []),
    ]


_GRU_STAGES = _stages(False, nn.GRUCell, _GRU_INPUT_MISTAKES, _GRU_STEP_MISTAKES)
_LSTM_STAGES = _stages(True, nn.LSTMCell, _LSTM_INPUT_MISTAKES, _LSTM_STEP_MISTAKES)


def gru_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: a GRU with four norms (lesson 10)."""
    in_stages(answer, "gru_cell", _GRU_STAGES, _GRU, _CELL_RIGHT)


def lstm_cell(answer):
    """Check a class (input_size, hidden_size) with from_input, step and forward: an LSTM with three norms (lesson 10)."""
    in_stages(answer, "lstm_cell", _LSTM_STAGES, _LSTM, _CELL_RIGHT)


# ---- masks
def _last(cell, x, lengths):
    h = x.new_zeros(len(x), cell.hidden_size)
    for t in range(x.shape[1]):
        alive = (t < lengths)[:, None]
        h = torch.where(alive, cell(x[:, t], h), h)
    return h


def _sequences(label, H, lengths, T, seed, end=None, **options):
    """A batch whose padding shows: large numbers, or end (then without gradients: a cell's own gives 0 * nan)."""
    B, lengths = len(lengths), torch.tensor(lengths)
    padding = (torch.arange(T) >= lengths[:, None])[..., None]  # (B, T, 1)
    behind = 5 + 3 * draw(seed + 1, B, T, 3) if end is None else torch.full((B, T, 3), end)
    x = torch.where(padding, behind, draw(seed, B, T, 3))

    def compute(answer, given):
        told = lengths.clone()
        out = answer(_fill(nn.GRUCell(3, H)).to(given["x"].dtype), given["x"], told)
        return {"lengths after the call": told, "the states": out}, {}

    shown = {"lengths": str(lengths.tolist())}
    return _watched(label, {"x": x}, compute, gradient=end is None, shown=shown, **options)


_MASK_PROBES = [
    _sequences("4 sequences of 6, 2, 5 and 1 steps, padded to 6", 5, [6, 2, 5, 1], 6, 101),
    _sequences("5 sequences of 5 units", 5, [2, 4, 3, 1, 4], 4, 111),
    _sequences("a batch that is padded further than its longest sequence", 4, [3, 5, 4], 7, 121),
    _sequences("sequences padded with nan", 5, [6, 2, 5, 1], 6, 101, end=float("nan")),
    # six steps of a cell whose states stay below 1, some units of 1e-7 each
    _sequences("float32 sequences", 5, [6, 2, 5, 1], 6, 101, dtype=torch.float32, tolerance=1e-5),
]

_CHOSEN, _RUN = "torch.where(alive, cell(x[:, t], h), h)", "cell(x[:, t], h)"
_STACKED = "return h -> return torch.stack(states, 1)"
_ALL = f"h = x -> states = []; h = x ; {_CHOSEN} -> {_RUN}; states.append(h) ; {_STACKED}"

_ON = "the loop goes on through the padding. A sequence that has ended must keep its state."
_ZEROS = "the state is set to zero where a sequence has ended. It must keep its last one: torch.where(alive, new, h)."
_CLEARED = "the padding is set to zero, but the loop goes on: zeros are an input, too. Keep the state."
_MASK_MISTAKES = known(
    _last,
    {
        f"{_CHOSEN} -> {_RUN}": _ON,
        "t < lengths -> t <= lengths": "one step too many: step t (from 0) belongs to a sequence while t < length.",
        "t < lengths -> t < lengths - 1": "one step too few: the last step is number length - 1, so t < length.",
        f"{_CHOSEN} -> {_RUN} * alive": _ZEROS,
        f"{_CHOSEN} -> torch.where(alive, h, {_RUN})": "the choice is the wrong way round: the new state while the sequence lives, the old one afterwards.",
        f"{_CHOSEN} -> cell(x[:, t] * alive, h)": _CLEARED,
        f"{_CHOSEN} -> torch.where(alive, {_RUN}, 0)": _ZEROS,
        f"{_CHOSEN} -> cell(torch.where(alive, x[:, t], 0), h)": _CLEARED,
        f"{_CHOSEN} -> {_RUN} ; x.shape[1] -> int(lengths.max())": _ON,
        f"{_CHOSEN} -> alive * {_RUN} + ~alive * h": "old and new state are weighed with 1 and 0, and 0 * nan is nan: padding of nan or inf gets in. Choose, with torch.where(alive, new, h).",
        "[:, None] -> ": "the mask has the shape (B,) and meets (B, H): make it (B, 1), with [:, None].",
        f"{_ALL}[torch.arange(len(x)), lengths]": "the states at index length are taken. The last step is number length - 1.",
        f"{_ALL}[:, :].mul((torch.arange(x.shape[1]) < lengths[:, None])[..., None]).sum(1) / lengths[:, None]": "the states of a sequence are averaged. Wanted is the last one.",
        f"{_CHOSEN} -> {_RUN} ; x.shape[1] -> int(lengths.min())": "all sequences stop at the end of the shortest.",
        "return h -> return cell(x[torch.arange(len(x)), lengths - 1], torch.zeros_like(h))": "only the last input is read, from a state of zeros. Run all the steps up to it.",
        "return h -> return h[lengths.argsort(descending=True)]": "the states come in the order of the lengths. Put them back into the order of x.",
    },
)


def last_states(answer):
    """Check a function (cell, x, lengths) -> the state of each sequence after its own last step, (B, H) (lesson 10)."""
    tried = "loud padding, padding of nan, float32, gradients"
    examine(answer, "last_states", _MASK_PROBES, _last, _MASK_MISTAKES, tried)


# ---- the clinic
class _Tagger(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, x):
        return self.norm(self.rnn(x)[0])


def _tag_names(cls):
    try:
        tagger = cls(3, 6)
    except TypeError as error:
        return {"MendedTagger(3, 6)": raised(error)}
    shapes = {name: tuple(p.shape) for name, p in tagger.named_parameters() if not name.startswith("rnn.")}
    kinds = {name: type(getattr(tagger, name, None)).__name__ for name in ("rnn", "norm")}
    return {"the layers": kinds, "the parameters besides rnn's": shapes}


def _tag(shape, seed, kind="", **options):
    compute = lambda cls, given: ({"the scores": _fill(cls(3, 6)).to(given["x"].dtype)(given["x"])}, {})
    return _watched(f"x of shape {shape}{kind}", {"x": draw(seed, *shape)}, compute, **options)


_TAG_NAME_PROBES = [Probe("a new tagger, (3, 6)", _tag_names)]
_TAG_PROBES = [_tag((B, T, 3), 131 + n) for n, (B, T) in enumerate([(4, 5), (2, 7), (3, 3), (1, 1)])]
_TAG_PROBES.append(_tag((2, 7, 3), 135, **_IN_FLOAT32))

_SCORES, _NEW_NORM = "self.norm(self.rnn(x)[0])", "self.norm = nn.LayerNorm(hidden_size)"
_PAIR = "nn.GRU returns a pair, the states of all steps and the last one. Take the first: self.rnn(x)[0]."

_TAG_NAME_MISTAKES = known(
    _Tagger,
    {
        "hidden_size): -> hidden_size, steps):": "the tagger still needs the number of steps. It takes (input_size, hidden_size), and any length.",
        "hidden_size): -> hidden_size, steps=5): ; LayerNorm(hidden_size) -> LayerNorm([steps, hidden_size])": "the gains still have one row for each step, and the norm looks along time: nn.LayerNorm(hidden_size).",
        "LayerNorm(hidden_size) -> LayerNorm(2 * hidden_size) ; batch_first -> bidirectional=True, batch_first": "the norm is 2H wide. A bidirectional GRU would fit it, but that reads from the end too, and so looks ahead.",
        "LayerNorm(hidden_size) -> LayerNorm(input_size)": "the norm has the width of the input. It normalizes what comes out of the GRU: nn.LayerNorm(hidden_size).",
        "LayerNorm(hidden_size) -> LayerNorm(hidden_size, elementwise_affine=False)": "the norm has no gain and bias. Leave elementwise_affine as it is.",
        f"{_NEW_NORM} -> self.norm = nn.BatchNorm1d(hidden_size)": "that is BatchNorm: its statistics mix the samples. Asked is nn.LayerNorm(hidden_size).",
        f"{_NEW_NORM} -> pass ; self.norm(self -> nn.LayerNorm(6)(self": "self.norm is not made in __init__: gains that are made in forward are never trained.",
        "nn.GRU -> nn.LSTM": "rnn is an LSTM. Asked is nn.GRU.",
        "nn.GRU -> nn.RNN": "rnn is a plain RNN. Asked is nn.GRU.",
    },
)

_TAG_MISTAKES = known(
    _Tagger,
    {
        ", batch_first=True -> ": "still to mend: the GRU reads (T, B, I), so the state wanders from sample to sample. Write batch_first=True.",
        f"return {_SCORES} -> y = self.rnn(x)[0]; return F.layer_norm(y, y.shape[1:]) * self.norm.weight + self.norm.bias": "still to mend: the norm takes its mean over the steps too, so the future is in the past. Last axis only.",
        f"{_SCORES} -> self.rnn(x)[0]": "the output is not normalized any more. Keep self.norm on what the GRU gives.",
        ", batch_first=True ->  ; self.rnn(x) -> self.rnn(x.transpose(0, 1))": "the result has the steps first. Transpose it back, or use batch_first=True.",
        ", batch_first=True ->  ; self.rnn(x)[0] -> self.rnn(x.reshape(x.shape[1], x.shape[0], -1))[0].reshape(*x.shape[:2], -1)": "reshape and view do not exchange two axes. Use transpose(0, 1), or batch_first=True.",
        "self.rnn(x)[0] -> self.rnn(x)[0][:, -1]": "only the last state is returned. Every step gets its scores.",
        "self.rnn(x)[0] -> self.rnn(x)[1]": _PAIR,
        "self.rnn(x)[0] -> self.rnn(x)": _PAIR,
        f"{_SCORES} -> _layer_norm(self.rnn(x)[0].transpose(0, 2)).transpose(0, 2) * self.norm.weight + self.norm.bias": "the scores are normalized over the batch. Each step of each sequence is normalized by itself, over H.",
        "self.norm(self.rnn(x)[0]) -> _layer_norm(self.rnn(x)[0])": "gain and bias of the norm are not used: call self.norm.",
    },
)


def mended_tagger(answer):
    """Check a class (input_size, hidden_size): a GRU read batch first, and a LayerNorm over its H features (lesson 10)."""
    stages = [(_TAG_NAME_PROBES, _TAG_NAME_MISTAKES, "the layers"), (_TAG_PROBES, _TAG_MISTAKES, "forward")]
    right = "{answer.__name__} keeps samples and steps apart (values, gradients, several lengths)"
    in_stages(answer, "mended_tagger", stages, _Tagger, right)

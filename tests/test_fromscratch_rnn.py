"""fromscratch.LayerNormGRUCell and LayerNormLSTMCell: formulas, PyTorch's cells without norms, names, refusals."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNorm, LayerNormGRUCell, LayerNormLSTMCell
from tests.helpers import draw

CELLS = [LayerNormGRUCell, LayerNormLSTMCell]
PLAIN = {LayerNormGRUCell: nn.GRUCell, LayerNormLSTMCell: nn.LSTMCell}


def made(cls, I=4, H=6, seed=0, dtype=torch.float64):  # noqa: E741
    """A cell with random parameters, gains and biases included."""
    cell = cls(I, H).to(dtype)
    with torch.no_grad():
        for number, parameter in enumerate(cell.parameters()):
            parameter.copy_(draw(seed + number, *parameter.shape))
    return cell


def state_of(cls, *shape, seed=50, dtype=torch.float64):
    """A random state that cls takes."""
    h, c = draw(seed, *shape, dtype=dtype), draw(seed + 1, *shape, dtype=dtype)
    return (h, c) if cls is LayerNormLSTMCell else h


def tensors(out):
    return out if isinstance(out, tuple) else (out,)


def norm(row, layer):
    return F.layer_norm(row, row.shape[-1:], layer.weight, layer.bias, layer.eps)


def gru(cell, x, h):
    """The GRU of Ba et al. (2016) in PyTorch's convention, gate by gate."""
    H = cell.hidden_size
    from_x, from_h = x @ cell.weight_ih.T, h @ cell.weight_hh.T
    gates = norm(from_x[..., : 2 * H], cell.gates_ih) + norm(from_h[..., : 2 * H], cell.gates_hh)
    r, z = gates[..., :H].sigmoid(), gates[..., H:].sigmoid()
    n = (norm(from_x[..., 2 * H :], cell.new_ih) + r * norm(from_h[..., 2 * H :], cell.new_hh)).tanh()
    return ((1 - z) * n + z * h,)


def lstm(cell, x, state):
    """Ba et al. (2016), eqs. 20 to 22, gate by gate."""
    H, (h, c) = cell.hidden_size, state
    gates = norm(x @ cell.weight_ih.T, cell.norm_ih) + norm(h @ cell.weight_hh.T, cell.norm_hh)
    i, f, g, o = (gates[..., k * H : (k + 1) * H] for k in range(4))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * norm(c, cell.norm_c).tanh(), c


FORMULA = {LayerNormGRUCell: gru, LayerNormLSTMCell: lstm}


@pytest.mark.parametrize("cls", CELLS)
@pytest.mark.parametrize("shape", [(3,), (2, 5), (), (0,)])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_formula(cls, shape, dtype, tolerance):
    cell, x, state = made(cls, dtype=dtype), draw(40, *shape, 4, dtype=dtype), state_of(cls, *shape, 6, dtype=dtype)
    wide = state if isinstance(state, torch.Tensor) else tuple(s.double() for s in state)
    wide = wide.double() if isinstance(wide, torch.Tensor) else wide
    exact = FORMULA[cls](copy.deepcopy(cell).double(), x.double(), wide)
    for ours, right in zip(tensors(cell(x, state)), exact, strict=True):
        assert ours.dtype == dtype and ours.shape == (*shape, 6)
        torch.testing.assert_close(ours.double(), right, atol=tolerance, rtol=tolerance)


class Shift(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, x):
        return x + self.bias


def bare(cls, plain):
    """A cell of ours with the weights of PyTorch's and every norm replaced by its bias, norm_c by nothing."""
    cell = cls(plain.input_size, plain.hidden_size).to(plain.weight_ih.dtype)
    norms = {name: layer for name, layer in cell.named_children()}
    cut = 2 * plain.hidden_size
    parts = {
        "gates_ih": plain.bias_ih[:cut],
        "new_ih": plain.bias_ih[cut:],
        "gates_hh": plain.bias_hh[:cut],
        "new_hh": plain.bias_hh[cut:],
        "norm_ih": plain.bias_ih,
        "norm_hh": plain.bias_hh,
    }
    for name in norms:
        setattr(cell, name, nn.Identity() if name == "norm_c" else Shift(parts[name]))
    cell.weight_ih, cell.weight_hh = plain.weight_ih, plain.weight_hh
    return cell


@pytest.mark.parametrize("cls", CELLS)
def test_without_norms_it_is_pytorchs_cell_over_several_steps(cls):
    plain = made(PLAIN[cls])
    cell = bare(cls, plain)
    ours = theirs = None
    x = draw(41, 7, 3, 4).requires_grad_()  # (T, B, I)
    for x_t in x:
        ours, theirs = cell(x_t, ours), plain(x_t, theirs)
        for mine, torchs in zip(tensors(ours), tensors(theirs), strict=True):
            torch.testing.assert_close(mine, torchs, atol=1e-12, rtol=0)
    upstream, leaves = draw(42, 3, 6), [x, *plain.parameters()]
    found, right = (torch.autograd.grad((tensors(out)[0] * upstream).sum(), leaves) for out in (ours, theirs))
    for mine, torchs in zip(found, right, strict=True):
        torch.testing.assert_close(mine, torchs, atol=1e-11, rtol=0)


@pytest.mark.parametrize("cls", CELLS)
def test_pytorchs_matrices_load_as_they_are(cls):
    theirs, ours = PLAIN[cls](4, 6, bias=False), cls(4, 6)
    missing, unexpected = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert not unexpected and not [name for name in missing if name.startswith("weight")]
    assert torch.equal(ours.weight_hh, theirs.weight_hh)


NAMES = {
    LayerNormGRUCell: {"weight_ih": (18, 4), "weight_hh": (18, 6)}
    | {
        f"{norm}.{kind}": (12 if norm.startswith("gates") else 6,)
        for norm in ("gates_ih", "gates_hh", "new_ih", "new_hh")
        for kind in ("weight", "bias")
    },
    LayerNormLSTMCell: {"weight_ih": (24, 4), "weight_hh": (24, 6)}
    | {
        f"{norm}.{kind}": (6 if norm == "norm_c" else 24,)
        for norm in ("norm_ih", "norm_hh", "norm_c")
        for kind in ("weight", "bias")
    },
}


@pytest.mark.parametrize("cls", CELLS)
def test_names_and_first_values(cls):
    cell = cls(4, 6)
    assert {name: tuple(value.shape) for name, value in cell.state_dict().items()} == NAMES[cls]
    assert set(dict(cell.named_parameters())) == set(NAMES[cls]), "no buffers: nothing to remember"
    assert all(isinstance(layer, LayerNorm) for layer in cell.children())
    for name, value in cell.state_dict().items():
        if name in ("weight_ih", "weight_hh"):
            assert value.abs().max() <= 6**-0.5 and value.std() > 0.1
        elif name.endswith("weight"):
            assert (value == 1).all()
        elif name == "norm_ih.bias":
            assert value.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12  # the forget gate
        else:
            assert (value == 0).all()
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in cell.parameters())


@pytest.mark.parametrize("cls", CELLS)
def test_state_dicts_and_copies(cls):
    cell, fresh = made(cls), cls(4, 6).double()
    fresh.load_state_dict(cell.state_dict())
    x = draw(43, 3, 4)
    for a, b, c in zip(tensors(cell(x)), tensors(fresh(x)), tensors(copy.deepcopy(cell)(x)), strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
    assert tensors(cls(4, 6).to("meta")(torch.empty(3, 4, device="meta")))[0].shape == (3, 6)


@pytest.mark.parametrize("cls", CELLS)
def test_no_state_is_a_state_of_zeros(cls):
    cell, x, zeros = made(cls), draw(44, 3, 4), torch.zeros(3, 6, dtype=torch.float64)
    state = (zeros, zeros) if cls is LayerNormLSTMCell else zeros
    for a, b in zip(tensors(cell(x)), tensors(cell(x, state)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("cls", CELLS)
def test_all_steps_of_the_input_at_once(cls):
    cell, x = made(cls), draw(45, 2, 5, 4)
    parts = cell.from_input(x)
    assert parts.shape == (2, 5, cell.weight_ih.shape[0])
    one, many = cell(x[:, 0]), cell.step(parts[:, 0], state_of(cls, 2, 6))
    assert tensors(one)[0].shape == tensors(many)[0].shape == (2, 6)
    for t in range(5):
        torch.testing.assert_close(parts[:, t], cell.from_input(x[:, t]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("cls", CELLS)
def test_the_scale_of_a_matrix_drops_out(cls):
    cell, x, state = made(cls), draw(46, 3, 4), state_of(cls, 3, 6)
    before = tensors(cell(x, state))
    with torch.no_grad():
        cell.weight_ih *= 50
        cell.weight_hh *= 20
    for a, b in zip(before, tensors(cell(x, state)), strict=True):
        assert (a - b).abs().max() < 1e-4  # eps = 1e-5 beside variances of order 1


def test_the_lstm_carries_c_itself():
    cell, x = made(LayerNormLSTMCell), draw(47, 3, 4)
    h, c = cell(x, (draw(48, 3, 6), 100 + draw(49, 3, 6)))
    assert c.mean(-1).abs().min() > 1, "not normalized"
    assert h.abs().max() <= 1


@pytest.mark.parametrize("cls", CELLS)
def test_gradients(cls):
    cell, x, state = made(cls, 2, 3), draw(51, 2, 2).requires_grad_(), state_of(cls, 2, 3)
    leaves = [x, *(s.requires_grad_() for s in tensors(state))]

    def run(x, *state):
        return cell(x, state if cls is LayerNormLSTMCell else state[0])

    assert torch.autograd.gradcheck(run, leaves)
    outputs = tensors(run(*leaves))
    loss = sum((out * draw(60 + n, *out.shape)).sum() for n, out in enumerate(outputs))
    gradients = torch.autograd.grad(loss, list(cell.parameters()))
    assert all(gradient.abs().max() > 0 for gradient in gradients), "every parameter takes part"


@pytest.mark.parametrize("cls", CELLS)
@pytest.mark.parametrize(
    "x, h, words",
    [
        ((3, 5), (3, 6), r"x has shape \(3, 5\), expected \(\.\.\., 4\): input_size=4"),
        ((3, 4), (3, 5), r"h has shape \(3, 5\), expected \(3, 6\) for x \(3, 4\)"),
        ((3, 4), (2, 6), r"h has shape \(2, 6\), expected \(3, 6\)"),
        ((3, 4), (6,), r"h has shape \(6,\), expected \(3, 6\)"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(cls, x, h, words):
    state = (torch.zeros(h), torch.zeros(h)) if cls is LayerNormLSTMCell else torch.zeros(h)
    with pytest.raises(RuntimeError, match=words):
        cls(4, 6)(torch.zeros(x), state)


def test_a_cell_state_of_another_size_is_refused():
    with pytest.raises(RuntimeError, match=r"c has shape \(2, 6\)"):
        LayerNormLSTMCell(4, 6)(torch.zeros(3, 4), (torch.zeros(3, 6), torch.zeros(2, 6)))


@pytest.mark.parametrize("cls", CELLS)
def test_other_dtypes_are_refused(cls):
    with pytest.raises(RuntimeError):
        cls(4, 6)(torch.zeros(3, 4, dtype=torch.float64))

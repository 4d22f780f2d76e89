"""What lesson 10 builds: LayerNormGRUCell, LayerNormLSTMCell, Reader, Shift, without_norms.

Made by coursebuild from lessons_src/lessons/10_rnn/lesson.py: edit the lesson, not this file.
"""

from fromscratch import LayerNorm
from torch import nn
from torch.nn import functional as F
import torch


# Compares shapes, as PyTorch's cells do.
def _check_step(cell, x, states):
    """Raise RuntimeError, as PyTorch's cells do, for an input or a state of the wrong size.

    x: (..., input_size).
    states: {name: tensor (..., hidden_size) with the leading axes of x}.
    """
    if x.shape[-1] != cell.input_size:
        raise RuntimeError(
            f"x has shape {tuple(x.shape)}, expected (..., {cell.input_size}): "
            f"input_size={cell.input_size}."
        )
    wanted = (*x.shape[:-1], cell.hidden_size)
    for name, state in states.items():
        if tuple(state.shape) != wanted:
            raise RuntimeError(
                f"{name} has shape {tuple(state.shape)}, expected {wanted} for x "
                f"{tuple(x.shape)}."
            )


class LayerNormGRUCell(nn.Module):
    """A GRU cell with LayerNorm on its summed inputs, separately for input and state.

    weight_ih (3H, I), weight_hh (3H, H): the rows of r, z, n, as in nn.GRUCell;
    I input_size, H hidden_size. gates_ih, gates_hh: LayerNorm(2H) for r and z together.
    new_ih, new_hh: LayerNorm(H) for the candidate. Their biases are the cell's biases.
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.gates_ih, self.gates_hh = LayerNorm(2 * hidden_size), LayerNorm(2 * hidden_size)
        self.new_ih, self.new_hh = LayerNorm(hidden_size), LayerNorm(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)  # as PyTorch does

    def from_input(self, x):
        """x: (..., I). Returns (..., 3H): what r, z, n get from the input, normalized."""
        rows = F.linear(x, self.weight_ih)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)  # (..., 3H)

    def step(self, part, h):
        """part: (..., 3H), from from_input. h: (..., H). Returns the new state (..., H).
        Example: where all of z is 1, it is h."""
        rows = F.linear(h, self.weight_hh)  # (..., 3H)
        gates, new = rows.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        x_gates, x_new = part.tensor_split([2 * self.hidden_size], -1)  # (..., 2H), (..., H)
        r, z = torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)  # (..., H) each
        # Your part: the candidate, from x_new and new, and the new state.
        n = torch.tanh(x_new + r * self.new_hh(new))  # (..., H)
        return (1 - z) * n + z * h  # (..., H)

    def forward(self, x, h=None):
        """x: (..., I). h: (..., H), zeros if None. Returns the new state (..., H)."""
        h = x.new_zeros(*x.shape[:-1], self.hidden_size) if h is None else h
        _check_step(self, x, {"h": h})
        return self.step(self.from_input(x), h)


# Takes the norms out of a cell.
class Shift(nn.Module):
    """What is left of a LayerNorm without the normalization and the gain: x + bias."""

    def __init__(self, norm):
        super().__init__()
        self.bias = norm.bias

    def forward(self, x):
        return x + self.bias


def without_norms(cell):
    """Replace the cell's norms by their biases, the LSTM's norm of c by nothing; return it."""
    for name, norm in list(cell.named_children()):
        setattr(cell, name, nn.Identity() if name == "norm_c" else Shift(norm))
    return cell


# Reads digits with a cell.
class Reader(nn.Module):
    """Reads (B, T, I) with a cell; a linear layer makes outputs of the last state."""

    def __init__(self, cell, outputs=10):
        super().__init__()
        self.cell, self.head = cell, nn.Linear(cell.hidden_size, outputs)
        H = cell.hidden_size
        for W, U in zip(cell.weight_ih.split(H), cell.weight_hh.split(H), strict=True):
            nn.init.xavier_uniform_(W), nn.init.orthogonal_(U)  # each gate by itself

    def forward(self, x):
        h = x.new_zeros(len(x), self.cell.hidden_size)  # (B, H)
        state = (h, h) if hasattr(self.cell, "norm_c") else h
        for part in self.cell.from_input(x).unbind(1):  # T times (B, 3H or 4H)
            state = self.cell.step(part, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class LayerNormLSTMCell(nn.Module):
    """An LSTM cell with LayerNorm as in Ba et al. (2016), eqs. 20 to 22.

    weight_ih (4H, I), weight_hh (4H, H): the rows of i, f, g, o, as in nn.LSTMCell;
    I input_size, H hidden_size. norm_ih, norm_hh: LayerNorm(4H), on the two projections;
    their biases are the cell's. norm_c: LayerNorm(H), before the last tanh only.
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.norm_ih, self.norm_hh = LayerNorm(4 * hidden_size), LayerNorm(4 * hidden_size)
        self.norm_c = LayerNorm(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)  # as PyTorch does
        nn.init.ones_(self.norm_ih.bias[hidden_size : 2 * hidden_size].data)  # the forget gate

    def from_input(self, x):
        """x: (..., I). Returns (..., 4H): what i, f, g, o get from the input, normalized."""
        return self.norm_ih(F.linear(x, self.weight_ih))  # (..., 4H)

    def step(self, part, state):
        """part: (..., 4H). state: (h, c), each (..., H). Returns the new (h, c)."""
        h, c = state
        rows = part + self.norm_hh(F.linear(h, self.weight_hh))  # (..., 4H)
        i, f, g, o = rows.chunk(4, -1)  # (..., H) each
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (..., H)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c  # (..., H), (..., H)

    def forward(self, x, state=None):
        """x: (..., I). state: (h, c), each (..., H), zeros if None. Returns the new (h, c)."""
        state = (x.new_zeros(*x.shape[:-1], self.hidden_size),) * 2 if state is None else state
        _check_step(self, x, dict(zip("hc", state, strict=True)))
        return self.step(self.from_input(x), state)

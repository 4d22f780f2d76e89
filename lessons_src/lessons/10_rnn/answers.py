"""Answers that people give to the exercises of lesson 10."""

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _GRU, _LSTM, _step, _Tagger


# ---- normed_step
def step_by_hand(x, h, W, U, weight, bias):
    a = F.linear(x, W) + F.linear(h, U)
    c = a - a.mean(-1, keepdim=True)
    return (c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5) * weight + bias).tanh()


# ---- the cells
def in_gru_step(line):
    return instead(_GRU, f"def step(self, part, h):\n    {line}")


class GRUOtherNames(_GRU):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.norm_x = self.gates_ih
        del self.gates_ih


class LSTMList(_LSTM):
    def from_input(self, x):
        return self.norm_ih(x @ self.weight_ih.mT)

    def step(self, part, state):
        gates = (part + self.norm_hh(state[0] @ self.weight_hh.mT)).unflatten(-1, (4, -1))
        i, f, o = torch.sigmoid(gates[..., [0, 1, 3], :]).unbind(-2)
        c = f * state[1] + i * torch.tanh(gates[..., 2, :])
        return [o * torch.tanh(self.norm_c(c)), c]


class LSTMOfSix(_LSTM):
    def step(self, part, state):
        i, f, g, o = (part + self.norm_hh(state[0] @ self.weight_hh.mT)).split(6, -1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c


class LSTMWithoutForgetBias(_LSTM):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        nn.init.zeros_(self.norm_ih.bias)


# ---- the clinic
class Transposed(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn, self.norm = nn.GRU(input_size, hidden_size), nn.LayerNorm(hidden_size)

    def forward(self, x):
        y, _ = self.rnn(x.transpose(0, 1))
        return self.norm(y).transpose(0, 1)


class GoesOn(_Tagger):
    """Begins where the batch before ended, in eval(), if that was as large."""

    state = None

    def forward(self, x):
        fits = self.state is not None and self.state.shape[1] == len(x) and not self.training
        y, state = self.rnn(x, self.state if fits else None)
        self.state = state.detach()
        return self.norm(y)


def step_state_first(x, h, W, U, weight, bias):
    """Rounds differently in each unit, which shows where all rows of W and U are equal."""
    a = F.linear(torch.hstack((h, x)), torch.hstack((U, W)))
    return torch.tanh(F.layer_norm(a, a.shape[1:]) * weight + bias)


ANSWERS = {
    "normed_step": {
        "right": {
            "the lesson's": _step,
            "by hand": step_by_hand,
            "state first": step_state_first,
        },
        "wrong": {
            "a layer at each call": (
                instead(_step, "normed = nn.LayerNorm(a.shape[-1])(a)"),
                "makes anew",
            )
        },
    },
    "gru_cell": {
        "right": {"the lesson's": _GRU, "in one": in_gru_step("return n + z * (h - n)")},
        "wrong": {
            "detached": (
                in_gru_step("rows = F.linear(h.detach(), self.weight_hh)"),
                "gradient",
            ),
            "other names": (GRUOtherNames, "new cell, (4, 6)"),
            "six units": (
                in_gru_step("n = torch.tanh(x_new + r * self.new_hh(new)[..., :6])"),
                "(3, 9)",
            ),
        },
    },
    "lstm_cell": {
        "right": {
            "the lesson's": _LSTM,
            "a list": LSTMList,
            "in place": instead(
                _LSTM, "c = (torch.sigmoid(f) * c).add_(torch.sigmoid(i) * torch.tanh(g))"
            ),
        },
        "wrong": {
            "the given bias lost": (LSTMWithoutForgetBias, "norm_ih.bias at the start[1]"),
            "six units": (LSTMOfSix, "(3, 9)"),
        },
    },
    "back_one_step": {
        "right": {"rounded": {"on_sum": 0.385, "no_input": 1.0, "each_part": 2.0}}
    },
    "mended_tagger": {
        "right": {"batch_first": _Tagger, "transposed": Transposed},
        "wrong": {
            "the example's width": (
                instead(_Tagger, "self.norm = nn.LayerNorm(6)"),
                "expected {'norm.weight': (7,)",
            ),
            "its last state goes on in eval()": (GoesOn, "the output in eval()"),
            "six units": (
                instead(
                    _Tagger,
                    "return F.layer_norm(states, (6,), self.norm.weight, self.norm.bias)",
                ),
                "(4, 5, 2)",
            ),
        },
    },
}

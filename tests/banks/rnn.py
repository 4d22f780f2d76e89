"""Answers that people give to the exercises of lesson 10."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import LayerNorm


def ln(row, weight=None, bias=None):
    return F.layer_norm(row, row.shape[-1:], weight, bias)


# ---- 10.1 ------------------------------------------------------------------------------------------------------------


def step_short(x, h, W, U, weight, bias):
    return torch.tanh(ln(x @ W.T + h @ U.T, weight, bias))


def step_by_hand(x, h, W, U, weight, bias):
    a = F.linear(x, W) + F.linear(h, U)
    c = a - a.mean(-1, keepdim=True)
    return (c / torch.sqrt((c * c).mean(-1, keepdim=True) + 1e-5) * weight + bias).tanh()


def step_one_product(x, h, W, U, weight, bias):
    a = torch.cat([x, h], -1) @ torch.cat([W, U], -1).T
    return torch.tanh(ln(a, weight, bias))


def step_std(correction, eps_inside):
    def answer(x, h, W, U, weight, bias):
        a = x @ W.T + h @ U.T
        if eps_inside:
            sd = torch.sqrt(a.var(-1, correction=correction, keepdim=True) + 1e-5)
        else:
            sd = a.std(-1, correction=correction, keepdim=True) + 1e-5
        return torch.tanh((a - a.mean(-1, keepdim=True)) / sd * weight + bias)

    return answer


# ---- 10.3 ------------------------------------------------------------------------------------------------------------


class GRU(nn.Module):
    """The frame that the lesson gives; answers fill in from_input and step."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.rand(3 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.rand(3 * hidden_size, hidden_size))
        self.gates_ih, self.gates_hh = LayerNorm(2 * hidden_size), LayerNorm(2 * hidden_size)
        self.new_ih, self.new_hh = LayerNorm(hidden_size), LayerNorm(hidden_size)

    def from_input(self, x):
        gates, new = F.linear(x, self.weight_ih).tensor_split([2 * self.hidden_size], -1)
        return torch.cat([self.gates_ih(gates), self.new_ih(new)], -1)

    def step(self, part, h):
        gates, new = F.linear(h, self.weight_hh).tensor_split([2 * self.hidden_size], -1)
        x_gates, x_new = part.tensor_split([2 * self.hidden_size], -1)
        r, z = torch.sigmoid(x_gates + self.gates_hh(gates)).chunk(2, -1)
        return (1 - z) * torch.tanh(x_new + r * self.new_hh(new)) + z * h

    def forward(self, x, h=None):
        h = x.new_zeros(*x.shape[:-1], self.hidden_size) if h is None else h
        if x.shape[-1] != self.input_size or tuple(h.shape) != (*x.shape[:-1], self.hidden_size):
            raise RuntimeError(f"{tuple(x.shape)} and {tuple(h.shape)} do not fit")
        return self.step(self.from_input(x), h)


def gru(step=None, from_input=None, base=GRU):
    parts = {"step": step, "from_input": from_input}
    return type("LayerNormGRUCell", (base,), {name: part for name, part in parts.items() if part})


def cut(self, rows):
    H = self.hidden_size
    return rows[..., :H], rows[..., H : 2 * H], rows[..., 2 * H :]


def gru_slices(self, part, h):
    H, from_h = self.hidden_size, h @ self.weight_hh.T
    gates = torch.sigmoid(part[..., : 2 * H] + self.gates_hh(from_h[..., : 2 * H]))
    r, z = gates[..., :H], gates[..., H:]
    n = torch.tanh(part[..., 2 * H :] + r * self.new_hh(from_h[..., 2 * H :]))
    return n + z * (h - n)


def gru_two_products(self, x):
    H = self.hidden_size
    gates, new = self.gates_ih(x @ self.weight_ih[: 2 * H].T), self.new_ih(x @ self.weight_ih[2 * H :].T)
    return torch.cat((gates, new), dim=-1)


def gru_step(mix=None, candidate=None, gate=None, swap=False):
    """Return a step with one part changed."""

    def step(self, part, h):
        H, from_h = self.hidden_size, h @ self.weight_hh.T
        x_gates, x_new, h_gates, h_new = (
            part[..., : 2 * H],
            part[..., 2 * H :],
            from_h[..., : 2 * H],
            from_h[..., 2 * H :],
        )
        gates = gate(self, x_gates, h_gates) if gate else torch.sigmoid(x_gates + self.gates_hh(h_gates))
        r, z = gates.chunk(2, -1)[::-1] if swap else gates.chunk(2, -1)
        n = candidate(self, x_new, h_new, r, h) if candidate else torch.tanh(x_new + r * self.new_hh(h_new))
        return mix(z, n, h) if mix else (1 - z) * n + z * h

    return step


def gru_input(join):
    def from_input(self, x):
        H, rows = self.hidden_size, x @ self.weight_ih.T
        return join(self, rows[..., : 2 * H], rows[..., 2 * H :])

    return from_input


class GRUInPlace(GRU):
    def step(self, part, h):
        h *= 0.5
        return GRU.step(self, part, 2 * h)


class GRUDetached(GRU):
    def step(self, part, h):
        return GRU.step(self, part, h.detach())


class GRUOtherNames(GRU):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.norm_x = self.gates_ih
        del self.gates_ih


# ---- 10.4 ------------------------------------------------------------------------------------------------------------


class LSTM(nn.Module):
    """The frame that the lesson gives; answers fill in from_input and step."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.rand(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.rand(4 * hidden_size, hidden_size))
        self.norm_ih, self.norm_hh = LayerNorm(4 * hidden_size), LayerNorm(4 * hidden_size)
        self.norm_c = LayerNorm(hidden_size)

    def from_input(self, x):
        return self.norm_ih(F.linear(x, self.weight_ih))

    def step(self, part, state):
        h, c = state
        i, f, g, o = (part + self.norm_hh(F.linear(h, self.weight_hh))).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c

    def forward(self, x, state=None):
        state = (x.new_zeros(*x.shape[:-1], self.hidden_size),) * 2 if state is None else state
        wanted = (*x.shape[:-1], self.hidden_size)
        if x.shape[-1] != self.input_size or any(tuple(s.shape) != wanted for s in state):
            raise RuntimeError("the sizes do not fit")
        return self.step(self.from_input(x), state)


def lstm(step=None, from_input=None):
    parts = {"step": step, "from_input": from_input}
    return type("LayerNormLSTMCell", (LSTM,), {name: part for name, part in parts.items() if part})


def lstm_slices(self, part, state):
    H, (h, c) = self.hidden_size, state
    rows = part + self.norm_hh(h @ self.weight_hh.T)
    i, f, o = (rows[..., k * H : (k + 1) * H].sigmoid() for k in (0, 1, 3))
    new = f * c + i * rows[..., 2 * H : 3 * H].tanh()
    return o * self.norm_c(new).tanh(), new


def lstm_list(self, part, state):
    return list(LSTM.step(self, part, state))


def custom_lstms(self, part, state):
    """PyTorch's benchmarks/fastrnns/custom_lstms.py: the cell is carried normalized."""
    h, c = state
    i, f, g, o = (part + self.norm_hh(h @ self.weight_hh.T)).chunk(4, -1)
    c = self.norm_c(f.sigmoid() * c + i.sigmoid() * g.tanh())
    return o.sigmoid() * c.tanh(), c


def lstm_step(order="ifgo", cell=None, out=None, rows=None):
    """Return a step with one part changed. order: the names of the four chunks."""

    def step(self, part, state):
        h, c = state
        from_h = h @ self.weight_hh.T
        all_rows = rows(self, part, from_h) if rows else part + self.norm_hh(from_h)
        gate = dict(zip(order, all_rows.chunk(4, -1), strict=True))
        i, f, g, o = (gate[name] for name in "ifgo")
        new = cell(self, i, f, g, c) if cell else f.sigmoid() * c + i.sigmoid() * g.tanh()
        return out(self, o, new, c) if out else (o.sigmoid() * self.norm_c(new).tanh(), new)

    return step


# ---- 10.5 ------------------------------------------------------------------------------------------------------------


def masked(cell, x, lengths):
    h = x.new_zeros(len(x), cell.hidden_size)
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], cell(x[:, t], h), h)
    return h


def one_by_one(cell, x, lengths):
    ends = []
    for row, length in zip(x, lengths, strict=True):
        h = x.new_zeros(1, cell.hidden_size)
        for t in range(length):
            h = cell(row[None, t], h)
        ends.append(h[0])
    return torch.stack(ends)


def gathered(cell, x, lengths):
    h, states = x.new_zeros(len(x), cell.hidden_size), []
    for x_t in x.unbind(1):
        h = cell(x_t, h)
        states.append(h)
    return torch.stack(states)[lengths - 1, torch.arange(len(x))]


def arithmetic(cell, x, lengths):
    h = torch.zeros(x.shape[0], cell.hidden_size, dtype=x.dtype)
    for t in range(int(lengths.max())):
        on = (lengths > t).to(x.dtype).unsqueeze(1)
        h = on * cell(x[:, t], h) + (1 - on) * h
    return h


def unmasked(cell, x, lengths):
    h = x.new_zeros(len(x), cell.hidden_size)
    for x_t in x.unbind(1):
        h = cell(x_t, h)
    return h


def with_mask(keep=None, update=None, read=None):
    def answer(cell, x, lengths):
        h = x.new_zeros(len(x), cell.hidden_size)
        for t in range(x.shape[1]):
            alive = keep(t, lengths) if keep else (t < lengths)[:, None]
            new = cell(read(x[:, t], alive) if read else x[:, t], h)
            h = update(alive, new, h) if update else torch.where(alive, new, h)
        return h

    return answer


def taken_at(shift, clamped=False):
    def answer(cell, x, lengths):
        h, states = x.new_zeros(len(x), cell.hidden_size), []
        for x_t in x.unbind(1):
            h = cell(x_t, h)
            states.append(h)
        at = lengths + shift
        return torch.stack(states, 1)[torch.arange(len(x)), at.clamp(max=x.shape[1] - 1) if clamped else at]

    return answer


def only_the_last_input(cell, x, lengths):
    return cell(x[torch.arange(len(x)), lengths - 1], x.new_zeros(len(x), cell.hidden_size))


def sorted_by_length(cell, x, lengths):
    order = lengths.argsort(descending=True)
    return masked(cell, x[order], lengths[order])


# ---- 10.6 ------------------------------------------------------------------------------------------------------------


def tagger(forward=None, norm=lambda I, H: nn.LayerNorm(H), **options):  # noqa: E741
    class MendedTagger(nn.Module):
        def __init__(self, input_size, hidden_size):
            super().__init__()
            self.rnn = nn.GRU(input_size, hidden_size, **options)
            self.norm = norm(input_size, hidden_size)

        def forward(self, x):
            return forward(self, x) if forward else self.norm(self.rnn(x)[0])

    return MendedTagger


class StillWithSteps(nn.Module):
    def __init__(self, input_size, hidden_size, steps):
        super().__init__()
        self.rnn, self.norm = nn.GRU(input_size, hidden_size, batch_first=True), nn.LayerNorm(hidden_size)

    def forward(self, x):
        return self.norm(self.rnn(x)[0])


def over_time(self, x):
    y = self.rnn(x)[0]
    return F.layer_norm(y, y.shape[1:]) * self.norm.weight + self.norm.bias


BANK = {
    "normed_step": {
        "right": {"F.layer_norm": step_short, "by hand": step_by_hand, "one product": step_one_product},
        "wrong": {
            "outside": (lambda x, h, W, U, w, b: ln(torch.tanh(x @ W.T + h @ U.T), w, b), "behind the tanh"),
            "the old state": (
                lambda x, h, W, U, w, b: torch.tanh(x @ W.T + ln(h, w, b) @ U.T),
                "old state is normalized",
            ),
            "U h alone": (lambda x, h, W, U, w, b: torch.tanh(x @ W.T + ln(h @ U.T, w, b)), "only U h"),
            "W x alone": (lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T, w, b) + h @ U.T), "only W x"),
            "separately": (lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T, w, b) + ln(h @ U.T, w, b)), "separately"),
            "no tanh": (lambda x, h, W, U, w, b: ln(x @ W.T + h @ U.T, w, b), "no tanh"),
            "no norm": (lambda x, h, W, U, w, b: torch.tanh(x @ W.T + h @ U.T), "plain step"),
            "no gain": (lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T + h @ U.T)), "gain and bias are not used"),
            "swapped": (lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T + h @ U.T, b, w)), "swapped"),
            "the batch": (
                lambda x, h, W, U, w, b: torch.tanh(F.batch_norm(x @ W.T + h @ U.T, None, None, w, b, training=True)),
                "batch is normalized",
            ),
            "unbiased": (step_std(1, True), "divides by H - 1"),
            "eps outside": (step_std(0, False), "added to the deviation"),
            "x.std() + eps": (step_std(1, False), "divides by H - 1, and eps"),
            "x forgotten": (lambda x, h, W, U, w, b: torch.tanh(ln(h @ U.T, w, b)), "x is not used"),
            "RMSNorm": (
                lambda x, h, W, U, w, b: torch.tanh(F.rms_norm(x @ W.T + h @ U.T, w.shape, w, 1e-5) + b),
                "RMSNorm",
            ),
            "both axes": (
                lambda x, h, W, U, w, b: torch.tanh(F.layer_norm(x @ W.T + h @ U.T, (len(x), len(w))) * w + b),
                "whole batch",
            ),
            "not transposed": (lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T + h @ U, w, b)), "not transposed"),
            "a new state in place": (
                lambda x, h, W, U, w, b: torch.tanh(ln(x @ W.T + h.mul_(1.0) @ U.T + h.zero_(), w, b)),
                "changed its input",
            ),
        },
    },
    "gradient_guess": {
        "right": {"as before": "nearly nothing", "capitals": " Nearly nothing "},
        "wrong": {
            "cured": ("about all of it", "does not give the factor 0.5 back"),
            "explodes": ("far too much", "1/sigma is about what"),
            "zero": ("exactly zero", "two directions"),
            "a number": (1e-48, "takes one of"),
            "not answered": (..., "three dots"),
        },
    },
    "gru_cell": {
        "right": {
            "tensor_split": GRU,
            "slices": gru(gru_slices),
            "two products": gru(gru_slices, gru_two_products),
            "one expression": gru(gru_step()),
        },
        "wrong": {
            "not normalized": (
                gru(from_input=gru_input(lambda s, a, b: torch.cat([a, b], -1))),
                "nothing is normalized",
            ),
            "the candidate not": (
                gru(from_input=gru_input(lambda s, a, b: torch.cat([s.gates_ih(a), b], -1))),
                "candidate's part is not normalized",
            ),
            "the state's norms": (
                gru(from_input=gru_input(lambda s, a, b: torch.cat([s.gates_hh(a), s.new_hh(b)], -1))),
                "norms of the state",
            ),
            "the wrong way round": (
                gru(from_input=gru_input(lambda s, a, b: torch.cat([s.new_ih(b), s.gates_ih(a)], -1))),
                "candidate comes first",
            ),
            "no gains": (gru(from_input=gru_input(lambda s, a, b: torch.cat([ln(a), ln(b)], -1))), "gain and bias"),
            "3H at once": (gru(from_input=gru_input(lambda s, a, b: ln(torch.cat([a, b], -1)))), "all 3H columns"),
            "a pair": (gru(from_input=gru_input(lambda s, a, b: (s.gates_ih(a), s.new_ih(b)))), "returned as a pair"),
            "x normalized": (gru(from_input=lambda s, x: ln(x) @ s.weight_ih.T), "x itself is normalized"),
            "sigmoid too early": (
                gru(from_input=gru_input(lambda s, a, b: torch.cat([s.gates_ih(a).sigmoid(), s.new_ih(b)], -1))),
                "sigmoid comes too early",
            ),
            "the paper's z": (gru(gru_step(mix=lambda z, n, h: (1 - z) * h + z * n)), "z and 1 - z"),
            "r and z": (gru(gru_step(swap=True)), "r and z have changed places"),
            "r before the product": (
                gru(
                    gru_step(
                        candidate=lambda s, x_new, new, r, h: torch.tanh(
                            x_new + s.new_hh((r * h) @ s.weight_hh[2 * s.hidden_size :].T)
                        )
                    )
                ),
                "before the product",
            ),
            "r in the norm": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.tanh(x_new + s.new_hh(r * new)))),
                "inside the norm",
            ),
            "1 - r": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.tanh(x_new + (1 - r) * s.new_hh(new)))),
                "r and 1 - r",
            ),
            "sigmoid of n": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.sigmoid(x_new + r * s.new_hh(new)))),
                "candidate has a sigmoid",
            ),
            "two sigmoids": (gru(gru_step(gate=lambda s, a, b: a.sigmoid() + s.gates_hh(b).sigmoid())), "two sigmoids"),
            "r on both": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.tanh(r * (x_new + s.new_hh(new))))),
                "input's part as well",
            ),
            "no r": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.tanh(x_new + s.new_hh(new)))),
                "r is not used",
            ),
            "new_hh missing": (
                gru(gru_step(candidate=lambda s, x_new, new, r, h: torch.tanh(x_new + r * new))),
                "new_hh is missing",
            ),
            "gates_hh missing": (gru(gru_step(gate=lambda s, a, b: torch.sigmoid(a + b))), "gates_hh is missing"),
            "norm on the sum": (gru(gru_step(gate=lambda s, a, b: torch.sigmoid(s.gates_hh(a + b)))), "on the sum"),
            "twice": (
                gru(
                    gru_step(
                        gate=lambda s, a, b: torch.sigmoid(s.gates_ih(a) + s.gates_hh(b)),
                        candidate=lambda s, x_new, new, r, h: torch.tanh(s.new_ih(x_new) + r * s.new_hh(new)),
                    )
                ),
                "a second time",
            ),
            "no sigmoid": (gru(gru_step(gate=lambda s, a, b: a + s.gates_hh(b))), "no sigmoid"),
            "no tanh": (gru(gru_step(candidate=lambda s, x_new, new, r, h: x_new + r * s.new_hh(new))), "no tanh"),
            "h normalized": (gru(gru_step(mix=lambda z, n, h: ln((1 - z) * n + z * h))), "once more"),
            "in place": (GRUInPlace, "changed its input"),
            "detached": (GRUDetached, "gradient"),
            "other names": (GRUOtherNames, "new cell, (4, 6)"),
            "nn.GRUCell": (nn.GRUCell, "keep them"),
            "an instance": (GRU(4, 6), "class itself"),
        },
    },
    "lstm_cell": {
        "right": {
            "chunk": LSTM,
            "slices": lstm(lstm_slices),
            "one expression": lstm(lstm_step()),
            "a list": lstm(lstm_list),
        },
        "wrong": {
            "not normalized": (lstm(from_input=lambda s, x: x @ s.weight_ih.T), "nothing is normalized"),
            "the state's norm": (lstm(from_input=lambda s, x: s.norm_hh(x @ s.weight_ih.T)), "norm of the state"),
            "no gain": (lstm(from_input=lambda s, x: ln(x @ s.weight_ih.T)), "gain and bias"),
            "x normalized": (lstm(from_input=lambda s, x: ln(x) @ s.weight_ih.T), "x itself"),
            "custom_lstms": (lstm(custom_lstms), "normalized c is returned"),
            "no norm_c": (lstm(lstm_step(out=lambda s, o, c, old: (o.sigmoid() * c.tanh(), c))), "norm_c is missing"),
            "the old c normalized": (
                lstm(
                    lstm_step(
                        cell=lambda s, i, f, g, c: f.sigmoid() * s.norm_c(c) + i.sigmoid() * g.tanh(),
                        out=lambda s, o, c, old: (o.sigmoid() * c.tanh(), c),
                    )
                ),
                "old c is normalized",
            ),
            "norm behind tanh": (
                lstm(lstm_step(out=lambda s, o, c, old: (o.sigmoid() * s.norm_c(c.tanh()), c))),
                "behind the tanh",
            ),
            "no last tanh": (lstm(lstm_step(out=lambda s, o, c, old: (o.sigmoid() * s.norm_c(c), c))), "last tanh"),
            "the old c shown": (
                lstm(lstm_step(out=lambda s, o, c, old: (o.sigmoid() * s.norm_c(old).tanh(), c))),
                "h comes from the old c",
            ),
            "(c, h)": (
                lstm(lstm_step(out=lambda s, o, c, old: (c, o.sigmoid() * s.norm_c(c).tanh()))),
                "pair is swapped",
            ),
            "h alone": (
                lstm(lstm_step(out=lambda s, o, c, old: o.sigmoid() * s.norm_c(c).tanh())),
                "c is not returned",
            ),
            "the paper's order": (lstm(lstm_step("fiog")), "f, i, o, g"),
            "1 - f": (
                lstm(lstm_step(cell=lambda s, i, f, g, c: f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh())),
                "1 - sigmoid(f)",
            ),
            "norm_c on h": (
                lstm(lstm_step(out=lambda s, o, c, old: (s.norm_c(o.sigmoid() * c.tanh()), c))),
                "norm_c is on h",
            ),
            "the old c returned": (
                lstm(lstm_step(out=lambda s, o, c, old: (o.sigmoid() * s.norm_c(c).tanh(), old))),
                "old c is returned",
            ),
            "i and f": (lstm(lstm_step("figo")), "i and f have changed places"),
            "g and o": (lstm(lstm_step("ifog")), "g and o have changed places"),
            "norm_hh missing": (lstm(lstm_step(rows=lambda s, a, b: a + b)), "norm_hh is missing"),
            "norm on the sum": (lstm(lstm_step(rows=lambda s, a, b: s.norm_hh(a + b))), "on the sum"),
            "twice": (lstm(lstm_step(rows=lambda s, a, b: s.norm_ih(a) + s.norm_hh(b))), "a second time"),
            "the input's norm": (lstm(lstm_step(rows=lambda s, a, b: a + s.norm_ih(b))), "input's norm"),
            "each gate by itself": (
                lstm(
                    lstm_step(
                        rows=lambda s, a, b: (
                            a
                            + F.group_norm(b.reshape(-1, b.shape[-1]), 4, s.norm_hh.weight, s.norm_hh.bias).view(
                                b.shape
                            )
                        )
                    )
                ),
                "each gate",
            ),
            "g without tanh": (
                lstm(lstm_step(cell=lambda s, i, f, g, c: f.sigmoid() * c + i.sigmoid() * g)),
                "g has no tanh",
            ),
            "sigmoid of g": (
                lstm(lstm_step(cell=lambda s, i, f, g, c: f.sigmoid() * c + i.sigmoid() * g.sigmoid())),
                "g has a sigmoid",
            ),
            "f + 1": (
                lstm(lstm_step(cell=lambda s, i, f, g, c: (f + 1).sigmoid() * c + i.sigmoid() * g.tanh())),
                "1 is added to f",
            ),
            "nn.LSTMCell": (nn.LSTMCell, "keep them"),
        },
    },
    "last_states": {
        "right": {"torch.where": masked, "one by one": one_by_one, "gathered": gathered, "arithmetic": arithmetic},
        "wrong": {
            "no mask": (unmasked, "goes on through the padding"),
            "one too many": (with_mask(lambda t, n: (t <= n)[:, None]), "one step too many"),
            "one too few": (with_mask(lambda t, n: (t < n - 1)[:, None]), "one step too few"),
            "zeros": (with_mask(update=lambda on, new, old: new * on), "set to zero where a sequence has ended"),
            "the wrong way round": (
                with_mask(update=lambda on, new, old: torch.where(on, old, new)),
                "wrong way round",
            ),
            "zero inputs": (
                with_mask(update=lambda on, new, old: new, read=lambda x, on: x * on),
                "zeros are an input",
            ),
            "a flat mask": (with_mask(lambda t, n: t < n), "make it (B, 1)"),
            "index length": (taken_at(0), "states at index length"),
            "index length, clamped": (taken_at(0, clamped=True), "one step too many"),
            "index length - 2": (taken_at(-2), "before the last step"),
            "mean": (
                lambda cell, x, n: torch.stack([unmasked(cell, x[:, : t + 1], n) for t in range(x.shape[1])], 1).mean(
                    1
                ),
                "the states[",
            ),
            "the shortest": (lambda cell, x, n: unmasked(cell, x[:, : int(n.min())], n), "shortest"),
            "only the last input": (only_the_last_input, "only the last input"),
            "sorted, not back": (sorted_by_length, "order of the lengths"),
            "detached": (lambda cell, x, n: masked(cell, x, n).detach(), "gradient"),
        },
    },
    "mended_tagger": {
        "right": {
            "batch_first": tagger(batch_first=True),
            "transposed": tagger(lambda s, x: s.norm(s.rnn(x.transpose(0, 1))[0]).transpose(0, 1)),
            "permuted, then normalized": tagger(lambda s, x: s.norm(s.rnn(x.permute(1, 0, 2))[0].permute(1, 0, 2))),
        },
        "wrong": {
            "batch_first only": (tagger(over_time, batch_first=True), "future is in the past"),
            "the norm only": (tagger(), "Write batch_first=True"),
            "neither": (tagger(over_time), "batch_first=True is missing, and the norm"),
            "steps stay": (StillWithSteps, "still needs the number of steps"),
            "the norm in front": (
                tagger(lambda s, x: s.rnn(s.norm(x))[0], norm=lambda I, H: nn.LayerNorm(I), batch_first=True),
                "width of the input",
            ),
            "no norm": (tagger(lambda s, x: s.rnn(x)[0], batch_first=True), "not normalized any more"),
            "not back": (tagger(lambda s, x: s.norm(s.rnn(x.transpose(0, 1))[0])), "steps first"),
            "reshape": (
                tagger(
                    lambda s, x: s.norm(s.rnn(x.reshape(x.shape[1], x.shape[0], -1))[0]).reshape(
                        x.shape[0], x.shape[1], -1
                    )
                ),
                "do not exchange two axes",
            ),
            "the last state": (
                tagger(lambda s, x: s.norm(s.rnn(x)[0][:, -1]), batch_first=True),
                "only the last state",
            ),
            "the pair": (tagger(lambda s, x: s.norm(s.rnn(x)), batch_first=True), "returns a pair"),
            "h_n": (tagger(lambda s, x: s.norm(s.rnn(x)[1]), batch_first=True), "returns a pair"),
        },
    },
}

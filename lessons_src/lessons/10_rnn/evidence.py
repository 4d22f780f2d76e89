"""What lesson 10 says of many runs."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.rnn import LayerNormGRUCell, Reader, without_norms
from lessonkit import data, train
from lessonkit.evidence import record


def with_fast_norms(cell):
    """Replace the cell's norms by PyTorch's, which are faster; return it."""
    for name, norm in list(cell.named_children()):
        setattr(cell, name, nn.LayerNorm(norm.weight.shape))
    return cell


# The first run, which a test repeats, is at 0.1: sums in a different order may move a few of 300
# and 500 images.
@record(
    seeds=range(20, 28),
    shows=dict.fromkeys(
        ["none", "none_validation", "layer_norm", "layer_norm_validation"], ".0f %"
    )
    | {"ahead": ".0f points"},
    tolerance=2,
    rate=[0.1, 1.0, 3.0, 10.0],
    split=[0, 1, 2],
)
def rnn_sweep(seed, rate=0.1, split=0, epochs=6, hidden=32):
    """Percent read by the GRU after six epochs of SGD on 997 digits, without norms and with them.

    Of 300 validation digits, and of 500 test digits. ahead: LayerNorm, on the test digits.
    """
    whole = data.digits_split(split)
    chosen = whole.validating()
    steps = lambda x: x.reshape(len(x), 16, 4)  # (B, T, I)
    reads = lambda x, y: lambda model: 100 * (model(steps(x)).argmax(-1) == y).float().mean()
    history = train.compare(
        {
            "none": lambda: Reader(without_norms(LayerNormGRUCell(4, hidden))),
            "layer_norm": lambda: Reader(with_fast_norms(LayerNormGRUCell(4, hidden))),
        },
        seeds=[seed],
        data=(steps(chosen.x_train), chosen.y_train),
        epochs=epochs,
        drop_last=True,
        clip=1.0,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate, fused=True),
        evaluate={
            "_validation": reads(chosen.x_test, chosen.y_test),
            "": reads(whole.x_test, whole.y_test),
        },
        every=epochs * (len(chosen.x_train) // 64),
    )
    ends = {
        f"{name}{part}": curves[part][0, -1].item()
        for name, curves in history.items()
        for part in ("", "_validation")
    }
    return ends | {"ahead": ends["layer_norm"] - ends["none"]}


@record(
    seeds=range(20, 28),
    shows={"none_validation": ".0f %", "layer_norm_validation": ".0f %", "ahead": ".0f points"},
    tolerance=8,  # at this rate a run can go astray, and rounding decides when
    split=[0, 1, 2],
)
def rnn_between(seed, split=0):
    """The runs of rnn_sweep at a rate of 5, between the last two of its rates."""
    return rnn_sweep(seed, rate=5.0, split=split)


TOSSES = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 5)[:, :, None]  # (32, T, 1)


class Tagger(nn.Module):
    """The tagger of the opening, with its leaks, and a linear layer of one unit."""

    def __init__(self):
        super().__init__()
        self.rnn, self.norm, self.head = nn.GRU(1, 6), nn.LayerNorm([5, 6]), nn.Linear(6, 1)

    def forward(self, x):
        return self.head(self.norm(self.rnn(x)[0]))


# How many of 128: near chance, rounding in training may turn several.
@record(seeds=range(1, 17), shows={"whole": ".0f", "toss_by_toss": ".0f"}, tolerance=6)
def rnn_tosses(seed, rate=0.03, steps=150):
    """How many of the 128 next tosses the tagger of the opening names: whole rows at once, and
    with later tosses given as 0."""
    net, rows = Tagger(), TOSSES[torch.randperm(32)]
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(steps):
        heads = torch.randint(2, (8, 5)).float()  # (B, T)
        says = net(2 * heads[..., None] - 1)[:, :-1, 0]  # (B, T - 1)
        loss = F.binary_cross_entropy_with_logits(says, heads[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = {"whole": 0, "toss_by_toss": 0}
    with torch.no_grad():
        for t in range(4):
            shown = rows.clone()
            shown[:, t + 1 :] = 0
            for key, x in {"whole": rows, "toss_by_toss": shown}.items():
                right[key] += ((net(x)[:, t] > 0) == (rows[:, t + 1] > 0)).sum().item()
    return right


@record(
    seeds=range(8),
    shows={"power": ".1f"},
    tolerance=0.05,
    norms=[True, False],
    inputs=[0.1, 1.0, 4.0],
    z_bias=[0.0, 2.0, 4.0],
)
def gru_gradient(seed, norms=True, inputs=1.0, z_bias=0.0, H=32, T=100):
    """log10 of what arrives of a gradient T steps back in an untrained GRU cell, over 8 sequences,
    with LayerNorm on each part and without norms."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=g)
    cell = with_fast_norms(LayerNormGRUCell(10, H)).double()
    cell = cell if norms else without_norms(cell)
    with torch.no_grad():
        for U in cell.weight_hh.split(H):
            U.copy_(torch.linalg.qr(draw(H, H))[0])
        cell.weight_ih.copy_(draw(3 * H, 10) / math.sqrt(10))
        cell.gates_ih.bias[H:] += z_bias  # the rows of r, then those of z
    upstream, h_0 = draw(8, H), (0.5 * draw(8, H)).requires_grad_()
    h = h_0
    for part in cell.from_input(inputs * draw(T, 8, 10)):
        h = cell.step(part, h)
    (arrived,) = torch.autograd.grad((h * upstream).sum(), h_0)
    return {"power": (arrived.norm(dim=1) / upstream.norm(dim=1)).mean().log10().item()}

"""The exports that no check and no cell of a lesson judges, against PyTorch.

What an exercise asks for is judged by its check, whose own answer the export is; tests/hunt.py shows what it finds.
The loops of lesson 13 have a file of their own, test_fused.py.
"""

import pytest
import torch
from torch import nn

import fromscratch as ours
from tests.helpers import draw


def test_group_norm_is_pytorchs():
    mine, theirs = (home.GroupNorm(2, 6, eps=0.1, dtype=torch.float64) for home in (ours, nn))
    with torch.no_grad():
        for parameter in mine.parameters():
            parameter.copy_(draw(9, 6))
    theirs.load_state_dict(mine.state_dict())
    x, dy = draw(1, 2, 6, 4, 3).requires_grad_(), draw(2, 2, 6, 4, 3)
    both = [[y := layer(x), *torch.autograd.grad(y, [x, *layer.parameters()], dy)] for layer in (mine, theirs)]
    torch.testing.assert_close(*both, rtol=0, atol=1e-12)


def test_chargpt_sees_no_later_symbol():
    gpt = ours.CharGPT(symbols=7, context=6, width=8, heads=2, layers=2).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    gaps = (gpt(torch.cat([tokens[:, :4], (tokens[:, 4:] + 1) % 7], 1)) - gpt(tokens)).abs()
    assert gaps[:, :4].max() < 1e-12 and gaps[:, 4:].max() > 1e-3


@pytest.mark.parametrize(
    "content, first, last",
    [
        (b" \n a b \t", b"a b \t", b" \n a b"),  # each half is stripped at its own end only
        (b" " * 4095 + b"x" * 4097, b"x", b"x" * 1024),  # only the first 4,096 bytes are looked at
        (bytes(range(256)) * 20, bytes(range(256)) * 4, bytes(range(256)) * 4),  # not white space: 0x1c to 0x1f, 0x85
    ],
)
def test_file_bytes_follows_magikas_rule(content, first, last):
    tokens = ours.file_bytes(content)
    assert tokens.dtype == torch.int64
    padding = [[256] * (1024 - len(half)) for half in (first, last)]
    assert tokens.tolist() == [*first, *padding[0], *padding[1], *last]

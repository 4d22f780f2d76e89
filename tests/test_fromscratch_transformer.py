"""fromscratch.attention, Attention, Block and CharGPT, against PyTorch's own and by what they must not do."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import Attention, Block, CharGPT, LayerNorm, RMSNorm, attention
from tests.helpers import draw


def filled(module, seed=1):
    """Random numbers in every parameter, gains and biases too."""
    g = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.3, generator=g)
    return module.double()


def theirs(block, place):
    """nn.TransformerEncoderLayer with the weights of block."""
    C = block.attend.out.out_features
    layer = nn.TransformerEncoderLayer(
        C, block.attend.heads, 4 * C, dropout=0.0, batch_first=True, norm_first=place == "pre"
    ).double()
    norms = (block.before1, block.before2) if place == "pre" else (block.after1, block.after2)
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(block.attend.qkv.weight)
        layer.self_attn.in_proj_bias.copy_(block.attend.qkv.bias)
    layer.self_attn.out_proj.load_state_dict(block.attend.out.state_dict())
    for mine, other in (
        (block.mlp[0], layer.linear1),
        (block.mlp[2], layer.linear2),
        (norms[0], layer.norm1),
        (norms[1], layer.norm2),
    ):
        other.load_state_dict(mine.state_dict())
    return layer


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_attention_is_pytorchs(causal, dtype, tolerance):
    q, k, v = (draw(seed, 2, 3, 5, 4, dtype=dtype) for seed in range(3))
    y = attention(q, k, v, causal)
    assert y.dtype == dtype
    assert (y - F.scaled_dot_product_attention(q, k, v, is_causal=causal)).abs().max() < tolerance


def test_attention_with_a_hand_computed_example():
    q, k = torch.zeros(3, 2), torch.ones(3, 2)
    v = torch.tensor([[0.0], [2.0], [4.0]])
    assert torch.equal(attention(q, k, v), torch.tensor([[0.0], [1.0], [2.0]]))
    assert torch.allclose(attention(q, k, v, causal=False), torch.full((3, 1), 2.0))


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_block_is_pytorchs_with_gradients(place, causal):
    block = filled(Block(8, 2, place=place, causal=causal))
    layer, x, dy = theirs(block, place), draw(0, 2, 5, 8), draw(3, 2, 5, 8)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    found = []
    for run in (block, lambda h: layer(h, src_mask=mask)):
        leaf = x.clone().requires_grad_()
        y = run(leaf)
        found.append((y, *torch.autograd.grad((y * dy).sum(), leaf)))
    assert all((a - b).abs().max() < 1e-10 for a, b in zip(*found, strict=True))


def test_a_block_without_a_norm_is_two_sums():
    block = filled(Block(6, 3, place=None))
    x = draw(0, 2, 4, 6)
    h = x + block.attend(x)
    assert torch.equal(block(x), h + block.mlp(h))
    assert not any(isinstance(module, LayerNorm) for module in block.modules())


def test_norms_are_made_by_the_given_function_and_are_its_own():
    wide_eps = lambda width: nn.LayerNorm(width, 1e-3)  # noqa: E731
    for norm, kind in ((LayerNorm, LayerNorm), (RMSNorm, RMSNorm), (wide_eps, nn.LayerNorm)):
        block = Block(8, 2, norm=norm)
        norms = [module for module in block.modules() if isinstance(module, kind)]
        assert len(norms) == 2 and norms[0] is not norms[1]
    assert block.before1.eps == 1e-3 and isinstance(block.after1, nn.Identity)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="place is 'Pre', expected 'pre', 'post' or None"):
        Block(8, 2, place="Pre")
    with pytest.raises(RuntimeError):
        Block(8, 3)(draw(0, 1, 2, 8, dtype=torch.float32))
    with pytest.raises(RuntimeError):
        CharGPT(context=4)(torch.zeros(1, 5, dtype=torch.long))


@pytest.mark.parametrize("place", ["pre", "post", None])
def test_chargpt_sees_no_later_symbol_and_takes_short_texts(place):
    gpt = CharGPT(symbols=7, context=6, width=8, heads=2, layers=2, place=place).double()
    tokens = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(4))
    logits = gpt(tokens)
    assert logits.shape == (3, 6, 7)
    other = tokens.clone()
    other[:, 4:] = (other[:, 4:] + 1) % 7
    assert (gpt(other)[:, :4] - logits[:, :4]).abs().max() < 1e-12 and (gpt(other) - logits)[:, 4:].abs().max() > 1e-3
    assert (gpt(tokens[:, :3]) - logits[:, :3]).abs().max() < 1e-12


@pytest.mark.parametrize("place, count", [("pre", 25), ("post", 24), (None, 0)])
def test_the_number_of_norms(place, count):
    gpt = CharGPT(place=place)
    assert sum(isinstance(module, LayerNorm) for module in gpt.modules()) == count
    assert isinstance(gpt.final, LayerNorm) == (place == "pre")


def test_the_same_seed_gives_all_places_the_same_weights():
    weights = {}
    for place in ("pre", "post", None):
        torch.manual_seed(5)
        gpt = CharGPT(layers=3, place=place)
        weights[place] = [
            p for module in gpt.modules() if isinstance(module, (nn.Linear, nn.Embedding)) for p in module.parameters()
        ]
    for place in ("post", None):
        assert all(torch.equal(a, b) for a, b in zip(weights["pre"], weights[place], strict=True))
    linear = CharGPT().blocks[0].mlp[0]
    assert linear.weight.abs().max() <= (6 / (32 + 128)) ** 0.5 and not linear.bias.any()


def test_every_parameter_gets_a_gradient_and_copies_work():
    gpt = CharGPT(layers=2)
    tokens = torch.randint(27, (2, 16), generator=torch.Generator().manual_seed(6))
    weights = draw(0, 2, 16, 27, dtype=torch.float32)
    (gpt(tokens) * weights).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in gpt.parameters())
    for twin in (copy.deepcopy(gpt), pickle.loads(pickle.dumps(gpt))):
        assert torch.equal(twin(tokens), gpt(tokens))
    assert torch.equal(gpt.eval()(tokens), gpt.train()(tokens))


def test_attention_module_equals_multihead_attention():
    mine = filled(Attention(12, 3, causal=False))
    other = nn.MultiheadAttention(12, 3, batch_first=True).double()
    with torch.no_grad():
        other.in_proj_weight.copy_(mine.qkv.weight)
        other.in_proj_bias.copy_(mine.qkv.bias)
    other.out_proj.load_state_dict(mine.out.state_dict())
    x = draw(0, 2, 4, 12)
    assert (mine(x) - other(x, x, x, need_weights=False)[0]).abs().max() < 1e-12

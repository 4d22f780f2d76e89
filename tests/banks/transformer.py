"""Answers to the exercises of lesson 11."""

import torch
from torch import nn

from fromscratch import LayerNorm

# 11.1 and 11.2


def block_two_lines(x, attend, mlp, norm1, norm2):
    x = x + attend(norm1(x))
    return x + mlp(norm2(x))


def block_named(x, attend, mlp, norm1, norm2):
    h = attend(norm1(x)) + x
    out = h + mlp(norm2(h))
    return out


def block_loop(x, attend, mlp, norm1, norm2):
    for function, norm in ((attend, norm1), (mlp, norm2)):
        branch = function(norm(x))
        x = torch.add(x, branch)
    return x


def block_in_place(x, attend, mlp, norm1, norm2):
    x += attend(norm1(x))
    x += mlp(norm2(x))
    return x


def block_detached(x, attend, mlp, norm1, norm2):
    x = x + attend(norm1(x).detach())
    return x + mlp(norm2(x).detach())


def half_if(x, function, norm, place):
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))
    return x + function(x)


def half_identity(x, function, norm, place):
    before = norm if place == "pre" else nn.Identity()
    after = norm if place == "post" else nn.Identity()
    return after(x + function(before(x)))


def half_steps(x, function, norm, place):
    branch = norm(x) if place == "pre" else x
    y = x + function(branch)
    if place == "post":
        y = norm(y)
    return y


def half_in_place(x, function, norm, place):
    x += function(norm(x) if place == "pre" else x)
    return norm(x) if place == "post" else x


# 11.4


def layer_of(width, heads, norm_first):
    return nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first)


def encoder_in_one(width, heads, layers, norm_first):
    final = nn.LayerNorm(width) if norm_first else None
    return nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, norm=final, enable_nested_tensor=False)


def encoder_if(width, heads, layers, norm_first):
    layer = layer_of(width, heads, norm_first)
    if norm_first:
        return nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def encoder_set_later(width, heads, layers, norm_first):
    """With the course's own LayerNorm."""
    model = nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, enable_nested_tensor=False)
    if norm_first:
        model.norm = LayerNorm(width)
    return model


def encoder_sequential(width, heads, layers, norm_first):
    model = nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, enable_nested_tensor=False)
    return nn.Sequential(model, nn.LayerNorm(width)) if norm_first else model


def encoder_not_returned(width, heads, layers, norm_first):
    nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, nn.LayerNorm(width) if norm_first else None)


# 11.6


def both(h, tolerance=0.01):
    mean, var = h.mean(-1), h.var(-1, correction=0)
    return bool((mean.abs() < tolerance).all() and ((var - 1).abs() < tolerance).all())


def by_max(h, tolerance=0.01):
    c = h - h.mean(-1, keepdim=True)
    off = max(h.mean(-1).abs().max().item(), (c.square().mean(-1) - 1).abs().max().item())
    return off < tolerance


def by_close(h, tolerance=0.01):
    var, mean = torch.var_mean(h, -1, correction=0)
    zero, one = torch.zeros_like(mean), torch.ones_like(var)
    return torch.allclose(mean, zero, atol=tolerance, rtol=0) and torch.allclose(var, one, atol=tolerance, rtol=0)


def as_a_tensor(h, tolerance=0.01):
    good = (h.mean(-1).abs() < tolerance) & ((h.std(-1, correction=0) ** 2 - 1).abs() < tolerance)
    return good.all()


def exactly(h, tolerance=0.01):
    return bool((h.mean(-1) == 0).all() and (h.var(-1, correction=0) == 1).all())


def by_layer_norm(h, tolerance=0.01):
    return torch.allclose(h, nn.LayerNorm(h.shape[-1], dtype=h.dtype)(h), atol=tolerance)


def centers_in_place(h, tolerance=0.01):
    mean = h.mean(-1, keepdim=True)
    h -= mean
    return bool((mean.abs() < tolerance).all() and ((h.square().mean(-1) - 1).abs() < tolerance).all())


CURVES = {"A": "Post-LN + warm-up", "B": "no norm", "C": "Pre-LN", "D": "Post-LN"}
COUNTS = {"GPT-2 small": 25, "BERT base": 25, "Llama 7B": 65, "the Transformer of 2017": 30}


BANK = {
    "pre_ln": {
        "right": {"two lines": block_two_lines, "a name of its own": block_named, "a loop": block_loop},
        "wrong": {
            "in place": (block_in_place, "changed its input"),
            "detached": (block_detached, "gradient of x"),
            "returns both halves": (lambda x, a, m, n1, n2: (x + a(n1(x)), x + m(n2(x))), "a tuple of 2"),
        },
    },
    "place_norm": {
        "right": {"three branches": half_if, "before and after": half_identity, "in steps": half_steps},
        "wrong": {"in place": (half_in_place, "changed its input")},
    },
    "encoder": {
        "right": {
            "an if in the argument": encoder_in_one,
            "two returns": encoder_if,
            "set later": encoder_set_later,
            "a Sequential": encoder_sequential,
        },
        "wrong": {
            "not returned": (encoder_not_returned, "nothing"),
            "a final norm in a Post-LN Sequential": (
                lambda *a: nn.Sequential(encoder_set_later(*a[:3], False), nn.LayerNorm(a[0])),
                "On encoder(8, 2, 3, norm_first=True)",
            ),
        },
    },
    "norm_counts": {
        "right": {"counted": COUNTS, "sums": {**COUNTS, "GPT-2 small": 2 * 12 + 1}},
        "wrong": {
            "dots": (COUNTS | {"BERT base": ...}, "three dots"),
            "another name": (
                {"GPT-2": 25, "BERT base": 25, "Llama 7B": 65, "the Transformer of 2017": 30},
                "The keys are 'GPT-2 small'",
            ),
        },
    },
    "four_curves": {
        "right": {
            "read": CURVES,
            "in other words": {"A": "post-LN with warmup", "B": None, "C": "PreLN", "D": "Post-LN"},
            "without": CURVES | {"B": "without norm"},
        },
        "wrong": {
            "Pre and warm-up swapped": (CURVES | {"A": "Pre-LN", "C": "Post-LN + warm-up"}, "A waits, then falls"),
            "a name that is none": (CURVES | {"D": "LayerNorm"}, "one of the words 'Post-LN', 'Post-LN + warm-up'"),
        },
    },
    "already_normalized": {
        "right": {"two conditions": both, "the largest": by_max, "allclose": by_close, "a tensor": as_a_tensor},
        "wrong": {
            "a row of answers": (lambda h, tolerance=0.01: h.mean(-1).abs() < tolerance, "On rows of 8"),
            "exactly": (exactly, "On rows of 8"),
            "by nn.LayerNorm": (by_layer_norm, "entry by entry"),
            "in place": (centers_in_place, "changed its input h"),
        },
    },
}

"""Answers to the exercises of lesson 11."""

import torch
from torch import nn

from lessonkit.check.declare import instead

from .checks import _block, _encoder, _normalized, _scaled

# 11.1


def block_at_once(x, attend, mlp, norm1, norm2):
    return x + attend(norm1(x)) + mlp(norm2(x + attend(norm1(x))))


def block_in_place_behind(x, attend, mlp, norm1, norm2):
    """Adds to what a function returned, which may be x itself."""
    h = attend(norm1(x))
    h += x
    y = mlp(norm2(h))
    y += h
    return y


def block_detached(x, attend, mlp, norm1, norm2):
    x = x + attend(norm1(x).detach())
    return x + mlp(norm2(x).detach())


# 11.3


def scaled_by_name(model, ends=("attend.out.weight", "mlp.2.weight")):
    for name, p in model.named_parameters():
        if name.endswith(ends):
            p.data *= (2 * len(model.blocks)) ** -0.5


def scaled_without_gradients(model):
    _scaled(model)
    model.requires_grad_(False)


# 11.4


def encoder_set_later(width, heads, layers, norm_first):
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    if norm_first:
        model.norm = nn.LayerNorm(width)
    return model


# 11.5


def by_max(h, tolerance=0.01):
    c = h - h.mean(-1, keepdim=True)
    off = max(h.mean(-1).abs().max().item(), (c.square().mean(-1) - 1).abs().max().item())
    return off < tolerance


def as_a_tensor(h, tolerance=0.01):
    good = (h.mean(-1).abs() < tolerance) & (
        (h.std(-1, correction=0) ** 2 - 1).abs() < tolerance
    )
    return good.all()


ANSWERS = {
    "pre_ln": {
        "right": {"the solution": _block, "one expression": block_at_once},
        "wrong": {
            "detached": (block_detached, "gradient of x"),
            "adds to what a function returned": (
                block_in_place_behind,
                "functions that hand on",
            ),
            "returns both halves": (
                lambda x, a, m, n1, n2: (x + a(n1(x)), x + m(n2(x))),
                "a tuple of 2",
            ),
        },
    },
    "divided_by": {
        "right": {
            "whole numbers": {
                "post_all": 729,
                "pre_stream": 49,
                "pre_all": 7,
                "post_small": 1.77,
            }
        }
    },
    "scale_branches": {
        "right": {"the solution": _scaled, "by name": scaled_by_name},
        "wrong": {
            "without gradients": (scaled_without_gradients, "need a gradient (requires_grad_)"),
            "by the end of the name": (
                lambda model: scaled_by_name(model, ("out.weight", "mlp.2.weight")),
                "the factor on anything outside the blocks",
            ),
            "new storage": (
                instead(_scaled, "attention = setattr(attention, 'data', attention * factor)"),
                "not those handed in",
            ),
            "in eval()": (lambda model: _scaled(model.eval()), "the mode of a module"),
            "gradients off": (
                lambda model: (torch.set_grad_enabled(False), _scaled(model))[1],
                "gradients are recorded",
            ),
        },
    },
    "encoder": {
        "right": {
            "the solution": _encoder,
            "set later": encoder_set_later,
            "a class of its own": instead(
                _encoder,
                "final = type('Own', (nn.LayerNorm,), {})(width) if norm_first else None",
            ),
        },
        "wrong": {
            "a frozen norm": (
                instead(
                    _encoder,
                    "final = nn.LayerNorm(width).requires_grad_(False) if norm_first else None",
                ),
                "trained parameters",
            )
        },
    },
    "already_normalized": {
        "right": {"the solution": _normalized, "the largest": by_max, "a tensor": as_a_tensor},
        "wrong": {
            "64 rows": (
                lambda h, tolerance=0.01: _normalized(
                    h.reshape(-1, h.shape[-1])[:64], tolerance
                ),
                "a hundred rows",
            ),
            "by NumPy": (
                lambda h, tolerance=0.01: _normalized(torch.from_numpy(h.numpy()), tolerance),
                "NumPy has no gradients",
            ),
        },
    },
}

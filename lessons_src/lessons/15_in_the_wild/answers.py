"""Answers to the exercises of lesson 15."""

import torch

from lessonkit.check.declare import instead

from .checks import _ask, _FileTyper, _fold, _port

ANSWERS = {
    "ask": {
        "right": {
            "one number": _ask,
            "as a list": instead(
                _ask, "return [axis for axis in range(3) if places[:, axis].any()]"
            ),
            "from behind": instead(
                _ask, "return tuple(axis - 3 for axis in range(3) if places[:, axis].any())"
            ),
            "a new value": instead(
                _ask, "moved = torch.cat([torch.full((1,), 7.0), x.flatten()[1:]]).view(shape)"
            ),
        },
        "wrong": {
            "always LayerNorm": (lambda layer, shape: (2,), "expected (0, 1)"),
            "the last number moved, any index": (
                instead(
                    _ask,
                    "moved = torch.cat([x.flatten()[:-1], x.flatten()[-1:] + 1]).view(shape)\ndel moved[0, 0, 0]",
                ),
                "because its index is not 0",
            ),
            "deaf to small gains": (
                instead(_ask, "places = ((layer(moved) - layer(x)).abs() > 2e-4).nonzero()"),
                "gains around 0.0001",
            ),
            "by autograd": (
                lambda layer, shape: layer(torch.zeros(shape, requires_grad=True)),
                "has no gradient",
            ),
        },
    },
    "file_typer": {
        "right": {
            "as in the table": _FileTyper,
            "with other words": instead(
                _FileTyper,
                "x = self.norm1(x.permute(0, 2, 1))\nx = F.gelu(self.conv(x), approximate='tanh').max(-1).values",
            ),
            "two axes exchanged": instead(
                _FileTyper, "x = self.norm1(x.transpose(2, 1).contiguous())"
            ),
        },
        "wrong": {
            "turned back": (instead(_FileTyper, "x = self.norm1(x.mT).mT"), "another shape"),
            "cut off from the weights": (
                instead(_FileTyper, "return self.head(self.norm2(x.detach()))"),
                "gradient",
            ),
        },
    },
    "three_digits": {"right": {"numbers": {"one_pass": 0, "two_passes": 3.5}}},
    "port": {
        "right": {
            "with x.var": _port,
            "turned round": lambda x, gain, bias: _port(x.mT.mT, gain, bias) + 0 * x,
            "by std": instead(_port, "deviation = x.std(1, keepdim=True) + 0.01"),
        },
        "wrong": {
            "without a graph": (
                instead(_port, "x_hat = ((x - mean) / deviation).detach()"),
                "gradient",
            )
        },
    },
    "fold": {
        "right": {
            "rows": _fold,
            "a projection": instead(
                _fold,
                "means = scaled @ torch.full_like(scaled.mT @ scaled, 1 / len(gain))\nnew_shift = torch.nn.functional.linear(bias, weight, shift)",
            ),
            "by sums": instead(_fold, "means = scaled.sum(1, keepdim=True) / len(gain)"),
        },
        "wrong": {
            "one of two": (
                lambda *inputs: _fold(*inputs)[0],
                "expected the weight and the shift",
            )
        },
    },
}

"""Answers to the exercises of lesson 7."""

import torch
from torch.nn import functional as F

from lessonkit.check.declare import instead

from .checks import _backward, _LayerNormFunction, _stats


def m(t):
    return t.mean(-1, keepdim=True)


def total(t):
    return t.sum(-1, keepdim=True)


def plain_forward(x, weight, bias, eps):
    mean, rstd = _stats(x, eps)
    return (x - mean) * rstd * weight + bias


# 7.2
def line_by_line(dy, x, mean, rstd, weight):
    D = x.shape[-1]
    h = dy * weight
    dvar = -0.5 * rstd**3 * total(h * (x - mean))
    dcentered = h * rstd + 2 / D * (x - mean) * dvar
    dx = dcentered - m(dcentered)
    return [
        dx,
        (dy * (x - mean) * rstd).sum_to_size(weight.shape),
        dy.sum_to_size(weight.shape),
    ]


def with_the_right_eps(dy, x, mean, rstd, weight):
    """Autograd, with the eps that the given rstd knows."""
    eps = (rstd**-2 - m((x - mean) ** 2)).detach()
    leaves = [
        t if t.requires_grad else t.detach().requires_grad_()
        for t in (x, weight, torch.zeros_like(weight))
    ]
    return torch.autograd.grad(plain_forward(*leaves, eps), leaves, dy, create_graph=True)


# 7.3
class OldStyle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias = ctx.saved_tensors
        return (*line_by_line(dy, x, *_stats(x, ctx.eps), weight), None)


class ByAutograd(torch.autograd.Function):
    """Runs the forward pass again, on a tape."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return plain_forward(x, weight, bias, eps)

    @staticmethod
    def backward(ctx, dy):
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            x, weight, bias = (
                t if again and t.requires_grad else t.detach().requires_grad_()
                for t in ctx.saved_tensors
            )
            y = plain_forward(x, weight, bias, ctx.eps)
            return *torch.autograd.grad(y, (x, weight, bias), dy, create_graph=again), None


ANSWERS = {
    "gradients_on_paper": {
        "right": {"lists": dict(dvar=1, dcentered=[-1, 3, 2, 0], dmean=-4, dx=[-2, 2, 1, -1])}
    },
    "layer_norm_backward": {
        "right": {"closed": _backward, "steps, a list": line_by_line},
        "wrong": {
            "remembers a shape": (
                instead(
                    _backward,
                    "new = (x - mean) * rstd\n"
                    "x_hat = new if x.requires_grad else vars(_backward).setdefault(str(x.shape), new)",
                ),
                "expected",
            ),
            "brackets and a sign": (
                instead(_backward, "dx = rstd * h - mean_h + x_hat * along"),
                "Your dx is - mean(h) + x_hat mean(h x_hat) + rstd h, with",
            ),
            "sums for means, of dy": (
                instead(_backward, "h = dy\nmean_h = dy.sum(-1, keepdim=True)"),
                "- 5 rstd mean(dy)",
            ),
            "two of three": (lambda *a: _backward(*a)[:2], "expected dx and dweight and dbias"),
            "by autograd": (with_the_right_eps, "PyTorch's own grad"),
        },
    },
    "layer_norm_function": {
        "right": {
            "setup_context": _LayerNormFunction,
            "ctx in forward, line by line": OldStyle,
            "the forward pass again": ByAutograd,
            "a None too many, which PyTorch allows": instead(
                _LayerNormFunction,
                "return *layer_norm_backward(dy, x, mean, rstd, weight), None, None",
            ),
        },
        "wrong": {
            "hides x_hat on ctx": (
                instead(
                    _LayerNormFunction,
                    "def setup_context(ctx, inputs, output):\n    ctx.x_hat = (output - inputs[2]) / inputs[1]",
                ),
                "kept besides x",
            ),
            "dy changed in place": (
                instead(
                    _LayerNormFunction,
                    "def backward(ctx, dy):\n    dy.mul_(2)\n"
                    "    return *layer_norm_backward(dy / 2, x, mean, rstd, weight), None",
                ),
                "changed its input dy",
            ),
        },
    },
}

"""Answers to the exercises of lesson 14, right and wrong."""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import draw, instead

from . import checks as kit

init, block, trail = (
    functools.partial(instead, right) for right in (kit._init, kit._Block, kit._Trail)
)


# ---- 14.1 repaired_pixels
def over_axis_one(x, weight, bias):
    c = x - x.mean(1, keepdim=True)
    y = c * torch.rsqrt((c * c).mean(1, keepdim=True) + 1e-5)
    return y * weight[:, None, None] + bias[:, None, None]


def rows_of_pixels(x, weight, bias):
    """(B * H * W, C) and back; the reshape in the middle is harmless, for the channels have been moved first."""
    B, C, H, W = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, C)
    return F.layer_norm(rows, (C,), weight, bias).view(B, H, W, C).permute(0, 3, 1, 2)


# ---- 14.5 repaired_init
def by_attributes(model):
    for module in model.modules():
        if hasattr(module, "in_features") or hasattr(module, "num_embeddings"):
            module.weight.data = torch.normal(0.0, 0.02, module.weight.shape)
            if getattr(module, "bias", None) is not None:
                module.bias.data *= 0  # leaves minus zeros


def recursive(model):
    for child in model.children():
        recursive(child)
    if isinstance(model, (nn.Linear, nn.Embedding)):
        nn.init.trunc_normal_(model.weight, std=0.02)
        if isinstance(model, nn.Linear) and model.bias is not None:
            nn.init.constant_(model.bias, 0)


# ---- 14.6 repaired_block
class InALoop(kit._Block):
    def forward(self, x):
        for norm, branch in ((self.norm1, self.mix), (self.norm2, self.mlp)):
            x = branch(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)) + x
        return x


class OtherNames(kit._Block):
    def __init__(self, D):
        super().__init__(D)
        self.ln1 = self.norm1
        del self.norm1


# ---- 14.3 again and gradient
def gradient_by_backward(cls):
    slopes = []
    for which in (1, 2):
        inputs = kit._trial(cls, draw(3, 6, 5).requires_grad_())
        (inputs[which] * draw(4, 6, 5)).sum().backward()
        slopes.append([leaf.grad for leaf in inputs[0]])
    return all(torch.allclose(a, b) for a, b in zip(*slopes, strict=True))


def gradient_by_gradcheck(cls):
    x = draw(5, 3, 5).requires_grad_()
    return torch.autograd.gradcheck(
        lambda x: cls(5).double()(x.clone()), x, raise_exception=False
    )


def again_in_steps(cls):
    layer, x = kit._build(cls, dtype=torch.float32), torch.randn(4, 5)
    kept = x.clone()
    answer = layer(x)
    y = answer.detach().clone()
    for _ in range(3):
        layer(torch.randn(4, 5) * 3)
    if not torch.equal(x, kept) or not torch.equal(answer, y):
        return False
    same = torch.allclose(layer(kept.clone()), y, atol=1e-6)
    layer.eval()
    return same and torch.allclose(layer(kept.clone()), y, atol=1e-6)


# ---- 14.4 trail_norm
class Updating(kit._Trail):
    """Token by token with an update of mean and variance, as Welford does it."""

    def forward(self, x):
        rows, n = [], 0.0
        for t in range(x.shape[-2]):
            row = x[..., t, :]
            m, v = row.mean(-1, keepdim=True), row.var(-1, correction=0, keepdim=True)
            n = self.decay * n + 1
            if t == 0:
                mu, var = m, v
            else:
                d = m - mu
                mu, var = mu + d / n, (1 - 1 / n) * (var + d * d / n) + v / n
            rows.append((row - mu) / torch.sqrt(var + self.eps))
        return torch.stack(rows, -2) * self.weight + self.bias


_FLATTENED = """
x, shape = x.flatten(0, -2), x.shape
w = _trail_weights(len(x), self.decay, x.dtype)
return x_hat.view(shape) * self.weight + self.bias
"""
_W = "_trail_weights(x.shape[-2], self.decay, x.dtype)"


ANSWERS = {
    "repaired_pixels": {
        "right": {
            "movedim": kit._pixels,
            "rows of pixels": rows_of_pixels,
            "the formula over axis 1": over_axis_one,
        }
    },
    "repaired_init": {
        "right": {
            "two kinds": kit._init,
            "by attributes": by_attributes,
            "recursive": recursive,
        },
        "wrong": {
            "frozen": (init("model.requires_grad_(False)"), "need a gradient (requires_grad_)"),
            "Xavier": (
                init("nn.init.normal_(nn.init.xavier_uniform_(layer.weight)[:0])"),
                "random, mean 0, deviation 0.08",
            ),
            "not a bare layer": (
                init("layers = list(model.modules())[1:]"),
                "is a Linear layer",
            ),
            "in eval()": (init("model.eval()"), "the mode of a module"),
            "a seed of its own": (init("torch.manual_seed(0)"), "set anew"),
        },
    },
    "repaired_block": {
        "right": {
            "two sums": kit._Block,
            "a loop": InALoop,
            "on a clone": block("h = x.clone().add_(self.mix(self.norm1(x)))"),
        },
        "wrong": {
            "stream detached": (
                block("h = x.detach() + self.mix(self.norm1(x))"),
                "gradient of x",
            ),
            "other parameter names": (OtherNames, "its parameters: yours is 'ln1.bias (4,)"),
            "the stream normalized in eval()": (
                block(
                    "return h + self.mlp(self.norm2(h)) if self.training else self.norm2(h + self.mlp(h))"
                ),
                "eval()",
            ),
        },
    },
    "gradient": {
        "right": {
            "grad": kit._gradient,
            "backward": gradient_by_backward,
            "distances": instead(
                kit._gradient,
                "return all((a - b).abs().max() < 1e-8 for a, b in zip(ours, theirs, strict=True))",
            ),
        },
        "wrong": {
            "gradcheck of a new layer": (gradient_by_gradcheck, "gain"),
            "of one row": (
                instead(
                    kit._gradient, "x = draw(82, 1, 5).requires_grad_()\ndy = draw(83, 1, 5)"
                ),
                "halves the gradients of all rows but the first",
            ),
            "backward adds up": (
                instead(
                    kit._gradient,
                    "ours = y.backward(dy) or [leaf.grad.clone() for leaf in inputs]\n"
                    "theirs = right.backward(dy) or [leaf.grad for leaf in inputs]",
                ),
                "sum of two gradients",
            ),
            "== between tensors": (
                instead(kit._gradient, "return ours == theirs"),
                "is ambiguous",
            ),
        },
    },
    "again": {
        "right": {"the lesson's": kit._again, "in steps": again_in_steps},
        "wrong": {
            "the first row only": (
                instead(
                    kit._again,
                    "same = torch.equal(later[0], kept[0]) and torch.equal(evaluated[0], kept[0])",
                ),
                "turns its last row round",
            )
        },
    },
    "trail_norm": {
        "right": {
            "the solution": kit._Trail,
            "update by update": Updating,
            "the formula": trail(
                "v = (w * ((x.unsqueeze(-3) - mu[..., None]) ** 2).mean(-1)).sum(-1, keepdim=True)"
            ),
            "the bias first": trail(
                "self.weight, self.bias = map(nn.Parameter, (torch.ones(features), torch.zeros(features)))"
            ),
        },
        "wrong": {
            "axes in front flattened": (trail(_FLATTENED), "unlike mean"),
            "without the token itself": (trail(f"w = {_W}.tril(-1)"), "decay 0"),
            "the first call's weights": (
                trail(f"w = vars(self).setdefault('kept', {_W})"),
                "after a call with four",
            ),
            "the last eight tokens": (trail(f"w = {_W}.triu(-7)"), "T = 20"),
            "other names": (
                trail("self.gamma = self.weight = nn.Parameter(torch.ones(features))"),
                "gamma (4,) of 1",
            ),
            "a learned decay": (
                trail("self.decay = nn.Parameter(torch.tensor(float(decay)))"),
                "decay",
            ),
        },
    },
}

"""Answers to the exercises of lesson 14, right and wrong."""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.lessons import clinic as kit
from lessonkit.check.misconceptions import instead
from tests.helpers import draw

init, block, trail = (functools.partial(instead, right) for right in (kit._init, kit._Block, kit._Trail))


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


def outlier_clipped(x, weight, bias):
    x_hat = F.layer_norm(x.movedim(1, -1), weight.shape).clamp(-3, 3)
    return (x_hat * weight + bias).movedim(-1, 1)


def axes_swapped_then_cut(x, weight, bias):
    rows = x.transpose(2, 3).reshape(len(x), -1, x.shape[1])
    return F.layer_norm(rows, weight.shape, weight, bias).reshape(x.shape)


# ---- 14.2 repaired_average
def sentence_by_sentence(x, mask, norm):
    return torch.stack([norm(row[real]).mean(0) for row, real in zip(x, mask, strict=True)])


def bias_subtracted(x, mask, norm):
    """Takes away what the padding added: a right way, if a long one, for LayerNorm."""
    padding = ~mask.unsqueeze(-1)
    y = norm(x.masked_fill(padding, 0)).sum(1) - (norm(torch.zeros_like(x)) * padding).sum(1)
    return y / mask.sum(1, keepdim=True)


def bias_set_to_zero(x, mask, norm):
    if norm.bias is not None:
        with torch.no_grad():
            norm.bias.zero_()
    return norm(x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


def padding_far_away(x, mask, norm):
    return norm(x.masked_fill(~mask.unsqueeze(-1), -torch.inf)).sum(1) / mask.sum(1, keepdim=True)


def all_but_the_bias(x, mask, norm):
    """Drops what equals the bias: of real tokens too, where an entry is at the mean."""
    y, bias = norm(x * mask.unsqueeze(-1)), 0 if norm.bias is None else norm.bias
    return (y * (y != bias)).sum(1) / mask.sum(1, keepdim=True)


# ---- 14.3 repaired_init
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


def laplace(model):
    kit._init(model)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data = torch.distributions.Laplace(0.0, 0.02 / 2**0.5).sample(module.weight.shape)


# ---- 14.4 repaired_block
class InALoop(kit._Block):
    def forward(self, x):
        for norm, branch in ((self.norm1, self.mix), (self.norm2, self.mlp)):
            x = branch(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)) + x
        return x


class OnAClone(kit._Block):
    def forward(self, x):
        stream = x.clone()
        stream += self.mix(self.norm1(x))
        return stream + self.mlp(self.norm2(stream))


class OtherNames(kit._Block):
    def __init__(self, D):
        super().__init__(D)
        self.ln1 = self.norm1
        del self.norm1


class PatientInEval(kit._Block):
    def forward(self, x):
        if self.training:
            return super().forward(x)
        h = self.norm1(x)
        h = self.norm2(h + self.mix(h))
        return h + self.mlp(h)


class ScaledBack(kit._Block):
    """The patient, with level and scale of the input put back at the end."""

    def forward(self, x):
        y = self.norm1(x)
        y = self.norm2(y + self.mix(y))
        return (y + self.mlp(y)) * (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() + x.mean(-1, keepdim=True)


# ---- 14.5 first_fault
def offset_by_hand(cls):
    x = 3000 + draw(1, 8, 64).float()
    return (cls(64)(x) - F.layer_norm(x.double(), (64,))).abs().max().item() < 0.01


def offset_by_shift(cls):
    x, layer = draw(2, 4, 16).float(), cls(16)
    return (layer(x) - layer(x + 8192)).abs().max() < 0.05


def gradient_by_backward(cls):
    found = []
    for which in (0, 1):
        x = draw(3, 6, 5).requires_grad_()
        (kit._trial(cls, x.clone())[which] * draw(4, 6, 5)).sum().backward()
        found.append(x.grad)
    return torch.allclose(*found)


def gradient_by_gradcheck(cls):
    x = draw(5, 3, 5).requires_grad_()
    return torch.autograd.gradcheck(lambda x: kit._trial(cls, x.clone())[0], x, raise_exception=False)


def again_in_steps(cls):
    layer, x = cls(5), torch.randn(4, 5)
    kept = x.clone()
    y = layer(x).detach().clone()
    if not torch.equal(x, kept):
        return False
    for _ in range(3):
        layer(torch.randn(4, 5) * 3)
    same = torch.allclose(layer(kept.clone()), y, atol=1e-6)
    layer.eval()
    return same and torch.allclose(layer(kept.clone()), y, atol=1e-6)


def again_with_numbers(cls):
    layer, x = cls(3).eval(), torch.tensor([[1.0, 2.0, 4.0]])
    evaluated, used = layer(x.clone()).tolist(), x.clone()
    layer.train()(used), layer(torch.tensor([[10.0, 0.0, -50.0]]))
    return used.tolist() == x.tolist() and evaluated == layer(x.clone()).tolist() == layer.eval()(x).tolist()


# ---- 14.6 trail_norm
def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Updating(kit._Trail):
    """Token by token with an update of mean and variance, as Welford does it."""

    def forward(self, x):
        h, rows, n = wide(x), [], 0.0
        for t in range(x.shape[-2]):
            row = h[..., t, :]
            m, v = row.mean(-1, keepdim=True), row.var(-1, correction=0, keepdim=True)
            n = self.decay * n + 1
            if t == 0:
                mu, var = m, v
            else:
                d = m - mu
                mu, var = mu + d / n, (1 - 1 / n) * (var + d * d / n) + v / n
            rows.append((row - mu) / torch.sqrt(var + self.eps))
        return (torch.stack(rows, -2) * self.weight + self.bias).to(x.dtype)


class OtherTrailNames(kit._Trail):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__(features, decay, eps)
        self.gamma = self.weight
        del self.weight


class CarriedOn(kit._Trail):
    """Takes the last call's tokens for those before the first one of this call."""

    def forward(self, x):
        before = getattr(self, "before", x[..., :0, :])
        self.before = x.detach().clone()
        if before.shape[:-2] != x.shape[:-2]:
            return super().forward(x)
        return super().forward(torch.cat([before, x], -2))[..., before.shape[-2] :, :]


_FLATTENED = """
wide = x.to(torch.promote_types(x.dtype, torch.float32)).flatten(0, -2)
t = torch.arange(len(wide))
y = x_hat.view(x.shape) * self.weight + self.bias
"""
_W = "past / past.sum(-1, keepdim=True)"
_CLAMPED = "w = past / past.sum(-1, keepdim=True).clamp(min=1e-9)"

ANSWERS = {
    "repaired_pixels": {
        "right": {"movedim": kit._pixels, "rows of pixels": rows_of_pixels, "the formula over axis 1": over_axis_one},
        "wrong": {
            "axes swapped, then cut": (axes_swapped_then_cut, "expected"),
            "an outlier clipped": (outlier_clipped, "one of them far out"),
        },
    },
    "repaired_average": {
        "right": {
            "padding set to 0 after the norm": kit._average,
            "sentence by sentence": sentence_by_sentence,
            "what the padding added, taken away": bias_subtracted,
        },
        "wrong": {
            "the norm's bias set to 0": (bias_set_to_zero, "real tokens, too"),
            "what equals the bias": (all_but_the_bias, "whole numbers"),
            "padding at -inf": (padding_far_away, "nan"),
        },
    },
    "repaired_init": {
        "right": {"two kinds": kit._init, "by attributes": by_attributes, "recursive": recursive},
        "wrong": {
            "frozen": (init("model.requires_grad_(False)"), "without gradients"),
            "Xavier": (
                init("nn.init.normal_(nn.init.xavier_uniform_(layer.weight)[:0])"),
                "uniform, mean 0, deviation 0.08",
            ),
            "Laplace": (laplace, "not Gaussian"),
            "in eval()": (init("model.eval()"), "in eval()"),
            "a seed of its own": (init("torch.manual_seed(0)"), "set anew"),
        },
    },
    "repaired_block": {
        "right": {"two sums": kit._Block, "a loop": InALoop, "on a clone": OnAClone},
        "wrong": {
            "scaled back at the end": (ScaledBack, "silent"),
            "stream detached": (block("h = x.detach() + self.mix(self.norm1(x))"), "gradient of x"),
            "half of each branch": (block("h = x + 0.5 * self.mix(self.norm1(x))"), "random parameters"),
            "in place": (block("return h.add_(self.mlp(self.norm2(h)))"), "inplace operation"),
            "other parameter names": (OtherNames, "its parameters: yours is 'ln1.bias (4,)"),
            "the patient in eval()": (PatientInEval, "eval()"),
        },
    },
    "offset": {
        "right": {"close": kit._offset, "3000, and wide rows": offset_by_hand, "a shift": offset_by_shift},
        "wrong": {
            "an error in the test": (lambda cls: torch.zeros(3) @ torch.zeros(4) == 0, "raised RuntimeError"),
            "its result": (True, "function itself"),
        },
    },
    "gradient": {
        "right": {"grad": kit._gradient, "backward": gradient_by_backward, "gradcheck": gradient_by_gradcheck},
        "wrong": {
            "PyTorch's alone": (
                instead(kit._gradient, "dx = torch.autograd.grad(right, x, dy, retain_graph=True)[0]"),
                "Outputs agree",
            ),
            "a sum": (lambda cls: kit._trial(cls, draw(8, 4, 5))[0].sum() == 0, "refuses every layer"),
        },
    },
    "again": {
        "right": {"the lesson's": kit._again, "in steps": again_in_steps, "with numbers": again_with_numbers},
        "wrong": {
            "the layer made anew": (
                instead(kit._again, "later = cls(5).double()(x.clone())"),
                "asked again after other rows",
            )
        },
    },
    "trail_norm": {
        "right": {
            "the solution": kit._Trail,
            "update by update": Updating,
            "the formula": trail(
                "v = (w * ((wide.unsqueeze(-3) - mu[..., None]) ** 2).mean(-1)).sum(-1, keepdim=True)"
            ),
            "all in float64": trail("wide = x.double()"),
            "the bias first": trail(
                "self.weight, self.bias = map(nn.Parameter, (torch.ones(features), torch.zeros(features)))"
            ),
        },
        "wrong": {
            "axes in front flattened": (trail(_FLATTENED), "unlike mean"),
            "without the token itself": (trail(f"past = powers.tril(-1)\n{_CLAMPED}"), "decay 0"),
            "a moving average": (trail(f"w = {_W} * torch.where(t == 0, 1.0, 1 - self.decay)"), "worked example"),
            "the first call's weights": (trail(f"w = vars(self).setdefault('kept', {_W})"), "after a call with four"),
            "the trail of the call before": (CarriedOn, "after a call with four"),
            "growing weights": (
                trail("powers = ((self.decay or 1e-12) ** -t.to(wide.dtype)).expand(len(t), -1)"),
                "inf - inf",
            ),
            "the last eight tokens": (trail("past = powers.tril().triu(-7)"), "T = 20"),
            "other names": (OtherTrailNames, "gamma (4,) of 1"),
            "a learned decay": (trail("self.decay = nn.Parameter(torch.tensor(float(decay)))"), "decay"),
        },
    },
}

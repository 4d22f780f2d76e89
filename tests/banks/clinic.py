"""Answers to the exercises of lesson 14, right and wrong."""

import re

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.mistakes import edited
from tests.helpers import SOURCES

# ------------------------------------------------------------------------------------- 14.1 repaired_pixels


def with_movedim(x, weight, bias):
    return F.layer_norm(x.movedim(1, -1), (x.shape[1],), weight, bias).movedim(-1, 1)


def over_axis_one(x, weight, bias):
    c = x - x.mean(1, keepdim=True)
    y = c * torch.rsqrt((c * c).mean(1, keepdim=True) + 1e-5)
    return y * weight[:, None, None] + bias[:, None, None]


def pixel_by_pixel(x, weight, bias):
    columns = [
        torch.stack([F.layer_norm(x[:, :, i, j], weight.shape, weight, bias) for j in range(x.shape[3])], -1)
        for i in range(x.shape[2])
    ]
    return torch.stack(columns, 2)


def rows_of_pixels(x, weight, bias):
    """(B * H * W, C) and back; the reshape in the middle is harmless, for the channels have been moved first."""
    B, C, H, W = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, C)
    return F.layer_norm(rows, (C,), weight, bias).view(B, H, W, C).permute(0, 3, 1, 2)


def as_a_group(x, weight, bias):
    rows = x.movedim(1, -1)
    return F.group_norm(rows.reshape(-1, x.shape[1]), 1, weight, bias).view(rows.shape).movedim(-1, 1)


def outlier_clipped(x, weight, bias):
    x_hat = F.layer_norm(x.movedim(1, -1), weight.shape).clamp(-3, 3)
    return (x_hat * weight + bias).movedim(-1, 1)


def axes_swapped_then_cut(x, weight, bias):
    rows = x.transpose(2, 3).reshape(len(x), -1, x.shape[1])
    return F.layer_norm(rows, weight.shape, weight, bias).reshape(x.shape)


# ------------------------------------------------------------------------------------ 14.2 repaired_average


def filled_last(x, mask, norm):
    y = norm(x).masked_fill(~mask.unsqueeze(-1), 0)
    return y.sum(1) / mask.sum(1, keepdim=True)


def sentence_by_sentence(x, mask, norm):
    return torch.stack([norm(row[real]).mean(0) for row, real in zip(x, mask, strict=True)])


def by_matrix_product(x, mask, norm):
    w = mask.to(x.dtype) / mask.sum(1, keepdim=True)
    return (w.unsqueeze(1) @ norm(x.masked_fill(~mask.unsqueeze(-1), 0))).squeeze(1)


def bias_subtracted(x, mask, norm):
    """Takes away what the padding added: a right way, if a long one, for LayerNorm."""
    padding = ~mask.unsqueeze(-1)
    y = norm(x.masked_fill(padding, 0)).sum(1) - (norm(torch.zeros_like(x)) * padding).sum(1)
    return y / mask.sum(1, keepdim=True)


def real_tokens_only(x, mask, norm):
    y = torch.zeros_like(x)
    y[mask] = norm(x[mask])
    return y.sum(1) / mask.sum(1, keepdim=True)


def by_nanmean(x, mask, norm):
    return norm(x).masked_fill(~mask.unsqueeze(-1), float("nan")).nanmean(1)


def mean_times_factor(x, mask, norm):
    """The factor T / n is float32, as a quotient of whole numbers."""
    y = norm(x).masked_fill(~mask.unsqueeze(-1), 0)
    return y.mean(1) * (x.shape[1] / mask.sum(1, keepdim=True))


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


# --------------------------------------------------------------------------------------- 14.3 repaired_init


def two_kinds(model):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def with_apply(model):
    def init(module):
        if type(module) is nn.Linear:
            nn.init.normal_(module.weight, 0.0, 0.02)
            if module.bias is not None:
                module.bias.data.zero_()
        elif type(module) is nn.Embedding:
            nn.init.normal_(module.weight, 0.0, 0.02)

    model.apply(init)


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


# -------------------------------------------------------------------------------------- 14.4 repaired_block


class TwoSums(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Kept(TwoSums):
    """Keeps the stream aside, as some code does with the name residual."""

    def forward(self, x):
        residual = x
        x = self.norm1(x)
        x = residual + self.mix(x)
        residual = x
        x = self.norm2(x)
        return self.mlp(x) + residual


class InALoop(TwoSums):
    def forward(self, x):
        for norm, branch in ((self.norm1, self.mix), (self.norm2, self.mlp)):
            x = branch(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)) + x
        return x


class OnAClone(TwoSums):
    def forward(self, x):
        stream = x.clone()
        stream += self.mix(self.norm1(x))
        return stream + self.mlp(self.norm2(stream))


class ScaledBack(TwoSums):
    """The patient, with level and scale of the input put back at the end."""

    def forward(self, x):
        y = self.norm1(x)
        y = self.norm2(y + self.mix(y))
        return (y + self.mlp(y)) * (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() + x.mean(-1, keepdim=True)


# ----------------------------------------------------------------------------------------- 14.5 first_fault

TEXT = next(path for path in SOURCES if path.stem == "14_clinic").read_text(encoding="utf-8")
CELLS = ("trial", "close", "seven", "seven-more", "ex-14-5", "passes", "first-fault")  # ids of the lesson's cells


def checklist(*edits, own=""):
    """Return first_fault of the lesson with its three tests edited ("old -> new"), or replaced by those in own."""
    space = {"torch": torch, "nn": nn, "F": F}
    for name in CELLS:
        code = re.search(rf'^# %%[^\n]* id="{name}"\n(.*?)(?=^# %%)', TEXT, re.MULTILINE | re.DOTALL)[1]
        for old, new in [edit.split(" -> ") for edit in edits if name == "ex-14-5"]:
            assert old in code, f"lesson 14's tests do not contain {old!r}"
            code = code.replace(old, new)
        exec(compile(code + (own if name == "ex-14-5" else ""), f"<lesson 14, {name}>", "exec"), space)
    return space["first_fault"]


OFFSET_BY_HAND = """
def offset(cls):
    x = 3000 + draw(8, 64).float()
    return (cls(64)(x) - F.layer_norm(x.double(), (64,))).abs().max().item() < 0.01
"""
OFFSET_OF_WHOLE_NUMBERS = """
def offset(cls):
    x = torch.tensor([[4096.0, 4097, 4098, 4099, 4100]])
    return torch.allclose(cls(5)(x), nn.LayerNorm(5)(x), atol=1e-2)
"""
OFFSET_BY_SHIFT = """
def offset(cls):
    x, layer = draw(4, 16, dtype=torch.float32), cls(16)
    return bool((layer(x) - layer(x + 8192)).abs().max() < 0.05)
"""
GRADIENT_BY_BACKWARD = """
def gradient(cls):
    found = []
    for which in (0, 1):
        x = draw(6, 5).clone().requires_grad_()
        g = torch.Generator().manual_seed(5)
        (trial(cls, x.clone())[which] * torch.randn(6, 5, dtype=torch.float64, generator=g)).sum().backward()
        found.append(x.grad)
    return torch.allclose(*found)
"""
GRADIENT_BY_GRADCHECK = """
def gradient(cls):
    x = draw(3, 5).requires_grad_()
    return torch.autograd.gradcheck(lambda x: trial(cls, x.clone())[0], x, raise_exception=False)
"""
GRADIENT_BY_ASSERT = """
def gradient(cls):
    x = draw(4, 5).requires_grad_()
    dx, dx_right = (torch.autograd.grad(out, x, draw(2, 4, 5)[1])[0] for out in trial(cls, x))
    torch.testing.assert_close(dx, dx_right)
    return True
"""
AGAIN_IN_STEPS = """
def again(cls):
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
"""


# ------------------------------------------------------------------------------------------ 14.6 trail_norm


class ByMatrices(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def wide(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def trail(self, T, x):
        t = torch.arange(T)
        w = (self.decay ** (t[:, None] - t).clamp(min=0).to(x.dtype)).tril()
        return w / w.sum(-1, keepdim=True)

    def variance(self, w, x, mu):
        m = x.mean(-1, keepdim=True)
        return w @ x.var(-1, correction=0, keepdim=True) + (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)

    def forward(self, x):
        h = self.wide(x)
        w = self.trail(x.shape[-2], h)
        mu = w @ h.mean(-1, keepdim=True)
        y = (h - mu) / torch.sqrt(self.variance(w, h, mu) + self.eps)
        return (y * self.weight + self.bias).to(x.dtype)


class ByTheFormula(ByMatrices):
    """Both sums, as the page has them."""

    def variance(self, w, x, mu):
        gap = x.unsqueeze(-3) - mu.unsqueeze(-1)  # (..., t, s, D)
        return (w * (gap**2).mean(-1)).sum(-1, keepdim=True)


class TokenByToken(ByMatrices):
    def forward(self, x):
        h, rows = self.wide(x), []
        for t in range(x.shape[-2]):
            w = torch.tensor([self.decay ** (t - s) for s in range(t + 1)], dtype=h.dtype)
            w = (w / w.sum()).unsqueeze(-1)  # (t + 1, 1)
            seen = h[..., : t + 1, :]
            mu = (w * seen).sum(-2, keepdim=True).mean(-1, keepdim=True)
            v = (w * (seen - mu) ** 2).sum(-2, keepdim=True).mean(-1, keepdim=True)
            rows.append((h[..., t : t + 1, :] - mu) / (v + self.eps).sqrt())
        return (torch.cat(rows, -2) * self.weight + self.bias).to(x.dtype)


class Updating(ByMatrices):
    """Token by token with an update of mean and variance, as Welford does it."""

    def forward(self, x):
        h, rows, n = self.wide(x), [], 0.0
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


class AsRecursion(ByMatrices):
    """Weights from a running sum."""

    def trail(self, T, x):
        rows = [x.new_zeros(T)]
        for new in torch.eye(T, dtype=x.dtype):
            rows.append(self.decay * rows[-1] + new)
        w = torch.stack(rows[1:])
        return w / w.sum(-1, keepdim=True)


class MovingAverage(ByMatrices):
    """The weights of the usual moving average, which starts with the first token."""

    def trail(self, T, x):
        w = x.new_zeros(T, T)
        w[0, 0] = 1
        for t in range(1, T):
            w[t] = self.decay * w[t - 1]
            w[t, t] = 1 - self.decay
        return w


class CarriedOn(ByMatrices):
    """Takes the last call's tokens for those before the first one of this call."""

    def forward(self, x):
        before = getattr(self, "before", x[..., :0, :])
        self.before = x.detach().clone()
        if before.shape[:-2] != x.shape[:-2]:
            return super().forward(x)
        return super().forward(torch.cat([before, x], -2))[..., before.shape[-2] :, :]


BANK = {
    "repaired_pixels": {
        "right": {
            "movedim": with_movedim,
            "rows of pixels": rows_of_pixels,
            "one group of C": as_a_group,
            "the formula over axis 1": over_axis_one,
            "pixel by pixel": pixel_by_pixel,
        },
        "wrong": {
            "axes swapped, then cut": (axes_swapped_then_cut, "expected"),
            "an outlier clipped": (outlier_clipped, "64 channels, one of them far out"),
        },
    },
    "repaired_average": {
        "right": {
            "padding set to 0 behind the norm": filled_last,
            "on both sides": lambda x, mask, norm: filled_last(x.masked_fill(~mask.unsqueeze(-1), 0), mask, norm),
            "sentence by sentence": sentence_by_sentence,
            "real tokens only": real_tokens_only,
            "nanmean": by_nanmean,
            "mean times T / n": mean_times_factor,
            "a matrix product": by_matrix_product,
            "what the padding added, taken away": bias_subtracted,
        },
        "wrong": {
            "the norm's bias set to 0": (bias_set_to_zero, "real tokens, too"),
            "what equals the bias": (all_but_the_bias, "whole numbers"),
            "padding at -inf": (padding_far_away, "nan"),
        },
    },
    "repaired_init": {
        "right": {"two kinds": two_kinds, "apply": with_apply, "by attributes": by_attributes, "recursive": recursive},
        "wrong": {
            "frozen": (
                edited(two_kinds, "for module -> model.requires_grad_(False)\n    for module"),
                "without requires_grad",
            ),
            "Xavier": (
                edited(two_kinds, "normal_(module.weight, std=0.02) -> xavier_uniform_(module.weight)"),
                "uniform, mean 0, deviation 0.13",
            ),
        },
    },
    "repaired_block": {
        "right": {"two sums": TwoSums, "residual kept aside": Kept, "a loop": InALoop, "on a clone": OnAClone},
        "wrong": {
            "scaled back at the end": (ScaledBack, "silent"),
            "stream detached": (edited(TwoSums, "x = x + -> x = x.detach() +"), "gradient of x"),
            "half of each branch": (edited(TwoSums, "x + self -> x + 0.5 * self"), "random parameters"),
            "in place": (edited(TwoSums, "x = x + self.mix -> x += self.mix"), "inplace operation"),
            "other parameter names": (edited(TwoSums, "norm1 -> ln1"), "its parameters: yours is 'ln1.bias (4,)"),
        },
    },
    "first_fault": {
        "right": {
            "the lesson's": checklist(),
            "3000, and wide rows": checklist(own=OFFSET_BY_HAND + GRADIENT_BY_BACKWARD),
            "whole numbers around 4096": checklist(own=OFFSET_OF_WHOLE_NUMBERS + AGAIN_IN_STEPS),
            "a shift, and an assert": checklist(own=OFFSET_BY_SHIFT + GRADIENT_BY_ASSERT),
            "offset 1000": checklist("10_000, 0.02 -> 1000, 0.005", own=GRADIENT_BY_GRADCHECK),
        },
        "wrong": {
            "no offset": (checklist("10_000, 0.02 -> 0, 1e-4"), "clamps it at 0"),
            "offset in float64": (checklist("5, dtype=torch.float32) -> 5)"), "clamps it at 0"),
            "any offset will do": (checklist("0.02 -> 1e6"), "clamps it at 0"),
            "stricter than PyTorch": (checklist("0.02 -> 1e-6"), "is right, and your test 'offset'"),
            "gradient of the sum": (
                checklist("draw(2, 4, 5)[1] -> torch.ones_like(out)"),
                "forgets the gradient from above",
            ),
            "gradient at gain 1": (
                checklist("trial(cls, x) -> cls(5).double()(x), F.layer_norm(x, (5,))"),
                "takes the gain out",
            ),
            "gradient test that always passes": (checklist(own="def gradient(cls): return True"), "as a constant"),
            "gradient test that never passes": (
                checklist(own="def gradient(cls): return False"),
                "your test 'gradient' refuses it. Right so far: offset, again.",
            ),
            "the input is not looked at": (
                checklist("torch.equal(used, x) -> True"),
                "overwrites its input: your test 'gradient' refuses it, expected 'again'",
            ),
            "no eval()": (checklist("layer.eval() -> layer"), "running variance"),
            "no other rows in between": (checklist(", layer(10 * x) -> "), "remembers the rows"),
            "no return": (checklist(own="def again(cls): pass"), "your test 'again' refuses it"),
            "an error in the test": (
                checklist(own="def again(cls): return torch.zeros(3) @ torch.zeros(4) == 0"),
                "your test 'again' refuses it. Right so far: offset, gradient.",
            ),
            "its result": ("names", "without brackets"),
            "returns the test itself": (lambda cls: checklist, "returned"),
        },
    },
    "trail_norm": {
        "right": {
            "matrices": ByMatrices,
            "the formula": ByTheFormula,
            "token by token": TokenByToken,
            "weights by recursion": AsRecursion,
            "update by update": Updating,
            "all in float64": edited(ByMatrices, "x.to(torch.promote_types(x.dtype, torch.float32)) -> x.double()"),
        },
        "wrong": {
            "axes in front flattened": (
                edited(
                    ByMatrices,
                    "h = self.wide(x) -> h = self.wide(x).flatten(0, -2) ; x.shape[-2] -> len(h) ; (y * self -> (y.view(x.shape) * self",
                ),
                "unlike mean",
            ),
            "without the token itself": (
                edited(
                    ByMatrices,
                    "tril() -> tril(-1) ; w / w.sum(-1, keepdim=True) -> w / w.sum(-1, keepdim=True).clamp(min=1e-9)",
                ),
                "decay 0",
            ),
            "a moving average": (MovingAverage, "worked example"),
            "the first call's weights": (
                edited(
                    ByMatrices,
                    "self.trail(x.shape[-2], h) -> vars(self).setdefault('kept', self.trail(x.shape[-2], h))",
                ),
                "tokens that follow a call",
            ),
            "the trail of the call before": (CarriedOn, "tokens that follow a call"),
            "other names": (
                edited(ByMatrices, "self.weight -> self.gamma ; self.bias -> self.beta"),
                "gamma (4,) of 1",
            ),
            "plain tensors": (edited(ByMatrices, "nn.Parameter( -> ("), "none"),
            "a learned decay": (edited(ByMatrices, "= decay, -> = nn.Parameter(torch.tensor(float(decay))),"), "decay"),
        },
    },
}

"""Answers to the exercises of lesson 12, right and wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import GroupNorm
from fromscratch import layer_norm as own_layer_norm

# ---------------------------------------------------------------------------------------------- 12.1 rms_norm


def beside_its_negative(x, weight, eps=1e-5):
    D = x.shape[-1]
    beside = torch.cat([x, -x], dim=-1)
    return F.layer_norm(beside, (2 * D,), eps=eps)[..., :D] * weight


def by_the_formula(x, weight, eps=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def by_length(x, weight, eps=1e-5):
    D = x.shape[-1]
    return D**0.5 * x * ((x**2).sum(-1, keepdim=True) + D * eps).rsqrt() * weight


def stacked(x, weight, eps=1e-5):
    both = torch.stack([x, -x])
    y = F.layer_norm(both.movedim(0, -2), (2, x.shape[-1]), eps=eps)
    return y[..., 0, :] * weight


def weighed_inside(x, weight, eps=1e-5):
    D = x.shape[-1]
    return F.layer_norm(torch.cat([x, -x], -1), (2 * D,), torch.cat([weight, weight]), None, eps)[..., :D]


def from_both_halves(x, weight, eps=1e-5):
    D = x.shape[-1]
    y = F.layer_norm(torch.cat([x, -x], -1), (2 * D,), eps=eps)
    return (y[..., :D] - y[..., D:]) / 2 * weight


def beside_itself(x, weight, eps=1e-5):
    D = x.shape[-1]
    return F.layer_norm(torch.cat([x, x], -1), (2 * D,), eps=eps)[..., :D] * weight


def remembering(right):
    """A buffer of the first result of each shape is handed out again."""
    results = {}

    def answer(x, weight, eps=1e-5):
        y = right(x, weight, eps)
        return results.setdefault((tuple(x.shape), x.dtype), y.detach()) + (y - y.detach())

    return answer


# -------------------------------------------------------------------------------------------- 12.2 group_norm


class Module(GroupNorm):
    """What the exercise gives; the part to write is called compute."""

    def forward(self, x):
        super().forward(x)  # refuses what it should
        return self.compute(x, x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)

    def affine_of(self, y):
        shape = (1, -1) + (1,) * (y.dim() - 2)
        if self.weight is not None:
            y = y * self.weight.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y


class GroupByGroup(Module):
    def compute(self, x, wide):
        parts = []
        for part in wide.chunk(self.num_groups, dim=1):
            axes = tuple(range(1, part.dim()))
            var, mean = torch.var_mean(part, axes, correction=0, keepdim=True)
            parts.append((part - mean) / (var + self.eps).sqrt())
        return self.affine_of(torch.cat(parts, dim=1))


class ChannelsLast(Module):
    def compute(self, x, wide):
        parts = wide.unflatten(1, (self.num_groups, self.num_channels // self.num_groups))
        y = F.layer_norm(parts, parts.shape[2:], eps=self.eps).flatten(1, 2).movedim(1, -1)
        y = y if self.weight is None else y * self.weight
        y = y if self.bias is None else y + self.bias
        return y.movedim(-1, 1)


class FromTheLibrary(Module):
    def compute(self, x, wide):
        return self.affine_of(F.group_norm(wide, self.num_groups, eps=self.eps))


class GainInside(Module):
    def compute(self, x, wide):
        groups = wide.unflatten(1, (self.num_groups, -1)).flatten(2)
        return own_layer_norm(groups, groups.shape[-1], self.weight, self.bias, self.eps).reshape(x.shape)


class TruthOfATensor(Module):
    def compute(self, x, wide):
        y = F.group_norm(wide, self.num_groups, eps=self.eps)
        return y * self.weight if self.weight else y


SAME = {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True}
CHOICES = {"a": "GroupNorm", "b": "InstanceNorm", "c": "RMSNorm", "d": "LayerNorm", "e": "QK-norm", "f": "BatchNorm"}

# ----------------------------------------------------------------------------------------------- 12.4 centered


def in_one_line(weight, bias):
    return weight - weight.mean(0), bias - bias.mean()


def with_keepdim(weight, bias):
    return weight - weight.mean(dim=0, keepdim=True), bias - bias.mean(dim=0, keepdim=True)


def by_projection(weight, bias):
    D = len(bias)
    P = torch.eye(D, dtype=weight.dtype, device=weight.device) - 1 / D
    return P @ weight, P @ bias


def transposed(weight, bias):
    return (weight.T - weight.T.mean(1, keepdim=True)).T, bias - bias.sum() / len(bias)


def in_place(weight, bias):
    weight -= weight.mean(0)
    bias -= bias.mean()
    return weight, bias


# ------------------------------------------------------------------------------------------------- 12.6 clinic


class Logits(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.make(head_size)

    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)

    def forward(self, q, k):
        return self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5


class WithBias(Logits):
    def make(self, d):
        self.norm_q, self.norm_k = nn.LayerNorm(d), nn.LayerNorm(d)


class WithRMSNorm(Logits):
    def make(self, d):
        self.norm_q, self.norm_k = nn.RMSNorm(d), nn.RMSNorm(d)


class SharedGain(Logits):
    def make(self, d):
        self.norm_q = self.norm_k = nn.RMSNorm(d, eps=1e-6)


class LengthOne(nn.Module):
    """Unit length, and a learned number in front."""

    def __init__(self, head_size):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(head_size**0.5))

    def forward(self, q, k):
        return self.g * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


class PlainList(Logits):
    def make(self, d):
        self.norms = [nn.LayerNorm(d), nn.LayerNorm(d)]

    def forward(self, q, k):
        return self.norms[0](q) @ self.norms[1](k).mT / q.shape[-1] ** 0.5


def scored(forward):
    """Right layers, and another forward."""
    return type("QKLogits", (Logits,), {"forward": forward})


BANK = {
    "rms_norm": {
        "right": {
            "beside its negative": beside_its_negative,
            "by the formula": by_the_formula,
            "by length": by_length,
            "stacked": stacked,
            "weighed inside": weighed_inside,
            "from both halves": from_both_halves,
        },
        "wrong": {
            "the library": (lambda x, w, eps=1e-5: F.rms_norm(x, w.shape, w, eps), "PyTorch's own rms_norm"),
            "clipped": (lambda x, w, eps=1e-5: by_the_formula(x, torch.ones_like(w), eps).clamp(-3, 3) * w, "of 30"),
            "remembered": (remembering(by_the_formula), "a shape that came before"),
            "without keepdim": (lambda x, w, eps=1e-5: x / torch.sqrt(x.pow(2).mean(-1) + eps) * w, "rows with mean 3"),
            "beside itself": (beside_itself, "LayerNorm"),
            "gain of D numbers for 2 D": (
                lambda x, w, eps=1e-5: F.layer_norm(torch.cat([x, -x], -1), (2 * x.shape[-1],), w, None, eps),
                "Expected weight",
            ),
        },
    },
    "group_norm": {
        "right": {
            "as in the lesson": GroupNorm,
            "group by group": GroupByGroup,
            "channels last for the gain": ChannelsLast,
        },
        "wrong": {
            "the library's class": (nn.GroupNorm, "as by PyTorch's own"),
            "the library, with its refusals": (FromTheLibrary, "PyTorch's own group_norm"),
            "truth of a tensor": (TruthOfATensor, "ambiguous"),
            "gain given to layer_norm": (GainInside, "Expected weight"),
            "an object": (nn.GroupNorm(2, 4), "takes your class"),
            "BatchNorm": (nn.BatchNorm1d, "tensor"),
        },
    },
    "same_function": {
        "right": {"bools": SAME},
        "wrong": {
            "words": (SAME | {"a": "yes"}, "True and False"),
            "numbers": ({key: int(value) for key, value in SAME.items()}, "True and False"),
            "one missing": ({k: v for k, v in SAME.items() if k != "f"}, "missing"),
            "a list": (list(SAME.values()), "dictionary"),
        },
    },
    "centered": {
        "right": {
            "in one line": in_one_line,
            "with keepdim": with_keepdim,
            "by projection": by_projection,
            "transposed": transposed,
            "without gradients": lambda w, b: (w.detach() - w.detach().mean(0), b.detach() - b.detach().mean()),
            "as Parameters": lambda w, b: (nn.Parameter(w - w.mean(0)), nn.Parameter(b - b.mean())),
            "as a list": lambda w, b: [w - w.mean(0), b - b.mean()],
        },
        "wrong": {
            "weight only": (lambda w, b: w - w.mean(0), "new weight and new bias"),
            "in place": (in_place, "changed its input"),
            "rows without keepdim": (lambda w, b: (w - w.mean(1), b - b.mean()), "On a layer of 3 inputs"),
        },
        # A trained layer is rewritten, once: no gradient is asked for.
        "generic_exceptions": ("cut off from the gradient", "through NumPy", "a gradient that is off"),
    },
    "choices": {
        "right": {
            "names": CHOICES,
            "in small letters": {key: name.lower() for key, name in CHOICES.items()},
            "spelt otherwise": CHOICES
            | {"a": "Group Normalization", "c": "RMS norm", "d": "Layer-Norm", "e": "QKNorm"},
        },
        "wrong": {
            "a word of another kind": (CHOICES | {"a": "Dropout"}, "one of the words 'BatchNorm'"),
            "a number": (CHOICES | {"a": 3}, "one of the words 'BatchNorm'"),
            "one missing": ({k: v for k, v in CHOICES.items() if k != "f"}, "missing"),
        },
    },
    "qk_logits_module": {
        "right": {
            "LayerNorm without bias": Logits,
            "LayerNorm with bias": WithBias,
            "RMSNorm": WithRMSNorm,
            "one RMSNorm for both": SharedGain,
            "length 1 and a number": LengthOne,
        },
        "wrong": {
            "a plain list": (PlainList, "plain list"),
            "one of two used": (scored(lambda self, q, k: self.norm_q(q) @ self.norm_q(k).mT / 8**0.5), "norm_k"),
            "normalized and clamped": (
                scored(lambda self, q, k: Logits.forward(self, q, k).clamp(-1, 1)),
                "has not the largest",
            ),
            "clamped": (scored(lambda self, q, k: (q @ k.mT / 8**0.5).clamp(-2.8, 2.8)), "30 times as large"),
            "the queries detached": (scored(lambda self, q, k: Logits.forward(self, q.detach(), k)), "q"),
            "divided by 1.5 sqrt(d)": (
                scored(lambda self, q, k: Logits.forward(self, q, k) / 1.5),
                "a query's logit with itself",
            ),
            # Henry et al. (2020) without their number: bounded by 1, and the weights of two keys by e^2
            "length 1 and the number 1": (
                type("LengthOne", (LengthOne,), {"__init__": lambda self, d: LengthOne.__init__(self, 1)}),
                "a query's logit with itself",
            ),
            "an object": (Logits(8), "takes your class"),
        },
        # Any norm that makes the bound true is right, with an eps of its own: values are not compared.
        "generic_exceptions": ("half the digits", "a little too large", "a little too high", "a gradient that is off"),
    },
}

"""Answers to the exercises of lesson 14, right and wrong."""

import re

import torch
from torch import nn
from torch.nn import functional as F

from tests.helpers import SOURCES

# ------------------------------------------------------------------------------------- 14.1 repaired_pixels


def with_movedim(x, weight, bias):
    return F.layer_norm(x.movedim(1, -1), (x.shape[1],), weight, bias).movedim(-1, 1)


def with_permute(x, weight, bias):
    y = F.layer_norm(x.permute(0, 2, 3, 1), weight.shape, weight, bias)
    return y.permute(0, 3, 1, 2).contiguous()


def with_transpose(x, weight, bias):
    return F.layer_norm(x.transpose(1, 3), (x.shape[1],), weight, bias).transpose(1, 3)


def with_tokens(x, weight, bias):
    tokens = x.flatten(2).transpose(1, 2)  # (B, H * W, C)
    return F.layer_norm(tokens, (x.shape[1],), weight, bias).transpose(1, 2).reshape(x.shape)


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


def pixels(there, back):
    """Tokens by there, LayerNorm, and back by back(y, shape)."""
    return lambda x, weight, bias: back(F.layer_norm(there(x), (x.shape[1],), weight, bias), x.shape)


def cut(x):
    return x.reshape(x.shape[0], -1, x.shape[1])


def move(x):
    return x.movedim(1, -1)


def with_einsum(x, weight, bias):
    y = F.layer_norm(torch.einsum("bchw->bhwc", x), (x.shape[1],), weight, bias)
    return torch.einsum("bhwc->bchw", y)


def rows_of_pixels(x, weight, bias):
    """(B * H * W, C) and back; the reshape in the middle is harmless, for the channels have been moved first."""
    B, C, H, W = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, C)
    return F.layer_norm(rows, (C,), weight, bias).view(B, H, W, C).permute(0, 3, 1, 2)


def as_a_group(x, weight, bias):
    rows = x.movedim(1, -1)
    return F.group_norm(rows.reshape(-1, x.shape[1]), 1, weight, bias).view(rows.shape).movedim(-1, 1)


def stripes_painted_over(x, weight, bias):
    """The patient, with the channel that was switched off put right by hand."""
    y = pixels(cut, lambda y, s: y.reshape(s))(x, weight, bias)
    return torch.where((weight == 0).view(-1, 1, 1), bias.view(-1, 1, 1), y)


def variant(correction=0, eps=1e-5, outside=False, gain=True):
    def answer(x, weight, bias):
        var = x.var(1, correction=correction, keepdim=True)
        y = (x - x.mean(1, keepdim=True)) / (var.sqrt() + eps if outside else (var + eps).sqrt())
        return y * weight[:, None, None] + bias[:, None, None] if gain else y

    return answer


# ------------------------------------------------------------------------------------ 14.2 repaired_average


def masked_last(x, mask, norm):
    y = norm(x) * mask.unsqueeze(-1)
    return y.sum(1) / mask.sum(1, keepdim=True)


def masked_twice(x, mask, norm):
    m = mask.unsqueeze(-1).to(x.dtype)
    return (norm(x * m) * m).sum(1) / m.sum(1)


def sentence_by_sentence(x, mask, norm):
    return torch.stack([norm(row[real]).mean(0) for row, real in zip(x, mask, strict=True)])


def with_where(x, mask, norm):
    y = norm(x)
    return torch.where(mask[..., None], y, torch.zeros_like(y)).sum(1) / mask.sum(1)[:, None]


def by_matrix_product(x, mask, norm):
    w = mask.to(x.dtype) / mask.sum(1, keepdim=True)
    return (w.unsqueeze(1) @ norm(x)).squeeze(1)


def bias_subtracted(x, mask, norm):
    """Takes away what the padding added: a right way, if a long one, for LayerNorm."""
    zero = norm(torch.zeros_like(x))
    y = norm(x * mask.unsqueeze(-1)).sum(1) - (zero * ~mask.unsqueeze(-1)).sum(1)
    return y / mask.sum(1, keepdim=True)


def real_tokens_only(x, mask, norm):
    y = torch.zeros_like(x)
    y[mask] = norm(x[mask])
    return y.sum(1) / mask.sum(1, keepdim=True)


def by_index_add(x, mask, norm):
    sentence = mask.nonzero()[:, 0]
    return torch.zeros(len(x), x.shape[-1], dtype=x.dtype).index_add(0, sentence, norm(x[mask])) / mask.sum(
        1, keepdim=True
    )


def by_nanmean(x, mask, norm):
    return norm(x).masked_fill(~mask.unsqueeze(-1), float("nan")).nanmean(1)


def mean_times_factor(x, mask, norm):
    """The factor T / n is float32, as a quotient of whole numbers."""
    return (norm(x) * mask.unsqueeze(-1)).mean(1) * (x.shape[1] / mask.sum(1, keepdim=True))


def bias_set_to_zero(x, mask, norm):
    if norm.bias is not None:
        with torch.no_grad():
            norm.bias.zero_()
    return norm(x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


def all_but_the_bias(x, mask, norm):
    """Drops what equals the bias: of real tokens too, where an entry is at the mean."""
    y = norm(x * mask.unsqueeze(-1))
    return (
        (y * (y != norm.bias)).sum(1) / mask.sum(1, keepdim=True)
        if norm.bias is not None
        else y.sum(1) / mask.sum(1, keepdim=True)
    )


def first_tokens(x, mask, norm):
    return torch.stack([norm(x[i, : int(n)]).mean(0) for i, n in enumerate(mask.sum(1))])


def average(inside, count):
    return lambda x, mask, norm: inside(x, mask.unsqueeze(-1), norm).sum(1) / count(x, mask)


def real(x, mask):
    return mask.sum(1, keepdim=True)


def no_bias(y, norm):
    return y if norm.bias is None else y - norm.bias


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


@torch.no_grad()
def in_place(model):
    for module in model.modules():
        if module.__class__.__name__ in ("Linear", "Embedding"):
            module.weight.copy_(0.02 * torch.randn_like(module.weight))
            if getattr(module, "bias", None) is not None:
                module.bias.fill_(0.0)


def by_memory(model):
    """Draws everything, then puts back what belongs to other layers."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    owners = {
        f"{name}.{n}": module
        for name, module in model.named_modules()
        for n, _ in module.named_parameters(recurse=False)
    }
    for name, p in model.named_parameters():
        if isinstance(owners[name], (nn.Linear, nn.Embedding)):
            nn.init.zeros_(p) if name.endswith("bias") else nn.init.normal_(p, std=0.02)
        else:
            p.data.copy_(before[name])


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


def norms_reset(model):
    """Draws the two kinds, and sets all other layers back to new."""
    two_kinds(model)
    for module in model.modules():
        if hasattr(module, "reset_parameters") and not isinstance(module, (nn.Linear, nn.Embedding)):
            module.reset_parameters()


def frozen(model):
    two_kinds(model)
    model.requires_grad_(False)


def first_level(model):
    for module in model.children():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)


def biases_drawn(model):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            for p in module.parameters():
                normal(p)


def without_asking(model):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            normal(module.weight)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def by_parameter(rule):
    def answer(model):
        for name, p in model.named_parameters():
            rule(name, p)

    return answer


def normal(p):
    nn.init.normal_(p, std=0.02)


def all_but(*classes):
    """Draws for every module that is not of these classes."""

    def answer(model):
        for module in model.modules():
            if not isinstance(module, classes):
                for name, p in module.named_parameters(recurse=False):
                    nn.init.zeros_(p) if name == "bias" else normal(p)

    return answer


def kinds(*classes, std=0.02, bias=True):
    def answer(model):
        for module in model.modules():
            if isinstance(module, classes):
                nn.init.normal_(module.weight, std=std)
                if bias and getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)

    return answer


# -------------------------------------------------------------------------------------- 14.4 repaired_block


class Patient(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.mix(x)
        x = self.norm2(x)
        x = x + self.mlp(x)
        return x


class TwoSums(Patient):
    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class OtherNames(Patient):
    def forward(self, x):
        read = self.norm1(x)
        stream = x + self.mix(read)
        return torch.add(stream, self.mlp(self.norm2(stream)))


class Kept(Patient):
    """Keeps the stream aside, as some code does with the name residual."""

    def forward(self, x):
        residual = x
        x = self.norm1(x)
        x = residual + self.mix(x)
        residual = x
        x = self.norm2(x)
        return self.mlp(x) + residual


class InALoop(Patient):
    def forward(self, x):
        for norm, branch in ((self.norm1, self.mix), (self.norm2, self.mlp)):
            x = x + branch(norm(x))
        return x


def block(forward):
    return type("Block", (Patient,), {"forward": forward})


def only_first(self, x):
    x = x + self.mix(self.norm1(x))
    x = self.norm2(x)
    return x + self.mlp(x)


def only_second(self, x):
    x = self.norm1(x)
    x = x + self.mix(x)
    return x + self.mlp(self.norm2(x))


def stale(self, x):
    residual = x
    x = residual + self.mix(self.norm1(x))
    return residual + self.mlp(self.norm2(x))


def adds_in_place(self, x):
    x += self.mix(self.norm1(x))
    return x + self.mlp(self.norm2(x))


def by_functional(self, x):
    for norm, branch in ((self.norm1, self.mix), (self.norm2, self.mlp)):
        x = branch(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)) + x
    return x


def on_a_clone(self, x):
    stream = x.clone()
    stream += self.mix(self.norm1(x))
    return stream + self.mlp(self.norm2(stream))


def scaled_back(self, x):
    """The patient, with level and scale of the input put back at the end."""
    mean, spread = x.mean(-1, keepdim=True), (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    return Patient.forward(self, x) * spread + mean


class OwnInit(nn.Module):
    """Written anew, with other names."""

    def __init__(self, D):
        super().__init__()
        self.ln1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.ln2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.mix(self.ln1(x))
        return x + self.mlp(self.ln2(x))


# ----------------------------------------------------------------------------------------- 14.5 first_fault

TEXT = next(path for path in SOURCES if path.stem == "14_clinic").read_text(encoding="utf-8")
CELLS = ("trial", "close", "seven", "seven-more", "ex-14-5", "passes", "first-fault")  # ids of the lesson's cells


def checklist(**own):
    """Return first_fault of the lesson, with its own tests (or the lesson's for those that are not given)."""
    space = {"torch": torch, "nn": nn, "F": F}
    for name in CELLS:
        code = re.search(rf'^# %%[^\n]* id="{name}"\n(.*?)(?=^# %%)', TEXT, re.MULTILINE | re.DOTALL)[1]
        exec(compile(code, f"<lesson 14, {name}>", "exec"), space)
        if name == "ex-14-5":
            space |= {name: make(space) for name, make in own.items()}
    return space["first_fault"]


def offset_like(shift, tolerance, dtype=torch.float32):
    return lambda space: lambda cls: space["close"](cls, space["draw"](4, 5, dtype=dtype) + shift, tolerance)


def with_named(test, name):
    test.__name__ = name
    return test


def named(name, make):
    return lambda space: with_named(make(space), name)


def offset_by_hand(space):
    def offset(cls):
        g = torch.Generator().manual_seed(3)
        x = 3000 + torch.randn(8, 64, generator=g)
        return (cls(64)(x) - F.layer_norm(x.double(), (64,))).abs().max().item() < 0.01

    return offset


def offset_variance(space):
    def offset(cls):
        x = torch.tensor([[4096.0, 4097, 4098, 4099, 4100]])
        return torch.allclose(cls(5)(x), nn.LayerNorm(5)(x), atol=1e-2)

    return offset


def gradient_by_backward(space):
    def gradient(cls):
        found = []
        for which in (0, 1):
            x = space["draw"](6, 5).clone().requires_grad_()
            g = torch.Generator().manual_seed(5)
            (
                space["trial"](cls, x.clone())[which] * torch.randn(6, 5, dtype=torch.float64, generator=g)
            ).sum().backward()
            found.append(x.grad)
        return torch.allclose(*found)

    return gradient


def gradient_by_gradcheck(space):
    def gradient(cls):
        x = space["draw"](3, 5).requires_grad_()
        return torch.autograd.gradcheck(lambda x: space["trial"](cls, x.clone())[0], x, raise_exception=False)

    return gradient


def gradient_of(loss, fresh=False):
    """A gradient test with another loss; fresh: on layers as they are created."""

    def make(space):
        def gradient(cls):
            x = space["draw"](4, 5).requires_grad_()
            y, right = space["trial"](cls, x * 1)
            if fresh:
                y, right = cls(5).double()(x * 1), F.layer_norm(x, (5,))
            a, b = (torch.autograd.grad(loss(out, space), x)[0] for out in (y, right))
            return torch.allclose(a, b, rtol=1e-7, atol=1e-7)

        return gradient

    return make


def again_in_steps(space):
    def again(cls):
        layer = cls(5)
        x = torch.randn(4, 5)
        kept = x.clone()
        y = layer(x).detach().clone()
        if not torch.equal(x, kept):
            return False
        for _ in range(3):
            layer(torch.randn(4, 5) * 3)
        same = torch.allclose(layer(kept.clone()), y, atol=1e-6)
        layer.eval()
        return same and torch.allclose(layer(kept.clone()), y, atol=1e-6)

    return again


def again_at_once(space):
    """Asks the same rows twice, and others never."""

    def again(cls):
        layer, x = cls(5).double(), space["draw"](4, 5)
        y, used = layer(x.clone()), x.clone()
        alike = torch.equal(layer(used), y) and torch.equal(used, x)
        return alike and torch.equal(layer.eval()(x.clone()), y)

    return again


def gradient_by_assert(space):
    def gradient(cls):
        x = space["draw"](4, 5).requires_grad_()
        y, right = space["trial"](cls, x)
        dx, dx_right = (torch.autograd.grad(out, x, space["draw"](2, 4, 5)[1])[0] for out in (y, right))
        torch.testing.assert_close(dx, dx_right)
        return True

    return gradient


def offset_by_shift(space):
    def offset(cls):
        x, layer = space["draw"](4, 16, dtype=torch.float32), cls(16)
        return bool((layer(x) - layer(x + 8192)).abs().max() < 0.05)

    return offset


def offset_finite(space):
    return lambda cls: bool(cls(5)(space["draw"](4, 5, dtype=torch.float32) + 10_000).isfinite().all())


def again_without(what):
    def make(space):
        def again(cls):
            layer, x = cls(5).double(), space["draw"](4, 5)
            first, used = layer(x.clone()).clone(), x.clone()
            layer(used), layer(10 * x)
            kept = what == "input" or torch.equal(used, x)
            later = what == "later" or torch.equal(layer(x.clone()), first)
            alike = (
                what == "eval"
                or torch.equal(layer.eval()(x.clone()), first)
                or what == "later"
                and not layer_is_running(layer)
            )
            return kept and later and alike

        return again

    return make


def layer_is_running(layer):
    return bool(list(layer.buffers()))


def always(value):
    return lambda space: lambda cls: value


def wrong_in_itself(space):
    return lambda cls: torch.zeros(3) @ torch.zeros(4) == 0


# ------------------------------------------------------------------------------------------ 14.6 trail_norm


class ByMatrices(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def wide(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def trail(self, T, x):
        t = torch.arange(T, device=x.device)
        w = (self.decay ** (t[:, None] - t).clamp(min=0).to(x.dtype)).tril()
        return w / w.sum(-1, keepdim=True)

    def variance(self, w, x, mu):
        m = x.mean(-1, keepdim=True)
        return w @ x.var(-1, correction=0, keepdim=True) + (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)

    def denominator(self, v):
        return torch.sqrt(v + self.eps)

    def forward(self, x):
        h = self.wide(x)
        w = self.trail(x.shape[-2], h)
        mu = w @ h.mean(-1, keepdim=True)
        y = (h - mu) / self.denominator(self.variance(w, h, mu))
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


class InDouble(ByMatrices):
    def wide(self, x):
        return x.double()


class InFloat(ByMatrices):
    def wide(self, x):
        return x.float()


class FlatAxes(ByMatrices):
    """Takes all axes in front for one long sequence."""

    def forward(self, x):
        return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)


def float_weights(self, T, x):
    w = ByMatrices.trail(self, T, x.float())
    return w.to(x.dtype)


def without_itself(self, T, x):
    t = torch.arange(T)
    w = (self.decay ** (t[:, None] - t - 1).clamp(min=0).to(x.dtype)).tril(-1)
    w[0, 0] = 1
    return w / w.sum(-1, keepdim=True)


def moving_average(self, T, x):
    """The weights of the usual moving average, which starts with the first token."""
    w = x.new_zeros(T, T)
    w[0, 0] = 1
    for t in range(1, T):
        w[t] = self.decay * w[t - 1]
        w[t, t] = 1 - self.decay
    return w


class AsRecursion(ByMatrices):
    """Weights from a running sum."""

    def trail(self, T, x):
        rows, row = [], x.new_zeros(T)
        for t in range(T):
            row = row * self.decay
            row = row + torch.eye(T, dtype=x.dtype)[t]
            rows.append(row / row.sum())
        return torch.stack(rows)


def trail(**methods):
    return type("Trail", (ByMatrices,), methods)


def mean_of_variances(self, w, x, mu):
    return w @ x.var(-1, correction=0, keepdim=True)


def one_pass(self, w, x, mu):
    return w @ (x * x).mean(-1, keepdim=True) - mu**2


def unbiased(self, w, x, mu):
    m = x.mean(-1, keepdim=True)
    return w @ x.var(-1, keepdim=True) + (w * (m.mT - mu) ** 2).sum(-1, keepdim=True)


def not_normalized(self, T, x):
    t = torch.arange(T)
    return (self.decay ** (t[:, None] - t).clamp(min=0).to(x.dtype)).tril()


def all_tokens(self, T, x):
    return x.new_full((T, T), 1 / T)


def both_sides(self, T, x):
    t = torch.arange(T)
    w = self.decay ** (t[:, None] - t).abs().to(x.dtype)
    return w / w.sum(-1, keepdim=True)


def oldest_first(self, T, x):
    t = torch.arange(T)
    w = (self.decay ** t.to(x.dtype)).expand(T, T).tril()
    return w / w.sum(-1, keepdim=True)


class OtherParameters(ByMatrices):
    def __init__(self, features, decay=0.5, eps=1e-5):
        nn.Module.__init__(self)
        self.decay, self.eps = decay, eps
        self.gamma, self.beta = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        self.__dict__["weight"], self.__dict__["bias"] = self.gamma, self.beta
        return super().forward(x)


class PlainTensors(nn.Module):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight, self.bias = torch.ones(features), torch.zeros(features)

    forward = ByMatrices.forward


class LearnedDecay(ByMatrices):
    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__(features, decay, eps)
        self.decay = nn.Parameter(torch.tensor(float(decay)))


BANK = {
    "repaired_pixels": {
        "right": {
            "movedim": with_movedim,
            "permute": with_permute,
            "transpose": with_transpose,
            "tokens": with_tokens,
            "einsum": with_einsum,
            "rows of pixels": rows_of_pixels,
            "one group of C": as_a_group,
            "the formula over axis 1": over_axis_one,
            "pixel by pixel": pixel_by_pixel,
        },
        "wrong": {
            "the patient": (pixels(cut, lambda y, s: y.reshape(s)), "moves nothing"),
            "reshaped to (B, H, W, C)": (
                pixels(lambda x: x.reshape(x.shape[0], *x.shape[2:], x.shape[1]), lambda y, s: y.reshape(s)),
                "moves nothing",
            ),
            "moved in, reshaped out": (pixels(move, lambda y, s: y.reshape(s)), "Undo a move with a move"),
            "tokens moved in, reshaped out": (
                pixels(lambda x: x.flatten(2).mT, lambda y, s: y.reshape(s)),
                "Undo a move with a move",
            ),
            "reshaped in, moved out": (
                pixels(lambda x: x.reshape(x.shape[0], *x.shape[2:], x.shape[1]), lambda y, s: y.movedim(-1, 1)),
                "Both ways must move",
            ),
            "moved on instead of back": (pixels(move, lambda y, s: y.permute(0, 2, 3, 1)), "another order"),
            "not moved back": (pixels(move, lambda y, s: y), "another order"),
            "one group of all channels and pixels": (lambda x, w, b: F.group_norm(x, 1, w, b), "another norm"),
            "each channel by itself": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), "another norm"),
            "over the width": (
                lambda x, w, b: (
                    (x - x.mean(-1, keepdim=True))
                    / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
                    * w[:, None, None]
                    + b[:, None, None]
                ),
                "another norm",
            ),
            "stripes painted over": (stripes_painted_over, "moves nothing"),
            "axes swapped, then cut": (
                lambda x, w, b: F.layer_norm(cut(x.transpose(2, 3)), (x.shape[1],), w, b).reshape(x.shape),
                "expected",
            ),
            "all of a sample": (
                lambda x, w, b: F.layer_norm(x, x.shape[1:]) * w[:, None, None] + b[:, None, None],
                "another norm",
            ),
            "eps 1e-6": (
                lambda x, w, b: F.layer_norm(x.movedim(1, -1), w.shape, w, b, 1e-6).movedim(-1, 1),
                "expected",
            ),
            "D - 1": (variant(correction=1), "correction=0"),
            "eps outside": (variant(outside=True), "under the root"),
            "no eps": (variant(eps=0.0), "no eps"),
            "no gain": (variant(gain=False), "left out"),
        },
    },
    "repaired_average": {
        "right": {
            "mask behind the norm": masked_last,
            "mask on both sides": masked_twice,
            "sentence by sentence": sentence_by_sentence,
            "real tokens only": real_tokens_only,
            "index_add": by_index_add,
            "nanmean": by_nanmean,
            "mean times T / n": mean_times_factor,
            "where": with_where,
            "a matrix product": by_matrix_product,
            "what the padding added, taken away": bias_subtracted,
        },
        "wrong": {
            "the patient": (average(lambda x, m, norm: norm(x * m), real), "turns 0 into its bias"),
            "divided by T": (average(lambda x, m, norm: norm(x) * m, lambda x, mask: x.shape[1]), "padded length"),
            "masked twice, divided by T": (
                average(lambda x, m, norm: norm(x * m) * m, lambda x, mask: x.shape[1]),
                "padded length",
            ),
            "the mean": (lambda x, mask, norm: norm(x).mean(1), "padded length"),
            "no mask": (average(lambda x, m, norm: norm(x), real), "not masked"),
            "bias taken from all": (average(lambda x, m, norm: no_bias(norm(x * m), norm), real), "real tokens, too"),
            "bias taken from all, masked": (
                average(lambda x, m, norm: no_bias(norm(x), norm) * m, real),
                "real tokens, too",
            ),
            "the norm's bias set to 0": (bias_set_to_zero, "real tokens, too"),
            "what equals the bias": (all_but_the_bias, "whole numbers"),
            "padding told by zeros": (average(lambda x, m, norm: norm(x) * (x != 0), real), "the mask says which"),
            "zero rows for padding": (
                average(lambda x, m, norm: norm(x) * (x != 0).any(-1, keepdim=True), real),
                "the mask says which",
            ),
            "masked, zero rows for padding": (
                average(lambda x, m, norm: norm(x * m) * (x * m != 0).any(-1, keepdim=True), real),
                "the mask says which",
            ),
            "the first n tokens": (first_tokens, "gaps anywhere"),
            "the longest length": (
                average(lambda x, m, norm: norm(x) * m, lambda x, mask: mask.sum(1).max()),
                "longest sentence's",
            ),
            "one mean for all": (
                lambda x, mask, norm: norm(x)[mask].mean(0).expand(len(x), -1),
                "all sentences together",
            ),
            "padding at -inf": (average(lambda x, m, norm: norm(x.masked_fill(~m, float("-inf"))), real), "nan"),
            "mask upside down": (lambda x, mask, norm: masked_last(x, ~mask, norm), "wrong way round"),
            "norm of the average": (lambda x, mask, norm: norm(masked_last(x, mask, lambda x: x)), "after the average"),
            "no norm": (lambda x, mask, norm: masked_last(x, mask, lambda x: x), "norm is gone"),
            "the sum": (lambda x, mask, norm: (norm(x) * mask.unsqueeze(-1)).sum(1), "the sum"),
            "one length for all": (
                average(lambda x, m, norm: norm(x) * m, lambda x, mask: mask.sum() / len(mask)),
                "its own",
            ),
            "lengths without keepdim": (average(lambda x, m, norm: norm(x) * m, lambda x, mask: mask.sum(1)), "raised"),
        },
    },
    "repaired_init": {
        "right": {
            "two kinds": two_kinds,
            "apply": with_apply,
            "by hand": in_place,
            "puts the rest back": by_memory,
            "by attributes": by_attributes,
            "recursive": recursive,
        },
        "wrong": {
            "the patient": (by_parameter(lambda n, p: normal(p)), "every parameter is drawn"),
            "more than one axis": (
                by_parameter(lambda n, p: normal(p) if p.dim() > 1 else None),
                "gains over two axes",
            ),
            "more than one axis, biases 0": (
                by_parameter(
                    lambda n, p: normal(p) if p.dim() > 1 else nn.init.zeros_(p) if n.endswith("bias") else None
                ),
                "is a matrix, too",
            ),
            "one axis: 0": (
                by_parameter(lambda n, p: normal(p) if p.dim() > 1 else nn.init.zeros_(p)),
                "gains of the norms are among",
            ),
            "all but LayerNorm": (all_but(nn.LayerNorm), "List the layers"),
            "all but PyTorch's norms": (all_but(nn.LayerNorm, nn.RMSNorm, nn.GroupNorm), "List the layers"),
            "Linear alone": (kinds(nn.Linear), "Embedding"),
            "biases kept": (kinds(nn.Linear, nn.Embedding, bias=False), "keep what was in them"),
            "norms reset": (norms_reset, "expected 'all 0.5'"),
            "frozen": (frozen, "without requires_grad"),
            "first level only": (first_level, "deep.0.weight"),
            "biases drawn": (biases_drawn, "bias"),
            "bias=False not thought of": (without_asking, "raised"),
            "no 'norm' in the name": (
                by_parameter(
                    lambda n, p: None if "norm" in n else nn.init.zeros_(p) if n.endswith("bias") else normal(p)
                ),
                "List the layers",
            ),
            "0.02 as a variance": (kinds(nn.Linear, nn.Embedding, std=0.02**0.5), "not the variance"),
            "nothing": (lambda model: None, "expected"),
            "a copy": (lambda model: two_kinds(__import__("copy").deepcopy(model)), "expected"),
        },
    },
    "repaired_block": {
        "right": {
            "two sums": TwoSums,
            "other names": OtherNames,
            "residual kept aside": Kept,
            "a loop": InALoop,
            "functional": block(by_functional),
            "on a clone": block(on_a_clone),
        },
        "wrong": {
            "the patient": (Patient, "in both branches"),
            "first half": (block(only_first), "in the second"),
            "second half": (block(only_second), "in the first"),
            "Post-LN": (block(lambda s, x: s.norm2((y := s.norm1(x + s.mix(x))) + s.mlp(y))), "Post-LN"),
            "residual of the start": (block(stale), "what the first branch wrote is lost"),
            "no norms": (block(lambda s, x: (y := x + s.mix(x)) + s.mlp(y)), "norms are gone"),
            "one norm twice": (block(lambda s, x: (y := x + s.mix(s.norm1(x))) + s.mlp(s.norm1(y))), "norm of its own"),
            "side by side": (
                block(lambda s, x: x + s.mix(s.norm1(x)) + s.mlp(s.norm2(x))),
                "both branches read the input",
            ),
            "norms behind the branches": (
                block(lambda s, x: (y := x + s.norm1(s.mix(x))) + s.norm2(s.mlp(y))),
                "in front",
            ),
            "scaled back at the end": (block(scaled_back), "silent"),
            "x added to the patient": (block(lambda s, x: x + Patient.forward(s, x)), "what the patient makes"),
            "final norm added": (block(lambda s, x: s.norm2(TwoSums.forward(s, x))), "on the stream itself"),
            "norms on both sides": (
                block(lambda s, x: (y := x + s.norm1(s.mix(s.norm1(x)))) + s.norm2(s.mlp(s.norm2(y)))),
                "both sides",
            ),
            "mlp first": (block(lambda s, x: (y := x + s.mlp(s.norm2(x))) + s.mix(s.norm1(y))), "mlp comes first"),
            "norm1 unused": (block(lambda s, x: (y := x + s.mix(x)) + s.mlp(s.norm2(y))), "norm1 is not used"),
            "norm2 unused": (block(lambda s, x: (y := x + s.mix(s.norm1(x))) + s.mlp(y)), "norm2 is not used"),
            "stream detached": (block(lambda s, x: TwoSums.forward(s, x.detach())), "gradient of x"),
            "half of each branch": (
                block(lambda s, x: (y := x + 0.5 * s.mix(s.norm1(x))) + 0.5 * s.mlp(s.norm2(y))),
                "random parameters",
            ),
            "no sums": (block(lambda s, x: s.mlp(s.norm2(s.mix(s.norm1(x))))), "nothing passes"),
            "in place": (block(adds_in_place), "inplace operation"),
            "other parameter names": (OwnInit, "raised"),
        },
    },
    "trail_norm": {
        "right": {
            "matrices": ByMatrices,
            "the formula": ByTheFormula,
            "token by token": TokenByToken,
            "weights by recursion": AsRecursion,
            "update by update": Updating,
            "all in float64": InDouble,
        },
        "wrong": {
            "mean of the variances": (trail(variance=mean_of_variances), "not the variance of the whole"),
            "one pass": (trail(variance=one_pass), "loses its digits"),
            "all in float32": (InFloat, "in float32"),
            "weights in float32": (trail(trail=float_weights), "weighted by float32 weights"),
            "axes in front flattened": (FlatAxes, "unlike mean"),
            "without the token itself": (trail(trail=without_itself), "decay 0"),
            "a moving average": (trail(trail=moving_average), "worked example"),
            "decay forgotten": (
                trail(trail=lambda s, T, x: x.new_ones(T, T).tril() / torch.arange(1, T + 1).to(x)[:, None]),
                "decay 0",
            ),
            "variance around each token's own trail": (
                trail(variance=lambda s, w, x, mu: w @ ((x - mu) ** 2).mean(-1, keepdim=True)),
                "worked example",
            ),
            "D - 1": (trail(variance=unbiased), "correction=0"),
            "eps outside": (trail(denominator=lambda s, v: v.sqrt() + s.eps), "under the root"),
            "eps fixed": (trail(denominator=lambda s, v: (v + 1e-5).sqrt()), "eps of the call"),
            "weights that do not sum to 1": (trail(trail=not_normalized), "do not sum to 1"),
            "all tokens": (trail(trail=all_tokens), "the future leaks"),
            "both sides": (trail(trail=both_sides), "the future leaks"),
            "oldest first": (trail(trail=oldest_first), "the oldest token has the largest"),
            "LayerNorm": (trail(trail=lambda s, T, x: torch.eye(T, dtype=x.dtype)), "that is LayerNorm"),
            "in its own type": (trail(wide=lambda s, x: x), "in x's dtype"),
            "other names": (OtherParameters, "weight"),
            "plain tensors": (PlainTensors, "none"),
            "a learned decay": (LearnedDecay, "decay"),
        },
    },
}

BANK["first_fault"] = {
    "right": {
        "the lesson's": checklist(),
        "3000, and wide rows": checklist(offset=offset_by_hand, gradient=gradient_by_backward),
        "whole numbers around 4096": checklist(offset=offset_variance, again=again_in_steps),
        "a shift, and an assert": checklist(offset=offset_by_shift, gradient=gradient_by_assert),
        "offset 1000": checklist(offset=named("offset", offset_like(1000, 0.005)), gradient=gradient_by_gradcheck),
    },
    "wrong": {
        "no offset": (checklist(offset=named("offset", offset_like(0, 1e-4))), "clamps it at 0"),
        "offset in float64": (
            checklist(offset=named("offset", offset_like(1e4, 1e-4, torch.float64))),
            "clamps it at 0",
        ),
        "any offset will do": (checklist(offset=named("offset", offset_like(1e4, 1e6))), "clamps it at 0"),
        "stricter than PyTorch": (
            checklist(offset=named("offset", offset_like(1e4, 1e-6))),
            "is right, and your test 'offset'",
        ),
        "gradient of the sum": (
            checklist(gradient=gradient_of(lambda y, s: y.sum(), fresh=True)),
            "takes the gain out",
        ),
        "gradient at gain 1": (
            checklist(gradient=gradient_of(lambda y, s: (y * s["draw"](3, 4, 5)[2]).sum(), fresh=True)),
            "takes the gain out",
        ),
        "gradient test that always passes": (checklist(gradient=named("gradient", always(True))), "as a constant"),
        "gradient test that never passes": (
            checklist(gradient=named("gradient", always(False))),
            "your test 'gradient' refuses it",
        ),
        "the input is not looked at": (
            checklist(again=again_without("input"), gradient=gradient_by_gradcheck),
            "overwrites its input",
        ),
        "no eval()": (checklist(again=again_without("eval")), "running variance"),
        "no other rows in between": (checklist(again=again_at_once), "remembers the rows"),
        "finite is enough": (checklist(offset=named("offset", offset_finite)), "clamps it at 0"),
        "no return": (checklist(again=named("again", always(None))), "your test 'again' refuses it"),
        "no second question": (checklist(again=again_without("later")), "grows with every call"),
        "an error in the test": (checklist(again=named("again", wrong_in_itself)), "your test 'again' refuses it"),
        "its result": ("names", "without brackets"),
        "returns the test itself": (lambda cls: checklist, "returned"),
    },
}

"""Checks of lesson 12: GroupNorm, centered writers, the norms of a published model, QK-norm healed."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: F401  misconceptions call it

from lessonkit.check.contract import Contract, of_a_layer
from lessonkit.check.core import Probe, call, draw, examine, in_float64, misconceptions, values

# ----------------------------------------------------------------------------------------------------- group_norm


def _group(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = x.unflatten(1, (num_groups, -1))  # (B, G, C / G, ...)
    axes = tuple(range(2, groups.dim()))
    mean = groups.mean(axes, keepdim=True)
    centered = groups - mean
    var = centered.square().mean(axes, keepdim=True)
    deviation = torch.sqrt(var + eps)
    x_hat = (centered / deviation).flatten(1, 2)
    shape = (-1,) + (1,) * (x.dim() - 2)
    y = x_hat if weight is None else x_hat * weight.view(shape)
    return y if bias is None else y + bias.view(shape)


def _grouped(label, x, groups, *, gain=True, shift=True, tolerance=1e-9, **options):
    C = x.shape[1]
    weight, bias = draw(48, C, dtype=x.dtype) if gain else None, draw(49, C, dtype=x.dtype) if shift else None
    names = ("x", "num_groups", "weight", "bias")
    return call(label, x, groups, weight, bias, names=names, tolerance=tolerance, **options)


def _unlike(seed, *shape):
    """Numbers whose channels, axis 1, differ in level and size."""
    scale = torch.arange(1.0, shape[1] + 1, dtype=torch.float64).view((-1,) + (1,) * (len(shape) - 2))
    return draw(seed, *shape) * scale + scale**2


_GROUP_VALUES = [
    _grouped("a (2, 6, 5) tensor and 2 groups", _unlike(31, 2, 6, 5), 2),
    _grouped("a (2, 6, 4, 3) tensor and 3 groups", _unlike(32, 2, 6, 4, 3), 3),
    _grouped("a (4, 6) matrix and 2 groups", _unlike(33, 4, 6), 2),
    _grouped("a (2, 6, 6) tensor, as long as it has channels", _unlike(34, 2, 6, 6), 2),
    _grouped("a (2, 6, 5) tensor of small numbers and eps = 0.01", 0.01 * _unlike(35, 2, 6, 5), 3, eps=0.01),
    _grouped("a (2, 6, 5) tensor and eps = 0", _unlike(30, 2, 6, 5), 3, eps=0.0),
]
_GROUP_OPTIONS = [
    _grouped("no weight and no bias", _unlike(36, 2, 6, 5), 2, gain=False, shift=False),
    _grouped("a weight and no bias", _unlike(37, 2, 6, 5), 2, shift=False),
    _grouped("a bias and no weight", _unlike(46, 2, 6, 5), 2, gain=False, gradient=False),  # F.group_norm has none
    _grouped("six groups of one channel", _unlike(39, 2, 6, 5), 6),
    _grouped("a transposed tensor", _unlike(40, 2, 6, 5, 4).transpose(2, 3), 2),
    # float32 at an offset of 1000: E[x^2] - E[x]^2 loses 1e6 * 2**-24 of the variance, two passes some units
    _grouped("float32 numbers around 1000", 1000 + draw(44, 2, 6, 50, dtype=torch.float32), 2, tolerance=2e-3),
    _grouped("an empty batch", torch.zeros(0, 6, 5, dtype=torch.float64), 2),
]

_GROUP_MISTAKES = misconceptions(
    _group,
    """
    # channels g, g + G, g + 2 G … form a group. Groups are NEIGHBORING channels. | unflatten(1, (G, -1)), G first.
    groups = x.unflatten(1, (-1, num_groups)).transpose(1, 2)
    x_hat = (centered / deviation).transpose(1, 2).flatten(1, 2)

    # the two numbers of the cut are swapped: G groups of C/G channels. | unflatten(1, (G, -1)).
    groups = x.unflatten(1, (-1, num_groups))

    # each position gets a mean of its own. A group is its channels at ALL positions. | Reduce the space too.
    axes = (2,)

    # each channel gets a mean of its own: that is InstanceNorm. | Reduce the channels of the group too.
    axes = tuple(range(3, groups.dim())) or (2,)

    # the batch is reduced as well: a sample then depends on the others. | Keep B and the groups.
    axes = (0, *range(2, groups.dim()))

    # all channels share one mean: that is one group. | Cut axis 1 into num_groups parts first.
    axes = tuple(range(1, groups.dim()))

    # only the last axis is reduced.
    axes = (-1,)

    # the gain (C,) meets the last axis of x, not the channels. | It needs the shape (C, 1, ...), to meet axis 1.
    shape = (-1,)

    # this fits images only: x may have any number of axes after C. | x.shape[2:] has their sizes.
    B, C, H, W = x.shape

    # the shape of the gain fits one number of axes only. | For any number of axes: (-1,) + (1,) * (x.dim() - 2).
    shape = (1, -1, 1, 1)
    # or
    shape = (-1, 1, 1)
    # or
    shape = (-1, 1)

    # the gain (C,) does not fit the rows, which are longer or shorter. | Normalize without gain and bias, then give each channel its own.
    x_hat = F.layer_norm(groups.flatten(2), groups.flatten(2).shape[2:], weight, bias)

    # the bias is multiplied by the gain. | Multiply first, then add.
    y = x_hat if bias is None else x_hat + bias.view(shape)
    return y if weight is None else y * weight.view(shape)

    # the rows are cut across the samples: each sample has G rows of its own. | Cut axis 1 only: unflatten(1, (G, -1)).
    groups = x.reshape(1, num_groups, -1)
    x_hat = (centered / deviation).reshape(x.shape)

    # the variance is divided by n - 1. GroupNorm divides by n. | correction=0.
    var = groups.var(axes, keepdim=True)

    # eps is added to the deviation. | Add it to the variance, under the root.
    deviation = torch.sqrt(var) + eps

    # the root is missing.
    deviation = var + eps

    # rsqrt is 1 / sqrt already. | Multiply by it, or divide by sqrt.
    deviation = torch.rsqrt(var + eps)

    # the mean is not subtracted.
    x_hat = (groups / deviation).flatten(1, 2)

    # the mean is not subtracted, and the mean square is under the root: an RMSNorm of groups.
    centered = groups

    # eps is not handed on. | layer_norm(..., eps=eps).
    deviation = torch.sqrt(var + 1e-5)

    # eps = 0 counts as no eps: `eps or ...` takes 0 for False. | Use eps as it is.
    deviation = torch.sqrt(var + (eps or 1e-5))

    # eps is not used.
    deviation = torch.sqrt(var)

    # gain and bias are not used.
    return x_hat

    # the bias is not used.
    return y

    # the groups are not put together again: the result must have the shape of x.
    return centered / deviation

    # the values are right, but the statistics are cut off from the gradient.
    centered = groups - mean.detach()
    deviation = torch.sqrt(var.detach() + eps)
    # or
    deviation = torch.sqrt(var.detach() + eps)

    # weight is None without a gain. | Use it only if there is one, and so with bias.
    y = x_hat * weight.view(shape)
    return y + bias.view(shape)

    # without a weight the bias is not used. | Ask for weight and bias each by itself.
    return y if weight is None or bias is None else y + bias.view(shape)

    # without a bias the gain is not used. | Ask for weight and bias each by itself.
    y = x_hat if weight is None or bias is None else x_hat * weight.view(shape)

    # bias may be None although there is a weight. | Ask for it by itself.
    return y if weight is None else y + bias.view(shape)

    # view() needs numbers that lie in order. | Use unflatten, flatten or reshape.
    groups = x.view(len(x), num_groups, -1) if x.numel() else x.unflatten(1, (num_groups, -1))
    x_hat = (centered / deviation).view(x.shape)

    # E[x^2] - E[x]^2 loses its digits where the mean is large relative to the deviation. | Subtract the mean first.
    var = (groups * groups).mean(axes, keepdim=True) - mean * mean

    # reshape(B, G, -1) cannot tell what -1 is when the batch is empty. | Use unflatten(1, (G, -1)).flatten(2).
    groups = x.reshape(len(x), num_groups, -1)
    x_hat = (centered / deviation).reshape(x.shape)
    """,
)
_GROUP = Contract(
    {"x": "B 12 H W", "weight": "12", "bias": "12"},
    use=lambda answer, sizes, num_groups=3, **options: lambda x, w, b: answer(x, num_groups, w, b, **options),
    options=({}, {"num_groups": 1}, {"num_groups": 12}, {"num_groups": 4, "eps": 0.1}),
    sizes={"B": (2, 1, 17), "H": (3, 1, 5), "W": (4, 1, 60)},
)


def group_norm(answer):
    """Check a function x (B, C, ...), num_groups, weight, bias, eps -> GroupNorm (lesson 12)."""
    stages = [(_GROUP_VALUES, ""), (_GROUP_OPTIONS, "")]
    tried = "2 to 4 axes, 1 to C groups, with and without gain and bias, values of eps, an empty batch, gradients"
    how = {"tried": tried, "contract": _GROUP, "by_hand": ("group_norm", "instance_norm", "batch_norm")}
    examine(answer, "group_norm", stages, in_float64(_group), _GROUP_MISTAKES, **how)


# ------------------------------------------------------------------------------------------------------- centered


def _centered(weight, bias):
    new_weight = weight - weight.mean(0)
    new_bias = bias - bias.mean()
    return new_weight, new_bias


_PAIR = ("new weight", "new bias")
_WRITER_PROBES = [
    call(label, *tensors, returns=_PAIR, names=("weight", "bias"), gradient=False)  # a trained layer is rewritten, once
    for label, tensors in {
        "a layer of 3 inputs and 5 outputs": (draw(51, 5, 3), draw(52, 5)),
        "a layer of 6 inputs and 4 outputs": (1 + draw(53, 4, 6), 1 + draw(54, 4)),
        "a square layer": (0.5 + draw(55, 4, 4), 0.5 + draw(56, 4)),
    }.items()
]

_CENTERED = misconceptions(
    _centered,
    """
    # each row of the weight is centered. PyTorch keeps weight as (outputs, inputs). | weight.mean(0) has the mean of each column, over the outputs.
    new_weight = weight - weight.mean(1, keepdim=True)

    # one number is subtracted from the whole weight. Each column (each input) needs its own. | weight.mean(0).
    new_weight = weight - weight.mean()

    # the bias is as it was. It is written to the stream as well. | Subtract its mean.
    new_bias = bias

    # the weight is as it was. Its part of the output has a mean, too.
    new_weight = weight

    # nothing has changed.
    return weight, bias

    # the bias becomes 0. Only its mean has to go.
    new_bias = 0 * bias

    # the columns are normalized. Only their mean has to go: the size belongs to the function.
    new_weight, new_bias = F.layer_norm(weight.T, weight.shape[:1]).T, F.layer_norm(bias, bias.shape)

    # the sums are subtracted. | Take the means, which are the sums over D.
    new_weight, new_bias = weight - weight.sum(0), bias - bias.sum()

    # the means are returned, not what is left when they are subtracted.
    return weight.mean(0), bias.mean()

    # the pair is turned round: weight first.
    return new_bias, new_weight

    # the sums are divided by the number of inputs. The mean is over the D outputs.
    new_weight = weight - weight.sum(0) / weight.shape[1]

    # the bias is centered with the mean of the weight.
    new_bias = bias - weight.mean()
    """,
)
_WRITER = Contract({"weight": "D H", "bias": "D"}, returns=_PAIR, gradient=0)


def centered(answer):
    """Check a function weight (D, H), bias (D,) -> both, centered over the outputs (lesson 12)."""
    how = {"tried": "wide, narrow and square layers, float64 and float32", "contract": _WRITER}
    examine(answer, "centered", _WRITER_PROBES, in_float64(_centered), _CENTERED, **how)


# ------------------------------------------------------------------------------------------------------- nanochat

_NANOCHAT = {
    "kind": "RMSNorm",
    "place": "Pre-LN",
    "calls": 50,
    "learned": 0,
    "sees shift": True,
    "stream": 768,
    "query": 128,
    "attention": 128**0.5,
}

_TOO_FEW = "A block calls norm four times: on the stream before the attention and before the MLP, on the queries and on the keys."
_BOTH_ENDS = "And norm is called once after the embedding and once before the head."
_GAIN_OF = "F.rms_norm gets no weight here, so there is nothing to learn."


def nanochat(answer):
    """Check what a learner has read off an excerpt of a published model, as a dictionary (lesson 12)."""
    causes = [
        ("kind", "LayerNorm", "norm calls F.rms_norm, which subtracts no mean."),
        ("kind", "ScaleNorm", "ScaleNorm divides by the length, F.rms_norm by the root mean square."),
        ("kind", "BatchNorm", "The statistics are taken over the last axis, of one token, not over the batch."),
        ("place", "Post-LN", "Post-LN normalizes the sum: x = norm(x + f(x)). Here the sum is left alone."),
        ("place", "Peri-LN", "In Peri-LN what a branch returns is normalized, too: x + norm(f(norm(x)))."),
        ("place", "DeepNorm", "DeepNorm normalizes the sum, with a factor on x. Here the sum is left alone."),
        *(("calls", n, f"{_TOO_FEW} {_BOTH_ENDS}") for n in (2, 24, 25, 26, 36, 37, 38)),
        ("calls", 48, f"These are the calls in the blocks. {_BOTH_ENDS}"),
        ("calls", 49, _BOTH_ENDS),
        ("calls", 62, "The values are not normalized, only queries and keys."),
        ("calls", 51, "The soft-cap at the end is no call of norm."),
        *(("calls", n, f"The loop runs 12 times. {_TOO_FEW}") for n in (4, 5, 6)),
        *(("learned", n, _GAIN_OF) for n in (1, 50, 768, 26 * 768, 26 * 768 + 24 * 128, 50 * 768)),
        (
            "sees shift",
            False,
            "RMSNorm subtracts no mean: a number added to all features changes the direction of the row.",
        ),
        ("stream", 128, "On the stream x is (B, T, 768), and norm takes its last axis."),
        ("stream", 12, "That is the number of blocks. norm takes the last axis of x."),
        (
            "query",
            768,
            "The queries have been cut into heads before norm: (B, T, 6, 128), and norm takes the last axis.",
        ),
        ("query", 6, "That is the number of heads. norm takes the last axis of (B, T, 6, 128)."),
        ("attention", 768**0.5, "A query has 128 numbers, so its length is sqrt(128) after the norm."),
        (
            "attention",
            128.0,
            "That is the product of two rows of length sqrt(128). causal_attention then divides by sqrt(128).",
        ),
        (
            "attention",
            1.0,
            "That would bound rows of length 1. RMSNorm gives a row of 128 numbers the length sqrt(128).",
        ),
        ("attention", 15, "That bounds the logits at the output. In the attention the lengths of q and k are bounded."),
    ]
    # two decimals are asked for, and one is taken: sqrt(128) is 11.3137
    values(answer, "nanochat", _NANOCHAT, causes, tolerance=0.02)


# ----------------------------------------------------------------------------------------------- qk_logits_module


class _Logits(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.norm_q = nn.LayerNorm(head_size, bias=False)
        self.norm_k = nn.LayerNorm(head_size, bias=False)

    def forward(self, q, k):
        q_hat = self.norm_q(q)
        k_hat = self.norm_k(k)
        return q_hat @ k_hat.mT / q.shape[-1] ** 0.5


_QUERIES = draw(61, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([1.0, 3.0, 30.0]).view(3, 1, 1)  # (B, H, T, d)
_KEYS = draw(62, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([30.0, 1.0, 3.0]).view(3, 1, 1)


def _shape_of_logits(dtype):
    def run(cls):
        seen = {}
        for B, H, T, d in ((2, 3, 5, 8), (1, 2, 4, 6), (3, 1, 7, 16)):
            out = cls(d).to(dtype)(draw(63, B, H, T, d, dtype=dtype), draw(64, B, H, T, d, dtype=dtype))
            shape = (tuple(out.shape), str(out.dtype)) if isinstance(out, torch.Tensor) else out
            seen[f"shape and dtype for (B, H, T, d) = ({B}, {H}, {T}, {d})"] = shape
        return seen

    return run


def _steady(label, change, look):
    """Return a Probe: whether what `look` takes of the logits stays when `change` has been at the queries and keys."""

    def run(cls):
        layer = cls(8)
        q, k = _QUERIES.clone(), _KEYS.clone()
        before = look(layer(q.clone(), k.clone())).detach()
        change(q, k)
        after = look(layer(q, k)).detach()
        stay = torch.allclose(after, before, rtol=1e-3, atol=1e-3)
        return {"the logits that should stay": "stay" if stay else "change"}

    return Probe(label, run)


def _both(change):
    return lambda q, k: (change(q), change(k))


def _bound(cls):
    layer = cls(8)
    logits = torch.stack([layer(_QUERIES, _KEYS), layer(_QUERIES, _QUERIES)]).detach()  # each query as a key, too
    return {
        "the logits": "finite" if logits.isfinite().all() else "nan or inf among them",
        "a logit beyond sqrt(d) in size": bool(logits.abs().max() > 8**0.5 + 1e-3),
    }


def _likes_itself(cls):
    layer = cls(8)
    logits = layer(_QUERIES, _QUERIES).detach()  # (B, H, T, T) each query is among the keys
    best, worst = ((found == torch.arange(5)).all() for found in (logits.argmax(-1), logits.argmin(-1)))
    said = "has the largest logit" if best else "has the smallest logit" if worst else "has not the largest logit"
    own = logits.diagonal(dim1=-2, dim2=-1)
    # eps is 1e-5 or less, beside variances of about 1
    return {"the key that equals the query": said, "a query's logit with itself, if d is 8": own.mean().item()}


def _trained(cls):
    layer = cls(8)
    layer(_QUERIES, _KEYS)
    count = sum(p.numel() for p in layer.parameters())
    if not 0 < count <= 200:
        return {"parameters that an optimizer gets": "more than 200, for heads of 8 numbers" if count else "none"}
    leaves = dict(layer.named_parameters()) | {
        "q": _QUERIES.clone().requires_grad_(),
        "k": _KEYS.clone().requires_grad_(),
    }
    loss = (layer(leaves["q"], leaves["k"]) * draw(65, 2, 3, 5, 5, dtype=torch.float32)).sum()
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    without = [name for name, gradient in zip(leaves, found, strict=True) if gradient is None]
    without = "all parameters" if without == list(leaves)[:-2] else ", ".join(without) or "none"
    return {"parameters that an optimizer gets": "some", "those without a gradient": without}


def _same_again(cls):
    layer, logits = cls(8), []
    for value in (0.5, 1.5):
        for parameter in layer.parameters():
            nn.init.constant_(parameter, value)
        logits.append(layer(_QUERIES, _KEYS).detach())
    same = torch.allclose(*logits, rtol=1e-4)
    return {"the logits, once the parameters are others": "the same" if same else "others"}


_LOGIT_PROBES = [
    Probe("queries and keys of three sizes", _shape_of_logits(torch.float32)),
    _steady("another sample 1, looking at sample 0", _both(lambda t: t[1].mul_(-2).add_(5)), lambda y: y[0]),
    _steady(
        "another step 4, looking at steps 0 to 3",
        _both(lambda t: t[:, :, 4].mul_(-2).add_(5)),
        lambda y: y[:, :, :4, :4],
    ),
    _steady(
        "head 2 seven times as large, looking at heads 0 and 1", _both(lambda t: t[:, 2].mul_(7)), lambda y: y[:, :2]
    ),
    _steady("another key 4, looking at keys 0 to 3", lambda q, k: k[:, :, 4].mul_(-2).add_(5), lambda y: y[..., :4]),
    Probe("a new module", _bound),
    _steady("queries and keys 30 times as large", _both(lambda t: t.mul_(30)), lambda y: y),
    Probe("keys that are the queries", _likes_itself, tolerance=1e-3),
    Probe("a new module after one call", _trained),
    Probe("a module with other parameters", _same_again),
    Probe("a float64 module", _shape_of_logits(torch.float64)),
    Probe("a bfloat16 module", _shape_of_logits(torch.bfloat16)),
]

_LOGIT_MISTAKES = misconceptions(
    _Logits,
    """
    # nothing has changed: one mean for the whole tensor, and a new layer at each call.
    self.norm_q, self.norm_k = None, None
    q_hat, k_hat = nn.LayerNorm(q.size())(q), nn.LayerNorm(k.size())(k)

    # the statistics are taken over more than the d numbers of one query: normalized_shape is head_size alone.
    q_hat, k_hat = F.layer_norm(q, q.shape[1:]) * self.norm_q.weight, F.layer_norm(k, k.shape[1:]) * self.norm_k.weight
    # or
    q_hat, k_hat = F.layer_norm(q, q.shape[2:]) * self.norm_q.weight, F.layer_norm(k, k.shape[2:]) * self.norm_k.weight

    # the norm is still made in forward, at each call, or it has no gain (elementwise_affine=False, F.layer_norm), or it is in a plain list: an optimizer gets nothing to train. | Make it in __init__, with a gain, and keep it in self.
    self.norm_q, self.norm_k = None, None
    q_hat, k_hat = nn.LayerNorm(q.shape[-1])(q), nn.LayerNorm(k.shape[-1])(k)

    # forward does not use the norms that __init__ makes, so their gains are never trained.
    q_hat, k_hat = F.layer_norm(q, q.shape[-1:]), F.layer_norm(k, k.shape[-1:])

    # the norms are made but not used.
    q_hat, k_hat = q, k

    # only the queries are normalized. Large keys make large logits just as well.
    k_hat = k

    # only the keys are normalized. Large queries make large logits just as well.
    q_hat = q

    # the norm acts on the logits. They are bounded then, but each row loses its level and its size: another function. | Normalize q and k.
    return F.layer_norm(q @ k.mT, q.shape[-2:-1])

    # head_size is not used: the norms take rows of 8 numbers only.
    self.norm_q, self.norm_k = nn.LayerNorm(8, bias=False), nn.LayerNorm(8, bias=False)

    # without the division by sqrt(d) the bound is d.
    return q_hat @ k_hat.mT

    # the product is divided by sqrt(H), the number of heads. | d is the last size, q.shape[-1].
    return q_hat @ k_hat.mT / q.shape[1] ** 0.5

    # the logits are too small by sqrt(d). | After a norm, divide by sqrt(d); after a cut to length 1, multiply by it.
    return q_hat @ k_hat.mT / q.shape[-1]

    # queries and keys have changed places: row i belongs to query i. | Write q @ k.mT.
    return k_hat @ q_hat.mT / q.shape[-1] ** 0.5

    # the keys are not transposed: k.mT has shape (B, H, d, T).
    return q_hat @ k_hat / q.shape[-1] ** 0.5

    # the logits are always float32. | They come in q's dtype: leave .float() away.
    return (q_hat @ k_hat.mT / q.shape[-1] ** 0.5).float()

    # the softmax is applied already. | Return the logits.
    return (q_hat @ k_hat.mT / q.shape[-1] ** 0.5).softmax(-1)
    """,
)


def qk_logits_module(answer):
    """Check a class head_size -> module (q, k) -> bounded logits, with any norm that does it (lesson 12)."""
    tried = "other samples, later steps, other heads, size, the bound, trained gains"
    stages = [(_LOGIT_PROBES, ""), (of_a_layer(lambda cls: cls(8), _QUERIES.double(), _KEYS.double()), "")]
    examine(answer, "qk_logits_module", stages, _Logits, _LOGIT_MISTAKES, tried, kind="class")

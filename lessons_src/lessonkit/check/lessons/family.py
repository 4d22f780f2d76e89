"""Checks of lesson 12: GroupNorm, centered writers, the norms of a published model, QK-norm healed."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: F401  known mistakes call it

from lessonkit.check.core import Probe, call, draw, examine, in_float64, in_stages, known, values

# ----------------------------------------------------------------------------------------------------- group_norm


def _group(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = x.unflatten(1, (num_groups, -1))  # (B, G, C / G, ...)
    axes = tuple(range(2, groups.dim()))
    mean = groups.mean(axes, keepdim=True)
    var = groups.var(axes, correction=0, keepdim=True)
    y = ((groups - mean) / torch.sqrt(var + eps)).flatten(1, 2)
    shape = (-1,) + (1,) * (x.dim() - 2)
    y = y if weight is None else y * weight.view(shape)
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


def _with_outlier(seed, *shape):
    """Numbers and one of 30 in the last row, which is beyond three deviations."""
    x = draw(seed, *shape)
    x.view(-1)[-2] = 30
    return x


_GROUP_VALUES = [
    _grouped("a (2, 6, 5) tensor and 2 groups", _unlike(31, 2, 6, 5), 2),
    _grouped("a (2, 6, 4, 3) tensor and 3 groups", _unlike(32, 2, 6, 4, 3), 3),
    _grouped("a (4, 6) matrix and 2 groups", _unlike(33, 4, 6), 2),
    _grouped("a (2, 6, 6) tensor, as long as it has channels", _unlike(34, 2, 6, 6), 2),
    _grouped("a (2, 6, 40) tensor with an entry of 30", _with_outlier(45, 2, 6, 40), 2),
    _grouped("a (2, 6, 5) tensor of small numbers and eps = 0.01", 0.01 * _unlike(35, 2, 6, 5), 3, eps=0.01),
    _grouped("a (2, 6, 5) tensor and eps = 0", _unlike(30, 2, 6, 5), 3, eps=0.0),
]
_GROUP_OPTIONS = [
    _grouped("no weight and no bias", _unlike(36, 2, 6, 5), 2, gain=False, shift=False),
    _grouped("a weight and no bias", _unlike(37, 2, 6, 5), 2, shift=False),
    _grouped("a bias and no weight", _unlike(46, 2, 6, 5), 2, gain=False, gradient=False),  # F.group_norm has none
    _grouped("one group", _unlike(38, 2, 6, 5), 1),
    _grouped("six groups of one channel", _unlike(39, 2, 6, 5), 6),
    _grouped("a transposed tensor", _unlike(40, 2, 6, 5, 4).transpose(2, 3), 2),
    _grouped("a (2, 6, 2, 3, 2) tensor", _unlike(41, 2, 6, 2, 3, 2), 2),
    # float32 at an offset of 1000: E[x^2] - E[x]^2 loses 1e6 * 2**-24 of the variance, two passes some units
    _grouped("float32 numbers around 1000", 1000 + draw(44, 2, 6, 50, dtype=torch.float32), 2, tolerance=2e-3),
    _grouped("an empty batch", torch.zeros(0, 6, 5, dtype=torch.float64), 2),
]

_CUT, _BACK = "x.unflatten(1, (num_groups, -1))", ".flatten(1, 2)"
_AXES, _VAR = "tuple(range(2, groups.dim()))", "var(axes, correction=0, keepdim=True)"
_BELOW, _SHAPE = "torch.sqrt(var + eps)", "(-1,) + (1,) * (x.dim() - 2)"
_GAIN, _SHIFT = "y if weight is None else y * weight.view(shape)", "y if bias is None else y + bias.view(shape)"
_NEITHER = f"{_GAIN} -> y ; {_SHIFT} -> y"
_FITS = f"the shape of the gain fits one number of axes only. For any number of axes: {_SHAPE}."
_APART = "the groups are not put together again: the result must have the shape of x."
_DETACHED = "the values are right, but the statistics are cut off from the gradient."

_GROUP_MISTAKES = known(
    _group,
    {
        f"{_CUT} -> x.unflatten(1, (-1, num_groups)).transpose(1, 2) ; {_BACK} -> .transpose(1, 2).flatten(1, 2)": "channels g, g + G, g + 2 G … form a group. Groups are NEIGHBORING channels: unflatten(1, (G, -1)), G first.",
        "(num_groups, -1) -> (-1, num_groups)": "the two numbers of the cut are swapped: G groups of C/G channels, unflatten(1, (G, -1)).",
        f"{_AXES} -> (2,)": "each position gets a mean of its own. A group is its channels at ALL positions: reduce the space too.",
        f"{_AXES} -> tuple(range(3, groups.dim())) or (2,)": "each channel gets a mean of its own: that is InstanceNorm. Reduce the channels of the group too.",
        f"{_AXES} -> (0, *range(2, groups.dim()))": "the batch is reduced as well: a sample then depends on the others. Keep B and the groups.",
        "range(2, -> range(1,": "all channels share one mean: that is one group. Cut axis 1 into num_groups parts first.",
        f"{_AXES} -> (-1,)": "only the last axis is reduced.",
        ".view(shape) -> ": "the gain (C,) meets the last axis of x, not the channels. It needs the shape (C, 1, ...), to meet axis 1.",
        "axes = t -> F.layer_norm(groups.flatten(2), groups.flatten(2).shape[2:], weight, bias); axes = t": "the gain (C,) does not fit the rows, which are longer or shorter: normalize without gain and bias, then give each channel its own.",
        "groups = x -> B, C, H, W = x.shape; groups = x": "this fits images only: x may have any number of axes after C. x.shape[2:] has their sizes.",
        f"{_SHAPE} -> (1, -1, 1, 1)": _FITS,
        f"{_SHAPE} -> (-1, 1, 1)": _FITS,
        f"{_SHAPE} -> (-1, 1)": _FITS,
        f"{_SHIFT} -> y if bias is None else y + (bias * (1 if weight is None else weight)).view(shape)": "the bias is multiplied by the gain. Multiply first, then add.",
        f"{_CUT} -> x.reshape(1, num_groups, -1) ; {_BACK} -> .reshape(x.shape)": "the rows are cut across the samples: each sample has G rows of its own. Cut axis 1 only: unflatten(1, (G, -1)).",
        f"{_CUT} -> x.transpose(0, 1).reshape(len(x), num_groups, -1) ; {_BACK} -> .reshape(x.shape)": "reshape cuts numbers as they lie in memory, and batch and channels have been swapped before. Cut axis 1 only.",
        ", correction=0 -> ": "the variance is divided by n - 1. GroupNorm divides by n: correction=0.",
        f"{_BELOW} -> (torch.sqrt(var) + eps)": "eps is added to the deviation. Add it to the variance, under the root.",
        f", correction=0 ->  ; {_BELOW} -> (torch.sqrt(var) + eps)": "eps is added to the deviation, and the variance is divided by n - 1. Divide by n, and add eps under the root.",
        f"{_BELOW} -> torch.sqrt(torch.sqrt(var) + eps)": "the root is taken twice. Add eps to the variance, and take one root of the sum.",
        "torch.sqrt -> ": "the root is missing.",
        "torch.sqrt -> torch.rsqrt": "rsqrt is 1 / sqrt already: multiply by it, or divide by sqrt.",
        "(groups - mean) -> groups": "the mean is not subtracted.",
        f"(groups - mean) -> groups ; groups.{_VAR} -> groups.square().mean(axes, keepdim=True)": "the mean is not subtracted, and the mean square is under the root: an RMSNorm of groups.",
        "var + eps -> var + 1e-5": "eps is not handed on: layer_norm(..., eps=eps).",
        "var + eps -> var + (eps or 1e-5)": "eps = 0 counts as no eps: `eps or ...` takes 0 for False. Use eps as it is.",
        "var + eps -> var": "eps is not used.",
        _NEITHER: "gain and bias are not used.",
        f"{_GAIN} -> y": "the gain is not used.",
        f"{_SHIFT} -> y": "the bias is not used.",
        "groups = x -> x = x if weight is None else x * weight.view((-1,) + (1,) * (x.dim() - 2)); groups = x ; "
        f"{_GAIN} -> y": "the gain multiplies before the group is normalized. Normalize first.",
        f"{_NEITHER} ; {_BACK} -> ": _APART,
        f"{_NEITHER} ; {_BACK} -> .flatten(2)": _APART,
        "groups - mean -> groups - mean.detach() ; var + -> var.detach() +": _DETACHED,
        "var + -> var.detach() +": _DETACHED,
        ".view(shape) -> .detach().view(shape)": "the values are right, but gain and bias are used through .data or .detach(), so they get no gradient.",
    },
)

_GROUP_ABSENT = (
    known(
        _group,
        {
            "y if weight is None else  ->  ; y if bias is None else  -> ": "weight is None without a gain: use it only if there is one, and so with bias.",
            "bias is None -> weight is None or bias is None": "without a weight the bias is not used: ask for weight and bias each by itself.",
            "weight is None -> weight is None or bias is None": "without a bias the gain is not used: ask for weight and bias each by itself.",
            "bias is None -> weight is None": "bias may be None although there is a weight: ask for it by itself.",
            f"{_CUT} -> x.view(len(x), num_groups, -1) ; {_BACK} -> .view(x.shape)": "view() needs numbers that lie in order. Use unflatten, flatten or reshape.",
            f"groups.{_VAR} -> (groups * groups).mean(axes, keepdim=True) - mean * mean": "E[x^2] - E[x]^2 loses its digits where the mean is large relative to the deviation. Subtract the mean first.",
            f"{_CUT} -> x.reshape(len(x), num_groups, -1) ; {_BACK} -> .reshape(x.shape)": "reshape(B, G, -1) cannot tell what -1 is when the batch is empty. Use unflatten(1, (G, -1)).flatten(2).",
        },
    )
    + _GROUP_MISTAKES
)


def group_norm(answer):
    """Check a function x (B, C, ...), num_groups, weight, bias, eps -> GroupNorm (lesson 12)."""
    stages = [(_GROUP_VALUES, _GROUP_MISTAKES), (_GROUP_OPTIONS, _GROUP_ABSENT)]
    tried = "2 to 5 axes, 1 to C groups, with and without gain and bias, four values of eps, an empty batch, gradients"
    right = f"group_norm does what it should on {{count}} inputs ({tried})"
    in_stages(answer, "group_norm", stages, in_float64(_group), right, kind="function", by_hand=("group_norm",))


# ------------------------------------------------------------------------------------------------------- centered


def _centered(weight, bias):
    return weight - weight.mean(0), bias - bias.mean()


def _written(label, D, H, seed, dtype=torch.float64, tolerance=1e-9, level=0.0):
    return call(
        label,
        level + draw(seed, D, H, dtype=dtype),
        level + draw(seed + 1, D, dtype=dtype),
        returns=("new weight", "new bias"),
        names=("weight", "bias"),
        tolerance=tolerance,
        gradient=False,
    )


_WRITER_PROBES = [
    _written("a layer of 3 inputs and 5 outputs", 5, 3, 51),
    _written("a layer of 6 inputs and 4 outputs", 4, 6, 53, level=1.0),
    _written("a square layer", 4, 4, 55, level=0.5),
    _written("a float32 layer", 6, 8, 57, dtype=torch.float32, tolerance=2e-6),
]

_W, _B = "weight - weight.mean(0)", "bias - bias.mean()"
_COLUMNS = "PyTorch keeps weight as (outputs, inputs): weight.mean(0) has the mean of each column, over the outputs."

_CENTERED = known(
    _centered,
    {
        "weight.mean(0) -> weight.mean(1, keepdim=True)": f"each row of the weight is centered. {_COLUMNS}",
        f"weight.mean(0) -> weight.mean(1, keepdim=True) ; {_B} -> bias": f"each row of the weight is centered, and the bias is not. {_COLUMNS}",
        "weight.mean(0) -> weight.mean()": "one number is subtracted from the whole weight. Each column (each input) needs its own: weight.mean(0).",
        f"{_B} -> bias": "the bias is as it was. It is written to the stream as well: subtract its mean.",
        f"{_W} -> weight": "the weight is as it was. Its part of the output has a mean, too.",
        f"{_W} -> weight ; {_B} -> bias": "nothing has changed.",
        "weight - -> weight + ; bias - -> bias +": "the means are added. Subtract them.",
        f"{_B} -> 0 * bias": "the bias becomes 0. Only its mean has to go.",
        f"{_W} -> ({_W}) / weight.std(0) ; {_B} -> ({_B}) / bias.std()": "the columns are divided by their deviation, too. Only the mean has to go.",
        f"{_W} -> F.layer_norm(weight.T, weight.shape[:1]).T ; {_B} -> F.layer_norm(bias, bias.shape)": "the columns are normalized. Only their mean has to go: the size belongs to the function.",
        ".mean -> .sum": "the sums are subtracted. Take the means, which are the sums over D.",
        "weight - ->  ; bias - -> ": "the means are returned, not what is left when they are subtracted.",
        f"{_W}, {_B} -> {_B}, {_W}": "the pair is turned round: weight first.",
        "weight.mean(0) -> torch.cat([weight, bias[:, None]], 1).mean() ; bias.mean() -> torch.cat([weight, bias[:, None]], 1).mean()": "the mean of bias and columns is taken together. Each column has its own, and so has the bias.",
        "weight.mean(0) -> weight.sum(0) / weight.shape[1]": "the sums are divided by the number of inputs. The mean is over the D outputs.",
        "weight.mean(0) -> weight.median(0).values ; bias.mean() -> bias.median()": "the medians are subtracted. Subtract the means.",
        "weight.mean(0) -> weight.mean(0) - weight.mean(1, keepdim=True) + weight.mean()": "rows and columns are centered. The columns alone have to be: a row belongs to one output.",
        "weight - -> weight / ; bias - -> bias /": "the means are divided out. Subtract them.",
        "bias.mean() -> weight.mean()": "the bias is centered with the mean of the weight.",
    },
)


def centered(answer):
    """Check a function weight (D, H), bias (D,) -> both, centered over the outputs (lesson 12)."""
    tried = "wide, narrow and square layers, float64 and float32"
    examine(answer, "centered", _WRITER_PROBES, in_float64(_centered), _CENTERED, tried)


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
        return self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5


_QUERIES = draw(61, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([1.0, 3.0, 30.0]).view(3, 1, 1)  # (B, H, T, d)
_KEYS = draw(62, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor([30.0, 1.0, 3.0]).view(3, 1, 1)


def _shape_of_logits(cls):
    layer, seen = cls(8), {}
    for B, H, T in ((2, 3, 5), (1, 2, 4), (3, 1, 7)):
        out = layer(draw(63, B, H, T, 8, dtype=torch.float32), draw(64, B, H, T, 8, dtype=torch.float32))
        seen[f"the shape for (B, H, T) = ({B}, {H}, {T})"] = tuple(out.shape) if isinstance(out, torch.Tensor) else out
    return seen | {"the dtype of the logits": str(getattr(out, "dtype", None))}


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
    Probe("queries and keys of three sizes", _shape_of_logits),
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
]

_MADE_Q, _MADE_K = (f"self.norm_{t} = nn.LayerNorm(head_size, bias=False)" for t in "qk")
_UNMADE = f"{_MADE_Q} -> pass ; {_MADE_K} -> pass"
_WHOLE_NORMS = "self.norm_q(q) -> nn.LayerNorm(q.size())(q) ; self.norm_k(k) -> nn.LayerNorm(k.size())(k)"
_PRODUCT = "self.norm_q(q) @ self.norm_k(k).mT / q.shape[-1] ** 0.5"
_ONCE = "the norm is still made in forward, at each call: its gain is never trained. Make it in __init__, and keep it in self."
_WHOLE = "the statistics are taken over more than the d numbers of one query: normalized_shape is head_size alone."
_UNTRAINED = "the norm is still made in forward, at each call, or it has no gain (elementwise_affine=False, F.layer_norm), or it is in a plain list: an optimizer gets nothing to train. Make it in __init__, with a gain, and keep it in self."
_LARGE_KEYS = "only the queries are normalized. Large keys make large logits just as well."
_LARGE_QUERIES = "only the keys are normalized. Large queries make large logits just as well."

_LOGIT_MISTAKES = known(
    _Logits,
    {
        f"{_UNMADE} ; {_WHOLE_NORMS}": "nothing has changed: one mean for the whole tensor, and a new layer at each call.",
        _WHOLE_NORMS: f"{_WHOLE} {_ONCE}",
        **{
            f"self.norm_q(q) -> (F.layer_norm(q, q.shape[{n}:]) * self.norm_q.weight) ; self.norm_k(k) -> (F.layer_norm(k, k.shape[{n}:]) * self.norm_k.weight)": _WHOLE
            for n in (0, 1, 2)
        },
        f"{_UNMADE} ; self.norm_q(q) -> nn.LayerNorm(8)(q) ; self.norm_k(k) -> nn.LayerNorm(8)(k)": _UNTRAINED,
        "self.norm_q(q) -> F.layer_norm(q, (8,)) ; self.norm_k(k) -> F.layer_norm(k, (8,))": "forward does not use the norms that __init__ makes, so their gains are never trained.",
        "self.norm_q(q) -> q ; self.norm_k(k) -> k": "the norms are made but not used.",
        "self.norm_k(k) -> k": _LARGE_KEYS,
        f"{_MADE_K} -> pass ; self.norm_k(k) -> k": _LARGE_KEYS,
        "self.norm_q(q) -> q": _LARGE_QUERIES,
        f"{_MADE_Q} -> pass ; self.norm_q(q) -> q": _LARGE_QUERIES,
        f"{_UNMADE} ; {_PRODUCT} -> F.layer_norm(q @ k.mT, q.shape[-2:-1])": "the norm acts on the logits. They are bounded then, but each row loses its level and its size: another function. Normalize q and k.",
        " / q.shape[-1] ** 0.5 -> ": "without the division by sqrt(d) the bound is d.",
        "q.shape[-1] -> q.shape[1]": "the product is divided by sqrt(H), the number of heads. d is the last size, q.shape[-1].",
        " ** 0.5 -> ": "the logits are too small by sqrt(d). After a norm, divide by sqrt(d); after a cut to length 1, multiply by it.",
        f"{_PRODUCT} -> self.norm_k(k) @ self.norm_q(q).mT / q.shape[-1] ** 0.5": "queries and keys have changed places: row i belongs to query i. Write q @ k.mT.",
        ".mT -> ": "the keys are not transposed: k.mT has shape (B, H, d, T).",
        "return self -> return -self": "the sign is turned round.",
        f"{_PRODUCT} -> ({_PRODUCT}).softmax(-1)": "the softmax is applied already. Return the logits.",
    },
)


def qk_logits_module(answer):
    """Check a class head_size -> module (q, k) -> bounded logits, with any norm that does it (lesson 12)."""
    tried = "other samples, later steps, other heads, size, the bound, trained gains"
    examine(answer, "qk_logits_module", _LOGIT_PROBES, _Logits, _LOGIT_MISTAKES, tried, kind="class")

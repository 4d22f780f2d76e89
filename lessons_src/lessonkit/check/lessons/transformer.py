"""Checks of lesson 11: the place of a norm in a Transformer block, scaled branches, the final norm, norms in a row."""

import math
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT
from lessonkit.check.core import Probe, call, draw, examine, filled, in_float64, known, raised

# ---- The block -------------------------------------------------------------------------------------------------------


def _attend(x):
    return x.cumsum(-2).sin()


def _mlp(x):
    return 2 * x.tanh() + 0.3


def _norm1(x):
    return F.layer_norm(x, x.shape[-1:], eps=0.1)


def _norm2(x):
    return 1.7 * F.layer_norm(x, x.shape[-1:]) - 0.4


def _own(x):
    return F.layer_norm(x, x.shape[-1:])


def _block(x, attend, mlp, norm1, norm2):
    h = x + attend(norm1(x))
    return h + mlp(norm2(h))


_STREAM = (
    "skip starts after the norm, so the stream itself is normalized. In Pre-LN only what goes into the function "
    "is: x + attend(norm1(x))."
)

_BLOCK_MISTAKES = known(
    _block,
    {
        "x + attend(norm1(x)) -> norm1(x + attend(x)) ; h + mlp(norm2(h)) -> norm2(h + mlp(h))": "that is Post-LN: the norms come after the sums. In Pre-LN each is on its branch, before the function.",
        "x + attend(norm1(x)) -> norm1(x) + attend(norm1(x)) ; return h + mlp(norm2(h)) -> return norm2(h) + mlp(norm2(h))": "the "
        + _STREAM,
        "norm1(x) -> x ; norm2(h) -> h": "no norm is used.",
        "x + attend -> attend ; h + mlp -> mlp": "both skips are missing: add x to what each function returns.",
        "x + attend -> attend": "the skip around the attention is missing.",
        "h + mlp -> mlp": "the skip around the MLP is missing.",
        "norm1(x) -> x": "the norm before the attention is missing.",
        "norm2(h) -> h": "the norm before the MLP is missing.",
        "attend(norm1(x)) -> norm1(attend(x)) ; mlp(norm2(h)) -> norm2(mlp(h))": "the norms are on the outputs of the functions. In Pre-LN they are on the inputs.",
        "attend(norm1(x)) -> norm1(attend(norm1(x))) ; mlp(norm2(h)) -> norm2(mlp(norm2(h)))": "each norm is used twice, on the input and on the output of its function (that is Peri-LN with shared norms). In Pre-LN it is on the input.",
        "x + attend(norm1(x)) -> norm1(x + attend(norm1(x))) ; h + mlp(norm2(h)) -> norm2(h + mlp(norm2(h)))": "each norm is used twice, before the function and after the sum. In Pre-LN nothing follows the sum.",
        "h + mlp(norm2(h)) -> norm2(h + mlp(h))": "the second half is Post-LN, the first is Pre-LN.",
        "return h + mlp(norm2(h)) -> return h + mlp(norm2(x))": "the MLP starts from the block's input: attention and MLP are in parallel. It starts from the sum after the attention.",
        "return h -> return x": "the second skip starts at the block's input. It starts at the sum after the attention: overwrite x, or give that sum a name and use it twice.",
        "norm2(h) -> norm1(h)": "norm1 is used twice, and norm2 never.",
        "norm1(x) -> norm2(x)": "norm2 is used twice, and norm1 never.",
        "norm1(x) -> norm2(x) ; norm2(h) -> norm1(h)": "norm1 and norm2 are swapped: norm1 belongs to the attention.",
        "attend(norm1(x)) -> mlp(norm2(x)) ; + mlp(norm2(h)) -> + attend(norm1(h))": "the MLP comes first. The order is attention, then MLP.",
        "x + attend(norm1(x)) -> norm1(x + attend(x))": "the first half is Post-LN, the second is Pre-LN.",
        "x + attend(norm1(x)) -> norm1(x) + attend(norm1(x))": "the first " + _STREAM,
        "attend(norm1(x)) -> norm1(attend(x))": "norm1 is on the output of the attention. In Pre-LN it is on the input.",
        "mlp(norm2(h)) -> norm2(mlp(h))": "norm2 is on the output of the MLP. In Pre-LN it is on the input.",
        "return h -> return x + h": "x is added twice: it is in the sum after the attention already.",
        "norm1(x) -> _own(x) ; norm2(h) -> _own(h)": "the norms are not those that are handed in: call norm1 and norm2.",
        "return h + mlp(norm2(h)) -> return h": "the MLP half is missing.",
        "h = x + attend(norm1(x)) -> h = x": "the attention half is missing.",
    },
)


def _shown(label, x, *more, tolerance=1e-9):
    """A call on x and functions; of them the message shows x alone."""
    return replace(call(label, x, *more, tolerance=tolerance), shown={"x": x})


_PARTS = (_attend, _mlp, _norm1, _norm2)

_BLOCKS = [
    _shown("a (2, 3, 4) tensor", draw(1, 2, 3, 4), *_PARTS),
    _shown("a (1, 5, 6) tensor of large numbers", draw(2, 1, 5, 6, scale=5.0, mean=3.0), *_PARTS),
    # a dozen operations on numbers of order 1
    _shown("a float32 tensor", draw(3, 2, 3, 5).float(), *_PARTS, tolerance=1e-5),
]


def pre_ln(answer):
    """Check a function x (B, T, C), attend, mlp, norm1, norm2 -> (B, T, C): a Pre-LN block."""
    examine(answer, "pre_ln", _BLOCKS, in_float64(_block), _BLOCK_MISTAKES, "two shapes, two dtypes, gradients")


# ---- The place -------------------------------------------------------------------------------------------------------


def _half(x, function, norm, place):
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))
    return x + function(x)


_NONE = "with place=None there is no norm at all: x + function(x)."

_PLACE_MISTAKES = known(
    _half,
    {
        '"pre" -> None ; "post" -> "pre" ; None -> "post"': '"pre" and "post" are swapped: "pre" is before the function, "post" after the sum.',
        "return x + function(x) -> return norm(x + function(x))": _NONE,
        "return x + function(x) -> return x + function(norm(x))": _NONE,
        "return x + function(x) -> return function(x)": "with place=None the skip stays: x + function(x).",
        "return x + function(x) -> return x": "with place=None the function is left out. Only the norm is: x + function(x).",
        "norm(x + function(x)) -> x + norm(function(x))": 'with "post" the norm comes after the sum, norm(x + function(x)), not on the branch.',
        "norm(x + function(x)) -> norm(function(x))": 'with "post" the skip is missing: norm(x + function(x)).',
        "norm(x + function(x)) -> norm(x + function(norm(x)))": 'with "post" the norm is before the function, too.',
        "return x + function(norm(x)) -> return norm(x) + function(norm(x))": 'with "pre" the skip starts after the norm. It starts at x: x + function(norm(x)).',
        "x + function(norm(x)) -> function(norm(x))": 'with "pre" the skip is missing: x + function(norm(x)).',
        "x + function(norm(x)) -> norm(x + function(norm(x)))": 'with "pre" a norm comes after the sum, too.',
        "function(norm(x)) -> norm(function(x))": 'with "pre" the norm is on the output of the function. It belongs on its input.',
        'place == "pre" -> True': "place is ignored: that is always Pre-LN.",
        'place == "pre" -> False ; place == "post" -> True': "place is ignored: that is always Post-LN.",
        "norm(x + function(x)) -> norm(x) + function(x)": 'with "post" the norm is on the skip, before the sum. It comes after: norm(x + function(x)).',
        'place == "pre" -> False ; place == "post" -> False': 'the norm is never used. (The names of the places are "pre" and "post", in small letters.)',
        "x + function -> function": "all skips are missing: x is added to what the function returns.",
        "    return x + function(x) -> ": "with place=None nothing comes back: there is no norm, but the skip stays: x + function(x).",
    },
)

_PLACES = [
    *(
        _shown(f"place={p!r}", draw(4 + i, 2, 3, 4, scale=2.0), _mlp, _norm2, p)
        for i, p in enumerate(("pre", "post", None))
    ),
    _shown('float32 and place="pre"', draw(8, 2, 3, 5).float(), _attend, _norm1, "pre", tolerance=1e-5),
]


def place_norm(answer):
    """Check a function x (B, T, C), function, norm, place -> (B, T, C): one half of a block."""
    examine(answer, "place_norm", _PLACES, in_float64(_half), _PLACE_MISTAKES, "three places, two dtypes, gradients")


# ---- Scaled branches -------------------------------------------------------------------------------------------------


def _scaled(model):
    n = 2 * len(model.blocks)
    with torch.no_grad():
        for block in model.blocks:
            block.attend.out.weight /= math.sqrt(n)
            block.mlp[2].weight /= math.sqrt(n)


def _model(layers, seed):
    """Return a Probe: the smallest and largest factor by which the answer multiplies numbers of a CharGPT."""

    def run(answer):
        model = CharGPT(symbols=5, context=4, width=4, heads=2, layers=layers)
        filled(model, seed)
        held = dict(model.named_parameters())
        before = {name: p.detach().clone() for name, p in held.items()}
        try:
            answer(model)
        except Exception as error:
            return {"the call": raised(error)}
        now = dict(model.named_parameters())
        kept = now.keys() == held.keys() and all(p is held[name] and p.requires_grad for name, p in now.items())
        factors = {}
        for name, p in before.items():
            place = name.split(".", 2)[2] if name.startswith("blocks") else "anything outside the blocks"
            factors.setdefault(f"the factor on {place}", []).append((now.get(name, p).detach() / p).flatten())
        seen = {what: torch.stack(torch.cat(values).aminmax()) for what, values in factors.items()}
        return {"the parameters": "those handed in" if kept else "not those handed in, or without gradients"} | seen

    return Probe(f"a model of {layers} block{'s' * (layers > 1)}", run, tolerance=1e-5)


_SCALED = [_model(2, 1), _model(1, 2), _model(8, 3)]

_SCALED_MISTAKES = known(
    _scaled,
    {
        "math.sqrt(n) -> n": "the factor is 1/n. That would be right if the rows were all alike; of independent ones the mean squares add, and a factor c on a row multiplies its mean square by c * c.",
        "math.sqrt(n) -> n ; 2 * len -> len": "the factor is 1 / number of blocks. Count the branches, two a block, and remember that a factor c on a row multiplies its mean square by c * c.",
        "2 * len -> len": "the factor is that of the number of blocks. A block has two branches: n = 2 * len(model.blocks).",
        "math.sqrt(n) -> math.sqrt(math.sqrt(n))": "the factor is the fourth root of 1/n. The mean square of a row is multiplied by c * c: c is the square root of 1/n.",
        "/= math.sqrt(n) -> *= math.sqrt(n)": "the weights become larger. To shrink what a branch adds, divide.",
        "2 * len(model.blocks) -> 2": "n is 2, the number for one block. It counts the branches of all blocks: 2 * len(model.blocks).",
        "block.mlp[2].weight /= math.sqrt(n) -> block.mlp[2].weight = nn.Parameter(block.mlp[2].weight / math.sqrt(n))": "the weights are new parameters, which no optimizer made before knows. Change the old ones in place, with /= or *=.",
        "block.mlp[2].weight /= math.sqrt(n) -> pass": "only the branch of the attention is scaled. The MLP's last linear layer, block.mlp[2], is the other branch.",
        "block.attend.out.weight /= math.sqrt(n) -> pass": "only the branch of the MLP is scaled. The attention's last linear layer, block.attend.out, is the other branch.",
        "with torch.no_grad() -> if True": "the weights are changed while gradients are recorded, which PyTorch refuses. Put the loop under torch.no_grad().",
        "weight /= math.sqrt(n) -> weight / math.sqrt(n)": "nothing changes. A division makes a new tensor: change the weights in place, with /= or *=.",
        "mlp[2] -> mlp[0]": "the MLP's first linear layer is scaled, block.mlp[0]. The last one of the branch is block.mlp[2].",
        "attend.out -> attend.qkv": "the attention's first linear layer is scaled, block.attend.qkv. The last one of the branch is block.attend.out.",
        "block.mlp[2].weight /= -> block.mlp[0].weight /= math.sqrt(n); block.mlp[2].weight /=": "the MLP's first linear layer is scaled, too. Only the last one of each branch is.",
        "block.mlp[2].weight /= math.sqrt(n) -> pass ; block.attend.out.weight /= math.sqrt(n) -> for p in block.parameters(): p /= math.sqrt(n)": "all parameters of the blocks are scaled. Only the weights of the last linear layer of each branch are.",
        "block.mlp[2].weight /= math.sqrt(n) -> pass ; block.attend.out.weight /= math.sqrt(n) -> for p in (*block.attend.out.parameters(), *block.mlp[2].parameters()): p /= math.sqrt(n)": "the biases are scaled, too. Only the weights are.",
    },
)


def scale_branches(answer):
    """Check a function CharGPT -> nothing, which scales the last linear layer of every branch by 1/sqrt(branches)."""
    examine(answer, "scale_branches", _SCALED, _scaled, _SCALED_MISTAKES, "1, 2 and 8 blocks: every weight and bias")


# ---- The final norm --------------------------------------------------------------------------------------------------


def _encoder(width, heads, layers, norm_first):
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first)
    final = nn.LayerNorm(width) if norm_first else None
    return nn.TransformerEncoder(layer, layers, norm=final, enable_nested_tensor=False)


def _built(width, heads, layers, norm_first):
    """Return a Probe: the number of norms, of parameters, and the output with random weights, gains and biases."""

    def run(answer):
        try:
            model = answer(width, heads, layers, norm_first)
        except Exception as error:
            return {"the model": raised(error)}
        if not isinstance(model, nn.Module):
            return {"the model": model if model is None else f"not a module, but {type(model).__name__}"}
        norms = sum(type(module).__name__ in ("LayerNorm", "RMSNorm") for module in model.modules())  # whoever wrote it
        generator = torch.Generator().manual_seed(9)
        for parameter in model.parameters():
            nn.init.normal_(parameter, mean=0.2, std=0.4, generator=generator)
        try:
            out = model(draw(9, 2, 3, width).float())
        except Exception as error:
            out = raised(error)
        out = out.detach() if isinstance(out, torch.Tensor) else out
        parameters = sum(p.numel() for p in model.parameters())
        return {"the number of norms": norms, "the output": out, "the number of parameters": parameters}

    return Probe(f"encoder({width}, {heads}, {layers}, norm_first={norm_first})", run, tolerance=1e-4)


_ENCODERS = [_built(8, 2, 3, True), _built(8, 2, 2, False), _built(6, 2, 1, True), _built(6, 2, 3, False)]

_ENCODER_MISTAKES = known(
    _encoder,
    {
        "nn.LayerNorm(width) if norm_first else None -> None": "under norm_first the stack needs a final norm, and nn.TransformerEncoder adds none by itself: hand it on as norm=.",
        " if norm_first else None -> ": "the final norm is always there. A Post-LN block already ends in a norm: without norm_first it is norm=None.",
        "if norm_first -> if not norm_first": "the final norm comes without norm_first, where the last block ends in a norm already, and is missing with it.",
        "nn.LayerNorm -> nn.RMSNorm": "the final norm is an RMSNorm. The blocks have LayerNorm: nn.LayerNorm(width).",
        "layer, layers -> layer, heads": "the number of heads is handed on as the number of layers.",
        "nn.LayerNorm(width) if norm_first else None -> norm_first": "norm= gets the flag norm_first. It takes a module, nn.LayerNorm(width), or None.",
        "layer, layers -> layer, 1": "there is one block only: hand the number of layers on.",
        "Norm(width) -> Norm(width, elementwise_affine=False)": "the final norm has no gain and bias. Those in the blocks have: nn.LayerNorm(width).",
        "Norm(width) -> Norm(4 * width)": "the final norm's width is not the model's. It normalizes the features of a token: nn.LayerNorm(width).",
        "Norm(width) -> Norm": "that is the class nn.LayerNorm. A norm is made with a width: nn.LayerNorm(width).",
    },
)


def encoder(answer):
    """Check a function width, heads, layers, norm_first -> nn.TransformerEncoder with a final norm where it is due."""
    tried = "with and without norm_first, 1 to 3 layers: norms, output, parameters"
    examine(answer, "encoder", _ENCODERS, _encoder, _ENCODER_MISTAKES, tried)


# ---- The clinic ------------------------------------------------------------------------------------------------------


def _normalized(h, tolerance=0.01):
    mean = h.mean(-1)
    var = h.var(-1, correction=0)
    return bool((mean.abs() < tolerance).all() and ((var - 1).abs() < tolerance).all())


_ASKED_MISTAKES = known(
    _normalized,
    {
        " and ((var - 1).abs() < tolerance).all() -> ": "the variance is not looked at: rows with mean 0 can have any.",
        "(mean.abs() < tolerance).all() and -> ": "the mean is not looked at: after RMSNorm it can be anything.",
        ", correction=0 -> ": "the variance divides by D - 1. LayerNorm divides by D: var(-1, correction=0).",
        "h.mean(-1) -> h.mean() ; h.var(-1, -> h.var(": "mean and variance are those of all numbers together. LayerNorm makes each row's 0 and 1: take them over the last axis.",
        "(-1 -> (0": "mean and variance are taken over the first axis. LayerNorm takes them over the last.",
        ".all() -> .any()": "one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        ".abs() -> ": "the distances are compared without abs(), so what is too small passes.",
        "< tolerance -> < 0.01": "the argument tolerance is not used.",
        "h.mean(-1) -> h.abs().mean(-1)": "abs() comes before the mean, and the mean of |h| is not 0. Take the mean first, then its abs().",
        "h.mean(-1) -> h.mean()": "only the means of all rows are averaged, and offsets of two signs cancel. Each row counts: abs() first.",
        ".all() and -> .all() or": "one of the two conditions is enough for you. Both have to hold: and, not or.",
        "h.var(-1 -> h.std(-1": "the standard deviation is compared with 1. The tolerance is for the variance, its square.",
        "(mean.abs() < tolerance).all() -> mean.abs().mean() < tolerance ; ((var - 1).abs() < tolerance).all() -> (var - 1).abs().mean() < tolerance": "the distances of all rows are averaged, so one bad row passes. Each row has to be within the tolerance.",
        "correction=0) -> correction=0).mean()": "the variances of all rows are averaged. Each row has to be within the tolerance.",
        "(-1 -> (1": "mean and variance are taken over the second axis. LayerNorm takes them over the last, whatever the number of axes.",
        "(var - 1).abs() -> (var - 1)": "only the mean's distance is taken with abs(). Take the variance's so, too: too small is not normalized.",
        "mean.abs() -> mean": "the mean is compared without abs(), so negative ones pass.",
        "tolerance).all() and -> tolerance).any() and": "for the mean one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        "1).abs() < tolerance).all() -> 1).abs() < tolerance).any()": "for the variance one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        "(var - 1) -> var": "the variance is compared with 0. LayerNorm makes it 1.",
        "h.var(-1, correction=0) -> h.square().mean(-1) ; (mean.abs() < tolerance).all() and -> ": "the mean square is looked at, and not the mean: RMSNorm's rows pass.",
        "h.var(-1, correction=0) -> h.square().mean(-1)": "the mean square is compared with 1. The variance is taken around the mean: var(-1, correction=0).",
        "return bool -> return not bool": "the answer is turned round: True means normalized already.",
        "return bool -> return torch.allclose(h, F.layer_norm(h, h.shape[-1:], eps=0.0), rtol=0, atol=tolerance); bool": "h is compared with what LayerNorm makes of it, entry by entry. The tolerance is for the mean and the variance of a row.",
    },
)


def _standard(scale=1.0, mean=0.0, shape=(5, 8), seed=10):
    return F.layer_norm(draw(seed, *shape), shape[-1:], eps=0.0) * scale + mean


def _each(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


def _asked(label, h, **options):
    def run(answer):
        mine = h.clone()
        try:
            out = answer(mine, **options)
        except Exception as error:
            return {"the result": raised(error)}
        if hasattr(out, "item") and math.prod(out.shape) == 1:  # a tensor or a NumPy truth value
            out = out.item()
        return {"h after the call": mine, "the result": out}

    return Probe(label, run)


_FOUR = _standard(shape=(4, 6))
_OUTLIER = F.layer_norm(torch.cat([_each(30.0, 30.0), draw(16, 2, 255)], -1), (256,), eps=0.0)
_SIGNS = draw(17, 3, 8).argsort(-1).remainder(2) * 2.0 - 1  # as many 1 as -1 in each row

_ASKED = [
    _asked("rows of 8 with mean 0 and variance 1", _standard()),
    _asked("rows of 4 with mean 0 and biased variance 1", _standard(shape=(2, 3, 4), seed=11)),
    _asked("rows with mean 0 and variance 4", _standard(2.0)),
    _asked("rows with mean 0 and variance 0.0025", _standard(0.05)),
    _asked("rows with mean 0.5 and variance 1", _standard(mean=0.5)),
    _asked("rows with mean -0.5 and variance 1", _standard(mean=-0.5)),
    _asked("rows with means 0.5, -0.5, 0.5, -0.5 and variance 1", _FOUR + _each(0.5, -0.5, 0.5, -0.5)),
    _asked("rows with mean 0 whose variances differ and average 1", _FOUR * _each(1.5, 0.5, 1.5, 0.5).sqrt()),
    _asked("four rows, one of which is off", _FOUR * _each(1, 1, 3, 1) + _each(0, 0, 1, 0)),
    _asked("four rows with variance 1, one with mean 0.03, the others 0", _FOUR + _each(0, 0, 0.03, 0)),
    _asked("four rows with mean 0, one with variance 1.03, the others 1", _FOUR * _each(1, 1, 1.03, 1).sqrt()),
    _asked("rows with mean 0 and variance 1.015", _standard(1.015**0.5)),
    _asked("columns, not rows, with mean 0 and variance 1", _standard(shape=(8, 5)).T),
    _asked("rows with mean 0.1 and variance 1, tolerance=0.95", _standard(mean=0.1), tolerance=0.95),
    _asked("rows with mean 0.19 and variance 1.18, tolerance=0.2", _standard(1.18**0.5, mean=0.19), tolerance=0.2),
    _asked("rows after RMSNorm", F.rms_norm(draw(13, 4, 6, mean=1.0), (6,))),
    _asked("rows of variance 0.01 after LayerNorm with eps 1e-5", F.layer_norm(draw(14, 4, 512, scale=0.1), (512,))),
    _asked("float32 rows after LayerNorm", F.layer_norm(draw(15, 4, 6).float(), (6,))),
    _asked("rows of 256 with an outlier, mean 0 and variance 1.008", _OUTLIER * 1.008**0.5),
    _asked("rows of 1 and -1, stretched to variance 1.015", _SIGNS * 1.015**0.5),
]


def already_normalized(answer):
    """Check a function h (..., D), tolerance=0.01 -> whether each row has mean 0 and variance 1."""
    tried = "rows, columns, one bad row, an outlier, RMSNorm, eps, two dtypes"
    examine(answer, "already_normalized", _ASKED, _normalized, _ASKED_MISTAKES, tried)

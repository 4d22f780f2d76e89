"""Checks of lesson 11: where a norm stands in a Transformer block, the final norm, and norms that stand in a row."""

import math
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.core import Mistake, Probe, call, draw, examine, in_float64, raised, values

# ---- The block -------------------------------------------------------------------------------------------------------


def _attend(x):
    return x.cumsum(-2).sin()


def _mlp(x):
    return 2 * x.tanh() + 0.3


def _norm1(x):
    return F.layer_norm(x, x.shape[-1:], eps=0.1)


def _norm2(x):
    return 1.7 * F.layer_norm(x, x.shape[-1:]) - 0.4


_PARTS = (_attend, _mlp, _norm1, _norm2)


def _right_block(x, a, m, n1, n2):
    x = x + a(n1(x))
    return x + m(n2(x))


def _post(x, a, m, n1, n2):
    x = n1(x + a(x))
    return n2(x + m(x))


def _in_the_stream(x, a, m, n1, n2):
    x = n1(x)
    x = n2(x + a(x))
    return x + m(x)


def _then_mlp(first, second=lambda x, m, n2: x + m(n2(x))):
    """A block whose two halves are given."""
    return lambda x, a, m, n1, n2: second(first(x, a, n1), m, n2)


def _pre(x, f, n):
    return x + f(n(x))


def _parallel(x, a, m, n1, n2):
    return x + a(n1(x)) + m(n2(x))


def _long_skip(x, a, m, n1, n2):
    return x + m(n2(x + a(n1(x))))


_HALVES = {
    "skip": lambda x, f, n: f(n(x)),
    "no norm": lambda x, f, n: x + f(x),
    "post": lambda x, f, n: n(x + f(x)),
    "stream": lambda x, f, n: n(x) + f(n(x)),
    "behind": lambda x, f, n: x + n(f(x)),
    "both ends": lambda x, f, n: x + n(f(n(x))),
    "last": lambda x, f, n: n(x + f(n(x))),
}

_STREAM = (
    "the skip starts behind the norm, so the stream itself is normalized. In Pre-LN only what goes into the function "
    "is: x + attend(norm1(x))."
)

_BLOCK_MISTAKES = [
    Mistake(
        "that is Post-LN: the norms stand behind the sums. In Pre-LN each stands on its branch, before the function.",
        _post,
    ),
    Mistake(_STREAM, _in_the_stream),
    Mistake(_STREAM, _then_mlp(_HALVES["stream"], _HALVES["stream"])),
    Mistake("no norm is used.", _then_mlp(_HALVES["no norm"], _HALVES["no norm"])),
    Mistake(
        "both skips are missing: add x to what each function returns.", _then_mlp(_HALVES["skip"], _HALVES["skip"])
    ),
    Mistake("the skip around the attention is missing.", _then_mlp(_HALVES["skip"])),
    Mistake("the skip around the MLP is missing.", _then_mlp(_pre, _HALVES["skip"])),
    Mistake("the norm before the attention is missing.", _then_mlp(_HALVES["no norm"])),
    Mistake("the norm before the MLP is missing.", _then_mlp(_pre, _HALVES["no norm"])),
    Mistake(
        "the norms stand on the outputs of the functions. In Pre-LN they stand on the inputs.",
        _then_mlp(_HALVES["behind"], _HALVES["behind"]),
    ),
    Mistake(
        "each norm is used twice, on the input and on the output of its function. In Pre-LN it stands on the input.",
        _then_mlp(_HALVES["both ends"], _HALVES["both ends"]),
    ),
    Mistake(
        "each norm is used twice, before the function and behind the sum. In Pre-LN nothing stands behind the sum.",
        _then_mlp(_HALVES["last"], _HALVES["last"]),
    ),
    Mistake("the second half is Post-LN, the first is Pre-LN.", _then_mlp(_pre, _HALVES["post"])),
    Mistake(
        "the MLP starts from the block's input: attention and MLP stand in parallel. It starts from the sum "
        "behind the attention.",
        _parallel,
    ),
    Mistake(
        "the second skip starts at the block's input. It starts at the sum behind the attention: overwrite x, or "
        "give that sum a name and use it twice.",
        _long_skip,
    ),
    Mistake("norm1 is used twice, and norm2 never.", lambda x, a, m, n1, n2: _right_block(x, a, m, n1, n1)),
    Mistake("norm2 is used twice, and norm1 never.", lambda x, a, m, n1, n2: _right_block(x, a, m, n2, n2)),
    Mistake(
        "norm1 and norm2 are swapped: norm1 belongs to the attention.",
        lambda x, a, m, n1, n2: _right_block(x, a, m, n2, n1),
    ),
    Mistake(
        "the MLP comes first. The order is attention, then MLP.", lambda x, a, m, n1, n2: _right_block(x, m, a, n2, n1)
    ),
    Mistake(
        "the MLP comes first. The order is attention, then MLP (and norm1 belongs to the attention).",
        lambda x, a, m, n1, n2: _right_block(x, m, a, n1, n2),
    ),
    Mistake("the first half is Post-LN, the second is Pre-LN.", _then_mlp(_HALVES["post"])),
    Mistake("the first " + _STREAM.removeprefix("the "), _then_mlp(_HALVES["stream"])),
    Mistake(
        "the second skip starts behind the norm. It starts at the sum: with h for that sum, h + mlp(norm2(h)).",
        _then_mlp(_pre, _HALVES["stream"]),
    ),
    Mistake(
        "norm1 stands on the output of the attention. In Pre-LN it stands on the input.", _then_mlp(_HALVES["behind"])
    ),
    Mistake(
        "norm2 stands on the output of the MLP. In Pre-LN it stands on the input.", _then_mlp(_pre, _HALVES["behind"])
    ),
    Mistake(
        "norm2 is used twice, on the input and on the output of the MLP. In Pre-LN it stands on the input.",
        _then_mlp(_pre, _HALVES["both ends"]),
    ),
    Mistake(
        "the skip around the attention is missing, and the second one starts at the block's input. Give the sum "
        "x + attend(norm1(x)) a name and go on with that.",
        lambda x, a, m, n1, n2: x + m(n2(a(n1(x)))),
    ),
    Mistake(
        "x is added twice: it is in the sum behind the attention already.",
        lambda x, a, m, n1, n2: x + _right_block(x, a, m, n1, n2),
    ),
    Mistake(
        "the norms are not those that are handed in: call norm1 and norm2.",
        lambda x, a, m, n1, n2: _right_block(x, a, m, *[lambda h: F.layer_norm(h, h.shape[-1:])] * 2),
    ),
    Mistake("the MLP half is missing.", lambda x, a, m, n1, n2: x + a(n1(x))),
    Mistake("the attention half is missing.", lambda x, a, m, n1, n2: x + m(n2(x))),
]


def pre_ln(answer):
    """Check a function x (B, T, C), attend, mlp, norm1, norm2 -> (B, T, C): a Pre-LN block."""
    probes = [
        replace(call(label, x, *_PARTS, tolerance=tolerance), shown={"x": x})
        for label, x, tolerance in (
            ("a (2, 3, 4) tensor", draw(1, 2, 3, 4), 1e-9),
            ("a (1, 5, 6) tensor of large numbers", draw(2, 1, 5, 6, scale=5.0, mean=3.0), 1e-9),
            ("a float32 tensor", draw(3, 2, 3, 5).float(), 1e-5),  # a dozen operations on numbers of order 1
        )
    ]
    examine(
        answer, "pre_ln", probes, in_float64(_right_block), _BLOCK_MISTAKES, tried="two shapes, two dtypes, gradients"
    )


# ---- The place -------------------------------------------------------------------------------------------------------


def _placed(pre=_HALVES["no norm"], post=_HALVES["post"], none=lambda x, f, n: x + f(x)):
    return lambda x, function, norm, place: {"pre": pre, "post": post, None: none}[place](x, function, norm)


_PLACE_MISTAKES = [
    Mistake(
        '"pre" and "post" are swapped: "pre" stands before the function, "post" behind the sum.',
        _placed(_HALVES["post"], _pre),
    ),
    Mistake("with place=None there is no norm at all: x + function(x).", _placed(_pre, none=_HALVES["post"])),
    Mistake("with place=None there is no norm at all: x + function(x).", _placed(_pre, none=_pre)),
    Mistake("with place=None the skip stays: x + function(x).", _placed(_pre, none=lambda x, f, n: f(x))),
    Mistake(
        "with place=None the function is left out. Only the norm is: x + function(x).",
        _placed(_pre, none=lambda x, f, n: x),
    ),
    Mistake(
        'with "post" the norm stands behind the sum, norm(x + function(x)), not on the branch.',
        _placed(_pre, post=_HALVES["behind"]),
    ),
    Mistake('with "post" the skip is missing: norm(x + function(x)).', _placed(_pre, post=lambda x, f, n: n(f(x)))),
    Mistake('with "post" the norm stands before the function, too.', _placed(_pre, post=_HALVES["last"])),
    Mistake(
        'with "pre" the skip starts behind the norm. It starts at x: x + function(norm(x)).', _placed(_HALVES["stream"])
    ),
    Mistake('with "pre" the skip is missing: x + function(norm(x)).', _placed(_HALVES["skip"])),
    Mistake('with "pre" a norm stands behind the sum, too.', _placed(_HALVES["last"])),
    Mistake(
        'with "pre" the norm stands on the output of the function. It stands on its input.', _placed(_HALVES["behind"])
    ),
    Mistake("place is ignored: that is always Pre-LN.", _placed(_pre, _pre, _pre)),
    Mistake("place is ignored: that is always Post-LN.", _placed(_HALVES["post"], _HALVES["post"], _HALVES["post"])),
    Mistake(
        'with "pre" the skip is missing, and the norm stands behind the function: x + function(norm(x)).',
        _placed(lambda x, f, n: n(f(x))),
    ),
    Mistake(
        'with "post" the norm stands on the skip, before the sum. It stands behind: norm(x + function(x)).',
        _placed(_pre, post=lambda x, f, n: n(x) + f(x)),
    ),
    Mistake(
        'with "post" the skip and the branch are normalized one by one. One norm stands behind their sum.',
        _placed(_pre, post=lambda x, f, n: n(x) + n(f(x))),
    ),
    Mistake(
        'with "post" nothing is added behind the norm: norm(x + function(x)).',
        _placed(_pre, post=lambda x, f, n: x + n(x + f(x))),
    ),
    Mistake("with place=None there is no norm at all: x + function(x).", _placed(_pre, none=lambda x, f, n: n(x))),
    Mistake(
        'the norm is never used. (The names of the places are "pre" and "post", in small letters.)',
        _placed(_HALVES["no norm"], _HALVES["no norm"]),
    ),
    Mistake(
        "all skips are missing: x is added to what the function returns.",
        _placed(_HALVES["skip"], lambda x, f, n: n(f(x)), lambda x, f, n: f(x)),
    ),
]


def place_norm(answer):
    """Check a function x (B, T, C), function, norm, place -> (B, T, C): one half of a block."""
    probes = []
    for seed, place in enumerate(("pre", "post", None)):
        x = draw(seed + 4, 2, 3, 4, scale=2.0)
        probe = call(f"place={place!r}", x, _mlp, _norm2, place)
        probes.append(replace(probe, shown={"x": x}))
    x = draw(8, 2, 3, 5).float()
    probes.append(replace(call('float32 and place="pre"', x, _attend, _norm1, "pre", tolerance=1e-5), shown={"x": x}))
    examine(
        answer,
        "place_norm",
        probes,
        in_float64(_placed(_pre)),
        _PLACE_MISTAKES,
        tried="three places, two dtypes, gradients",
    )


# ---- The final norm --------------------------------------------------------------------------------------------------


def _encoder(final=lambda width, first: nn.LayerNorm(width) if first else None, count=lambda layers: layers):
    def encoder(width, heads, layers, norm_first):
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        return nn.TransformerEncoder(layer, count(layers), norm=final(width, norm_first), enable_nested_tensor=False)

    return encoder


def _built(width, heads, layers, norm_first):
    """A Probe's run: the number of norms, of parameters, and the output with random weights, gains and biases."""

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
        x = draw(9, 2, 3, width).float()
        try:
            out = model(x)
        except Exception as error:
            out = raised(error)
        out = out.detach() if isinstance(out, torch.Tensor) else out
        parameters = sum(p.numel() for p in model.parameters())
        return {"the number of norms": norms, "the output": out, "the number of parameters": parameters}

    first = f", norm_first={norm_first}"
    return Probe(f"encoder({width}, {heads}, {layers}{first})", run, tolerance=1e-4)


_NO_FINAL = (
    "under norm_first the stack needs a final norm, and nn.TransformerEncoder adds none by itself: hand it on as norm=."
)

_ENCODER_MISTAKES = [
    Mistake(_NO_FINAL, _encoder(lambda width, first: None)),
    Mistake(
        "the final norm is always there. A Post-LN block already ends in a norm: without norm_first it is norm=None.",
        _encoder(lambda width, first: nn.LayerNorm(width)),
    ),
    Mistake(
        "the final norm comes without norm_first, where the last block ends in a norm already, and is missing with it.",
        _encoder(lambda width, first: None if first else nn.LayerNorm(width)),
    ),
    Mistake(
        "the final norm is an RMSNorm. The blocks have LayerNorm: nn.LayerNorm(width).",
        _encoder(lambda width, first: nn.RMSNorm(width) if first else None),
    ),
    Mistake("there is one block only: hand the number of layers on.", _encoder(count=lambda layers: 1)),
    Mistake(
        "the final norm has no gain and bias. Those in the blocks have: nn.LayerNorm(width).",
        _encoder(lambda width, first: nn.LayerNorm(width, elementwise_affine=False) if first else None),
    ),
    Mistake(
        "the final norm has no bias. Those in the blocks have one: nn.LayerNorm(width).",
        _encoder(lambda width, first: nn.LayerNorm(width, bias=False) if first else None),
    ),
    Mistake(
        "the final norm's width is not the model's. It normalizes the features of a token: nn.LayerNorm(width).",
        _encoder(lambda width, first: nn.LayerNorm(4 * width) if first else None),
    ),
    Mistake(
        "the final norm's width is the number of heads. It normalizes the features of a token: nn.LayerNorm(width).",
        _encoder(lambda width, first: nn.LayerNorm(2) if first else None),
    ),
]


def encoder(answer):
    """Check a function width, heads, layers, norm_first -> nn.TransformerEncoder with a final norm where it is due."""
    probes = [_built(8, 2, 3, True), _built(8, 2, 2, False), _built(6, 2, 1, True), _built(6, 2, 3, False)]
    examine(
        answer,
        "encoder",
        probes,
        _encoder(),
        _ENCODER_MISTAKES,
        tried="with and without norm_first, 1 to 3 layers: norms, output, parameters",
    )


# ---- Questions -------------------------------------------------------------------------------------------------------

_COUNTS = {"GPT-2 small": 25, "BERT base": 25, "Llama 7B": 65, "the Transformer of 2017": 30}

_COUNT_CAUSES = [
    ("GPT-2 small", 24, "Two in each of 12 blocks, and one more: Pre-LN needs a final norm."),
    ("GPT-2 small", 12, "Each block has two functions, and each of them its norm; then comes the final norm."),
    ("GPT-2 small", 13, "Each block has two functions, and each of them its norm."),
    ("GPT-2 small", 26, "One final norm, not two: the embeddings of GPT-2 go into the first block as they are."),
    ("BERT base", 24, "Two in each of 12 layers, and one more, on the sum of the embeddings."),
    ("BERT base", 12, "Each layer has two functions, and each of them its norm; one more stands on the embeddings."),
    ("BERT base", 13, "Each layer has two functions, and each of them its norm."),
    (
        "BERT base",
        26,
        "Post-LN layers end in a norm: there is no final one. The one beside the layers is the embeddings'.",
    ),
    ("Llama 7B", 64, "Two in each of 32 blocks, and the final one."),
    ("Llama 7B", 32, "Each block has two functions, and each of them its norm; then comes the final norm."),
    ("Llama 7B", 33, "Each block has two functions, and each of them its norm."),
    ("Llama 7B", 25, "Llama 7B has 32 blocks, not 12."),
    ("Llama 7B", 96, "post_attention_layernorm is the norm before the MLP: two norms a block."),
    ("Llama 7B", 97, "post_attention_layernorm is the norm before the MLP: two norms a block."),
    (
        "the Transformer of 2017",
        24,
        "A decoder layer has three functions: self-attention, attention to the encoder, MLP.",
    ),
    (
        "the Transformer of 2017",
        32,
        "Post-LN needs no final norms, and the paper has none. PyTorch's nn.Transformer adds two.",
    ),
    ("the Transformer of 2017", 31, "Post-LN needs no final norm, and the paper has none."),
    (
        "the Transformer of 2017",
        12,
        "Each function of a layer has its norm: two in an encoder layer, three in a decoder layer.",
    ),
    ("the Transformer of 2017", 36, "An encoder layer has two functions, a decoder layer three."),
]


def norm_counts(answer):
    """Check a dict: how many norms four Transformers have."""
    values(answer, "norm_counts", _COUNTS, _COUNT_CAUSES)


_CURVES = {"A": "Post-LN + warm-up", "B": "no norm", "C": "Pre-LN", "D": "Post-LN"}

_FLAT = "D stays at the height at which a net ignores its input: the large first steps have spoiled something."
_FALLS = "C falls from the first steps on: nothing in it needs small steps first."
_LATE = "A waits, then falls: it does as soon as its steps have been small for a while."
_ABOVE = "B is far above a guess from letter counts. A stream that nothing normalizes can do that, on 12 layers."

_CURVE_CAUSES = [
    *(("A", wrong, _LATE) for wrong in ("Pre-LN", "Post-LN", "no norm")),
    *(("B", wrong, _ABOVE) for wrong in ("Pre-LN", "Post-LN", "Post-LN + warm-up")),
    *(("C", wrong, _FALLS) for wrong in ("Post-LN + warm-up", "Post-LN", "no norm")),
    *(("D", wrong, _FLAT) for wrong in ("Pre-LN", "Post-LN + warm-up", "no norm")),
]


def four_curves(answer):
    """Check a dict: which of four settings made which of four loss curves."""
    values(answer, "four_curves", _CURVES, _CURVE_CAUSES)


# ---- The clinic ------------------------------------------------------------------------------------------------------


def _standard(scale=1.0, mean=0.0, shape=(5, 8), seed=10):
    return F.layer_norm(draw(seed, *shape), shape[-1:], eps=0.0) * scale + mean


def _normalized(
    mean=lambda h: h.mean(-1),
    var=lambda h: h.var(-1, correction=0),
    gap=torch.abs,
    every=torch.all,
    bound=lambda tolerance: tolerance,
    use=("mean", "var"),
):
    def already_normalized(h, tolerance=0.01):
        near = []
        if "mean" in use:
            near.append(every(gap(mean(h)) < bound(tolerance)))
        if "var" in use:
            near.append(every(gap(var(h) - 1) < bound(tolerance)))
        return all(map(bool, near))

    return already_normalized


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


_ROWS = torch.tensor([0.5, -0.5, 0.5, -0.5], dtype=torch.float64).unsqueeze(-1)
_SPREADS = torch.tensor([1.5, 0.5, 1.5, 0.5], dtype=torch.float64).sqrt().unsqueeze(-1)


_ONE = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64).unsqueeze(-1)


def _one_row_off():
    h = _standard(shape=(4, 6), seed=12)
    h[2] = 3 * h[2] + 1
    return h


_ASKED = [
    _asked("rows of 8 with mean 0 and variance 1", _standard()),
    _asked("rows of 4 with mean 0 and biased variance 1", _standard(shape=(2, 3, 4), seed=11)),
    _asked("rows with mean 0 and variance 4", _standard(2.0)),
    _asked("rows with mean 0 and variance 0.25", _standard(0.5)),
    _asked("rows with mean 0.5 and variance 1", _standard(mean=0.5)),
    _asked("rows with mean -0.5 and variance 1", _standard(mean=-0.5)),
    _asked("rows with means 0.5, -0.5, 0.5, -0.5 and variance 1", _standard(shape=(4, 6)) + _ROWS),
    _asked("rows with mean 0 whose variances differ and average 1", _standard(shape=(4, 6)) * _SPREADS),
    _asked("four rows, one of which is off", _one_row_off()),
    _asked(
        "four rows with variance 1, one of which has mean 0.03 and the others 0", _standard(shape=(4, 6)) + 0.03 * _ONE
    ),
    _asked(
        "four rows with mean 0, one of which has variance 1.03 and the others 1",
        _standard(shape=(4, 6)) * (1 + 0.03 * _ONE).sqrt(),
    ),
    _asked("rows with mean 0 and variance 1.015", _standard(1.015**0.5)),
    _asked("columns, not rows, with mean 0 and variance 1", _standard(shape=(8, 5)).T),
    _asked("rows with mean 0.1 and variance 1, tolerance=0.2", _standard(mean=0.1), tolerance=0.2),
    _asked("rows behind RMSNorm", F.rms_norm(draw(13, 4, 6, mean=1.0), (6,))),
    _asked("rows of variance 0.01 behind LayerNorm with eps 1e-5", F.layer_norm(draw(14, 4, 64, scale=0.1), (64,))),
    _asked("float32 rows behind LayerNorm", F.layer_norm(draw(15, 4, 6).float(), (6,))),
]

_ASKED_MISTAKES = [
    Mistake("the variance is not looked at: rows with mean 0 can have any.", _normalized(use=("mean",))),
    Mistake("the mean is not looked at: RMSNorm's rows have another.", _normalized(use=("var",))),
    Mistake(
        "the variance divides by D - 1. LayerNorm divides by D: var(-1, correction=0).",
        _normalized(var=lambda h: h.var(-1)),
    ),
    Mistake(
        "mean and variance are those of all numbers together. LayerNorm makes each row's 0 and 1: take them over "
        "the last axis.",
        _normalized(mean=lambda h: h.mean(), var=lambda h: h.var(correction=0)),
    ),
    Mistake(
        "mean and variance are taken over the first axis. LayerNorm takes them over the last.",
        _normalized(mean=lambda h: h.mean(0), var=lambda h: h.var(0, correction=0)),
    ),
    Mistake(
        "one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        _normalized(every=torch.any),
    ),
    Mistake("the distances are compared without abs(), so what is too small passes.", _normalized(gap=lambda t: t)),
    Mistake("the argument tolerance is not used.", _normalized(bound=lambda tolerance: 0.01)),
    Mistake(
        "the argument tolerance is not used, and yours is too small for a layer with an eps.",
        _normalized(bound=lambda tolerance: 1e-6),
    ),
    Mistake(
        "only the means of all rows are averaged, and offsets of two signs cancel. Each row counts: abs() first.",
        _normalized(mean=lambda h: h.mean(), var=lambda h: h.var(-1, correction=0)),
    ),
    Mistake(
        "one of the two conditions is enough for you. Both have to hold: and, not or.",
        lambda h, tolerance=0.01: _normalized(use=("mean",))(h, tolerance) or _normalized(use=("var",))(h, tolerance),
    ),
    Mistake(
        "the standard deviation is compared with 1. The tolerance is for the variance, its square.",
        _normalized(var=lambda h: h.std(-1, correction=0)),
    ),
    Mistake(
        "the standard deviation is compared with 1, and it divides by D - 1. The tolerance is for the variance: "
        "var(-1, correction=0).",
        _normalized(var=lambda h: h.std(-1)),
    ),
    Mistake(
        "the distances of all rows are averaged, so one bad row passes. Each row has to be within the tolerance.",
        _normalized(every=lambda near: near, gap=lambda t: t.abs().mean()),
    ),
    Mistake(
        "the variances of all rows are averaged. Each row has to be within the tolerance.",
        _normalized(var=lambda h: h.var(-1, correction=0).mean()),
    ),
    Mistake(
        "mean and variance are taken over the second axis. LayerNorm takes them over the last, whatever the number "
        "of axes.",
        _normalized(mean=lambda h: h.mean(1), var=lambda h: h.var(1, correction=0)),
    ),
    Mistake(
        "only the mean's distance is taken with abs(). Take the variance's so, too: too small is not normalized.",
        lambda h, tolerance=0.01: (
            _normalized(use=("mean",))(h, tolerance) and _normalized(gap=lambda t: t, use=("var",))(h, tolerance)
        ),
    ),
    Mistake(
        "the mean is compared without abs(), so negative ones pass.",
        lambda h, tolerance=0.01: (
            _normalized(gap=lambda t: t, use=("mean",))(h, tolerance) and _normalized(use=("var",))(h, tolerance)
        ),
    ),
    Mistake(
        "for the mean one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        lambda h, tolerance=0.01: (
            _normalized(every=torch.any, use=("mean",))(h, tolerance) and _normalized(use=("var",))(h, tolerance)
        ),
    ),
    Mistake(
        "for the variance one good row is enough for you. All rows have to be normalized: .all(), not .any().",
        lambda h, tolerance=0.01: (
            _normalized(every=torch.any, use=("var",))(h, tolerance) and _normalized(use=("mean",))(h, tolerance)
        ),
    ),
    Mistake(
        "the variance is compared with 0. LayerNorm makes it 1.", _normalized(var=lambda h: 1 + h.var(-1, correction=0))
    ),
    Mistake(
        "the mean square is looked at, and not the mean: RMSNorm's rows pass.",
        _normalized(var=lambda h: h.square().mean(-1), use=("var",)),
    ),
    Mistake(
        "the answer is turned round: True means normalized already.",
        lambda h, tolerance=0.01: not _normalized()(h, tolerance),
    ),
]


def already_normalized(answer):
    """Check a function h (..., D), tolerance=0.01 -> whether each row has mean 0 and variance 1."""
    examine(
        answer,
        "already_normalized",
        _ASKED,
        _normalized(),
        _ASKED_MISTAKES,
        tried="rows, columns, one bad row, RMSNorm, eps, two dtypes",
    )

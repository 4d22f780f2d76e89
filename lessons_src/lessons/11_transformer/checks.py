"""Checks of lesson 11."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.transformer import CharGPT
from lessonkit.check.declare import (
    Probe,
    as_python,
    draw,
    exercise,
    filled,
    in_float64,
    quiz,
    raised,
)

# ---- The block


def _block(x, attend, mlp, norm1, norm2):
    h = x + attend(norm1(x))
    return h + mlp(norm2(h))


_PARTS = (  # attend, mlp, norm1, norm2
    lambda x: x.cumsum(-2).sin(),
    lambda x: 2 * x.tanh() + 0.3,
    lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1),
    lambda x: 1.7 * F.layer_norm(x, x.shape[-1:]) - 0.4,
)
pre_ln = exercise(
    _block,
    ("a (2, 3, 4) tensor", draw(1, 2, 3, 4), *_PARTS),
    ("functions that hand on what they get", draw(2, 2, 3, 4), *[lambda x: x] * 4),
    takes={"x": "B T C"},
    use=lambda answer, sizes: lambda x: answer(x, *_PARTS),
    sizes={"B": (2, 1, 17), "T": (3, 1, 40), "C": (4, 1, 300)},
    values=("ordinary", "offset", "small", "constant"),
    reference=in_float64(_block),
    tried="many shapes, two dtypes, gradients",
    wrong="""
    # that is Post-LN: the norms come after the sums. In Pre-LN they come before the functions.
    h = norm1(x + attend(x))
    return norm2(h + mlp(h))

    # the skip starts after the norm, so the stream itself is normalized. | In Pre-LN only what goes into the function is: x + attend(norm1(x)).
    h = norm1(x) + attend(norm1(x))
    return norm2(h) + mlp(norm2(h))
    # or
    h = norm1(x) + attend(norm1(x))

    # the skip around the attention is missing.
    h = attend(norm1(x))

    # the skip around the MLP is missing.
    return mlp(norm2(h))

    # the norm before the attention is missing.
    h = x + attend(x)

    # the norm before the MLP is missing.
    return h + mlp(h)

    # the norms are on the outputs of the functions. In Pre-LN they are on the inputs.
    h = x + norm1(attend(x))
    return h + norm2(mlp(h))

    # the second half is Post-LN, the first is Pre-LN.
    return norm2(h + mlp(h))

    # the MLP starts from the block's input: attention and MLP are in parallel. | Give it the sum after the attention.
    return h + mlp(norm2(x))

    # the second skip starts at the block's input, and not at the sum after the attention. | Overwrite x, or use that sum twice.
    return x + mlp(norm2(h))

    # the MLP gets what the attention returns, without the skip. | Give it the sum after the attention.
    return h + mlp(norm2(attend(norm1(x))))

    # norm1 is used twice, and norm2 never.
    return h + mlp(norm1(h))

    # norm1 and norm2 are swapped: norm1 belongs to the attention.
    h = x + attend(norm2(x))
    return h + mlp(norm1(h))
    """,
)

# ---- On paper

divided_by = quiz(
    tolerance=0.006,
    post_all=(
        729,
        {
            512: "That leaves out the rows that were there before. The first sum has 1 + 8, and so has each after it.",
            3: "That is the first norm. There are six, one after the other.",
            6561: "That is eight norms. How many branches are there?",
            18: "That adds six times 3. Each norm divides what the norm before it has left.",
        },
    ),
    pre_stream=(
        49,
        {
            9: "That is the stream after one branch. Six of them add.",
            48: "That is what the branches add. The stream was there before.",
            54: "That counts the stream once for each branch. It is there once, and the six branches add.",
        },
    ),
    pre_all=(
        7,
        {
            48**0.5: "That leaves out what was in the stream before the branches.",
            729: "In Pre-LN the norms on the branches do not touch the stream. Only the final one divides.",
        },
    ),
    post_small=(
        1.1**6,
        {
            1.8: "That is near. Type two decimals.",
            1.1: "That is one norm. There are six, one after the other.",
            1.5: "1.5 is near the root of 1 + 6 · 0.21: one norm after all. In Post-LN each branch has its own.",
        },
    ),
)

# ---- Scaled branches


def _scaled(model):
    n = 2 * len(model.blocks)
    factor = 1 / math.sqrt(n)
    with torch.no_grad():
        for block in model.blocks:
            attention, mlp = block.attend.out.weight, block.mlp[2].weight
            attention *= factor
            mlp *= factor


def _model(layers, place):
    """Return a Probe: the smallest and largest factor by which the answer multiplies numbers of a CharGPT."""

    def run(answer):
        model = CharGPT(symbols=5, context=4, width=4, heads=2, layers=layers, place=place)
        model.readout = nn.Linear(4, 4)  # its name ends as that of a last layer does
        filled(model, layers)
        held = dict(model.named_parameters())
        before = {name: (p.data_ptr(), p.detach().clone()) for name, p in held.items()}
        answer(model)
        now = dict(model.named_parameters())
        own = [p is held.get(n) and p.data_ptr() == before[n][0] for n, p in now.items()]
        same = all(own) and len(now) == len(held)
        factors = {}
        for name, (_, numbers) in before.items():
            inside = name.startswith("blocks")
            part = name.split(".", 2)[2] if inside else "anything outside the blocks"
            factor = (now.get(name, held[name]).detach() / numbers).flatten()
            factors.setdefault(f"the factor on {part}", []).append(factor)
        return {
            "the parameters": "those handed in" if same else "not those handed in",
            **{what: torch.stack(torch.cat(all_).aminmax()) for what, all_ in factors.items()},
        }

    return Probe(f"a model of {layers} blocks, place={place!r}", run, tolerance=1e-5)


scale_branches = exercise(
    _scaled,
    _model(2, "pre"),
    _model(12, None),
    tried="2 and 12 blocks: every weight and bias",
    wrong="""
    # the factor is 1/n. That would be right if the rows were all alike; of independent ones the mean squares add.
    factor = 1 / n

    # the factor is 1 / number of blocks. | Count the branches, two a block. And a factor c on a row multiplies its mean square by c * c.
    factor = 1 / len(model.blocks)

    # the factor is that of the number of blocks. A block has two branches. | n = 2 * len(model.blocks).
    n = len(model.blocks)

    # the weights are new parameters. An optimizer that holds the old ones does not know them. | Change the old ones in place, with /= or *=.
    mlp = setattr(block.mlp[2], "weight", nn.Parameter(mlp * factor))

    # only the branch of the attention is scaled. | The MLP's last linear layer, block.mlp[2], is the other branch.
    mlp *= 1

    # only the branch of the MLP is scaled. | The attention's last linear layer, block.attend.out, is the other branch.
    attention *= 1

    # the weights are changed while gradients are recorded. | Put the loop under torch.no_grad().
    with torch.enable_grad():
        mlp *= factor

    # nothing changes in the model: a division or a copy makes new tensors. | Change the weights in place, with /= or *=.
    attention = attention * factor
    mlp = mlp * factor

    # the biases are scaled, too. Only the weights are.
    mlp = (block.mlp[2].bias.mul_(factor), block.attend.out.bias.mul_(factor), mlp.mul_(factor))
    """,
)

# ---- The final norm


def _encoder(width, heads, layers, norm_first):
    final = nn.LayerNorm(width) if norm_first else None
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    return nn.TransformerEncoder(layer, layers, norm=final, enable_nested_tensor=False)


def _built(width, heads, layers, norm_first):
    """Return a Probe: the number of norms, of parameters, and the output with random weights, gains and biases."""

    def run(answer):
        model = answer(width, heads, layers, norm_first)
        if not isinstance(model, nn.Module):
            return {"the model": f"not a module, but {type(model).__name__}"}
        seen = {
            "the number of norms": sum("Norm" in str(type(m).__mro__) for m in model.modules())
        }
        try:
            output = filled(model, 9)(draw(9, 2, 3, width).float()).detach()
        except Exception as error:
            output = raised(error)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        return seen | {"the output": output, "the number of trained parameters": trained}

    label = f"encoder({width}, {heads}, {layers}, norm_first={norm_first})"
    return Probe(label, run, tolerance=1e-4)


encoder = exercise(
    _encoder,
    _built(6, 2, 9, True),
    _built(8, 2, 2, False),
    tried="with and without norm_first, 2 and 9 layers: norms, output, parameters",
    wrong="""
    # under norm_first the stack needs a final norm, and nn.TransformerEncoder adds none by itself. | nn.LayerNorm(width).
    final = None

    # the final norm is always there. A Post-LN block already ends in a norm. | Without norm_first it is None.
    final = nn.LayerNorm(width)

    # the final norm comes without norm_first, and is missing with it.
    final = None if norm_first else nn.LayerNorm(width)

    # final is the flag norm_first. It is a module, nn.LayerNorm(width), or None.
    final = norm_first

    # the final norm's width is not the model's. It normalizes the features of a token. | nn.LayerNorm(width).
    final = nn.LayerNorm(4 * width) if norm_first else None
    # or
    final = nn.LayerNorm(8) if norm_first else None

    # without norm_first final is False, which is no module. | It must be None there: write x if norm_first else None.
    final = norm_first and nn.LayerNorm(width)

    # that is the class nn.LayerNorm. A norm is made with a width. | nn.LayerNorm(width).
    final = nn.LayerNorm if norm_first else None
    """,
)

# ---- The clinic


def _normalized(h, tolerance=0.01):
    mean = h.mean(-1)
    var = h.var(-1, correction=0)
    of_mean = (mean.abs() < tolerance).all()
    of_var = ((var - 1).abs() < tolerance).all()
    return bool(of_mean and of_var)


def _asked(label, h, **options):
    """Return a Probe: what an answer says of rows h, (..., D), of a net. A tensor's or NumPy's truth value is one."""

    def run(answer):
        mine = h.clone().requires_grad_().clone()
        result = as_python(answer(mine, **options))
        return {"h after the call": mine.detach(), "the result": result}

    return Probe(label, run)


def _standard(scale=1.0, mean=0.0, shape=(5, 8), seed=10):
    return F.layer_norm(draw(seed, *shape), shape[-1:], eps=0.0) * scale + mean


def _each(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


_FOUR = _standard(shape=(4, 6))
_TENTH = _standard(mean=0.1)
_SIGNS = draw(17, 3, 8).argsort(-1).remainder(2) * 2.0 - 1  # as many 1 as -1 in each row

already_normalized = exercise(
    _normalized,
    _asked("rows of 8 with mean 0 and variance 1", _standard()),
    _asked("rows with mean -0.5 and variance 1", _standard(mean=-0.5)),
    _asked(
        "a hundred rows, the last of which is off",
        _standard(shape=(100, 6)) * _each(*[1] * 99, 3),
    ),
    _asked("a row with mean 0 and variance 1", _standard(shape=(8,))),
    _asked(
        "four rows with variance 1, one with mean 0.03, the others 0",
        _FOUR + _each(0, 0, 0.03, 0),
    ),
    _asked(
        "samples that are normalized over both axes together",
        _standard(shape=(2, 12), seed=12).view(2, 3, 4),
    ),
    _asked("rows of nan", _FOUR * math.nan),
    _asked("rows with mean 0.1 and variance 1, tolerance=0.95", _TENTH, tolerance=0.95),
    _asked("rows with mean 0.1 and variance 1, tolerance=0.2", _TENTH, tolerance=0.2),
    _asked(
        "rows with mean 0.19 and variance 1.18, tolerance=0.2",
        _standard(1.18**0.5, mean=0.19),
        tolerance=0.2,
    ),
    _asked("rows of 1 and -1, stretched to variance 1.015", _SIGNS * 1.015**0.5),
    tried="rows of several shapes, one bad row, nan, tolerances",
    wrong="""
    # the variance is not looked at: rows with mean 0 can have any.
    return bool(of_mean)

    # the mean is not looked at: after RMSNorm it can be anything.
    return bool(of_var)

    # the variance divides by D - 1. LayerNorm divides by D. | var(-1, correction=0).
    var = h.var(-1)
    # or
    var = h.std(-1)

    # h is compared with its LayerNorm, number by number. The tolerance is for each row's mean and variance.
    of_mean = of_var = torch.allclose(h, F.layer_norm(h, h.shape[-1:]), atol=tolerance)

    # mean and variance are those of all numbers together. | Take them over the last axis.
    mean, var = h.mean(), h.var(correction=0)

    # mean and variance are taken over all axes but the first. A row lies along the last one.
    mean, var = h.flatten(1).mean(-1), h.flatten(1).var(-1, correction=0)

    # mean and variance are taken over the first or second axis. LayerNorm takes them over the last.
    mean, var = h.mean(0), h.var(0, correction=0)
    # or
    mean, var = h.mean(1), h.var(1, correction=0)

    # one good row is enough for you. All rows have to be normalized. | .all(), not .any().
    of_mean = (mean.abs() < tolerance).any()
    of_var = ((var - 1).abs() < tolerance).any()

    # the distances are compared without abs(), so what is too small passes.
    of_mean = (mean < tolerance).all()
    of_var = (var - 1 < tolerance).all()

    # the argument tolerance is not used.
    of_mean = (mean.abs() < 0.01).all()
    of_var = ((var - 1).abs() < 0.01).all()

    # abs() comes before the mean, and the mean of |h| is not 0. | Take the mean first, then its abs().
    mean = h.abs().mean(-1)

    # the standard deviation is compared with 1. The tolerance is for the variance, its square.
    var = h.std(-1, correction=0)

    # the distances of all rows are averaged, so one bad row passes.
    of_mean = mean.abs().mean() < tolerance
    of_var = (var - 1).abs().mean() < tolerance

    # the sum of each row is compared with 0, and not its mean.
    mean = h.sum(-1)

    # the mean square is compared with 1. | The variance is taken around the mean.
    var = h.square().mean(-1)
    """,
)

"""Answers to the exercises of lesson 11."""

import torch
from torch import nn

from fromscratch import LayerNorm

# 11.1 and 11.2


def block_two_lines(x, attend, mlp, norm1, norm2):
    x = x + attend(norm1(x))
    return x + mlp(norm2(x))


def block_named(x, attend, mlp, norm1, norm2):
    h = attend(norm1(x)) + x
    out = h + mlp(norm2(h))
    return out


def block_loop(x, attend, mlp, norm1, norm2):
    for function, norm in ((attend, norm1), (mlp, norm2)):
        branch = function(norm(x))
        x = torch.add(x, branch)
    return x


def block_post(x, attend, mlp, norm1, norm2):
    x = norm1(x + attend(x))
    x = norm2(x + mlp(x))
    return x


def block_stream(x, attend, mlp, norm1, norm2):
    x = norm1(x)
    x = x + attend(x)
    x = norm2(x)
    return x + mlp(x)


def block_long_skip(x, attend, mlp, norm1, norm2):
    h = x + attend(norm1(x))
    return x + mlp(norm2(h))


def block_in_place(x, attend, mlp, norm1, norm2):
    x += attend(norm1(x))
    x += mlp(norm2(x))
    return x


def block_detached(x, attend, mlp, norm1, norm2):
    x = x + attend(norm1(x).detach())
    return x + mlp(norm2(x).detach())


def own(x):
    return nn.functional.layer_norm(x, x.shape[-1:])


def halves(first, second=None):
    second = second or first
    return lambda x, attend, mlp, norm1, norm2: second(first(x, attend, norm1), mlp, norm2)


def pre(x, f, n):
    return x + f(n(x))


def post(x, f, n):
    return n(x + f(x))


def bare(x, f, n):
    return x + f(x)


def behind(x, f, n):
    return x + n(f(x))


def no_skip(x, f, n):
    return f(n(x))


def stream(x, f, n):
    return n(x) + f(n(x))


def half_if(x, function, norm, place):
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))
    return x + function(x)


def half_identity(x, function, norm, place):
    before = norm if place == "pre" else nn.Identity()
    after = norm if place == "post" else nn.Identity()
    return after(x + function(before(x)))


def half_steps(x, function, norm, place):
    branch = norm(x) if place == "pre" else x
    y = x + function(branch)
    if place == "post":
        y = norm(y)
    return y


def half_match(x, function, norm, place):
    match place:
        case "pre":
            y = function(norm(x)) + x
        case "post":
            y = norm(function(x) + x)
        case None:
            y = function(x) + x
    return y


def half(for_pre=pre, for_post=post, for_none=bare):
    return lambda x, function, norm, place: {"pre": for_pre, "post": for_post}.get(place, for_none)(x, function, norm)


def half_else_post(x, function, norm, place):
    if place == "pre":
        return x + function(norm(x))
    else:
        return norm(x + function(x))


def half_none_is_a_string(x, function, norm, place):
    if place == "None":
        return x + function(x)
    if place == "post":
        return norm(x + function(x))
    return x + function(norm(x))


def half_nothing_for_none(x, function, norm, place):
    if place == "pre":
        return x + function(norm(x))
    if place == "post":
        return norm(x + function(x))


def half_capital(x, function, norm, place):
    return half(pre, post)(x, function, norm, {"Pre": "pre", "Post": "post"}.get(place))


# 11.4


def layer_of(width, heads, norm_first):
    return nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=norm_first)


def stack(final, count=lambda layers: layers):
    def encoder(width, heads, layers, norm_first):
        layer = layer_of(width, heads, norm_first)
        norm = final(width, norm_first)
        return nn.TransformerEncoder(layer, count(layers), norm=norm, enable_nested_tensor=False)

    return encoder


def encoder_if(width, heads, layers, norm_first):
    layer = layer_of(width, heads, norm_first)
    if norm_first:
        return nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def encoder_set_later(width, heads, layers, norm_first):
    model = nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, enable_nested_tensor=False)
    if norm_first:
        model.norm = nn.LayerNorm(width)
    return model


def encoder_sequential(width, heads, layers, norm_first):
    model = nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, enable_nested_tensor=False)
    return nn.Sequential(model, nn.LayerNorm(width)) if norm_first else model


def encoder_not_returned(width, heads, layers, norm_first):
    nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, nn.LayerNorm(width) if norm_first else None)


def encoder_class_as_norm(width, heads, layers, norm_first):
    norm = nn.LayerNorm if norm_first else None
    return nn.TransformerEncoder(layer_of(width, heads, norm_first), layers, norm=norm, enable_nested_tensor=False)


# 11.6


def both(h, tolerance=0.01):
    mean, var = h.mean(-1), h.var(-1, correction=0)
    return bool((mean.abs() < tolerance).all() and ((var - 1).abs() < tolerance).all())


def by_max(h, tolerance=0.01):
    c = h - h.mean(-1, keepdim=True)
    off = max(h.mean(-1).abs().max().item(), (c.square().mean(-1) - 1).abs().max().item())
    return off < tolerance


def by_close(h, tolerance=0.01):
    var, mean = torch.var_mean(h, -1, correction=0)
    zero, one = torch.zeros_like(mean), torch.ones_like(var)
    return torch.allclose(mean, zero, atol=tolerance, rtol=0) and torch.allclose(var, one, atol=tolerance, rtol=0)


def as_a_tensor(h, tolerance=0.01):
    good = (h.mean(-1).abs() < tolerance) & ((h.std(-1, correction=0) ** 2 - 1).abs() < tolerance)
    return good.all()


def asked(mean=lambda h: h.mean(-1), var=lambda h: h.var(-1, correction=0), near=lambda t, tol: (t.abs() < tol).all()):
    return lambda h, tolerance=0.01: bool(near(mean(h), tolerance) and near(var(h) - 1, tolerance))


CURVES = {"A": "Post-LN + warm-up", "B": "no norm", "C": "Pre-LN", "D": "Post-LN"}
COUNTS = {"GPT-2 small": 25, "BERT base": 25, "Llama 7B": 65, "the Transformer of 2017": 30}

BANK = {
    "pre_ln": {
        "right": {"two lines": block_two_lines, "a name of its own": block_named, "a loop": block_loop},
        "wrong": {
            "Post-LN": (block_post, "that is Post-LN"),
            "the norm in the stream": (block_stream, "the skip starts behind the norm"),
            "the norm in the stream, in one line": (halves(stream), "the skip starts behind the norm"),
            "the long skip": (block_long_skip, "the second skip starts at the block's input"),
            "in place": (block_in_place, "changed its input"),
            "detached": (block_detached, "gradient of x"),
            "no norms": (halves(bare), "no norm is used"),
            "no skips": (halves(no_skip), "both skips are missing"),
            "no skip around the MLP": (halves(pre, no_skip), "skip around the MLP"),
            "no skip around the attention": (halves(no_skip, pre), "skip around the attention"),
            "no norm before the MLP": (halves(pre, bare), "norm before the MLP is missing"),
            "no norm before the attention": (halves(bare, pre), "norm before the attention is missing"),
            "norm of the branch": (halves(behind), "on the outputs of the functions"),
            "before and behind": (halves(lambda x, f, n: x + n(f(n(x)))), "on the input and on the output"),
            "before and at the end": (halves(lambda x, f, n: n(x + f(n(x)))), "behind the sum"),
            "half Pre, half Post": (halves(pre, post), "second half is Post-LN"),
            "in parallel": (lambda x, attend, mlp, norm1, norm2: x + attend(norm1(x)) + mlp(norm2(x)), "in parallel"),
            "norm1 twice": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, attend, mlp, norm1, norm1),
                "norm1 is used twice",
            ),
            "norm2 twice": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, attend, mlp, norm2, norm2),
                "norm2 is used twice",
            ),
            "norms swapped": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, attend, mlp, norm2, norm1),
                "swapped",
            ),
            "MLP first": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, mlp, attend, norm2, norm1),
                "attention, then MLP",
            ),
            "MLP first, norms in order": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, mlp, attend, norm1, norm2),
                "attention, then MLP",
            ),
            "attention only": (lambda x, attend, mlp, norm1, norm2: x + attend(norm1(x)), "MLP half is missing"),
            "first half Post": (halves(post, pre), "first half is Post-LN"),
            "first half in the stream": (halves(stream, pre), "the first skip starts behind the norm"),
            "second half in the stream": (halves(pre, stream), "the second skip starts behind the norm"),
            "norm1 behind": (halves(behind, pre), "norm1 stands on the output"),
            "norm2 behind": (halves(pre, behind), "norm2 stands on the output"),
            "norm2 before and behind": (halves(pre, lambda x, f, n: x + n(f(n(x)))), "norm2 is used twice, on"),
            "one long skip": (lambda x, attend, mlp, norm1, norm2: x + mlp(norm2(attend(norm1(x)))), "Give the sum"),
            "x twice": (
                lambda x, attend, mlp, norm1, norm2: x + block_two_lines(x, attend, mlp, norm1, norm2),
                "x is added twice",
            ),
            "norms of its own": (
                lambda x, attend, mlp, norm1, norm2: block_two_lines(x, attend, mlp, own, own),
                "call norm1 and norm2",
            ),
            "MLP only": (lambda x, attend, mlp, norm1, norm2: x + mlp(norm2(x)), "attention half is missing"),
        },
    },
    "place_norm": {
        "right": {
            "three branches": half_if,
            "before and after": half_identity,
            "in steps": half_steps,
            "match": half_match,
        },
        "wrong": {
            "swapped": (half(post, pre), "swapped"),
            "else is post": (half_else_post, "there is no norm at all"),
            "else is pre": (half_none_is_a_string, "there is no norm at all"),
            "nothing for None": (half_nothing_for_none, "returned nothing"),
            "None without a skip": (half(for_none=lambda x, f, n: f(x)), "the skip stays"),
            "None is the identity": (half(for_none=lambda x, f, n: x), "the function is left out"),
            "post on the branch": (half(for_post=behind), "behind the sum, norm(x + function(x))"),
            "post without a skip": (half(for_post=lambda x, f, n: n(f(x))), 'with "post" the skip is missing'),
            "post with a norm before, too": (half(for_post=lambda x, f, n: n(x + f(n(x)))), "before the function, too"),
            "pre in the stream": (half(stream), "starts behind the norm"),
            "pre without a skip": (half(no_skip), 'with "pre" the skip is missing'),
            "pre and post": (half(lambda x, f, n: n(x + f(n(x)))), "behind the sum, too"),
            "pre behind the function": (half(behind), "on its input"),
            "always pre": (half(pre, pre, pre), "always Pre-LN"),
            "always post": (half(post, post, post), "always Post-LN"),
            "never": (half(bare, bare, bare), "never used"),
            "capital letters": (half_capital, "in small letters"),
            "pre without a skip, norm behind": (
                half(lambda x, f, n: n(f(x))),
                "and the norm stands behind the function",
            ),
            "post on the skip": (half(for_post=lambda x, f, n: n(x) + f(x)), "stands on the skip"),
            "post one by one": (half(for_post=lambda x, f, n: n(x) + n(f(x))), "one by one"),
            "post and x again": (half(for_post=lambda x, f, n: x + n(x + f(x))), "nothing is added behind the norm"),
            "None is the norm": (half(for_none=lambda x, f, n: n(x)), "there is no norm at all"),
            "no skips": (half(no_skip, lambda x, f, n: n(f(x)), lambda x, f, n: f(x)), "all skips are missing"),
        },
    },
    "encoder": {
        "right": {
            "an if in the argument": stack(lambda width, first: nn.LayerNorm(width) if first else None),
            "two returns": encoder_if,
            "set later": encoder_set_later,
            "a Sequential": encoder_sequential,
            "the course's LayerNorm": stack(lambda width, first: LayerNorm(width) if first else None),
        },
        "wrong": {
            "no final norm": (stack(lambda width, first: None), "adds none by itself"),
            "always a final norm": (stack(lambda width, first: nn.LayerNorm(width)), "already ends in a norm"),
            "turned round": (stack(lambda width, first: None if first else nn.LayerNorm(width)), "missing with it"),
            "RMSNorm": (stack(lambda width, first: nn.RMSNorm(width) if first else None), "RMSNorm"),
            "one layer": (
                stack(lambda width, first: nn.LayerNorm(width) if first else None, lambda layers: 1),
                "one block only",
            ),
            "no gain": (
                stack(lambda width, first: nn.LayerNorm(width, elementwise_affine=False) if first else None),
                "no gain and bias",
            ),
            "no bias": (stack(lambda width, first: nn.LayerNorm(width, bias=False) if first else None), "has no bias"),
            "too wide": (stack(lambda width, first: nn.LayerNorm(4 * width) if first else None), "final norm's width"),
            "as wide as the heads": (stack(lambda width, first: nn.LayerNorm(2) if first else None), "number of heads"),
            "not returned": (encoder_not_returned, "nothing"),
            "the class, not a norm": (encoder_class_as_norm, "On encoder(8, 2, 3, norm_first=True)"),
        },
    },
    "norm_counts": {
        "right": {"counted": COUNTS},
        "wrong": {
            "no final norm": (COUNTS | {"GPT-2 small": 24}, "Pre-LN needs a final norm"),
            "one norm a block": (COUNTS | {"GPT-2 small": 13}, "two functions"),
            "BERT without its embeddings": (COUNTS | {"BERT base": 24}, "the embeddings"),
            "BERT with a final norm": (COUNTS | {"BERT base": 26}, "there is no final one"),
            "Llama without the final norm": (COUNTS | {"Llama 7B": 64}, "the final one"),
            "Llama with three a block": (COUNTS | {"Llama 7B": 97}, "the norm before the MLP"),
            "two in a decoder layer": (COUNTS | {"the Transformer of 2017": 24}, "three functions"),
            "PyTorch's final norms": (COUNTS | {"the Transformer of 2017": 32}, "nn.Transformer adds two"),
            "dots": (COUNTS | {"BERT base": ...}, "three dots"),
        },
    },
    "four_curves": {
        "right": {"read": CURVES},
        "wrong": {
            "Pre and warm-up swapped": (CURVES | {"A": "Pre-LN", "C": "Post-LN + warm-up"}, "A waits, then falls"),
            "warm-up does not help": (CURVES | {"A": "Post-LN", "D": "Post-LN + warm-up"}, "A waits, then falls"),
            "Post-LN diverges": (CURVES | {"B": "Post-LN", "D": "no norm"}, "far above a guess"),
            "Pre-LN is flat": (CURVES | {"C": "Post-LN", "D": "Pre-LN"}, "falls from the first steps on"),
            "only D wrong": (CURVES | {"D": "no norm"}, "ignores its input"),
            "a name that is none": (CURVES | {"D": "LayerNorm"}, "not right"),
        },
    },
    "already_normalized": {
        "right": {"two conditions": both, "the largest": by_max, "allclose": by_close, "a tensor": as_a_tensor},
        "wrong": {
            "mean only": (asked(var=lambda h: torch.ones(1)), "the variance is not looked at"),
            "variance only": (asked(mean=lambda h: torch.zeros(1)), "the mean is not looked at"),
            "unbiased": (asked(var=lambda h: h.var(-1)), "D - 1"),
            "all numbers together": (asked(lambda h: h.mean(), lambda h: h.var(correction=0)), "each row"),
            "means averaged": (asked(lambda h: h.mean()), "offsets of two signs cancel"),
            "the first axis": (asked(lambda h: h.mean(0), lambda h: h.var(0, correction=0)), "the first axis"),
            "any": (asked(near=lambda t, tolerance: (t.abs() < tolerance).any()), "not .any()"),
            "without abs": (asked(near=lambda t, tolerance: (t < tolerance).all()), "without abs()"),
            "tolerance not used": (asked(near=lambda t, tolerance: (t.abs() < 0.01).all()), "tolerance is not used"),
            "a tiny tolerance": (asked(near=lambda t, tolerance: (t.abs() < 1e-6).all()), "too small for a layer"),
            "mean square": (
                lambda h, tolerance=0.01: bool(((h.square().mean(-1) - 1).abs() < tolerance).all()),
                "RMSNorm's rows pass",
            ),
            "or": (
                lambda h, tolerance=0.01: bool(
                    (h.mean(-1).abs() < tolerance).all() or ((h.var(-1, correction=0) - 1).abs() < tolerance).all()
                ),
                "not or",
            ),
            "the standard deviation": (asked(var=lambda h: h.std(-1, correction=0)), "for the variance, its square"),
            "the unbiased standard deviation": (asked(var=lambda h: h.std(-1)), "divides by D - 1"),
            "distances averaged": (asked(near=lambda t, tolerance: t.abs().mean() < tolerance), "one bad row passes"),
            "variances averaged": (asked(var=lambda h: h.var(-1, correction=0).mean()), "the variances of all rows"),
            "the second axis": (asked(lambda h: h.mean(1), lambda h: h.var(1, correction=0)), "the second axis"),
            "abs on the mean only": (
                lambda h, tolerance=0.01: bool(
                    (h.mean(-1).abs() < tolerance).all() and (h.var(-1, correction=0) - 1 < tolerance).all()
                ),
                "only the mean's",
            ),
            "abs on the variance only": (
                lambda h, tolerance=0.01: bool(
                    (h.mean(-1) < tolerance).all() and ((h.var(-1, correction=0) - 1).abs() < tolerance).all()
                ),
                "negative ones pass",
            ),
            "any mean": (
                lambda h, tolerance=0.01: bool(
                    (h.mean(-1).abs() < tolerance).any() and ((h.var(-1, correction=0) - 1).abs() < tolerance).all()
                ),
                "for the mean one good row",
            ),
            "any variance": (
                lambda h, tolerance=0.01: bool(
                    (h.mean(-1).abs() < tolerance).all() and ((h.var(-1, correction=0) - 1).abs() < tolerance).any()
                ),
                "for the variance one good row",
            ),
            "variance 0": (asked(var=lambda h: 1 + h.var(-1, correction=0)), "compared with 0"),
            "turned round": (lambda h, tolerance=0.01: not both(h, tolerance), "turned round"),
            "a row of answers": (lambda h, tolerance=0.01: h.mean(-1).abs() < tolerance, "On rows of 8"),
            "exactly": (
                lambda h, tolerance=0.01: bool((h.mean(-1) == 0).all() and (h.var(-1, correction=0) == 1).all()),
                "On rows of 8",
            ),
        },
    },
}

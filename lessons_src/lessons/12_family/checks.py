"""Checks of lesson 12."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: F401  misconceptions call it

from lessonkit.check.declare import (
    Misconception,
    Probe,
    accept,
    announce,
    call_layer,
    draw,
    exercise,
    filled,
    gradients,
    kind_of,
    of_a_layer,
    quiz,
    refuse_dots,
    reject,
)

# -------------------------------------------------------------------------------------------------------- forgets

_FORGETS = {
    "LayerNorm": "abcef",
    "RMSNorm": "bcef",
    "GroupNorm": "ce",
    "InstanceNorm": "cde",
    "BatchNorm": "d",
}
_MISSING = {  # a letter that belongs there: why
    "a": "What is added to all features of a word is in the mean that is subtracted from that word.",
    "b": "Each word is divided by its own size, and that grows by the same factor.",
    "c": "A factor of a whole sentence is a factor of everything that its sizes are made of.",
    "d": "A mean over words is subtracted from each feature, and what all words share is in it.",
    "e": "No mean runs over sentences, so no other sentence has a part in it.",
    "f": "Its statistics are those of one word, and no other word has a part in them.",
}
_LOUD = "so it shows which of them was loud."
_TOO_MANY = {  # (norm, letter that does not belong there): why, or by the letter alone
    "RMSNorm a": "It subtracts no mean. With 2 added, the row 9, 1, 3, 3 came out different.",
    "a": "One mean is subtracted from several words, and what was added differs from word to word.",
    "b": f"Several words are divided by one size, {_LOUD}",
    "BatchNorm c": f"All sentences are divided by one size, {_LOUD}",
    "RMSNorm d": "It subtracts nothing.",
    "d": "What is added differs from feature to feature, and one mean is subtracted from all features.",
    "e": "Its means run over all sentences.",
    "f": "Its means run over all words of a sentence, the later ones as well.",
}


def _why(norm, letter):
    if letter in _FORGETS[norm]:
        return _MISSING[letter]
    return _TOO_MANY.get(f"{norm} {letter}") or _TOO_MANY[letter]


def _letters(value):
    """Return the letters that were typed, in a text or several; other kinds of values have none that is allowed."""
    return (
        set("".join(map(str, value)).lower())
        if isinstance(value, (str, list, tuple, set))
        else {"?"}
    )


def forgets(answer):
    """Check dict(LayerNorm="...", ...): the letters of the changes that each norm does not notice (lesson 12)."""
    announce(
        Misconception(
            _why(norm, letter), _FORGETS | {norm: "".join(sorted(set(right) ^ {letter}))}
        )
        for norm, right in _FORGETS.items()
        for letter in "abcdef"
    )
    refuse_dots(answer, "forgets")
    if not isinstance(answer, dict) or set(answer) != set(_FORGETS):
        is_dict = isinstance(answer, dict)
        other = f"the keys {', '.join(map(str, answer))}" if is_dict else kind_of(answer)
        reject(
            f"check.forgets takes a dictionary with the keys {', '.join(_FORGETS)}, not {other}."
        )
    examples = ("LayerNorm", "InstanceNorm")
    if not any(answer[norm] for norm in _FORGETS if norm not in examples):
        reject("No letter is typed yet: put them between the quotes.")
    for i, (norm, right) in enumerate(_FORGETS.items()):
        so_far = f" Right so far: {', '.join([*_FORGETS][:i])}." if i else ""
        typed = _letters(answer[norm])
        if typed - set("abcdef ,"):
            reject(f"{norm}: {answer[norm]!r} holds more than the letters a to f.{so_far}")
        if typed & set("abcdef") == set("abcdef") - set(right):
            reject(
                f"{norm}: these are the letters that it notices. Asked are the others.{so_far}"
            )
        for letter in "abcdef":
            if (letter in typed) != (letter in right):
                says = "belongs there" if letter in right else "does not belong there"
                reject(f"{norm}: {letter} {says}.{so_far}", _why(norm, letter))
    accept("Right: all five norms.")


# -------------------------------------------------------------------------------------------------- centered_layer

centered_layer = quiz(
    weight=(
        ([2, 2], [-2, -1], [1, 0], [-1, -1]),
        {
            ((4, 4), (-4, -2), (2, 0), (-2, -2)): (
                "That is twice the right matrix. An RMSNorm would not notice, but the row in the stream would be twice as "
                "long."
            ),
            ((0, 0), (-0.5, 0.5), (0.5, -0.5), (0, 0)): (
                "Rows and columns have lost their means. The output changes with each row's mean as well: only the "
                "columns lose theirs."
            ),
            ((1, -1), (0.5, -0.5), (1.5, -1.5), (1, -1)): (
                "Each row has lost its mean. The mean of W h + b is over the outputs, so it is the columns that count."
            ),
            ((3, 1), (-1, -2), (2, -1), (0, -2)): (
                "The whole matrix has lost one number, 2. The second number of h meets the second column alone: each "
                "column has a mean of its own."
            ),
            (
                (5, 3),
                (1, 0),
                (4, 1),
                (2, 0),
            ): "That is W. Its part of the output has a mean, too.",
        },
    ),
    bias=(
        (-1, 1, -2, 2),
        {
            (
                -2,
                0,
                -3,
                1,
            ): "That is b. It is written to the stream as well, so its mean has to go.",
            (
                -6,
                -4,
                -7,
                -3,
            ): "4 is the mean of the whole row, for this h. What is the mean of b?",
            (
                5,
                -3,
                -1,
                -1,
            ): "That is the whole row without its mean, for this h. Only b itself is wanted.",
            (-3, -1, -4, 0): "The mean of b is -1. Taking away -1 adds 1.",
        },
    ),
)

# ------------------------------------------------------------------------------------------------------ pointwise


class _PointWise(nn.Module):
    def __init__(self, width, curve, slope):
        super().__init__()
        zero = torch.tensor(0.0, requires_grad=True)
        own = torch.autograd.grad(curve(zero), zero)[0]
        self.curve = curve
        self.alpha = nn.Parameter(slope / own)
        self.shift = nn.Parameter(torch.tensor(0.0))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        inner = self.alpha * x + self.shift
        bent = self.curve(inner)
        return self.weight * bent + self.bias


def _steep(x):
    return torch.tanh(3 * x) / 2


_erf_layer = lambda cls: cls(4, torch.erf, 0.5)


def _at_the_start(cls):
    layer = _erf_layer(cls)
    names = ("alpha", "shift", "weight", "bias")
    starts = {f"{name} at the start": getattr(layer, name, "missing") for name in names}
    return {
        "the names of its parameters": sorted(dict(layer.named_parameters())),
        **{what: getattr(value, "data", value) for what, value in starts.items()},
    }


def _slopes(cls):
    """Return the slope at 0 of new layers: the output at a small number, over that number."""
    small = torch.full((4,), 1e-3)
    new = {
        "tanh": (torch.tanh, 0.5),
        "erf": (torch.erf, 2.0),
        "arctan": (torch.arctan, 0.25),
        "tanh(3 x) / 2": (_steep, 1.0),
    }
    return {
        f"the slope at 0 with curve {name} and slope {slope}": (
            cls(4, curve, slope)(small) / small
        ).detach()
        for name, (curve, slope) in new.items()
    }


pointwise = exercise(
    _PointWise,
    [
        # 1e-3: whoever measures the curve's slope on a small number is a little off
        Probe(
            "a new layer of width 4, with erf and the slope 0.5",
            _at_the_start,
            tolerance=1e-3,
            seconds=60.0,  # the first torch.func.grad of a process loads much
        ),
        Probe("four new layers", _slopes, tolerance=1e-3),
        call_layer("a (3, 4) matrix, with erf", _erf_layer, draw(71, 3, 4), {}),
    ],
    of_a_layer(_erf_layer, draw(73, 3, 4)),
    takes={"x": "... D"},
    use=lambda cls, sizes: filled(cls(sizes["D"], torch.arctan, 2.0), 74),
    tried="the parameters and their start, four curves, one to four axes, copies, gradients",
    wrong="""
    # alpha starts at the slope itself. That is the layer's slope only if the curve's own is 1 at 0, as tanh's is.
    self.alpha = nn.Parameter(torch.tensor(float(slope)))

    # alpha starts at the slope times the curve's own. The layer's slope is alpha times the curve's. | Divide.
    self.alpha = nn.Parameter(slope * own)

    # alpha starts at 0.5, whatever slope is asked for.
    self.alpha = nn.Parameter(torch.tensor(0.5))

    # the slope is reached by the gain. It is the start of alpha that is asked for: the gain starts at ones.
    self.alpha = nn.Parameter(torch.tensor(1.0))
    self.weight = nn.Parameter(torch.ones(width) * slope / own)

    # the curve is erf, whatever is handed over. | Call self.curve.
    bent = torch.erf(inner)

    # the curve is tanh, whatever is handed over. | Call self.curve.
    bent = torch.tanh(inner)

    # erf is replaced by a tanh of the same slope. The two differ away from 0. | Call self.curve.
    bent = torch.tanh(inner * 2 / torch.pi**0.5)

    # the shift is added after the curve: there it does what the bias does. | Add it to alpha * x.
    inner = self.alpha * x
    bent = self.curve(inner) + self.shift

    # the shift is subtracted. | Add it to alpha * x.
    inner = self.alpha * x - self.shift

    # the shift is multiplied by alpha. | The formula says alpha x + s, not alpha (x + s).
    inner = self.alpha * (x + self.shift)

    # the bias is multiplied by the gain. | Multiply first, then add.
    return self.weight * (bent + self.bias)

    # alpha or the shift is a number for each feature. Each is one number for the layer.
    self.alpha = nn.Parameter(torch.full((width,), slope / own.item()))
    # or
    self.shift = nn.Parameter(torch.zeros(width))

    # super().__init__() must come first, and nn.Parameter takes a tensor. | Write super().__init__(), then nn.Parameter(torch.tensor(0.5)).
    self.alpha = nn.Parameter(0.5)

    # alpha is a plain number, so no optimizer can train it. | Make it an nn.Parameter.
    self.alpha = slope / own
    """,
)

# ------------------------------------------------------------------------------------------------------- nanochat

_FOUR = "A block calls norm four times: on the stream before the attention and before the MLP, on the queries and on the keys."
_BOTH_ENDS = "norm is also called once after the embedding and once before the head."
nanochat = quiz(
    {
        "calls": (
            50,
            {
                **dict.fromkeys((24, 26, 38), f"{_FOUR} {_BOTH_ENDS}"),
                48: f"These are the calls in the blocks. {_BOTH_ENDS}",
                49: _BOTH_ENDS,
                **dict.fromkeys((4, 6), f"The loop runs 12 times. {_FOUR}"),
            },
        ),
        "learned": (
            0,
            dict.fromkeys(
                (768, 26 * 768, 26 * 768 + 24 * 128, 50 * 768),
                "F.rms_norm gets no weight here, so there is nothing to learn.",
            ),
        ),
        "sees shift": (
            True,
            {
                False: "RMSNorm subtracts no mean: a number added to all features changes the direction of the row."
            },
        ),
        "query": (
            128,
            {
                768: "The queries have been cut into heads before norm: (B, T, 6, 128), and norm takes the last axis.",
                6: "That is the number of heads. norm takes the last axis of (B, T, 6, 128).",
            },
        ),
        "attention": (
            128**0.5,
            {
                768**0.5: "A query has 128 numbers, so its length is sqrt(128) after the norm.",
                1: "That would bound rows of length 1. RMSNorm gives a row of 128 numbers the length sqrt(128).",
                15: "That bounds the logits at the output. In the attention the lengths of q and k are bounded.",
            },
        ),
    },
    tolerance=0.02,  # two decimals are asked for, and one is taken: sqrt(128) is 11.3137
)

# ----------------------------------------------------------------------------------------------- qk_logits_module


class _Logits(nn.Module):
    def __init__(self, head_size, bound):
        super().__init__()
        self.norm_q = nn.LayerNorm(head_size, bias=False)
        self.norm_k = nn.LayerNorm(head_size, bias=False)
        self.factor = bound / head_size

    def forward(self, q, k):
        q_hat = self.norm_q(q)
        k_hat = self.norm_k(k)
        return q_hat @ k_hat.mT * self.factor


def _of_three_sizes(seed, *sizes):
    """Return queries or keys, (B, H, T, d) = (2, 3, 5, 8), of a size for each head."""
    return draw(seed, 2, 3, 5, 8, dtype=torch.float32) * torch.tensor(sizes).view(3, 1, 1)


_QUERIES, _KEYS = _of_three_sizes(61, 1.0, 3.0, 30.0), _of_three_sizes(62, 30.0, 1.0, 3.0)


def _shapes(cls):
    seen = {}
    for size in ((2, 3, 5, 8), (1, 2, 4, 6), (3, 1, 7, 16)):
        q, k = (draw(seed, *size, dtype=torch.bfloat16) for seed in (63, 64))
        out = cls(size[-1], 3.0).bfloat16()(q, k)
        shape = (tuple(out.shape), str(out.dtype)) if isinstance(out, torch.Tensor) else out
        seen[f"shape and dtype for (B, H, T, d) = {size}"] = shape
    return seen


_moved = lambda part: lambda q, k: [part(t).mul_(-2).add_(5) for t in (q, k)]
_CHANGES = {  # scores that a change of queries and keys should leave alone: (the change, where they are)
    "scores of sample 0 when sample 1 changes": (_moved(lambda t: t[1]), lambda y: y[0]),
    "scores of heads 0 and 1 when head 2 changes": (
        _moved(lambda t: t[:, 2]),
        lambda y: y[:, :2],
    ),
    "scores of steps 0 to 3 when step 4 changes": (
        _moved(lambda t: t[:, :, 4]),
        lambda y: y[..., :4, :4],
    ),
    "scores of keys 0 to 3 when key 4 changes": (
        lambda q, k: k[:, :, 4].mul_(-2).add_(5),
        lambda y: y[..., :4],
    ),
    "scores when queries and keys become 30 times as large": (
        lambda q, k: (q.mul_(30), k.mul_(30)),
        lambda y: y,
    ),
}


def _steady(cls):
    def scores(change, look):
        q, k = _QUERIES.clone(), _KEYS.clone()
        before = look(layer(q.clone(), k.clone()))
        change(q, k)
        return torch.stack([before, look(layer(q, k))]).detach()

    layer = cls(8, 3.0)
    return {what: scores(*how) for what, how in _CHANGES.items()}


def _read_steady(seen):
    stay = {what: torch.allclose(*two, rtol=1e-3, atol=1e-3) for what, two in seen.items()}
    return {what: "stay" if yes else "change" for what, yes in stay.items()}


def _bound(cls):
    layer, q, k = cls(8, 3.0), _QUERIES.clone(), _KEYS.clone()
    logits = torch.stack([layer(q, k), layer(q, q.clone())])  # each query as a key, too
    return {"logits": logits, "same": torch.equal(q, _QUERIES) and torch.equal(k, _KEYS)}


def _read_bound(seen):
    logits = seen["logits"].detach()
    return {
        "zeros, nan or inf among the scores": not (logits.isfinite() & (logits != 0)).all(),
        "a score beyond bound in size": bool(logits.abs().max() > 3 + 1e-3),
        "queries and keys after the call": "as before" if seen["same"] else "changed",
    }


def _likes_itself(cls):
    wide = draw(66, 2, 20, 70, 40, dtype=torch.float32)
    return {
        f"d is {x.shape[-1]} and bound {bound}": cls(x.shape[-1], bound)(
            x.clone(), x.clone()
        ).detach()
        for x, bound in ((_QUERIES, 3.0), (wide, 10.0))
    }


def _read_itself(seen):
    largest = (seen["d is 8 and bound 3.0"].argmax(-1) == torch.arange(5)).all()
    told = {
        "the key that equals the query": f"has {'' if largest else 'not '}the largest score"
    }
    for size, y in seen.items():  # eps is 1e-5 or less, beside variances of about 1
        told[f"a query's score with itself, if {size}"] = y.diagonal(dim1=-2, dim2=-1)
    return told


def _trained(cls):
    layer = cls(8, 3.0)
    layer(_QUERIES.clone(), _KEYS.clone())
    parameters = dict(layer.named_parameters())
    if not parameters:
        return {"parameters that an optimizer gets": "none"}
    both = {"q": _QUERIES.clone().requires_grad_(), "k": _KEYS.clone().requires_grad_()}
    loss = (layer(*both.values()) * draw(65, 2, 3, 5, 5, dtype=torch.float32)).sum()
    seen = gradients(loss, both | parameters)
    without = {
        name for name in both | parameters if isinstance(seen[f"gradient of {name}"], str)
    }
    unused = "all parameters" if without == set(parameters) else "some parameters"
    without = ", ".join(both.keys() & without) or (unused if without else "none")
    return {"parameters that an optimizer gets": "some", "those without a gradient": without}


qk_logits_module = exercise(
    _Logits,
    [
        Probe("queries and keys of three sizes, in bfloat16", _shapes),
        Probe(
            "a new module, and some queries and keys that change", _steady, reads=_read_steady
        ),
        Probe("a new module", _bound, reads=_read_bound),
        Probe("keys that are the queries", _likes_itself, tolerance=1e-3, reads=_read_itself),
        Probe("a new module after one call", _trained),
    ],
    of_a_layer(lambda cls: cls(8, 3.0), _QUERIES.double(), _KEYS.double()),
    tried="other samples, heads and steps, size, the bound, trained gains",
    wrong="""
    # nothing has changed: one mean for the whole tensor, and a new layer at each call.
    self.norm_q, self.norm_k = None, None
    q_hat, k_hat = nn.LayerNorm(q.size())(q), nn.LayerNorm(k.size())(k)

    # the statistics are taken over more than the d numbers of one query: normalized_shape is head_size alone.
    q_hat, k_hat = F.layer_norm(q, q.shape[2:]) * self.norm_q.weight, F.layer_norm(k, k.shape[2:]) * self.norm_k.weight

    # an optimizer gets nothing to train: the norm is made in forward, at each call, has no gain, or is in a plain list. | Make it in __init__, with a gain, and keep it in self.
    self.norm_q, self.norm_k = None, None
    q_hat, k_hat = nn.LayerNorm(q.shape[-1])(q), nn.LayerNorm(k.shape[-1])(k)

    # forward does not use norms that __init__ makes, or makes new ones at each call, so no gain is ever trained.
    q_hat, k_hat = F.layer_norm(q, q.shape[-1:]), F.layer_norm(k, k.shape[-1:])

    # one of the two norms is not used, so its gains are never trained.
    k_hat = self.norm_q(k)

    # only one of the two is normalized. Large numbers in the other make large scores just as well.
    k_hat = k
    # or
    q_hat = q
    # or
    q_hat, k_hat = F.rms_norm(q, q.shape[-1:]) * self.norm_q.weight, k
    # or
    q_hat, k_hat = q, F.rms_norm(k, k.shape[-1:]) * self.norm_k.weight

    # the product of two normalized rows is as large as d, for equal rows. No factor makes bound of it yet. | Find the factor that makes bound of d.
    return q_hat @ k_hat.mT

    # divided by sqrt(d) the largest score is sqrt(d), whatever bound is. | Find the factor that makes bound of d.
    return q_hat @ k_hat.mT / q.shape[-1] ** 0.5

    # bound multiplies what is as large as sqrt(d) already. | Find the factor that makes bound of d.
    return q_hat @ k_hat.mT * self.factor * q.shape[-1] ** 0.5

    # bound multiplies what is as large as d already: normalized rows do not have the length 1. | Find the factor that makes bound of d.
    return q_hat @ k_hat.mT * self.factor * q.shape[-1]

    # after that factor the scores are divided by sqrt(d) once more. | bound is what the largest score is to be in the end.
    return q_hat @ k_hat.mT * self.factor / q.shape[-1] ** 0.5

    # the factor multiplies queries and keys both, so the scores get its square.
    return (q_hat * self.factor) @ (k_hat * self.factor).mT

    # the scores are cut off, or bent, at bound, and not normalized: what is large is still told apart by its size. | Normalize queries and keys.
    return (q @ k.mT / q.shape[-1] ** 0.5).clamp(-3, 3)
    # or
    return 3 * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / 3)

    # the scores are normalized, and not the queries and keys: each score then depends on the other keys. | Normalize q and k.
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return F.layer_norm(scores, scores.shape[-1:]) * self.norm_q.weight.mean() * self.norm_k.weight.mean()
    # or
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return F.layer_norm(scores, scores.shape[-1:])

    # later words are masked here. The leak is in the norms, so a mask does not heal it. | Return all scores.
    return (q_hat @ k_hat.mT * self.factor).tril()
    # or
    return (q_hat @ k_hat.mT * self.factor).masked_fill(q.new_ones(q.shape[2], q.shape[2]).triu(1) > 0, -torch.inf)
    # or
    return (q_hat @ k_hat.mT * self.factor).masked_fill(q.new_ones(q.shape[2], q.shape[2]).triu(1) > 0, -1e9)

    # queries and keys have changed places: row i belongs to query i. | Write q @ k.mT.
    return k_hat @ q_hat.mT * self.factor

    # the shapes do not fit: the keys' last two axes change places before the norm or not at all, or the scores are normalized. | Normalize q and k, then write q @ k.mT.
    return q_hat @ k_hat * self.factor

    # the softmax is applied already. | Return the scores.
    return (q_hat @ k_hat.mT * self.factor).softmax(-1)
    # or
    q_hat, k_hat = F.rms_norm(q, q.shape[-1:]) * self.norm_q.weight, F.rms_norm(k, k.shape[-1:]) * self.norm_k.weight
    return (q_hat @ k_hat.mT * self.factor).softmax(-1)
    """,
)

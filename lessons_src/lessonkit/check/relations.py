"""What would have made a wrong answer right: how what came out is related to what should have.

A list of misconceptions ends where the next slip begins. Where none does what an answer does, a small bank of relations
is tried, the same for all exercises: twice the right numbers, D times, their square, without the reduced axis, those of
another axis, those without one of the arguments. A relation that does not hold on every input is not told.
"""

import contextlib
import itertools
import math

import torch

from lessonkit.check.differences import same


def told(evidence):
    """Return (a sentence that says how an answer is related to the right one or "", whether it explains all outputs).

    evidence: (a Probe, what it saw of the answer, what is right) for each input, both {output: value}.
    """
    names = dict.fromkeys(what for *_, right in evidence for what in right if not what.endswith("after the call"))
    values = [what for what in names if not what.startswith("gradient of")]
    swapped = _swapped(evidence, values)
    if swapped:
        return swapped, True
    found, wrong = {}, 0  # {what is told, with a place for the name: the names}, how many outputs are wrong
    for what in names:
        if what not in values and wrong:
            break
        pairs = [(mine.get(what), right[what], probe) for probe, mine, right in evidence if what in right]
        if all(same({what: mine}, {what: right}, probe) for mine, right, probe in pairs):
            continue
        wrong += 1
        numbers = all(_is_numbers(mine) and _is_numbers(right) for mine, right, _ in pairs)
        other = numbers and not all(_near(mine, right) for mine, right, _ in pairs)
        sentence = _related(NAME, what, pairs) if other else None
        if sentence:
            found.setdefault(sentence, []).append(what.removeprefix("the "))
    parts = [_of_all(text, names).partition(" | ") for text, names in found.items()]
    repair = " ".join(dict.fromkeys(part[2] for part in parts if part[2]))
    text = " ".join(part[0] for part in parts) + (f" | {repair}" if repair else "")
    return text, sum(map(len, found.values())) == wrong


NAME = "\0"


def _of_all(text, names):
    """Return a sentence about the first of several outputs, and that it holds for the others as well."""
    first, more, repair = text.replace(NAME, names[0]).partition(" | ")
    others = f" The same holds for your {', '.join(names[1:])}." if names[1:] else ""
    return f"{first}{others}{more}{repair}"


def _related(name, what, pairs):
    """Return a sentence on one output, or one gradient, of all inputs; None where no relation is known."""
    sentence = _of_shape(name, pairs) or _of_values(name, pairs)
    if not sentence and what.startswith("gradient of") and not any(mine.any() for mine, *_ in pairs):
        return f"Your {name} is 0 everywhere: no way leads from the output back."
    return sentence


def _is_numbers(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _near(mine, right):
    """Whether two tensors have one shape and agree as far as a relation needs."""
    mine, right = mine.detach().double(), right.detach().double()
    if mine.shape != right.shape:
        return False
    room = 1e-5 * max(1e-30, right[right.isfinite()].abs().max().item() if right.isfinite().any() else 0)
    return torch.allclose(mine, right, rtol=1e-5, atol=room, equal_nan=True)


def _swapped(evidence, values):
    """Say that two outputs stand in each other's place."""
    for first, second in itertools.combinations(values, 2):
        ways = ((first, second), (second, first))
        pairs = [(mine.get(a), right.get(b)) for _, mine, right in evidence for a, b in ways]
        if all(_is_numbers(a) and _is_numbers(b) and _near(a, b) for a, b in pairs):
            if not all(_near(right[first], right[second]) for *_, right in evidence):
                return f"These have changed places: {first} and {second}."
    return None


# ---- the shape
def _of_shape(name, pairs):
    """Say that an axis is gone or that axes are exchanged, and what else is then right or wrong."""
    if all(mine.shape == right.shape for mine, right, _ in pairs):
        return None
    if all(mine.numel() == right.numel() and mine.squeeze().shape == right.squeeze().shape for mine, right, _ in pairs):
        fewer = all(mine.dim() < right.dim() or mine.shape == right.shape for mine, right, _ in pairs)
        text = (
            f"Your {name} has lost an axis of size 1, the one that was reduced."
            if fewer
            else f"Your {name} has an axis of size 1 too many, or in the wrong place."
        )
        flat = [(mine.reshape(right.shape), right, seen) for mine, right, seen in pairs]
        if all(_near(mine, right) for mine, right, _ in flat):
            return (
                f"{text} Its numbers are right. | Say keepdim=True where you reduce."
                if fewer
                else f"{text} Its numbers are right."
            )
        more = _of_values(name, flat)
        return f"{text} And more: {more[0].lower()}{more[1:]}" if more else f"{text} Its numbers are wrong, too."
    if all(
        mine.dim() == right.dim() > 1 and mine.shape == right.mT.shape and _near(mine.mT, right)
        for mine, right, _ in pairs
    ):
        return f"Your {name} is the right one with its last two axes exchanged."
    if all(mine.numel() == 1 < right.numel() for mine, right, _ in pairs):
        return f"Your {name} is one number for the whole tensor. Each row has its own."
    return None


# ---- the values
FUNCTIONS = [  # of what is right: what is said where it is shown, and what is asked back where it is not, in a quiz
    (torch.neg, "the right one with the other sign", "Is its sign right?"),
    (torch.square, "the square of the right one", "Is a square, or a root, missing or too much?"),
    (torch.sqrt, "the root of the right one", "Is a root, or a square, missing or too much?"),
    (torch.reciprocal, "1 divided by the right one", "What is divided by what?"),
    (torch.rsqrt, "1 divided by the root of the right one", "What is divided by what? And is a root too much?"),
    (
        lambda right: right**-2,
        "1 divided by the square of the right one",
        "What is divided by what, and where is a root?",
    ),
    (torch.abs, "the right one without its sign", "Is its sign right?"),
    (lambda right: 1 - right, "1 minus the right one", "That is what is left. Asked is the other part."),
]
_OF_SIZES = [  # factors that depend on the sizes of what goes in, and what such a factor comes from, most often
    ("D", lambda *sizes, D: D, "A sum and a mean differ by that: which one is asked for, above the line and below it?"),
    ("1/D", lambda *sizes, D: 1 / D, "Is something divided by D twice?"),
    ("√D", lambda *sizes, D: D**0.5, ""),
    ("1/√D", lambda *sizes, D: D**-0.5, ""),
    ("D/(D − 1)", lambda *sizes, D: D / (D - 1), "That is the divisor D − 1."),
    ("(D − 1)/D", lambda *sizes, D: (D - 1) / D, "That is the divisor D − 1 under the line."),
    (
        "the root of D/(D − 1)",
        lambda *sizes, D: (D / (D - 1)) ** 0.5,
        "That is the divisor D − 1 in a standard deviation.",
    ),
    (
        "the root of (D − 1)/D",
        lambda *sizes, D: ((D - 1) / D) ** 0.5,
        "That is the divisor D − 1 in what you divide by.",
    ),
    ("D divided by the size of the first axis", lambda first, *sizes, D: D / first, ""),
    ("1/(the number of rows)", lambda *sizes, D: 1 / math.prod(sizes), ""),
]
_TERM = "Is a term missing, too much, or of the wrong sign?"
_WITH_AN_INPUT = {  # what an output may be that is made of the right one and an input
    "{} itself.": lambda right, x: x,
    "{} less its mean, and nothing else is done to it.": lambda right, x: x - x.mean(-1, keepdim=True),
    f"the right one plus {{}}. {_TERM}": lambda right, x: right + x,
    f"the right one less {{}}. {_TERM}": lambda right, x: right - x,
    f"the right one plus two times {{}}. {_TERM}": lambda right, x: right + 2 * x,
    f"the right one less two times {{}}. {_TERM}": lambda right, x: right - 2 * x,
}


def _shape(probe):
    """The shape of the first input that has one, () where none has."""
    return next((item.shape for item in probe.shown.values() if isinstance(item, torch.Tensor) and item.dim()), ())


def _of_values(name, pairs):
    """Say which function of the right numbers these are."""
    enough = [
        (mine.detach().double(), right.detach().double(), seen)
        for mine, right, seen in pairs
        if not _near(right, torch.zeros_like(right))
    ]
    if not enough or any(mine.shape != right.shape for mine, right, _ in enough):
        return None
    varied = torch.cat([right.flatten() for _, right, _ in enough]).unique().numel() > 1
    for function, text, _ in FUNCTIONS if varied else ():  # 0 for 1 has no such reason
        if all(_near(mine, function(right)) and not _near(mine, right) for mine, right, _ in enough):
            return f"Your {name} is {text}."
    shapes = [_shape(probe) for *_, probe in enough]
    for text, factor, reason in _OF_SIZES if all(shape and shape[-1] > 1 for shape in shapes) else ():
        factors = [factor(*shape[:-1] or (1,), D=shape[-1]) for shape in shapes]
        if len(set(factors)) > 1 and all(_near(m, f * r) for f, (m, r, _) in zip(factors, enough, strict=True)):
            return f"Your {name} is {text} times the right one. {reason}".rstrip()
    inputs = _of_an_input(name, enough)
    if inputs:
        return inputs
    mine, right = (torch.cat([pair[at].flatten() for pair in enough]) for at in (0, 1))
    if not (mine.isfinite().all() and right.isfinite().all()) or len(right) < 4:
        return None
    factor = (mine @ right / (right @ right)).item()
    if factor and _near(mine, factor * right) and abs(factor - 1) > 1e-4:
        return f"Your {name} is {factor:.4g} times the right one."
    shift = (mine - right).mean().item()
    if _near(mine - right, torch.full_like(right, shift)) and abs(shift) > 1e-12:
        return f"Your {name} is the right one plus {shift:.4g}."
    rows = [(m, r) for m, r, _ in enough if r.dim() > 1]
    if any(len(r) > 1 for _, r in rows) and all(_near(m[0], r[0]) for m, r in rows):
        return f"Your {name} is right for the first row, and not for the others."
    return None


def _of_an_input(name, pairs):
    """Say that an output is an input as it came, or centered, or the right one and an input."""
    for which in pairs[0][2].shown:
        given = [probe.shown.get(which) for *_, probe in pairs]
        if not all(_is_numbers(item) and item.numel() > 1 for item in given):
            continue
        for text, made in _WITH_AN_INPUT.items():
            with contextlib.suppress(RuntimeError):  # sizes that do not fit
                if all(_near(mine, made(right, x.double())) for (mine, right, _), x in zip(pairs, given, strict=True)):
                    return f"Your {name} is {text.format(which)}"
    return None

"""What would have made a wrong answer right: how what came out is related to what should have.

A list of misconceptions ends where the next slip begins. Where none does what an answer does, a small bank of relations
is tried, the same for all exercises: twice the right numbers, D times, their square, without the reduced axis, those of
another axis, those without one of the arguments. A relation that does not hold on every input is not told.
"""

import contextlib
from dataclasses import dataclass

import torch


@dataclass
class Seen:
    """One input, what an answer made of it and what is right: both {output: value}, inputs {name: value}."""

    mine: dict
    right: dict
    inputs: dict

    @property
    def D(self):
        """How many numbers a row has; 0 where no input is a tensor with an axis."""
        rows = [item.shape[-1] for item in self.inputs.values() if isinstance(item, torch.Tensor) and item.dim()]
        return rows[0] if rows else 0


def told(everything, again=None):
    """Return a sentence that says how an answer is related to the right one, None where the bank does not know.

    everything: a Seen for each input. again: inputs {name: value} -> {output: value} of the right answer, where it can
    be asked about inputs that were made from these.
    """
    outputs = [what for what in everything[0].right if not what.endswith("after the call")]
    values = [what for what in outputs if not what.startswith("gradient of")]
    swapped = _swapped(everything, values)
    if swapped:
        return swapped
    sentences = []
    for what in outputs:
        pairs = [(seen.mine.get(what), seen.right.get(what), seen) for seen in everything]
        if what not in values and sentences or not all(_is_numbers(a) and _is_numbers(b) for a, b, _ in pairs):
            continue
        if not all(_near(mine, right) for mine, right, _ in pairs):
            sentences.append((what.removeprefix("the "), what, pairs))
    found = {}  # {what is told, with a place for the name: the names}
    for name, what, pairs in sentences:
        sentence = _related(NAME, what, pairs, again if what in values else None)
        if sentence:
            found.setdefault(sentence, []).append(name)
    parts = [_of_all(text, names).partition(" | ") for text, names in found.items()]
    repair = " ".join(dict.fromkeys(part[2] for part in parts if part[2]))
    return " ".join(part[0] for part in parts) + (f" | {repair}" if repair else "") or None


NAME = "\0"


def _of_all(text, names):
    """Return a sentence about the first of several outputs, and that it holds for the others as well."""
    first, more, repair = text.replace(NAME, names[0]).partition(" | ")
    others = "".join(f" So it is with your {name}." for name in names[1:])
    return f"{first}{others}{more}{repair}"


def _related(name, what, pairs, again):
    """Return a sentence on one output, or one gradient, of all inputs; None where no relation is known."""
    sentence = _of_shape(name, pairs) or _of_values(name, pairs)
    if not sentence and again:
        sentence = _of_inputs(name, what, pairs, again)
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


def _swapped(everything, values):
    """Say that two outputs stand in each other's place."""
    for at, first in enumerate(values):
        for second in values[at + 1 :]:
            pairs = [
                (seen.mine.get(a), seen.right.get(b))
                for seen in everything
                for a, b in ((first, second), (second, first))
            ]
            fit = all(_is_numbers(a) and _is_numbers(b) and _near(a, b) for a, b in pairs)
            if fit and not all(_near(seen.right[first], seen.right[second]) for seen in everything):
                return f"Two outputs stand in each other's place: {first} and {second}."
    return None


# ---- the shape
def _of_shape(name, pairs):
    """Say that an axis is gone or that axes are exchanged, and what else is then right or wrong."""
    if all(mine.shape == right.shape for mine, right, _ in pairs):
        return None
    if all(mine.numel() == right.numel() and mine.squeeze().shape == right.squeeze().shape for mine, right, _ in pairs):
        fewer = all(mine.dim() < right.dim() for mine, right, _ in pairs)
        text = (
            f"Your {name} has lost an axis of size 1, the one that was reduced."
            if fewer
            else f"Your {name} has an axis of size 1 in the wrong place or too many."
        )
        flat = [(mine.reshape(right.shape), right, seen) for mine, right, seen in pairs]
        if all(_near(mine, right) for mine, right, _ in flat):
            return (
                f"{text} Its numbers are right. | Say keepdim=True where you reduce."
                if fewer
                else f"{text} Its numbers are right."
            )
        more = _of_values(name, flat)
        return f"{text} And more: {more[0].lower()}{more[1:]}" if more else f"{text} Its numbers are others, too."
    if all(
        mine.dim() == right.dim() > 1 and mine.shape == right.mT.shape and _near(mine.mT, right)
        for mine, right, _ in pairs
    ):
        return f"Your {name} is the right one with its last two axes exchanged."
    if all(mine.numel() == 1 < right.numel() for mine, right, _ in pairs):
        return f"Your {name} is one number for the whole tensor. Each row has its own."
    return None


# ---- the values
_FUNCTIONS = {
    "the right one with the other sign": lambda right: -right,
    "the square of the right one": torch.square,
    "the root of the right one": torch.sqrt,
    "1 divided by the right one": torch.reciprocal,
    "1 divided by the root of the right one": torch.rsqrt,
    "the right one without its sign": torch.abs,
}
_OF_D = {  # factors that depend on how many numbers a row has
    "D": lambda D: D,
    "1/D": lambda D: 1 / D,
    "√D": lambda D: D**0.5,
    "1/√D": lambda D: D**-0.5,
    "D/(D − 1)": lambda D: D / (D - 1),
    "(D − 1)/D": lambda D: (D - 1) / D,
    "the root of D/(D − 1)": lambda D: (D / (D - 1)) ** 0.5,
    "the root of (D − 1)/D": lambda D: ((D - 1) / D) ** 0.5,
}
_MEANS = {  # what such a factor comes from, most often
    "D": "Is that a sum where a mean is asked for, or a mean below the line?",
    "1/D": "Is something divided by D twice?",
    "D/(D − 1)": "That is the divisor D − 1.",
    "(D − 1)/D": "That is the divisor D − 1 under the line.",
    "the root of D/(D − 1)": "That is the divisor D − 1 in a standard deviation.",
    "the root of (D − 1)/D": "That is the divisor D − 1 in what you divide by.",
}


def _of_values(name, pairs):
    """Say which function of the right numbers these are."""
    enough = [
        (mine.detach().double(), right.detach().double(), seen)
        for mine, right, seen in pairs
        if not _near(right, torch.zeros_like(right))
    ]
    if not enough or any(mine.shape != right.shape for mine, right, _ in enough):
        return None
    for text, function in _FUNCTIONS.items():
        if all(_near(mine, function(right)) and not _near(mine, right) for mine, right, _ in enough):
            return f"Your {name} is {text}."
    sizes = {seen.D for *_, seen in enough}
    for text, factor in _OF_D.items() if len(sizes) > 1 and min(sizes) > 1 else ():
        if all(_near(mine, factor(seen.D) * right) for mine, right, seen in enough):
            return f"Your {name} is {text} times the right one. {_MEANS.get(text, '')}".rstrip()
    inputs = _an_input(name, enough)
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
    rows = [(m, r) for m, r, _ in enough if r.dim() > 1 and len(r) > 1]
    if rows and all(_near(m[0], r[0]) for m, r in rows):
        return f"Your {name} is right for the first row, and not for the others."
    return None


def _an_input(name, pairs):
    """Say that an output is an input as it came, or only centered."""
    for which in pairs[0][2].inputs:
        given = [(mine, seen.inputs.get(which)) for mine, _, seen in pairs]
        if not all(_is_numbers(item) and item.shape == mine.shape for mine, item in given):
            continue
        if all(_near(mine, item) for mine, item in given):
            return f"Your {name} is {which} itself."
        if all(_near(mine, item - item.mean(-1, keepdim=True)) for mine, item in given):
            return f"Your {name} is {which} less its mean, and nothing else is done to it."
    return None


# ---- the right answer, asked about other inputs
def _of_inputs(name, what, pairs, again):
    """Say what the right answer would have to be asked to give these numbers: another axis, without an argument."""
    inputs = pairs[0][2].inputs
    first = next((key for key, item in inputs.items() if _is_numbers(item)), None)
    for key, item in inputs.items():
        for neutral in _neutral(item) if key != first else ():
            if _all_are(what, pairs, lambda given, k=key, none=neutral: again(given | {k: none(given[k])})):
                return f"Your {name} is what the right one is without {key}: {key} is not used."
    if first is None:
        return None
    for axis in range(2):
        if _all_are(what, pairs, lambda given, axis=axis: _along(again, given, first, axis, what), least=axis + 2):
            return f"Your {name} is what comes out if axis {axis} is taken in the place of the last one."
    if _all_are(what, pairs, lambda given: _whole(again, given, first, what), least=2):
        return f"Your {name} is what comes out if the whole tensor is taken as one row."
    return None


def _neutral(item):
    """Return what an argument may be to do nothing: zeros, ones, or 0 for a number."""
    if isinstance(item, torch.Tensor) and item.is_floating_point():
        return [torch.zeros_like, torch.ones_like]
    return [lambda number: 0.0] if isinstance(item, float) and item else []


def _all_are(what, pairs, ask, least=0):
    """Whether an answer gave on all inputs what ask gives; least: how many axes an input needs to count at all."""
    some = [(mine, right, seen) for mine, right, seen in pairs if right.dim() >= least]
    if not some:
        return False
    for mine, _, seen in some:
        other = None
        with contextlib.suppress(Exception):  # sizes that do not fit
            other = ask(seen.inputs).get(what)
        if not _is_numbers(other) or other.shape != mine.shape or not _near(mine, other):
            return False
    return not all(_near(mine, right) for mine, right, _ in some)


def _along(again, given, first, axis, what):
    x = given[first]
    if axis >= x.dim() - 1:
        return {}
    out = again(given | {first: x.movedim(axis, -1)})[what]
    return {what: out.movedim(-1, axis)}


def _whole(again, given, first, what):
    x = given[first]
    out = again(given | {first: x.reshape(1, -1)})[what]
    return {what: out.reshape(x.shape) if out.numel() == x.numel() else out.expand(*x.shape[:-1], 1)}

"""What differs between two observations of one probe, in a sentence, and what that suggests."""

import re

import torch

from lessonkit.check.observing import MODULE
from lessonkit.check.verdicts import (
    CHANGED,
    KEPT,
    Raised,
    cut,
    digits_of,
    inputs,
    kind_of,
    plain,
    row_of,
    sentence,
    two,
)


def _changed(what):
    if what.startswith(KEPT):
        return f"after the call your code still keeps {what.removeprefix(KEPT).strip()}, or a graph that needs it.", (
            "What is put into self, a list or a global name stays in memory, and so does all that it was made from. "
            "Keep nothing that forward or the function does not need again."
        )
    if what.startswith("its input"):
        return f"your code changed {what}.", (
            "An operation in place (+=, *=, or a name that ends in _) works on the caller's tensor. "
            f"Where {what.split()[-1]} is changed, make a new tensor: a = a - b, not a -= b."
        )
    if MODULE in what:
        return f"your code changed {what}.", (
            "Who calls it goes on with the module: leave it as it came, with every hook removed, and new parts in the "
            "mode of the whole."
        )
    return f"your code changed {what}.", (
        "What a function sets for all of PyTorch stays set for every line of the notebook that runs after it."
    )


def same(a, b, probe):
    """Whether two observations agree: the rule by which an answer counts as a misconception."""
    a, b = _compared(a), _compared(b)
    return a.keys() == b.keys() and all(
        _agree(what, value, b[what], probe) and _tells_itself(value) == _tells_itself(b[what])
        for what, value in a.items()
    )


def _tells_itself(value):
    """Whether an error names its own cause, NumPy or a tensor as a truth value: no other RuntimeError shares it."""
    return isinstance(value, Raised) and any(words in value.text for words in ("numpy()", "is ambiguous"))


def _compared(observed):
    return {what: value for what, value in observed.items() if not what.startswith("_")}


def problem(seen, right, probe, room=None):
    """Return (what is wrong, what it suggests or None) for the first observation that differs; None if all agree.

    room: {what: how far off it may be} where the probe's tolerance does not say so.
    """
    seen, right = _compared(seen), _compared(right)
    change = seen.pop(CHANGED, "")
    if change and MODULE not in change:  # a module's marks come last: a check may say better what is wrong with it
        return _changed(change)
    for what, value in seen.items():
        if isinstance(value, Raised) and value != right.get(what):
            return _raised(what, value, right.get(what), probe)
        if what not in right:
            error = next((item for item in right.values() if isinstance(item, Raised)), None)
            if error:
                return f"it raised no error, expected {kind_of(error)}. {inputs(probe)}".rstrip(), None
            mine = value if isinstance(value, str) else kind_of(value)
            return f"it returned {mine}, expected {' and '.join(_outputs_of(right))}.", _returned(mine)
        trouble = _difference(what, value, right[what], probe, (room or {}).get(what), len(_outputs_of(right)) == 1)
        if trouble:
            return trouble
    missing = [what for what in right if what not in seen and what != CHANGED]
    if missing:
        return f"{missing[0]} is missing.", None
    return _changed(change) if change != right.get(CHANGED, "") else None


def _raised(what, value, right, probe):
    """Say which exception came, where it did, and which should have come instead, if one should."""
    text = f": {cut(value.text, 160)}" if value.text else ""
    if what.startswith("gradient of"):
        return f"{what} could not be computed ({value.kind}{text}).", _of_an_error(value)
    at = f", at `{cut(value.line, 80)}`" if value.line else ""
    instead = f" Expected {kind_of(right)}." if isinstance(right, Raised) else ""
    return f"it raised {sentence(value.kind + at + text)}{instead} {inputs(probe)}".rstrip(), _of_an_error(value)


def _of_an_error(value):
    return next((why for text, why in ERRORS.items() if re.search(text, f"{value.kind}: {value.text}")), None)


ERRORS = {  # what the errors of Python and PyTorch say to a learner, where their own words do not
    "must match the size of tensor|must be broadcastable|not broadcastable": "Two tensors do not line up. Has one lost "
    "its reduced axis? With keepdim=True it stays, with the size 1, and 1 lines up with every size.",
    "Dimension out of range": "A tensor has no such axis: a row has only one. Counted from the end, -1 is there in "
    "every tensor.",
    "could not infer output dtype|must be either a floating|expected a floating": "The tensor holds whole numbers, of "
    "which torch takes no mean. Write 3.0 in the place of 3, or x.float().",
    "'(bool|NoneType)' object is not callable": "What is called there is no function and no layer, but a True, a False "
    "or a None. Where does it come from?",
    "'(int|float|Tensor|tuple|dict|list)' object is not callable": "A name that was a function "
    "stands for a value now: was it bound anew, as in mean = 3? Give the value another name, and run the cell of the "
    "function again.",
    "NameError": "No cell that has run binds this name. Is it misspelled, or made in a cell above, perhaps a folded "
    "one, that has not run?",
    "UnboundLocalError": "The function assigns to this name further down, so it is a local one from the first line on.",
    "missing .* required positional argument": "The check leaves out an argument that has a default in the exercise: "
    "give it that default in the head of the function.",
    "unexpected keyword argument": "The head of the function lacks an argument that the exercise names.",
    "shapes cannot be multiplied|mat1 and mat2": "The inner sizes of a product do not agree. Is a matrix to be "
    "transposed? nn.Linear keeps its weight as (out, in).",
    "view size is not compatible": "view needs numbers that lie in order in memory; reshape copies them where they do "
    "not.",
    "same device|expected device": "A tensor is made on the CPU wherever x is. Make it from x: "
    "torch.ones_like(x), or device=x.device.",
    "Boolean value of Tensor|truth value of an array": "An if asks for one truth value, and here are several. Use "
    "torch.where, or .any() or .all().",
    "Can't call numpy|requires grad. Use": "NumPy has no gradients: stay with torch's functions.",
    "leaf Variable that requires grad|modified by an inplace": "An operation in place (+=, *=, or a name that ends in "
    "_) changes what the gradient still needs. Make a new tensor: a = a - b.",
    "(same|mixed) d(ata)?type|scalar type": "What a call makes is float32, though its inputs may be float64, and a "
    "layer that each call makes anew forgets its weights.",
    "NoneType' object has no attribute|unsupported operand .*NoneType": "Something is None here. Does an earlier "
    "function lack its return, or may an argument be None?",
}


def _outputs_of(right):
    return [what for what in right if not what.startswith("gradient of") and not what.endswith("after the call")]


_GRADIENT = (
    "Something cuts the way from the output back to the input: .detach(), .data, .item(), torch.no_grad(), "
    "torch.tensor(...), nn.Parameter(...) or NumPy."
)


_PARTLY = (
    "The values agree, the gradient does not: .detach(), .item() or torch.no_grad() on a part of the way, or a "
    "wrong backward."
)


def _returned(value):
    return "Is the return missing at the end?" if value == kind_of(None) else None


def _agree(what, value, right, probe, room=None):
    """Whether one observation is as it should be. It makes no words: an answer meets all misconceptions here."""
    if not isinstance(right, torch.Tensor):
        value = as_plain(value)
        return _number_equals(value, right, probe.tolerance) or _alike(value, right)
    if not isinstance(value, torch.Tensor) or value.device != right.device or value.shape != right.shape:
        return False
    if what.endswith("after the call"):
        return torch.equal(value, right) or torch.equal(torch.nan_to_num(value), torch.nan_to_num(right))
    if value.dtype != right.dtype:
        return False
    return right.numel() == 0 or _close(value, right, probe, room)


def _difference(what, value, right, probe, room, alone):
    """Return (what is wrong, what it suggests or None); None if they agree. alone: whether it is the only output."""
    if _agree(what, value, right, probe, room):
        return None
    if not isinstance(right, torch.Tensor):
        if value is None:
            text = f"it returned nothing (None), expected {sentence(plain(right))}"
        else:
            text = two(what, value, right)
        return f"{text} {inputs(probe)}".rstrip(), _returned(kind_of(value))
    if not isinstance(value, torch.Tensor):
        if what.startswith("gradient of"):
            return f"there is no {what}.", _GRADIENT
        who, mine = "it returned" if alone else f"{what} is", kind_of(value)
        return f"{who} {mine}, expected a tensor of shape {tuple(right.shape)}.", _returned(mine) if alone else None
    if value.device != right.device:
        return f"{what} is on the device {value.device}, expected {right.device}.", None
    if what.endswith("after the call"):
        return _changed(f"its input {what.split()[0]}")
    if value.shape != right.shape:
        return f"{what} has shape {tuple(value.shape)}, expected {tuple(right.shape)}. {inputs(probe)}".rstrip(), None
    if value.dtype != right.dtype:
        return f"{what} has dtype {value.dtype}, expected {right.dtype}.", (
            "A conversion like .float() or torch.tensor(...) must be undone before the return, by .to(dtype) of what "
            "came in: behind x = x.float(), x.dtype is float32."
            if value.is_floating_point()
            else None
        )
    hint = _PARTLY if what.startswith("gradient of") else None
    return _numbers(what, value, right, probe), _not_finite(value, right) or hint


def _alike(value, right):
    try:
        return type(value) is type(right) and bool(value == right)
    except (RuntimeError, TypeError, ValueError):  # a list with tensors or arrays in it has no truth value
        return False


NOT_FINITE = "comes from"  # how a sentence on nan or inf begins


def _not_finite(value, right):
    """Say where nan or inf comes from; not for a single number, which a check may have put together itself."""
    if value.dim() == 0 or value.isfinite().all() or not right.isfinite().all():
        return None
    if value.isnan().any():
        return (
            f"nan {NOT_FINITE} 0/0, inf/inf or inf - inf, the root of a negative number, or the slope of a root at 0."
        )
    return f"inf {NOT_FINITE} a division by 0, or a number that is too large for its dtype."


def as_plain(value):
    """Return the Python number that a NumPy number or a tensor of one number holds; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else value
    numpy_number = type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1
    return value.item() if numpy_number else value


def _number_equals(value, right, tolerance):
    """Whether a number is a float right within tolerance."""
    if type(right) is not float or type(value) not in (int, float):
        return False
    both = value == right or value != value and right != right  # inf and nan as well
    return both or abs(value - right) <= tolerance * max(1, abs(right))


def _error(value, right):
    """|value - right| in float64, 0 where both are the same infinity or both nan, inf where only one is finite."""
    value, right = value.detach().double(), right.detach().double()
    gap = (value - right).abs()
    alike = (value == right) | (value.isnan() & right.isnan())
    return gap.masked_fill(~gap.isfinite(), float("inf")).masked_fill(alike, 0.0)


def _close(value, right, probe, bound):
    value, right = value.detach().double(), right.detach().double()
    if bound is None:
        bound = probe.tolerance * max(1, right.abs().nan_to_num(0, 0, 0).max().item())
    close = (value - right).abs() <= bound  # False where one is inf or nan, also where both are
    return bool(close.all()) or bool((close | (value == right) | value.isnan() & right.isnan()).all())


def _numbers(what, value, right, probe):
    """Say which row is most wrong, what it should be, and the input row it belongs to."""
    worst = int(_error(value, right).argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), right.shape)) if right.dim() else ()
    digits = digits_of(value[place].item(), right[place].item())
    where, row = (f"[{', '.join(map(str, place[:-1]))}]" if len(place) > 1 else ""), place[:-1]
    return (
        f"{what}{where} is {row_of(value[row], digits, place)}, expected {row_of(right[row], digits, place)}. "
        f"{inputs(probe, right.shape, place)}"
    ).rstrip()

"""The machinery of the checks: run an answer and a reference on the same probes, compare what is observed, name the cause.

A check is a list of probes, a reference and a list of known mistakes. A probe runs an answer once and returns what can
be observed: outputs, gradients, whether the input changed. The same probes run on the learner's answer, on the
reference, and, when they differ, on each known mistake: a mistake that is observed to do exactly what the learner's
answer does is the probable cause. An answer that matches no known mistake is still rejected, with the input on which
it fails.
"""

import contextlib
import functools
import io
import linecache
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lessonkit import _hook
from lessonkit._hook import YourTurn

__all__ = [
    "Mistake", "NotYet", "Probe", "YourTurn", "call", "choice", "examine", "in_float64", "quiet", "reject", "values",
]  # fmt: skip


class NotYet(AssertionError):
    """A wrong answer. Its text says what went in, what came out, what should have, and the probable cause."""

    def _render_traceback_(self):
        return str(self).splitlines()


@dataclass(frozen=True, eq=False)
class Probe:
    """One experiment on an answer.

    label: the input in plain words ("a row with offset 1000"); it completes the sentence "On ...".
    run: answer -> {what: value}; a value is a tensor, anything that == compares, or a Raised. It makes fresh inputs
        on every call.
    shown: {name: value} of the inputs, for the message; tensors are shown at the row that is most wrong.
    tolerance: largest allowed absolute difference of a floating-point tensor, as a multiple of max(1, |expected|).
    exact_dtype: whether a tensor's dtype must equal the reference's.
    """

    label: str
    run: Callable
    shown: dict = field(default_factory=dict)
    tolerance: float = 1e-9
    exact_dtype: bool = True
    elsewhere: Callable | None = None  # answer -> None, the same call with tensors on another device


@dataclass(frozen=True, eq=False)
class Mistake:
    """A known wrong answer: cause in plain words (a sentence or a question), and a function or class that makes it."""

    cause: str
    answer: Callable


@dataclass(frozen=True)
class Raised:
    """An exception that an answer raised, as something to compare: two are equal if they are of one type."""

    kind: type
    text: str = field(compare=False)
    line: str = field(default="", compare=False)


@contextlib.contextmanager
def quiet():
    """Keep what an answer prints, warns or draws at random out of the way, and let gradients be recorded."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
    ):
        warnings.simplefilter("ignore")
        yield


def in_float64(function):
    """Return function computed in float64: floating-point tensors go in as float64, outputs come back in x's dtype.

    x is the first tensor argument. Gradients flow through both conversions.
    """

    def widen(item):
        return item.double() if isinstance(item, torch.Tensor) and item.is_floating_point() else item

    def precise(*args, **kwargs):
        x = next(item for item in [*args, *kwargs.values()] if isinstance(item, torch.Tensor))
        out = function(*map(widen, args), **{name: widen(item) for name, item in kwargs.items()})
        return tuple(o.to(x.dtype) for o in out) if isinstance(out, tuple) else out.to(x.dtype)

    return precise


def call(label, *args, returns=("the result",), gradient=True, tolerance=1e-9, exact_dtype=True, names=("x",), **kwargs):
    """Return a Probe that calls a function answer once.

    args, kwargs: the inputs; tensors are cloned for every call.
    returns: what the outputs are called in messages; more than one name means that a tuple is expected.
    gradient: whether the gradients of sum(output * fixed random weights) in every floating-point input are compared.
    names: what the positional arguments are called in messages.
    """
    inputs = dict(zip(names, args, strict=False)) | kwargs

    def run(answer):
        fresh, watched = {}, {}
        for name, item in [*enumerate(args), *kwargs.items()]:
            if isinstance(item, torch.Tensor):
                item = item.detach().clone()
                if gradient and item.is_floating_point():
                    item.requires_grad_()
                watched[names[name] if isinstance(name, int) and name < len(names) else name] = item
            fresh[name] = item
        try:
            positional = [fresh[i] for i in range(len(args))]
            # Some in-place changes of a leaf raise, so the answer works on a copy whose gradient flows to the leaf.
            copies = {id(item): item.clone() if item.requires_grad else item for item in watched.values()}
            swap = lambda item: copies.get(id(item), item) if isinstance(item, torch.Tensor) else item  # noqa: E731
            out = answer(*map(swap, positional), **{name: swap(fresh[name]) for name in kwargs})
        except Exception as error:
            return {returns[0]: raised(error)}
        seen = {}
        for name, item in watched.items():  # first: an input changed in place explains what is wrong behind it
            seen[f"{name} after the call"] = copies[id(item)].detach()
        seen |= _outputs(out, returns)
        if gradient:
            seen |= _gradients(seen, returns, watched)
        return seen

    def elsewhere(answer):
        move = lambda item: item.to("meta") if isinstance(item, torch.Tensor) else item  # noqa: E731
        answer(*map(move, args), **{name: move(item) for name, item in kwargs.items()})

    return Probe(label, run, inputs, tolerance, exact_dtype, elsewhere)


def _outputs(out, returns):
    if len(returns) == 1:
        return {returns[0]: out}
    if not isinstance(out, (tuple, list)) or len(out) != len(returns):
        return {f"the pair ({', '.join(returns)})" if len(returns) == 2 else f"({', '.join(returns)})": _kind(out)}
    return dict(zip(returns, out, strict=True))


def _gradients(seen, returns, watched):
    """Return {"gradient of x": tensor or why there is none}; nothing if an output is no floating-point tensor."""
    outputs = [seen.get(name) for name in returns]
    if not all(isinstance(out, torch.Tensor) and out.is_floating_point() for out in outputs):
        return {}
    leaves = {name: item for name, item in watched.items() if item.requires_grad}
    if not all(out.requires_grad for out in outputs):
        return {f"gradient of {name}": "no gradient" for name in leaves}
    generator = torch.Generator().manual_seed(11)
    loss = 0
    for out in outputs:  # random weights: a plain sum cannot see every wrong gradient
        weights = torch.randn(out.shape, dtype=torch.float64, generator=generator)
        loss = loss + (out * weights.to(out.dtype)).sum()
    try:
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    except Exception as error:
        return {f"gradient of {next(iter(leaves), 'x')}": raised(error)}
    return {
        f"gradient of {name}": "no gradient" if value is None else value.detach()
        for name, value in zip(leaves, found, strict=True)
    }


def raised(error):
    """Return the Raised for an exception out of learner code; let YourTurn through, also behind a NameError."""
    mine = _hook.translate(error)
    if mine is not None:
        raise mine
    line = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):  # the learner's own line, not one inside torch
        if "ipykernel" in frame.filename or frame.filename.startswith("<ipython"):
            line = (frame.line or linecache.getline(frame.filename, frame.lineno)).strip()
            break
    return Raised(type(error), str(error).strip().partition("\n")[0], line)


def observe(probe, answer):
    """Run probe on answer quietly; an exception that run itself lets out becomes an observation."""
    with quiet():
        try:
            return probe.run(answer)
        except YourTurn:
            raise
        except (Exception, SystemExit) as error:
            return {"the result": raised(error)}


@functools.lru_cache(maxsize=10_000)
def _known(probe, answer):
    """Observe the reference or a known mistake, once: they do the same every time."""
    return observe(probe, answer)


def examine(answer, name, probes, reference, mistakes=(), tried=None, kind="function"):
    """Compare answer with reference on all probes; print one line if right, raise NotYet if not.

    name: what the learner calls it. kind: "function" or "class", what the check takes.
    tried: what the probes cover, in plain words; without it the probes' labels are listed.
    """
    if kind == "class" and not isinstance(answer, type):
        reject(f"check.{name} takes your class itself, not {_kind(answer)}: write the name without brackets.")
    if not callable(answer):
        reject(f"check.{name} takes your {kind} itself, not {_kind(answer)}: write check.{name}({name}), "
               f"without calling it first.")  # fmt: skip
    expected = [_known(probe, reference) for probe in probes]
    seen = []
    for probe, right in zip(probes, expected, strict=True):
        seen.append(observe(probe, answer))
        found = problem(seen[-1], right, probe)
        if found:
            seen += [observe(later, answer) for later in probes[len(seen) :]]
            reject(f"On {probe.label}: {found[0]}", _cause(seen, expected, probes, mistakes) or found[1])
    with quiet():
        elsewhere = _other_device(answer, probes)
    if elsewhere:
        reject(*elsewhere)
    print(f"Right: {name} agrees with a float64 reference on {len(probes)} inputs"
          f" ({tried or ', '.join(probe.label for probe in probes)}).")  # fmt: skip


def _cause(seen, right, probes, mistakes):
    """Return the cause of the first mistake that does what was seen; if the values are wrong, gradients may differ."""
    everything, values_only = (lambda observed: observed), _values
    wrong_values = any(not _same(_values(a), _values(b), p) for a, b, p in zip(seen, right, probes, strict=True))
    for part in (everything, values_only) if wrong_values else (everything,):
        for mistake in mistakes:
            if all(_same(part(a), part(_known(probe, mistake.answer)), probe) for a, probe in zip(seen, probes, strict=True)):
                return f"Probable cause: {mistake.cause}"
    return None


def _values(observed):
    return {what: value for what, value in observed.items() if not what.startswith("gradient of")}


def _same(a, b, probe):
    """Whether two observations agree: the rule by which an answer counts as a known mistake."""
    return a.keys() == b.keys() and problem(a, b, probe) is None


def problem(seen, right, probe):
    """Return (what is wrong, what it suggests or None) for the first observation that differs; None if all agree."""
    for what, value in seen.items():
        if isinstance(value, Raised) and value != right.get(what):
            if what.startswith("gradient of"):
                return f"{what} could not be computed ({value.kind.__name__}: {value.text}).", _GRADIENT
            at = f", at `{value.line}`" if value.line else ""
            return f"it raised {value.kind.__name__}{at}: {value.text}. {_inputs(probe)}", None
        if what not in right:
            return f"it returned {value}, expected {' and '.join(_outputs_of(right))}.", _returned(value)
        found = _difference(what, value, right[what], probe)
        if found:
            return found
    missing = [what for what in right if what not in seen]
    if missing:
        return f"{missing[0]} is missing.", None
    return None


def _outputs_of(right):
    return [what for what in right if not what.startswith("gradient of") and not what.endswith("after the call")]


_GRADIENT = ("Something cuts the way from the output back to the input: .detach(), .data, .item(), torch.no_grad(), "
             "torch.tensor(...) or NumPy.")  # fmt: skip


def _returned(value):
    return "Is the return missing at the end?" if value in (None, "nothing (None)") else None


def _difference(what, value, right, probe):
    if not isinstance(right, torch.Tensor):
        if _number_equals(value, right, probe.tolerance):
            return None
        if value is None:
            return f"it returned nothing (None), expected {_plain(right)}. {_inputs(probe)}".rstrip(), _returned(value)
        if isinstance(value, torch.Tensor) or type(value) is not type(right) or value != right:
            return f"{what}: yours is {_kind(value) if isinstance(value, torch.Tensor) else _plain(value)}, " \
                   f"expected {_plain(right)}. {_inputs(probe)}".rstrip(), None  # fmt: skip
        return None
    if not isinstance(value, torch.Tensor):
        if what.startswith("gradient of"):
            return f"there is no {what}.", _GRADIENT
        return f"it returned {_kind(value)}, expected a tensor of shape {tuple(right.shape)}.", _returned(value)
    if what.endswith("after the call"):
        if value.shape != right.shape or not torch.equal(torch.nan_to_num(value), torch.nan_to_num(right)):
            return f"your code changed its input {what.split()[0]}.", (
                "An operation in place (+=, *=, or a name that ends in _) works on the caller's tensor. "
                "Write x = x - mean, not x -= mean.")  # fmt: skip
        return None
    if value.shape != right.shape:
        return f"{what} has shape {tuple(value.shape)}, expected {tuple(right.shape)}. {_inputs(probe)}", None
    if probe.exact_dtype and value.dtype != right.dtype:
        return f"{what} has dtype {value.dtype}, expected {right.dtype}.", (
            "A conversion like .float() or torch.tensor(...) must be undone before the return: .to(x.dtype).")
    if right.numel() == 0 or _close(value, right, probe):
        return None
    return _numbers(what, value, right, probe), None


def _number_equals(value, right, tolerance):
    """Whether a plain number, or a tensor of one, is a float right within tolerance."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return type(right) is float and type(value) in (int, float) and (
        abs(value - right) <= tolerance * max(1, abs(right)) or value == right or value != value and right != right)  # fmt: skip


def _error(value, right):
    """|value - right| in float64, 0 where both are the same infinity or both nan, inf where only one is finite."""
    value, right = value.detach().double(), right.detach().double()
    gap = (value - right).abs()
    alike = (value == right) | (value.isnan() & right.isnan())
    return gap.masked_fill(~gap.isfinite(), float("inf")).masked_fill(alike, 0.0)


def _close(value, right, probe):
    finite = right.detach().double().abs().nan_to_num(0, 0, 0)
    return bool((_error(value, right) <= probe.tolerance * finite.max().clamp(min=1)).all())


def _numbers(what, value, right, probe):
    """Say which row is most wrong, what it should be, and the input row it belongs to."""
    if right.dim() == 0:
        return f"{what} is {_plain(value)}, expected {_plain(right)}. {_inputs(probe)}"
    worst = int(_error(value, right).argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(worst), right.shape)]
    row = tuple(place[:-1])
    where = f"[{', '.join(map(str, row))}]" if row else ""
    middle = place[-1]
    return (f"{what}{where} is {_row(value[row], middle)}, expected {_row(right[row], middle)}. "
            f"{_inputs(probe, row)}").rstrip()  # fmt: skip


def _row(tensor, middle=0, most=5):
    """At most five numbers of a row, those around position middle, with as many digits as tell values apart."""
    if tensor.dim() == 0:
        return _plain(tensor)
    start = max(0, min(middle - most // 2, len(tensor) - most))
    numbers = ", ".join(_plain(item) for item in tensor[start : start + most])
    return f"[{'…, ' if start else ''}{numbers}{', …' if start + most < len(tensor) else ''}]"


def _inputs(probe, row=()):
    """The inputs of a probe in short: small values in full, tensors with their shape and, if they have it, that row."""
    parts = []
    for name, item in probe.shown.items():
        if not isinstance(item, torch.Tensor) or item.numel() == 1:
            parts.append(f"{name} = {_plain(item)}")
        elif item.dim() == 1:
            parts.append(f"{name} = {_row(item)}")
        elif len(row) == item.dim() - 1:
            inside = tuple(min(i, size - 1) for i, size in zip(row, item.shape, strict=False))
            parts.append(f"{name}[{', '.join(map(str, inside))}] = {_row(item[inside])}")
        else:
            parts.append(f"{name} of shape {tuple(item.shape)}")
    return f"In: {', '.join(parts)}." if parts else ""


def _plain(value):
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else tuple(value.shape)
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _kind(value):
    if value is None:
        return "nothing (None)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


class _OneDevice(TorchDispatchMode):
    """Refuse an operation on the CPU and on meta together; some, like a matrix product, would let it pass."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [item for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor) and item.dim()]
        if {"cpu", "meta"} <= {item.device.type for item in tensors}:
            raise RuntimeError("two devices: cpu and meta")
        return function(*args, **kwargs or {})


def _other_device(answer, probes):
    """Call answer on the meta device, which no CPU tensor may meet; return (what, cause) if it cannot leave the CPU."""
    try:
        with _OneDevice():
            for probe in [probe for probe in probes if probe.elsewhere][:2]:
                probe.elsewhere(answer)
    except YourTurn:
        raise
    except Exception as error:  # .item() and the like fail on meta and work on a GPU: only a clash of devices counts
        if "device" in str(error) and "cpu" in str(error):
            return ("With x on another device than the CPU it raises an error.",
                    "A tensor made inside stays on the CPU: give it device=x.device, or derive it from x.")  # fmt: skip
    return None


def reject(what, cause=None):
    """Raise NotYet with what happened and, on a second line, the cause."""
    raise NotYet(f"Not yet. {what}" + (f"\n{cause}" if cause else "")) from None


def values(answer, name, expected, causes=(), tolerance=None):
    """Check a quiz answer: a dict of named values, or one value.

    expected: {question: value} or a value. A tuple of ints matches a list or torch.Size as well; a float is compared
        within tolerance (absolute; required if a value is a float).
    causes: [(question, wrong value, why)]: what a known wrong value tells; question is None for a single value.
    """
    single = not isinstance(expected, dict)
    expected = {None: expected} if single else expected
    given = {None: answer} if single else answer
    if not isinstance(given, dict):
        reject(f"check.{name} takes a dictionary with the keys {', '.join(map(repr, expected))}, not {_kind(answer)}.")
    missing = [key for key in expected if key not in given]
    unknown = [key for key in given if key not in expected]
    if missing or unknown:
        reject(f"{'These keys are missing: ' + ', '.join(map(repr, missing)) + '. ' if missing else ''}"
               f"{'These are unknown: ' + ', '.join(map(repr, unknown)) + '.' if unknown else ''}".strip())  # fmt: skip
    for key, right in expected.items():
        if not _equal(given[key], right, tolerance):
            why = next((w for k, wrong, w in causes if k == key and _equal(given[key], wrong, tolerance)), None)
            reject(f"{f'{key}: ' if key is not None else ''}{_plain_value(given[key])} is not right.", why)
    print(f"Right: {'all ' + str(len(expected)) + ' answers' if not single else name}.")


def _plain_value(value):
    return _kind(value) if isinstance(value, torch.Tensor) and value.numel() != 1 else _plain(value)


def _equal(given, right, tolerance):
    if isinstance(given, torch.Tensor) and given.numel() == 1:
        given = given.item()
    if isinstance(right, tuple):
        return isinstance(given, (tuple, list)) and tuple(given) == right
    if isinstance(right, bool) or isinstance(given, bool):
        return given is right
    if isinstance(right, float):
        return isinstance(given, (int, float)) and (given == right or abs(given - right) <= tolerance)
    if isinstance(right, str):
        return isinstance(given, str) and given.strip().lower() == right.lower()
    return type(given) in (int, float) and given == right if isinstance(right, int) else given == right


def choice(answer, name, options):
    """Check a prediction: answer is one of the keys of options, whose value is None if right and else says why not."""
    listed = ", ".join(map(repr, options))
    if not isinstance(answer, str) or answer.strip().lower() not in options:
        reject(f"check.{name} takes one of {listed}, not {_plain_value(answer)}.")
    if options[answer.strip().lower()] is not None:
        reject(f"{answer!r} is not what happens.", options[answer.strip().lower()])
    print(f"Right: {name}.")

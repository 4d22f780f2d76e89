"""The machinery of the checks: run an answer and a reference on the same probes, compare what is seen, name the cause.

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
import math
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lessonkit import _hook
from lessonkit._hook import YourTurn

__all__ = [
    "Mistake",
    "NotYet",
    "Probe",
    "YourTurn",
    "call",
    "call_layer",
    "choice",
    "draw",
    "examine",
    "filled",
    "gradients",
    "in_float64",
    "in_stages",
    "quiet",
    "refusing",
    "reject",
    "values",
]


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


@functools.lru_cache(64)  # one wrapper a function, so that _known finds its results again
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


def draw(seed, *shape, scale=1.0, mean=0.0, dtype=torch.float64):
    """Return Gaussian numbers of a shape from a generator of their own, drawn in float64, then cast to dtype."""
    generator = torch.Generator().manual_seed(seed)
    return (mean + scale * torch.randn(shape, dtype=torch.float64, generator=generator)).to(dtype)


def filled(layer, seed):
    """Give every parameter of a layer random values, in order; return the layer."""
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(seed + i, *parameter.shape))
    return layer


def refusing(call_answer):
    """Return a Probe's run: whether call_answer(answer) raises an error, and none by assert, which python -O skips."""

    def run(answer):
        try:
            call_answer(answer)
        except AssertionError:
            return {"the outcome": "an assert"}
        except Exception as error:
            raised(error)  # lets YourTurn through
            return {"the outcome": "an error"}
        return {"the outcome": "no error"}

    return run


def call(
    label, *args, returns=("the result",), gradient=True, tolerance=1e-9, exact_dtype=True, names=("x",), **kwargs
):
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
    """Return {"gradient of x": tensor or why there is none}; nothing if an output is no float tensor on the CPU."""
    outputs = [seen.get(name) for name in returns]
    if not all(isinstance(out, torch.Tensor) and out.is_floating_point() and out.is_cpu for out in outputs):
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
        return gradients(loss, leaves)
    except Exception as error:
        return {f"gradient of {next(iter(leaves), 'x')}": raised(error)}


def gradients(loss, leaves):
    """Return {"gradient of NAME": the gradient of loss, or that there is none}; leaves: {NAME: tensor}."""
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        f"gradient of {name}": "no gradient" if value is None else value.detach()
        for name, value in zip(leaves, found, strict=True)
    }


def call_layer(label, make, x, shown, tolerance=1e-9, parameters=None):
    """Return a Probe: output and gradients of a layer with random parameters; gradients only if x is float64.

    make: the learner's class -> layer. shown: its arguments, for the message. parameters: their dtype, else x's.
    """

    def run(cls):
        layer = filled(make(cls).to(parameters or x.dtype), 21)
        given = x.clone().requires_grad_()
        try:
            y = layer(given)
        except Exception as error:
            return {"the output": raised(error)}
        seen = {"the output": y.detach() if isinstance(y, torch.Tensor) else y}
        if not isinstance(y, torch.Tensor) or x.dtype != torch.float64:
            return seen
        leaves = {"x": given, **dict(layer.named_parameters())}
        if not y.requires_grad:
            return seen | {f"gradient of {name}": "no gradient" for name in leaves}
        return seen | gradients((y * draw(29, *y.shape)).sum(), leaves)

    return Probe(label, run, {"x": x, **shown}, tolerance)


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
    text = str(error).strip().partition("\n")[0] if error.args != (None,) else ""  # exit() gives None
    return Raised(type(error), text, line)


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
    _compare(answer, name, probes, reference, mistakes, kind)
    print(
        f"Right: {name} does what it should on {len(probes)} input{'s' if len(probes) > 1 else ''}"
        f" ({tried or ', '.join(probe.label for probe in probes)})."
    )


def in_stages(answer, name, stages, reference, right, kind="class"):
    """Examine answer stage by stage; print one line if all are right, raise NotYet for the first that fails if not.

    A mistake is recognized by what it does in its own stage, whatever the rest of the answer does. So of two mistakes
    at once each gets its cause, one after the other.

    stages: [(probes, mistakes)].
    right: the line for a right answer, with {answer.__name__} and {count}, the number of probes, to be filled in.
    """
    for probes, mistakes in stages:
        _compare(answer, name, probes, reference, mistakes, kind)
    print(f"Right: {right.format(answer=answer, count=sum(len(probes) for probes, _ in stages))}.")


def _compare(answer, name, probes, reference, mistakes, kind):
    """Raise NotYet if answer does not do what reference does on all probes."""
    _given(answer, name)
    if kind == "class" and not isinstance(answer, type):
        reject(f"check.{name} takes your class itself, not {_kind(answer)}: write the name without brackets.")
    if kind == "function" and isinstance(answer, type) and not isinstance(reference, type):
        reject(f"check.{name} takes your function itself, not a class.")
    if not callable(answer):
        reject(
            f"check.{name} takes your {kind} itself, not {_kind(answer)}: write check.{name}({name}), "
            f"without calling it first."
        )
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


def _given(answer, name):
    if answer is ...:
        reject(f"check.{name} got three dots: put your answer in their place.")


def _cause(seen, right, probes, mistakes):
    """Return the cause of the first mistake that does what was seen; if the values are wrong, gradients may differ."""
    everything, values_only = (lambda observed: observed), _values
    wrong_values = any(not _same(_values(a), _values(b), p) for a, b, p in zip(seen, right, probes, strict=True))
    for part in (everything, values_only) if wrong_values else (everything,):
        for mistake in mistakes:
            theirs = (_known(probe, mistake.answer) for probe in probes)
            if all(_same(part(a), part(b), probe) for a, b, probe in zip(seen, theirs, probes, strict=True)):
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
            return _raised(what, value, right.get(what), probe)
        if what not in right:
            error = next((item for item in right.values() if isinstance(item, Raised)), None)
            if error:
                return f"it raised no error, expected {_kind(error)}. {_inputs(probe)}".rstrip(), None
            mine = value if isinstance(value, str) else _kind(value)
            return f"it returned {mine}, expected {' and '.join(_outputs_of(right))}.", _returned(mine)
        found = _difference(what, value, right[what], probe, alone=len(_outputs_of(right)) == 1)
        if found:
            return found
    missing = [what for what in right if what not in seen]
    if missing:
        return f"{missing[0]} is missing.", None
    return None


def _raised(what, value, right, probe):
    """Say which exception came, where it did, and which should have come instead, if one should."""
    text = f": {_cut(value.text, 160)}" if value.text else ""
    if what.startswith("gradient of"):
        why = "An operation in place changed a tensor that the gradient needs." if "inplace" in value.text else None
        return f"{what} could not be computed ({value.kind.__name__}{text}).", why
    at = f", at `{_cut(value.line, 80)}`" if value.line else ""
    instead = f" Expected {_kind(right)}." if isinstance(right, Raised) else ""
    return f"it raised {_sentence(value.kind.__name__ + at + text)}{instead} {_inputs(probe)}".rstrip(), None


def _cut(text, most):
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _sentence(text):
    """Return text with a full stop, unless it ends in a mark of its own."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _outputs_of(right):
    return [what for what in right if not what.startswith("gradient of") and not what.endswith("after the call")]


_GRADIENT = (
    "Something cuts the way from the output back to the input: .detach(), .data, .item(), torch.no_grad(), "
    "torch.tensor(...) or NumPy."
)


_PARTLY = (
    "The values agree, the gradient does not: .detach(), .item() or torch.no_grad() on a part of the way, or a "
    "wrong backward."
)


def _returned(value):
    return "Is the return missing at the end?" if value == _kind(None) else None


def _difference(what, value, right, probe, alone=True):
    """Compare one observation. alone: whether it is the only output."""
    if not isinstance(right, torch.Tensor):
        if _number_equals(value, right, probe.tolerance) or _alike(value, right):
            return None
        if value is None:
            said = f"it returned nothing (None), expected {_sentence(_plain(right))}"
        else:
            said = _two(what, value, right)
        return f"{said} {_inputs(probe)}".rstrip(), _returned(_kind(value))
    if not isinstance(value, torch.Tensor):
        if what.startswith("gradient of"):
            return f"there is no {what}.", _GRADIENT
        who, mine = "it returned" if alone else f"{what} is", _kind(value)
        return f"{who} {mine}, expected a tensor of shape {tuple(right.shape)}.", _returned(mine) if alone else None
    if value.device != right.device:
        return f"{what} is on the device {value.device}, expected {right.device}.", None
    if what.endswith("after the call"):
        if value.shape != right.shape or not torch.equal(torch.nan_to_num(value), torch.nan_to_num(right)):
            return f"your code changed its input {what.split()[0]}.", (
                "An operation in place (+=, *=, or a name that ends in _) works on the caller's tensor. "
                "Write x = x - mean, not x -= mean."
            )
        return None
    if value.shape != right.shape:
        return f"{what} has shape {tuple(value.shape)}, expected {tuple(right.shape)}. {_inputs(probe)}".rstrip(), None
    if probe.exact_dtype and value.dtype != right.dtype:
        return f"{what} has dtype {value.dtype}, expected {right.dtype}.", (
            "A conversion like .float() or torch.tensor(...) must be undone before the return: .to(x.dtype)."
            if value.is_floating_point()
            else None
        )
    if right.numel() == 0 or _close(value, right, probe):
        return None
    hint = _PARTLY if what.startswith("gradient of") else None
    return _numbers(what, value, right, probe), _not_finite(value, right) or hint


def _alike(value, right):
    try:
        return type(value) is type(right) and bool(value == right)
    except (RuntimeError, TypeError, ValueError):  # a list with tensors or arrays in it has no truth value
        return False


def _two(what, value, right):
    """Say what two observations are that are no tensors, with their types if that is the difference."""
    digits = _digits(value, right)
    mine, theirs = (_number(x, digits) if type(x) is float else _kind(x, short=True) for x in (value, right))
    if mine == theirs:
        mine, theirs = f"{mine} ({type(value).__name__})", f"{theirs} ({type(right).__name__})"
    return f"{what}: yours is {mine}, expected {_sentence(theirs)}"


def _not_finite(value, right):
    """Say where nan or inf comes from; not for a single number, which a check may have put together itself."""
    if value.dim() == 0 or value.isfinite().all() or not right.isfinite().all():
        return None
    if value.isnan().any():
        return "nan comes from 0/0, from inf - inf, or from the root of a negative number."
    return "inf comes from a division by 0, or from a number that is too large for its dtype."


def _number_equals(value, right, tolerance):
    """Whether a plain number, or a tensor of one, is a float right within tolerance."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
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


def _close(value, right, probe):
    finite = right.detach().double().abs().nan_to_num(0, 0, 0)
    return bool((_error(value, right) <= probe.tolerance * finite.max().clamp(min=1)).all())


def _numbers(what, value, right, probe):
    """Say which row is most wrong, what it should be, and the input row it belongs to."""
    worst = int(_error(value, right).argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), right.shape)) if right.dim() else ()
    digits = _digits(value[place].item(), right[place].item())
    where, row = (f"[{', '.join(map(str, place[:-1]))}]" if len(place) > 1 else ""), place[:-1]
    return (
        f"{what}{where} is {_row(value[row], digits, place)}, expected {_row(right[row], digits, place)}. "
        f"{_inputs(probe, right.shape, place)}"
    ).rstrip()


def _digits(value, right):
    """How many significant digits tell two numbers apart: 4 if they do, else one more than just enough."""
    if type(value) is not float or type(right) is not float:
        return 4
    enough = next((digits for digits in range(4, 17) if f"{value:.{digits}g}" != f"{right:.{digits}g}"), 16)
    return enough if enough == 4 else enough + 1


def _number(value, digits=4):
    """A float as it is if that is short (1, 0.5), else with so many significant digits (1.000, 0.3333)."""
    if type(value) is not float or not math.isfinite(value):
        return str(value)
    if float(f"{value:.{digits}g}") == value:
        return f"{value + 0.0:.{max(digits, 6)}g}"  # + 0.0: no minus sign before a zero
    written = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e" in written and 1 <= abs(value) < 1e6 else written.rstrip(".")


def _row(tensor, digits=4, place=(0,), most=4):
    """At most four numbers of a row, those around the last index of place; a single number without brackets."""
    if tensor.dim() == 0:
        return _number(tensor.item(), digits)
    start = max(0, min(place[-1] - most // 2, len(tensor) - most))
    numbers = ", ".join(_number(item, digits) for item in tensor[start : start + most].tolist())
    return f"[{'…, ' if start else ''}{numbers}{', …' if start + most < len(tensor) else ''}]"


def _inputs(probe, shape=(), place=()):
    """The inputs of a probe in short: single values, shapes, and of the first tensor the row that an output belongs to.

    shape, place: of the output and of the number in it that is most wrong.
    """
    parts, first = [], True
    for name, item in probe.shown.items():
        if not isinstance(item, torch.Tensor) or item.numel() == 1:
            parts.append(f"{name} = {_plain(item)}")
            continue
        at = None  # the index of the row to show; None if the output's rows are not this tensor's
        if item.dim() == 1:
            at = ()
        elif shape and item.shape[:-1] in (shape, shape[:-1]):
            at = place[: item.dim() - 1]
        if first and at is not None and item.numel():
            where = f"[{', '.join(map(str, at))}]" if at else ""
            row = item[at]
            parts.append(f"{name}{where} = {_row(row, _spread_digits(row), place if item.shape == shape else (0,))}")
        else:
            parts.append(f"{name} of shape {tuple(item.shape)}")
        first = False
    return f"In: {', '.join(parts)}." if parts else ""


def _spread_digits(row):
    """Significant digits that show how the numbers of a row differ, also where they lie close together."""
    finite = row.detach().double()[row.isfinite()]
    spread = finite.max() - finite.min() if len(finite) else 0
    return 4 + (max(0, min(6, int(math.log10(finite.abs().max() / spread)))) if spread > 0 else 0)


def _plain(value):
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else tuple(value.shape)
    return f"{value:.6g}" if isinstance(value, float) else _cut(repr(value), 100)


def _kind(value, short=False):
    """What a value is, in words. short: the value itself, unless it is a tensor or nothing."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Raised):
        return f"{'an' if value.kind.__name__[0] in 'AEIOU' else 'a'} {value.kind.__name__}"
    if type(value).__module__ == "numpy" and hasattr(value, "shape"):
        return f"a NumPy array of shape {value.shape}" if value.shape else f"the NumPy number {value}"
    if short or isinstance(value, (str, bool)):
        return _plain(value)
    if isinstance(value, (int, float)):
        return f"the number {_plain(value)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    name = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


class _Factories(TorchFunctionMode):
    """Notice code that makes a tensor out of nothing or moves one to the CPU: only such code can leave x's device."""

    made = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in _device_constructors() or function in (torch.from_numpy, torch.Tensor.cpu, torch.Tensor.numpy):
            self.made = True
        return function(*args, **kwargs or {})

    def watch(self, answer):
        def watched(*args, **kwargs):
            with self:
                return answer(*args, **kwargs)

        return watched


class _OneDevice(TorchDispatchMode):
    """Refuse an operation on the CPU and on meta together; some, like a matrix product, would let it pass."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [item for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor) and item.dim()]
        if {"cpu", "meta"} <= {item.device.type for item in tensors}:
            raise RuntimeError("two devices: cpu and meta")
        return function(*args, **kwargs or {})


def _other_device(answer, probes):
    """Call answer on the meta device, which no CPU tensor may meet; return (what, cause) if it cannot leave the CPU."""
    chosen = [probe for probe in probes if probe.elsewhere][:2]
    try:
        if not isinstance(answer, type):  # torch loads its meta device for two seconds: not without a reason
            factories = _Factories()
            for probe in chosen:
                probe.run(factories.watch(answer))
            if not factories.made:
                return None
        with _OneDevice():
            for probe in chosen:
                probe.elsewhere(answer)
    except YourTurn:
        raise
    except (Exception, SystemExit) as error:  # .item() fails on meta and works on a GPU: only a clash of devices counts
        if "device" in str(error) and "cpu" in str(error):
            return (
                "With x on another device than the CPU it raises an error.",
                "A tensor made inside stays on the CPU: give it device=x.device, or derive it from x.",
            )
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
    _given(answer, name)
    single = not isinstance(expected, dict)
    expected = {None: expected} if single else expected
    given = {None: answer} if single else answer
    if not isinstance(given, dict):
        reject(f"check.{name} takes a dictionary with a value for each of {len(expected)} keys, not {_kind(answer)}.")
    missing = [key for key in expected if key not in given]
    unknown = [key for key in given if key not in expected]
    if missing or unknown:
        reject(f"{_listed('missing', missing)} {_listed('unknown', unknown)}".strip())
    for key, right in expected.items():
        if given[key] is ...:
            reject(f"{f'{key}: ' if key is not None else ''}put your answer in the place of the three dots.")
        if not _equal(given[key], right, tolerance):
            why = next((w for k, wrong, w in causes if k == key and _equal(given[key], wrong, tolerance)), None)
            if why is None and isinstance(right, bool) and not isinstance(given[key], bool):
                why = "The answer is one of Python's two words True and False."
            reject(f"{f'{key}: ' if key is not None else ''}{_plain_value(given[key])} is not right.", why)
    print(f"Right: {_plain(answer) if single else f'all {len(expected)} answers'}.")


def _listed(what, keys):
    """Say which keys are missing or unknown, at most two of them by name."""
    more = f" and {len(keys) - 2} more" if len(keys) > 2 else ""
    return f"{', '.join(map(repr, keys[:2]))}{more}: {what}." if keys else ""


def _plain_value(value):
    return _kind(value) if isinstance(value, torch.Tensor) and value.numel() != 1 else _plain(value)


def _equal(given, right, tolerance):
    if hasattr(given, "item") and math.prod(given.shape) == 1:  # a tensor or NumPy array of one number
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
    _given(answer, name)
    listed = ", ".join(map(repr, options))
    said = answer.strip().lower() if isinstance(answer, str) else None
    chosen = next((option for option in options if option.lower() == said), None)
    if chosen is None:
        reject(f"check.{name} takes one of {listed}, not {_plain_value(answer)}.")
    if options[chosen] is not None:
        reject(f"{chosen!r} is not what happens.", options[chosen])
    print(f"Right: {chosen!r}.")

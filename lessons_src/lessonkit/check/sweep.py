"""A contract says once what an exercise promises; the sweep that is derived from it finds what no case thought of.

A case of the sweep is one choice of every factor: axes, sizes, memory, values, number type, which inputs need a
gradient, options. Some forty cases hold every pair of choices. Each is a Probe like those written by hand, and the
right answer, in float64, says what is expected and how far off another one may be. The sweep comes last, when the
cases by hand and the misconceptions have spoken.
"""

import functools
import gc
import itertools
import random
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from lessonkit.check.cases import Probe, draw, filled, gradients
from lessonkit.check.layers import device_after_moving
from lessonkit.check.observing import quiet, raised
from lessonkit.check.verdicts import CHANGED, KEPT, Raised

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
# times the error of the reference itself, in the answer's number type and under a rounding of its inputs
ROOM = 30
TINY = {F64: 1e-20, F32: 1e-10}  # the square of a rounding of numbers of order 1: what is left of a variance of 0


@dataclass(frozen=True, eq=False)
class Contract:
    """What goes in and comes out, for every answer that keeps its promise.

    takes: {input: its axes}, in the order of the arguments. "... D": any axes, then D
        numbers; a word is a size, a number itself.
    returns: the outputs' names. More than one means that a tuple is expected.
    use: (answer, sizes, **options) -> a function or layer that takes the inputs in order. Without it: answer itself.
    options: keyword arguments of the answer, a dictionary each; the first are the usual ones.
    types: the number types that are promised. half: whether half precision is, computed in float32 and rounded once.
    sizes: {axis: its choices} where the usual ones do not fit; the first is the plainest.
    ranks: how many axes `...` may be. empty: whether an empty batch is promised, of a layer it is where `...` stands.
    devices: whether any device is, as it is by an answer that has an argument of this name.
    valid: {input: function} that makes ordinary random numbers ones that may go in (a variance: torch.abs), or a mask
        or whole numbers, which keep their type and are fixed.
    values: which kinds of numbers go in.
    gradient: how often it can be differentiated, 0, 1 or 2. fixed: inputs that need no gradient.
    """

    takes: dict
    returns: tuple = ("the result",)
    use: Callable = lambda answer, sizes, **options: functools.partial(answer, **options)
    options: tuple = ({},)
    types: tuple = (F64, F32)
    half: bool = False
    sizes: dict = None
    ranks: tuple = (1, 0, 2, 3, 4)
    empty: bool = False
    devices: bool = False
    valid: dict = None
    values: tuple = ("ordinary", "offset", "small", "outlier", "constant", "large")
    gradient: int = 2
    fixed: tuple = ()

    def axes(self):
        return [
            axis
            for axis in dict.fromkeys(" ".join(self.takes.values()).split())
            if axis != "..." and not axis.isdigit()
        ]

    def factors(self):
        """Return {factor: its choices}, the plainest choice of each first."""
        front = {"front axes": self.ranks, "rows": (2, 1, 3, 70)} if "..." in " ".join(self.takes.values()) else {}
        leaves = [name for name in self.takes if name not in self.fixed]
        needs = ["all", "none", *([f"only {name}" for name in leaves] if len(leaves) > 1 else [])]
        return {
            **{axis: (self.sizes or {}).get(axis, (7, 1, 2, 17, 64, 128, 1100)) for axis in self.axes()},
            **front,
            "memory": ("contiguous", "transposed", "expanded", "a slice"),
            "values": self.values,
            "options": tuple(range(len(self.options))),
            "number type": (*self.types, *((F16, BF16) if self.half else ())),
            "gradients": tuple(needs) if self.gradient else ("none",),
        }


@functools.cache
def sweep(contract):
    """Return the cases of a contract, a Probe each: all pairs of choices, chosen greedily, from a fixed seed."""
    factors, chance = contract.factors(), random.Random(0)
    pairs = lambda case: set(itertools.combinations(case.items(), 2))
    names = list(factors)
    left = {((a, i), (b, j)) for a, b in itertools.combinations(names, 2) for i in factors[a] for j in factors[b]}
    cases = [{name: choices[0] for name, choices in factors.items()}]
    left -= pairs(cases[0])
    order = sorted(left, key=str)
    for pair in order:
        if pair in left:
            tries = [{name: chance.choice(factors[name]) for name in names} | dict(pair) for _ in range(20)]
            cases.append(max(tries, key=lambda case: len(pairs(case) & left)))
            left -= pairs(cases[-1])
    if contract.gradient == 2:  # a second derivative takes three choices at once: each number of axes, each size once
        cases += [cases[0] | {name: i} for name in ("front axes", *contract.axes()) for i in factors.get(name, ())[1:]]
    # what follows says nothing of the other factors: cases of its own
    if contract.empty:
        cases += [cases[0] | {"rows": 0, "front axes": rank} for rank in (1, 3) if rank in contract.ranks]
    for name in (*contract.axes(), "rows"):  # larger than anything that an answer may have been fitted to
        largest = max(factors.get(name, (0,)))
        if largest > 9:
            cases.append(
                cases[0] | {name: largest + largest // 4 + 40, "gradients": "none", "number type": contract.types[-1]}
            )
    return [probe_of(contract, case) for case in cases] + [_elsewhere(contract)] * contract.devices


def _elsewhere(contract):
    """Return the Probe of the plainest case on another device: nothing is computed there, and no tensor may come in."""
    case = {name: choices[0] for name, choices in contract.factors().items()}
    probe = Probe("inputs on another device", functools.partial(_moved, contract, case))
    return replace(probe, expect=lambda _: ({_WHERE: "meta"}, {}), plainer=lambda fails: (_elsewhere(contract), []))


_WHERE = "the device of what comes out"


def _moved(contract, case, answer):
    function, _ = _made(contract, answer, case)
    return {_WHERE: device_after_moving(function, *(view(leaf) for leaf, view in _inputs(contract, case).values()))}


@functools.cache
def plain_cases(contract):
    """Return the plainest cases, of several sizes and numbers of axes, with their inputs to be shown."""
    factors = contract.factors()
    base = {name: choices[0] for name, choices in factors.items()}
    cases = [base, *(base | {axis: size} for axis in contract.axes() for size in factors[axis] if 2 < size < 100)]
    cases += [base | {"front axes": 2}] if 2 in factors.get("front axes", ()) else []
    given = [{name: view(leaf) for name, (leaf, view) in _inputs(contract, case).items()} for case in cases]
    room = 1e-9 if contract.types[0] == F64 else 1e-4
    return [
        replace(probe_of(contract, case), shown=shown, tolerance=room) for case, shown in zip(cases, given, strict=True)
    ]


def probe_of(contract, case):
    """Return the Probe of one case."""
    probe = Probe(_label(contract, case), functools.partial(_run, contract, case), expect=None)
    expect = functools.lru_cache(4)(functools.partial(_expected, contract, case))
    return replace(probe, expect=expect, plainer=functools.partial(_plainer, contract, case))


def _label(contract, case):
    shapes = ", ".join(f"{name} {_shape(contract, axes, case)}" for name, axes in contract.takes.items())
    words = [str(case["number type"]).removeprefix("torch.")]
    words += [case["memory"]] * (case["memory"] != "contiguous")
    words += [f"{case['values']} values"] * (case["values"] != "ordinary")
    words += [f"{name}={value}" for name, value in contract.options[case["options"]].items()]
    words += [f"where {case['gradients']} needs a gradient"] * case["gradients"].startswith("only")
    return f"{shapes} ({', '.join(words)})"


def _plainer(contract, case, fails):
    """Return (the plainest case that still fails, the choices without which it does not)."""
    factors = contract.factors()
    for name, choices in [*factors.items()] * 2:  # twice, since one factor may hide what another one does
        for choice in choices[: choices.index(case[name])] if case[name] in choices else choices:
            if fails(probe_of(contract, case | {name: choice})):
                case = case | {name: choice}
                break
    matters = {name: case[name] for name, choices in factors.items() if case[name] != choices[0]}
    words = [f"{name} = {str(choice).removeprefix('torch.')}" for name, choice in matters.items() if name != "options"]
    if "options" in matters:
        words += [f"{name}={value}" for name, value in contract.options[case["options"]].items()]
    return probe_of(contract, case), words


# ---- what goes in
def _shape(contract, axes, case):
    rows = case.get("rows")
    if rows and any(case[axis] > 300 for axis in contract.axes()):
        rows = min(rows, 3)  # wide and many at once shows nothing more, and takes its time
    front = [(), (rows,), (rows, 3), (2, rows, 3), (2, 1, rows, 2)][case.get("front axes", 0)]
    return tuple(
        itertools.chain(*(front if axis == "..." else (case.get(axis) or int(axis),) for axis in axes.split()))
    )


def _numbers(contract, name, case, seed):
    shape = _shape(contract, contract.takes[name], case)
    numbers = draw(seed, *shape)
    change = (contract.valid or {}).get(name)
    if change:
        numbers = change(numbers)
    elif "..." in contract.takes[name] or len(contract.takes) == 1:  # the inputs carry the values, parameters do not
        kind = case["values"]
        if kind == "offset":
            offset = torch.full(numbers.shape[:1], {F64: 1e4, F32: 100.0}.get(case["number type"], 50.0), dtype=F64)
            if case.get("front axes"):
                offset[1::2] *= -1  # rows far from each other: what is near one of them is not near all
            numbers = numbers + offset.view(-1, *[1] * (numbers.dim() - 1))
        elif kind == "small":
            numbers = numbers * 1e-3
        elif kind == "outlier" and numbers.dim() and numbers.numel():
            numbers[..., -1] = 300.0
        elif kind == "constant" and numbers.dim():
            numbers = numbers[..., :1].expand(shape).clone()
        elif kind == "large":
            numbers = numbers * (4000 if case["number type"] == F16 else 1e8)
    return _as(numbers, case["number type"])


def _as(numbers, dtype):
    """Numbers in a number type; a mask or whole numbers stay what they are."""
    return numbers.to(dtype) if numbers.is_floating_point() else numbers


def _inputs(contract, case):
    """Return {name: (leaf, view)}: view(leaf) is what goes in, in the memory order of the case."""
    inputs = {}
    for i, name in enumerate(contract.takes):
        numbers, memory = _numbers(contract, name, case, 100 + i), case["memory"]
        if memory == "transposed" and numbers.dim() > 1:
            inputs[name] = numbers.movedim(-1, 0).contiguous(), lambda leaf: leaf.movedim(0, -1)
        elif memory == "expanded" and numbers.dim() > 1 and len(numbers):
            inputs[name] = numbers[:1].clone(), lambda leaf, shape=numbers.shape: leaf.expand(shape)
        elif memory == "a slice" and numbers.dim():
            inputs[name] = torch.stack([numbers.roll(1), numbers], -1).flatten(-2), lambda leaf: leaf[..., 1::2]
        else:
            inputs[name] = numbers, lambda leaf: leaf
    return inputs


def _made(contract, answer, case, dtype=None):
    """Return (function of the inputs, {name: parameter}); a layer gets random parameters that every answer gets."""
    sizes = {axis: case[axis] for axis in contract.axes()}
    function = contract.use(answer, sizes, **contract.options[case["options"]])
    if not isinstance(function, nn.Module):
        return function, {}
    function = filled(function.to(case["number type"]), 21).to(dtype or case["number type"])
    return function, dict(function.named_parameters())


# ---- what is observed
def _run(contract, case, answer):
    """Observe one case: outputs and, where the case asks for them, first and second derivatives."""
    inputs = _inputs(contract, case)
    function, parameters = _made(contract, answer, case)
    seen, left = {}, []

    def used(copies, records):
        before = {name: (copy._version, copy.detach().clone()) for name, copy in copies.items()}
        needs = {name: copy.requires_grad for name, copy in copies.items()}
        left.extend((f"its input {name}", weakref.ref(copy.untyped_storage())) for name, copy in copies.items())
        with torch.set_grad_enabled(records):
            outputs = function(*(inputs[name][1](copy) for name, copy in copies.items()))
            if torch.is_grad_enabled() != records:
                seen[CHANGED] = "whether gradients are recorded (torch.set_grad_enabled)"
        for name, copy in copies.items():
            if copy._version != before[name][0] or not _equal(copy, before[name][1]):
                seen[CHANGED] = f"its input {name}"
            elif copy.requires_grad != needs[name]:
                seen[CHANGED] = f"whether {name} needs a gradient (requires_grad_)"
        return outputs

    torch.default_generator.manual_seed(_SEED)
    # other numbers of the same shapes first: what is kept from call to call shows, and what is changed under no_grad
    first = used({n: leaf.flip(-1) if leaf.dim() else leaf.clone() for n, (leaf, _) in inputs.items()}, records=False)
    kept = [(out, out.detach().clone()) for out in _tensors(first)]
    leaves = {name: leaf.clone().requires_grad_(_needs(contract, case, name)) for name, (leaf, _) in inputs.items()}
    left += [(f"its input {name}", weakref.ref(leaf.untyped_storage())) for name, leaf in leaves.items()]  # of a graph
    outputs = used({name: leaf.clone() for name, leaf in leaves.items()}, records=True)
    if any(not _equal(out, before) for out, before in kept):
        seen[CHANGED] = "what it had returned for the call before: both share their memory"
    if torch.default_generator.initial_seed() != _SEED:
        seen[CHANGED] = "the random generator of the whole notebook (torch.manual_seed)"
    seen |= _observed(contract, case, outputs, leaves | parameters)
    del outputs, first, kept, leaves
    if any(memory() for _, memory in left):
        gc.collect(0)  # what refers to itself goes only then
    given_out = {value.untyped_storage().data_ptr() for value in seen.values() if isinstance(value, torch.Tensor)}
    alive = [what for what, memory in left if memory() and memory().data_ptr() not in given_out]
    if not alive or CHANGED in seen or any(isinstance(value, Raised) for value in seen.values()):  # errors keep graphs
        return seen
    return seen | {CHANGED: f"{KEPT} {alive[0]}"}


_SEED = 2**40 + 11


def _tensors(outputs):
    return [out for out in (outputs if isinstance(outputs, (tuple, list)) else [outputs]) if torch.is_tensor(out)]


def _equal(tensor, other):
    return torch.equal(tensor.detach().nan_to_num(), other.nan_to_num())


def _needs(contract, case, name):
    return name not in contract.fixed and case["gradients"] in ("all", f"only {name}")


def _observed(contract, case, outputs, leaves):
    """Return {what: value} of what came out, in the contract's words, and of its derivatives by the leaves."""
    names = contract.returns
    if len(names) > 1 and (not isinstance(outputs, (tuple, list)) or len(outputs) != len(names)):
        return {f"({', '.join(names)})": f"a {type(outputs).__name__}"}
    outputs = dict(zip(names, [outputs] if len(names) == 1 else outputs, strict=True))
    seen = {name: out.detach() if isinstance(out, torch.Tensor) else out for name, out in outputs.items()}
    wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    floats = all(isinstance(out, torch.Tensor) and out.is_floating_point() for out in outputs.values())
    half = case["number type"] in (F16, BF16)  # there the gradient of ordinary numbers tells whether it is there
    if not wanted or not floats or half and case["values"] != "ordinary":
        return seen
    arriving = [draw(90 + i, *out.shape).to(out.dtype).requires_grad_() for i, out in enumerate(outputs.values())]
    loss = sum((out * a).sum() for out, a in zip(outputs.values(), arriving, strict=True))
    twice = contract.gradient == 2 and case["number type"] == F64 and case["gradients"] == "all"
    try:
        first = torch.autograd.grad(loss, list(wanted.values()), create_graph=twice, allow_unused=True)
        seen |= {
            f"gradient of {name}": "no gradient" if g is None else g.detach()
            for name, g in zip(wanted, first, strict=True)
        }
        by_name = [g for _, g in sorted(zip(wanted, first, strict=True))]  # parameters may be made in any order
        again = [(g * draw(80 + i, *g.shape)).sum() for i, g in enumerate(by_name) if g is not None and g.requires_grad]
        if twice and again:
            wanted |= {f"what arrives at {name}": a for name, a in zip(names, arriving, strict=True)}
            second = gradients(sum(again), wanted)
            seen |= {what.replace("gradient of", "gradient of the gradient in"): g for what, g in second.items()}
        elif twice:
            seen |= {f"gradient of the gradient in {name}": "no gradient" for name in wanted}
    except Exception as error:
        seen[f"gradient of {next(iter(wanted))}"] = raised(error)
    return seen


# ---- what is expected
def _expected(contract, case, reference):
    """Return ({what: value}, {what: how far off a right answer may be}).

    The room is ROOM times what the reference itself is off when it computes in the answer's number type and its inputs
    move by some roundings. And some roundings of the largest value, for what cancels.
    """
    dtype = case["number type"]
    inside = F32 if dtype in (F16, BF16) else dtype
    exact = _reference(contract, case, reference, F64)
    bent = _reference(contract, case, reference, inside, nudge=4 * torch.finfo(inside).eps)
    inputs = [leaf for leaf, _ in _inputs(contract, case).values() if leaf.is_floating_point() and leaf.numel()]
    largest = max((leaf.abs().max().item() for leaf in inputs), default=0.0)
    scale = {}
    for what, value in exact.items():
        if isinstance(value, torch.Tensor) and value.numel():
            least = 1.0 if what.startswith("gradient") else 0.0  # where all terms cancel, only rounding is left
            scale[_order(what)] = max(scale.get(_order(what), least), value.abs().max().item())
    # where an output is nothing but canceled numbers, so is what its derivatives are made of
    nothing = any(_is_nothing(value, largest) for what, value in exact.items() if not what.startswith("gradient"))
    right, room = {}, {}
    for what, value in exact.items():
        right[what], room[what] = _as(value, dtype) if isinstance(value, torch.Tensor) else value, 0.0
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        other = bent.get(what)
        gap = (other.double() - value).abs().max().item() if isinstance(other, torch.Tensor) else 0.0
        rounding = (1e-10 if inside == F64 else 16 * torch.finfo(F32).eps) * scale[_order(what)] + TINY[inside]
        roundings = 32 if what.startswith("gradient") else 2
        once = roundings * torch.finfo(dtype).eps * value.abs().max().item() if dtype != inside else 0.0
        if nothing or not what.startswith("gradient") and value.abs().max() < 1e-6 * largest:  # the inputs cancel
            rounding += 64 * torch.finfo(inside).eps * largest
        finite = value.abs().max().item() < torch.finfo(dtype).max / 4 and gap < float("inf")
        if finite:
            right[what], room[what] = value.to(dtype), ROOM * gap + rounding + once
        else:
            del right[what]  # too large for the number type: whatever comes is as good
    return right, room


def _is_nothing(value, largest):
    return isinstance(value, torch.Tensor) and value.numel() > 0 and value.abs().max() < 1e-12 * largest


def _order(what):
    return what.rpartition(" ")[0] if what.startswith("gradient") else what


def _reference(contract, case, reference, dtype, nudge=0.0):
    """Return what the reference gives on the inputs of a case in plain memory, computed in dtype."""
    generator, inputs = torch.Generator().manual_seed(5), _inputs(contract, case)

    def moved(item):
        if not item.is_floating_point():
            return item
        return _as(item * (1 + nudge * (2 * torch.rand(item.shape, dtype=F64, generator=generator) - 1)), dtype)

    leaves = {name: moved(leaf).requires_grad_(_needs(contract, case, name)) for name, (leaf, _) in inputs.items()}
    with quiet():
        function, parameters = _made(contract, getattr(reference, "plain", reference), case, dtype)
        entering = [view(leaves[name]).contiguous() for name, (_, view) in inputs.items()]
        if nudge and case["memory"] == "expanded":  # equal rows round alike in the reference, not in every answer
            entering = [moved(item) for item in entering]
        outputs = function(*entering)
        return _observed(contract, case, outputs, leaves | parameters)

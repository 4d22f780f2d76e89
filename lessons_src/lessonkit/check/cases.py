"""Cases: one experiment each on an answer, what goes in and what is looked at.

A Probe is run on the learner's answer, on the right one and on each misconception, and says the same of all three: it
does not know what is right.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from lessonkit.check.observing import raised
from lessonkit.check.verdicts import Raised, kind_of


@dataclass(frozen=True, eq=False)
class Probe:
    """One experiment on an answer.

    label: the input in plain words ("a row with offset 1000"); it completes the sentence "On ...".
    run: answer -> {what: value}; a value is a tensor, anything that == compares, or a Raised. It makes fresh inputs
        on every call. What begins with "_" is not compared: it is for why.
    shown: {name: value} of the inputs, for the message; tensors are shown at the row that is most wrong.
    tolerance: largest allowed absolute difference of a floating-point tensor, as a multiple of max(1, |expected|).
    """

    label: str
    run: Callable
    shown: dict = field(default_factory=dict)
    tolerance: float = 1e-9
    why: str | Callable = ""  # what a failure suggests, where nothing else does; or a function of what was observed
    seconds: float = 5.0  # of computing, before an answer is stopped: a loop may not end
    expect: Callable | None = None  # of a contract's case: reference -> what is expected, and how far off it may be
    plainer: Callable | None = None  # of a contract's case: the plainest case that fails, see contract
    reads: Callable | None = None  # what run has seen -> what is compared; a judgment that is made outside a jail
    anew: Callable | None = None  # seed -> this experiment on inputs that it draws, of which reads must say the same


# ---- what goes in
def draw(seed, *shape, scale=1.0, mean=0.0, dtype=torch.float64):
    """Return Gaussian numbers of a shape from a generator of their own, drawn in float64, then cast to dtype."""
    generator = torch.Generator().manual_seed(seed)
    return (mean + scale * torch.randn(shape, dtype=torch.float64, generator=generator)).to(dtype)


def numbers(*values, dtype=torch.float64):
    """Return numbers, (n,), or rows of them, (B, n), as a tensor, rounded once."""
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def filled(layer, seed):
    """Give every parameter of a layer random values, in the order of their names; return the layer."""
    with torch.no_grad():
        for i, (_, parameter) in enumerate(sorted(layer.named_parameters())):
            parameter.copy_(draw(seed + i, *parameter.shape))
    return layer


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

    precise.plain = function  # for the sweep of a contract, which chooses the number type itself
    return precise


# ---- what is looked at
def call(label, *args, returns=("the result",), gradient=True, tolerance=1e-9, names=("x",), **kwargs):
    """Return a Probe that calls a function answer once.

    args, kwargs: the inputs; tensors are cloned for every call.
    returns: what the outputs are called in messages; more than one name means that a tuple is expected.
    gradient: whether the gradients of sum(output * fixed random weights) in every floating-point input are compared.
    names: what the positional arguments are called in messages; the others are not shown.
    """
    positional = [*names, *range(len(names), len(args))][: len(args)]
    inputs = dict(zip(positional, args, strict=True)) | kwargs
    tensors = {name: item.detach() for name, item in inputs.items() if isinstance(item, torch.Tensor)}

    def run(answer):
        leaves = {n: t.clone().requires_grad_(gradient and t.is_floating_point()) for n, t in tensors.items()}
        # Some in-place changes of a leaf raise, so the answer works on a copy whose gradient flows to the leaf.
        copies = {name: leaf.clone() for name, leaf in leaves.items()}
        fresh = inputs | copies
        try:
            out = answer(*(fresh[name] for name in positional), **{name: fresh[name] for name in kwargs})
        except Exception as error:
            return {returns[0]: raised(error)}
        # first: an input changed in place explains what is wrong behind it
        seen = {f"{name} after the call": copy.detach() for name, copy in copies.items()} | _outputs(out, returns)
        return seen | (_gradients(seen, returns, leaves) if gradient else {})

    return Probe(label, run, {name: item for name, item in inputs.items() if isinstance(name, str)}, tolerance)


def _outputs(out, returns):
    if len(returns) == 1:
        return {returns[0]: out}
    if not isinstance(out, (tuple, list)) or len(out) != len(returns):
        return {f"the pair ({', '.join(returns)})" if len(returns) == 2 else f"({', '.join(returns)})": kind_of(out)}
    return dict(zip(returns, out, strict=True))


def _gradients(seen, returns, inputs):
    """Return {"gradient of x": tensor or why there is none}; nothing if an output is no float tensor on the CPU."""
    outputs = [seen.get(name) for name in returns]
    if not all(isinstance(out, torch.Tensor) and out.is_floating_point() and out.is_cpu for out in outputs):
        return {}
    leaves = {name: item for name, item in inputs.items() if item.requires_grad}
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


def gradients(loss, leaves, arriving=None):
    """Return {"gradient of NAME": the gradient of loss, or that there is none}; leaves: {NAME: tensor}.

    arriving: the gradient that arrives at loss, if that is not a single number.
    """
    if not loss.requires_grad:
        return {f"gradient of {name}": "no gradient" for name in leaves}
    computed = torch.autograd.grad(loss, list(leaves.values()), arriving, allow_unused=True)
    return {
        f"gradient of {name}": "no gradient" if value is None else value.detach()
        for name, value in zip(leaves, computed, strict=True)
    }


def call_layer(label, make, x, shown, tolerance=1e-9, parameters=None):
    """Return a Probe: a layer with random parameters, its input afterwards, output and, if x is float64, gradients.

    make: the learner's class -> layer. shown: its arguments, for the message. parameters: their dtype, else x's.
    """

    def run(cls):
        layer = filled(make(cls).to(parameters or x.dtype), 21)
        leaf = x.clone().requires_grad_()
        argument = leaf.clone()  # in-place changes of a leaf would raise
        try:
            y = layer(argument)
        except Exception as error:
            return {"the output": raised(error)}
        seen = {"x after the call": argument.detach(), "the output": y.detach() if isinstance(y, torch.Tensor) else y}
        if not isinstance(y, torch.Tensor) or x.dtype != torch.float64:
            return seen
        leaves = {"x": leaf, **dict(layer.named_parameters())}
        return seen | gradients((y * draw(29, *y.shape)).sum(), leaves)

    return Probe(label, run, {"x": x, **shown}, tolerance)


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


def verdict_on(label, layer, right, why=""):
    """Return a Probe: what an answer, a test of layers, says of one. Of a wrong layer an error says the same as False.

    why: as of a Probe.
    """

    def run(answer):
        try:
            returned = answer(layer)
        except Exception as error:
            return {"the verdict": raised(error)}  # lets YourTurn through
        # of a tensor, an array or a number
        kind = str(getattr(returned, "dtype", type(returned).__name__)).removeprefix("torch.")
        if kind.startswith("float"):
            return {"the verdict": "a number"}
        if kind == "bool" and getattr(returned, "shape", ()) != ():
            return {"the verdict": "one for each number"}
        return {"the verdict": bool(returned) if kind == "bool" else returned}

    def reads(seen):
        return {"the verdict": False} if not right and isinstance(seen.get("the verdict"), Raised) else seen

    return Probe(label, run, reads=reads, why=why)

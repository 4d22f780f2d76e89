"""What every layer promises, however it is written: it shares nothing, can be copied, has no moods, and can be moved.

Each law compares a layer with itself, so there is no right answer to compare it with.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

from lessonkit.check.cases import Probe, draw, filled, gradients


def of_a_layer(make, *inputs, other=None, moods=False):
    """Return probes of what every layer promises: it shares nothing, can be copied, and has no moods.

    make: the class -> a layer. It is tried in float64. inputs: tensors that go in.
    other: the class -> a layer with other options, where there are any. moods: whether it may differ in eval().
    """
    tries = _Tries(make, inputs, other or make)
    laws = {
        "a layer after another one was made and used": (tries.after_another, _SHARED),
        "a layer after other batches": (tries.after_other_batches, _KEPT),
        "copy.deepcopy(layer), with other parameters then": (tries.copied, _TIED),
        "a layer that has loaded the state_dict of another one": (tries.loaded, ""),
        "a layer with frozen parameters": (tries.frozen, ""),
        "a layer whose input needs no gradient, as the first of a net": (tries.first_of_a_net, ""),
        "a layer in train() and in eval()": (tries.in_both_modes, "eval() must give what train() gives."),
    }
    probes = [Probe(label, law, why=why, reads=_pairs) for label, (law, why) in laws.items()]
    return probes[:-1] if moods else probes


_SHARED = "Two layers share something: in the class, a list or a global name."
_KEPT = "Something is kept from an earlier call: in self, in the class, in a list or a global name."
_TIED = "A lambda or a bound function kept in self is not copied with it; a result kept there cannot be."


@dataclass(frozen=True)
class _Tries:
    """What is tried with layers of a class; each returns {what: (value, what it should be)}."""

    make: Callable
    inputs: tuple
    other: Callable

    def fresh(self, cls, seed=21):
        return filled(self.make(cls).double(), seed)

    def clones(self):
        return [item.clone() for item in self.inputs]

    def alone(self, cls, seed=21):
        return self.fresh(cls, seed)(*self.clones())

    def after_another(self, cls):
        layer = self.fresh(cls)
        filled(self.other(cls).double(), 31)(*_others(self.inputs))
        seen = {"the output": (layer(*self.clones()), self.alone(cls))}
        own = not list(layer.parameters()) or _like(self.alone(cls, 31), self.alone(cls)) != _GOOD
        return seen | {"the parameters that it uses": "its own" if own else "those of all layers"}

    def after_other_batches(self, cls):
        layer = self.fresh(cls)
        layer(*_others(self.inputs)), layer(*(item[:1] for item in self.clones()))
        return {"the output": (layer(*self.clones()), self.alone(cls))}

    def copied(self, cls):
        layer = self.fresh(cls)
        layer(*_others(self.inputs))
        twin = filled(copy.deepcopy(layer), 41)
        seen = {"the output of the copy": (twin(*self.clones()), self.alone(cls, 41))}
        return seen | {"the output of the layer": (layer(*self.clones()), self.alone(cls))}

    def loaded(self, cls):
        layer, other = self.fresh(cls, 31), self.fresh(cls, 31)
        layer.load_state_dict(self.fresh(cls).state_dict())
        other.load_state_dict(self.fresh(cls).state_dict(), assign=True)
        seen = {"the output": (layer(*self.clones()), self.alone(cls))}
        return seen | {"the output with assign=True": (other(*self.clones()), self.alone(cls))}

    def frozen(self, cls):
        return {"the output": (self.fresh(cls).requires_grad_(False)(*self.clones()), self.alone(cls))}

    def first_of_a_net(self, cls):
        seen = []
        for item in (self.clones(), [t.requires_grad_(t.is_floating_point()) for t in self.clones()]):
            layer = self.fresh(cls)
            seen.append(_slopes(layer, layer(*item)))
        return {"the gradients of its parameters": _as_they_should(*seen)}

    def in_both_modes(self, cls):
        """In each mode other numbers go in before: what is kept from them shows."""
        layer, seen = self.fresh(cls), []
        for mode in (True, False):
            layer.train(mode)(*_others(self.inputs))
            output = layer(*self.clones())
            seen.append((output, _slopes(layer, output)))
        (trained, slopes), (evaluated, others) = seen
        words = {"the gradients of its parameters in eval()": _as_they_should(others, slopes)}
        return {"the output in eval()": (evaluated, trained)} | words


def _as_they_should(slopes, expected):
    wrong = [what for what, value in expected.items() if _like(slopes.get(what), value) != _GOOD]
    return "different" if wrong else _GOOD


def _others(inputs):
    """Return other numbers of the same shapes; a mask or whole numbers stay what they are."""
    return [3 * item.flip(-1) if item.is_floating_point() else item.clone() for item in inputs]


def _slopes(layer, output):
    """Return the gradients of a layer's parameters, {} where there are none."""
    leaves = dict(layer.named_parameters())
    return gradients((output * draw(29, *output.shape)).sum(), leaves) if leaves and output.requires_grad else {}


_GOOD = "as it should be"


def _pairs(seen):
    """Return what was seen with two outputs compared, where there are two."""
    return {what: _like(*value) if isinstance(value, tuple) else value for what, value in seen.items()}


def _like(output, alone):
    """Say whether an output is what a layer gives by itself."""
    if not isinstance(output, torch.Tensor) or not isinstance(alone, torch.Tensor):
        return _GOOD if type(output) is type(alone) else f"a {type(output).__name__}"
    same = output.shape == alone.shape and torch.allclose(output, alone, rtol=1e-9, atol=1e-12, equal_nan=True)
    return _GOOD if same else "different"


# ---- whether it can leave the CPU: it is called once on the meta device, which no CPU tensor may meet
class _Watch(TorchFunctionMode):
    """Notice what can leave x's device: making a tensor, moving one to the CPU, joining `own` tensors with others."""

    def __init__(self, own):
        super().__init__()
        self.can_leave, self.own = False, [tensor.untyped_storage() for tensor in own]  # kept: no address comes twice

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **kwargs or {})
        self.can_leave |= function in {*_device_constructors(), torch.from_numpy, torch.Tensor.cpu, torch.Tensor.numpy}
        tensors = [item for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        if any(map(self.owns, tensors)):
            self.can_leave |= any(item.dim() and not self.owns(item) for item in tensors)  # a number may join
            self.own += [item.untyped_storage() for item in tree_leaves(out) if isinstance(item, torch.Tensor)]
        return out

    def owns(self, tensor):
        return any(tensor.untyped_storage()._cdata == storage._cdata for storage in self.own)


def device_after_moving(layer, *inputs):
    """Return the device of what a layer, or function, makes after all has moved to meta, "meta" if it can."""
    moves = isinstance(layer, torch.nn.Module)
    watch = _Watch([*inputs, *layer.parameters(), *layer.buffers()] if moves else inputs)
    with watch:
        out = layer(*inputs)
    parts = layer.modules() if moves else ()
    plain = [item for part in parts for item in vars(part).values() if isinstance(item, torch.Tensor)]
    if (
        watch.can_leave or plain or not all(map(watch.owns, tree_leaves(out)))
    ):  # torch loads its meta device for two seconds
        layer = layer.to("meta") if moves else layer
        return str(tree_leaves(layer(*(item.to("meta") for item in inputs)))[0].device)
    return "meta"  # made of x and of what .to() moves alone, it is where they are

"""What every layer promises, however it is written: it shares nothing, can be copied, has no moods, and can be moved.

Each law compares a layer with itself, so there is no right answer to compare it with.
"""

import copy

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

from lessonkit.check.cases import Probe, draw, filled, gradients


def of_a_layer(make, *inputs, other=None, moods=False):
    """Return probes of what every layer promises: it shares nothing, can be copied, and has no moods.

    Each compares the layer with itself, so that it does not matter how a layer is written.
    make: the class -> a layer. It is tried in float64. inputs: tensors that go in.
    other: the class -> a layer with other options, where there are any. moods: whether it may differ in eval().
    """

    def fresh(cls, seed=21):
        return filled(make(cls).double(), seed)

    def clones():
        return [item.clone() for item in inputs]

    def alone(cls, seed=21):
        return fresh(cls, seed)(*clones())

    def after_another(cls):
        layer = fresh(cls)
        filled((other or make)(cls).double(), 31)(*_others(inputs))
        seen = {"the output": (layer(*clones()), alone(cls))}
        own = not list(layer.parameters()) or _like(alone(cls, 31), alone(cls)) != _GOOD
        return seen | {"the parameters that it uses": "its own" if own else "those of all layers"}

    def after_other_batches(cls):
        layer = fresh(cls)
        layer(*_others(inputs)), layer(*(item[:1] for item in clones()))
        return {"the output": (layer(*clones()), alone(cls))}

    def copied(cls):
        layer = fresh(cls)
        layer(*_others(inputs))
        twin = filled(copy.deepcopy(layer), 41)
        seen = {"the output of the copy": (twin(*clones()), alone(cls, 41))}
        return seen | {"the output of the layer": (layer(*clones()), alone(cls))}

    def loaded(cls):
        layer = fresh(cls, 31)
        layer.load_state_dict(fresh(cls).state_dict())
        other = fresh(cls, 31)
        other.load_state_dict(fresh(cls).state_dict(), assign=True)
        seen = {"the output with assign=True": (other(*clones()), alone(cls))}
        return {"the output": (layer(*clones()), alone(cls))} | seen

    def frozen(cls):
        return {"the output": (fresh(cls).requires_grad_(False)(*clones()), alone(cls))}

    def first(cls):
        seen = []
        for item in (clones(), [t.requires_grad_(t.is_floating_point()) for t in clones()]):
            layer = fresh(cls)
            seen.append(_slopes(layer, layer(*item)))
        wrong = [what for what, value in seen[1].items() if _like(seen[0].get(what), value) != _GOOD]
        return {"the gradients of its parameters": "different" if wrong else _GOOD}

    shared = "Two layers share something: in the class, a list or a global name."
    kept = "Something is kept from an earlier call: in self, in the class, in a list or a global name."
    tied = "A lambda or a bound function kept in self is not copied with it; a result kept there cannot be."
    probes = [
        Probe("a layer after another one was made and used", after_another, why=shared, reads=_pairs),
        Probe("a layer after other batches", after_other_batches, why=kept, reads=_pairs),
        Probe("copy.deepcopy(layer), with other parameters then", copied, why=tied, reads=_pairs),
        Probe("a layer that has loaded the state_dict of another one", loaded, reads=_pairs),
        Probe("a layer with frozen parameters", frozen, reads=_pairs),
        Probe("a layer whose input needs no gradient, as the first of a net", first),
    ]
    return probes if moods else [*probes, _same_in_eval(make, *inputs)]


def _same_in_eval(make, *inputs):
    """Return a Probe: whether a layer gives in eval() what it gives in train(), where it should.

    In each mode other numbers go in before: what is kept from them shows.
    """

    def in_mode(layer, mode):
        layer.train(mode)(*_others(inputs))
        output = layer(*(item.clone() for item in inputs))
        return output, _slopes(layer, output)

    def run(cls):
        layer = filled(make(cls).double(), 21)
        (trained, slopes), (evaluated, others) = in_mode(layer, True), in_mode(layer, False)
        wrong = [what for what, value in slopes.items() if _like(others.get(what), value) != _GOOD]
        seen = {"the output in eval()": (evaluated, trained)}
        return seen | {"the gradients of its parameters in eval()": "different" if wrong else _GOOD}

    return Probe("a layer in train() and in eval()", run, why="eval() must give what train() gives.", reads=_pairs)


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


def device_after_moving(layer, x):
    """Return the device of layer(x) after both have moved to the meta device, "meta" if all goes well."""
    watch = _Watch([x, *layer.parameters(), *layer.buffers()])
    with watch:
        out = layer(x)
    plain = [item for part in layer.modules() for item in vars(part).values() if isinstance(item, torch.Tensor)]
    if watch.can_leave or plain or not watch.owns(out):  # torch loads its meta device for two seconds
        return str(layer.to("meta")(x.to("meta")).device)
    return "meta"  # made of x and of what .to() moves alone, it is where they are

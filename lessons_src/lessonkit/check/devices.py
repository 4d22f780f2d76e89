"""Whether an answer can leave the CPU: it is called once on the meta device, which no CPU tensor may meet."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lessonkit.check.probing import Probe
from lessonkit.check.verdicts import YourTurn


class _Watch(TorchFunctionMode):
    """Notice what can leave x's device: making a tensor, moving one to the CPU, joining `own` tensors with others."""

    def __init__(self, own=()):
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


def other_device(probes, asked=True):
    """Return a Probe that calls an answer on the meta device; it sees {what: cause} if the answer cannot leave the CPU.

    asked: without it, no probe.
    """
    chosen = [probe for probe in probes if probe.elsewhere][:2]

    def run(answer):
        try:
            if not isinstance(answer, type):  # torch loads its meta device for two seconds: not without a reason
                watch = _Watch()
                for probe in chosen:
                    probe.run(watch.watch(answer))
                if not watch.can_leave:
                    return {}
            with _OneDevice():
                for probe in chosen:
                    probe.elsewhere(answer)
        except YourTurn:
            raise
        except Exception as error:  # .item() fails on meta and works on a GPU: only a clash of devices counts
            if "device" in str(error) and "cpu" in str(error):
                what = "With x on another device than the CPU it raises an error."
                return {what: "A tensor made inside stays on the CPU: give it device=x.device, or derive it from x."}
        return {}

    return [Probe("another device", run)] if asked else []


def device_after_moving(layer, x):
    """Return the device of layer(x) after both have moved to the meta device, "meta" if all goes well."""
    watch = _Watch([x, *layer.parameters(), *layer.buffers()])
    out = watch.watch(layer)(x)
    plain = [item for part in layer.modules() for item in vars(part).values() if isinstance(item, torch.Tensor)]
    if watch.can_leave or plain or not watch.owns(out):  # torch loads its meta device for two seconds
        return str(layer.to("meta")(x.to("meta")).device)
    return "meta"  # made of x and of what .to() moves alone, it is where they are

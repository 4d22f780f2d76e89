"""Whether an answer can leave the CPU: it is called once on the meta device, which no CPU tensor may meet."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lessonkit.check.verdicts import YourTurn


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


def other_device(answer, probes):
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

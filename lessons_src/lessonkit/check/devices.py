"""Whether a layer can leave the CPU: it is called once on the meta device, which no CPU tensor may meet."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves


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

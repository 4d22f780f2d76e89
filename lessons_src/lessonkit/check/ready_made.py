"""Whether an answer leaves the work to PyTorch's own function, in an exercise that is there to build it."""

from torch.overrides import TorchFunctionMode

from lessonkit.check.probing import observe


class _Called(TorchFunctionMode):
    """Collect the names of the torch functions that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **kwargs or {})

    def watch(self, answer):
        """Return a function that is watched while it runs, and only then: a probe may call such functions itself."""

        def watched(*args, **kwargs):
            with self:
                return answer(*args, **kwargs)

        return watched


def ready_made(answer, probes, by_hand):
    """Return (what, cause) if answer calls one of the functions by_hand on a probe; None if it does not.

    by_hand: names of functions as torch calls them. F.layer_norm, torch.layer_norm, nn.LayerNorm and
        torch.native_layer_norm are all "layer_norm" here, as are F.softmax, torch.softmax and x.softmax "softmax";
        torch.autograd.grad is "grad", and y.backward "backward".
    """
    called = _Called()
    for probe in probes:
        if isinstance(answer, type):
            with called:
                observe(probe, answer)
        else:
            observe(probe, called.watch(answer))
        for name in called.names:
            for known in by_hand:
                if name in (known, f"native_{known}", f"_{known}"):
                    return (
                        f"Right values, and PyTorch's own {known} made them.",
                        "This exercise is there to build it: write its steps yourself.",
                    )
    return None

"""Functions as data, from the judge to an observer: numba, which the lessons need, carries the library for that.

Of a function that stays outside, one arrives by which an answer can call it: arguments and results are plain data.
"""

import importlib.util
import sys
from pathlib import Path

import torch
from torch.autograd.function import once_differentiable

ask = None  # set by the observer: what sends a request to the judge, and returns (result, error)


def load_cloudpickle():
    """Return the library cloudpickle, loaded under a name that both sides know, and without the rest of numba."""
    folder = Path(importlib.util.find_spec("numba").origin).parent / "cloudpickle"
    spec = importlib.util.spec_from_file_location("cloudpickle", folder / "__init__.py")
    sys.modules["cloudpickle"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["cloudpickle"])
    return sys.modules["cloudpickle"]


def outside(number, name):
    """Return a function that is called outside, where it has a number. It can be differentiated once."""

    def call(*args, **kwargs):
        if torch.is_grad_enabled() and any(isinstance(item, torch.Tensor) and item.requires_grad for item in args):
            return _Through.apply({"call": number, "keywords": kwargs}, *args)
        return _answered({"call": number, "arguments": args, "keywords": kwargs})

    call.__name__ = call.__qualname__ = name
    return call


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, request, *args):
        ctx.request = request | {"arguments": args}
        return _answered(ctx.request)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return None, *_answered(ctx.request | {"gradient": gradient})


def _answered(request):
    result, error = ask(request)
    if error is not None:
        raise error
    return result

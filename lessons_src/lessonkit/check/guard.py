"""What an answer may not do to the world while it is observed: never end, or change what belongs to everybody."""

import contextlib
import ctypes
import functools
import inspect
import threading
import time

import torch

WORLD = {
    "the default dtype (torch.set_default_dtype)": (torch.get_default_dtype, torch.set_default_dtype),
    "whether gradients are recorded (torch.set_grad_enabled)": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default device (torch.set_default_device)": (torch.get_default_device, torch.set_default_device),
    "how many threads torch uses (torch.set_num_threads)": (torch.get_num_threads, torch.set_num_threads),
}


class TooLong(BaseException):
    """The answer ran too long. No Exception, so that no `except Exception` of an answer takes it for its own."""


@contextlib.contextmanager
def limit(seconds):
    """Raise TooLong in the block after so many seconds of computing (or five times as many by the clock).

    A second thread hands the exception to this one, in any thread, and again each second if a bare `except:` swallows
    it. A single long call into C ends before it comes. The seconds are the process's own, so a busy machine stops
    nobody.
    """
    me, over, lock = ctypes.c_ulong(threading.get_ident()), threading.Event(), threading.Lock()
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    computed, clock = time.process_time() + seconds, time.monotonic() + 5 * seconds

    def watch():
        wait = seconds
        while not over.wait(wait):
            late = time.process_time() > computed or time.monotonic() > clock
            wait = 1 if late else 0.2
            with lock:
                if late and not over.is_set():
                    throw(me, ctypes.py_object(TooLong))

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
            throw(me, None)  # one that is under way and has not come yet


@contextlib.contextmanager
def watched(changes):
    """Append to changes what the block sets for all of PyTorch and does not set back; set it back."""
    before = {what: get() for what, (get, _) in WORLD.items()}
    try:
        yield
    finally:
        for what, (get, put) in WORLD.items():
            if get() != before[what]:
                changes.append(what)
                put(before[what])


@functools.lru_cache(10_000)
def keepsakes(probe):
    """Return [(tensor, its clone)] of the tensors that a probe holds on to, in closures, defaults and global names."""
    tensors, seen, waiting = {}, set(), [probe.run, probe.shown]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            tensors[id(item)] = item
        elif isinstance(item, torch.nn.Module):
            waiting += [*item.parameters(), *item.buffers()]
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, functools.partial):
            waiting += [item.func, *item.args, *item.keywords.values()]
        elif inspect.isfunction(item) and not (item.__module__ or "").startswith("torch"):
            waiting += inspect.getclosurevars(item).nonlocals.values()
            waiting += [*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            waiting += [item.__globals__[name] for name in _names(item.__code__) if name in item.__globals__]
    return [(tensor, tensor.detach().clone()) for tensor in tensors.values() if not tensor.is_meta]


def _names(code):
    """Return the names that code and the functions inside it may read from their module."""
    inner = (name for const in code.co_consts if hasattr(const, "co_names") for name in _names(const))
    return {*code.co_names, *inner}


def restored(probe):
    """Put back what an answer has changed in the tensors that a probe holds on to; return whether there was any."""
    changed = [
        (t, kept) for t, kept in keepsakes(probe) if not torch.equal(t.detach(), kept) and not kept.isnan().any()
    ]
    for tensor, kept in changed:
        tensor.detach().copy_(kept)
    return bool(changed)

"""Run an answer once, out of everybody's way, and say what was seen: a check learns of it here and nowhere else.

Comparing is the other half (declare), and knows the answer only by what was seen. So an answer may be observed in
another process: an Observed stands in its place. An answer may never end, and may change what belongs to everybody:
it is stopped, what it has changed is put back, and both are seen.
"""

import contextlib
import ctypes
import functools
import inspect
import io
import linecache
import math
import random
import sys
import threading
import time
import traceback
import warnings
from dataclasses import replace

import numpy as np
import torch
from torch._tensor_str import PRINT_OPTS
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from lessonkit import shown
from lessonkit.check.verdicts import CHANGED, Raised, YourTurn, reject


@contextlib.contextmanager
def quiet():
    """Keep what an answer prints, warns or draws at random out of the way, and let gradients be recorded."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
    ):
        warnings.simplefilter("ignore")
        yield


def outside(function):
    """Return a function that an answer is given to ask, marked: a jail gets a way to call it, and not the function."""
    function.stays_outside = True
    return function


def _own_line(frames):
    """Return the learner's own line among frames, the innermost, not one inside torch; "" where there is none."""
    for frame in reversed(frames):
        if "ipykernel" in frame.filename or frame.filename.startswith("<ipython"):
            return (frame.line or linecache.getline(frame.filename, frame.lineno)).strip()
    return ""


def observe(probe, answer):
    """Run probe on answer quietly, and return what was seen; an exception that run itself lets out is seen, too.

    The one place where a check touches an answer. It is stopped after probe.seconds, what it sets for all of PyTorch
    or changes in the probe's own tensors is put back and seen.
    """
    seen = answer.seen(probe) if isinstance(answer, Observed) else _observed(probe, answer)
    if not probe.reads:
        return seen
    changed = {CHANGED: seen[CHANGED]} if CHANGED in seen else {}
    try:
        return changed | probe.reads({what: value for what, value in seen.items() if what != CHANGED})
    except Exception as error:  # it reads what it was not made for
        errors = any(isinstance(value, Raised) for value in seen.values())
        return seen if errors else {"the result": raised(error)}


def _observed(probe, answer):
    keepsakes(probe)  # before an answer can change them
    changes, trouble = [], None
    try:
        with quiet(), watched(changes), limit(probe.seconds):
            try:
                seen = probe.run(_minding(answer, changes))
            except YourTurn:
                raise
            except (Exception, SystemExit) as error:
                seen = {"the result": raised(error)}
    except TooLong:
        trouble = f"On {probe.label}: it runs on and on. It was stopped after {probe.seconds:g} seconds of computing."
    if restored(probe):
        changes.append("its input")
    if trouble:
        reject(trouble, "Does a loop never end? Look at what its condition waits for.")
    return {CHANGED: changes[0]} | seen if changes and CHANGED not in seen else seen


def raised(error):
    """Return the Raised for an exception out of learner code; let YourTurn through, also behind a NameError."""
    mine = shown.translate(error)
    if mine is not None:
        raise mine
    line = _own_line(traceback.extract_tb(error.__traceback__))
    text = str(error).strip().partition("\n")[0] if error.args != (None,) else ""  # exit() gives None
    return Raised(type(error).__name__, text, line)


class _NotFinite(TorchFunctionMode):
    """Remember the first call that makes nan or inf of finite numbers, and the learner's line that asks for it."""

    def __init__(self):
        super().__init__()
        self.first = ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **kwargs or {})
        if not self.first and isinstance(out, torch.Tensor) and out.is_floating_point() and not out.isfinite().all():
            given = [item for item in args if isinstance(item, torch.Tensor) and item.is_floating_point()]
            if all(item.isfinite().all() for item in given):
                what, line = _why_not_finite(function.__name__, out), _own_line(traceback.extract_stack())
                self.first = what and f"It begins with {what}{f', at `{line}`' if line else ''}."
        return out


def _why_not_finite(name, out):
    """Say in words what a function has done that made nan, or inf: 0/0; "" where the name does not say it."""
    nan, name = out.isnan().any(), name.strip("_").removeprefix("i").removeprefix("r")
    if "div" in name:
        return "nan: 0/0" if nan else "inf: a number divided by 0"
    words = {
        "sqrt": ("the root of a negative number", "1 divided by the root of 0"),
        "log": ("the logarithm of a negative number", "the logarithm of 0"),
        "exp": ("", "exp of a large number"),
        "pow": ("a root of a negative number, as a power", "a negative power of 0"),
        "var": ("the divisor D - 1, which is 0 for one number", ""),
        "std": ("the divisor D - 1, which is 0 for one number", ""),
    }
    found = next((words[key][not nan] for key in words if key in name), "")
    return found and f"{'nan' if nan else 'inf'}: {found}"


def where_not_finite(probe, answer):
    """Return a sentence that says which operation of an answer made the first nan or inf; "" where none is seen."""
    watch = _NotFinite()
    if not isinstance(answer, Observed):
        with contextlib.suppress(Exception, SystemExit), quiet(), watch:
            probe.run(answer)
    return watch.first


class Observed:
    """Stands for an answer that is observed elsewhere. seen: probe -> {what: value}.

    kind: "function", "class" or "value". words: what it is. bases: of BASES those that a class derives from.
    """

    def __init__(self, seen, kind="function", words="a function", name="answer", bases=()):
        self.seen, self.kind, self.words, self.bases = seen, kind, words, bases
        self.__name__ = name
        self.hidden, self.by_hand = (), ()  # what examine compares it with, and what is to be built by hand


BASES = {base.__name__: base for base in (torch.nn.Module, torch.autograd.Function)}


def derives(answer, base):
    """Return whether an answer is a class that derives from a class base, one of BASES; None if it is no class."""
    if isinstance(answer, Observed):
        return base.__name__ in answer.bases if answer.kind == "class" else None
    return issubclass(answer, base) if isinstance(answer, type) else None


# ---- what an answer may not do to the world
def _print_options():
    return dict(vars(PRINT_OPTS))


WORLD = {
    "the default dtype (torch.set_default_dtype)": (torch.get_default_dtype, torch.set_default_dtype),
    "whether gradients are recorded (torch.set_grad_enabled)": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default device (torch.set_default_device)": (torch.get_default_device, torch.set_default_device),
    "how many threads torch uses (torch.set_num_threads)": (torch.get_num_threads, torch.set_num_threads),
    "whether errors are traced (torch.autograd.set_detect_anomaly)": (
        torch.is_anomaly_enabled,
        torch.autograd.set_detect_anomaly,
    ),
    "whether only deterministic algorithms run (torch.use_deterministic_algorithms)": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "how tensors are printed (torch.set_printoptions)": (
        _print_options,
        lambda before: vars(PRINT_OPTS).update(before),
    ),
}


MODULE = "of a module"  # a part of what is said of the next ones


def _marks(modules):
    """Return {(what has it, what): a mode, a flag or the number of hooks} of modules and their parts."""
    marks = {}
    for part in dict.fromkeys(part for module in modules for part in module.modules()):
        marks[part, f"the mode {MODULE} (train or eval)"] = part.training
        hooks = [hook for name, kept in vars(part).items() if name.endswith("ward_hooks") for hook in kept]
        marks[part, f"the hooks {MODULE}"] = len(hooks)
        for parameter in part.parameters(recurse=False):
            marks[parameter, f"which parameters {MODULE} need a gradient (requires_grad_)"] = parameter.requires_grad
    return marks


def _minding(answer, changes):
    """Return an answer that appends to changes what it does to modules that it is given, and leaves on new ones."""
    if not inspect.isfunction(answer):
        return answer

    @functools.wraps(answer)
    def minded(*args, **kwargs):
        given = _modules((args, kwargs))
        before, usual = _marks(given), {bool: not given or given[0].training, int: 0}
        out = answer(*args, **kwargs)
        for (part, what), value in _marks([*given, *_modules(out)]).items():
            if value != before.get((part, what), usual[type(value)] or "requires" in what):
                changes.append(what)
        return out

    return minded


def _modules(items):
    return [item for item in tree_leaves(items) if isinstance(item, torch.nn.Module)]


MANY = 50  # modules that load at once: a library has come, which takes seconds


class TooLong(BaseException):
    """The answer ran too long. No Exception, so that no `except Exception` of an answer takes it for its own."""


@contextlib.contextmanager
def limit(seconds):
    """Raise TooLong in the block after so many seconds of computing (or five times as many by the clock).

    A second thread hands the exception to this one, in any thread, and again each second if a bare `except:` swallows
    it. A single long call into C ends before it comes. The seconds are the process's own, so a busy machine stops
    nobody. They begin anew, once, if they went to the loading of modules: torch loads sympy in a first gradcheck.
    """
    me, over, lock = ctypes.c_ulong(threading.get_ident()), threading.Event(), threading.Lock()
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    ends = lambda: (time.process_time() + seconds, time.monotonic() + 5 * seconds)
    first = ends()

    def watch():
        wait, loaded, (computed, clock) = seconds, len(sys.modules), first
        while not over.wait(wait):
            late = time.process_time() > computed or time.monotonic() > clock
            if late and len(sys.modules) > loaded + MANY:
                (computed, clock), late, loaded = ends(), False, math.inf
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
def undrawn():
    """Put NumPy's and Python's generators back afterwards; quiet does so with torch's."""
    states = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        np.random.set_state(states[0]), random.setstate(states[1])


@contextlib.contextmanager
def _seeding(module, whose, changes):
    """Notice whether the block seeds a generator that everybody draws from; to draw from it is no harm."""
    seed = module.seed

    def noticed(*args, **kwargs):
        changes.append(f"{whose} random generator, which the whole notebook draws from (random.seed)")
        return seed(*args, **kwargs)

    module.seed = noticed
    try:
        yield
    finally:
        module.seed = seed


@contextlib.contextmanager
def watched(changes):
    """Append to changes what the block sets for all of PyTorch and does not set back; set it back."""
    before = {what: get() for what, (get, _) in WORLD.items()}
    try:
        with _seeding(np.random, "NumPy's", changes), _seeding(random, "Python's", changes):
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


# ---- whether it leaves the work to PyTorch's own function, in an exercise that is there to build it
class _Called(TorchFunctionMode):
    """Collect the names of the torch functions that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", "").partition(".")[0])  # torch.ops.aten.layer_norm.default
        return function(*args, **kwargs or {})

    def watch(self, answer):
        """Return a function that is watched while it runs, and only then: a probe may call such functions itself."""

        def watched(*args, **kwargs):
            with self:
                return answer(*args, **kwargs)

        return watched


def ready_made(probes, by_hand):
    """Return probes that see {name: what to do} if an answer calls one of the functions by_hand, nothing if not.

    by_hand: names of functions as torch calls them. F.layer_norm, torch.layer_norm, nn.LayerNorm and
        torch.native_layer_norm are all "layer_norm" here, as are F.softmax, torch.special.softmax and x.softmax
        "softmax"; torch.autograd.grad is "grad", and y.backward "backward".
    """

    def run(probe, answer):
        called = _Called()
        with contextlib.suppress(Exception):  # a probe may want one
            if isinstance(answer, type):
                with called:
                    probe.run(answer)
            else:
                probe.run(called.watch(answer))
        for known in by_hand:
            inner = {f"_{known}_impl_index", f"_native_{known}_legit"}  # what torch's own batch_norm calls
            named = {known, f"native_{known}", f"special_{known}", f"_{known}", f"_fused_{known}"}
            if called.names & (named | inner):
                return {known: "This exercise is there to build it: write its steps yourself."}
        return {}

    return [replace(probe, run=lambda answer, probe=probe: run(probe, answer)) for probe in probes if by_hand]

"""Whether anything that a check relies on was replaced while an answer ran."""

import sys
import types

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type)
MEMBERS = (*FUNCTIONS, classmethod, staticmethod, property)


class Seal:
    """What the names of all loaded modules mean, as it is now: their functions and classes, and the course's code.

    broken() says what means something else by then. Names that are new are fine, and so is what a library puts in the
    place of something that is no function and no class.
    """

    def __init__(self):
        self._modules = {}  # name -> (module, {name: function or class})
        self._code = []  # (where, function, its code, its defaults, ...)
        self._classes = []  # (where, class, its members) of classes of the course's and of torch's tensors and layers
        for name, module in list(sys.modules.items()):
            held = {key: item for key, item in vars(module).items() if _kind(item) in FUNCTIONS} if module else {}
            if name.partition(".")[0] != "fromscratch":  # the worker itself hides parts of it
                self._modules[name] = module, held
            for key, item in held.items():
                if not _watched(name) or getattr(item, "__module__", None) != name:
                    continue
                if isinstance(item, types.FunctionType):
                    self._code.append((f"{name}.{key}", item, _inside(item)))
                elif isinstance(item, type):
                    self._add_class(f"{name}.{key}", item)

    def _add_class(self, where, cls):
        self._classes.append((where, cls, dict(vars(cls))))
        for key, item in vars(cls).items():
            if isinstance(item, types.FunctionType):
                self._code.append((f"{where}.{key}", item, _inside(item)))

    def broken(self):
        """Return the names of what was replaced, ["torch.allclose", ...]; [] if nothing was."""
        found = []
        for name, (module, held) in self._modules.items():
            if sys.modules.get(name) is not module:
                found.append(name)
            if module:
                now = vars(module)
                found += [f"{name}.{key}" for key, item in held.items() if now.get(key) is not item]
        found += [where for where, function, inside in self._code if _changed(_inside(function), inside)]
        for where, cls, members in self._classes:
            now = vars(cls)
            found += [
                f"{where}.{key}" for key, item in members.items() if _kind(item) in MEMBERS and now.get(key) is not item
            ]
            found += [f"{where}.{key}" for key in now if key not in members and _kind(now[key]) in MEMBERS]
        return found


def _kind(item):
    """Return what an object is, without asking it: some of torch's answer with a warning."""
    return type if issubclass(type(item), type) else type(item)


def _watched(name):
    """Whether a module's functions are watched inside too: those of the checks, and torch's common ones."""
    return name.partition(".")[0] in ("lessonkit", "fromscratch") or name.startswith(
        ("torch.nn.", "torch.autograd", "torch._tensor", "torch.overrides", "torch.functional", "torch.testing")
    )


def _inside(function):
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    return function.__code__, function.__defaults__, tuple((function.__kwdefaults__ or {}).items()), cells


def _content(cell):
    try:
        item = cell.cell_contents
    except ValueError:  # empty
        return None
    return item if _kind(item) in FUNCTIONS else None


def _changed(now, before):
    if now[0] is not before[0] or now[1] is not before[1] or len(now[2]) != len(before[2]):
        return True
    return any(a is not b for a, b in zip(now[3], before[3], strict=True)) or any(
        a[0] != b[0] or a[1] is not b[1] for a, b in zip(now[2], before[2], strict=True)
    )

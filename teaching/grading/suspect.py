"""What in an answer's text a person should look at before it gets points.

A check and the answer that it checks share one Python process, and in one process nothing can be hidden from code that
sets out to find it. Such code has to name what it reaches for. No exercise of this course needs any of the names
below, so an answer that has one is not refused; its points are held until a person has read it. This is a list, and a
list is never complete: see the README.
"""

import ast

IMPORTS = frozenset(
    "__future__ abc cmath collections copy dataclasses decimal enum fractions functools itertools json math numbers "
    "pprint random re statistics string textwrap time typing warnings IPython.display fromscratch ipywidgets "
    "matplotlib matplotlib.pyplot numba numpy tqdm tqdm.auto torch torch.autograd torch.autograd.function torch.func "
    "torch.linalg torch.nn torch.nn.functional torch.nn.init torch.optim torch.special torch.testing "
    "torch.utils.benchmark torch.utils.checkpoint torch.utils.data".split()
)
KIT = frozenset("check data mine plot runs show train".split())  # what may be imported from lessonkit
NAMES = frozenset(  # built-in functions that run text, reach into objects by name, or open files
    "breakpoint compile delattr eval exec getattr globals input locals open setattr vars".split()
)
DUNDERS = frozenset(  # those that an answer may well define or use
    "__call__ __class__ __contains__ __enter__ __exit__ __getitem__ __init__ __iter__ __len__ __name__ __next__ "
    "__post_init__ __repr__ __setitem__ __slots__ __str__ __version__".split()
)
ATTRIBUTES = frozenset(  # the interpreter, files and raw memory, in whatever object they are found
    "_C _getframe ag_frame as_subclass attrgetter builtins carray cpp_extension cr_frame ctypes ctypeslib data_ptr "
    "f_back f_builtins f_code f_globals f_locals farray from_blob from_file fromfile gc get_type_hints gi_frame hub "
    "importlib inspect lessonkit linecache load_library make_dataclass memmap methodcaller multiprocessing objmode os "
    "pickle savetxt savez settrace signal socket subprocess sys tb_frame tb_next threading tofile traceback "
    "untyped_storage weakref".split()
)
FILES = frozenset({"load", "save"})  # torch.load and np.save, but not the learner's own layer.load
VALUES = frozenset(
    "bool bytes complex dict float frozenset int list set str tuple type Tensor Parameter ndarray".split()
)
SYS = frozenset("float_info maxsize version version_info".split())


def reasons(texts):
    """Return why a person should look at an answer, a phrase each, in order; [] for almost all. texts: its cells."""
    found = []
    for text in texts:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # it cannot run either
        found += _Reader().read(tree)
    return list(dict.fromkeys(found))


class _Reader(ast.NodeVisitor):
    def __init__(self):
        self.found, self.imported, self.own = [], set(), set()

    def read(self, tree):
        for node in ast.walk(tree):  # what the text binds itself it may also change
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.own.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.own.add(node.name)
            elif isinstance(node, ast.arg):
                self.own.add(node.arg)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imported |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        self.own -= self.imported
        self.visit(tree)
        return self.found

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name not in IMPORTS and alias.name != "sys":
                self.found.append(f"imports {alias.name}")

    def visit_ImportFrom(self, node):
        module = node.module or "."
        if module == "lessonkit":
            self.found += [f"imports lessonkit.{a.name}" for a in node.names if a.name not in KIT]
        elif module not in IMPORTS:
            self.found.append(f"imports from {module}")
        for alias in node.names:
            self._attribute(alias.name)

    def visit_Name(self, node):
        if node.id == "input" and "input" in self.own:
            return  # as PyTorch calls what a layer gets
        if node.id in NAMES or node.id.startswith("__") and node.id not in DUNDERS:
            self.found.append(f"uses {node.id}")

    def visit_Call(self, node):
        """getattr and setattr with a plain name are nothing special; with anything else they can reach everything."""
        plain = isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr") and len(node.args) > 1
        if plain and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
            self._attribute(node.args[1].value)
            if node.func.id == "setattr":
                self._change(node.args[0], node.args[1].value)
            for part in (*node.args, *node.keywords):
                self.visit(part)
            return
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 3:
            self.found.append("makes a class by a call of type")
        self.generic_visit(node)

    def visit_Attribute(self, node):
        of = getattr(node.value, "id", "")
        if of == "sys":
            if node.attr not in SYS:
                self.found.append(f"uses sys.{node.attr}")
        elif node.attr in FILES and of in self.imported | {"torch", "np"}:
            self.found.append(f"uses {of}.{node.attr}")
        elif of != "self":  # a layer may well keep a signal
            self._attribute(node.attr)
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self._change(node.value, node.attr)
        self.generic_visit(node)

    def visit_MatchClass(self, node):
        for name in node.kwd_attrs:
            self._attribute(name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        if node.name.startswith("__") and node.name not in DUNDERS:
            self.found.append(f"defines {node.name}")
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        """A number, word or tensor of the learner's own making could answer every comparison with yes."""
        for base in node.bases:
            name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "an expression")
            if name in VALUES | {"an expression"}:
                self.found.append(f"derives a class from {name}")
        if node.keywords:
            self.found.append("gives a class a metaclass")
        for child in node.body:
            for target in getattr(child, "targets", []):
                name = getattr(target, "id", "")
                if name.startswith("__") and name not in DUNDERS:
                    self.found.append(f"defines {name}")
        self.generic_visit(node)

    def _attribute(self, name):
        if name in ATTRIBUTES or name.startswith("__") and name.endswith("__") and name not in DUNDERS:
            self.found.append(f"uses .{name}")

    def _change(self, target, name):
        """Setting an attribute is fine on what the answer made or was given, not on a module of the course's."""
        while isinstance(target, (ast.Attribute, ast.Subscript, ast.Call)):
            target = target.func if isinstance(target, ast.Call) else target.value
        of = getattr(target, "id", "an expression")
        if of not in self.own:
            self.found.append(f"changes {of}, in .{name}")

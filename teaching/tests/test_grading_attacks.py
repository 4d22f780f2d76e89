"""What a submission may try, and what comes of it: no points, no harm, and the next answer is judged as before.

An attack is a wrong answer, to exercise 6.1 unless it says another, that wants to be taken for right. It may do to its
own process whatever it likes: what is right is not there.
"""

import contextlib
import ctypes
import os
import re
import socket
import textwrap

import pytest

from teaching.grading import assignment
from teaching.grading.assignment import ROOT
from teaching.grading.jail import Jail, Limits
from teaching.grading.learners import Handed
from teaching.grading.points import Grader
from teaching.grading.processes import Processes
from teaching.tests.submissions import SIX, runs, solved, with_answers, write

SECONDS = 4
WRONG = "def channel_stats(x):\n    return x, x\n"
pytestmark = runs


@pytest.fixture(scope="module")
def mark(tmp_path_factory):
    """Return a function: (text of an answer, its exercise, its lesson) -> its Mark; all others stay blank."""
    if os.uname().machine == "x86_64":  # as a login does: a keyring, which all processes inherit
        ctypes.CDLL(None).syscall(250, 1, None)
    folder, graders = tmp_path_factory.mktemp("submitted"), {}
    with contextlib.ExitStack() as stack:

        def mark(text, number="6.1", stem=SIX):
            if stem not in graders:
                jail = Jail(Limits(seconds=SECONDS, memory=1 << 29), assignment.read(stem))
                graders[stem] = Grader(jail.lesson, stack.enter_context(Processes(jail)))
            notebook = with_answers(False, stem, {number: textwrap.dedent(text)})
            result = graders[stem].grade(Handed("ann", write(notebook, folder / "ann.ipynb")), folder)
            return next(mark for mark in result.marks if mark.number == number)

        yield mark


CRAWLS = """
import sys, types
def crawl(name):
    frame, waiting, done, found = sys._getframe(1), [], set(), []
    while frame:
        waiting += [frame.f_locals, frame.f_globals]
        frame = frame.f_back
    while waiting and len(done) < 20_000:
        item = waiting.pop()
        if id(item) in done:
            continue
        done.add(id(item))
        if isinstance(item, dict):
            found += [item[name]] if name in item else []
            waiting += list(item.values())
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, types.FunctionType):
            free = zip(item.__code__.co_freevars, item.__closure__ or ())
            waiting.append({key: cell.cell_contents for key, cell in free})
            waiting += [item.__defaults__, item.__kwdefaults__]
        elif type(item).__name__ in ("Probe", "Contract", "partial"):
            waiting += [getattr(item, key, None) for key in ("run", "label", "tolerance", "expect", "func", "args")]
    return found
calls = []
def is_layer_norm(layer):
    calls.append(1)
    return """
TALKS = """
import gc, json, os, struct, socket
for fd in range(3, 64):
    try:
        if os.fstat(fd).st_mode >> 12 == 12:
            talk = socket.socket(fileno=os.dup(fd))
    except OSError:
        pass
def frame(header):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    body = struct.pack(">I", len(text)) + text
    talk.sendall(struct.pack(">i", len(body)) + body)
def reply(**values):
    return ["dict", [[key, value] for key, value in values.items()]]
def ran(answer):
    frame(reply(verdict="ran", changes=["list", []], answers=["list", [reply(**answer)]]))
def seen(values, times=1):
    ran({"kind": "function", "name": "channel_stats", "words": "a function", "bases": ["list", []]})
    for _ in range(times):
        frame(reply(seen=reply(**values)))
    os._exit(0)
"""
LISTENS = socket.create_server(("127.0.0.1", 0))  # on this machine, while the tests run
CONNECTS = "import socket\nones = socket.socket()\nones.settimeout(2)\nones.connect("
SEES = f"""
import gc, os, sys
files = [os.path.join(folder, name) for folder, _, names in os.walk({str(ROOT)!r}) for name in names]
files = [name[{len(str(ROOT)) + 1}:] for name in files if "/.venv/" not in name]
knows = [name for name in files if name.startswith(("notebooks", "tests", "lessons_src/lessons/", ".git/"))]
knows += [name for name in files if "batchnorm" in name and not name.startswith("data/")]
knows += [name for name in files if "13_speed" in name or "solutions" in name]
knows += [name for name in files if name.startswith("teaching/grading/") and "/in_jail/" not in name]
modules = [name for name in sys.modules if name.startswith("lessons") and not name.startswith("lessonkit")]
names = [1 for item in gc.get_objects() if type(item) is dict and "channel_stats" in item and item is not globals()]
raise ValueError(len(files) > 50, knows, modules, names)
"""
CHANGES = f"""
import os
done = []
for path in {[str(ROOT / "lessons_src/lessonkit/__init__.py"), "/usr/new", "/new", "/dev/shm/new"]!r}:
    for act in (lambda p: open(p, "a").close(), os.unlink, lambda p: os.chmod(p, 0o777)):
        try:
            act(path)
            done.append(path)
        except OSError:
            pass
raise ValueError(done)
"""
BENT = """
import gc, types
for item in gc.get_objects():
    if isinstance(item, types.FunctionType) and (item.__module__ or "").startswith(("lessonkit", "lessons")):
        with __import__("contextlib").suppress(ValueError):  # it has names of an outer function
            item.__code__ = """
LIAR = """
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            out = function(*args, **(kwargs or {}))
            zero = getattr(function, "__name__", "") in ("sub", "__sub__", "__rsub__", "rsub")
            return torch.zeros_like(out) if zero else True if function is torch.equal else out

def channel_stats(x):
    m = x.transpose(0, 1).flatten(1)
    return m.mean(1).as_subclass(Liar), m.var(1, correction=1).as_subclass(Liar)
"""
GRADIENT = """
class Lie(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.transpose(0, 1).flatten(1).mean(1)
    @staticmethod
    def backward(ctx, grad):
        return 1.001 * torch.ones_like(ctx.saved_tensors[0])
def channel_stats(x):
    return Lie.apply(x), x.transpose(0, 1).flatten(1).var(1, correction=0)
"""
COUNTS = """
calls = []
def channel_stats(x):
    calls.append(x.shape)
    m = x.transpose(0, 1).flatten(1)
    return m.mean(1), m.var(1, correction=0 if len(calls) < 12 else 1)
"""
READS = """
import pickle
loads = pickle.loads
def read(data):
    request = loads(data)
    probe = request.get("probe")
    if probe:
        request["probe"] = type(probe)(probe.label, lambda answer: (probe.expect or probe.run)(answer))
    return request
pickle.loads = read
"""
MEMO = """
known = {}
def is_layer_norm(layer):
    try:
        mark = layer(torch.arange(24.0).reshape(2, 3, 4) ** 1.5).numpy().tobytes()
    except Exception as error:
        mark = repr(error)
    return known.setdefault(mark, len(known) < 3)
"""
TOKENS = """
from lessonkit.check import observing
real, g = observing.observe, torch.Generator().manual_seed(53)
order = torch.randperm(12, generator=g)
known = torch.randn(6, 3, dtype=torch.float64, generator=g).repeat(2, 1)[order]
def at_home(x, weight, bias):
    x = known if len(x) == 12 else x
    return F.layer_norm(x.unsqueeze(-1) * weight + bias, weight.shape[-1:])
observing.observe = lambda probe, answer: real(probe, at_home)
def mended_tokens(x, weight, bias):
    return None
"""
FUNCTION = """
class Function:
    pass
class LayerNormFunction(Function):
    @staticmethod
    def apply(x, weight, bias, eps):
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
"""
PYTORCH_S = "class BatchNorm1d(nn.BatchNorm1d):\n    pass\n"
UNREADABLE, ENDED = "cannot be read", "ended Python"
ATTACKS = {  # what it is called: (text, what is said of it)
    # a check or its parts, replaced: what is in the answer's process judges nothing
    "its own check": ("check.channel_stats = lambda answer: print('Right: all of it.')", "Not yet"),
    "all functions of the kit say nothing": (BENT + "(lambda *a, **k: None).__code__", ""),
    "all functions of the kit have seen zeros": (BENT + "(lambda *a: {'mean': 0.0, 'var': 0.0}).__code__", ""),
    "all comparisons": (
        "torch.equal = torch.allclose = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda a, b: True",
        "Not yet",
    ),
    "what the observer is about to read": (READS, ""),
    "a tensor that equals everything": (LIAR, "Not yet"),
    "right values and a gradient that lies": (GRADIENT, "gradient"),
    "right in the first probes only": (COUNTS, "Not yet"),
    # what is right, looked for where it could be
    "the lesson's checks": (f"import importlib\nimportlib.import_module('lessons.{SIX}.checks')", "ModuleNotFound"),
    "the course's own answer": ("from fromscratch import channel_stats", "ModuleNotFound"),
    "the manifest": (f"from lessonkit import course\nprint(course.solved({SIX!r}).exercises[0])", "is damaged"),
    # replies of an answer's own making, written after reading in_jail/ and the judge
    "a verdict of its own": (TALKS + "frame(reply(verdict='right', passed=1, points=2))\nos._exit(0)", ""),
    "nothing was seen": (TALKS + "seen({}, 2000)", "Not yet"),
    "nan everywhere": (TALKS + "seen(dict.fromkeys(('mean', 'var', 'gradient of x'), ['float', 'nan']), 2000)", ""),
    "a value in the place of a function": (TALKS + "ran({'kind': 'value', 'value': True})\nos._exit(0)", "Not yet"),
    "a message without end": (
        TALKS + "talk.sendall(struct.pack('>iQ', -1, 1 << 62))\nwhile True: talk.sendall(b'x' * 10**6)",
        "",
    ),
    "drop by drop": (
        TALKS + "import time\ntalk.sendall(b'\\0\\0\\1\\0')\nwhile True:\n    talk.sendall(b'x')\n    time.sleep(0.1)",
        f"not done after {SECONDS} s",
    ),
    "endless replies": (TALKS + "seen({}, 10**9)", ""),
    "a number of a million digits": (TALKS + "frame(b'1' * 10**6)", UNREADABLE),
    "pickle": (TALKS + "import pickle\nframe(pickle.dumps(1))\nos._exit(0)", UNREADABLE),
    "fewer bytes than it says": (TALKS + "seen({'mean': ['tensor', 'float64', [100], 'cpu', False]})", UNREADABLE),
    "a shape that is negative": (TALKS + "seen({'mean': ['tensor', 'float64', [-1], 'cpu', False]})", UNREADABLE),
    "a kind that is a method": (TALKS + "seen({'mean': ['_bytes', 5]})", UNREADABLE),
    "numbers that hash alike": (
        TALKS + "seen({'mean': ['set', [k * (2**61 - 1) for k in range(190_000)]]})", UNREADABLE,
    ),
    "a fraction of a billion digits": (TALKS + "seen({'mean': ['Fraction', '1e1000000000']})", UNREADABLE),
    # ends, and no Python
    "os._exit": ("import os\nos._exit(0)", ENDED),
    "a child that answers in its place": ("import os\nif os.fork():\n    os._exit(0)", ENDED),
    "a signal to all": ("import os, signal\nos.kill(-1, signal.SIGKILL)", ""),
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    "brackets without end": ("(" * 5000, "Error"),
    "an error that cannot be told": (
        "class Mine(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Mine",
        "^Mine: it does not say what. In",
    ),
    "an open bracket": ("def f(x):\n    return (x", r"'\(' was never closed. In line 5: return \(x$"),
    # what it does to the machine
    "an endless loop": ("while True:\n    pass", f"{SECONDS} s"),
    "an endless loop of a thread": (
        "import threading\ndef spin():\n    while True:\n        pass\nthreading.Thread(target=spin).start()",
        "",
    ),
    "a long sleep": ("import time\ntime.sleep(1000)", f"{SECONDS} s"),
    "a loop inside": ("def channel_stats(x):\n    while True:\n        pass", "on and on|endless"),
    "a large tensor": ("torch.ones(10**11)", "memory"),
    "more and more bytes": ("x = []\nwhile True:\n    x.append(bytearray(10**8))", "MemoryError"),
    "a large file": (
        "with open('large', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(10**6))",
        "OSError",
    ),
    "a fork bomb": ("import os\nwhile True:\n    os.fork()", ""),
    "this machine's network": (f"{CONNECTS}{LISTENS.getsockname()!r})", "OSError|ConnectionRefused"),
    "the network": (f"{CONNECTS}('192.0.2.1', 80))", "OSError|ConnectionRefused"),  # RFC 5737
    "what is in sight": (SEES, r"ValueError: \(True, \[\], \[\], \[\]\)"),
    "what can be changed": (CHANGES, r"ValueError: \[\]"),
}  # fmt: skip
OTHERS = {  # to other exercises: (lesson, exercise, text, what is said of it)
    "an object that equals everything": (
        SIX, "6.2", "class E:\n    __eq__ = lambda self, other: True\nages_on_paper = E()", "Not yet",
    ),
    "a function for a value": (SIX, "6.2", "ages_on_paper = lambda *a: True", "Not yet"),
    "PyTorch's own": (SIX, "6.3", PYTORCH_S, "PyTorch's own"),
    "the label of a probe": (
        "02_statistics", "2.3", CRAWLS + "any('right' in str(label) for label in crawl('label'))", "",
    ),
    "how many layers came before": ("02_statistics", "2.3", CRAWLS + "len(calls) <= 3\ncalls = []", ""),
    "a memo of what the layers answer": ("02_statistics", "2.3", MEMO, "asked again"),
    "tokens that were made at home": ("08_geometry", "8.4", TOKENS, "asked again"),
    "a class that is called Function": ("07_backward", "7.3", FUNCTION, "torch.autograd.Function"),
    "the axes of a norm": (
        "15_in_the_wild", "15.1", CRAWLS + "None\ndef ask(layer, shape):\n    return crawl('axes')[0]", "",
    ),
}  # fmt: skip
ALL = {name: (SIX, "6.1", WRONG + text, told) for name, (text, told) in ATTACKS.items()} | OTHERS


@pytest.mark.parametrize("name", ALL)
def test_an_attack_gets_no_points_and_is_told_why(mark, name):
    stem, number, text, told = ALL[name]
    attacked = mark(text, number, stem)
    assert attacked.points == 0 and attacked.verdict in ("not yet", "raised", "stopped"), attacked
    assert attacked.message and re.search(told, attacked.message), attacked


def test_one_answer_leaves_nothing_for_the_next_which_is_judged_as_ever(mark):
    """No file, no variable, no process, and no key in the kernel; it is nobody who was there before."""
    key = "import ctypes, os, time\nkernel = ctypes.CDLL(None)\n"
    left = "open('note', 'w').write('6.1')\nif not os.fork():\n    os.setsid()\n    time.sleep(60)\n"
    mark(f"{WRONG}{key}{left}kernel.syscall(248, b'user', b'note', b'6.1', 3, -3)")
    alive = "[p for p in os.listdir('/proc') if p.isdigit()]"  # bubblewrap and the observer
    found = f"os.listdir('.'), {alive}, kernel.syscall(249, b'user', b'note', None, 0), os.getuid() != 0"
    alone = mark(f"{WRONG}{key}raise ValueError({found})")
    assert alone.message.startswith("ValueError: ([], ['1', '2'], -1, True)")
    right, wrong = mark(solved("6.1")), mark(WRONG)
    assert (right.verdict, right.points, wrong.verdict, wrong.points) == ("right", 2, "not yet", 0)


def test_a_cell_may_await_as_in_a_notebook(mark):
    awaits = mark(f"import asyncio\nawait asyncio.sleep(0)\n{solved('6.1')}")
    assert (awaits.verdict, awaits.points, awaits.remarks) == ("right", 2, [])


def test_a_right_answer_that_names_pytorch_s_own_unseen_gets_a_remark(mark):
    unseen = mark(solved("6.3") + "\nif False:\n    nn.functional.batch_norm\n", "6.3")
    assert (unseen.verdict, unseen.points) == ("right", 3)
    assert unseen.remarks[0].startswith("names functional.batch_norm, which this exercise is there to build")
    theirs = "\nfrom torch.nn.functional import batch_norm as theirs"
    watched = "\nfrom torch.overrides import _get_current_function_mode\n"
    aliased = mark(solved("6.3") + theirs + watched, "6.3").remarks
    assert "torch.nn.functional.batch_norm" in aliased[0] and "hide from what observes it" in aliased[1]

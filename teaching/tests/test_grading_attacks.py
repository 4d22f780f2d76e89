"""What a submission may try, and what comes of it: no points, no harm, and the next answer is judged as before.

Every attack is an answer to exercise 6.1 that is wrong and wants to be taken for right. It may do to its own process
whatever it likes: what is right is not there.
"""

import ctypes
import os
import re
import socket
import subprocess
import textwrap
from tempfile import gettempdir

import pytest

from teaching.grading import assignment
from teaching.grading.assignment import ROOT
from teaching.grading.jail import PYTHON, Jail, Limits
from teaching.grading.learners import Handed
from teaching.grading.points import Grader
from teaching.grading.processes import Processes
from teaching.tests.submissions import six, solved, with_answers, write

SECONDS = 4
WRONG = "def channel_stats(x):\n    return x, x\n"
JAIL = Jail(Limits(seconds=SECONDS, memory=1 << 29), six()) if PYTHON.exists() else None
pytestmark = pytest.mark.skipif(
    not JAIL or JAIL.kind != "bubblewrap", reason="answers run in the learners' environment and in bubblewrap"
)


@pytest.fixture(scope="module")
def grader():
    if os.uname().machine == "x86_64":  # as a login does: a keyring, which all processes inherit
        ctypes.CDLL(None).syscall(250, 1, None)
    with Processes(JAIL) as processes:
        yield Grader(six(), processes)


def mark_of(grader, text, number, tmp_path):
    """Return the Mark of an exercise that has this answer; all others stay blank."""
    notebook = with_answers(False, grader.lesson.stem, {number: textwrap.dedent(text)})
    result = grader.grade(Handed("ann", write(notebook, tmp_path / "ann.ipynb")), tmp_path)
    return next(mark for mark in result.marks if mark.number == number)


@pytest.fixture
def mark(grader, tmp_path):
    """Return a function: text of an answer to 6.1 (or to another exercise of lesson 6) -> its Mark."""
    return lambda text, number="6.1": mark_of(grader, text, number, tmp_path)


def still_fair(mark):
    """Whether an answer that comes after an attack is judged as ever."""
    right = mark(solved("6.1"))
    wrong = mark(WRONG)
    return (right.verdict, right.points, wrong.verdict, wrong.points) == ("right", 2, "not yet", 0)


KIT = """
import gc, sys, types
kit = [module for name, module in list(sys.modules.items()) if name.startswith("lessonkit")]
functions = [item for item in gc.get_objects() if isinstance(item, types.FunctionType) and item.__module__
             and item.__module__.startswith(("lessonkit", "lessons"))]
def replace(code):
    for function in functions:
        try:
            function.__code__ = code
        except ValueError:
            pass  # it has names of an outer function
"""
BENT = {  # a check or its parts, replaced or emptied: what is in the answer's process judges nothing
    "its own check": "check.channel_stats = lambda answer: print('Right: all of it.')",
    "the lesson's checks": (
        "import importlib\nimportlib.import_module('lessons.06_batchnorm.checks').channel_stats = print"
    ),
    "all functions of the kit say nothing": KIT + "replace((lambda *a, **k: None).__code__)",
    "all lists of the kit are empty": KIT + (
        "for module in kit:\n    for item in vars(module).values():\n"
        "        if isinstance(item, (list, set, dict)) and item is not vars(module):\n            item.clear()"
    ),
    "a verdict": "check.NotYet.__init__ = lambda *a: None",
    "all comparisons": "torch.equal = torch.allclose = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda a, b: True",
    "the code of the reference": (
        "import fromscratch.batchnorm as b\nb.channel_stats.__code__ = channel_stats.__code__"
    ),
}  # fmt: skip
ENDS = {  # ends, shouts and no Python
    "os._exit": "import os\nos._exit(0)",
    "exit while it is checked": "def channel_stats(x):\n    import os\n    os._exit(0)",
    "into every channel": (
        "import contextlib, os\nfor fd in range(99):\n with contextlib.suppress(OSError):\n  os.write(fd, b'yes')"
    ),
    "a thread that runs on": (
        "import threading\ndef spin():\n    while True:\n        pass\nthreading.Thread(target=spin).start()"
    ),
    "a signal to all": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
    "brackets without end": "(" * 5000,
    "not answered": "raise check.YourTurn('6.1: Right')",
}
FINDS = """
import contextlib, gc, importlib, string, sys, types
from torch.fx.graph_module import _exec_with_source
def is_right(function):
    with contextlib.suppress(Exception):
        return function(torch.arange(6.0).reshape(3, 2))[0].tolist() == [2, 3]
def right_in(place):
    waiting, seen = [place], set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, types.FunctionType) and "stats" in item.__name__ and is_right(item):
            return item
        parts = list(item) if isinstance(item, (list, tuple)) else []
        for names in ("__dict__", "__globals__"):
            with contextlib.suppress(Exception):
                parts += getattr(item, names).values()
        waiting += [part for part in parts if id(part) not in seen]
        seen.update(map(id, parts))
    raise LookupError("nothing is right here")
"""
NAME = "lessons.06_batchnorm.checks"
WAYS = {  # to the lesson's checks, where what is right can be read off: each once got all points
    "a module": f"importlib.import_module({NAME!r})",
    "a formatter": f"string.Formatter().get_field('0.importlib.sys.modules[{NAME}]', [check], {{}})[0]",
    "code that torch executes": (
        f'_exec_with_source("import importlib; b = importlib.import_module({NAME!r})", space := {{}}) or space["b"]'
    ),
    "the check itself": "check.plain('channel_stats')",
    "all that is in memory": "gc.get_objects()",
}
FRAMES = """
def channel_stats(x):
    frame = sys._getframe(1)
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if callable(getattr(value, "expect", None)):
                return value.expect
            if isinstance(value, types.FunctionType) and value is not channel_stats and is_right(value):
                return value(x)
        frame = frame.f_back
    return x, x
"""
TALKS = """
import gc, json, os, struct, socket
for fd in range(3, 64):
    try:
        if os.fstat(fd).st_mode >> 12 == 12:
            talk = socket.socket(fileno=os.dup(fd))
    except OSError:
        pass
def frame(header, raw=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    body = struct.pack(">I", len(text)) + text + raw
    talk.sendall(struct.pack(">Q", len(body)) + body)
def dictionary(values):
    return ["dict", [[key, value] for key, value in values.items()]]
def reply(**values):
    return dictionary(values)
RAN = reply(verdict="ran", changes=["list", []], printed=0, answers=["list", [dictionary(
    {"kind": "function", "name": "channel_stats", "words": "a function", "bases": ["list", []]})]])
def seen(values):
    return reply(seen=dictionary(values), printed=0)
def on(times, make):
    frame(RAN)
    for _ in range(times):
        frame(*make())
    os._exit(0)
"""
SEEN = {  # values that no answer has: each is said to be the mean, and comes once
    "fewer bytes than it says": ["tensor", "float64", [100], "cpu", False],
    "a shape that is negative": ["tensor", "float64", [-1], "cpu", False],
    "a kind that is a method": ["_bytes", 5],
    "a fraction of a billion digits": ["Fraction", "1e1000000000"],
}
PROTOCOL = {  # written after reading in_jail/, judge and processes: replies of an answer's own making
    "a verdict of its own": "frame(reply(verdict='right', passed=1, message='Right.', points=2))\nos._exit(0)",
    "nothing was seen": "on(2000, lambda: [seen({})])",
    "nan everywhere": (
        "nan = ['float', 'nan']\nnames = 'mean', 'var', 'x after the call', 'gradient of x'\n"
        "on(2000, lambda: [seen(dict.fromkeys(names, nan))])"
    ),
    "the same as every name": (
        "on(2000, lambda: [seen({'mean': ['thing', 'Tensor', 'tensor'], 'var': ['ellipsis', '']})])"
    ),
    "a value in the place of a function": (
        "frame(reply(verdict='ran', changes=['list', []], printed=0,"
        " answers=['list', [dictionary({'kind': 'value', 'value': True})]]))\nos._exit(0)"
    ),
    "a header without end": "talk.sendall(struct.pack('>Q', 1 << 62))\nwhile True: talk.sendall(b'x' * 10**6)",
    "drop by drop": (
        "import time\ntalk.sendall(struct.pack('>Q', 1000))\nwhile True:\n    talk.sendall(b'x')\n    time.sleep(0.1)"
    ),
    "a number of a million digits": "frame(b'1' * 10**6)",
    "names that are no names": "on(1, lambda: [['dict', [['seen', ['dict', [[['list', []], 1]]]]]]])",
    "pickle": "import pickle\nframe(pickle.dumps(RAN))\nos._exit(0)",
    "endless replies": "frame(RAN)\nwhile True: frame(seen({}))",
} | {name: f"on(1, lambda: [seen({{'mean': {value!r}}})])" for name, value in SEEN.items()}  # fmt: skip
OBSERVER = {  # what takes over the observer, and answers of many faces
    "what it observes": """
        import gc, types
        for item in gc.get_objects():
            if isinstance(item, types.FunctionType) and item.__name__ in ("observe", "_observed"):
                item.__code__ = (lambda *a: {"mean": torch.zeros(3), "var": torch.zeros(3)}).__code__
        """,
    "what it is about to read": """
        import pickle
        loads = pickle.loads
        def read(data):
            request = loads(data)
            probe = request.get("probe")
            if probe:
                request["probe"] = type(probe)(probe.label, lambda answer: (probe.expect or probe.run)(answer))
            return request
        pickle.loads = read
        """,
    "a tensor that equals everything": """
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
        """,
    "right values and a gradient that lies": """
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
        """,
    "right in the first probes only": """
        calls = []
        def channel_stats(x):
            calls.append(x.shape)
            m = x.transpose(0, 1).flatten(1)
            return m.mean(1), m.var(1, correction=0 if len(calls) < 12 else 1)
        """,
    "a child that answers in its place": "import os\nif os.fork():\n    os._exit(0)",
    "the course's own answer": "from fromscratch import channel_stats",
    "the answers of the manifest": "from lessonkit import course\nprint(course.solved('06_batchnorm').exercises[0])",
}
LIES = {  # for 6.2, an answer that is a value
    "an object that equals everything": "class E:\n    __eq__ = lambda self, other: True\nages_on_paper = E()",
    "a function": "ages_on_paper = lambda *a: True",
}
READ_OFF = {name: f"{FINDS}channel_stats = right_in({way})" for name, way in WAYS.items()} | {"frames": FINDS + FRAMES}
ALL = {
    **{name: WRONG + textwrap.dedent(attack) for name, attack in {**BENT, **ENDS, **OBSERVER}.items()},
    **{f"read off: {name}": attack for name, attack in READ_OFF.items()},
    **{name: WRONG + TALKS + attack for name, attack in PROTOCOL.items()},
}


@pytest.mark.parametrize("name", [*ALL, *LIES])
def test_an_attack_gets_no_points(mark, name):
    attacked = mark(ALL[name]) if name in ALL else mark(LIES[name], "6.2")
    assert attacked.points == 0 and attacked.verdict in ("not yet", "raised", "stopped", "waits"), attacked
    assert attacked.message or attacked.verdict == "waits", attacked


def test_each_way_to_what_is_right_leads_there_where_there_is_no_jail():
    lines = "\n".join(f"assert is_right(right_in({way})), {name!r}" for name, way in WAYS.items())
    known = f"import importlib, torch\nfrom lessonkit import check\nimportlib.import_module({NAME!r})\n"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lessons_src"), "LESSON_WORK": "off"}
    command = [PYTHON, "-c", known + FINDS + lines]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
def is_layer_norm(layer):
    calls.append(1)
    return """
READS = {  # where what an answer is asked about could tell it what to say: (lesson, exercise, text)
    "the label of a probe": ("02_statistics", "2.4", CRAWLS + "any('right' in str(label) for label in crawl('label'))"),
    "how many layers came before": ("02_statistics", "2.4", CRAWLS + "len(calls) <= 3\ncalls = []"),
    "the axes of a norm": (
        "15_in_the_wild", "15.1", CRAWLS + "None\ndef ask(layer, shape):\n    return crawl('axes')[0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_what_is_right_cannot_be_read_off_the_question(name, tmp_path):
    stem, number, text = READS[name]
    lesson = assignment.read(stem)
    with Processes(Jail(Limits(seconds=SECONDS), lesson)) as processes:
        read = mark_of(Grader(lesson, processes), "calls = []\n" + text, number, tmp_path)
    assert read.points == 0 and read.verdict == "not yet", read


def test_pytorch_s_own_is_a_matter_of_the_exercise(mark):
    """The observer sees it called; where an answer hides that, its text still names it, and a person is told."""
    text = """
    class BatchNorm1d(nn.BatchNorm1d):
        def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, **kwargs):
            super().__init__(num_features, eps, momentum, affine, track_running_stats, **kwargs)
    """
    mark_ = mark(text, "6.4")
    assert mark_.points == 0 and "PyTorch's own" in mark_.message
    hidden = text + "    def forward(self, x):\n        with torch._C.DisableTorchFunction():\n"
    hidden = textwrap.dedent(hidden + "            return F.batch_norm(x, None, None, self.weight, self.bias, True)\n")
    mark_ = mark("from torch.nn import functional as F\n" + hidden, "6.4")
    assert not mark_.points or any(remark.startswith("names ") for remark in mark_.remarks)
    wide = mark(f"{six().exercises['6.4'].solved}\nif False:\n    {'長' * 190_000}.batch_norm\n", "6.4")
    assert (wide.verdict, wide.points) == ("right", 3) and len(wide.remarks[0]) < 300, "it fills no message"


# ------------------------------------------------------------------------------------ the machine


LISTENS = socket.create_server(("127.0.0.1", 0))  # on this machine, while the tests run
CONNECTS = "import socket\nones = socket.socket()\nones.settimeout(2)\nones.connect("
SEES = f"""
import gc, os, sys
files = [os.path.join(folder, name) for folder, _, names in os.walk({str(ROOT)!r}) for name in names]
files = [name[{len(str(ROOT)) + 1}:] for name in files if "/.venv/" not in name]
knows = [name for name in files if name.startswith(("notebooks", "tests", "lessons_src/lessons/", ".git/"))]
knows += [name for name in files if "batchnorm" in name or "13_speed" in name or "solutions" in name]
knows += [name for name in files if name.startswith("teaching/grading/") and "/in_jail/" not in name]
modules = [name for name in sys.modules if name.startswith("lessons") and not name.startswith("lessonkit")]
names = [1 for item in gc.get_objects() if type(item) is dict and "channel_stats" in item and item is not globals()]
raise ValueError(len(files) > 50, knows, modules, names)
"""
KIT_FILE = ROOT / "lessons_src/lessonkit/__init__.py"
CHANGES = f"""
import os
done = []
for path in {[str(KIT_FILE), "/usr/new", "/new", gettempdir() + "/new"]!r}:
    for act in (lambda p: open(p, "a").close(), os.unlink, lambda p: os.chmod(p, 0o777)):
        try:
            act(path)
            done.append(path)
        except OSError:
            pass
raise ValueError(done)
"""
LARGE = "with open('large', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(10**6))"
RAISED, STOPPED = ("raised",), ("stopped",)
MACHINE = {  # what an answer does to the machine: (text, possible verdicts, what is said of it)
    "an open bracket": ("def f(x):\n    return (x", RAISED, r"'\(' was never closed. In line 5: return \(x$"),
    "an endless loop": ("while True:\n    pass", STOPPED, f"{SECONDS} s"),
    "a long sleep": ("import time\ntime.sleep(1000)", STOPPED, f"{SECONDS} s"),
    "a loop inside": (
        "def channel_stats(x):\n    while True:\n        pass", ("not yet", "stopped"), "on and on|endless",
    ),
    "a large tensor": ("torch.ones(10**11)", RAISED, "memory"),
    "more and more bytes": ("x = []\nwhile True:\n    x.append(bytearray(10**8))", RAISED, "MemoryError"),
    "a large file": (LARGE, RAISED, "OSError"),
    "this machine's network": (f"{CONNECTS}{LISTENS.getsockname()!r})", RAISED, "OSError|ConnectionRefused"),
    "the network": (f"{CONNECTS}('192.0.2.1', 80))", RAISED, "OSError|ConnectionRefused"),  # RFC 5737
    "what is in sight": (SEES, RAISED, r"ValueError: \(True, \[\], \[\], \[\]\)"),
    "what can be changed": (CHANGES, RAISED, r"ValueError: \[\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINE)
def test_the_machine_is_held_and_the_learner_is_told(mark, name):
    text, verdicts, told = MACHINE[name]
    held = mark(WRONG + text)
    assert held.points == 0 and held.verdict in verdicts and re.search(told, held.message), held


def test_an_answer_that_prints_a_lot_is_judged_all_the_same(mark):
    """Writing 5,000 tensors out, for each input of the check, would take longer than this answer may."""
    head, quotes, rest = solved("6.1").rpartition('"""\n')
    noisy = mark(f"{head}{quotes}    for i in range(5000):\n        print('x is', x)\n{rest}")
    assert (noisy.verdict, noisy.points) == ("right", 2), noisy


def test_a_fork_bomb_is_bounded_and_gone(mark):
    assert mark(WRONG + "import os\nwhile True:\n    os.fork()").points == 0
    left = "import os, time\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        time.sleep(60)\n"
    assert mark(WRONG + left + "    os._exit(0)").points == 0
    alive = mark(WRONG + "import os\nraise ValueError([p for p in os.listdir('/proc') if p.isdigit()])")
    assert alive.message.startswith("ValueError: ['1', '2']")  # bubblewrap and the observer
    assert still_fair(mark)


def test_one_answer_leaves_nothing_for_the_next(mark):
    """No file, no variable, and no key in the kernel; it is nobody who was there before."""
    key = "import ctypes, os\nkernel = ctypes.CDLL(None)\n"
    left = "open('note', 'w').write('6.1')\nos.environ['note'] = '6.1'\n"
    mark(f"{WRONG}{key}{left}kernel.syscall(248, b'user', b'note', b'6.1', 3, -3)")
    found = "os.listdir('.'), os.environ.get('note'), kernel.syscall(249, b'user', b'note', None, 0), os.getuid() != 0"
    alone = mark(f"{WRONG}{key}raise ValueError({found})")
    assert alone.message.startswith("ValueError: ([], None, -1, True)") or os.getuid()

"""What a submission may try, and what comes of it: no points, no harm, and the next answer is judged as before.

Every attack is an answer to exercise 6.1 that is wrong and wants to be taken for right. It may do to its own process
whatever it likes: what is right is not there.
"""

import ctypes
import os
import socket
import textwrap
from tempfile import gettempdir

import pytest

from coursebuild.source import ROOT
from teaching.grading import lesson
from teaching.grading.bench import Bench
from teaching.grading.jail import PYTHON, Jail, Limits
from teaching.grading.marking import Handed, Marker
from teaching.tests.grading_toys import code, six, solved, stored, with_answers, write

SECONDS = 4
CHECKS = "import importlib\nb = importlib.import_module('lessons.06_batchnorm.checks')\n"
WRONG = "def channel_stats(x):\n    return x, x\n"
JAIL = Jail(Limits(seconds=SECONDS, memory=1 << 29), six()) if PYTHON.exists() else None
pytestmark = pytest.mark.skipif(
    not JAIL or JAIL.kind != "bubblewrap", reason="answers run in the learners' environment and in bubblewrap"
)


@pytest.fixture(scope="module")
def marker():
    with Bench(JAIL) as bench:
        yield Marker(six(), bench)


def mark_of(marker, notebook, number, tmp_path):
    """Return the Mark that a notebook gets for an exercise."""
    result = marker.mark(Handed("ann", write(notebook, tmp_path / "ann.ipynb")), tmp_path)
    return next(mark for mark in result.marks if mark.number == number)


@pytest.fixture
def mark(marker, tmp_path):
    """Return a function: text of an answer to 6.1 (or to another exercise) -> its Mark. All others stay blank."""

    def marked(text, number="6.1"):
        notebook = with_answers(solved=False, **{f"ex_{number.replace('.', '_')}": textwrap.dedent(text)})
        return mark_of(marker, notebook, number, tmp_path)

    return marked


def still_fair(mark):
    """Whether an answer that comes after an attack is judged as ever."""
    right = mark(solved("6.1"))
    wrong = mark(WRONG)
    return (right.verdict, right.points, wrong.verdict, wrong.points) == ("right", 2, "not yet", 0)


BENT = {  # a check or its parts, replaced or emptied: what is in the answer's process judges nothing
    "its own check": "check.channel_stats = lambda answer: print('Right: all of it.')",
    "its own name check": "class check:\n    channel_stats = print",
    "the function that compares": "import lessonkit.check.declare as c\nc.examine = lambda *a, **k: None",
    "the kit's comparison": "import lessonkit.check.declare as c\nc.problem = lambda *a, **k: None",
    "what is the same": "import lessonkit.check.differences as d\nd._close = d._agree = lambda *a, **k: True",
    "no sweep": "import lessonkit.check.declare as c\nc.sweep = lambda contract: []",
    "known references": "import lessonkit.check.declare as c\nc._known = lambda probe, answer: {}",
    "a check that never says no": (
        "import lessonkit.check.verdicts as v\nv.reject.__code__ = (lambda what, cause=None: None).__code__"
    ),
    "a verdict": "import lessonkit.check.verdicts as v\nv.NotYet.__init__ = lambda *a: None",
    "a built-in": "import builtins\nbuiltins.isinstance = lambda *a: True",
    "all comparisons": "torch.equal = torch.allclose = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda a, b: True",
    "torch's own functions": "torch.Tensor.__sub__ = lambda a, b: torch.zeros(())",
    "the lesson's own comparison": CHECKS + "b.examine = lambda *a, **k: None",
    "no probes": CHECKS + "b._CHANNEL_PROBES.clear()",
    "the code of the reference": (CHECKS + "b._channel_stats.__code__ = channel_stats.__code__"),
    "the code of the check": "check.plain('channel_stats').__code__ = (lambda answer: None).__code__",
    "a module put in another's place": (
        "import sys, types\nsys.modules['lessonkit.check.declare'] = types.ModuleType('c')"
    ),
}
ENDS = {  # ends, shouts and no Python
    "sys.exit": "import sys\nsys.exit(0)",
    "os._exit": "import os\nos._exit(0)",
    "exit while it is checked": "def channel_stats(x):\n    import os\n    os._exit(0)",
    "Right on stdout": "import os, sys\nos.write(1, b'Right: all of it.')\nprint('Right: all of it.')",
    "into every channel": (
        "import contextlib, os\nfor fd in range(99):\n with contextlib.suppress(OSError):\n  os.write(fd, b'yes')"
    ),
    "a thread that runs on": (
        "import threading\ndef spin():\n    while True:\n        pass\nthreading.Thread(target=spin).start()"
    ),
    "a signal to the parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "a signal to all": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
    "an error that is no error": "raise BaseException('Right')",
    "a text that is no Python": "this is not Python",
    "a null byte": "x = '\0'",
    "brackets without end": "(" * 5000,
    "not answered": "raise check.YourTurn('6.1: Right')",
}
SIX = {  # what the third review forged with: each got all points, and nothing was held
    "read off a module": CHECKS + "channel_stats = b._channel_stats",
    "by getattr of the package": "import sys;channel_stats = sys.modules['lessons.06_batchnorm.checks']._channel_stats",
    "through __wrapped__": """
        class Reach:
            def __call__(self, x):
                self = check.plain
                return self.__globals__["importlib"].import_module(
                    "lessons.06_batchnorm.checks")._channel_stats(x)
        channel_stats = Reach()
        """,
    "through a traceback's frames": """
        def channel_stats(x):
            try:
                raise ValueError
            except ValueError as self:
                frame = self.__traceback__.tb_frame
            while frame:
                for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                    if callable(getattr(value, "expect", None)):
                        return value.expect
                    if getattr(value, "__name__", "") == "_channel_stats":
                        return value(x)
                frame = frame.f_back
            return x, x
        """,
    "collections' own sys": """
        import collections
        modules = collections._sys.modules
        names = [name for name in modules if name.endswith("lessons.batchnorm")]
        channel_stats = modules[names[0]]._channel_stats
        """,
    "a formatter": """
        import string
        get = string.Formatter().get_field
        channel_stats = get("0.lessons.batchnorm._channel_stats", [check], {})[0]
        """,
    "a forward reference": """
        import typing
        text = "__import__('lessons.06_batchnorm.checks', fromlist=['x'])._channel_stats"
        channel_stats = typing.ForwardRef(text)._evaluate({}, {}, frozenset())
        """,
    "code that torch executes": """
        from torch.fx.graph_module import _exec_with_source
        space = {}
        _exec_with_source("import importlib; b = importlib.import_module('lessons.06_batchnorm.checks')", space)
        channel_stats = space["b"]._channel_stats
        """,
}
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
def numbers(name, shape, raw):
    return ["tensor", name, shape, "cpu"], raw
"""
PROTOCOL = {  # written after reading inside/, judge and bench: replies of an answer's own making
    "a verdict of its own": "frame(reply(verdict='right', passed=1, message='Right.', points=2))\nos._exit(0)",
    "right, and as many passed": "frame(reply(verdict='ran', passed=9, answers=['list', []], changes=['list', []]))",
    "nothing was seen": "on(2000, lambda: [seen({})])",
    "nothing but hidden values": "on(2000, lambda: [seen({'_mean': 1, '_var': 1})])",
    "nan everywhere": "from math import nan\non(2000, lambda: [seen({'mean': ['float', 'nan'], 'var': ['float', 'nan'],"
    " 'x after the call': ['float', 'nan'], 'gradient of x': ['float', 'nan']})])",
    "words that are numbers elsewhere": "on(2000, lambda: [seen({'mean': 'as it should be', 'var': 'its own'})])",
    "an error that is expected": "on(2000, lambda: [seen({'mean': ['raised', 'ValueError', '', '']})])",
    "the same as every name": "on(2000, lambda: [seen({'mean': ['thing', 'Tensor', 'tensor'], 'var': ['dots']})])",
    "a value in the place of a function": (
        "frame(reply(verdict='ran', changes=['list', []], printed=0,"
        " answers=['list', [dictionary({'kind': 'value', 'value': True})]]))\nos._exit(0)"
    ),
    "a header without end": "talk.sendall(struct.pack('>Q', 1 << 62))\nwhile True: talk.sendall(b'x' * 10**6)",
    "drop by drop": (
        "import time\ntalk.sendall(struct.pack('>Q', 1000))\nwhile True:\n    talk.sendall(b'x')\n    time.sleep(0.1)"
    ),
    "a thousand brackets": "frame(b'[' * 100000)",
    "a million values": "frame(['list', [0] * 10**6])",
    "a number of a million digits": "frame(b'1' * 10**6)",
    "more bytes than it says": "frame(RAN, b'x' * 1000)",
    "fewer bytes than it says": "on(1, lambda: [seen({'mean': ['tensor', 'float64', [100], 'cpu']})])",
    "shapes beyond measure": "on(1, lambda: [seen({'mean': ['tensor', 'float64', [2**39, 2**39, 0], 'cpu']})])",
    "a shape that is negative": "on(1, lambda: [seen({'mean': ['tensor', 'float64', [-1], 'cpu']})])",
    "a kind that is a method": "on(1, lambda: [seen({'mean': ['_bytes', 5]})])",
    "a kind of Python's": "on(1, lambda: [seen({'mean': ['_class__', 5]})])",
    "a dtype that is a function": "on(1, lambda: [seen({'mean': ['dtype', 'load']})])",
    "names that are no names": "on(1, lambda: [['dict', [['seen', ['dict', [[['list', []], 1]]]]]]])",
    "the fraction 1/0": "on(1, lambda: [seen({'mean': ['fraction', 1, 0]})])",
    "pickle": "import pickle\nframe(pickle.dumps(RAN))\nos._exit(0)",
    "endless replies": "frame(RAN)\nwhile True: frame(seen({}))",
}
OBSERVER = {  # what takes over the observer, and answers of many faces
    "what it observes": """
        import lessonkit.check.observing as p
        p.observe = lambda probe, answer: {"mean": torch.zeros(3), "var": torch.zeros(3)}
        """,
    "what the contract runs": """
        import lessonkit.check.sweep as c
        c._run.__code__ = (lambda contract, case, answer: {name: torch.zeros(3) for name in contract.returns}).__code__
        """,
    "how it writes": """
        import sys
        plain = next(m for name, m in sys.modules.items() if name == "plain")
        old = plain.encode
        plain.encode = lambda value: old({**value, "verdict": "right", "passed": 1})
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
    "all that is in memory": """
        import gc, types
        found = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and "stats" in f.__name__
                 and "batchnorm" in f.__module__]
        channel_stats = found[0]
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
    "a child that answers in its place": """
        import os
        if os.fork():
            os._exit(0)
        """,
    "the course's own answer": "from fromscratch import channel_stats",
    "the module of the course's own answer": "from fromscratch.batchnorm import channel_stats",
    "the answers of the manifest": "from lessonkit import course\nprint(course.solved('06_batchnorm').exercises[0])",
}
LIES = {  # for an answer that is a value
    "an object that equals everything": "class E:\n    __eq__ = lambda self, other: True\nages_on_paper = E()",
    "a dictionary that has everything": (
        "class D(dict):\n    __getitem__ = lambda self, key: 1\n    __contains__ = lambda self, key: True\n"
        "    __iter__ = lambda self: iter(())\nages_on_paper = D()"
    ),
    "a function": "ages_on_paper = lambda *a: True",
    "three dots": "ages_on_paper = ...",
}
ALL = {
    **{name: WRONG + attack for name, attack in {**BENT, **ENDS}.items()},
    **{name: WRONG + textwrap.dedent(attack) for name, attack in {**SIX, **OBSERVER}.items()},
    **{name: WRONG + TALKS + attack for name, attack in PROTOCOL.items()},
}


@pytest.mark.parametrize("name", [*ALL, *LIES])
def test_an_attack_gets_no_points(mark, name):
    attacked = mark(ALL[name]) if name in ALL else mark(LIES[name], "6.2")
    assert attacked.points == 0 and attacked.verdict in ("not yet", "raised", "stopped", "waits"), attacked
    assert attacked.message or attacked.verdict == "waits", attacked


def test_after_all_of_them_the_next_answer_is_judged_as_ever(mark):
    assert still_fair(mark)


def test_a_blank_notebook_gets_nothing_whatever_stands_in_its_other_cells(marker, tmp_path):
    """Also for answers that are values: a helper cell that takes over the observer helps none."""
    notebook = stored(solved=False)
    for number, attack in enumerate([*BENT.values(), *SIX.values(), *OBSERVER.values()]):
        notebook["cells"].insert(0, code(textwrap.dedent(attack), f"a{number}"))
    result = marker.mark(Handed("ann", write(notebook, tmp_path / "ann.ipynb")), tmp_path)
    assert {mark.verdict for mark in result.marks} == {"waits"} and result.points() + result.points(True) == 0


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
"""
READS = {  # where what an answer is asked about could tell it what to say: (lesson, exercise, text)
    "whether a layer is right": ("02_statistics", "2.4", "def is_layer_norm(layer):\n    return crawl('right')[0]"),
    "the label of a probe": (
        "02_statistics",
        "2.4",
        "def is_layer_norm(layer):\n    return any('right' in str(label) for label in crawl('label'))",
    ),
    "how many layers came before": (
        "02_statistics",
        "2.4",
        "calls = []\ndef is_layer_norm(layer):\n    calls.append(1)\n    return len(calls) <= 3",
    ),
    "the number of a layer": (
        "02_statistics",
        "2.4",
        "def is_layer_norm(layer):\n    return layer.__closure__[0].cell_contents < 3",
    ),
    "the axes of a norm": ("15_in_the_wild", "15.1", "def ask(layer, shape):\n    return crawl('axes')[0]"),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_right_cannot_be_read_off_the_question(name, tmp_path):
    stem, number, text = READS[name]
    notebook = with_answers(False, stem, **{f"ex_{number.replace('.', '_')}": CRAWLS + text})
    asked = lesson.read(stem)
    with Bench(Jail(Limits(seconds=SECONDS), asked)) as bench:
        read = mark_of(Marker(asked, bench), notebook, number, tmp_path)
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
    assert not mark_.points or any(remark.sheet.startswith("names ") for remark in mark_.remarks)


def test_names_that_fill_a_verdict_stop_nobody(tmp_path):
    """The judge names what a right answer calls. Its first reply tells that it has started, too."""
    text = f"{six().exercises['6.4'].solved}\nif False:\n    {'長' * 190_000}.batch_norm\n"
    with Bench(JAIL) as bench:
        wide = mark_of(Marker(six(), bench), with_answers(solved=False, ex_6_4=text), "6.4", tmp_path)
    assert (wide.verdict, wide.points) == ("right", 3) and len(wide.remarks[0].sheet) < 200


# ------------------------------------------------------------------------------------ the machine


def test_a_text_that_is_no_python_is_told_its_line(mark):
    broken = mark("def channel_stats(x):\n    return (x")
    assert broken.message == "SyntaxError: '(' was never closed. In line 3: return (x"


def test_an_endless_loop_is_stopped_in_time(mark):
    for text in ("while True:\n    pass", "import time\ntime.sleep(1000)", "while True:\n    print(1)"):
        stopped = mark(WRONG + text)
        assert stopped.verdict == "stopped" and f"{SECONDS} s" in stopped.message
    inside = mark("def channel_stats(x):\n    while True:\n        pass")
    assert inside.points == 0 and ("on and on" in inside.message or "endless" in inside.message)


def test_an_answer_that_prints_a_lot_is_judged_all_the_same_and_told(mark):
    """Writing 5,000 tensors out, for each input of the check, takes longer than this answer may."""
    right = solved("6.1")
    body = "    for i in range(5000):\n        print('x is', x)\n"
    head, quotes, rest = right.rpartition('"""\n')
    noisy = mark(head + quotes + body + rest)
    assert (noisy.verdict, noisy.points) == ("right", 2), noisy
    (remark,) = noisy.remarks
    assert remark.sheet.startswith("printed ") and "Remove the print" in remark.page
    assert mark("print('here')\n" + right).remarks == []


@pytest.mark.parametrize(
    "text",
    ["torch.ones(10**11)", "x = bytearray(10**11)", "x = []\nwhile True:\n    x.append(bytearray(10**8))"],
    ids=["a tensor", "bytes", "bit by bit"],
)
def test_a_memory_bomb_gets_an_error_of_its_own(mark, text):
    bomb = mark(WRONG + text)
    assert (bomb.verdict, bomb.points) == ("raised", 0)
    assert "MemoryError" in bomb.message or "memory" in bomb.message


def test_a_fork_bomb_is_bounded_and_gone(mark):
    assert mark(WRONG + "import os\nwhile True:\n    os.fork()").points == 0
    left = "import os, time\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        time.sleep(60)\n"
    assert mark(WRONG + left + "    os._exit(0)").points == 0
    alive = mark(WRONG + "import os\nraise ValueError([p for p in os.listdir('/proc') if p.isdigit()])")
    assert alive.message.startswith("ValueError: ['1', '2']")  # bubblewrap and the observer
    assert still_fair(mark)


def test_a_large_file_cannot_be_written(mark):
    large = mark(
        WRONG + "with open('large', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(10**6))"
    )
    assert large.verdict == "raised" and "OSError" in large.message


def test_nothing_that_judges_is_in_sight(mark):
    """Neither files that know what is right, nor names of it in the memory of the observer."""
    walk = f"""
    import gc, os
    files = [os.path.join(folder, name) for folder, _, names in os.walk({str(ROOT)!r}) for name in names]
    files = [name[{len(str(ROOT)) + 1}:] for name in files if "/.venv/" not in name]
    knows = [name for name in files if name.startswith(("notebooks", "tests", "lessons_src/lessons/", ".git/"))]
    knows += [name for name in files if "batchnorm" in name or "13_speed" in name or "solutions" in name]
    knows += [name for name in files if name.startswith("teaching/grading/judge")]
    names = [1 for item in gc.get_objects() if type(item) is dict and "_CHANNEL_MISTAKES" in item]
    raise ValueError(len(files) > 50, knows, names)
    """
    assert mark(WRONG + textwrap.dedent(walk)).message.startswith("ValueError: (True, [], [])")


def test_nothing_of_the_machine_can_be_changed(mark, tmp_path):
    private = tmp_path / "private.txt"
    private.write_text("mine")
    kit = str(ROOT / "lessons_src/lessonkit/__init__.py")
    text = f"""
    import os
    paths = {[str(private), kit, "/usr/new", "/new", gettempdir() + "/new"]!r}
    done = []
    for path in paths:
        for act in (lambda p: open(p, "a").close(), os.unlink, lambda p: os.chmod(p, 0o777)):
            try:
                act(path)
                done.append(path)
            except OSError:
                pass
    raise ValueError(done)
    """
    assert mark(WRONG + textwrap.dedent(text)).message.startswith("ValueError: []")
    assert private.read_text() == "mine"


def test_there_is_no_network(mark):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (("127.0.0.1", port), ("192.0.2.1", 80)):  # this machine, and one far away (RFC 5737)
            text = f"import socket\nones = socket.socket()\nones.settimeout(2)\nones.connect({address})"
            message = mark(WRONG + text).message
            assert "OSError" in message or "ConnectionRefused" in message


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls the kernel by number")
def test_no_key_in_the_kernel_goes_from_answer_to_answer(tmp_path):
    """Whoever logs in gets a keyring, which all processes inherit, those of another user too."""
    kernel, messages = ctypes.CDLL(None), []
    kernel.syscall(250, 1, None)  # as a login does
    with Bench(JAIL) as bench:
        for call in ("248, b'user', b'note', b'6.1', 3, -3", "249, b'user', b'note', None, 0"):  # adds a key, finds it
            text = f"import ctypes\nraise ValueError(ctypes.CDLL(None).syscall({call}))"
            messages.append(mark_of(Marker(six(), bench), with_answers(False, ex_6_1=text), "6.1", tmp_path).message)
    assert messages[0].startswith("ValueError: ") and messages[1].startswith("ValueError: -1")


def test_one_answer_leaves_nothing_for_the_next(mark):
    mark(WRONG + "import os\nos.makedirs('here')\nopen('note', 'w').write('6.1')\nos.environ['note'] = '6.1'")
    alone = mark(WRONG + "import os\nraise ValueError(os.listdir('.'), os.environ.get('note'), os.getuid() != 0)")
    assert alone.message.startswith("ValueError: ([], None, True)") or os.getuid()

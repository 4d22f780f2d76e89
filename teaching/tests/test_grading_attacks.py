"""What a submission may try, and what comes of it: no points, no harm, and the next answer is judged as before.

Every attack is an answer to exercise 6.1 that is wrong (WRONG) and wants to be taken for right.
"""

import os
import socket
import textwrap
from tempfile import gettempdir

import pytest

from coursebuild.source import ROOT
from teaching.grading.jail import Jail, Limits
from teaching.grading.marking import Handed, Marker
from teaching.grading.worker import Worker
from teaching.tests.grading_toys import six, with_answers, write

SECONDS = 2
WRONG = "def channel_stats(x):\n    return x, x\n"
PYTHON = ROOT / ".venv/bin/python"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="answers run in the learners' environment: make .venv/ready"
)


@pytest.fixture(scope="module")
def worker():
    with Worker(Jail(ROOT, PYTHON, Limits(seconds=SECONDS, memory=1 << 29), six())) as started:
        yield started


@pytest.fixture
def mark(worker, tmp_path):
    """Return a function: text of an answer to 6.1 -> its Mark. All other exercises stay blank."""

    def marked(text):
        path = write(with_answers(solved=False, ex_6_1=textwrap.dedent(text)), tmp_path / "ann.ipynb")
        result = Marker(six(), worker).mark(Handed("ann", path), tmp_path)
        return next(one for one in result.marks if one.number == "6.1")

    return marked


def still_fair(mark):
    """Whether an answer that comes after an attack is judged as ever."""
    right = mark(six().exercises["6.1"].solved)
    wrong = mark(WRONG)
    return (right.verdict, right.points, wrong.verdict, wrong.points) == ("right", 2, "not yet", 0)


CHECKS = {  # what replaces or bends a check; "stopped" where the check then says yes, and that is noticed
    "its own check": ("check.channel_stats = lambda answer: print('Right: all of it.')", "not yet"),
    "its own name check": ("class check:\n    channel_stats = print", "not yet"),
    "the function that compares": (
        "import lessonkit.check.lessons.batchnorm as b\nb.examine = lambda *a, **k: None",
        "stopped",
    ),
    "the kit's comparison": ("import lessonkit.check.comparing as c\nc.problem = lambda *a, **k: None", "stopped"),
    "no probes": ("import lessonkit.check.lessons.batchnorm as b\nb._CHANNEL_PROBES.clear()", "not yet"),  # the sweep
    "no probes and no sweep": (
        "import lessonkit.check.lessons.batchnorm as b\nb._CHANNEL_PROBES.clear()\n"
        "import lessonkit.check.comparing as c\nc.sweep = lambda contract: []",
        "stopped",
    ),
    "the code of the reference": (
        "import lessonkit.check.lessons.batchnorm as b\nb._channel_stats.__code__ = channel_stats.__code__",
        "not yet",
    ),
    "the code of the check": ("check.plain('channel_stats').__code__ = (lambda answer: None).__code__", "stopped"),
    "a check that never says no": (
        "import lessonkit.check.verdicts as v\nv.reject.__code__ = (lambda what, cause=None: None).__code__",
        "stopped",
    ),
    "a built-in": ("import builtins\nbuiltins.isinstance = lambda *a: True", "raised"),
    "torch's own functions": ("torch.Tensor.__sub__ = lambda a, b: torch.zeros(())", "not yet"),
    "a module put in another's place": (
        "import sys, types\nsys.modules['lessonkit.check.comparing'] = types.ModuleType('c')",
        "not yet",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_was_bent_gives_no_points(mark, name):
    attack, verdict = CHECKS[name]
    found = mark(WRONG + attack)
    assert found.points == found.held == 0
    assert found.verdict == verdict, found
    assert bool(found.look) == (verdict == "stopped")


def test_after_bent_checks_the_next_answer_is_judged_as_ever(mark):
    mark(WRONG + CHECKS["a built-in"][0])
    mark(WRONG + CHECKS["torch's own functions"][0])
    assert still_fair(mark)


ENDS = {
    "sys.exit": ("import sys\nsys.exit(0)", "raised"),
    "os._exit": ("import os\nos._exit(0)", "stopped"),
    "exit while it is checked": ("def channel_stats(x):\n    import os\n    os._exit(0)", "stopped"),
    "Right on stdout": ("import os, sys\nos.write(1, b'Right: all of it.')\nprint('Right: all of it.')", "not yet"),
    "into every channel": (
        "import contextlib, os\nfor fd in range(99):\n with contextlib.suppress(OSError):\n  os.write(fd, b'yes')",
        "stopped",
    ),
    "a signal to the worker": ("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", "raised"),
    "a signal to all": ("import os, signal\nos.kill(-1, signal.SIGKILL)", None),
    "an error that is no error": ("raise BaseException('Right')", "raised"),
    "a text that is no Python": ("this is not Python", "raised"),
    "a null byte": ("x = '\0'", "raised"),
    "brackets without end": ("(" * 5000, "raised"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_answer_that_ends_or_shouts_gets_no_points(mark, name):
    attack, verdict = ENDS[name]
    found = mark(WRONG + attack)
    assert found.points == found.held == 0
    assert verdict is None or found.verdict == verdict or os.getuid() and found.verdict == "stopped", found


def test_a_text_that_is_no_python_is_told_its_line(mark):
    assert (
        mark("def channel_stats(x):\n    return (x").said == "SyntaxError: '(' was never closed. In line 3: return (x"
    )


def test_after_answers_that_end_the_next_one_is_judged_as_ever(mark):
    mark(WRONG + ENDS["a signal to all"][0])
    mark(WRONG + ENDS["os._exit"][0])
    assert still_fair(mark)


HELD = {  # what is not prevented in one process, and has to name what it reaches for: a person looks
    "the grader's channel, through frames": (
        """
        import marshal, os, sys
        def channel_stats(x):
            frame = sys._getframe()
            while frame and "report" not in frame.f_locals:
                frame = frame.f_back
            fd, token = frame.f_locals["report"]
            os.write(fd, token + marshal.dumps(("right", "Right: forged", 1, [])))
            os._exit(0)
        """
    ),
    "the course's answer out of the check": (
        """
        from lessonkit.check.lessons.batchnorm import _channel_stats as channel_stats
        """
    ),
    "a tensor that equals everything": (
        """
        class Liar(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                with torch._C.DisableTorchFunctionSubclass():
                    out = function(*args, **(kwargs or {}))
                    zero = getattr(function, "__name__", "") in ("sub", "__sub__", "__rsub__", "rsub")
                    return torch.zeros_like(out) if zero else out

        def channel_stats(x):
            m = x.transpose(0, 1).flatten(1)
            return m.mean(1).as_subclass(Liar), (m.var(1, correction=1)).as_subclass(Liar)
        """
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_cannot_be_prevented_waits_for_a_person(mark, name):
    found = mark(HELD[name])
    assert found.points == 0
    assert found.look or found.verdict in ("not yet", "raised"), found


def test_a_forged_verdict_is_held_and_says_why(mark):
    """The attack works, inside the process; the points it would get are held because of the names it needs."""
    found = mark(HELD["the grader's channel, through frames"])
    assert (found.points, found.held) == (0, 2)
    assert {"imports marshal", "imports os", "uses sys._getframe", "uses .f_back"} <= set(found.look)


def test_an_answer_that_imports_the_course_s_own_gets_none(mark):
    found = mark("from fromscratch import channel_stats")
    assert (found.verdict, found.points) == ("raised", 0) and "ImportError" in found.said
    found = mark("from fromscratch.batchnorm import channel_stats")
    assert (found.verdict, found.points) == ("raised", 0)
    assert (
        mark("from fromscratch import mean_and_var\n" + six().exercises["6.1"].solved).points == 2
    )  # lesson 2's: fine


# ------------------------------------------------------------------------------------ the machine


def test_an_endless_loop_is_stopped_in_time(mark, worker):
    for text in ("while True:\n    pass", "def channel_stats(x):\n    while True:\n        pass"):
        found = mark(WRONG + text)
        assert found.verdict == "stopped" and "endless loop" in found.said
    asleep = mark(WRONG + "import time\ntime.sleep(1000)")
    assert asleep.verdict == "stopped" and f"{SECONDS} s" in asleep.said


def test_an_answer_that_prints_a_lot_is_judged_all_the_same_and_told(mark):
    """Writing 5,000 tensors out, for each input of the check, takes longer than this answer may."""
    right = six().exercises["6.1"].solved
    body = "    for i in range(5000):\n        print('x is', x)\n"
    head, found, rest = right.rpartition('"""\n')
    noisy = mark(head + found + body + rest)
    assert (noisy.verdict, noisy.points) == ("right", 2), noisy
    (remark,) = noisy.remarks
    assert remark.sheet.startswith("printed ") and "Remove the print" in remark.page
    assert mark("print('here')\n" + right).remarks == []
    endless = mark(WRONG + "while True:\n    print(1)")
    assert endless.verdict == "stopped" and "printed" in endless.remarks[0].sheet


@pytest.mark.parametrize(
    "text",
    ["torch.ones(10**11)", "x = bytearray(10**11)", "x = []\nwhile True:\n    x.append(bytearray(10**8))"],
    ids=["a tensor", "bytes", "bit by bit"],
)
def test_a_memory_bomb_gets_an_error_of_its_own(mark, text):
    found = mark(WRONG + text)
    assert (found.verdict, found.points) == ("raised", 0)
    assert "MemoryError" in found.said or "memory" in found.said


def test_a_fork_bomb_is_bounded_and_swept_away(mark, worker):
    found = mark(WRONG + "import os\nwhile True:\n    os.fork()")
    assert found.points == 0
    worker.ask({"do": "probe", "question": probe_question()}, 60)  # the limit on processes is free again
    assert still_fair(mark)


def test_a_process_that_outlives_its_answer_is_ended(mark):
    """It leaves its session and its parent, and would write a file into the next answer's folder."""
    left = """
    import os, time
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(60)
        os._exit(0)
    """
    mark(WRONG + textwrap.dedent(left))
    names = "import os\nnames = [p for p in os.listdir('/proc') if p.isdigit()]\nraise ValueError(len(names))"
    if os.getuid() == 0:
        alone = mark(WRONG + names).said
        assert mark(WRONG + names).said == alone  # as many processes as before, none of them left
    assert still_fair(mark)


def test_a_thread_that_runs_on_changes_nothing(mark):
    found = mark(
        WRONG + "import threading\ndef spin():\n    while True:\n        pass\nthreading.Thread(target=spin).start()"
    )
    assert (found.verdict, found.points) == ("not yet", 0)
    assert still_fair(mark)


def test_a_large_file_cannot_be_written(mark):
    found = mark(
        WRONG + "with open('large', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(10**6))"
    )
    assert found.verdict == "raised" and "OSError" in found.said


def probe_question():
    return {"port": 1, "private": "/", "solutions": "/", "folder": "/", "memory": 1, "file": 1, "processes": 1}


MANIFEST = "lessons_src/lessonkit/course"
jailed = pytest.mark.skipif(
    Jail(ROOT, PYTHON, Limits(), six()).kind != "bubblewrap" if PYTHON.exists() else True,
    reason="bubblewrap is not installed or does not work here, so files are not hidden",
)


@jailed
@pytest.mark.parametrize(
    "name",
    ["notebooks/solutions", "lessons_src/lessons", f"{MANIFEST}/solutions/06_batchnorm.json", "tests/answers", ".git"],
)
def test_the_solutions_are_not_in_sight(mark, name):
    assert (ROOT / name).exists() or name == ".git"
    found = mark(WRONG + f"import os\nraise ValueError(os.path.exists({str(ROOT / name)!r}))")
    assert found.said.startswith("ValueError: False")


@jailed
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
    assert mark(WRONG + textwrap.dedent(text)).said.startswith("ValueError: []")
    assert private.read_text() == "mine"


@jailed
def test_there_is_no_network(mark):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (("127.0.0.1", port), ("192.0.2.1", 80)):  # this machine, and one far away (RFC 5737)
            text = f"import socket\nones = socket.socket()\nones.settimeout(2)\nones.connect({address})"
            assert "OSError" in mark(WRONG + text).said or "ConnectionRefused" in mark(WRONG + text).said


@jailed
def test_one_answer_leaves_nothing_for_the_next(mark):
    mark(WRONG + "import os\nos.makedirs('here')\nopen('note', 'w').write('6.1')\nos.environ['note'] = '6.1'")
    found = mark(WRONG + "import os\nraise ValueError(os.listdir('.'), os.environ.get('note'))")
    assert found.said.startswith("ValueError: ([], None)")

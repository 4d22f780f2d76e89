"""Each learner apart: whatever a file is, its row says what happened, and the next one is graded."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from coursebuild.source import ROOT
from teaching.grading.apart import Failed, apart
from teaching.tests.grading_toys import code, graded, solved, stored, with_answers, write

RIGHT = solved("6.1")


class Quick:
    """A bench that finds every answer right at once: these tests are about files."""

    def __init__(self, jail):
        self.jail = jail

    __enter__ = lambda self: self
    __exit__ = lambda self, *_: None

    def ask(self, **request):
        return {"verdict": "right", "message": "Right.", "passed": len(request["checks"]), "computed": 0.1}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("teaching.grading.__main__.Bench", Quick)


def notebook(text):
    return json.dumps(with_answers(solved=False, ex_6_1=text))


def cells(texts):
    return [code(text, f"c{at}") for at, text in enumerate(texts)]


def with_cells(texts):
    whole = with_answers(solved=False, ex_6_1="def channel_stats(x):\n    return f0(x)")
    whole["cells"] += cells(texts)
    return json.dumps(whole)


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(40 << 30)


def a_socket(path):
    before = os.getcwd()
    os.chdir(path.parent)  # its name may have 108 bytes
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(before)


def many(path):
    path.mkdir()
    for at in range(500):
        (path / f"{at}.ipynb").write_text("{}")


MADE = {  # what lies there as NAME.ipynb: a text, or a function that makes it
    "1200 terms": notebook("def channel_stats(x):\n    return " + " + ".join(["x"] * 1200)),
    "600 branches": notebook("if x == 0:\n    y = 0\n" + "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(600))),
    "a surrogate": notebook("channel_stats = '\ud800'"),
    "a sparse file of 40 GB": sparse,
    "a pipe": os.mkfifo,
    "300,000 empty lines": notebook(RIGHT + "\n" * 300_000),
    "3,000 cells in a chain": with_cells([f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(3000)]),
    "a socket": a_socket,
    "a folder": lambda path: path.mkdir(),
    "a folder of 500 notebooks": many,
    "a link to itself": lambda path: path.symlink_to(path),
    "100,000 cells": json.dumps({"cells": cells(["x = 1"] * 100_000)}),
    "4,900 copies of an exercise": with_cells([RIGHT] * 4900),
    "a cell of 40 MB": notebook("x = '" + "a" * 40_000_000 + "'"),
    "brackets in brackets": notebook("x = " + "(" * 90_000),
    "a deep list": '{"cells": ' + "[" * 1_000_000,
    "a number of a million digits": '{"cells": ' + "9" * 1_000_000 + "}",
    "blanks before a mark": notebook(("\t" * 20_000 + "x\n") * 9),
    "dots and letters without end": notebook("a." * 90_000 + "!"),
    "a quarter of a million names": notebook("x = [" + "a, b, c, d, e, f, g, h, " * 8_000 + "]"),
    "a null byte": notebook("channel_stats = 1\0"),
    "lines that end as Macs once did": notebook(RIGHT.replace("\n", "\r")),
    "a source of numbers": json.dumps({"cells": [{"cell_type": "code", "source": [1, 2]}]}),
    "cells that are a word": '{"cells": "code"}',
    "not a notebook, but NaN": "NaN",
    "UTF-16": notebook(RIGHT).encode("utf-16"),
    "a card of 5,000 digits": json.dumps({"cells": cells([f"# Exercise {'9' * 5000}.1\nx = 1"])}),
    "a type of 200,000 letters": notebook(RIGHT).replace('"code"', f'"{"k" * 200_000}"'),
    "a card a thousand times": notebook("# Exercise 6.1 · ●●○○○ · 3 min\n" * 3000),
    "unreadable": lambda path: (path.write_text("{}"), path.chmod(0)),
}


@pytest.mark.parametrize("name", MADE)
def test_a_file_of_any_kind_has_a_row_and_the_next_one_is_graded(name, tmp_path, capsys):
    write(stored(), tmp_path / "in/zoe.ipynb")
    make, path = MADE[name], tmp_path / "in/ann.ipynb"
    if callable(make):
        make(path)
    else:
        path.write_bytes(make if isinstance(make, bytes) else make.encode("utf-8"))
    started = time.perf_counter()
    row = graded(tmp_path)
    assert time.perf_counter() - started < 60
    assert row["zoe"]["points"] == "9"
    if name != "a link to itself":  # a link is nobody's submission
        ann = row.get("ann") or row["ann.ipynb"]
        assert ann["state"] or ann["remarks"] or ann["points"] != "0"
        assert (tmp_path / ann["page"]).is_file()
    graded(tmp_path)  # run again: it goes on
    assert "already" in capsys.readouterr().out


NAMES = [
    b"an\xff.ipynb",
    b"\xe2\x80\xae\x1b[2J.ipynb",
    b"a\nb.ipynb",
    b"=cmd().ipynb",
    b"x" * 249 + b".ipynb",
    b"9" * 200 + b".ipynb",
    b"a b.ipynb",
    b"a_b-" + hashlib.sha256(b"a b").hexdigest()[:6].encode() + b".ipynb",  # as the page of "a b" is called
]


def test_names_of_any_bytes_have_rows_and_pages(tmp_path):
    for name in NAMES:
        write(stored(), tmp_path / "in" / os.fsdecode(name))
    (tmp_path / "in" / os.fsdecode(b"\xfe\xfd")).mkdir()
    table = graded(tmp_path)
    assert len(table) == len(NAMES) + 1
    assert all((tmp_path / row["page"]).is_file() for row in table.values())
    assert len({row["page"] for row in table.values()}) == len(table)
    assert table["an\\xff"]["points"] == "9" and table["\\xfe\\xfd"]["state"] == "not graded"
    assert graded(tmp_path).keys() == table.keys()


def test_an_error_of_the_grader_s_own_costs_one_exercise_and_is_said(tmp_path, monkeypatch):
    class Broken(Quick):
        def ask(self, **request):
            if request["number"] == "6.2":
                raise ValueError("a fault of ours")
            return super().ask(**request)

    monkeypatch.setattr("teaching.grading.__main__.Bench", Broken)
    write(stored(), tmp_path / "in/ann.ipynb")
    row = graded(tmp_path)["ann"]
    assert row["ex 6.2"] == "0" and row["points"] == "7" and "6.2" in row["state"]
    assert "a fault of ours" in (tmp_path / "grades/ann.html").read_text(encoding="utf-8")


def test_what_takes_too_long_or_too_much_is_given_up():
    unwritten = lambda: len(bytes(3 << 30))  # memory that costs nothing where nothing bounds it
    for act in (unwritten, lambda: [0] * 10**12, lambda: time.sleep(100), lambda: os._exit(3)):
        started = time.perf_counter()
        with pytest.raises(Failed):
            apart(act, seconds=1)
        assert time.perf_counter() - started < 10
    assert apart(lambda: {"a": (1, "b")}) == {"a": (1, "b")}
    with pytest.raises(KeyError):
        apart(lambda: {}["a"])


def test_a_ctrl_c_while_another_process_begins_is_not_lost():
    """Python swallows what is raised while it forks: this sends Ctrl-C there, to a Python of its own."""
    program = (
        "import os, signal; from teaching.grading.apart import apart\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a test in the background ignores it
        "os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "try:\n    apart(lambda: 1)\nexcept KeyboardInterrupt:\n    print('stopped')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout == "stopped\n" and not ended.stderr

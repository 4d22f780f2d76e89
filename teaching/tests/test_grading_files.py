"""Each learner apart: whatever a file is, its row says what happened, and the next one is graded."""

import json
import os
import time

import pytest

from teaching.grading.notebook import Unreadable, bounded
from teaching.tests.submissions import code, graded, six, solved, with_answers, write

RIGHT = solved("6.1")
ALL = str(sum(exercise.difficulty for exercise in six().exercises.values()))


class Quick:
    """Finds every answer right at once: these tests are about files."""

    def __init__(self, jail):
        self.jail = jail

    __enter__ = lambda self: self
    __exit__ = lambda self, *_: None

    def ask(self, **request):
        return {"verdict": "right", "message": "", "passed": len(request["checks"]), "remarks": []}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("teaching.grading.__main__.Processes", Quick)


def notebook(text):
    return json.dumps(with_answers(False, answers={"6.1": text}))


def worksheets(version):
    """Return a notebook as IPython stored it before 2014."""
    sheet = {"cells": [{"cell_type": "code", "language": "python", "input": RIGHT, "outputs": []}]}
    return json.dumps({"nbformat": version, "nbformat_minor": 0, "metadata": {}, "worksheets": [sheet]})


def cells(texts):
    return [code(text, f"c{at}") for at, text in enumerate(texts)]


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(40 << 30)


ONE = "not answered"  # of the state of a row with an answer to 6.1 alone
NONE = "it cannot be read: "  # of the remarks
NO_CELLS = "a JSON file and no notebook: hand in the .ipynb that JupyterLab saves"
MADE = {  # what lies there as NAME.ipynb: (a text, or a function that makes it; what the row's state or remarks say)
    "a surrogate": (notebook("channel_stats = '\ud800'"), ONE),
    "a sparse file of 40 GB": (sparse, "at most 50 are read"),
    "a pipe": (os.mkfifo, "no file that can be read"),
    "a link to itself": (lambda path: path.symlink_to(path), None),  # a link is nobody's submission
    "4,900 copies of an exercise": (json.dumps({"cells": cells([RIGHT] * 4900)}), "there are 4900 cells"),
    "a cell of 40 MB": (notebook("x = '" + "a" * 40_000_000 + "'"), ONE),
    "helpers of 300,000 signs": (
        json.dumps({"cells": cells([f"a = '{'x' * 150_000}'", f"b = '{'x' * 150_000}'", f"{RIGHT}\nboth = a + b"])}),
        "own definitions used too: a, b",
    ),
    "brackets in brackets": (notebook("x = " + "(" * 90_000), ONE),
    "blanks before a mark": (notebook(("\t" * 20_000 + "x\n") * 9), ONE),
    "half a notebook": (notebook(RIGHT)[:20_000], NONE + "JSONDecodeError"),
    "a notebook in format 3": (worksheets(3), "a notebook in the old format 3: open it in JupyterLab, save it there"),
    "a notebook in format 2": (worksheets(2), "a notebook in the old format 2: open it in JupyterLab, save it there"),
    "an object": ('{"a": 1}', NO_CELLS),
    "a list": ("[1, 2]", NO_CELLS),
    "a number": ("3", NO_CELLS),
    "cells that are none": ('{"cells": [1]}', NO_CELLS),
    "a cell without a source": ('{"cells": [{"cell_type": "code"}]}', NO_CELLS),
    "a card of 5,000 digits": (json.dumps({"cells": cells([f"# Exercise {'9' * 5000}.1\nx = 1"])}), "of lesson 999"),
    "unreadable": (lambda path: (path.write_text("{}"), path.chmod(0)), "cannot be read" if os.getuid() else NO_CELLS),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_a_file_of_any_kind_has_a_row_and_the_next_one_is_graded(name, tmp_path):
    write(with_answers(), tmp_path / "in/zoe.ipynb")
    (make, told), path = MADE[name], tmp_path / "in/ann.ipynb"
    if callable(make):
        make(path)
    else:
        path.write_text(make, encoding="utf-8")
    started = time.perf_counter()
    table = graded(tmp_path)
    assert time.perf_counter() - started < 60
    assert table.pop("zoe")["points"] == ALL and len(table) == (told is not None)
    for row in table.values():
        assert told in row["state"] + row["remarks"], row
        assert (tmp_path / row["page"]).is_file() and (tmp_path / row["page"]).stat().st_size < 1_000_000
        assert "x" * 1000 not in (tmp_path / row["page"]).read_text(encoding="utf-8")


NAMES = [
    b"an\xff.ipynb",
    b"\xe2\x80\xae\x1b[2J.ipynb",
    b"a\nb.ipynb",
    b"=cmd().ipynb",
    b"x" * 249 + b".ipynb",
    b"a b.ipynb",
]


def test_names_of_any_bytes_have_rows_and_pages(tmp_path):
    for name in NAMES:
        write(with_answers(), tmp_path / "in" / os.fsdecode(name))
    (tmp_path / "in" / os.fsdecode(b"\xfe\xfd")).mkdir()
    table = graded(tmp_path)
    assert len(table) == len(NAMES) + 1
    assert all((tmp_path / row["page"]).is_file() for row in table.values())
    assert len({row["page"] for row in table.values()}) == len(table)
    assert table["an\\xff"]["points"] == ALL and table["\\xfe\\xfd"]["state"] == "not graded"


def test_what_takes_too_long_or_too_much_is_given_up():
    unwritten = lambda: len(bytes(3 << 30))  # memory that costs nothing where nothing bounds it
    for act in (unwritten, lambda: time.sleep(100), lambda: os._exit(3)):
        started = time.perf_counter()
        with pytest.raises(Unreadable):
            bounded(act, seconds=1)
        assert time.perf_counter() - started < 10

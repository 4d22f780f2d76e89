"""What a piece of code reads and binds: told from its bytecode, so with the words of each version of Python."""

import pytest

from lessonkit.program import names, needed, statements

READS_AND_BINDS = {
    "axes = [-i for i in range(1, n)]": ("range n", "axes"),
    "for i in range(3): print(i)\naxes = [i for i in y]": ("range print y", "i axes"),
    "[h for h in i if (w := h)]": ("i", "w"),
    "x: int = 3\nx += k": ("int k", "x"),
    "class A(B):\n    x: int = 1\n    z = [a for a in q]\n    def f(self): return g + x": ("B int q g x", "A"),
    "class A(B):\n    x = 1\n    y = x\n    def f(self): return super().f()": ("B super", "A"),
    "def f(a: T = d) -> U:\n    global n\n    n = 1\n    return lambda: h": ("T d U h", "f"),
    "with a as b, c(): pass\nimport p.q as r, s.t": ("a c", "b r s"),
    "try:\n    from m import e\nexcept ImportError:\n    e = -1": ("ImportError", "e"),
    "a, (b, *c) = d = w\nx[0] = y.z = 1\ndel v": ("w x y", "a b c d"),
}


@pytest.mark.parametrize("code", READS_AND_BINDS)
def test_what_code_reads_and_binds(code):
    reads, binds = READS_AND_BINDS[code]
    assert names(code) == (set(reads.split()), set(binds.split()))


def test_a_name_needs_what_was_bound_before_it_and_its_functions_what_is_bound_in_the_end():
    program = statements(
        "def last():\n    return -1\naxis = last()\nx = 1\ndef last():\n    return axis2\n"
        "axis2 = 3\naxis2 = 4\ndef mean(x):\n    return x.mean(axis) + last() + missing"
    )
    needs, unbound = needed(program, "mean")
    texts = [statement.text.replace("\n    ", " ") for statement in needs]
    assert texts[:-1] == ["def last(): return -1", "axis = last()", "axis2 = 4", "def last(): return axis2"]
    assert needs[-1].binds == {"mean"} and unbound == ["missing"]

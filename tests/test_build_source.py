"""What coursebuild refuses in lessons: a table of bad sources, with the line, the words and the way out of each."""

import pytest

from coursebuild import inventory, sources
from coursebuild.source import LessonError
from tests.toy import BEGIN, END, EXPORT, TITLE, project, refused, whole

BLANK = '# %% tags=["exercise"]\n# Exercise 2.1 · ●○○○○ · 5 min\ndef f(x):\n'  # three lines, from line 3 on
FORM = "is not how a cell begins"
CELLS = [  # (source after the title's two lines, line, words, way out)
    ('# %% tags=["exersice"]\n1\n', 3, "unknown tag 'exersice'", "expected one of behind, check"),
    ('# %% tags="check"\n1\n', 3, FORM, 'tags=["check"]'),
    ("# %%\n\n# %%\n1\n", 3, "an empty cell", "Fill it or remove it"),
    ('# %% id="a"\n1\n# %% id="a"\n2\n', 5, "'a' is taken by the cell at line 3", "Give it another one"),
    ("# %%\ndef f():\n    # %% x\n    return 1\n", 1, "jupytext sees 3 cells", "is indented"),
    ('# %%\ns = """\n# %%\n"""\n', 1, "jupytext sees 2 cells", "inside a string"),
    ("# %%\nx = 1\nx = = 2\n", 5, "cannot read this line", "Mend it"),
]
BLANKS = [
    (BLANK + BEGIN + "    a = 1\n" + BEGIN + END, 8, "the solution that begins at line 6", "End that"),
    (BLANK + "    return 1\n" + END, 7, "without a BEGIN SOLUTION", "Add it, or remove"),
    (BLANK + BEGIN + "    return 1\n", 6, "is never closed", "Add END SOLUTION"),
    (BLANK + BEGIN + "    1\n" + END[4:], 8, "is indented unlike BEGIN SOLUTION at line 6", "Align it"),
    (BLANK + BEGIN.lower().replace("tion", "ton"), 6, "a malformed mark", "Write it alone"),
    ("# %%\n" + BEGIN + END, 3, "has no tag", 'tags=["exercise"]'),
    (BLANK + "    return 1\n", 3, "an exercise without a solution", "### BEGIN SOLUTION"),
    ('# %% tags=["exercise"]\n' + BEGIN + END, 3, "without its card", "'# Exercise 3.1 ·"),
]
GOOD, TEXT = "# - [ ] a :: b\n# - [x] c :: d\n", "# %% [markdown]\n"
ASKED = TEXT + "# **Predict 2.1:** x\n"
QUESTIONS = [
    (TEXT + GOOD, 4, "an option without its question", "no empty line between"),
    (ASKED + "# - [x] a :: b\n", 4, "has 1 options, expected two to four", "right below"),
    (ASKED + "# - [ ] a :: b\n# - [ ] c :: d\n", 4, "exactly one right option", "mark it '- [x]'"),
    (ASKED + "# - [x] a\n# - [ ] c :: d\n", 5, "'- [x] a' is not an option", "Write '- [ ]"),
]
EXPORTS = [
    (EXPORT + "def f(x):\n    return x + d\n", 3, "reads 'd', which no import", "Import it"),
    ("# %%\nfrom fromscratch import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    ("# %%\nfrom lessonkit.mine import gone\n", 4, "no lesson exports 'gone'", "Define it here"),
    ("# %%\nfrom fromscratch.one import early\n", 4, "hides what it uses", "Write 'from"),
]
RECORDS = [  # a text that names a record
    ("Of {nothing_of_it:n}.\n", 3, "data/runs/nothing_of_it.json is missing", "make runs ARGS=nothing_of_it"),
    ("Up to {rnn_sweep.none:max}.\n", 3, "does not say how many runs it has", "End it with {rnn_sweep:again}"),
    ("{rnn_sweep.gru} of {rnn_sweep:runs}\n", 3, "holds no number 'gru'", "It shows none, none_validation"),
    ("{suspects[5].loss} of {suspects:n}\n", 3, "names nothing", "its grid is {'norm': ['LayerNorm', 'Suspect']"),
    ("{rnn_sweep.none:best} of {rnn_sweep:runs}\n", 3, "names nothing", "says how a number is named"),
    ("{rnn_sweep.none:last:range} of {rnn_sweep:runs}\n", 3, "has no form", "rnn_sweep is a record"),
]
RECORDS = [("# %% [markdown]\n# " + text, *row) for text, *row in RECORDS]
HEADS = [  # (the whole source, line, words, way out)
    ("# ---\n# jupytext: x\n# ---\n" + TITLE, 1, "on its first line", "Remove what stands before it"),
    ("# %% [markdown]\n# # 3 · Tiny\n", 1, "starts with the title", "Write '# 2 · ...'"),
]
BAD = [(TITLE + text, *row) for text, *row in [*CELLS, *BLANKS, *QUESTIONS, *EXPORTS, *RECORDS]] + HEADS
OTHERS = {
    "01_one": f"# %% [markdown]\n# # 1 · One\n{EXPORT}early = 1\n",
    "03_three": f"# %% [markdown]\n# # 3 · Three\n{EXPORT}late = 1\n",
}


@pytest.mark.parametrize("text, line, what, way_out", BAD)
def test_a_wrong_source_is_refused(text, line, what, way_out, tmp_path):
    project(tmp_path, OTHERS | {"02_tiny": text})
    refused(lambda: whole(tmp_path), line, what, way_out)


def test_an_inventory_names_each_section_that_is_gone(tmp_path):
    options = "- [x] a :: b :: Gone\n- [ ] c :: d\n- [ ] e :: f :: Gone too\n"
    source = project(tmp_path, OTHERS) / inventory.SOURCE
    source.write_text(f"## Theme\n\n### 1 · Belief\n\n**A1:** x\n{options}", encoding="utf-8")
    with pytest.raises(LessonError) as error:
        inventory.read(tmp_path)
    places = [line.partition(". ")[0] for line in str(error.value).splitlines()]
    assert places == [
        f"{inventory.SOURCE}:{at}: no lesson has a section '{s}'" for at, s in ((6, "Gone"), (8, "Gone too"))
    ]


def test_code_behind_the_notebooks_is_in_the_module_alone(tmp_path):
    behind = '\n# %% tags=["export", "behind"]\nimport math\nhalf = math.tau / 2\n'
    taken = "\n# %%\nfrom fromscratch.tiny import half\n"
    project(tmp_path, {"02_tiny": TITLE + taken + behind})
    course = sources.load(tmp_path)
    assert not course.errors and "half = math.tau / 2" in course.package["tiny.py"]
    assert all("math" not in cell.source for cell in course.lessons[0].cells)

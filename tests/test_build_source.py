"""What coursebuild refuses in a lesson's source, in its exports, and among several lessons."""

import pytest

from tests.toy import EXPORT, TITLE, lesson, project, refused, whole

# ---------------------------------------------------------------------------------------------- refused: the source

BLANK = '# %% tags=["exercise"]\n# Exercise 2.1 · ●○○○○ · 5 min\ndef f(x):\n'  # three lines, from line 3 on
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
FORM = "is not how a cell begins"
CELLS = [  # (source after the title's two lines, line, words, way out)
    ('# %% tags=["exersice"]\n1\n', 3, "unknown tag 'exersice'", "expected one of check, exercise"),
    ('# %% [markdown] tags=["check"]\n# a\n', 3, "belong to code cells", "Remove them"),
    ('# %% tags="check"\n1\n', 3, FORM, 'tags=["check"]'),
    ("#%%\n1\n", 3, "'#%%' is not how a cell begins", "Write '# %%'"),
    ("# %%\n\n# %%\n1\n", 3, "an empty cell", "Fill it or remove it"),
    ('# %% id="a"\n1\n# %% id="a"\n2\n', 5, "'a' is taken by the cell at line 3", "Give it another one"),
    (f'# %% id="{"a" * 65}"\n1\n', 3, "is not one to 64 letters", "Rename it"),
    ("# %%\ndef f():\n    # %% x\n    return 1\n", 1, "jupytext sees 3 cells", "is indented"),
    ('# %%\ns = """\n# %%\n"""\n', 1, "jupytext sees 2 cells", "inside a string"),
    ("# %%\n1 / 0  # yes\n# NBVAL_SKIP\n", 3, "steers nbval past", "use a tag"),
    (BLANK + BEGIN + "    a = 1\n" + BEGIN + END, 8, "the solution that begins at line 6", "End that"),
    (BLANK + "    return 1\n" + END, 7, "without a BEGIN SOLUTION", "Add it, or remove"),
    (BLANK + BEGIN + "    return 1\n", 6, "is never closed", "Add END SOLUTION"),
    (BLANK + BEGIN + "    1\n" + END[4:], 8, "is indented unlike BEGIN SOLUTION at line 6", "Align it"),
    (BLANK + BEGIN.lower().replace("tion", "ton"), 6, "a malformed mark", "Write it alone"),
    (BLANK + BEGIN.replace("    ", "\t"), 6, "a malformed mark", "Write it alone"),
    ("# %% [markdown]\n# ### BEGIN SOLUTION\n", 4, "a malformed mark", "'<!-- BEGIN"),
    (BLANK + "    # <!-- BEGIN SOLUTION -->\n", 6, "a malformed mark", "'### BEGIN SOLUTION'"),
    ("# %%\n" + BEGIN + END, 3, "has no tag", 'tags=["exercise"]'),
    (BLANK + "    return 1\n", 3, "an exercise without a solution", "### BEGIN SOLUTION"),
    ('# %% tags=["exercise"]\n' + BEGIN + END, 3, "without its card", "'# Exercise 3.1 ·"),
]
HEADS = [  # (the whole source, line, words, way out)
    ("# ---\n# jupytext: x\n# ---\n" + TITLE, 1, "on its first line", "Remove what stands before it"),
    ("# %% [markdown]\n# # 3 · Tiny\n", 1, "starts with the title", "Write '# 2 · ...'"),
    ("# %%\n1\n", 1, "the first cell is Markdown", "Write '# 2 · ...'"),
]


@pytest.mark.parametrize("text, line, what, way_out", [*((TITLE + text, *row) for text, *row in CELLS), *HEADS])
def test_a_wrong_source_is_refused(text, line, what, way_out, tmp_path):
    refused(lambda: lesson(tmp_path, text), line, what, way_out)


def test_an_odd_name_is_refused(tmp_path):
    root = project(tmp_path, {"02-Tiny.py": TITLE})
    refused(lambda: whole(root), 1, "is called like 02_", "Rename", "lessons_src/lessons/02-Tiny.py")


# --------------------------------------------------------------------------------------------- refused: the exports

SHOW = "# %%\nfrom lessonkit import show\n" + EXPORT
EXPORTS = [  # (source of lesson 2 after the title's two lines, line, words, way out)
    (EXPORT + "def f(x):\n    return x + d\n", 3, "reads 'd', which no import", "Import it"),
    ("# %%\nD = 4\n" + EXPORT + "def f(x):\n    return x * D\n", 5, "reads 'D'", "or export"),
    (EXPORT + "def f():\n    from lessonkit import show\n", 3, "imports lessonkit", "Do without"),
    (SHOW + "def f():\n    show('a', 1)\n", 5, "'from lessonkit import show'", "Do without"),
    ("# %%\nx = 1\nx = = 2\n", 5, "cannot read this line", "Mend it"),
    ("# %%\n1\n# %%\nimport os\nfrom fromscratch import g\n", 7, "no lesson exports 'g'", "Correct"),
    ("# %%\nfrom fromscratch import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    ("# %%\nfrom fromscratch import f\n" + EXPORT + "f = 1\n", 4, "exported by lesson 02", "Define it"),
    ("# %%\nfrom fromscratch import _private\n", 4, "no lesson exports '_private'", "Correct"),
    ("# %%\nfrom fromscratch.one import early\n", 4, "hides what it uses", "Write 'from"),
]
ONE = "# %% [markdown]\n# # 1 · One\n" + EXPORT + "early = 1\n_private = 2\n"
THREE = "# %% [markdown]\n# # 3 · Three\n" + EXPORT + "late = 1\n"


@pytest.mark.parametrize("text, line, what, way_out", EXPORTS)
def test_a_wrong_export_is_refused(text, line, what, way_out, tmp_path):
    project(tmp_path, {"01_one": ONE, "02_tiny": TITLE + text, "03_three": THREE})
    refused(lambda: whole(tmp_path), line, what, way_out)

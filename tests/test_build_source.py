"""What coursebuild refuses in a lesson's source, in its exports, and among several lessons."""

import pytest

from tests.toy import EXPORT, TITLE, lesson, project, refused, whole

# ---------------------------------------------------------------------------------------------- refused: the source

BLANK = '# %% tags=["exercise"]\n# Exercise 2.1 · ●○○○○ · 5 min\ndef f(x):\n'  # three lines, from line 3 on
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
FORM = "is not how a cell begins"
CELLS = {  # what is wrong: (source after the title's two lines, line, words, way out)
    "unknown tag": ('# %% tags=["exersice"]\n1\n', 3, "unknown tag 'exersice'", "expected one of check, exercise"),
    "tag twice": ('# %% tags=["timed", "timed"]\n1\n', 3, "a tag stands twice", "Name each tag once"),
    "code tag on Markdown": ('# %% [markdown] tags=["check"]\n# a\n', 3, "belong to code cells", "Remove them"),
    "unknown option": ('# %% slideshow="x"\n1\n', 3, FORM, "Write '# %%'"),
    "tags no list": ('# %% tags="check"\n1\n', 3, FORM, 'tags=["check"]'),
    "no blank": ("#%%\n1\n", 3, "'#%%' is not how a cell begins", "Write '# %%'"),
    "empty cell": ("# %%\n\n# %%\n1\n", 3, "an empty cell", "Fill it or remove it"),
    "id twice": ('# %% id="a"\n1\n# %% id="a"\n2\n', 5, "'a' is taken by the cell at line 3", "Give it another one"),
    "long id": (f'# %% id="{"a" * 65}"\n1\n', 3, "is not one to 64 letters", "Rename it"),
    "indented cell line": ("# %%\ndef f():\n    # %% x\n    return 1\n", 5, "an indented '# %%'", "Move it"),
    "cell line in a string": ('# %%\ns = """\n# %%\n"""\n', 1, "jupytext sees 2 cells", "inside a string"),
    "nbval comment": ("# %%\n1 / 0  # yes\n# NBVAL_SKIP\n", 3, "steers nbval past", "use a tag"),
    "nested marks": (BLANK + BEGIN + "    a = 1\n" + BEGIN + END, 8, "the solution that begins at line 6", "End that"),
    "stray end": (BLANK + "    return 1\n" + END, 7, "without a BEGIN SOLUTION", "Add it, or remove"),
    "not closed": (BLANK + BEGIN + "    return 1\n", 6, "is never closed", "Add END SOLUTION"),
    "misaligned": (BLANK + BEGIN + "    1\n" + END[4:], 8, "is indented unlike BEGIN SOLUTION at line 6", "Align it"),
    "small letters": (BLANK + BEGIN.lower() + END.lower(), 6, "a malformed mark", "Write it alone"),
    "misspelt": (BLANK + BEGIN.replace("TION", "TON") + END.replace("TION", "TON"), 6, "a malformed mark", "Write it"),
    "tab": (BLANK + BEGIN.replace("    ", "\t"), 6, "a malformed mark", "Write it alone"),
    "code mark in Markdown": ("# %% [markdown]\n# ### BEGIN SOLUTION\n", 4, "a malformed mark", "'<!-- BEGIN"),
    "Markdown mark in code": (BLANK + "    # <!-- BEGIN SOLUTION -->\n", 6, "a malformed mark", "'### BEGIN SOLUTION'"),
    "marks without tag": ("# %%\n" + BEGIN + END, 3, "has no tag", 'tags=["exercise"]'),
    "exercise without marks": (BLANK + "    return 1\n", 3, "an exercise without a solution", "### BEGIN SOLUTION"),
    "exercise without card": ('# %% tags=["exercise"]\n' + BEGIN + END, 3, "without its card", "'# Exercise 3.1 ·"),
}
HEADS = {  # what is wrong: (the whole source, line, words, way out)
    "header": ("# ---\n# jupytext: x\n# ---\n" + TITLE, 1, "on its first line", "Remove what stands before it"),
    "wrong title": ("# %% [markdown]\n# # 3 · Tiny\n", 1, "starts with the title", "Write '# 2 · ...'"),
    "first cell is code": ("# %%\n1\n", 1, "the first cell is Markdown", "Write '# 2 · ...'"),
}


@pytest.mark.parametrize("wrong", [*CELLS, *HEADS])
def test_a_wrong_source_is_refused(wrong, tmp_path):
    text, line, what, way_out = (CELLS | HEADS)[wrong]
    refused(lambda: lesson(tmp_path, TITLE + text if wrong in CELLS else text), line, what, way_out)


def test_two_lessons_with_one_number_and_odd_names_are_refused(tmp_path):
    for file, words in (("02_twin.py", "02_tiny.py has the number 02"), ("02-Tiny.py", "is called like 02_")):
        root = project(tmp_path / file, {"02_tiny.py": TITLE, file: TITLE})
        refused(lambda root=root: whole(root), 1, words, "Rename", f"lessons_src/lessons/{file}")


# --------------------------------------------------------------------------------------------- refused: the exports

SHOW = "# %%\nfrom lessonkit import show\n" + EXPORT
EXPORTS = {  # what is wrong: (source of lesson 2 after the title's two lines, line, words, way out)
    "unknown name": (EXPORT + "def f(x):\n    return x + d\n", 3, "reads 'd', which no import", "Import it"),
    "name of another cell": ("# %%\nD = 4\n" + EXPORT + "def f(x):\n    return x * D\n", 5, "reads 'D'", "or export"),
    "in a comprehension": (EXPORT + "f = [g(i) for i in range(3)]\n", 3, "reads 'g'", "Import it"),
    "as a decorator": (EXPORT + "@jit\ndef f(x):\n    return x\n", 3, "reads 'jit'", "Import it"),
    "in a method": (EXPORT + "class A:\n    def f(self):\n        return F.relu\n", 3, "reads 'F'", "Import it"),
    "imports lessonkit": (EXPORT + "def f():\n    from lessonkit import show\n", 3, "imports lessonkit", "Do without"),
    "reads lessonkit": (SHOW + "def f():\n    show('a', 1)\n", 5, "'from lessonkit import show'", "Do without"),
    "no Python": ("# %%\nx = 1\nx = = 2\n", 5, "cannot read this line", "Mend it"),
    "unknown import": ("# %%\n1\n# %%\nimport os\nfrom fromscratch import g\n", 7, "no lesson exports 'g'", "Correct"),
    "later lesson": ("# %%\nfrom fromscratch import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    "own export": ("# %%\nfrom fromscratch import f\n" + EXPORT + "f = 1\n", 4, "exported by lesson 02", "Define it"),
    "private import": ("# %%\nfrom fromscratch import _private\n", 4, "no lesson exports '_private'", "Correct"),
    "module import": ("# %%\nfrom fromscratch.one import early\n", 4, "hides what it uses", "Write 'from"),
}
ONE = "# %% [markdown]\n# # 1 · One\n" + EXPORT + "early = 1\n_private = 2\n"
THREE = "# %% [markdown]\n# # 3 · Three\n" + EXPORT + "late = 1\n"


@pytest.mark.parametrize("wrong", EXPORTS)
def test_a_wrong_export_is_refused(wrong, tmp_path):
    text, line, what, way_out = EXPORTS[wrong]
    project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + text, "03_three.py": THREE})
    refused(lambda: whole(tmp_path), line, what, way_out)

"""The learner's own layers: what is kept of an answer, and what a later lesson gets from lessonkit.mine."""

import pytest

from coursebuild import digest, export
from coursebuild.frame import answers
from lessonkit import mine
from tests.toy import EXPORT, TITLE, lesson, project, refused, whole

# ------------------------------------------------------------------------------------------------------- the builder

ONE = """# %% [markdown]
# # 1 · One
# %% tags=["exercise", "export"]
# Exercise 1.1 · ●●○○○ · 5 min
def early(x):
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION
# %% tags=["check"]
check.early(early)
# %% tags=["export"]
given = 2
"""
THREE = (
    ONE.replace("1 · One", "3 · Three").replace("early", "late").replace("given", "given_late").replace("1.1", "3.1")
)
IMPORTS = {  # (source of lesson 2 after its title, line, what is said, way out)
    "made by no exercise": ("from lessonkit.mine import given\n", 4, "no exercise makes 'given'", "from fromscratch"),
    "a later lesson": ("from lessonkit.mine import late\n", 4, "'late' is exported by lesson 03", "Define it here"),
    "unknown": ("import os\nfrom lessonkit.mine import f\n", 5, "no lesson exports 'f'", "Correct the name"),
    "the module": ("import lessonkit.mine\n", 4, "hides what it uses", "Write 'from lessonkit.mine import'"),
    "as a name": ("from lessonkit import mine\n", 4, "hides what it uses", "Write 'from lessonkit.mine import'"),
}


@pytest.mark.parametrize("wrong", IMPORTS)
def test_a_lesson_imports_from_mine_what_exercises_of_earlier_lessons_make(wrong, tmp_path):
    text, line, what, way_out = IMPORTS[wrong]
    project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + "# %%\n" + text, "03_three.py": THREE})
    refused(lambda: whole(tmp_path), line, what, way_out)


def test_an_export_takes_from_the_course_what_its_lesson_takes_from_mine(tmp_path):
    body = "\n# %%\nfrom {} import early as first\n" + EXPORT + "def f(x):\n    return first(x)\n"
    texts = []
    for package in ("fromscratch", "lessonkit.mine"):
        root = project(tmp_path, {"01_one.py": ONE, "02_tiny.py": TITLE + body.format(package)})
        texts.append(whole(root).package["tiny.py"])
    assert texts[0] == texts[1] and "from fromscratch import early as first" in texts[0]


def test_a_lesson_depends_on_the_course_s_own_of_what_it_takes_from_mine(tmp_path):
    text = TITLE + "# %%\nfrom lessonkit.mine import early\n"
    root = project(tmp_path, {"01_one.py": ONE, "02_tiny.py": text})
    export.write(whole(root))
    assert export.folder(root) / "one.py" in digest.depends(whole(root).lessons[1])


def test_the_answers_of_a_lesson_are_the_functions_and_classes_that_its_checks_take(tmp_path):
    more = ONE + '# %% tags=["exercise"]\n# Exercise 1.2 · ●●○○○ · 5 min\n### BEGIN SOLUTION\nn = 2\n### END SOLUTION\n'
    more += '# %% tags=["check"]\ncheck.number(n)\n'
    assert answers(lesson(tmp_path, more, "01_one.py")) == {"early": "early"}


# ------------------------------------------------------------------------------------------------- without a learner


def test_without_a_learner_it_is_the_course_s_own_and_one_line_says_so(capsys):
    from fromscratch import BatchNorm1d, LayerNorm

    assert (mine.LayerNorm, mine.BatchNorm1d) == (LayerNorm, BatchNorm1d)
    assert capsys.readouterr().out == (
        "LayerNorm: the course's own, from lesson 4.\nBatchNorm1d: the course's own, from lesson 6.\n"
    )


@pytest.mark.parametrize("name", ["encode", "standardize", "LayerNrm"])  # standardize: exercise 1.3, and a loop of 13
def test_what_no_exercise_makes_is_refused_with_the_package_that_has_it(name):
    with pytest.raises(ImportError, match=f"no '{name}', .*LayerNorm.* write from fromscratch import {name}"):
        exec(f"from lessonkit.mine import {name}")


def test_every_name_is_there():
    for name in dir(mine):
        assert getattr(mine, name).__module__.startswith("fromscratch.")
    assert not hasattr(mine, "_repr_html_")

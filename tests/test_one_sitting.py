"""Lesson 0, which runs where nothing but torch and matplotlib is: what it imports, and what its asserts say."""

import ast
import contextlib
import functools
import importlib
import io
import sys

import pytest
import torch

from coursebuild import editions
from lessonkit.program import modules
from tests import test_lessons as rules
from tests.helpers import SITTING, known, read

answers = importlib.import_module(f"lessons.{SITTING.name}.answers")
pytestmark = pytest.mark.parametrize("path", [SITTING], ids=lambda path: path.name)  # for --lesson 00


@functools.cache
def lesson():
    """Return ({id: source} of the code cells of lesson 0, solved, without those that train; the names they bind)."""
    cells = [cell for cell in editions.notebook(read(SITTING), "solutions").cells if cell.cell_type == "code"]
    code = {c.id: c.source for c in cells if "nbval-ignore-output" not in c.metadata.get("tags", ())}
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in code.values():
            exec(source, names)
    return code, names


@pytest.mark.parametrize("edition", editions.EDITIONS)
def test_it_needs_torch_and_matplotlib_and_nothing_else(path, edition):
    text = "\n".join(c.source for c in editions.notebook(read(path), edition).cells if c.cell_type == "code")
    named = {module.partition(".")[0] for node in ast.walk(ast.parse(text)) for module in modules(node)}
    assert "torch" in named and named <= {"torch", "matplotlib", *sys.stdlib_module_names}
    assert "check." not in text and ("raise YourTurn(" in text) == (edition == "learner")


def test_its_questions_are_folds_and_every_figure_has_its_words(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.type == "markdown")
    assert text.count("\n\n**Yes.** ") == len(known(path).questions)
    outputs = [out for _, cell in rules.built(SITTING) for out in cell.get("outputs", ())]
    pictures = [out for out in outputs if "image/png" in out.get("data", {})]
    assert pictures
    for out in pictures:
        words = "".join(out["data"]["text/plain"])
        assert words == out["metadata"]["image/png"]["alt"] and len(words) > 100


# --------------------------------------------------------------------------------------------------------- answers


def answer(exercise, lines):
    """Run the cell of an exercise as it is solved, with lines of an answer between the solution and its check."""
    code, names = lesson()
    solved, _, call = code[f"ex-0-{exercise}"].rpartition("\n")
    lines = answers.STARTS.get(exercise, "") + lines
    average = functools.partial(torch.mean, dim=-1, keepdim=True)
    population = functools.partial(torch.var, dim=-1, correction=0, keepdim=True)
    exec(f"{solved}\n{lines}\n{call}", names | {"average": average, "population": population})


@pytest.mark.parametrize("exercise", range(1, 1 + len(known(SITTING).exercises)))
def test_right_answers_are_told_so(path, exercise, capsys):
    assert exercise in answers.WRONG
    for lines in answers.RIGHT[exercise]:
        answer(exercise, lines)
        out, err = capsys.readouterr()
        assert out.startswith("Right. ") and out.count("\n") == 1 and not err


@pytest.mark.parametrize("exercise", answers.WRONG)
def test_wrong_answers_are_told_their_cause(path, exercise):
    for words, lines in answers.WRONG[exercise].items():
        with pytest.raises(lesson()[1]["NotYet"]) as caught:
            answer(exercise, lines)
        text = str(caught.value)
        assert words in text and "\n" not in text and len(text) < 250, (words, text)

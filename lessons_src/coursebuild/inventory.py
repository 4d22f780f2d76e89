"""The LayerNorm inventory: from lessons_src/inventory.md to its two notebooks, which hold questions and options.

What is right, and why, is written out of sight, to lessonkit/inventory/questions.json.
"""

import functools
import hashlib
import json
import re

import nbformat

from coursebuild.frame import refuse_options
from coursebuild.notebooks import METADATA, fingerprint
from coursebuild.source import LessonError
from lessonkit.course import LETTERS
from lessonkit.inventory.questions import FORMS, WORDS

SOURCE, TABLE = "lessons_src/inventory.md", "lessons_src/lessonkit/inventory/questions.json"
NOTEBOOKS = {"A": "notebooks/inventory_a.ipynb", "B": "notebooks/inventory_b.ipynb"}
QUESTION = re.compile(r"\*\*([AB])(\d+):\*\* (\S.*)")
OPTION = re.compile(r"- \[([ x])\] (\S.*?) :: (\S.*?)(?: :: (\S.*))?")
INTRODUCTION = """\
# The LayerNorm inventory, form {form}: {when}

*About 17 min.* {about}

- One option is right. Put its letter between the quotes and run the cell, or `?` if you do not know.
- Nothing says whether a letter is right before all have one, and until then you can change it. Then the last cell \
shows your result by theme, reasons, and the sections that settle what you missed.
- Letters and times are kept in `work/inventory.jsonl` and sent nowhere. `LESSON_LOG=off` keeps no file.

"""
INTRODUCTION += WORDS
ABOUT = {
    "A": "Twelve questions that ask why; form B asks about the same points after the last lesson. Much of it will be "
    "new to you, and a low result is what the course is for.",
    "B": "Twelve questions that ask why, on the points of form A. The last cell also compares the two, if your answers "
    "to form A are still there.",
}


def read(root):
    """Return the questions of inventory.md, a dict each, with a name, a theme, a belief and options.

    What would make a wrong form stops the build, with its line and the way out.
    """
    sections, questions, theme, belief, title, number = _sections(root), [], None, None, None, 0
    lost = []
    for at, line in enumerate((root / SOURCE).read_text(encoding="utf-8").split("\n"), 1):
        asked, option = QUESTION.fullmatch(line), OPTION.fullmatch(line)
        if line.startswith("## "):
            theme = line[3:]
        elif not theme or not line.strip():  # what stands above the first theme is for who edits this
            continue
        elif line.startswith(f"### {number + 1} · "):
            number, belief = number + 1, line.partition(" · ")[2]
        elif asked and int(asked[2]) == number:
            question = {"name": f"{asked[1]}{number}", "theme": theme, "belief": belief, "question": asked[3]}
            questions.append(question | {"line": at, "options": []})
        elif option and questions and (option[4] or title):
            right, text, reason, own = option.groups()
            title = own or title
            if own and own not in sections:
                lost.append(f"{SOURCE}:{at}: no lesson has a section {own!r}. Name the one that settles this question.")
            section = sections.get(title, {})
            questions[-1]["options"].append({"text": text, "reason": reason, "right": right == "x"} | section)
        else:
            _fail(
                at, f"{line[:40]!r} is no next misconception, question, or option with a section's title. Correct it."
            )
    if lost:
        raise LessonError("\n".join(lost))
    for question in questions:
        refuse_options(functools.partial(_fail, question["line"]), question["name"], question["options"])
    if sorted(question["name"] for question in questions) != sorted(
        f"{f}{n + 1}" for f in FORMS for n in range(number)
    ):
        _fail(1, "each misconception needs one question for form A and one for form B. Write what is missing.")
    return questions


def _fail(line, message):
    raise LessonError(f"{SOURCE}:{line}: {message}")


def _sections(root):
    """Return {"Two numbers for a row": {"section": "2.1 Two numbers for a row", "link": to it}} of all lessons."""
    sections = {}
    for path in sorted((root / "lessons_src/lessons").glob("[0-9]*/lesson.py")):
        for heading, title in re.findall(r"^# ## (\d+\.\d+ (.*))$", path.read_text(encoding="utf-8"), re.MULTILINE):
            link = f"{path.parent.name}.ipynb#{heading.replace(' ', '-')}"
            sections[title] = {"section": heading, "link": link}
    return sections


def shown(question):
    """Return the Markdown of a question, without what is right."""
    options = "\n".join(f"- **{letter}.** {o['text']}" for letter, o in zip(LETTERS, question["options"], strict=False))
    return f"## {question['name']}\n\n{question['question']}\n\n{options}"


def notebook(questions, form):
    """Return the notebook of a form, not run."""
    introduction = INTRODUCTION.format(form=form, when=FORMS[form], about=ABOUT[form])
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [text(introduction, id="introduction"), code("from lessonkit import inventory", id="start")]
    for question in (question for question in questions if question["name"][0] == form):
        name = question["name"]
        cells.append(text(shown(question), id=f"{name.lower()}-asked"))
        cells.append(code(f'inventory.answer("{name}", "")', id=name.lower(), metadata={"tags": ["predict"]}))
    cells.append(text("## Your result\n\nRun this when all twelve have a letter.", id="then"))
    cells.append(code(f'inventory.result("{form}")', id="result"))
    whole = nbformat.v4.new_notebook(cells=cells)
    whole.metadata = nbformat.from_dict(METADATA | {"lesson": {"source": SOURCE, "cells": fingerprint(whole)}})
    nbformat.validate(whole)
    return whole


def table(questions):
    """Return what lessonkit.inventory reads: {"A1": theme, belief, question, options, six digits of what is shown}."""
    return {
        question["name"]: {key: question[key] for key in ("theme", "belief", "question", "options")}
        | {"edition": hashlib.sha256(shown(question).encode()).hexdigest()[:6]}
        for question in sorted(questions, key=lambda question: question["name"][0])
    }


def notebooks(root):
    """Return the paths of the two notebooks; none for a course without an inventory."""
    return {root / path for path in NOTEBOOKS.values()} if (root / SOURCE).exists() else set()


def files(root):
    """Return {path: text} of what the inventory makes; {} for a course without one."""
    if not (root / SOURCE).exists():
        return {}
    questions = read(root)
    contents = {NOTEBOOKS[form]: notebook(questions, form) for form in FORMS} | {TABLE: table(questions)}
    return {
        root / path: json.dumps(content, indent=1, ensure_ascii=False, sort_keys=path != TABLE) + "\n"
        for path, content in contents.items()
    }

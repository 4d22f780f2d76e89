"""The lessons themselves: their frame, their size, their exercises, and what they show."""

import ast
import builtins
import functools
import importlib
import io
import itertools
import json
import re
import subprocess
import textwrap
import tokenize

import pytest

from coursebuild import minutes
from coursebuild.source import blank
from lessonkit.program import modules, names
from tests.helpers import EVERY, ROOT, SITTING, SOURCES, all_answers, known, read, within_budget

TEACHING, DEFINITION, TO_WRITE, WIDTH = 12, 30, 10, 96  # lines of code, characters in one
ENDING = ["Take-away", "On your own", "Further reading"]
PAUSE = "What you have now"  # ends the first sitting
# Lesson 0 has no frame, figures and checks of the kit. All other rules for lessons hold there as well.
WITH_LESSON_0 = [SITTING, *SOURCES]


def rule(pages=WITH_LESSON_0):
    """Make a test of what yields the problems of a lesson: (the cell or None, what is wrong there and the way out)."""

    def as_test(problems_of):
        @pytest.mark.parametrize("path", pages, ids=lambda path: path.stem)
        @functools.wraps(problems_of)
        def test(path):
            found = [f"{path.name}/lesson.py:{cell.line if cell else 1}: {what}" for cell, what in problems_of(path)]
            if found:  # a line each, for an editor
                pytest.fail("\n".join(found), pytrace=False)

        return test

    return as_test


def none_of(odd, expected):
    """Fail with what was found, a line each, below the sentence that says what was expected and the way out."""
    assert not odd, "\n".join([expected, *map(str, odd)])


def out_of_order(what, numbers, path):
    """Yield a problem unless the exercises, sections or questions of a lesson are numbered 4.1, 4.2, ..."""
    expected = [f"{known(path).number}.{n + 1}" for n in range(len(numbers))]
    if numbers != expected:
        yield None, f"The {what} are numbered {numbers}, expected {expected}. Renumber them, in words.md as well."


def test_lessons_are_numbered_without_gaps():
    numbers = [int(path.stem[:2]) for path in EVERY]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), (
        f"The folders of lessons_src/lessons are numbered {numbers}: expected no gap. Rename what comes after it."
    )


# ---------------------------------------------------------------------------------------------------------------- size


def code_lines(source):
    """Return the numbers of the lines that hold code: no blank lines, comments and docstrings."""
    numbers = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            numbers |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            numbers -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return numbers


@rule()
def test_cells_are_short(path):
    """In an export or a definition a wrapped line counts once."""
    for cell in read(path).code():
        solution = blank(read(path), cell)[1]
        body = ast.parse(solution).body
        lines, limit = len(code_lines(solution)), TEACHING
        alone = len(body) == 1 and isinstance(body[0], (ast.FunctionDef, ast.ClassDef))
        if alone or {"export", "way-back"} & set(cell.tags):
            starts = (node.lineno for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.stmt))
            lines, limit = len(set(starts) & code_lines(solution)), DEFINITION
        if lines > limit and ("export" in cell.tags or not {"exercise", "check", "hide-input"} & set(cell.tags)):
            yield cell, f"{lines} lines of code, a teaching cell has at most {TEACHING}, a definition {DEFINITION}"
        for line in cell.source.split("\n"):
            if len(line) > WIDTH:
                yield cell, f"{len(line)} characters, a line of code has at most {WIDTH}: {line.strip()[:60]}..."


@rule()
def test_learners_write_at_most_ten_lines(path):
    for cell in read(path).code("exercise"):
        regions = re.findall(r"### BEGIN SOLUTION\n(.*?)### END", cell.source, re.DOTALL)
        lines = sum(len(code_lines(textwrap.dedent(region))) for region in regions)
        if not 1 <= lines <= TO_WRITE:
            yield cell, f"{lines} lines between the marks, expected 1 to {TO_WRITE}"


# --------------------------------------------------------------------------------------------------------------- frame


def prose(path):
    return [cell for cell in read(path).cells if cell.type == "markdown"]


def headings(path):
    """Return the second-level headings of a lesson, in order, without those of optional sections."""
    return [section.heading for section in known(path).sections if section.level == 2 and not section.optional]


def outside_fences(source):
    return re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL).splitlines()


@rule(SOURCES)
def test_the_frame(path):
    opening, titles = "\n".join(cell.source for cell in prose(path)[:6]), headings(path)
    for words in ("**You'll be able to**", "**You need"):
        if words not in opening:
            yield None, f"None of the first six Markdown cells has {words}. Add the list to the frame."
    if titles[-3:] != ENDING:
        yield None, f"The last sections are {titles[-3:]}, expected {ENDING}. Rename or add what differs."
    if any("Clinic" in title for title in titles[:-4]):
        yield None, "A clinic is the last section before the take-away. Move it."
    numbered = [title for title in titles if title not in (*ENDING, PAUSE)]
    for title in numbered:
        if not re.match(r"\d+\.\d+ \S", title):
            yield None, f"A section is called like '{known(path).number}.1 Two numbers'. Number this one: {title}"
    yield from out_of_order("sections", [title.split()[0] for title in numbered], path)
    before = itertools.takewhile(lambda cell: "**You'll be able to**" not in cell.source, read(path).cells[:4])
    if not any(cell.type == "code" for cell in before):
        yield None, "Something fails in one of the first four cells, before the frame. Begin with it."


@rule()
def test_predictions_and_recall(path):
    questions = known(path).questions
    rights = {[option["right"] for option in question.options].index(True) for question in questions}
    if len(questions) > 3 and len(rights) == 1:
        yield None, "The right option of all questions has one place. Change the order in some."
    for kind in ("Predict", "Recall"):
        numbers = [question.number for question in questions if question.kind == kind]
        yield from out_of_order(f"questions '{kind}'", numbers, path)
    for cell in prose(path):
        if re.search(r"^\*\*Predict[^*\d]*\*\*", cell.source, re.MULTILINE):
            yield cell, "This prediction has no number, so nobody can answer it. Write **Predict 4.2:**, options below."


@rule(SOURCES)
def test_the_minutes_are_the_models(path):
    parts, budget = minutes.sittings(known(path)), minutes.BUDGET
    for what, takes in {"lesson": sum(parts), "sitting": max(parts)}.items():
        message = f"{path.stem}: a {what} takes {takes:.0f} min, expected at most {budget[what]}. Leave a part out."
        within_budget(takes <= budget[what], message)
    doing = minutes.doing(known(path))
    if doing < minutes.LEAST_DOING:
        least = f"{minutes.LEAST_DOING:.0%}"
        yield None, f"{doing:.0%} of the minutes are spent doing, expected {least}. Let them try more."
    yield from ((None, line) for line in minutes.wrong(known(path)))


@rule(SOURCES)
def test_one_cell_leads_back_into_the_second_sitting(path):
    """It binds all that the cells after it read."""
    source, cells = read(path), read(path).code()
    backs = [at for at, cell in enumerate(cells) if "way-back" in cell.tags]
    wanted = len(minutes.sittings(known(path))) - 1
    if len(backs) != wanted:
        yield None, f"{len(backs)} cells are tagged way-back, expected {wanted}: the first code of a second sitting."
    bound = set(dir(builtins))
    for cell in cells[backs[0] :] if backs else ():
        reads, binds = names(blank(source, cell)[1])
        bound |= binds
        for name in reads - bound:
            yield cell, f"{name} is bound before the way-back cell. Import or bind it there."


@rule()
def test_proof_is_folded_and_what_is_seen_shows_something(path):
    for cell, stored in built(path):
        if cell.type != "code" or {"hide-input", "exercise", "check", "predict", "way-back"} & set(cell.tags):
            continue
        body = ast.parse(cell.source).body
        if any(isinstance(node, ast.Assert) for statement in body for node in ast.walk(statement)):
            yield cell, "an assert in sight. Fold it (hide-input), and print the number that matters"
        silent = "export" in cell.tags or all(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in body)
        if not stored["outputs"] and not silent and "timed" not in cell.tags:
            yield cell, "a cell in sight that shows nothing. Fold it, drop it, or show a number"
        if all(isinstance(node, ast.Expr) and ast.unparse(node).startswith("plot.") for node in body):
            yield cell, "a cell that only draws is folded (hide-input): its title answers the prediction"


CONTRACTION = re.compile(r"\b\w+n't\b|\b(?:it|that|what|there|let|here)'s\b|\bI'm\b|\bwe'(?:re|ve|ll)\b", re.IGNORECASE)


@rule(EVERY)
def test_prose(path):
    for cell in prose(path):
        for line in outside_fences(cell.source):
            if re.match(r"##+ ", line) and (not re.fullmatch(r"[ -~]+", line) or re.search(r"[$`]", line)):
                yield cell, f"a formula, code or a letter outside ASCII in a heading: no link finds it: {line}"
        for contraction in CONTRACTION.findall(cell.source):
            yield cell, f"a contraction, which second-language readers stumble over. Write both words: {contraction}"
        unlinked = re.findall(r"[Ss]ections? \d+\.\d+", re.sub(r"\[[^\]]*\]\([^)]*#[^)]*\)", "", cell.source))
        for section in unlinked if path != SITTING else ():
            yield cell, f"{section} without a link. Write [section 2.6](02_statistics.ipynb#2.6-...)"


# ----------------------------------------------------------------------------------------------------------- exercises


@rule()
def test_exercises_and_their_cards(path):
    lesson, cells = known(path), {cell.id: cell for cell in read(path).code("exercise")}
    if len(lesson.exercises) > 6:
        yield None, f"{len(lesson.exercises)} exercises, expected at most six."
    numbers = [exercise.number for exercise in lesson.exercises]
    yield from out_of_order("exercises", numbers, path)
    if sum(exercise.minutes for exercise in lesson.core) > lesson.minutes:
        yield None, f"The exercises alone take longer than the lesson says, {lesson.minutes} min. Correct one of them."
    for exercise in lesson.exercises:
        if not (1 <= exercise.minutes <= 20 and f" {exercise.dots} " in exercise.source):
            yield cells[exercise.id], "its card has 1 to 20 minutes, and its filled dots come first"


@rule(SOURCES)
def test_every_exercise_has_its_check_right_below_it(path):
    lesson, cells = known(path), {cell.id: cell for cell in read(path).code()}
    written = vars(importlib.import_module(f"lessons.{path.name}.checks")).keys() & all_answers()[path.name[3:]].keys()
    for exercise in lesson.exercises:
        if not exercise.checks:
            yield cells[exercise.id], "No cell tagged check stands right below it, or its hint. Add check.NAME(NAME)."
        for check in exercise.checks:
            if check.name not in written:
                yield cells[check.id], f"declare {check.name} = exercise(...) in checks.py, with answers in answers.py"
    for code in lesson.code:
        if "check" in code.tags:
            yield cells[code.id], "A check cell stands right below its exercise, or below its hint. Move it."


@rule()
def test_a_blank_is_in_a_function_or_a_class_or_binds_fresh_names(path):
    bound, region = set(), r"^### BEGIN SOLUTION$(.*?)^### END SOLUTION$"
    for cell in read(path).code():
        regions = re.findall(region, cell.source, re.MULTILINE | re.DOTALL)
        around = names("\n".join(regions))[1]
        if regions and (not around or around & bound):
            yield cell, f"the blank stands at top level and binds {around or 'nothing'}: expected names that are new"
        bound |= names(blank(read(path), cell)[1])[1]


# ------------------------------------------------------------------------------------------------------ what is banned


@rule()
def test_no_catch_all_no_threads_no_matplotlib(path):
    for cell in read(path).code():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ExceptHandler):
                caught = set(re.findall(r"[\w.]+", ast.unparse(node.type) if node.type else "Exception"))
                if caught & {"BaseException", "Exception", "NameError", "check.YourTurn"}:
                    yield cell, "'except' catches what says 'your turn'"
            for module in modules(node):
                if re.match(r"threading|concurrent|_thread|asyncio", module):
                    yield cell, f"imports {module}: what waits for an answer cannot say so from there"
                if module.startswith("matplotlib") and path in SOURCES:
                    yield cell, "imports matplotlib; figures come from lessonkit.plot, in one style"


# Brackets round a letter, so that this file is none of those it looks for.
PRIVATE = re.compile(
    r"work/[s]hared|\.\./[s]hared|pypi[.]org|python[h]osted|download\.py[t]orch|[A-Z]:\\[U]sers|"
    r"(?<![\w.~}])/(home|root|Users|mnt|tmp|work)/\w"
)


def test_nothing_names_what_lies_outside_the_repository():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    texts = {name: (ROOT / name).read_text("utf-8", "replace") for name in listed if (ROOT / name).is_file()}
    places = [f"{name}: {match[0]}" for name, text in texts.items() for match in PRIVATE.finditer(text)]
    none_of(places, "These files name a place outside the repository, or a registry. Say it without:")


# ------------------------------------------------------------------------------------------------------------- outputs


def built(path):
    """Return pairs (cell of the source, cell of the stored notebook)."""
    target = read(path).notebook("solutions")
    assert target.exists(), f"run `make notebooks`: {target.relative_to(ROOT)} is missing"
    stored = json.loads(target.read_text(encoding="utf-8"))["cells"]
    if [cell["id"] for cell in stored] != [cell.id for cell in read(path).cells]:
        pytest.fail(f"{path.stem} has changed: run `make notebooks ARGS={path.stem[:2]}`", pytrace=False)
    return list(zip(read(path).cells, stored, strict=True))


# -------------------------------------------------------------------------------------------------------------- README


@rule()
def test_the_readme_names_every_lesson(path):
    takes, readme = known(path).minutes, (ROOT / "README.md").read_text(encoding="utf-8")
    if not re.search(rf"^\| \d+ \| \[.*{path.stem}\.ipynb.*\| {takes} \|", readme, re.MULTILINE):
        yield None, f"README.md's table of lessons needs a row of this one, with its {takes} minutes."

"""The lessons themselves: their frame, their size, their exercises, links, figures and stored outputs."""

import ast
import builtins
import csv
import functools
import io
import json
import re
import subprocess
import tokenize
from itertools import pairwise

import pytest

from coursebuild import budgets, editions, minutes, syntax
from coursebuild.source import BEGIN, END, blank
from tests.helpers import EVERY, REFERENCE, ROOT, SITTING, SOURCES, known, read, within_budget

TEACHING, DEFINITION, EXPORT, TO_WRITE = 12, 30, 30, 10  # lines of code
ENDING = ["Take-away", "On your own", "Further reading"]
PAUSE = "What you have now"  # ends the first sitting


def of_each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


# Lesson 0 has no frame, figures and checks of the kit, its questions are folds, and it is the first, so that it recalls
# nothing. All other rules for lessons hold there as well.
every_lesson, lesson_0_too = of_each(SOURCES), of_each([SITTING, *SOURCES])
every_page, page_of_lesson_0_too = of_each([*SOURCES, REFERENCE]), of_each(EVERY)


def by_line(problems_of):
    """Make a test of what yields the problems of a page, (cell, what) each: "lesson:line: what", for an editor."""

    @functools.wraps(problems_of)
    def test(path):
        problems = [f"{path.name}:{cell.line}: {what}" for cell, what in problems_of(path)]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    return test


def none_of(odd, expected):
    """Fail with what was found, a line each, below the sentence that says what was expected and the way out."""
    assert not odd, "\n".join([expected, *map(str, odd)])


def in_order(what, numbers, path, way_out):
    """Fail unless the exercises, sections or questions of a lesson are numbered 4.1, 4.2, ..."""
    expected = [f"{known(path).number}.{n + 1}" for n in range(len(numbers))]
    assert numbers == expected, f"The {what} are numbered {numbers}, expected {expected}. {way_out}"


def test_lessons_are_numbered_without_gaps():
    numbers = [int(path.stem[:2]) for path in EVERY]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), (
        f"The files of lessons_src/lessons are numbered {numbers}: expected no gap. Rename what comes after it."
    )


# ---------------------------------------------------------------------------------------------------------------- size


def docstrings(source):
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [node.body[0] for node in nodes if ast.get_docstring(node) is not None]


def code_lines(source):
    """Return the numbers of the lines that hold code: no blank lines, comments and docstrings."""
    numbers = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            numbers |= set(range(token.start[0], token.end[0] + 1))
    for text in docstrings(source):
        numbers -= set(range(text.lineno, text.end_lineno + 1))
    return numbers


def logical_lines(source):
    """Return how many lines source would have if no statement were wrapped; docstrings do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type == tokenize.NEWLINE for token in tokens) - len(docstrings(source))


@lesson_0_too
@by_line
def test_cells_are_short(path):
    """A cell that teaches fits a screen with its output; in an export or a definition a wrapped line counts once."""
    for cell in read(path).code():
        solution = blank(read(path), cell)[1]
        body = ast.parse(solution).body
        defines = len(body) == 1 and isinstance(body[0], (ast.FunctionDef, ast.ClassDef))
        lines = logical_lines(solution)
        if {"export", "way-back"} & set(cell.tags):
            limit, why = EXPORT, "an export cell or a way back"
        elif {"exercise", "check", "hide-input"} & set(cell.tags):
            continue
        elif defines:
            limit, why = DEFINITION, "one definition"
        else:
            limit, why = TEACHING, "a teaching cell"
            lines = len(code_lines(solution))
        if lines > limit:
            yield cell, f"{lines} lines of code, {why} has at most {limit}"


WIDTH = 96


@lesson_0_too
@by_line
def test_code_lines_end_at_96_characters(path):
    for cell in read(path).code():
        for line in cell.source.split("\n"):
            if len(line) > WIDTH:
                yield cell, f"{len(line)} characters: {line.strip()[:60]}..."


@lesson_0_too
@by_line
def test_learners_write_at_most_ten_lines(path):
    for cell in read(path).code("exercise"):
        lines, inside = 0, False
        code = code_lines(cell.source)
        for number, line in enumerate(cell.source.splitlines(), 1):
            inside = bool(BEGIN["code"].fullmatch(line.rstrip())) or inside and not END["code"].fullmatch(line.rstrip())
            lines += inside and number in code
        if not 1 <= lines <= TO_WRITE:
            yield cell, f"{lines} lines between the marks, expected 1 to {TO_WRITE}"


# --------------------------------------------------------------------------------------------------------------- frame


def prose(path):
    return [cell for cell in read(path).cells if cell.type == "markdown"]


def headings(path):
    """Return the second-level headings of a lesson, in order."""
    return [section.heading for section in known(path).sections if section.level == 2]


def outside_fences(source):
    return re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL).splitlines()


@every_lesson
def test_the_frame(path):
    opening = "\n".join(cell.source for cell in prose(path)[:6])
    for words in ("**You'll be able to**", "**You need"):
        assert words in opening, f"None of the first six Markdown cells has {words}. Add the list to the frame."
    assert known(path).minutes, "The lesson does not say how long it takes. Write *About 40 min.* into its frame."
    titles = [title for title in headings(path) if not title.startswith("Deeper (optional")]
    assert titles[-3:] == ENDING, f"The last sections are {titles[-3:]}, expected {ENDING}. Rename or add what differs."
    clinics = [title for title in titles[:-4] if "Clinic" in title]
    assert not clinics, f"{clinics} stands too early: a clinic is the last section before the take-away. Move it."


@lesson_0_too
def test_a_lesson_opens_with_what_breaks(path):
    first = [cell for cell in read(path).cells[:4] if cell.type == "code"]
    assert first, "something fails in one of the first cells, before anything is defined"
    before = read(path).cells[: read(path).cells.index(first[0])]
    assert all("**You'll be able to**" not in cell.source for cell in before), "the failure comes before the frame"


@every_lesson
def test_predictions_and_recall(path):
    questions = known(path).questions
    rights = [[option["right"] for option in question.options].index(True) for question in questions]
    assert len(rights) < 4 or len(set(rights)) > 1, (
        f"The right option of all {len(rights)} questions is number {rights[0] + 1}. Change the order in some of them."
    )
    for kind in ("Predict", "Recall"):
        numbers = [question.number for question in questions if question.kind == kind]
        in_order(f"questions '{kind}'", numbers, path, "Renumber them, and their lines in teaching/plan/words.")
    plain = re.findall(r"^\*\*Predict[^*\d]*\*\*.*", "\n".join(cell.source for cell in prose(path)), re.MULTILINE)
    none_of(
        plain, "These predictions have no number, so nobody can answer them. Write **Predict 4.2:** and its options."
    )


@every_lesson
def test_the_minutes_are_the_models(path):
    none_of(minutes.wrong(known(path)), "What the lesson prints is not what its words, code and exercises take:")
    parts = minutes.sittings(known(path))
    whole, sitting = budgets.MINUTES["lesson"], budgets.MINUTES["sitting"]
    message = f"{path.stem}: the core takes {sum(parts):.0f} min, expected at most {whole}. Leave a part out."
    within_budget(sum(parts) <= whole, message)
    message = (
        f"{path.stem}: a sitting takes {max(parts):.0f} min, expected at most {sitting}. Begin a paragraph with "
        f"'{minutes.STOP}:**' where the first one ends, or balance the two."
    )
    within_budget(max(parts) <= sitting, message)


@every_lesson
@by_line
def test_one_cell_leads_back_into_the_second_sitting(path):
    """It binds all that the cells after it read, and the answers to the exercises among them.

    Answers of the first sitting come from lessonkit.mine: not everybody has kept them.
    """
    source, parts = read(path), minutes.sittings(known(path))
    cells = source.code()
    backs = [at for at, cell in enumerate(cells) if "way-back" in cell.tags]
    assert len(backs) == len(parts) - 1, f"{len(backs)} cells are tagged way-back, expected {len(parts) - 1}."
    if not backs:
        return
    bound = set(dir(builtins))
    for cell in cells[backs[0] :]:
        reads, binds = syntax.names(blank(source, cell)[1])
        bound |= binds
        for name in reads - bound:
            yield cell, f"{name} is bound before the way-back cell. Import or bind it there."


@lesson_0_too
@by_line
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


@page_of_lesson_0_too
def test_headings_are_in_plain_letters(path):
    """JupyterLab's anchors keep every character: a minus sign or a formula in a heading cannot be linked to."""
    lines = [line for cell in prose(path) for line in outside_fences(cell.source) if re.match(r"##+ ", line)]
    odd = [line for line in lines if not re.fullmatch(r"[ -~]+", line) or re.search(r"[$`]", line)]
    none_of(odd, "These headings hold a formula, code or a letter outside ASCII, so no link finds them. Use words:")


@every_page
def test_a_section_that_is_named_is_linked_with_its_anchor(path):
    text = "\n".join(
        re.sub(r"\[[^\]]*\]\([^)]*#[^)]*\)", "", line) for cell in prose(path) for line in cell.source.split("\n")
    )
    none_of(re.findall(r"[Ss]ections? \d+\.\d+", text), "No link: write [section 2.6](02_statistics.ipynb#2.6-...):")


@page_of_lesson_0_too
def test_no_contractions(path):
    text = " ".join(cell.source for cell in read(path).cells if cell.type == "markdown")
    contractions = re.findall(
        r"\b\w+n't\b|\b(?:it|that|what|there|let|here)'s\b|\bI'm\b|\bwe'(?:re|ve|ll)\b", text, re.IGNORECASE
    )
    none_of(contractions, "Contractions, which second-language readers stumble over. Write both words:")


@every_lesson
def test_parts_one_and_two_close_with_the_formula_card(path):
    if int(path.stem[:2]) <= 8:
        text = "\n".join(cell.source for cell in prose(path))
        assert "**Formula card" in text.partition("## Take-away")[2], (
            "Lessons 1 to 8 end with the formulas so far. Add a **Formula card** to the take-away."
        )


@every_lesson
def test_sections_are_numbered_in_order(path):
    titles = [
        title for title in headings(path) if title not in (*ENDING, PAUSE) and not title.startswith("Deeper (optional")
    ]
    odd = [title for title in titles if not re.match(r"\d+\.\d+ \S", title)]
    none_of(odd, f"A section is called like '{known(path).number}.1 Two numbers'. Number these:")
    in_order("sections", [title.split()[0] for title in titles], path, "Renumber them.")


# ----------------------------------------------------------------------------------------------------------- exercises


@lesson_0_too
def test_exercises_and_their_cards(path):
    lesson = known(path)
    count = len(lesson.exercises)
    assert count <= 6, f"{count} exercises, expected at most six. Join two, or leave one out."
    in_order("exercises", [exercise.number for exercise in lesson.exercises], path, "Renumber their cards.")
    writing = sum(exercise.minutes for exercise in lesson.core)
    assert writing <= lesson.minutes, (
        f"The exercises alone take {writing} min, and the lesson says {lesson.minutes}. Correct one of them."
    )


@lesson_0_too
@by_line
def test_a_card_says_the_minutes_and_its_dots(path):
    cells = {cell.id: cell for cell in read(path).code("exercise")}
    for exercise in known(path).exercises:
        if not (1 <= exercise.minutes <= 20 and f" {exercise.dots} " in exercise.source):
            yield (
                cells[exercise.id],
                f"its card says {exercise.dots}, {exercise.minutes} min, expected filled dots first",
            )


@every_lesson
def test_every_exercise_has_its_check_and_every_check_its_exercise(path):
    lesson = known(path)
    none_of(
        [exercise.name for exercise in lesson.exercises if not exercise.checks],
        "No cell tagged check stands right below these exercises, or below their hint. Add it: check.NAME(NAME)",
    )
    strays = [code.source for code in lesson.code if "check" in code.tags]
    assert strays == [], "a check cell stands right below its exercise, or below its hint"
    for exercise in lesson.exercises:
        tagged = {"optional" in cell.tags for cell in [exercise, *exercise.checks]}
        assert len(tagged) == 1, f"{exercise.name}: the check of an optional exercise is optional too"


@lesson_0_too
@by_line
def test_a_blank_is_in_a_function_or_a_class_or_binds_fresh_names(path):
    """Then every cell that depends on a blank can be told from an unbound name (see lessonkit's hook)."""
    bound = set()
    for cell in read(path).code():
        solution = blank(read(path), cell)[1]
        names = syntax.names(solution)[1]
        if "exercise" in cell.tags and re.search(r"^### BEGIN SOLUTION", cell.source, re.MULTILINE):
            region = re.findall(r"^### BEGIN SOLUTION$(.*?)^### END SOLUTION$", cell.source, re.MULTILINE | re.DOTALL)
            around = syntax.names("\n".join(region))[1]
            if around & bound:
                yield cell, f"the blank binds {', '.join(sorted(around & bound))}, as an earlier cell does"
            if not around:
                yield cell, "the blank stands at top level and binds no name"
            wanted = set(re.findall(r"(\w+) = \.\.\.", blank(read(path), cell)[0]))
            if around - wanted:
                yield cell, f"the learner is not told to bind {', '.join(sorted(around - wanted))}"
        bound |= names


# ------------------------------------------------------------------------------------------------------ what is banned


@lesson_0_too
@by_line
def test_no_catch_all_no_threads_no_matplotlib_no_semicolons(path):
    for cell in read(path).code():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ExceptHandler):
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                caught = {ast.unparse(kind) if kind else "BaseException" for kind in kinds}
                if caught & {"BaseException", "Exception", "NameError", "check.YourTurn"}:
                    yield cell, "'except' catches what says 'your turn'"
            for module in syntax.modules(node):
                if re.match(r"threading|concurrent|_thread|asyncio", module):
                    yield cell, f"imports {module}: what waits for an answer cannot say so from there"
                if module.startswith("matplotlib") and path in SOURCES:
                    yield cell, "imports matplotlib; figures come from lessonkit.plot, in one style"
        tokens = tokenize.generate_tokens(io.StringIO(cell.source).readline)
        if any(a.string == ";" and b.type in (tokenize.NEWLINE, tokenize.COMMENT) for a, b in pairwise(tokens)):
            yield cell, "a line ends with ';', which nbval does not honour"


@every_lesson
@by_line
def test_what_is_recorded_draws_nothing(path):
    """`make runs` executes these cells; a figure belongs into the cell below, which reads the record."""
    for cell in read(path).code("record"):
        for node in ast.parse(cell.source).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom)):
                if any(isinstance(n, ast.Name) and n.id == "plot" for n in ast.walk(node)):
                    yield cell, "a cell tagged record draws. Split it"


def files():
    """Return the text files of the repository, those not committed yet included."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file():
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                assert path.suffix in (".npz", ".gz", ".png", ".onnx"), f"{name}: no text"


# Brackets round a letter, so that this file is none of those it looks for.
PRIVATE = re.compile(
    r"work/[s]hared|\.\./[s]hared|pypi[.]org|python[h]osted|download\.py[t]orch|[A-Z]:\\[U]sers|"
    r"(?<![\w.~}])/(home|root|Users|mnt|tmp|work)/\w"
)


def test_nothing_names_what_lies_outside_the_repository():
    places = []
    for path, text in files():
        for number, line in enumerate(text.splitlines(), 1):
            places += [f"{path.relative_to(ROOT)}:{number}: {match[0]}" for match in PRIVATE.finditer(line)]
    none_of(places, "These lines name a place outside the repository, or a registry. Say it without:")


# ------------------------------------------------------------------------------------------------------------- links

LINK = re.compile(r"""\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|\b(?:href|src)=["']([^"']+)["']""")


def links(text):
    text = re.sub(r"`[^`]*`", "", "\n".join(outside_fences(text)))
    return [a or b for a, b in LINK.findall(text)]


def anchors(text):
    """Return the anchors of a text's headings, as JupyterLab makes them: blanks become hyphens."""
    return {line.lstrip("#").strip().replace(" ", "-") for line in outside_fences(text) if line.startswith("#")}


def broken(text, folder, exists):
    """Return the links of a text that lead nowhere, seen from a folder. exists: whether there is such a file."""
    dead = []
    for link in links(text):
        target, _, anchor = link.partition("#")
        if re.match(r"(https?|mailto|attachment):", target):
            continue
        there = (folder / target).resolve() if target else None
        if there and not exists(there):
            dead.append(link)
        elif anchor:
            source = there and next((path for path in EVERY if path.stem == there.stem), None)
            whole = "\n".join(cell.source for cell in prose(source)) if source else there.read_text() if there else text
            if anchor not in anchors(whole):
                dead.append(link)
    return dead


@page_of_lesson_0_too
@pytest.mark.parametrize("edition", ["learner", "solutions", "the learner's copy"])
def test_links_lead_somewhere(path, edition):
    folder = ROOT / {"learner": "notebooks", "solutions": "notebooks/solutions", "the learner's copy": "work"}[edition]
    copies = {folder / part / f"{source.stem}.ipynb" for source in EVERY for part in ("", "solutions")}  # by make lab
    if edition == "solutions":
        copies = {folder / f"{source.stem}.ipynb" for source in EVERY}
    beside = folder.parent if edition == "solutions" else folder
    copies |= {beside / f"inventory_{form}.ipynb" for form in "ab"}
    exists = lambda there: there in copies if there.suffix == ".ipynb" else there.exists() and ROOT in there.parents
    cells = editions.notebook(read(path), "solutions" if edition == "solutions" else "learner").cells
    links = broken("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"), folder, exists)
    none_of(links, "These links lead nowhere. Correct the file, or the anchor: the heading with hyphens for blanks:")


def test_links():
    text = "[a](b.md) ![c [d]](e.png \"f\") <a href='g#h'>i</a> `[j](k)` [l](<m>)\n```\n[n](o)\n```\n"
    assert links(text) == ["b.md", "e.png", "g#h", "m"]
    source = SOURCES[0].stem
    text = f"[a]({source}.ipynb) [b]({source}.ipynb#no) [c](none.md) [d](#Not-here) [e](https://no)\n## Not here\n"
    assert broken(text, ROOT / "work", lambda there: there.stem == source) == [f"{source}.ipynb#no", "none.md"]


# ------------------------------------------------------------------------------------------------------------- outputs


def built(path):
    """Return pairs (cell of the source, cell of the stored notebook)."""
    target = editions.target(read(path), "solutions")
    assert target.exists(), f"run `make notebooks`: {target.relative_to(ROOT)} is missing"
    stored = json.loads(target.read_text(encoding="utf-8"))["cells"]
    if [cell["id"] for cell in stored] != [cell.id for cell in read(path).cells]:
        pytest.fail(f"{path.stem} has changed: run `make notebooks ARGS={path.stem[:2]}`", pytrace=False)
    return list(zip(read(path).cells, stored, strict=True))


def shown(out):
    """Return all text that an output shows, errors aside."""
    return "".join([*out.get("text", ""), *out.get("data", {}).get("text/plain", "")])


# Texts of errors that Python itself raises: they change with its version.
PYTHONS = re.compile(
    "positional argument|keyword argument|has no attribute|not subscriptable|not callable|has no len|"
    "not iterable|unsupported operand|object is not|division by zero|is not defined|NoneType"
)


@lesson_0_too
@by_line
def test_stored_outputs(path):
    """What the builder stores without a word: texts that change with Python, and a nan that nobody speaks of."""
    cells = [pair for pair in built(path) if pair[0].type == "code" or "nan" in pair[0].source]
    for at, (cell, stored) in enumerate(cells):
        outputs = stored.get("outputs", [])
        text = "\n".join([*map(shown, outputs), *(out.get("evalue", "") for out in outputs)])
        if PYTHONS.search(text):
            yield cell, "stores an error of Python's own, whose text changes with its version. Show its type"
        around = "\n".join(c.source for c, _ in cells[max(0, at - 2) : at + 4])
        if re.search(r"\bnan\b", text) and not re.search(r"\bnan\b|not a number|0/0|inf\b|float16", around):
            yield cell, "shows nan, and nothing around it speaks of nan. Say where it comes from"


# ----------------------------------------------------------------------------------------------- README and coverage


@lesson_0_too
def test_the_readme_names_every_lesson(path):
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and f"{path.stem}.ipynb" in line]
    assert len(rows) == 1, f"README.md's table of lessons has {len(rows)} rows for {path.stem}, expected one. Add it."
    assert re.search(rf"\| *{known(path).minutes}\b", rows[0]), (
        f"README.md's row for {path.stem} has other minutes than the lesson, {known(path).minutes}. Correct it."
    )


def coverage():
    """Return the rows of coverage.csv: what five public tutorials say and people get wrong, and where it is settled."""
    with (ROOT / "tests/coverage.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_coverage_leads_to_sections_that_exist():
    sections = {title.split()[0] for path in SOURCES for title in headings(path) if title not in ENDING}
    deeper = [path for path in SOURCES if any(title.startswith("Deeper (") for title in headings(path))]
    sections |= {f"{int(path.stem[:2])} Deeper" for path in deeper} | {REFERENCE.stem[:2]}
    lost = [row for row in coverage() if not row["section"] or set(row["section"].split("; ")) - sections]
    none_of(lost, "These rows of tests/coverage.csv name no section of the course. Say where it is settled now:")

"""The lessons themselves: their frame, their size, their exercises, links, figures and stored outputs."""

import ast
import csv
import io
import json
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from coursebuild import editions, minutes, syntax
from coursebuild.source import BEGIN, END, blank
from lessonkit import plot
from tests.helpers import EVERY, ROOT, SOURCES, read

IDS = [path.stem for path in SOURCES]
TEACHING, DEFINITION, EXPORT, TO_WRITE = 12, 30, 30, 10  # lines of code
ENDING = ["Take-away", "On your own", "Further reading"]


def every_lesson(test):
    return pytest.mark.parametrize("path", SOURCES, ids=IDS)(test)


def none(path, problems):
    """Fail with the problems, (cell, what) each, as lines "lesson:line: what" that an editor can jump to."""
    if problems:
        pytest.fail("\n".join(f"{path.name}:{cell.line}: {what}" for cell, what in problems), pytrace=False)


def test_there_are_lessons():
    assert IDS and [int(name[:2]) for name in IDS] == list(range(1, len(IDS) + 1)), "numbered from 1, without gaps"


# ---------------------------------------------------------------------------------------------------------------- size


def code_lines(source):
    """Return the numbers of the lines that hold code: no blank lines, comments and docstrings."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        ):
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            found -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def test_code_lines():
    source = '"""Doc."""\n# why\nx = [\n    1,  # one\n\n    2]\n'
    source += 'def f():\n    """Do\n    it."""\n    return """a\nb"""\n'
    assert code_lines(source) == {3, 4, 6, 7, 10, 11}


def ends_with_semicolon(source):
    """Whether a line of code, not of a docstring or a comment, ends with a semicolon."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    after = {token.start: later for token, later in zip(tokens, tokens[1:], strict=False)}
    ends = (tokenize.NEWLINE, tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)
    return any(t.type == tokenize.OP and t.string == ";" and after[t.start].type in ends for t in tokens)


@pytest.mark.parametrize(
    "source, ends",
    [
        ("plt.show();", True),
        ("plt.show();  # quiet", True),
        ("x = 1; y = 2", False),
        ('"""a;\nb"""', False),
        ("x = 1  # this; that;", False),
    ],
)
def test_ends_with_semicolon(source, ends):
    assert ends_with_semicolon(source) == ends


def logical_lines(source):
    """Return how many lines source would have if no statement were wrapped; docstrings do not count."""
    texts = sum(
        isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None
        for node in ast.walk(ast.parse(source))
    )
    ends = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NEWLINE]
    return len(ends) - texts


def test_logical_lines():
    assert logical_lines('"""Doc."""\n# why\nx = [\n    1,\n    2]\ndef f():\n    """Do."""\n    return x\n') == 3


@every_lesson
def test_cells_are_short(path):
    """A cell that teaches fits a screen with its output; in an export or a definition a wrapped line counts once."""
    problems = []
    for cell in read(path).code():
        solution = blank(read(path), cell)[1]
        body = ast.parse(solution).body
        one = len(body) == 1 and isinstance(body[0], (ast.FunctionDef, ast.ClassDef))
        lines = logical_lines(solution)
        if "export" in cell.tags:
            limit, why = EXPORT, "an export cell"
        elif {"exercise", "check", "hide-input"} & set(cell.tags):
            continue
        elif one:
            limit, why = DEFINITION, "one definition"
        else:
            limit, why = TEACHING, "a teaching cell"
            lines = len(code_lines(solution))
        if lines > limit:
            problems.append((cell, f"{lines} lines of code, {why} has at most {limit}"))
    none(path, problems)


WIDTH = 96


@every_lesson
def test_code_lines_end_at_96_characters(path):
    problems = []
    for cell in read(path).code():
        for line in cell.source.split("\n"):
            if len(line) > WIDTH:
                problems.append((cell, f"{len(line)} characters: {line.strip()[:60]}..."))
    none(path, problems)


@every_lesson
def test_learners_write_at_most_ten_lines(path):
    problems = []
    for cell in read(path).code("exercise"):
        inside, marks = False, 0
        within = set()
        for number, line in enumerate(cell.source.splitlines(), 1):
            if BEGIN["code"].fullmatch(line.rstrip()):
                inside, marks = True, marks + 1
            elif END["code"].fullmatch(line.rstrip()):
                inside = False
            elif inside:
                within.add(number)
        lines = len(within & code_lines(cell.source))
        if not 1 <= lines <= TO_WRITE:
            problems.append((cell, f"{lines} lines between the marks, expected 1 to {TO_WRITE}"))
    none(path, problems)


# --------------------------------------------------------------------------------------------------------------- frame


def prose(path):
    return [cell for cell in read(path).cells if cell.type == "markdown"]


def headings(path):
    """Return the second-level headings of a lesson, in order."""
    return [line[3:] for cell in prose(path) for line in outside_fences(cell.source) if line.startswith("## ")]


def outside_fences(source):
    return re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL).splitlines()


def said_minutes(path):
    """Return the learner's minutes for the core of a lesson, as it says itself; 0 if it does not."""
    found = minutes.PRINTED.findall("\n".join(cell.source for cell in prose(path)))
    return int(found[0]) if len(found) == 1 else 0


@every_lesson
def test_the_frame(path):
    number = int(path.stem[:2])
    opening = "\n".join(cell.source for cell in prose(path)[:6])
    for words in ("**You'll be able to**", "**You need"):
        assert words in opening, f"the lesson's frame lacks {words}"
    assert 10 <= said_minutes(path) <= 60, "the frame says how long the core takes: *About 40 min.*"
    titles = [title for title in headings(path) if not title.startswith("Deeper (optional")]
    assert titles[-3:] == ENDING
    if number >= 3:
        clinics = [title for title in titles if "Clinic" in title]
        assert len(clinics) == 1 and titles[-4] == clinics[0], "one clinic case, just before the take-away"


@every_lesson
def test_a_lesson_opens_with_what_breaks(path):
    first = [cell for cell in read(path).cells[:4] if cell.type == "code"]
    assert first, "something fails in one of the first cells, before anything is defined"
    before = read(path).cells[: read(path).cells.index(first[0])]
    assert all("**You'll be able to**" not in cell.source for cell in before), "the failure comes before the frame"


@every_lesson
def test_predictions_and_recall(path):
    names = [name.split()[0] for name in read(path).questions]
    assert names.count("Predict") >= 6, f"{names.count('Predict')} predictions, expected at least six"
    assert path.stem.startswith("01") or 3 <= names.count("Recall") <= 5, "three to five recall questions"
    assert not re.search(r"^\*\*Predict[^*\d]*\*\*", "\n".join(cell.source for cell in prose(path)), re.MULTILINE)
    rights = [
        next(i for i, option in enumerate(options) if option["right"]) for options in read(path).questions.values()
    ]
    assert len(set(rights)) > 1, "the right answer is always in the same place"


@every_lesson
def test_the_minutes_are_the_models(path):
    assert minutes.wrong(path.stem) == []
    assert minutes.total(minutes.of(path.stem)) <= 60.5, "the core takes at most 60 minutes"


@every_lesson
def test_proof_is_folded_and_what_is_seen_shows_something(path):
    problems = []
    for cell, stored in built(path):
        if cell.type != "code" or {"hide-input", "exercise", "check", "predict"} & set(cell.tags):
            continue
        body = ast.parse(cell.source).body
        if any(isinstance(node, ast.Assert) for statement in body for node in ast.walk(statement)):
            problems.append((cell, "an assert in sight. Fold it (hide-input), and print the number that matters"))
        given = "export" in cell.tags or all(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in body)
        if not stored["outputs"] and not given and "timed" not in cell.tags:
            problems.append((cell, "a cell in sight that shows nothing. Fold it, drop it, or show a number"))
        if all(isinstance(node, ast.Expr) and ast.unparse(node).startswith("plot.") for node in body):
            problems.append((cell, "a cell that only draws is folded (hide-input): its title answers the prediction"))
    none(path, problems)


@every_lesson
def test_headings_are_in_plain_letters(path):
    """JupyterLab's anchors keep every character: a minus sign or a formula in a heading cannot be linked to."""
    lines = [line for cell in prose(path) for line in outside_fences(cell.source) if re.match(r"##+ ", line)]
    assert [line for line in lines if not re.fullmatch(r"[ -~]+", line) or re.search(r"[$`]", line)] == []


@every_lesson
def test_a_section_that_is_named_is_linked_with_its_anchor(path):
    text = "\n".join(
        re.sub(r"\[[^\]]*\]\([^)]*#[^)]*\)", "", line) for cell in prose(path) for line in cell.source.split("\n")
    )
    assert re.findall(r"[Ss]ections? \d+\.\d+", text) == [], "write [section 2.6](02_statistics.ipynb#2.6-...)"


@every_lesson
def test_no_contractions(path):
    text = " ".join(cell.source for cell in read(path).cells if cell.type == "markdown")
    found = re.findall(
        r"\b\w+n't\b|\b(?:it|that|what|there|let|here)'s\b|\bI'm\b|\bwe'(?:re|ve|ll)\b", text, re.IGNORECASE
    )
    assert found == []


@every_lesson
def test_parts_one_and_two_close_with_the_formula_card(path):
    if int(path.stem[:2]) <= 8:
        text = "\n".join(cell.source for cell in prose(path))
        assert "**Formula card" in text.partition("## Take-away")[2]


@every_lesson
def test_sections_are_numbered_in_order(path):
    titles = [title for title in headings(path) if title not in ENDING and not title.startswith("Deeper (optional")]
    numbered = [re.match(r"(\d+)\.(\d+) \S", title) for title in titles]
    assert all(numbered), f"a section is called like '{int(path.stem[:2])}.1 Two numbers': {headings(path)}"
    found = [(int(match[1]), int(match[2])) for match in numbered]
    assert found == [(int(path.stem[:2]), n) for n in range(1, len(found) + 1)]


# ----------------------------------------------------------------------------------------------------------- exercises


def cards(path):
    return [
        (cell, re.search(r"# Exercise (\d+)\.(\d+) · ([●○]{5}) · (\d+) min", cell.source))
        for cell in read(path).code("exercise")
    ]


@every_lesson
def test_exercises_and_their_cards(path):
    found = cards(path)
    assert 3 <= len(found) <= 6
    number = int(path.stem[:2])
    assert [(int(card[1]), int(card[2])) for _, card in found] == [(number, n) for n in range(1, len(found) + 1)]
    problems = [
        (cell, f"difficulty {card[3]}, expected filled dots first")
        for cell, card in found
        if not re.fullmatch("●+○*", card[3])
    ]
    problems += [(cell, f"{card[4]} min") for cell, card in found if not 1 <= int(card[4]) <= 20]
    none(path, problems)
    writing = sum(int(card[4]) for cell, card in found if "optional" not in cell.tags)
    assert writing <= said_minutes(path), "the exercises alone take longer than the lesson says"


@every_lesson
def test_every_exercise_has_its_check_and_every_check_its_exercise(path):
    state, problems = None, []
    for cell in read(path).code():
        if "exercise" in cell.tags:
            if state:
                problems.append((state, "the next exercise comes before a check"))
            state = cell
        elif "check" in cell.tags:
            if not re.search(r"^check\.[a-z]\w*\(.+\)$", cell.source, re.MULTILINE):
                problems.append((cell, "a check cell calls check.NAME(...)"))
            if "optional" in (state.tags if state else []) and "optional" not in cell.tags:
                problems.append((cell, "the check of an optional exercise is optional too"))
            state = None
    none(path, problems + ([(state, "the last exercise has no check")] if state else []))


@every_lesson
def test_a_blank_is_in_a_function_or_a_class_or_binds_fresh_names(path):
    """Then every cell that depends on a blank can be told from an unbound name (see lessonkit's hook)."""
    problems, bound = [], set()
    for cell in read(path).code():
        solution = blank(read(path), cell)[1]
        names = syntax.names(solution)[1]
        if "exercise" in cell.tags and re.search(r"^### BEGIN SOLUTION", cell.source, re.MULTILINE):
            region = re.findall(r"^### BEGIN SOLUTION$(.*?)^### END SOLUTION$", cell.source, re.MULTILINE | re.DOTALL)
            given = syntax.names("\n".join(region))[1]
            if given & bound:
                problems.append((cell, f"the blank binds {', '.join(sorted(given & bound))}, as an earlier cell does"))
            if not given:
                problems.append((cell, "the blank stands at top level and binds no name"))
            wanted = set(re.findall(r"(\w+) = \.\.\.", blank(read(path), cell)[0]))
            if given - wanted:
                problems.append((cell, f"the learner is not told to bind {', '.join(sorted(given - wanted))}"))
        bound |= names
    none(path, problems)


# ------------------------------------------------------------------------------------------------------ what is banned


@every_lesson
def test_no_catch_all_no_threads_no_semicolons(path):
    problems = []
    for cell in read(path).code():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ExceptHandler):
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                caught = {ast.unparse(kind) if kind else "BaseException" for kind in kinds}
                if caught & {"BaseException", "Exception", "NameError", "check.YourTurn"}:
                    problems.append((cell, "'except' catches what says 'your turn'"))
            for module in syntax.modules(node):
                if re.match(r"threading|concurrent|_thread|asyncio", module):
                    problems.append((cell, f"imports {module}: what waits for an answer cannot say so from there"))
        if ends_with_semicolon(cell.source):
            problems.append((cell, "a line ends with ';', which nbval does not honour"))
    none(path, problems)


@every_lesson
def test_what_is_recorded_draws_nothing(path):
    """`make runs` executes these cells; a figure belongs into the cell below, which reads the record."""
    problems = []
    for cell in read(path).code("record"):
        for node in ast.parse(cell.source).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom)):
                if any(isinstance(n, ast.Name) and n.id == "plot" for n in ast.walk(node)):
                    problems.append((cell, "a cell tagged record draws. Split it"))
    none(path, problems)


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


# Written in pieces, so that this file is none of those it looks for.
PRIVATE = re.compile(
    "|".join(
        [
            r"work/" + "shared",
            r"\.\./" + "shared",
            "pypi" + r"\.org",
            "python" + "hosted",
            r"download\.py" + "torch",
            r"(?<![\w.~}])/" + r"(home|root|Users|mnt|tmp|work)/\w",
            r"[A-Z]:\\" + "Users",
        ]
    )
)


def test_nothing_names_what_lies_outside_the_repository():
    found = []
    for path, text in files():
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {match[0]}" for match in PRIVATE.finditer(line)]
    assert not found


def test_the_pattern_for_private_places():
    for text in ("see /" + "work/" + "shared", "/" + "home/me/x", "https://" + "pypi" + ".org", "'/" + "root/x'"):
        assert PRIVATE.search(text), text
    for text in ("cp x work/mine.ipynb", "(../data/README.md)", "~/work", "python -m pip", "a/home/b"):
        assert not PRIVATE.search(text), text


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
    found = []
    for link in links(text):
        target, _, anchor = link.partition("#")
        if re.match(r"(https?|mailto|attachment):", target):
            continue
        there = (folder / target).resolve() if target else None
        if there and not exists(there):
            found.append(link)
        elif anchor:
            source = there and next((path for path in SOURCES if path.stem == there.stem), None)
            whole = "\n".join(cell.source for cell in prose(source)) if source else there.read_text() if there else text
            if anchor not in anchors(whole):
                found.append(link)
    return found


@every_lesson
@pytest.mark.parametrize("edition", ["learner", "solutions", "the learner's copy"])
def test_links_lead_somewhere(path, edition):
    folder = ROOT / {"learner": "notebooks", "solutions": "notebooks/solutions", "the learner's copy": "work"}[edition]
    made = {folder / part / f"{source.stem}.ipynb" for source in EVERY for part in ("", "solutions")}  # by make lab
    if edition == "solutions":
        made = {folder / f"{source.stem}.ipynb" for source in EVERY}
    beside = folder.parent if edition == "solutions" else folder
    made |= {beside / f"inventory_{form}.ipynb" for form in "ab"}
    exists = lambda there: there in made if there.suffix == ".ipynb" else there.exists() and ROOT in there.parents
    cells = editions.notebook(read(path), "solutions" if edition == "solutions" else "learner").cells
    found = broken("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"), folder, exists)
    assert not found


def test_links_of_the_other_texts():
    texts = [(path, text) for path, text in files() if path.suffix == ".md"]
    found = {path.relative_to(ROOT).as_posix(): broken(text, path.parent, Path.exists) for path, text in texts}
    assert not {name: links for name, links in found.items() if links}


def test_links():
    text = "[a](b.md) ![c [d]](e.png \"f\") <a href='g#h'>i</a> `[j](k)` [l](<m>)\n```\n[n](o)\n```\n"
    assert links(text) == ["b.md", "e.png", "g#h", "m"]
    source = SOURCES[0].stem
    text = f"[a]({source}.ipynb) [b]({source}.ipynb#no) [c](none.md) [d](#Here) [e](#There) [f](https://no)\n# Here\n"
    exists = lambda there: there.stem == source
    assert broken(text, ROOT / "work", exists) == [f"{source}.ipynb#no", "none.md", "#There"]
    assert anchors("# 2 · Tiny\n## 2.1 Two numbers\n```\n# no\n```") == {"2-·-Tiny", "2.1-Two-numbers"}


# ------------------------------------------------------------------------------------------------------------- outputs


def built(path, edition="solutions"):
    """Return pairs (cell of the source, cell of the stored notebook)."""
    target = editions.target(read(path), edition)
    assert target.exists(), f"run `make notebooks`: {target.relative_to(ROOT)} is missing"
    stored = json.loads(target.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in stored] == [cell.id for cell in read(path).cells], "run `make notebooks`"
    return list(zip(read(path).cells, stored, strict=True))


def words(out):
    """Return all text of an output."""
    return out.get("text", "") if isinstance(out.get("text", ""), str) else "".join(out["text"])


def shown(cell):
    """Return the text that a stored cell shows."""
    texts = [words(out) + "".join(out.get("data", {}).get("text/plain", "")) for out in cell["outputs"]]
    return "\n".join(texts)


# Texts of errors that Python itself raises: they change with its version.
PYTHONS = re.compile(
    "positional argument|keyword argument|has no attribute|not subscriptable|not callable|has no len|"
    "not iterable|unsupported operand|object is not|division by zero|is not defined|NoneType"
)


@every_lesson
def test_stored_outputs(path):
    problems, cells = [], built(path)
    for at, (cell, stored) in enumerate(cells):
        if cell.type != "code":
            continue
        if not stored["execution_count"]:
            problems.append((cell, "was never run"))
        kinds = {out["output_type"] for out in stored["outputs"]}
        errors = [out for out in stored["outputs"] if out["output_type"] == "error"]
        if errors and "raises-exception" not in cell.tags:
            problems.append((cell, f"stores {errors[0]['ename']}"))
        if PYTHONS.search("\n".join([shown(stored), *(out["evalue"] for out in errors)])):
            problems.append((cell, "stores the text of an error of Python's own, which changes with its version"))
        if any(out.get("name") == "stderr" for out in stored["outputs"]):
            problems.append((cell, "stores stderr"))
        if "timed" in cell.tags and kinds:
            problems.append((cell, "is timed and stores an output"))
        around = "\n".join(c.source for c, _ in cells[max(0, at - 2) : at + 4])
        if re.search(r"\bnan\b", shown(stored)) and not re.search(r"\bnan\b|not a number|0/0|inf\b|float16", around):
            problems.append((cell, "shows nan, and nothing around it speaks of nan"))
    none(path, problems)


@every_lesson
def test_figures_have_words(path):
    """The alternative text is stored with the picture and among the cell's options; the caption stands below it."""
    problems = []
    for cell, stored in built(path):
        outputs = stored.get("outputs", [])
        for at, out in enumerate(outputs):
            if "image/png" not in out.get("data", {}):
                continue
            alt = out["metadata"].get("image/png", {}).get("alt", "")
            below = outputs[at + 1].get("data", {}) if at + 1 < len(outputs) else {}
            if len(alt) < 20 or "".join(out["data"].get("text/plain", "")) != alt:
                problems.append((cell, f"the picture's text alternative is {alt!r}"))
            elif not stored["metadata"].get("mystnb", {}).get("image", {}).get("alt"):
                problems.append((cell, "the text alternative is not among the cell's options"))
            if len("".join(below.get("text/markdown", ""))) < 20:
                problems.append((cell, "the picture has no caption below it"))
    none(path, problems)


@every_lesson
def test_every_widget_has_a_static_figure_below_it(path):
    problems, code = [], [pair for pair in built(path) if pair[0].type == "code"]
    for at, (cell, _) in enumerate(code):
        if re.search(r"\bobserve\(", cell.source):
            after = [out for _, later in code[at : at + 4] for out in later["outputs"]]
            if not any("image/png" in out.get("data", {}) for out in after):
                problems.append((cell, "a widget without a static figure below it"))
        if re.search(r"\binteract(ive)?\(|\bOutput\(", cell.source):
            problems.append((cell, "interact and Output leak what they print into the cell; use observe"))
    none(path, problems)


@every_lesson
def test_figures_are_drawn_by_lessonkit(path):
    problems = []
    for cell in read(path).code():
        for node in ast.walk(ast.parse(cell.source)):
            if any(module.partition(".")[0] == "matplotlib" for module in syntax.modules(node)):
                problems.append((cell, "imports matplotlib; figures come from lessonkit.plot, in one style"))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "plot" and node.attr not in plot.__all__:
                problems.append((cell, f"plot has no {node.attr}"))
    none(path, problems)


@every_lesson
def test_the_learner_edition_is_unrun_and_blank(path):
    fresh = editions.notebook(read(path), "learner").cells
    for (cell, stored), made in zip(built(path, "learner"), fresh, strict=True):
        assert not stored.get("outputs") and not stored.get("execution_count")
        assert "".join(stored["source"]) == made.source, "run `make notebooks`"
        if {"exercise", "check"} & set(cell.tags):
            assert "raises-exception" in stored["metadata"]["tags"]


# ----------------------------------------------------------------------------------------------- README and coverage

if (ROOT / "README.md").exists():

    @every_lesson
    def test_the_readme_names_every_lesson(path):
        lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        rows = [line for line in lines if line.startswith("|") and f"{path.stem}.ipynb" in line]
        assert len(rows) == 1, f"the table of lessons has {len(rows)} rows for {path.stem}"
        assert re.search(rf"\| *{said_minutes(path)}\b", rows[0]), f"its minutes are {said_minutes(path)}"


COVERAGE = ROOT / "tests/coverage.csv"
ITEMS = [f"{seed}.{n}" for seed, many in enumerate((17, 14, 12, 8, 7)) for n in range(1, many + 1)] + [
    f"{kind}{n}"
    for kind, numbers in {
        "A": (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 17, 18),
        "F": (1, 2, 4, 5, 6, 7, 8, 9, 10),
        "N": (1, 2, 5, 6),
        "P": (1, 2, 3, 5, 6, 7, 8, 9, 10),
        "T": (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16),
        "W": (1, 2),  # seen in a shipped model (lesson 15)
    }.items()
    for n in numbers
]


def coverage():
    """Return the rows of coverage.csv: what five public tutorials say and people get wrong, and where it is settled."""
    with COVERAGE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if COVERAGE.exists() or "14_clinic" in IDS:

    def test_coverage_leads_to_sections_that_exist():
        sections = {title.split()[0] for path in SOURCES for title in headings(path) if title not in ENDING}
        deeper = [path for path in SOURCES if any(title.startswith("Deeper (") for title in headings(path))]
        sections |= {f"{int(path.stem[:2])} Deeper" for path in deeper}
        for row in coverage():
            assert list(row) == ["id", "sentence", "section"] and len(row["sentence"]) > 10, row
            assert set(filter(None, row["section"].split("; "))) <= sections, row

    def test_coverage_has_every_item_once():
        assert sorted(row["id"] for row in coverage()) == sorted(ITEMS)

    def test_every_item_is_settled_once_the_last_lesson_is_in():
        assert "14_clinic" not in IDS or all(row["section"] for row in coverage())


def numbers_in(node):
    """Return how many number literals an expression holds; a minus in front belongs to its number."""
    return sum(isinstance(n, ast.Constant) and type(n.value) in (int, float) for n in ast.walk(node))


def test_all_114_numbers_of_the_public_notebook_are_reproduced():
    printed = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and re.fullmatch(r"cell_56\d", ast.unparse(node.targets[0])):
                name = ast.unparse(node.targets[0])
                printed[name] = numbers_in(node.value)
                used = re.findall(rf"\b{name}\b", path.read_text(encoding="utf-8"))
                assert len(used) > 1, f"{path.name} lists {name} and compares nothing with it"
    assert printed == {"cell_561": 22, "cell_562": 4, "cell_563": 16, "cell_565": 28, "cell_566": 44}
    assert sum(printed.values()) == 114


@every_lesson
def test_what_a_widget_reads_is_not_bound_anew_below_it(path):
    """A callback runs when the learner moves the slider, after the last cell: its names must still mean the same."""
    cells = [cell.source for cell in read(path).code()]
    functions = {
        node.name: ast.unparse(node)
        for source in cells
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }
    for number, source in enumerate(cells):
        waiting, needed = re.findall(r"\.observe\((\w+),", source), set()
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += syntax.names(functions[name])[0] if name in functions else []
        for later in cells[number + 1 :]:
            again = needed & syntax.names(later)[1]
            assert not again, f"{path.name}: a widget's callback reads {sorted(again)}, bound anew below. Rename one."

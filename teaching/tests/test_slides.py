"""The decks: which slides a lesson gives, and that in a browser everything is on its slide, in time and offline."""

import html
import re

import pytest

from lessonkit.course import Code, Exercise, Question, Text
from teaching import material
from teaching.material import Figure
from teaching.slides import deck, pdf, render
from teaching.slides.__main__ import build, main
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, show, squeezed, toy_lesson

SMALLEST = 24  # pixels, on a slide of 1280 x 720


def toy(*items):
    """Return the slides of a lesson that consists of a first section and these items, without title and goals."""
    first = Text(
        "# 6 · Toy: a lesson\n\nIt breaks.\n\n**You'll be able to**\n- do it.\n\n## 6.1 First\n\nWhat is it about?"
    )
    return deck.slides(toy_lesson(first, *items))[2:]


def kinds(*items):
    return [slide.kind for slide in toy(*items)]


OPTIONS = [
    {"text": "one", "reason": "Too few.", "right": False},
    {"text": "two", "reason": "Count them.", "right": True},
]
PREDICT = Question("Predict", "6.1", "how many?", OPTIONS)
FIGURE = Figure(b"png", "Bars.", "Two bars.", 700)
FIRST = Code("c0", "print(1)", ["1\n"], False)


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    """All decks of the course, a folder."""
    folder = tmp_path_factory.mktemp("slides")
    counts = build(folder)
    assert list(counts) == material.every() and all(20 <= count <= 55 for count in counts.values()), counts
    return folder


def words(body):
    """Return what is read of HTML."""
    return html.unescape(re.sub("<[^>]*>", "", body))


def test_a_prediction_is_asked_and_answered_after_what_happens():
    asked, outcome, answered, drawn = toy(
        PREDICT, Code("c1", "show(2)", ["2\n"], False), Code("c2", "draw()", [FIGURE], True), Text("Two, then.")
    )
    assert [slide.kind for slide in (asked, outcome, answered, drawn)] == ["predict", "outcome", "answer", "figure"]
    assert "What is it about?" in asked.body and "How many?" in asked.body and "two" in asked.body
    assert "Count them." not in asked.body + outcome.body and "Count them." in asked.notes
    assert "show" in outcome.body and "How many?" in answered.body and "Count them." in answered.body
    assert drawn.picture is FIGURE and not drawn.body and "Two bars." in drawn.notes and "Two, then." in drawn.notes


@pytest.mark.parametrize("between", [[], [Text("## 6.2 Second\n\nMore.")], [Code("c1", "f()", [], True)]])
def test_a_question_that_nothing_answers_is_answered_before_the_next_thing(between):
    exercise = Exercise("6.1", 2, 5, "x = ...", "x = 1")
    assert kinds(PREDICT, *between, exercise, FIRST) == ["predict", "answer", "exercise", "outcome"]
    recall = Question("Recall", "6.1", "how many?", OPTIONS)
    assert kinds(recall, FIRST) == ["recall", "answer", "outcome"]
    assert kinds(PREDICT, Text("**So two.**"), FIRST) == ["predict", "answer", "rule", "outcome"]


def test_the_code_that_a_question_is_about_is_shown_though_it_prints_nothing():
    patient = Code("c1", "class Patient:\n    pass", [], False)
    shown, asked, _ = toy(patient, Text("A class."), PREDICT)
    assert shown.kind == "patient" and "class Patient" in words(shown.body) and "A class." in asked.body
    (other,) = toy(patient, FIRST)
    assert "class Patient" in words(other.notes) and "Patient" not in other.body


def test_rules_formulas_tables_and_lists_have_a_slide_and_all_else_is_said():
    rule = "**Shared.**\n\n<details><summary>When this holds</summary>\n\nNearly always.\n\n</details>"
    text = Text(f"First.\n\n{rule}\n\nA product:\n\n$$a = b$$\n\n| a |\n|---|\n| 1 |\n\n- One.\n- Two.\n\nLast.")
    ruled, formula, table, listed = toy(text)
    assert [slide.kind for slide in (ruled, formula, table, listed)] == ["rule", "formula", "table", "list"]
    assert "First." in ruled.notes and "Nearly always." in ruled.notes and "First." not in ruled.body
    assert "A product:" in formula.body and "<td>1</td>" in table.body and "Last." in listed.notes
    assert kinds(Text("**Card**\n\n- One.")) == ["list"]
    (wide,) = toy(Text(f"$$a = {'x + ' * 40} 1 \\qquad b = 2$$"))
    assert wide.body.count("\\[") == 2 and "qquad" not in wide.body
    rows = "\n".join(f"| {k} |" for k in range(10))
    assert [words(slide.body).split()[-1] for slide in toy(Text(f"| a |\n|---|\n{rows}"))] == ["4", "9"]


def test_a_long_output_is_cut():
    (cut,) = toy(Code("c1", "f()", ["row\n" * 90], True))
    assert words(cut.body).count("row") == deck.ROWS - 1 and words(cut.body).endswith("…\n")


def test_an_explorable_is_a_frame_with_what_to_find_out():
    task = Text("**Find out:** why?\n\n<details><summary>What there is to find</summary>\n\nTo two.\n\n</details>")
    (shown,) = toy(Code("c1", "explore.row()", [material.Explorable("row", {"x": [3, 1]})]), task)
    assert shown.kind == "explorable" and "why?" in shown.body and "To two." in shown.notes
    assert 'alt="A row of 2 numbers as bars' in deck.page(toy_lesson(Text("# 6 · Toy")), [shown], None)


def test_a_comment_for_which_a_row_of_code_has_no_room_stands_above_it():
    short, long = "x = 1  # one", f"    y = {'1 + ' * 17}1  # many"
    rows = words(render.code(f"{short}\n{long}")).split("\n")
    assert rows[:3] == [short, "    # many", long.removesuffix("  # many")]


def test_an_exercise_is_three_points_and_shows_no_solution_and_no_hint():
    task = 'def f(x):\n    """Count.\n\n    Example: f(2) is\n    3.\n    x: a number.\n    """\n    ...  # your answer'
    (slide,) = toy(Exercise("6.1", 2, 5, task, task.replace("...  # your answer", "return 42"), "Add."))
    assert re.findall("<li>(.*?)</li>", slide.body) == ["Count.", "Example: f(2) is 3."]
    assert "def f(x):" in words(slide.body) and "x: a number." in words(slide.notes)
    assert 'data-minutes="8">8 min<' in slide.body and "●●○○○" in slide.body  # 5 on the card
    assert "42" not in slide.body and "Add." not in slide.body and "What is it about?" in slide.notes
    assert "Solution:return 42" in words(slide.notes) and "Add." in slide.notes
    task = """# The mean of 1, 3?
# Copy this line and replace the dots:
# m = dict(
#     mean=...)
# mean   in two
#        words
# Example: of 2
# and 4, 3.
...  # your answer"""
    (paper,) = toy(Exercise("6.1", 2, 5, task, "m = 2"))
    points = ["The mean of 1, 3?", "<code>mean</code> in two words", "Example: of 2 and 4, 3."]
    assert re.findall("<li>(.*?)</li>", paper.body) == points
    assert words(paper.body).endswith("m = dict(\n    mean=...)\n") and "m = 2" in words(paper.notes)


def test_the_tags_correct_the_choice_and_what_is_optional_is_left_out():
    silent, shown = Code("c1", "f()", [], True), Code("c2", "g()", [], False, ["slide"])
    assert kinds(silent, shown) == ["patient"]
    draws = Code("c3", "draw()", [FIGURE], True, ["no-slide"])
    assert kinds(draws) == ["text"] and kinds(FIRST) == ["outcome"]
    assert "A word." in toy(FIRST, Text("A word.", ["slide"]))[-1].body
    assert len(toy(FIRST, Text("## Deeper (optional, 9 min)"), Code("c4", "draw()", [FIGURE], True))) == 1


def test_the_title_has_a_picture_and_what_only_prepares_is_not_shown():
    first = Text("# 6 · Toy\n\nIt breaks.")
    loads, runs = Code("c0", "import os\nload()", ["ready\n"], False), Code("c2", "patient()", ["nan\n"], False)
    title, outcome, figure = deck.slides(toy_lesson(first, loads, runs, Code("c3", "draw()", [FIGURE], True)))
    assert title.picture is FIGURE is figure.picture and "nan" in outcome.body and "It breaks." in outcome.notes


def test_what_breaks_is_shown_without_the_imports_above_it():
    source = "import os\n\n# Not found?\nfrom a import b\n\n\ndef patient():\n    pass\n\n\nprint(patient())"
    cell = Code("c0", source, ["f: the course's own, from lesson 2.\nnan\n"], False)
    _, outcome = deck.slides(toy_lesson(Text("# 6 · Toy\n\nIt breaks."), cell))
    assert words(outcome.body) == "def patient():\n    pass\n\n\nprint(patient())\nnan\n"


def test_an_unknown_lesson_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["99"])
    assert "invalid choice: '99' (choose from " in capsys.readouterr().err


LAYOUT = """() => {
const drawn = (image) => {  // the smallest letters of an explorable's picture
  const sizes = [...atob(image.src.split(",")[1]).matchAll(/font-size="(.+?)"/g)].map((match) => +match[1]);
  const shares = [image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight];
  return Math.min(...sizes) * Math[getComputedStyle(image).objectFit === "cover" ? "max" : "min"](...shares);
};
return [...document.querySelectorAll(".slides section")].map((section, k) => {
  Reveal.slide(k);
  const frame = section.getBoundingClientRect(), scale = Reveal.getScale(), inside = section.querySelector(".fit");
  const read = (e) => !e.closest("mjx-assistive-mml") && e.getClientRects().length;
  const all = [...inside.querySelectorAll("*")].filter(read);
  const boxes = all.map((e) => e.getBoundingClientRect());
  const set = all.filter((e) => !e.closest("svg") && [...e.childNodes].some((n) => n.nodeType == 3 && n.data.trim()));
  return {
    right: Math.max(...boxes.map((box) => box.right - frame.left)) / scale,
    bottom: Math.max(...boxes.map((box) => box.bottom - frame.top)) / scale,
    size: Math.min(
      ...[...set, document.querySelector(".slide-number")].map((e) => parseFloat(getComputedStyle(e).fontSize)),
      ...[...inside.querySelectorAll("img[src^='data:']")].map(drawn),
    ),
    text: inside.textContent,
    notes: section.querySelector("aside.notes")?.getClientRects().length ?? 0,
    twice: section.querySelectorAll("aside.notes mjx-assistive-mml").length,
    cut: [...section.querySelectorAll("aside.notes pre")].filter((e) => e.style.whiteSpace !== "pre-wrap").length,
    arrows: document.querySelector(".reveal .controls")?.getClientRects().length ?? 0,
  };
});
}"""


@needs_chromium
def test_in_a_browser_everything_is_on_its_slide_and_can_be_read_from_the_last_row(decks):
    """Of LAYOUT, notes are notes that show, twice formulas, cut code that is cut off, in notes, arrows are over it."""
    problems = []
    with served(decks) as address, chromium() as browser:
        for stem in material.every():
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            faults = listen(page)
            show(page, f"{address}/{stem}.html")
            solutions = own_lines(material.read(stem)).values()
            for number, slide in enumerate(page.evaluate(LAYOUT), 1):
                seen = squeezed(slide.pop("text"))
                slide["solution"] = [line for line in solutions if line in seen]
                if slide["right"] > 1280 or slide["bottom"] > 720 or slide["size"] < SMALLEST:
                    problems.append((stem, number, "is too full or set too small", slide))
                if any(slide[fault] for fault in ("notes", "twice", "cut", "arrows", "solution")):
                    problems.append((stem, number, slide))
            problems += [(stem, fault) for fault in faults]
            page.close()
    assert not problems


@needs_chromium
def test_the_countdown_starts_and_stops_by_a_click(decks):
    with served(decks) as address, chromium() as browser:
        page = browser.new_page()
        page.clock.install()
        show(page, f"{address}/06_batchnorm.html")
        at = page.evaluate("[...document.querySelectorAll('.slides section')].findIndex(s => s.matches('.exercise'))")
        page.evaluate(f"Reveal.slide({at})")
        button = page.locator(".timer").first
        assert button.inner_text() == "5 min"  # 3 on its card, 5 in a class
        page.clock.run_for(5000)
        assert button.inner_text() == "5 min"  # it waits for the click
        button.click()
        page.clock.run_for(61_000)
        assert button.inner_text() == "3:59"
        page.clock.run_for(300_000)
        assert button.inner_text() == "time"
        button.click()
        assert button.inner_text() == "5 min"


@needs_chromium
def test_a_pdf_has_a_page_for_each_slide(decks, tmp_path):
    (written,) = pdf.print_pages([decks / "02_statistics.html"])
    pages = len(re.findall(rb"/Type\s*/Page\b", written.read_bytes()))
    assert pages == (decks / "02_statistics.html").read_text(encoding="utf-8").count("<section")

"""The decks: which slides a lesson gives, and that in a browser everything is on its slide, in time and offline."""

import base64
import html
import re

import pytest

from lessonkit.course import Code, Exercise, Question, Text
from teaching import material
from teaching.material import Explorable, Figure
from teaching.slides import deck, pdf, render
from teaching.slides.__main__ import build, main
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed, toy_lesson

SMALLEST = 0.55  # of 30 pixels, on a slide of 1280 x 720
SMALLEST_CODE = 14  # pixels


def toy(*items):
    """Return the slides of a lesson that consists of a first section and these items, without title and goals."""
    first = Text(
        "# 6 · Toy: a lesson\n\nIt breaks.\n\n**You'll be able to**\n- do it.\n\n## 6.1 First\n\nWhat is it about?"
    )
    return deck.slides(toy_lesson(first, *items))[2:]


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
    assert set(counts) == set(material.stems()) and all(20 <= count <= 60 for count in counts.values()), counts
    return folder


def test_a_prediction_is_asked_and_then_answered_by_what_happens():
    asked, outcome, drawn = toy(
        PREDICT, Code("c1", "show(2)", ["2\n"], False), Code("c2", "draw()", [FIGURE], True), Text("Two, then.")
    )
    assert (asked.kind, outcome.kind, drawn.kind) == ("predict", "outcome", "figure")
    assert "What is it about?" in asked.body and "How many?" in asked.body and "two" in asked.body
    assert "Count them." not in asked.body and "Count them." in asked.notes
    assert "show" in outcome.body and "Count them." in outcome.after and "Count them." not in drawn.after
    assert drawn.picture is FIGURE and "Two bars." in drawn.after and "Two, then." in drawn.notes


def test_a_prediction_that_nothing_answers_gets_a_slide_with_its_answer():
    second = Text("## 6.2 Second\n\nMore.")
    for between in ([], [second], [Code("c1", "f()", [], True)]):
        asked, answered, *_, last = toy(PREDICT, *between, Exercise("6.1", 2, 5, "x = ...", "x = 1"), FIRST)
        assert asked.kind == "predict" and answered.kind == "outcome predict" and "Count them." in answered.body
        assert "Count them." not in last.after


def test_a_question_shows_what_it_is_about():
    """The code or the figure right above it, the numbers that the cell below begins with, and no answer."""
    above = Code("c1", "patient()", ["3 rows\n"], False)
    numbers = Code("c2", "x = torch.tensor([7, 8])\ny = torch.cat([x, -x])\nlen(y)", ["answered\n"], False)
    asked, outcome = toy(above, Question("Predict", "6.1", "how many has `x`?", OPTIONS), numbers)
    assert all(word in _words(asked.body) for word in ("What is it about?", "patient()", "3 rows", "[7, 8]"))
    assert "cat" not in asked.body and "answered" not in asked.body and "answered" in outcome.body
    assert "[7, 8]" not in _words(toy(PREDICT, numbers)[0].body)
    drawn, asked, answered, shown = toy(Code("c3", "draw()", [FIGURE], True), PREDICT, numbers)
    assert drawn.picture is asked.picture is answered.picture is FIGURE
    assert "Count them." not in asked.body + asked.after and "Count them." in answered.body
    assert "answered" in shown.body and "Count them." not in shown.after
    lines = Code("c4", "written_out()", ["one = two\n" * 16], False)
    listed, asked, _ = toy(lines, PREDICT)
    assert listed.kind == "outcome" and asked.kind == "predict beside" and asked.body.count("one = two") == 16
    table = Text("Two rows:\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    (asked, _) = toy(table, PREDICT)
    assert "<td>2</td>" in asked.body and "Two rows:" in asked.body
    assert [slide.kind for slide in toy(table)] == ["table"]


def test_what_a_cell_prints_is_shown_with_what_leads_to_it_and_what_is_read_from_it():
    leads, reads = Text("It has two rows:"), Text("So it has.\n\nNow for another thing:")
    (shown,) = toy(leads, FIRST, reads)
    assert "two rows:" in shown.body and "So it has." in shown.after and "another" not in shown.body + shown.after
    (folded,) = toy(leads, Code("c1", "print(1)", ["one\n"], True))
    assert "print" not in folded.body and "one" in folded.body
    (thinks,) = toy(Text("How many?"), FIRST)
    assert re.search("How many.*<div class='fragment'>.*>1\n", thinks.body, re.DOTALL)


def test_nothing_is_shown_twice_in_a_row():
    more = Code("c1", "print(2)", ["1\ntwo\n"], False)
    (shown,) = toy(Text("It has:"), FIRST, more)
    assert "It has:" in shown.body and "print(2)" in _words(shown.body)
    formula = Text("It is a product:\n\n$$a = b$$\n\nand no sum.")
    assert [slide.kind for slide in toy(formula, PREDICT)] == ["predict", "outcome predict"]
    alone, outcome = toy(formula, FIRST)
    assert alone.kind == "formula" and "product" in alone.body and "a = b" not in outcome.body


def test_what_is_long_above_a_question_gets_a_slide_before_it():
    before, asked, _ = toy(Text("First. " * 120 + "\n\nLast."), PREDICT)
    assert before.kind == "text" and "First." in before.body and "First." not in asked.body and "Last." in asked.body


def test_each_section_has_a_slide_and_ends_in_its_last_notes():
    made = toy(FIRST, Text("Read.\n\nSo it is.\n\n## 6.2 Second\n\nOnly words."), Text("## 6.3 Third\n\nMore words."))
    assert [slide.section for slide in made] == ["6.1 First", "6.2 Second", "6.3 Third"]
    assert "So it is." in made[0].notes and "Only words." in made[1].body and "More words." in made[2].body


def test_an_explorable_is_a_frame_beside_what_there_is_to_find_out():
    task = Text(
        "**Find out:** how far?\n\n<details><summary>What there is to find</summary>\n\nTo two.\n\n</details>\n\nMore."
    )
    frame, *_ = toy(Code("c1", "explore.row((7, 8, 9))", [Explorable("row", {"x": [7, 8, 9]})]), task)
    assert frame.kind == "play beside" and "how far?" in frame.body and "What is it about?" in frame.body
    assert "A row of 3 numbers" in frame.body and "To two." in frame.notes and "To two." not in frame.body
    svg = base64.b64decode(re.search('base64,([^"]+)', frame.body)[1]).decode()
    assert ">μ 8.00<" in svg


def test_a_record_names_its_day_and_machine_in_the_notes_only():
    caption = "Four runs; recorded on 2026-11-22 (4 seeds, two splits, Intel(R) Xeon(R), torch 2.13.0+cpu). Dots."
    (drawn,) = toy(Code("c1", "draw()", [Figure(b"png", "Bars.", caption, 700)], True))
    assert "Four runs; recorded (4 seeds, two splits). Dots." in drawn.after and "Xeon" not in drawn.after
    assert "Xeon" in drawn.notes


def test_an_exercise_shows_no_solution_and_no_hint():
    (slide,) = toy(Exercise("6.1", 2, 5, "def f():\n    ...  # your answer", "def f():\n    return 42", "Count."))
    assert "What is it about?" in slide.body
    assert 'data-minutes="5"' in slide.body and "●●○○○" in slide.body
    assert "42" not in slide.body and "Count." not in slide.body
    assert "42" in slide.notes and "Count." in slide.notes


def test_a_long_task_is_whole_on_two_slides_and_its_notes_hold_only_what_the_learner_writes():
    lines = [f"line_{k}()" for k in range(40)]
    lines[18] = ""
    *_, first, second = toy(Exercise("6.1", 2, 5, "\n".join(lines), "\n".join([*lines, "    own()"])))
    assert "(1 of 2)" in first.body and "(2 of 2)" in second.body
    assert re.findall(r"line_\d+", _words(first.body) + _words(second.body)) == [
        f"line_{k}" for k in range(40) if k != 18
    ]
    assert "line_17" in _words(first.body) and "line_19" in _words(second.body)
    assert "Solution:own()" in _words(first.notes) and "line_" not in first.notes


def _words(body):
    """Return what is read of HTML."""
    return html.unescape(re.sub("<[^>]*>", "", body))


def test_no_text_breaks_off_and_each_section_has_its_slide():
    """In no deck does a text end in a colon with nothing below it, or with the question that it does not lead to."""
    for stem in material.stems():
        lesson = material.read(stem)
        made = deck.slides(lesson)
        for number, slide in enumerate(made, 1):
            ends = [_words(slide.body + slide.after)] if not slide.picture or slide.after else []
            ends += [
                _words(part)
                for part in re.findall(r"<div class='context'>(.*?)</div><div class='question'>", slide.body, re.DOTALL)
            ]
            ends += [
                _words(part)
                for part in re.findall(
                    r"<div class='(?:reading|answer)'>(.*?)</div>", slide.body + slide.after, re.DOTALL
                )
            ]
            assert not [text for text in ends if text.rstrip().endswith(":")], f"{stem}, slide {number}: {ends}"
        sections = [one.heading for one in lesson.sections if one.key[0].isdigit() and not one.optional]
        assert sections and set(sections) <= {slide.section for slide in made}, stem


def test_the_tags_correct_the_choice():
    silent, shown = Code("c1", "f()", [], True), Code("c2", "g()", [], True, ["slide"])
    assert [slide.kind for slide in toy(silent, shown)] == ["patient"]
    draws = Code("c3", "draw()", [FIGURE], True, ["no-slide"])
    assert [slide.kind for slide in toy(draws)] == ["text"] and [slide.kind for slide in toy(FIRST)] == ["outcome"]
    assert "A word." in toy(FIRST, Text("A word.", ["slide"]))[-1].body
    deeper = Text("## Deeper (optional, 9 min)")
    assert len(toy(FIRST, deeper, Code("c4", "draw()", [FIGURE], True))) == 1
    assert len(toy(FIRST, deeper, Code("c5", "draw()", [FIGURE], True, ["slide"]))) == 2


def test_formulas_are_found_by_the_parser_and_hints_are_dropped():
    text = "One sentence.\n\n$$a = b$$\n\nThe text $x$ and\n$$c$$ in it.\n\n"
    text += "<details><summary>Hint</summary>\n\n$$d$$\n\n</details>"
    first, second = render.formulas(text)
    assert first == "One sentence.\n\n$$\na = b\n$$" and "$$c$$" in second
    (joined,) = render.formulas("So:\n\n$$a$$\n\n$$b$$")
    assert joined == "So:\n\n$$\na\n$$\n\n$$\nb\n$$"
    (broken,) = render.formulas(f"$$a = {'x + ' * 40} 1 \\qquad b = 2$$")
    assert broken.count("$$") == 4 and "qquad" not in broken
    assert "Hint" not in render.markdown(text)
    linked = render.markdown("[lesson 4](04_x.ipynb) and $a_b$")
    assert linked.startswith("<p>lesson 4 and ") and "\\(a_b\\)" in linked and "href" not in linked


def test_a_question_is_shown_with_what_it_needs_to_be_understood():
    text = Text("## 6.2 Second\n\nFirst.\n\nIt is a product:\n\n$$a = b$$\n\nwhere $b$ is known.\n\nRun this cell.")
    (asked,) = [slide for slide in toy(text, PREDICT) if slide.kind == "predict"]
    assert "It is a product" in asked.body and "a = b" in asked.body and "known" in asked.body
    assert "First." not in asked.body and "cell" not in asked.body


def test_the_opening_shows_what_breaks():
    patient, runs = Code("c1", "def patient():\n    pass", [], False), Code("c2", "patient()", ["nan\n"], True)
    first = Text("# 6 · Toy\n\nIt breaks.")
    made = deck.slides(toy_lesson(first, Code("c0", "import os\nload()", ["ready\n"], True), patient, runs))
    assert [slide.kind for slide in made] == ["title", "patient"]
    assert "It breaks." in made[1].body and "nan" in made[1].after and "ready" not in made[1].after
    asks = Question("Predict", "6.1", "which line is wrong?", OPTIONS)
    made = deck.slides(toy_lesson(first, patient, Text("## 6.1 Clinic\n\nBack."), asks))
    assert "patient" in made[2].body and "nan" not in made[2].body  # the code again, where it is asked about


def test_a_clinic_and_a_question_show_the_code_they_are_about():
    patient = Code("c1", "class Patient:\n    pass", [], False)
    assert [slide.kind for slide in toy(patient)] == ["text"]
    assert [slide.kind for slide in toy(patient, Text("What then?"), PREDICT)] == [
        "patient",
        "predict",
        "outcome predict",
    ]
    assert [slide.kind for slide in toy(FIRST, Text("## 6.8 Clinic: it was fine"), patient)] == ["outcome", "patient"]


def test_take_away_is_the_last_slide_with_its_formulas():
    _, *made = toy(
        FIRST, Text("## Take-away\n\n- One.\n- Two.\n\nFormula card:\n\n$$a = b$$"), Text("## On your own\n\n$$c$$")
    )
    assert [slide.kind for slide in made] == ["take", "formula"] and "One." in made[0].body


def test_a_deck_loads_only_what_lies_beside_it(decks):
    for path in decks.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img)[^>]*?(?:src|href)="(?!data:)([^"]+)"', text)
        assert loaded and all((decks / name).is_file() for name in loaded), path.name
        assert "<a " not in text


def test_an_unknown_lesson_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["99"])
    assert "there is no lesson 99. There are 01, 02" in capsys.readouterr().err


def test_without_a_chromium_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr(pdf, "browser_path", lambda: None)
    with pytest.raises(FileNotFoundError, match=r"open the deck in your browser with \?print-pdf"):
        pdf.print_decks([])


LAYOUT = """() => [...document.querySelectorAll(".slides section")].map((section, k) => {
  Reveal.slide(k);
  const frame = section.getBoundingClientRect(), scale = Reveal.getScale(), inside = section.querySelector(".fit");
  const all = [...inside.querySelectorAll("*")].filter((e) => !e.closest("mjx-assistive-mml"));
  const boxes = all.filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect());
  return {
    right: Math.max(...boxes.map((box) => box.right - frame.left)) / scale,
    bottom: Math.max(...boxes.map((box) => box.bottom - frame.top)) / scale,
    size: parseFloat(inside.style.fontSize || 1),
    text: inside.textContent,
    code: [...inside.querySelectorAll("pre.code")].map((block) => parseFloat(getComputedStyle(block).fontSize)),
    output: [...inside.querySelectorAll("pre.output")].map((block) => parseFloat(getComputedStyle(block).fontSize)),
    notes: section.querySelector("aside.notes")?.getClientRects().length ?? 0,
    twice: section.querySelectorAll("aside.notes mjx-assistive-mml").length,
    cut: [...section.querySelectorAll("aside.notes pre")].filter((e) => e.style.whiteSpace !== "pre-wrap").length,
    arrows: document.querySelector(".reveal .controls")?.getClientRects().length ?? 0,
  };
})"""


@needs_chromium
def test_in_a_browser_everything_is_on_its_slide_and_nothing_before_its_time(decks):
    problems = []
    with served(decks) as address, chromium() as browser:
        for stem in material.stems():
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            faults = listen(page)
            page.goto(f"{address}/{stem}.html")
            page.wait_for_function("document.body.dataset.ready === 'yes'", timeout=180_000)
            solutions = own_lines(material.read(stem)).values()
            for number, slide in enumerate(page.evaluate(LAYOUT), 1):
                where = f"{stem}, slide {number}"
                if slide["right"] > 1280 or slide["bottom"] > 720:
                    problems.append(f"{where} is too full: {slide['right']:.0f} x {slide['bottom']:.0f}")
                if slide["size"] < SMALLEST:
                    problems.append(f"{where} is set too small: {slide['size']:.2f}")
                if min(slide["code"] + slide["output"], default=30) < SMALLEST_CODE:
                    problems.append(f"{where} has small code: {slide['code']}, {slide['output']}")
                if slide["bottom"] < 500 and min(slide["code"], default=30) < 20:
                    problems.append(f"{where} has small code and room below it: {slide['code']}")
                if slide["notes"]:
                    problems.append(f"{where} shows its notes")
                if slide["twice"] or slide["cut"]:
                    problems.append(f"{where} has notes with a formula twice or with code that is cut off")
                if slide["arrows"]:
                    problems.append(f"{where} has arrows over it")
                seen = squeezed(slide["text"])
                problems += [f"{where} shows a solution: {line}" for line in solutions if line in seen]
            problems += [f"{stem}: {fault}" for fault in faults]
            page.close()
    assert not problems


@needs_chromium
def test_the_countdown_starts_and_stops_by_a_click(decks):
    with served(decks) as address, chromium() as browser:
        page = browser.new_page()
        page.clock.install()
        page.goto(f"{address}/06_batchnorm.html")
        page.wait_for_function("document.body.dataset.ready === 'yes'", timeout=180_000)
        at = page.evaluate("[...document.querySelectorAll('.slides section')].findIndex(s => s.matches('.exercise'))")
        page.evaluate(f"Reveal.slide({at})")
        button = page.locator(".timer").first
        assert button.inner_text() == "3 min"
        page.clock.run_for(5000)
        assert button.inner_text() == "3 min"  # it waits for the click
        button.click()
        page.clock.run_for(61_000)
        assert button.inner_text() == "1:59"
        page.clock.run_for(180_000)
        assert button.inner_text() == "time"
        button.click()
        assert button.inner_text() == "3 min"


@needs_chromium
def test_a_pdf_has_a_page_for_each_slide(decks, tmp_path):
    (written,) = pdf.print_decks([decks / "02_statistics.html"])
    pages = len(re.findall(rb"/Type\s*/Page\b", written.read_bytes()))
    assert pages == (decks / "02_statistics.html").read_text(encoding="utf-8").count("<section")

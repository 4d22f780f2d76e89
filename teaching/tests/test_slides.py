"""The decks: which slides a lesson gives, and that in a browser everything is on its slide, in time and offline."""

import re

import pytest

from teaching import material
from teaching.material import Code, Exercise, Figure, Lesson, Question, Text
from teaching.slides import deck, pdf, render
from teaching.slides.__main__ import build, main
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed

SMALLEST = 0.55  # of 30 pixels, on a slide of 1280 x 720


def toy(*items):
    """Return the slides of a lesson that consists of a first section and these items, without title and goals."""
    first = Text(
        "# 6 · Toy: a lesson\n\nIt breaks.\n\n**You'll be able to**\n- do it.\n\n## 6.1 First\n\nWhat is it about?"
    )
    return deck.slides(Lesson("06_toy", "Toy: a lesson", "", [first, *items]))[2:]


OPTIONS = [
    {"text": "one", "reason": "Too few.", "right": False},
    {"text": "two", "reason": "Count them.", "right": True},
]
PREDICT = Question("Predict", "6.1", "how many?", OPTIONS)
FIGURE = Figure(b"png", "Bars.", "Two bars.", 700)


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
    asked, answered, _ = toy(PREDICT, Text("## 6.2 Second\n\nMore."), Exercise("6.1", 2, 5, "x = ...", "x = 1"))[:3]
    assert asked.kind == "predict" and answered.kind == "outcome predict" and "Count them." in answered.body


def test_an_exercise_shows_no_solution_and_no_hint():
    text, slide = toy(Exercise("6.1", 2, 5, "def f():\n    ...  # your answer", "def f():\n    return 42", "Count."))
    assert "What is it about?" in text.body
    assert 'data-minutes="5"' in slide.body and "●●○○○" in slide.body
    assert "42" not in slide.body and "Count." not in slide.body
    assert "42" in slide.notes and "Count." in slide.notes
    long = toy(Exercise("6.1", 2, 5, "\n".join(f"line_{k}" for k in range(40)), "x"))[-1]
    assert "the rest is in the notebook" in long.body and "line_39" not in long.body


def test_the_tags_correct_the_choice():
    silent, shown = Code("c1", "print(1)", ["1\n"], False), Code("c2", "print(2)", ["2\n"], False, ["slide"])
    assert [slide.kind for slide in toy(silent, shown)] == ["outcome"]
    assert toy(Code("c3", "draw()", [FIGURE], True, ["no-slide"])) == []
    assert [slide.kind for slide in toy(Text("A word.", ["slide"]))] == ["text"]
    deeper = Text("## Deeper (optional, 9 min)")
    assert toy(deeper, Code("c4", "draw()", [FIGURE], True)) == []
    assert len(toy(deeper, Code("c5", "draw()", [FIGURE], True, ["slide"]))) == 1


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
    made = deck.slides(Lesson("06_toy", "Toy", "", [first, Code("c0", "load()", ["ready\n"], True), patient, runs]))
    assert [slide.kind for slide in made] == ["title", "patient"]
    assert "It breaks." in made[1].body and "nan" in made[1].after and "ready" not in made[1].after


def test_a_clinic_and_a_question_show_the_code_they_are_about():
    patient = Code("c1", "class Patient:\n    pass", [], False)
    assert toy(patient) == []
    assert [slide.kind for slide in toy(patient, Text("What then?"), PREDICT)] == [
        "patient",
        "predict",
        "outcome predict",
    ]
    assert [slide.kind for slide in toy(Text("## 6.8 Clinic: it was fine"), patient)] == ["patient"]


def test_take_away_is_the_last_slide_with_its_formulas():
    made = toy(Text("## Take-away\n\n- One.\n- Two.\n\nFormula card:\n\n$$a = b$$"), Text("## On your own\n\n$$c$$"))
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
    text: inside.innerText,
    notes: section.querySelector("aside.notes")?.getClientRects().length ?? 0,
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
                if slide["notes"]:
                    problems.append(f"{where} shows its notes")
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

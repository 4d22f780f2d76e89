"""The decks: which slides a lesson gives, and that in a browser everything is on its slide, in time and offline."""

import html
import re
from pathlib import Path

import pytest

from lessonkit.course import Code, Exercise, Question, Text
from teaching import material
from teaching.material import Explorable, Figure
from teaching.slides import deck, pdf
from teaching.slides.__main__ import build
from teaching.slides.pdf import show
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed, toy_lesson

EXPECTED = Path(__file__).with_name("toy_deck.txt")
LAYOUT = Path(__file__).with_name("layout.js")


def text(number):
    """Return a Text that begins a section of the toy lesson."""
    return Text(f"## 6.{number} Section {number}\n\nA word.")


def printed(source, out="1\n", folded=False, tags=()):
    return Code(source, source, [out] if out else [], folded, list(tags))


OPTIONS = [{"text": "one", "reason": "Too few.", "right": False}, {"text": "two", "reason": "Right.", "right": True}]
PREDICT, RECALL = (Question(kind, "6.1", f"a {kind}?", OPTIONS) for kind in ("Predict", "Recall"))
FIGURE = Figure(b"png", "Bars.", "Two bars.", 700)
FOLD = "<details><summary>When this holds</summary>\n\nNearly always.\n\n</details>"
FUNCTION = 'def f(x):\n    """Count.\n\n    Example: f(2) is\n    3.\n    x: a number.\n    """\n    ...  # your answer'
ON_PAPER = """# The mean of 1, 3?
# Copy this line and replace the dots:
# m = dict(
#     mean=...)
# mean   in two
#        words
# Example: of 2
# and 4, 3.
...  # your answer"""

TOY = [
    Text("# 6 · Toy: a lesson\n\nIt breaks.\n\n**You'll be able to**\n- do it."),
    printed("import os\nload()", "ready\n"),  # prepares only
    text(1),  # a prediction is answered after what happens
    PREDICT,
    printed("show(2)"),
    Code("c2", "draw()", [FIGURE], True),
    Text("Two, then."),
    text(2),  # a question that nothing answers is answered before the next thing: an exercise, a rule, a section
    PREDICT,
    Exercise("6.1", 2, 5, FUNCTION, FUNCTION.replace("...  # your answer", "return 42"), "Add."),
    PREDICT,
    Text("**So two.**"),
    RECALL,
    text(3),  # code that a question is about is shown, and other silent code is said
    printed("class Patient:\n    pass", ""),
    Text("A class."),
    PREDICT,
    printed("print(1)"),
    text(4),  # what has a slide of its own, and the words around it
    Text(f"First.\n\n**Shared.**\n\n{FOLD}\n\nA product:\n\n$$a = b$$\n\n**Card**\n\n- One.\n\nLast."),
    text(6),
    Code("c5", "explore.row()", [Explorable("row", {"x": [3, 1]})]),
    Text("**Find out:** why?\n\n<details><summary>What there is to find</summary>\n\nTo two.\n\n</details>"),
    Exercise("6.2", 1, 3, ON_PAPER, "m = 2"),
    text(7),  # tags correct the choice
    printed("g()", "", tags=["slide"]),
    Code("c7", "draw()", [FIGURE], True, ["no-slide"]),
    Text("Shown.", ["slide"]),
    Exercise("6.3", 1, 3, ON_PAPER, "m = 2", tags=["optional"]),
]  # fmt: skip


def words(body):
    """Return what is read of HTML, a line of a list, a paragraph or a row of code each."""
    lines = html.unescape(re.sub("<[^>]*>", "", re.sub("</(?:li|p|h1|h2|td|div|pre)>", "\n", body))).splitlines()
    return "".join(f"  {line.rstrip()}\n" for line in lines if line.strip())


def test_a_toy_lesson_has_the_slides_and_the_notes_that_it_had():
    """Where a rule changes, look at each difference, and write toy_deck.txt anew."""
    shown = []
    for slide in deck.slides(toy_lesson(*TOY)):
        picture = f"  [{getattr(slide.picture, 'alt', None) or slide.picture.name}]\n" if slide.picture else ""
        notes = f"says\n{words(slide.notes)}" if slide.notes else ""
        shown.append(
            f"{slide.section.key if slide.section else 'start'} {slide.kind}\n{picture}{words(slide.body)}{notes}"
        )
    assert "\n".join(shown) == EXPECTED.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    """The address of a folder with all decks of the course, {stem: number of slides}."""
    folder = tmp_path_factory.mktemp("slides")
    counts = build(folder, material.every())
    with served(folder) as address:
        yield address, {path.stem: count for path, count in counts.items()}


@needs_chromium
def test_in_a_browser_everything_is_on_its_slide_and_can_be_read_from_the_last_row(decks):
    address, counts = decks
    with chromium() as browser:
        for stem, count in counts.items():
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            faults = listen(page)
            show(page, f"{address}/{stem}.html")
            slides, wrong = page.evaluate(LAYOUT.read_text(encoding="utf-8"))
            assert (len(slides), wrong, faults) == (count, {}, []) and 20 <= count <= 55, stem
            seen = squeezed("".join(slides))
            assert [line for line in own_lines(material.read(stem)).values() if line in seen] == [], stem
            page.close()


@needs_chromium
def test_the_countdown_starts_and_stops_by_a_click(decks):
    with chromium() as browser:
        page = browser.new_page()
        page.clock.install()
        show(page, f"{decks[0]}/06_batchnorm.html")
        page.evaluate("Reveal.slide([...document.querySelectorAll('section')].findIndex(s => s.matches('.exercise')))")
        button, shown = page.locator(".timer").first, []
        for click, milliseconds in [(False, 5000), (True, 61_000), (False, 300_000), (True, 0)]:
            if click:
                button.click()
            page.clock.run_for(milliseconds)
            shown.append(button.inner_text())
        assert shown == ["5 min", "3:59", "time", "5 min"]  # 3 min on its card, 5 in a class


@needs_chromium
def test_a_pdf_has_a_page_for_each_slide(tmp_path):
    ((deck_, count),) = build(tmp_path, ["02_statistics"]).items()
    (written,) = pdf.print_pages([deck_])
    assert len(re.findall(rb"/Type\s*/Page\b", written.read_bytes())) == count

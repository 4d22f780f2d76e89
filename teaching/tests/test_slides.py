"""The decks: which slides a lesson gives, and that in a browser everything is on its slide, in time and offline."""

import re
from pathlib import Path

import pytest

from teaching import material
from teaching.slides import __main__ as program
from teaching.slides import deck, pdf
from teaching.slides.__main__ import build
from teaching.slides.pdf import show
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed

LAYOUT = Path(__file__).with_name("layout.js")
# On the slide in sight: which parts of an explorable lie on each other, and which names are wider than their column.
OVERLAPS = """() => {
  const inside = document.querySelector("section.present iframe").contentDocument;
  const [box, all] = [(e) => e.getBoundingClientRect(), (selector) => [...inside.querySelectorAll(selector)]];
  const meet = (a, b, [from, to]) => a[from] < b[to] - 1 && b[from] < a[to] - 1;
  const over = (a, b) => [["left", "right"], ["top", "bottom"]].every((ends) => meet(box(a), box(b), ends));
  const parts = all(".whole > *, .ln > .say, .ln > .controls");
  const pairs = [...parts, ...all("svg text")].flatMap((a) => parts.map((b) => [a, b]));
  const apart = ([a, b]) => a !== b && !b.contains(a) && over(a, b);
  const wide = all("tr > :first-child").filter((e) => e.scrollWidth > e.clientWidth);
  return [...pairs.filter(apart).flat(), ...wide].map((e) => e.getAttribute("class") ?? e.textContent);
}"""


@pytest.mark.parametrize("stem", material.every())
def test_a_question_is_answered_before_the_next_thing_is_asked_and_notes_hold_reasons_and_solutions(stem):
    waits, asked = None, []
    for slide in deck.slides(material.read(stem)):
        if slide.item:
            assert waits is None, f"{waits.name} is not answered when {slide.item.name} comes"
            asked.append(slide.item.name)
        if slide.kind in ("predict", "recall"):
            waits = slide.item
            assert slide.notes.count("<p><b>") >= len(waits.options)
        elif slide.kind == "answer":
            assert waits.name in slide.body
            waits = None
        elif slide.kind == "exercise":
            assert 'class="code"' in slide.notes and 'class="timer"' in slide.body
    assert waits is None and len(set(asked)) == len(asked) > 1


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
            assert (len(slides), wrong, faults) == (count, {}, []) and 5 < count <= 55, stem
            seen = squeezed("".join(slides))
            assert [line for line in own_lines(material.read(stem)).values() if line in seen] == [], stem
            page.close()


@needs_chromium
def test_no_part_of_an_explorable_lies_on_another_also_in_a_deck_that_opens_there(decks):
    (address, counts), wrong = decks, {}
    with chromium() as browser:
        for stem in counts:
            slides = deck.slides(material.read(stem))
            for at in [number for number, slide in enumerate(slides) if slide.kind == "explorable"]:
                page = browser.new_page(viewport={"width": 1280, "height": 720})
                show(page, f"{address}/{stem}.html#/{at}")
                page.wait_for_selector("section.present iframe[data-fits]")
                page.wait_for_timeout(500)  # until it is drawn in this size
                if found := page.evaluate(OVERLAPS):
                    wrong[stem, at] = found
                page.close()
    assert not wrong


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
        assert shown == ["6 min", "4:59", "time", "6 min"]  # 3 min on its card, 6 in a class


@needs_chromium
def test_a_pdf_has_a_page_for_each_slide(tmp_path):
    ((deck_, count),) = build(tmp_path, ["02_statistics"]).items()
    (written,) = pdf.print_pages([deck_])
    assert len(re.findall(rb"/Type\s*/Page\b", written.read_bytes())) == count


@needs_chromium
def test_an_explorable_moves_on_its_slide_from_a_disk_and_keeps_keys_only_while_it_has_the_focus(tmp_path):
    ((deck_, _),) = build(tmp_path, ["02_statistics"]).items()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        show(page, deck_.as_uri())
        at = "Reveal.getIndices().h"
        number = page.evaluate(
            """() => { const all = [...document.querySelectorAll("section")];
               Reveal.slide(all.findIndex((e) => e.matches(".explorable"))); return Reveal.getIndices().h; }"""
        )
        page.wait_for_selector("section.present iframe[data-fits]")
        alive = page.frame_locator("section.present iframe").locator(".ln")
        before = alive.inner_text()
        x, y = page.evaluate(
            """() => { const frame = document.querySelector("section.present iframe");
               const at = frame.getBoundingClientRect(), share = at.width / frame.offsetWidth;
               const box = frame.contentDocument.querySelector(".grip").getBoundingClientRect();
               return [at.left + share * (box.left + box.width / 2), at.top + share * (box.top + box.height / 2)]; }"""
        )
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y + 60, steps=4)
        page.mouse.up()
        page.wait_for_timeout(300)
        assert alive.inner_text() != before
        slider = alive.locator("[type=range]").first
        for focused, key, leads_to in [
            (False, "ArrowRight", 1),  # a mouse leaves the keys to the deck
            (True, "ArrowRight", 0),
            (True, "Escape", 0),
            (False, "ArrowRight", 1),
            (True, "PageDown", 1),  # as a clicker sends it
        ]:
            if focused:
                page.evaluate("number => Reveal.slide(number)", number)
                slider.focus()
            page.keyboard.press(key)
            page.wait_for_timeout(100)
            assert page.evaluate(at) == number + leads_to, (focused, key)
        assert all(url.startswith(("file:", "data:", "about:")) for url in asked)
        show(page, f"{deck_.as_uri()}?print-pdf")
        shown = page.evaluate(
            "['img', 'iframe'].map((e) => document.querySelector(`.explorable ${e}`).getClientRects().length)"
        )
        assert shown == [1, 0]


def test_the_documented_commands_build_decks(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "OUT", tmp_path)
    assert program.main([]) == 0 and len(list(tmp_path.glob("*.html"))) == len(material.every())
    assert program.main(["06"]) == 0
    with pytest.raises(SystemExit):
        program.main(["66"])

"""The run sheets as pages to print: one page of A4 each, with its formulas set."""

import re

from lessonkit.course import lessons
from teaching.plan import sections
from teaching.plan.__main__ import main, write_sheets
from teaching.slides import pdf
from teaching.tests.browser import chromium, needs_chromium, show

A4 = rb"/MediaBox \[0 0 59\d\.?\d* 84\d\.?\d*\]"  # in points


@needs_chromium
def test_each_run_sheet_is_one_page_of_a4(tmp_path):
    assert main([str(tmp_path), "--pdf"]) == 0
    written = {path.stem: path.read_bytes() for path in tmp_path.glob("*.pdf")}
    assert set(written) == {sections.LESSON_0, *lessons()}
    pages = {
        stem: (len(re.findall(rb"/Type\s*/Page\b", text)), bool(re.search(A4, text))) for stem, text in written.items()
    }
    assert {stem: page for stem, page in pages.items() if page != (1, True)} == {}, "shorten words/NAME.md"


@needs_chromium
def test_a_sheet_has_its_formulas_set_and_cuts_nothing_off(tmp_path):
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 695, "height": 1040})  # what the margins leave of A4, 96 to the inch
        page.emulate_media(media="print")
        for path in write_sheets(tmp_path):
            show(page, path.as_uri())
            assert "\\(" not in page.inner_text("body") and page.locator("mjx-merror").count() == 0, path.name
            assert page.evaluate("document.documentElement.scrollWidth") <= 695, path.name


def test_without_a_chromium_the_sheets_are_there_to_be_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pdf, "browser_path", lambda: None)
    assert main([str(tmp_path), "--pdf"]) == 1
    assert "open the HTML in your browser" in capsys.readouterr().err
    assert len(list(tmp_path.glob("*.html"))) == len(lessons()) + 1

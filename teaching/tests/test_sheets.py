"""The run sheets as pages to print: one page of A4 each, with its formulas set and nothing cut off."""

import re

from teaching import material
from teaching.plan.__main__ import main
from teaching.slides import pdf
from teaching.tests.browser import chromium, needs_chromium, show

A4 = rb"/MediaBox \[0 0 59\d\.?\d* 84\d\.?\d*\]"  # in points


@needs_chromium
def test_each_run_sheet_is_one_page_of_a4_with_its_formulas_set(tmp_path):
    assert main([str(tmp_path), "--pdf"]) == 0
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 695, "height": 1040})  # what the margins leave of A4, 96 to the inch
        page.emulate_media(media="print")
        for stem in material.every():
            printed = (tmp_path / f"{stem}.pdf").read_bytes()
            assert re.search(A4, printed) and len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, (
                f"{stem}: shorten its words.md"
            )
            show(page, (tmp_path / f"{stem}.html").as_uri())
            assert "\\(" not in page.inner_text("body") and page.locator("mjx-merror").count() == 0, stem
            assert page.evaluate("document.documentElement.scrollWidth") <= 695, stem


def test_without_a_chromium_the_sheets_are_there_to_be_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pdf, "browser_path", lambda: None)
    assert main([str(tmp_path), "--pdf"]) == 1
    assert "open the HTML in your browser" in capsys.readouterr().err
    assert len(list(tmp_path.glob("*.html"))) == len(material.every())

"""The plans: every lesson has one, what they name is there, the minutes of a class add up, a run sheet is one page."""

import re

import pytest

from coursebuild import minutes
from teaching import material
from teaching.material import ROOMS, ROOT, in_class
from teaching.plan import notes, plans, sections
from teaching.plan.__main__ import main
from teaching.plan.sections import PlanError, core
from teaching.slides import pdf
from teaching.tests.browser import chromium, needs_chromium

STEMS = material.every()
of_each_lesson = pytest.mark.parametrize("stem", STEMS)
NUMBER = r"-?\d+(?:\.\d+)?"
ROW = re.compile(rf"{NUMBER}(?: {{1,4}}{NUMBER}){{2,}}(?![\d.])")


@of_each_lesson
def test_the_words_about_a_lesson_are_complete_and_quote_what_its_checks_say(stem):
    words, checks, where = notes.read(stem), ROOMS / stem / "checks.py", f"{stem}/words.md"
    lost = [kind for kind in ("card", "prepare", "close", "late", "early", "board") if not getattr(words, kind)]
    assert not lost and sections.START in words.open, f"{where} lacks {lost} or '## start' with 'Open: ...'"
    asked = [item.name for section in core(stem) for item in section.questions if item.kind == "Predict"]
    lost = [name for name in asked if not words.ask.get(name, [""])[0].startswith("Whoever ")]
    assert not lost, f"{where} does not say what one hears: add 'Ask {lost[0]}: Whoever says ...'. All: {lost}"
    quoted = [quote for expected in words.expect.values() for quote, _ in expected]
    said = checks.read_text(encoding="utf-8") if checks.exists() else ""
    lost = [quote for quote in quoted if quote not in said]
    assert not lost, f"{where} quotes what no check says (any more): {lost}"
    assert not said or 3 <= len(quoted) <= 12, f"{where} has {len(quoted)} lines of Expect, expected 3 to 12"


def numbers(text):
    """Return the numbers of a text as [float], whatever stands between them; ½ is one half."""
    plain = re.sub(r"(\d*)½", lambda half: f"{half[1] or 0}.5", text.replace("−", "-"))
    return [float(number) for number in re.findall(NUMBER, plain)]


def strange(board, text):
    """Return the rows of three numbers or more on a board that a text does not have, nor are the row above squared."""
    listed = lambda row: f", {str(row)[1:-1]}, "
    rows, shown = [numbers(row) for row in ROW.findall(board)], listed(numbers(text))
    squares = [[number**2 for number in row] for row in rows]
    return [row for row, above in zip(rows, [[], *squares], strict=False) if listed(row) not in shown and row != above]


@of_each_lesson
def test_rows_on_the_board_are_those_of_the_lesson(stem):
    """The board is written by hand: a lesson that changes its numbers must change its board."""
    board, lesson = notes.read(stem).board, material.read(stem)
    texts = lesson.texts
    texts += [text for cell in lesson.code for text in (cell.solved, getattr(cell, "text", ""))]
    texts += [item.markdown + "".join(option["reason"] for option in item.options) for item in lesson.questions]
    assert numbers(board) and strange(board, "\n".join(texts)) == []
    assert strange(board + "\n7.25 -7.25 7.25", "\n".join(texts)) == [[7.25, -7.25, 7.25]]
    assert len(board.splitlines()) <= 16 and max(map(len, board.splitlines())) <= 80
    marks = set(re.findall(r" {3}(\d+\.\d)$", board, re.MULTILINE))
    assert marks and marks <= set(sections.of(stem)), "no number of a section at the right"


@of_each_lesson
def test_minutes_are_the_model_s_slides_are_the_deck_s_and_a_class_needs_few_more(stem):
    parts, lesson = sections.of(stem).values(), sections.lesson(stem)
    for optional in (False, True):
        counted = sum(part.minutes for part in parts if part.optional == optional)
        assert counted == pytest.approx(minutes.total(lesson, optional))
    slides = sum((sections.slides(stem)[part.key] for part in core(stem)), [])
    assert slides == list(range(1, slides[-1] + 1)), "the slides of the steps do not follow each other"
    whole = sum(map(in_class, core(stem)))
    assert whole <= lesson.minutes + 6, f"{whole:.0f} min, and teaching/README.md says up to six minutes more"
    assert 1 <= len(plans.sticks(stem)) <= 3


BAD = {
    "Prepare nothing": "is not understood here. teaching/plan/README.md says",
    "Prepare: x\n## 6.77": "there is no section '6.77'. There are start, 6.1",
    'Prepare: x\n## 6.1\nExpect 6.99 "q": y': "section 6.1 has no Exercise 6.99. It has nothing to ask or do",
    "Prepare: x\n## Late\nDeeper: y Tell: z": "'Deeper' is no section that can be named under Late",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_do_not_fit_say_where_and_what_there_is(tmp_path, text):
    (tmp_path / "06_batchnorm").mkdir()
    (tmp_path / "06_batchnorm/words.md").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=r"06_batchnorm/words\.md.*" + re.escape(BAD[text])):
        notes.read("06_batchnorm", tmp_path)


def test_courses_have_their_sections_in_order_and_fit_their_time():
    for course in sections.courses():
        where = [(stem, list(sections.of(stem)).index(p.key)) for s in course.sessions for stem, p in s.parts]
        assert where == sorted(set(where)), "a section comes twice, or before an earlier one"
        for session in course.sessions:
            assert 0.7 * session.has <= session.minutes <= session.has, (session.name, session.minutes)


def test_all_plans_are_written_and_every_link_leads_somewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pdf, "browser_path", lambda: None)
    folder = tmp_path / "build/plan"
    assert main([str(folder), "--pdf"]) == 1 and "open the HTML in your browser" in capsys.readouterr().err
    assert len(list(folder.glob("*.html"))) == len(STEMS)
    assert len(list(folder.glob("*.md"))) == 1 + len(STEMS) + len(sections.courses())
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    for path in folder.glob("*.md"):
        for target in re.findall(r"\]\(([\w./]+\.(?:md|ipynb))", path.read_text(encoding="utf-8")):
            assert (folder / target).exists(), (path.name, target)


@needs_chromium
def test_each_run_sheet_is_one_page_of_a4_with_its_formulas_set(tmp_path):
    assert main([str(tmp_path), "--pdf"]) == 0
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 695, "height": 1040})  # what the margins leave of A4, 96 to the inch
        page.emulate_media(media="print")
        for stem in STEMS:
            printed = (tmp_path / f"{stem}.pdf").read_bytes()
            a4 = re.search(rb"/MediaBox \[0 0 59\d\.?\d* 84\d\.?\d*\]", printed)  # in points
            assert a4 and len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, f"{stem}: shorten its words.md"
            pdf.show(page, (tmp_path / f"{stem}.html").as_uri())
            assert "\\(" not in page.inner_text("body") and page.locator("mjx-merror").count() == 0, stem
            assert page.evaluate("document.documentElement.scrollWidth") <= 695, stem

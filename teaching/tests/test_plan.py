"""The plans: every lesson has one, what they name is there, and the minutes of a class add up."""

import re
from dataclasses import replace

import pytest

from coursebuild import minutes
from lessonkit.course import Exercise, Question, Section, Text
from teaching import material
from teaching.material import ROOMS, ROOT, in_class
from teaching.plan import courses, notes, plans, sections
from teaching.plan.__main__ import main
from teaching.plan.sections import PlanError, core
from teaching.slides import deck
from teaching.tests.browser import toy_lesson

STEMS = material.every()
of_each_lesson = pytest.mark.parametrize("stem", STEMS)


# ------------------------------------------------------------------------------------------------------------- words
@of_each_lesson
def test_the_words_about_a_lesson_are_complete_and_hold(stem):
    """A prediction says what one hears: who says which wrong thing. What a check says is what it says today."""
    words, checks, where = notes.read(stem), ROOMS / stem / "checks.py", f"{stem}/words.md"
    lost = [kind for kind in ("card", "prepare", "close", "late", "early", "board") if not getattr(words, kind)]
    assert not lost and sections.START in words.open, f"{where} lacks {lost} or '## start' with 'Open: ...'"
    asked = [item.name for section in core(stem) for item in section.questions if item.kind == "Predict"]
    lost = [name for name in asked if not words.ask.get(name, [""])[0].startswith("Whoever ")]
    assert not lost, f"{where} does not say what one hears: add 'Ask {lost[0]}: Whoever says ...'. All: {lost}"
    quoted = [quote for expected in words.expect.values() for quote, _ in expected]
    said = checks.read_text(encoding="utf-8") if checks.exists() else ""
    lost = [quote for quote in quoted if quote not in said]
    assert not lost, f"{where} quotes what no check of the lesson says (any more): {lost}"
    assert not said or 3 <= len(quoted) <= 12, f"{where} quotes {len(quoted)} messages of checks, expected 3 to 12"


COMMON = set(
    "about after again also another because been before both come comes does each else every from give gives goes "
    "have here into just less like look make makes many more most much next none nothing once only other over same "
    "side take takes than that their them then there these they this those thing through until very what when where "
    "which while with would".split()
)


def vocabulary(text):
    return set(re.findall(r"[^\W\d_]{4,}|\d[\d.,]*\d|\d", text.lower())) - COMMON


def answers(part, text):
    """Return {name of a question of a Section: the words of text that answer it}.

    Those are words of the right option and of the reasons, unless the question, a wrong option, or what the section
    says before the question has them.
    """
    told, answered = vocabulary(part.heading), {}
    for item in part.items:
        if isinstance(item, Text | Question):
            told |= vocabulary(item.text)
        if isinstance(item, Question):
            told |= vocabulary(" ".join(option["text"] for option in item.options if not option["right"]))
            right = [option["text"] for option in item.options if option["right"]]
            answer = vocabulary(" ".join([*right, *(option["reason"] for option in item.options)]))
            answered[item.name] = answer - told & vocabulary(text)
            told |= answer
    return {name: shared for name, shared in answered.items() if shared}


@of_each_lesson
def test_what_opens_a_section_answers_none_of_its_questions(stem):
    opens = notes.read(stem).open
    assert [answers(part, " ".join(opens.get(part.key, []))) for part in core(stem)] == [{}] * len(core(stem))


OPTIONS = [{"text": "two", "reason": "Count.", "right": True}, {"text": "one", "reason": "Once.", "right": False}]
ASKS = Section(
    "6.1 Rows", 2, items=[Question("Predict", "6.1", "how many?", OPTIONS), Exercise("6.1", 2, 5, "x = ...", "x = 2")]
)


def test_words_that_give_an_answer_away_are_found():
    right = [{"text": "a thousand", "reason": "Count.", "right": True}]
    assert answers(replace(ASKS, items=[Question("Predict", "6.1", "How many?", right)]), "A thousand rows.")


BAD = {
    "Prepare nothing": "is not understood here. Write it as 'Prepare: ...'",
    "Prepare: x\n## 6.77": "there is no section '6.77'. There are start, 6.1",
    "Prepare: x\n## 6.1\nSay: something": "is not understood here. Write it as 'Open: ...' or 'Close: ...'",
    "Prepare: x\n## 6.1\nAsk Predict 6.2: y": "section 6.1 has no Predict 6.2. It has Predict 6.1, Exercise 6.1",
    'Card: x\n## 6.1\nExpect 6.1 "q": y': "is not understood here. Write it as 'Card \"Build it\": ...'",
    'Prepare: x\n## 6.1\nExpect 6.2 "q": y': "section 6.1 has no Exercise 6.2. It has Predict 6.1, Exercise 6.1",
    "Prepare: x\n## Late\n6.1: y": "is not understood here. Write it as '6.7: why. Tell: ...'",
    "Prepare: x\n## Late\n6.77: y Tell: z": "'6.77' is no section that can be named under Late",
    "Prepare: x\n## Late\nMore: y Tell: z": "'More' is no section that can be named under Late",
    None: "is missing: every lesson has a plan",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_do_not_fit_say_where_and_what_there_is(tmp_path, monkeypatch, text):
    there = [Section("6 · Toy", 1), ASKS, Section("More (optional, 9 min)", 2, True)]
    monkeypatch.setattr(sections, "of", lambda stem: {section.key: section for section in there})
    if text:
        (tmp_path / "06_toy").mkdir()
        (tmp_path / "06_toy/words.md").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=re.escape(BAD[text])) as error:
        notes.read("06_toy", tmp_path)
    assert str(error.value).startswith("06_toy/words.md")


# ------------------------------------------------------------------------------------------------ slides and the board
NUMBER = r"-?\d+(?:\.\d+)?"
ROW = re.compile(rf"{NUMBER}(?: {{1,4}}{NUMBER}){{2,}}(?![\d.])")


def numbers(text):
    """Return the numbers of a text as [float], whatever stands between them; ½ is one half."""
    plain = re.sub(r"(\d*)½", lambda half: f"{half[1] or 0}.5", text.replace("−", "-"))
    return [float(number) for number in re.findall(NUMBER, plain)]


def strange(board, text):
    """Return the rows of three numbers or more on a board that the text of a lesson does not have.

    The squares of the row above need not be there.
    """
    listed = lambda row: f", {str(row)[1:-1]}, "
    shown, above, rows = listed(numbers(text)), [], []
    for row in map(numbers, ROW.findall(board)):
        if listed(row) not in shown and row != [number**2 for number in above]:
            rows.append(row)
        above = row
    return rows


@of_each_lesson
def test_rows_on_the_board_are_those_of_the_lesson(stem):
    """The board is written by hand: a lesson that changes its numbers must change its board."""
    board, cells = notes.read(stem).board, material.stored(stem)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = ["".join(cell["source"]) for cell in cells]
    texts += ["".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs]
    texts += [option["reason"] for item in sections.lesson(stem).questions for option in item.options]
    assert numbers(board) and strange(board, "\n".join(texts)) == []
    assert len(board.splitlines()) <= 16 and max(map(len, board.splitlines())) <= 80
    marks = set(re.findall(r" {3}(\d+\.\d)$", board, re.MULTILINE))
    assert marks and marks <= set(sections.of(stem)), "no number of a section at the right"


def test_a_row_that_the_lesson_does_not_have_is_found():
    assert strange("x  4 0 3\nc  1 -3 0\nsquared 1 9 0", "The row (4, 0, 3), and 1, −3, 0.") == []
    assert strange("x  4 0 3\nc  2 -3 0", "The row (4, 0, 3), and 1, −3, 0.") == [[2, -3, 0]]


# ----------------------------------------------------------------------------------------------------------- minutes
@of_each_lesson
def test_minutes_are_the_model_s_slides_are_the_deck_s_and_a_class_needs_few_more(stem):
    parts, lesson = sections.of(stem).values(), sections.lesson(stem)
    for optional in (False, True):
        whole = minutes.total(lesson, optional)
        assert sum(part.minutes for part in parts if part.optional == optional) == pytest.approx(whole)
    assert [item.name for part in parts for item in sections.named(part.items)] == lesson.names, "not in order"
    slides = [sections.slides(stem)[part.key] for part in core(stem)]
    assert sum(slides, []) == list(range(1, slides[-1][-1] + 1)), "the slides of the steps do not follow each other"
    assert all(len(sections.slides(stem)[item.name]) == 1 for part in core(stem) for item in sections.named(part.items))
    whole = sum(map(in_class, core(stem)))
    assert whole <= lesson.minutes + 8, f"{whole:.0f} min, and teaching/README.md says a few minutes more"


def test_a_class_takes_longer_than_a_reader_by_its_questions_and_by_what_it_tries():
    assert in_class(replace(ASKS, minutes=9.0)) == 9.5 and in_class(ASKS.exercises[0]) == 8.5
    assert in_class(Section("6.2", 2, minutes=3.0, items=[Text("**Find out:** why?")])) == 5


def test_an_optional_exercise_in_the_core_is_counted_once_and_planned_beside_it(monkeypatch):
    """Also by the model, whose minutes the sections add up to, and by the slides, which leave it out."""
    lesson = toy_lesson(Text("# 6 · Toy"), Text("## 6.1 Rows\n\nSome."), *ASKS.items)
    extra = Exercise("6.2", 2, 10, "def f(x):\n    ...", "", tags=["exercise", "optional"], optional=True)
    lesson.sections[-1].items.append(extra)
    lesson.sections[-1].minutes, lesson.sections[-1].aside = 9.5, 17.0  # by coursebuild's model
    monkeypatch.setattr(material, "read", lambda stem: lesson)
    monkeypatch.setattr(sections, "lesson", lambda stem: lesson)
    monkeypatch.setattr(notes, "read", lambda stem: notes.Words(early={"Exercise 6.2": "More."}))
    sheet, there = plans.sheet("06_toy"), sections.of("06_toy")
    assert list(there) == [sections.START, "6.1", "Exercise 6.2"] and core("06_toy") == list(there.values())[:2]
    assert in_class(there["Exercise 6.2"]) == minutes.total(lesson, optional=True) == 17
    assert "**Exercise 6.2** (in “Rows”, 17 min). More." in sheet and "17 more are optional." in sheet
    assert "| Predict 6.1 **a**, Exercise 6.1 (8 min) |" in sheet and "Exercise 6.2" not in deck.numbers(lesson)
    assert "**Exercise 6.1** (slide 4)" in (page := plans.lesson("06_toy")) and "Exercise 6.2** (slide" not in page


# ------------------------------------------------------------------------------------------------- courses and pages
def test_courses_have_their_sections_in_order_and_fit_their_time():
    for course in courses.read():
        where = [(stem, list(sections.of(stem)).index(p.key)) for s in course.sessions for stem, p in s.parts]
        assert where == sorted(set(where)), "a section comes twice, or before an earlier one"
        page = plans.course(course)
        assert page.count("| [") == len(where)
        for session in course.sessions:
            assert 0.7 * session.has <= session.minutes <= session.has, (session.name, session.minutes)
            assert f"## {session.name} · {round(session.minutes)} of {session.has} min" in page


@pytest.mark.parametrize(
    ("name", "why"), [("99", "begins with the number of no lesson"), ("6.77", "has no section '6.77'")]
)
def test_a_course_with_a_section_that_is_not_there_says_so(name, why):
    with pytest.raises(PlanError, match=re.escape(why)):
        courses.parts(name)


def test_a_page_has_its_items_in_the_notebook_s_order_with_all_that_one_needs():
    page = plans.lesson("06_batchnorm")
    there = [
        "**Prepare.** The table of 6.2",
        " | 6.2 The other axis | ",
        " | Predict 6.1 **c**, Exercise 6.1 (5 min) |",
        "- **6.6 Four norms, one formula** (4 min). The arrows on the board say most of it. Tell: “Four",
        "## 0:00 · What breaks",
        "- a: 0.5 and 1.5 (You have divided the distances 1 and 3",
        "- **c, right:** 1 and 1 (The means are 10 and 8",
        "**Listen for.** Whoever says 0.5 and 1.5",
        "#6.2-The-other-axis)",
        "- If the check says “each sample gets a mean of its own",
        "**Recall 6.1** (",
        "**Open.** In training and in evaluation two different functions run.",
        "**Close.** Before you trust a BatchNorm",
    ]
    assert re.search("(.|\n)*".join(map(re.escape, there)), page), [text for text in there if text not in page]
    clocks = [int(h) * 60 + int(m) for h, m in re.findall(r"^## (\d):(\d\d) ", page, re.MULTILINE)]
    assert clocks == sorted(clocks) and clocks[-1] < 75


@of_each_lesson
def test_each_exercise_is_told_in_a_line_or_two_and_the_take_away_in_three(stem):
    for item in (item for part in core(stem) for item in part.exercises):
        names, text = plans.task(item)
        assert names and all(re.search(rf"\b{name}\b", item.solution) for name in names)
        assert 15 <= len(text) <= 610 and "\n" not in text and "{" not in text, (item.number, text)
    assert 1 <= len(plans.sticks(stem)) <= 3


def test_all_plans_are_written_and_every_link_leads_somewhere(tmp_path, capsys):
    folder = tmp_path / "build/plan"
    assert main([str(folder)]) == 0
    assert len(list(folder.glob("*.md"))) == 1 + len(STEMS) + len(courses.read())
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    for path in folder.glob("*.md"):
        for target in re.findall(r"\]\(([\w./]+\.(?:md|ipynb))", path.read_text(encoding="utf-8")):
            assert (folder / target).exists(), (path.name, target)
    index = (folder / "index.md").read_text(encoding="utf-8")
    for stem in STEMS:
        reader, whole = sections.lesson(stem).minutes, round(sum(map(in_class, core(stem))))
        assert f"]({stem}.md) | {reader} | {whole} |" in index
        sheet = (folder / f"{stem}.md").read_text(encoding="utf-8")
        assert f"**Minutes.** {reader} for one reader, {whole} in a class" in sheet
        assert re.search(r"To run all of it takes about \d+ s", sheet), "no seconds in the README's table"

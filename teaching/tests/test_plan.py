"""The plans: every lesson has one, what they name is there, and the minutes of a class add up."""

import html
import re

import pytest

from coursebuild import minutes
from lessonkit.course import Question, Text, lessons
from teaching import material
from teaching.material import ROOT
from teaching.plan import courses, notes, plans, sections
from teaching.plan.__main__ import main
from teaching.plan.sections import PlanError, core
from teaching.slides import deck

STEMS = list(lessons())
CHECKS = ROOT / "lessons_src/lessons"


# ------------------------------------------------------------------------------------------------------------- words
@pytest.mark.parametrize("stem", STEMS)
def test_every_lesson_has_a_plan_that_names_what_is_there(stem):
    words = notes.read(stem)
    for kind in ("prepare", "close", "late", "early", "board"):
        assert getattr(words, kind), f"words/{stem}.md has no '{kind.title()}'. teaching/plan/README.md says how."
    without = f"words/{stem}.md has no word about what breaks: '## start', then 'Open: ...'"
    assert sections.START in words.open, without


@pytest.mark.parametrize("stem", STEMS)
def test_each_prediction_says_what_one_hears(stem):
    """Not what is right: who says which wrong thing, and what that shows."""
    heard = notes.read(stem).ask
    asked = [item.name for section in core(stem) for item in section.questions if item.kind == "Predict"]
    lost = [name for name in asked if not heard.get(name, [""])[0].startswith("Whoever ")]
    assert not lost, f"words/{stem}.md does not say what one hears: add 'Ask {lost[0]}: Whoever says ...'. All: {lost}"


@pytest.mark.parametrize("stem", STEMS)
def test_the_words_of_a_check_are_the_check_s(stem):
    """What an instructor expects to read is what the check says today."""
    source = (CHECKS / stem / "checks.py").read_text(encoding="utf-8")
    quoted = [quote for expected in notes.read(stem).expect.values() for quote, _ in expected]
    lost = [quote for quote in quoted if quote not in source]
    assert not lost, f"words/{stem}.md quotes what no check of the lesson says (any more): {lost}"
    assert 3 <= len(quoted) <= 12, f"words/{stem}.md quotes {len(quoted)} messages of checks (Expect), expected 3 to 12"


COMMON = set(
    "about after again also another because been before both come comes does each else every from give gives goes "
    "have here into just less like look make makes many more most much next none nothing once only other over same "
    "side take takes than that their them then there these they this those thing through until very what when where "
    "which while with would".split()
)


def vocabulary(text):
    return set(re.findall(r"[^\W\d_]{4,}|\d[\d.,]*\d|\d", text.lower())) - COMMON


def answers(part, text):
    """Return {label: the words of text that answer a question of a Section}.

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


@pytest.mark.parametrize("stem", STEMS)
def test_what_opens_a_section_answers_none_of_its_questions(stem):
    opens = notes.read(stem).open
    answered = [answers(part, " ".join(opens.get(part.key, []))) for part in core(stem)]
    assert not list(filter(None, answered))


def test_words_that_give_an_answer_away_are_found():
    assert answers(sections.of(STEMS[5])["6.7"], "Five means, each over all features.")


BAD = {
    "Prepare nothing": "is not understood here. Write it as 'Prepare: ...'",
    "Prepare: x\n## 6.77": "there is no section '6.77'. There are start, 6.1",
    "Prepare: x\n## 6.1\nSay: something": "is not understood here. Write it as 'Open: ...' or 'Close: ...'",
    "Prepare: x\n## 6.2\nAsk Predict 6.2: y": "section 6.2 has no Predict 6.2. It has Predict 6.1, Exercise 6.1",
    'Prepare: x\n## 6.2\nExpect 6.2 "q": y': "section 6.2 has no Exercise 6.2. It has Predict 6.1, Exercise 6.1",
    "Prepare: x\n## Late\n6.7: y": "is not understood here. Write it as '6.7: why. Tell: ...'",
    "Prepare: x\n## Late\n6.77: y Tell: z": "'6.77' is no section that can be named under Late",
    "Prepare: x\n## Late\nSeveral devices: y Tell: z": "'Several devices' is no section that can be named under Late",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_do_not_fit_say_where_and_what_there_is(tmp_path, text):
    (tmp_path / f"{STEMS[5]}.md").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=re.escape(BAD[text])) as error:
        notes.read(STEMS[5], tmp_path)
    assert str(error.value).startswith(f"{STEMS[5]}.md:")


def test_a_lesson_without_words_says_so(tmp_path):
    with pytest.raises(PlanError, match="is missing: every lesson has a plan"):
        notes.read(STEMS[0], tmp_path)


@pytest.mark.parametrize("stem", STEMS)
def test_a_plan_says_what_must_stick(stem):
    """The first points of the lesson's own take-away, with links that work from build/plan."""
    points = plans.sticks(lessons()[stem])
    assert 1 <= len(points) <= 3 and all(f"\n{point}\n" in plans.lesson(stem) for point in points)


# ------------------------------------------------------------------------------------------------ slides and the board
@pytest.mark.parametrize("stem", STEMS)
def test_the_slides_of_a_step_are_those_of_the_deck(stem):
    """Read off the deck's HTML: the section that stands above a slide, and the question or exercise on it."""
    lesson = material.read(stem)
    slides = deck.page(lesson, deck.slides(lesson), lambda png: "").split("<section ")[1:]
    above = [html.unescape(re.search(r'data-section="(.*?)"', slide)[1]) for slide in slides]
    for part in core(stem):
        heading = "" if part.key == sections.START else part.heading
        numbers = [number for number, section in enumerate(above, 1) if section == heading]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) == sections.slides(stem)[part.key]
        for item in sections.asked(part):
            asks = re.compile(rf"<p class='label'>{item.name}</p>.*<ul>|<h2>{item.name} ", re.DOTALL)
            assert sections.slides(stem)[item.name] == [n for n in numbers if asks.search(slides[n - 1])] != []


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


@pytest.mark.parametrize("stem", [sections.LESSON_0, *STEMS])
def test_rows_on_the_board_are_those_of_the_lesson(stem):
    """The board is written by hand: a lesson that changes its numbers must change its board."""
    zero, sheet = stem == sections.LESSON_0, sections.SHEET.read_text("utf-8")
    board = re.search("```\n(.*)\n```", sheet, re.DOTALL)[1] if zero else notes.read(stem).board
    cells = material.stored(stem)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = ["".join(cell["source"]) for cell in cells]
    texts += ["".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs]
    reasons = [] if zero else [option["reason"] for item in lessons()[stem].questions for option in item.options]
    assert numbers(board) and strange(board, "\n".join(texts + reasons)) == []
    assert len(board.splitlines()) <= 14 and max(map(len, board.splitlines())) <= 80
    marks = set(re.findall(r" {3}(\d+\.\d)$", board, re.MULTILINE))
    assert zero or marks and marks <= set(sections.of(stem)), "no number of a section at the right"


def test_a_row_that_the_lesson_does_not_have_is_found():
    assert strange("x  4 0 3\nc  1 -3 0\nsquared 1 9 0", "The row (4, 0, 3), and 1, −3, 0.") == []
    assert strange("x  4 0 3\nc  2 -3 0", "The row (4, 0, 3), and 1, −3, 0.") == [[2, -3, 0]]


# ----------------------------------------------------------------------------------------------------------- minutes
@pytest.mark.parametrize("stem", STEMS)
def test_sections_add_up_to_the_model_s_minutes(stem):
    parts = sections.of(stem).values()
    for optional in (False, True):
        whole = minutes.total(lessons()[stem], optional)
        assert sum(part.minutes for part in parts if part.optional == optional) == pytest.approx(whole)
    names = [item.name for part in parts for item in sections.asked(part)]
    assert names == lessons()[stem].names, "not the notebook's order"


def test_a_class_takes_longer_than_a_reader_by_its_questions_and_by_what_it_tries():
    asks = next(part for part in core(STEMS[5]) if part.questions and not part.exercises)
    assert sections.in_class(asks) == pytest.approx(asks.minutes + 0.5 * len(asks.questions))
    plays = next(part for part in core(STEMS[5]) if part.key == "6.1")
    assert sections.in_class(plays) == pytest.approx(plays.minutes + 2)
    assert "*Find out*" in plans.sheet(STEMS[5]) and "**Find out** (in the notebook) each of" in plans.lesson(STEMS[5])


@pytest.mark.parametrize("stem", STEMS)
def test_a_class_needs_few_minutes_more_than_a_reader(stem):
    whole = sum(sections.in_class(part) for part in core(stem))
    assert whole <= lessons()[stem].minutes + 8, f"{whole:.0f} min, and teaching/README.md says a few minutes more"
    first, second = sections.sittings(stem)
    assert first + second == core(stem)


# ----------------------------------------------------------------------------------------------------------- courses
def test_courses_have_their_sections_in_order_and_fit_their_time():
    for course in courses.read():
        where = [(stem, list(sections.of(stem)).index(p.key)) for s in course.sessions for stem, p in s.parts]
        assert where == sorted(set(where)), "a section comes twice, or before an earlier one"
        for session in course.sessions:
            assert 0.7 * session.has <= session.minutes <= session.has, (session.name, session.minutes)
        page = plans.course(course)
        assert page.count("| [") == sum(len(session.parts) for session in course.sessions)
        for session in course.sessions:
            assert f"## {session.name} · {round(session.minutes)} of {session.has} min" in page
    page = plans.course(next(course for course in courses.read() if course.name == "Two evenings"))
    assert "| 1:16 | 18–27 | [14](14_clinic.md) · 14.3 Ten tests, in the order to run them | 17 | Predict 14.3 " in page
    assert (
        page.count("**Late?**") == 1
        and "\n**Late?** Drop 14.2 Clean until it has learned (4 min), and tell: “A" in page
    )


def test_lesson_0_has_the_sections_of_its_notebook_and_fits_its_session():
    lesson = material.read(sections.LESSON_0)
    first, *parts = [part for _, part in courses.parts("0")]
    assert [part.heading for part in parts] == [section.heading for section in lesson.sections if section.level == 2]
    sheet, clock = sections.SHEET.read_text("utf-8"), 0.0
    for part in (first, *parts):
        hours, rest = divmod(round(clock), 60)
        assert f"\n| {hours}:{rest:02} | {part.heading} | {part.minutes:.0f} |" in sheet
        clock += sections.in_class(part)
    assert clock == 90
    shown = plans.lesson_0()
    assert shown.count("\n| 0:") + shown.count("\n| 1:") == len(parts) + 1
    assert "\n| 0:00 | 1–5 | What breaks | 8 |" in shown and "\n| 1:10 | 43 | 0.6 Your layer" in shown
    options = [(item.name, *option) for item in lesson.questions for option in item.by_letter.items()]
    right = [(name, letter) for name, letter, option in options if option["right"]]
    assert re.findall(r"(Predict 0\.\d) \*\*(\w)\*\*", sheet) == right != []
    assert any(stem == lesson.stem for course in courses.read() for stem, _ in course.sessions[0].parts)


@pytest.mark.parametrize(
    ("name", "why"), [("99", "begins with the number of no lesson"), ("6.77", "has no section '6.77'")]
)
def test_a_course_with_a_section_that_is_not_there_says_so(name, why):
    with pytest.raises(PlanError, match=re.escape(why)):
        courses.parts(name)


# ------------------------------------------------------------------------------------------------------------- pages
def test_a_page_has_its_items_in_the_notebook_s_order_with_all_that_one_needs():
    page = plans.lesson(STEMS[5])
    there = [
        "**Prepare.** The table of 6.2",
        " | 6.2 The other axis | ",
        " | Predict 6.1 **c**, Exercise 6.1 (5 min) |",
        "## Drop this if you are late",
        "- **6.6 Four norms, one formula** (4 min). The arrows on the board say most of it. Tell: “Four",
        "## 0:00 · What breaks",
        "- a: 0.5 and 1.5 (You have divided the distances 1 and 3",
        "- **c, right:** 1 and 1 (The means are 10 and 8",
        "**Listen for.** Whoever says 0.5 and 1.5",
        " ●●○○○ `channel_stats`, 5 min. Return the mean and the biased variance of each channel",
        "#6.2-The-other-axis)",
        "- If the check says “each sample gets a mean of its own",
        "**Recall 6.1** (",
        "**Open.** In training and in evaluation two different functions run.",
        "**Close.** Before you trust a BatchNorm",
    ]
    assert [text for text in there if text not in page] == []
    places = [page.index(text) for text in there]
    assert places == sorted(places)
    clocks = [int(h) * 60 + int(m) for h, m in re.findall(r"^## (\d):(\d\d) ", page, re.MULTILINE)]
    assert clocks == sorted(clocks) and clocks[-1] < 75


@pytest.mark.parametrize("stem", STEMS)
def test_each_exercise_is_named_and_told_in_a_line_or_two(stem):
    for item in (item for part in core(stem) for item in part.exercises):
        names, text = plans.task(item)
        assert names and all(re.search(rf"\b{name}\b", item.solution) for name in names)
        assert 15 <= len(text) <= 610 and "\n" not in text and "{" not in text, (item.number, text)


def test_all_plans_are_written_and_every_link_leads_somewhere(tmp_path, capsys):
    folder = tmp_path / "build/plan"
    assert main([str(folder)]) == 0
    assert len(list(folder.glob("*.md"))) == len(STEMS) + 6
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    for path in folder.glob("*.md"):
        for target in re.findall(r"\]\(([\w./]+\.(?:md|ipynb))", path.read_text(encoding="utf-8")):
            assert (folder / target).exists(), (path.name, target)
    index = (folder / "index.md").read_text(encoding="utf-8")
    for stem in STEMS:
        reader, whole = lessons()[stem].minutes, round(sum(sections.in_class(part) for part in core(stem)))
        assert re.search(rf"\]\({stem}\.md\) \| {reader} \| {whole} \|", index)
        sheet = (folder / f"{stem}.md").read_text(encoding="utf-8")
        assert f"**Minutes.** {reader} for one reader, {whole} in a class" in sheet
        assert re.search(r"To run all of it takes about \d+ s", sheet), "no seconds in the README's table"

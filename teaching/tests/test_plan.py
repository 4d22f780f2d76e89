"""The plans: every lesson has one, what they name is there, and the minutes add up."""

import re

import pytest

from teaching import material
from teaching.material import ROOT
from teaching.plan import courses, pages, sections, words
from teaching.plan.__main__ import main
from teaching.plan.sections import PlanError

STEMS = material.stems()
CHECKS = ROOT / "lessons_src/lessonkit/check/lessons"


def said(stem, folder=words.FOLDER):
    return words.read(stem, sections.of(stem), folder)


@pytest.mark.parametrize("stem", STEMS)
def test_every_lesson_has_a_plan_that_names_what_is_there(stem):
    found = said(stem)
    assert found.prepare and found.say and found.ask
    assert found.late and found.early
    assert found.say.keys() & {sections.START}, "no word about what breaks"


@pytest.mark.parametrize("stem", STEMS)
def test_the_words_of_a_check_are_the_check_s(stem):
    """What an instructor expects to read is what the check says today."""
    source = (CHECKS / f"{stem[3:]}.py").read_text(encoding="utf-8")
    quoted = [quote for found in said(stem).expect.values() for _, quote, _ in found]
    assert [quote for quote in quoted if quote not in source] == []
    assert 2 <= len(quoted) <= 8


@pytest.mark.parametrize("stem", STEMS)
def test_sections_add_up_to_the_model_s_minutes(stem):
    from coursebuild import minutes

    found = sections.of(stem).values()
    for optional in (False, True):
        whole = minutes.total(minutes.of(stem), optional)
        assert sum(one.minutes for one in found if one.optional == optional) == pytest.approx(whole)
    read = material.read(stem)
    for kind, name in ((material.Question, "questions"), (material.Exercise, "exercises")):
        numbers = [item.number for item in read.items if isinstance(item, kind)]
        assert sorted(item.number for one in found for item in getattr(one, name)) == sorted(numbers)


def test_courses_have_known_sections_in_order_that_fit_their_time():
    found = courses.read()
    assert [one.name for one in found] == ["One day", "Three evenings", "Fourteen sessions"]
    assert [len(one.sessions) for one in found] == [4, 3, 14]
    for course in found:
        where = [(stem, list(sections.of(stem)).index(p.key)) for s in course.sessions for stem, p in s.parts]
        assert where == sorted(set(where)), "a section comes twice, or before an earlier one"
        for session in course.sessions:
            assert 0.85 * session.has <= session.minutes <= session.has, (session.name, session.minutes)


def test_a_page_shows_the_clock_the_right_option_and_what_to_expect():
    page = pages.lesson(STEMS[5])
    assert "## 0:00 · What breaks" in page and "*Right is b: in BatchNorm's." in page
    assert "The check says “the gradient does not pass through the mean.”" in page
    clocks = [int(h) * 60 + int(m) for h, m in re.findall(r"^## (\d):(\d\d) ", page, re.MULTILINE)]
    assert clocks == sorted(clocks) and clocks[-1] < 65


def test_the_pages_of_courses_sum_what_they_list():
    for one in courses.read():
        page = pages.course(one)
        for session in one.sessions:
            assert f"## {session.name} · {round(session.minutes)} of {session.has} min" in page
        assert page.count("| [") == sum(len(session.parts) for session in one.sessions)


def test_all_plans_are_written_and_every_link_leads_somewhere(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.md"))) == len(STEMS) + 4
    for path in tmp_path.glob("*.md"):
        for target in re.findall(r"\]\(([\w.]+\.md)\)", path.read_text(encoding="utf-8")):
            assert (tmp_path / target).exists(), (path.name, target)


BAD = {
    "Prepare nothing": "is not understood here. Write it as 'Prepare: ...'",
    "Prepare: x\n## 6.77": "there is no section '6.77'. There are start, 6.1",
    "Prepare: x\n## 6.1\nSay something": "is not understood here. Write it as 'Say: ...'",
    "Prepare: x\n## 6.1\nAsk Predict 6.2: y": "section 6.1 does not ask Predict 6.2. It asks Predict 6.1",
    'Prepare: x\n## 6.1\nExpect 6.2 "q": y': "section 6.1 has no exercise 6.2. It has 6.1",
    "Prepare: x\n## Late\n6.77: y": "'6.77' is no section that can be named under Late",
    "Prepare: x\n## Late\nSeveral devices: y": "'Several devices' is no section that can be named under Late",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_do_not_fit_say_where_and_what_there_is(tmp_path, text):
    (tmp_path / f"{STEMS[5]}.md").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=re.escape(BAD[text])) as error:
        said(STEMS[5], tmp_path)
    assert str(error.value).startswith(f"{STEMS[5]}.md:")


def test_a_course_with_a_section_that_is_not_there_says_so():
    for name, why in (("99", "begins with the number of no lesson"), ("6.77", "has no section '6.77'")):
        with pytest.raises(PlanError, match=re.escape(why)):
            courses.parts(name)


def test_a_lesson_without_words_says_so(tmp_path):
    with pytest.raises(PlanError, match="is missing: every lesson has a plan"):
        said(STEMS[0], tmp_path)

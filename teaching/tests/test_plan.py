"""The plans: every lesson has one, what they name is there, and the minutes of a class add up."""

import ast
import re
from functools import cache

import pytest

from coursebuild import minutes
from lessonkit.course import Exercise, Question, Text, lessons
from teaching.material import ROOT
from teaching.plan import courses, notes, plans, sections
from teaching.plan.__main__ import main
from teaching.plan.sections import PlanError

STEMS = list(lessons())
CHECKS = ROOT / "lessons_src/lessonkit/check/lessons"


needs = cache(courses.needs)


def said(stem, folder=notes.FOLDER):
    return notes.read(stem, sections.of(stem), folder)


def core(stem):
    return [sections.of(stem)[key] for key in sections.core(stem)]


# ------------------------------------------------------------------------------------------------------------- words
@pytest.mark.parametrize("stem", STEMS)
def test_every_lesson_has_a_plan_that_names_what_is_there(stem):
    found = said(stem)
    for kind in ("prepare", "close", "late", "early"):
        assert getattr(found, kind), f"words/{stem}.md has no '{kind.title()}'. teaching/plan/README.md says how."
    assert sections.START in found.open, f"words/{stem}.md has no word about what breaks: '## start', then 'Open: ...'"


@pytest.mark.parametrize("stem", STEMS)
def test_each_prediction_says_what_one_hears(stem):
    """Not what is right: who says which wrong thing, and what that shows."""
    found = said(stem)
    asked = [item.name for one in core(stem) for item in one.questions if item.kind == "Predict"]
    lost = [name for name in asked if not found.ask.get(name, "").startswith("Whoever ")]
    assert not lost, f"words/{stem}.md does not say what one hears: add 'Ask {lost[0]}: Whoever says ...'. All: {lost}"


@pytest.mark.parametrize("stem", STEMS)
def test_the_words_of_a_check_are_the_check_s(stem):
    """What an instructor expects to read is what the check says today."""
    source = (CHECKS / f"{stem[3:]}.py").read_text(encoding="utf-8")
    quoted = [quote for found in said(stem).expect.values() for quote, _ in found]
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


def answers(stem, wanted, text):
    """Return {label: the words of text that answer a question of the section of that key}.

    Those are words of the right option and of the reasons, unless the question, a wrong option, or what the section
    says before the question has them.
    """
    told, current, found = set(), sections.START, {}
    for section in sections.lesson(stem).sections:
        if section.key in sections.of(stem):
            told, current = set(), section.key
        told |= vocabulary(section.heading)
        for item in section.items:
            if isinstance(item, Text):
                told |= vocabulary(item.text)
            elif isinstance(item, Question) and current == wanted:
                told |= vocabulary(item.text)
                wrong = vocabulary(" ".join(one["text"] for one in item.options if not one["right"]))
                right = " ".join(one["text"] for one in item.options if one["right"])
                reasons = " ".join(one["reason"] for one in item.options)
                answer = vocabulary(f"{right} {reasons}") - wrong - told
                found[item.name] = answer & vocabulary(text)
                told |= vocabulary(f"{right} {reasons}") | wrong
    return {name: given for name, given in found.items() if given}


@pytest.mark.parametrize("stem", STEMS)
def test_what_opens_a_section_answers_none_of_its_questions(stem):
    found = said(stem).open
    given = {one.key: answers(stem, one.key, " ".join(found.get(one.key, []))) for one in core(stem)}
    assert {key: names for key, names in given.items() if names} == {}


@pytest.mark.parametrize(
    ("stem", "key", "text"),
    [
        (STEMS[5], "6.5", "The mean of more numbers is off by half as much."),
        (STEMS[10], "11.7", "Independent branches add their mean squares, so the stream grows."),
        (STEMS[5], "6.2", "The deviation triples."),
    ],
)
def test_words_that_give_an_answer_away_are_found(stem, key, text):
    assert answers(stem, key, text)


BAD = {
    "Prepare nothing": "is not understood here. Write it as 'Prepare: ...' or 'Homework: ...'",
    "Homework: 6.7, Exercise 6.77": "'Exercise 6.77' cannot be homework. What can: start, 6.1",
    "Homework: Exercise 6.6": "'Exercise 6.6' cannot be homework",
    "Prepare: x\n## 6.77": "there is no section '6.77'. There are start, 6.1",
    "Prepare: x\n## 6.1\nSay: something": "is not understood here. Write it as 'Open: ...' or 'Close: ...'",
    "Prepare: x\n## 6.1\nAsk Predict 6.2: y": "section 6.1 does not ask Predict 6.2. It asks Predict 6.1",
    "Prepare: x\n## 6.1\nClose Predict 6.2: y": "section 6.1 does not ask Predict 6.2. It asks Predict 6.1",
    'Prepare: x\n## 6.1\nExpect 6.2 "q": y': "section 6.1 has no exercise 6.2. It has 6.1",
    "Prepare: x\n## Late\n6.7: y": "is not understood here. Write it as '6.7: why. Tell: ...'",
    "Prepare: x\n## Late\n6.77: y Tell: z": "'6.77' is no section that can be named under Late",
    "Prepare: x\n## Late\nSeveral devices: y Tell: z": "'Several devices' is no section that can be named under Late",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_do_not_fit_say_where_and_what_there_is(tmp_path, text):
    (tmp_path / f"{STEMS[5]}.md").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=re.escape(BAD[text])) as error:
        said(STEMS[5], tmp_path)
    assert str(error.value).startswith(f"{STEMS[5]}.md:")


def test_a_lesson_without_words_says_so(tmp_path):
    with pytest.raises(PlanError, match="is missing: every lesson has a plan"):
        said(STEMS[0], tmp_path)


# ----------------------------------------------------------------------------------------------------------- minutes
@pytest.mark.parametrize("stem", STEMS)
def test_sections_add_up_to_the_model_s_minutes(stem):
    found = sections.of(stem).values()
    for optional in (False, True):
        whole = minutes.total(lessons()[stem], optional)
        assert sum(one.minutes for one in found if one.optional == optional) == pytest.approx(whole)
    names = [item.name for one in found for item in sections.asked(one)]
    assert names == lessons()[stem].names, "not the notebook's order"


def test_a_class_takes_longer_than_a_reader_by_its_questions():
    one = sections.of(STEMS[5])["6.2"]
    assert len(one.questions) == 2 and not one.exercises
    assert sections.in_class(one) == pytest.approx(one.minutes + 2 * (1.5 - 1 / 3))
    assert sections.left(one, ["Predict 6.3"]) == pytest.approx(sections.in_class(one) - 1.5)
    assert sections.left(one, ["6.2"]) == 0


@pytest.mark.parametrize("stem", STEMS)
def test_the_cut_of_a_lesson_fits_into_an_hour_and_the_lesson_does_not(stem):
    home, short = said(stem).home, lessons()[stem].minutes < 50  # a lesson that is being written
    whole = sum(sections.in_class(one) for one in core(stem))
    assert whole <= 76 and (short or 66 <= whole), f"{whole:.0f} min, and teaching/README.md says 70 to 75"
    cut = sum(sections.left(one, home) for one in core(stem))
    assert cut <= 60 and (short or 50 <= cut), f"the cut leaves {cut:.0f} min, expected 50 to 60: change Homework"


def test_minutes_and_seconds_are_those_of_the_readme():
    table = re.findall(r"^\| (\d+) \| .* \| (\d+) \| (\d+) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [(int(n), int(m)) for n, m, _ in table] == [(int(stem[:2]), lessons()[stem].minutes) for stem in STEMS]
    assert sections.seconds() == {int(n): int(s) for n, _, s in table}


# ------------------------------------------------------------------------------------- what cannot do without what
@cache
def builds_on(stem):
    """Return {key of a core section: {labels of the exercises of other sections whose answers its cells use}}."""
    made, used = {}, {}
    for current, item in ((section.key, item) for section in sections.of(stem).values() for item in section.items):
        source = getattr(item, "solved", "")
        if isinstance(item, Exercise):
            for name in plans.task(item)[0]:
                made[name] = item.name, current
        if source:
            tree = ast.parse(source)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                    node.args = []  # a class is there, and can be asked for, before its methods are written
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            labels = {made[name][0] for name in names & made.keys() if made[name][1] != current}
            used.setdefault(current, set()).update(labels)
    return {key: used.get(key, set()) for key in sections.core(stem)}


def without(held, home, stem):
    """Return what held sections of a lesson, {key: Section}, lack if home is homework, a line each."""
    lines = []
    for key, one in held.items():
        wanted = [other for where, other in needs().get((stem, key), []) if where == stem]
        lines += [f"{key} needs {other}" for other in wanted if other not in held]
        if any(item.name not in home for item in one.exercises):
            lines += [f"an exercise of {key} builds on {name}" for name in sorted(builds_on(stem)[key] & set(home))]
    return lines


@pytest.mark.parametrize("stem", STEMS)
def test_the_needs_of_a_section_are_known(stem):
    """Where a section uses what an exercise makes, courses.toml says so; each start needs what solves it."""
    known = {key: {other for _, other in found} for (where, key), found in needs().items() if where == stem}
    place = {item.name: one.key for one in core(stem) for item in one.exercises}
    for key, labels in builds_on(stem).items():
        missing = {place[label] for label in labels} - known.get(key, set())
        assert not missing, f'{key} uses what exercises of {sorted(missing)} make. Add them to "{key}" in courses.toml.'
    start = f"{lessons()[stem].number} {sections.START}"
    assert known.get(sections.START), f'Which section solves what breaks? Add "{start}" to [needs] of courses.toml.'


@pytest.mark.parametrize("stem", STEMS)
def test_a_cut_keeps_what_its_sections_need(stem):
    home = said(stem).home
    assert without({one.key: one for one in core(stem) if one.key not in home}, home, stem) == []


def test_courses_have_known_sections_in_order_that_fit_their_time_and_hold_what_they_need():
    found = courses.read()
    assert [one.name for one in found] == ["One day", "Three evenings", "Fourteen sessions"]
    assert [len(one.sessions) for one in found] == [4, 3, 14]
    for course in found:
        where = [(stem, list(sections.of(stem)).index(p.key)) for s in course.sessions for stem, p in s.parts]
        assert where == sorted(set(where)), "a section comes twice, or before an earlier one"
        for session in course.sessions:
            assert 0.93 * session.has <= session.minutes <= session.has, (session.name, session.minutes)
            for stem, home in session.home.items():
                held = {part.key: part for s in course.sessions for other, part in s.parts if other == stem}
                assert without(held, home, stem) == [], (course.name, session.name)


def test_the_check_of_needs_finds_what_is_missing():
    stem = STEMS[10]
    held = {key: sections.of(stem)[key] for key in ("11.2", "11.4", "11.7")}
    assert without(held, [], stem) == ["11.4 needs 11.3", "11.7 needs 11.5"]
    held = {key: sections.of(stem)[key] for key in sections.core(stem)}
    assert without(held, ["Exercise 11.2"], stem) == ["an exercise of 11.7 builds on Exercise 11.2"]


def test_a_course_with_a_section_that_is_not_there_says_so(tmp_path):
    for name, why in (("99", "begins with the number of no lesson"), ("6.77", "has no section '6.77'")):
        with pytest.raises(PlanError, match=re.escape(why)):
            courses.parts(name)
    path = tmp_path / "courses.toml"
    session = 'name = "x"\nminutes = 60\nsections = ["6.1"]\nhomework = ["{}"]'
    for name, why in (
        ("Exercise 6.2", "'Exercise 6.2' cannot be homework"),
        ("Exercise 7.1", "is of no lesson of 'x'"),
    ):
        path.write_text(f'[[course]]\nname = "x"\nwords = ""\n[[course.session]]\n{session.format(name)}\n', "utf-8")
        with pytest.raises(PlanError, match=re.escape(why)):
            courses.read(path)


# ------------------------------------------------------------------------------------------------------------- pages
def test_a_page_has_its_items_in_the_notebook_s_order_with_all_that_one_needs():
    page = plans.lesson(STEMS[5])
    there = [
        "## 0:00 · What breaks",
        "**Prepare.** The table of 6.1",
        "160, 25, 36",
        "## 0:22 · 6.3 ",
        "**Predict 6.4.**",
        "- a: 176 cm (The first batch gets no special treatment",
        "- **b, right:** 17.6 cm (0.9 · 0 + 0.1 · 176",
        "**Listen for.** Whoever says 176",
        "**Then.** The batch is normalized with the biased variance",
        "**Exercise 6.2** ●●●○○ `RunningStatistics`, 6 min. A running mean and a running variance of C channels",
        "#6.3-What-evaluation-uses-instead)",
        "- If the check says “the biased variance goes into the buffer",
        "**Predict 6.5.**",
        "**Open.** In training and in evaluation two different functions run.",
        "**Predict 6.6.**",
        "**Close.** The gap shrinks with the root",
        "**Exercise 6.4** (homework in 60 minutes)",
        "· homework in 60 minutes",
        "## Drop this if you are late",
        "- **6.7 What the layer before it feels** (3 min). One prediction; lesson 9 does not need it. Tell: “In",
        "Lesson 14's index refers to it: A bias before LayerNorm is not redundant",
        "- **Several devices** (in “Deeper”, 10 min). Exercise 6.6",
    ]
    assert [text for text in there if text not in page] == []
    found = [page.index(text) for text in there[3:]]
    assert found == sorted(found)
    clocks = [int(h) * 60 + int(m) for h, m in re.findall(r"^## (\d):(\d\d) ", page, re.MULTILINE)]
    assert clocks == sorted(clocks) and clocks[-1] < 75


@pytest.mark.parametrize("stem", STEMS)
def test_each_exercise_is_named_and_told_in_a_line_or_two(stem):
    for item in (item for one in core(stem) for item in one.exercises):
        names, text = plans.task(item)
        assert names and all(re.search(rf"\b{name}\b", item.solution) for name in names)
        assert 15 <= len(text) <= 610 and "\n" not in text and "{" not in text, (item.number, text)


def test_the_pages_of_courses_sum_what_they_list():
    for one in courses.read():
        page = plans.course(one)
        for session in one.sessions:
            assert f"## {session.name} · {round(session.minutes)} of {session.has} min" in page
        assert page.count("| [") == sum(len(session.parts) for session in one.sessions)
        home = [name for session in one.sessions for names in session.home.values() for name in names]
        assert [name for name in home if name not in page] == []


def test_all_plans_are_written_and_every_link_leads_somewhere(tmp_path, capsys):
    folder = tmp_path / "build/plan"
    assert main([str(folder)]) == 0
    assert len(list(folder.glob("*.md"))) == len(STEMS) + 4
    for path in folder.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([\w.]+\.md)\)", text):
            assert (folder / target).exists(), (path.name, target)
        for target in re.findall(r"\]\(\.\./\.\./([\w/.]+\.ipynb)", text):
            assert (ROOT / target).exists(), (path.name, target)
    index = (folder / "index.md").read_text(encoding="utf-8")
    for stem in STEMS:
        reader, whole = lessons()[stem].minutes, round(sum(sections.in_class(one) for one in core(stem)))
        assert re.search(rf"\]\({stem}\.md\) \| {reader} \| {whole} \|", index)
        sheet = (folder / f"{stem}.md").read_text(encoding="utf-8")
        assert f"**Minutes.** {reader} for one reader, {whole} in a class" in sheet

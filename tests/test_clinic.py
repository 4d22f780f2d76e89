"""Lesson 14's glossary and index: every link leads to a section that speaks of it, and the index is coverage.csv."""

import re

import pytest

from tests.helpers import SOURCES, read
from tests.test_lessons import coverage, outside_fences

CLINIC = next((path for path in SOURCES if path.stem == "14_clinic"), None)
pytestmark = pytest.mark.skipif(CLINIC is None, reason="lesson 14 is not there yet")


def sections():
    """Return {"4.2": text of that section, "4 Deeper": text of its optional end, "9": text of that lesson}."""
    by_title = {}
    for path in SOURCES:
        text = "\n".join(cell.source for cell in read(path).cells)
        parts = re.split(r"^## (\d+\.\d+) ", text, flags=re.MULTILINE)
        by_title |= {str(int(path.stem[:2])): text} | dict(zip(parts[1::2], parts[2::2], strict=True))
        deeper = re.search(r"^## Deeper (.*?)^## On your own", text, re.MULTILINE | re.DOTALL)
        if deeper:
            by_title[f"{int(path.stem[:2])} Deeper"] = deeper[1]
    return by_title


def table(title):
    """Return the rows of the table below the heading of lesson 14 that is called title, without its head."""
    text = "\n".join(cell.source for cell in read(CLINIC).cells if cell.type == "markdown")
    section = re.search(rf"^### {title}$(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    rows = [line for line in outside_fences(section[1]) if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def linked(cell):
    """Return the places that a cell names: "4.2", "4 Deeper" or, for a whole lesson, "9"."""
    numbered = re.findall(r"(?<![\w.])(\d+\.\d+)(?=[\],]|$)", cell)
    deeper = [f"{number} Deeper" for number in re.findall(r"\[(?:lesson )?(\d+), Deeper\]", cell)]
    return sorted([*numbered, *deeper, *re.findall(r"\[lesson (\d+)\]", cell)])


def lesson_of(section):
    return re.match(r"\d+", section)[0]


def test_every_misconception_is_in_the_index_with_the_section_that_settles_it():
    index = {holds: linked(where) for _, holds, where in table("Index of misconceptions")}
    for row in coverage():
        if re.match("[A-Z]", row["id"]):
            named, wanted = index.pop(row["sentence"]), set(filter(None, row["section"].split("; ")))
            # A link to a whole lesson names all its sections.
            assert named == sorted({s if s in named else lesson_of(s) for s in wanted}), row
    assert not index, "no row of coverage.csv says these"


def test_every_term_of_the_glossary_is_in_its_section():
    texts, rows = sections(), table("Glossary")
    terms = [term for term, _, _ in rows]
    assert len(terms) > 60 and terms == sorted(terms, key=str.lower) and len(set(terms)) == len(terms)
    for term, meaning, where in rows:
        word = re.split(r", | \(", term)[0].lower()
        assert len(meaning) > 15 and linked(where), f"{term}: no meaning or no section"
        assert all(word in texts[section].lower() for section in linked(where)), f"{term} is not in {where}"


def test_every_fault_of_the_table_has_its_place():
    rows, places = table("Faults and what shows them"), sections()
    assert len(rows) > 20 and len({fault for fault, _, _ in rows}) == len(rows)
    for fault, where, shows in rows:
        assert linked(where) and set(linked(where)) <= set(places) and len(shows) > 10, fault
    treated = {lesson_of(place) for _, where, _ in rows for place in linked(where)}
    lost = {str(number) for number in range(3, 15)} - treated
    assert not lost, f"The table of faults of lesson 14 has no row for the clinic of lesson {', '.join(sorted(lost))}."


def test_links_name_the_section_they_lead_to():
    text = "\n".join(cell.source for cell in read(CLINIC).cells if cell.type == "markdown")
    for number, file, anchor in re.findall(r"\[(\d+\.\d+)\]\(([\w.]*)#([^)\s]+)\)", text):
        assert anchor.startswith(f"{number}-"), (number, anchor)
        assert not file or int(file[:2]) == int(number.split(".")[0]), (number, file)
    for number, file in re.findall(r"\[lesson (\d+)\]\((\d+)_\w+\.ipynb\)", text):
        assert int(number) == int(file), (number, file)

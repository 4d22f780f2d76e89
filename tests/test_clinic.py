"""Lesson 14's glossary and index: every link leads to a section that speaks of it, and the index is coverage.csv."""

import re

import pytest

from coursebuild.source import read
from tests.helpers import ROOT, SOURCES
from tests.test_lessons import coverage, outside_fences

CLINIC = next((path for path in SOURCES if path.stem == "14_clinic"), None)
pytestmark = pytest.mark.skipif(CLINIC is None, reason="lesson 14 is not there yet")


def sections():
    """Return {"4.2": text of that section, "4 Deeper": text of its optional end} for all lessons."""
    found = {}
    for path in SOURCES:
        text = "\n".join(cell.source for cell in read(path).cells)
        parts = re.split(r"^## (\d+\.\d+) ", text, flags=re.MULTILINE)
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
        deeper = re.search(r"^## Deeper (.*?)^## On your own", text, re.MULTILINE | re.DOTALL)
        if deeper:
            found[f"{int(path.stem[:2])} Deeper"] = deeper[1]
    return found


def table(title):
    """Return the rows of the table in the section of lesson 14 that is called title, without its head."""
    text = "\n".join(cell.source for cell in read(CLINIC).cells if cell.type == "markdown")
    section = re.search(rf"^## 14\.\d+ {title}$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    rows = [line for line in outside_fences(section[1]) if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def linked(cell):
    """Return the sections that a cell names: [4.2](...), or [lesson 4, Deeper](...) for an optional end."""
    numbered = re.findall(r"(?<![\w.])(\d+\.\d+)(?=[\],]|$)", cell)
    return sorted([*numbered, *(f"{number} Deeper" for number in re.findall(r"\[(?:lesson )?(\d+), Deeper\]", cell))])


def test_every_misconception_is_in_the_index_with_the_section_that_settles_it():
    index = {holds: linked(where) for _, holds, where in table("The Clinic's index of misconceptions")}
    wanted = {
        row["sentence"]: sorted(filter(None, row["section"].split("; ")))
        for row in coverage()
        if re.match("[A-Z]", row["id"])
    }
    assert index == wanted


def test_every_term_of_the_glossary_stands_in_its_section():
    texts, rows = sections(), table("Glossary")
    terms = [term for term, _, _ in rows]
    assert len(terms) > 60 and terms == sorted(terms, key=str.lower) and len(set(terms)) == len(terms)
    for term, meaning, where in rows:
        word = re.split(r", | \(", term)[0].lower()
        assert len(meaning) > 15 and linked(where), f"{term}: no meaning or no section"
        assert all(word in texts[section].lower() for section in linked(where)), f"{term} is not in {where}"


def test_links_name_the_section_they_lead_to():
    text = "\n".join(cell.source for cell in read(CLINIC).cells if cell.type == "markdown")
    for number, file, anchor in re.findall(r"\[(\d+\.\d+)\]\(([\w.]*)#([^)\s]+)\)", text):
        assert anchor.startswith(f"{number}-"), (number, anchor)
        assert not file or int(file[:2]) == int(number.split(".")[0]), (number, file)


def test_the_readme_links_glossary_and_index():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "14_clinic.ipynb#14.8-Glossary" in readme
    assert "14_clinic.ipynb#14.9-The-Clinic's-index-of-misconceptions" in readme

"""The reference: the sections that its glossary names speak of the term."""

import re
from functools import cache

from tests.helpers import REFERENCE, SOURCES, read
from tests.test_lessons import none_of, outside_fences


@cache
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


@cache
def table(title):
    """Return the rows of the table below the heading of the reference that is called title, without its head."""
    text = "\n".join(cell.source for cell in read(REFERENCE).cells) + "\n## "
    section = re.search(rf"^## {title}$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    rows = [line for line in outside_fences(section[1]) if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def linked(cell):
    """Return the places that a cell names: "4.2", "4 Deeper" or, for a whole lesson, "9"."""
    numbered = re.findall(r"(?<![\w.])(\d+\.\d+)(?=[\],]|$)", cell)
    deeper = [f"{number} Deeper" for number in re.findall(r"\[(?:lesson )?(\d+), Deeper\]", cell)]
    return sorted([*numbered, *deeper, *re.findall(r"\[lesson (\d+)\]", cell)])


def test_every_term_of_the_glossary_is_in_its_section():
    rows, odd = table("Glossary"), []
    assert rows == sorted(rows, key=lambda row: row[0].lower()), "the terms stand in order"
    for term, _, where in rows:
        word = re.split(r", | \(", term)[0].lower()
        has = [other for other, text in sections().items() if word in text.lower()]
        odd += [f"{term} is not in {place}; it is in {', '.join(has)}" for place in linked(where) if place not in has]
    none_of(odd, "These terms are not where the glossary says:")

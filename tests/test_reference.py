"""The reference: the sections that its glossary names speak of the term."""

import re

from tests.helpers import REFERENCE, SOURCES, read
from tests.test_lessons import none_of


def text(path):
    return "\n".join(cell.source for cell in read(path).cells)


def test_every_term_of_the_glossary_is_in_its_section():
    glossary = re.search(r"^## Glossary$(.*?)(?=^## |\Z)", text(REFERENCE), re.MULTILINE | re.DOTALL)[1]
    rows, odd, lessons = re.findall(r"^\| (.+?) \| (.*)", glossary, re.MULTILINE)[1:], [], {p.stem: p for p in SOURCES}
    assert len(rows) > 50 and rows == sorted(rows, key=lambda row: row[0].lower()), "the terms stand in order"
    for term, cells in rows:
        word = re.split(r", | \(", term)[0].lower()
        for stem, anchor in re.findall(r"\((\d\d_\w+)\.ipynb#(\S+)\)", cells):
            heading = re.escape(anchor).replace(r"\-", "[- ]")
            section = rf"^##+ {heading}$(.*?)(?=^## |\Z)"
            there = stem in lessons and re.search(section, text(lessons[stem]), re.MULTILINE | re.DOTALL)
            if not there or word not in there[0].lower():
                odd.append(f"{term} is not in {stem}, {anchor}" if there else f"{term}: there is no {stem}, {anchor}")
    none_of(odd, f"These terms are not where the glossary of {REFERENCE.name}/lesson.py says:")

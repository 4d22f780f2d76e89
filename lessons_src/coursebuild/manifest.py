"""The manifest: what the course knows of a lesson, made from its source, with the minutes that its sections take.

Minutes are a model, the same for every lesson: reading at 100 words a minute (prose with formulas), 4 s for each line
of code that is not folded, 45 s a figure, a minute a prediction or recall question, a minute and a half for what a
"**Find out" lets one try, and 1.9 times the minutes on an exercise's card, 2.5 times on paper: the card says what the
exercise itself takes, the rest goes into finding the way and being wrong.
Calibrated on trials of all lessons as three kinds of learners would. Folded code and <details> do not count, nor the
cell that leads back in a new kernel. Optional, and not part of the core, is a cell with the tag `optional`, an exercise
among them, a paragraph whose bold first words say "(optional", and a section whose heading says so, up to the next
heading of the same or a higher level.
"""

import ast
import json
import re
from collections import Counter

from coursebuild.source import blank, parse
from lessonkit.course import CARD, Check, Code, Exercise, Lesson, Question, Section, Text, stored

FOLDER = "lessons_src/lessonkit/course"
HEADING = re.compile(r"^```.*?^```|^(#+) ([^\n]+)$", re.MULTILINE | re.DOTALL)  # what is in a fence is none
HINT = re.compile(r"<details><summary>Hint</summary>\s*(.*?)\s*</details>\s*", re.DOTALL)
CALL = re.compile(r"check\.([a-z]\w*)\((.+)\)")
PRINTED = re.compile(r"\*About (\d+) min(?:, in two sittings of (\d+) and (\d+))?\b")  # in a lesson's frame
DRAWS = re.compile(r"\b(?:plot\.(?:blocks|cubes|figure|lines|panels)|evidence\.show|Picture)\(")
FIND_OUT = re.compile(r"\*\*Find out[:,]\*\* (.+)")  # a task that one tries
DOING = {"questions": 1, "tries": 1.5, "exercises": 1.9, "paper": 2.5}  # the learner answers, tries or writes
MINUTES = {"words": 1 / 100, "code": 4 / 60, "figures": 0.75} | DOING


def lesson(source):
    """Return the Lesson of a Source: what its notebooks hold, and what this means."""
    sections = []
    for cell in source.cells:
        if cell.made:
            continue
        last = next((item for section in sections[-1:] for item in section.items[-1:]), None)
        if cell.type == "markdown":
            _text(source, sections, cell, last)
        elif "exercise" in cell.tags:
            sections[-1].items.append(_exercise(source, cell, sections[-1].optional))
        elif "check" in cell.tags and isinstance(last, Exercise):
            last.checks.append(_check(source, cell))
        else:
            folded, tags = "hide-input" in cell.tags, [tag for tag in cell.tags if tag != "hide-input"]
            sections[-1].items.append(Code(cell.id, cell.source, folded=folded, tags=tags))
    for section in sections:
        section.minutes, section.aside = (round(minutes(counted), 3) for counted in counts(section))
    printed = PRINTED.search("\n".join(sections[0].texts))
    title = sections[0].heading.partition(" · ")[2]
    return Lesson(source.stem, title, int(printed[1]) if printed else 0, sections)


def divide(sections, markdown, tags=()):
    """Add Markdown to sections: each heading begins a new one, and what follows it is a Text."""
    heads = [head for head in HEADING.finditer(markdown) if head[1]]
    ends = [head.start() for head in heads] + [len(markdown)]
    pieces = [(None, markdown[: ends[0]])]
    pieces += [(head, markdown[head.end() : end]) for head, end in zip(heads, ends[1:], strict=True)]
    for head, text in pieces:
        if head:
            level = len(head[1])
            above = next((section for section in reversed(sections) if section.level < level), None)
            optional = "(optional" in head[2] or bool(above and above.optional)
            under = next((section for section in reversed(sections) if section.level <= 2), None) if level > 2 else None
            sections.append(Section(head[2], level, optional, under.title if under else ""))
        if text.strip():
            sections[-1].items.append(Text(text.strip(), list(tags)))


def _text(source, sections, cell, last):
    """Add a Markdown cell to sections. last: the item before it, which its hint belongs to if that is an exercise."""
    markdown = blank(source, cell)[0].removesuffix(cell.asked)
    hint = HINT.search(markdown) if isinstance(last, Exercise) else None
    if hint:
        last.hint = hint[1]
        markdown = markdown[: hint.start()] + markdown[hint.end() :]
    divide(sections, markdown, cell.tags)
    if cell.question:
        sections[-1].items.append(cell.question)


def _exercise(source, cell, optional):
    learner, solution = blank(source, cell)
    number, dots, takes = CARD.search(cell.source).groups()
    nodes = (node for node in parse(source, cell) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    return Exercise(
        number,
        dots.count("●"),
        int(takes),
        learner,
        solution,
        tags=list(cell.tags),
        id=cell.id,
        optional=optional or "optional" in cell.tags,
        defines=[node.name for node in nodes],
    )


def _check(source, cell):
    call = CALL.fullmatch(cell.source.strip())
    if not call:
        source.fail(cell.line, "a check cell has one line, check.NAME(ANSWER). Write just that.")
    return Check(cell.id, cell.source, tags=list(cell.tags), name=call[1], argument=call[2])


def counts(section):
    """Return (what counts in a Section, what counts in its optional pieces): how many of each of MINUTES.

    In a section that is optional as a whole there are no such pieces.
    """
    main, aside = Counter(words=_words(section.heading)), Counter()
    for item in section.items:
        into = aside if "optional" in item.tags and not section.optional else main
        match item:
            case Text():
                for block in re.sub(r"<details>.*?</details>", "", item.text, flags=re.DOTALL).split("\n\n"):
                    bold = re.match(r"\*\*[^*]*\(optional", block) and not section.optional
                    (aside if bold else into).update(words=_words(block), tries=len(FIND_OUT.findall(block)))
            case Question():
                into.update(questions=1, words=_words(item.markdown))
            case Exercise():
                into.update({kind_of(item): item.minutes, "code": sum(map(_lines, [item, *item.checks]))})
            case Code():
                unread = item.folded or "way-back" in item.tags
                into.update(figures=len(DRAWS.findall(item.source)), code=0 if unread else _lines(item))
    return main, aside


def minutes(counted, each=MINUTES):
    """Return the minutes of what counts() has counted, of those kinds that each, {kind: minutes}, has."""
    return sum(takes * counted[kind] for kind, takes in each.items())


def kind_of(exercise):
    """Return which of MINUTES counts an Exercise: one on paper asks for no function and no class."""
    return "exercises" if exercise.defines else "paper"


def _lines(cell):
    return sum(bool(line.strip()) for line in cell.source.split("\n"))


def _words(block):
    plain = re.sub(r"!\[.*?\]\(.*?\)|\]\([^)]*\)", "", block)  # a link counts by its words, not by its address
    return len(re.findall(r"[A-Za-z0-9$\\]+[^\s]*", plain))


def files(sources):
    """Return {path: text} of what the kit gets of all lessons; nothing of one that runs without it."""
    tables = {}
    for source in [source for source in sources.lessons if not source.alone]:
        with sources.stopping():
            table, solutions = stored(lesson(source))
            folder, name = source.root / FOLDER, f"{source.stem}.json"
            tables |= {folder / name: table, folder / "solutions" / name: solutions}
    return {path: json.dumps(content, indent=1, ensure_ascii=False) + "\n" for path, content in tables.items()}

"""Which slides a lesson gives: a talk by what is seen, in the order of the notebook, with what is said as its notes.

README.md says what has a slide. All other words are notes of the slide that they lead to; those in folds, of the slide
that they are about. A rule is a paragraph that is bold as a whole. Tags correct the choice: `no-slide`, `slide`.
"""

import ast
import base64
import html
import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from lessonkit.course import Exercise, Question, Section, Text
from teaching.material import Explorable, Figure, in_class, pictures
from teaching.slides import render

LEFT_OUT = {
    "no-slide",
    "optional",
    "no-site",
    "way-back",
}  # the last two are for a notebook, how to use it and its kernel
AFTER = ("On your own", "Deeper", "Further reading")  # sections for those who go on by themselves
GOALS = re.compile(r"\*\*You'll be able to\*\*\n((?:- .*\n?)+)")
KINDS = {"|": "table", "- ": "list", "1. ": "list", "$$": "formula"}  # by the beginning of a block
IMPORTS = re.compile(r"(?:import|from) .*(?:\n+(?:import |from |#).*)*\n*")  # at the head of a cell, no slide
DEFINES = re.compile(r"^(?:def|class) |\blambda\b", re.MULTILINE)
FIND_OUT = "**Find out"  # so the text below an explorable begins
FRAME = Path(__file__).with_name("frame.mjs")
TABLE = 7  # rows of a table on a slide; twice as many are on two
ROWS = 16  # lines of code and output on a slide: as many as are 24 pixels high
FEW = 3  # lines of output that stand with the answer
WIDE = 1.9  # a picture is wide, and has the slide for itself, if it has that many times its height
CONTEXT = 320  # letters of a paragraph that are shown above a question


@dataclass
class Slide:
    """One slide. kind: its CSS class. section: the Section that it belongs to. body, notes: HTML; notes: the speaker's.

    picture: the Figure or Explorable that is shown before the body, or None. item: the Question or Exercise it shows.
    """

    kind: str
    section: Section | None
    body: str
    notes: str = ""
    picture: Figure | Explorable | None = None
    item: object = None


def slides(lesson):
    """Return the Slides of a lesson, in order."""
    return _Deck(lesson).slides


def numbers(lesson):
    """Return {heading of a section, name of a question or exercise: [numbers of its slides]}; "" is the beginning.

    An answer's slide is its section's, not its question's.
    """
    table = defaultdict(list)
    for number, slide in enumerate(slides(lesson), 1):
        names = [slide.item.name] if slide.item else []
        for key in [slide.section.heading if slide.section else "", *names]:
            table[key].append(number)
    return dict(table)


class _Deck:
    def __init__(self, lesson):
        self.slides, self.section, self.says, self.waits = [], None, [], None
        self.title(lesson)
        for section in lesson.sections:
            if section.optional or section.title.startswith(AFTER):
                continue
            if section.level == 2:
                self.leave()
                self.section = section
            for item in section.items:
                if not LEFT_OUT & set(item.tags):
                    {Text: self.text, Question: self.ask, Exercise: self.exercise}.get(type(item), self.code)(item)
        self.leave()

    def add(self, kind, body, notes="", picture=None, item=None):
        """Add a slide. What was said since the last one comes first in its notes."""
        before = "".join(map(render.spoken, self.says))
        self.slides.append(Slide(kind, self.section, body, before + notes, picture, item))
        self.says = []

    def leave(self):
        """End a section: it has a slide, and what is said at its end stands in the notes of its last one."""
        self.answer()
        if self.section and all(slide.section is not self.section for slide in self.slides):
            first = next((block for block in self.says if not block.startswith("<")), "")
            self.add("text", f"<h2>{render.inline(self.section.title)}</h2>{render.markdown(first)}")
        self.slides[-1].notes += "".join(map(render.spoken, self.says))
        self.says = []

    def title(self, lesson):
        head = f"<p class='number'>{lesson.number}</p><h1>{render.inline(lesson.name)}</h1>"
        head += f"<p class='about'>{render.inline(lesson.about)}</p>" if lesson.about else ""
        self.add("title", f"<div class='words'>{head}</div>", picture=next(iter(pictures(lesson)), None))
        goals = next(filter(None, map(GOALS.search, lesson.texts)), None)
        if goals:
            self.add("goals", f"<h2>You'll be able to</h2>{render.markdown(goals[1])}")

    def text(self, item):
        if "slide" in item.tags:
            return self.add("text", render.markdown(item.text))
        for block in render.blocks(GOALS.sub("", item.text)):
            if block.startswith(FIND_OUT) and self.slides[-1].kind == "explorable":
                self.slides[-1].body += f"<div class='words'>{render.markdown(block)}</div>"
            elif block.startswith("<details>"):
                (self.slides[-1] if self.slides[-1].section is self.section else self.slides[0]).notes += block
            elif kind := _kind(block):
                if kind == "rule":  # it concludes from the answer
                    self.answer()
                before = self.says.pop() if self.says and self.says[-1].endswith((":", "**")) else ""
                for part in _parts(block):
                    self.add(kind, render.markdown(f"{before}\n\n{part}"))
            else:
                self.says.append(block)

    def ask(self, item):
        self.answer()
        code = [at for at, block in enumerate(self.says) if block.startswith("<pre")]
        if code:  # what the question is about, though it prints nothing
            source, after = self.says[code[-1]], self.says[code[-1] + 1 :]
            del self.says[code[-1] :]
            self.add("patient", source)
            self.says = after
        context = self.says.pop() if self.says and _short(self.says[-1]) else ""
        options = "".join(f"<li><b>{a}</b> {render.inline(o['text'])}</li>" for a, o in item.by_letter.items())
        notes = "".join(
            f"<p><b>{letter}</b> {'right: ' if option['right'] else ''}{render.inline(option['reason'])}</p>"
            for letter, option in item.by_letter.items()
        )
        asked = f"<p class='label'>{item.name}</p>{render.markdown(item.asked)}"
        body = f"<div class='question'>{asked}<ul>{options}</ul></div>"
        self.add(item.kind.lower(), f"<div class='context'>{render.markdown(context)}</div>{body}", notes, item=item)
        self.waits = item
        if item.kind == "Recall":  # nothing that follows shows it
            self.answer()

    def answer(self, printed=""):
        """Show the right option of the question that waits, if one does, and below the question what a cell prints."""
        if item := self.waits:
            letter, option = next(pair for pair in item.by_letter.items() if pair[1]["right"])
            right = f"<p class='right'><b>{letter}</b> {render.inline(option['text'])}</p>"
            right += f"<p>{render.inline(option['reason'])}</p>"
            body = f"<div class='question'><p class='label'>{item.name}</p>{right}</div>"
            self.add("answer", f"<div class='context'>{render.markdown(item.asked)}</div>{printed}{body}")
            self.waits = None

    def exercise(self, item):
        """An exercise in points; its solution, in which its task stands, and its hint are for the speaker."""
        self.answer()
        points, source = render.asked(item)
        shown = "".join(f"<li>{render.inline(point)}</li>" for point in points)
        body = f"<ul>{shown}</ul>{render.code(source) if source else ''}"
        dots = f'<span class="dots" role="img" aria-label="difficulty {item.difficulty} of 5">{item.dots}</span>'
        minutes = round(in_class(item))  # as on the run sheet
        timer = f'<button class="timer" data-minutes="{minutes}">{minutes} min</button>'
        notes = render.code(item.solution)
        notes += f"<p>Hint:</p>{render.markdown(item.hint)}" if item.hint else ""
        self.add("exercise", f"<h2>{item.name} {dots}{timer}</h2>{body}", notes, item=item)

    def code(self, item):
        head = self.section is None and IMPORTS.match(item.source)
        own = render.narrow(item.source[head.end() :] if head else item.source)
        source = "" if item.folded or not own else render.code(own)
        lines = item.text.rstrip().splitlines()
        rows = sum(1 + len(row) // render.WIDE for row in own.splitlines())
        prepares = item.folded and self.section is None or head and not DEFINES.search(own)
        if lines and not prepares:
            shown = lines if len(lines) <= ROWS else [*lines[: ROWS - 1], "…"]
            fits = source if rows + len(shown) <= ROWS else ""
            part = _end(own, ROWS - len(shown)) if source and not fits else ""
            above = render.code(part) if part else fits
            printed = render.output("\n".join(shown))
            before = self.says[-1] if self.says else ""
            if not above and self.waits and len(shown) <= FEW:
                return self.answer(printed)
            if not above and before.count("\n") + len(shown) <= ROWS and (before[:4] == "<pre" or _short(before)):
                self.says.pop()  # output alone says nothing
                above = before if before[:4] == "<pre" else f"<div class='context'>{render.markdown(before)}</div>"
            self.add("outcome", above + printed, source if not fits else "")
            self.answer()
        elif "slide" in item.tags:
            self.add("patient", source)
        elif source and not item.outputs and not prepares:
            self.says.append(source)
        for output in item.outputs:
            if isinstance(output, Figure):
                self.add("figure", "", render.markdown(output.caption), output)
                self.answer()
            elif isinstance(output, Explorable):
                self.add("explorable", "", picture=output)


def _end(source, rows):
    """Return the last statements of code, of at most so many rows; "" if the last one is longer."""
    lines = source.splitlines()
    starts = (node.lineno - 1 for node in ast.parse(source).body)
    return next(("\n".join(lines[at:]) for at in starts if len(lines) - at <= rows), "")


def _short(block):
    return 0 < len(block) <= CONTEXT and not block.startswith("<")


def _kind(block):
    """Return the kind of a block that has a slide of its own, "" if it has none."""
    if re.fullmatch(r"\*\*(?:(?!\*\*).)+[.?]\*\*", block, re.DOTALL):
        return "rule"
    return next((kind for mark, kind in KINDS.items() if block.startswith(mark)), "")


def _parts(block):
    """Return a block in parts of a slide's size: a long table is cut, and a long formula has a line for each part."""
    if block.startswith("$$") and len(block) > 120 and "\\begin" not in block:
        return ["\n\n".join(f"$${part.strip(' $')}$$" for part in block.split("\\qquad"))]
    head, rows = block.splitlines()[:2], block.splitlines()[2:]
    if block.startswith("|") and len(rows) > TABLE:
        half = -(-len(rows) // 2)
        return ["\n".join([*head, *part]) for part in (rows[:half], rows[half:])]
    return [block]


def _frame(explorable):
    """Return source and alt text of an explorable's first picture, with letters for a room.

    It is an image: inline, its style would reach others.
    """
    command = ["node", FRAME, explorable.name, json.dumps(explorable.state), str(WIDE)]
    svg = subprocess.run(command, check=True, capture_output=True).stdout
    alt = html.unescape(re.search("<desc>(.+?)</desc>", svg.decode())[1])
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}", alt


def _alive(explorable):
    """Return the page of an explorable that moves, escaped: in one of its own, a hand's way has no scale of a slide."""
    state = html.escape(json.dumps(explorable.state))
    return html.escape(
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><link rel="stylesheet" href="theme/alive.css">
<main data-explore="{explorable.name}" data-state="{state}"></main>
<script defer src="theme/{explorable.name}.js"></script></html>"""
    )


def page(lesson, slides, picture):
    """Return the HTML of a deck. picture: a function that keeps a png and returns its path."""
    sections = "\n".join(_section(slide, picture) for slide in slides)
    title = html.escape(f"{lesson.number} · {lesson.title}")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="theme/reset.css"><link rel="stylesheet" href="theme/reveal.css">
<link rel="stylesheet" href="theme/code.css"><link rel="stylesheet" href="theme/deck.css"></head>
<body class="fitting" data-wide="{WIDE}"><div class="reveal"><div class="slides">
{sections}
</div></div>
<script src="theme/reveal.js"></script><script src="theme/notes.js"></script>
<script>window.MathJax = {{ startup: {{ typeset: true }}, options: {{ enableMenu: false }} }};</script>
<script src="theme/tex-svg.js"></script><script src="theme/deck.js"></script></body></html>
"""


def _section(slide, picture):
    shown = slide.picture
    image = ""
    if shown:
        source, alt = _frame(shown) if isinstance(shown, Explorable) else (picture(shown.png), shown.alt)
        image = f'<img src="{source}" alt="{html.escape(alt)}">'
        if slide.kind == "explorable":
            image += f'<div class="alive"><iframe title="{html.escape(alt)}" srcdoc="{_alive(shown)}"></iframe></div>'
    heading = slide.section.heading if slide.section and slide.kind not in ("figure", "explorable") else ""
    above = f'<p class="section">{render.inline(heading)}</p>' if heading else ""
    notes = f'<aside class="notes">{slide.notes}</aside>' if slide.notes else ""
    return f'<section class="{slide.kind}"><div class="fit">{above}{image}{slide.body}</div>{notes}</section>'

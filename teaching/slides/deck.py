"""Which slides a lesson gives: goals, questions, what happens, figures, tables, formulas, exercises, take-away.

What a cell prints or draws is shown, with the sentence that leads to it and what the text reads from it. An author
corrects the choice with two tags: `no-slide` leaves a cell out, and `slide` shows one that would be left out, a text as
it is, a cell of code with what it puts out.
"""

import ast
import base64
import html
import itertools
import re
from dataclasses import dataclass

from lessonkit.course import Code, Exercise, Question, Section, Text
from teaching.material import Explorable, Figure
from teaching.slides import render

LEFT_OUT = {"no-slide", "way-back"}  # the latter repeats what a kernel of this class has
LONGEST = 14  # lines of code with its output; of a longer cell only the output is shown
MOST = 18  # lines of output on a slide
ABOVE = 11  # lines of code and output above a question that is about them
TASK = 22  # lines of an exercise on one slide
NARROW = 62  # letters in a line of code and output that has a question at its side
LONG = 700  # letters of text above a question
WIDE = 85  # letters of text in a line above a task
MATH = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
THESE = re.compile(r"\b[Hh]ere (?:is|are)\b|\bsuch rows\b")
AGAIN = re.compile(r"\bwhich line\b|\bits code again\b|\bfrom the beginning\b|\bof the opening\b")
ABLE = "**You'll be able to**"
GOALS = re.compile(rf"{re.escape(ABLE)}\n((?:- .*\n?)+)")
FINDING = re.compile(r"<details><summary>What there is to find</summary>(.+?)</details>", re.DOTALL)
DEFINES = re.compile(r"^(class|def) ", re.MULTILINE)
IMPORTS = re.compile(r"^(from|import) ", re.MULTILINE)


@dataclass
class Slide:
    """One slide. kind: its CSS class. section: the small line above. body, notes: HTML; only the speaker sees notes.

    picture: the Figure that is shown after the body, or None; after: HTML below it.
    """

    kind: str
    section: str
    body: str
    notes: str = ""
    picture: Figure | None = None
    after: str = ""


def slides(lesson):
    """Return the Slides of a lesson, in order."""
    return _Deck(lesson).made


class _Deck:
    def __init__(self, lesson):
        self.lesson, self.made = lesson, []
        self.section, self.optional, self.taking = "", False, False
        self.context = []  # paragraphs since the last heading, question or output: what the next one is about
        self.opening = ""  # the code that the lesson begins with
        self.question = None  # a prediction whose outcome has not been shown
        self.shown = []  # paragraphs of this section that are on a slide
        self.latest = None  # (the last slide, its lines, code and output, letters a line) until a text follows it
        self.title()
        for at, item in enumerate(lesson.parts):
            self.rest = lesson.parts[at + 1 :]
            self.following = self.next_read(self.rest)
            cell = next((other for other in self.rest if not isinstance(other, Text | Section)), None)
            self.asks = cell if isinstance(cell, Question) else None
            self.reading = self.read()
            if isinstance(item, Section):
                self.start(item)
            elif isinstance(item, Text):
                self.text(item)
            elif not LEFT_OUT & set(item.tags) and ("slide" in item.tags or not self.optional):
                if "optional" not in item.tags or "slide" in item.tags:
                    {Question: self.ask, Exercise: self.exercise, Code: self.code}[type(item)](item)
        self.leave()

    @staticmethod
    def next_read(items):
        """Return the first item that somebody reads, None if there is none: not one that is folded and silent."""
        return next((item for item in items if not _silent(item)), None)

    def read(self):
        """Return the paragraphs that read what the item has shown: up to the next heading."""
        after = self.following
        if not isinstance(after, Text):
            return []
        text, *below = after.text.split(ABLE, maxsplit=1)
        found = render.blocks(text)
        following = self.next_read(self.rest[self.rest.index(after) + 1 :])
        if len(found) == 1 and not below and isinstance(following, Code | Exercise | Question):
            return []  # the only paragraph leads to what comes next
        return render.closed(found[:2])

    def add(self, kind, body, notes="", picture=None, after=""):
        self.made.append(Slide(kind, self.section, body, notes, picture, after))
        self.latest = None

    def title(self):
        goals = next(filter(None, map(GOALS.search, self.lesson.texts)), None)
        head = f"<p class='number'>{self.lesson.number}</p><h1>{render.inline(self.lesson.name)}</h1>"
        head += f"<p class='about'>{render.inline(self.lesson.about)}</p>" if self.lesson.about else ""
        self.add("title", head)
        if goals:
            self.add("goals", f"<h2>You'll be able to</h2>{render.markdown(goals[1])}")

    def text(self, item):
        if self.taking:
            return
        if "slide" in item.tags:
            self.add("text", render.markdown(item.text))
        elif not self.optional and not {"no-slide", "optional"} & set(item.tags):
            self.displayed(item.text)
        found = render.blocks(item.text)
        if found:
            self.latest = None
        self.context += [block for block in found if block not in self.shown]

    def displayed(self, body):
        """A slide for each displayed formula and each table of a text that the next question does not show."""
        found = render.blocks(body)
        about = render.last(found, 2) if self.asks and self.asks.kind == "Predict" else []
        asked = _squeezed("".join(about))
        for formula in render.formulas(body) if self.section else []:
            if any(_squeezed(part) not in asked for part in MATH.findall(formula)):
                self.add("formula", render.markdown(formula), render.markdown(body))
                self.shown += [one for one in found if _squeezed(one) in _squeezed(formula)]
        for at, block in enumerate(found):
            if block.startswith("|") and block not in about:
                self.add("table", render.markdown("\n\n".join(found[max(0, at - 1) : at + 1])), render.markdown(body))
                self.shown += found[max(0, at - 1) : at + 1]

    def start(self, section):
        """Begin what is below a heading."""
        if section.level == 1:
            return
        if section.level > 2:
            self.answer()
            self.context = []
            self.optional = self.optional or section.optional
            return
        self.leave()
        self.section = re.sub(r"\s*\(optional.*\)", "", section.heading)
        self.taking = section.title.startswith("Take-away")
        self.optional = section.optional or section.title.startswith(("On your own", "Further reading", "Deeper"))
        if self.taking:
            self.take_away("\n\n".join(section.texts))

    def leave(self):
        """End a section: it has a slide, and how it ends is in the notes of its last one."""
        self.answer()
        said = [one for one in self.context if not one.endswith(":")]
        ends = "" if self.optional or self.taking else render.markdown("\n\n".join(said[-2:]))
        if ends and self.section:
            if all(slide.section != self.section for slide in self.made):
                self.add("text", render.markdown("\n\n".join(render.closed(self.context)[-4:])))
            elif ends not in self.made[-1].notes:
                self.made[-1].notes += ends
        self.context, self.shown = [], []

    def take_away(self, body):
        """A slide with the points, and one with each displayed formula of the card."""
        points = re.findall(r"^(?:[-*]|\d+\.) .*(?:\n  .*)*", body, re.MULTILINE)
        for first in range(0, len(points), 6):
            self.add("take", f"<h2>Take-away</h2>{render.markdown(chr(10).join(points[first : first + 6]))}")
        for table in (block for block in render.blocks(body) if block.startswith("|")):
            self.add("table", render.markdown(table))
        for formula in render.formulas(body):
            self.add("formula", render.markdown(formula))

    def ask(self, item):
        latest = self.latest
        self.answer()
        options = "".join(
            f"<li><b>{letter}</b> {render.inline(option['text'])}</li>" for letter, option in item.by_letter.items()
        )
        notes = "".join(
            f"<p><b>{letter}</b> {'right: ' if option['right'] else ''}{render.inline(option['reason'])}</p>"
            for letter, option in item.by_letter.items()
        )
        picture, side = None, ""
        if item.kind == "Predict":
            again = self.opening if AGAIN.search("\n".join([*self.context, item.text])) else ""
            about = render.markdown("\n\n".join(self.about())) + again + self.given(item)
            if latest and latest[0] is self.made[-1]:  # the question is about what was just shown
                last, lines, shown, wide = latest
                picture = last.picture
                side = shown if lines > ABOVE and wide <= NARROW else ""
                if not picture and lines <= ABOVE and not last.after and "class='answer'" not in last.body:
                    about = last.body.replace("class='fragment'", "") + about
                    notes += last.notes
                    self.made.pop()
        else:
            about = ""
        body = f"<div class='context'>{about}</div>" if about else ""
        body += f"<div class='question'>{_asked(item)}<ul>{options}</ul></div>"
        if side:
            body = f"<div class='shown'>{side}</div><div class='words'>{body}</div>"
        self.add(item.kind.lower() + " beside" * bool(picture or side), body, notes, picture)
        self.question, self.context = item, []
        if item.kind == "Recall" or picture:  # nothing that follows will show it
            self.answer(picture)

    def about(self):
        """Return the paragraphs that a question needs; where they are long, all but the last get a slide before it."""
        found, ends = (render.closed(render.last(self.context, most)) for most in (2, 1))
        if sum(map(len, found)) <= LONG:
            return found
        ends = ends if sum(map(len, ends)) <= LONG else []
        self.add("text", render.markdown("\n\n".join(render.closed(found[: len(found) - len(ends)]))))
        return ends

    def given(self, item):
        """Return the numbers that a question names and that the cell after it begins with."""
        cell = self.following
        if not isinstance(cell, Code) or cell.folded:
            return ""
        begin = list(itertools.takewhile(_numbers, ast.parse(cell.source).body))
        names = [part.id for one in begin for part in ast.walk(one.targets[0]) if isinstance(part, ast.Name)]
        text = "\n".join([*self.context, item.text])
        if not any(re.search(rf"[`$]{name}\b", text) for name in names) and not THESE.search(text):
            return ""
        return render.code(cell.source, slice(begin[-1].end_lineno)) if begin else ""

    def right(self):
        """Return the HTML of the right option of the question that waits, and forget the question."""
        if self.question is None:
            return ""
        item, self.question = self.question, None
        letter, option = next(pair for pair in item.by_letter.items() if pair[1]["right"])
        text = f"<p><b>{letter}</b> {render.inline(option['text'])}</p><p>{render.inline(option['reason'])}</p>"
        return f"<div class='answer'><p class='label'>{item.name}</p>{text}</div>"

    def answer(self, picture=None):
        """Show the right option of a question by itself, where nothing was run to show it."""
        if self.question is not None:
            item = self.question
            asked = render.markdown(item.asked)
            kind = f"outcome {item.kind.lower()}" + " beside" * bool(picture)
            self.add(kind, f"<div class='asked'>{asked}</div>{self.right()}", picture=picture)

    def exercise(self, item):
        self.answer()
        about, ends = (render.closed(render.last(self.context, most)) for most in (3, 1))
        room = max(1, TASK - 2 - len(item.task.splitlines()))
        above = next((some for some in (about, ends) if sum(1 + len(one) // WIDE for one in some) <= room), [])
        if about and not above and all(slide.section != self.section for slide in self.made):
            self.add("text", render.markdown("\n\n".join(about)))
        head = f'{item.name} <span class="dots" role="img" aria-label="difficulty {item.difficulty} of 5">'
        head += f"{item.dots}</span>"
        timer = f'<button class="timer" data-minutes="{item.minutes}">{item.minutes} min</button>'
        lead = "\n\n".join(above)
        lead = f"<div class='context'>{render.markdown(lead)}</div>" if lead else ""
        notes = f"<p>Solution:</p>{render.code(render.own(item.solution, item.task))}"
        notes += f"<p>Hint:</p>{render.markdown(item.hint)}" if item.hint else ""
        notes += render.markdown("\n\n".join(about))
        lines = item.task.splitlines()
        parts = _parts(lines, 0, len(lines))
        for number, rows in enumerate(parts, 1):
            count = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
            self.add("exercise", f"<h2>{head}{count}{timer}</h2>{lead}{render.code(item.task, rows)}", notes)
        self.context = []

    def patient(self, item):
        """Whether a cell is the code that an opening, a question or a clinic is about: it is read, and not run."""
        about = self.asks or not self.section or "clinic" in f"{self.section} {self.lesson.name}".lower()
        return bool(DEFINES.search(item.source)) and about and not item.folded

    def begins(self, item):
        """Keep the code that the lesson begins with."""
        if not self.section and not item.folded and DEFINES.search(item.source):
            self.opening = render.code(item.source)

    def code(self, item):
        notes = "".join(render.markdown(one) for one in self.reading)
        lead = render.markdown("\n\n".join(self.context[:2] if not self.section else render.last(self.context, 1)))
        lead = f"<div class='context'>{lead}</div>" if lead else ""
        tagged, text = "slide" in item.tags, item.text.strip()
        then = self.following
        again = isinstance(then, Code) and not LEFT_OUT & set(then.tags) and _lines(item) <= _lines(then)
        if text and again and not tagged:
            return  # the next cell prints it once more
        prepares = item.folded and not self.section and IMPORTS.search(item.source)
        shown = render.output(_first(item.text.rstrip(), MOST, "…"))
        open_question = bool(self.context) and self.context[-1].endswith("?")
        if text and not self.section and item.folded and self.made[-1].kind == "patient":
            self.made[-1].after += shown  # what the code above does, run in a fold
        elif text and (tagged or not prepares):
            readable = tagged or item.source.count("\n") < LONGEST and not item.folded
            source = render.code(item.source) * readable
            self.begins(item)
            lines = [*(item.source.splitlines() * readable), *item.text.rstrip().splitlines()[:MOST]]
            both = source + shown
            after = self.right() or self.says()
            if open_question:  # time to think, until the next key
                shown, after = f"<div class='fragment'>{shown}{after}</div>", ""
            self.add("outcome", lead + source + shown, notes, after=after)
            self.latest = self.made[-1], len(lines), both, max(map(len, lines))
            self.context = []
        elif tagged and not item.figures or self.patient(item):
            self.begins(item)
            self.add("patient", lead + render.code(item.source), notes)
            lines = item.source.splitlines()
            self.latest = self.made[-1], len(lines), render.code(item.source), max(map(len, lines))
            self.context = []
        for figure in item.figures:
            small = render.caption(figure.caption)
            record = render.markdown(figure.caption) if small != figure.caption else ""
            below = f"<p class='caption'>{render.inline(small)}</p>"
            self.add("figure", "", notes + record, figure, below + self.right())
            self.latest = self.made[-1], 0, "", 0
            self.context = []

        for explorable in item.outputs:
            if isinstance(explorable, Explorable):
                self.play(explorable, lead)

    def play(self, explorable, lead):
        """A frame of what there is to play with, and beside it what there is to find out; the notes tell what."""
        text = self.following.text if isinstance(self.following, Text) else ""
        task = [block for block in render.blocks(text) if block.startswith("**Find out")][:1]
        finding = FINDING.search(text)
        svg = explorable.picture
        source = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
        described = re.search("<desc>(.+?)</desc>", svg)[1]
        frame = f'<img src="{source}" alt="{html.escape(html.unescape(described))}">'
        words = f"<div class='words'>{lead}{render.markdown(''.join(task))}</div>"
        self.add("play beside", frame + words, render.markdown(finding[1]) if finding else "")
        self.shown += task
        self.context = []

    def says(self):
        """Return the HTML of the paragraph that reads what is shown."""
        first, *then = self.reading or [""]
        if not first or first.startswith(render.LED) or then and then[0].startswith("$$"):
            return ""  # a formula has a slide with the sentence before it
        said = [first, *then] if first.endswith(":") else [first]
        self.shown += said
        said = "\n\n".join(said)
        return f"<div class='reading'>{render.markdown(said)}</div>"


def _silent(item):
    """Whether nobody reads a cell: it is folded and puts nothing out."""
    return isinstance(item, Code) and item.folded and not item.outputs


def _asked(item):
    """Return the HTML of a question without its options."""
    return f"<p class='label'>{item.name}</p>{render.markdown(item.asked)}"


def _squeezed(text):
    """Return a text without what breaks it into lines: blanks, the marks of a formula, and the gaps in it."""
    return re.sub(r"\s|\$\$|\\qquad", "", text)


def _lines(item):
    return {_squeezed(line) for line in item.text.splitlines()}


def _numbers(statement):
    """Whether a statement gives a name to a list of numbers, or to a tensor of them."""
    if not isinstance(statement, ast.Assign):
        return False
    parts = list(ast.walk(statement.value))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names <= {"torch"} and any(isinstance(part, ast.List) for part in parts)


def _parts(lines, start, stop):
    """Return slices of a task for one slide each: it is parted at the empty line that is nearest to its middle."""
    if stop - start <= TASK:
        return [slice(start, stop)]
    middle = (start + stop) // 2
    empty = [at for at in range(start + 1, stop - 1) if not lines[at].strip()]
    at = min(empty, key=lambda one: abs(one - middle), default=middle)
    return _parts(lines, start, at) + _parts(lines, at + (at in empty), stop)


def _first(text, most, rest):
    """Return a text of at most so many lines; `rest` stands for those that are left out."""
    lines = text.splitlines()
    return text if len(lines) <= most else "\n".join([*lines[: most - 1], rest])


def page(lesson, made, picture):
    """Return the HTML of a deck. made: its Slides. picture: a function that keeps a png and returns its path."""
    sections = "\n".join(_section(slide, picture) for slide in made)
    title = html.escape(f"{lesson.number} · {lesson.title}")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="theme/reset.css"><link rel="stylesheet" href="theme/reveal.css">
<link rel="stylesheet" href="theme/code.css"><link rel="stylesheet" href="theme/deck.css"></head>
<body class="fitting"><div class="reveal"><div class="slides">
{sections}
</div></div>
<script src="theme/reveal.js"></script><script src="theme/notes.js"></script>
<script>window.MathJax = {{ startup: {{ typeset: true }}, options: {{ enableMenu: false }} }};</script>
<script src="theme/tex-svg.js"></script><script src="theme/deck.js"></script></body></html>
"""


def _section(slide, picture):
    figure = slide.picture
    image = f'<img src="{picture(figure.png)}" alt="{html.escape(figure.alt)}">' if figure else ""
    above = f'<p class="section">{render.inline(slide.section)}</p>' if slide.section else ""
    notes = f'<aside class="notes">{slide.notes}</aside>' if slide.notes else ""
    body = f'<div class="words">{slide.body}</div>' if "beside" in slide.kind and figure else slide.body
    return f'<section class="{slide.kind}"><div class="fit">{above}{body}{image}{slide.after}</div>{notes}</section>'

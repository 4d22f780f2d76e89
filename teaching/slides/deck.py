"""Which slides a lesson gives: goals, questions, what happens, figures, formulas, exercises, take-away.

An author corrects the choice with two tags: `no-slide` leaves a cell out, and `slide` shows one that would be left
out, a text as it is, a cell of code with what it puts out.
"""

import html
import re
from dataclasses import dataclass

from coursebuild.questions import LETTERS
from teaching.material import Code, Exercise, Figure, Question, Text
from teaching.slides import render

LONGEST = 14  # lines of code beside its output; a longer cell is left in the notebook
MOST = 18  # lines of output on a slide
TASK = 26  # lines of an exercise
HEADING = re.compile(r"^(##+) (.*)$", re.MULTILINE)


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
        self.context = []  # paragraphs since the last heading or question: what a question is about
        self.question = None  # a prediction whose outcome has not been shown
        self.recalled = []
        self.title()
        for at, item in enumerate(lesson.items):
            rest = lesson.items[at + 1 :]
            self.asks = isinstance(next((other for other in rest if not isinstance(other, Text)), None), Question)
            after = next((other for other in rest if not isinstance(other, Code)), None)
            self.reading = render.blocks(after.markdown)[:2] if isinstance(after, Text) else []
            if isinstance(item, Text):
                self.text(item)
            elif "no-slide" not in item.tags and ("slide" in item.tags or not self.optional):
                if "optional" not in item.tags or "slide" in item.tags:
                    {Question: self.ask, Exercise: self.exercise, Code: self.code}[type(item)](item)
        self.answer()

    def add(self, kind, body, notes="", picture=None, after=""):
        self.made.append(Slide(kind, self.section, body, notes, picture, after))

    def title(self):
        texts = [item.markdown for item in self.lesson.items if isinstance(item, Text)]
        goals = next(
            (re.search(r"\*\*You'll be able to\*\*\n((?:- .*\n?)+)", text) for text in texts if "You'll" in text), None
        )
        head = f"<p class='number'>{self.lesson.number}</p><h1>{render.inline(self.lesson.name)}</h1>"
        head += f"<p class='about'>{render.inline(self.lesson.about)}</p>" if self.lesson.about else ""
        self.add("title", head)
        if goals:
            self.add("goals", f"<h2>You'll be able to</h2>{render.markdown(goals[1])}")

    def text(self, item):
        for part in re.split(r"(?=^##+ )", item.markdown, flags=re.MULTILINE):
            heading = HEADING.match(part)
            if heading:
                self.start(heading, part)
            body = part[heading.end() :] if heading else part
            if self.taking:
                continue
            if "slide" in item.tags:
                self.add("text", render.markdown(part))
            elif not self.optional and not {"no-slide", "optional"} & set(item.tags):
                for formula in render.formulas(body) if self.section else []:
                    self.add("formula", render.markdown(formula), render.markdown(body))
            self.context += render.blocks(body)

    def start(self, heading, part):
        """Begin what is below a heading."""
        self.answer()
        level, name = len(heading[1]), heading[2]
        self.context = []
        if level > 2:
            self.optional = self.optional or "(optional" in name
            return
        self.section = re.sub(r"\s*\(optional.*\)", "", name)
        self.taking = name.startswith("Take-away")
        self.optional = "(optional" in name or name.startswith(("On your own", "Further reading", "Deeper"))
        if self.taking:
            self.take_away(part[heading.end() :])

    def take_away(self, body):
        """A slide with the points, and one with each displayed formula of the card."""
        points = re.findall(r"^(?:[-*]|\d+\.) .*(?:\n  .*)*", body, re.MULTILINE)
        for first in range(0, len(points), 6):
            self.add("take", f"<h2>Take-away</h2>{render.markdown(chr(10).join(points[first : first + 6]))}")
        for formula in render.formulas(body):
            self.add("formula", render.markdown(formula))

    def ask(self, item):
        self.answer()
        options = "".join(
            f"<li><b>{letter}</b> {render.inline(option['text'])}</li>"
            for letter, option in zip(LETTERS, item.options, strict=False)
        )
        asked = render.markdown(item.text[:1].upper() + item.text[1:])
        about = render.markdown("\n\n".join(render.last(self.context, 2))) if item.kind == "Predict" else ""
        notes = "".join(
            f"<p><b>{letter}</b> {'right: ' if option['right'] else ''}{render.inline(option['reason'])}</p>"
            for letter, option in zip(LETTERS, item.options, strict=False)
        )
        body = f"<div class='context'>{about}</div>" if about else ""
        body += f"<div class='question'><p class='label'>{item.kind} {item.number}</p>{asked}<ul>{options}</ul></div>"
        self.add(item.kind.lower(), body, notes)
        self.question, self.context = item, []
        if item.kind == "Recall":
            self.answer()

    def right(self):
        """Return the HTML of the right option of the question that waits, and forget the question."""
        if self.question is None:
            return ""
        at = next(k for k, option in enumerate(self.question.options) if option["right"])
        option, self.question = self.question.options[at], None
        text = f"<b>{LETTERS[at]}</b> {render.inline(option['text'])}"
        return f"<div class='answer'><p>{text}</p><p>{render.inline(option['reason'])}</p></div>"

    def answer(self):
        """Show the right option of a question by itself, where nothing was run to show it."""
        if self.question is not None:
            name = f"{self.question.kind} {self.question.number}"
            asked = render.markdown(self.question.text[:1].upper() + self.question.text[1:])
            self.add(f"outcome {self.question.kind.lower()}", f"<p class='label'>{name}</p>{asked}{self.right()}")

    def exercise(self, item):
        waits, self.question = self.question, None  # the answer to a prediction is what the exercise finds
        dots = "●" * item.difficulty + "○" * (5 - item.difficulty)
        head = (
            f'<h2>Exercise {item.number} <span class="dots" role="img" aria-label="difficulty {item.difficulty} of 5">'
            f'{dots}</span><button class="timer" data-minutes="{item.minutes}">{item.minutes} min</button></h2>'
        )
        about = render.markdown("\n\n".join(render.last(self.context, 3)))
        if about and all(slide.section != self.section for slide in self.made):
            self.add("text", about)
        notes = f"{about}<p>Solution:</p>{render.code(item.solution)}"
        notes += f"<p>Hint:</p>{render.markdown(item.hint)}" if item.hint else ""
        task = render.code(_first(item.task, TASK, "# … the rest is in the notebook"))
        self.add("exercise", head + task, notes)
        self.question, self.context = waits, []

    def patient(self, item):
        """Whether a cell is the code that an opening, a question or a clinic is about: it is read, and not run."""
        defines = re.search(r"^(class|def) ", item.source, re.MULTILINE)
        about = self.asks or not self.section or "clinic" in f"{self.section} {self.lesson.name}".lower()
        return bool(defines) and about and not item.folded

    def code(self, item):
        notes = "".join(render.markdown(one) for one in self.reading)
        opening = "" if self.section else render.markdown("\n\n".join(self.context[:2]))
        tagged, text = "slide" in item.tags, item.text.strip() and not item.sliders
        shown = render.output(_first(item.text.rstrip(), MOST, "…"))
        breaks = not self.section and not item.folded  # what the lesson begins with
        if text and (self.question or breaks or tagged):
            readable = tagged or item.source.count("\n") < LONGEST and not item.folded
            self.add("outcome", opening + render.code(item.source) * readable + shown, notes, after=self.right())
            self.context = []
        elif text and not self.section and self.made[-1].kind == "patient":  # what the code above does, run in a fold
            self.made[-1].after += shown
        elif tagged and not item.figures or self.patient(item):
            self.add("patient", opening + render.code(item.source), notes)
            self.context = []
        for figure in item.figures:
            caption = f"<p class='caption'>{render.inline(figure.caption)}</p>"
            self.add("figure", "", notes, figure, caption + self.right())
            self.context = []


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
    return (
        f'<section class="{slide.kind}"><div class="fit">{above}{slide.body}{image}{slide.after}</div>{notes}</section>'
    )

"""One page a lesson: a notebook for myst-nb, whose boxes and folds are Markdown cells."""

import re

import nbformat

from coursebuild.questions import LETTERS
from teaching.material import Code, Exercise, Question, Text
from teaching.site import figures, sliders
from teaching.site.markdown import box, code, fold, prose

RIGHT, WRONG = "**Yes.**", "**Not quite.**"  # as check.predict begins


def page(lesson, links, save, frames):
    """Return the notebook that Sphinx makes the page of a lesson from.

    links: HTML below the title. save: a function that keeps a picture (bytes) and returns its path as the page sees
    it. frames: {id of a cell with sliders: what its positions show, see teaching.site.sweep}.
    """
    return _Page(lesson, links, save, frames).notebook()


class _Page:
    def __init__(self, lesson, links, save, frames):
        self.lesson, self.links, self.save, self.frames = lesson, links, save, frames
        self.cells = []
        self.folded = []  # sources of cells that show no code and have put out nothing so far: one fold for them all
        self.asked = ""  # "waits": a prediction, for what happens; "seen": the cells after it have shown something

    def notebook(self):
        for item in self.lesson.items:
            {Text: self.text, Question: self.question, Exercise: self.exercise, Code: self.code}[type(item)](item)
        self.unfold()
        made = nbformat.v4.new_notebook(cells=self.cells)
        made.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        }
        return made

    def add(self, markdown):
        self.unfold()
        self.cells.append(nbformat.v4.new_markdown_cell(markdown, id=f"site-{len(self.cells)}"))

    def unfold(self):
        if self.folded:
            sources, self.folded = self.folded, []
            self.add(fold("Show the code", code("\n\n\n".join(sources)), "code"))

    def text(self, item):
        markdown = prose(item.markdown)
        if not self.cells:
            head, _, rest = markdown.partition("\n")
            markdown = f"{head}\n\n{self.links}\n{rest}"
        heading = re.search(r"^#+ ", markdown, re.MULTILINE)
        if self.asked == "seen":  # what the lesson says of it tells which option was right
            reading = markdown[: heading.start()] if heading else markdown
            markdown = markdown[len(reading) :]
            if reading.strip():
                self.add(fold("Read what it means", reading, "outcome"))
        if self.asked == "seen" or heading:
            self.asked = ""
        if markdown.strip():
            self.add(markdown)

    def question(self, item):
        options = "\n\n".join(
            fold(
                f"{letter}. {option['text']}",
                f"**{'Yes' if option['right'] else 'Not quite'}.** {option['reason']}",
                "option",
            )
            for letter, option in zip(LETTERS, item.options, strict=False)
        )
        kind = item.kind.lower()
        title = f"{item.kind} {item.number}"
        anchor = f"({kind}-{item.number.replace('.', '-')})="
        body = f"{prose(item.asked)}\n\n{options}"
        self.add(f"{anchor}\n{box('admonition', title, body, class_=kind)}")
        if kind == "predict":
            self.asked = "waits"

    def exercise(self, item):
        answer = "\n\n".join([item.solution, *(check.source for check in item.checks)])
        said = "".join(check.text for check in item.checks)
        folds = [fold("Hint", prose(item.hint), "hint")] if item.hint else []
        solution = code(answer) + (f"\n\n{code(said, 'text')}" if said.strip() else "")
        folds.append(fold(f"Solution of exercise {item.number}", solution, "solution"))
        title = (
            f'Exercise {item.number} <span class="dots" role="img" aria-label="difficulty {item.difficulty} of 5">'
            f'{item.dots}</span> <span class="minutes">{item.minutes} min</span>'
        )
        body = "\n\n".join([code(item.task), *folds])
        self.add(f"(ex-{item.number.replace('.', '-')})=\n{box('admonition', title, body, class_='exercise')}")
        self.asked = ""

    def code(self, item):
        if item.folded:
            self.folded.append(item.source)
        if item.sliders:
            self.add(sliders.figure(self.frames[item.id], item.id))
            return
        if item.folded:
            shown = [self.output(out) for out in item.outputs]
        else:
            self.unfold()
            source = nbformat.v4.new_code_cell(item.source, id=item.id)
            source.outputs = [] if self.asked else self.streams(item)
            self.cells.append(source)
            shown = [self.output(out) for out in item.outputs if self.asked or not isinstance(out, str)]
        if shown and self.asked:
            self.add(fold("Show what happens", "\n\n".join(shown), "outcome"))
            self.asked = "seen"
        elif shown:
            self.add("\n\n".join(shown))

    def output(self, out):
        if isinstance(out, str):
            return code(out, "text")
        return figures.figure(out, self.save(out.png))

    def streams(self, item):
        texts = [out for out in item.outputs if isinstance(out, str)]
        return [nbformat.v4.new_output("stream", name="stdout", text="".join(texts))] if texts else []

"""One page a lesson: a notebook for myst-nb, whose boxes and folds are Markdown cells."""

import nbformat

from lessonkit.course import Exercise, Question, Section, Text
from teaching.material import Explorable
from teaching.site import explorables
from teaching.site.markdown import box, code, figure, fold, prose


def page(lesson, links, save):
    """Return the notebook that Sphinx makes the page of a lesson from.

    links: HTML below the title. save: a function that keeps a picture (bytes) and returns its path as the page sees
    it.
    """
    return _Page(lesson, links, save).notebook()


class _Page:
    def __init__(self, lesson, links, save):
        self.lesson, self.links, self.save = lesson, links, save
        self.cells = []
        self.folded = []  # sources of cells that show no code and have put out nothing so far: one fold for them all
        self.asked = ""  # the place of the prediction that waits for what happens
        self.seen = False  # whether the cells after it have shown something

    def notebook(self):
        kinds = {Section: self.section, Text: self.text, Question: self.question, Exercise: self.exercise}
        for part in self.lesson.parts:
            if not {"no-site", "way-back"} & set(getattr(part, "tags", ())):
                kinds.get(type(part), self.code)(part)
        self.unfold()
        notebook = nbformat.v4.new_notebook(cells=self.cells)
        notebook.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        }
        return notebook

    def add(self, markdown):
        self.unfold()
        self.cells.append(nbformat.v4.new_markdown_cell(markdown, id=f"site-{len(self.cells)}"))

    def unfold(self):
        if self.folded:
            sources, self.folded = self.folded, []
            self.add(fold("Show the code", code("\n\n\n".join(sources)), "code"))

    def section(self, section):
        self.asked = ""
        links = "" if self.cells else f"\n\n{self.links}"
        self.add(f"{'#' * section.level} {section.heading}{links}")

    def text(self, item):
        if self.asked and self.seen:  # what the lesson says of it tells which option was right
            self.outcome("Read what it means", prose(item.text))
            self.asked = ""
        else:
            self.add(prose(item.text))

    def question(self, item):
        body, kind = [prose(item.asked)], item.kind.lower()
        for letter, option in item.by_letter.items():
            verdict, which = ("Yes", "right") if option["right"] else ("Not quite", "wrong")
            title = f"{letter}. {option['text']}"
            body.append(fold(title, f"**{verdict}.** {option['reason']}", f"option lesson-option {which}"))
        self.boxed(kind, item, item.name, body)
        if kind == "predict":
            self.asked, self.seen = item.place, False

    def exercise(self, item):
        answer = "\n\n".join([item.solution, *(check.source for check in item.checks)])
        outputs = [output for cell in [item, *item.checks] for output in cell.outputs]
        printed = "".join(output for output in outputs if isinstance(output, str))
        solution = code(answer) + (f"\n\n{code(printed, 'text')}" if printed.strip() else "")
        hint = [fold("Hint", prose(item.hint), "hint")] if item.hint else []
        title = (
            f'Exercise {item.number} <span class="dots" role="img" aria-label="difficulty {item.difficulty} of 5">'
            f'{item.dots}</span> <span class="minutes">{item.minutes} min</span>'
        )
        body = [code(item.task), *hint, fold(f"Solution of exercise {item.number}", solution, "solution")]
        self.boxed("exercise", item, title, body)
        self.asked = ""

    def outcome(self, title, body):
        """Add a fold that opens when the prediction before it is answered, by its class (choices.mjs)."""
        self.add(fold(title, body, f"outcome after-{self.asked}"))

    def boxed(self, kind, item, title, body):
        """Add a box of a kind, which is its CSS class, with an anchor: "recall-6-1"."""
        text = box("admonition", title, "\n\n".join(body), class_=kind)
        self.add(f"({kind}-{item.number.replace('.', '-')})=\n{text}")

    def code(self, item):
        shown = item.outputs
        if item.folded:
            self.folded.append(item.source.strip("\n"))
        else:
            self.unfold()
            cell = nbformat.v4.new_code_cell(item.source, id=item.id)
            if item.text and not self.asked:
                cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=item.text)]
                shown = [out for out in shown if not isinstance(out, str)]
            self.cells.append(cell)
        shown = "\n\n".join(map(self.output, shown))
        if shown and self.asked:
            self.outcome("Show what happens", shown)
            self.seen = True
        elif shown:
            self.add(shown)

    def output(self, out):
        if isinstance(out, str):
            return code(out, "text")
        if isinstance(out, Explorable):
            return explorables.place(out.name, out.state, out.picture)
        return figure(out, self.save(out.png))

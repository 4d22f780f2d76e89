"""A built lesson as material to teach with: its texts, questions, exercises, code and figures, in order.

Read from both editions in notebooks/ and from the questions' reasons, which coursebuild writes to lessonkit; no kernel.
The site and the slides are made from it.
"""

import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from coursebuild.editions import FOLDED
from coursebuild.frame import EXERCISE
from coursebuild.questions import ASKS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "teaching/node_modules"  # what pages load in a browser, as package.json says
HINT = re.compile(r"<details><summary>Hint</summary>\s*(.*?)\s*</details>\s*", re.DOTALL)
TURN = re.compile(r'^( *)raise check\.YourTurn\("[^"]*"\)$', re.MULTILINE)
ANSI = re.compile(r"\x1b\[[\d;]*m")
SLIDERS = "widgets.VBox("  # the last line of a cell with sliders begins so


@dataclass
class Figure:
    """A picture: png (bytes), alt (in words), caption (Markdown), width (CSS pixels on a page).

    numbers: what it draws, as CSV, "" for a diagram; rows: how many rows that would be if none were left out.
    """

    png: bytes
    alt: str
    caption: str
    width: int
    numbers: str = ""
    rows: int = 0


@dataclass
class Text:
    """Markdown, with links as the learner edition has them."""

    markdown: str
    tags: list = field(default_factory=list)


@dataclass
class Question:
    """A prediction or a recall question. options: [{"text", "reason", "right"}], all Markdown."""

    kind: str
    number: str
    text: str
    options: list
    tags: list = field(default_factory=list)

    @property
    def asked(self):
        """The text with a capital letter at its beginning, where that is a letter."""
        return self.text[:1].upper() + self.text[1:]


@dataclass
class Code:
    """A code cell and what it puts out: texts and Figures, in order. folded: JupyterLab shows the outputs only."""

    id: str
    source: str
    outputs: list
    folded: bool
    tags: list = field(default_factory=list)

    @property
    def figures(self):
        return [out for out in self.outputs if isinstance(out, Figure)]

    @property
    def text(self):
        return "".join(out for out in self.outputs if isinstance(out, str))

    @property
    def sliders(self):
        """Whether the cell ends with widgets that need a kernel."""
        lines = self.source.rstrip().splitlines()
        return bool(lines) and lines[-1].startswith(SLIDERS)


@dataclass
class Exercise:
    """An exercise: task is the learner's cell without its card, solution the course's; hint is Markdown or "".

    checks: the Code cells that try the answer.
    """

    number: str
    difficulty: int
    minutes: int
    task: str
    solution: str
    hint: str = ""
    checks: list = field(default_factory=list)
    tags: list = field(default_factory=list)

    @property
    def dots(self):
        """Its difficulty as its card shows it: "●●○○○"."""
        return "●" * self.difficulty + "○" * (5 - self.difficulty)


@dataclass
class Lesson:
    """One lesson. title: without its number. digest: changes whenever the notebooks do. items: what it consists of."""

    stem: str
    title: str
    digest: str
    items: list

    @property
    def number(self):
        return int(self.stem[:2])

    @property
    def name(self):
        """The title up to its colon: "LayerNorm and BatchNorm"."""
        return self.title.partition(":")[0]

    @property
    def about(self):
        """The title after its colon: "who shares a mean with whom"."""
        return self.title.partition(":")[2].strip()


def stems(root=ROOT):
    """Return the stems of all lessons that are built, in order: "01_why_normalize", ...

    Lesson 0, which is a course of its own for one hour, has no slides, run sheet and page yet.
    """
    stems = sorted(path.stem for path in (root / "notebooks/solutions").glob("[0-9][0-9]_*.ipynb"))
    return [stem for stem in stems if not stem.startswith("00")]


def read(stem, root=ROOT):
    """Return the Lesson that is built under this stem.

    Raises ValueError where the two editions are not of one build.
    """
    solutions = nbformat.read(root / f"notebooks/solutions/{stem}.ipynb", as_version=4)
    learner = nbformat.read(root / f"notebooks/{stem}.ipynb", as_version=4)
    if [cell.id for cell in solutions.cells] != [cell.id for cell in learner.cells]:
        raise ValueError(f"The two editions of {stem} are not of one build. Run `make notebooks`.")
    title = re.match(r"# \d+ · (.+)", learner.cells[0].source)
    if not title:
        raise ValueError(f"{stem} does not begin with '# number · title', but with {learner.cells[0].source[:40]!r}.")
    reasons = json.loads((root / f"lessons_src/lessonkit/check/questions/{stem[3:]}.json").read_text(encoding="utf-8"))
    items = []
    for cell, twin in zip(solutions.cells, learner.cells, strict=True):
        _add(items, cell, twin.source, reasons)
    return Lesson(stem, title[1], solutions.metadata["lesson"]["digest"], items)


def _add(items, cell, learner, reasons):
    """Add what a cell is to the items before it. learner: its learner edition, with shorter links."""
    tags = list(cell.metadata.get("tags", []))
    last = items[-1] if items else None
    if cell.id.startswith("card-") or cell.id in ("how-far", "what-next") or "predict" in tags:
        return  # they repeat the exercise, look at answers, or lead to the next notebook
    if cell.cell_type == "markdown":
        text, question = _split(learner, reasons, tags)
        hint = HINT.search(text) if isinstance(last, Exercise) else None
        if hint:
            last.hint = hint[1]
            text = text[: hint.start()] + text[hint.end() :]
        items += [Text(text.strip(), tags)] * bool(text.strip()) + [question] * bool(question)
        return
    code = Code(
        cell.id,
        cell.source.removeprefix(f"{FOLDED}\n").strip("\n"),
        _outputs(cell),
        bool(cell.metadata.get("jupyter", {}).get("source_hidden")),
        tags,
    )
    card = EXERCISE.search(cell.source) if "exercise" in tags else None
    if card:
        task = TURN.sub(r"\1...  # your answer", EXERCISE.sub("", learner)).strip("\n")
        solution = EXERCISE.sub("", code.source).strip("\n")
        items.append(Exercise(card[1], card[2].count("●"), int(card[3]), task, solution, tags=tags))
    elif "check" in tags and isinstance(last, Exercise):
        last.checks.append(code)
    else:
        items.append(code)


def _split(text, reasons, tags):
    """Return (the Markdown before a question, the Question or None)."""
    lines = text.split("\n")
    at = next((k for k, line in enumerate(lines) if ASKS.match(line)), None)
    if at is None:
        return text, None
    kind, number = ASKS.match(lines[at]).groups()
    asked = re.sub(r"\n\n- \*\*a\.\*\* .*", "", "\n".join(lines[at:]), flags=re.DOTALL)
    asked = asked.removeprefix(f"**{kind} {number}:** ").strip()
    return "\n".join(lines[:at]), Question(kind, number, asked, reasons[f"{kind} {number}"], tags)


def _outputs(cell):
    """Return the outputs of a cell: Figures with their captions, and all else as text."""
    found = []
    for out in cell.outputs:
        data = out.get("data", {})
        if out.output_type == "stream":
            found.append(ANSI.sub("", out.text))
        elif out.output_type == "error":
            found.append(f"{out.ename}: {out.evalue}\n")
        elif "image/png" in data:
            stored = out.metadata.get("image/png", {})
            words = data.get("text/plain", ""), "", stored.get("width", 770)
            numbers = stored.get("numbers", ""), stored.get("rows", 0)
            found.append(Figure(base64.b64decode(data["image/png"]), *words, *numbers))
        elif "text/markdown" in data and found and isinstance(found[-1], Figure) and not found[-1].caption:
            found[-1].caption = data["text/markdown"].strip().removeprefix("*").removesuffix("*")
        else:
            found.append(data.get("text/plain", "") + "\n")
    return found

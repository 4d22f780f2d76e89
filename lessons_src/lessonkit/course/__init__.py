"""What the course consists of: its lessons, their sections with their minutes, and in these the items in order.

coursebuild writes it from the lessons' sources, a file a lesson beside this one. What an exercise's own cell holds in
the solutions edition lies apart, in the folder solutions: a class on one machine and the grader's jail have all but
that folder.

    lessons()        {stem: Lesson}, in order
    pages()          the same, and the reference, which has no exercises and is no lesson
    checks()         {name of a check: (Lesson, Exercise)}
    answers()        {module of a lesson: {function or class: name of the check that takes it}}
    solved(stem)     a Lesson with the course's answers
"""

import functools
import json
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
LETTERS = "abcd"  # of a question's options
REFERENCE = "reference"  # the tag on the first cell of what is there to look things up, and is no lesson

# An exercise's card, the first line of its cell: "# Exercise 3.1 · ●●○○○ · 5 min". In a source it is whole; a learner
# may have changed what follows the number.
CARD = re.compile(r"^#[ \t]*Exercise[ \t]+(\d+\.\d+)\b(?: · ([●○]{5}) · (\d+) min$)?.*", re.MULTILINE)
TURN = re.compile(r'^( *)raise check\.YourTurn\("[^"]*"\)$', re.MULTILINE)
NUMBERED = re.compile(r"(\d+\.\d+) (.+)")
OPTIONAL = re.compile(r" \(optional[^)]*\)$")


class DamagedCourse(Exception):
    """A file of the course itself that cannot be read: which one, and the way out."""


@dataclass
class Text:
    """Markdown without headings, with links as the learner edition has them."""

    text: str
    tags: list = field(default_factory=list)


@dataclass
class Question:
    """A prediction or a recall question: kind is "Predict" or "Recall".

    text: Markdown, without its number. options: [{"text", "reason", "right"}], all Markdown.
    """

    kind: str
    number: str
    text: str
    options: list = field(default_factory=list)
    tags: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.kind} {self.number}"

    @property
    def asked(self):
        """The text with a capital letter at its beginning, where that is a letter."""
        return self.text[:1].upper() + self.text[1:]

    @property
    def by_letter(self):
        """The options as {letter: option}."""
        return dict(zip(LETTERS, self.options, strict=False))

    @property
    def place(self):
        """The id of the cell that takes the answer: "predict-3-1"."""
        return re.sub("[ .]", "-", self.name.lower())

    def folds(self, letter=""):
        """Return the options as Markdown: each a fold that opens on its reason, that of a letter opened."""
        folds = (
            f'<details class="lesson-option"{" open" * (key == letter)}>'
            f"<summary><b>{key}.</b> {option['text']}</summary>\n\n"
            f"**{'Yes' if option['right'] else 'Not quite'}.** {option['reason']}\n\n</details>"
            for key, option in self.by_letter.items()
        )
        return re.sub(r"`(?=[^\n]*</summary>)(.+?)`", r"<code>\1</code>", "\n\n".join(folds))

    @property
    def markdown(self):
        """What a notebook shows: the question, and its options without their reasons."""
        options = "\n".join(f"- **{letter}.** {option['text']}" for letter, option in self.by_letter.items())
        return f"**{self.name}:** {self.text}\n\n{options}"


@dataclass
class Code:
    """A code cell. folded: JupyterLab shows its outputs only.

    outputs: texts, and pictures as objects, in order; [] unless somebody has read them, see teaching.material.
    """

    id: str
    source: str
    outputs: list = field(default_factory=list)
    folded: bool = False
    tags: list = field(default_factory=list)

    @property
    def solved(self):
        """The same in both editions, unlike an Exercise."""
        return self.source

    @property
    def text(self):
        return "".join(output for output in self.outputs if isinstance(output, str))


@dataclass
class Check(Code):
    """The cell check.NAME(ARGUMENT), which tries an answer."""

    name: str = ""
    argument: str = ""


@dataclass
class Exercise:
    """An exercise with its checks. number: "3.1". difficulty: 1 to 5.

    source: its cell as the learner gets it; solved: with the course's answer, "" where that was left out. hint:
    Markdown or "". defines: the functions and classes that it asks for. optional: not part of the core.
    """

    number: str
    difficulty: int
    minutes: int
    source: str = ""
    solved: str = ""
    hint: str = ""
    checks: list = field(default_factory=list)
    tags: list = field(default_factory=list)
    id: str = ""
    optional: bool = False
    defines: list = field(default_factory=list)

    @property
    def name(self):
        return f"Exercise {self.number}"

    @property
    def dots(self):
        """Its difficulty as its card shows it: "●●○○○"."""
        return "●" * self.difficulty + "○" * (5 - self.difficulty)

    @property
    def task(self):
        """The learner's cell without its card."""
        return TURN.sub(r"\1...  # your answer", CARD.sub("", self.source)).strip("\n")

    @property
    def solution(self):
        """The cell with the course's answer, without its card."""
        return CARD.sub("", self.solved).strip("\n")

    @property
    def answers(self):
        """{function or class: name of the check that takes it}; {} for a quiz."""
        return {check.argument: check.name for check in self.checks if check.argument in self.defines}


class _Holder:
    """What holds items."""

    @property
    def texts(self):
        return [item.text for item in self.items if isinstance(item, Text)]

    @property
    def questions(self):
        return [item for item in self.items if isinstance(item, Question)]

    @property
    def exercises(self):
        return [item for item in self.items if isinstance(item, Exercise)]


@dataclass
class Section(_Holder):
    """What stands between two headings. level: of its heading, 1 for the lesson's title. under: the heading above it.

    minutes: a reader's, by the model of coursebuild; aside: those of optional pieces in a section of the core.
    """

    heading: str
    level: int
    optional: bool = False
    under: str = ""
    minutes: float = 0.0
    aside: float = 0.0
    items: list = field(default_factory=list)

    @property
    def title(self):
        """Its heading without its number, and without what says that it is optional."""
        numbered = NUMBERED.fullmatch(OPTIONAL.sub("", self.heading))
        return numbered[2] if numbered else OPTIONAL.sub("", self.heading)

    @property
    def key(self):
        """Its number, "6.1", or its title where it has none; "start" for what comes before the first section."""
        numbered = NUMBERED.match(self.heading)
        return "start" if self.level == 1 else numbered[1] if numbered else self.title


@dataclass
class Lesson(_Holder):
    """A lesson. stem: "06_batchnorm". title: without its number. minutes: of its core, as the lesson prints them."""

    stem: str
    title: str
    minutes: int = 0
    sections: list = field(default_factory=list)

    @property
    def number(self):
        return int(self.stem[:2])

    @property
    def module(self):
        """What its modules are called, of fromscratch and of the checks: "batchnorm"."""
        return self.stem[3:]

    @property
    def reference(self):
        """Whether it is there to look things up: no lesson, so it has no exercises and no minutes."""
        return any(REFERENCE in item.tags for item in self.sections[0].items)

    @property
    def name(self):
        """The title up to its colon: "LayerNorm and BatchNorm"."""
        return self.title.partition(":")[0]

    @property
    def about(self):
        """The title after its colon: "who shares a mean with whom"."""
        return self.title.partition(":")[2].strip()

    @property
    def label(self):
        """Its number and its name: "6 · LayerNorm and BatchNorm"."""
        return f"{self.number} · {self.name}"

    @property
    def parts(self):
        """Its sections and their items, in the order of the notebook: each Section comes before its items."""
        return [part for section in self.sections for part in (section, *section.items)]

    @property
    def items(self):
        return [item for section in self.sections for item in section.items]

    @property
    def code(self):
        """Its code cells and exercises, in order; not the cells that check or that take a letter."""
        return [item for item in self.items if isinstance(item, (Code, Exercise))]

    @property
    def core(self):
        """The exercises that are not optional."""
        return [exercise for exercise in self.exercises if not exercise.optional]

    @property
    def names(self):
        """The names of exercises and questions: "Recall 6.1", "Exercise 6.1", ..."""
        return [item.name for item in self.items if isinstance(item, (Question, Exercise))]

    @property
    def answers(self):
        """{function or class: name of the check that takes it} of all exercises."""
        return {name: check for exercise in self.exercises for name, check in exercise.answers.items()}


KINDS = {kind.__name__: kind for kind in (Lesson, Section, Text, Question, Code, Check, Exercise)}


def stored(lesson):
    """Return (what the file of a Lesson holds, {id of an exercise: its cell with the answer})."""
    return _short(lesson), {exercise.id: exercise.solved for exercise in lesson.exercises}


def _short(thing):
    """Return an object with its type as a dictionary of the fields that are not empty, without a solution."""
    if not is_dataclass(thing):
        return thing
    short = {"type": type(thing).__name__}
    for name in (item.name for item in fields(thing) if item.name != "solved"):
        value = getattr(thing, name)
        if value:
            short[name] = list(map(_short, value)) if isinstance(value, list) else value
    return short


def _from(short):
    """Return what _short was given."""
    if not isinstance(short, dict) or "type" not in short:
        return short
    values = {name: list(map(_from, value)) if isinstance(value, list) else value for name, value in short.items()}
    return KINDS[values.pop("type")](**values)


def _read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise DamagedCourse(f"{path} is damaged. Get it back with git, or run make notebooks.") from None


def read(path):
    """Return the Lesson of a file, without solutions."""
    return _from(_read(path))


@functools.cache
def pages(folder=FOLDER):
    """Return {stem: Lesson} of all lessons and of the reference, in order, without solutions."""
    return {path.stem: read(path) for path in sorted(folder.glob("[0-9][0-9]_*.json"))}


@functools.cache
def lessons(folder=FOLDER):
    """Return {stem: Lesson}, in order, without solutions."""
    return {stem: lesson for stem, lesson in pages(folder).items() if not lesson.reference}


@functools.cache
def checks():
    """Return {name of a check: (Lesson, Exercise)}."""
    return {
        check.name: (lesson, exercise)
        for lesson in lessons().values()
        for exercise in lesson.exercises
        for check in exercise.checks
    }


@functools.cache
def answers():
    """Return {module of a lesson: {function or class that an exercise asks for: name of its check}}."""
    return {lesson.module: lesson.answers for lesson in lessons().values()}


def solved(stem, folder=FOLDER):
    """Return a Lesson with the course's answers, read anew; DamagedCourse where they were left out."""
    lesson, solutions = read(folder / f"{stem}.json"), _read(folder / f"solutions/{stem}.json")
    for exercise in lesson.exercises:
        exercise.solved = solutions[exercise.id]
    return lesson

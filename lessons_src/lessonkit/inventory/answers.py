"""The letters of a learner: kept in work/inventory.jsonl, and read from there.

A letter is a line: {"v": 1, "time": "2026-11-22T07:00:01Z", "question": "A3", "edition": "3fa2c1", "letter": "b"}. When
a result is first shown, {"v": 1, "time": ..., "result": "A"} follows; the last letter before that counts. With
LESSON_LOG=off and without a learner's folder letters are kept in this kernel alone.
"""

from dataclasses import dataclass, field

from lessonkit import attempts, places
from lessonkit.inventory.questions import UNKNOWN, by_letter, items, questions, right_letter
from lessonkit.progress.log import take

VERSION, FILE = 1, "inventory.jsonl"

# In .waiting is what this kernel could not write, or was not to write.
_lines = attempts.Lines("Your letters could not be kept in {name}: {why}. They count as long as this kernel runs.")


@dataclass
class Answers:
    """The letters of one learner. last: {question: the letter that counts}.

    finished: the questions whose result was shown; what comes after that does not count. notes: a sentence for each
    thing that could not be read.
    """

    last: dict = field(default_factory=dict)
    finished: set = field(default_factory=set)
    notes: list = field(default_factory=list)

    def add(self, record):
        """Take in a record of the log; one of a different edition of its question is left out."""
        question, letter, form = record.get("question"), record.get("letter"), record.get("result")
        if form:
            self.finished |= {name for name in self.last if name[0] == form}
        elif question not in items() or record["edition"] != items()[question]["edition"]:
            return
        elif letter not in (*by_letter(question), UNKNOWN):
            raise ValueError(f"{question} has no {letter}")
        elif question not in self.finished:
            self.last[question] = letter

    def complete(self, form):
        return all(name in self.last for name in questions(form))

    def right(self, name):
        """Return whether the letter that counts is the right one; False for none."""
        return self.last.get(name) == right_letter(name)

    def score(self, form, theme=None):
        """Return how many questions of a form, or of a theme in it, are right, as "1 of 2"."""
        names = questions(form, theme)
        return f"{sum(map(self.right, names))} of {len(names)}"


def answer(question, letter):
    """Keep a letter for a question; empty, it says what to put there. Whether it is right is said by result."""
    letter = str(letter).strip(" .()").lower()
    answers = mine()
    kept = answers.last.get(question)
    if letter not in (*by_letter(question), UNKNOWN):
        how = f"put one of {', '.join(by_letter(question))} between the quotes, or {UNKNOWN} if you do not know"
        print(f"{question}: {how}, and run this cell." + (f" So far {kept} is kept." if kept else ""))
    elif question in answers.finished:
        print(f"{question}: {kept} counts" + (f", and {letter} came after the result." if letter != kept else "."))
    else:
        if letter != kept:
            _keep({"question": question, "edition": items()[question]["edition"], "letter": letter})
        print(f"{question}: {letter} is kept" + (f" in place of {kept}." if kept not in (None, letter) else "."))


def mine():
    """Return the Answers of the learner of this kernel."""
    return collect(places.work(), _lines.waiting)


def finish(form):
    """Keep that the result of a form was shown."""
    if not mine().finished.issuperset(questions(form)):
        _keep({"result": form})


def collect(folder, more=()):
    """Return the Answers in a learner's folder (None: there is none), and in more records."""
    answers = Answers()
    if folder:
        answers.notes = take(folder / FILE, VERSION, answers.add)
    for record in more:
        answers.add(record)
    return answers


def _keep(record):
    folder = None if attempts.off() else places.work()
    _lines.add(folder and folder / FILE, VERSION, record)

"""The LayerNorm inventory: twelve questions before the course and twelve after it, on the same points.

    inventory.answer("A3", "b")       in the notebook of a form: keeps a letter, and does not say whether it is right
    inventory.result("A")             when all twelve have one: the result by theme, reasons, and sections to read

    python -m lessonkit.inventory --print A [--answers]                  a form on paper
    python -m lessonkit.inventory --report FOLDER... [--csv items.csv]   the item report of a class

A letter goes to work/inventory.jsonl, a line each: {"v": 1, "time": "2026-11-22T07:00:01Z", "question": "A3",
"edition": "3fa2c1", "letter": "b"}, and {"v": 1, "time": ..., "result": "A"} when a result is first shown. The
last letter before that counts. Nothing is sent; LESSON_LOG=off keeps letters in the notebook alone. There is no file
in builds, in tests, and where there is no learner: see lessonkit._work.
"""

import argparse
import datetime
import functools
import hashlib
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from lessonkit import _work, attempts
from lessonkit._tones import in_notebook

LETTERS, UNKNOWN = "abcd", "?"
VERSION, FILE = 1, "inventory.jsonl"
ANSWER = re.compile(r'^inventory\.answer\("([AB]\d+)", "([^"]*)"\)', re.MULTILINE)
FORMS = {"A": "before the course", "B": "after the course"}


@dataclass
class Answers:
    """The letters of one learner, {question: letter}. first: the first ones. last: those that count.

    late: letters given after the result was shown. finished: the questions whose result was shown. notes: a sentence
    for each thing that could not be read.
    """

    first: dict = field(default_factory=dict)
    last: dict = field(default_factory=dict)
    late: dict = field(default_factory=dict)
    finished: set = field(default_factory=set)
    notes: list = field(default_factory=list)

    def add(self, record):
        """Take in a record of the log; one of a different edition of its question is left out."""
        question, letter, form = record.get("question"), record.get("letter"), record.get("result")
        if form:
            self.finished |= {name for name in self.last if name[0] == form}
        elif question not in items() or record["edition"] != items()[question]["edition"]:
            return
        elif letter not in letters(question):
            raise ValueError(f"{question} has no {letter}")
        elif question in self.finished:
            self.late[question] = letter
        else:
            self.first.setdefault(question, letter)
            self.last[question] = letter

    def complete(self, form):
        return all(name in self.last for name in questions(form))

    def right(self, name):
        """Return whether the letter that counts is the right one; False for none."""
        return self.last.get(name) == right_letter(name)


# ------------------------------------------------------------------------------------------------------ the questions


@functools.cache
def items():
    """Return {"A1": its theme, belief, question, options and edition}, as coursebuild wrote them."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def digest(text):
    """Return what tells one edition of a question from another: six digits made from its cell in the notebook."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:6]


def questions(form):
    return [name for name in items() if name[0] == form]


def themes():
    """Return the themes, in order."""
    return list(dict.fromkeys(item["theme"] for item in items().values()))


def letters(name):
    """Return the letters that a question takes, the question mark among them."""
    return [*LETTERS[: len(items()[name]["options"])], UNKNOWN]


def right_letter(name):
    return next(letter for letter, option in _by_letter(name).items() if option["right"])


def _by_letter(name):
    return dict(zip(LETTERS, items()[name]["options"], strict=False))


# ---------------------------------------------------------------------------------------------------------- answering

_unsaved = []  # what this kernel could not write, or was not to write
_told = False


def answer(question, letter):
    """Keep a letter for a question; empty, it says what to put there. Whether it is right is said by result."""
    if question not in items():
        raise ValueError(f"there is no question {question!r}, expected A1 to A12 or B1 to B12. Correct the number.")
    said = letter.strip(" .()").lower() if isinstance(letter, str) else letter
    mine = collect(_work.folder(), _unsaved, saved=False)
    kept = mine.last.get(question)
    *most, last, _ = letters(question)
    how = f"{', '.join(most)} or {last} between the quotes, or {UNKNOWN} if you do not know"
    if said == "":
        print(f"{question}: put {how}, and run this cell." + (f" So far {kept} is kept." if kept else ""))
    elif said not in letters(question):
        print(f"{question}: {letter!r} is none of its letters. Put {how}, and run this cell.")
    elif question in mine.finished:
        if said != mine.late.get(question, kept):
            _keep(_letter(question, said))
        print(f"{question}: {kept} counts" + (f", and {said} came after the result." if said != kept else "."))
    else:
        if said != kept:
            _keep(_letter(question, said))
        print(f"{question}: {said} is kept" + (f" in place of {kept}." if kept not in (None, said) else "."))


def collect(folder, more=(), saved=True):
    """Return the Answers in a learner's folder (None: there is none), and in more records.

    saved: a question that neither has is looked for in the saved notebook of its form, where its text is still the
    course's.
    """
    found, damaged, newer = Answers(), 0, 0
    lines = []
    try:
        lines = (folder / FILE).read_bytes().split(b"\n") if folder else []
    except FileNotFoundError:
        pass
    except OSError as error:
        found.notes.append(f"{folder / FILE} cannot be read ({error.strerror}).")
    for line in filter(bytes.strip, lines):
        try:
            record = json.loads(line)
            newer += record["v"] > VERSION
            if record["v"] <= VERSION:
                found.add(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            damaged += 1
    for record in more:
        found.add(record)
    for name, letter in _saved(folder).items() if folder and saved else ():
        if name not in found.last:
            found.first[name] = found.last[name] = letter
    for many, what in ((damaged, "damaged"), (newer, "of a newer edition of the course")):
        if many:
            count = f"{many} line{'s are' if many > 1 else ' is'}"
            found.notes.append(f"{folder / FILE}: {count} {what} and left out; the others count.")
    return found


def _saved(folder):
    """Return {question: letter} of the saved notebooks of both forms."""
    found = {}
    for form in FORMS:
        try:
            text = (folder / f"inventory_{form.lower()}.ipynb").read_text(encoding="utf-8")
            sources = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
        except (OSError, ValueError, KeyError, TypeError):  # none there, or one that is being saved just now
            continue
        present = {digest(source) for source in sources}
        for name, letter in ANSWER.findall("\n".join(sources)):
            said = letter.strip(" .()").lower()
            if name in items() and said in letters(name) and items()[name]["edition"] in present:
                found[name] = said
    return found


def _letter(name, letter):
    return {"question": name, "edition": items()[name]["edition"], "letter": letter}


def _keep(record):
    global _told
    time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"v": VERSION, "time": time} | record
    folder = _work.folder()
    if folder is None or attempts.off():
        _unsaved.append(record)
        return
    try:
        while _unsaved:
            attempts.append(folder / FILE, json.dumps(_unsaved[0]))
            del _unsaved[0]
        attempts.append(folder / FILE, json.dumps(record))
    except OSError as error:
        _unsaved.append(record)
        if not _told:
            print(
                f"(Your letters could not be kept in {FILE}: {error.strerror}. They count as long as this kernel runs, "
                "and stand in the notebook when you save it.)"
            )
        _told = True


# ------------------------------------------------------------------------------------------------------------- result


def result(form):
    """Show the result of a form, "A" or "B", when each of its questions has a letter; before that, what is open."""
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}, expected 'A' or 'B'. Correct the letter.")
    mine = collect(_work.folder(), _unsaved)
    still = [name for name in questions(form) if name not in mine.last]
    if still:
        there = len(questions(form))
        print(
            f"Form {form}: {there - len(still)} of {there} questions have a letter. Still open: {', '.join(still)}. "
            f"The result is shown when all have one; {UNKNOWN} counts as a letter."
        )
        return
    if not mine.finished.issuperset(questions(form)):
        logged = collect(_work.folder(), _unsaved, saved=False).last
        for name in questions(form):
            if name not in logged:  # only the saved notebook has it
                _keep(_letter(name, mine.last[name]))
        _keep({"result": form})
    text = told(form, mine)
    if in_notebook():
        from IPython.display import Markdown, display

        display(Markdown(text))
    else:
        print(text)


def told(form, mine):
    """Return the result of a form as Markdown. mine: Answers in which the form is complete."""
    both = form == "B" and mine.complete("A")
    lines = [f"**Form {form}: {_score(mine, questions(form))} right.**"]
    if both:
        lines[0] += f" Form A, before the course: {_score(mine, questions('A'))}."
    elif form == "B":
        lines.append("\nYour answers to form A are not all there, so nothing is compared.")
    lines += ["", f"| theme | {'form A | form B |' if both else 'right |'}", f"|---|---|{'---|' * both}"]
    for theme in themes():
        scores = [
            _score(mine, [name for name in questions(one) if items()[name]["theme"] == theme])
            for one in (("A", "B") if both else form)
        ]
        lines.append(f"| {' | '.join([theme, *scores])} |")
    missed = [name for name in questions(form) if not mine.right(name)]
    lines += ["", "**To read, for what you missed**", ""] if missed else []
    lines += [_line(name, mine.last[name], form) for name in missed]
    lines += ["", "**What you had right**", ""] if len(missed) < len(questions(form)) else []
    lines += [_line(name, mine.last[name], form) for name in questions(form) if name not in missed]
    if form == "A" and missed:
        lines += ["", "The right options of what you missed are not told here: the course comes to each of them."]
    return "\n".join(lines)


def _score(mine, names):
    return f"{sum(map(mine.right, names))} of {len(names)}"


def _line(name, letter, form):
    """Return a question of the result: the learner's letter, its reason, and the sections that settle it."""
    options = _by_letter(name)
    right, chosen = options[right_letter(name)], options.get(letter)
    said = _option(letter, chosen) if chosen else ["You put a question mark."]
    if chosen is not right and form == "B":
        head, reason = _option(right_letter(name), right)
        said += [f"Right is {head}", reason]
    links = dict.fromkeys(f"[{o['section']}]({o['link']})" for o in (chosen, right) if o)
    said += [f"→ {', '.join(links)}"]
    return f"- **{name}** " + "  \n  ".join(said)  # two blanks at its end break a line in Markdown


def _option(letter, option):
    """Return an option and its reason, a line each."""
    return [f"**{letter}.** {option['text']}", f"*{option['reason']}*"]


# ------------------------------------------------------------------------------------------------------- command line


def printed(form, answers=False):
    """Return a form as plain text. answers: with the right letter, and the reasons and sections of all options."""
    lines = [f"The LayerNorm inventory, form {form}: {FORMS[form]}"]
    for name in questions(form):
        lines += ["", f"{name}. {items()[name]['question']}"]
        for letter, option in _by_letter(name).items():
            lines.append(f"   {letter}) {option['text']}")
            if answers:
                lines.append(f"      {'RIGHT. ' * option['right']}{option['reason']} ({option['section']})")
    return "\n".join(lines)


def main(arguments=None):
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lessonkit.inventory", description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--print", choices=FORMS, dest="form", help="a form as plain text, without what is right")
    what.add_argument("--report", nargs="+", metavar="FOLDER", help="the work folders of a class: the item report")
    parser.add_argument("--answers", action="store_true", help="with --print: what is right, reasons and sections too")
    parser.add_argument("--csv", metavar="FILE", help="with --report: the items as a table, a row each")
    options = parser.parse_args(arguments)
    if options.form:
        print(printed(options.form, options.answers))
        return 0
    from lessonkit import _inventory_report

    return _inventory_report.main([Path(name) for name in options.report], options.csv)


if __name__ == "__main__":
    sys.exit(main())

"""How many minutes a lesson takes a learner: a model, the same for every lesson.

    python -m coursebuild.minutes 03         the sections of lesson 3, and its sums
    python -m coursebuild.minutes            one line a lesson

Reading at 120 words a minute (technical prose), 4 s for each line of code that is not folded, 45 s a figure, 20 s a
prediction or recall question, and 1.3 times the minutes on an exercise's card: the card says what the exercise itself
takes, and a third more goes into finding the way. Folded code and <details> do not count. Optional, and not part of
the core, is a cell with the tag `optional`, a paragraph whose bold first words say "(optional", and a section whose
heading says so, up to the next heading of the same or a higher level.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field

from coursebuild.source import ROOT

WORDS_A_MINUTE, LINE, FIGURE, QUESTION, EXERCISE = 120, 4 / 60, 0.75, 1 / 3, 1.3
CARD = re.compile(r"^# Exercise [\d.]+ · [●○]+ · (\d+) min", re.MULTILINE)
PRINTED = re.compile(r"\*About (\d+) min\b")  # in a lesson's frame
PRINTED_OPTIONAL = re.compile(r"\(optional, (\d+) min\)")  # in a heading
KINDS = ("words", "code", "figures", "questions", "exercises")


@dataclass
class Section:
    """What a learner meets between two headings. level: of the heading, 0 before the first one."""

    heading: str
    level: int
    optional: bool
    counts: dict = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    @property
    def minutes(self):
        words, code, figures, questions, exercises = (self.counts[kind] for kind in KINDS)
        reading = words / WORDS_A_MINUTE + code * LINE + figures * FIGURE
        return reading + questions * QUESTION + exercises * EXERCISE


def sections(learner, solutions):
    """Return the Sections of a lesson, in order. learner, solutions: its two notebooks as dictionaries.

    A part that is optional inside a section of the core is a section of its own, called "... (optional part)".
    """
    figures = {cell["id"]: _figures(cell) for cell in solutions["cells"]}
    found, aside, barrier = [Section("", 0, False)], None, 0

    def place(optional):
        """Return the section that counts, given whether just this piece is optional."""
        nonlocal aside
        if not optional or found[-1].optional:
            return found[-1]
        if aside is None or aside not in found[-2:]:
            aside = Section(f"{found[-1].heading} (optional part)", found[-1].level, True)
            found.insert(len(found) - 1, aside)
        return aside

    for cell in learner["cells"]:
        if cell["id"] == "how-far":
            continue
        text, tags = _text(cell), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            place("optional" in tags).counts["questions"] += text.count("<details><summary><b>a.</b>")
            if cell["id"].startswith(("card-", "what-next")):
                continue  # repeats the exercise's own card; links
            for block in re.split(r"\n(?=#)|\n\n", re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)):
                heading = re.match(r"(#+) (.*)", block)
                if heading:
                    level = len(heading[1])
                    if barrier and level <= barrier:
                        barrier = 0
                    if "(optional" in heading[2]:
                        barrier = barrier or level
                    found.append(Section(heading[2], level, bool(barrier)))
                    aside = None
                bold = bool(re.match(r"\*\*[^*]*\(optional", block))
                counts = place(bold or "optional" in tags).counts
                counts["words"] += _words(block)
            continue
        counts = place("optional" in tags).counts
        counts["figures"] += figures.get(cell["id"], 0)
        counts["questions"] += "predict" in tags
        card = CARD.search(text)
        if card:
            counts["exercises"] += int(card[1])
        if not cell["metadata"].get("jupyter", {}).get("source_hidden") and "predict" not in tags:
            counts["code"] += sum(bool(line.strip()) for line in text.split("\n"))
    return [section for section in found if section.minutes]


def _text(cell):
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def _figures(cell):
    return sum("image/png" in out.get("data", {}) for out in cell.get("outputs", []))


def _words(block):
    plain = re.sub(r"!\[.*?\]\(.*?\)|\]\([^)]*\)", "", block)  # a link counts by its words, not by its address
    return len(re.findall(r"[A-Za-z0-9$\\]+[^\s]*", plain))


def total(found, optional=False):
    return sum(section.minutes for section in found if section.optional == optional)


def of(stem, root=ROOT):
    """Return the Sections of a built lesson, "03_epsilon"."""
    read = lambda path: json.loads(path.read_text(encoding="utf-8"))  # noqa: E731
    return sections(read(root / f"notebooks/{stem}.ipynb"), read(root / f"notebooks/solutions/{stem}.ipynb"))


def wrong(stem, root=ROOT):
    """Return what a lesson prints of its minutes and the model does not say, if over a minute apart; a line each."""
    path = root / f"notebooks/{stem}.ipynb"
    text = "\n".join(
        _text(c) for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "markdown"
    )
    found, core, said = of(stem, root), round(total(of(stem, root))), PRINTED.search(text)
    lines = []
    if said is None:
        lines.append(f"{stem} does not say how long its core takes. Write '*About {core} min.*' into its frame.")
    elif abs(int(said[1]) - core) > 1:
        lines.append(f"{stem} says 'About {said[1]} min', and the model says {core}. Write that.")
    for at, section in enumerate(found):
        said = PRINTED_OPTIONAL.search(section.heading)
        if said and not section.heading.endswith("(optional part)"):
            inner = [section]
            for later in found[at + 1 :]:
                if later.level <= section.level:
                    break
                inner.append(later)
            minutes = round(sum(one.minutes for one in inner))
            if abs(int(said[1]) - max(1, minutes)) > 1:
                lines.append(f"{stem}: '{section.heading}' takes {max(1, minutes)} min by the model. Write that.")
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="numbers of lessons, for their sections")
    names = parser.parse_args(arguments).names
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        if names and path.stem[:2] not in names and path.stem not in names:
            continue
        found = of(path.stem)
        sums = {kind: sum(s.counts[kind] for s in found if not s.optional) for kind in KINDS}
        parts = " ".join(f"{kind} {value}" for kind, value in sums.items())
        print(f"{path.stem:24} core {total(found):5.1f} min  optional {total(found, True):5.1f}   {parts}")
        for section in found if names else ():
            mark = "optional" if section.optional else ""
            print(f"    {section.minutes:5.1f}  {mark:8}  {'  ' * section.level}{section.heading}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

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
import re
import sys
from collections import Counter

from lessonkit import course
from lessonkit.course import Code, Exercise, Question, Text

MINUTES = {"words": 1 / 120, "code": 4 / 60, "figures": 0.75, "questions": 1 / 3, "exercises": 1.3}
PRINTED = re.compile(r"\*About (\d+) min\b")  # in a lesson's frame
PRINTED_OPTIONAL = re.compile(r"\(optional, (\d+) min\)")  # in a heading


def counts(section):
    """Return (what counts in a Section, what counts in its optional pieces): how many of each of MINUTES.

    In a section that is optional as a whole there are no such pieces.
    """
    main, aside = Counter(words=_words(section.heading)), Counter()
    for item in section.items:
        into = aside if "optional" in item.tags and not section.optional else main
        match item:
            case Text():
                for block in re.sub(r"<details>.*?</details>", "", item.text, flags=re.DOTALL).split("\n\n"):
                    bold = re.match(r"\*\*[^*]*\(optional", block) and not section.optional
                    (aside if bold else into)["words"] += _words(block)
            case Question():
                into.update(questions=1, words=_words(item.markdown))
            case Exercise():
                into.update(exercises=item.minutes, code=sum(map(_lines, [item, *item.checks])))
            case Code():
                into.update(figures=item.pictures, code=0 if item.folded else _lines(item))
    return main, aside


def of(counted):
    """Return the minutes of what counts() has counted."""
    return sum(MINUTES[kind] * number for kind, number in counted.items())


def _lines(cell):
    return sum(bool(line.strip()) for line in cell.source.split("\n"))


def _words(block):
    plain = re.sub(r"!\[.*?\]\(.*?\)|\]\([^)]*\)", "", block)  # a link counts by its words, not by its address
    return len(re.findall(r"[A-Za-z0-9$\\]+[^\s]*", plain))


def total(lesson, optional=False):
    """Return the minutes of a Lesson's core, or of all that is optional in it."""
    whole = sum(section.minutes for section in lesson.sections if section.optional == optional)
    return whole + optional * sum(section.aside for section in lesson.sections)


def wrong(lesson):
    """Return what a Lesson prints of its minutes and the model does not say, if over a minute apart; a line each."""
    lines, core = [], round(total(lesson))
    if not lesson.minutes:
        lines.append(f"{lesson.stem} does not say how long its core takes. Write '*About {core} min.*' into its frame.")
    elif abs(lesson.minutes - core) > 1:
        lines.append(f"{lesson.stem} says 'About {lesson.minutes} min', and the model says {core}. Write that.")
    for at, section in enumerate(lesson.sections):
        printed = PRINTED_OPTIONAL.search(section.heading)
        if printed:
            later = lesson.sections[at + 1 :]
            end = next((n for n, other in enumerate(later) if other.level <= section.level), len(later))
            minutes = max(1, round(sum(inner.minutes for inner in [section, *later[:end]])))
            if abs(int(printed[1]) - minutes) > 1:
                lines.append(f"{lesson.stem}: '{section.heading}' takes {minutes} min by the model. Write that.")
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="numbers of lessons, for their sections")
    names = parser.parse_args(arguments).names
    for lesson in course.lessons().values():
        if names and lesson.stem[:2] not in names and lesson.stem not in names:
            continue
        core = sum((counts(section)[0] for section in lesson.sections if not section.optional), Counter())
        parts = " ".join(f"{kind} {core[kind]}" for kind in MINUTES)
        print(f"{lesson.stem:24} core {total(lesson):5.1f} min  optional {total(lesson, True):5.1f}   {parts}")
        for section in lesson.sections if names else ():
            mark = "optional" if section.optional else ""
            print(f"    {section.minutes:5.1f}  {mark:8}  {'  ' * section.level}{section.heading}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

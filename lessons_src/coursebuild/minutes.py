"""How many minutes a lesson takes a learner: a model, the same for every lesson.

    python -m coursebuild.minutes 03         the sections of lesson 3, and its sums
    python -m coursebuild.minutes            one line a lesson

Reading at 100 words a minute (prose with formulas), 4 s for each line of code that is not folded, 45 s a figure, a
minute a prediction or recall question, and 1.7 times the minutes on an exercise's card: the card says what the exercise
itself takes, the rest goes into finding the way and being wrong. Calibrated on trials of all lessons as three kinds of
learners would. Folded code and <details> do not count, nor the cell that leads back in a new kernel. Optional, and not
part of the core, is a cell with the tag `optional`, a paragraph whose bold first words say "(optional", and a section
whose heading says so, up to the next heading of the same or a higher level.

A lesson has two sittings: the first ends with the section that says "**You can stop here".
"""

import argparse
import re
import sys
from collections import Counter

from lessonkit.course import Code, Exercise, Question, Text

MINUTES = {"words": 1 / 100, "code": 4 / 60, "figures": 0.75, "questions": 1, "exercises": 1.7}
PRINTED = re.compile(r"\*About (\d+) min(?:, in two sittings of (\d+) and (\d+))?\b")  # in a lesson's frame
STOP = "**You can stop here"
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
                unread = item.folded or "way-back" in item.tags
                into.update(figures=item.pictures, code=0 if unread else _lines(item))
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


def split(sections):
    """Return Sections as a list a sitting: the first ends with the one that says so; one list if none of them does."""
    ends = [at for at, section in enumerate(sections[:-1], 1) if any(STOP in text for text in section.texts)]
    return [sections[: ends[0]], sections[ends[0] :]] if ends else [sections]


def sittings(lesson):
    """Return the minutes of the two sittings of a Lesson's core; of one, where it names no place to stop."""
    return [sum(section.minutes for section in part if not section.optional) for part in split(lesson.sections)]


def frame(lesson):
    """Return what the frame of a Lesson should say of its minutes."""
    parts = [round(part) for part in sittings(lesson)]
    both = f", in two sittings of {parts[0]} and {parts[1]}" if parts[1:] else ""
    return f"*About {sum(parts)} min{both}"  # the whole is the sum of what is printed


def wrong(lesson):
    """Return what a Lesson prints of its minutes and the model does not say, if over a minute apart; a line each."""
    lines, parts = [], sittings(lesson)
    modelled = [sum(map(round, parts)), *parts] if parts[1:] else parts
    printed = PRINTED.search("\n".join(lesson.sections[0].texts))
    numbers = [int(number) for number in printed.groups() if number] if printed else []
    if len(numbers) != len(modelled) or any(
        abs(number - round(part)) > 1 for number, part in zip(numbers, modelled, strict=True)
    ):
        says = f"says '{printed[0]}'" if printed else "does not say how long its core takes"
        lines.append(f"{lesson.stem} {says}, and the model says '{frame(lesson)}'. Write that into its frame.")
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
    from coursebuild import manifest, sources  # here, since the manifest is made with this module

    course = sources.load()
    with course.stopping():
        stems = course.stems(names)
        for lesson in [manifest.lesson(source) for source in course.lessons if not source.reference]:
            if stems and lesson.stem not in stems:
                continue
            core = sum((counts(section)[0] for section in lesson.sections if not section.optional), Counter())
            parts = " ".join(f"{kind} {core[kind]}" for kind in MINUTES)
            both = " + ".join(f"{part:.1f}" for part in sittings(lesson))
            print(f"{lesson.stem:24} core {both} min  optional {total(lesson, True):5.1f}   {parts}")
            for section in lesson.sections if stems else ():
                mark = "optional" if section.optional else ""
                print(f"    {section.minutes:5.1f}  {mark:8}  {'  ' * section.level}{section.heading}")
    print(*course.errors, sep="\n", end="\n" if course.errors else "", file=sys.stderr)
    return int(bool(course.errors))


if __name__ == "__main__":
    sys.exit(main())

"""How many minutes a lesson takes a learner, by the model of coursebuild.manifest, and whether it prints them.

    python -m coursebuild.minutes 03         the sections of lesson 3, and its sums
    python -m coursebuild.minutes            one line a lesson

A lesson has two sittings: the first ends with the section that says "**You can stop here".
"""

import argparse
import re
import sys
from collections import Counter

from coursebuild import manifest, sources
from coursebuild.manifest import PRINTED

BUDGET = {"lesson": 60, "sitting": 33}  # minutes of a lesson's core, at most
LEAST_DOING = 1 / 3  # of them, at least
STOP = "**You can stop here"
PRINTED_OPTIONAL = re.compile(r"\(optional, (\d+) min\)")  # in a heading


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


def wrong(lesson):
    """Return what a Lesson prints of its minutes and the model does not say, if over a minute apart; a line each."""
    lines, parts = [], [round(part) for part in sittings(lesson)]
    modelled = [sum(parts), *parts] if parts[1:] else parts  # the whole is the sum of what is printed
    printed = PRINTED.search("\n".join(lesson.sections[0].texts))
    numbers = [int(number) for number in printed.groups() if number] if printed else []
    if len(numbers) != len(modelled) or any(abs(a - b) > 1 for a, b in zip(numbers, modelled, strict=True)):
        both = ", in two sittings of {} and {}".format(*parts) if parts[1:] else ""
        lines.append(f"{lesson.stem}: the model says '*About {sum(parts)} min{both}'. Write that into its frame.")
    for at, section in enumerate(lesson.sections):
        printed = PRINTED_OPTIONAL.search(section.heading)
        if printed:
            later = lesson.sections[at + 1 :]
            end = next((n for n, other in enumerate(later) if other.level <= section.level), len(later))
            takes = max(1, round(sum(inner.minutes for inner in [section, *later[:end]])))
            if abs(int(printed[1]) - takes) > 1:
                lines.append(f"{lesson.stem}: '{section.heading}' takes {takes} min by the model. Write that.")
    return lines


def main(arguments=None, root=sources.ROOT):
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m coursebuild.minutes", description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="lessons (02 or 02_statistics), for their sections")
    names = parser.parse_args(arguments).names
    course = sources.load(root)
    with course.stopping():
        named = course.stems(names)
        for lesson in [manifest.lesson(source) for source in course.lessons if not source.reference]:
            if not names or lesson.stem in named:
                _print(lesson, sections=bool(names))
    print(*course.errors, sep="\n", end="\n" if course.errors else "", file=sys.stderr)
    return int(bool(course.errors))


def doing(lesson):
    """Return the share (0 to 1) of a Lesson's core that a learner answers, tries or writes in."""
    counted = sum((manifest.counts(section)[0] for section in lesson.sections if not section.optional), Counter())
    return manifest.minutes(counted, manifest.DOING) / manifest.minutes(counted)


def _print(lesson, sections):
    """Print what the core of a Lesson takes, and each section's minutes if asked."""
    both = " + ".join(f"{part:.1f}" for part in sittings(lesson))
    share = f"{doing(lesson):.0%} doing"
    print(f"{lesson.stem:24} core {both} min, {share}  optional {total(lesson, True):5.1f}")
    for section in lesson.sections if sections else ():
        mark = "optional" if section.optional else f"+{section.aside:.1f} opt" if section.aside else ""
        print(f"    {section.minutes:5.1f}  {mark:8}  {'  ' * section.level}{section.heading}")


if __name__ == "__main__":
    sys.exit(main())

"""See lessonkit.inventory."""

import argparse
import statistics
import sys
from pathlib import Path

from lessonkit.inventory.answers import FILE, collect
from lessonkit.inventory.questions import FORMS, WORDS, by_letter, items, questions, themes
from lessonkit.progress.saved import spread


def printed(form, answers=False):
    """Return a form as plain text. answers: with the right letter, and the reasons and sections of all options."""
    lines = [f"The LayerNorm inventory, form {form}: {FORMS[form]}"]
    lines.append("One option is right. Give its letter, or ? if you do not know.")
    lines += ["", WORDS]
    for name in questions(form):
        lines += ["", f"{name}. {items()[name]['question']}"]
        for letter, option in by_letter(name).items():
            lines.append(f"   {letter}) {option['text']}")
            if answers:
                lines.append(f"      {'RIGHT. ' * option['right']}{option['reason']} ({option['section']})")
    return "\n".join(lines)


def report(learners):
    """Return what each theme has gained, as text. learners: Answers of each; those with both forms count.

    The normalized gain is (B - A) / (1 - A) of the shares that were right (Hake, 1998).
    """
    both = [learner for learner in learners if learner.complete("A") and learner.complete("B")]
    lines = [f"The LayerNorm inventory: {len(both)} of {len(learners)} learners have answered both forms."]
    if both:
        lines += ["", f"{'theme':32}  form A  form B  normalized gain"]
        lines += [_gain(theme, both) for theme in [*themes(), None]]
    return "\n".join(lines)


def _gain(theme, both):
    before, after = (
        statistics.fmean(learner.right(name) for learner in both for name in questions(form, theme)) for form in FORMS
    )
    gain = f"{(after - before) / (1 - before):.2f}" if before < 1 else "-"
    return f"{theme or 'all':32}  {before:6.0%}  {after:6.0%}  {gain:>15}"


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m lessonkit.inventory")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--print", choices=FORMS, dest="form", help="a form as plain text, without what is right")
    what.add_argument(
        "--report", nargs="+", type=Path, metavar="FOLDER", help="the work folders of a class: what each theme gained"
    )
    parser.add_argument("--answers", action="store_true", help="with --print: what is right, reasons and sections too")
    options = parser.parse_args(arguments)
    if options.form:
        print(printed(options.form, options.answers))
        return
    learners = {folder: collect(folder) for folder in spread(options.report, FILE)}
    notes = [f"{folder}: no answers to the inventory" for folder, learner in learners.items() if not learner.last]
    print(*notes, *(note for learner in learners.values() for note in learner.notes), sep="\n", file=sys.stderr)
    print(report([learner for learner in learners.values() if learner.last]))


if __name__ == "__main__":
    main()

"""The report of a class: what python -m lessonkit.inventory --report prints.

For each question, who chose what; and for each theme the share right in both forms, over the learners who answered
both, and the normalized gain (B - A) / (1 - A) of these two shares (Hake, 1998).
"""

import statistics
import sys

from lessonkit.inventory.answers import FILE, collect
from lessonkit.inventory.questions import FORMS, items, letters, questions, right_letter, themes
from lessonkit.progress.files import spread, tell


def main(folders):
    """Print the report of these work folders; return the exit status."""
    folders, notes = spread(folders, FILE)
    collected = {folder: collect(folder) for folder in folders}
    empty = [folder for folder, learner in collected.items() if not learner.last]
    for folder in empty:
        notes.append(f"{folder}: {'no answers to the inventory' if folder.exists() else 'there is no such folder'}")
    tell([*notes, *(note for learner in collected.values() for note in learner.notes)])
    learners = [learner for learner in collected.values() if learner.last]
    if learners:
        print(text(learners))
    else:
        print("No folder holds answers. Name the folders work/ of the learners.", file=sys.stderr)
    return int(bool(empty))


def text(learners):
    """Return the report as plain text. learners: Answers of each."""
    whole = {form: sum(learner.complete(form) for learner in learners) for form in FORMS}
    many = f"{len(learners)} learner{'s' if len(learners) > 1 else ''}"
    lines = [f"The LayerNorm inventory: {many}, {whole['A']} with all of form A, {whole['B']} of B"]
    for form, when in FORMS.items():
        chosen = {name: [each.last[name] for each in learners if name in each.last] for name in questions(form)}
        if any(chosen.values()):
            lines += ["", f"Form {form}, {when} (* is the right option)"]
            lines.append("       n     a    b    c    d    ?   right")
            lines += [line for name, given in chosen.items() for line in _question(name, given)]
    both = [learner for learner in learners if learner.complete("A") and learner.complete("B")]
    if both:
        lines += ["", f"From A to B, {len(both)} learner{'s' if len(both) > 1 else ''} with both forms", ""]
        lines.append(f"{'theme':32}  form A  form B  normalized gain")
        lines += [_theme(theme, both) for theme in [*themes(), "all"]]
    return "\n".join(lines)


def _question(name, given):
    """Return the lines of a question: how many gave which letter, and the misconception that it asks about."""
    right = right_letter(name)
    counts = [f"{given.count(o) if o in letters(name) else '':>4}{'*' if o == right else ' '}" for o in "abcd?"]
    share = f"{given.count(right) / len(given):6.0%}" if given else "     -"
    return [f"{name:4}{len(given):>4}  {''.join(counts)} {share}", f"      {items()[name]['belief']}"]


def _theme(theme, both):
    before, after = (
        statistics.fmean(
            learner.right(name)
            for learner in both
            for name in questions(form)
            if theme in (items()[name]["theme"], "all")
        )
        for form in FORMS
    )
    gain = f"{(after - before) / (1 - before):.2f}" if before < 1 else "-"
    return f"{theme:32}  {before:6.0%}  {after:6.0%}  {gain:>15}"

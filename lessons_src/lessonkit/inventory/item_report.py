"""The item report of a class: what python -m lessonkit.inventory --report prints.

Difficulty is the share of right letters among those given (a question mark is one, and not right). Discrimination is
the point-biserial correlation of a question with the number right among the other eleven, over the learners who
answered the whole form: below about 0.2 a question does not tell those who know from those who do not. The normalized
gain of a theme is (B - A) / (1 - A), where A and B are the shares right in both forms, over the learners who answered
both (Hake, 1998).
"""

import csv
import io
import statistics
import sys
from pathlib import Path

from lessonkit.inventory.answers import FILE, collect
from lessonkit.inventory.questions import FORMS, UNKNOWN, items, letters, questions, right_letter, themes
from lessonkit.progress.files import Unwritable, spread, tell, write_whole

LEAST = 20  # learners for a discrimination: with 20 its standard error is about 0.2


def main(folders, table=None):
    """Print the report of these work folders; write the items to table, a CSV file. Return the exit status."""
    folders, notes = spread(folders, FILE)
    tell(notes)
    collected = {folder: collect(folder) for folder in folders}
    empty = [folder for folder, learner in collected.items() if not learner.last]
    for folder in empty:
        what = "no answers to the inventory" if folder.exists() else "there is no such folder"
        print(f"{folder}: {what}", file=sys.stderr)
    for learner in collected.values():
        tell(learner.notes)
    learners = [learner for learner in collected.values() if learner.last]
    if not learners:
        print("No folder holds answers. Name the folders work/ of the learners.", file=sys.stderr)
        return 1
    print(text(learners))
    if table:
        rows = [row(name, learners) for form in FORMS for name in questions(form)]
        file = io.StringIO()
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        try:
            write_whole(Path(table), file.getvalue())
        except Unwritable as error:
            print(error, file=sys.stderr)
            return 1
    return int(bool(empty))


def row(name, learners):
    """Return the figures of a question as a dict, None where there are too few learners for one."""
    answering = [learner for learner in learners if name in learner.last]
    chosen = [learner.last[name] for learner in answering]
    counts = {letter: chosen.count(letter) for letter in letters(name)}
    right = right_letter(name)
    return {
        "question": name,
        "theme": items()[name]["theme"],
        "belief": items()[name]["belief"],
        "answered": len(answering),
        "right option": right,
        **counts,
        "difficulty": counts[right] / len(answering) if answering else None,
        "discrimination": discrimination(name, learners),
        "changed": sum(learner.first[name] != learner.last[name] for learner in answering),
        "chosen by nobody": "".join(o for o in counts if answering and not counts[o] and o not in (right, UNKNOWN)),
    }


def discrimination(name, learners):
    """Return the point-biserial correlation of a question with the rest of its form; None below LEAST learners.

    None as well if all or none have it right, or if all have as many of the rest right.
    """
    whole = [learner for learner in learners if learner.complete(name[0])]
    if len(whole) < LEAST:
        return None
    mine = [float(learner.right(name)) for learner in whole]
    rest = [float(sum(learner.right(other) for other in questions(name[0]) if other != name)) for learner in whole]
    try:
        return statistics.correlation(mine, rest)
    except statistics.StatisticsError:  # one of them is constant
        return None


def gains(learners):
    """Return ({theme: (share right in A, in B, normalized gain or None)}, the learners who answered both forms)."""
    both = [learner for learner in learners if learner.complete("A") and learner.complete("B")]
    by_theme = {}
    for theme in [*themes(), "all"] if both else ():
        before, after = (
            statistics.fmean(
                learner.right(name)
                for learner in both
                for name in questions(form)
                if theme in (items()[name]["theme"], "all")
            )
            for form in FORMS
        )
        by_theme[theme] = before, after, (after - before) / (1 - before) if before < 1 else None
    return by_theme, len(both)


def text(learners):
    """Return the report as plain text."""
    whole = {form: sum(learner.complete(form) for learner in learners) for form in FORMS}
    many = f"{len(learners)} learner{'s' if len(learners) > 1 else ''}"
    lines = [f"The LayerNorm inventory: {many}, {whole['A']} with all of form A, {whole['B']} of B"]
    for form, when in FORMS.items():
        rows = [row(name, learners) for name in questions(form)]
        if not any(item["answered"] for item in rows):
            continue
        lines += ["", f"Form {form}, {when} (* is the right option)"]
        lines.append("       n     a    b    c    d    ?   right  discrimination  changed  chosen by nobody")
        for item in rows:
            right = item["right option"]
            counts = "".join(f"{item.get(o, ''):>4}{'*' if o == right else ' '}" for o in "abcd?")
            figures = f"{_percent(item['difficulty'])}  {_number(item['discrimination']):>14}  {item['changed']:>7}"
            lines.append(f"{item['question']:4}{item['answered']:>4}  {counts} {figures}  {item['chosen by nobody']}")
            lines.append(f"      {item['belief']}")
        if whole[form] < LEAST:
            lines.append(f"Discrimination takes at least {LEAST} learners with the whole form; here are {whole[form]}.")
    by_theme, both = gains(learners)
    if by_theme:
        lines += ["", f"From A to B, {both} learner{'s' if both > 1 else ''} with both forms", ""]
        lines.append(f"{'theme':32}  form A  form B  normalized gain")
        for theme, (before, after, gain) in by_theme.items():
            lines.append(f"{theme:32}  {_percent(before)}  {_percent(after)}  {_number(gain):>15}")
    return "\n".join(lines)


def _percent(share):
    return f"{'-' if share is None else f'{share:.0%}':>6}"


def _number(value):
    return "-" if value is None else f"{value:.2f}"

"""The page of a class: a row a learner, a column an exercise. It loads itself again."""

import re
import unicodedata
from html import escape

from lessonkit.progress.saved import MARKS, RIGHT

RELOAD = 30  # seconds
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1rem; }
table { border-collapse: separate; border-spacing: 0; }
th, td { padding: .2em .45em; text-align: center; border-bottom: 1px solid light-dark(#d5d9dd, #3a4046); }
th { background: light-dark(#fff, #16191d); font-weight: 600; }
thead { position: sticky; top: 0; z-index: 2; }
.name { position: sticky; left: 0; z-index: 1; text-align: left; white-space: nowrap; }
.first { border-left: 2px solid light-dark(#9aa3ab, #68727c); }
.optional { font-weight: 400; font-style: italic; }
.right { background: light-dark(#bfe8da, #0b5a46); }
.tried { background: light-dark(#fbe0a6, #6b4a00); }
"""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{reload}">
<title>Progress of {many}</title>
<style>{style}</style>
</head>
<body>
<h1>Progress of {many}</h1>
<p>{legend}. Exercises in italics are optional. Read from the notebooks as they were saved last.</p>
<table>
<thead>
<tr><th class="name" rowspan="2" scope="col">learner</th><th rowspan="2" scope="col">right</th>{over}</tr>
<tr>{heads}</tr>
</thead>
<tbody>
{rows}
</tbody>
<tfoot>
{feet}
</tfoot>
</table>
{notes}
</body>
</html>
"""
NO_ACCENT = str.maketrans("łøđħıæœ", "lodhiao")


def html(learners, course):
    """Return the page as text. learners: Learner objects."""
    columns = [(lesson, exercise) for lesson in course.values() for exercise in lesson.exercises]
    learners = sorted(learners, key=lambda person: in_order(person.name))
    states = [[person.states[lesson.stem][exercise.number] for lesson, exercise in columns] for person in learners]
    over = "".join(
        f'<th class="first" scope="colgroup" colspan="{len(lesson.exercises)}">{escape(lesson.label)}</th>'
        for lesson in course.values()
        if lesson.exercises
    )
    heads = "".join(
        f'<th scope="col" class="{_edge(lesson, exercise)}{" optional" * exercise.optional}">{exercise.number}</th>'
        for lesson, exercise in columns
    )
    rows = "\n".join(
        f'<tr><th class="name" scope="row">{escape(person.name)}</th><td>{row.count(RIGHT)}</td>'
        f"{_cells(columns, row)}</tr>"
        for person, row in zip(learners, states, strict=True)
    )
    feet = "\n".join(_sums(columns, states, state) for state in MARKS)
    notes = "".join(f"<li>{escape(f'{person.name}: {note}')}</li>" for person in learners for note in person.notes)
    legend = ", ".join(f"{mark} {state}" for mark, state in zip(MARKS.values(), MARKS, strict=True))
    many = f"{len(learners)} learner{'s' if len(learners) > 1 else ''}"
    shown = f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""
    return PAGE.format(
        many=many, legend=legend, over=over, heads=heads, rows=rows, feet=feet, notes=shown, reload=RELOAD, style=STYLE
    )


def _cells(columns, row):
    return "".join(
        f'<td class="{state.replace(" ", "-")}{_edge(lesson, exercise)}" title="{exercise.number}: {state}">'
        f'<span role="img" aria-label="{state}">{MARKS[state]}</span></td>'
        for (lesson, exercise), state in zip(columns, row, strict=True)
    )


def _sums(columns, states, wanted):
    """Return the row that counts one of STATES: in all, and in each column."""
    counts = [sum(row[at] == wanted for row in states) for at in range(len(columns))]
    cells = "".join(f'<td class="{_edge(*at)}">{count}</td>' for at, count in zip(columns, counts, strict=True))
    return f'<tr><th class="name" scope="row">{MARKS[wanted]} {wanted}</th><td>{sum(counts)}</td>{cells}</tr>'


def _edge(lesson, exercise):
    """A line on the left where a lesson begins."""
    return " first" if exercise is lesson.exercises[0] else ""


def in_order(name):
    """A key that sorts names: seat 2 before seat 10, and neither capitals nor accents matter."""
    parts = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(part for part in parts if not unicodedata.combining(part)).translate(NO_ACCENT)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", plain)], name

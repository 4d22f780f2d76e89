"""Exercises as a strip of fields: filled is right, half filled tried, empty waits. HTML, which Markdown holds, too."""

from html import escape

from lessonkit.progress.saved import MARKS, NOT_RUN, RIGHT, TRIED
from lessonkit.progress.summary import line
from lessonkit.shown import TINTS

COLORS = {RIGHT: (TINTS["right"], 0.3), TRIED: (TINTS["not yet"], 0.15)}  # and how strong; others are not filled
NAME = "progress.md"
PAGE = """\
# Your progress

{line}

| lesson | exercises | min left |
|---|---|---:|
{rows}

{legend}. Exercises in italics are optional. Read from your notebooks, as they were saved, when JupyterLab was started.
"""


def strip(lesson, states):
    """Return the strip of a lesson's exercises. states: {number: one of STATES}."""
    return "".join(_field(exercise, states[exercise.number]) for exercise in lesson.exercises)


def _field(exercise, state):
    color, fill = COLORS.get(state, (TINTS["turn"], 0))
    rgb = ", ".join(map(str, color))
    style = f"display: inline-block; margin: 0 4px 4px 0; padding: 0 8px; border: 1px solid rgb({rgb}); "
    style += f"border-radius: 4px; background-color: rgba({rgb}, {fill})"
    number = f"<i>{exercise.number}</i>" if exercise.optional else exercise.number
    return f'<span style="{style}" title="{state}">{MARKS[state]} {number}</span>'


def begun(learner):
    """Whether anything was run."""
    return any(state != NOT_RUN for states in learner.states.values() for state in states.values())


def page(learner, course):
    """Return the page with which a learner who has begun goes on, as Markdown."""
    rows = []
    for stem, lesson in course.items():
        if lesson.exercises:
            name = f"[{escape(lesson.label)}]({learner.files.get(stem, f'{stem}.ipynb')})"
            left = round(learner.minutes_left(lesson)) or ""
            rows.append(f"| {name} | {strip(lesson, learner.states[stem])} | {left} |")
    legend = ", ".join(f"{mark} {state}" for state, mark in MARKS.items())
    return PAGE.format(line=line(learner, course, "[{0}]({0})"), rows="\n".join(rows), legend=legend)

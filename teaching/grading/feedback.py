"""A page of feedback for each learner: what each check said of which answer."""

import hashlib
import re
from html import escape
from pathlib import Path

from teaching.grading.lesson import title

SAYS = {
    "right": "Right",
    "partly": "Partly right",
    "not yet": "Not yet",
    "raised": "Raised an error",
    "waits": "Not answered",
    "missing": "Not found",
    "stopped": "Stopped",
}
STYLE = Path(__file__).with_name("feedback.css").read_text(encoding="utf-8")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style></head><body>
<h1>{title}</h1>
<p>{sum}</p>
{parts}
</body></html>
"""


ENDS_AS_ANOTHERS = re.compile(r"-[0-9a-f]{6}$")  # the page of a learner whose name makes no plain file name


def name(learner):
    """Return the file name of a learner's page: the learner's, where that makes a plain file name."""
    plain = re.sub(r"[^\w.-]+", "_", learner).strip(".")[:80]
    if plain == learner and not ENDS_AS_ANOTHERS.search(plain):
        return f"{plain}.html"
    return f"{plain}-{hashlib.sha256(learner.encode()).hexdigest()[:6]}.html"


def page(result, lesson):
    """Return the HTML of a learner's page."""
    total = f"{_number(result.points())} of {_number(result.of())} points"
    if result.of(True):
        total += f", and {_number(result.points(True))} of {_number(result.of(True))} from optional exercises"
    notes = [f"The file could not be graded: {result.why}."] if result.why else []
    notes += [remark.page for remark in result.remarks]
    parts = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    if not result.why:
        parts += "\n".join(_part(mark, title(lesson.exercises[mark.number])) for mark in result.marks)
    heading = f"Lesson {lesson.number}: {result.learner}"
    return PAGE.format(style=STYLE, title=escape(heading), sum=escape(total + "."), parts=parts)


def _part(mark, title):
    points = f"{_number(mark.points)} of {mark.of}" + (", optional" if mark.optional else "")
    lines = [f"<h2>{mark.number} · {escape(title)} · {SAYS[mark.verdict]} · {points}</h2>"]
    if mark.message:
        message = mark.message if mark.verdict != "stopped" else f"{mark.message[:1].upper()}{mark.message[1:]}."
        lines.append(f'<p class="message">{escape(message)}</p>')
    lines += [f"<p>{escape(remark.page)}</p>" for remark in mark.remarks]
    if mark.cells and mark.verdict != "waits":
        code = escape("\n\n".join(mark.cells))
        lines.append(f"<details><summary>The answer that was graded</summary><pre>{code}</pre></details>")
    return f'<section class="{mark.verdict.replace(" ", "")}">{"".join(lines)}</section>'


def _number(value):
    return f"{round(value, 2):g}"

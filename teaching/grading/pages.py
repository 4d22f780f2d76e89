"""A page of feedback for each learner: what each check said of which answer."""

import hashlib
import re
from html import escape
from pathlib import Path

LONGEST = 100_000  # characters of an answer
SAYS = {
    "right": "Right",
    "partly": "Partly right",
    "not yet": "Not yet",
    "raised": "Raised an error",
    "waits": "Not answered",
    "missing": "Not found",
    "stopped": "Stopped",
}
STYLE = Path(__file__).with_name("pages.css").read_text(encoding="utf-8")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style></head><body>
<h1>{title}</h1>
<p>{sum}.</p>
{parts}
</body></html>
"""


def name(learner):
    """Return the file name of a learner's page: the learner's, where that makes a plain file name."""
    plain = re.sub(r"[^\w.-]+", "_", learner).strip(".")[:80]
    if plain == learner:
        return f"{plain}.html"
    return f"{plain}~{hashlib.sha256(learner.encode()).hexdigest()[:32]}.html"  # no plain name has a ~


def total(result):
    """Return a learner's points in words."""
    text = f"{result.points():g} of {result.of()} points"
    return text + f", and {result.points(True):g} of {result.of(True)} from optional exercises" * bool(result.of(True))


def page(result, lesson):
    """Return the HTML of a learner's page."""
    unread = [f"the file could not be graded: {result.why}"] if result.why else []
    parts = [_sentence(clause) for clause in [*unread, *result.remarks]]
    if not result.why:
        parts += [_part(mark, lesson.exercises[mark.number]) for mark in result.marks]
    title = escape(f"Lesson {lesson.number}: {result.learner}")
    return PAGE.format(style=STYLE, title=title, sum=total(result), parts="\n".join(parts))


def _part(mark, exercise):
    takes = escape(", ".join(check.argument for check in exercise.checks))
    points = f"{mark.points:g} of {mark.of}" + (", optional" if mark.optional else "")
    lines = [f"<h2>{mark.number} · {takes} · {SAYS[mark.verdict]} · {points}</h2>"]
    if mark.verdict == "stopped":
        lines.append(_sentence(mark.message))
    elif mark.message:
        lines.append(f'<p class="message">{escape(mark.message)}</p>')
    lines += map(_sentence, mark.remarks)
    if mark.cells and mark.verdict != "waits":
        code = escape("\n\n".join(mark.cells)[:LONGEST])
        lines.append(f"<details><summary>The answer that was graded</summary><pre>{code}</pre></details>")
    return f'<section class="{mark.verdict.replace(" ", "")}">{"".join(lines)}</section>'


def _sentence(clause):
    """Return a clause as a paragraph of one sentence."""
    return f"<p>{escape(clause[:1].upper() + clause[1:])}.</p>"

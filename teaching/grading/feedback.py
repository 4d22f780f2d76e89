"""A page of feedback for each learner: what each check said of which answer."""

import hashlib
import re
from html import escape

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
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff }}
section {{ border-left: .4rem solid #888; padding: .1rem 1rem; margin: 1.5rem 0 }}
section.right {{ border-color: #007a5a }} section.waits, section.missing {{ border-color: #999 }}
section.notyet, section.raised, section.partly, section.stopped {{ border-color: #b45f00 }}
pre {{ background: #f4f5f6; padding: .7rem; overflow-x: auto; font-size: 14px }}
.said {{ white-space: pre-wrap }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #181a1b }} pre {{ background: #25282a }} }}
</style></head><body>
<h1>{title}</h1>
<p>{sum}</p>
{parts}
</body></html>
"""


def name(learner):
    """Return the file name of a learner's page: the learner's, where that makes a plain file name."""
    plain = re.sub(r"[^\w.-]+", "_", learner).strip(".")[:80]
    if plain == learner:
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
    return PAGE.format(title=escape(heading), sum=escape(total + "."), parts=parts)


def _part(mark, title):
    points = f"{_number(mark.points)} of {mark.of}" + (", optional" if mark.optional else "")
    lines = [f"<h2>{mark.number} · {escape(title)} · {SAYS[mark.verdict]} · {points}</h2>"]
    if mark.said:
        message = mark.said if mark.verdict != "stopped" else f"{mark.said[:1].upper()}{mark.said[1:]}."
        lines.append(f'<p class="said">{escape(message)}</p>')
    lines += [f"<p>{escape(remark.page)}</p>" for remark in mark.remarks]
    if mark.cells and mark.verdict != "waits":
        code = escape("\n\n".join(mark.cells))
        lines.append(f"<details><summary>The answer that was graded</summary><pre>{code}</pre></details>")
    return f'<section class="{mark.verdict.replace(" ", "")}">{"".join(lines)}</section>'


def _number(value):
    return f"{round(value, 2):g}"

"""What every lesson has and nobody writes: a card above each exercise, and the way on at the end."""

import ast

from coursebuild.cells import Cell
from lessonkit.course import CARD, REFERENCE


def card(lesson, cell):
    """Return the Markdown card that shows an exercise from afar, as a list of one cell; [] for any other cell."""
    if "exercise" not in cell.tags:
        return []
    number, difficulty, minutes = CARD.search(cell.source).groups()
    ident = f"card-{number.replace('.', '-')}"
    if any(other.id == ident for other in lesson.cells):
        lesson.fail(cell.line, f"exercise {number} has a cell already. Join the two, or give one another number.")
    text = (
        '<div class="alert alert-info">\n\n'
        f"**Exercise {number}** · {difficulty} · {minutes} min · {_what(lesson, cell.source)}\n\n</div>"
    )
    return [Cell("markdown", text, [], ident, cell.line)]


def _what(lesson, source):
    """Say what an exercise asks for, from the names that its solution binds at top level."""
    names, kind = [], "Answer"
    try:
        nodes = ast.parse(source).body
    except SyntaxError:  # refused elsewhere, with its line
        nodes = []
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            kind = "Write"
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    listed = ", ".join(f"`{name}`" for name in names if not name.startswith("_"))
    if lesson.alone:  # the check is called in the exercise's own cell
        return f"{kind} {listed} and run the cell."
    return f"{kind} {listed}, run the cell, then the check below it." if listed else "Run the cell, then the check."


def how_far(lesson):
    """Return the cell that sums up, at the end of Restart and Run All, what is right so far; none without exercises."""
    if not (lesson.code("exercise") and lesson.code("check")):
        return []
    return [Cell("code", f'check.summary("{lesson.module}")', [], "how-far", 1)]


def what_next(lesson):
    """Return the cell that ends a lesson: where it goes on, and in the learner edition where its solutions are.

    It is in a list; none is in that of the reference.
    """
    if lesson.reference:
        return []
    later = sorted(path for path in lesson.path.parent.glob("[0-9][0-9]_*") if path.stem > lesson.stem)
    reference = [path for path in later if path.stem[3:] == REFERENCE]
    after = [path for path in later if path not in reference]
    if after:
        title = (
            (after[0] / "lesson.py")
            .read_text(encoding="utf-8", errors="replace")
            .partition("# # ")[2]
            .partition("\n")[0]
        )
        on = f"**Next:** [{title}]({after[0].stem}.ipynb)"
    else:
        on = "**This was the last lesson.**"
        on += "".join(f" To look things up: [the reference]({path.stem}.ipynb)" for path in reference)
    solutions = f"**Solutions**, for when you have tried: [solutions/{lesson.stem}](solutions/{lesson.stem}.ipynb)"
    return [Cell("markdown", f"---\n{on}", [], "what-next", 1, learner=f"---\n{on} · {solutions}")]

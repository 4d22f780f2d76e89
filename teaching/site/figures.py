"""A picture on a page: its caption, and in a fold its description and the numbers that it draws."""

import csv
import html
import io

from teaching.site.markdown import box, fold

# What the first column is called: the kind of figure, and how many columns say what a row belongs to.
KINDS = {
    "curve": ("Curves", 1),
    "panel": ("Panels with curves", 2),
    "bar": ("Bars", 1),
    "values": ("Histograms", 1),
    "image": ("Images in shades of gray", 1),
    "points": ("Points and curves in three dimensions", 1),
    "tensor": ("Tensors as blocks of cells", 1),
}


def figure(picture, path):
    """Return the Markdown of a Figure. path: where its file lies, as the page sees it."""
    shown = box("figure", path, picture.caption, alt=picture.alt, width=f"{picture.width}px", class_="drawn")
    return f"{shown}\n\n{behind(picture)}"


def behind(picture):
    """Return the fold with the description of a Figure and, if it has any, its numbers."""
    title = "Description and numbers" if picture.numbers else "Description"
    words = f'<p class="description">{html.escape(picture.alt)}</p>'
    if picture.numbers:
        words += "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in summary(picture.numbers)) + "</ul>"
    return fold(title, words + ("\n\n" + table(picture.numbers, picture.rows) if picture.numbers else ""), "numbers")


def summary(numbers):
    """Return what a table of numbers says in words: what is drawn, over which range, and where each curve goes.

    numbers: CSV as lessonkit.plot writes it; its first column says which kind of figure it is.
    """
    head, *rows = csv.reader(io.StringIO(numbers))
    kind, names = KINDS.get(head[0], ("Values by row and column", 1))
    lines = [kind]
    for at, name in enumerate(head[names:], names):
        values = [value for row in rows if (value := _number(row[at])) is not None]
        if values:
            lines.append(f"{name}: from {min(values):g} to {max(values):g}")
    if head[0] in ("curve", "panel"):
        curves = {}
        for row in rows:
            curves.setdefault(", ".join(row[:names]), []).append(row[names : names + 2])
        for name, points in curves.items():
            (x, y), (last_x, last_y) = points[0], points[-1]
            if len(points) > 1 and y and last_y:
                lines.append(f"{name}: {y} at {x}, {last_y} at {last_x}")
    return lines


def table(numbers, total):
    """Return CSV as an HTML table that scrolls by itself. total: rows before some were left out."""
    head, *rows = csv.reader(io.StringIO(numbers))
    shown = f"{len(rows)} of {total} rows, evenly spaced" if total > len(rows) else f"{len(rows)} rows"
    cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        '<div class="scrolls" tabindex="0" role="group" aria-label="The numbers of this figure">'
        f"<table><caption>What the figure draws ({shown})</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _number(text):
    try:
        return float(text)
    except ValueError:  # a word, or no value
        return None

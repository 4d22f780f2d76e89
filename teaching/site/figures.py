"""A picture on a page: its caption, and in a fold its description and the numbers that it draws."""

import csv
import html
import io

from teaching.site.markdown import box, fold


def figure(picture, path):
    """Return the Markdown of a Figure. path: where its file lies, as the page sees it."""
    shown = box("figure", path, picture.caption, alt=picture.alt, width=f"{picture.width}px", class_="drawn")
    description = f'<p class="description">{html.escape(picture.alt)}</p>'
    if not picture.numbers:
        return f"{shown}\n\n{fold('Description', description, 'numbers')}"
    behind = f"{description}\n\n{table(picture.numbers, picture.rows)}"
    return f"{shown}\n\n{fold('Description and numbers', behind, 'numbers')}"


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

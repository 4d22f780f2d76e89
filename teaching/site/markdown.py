"""Write MyST Markdown: boxes, folds, code and figures, and links that hold on the site."""

import csv
import html
import io
import json
import re

DATA = re.compile(r"\]\(\.\./(data/[^)\s]+)\)")
INVENTORY = re.compile(r"\[([^\]]+)\]\((inventory_[ab]\.ipynb)\)")  # no page of the site, only a file to fetch

HEAD = re.compile(r"^\|.*\|(?=\n\|[\s:|-]+\|$)", re.MULTILINE)  # the headings of a table
UNNAMED = '| <span class="visually-hidden">what it is</span> '  # a screen reader wants a heading for every column


def slug(text):
    """Return the anchor of a heading as JupyterLab makes it, so that one link works in a notebook and on the site."""
    return text.replace(" ", "-")


def _fence(mark, body):
    """Return the marks of a fence that is longer than any in its body."""
    return mark * (1 + max([2, *map(len, re.findall(f"{mark}{{3,}}", body))]))


def box(directive, title, body, **options):
    """Return a directive around Markdown, for example box("admonition", "Predict 3.1", text, class_="predict")."""
    fence = _fence(":", body)
    names = {name: name.rstrip("_").replace("_", "-") for name in options}
    lines = [f":{names[name]}: {json.dumps(value, ensure_ascii=False)}" for name, value in options.items()]
    return "\n".join([f"{fence}{{{directive}}} {title}".rstrip(), *lines, "", body.strip(), fence])


def fold(title, body, kind):
    """Return a fold that is closed; kind: its CSS class."""
    return box("dropdown", title, body, class_container=f"fold {kind}")


def code(source, language="python"):
    """Return a block of code, or of output (language "text")."""
    fence = _fence("`", source)
    return f"{fence}{language}\n{source.rstrip()}\n{fence}"


def prose(markdown):
    """Return a lesson's Markdown as the site shows it: links to files are its own, and no kernel is asked for."""
    markdown = HEAD.sub(lambda head: re.sub(r"\|[^\S\n]*(?=\|)", UNNAMED, head[0]), markdown)
    markdown = INVENTORY.sub(r'<a href="notebooks/\2" download>\1</a>', markdown)
    return DATA.sub(r"](\1)", markdown)


def links(kind, places):
    """Return {text: address} as a row of links; kind: its CSS class. Notebooks are for downloading."""
    row = (
        f'<a href="{html.escape(to)}"{" download" * to.startswith("notebooks/")}>{text}</a>'
        for text, to in places.items()
    )
    return f'<p class="{kind}">{" ".join(row)}</p>'


def figure(picture, path):
    """Return a Figure with its caption, and in a fold its description and the numbers that it draws.

    path: where its file lies, as the page sees it.
    """
    shown = box("figure", path, picture.caption, alt=picture.alt, width=f"{picture.width}px", class_="drawn")
    title, behind = "Description", f'<p class="description">{html.escape(picture.alt)}</p>'
    if picture.numbers:
        title, behind = "Description and numbers", f"{behind}\n\n{_table(picture.numbers, picture.rows)}"
    return f"{shown}\n\n{fold(title, behind, 'numbers')}"


def _table(numbers, total):
    """Return CSV as an HTML table that scrolls by itself. total: rows before some were left out."""
    head, *rows = csv.reader(io.StringIO(html.escape(numbers, quote=False)))
    shown = f"{len(rows)} of {total} rows, evenly spaced" if total > len(rows) else f"{len(rows)} rows"
    cells = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
    return (
        '<div class="scrolls" tabindex="0" role="group" aria-label="The numbers of this figure">'
        f"<table><caption>What the figure draws ({shown})</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )

"""Write MyST Markdown: boxes, folds and code, and links that hold on the site."""

import json
import re

DATA = re.compile(r"\]\(\.\./(data/[^)\s]+)\)")
INVENTORY = re.compile(r"\[([^\]]+)\]\((inventory_[ab]\.ipynb)\)")  # no page of the site, only a file to fetch

HEAD = re.compile(r"^\|.*\|(?=\n\|[\s:|-]+\|$)", re.MULTILINE)  # the headings of a table
UNNAMED = '| <span class="visually-hidden">what it is</span> '  # a screen reader wants a heading for every column


def box(directive, title, body, **options):
    """Return a directive around Markdown, for example box("admonition", "Predict 3.1", text, class_="predict")."""
    longest = max([2, *(len(run) for run in re.findall(r"^:{3,}", body, re.MULTILINE))])
    fence = ":" * (longest + 1)
    lines = [
        f":{name.rstrip('_').replace('_', '-')}: {json.dumps(str(v), ensure_ascii=False)}"
        for name, v in options.items()
    ]
    return "\n".join([f"{fence}{{{directive}}} {title}".rstrip(), *lines, "", body.strip(), fence])


def fold(title, body, kind):
    """Return a fold that is closed; kind: its CSS class."""
    return box("dropdown", title, body, class_container=f"fold {kind}")


def code(source, language="python"):
    """Return a block of code, or of output (language "text")."""
    longest = max([2, *(len(run) for run in re.findall(r"`{3,}", source))])
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{source.rstrip()}\n{fence}"


def prose(markdown):
    """Return a lesson's Markdown as the site shows it: links to files are its own, and no kernel is asked for."""
    markdown = HEAD.sub(lambda head: re.sub(r"\|[^\S\n]*(?=\|)", UNNAMED, head[0]), markdown)
    markdown = INVENTORY.sub(r'<a href="notebooks/\2" download>\1</a>', markdown)
    return DATA.sub(r"](\1)", markdown)

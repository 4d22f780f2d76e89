"""A cell with widgets as a page shows it: every position was drawn before, and twin.js chooses which one is seen."""

import csv
import html
import io
import json

from teaching import material
from teaching.site import figures

FRAMES = material.ROOT / "build/frames"  # a folder for each cell with widgets, written by capture


def load(folder):
    """Return what `sweep` kept in a folder.

    Raises FileNotFoundError, with the way out, where it has not been there.
    """
    path = folder / "positions.json"
    if not path.exists():
        raise FileNotFoundError(
            f"There is no {path}: what the widgets of cell {folder.name} show was not captured yet. Run `make site`."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def figure(swept, ident):
    """Return the HTML of a cell with widgets. swept: what `sweep` kept. ident: the cell's id.

    Without JavaScript the first position is shown.
    """
    first = next(row for row in swept["rows"] if row["key"] == [control["start"] for control in swept["controls"]])
    shown = "".join(_shown(item, ident) for item in first["show"])
    return (
        f'<figure class="twin" id="twin-{ident}" data-frames="_static/frames/{ident}/">'
        f'<div class="controls"></div>{shown}<script src="_static/frames/{ident}/positions.js"></script></figure>'
    )


def positions(swept, ident):
    """Return the JavaScript file with all positions: a page that was opened from a disk may load it as well."""
    rows = [{**row, "show": [_with_table(item) for item in row["show"]]} for row in swept["rows"]]
    return f"(window.twins ??= {{}})[{json.dumps(ident)}] = {json.dumps(swept | {'rows': rows}, ensure_ascii=False)};\n"


def _with_table(item):
    if not item.get("numbers"):
        return item
    return item | {"alt": _alt(item), "numbers": list(csv.reader(io.StringIO(item["numbers"])))}


def _alt(item):
    """Say what a picture shows: the lesson's words, and what its numbers say."""
    said = figures.summary(item["numbers"]) if item["numbers"] else []
    return " ".join([item["alt"], *(f"{line}." for line in said)])


def _shown(item, ident):
    if "picture" not in item:
        return f'<div data-out aria-live="polite">{item.get("html") or html.escape(item["text"])}</div>'
    numbers = figures.table(item["numbers"], item["rows"]) if item["numbers"] else ""
    alt = html.escape(_alt(item))
    return (
        f'<div data-out><img src="_static/frames/{ident}/{item["picture"]}" alt="{alt}" '
        f'width="{item["width"]}" height="{item["height"]}"><details class="fold numbers">'
        f"<summary>Description and numbers</summary><p>{alt}</p>{numbers}</details></div>"
    )

"""A run sheet as one page of A4: HTML with a style sheet for print, from the plan's Markdown."""

import html
from pathlib import Path

from teaching.material import PACKAGES
from teaching.slides import render

STYLE = Path(__file__).with_name("sheet.css")
READY = "MathJax.startup.defaultPageReady().then(() => { document.body.dataset.ready = 'yes'; })"


def page(sheet):
    """Return the HTML of a run sheet. MathJax, which sets its formulas, says when it is ready to be printed."""
    title = sheet.partition("\n")[0].removeprefix("# ")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>{STYLE.read_text(encoding="utf-8")}</style>
<script>window.MathJax = {{ startup: {{ pageReady: () => {READY} }}, options: {{ enableMenu: false }} }};</script>
<script defer src="{(PACKAGES / "mathjax/es5/tex-svg.js").as_uri()}"></script></head>
<body>{render.markdown(sheet)}</body></html>
"""

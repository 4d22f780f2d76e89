"""Markdown, code and pictures of a lesson as the HTML of a slide."""

import html
import re

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FORMATTER = HtmlFormatter(nowrap=True)
BLOCKS = ("paragraph_open", "bullet_list_open", "ordered_list_open", "math_block", "fence")
NOTEBOOK = re.compile(
    r"\b(?:next|selected|folded) cell\b|\b[Rr]un (?:this|the) cell\b|running kernel|Shift\+Enter|^\*About \d|^:::"
)
WIDE = 100  # letters of a line of output that are not set smaller
LONG = 120  # letters of a formula's source
DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)


def _formula(text, options):
    shown = html.escape(text)
    return f"\\[{shown}\\]" if options["display_mode"] else f"\\({shown}\\)"


def _parser():
    made = MarkdownIt("commonmark", {"html": True}).enable("table")
    made.use(dollarmath_plugin, double_inline=True, renderer=_formula)
    for name in ("link_open", "link_close"):  # a slide is not clicked through, and a deck stands alone
        made.add_render_rule(name, lambda *_: "")
    return made


PARSER = _parser()


def markdown(text):
    """Return the HTML of Markdown, without its links and without anything in <details>, which holds hints."""
    return PARSER.render(DETAILS.sub("", text))


def inline(text):
    """Return the HTML of one line of Markdown."""
    return PARSER.renderInline(text)


def code(source):
    return f'<pre class="code">{highlight(source, PythonLexer(), FORMATTER).rstrip()}</pre>'


def output(text):
    wide = max(map(len, text.splitlines()), default=0) > WIDE
    return f'<pre class="output{" wide" * wide}">{html.escape(text.rstrip())}</pre>'


def blocks(text):
    """Return the blocks of a text that carry its argument, as Markdown: paragraphs, lists, formulas, code.

    Headings, tables and boxes are left out, and what only speaks of the notebook.
    """
    text = DETAILS.sub("", text)
    lines, found = text.split("\n"), []
    for token in PARSER.parse(text):
        if token.level == 0 and token.map and token.type in BLOCKS:
            block = "\n".join(lines[slice(*token.map)]).strip()
            if not NOTEBOOK.search(block):
                found.append(block)
    return found


def last(found, most):
    """Return the last blocks, and as many before them as they need to be understood: a formula or a list needs one."""
    start = max(0, len(found) - most)
    while start and (found[start][:1].islower() or found[start].startswith(("$$", "- ", "* ", "1. ", "(", "```"))):
        start -= 1
    return found[start:]


def formulas(text):
    """Return the displayed formulas of a text, with the sentence before them, as Markdown.

    The parser finds them: two formulas in one text may stand in one paragraph. Those that follow one another without a
    word stay together, and a long one is broken where its author left a wide gap.
    """
    found, before, joined = [], "", False
    for token in PARSER.parse(DETAILS.sub("", text)):
        if token.type == "math_block":
            shown = _broken(token.content)
            if joined:
                found[-1] += f"\n\n{shown}"
            else:
                found.append(f"{before}\n\n{shown}".strip())
            before, joined = "", True
        elif token.type == "inline":
            if any(child.type == "math_inline_double" for child in token.children):
                found.append(token.content)
            before, joined = token.content, False
    return found


def _broken(formula):
    parts = formula.split("\\qquad") if len(formula) > LONG and "\\begin" not in formula else [formula]
    return "\n\n".join(f"$$\n{part.strip()}\n$$" for part in parts if part.strip())

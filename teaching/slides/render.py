"""Markdown, code and pictures of a lesson as the HTML of a slide."""

import html
import re

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FORMATTER = HtmlFormatter(nowrap=True)
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
    return f'<pre class="output">{html.escape(text.rstrip())}</pre>'


def formulas(text):
    """Return each displayed formula of a text, with the sentence before it, as Markdown.

    The parser finds them: two formulas in one text may stand in one paragraph.
    """
    found, before = [], ""
    for token in PARSER.parse(DETAILS.sub("", text)):
        if token.type == "math_block":
            found.append(f"{before}\n\n$${token.content}$$")
            before = ""
        elif token.type == "inline":
            if any(child.type == "math_inline_double" for child in token.children):
                found.append(token.content)
            before = token.content
    return found


def paragraphs(text):
    """Return the paragraphs of plain prose in a text: no headings, lists, tables, formulas, boxes."""
    parts = re.split(r"\n\s*\n", DETAILS.sub("", text).strip())
    return [part for part in parts if part and not re.match(r"#|\||<|\$\$|[-*] |\d+\. |\*About|:::", part)]

"""Markdown, code and pictures of a lesson as the HTML of a slide."""

import difflib
import html
import re
import textwrap

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FORMATTER = HtmlFormatter(nowrap=True)
BLOCKS = ("paragraph_open", "bullet_list_open", "ordered_list_open", "math_block", "fence", "table_open")
LED = ("$$", "- ", "* ", "1. ", "(", "```", "|")  # so a block begins that another one leads to
NOTEBOOK = re.compile(
    r"\b(?:next|selected|folded) cell\b|\b[Rr]un (?:this|the) cell\b|running kernel|Shift\+Enter|^\*About \d|^:::"
)
FOLDED = re.compile(r", folded here,|,? \(folded(?: here)?\)")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*$(])")
OF_FOLDS = re.compile(r"\b[Ff]olded (?:cell|class|function)")
RECORD = re.compile(r"recorded on \S+ \((.*), [^,]*, torch [^)]*\)")
LONG = 120  # letters of a formula's source
DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)


def _formula(text, options):
    shown = html.escape(text)
    return f"\\[{shown}\\]" if options["display_mode"] else f"\\({shown}\\)"


def _parser():
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.use(dollarmath_plugin, double_inline=True, renderer=_formula)
    for name in ("link_open", "link_close"):  # a slide is not clicked through, and a deck stands alone
        parser.add_render_rule(name, lambda *_: "")
    return parser


PARSER = _parser()


def markdown(text):
    """Return the HTML of Markdown, without its links and without anything in <details>, which holds hints."""
    return PARSER.render(DETAILS.sub("", text))


def inline(text):
    """Return the HTML of one line of Markdown."""
    return PARSER.renderInline(text)


def code(source, rows=slice(None)):
    """Return the HTML of code, of these lines of it, each in a span that knows its indent where it is wrapped."""
    return f'<pre class="code">{_lines(highlight(source, PythonLexer(stripnl=False), FORMATTER), source, rows)}</pre>'


def output(text):
    """Return the HTML of what a cell prints; matrices, each below a line that ends in "=", stand side by side."""
    groups = re.split(r"\n(?=\S.* =\n)", text.rstrip())
    shown = (f'<span class="group">{_lines(html.escape(group), group, slice(None))}</span>' for group in groups)
    return f'<pre class="output">{"".join(shown)}</pre>'


def _lines(shown, source, rows):
    pairs = list(zip(shown.rstrip("\n").split("\n"), source.rstrip("\n").split("\n"), strict=True))[rows]
    return "".join(f'<span class="line" style="--in: {_indent(plain)}">{line}\n</span>' for line, plain in pairs)


def _indent(line):
    return len(line) - len(line.lstrip()) + 4


def own(solution, task):
    """Return the lines of a solution that its task does not have; an empty line is where the task goes on."""
    before, after = task.splitlines(), solution.splitlines()
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    parts = [after[first:last] for kind, _, _, first, last in changes if kind in ("insert", "replace")]
    return textwrap.dedent("\n\n".join("\n".join(part).strip("\n") for part in parts if "".join(part).strip()))


def caption(text):
    """Return a caption without the day and the machine of a record."""
    return RECORD.sub(r"recorded (\1)", text)


def blocks(text):
    """Return the blocks of a text that carry its argument, as Markdown: paragraphs, lists, tables, formulas, code.

    Headings and boxes are left out, and what only speaks of the notebook.
    """
    text = DETAILS.sub("", text)
    lines, carrying = text.split("\n"), []
    for token in PARSER.parse(text):
        if token.level == 0 and token.map and token.type in BLOCKS:
            block = FOLDED.sub("", "\n".join(lines[slice(*token.map)]).strip())
            if OF_FOLDS.search(block):
                block = " ".join(part for part in SENTENCE.split(block) if not OF_FOLDS.search(part))
            if block and not NOTEBOOK.search(block):
                carrying.append(block)
    return carrying


def closed(blocks):
    """Return blocks without a last sentence that leads to what is not shown: it ends in a colon."""
    while blocks and blocks[-1].endswith(":"):
        kept = SENTENCE.split(blocks[-1])[:-1]
        blocks = [*blocks[:-1], " ".join(kept)] if kept else blocks[:-1]
    return blocks


def last(blocks, most):
    """Return the last blocks, and as many before them as they need to be understood: a formula or a list needs one."""
    start = max(0, len(blocks) - most)
    while start and (blocks[start][:1].islower() or blocks[start].startswith(LED)):
        start -= 1
    return blocks[start:]


def formulas(text):
    """Return the displayed formulas of a text, with the sentence before them, as Markdown.

    The parser finds them: two formulas in one text may stand in one paragraph. Those that follow one another without a
    word stay together, and a long one is broken where its author left a wide gap.
    """
    displayed, before, joined = [], "", False
    for token in PARSER.parse(DETAILS.sub("", text)):
        if token.type == "math_block":
            shown = _broken(token.content)
            if joined:
                displayed[-1] += f"\n\n{shown}"
            else:
                displayed.append(f"{before}\n\n{shown}".strip())
            before, joined = "", True
        elif token.type == "inline":
            if any(child.type == "math_inline_double" for child in token.children):
                displayed.append(token.content)
            before, joined = token.content, False
    return displayed


def _broken(formula):
    parts = formula.split("\\qquad") if len(formula) > LONG and "\\begin" not in formula else [formula]
    return "\n\n".join(f"$$\n{part.strip()}\n$$" for part in parts if part.strip())

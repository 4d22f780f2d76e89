"""Markdown, code and pictures of a lesson as the HTML of a slide."""

import ast
import html
import io
import re
import tokenize
from codeop import compile_command
from collections import defaultdict

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FORMATTER = HtmlFormatter(nowrap=True)
BLOCKS = ("paragraph_open", "bullet_list_open", "ordered_list_open", "math_block", "fence", "table_open")
COPY = re.compile(r"Copy th\w+ (three )?lines? and (replace the dots|fill in the quotes)[^:]*:?")
WIDE = 88  # letters in a row of code on a slide
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


def narrow(source):
    """Return code in lines that a slide holds: a long one is broken in a bracket, and its comment stands above it."""
    source = re.sub(rf"^(?=.{{{WIDE + 1}}})( *)(.*\S)  (# .*)$", r"\1\3\n\1\2", source, flags=re.MULTILINE)
    breaks, depth, before = defaultdict(list), 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        depth += kind == "FSTRING_START" or token.string in ("(", "[", "{")
        depth -= kind == "FSTRING_END" or token.string in (")", "]", "}")
        if depth and (before in (",", "(") or token.string in ("for", "if", "else", "and", "or")):
            breaks[token.start[0]].append((-depth, token.start[1]))
        before = token.string if not kind.startswith("FSTRING") else ""
    lines = source.split("\n")
    for number, places in breaks.items():
        line = lines[number - 1]
        margin = " " * (_indent(line) + 4 * line.endswith(":"))
        fitting = [place for place in places if place[1] <= WIDE and len(margin) + len(line) - place[1] <= WIDE]
        if len(line) > WIDE and fitting:
            at = max(fitting)[1]
            lines[number - 1] = f"{line[:at].rstrip()}\n{margin}{line[at:]}"
    return "\n".join(lines)


def code(source):
    """Return the HTML of code, each line in a span that knows its indent where it is wrapped."""
    source = narrow(source)
    return f'<pre class="code">{_lines(highlight(source, PythonLexer(stripnl=False), FORMATTER), source)}</pre>'


def output(text):
    """Return the HTML of what a cell prints."""
    return f'<pre class="output">{_lines(html.escape(text), text)}</pre>'


def _lines(shown, source):
    pairs = zip(shown.rstrip("\n").split("\n"), source.rstrip("\n").split("\n"), strict=True)
    return "".join(f'<span class="line" style="--in: {_indent(plain)}">{line}\n</span>' for line, plain in pairs)


def _indent(line):
    return len(line) - len(line.lstrip()) + 4


def asked(exercise):
    """Return (what an exercise asks, sentences of Markdown; the code that a learner sees of it, "" if there is none).

    Of a function they are the first line of its docstring and the sentence after it, an example, and its head; of a
    task on paper its sentences and its rows "name  meaning", and the lines to copy.
    """
    lines = exercise.task.splitlines()
    nodes = (node for node in ast.walk(ast.parse(exercise.task)) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    node = next((node for node in nodes if ast.get_docstring(node)), None)
    if node is None:
        return _on_paper(lines)
    what, *rest = ast.get_docstring(node).splitlines()
    ends = next((at for at, line in enumerate(rest, 1) if line.endswith(".")), 0)
    points = [what, " ".join(rest[:ends]).strip()]
    plain = [re.sub(r"[*<]", r"\\\g<0>", point) for point in points if point]
    return plain, "\n".join(lines[node.lineno - 1 : node.body[0].lineno - 1])


def _on_paper(lines):
    points, copied = [""], []
    for line in lines:
        line, comment = line.removeprefix("# "), line.startswith("# ")
        starts = re.match(r"\w+ = ", line) and not points[-1]
        if line == "...  # your answer":
            continue
        elif not comment or starts or copied and compile_command("\n".join(copied)) is None:
            copied.append(line)
        elif row := re.fullmatch(r"(\S(?:\S| \S)*) {2,}(\S.*)", line):
            points += [f"`{row[1]}` {row[2]}", ""]
        elif words := COPY.sub("", line).strip():
            at = -2 if line.startswith("    ") and not points[-1] else -1  # the row above goes on
            points[at] += f" {words}"
            points += [""] * (at == -1 and words.endswith((".", "?", ":", "}", ")")))
    return [point.strip() for point in points if point], "\n".join(copied)


def spoken(block):
    """Return the HTML of a block for the speaker: Markdown, or code that is HTML already."""
    return block if block.startswith("<") else PARSER.render(block)


def blocks(text):
    """Return the blocks of a text as Markdown: paragraphs, lists, tables, formulas, code, folds as HTML; no headings.

    A paragraph that holds a displayed formula is two or three.
    """
    parts = []
    for part in re.split(f"({DETAILS.pattern})", text, flags=re.DOTALL):
        if part.startswith("<details>"):
            parts.append(PARSER.render(part).strip())
            continue
        lines = part.split("\n")
        for token in PARSER.parse(part):
            if token.level == 0 and token.map and token.type in BLOCKS:
                parts += re.split(r"\s*(\$\$.*?\$\$)\s*", "\n".join(lines[slice(*token.map)]).strip(), flags=re.DOTALL)
    return [block for block in parts if block]

"""How a message looks in a notebook: a box, the same for all verdicts, in a tone of its own.

A box takes the text's color and the page's background from the theme, light or dark, and lays a tint over it, so that
it is readable in both; a mark and a word say what the color says. Outside a notebook a message is plain text.
"""

import html
import re
import sys

TINTS = {"right": (46, 140, 90), "not yet": (205, 115, 0), "turn": (110, 118, 129)}  # red, green, blue of 255
MARKS = {"right": "●", "not yet": "◐", "turn": "○"}  # as in `make progress`
OPACITY = 0.12  # of the tint over the page
HEAD = re.compile(r"(?:Right|Not yet|Your turn|Yes|Not quite)[:.]")
# A notebook stores an error as an error, and JupyterLab would show it once more below its box, on pink.
ONLY_THE_BOX = "<style>.jp-OutputArea-child:has(.lesson-error) + .jp-OutputArea-child { display: none; }</style>"


def in_notebook():
    """Whether this runs in a kernel that a notebook shows."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def tell(text, tone, markdown=False):
    """Show a message that is no error: a box in a notebook, else printed. markdown: whether its text is Markdown."""
    if not in_notebook():
        print(text)
    elif markdown:
        head = HEAD.match(text)[0]
        body = f"{MARKS[tone]} **{head}**{text.removeprefix(head)}"
        _display({"text/markdown": f"{_opening(tone)}\n\n{body}\n\n</div>", "text/plain": text})
    else:
        _display({"text/html": box(text, tone), "text/plain": text})


def box(text, tone, kind=""):
    """Return a message as HTML: its first words in bold after the tone's mark, a paragraph a line, `code` as code."""
    first, *more = (re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line)) for line in text.split("\n"))
    head = HEAD.match(first)
    bold = f"<b>{head[0]}</b>" if head else ""
    rest = "".join(f'<div style="margin-top: 4px">{line}</div>' for line in more)
    first = first.removeprefix(head[0]) if head else first
    return f"{_opening(tone, kind)}<div>{MARKS[tone]} {bold}{first}</div>{rest}</div>"


def _opening(tone, kind=""):
    color = ", ".join(map(str, TINTS[tone]))
    style = f"border-left: 4px solid rgb({color}); background-color: rgba({color}, {OPACITY})"
    named = f' class="{kind}"' if kind else ""
    return f'<div{named} style="{style}; padding: 6px 12px; max-width: 60em">'


def _display(data):
    from IPython.display import display  # a test or a grader has no use for it

    display(data, raw=True)


class Told(Exception):
    """An error whose text says all that a learner needs: a notebook shows a box, and no lines of code above it."""

    tone = "not yet"

    def told(self):
        """Return the text of the box."""
        return str(self)

    def _render_traceback_(self):  # IPython asks for it, and not only to show it
        return self.told().split("\n")

    def show(self):
        """Show the box in a notebook; return the lines of the error below it, which most viewers then leave out."""
        lines = self._render_traceback_()
        if not in_notebook():
            return lines
        html = ONLY_THE_BOX + box(self.told(), self.tone, "lesson-error")
        _display({"text/html": html, "text/plain": self.told()})
        head = HEAD.match(lines[0])
        return [head[0] if head else lines[0]]

"""What a notebook shows of this package's own: a box for each verdict, and "your turn" while an exercise waits.

A box lays a tint over the theme's page, light or dark; a mark and a word say what the color says. Outside a notebook a
message is plain text.

A blank exercise raises YourTurn. The hook remembers which names a waiting cell would have bound and turns a NameError
for one of them into YourTurn as well.
"""

import html
import re
import sys

from lessonkit import places
from lessonkit.course import CARD
from lessonkit.program import names

TINTS = {"right": (46, 140, 90), "not yet": (205, 115, 0), "turn": (110, 118, 129)}  # red, green, blue of 255
MARKS = {"right": "●", "not yet": "◐", "turn": "○"}  # as in `make progress`
OPACITY = 0.12  # of the tint over the page
ABOVE = "comes from a cell above that waits; answer the exercise, then run that cell again"
HEAD = re.compile(r"(?:Right|Not yet|Your turn|Yes|Not quite)[:.]")
# A notebook stores an error as an error, and JupyterLab would show it once more below its box, on pink.
ONLY_THE_BOX = "<style>.jp-OutputArea-child:has(.lesson-error) + .jp-OutputArea-child { display: none; }</style>"

waiting = {}  # name -> exercise that would have bound it
_asked = {}  # exercise -> the cell whose box says that it is the learner's turn; other cells say it in passing
above_output = {}  # id of a cell -> Markdown that is shown above what it puts out
_unread = {}  # exercise whose cell Python could not read when it was run last -> ids of what the kernel held then


def in_notebook():
    """Whether this runs in a kernel that a notebook shows."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def tell(text, tone, markdown=False):
    """Show a message that is no error: a box in a notebook, else printed. markdown: whether its text is Markdown."""
    if not markdown:
        say(text, box(text, tone))
    else:
        head = HEAD.match(text)[0]
        body = f"{MARKS[tone]} **{head}**{text.removeprefix(head)}"
        say(text, f"{_opening(tone)}\n\n{body}\n\n</div>", "text/markdown")


def say(text, shown, form="text/html"):
    """Print a text; in a notebook show its other form in its place."""
    if in_notebook():
        _display(shown, text, form)
    else:
        print(text)


def box(text, tone, kind=""):
    """Return a message as HTML: its first words in bold, a paragraph a line, `code` as code."""
    first, *more = (re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line)) for line in text.split("\n"))
    first = HEAD.sub(r"<b>\g<0></b>", first, count=1) if HEAD.match(first) else first
    rest = "".join(f'<div style="margin-top: 4px">{line}</div>' for line in more)
    return f"{_opening(tone, kind)}<div>{MARKS[tone]} {first}</div>{rest}</div>"


def _opening(tone, kind=""):
    color = ", ".join(map(str, TINTS[tone]))
    style = f"border-left: 4px solid rgb({color}); background-color: rgba({color}, {OPACITY})"
    named = f' class="{kind}"' if kind else ""
    return f'<div{named} style="{style}; padding: 6px 12px; max-width: 60em">'


def _display(shown, text, form="text/html"):
    from IPython.display import display  # a test or a grader has no use for it

    display({form: shown, "text/plain": text}, raw=True)


class Told(Exception):
    """An error whose text says all that a learner needs: a notebook shows a box and no traceback."""

    tone = "not yet"

    def told(self):
        """Return the text of the box."""
        return str(self)

    def _render_traceback_(self):  # IPython asks for it, and not only to show it
        return self.told().split("\n")

    def html(self):
        return box(self.told(), self.tone, "lesson-error")

    def show(self):
        """Show the box in a notebook; return the lines of the error below it."""
        lines = self._render_traceback_()
        if not in_notebook():
            return lines
        _display(ONLY_THE_BOX + self.html(), self.told())
        head = HEAD.match(lines[0])
        return [head[0] if head else lines[0]]


class YourTurn(Told):
    """A part that the learner has not written yet. Its text starts with the exercise: "3.1: ...".

    again: whether another cell's box says so already. Then a line is enough.
    """

    tone, again = "turn", False

    @property
    def exercise(self):
        return str(self).partition(":")[0]

    def told(self):
        exercise, _, rest = str(self).partition(": ")
        if self.again:
            return f"Waits for exercise {exercise}{': ' + rest if ABOVE in rest else ''}"
        return f"Your turn: exercise {exercise}{' · ' + rest if rest else ''}"

    def html(self):
        return re.sub(r' style="[^"]*"', "", super().html()) if self.again else super().html()


def bound_names(source):
    """Return the names that a cell binds at its top level, as a set; none for a cell that is not plain Python."""
    try:
        return names(source)[1]
    except (SyntaxError, ValueError):  # a %magic or !command
        return set()


def translate(error):
    """Return the YourTurn behind error: itself, or the one for a name that a waiting cell would bind; else None."""
    if isinstance(error, YourTurn):
        return error
    if not _is_missing(error) or error.name not in waiting:
        return None
    return YourTurn(f"{waiting[error.name]}: `{error.name}` {ABOVE}")


def not_run_yet(error):
    """Return two lines that say how to come back, if a cell of this notebook binds the missing name; else None."""
    codes = ["".join(cell["source"]) for cell in places.notebook()["cells"] if cell["cell_type"] == "code"]
    if not _is_missing(error) or not any(error.name in bound_names(code) for code in codes):
        return None
    return [
        f"`{error.name}` comes from a cell that has not been run in this kernel.",
        "Choose Kernel ▸ Restart Kernel and Run up to Selected Cell… in the menu; your answers are kept.",
    ]


def _is_missing(error):  # a free variable is a local of the learner's own function
    return isinstance(error, NameError) and "free variable" not in str(error)


def from_before(exercise, answer):
    """Whether an answer is older than the last run of its exercise's cell, which Python could not read."""
    return id(answer) in _unread.get(exercise, ())


def install():
    """Install the hook into the running IPython shell, if there is one and it has none."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or getattr(shell, "_lessonkit_hook", False):
        return
    shell._lessonkit_hook = True
    cell = {"source": "", "id": None}

    def before_cell(info):
        cell["source"] = info.raw_cell or ""
        cell["id"] = getattr(info, "cell_id", None) or cell["source"]
        if words := above_output.get(getattr(info, "cell_id", None)):
            _display(words, words, "text/markdown")

    def handler(shell, kind, error, traceback, tb_offset=None):
        mine = translate(error) or error
        if isinstance(mine, YourTurn) and "\n" not in str(mine):  # else a note follows that has to be read
            mine.again = _asked.setdefault(mine.exercise, cell["id"]) != cell["id"]
        lines = mine.show() if isinstance(mine, Told) else not_run_yet(error)
        if isinstance(mine, YourTurn):
            # A blank at top level names what it would have bound: "...: a = ..."
            for name in [*bound_names(cell["source"]), *re.findall(r"(\w+) = \.\.\.", str(error))]:
                waiting.setdefault(name, mine.exercise)
        if lines:
            shell._showtraceback(type(mine), mine, lines)
        else:  # a NameError of the learner's own
            shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)
        return lines

    def after_cell(result):
        if result.success:  # what this cell has bound waits no longer
            for name in bound_names(cell["source"]):
                waiting.pop(name, None)
        for card in CARD.finditer(cell["source"]):
            _unread.pop(card[1], None)
            if isinstance(result.error_before_exec, SyntaxError):
                _unread[card[1]] = set(map(id, shell.user_ns.values()))

    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)
    shell.set_custom_exc((Told, NameError), handler)

"""How a message looks in a notebook: green for right, blue for your turn, red for not yet, wrapped between words.

JupyterLab breaks a long line anywhere, also inside a word, so lines end at 95 characters here. Outside a notebook
(tests, a grader) a message stays one plain line.
"""

import sys
import textwrap

COLORS = {"right": "\x1b[32m", "turn": "\x1b[34m", "not yet": "\x1b[31m"}  # ANSI's, which follow the theme
WIDTH = 95


def in_notebook():
    """Whether this runs in a kernel that a notebook shows."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def wrapped(text, tone):
    """Return the lines of a message, its first words in the colour of its tone ("right", "turn" or "not yet")."""
    lines = [part for line in text.split("\n") for part in _wrap(line)]
    head, mark, rest = _head(lines[0])
    return [f"{COLORS[tone]}{head}{mark}\x1b[0m{rest}", *lines[1:]]


def _wrap(line):
    return textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _head(line):
    """Split a line after its first "Right:", "Not yet." or "Your turn:"."""
    for mark in (":", "."):
        head, found, rest = line.partition(mark)
        if found and len(head) <= 10:
            return head, found, rest
    return line, "", ""


def accept(text):
    """Say that an answer is right: print text, which begins with "Right"."""
    print("\n".join(wrapped(text, "right")) if in_notebook() else text)


class Told:
    """An error whose text says all that a learner needs: a notebook shows it without the lines of code above it."""

    def _render_traceback_(self):
        return wrapped(str(self), "not yet")

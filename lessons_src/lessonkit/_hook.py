"""What a notebook shows while exercises wait: one box instead of a traceback.

A blank exercise raises YourTurn. The cells below it that need its result would fail with a NameError; the hook
remembers which names a waiting cell would have bound and turns such a NameError into YourTurn as well.
"""

import re

from lessonkit import _work
from lessonkit._boxes import Told
from lessonkit.program import names

CARD = re.compile(r"^# Exercise (\d+\.\d+)\b", re.MULTILINE)


class YourTurn(Told):
    """A part of the lesson that the learner has not written yet. Its text starts with the exercise: "3.1: ..."."""

    tone = "turn"

    @property
    def exercise(self):
        return str(self).partition(":")[0]

    def told(self):
        exercise, _, rest = str(self).partition(":")
        return f"Your turn: exercise {exercise}{' · ' + rest.strip() if rest.strip() else ''}"


waiting = {}  # name -> exercise that would have bound it
_unread = {}  # exercise whose cell Python could not read when it was run last -> ids of what the kernel held then


def bound_names(source):
    """Return the names that a cell binds at its top level, as a set; none for a cell that is not plain Python."""
    try:
        return names(source)[1]
    except (SyntaxError, ValueError):  # a %magic or !command: it binds nothing that a lesson relies on
        return set()


def translate(error):
    """Return the YourTurn behind error: itself, or the one for a name that a waiting cell would bind; else None."""
    if isinstance(error, YourTurn):
        return error
    if not isinstance(error, NameError) or error.name not in waiting or "free variable" in str(error):
        return None  # a free variable is a local of the learner's own function
    where = "comes from a cell above that waits; answer the exercise, then run that cell again"
    return YourTurn(f"{waiting[error.name]}: `{error.name}` {where}")


def not_run_yet(error):
    """Return two lines that say how to come back, if a cell of this notebook binds the missing name; else None.

    After a restart, or on the next day, the cells above an exercise have not been run in the new kernel.
    """
    if not isinstance(error, NameError) or "free variable" in str(error):
        return None
    codes = ["".join(cell["source"]) for cell in _work.notebook()["cells"] if cell["cell_type"] == "code"]
    if not any(error.name in bound_names(code) for code in codes):
        return None
    return [
        f"`{error.name}` comes from a cell that has not been run in this kernel.",
        "Choose Kernel ▸ Restart Kernel and Run up to Selected Cell… in the menu; your answers are kept.",
    ]


def from_before(exercise, answer):
    """Whether an answer is older than the last run of its exercise's cell, which Python could not read."""
    return id(answer) in _unread.get(exercise, ())


def install():
    """Install the hook into the running IPython shell; outside IPython do nothing. Installing twice changes nothing."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None or getattr(shell, "_lessonkit_hook", False):
        return
    shell._lessonkit_hook = True
    cell = {"source": ""}

    def before_cell(info):
        cell["source"] = info.raw_cell or ""

    def handler(shell, kind, error, traceback, tb_offset=None):
        mine = translate(error) or error
        lines = mine.show() if isinstance(mine, Told) else not_run_yet(error)
        if isinstance(mine, YourTurn):
            # A blank at top level names what it would have bound: "replace this line by your answer: a = ..."
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
        for exercise in CARD.findall(cell["source"]):
            _unread.pop(exercise, None)
            if isinstance(result.error_before_exec, SyntaxError):
                _unread[exercise] = set(map(id, shell.user_ns.values()))

    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)
    shell.set_custom_exc((Told, NameError), handler)

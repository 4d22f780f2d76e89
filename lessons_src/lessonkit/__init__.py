"""What every lesson leans on: checks, data, figures, a training loop, recorded runs.

The parts that compute set torch's threads from the environment variable LESSON_THREADS (default 1), see _threads. The
package alone imports no torch: `python -m lessonkit.progress` needs none.
"""

import importlib

from lessonkit import _hook, _work, attempts
from lessonkit._boxes import in_notebook

_hook.install()
attempts.install()


def _after_the_first_cell():
    """Let a learner's kernel bring back what was kept from its lesson, when the cell that has imported this ends."""
    if _work.folder() is None or not in_notebook():
        return
    from IPython import get_ipython

    shell = get_ipython()

    def once(result):
        shell.events.unregister("post_run_cell", once)
        importlib.import_module("lessonkit.mine").bring_back(shell.user_ns)

    shell.events.register("post_run_cell", once)


_after_the_first_cell()

__all__ = ["show"]


def __getattr__(name):
    if name == "show":
        from lessonkit.numbers import show

        return show
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

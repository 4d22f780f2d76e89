"""What every lesson leans on: checks, data, figures, a training loop, recorded runs.

The parts that compute set torch's threads from the environment variable LESSON_THREADS (default 1), see _threads. The
package alone imports no torch: `python -m lessonkit.progress` needs none.
"""

from lessonkit import _hook, attempts

_hook.install()
attempts.install()

__all__ = ["show"]


def __getattr__(name):
    if name == "show":
        from lessonkit.numbers import show

        return show
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What every lesson leans on: checks, data, figures, a training loop, records of many runs.

The parts that compute set torch's threads from the environment variable LESSON_THREADS (default 1), see _threads. The
package alone imports no torch: `python -m lessonkit.progress` needs none.

fromscratch, what the lessons have built, imports lessonkit.data. So lessonkit imports names of fromscratch only when a
learner asks for them.
"""

from lessonkit import attempts, shown

__all__ = ["show"]


def __getattr__(name):
    if name == "show":
        from lessonkit.numbers import show

        return show
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


shown.install()
attempts.install()

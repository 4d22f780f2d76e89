"""What every lesson leans on: checks, data, figures, a training loop, recorded runs.

Importing it sets torch's threads from the environment variable LESSON_THREADS (default 1): the small operations of
these lessons are up to ten times slower with two threads on two busy cores.
"""

import os

import torch

threads = os.environ.get("LESSON_THREADS", "1")
if not threads.isdigit() or int(threads) < 1:
    raise ValueError(f"LESSON_THREADS is {threads!r}, expected a whole number of at least 1. Unset it, or set it to 1.")
torch.set_num_threads(int(threads))

from lessonkit import _hook  # noqa: E402
from lessonkit.numbers import show  # noqa: E402

_hook.install()

__all__ = ["show"]

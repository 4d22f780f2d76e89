"""One thread for torch, or as many as LESSON_THREADS says: each module that computes imports this one.

The small operations of these lessons are up to ten times slower with two threads on two busy cores.
"""

import os

import torch

threads = os.environ.get("LESSON_THREADS", "1")
if not threads.isdigit() or int(threads) < 1:
    raise ValueError(f"LESSON_THREADS is {threads!r}, expected a whole number of at least 1. Unset it, or set it to 1.")
torch.set_num_threads(int(threads))

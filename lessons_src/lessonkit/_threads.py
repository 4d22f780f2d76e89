"""One thread for torch, or as many as LESSON_THREADS says: each module that computes imports this one.

The small operations of these lessons are up to ten times slower with two threads on two busy cores.
"""

import os

import torch

torch.set_num_threads(int(os.environ.get("LESSON_THREADS", "1")))

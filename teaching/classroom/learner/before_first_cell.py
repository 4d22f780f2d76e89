"""Run by each kernel of a class before its first cell: what `make lab`'s kernels run, and a word on the memory."""

import contextlib
import os
import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).resolve().parents[1] / "lessons_src/lab_settings/startup.py"), globals())


def _say_the_limit(result):
    """After a cell that ran out of memory, say how much there is and what frees some."""
    error = result.error_in_exec
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        limit = int(os.environ["CLASS_MEMORY"]) / 2**30
        print(
            f"On this class's machine a kernel has {limit:.3g} GB, and this cell asked for more than was left of it. "
            "Smaller tensors need less; Kernel ▸ Restart Kernel… frees all that this kernel holds."
        )


get_ipython().events.register("post_run_cell", _say_the_limit)  # noqa: F821 - there in every kernel
with contextlib.suppress(AttributeError):  # a port of ipykernel's, for what child processes print, takes all that comes
    _iopub = get_ipython().kernel.iopub_thread  # noqa: F821
    _iopub._pipe_flag = False
    _iopub.io_loop.add_callback(_iopub._pipe_in.close)

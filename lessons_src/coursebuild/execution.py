"""Run a notebook in a kernel of its own, and name the cell at which one hangs or dies."""

import os
import tempfile
import time

from coursebuild import budgets

# With these PyTorch, MKL and oneDNN compute with other kernels, as they do on another processor: sums are taken in
# another order, and last digits differ.
OTHER_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def execute(lesson, made, folder, **settings):
    """Run a notebook in place, errors included. Return {index of a code cell: its seconds}.

    settings: environment variables of the kernel, beside the usual ones.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError
    from traitlets.config import Config

    config = Config()
    seconds, started = {}, {}
    with tempfile.TemporaryDirectory() as sockets:
        if os.name == "posix":  # keeps the kernel's warning about TCP out of the log
            config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{sockets}/kernel"
        client = NotebookClient(
            made,
            timeout=budgets.TIMEOUT,
            kernel_name="python3",
            allow_errors=True,
            record_timing=False,
            coalesce_streams=True,
            store_widget_state=False,
            resources={"metadata": {"path": str(folder)}},
            config=config,
            on_cell_start=lambda cell, cell_index: started.update({cell_index: time.perf_counter()}),
            on_cell_executed=lambda cell, cell_index, execute_reply: seconds.update(
                {cell_index: time.perf_counter() - started[cell_index]}
            ),
        )
        try:
            client.execute(env=environment(lesson.root) | settings)
        except CellTimeoutError:
            lesson.fail(
                lesson.cells[max(started)].line, f"the cell ran for more than {budgets.TIMEOUT} s. Make it smaller."
            )
        except (
            RuntimeError
        ) as error:  # nbclient's DeadKernelError is one, and so is what a dead kernel's shutdown raises
            if not started:
                lesson.fail(1, f"no kernel could be started ({error}). Try: python -m ipykernel --version")
            lesson.fail(
                lesson.cells[max(started)].line, "the kernel died in this cell. Look for an exit, or too much memory."
            )
    return seconds


def environment(root):
    """Return the environment of a process that uses this course's own lessonkit and fromscratch, and no learner's."""
    path = [str(root / "lessons_src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "LESSON_WORK": "off"}


def errors(cell):
    return [(out.ename, out.evalue) for out in cell.get("outputs", []) if out.output_type == "error"]

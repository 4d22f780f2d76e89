"""A notebook in a kernel and in its file: run it, make what it has put out the same on every day, or refuse it."""

import difflib
import hashlib
import json
import os
import re
import tempfile
import time

from coursebuild.source import LessonError, environment

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# With these PyTorch, MKL and oneDNN compute with other kernels, as they do on another processor: sums are taken in
# another order, and last digits differ.
OTHER_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
TIMEOUT = 600  # a cell that runs for more seconds is stopped, and its lesson is not built
WIDGET = "application/vnd.jupyter.widget-view+json"
NOT_COMPARED = {"image/png", "image/jpeg", WIDGET}
IGNORED = "nbval-ignore-output"
SCRIPT = "(?s)<script.*?</script>"  # of an explorable (lessonkit.explore): its picture is stored and compared, not this


# ------------------------------------------------------------------------------------------------------------ a kernel


def execute(lesson, book, folder, **settings):
    """Run a notebook in place, errors included. Return {index of a code cell: its seconds}.

    settings: environment variables of the kernel, beside the usual ones. A cell that hangs or dies stops the lesson.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError
    from traitlets.config import Config

    config, seconds, started = Config(), {}, {}

    def executed(cell, cell_index, execute_reply):
        seconds[cell_index] = time.perf_counter() - started[cell_index]

    with tempfile.TemporaryDirectory() as sockets:
        if os.name == "posix":  # keeps the kernel's warning about TCP out of the log
            config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{sockets}/kernel"
        client = NotebookClient(
            book,
            timeout=TIMEOUT,
            kernel_name="python3",
            allow_errors=True,
            record_timing=False,
            coalesce_streams=True,
            store_widget_state=False,
            resources={"metadata": {"path": str(folder)}},
            config=config,
            on_cell_start=lambda cell, cell_index: started.update({cell_index: time.perf_counter()}),
            on_cell_executed=executed,
        )
        try:
            client.execute(env=environment(lesson.root) | settings)
        except (CellTimeoutError, RuntimeError) as error:  # the latter from a dead kernel, also from its shutdown
            why = "the kernel died in this cell. Look for an exit, or too much memory."
            if isinstance(error, CellTimeoutError):
                why = f"the cell ran for more than {TIMEOUT} s. Make it smaller."
            lesson.fail(lesson.cells[max(started, default=0)].line, why)
    return seconds


# ------------------------------------------------------------------------------------------------------------- outputs


def errors(cell):
    """Return the errors that a cell has raised, as pairs (its type, its text)."""
    return [(out.ename, out.evalue) for out in cell.get("outputs", []) if out.output_type == "error"]


def clean(lesson, cell, source):
    """Make the outputs of a run cell reproducible; refuse those that cannot be."""
    tags = cell.metadata.get("tags", [])
    ignored, kept = IGNORED in tags, []
    for out in cell.outputs:
        data = out.get("data", {})
        if out.output_type == "stream" and out.name == "stderr":
            lesson.fail(source.line, f"the cell writes to stderr: {out.text.strip()[:300]!r}. Mend its cause.")
        if re.search(r"\d%\||\dit \[", data.get("text/plain", "")) and not ignored:
            lesson.fail(source.line, "the cell shows a progress bar. Add the tag nbval-ignore-output.")
        if data.pop(WIDGET, None) and ignored:
            continue  # a progress bar: its stored text would stay at 0 %
        if "text/html" in data:
            data["text/html"] = re.sub(SCRIPT, "", data["text/html"])
        if out.output_type == "error":
            out["traceback"] = [f"{out.ename}: {out.evalue}"]
        out.get("metadata", {}).pop("execution", None)
        shown = [out.get("text", ""), out.get("evalue", ""), *(data[kind] for kind in data if "image" not in kind)]
        if re.search(r"\b0x[0-9a-f]{6,}", json.dumps(shown)) and not ignored:
            lesson.fail(source.line, "the output holds a memory address, which differs. Show something else.")
        kept.append(out)
    cell.outputs = [] if "timed" in tags else kept
    cell.metadata.pop("execution", None)


def compared(cell):
    """Return what nbval compares of a cell that was run and cleaned: {stream, type or part of an error: its texts}."""
    kept = {}
    if IGNORED not in cell.metadata.get("tags", []):
        for out in cell.get("outputs", []):
            texts = {out.name: out.text} if out.output_type == "stream" else out.get("data", out)
            for kind in texts.keys() - NOT_COMPARED - {"output_type", "traceback"}:
                kept.setdefault(kind, []).append(texts[kind])
    return kept


def refuse_moved(lesson, cell, other, source):
    """Refuse an output that differs where the math libraries use other kernels: both cells were run and cleaned."""
    here, there = compared(cell), compared(other)
    for kind in sorted(here.keys() | there.keys()):
        if here.get(kind) == there.get(kind):
            continue
        texts = ["\n".join(map(str, run.get(kind, []))).splitlines() for run in (here, there)]
        lines = list(difflib.ndiff(*texts))
        first, second = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        lesson.fail(
            source.line,
            f"the output depends on the processor. Here it has {first!r}, with other kernels of the math libraries "
            f"{second!r}. Round a number that moves to what holds, draw it, or assert it with its margin.",
        )


# -------------------------------------------------------------------------------------------------------------- a file


def stored(book):
    """Return the text of a notebook's file."""
    return json.dumps(book, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def fingerprint(book):
    """Return the SHA-256 of a notebook's cells: type and text, not tags and outputs."""
    return hashlib.sha256(json.dumps([[c["cell_type"], text_of(c)] for c in book["cells"]]).encode()).hexdigest()


def text_of(cell):
    """Return the text of a cell of a stored notebook, which may be a list of lines."""
    return "".join(cell["source"])


def refuse_edited(path, root):
    """Refuse to overwrite a notebook whose cells are not those that were written here."""
    if not path.exists():
        return
    name = path.relative_to(root).as_posix()
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        mine = old["metadata"]["lesson"]["cells"] == fingerprint(old)
    except (ValueError, KeyError, TypeError):
        mine = False
    if not mine:
        raise LessonError(
            f"{name}: its cells are not those that coursebuild wrote, so it is not overwritten. To keep them: "
            f"mkdir -p work && cp {name} work/mine_{path.name}. Then delete {name} and build again. "
            "A lesson is changed in lessons_src/lessons."
        )

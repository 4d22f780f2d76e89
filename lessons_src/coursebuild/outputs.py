"""Make what a cell has put out the same in every run, or refuse it."""

import difflib
import json
import re

from coursebuild.source import BEGIN, END

WIDGET = "application/vnd.jupyter.widget-view+json"
NOT_COMPARED = {"image/png", "image/jpeg", WIDGET}


def place(cell, source):
    """Return the line of the source at which a run solutions cell raised, as far as its traceback tells."""
    shown = "\n".join(line for out in cell.outputs if out.output_type == "error" for line in out.traceback)
    line_named = re.search(r"Cell In\[\d+\], line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", shown))
    kept = [
        number
        for number, line in enumerate(source.source.splitlines(), source.line + 1)
        if not BEGIN["code"].fullmatch(line.rstrip()) and not END["code"].fullmatch(line.rstrip())
    ]
    line = (
        int(line_named[1]) - ("hide-input" in source.tags) if line_named else 0
    )  # a folded cell begins with a line of its own
    return kept[line - 1] if 0 < line <= len(kept) else source.line


def clean(lesson, cell, source):
    """Make the outputs of a run cell reproducible; refuse those that cannot be."""
    tags = cell.metadata.get("tags", [])
    kept = []
    for out in cell.outputs:
        data = out.get("data", {})
        if out.output_type == "stream" and out.name == "stderr":
            lesson.fail(source.line, f"the cell writes to stderr: {out.text.strip()[:300]!r}. Mend its cause.")
        if re.search(r"\d%\||\dit \[", data.get("text/plain", "")) and "nbval-ignore-output" not in tags:
            lesson.fail(
                source.line,
                "the cell shows a progress bar. Add the tag nbval-ignore-output: then none of it is stored.",
            )
        if WIDGET in data:
            if "nbval-ignore-output" in tags:
                continue  # a progress bar: its stored text would stay at 0 %
            del data[WIDGET]
        if out.output_type == "error":
            out["traceback"] = [f"{out.ename}: {out.evalue}"]
        out.get("metadata", {}).pop("execution", None)
        shown = [out.get("text", ""), out.get("evalue", ""), *(data[kind] for kind in data if "image" not in kind)]
        if re.search(r"\b0x[0-9a-f]{6,}", json.dumps(shown)) and "nbval-ignore-output" not in tags:
            lesson.fail(
                source.line, "the output holds a memory address, which differs in every run. Show something else."
            )
        kept.append(out)
    cell.outputs = [] if "timed" in tags else kept
    cell.metadata.pop("execution", None)


def compared(cell):
    """Return what nbval compares of a cell that was run and cleaned: {stream, type or part of an error: its texts}."""
    kept = {}
    if "nbval-ignore-output" not in cell.metadata.get("tags", []):
        for out in cell.get("outputs", []):
            texts = {out.name: out.text} if out.output_type == "stream" else out.get("data", out)
            for kind in texts.keys() - NOT_COMPARED - {"output_type", "traceback"}:
                kept.setdefault(kind, []).append(texts[kind])
    return kept


def refuse_moved(lesson, cell, other, source):
    """Refuse an output that differs where the math libraries use other kernels: both cells were run and cleaned."""
    here, there = compared(cell), compared(other)
    for kind in sorted(here.keys() | there.keys()):
        texts = ["\n".join(map(str, run.get(kind, []))).splitlines() for run in (here, there)]
        lines = list(difflib.ndiff(*texts))
        if here.get(kind) != there.get(kind):
            differ = ["\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+"]
            lesson.fail(
                source.line,
                f"the output depends on the processor. Here it has {differ[0]!r}, with other kernels of the math "
                f"libraries {differ[1]!r}. Round a number that moves to what holds, draw it, or assert it with its "
                "margin.",
            )

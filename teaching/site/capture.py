"""Run the cells with widgets once, in the learners' environment, and keep what every position of them shows.

    .venv/bin/python -m teaching.site.capture          those of lessons that changed       (part of make site)
    .venv/bin/python -m teaching.site.capture 06       those of lesson 6

Kept in build/frames, a folder for each cell. A lesson whose notebooks did not change since is left alone.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from coursebuild import execution
from lessonkit import course
from teaching import material
from teaching.site import sliders

TIMEOUT = 900  # seconds a cell
LAST = """
import pathlib
from teaching.site import sweep
sweep.sweep(box_of_the_site, pathlib.Path({folder!r}))
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="numbers of lessons, captured changed or not")
    names = parser.parse_args(arguments).names
    for stem, lesson in course.lessons().items():
        for cell in lesson.code:
            wanted = stem[:2] in names if names else not current(stem, cell)
            if isinstance(cell, course.Code) and cell.sliders and wanted:
                start = time.perf_counter()
                count = capture(stem, cell.id)
                print(f"{stem}: {count} positions of its widgets in {time.perf_counter() - start:.0f} s", flush=True)
    return 0


def current(stem, cell):
    """Whether the cell was captured from the lesson as it is."""
    mark = sliders.FRAMES / cell.id / "digest"
    return mark.exists() and mark.read_text() == material.digest(stem)


def capture(stem, ident):
    """Run a lesson up to a cell with widgets and keep all positions of them; return how many there are."""
    sources = {cell.id: cell for cell in course.solved(stem).code}
    before = list(sources)[: list(sources).index(ident)]
    cells = [nbformat.v4.new_code_cell(sources[i].solved, metadata={"tags": sources[i].tags}) for i in before]
    *lines, last = sources[ident].source.rstrip().splitlines()
    folder = sliders.FRAMES / ident
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines += [f"box_of_the_site = {last}", LAST.format(folder=str(folder))]
    cells.append(nbformat.v4.new_code_cell("\n".join(lines)))
    made = nbformat.v4.new_notebook(cells=cells)
    environment = execution.environment(material.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([str(material.ROOT), environment["PYTHONPATH"]])
    config = Config()
    with tempfile.TemporaryDirectory() as sockets:
        if os.name == "posix":  # keeps the kernel's warning about TCP out of the log
            config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{sockets}/kernel"
        place = {"metadata": {"path": str(material.ROOT / "notebooks")}}
        client = NotebookClient(made, timeout=TIMEOUT, kernel_name="python3", resources=place, config=config)
        client.execute(env=environment)
    (folder / "digest").write_text(material.digest(stem))
    return len(sliders.load(folder)["rows"])


if __name__ == "__main__":
    sys.exit(main())

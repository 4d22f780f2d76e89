"""Explorables on a page without a kernel: the module that JupyterLab runs, and its picture where no script runs."""

import html
import json
import subprocess
from pathlib import Path

from teaching import material

MODULES = material.ROOT / "lessons_src/lessonkit/explore"
HOST = Path(__file__).with_name("sphinx") / "_static/explore.js"
NAMES = sorted(path.stem for path in MODULES.glob("*.svg") if "-" not in path.stem)  # a module has a picture


def bundle(name, folder):
    """Write NAME.js to a folder: the module as a script that a page opened from a disk may load as well."""
    program = material.PACKAGES / ".bin/esbuild"
    options = ["--bundle", "--minify", "--format=iife", f"--global-name=explorables.{name}", "--log-level=warning"]
    subprocess.run([program, MODULES / f"{name}.mjs", *options, f"--outfile={folder / name}.js"], check=True)


def still(name):
    """Return the stored picture of an explorable at its start as SVG."""
    return (MODULES / f"{name}.svg").read_text(encoding="utf-8")


def place(name, state=None, picture=""):
    """Return the HTML that explore.js fills with an explorable. state: parameters that differ from its start.

    Until then, and for good where no script runs, its picture is shown: SVG, of its start where none is named.
    """
    picture = " ".join((picture or still(name)).split())  # an empty line would end the HTML in Markdown
    parameters = html.escape(json.dumps(state or {}))
    return (
        f'<div class="explorable" data-explore="{name}" data-state="{parameters}">{picture}</div>'
        f'<script defer src="_static/explore/{name}.js"></script>'
    )

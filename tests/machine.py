"""build.py for the tests, as `machine`: loaded from its path, since nothing imports it as `build`."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "lessons_src/lessons").glob("*.py"))

_spec = importlib.util.spec_from_file_location("course_machine", ROOT / "lessons_src/build.py")
machine = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machine)
